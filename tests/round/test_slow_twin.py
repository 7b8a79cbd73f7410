"""The engine equals plain loops, in float64, on a directed graph with asymmetric gains, and in trouble."""

import numpy as np
import pytest
from conftest import mostly_slow, tiny_table
from slow_twin import SlowTwin

from wirelessdl.access.oac import halves
from wirelessdl.run.build import build
from wirelessdl.run.wiring import make_engine, run_rounds
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.units import to_s

DIRECTED = """
import numpy as np
from wirelessdl import Links

class Directed:
    '''0 -> 1 -> 2 -> 3 -> 4 -> 0 with two chords: strongly connected, no link answered but 0 <-> 2.'''
    def links(self, geometry, snr_db, rng):
        mask = np.zeros((5, 5), dtype=bool)
        for tx, rx in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2), (2, 0), (1, 4)]:
            mask[rx, tx] = True
        return Links.from_mask(mask, geometry)
"""

CARRIERS = [120.0, -70.0, 0.0, 35.0, -150.0]  # Hz: phases turn by up to a radian in a slot
FAR = {"nodes": 5, "placement": {"kind": "disc", "radius_m": 700.0}}  # up to four symbols
CLOCKS = [0.0, 2e-7, -1e-7, 5e-7, 1e-7]  # s: up to 0.6 of a symbol

