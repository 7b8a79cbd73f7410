"""A run beside what the same nodes could do otherwise: baselines that stand in the same folder.

    central-dp   one trusted holder of all data, at the same epsilon: a ceiling on average over seeds
    no-privacy   the same network without noise
    local        every node alone

Runs of `--baseline NAME` carry its name, seed and run number; nothing is executed, and what is not there is left out.
"""

from dataclasses import dataclass
from pathlib import Path

from wirelessdl.errors import TraceError
from wirelessdl.trace.catalog import run_status
from wirelessdl.trace.run import Run

# baselines, and words for them
BASELINES = {"central-dp": "central DP", "no-privacy": "without privacy", "local": "local training"}
_LONGEST = 99  # characters of a scenario's name with that of its baseline


@dataclass(frozen=True)
class Beside:
    """A finished run: what it is, and what it reached."""

    name: str
    path: Path
    accuracy: float
    epsilon: float


def beside(run: Run) -> list[Beside]:
    """The run itself, and the newest finished run of each baseline with its seed, run number and rounds."""
    section = run.scenario["scenario"]
    found = []
    for name in ("", *BASELINES):
        own = section["name"][: _LONGEST - len(name)] if name else section["name"]
        scenario = f"{own}-{name}" if name else own
        folders = (
            [run.path]
            if not name
            else sorted(run.path.resolve().parent.glob(f"{_escaped(scenario)}-s{section['seed']}-r{section['run']}*"))
        )
        for folder in reversed(folders):
            one = _finished(name or "this run", folder, scenario, run)
            if one is not None:
                found.append(one)
                break
    return found


def in_one_line(found: list[Beside]) -> str:
    """The accuracies of a run and its baselines; empty where there is nothing to compare with."""
    if len(found) < 2 or found[0].name != "this run":
        return ""
    return ", ".join(f"{one.name} {one.accuracy:.1%} (epsilon {one.epsilon:.3g})" for one in found)


def _finished(name: str, folder: Path, scenario: str, run: Run) -> Beside | None:
    """None where the folder holds something else."""
    try:
        status, other = run_status(folder), Run(folder, strict=False).scenario
    except (TraceError, OSError, LookupError, TypeError, ValueError):
        return None
    alike = all(other["scenario"].get(key) == run.scenario["scenario"].get(key) for key in ("seed", "run", "rounds"))
    alike &= other["privacy"].get("adjacency") == run.scenario["privacy"].get("adjacency")
    if not alike or status.scenario != scenario or status.state != "done":
        return None
    if status.accuracy is None or status.epsilon is None:
        return None
    return Beside(name, folder, status.accuracy, status.epsilon)


def _escaped(name: str) -> str:
    """A name in which no character means others."""
    return "".join(f"[{one}]" if one in "*?[" else one for one in name)
