"""The audit of a Gram stage: triangles are attacked as gradients are, and a stage that cheats is refuted."""

import math

import pytest
from broken_engines import attacked, gram_of_little_noise, gram_of_long_rows, gram_without_noise_of_its_own

from wirelessdl.audit import AuditOptions, audit_scenario

AUDITED = {
    "privacy": {"epsilon_max": math.inf, "epsilon_total": 4.0, "gram_share": 0.3},
    "scenario": {"rounds": 6},
    "learning": {"dtype": "float64"},
}


@pytest.mark.parametrize("adjacency", ["replace-one", "zero-out"])
def test_the_audit_attacks_the_stage_and_its_coordinates(adjacency):
    given = {**AUDITED, "privacy": {**AUDITED["privacy"], "adjacency": adjacency}}
    report = audit_scenario(attacked(**given), AuditOptions(trials=150, rounds=6, samples=20))
    assert report.sound, report.checks
    shift = report.checks[0]
    assert shift.name == "shift of x over its charge"
    # replace-one: triangles of z and w across are as far apart as any; a gradient is zeroed or turned by a right angle
    assert 0.6 < shift.measured <= 1.0
    assert report.reach > 0.7


CHEATING = {
    gram_of_long_rows: "shift of x over its charge",
    gram_of_little_noise: "covariance of noise over nodes, error",
    gram_without_noise_of_its_own: "difference of twins that send the same w",
}


@pytest.mark.parametrize("broken", CHEATING)
def test_a_stage_that_cheats_is_refuted(broken, monkeypatch):
    broken(monkeypatch)
    report = audit_scenario(attacked(**AUDITED), AuditOptions(trials=50, rounds=6, samples=5))
    assert CHEATING[broken] in {check.name for check in report.checks if not check.sound}
