"""Likelihood ratios of what one node sends, between two data sets that differ in one of its samples.

Given the past, what node j sends next is Gaussian about its model, whose mean the attacker knows under either data set:

    w_j(t+1) ~ N(Proj(s_j(t) - step g(s_j(t); batch)), noise_scale^2)

    s_j(t)   what j held after slot t; the attacker knows it, as the proof of the own view allows
    step     gamma * multiplier; noise_scale: deviation of the noise, as decided before anything is sent

Where an update uses its gradients as it likes, and may remember them (kinds change and step), the attacker knows the
batches, and both models: the other engine runs beside the one that is listened to, and is made to send what that sends.

What else the attacker knows is what the claim allows (`Knowledge`): the sampling rate alone, then the law is a mixture
over whether the canary was in the batch; or the rest of the batch too; or the batch itself. The log-likelihood ratio of
all transmissions is the sum over rounds. It is computed from what the engine really puts on air and really holds, and
from gradients that the engine itself would take. Noise, step and sampling rate are those that were declared. Whether
the engine keeps what was declared is what the distribution of the ratio shows.

Where pairs of nodes share noise, what node j sent is seen by a coalition that knows part of that noise
(`Leftover`): all other nodes for the own view, some of them for the coalition's. Then noise_scale
is the deviation of what they do not know. Mixing passes add nothing: they carry functions of what was sent and of
receiver noise, and s_j, which the attacker knows, is what j held after them.

The coalition C hears every transmission, and knows its own noise and every v that touches a member. It takes them away
from what the honest nodes H sent, and the others' models with them, since the proof gives those away. What is left is
one Gaussian about x_j:

    z = r_j - E[m_j | m_k of the other honest nodes] = sum over k in H of g_k r_k
    g = Sigma_H^-1 e_j / [Sigma_H^-1]_jj
    r_k = w_k - sum over l in C of b_kl v_kl  (- x_k for k other than j),    r_k = m_k, and x_j + m_j for j
    z ~ N(x_j, 1 / [Sigma_H^-1]_jj),    Sigma_H = diag(a^2) + Laplacian(b^2) over H

    w_k    what k really sent; v: the numbers that the engine really drew, keyed by pair and round
    m_k    noise of k that no member of C knows: of its own, and shared with nodes outside C, silent ones too

If all others collude, H is j alone: the own view. Groups in closed form have no v to know. Their pairs are listed and
every v is drawn instead: noise of the same law, to which `wirelessdl.audit.checks` holds the closed form.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.learning.announced import AnnouncedStep
from wirelessdl.learning.draws import NodeDraws
from wirelessdl.learning.engine import LearningEngine
from wirelessdl.learning.exchange import Exchange, group_noise_
from wirelessdl.learning.records import PairInput, RoundInput
from wirelessdl.learning.superposition import Segment, Superposer
from wirelessdl.streams import Streams


def listed(pairs: PairInput) -> PairInput:
    """The same pairs with every one listed, so that each v is drawn."""
    if pairs.group is None:
        return replace(pairs, low=np.minimum(pairs.low, pairs.high), high=np.maximum(pairs.low, pairs.high))
    low, high = np.triu_indices(len(pairs.own), 1)
    both = (pairs.group[low] == pairs.group[high]) & (pairs.group[low] >= 0)
    low, high = low[both], high[both]
    return replace(pairs, pair=pairs.pair[low], group=None, low=low, high=high)


def closed_form_error(pairs: PairInput) -> float:
    """How far the covariance of groups in closed form is from that of their pairs, in largest variances."""
    assert pairs.group is not None
    root = torch.eye(len(pairs.own), dtype=torch.float64)
    group_noise_(root, pairs)
    declared = noise_covariance(pairs)
    return float(np.abs((root @ root.T).numpy() - declared).max() / max(declared.max(), np.finfo(np.float64).tiny))


def noise_covariance(pairs: PairInput) -> FloatArray:
    """Of the noise that nodes send, as declared, `[K, K]`: diag(a^2) + Laplacian(b^2); 0 for who does not send."""
    whole = _covariance(listed(pairs), np.zeros(0, dtype=np.int64))
    return np.asarray(whole * np.outer(pairs.on_air, pairs.on_air))


def partner_terms(pairs: PairInput, node: int) -> FloatArray:
    """How much each node adds at most to what hides another, `[K]`, in units of that one's own variance."""
    shared = _shared_variance(listed(pairs))[node]
    own = pairs.own**2
    both = np.divide(own * shared, own + shared, out=np.zeros_like(own), where=shared > 0)
    return np.asarray(np.where(pairs.on_air, both, shared) / own[node])


