"""`wirelessdl channel` and `plan`: SINR before a run, suspect gains, and what the figure shows."""

import json
from itertools import pairwise

import numpy as np
import pytest
import tomli_w
from conftest import hubs, tiny, tiny_table

from wirelessdl import simulate
from wirelessdl.preview import figures
from wirelessdl.preview.channel import fading_facts, link_facts, preview_channel, preview_frequency
from wirelessdl.preview.plan import preview_plan
from wirelessdl.run.build import build

SMALL = {"dataset": {"kind": "synthetic", "features": 4, "samples": 60, "classes": 2}, "batch_size": 4}
NOISE_W = 1.380649e-23 * 290 * 1e6 * 10**0.7


def stranded(**radio):
    """A ring of seven under physical interference, jammed, without fading; node 3 is loud."""
    return tiny(
        scenario={"rounds": 3},
        network={"nodes": 7, "topology": "ring", "placement": {"kind": "disc", "radius_m": 100}},
        channel={"models": [{"model": "log-distance"}]},
        radio={
            "interference": "physical",
            "thermal_noise": True,
            "power_dbm": [10.0, 10, 10, 23, 10, 10, 10],
            "cancellation_db": 90,
            **radio,
        },
        power={"objective": "own-noise"},
        faults={"jammer": {"kind": "noise", "power_dbm": -95}},
        learning=SMALL,
    )


@pytest.mark.parametrize("radio", [{}, {"duplex": "half"}, {"access": "tdma"}], ids=["full", "half", "tdma"])
def test_sinr_before_a_run_counts_those_who_send_in_the_same_turn(radio):
    """Of every link, written out, in `channel` (mean over frames) and in `plan` (first frame)."""
    world = build(stranded(**radio), device="cpu")
    found = preview_channel(world)
    facts = link_facts(world, found)

    access = world.access
    power_w = 10 ** (np.array([10.0, 10, 10, 23, 10, 10, 10]) / 10 - 3)
    residual_w = power_w * 1e-9 if not radio else np.zeros(7)
    ring = {(i, j) for i in range(7) for j in ((i + 1) % 7, (i - 1) % 7)}
    expected, carried = {link: [] for link in ring}, {link: [] for link in ring}
    for number, frame in enumerate(found.frames, start=1):
        turn = access.schedule(number, frame.links).turn
        received = frame.heard.matrix(frame.slots[0].gain) ** 2 * power_w
        for i, j in ring:
            strange_w = sum(received[i, k] for k in range(7) if k != i and (i, k) not in ring and turn[k] == turn[j])
            sinr = received[i, j] / (NOISE_W + 10 ** (-95 / 10 - 3) + residual_w[i] + strange_w)
            expected[i, j].append(sinr)
            carried[i, j].append(not radio or turn[i] != turn[j])
    for rx, tx, sinr_db in zip(facts.rx.tolist(), facts.tx.tolist(), facts.sinr_db.tolist()):
        assert sinr_db == pytest.approx(10 * np.log10(np.mean(expected[rx, tx])), abs=1e-9)
    first = sorted((i, j) for i, j in ring if carried[i, j][0])  # in order of links
    planned = preview_plan(build(stranded(**radio), device="cpu")).sinr_db
    np.testing.assert_allclose(planned, [10 * np.log10(expected[link][0]) for link in first], atol=1e-9)


# --- over time


@pytest.mark.parametrize("m", [0.7, 1.0, 4.0])
def test_power_in_time_has_the_m_of_its_fading_model(m):
    """Independent Nakagami fading, 400 frames of 20 links: m within a tenth, no correlation between frames."""
    models = [{"model": "log-distance"}, {"model": "nakagami", "m": m}]
    found = preview_channel(build(tiny(scenario={"rounds": 400}, channel={"models": models}), device="cpu"))
    fading = fading_facts(found)
    assert fading.nakagami_m == pytest.approx(m, rel=0.1)
    assert fading.correlation == pytest.approx(0, abs=0.05)


