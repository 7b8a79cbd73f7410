"""What goes wrong: nodes crash and come back, links are blocked, nodes are slow, somebody jams.

Every fault is drawn from streams of its own, keyed by node, round or link, and none looks at data: who is
silent tells nothing about samples, and a resumed run meets the same faults. "none" of each is the default.

    crashes      outages(node, rng)                  -> (start_s, length_s) in turn; inf: for good
    blockage     blocked(links, time_s, snr_db)      -> which links carry nothing
    stragglers   factor(node, round)                 -> by what a node's compute time is multiplied
    jammer       noise_w(geometry, time_s)           -> power each receiver hears, `[K]`

A jammer's noise hides nobody: it is at the receiver's mercy, so privacy never counts on it.
"""

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Annotated, Protocol

import numpy as np
from annotated_types import Ge, Gt, Le

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.channel import keyed
from wirelessdl.links import Geometry, Links
from wirelessdl.sim.events import Schedule, checked, require_node
from wirelessdl.units import SPEED_OF_LIGHT_MPS, dbm_to_w, from_db

Share = Annotated[float, Ge(0), Le(1)]


class Crashes(Protocol):
    def outages(self, node: int, rng: np.random.Generator) -> Iterable[tuple[float, float]]: ...


class NoCrashes:
    """Every node runs for ever."""

    def outages(self, node: int, rng: np.random.Generator) -> Iterable[tuple[float, float]]:  # noqa: ARG002
        return ()


class ScheduledCrashes:
    """Events { node, at_s, for_s }; without for_s a node is gone for good."""

    def __init__(self, events: Schedule, *, nodes: int):
        self._outages: dict[int, list[tuple[float, float]]] = {}
        for event in checked(events, ("node", "at_s"), {"for_s": math.inf}, nodes):
            self._outages.setdefault(event["node"], []).append((event["at_s"], event["for_s"]))
        for node, outages in self._outages.items():
            outages.sort()
            for (start_s, length_s), (again_s, _) in pairwise(outages):
                if again_s < start_s + length_s - 1e-9:  # a nanosecond is nothing: sums of floats miss by less
                    raise ValueError(
                        f"events let node {node} crash at {again_s:g} s, while it is down from {start_s:g} s for "
                        f"{length_s:g} s; join them, or move one"
                    )

    def outages(self, node: int, rng: np.random.Generator) -> Iterable[tuple[float, float]]:  # noqa: ARG002
        return self._outages.get(node, [])


class ExponentialCrashes:
    """Up for exponential times of mean up_s, down for those of mean down_s, all nodes or only some."""

    def __init__(
        self,
        up_s: Annotated[float, Gt(0)],
        down_s: Annotated[float, Gt(0)],
        only: list[int] | None = None,
        *,
        nodes: int,
    ):
        self._up_s, self._down_s, self._only = up_s, down_s, chosen(only, nodes)

    def outages(self, node: int, rng: np.random.Generator) -> Iterator[tuple[float, float]]:
        now = 0.0
        while self._only[node]:
            start_s = now + rng.exponential(self._up_s)
            length_s = rng.exponential(self._down_s)
            yield start_s, length_s
            now = start_s + length_s


class Blockage(Protocol):
    def blocked(self, links: Links, time_s: float, snr_db: FloatArray) -> BoolArray: ...


class NoBlockage:
    """Every link carries what its gain lets through."""

    def blocked(self, links: Links, time_s: float, snr_db: FloatArray) -> BoolArray:  # noqa: ARG002
        return np.zeros(len(links), dtype=bool)


class SnrBlockage:
    """A link whose SNR at full power is below threshold_db in a frame is lost for that frame."""

    still_heard = True  # the air goes on adding it up, where interference is physical

    def __init__(self, threshold_db: float):
        self._threshold_db = threshold_db

    def blocked(self, links: Links, time_s: float, snr_db: FloatArray) -> BoolArray:  # noqa: ARG002
        return np.asarray(snr_db < self._threshold_db)


class ScheduledBlockage:
    """Events { tx, rx, from_s, until_s, both_ways }; without until_s a link stays blocked."""

    def __init__(self, events: Schedule, *, nodes: int):
        self._events = checked(events, ("tx", "rx", "from_s"), {"until_s": math.inf, "both_ways": True}, nodes)
        for number, event in enumerate(self._events):
            if event["tx"] == event["rx"]:
                raise ValueError(f"events[{number}] blocks node {event['tx']} from itself; name two nodes")
            if event["until_s"] <= event["from_s"]:
                raise ValueError(
                    f"events[{number}].until_s is {event['until_s']:g}; must be after from_s, {event['from_s']:g}"
                )

    def blocked(self, links: Links, time_s: float, snr_db: FloatArray) -> BoolArray:  # noqa: ARG002
        number, found = links.rx * links.nodes + links.tx, []
        for event in self._events:
            if event["from_s"] <= time_s < event["until_s"]:
                found.append(event["rx"] * links.nodes + event["tx"])
                if event["both_ways"]:
                    found.append(event["tx"] * links.nodes + event["rx"])
        return np.isin(number, found)


class Stragglers(Protocol):
    def factor(self, node: int, round: int) -> float: ...


