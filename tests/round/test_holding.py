"""Hubs and turns in whole runs: what is charged is what all that was sent and shown tells; one holding per node.

The joint Gaussian of whole transcripts (`exact_transcripts`): failing hubs, nodes out of reach, crashes, late nodes.
"""

import random
from dataclasses import replace

import numpy as np
import pytest
from conftest import mostly_slow, over, tiny
from exact_transcripts import CRASH, LATE, SHARED, Transcript, toy, worst

from wirelessdl.errors import ContractError
from wirelessdl.learning.exchange import Exchange
from wirelessdl.round.engine import _require_one_release
from wirelessdl.run.build import build
from wirelessdl.run.wiring import make_engine, run_rounds

NODES, ROUNDS = 6, 5


def hubs(**sections):
    """Six nodes on Rayleigh fading, of which some are out of reach in most rounds."""
    base = {
        "scenario": {"name": "hubs", "rounds": ROUNDS},
        "network": {"placement": {"kind": "disc", "radius_m": 150}},
        "radio": {"alignment": "hubs", "truncate_snr_db": 18, "power_dbm": 23, "subslots": 1},
        "privacy": SHARED,
    }
    return tiny(**toy(**over(base, sections)))


def radio(**changes):
    return {"radio": changes}


def server(antennas=1, down=(), without="wait", **changes):
    given = {"at": "center", "antennas": antennas, "down": [list(one) for one in down], "without": without}
    return {"network": {"server": given}, **radio(alignment="server", **changes)}


TWO = {"privacy": {"coalition": 2}}
CASES = {
    "there": {},
    "two collude": TWO,
    "there and back": radio(hub_order="there-and-back"),
    "failing hubs, passes": radio(hub_failure=0.5, mixing_passes=1),
    "failing hubs, rotation, closing passes": {
        **radio(hub_failure=0.3, hub_rotation=True),
        "learning": {"closing_passes": 2},
    },
    "nodes out of reach": radio(truncate_snr_db=26),
    "nodes out of reach, failing hubs": {**radio(truncate_snr_db=24, hub_failure=0.4), **TWO},
    "pilots, phase errors, carriers apart": radio(
        csi={"kind": "pilots", "symbols": 4}, phase_error_rad=0.2, cfo_hz=[3.0, -2.0, 1.0, 0.0, 5.0, -4.0]
    ),
    "late nodes, crashes, listening": {
        **radio(hub_failure=0.2),
        "time": LATE,
        "faults": {"rejoin": "listen", "crashes": CRASH},
    },
    "late nodes, crashes, out of reach, models kept": {
        **radio(truncate_snr_db=24),
        "time": LATE,
        "faults": {"rejoin": "keep", "crashes": CRASH},
    },
    "a crash within the frame": {
        "faults": {
            "rejoin": "keep",
            "crashes": {"kind": "schedule", "events": [{"node": 5, "at_s": 0.0002, "for_s": 0.01}]},
        }
    },
    "pairs of groups": {**radio(truncate_snr_db=24), "privacy": {"pairs": {"groups": 2}}},
    "pairs of neighbours": {**radio(truncate_snr_db=24), "privacy": {"pairs": "neighbours"}},
    "four nodes": {"network": {"nodes": 4}, **radio(hub_failure=0.3, hub_order="there-and-back")},
    "five nodes, unequal powers": {
        "network": {"nodes": 5},
        **radio(truncate_snr_db=20, power_dbm=[23, 17, 26, 20, 23]),
    },
    "budgets that end": {"privacy": {"budget_total": 1.2}},
    "turns": {**radio(alignment="turns", interference="physical"), **TWO},
    "turns, passes, late nodes, crashes, listening": {
        **radio(alignment="turns", mixing_passes=1, truncate_snr_db=22),
        "time": LATE,
        "faults": {"rejoin": "listen", "crashes": CRASH},
    },
    "hubs of four antennas": radio(antennas=4, csi={"kind": "pilots", "symbols": 4}, antenna_correlation=0.5),
    "a server": server(truncate_snr_db=18),
    "a server of four antennas, nodes out of reach, failing": server(antennas=4, truncate_snr_db=20, hub_failure=0.4),
    "a server that is down, hubs stand in, late nodes, crashes": {
        **server(truncate_snr_db=20, down=[[3, 4]], without="hubs"),
        "time": LATE,
        "faults": {"rejoin": "listen", "crashes": CRASH},
    },
    "a server that is down, nodes wait": {**server(truncate_snr_db=20, down=[[2, 3]]), **TWO},
}
QUICK = (
    "failing hubs, passes",
    "nodes out of reach",
    "late nodes, crashes, listening",
    "turns, passes, late nodes, crashes, listening",
    "a server that is down, hubs stand in, late nodes, crashes",
)


