"""The joint plan of pairwise-cancelling noise: pair ratio r and balancing exponent e with the least predicted error.

Given powers, mean gains, the variance V that must stay hidden from a coalition of c, passes and rounds T, choose r and
e such that the variance of a node's model at the end, per coordinate, is least:

    J(r, e) = mean + apart

    mean  = T (a^2 / K + mu)      variance of the network's mean: every round adds to it, and mixing keeps it
    apart = trace(D) / K          variance of a node about that mean: D = Q (D + S) Q' + R, which settles

    a^2 = V / (1 + (p - c) r^2 / (1 + r^2))     own noise of a node with p partners, c of whom collude
    N^2 = a^2 (1 + p r^2)                       all noise that a node sends, so alpha = 1 / (1 + N^2 / sigma^2)
    S   = a^2 (I + (p + 1) r^2 (I - 1 1'/K))    covariance of what is sent, over nodes
    Q   = P(A(e)) - 1 1'/K                      what payload and passes leave of disagreement; P: their polynomial
    R, mu   receiver noise of payload and passes: in each node about the mean (diagonal), and in the mean

A(e) comes from the mean gains, amplitudes balanced by power with exponent e, and receiver balancing. Everything here is
public: powers, gains, sizes and settings. Pairs are taken as complete: S is exact where p = K - 1. Closing passes are
not counted: they shrink `apart` of whatever is chosen. From 200 nodes on traces are estimated with random vectors.

In large networks traces come from drawn vectors, linear in the links. A trace of K x K matrices is the mean of
quadratic forms of random signs g (Hutchinson 1990):

    trace(Q^t W Q^t') = E |Q^t W^(1/2) g|^2,    relative deviation about sqrt(2 / (K n)) of n vectors

Q is applied by M passes with the sparse A. What every round adds has three parts, whose size alone depends on the pair
ratio: noise of senders, receiver noise of the payload, and that of the passes. Each is followed for 200 rounds; from
there on it falls by a constant factor a round, and the rest is a geometric sum. Receiver noise of passes keeps its
covariances, of which the dense form takes the diagonal. A must be doubly stochastic.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from wirelessdl.arrays import FloatArray
from wirelessdl.chebyshev import Passes, Response, fitted, plain, response
from wirelessdl.links import Links
from wirelessdl.mixing import (
    Mixing,
    balanced_air,
    balancing_amplitudes,
    expected_spectrum,
    mix,
    part_of_the_way,
    sparse,
)

RATIOS = (0.0, 0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.7, 8.0)
EXPONENTS = (0.0, 1 / 6, 1 / 3, 1 / 2, 2 / 3, 1.0)
_MAX_DENSE_NODES = 200  # nodes up to which traces are computed from K x K matrices
_DOUBLINGS = 12  # 4096 rounds: disagreement has settled
_FOLLOWED_ROUNDS = 200
_MAX_FORECAST_ROUNDS = 4096  # of the dense form, at most
_DRAWN_NUMBERS = 8000  # of all vectors together, at least: 1.6% of deviation


@dataclass(frozen=True, eq=False)
class Traces:
    """Variance per node and coordinate, about the mean of all, that settles where every round adds a unit.

    sent: of white noise at the senders. payload, passes: of thermal noise of 1 W at the receivers, in the payload and
    in each of the passes. payload_mean, passes_mean: of the network's mean, added by every round.
    """

    sent: float
    payload: float
    passes: float
    payload_mean: float
    passes_mean: float


def traces(passes: Passes, weights: csr_array, scale: FloatArray) -> Traces:
    """Of payload and passes with one A[rx, tx]. scale: [K] by which receivers multiply what they hear."""
    nodes = weights.shape[0]
    rng = np.random.default_rng(0)  # the same every time
    columns = -(-_DRAWN_NUMBERS // nodes)

    def signs() -> FloatArray:
        return rng.choice([-1.0, 1.0], (nodes, columns))

    noise = [scale[:, None] * signs() for _ in range(len(passes))]
    none = [np.zeros((nodes, columns))] * len(passes)
    first = _mixed(passes, weights, none[0], [noise[0], *none[1:]])
    later = _mixed(passes, weights, none[0], [none[0], *noise[1:]])
    state = np.hstack([_mixed(passes, weights, signs(), none), first, later])
    state -= state.mean(axis=0)
    settled = _settled_draws(passes, weights, state, columns)
    # the mean takes 1'N_k = s_k 1' of receiver noise, as columns of A sum to one
    mean = passes.to_mean() ** 2 * float(np.sum(scale**2)) / nodes**2
    return Traces(settled[0], settled[1], settled[2], float(mean[0]), float(mean[1:].sum()))


def _mixed(passes: Passes, weights: csr_array, sent: FloatArray, noise: list[FloatArray]) -> FloatArray:
    """What payload and passes make of what is sent, `[K, n]`, with receiver noise of each."""
    before, now = np.zeros_like(sent), sent
    for k in range(len(passes)):
        heard = passes.heard[k] * (weights @ now + noise[k])
        before, now = now, heard + passes.before[k] * before
    return now


def _settled_draws(passes: Passes, weights: csr_array, state: FloatArray, columns: int) -> list[float]:
    """Sum over rounds of the mean square of every group of columns, as each round mixes them again."""
    nothing = [np.zeros_like(state)] * len(passes)
    total, last = np.zeros(3), np.zeros(3)
    for _ in range(_FOLLOWED_ROUNDS):
        before, last = last, np.square(state).mean(axis=0).reshape(3, columns).mean(axis=1)
        total += last
        if (last <= 1e-6 * total).all():
            return [float(value) for value in total]
        state = _mixed(passes, weights, state, nothing)
        state -= state.mean(axis=0)
    factor = np.divide(last, before, out=np.zeros(3), where=before > 0)
    left = _MAX_FORECAST_ROUNDS - _FOLLOWED_ROUNDS
    rest = last * factor * np.where(factor < 1, (1 - factor**left) / np.maximum(1 - factor, 1e-12), left)
    return [float(value) for value in total + rest]


@dataclass(frozen=True)
class JointSettings:
    """What the choice rests on in every network.

    passes: after the payload. thermal_w: receiver noise, W. radius: most that a node holds per coordinate, without the
    noise; with the noise it sets the scale of passes.
    """

    passes: int
    chebyshev: bool
    thermal_w: float
    rounds: int
    full_power: bool
    radius: float


@dataclass(frozen=True, eq=False)
class JointProblem:
    """What the choice rests on.

    gain: [links] mean |h|. power_w: [K] W. hidden: variance that must stay hidden, in the model's units; sigma: of eta.
    partners: of a node with everyone on air.
    """

    links: Links
    gain: FloatArray
    power_w: FloatArray
    hidden: float
    sigma: float
    partners: int
    coalition: int
    settings: JointSettings

    def own(self, ratio: float) -> float:
        """a^2 that hides enough."""
        square = ratio**2
        return self.hidden / (1.0 + max(self.partners - self.coalition, 0) * square / (1.0 + square))

    def sent(self, ratio: float) -> float:
        """N^2, variance of all noise that a node sends."""
        return self.own(ratio) * (1.0 + self.partners * ratio**2)

    def alpha(self, ratio: float) -> float:
        """Share of power that is left for the model."""
        return 1.0 / (1.0 + self.sent(ratio) / self.sigma**2)


@dataclass(frozen=True, eq=False)
class Forecast:
    """Predicted variance per coordinate of a node's model. mean: of the consensus; apart: of a node from it."""

    ratio: float
    exponent: float
    mean: float
    apart: float
    alpha: float

    @property
    def error(self) -> float:
        return self.mean + self.apart


