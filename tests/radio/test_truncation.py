"""Links too weak to divide by are left out: weights, privacy, energy, and what plan and run say of receiver noise."""

import math

import numpy as np
import pytest
import tomli_w
from conftest import tiny_table
from watching import Watched

import wirelessdl
from wirelessdl.analysis.study_tables import _from_traces
from wirelessdl.chebyshev import Passes, response
from wirelessdl.errors import ScenarioError
from wirelessdl.links import Geometry, Links
from wirelessdl.mixing import metropolis
from wirelessdl.preview.plan import preview_plan
from wirelessdl.round.passing import noise_of_mean
from wirelessdl.run.build import build
from wirelessdl.scenario.loader import parse_scenario

FADED = {
    "network": {"nodes": 6, "topology": {"kind": "full"}},
    "channel": {"models": [{"model": "log-distance", "exponent": 4.0}, {"model": "rayleigh"}]},
    "power": {"objective": "own-noise"},
}
TDMA = {"access": "tdma", "power_dbm": 10, "thermal_noise": True}
RING = [
    "network.nodes=12",
    "network.topology=ring",
    'channel.models=[{model="log-distance",exponent=3.5},{model="rayleigh"}]',
    "radio.power_dbm=3",
    "scenario.rounds=30",
    "learning.eval_every=30",
]


def reception(links, gain, gain_est, amplitude, least, sent, noise, listening):
    """Truncated TDMA in plain loops: s of every node, and its weights. All arrays over nodes or links, in float64."""
    nodes = len(sent)
    loud = {
        (rx, tx): est
        for rx, tx, est in zip(links.rx.tolist(), links.tx.tolist(), gain_est.tolist())
        if est > 0 and est >= least[tx]
    }
    true = dict(zip(zip(links.rx.tolist(), links.tx.tolist()), gain.tolist()))
    degree = [sum((i, j) in loud and (j, i) in loud for j in range(nodes)) for i in range(nodes)]
    s, weights = np.zeros_like(sent), np.zeros((nodes, nodes))
    for i in range(nodes):
        own, square = 1.0, 0.0
        heard = [j for j in range(nodes) if (i, j) in loud]
        for j in heard:
            if listening[i]:
                weight = 1 / len(heard)
            elif (j, i) in loud:
                weight = 1 / (1 + max(degree[i], degree[j]))
            else:
                continue
            weights[i, j], own = weight, own - weight
            factor = weight / (loud[i, j] * amplitude[j])  # the receiver divides by what it believes the gain to be
            s[i] += factor * true[i, j] * amplitude[j] * sent[j]
            square += factor**2
        weights[i, i] = own
        s[i] += own * sent[i] + math.sqrt(square) * noise[i]
    return s, weights


