"""Learning rates gamma_t, t = 1, 2, ..."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal, Protocol

from annotated_types import Ge, Gt, Len

from wirelessdl.contract import capability, guard_of
from wirelessdl.errors import ContractError

ROUNDED_ONE = 1.0 + 1e-12  # most of rho times a rate, which may round up
Rate = Annotated[float, Gt(0)]


class Schedule(Protocol):
    def rate(self, round: int) -> float: ...


class CheckedSchedule:
    """A user's schedule, asked again in every round: it may remember, and answer otherwise than before the run.

    rho: times a rate, at most 1 and at least least_sigma, as the rates before the run.
    """

    def __init__(self, schedule: Schedule, rho: float, least_sigma: float):
        self._guard = guard_of("learning.learning_rate", schedule, "rate")
        self._schedule, self._rho, self._least_sigma = schedule, rho, least_sigma

    @property
    def spans_run(self) -> bool:
        return bool(capability(self._schedule, "spans_run"))

    def rate(self, round: int) -> float:
        with self._guard:
            rate = float(self._schedule.rate(round))
        if not (math.isfinite(rate) and rate > 0):
            rule = "must be a finite number > 0"
        elif not self._least_sigma <= self._rho * rate <= ROUNDED_ONE:
            rule = (
                f"must be {self._least_sigma / self._rho:.4g} to {1 / self._rho:.4g} where privacy.rho is {self._rho:g}"
            )
        else:
            return rate
        raise ContractError(
            f"{self._guard.name} answered {rate:g} for round {round}; {rule}, whenever it is asked: make it depend on "
            "the round alone"
        )


class InverseSqrt:
    """initial / sqrt(t), as in the paper's runs."""

    def __init__(self, initial: Rate = 0.1):
        self.initial = initial

    def rate(self, round: int) -> float:
        return self.initial / math.sqrt(round)


class Constant:
    """The same in every round."""

    def __init__(self, initial: Rate = 0.01):
        self.initial = initial

    def rate(self, round: int) -> float:  # noqa: ARG002
        return self.initial


class Inverse:
    """1 / (mu theta t), as in Theorem 2 (mu: strong convexity; theta: largest multiplier), or initial / t."""

    def __init__(self, mu: Rate | None = None, theta: Rate | None = None, initial: Rate | None = None):
        if initial is None and mu is not None and theta is not None:
            initial = 1.0 / (mu * theta)
        elif initial is None or mu is not None or theta is not None:
            shown = "absent" if initial is None else f"{initial:g}"
            raise ValueError(f"initial is {shown}; give initial alone, or mu and theta, which make it 1/(mu theta)")
        self.initial = initial

    def rate(self, round: int) -> float:
        return self.initial / round


class Cosine:
    """Half a cosine from initial down towards final, over `length` rounds (all of them) and level after."""

    def __init__(
        self,
        rounds: int,
        initial: Rate = 0.1,
        final: Annotated[float, Ge(0)] = 0.0,
        length: Annotated[int, Ge(1)] | None = None,
    ):
        if final > initial:
            raise ValueError(f"final is {final:g}; must be <= initial, which is {initial:g}")
        self.initial, self.final, self.length = initial, final, length if length is not None else rounds
        # a run of more rounds would have had other rates from the start, so this one cannot be extended
        self.spans_run = length is None
        if final == 0 and self.length < rounds:
            raise ValueError(f"final is 0; {rounds - self.length} rounds come after length, and rates must be > 0")

    def rate(self, round: int) -> float:
        # t - 1 of length: the last round is still above final, and so above zero
        done = min(round - 1, self.length) / self.length
        return self.final + (self.initial - self.final) * (1.0 + math.cos(math.pi * done)) / 2.0


