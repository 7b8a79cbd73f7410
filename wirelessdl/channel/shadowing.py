"""Log-normal shadowing, correlated along the motion of both ends (Gudmundson).

    S' = r S + sqrt(1 - r^2) N(0, 1),   r = exp(-dx / d_corr),   dx = |dp_tx| + |dp_rx|,   loss = sigma S

    S         shadowing in units of sigma, one value per unordered pair of nodes
    sigma     standard deviation of the loss, dB
    d_corr    correlation distance, m
    dx        way that the two ends have moved since the last instant, m

A link whose ends do not move keeps its value. sigma and d_corr follow the loss model and the line of sight
(LOS / NLOS) unless given:

    umi-street-canyon 4 / 7.82 dB, 10 / 13 m     uma 4 / 6 dB, 37 / 50 m      inh-office 3 / 8.03 dB, 10 / 6 m
    rma 4 / 8 dB, 37 / 120 m                     sidelink 3 / 4 dB, 10 / 13 m  others 4 dB, 20 m

rma with a line of sight has 6 dB beyond the breakpoint of its loss (TR 38.901 table 7.4.1-1). A vehicle in the way
(sidelink) has the sigma of a line of sight, since what it adds is part of the loss, and the d_corr of none (13 m, TR
37.885 table 6.2.3-1).

Pairs are independent of each other, although links with a common end see the same obstacles. With
channel.spatial_consistency S is a field over the places of both ends (field.py): links whose ends lie close together
agree, with the same correlation along a motion.
"""

from typing import Annotated

import numpy as np
from annotated_types import Gt, Interval

from wirelessdl import counter_rng
from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.channel.field import Field
from wirelessdl.channel.los import ChannelCondition, always_in_sight
from wirelessdl.channel.model import Composable, RngOf
from wirelessdl.channel.pathloss.formulas import rural_breakpoint_m
from wirelessdl.links import Instants, Links
from wirelessdl.units import loss_db_to_gain

# (sigma LOS, sigma NLOS) in dB, (d_corr LOS, d_corr NLOS) in metres
_TABLE = {
    "umi-street-canyon": ((4.0, 7.82), (10.0, 13.0)),
    "uma": ((4.0, 6.0), (37.0, 50.0)),
    "inh-office": ((3.0, 8.03), (10.0, 6.0)),
    "rma": ((4.0, 8.0), (37.0, 120.0)),
    "sidelink-urban": ((3.0, 4.0), (10.0, 13.0)),
    "sidelink-highway": ((3.0, 4.0), (10.0, 13.0)),
}
_OTHERS = ((4.0, 4.0), (20.0, 20.0))
_RURAL_FAR_DB = 6.0


