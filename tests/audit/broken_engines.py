"""A small scenario to attack, the law of its ratios, and engines that do not do what is charged."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import tiny

from wirelessdl.audit.wiretap import listed
from wirelessdl.learning import announced
from wirelessdl.learning.draws import NodeDraws
from wirelessdl.learning.exchange import Exchange
from wirelessdl.learning.gram import Gram
from wirelessdl.learning.sampling import Sampler

REGRESSION = {
    "dataset": {"kind": "synthetic-regression", "features": 16, "samples": 600, "test_samples": 20},
    "model": "ridge",
}


def attacked(**sections):
    """Three nodes, three classes, 16 features: a round takes a millisecond."""
    made = {
        "scenario": {"rounds": 60},
        "network": {"nodes": 3},
        "privacy": {"epsilon_max": 4.0},
        "power": {"objective": "own-noise"},
    }
    for name, section in sections.items():
        made[name] = {**made.get(name, {}), **section}
    data = {"kind": "synthetic", "classes": 3, "features": 16, "samples": 600, "test_samples": 20}
    made["learning"] = {"dataset": data, "sampling": "full", **made.get("learning", {})}
    return tiny(**made)


def assert_gaussian(ratio, with_canary, mu):
    """Ratios are N(+-mu^2/2, mu^2), with the canary and without: three standard errors."""
    for present in (False, True):
        seen = ratio[with_canary == present]
        assert seen.mean() == pytest.approx((0.5 if present else -0.5) * mu**2, abs=3 * mu / np.sqrt(len(seen)))
        assert seen.std() == pytest.approx(mu, rel=3 / np.sqrt(2 * len(seen)))


def halve_noise(patch: pytest.MonkeyPatch) -> None:
    """Half of the noise that the plan asks for."""
    real = NodeDraws.fill_normal

    def fill_normal(self, out, round, purpose, nodes=None):
        real(self, out, round, purpose, nodes)
        if purpose == "noise":
            out.mul_(0.5)

    patch.setattr(NodeDraws, "fill_normal", fill_normal)


def stop_clipping(patch: pytest.MonkeyPatch) -> None:
    """Samples' gradients are summed as they are."""
    patch.setattr("wirelessdl.learning.models.closed_form.clip_factor", lambda norm, _: torch.ones_like(norm))


def reuse_batch(patch: pytest.MonkeyPatch) -> None:
    """The batch of the first round in every round."""
    real = Sampler.batches
    patch.setattr(Sampler, "batches", lambda self, draws, nodes, round: real(self, draws, nodes, 1))  # noqa: ARG005


# --- engines that send, or hold, something else than the proof says; the likelihood of an attack sees none of them


def _keeping_models(patch: pytest.MonkeyPatch) -> dict[str, torch.Tensor]:
    """Models of the last payload, without noise, under "x"; for engines that use them where they must not."""
    kept, real = {}, Exchange.payload

    def payload(self, given, draws, model, sent, out):
        kept["x"] = torch.empty_like(sent)

        def copied(part):
            x = model(part)
            kept["x"][part] = x
            return x

        return real(self, given, draws, copied, sent, out)

    patch.setattr(Exchange, "payload", payload)
    return kept


def own_term_without_noise(patch: pytest.MonkeyPatch) -> None:
    """A node weighs its own model in s as it is, not as it sent it."""
    kept, real = _keeping_models(patch), Exchange._receive

    def receive(self, segments, round, purpose, draws, sent, out, *how):
        power = real(self, segments, round, purpose, draws, sent, out, *how)
        if purpose == "thermal":
            out.sub_(self.column(np.diagonal(segments[0].weights)) * (sent - kept["x"]))
        return power

    patch.setattr(Exchange, "_receive", receive)


def self_interference_of_models(patch: pytest.MonkeyPatch) -> None:
    """Residual self-interference follows the models, not what was sent."""
    kept = _keeping_models(patch)

    def deviation(thermal, interference, power):  # noqa: ARG001
        return thermal + interference * kept["x"].square().mean(dim=1, keepdim=True).sqrt()

    patch.setattr("wirelessdl.learning.exchange.receiver_deviation", deviation)


def models_in_passes(patch: pytest.MonkeyPatch) -> None:
    """Mixing passes send models without noise."""
    kept, real = _keeping_models(patch), Exchange._receive

    def receive(self, segments, round, purpose, draws, sent, out, air, send, *attacked):
        model = kept["x"] if send is None else sent
        return real(self, segments, round, purpose, draws, model, out, air, send, *attacked)

    patch.setattr(Exchange, "_receive", receive)


