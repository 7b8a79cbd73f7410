"""Where accuracy may stop a run, every proven view is stated at the declared number of rounds."""

import pytest
from conftest import tiny

from wirelessdl.run.session import simulate
from wirelessdl.trace.catalog import headline

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
    from wirelessdl.cli.run import summary_rows

    stopped = runs[0].summary
    other = "own" if stopped["promised"] == "coalition" else "coalition"
    cells = " ".join(words for _, words in summary_rows(stopped))
    assert f"epsilon {stopped[f'epsilon_{other}_declared']:.3g} (replace-one) against" in cells


def test_comparisons_call_no_odometer_proven(runs):
    from wirelessdl.analysis.runs import final_figures

    stopped = runs[0]
    for view in ("own", "coalition"):
        assert final_figures(stopped)[f"epsilon_{view}"] == stopped.summary[f"epsilon_{view}_declared"]


def test_the_headline_is_the_total_of_all_rounds_declared_wherever_a_rule_may_stop_a_run():
    plain = {"epsilon_total": 1.0, "epsilon_own_total": 3.0}
    assert (headline(plain), headline(plain, "own"), headline(plain, "coalition")) == (1.0, 3.0, None)
    stopped = {**plain, "epsilon_declared": 2.0, "epsilon_own_declared": 5.0}
    assert (headline(stopped), headline(stopped, "own")) == (2.0, 5.0)
