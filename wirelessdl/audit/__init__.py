"""The audit of a scenario: checks of the real engine, and trials with a canary in one node, attack beside proof.

Views, and what the attacker knows in each:

    own    everything that node j sends in the first rounds, and what it held before each step; beside it the ledger's
           proven total of these rounds. Full batches and shuffled epochs: the batch itself. Poisson sampling: the other
           samples of the batch. Without replacement: the sampling rate alone. So much is allowed by each proof. Noise
           that pairs share is known: all other nodes collude.
    coalition   where pairs share noise: everything that anyone sends in the first rounds, all un-noised models but
           j's, and all noise that touches one of c colluding nodes; beside it the ledger's proven total of that view.

Beside the attack stand checks of conditions that the proof rests on (`wirelessdl.audit.checks`): the attacker is handed
what the engine holds, and assumes the law that is declared, so an attack alone would not see either broken.

A run that is sound fails the audit with probability at most `doubt` for each view.
"""

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.audit.canary import (
    MIN_TRIALS,
    Canary,
    Evidence,
    attack_epsilon,
    candidates,
    cut,
    planted,
    sender_claim,
    weigh,
)
from wirelessdl.audit.checks import Check, run_checks
from wirelessdl.audit.recording import Recording, record, same_frames
from wirelessdl.audit.wiretap import CANARY, CanaryTrial, Knowledge, Scores
from wirelessdl.errors import ScenarioError, UnsoundError
from wirelessdl.families import member
from wirelessdl.learning.runtime import use_threads
from wirelessdl.learning.sampling import Sampler
from wirelessdl.privacy.terms import PrivacyAssumptions, Proven
from wirelessdl.run.build import build
from wirelessdl.scenario.schema import Scenario
from wirelessdl.streams import Streams

DOUBT = 0.05
_FIRST_REHEARSAL = 1 << 31  # number of its streams: beyond all trials
_FIRST_CHECK = 3 << 30  # likewise of checks
_FULL_SAMPLES = 64  # samples of a node under full batches: epsilon does not depend on it, time does
_FRACTION_SAMPLES = 256  # samples of a node whose batch is a share of them: the sampling rate stays
_BATCHES_PER_NODE = 4  # samples of a node, in batches, where batches are drawn
_TRIALS_PER_TASK = 25  # that a process takes at a time


@dataclass(frozen=True)
class AuditOptions:
    """How much to try. samples: most samples of a node, None for a default; node: None for the one charged most.

    coalition: nodes that collude in the attack, None for as many as are promised.
    """

    trials: int = 4000
    rounds: int = 20
    workers: int = 1
    node: int | None = None
    samples: int | None = None
    coalition: int | None = None


@dataclass(frozen=True, eq=False)
class AuditJob:
    """All that a process needs to run trials."""

    scenario: Scenario
    rounds: int
    node: int
    samples: int | None
    canary: Canary
    knowledge: Knowledge
    coalition: tuple[int, ...] | None = None  # nodes that collude, where pairs share noise


@dataclass(frozen=True, eq=False)
class TrialScores:
    """Scores of every trial, `[trials]`: which data set it ran on, and all views' log-likelihood ratios."""

    with_canary: BoolArray
    own: FloatArray
    coalition: FloatArray


@dataclass(frozen=True, kw_only=True)
class ViewAudit:
    """One view: epsilon that the attack reached and epsilon that is claimed, both at delta.

    adversary: against whom it is claimed, in words; coalition: the nodes that colluded in the attack, where some did.
    """

    view: Proven
    adversary: str
    coalition: tuple[int, ...] | None = None
    attack: float
    proven: float
    delta: float
    evidence: Evidence

    @property
    def sound(self) -> bool:
        return self.attack <= self.proven


@dataclass(frozen=True)
class AuditReport:
    """An audit: what was tried, and what each view shows. samples: of the node; sampling_rate: its q."""

    node: int
    nodes: int
    rounds: int
    trials: int
    samples: int
    scenario_samples: int
    sampling_rate: float
    canary: str
    reach: float  # mu of the canary over mu that is charged, if it were in every batch; 1 is the worst case
    confidence: float
    views: tuple[ViewAudit, ...]
    checks: tuple[Check, ...]

    @property
    def sound(self) -> bool:
        return all(view.sound for view in self.views) and all(check.sound for check in self.checks)


