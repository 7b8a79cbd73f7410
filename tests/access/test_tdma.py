"""Links too weak to divide by are left out: weights, privacy, energy, and what plan and run say of receiver noise."""

import math
import sys

import numpy as np
import pytest
import tomli_w
from conftest import ROOT, tiny_table
from watching import Watched

import wirelessdl
from wirelessdl.access.passes import noise_of_mean
from wirelessdl.chebyshev import Passes, response
from wirelessdl.errors import ScenarioError
from wirelessdl.preview.plan import preview_plan
from wirelessdl.run.build import build
from wirelessdl.scenario.loader import parse_scenario

sys.path.append(str(ROOT / "docs" / "reproduction"))
from cells import from_traces

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


def test_baselines_of_a_truncated_scenario_are_valid(tmp_path):
    table = tiny_table(power={"objective": "own-noise"}, radio={"access": "tdma", "truncate_snr_db": 8.0})
    (path := tmp_path / "truncated.toml").write_text(tomli_w.dumps(table))
    for name, least_db in (("digital", "auto"), ("d-psgd", 8.0), ("local", 8.0)):
        assert wirelessdl.load_scenario(path, baseline=name).radio.truncate_snr_db == least_db


def test_figures_of_a_study_leave_out_what_a_network_in_parts_does_not_have(tmp_path):
    def figures(power_dbm):
        radio = {**TDMA, "power_dbm": power_dbm}
        return from_traces(wirelessdl.simulate(parse_scenario(tiny_table(**FADED, radio=radio)), out=tmp_path))

    assert math.isnan(figures(-90)["noise_over_update"])  # every link is left out: no common pi
    assert figures(50)["noise_over_update"] > 0


@pytest.mark.parametrize("passes", [0, 3])
def test_noise_of_the_mean_equals_the_whole_map_of_payload_and_passes(passes):
    radio = {**TDMA, "mixing_passes": passes, "payload_slots": 2, "truncate_snr_db": 5.0}
    watched = Watched(tiny_table(scenario={"rounds": 3}, **FADED, radio=radio)).run()
    rng = np.random.default_rng(0)
    for decision in watched.decisions:
        steps = decision.carried.steps
        taken = (np.array([getattr(step, name)[0] for step in steps]) for name in ("heard", "before"))
        passes_of_one = Passes(*taken)
        found = noise_of_mean(steps, decision.on_air, *(noise := rng.uniform(0.5, 2.0, (2, 6))))
        sent, receiver = [], []
        for block in range(2):
            slots = [step.weights.slots[block].actual for step in steps]
            whole = response(passes_of_one, [slot.dense for slot in slots])
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
    unheard = wirelessdl.load_scenario("oac_k10", overrides=["radio.power_dbm=-200"])
    assert preview_plan(build(unheard, device="cpu")).verdict[0].endswith("x with receiver noise: this will not train")