def test_power_in_time_is_as_correlated_as_written_out():
    models = [{"model": "log-distance"}, {"model": "rayleigh", "process": "clarke", "speed_mps": 2.0}]
    found = preview_channel(build(tiny(scenario={"rounds": 60}, channel={"models": models}), device="cpu"))
    fading = fading_facts(found)
    pairs, squares, freedom = [], 0.0, 0
    for tx, rx in {(tx, rx) for rx in range(4) for tx in range(4) if rx != tx}:
        _, gain = found.over_time(tx, rx)
        if not len(gain):
            continue
        relative = gain**2 / np.mean(gain**2) - 1
        pairs += list(pairwise(relative))
        squares, freedom = squares + np.sum(relative**2), freedom + len(gain) - 1
    before, after = np.array(pairs).T
    assert fading.nakagami_m == pytest.approx(freedom / squares, rel=1e-9)
    assert fading.correlation == pytest.approx(before @ after / np.sqrt(before @ before * (after @ after)), rel=1e-9)


def test_power_without_fading_is_constant():
    found = preview_channel(build(tiny(channel={"models": [{"model": "log-distance"}]}), device="cpu"))
    assert fading_facts(found).correlation is None


# --- over frequency

BAND = {"subbands": 8, "bandwidth_hz": 8e6}
FITS = {"dataset": {"kind": "synthetic", "features": 30, "samples": 60, "classes": 2}, "batch_size": 4}
TAPS = {"model": "tdl", "profile": "exponential", "delay_spread_s": 1e-7, "process": "clarke", "speed_mps": 1.0}


@pytest.fixture(scope="module")
def band():
    """Eight subbands over a tapped delay line: the world, what was found, and the preview of the band."""
    given = {"channel": {"models": [{"model": "log-distance"}, TAPS]}, "radio": BAND, "learning": FITS}
    world = build(tiny(network={"nodes": 6}, **given), device="cpu")
    found = preview_channel(world)
    return world, found, preview_frequency(world, found)


def test_gains_over_frequency_are_those_of_the_first_frame(band, monkeypatch):
    world, preview, found = band
    assert found.delay_spread_s == pytest.approx(1e-7)
    assert found.gain.shape == (8, 30)
    np.testing.assert_array_equal(found.gain[3], preview.frames[0].slots[3].gain)
    assert found.subband_hz == 1e6
    power = found.gain**2
    expected = [10 * np.log10(min(row) / (sum(row) / 8)) for row in power.T]
    np.testing.assert_allclose(found.weakest_db, expected)
    kept = []
    monkeypatch.setattr(figures, "save", lambda figure, _: kept.append(figure))
    figures.draw_channel(preview, link_facts(world, preview), [(0, 1)], "air", None, found)
    (step,) = kept[0].axes[2].patches
    np.testing.assert_allclose(step.get_data().edges, np.arange(-4.0, 5.0))


def test_the_channel_command_says_what_the_band_is_like(wirelessdl_command, tmp_path):
    table = tiny_table(channel={"models": [{"model": "log-distance"}, TAPS]}, radio=BAND, learning=FITS)
    (tmp_path / "s.toml").write_text(tomli_w.dumps(table))
    told = json.loads(wirelessdl_command("channel", "s.toml", "--json").out)["frequency"]
    assert (told["subbands"], told["subband_hz"], len(told["weakest_subband_db"])) == (8, 1e6, 12)
    printed = wirelessdl_command("channel", "s.toml").out
    assert [line for line in printed.splitlines() if line.endswith(" ")] == []
    text = " ".join(printed.split())
    assert "8 subbands of 1 MHz; delay spread 100 ns" in text
    flat = wirelessdl_command("channel", "s.toml", "--json", "--set", "channel.models=[{model='log-distance'}]")
    assert json.loads(flat.out)["frequency"]["delay_spread_s"] is None
    wide = wirelessdl_command("check", "s.toml", "--set", "radio.subbands=4")
    assert "radio.subbands to 8 or more" in " ".join(wide.out.split())


