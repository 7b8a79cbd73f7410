"""Links below an SNR, jammers, and faults of one's own."""

import numpy as np
import pytest
from conftest import tiny_table
from watching import Watched

import wirelessdl
from wirelessdl.links import Geometry
from wirelessdl.radio.faults import NoiseJammer, PlacedJammer


def test_links_below_an_snr_fall_out_and_stay_heard_where_interference_is_physical():
    sections = {
        "scenario": {"rounds": 4},
        "network": {"nodes": 6},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "faults": {"blockage": {"kind": "snr", "threshold_db": 30.0}},
        "power": {"objective": "own-noise"},
    }
    plain = Watched(tiny_table(**sections, radio={"power_dbm": 23, "thermal_noise": True})).run()
    radio = {"power_dbm": 23, "thermal_noise": True, "interference": "physical"}
    physical = Watched(tiny_table(**sections, radio=radio)).run()
    lost = 0
    for one, other in zip(plain.decisions, physical.decisions):
        snr_db = 10 * np.log10(one.channel.slots[0].gain ** 2 * 0.2 / plain.world.noise_w)
        assert (snr_db >= 30.0 - 0.01).all()
        lost += 30 - len(one.channel.links)
        assert len(other.channel.heard) == 30
        assert len(other.channel.links) == len(one.channel.links)
    assert 0 < lost < 120


def test_nobody_aligns_a_link_that_fell_out_of_the_graph():
    """Any phase on the circle, like every stranger, in the frames in which it is lost; aligned in the others."""
    table = tiny_table(
        scenario={"rounds": 60},
        network={"nodes": 6},
        channel={"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        radio={"power_dbm": 23, "thermal_noise": True, "interference": "physical", "payload_slots": 2},
        faults={"blockage": {"kind": "snr", "threshold_db": 30.0}},
        power={"objective": "own-noise"},
        learning={"dataset": {"kind": "synthetic", "features": 6, "samples": 80, "classes": 3}, "batch_size": 4},
    )
    decisions = Watched(table).run().decisions
    lost = [~d.channel.is_neighbour for d in decisions]
    for slot in (0, 1):
        phases = [d.channel.slots[slot].phase_rad for d in decisions]
        assert all((phase[~gone] == 0).all() for phase, gone in zip(phases, lost) if phase is not None)
        turned = np.concatenate([phase[gone] for phase, gone in zip(phases, lost) if gone.any()])
        assert len(turned) > 200
        for part in (np.cos(turned), np.sin(turned)):
            assert abs(part.mean()) < 4 / np.sqrt(2 * len(turned))


def test_jammers_are_where_and_when_they_say():
    geometry = Geometry.at_rest(np.array([[0.0, 0.0, 1.5], [30.0, 40.0, 1.5]]))
    pulsed = NoiseJammer(power_dbm=-30, from_s=1.0, until_s=5.0, period_s=2.0, on_share=0.5)
    on = [pulsed.noise_w(geometry, time)[0] > 0 for time in (0.5, 1.5, 2.5, 3.5, 5.5)]
    assert on == [False, True, False, True, False]
    assert pulsed.noise_w(geometry, 1.5)[1] == pytest.approx(1e-6)
    placed = PlacedJammer(power_dbm=30, x_m=0, y_m=0, height_m=1.5, exponent=3.0, frequency_hz=3.5e9)
    friis = (299792458 / (4 * np.pi * 3.5e9)) ** 2
    np.testing.assert_allclose(placed.noise_w(geometry, 0.0), [friis, friis / 50**3])


def test_a_jammer_disturbs_models_and_estimates_but_no_epsilon():
    radio = {"power_dbm": 30, "thermal_noise": True, "csi": {"kind": "pilots", "symbols": 4}}
    quiet = Watched(tiny_table(radio=radio, power={"objective": "own-noise"})).run()
    jammer = {"kind": "noise", "power_dbm": 0.0}
    loud = Watched(tiny_table(radio=radio, power={"objective": "own-noise"}, faults={"jammer": jammer})).run()
    for one, other in zip(quiet.decisions, loud.decisions):
        np.testing.assert_array_equal(one.charged.link, other.charged.link)
        np.testing.assert_array_equal(one.charged.own, other.charged.own)
        jammed, clear = (np.abs(d.channel.gain_est - d.channel.gain).max() for d in (other, one))
        assert jammed > 1e-3 > clear
    assert np.abs(quiet.after_round[0] - loud.after_round[0]).max() > 1e-3


# --- faults of one's own


YOURS = """
import numpy as np

class Every:
    def __init__(self, period_s: float, nodes):
        self.period_s = period_s
    def outages(self, node, rng):
        start = self.period_s
        while True:
            yield start + 0.001 * node, 0.002
            start += self.period_s

class Backwards:
    def outages(self, node, rng):
        return [(2.0, 1.0), (1.0, 1.0)] if node == 2 else [(0.001, 0.001), (0.0015, 0.001)]

class Many:
    def blocked(self, links, time_s, snr_db):
        return np.zeros(3, dtype=bool)

class Late:
    def wait(self, gate):
        yield gate.all_ready()
        yield gate.env.timeout(7_000_000)
"""


def test_faults_and_policies_may_be_yours(tmp_path):
    (tmp_path / "yours.py").write_text(YOURS)
    sections = {
        "scenario": {"rounds": 4},
        "faults": {"crashes": {"kind": "yours.py:Every", "period_s": 0.01}},
        "time": {"policy": "yours.py:Late"},
    }
    watched = Watched(tiny_table(**sections), folder=str(tmp_path)).run()
    assert [state for _, _, state in watched.states()].count("crash") >= 4
    assert watched.states()[0] == (7_000_000, None, "frame")


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ({"crashes": "yours.py:Backwards"}, "Backwards.outages gave node 0 an outage at 0.0015 s for 0.001 s"),
        ({"blockage": "yours.py:Many"}, r"faults.blockage: Many.blocked returned shape \(3,\), expected \(12,\)"),
    ],
)
def test_faults_of_yours_are_held_to_their_contract(faults, words, tmp_path):
    (tmp_path / "yours.py").write_text(YOURS)
    with pytest.raises(wirelessdl.WirelessdlError, match=words):
        Watched(tiny_table(scenario={"rounds": 4}, faults=faults), folder=str(tmp_path)).run()
