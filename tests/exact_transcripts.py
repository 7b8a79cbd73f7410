"""The joint Gaussian of all that an adversary may hear and see in a run, read off the engine itself.

Everything between two gradients is linear in noise, and the toy's gradients are linear too. So one run of the real
engine gives the whole Gaussian: symbol n of the models carries random number n alone, set to 1, and the last symbol
carries none but what one replaced sample changes. Nothing of the engine's arithmetic is written again here. Two
coordinates are a symbol, one complex number: phases turn one into the other.

    heard = J xi + shift,   xi standard normal;   a coalition knows some of xi
    mu = least ||xi|| over what it does not know with J xi = shift: infinite where no noise makes up for the shift

Receiver noise is zero: the adversary may know all of it. Of announced payloads (hubs, in one sub-slot: weights are then
the same for all symbols) the adversary has what every sender holds, one by one, and not only their sum; with
`hears_w` every w besides, collected or not.
"""

from dataclasses import replace
from functools import cached_property
from itertools import combinations

import numpy as np
import torch
from conftest import over

from wirelessdl.audit.wiretap import unnoised_models
from wirelessdl.run.build import build
from wirelessdl.run.wiring import make_engine, run_rounds

SHARED = {"noise": "pairwise", "coalition": 1, "pair_ratio": 1.4, "epsilon_max": 1.0, "rho": 1.0}
LATE = {  # node 4 is late every other time
    "compute": {"kind": "constant", "seconds": [0.01, 0.01, 0.01, 0.01, 0.025, 0.01]},
    "policy": {"kind": "deadline", "cap_s": 0.012},
}
CRASH = {"kind": "schedule", "events": [{"node": 5, "at_s": 0.05, "for_s": 0.01}]}


def toy(**sections):
    """Sections of six nodes on Rayleigh fading whose gradients a transcript can follow."""
    base = {
        "scenario": {"name": "toy", "seed": 3, "rounds": 6},
        "network": {"nodes": 6, "topology": {"kind": "full"}},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "radio": {"thermal_noise": True},
        "power": {"objective": "own-noise", "alpha_min": 1e-6},
        "privacy": {"epsilon_max": 1.0, "rho": 1.0},
        "learning": {
            "sampling": "full",
            "dtype": "float64",
            "eval_every": 1,
            "learning_rate": {"kind": "inverse-sqrt", "initial": 0.05},
        },
    }
    return over(base, sections)


def worst(transcript, size, among=None):
    """mu of the coalition that learns most, of those of so many nodes."""
    others = [k for k in among or range(transcript.world.nodes) if k != transcript.node]
    return max(transcript.mu(coalition) for coalition in combinations(others, size))