@dataclass(frozen=True, eq=False)
class JointPlan:
    """The choice, all that it was made from, and amplitudes over those of full power, `[K]`; notes: what failed."""

    problem: JointProblem
    best: Forecast
    tried: tuple[Forecast, ...]
    share: FloatArray
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Shape:
    """Amplitudes of an exponent over those of full power, `[K]`, and the mixing of one pass with them."""

    exponent: float
    share: FloatArray
    weights: Mixing


def shapes(problem: JointProblem, exponents: Sequence[float]) -> tuple[tuple[Shape, ...], tuple[str, ...]]:
    """Of those exponents that exist, else of full power, and what failed; the number of passes does not matter."""
    links, gain, most = problem.links, problem.gain, np.sqrt(problem.power_w)
    weight, reason = balancing_amplitudes(links, gain) if any(exponents) else (None, "")  # once: a linear program
    found = []
    for exponent in exponents if weight is not None else (0.0,):
        share = np.ones(links.nodes) if weight is None or not exponent else part_of_the_way(weight, most, exponent)
        mixing = mix(links, gain, most * share, air=balanced_air(links, gain, most * share))
        found.append(Shape(exponent, share, mixing))
    return tuple(found), (f"amplitudes are not balanced by power: {reason}",) if reason else ()


def choose(
    problem: JointProblem, ratios: Sequence[float] = RATIOS, exponents: Sequence[float] = EXPONENTS
) -> JointPlan:
    """The pair ratio and exponent with the least predicted error, of those given."""
    found, notes = shapes(problem, exponents)
    tried = [(one, shape) for shape in found for one in predict(problem, shape, ratios)]
    best, shape = min(tried, key=lambda pair: pair[0].error)
    return JointPlan(problem, best, tuple(one for one, _ in tried), shape.share, notes)


