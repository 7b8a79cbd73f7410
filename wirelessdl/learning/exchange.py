"""What happens to models on the air: noise, superposition, and further steps that send on what is held.

    payload   w = x + n in float64, rounded;   y = A w + receiver noise;   in messages Q(w), without receiver noise
    a step    y <- heard (A v + receiver noise) + before (the v before that);   v = w, and then v = y

Noise is drawn row by row in threads; only the mixing, and what pairs share, looks at all nodes. A step sends y as it
is, or scaled down to the power that its node has: by then it is a function of what was sent with its noise, and of
receiver noise.

Noise that pairs of nodes share, and that cancels in the network:

    n_j = a_j u_j + sum_k b_jk v_jk,    v_jk = -v_kj,    covariance over nodes: diag(a^2) + Laplacian(b^2)

    a_j    deviation of j's own noise; b_jk: of what j and k share; u, v: standard normal, fresh every round

Pairs are formed from a roster, before the frame. A partner that falls silent afterwards sends nothing, but what it
shares stays in the noise of the others.

Groups in which everyone is paired with everyone and b is common need no v: the covariance of those on air is diagonal
minus rank one, whatever their a, and has a root of that form. One draw per node gives exactly the same law:

    n_j = d_j (u_j - kappa q_j sum_k q_k u_k)        sums and the size h over those on air, g over the roster
    d_j^2 = a_j^2 + g b^2,   q_j = (1 / d_j) / sqrt(sum_k 1 / d_k^2),   kappa = 1 - sqrt(1 - b^2 sum_k 1 / d_k^2)

With equal a = b / r and all on air this is a sqrt(1 + g r^2) (u_j - kappa mean(u)), kappa = 1 - 1 / sqrt(1 + g r^2).
Any other pairs (`neighbours`) draw every v, keyed by pair and round. Real nodes always draw the v.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.learning.announced import AnnouncedStep, send_announced
from wirelessdl.learning.byzantine import AttackInput, RunningAttack
from wirelessdl.learning.clipping import wide
from wirelessdl.learning.draws import NodeDraws
from wirelessdl.learning.records import MessageInput, PairInput, RoundInput, StepInput
from wirelessdl.learning.robust import Robust
from wirelessdl.learning.runtime import Workers
from wirelessdl.learning.superposition import Segment, Superposer, quadrature, receiver_deviation

_PAIR_NUMBERS = 2**22  # that pairs share, drawn at a time
_NOISE_PIECE = 2**16  # numbers that a thread draws before it looks for more
_ON_ACCELERATORS = 2**26  # numbers of a piece there, which is about as much memory as the generator takes for them
_STEPS_DRAWN = 4  # announced steps whose receiver noise is drawn at once
_MAX_DENSE = 2**20  # numbers of a map of groups onto nodes, up to which it is a matrix


class Exchange:
    """Noise and superposition of K models of `size` numbers. draws, in its methods: one per worker, all alike."""

    def __init__(self, nodes: int, size: int, device: torch.device, dtype: torch.dtype, workers: Workers):
        self.nodes, self.size, self.device, self.dtype, self.workers = nodes, size, device, dtype, workers
        self.rows = max(1, (_NOISE_PIECE if device.type == "cpu" else _ON_ACCELERATORS) // size)
        self._numbers = np.float64 if dtype == torch.float64 else np.float32
        self.air, self.held_air = Superposer(device, dtype), Superposer(device, dtype)
        self.attack: RunningAttack | None = None
        self.robust: Robust | None = None
        self.radius = 0.0  # of the ball, over sqrt(m): what robust receivers take for the size of models

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

        def attacked() -> None:
            if given.attack is None or given.announced:
                return
            self._replace_(given.attack, given.round, 0, sent)
            if messages is not None:  # attackers choose bits of messages, too
                for node in given.attack.nodes.tolist():
                    self._round(messages, draws[0], given.round, range(node, node + 1), sent)

        if given.announced:

            def work(worker: int, piece: int) -> None:
                send(worker, range(piece * self.rows, min((piece + 1) * self.rows, self.nodes)))

            self.workers.each(-(-self.nodes // self.rows), work)
            out.copy_(sent)
            return None
        power = self._receive(given.segments, given.round, "thermal", draws, sent, out, self.air, send, attacked)
        if self.robust is not None:
            self._combine(self.robust, given, draws[0], sent, out)
        return power

    def _combine(self, robust: Robust, given: RoundInput, draws: NodeDraws, sent: Tensor, out: Tensor) -> None:
        """s_i = own_i w_i + (1 - own_i) R(values of i), in place of the mean."""
        noise = np.square(given.noise_scale)
        for segment in given.segments:
            assert segment.values is not None
            part, values = segment.coordinates, segment.values
            out[:, part] = sent[:, part] * self.column(values.own)
            if not len(values.receiver):
                continue
            drawn = torch.empty(len(values.receiver), self.size, dtype=self.dtype, device=self.device)
            draws.fill_normal(drawn, given.round, 0, (values.rank * self.nodes + values.receiver).tolist())
            got = drawn[:, part].mul_(self.column(values.deviation))
            got = got.addmm(self.tensor(values.mixing), sent[:, part])
            square = np.square(values.mixing)
            if values.crosstalk is not None:
                got = got.addmm(self.tensor(values.crosstalk), quadrature(sent[:, part]))
                square = square + np.square(values.crosstalk)
            limit = self.tensor(self.radius**2 + square @ noise + np.square(values.deviation))
            weight = self.tensor(values.weight)
            for receiver in np.unique(values.receiver).tolist():
                first, last = np.searchsorted(values.receiver, [receiver, receiver + 1]).tolist()
                mine = slice(first, last)
                found = robust.combine(got[mine], weight[mine], limit[mine])
                out[receiver, part] += found * weight[mine].sum()

    def _replace_(self, attack: AttackInput, round: int, step: int, sent: Tensor) -> None:
        """What attackers send in place of their payloads. step: of the round, from 0."""
        assert self.attack is not None
        self.attack.replace_(attack, round, step, sent)

    def announced_steps(
        self,
        steps: Sequence[AnnouncedStep],
        round: int,
        draws: NodeDraws,
        held: Tensor,
        attack: AttackInput | None = None,
        noise_scale: FloatArray | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Payloads in sequence, in place: `held` is w at first. W radiated, summed over payloads, `[K]`, and the
        variance that receivers added to the sum of all nodes. noise_scale: [K] of what they sent, for robust receivers.
        """
        radiated, added = (torch.zeros(shape, dtype=torch.float64, device=self.device) for shape in (self.nodes, ()))
        nodes, extra = held, max((len(step.own) for step in steps), default=self.nodes) - self.nodes
        if extra:  # a server, which holds nothing as a frame opens
            held, radiated = (torch.cat([part, part.new_zeros(extra, *part.shape[1:])]) for part in (held, radiated))
        before, collected = held, None
        if self.robust is not None and noise_scale is not None:
            collected = _Collected(self.robust, self.radius**2, np.square(noise_scale), len(held))
        for number, step in enumerate(steps):
            if step.together and step.opens:
                before = held.clone()
            if number % _STEPS_DRAWN == 0:  # of several steps at once: those of a single receiver are short
                some = steps[number : number + _STEPS_DRAWN]
                # a server receives alone: draws of node 0, which does not receive then, are free
                rows = np.concatenate(
                    [self.nodes * n + one.receivers % self.nodes for n, one in enumerate(some, number)]
                )
                drawn = torch.empty(len(rows), self.size, dtype=self.dtype, device=self.device)
                draws.fill_normal(drawn, round, 0, rows.tolist())
            noise, drawn = drawn[: len(step.receivers)], drawn[len(step.receivers) :]
            sent = [before] if step.together else []
            if attack is not None and np.isin(attack.nodes, step.senders).any():
                sent = [(before if step.together else held).clone()]
                self._replace_(attack, round, number, sent[0])
            kept = held[int(step.rx[0])].clone() if step.value is not None else None
            power, variance = self.announce(step, held, noise, *sent)
            if collected is not None:
                collected.take(step, held, kept)
            radiated += power
            added += variance
        if extra:
            nodes.copy_(held[: self.nodes])
        return radiated[: self.nodes], added

    def announce(
        self, step: AnnouncedStep, held: Tensor, noise: Tensor, sent: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """One payload by the announced size of what senders hold, see `send_announced`."""
        return send_announced(step, held, noise, sent)

    def held_steps(
        self,
        steps: Sequence[StepInput],
        round: int,
        draws: Sequence[NodeDraws],
        before: Tensor,
        y: Tensor,
        spare: Tensor,
        attack: AttackInput | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The y of the last step, the two tensors that are free again, ||v||^2 / m of what was held and sent, `[K]`.

        steps: all of a frame, the first of which was received in y. before: what it sent, which is overwritten, as is
        `spare`.
        """
        power = torch.zeros(self.nodes, dtype=self.dtype, device=self.device)
        self._weigh(steps[0], y, before)
        for number, one in enumerate(steps[1:]):
            if attack is not None:
                self._replace_(attack, round, 1 + number, y)
            power += self._limit(one, y, before) * self.tensor(one.power_ratio)
            self._receive(one.segments, round, number, draws, y, spare, self.held_air, None)
            self._weigh(one, spare, before)
            before, y, spare = y, spare, before
        return y, before, spare, power

    def _limit(self, one: StepInput, y: Tensor, before: Tensor) -> Tensor:
        """Scale down what a node has no power for, in place; ||y||^2 / m of what is left, `[K]`.

        The y before that is scaled likewise: as it is weighed by less than 0, it would take away more than is left.
        """
        held, limit = torch.linalg.vector_norm(y, dim=1).square_().div_(self.size), self.tensor(one.limit)
        factor = torch.where(held > limit, (limit / held).sqrt_(), 1.0).unsqueeze(1)
        y.mul_(factor)  # bit for bit the same where the factor is 1
        if one.before.any():
            before.mul_(factor)
        return torch.minimum(held, limit)

    def _weigh(self, one: StepInput, out: Tensor, before: Tensor) -> None:
        """heard (what was received) + before (the y before that), in place of what was received."""
        if one.plain:
            return
        out.mul_(self.column(one.heard))
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
        air: Superposer,
        send: Callable[[int, range], None] | None,
        attacked: Callable[[], None] = lambda: None,
    ) -> Tensor | None:
        """Receiver noise, and then A of what was sent, into `out`; send: what each piece of nodes does first, attacked:
        what is done to `sent` after it."""
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
        attacked()
        air.superpose(segments, sent, out)
        return power

    def _round(self, messages: MessageInput, draws: NodeDraws, round: int, nodes: range, sent: Tensor) -> None:
        """Q(w) in place of w, of some nodes as far as they send."""
        part = sent[nodes.start : nodes.stop]
        dither = torch.empty(part.shape, dtype=wide(self.device), device=self.device)
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
            group_noise_(out, pairs)
        else:
            edge_noise_(out, pairs, lambda rows, low, high: draws[0].fill_pairs(rows, round, low, high))

    def column(self, values: FloatArray) -> Tensor:
        """`[K, 1]` on the device."""
        return self.tensor(values).unsqueeze(1)

    def tensor(self, values: FloatArray) -> Tensor:
        """On the device; converted before it becomes a tensor, which takes a third of the time."""
        return torch.from_numpy(values.astype(self._numbers)).to(device=self.device, non_blocking=True)


class _Collected:
    """Values that hubs keep apart until the last of a turn, and by which weights means of holdings carry noise.

    square: R^2; noise: [K] variance that each sent. Limits are of honest holdings without receiver noise, which is far
    below them wherever a link counts as one.
    """

    def __init__(self, robust: Robust, square: float, noise: FloatArray, holders: int):
        self._robust, self._square = robust, square
        self._noise = np.append(noise, np.zeros(holders - len(noise)))
        self._carried: FloatArray = np.eye(holders)
        self._values: list[Tensor] = []
        self._shares: list[FloatArray] = []

    def take(self, step: AnnouncedStep, held: Tensor, kept: Tensor | None) -> None:
        """After a payload. kept: what the hub of a group's held before it."""
        if step.value is None or kept is None:
            if step.needed is None and step.ratio.any():  # sent back
                self._carried[step.rx] = self._carried[step.tx[0]]
            return
        if step.value.opens:
            self._values, self._shares = [], []
        hub = int(step.rx[0])
        self._values.append(held[hub].clone())
        self._shares.append(self._carried[step.tx].mean(axis=0))
        held[hub] = kept
        if not step.value.closes:
            return
        shares, own, values = np.stack(self._shares), step.value.own, torch.stack(self._values)
        limit = torch.from_numpy(self._square + np.square(shares) @ self._noise).to(values)
        held[hub] = own * kept + (1.0 - own) * self._robust.combine(values, torch.ones_like(limit), limit)
        self._carried[hub] = own * self._carried[hub] + (1.0 - own) * shares.mean(axis=0)


def group_noise_(draws: Tensor, pairs: PairInput) -> None:
    """Turn standard normal numbers, `[K, m]`, one row per node, into noise of groups of pairs, in place."""
    assert pairs.group is not None
    own, group, on_air = pairs.own, pairs.group, pairs.on_air
    paired = group >= 0
    pair = np.where(paired, pairs.pair, 0.0)
    label, groups = np.where(paired, group, 0), int(group.max(initial=-1)) + 1
    listed = np.bincount(label[paired], minlength=groups + 1)
    common = np.zeros(groups + 1)
    common[label[paired]] = pair[paired]
    if not np.array_equal(common[label[paired]], pair[paired]):
        raise ValueError("pair differs within a group; must be one deviation per group, or draw every pair")
    square = own**2 + listed[label] * pair**2
    counted = paired & on_air & (square > 0)
    inverse = np.divide(1.0, square, out=np.zeros_like(square), where=counted)
    total = np.bincount(label, weights=inverse, minlength=groups + 1)
    # 1 - b^2 sum 1/d^2, term by term: the difference itself would cancel where b is much larger than a
    sent = np.bincount(label[counted], minlength=groups + 1)
    spare = own**2 + (listed - sent)[label] * pair**2
    heads = np.maximum(sent, 1)[label]
    left = np.bincount(label, weights=spare * inverse / heads, minlength=groups + 1)
    kappa = 1.0 - np.sqrt(left)
    direction = np.where(counted, np.sqrt(inverse / np.where(total > 0, total, 1.0)[label]), 0.0)
    if groups * len(own) <= _MAX_DENSE:
        matrix = np.zeros((groups, len(own)))
        matrix[label[counted], np.flatnonzero(counted)] = direction[counted]
        onto, back = (torch.as_tensor(part).to(draws) for part in (matrix, matrix.T * kappa[:groups]))
        if groups:
            draws.addmm_(back, onto @ draws, alpha=-1.0)
    else:  # in as much memory as there are nodes
        q, factor = (torch.as_tensor(part).to(draws).unsqueeze(1) for part in (direction, kappa[:groups]))
        of_node = torch.as_tensor(label).to(draws.device)
        sums = torch.zeros(groups, draws.shape[1], dtype=draws.dtype, device=draws.device)
        sums.index_add_(0, of_node, draws * q)
        draws.addcmul_(sums.mul_(factor).index_select(0, of_node), q, value=-1.0)
    draws.mul_(torch.as_tensor(np.where(on_air, np.sqrt(square), 0.0)).to(draws).unsqueeze(1))


def edge_noise_(draws: Tensor, pairs: PairInput, draw_pairs: Callable[[Tensor, IntArray, IntArray], None]) -> None:
    """Turn standard normal numbers, `[K, m]`, into noise of listed pairs, in place; as many at a time as fit in memory.

    Pairs may be in any order, each named once. draw_pairs: fills rows with what pairs low < high share in this round.
    """
    low, high = np.minimum(pairs.low, pairs.high), np.maximum(pairs.low, pairs.high)
    order = np.lexsort((high, low))  # of sums, which decides the last bit
    low, high, deviation = low[order], high[order], pairs.pair[order]
    if (low == high).any() or ((np.diff(low) == 0) & (np.diff(high) == 0)).any():
        raise ValueError("a pair is named twice, or joins a node with itself")
    draws.mul_(torch.as_tensor(np.where(pairs.on_air, pairs.own, 0.0)).to(draws)[:, None])
    heard = np.flatnonzero(pairs.on_air[low] | pairs.on_air[high])
    at_once = max(1, _PAIR_NUMBERS // max(1, draws.shape[1]))
    for some in (heard[start : start + at_once] for start in range(0, len(heard), at_once)):
        shared = draws.new_empty(len(some), draws.shape[1])
        draw_pairs(shared, low[some], high[some])
        for end, sign in ((low[some], 1.0), (high[some], -1.0)):
            weight = torch.as_tensor(np.where(pairs.on_air[end], sign * deviation[some], 0.0)).to(draws)
            draws.index_add_(0, torch.as_tensor(end, device=draws.device), shared * weight[:, None])
