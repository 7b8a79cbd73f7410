"""Going on with a run: which scenario, from which round, to which; and whether what changed since then matters."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wirelessdl.analysis.data_split import data_split
from wirelessdl.analysis.releases import recounted_ledger, share_problems, stored_ledger, traced_links
from wirelessdl.arrays import FloatArray
from wirelessdl.errors import ContractError, TraceError, shown
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.scenario.objects import Given, part_overrides, unnumbered
from wirelessdl.scenario.overrides import Overrides, apply_overrides
from wirelessdl.scenario.schema import Scenario
from wirelessdl.trace.checkpoint import Checkpoint, checkpoint_round, load_checkpoint
from wirelessdl.trace.checksums import NAME as CHECKSUMS
from wirelessdl.trace.checksums import Checksums, changed_documents
from wirelessdl.trace.files import leaves, plain
from wirelessdl.trace.lock import RunLock
from wirelessdl.trace.parts import find_parts
from wirelessdl.trace.run import Run, is_traced, open_run
from wirelessdl.trace.sink import RunWriter

_FREE = ("scenario.rounds",)
# what only touches tracing, or the last bits: may pass with force
_HARMLESS = (
    "scenario.description",
    "trace.",
    "learning.eval_every",
    "learning.eval_samples",
    "device",
    "threads",
    "packages.",
    "wirelessdl",
)


@dataclass(frozen=True)
class Resumption:
    """A run to go on with: `stored` as it was, `scenario` as it will be, `home` where its files were found."""

    run: Run
    stored: Scenario
    scenario: Scenario
    home: Path
    done: int

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        rested = self.run.summary.get("stopped") and self.scenario.scenario.rounds == self.stored.scenario.rounds
        return bool(self.run.summary) and bool(rested or self.done >= self.scenario.scenario.rounds)


def resumption(
    path: str | Path,
    *,
    scenario: Scenario | None = None,
    overrides: Overrides = (),
    rounds: int | None = None,
    parts: Mapping[str, Any] | None = None,
    objects: Mapping[str, Given] | None = None,
) -> Resumption:
    """Look at a run; raises one clear line where it cannot go on. Rounds: as asked for, else the most named.

    parts: objects that the run was started with, by what a part is called; objects: by the names in its scenario.
    """
    from wirelessdl.trace import soundness  # loads pyarrow.compute, which a new run can do without

    run = open_run(path)
    problem = next(iter(soundness.document_problems(run)), None)
    if problem is not None:
        raise TraceError(f"{shown(run.path)}: {problem}; the run cannot go on from it")
    home = Path(run.provenance.get("folder", "") or run.path)
    origin = f"{run.path}/scenario.toml"
    stored = parse_scenario(run.scenario, origin=origin, folder=str(home), objects=objects)
    source = scenario or stored
    table, handed = source.to_table(), dict(source.objects)
    apply_overrides(table, overrides, handed)
    apply_overrides(table, part_overrides(parts or {}), handed)
    if rounds is not None:
        table["scenario"]["rounds"] = rounds
    elif not any(str(override).partition("=")[0].strip() == "scenario.rounds" for override in overrides):
        table["scenario"]["rounds"] = max(table["scenario"]["rounds"], stored.scenario.rounds)
    wanted = parse_scenario(table, origin=source.origin, folder=source.folder, objects=handed)
    done = checkpoint_round(run.path)
    least = max(stored.scenario.rounds, done)
    if wanted.scenario.rounds < least:
        raise TraceError(
            f"{shown(run.path)}: rounds is {wanted.scenario.rounds}; must be at least {least}, as many as the run was "
            "started with: its privacy total counts them all, even where it stops early; leave --rounds out to go on"
        )
    return Resumption(run, stored, wanted, home, done)


def require_writable(folder: Path) -> None:
    """Raise where something in a run directory belongs to somebody else: before anything in it is changed."""
    places = [folder, *(path for path in sorted(folder.iterdir()) if path.is_dir())]
    for path in [*places, folder / CHECKSUMS]:
        mode = os.W_OK | os.R_OK | (os.X_OK if path in places else 0)
        if path.exists() and not os.access(path, mode):
            raise TraceError(
                f"{shown(path)}: cannot be written: permission denied; it belongs to another user, or its mode forbids "
                "it: the run goes on where its owner resumes it, or in a copy of your own"
            )


def sound_checkpoint(
    folder: Path, candidates: Sequence[Checkpoint], unsound: Callable[[Mapping[str, Any]], str | None]
) -> Checkpoint | None:
    """The newest checkpoint that an engine, which says what is unsound, can go on from; None where there never was."""
    problem = ""
    for kept in candidates:
        found = unsound(kept.arrays)
        if found is None:
            return kept
        problem = problem or found
    if problem:
        raise TraceError(
            f"{shown(folder)}: no checkpoint fits its scenario: {problem}; remove the folder checkpoint to start the "
            "run over from round 1"
        )
    return None


def require_as_it_was(
    run: Run,
    kept: Checkpoint | None,
    resolved: Scenario,
    now: Mapping[str, Any],
    clients: Mapping[str, Any],
    *,
    spans_run: bool,
    force: bool,
) -> None:
    """Raise unless tables, checkpoint and documents agree, and scenario and origin of today are the run's own."""
    require_whole(run, kept.round if kept is not None else 0)
    scenario, origin = plain(run.scenario), run.provenance
    if kept is not None:
        require_traced(run, kept, clients)
        require_charged(run, kept)
        require_same_origin(run.path, origin, kept.facts["origin"], now)
        scenario, origin = kept.facts["scenario"], kept.facts["origin"]
    refuse_changes(run.path, scenario, origin, resolved, now, spans_run=spans_run, force=force)
    if kept is not None:
        require_same_values(origin, now)


