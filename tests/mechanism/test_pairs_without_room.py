"""Frames whose pairs would leave models too little power: own noise alone, charged, verified and resumed as such."""

from dataclasses import replace

import numpy as np
import pytest
from test_pairwise import NETWORK, OWN, PRIVATE, table
from watching import Watched

import wirelessdl
from wirelessdl.analysis.releases import data_split, share_problems
from wirelessdl.analysis.verify import verify
from wirelessdl.errors import InfeasiblePowerError
from wirelessdl.links import Geometry, Links
from wirelessdl.mechanism.pairwise import PairSettings, require_room, roster_of
from wirelessdl.run.build import build
from wirelessdl.run.wiring import make_observer, make_planner
from wirelessdl.scenario.loader import parse_scenario

TIGHT = {"coalition": 2, "pair_ratio": 1.4}


def near_alpha_min(**sections):
    """Pairs have room with all five on air, and none with four: N^2 is 3.80 and 4.14 times what is hidden."""
    given = table(**{"power": {**OWN, "alpha_min": 1e-9}, "privacy": {**PRIVATE, **TIGHT}, **sections})
    world = build(parse_scenario(given), device="cpu")
    alone = make_planner(world).first(make_observer(world).observe(1, 0.0))
    given["power"]["alpha_min"] = float(1.0 / (1.0 + 3.97 * np.max(alone.beta / alone.alpha)))
    return given


@pytest.mark.parametrize("pairs", ["all", "neighbours", {"groups": 1}], ids=["all", "neighbours", "groups"])
def test_pairs_that_leave_a_model_too_little_power_are_not_formed(pairs, tmp_path):
    """Node 0 crashes for a while: the run goes on, what is promised holds; it can be verified and resumed."""
    gone = {"kind": "schedule", "events": [{"node": 0, "at_s": 1e-6, "for_s": 0.15}]}
    network = {**NETWORK, "topology": "full"}
    private = {**PRIVATE, **TIGHT, "pairs": pairs}
    given = near_alpha_min(rounds=8, network=network, faults={"crashes": gone}, privacy=private)
    watched = Watched(given)
    watched.run()
    partners = [sorted(set(one.air.protection.roster.partners[one.on_air].tolist())) for one in watched.decisions]
    crowd = [int(one.on_air.sum()) for one in watched.decisions]
    assert {4, 5} <= set(crowd)
    roomy = [count == 5 and equal_rates(one) for count, one in zip(crowd, watched.decisions)]
    assert partners == [[4] if room else [0] for room in roomy]
    alone = [one for one, count in zip(watched.decisions, partners) if count == [0]]
    for one in watched.decisions:
        assert (one.plan.alpha >= given["power"]["alpha_min"]).all()
        assert (one.charged.coalition[one.on_air] <= 1.0 + 1e-6).all()
    for one in alone:  # nothing but its own noise hides a sender, from whomever
        np.testing.assert_array_equal(one.charged.own[one.on_air], one.charged.coalition[one.on_air])
    run = wirelessdl.simulate(parse_scenario(given), out=tmp_path / "whole")
    assert sum("share no noise in this frame" in words for words in run.events["detail"]) == len(alone)
    assert any(f"shared no noise in {len(alone)} frames" in words for words in run.summary["warnings"])
    assert verify(run.path).problems == ()
    rounds = iter(range(100))
    stopped = wirelessdl.simulate(
        parse_scenario(given), out=tmp_path / "stopped", should_stop=lambda: next(rounds) == 4
    )
    again = wirelessdl.resume(stopped)
    assert again.state == "done"
    assert again.nodes.equals(run.nodes)


def equal_rates(decision):
    """Whether all senders of a frame carry gradients of one learning rate."""
    return len(set(decision.sigma[decision.on_air].tolist())) == 1