def audit_scenario(
    scenario: Scenario, options: AuditOptions, on_progress: Callable[[int], None] = lambda _: None
) -> AuditReport:
    """Attack the first rounds of a scenario. Raises one clear line for what cannot be audited."""
    _refuse(scenario, options)
    samples = options.samples or _samples(scenario)
    whole = build(scenario, device="cpu")
    world = build(scenario, device="cpu", plant=cut(samples))
    recording = record(world, options.rounds)
    terms, sampler = world.terms, world.learning.sampler
    node = int(np.argmax(recording.totals[terms.promised])) if options.node is None else options.node
    proven = float(recording.totals[terms.promised][node])
    if not 0 < proven < np.inf:
        what = "is infinite" if proven else "is 0: it sends nothing that depends on its data"
        raise ScenarioError(
            f"{scenario.origin}: the proven total of node {node} over {options.rounds} rounds {what}; nothing to audit"
        )
    if world.learning.remembered is not None:
        raise ScenarioError(
            f"{scenario.origin}: learning.model remembers batch statistics beside its weights; the audit cannot know "
            "what a node would send: use a model without them"
        )
    members = None
    if terms.shares_noise:
        members = recording.worst_coalition(node, options.coalition or terms.coalition)
    jobs = [
        AuditJob(scenario, options.rounds, node, samples, canary, _knowledge(terms), members)
        for canary in candidates(whole.data, whole.client_indices[node], across=scenario.privacy.gram_share > 0)
    ]
    job, trial = _rehearse(jobs, recording)
    checks = run_checks(trial.engines, recording, node, lambda number: trial_streams(scenario, _FIRST_CHECK + number))
    trials = run_trials(job, trial, options.trials, options.workers, on_progress)
    views = [_sender_audit(job, recording, trials, terms, sampler, proven_view) for proven_view in recording.totals]
    return AuditReport(
        node=node,
        nodes=world.nodes,
        rounds=options.rounds,
        trials=options.trials,
        samples=len(world.client_indices[node]),
        scenario_samples=len(whole.client_indices[node]),
        sampling_rate=float(sampler.rate[node]),
        canary=job.canary.name,
        reach=_strength(trial, job) / float(np.sqrt(np.sum(recording.releases(node, "own")[1] ** 2))),
        confidence=1.0 - DOUBT,
        views=tuple(views),
        checks=checks,
    )


def _refuse(scenario: Scenario, options: AuditOptions) -> None:
    origin, learning = scenario.origin, scenario.learning
    if options.trials < MIN_TRIALS:
        raise ScenarioError(
            f"{origin}: --trials is {options.trials}; must be at least {MIN_TRIALS}, thousands say more"
        )
    if not 2 <= options.rounds <= scenario.scenario.rounds:
        raise ScenarioError(
            f"{origin}: --rounds is {options.rounds}; must be from 2, the first round that sends a gradient, to "
            f"scenario.rounds = {scenario.scenario.rounds}"
        )
    if options.workers < 1:
        raise ScenarioError(f"{origin}: --workers is {options.workers}; must be at least 1")
    if options.node is not None and not 0 <= options.node < scenario.network.nodes:
        last = scenario.network.nodes - 1
        raise ScenarioError(f"{origin}: --node is {options.node}; no such node: nodes are 0 to {last}")
    least = 1 if learning.sampling == "full" or learning.batch_fraction else learning.batch_size
    if options.samples is not None and options.samples < least:
        raise ScenarioError(f"{origin}: --samples is {options.samples}; must be at least {least}, a batch")
    if options.coalition is not None:
        module = member("mechanism", scenario.privacy.noise.name)
        if module is None or not module.COALITION:
            raise ScenarioError(
                f'{origin}: --coalition is {options.coalition} and privacy.noise "{scenario.privacy.noise.name}"; all '
                "other nodes collude in the attack already: leave it out"
            )
        if not 1 <= options.coalition < scenario.network.nodes:
            raise ScenarioError(
                f"{origin}: --coalition is {options.coalition}; must be from 1 to {scenario.network.nodes - 1}, all "
                "nodes but the one attacked"
            )
    if not (np.isfinite(scenario.privacy.epsilon_max) or np.isfinite(scenario.privacy.epsilon_total)):
        raise ScenarioError(f"{origin}: privacy.epsilon_max is inf; nothing is claimed, so nothing can be audited")
    if scenario.privacy.unit != "sample":
        raise ScenarioError(
            f'{origin}: privacy.unit is "{scenario.privacy.unit}"; the audit replaces one sample: set it to "sample"'
        )
    if learning.augment != "none":
        raise ScenarioError(
            f'{origin}: learning.augment is "{learning.augment}"; the audit cannot know how the canary is changed: '
            'set it to "none"'
        )


