"""Interference, imperfect CSI and phases as whole runs show them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import over, tiny

from wirelessdl.learning.superposition import Superposer, one_slot
from wirelessdl.run.build import build
from wirelessdl.run.session import simulate
from wirelessdl.units import thermal_noise_w, w_to_dbm

# --- interference


def test_everyone_is_heard_leaks_and_is_traced(tmp_path):
    """Ring of six under physical interference: weights and epsilons of all thirty pairs, written out."""
    scenario = tiny(
        network={"nodes": 6, "topology": "ring"},
        channel={"models": [{"model": "log-distance"}]},
        radio={"interference": "physical", "power_dbm": 23},
        power={"objective": "own-noise"},
        scenario={"rounds": 3},
    )
    run = simulate(scenario, out=tmp_path)
    last = run.links[run.links["round"] == 3]
    assert len(last) == 30
    assert last.neighbour.sum() == 12
    assert (last.epsilon > 0).all()
    nodes = run.nodes[run.nodes["round"] == 3].set_index("node")
    sent = np.sqrt(nodes.alpha * 10 ** (23 / 10 - 3))
    for rx, heard in last.groupby("rx"):
        reaching = heard.gain * sent.loc[heard.tx].to_numpy()
        # one receiver, one scale, for neighbours and others; strangers arrive turned, since nobody aligns them
        scale = heard.weight / (reaching * np.cos(heard.phase_rad))
        np.testing.assert_allclose(scale, scale.iloc[0])
        assert (heard.phase_rad[heard.neighbour] == 0).all()
        assert (heard.phase_rad[~heard.neighbour] != 0).all()
        invited = reaching[heard.neighbour].sum() * scale.iloc[0]
        own = 1 - invited
        assert nodes.row_sum[rx] == pytest.approx(own + heard.weight.sum())
        # Theorem 1 with the noise of everyone who is heard
        sigma = run.rounds.noise_std.iloc[2]
        masking = (heard.gain**2 * nodes.beta.loc[heard.tx].to_numpy()).sum() * 10 ** (23 / 10 - 3) * sigma**2
        carried = run.clients["sensitivity"][0] * run.rounds.learning_rate.iloc[1] * 6
        expected = carried * reaching / np.sqrt(masking) * np.sqrt(2 * np.log(1.25e4))
        np.testing.assert_allclose(heard.epsilon, expected, rtol=1e-6)


def test_strangers_arrive_with_any_phase_so_rows_sum_to_one_on_average(tmp_path):
    """Mean of row sums 1 within three standard errors; half of a stranger's power is on the coordinate, half beside."""
    scenario = tiny(
        network={"nodes": 8, "topology": "ring", "placement": {"kind": "disc", "radius_m": 100}},
        channel={"models": [{"model": "log-distance"}]},
        radio={"interference": "physical", "power_dbm": 23},
        power={"objective": "own-noise"},
        scenario={"rounds": 300, "name": "turned", "seed": 3},
        learning={"eval_every": 300},
    )
    run = simulate(scenario, out=tmp_path)
    row_sum = run.nodes["row_sum"].to_numpy()
    assert abs(row_sum.mean() - 1) < 3 * row_sum.std() / np.sqrt(len(row_sum))
    assert row_sum.std() > 0.01
    strangers = run.links[~run.links["neighbour"]]
    phase = strangers["phase_rad"].to_numpy()
    assert abs(np.cos(phase).mean()) < 4 / np.sqrt(2 * len(phase))
    assert abs((np.cos(phase) ** 2).mean() - 0.5) < 4 * np.sqrt(1 / 8 / len(phase))
    again = strangers.pivot_table(index="round", columns=["rx", "tx"], values="phase_rad")
    assert (again.nunique() == 300).all()  # anew in every slot


def test_a_turned_symbol_keeps_its_power():
    """Power on a coordinate and on its pair add up to what is received, to the last digits."""
    rng = np.random.default_rng(0)
    phase, gain = rng.uniform(0, 2 * np.pi, (4, 4)), rng.uniform(0.1, 1, (4, 4))
    sent = torch.as_tensor(rng.normal(size=(4, 10)))
    for i in range(4):
        for j in range(4):
            only = np.zeros((4, 4))
            only[i, j] = gain[i, j]
            (segment,) = one_slot(10, only * np.cos(phase), np.zeros(4))
            out = torch.zeros_like(sent)
            air = Superposer(torch.device("cpu"), torch.float64)
            air.superpose((replace(segment, crosstalk=only * np.sin(phase)),), sent, out)
            received = gain[i, j] ** 2 * float((sent[j] ** 2).sum())
            assert float((out[i] ** 2).sum()) == pytest.approx(received, rel=1e-12)


