"""Whether a run directory holds what was written, and whether its numbers agree with each other.

    files        every file against checksums.txt, every page of every table against its own checksum
    tables       rounds without gaps, one row per node, links only between nodes that exist
    figures      rounds against nodes and links, summary.json against rounds
    epsilon      totals of every proven view (own, coalition) worked out again from the traces, against the privacy
                 table, the summary and the checkpoint; a checkpoint's releases on links against those traced, where
                 links are accounted for; shares of noise that pairs have against who was on air
    models       of every checkpoint: their distance from each other and the norms of their gradients, against the
                 tables of its round

Nothing of the run is executed and nothing is written.
"""

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from wirelessdl.analysis.data_split import DataSplit, data_split
from wirelessdl.analysis.releases import recounted_ledger, share_problems, stored_ledger, traced_links
from wirelessdl.errors import TraceError, shown
from wirelessdl.privacy.terms import Terms
from wirelessdl.trace.catalog import state_of
from wirelessdl.trace.checkpoint import Checkpoint, load_checkpoints, whole_checkpoints
from wirelessdl.trace.checksums import NAME, read_checksums
from wirelessdl.trace.files import sha256_of
from wirelessdl.trace.run import Run, open_run
from wirelessdl.trace.soundness import problems_of

_NOT_OURS = ("lock", "report.html")  # written by others than the run, or only while it goes on
_AGREE = 1e-6
_SUMMED = 1e-3  # relative, of norms that the run sums in float32 over all parameters
_CANCELLED = 1e-5  # of a model's norm: what float32 leaves of the difference of two models


