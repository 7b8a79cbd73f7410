"""Motion as whole runs show it: links, coherence, interruptions, and mistakes."""

import json

import numpy as np
import pandas as pd
import pytest
import tomli_w
from conftest import refusal, tiny_table
from interrupting import assert_resumes
from moving import moving

from wirelessdl.channel import path_loss_db
from wirelessdl.gaussian import slot_mu
from wirelessdl.links import Geometry, Links
from wirelessdl.network.topology import Connectivity
from wirelessdl.run.build import build
from wirelessdl.run.session import simulate
from wirelessdl.run.wiring import make_observer
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.units import thermal_noise_w, w_to_dbm


def test_links_change_when_and_only_when_physics_says(tmp_path):
    """Every frame's graph against a brute-force evaluation from the traced positions."""
    run = simulate(moving(), out=tmp_path)
    noise_dbm = w_to_dbm(thermal_noise_w(1e7, 7.0))
    seen = set()
    for number, nodes in run.nodes.groupby("round"):
        place = nodes[["x_m", "y_m", "height_m"]].to_numpy()
        expected = set()
        for rx in range(8):
            for tx in range(8):
                if rx != tx:
                    ground = np.hypot(*(place[rx] - place[tx])[:2])
                    loss = path_loss_db(
                        "log-distance", ground, frequency_hz=3.5e9, tx_height_m=1.5, rx_height_m=1.5, exponent=3.2
                    )
                    if 23 - noise_dbm - loss >= 28.0:
                        expected.add((tx, rx))
        table = run.links[run.links["round"] == number]
        assert set(zip(table.tx, table.rx)) == expected
        seen.add(frozenset(expected))
    assert len(seen) > 5  # and they did change
    assert "frames" in run.summary["connectivity"]


def test_windows_without_joint_connectivity_are_counted():
    geometry = Geometry.at_rest(np.arange(9.0).reshape(3, 3))

    def joined(*pairs):
        mask = np.zeros((3, 3), bool)
        for a, b in pairs:
            mask[a, b] = mask[b, a] = True
        return Links.from_mask(mask, geometry)

    watched = Connectivity(window=2)
    for links in (joined((0, 1)), joined((1, 2)), joined((1, 2)), joined((0, 1), (1, 2))):
        watched.add(links)
    assert (watched.frames, watched.apart, watched.windows, watched.gaps) == (4, 3, 3, 1)
    assert watched.formatted() == "in parts in 3 of 4 frames, and over 2 frames together in 1 of 3 windows"


# --- payload against coherence


def test_a_payload_longer_than_a_tenth_of_the_coherence_time_goes_in_slots(wirelessdl_command):
    def formatted(*overrides):
        sets = [word for override in overrides for word in ("--set", override)]
        result = wirelessdl_command("check", "vehicular_ring_k10", "--json", *sets)
        return result, json.loads(result.out)["channel in time"] if result.code == 0 else ""

    assert "payload 0.3 of it: sent in 4 slots" in formatted()[1]
    assert "sent in one slot" in formatted("radio.bandwidth_hz=200e6")[1]
    assert "sent in 2 slots" in formatted("radio.payload_slots=2")[1]
    slow, _ = formatted("radio.bandwidth_hz=1e5")
    assert (slow.code, slow.err.count("\n")) == (2, 1)
    assert "radio.bandwidth_hz is too small; a payload of 0.0393 s lasts" in slow.err


def test_slots_have_gains_of_their_own_and_take_their_time():
    world = build(load_scenario("vehicular_ring_k10"))
    assert world.frame.slots == 4
    channel = make_observer(world).observe(1, 0.0)
    first, *later = (slot.gain for slot in channel.slots)
    for gain in later:
        assert (gain != first).all()
    assert world.frame.airtime_ns == 4 * world.frame.slot_ns + world.frame.feedback_ns
    assert [part.stop - part.start for part in world.frame.coordinates(7850)] == [1964, 1964, 1964, 1958]


# --- survival and mistakes


@pytest.mark.slow
def test_motion_clarke_slots_and_interference_resume_to_the_same_tables(tmp_path):
    overrides = ["scenario.rounds=60", "trace.checkpoint_every=20", "network.nodes=8", "radio.bandwidth_hz=1e6"]
    scenario = load_scenario(
        "urban_snr_k30", overrides=[*overrides, "power.objective='sum'", "radio.phase_error_rad=0.1"]
    )
    assert build(scenario).frame.slots > 1
    assert_resumes(scenario, tmp_path, 33)


def test_plans_of_frames_without_links_do_not_depend_on_memory(tmp_path):
    """Under a program, links that come and go, and frames with none at all."""
    scenario = moving(
        scenario={"rounds": 30, "seed": 10},
        network={"nodes": 6, "topology": {"kind": "range", "range_m": 40.0}},
        radio={"payload_slots": 1},
        power={"schedule": "adaptive"},
        privacy={"epsilon_max": 0.5},
        trace={"checkpoint_every": 20},
    )
    whole = assert_resumes(scenario, tmp_path, 21)
    links = whole.links.groupby("round").size().reindex(range(1, 31), fill_value=0)
    assert (links == 0).any()
    assert (links > 0).any()
    assert whole.summary["violations"] == 0
    # whom nobody hears hides behind its own noise all the same
    heard = set(zip(whole.links["round"], whole.links.tx))
    alone = [pair not in heard for pair in zip(whole.nodes["round"], whole.nodes.node)]
    ratio = (whole.clients["sensitivity"].max() * 6 / (10.0 * slot_mu(0.5, 1e-4))) ** 2
    assert whole.nodes.alpha[alone].max() == pytest.approx(1 / (1 + ratio))


