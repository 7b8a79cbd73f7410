"""Every plan keeps its promise, at any scale of gains, and reaches the optimum an independent solver finds."""

from pathlib import Path

import clarabel
import numpy as np
import pytest
from conftest import paper_gain, tiny_table
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from watching import Watched

from wirelessdl.errors import InfeasiblePowerError
from wirelessdl.gaussian import classic_factor
from wirelessdl.links import Links
from wirelessdl.mixing import balancing_amplitudes, mixing_matrix, support_margin
from wirelessdl.power import plan_power

PAPER = {"rho": 10.0, "sensitivity": 2.0, "delta": 1e-4}
PER_SAMPLE = {"rho": 10.0, "sensitivity": 2 / 64, "delta": 1e-4}


def random_gain(seed, nodes, density=0.5, spread=3.0):
    rng = np.random.default_rng(seed)
    mask = rng.random((nodes, nodes)) < density
    mask |= np.roll(np.eye(nodes, dtype=bool), 1, axis=1)
    gain = np.where(mask, 10 ** rng.uniform(-spread, 0, (nodes, nodes)), 0.0)
    np.fill_diagonal(gain, 0.0)
    return gain


def urban_gain(seed, nodes=20):
    """Log-distance loss over an Erdos-Renyi graph in a city block."""
    rng = np.random.default_rng(seed)
    position = 250 * rng.random((nodes, 2))
    distance = np.maximum(np.linalg.norm(position[:, None] - position[None], axis=2), 1.0)
    while True:
        upper = np.triu(rng.random((nodes, nodes)) < 0.4, k=1)
        gain = np.where(upper | upper.T, 10 ** (-(43.3 + 30 * np.log10(distance)) / 20), 0.0)
        if Links.from_gain(gain).strongly_connected():
            return gain


def independent(gain, theta, epsilon_max, objective, *, rho, sensitivity, delta, alpha_min):
    """The program as the paper writes it, one dense row per link, solved as a cone program by Clarabel."""
    nodes = len(gain)
    rows = []
    for i in range(nodes):
        masking = epsilon_max**2 * rho**2 * gain[i] ** 2
        for j in np.flatnonzero(gain[i]):
            row = masking.copy()
            row[j] += (np.broadcast_to(sensitivity, nodes)[j] * theta * classic_factor(delta)) ** 2 * gain[i, j] ** 2
            rows.append(row / masking.sum())
    rows, eye = np.array(rows), np.eye(nodes)
    upper, floor = 1 - 1e-6, alpha_min
    blocks = [(rows, np.ones(len(rows))), (eye, np.full(nodes, upper)), (-eye, np.full(nodes, -floor))]
    cones = [clarabel.NonnegativeConeT(len(rows) + 2 * nodes)]
    A = np.vstack([block for block, _ in blocks])
    b = np.concatenate([limit for _, limit in blocks])
    if objective == "sum":
        cost = -np.ones(nodes)
    elif objective == "max-min":
        A = np.vstack([np.hstack([A, np.zeros((len(A), 1))]), np.hstack([-eye, np.ones((nodes, 1))])])
        b = np.concatenate([b, np.zeros(nodes)])
        cones = [clarabel.NonnegativeConeT(len(b))]
        cost = np.append(np.zeros(nodes), -1.0)
    else:  # min sum u, u alpha >= 1: |(2, u - alpha)| <= u + alpha
        A = np.hstack([A, np.zeros((len(A), nodes))])
        cost = np.concatenate([np.zeros(nodes), np.ones(nodes)])
        for j in range(nodes):
            cone = np.zeros((3, 2 * nodes))
            cone[0, [j, nodes + j]] = [-1.0, -1.0]
            cone[2, [j, nodes + j]] = [1.0, -1.0]
            A, b = np.vstack([A, cone]), np.concatenate([b, [0.0, 2.0, 0.0]])
            cones.append(clarabel.SecondOrderConeT(3))
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-10
    zero = sparse.csc_matrix((len(cost), len(cost)))
    solution = clarabel.DefaultSolver(zero, cost, sparse.csc_matrix(A), b, cones, options).solve()
    assert "Solved" in str(solution.status)
    return np.array(solution.x)[:nodes]


MEASURE = {"sum": np.sum, "max-min": np.min, "min-noise": lambda alpha: np.sum(1 / alpha)}


