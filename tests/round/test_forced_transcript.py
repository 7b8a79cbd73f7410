"""Two engines whose data differ in one sample, made to send the same: all that is heard and shown is the same too.

The noise of the node that holds the sample is chosen in the second engine such that its transmissions are those of the
first. Whatever else depended on its data (residual self-interference, receiver noise, evaluations, who is on air) would
then differ. Only the next update may, and by no more than its charge.
"""

import numpy as np
import pytest
import torch
from conftest import mostly_slow, tiny_table

from wirelessdl.audit.wiretap import unnoised_models
from wirelessdl.learning.runtime import fetch
from wirelessdl.run.build import build
from wirelessdl.run.wiring import make_engine, run_rounds
from wirelessdl.scenario.loader import parse_scenario

NODE = 1
LOUD = {"power_dbm": 30, "thermal_noise": True, "bandwidth_hz": 1e9, "cancellation_db": 10.0}
PAIRS = {"noise": "pairwise", "coalition": 1, "pair_ratio": 1.4, "epsilon_max": 1.0}
HUBS = {
    "power_dbm": 23,
    "thermal_noise": True,
    "alignment": "hubs",
    "truncate_snr_db": 15,
    "csi": {"kind": "pilots", "symbols": 4},
}
CASES = {
    "residual self-interference": {"radio": LOUD},
    "physical interference, phase errors, three slots, pilots": {
        "radio": {
            **LOUD,
            "bandwidth_hz": 1e6,
            "cancellation_db": 110.0,
            "interference": "physical",
            "phase_error_rad": 0.2,
            "payload_slots": 3,
            "csi": {"kind": "pilots", "symbols": 4},
        },
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
    },
    "carriers and timing apart": {
        "radio": {**LOUD, "cfo_hz": [3e5, -2e5, 1e5, 0.0], "timing_offset_s": [0.0, 4e-10, -2e-10, 1e-10]},
    },
    "half duplex": {"radio": {**LOUD, "duplex": "half"}, "power": {"objective": "own-noise"}},
    "one at a time": {"radio": {**LOUD, "access": "tdma"}, "power": {"objective": "own-noise"}},
    "mixing passes, closing ones too": {
        "radio": {**LOUD, "mixing_passes": 2},
        "power": {"objective": "own-noise"},
        "learning": {"closing_passes": 2},
    },
    "crashes, listening again": {
        "radio": LOUD,
        "faults": {
            "rejoin": "listen",
            "crashes": {"kind": "schedule", "events": [{"node": NODE, "at_s": 0.0105, "for_s": 0.02}]},
        },
    },
    "a budget that ends": {"radio": LOUD, "privacy": {"epsilon_max": 1.0, "budget_total": 1.5}},
    "the paper's protocol": {
        "radio": LOUD,
        "privacy": {"protocol": "paper", "clipping": "batch", "epsilon_max": 4.0},
        "power": {"balance": False, "alpha_min": 1e-6},
    },
    "pairs, passes, self-interference": {
        "radio": {**LOUD, "mixing_passes": 2},
        "power": {"objective": "own-noise", "schedule": "adaptive", "alpha_min": 1e-6},
        "privacy": PAIRS,
        "learning": {"closing_passes": 2},
    },
    "pairs of neighbours, crashes, reports that get lost, three slots": {
        "radio": {
            **LOUD,
            "bandwidth_hz": 1e6,
            "cancellation_db": 110.0,
            "mixing_passes": 1,
            "payload_slots": 3,
            "control_failure": 0.1,
        },
        "power": {"objective": "own-noise", "schedule": "adaptive", "alpha_min": 1e-6},
        "privacy": {**PAIRS, "pairs": "neighbours"},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "faults": {
            "rejoin": "listen",
            "crashes": {"kind": "schedule", "events": [{"node": NODE, "at_s": 0.045, "for_s": 0.001}]},
        },
    },
    "pairs, a budget that ends": {
        "radio": LOUD,
        "power": {"objective": "own-noise", "alpha_min": 1e-6},
        "privacy": {**PAIRS, "budget_total": 1.5},
    },
    "hubs that fail, passes, pilots, phase errors": {
        "radio": {**HUBS, "hub_failure": 0.3, "mixing_passes": 1, "subslots": 3, "phase_error_rad": 0.2},
        "power": {"objective": "own-noise"},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "learning": {"closing_passes": 2},
    },
    "hubs, pairs, out of reach in rounds 2 and 4": {
        "scenario": {"seed": 7},
        "radio": {**HUBS, "truncate_snr_db": 24},
        "power": {"objective": "own-noise", "alpha_min": 1e-6},
        "privacy": PAIRS,
        "network": {"placement": {"kind": "disc", "radius_m": 120}},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
    },
    "hubs, pairs, crashes, listening again, late nodes": {
        "radio": {**HUBS, "hub_failure": 0.2, "hub_order": "there-and-back", "hub_rotation": True},
        "power": {"objective": "own-noise", "alpha_min": 1e-6},
        "privacy": PAIRS,
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "faults": {
            "rejoin": "listen",
            "crashes": {"kind": "schedule", "events": [{"node": NODE, "at_s": 0.075, "for_s": 0.001}]},
        },
        "time": {
            "compute": {"kind": "constant", "seconds": [0.01, 0.01, 0.025, 0.01]},
            "policy": {"kind": "deadline", "cap_s": 0.012},
        },
    },
    "hubs, a budget that ends": {
        "radio": HUBS,
        "power": {"objective": "own-noise"},
        "privacy": {"epsilon_max": 1.0, "budget_total": 1.5},
    },
    "hubs of antennas, pairs": {
        "radio": {**HUBS, "antennas": 3, "antenna_correlation": 0.4},
        "power": {"objective": "own-noise", "alpha_min": 1e-6},
        "privacy": PAIRS,
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
    },
    "a server, pairs, nodes out of reach, hubs while it is down": {
        "radio": {**HUBS, "alignment": "server", "truncate_snr_db": 18, "subslots": 3, "phase_error_rad": 0.1},
        "power": {"objective": "own-noise", "alpha_min": 1e-6},
        "privacy": PAIRS,
        "network": {
            "placement": {"kind": "disc", "radius_m": 120},
            "server": {"at": "center", "antennas": 2, "down": [[4, 5]], "without": "hubs"},
        },
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
    },
    "nobody aligns, pairs, passes, pilots, listening again": {
        "radio": {
            "alignment": "none",
            "antennas": 3,
            "thermal_noise": True,
            "mixing_passes": 1,
            "csi": {"kind": "pilots", "symbols": 4},
        },
        "power": {"objective": "own-noise", "alpha_min": 1e-6},
        "privacy": PAIRS,
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "faults": {
            "rejoin": "listen",
            "crashes": {"kind": "schedule", "events": [{"node": NODE, "at_s": 0.075, "for_s": 0.001}]},
        },
    },
    "whole gradients": {"radio": LOUD, "privacy": {"clipping": "batch", "epsilon_max": 4.0, "clip_norm": 0.1}},
}
HOSTILE = {
    "pairs of neighbours": "pairs of neighbours, crashes, reports that get lost, three slots",
    "hubs": "hubs, pairs, crashes, listening again, late nodes",
    "passes": "pairs, passes, self-interference",
    "crashes": "crashes, listening again",
}
UPDATES = {
    "momentum": {"momentum": 0.9},
    "nesterov": {"momentum": 0.9},
    "weight-decay": {"weight_decay": 0.3},
    "push-sum": {},
    "local-steps": {"local_steps": 2},
    "heavy-ball": {"momentum": 0.9},
    "heavy-ball, declared": {"update": "heavy-ball", "update_kind": "step", "momentum": 0.9},
    "error-feedback": {"top_k": 0.1},
    "error-feedback, one bit": {"update": "error-feedback", "compression": "one-bit"},
    "gradient-tracking": {"tracking": 0.7},
}
QUICK = (*CASES, "nesterov, hubs", "local-steps, pairs of neighbours", "error-feedback, crashes")
for name, keys in UPDATES.items():
    for short, case in HOSTILE.items():
        if (name == "push-sum" and "mixing_passes" in CASES[case]["radio"]) or (name, short) == ("push-sum", "hubs"):
            continue  # its weight is mixed once a round
        made = CASES[case]
        CASES[f"{name}, {short}"] = {
            **made,
            "power": {"objective": "own-noise", **made.get("power", {}), "alpha_min": 1e-12},
            "learning": {**made.get("learning", {}), "update": name, **keys},
        }