def choose_by_mean(
    problem: JointProblem, ratios: Sequence[float], receiver: float, alignment: float, apart: float
) -> JointPlan:
    """The pair ratio with the least effective noise where one receiver is aligned at a time, or hubs send means back.

        kappa^2 = (K / F) (1 + (1 + p r^2) (receiver + alignment)),   F = hidden / a^2

    receiver, alignment: what the air adds to the mean, per unit of what a node sends; apart: disagreement at the end.
    """
    nodes, tried = problem.links.nodes, []
    for ratio in ratios:
        sent = problem.sent(ratio)
        mean = problem.settings.rounds * (problem.own(ratio) + sent * (receiver + alignment)) / nodes
        tried.append(Forecast(ratio, 0.0, mean, sent * apart**2, problem.alpha(ratio)))
    best = min(tried, key=lambda one: one.error)
    return JointPlan(problem, best, tuple(tried), np.ones(nodes), ())


def predict(problem: JointProblem, shape: Shape, ratios: Sequence[float]) -> list[Forecast]:
    """J of these amplitudes at every ratio."""
    if problem.links.nodes > _MAX_DENSE_NODES:
        passes = _passes(problem.settings, lambda: expected_spectrum(shape.weights))
        found = traces(passes, sparse(shape.weights), shape.weights.scale)
        return [_by_traces(problem, found, ratio, shape.exponent) for ratio in ratios]
    dense = shape.weights.dense
    mixed = response(_passes(problem.settings, lambda: np.linalg.eigvals(dense)), dense)
    return [forecast(problem, mixed, shape.weights.scale, ratio, shape.exponent) for ratio in ratios]


def forecast(problem: JointProblem, mixed: Response, scale: FloatArray, ratio: float, exponent: float) -> Forecast:
    """J of one choice. mixed: what payload and passes do; scale: [K] by which receivers multiply what they hear."""
    nodes = problem.links.nodes
    own, alpha = problem.own(ratio), problem.alpha(ratio)
    payload, again = _heard_noise(problem, ratio)
    factor = np.array([payload, *[again] * problem.settings.passes])
    noise = problem.settings.thermal_w * scale**2 * factor[:, None]
    mean = problem.settings.rounds * (own / nodes + mixed.mean_variance(noise))
    middle = np.full((nodes, nodes), 1.0 / nodes)
    apart = mixed.mixing - middle
    shared = own * (
        np.eye(nodes) * (1.0 + (problem.partners + 1) * ratio**2) - ratio**2 * (problem.partners + 1) * middle
    )
    receiver = np.diag(np.maximum(mixed.variance(noise) - mixed.mean_variance(noise), 0.0))
    return Forecast(
        ratio, exponent, mean, float(np.trace(_settled(apart, apart @ shared @ apart.T + receiver))) / nodes, alpha
    )


def _by_traces(problem: JointProblem, found: Traces, ratio: float, exponent: float) -> Forecast:
    """The same from traces: what each round adds, in size, times what it settles to."""
    own, (payload, again) = problem.own(ratio), _heard_noise(problem, ratio)
    payload_w, again_w = problem.settings.thermal_w * payload, problem.settings.thermal_w * again
    added = own / problem.links.nodes + payload_w * found.payload_mean + again_w * found.passes_mean
    shared = own * (1.0 + (problem.partners + 1) * ratio**2)  # Q takes the mean away
    apart = shared * found.sent + payload_w * found.payload + again_w * found.passes
    return Forecast(ratio, exponent, problem.settings.rounds * added, apart, problem.alpha(ratio))


def _heard_noise(problem: JointProblem, ratio: float) -> tuple[float, float]:
    """Factors of receiver noise in the payload and in a pass.

    Amplitudes were those of all power on the model: receivers make up for alpha, and for the scale of passes.
    """
    sent, alpha = problem.sent(ratio), problem.alpha(ratio)
    peak = alpha * problem.settings.radius**2 + (1 - alpha) * problem.sigma**2 if problem.settings.full_power else 1.0
    again = problem.settings.radius**2 + sent
    return peak / alpha, again if problem.settings.full_power else max(1.0, again)


def _settled(apart: FloatArray, added: FloatArray) -> FloatArray:
    """sum_t Q^t W Q^t': what is left of what every round adds."""
    total, power = added, apart
    for _ in range(_DOUBLINGS):
        total = total + power @ total @ power.T
        power = power @ power
    return total


def _passes(settings: JointSettings, eigenvalues: Callable[[], NDArray[Any]]) -> Passes:
    count = 1 + settings.passes
    return fitted(count, eigenvalues()) if settings.chebyshev else plain(count)