def test_the_program_keeps_its_promise_towards_everyone_who_hears(tmp_path):
    scenario = tiny(
        network={"nodes": 8, "topology": "ring", "placement": {"kind": "disc", "radius_m": 100}},
        channel={"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        radio={"interference": "physical", "power_dbm": 23},
        power={"schedule": "adaptive"},
        scenario={"rounds": 10},
    )
    run = simulate(scenario, out=tmp_path)
    assert len(run.links) == 10 * 56
    assert run.links.epsilon.max() <= 1 + 1e-9
    assert run.summary["violations"] == 0


# --- CSI and phases


def pilots_at(snr_db, rounds, **sections):
    """Every link at the same pilot SNR: 1 W over 1 MHz, a loss to fit."""
    loss_db = 30.0 - w_to_dbm(thermal_noise_w(1e6, 7.0)) - snr_db
    base = {
        "scenario": {"rounds": rounds},
        "network": {"nodes": 8},
        "channel": {"models": [{"model": "matrix", "loss_db": [[loss_db] * 8] * 8}]},
        "radio": {"power_dbm": 30, "thermal_noise": True, "csi": "pilots"},
        "power": {"objective": "own-noise", "balance": False, "multiplier": "mean"},
        "learning": {"eval_every": rounds, "batch_size": 8},
    }
    return tiny(**over(base, sections))


@pytest.mark.parametrize("snr_db", [10.0, 15.0, 20.0])
def test_weight_sums_under_pilots_follow_theory(snr_db, tmp_path):
    """sum g / sum g_est with Gaussian errors: E[1/(1 + d)] = 1 + s^2 + 3 s^4 + ..., s^2 = 1/(2 SNR degree)."""
    data = {"kind": "synthetic", "features": 4, "samples": 100, "test_samples": 10}  # what is learned does not matter
    run = simulate(pilots_at(snr_db, 400, learning={"dataset": data}), out=tmp_path)
    error = (run.links.gain_est - run.links.gain) / run.links.gain
    expected_mse = 10 ** (-snr_db / 10) / 2
    count = len(error)
    assert abs(error.mean()) < 4 * np.sqrt(expected_mse / count)
    assert abs((error**2).mean() - expected_mse) < 4 * expected_mse * np.sqrt(2 / count)
    square = expected_mse / 7
    heard = 7 / 8 * (1 + square + 3 * square**2 + 15 * square**3)
    links = run.links.assign(turned=run.links.gain * np.cos(run.links.phase_rad)).groupby(["round", "rx"])
    received, estimated, turned = (links[name].sum().to_numpy() for name in ("gain", "gain_est", "turned"))
    # the other part of the error turns what is aligned to it
    np.testing.assert_allclose(run.nodes.row_sum, 1 / 8 + 7 / 8 * turned / estimated, rtol=1e-9)
    sums = 1 / 8 + 7 / 8 * received / estimated
    assert abs(sums.mean() - (1 / 8 + heard)) < sums.std() / np.sqrt(len(sums))  # one standard error


@pytest.mark.slow
def test_phase_errors_shrink_weights_by_their_mean_cosine(tmp_path):
    """E cos(phi) = exp(-s^2/2) on the air's share of a row; phases have their deviation."""
    scenario = tiny(
        scenario={"rounds": 300}, radio={"phase_error_rad": 0.5}, power={"balance": False, "multiplier": "mean"}
    )
    run = simulate(scenario, out=tmp_path)
    phase = run.links.phase_rad
    assert abs(phase.std() - 0.5) < 4 * 0.5 / np.sqrt(2 * len(phase))
    sums = run.nodes.row_sum
    expected = 1 / 4 + 3 / 4 * np.exp(-0.125)
    assert abs(sums.mean() - expected) < 4 * sums.std() / np.sqrt(len(sums))
    one = run.links.iloc[0]
    twin = simulate(tiny(power={"balance": False, "multiplier": "mean"}), out=tmp_path).links.iloc[0]
    assert one.weight == pytest.approx(twin.weight * np.cos(one.phase_rad))
    assert one.epsilon == pytest.approx(twin.epsilon)  # a rotation hides nothing and shows nothing


def test_a_jammer_and_strangers_show_in_the_sinr_and_not_in_the_snr(tmp_path):
    """Every row written out: received power over thermal noise, jammer, strangers and what is left of one's own."""
    common = {
        "network": {"nodes": 6, "topology": "ring", "placement": {"kind": "disc", "radius_m": 100}},
        "channel": {"models": [{"model": "log-distance"}]},
        "power": {"objective": "own-noise"},
        "scenario": {"rounds": 3, "name": "sinr", "seed": 3},
        "trace": {"links": "all"},
    }
    radio = {"power_dbm": 23, "thermal_noise": True, "bandwidth_hz": 1e6, "interference": "physical"}
    jammer = {"jammer": {"kind": "noise", "power_dbm": 10}}
    quiet, jammed = (
        simulate(tiny(radio={**radio, "cancellation_db": 90.0}, faults=faults, **common), out=tmp_path)
        for faults in ({}, jammer)
    )
    noise_w = thermal_noise_w(1e6, 7, 290)
    jammer_w = build(tiny(radio=radio, faults=jammer, **common)).jammer.noise_w(
        build(tiny(radio=radio, **common)).links.geometry, 0.0
    )
    for run, extra_w in ((quiet, np.zeros(6)), (jammed, jammer_w)):
        nodes = run.nodes[run.nodes["round"] == 3].set_index("node")
        for rx, heard in run.links[run.links["round"] == 3].groupby("rx"):
            received = heard["gain"] ** 2 * nodes["power_w"].loc[heard["tx"]].to_numpy()
            strange = received[~heard["neighbour"]].sum()
            for _, row in heard.iterrows():
                mine = row["gain"] ** 2 * nodes["power_w"][row["tx"]]
                others = strange if row["neighbour"] else strange - mine
                floor = noise_w + extra_w[rx] + nodes["self_interference_w"][rx] + others
                assert row["sinr_db"] == pytest.approx(10 * np.log10(mine / floor), abs=1e-6)
                assert row["snr_db"] == pytest.approx(10 * np.log10(mine / noise_w), abs=1e-6)
    assert (jammed.rounds["sinr_db"] < quiet.rounds["sinr_db"] - 3).all()
    links = quiet.links[(quiet.links["round"] == 2) & quiet.links["neighbour"]]
    assert quiet.rounds["sinr_db"][1] == pytest.approx(links["sinr_db"].median())
    assert simulate(tiny(), out=tmp_path).links["sinr_db"].isna().all()  # nothing disturbs
