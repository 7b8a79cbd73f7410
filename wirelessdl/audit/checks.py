"""Checks of the engine that need no attack: each holds one condition of the proof to account, in one run or a few.

shift, transcript    Twins: two engines on neighbouring data sets, node j made to send the same w (`Wiretap.force`).
                     Then x_j may move by what is charged for, mu_j times the deviation of its own noise, and all that
                     is sent, in the payload and in passes, and every s must be equal bit for bit: functions of w.
covariance           of w - x over nodes, and of rounds with later rounds, and its variance in every coordinate, beside
                     the law that is declared. Noise is whitened by the declared covariance Sigma_t = L_t L_t^T:

                         z_t = L_t^-1 (w_t - x_t),   mean over rounds and coordinates of z_t z_(t+lag)^T = I or 0

reception            s and all that passes send, recomputed in float64 from the payload and the receivers' noise;
                     of announced payloads, each from what was held before it.
closed form          Sigma of groups whose noise is drawn in closed form, beside that of their pairs.

Deviations of covariances are allowed up to bounds that hold for every number of draws n (Chernoff), u = ln(1 / share of
the false alarm): products of independent normals sqrt(2 u / n) + 2 u / n, also where each is a factor of two products;
squares 2 sqrt(u / n) + 2 u / n (Laurent and Massart 2000, lemma 1). All entries share the false alarm (union bound).

Under digital access noise is compared before it is rounded: frames of the covariance are sent without the quantiser.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.linalg import solve_triangular
from torch import Tensor

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.audit.recording import Recording
from wirelessdl.audit.wiretap import Wiretap, closed_form_error, noise_covariance, unnoised_models, wiretap
from wirelessdl.learning.announced import send_announced
from wirelessdl.learning.draws import NodeDraws
from wirelessdl.learning.engine import LearningEngine
from wirelessdl.learning.records import RoundInput, StepInput
from wirelessdl.learning.superposition import Segment, Superposer
from wirelessdl.streams import Streams

FALSE_ALARM = 1e-6  # of each covariance check of a sound engine with ideal noise
_ALARM_WORDS = f"false alarm {FALSE_ALARM:g}"
MIN_DRAWS_PER_NODE = 2**16  # of each node's noise, over rounds, coordinates and runs
MIN_DRAWS_PER_COORDINATE = 256  # of each coordinate's, over rounds, nodes and runs: enough to see one without noise
MAX_NUMBERS_HELD = 2**24  # of whitened noise, and of covariances, at once
_SLACK = 1e-9  # of norms and covariances in float64


@dataclass(frozen=True)
class Check:
    """What was measured, what is allowed, and where the worst was found, in words."""

    name: str
    measured: float
    allowed: float
    words: str

    @property
    def sound(self) -> bool:
        return self.measured <= self.allowed  # never where it is not a number


def run_checks(
    engines: tuple[LearningEngine, LearningEngine],
    recording: Recording,
    node: int,
    streams: Callable[[int], Streams],
) -> tuple[Check, ...]:
    """All checks. engines: tapped, their data differ in one sample of the node; streams: of a run by its number."""
    return (
        *_twins(engines, recording, node, streams(0)),
        *_covariance(engines[0], recording.inputs, streams),
        _reception(engines[0], recording.inputs, streams(0)),
        *_closed_form(recording.inputs),
    )


def _twins(
    engines: tuple[LearningEngine, LearningEngine], recording: Recording, node: int, streams: Streams
) -> Iterator[Check]:
    normal = streams.draws("audit.transcript")
    for engine in engines:
        engine.restart(streams)
    one, other = engines
    # w is forced bit for bit in float32; in float64 a rounding is left of the noise that forces it
    rounding = 0.0 if one.dtype == torch.float32 else 1e3 * torch.finfo(one.dtype).eps
    worst, moved_in, apart, first, largest = 0.0, 0, 0.0, "", 0.0
    moved = paid = 0.0  # of a Gram stage, whose frames are one release
    for given, decision, mu in zip(recording.inputs, recording.decisions, recording.mu("own")[:, node]):
        x, x_other = (unnoised_models(engine, given)[node] for engine in engines)
        if decision.on_air[node]:
            own = float((given.noise_scale if given.pairs is None else given.pairs.own)[node])
            shift, charge = _largest(torch.linalg.vector_norm(x_other - x)), float(mu) * own
            shift = max(shift - rounding * _largest(torch.linalg.vector_norm(x)), 0.0)
            if given.gram is not None:
                moved, paid = math.hypot(moved, shift / own), math.hypot(paid, float(mu))
                shift, charge = moved, paid
            share = shift / charge if charge > 0 else math.inf if shift > 0 else 0.0
            if share > worst:
                worst, moved_in = share, given.round
            drawn = torch.from_numpy(normal.standard_normal(len(x)))
            target = (x + float(given.noise_scale[node]) * drawn).to(one.dtype)
            for engine, model in zip(engines, (x, x_other)):
                wiretap(engine).force(given, node, model, target)
        for engine in engines:
            engine.round(given)
        largest = max(largest, _largest(one.held))
        for what, here, there in _transcript(one, other, torch.from_numpy(decision.on_air)):
            difference = _largest(here - there) if here.shape == there.shape else math.inf
            if difference > apart:
                apart, first = difference, first or f"from {what} in round {given.round} on"
    where = f"most in round {moved_in}" if moved_in else "it does not move"
    yield Check("shift of x over its charge", worst, 1.0 + _SLACK, f"{where}; given what was sent before")
    words = first or "all that is sent, and every s"
    yield Check("difference of twins that send the same w", apart, rounding * largest, words)


def _transcript(one: LearningEngine, other: LearningEngine, on_air: Tensor) -> Iterator[tuple[str, Tensor, Tensor]]:
    """What two engines sent and hold after a round."""
    taps = wiretap(one), wiretap(other)
    yield "what is sent", taps[0].sent[on_air], taps[1].sent[on_air]
    yield "the number of passes", torch.zeros(len(taps[0].passed) + 1), torch.zeros(len(taps[1].passed) + 1)
    for number, (here, there) in enumerate(zip(taps[0].passed, taps[1].passed), start=1):
        yield f"pass {number}", here[: len(on_air)][on_air], there[: len(on_air)][on_air]
        yield f"pass {number}, of a server", here[len(on_air) :], there[len(on_air) :]
    yield "s", one.held, other.held
    if one.gram is not None and other.gram is not None:
        yield "what a Gram stage gave", one.gram.heard, other.gram.heard


def _largest(values: Tensor) -> float:
    """Largest magnitude; infinite where one is not a number."""
    found = float(values.abs().max()) if values.numel() else 0.0
    return math.inf if math.isnan(found) else found


# --- the law of the noise


def _covariance(
    engine: LearningEngine, inputs: tuple[RoundInput, ...], streams: Callable[[int], Streams]
) -> Iterator[Check]:
    """Over nodes, over rounds, and of every coordinate."""
    rounds, nodes, size = len(inputs), engine.nodes, engine.learner.size
    stride = -(-rounds * nodes * size // MAX_NUMBERS_HELD)
    lags = min(rounds, max(2, MAX_NUMBERS_HELD // nodes**2))
    kept = len(range(0, size, stride))
    roots, present = _declared_roots(inputs)
    runs = max(-(-MIN_DRAWS_PER_NODE // (rounds * kept)), -(-MIN_DRAWS_PER_COORDINATE // max(int(present.sum()), 1)))
    products, counts = np.zeros((lags, nodes, nodes)), np.zeros((lags, nodes, nodes))
    squares = np.zeros(size)
    for run in range(runs):
        engine.restart(streams(run))
        white = np.zeros((rounds, nodes, kept))
        for number, given in enumerate(inputs):
            models = unnoised_models(engine, given)
            engine.round(replace(given, messages=None))
            noise = (wiretap(engine).sent.double() - models).cpu().numpy()[present[number]]
            root = roots[number]
            here = noise / root[:, None] if root.ndim == 1 else solve_triangular(root, noise, lower=True)
            squares += np.square(here).sum(axis=0)
            white[number, present[number]] = here[:, ::stride]
        for lag in range(lags):
            for early, late in zip(range(rounds - lag), range(lag, rounds)):
                products[lag] += white[early] @ white[late].T
                counts[lag] += kept * np.outer(present[early], present[late])
    off = np.divide(products, counts, out=np.zeros_like(products), where=counts > 0)
    off[0] -= np.diag(np.diagonal(counts[0]) > 0)
    yield _worst_entry("covariance of noise over nodes, error", off[:1], counts[:1], 0)
    yield _worst_entry("covariance of noise over rounds, error", off[1:], counts[1:], 1)
    draws = max(runs * float(present.sum()), 1.0)
    error = np.abs(squares / draws - 1.0)
    words = f"coordinate {int(error.argmax())}, {draws:.0f} draws; {_ALARM_WORDS}"
    yield Check(
        "variance of noise in a coordinate, error", float(error.max()), float(square_bound(draws, _share(size))), words
    )


def _declared_roots(inputs: tuple[RoundInput, ...]) -> tuple[list[FloatArray], BoolArray]:
    """L of who sends noise in each round, or deviations where nothing is shared; and who does, `[rounds, K]`."""
    roots, present = [], []
    for given in inputs:
        if given.pairs is None:
            sends = given.noise_scale > 0
            roots.append(given.noise_scale[sends])
        else:
            sigma = noise_covariance(given.pairs)
            sends = np.diagonal(sigma) > 0
            roots.append(np.asarray(np.linalg.cholesky(sigma[np.ix_(sends, sends)]), dtype=np.float64))
        present.append(sends)
    return roots, np.stack(present)


def _worst_entry(name: str, off: FloatArray, counts: FloatArray, first_lag: int) -> Check:
    """The entry that is furthest beyond its bound, or closest to it. off, counts: [lags, K, K], from a first lag on."""
    share, draws = _share(off.size), np.maximum(counts, 1.0)
    allowed = product_bound(draws, share)
    if first_lag == 0:
        diagonal = np.arange(off.shape[1])
        allowed[0, diagonal, diagonal] = square_bound(draws[0, diagonal, diagonal], share)
    worst = np.unravel_index(np.argmax(np.abs(off) / allowed), off.shape)
    lag, *ends = (int(index) for index in worst)
    apart = f", lag {lag + first_lag}" if first_lag else ""
    words = f"nodes {ends[0]} and {ends[1]}{apart}, {int(counts[worst])} draws; {_ALARM_WORDS}"
    return Check(name, float(np.abs(off[worst])), float(allowed[worst]), words)


def _share(entries: int) -> float:
    """u of one of so many entries, on either side."""
    return math.log(2.0 * max(entries, 1) / FALSE_ALARM)


def product_bound(draws: FloatArray | float, share: float) -> FloatArray:
    """Of the mean of products of two normals, exceeded with probability e^-share at most on either side."""
    return np.asarray(np.sqrt(2.0 * share / draws) + 2.0 * share / draws)


def square_bound(draws: FloatArray | float, share: float) -> FloatArray:
    """Of the mean of squares, less one."""
    return np.asarray(2.0 * np.sqrt(share / draws) + 2.0 * share / draws)


# --- what is received and sent on


def _reception(engine: LearningEngine, inputs: tuple[RoundInput, ...], streams: Streams) -> Check:
    engine.restart(streams)
    tap, worst, where = wiretap(engine), 0.0, ""
    longest = max((len(given.steps) for given in inputs), default=0)
    for given in inputs:
        engine.round(given)
        again = _announced_again(engine.draws, given, tap) if given.announced else None
        *passed, held = again or _recomputed(engine.draws, given, tap.sent)
        away = torch.from_numpy(given.update.keep)
        s = engine.held if given.gram is None or engine.gram is None else engine.gram.chunk(given.round)
        pairs = [(f"pass {number}", *both) for number, both in enumerate(zip(tap.passed, passed), start=1)]
        for what, found, expected in (*pairs, ("s", s[~away], held[~away])):
            size = max(_largest(expected), np.finfo(np.float64).tiny)
            error = _largest(found.double() - expected) / size if math.isfinite(size) else math.inf
            if error > worst or not where:
                worst, where = error, f"{what} in round {given.round}"
        if len(tap.passed) != len(passed):
            worst, where = math.inf, f"{len(tap.passed)} passes instead of {len(passed)} in round {given.round}"
    # sums of K products in each pass, rounded to the engine's numbers
    allowed = torch.finfo(engine.dtype).eps * (64 + engine.nodes) * (1 + longest * (longest > 1))
    words = f"{where}; recomputed from payload and receiver noise"
    return Check("s and passes, relative error", worst, allowed, words)


def _recomputed(draws: NodeDraws, given: RoundInput, sent: Tensor) -> list[Tensor]:
    """What every pass sends, and at last s, `[K, m]` in float64. sent: what the payload carried."""
    air = Superposer(sent.device, torch.float64)

    def received(segments: tuple[Segment, ...], w: Tensor, purpose: str | int) -> Tensor:
        noise = torch.empty_like(sent)
        draws.fill_normal(noise, given.round, purpose)
        out, power = noise.double(), w.square().mean(dim=1)
        for segment in segments:
            thermal, own = (torch.from_numpy(v) for v in (segment.thermal_scale, segment.self_interference_scale))
            out[:, segment.coordinates] *= (thermal.square() + own.square() * power).sqrt().unsqueeze(1)
        air.superpose(segments, w, out)
        return out

    def weighed(one: StepInput, heard: Tensor, before: Tensor) -> Tensor:
        now, earlier = (torch.from_numpy(weight).unsqueeze(1) for weight in (one.heard, one.before))
        return now * heard + earlier * before

    w = sent.double()
    y, before, found = received(given.segments, w, "thermal"), w, []
    for number, one in enumerate(given.steps):
        if number == 0:
            y = weighed(one, y, w)
            continue
        power, limit = y.square().mean(dim=1), torch.from_numpy(one.limit)
        factor = torch.where(power > limit, (limit / power).sqrt(), 1.0).unsqueeze(1)
        y, before = y * factor, before * factor
        found.append(y)
        y, before = weighed(one, received(one.segments, y, number - 1), before), y
    return [*found, y]


def _announced_again(draws: NodeDraws, given: RoundInput, tap: Wiretap) -> list[Tensor]:
    """What is held before every announced payload, and at last s, `[K, m]` in float64: w, then one from another.

    From what was really held before, since the size that is announced is rounded: a last bit may decide it.
    """
    found = [tap.sent.double()]
    for number, (step, before) in enumerate(zip(given.announced, tap.passed)):
        receivers = (np.unique(step.rx) % len(tap.sent)).tolist()
        noise = before.new_empty(len(receivers), before.shape[1])
        draws.fill_normal(noise, given.round, number, receivers)
        held = before.double()
        send_announced(step, held, noise.double())
        found.append(held)
    found[0] = torch.cat([found[0], found[0].new_zeros(len(found[-1]) - len(found[0]), found[0].shape[1])])
    found[-1] = found[-1][: len(tap.sent)]
    return found


def _closed_form(inputs: tuple[RoundInput, ...]) -> Iterator[Check]:
    errors = [closed_form_error(given.pairs) for given in inputs if given.pairs and given.pairs.group is not None]
    if errors:
        words = "noise of groups beside noise of their pairs"
        yield Check("covariance of closed form, error", max(errors), _SLACK, words)
