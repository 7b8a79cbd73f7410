"""Published: one trusted holder of all data and no radio. After every round it shows its model with noise.

    w = x + n,   s = w,   x = Proj(s - gamma mult g(s))

It is central DP-SGD, charged as any node is (`wirelessdl.mechanism.own`): one Gaussian release a round on the mean of
clipped gradients, sensitivity 2C/N with N samples (C/N zero-out), a start that comes from no data, so T - 1 releases of
T rounds. What is evaluated is w. It takes no time on air and no energy.

Scope and limitations: one node. Somebody must be trusted with the data of all: what a network without such a somebody
is compared with (baseline `central-dp`), not a way to learn in one.
"""

from typing import TYPE_CHECKING

import numpy as np

from wirelessdl.access import Access, AirSettings, Carrier

if TYPE_CHECKING:
    from wirelessdl.links import Links
    from wirelessdl.radio.frame import Turns
    from wirelessdl.scenario.schema import RadioSection, Scenario
    from wirelessdl.streams import Streams


def refuse(scenario: "Scenario") -> None:
    """Raise ValueError for what does not go together with one holder of all data."""
    if scenario.network.nodes != 1:
        raise ValueError(
            f'radio.access is "published" with network.nodes {scenario.network.nodes}; one holder of all data '
            "publishes its model, and no node hears another: set nodes = 1, or use the baseline central-dp"
        )
    if scenario.power.objective != "own-noise":
        raise ValueError(
            f'power.objective is "{scenario.power.objective}" under radio.access "published"; whoever publishes hides '
            'behind its own noise only: set objective = "own-noise"'
        )


class Member(Access):
    """One node, whose model everyone sees."""

    one_slot = False  # there are no links

    def __init__(self, radio: "RadioSection", nodes: int, streams: "Streams", silent: bool):
        self._nodes = nodes

    def schedule(self, round: int, links: "Links") -> "Turns":
        from wirelessdl.radio.frame import Turns

        return Turns(np.zeros(self._nodes, dtype=np.int64), 1)

    def carrier(self, given: AirSettings) -> Carrier:
        from wirelessdl.access.weights import AllAtOnce

        return AllAtOnce(given)  # who hears nobody keeps its w