@pytest.mark.parametrize("case", mostly_slow(CASES, *QUICK))
@pytest.mark.parametrize("node", [0, 3, 4])
def test_all_that_is_sent_and_shown_tells_no_more_than_the_charge(case, node):
    if node >= CASES[case].get("network", {}).get("nodes", NODES):
        pytest.skip("no such node")
    scenario = hubs(**CASES[case])
    size = scenario.privacy.coalition
    # with every w, whether or not it was sent by itself: the charge bounds that too
    for hears_w in (False, True):
        transcript = Transcript(scenario, node, hears_w=hears_w)
        charged, own = transcript.charged(), transcript.charged("own")
        for colluding in range(size + 1):
            assert worst(transcript, colluding) <= charged * (1 + 1e-6)
        everyone = [k for k in range(transcript.world.nodes) if k != node]
        assert transcript.mu(everyone) <= own * (1 + 1e-6)
    if charged:
        assert transcript.mu(everyone) == pytest.approx(own, rel=1e-6)  # and no more than it must be
        assert worst(transcript, size) >= 0.8 * charged


def random_sections(chance):
    """Crashes at any time, late nodes, thresholds, failures, budgets: some of each."""
    nodes = chance.choice([4, 5, 6])
    events = []
    for node in range(nodes):
        now_s = 0.0
        for _ in range(chance.choice([0, 1, 2])):
            now_s += chance.uniform(5e-4, 0.06)
            events.append({"node": node, "at_s": round(now_s, 6), "for_s": round(chance.uniform(5e-4, 0.03), 6)})
            now_s += events[-1]["for_s"] + 1e-4
    sections = {
        "scenario": {"seed": chance.randrange(1000)},
        "network": {"nodes": nodes, "topology": chance.choice(["full", "ring", {"kind": "erdos-renyi", "p": 0.7}])},
        "radio": {
            "truncate_snr_db": chance.choice([10, 18, 22, 24, 26]),
            "hub_failure": chance.choice([0.0, 0.3, 0.6]),
            "mixing_passes": chance.choice([0, 1]),
            "hub_order": chance.choice(["there", "there-and-back"]),
            "hub_rotation": chance.random() < 0.5,
            "interference": chance.choice(["none", "physical"]),
        },
        "privacy": {
            "coalition": chance.choice([1, 1, 2]),
            "pairs": chance.choice(["all", "all", "neighbours", {"groups": 2}]),
        },
        "learning": {"closing_passes": chance.choice([0, 2])},
        "faults": {"rejoin": chance.choice(["listen", "keep"])},
    }
    if events:
        sections["faults"]["crashes"] = {"kind": "schedule", "events": events}
    if chance.random() < 0.5:
        sections["radio"]["csi"] = {"kind": "pilots", "symbols": chance.choice([1, 4])}
    if chance.random() < 0.3:
        sections["privacy"]["budget_total"] = chance.choice([0.8, 1.2, 1.6])
    if chance.random() < 0.6:
        late = {"kind": "constant", "seconds": [0.01] * (nodes - 2) + [0.025, 0.01]}
        policy = chance.choice([{"kind": "deadline", "cap_s": 0.012}, {"kind": "clocked", "period_s": 0.05}])
        sections["time"] = {"compute": late, "policy": policy}
    return sections


