"""Recorded channels, and what `wirelessdl channel` shows and writes."""

import json

import numpy as np
import pandas as pd
import pytest
import tomli_w
from conftest import refusal, tiny, tiny_table

from wirelessdl.channel import replay as module
from wirelessdl.channel.replay import Replay
from wirelessdl.links import Geometry, Links
from wirelessdl.run.session import simulate
from wirelessdl.trace.run import open_run


def links(nodes=3):
    return Links.from_mask(np.ones((nodes, nodes), bool), Geometry.at_rest(np.zeros((nodes, 3))))


def rows(times=(0.0, 1.0, 2.0), nodes=3):
    found = links(nodes)
    time_s = np.repeat(times, len(found))
    tx, rx = np.tile(found.tx, len(times)), np.tile(found.rx, len(times))
    return time_s, tx, rx, 1.0 + time_s + 0.1 * tx + 0.01 * rx


def write(path, *columns):
    with open(path, "wb") as file:
        module.write(file, path.suffix, *columns)


def replay(path, **given):
    return Replay(lambda _: path, path.name, **given)


@pytest.mark.parametrize("ending", ["parquet", "npz"])
def test_what_was_written_is_heard(tmp_path, ending):
    path = tmp_path / f"air.{ending}"
    order = np.random.default_rng(0).permutation(18)
    write(path, *(column[order] for column in rows()))  # rows may come in any order
    model, found = replay(path), links()
    expected = 0.1 * found.tx + 0.01 * found.rx
    np.testing.assert_allclose(model.gain(found, 0.0, None), 1.0 + expected)
    np.testing.assert_allclose(model.gain(found, 1.7, None), 2.0 + expected)
    np.testing.assert_allclose(model.gain(found, 0.5, None), 1.0 + expected)  # time may go back
    np.testing.assert_allclose(replay(path, interpolation="linear").gain(found, 1.7, None), 2.7 + expected)


def test_an_npz_may_hold_one_row_per_instant(tmp_path):
    found = links()
    gain = np.arange(12.0).reshape(2, 6)
    np.savez(tmp_path / "air.npz", time_s=[0.0, 1.0], tx=found.tx, rx=found.rx, gain=gain)
    model = replay(tmp_path / "air.npz")
    np.testing.assert_array_equal(model.gain(found, 0.2, None), gain[0])
    np.testing.assert_array_equal(model.gain(found, 1.0, None), gain[1])


def test_links_may_have_instants_of_their_own(tmp_path):
    path = tmp_path / "air.parquet"
    write(
        path,
        np.array([0.0, 0.4, 0.9, 0.0, 0.5]),
        np.array([1, 1, 1, 0, 0]),
        np.array([0, 0, 0, 1, 1]),
        np.array([1.0, 2.0, 3.0, 10.0, 20.0]),
    )
    both = links(2)
    model = replay(path, after_end="hold")
    np.testing.assert_array_equal(model.gain(both, 0.45, None), [2.0, 10.0])
    np.testing.assert_array_equal(model.gain(both, 7.0, None), [3.0, 20.0])


def test_one_direction_may_stand_for_both_and_a_single_instant_for_ever(tmp_path):
    path = tmp_path / "air.parquet"
    write(path, np.zeros(1), np.array([0]), np.array([1]), np.array([0.7]))
    np.testing.assert_array_equal(replay(path, reciprocal=True).gain(links(2), 1e6, None), [0.7, 0.7])
    with pytest.raises(ValueError, match=r"no gain for link 1 -> 0 \(1 of 2 links missing\).*reciprocal = true"):
        replay(path).gain(links(2), 0.0, None)


def test_a_trace_that_ends_may_be_repeated_or_held(tmp_path):
    path = tmp_path / "air.parquet"
    write(path, *rows())
    found = links()
    expected = 0.1 * found.tx + 0.01 * found.rx
    np.testing.assert_allclose(replay(path, after_end="repeat").gain(found, 3.2, None), 2.0 + expected)
    np.testing.assert_allclose(replay(path, after_end="hold").gain(found, 3.2, None), 3.0 + expected)
    with pytest.raises(ValueError, match=r"ends at 2 s; the run goes on to 3.2 s: run fewer rounds"):
        replay(path).gain(found, 3.2, None)


