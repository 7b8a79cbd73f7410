"""Tables of the theorems: the bound of Theorem 2 term by term, slopes of known regrets, slots of Theorem 1 on draws."""

import math
import sys

import numpy as np
import pytest
from conftest import ROOT, tiny

from wirelessdl.errors import TraceError
from wirelessdl.mixing import perron_vector
from wirelessdl.run.session import simulate

sys.path.append(str(ROOT / "docs" / "reproduction"))
from leakage import slot_tests
from regret import mixing_constants, slope_rows, theorem_bound

RIDGE = {
    "dataset": {"kind": "synthetic-regression", "features": 3, "samples": 200, "noise": 0.3},
    "model": {"model": "ridge", "penalty": 0.05},
    "learning_rate": {"kind": "inverse", "mu": 0.8, "theta": 9.0},
    "regret": True,
}


def ridge(**changes):
    return tiny(
        scenario={"rounds": 6},
        power={"objective": "sum", "balance": False, "alpha_min": 1e-6},
        privacy={"clipping": "batch", "clip_norm": 3.0, "rho": 5.0},
        learning={**RIDGE, **changes},
        trace={"links": "all"},
    )


# --- Theorem 2


def test_the_bound_is_the_last_display_of_the_proof_term_by_term(tmp_path):
    """A slow twin of eq. 36: loops over nodes and links, one term after another as printed."""
    run = simulate(ridge(), out=tmp_path)
    last = run.links[run.links["round"] == 6]
    nodes = run.nodes[run.nodes["round"] == 6].sort_values("node")
    alpha, beta = nodes["alpha"].tolist(), nodes["beta"].tolist()
    gain = {(rx, tx): h for rx, tx, h in zip(last["rx"], last["tx"], last["gain"])}
    leak = {(rx, tx): e for rx, tx, e in zip(last["rx"], last["tx"], last["epsilon"])}
    a = np.array([[0.25] * 4 for _ in range(4)])
    for rx in range(4):
        heard = {tx: gain[rx, tx] * math.sqrt(alpha[tx]) for tx in range(4) if tx != rx}
        for tx, amplitude in heard.items():
            a[rx, tx] = 0.75 * amplitude / sum(heard.values())
    c, xi = mixing_constants(a)
    k, theta, mu, g, m, log = 4, 9.0, 0.8, 3.0, 4, math.log(1.25 / 1e-4)
    ratio = max(b / s for s, b in zip(alpha, beta))
    loud = max(h * math.sqrt(alpha[tx]) for (_, tx), h in gain.items())
    hidden = [math.sqrt(sum(gain[rx, tx] ** 2 * beta[tx] for tx in range(4) if tx != rx)) for rx in range(4)]
    least = min(leak[rx, tx] * hidden[rx] for rx, tx in gain)
    first = math.sqrt(ratio) * loud / mu * 2 * (8 * k**2 + 8 * theta * k + theta) * math.sqrt(m) * g**2
    second = ratio * loud**2 / mu * 4 * m * g**2 * theta * log / least
    third = math.sqrt(ratio) * loud / mu * 4 * (2 * k + 1) * (theta + k) * k * math.sqrt(m) * c * g**2
    u2 = first * math.sqrt(2 * log) / least + second + third * math.sqrt(2 * log) / ((1 - xi) * least)
    u2 += 2 * k * (k + theta) * c * g**2 / (1 - xi) + (8 * k + 9 * theta) * g**2 / 2
    ball = math.sqrt(m)  # the largest diameter that the paper allows, and the default
    u1 = xi * c * g / (1 - xi) * k * theta * ball
    assert theorem_bound(run) == pytest.approx((u1, u2), rel=1e-6)


