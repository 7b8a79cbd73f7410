"""The attack by a coalition on noise that pairs of nodes share: ratios as charged, and a wrong count is caught."""

from dataclasses import replace

import numpy as np
import pytest
import tomli_w
import torch
from broken_engines import REGRESSION, assert_gaussian, attacked, halve_noise

from wirelessdl.audit import AuditJob, AuditOptions, audit_scenario, make_trial, run_trials, trial_streams
from wirelessdl.audit.canary import candidates, cut, planted
from wirelessdl.audit.recording import record
from wirelessdl.audit.wiretap import CanaryTrial
from wirelessdl.mechanism.pairwise import Roster
from wirelessdl.privacy.coalition import group_variance
from wirelessdl.run.build import build

SAMPLES = 64
VIEWS = ["own", "coalition"]
CRASHES = [
    {"node": 1, "at_s": 0.001, "for_s": 0.01},  # silent in rounds 2 and 3
    {"node": 3, "at_s": 0.002, "for_s": 0.002},  # sends in round 2, its step taken back
]


def pairwise(coalition, nodes=5, privacy=None, learning=None, **sections):
    """Five nodes with b = 1.5 a. Labels +L and -L make gradients C and -C at every model: exactly the worst case."""
    noise = {"noise": "pairwise", "coalition": coalition, "pair_ratio": 1.5, "epsilon_max": 3.0}
    return attacked(
        network={"nodes": nodes, **sections.pop("network", {})},
        privacy={**noise, **(privacy or {})},
        learning={**REGRESSION, **(learning or {})},
        **sections,
    )


def job_of(scenario, members, rounds=3):
    world = build(scenario, device="cpu")
    canary = next(iter(candidates(world.data, world.client_indices[0])))
    return AuditJob(scenario, rounds, 0, SAMPLES, canary, "batch", members)


def hiding_variance(pairs, node, members):
    """1 / [Sigma_H^-1]_jj in plain loops."""
    honest = [k for k in range(len(pairs.own)) if pairs.on_air[k] and k not in members]
    listed = list(zip(pairs.low, pairs.high, pairs.pair))
    if pairs.group is not None:
        count = len(pairs.own)
        together = [(j, k) for j in range(count) for k in range(j + 1, count) if pairs.group[j] == pairs.group[k] >= 0]
        listed = [(j, k, pairs.pair[j]) for j, k in together]
    sigma = np.diag(pairs.own[honest] ** 2)
    for j, k, b in listed:
        ends = [honest.index(end) for end in (j, k) if end in honest]
        if not {j, k} & set(members):
            for end in ends:
                sigma[end, end] += b**2
            if len(ends) == 2:
                sigma[ends[0], ends[1]] -= b**2
                sigma[ends[1], ends[0]] -= b**2
    place = honest.index(node)
    return 1.0 / np.linalg.inv(sigma)[place, place]


@pytest.mark.parametrize(
    ("coalition", "sections"),
    [
        (1, {}),
        pytest.param(2, {}, marks=pytest.mark.slow),
        pytest.param(4, {"privacy": {"against": "everyone"}}, marks=pytest.mark.slow),
        (1, {"nodes": 6, "privacy": {"pairs": {"groups": 2}}}),
        (2, {"radio": {"mixing_passes": 2}}),
        (1, {"faults": {"crashes": {"kind": "schedule", "events": CRASHES}}}),
        (1, {"nodes": 6, "privacy": {"pairs": "neighbours"}, "network": {"topology": "ring"}}),
    ],
    ids=["one", "two", "everyone", "groups", "passes", "crash", "ring"],
)
def test_ratios_against_a_coalition_are_those_of_what_it_does_not_know(coalition, sections):
    scenario = pairwise(coalition, **sections)
    recording = record(build(scenario, device="cpu", plant=cut(SAMPLES)), 3)
    members = recording.worst_coalition(0, coalition)
    job = job_of(scenario, members)
    trial, _ = make_trial(job)
    trials = run_trials(job, trial, 400, workers=1)
    own, charged = (np.sqrt(np.sum(recording.mu(view)[:, 0] ** 2)) for view in VIEWS)
    # own noise alone hides it from everyone; from a coalition, what is left of all noise
    pairs = [given.pairs for given in recording.inputs]
    shift = recording.mu("own")[:, 0] * [one.own[0] for one in pairs]
    exact = np.sqrt(np.sum(shift**2 / [hiding_variance(one, 0, members) for one in pairs]))
    assert_gaussian(trials.own, trials.with_canary, own)
    assert_gaussian(trials.coalition, trials.with_canary, exact)
    if scenario.privacy.pairs == "neighbours":
        assert exact < 0.99 * charged  # the ledger counts on nothing but neighbours
    else:
        assert exact == pytest.approx(charged, rel=1e-9)


def test_the_worst_coalition_holds_the_partners():
    ring = pairwise(1, nodes=6, privacy={"pairs": "neighbours"}, network={"topology": "ring"})
    recording = record(build(ring, device="cpu", plant=cut(SAMPLES)), 2)
    assert recording.worst_coalition(2, 2) == (1, 3)
    assert recording.worst_coalition(0, 2) == (1, 5)
    assert recording.worst_coalition(0, 9) == (1, 2, 3, 4, 5)
    groups = record(build(pairwise(1, nodes=6, privacy={"pairs": {"groups": 2}}), device="cpu", plant=cut(SAMPLES)), 2)
    assert groups.worst_coalition(1, 2) == (3, 5)