def test_an_exported_channel_drives_the_same_run(tmp_path, wirelessdl_command):
    """Export, replay: gains equal value for value, and so does the learning."""
    table = tiny_table(channel={"models": [{"model": "log-distance"}, {"model": "rayleigh"}]})
    (tmp_path / "x.toml").write_text(tomli_w.dumps(table))
    result = wirelessdl_command(
        "channel", str(tmp_path / "x.toml"), "--export", str(tmp_path / "air.parquet"), "--json"
    )
    assert result.code == 0, result.err
    told = json.loads(result.out)
    assert told["frames"] == table["scenario"]["rounds"]
    first = simulate(tiny(channel=table["channel"]), out=tmp_path)
    power = first.links.assign(power=first.links.gain**2).groupby(["tx", "rx"]).power.mean()
    for link in told["links"]:
        assert link["gain_db"] == pytest.approx(10 * np.log10(power[link["tx"], link["rx"]]))
    again = tiny(channel={"models": [{"model": "replay", "file": str(tmp_path / "air.parquet")}]})
    second = simulate(again, out=tmp_path)
    pd.testing.assert_frame_equal(first.links, second.links)
    pd.testing.assert_frame_equal(first.nodes, second.nodes)
    kept = list((second.path / "models").glob("*-air.parquet"))
    assert len(kept) == 1
    assert "air.parquet" in json.dumps(open_run(second.path).provenance["user_files"])


def test_the_channel_command_draws_and_says_what_is_wrong(tmp_path, wirelessdl_command):
    figure = tmp_path / "air.svg"
    clarke = "channel.models=[{model='log-distance'},{model='rician',process='clarke',speed_mps=2}]"
    result = wirelessdl_command("channel", "quickstart", "--rounds", "20", "--set", clarke, "--figure", str(figure))
    assert result.code == 0, result.err
    assert "coherence" in result.out
    text = figure.read_text()
    for words in (
        "First frame, fading averaged out",
        "Gain as frames open",
        "Amplitude of fading",
        "theory",
        "lag in ms",
    ):
        assert words in text
    for arguments, words in (
        (("--export", "air.csv"), "must end in .parquet, .npz or .tcl"),
        (("--links", "0-77"), "there is no such link"),
        (("--links", "zero"), "must be sender and receiver, such as 0-3"),
        (("--figure", "air.gif"), "figures are written as"),
    ):
        bad = wirelessdl_command("channel", "quickstart", "--rounds", "2", *arguments)
        assert bad.code == 2
        assert words in bad.err


def test_a_trace_that_ends_before_the_run_is_refused_before_it_starts(tmp_path, wirelessdl_command):
    result = wirelessdl_command("run", "replay_k4", "--rounds", "200", "--out", str(tmp_path))
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "ends at 6.98 s, the run goes on to 8.7" in result.err
    assert not list(tmp_path.iterdir())
    missing = wirelessdl_command("check", "replay_k4", "--set", "channel.models.0.file=gone.parquet")
    assert 'file is "gone.parquet"; no such file in' in missing.err


# --- complex gains and subbands


def wide_rows(subbands=3):
    time_s, tx, rx, gain = rows()
    turn = np.exp(1j * (0.3 * tx + 0.7 * rx + np.pi * time_s))
    return time_s, tx, rx, (gain * turn)[:, None] * np.exp(-0.5j * np.arange(subbands)) * (1 + np.arange(subbands))


@pytest.mark.parametrize("ending", ["parquet", "npz"])
def test_complex_gains_of_subbands_are_heard(tmp_path, ending):
    path, found = tmp_path / f"air.{ending}", links()
    order = np.random.default_rng(0).permutation(18)
    columns = wide_rows()
    write(path, *(column[order] for column in columns))
    offset_hz = np.array([-1e6, 0.0, 1e6])
    at_one = columns[3][6:12].T
    np.testing.assert_allclose(replay(path).response(found, 1.7, offset_hz, None), at_one)
    # half-way through the complex plane: the two instants are half a cycle apart, so amplitudes would not cancel
    linear = replay(path, interpolation="linear").response(found, 0.5, offset_hz, None)
    np.testing.assert_allclose(linear, 0.5 * (columns[3][:6] + columns[3][6:12]).T)


