"""Six engines that the attack calls sound, each refuted by a check of the command; the sound engine by none."""

import json

import numpy as np
import pytest
import tomli_w
import torch
from broken_engines import (
    attacked,
    halve_noise,
    hub_adds_its_model,
    members_send_their_models,
    models_in_passes,
    no_pair_noise,
    noise_after_the_quantiser,
    noise_of_two_rounds,
    own_term_without_noise,
    pair_noise_of_one_round,
    power_follows_models,
    self_interference_of_models,
    stop_clipping,
)
from scipy.stats import chi2

from wirelessdl.audit import AuditJob, make_trial, trial_streams
from wirelessdl.audit.canary import candidates
from wirelessdl.audit.checks import product_bound, run_checks, square_bound
from wirelessdl.learning.draws import NodeDraws
from wirelessdl.run.build import build

PAIRS = {"privacy": {"noise": "pairwise", "coalition": 1, "pair_ratio": 1.5}}
RING = {"network": {"nodes": 5, "topology": "ring"}, "privacy": {**PAIRS["privacy"], "pairs": "neighbours"}}
PASSES = {"radio": {"mixing_passes": 2, "thermal_noise": True}}
CLOSING = {"learning": {"closing_passes": 2}}
DIGITAL = {"radio": {"access": "digital", "quantizer_bits": 4}}
LOUD = {"power_dbm": 30, "thermal_noise": True, "bandwidth_hz": 1e9, "cancellation_db": 10.0}
CRASH = {"crashes": {"kind": "schedule", "events": [{"node": 0, "at_s": 0.001, "for_s": 0.003}]}}

HUBS = {"radio": {"alignment": "hubs", "thermal_noise": True, "csi": {"kind": "pilots", "symbols": 4}}}
SERVER = {"radio": {**HUBS["radio"], "alignment": "server"}, "network": {"server": {"at": "center", "antennas": 2}}}
BLIND = {"radio": {**HUBS["radio"], "alignment": "none", "antennas": 2, "mixing_passes": 1}}
ROTATING = {"radio": {**HUBS["radio"], "hub_rotation": True}}
HUBS_FAIL = {"radio": {**HUBS["radio"], "hub_failure": 0.4, "mixing_passes": 2, "truncate_snr_db": 18}}

SHIFT, TWINS = "shift of x over its charge", "difference of twins that send the same w"
NODES, ROUNDS = "covariance of noise over nodes, error", "covariance of noise over rounds, error"
COORDINATE, RECEPTION = "variance of noise in a coordinate, error", "s and passes, relative error"
CLOSED = "covariance of closed form, error"

BROKEN = {
    "own term of s without its noise": (own_term_without_noise, {}, {TWINS}),
    "passes send x": (models_in_passes, PASSES, {TWINS, RECEPTION}),
    "one noise for two rounds": (noise_of_two_rounds, {}, {ROUNDS}),
    "pair noise never added": (no_pair_noise, PAIRS, {NODES}),
    "pair noise reused in every round": (pair_noise_of_one_round, PAIRS, {ROUNDS}),
    "noise after the quantiser": (noise_after_the_quantiser, DIGITAL, {TWINS}),
}
ALSO_BROKEN = {
    "own term without its noise, then passes": (own_term_without_noise, PASSES, {TWINS}),
    "closing passes send x": (models_in_passes, CLOSING, {TWINS, RECEPTION}),
    "one noise for two rounds, pairs": (noise_of_two_rounds, PAIRS, {ROUNDS}),
    "pair noise of neighbours never added": (no_pair_noise, RING, {NODES}),
    "pair noise of neighbours reused": (pair_noise_of_one_round, RING, {ROUNDS}),
    "receivers hear their own model, not what they sent": (
        self_interference_of_models,
        {"radio": LOUD},
        {TWINS, RECEPTION},
    ),
    "a hub adds its model": (hub_adds_its_model, HUBS, {TWINS, RECEPTION}),
    "members of a hub send their models": (members_send_their_models, ROTATING, {TWINS, RECEPTION}),
    "the size of models is announced": (power_follows_models, HUBS, {TWINS}),
    "half of the noise": (halve_noise, {}, {NODES, COORDINATE}),
    "no clipping": (stop_clipping, {}, {SHIFT}),
}
SOUND = {
    "independent noise": {},
    "passes": PASSES,
    "closing passes": CLOSING,
    "pairs": PAIRS,
    "pairs of neighbours": RING,
    "digital": DIGITAL,
    "hubs": HUBS,
    "a server": SERVER,
    "nobody aligns": BLIND,
    "hubs that fail, pairs, closing": {**HUBS_FAIL, **PAIRS, **CLOSING},
    "self-interference": {"radio": LOUD},
    "batches": {"learning": {"sampling": "without-replacement", "batch_size": 20}},
    "a crash": {"faults": CRASH},
    "float64": {"learning": {"dtype": "float64"}, "faults": CRASH},
    **{
        f"update {name}": {"learning": {"update": name, "sampling": "without-replacement", "batch_size": 20}}
        for name in ("momentum", "nesterov", "weight-decay", "push-sum", "local-steps", "gradient-tracking")
    },
    "update error-feedback": {"learning": {"update": "error-feedback", "top_k": 0.5}},
    "update heavy-ball, a crash": {"learning": {"update": "heavy-ball", "dtype": "float64"}, "faults": CRASH},
    "the paper's protocol": {
        "privacy": {"epsilon_max": 8.0, "protocol": "paper", "clipping": "batch"},
        "power": {"balance": False},
    },
}


