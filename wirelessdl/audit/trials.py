"""Trials in as many processes as wanted; each builds its two engines once."""

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.audit.canary import Canary, planted
from wirelessdl.audit.recording import Recording, record
from wirelessdl.audit.wiretap import CANARY, CanaryTrial, Knowledge, LinkView, Scores
from wirelessdl.errors import ScenarioError
from wirelessdl.learning.runtime import use_threads
from wirelessdl.run.build import build
from wirelessdl.scenario.schema import Scenario
from wirelessdl.streams import Streams

TRIALS_PER_TASK = 25  # that a process takes at a time


@dataclass(frozen=True, eq=False)
class AuditJob:
    """All that a process needs to run trials."""

    scenario: Scenario
    rounds: int
    node: int
    samples: int | None
    canary: Canary
    knowledge: Knowledge
    link: LinkView | None
    coalition: tuple[int, ...] | None = None  # nodes that collude, where pairs share noise


@dataclass(frozen=True, eq=False)
class TrialScores:
    """Scores of every trial, `[trials]`: which data set it ran on, and all views' log-likelihood ratios."""

    with_canary: BoolArray
    own: FloatArray
    coalition: FloatArray
    link: FloatArray


def make_trial(job: AuditJob) -> tuple[CanaryTrial, tuple[Recording, Recording]]:
    """The two worlds of a job, built, and their frames."""
    worlds = [
        build(job.scenario, device="cpu", plant=planted(job.canary, job.node, job.samples, with_canary=with_canary))
        for with_canary in (False, True)
    ]
    if job.scenario.privacy.adjacency == "zero-out":
        try:
            worlds[0].learning.zero_out(int(worlds[0].client_indices[job.node][CANARY]))
        except ValueError as error:
            raise ScenarioError(f"{job.scenario.origin}: {error}; audit it as replace-one neighbours") from None
    without, present = (record(world, job.rounds) for world in worlds)
    engines = (worlds[0].learning, worlds[1].learning)
    trial = CanaryTrial(engines, without.inputs, job.node, job.knowledge, job.link, job.coalition)
    return trial, (without, present)


def trial_streams(scenario: Scenario, number: int) -> Streams:
    """Random streams of a trial: batches and noise; all else is drawn from the scenario's own."""
    section = scenario.scenario
    return Streams(section.seed, (section.run << 32) + number)


def run_trials(
    job: AuditJob, trial: CanaryTrial, count: int, workers: int, on_progress: Callable[[int], None] = lambda _: None
) -> TrialScores:
    """Scores of all trials. trial: used where workers is 1; on_progress: called with the number of trials done."""
    section = job.scenario.scenario
    coin = Streams(section.seed, section.run).draws("audit.coin").integers(0, 2, count).astype(bool)
    pieces = [range(start, min(start + TRIALS_PER_TASK, count)) for start in range(0, count, TRIALS_PER_TASK)]
    own, coalition, link = np.zeros((3, count))
    done = 0
    for piece, found in _each(job, trial, pieces, coin, min(workers, len(pieces))):
        for number, scores in zip(piece, found):
            own[number], coalition[number], link[number] = scores.own, scores.coalition, scores.link
        done += len(found)
        on_progress(done)
    return TrialScores(coin, own, coalition, link)


def _each(
    job: AuditJob, trial: CanaryTrial, pieces: Sequence[range], coin: BoolArray, workers: int
) -> Iterator[tuple[range, list[Scores]]]:
    if workers == 1:
        for piece in pieces:
            yield piece, [trial.run(bool(coin[number]), trial_streams(job.scenario, number)) for number in piece]
        return
    # a fork would copy torch's threads in whatever state they are
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_start, initargs=(job,)) as pool:
        try:
            waiting = {pool.submit(_run, piece, coin[piece.start : piece.stop]): piece for piece in pieces}
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


_here: list[tuple[AuditJob, CanaryTrial]] = []  # of a process that runs trials


def _start(job: AuditJob) -> None:
    sys.stdout = sys.stderr  # standard output is the command's, for its results
    _end_with_parent()
    use_threads(1)
    _here[:] = [(job, make_trial(job)[0])]


def _end_with_parent() -> None:
    """A process whose parent was killed would wait for trials for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="wirelessdl-parent", daemon=True).start()


def _run(piece: range, coin: BoolArray) -> list[Scores]:
    job, trial = _here[0]
    return [trial.run(bool(side), trial_streams(job.scenario, number)) for number, side in zip(piece, coin)]
