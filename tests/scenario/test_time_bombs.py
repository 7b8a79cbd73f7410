"""Numbers in a scenario that would keep a machine busy for hours: each is one line, within seconds."""

import subprocess
import sys

import pytest
from conftest import tiny

from wirelessdl.errors import WirelessdlError
from wirelessdl.run.build import build
from wirelessdl.run.session import simulate

RESTLESS = {"crashes": {"kind": "exponential", "up_s": 1e-5, "down_s": 1e-5}}
LONG = {"compute": {"kind": "constant", "seconds": 1e6}}


def moving(**mobility):
    return {"nodes": 4, "mobility": mobility}


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"power": {"samples": 10_001}}, r"power\.samples is 10001; must be <= 10000"),
        (
            {"network": {"nodes": 4, "topology": {"kind": "erdos-renyi", "p": 0.1, "tries": 100_001}}},
            r"network\.topology\.tries is 100001; must be <= 100000",
        ),
        ({"network": moving(kind="random-walk", step_s=1e-7)}, r"network\.mobility\.step_s is 1e-07; must be >= 1e-06"),
        (
            {"network": moving(kind="gauss-markov", step_s=1e-7)},
            r"network\.mobility\.step_s is 1e-07; must be >= 1e-06",
        ),
        ({"network": moving(kind="random-waypoint", speed_mps=9e8)}, r"a leg would last .* must be at least 1e-6 s"),
        (
            {"faults": {"crashes": {"kind": "exponential", "up_s": 1e-6, "down_s": 1.0}}},
            r"faults\.crashes\.up_s is 1e-06; must be >= 1e-05",
        ),
        (
            {"faults": {"crashes": {"kind": "exponential", "up_s": 1.0, "down_s": 1e-6}}},
            r"faults\.crashes\.down_s is 1e-06; must be >= 1e-05",
        ),
        ({"time": {"policy": {"kind": "clocked", "period_s": 1e-9}}}, r"time\.policy\.period_s is 1e-09"),
    ],
)
def test_a_number_that_takes_for_ever_is_one_line(sections, words):
    with pytest.raises(WirelessdlError, match=words) as refused:
        build(tiny(**sections))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"network": moving(kind="random-walk", step_s=1e-6), "time": LONG}, r"step_s is 1e-06; the time .* steps"),
        ({"network": moving(kind="gauss-markov", step_s=1e-6), "time": LONG}, r"step_s is 1e-06; the time .* steps"),
        ({"network": moving(kind="random-waypoint", speed_mps=1e7), "time": LONG}, r"speed_mps is .* legs"),
        ({"faults": RESTLESS, "time": {"policy": {"kind": "clocked", "period_s": 1e6}}}, r"down 1000 times in round"),
        ({"faults": RESTLESS, "radio": {"bandwidth_hz": 1.0}}, r"down 1000 times in round 1"),
    ],
)
def test_short_steps_in_a_long_round_are_one_line(sections, words, tmp_path):
    """Each number is allowed by itself; together they would take hours."""
    with pytest.raises(WirelessdlError, match=words) as refused:
        simulate(tiny(**sections), out=tmp_path)
    assert "\n" not in str(refused.value)


def test_limits_of_the_process_bound_what_is_free():
    """`ulimit -d`: in a child, since a limit cannot be taken back."""
    code = (
        "import resource; from wirelessdl.memory import free_bytes; "
        "resource.setrlimit(resource.RLIMIT_DATA, (500_000_000, 500_000_000)); print(free_bytes())"
    )
    free = int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    assert 0 < free < 500_000_000