def test_an_npz_may_hold_a_cube_of_instants_links_and_subbands(tmp_path):
    found = links()
    gain = (1 + 1j) * np.arange(2 * 6 * 4.0).reshape(2, 6, 4)
    np.savez(tmp_path / "air.npz", time_s=[0.0, 1.0], tx=found.tx, rx=found.rx, gain=gain)
    heard = replay(tmp_path / "air.npz").response(found, 0.2, np.zeros(4), None)
    np.testing.assert_array_equal(heard, gain[0].T)


def test_a_complex_file_without_subbands_is_one_gain_for_the_band(tmp_path):
    time_s, tx, rx, gain = wide_rows(subbands=1)
    write(tmp_path / "air.parquet", time_s, tx, rx, gain[:, 0])
    model, found = replay(tmp_path / "air.parquet"), links()
    np.testing.assert_allclose(model.gain(found, 0.0, None), np.abs(gain[:6, 0]))
    np.testing.assert_allclose(model.response(found, 0.0, np.zeros(2), None), np.stack([gain[:6, 0]] * 2))


def test_an_exported_wideband_channel_drives_the_same_run(tmp_path, wirelessdl_command):
    table = tiny_table(
        channel={"models": [{"model": "log-distance"}, {"model": "tdl", "delay_spread_s": 3e-7}]},
        radio={"subbands": 4, "payload_slots": 2},
        power={"objective": "own-noise"},  # a file has no mean over fading, which other plans are made from
        trace={"blocks": True},
    )
    (tmp_path / "x.toml").write_text(tomli_w.dumps(table))
    told = json.loads(
        wirelessdl_command("channel", str(tmp_path / "x.toml"), "--export", str(tmp_path / "air.npz"), "--json").out
    )
    assert told["frequency"]["subbands"] == 4
    given = {name: table[name] for name in ("channel", "radio", "power", "trace")}
    first = simulate(tiny(**given), out=tmp_path)
    again = {**given, "channel": {"models": [{"model": "replay", "file": str(tmp_path / "air.npz")}]}}
    second = simulate(tiny(**again), out=tmp_path)
    for name in ("links", "nodes", "blocks"):
        pd.testing.assert_frame_equal(getattr(first, name), getattr(second, name))


