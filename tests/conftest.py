"""Shared pieces: small scenarios, the command line in this process, worked matrices."""

import gc
import io
import os
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

# one thread per worker, set before torch loads: results depend on the thread count, tests must not
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings

from wirelessdl.cli.main import main
from wirelessdl.errors import WirelessdlError
from wirelessdl.scenario.loader import load_scenario, parse_scenario
from wirelessdl.scenario.schema import Scenario

ROOT = Path(__file__).parent.parent

settings.register_profile("busy", deadline=None)  # an example takes as long as the machine lets it
settings.load_profile("busy")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of `slow_tier.txt` slow."""
    listed = slow_tier()
    seen: Counter[str] = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0]
        found = next((name for name in (item.nodeid, test, test.partition("::")[0]) if name in listed), None)
        if found is None or item.get_closest_marker("slow"):
            continue
        if seen[found] % listed[found] or listed[found] == 1:
            item.add_marker(pytest.mark.slow)
        seen[found] += 1


def slow_tier() -> dict[str, int]:
    """Files, tests and cases of `slow_tier.txt`, each with n where every n-th of its cases is quick, else 1."""
    lines = (ROOT / "tests" / "slow_tier.txt").read_text(encoding="utf-8").splitlines()
    rules = [line.partition(" 1/") for line in lines if line and not line.startswith("#")]
    return {name: int(n or 1) for name, _, n in rules}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", help="where tests of the learning engine compute: cpu, cuda or mps")


@pytest.fixture
def device(request: pytest.FixtureRequest) -> str:
    """The device of `pytest --device`."""
    return str(request.config.getoption("--device"))


def over(base: dict, sections: dict) -> dict:
    """Sections of a scenario over others, key by key."""
    return {name: {**base.get(name, {}), **sections.get(name, {})} for name in {**base, **sections}}


def tiny_table(**sections: dict) -> dict:
    """Four nodes, two rounds, batches of eight, two or three evaluations; sections are merged over it."""
    table = {
        "scenario": {"name": "tiny", "seed": 3, "rounds": 2},
        "network": {"nodes": 4},
        "channel": {"models": [{"model": "uniform"}]},
        "radio": {"power_dbm": 30, "thermal_noise": False},
        "privacy": {"epsilon_max": 1.0},
        "learning": {"batch_size": 8},
    }
    table = over(table, sections)
    table["learning"].setdefault("eval_every", max(2, table["scenario"]["rounds"] // 3))
    return table


def mostly_slow(cases: Iterable, *quick: object) -> list:
    """Cases to parametrize a test with, of which only the quick ones are run by `make test`."""
    return [pytest.param(case, marks=() if case in quick else pytest.mark.slow) for case in cases]


def tiny(**sections: dict) -> Scenario:
    return parse_scenario(tiny_table(**sections))


def hubs(**sections: dict) -> Scenario:
    """Six nodes on a line of which no one reaches all, so that it takes several hubs."""
    base = {
        "network": {"nodes": 6, "placement": {"kind": "line", "spacing_m": 60}},
        "channel": {"models": [{"model": "log-distance", "exponent": 3.0}, {"model": "rayleigh"}]},
        "radio": {"alignment": "hubs", "truncate_snr_db": 12, "power_dbm": 10, "thermal_noise": True, "guard_s": 1e-5},
        "power": {"objective": "own-noise"},
        "learning": {"sampling": "full"},
    }
    return tiny(**over(base, sections))


def refusal(scenario: Path, *overrides: str) -> str:
    """What a run is refused with, as the command line prints it: one line, and nothing is written.

    Goes through loader, `build` and the first frame, like `wirelessdl run`, without the command line around it.
    """
    # imported here: it loads torch, which the process that hands out tests can do without
    from wirelessdl.run.session import simulate

    out = scenario.parent / "outputs"
    with pytest.raises(WirelessdlError) as caught:
        simulate(load_scenario(scenario, overrides=overrides), out=out, device="cpu")
    line = f"{type(caught.value).__name__}: {caught.value}"
    assert len(line.splitlines()) == 1, line
    assert not out.exists()
    return line


def paper_gain(nodes: int = 4) -> np.ndarray:
    """The asymmetric worked example: h_{j->i} = .3 + .7 ((7j + 3i) mod 10)/9, gain[rx, tx]."""
    i, j = np.mgrid[:nodes, :nodes]
    gain = 0.3 + 0.7 * ((7 * j + 3 * i) % 10) / 9
    np.fill_diagonal(gain, 0.0)
    return gain


@dataclass
class Result:
    code: int
    out: str
    err: str


def command_line(*arguments: str) -> Result:
    """`wirelessdl` with these arguments, run in this process from the working folder."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["wirelessdl", *arguments])
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Result(code, out.getvalue(), err.getvalue())


_PEAK_KB = [0]  # of this process when garbage was last collected


@pytest.fixture(autouse=True)
def _garbage_collected() -> Iterator[None]:
    """Engines that tests build are in cycles, 100 MB each: without this a process grew to 10 GB."""
    yield
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if peak_kb > _PEAK_KB[0] + 300_000:
        gc.collect()
        _PEAK_KB[0] = peak_kb


@pytest.fixture(autouse=True)
def _figures_closed() -> Iterator[None]:
    """Figures that a test drew for itself: matplotlib warns of the twenty-first of a process."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture
def wirelessdl_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """The command line, run in this process from a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return command_line


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the scenario of `interrupting.write_scenario`."""
    from interrupting import write_scenario

    write_scenario(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of that scenario, 100 rounds, that nothing happened to; tests only read it."""
    from interrupting import write_scenario

    from wirelessdl.run.session import simulate

    folder = tmp_path_factory.mktemp("finished")
    write_scenario(folder)
    return simulate(load_scenario(folder / "tiny.toml"), out=folder).path
