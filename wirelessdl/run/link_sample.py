"""Which links are traced where all of them would be too many rows.

`trace.links = "auto"` traces every link while rounds times links stay within `trace.link_rows`. Beyond, links are
sampled at rate link_rows / (rounds * links), by a draw for each unordered pair of nodes: both directions are traced or
neither, and a link that is traced is traced in every round. Whatever is counted over rows estimates the whole when
divided by the rate. Nothing but the links table depends on it.
"""

import numpy as np

from wirelessdl import counter_rng
from wirelessdl.arrays import BoolArray
from wirelessdl.links import Links
from wirelessdl.streams import Streams


class LinkSample:
    """A share of all pairs. rate: 1 traces every link."""

    def __init__(self, rate: float, streams: Streams):
        self.rate = rate
        self._word = counter_rng.key(streams.draws("trace.links"))
        self._last: tuple[Links, BoolArray] | None = None

    def of(self, links: Links) -> BoolArray | slice:
        """Which links are traced, `[links]`; all of them as a slice."""
        if self.rate >= 1.0:
            return slice(None)
        if self._last is None or self._last[0] is not links:
            self._last = (links, np.asarray(counter_rng.uniform(self._word, links.pair)[0] < self.rate))
        return self._last[1]


def sampling_rate(kind: str, rows: int, rounds: int, links: int) -> float:
    """Share of links that are traced. rows: most of the table; links: that are heard in a frame."""
    return min(1.0, rows / max(1, rounds * links)) if kind == "auto" else 1.0
