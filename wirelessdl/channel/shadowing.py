"""Log-normal shadowing, correlated along the motion of both ends (Gudmundson).

    S' = r S + sqrt(1 - r^2) N(0, 1),   r = exp(-dx / d_corr),   dx = |dp_tx| + |dp_rx|

in units of sigma, symmetric per pair; a link whose ends stand still does not change. sigma and d_corr
follow the loss model and the condition (LOS / NLOS) unless given:

    umi-street-canyon 4 / 7.82 dB, 10 / 13 m     uma 4 / 6 dB, 37 / 50 m      inh-office 3 / 8.03 dB, 10 / 6 m
    rma 4 / 8 dB, 37 / 120 m                     sidelink 3 / 4 dB, 10 / 13 m  others 4 dB, 20 m
"""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt

from wirelessdl.arrays import FloatArray
from wirelessdl.channel.condition import ChannelCondition
from wirelessdl.links import Links
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


class Shadowing:
    """Log-normal, one process per unordered pair."""

    def __init__(
        self,
        condition: ChannelCondition,
        sigma_db: Annotated[float, Ge(0)] | None = None,
        correlation_m: Annotated[float, Gt(0)] | None = None,
    ):
        sigma, reach = _TABLE.get(condition.loss_model, _OTHERS)
        self._sigma_db = sigma if sigma_db is None else (sigma_db, sigma_db)
        self._correlation_m = reach if correlation_m is None else (correlation_m, correlation_m)
        self._condition = condition
        self._level: FloatArray | None = None
        self._position = np.zeros((0, 3))

    def gain(self, links: Links, time_s: float, rng: np.random.Generator) -> FloatArray:
        los = self._condition.los(links)
        level = self._advance(links, los, rng)
        return loss_db_to_gain(np.where(los, *self._sigma_db) * level[links.pair_rank])

    def _advance(self, links: Links, los: np.ndarray, rng: np.random.Generator) -> FloatArray:
        """Standard normal level of every pair, moved on by how far its ends went."""
        position = links.geometry.position_m
        pairs = links.nodes * (links.nodes - 1) // 2
        if self._level is None:
            self._level, self._position = rng.standard_normal(pairs), position.copy()
            return self._level
        moved = np.linalg.norm(position - self._position, axis=1)
        self._position = position.copy()
        if moved.any():
            low, high = np.triu_indices(links.nodes, k=1)
            reach = np.full(pairs, self._correlation_m[1])
            reach[links.pair_rank[los]] = self._correlation_m[0]
            keep = np.exp(-(moved[low] + moved[high]) / reach)
            self._level = keep * self._level + np.sqrt(1.0 - keep**2) * rng.standard_normal(pairs)
        return self._level