@pytest.mark.parametrize("objective", MEASURE)
def test_an_independent_solver_agrees(objective):
    """200 random instances over all three programs; in half of them powers and sensitivities differ."""
    for seed in range(67):
        nodes = 2 + seed % 9
        gain, rng = random_gain(seed, nodes, spread=1.0), np.random.default_rng(seed)
        given, power_w = {**PAPER, "alpha_min": 1e-4}, 1.0
        if seed % 2:
            given["sensitivity"], power_w = rng.uniform(0.05, 2.0, nodes), rng.uniform(0.01, 0.2, nodes)
        plan = plan_power(gain, epsilon_max=1.0, theta=nodes, objective=objective, power_w=power_w, **given)
        other = independent(gain * np.sqrt(power_w), nodes, 1.0, objective, **given)
        assert MEASURE[objective](plan.alpha) == pytest.approx(MEASURE[objective](other), rel=2e-6)


@settings(max_examples=40, deadline=None)
@example(seed=176003, nodes=4, epsilon_max=4.0, objective="own-noise", balance=False)  # theta settles from below
@given(
    st.integers(0, 10**6),
    st.integers(2, 9),
    st.sampled_from([0.3, 1.0, 4.0]),
    st.sampled_from(["sum", "max-min", "min-noise", "own-noise"]),
    st.sampled_from(["receiver", "power", False]),
)
def test_no_link_leaks_more_than_promised(seed, nodes, epsilon_max, objective, balance):
    gain = random_gain(seed, nodes, spread=2.0)
    uneven = {**PER_SAMPLE, "sensitivity": PER_SAMPLE["sensitivity"] * (1 + np.arange(nodes) % 3)}
    plan = plan_power(
        gain, epsilon_max=epsilon_max, objective=objective, balance=balance, alpha_min=1e-9, power_w=0.3, **uneven
    )
    assert np.nanmax(plan.epsilon) <= epsilon_max * (1 + 1e-9)
    assert np.isnan(plan.epsilon[gain == 0]).all()
    assert plan.theta >= plan.multiplier.max() * (1 - 1e-9)
    assert (plan.power_w <= 0.3 * (1 + 1e-12)).all()
    np.testing.assert_allclose(plan.alpha + plan.beta, 1.0)
    np.testing.assert_allclose(plan.mixing.sum(axis=1), 1.0, atol=1e-12)
    if balance:
        np.testing.assert_allclose(plan.mixing.sum(axis=0), 1.0, atol=1e-10)
    if objective == "own-noise":
        assert plan.epsilon_own.max() <= epsilon_max * (1 + 1e-9)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e6])
@pytest.mark.parametrize("objective", ["sum", "max-min", "min-noise"])
@pytest.mark.parametrize("balance", [False, "receiver", "power"])
def test_gains_may_be_of_any_size(scale, objective, balance):
    arguments = {"epsilon_max": 1.0, "objective": objective, "balance": balance, **PAPER}
    reference = plan_power(paper_gain(), **arguments)
    np.testing.assert_allclose(plan_power(scale * paper_gain(), **arguments).alpha, reference.alpha, rtol=1e-6)


def test_links_may_be_a_mask_or_links_and_gain_a_vector():
    gain = paper_gain()
    mask = gain > 0.5
    by_mask = plan_power(gain, links=mask, epsilon_max=1.0, theta=4, **PAPER)
    links = Links.from_gain(np.where(mask, gain, 0.0))
    by_links = plan_power(links.vector(gain), links=links, epsilon_max=1.0, theta=4, **PAPER)
    np.testing.assert_array_equal(by_mask.alpha, by_links.alpha)


def test_no_privacy_sends_only_the_model():
    for balance in (False, "receiver", "power"):
        plan = plan_power(paper_gain(), epsilon_max=np.inf, balance=balance, **PAPER)
        np.testing.assert_array_equal(plan.alpha, 1.0)
        assert np.isinf(plan.epsilon[paper_gain() > 0]).all()


def test_objectives_reach_what_they_are_for():
    plans = {
        objective: plan_power(urban_gain(1), epsilon_max=1.0, balance="receiver", objective=objective, **PER_SAMPLE)
        for objective in ("sum", "max-min", "min-noise", "own-noise")
    }
    alpha = {name: plan.alpha for name, plan in plans.items()}
    slack = 1 + 1e-6  # what the solvers leave
    assert alpha["sum"].sum() * slack >= max(value.sum() for value in alpha.values())
    assert alpha["max-min"].min() * slack >= max(value.min() for value in alpha.values())
    assert np.sum(1 / alpha["min-noise"]) <= slack * min(np.sum(1 / value) for value in alpha.values())
    assert alpha["max-min"].min() > 1.0001 * alpha["sum"].min()
    assert min(plans, key=lambda name: plans[name].epsilon_own.max()) == "own-noise"


