"""What a study would cost: short runs of a few rounds, on the workers that the study would have.

    time = sum over runs of (setup + rounds x time per round) / jobs

Cells differ in cost, so several are tried, spread evenly over the list; others take the mean of those.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wirelessdl.errors import StudyError
from wirelessdl.study.cells import Cell
from wirelessdl.study.cluster import Cluster
from wirelessdl.study.engine import Listener, check_cells, job_of
from wirelessdl.study.plan import Plan
from wirelessdl.study.task import Pilot, pilot

_ROUNDS = 10
_PILOTS = 24


@dataclass(frozen=True)
class Estimate:
    """Seconds of one run in each cell, and of the whole; bytes likewise. tried: cells that had a pilot."""

    run_s: dict[str, float]
    run_bytes: dict[str, float]
    runs: int
    jobs: int
    tried: int
    rounds: int

    @property
    def total_s(self) -> float:
        return sum(self.run_s.values()) * self.runs / self.jobs

    @property
    def total_bytes(self) -> float:
        return sum(self.run_bytes.values()) * self.runs


def estimate(plan: Plan, cluster: Cluster, listener: Listener, should_stop: Callable[[], bool]) -> Estimate:
    """Check every cell, then time a few."""
    check_cells(plan, cluster, listener, should_stop, plan.cells)
    step = max(1, -(-len(plan.cells) // _PILOTS))
    chosen = {cell.cell: cell for cell in plan.cells[::step]}
    declared = {cell.cell: _rounds(plan, cell) for cell in plan.cells}
    for cell in chosen.values():
        rounds = min(_ROUNDS, declared[cell.cell])
        cluster.submit(f"pilot-{cell.cell}", pilot, job_of(plan, cell, plan.seeds[0], plan.runs[0]), rounds)
    pilots: dict[str, Pilot] = {}
    while cluster.flying:
        if should_stop():
            cluster.drop_all()
            raise KeyboardInterrupt
        for done in cluster.finished():
            cell = chosen[done.key.removeprefix("pilot-")]
            error = done.error if done.value is None else done.value.error
            if error:
                raise StudyError(f"a pilot run of cell {cell.title} failed: {error}")
            pilots[cell.cell] = done.value
        listener.tick()
    mean = _mean(list(pilots.values()))
    run_s, run_bytes = {}, {}
    for name, rounds in declared.items():
        found = pilots.get(name, mean)
        run_s[name] = found.setup_s + rounds * found.round_s
        run_bytes[name] = found.fixed_bytes + rounds * found.round_bytes
    runs = len(plan.seeds) * len(plan.runs)
    return Estimate(run_s, run_bytes, runs, max(1, cluster.workers()), len(pilots), _ROUNDS)


def _rounds(plan: Plan, cell: Cell) -> int:
    return plan.scenario(cell, plan.seeds[0], plan.runs[0]).scenario.rounds


def _mean(pilots: list[Pilot]) -> Pilot:
    def of(name: str) -> float:
        values: list[Any] = [getattr(one, name) for one in pilots]
        return statistics.fmean(values)

    return Pilot(of("setup_s"), of("round_s"), of("fixed_bytes"), of("round_bytes"))
