"""What the ledger charges under pairwise-cancelling noise is what all that is sent tells, no more and no less.

The joint Gaussian of whole runs (`exact_transcripts`): mixing passes, late nodes, crashes, listeners, silence.
"""

import exact_transcripts
import numpy as np
import pytest
from conftest import over, tiny
from exact_transcripts import CRASH, LATE, SHARED, Transcript, worst

from wirelessdl.gaussian import analytic_epsilon, slot_mu

NODES = 6
STAY = (0, 1, 2, 3)  # on air in every frame; node 4 is late every other time, node 5 crashes and listens


def toy(**sections):
    base = {
        "radio": {"mixing_passes": 2, "payload_slots": 1},
        "power": {"schedule": "adaptive"},
        "privacy": privacy(),
        "time": LATE,
        "faults": {"rejoin": "listen", "crashes": CRASH},
    }
    return tiny(**exact_transcripts.toy(**over(base, sections)))


def privacy(**changes):
    return {**SHARED, "coalition": 2, **changes}


@pytest.mark.parametrize("node", [0, 4, 5])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_charge_is_exact_with_all_pairs(node, size):
    transcript = Transcript(toy(privacy=privacy(coalition=size)), node)
    on_air = np.array([one.on_air for one in transcript.decisions])
    assert on_air[:, STAY].all()
    assert not on_air[:, 4].all()
    assert not on_air[:, 5].all()
    assert any(one.participation.listening[5] for one in transcript.decisions)
    charged = transcript.charged()
    # 1e-6: least squares of about a hundred numbers
    assert worst(transcript, size) == pytest.approx(charged, rel=1e-6)
    assert worst(transcript, size, STAY) == pytest.approx(charged, rel=1e-6)
    everyone = [k for k in range(NODES) if k != node]
    assert transcript.mu(everyone) == pytest.approx(transcript.charged("own"), rel=1e-6)
    assert transcript.mu(()) < 0.95 * charged  # who knows nothing of the noise learns less
    ledger = transcript.engine.stages.ledger
    delta = transcript.world.terms.delta
    for totals, mu in ((ledger.coalition, charged), (ledger.own, transcript.charged("own"))):
        assert totals.total()[node] == pytest.approx(float(analytic_epsilon(mu, delta)), rel=1e-9)


def test_one_more_colluding_node_than_promised_learns_more():
    transcript = Transcript(toy(), 0)
    assert worst(transcript, 3) > 1.15 * transcript.charged()


@pytest.mark.parametrize("mistake", ["own term without noise", "x in a pass", "pair noise reused"])
def test_mistakes_are_seen(mistake):
    transcript = Transcript(toy(), 0, mistake)
    assert worst(transcript, 2) > 1.01 * transcript.charged()


PAIRS = {
    "two groups": privacy(pairs={"groups": 2}, coalition=1),
    "neighbours": privacy(pairs="neighbours", coalition=1),
    "neighbours, two collude": privacy(pairs="neighbours"),
    "optimised": privacy(pairs="optimised", coalition=1),
    "promised to everyone": privacy(against="everyone"),
}


@pytest.mark.parametrize("case", PAIRS)
@pytest.mark.parametrize("node", [0, 5])
def test_the_charge_is_enough_with_other_pairs(case, node):
    ring = {"nodes": NODES, "topology": {"kind": "erdos-renyi", "p": 0.6}}
    transcript = Transcript(toy(privacy=PAIRS[case], network=ring), node)
    size = PAIRS[case]["coalition"]
    found, charged, own = worst(transcript, size), transcript.charged(), transcript.charged("own")
    assert found <= charged * (1 + 1e-6)
    assert found == pytest.approx(charged, rel=0.2)  # and no more than it must be
    assert charged <= own * (1 + 1e-12)
    assert worst(transcript, NODES - 1) == pytest.approx(own, rel=1e-6)
    if case == "two groups":
        assert worst(transcript, size) == pytest.approx(charged, rel=1e-6)


