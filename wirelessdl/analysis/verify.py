"""Verification of a run directory: files as they were written, numbers that agree with each other.

    files        every file against checksums.txt, every page of every table against its own checksum
    tables       rounds without gaps, one row per node, links only between nodes that exist
    figures      rounds against nodes and links, summary.json against rounds
    epsilon      totals of every proven view (own, coalition) worked out again from the traces, against the privacy
                 table, the summary and the checkpoint; a checkpoint's releases on links against those traced, where
                 links are accounted for; shares of noise that pairs have against who was on air
    checkpoints  gradients still to be sent against the traces; distance of the models from each other and the norms of
                 their gradients against the tables of its round

Nothing of the run is executed and nothing is written.
"""

import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from wirelessdl.analysis.releases import (
    DataSplit,
    data_split,
    pending_gradients,
    recounted_ledger,
    releases_of,
    share_problems,
    stage_rounds,
    stored_ledger,
    traced_links,
)
from wirelessdl.arrays import FloatArray
from wirelessdl.errors import TraceError, quote
from wirelessdl.privacy.terms import PrivacyAssumptions
from wirelessdl.trace.checkpoint import Checkpoint, load_checkpoints, stored_checkpoints
from wirelessdl.trace.files import sha256_of
from wirelessdl.trace.run import Run, open_run, state_of
from wirelessdl.trace.sink import CHECKSUMS as NAME
from wirelessdl.trace.sink import read_checksums
from wirelessdl.trace.soundness import problems_of

_UNLISTED = ("lock", "report.html")  # written by others than the run, or only while it goes on
_TOLERANCE = 1e-6
_MAX_NORM_ERROR = 1e-3  # relative, of norms that the run sums in float32 over all parameters
_MAX_DISTANCE_ERROR = 1e-5  # of a model's norm: what float32 leaves of the difference of two models


