"""Scenarios that somebody broke: 2,000 mutants of the bundled ones, through check, run, list and report.

Every one ends in a result or in one line with exit code 2; never in a traceback, each command within a minute and 4 GB.
Half of the runs that come out have their own scenario.toml edited before list and report look at them.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import deepcopy
from pathlib import Path

import children
import mutants
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirelessdl.errors import WirelessdlError
from wirelessdl.scenario.loader import load_scenario, parse_scenario

MUTANTS, BATCH = 400, 50  # `make soak` has 5,100


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


PLACES = [path for path, _ in mutants.leaves(load_scenario("urban_er_k20").to_table())]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(mutants.VALUES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300)
@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=2))
def test_a_scenario_with_any_values_is_read_or_refused_in_one_line(changes):
    """Shrunk by hypothesis to the value that matters; what is read is not built, which takes too long for this."""
    table = load_scenario("urban_er_k20").to_table()
    for path, value in changes:
        place = table
        with suppress(TypeError, KeyError, IndexError):  # the first change took away where the second goes
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = deepcopy(value)
    said = ""
    try:
        parse_scenario(table)
    except WirelessdlError as error:
        said = str(error)
    assert said.isprintable()


DEFECTS = """
import time
from pathlib import Path
import children
import wirelessdl.cli.main as cli
children.LIMIT_S, children.PATIENCE = 1, 3
def busy():
    while True:
        pass
for defect in (lambda: {}["x"], lambda: time.sleep(60), busy, lambda: bytearray(5 * 10**9), lambda: print("\\x1b[31m")):
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
    key, asleep, busy, large, raw = done.stdout.splitlines()
    assert key == "traceback: KeyError: 'x'"
    assert asleep == busy == "took more than 1 s of processor time, or 3 times as long"
    assert large == "traceback: MemoryError"
    assert raw.startswith("control characters")
    assert children.wrong("check", (2, "two\nlines\n", 1.0, 10), (0, 2)) is not None
    assert children.wrong("check", (2, "ScenarioError: x is 3\n", 1.0, 10), (0, 2)) is None