def wide(**sections):
    """The scenario that is attacked elsewhere with 771 coordinates instead of 51: as many draws in fewer runs."""
    data = {"kind": "synthetic", "classes": 3, "features": 256, "samples": 600, "test_samples": 20}
    return attacked(**{**sections, "learning": {"dataset": data, **sections.get("learning", {})}})


def audited(scenario, command, folder, *options):
    path = folder / "audited.toml"
    path.write_text(tomli_w.dumps(scenario.to_table()))
    return command("audit", str(path), "--trials", "50", "--rounds", "4", "--workers", "1", *options)


def checks_of(scenario, rounds=4):
    """What the command checks, with the first canary that there is."""
    world = build(scenario, device="cpu")
    canary = next(iter(candidates(world.data, world.client_indices[0])))
    trial, (recording, _) = make_trial(AuditJob(scenario, rounds, 0, 32, canary, "batch"))
    return {
        check.name: check
        for check in run_checks(trial.engines, recording, 0, lambda number: trial_streams(scenario, number))
    }


def refuted(checks):
    return {name for name, check in checks.items() if not check.sound}


@pytest.mark.parametrize("case", BROKEN)
def test_six_broken_engines_are_refuted_by_the_command(case, monkeypatch, tmp_path, wirelessdl_command):
    broken, sections, expected = BROKEN[case]
    broken(monkeypatch)
    shown = audited(wide(**sections), wirelessdl_command, tmp_path, "--json")
    report = json.loads(shown.out)
    assert shown.code == 1
    assert not report["sound"]
    assert {check["name"] for check in report["checks"] if not check["sound"]} >= expected
    own = next(view for view in report["views"] if view["view"] == "own")
    assert own["sound"]  # the attack sees nothing: it is handed s, and assumes the law


@pytest.mark.parametrize("case", ALSO_BROKEN)
def test_other_broken_engines_are_refuted(case, monkeypatch):
    broken, sections, expected = ALSO_BROKEN[case]
    broken(monkeypatch)
    assert refuted(checks_of(wide(**sections))) >= expected


def test_an_audit_says_what_a_declared_total_rests_on(tmp_path, wirelessdl_command):
    scenario = wide(learning={"update": "heavy-ball", "update_kind": "step"})
    shown = audited(scenario, wirelessdl_command, tmp_path)
    assert shown.code == 0, shown.out
    assert "stated <=" in shown.out
    assert "if heavy-ball keeps its declaration; 12 twins did not refute it; not proven" in " ".join(shown.out.split())


def test_a_change_that_is_not_clipped_is_refuted(monkeypatch, tmp_path):
    monkeypatch.setattr("wirelessdl.learning.engine.clip_rows_", lambda rows, _: torch.zeros(len(rows)))
    (tmp_path / "long.py").write_text(
        "class Long:\n    def change(self, received, state, gradient, round):\n"
        "        return -500 * gradient(received), state\n"
    )
    found = checks_of(wide(learning={"update": f"{tmp_path}/long.py:Long"}))
    assert SHIFT in refuted(found)
    assert found[SHIFT].measured > 3.0


