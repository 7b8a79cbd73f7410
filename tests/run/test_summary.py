"""Stopping rules: ours by a window, the paper's by its first value; never is an answer."""

import numpy as np
import pytest
from conftest import tiny

from wirelessdl.cli.run import summary_rows
from wirelessdl.run.session import simulate
from wirelessdl.run.summary import Plateau
from wirelessdl.trace.catalog import headline


def met_at(accuracies, count, within):
    """Number of the evaluation, from 1, at which the anchored rule is first met; None for never."""
    plateau = Plateau(count, within, "anchored")
    for number, accuracy in enumerate(accuracies, start=1):
        plateau.add(accuracy)
        if plateau.reached:
            return number
    return None


def printed(accuracies, count, within):
    """The paper's rule, word for word: the end of the first stretch with |acc(t+k) - acc(t)| <= within for all k."""
    for t in range(len(accuracies) - count):
        if all(abs(accuracies[t + k] - accuracies[t]) <= within for k in range(1, count + 1)):
            return t + count + 1
    return None


@pytest.mark.parametrize("seed", range(20))
def test_the_anchored_rule_is_the_printed_one(seed):
    rng = np.random.default_rng(seed)
    accuracies = np.round(0.8 - 0.5 * 0.9 ** np.arange(80) + rng.normal(0, 0.0007, 80), 4)
    assert met_at(accuracies, 15, 0.001 + 1e-9) == printed(accuracies, 15, 0.001 + 1e-9)


def stopping(rounds, **learning):
    # eight samples a batch and a silent network: quick, and the rule is the same
    return tiny(
        scenario={"rounds": rounds},
        network={"topology": "none"},
        learning={"eval_every": 1, "stop_rule": "anchored", **learning},
        trace={"checkpoint_every": 20, "flush_every": 20},
    )


def test_runs_stop_by_the_rule_they_name(tmp_path):
    anchored = simulate(stopping(12, stop_after=4, stop_within=1.0), out=tmp_path / "a").summary
    assert (anchored["stopped"], anchored["rounds"]) == (5, 5)
    window = simulate(stopping(12, stop_after=4, stop_within=1.0, stop_rule="window"), out=tmp_path / "w").summary
    assert (window["stopped"], window["rounds"]) == (4, 4)


def test_never_is_a_result(tmp_path):
    never = simulate(stopping(6, stop_after=5, stop_within=0.0), out=tmp_path).summary
    assert (never["stopped"], never["rounds"]) == (None, 6)
    assert dict(summary_rows(never))["stopping rule"].startswith("never met in 6 rounds")
    met = simulate(stopping(6, stop_after=5, stop_within=1.0), out=tmp_path).summary
    assert met["stopped"] == 6  # in the last round, where there is nothing left to stop


# --- Where accuracy may stop a run, every proven view is stated at the declared number of rounds

ROUNDS = 10


@pytest.fixture(scope="module", params=["coalition", "everyone"])
def runs(request, tmp_path_factory):
    """A run that stopped early, and one that did not."""

    def run(name, **stop):
        given = tiny(
            scenario={"rounds": ROUNDS},
            network={"nodes": 5},
            power={"objective": "own-noise", "alpha_min": 1e-6},
            privacy={
                "noise": "pairwise",
                "pair_ratio": 2.0,
                "coalition": 1,
                "epsilon_max": 1.0,
                "rho": 1.0,
                "against": request.param,
            },
            learning={"sampling": "full", "eval_every": 1, **stop},
        )
        return simulate(given, out=tmp_path_factory.mktemp(name), device="cpu")

    return run("stopped", stop_after=2, stop_within=1.0), run("whole")


def test_no_view_is_stated_below_what_the_declared_rounds_would_have_cost(runs):
    stopped, whole = (run.summary for run in runs)
    assert stopped["stopped"] < ROUNDS
    for view in ("own", "coalition"):
        assert stopped[f"epsilon_{view}_total"] < whole[f"epsilon_{view}_total"]
        assert stopped[f"epsilon_{view}_declared"] >= whole[f"epsilon_{view}_total"] * (1 - 1e-9)
    assert stopped["epsilon_declared"] == stopped[f"epsilon_{stopped['promised']}_declared"]
    # everyone was on air, where the bound for any roster is exact
    assert stopped["epsilon_own_declared"] == pytest.approx(whole["epsilon_own_total"], rel=1e-6)


def test_the_table_after_a_run_shows_the_other_view_of_all_rounds(runs):
    stopped = runs[0].summary
    other = "own" if stopped["promised"] == "coalition" else "coalition"
    cells = " ".join(words for _, words in summary_rows(stopped))
    assert f"epsilon {stopped[f'epsilon_{other}_declared']:.3g} (replace-one), proven, against" in cells


def test_the_headline_is_the_total_of_all_rounds_declared_wherever_a_rule_may_stop_a_run():
    plain = {"epsilon_total": 1.0, "epsilon_own_total": 3.0}
    assert (headline(plain), headline(plain, "own"), headline(plain, "coalition")) == (1.0, 3.0, None)
    stopped = {**plain, "epsilon_declared": 2.0, "epsilon_own_declared": 5.0}
    assert (headline(stopped), headline(stopped, "own")) == (2.0, 5.0)
