"""What a resumed run will be: which scenario, from which round, to which."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wirelessdl.errors import TraceError
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.scenario.overrides import apply_override
from wirelessdl.scenario.schema import Scenario
from wirelessdl.trace.checkpoint import checkpoint_round
from wirelessdl.trace.parts import find_parts
from wirelessdl.trace.run import Run, open_run


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
    path: str | Path, *, scenario: Scenario | None = None, overrides: Sequence[str] = (), rounds: int | None = None
) -> Resumption:
    """Look at a run; raises one clear line where it cannot go on. Rounds: as asked for, else the most named."""
    run = open_run(path)
    home = Path(run.provenance.get("folder", "") or run.path)
    origin = f"{run.path}/scenario.toml"
    stored = parse_scenario(run.scenario, origin=origin, folder=str(home))
    table = (scenario or stored).to_table()
    for override in overrides:
        apply_override(table, override)
    if rounds is not None:
        table["scenario"]["rounds"] = rounds
    elif not any(override.startswith("scenario.rounds=") for override in overrides):
        table["scenario"]["rounds"] = max(table["scenario"]["rounds"], stored.scenario.rounds)
    source = scenario or stored
    wanted = parse_scenario(table, origin=source.origin, folder=source.folder)
    done = checkpoint_round(run.path)
    if wanted.scenario.rounds < done and not run.summary:
        raise TraceError(f"{run.path}: round {done} is done; --rounds {wanted.scenario.rounds} lies behind it")
    return Resumption(run, stored, wanted, home, done)


def require_whole(run: Run, done: int) -> None:
    """Raise unless every table can be read up to the checkpoint: what is missing now stays missing."""
    for name in ("rounds", "nodes", "links", "events"):
        if name == "links" and run.scenario["trace"]["links"] == "none":
            continue
        parts = find_parts(run.path, name, last_round=done)
        if parts.problems:
            raise TraceError(f"{parts.problems[0]}; the run cannot go on without it")
        if parts.last_round < done:
            missing = f"{run.path / name}: rounds {parts.last_round + 1} to {done} are missing"
            raise TraceError(f"{missing}; the run cannot go on without them")
