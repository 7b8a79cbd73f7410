"""What happens to models on the air: noise, superposition, and mixing passes that send on what was received.

    payload   w = x + n in float64, rounded;   y = A w + receiver noise;   in messages Q(w), without receiver noise
    a pass    y <- heard (A y + receiver noise) + kept y + before (the y before that)

Noise is drawn row by row in threads; only the mixing, and what pairs share, looks at all nodes. A pass sends y as it
is, or scaled down to the power that its node has: by then it is a function of what was sent with its noise, and of
receiver noise.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from wirelessdl.arrays import FloatArray
from wirelessdl.learning.draws import NodeDraws
from wirelessdl.learning.pair_noise import EdgeNoise, GroupNoise
from wirelessdl.learning.records import MessageInput, PairInput, PassInput, RoundInput
from wirelessdl.learning.runtime import Workers
from wirelessdl.learning.superposition import Air, Segment, receiver_deviation

_NOISE_PIECE = 2**16  # numbers that a thread draws before it looks for more


class Airing:
    """Noise and superposition of K models of `size` numbers. draws: one for each worker, all alike."""

    def __init__(self, nodes: int, size: int, device: torch.device, dtype: torch.dtype, workers: Workers):
        self.nodes, self.size, self.device, self.dtype, self.workers = nodes, size, device, dtype, workers
        self.rows = max(1, _NOISE_PIECE // size)
        self._numbers = np.float64 if dtype == torch.float64 else np.float32
        self.air, self.pass_air = Air(device, dtype), Air(device, dtype)

    def payload(
        self, given: RoundInput, draws: Sequence[NodeDraws], model: Callable[[slice], Tensor], sent: Tensor, out: Tensor
    ) -> Tensor | None:
        """w into `sent`, s = A w into `out`. Returns ||w||^2 / m where a receiver hears its own.

        model: x of some nodes, float64, which is overwritten; asked once for each, before its rows of `out` change.
        """
        noisy, messages = bool(given.noise_scale.any()), given.messages
        if noisy and given.pairs is not None:
            self.shared_noise(given.pairs, draws, given.round, sent)
        scale = torch.from_numpy(given.noise_scale).unsqueeze(1)

        def send(worker: int, nodes: range) -> None:
            part = slice(nodes.start, nodes.stop)
            w = model(part)
            if noisy and given.pairs is None:
                self.own_noise(draws[worker], given.round, nodes, sent[part])
                w.addcmul_(sent[part].to(w), scale[part].to(w))
            elif noisy:
                w.add_(sent[part].to(w))
            sent[part] = w  # the first rounding to the models' own numbers, after the noise
            if messages is not None:  # last of all: scales are those of what is noisy already
                self._round(messages, draws[worker], given.round, nodes, sent)

        return self._receive(given.segments, given.round, "thermal", draws, sent, out, self.air, send)

    def passes(
        self,
        passes: Sequence[PassInput],
        round: int,
        draws: Sequence[NodeDraws],
        before: Tensor,
        y: Tensor,
        spare: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The y of the last pass, the two tensors that are free again, and ||y||^2 / m of what was sent, summed, `[K]`.

        before: what was sent in the payload; it is overwritten, as is `spare`.
        """
        power = torch.zeros(self.nodes, dtype=self.dtype, device=self.device)
        self._weigh(passes[0], y, before, before)
        for number, one in enumerate(passes[1:]):
            power += self._limit(one, y, before)
            self._receive(one.segments, round, number, draws, y, spare, self.pass_air, None)
            self._weigh(one, spare, y, before)
            before, y, spare = y, spare, before
        return y, before, spare, power

    def _limit(self, one: PassInput, y: Tensor, before: Tensor) -> Tensor:
        """Scale down what a node has no power for, in place; ||y||^2 / m of what is left, `[K]`.

        The y before that is scaled likewise: as it is weighed by less than 0, it would take away more than is left.
        """
        held, limit = torch.linalg.vector_norm(y, dim=1).square_().div_(self.size), self.tensor(one.limit)
        factor = torch.where(held > limit, (limit / held).sqrt_(), 1.0).unsqueeze(1)
        y.mul_(factor)  # bit for bit the same where the factor is 1
        if one.before.any():
            before.mul_(factor)
        return torch.minimum(held, limit)

    def _weigh(self, one: PassInput, out: Tensor, y: Tensor, before: Tensor) -> None:
        """heard (what was received) + kept y + before (the y before that), in place of what was received."""
        if one.plain:
            return
        out.mul_(self.column(one.heard)).addcmul_(y, self.column(one.kept))
        if one.before.any():
            out.addcmul_(before, self.column(one.before))

    def _receive(
        self,
        segments: tuple[Segment, ...],
        round: int,
        purpose: str | int,
        draws: Sequence[NodeDraws],
        sent: Tensor,
        out: Tensor,
        air: Air,
        send: Callable[[int, range], None] | None,
    ) -> Tensor | None:
        """Receiver noise, and then A of what was sent, into `out`; send: what each piece of nodes does first."""
        noise = any(segment.receiver_noise for segment in segments)
        interferes = any(segment.self_interference_scale.any() for segment in segments)
        power = torch.empty(self.nodes, dtype=self.dtype, device=self.device) if interferes else None
        thermal, interference = (
            self.tensor(np.stack([getattr(segment, name) for segment in segments], axis=1))
            for name in ("thermal_scale", "self_interference_scale")
        )

        def work(worker: int, piece: int) -> None:
            nodes = range(piece * self.rows, min((piece + 1) * self.rows, self.nodes))
            part = slice(nodes.start, nodes.stop)
            if send is not None:
                send(worker, nodes)
            if power is not None:
                power[part] = torch.linalg.vector_norm(sent[part], dim=1).square_().div_(self.size)
            if noise:
                draws[worker].fill_normal(out[part], round, purpose, nodes)
                own = None if power is None else power[part]
                deviation = receiver_deviation(thermal[part], interference[part], own)
                for slot, segment in enumerate(segments):
                    there = (part, segment.coordinates)
                    out[there].mul_(deviation[:, slot : slot + 1])

        if noise or send is not None or power is not None:
            self.workers.each(-(-self.nodes // self.rows), work)
        if not noise:
            out.zero_()
        air.superpose(segments, sent, out)
        return power

    def _round(self, messages: MessageInput, draws: NodeDraws, round: int, nodes: range, sent: Tensor) -> None:
        """Q(w) in place of w, of some nodes as far as they send."""
        part = sent[nodes.start : nodes.stop]
        dither = torch.empty(part.shape, dtype=torch.float64, device=self.device)
        draws.fill_dither(dither, round, nodes)
        rounded = part.clone()
        messages.quantizer.apply_(rounded, dither)
        on_air = torch.as_tensor(messages.on_air[nodes.start : nodes.stop, None]).to(self.device)
        part.copy_(torch.where(on_air, rounded, part))

    def own_noise(self, draws: NodeDraws, round: int, nodes: range, out: Tensor) -> None:
        """Standard normal numbers of some nodes into `out`."""
        draws.fill_normal(out, round, "noise", nodes)

    def shared_noise(self, pairs: PairInput, draws: Sequence[NodeDraws], round: int, out: Tensor) -> None:
        """Noise of which pairs share a part, `[K, m]`, into `out`."""

        def own(worker: int, piece: int) -> None:
            nodes = range(piece * self.rows, min((piece + 1) * self.rows, self.nodes))
            self.own_noise(draws[worker], round, nodes, out[nodes.start : nodes.stop])

        self.workers.each(-(-self.nodes // self.rows), own)
        if pairs.group is not None:
            group = GroupNoise.make(
                pairs.own, pairs.pair, pairs.group, pairs.on_air, device=self.device, dtype=self.dtype
            )
            group.apply(out)
            return
        edges = EdgeNoise.make(pairs.own, pairs.low, pairs.high, pairs.pair, pairs.on_air)
        edges.apply(out, lambda rows, low, high: draws[0].fill_pairs(rows, round, low, high))

    def column(self, values: FloatArray) -> Tensor:
        """`[K, 1]` on the device."""
        return self.tensor(values).unsqueeze(1)

    def tensor(self, values: FloatArray) -> Tensor:
        """On the device; converted before it becomes a tensor, which takes a third of the time."""
        return torch.from_numpy(values.astype(self._numbers)).to(device=self.device, non_blocking=True)