@pytest.mark.parametrize("first", mostly_slow(range(0, 60, 10), 0))
def test_random_runs_tell_no_more_than_their_charge(first):
    for seed in range(first, first + 10):
        chance = random.Random(seed)
        scenario = hubs(**random_sections(chance))
        transcript = Transcript(scenario, chance.randrange(scenario.network.nodes), hears_w=True)
        everyone = [k for k in range(transcript.world.nodes) if k != transcript.node]
        assert worst(transcript, scenario.privacy.coalition) <= transcript.charged() * (1 + 1e-6)
        assert transcript.mu(everyone) <= transcript.charged("own") * (1 + 1e-6)


def test_cases_have_what_they_are_for():
    """Hubs fail, nodes are out of reach with a step pending and send it later, listeners hear, late nodes stay away."""
    seen = Transcript(hubs(**CASES["failing hubs, passes"]), 0)
    failed = [not step.ratio.any() for given in seen.given for step in given.announced]
    assert 0 < sum(failed) < len(failed)
    seen = Transcript(hubs(**CASES["nodes out of reach"]), 0)
    away = np.array([one.air.uncovered for one in seen.decisions])
    assert away[1:].any(axis=0).sum() >= 2
    assert (away[:-1] & ~away[1:]).any()
    seen = Transcript(hubs(**CASES["late nodes, crashes, listening"]), 0)
    assert any((one.participation.listening & one.weights.heard).any() for one in seen.decisions)
    assert any((one.participation.up & ~one.participation.ready).any() for one in seen.decisions)
    seen = Transcript(hubs(**CASES["a crash within the frame"]), 0)
    assert any(((given.update.step == 0) & one.on_air).any() for one, given in zip(seen.decisions, seen.given))
    seen = Transcript(hubs(**CASES["budgets that end"]), 0)
    assert not seen.decisions[-1].on_air.any()


