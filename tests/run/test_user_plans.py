"""Plans of a user's allocator: what is charged rests on them, so what cannot be a plan is refused."""

import math

import pytest
from conftest import tiny

from wirelessdl.errors import ContractError
from wirelessdl.run.session import simulate
from wirelessdl.scenario.loader import parse_scenario

PLANS = """
from dataclasses import replace
import numpy as np
from wirelessdl.power.allocate import LinearProgram

class Plans:
    def __init__(self, change: str = "none"):
        self.change, self.calls = change, 0

    def allocate(self, problem, theta=None):
        plan = LinearProgram("own-noise").allocate(problem, theta)
        ones = np.ones(len(plan.alpha))
        self.calls += 1
        return {
            "none": plan,
            "share": replace(plan, own_share=100 * ones),
            "alpha": replace(plan, alpha=1.5 * ones),
            "nan": replace(plan, alpha=np.nan * ones),
            "few": replace(plan, alpha=plan.alpha[1:]),
            "theta": replace(plan, theta=-plan.theta),
            "power": replace(plan, power_w=-plan.power_w),
            "other": "no plan",
            "loud": replace(plan, alpha=0.9999 * ones),
            "later": replace(plan, alpha=plan.alpha if self.calls < 3 else 0.9999 * ones),
        }[self.change]
"""


def scenario(folder, change, **sections):
    (folder / "plans.py").write_text(PLANS)
    own = {"objective": "own-noise", "alpha_min": 1e-6, "allocator": {"model": "plans.py:Plans", "change": change}}
    table = tiny(scenario={"rounds": 6}, power={**own, **sections.pop("power", {})}, **sections).to_table()
    return parse_scenario(table, folder=str(folder))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("alpha", r"Plans.allocate returned alpha 1.5 for node 0, expected shares > 0 and <= 1 \(4 of 4\)"),
        ("nan", "returned alpha nan for node"),
        ("few", r"returned alpha shape \(\d,\), expected \(4,\), one share per node"),
        ("theta", "returned theta -4.0, expected a finite number > 0"),
        ("power", "returned power_w .* for node .*, expected finite numbers > 0"),
        ("other", "returned str, expected a PowerPlan"),
    ],
)
def test_what_is_no_plan_is_refused(change, words, tmp_path):
    with pytest.raises(ContractError, match=words):
        simulate(scenario(tmp_path, change), out=tmp_path / "outputs", device="cpu")


def test_an_allocator_cannot_say_how_much_of_the_noise_hides_a_sender(tmp_path):
    honest, claimed = (
        simulate(scenario(tmp_path, change), out=tmp_path / change, device="cpu").summary["epsilon_total"]
        for change in ("none", "share")
    )
    assert claimed == honest > 0


@pytest.mark.parametrize(("change", "schedule"), [("loud", "static"), ("later", "adaptive")])
@pytest.mark.parametrize("noise", [{}, {"noise": "pairwise", "coalition": 1, "pair_ratio": 1.0}], ids=["own", "pairs"])
def test_a_plan_that_breaks_a_promised_total_is_refused(change, schedule, noise, tmp_path):
    """It would be charged for what it leaks, but in a run that says `epsilon 1 in all`."""
    table = scenario(tmp_path, change, power={"schedule": schedule}).to_table()
    table["privacy"] = {"epsilon_total": 1.0, **noise}
    table["channel"] = {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]}  # plans differ
    with pytest.raises(ContractError, match=r"gives node \d alpha = 0.9999.*epsilon_total allows") as caught:
        simulate(parse_scenario(table, folder=str(tmp_path)), out=tmp_path / "outputs", device="cpu")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("schedule", "finite"), [("adaptive", False), ("static", True)])
def test_later_plans_of_a_users_allocator_could_be_anything(schedule, finite, tmp_path):
    """Where a stopping rule may act, the total of the declared rounds is stated only if the plan is fixed."""
    stop = {"stop_after": 2, "stop_within": 1.0, "eval_every": 1}
    given = scenario(tmp_path, "none", power={"schedule": schedule}, learning=stop)
    summary = simulate(given, out=tmp_path / "outputs", device="cpu").summary
    assert summary["stopped"] < 6
    assert math.isfinite(float(summary["epsilon_declared"])) == finite