@dataclass(frozen=True, eq=False)
class Leftover:
    """One round of one node as a coalition sees it.

    honest: [H] nodes on air outside the coalition, gain: [H] g. low, high: [known] pairs between an honest node and a
    member, weight: [known] what v counts in z. deviation: of z.
    """

    node: int
    honest: IntArray
    gain: FloatArray
    low: IntArray
    high: IntArray
    weight: FloatArray
    deviation: float

    @staticmethod
    def make(pairs: PairInput, node: int, members: Sequence[int]) -> "Leftover | None":
        """None for a node that does not send. pairs: listed. members: of the coalition, without the node."""
        if not pairs.on_air[node]:
            return None
        inside = np.zeros(len(pairs.own), dtype=bool)
        inside[list(members)] = True
        honest = np.flatnonzero(pairs.on_air & ~inside)
        place = int(np.searchsorted(honest, node))
        hidden = _covariance(pairs, np.flatnonzero(inside))[np.ix_(honest, honest)]
        column = np.linalg.solve(hidden, np.eye(len(honest))[place])
        gain = np.zeros(len(pairs.own))
        gain[honest] = column / column[place]
        known = inside[pairs.low] != inside[pairs.high]
        low, high = pairs.low[known], pairs.high[known]
        weight = pairs.pair[known] * (gain[low] - gain[high])  # members have no gain
        counts = weight != 0
        return Leftover(
            node, honest, gain[honest], low[counts], high[counts], weight[counts], float(column[place]) ** -0.5
        )

    def seen(self, draws: NodeDraws, round: int, sent: Tensor, models: Tensor) -> Tensor:
        """z, `[m]`. sent: [K, m] w; models: [K, m] x without noise."""
        found = torch.zeros(sent.shape[1], dtype=torch.float64, device=sent.device)
        for node, gain in zip(self.honest.tolist(), self.gain.tolist()):
            heard = sent[node].double()
            found += gain * (heard if node == self.node else heard - models[node].double())
        shared = sent.new_empty(len(self.low), sent.shape[1])
        draws.fill_pairs(shared, round, self.low, self.high)
        return found - torch.as_tensor(self.weight, device=sent.device) @ shared.double()


def _shared_variance(pairs: PairInput) -> FloatArray:
    """b^2 of every two nodes, `[K, K]`."""
    square = np.zeros((len(pairs.own), len(pairs.own)))
    square[pairs.low, pairs.high] = square[pairs.high, pairs.low] = pairs.pair**2
    return square


def _covariance(pairs: PairInput, members: IntArray) -> FloatArray:
    """Of the noise that no member knows, `[K, K]`; only rows of honest nodes mean anything."""
    square = _shared_variance(pairs)
    square[:, members] = 0.0
    return np.asarray(np.diag(pairs.own**2 + square.sum(axis=1)) - square)


Knowledge: TypeAlias = Literal["rate", "rest", "batch"]
CANARY = 0  # position of the canary among its node's samples


class _Heard(Superposer):
    """The air; it calls `tell` with what is sent."""

    def __init__(self, device: torch.device, dtype: torch.dtype, tell: Callable[[Tensor], None]):
        super().__init__(device, dtype)
        self._tell = tell

    def superpose(self, segments: tuple[Segment, ...], sent: Tensor, out: Tensor) -> None:
        super().superpose(segments, sent, out)
        self._tell(sent)


@dataclass(frozen=True, eq=False)
class _Forced:
    """What a node is made to send: its noise as the engine would draw it, and the model that makes w exact."""

    node: int
    noise: Tensor
    model: Tensor