class NoStragglers:
    """Every node computes in its own time."""

    def factor(self, node: int, round: int) -> float:  # noqa: ARG002
        return 1.0


class RandomStragglers:
    """With a probability, in each round anew, a node takes `factor` times as long."""

    def __init__(
        self,
        probability: Share = 0.1,
        factor: Annotated[float, Gt(0)] = 10.0,
        only: list[int] | None = None,
        *,
        nodes: int,
        rng: np.random.Generator,
    ):
        self._probability, self._factor = probability, factor
        self._only, self._nodes, self._word = chosen(only, nodes), nodes, keyed.key(rng)

    def factor(self, node: int, round: int) -> float:
        drawn = keyed.uniform(self._word, np.array([round * self._nodes + node]))[0, 0]
        return self._factor if self._only[node] and drawn < self._probability else 1.0


class ScheduledStragglers:
    """Events { node, factor, from_round, to_round }: slow in these rounds, both included."""

    def __init__(self, events: Schedule, *, nodes: int):
        self._events = checked(events, ("node", "factor"), {"from_round": 1, "to_round": math.inf}, nodes)

    def factor(self, node: int, round: int) -> float:
        product = 1.0
        for event in self._events:
            if event["node"] == node and event["from_round"] <= round <= event["to_round"]:
                product *= event["factor"]
        return product


class Jammer(Protocol):
    def noise_w(self, geometry: Geometry, time_s: float) -> FloatArray: ...


class NoJammer:
    """Nobody jams."""

    def noise_w(self, geometry: Geometry, time_s: float) -> FloatArray:  # noqa: ARG002
        return np.zeros(geometry.nodes)


class _Pulses:
    """When a jammer is on: from_s to until_s, and of every period_s the first on_share."""

    def __init__(self, from_s: float, until_s: float | None, period_s: float | None, on_share: float):
        if until_s is not None and until_s <= from_s:
            raise ValueError(f"until_s is {until_s:g}; must be > from_s, which is {from_s:g}")
        self._from_s, self._until_s = from_s, math.inf if until_s is None else until_s
        self._period_s, self._on_share = period_s, on_share

    def on(self, time_s: float) -> bool:
        if not self._from_s <= time_s < self._until_s:
            return False
        return self._period_s is None or (time_s - self._from_s) % self._period_s < self._on_share * self._period_s


class NoiseJammer(_Pulses):
    """power_dbm of noise at every receiver, wherever it comes from."""

    def __init__(
        self,
        power_dbm: Annotated[float, Ge(-300), Le(200)],
        from_s: Annotated[float, Ge(0)] = 0.0,
        until_s: Annotated[float, Gt(0)] | None = None,
        period_s: Annotated[float, Gt(0)] | None = None,
        on_share: Share = 0.5,
    ):
        super().__init__(from_s, until_s, period_s, on_share)
        self._received_w = dbm_to_w(power_dbm)

    def noise_w(self, geometry: Geometry, time_s: float) -> FloatArray:
        return np.full(geometry.nodes, self._received_w if self.on(time_s) else 0.0)


class PlacedJammer(_Pulses):
    """A transmitter of power_dbm at a place; free-space loss to 1 m, then 10 exponent lg d."""

    def __init__(
        self,
        power_dbm: Annotated[float, Ge(-300), Le(200)],
        x_m: float = 0.0,
        y_m: float = 0.0,
        height_m: float = 1.5,
        exponent: Annotated[float, Gt(0)] = 2.0,
        from_s: Annotated[float, Ge(0)] = 0.0,
        until_s: Annotated[float, Gt(0)] | None = None,
        period_s: Annotated[float, Gt(0)] | None = None,
        on_share: Share = 0.5,
        *,
        frequency_hz: float,
    ):
        super().__init__(from_s, until_s, period_s, on_share)
        first_db = 20.0 * math.log10(4.0 * math.pi * frequency_hz / SPEED_OF_LIGHT_MPS)
        self._at_one_metre_w = dbm_to_w(power_dbm) * from_db(-first_db)
        self._place_m, self._exponent = np.array([x_m, y_m, height_m]), exponent

    def noise_w(self, geometry: Geometry, time_s: float) -> FloatArray:
        if not self.on(time_s):
            return np.zeros(geometry.nodes)
        distance_m = np.maximum(np.linalg.norm(geometry.position_m - self._place_m, axis=1), 1.0)
        return np.asarray(self._at_one_metre_w * distance_m**-self._exponent)


CRASHES = {"none": NoCrashes, "schedule": ScheduledCrashes, "exponential": ExponentialCrashes}
BLOCKAGES = {"none": NoBlockage, "snr": SnrBlockage, "schedule": ScheduledBlockage}
STRAGGLERS = {"none": NoStragglers, "random": RandomStragglers, "schedule": ScheduledStragglers}
JAMMERS = {"none": NoJammer, "noise": NoiseJammer, "transmitter": PlacedJammer}


def chosen(only: list[int] | None, nodes: int) -> BoolArray:
    """The nodes that a fault may touch: those listed, or all."""
    for n, node in enumerate(only or ()):
        require_node(f"only[{n}]", node, nodes)
    mask = np.zeros(nodes, dtype=bool)
    mask[slice(None) if only is None else only] = True
    return mask