def test_credited_thermal_noise_lets_more_of_the_model_through():
    plain = plan_power(paper_gain(), epsilon_max=1.0, theta=4, **PAPER)
    credited = plan_power(paper_gain(), epsilon_max=1.0, theta=4, thermal_w=50.0, **PAPER)
    assert (credited.alpha > plain.alpha).all()
    np.testing.assert_allclose(credited.link_epsilon.max(), 1.0, rtol=1e-6)
    assert (credited.epsilon_own > plain.epsilon_own).all()  # never credited there


# --- balancing


def star(nodes):
    gain = np.zeros((nodes, nodes))
    gain[0, 1:] = gain[1:, 0] = 0.5
    return gain


def path(nodes):
    return 0.5 * (np.eye(nodes, k=1) + np.eye(nodes, k=-1))


def two_leaves():
    gain = np.zeros((5, 5))
    for a, b in [(0, 1), (0, 2), (0, 3), (3, 4), (4, 0)]:  # leaves 1 and 2 at node 0
        gain[a, b] = gain[b, a] = 0.5
    return gain


def grid(side):
    gain = np.zeros((side**2, side**2))
    for node in range(side**2):
        row, column = divmod(node, side)
        for other in ([node + 1] if column < side - 1 else []) + ([node + side] if row < side - 1 else []):
            gain[node, other] = gain[other, node] = 0.3 + 0.05 * ((3 * node + other) % 10)
    return gain


GRAPHS = {
    "star": star(6),
    "path of 5": path(5),
    "path of 6": path(6),
    "two leaves": two_leaves(),
    "grid": grid(4),
    "pair": path(2),
    **{f"random {seed}": random_gain(seed, 4 + seed % 12) for seed in range(44)},
}