def hub_adds_its_model(patch: pytest.MonkeyPatch) -> None:
    """A hub adds its own model without noise to what it collects."""
    kept, real = _keeping_models(patch), Exchange.announce

    def announce(self, step, held, noise, *sent):
        if step.needed is not None:
            held[int(step.rx[0])] = kept["x"][int(step.rx[0])]
        return real(self, step, held, noise, *sent)

    patch.setattr(Exchange, "announce", announce)


def members_send_their_models(patch: pytest.MonkeyPatch) -> None:
    """Members send models without noise."""
    kept, real = _keeping_models(patch), Exchange.announce

    def announce(self, step, held, noise, *sent):
        if step.needed is not None:
            held[step.tx] = kept["x"][step.tx]
        return real(self, step, held, noise, *sent)

    patch.setattr(Exchange, "announce", announce)


def power_follows_models(patch: pytest.MonkeyPatch) -> None:
    """What is announced is the size of the model, not of what is held: receiver noise then follows it."""
    kept = _keeping_models(patch)
    real = announced.announced_rms
    patch.setattr(announced, "announced_rms", lambda held: real(held) * (1.0 + kept["x"].norm()))


def noise_of_two_rounds(patch: pytest.MonkeyPatch) -> None:
    """One draw of noise serves two rounds."""
    real = NodeDraws.fill_normal

    def fill_normal(self, out, round, purpose, nodes=None):
        real(self, out, round // 2 if purpose == "noise" else round, purpose, nodes)

    patch.setattr(NodeDraws, "fill_normal", fill_normal)


def no_pair_noise(patch: pytest.MonkeyPatch) -> None:
    """Nothing that pairs share is ever added."""

    def shared_noise(self, pairs, draws, round, out):
        self.own_noise(draws[0], round, range(self.nodes), out)
        out.mul_(self.column(pairs.own * pairs.on_air))

    patch.setattr(Exchange, "shared_noise", shared_noise)


def pair_noise_of_one_round(patch: pytest.MonkeyPatch) -> None:
    """What pairs share is that of the first round in every round; their own noise is fresh."""
    real, shared = NodeDraws.fill_pairs, Exchange.shared_noise
    patch.setattr(NodeDraws, "fill_pairs", lambda self, out, round, low, high: real(self, out, 1, low, high))  # noqa: ARG005

    def shared_noise(self, pairs, draws, round, out):
        shared(self, listed(pairs), draws, round, out)  # a closed form draws no pairs

    patch.setattr(Exchange, "shared_noise", shared_noise)


def noise_after_the_quantiser(patch: pytest.MonkeyPatch) -> None:
    """Messages are rounded, then noise is added."""
    real = Exchange.payload

    def payload(self, given, draws, model, sent, out):
        def rounded(part):
            x, nodes = model(part), range(self.nodes)[part]
            dither = torch.empty(x.shape, dtype=torch.float64)
            draws[0].fill_dither(dither, given.round, nodes)
            given.messages.quantizer.apply_(x, dither)
            return x

        coarse = model if given.messages is None else rounded
        return real(self, replace(given, messages=None), draws, coarse, sent, out)

    patch.setattr(Exchange, "payload", payload)


# --- Gram stages that cheat


def gram_of_long_rows(patch: pytest.MonkeyPatch) -> None:
    """Rows of features enter the triangle as they are, not scaled to norm 1."""
    patch.setattr("wirelessdl.learning.gram.unit_rows", lambda rows: np.asarray(rows, dtype=np.float64))


def gram_of_little_noise(patch: pytest.MonkeyPatch) -> None:
    """Half of the noise in the frames of the stage, all of it in training. For a stage of three frames."""
    real = NodeDraws.fill_normal

    def fill_normal(self, out, round, purpose, nodes=None):
        real(self, out, round, purpose, nodes)
        if purpose == "noise" and round <= 3:
            out.mul_(0.5)

    patch.setattr(NodeDraws, "fill_normal", fill_normal)


def gram_without_noise_of_its_own(patch: pytest.MonkeyPatch) -> None:
    """A node makes its preconditioner from its own triangle, which no noise hides."""
    real = Gram.finish

    def finish(self) -> None:
        if self._triangles is not None:
            self.heard.copy_(torch.from_numpy(self._triangles))
        real(self)

    patch.setattr(Gram, "finish", finish)
