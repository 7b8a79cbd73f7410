"""How far strangers are heard: a radius beyond which they are neglected, chosen by power.

Under physical interference everybody reaches everybody, K^2 pairs. The cut-off is a number of dB: beyond the radius all
strangers together arrive so many dB, or more, below thermal noise and the strangers within it together,

    sum beyond <= 10^(-cutoff / 10) (thermal + sum within)

so that SINR is overstated by 10 lg(1 + 10^(-cutoff / 10)) dB at most: 0.41 dB at 10 dB, 0.04 dB at 20 dB. The radius is
the smallest one for which that holds at each of 64 receivers, spread evenly over node numbers, when every node sends at
full power and the loss models alone decide (no shadowing, no fading). It is found once, where nodes are at the start.

Neglected strangers neither disturb nor mask, and nothing is stated about what they hear: links beyond the radius have
no rows. Totals of senders (own, coalition) do not depend on who hears them.
"""

from dataclasses import dataclass

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.links import Geometry, Links
from wirelessdl.network.topology.graphs import SnrDb
from wirelessdl.network.topology.physical import links_within
from wirelessdl.units import from_db, to_db

_ASKED = 64  # receivers at which neglected power is added up


@dataclass(frozen=True)
class Reach:
    """Strangers beyond radius_m are neglected.

    neglected_db: all of them together over thermal noise and the strangers within, at the worst receiver asked.
    """

    radius_m: float
    neglected_db: float
    receivers: int  # that were asked

    @property
    def words(self) -> str:
        """What is neglected, as messages say it."""
        overstated_db = to_db(1.0 + from_db(self.neglected_db))
        return (
            f"strangers beyond {self.radius_m:.4g} m, all of them together {-self.neglected_db:.3g} dB below thermal "
            f"noise and the strangers that are heard, at the worst of {self.receivers} receivers: SINR is overstated "
            f"by up to {overstated_db:.2g} dB"
        )


def reach_of(geometry: Geometry, links: Links, snr_db: SnrDb, cutoff_db: float) -> Reach:
    """The radius of a cut-off. links: the graph's, which no radius takes away; snr_db: mean SNR of candidate links."""
    nodes, limit = geometry.nodes, from_db(-cutoff_db)
    asked = np.unique(np.linspace(0, nodes - 1, _ASKED).astype(np.int64))
    strange = [_strangers(int(rx), geometry, links, snr_db) for rx in asked]
    radius_m = max(_radius_m(away_m, ratio, limit) for away_m, ratio in strange)
    shares = [ratio[away_m > radius_m].sum() / (1.0 + ratio[away_m <= radius_m].sum()) for away_m, ratio in strange]
    with np.errstate(divide="ignore"):
        return Reach(radius_m, float(to_db(np.array([max(shares)]))[0]), len(asked))


def _strangers(rx: int, geometry: Geometry, links: Links, snr_db: SnrDb) -> tuple[FloatArray, FloatArray]:
    """Distance in m of everyone who is no neighbour of a receiver, and power over thermal noise."""
    stranger = np.ones(geometry.nodes, dtype=bool)
    stranger[rx] = False
    stranger[links.tx[np.searchsorted(links.rx, rx) : np.searchsorted(links.rx, rx, side="right")]] = False
    tx = np.flatnonzero(stranger)
    candidates = Links(np.full(len(tx), rx, dtype=np.int64), tx, geometry)
    return candidates.distance_m, np.asarray(from_db(snr_db(candidates)))


def _radius_m(away_m: FloatArray, ratio: FloatArray, limit: float) -> float:
    """Smallest radius beyond which ratios add up to so much of 1 and those within, at most; 0 where all do."""
    order = np.argsort(away_m, kind="stable")
    within = np.cumsum(ratio[order])
    total = float(within[-1]) if len(within) else 0.0
    if total <= limit:
        return 0.0
    enough = np.flatnonzero(total - within <= limit * (1.0 + within))
    return float(away_m[order[enough[0]]])


def heard_within(links: Links, radius_m: float) -> tuple[Links, BoolArray]:
    """All that is heard: the graph's links and everyone within the radius; and which of them are the graph's."""
    near = links_within(links.geometry, radius_m) if radius_m > 0 else links
    number = np.union1d(near.number, links.number)
    heard = Links.from_numbers(number, links.geometry)
    neighbour = np.zeros(len(number), dtype=bool)
    neighbour[np.searchsorted(number, links.number)] = True
    return heard, neighbour
