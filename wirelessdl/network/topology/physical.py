"""Links by distance or SNR.

    random-geometric   pairs within `radius_m` at the start; the links stay as nodes move
    range              pairs within `range_m`, again as nodes move
    snr                links of mean SNR `min_snr_db` or more by the loss models, again as nodes move

Pairs within a distance come from a k-d tree, so candidates cost K log K and not K^2. The range of an SNR does not
follow from the loss models (line of sight is drawn per pair, and a user's model may do anything), so `snr` evaluates
them for every pair up to 1,500 nodes and needs `max_range_m` beyond: pairs further apart are not evaluated, and never
linked.

Non-neighbours are heard up to a radius, which is chosen by power.

Under physical interference everybody reaches everybody, K^2 pairs. The cut-off is a number of dB: beyond the radius all
non-neighbours together arrive so many dB, or more, below thermal noise and the non-neighbours within it together,

    sum beyond <= 10^(-cutoff / 10) (thermal + sum within)

so that SINR is overstated by 10 lg(1 + 10^(-cutoff / 10)) dB at most: 0.41 dB at 10 dB, 0.04 dB at 20 dB. The radius is
the smallest one for which that holds at each of 64 receivers, spread evenly over node numbers, when every node sends at
full power and the loss models alone decide (no shadowing, no fading). It is found once, where nodes are at the start.

Neglected non-neighbours neither disturb nor mask, and nothing is stated about what they hear: links beyond the radius
have no rows. Totals of senders (own, coalition) do not depend on who hears them.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import scipy
from annotated_types import Interval

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.links import Geometry, Links
from wirelessdl.memory import free_bytes, require_free
from wirelessdl.network.parameters import Length
from wirelessdl.network.topology.graphs import SnrDb
from wirelessdl.units import from_db, to_db

MAX_ALL_PAIRS_NODES = 1500  # nodes up to which the SNR of every pair is evaluated
_BYTES_PER_LINK = 150.0  # bytes of a link while it is listed: pairs, both ways, sorted, their lengths


def require_pairs_fit(geometry: Geometry, range_m: float, what: str, remedy: str) -> None:
    """Raise a ValueError where memory cannot hold all links within a range; they are counted, not listed.

    what: key and value, as messages begin. Not counted where every pair of nodes would fit.
    """
    if _BYTES_PER_LINK * geometry.nodes**2 <= free_bytes():
        return
    tree = scipy.spatial.cKDTree(geometry.position_m)
    count = int(tree.count_neighbors(tree, range_m)) - geometry.nodes
    require_free(f"{what}, {count} links", _BYTES_PER_LINK * count, remedy)


def links_within(geometry: Geometry, range_m: float, key: str = "range_m") -> Links:
    """All links no longer than a range, both ways. key: of the range, in messages."""
    require_pairs_fit(geometry, range_m, f"{key} is {range_m:g}", "lower it, or use fewer nodes")
    # the tree compares squares: search slightly further, then compare the link lengths themselves
    pair = scipy.spatial.cKDTree(geometry.position_m).query_pairs(range_m * (1 + 1e-9), output_type="ndarray")
    links = Links.from_pairs(pair[:, 0], pair[:, 1], geometry, both_ways=True)
    return links.where(links.distance_m <= range_m)


class _Within:
    """Links no longer than a range, which one key gives."""

    _key: ClassVar[str]
    _range_m: float

    def links(self, geometry: Geometry, snr_db: SnrDb, rng: np.random.Generator) -> Links:
        return links_within(geometry, self._range_m, self._key)

    @property
    def remedy(self) -> str:
        return f"raise {self._key}, which is {self._range_m:g}, or place nodes closer"


class RandomGeometric(_Within):
    """Pairs within a radius at the start; the links stay as nodes move."""

    _key = "radius_m"

    def __init__(self, radius_m: Length):
        self.radius_m = self._range_m = radius_m


class InRange(_Within):
    """Pairs within range_m at their present positions; follows motion."""

    _key = "range_m"
    follows_motion = True

    def __init__(self, range_m: Length):
        self.range_m = self._range_m = range_m


class SnrLimited:
    """Links with a mean SNR, by the loss models, of min_snr_db or more at present positions; follows motion."""

    follows_motion = True

    def __init__(self, min_snr_db: Annotated[float, Interval(ge=-200, le=200)], max_range_m: Length | None = None):
        self.min_snr_db, self.max_range_m = min_snr_db, max_range_m
        self.remedy = f"lower min_snr_db, which is {min_snr_db:g}, raise max_range_m or radio.power_dbm"

    def links(self, geometry: Geometry, snr_db: SnrDb, rng: np.random.Generator) -> Links:
        candidates = self._candidates(geometry)
        return candidates.where(snr_db(candidates) >= self.min_snr_db)

    def _candidates(self, geometry: Geometry) -> Links:
        if self.max_range_m is not None:
            return links_within(geometry, self.max_range_m, "max_range_m")
        if geometry.nodes > MAX_ALL_PAIRS_NODES:
            raise ValueError(
                f"max_range_m is missing; {geometry.nodes} nodes are more than {MAX_ALL_PAIRS_NODES}, too many to ask "
                "every pair for its SNR: set the distance beyond which nobody is heard"
            )
        return Links.from_mask(np.ones((geometry.nodes, geometry.nodes), dtype=bool), geometry)


_MAX_RECEIVERS = 64  # receivers at which neglected power is added up


@dataclass(frozen=True)
class Reach:
    """Non-neighbours beyond radius_m are neglected.

    neglected_db: all of them together over thermal noise and the non-neighbours within, at the worst receiver asked.
    """

    radius_m: float
    neglected_db: float
    receivers: int  # that were asked

    @property
    def words(self) -> str:
        """What is neglected, as messages say it."""
        overstated_db = to_db(1.0 + from_db(self.neglected_db))
        return (
            f"non-neighbours beyond {self.radius_m:.4g} m, all of them together {-self.neglected_db:.3g} dB below "
            f"thermal noise and the non-neighbours that are heard, at the worst of {self.receivers} receivers: SINR is "
            f"overstated by up to {overstated_db:.2g} dB"
        )


def reach_of(geometry: Geometry, links: Links, snr_db: SnrDb, cutoff_db: float) -> Reach:
    """The radius of a cut-off. links: the graph's, which no radius takes away; snr_db: mean SNR of candidate links."""
    nodes, limit = geometry.nodes, from_db(-cutoff_db)
    asked = np.unique(np.linspace(0, nodes - 1, _MAX_RECEIVERS).astype(np.int64))
    others = [_others(int(rx), geometry, links, snr_db) for rx in asked]
    radius_m = max(_radius_m(away_m, ratio, limit) for away_m, ratio in others)
    shares = [ratio[away_m > radius_m].sum() / (1.0 + ratio[away_m <= radius_m].sum()) for away_m, ratio in others]
    with np.errstate(divide="ignore"):
        return Reach(radius_m, float(to_db(np.array([max(shares)]))[0]), len(asked))


def _others(rx: int, geometry: Geometry, links: Links, snr_db: SnrDb) -> tuple[FloatArray, FloatArray]:
    """Distance in m of everyone who is no neighbour of a receiver, and power over thermal noise."""
    other = np.ones(geometry.nodes, dtype=bool)
    other[rx] = False
    other[links.tx[np.searchsorted(links.rx, rx) : np.searchsorted(links.rx, rx, side="right")]] = False
    tx = np.flatnonzero(other)
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