class Transcript:
    """A run whose gradients are linear, and in which one sample of `node` is replaced."""

    def __init__(self, scenario, node, mistake=None, *, hears_w=False):
        self.world = build(scenario, device="cpu")
        self.node, self.mistake, self.hears_w = node, mistake, hears_w
        self.learning = self.world.learning
        self.learning.radius = 1e3  # no projection: it is not linear, and moves nothing apart
        self.learning._mixed.zero_()
        self.learning._update = self.learning._running_update()
        self.names, self.heard, self.decisions, self.given = [], [], [], []
        self._pull = torch.linspace(0.1, 0.7, self.world.nodes, dtype=torch.float64)
        for draws in self.learning._draws:
            draws.fill_normal, draws.fill_pairs = self._own, self._pairs
        self.learning.strategy.gradient = self._gradient
        exchange = self.learning.exchange
        exchange.air.superpose = self._superposed(exchange.air.superpose, True)
        exchange.held_air.superpose = self._superposed(exchange.held_air.superpose, False)
        self._announce, exchange.announce = exchange.announce, self._announced
        self._round, self.learning.round = self.learning.round, self._watched
        self.engine = make_engine(self.world)
        self.engine.trace.connect("learning.update", lambda event: self.decisions.append(event.decision))
        run_rounds(self.world, self.engine)
        assert 2 * len(self.names) < self.learning.learner.size - 1
        assert self.learning.learner.size % 2 == 0

    # --- what the engine draws, and the toy's gradient

    def _place(self, name):
        if name not in self.names:
            self.names.append(name)
        return 2 * self.names.index(name)

    def _own(self, out, round, purpose, nodes=None):
        out.zero_()
        for row, node in enumerate(range(len(out)) if nodes is None else nodes):
            if purpose == "noise":
                out[row, self._place(("own", round, node))] = 1.0

    def _pairs(self, out, round, low, high):
        fresh = round // 2 if self.mistake == "pair noise reused" else round
        out.zero_()
        for row, pair in enumerate(zip(low.tolist(), high.tolist())):
            out[row, self._place(("pair", fresh, *pair))] = 1.0

    def _gradient(self, worker, point, batch, gradient):
        """pull_k point, plus what the replaced sample adds: as much as it may, one way and the other in turn."""
        nodes = batch.nodes
        gradient.copy_(point * self._pull[nodes.start : nodes.stop, None])
        if self.node in nodes:
            most = float(self.world.exposure.sensitivity[self.node])
            gradient[self.node - nodes.start, -2] += most * (-1) ** len(self.given)
        zero = torch.zeros(len(nodes), dtype=torch.float64)
        return zero, zero

    # --- what is heard and shown

    def _superposed(self, superpose, payload):
        def listened(segments, sent, out):
            reaching = sum(np.abs(_dense(segment.weights)) for segment in segments)
            np.fill_diagonal(reaching, 0.0)
            x = self._models
            if not payload:  # else it is not linear
                assert (sent.square().mean(dim=1).numpy() < 0.99 * self.given[-1].steps[1].limit).all()
            if not payload and self.mistake == "x in a pass":
                sent = x
            senders = reaching.any(axis=0) | (self._sends if payload else False)
            self.heard.append(sent[torch.as_tensor(senders)].clone())
            superpose(segments, sent, out)
            if payload and self.mistake == "own term without noise":
                own = torch.as_tensor(np.diagonal(_dense(segments[0].weights)).copy())
                out.sub_(own[:, None] * (sent - x))

        return listened

    def _announced(self, step, held, noise, sent=None):
        x, given, sends = self._models, self.given[-1], torch.as_tensor(self._sends)
        if self.hears_w and step is given.announced[0]:
            self.heard.append(held[: len(sends)][sends].clone())
        collects, failed = step.needed is not None, not step.ratio.any()
        hub = int(step.rx[0])
        if self.mistake == "hub adds x" and collects:
            held[hub] = x[hub]
        self.heard.append((held if sent is None else sent)[torch.as_tensor(step.senders)].clone())
        found = self._announce(step, held, noise, sent)
        if self.mistake == "uncovered node sends x" and collects:
            held[hub] += 0.1 * x[torch.as_tensor(given.update.keep)].sum(dim=0)
        if self.mistake == "fresh noise after a failure" and failed:
            for node in step.senders.tolist():
                held[node] = x[node]
                held[node, self._place(("own", (given.round, len(self.heard)), node))] += given.pairs.own[node]
        return found

    def _watched(self, given):
        pairs = given.pairs
        if pairs is not None and pairs.group is not None:  # real nodes draw the v: the same law, pair by pair
            low, high = np.nonzero(np.triu((pairs.group[:, None] == pairs.group) & (pairs.group >= 0)[:, None], k=1))
            given = replace(given, pairs=replace(pairs, group=None, low=low, high=high, pair=pairs.pair[low]))
        self._sends, self._models = given.noise_scale > 0, unnoised_models(self.learning, given)
        self.given.append(given)
        result = self._round(given)
        self.heard.append(self.learning._mixed.clone())  # of which accuracy is shown, whoever was on air
        if self.mistake == "momentum of x":
            self.learning._update._state["before"].copy_(self.learning.x)
        elif self.learning._update is not None:  # what an update that sees no data works with is known, too
            self.heard += [self.learning.base.clone(), self.learning.point.clone()]
        return result

    # --- what it amounts to

    @cached_property
    def _symbols(self):
        used = [*range(2 * len(self.names)), -2, -1]
        coordinates = torch.cat([part[:, used] for part in self.heard]).numpy()
        return coordinates[:, ::2] + 1j * coordinates[:, 1::2]

    def mu(self, coalition):
        """Of the whole transcript, for a coalition that knows its own noise and all that it shares."""
        heard = self._symbols
        unknown = [n for n, name in enumerate(self.names) if not set(name[2:]) & set(coalition)]
        noise, shift = heard[:, unknown], heard[:, -1]
        # in units of the shift, so that tolerances mean the same in every case
        scale = np.linalg.norm(shift)
        if scale == 0:
            return 0.0  # the node never sent a gradient
        xi, *_ = np.linalg.lstsq(noise / np.abs(noise).max(), shift / scale, rcond=1e-11)
        left = np.linalg.norm(noise / np.abs(noise).max() @ xi - shift / scale)
        return np.inf if left > 1e-7 else float(np.linalg.norm(xi) * scale / np.abs(noise).max())

    def charged(self, view="coalition"):
        """mu of all that the ledger charged the node with."""
        name = f"{view}_mu"
        return float(np.sqrt(sum(getattr(one.release, name)[self.node] ** 2 for one in self.decisions)))


def _dense(weights):
    return weights if isinstance(weights, np.ndarray) else weights.toarray()
