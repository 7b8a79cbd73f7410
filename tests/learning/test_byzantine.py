"""Attackers: what they send is what loops say, within their power; honest totals, resuming and refusals."""

import numpy as np
import pytest
from conftest import hubs, tiny, tiny_table
from exact_transcripts import Transcript
from interrupting import assert_resumes
from slow_byzantine import SlowAttack
from slow_hubs import slow_announced
from watching import Watched

import wirelessdl
from wirelessdl.errors import WirelessdlError
from wirelessdl.run.build import build
from wirelessdl.run.warnings import scenario_warnings
from wirelessdl.scenario.loader import parse_scenario

KINDS = {
    "sign-flip": {"kind": "sign-flip", "factor": 3.0},
    "noise": {"kind": "noise", "factor": 0.5},
    "zero": {"kind": "zero"},
    "replay": {"kind": "replay"},
}
OWN = {
    "power": {"objective": "own-noise"},
    "scenario": {"rounds": 5},
    "learning": {"eval_every": 1, "sampling": "full", "dtype": "float64"},
}
ACCESS = {
    "all": {},
    "all, passes": {"radio": {"mixing_passes": 2}},
    "tdma": {"radio": {"access": "tdma"}},
    "digital": {"radio": {"access": "digital", "truncate_snr_db": "auto", "alignment": "all"}},
    "turns": {"radio": {"alignment": "turns"}},
    "hubs": {"radio": {"alignment": "hubs"}},
    "server": {
        "radio": {"alignment": "server"},
        "network": {"server": {"at": "center"}, "placement": {"kind": "line", "spacing_m": 20}},
    },
}


def scenario(access, **sections):
    given = ACCESS[access]
    parts = {
        name: {**OWN.get(name, {}), **given.get(name, {}), **sections.get(name, {})}
        for name in {*OWN, *given, *sections}
    }
    parts["radio"] = {"alignment": "all", "truncate_snr_db": "auto", **parts.get("radio", {})}
    if parts["radio"]["alignment"] in ("turns", "hubs", "server"):
        parts["radio"]["truncate_snr_db"] = 12
    return hubs(**parts)


def attack(kind, **more):
    return {"byzantine": {**KINDS[kind], "nodes": [1, 4], **more}}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("access", ["hubs", "turns", "server"])