def require_whole(run: Run, done: int) -> None:
    """Raise unless every table can be read up to the checkpoint: what is missing now stays missing."""
    for name in ("rounds", "nodes", "links", "blocks", "events"):
        if not is_traced(run.scenario, name):
            continue
        parts = find_parts(run.path, name, last_round=done)
        if parts.problems:
            raise TraceError(f"{parts.problems[0]}; the run cannot go on without it")
        if parts.last_round < done:
            missing = f"{run.path / name}: rounds {parts.last_round + 1} to {done} are missing"
            raise TraceError(f"{missing}; the run cannot go on without them")


def require_charged(run: Run, kept: Checkpoint) -> None:
    """Raise unless a kept ledger charges senders, and links that are traced, with at least what the traces say.

    Epsilon rests on the ledger alone; the traces are a second witness of every release.
    """
    then = run.up_to(kept.round)
    split = data_split(then)
    again, stored = recounted_ledger(then, split, least=True), stored_ledger(kept, split)
    wrong = next(iter(share_problems(then, split)), None)
    if wrong is not None:
        raise TraceError(f"{shown(run.path)}: {wrong}; it was changed: start the run anew")
    for (view, charged), (_, traced) in zip(stored.views(), again.views()):
        fewer = np.flatnonzero(~charged.charges_at_least(traced))
        if len(fewer):
            node, kept_total, traced_total = int(fewer[0]), charged.total(), traced.total()
            raise TraceError(
                f"{shown(run.path)}: the checkpoint of round {kept.round} charges node {node} with epsilon "
                f"{kept_total[node]:.6g} (view {view}) for {charged.rounds[node]} releases, its traces with "
                f"{traced_total[node]:.6g} for {traced.rounds[node]}; one of them was changed: start the run anew"
            )
    if run.scenario["trace"]["links"] == "none" or not split.terms.counts_links:
        return
    links = stored.link_counts().fewer_than(traced_links(then))
    if len(links):
        rx, tx = divmod(int(links[0]), len(split.rate))
        raise TraceError(
            f"{shown(run.path)}: the checkpoint of round {kept.round} charges the link from node {tx} to node {rx} "
            "with less than its traces do; one of them was changed: start the run anew"
        )


