"""Whether a run directory holds what was written, and whether its numbers agree with each other.

    files        every file against checksums.txt, every page of every table against its own checksum
    tables       rounds without gaps, one row per node, links only between nodes that exist
    figures      rounds against nodes and links, summary.json against rounds
    epsilon      own totals worked out again from the traces, against the privacy table, the summary and the checkpoint;
                 a checkpoint's releases on links against those traced

Nothing of the run is executed and nothing is written.
"""

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from wirelessdl.analysis.data_split import data_split
from wirelessdl.analysis.releases import recounted_ledger, stored_ledger, traced_links
from wirelessdl.errors import TraceError, shown
from wirelessdl.trace.catalog import state_of
from wirelessdl.trace.checkpoint import load_checkpoints, whole_checkpoints
from wirelessdl.trace.checksums import NAME, read_checksums
from wirelessdl.trace.files import sha256_of
from wirelessdl.trace.run import Run, open_run
from wirelessdl.trace.soundness import problems_of

_NOT_OURS = ("lock", "report.html")  # written by others than the run, or only while it goes on
_AGREE = 1e-6


@dataclass(frozen=True)
class Verification:
    """What was looked at, and one line for everything that is wrong. notes: what is normal in an unfinished run."""

    state: str
    files: int
    rounds: int
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
    rounds, epsilon = 0, None
    try:
        unsound = list(problems_of(run))
        problems += unsound
        if not unsound:
            rounds = len(run.rounds)
            problems += _figures(run)
        if rounds:
            epsilon, wrong = _epsilon(run)
            problems += wrong
    except (TraceError, KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        problems.append(shown(error, 400) if isinstance(error, TraceError) else f"tables do not agree: {shown(error)}")
    return Verification(state, len(found), rounds, epsilon, tuple(dict.fromkeys(problems)), tuple(notes))


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


def _figures(run: Run) -> Iterator[str]:
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
        worst = links.groupby("round")["epsilon"].max().reindex(rounds["round"], fill_value=0.0)
        pairs.append(("epsilon_link_max", rounds["epsilon_link_max"], worst))
    for name, one, other in pairs:
        if not np.allclose(one.to_numpy(float), other.to_numpy(float), rtol=_AGREE, equal_nan=True):
            yield f"rounds: {name} does not follow from the other tables"
    summary, last = run.summary, rounds.iloc[-1]
    stated = {
        "rounds": last["round"],
        "accuracy_mean": last["accuracy_mean"],
        "energy_j": rounds["energy_j"].sum(),
        "airtime_s": rounds["airtime_s"].sum(),
        "violations": rounds["violations"].sum(),
        "epsilon_link_max": rounds["epsilon_link_max"].max(),
    }
    for name, value in stated.items() if summary else ():
        if not np.isclose(_number(summary.get(name)), float(value), rtol=_AGREE, equal_nan=True):
            yield f"summary.json: {name} is {shown(summary.get(name), 40)}, the tables say {value:.6g}"


def _epsilon(run: Run) -> tuple[float | None, list[str]]:
    """The own total by the traces, and whatever states less."""
    split, problems = data_split(run), []
    ledger = recounted_ledger(run, split)
    own = ledger.own_total() if run.summary else ledger.own_bound()
    total = float(own.max(initial=0.0))
    table = run.privacy
    stored = table[table["view"] == "own"].sort_values("tx")["epsilon_total"].to_numpy()
    if run.summary:
        if len(stored) != len(own) or not np.allclose(stored, own, rtol=_AGREE, equal_nan=True):
            problems.append("privacy: own totals do not follow from the traces")
        if not np.isclose(_number(run.summary.get("epsilon_own_total")), total, rtol=_AGREE):
            problems.append(
                f"summary.json: epsilon_own_total is {shown(run.summary.get('epsilon_own_total'), 40)}, the traces say "
                f"{total:.6g}"
            )
    for kept in load_checkpoints(run.path):
        charged, then = stored_ledger(kept, split), run.up_to(kept.round)
        again = recounted_ledger(then, split)
        follows = np.allclose(charged.own_bound(), again.own_bound(), rtol=_AGREE, equal_nan=True)
        follows &= np.array_equal(charged.own.rounds, again.own.rounds)
        if run.scenario["trace"]["links"] != "none":
            follows &= not len(charged.link_counts().fewer_than(traced_links(then)))
        if not follows:
            problems.append(f"checkpoint of round {kept.round}: its ledger does not follow from the traces")
    return total, problems


def _number(value: object) -> float:
    """A figure of a JSON file: numbers, and 'inf' as text; anything else is none."""
    try:
        return float(str(value))
    except ValueError:
        return float("nan")