def test_announced_payloads_of_attackers_equal_the_loops(access, kind):
    """Payload by payload: what attackers put in the place of what they hold, and what receivers make of it."""
    watched = Watched(scenario(access, faults=attack(kind)).to_table())
    world, slow, payloads = watched.world, SlowAttack(watched.world), []
    announce = world.learning.exchange.announce

    def noted(step, held, noise, sent=None):
        payload, before = (held if sent is None else sent).clone(), held.clone()
        found = announce(step, held, noise, sent)
        payloads.append((step, before.numpy(), payload.numpy(), noise.numpy(), held.clone().numpy(), found[0].numpy()))
        return found

    world.learning.exchange.announce = noted
    decided = watched.run().decisions
    each = iter(payloads)
    for decision in decided:
        opened = None
        for number in range(len(decision.carried.announced)):
            step, before, payload, noise, after, power_w = next(each)
            opened = before if step.together and step.opens else opened
            honest = list(opened if step.together else before)
            if np.isin([1, 4], step.senders).any():
                honest = slow.sent(decision.round, honest, decision.on_air, decision.plan.alpha, number)
            np.testing.assert_allclose(payload, honest, rtol=1e-12, atol=0)
            expected, radiated_w, _ = slow_announced(step, payload.tolist(), noise.tolist())
            rows = step.receivers
            np.testing.assert_allclose(after[rows], np.array(expected)[rows], rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(power_w, radiated_w, rtol=1e-9)
            assert (np.delete(after, rows, axis=0) == np.delete(before, rows, axis=0)).all()
    assert next(each, None) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("access", ACCESS)
def test_honest_totals_are_bit_for_bit_those_without_attackers_and_power_is_kept(access, kind, tmp_path):
    plain, attacked = (
        wirelessdl.simulate(scenario(access, faults=faults), out=tmp_path, device="cpu")
        for faults in ({}, attack(kind, from_round=2))
    )
    totals = [run.nodes[["epsilon_own_bound", "epsilon_own_total", "transmitted"]] for run in (plain, attacked)]
    assert totals[0].equals(totals[1])
    assert (totals[0]["epsilon_own_total"].iloc[-6:] > 0).all()
    assert plain.summary["epsilon_own_total"] == attacked.summary["epsilon_own_total"]
    nodes = attacked.nodes
    assert (nodes["attacks"] == (nodes["node"].isin([1, 4]) & (nodes["round"] >= 2) & nodes["transmitted"])).all()
    assert nodes["accuracy"].isna().equals(nodes["node"].isin([1, 4]) & (nodes["round"] >= 2))
    budget = attacked.clients["budget_w"].to_numpy()
    assert (nodes["power_w"].to_numpy() <= budget[nodes["node"]] * (1 + 1e-9)).all()
    honest = nodes[nodes["round"].eq(5) & ~nodes["node"].isin([1, 4])]["accuracy"]
    assert attacked.summary["accuracy_mean"] == pytest.approx(honest.mean(), rel=1e-12)
    # what attackers send does arrive
    assert not plain.nodes["accuracy"].equals(attacked.nodes["accuracy"])
    assert wirelessdl.open_run(attacked.path).rounds["accuracy_mean"].notna().all()


@pytest.mark.parametrize("kind", ["sign-flip", "zero", "replay"])  # noise that attackers know is zero to them
@pytest.mark.parametrize("access", ["all, passes", "tdma", "turns", "hubs", "server"])
def test_all_that_attackers_hear_is_charged_whatever_they_send(access, kind):
    """The joint Gaussian of all that is sent and held, under attack, for a coalition of the attackers and alone."""
    more = {
        "privacy": {"noise": "pairwise", "coalition": 2, "pair_ratio": 1.4, "epsilon_max": 1.0, "rho": 1.0},
        "power": {"alpha_min": 1e-6, "objective": "own-noise"},
        "learning": {"sampling": "full", "dtype": "float64", "eval_every": 1},
    }
    if access in ("turns", "hubs", "server"):
        more["radio"] = {**ACCESS[access].get("radio", {}), "subslots": 1}
    transcript = Transcript(scenario(access, faults=attack(kind, from_round=2), **more), 0, hears_w=True)
    charged = transcript.charged()
    assert charged > 0
    for coalition in ((1, 4), (2, 3), (1, 2)):
        assert transcript.mu(coalition) <= charged * (1 + 1e-6)
    others = range(1, transcript.world.nodes)
    assert transcript.mu(others) <= transcript.charged("own") * (1 + 1e-6)
    # a flipped payload tells as much as an honest one
    if kind == "sign-flip":
        assert transcript.mu(others) == pytest.approx(transcript.charged("own"), rel=1e-6)


CHURN = {
    "scenario": {"rounds": 60},
    "faults": {
        "crashes": {"kind": "exponential", "up_s": 0.05, "down_s": 0.02},
        "rejoin": "listen",
        "byzantine": {"kind": "replay", "share": 0.4, "from_round": 3},
    },
    "trace": {"checkpoint_every": 20, "flush_every": 20},
}


@pytest.mark.parametrize("access", ["all", "tdma", "hubs"])
def test_a_run_with_attackers_and_churn_resumes_bit_for_bit(access, tmp_path):
    whole = assert_resumes(scenario(access, **CHURN), tmp_path, 27)
    assert not whole.nodes["transmitted"].all()
    assert whole.nodes["attacks"].any()


MINE = """
class Doubles:
    def send(self, honest, first, limit, round, rng):
        return honest + first

class Huge(Doubles):
    def send(self, honest, first, limit, round, rng):
        return honest + 1e300

class Nan(Doubles):
    def send(self, honest, first, limit, round, rng):
        return honest * float("nan")

class Counts(Doubles):
    def __init__(self):
        self.calls = 0
    def send(self, honest, first, limit, round, rng):
        self.calls += 1
        return honest

class Short(Doubles):
    def send(self, honest, first, limit, round, rng):
        return honest[0]

class Writes(Doubles):
    def send(self, honest, first, limit, round, rng):
        honest *= -1
        return honest
"""
WRONG = {
    "neither": ({"kind": "zero"}, r"faults.byzantine.nodes and share: neither is given; set one of them"),
    "both": ({"kind": "zero", "nodes": [0], "share": 0.1}, "both are given; set one of them"),
    "share": ({"kind": "zero", "share": 1.0}, r"faults.byzantine.share is 1.0; must be >= 0 and < 1"),
    "no such node": ({"kind": "zero", "nodes": [4]}, "must be a list of node numbers from 0 to 3"),
    "no list": ({"kind": "zero", "nodes": 2}, "nodes is 2; must be a list"),
    "twice": ({"kind": "zero", "nodes": [1, 1]}, "nodes names a node twice: leave one out"),
    "all": ({"kind": "zero", "nodes": [0, 1, 2, 3]}, "names every node, so nobody is honest: leave one out"),
    "round": ({"kind": "zero", "nodes": [1], "from_round": 0}, "from_round is 0; must be an integer >= 1"),
    "kind": ({"kind": "zeros", "nodes": [1]}, 'faults.byzantine.kind is "zeros"; no such kind; did you mean zero'),
    "factor": ({"kind": "noise", "nodes": [1], "factor": 2.0}, "faults.byzantine.factor is 2.0; must be <= 1"),
    "key": ({"kind": "zero", "nodes": [1], "force": 2.0}, "unknown key faults.byzantine.force"),
    "memory": ({"kind": "mine.py:Counts", "nodes": [1]}, "remembers in self, which a resumed run would not have"),
    "shape": ({"kind": "mine.py:Short", "nodes": [1]}, r"returned shape \(7850,\), expected \(1, 7850\), one payload"),
    "nan": ({"kind": "mine.py:Nan", "nodes": [1]}, "returned nan, expected finite numbers"),
    "read-only": ({"kind": "mine.py:Writes", "nodes": [1]}, "must not change; copy them first"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_one_line(case, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    given, words = WRONG[case]
    with pytest.raises(WirelessdlError, match=words) as caught:
        Watched(tiny_table(faults={"byzantine": given}), folder=str(tmp_path)).run()
    assert len(str(caught.value).splitlines()) == 1


def test_where_nothing_is_sent_nobody_attacks():
    silent = tiny_table(network={"nodes": 4, "topology": "none"}, faults={"byzantine": {"kind": "zero", "share": 0.2}})
    with pytest.raises(
        WirelessdlError, match='is "zero" where nothing is sent, so nobody can attack: set it to "none"'
    ):
        build(parse_scenario(silent), device="cpu")


def test_an_attack_of_a_user_runs_and_larger_shares_hold_smaller_ones(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    table = tiny_table(network={"nodes": 10}, faults={"byzantine": {"kind": "mine.py:Doubles", "share": 0.2}})
    run = Watched(table, folder=str(tmp_path)).run()
    assert run.decisions[-1].attackers.sum() == 2
    few, many = (
        build(tiny(network={"nodes": 10}, faults={"byzantine": {"kind": "zero", "share": share}}), device="cpu")
        for share in (0.2, 0.5)
    )
    few, many = (set(world.learning.settings.attackers.nodes.tolist()) for world in (few, many))
    assert len(few) == 2
    assert len(many) == 5
    assert few < many


@pytest.mark.parametrize("access", ["all", "tdma", "hubs"])
def test_numbers_whose_squares_overflow_take_all_the_power_there_is(access, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    table = scenario(access, faults={"byzantine": {"kind": "mine.py:Huge", "nodes": [1, 4]}}).to_table()
    watched, sent = Watched(table, folder=str(tmp_path)), []
    attack = watched.world.learning.exchange.attack
    replace_ = attack.replace_

    def noted(given, round, step, payload):
        replace_(given, round, step, payload)
        sent.append((payload[given.nodes].numpy(), given.limit))

    attack.replace_ = noted
    watched.run()
    for payload, limit in sent:
        assert (payload > 0).all()
        np.testing.assert_allclose(np.square(payload).mean(axis=1), limit, rtol=1e-6)
    assert sent


def test_more_attackers_than_the_coalition_are_warned_of():
    more = {"privacy": {"noise": "pairwise", "coalition": 1, "pair_ratio": 1.4}, "power": {"objective": "own-noise"}}
    words = "faults.byzantine has 2 attackers, who may collude; epsilon is promised against privacy.coalition 1"
    for coalition, warned in ((1, True), (2, False)):
        more["privacy"]["coalition"] = coalition
        world = build(scenario("tdma", faults=attack("zero"), **more))
        assert any(words in line for line in scenario_warnings(world)) == warned