def test_theta_of_the_bound_is_that_of_the_steps(tmp_path):
    """gamma_t = 1/(mu theta t): the theorem is about this theta, though the multipliers of a run are smaller."""
    small, large = (
        theorem_bound(simulate(ridge(learning_rate={**RIDGE["learning_rate"], "theta": theta}), out=tmp_path / name))
        for name, theta in (("small", 9.0), ("large", 18.0))
    )
    assert large[0] == pytest.approx(2 * small[0], rel=1e-9)
    with pytest.raises(TraceError, match="learning_rate is not 1 / \\(mu theta t\\)"):
        theorem_bound(simulate(ridge(learning_rate={"kind": "inverse", "initial": 0.1}), out=tmp_path / "other"))


def test_powers_of_a_mixing_matrix_stay_within_its_constants():
    weights = np.random.default_rng(2).uniform(0.3, 1.0, (6, 6))
    mixing = weights / weights.sum(axis=1, keepdims=True)
    c, xi = mixing_constants(mixing)
    pi, power = perron_vector(mixing), np.eye(6)
    for t in range(12):  # until rounding
        assert np.abs(power - pi).max() <= c * xi**t * (1 + 1e-9)
        power = mixing @ power
    assert 0 < xi < 1


@pytest.mark.parametrize(
    ("regret", "growth"),
    [(lambda t: 5 + 3 * np.log(t), 1.0), (np.sqrt, math.sqrt(10)), (lambda t: 2.0 * t, 10.0)],
)
def test_growth_tells_logarithms_from_powers(regret, growth):
    rounds = np.arange(1, 10_001, dtype=float)
    rows = slope_rows(np.stack([regret(rounds), 2 * regret(rounds), 7 * regret(rounds)]))
    assert [(row["from_T"], row["to_T"]) for row in rows] == [(1000, 10000), (100, 1000), (10, 100), (1, 10)]
    for row in rows[:2]:  # runs of other sizes grow alike
        assert row["growth"] == pytest.approx(growth, rel=0.02)  # T are whole numbers
        assert row["growth_high"] - row["growth_low"] < 1e-6
    assert math.isnan(rows[-1]["growth"])


# --- Theorem 1


def test_slots_are_tested_against_what_the_air_carries(tmp_path):
    run = simulate(
        tiny(
            scenario={"rounds": 3},
            power={"objective": "sum", "balance": False, "alpha_min": 1e-6},
            privacy={"protocol": "paper", "clipping": "batch", "rho": 10.0},
            learning={"learning_rate": {"kind": "inverse-sqrt", "initial": 0.1}},
            trace={"links": "all"},
        ),
        out=tmp_path,
    )
    rows = slot_tests(run, 3, 1)
    assert len(rows) == 12
    links = run.links[run.links["round"] == 3].set_index(["rx", "tx"])
    nodes = run.nodes[run.nodes["round"] == 3].set_index("node")
    for row in rows:
        senders = [tx for tx in range(4) if tx != row["rx"]]
        sigma = 10.0 * 0.1 / math.sqrt(3)
        noise = sum(links.loc[(row["rx"], tx), "gain"] ** 2 * nodes["beta"][tx] for tx in senders) * sigma**2
        step = 0.1 / math.sqrt(2) * nodes["sent_multiplier"][row["tx"]]  # of the gradient of round 2
        shift = (
            run.clients["sensitivity"][row["tx"]]
            * step
            * links.loc[(row["rx"], row["tx"]), "gain"]
            * math.sqrt(nodes["alpha"][row["tx"]])
        )
        expected = shift / math.sqrt(noise) * math.sqrt(2 * math.log(1.25 / run.scenario["privacy"]["delta"]))
        assert row["formula"] == pytest.approx(expected, rel=1e-6)
        # three and a half standard errors; twelve links and a fixed seed
        wide = 3.5 / 1.96 * (row["test_high"] - row["test_low"]) / 2
        assert row["test"] == pytest.approx(row["exact"], abs=wide)
    worst = max(row["formula"] for row in rows)
    assert 1.0 < worst <= math.sqrt(1.5) * (1 + 1e-9)  # gamma_2 / gamma_3: more than epsilon_max = 1
