"""Robust reception: rules, values and what receivers make of them, against plain loops; totals, resuming, refusals."""

import math

import numpy as np
import pytest
import torch
from conftest import tiny, tiny_table
from interrupting import assert_resumes
from slow_hubs import slow_announced
from test_byzantine import attack, scenario
from watching import Watched

import wirelessdl
from wirelessdl.errors import WirelessdlError
from wirelessdl.learning.robust import rules

RULES = {
    "power-limit": {"kind": "power-limit", "factor": 0.6},
    "median": {"kind": "median"},
    "trimmed-mean": {"kind": "trimmed-mean", "share": 0.3},
}


def slow_rule(part, values, weight, limit):
    """values: list of [m]."""
    count, size = len(values), len(values[0])
    if part["kind"] == "power-limit":
        share = []
        for v, most in zip(values, limit):
            rms = math.sqrt(sum(one * one for one in v) / size)
            share.append(min(1.0, part["factor"] * math.sqrt(most) / rms) if rms else 1.0)
        return [sum(w * s * v[c] for w, s, v in zip(weight, share, values)) / sum(weight) for c in range(size)]
    found = []
    for c in range(size):
        ordered = sorted(v[c] for v in values)
        if part["kind"] == "median":
            middle = ordered[count // 2] if count % 2 else (ordered[count // 2 - 1] + ordered[count // 2]) / 2
        else:
            left = math.floor(part["share"] * count + 1e-9)
            kept = ordered[left : count - left]
            middle = sum(kept) / len(kept)
        found.append(middle)
    return found


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 10])
def test_rules_equal_the_loops(kind, count):
    rng = np.random.default_rng(count)
    values, weight, limit = rng.normal(size=(count, 5)), rng.uniform(0.1, 1, count), rng.uniform(0.1, 2, count)
    parameters = {key: value for key, value in RULES[kind].items() if key != "kind"}
    rule = rules()[kind](**parameters)
    found = rule.combine(*(torch.as_tensor(part) for part in (values, weight, limit)))
    np.testing.assert_allclose(found.numpy(), slow_rule(RULES[kind], values.tolist(), weight, limit), rtol=1e-12)


def test_the_rule_that_takes_nothing_apart_is_the_mean():
    values, weight = torch.randn(4, 3, dtype=torch.float64), torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    found = rules()["none"]().combine(values, weight, weight)
    np.testing.assert_allclose(found, (weight / weight.sum()) @ values, rtol=1e-12)


AIR = {
    "all": {},
    "half duplex": {"radio": {"duplex": "half"}},
    "phases, pilots, strangers, slots": {
        "radio": {
            "interference": "physical",
            "phase_error_rad": 0.3,
            "payload_slots": 2,
            "csi": {"kind": "pilots", "symbols": 4},
        },
    },
    "tdma": {"radio": {"access": "tdma", "csi": {"kind": "pilots", "symbols": 4}, "payload_slots": 2}},
    "tdma, strangers": {
        "radio": {"access": "tdma", "interference": "physical"},
        "network": {"topology": {"kind": "ring"}, "nodes": 6},
    },
    "digital": {"radio": {"access": "digital"}},
}


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("air", AIR)
def test_what_receivers_make_of_their_values_equals_the_loops(air, kind):
    """From gains, estimates, phases and powers of each link; draws are the engine's. With crashes and listeners."""
    given = AIR[air]
    single = given.get("radio", {}).get("access", "oac") != "oac"
    part = RULES[kind] if single or kind == "power-limit" else {**RULES[kind], "groups": 3}
    table = scenario("all").to_table()
    table["learning"]["robust"] = part
    table["radio"].update(given.get("radio", {}))
    table["network"].update(given.get("network", {}))
    table["faults"].update(
        attack("sign-flip"), crashes={"kind": "exponential", "up_s": 0.03, "down_s": 0.01}, rejoin="listen"
    )
    watched, sent = Watched(table), []
    learning = watched.world.learning
    superpose = learning.exchange.air.superpose

    def noted(segments, w, out):
        sent.append(w.clone().numpy())
        superpose(segments, w, out)

    learning.exchange.air.superpose = noted
    held, round_ = [], learning.round

    def watched_round(given):
        inputs.append(given)
        result = round_(given)
        held.append(learning.held.clone().numpy())
        return result

    inputs = []
    learning.round = watched_round
    watched.run()
    listened = False
    for decision, given, w, after in zip(watched.decisions, inputs, sent, held):
        expected = slow_values(watched.world, decision, given, w, part)
        took = ~decision.absent
        np.testing.assert_allclose(after[took], np.array(expected)[took], rtol=1e-9, atol=1e-12)
        listened = listened or bool(decision.participation.listening.any())
    assert len(held) == 5


