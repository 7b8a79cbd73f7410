"""The condition of each link: a line of sight, a vehicle in the way, or none; loss, shadowing and fading use it.

    LOS     a line of sight
    NLOSv   a vehicle in the way (sidelink models only, TR 37.885)
    NLOS    none: a building in the way, or around a corner

Without a map, rule "auto": a link has a line of sight while u <= P_LOS(d), the probability of the loss model at its
ground distance d (m), with one u, uniform on [0, 1], per unordered pair of nodes. Otherwise it is NLOS, or NLOSv under
the sidelink models: their probability tells apart vehicles, not corners. With a map (network.map) its buildings decide
NLOS; where none is in the way, sidelink models still draw LOS or NLOSv, and every other model has a line of sight.

u is one draw per pair for the whole run, so a link that grows longer loses its line of sight once. Or, with
channel.spatial_consistency, u = Phi(S) of a Gaussian field over the places of both ends (field.py): links whose ends
lie close together agree, and the condition changes as nodes move. Both directions agree always.
"""

from typing import Literal, Protocol

import numpy as np
import scipy

from wirelessdl import counter_rng
from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.channel.field import Field
from wirelessdl.channel.pathloss.formulas import LOS_PROBABILITY, SIDELINK
from wirelessdl.links import Links
from wirelessdl.streams import Streams

Rule = Literal["auto", "los", "nlos", "nlosv"]
LOS, NLOSV, NLOS = 0, 1, 2
_STATE = {"los": LOS, "nlosv": NLOSV, "nlos": NLOS}
# distance over which the line of sight is correlated, m: TR 38.901 table 7.6.3.1-2; sidelink: as its shadowing
_REACH_M = {"umi-street-canyon": 50.0, "uma": 50.0, "inh-office": 10.0, "rma": 60.0}
_OTHERS_M = 10.0


class Buildings(Protocol):
    def obstructed(self, links: Links) -> BoolArray: ...


class ChannelCondition:
    """The condition of every link. auto: by the map and the loss model; models without a probability: line of sight."""

    def __init__(
        self,
        rule: Rule,
        loss_model: str,
        streams: Streams,
        buildings: Buildings | None = None,
        *,
        spatial: bool = False,
    ):
        """loss_model: the 3GPP model of the chain, "" without one; spatial: large-scale state follows places."""
        self.rule, self.loss_model, self.spatial = rule, loss_model, spatial
        self._buildings = buildings
        names = ("condition", "vehicle", "vehicle_kind")
        self._words = {name: counter_rng.key(streams.draws(f"channel.{name}")) for name in names}
        self._fields: dict[str, Field] = {}
        self._last: tuple[Links, IntArray] | None = None

    @property
    def matters(self) -> bool:
        """Whether the condition may differ from a line of sight on every link."""
        return self.rule != "auto" or self.loss_model in LOS_PROBABILITY or self._buildings is not None

    @property
    def correlated_m(self) -> float:
        """Shortest correlation distance of the fields that decide it, m; inf without any."""
        return min(_OTHERS_M, _REACH_M.get(self.loss_model, _OTHERS_M)) if self.spatial else np.inf

    def state(self, links: Links) -> IntArray:
        """LOS, NLOSV or NLOS of every link, `[links]`."""
        if self._last is None or self._last[0] is not links:  # several models ask about the same instant
            self._last = (links, self._look(links))
        return self._last[1]

    def los(self, links: Links) -> BoolArray:
        """Which links have a line of sight, `[links]`."""
        return np.asarray(self.state(links) == LOS)

    def nlos(self, links: Links) -> BoolArray:
        """Which links have a building in the way or lead around a corner, `[links]`."""
        return np.asarray(self.state(links) == NLOS)

    def vehicle_level(self, links: Links) -> FloatArray:
        """How hard the vehicle in the way is to pass, N(0, 1) per pair, `[links]`."""
        return np.asarray(self._level("vehicle", links, _OTHERS_M)[links.pairs.of_link])

    def vehicle_unit(self, links: Links) -> FloatArray:
        """Which vehicle it is, uniform on (0, 1) per pair, `[links]`."""
        return np.asarray(self._unit("vehicle_kind", links, _OTHERS_M)[links.pairs.of_link])

    def _level(self, name: str, links: Links, reach_m: float) -> FloatArray:
        """N(0, 1) of every pair, `[pairs]`: a draw of its own, or of a field over places."""
        if not self.spatial:
            return counter_rng.normal(self._words[name], links.pairs.number)
        if name not in self._fields:
            self._fields[name] = Field(self._words[name], smooth=name != "vehicle")  # what is decided by a level
        return self._fields[name].pairs(links, reach_m)

    def _look(self, links: Links) -> IntArray:
        if self.rule != "auto":
            return np.full(len(links), _STATE[self.rule])
        state = np.full(len(links), LOS)
        sidelink = self.loss_model in SIDELINK
        if self.loss_model in LOS_PROBABILITY and (sidelink or self._buildings is None):
            unit = self._unit("condition", links, _REACH_M.get(self.loss_model, _OTHERS_M))[links.pairs.of_link]
            clear = unit <= LOS_PROBABILITY[self.loss_model](links.distance_2d_m)
            state = np.where(clear, LOS, NLOSV if sidelink else NLOS)
        if self._buildings is not None:
            state = np.where(self._buildings.obstructed(links), NLOS, state)
        return np.asarray(state)

    def _unit(self, name: str, links: Links, reach_m: float) -> FloatArray:
        """Uniform on (0, 1) of every pair, `[pairs]`: a draw of its own, or of a field over places."""
        if not self.spatial:
            return np.asarray(counter_rng.uniform(self._words[name], links.pairs.number)[0])
        return np.asarray(scipy.special.ndtr(self._level(name, links, reach_m)))


def always_in_sight() -> ChannelCondition:
    """A line of sight on every link: the default of models used without a scenario."""
    return ChannelCondition("los", "", Streams(0))