RADIOS = {
    "plain passes": {"radio": {"mixing": "plain"}},
    "no passes": {"radio": {"mixing_passes": 0}},
    "closing passes": {"learning": {"closing_passes": 3}},
    "half duplex": {"radio": {"duplex": "half"}},
    "one at a time": {"radio": {"access": "tdma"}},
    "clocked": {"time": {**LATE, "policy": {"kind": "clocked", "period_s": 0.04}}},
    "static plan, full power": {"radio": {"use_full_power": True}, "power": {"schedule": "static"}},
    "partial balancing": {"power": {"balance": "partial", "balance_exponent": 0.5}},
    "models kept after a crash": {"faults": {"rejoin": "keep"}},
    "pilots and phase errors": {"radio": {"csi": {"kind": "pilots", "symbols": 4}, "phase_error_rad": 0.2}},
    "everyone hears everyone": {
        "radio": {"interference": "physical"},
        "network": {"nodes": NODES, "topology": {"kind": "erdos-renyi", "p": 0.6}},
    },
    "nobody aligns": {"radio": {"alignment": "none", "antennas": 4, "csi": {"kind": "pilots", "symbols": 4}}},
    "nobody aligns, one antenna, half duplex": {"radio": {"alignment": "none", "duplex": "half"}},
    "a listener that hears nobody": {
        "faults": {
            "blockage": {"kind": "schedule", "events": [{"rx": 5, "tx": k, "from_s": 0.05} for k in range(5)]},
        }
    },
    "a crash within the frame": {
        "faults": {"crashes": {"kind": "schedule", "events": [{"node": 5, "at_s": 0.03, "for_s": 0.01}]}}
    },
    "a node that nobody hears": {
        "faults": {
            "blockage": {"kind": "schedule", "events": [{"rx": k, "tx": 0, "from_s": 0.04} for k in range(1, 6)]},
        }
    },
}