class Watched:
    """A world whose learning engine tells what it did in every round, and may be made to send what another sent."""

    def __init__(self, scenario, replaced=None, as_sent=None):
        self.world = build(scenario, device="cpu")
        self.learning, self.as_sent = self.world.learning, as_sent
        if replaced is not None:
            store = self.learning._store
            store.train_x, store.train_y = store.train_x.clone(), store.train_y.clone()
            store.train_x[replaced] = 255 - store.train_x[replaced]
            store.train_y[replaced] = (store.train_y[replaced] + 5) % 10
        self.sent, self.rounds, self.heard = [], [], []
        for draws in self.learning._draws:
            draws.fill_normal = self._filled(draws.fill_normal)
        exchange = self.learning.exchange
        exchange.shared_noise = self._paired(exchange.shared_noise)
        exchange.announce = self._announced(exchange.announce)
        self._round, self.learning.round = self.learning.round, self._watched
        engine = make_engine(self.world)
        run_rounds(self.world, engine)

    def _filled(self, fill):
        def forced(out, round, purpose, nodes=None):
            fill(out, round, purpose, nodes)
            for row, node in enumerate(range(len(out)) if nodes is None else nodes):
                if purpose == "noise" and node == NODE and self.scale and not self.paired:
                    if self.as_sent is not None:
                        out[row] = (self.as_sent[len(self.sent)] - self.x[NODE]) / self.scale
                    self.sent.append(self.x[NODE] + self.scale * out[row])

        return forced

    def _paired(self, shared):
        def forced(pairs, draws, round, out):
            shared(pairs, draws, round, out)
            if self.scale:
                if self.as_sent is not None:
                    out[NODE] = self.as_sent[len(self.sent)] - self.x[NODE]
                self.sent.append(self.x[NODE] + out[NODE])

        return forced

    def _announced(self, announce):
        def heard(step, held, noise):
            before = held[torch.as_tensor(step.senders)].clone()
            power, variance = announce(step, held, noise)
            self.heard.append((before, power))
            return power, variance

        return heard

    def _watched(self, given):
        self.scale, self.paired = float(given.noise_scale[NODE]), given.pairs is not None
        sent, self.x = len(self.sent), unnoised_models(self.learning, given)
        result = self._round(given)
        shown = [] if result.accuracy is None else fetch([result.accuracy])[0].tolist()
        self.rounds.append((len(self.sent) - sent, given, self.learning._mixed.clone(), self.learning.x, shown))
        return result