CASES = {
    "paper as printed": {
        "privacy": {"protocol": "paper", "epsilon_max": 1.0, "clipping": "batch"},
        "power": {"balance": False, "alpha_min": 1e-6},
    },
    "hardened, receiver balancing": {"privacy": {"epsilon_max": 1.0}, "power": {"balance": "receiver"}},
    "hardened, unbalanced, thermal noise": {
        "privacy": {"epsilon_max": 0.7},
        "power": {"balance": False, "multiplier": "product"},
        "radio": {"thermal_noise": True, "bandwidth_hz": 1e14, "cancellation_db": 20.0},
    },
    "physical interference, phase errors, pilots, a frame in three slots": {
        "privacy": {"epsilon_max": 1.0},
        "power": {"balance": "receiver", "objective": "own-noise"},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "radio": {
            "interference": "physical",
            "phase_error_rad": 0.3,
            "payload_slots": 3,
            "csi": {"kind": "pilots", "symbols": 4},
            "thermal_noise": True,
        },
    },
    "carriers and timing apart, three slots, a plan from feedback": {
        "privacy": {"epsilon_max": 1.0},
        "power": {"balance": "receiver", "objective": "own-noise", "schedule": "adaptive"},
        "radio": {"cfo_hz": CARRIERS, "timing_offset_s": CLOCKS, "payload_slots": 3, "cancellation_db": 20.0},
    },
    "carriers and timing apart, strangers, phase errors, nodes mask each other": {
        "privacy": {"epsilon_max": 1.0},
        "power": {"balance": "receiver"},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "radio": {
            "interference": "physical",
            "phase_error_rad": 0.3,
            "cfo_hz": CARRIERS,
            "timing_offset_s": CLOCKS,
            "thermal_noise": True,
        },
    },
    "three subbands by two slots, pilots, phase errors, strangers": {
        "privacy": {"epsilon_max": 1.0},
        "power": {"balance": "receiver", "objective": "own-noise"},
        "channel": {"models": [{"model": "log-distance"}, {"model": "tdl", "delay_spread_s": 5e-7}]},
        "radio": {
            "subbands": 3,
            "interference": "physical",
            "phase_error_rad": 0.3,
            "payload_slots": 2,
            "csi": {"kind": "pilots", "symbols": 4},
            "thermal_noise": True,
            "cancellation_db": 60.0,
        },
    },
    "subbands under carriers and timing apart, clarke, a plan from feedback": {
        "privacy": {"epsilon_max": 1.0},
        "power": {"balance": "receiver", "objective": "own-noise", "schedule": "adaptive"},
        "channel": {
            "models": [
                {"model": "log-distance"},
                {"model": "tdl", "profile": "two-ray", "delay_spread_s": 4e-7, "process": "clarke", "speed_mps": 1.0},
            ]
        },
        "radio": {"subbands": 3, "cfo_hz": CARRIERS, "timing_offset_s": CLOCKS},
    },
    "flight time over whole symbols, clocks apart, three slots, strangers, phase errors, fading": {
        "privacy": {"epsilon_max": 1.0},
        "power": {"balance": "receiver"},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rician", "k_db": 6, "process": "clarke"}]},
        "network": FAR,
        "radio": {
            "flight_time": True,
            "timing_error_s": 2e-7,
            "timing_offset_s": CLOCKS,
            "cfo_hz": CARRIERS,
            "payload_slots": 3,
            "interference": "physical",
            "phase_error_rad": 0.3,
            "csi": {"kind": "pilots", "symbols": 4},
            "thermal_noise": True,
        },
    },
    "flight time in subbands": {
        "privacy": {"epsilon_max": 1.0},
        "power": {"balance": "receiver", "objective": "own-noise"},
        "channel": {"models": [{"model": "log-distance"}, {"model": "tdl", "delay_spread_s": 5e-7}]},
        "network": FAR,
        "radio": {"flight_time": True, "subbands": 3},
    },
    "flight time without fading": {
        "privacy": {"epsilon_max": 1.0},
        "channel": {"models": [{"model": "friis"}]},
        "network": FAR,
        "radio": {"flight_time": True},
    },
    "timing alone": {"privacy": {"epsilon_max": 1.0}, "radio": {"timing_offset_s": CLOCKS}},
    "carriers alone": {"privacy": {"epsilon_max": 1.0}, "radio": {"cfo_hz": CARRIERS}},
    "everyone moving, links by range, clarke": {
        "privacy": {"epsilon_max": 1.0},
        "power": {"balance": "receiver", "objective": "own-noise"},
        "network": {
            "nodes": 5,
            "topology": {"kind": "range", "range_m": 400.0},
            "mobility": {"kind": "random-waypoint", "speed_mps": [5.0, 9.0]},
        },
        "channel": {"models": [{"model": "log-distance"}, {"model": "rician", "process": "clarke"}]},
        "radio": {"bandwidth_hz": 4e6},
    },
    "a share of every client, each with its own sensitivity": {
        "privacy": {"epsilon_max": 1.0},
        "power": {"balance": "receiver", "objective": "own-noise"},
        "learning": {"batch_fraction": 0.2, "partition": {"kind": "dirichlet", "concentration": 0.5}},
    },
    "a share of every client, the linear program": {
        "privacy": {"epsilon_max": 1.0},
        "power": {"balance": False, "multiplier": "product", "alpha_min": 1e-6},
        "learning": {"batch_fraction": 0.2, "partition": {"kind": "dirichlet", "concentration": 0.5}},
    },
    "hardened, no privacy noise, projection at work": {
        "privacy": {"epsilon_max": float("inf")},
        "power": {"balance": "receiver"},
        "learning": {"projection_radius": 1e-3},
    },
}


NOISY = {"power_dbm": 33, "thermal_noise": True}

