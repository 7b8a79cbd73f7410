"""Step 3 of a round: who is on air, with the plan that this takes."""

from dataclasses import dataclass

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.mechanism import Protection
from wirelessdl.privacy.ledger import Ledger
from wirelessdl.radio.frame_channel import FrameChannel
from wirelessdl.radio.participation import Participation
from wirelessdl.round.planning import Planner
from wirelessdl.round.releases import Releases

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class OnAir:
    """Who sends, whose budget is spent from this round on, `[K]` each; what is heard of the senders; their noise."""

    on_air: BoolArray
    over_budget: BoolArray
    channel: FrameChannel
    protection: Protection


class BudgetGate:
    """Keeps senders silent once their promised total would exceed the budget.

    Silence changes what the others need of their plan, so `admit` repeats until nobody else falls silent. It looks at
    nothing that depends on data, so the silence itself tells nothing.
    """

    def __init__(
        self,
        nodes: int,
        budget: float,
        planner: Planner,
        releases: Releases,
        ledger: Ledger,
        *,
        silent: bool = False,
    ):
        """silent: nobody ever sends, budget or not."""
        self._silent = silent
        self.budget, self._planner, self._releases, self._ledger = budget, planner, releases, ledger
        self.silent_from: IntArray = np.full(nodes, _NEVER)  # round from which a node is silent for good

    @property
    def limited(self) -> bool:
        return bool(np.isfinite(self.budget))

    def wanting(self, round: int, participation: Participation) -> BoolArray:
        """Nodes that would send and still have a budget, `[K]`."""
        return participation.willing & (self.silent_from > round) & (not self._silent)

    def computing(self, on_air: BoolArray, participation: Participation) -> BoolArray:
        """Nodes that take a gradient step, `[K]`: those that send it; all that can, where nothing is ever sent."""
        return participation.willing if self._silent else on_air

    def admit(self, round: int, channel: FrameChannel, participation: Participation, sigma: FloatArray) -> OnAir:
        """Who sends in this frame. sigma: [K] deviation of eta."""
        wanting = self.wanting(round, participation)
        on_air = wanting
        while True:
            heard = channel.among(on_air, participation.ready)
            protection = self._planner.protect(self._planner.plan(heard, sigma), on_air, heard.links, sigma)
            if not self.limited:
                break
            mu = np.where(on_air, self._releases.promised_mu(protection.plan, sigma), 0.0)
            over = on_air & self._ledger.promised.exhausted(mu, self.budget)
            if not over.any():
                break
            on_air = on_air & ~over
        if protection.note:
            self._planner.on_note(protection.note)
        over_budget = wanting & ~on_air
        self.silent_from = np.where(over_budget, round, self.silent_from)
        return OnAir(on_air, over_budget, heard, protection)