@pytest.mark.parametrize("pairs", ["all", {"groups": 1}], ids=["all", "groups"])
def test_shares_of_pairs_that_had_room_cannot_be_taken_for_those_of_none(pairs, tmp_path):
    given = table(rounds=3, privacy={**PRIVATE, "pairs": pairs})
    run = wirelessdl.simulate(parse_scenario(given), out=tmp_path)
    frames = run.frame("nodes")
    edited = frames.assign(own_share=1.0, coalition_share=1.0)
    run.frame = lambda name, columns=None: (edited if name == "nodes" else type(run).frame(run, name))[
        columns or slice(None)
    ]
    problems = list(share_problems(run, data_split(run)))
    assert problems[:1] == ["nodes: own_share does not follow from who was on air"]


def test_a_sender_with_an_older_gradient_takes_the_pairs_of_those_it_is_joined_with():
    """Twice the learning rate is four times the variance, which all would have to send."""
    given = near_alpha_min(
        network={**NETWORK, "topology": "full"}, privacy={**PRIVATE, **TIGHT, "pairs": {"groups": 1}}
    )
    world = build(parse_scenario(given), device="cpu")
    planner, channel = make_planner(world), make_observer(world).observe(1, 0.0)
    plan, everyone = planner.first(channel), np.ones(5, dtype=bool)
    equal = planner.protect(plan, everyone, channel.links, np.ones(5))
    assert equal.roster.partners.tolist() == [4] * 5
    assert not equal.note
    protection = planner.protect(plan, everyone, channel.links, np.array([2.0, 1.0, 1.0, 1.0, 1.0]))
    older, apart = protection.plan, protection.roster
    assert "share no noise" in protection.note
    assert apart.partners.tolist() == [0] * 5
    assert len(set(apart.joined.tolist())) == 5
    np.testing.assert_allclose(older.alpha, plan.alpha, rtol=1e-12)
    assert older.own_share.tolist() == older.coalition_share.tolist() == [1.0] * 5
    assert any("with fewer than 5 of 5 nodes of a group on air" in note for note in plan.notes)


def test_room_is_asked_for_where_pairs_are_and_nowhere_else():
    """A node without partners may have any alpha; that of others must not pass for it."""
    links = Links.from_mask(np.ones((5, 5), bool), Geometry.at_rest(np.arange(15.0).reshape(5, 3)))
    world = build(parse_scenario(table()), device="cpu")
    plan = make_planner(world).first(make_observer(world).observe(1, 0.0))
    plan = replace(
        plan, alpha=np.array([0.02, 0.001, 0.02, 0.05, 0.02]), problem=replace(plan.problem, alpha_min=0.019)
    )
    halves = roster_of(PairSettings(2, 1.4, 1, "coalition"), np.ones(5, dtype=bool), links)
    assert halves.partners.tolist() == [2, 0, 2, 0, 2]
    with pytest.raises(InfeasiblePowerError, match="leaves node 0 a share"):
        require_room(plan, halves)


def test_only_nodes_that_are_joined_with_one_that_lacks_power_share_nothing():
    links = Links.from_mask(np.ones((6, 6), bool), Geometry.at_rest(np.arange(18.0).reshape(6, 3)))
    everyone, first = np.ones(6, dtype=bool), np.arange(6) == 0
    halves = roster_of(PairSettings(2, 1.0, 1, "coalition"), everyone, links).without(first)
    assert halves.partners.tolist() == [0, 2, 0, 2, 0, 2]
    assert halves.group.tolist() == [-1, 1, -1, 1, -1, 1]
    two = np.kron(np.eye(2, dtype=bool), np.ones((3, 3), bool))
    links = Links.from_mask(two, Geometry.at_rest(np.arange(18.0).reshape(6, 3)))
    near = roster_of(PairSettings("neighbours", 1.0, 1, "coalition"), everyone, links).without(first)
    assert near.partners.tolist() == [0, 0, 0, 2, 2, 2]
    assert sorted(zip(near.low.tolist(), near.high.tolist())) == [(3, 4), (3, 5), (4, 5)]
    assert near.noise(np.full(6, 2.0)).own[:3].tolist() == [2.0, 2.0, 2.0]