# nodes late, down, back and in halves: on symmetric graphs, where whoever sends and is heard is one group
TROUBLED = {
    "late nodes and crashes, balanced": {"privacy": {"epsilon_max": 1.0}, "faults": {"rejoin": "keep"}},
    "late nodes and crashes, listening": {"privacy": {"epsilon_max": 1.0}, "faults": {"rejoin": "listen"}},
    "late nodes and crashes, z": {
        "privacy": {"epsilon_max": 0.7},
        "power": {"balance": False, "multiplier": "product"},
        "faults": {"rejoin": "listen"},
    },
    "late nodes and crashes, z that gets lost": {
        "privacy": {"epsilon_max": 0.7},
        "power": {"balance": False, "multiplier": "product"},
        "radio": {"control_failure": 0.4},
        "faults": {"rejoin": "listen"},
    },
    "late nodes and crashes, paper": {
        "privacy": {"protocol": "paper", "epsilon_max": 1.0, "clipping": "batch"},
        "power": {"balance": False, "alpha_min": 1e-6},
    },
    "half duplex": {"privacy": {"epsilon_max": 1.0}, "radio": {"duplex": "half"}},
    "half duplex, carriers and timing apart": {
        "privacy": {"epsilon_max": 1.0},
        "radio": {"duplex": "half", "cfo_hz": CARRIERS, "timing_offset_s": CLOCKS},
    },
    "one at a time, carriers and timing apart": {
        "privacy": {"epsilon_max": 1.0},
        "power": {"objective": "own-noise"},
        "network": {"nodes": 7, "topology": {"kind": "ring"}},
        "channel": {"models": [{"model": "log-distance"}]},
        "radio": {
            "access": "tdma",
            "interference": "physical",
            "cfo_hz": [1000.0 * f for f in (*CARRIERS, 20.0, 90.0)],
            "timing_offset_s": [1e-3 * d for d in (*CLOCKS, 3e-7, -5e-8)],
        },
    },
    "one at a time, strangers in the same turn": {
        "privacy": {"epsilon_max": 1.0},
        "power": {"objective": "own-noise"},
        "network": {"nodes": 7, "topology": {"kind": "ring"}},
        "channel": {"models": [{"model": "log-distance"}]},
        "radio": {"access": "tdma", "interference": "physical", "thermal_noise": True, "bandwidth_hz": 1e9},
    },
    "one at a time, strangers in the same turn, subbands": {
        "privacy": {"epsilon_max": 1.0},
        "power": {"objective": "own-noise"},
        "network": {"nodes": 7, "topology": {"kind": "ring"}},
        "channel": {"models": [{"model": "log-distance"}, {"model": "tdl", "delay_spread_s": 1e-9}]},
        "radio": {
            "access": "tdma",
            "subbands": 6,
            "interference": "physical",
            "thermal_noise": True,
            "timing_offset_s": [1e-3 * d for d in (*CLOCKS, 3e-7, -5e-8)],
        },
    },
    "one at a time, weak links left out slot by slot, pilots, uneven powers": {
        "privacy": {"epsilon_max": 1.0},
        "power": {"objective": "own-noise"},
        "network": {"nodes": 6, "topology": {"kind": "full"}},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "radio": {
            "access": "tdma",
            "truncate_snr_db": 17.0,
            "power_dbm": [25.0, 28.0, 31.0, 34.0, 37.0, 40.0],
            "thermal_noise": True,
            "payload_slots": 2,
            "csi": {"kind": "pilots", "symbols": 4},
        },
        "faults": {"rejoin": "listen"},
    },
    "one at a time, jammed": {
        "privacy": {"epsilon_max": 1.0},
        "power": {"objective": "own-noise"},
        "radio": {"access": "tdma", "thermal_noise": True, "bandwidth_hz": 1e12},
        "faults": {"rejoin": "listen", "jammer": {"kind": "noise", "power_dbm": -10, "from_s": 0.01}},
    },
    "digital, fading, jammed, listening": {
        "privacy": {"epsilon_max": 1.0},
        "power": {"objective": "own-noise"},
        "network": {"nodes": 6, "topology": {"kind": "ring"}},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "radio": {"access": "digital", **NOISY, "quantizer_bits": 5, "attempts": 3},
        "faults": {"rejoin": "listen", "jammer": {"kind": "noise", "power_dbm": -75, "from_s": 0.02}},
    },
    "digital, three slots, strangers, each attempt alone": {
        "privacy": {"epsilon_max": 1.0},
        "power": {"objective": "own-noise"},
        "network": {"nodes": 7, "topology": {"kind": "ring"}},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rician", "k_db": 3.0}]},
        "radio": {
            "access": "digital",
            **NOISY,
            "interference": "physical",
            "payload_slots": 3,
            "combining": False,
            "fade_margin_db": 3.0,
            "quantizer_block": 100,
        },
    },
    "attackers with the other sign, late and down": {
        "privacy": {"epsilon_max": 1.0},
        "faults": {"byzantine": {"kind": "sign-flip", "nodes": [0, 3], "from_round": 3, "factor": 40.0}},
    },
    "attackers that replay, half duplex, thermal noise": {
        "privacy": {"epsilon_max": 1.0},
        "radio": {"duplex": "half", "thermal_noise": True},
        "faults": {"byzantine": {"kind": "replay", "share": 0.4, "from_round": 2}},
    },
    "attackers of all power, one at a time": {
        "privacy": {"epsilon_max": 1.0},
        "power": {"objective": "own-noise"},
        "radio": {"access": "tdma"},
        "faults": {"byzantine": {"kind": "noise", "nodes": [1, 2]}},
    },
    "attackers of zeros, in messages": {
        "privacy": {"epsilon_max": 1.0},
        "power": {"objective": "own-noise"},
        "network": {"nodes": 6, "topology": {"kind": "ring"}},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "radio": {"access": "digital", **NOISY, "quantizer_bits": 5, "attempts": 3},
        "faults": {"byzantine": {"kind": "zero", "nodes": [2]}},
    },
    "attackers with the other sign, in messages": {
        "privacy": {"epsilon_max": 1.0},
        "power": {"objective": "own-noise"},
        "network": {"nodes": 6, "topology": {"kind": "ring"}},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "radio": {"access": "digital", **NOISY, "quantizer_bits": 5, "attempts": 3},
        "faults": {"byzantine": {"kind": "sign-flip", "nodes": [2], "factor": 3.0}},
    },
    "digital, a fixed rate, no noise": {
        "privacy": {"epsilon_max": float("inf")},
        "power": {"objective": "own-noise"},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "radio": {"access": "digital", **NOISY, "rate_bps_hz": 3.0, "attempts": 2, "quantizer_bits": 12},
    },
}
TROUBLE = {
    "stragglers": {"kind": "random", "probability": 0.4, "factor": 3.0},
    "crashes": {"kind": "exponential", "up_s": 0.03, "down_s": 0.01},
}