def test_a_channel_in_slots_with_interference_is_exported_and_replayed_whole(tmp_path, wirelessdl_command):
    table = moving(
        network={"nodes": 5, "topology": {"kind": "range", "range_m": 150.0}},
        channel={"models": [{"model": "log-distance"}, {"model": "rayleigh", "process": "clarke"}]},
        radio={"interference": "physical", "bandwidth_hz": 2e7},
        power={"objective": "own-noise", "schedule": "adaptive"},
        scenario={"rounds": 12},
    ).to_table()
    (tmp_path / "x.toml").write_text(tomli_w.dumps(table))
    result = wirelessdl_command("channel", str(tmp_path / "x.toml"), "--export", str(tmp_path / "air.parquet"))
    assert result.code == 0, result.err
    first = simulate(load_scenario(tmp_path / "x.toml"), out=tmp_path)
    slots = build(load_scenario(tmp_path / "x.toml")).frame.slots
    assert slots > 1
    table["channel"]["models"] = [{"model": "replay", "file": str(tmp_path / "air.parquet")}]
    table["radio"]["payload_slots"] = slots
    (tmp_path / "y.toml").write_text(tomli_w.dumps(table))
    second = simulate(load_scenario(tmp_path / "y.toml"), out=tmp_path)
    pd.testing.assert_frame_equal(first.links, second.links)
    pd.testing.assert_series_equal(first.nodes.loss, second.nodes.loss)


def test_coherence_is_that_of_the_whole_run(tmp_path):
    """Nodes that stand for two seconds and then drive: the frame is made for driving."""
    rows = ["time_s,node,x_m,y_m"]
    for node in range(4):
        rows += [f"0,{node},{30 * node},0", f"2,{node},{30 * node},0", f"12,{node},{30 * node},100"]
    (tmp_path / "late.csv").write_text("\n".join(rows))
    scenario = moving(
        network={"nodes": 4, "topology": "full", "mobility": {"kind": "waypoints", "file": str(tmp_path / "late.csv")}},
        channel={"models": [{"model": "log-distance"}, {"model": "rayleigh", "process": "clarke"}]},
        scenario={"rounds": 20},
    )
    assert build(scenario).coherence_s == pytest.approx(0.423 / (20 * 3.5e9 / 299792458))


LATER = """
import numpy as np
from wirelessdl.links import Geometry
class Late:
    def __init__(self, start_m, how="nan"):
        self.start_m, self.how = start_m, how
    def geometry(self, time_s):
        place = self.start_m.copy()
        if time_s > 0:
            if self.how == "raises":
                raise KeyError("lost")
            place = {"nan": place * np.nan, "under": place * [1, 1, -1]}[self.how]
        return Geometry(place, np.zeros_like(place))
"""


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("network.mobility={kind='later.py:Late', how='nan'}", "returned position_m nan for node 0, expected"),
        ("network.mobility={kind='later.py:Late', how='raises'}", "later.py:Late raised KeyError: 'lost'"),
        ("network.mobility={kind='later.py:Late', how='under'}", "antennas must be above ground"),
    ],
)
def test_parts_that_break_their_word_later_on_are_named(override, words, tmp_path, wirelessdl_command):
    (tmp_path / "later.py").write_text(LATER)
    (tmp_path / "x.toml").write_text(tomli_w.dumps(tiny_table()))
    result = wirelessdl_command("run", str(tmp_path / "x.toml"), "--quiet", "--set", override)
    assert (result.code, result.err.count("\n")) == (2, 1), result.err
    assert words in result.err


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["power.objective='sum'", "power.schedule='static'"], 'power.schedule is "static" while nodes move'),
        (["radio.interference='physical'"], "loud nodes that are no neighbours drown"),
    ],
)
def test_what_means_less_than_it_seems_is_warned_about(overrides, words, wirelessdl_command):
    sets = [word for override in overrides for word in ("--set", override)]
    result = wirelessdl_command("check", "urban_er_k20_paper_lp", *sets)
    assert words in " ".join(result.out.split())


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("network.mobility={kind='random-waypoint', speed_mps=[-1, 2]}", "network.mobility.speed_mps"),
        ("network.mobility={kind='random-walk', speed_mps=-3}", "network.mobility.speed_mps"),
        ("network.placement={kind='disc', height_m=0}", "network.placement.height_m is 0"),
        ("channel.frequency_hz=0", "channel.frequency_hz is 0"),
        ("radio.phase_error_rad=-0.1", "radio.phase_error_rad is -0.1; must be >= 0"),
        ("radio.interference=some", 'radio.interference is "some"'),
        ("radio.payload_slots=0", "radio.payload_slots is 0"),
        ("network.joint_window=0", "network.joint_window is 0"),
        ("network.topology={kind='range', range_m=1}", "raise range_m, which is 1, or place nodes closer"),
    ],
)
def test_mistakes_are_one_line(override, words, tmp_path):
    (tmp_path / "x.toml").write_text(tomli_w.dumps(tiny_table()))
    assert words in refusal(tmp_path / "x.toml", override)
