"""Updates: what a node makes of what it received, around the one clipped gradient that the engine takes.

    base, point, state <- update.base(s, state, round)         sees no data
    x <- Proj(base - gamma mult g(point))                      the engine's part: one gradient, clipped, and one step

**Statement.** Totals are those of plain SGD, amplification by sampling included, whatever `base` does.

**Proof.** base, point and state are functions of what was received: of released values, and of receiver noise. Given
the past they are known to the adversary, as s is. One record enters x only by the one clipped gradient at a known
point, so it moves x by at most sens gamma mult: the release is the same Gaussian about a known centre. This covers
s + b (s - s_before), Nesterov's point, weight decay, averages of received models. It does not cover memory of own
gradients: that needs another charge.

To add one: a module here with `Member`, `Keys` and `refuse` (see `wirelessdl/families.py`), a line in
`families.MEMBERS`, a test, a section of docs/learning.md. Your class, `learning.update = "mine.py:Mine"`:

    class Mine:
        def initial(self, received):                    # optional: state before the first round, tensors [K, ...]
            return {"before": received}

        def base(self, received, state, round):         # received: [K, m], a copy
            moved = received + 0.5 * (received - state["before"])
            return moved, moved, {"before": received}

The state is part of checkpoints, and never sent.
"""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


class Update(Protocol):
    def base(
        self, received: "Tensor", state: "dict[str, Tensor]", round: int
    ) -> "tuple[Tensor, Tensor, dict[str, Tensor]]":
        """Where the step starts and where the gradient is taken, `[K, m]` each, and what is remembered."""
        ...