# one of each: listening, z exchanged, half duplex, turns
QUICK = (
    "late nodes and crashes, listening",
    "late nodes and crashes, z that gets lost",
    "half duplex, carriers and timing apart",
    "one at a time, strangers in the same turn",
    "one at a time, weak links left out slot by slot, pilots, uneven powers",
    "digital, fading, jammed, listening",
    "digital, three slots, strangers, each attempt alone",
    "attackers with the other sign, late and down",
    "attackers that replay, half duplex, thermal noise",
    "attackers of all power, one at a time",
    "attackers with the other sign, in messages",
)


@pytest.mark.parametrize("case", mostly_slow(TROUBLED, *QUICK))
def test_engine_equals_the_loops_in_trouble(case, tmp_path):
    table = tiny_table(
        scenario={"rounds": 9, "seed": 11},
        network={"nodes": 5},
        learning={"dtype": "float64", "batch_size": 6, "eval_every": 9, "learning_rate": {"kind": "inverse-sqrt"}},
        time={"compute": {"kind": "constant", "seconds": 0.004}, "policy": {"kind": "clocked", "period_s": 0.01}},
    )
    for section, keys in TROUBLED[case].items():
        table[section] = {**table.get(section, {}), **keys}
    table["faults"] = {**TROUBLE, **table.get("faults", {})}
    if table["radio"].get("access") in ("tdma", "digital"):
        table["radio"]["bandwidth_hz"] = 1e9  # five turns within the period
    held = compare(table, tmp_path, rounds=9)
    present = np.stack([slot.participation.ready for slot in held])
    assert not present.all()
    assert any(slot.z_lost.any() for slot in held) == ("control_failure" in table["radio"])
    if table["radio"].get("access") == "digital":  # some links were repeated for, and some lost
        decoded = np.ma.concatenate([slot.carried.links["decoded_in"] for slot in held]).filled(0)
        assert {0, 1, 2} <= set(decoded.tolist())
    if "truncate_snr_db" in table["radio"]:  # of links that both ends use, one end or neither would have
        require_one_sided_links_left_out(held)
    if table["faults"].get("rejoin") == "listen":
        assert any(slot.participation.listening.any() for slot in held)