class Wiretap(Exchange):
    """An engine's air, listened to: the last payload, `sent` with its noise, and its passes.

    A node can be forced to send a target, whatever its model x is: its noise is then target - x. Noise is rounded to
    the engine's numbers, which would show in the last bits of w. So the model is handed on less that rounding, about
    1e-7 of the noise in float32, and w is the target bit for bit.
    """

    def __init__(self, engine: LearningEngine):
        """Takes the place of the engine's air."""
        air = engine.exchange
        super().__init__(air.nodes, air.size, air.device, air.dtype, air.workers)
        self.air = _Heard(air.device, air.dtype, self._hear_payload)
        self.held_air = _Heard(air.device, air.dtype, lambda sent: self.passed.append(sent.clone()))
        self.attack, self.robust, self.radius = air.attack, air.robust, air.radius
        self.sent = torch.empty(0)
        self.passed: list[Tensor] = []  # what was sent in each further step, or held before each announced payload
        self._forced: _Forced | None = None
        engine.exchange = self

    def force(self, given: RoundInput, node: int, x: Tensor, target: Tensor) -> None:
        """In the next payload a node sends `target`, `[m]` in the engine's numbers. x: [m] its model."""
        scale = float(given.noise_scale[node]) if given.pairs is None else 1.0
        noise = ((target.double() - x) / scale).to(self.dtype)
        self._forced = _Forced(node, noise, target.double() - noise.double() * scale)

    def payload(
        self, given: RoundInput, draws: Sequence[NodeDraws], model: Callable[[slice], Tensor], sent: Tensor, out: Tensor
    ) -> Tensor | None:
        def forced_model(part: slice) -> Tensor:
            x, forced = model(part), self._forced
            if forced is not None and part.start <= forced.node < part.stop:
                x[forced.node - part.start] = forced.model
            return x

        power = super().payload(given, draws, forced_model, sent, out)
        self._forced = None
        if given.announced:
            self.sent, self.passed = sent.clone(), []
        return power

    def announce(
        self, step: AnnouncedStep, held: Tensor, noise: Tensor, sent: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        self.passed.append((held if sent is None else sent).clone())
        return super().announce(step, held, noise, sent)

    def own_noise(self, draws: NodeDraws, round: int, nodes: range, out: Tensor) -> None:
        super().own_noise(draws, round, nodes, out)
        if self._forced is not None and self._forced.node in nodes:
            out[self._forced.node - nodes.start] = self._forced.noise

    def shared_noise(self, pairs: PairInput, draws: Sequence[NodeDraws], round: int, out: Tensor) -> None:
        forced, self._forced = self._forced, None  # others' noise may hold what this node draws: it stays as it is
        super().shared_noise(pairs, draws, round, out)
        self._forced = forced
        if forced is not None:
            out[forced.node] = forced.noise

    def _hear_payload(self, sent: Tensor) -> None:
        self.sent, self.passed = sent.clone(), []


def wiretap(engine: LearningEngine) -> Wiretap:
    """The wiretap of an engine that has one."""
    assert isinstance(engine.exchange, Wiretap)
    return engine.exchange


@dataclass(frozen=True)
class Scores:
    """Log-likelihood ratios of one trial, and mu of the own view if the canary had been in every batch."""

    own: float
    coalition: float
    mu: float


@dataclass(frozen=True, eq=False)
class _Law:
    """Models that a node may hold, and how likely each is."""

    share: tuple[float, ...]
    model: tuple[Tensor, ...]


class CanaryTrial:
    """Runs rounds of one of two engines, without the canary and with it, and scores what the node sent."""

    def __init__(
        self,
        engines: tuple[LearningEngine, LearningEngine],
        inputs: Sequence[RoundInput],
        node: int,
        knowledge: Knowledge,
        coalition: tuple[int, ...] | None = None,
    ):
        """coalition: nodes that collude, where pairs of nodes share noise; None for no such view."""
        self.engines, self._node, self._knowledge = engines, node, knowledge
        self._inputs = [given if given.pairs is None else replace(given, pairs=listed(given.pairs)) for given in inputs]
        everyone = [other for other in range(engines[0].nodes) if other != node]
        self._own, self._coalition = (
            [
                None if members is None or given.pairs is None else Leftover.make(given.pairs, node, members)
                for given in self._inputs
            ]
            for members in (everyone, coalition)
        )
        self._zero_out = engines[0].settings.adjacency == "zero-out"
        self._own_point = engines[0].settings.gradient_at == "own"
        for engine in engines:
            Wiretap(engine)

    def run(self, with_canary: bool, streams: Streams) -> Scores:
        """One trial with batches and noise of its own."""
        engine, node = self.engines[with_canary], self._node
        engine.restart(streams)
        tap, beside = wiretap(engine), self.engines[not with_canary] if engine.kind != "base" else None
        if beside is not None:
            beside.restart(streams)
        known = _Law((1.0,), (engine.x[node].clone(),))
        laws = (known, known)  # without the canary, with it
        own = coalition = square = 0.0
        for given, everyone, some in zip(self._inputs, self._own, self._coalition):
            models = unnoised_models(engine, given)
            if given.gram is not None:
                laws = self._triangles(given)
            elif given.update.withdraw[node]:
                back = _Law((1.0,), (models[node],))
                laws = (back, back)
            other = None if beside is None else unnoised_models(beside, given)[node]
            if other is not None:
                pair = _Law((1.0,), (models[node],)), _Law((1.0,), (other,))
                laws = pair if not with_canary else pair[::-1]
            engine.round(given)
            if beside is not None and other is not None:
                if given.noise_scale[node] > 0:
                    wiretap(beside).force(given, node, other, tap.sent[node])
                beside.round(given)
            if laws[0] is not laws[1]:
                seen, deviation = tap.sent[node], float(given.noise_scale[node])
                if everyone is not None:
                    seen, deviation = everyone.seen(engine.draws, given.round, tap.sent, models), everyone.deviation
                if deviation > 0:
                    own += _ratio(seen, laws, deviation)
                    square += _square(laws) / deviation**2
                if some is not None:
                    seen = some.seen(engine.draws, given.round, tap.sent, models)
                    coalition += _ratio(seen, laws, some.deviation)
            if given.gram is not None and given.round == engine.frames_of_stage:
                self.engines[1].adopt_gram(engine)
            if beside is None and not given.update.keep[node] and given.round >= engine.frames_of_stage:
                laws = self._next(engine, given, laws)
        return Scores(own, coalition, square**0.5)

    def _triangles(self, given: RoundInput) -> tuple[_Law, _Law]:
        """What the node sends in a frame of the Gram stage, under either data set."""
        every = slice(0, self.engines[0].nodes)
        first, second = (_Law((1.0,), (one.triangles(given, every)[self._node],)) for one in self.engines)
        return first, second

    def _next(self, engine: LearningEngine, given: RoundInput, laws: tuple[_Law, _Law]) -> tuple[_Law, _Law]:
        """Laws of the model that the node holds after its step, under either data set."""
        step, base, held = float(given.update.step[self._node]), engine.base[self._node], engine.point[self._node]
        if step == 0:
            known = _Law((1.0,), (engine.stepped(base.unsqueeze(0), base, 0.0)[0],))
            return known, known
        shares, batches = zip(*(self._batches(engine, given.round, world) for world in (0, 1)))
        # gradients of all batches in one call, by the engine that holds the canary beside copies of the other sample
        points = [laws[world].model[0] if self._own_point else held for world in (0, 1) for _ in batches[world]]
        samples = [*map(self._without, batches[0]), *batches[1]]
        gradient = self.engines[1].gradients(self._node, samples, torch.stack(points).to(held))
        models = engine.stepped(base, gradient, step)
        first = len(batches[0])
        return _Law(shares[0], tuple(models[:first])), _Law(shares[1], tuple(models[first:]))

    def _without(self, samples: IntArray) -> IntArray:
        """A batch with a copy of the other sample where the canary was: all samples but the canary are alike.

        A null record is nothing at all.
        """
        if self._zero_out:
            return np.asarray(samples[samples != CANARY])
        return np.asarray(np.where(samples == CANARY, CANARY + 1, samples))

    def _batches(
        self, engine: LearningEngine, round: int, world: int
    ) -> tuple[tuple[float, ...], tuple[IntArray, ...]]:
        """Batches that the attacker holds possible, as positions among the node's samples, and their shares."""
        sampler, node = engine.sampler, self._node
        rate = float(sampler.rate[node])
        if self._knowledge == "rate" and rate < 1.0:
            # all samples but the canary are alike, so only its presence matters, and nothing does without it
            size = int(sampler.batch_sizes[node])
            absent, present = np.arange(1, size + 1), np.arange(size)
            mixture = world or self._zero_out
            return ((1.0 - rate, rate), (absent, present)) if mixture else ((1.0,), (absent,))
        drawn = sampler.batch(engine.draws, node, round)
        if self._knowledge == "batch" or rate == 1.0:
            return (1.0,), (np.sort(drawn),)
        rest = np.sort(drawn[drawn != CANARY])
        return (1.0 - rate, rate), (rest, np.concatenate([[CANARY], rest]))


def unnoised_models(engine: LearningEngine, given: RoundInput) -> Tensor:
    """Models that a round is about to send, without noise, `[K, m]`; a step that is taken back is none of them."""
    if given.gram is not None:
        return engine.triangles(given, slice(0, engine.nodes))
    models, back = engine.x, torch.from_numpy(given.update.withdraw)
    models[back] = engine.stepped(engine.base[back], engine.base[back], 0.0)
    return models


def _ratio(seen: Tensor, laws: tuple[_Law, _Law], deviation: float) -> float:
    """ln p(seen | with the canary) - ln p(seen | without it)."""
    if laws[0] is laws[1]:
        return 0.0
    start = laws[0].model[0].double()
    away = seen.double() - start
    logs = []
    for law in laws:
        shifts = torch.stack([model.double() - start for model in law.model])
        exponent = (shifts @ away - 0.5 * shifts.square().sum(dim=1)) / deviation**2
        logs.append(np.logaddexp.reduce(np.log(law.share) + exponent.cpu().numpy()))
    return float(logs[1] - logs[0])


def _square(laws: tuple[_Law, _Law]) -> float:
    """||difference||^2 of the models that the two laws hold last: those with the canary in the batch."""
    return float((laws[1].model[-1].double() - laws[0].model[-1].double()).square().sum())