@pytest.mark.parametrize("seed", range(5))
def test_a_truncated_reception_equals_the_loops(seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((9, 9)) < 0.6
    links = Links.from_mask(mask | mask.T, Geometry.at_rest(np.zeros((9, 3))))
    gain = rng.rayleigh(1.0, len(links))  # the two directions of a link differ
    gain_est = np.maximum(gain + 0.1 * rng.normal(size=len(links)), 0.0)
    amplitude, least = rng.uniform(0.5, 2.0, 9), rng.uniform(0.3, 1.3, 9)
    sent, noise, listening = rng.normal(size=(9, 4)), rng.normal(size=(9, 4)), np.arange(9) == 4
    mixing = metropolis(links, gain_est, amplitude, listening, least)
    expected, weights = reception(links, gain, gain_est, amplitude, least, sent, noise, listening)
    np.testing.assert_allclose(mixing.dense, weights, atol=1e-15)
    ratio = np.divide(gain, gain_est, out=np.zeros_like(gain), where=gain_est > 0)
    actual = links.matrix(mixing.link * ratio) + np.diag(mixing.own)
    np.testing.assert_allclose(actual @ sent + mixing.scale[:, None] * noise, expected, atol=1e-13)
    one_sided = (gain_est >= least[links.tx]) & (mixing.link == 0) & (links.rx != 4)
    assert one_sided.any()  # a link that the other end has left out
    np.testing.assert_allclose(mixing.dense.sum(axis=1), 1.0, atol=1e-15)
    both = metropolis(links, gain_est, amplitude, np.zeros(9, dtype=bool), least)
    np.testing.assert_allclose(both.dense.sum(axis=0), 1.0, atol=1e-15)
    assert (both.own >= 1 / (1 + links.degree) - 1e-15).all()


def test_the_threshold_is_on_the_estimated_gain_at_the_power_budget_over_thermal_noise():
    uneven = {**TDMA, "power_dbm": [20.0, 24.0, 28.0, 32.0, 36.0, 40.0], "csi": {"kind": "pilots", "symbols": 2}}
    watched = Watched(tiny_table(scenario={"rounds": 4}, **FADED, radio={**uneven, "truncate_snr_db": 12.0})).run()
    kept = 0
    for decision in watched.decisions:
        links, (block,) = decision.channel.links, decision.channel.slots
        budget_w = 1e-3 * 10 ** (np.array(uneven["power_dbm"]) / 10)
        with np.errstate(divide="ignore"):
            snr_db = 10 * np.log10(block.gain_est**2 * budget_w[links.tx] / watched.world.thermal_w)
        loud = links.matrix((snr_db >= 12.0).astype(float)) > 0
        np.testing.assert_array_equal(decision.weights.known.link > 0, links.vector(loud & loud.T))
        np.testing.assert_allclose(decision.weights.known.dense.sum(axis=0), 1.0, atol=1e-12)
        kept += int((loud & loud.T).sum())
    assert 0 < kept < 4 * 30


def test_links_that_are_left_out_are_charged_like_the_others_and_depend_on_no_data():
    split = {"partition": {"kind": "shards", "per_node": 2}}
    one = Watched(tiny_table(scenario={"rounds": 3}, **FADED, radio=TDMA)).run()
    other = Watched(tiny_table(scenario={"rounds": 3}, **FADED, radio=TDMA, learning=split)).run()
    assert any((decision.weights.known.link == 0).any() for decision in one.decisions)
    for decision, same in zip(one.decisions, other.decisions):
        np.testing.assert_array_equal(decision.weights.known.dense, same.weights.known.dense)
        # the receiver hears what it does not use
        np.testing.assert_allclose(decision.release.link_mu, decision.release.own_mu[decision.channel.heard.tx])


def test_without_thermal_noise_every_link_is_used():
    watched = Watched(tiny_table(scenario={"rounds": 2}, **FADED, radio={**TDMA, "thermal_noise": False})).run()
    assert all((decision.weights.known.link > 0).all() for decision in watched.decisions)


@pytest.mark.parametrize("passes", [0, 4])
def test_a_ring_under_rayleigh_fading_keeps_models_and_energy_bounded(passes, tmp_path):
    def run(*overrides):
        given = [*RING, f"radio.mixing_passes={passes}", *overrides]
        found = wirelessdl.simulate(
            wirelessdl.load_scenario("digital_vs_oac_k20", overrides=given, baseline="tdma"), out=tmp_path
        )
        models = [np.concatenate([np.ravel(part) for part in one.values()]) for one in found.final_models()]
        return float(np.sqrt(np.mean(np.square(models)))), float(found.nodes["energy_tx_j"].sum()), found.summary

    (size, radiated_j, summary), (exploded, exploded_j, _) = run(), run("radio.truncate_snr_db=-inf")
    assert size < 0.45  # s per coordinate; models are projected to 0.5 before they are sent
    assert exploded > 0.5
    assert 2 * radiated_j < exploded_j
    assert summary["energy_j"] < summary["energy_nominal_j"]


@pytest.mark.parametrize("access", ["oac", "digital"])
def test_a_threshold_is_refused_where_no_reception_is_divided_by_its_gain(access):
    radio = {"access": access, "truncate_snr_db": 5.0}
    with pytest.raises(ScenarioError, match=f'radio.truncate_snr_db is 5 under radio.access "{access}"; .*leave it'):
        parse_scenario(tiny_table(radio=radio, power={"objective": "own-noise"}))
    parse_scenario(tiny_table(radio={"truncate_snr_db": -math.inf}))


@pytest.mark.parametrize("value", ["inf", "nan", "off", "201"])
def test_a_threshold_is_auto_or_a_number(value):
    with pytest.raises(ScenarioError, match=r'radio.truncate_snr_db is .*; must be "auto", or a number of at most 200'):
        wirelessdl.load_scenario("quickstart", overrides=[f"radio.truncate_snr_db={value}"], baseline="tdma")


def test_baselines_of_a_truncated_scenario_are_valid(tmp_path):
    table = tiny_table(power={"objective": "own-noise"}, radio={"access": "tdma", "truncate_snr_db": 8.0})
    (path := tmp_path / "truncated.toml").write_text(tomli_w.dumps(table))
    for name, least_db in (("digital", "auto"), ("d-psgd", 8.0), ("local", 8.0)):
        assert wirelessdl.load_scenario(path, baseline=name).radio.truncate_snr_db == least_db


def test_figures_of_a_study_leave_out_what_a_network_in_parts_does_not_have(tmp_path):
    def figures(power_dbm):
        radio = {**TDMA, "power_dbm": power_dbm}
        return _from_traces(wirelessdl.simulate(parse_scenario(tiny_table(**FADED, radio=radio)), out=tmp_path))

    assert math.isnan(figures(-90)["noise_over_update"])  # every link is left out: no common pi
    assert figures(50)["noise_over_update"] > 0


@pytest.mark.parametrize("passes", [0, 3])
def test_noise_of_the_mean_equals_the_whole_map_of_payload_and_passes(passes):
    radio = {**TDMA, "mixing_passes": passes, "payload_slots": 2, "truncate_snr_db": 5.0}
    watched = Watched(tiny_table(scenario={"rounds": 3}, **FADED, radio=radio)).run()
    rng = np.random.default_rng(0)
    for decision in watched.decisions:
        frames = [decision.weights, *(() if decision.passes is None else decision.passes.weights)]
        shape = np.ones((1, 6)), np.zeros((1, 6)), np.zeros((1, 6))
        given = decision.passes
        heard, kept, before = shape if given is None else (given.heard, given.kept, given.before)
        found = noise_of_mean(decision.weights, given, decision.on_air, *(noise := rng.uniform(0.5, 2.0, (2, 6))))
        sent, receiver = [], []
        for block in range(2):
            slots = [frame.slots[block].actual for frame in frames]
            whole = response(Passes(heard[:, 0], kept[:, 0], before[:, 0]), [slot.dense for slot in slots])
            sent.append(float(np.mean(whole.mixing, axis=0) ** 2 @ noise[0]))
            receiver.append(whole.mean_variance(np.stack([slot.scale**2 * noise[1] for slot in slots])))
        np.testing.assert_allclose(found, (np.mean(sent), np.mean(receiver)), rtol=1e-9)


def test_plan_and_run_say_when_receiver_noise_drives_the_models(tmp_path):
    words = "receiver noise, not privacy noise, drives the models"

    def said(*overrides):
        scenario = wirelessdl.load_scenario(
            "digital_vs_oac_k20", overrides=["network.nodes=5", "scenario.rounds=10", *overrides]
        )
        plan = [line for line in preview_plan(build(scenario, device="cpu")).verdict if line.startswith(words)]
        run = wirelessdl.simulate(scenario, out=tmp_path)
        noise = (run.rounds[["privacy_noise_std", "receiver_noise_std"]] ** 2).sum()
        return plan, [line for line in run.summary["warnings"] if line.startswith(words)], noise

    plan, run, noise = said("radio.power_dbm=-35")
    ratio = noise["receiver_noise_std"] / noise["privacy_noise_std"]
    assert len(plan) == len(run) == 1
    assert f"is {ratio:.3g} times that of privacy noise, above 1; raise radio.power_dbm" in run[0]
    assert said("radio.power_dbm=23")[:2] == ([], [])
    plan, run, noise = said("radio.power_dbm=-35", "privacy.epsilon_max=inf")  # no privacy noise to compare with
    assert (plan, run, noise["privacy_noise_std"]) == ([], [], 0.0)
    assert said("radio.power_dbm=-35", "radio.access=digital", "scenario.rounds=3")[:2] == ([], [])
