"""Scenarios that somebody broke: 2,000 mutants of the bundled ones, through check, run, list and report.

Every one ends in a result or in one line with exit code 2; never in a traceback, each command within a minute and 4 GB.
Half of the runs that come out have their own scenario.toml edited before list and report look at them.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import children
import mutants
import pytest

MUTANTS, BATCH = 2000, 250


@pytest.mark.slow
def test_no_mutant_of_a_scenario_gets_through_to_a_traceback(tmp_path):
    def batch(first):
        return subprocess.run(
            [sys.executable, mutants.__file__, str(tmp_path / str(first)), str(first), str(first + BATCH - 1)],
            capture_output=True,
            text=True,
            check=False,
        )

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(batch, range(0, MUTANTS, BATCH)))
    lines = [line for run in done for line in run.stdout.splitlines()]
    tried = [line for line in lines if line.startswith("TRIED")]
    assert [line for line in lines if line.startswith("FOUND")] == []
    assert [run.stderr[-500:] for run in done if run.returncode] == []
    assert len(tried) > 0.9 * MUTANTS
    assert sum("report" in line for line in tried) > 0.1 * MUTANTS  # as many came out as runs


DEFECTS = """
import time
from pathlib import Path
import children
import wirelessdl.cli.main as cli
children.LIMIT_S = 1
for defect in (lambda: {}["x"], lambda: time.sleep(20), lambda: bytearray(5 * 10**9), lambda: print("\\x1b[31m")):
    cli.main = defect
    print(children.wrong("check", children.limited(["check"], Path.cwd()), (0, 2)))
"""


def test_a_traceback_a_long_run_a_large_one_and_raw_characters_are_found(tmp_path):
    """The campaign can fail: commands that end in each of these ways, in children like those of mutants."""
    path = os.pathsep.join([str(Path(mutants.__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", DEFECTS],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    key, long, large, raw = done.stdout.splitlines()
    assert (key, long) == ("traceback: KeyError: 'x'", "took more than 1 s")
    assert large == "traceback: MemoryError"
    assert raw.startswith("control characters")
    assert children.wrong("check", (2, "two\nlines\n", 1.0, 10), (0, 2)) is not None
    assert children.wrong("check", (2, "ScenarioError: x is 3\n", 1.0, 10), (0, 2)) is None