def slow_values(world, decision, given, w, part):
    K, size = world.nodes, w.shape[1]
    channel, plan, turn = decision.channel, decision.plan, decision.turn
    amplitude = [math.sqrt(plan.alpha[j] * decision.budget_w[j]) for j in range(K)]
    coded, tdma = world.access.coded, world.access.orthogonal
    J = np.zeros_like(w)
    J[:, 0 : size // 2 * 2 : 2], J[:, 1::2] = -w[:, 1::2], w[:, 0 : size // 2 * 2 : 2]
    found = [[0.0] * size for _ in range(K)]
    blocks = decision.weights.slots
    for number, (segment, slot) in enumerate(zip(given.segments, blocks)):
        air = channel.slots[number]
        columns = range(size)[segment.coordinates]
        known = slot.known
        weights = {(int(i), int(j)): value for i, j, value in zip(known.links.rx, known.links.tx, known.link) if value}
        estimates = dict(zip(zip(channel.heard.rx.tolist(), channel.heard.tx.tolist()), air.gain_est))
        gains = dict(zip(zip(channel.heard.rx.tolist(), channel.heard.tx.tolist()), air.gain))
        phase = np.zeros(len(channel.heard)) if air.phase_rad is None else air.phase_rad
        phases = dict(zip(zip(channel.heard.rx.tolist(), channel.heard.tx.tolist()), phase))
        for i in range(K):
            values, total, limit = [], [], []
            turns = sorted({int(turn[j]) for r, j in weights if r == i})
            for rank, t in enumerate(turns):
                mine = [j for r, j in weights if r == i and turn[j] == t]
                weight = sum(weights[i, j] for j in mine)
                if tdma:
                    (one,) = mine
                    divisor = estimates[i, one] * amplitude[one]
                else:
                    every = [j for r, j in weights if r == i]
                    share = sum(weights[i, j] for j in every)
                    divisor = sum(estimates[i, j] * amplitude[j] for j in every) * weight / share
                drawn = torch.empty(1, size, dtype=torch.float64)
                world.learning.draws.fill_normal(drawn, given.round, 0, [rank * K + i])
                deviation = 0.0 if coded else math.sqrt(world.thermal_w) / divisor
                most = world.learning.settings.projection_radius**2 + deviation**2
                value = deviation * drawn[0, segment.coordinates].numpy()
                for j in [j for r, j in gains if r == i and turn[j] == t]:
                    a = gains[i, j] * amplitude[j] / divisor
                    if coded:
                        a = 1.0 if j in mine else 0.0
                    value = value + a * (
                        math.cos(phases[i, j]) * w[j][columns] + math.sin(phases[i, j]) * J[j][columns]
                    )
                    most += a**2 * given.noise_scale[j] ** 2
                values.append(value.tolist())
                total.append(weight)
                limit.append(most)
            got = slow_rule(part, values, total, limit) if values else [0.0] * len(columns)
            for place, c in enumerate(columns):
                found[i][c] = (1 - sum(total)) * w[i][c] + sum(total) * got[place]
    return found


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("access", ["hubs", "server"])
def test_what_hubs_make_of_groups_equals_the_loops(access, kind):
    part = {**RULES[kind], "groups": 3}
    watched = Watched(scenario(access, learning={"robust": part}, faults=attack("sign-flip")).to_table())
    exchange = watched.world.learning.exchange
    announce, payloads, noise_of = exchange.announce, [], []

    def noted(step, held, noise, sent=None):
        payload, before = (held if sent is None else sent).clone(), held.clone()
        found = announce(step, held, noise, sent)
        payloads.append((step, before.numpy(), payload.numpy(), noise.numpy()))
        return found

    exchange.announce = noted
    round_, ends = watched.world.learning.round, []

    def rounds(given):
        noise_of.append(given.noise_scale)
        result = round_(given)
        ends.append((len(payloads), watched.world.learning.held.clone().numpy()))
        return result

    watched.world.learning.round = rounds
    watched.run()
    first, combined = 0, 0
    for noise_scale, (last, final) in zip(noise_of, ends):
        some = payloads[first:last]
        holders = len(some[0][1])
        noise = [*(value**2 for value in noise_scale), *[0.0] * (holders - len(noise_scale))]
        carried = [[float(a == b) for b in range(holders)] for a in range(holders)]
        for number, (step, before, payload, drawn) in enumerate(some):
            after = some[number + 1][1] if number + 1 < len(some) else final
            if step.value is None:
                for i in step.rx.tolist() if step.needed is None else []:
                    carried[i] = list(carried[int(step.tx[0])])
                continue
            hub = int(step.rx[0])
            if step.value.opens:
                values, shares = [], []
            values.append(slow_announced(step, payload.tolist(), drawn.tolist())[0][hub])
            shares.append([sum(carried[j][k] for j in step.tx.tolist()) / len(step.tx) for k in range(holders)])
            if not step.value.closes:
                np.testing.assert_array_equal(after[hub], before[hub])
                continue
            limit = [0.25 + sum(share[k] ** 2 * noise[k] for k in range(holders)) for share in shares]
            got, own = slow_rule(part, values, [1.0] * len(values), limit), step.value.own
            mixed = [own * x + (1 - own) * y for x, y in zip(before[hub], got)]
            if hub < len(after):
                np.testing.assert_allclose(after[hub], mixed, rtol=1e-9, atol=1e-12)
            mean = [sum(share[k] for share in shares) / len(shares) for k in range(holders)]
            carried[hub] = [own * x + (1 - own) * y for x, y in zip(carried[hub], mean)]
            combined += len(values)
        first = last
    assert combined >= 12


STILL = {"models": [{"model": "log-distance", "exponent": 3.0}]}


def test_a_message_counts_where_pilots_gave_a_gain_of_zero():
    """Estimates of weak links are 0 half of the time; what arrives is decoded all the same, and has no noise."""
    radio = {"access": "digital", "csi": {"kind": "pilots", "symbols": 1}, "power_dbm": -12, "thermal_noise": True}
    given = tiny(
        scenario={"rounds": 6},
        network={"nodes": 5, "placement": {"kind": "disc", "radius_m": 150}},
        channel={"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        radio={**radio, "rate_bps_hz": 0.05, "attempts": 8},
        power={"objective": "own-noise"},
        learning={"robust": {"kind": "median"}},
    )
    found = wirelessdl.simulate(given, out=None)
    assert len(found.links.query("gain_est == 0 and decoded_in > 0"))
    assert np.isfinite(found.nodes["grad_norm"]).all()
    assert np.isfinite(found.rounds["consensus_distance"]).all()


@pytest.mark.parametrize("access", ["all", "tdma", "digital", "hubs", "server"])
def test_totals_stay_and_airtime_is_paid(access, tmp_path):
    part = {"kind": "median"} if access in ("tdma", "digital") else {"kind": "median", "groups": 3}
    plain, robust = (
        # a channel that holds still: a longer frame meets the same gains
        wirelessdl.simulate(scenario(access, learning=given, channel=STILL), out=tmp_path, device="cpu")
        for given in ({}, {"robust": part})
    )
    assert plain.nodes["epsilon_own_total"].equals(robust.nodes["epsilon_own_total"])
    assert not plain.nodes["accuracy"].equals(robust.nodes["accuracy"])
    longer = robust.summary["airtime_s"] > 1.2 * plain.summary["airtime_s"]
    assert longer == (access in ("all", "hubs", "server"))
    assert wirelessdl.open_run(robust.path).summary["violations"] == 0


@pytest.mark.parametrize("access", ["all", "hubs"])
def test_a_robust_run_with_attackers_and_churn_resumes_bit_for_bit(access, tmp_path):
    given = scenario(
        access,
        scenario={"rounds": 50},
        learning={"robust": {"kind": "trimmed-mean", "groups": 4}},
        faults={**attack("noise"), "crashes": {"kind": "exponential", "up_s": 0.05, "down_s": 0.02}},
        trace={"checkpoint_every": 20, "flush_every": 20},
    )
    assert_resumes(given, tmp_path, 27)


def test_a_median_holds_against_an_attacker_that_a_mean_follows():
    far = {}
    for robust in ("none", "median", "power-limit"):
        sc = tiny(
            scenario={"rounds": 6},
            network={"nodes": 8},
            radio={"access": "tdma"},
            power={"objective": "own-noise"},
            privacy={"epsilon_max": float("inf")},
            learning={"robust": robust},
            faults={"byzantine": {"kind": "noise", "nodes": [3]}},
        )
        run = Watched(sc.to_table()).run()
        far[robust] = float(np.linalg.norm(run.world.learning.held.numpy()[:3]))
    assert far["median"] < 0.5 * far["none"]
    assert far["power-limit"] < far["none"]


MINE = """
class First:
    def combine(self, values, weight, limit):
        return values[0]

class Short(First):
    def combine(self, values, weight, limit):
        return values[0][:3]

class Array(First):
    def combine(self, values, weight, limit):
        return values[0].numpy()

class Complex(First):
    def combine(self, values, weight, limit):
        return values[0] * 1j

class Nan(First):
    def combine(self, values, weight, limit):
        return values[0] * float("nan")

class Counts(First):
    def __init__(self):
        self.calls = 0
    def combine(self, values, weight, limit):
        self.calls += 1
        return values[0]
"""
WRONG = {
    "turns": ({"radio": {"alignment": "turns"}}, "median", 'with radio.alignment "turns"; nothing there has several'),
    "one sum": ({}, "median", "groups = 1; fewer than three values have no order to trust: set groups = 3 or more"),
    "groups of messages": (
        {"radio": {"access": "tdma"}},
        {"kind": "median", "groups": 3},
        "each sender is a value there",
    ),
    "passes": ({"radio": {"mixing_passes": 2}}, "power-limit", "mixing or closing passes"),
    "clocks": ({"radio": {"cfo_hz": [0.0, 1.0, 2.0, 3.0]}}, "power-limit", "clocks or carriers apart"),
    "cancellation": ({"radio": {"cancellation_db": 90.0}}, "power-limit", "a finite radio.cancellation_db"),
    "objective": (
        {"power": {"objective": "sum"}},
        {"kind": "power-limit", "groups": 2},
        "other groups' noise hides nobody",
    ),
    "groups": (
        {},
        {"kind": "power-limit", "groups": 0},
        "learning.robust.groups is 0; must be an integer from 1 to 64",
    ),
    "share": ({"radio": {"access": "tdma"}}, {"kind": "trimmed-mean", "share": 0.5}, "share is 0.5; must be < 0.5"),
    "kind": ({"radio": {"access": "tdma"}}, "mean", "no such kind; did you mean median"),
    "shape": ({"radio": {"access": "tdma"}}, "mine.py:Short", r"returned shape \(3,\), expected \(7850,\), one number"),
    "complex": ({"radio": {"access": "tdma"}}, "mine.py:Complex", r"returned complex64, .*: return abs\(...\)"),
    "nan": ({"radio": {"access": "tdma"}}, "mine.py:Nan", "returned nan, expected finite numbers"),
    "memory": (
        {"radio": {"access": "tdma"}},
        "mine.py:Counts",
        "remembers in self, which a resumed run would not have",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_one_line(case, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    sections, robust, words = WRONG[case]
    table = tiny_table(**{"power": {"objective": "own-noise"}, **sections, "learning": {"robust": robust}})
    with pytest.raises(WirelessdlError, match=words) as caught:
        Watched(table, folder=str(tmp_path)).run()
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["First", "Array"])
def test_a_rule_of_a_user_runs(name, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    part = {"kind": f"mine.py:{name}", "groups": 2}
    table = tiny_table(power={"objective": "own-noise"}, learning={"robust": part})
    assert len(Watched(table, folder=str(tmp_path)).run().decisions) == 2