@pytest.mark.parametrize("name", GRAPHS)
def test_receiver_balancing_is_doubly_stochastic_on_every_strongly_connected_graph(name):
    gain = GRAPHS[name]
    plan = plan_power(gain, epsilon_max=1.0, balance="receiver", alpha_min=1e-9, **PER_SAMPLE)
    degree = (gain > 0).sum(axis=1)
    np.testing.assert_allclose(plan.mixing.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(plan.mixing.sum(axis=0), 1.0, atol=1e-12)
    assert (np.diagonal(plan.mixing) >= 1 / (degree + 1) - 1e-12).all()
    assert 0 < plan.spectral_gap <= 1


@pytest.mark.parametrize("name", GRAPHS)
def test_power_balancing_says_whether_it_can(name):
    gain = GRAPHS[name]
    links = Links.from_gain(gain)
    amplitude, reason = balancing_amplitudes(links, links.vector(gain))
    assert (amplitude is None) == (name in ("star", "path of 5", "two leaves")) or name.startswith("random")
    plan = plan_power(gain, epsilon_max=1.0, balance="power", alpha_min=1e-9, **PER_SAMPLE)
    np.testing.assert_allclose(plan.mixing.sum(axis=0), 1.0, atol=1e-9)
    assert np.isfinite(plan.alpha).all()
    if amplitude is None:
        assert plan.balance == "receiver"
        assert plan.notes == (f"balance by receivers instead of power: {reason}",)
    else:
        assert plan.balance == "power"
        assert support_margin(links) > 0
        A = mixing_matrix(gain, amplitude**2, 1.0)  # the paper's weights at these amplitudes
        np.testing.assert_allclose(A.sum(axis=0), 1.0, atol=1e-10)
        assert plan.backoff_db.min() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.slow
def test_receiver_balancing_cuts_the_noise_on_the_model():
    """Noise of the network's model per unit of update, at equal one-slot epsilon, on 20 urban instances."""
    ratio = []
    for seed in range(20):
        plain, balanced = (
            plan_power(urban_gain(seed), epsilon_max=1.0, balance=balance, power_w=0.2, **PER_SAMPLE)
            for balance in (False, "receiver")
        )
        ratio.append(plain.noise_per_step / balanced.noise_per_step)
    # docs/power.md has these
    assert [np.median(ratio), min(ratio), max(ratio)] == pytest.approx([5.3, 2.6, 11.3], rel=0.02)


@pytest.mark.slow
def test_balancing_by_power_turns_the_loudest_node_down():
    """On the same instances; docs/power.md has these, dB."""
    plans = [
        plan_power(urban_gain(seed), epsilon_max=1.0, balance="power", power_w=0.2, alpha_min=1e-9, **PER_SAMPLE)
        for seed in range(20)
    ]
    assert {plan.balance for plan in plans} == {"power"}
    loudest = [plan.backoff_db.max() for plan in plans]
    assert [min(loudest), np.median(loudest), max(loudest)] == pytest.approx([15.9, 23.8, 41.4], abs=0.2)


# --- what cannot be


@pytest.mark.parametrize("objective", ["sum", "max-min", "min-noise", "own-noise"])
@pytest.mark.parametrize("balance", [False, "receiver", "power"])
def test_an_impossible_promise_names_what_is_needed(objective, balance):
    with pytest.raises(InfeasiblePowerError, match=r"epsilon_max=0.001.*raise epsilon_max or rho, or lower alpha_min"):
        plan_power(paper_gain(), epsilon_max=1e-3, objective=objective, balance=balance, **PAPER)


def test_a_fixed_point_that_overshoots_comes_back():
    """Iterating theta runs into a theta no split can meet on many graphs where a smaller one serves."""
    found = []
    for seed in range(60):
        gain = random_gain(seed, 3 + seed % 6, density=0.3, spread=1.0)
        try:
            plan = plan_power(gain, epsilon_max=1.0, **PAPER)
        except InfeasiblePowerError:
            continue
        found.append(plan.iterations)
        assert plan.theta >= plan.problem.theta(plan.alpha) * (1 - 1e-9)
        assert plan.link_epsilon.max() <= 1 + 1e-9
    assert len(found) >= 45


def test_floors_that_leave_no_room_are_said():
    with pytest.raises(InfeasiblePowerError, match="leave no room for any split"):
        plan_power(paper_gain(), epsilon_max=1.0, alpha_min=0.7, beta_min=0.4, **PAPER)


def test_zero_gains_and_deaf_receivers_do_not_disturb_the_others():
    gain = paper_gain()
    links = Links.from_gain(gain)
    vector = np.where(links.rx == 2, 0.0, links.vector(gain))  # node 2 hears nothing in this frame
    for objective in ("sum", "max-min", "min-noise", "own-noise"):
        for balance in ("receiver", "power"):
            plan = plan_power(vector, links=links, epsilon_max=1.0, objective=objective, balance=balance, **PAPER)
            assert np.isfinite(plan.alpha).all()
            assert (plan.alpha >= 1e-3).all()
            assert plan.mixing[2, 2] == 1.0
            assert np.nanmax(plan.epsilon) <= 1.0 + 1e-9


@pytest.mark.parametrize("silence", ["row", "column"])
def test_without_balancing_a_node_cut_off_is_named(silence):
    gain = paper_gain()
    if silence == "row":
        gain[2] = 0.0  # hears nobody
    else:
        gain[:, 2] = 0.0  # is heard by nobody
    with pytest.raises(InfeasiblePowerError, match="node 2 does not reach every other node, or is not reached"):
        plan_power(gain, epsilon_max=1.0, **PAPER)
    with pytest.raises(InfeasiblePowerError, match=r"node \d does not reach"):
        plan_power(np.zeros((4, 4)), epsilon_max=1.0, **PAPER)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rho": 0.0}, "rho is 0.0; must be > 0"),
        ({"theta": 0.0}, "theta is 0.0; must be > 0"),
        ({"power_w": 0.0}, "power_w is 0.0; must be > 0"),
        ({"delta": 2.0}, "delta is 2.0; must be in (0, 1)"),
        ({"thermal_w": -1.0}, "thermal_w is -1.0; must be finite and >= 0"),
        ({"balance": True}, "balance is True; must be one of 'receiver', 'power', False"),
        ({"objective": "maxmin"}, "objective is 'maxmin'; must be one of 'sum'"),
        ({"gain": np.ones((3, 4))}, "gain has shape (3, 4); must be square"),
        ({"links": np.ones((3, 3), bool)}, "gain has shape (4, 4); must be square, [rx, tx], as must a mask"),
        ({"epsilon_max": float("nan")}, "epsilon_max is nan; must be > 0"),
        ({"gain": -paper_gain(), "links": paper_gain() > 0}, "finite |h| >= 0 for each of 12 links"),
    ],
)
def test_wrong_arguments_are_refused(changes, words):
    arguments = {"gain": paper_gain(), "epsilon_max": 1.0, **PAPER, **changes}
    with pytest.raises(ValueError) as caught:
        plan_power(arguments.pop("gain"), **arguments)
    assert words in str(caught.value)


def test_the_allocator_of_the_documentation_keeps_its_promise(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "power.md").read_text(encoding="utf-8")
    (tmp_path / "even.py").write_text(page.split("```python\n# even.py\n")[1].split("```")[0])
    power = {"allocator": {"kind": "even.py:Even", "backoff_db": 3.0}, "alpha_min": 1e-9}
    one = Watched(tiny_table(scenario={"rounds": 4}, power=power), folder=str(tmp_path)).run()
    plan = one.decisions[0].plan
    assert len(set(plan.alpha)) == 1
    np.testing.assert_allclose(plan.backoff_db, 3.0)
    assert plan.epsilon_own.max() == pytest.approx(1.0, rel=1e-6)
    assert one.engine.violations == 0
