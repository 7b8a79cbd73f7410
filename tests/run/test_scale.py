"""Large networks: what is allocated is that of nodes and links, and what would not fit is refused by name."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, tiny

import wirelessdl
from wirelessdl.errors import InfeasiblePowerError, ScenarioError
from wirelessdl.preview.plan import preview_plan
from wirelessdl.run import build_network
from wirelessdl.run.build import build
from wirelessdl.run.recorder import Recorder
from wirelessdl.run.warnings import scenario_warnings
from wirelessdl.scenario.protection import PowerSection

LIMITED = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (3_000_000_000, 3_000_000_000))
from bench.scale import measured
print(json.dumps(measured("geometric", int(sys.argv[1]), 3, sys.argv[2:])))
"""
CUT_OFF = ("radio.interference=physical", "radio.interference_cutoff_db=6", "channel.models.0.exponent=4")
PAIRWISE = ("privacy.noise=pairwise", "privacy.coalition=5", "privacy.pairs={groups=500}")


def limited(nodes, *overrides):
    """Rounds of a network in a process that may not take 3 GB of memory: K^2 numbers are 3.2 GB at K = 20,000.

    Addresses that libraries and arenas of threads reserve, and nobody writes to, do not count: another GB.
    """
    env = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}",
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
    }
    command = [sys.executable, "-c", LIMITED, str(nodes), *overrides]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("overrides", [(), (*CUT_OFF, "radio.payload_slots=1"), PAIRWISE])
def test_twenty_thousand_nodes_fit_three_gigabytes(overrides):
    assert limited(20_000, *overrides)["nodes"] == 20_000


@pytest.mark.parametrize(
    ("network", "more", "words"),
    [
        ({"nodes": 40_000}, {}, r"network.nodes is 40000; needs .* use fewer nodes, or a sparser network"),
        ({"nodes": 10**9, "topology": "ring"}, {}, r"network.nodes is 1000000000; needs 6 TB of memory"),
        (
            {"nodes": 40_000, "topology": "ring"},
            {"radio": {"interference": "physical"}},
            r"network.nodes is 40000; needs .*set radio.interference_cutoff_db",
        ),
        (
            {"nodes": 40_000, "topology": "ring"},
            {"power": {"balance": False, "multiplier": "product"}},
            r'network.nodes is 40000 with power.multiplier "product", which keeps a number for every pair',
        ),
        (
            {"nodes": 40_000, "topology": {"kind": "range", "range_m": 1e5}},
            {},
            r"network.topology.range_m is 100000, 1599960000 links; needs .* of memory",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_allocated(monkeypatch, network, more, words):
    for module in ("memory", "network.topology.physical"):
        monkeypatch.setattr(f"wirelessdl.{module}.free_bytes", lambda: 8 * 10**9)
    with pytest.raises(ScenarioError, match=words):
        build(tiny(network=network, **more))


def test_heard_links_are_counted_in_every_slot(monkeypatch):
    monkeypatch.setattr("wirelessdl.memory.free_bytes", lambda: 100_000)
    monkeypatch.setattr(build_network, "_NODE_BYTES", 0.0)
    given = {"nodes": 20, "topology": {"kind": "ring", "reach": 5}}
    with pytest.raises(ScenarioError, match=r"network.nodes is 20 with 200 links that are heard; needs 180 kB"):
        build(tiny(network=given, radio={"payload_slots": 4}))


def test_links_are_sampled_by_pairs_at_the_stated_rate(tmp_path):
    rows = 2_000
    network = {"nodes": 40, "topology": {"kind": "ring", "reach": 5}}
    given = {"scenario": {"rounds": 10}, "network": network}
    every = wirelessdl.simulate(tiny(**given), out=tmp_path).links
    world = build(tiny(**given, trace={"links": "auto", "link_rows": rows}))
    assert world.link_rate == 0.5
    assert any("samples links at rate 0.5" in line for line in scenario_warnings(world))
    run = wirelessdl.simulate(tiny(**given, trace={"links": "auto", "link_rows": rows}), out=tmp_path)
    assert run.summary["link_rate"] == 0.5
    some = run.links
    # 200 pairs at rate 1/2: five standard errors of 1/28 each
    assert 0.5 - 5 / 28 < len(some) / len(every) < 0.5 + 5 / 28
    kept = every.merge(some[["round", "tx", "rx"]], on=["round", "tx", "rx"])
    assert kept.equals(some.reset_index(drop=True))
    pairs = some.groupby([np.minimum(some["tx"], some["rx"]), np.maximum(some["tx"], some["rx"])]).size()
    assert (pairs == 20).all()  # both directions, in every round
    whole = wirelessdl.simulate(tiny(**given, trace={"links": "auto"}), out=tmp_path)
    assert whole.links.equals(every)
    assert whole.summary["link_rate"] == 1.0


def test_many_rows_are_written_before_many_rounds_are_buffered(tmp_path, monkeypatch):
    parts = []
    monkeypatch.setattr("wirelessdl.run.recorder._MAX_BUFFERED_ROWS", 50)
    flush = Recorder.flush
    monkeypatch.setattr(Recorder, "flush", lambda self: (parts.append(len(self._records)), flush(self)))
    run = wirelessdl.simulate(tiny(scenario={"rounds": 12}), out=tmp_path)  # 12 links and 4 nodes: 16 rows a round
    assert max(parts) == 4
    assert run.rounds["round"].tolist() == list(range(1, 13))


def test_the_floor_of_alpha_follows_the_network():
    auto = PowerSection()
    assert [auto.least_alpha(nodes) for nodes in (2, 100, 1000, 10_000)] == pytest.approx([1e-3, 1e-3, 1e-5, 1e-7])
    assert PowerSection(alpha_min=0.01).least_alpha(10_000) == 0.01


def test_own_noise_of_many_nodes_is_planned_and_says_that_power_is_the_limit():
    """K = 400 at B = 8: alpha 5e-4, below the floor of small networks; at 23 dBm models drown, at 73 not."""
    given = {
        "network": {"nodes": 400, "topology": {"kind": "ring", "reach": 2}},
        "channel": {"models": [{"model": "log-distance", "exponent": 4.0}]},
        "privacy": {"epsilon_max": 1.0, "clipping": "per-sample"},
        "learning": {"batch_size": 8, "dataset": {"kind": "synthetic", "samples": 3200, "features": 4}},
    }
    notes = {}
    for power_dbm in (73.0, 23.0):
        radio = {"power_dbm": power_dbm, "thermal_noise": True}
        plan = preview_plan(build(tiny(**given, radio=radio, power={"objective": "own-noise"}))).plan
        assert plan.alpha.max() < 1e-3
        notes[power_dbm] = " ".join(plan.notes)
    assert notes[73.0] == ""
    assert notes[23.0].startswith("power, not privacy, is the limit: theta 400 leaves models 0.00053 of the power")
    with pytest.raises(InfeasiblePowerError, match=r"below alpha_min=0\.001"):
        preview_plan(build(tiny(**given, power={"objective": "own-noise", "alpha_min": 1e-3})))
