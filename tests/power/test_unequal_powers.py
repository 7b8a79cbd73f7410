"""Power limits that differ from node to node: in plans, in the air, in batteries and in the tables."""

import numpy as np
import pytest
import tomli_w
from conftest import refusal, tiny, tiny_table

from wirelessdl.gaussian import classic_factor
from wirelessdl.run.build import build
from wirelessdl.run.session import simulate
from wirelessdl.run.wiring import make_observer, make_planner
from wirelessdl.units import dbm_to_w

UNEQUAL = [10.0, 23.0, 17.0, 12.0, 23.0]


def scenario(objective="sum", balance="receiver", **radio):
    return tiny(
        scenario={"name": "unequal", "seed": 3, "rounds": 6},
        network={"nodes": 5, "topology": {"kind": "erdos-renyi", "p": 0.6}},
        channel={"models": [{"model": "uniform"}]},
        radio={"power_dbm": UNEQUAL, "thermal_noise": True, "bandwidth_hz": 1e6, **radio},
        power={"objective": objective, "balance": balance, "alpha_min": 1e-6, "schedule": "adaptive"},
        trace={"links": "all"},
    )


@pytest.mark.parametrize("balance", ["receiver", "power", False])
@pytest.mark.parametrize("objective", ["sum", "max-min", "min-noise", "own-noise"])
def test_a_plan_keeps_every_constraint_checked_by_hand(objective, balance):
    world = build(scenario(objective, balance))
    channel = make_observer(world).observe(1, 0.0)
    plan = make_planner(world).first(channel)
    limit = 10 ** ((np.array(UNEQUAL) - 30) / 10)
    assert (plan.power_w <= limit * (1 + 1e-12)).all()
    if balance != "power":
        np.testing.assert_allclose(plan.power_w, limit)
    gain = channel.links.matrix(channel.mean_gain)
    sens, rho = 2 / 8, 10.0
    for i in range(5):
        masking = sum(gain[i, k] ** 2 * plan.beta[k] * plan.power_w[k] * rho**2 for k in range(5))
        for j in np.flatnonzero(gain[i]):
            shift = sens * plan.theta * gain[i, j] * np.sqrt(plan.alpha[j] * plan.power_w[j])
            assert shift / np.sqrt(masking) * classic_factor(1e-4) <= 1.0 * (1 + 1e-9)
    amplitude = gain * np.sqrt(plan.alpha * plan.power_w)
    air = amplitude / amplitude.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(plan.mixing - np.diag(np.diag(plan.mixing)), air * (1 - np.diag(plan.mixing))[:, None])


@pytest.mark.parametrize("full_power", [True, False])
def test_nobody_radiates_more_than_its_own_limit_and_tables_hold_it(full_power, tmp_path):
    run = simulate(scenario(use_full_power=full_power), out=tmp_path)
    limit = dbm_to_w(np.array(UNEQUAL))
    np.testing.assert_allclose(run.clients["budget_w"], limit)
    most = run.nodes.groupby("node")["power_w"].max().to_numpy()
    assert (most <= limit * (1 + 1e-5)).all()
    links = run.links.merge(
        run.nodes[["round", "node", "power_w"]], left_on=["round", "tx"], right_on=["round", "node"]
    )
    noise_w = 1.380649e-23 * 290 * 1e6 * 10**0.7
    expected = 10 * np.log10(links["gain"] ** 2 * links["power_w"] / noise_w)
    np.testing.assert_allclose(links["snr_db"], expected, rtol=1e-9)


def test_limits_may_be_drawn_and_a_seed_draws_them_again():
    def limits(seed, **spread):
        return build(tiny(scenario={"name": "t", "seed": seed, "rounds": 2}, radio={"power_dbm": spread})).power_w

    uniform = limits(1, kind="uniform", low=10, high=23)
    assert ((uniform >= dbm_to_w(10.0)) & (uniform <= dbm_to_w(23.0))).all()
    assert len(set(uniform)) == 4
    np.testing.assert_array_equal(uniform, limits(1, kind="uniform", low=10, high=23))
    assert (uniform != limits(2, kind="uniform", low=10, high=23)).any()
    assert set(limits(1, kind="choice", values=[5, 6])) <= {dbm_to_w(5.0), dbm_to_w(6.0)}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1.0, 2.0], "has 2 entries; must be one number, a list with one per node"),
        ([1.0, 2.0, 3.0, 300.0], "is 300; must be from -200 to 200"),
        ({"kind": "uniform", "low": 5, "high": 2}, "low is 5; must not be above high, 2"),
        ({"kind": "normal", "low": 5}, "must be one number, a list with one per node"),
        ("loud", "must be one number, a list with one per node"),
        ([], "must be one number, a list with one per node"),
    ],
)
def test_limits_that_make_no_sense_are_one_line(value, words, tmp_path):
    path = tmp_path / "s.toml"
    path.write_bytes(tomli_w.dumps(tiny_table(radio={"power_dbm": value})).encode())
    line = refusal(path)
    assert "radio.power_dbm" in line
    assert words in line


def test_links_by_snr_follow_the_power_of_their_senders():
    loud_and_soft = {"power_dbm": [-20.0, 20.0, 20.0, 20.0], "thermal_noise": True, "bandwidth_hz": 1e6}
    world = build(
        tiny(
            network={"nodes": 4, "placement": {"kind": "block", "side_m": 200}, "topology": {"kind": "full"}},
            channel={"models": [{"model": "log-distance"}]},
            radio=loud_and_soft,
        )
    )
    snr_db = world.snr_db(world.links)
    loss_db = world.channel.loss_db(world.links)
    soft = world.links.tx == 0
    noise_dbm = 10 * np.log10(1.380649e-23 * 290 * 1e6) + 30 + 7
    np.testing.assert_allclose(snr_db[soft], -20.0 - noise_dbm - loss_db[soft])
    np.testing.assert_allclose(snr_db[~soft], 20.0 - noise_dbm - loss_db[~soft])
