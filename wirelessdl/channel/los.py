"""Line of sight or not, apart from what it does to loss, shadowing and fading.

Each unordered pair of nodes has one number, uniform on [0, 1], for the whole run; the pair sees each
other while that number is at most the probability of a line of sight at its present distance. So both
directions agree, a link that does not move does not flicker, and one that grows longer loses sight once.
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
    """The condition of every link. auto: by the probability that belongs to the loss model, else in sight."""

    def __init__(self, rule: Rule, loss_model: str, streams: Streams):
        self.rule, self.loss_model = rule, loss_model
        self._word = counter_rng.key(streams.draws("channel.condition"))
        self._last: tuple[Links, BoolArray] | None = None

    @property
    def matters(self) -> bool:
        """Whether anything in the scenario decides on it."""
        return self.rule != "auto" or self.loss_model in LOS_PROBABILITY

    def los(self, links: Links) -> BoolArray:
        """Which links have a line of sight."""
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
    """For models used on their own, without a scenario."""
    return ChannelCondition("los", "", Streams(0))