def test_a_change_that_holds_another_node_s_data_is_refuted(tmp_path):
    """Through a global, past the state that it is given: then another node sends what nobody charged for."""
    (tmp_path / "leaks.py").write_text(
        "BEFORE = []\n\n\nclass Leaks:\n    def change(self, received, state, gradient, round):\n"
        "        mine, other = gradient(received), BEFORE[-1] if BEFORE else 0 * received\n"
        "        BEFORE[:] = [mine]\n        return -mine - other, state\n"
    )
    found = checks_of(wide(learning={"update": f"{tmp_path}/leaks.py:Leaks"}))
    assert TWINS in refuted(found)


@pytest.mark.parametrize("case", SOUND)
def test_no_check_refutes_the_sound_engine(case):
    checks = checks_of(wide(**SOUND[case]))
    assert not refuted(checks)
    assert checks[SHIFT].measured > 0.01  # the canary did count
    assert (CLOSED in checks) == (case in ("pairs", "hubs that fail, pairs, closing"))


def test_the_command_prints_a_line_for_each_check(monkeypatch, tmp_path, wirelessdl_command):
    names = (SHIFT, TWINS, NODES, ROUNDS, COORDINATE, RECEPTION)
    shown = audited(wide(), wirelessdl_command, tmp_path)
    assert shown.code == 0
    assert [line.split(": ")[:2] for line in shown.out.splitlines()[2:8]] == [["passed", name] for name in names]
    noise_of_two_rounds(monkeypatch)
    shown = audited(wide(), wirelessdl_command, tmp_path)
    assert shown.code == 1
    (line,) = (line for line in shown.out.splitlines() if line.startswith("refuted: "))
    assert line.startswith(f"refuted: {ROUNDS}: 0.")
    assert "lag 1" in line
    assert "false alarm 1e-06" in line
    assert "1 of 6 checks refuted: the proof does not hold" in shown.out


def test_noise_that_leaves_out_a_coordinate_is_refuted(monkeypatch):
    real = NodeDraws.fill_normal

    def fill_normal(self, out, round, purpose, nodes=None):
        real(self, out, round, purpose, nodes)
        if purpose == "noise":
            out[:, 7] = 0.0

    monkeypatch.setattr(NodeDraws, "fill_normal", fill_normal)
    found = checks_of(wide())
    assert COORDINATE in refuted(found)
    assert found[COORDINATE].words.startswith("coordinate 7, ")


def test_noise_that_comes_again_three_rounds_later_is_refuted(monkeypatch):
    real = NodeDraws.fill_normal

    def fill_normal(self, out, round, purpose, nodes=None):
        real(self, out, round % 3 if purpose == "noise" else round, purpose, nodes)

    monkeypatch.setattr(NodeDraws, "fill_normal", fill_normal)
    found = checks_of(wide(), rounds=5)
    assert refuted(found) == {ROUNDS}
    assert "lag 3" in found[ROUNDS].words


def test_a_closed_form_of_another_law_is_refuted(monkeypatch):
    def nothing_cancels(draws, pairs):
        variance = pairs.own**2 + np.bincount(pairs.group)[pairs.group] * pairs.pair**2
        draws.mul_(torch.as_tensor(np.sqrt(variance)).to(draws)[:, None])

    for room in ("learning.exchange", "audit.wiretap"):
        monkeypatch.setattr(f"wirelessdl.{room}.group_noise_", nothing_cancels)
    assert refuted(checks_of(wide(**PAIRS))) >= {CLOSED, NODES}


@pytest.mark.parametrize("draws", [5, 100, 65536])
def test_squares_exceed_their_bound_no_more_often_than_stated(draws):
    share = np.log(1e9)
    bound = float(square_bound(draws, share))
    assert chi2.sf(draws * (1 + bound), draws) <= 1e-9
    assert chi2.cdf(draws * (1 - bound), draws) <= 1e-9
    assert chi2.sf(draws * (1 + 0.5 * bound), draws) > 1e-9  # and it is no more than twice what it must be


@pytest.mark.parametrize("lag", [0, 1])
def test_products_exceed_their_bound_no_more_often_than_stated(lag):
    """Of two nodes in one round, or of one node in successive rounds; 20,000 means of 64 products, share e^-3."""
    rng = np.random.default_rng(4)
    one, other = rng.standard_normal((2, 20_000, 65))
    products = one[:, :-1] * one[:, 1:] if lag else one[:, 1:] * other[:, 1:]
    exceeded = np.mean(products.mean(axis=1) > product_bound(64, 3.0))
    assert 0.0005 < exceeded <= np.exp(-3.0)