MISTAKES = {
    "hub adds x": radio(hub_order="there-and-back"),
    "uncovered node sends x": radio(truncate_snr_db=24),
    "fresh noise after a failure": radio(hub_failure=0.5, mixing_passes=1),
    "uncovered node sends x to the server": server(truncate_snr_db=20),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_seen(mistake):
    scenario = hubs(**MISTAKES[mistake])
    found = [Transcript(scenario, node, mistake.removesuffix(" to the server")) for node in range(NODES)]
    over = [worst(transcript, 1) / transcript.charged() for transcript in found if transcript.charged()]
    assert max(over) > (1.1 if mistake == "fresh noise after a failure" else 10.0)


# --- one holding per node


class Held:
    """A run, round by round: what was decided, what nodes held before and after, and what they put on air."""

    def __init__(self, scenario, monkeypatch):
        self.world = build(scenario, device="cpu")
        self.engine, learning = make_engine(self.world), self.world.learning
        self.rounds, self.decisions, self.payloads, self.w = [], [], [], []
        announced, payload, inner = Exchange.announce, Exchange.payload, learning.round

        def announce(exchange, step, held, noise, before=None):
            self.payloads[-1].append((step, held.clone()))
            return announced(exchange, step, held, noise, before)

        def sent(exchange, given, draws, model, out, into):
            found = payload(exchange, given, draws, model, out, into)
            self.w.append(out.clone())
            return found

        def watched(given):
            before = (learning.held.clone(), learning.x, learning._step.clone())
            self.payloads.append([])
            result = inner(given)
            self.rounds.append((given, before, (learning.held.clone(), learning.x, learning._step.clone()), result))
            return result

        monkeypatch.setattr(Exchange, "announce", announce)
        monkeypatch.setattr(Exchange, "payload", sent)
        learning.round = watched
        self.pending = []
        self.engine.trace.connect("learning.update", self._decided)
        run_rounds(self.world, self.engine)

    def _decided(self, event):
        self.decisions.append(event.decision)
        self.pending.append(self.engine.stages.pending.gamma)


HELD = {
    "out of reach": radio(truncate_snr_db=24),
    "out of reach, failing hubs, passes": radio(truncate_snr_db=22, hub_failure=0.4, mixing_passes=2),
    "late and out of reach, crashes, listening": {
        **radio(truncate_snr_db=22, hub_order="there-and-back"),
        "time": LATE,
        "faults": {"rejoin": "listen", "crashes": CRASH},
    },
    "budgets that end": {"privacy": {"budget_total": 1.2}},
}


@pytest.mark.parametrize("case", HELD)
def test_every_node_has_one_holding(case, monkeypatch):
    seen = Held(hubs(**HELD[case]), monkeypatch)
    away = np.zeros(NODES, dtype=int)
    for number, (given, before, after, _) in enumerate(seen.rounds):
        one, payloads = seen.decisions[number], seen.payloads[number]
        keeps = one.absent
        away += keeps
        for old, new in zip(before, after):  # s, x and what is pending, bit for bit
            np.testing.assert_array_equal(new[keeps], old[keeps])
        if number and keeps.any():
            withdrawn = given.update.withdraw
            np.testing.assert_array_equal(
                seen.pending[number][keeps & ~withdrawn], seen.pending[number - 1][keeps & ~withdrawn]
            )
        assert not one.release.own_mu[~one.on_air].any()
        assert (given.update.step[~one.on_air] == 0).all()
        took = np.zeros(NODES, dtype=bool)
        for step, held in payloads:
            assert one.on_air[step.tx].all()  # nobody sends that is not charged
            assert not keeps[step.rx].any()
            assert (step.own[step.rx][~one.on_air[step.rx]] == 0).all()  # a listener's model is in no sum
            fresh = one.on_air & ~took
            np.testing.assert_array_equal(held[fresh], seen.w[number][fresh])  # w, until something was received
            if step.ratio.any():
                took[step.rx] = True
        alone = one.on_air & ~took
        np.testing.assert_array_equal(after[0][alone], seen.w[number][alone])  # s = w, never x
        if payloads:
            assert (after[0][one.on_air] != before[1][one.on_air]).any(axis=1).all()
    assert away.any() or case == "budgets that end"


def test_a_gradient_that_waited_out_of_reach_is_charged_with_its_own_learning_rate(monkeypatch):
    seen = Held(hubs(**radio(truncate_snr_db=26)), monkeypatch)
    waited = 0
    for number in range(2, ROUNDS):
        back = seen.decisions[number].on_air & seen.decisions[number - 1].air.uncovered
        stepped = [given.update.step > 0 for given, *_ in seen.rounds[:number]]
        for node in np.flatnonzero(back).tolist():
            last = max((n for n in range(number) if stepped[n][node]), default=None)
            if last is None:
                continue
            waited += 1
            release = seen.decisions[number].release
            assert release.gamma[node] == seen.decisions[last].learning_rate
            assert seen.decisions[number].sigma[node] == release.gamma[node]  # rho is 1
            assert release.own_mu[node] > 0
    assert waited


def test_no_link_is_left_out_below_any_threshold_and_nothing_is_broken(monkeypatch):
    seen = Held(hubs(**radio(truncate_snr_db=float("-inf"))), monkeypatch)
    for _, _, (held, *_), result in seen.rounds:
        assert held.isfinite().all()
        assert (result.radiated_w.numpy() > 0).all()
    assert all(one.on_air.all() for one in seen.decisions)


FADED = {
    "network": {"topology": {"kind": "erdos-renyi", "p": 0.9}},
    "faults": {"blockage": {"kind": "snr", "threshold_db": 25.0}},
}


@pytest.mark.parametrize("sections", [{"network": {"topology": "ring"}}, FADED], ids=["ring", "faded links"])
@pytest.mark.parametrize("interference", ["none", "physical"])
def test_hubs_use_links_of_the_graph_alone(interference, sections, monkeypatch):
    """Not what is heard besides, as of links that a blockage took from the graph."""
    seen = Held(hubs(**radio(interference=interference, truncate_snr_db=10), **sections), monkeypatch)
    heard_besides = 0
    for one in seen.decisions:
        links = set(zip(one.channel.links.rx.tolist(), one.channel.links.tx.tolist()))
        heard_besides += len(one.channel.heard) - len(links)
        for step in one.carried.announced:
            assert set(zip(step.rx.tolist(), step.tx.tolist())) <= links
    assert any(one.carried.announced for one in seen.decisions)
    assert (heard_besides > 0) == (interference == "physical")


@pytest.mark.parametrize("alignment", ["hubs", "turns"])
def test_fading_in_blocks_without_a_duration_holds_for_a_frame(alignment, monkeypatch):
    """Another block at every instant would leave pilots that tell nothing of what follows."""
    seen = Held(hubs(**radio(alignment=alignment, subslots=3)), monkeypatch)
    for one, after in zip(seen.decisions, seen.decisions[1:]):
        assert one.carried.announced
        for step in one.carried.announced:
            np.testing.assert_allclose(step.ratio, 1.0, atol=1e-12)
        assert not set(one.channel.gain) & set(after.channel.gain)


def test_no_payload_is_beyond_the_draws_that_a_round_has(monkeypatch):
    """Receiver noise of one more would be the noise that nodes send in the next round."""
    table = {
        **radio(truncate_snr_db=15, hub_order="there-and-back", mixing_passes=1),
        "learning": {"closing_passes": 2},
    }
    seen = Held(hubs(**table), monkeypatch)
    most = max(len(payloads) for payloads in seen.payloads)
    assert 0 < most <= seen.world.learning.settings.passes
    draws = seen.world.learning.draws
    with pytest.raises(AssertionError):
        draws.fill_normal(seen.w[0].clone(), 1, seen.world.learning.settings.passes)


def test_batteries_pay_for_the_turns_of_hubs_at_nominal_power(monkeypatch):
    """Hubs pay more, and nothing that is paid depends on models."""
    energy = {"battery_j": 5.0, "receive_w": 0.0, "compute_w": 0.0, "efficiency": 1.0}
    seen = Held(hubs(energy=energy), monkeypatch)
    left = np.array([one.participation.battery_j for one in seen.decisions])
    for number, one in enumerate(seen.decisions[:-1]):
        airtime = one.carried.airtime
        budget_w = seen.world.power_w
        paid = one.on_air * budget_w * (airtime.payload_ns + airtime.pilot_ns) / 1e9
        assert (left[number] - left[number + 1])[one.on_air] == pytest.approx(paid[one.on_air], rel=0.05)
        hub = one.carried.nodes["hub_turns"] > 0
        assert paid[hub].min() > paid[one.on_air & ~hub].max(initial=0.0)


@pytest.mark.parametrize(("tx", "own", "words"), [([5], 0.0, "lets nodes send"), ([0], 0.5, "mixes what is received")])
def test_an_access_that_sends_or_mixes_uncharged_models_is_refused(tx, own, words, monkeypatch):
    """Node 5 is not on air: what it holds is its model."""
    seen = Held(hubs(), monkeypatch)
    carried, on_air = seen.decisions[0].carried, np.arange(NODES) < 5
    last, one = carried.announced[-1], np.ones((1, 1))
    step = replace(last, rx=np.array([5]), tx=np.array(tx), aim=np.array([5]), weight=one[0], ratio=one.astype(complex))
    step = replace(step, announced=one, own=np.full(NODES, own))
    with pytest.raises(ContractError, match=words):
        _require_one_release(replace(carried, announced=(step,)), on_air)
    _require_one_release(replace(carried, announced=(replace(step, tx=np.array([0]), own=np.zeros(NODES)),)), on_air)
