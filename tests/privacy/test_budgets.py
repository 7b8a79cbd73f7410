"""Privacy budgets: never exceeded, exactly used up, kept in runs and through interruptions."""

import numpy as np
import pandas as pd
import pytest
from conftest import tiny

import wirelessdl
from wirelessdl.analysis.releases import terms_of
from wirelessdl.analysis.verify import verify
from wirelessdl.privacy import FrameRelease, Ledger, PrivacyAssumptions
from wirelessdl.run.build import build


def release(round, own_mu):
    nodes = len(own_mu)
    nothing = np.zeros(0, dtype=np.int64)
    ones = np.ones(nodes)
    return FrameRelease(round, np.ones(nodes, bool), ones, ones, np.asarray(own_mu), nothing, nothing, np.zeros(0))


@pytest.mark.parametrize(
    ("protocol", "groups"), [("hardened", 4), pytest.param("hardened", 25, marks=pytest.mark.slow), ("paper", 25)]
)
def test_budgets_are_never_exceeded_whatever_the_schedule(protocol, groups):
    """Twenty senders share a ledger, each with its own fading and silences; 500 senders in 25 groups."""
    rng = np.random.default_rng(5)
    budget, stopped = 0.8, 0
    for _ in range(groups):
        q = rng.choice([0.02, 0.05, 0.1], 20)
        ledger = Ledger(PrivacyAssumptions(protocol, "without-replacement", "per-sample", 1e-5), q)
        fading = rng.choice([0.2, 0.4, 0.8], 20)
        for round in range(1, 26):
            mu = fading * rng.choice([0.0, 1.0, 1.0, 1.6], 20)
            spent = ledger.promised.exhausted(mu, budget)
            stopped += int(spent.sum())
            ledger.record(release(round, np.where(spent, 0.0, mu)))
        assert (ledger.own.total() <= budget).all()
    assert stopped > 4 * groups


def test_budgets_hold_in_runs_under_fading_and_what_falls_silent_shows_nothing(tmp_path):
    """Adaptive plans, uneven data: some nodes retire early. Their model is what they last received, not their step."""
    base = {
        "scenario": {"rounds": 40},
        "network": {"nodes": 5, "topology": {"kind": "erdos-renyi", "p": 0.7}},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "radio": {"power_dbm": 23, "thermal_noise": True},
        "power": {"schedule": "adaptive", "objective": "own-noise"},
        "learning": {"batch_size": 100, "partition": {"kind": "dirichlet"}, "eval_every": 1},
    }
    free = wirelessdl.simulate(tiny(**base), out=tmp_path)
    totals = free.privacy.query("view == 'own'")["epsilon_total"]
    limit = float(totals.median())
    run = wirelessdl.simulate(tiny(**base, privacy={"epsilon_max": 1.0, "budget_total": limit}), out=tmp_path)
    assert run.privacy.query("view == 'own'")["epsilon_total"].max() <= limit
    sent = run.nodes.pivot(index="round", columns="node", values="transmitted")
    assert not (sent.astype(int).diff() > 0).any().any()  # once silent, silent for good
    retired = sent.columns[~sent.iloc[-1]]
    assert 0 < len(retired) < 5
    accuracy = run.nodes.pivot(index="round", columns="node", values="accuracy")
    for node in retired:
        first = int((~sent[node]).idxmax())
        # it shows again what it showed in the last slot it sent in: the step after that was taken back
        assert accuracy[node].loc[first] == accuracy[node].loc[first - 1]


@pytest.fixture(scope="module")
def halved(tmp_path_factory):
    """A scenario with half of the budget that it would spend, that budget, and its run."""
    sections = {"scenario": {"rounds": 40}, "power": {"objective": "own-noise"}, "learning": {"batch_size": 64}}
    out = tmp_path_factory.mktemp("halved")
    limit = wirelessdl.simulate(tiny(**sections), out=out).summary["epsilon_own_total"] / 2
    scenario = tiny(**sections, privacy={"epsilon_max": 1.0, "budget_total": limit})
    return scenario, limit, wirelessdl.simulate(scenario, out=out)


def test_a_budgeted_run_resumes_to_the_same_tables(halved, tmp_path):
    base, _, whole = halved
    silent = whole.nodes[~whole.nodes["transmitted"]]["round"].min()
    for stop in (silent - 1, silent + 2):
        done: list[int] = []

        def enough(done=done, stop=stop):
            return done[-1] >= stop

        stopped = wirelessdl.simulate(base, out=tmp_path / "cut", on_round=done.append, should_stop=enough)
        assert stopped.state == "interrupted"
        again = wirelessdl.resume(stopped.path)
        pd.testing.assert_frame_equal(again.nodes, whole.nodes, check_exact=True)
        pd.testing.assert_frame_equal(again.events, whole.events, check_exact=True)


def test_a_budget_silences_nodes_in_a_run(halved):
    _, limit, bound = halved
    assert limit * 0.8 < bound.summary["epsilon_own_total"] <= limit
    silent = bound.nodes[~bound.nodes["transmitted"]]
    assert len(silent)
    assert (silent["power_w"] == 0).all()
    sent = bound.nodes.groupby("node")["transmitted"].sum()
    own = bound.privacy.query("view == 'own'").set_index("tx")["rounds"]
    assert (own == sent - 1).all()  # every transmission but the first carries a gradient, and is charged
    assert (bound.events["kind"] == "budget").sum() == 4
    heard = bound.links[["round", "tx"]].merge(bound.nodes, left_on=["round", "tx"], right_on=["round", "node"])
    assert heard["transmitted"].all()
    assert bound.rounds["active_nodes"].iloc[-1] == 0


@pytest.mark.parametrize("alignment", ["all", "turns", "hubs", "server", "none"])
def test_rounds_in_which_everyone_has_fallen_silent_are_sound(alignment, tmp_path):
    """What the air adds where nobody sends is 0, and links have no epsilon where a gradient is heard again."""
    network = {"server": {"at": "center"}} if alignment == "server" else {}
    radio = {"alignment": alignment, "truncate_snr_db": 6.0} if alignment not in ("all", "none") else {}
    given = tiny(
        scenario={"rounds": 5},
        network={"nodes": 4, "placement": {"kind": "disc", "radius_m": 60}, **network},
        channel={"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        radio={"alignment": alignment, "thermal_noise": True, **radio},
        power={"objective": "own-noise"},
        privacy={"epsilon_max": 1.0, "budget_total": 1.2},
        learning={"sampling": "full"},
    )
    run = wirelessdl.simulate(given, out=tmp_path)
    sent = run.nodes.groupby("round")["transmitted"].sum()
    assert sent.iloc[1] > 0 == sent.iloc[-1]
    assert (run.rounds["privacy_noise_std"].to_numpy()[sent == 0] == 0).all()
    assert terms_of(run).counts_links == build(given, device="cpu").terms.counts_links == (alignment == "all")
    assert verify(run.path).problems == ()
