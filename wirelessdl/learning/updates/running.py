"""An update at work in the engine: asked once a round, held to its contract, kept in checkpoints.

A declared update is tried on twins: two nodes that received the same, their data different in one sample. `step`
returns the next model itself, so nothing but its author's word says how far one sample moves it:

    ||x - x'|| <= moves step 2C/B        given the same received models, whatever the oracle answers

Each pair of twins runs the update on received models drawn at random. Where both ask at the same point, in the same
call, answers differ by 2C/B at most: once, always, in turns or at random, which is the worst of sums, differences and
filters. Where their points differ, answers may be anything as long as C. A pair that moves further than declared
refutes the declaration, and the run is refused. Pairs that do not prove nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wirelessdl.contract import Guard, Memory, capability
from wirelessdl.errors import ContractError
from wirelessdl.families import UPDATE_TWINS, UpdateKind
from wirelessdl.learning.models.module import seeded
from wirelessdl.streams import Streams

State = dict[str, Tensor]
Take = Callable[[Tensor, range, int], Tensor]  # gradients at points of some nodes, in the so-manieth call of a round


class Gradient:
    """The oracle that `change` and `step` are given: `gradient(point)`, as long as they like; each call, a new batch.

    step: gamma mult of this round, which multiplies what `change` returns; one number, or `[K, 1]` of all nodes.
    """

    def __init__(self, name: str, take: Take, nodes: range, step: Tensor, like: Tensor):
        self._name, self._take, self._nodes, self._like = name, take, nodes, like
        self.step, self.calls = step.clone(), 0  # the class may write into it

    def __call__(self, point: Tensor) -> Tensor:
        given = _numbers(self._name, "asked for the gradient at a point", point, self._like)
        rows = given if given.ndim == 2 else given.unsqueeze(0)
        self.calls += 1
        return self._take(rows, self._nodes, self.calls - 1).view(self._like.shape)


class RunningUpdate:
    """What nodes step from, and their state. A node that takes no part keeps both.

    base: where the step starts, `[K, m]`, and point, where the gradient is taken; None where that is what was received.
    A user's `change` or `step` is called node by node, with tensors of its own, so that no node's model can hold
    another's data. What torch draws in a call of the user's is keyed by node and round.
    """

    def __init__(
        self, name: str, update: Any, kind: UpdateKind, start: Tensor, streams: Streams, *, is_user_class: bool
    ):
        self.kind, self._update, self._name = kind, update, f"{name}.{kind}"
        self._guard = Guard(f"learning.update: {name}", is_user_class=is_user_class)
        self._streams = streams if is_user_class else None
        self._memory = Memory(f"learning.update: {self._name}", update, f"keep it in the state that {kind} returns")
        self.base: Tensor | None = start.clone() if kind == "base" else None
        self.point = self.base
        self.shows_point: bool = kind == "base" and capability(update, "shows_point")
        self._one_by_one = is_user_class and kind != "base"
        self._state: State = {}
        if capability(update, "initial") is not None:
            with self._asked(0):
                given = [update.initial(row) for row in self._rows(start)]
            self._state = self._checked(given, start)
        self.mixed: str | None = capability(update, "mixed") if kind == "base" else None
        if self.mixed is not None and self._state.get(self.mixed, start).shape != (len(start), 1):
            raise ContractError(
                f'learning.update: {name}.mixed is "{self.mixed}"; must name a state of one number per node, [K, 1], '
                "that initial(received) gives"
            )

    @torch.no_grad()
    def apply(self, received: Tensor, away: Tensor | None, round: int, weights: Any = None) -> Tensor:
        """The point of the gradient, `[K, m]`, of a `base`. away: nodes that took no part; weights: A of the round."""
        given = self._copies()
        if self.mixed is not None:
            values = given[self.mixed]
            given[self.mixed] = torch.from_numpy(np.asarray(weights @ values.double().cpu().numpy())).to(values)
        with self._asked(round):
            found = self._update.base(received.clone(), given, round)
        base, point, state = self._parts(found, ("base", "point", "state"))
        base = _numbers(self._name, "returned a base", base, received)
        point = _numbers(self._name, "returned a point", point, received)
        if away is not None and self.base is not None and self.point is not None:
            base.index_copy_(0, away, self.base.index_select(0, away))
            point = point.index_copy(0, away, self.point.index_select(0, away))
        self.base, self.point = base, point
        self._keep([state], received, away)
        return point

    @torch.no_grad()
    def answer(self, received: Tensor, away: Tensor | None, round: int, take: Take, step: Tensor) -> Tensor:
        """What `change` or `step` gives, `[K, m]`: the change, or the models. step: gamma mult, `[K, 1]`."""
        found, states = [], []
        for number, row in enumerate(self._rows(received)):
            own, part, size = self._copies(), range(len(received)), step
            if self._one_by_one:
                own = {name: values[number].clone() for name, values in self._state.items()}
                part, size = range(number, number + 1), step[number, 0]
            gradient = Gradient(self._name, take, part, size, row)
            with self._asked(round, number):
                given = getattr(self._update, self.kind)(row, own, gradient, round)
            values, kept = self._parts(given, ("change" if self.kind == "change" else "x", "state"))
            found.append(_numbers(self._name, "returned a model or change", values, row))
            states.append(kept)
            if not gradient.calls:  # the loss of a round is that of its first batch
                take(row.unsqueeze(0) if self._one_by_one else row, part, 0)
        self._keep(states, received, away)
        return torch.stack(found) if self._one_by_one else found[0]

    def kept(self) -> dict[str, np.ndarray]:
        """What a checkpoint holds of it."""
        parts = {f"update_of_{name}": values for name, values in self._state.items()}
        if self.base is not None and self.point is not None:
            parts |= {"update_base": self.base} | ({"update_point": self.point} if self.shows_point else {})
        return {name: values.cpu().numpy().copy() for name, values in parts.items()}

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        if self.base is not None:
            self.base = torch.as_tensor(kept["update_base"]).to(self.base).clone()
            self.point = torch.as_tensor(kept["update_point"]).to(self.base) if self.shows_point else self.base
        for name, values in self._state.items():
            values.copy_(torch.as_tensor(kept[f"update_of_{name}"]))

    @contextmanager
    def _asked(self, round: int, node: int = 0) -> Iterator[None]:
        drawn = nullcontext() if self._streams is None else seeded(self._streams.draws("learning.update", round, node))
        with drawn, self._guard:
            yield

    def _rows(self, values: Tensor) -> list[Tensor]:
        return [row.clone() for row in values] if self._one_by_one else [values.clone()]

    def _copies(self) -> State:
        return {name: values.clone() for name, values in self._state.items()}

    def _parts(self, found: Any, names: tuple[str, ...]) -> Any:
        self._memory.require_none()
        if not isinstance(found, tuple) or len(found) != len(names):
            words = f"{', '.join(names[:-1])} and {names[-1]}"
            raise ContractError(f"learning.update: {self._name} must return {words}")
        return found

    def _keep(self, given: list[Any], received: Tensor, away: Tensor | None) -> None:
        state = self._checked(given, received)
        if state.keys() != self._state.keys():
            raise ContractError(
                f"learning.update: {self._name} returned the state {sorted(state)}, expected "
                f"{sorted(self._state)}: name all of it in initial(received)"
            )
        if away is not None:
            for name, values in state.items():
                values.index_copy_(0, away, self._state[name].index_select(0, away))
        self._state = state

    def _checked(self, given: list[Any], received: Tensor) -> State:
        """One state of all nodes, from that of all, or from one of each."""
        for one in given:
            sound = isinstance(one, dict) and all(
                isinstance(name, str)
                and type(values) is type(received)
                and (self._one_by_one or values.shape[:1] == received.shape[:1])
                for name, values in one.items()
            )
            if not sound or one.keys() != given[0].keys():
                raise ContractError(
                    f"learning.update: {self._name} gave a state that is no dict of tensors, row by row"
                )
        if not self._one_by_one:
            return {name: values.clone() for name, values in given[0].items()}
        try:
            return {name: torch.stack([one[name] for one in given]) for name in given[0]}
        except RuntimeError:
            raise ContractError(f"learning.update: {self._name} gave states of different shapes") from None


def _numbers(name: str, what: str, values: Any, like: Tensor) -> Tensor:
    """A copy; a subclass of Tensor is none, since its operators are the user's: they would see the gradient."""
    if type(values) is not type(like) or values.shape != like.shape or not values.to(like).isfinite().all():
        raise ContractError(f"learning.update: {name} {what} that is not {tuple(like.shape)} finite numbers")
    return values.detach().to(like, copy=True)


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
            twin, found = RunningUpdate(name, update, "step", received[0], Streams(0), is_user_class=True), []
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