def require_one_sided_links_left_out(held):
    """Links of all kinds are there: used, too weak in both directions, and in one, where the other end gives it up."""
    seen = set()
    for slot in held:
        listens = slot.participation.listening
        for block, weights in zip(slot.channel.slots, slot.weights.slots):
            links, dense = slot.channel.links, weights.known.dense
            loud = dict(zip(links.number, block.gain_est >= slot.plan.problem.least_gain[links.tx]))
            for number, back, rx, tx in zip(links.number, links.reverse_number, links.rx, links.tx):
                if back in loud and not listens[rx]:
                    seen.add((bool(loud[number]), bool(loud[back])))
                    assert (dense[rx, tx] > 0) == (loud[number] and loud[back])
            np.testing.assert_allclose(dense[np.ix_(slot.on_air, slot.on_air)].sum(axis=0), 1.0, atol=1e-12)
            np.testing.assert_allclose(dense.sum(axis=1), 1.0, atol=1e-12)
    assert seen == {(True, True), (True, False), (False, True), (False, False)}


LONG = "three subbands by two slots, pilots, phase errors, strangers"


@pytest.mark.parametrize("case", mostly_slow(CASES, *(case for case in CASES if case != LONG)))
def test_engine_equals_the_loops(case, tmp_path):
    (tmp_path / "graph.py").write_text(DIRECTED)
    table = tiny_table(
        scenario={"rounds": 4, "seed": 11},
        network={"nodes": 5, "topology": {"kind": "graph.py:Directed"}},
        learning={"dtype": "float64", "batch_size": 6, "eval_every": 4, "learning_rate": {"kind": "inverse-sqrt"}},
    )
    for section, keys in CASES[case].items():
        table[section] = {**table.get(section, {}), **keys}
    compare(table, tmp_path, rounds=4)


def compare(table, folder, rounds):
    """Engine and twin side by side, round by round; the frames they went through."""
    scenario = parse_scenario(table, folder=str(folder))
    twin = SlowTwin(build(scenario, device="cpu"))
    world = build(scenario, device="cpu")
    engine = make_engine(world)
    opened, decisions, compared = [], [], []
    inner_open, inner_close = engine.open_frame, engine.close_frame

    def open_frame(round, now_ns, participation):
        opened.append(now_ns)
        return inner_open(round, now_ns, participation)

    def close_frame(round, now_ns, fallen):
        inner_close(round, now_ns, fallen)
        decision = engine._decision
        decisions.append(decision)
        half = scenario.radio.duplex == "half"
        classes = halves(world.nodes, world.streams.draws("radio.duplex", round)) if half else None
        if scenario.radio.access.name in ("tdma", "digital"):
            classes = decision.turn
        A, epsilon = twin.round(
            round, to_s(opened[-1]), decision.plan, decision.participation, fallen, classes, decision.z_lost
        )
        np.testing.assert_allclose(decision.weights.actual.dense, A, atol=1e-12)
        if "attempts" in decision.carried.nodes:
            assert decision.carried.nodes["attempts"].filled(0).tolist() == twin.attempts
            assert decision.frame.airtime_ns == twin.lasted_ns
        # 1e-9: sums of 600 products in another order
        np.testing.assert_allclose(world.learning.x.numpy(), np.stack(twin.x), atol=1e-9, rtol=1e-9)
        pending = engine.stages.pending
        assert [(gamma > 0, m > 0) for gamma, m in twin.pending] == list(zip(pending.gamma > 0, pending.multiplier > 0))
        np.testing.assert_allclose(pending.gamma * pending.multiplier, [g * m for g, m in twin.pending], rtol=1e-10)
        if np.isfinite(scenario.privacy.epsilon_max):
            expected = decision.channel.heard.vector(epsilon)
            within = expected <= 1.0  # beyond 1 the slot's epsilon is analytic, not Theorem 1
            np.testing.assert_allclose(decision.charged.link[within], expected[within], rtol=1e-10)
            compared.append(int(within.sum()))

    engine.open_frame, engine.close_frame = open_frame, close_frame
    run_rounds(world, engine)
    assert len(opened) == rounds
    assert sum(compared) > 0 or not np.isfinite(scenario.privacy.epsilon_max)
    assert np.abs(world.learning.x.numpy()).max() > 0
    return decisions
