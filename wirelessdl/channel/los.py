"""The condition of each link, with or without a line of sight; loss, shadowing and fading use it.

Each unordered pair of nodes has one number u, uniform on [0, 1], for the whole run. The link has a line of sight while
u <= P_LOS(d), the probability at its present ground distance d (m). So both directions agree, the condition of a link
that does not move never changes, and a link that grows longer loses its line of sight once.

Scope: links are independent of each other, and no obstacles are modelled.
"""

from typing import Literal

import numpy as np

from wirelessdl import counter_rng
from wirelessdl.arrays import BoolArray
from wirelessdl.channel.pathloss.formulas import LOS_PROBABILITY
from wirelessdl.links import Links
from wirelessdl.streams import Streams

Rule = Literal["auto", "los", "nlos"]


class ChannelCondition:
    """The condition of every link. auto: by the probability of the loss model; models without one: line of sight."""

    def __init__(self, rule: Rule, loss_model: str, streams: Streams):
        self.rule, self.loss_model = rule, loss_model
        self._word = counter_rng.key(streams.draws("channel.condition"))
        self._last: tuple[Links, BoolArray] | None = None

    @property
    def matters(self) -> bool:
        """Whether the condition may differ from a line of sight on every link."""
        return self.rule != "auto" or self.loss_model in LOS_PROBABILITY

    def los(self, links: Links) -> BoolArray:
        """Which links have a line of sight, `[links]`."""
        if self._last is None or self._last[0] is not links:  # several models ask about the same instant
            self._last = (links, self._look(links))
        return self._last[1]

    def _look(self, links: Links) -> BoolArray:
        if self.rule != "auto" or self.loss_model not in LOS_PROBABILITY:
            return np.full(len(links), self.rule != "nlos")
        level = counter_rng.uniform(self._word, links.pairs.number)[0]
        probability = LOS_PROBABILITY[self.loss_model](links.distance_2d_m)
        return np.asarray(level[links.pairs.of_link] <= probability)


def always_in_sight() -> ChannelCondition:
    """A line of sight on every link: the default of models used without a scenario."""
    return ChannelCondition("los", "", Streams(0))
