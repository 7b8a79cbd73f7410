"""Twins of a declared update: two nodes that received the same, their data different in one sample.

`step` returns the next model itself, so nothing but its author's word says how far one sample moves it:

    ||x - x'|| <= moves step 2C/B        given the same received models, whatever the oracle answers

Each pair of twins runs the update on received models drawn at random. Where both ask at the same point, in the same
call, answers differ by 2C/B at most: once, always, in turns or at random, which is the worst of sums, differences and
filters. Where their points differ, answers may be anything as long as C. A pair that moves further than declared
refutes the declaration, and the run is refused. Pairs that do not prove nothing.
"""

from typing import Any

import torch
from torch import Tensor

from wirelessdl.errors import ContractError
from wirelessdl.families import UPDATE_TWINS
from wirelessdl.learning.updates.running import RunningUpdate

ROUNDS = 16
_PATTERNS = ("once", "always", "in turns", "at random")
_SLACK = 1e-3  # of float32, which the user's code may work in


class _Answers:
    """What the oracle says to two twins, one after the other; C = 1. apart: 2C/B."""

    def __init__(self, pattern: str, size: int, apart: float, rng: torch.Generator):
        self._pattern, self._size, self.apart, self._rng = pattern, size, apart, rng
        self._always = self.vector(apart / 2.0)
        self._first: dict[tuple[int, int], tuple[Tensor, Tensor, Tensor]] = {}  # by round and call: point, middle, half
        self.is_second, self.round = False, 0

    def vector(self, length: float) -> Tensor:
        drawn: Tensor = torch.randn(1, self._size, generator=self._rng, dtype=torch.float64)
        return drawn.mul_(length / float(torch.linalg.vector_norm(drawn)))

    def __call__(self, point: Tensor, _: range, call: int) -> Tensor:
        key = (self.round, call)
        if not self.is_second:
            half = self._always if self._pattern != "at random" else self.vector(self.apart / 2.0)
            sign = {"once": float(self.round == ROUNDS // 2), "in turns": (-1.0) ** self.round}.get(self._pattern, 1.0)
            self._first[key] = point.clone(), self.vector(1.0 - self.apart / 2.0), sign * half
            return self._first[key][1] - self._first[key][2]
        known = self._first.get(key)
        return known[1] + known[2] if known is not None and torch.equal(known[0], point) else self.vector(1.0)


def try_declaration(name: str, update: Any, moves: float, size: int, *, batch: float) -> None:
    """Raise where a pair of twins refutes a `step`. size: numbers of a model; batch: B, divisor of its gradients."""
    rng, worst = torch.Generator().manual_seed(0), 0.0
    steps = [1.0 / round**0.5 for round in range(1, ROUNDS + 1)]
    for pair in range(UPDATE_TWINS):
        answers = _Answers(_PATTERNS[pair % len(_PATTERNS)], size, 2.0 / batch, rng)
        received = [answers.vector(1.0) for _ in range(ROUNDS + 1)]
        models: list[list[Tensor]] = []
        for answers.is_second in (False, True):
            twin, found = RunningUpdate(name, update, "step", received[0], is_user_class=True), []
            for answers.round, gamma in enumerate(steps, start=1):
                step = torch.full((1, 1), gamma, dtype=torch.float64)
                found.append(twin.answer(received[answers.round], None, answers.round, answers, step))
            models.append(found)
        moved = (float(torch.linalg.vector_norm(a - b)) / gamma for a, b, gamma in zip(*models, steps))
        worst = max(worst, *(length * batch / 2.0 for length in moved))
    if not worst <= moves * (1.0 + _SLACK):
        raise ContractError(
            f"learning.update: {name}.step moved its model {worst:.3g} times as far as one sample of a batch may, in "
            f"twins that received the same; it declares moves = {moves:g}: return the change from change(...), which "
            "is clipped as a whole, or declare what it is"
        )