@pytest.mark.parametrize("case", mostly_slow(CASES, *QUICK))
def test_what_is_shown_and_sent_next_depends_on_no_more_than_its_charge(case):
    table = tiny_table(
        scenario={"name": "forced", "seed": 3, "rounds": 6},
        learning={"sampling": "full", "dtype": "float64", "eval_every": 1, "learning_rate": {"initial": 0.05}},
        network={"nodes": 4, "topology": {"kind": "full"}},
        time={"compute": {"kind": "constant", "seconds": 0.01}},
    )
    table["learning"]["learning_rate"]["kind"] = "inverse-sqrt"
    changes = {**CASES[case]}
    for section, values in changes.items():
        table[section] = {**table.get(section, {}), **values}
    scenario = parse_scenario(table)
    one = Watched(scenario)
    replaced = int(one.world.client_indices[NODE][3])
    other = Watched(scenario, replaced=replaced, as_sent=one.sent)
    hardened = scenario.privacy.protocol == "hardened"
    charge = float(one.world.exposure.sensitivity[NODE])
    assert len(one.sent) >= 3
    for here, there in zip(one.heard, other.heard, strict=True):  # announced payloads, and their power
        torch.testing.assert_close(there, here, rtol=1e-9, atol=1e-9)
    moved, held = [], 0.0
    for (sends, given, mixed, x, shown), (also, _, mixed2, x2, shown2) in zip(one.rounds, other.rounds, strict=True):
        assert sends == also
        torch.testing.assert_close(mixed2, mixed, rtol=1e-9, atol=1e-9)
        if hardened:
            assert shown == shown2
        apart = torch.linalg.vector_norm(x2 - x, dim=1).numpy()
        held = float(given.update.step[NODE]) or held  # a node that took no step may still hold its last one
        moved.append(apart[NODE])
        assert np.delete(apart, NODE).max() <= 1e-9
        assert apart[NODE] <= charge * held * (1 + 1e-9)
    counts = scenario.privacy.clipping == "per-sample" and one.learning.kind == "base"
    assert max(moved) > (0.5 * charge * 0.05 if counts else 1e-6)  # it did count
    if one.learning.kind == "base" and one.learning._update is not None:  # it has seen nothing but what was received
        for here, there in zip(one.learning._update.kept().values(), other.learning._update.kept().values()):
            np.testing.assert_allclose(there, here, rtol=1e-9, atol=1e-9)


def test_a_leak_past_the_noise_would_be_seen(monkeypatch):
    """Were residual self-interference to follow the model instead of what was sent, the twins would part."""
    from wirelessdl.learning import engine, exchange

    def leaking(thermal, interference, power):
        return thermal if power is None else thermal + interference * leak["x"]

    leak = {"x": 0.0}
    real = engine.LearningEngine._on_air

    def watched(self, given, model):
        leak["x"] = float(torch.linalg.vector_norm(self.x[NODE]))
        return real(self, given, model)

    monkeypatch.setattr(exchange, "receiver_deviation", leaking)
    monkeypatch.setattr(engine.LearningEngine, "_on_air", watched)
    with pytest.raises(AssertionError):
        test_what_is_shown_and_sent_next_depends_on_no_more_than_its_charge("residual self-interference")


def test_a_hub_that_adds_its_model_without_noise_would_be_seen(monkeypatch):
    from wirelessdl.learning.engine import LearningEngine
    from wirelessdl.learning.exchange import Exchange

    seen, real_round, real = {}, LearningEngine._on_air, Exchange.announce

    def watched(self, given, model):
        seen["x"] = unnoised_models(self, given)
        return real_round(self, given, model)

    def announce(self, step, held, noise):
        if step.needed is not None:
            held[int(step.rx[0])] = seen["x"][int(step.rx[0])]
        return real(self, step, held, noise)

    monkeypatch.setattr(LearningEngine, "_on_air", watched)
    monkeypatch.setattr(Exchange, "announce", announce)
    with pytest.raises(AssertionError):
        test_what_is_shown_and_sent_next_depends_on_no_more_than_its_charge(
            "hubs, pairs, crashes, listening again, late nodes"
        )
