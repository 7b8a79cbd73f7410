"""An update at work in the engine: asked once a round, held to its contract, kept in checkpoints."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wirelessdl.contract import Guard, Memory, capability
from wirelessdl.errors import ContractError

State = dict[str, Tensor]


class RunningUpdate:
    """What nodes step from, and their state. A node that takes no part keeps both."""

    def __init__(self, name: str, update: Any, start: Tensor, *, is_user_class: bool):
        self._update, self._guard = update, Guard(f"learning.update: {name}", is_user_class=is_user_class)
        self._name, self.base = name, start.clone()
        self._memory = Memory(f"learning.update: {name}.base", update, "keep it in the state that base returns")
        self._state: State = {}
        if capability(update, "initial") is not None:
            with self._guard:
                given = update.initial(start.clone())
            self._state = self._checked(given, start)

    @torch.no_grad()
    def apply(self, received: Tensor, away: Tensor | None, round: int) -> Tensor:
        """The point of the gradient, `[K, m]`. away: nodes that took no part."""
        before = {name: values.clone() for name, values in self._state.items()}
        with self._guard:
            found = self._update.base(received.clone(), before, round)
        self._memory.require_none()
        if not isinstance(found, tuple) or len(found) != 3:
            raise ContractError(f"learning.update: {self._name}.base must return base, point and state")
        for what, values in (("base", found[0]), ("point", found[1])):
            sound = isinstance(values, Tensor) and values.shape == received.shape
            if not sound or not values.to(received).isfinite().all():
                raise ContractError(
                    f"learning.update: {self._name}.base returned a {what} that is not {tuple(received.shape)} finite "
                    "numbers"
                )
        base, state = found[0].to(received).clone(), self._checked(found[2], received)
        if state.keys() != self._state.keys():
            raise ContractError(
                f"learning.update: {self._name}.base returned the state {sorted(state)}, expected "
                f"{sorted(self._state)}: name all of it in initial(received)"
            )
        if away is not None:
            base.index_copy_(0, away, self.base.index_select(0, away))
            for name, values in state.items():
                values.index_copy_(0, away, self._state[name].index_select(0, away))
        self.base, self._state = base, state
        point: Tensor = found[1].to(received)
        return point

    def kept(self) -> dict[str, np.ndarray]:
        """What a checkpoint holds of it."""
        parts = {"update_base": self.base, **{f"update_of_{name}": values for name, values in self._state.items()}}
        return {name: values.cpu().numpy().copy() for name, values in parts.items()}

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        self.base.copy_(torch.as_tensor(kept["update_base"]))
        for name, values in self._state.items():
            values.copy_(torch.as_tensor(kept[f"update_of_{name}"]))

    def _checked(self, given: Any, received: Tensor) -> State:
        sound = isinstance(given, dict) and all(
            isinstance(name, str) and isinstance(values, Tensor) and values.shape[:1] == received.shape[:1]
            for name, values in given.items()
        )
        if not sound:
            raise ContractError(
                f"learning.update: {self._name} gave a state that is not a dict of tensors with one row per node"
            )
        return {name: values.clone() for name, values in given.items()}