@pytest.mark.parametrize(
    ("change", "subbands", "words"),
    [
        ({"gain": np.full(18, np.nan)}, 1, "row 0 has gain nan"),
        ({"gain": np.full(18, -1.0)}, 1, "row 0 has gain -1"),
        ({"tx": np.full(18, -2)}, 1, "nodes count from 0"),
        ({"tx": np.linspace(0, 1, 18)}, 1, "tx and rx whole ones"),
        ({"time_s": np.zeros(18)}, 1, "has 0 s twice"),
        ({"gain": np.ones(17)}, 1, "its columns have different lengths"),
        ({"gain": None}, 1, "has no gain: it must hold time_s, tx, rx, gain"),
        ({}, 1, "air.npz holds 3 subbands, radio.subbands is 1: set radio.subbands = 3"),
        ({}, 4, "air.npz holds 3 subbands, radio.subbands is 4: set radio.subbands = 3"),
        ({"gain": np.full((18, 3), 1j * np.nan)}, 3, "row 0 has gain nan"),
        ({"gain": np.ones((18, 3, 2, 2))}, 3, "its columns have different lengths"),
        ({"gain": np.ones((17, 3))}, 3, "its columns have different lengths"),
        ({"gain": None, "gain_re": np.ones(18)}, 3, "has no gain: it must hold time_s, tx, rx, gain (or gain_re"),
        ({"gain": None, "gain_re": np.ones(18), "gain_im": np.ones(17)}, 3, "different lengths"),
        ({"gain": None, "gain_re": np.ones(18), "gain_im": np.full(18, "a")}, 3, "time_s and gain must be numbers"),
        ({"time_s": np.ones(18) * 1j}, 3, "time_s holds complex numbers"),
        ({"time_s": 0.0}, 3, "time_s, tx and rx must be lists, also of one instant or link"),
        ({"tx": np.full(18, 2**40)}, 3, "nodes count from 0"),
        ({"gain": np.ones(18), "subband": np.zeros(17, int)}, 3, "subband must have one number per row"),
        ({"gain": np.ones(18), "subband": np.zeros(18) + 0.5}, 3, "whole ones, as subband"),
        ({"gain": np.ones(18), "subband": np.ones(18, int)}, 3, "does not have every subband from 0 to 1 once"),
    ],
)
def test_damaged_traces_are_one_line(tmp_path, change, subbands, words):
    columns = dict(zip(("time_s", "tx", "rx", "gain"), wide_rows())) | change
    np.savez(tmp_path / "air.npz", **{name: values for name, values in columns.items() if values is not None})
    table = tiny_table(
        network={"nodes": 3}, radio={"subbands": subbands}, channel={"models": [{"model": "replay", "file": "air.npz"}]}
    )
    (tmp_path / "x.toml").write_text(tomli_w.dumps(table))
    line = refusal(tmp_path / "x.toml")
    assert ("channel.models[0].file is 'air.npz'" in line) == bool(change)
    assert words in line


# --- self-interference


def test_own_emission_is_heard_and_traced(tmp_path):
    loud = simulate(tiny(radio={"cancellation_db": 30.0}), out=tmp_path)
    quiet = simulate(tiny(), out=tmp_path)
    assert quiet.nodes.self_interference_w.isna().all()
    # on average over coordinates and noise, what remains is the radiated power 30 dB down
    ratio = loud.nodes.self_interference_w / loud.nodes.power_w
    assert ratio.mean() == pytest.approx(1e-3, rel=0.02)
    assert (loud.nodes.loss != quiet.nodes.loss).any()


def test_a_range_that_is_relaxed_is_a_warning(wirelessdl_command):
    close = (
        "--set",
        "network.placement.radius_m=4",
        "--set",
        "channel.models=[{model='umi-street-canyon', enforce_range=false}]",
    )
    result = wirelessdl_command("check", "quickstart", *close)
    assert result.code == 0, result.err
    assert "umi-street-canyon holds from 10 to 5000" in " ".join(result.out.split())


def bad_npz(path, damage):
    write(path, *rows())
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage in ("60", "70"):  # the head of the first column's compressed numbers, and one of them
        at = int(damage)
        path.write_bytes(content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :])
    else:
        with open(path, "wb") as file:
            np.save(file, np.zeros(3))


@pytest.mark.parametrize("damage", ["cut", "empty", "60", "70", "npy"])
def test_a_file_that_is_no_npz_is_one_line(tmp_path, damage):
    path = tmp_path / "air.npz"
    bad_npz(path, damage)
    with pytest.raises(ValueError, match=r"^file is 'air.npz'; cannot be read: \w.*$"):
        replay(path)


@pytest.mark.parametrize("unit", ["timedelta64[ms]", "datetime64[s]"])
@pytest.mark.parametrize("ending", ["parquet", "npz"])
def test_times_that_are_no_numbers_of_seconds_are_refused(tmp_path, unit, ending):
    path, (time_s, tx, rx, gain) = tmp_path / f"air.{ending}", rows()
    times = time_s.astype(np.int64).astype(unit)
    if ending == "npz":
        np.savez(path, time_s=times, tx=tx, rx=rx, gain=gain)
    else:
        pd.DataFrame({"time_s": times, "tx": tx, "rx": rx, "gain": gain}).to_parquet(path)
    with pytest.raises(ValueError, match=rf"^file is 'air.{ending}'; time_s holds dates or times; must be numbers"):
        replay(path)
