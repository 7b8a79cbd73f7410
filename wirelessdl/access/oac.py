"""Over-the-air computation: neighbours send at once, and the channel adds up what they send (paper eq. 5 to 11).

    y_i = sum_j |h_ij| sqrt(alpha_j P_j) w_j + noise,   s_i = a_i y_i / sum_j |h_ij| sqrt(alpha_j P_j) + (1 - a_i) w_i

    a_i     d_i / (d_i + 1) as printed, or chosen by receiver balancing such that A is doubly stochastic
    full duplex   everyone at once: one turn, and a node hears what is left of its own emission
    half duplex   nodes fall into two classes, anew in every frame; one sends while the other listens, then the other
    way
                  round. Links within a class carry nothing in that frame

All phases are taken as aligned at every receiver at once (the paper); a sender has only one.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from wirelessdl.access import Access, AirSettings, Carrier
from wirelessdl.arrays import BoolArray
from wirelessdl.scenario.section import Section

if TYPE_CHECKING:
    from wirelessdl.links import Links
    from wirelessdl.radio.participation import Turns
    from wirelessdl.scenario.schema import RadioSection, Scenario
    from wirelessdl.streams import Streams

COLUMNS: dict[str, list[tuple[str, str, str, str]]] = {}


class Keys(Section):
    """Over-the-air computation has no keys that nothing else reads."""


def refuse(scenario: "Scenario") -> None:
    """Raise ValueError for what does not go together with senders that are superposed."""
    refuse_truncation(scenario, "all neighbours are superposed, and none of them can be left out")


def refuse_truncation(scenario: "Scenario", why: str) -> None:
    """Raise ValueError where links are to be left out and cannot be."""
    least_db = scenario.radio.truncate_snr_db
    if least_db != "auto" and least_db > -math.inf:
        raise ValueError(
            f'radio.truncate_snr_db is {least_db:g} under radio.access "{scenario.radio.access.name}"; {why}: leave it '
            'at "auto", or set access = "tdma"'
        )


class Member(Access):
    """All senders of a turn at once."""

    def __init__(self, radio: "RadioSection", nodes: int, streams: "Streams", silent: bool):
        self._half_duplex, self._nodes, self._streams = radio.duplex == "half" and not silent, nodes, streams
        self.hears_itself = radio.duplex == "full"
        self._everyone: Turns | None = None

    def schedule(self, round: int, links: "Links") -> "Turns":
        from wirelessdl.radio.participation import Turns

        if self._half_duplex:
            return Turns(halves(self._nodes, self._streams.draws("radio.duplex", round)).astype(np.int64), 2)
        if self._everyone is None:
            self._everyone = Turns(np.zeros(self._nodes, dtype=np.int64), 1)
        return self._everyone

    def planned_turns(self, links: "Links") -> tuple[int, int]:
        return (2, (links.nodes + 1) // 2) if self._half_duplex else (1, links.nodes)

    def words(self, turns: int) -> str:
        return ", half duplex in two turns" if self._half_duplex else ""

    def carrier(self, given: AirSettings) -> Carrier:
        from wirelessdl.access.weights import AllAtOnce

        return AllAtOnce(given)


def halves(nodes: int, rng: np.random.Generator) -> BoolArray:
    """Which of two classes each node is in: halves, drawn afresh."""
    return np.asarray(rng.permutation(nodes) % 2 == 0)
