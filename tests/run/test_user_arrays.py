"""Arrays that pass between the simulator and classes of the user's: neither side changes what the other holds."""

import math
from pathlib import Path

import numpy as np
import pytest
from conftest import tiny, tiny_table

from wirelessdl.errors import ContractError, WirelessdlError
from wirelessdl.links import Geometry, Links
from wirelessdl.network.topology import require_links
from wirelessdl.run.session import simulate
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.trace.run import Run

HEADER = """import numpy as np
from dataclasses import replace
from wirelessdl import Geometry, Links
from wirelessdl.power.allocate import solve
class Mine:
"""


def run(folder: Path, key: str, body: str, **sections: dict) -> Run:
    """A tiny run whose part `key` is a class with this body."""
    (folder / "mine.py").write_text(HEADER + body)
    section, _, name = key.partition(".")
    part = {"kind": "mine.py:Mine"}
    value = [{"model": "mine.py:Mine"}, {"model": "friis"}] if name == "models" else part
    table = tiny_table(**sections)
    table[section] = {**table.get(section, {}), name: value}
    scenario = parse_scenario(table, folder=str(folder))
    return simulate(scenario, out=folder / "outputs", device="cpu")


WRITES = {
    "distance": ("channel.models", "gain(self, links, time_s, rng)", "d = links.distance_m; d[d < 120] = 120"),
    "senders": ("channel.models", "gain(self, links, time_s, rng)", "links.tx.sort()"),
    "positions": ("channel.models", "gain(self, links, time_s, rng)", "links.geometry.position_m += 1"),
    "pairs": ("channel.models", "gain(self, links, time_s, rng)", "links.pairs.low[:] = 0"),
    "gain": ("radio.csi", "estimate(self, links, gain, pilot_w, noise_w, rng)", "gain *= 0.5; return gain"),
    "power": ("radio.csi", "estimate(self, links, gain, pilot_w, noise_w, rng)", "pilot_w *= 0.5; return gain"),
    "velocities": ("faults.jammer", "noise_w(self, geometry, time_s)", "geometry.velocity_mps[:] = 1"),
    "labels": ("learning.partition", "split(self, labels, nodes, rng)", "labels.sort()"),
}


@pytest.mark.parametrize("what", WRITES)
def test_a_class_that_writes_into_the_simulators_arrays_is_refused_in_one_line(tmp_path, what):
    key, method, body = WRITES[what]
    with pytest.raises(ContractError) as caught:
        run(tmp_path, key, f"    def {method}:\n        {body}\n")
    line = str(caught.value)
    assert "Mine" in line
    assert "read-only" in line
    assert "(mine.py line 7)" in line
    assert "copy them first, as in d = links.distance_m.copy()" in line
    assert "\n" not in line


def test_a_listener_cannot_change_what_the_run_goes_on_with(tmp_path):
    (tmp_path / "watch.py").write_text("def heard(event):\n    event.gain[:] = 0\n")
    with pytest.raises(ContractError, match=r"watch.py:heard raised ValueError.*read-only.*copy them first"):
        simulate(
            parse_scenario(tiny_table(trace={"connect": {"phy.rx": "watch.py:heard"}}), folder=str(tmp_path)),
            out=tmp_path / "outputs",
            device="cpu",
        )


GAIN = """    def gain(self, links, time_s, rng):
        found = rng.rayleigh(0.5**0.5, len(links))
        self.buffer = getattr(self, "buffer", found.copy())
        self.buffer[:] = found
        return {answer}
"""


def test_a_class_that_fills_and_returns_one_array_runs_as_one_that_makes_a_new_one(tmp_path):
    """Its last answer would be in the tables and, in several slots, in the air."""
    sections, found = {"scenario": {"rounds": 3}, "radio": {"payload_slots": 4}}, []
    for answer in ("found", "self.buffer"):
        (tmp_path / answer).mkdir()
        found.append(run(tmp_path / answer, "channel.models", GAIN.format(answer=answer), **sections).links)
    assert found[0]["gain"].nunique() > 1
    for column in ("gain", "epsilon"):
        np.testing.assert_array_equal(found[0][column], found[1][column])