class Shadowing(Composable):
    """Log-normal, one process per unordered pair.

    sigma_db: standard deviation of the loss, dB, 0 to 50. correlation_m: correlation distance, m. frequency_hz:
    carrier, Hz; only for the breakpoint of rma. By default both follow the loss model of the scenario.
    """

    placed = True

    def __init__(
        self,
        condition: ChannelCondition | None = None,
        sigma_db: Annotated[float, Interval(ge=0, le=50)] | None = None,
        correlation_m: Annotated[float, Gt(0)] | None = None,
        frequency_hz: Annotated[float, Gt(0)] = 3.5e9,
    ):
        self._condition = condition or always_in_sight()
        sigma, reach = _TABLE.get(self._condition.loss_model, _OTHERS)
        self._sigma_db = sigma if sigma_db is None else (sigma_db, sigma_db)
        self._correlation_m = reach if correlation_m is None else (correlation_m, correlation_m)
        self._frequency_hz, self._grows = frequency_hz, sigma_db is None and self._condition.loss_model == "rma"
        self._field: Field | None = None
        self._word: int | None = None
        self._position: FloatArray = np.zeros((0, 3))
        self._path_m: FloatArray = np.zeros(0)  # way that each node has moved so far
        # of all pairs so far, by rising number: S, and the way that their ends had moved at its last update, m
        self._number: IntArray = np.zeros(0, np.int64)
        self._level: FloatArray = np.zeros(0)
        self._last_m: FloatArray = np.zeros(0)

    @property
    def correlated_m(self) -> float:
        """Shortest correlation distance, m."""
        return min(self._correlation_m)

    def gain(self, links: Links, time_s: float, rng: np.random.Generator) -> FloatArray:
        return self.gains(Instants((links,), (time_s,)), lambda _: rng).reshape(-1)

    def gains(self, instants: Instants, rng_of: RngOf) -> FloatArray:
        """|h| at several instants, `[instants, links]`."""
        links = instants.stacked
        los = self._condition.los(links)
        if self._condition.spatial:
            level = self._placed(links, los, rng_of)
        else:
            level = self._advance(instants, los, rng_of).reshape(-1)
        gain = loss_db_to_gain(self._deviation_db(links) * level[links.pairs.of_link])
        return np.asarray(gain).reshape(len(instants), -1)

    def _placed(self, links: Links, los: BoolArray, rng_of: RngOf) -> FloatArray:
        """S of every pair by the places of its ends, `[pairs]`."""
        if self._field is None:
            self._field = Field(counter_rng.key(rng_of(0)))
        near, far = self._correlation_m
        if near == far or los.all():
            return self._field.pairs(links, near)
        behind = np.ones(len(links.pairs), dtype=bool)
        behind[links.pairs.of_link[los]] = False
        return np.where(behind, self._field.pairs(links, far), self._field.pairs(links, near))

    def _deviation_db(self, links: Links) -> FloatArray:
        los = ~self._condition.nlos(links)
        sigma = np.where(los, *self._sigma_db)
        if self._grows:
            edge = rural_breakpoint_m(links.tx_height_m, links.rx_height_m, self._frequency_hz)
            sigma = np.where(los & (links.distance_2d_m > edge), _RURAL_FAR_DB, sigma)
        return np.asarray(sigma)

    def _advance(self, instants: Instants, los: BoolArray, rng_of: RngOf) -> FloatArray:
        """S of every pair, `[instants, pairs]`, updated by the way its ends have moved. los: [instants * links]."""
        pairs = instants.links[0].pairs
        if self._word is None:
            self._word = counter_rng.key(rng_of(0))
            self._position = instants.links[0].geometry.position_m
            self._path_m = np.zeros(len(self._position))
        path_m = self._moved(instants)
        way_m = path_m[:, pairs.low] + path_m[:, pairs.high]
        slot = self._slots(pairs.number, way_m[0], self._word)
        here, level = self._level[slot], np.empty_like(way_m)
        moved = way_m - np.concatenate([self._last_m[slot][None], way_m[:-1]])
        moves = moved.any(axis=1)
        if moves.any():
            reach = np.full(way_m.size, self._correlation_m[1])
            reach[instants.stacked.pairs.of_link[los]] = self._correlation_m[0]
            keep = np.exp(-moved / reach.reshape(way_m.shape))
            spread = np.sqrt(1.0 - keep**2)
        for place, any_moved in enumerate(moves.tolist()):
            if any_moved:
                fresh = counter_rng.normal(counter_rng.key(rng_of(place)), pairs.number)
                here = np.where(moved[place] > 0, keep[place] * here + spread[place] * fresh, here)
            level[place] = here
        if moves.any():
            self._level[slot], self._last_m[slot] = here, way_m[-1]
        return level

    def _slots(self, number: IntArray, way_m: FloatArray, word: int) -> IntArray:
        """Where pairs of these numbers are kept; new ones are added, whose first S depends on pair and seed alone."""
        new = ~np.isin(number, self._number, assume_unique=True)
        if new.any():
            every = np.concatenate([self._number, number[new]])
            order = np.argsort(every)
            self._number = every[order]
            self._level = np.concatenate([self._level, counter_rng.normal(word, number[new])])[order]
            self._last_m = np.concatenate([self._last_m, way_m[new]])[order]
        return np.searchsorted(self._number, number)

    def _moved(self, instants: Instants) -> FloatArray:
        """Way that each node has moved until every instant, `[instants, K]` m."""
        way = np.empty((len(instants), len(self._path_m)))
        for place, links in enumerate(instants.links):
            position = links.geometry.position_m
            if position is not self._position:
                self._path_m = self._path_m + np.linalg.norm(position - self._position, axis=1)
                self._position = position
            way[place] = self._path_m
        return way