@dataclass(frozen=True)
class Verification:
    """What was looked at, and one line for everything that is wrong. notes: what is normal in an unfinished run.

    epsilon_total: the promised total by the traces, against `adversary`; epsilon_own_total: if all other nodes collude.
    """

    state: str
    files: int
    rounds: int
    epsilon_total: float | None
    adversary: str
    adjacency: str
    epsilon_own_total: float | None
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def verify(path: str | Path) -> Verification:
    """Check a run directory. Raises TraceError where there is no run to check."""
    run = open_run(path)
    state = state_of(run.path)
    files, problems, notes = _files(run.path, state)
    rounds, promised, words, adjacency, totals = 0, "", "", "", dict[str, FloatArray]()
    try:
        unsound = list(problems_of(run))
        problems += unsound
        if not unsound:
            rounds, split = len(run.rounds), data_split(run)
            promised, words, adjacency = split.terms.promised, split.terms.adversary, split.terms.adjacency
        if rounds:
            problems += _figures(run, split.terms)
            problems += share_problems(run, split)
            views = recounted_ledger(run, split).views()
            totals = {view: senders.total() if run.summary else senders.bound() for view, senders in views}
            problems += _totals(run, totals, promised)
            for kept in load_checkpoints(run.path):
                of_ledger = chain(checkpoint_problems(kept, run, split), _ledger(kept, run, split))
                for line in chain(_models(kept, run), of_ledger):
                    problems.append(f"checkpoint of round {kept.round}: {line}")
    except (TraceError, KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        problems.append(quote(error, 400) if isinstance(error, TraceError) else f"tables do not agree: {quote(error)}")
    return Verification(
        state,
        files,
        rounds,
        epsilon_total=_largest(totals, promised),
        adversary=words,
        adjacency=adjacency,
        epsilon_own_total=_largest(totals, "own"),
        problems=tuple(dict.fromkeys(problems)),
        notes=tuple(notes),
    )


def _files(folder: Path, state: str) -> tuple[int, list[str], list[str]]:
    """Number of regular files that a run may hold; what is wrong with files, and what is normal while it goes on."""
    listed, problems = read_checksums(folder)
    running, found, notes = state == "running", list[str](), list[str]()
    for path in sorted(folder.rglob("*")):
        name, mode = path.relative_to(folder).as_posix(), path.lstat().st_mode
        hidden = any(part.startswith(".") for part in Path(name).parts)
        if stat.S_ISDIR(mode) or hidden or name in _UNLISTED or name == NAME:
            continue
        if stat.S_ISREG(mode):
            found.append(name)
        else:
            problems.append(f"{quote(name)}: is neither a file nor a folder")
    for name, digest in sorted(listed.items()):
        try:
            if sha256_of(folder / name) != digest and not running:
                problems.append(f"{quote(name)}: differs from its checksum")
        except FileNotFoundError:
            if not running:  # then files come and go
                problems.append(f"{quote(name)}: is missing")
        except OSError as error:
            problems.append(f"{quote(name)}: cannot be read: {error.strerror}")
    for name in sorted({*found} - {*listed}):
        normal = running or (state != "done" and _may_be_unlisted(name, found))
        (notes if normal else problems).append(f"{quote(name)}: is not listed in {NAME}")
    for path, kept in stored_checkpoints(folder):
        if kept is None:
            problems.append(f"checkpoint/{path.name}: its content is not what was written")
    return len(found), problems, notes


def _may_be_unlisted(name: str, found: list[str]) -> bool:
    """Whether a killed process may have written a file and not its line: the newest one of a folder."""
    folder = PurePath(name).parent
    return len(folder.parts) == 1 and name == max(other for other in found if PurePath(other).parent == folder)


def _figures(run: Run, terms: PrivacyAssumptions) -> Iterator[str]:
    """Figures that stand at two places."""
    rounds = run.rounds
    bounds = ("epsilon_own_bound", "epsilon_promised_bound")
    nodes = run.frame("nodes", ["round", "transmitted", "energy_j", "accuracy", *bounds])
    by_round = nodes[nodes["round"] <= rounds["round"].max()].groupby("round")
    pairs: list[tuple[str, Any]] = [
        ("active_nodes", by_round["transmitted"].sum()),
        ("energy_j", by_round["energy_j"].sum()),
        ("accuracy_mean", by_round["accuracy"].mean()),
        ("accuracy_min", by_round["accuracy"].min()),
        *((name, by_round[name].max()) for name in bounds),
    ]
    if run.scenario["trace"]["links"] == "all":
        worst = run.frame("links", ["round", "epsilon"]).groupby("round")["epsilon"].max()
        silent = 0.0 if terms.counts_links else np.nan  # of a round in which nobody heard anybody
        pairs.append(("epsilon_link_max", worst.reindex(rounds["round"], fill_value=silent)))
    for name, other in pairs:
        if not np.allclose(rounds[name].to_numpy(float), other.to_numpy(float), rtol=_TOLERANCE, equal_nan=True):
            yield f"rounds: {name} does not follow from the other tables"
    last = rounds.iloc[-1]
    stated = {
        "rounds": last["round"],
        "accuracy_mean": last["accuracy_mean"],
        **{name: rounds[name].sum() for name in ("energy_j", "energy_nominal_j", "airtime_s", "violations")},
        "epsilon_link_max": rounds["epsilon_link_max"].max() if terms.counts_links else None,
    }
    yield from _misstated(run.summary, stated, "tables")
    words = {name: getattr(terms, name) for name in ("promised", "adversary", "adjacency")}
    words |= {"epsilon_status": terms.status, "coalition": terms.coalition or None}
    for name, word in words.items() if run.summary else ():
        if run.summary.get(name) != word:
            yield f"summary.json: {name} is {quote(run.summary.get(name), 80)}, the scenario says {word}"


def _misstated(summary: Mapping[str, Any], stated: Mapping[str, float | None], witness: str) -> Iterator[str]:
    """A line for each figure of a summary, where there is one, that is not what the witness says."""
    for name, value in stated.items() if summary else ():
        said = summary.get(name)
        one, other = (number if isinstance(number, int | float | np.number) else np.nan for number in (said, value))
        if not np.isclose(one, other, rtol=_TOLERANCE, equal_nan=True):
            yield f"summary.json: {name} is {quote(said, 40)}, the {witness} say {other:.6g}"


def _totals(run: Run, totals: Mapping[str, FloatArray], promised: str) -> Iterator[str]:
    """Where the privacy table or the summary of a finished run states other totals than the traces."""
    for view, again in totals.items() if run.summary else ():
        stored = run.privacy[run.privacy["view"] == view].sort_values("tx")["epsilon_total"].to_numpy()
        if len(stored) != len(again) or not np.allclose(stored, again, rtol=_TOLERANCE, equal_nan=True):
            yield f"privacy: {view} totals do not follow from the traces"
    views = {"epsilon_total": promised, "epsilon_own_total": "own", "epsilon_coalition_total": "coalition"}
    yield from _misstated(run.summary, {name: _largest(totals, view) for name, view in views.items()}, "traces")


def _largest(totals: Mapping[str, FloatArray], view: str) -> float | None:
    return float(totals[view].max(initial=0.0)) if view in totals else None


def _ledger(kept: Checkpoint, run: Run, split: DataSplit) -> Iterator[str]:
    """Where a checkpoint's ledger is not, to rounding, that of the traces up to it; more than it is told of too."""
    again = recounted_ledger(run.up_to(kept.round), split)
    for (view, one), (_, other) in zip(stored_ledger(kept, split).views(), again.views()):
        alike = np.allclose(one.bound(), other.bound(), rtol=_TOLERANCE, equal_nan=True)
        if not alike or not np.array_equal(one.rounds, other.rounds):
            yield f"its ledger does not follow from the traces (view {view})"


def checkpoint_problems(kept: Checkpoint, run: Run, split: DataSplit) -> Iterator[str]:
    """Why a run must not go on from a checkpoint: its ledger charges less than the traces, or a gradient is another.

    Senders are compared, and links that are traced. A pending gradient decides what the next transmission is charged.
    """
    then, count = run.up_to(kept.round), len(split.rate)
    stored, again = stored_ledger(kept, split), recounted_ledger(then, split, least=True)
    for (view, charged), (_, traced) in zip(stored.views(), again.views()):
        for node in np.flatnonzero(~charged.charges_at_least(traced))[:1]:
            yield (
                f"charges node {node} with epsilon {charged.total()[node]:.6g} (view {view}) for "
                f"{charged.rounds[node]} releases, its traces with {traced.total()[node]:.6g} for {traced.rounds[node]}"
            )
    if run.scenario["trace"]["links"] != "none" and split.terms.counts_links:
        for link in stored.link_counts().fewer_than(traced_links(then, split.terms))[:1]:
            rx, tx = divmod(int(link), count)
            yield f"charges the link from node {tx} to node {rx} with less than its traces do"
    for name in ("own", "coalition")[: split.terms.gram * (1 + split.terms.shares_noise)]:
        stage = sum(getattr(one, f"{name}_mu") ** 2 for one in releases_of(then, split) if one.stage)
        for node in np.flatnonzero(kept.arrays[f"pending_stage_{name}"] > np.sqrt(stage) * (1.0 + _TOLERANCE))[:1]:
            # it is not charged again
            yield f"counts more of the Gram stage of node {node} as charged than its traces do (view {name})"
    by_traces = pending_gradients(then)
    pending = tuple(kept.arrays[f"pending_{name}"] for name in ("gamma", "multiplier"))
    alike = np.all([np.isclose(one, other, rtol=1e-12) for one, other in zip(pending, by_traces)], axis=0)
    lost = np.all([one == 0 for one in pending], axis=0) & np.isin(np.arange(count), _interrupted(then))
    # of a triangle of which nothing was sent yet no table says with what it will be charged
    unsent = (by_traces[0] == 0) & (stage_rounds(then) == kept.round)
    for node in np.flatnonzero(~alike & ~lost & ~unsent)[:1]:
        yield f"holds another gradient of node {node} than its traces do"


def _interrupted(run: Run) -> list[int]:
    """Nodes that lost a gradient for a reason that the events name: a crash, a spent budget or battery."""
    lost = run.events["kind"].isin(["crash", "rejoin", "budget", "battery"])
    return [int(node) for node in run.events.loc[lost, "node"].dropna()]


def _models(kept: Checkpoint, run: Run) -> Iterator[str]:
    """What is wrong with models and gradients of a checkpoint, as far as the tables of its round tell."""
    arrays, at = kept.arrays, (kept.round, kept.round)
    count, learning = run.scenario["network"]["nodes"], run.scenario["learning"]
    models = arrays.get("update_point", arrays.get("mixed", np.zeros(0)))
    shapes = {"gradient": models.shape, "step": (count, 1), "pending_gamma": (count,), "pending_multiplier": (count,)}
    shaped = all(name in arrays and arrays[name].shape == shape for name, shape in shapes.items())
    if not shaped or models.ndim != 2 or len(models) != count or not np.isfinite(models).all():
        yield f"holds no models of {count} nodes"
        return
    models, gradient, step = models.astype(float), arrays["gradient"].astype(float), arrays["step"]
    norms = run.frame("nodes", ["grad_norm"], rounds=at)["grad_norm"].to_numpy()
    taken = np.isfinite(norms)
    if not np.allclose(np.linalg.norm(gradient, axis=1)[taken], norms[taken], rtol=_MAX_NORM_ERROR, atol=1e-30):
        yield "its gradients have other norms than the nodes table says"
    charged = arrays["pending_gamma"] * arrays["pending_multiplier"]
    begun = gradient.any() or stage_rounds(run.up_to(kept.round)) < kept.round  # steps of a Gram stage move nothing
    if begun and not np.allclose(step[:, 0], charged, rtol=_TOLERANCE):
        yield "its steps are not those that are charged"
    if run.scenario["privacy"]["protocol"] == "paper" and not learning.get("stop_after"):  # distances are of x
        models -= step * gradient
        radius = learning["projection_radius"] * np.sqrt(models.shape[1])
        models *= radius / np.maximum(np.linalg.norm(models, axis=1, keepdims=True), radius)
    apart, size = (np.sqrt(np.square(x).sum(axis=1).mean()) for x in (models - models.mean(axis=0), models))
    stated = run.frame("rounds", ["consensus_distance"], rounds=at)["consensus_distance"].iloc[0]
    if not np.isclose(apart, stated, rtol=_MAX_NORM_ERROR, atol=_MAX_DISTANCE_ERROR * size):
        yield f"its models are {apart:.6g} apart, the rounds table says {stated:.6g}"