MOVES = """    def __init__(self, start_m):
        self.start, self.still = start_m.copy(), np.zeros_like(start_m)
        self.buffer = start_m.copy()
        self.same = Geometry(self.buffer, self.still)
    def geometry(self, time_s):
        position = self.start + [3000.0 * time_s, 0.0, 0.0] * np.arange(4)[:, None]
        self.buffer[:] = position
        return {answer}
"""


def test_a_mobility_that_fills_one_array_or_returns_one_object_moves_nodes_as_others_do(tmp_path):
    found = {}
    for name, answer in (
        ("new", "Geometry(position, self.still)"),
        ("array", "Geometry(self.buffer, self.still)"),
        ("object", "self.same"),
    ):
        (tmp_path / name).mkdir()
        sections = {"scenario": {"rounds": 3}, "trace": {"links": "all"}, "channel": {"models": [{"model": "friis"}]}}
        found[name] = run(tmp_path / name, "network.mobility", MOVES.format(answer=answer), **sections)
    assert found["new"].nodes.groupby("node")["x_m"].nunique().max() == 3
    for name in ("array", "object"):
        np.testing.assert_array_equal(found["new"].nodes["x_m"], found[name].nodes["x_m"])
        np.testing.assert_array_equal(found["new"].links["distance_m"], found[name].links["distance_m"])


def test_a_topology_that_fills_one_pair_of_arrays_is_read_when_it_answers():
    rx, tx = np.array([0, 1, 2]), np.array([1, 2, 0])
    place = Geometry.at_rest(np.arange(9.0).reshape(3, 3))
    found = require_links(Links(rx, tx, place), place, is_user_class=True)
    tx[:] = [2, 0, 1]
    assert found.tx.tolist() == [1, 2, 0]
    assert found.geometry is place
    untidy = Links(np.array([2, 0, 1, 0, 1]), np.array([0, 1, 2, 1, 1]), place)  # out of order, twice, to itself
    again = require_links(untidy, place, is_user_class=True)
    assert (again.rx.tolist(), again.tx.tolist()) == ([0, 1, 2], [1, 2, 0])


def test_every_adaptive_plan_is_traced_with_its_own_shares(tmp_path):
    body = """    def __init__(self):
        self.round, self.alpha = 0, np.zeros(4)
    def allocate(self, problem, theta=None):
        plan = solve(problem, objective="own-noise", theta=theta)
        self.round += 1
        self.alpha[:] = plan.alpha / self.round
        return replace(plan, alpha=self.alpha)
"""
    sections = {"scenario": {"rounds": 3}, "power": {"schedule": "adaptive"}}
    sections["channel"] = {"models": [{"model": "uniform"}, {"model": "rayleigh"}]}
    alpha = run(tmp_path, "power.allocator", body, **sections).nodes.groupby("round")["alpha"].first()
    assert alpha.nunique() == 3


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("np.ma.masked_less(found[0], 5)", "a sample twice or one that does not exist"),
        ("np.append(found[0], -1)", "a sample twice or one that does not exist"),
        ("found[0] + 0.5", "samples of type float64, expected whole numbers"),
    ],
)
@pytest.mark.parametrize("by_content", [True, False])
def test_a_partition_answers_with_samples_that_exist(tmp_path, by_content, first, said):
    body = f"""    by_content = {by_content}
    def split(self, labels, nodes, rng):
        found = list(np.arange(len(labels)).reshape(nodes, -1))
        return [{first}, *found[1:]]
"""
    with pytest.raises(WirelessdlError, match=said):
        run(tmp_path, "learning.partition", body)


# --- Plans of a user's allocator: what is charged rests on them, so what cannot be a plan is refused

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