@dataclass(frozen=True)
class Verification:
    """What was looked at, and one line for everything that is wrong. notes: what is normal in an unfinished run.

    epsilon_total: the promised total by the traces, against `adversary`; epsilon_own_total: against everyone else.
    """

    state: str
    files: int
    rounds: int
    epsilon_total: float | None
    adversary: str
    epsilon_own_total: float | None
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def verify(path: str | Path) -> Verification:
    """Check a run directory. Raises TraceError where there is no run to check."""
    run = open_run(path)
    state = state_of(run.path)
    listed, problems = read_checksums(run.path)
    found, unlisted = _files(run.path)
    notes: list[str] = []
    for name, digest in sorted(listed.items()):
        problems += _file(run.path, name, digest, running=state == "running")
    for name in sorted({*found} - {*listed}):
        line = f"{shown(name)}: is not listed in {NAME}"
        (notes if state == "running" or (state != "done" and _may_be_unlisted(name, found)) else problems).append(line)
    problems += [f"{shown(name)}: is neither a file nor a folder" for name in unlisted]
    problems += [f"{name}: its content is not what was written" for name in _broken_checkpoints(run.path)]
    rounds, epsilon, words = 0, _Totals(None, None), ""
    try:
        unsound = list(problems_of(run))
        problems += unsound
        if not unsound:
            rounds = len(run.rounds)
            split = data_split(run)
            words = split.terms.adversary
            problems += _figures(run, split.terms)
        if rounds:
            epsilon, wrong = _epsilon(run, split)
            problems += wrong
            problems += [line for kept in load_checkpoints(run.path) for line in _models(kept, run)]
    except (TraceError, KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        problems.append(shown(error, 400) if isinstance(error, TraceError) else f"tables do not agree: {shown(error)}")
    return Verification(
        state,
        len(found),
        rounds,
        epsilon_total=epsilon.promised,
        adversary=words,
        epsilon_own_total=epsilon.own,
        problems=tuple(dict.fromkeys(problems)),
        notes=tuple(notes),
    )


def _files(folder: Path) -> tuple[list[str], list[str]]:
    """Names of regular files that a run may hold, and of anything that is none."""
    regular: list[str] = []
    other: list[str] = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        mode = path.lstat().st_mode
        hidden = any(part.startswith(".") for part in Path(name).parts)
        if stat.S_ISDIR(mode) or hidden or name in _NOT_OURS or name == NAME:
            continue
        (regular if stat.S_ISREG(mode) else other).append(name)
    return regular, other


def _may_be_unlisted(name: str, found: list[str]) -> bool:
    """Whether a killed process may have written a file and not its line: the newest one of a folder."""
    folder = PurePath(name).parent
    return len(folder.parts) == 1 and name == max(other for other in found if PurePath(other).parent == folder)


def _file(folder: Path, name: str, digest: str, *, running: bool) -> Iterator[str]:
    """What is wrong with one listed file; of a run that goes on, files come and go."""
    try:
        if sha256_of(folder / name) != digest and not running:
            yield f"{shown(name)}: differs from its checksum"
    except FileNotFoundError:
        if not running:
            yield f"{shown(name)}: is missing"
    except OSError as error:
        yield f"{shown(name)}: cannot be read: {error.strerror}"


def _broken_checkpoints(folder: Path) -> list[str]:
    return [f"checkpoint/{path.name}" for path, whole in whole_checkpoints(folder) if not whole]


def _figures(run: Run, terms: Terms) -> Iterator[str]:
    """Figures that stand at two places."""
    rounds, count = run.rounds, run.scenario["network"]["nodes"]
    if rounds.empty:
        return
    nodes = run.frame("nodes", ["round", "node", "transmitted", "energy_j", "accuracy"])
    nodes = nodes[nodes["round"] <= rounds["round"].max()]
    if nodes["node"].tolist() != list(range(count)) * len(rounds):
        yield f"nodes: does not hold nodes 0 to {count - 1} in every round"
        return
    by_round = nodes.groupby("round")
    pairs: list[tuple[str, Any, Any]] = [
        ("active_nodes", rounds["active_nodes"], by_round["transmitted"].sum()),
        ("energy_j", rounds["energy_j"], by_round["energy_j"].sum()),
        ("accuracy_mean", rounds["accuracy_mean"], by_round["accuracy"].mean()),
        ("accuracy_min", rounds["accuracy_min"], by_round["accuracy"].min()),
    ]
    if run.scenario["trace"]["links"] == "all":
        links = run.frame("links", ["round", "rx", "tx", "epsilon"])
        if len(links) and not links[["rx", "tx"]].isin(range(count)).all().all():
            yield f"links: name nodes beyond 0 to {count - 1}"
        silent = 0.0 if terms.counts_links else np.nan  # of a round in which nobody heard anybody
        worst = links.groupby("round")["epsilon"].max().reindex(rounds["round"], fill_value=silent)
        pairs.append(("epsilon_link_max", rounds["epsilon_link_max"], worst))
    for name, one, other in pairs:
        if not np.allclose(one.to_numpy(float), other.to_numpy(float), rtol=_AGREE, equal_nan=True):
            yield f"rounds: {name} does not follow from the other tables"
    summary, last = run.summary, rounds.iloc[-1]
    stated = {
        "rounds": last["round"],
        "accuracy_mean": last["accuracy_mean"],
        "energy_j": rounds["energy_j"].sum(),
        "energy_nominal_j": rounds["energy_nominal_j"].sum(),
        "airtime_s": rounds["airtime_s"].sum(),
        "violations": rounds["violations"].sum(),
        "epsilon_link_max": rounds["epsilon_link_max"].max() if terms.counts_links else np.nan,
    }
    for name, value in stated.items() if summary else ():
        if not np.isclose(_number(summary.get(name)), float(value), rtol=_AGREE, equal_nan=True):
            yield f"summary.json: {name} is {shown(summary.get(name), 40)}, the tables say {value:.6g}"
    words = {"promised": terms.promised, "adversary": terms.adversary, "coalition": terms.coalition or None}
    for name, word in words.items() if summary else ():
        if summary.get(name) != word:
            yield f"summary.json: {name} is {shown(summary.get(name), 80)}, the scenario says {word}"


@dataclass(frozen=True)
class _Totals:
    """Largest total of all senders by the traces: in the promised view, and against everyone."""

    promised: float | None
    own: float | None


def _epsilon(run: Run, split: DataSplit) -> tuple[_Totals, list[str]]:
    """Totals by the traces, and whatever states something else."""
    problems = list(share_problems(run, split))
    ledger = recounted_ledger(run, split)
    table, largest = run.privacy, {}
    for view, totals in ledger.views():
        again = totals.total() if run.summary else totals.bound()
        largest[view] = float(again.max(initial=0.0))
        stored = table[table["view"] == view].sort_values("tx")["epsilon_total"].to_numpy()
        if run.summary and (len(stored) != len(again) or not np.allclose(stored, again, rtol=_AGREE, equal_nan=True)):
            problems.append(f"privacy: {view} totals do not follow from the traces")
    found = _Totals(largest[split.terms.promised], largest["own"])
    stated = {
        "epsilon_total": found.promised,
        "epsilon_own_total": found.own,
        "epsilon_coalition_total": largest.get("coalition"),
    }
    for name, value in stated.items() if run.summary else ():
        said, total = run.summary.get(name), np.nan if value is None else value
        if not np.isclose(_number(said), total, rtol=_AGREE, equal_nan=value is None):
            problems.append(f"summary.json: {name} is {shown(said, 40)}, the traces say {total:.6g}")
    problems += [
        f"checkpoint of round {kept.round}: its ledger does not follow from the traces"
        for kept in load_checkpoints(run.path)
        if not _follows(kept, run, split)
    ]
    return found, problems


def _follows(kept: Checkpoint, run: Run, split: DataSplit) -> bool:
    """Whether a checkpoint's ledger is that of the traces up to it."""
    charged, then = stored_ledger(kept, split), run.up_to(kept.round)
    again = recounted_ledger(then, split)
    for (_, one), (_, other) in zip(charged.views(), again.views()):
        if not np.allclose(one.bound(), other.bound(), rtol=_AGREE, equal_nan=True):
            return False
        if not np.array_equal(one.rounds, other.rounds):
            return False
    if run.scenario["trace"]["links"] == "none" or not split.terms.counts_links:
        return True
    return not len(charged.link_counts().fewer_than(traced_links(then)))


def _models(kept: Checkpoint, run: Run) -> Iterator[str]:
    """What is wrong with models and gradients of a checkpoint, as far as the tables of its round tell."""
    arrays, said = kept.arrays, f"checkpoint of round {kept.round}"
    count, learning = run.scenario["network"]["nodes"], run.scenario["learning"]
    of_own = run.scenario["privacy"]["protocol"] == "paper" and not learning.get("stop_after")  # distances are of x
    if "x" in arrays:  # of an earlier version, which kept x and, where something is sent, s
        models = None if of_own else kept.released
        if models is None:
            return
    else:
        models = arrays.get("mixed", np.zeros(0))
        shapes = {"gradient": models.shape, "step": (count, 1), "pending_gamma": (count,)}
        shapes["pending_multiplier"] = (count,)
        if any(name not in arrays or arrays[name].shape != shape for name, shape in shapes.items()):
            yield f"{said}: holds no models of {count} nodes"
            return
    if models.ndim != 2 or len(models) != count or not np.isfinite(models).all():
        yield f"{said}: holds no models of {count} nodes"
        return
    models = models.astype(float)
    if "x" not in arrays:
        gradient, step = arrays["gradient"].astype(float), arrays["step"]
        norms = run.frame("nodes", ["grad_norm"], rounds=(kept.round, kept.round))["grad_norm"].to_numpy()
        taken = np.isfinite(norms)
        if not np.allclose(np.linalg.norm(gradient, axis=1)[taken], norms[taken], rtol=_SUMMED, atol=1e-30):
            yield f"{said}: its gradients have other norms than the nodes table says"
        if not np.allclose(step[:, 0], arrays["pending_gamma"] * arrays["pending_multiplier"], rtol=_AGREE):
            yield f"{said}: its steps are not those that are charged"
        if of_own:
            models -= step * gradient
            radius = learning["projection_radius"] * np.sqrt(models.shape[1])
            models *= radius / np.maximum(np.linalg.norm(models, axis=1, keepdims=True), radius)
    apart, size = (np.sqrt(np.square(x).sum(axis=1).mean()) for x in (models - models.mean(axis=0), models))
    stated = run.frame("rounds", ["consensus_distance"], rounds=(kept.round, kept.round))["consensus_distance"].iloc[0]
    if not np.isclose(apart, stated, rtol=_SUMMED, atol=_CANCELLED * size):
        yield f"{said}: its models are {apart:.6g} apart, the rounds table says {stated:.6g}"


def _number(value: object) -> float:
    """A figure of a JSON file: numbers, and 'inf' as text; anything else is none."""
    try:
        return float(str(value))
    except ValueError:
        return float("nan")
