"""What every node still has to send: one object, one owner.

Between two frames a node's model x holds a gradient step that no transmission has carried yet. Three things must
agree on it, or an epsilon is wrong: the charge of the next transmission (learning rate and multiplier of that
gradient), the noise aligned with it, and the model itself. `PendingGradients` keeps the first two and is the only
maker of `ModelUpdate`, which tells the learning engine what becomes of the third:

    withdraw   the step will never be sent: x goes back to Proj(s), what the node held before it
    keep       the node takes no part: x and s stay, and so does what is pending
    step       gamma * multiplier of the gradient that x takes now; 0 leaves x at Proj(s), nothing pending
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.learning.records import ModelUpdate


class PendingGradients:
    """Learning rate and multiplier of the gradient in each node's model that it has not sent, `[K]`; 0 for none."""

    def __init__(self, nodes: int):
        self.gamma: FloatArray = np.zeros(nodes)
        self.multiplier: FloatArray = np.zeros(nodes)
        self._withdrawn: BoolArray = np.zeros(nodes, dtype=bool)

    def withdraw(self, nodes: BoolArray) -> None:
        """The gradients of these nodes, `[K]`, will never be sent; their models lose them with the next update."""
        self._withdrawn = self._withdrawn | nodes
        self._settle(np.where(nodes, 0.0, self.gamma), np.where(nodes, 0.0, self.multiplier))

    def update(
        self, *, stepped: BoolArray, absent: BoolArray, learning_rate: float, multiplier: FloatArray
    ) -> ModelUpdate:
        """A frame ends: who takes a gradient step, who took no part, `[K]` each; everyone else only mixes.

        A node that mixed without a step holds a function of what was sent: nothing is pending there.
        """
        withdrawn, self._withdrawn = self._withdrawn, np.zeros_like(self._withdrawn)
        self._settle(
            np.where(stepped, learning_rate, np.where(absent, self.gamma, 0.0)),
            np.where(stepped, multiplier, np.where(absent, self.multiplier, 0.0)),
        )
        return ModelUpdate(withdraw=withdrawn, keep=absent, step=stepped * learning_rate * multiplier)

    def state(self) -> dict[str, NDArray[Any]]:
        return {"gamma": self.gamma, "multiplier": self.multiplier}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._settle(state["gamma"], state["multiplier"])

    def _settle(self, gamma: FloatArray, multiplier: FloatArray) -> None:
        # new arrays, never edited: a release that was written down keeps what it was made from
        self.gamma, self.multiplier = gamma, multiplier