def test_passes_change_nothing_in_the_attack():
    """The same noise with passes and without them: models differ, what is told apart does not."""
    scenario = pairwise(2, radio={"mixing_passes": 3})
    job = job_of(scenario, (1, 2), rounds=4)
    trial, (recording, _) = make_trial(job)
    plants = [planted(job.canary, 0, SAMPLES, with_canary=present) for present in (False, True)]
    engines = tuple(build(scenario, device="cpu", plant=plant).learning for plant in plants)
    inputs = [replace(given, steps=given.steps[:1]) for given in recording.inputs]
    plain = CanaryTrial(engines, inputs, 0, "batch", coalition=(1, 2))
    for number in range(4):
        streams = [trial_streams(scenario, number) for _ in range(2)]
        mixed, unmixed = trial.run(number % 2 == 0, streams[0]), plain.run(number % 2 == 0, streams[1])
        # float32 models of about 1, noise of about 1
        assert mixed.own == pytest.approx(unmixed.own, abs=1e-3)
        assert mixed.coalition == pytest.approx(unmixed.coalition, abs=1e-3)
        assert abs(mixed.coalition) > 0.01
    assert not torch.equal(trial.engines[0].held, engines[0].held)


@pytest.mark.slow
@pytest.mark.parametrize("coalition", [1, 2])
def test_full_batches_are_attacked_to_within_15_percent(coalition):
    report = audit_scenario(pairwise(coalition, privacy={"epsilon_max": 8.0}), AuditOptions(trials=4000, rounds=3))
    assert [view.view for view in report.views] == VIEWS
    for view in report.views:
        assert 0.85 * view.proven < view.attack < view.proven


def test_more_colluding_nodes_than_promised_exceed_the_proof(tmp_path, wirelessdl_command):
    path = tmp_path / "attacked.toml"
    path.write_text(tomli_w.dumps(pairwise(1, privacy={"epsilon_max": 8.0}).to_table()))
    asked = ("audit", str(path), "--trials", "400", "--rounds", "3", "--workers", "1", "--coalition", "3")
    shown = wirelessdl_command(*asked)
    assert shown.code == 1
    own, coalition = (next(line for line in shown.out.splitlines() if line.startswith(f"{view},")) for view in VIEWS)
    assert "of the proof" in own
    assert "exceeds the proof" in coalition
    assert "coalition: any one node that hears every transmission; in the attack: 1, 2, 3\n" in shown.out


@pytest.mark.slow
def test_an_engine_that_counts_on_fewer_colluding_nodes_is_caught(monkeypatch):
    """Noise made, and charged, as if nobody colluded, where three do: the attack is the one that is promised."""

    def nobody(roster):
        return group_variance(1.0, roster.terms.ratio, roster.partners + 1, 0) * roster.own_share

    monkeypatch.setattr(Roster, "coalition_share", property(nobody))
    report = audit_scenario(pairwise(3, privacy={"epsilon_max": 8.0}), AuditOptions(trials=400, rounds=3, workers=1))
    own, coalition = report.views
    assert own.attack < own.proven
    assert coalition.attack > 1.2 * coalition.proven
    assert not report.sound


@pytest.mark.slow
def test_half_of_the_own_noise_is_caught_in_both_views(monkeypatch):
    halve_noise(monkeypatch)
    own, coalition = audit_scenario(pairwise(3), AuditOptions(trials=250, rounds=3)).views
    assert own.attack > 1.2 * own.proven
    assert coalition.attack > 1.1 * coalition.proven


@pytest.mark.parametrize(
    "sections",
    [
        pytest.param({"learning": {"sampling": "without-replacement"}}, marks=pytest.mark.slow),
        {"privacy": {"pairs": "neighbours"}, "network": {"topology": "ring"}, "radio": {"mixing_passes": 1}},
    ],
    ids=["without-replacement", "ring"],
)
def test_sound_engines_of_other_kinds_pass(sections):
    report = audit_scenario(pairwise(1, **sections), AuditOptions(trials=60, rounds=4, samples=16))
    assert report.sound
    assert [view.view for view in report.views] == VIEWS
    assert 0 < report.reach < 1 + 1e-3  # nothing moves a transmission more than is charged


def test_a_total_as_the_target_is_what_the_audit_holds_the_engine_to():
    total = pairwise(2, privacy={"epsilon_max": np.inf, "epsilon_total": 3.0}, scenario={"rounds": 4})
    own, coalition = audit_scenario(total, AuditOptions(trials=60, rounds=4)).views
    assert coalition.proven == pytest.approx(3.0, rel=0.01)
    assert coalition.proven <= 3.0 < own.proven


def test_passes_alone_leave_the_own_view():
    report = audit_scenario(attacked(radio={"mixing_passes": 2}), AuditOptions(trials=60, rounds=4, samples=16))
    assert [view.view for view in report.views] == ["own"]
    assert report.sound
    assert report.reach > 0.5