UNEVEN = {
    "reports that get lost": {"radio": {"control_failure": 0.3}},
    "unequal powers and clients": {
        "radio": {"power_dbm": [30, 10, 23, 17, 20, 26]},
        "learning": {"partition": {"kind": "dirichlet", "concentration": 0.3}},
    },
    "groups of four and three": {
        "network": {"nodes": 7, "topology": {"kind": "full"}},
        "privacy": privacy(pairs={"groups": 2}, coalition=1),
        "time": {**LATE, "compute": {"kind": "constant", "seconds": [0.01, 0.01, 0.025, 0.01, 0.025, 0.01, 0.01]}},
    },
    "neighbours, two to five each": {
        "network": {"nodes": NODES, "topology": {"kind": "edge-list", "file": "edges.txt"}},
        "privacy": privacy(pairs="neighbours", coalition=1),
    },
    "neighbours, budgets that end": {"privacy": privacy(pairs="neighbours", coalition=1, budget_total=1.5)},
    "neighbours, half duplex": {"radio": {"duplex": "half"}, "privacy": privacy(pairs="neighbours", coalition=1)},
    "a promised total, all chosen": {
        "power": {"balance": "partial"},
        "privacy": privacy(pair_ratio="auto", epsilon_max=float("inf"), epsilon_total=1.0),
    },
    "a crash while it is late": {
        "faults": {
            "crashes": {"kind": "schedule", "events": [{"node": 4, "at_s": t, "for_s": 0.01} for t in (0.03, 0.08)]}
        }
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("case", UNEVEN)
@pytest.mark.parametrize("node", [0, 4, 5])
def test_the_charge_is_enough_where_nodes_differ(case, node, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.txt").write_text("0 1\n0 2\n0 3\n0 4\n0 5\n1 2\n2 3\n3 4\n4 5\n")
    transcript = Transcript(toy(**UNEVEN[case]), node)
    nodes, size = transcript.world.nodes, transcript.world.scenario.privacy.coalition
    charged = transcript.charged()
    assert worst(transcript, size, range(nodes)) <= charged * (1 + 1e-6)
    assert worst(transcript, size, range(nodes)) >= 0.8 * charged  # and no more than it must be
    everyone = [k for k in range(nodes) if k != node]
    assert transcript.mu(everyone) == pytest.approx(transcript.charged("own"), rel=1e-6)
    assert not np.array([one.on_air for one in transcript.decisions]).all()


@pytest.mark.parametrize("case", RADIOS)
@pytest.mark.parametrize("node", [0, 5])
def test_the_charge_is_exact_however_frames_go(case, node):
    transcript = Transcript(toy(**RADIOS[case]), node)
    assert worst(transcript, 2) == pytest.approx(transcript.charged(), rel=1e-6)
    assert transcript.mu([k for k in range(NODES) if k != node]) == pytest.approx(transcript.charged("own"), rel=1e-6)
    for one in transcript.decisions:
        partners = one.on_air.sum() - 1
        honest = max(partners - 2, 0)
        hidden = 1 + honest * 1.4**2 / (1 + 1.4**2)
        release = one.release
        np.testing.assert_allclose(
            release.coalition_mu[one.on_air], release.own_mu[one.on_air] / np.sqrt(hidden), rtol=1e-12
        )
        own = transcript.given[one.round - 1].pairs.own[one.on_air]
        shift = transcript.world.exposure.sensitivity * release.gamma * release.multiplier
        np.testing.assert_allclose(release.own_mu[one.on_air], shift[one.on_air] / own, rtol=1e-12)


def test_a_node_that_crashes_within_the_frame_stays_in_its_pairs():
    transcript = Transcript(toy(**RADIOS["a crash within the frame"]), 0)
    fell = [
        one for one, given in zip(transcript.decisions, transcript.given) if one.on_air[5] and not given.update.step[5]
    ]
    assert len(fell) == 1
    pairs = transcript.given[fell[0].round - 1].pairs
    assert {5} <= set(pairs.high[pairs.low == 0])
    assert pairs.own[5] > 0


def test_charges_follow_the_roster_that_is_left_when_budgets_end():
    """Nodes that send in every frame fall silent first; the noise of those left is made anew for their number."""
    budget = float(analytic_epsilon(3.5**0.5 * _slot_mu(), 1e-4))  # three releases, not four
    scenario = toy(
        scenario={"name": "toy", "seed": 3, "rounds": 8},
        privacy=privacy(coalition=1, budget_total=budget),
        learning={"learning_rate": {"kind": "constant", "initial": 0.05}},  # every release alike
    )
    transcripts = {node: Transcript(scenario, node) for node in (0, 4, 5)}
    on_air = np.array([one.on_air for one in transcripts[0].decisions])
    assert on_air[:4, STAY].all()
    assert not on_air[4:, STAY].any()
    assert on_air[4:, 4].any()
    assert on_air[4:, 5].any()
    for node, transcript in transcripts.items():
        assert worst(transcript, 1) <= transcript.charged() * (1 + 1e-6)
        assert transcript.mu([k for k in range(NODES) if k != node]) == pytest.approx(
            transcript.charged("own"), rel=1e-6
        )
        assert transcript.charged() <= 3.5**0.5 * _slot_mu()
        for one, given in zip(transcript.decisions, transcript.given):
            left = one.on_air
            assert given.pairs.on_air.tolist() == left.tolist()
            assert set(given.pairs.low) | set(given.pairs.high) <= set(np.flatnonzero(left))
            assert (given.pairs.own[~left] == 0).all()
            partners = left.sum() - 1
            hidden = given.pairs.own**2 * (1 + max(partners - 1, 0) * 1.4**2 / (1 + 1.4**2))
            shift = transcript.world.exposure.sensitivity * one.release.gamma * one.release.multiplier
            np.testing.assert_allclose(one.release.coalition_mu[left], (shift[left] / hidden[left] ** 0.5), rtol=1e-12)
    assert worst(transcripts[0], 1) == pytest.approx(transcripts[0].charged(), rel=1e-6)


def _slot_mu():
    """mu of a release that epsilon_max allows."""
    return float(slot_mu(1.0, 1e-4))
