"""What a study gains: sixteen main examples with two jobs, against the same runs one after another in this process.

Workers are started and warm, as this process is. Both sides write all tables; the study also checks its cell, writes
manifest and index.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from bench.suites import Contest
from wirelessdl.run.session import simulate
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.study import Listener
from wirelessdl.study.cluster import cores, open_cluster
from wirelessdl.study.engine import start_study
from wirelessdl.study.plan import make_plan
from wirelessdl.study.study_file import StudySpec, StudyTable

_RUNS, _JOBS = 16, 2
_SCENARIO = Path(__file__).parents[2] / "scenarios" / "urban_er_k20.toml"


def contests() -> Iterator[Contest]:
    """Two jobs of one thread each; one after another with torch's own number of threads, and with one."""
    plan = make_plan(StudySpec(StudyTable(scenario=str(_SCENARIO), runs=_RUNS, local=False)))
    threads = torch.get_num_threads()

    def one_after_another(count: int) -> None:
        torch.set_num_threads(count)
        with tempfile.TemporaryDirectory(prefix="wirelessdl-bench-") as folder:
            for run in range(1, _RUNS + 1):
                simulate(load_scenario(_SCENARIO, overrides=[f"scenario.run={run}"]), out=folder)

    few = f"needs {_JOBS} cores" if cores() < _JOBS else ""
    with open_cluster(jobs=_JOBS, threads=1) as cluster:

        def study() -> None:
            with tempfile.TemporaryDirectory(prefix="wirelessdl-bench-") as folder:
                result = start_study(Path(folder) / "study", plan, cluster, Listener())
                assert result.complete, result.errors

        for count in dict.fromkeys((threads, 1)):
            yield Contest(
                f"{_RUNS} runs, {_JOBS} jobs against one after another with {count} thread{'s' * (count > 1)}",
                ours=study,
                other=lambda count=count: one_after_another(count),  # type: ignore[misc]
                at_most=0.6,
                repeats=3,
                skipped=few,
            )
    torch.set_num_threads(threads)