class Piecewise:
    """rates[0] up to and including round boundaries[0], rates[1] up to boundaries[1], and so on."""

    def __init__(self, boundaries: list[Annotated[int, Ge(1)]], rates: Annotated[list[Rate], Len(1)]):
        if len(rates) != len(boundaries) + 1:
            raise ValueError(
                f"rates is {rates}; must be one more than boundaries, which are {len(boundaries)}: "
                "one before each, one after the last"
            )
        if any(later <= earlier for earlier, later in pairwise(boundaries)):
            raise ValueError(f"boundaries is {boundaries}; must rise")
        self.boundaries, self.rates = boundaries, rates

    def rate(self, round: int) -> float:
        return self.rates[sum(round > boundary for boundary in self.boundaries)]


class WarmUp:
    """A straight line from start to initial over `length` rounds, then another schedule from initial on."""

    def __init__(
        self,
        rounds: int,
        length: Annotated[int, Ge(1)] = 10,
        start: Rate = 0.01,
        initial: Rate = 0.1,
        then: Literal["inverse-sqrt", "constant", "inverse", "cosine"] = "inverse-sqrt",
    ):
        if start > initial:
            raise ValueError(f"start is {start:g}; must be <= initial, which is {initial:g}")
        if length >= rounds:
            raise ValueError(f"length is {length}; must be below the number of rounds, which is {rounds}")
        self.length, self.start, self.initial = length, start, initial
        self.spans_run = then == "cosine"
        forms: dict[str, Callable[..., Schedule]] = {
            "inverse-sqrt": InverseSqrt,
            "constant": Constant,
            "inverse": Inverse,
        }
        self._then = Cosine(rounds - length, initial) if self.spans_run else forms[then](initial=initial)

    def rate(self, round: int) -> float:
        if round > self.length:
            return self._then.rate(round - self.length)
        return self.start + (self.initial - self.start) * (round - 1) / self.length


class Auto:
    """A constant rate from public numbers: noise in a score reaches score_noise, or the step its largest stable size.

        gamma = min(score_noise / (T R s), max_step / (R min(R, C))) / mult,    s = kappa 2C / (N mu)

    R is the norm of a sample's features, N the number of samples of all nodes (under unit = "node", of nodes), mu what
    training has of the promised total, as one Gaussian release, T its rounds (those of a Gram stage are none), mult the
    gradient multiplier, and kappa = sqrt(K own) the deviation of noise in the network's mean over that of a trusted
    centre; own is the share of a node's hidden noise that does not cancel in the mean. Under zero-out C is in place of
    2C. T full-batch rounds leave noise of deviation gamma mult T s in each weight of the mean, and R times as much in a
    score: the number of features cancels. No data are looked at; only their number, which is public.

    A clipped sample pulls with all its force until its error is below C / R, so until its score leads by about
    ln(R / C): the lower C, the larger scores become, and noise in them may be. score_noise is 0.64 ln(1 + R / C)
    unless given; max_step 64, and 160 where whitening or a Gram stage leaves no direction that is much longer.
    """

    spans_run = True  # more rounds would have had smaller steps

    def __init__(self, rounds: int, scale: "ScoreScale", score_noise: Rate | None = None, max_step: Rate | None = None):
        if score_noise is None:
            score_noise = 0.64 * math.log1p(scale.row_norm / scale.clip_norm)
        if max_step is None:
            max_step = 160.0 if scale.even else 64.0
        noise = score_noise / max(rounds * scale.row_norm * scale.noise, 1e-300)
        stable = max_step / (scale.row_norm * min(scale.row_norm, scale.clip_norm))
        self._rate = min(noise, stable) / scale.multiplier

    def rate(self, round: int) -> float:  # noqa: ARG002
        return self._rate


@dataclass(frozen=True)
class ScoreScale:
    """Public numbers behind an automatic rate: R, C, s, mult, and whether features have even second moments."""

    row_norm: float
    clip_norm: float
    noise: float
    multiplier: float
    even: bool


SCHEDULES = {
    "auto": Auto,
    "inverse-sqrt": InverseSqrt,
    "constant": Constant,
    "inverse": Inverse,
    "cosine": Cosine,
    "piecewise": Piecewise,
    "warm-up": WarmUp,
}