def require_traced(run: Run, kept: Checkpoint, clients: Mapping[str, Any]) -> None:
    """Raise unless the tables up to a checkpoint are whole and agree with it and with the data that is there now.

    clients: the clients table as this scenario and these data make it. What is pending in the checkpoint decides what
    the next transmission is charged with, so it must be what the traces say was computed last.
    """
    from wirelessdl.trace import soundness

    then = run.up_to(kept.round)
    problem = next(iter(soundness.problems_of(then)), None)
    if problem is not None:
        raise TraceError(f"{shown(run.path)}: {problem}; the run cannot go on from it")
    stored = then.clients
    for name in ("samples", "sampling_rate", "sensitivity", "epoch_rounds"):
        if not np.allclose(stored[name].to_numpy(), np.asarray(clients[name]), rtol=1e-9):
            raise TraceError(f"{shown(run.path)}/clients: {name} is not what data and partition give; it was changed")
    gamma, multiplier = _pending_by_traces(then)
    was_zeroed = (kept.arrays["pending_gamma"] == 0) & (kept.arrays["pending_multiplier"] == 0)
    excused = was_zeroed & np.isin(np.arange(len(gamma)), _interrupted(then))
    wrong = ~(
        np.isclose(kept.arrays["pending_gamma"], gamma, rtol=1e-12)
        & np.isclose(kept.arrays["pending_multiplier"], multiplier, rtol=1e-12)
    )
    if (wrong & ~excused).any():
        node = int(np.flatnonzero(wrong & ~excused)[0])
        raise TraceError(
            f"{shown(run.path)}: the checkpoint of round {kept.round} holds another gradient of node {node} than its "
            "traces do; one of them was changed: start the run anew"
        )


def _pending_by_traces(run: Run) -> tuple[FloatArray, FloatArray]:
    """Learning rate and multiplier of each node's newest gradient that it has not sent, `[K]`; 0 for none."""
    count = run.scenario["network"]["nodes"]
    table = run.table("nodes", ["loss", "present", "multiplier", "transmitted"])
    stepped = ~np.asarray(table["loss"].is_null()).reshape(-1, count)  # a gradient was taken where there is a loss
    present = table["present"].to_numpy().reshape(-1, count)
    heard = stepped | (present & table["transmitted"].to_numpy().reshape(-1, count))
    multiplier = table["multiplier"].to_numpy().reshape(-1, count)
    rates = run.rounds["learning_rate"].to_numpy()
    gamma, factor = np.zeros(count), np.zeros(count)
    for row, rate in enumerate(rates):
        gamma = np.where(stepped[row], rate, np.where(heard[row], 0.0, gamma))
        factor = np.where(stepped[row], multiplier[row], np.where(heard[row], 0.0, factor))
    return gamma, factor


def _interrupted(run: Run) -> list[int]:
    """Nodes that lost a gradient for a reason that the events name: a crash, a spent budget or battery."""
    events = run.events
    return [
        int(node) for node in events.loc[events["kind"].isin(["crash", "rejoin", "budget", "battery"]), "node"].dropna()
    ]