@pytest.mark.parametrize("read", ["air.parquet", "samples.npz"])
def test_a_file_that_the_scenario_reads_is_not_written(read, tmp_path, wirelessdl_command):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "samples.npz", x=rng.normal(size=(60, 4)), y=rng.integers(2, size=60))
    (tmp_path / "first.toml").write_text(tomli_w.dumps(tiny_table(learning=SMALL)))
    assert wirelessdl_command("channel", "first.toml", "--export", "air.parquet", "--json").code == 0
    table = tiny_table(
        channel={"models": [{"model": "replay", "file": "air.parquet"}]},
        learning={"dataset": {"kind": "file", "path": "samples.npz"}},
    )
    (tmp_path / "s.toml").write_text(tomli_w.dumps(table))
    before = (tmp_path / read).read_bytes()
    done = wirelessdl_command("channel", "s.toml", "--export", f"../{tmp_path.name}/{read}")
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert f"{read}: is read by s.toml; choose another file to write" in done.err
    assert (tmp_path / read).read_bytes() == before
    assert wirelessdl_command("channel", "s.toml", "--export", "other.parquet", "--json").code == 0


MOVES = """
import os
import numpy as np

class Moves:
    def gain(self, links, time_s, rng):
        os.chdir(os.environ["ELSEWHERE"])
        return np.full(len(links), 0.5)
"""


@pytest.mark.parametrize(
    ("command", "option", "name"),
    [("channel", "--export", "g.npz"), ("channel", "--figure", "g.png"), ("plan", "--figure", "g.png")],
)
def test_what_is_written_lies_where_it_was_asked_for_though_a_class_changes_the_working_folder(
    command, option, name, tmp_path, wirelessdl_command, monkeypatch
):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("ELSEWHERE", str(tmp_path / "elsewhere"))
    (tmp_path / "moves.py").write_text(MOVES)
    table = tiny_table(learning=SMALL, channel={"models": [{"model": "uniform"}, {"model": "moves.py:Moves"}]})
    (tmp_path / "s.toml").write_text(tomli_w.dumps(table))
    done = wirelessdl_command(command, "s.toml", option, name)
    assert done.code == 0, done.err
    assert f"in {name}" in done.out
    assert (tmp_path / name).stat().st_size
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_frames_that_hubs_lay_out_open_when_those_of_the_run_do(tmp_path):
    given = hubs(scenario={"rounds": 5})
    world = build(given, device="cpu")
    found = preview_channel(world)
    run = simulate(given, out=tmp_path)
    assert found.time_s.tolist() == run.rounds["opened_s"].tolist()
    last = run.links[run.links["round"] == 5]
    heard = found.frames[-1].heard
    stated = dict(zip(zip(heard.rx.tolist(), heard.tx.tolist()), found.frames[-1].heard_gain))
    assert [stated[link] for link in zip(last["rx"], last["tx"])] == pytest.approx(last["gain"].tolist())


def test_the_map_has_a_ring_around_every_hub(tmp_path, monkeypatch):
    world = build(hubs(), device="cpu")
    found = preview_channel(world)
    kept = []
    monkeypatch.setattr(figures, "save", lambda figure, _: kept.append(figure))
    figures.draw_channel(found, link_facts(world, found), [(0, 1)], "hubs", tmp_path / "a.png")
    axis = kept[0].axes[0]
    (rings,) = [line for line in axis.lines if line.get_label() == "hubs"]
    hub = found.carry.facts["hubs"]
    np.testing.assert_array_equal(rings.get_xydata(), found.links.geometry.position_m[hub, :2])
    drawn = sum(len(part.get_segments()) for part in axis.collections if hasattr(part, "get_segments"))
    assert drawn == len(
        {(a, int(b)) for a, nodes in found.carry.hub_members for b in nodes}
        | {(int(b), a) for a, nodes in found.carry.hub_members for b in nodes}
    )