def _samples(scenario: Scenario) -> int:
    learning = scenario.learning
    if learning.sampling == "full":
        return _FULL_SAMPLES
    return _FRACTION_SAMPLES if learning.batch_fraction else _BATCHES_PER_NODE * learning.batch_size


def _knowledge(terms: PrivacyAssumptions) -> Knowledge:
    """What the proof behind a total lets the attacker know."""
    if not terms.amplified:
        return "batch"
    return "rest" if terms.sampler == "poisson" and terms.clipping == "per-sample" else "rate"


def _rehearse(jobs: list[AuditJob], expected: Recording) -> tuple[AuditJob, CanaryTrial]:
    """The job whose canary moves what is sent most, made ready."""
    best: tuple[float, AuditJob, CanaryTrial] | None = None
    for job in jobs:
        trial, (without, present) = make_trial(job)
        if not (same_frames(without, present) and same_frames(without, expected)):
            raise UnsoundError(
                f"{job.scenario.origin}: frames, powers or noise were decided differently for two data sets; they must "
                "not depend on data"
            )
        strength = _strength(trial, job)
        if best is None or strength > best[0]:
            best = (strength, job, trial)
    assert best is not None
    return best[1:]


def _strength(trial: CanaryTrial, job: AuditJob) -> float:
    """Mean mu of two rehearsals, one on each data set."""
    runs = (trial.run(with_canary, trial_streams(job.scenario, _FIRST_REHEARSAL)) for with_canary in (False, True))
    return float(np.mean([scores.mu for scores in runs]))


def _sender_audit(
    job: AuditJob, recording: Recording, trials: TrialScores, terms: PrivacyAssumptions, sampler: Sampler, view: Proven
) -> ViewAudit:
    """A proven view of all that the node sends."""
    node = job.node
    evidence = weigh(getattr(trials, view), trials.with_canary, doubt=DOUBT)
    epochs = int(sampler.epoch_rounds[node]) if terms.epoch_rounds else None
    stage = sum(decision.release.stage for decision in recording.decisions)
    claim = sender_claim(terms, float(sampler.rate[node]), *recording.releases(node, view), epochs, stage)
    return ViewAudit(
        view=view,
        adversary=terms.against(view),
        coalition=job.coalition if view == "coalition" else None,
        attack=attack_epsilon(evidence, terms.delta, claim if terms.amplified else None),
        proven=float(recording.totals[view][node]),
        delta=terms.delta,
        evidence=evidence,
    )


# --- trials, in as many processes as wanted; each builds its two engines once


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
    trial = CanaryTrial(engines, without.inputs, job.node, job.knowledge, job.coalition)
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
    pieces = [range(start, min(start + _TRIALS_PER_TASK, count)) for start in range(0, count, _TRIALS_PER_TASK)]
    own, coalition = np.zeros((2, count))
    done = 0
    for piece, found in _each(job, trial, pieces, coin, min(workers, len(pieces))):
        for number, scores in zip(piece, found):
            own[number], coalition[number] = scores.own, scores.coalition
        done += len(found)
        on_progress(done)
    return TrialScores(coin, own, coalition)


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