def require_same_origin(folder: Path, said: Mapping[str, Any], kept: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise where provenance.json names versions, device, threads or files that no process of the run had.

    kept: as the checkpoint has them; now: as they are, and were where a forced process was killed before it saved.
    """
    stated = dict(leaves(_circumstances(said)))
    if stated in (dict(leaves(_circumstances(origin))) for origin in (kept, now)):
        return
    true = dict(leaves(_circumstances(kept)))
    key = next(key for key in sorted({*stated, *true}) if stated.get(key) != true.get(key))
    raise TraceError(
        f"{shown(folder)}: provenance.json says that {shown(key, 60)} was {shown(_show(stated.get(key)))}, the "
        f"checkpoint {shown(_show(true.get(key)))}; it was edited: restore it"
    )


def require_same_values(kept: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise where a part of learning that was handed in again gives other values; the replay asks all other parts."""
    before = dict(leaves(kept))
    for key, said in now.get("objects", {}).items():
        values, today = before.get(f"objects.{key}.values"), said.get("values", [])
        if isinstance(values, list) and today:
            number = min(len(values), len(today))  # more learning rates in a run that is extended
            if not np.allclose(np.array(values[:number], float), today[:number], rtol=1e-4, equal_nan=True):
                raise ContractError(
                    f"{key} gave other values than before the interruption, so the run cannot go on: hand in what the "
                    "run was started with"
                )


def settle_finished(run: Run) -> None:
    """A process may be killed between its last figures and its last word, or before it listed all of them: do so.

    Raises where scenario.toml, provenance.json or summary.json was changed since it was written.
    """
    changed = changed_documents(run.path)
    if changed and not (len(changed) == 1 and _is_last_word(run)):
        raise TraceError(f"{shown(run.path)}: {changed[0]}; restore it, or start a new run")
    said = run.provenance.get("state") == "done"
    if not changed and said and not (os.access(run.path, os.W_OK) and Checksums(run.path).is_left_open()):
        return
    with RunLock(run.path):
        writer = RunWriter(run.path)
        writer.adopt(run.path / "summary.json")
        if changed or not said:
            writer.provenance({**run.provenance, "state": "done"})
        writer.finish()


def _is_last_word(run: Run) -> bool:
    """Whether provenance.json is unlisted as a process leaves it that is killed right after its last word.

    All but how and when it ended is then what the last checkpoint says.
    """
    kept, said = load_checkpoint(run.path), run.provenance
    if kept is None or said.get("state") != "done":
        return False
    last = {key: said[key] for key in ("state", "finished", "wall_s") if key in said}
    return said == {**plain(kept.facts["origin"]), **last} and "provenance.json" in changed_documents(run.path)[0]


def refuse_changes(
    folder: Path,
    scenario: Mapping[str, Any],
    origin: Mapping[str, Any],
    resolved: Scenario,
    now: Mapping[str, Any],
    *,
    spans_run: bool,
    force: bool,
) -> None:
    """Raise with the differing keys, unless they are harmless and forced.

    scenario, origin: as they were kept; resolved, now: as they are. spans_run: the run is made for its number of
    rounds, so that with another it would have been another from the first round on.
    """
    # both through JSON's eyes: infinities are texts there
    kept = {**_leaves(dict(scenario)), **dict(leaves(_circumstances(origin)))}
    wanted = {**_leaves(resolved.to_table()), **dict(leaves(_circumstances(now)))}
    free = () if spans_run else _FREE
    changed = [key for key in sorted({*kept, *wanted}) if key not in free and kept.get(key) != wanted.get(key)]
    serious = [key for key in changed if not key.startswith(_HARMLESS)]
    if not changed or (force and not serious):
        return
    shown = "; ".join(f"{key} was {_show(kept.get(key))}, is {_show(wanted.get(key))}" for key in serious or changed)
    remedy = "start a new run instead" if serious else "--force goes on, but not to bit-identical tables"
    raise TraceError(f"{folder}: cannot go on as it was: {shown}; {remedy}")


def _leaves(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Values by key; an object that was handed in again is judged by what it gives, not by its number."""
    found = dict(leaves(plain(scenario)))
    return {key: unnumbered(value) if isinstance(value, str) else value for key, value in found.items()}


def _circumstances(origin: Mapping[str, Any]) -> dict[str, Any]:
    return {key: origin.get(key) for key in ("device", "threads", "packages", "wirelessdl", "user_files")}


def _show(value: Any) -> str:
    text = "absent" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:12]}..."


def extensions(run: Run, kept: Checkpoint | None, rounds: int) -> list[int]:
    """Numbers of rounds that a run had been declared with before it was extended to so many.

    By its documents and by its checkpoint: a process may be killed when it has written only one of them anew.
    """
    declared = [run.scenario["scenario"]["rounds"], *_extended(run.provenance)]
    if kept is not None:
        declared += [kept_rounds(kept), *_extended(kept.facts["origin"])]
    return sorted({number for number in declared if 0 < number < rounds})  # a run is never cut short


def kept_rounds(kept: Checkpoint) -> int:
    """Rounds that the process which saved a checkpoint was to run."""
    section = kept.facts["scenario"].get("scenario")
    rounds = section.get("rounds") if isinstance(section, dict) else None
    return rounds if isinstance(rounds, int) else 0  # a stranger may have written it


def _extended(origin: Mapping[str, Any]) -> list[int]:
    said = origin.get("extended")
    return [number for number in said if isinstance(number, int)] if isinstance(said, list) else []


def extension_warning(before: list[int], rounds: int) -> str:
    """What an extension does to the total."""
    steps = " to ".join(str(number) for number in [*before, rounds])
    return (
        f"the run was extended from {steps} rounds, when results could be seen: its total is that of {rounds} rounds, "
        "and a guarantee only if it was never going to be extended further"
    )
