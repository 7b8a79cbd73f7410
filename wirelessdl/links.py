"""Which node hears which, and where the nodes are.

A network is a vector of directed links in receiver-major order: every per-link quantity is one
vector of length `len(links)`. Dense `[rx, tx]` matrices are views for people and small-K maths.

Every array here is read-only: all parts of a run see the same one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy

from wirelessdl.arrays import BoolArray, FloatArray, IntArray, lock, read_only


@dataclass(frozen=True, eq=False)
class Geometry:
    """Positions and velocities of K nodes at one instant, both `[K, 3]` (x, y, height)."""

    position_m: FloatArray
    velocity_mps: FloatArray

    def __post_init__(self) -> None:
        lock(self, "position_m", "velocity_mps")

    @property
    def nodes(self) -> int:
        return len(self.position_m)

    def equals(self, other: "Geometry") -> bool:
        """Whether nodes are at the same places with the same velocities."""
        return np.array_equal(self.position_m, other.position_m) and np.array_equal(
            self.velocity_mps, other.velocity_mps
        )

    @staticmethod
    def at_rest(position_m: FloatArray) -> "Geometry":
        """Nodes that do not move."""
        position = np.asarray(position_m, dtype=np.float64)
        return Geometry(position, np.zeros_like(position))


@dataclass(frozen=True, eq=False)
class Pairs:
    """Unordered pairs {low, high}, `[pairs]` each, by rising number; of_link: [links] index of each link's pair."""

    number: IntArray
    low: IntArray
    high: IntArray
    of_link: IntArray

    def __post_init__(self) -> None:
        lock(self, "number", "low", "high", "of_link")

    def __len__(self) -> int:
        return len(self.number)


# what depends on the links only, not on where the nodes are
_TIMELESS = ("number", "reverse_number", "pair", "pairs", "degree", "component", "_repeats", "_receivers", "_at_node")


@dataclass(frozen=True, eq=False)
class Links:
    """Directed links `tx -> rx` of K nodes, sorted by receiver, then sender."""

    rx: IntArray
    tx: IntArray
    geometry: Geometry

    def __post_init__(self) -> None:
        lock(self, "rx", "tx")

    @staticmethod
    def from_mask(mask: BoolArray, geometry: Geometry) -> "Links":
        """Links where `mask[rx, tx]` is true; the diagonal does not count."""
        hears = mask.copy()
        np.fill_diagonal(hears, False)
        rx, tx = np.nonzero(hears)
        return Links(rx.astype(np.int64), tx.astype(np.int64), geometry)

    @staticmethod
    def from_pairs(rx: IntArray, tx: IntArray, geometry: Geometry, *, both_ways: bool = False) -> "Links":
        """Links of listed pairs in any order; duplicates and pairs of a node with itself are left out."""
        if both_ways:
            rx, tx = np.concatenate([rx, tx]), np.concatenate([tx, rx])
        links = Links.from_numbers(np.unique(np.asarray(rx, dtype=np.int64) * geometry.nodes + tx), geometry)
        return links.where(links.rx != links.tx)

    @staticmethod
    def from_numbers(number: IntArray, geometry: Geometry) -> "Links":
        """Links by their numbers rx * K + tx, which must rise."""
        return Links(*np.divmod(number, geometry.nodes), geometry)

    @staticmethod
    def from_gain(gain: FloatArray) -> "Links":
        """Links where a dense `gain[rx, tx]` is positive, of nodes at no particular place."""
        return Links.from_mask(gain > 0, Geometry.at_rest(np.zeros((len(gain), 3))))

    def at(self, geometry: Geometry) -> "Links":
        """The same links with the nodes elsewhere."""
        if geometry is self.geometry:
            return self
        moved = Links(self.rx, self.tx, geometry)
        # the links are the same, so values that depend on them only stay valid
        moved.__dict__.update({name: self.__dict__[name] for name in _TIMELESS if name in self.__dict__})
        return moved

    def precomputed(self, *names: str) -> "Links":
        """The same links, with what does not depend on places worked out, or these of it: `at` then takes it along."""
        for name in names or _TIMELESS:
            getattr(self, name)
        return self

    def where(self, keep: BoolArray) -> "Links":
        """Only the links where `keep`, `[links]`, is true."""
        return Links(self.rx[keep], self.tx[keep], self.geometry)

    def at_node(self, node: int) -> "Links":
        """Only the links to a node and from it."""
        if node not in self._at_node:
            self._at_node[node] = self.where((self.rx == node) | (self.tx == node)).precomputed("number", "pairs")
        return self._at_node[node].at(self.geometry)

    def __len__(self) -> int:
        return len(self.rx)

    @property
    def nodes(self) -> int:
        return self.geometry.nodes

    @cached_property
    def instants(self) -> int:
        """Number of instants whose links stand in this vector one after the other; see `Instants.stacked`."""
        return 1

    @cached_property
    def number(self) -> IntArray:
        """Number rx * K + tx of each directed link: it rises, and is the same at every instant."""
        return read_only(self.rx * self.nodes + self.tx)

    @cached_property
    def reverse_number(self) -> IntArray:
        """Number of the link that leads back, whether it exists or not."""
        return read_only(self.tx * self.nodes + self.rx)

    @cached_property
    def pair(self) -> IntArray:
        """Number low * K + high of the unordered pair {rx, tx}, `[links]`: the same in both directions and always."""
        low, high = np.minimum(self.rx, self.tx), np.maximum(self.rx, self.tx)
        return read_only(low * self.nodes + high)

    @cached_property
    def pairs(self) -> "Pairs":
        """The unordered pairs with a link in either direction."""
        number, of_link = np.unique(self.pair, return_inverse=True)
        low, high = np.divmod(number, self.nodes)
        return Pairs(number, low, high, of_link)

    @cached_property
    def degree(self) -> IntArray:
        """Number of senders that each node hears, `[K]`."""
        return read_only(np.bincount(self.rx, minlength=self.nodes))

    @cached_property
    def distance_m(self) -> FloatArray:
        """Length of each link in three dimensions, `[links]` m."""
        return self._apart_m(3)

    @cached_property
    def distance_2d_m(self) -> FloatArray:
        """Length of each link on the ground, `[links]` m."""
        return self._apart_m(2)

    def _apart_m(self, dimensions: int) -> FloatArray:
        pairs, square = self.pairs, np.zeros(len(self.pairs))
        for axis in self.geometry.position_m.T[:dimensions]:
            square += (axis[pairs.low] - axis[pairs.high]) ** 2
        return read_only(np.asarray(np.sqrt(square)[pairs.of_link]))

    @cached_property
    def tx_height_m(self) -> FloatArray:
        return read_only(np.asarray(self.geometry.position_m[self.tx, 2]))

    @cached_property
    def rx_height_m(self) -> FloatArray:
        return read_only(np.asarray(self.geometry.position_m[self.rx, 2]))

    def alike(self, other: "Links") -> bool:
        """Whether these are the same links, wherever nodes are."""
        return self.number is other.number or np.array_equal(self.number, other.number)

    def place(self, at: tuple[int, ...]) -> str:
        """Place of an entry in an array whose last axis is links, and whose first may be subbands, in words."""
        subband = f" in subband {at[0]}" if len(at) > 1 else ""
        return f" for link {self.tx[at[-1]]} -> {self.rx[at[-1]]}{subband}"

    def matrix(self, values: FloatArray, fill: float = 0.0) -> FloatArray:
        """Dense `[rx, tx]` view of one value per link."""
        dense = np.full((self.nodes, self.nodes), fill)
        dense[self.rx, self.tx] = values
        return dense

    def vector(self, matrix: FloatArray) -> FloatArray:
        """One value per link from a dense `[rx, tx]` matrix."""
        return np.asarray(matrix[self.rx, self.tx], dtype=np.float64)

    def sum_per_receiver(self, values: FloatArray) -> FloatArray:
        """Sum over the senders each node hears, `[K]`; of several slots `[slots, links]`, `[slots, K]`."""
        if values.ndim == 1:
            return np.bincount(self.rx, weights=values, minlength=self.nodes).astype(np.float64, copy=False)
        slots = len(values)
        if slots not in self._receivers:
            self._receivers[slots] = (self.rx + self.nodes * np.arange(slots)[:, None]).reshape(-1)
        total = np.bincount(self._receivers[slots], weights=values.reshape(-1), minlength=slots * self.nodes)
        return total.astype(np.float64, copy=False).reshape(slots, self.nodes)

    @cached_property
    def _receivers(self) -> dict[int, IntArray]:
        """By number of slots: the receiver of every link, counted on from slot to slot."""
        return {}

    @cached_property
    def _at_node(self) -> "dict[int, Links]":
        """What `at_node` gave, wherever nodes were."""
        return {}

    @cached_property
    def _repeats(self) -> "dict[int, tuple[IntArray, IntArray, Pairs, IntArray]]":
        """By number of instants: what `Instants.stacked` needs of the links alone."""
        return {}

    @cached_property
    def component(self) -> IntArray:
        """Number of the strongly connected component of each node, `[K]`."""
        graph = scipy.sparse.csr_array((np.ones(len(self)), (self.rx, self.tx)), shape=(self.nodes, self.nodes))
        _, label = scipy.sparse.csgraph.connected_components(graph, directed=True, connection="strong")
        return read_only(np.asarray(label, dtype=np.int64))

    def strongly_connected(self) -> bool:
        """Whether every node's model reaches every other."""
        return bool(self.component.max() == 0)


@dataclass(frozen=True, eq=False)
class Motion:
    """Positions and velocities of K nodes at several instants, both `[instants, K, 3]`."""

    position_m: FloatArray
    velocity_mps: FloatArray

    @staticmethod
    def from_geometries(geometries: Sequence[Geometry]) -> "Motion":
        return Motion(np.stack([g.position_m for g in geometries]), np.stack([g.velocity_mps for g in geometries]))

    def __len__(self) -> int:
        return len(self.position_m)

    def at(self, place: int) -> Geometry:
        """Of one instant."""
        return Geometry(self.position_m[place], self.velocity_mps[place])


class MovingLinks(Sequence[Links]):
    """The same links at the instants of a motion, each made when it is asked for."""

    def __init__(self, links: Links, motion: Motion):
        self._links, self.motion = links, motion
        here = links.geometry.equals(motion.at(0))
        self._made = {0: links} if here else {}  # what was worked out of them holds

    def __len__(self) -> int:
        return len(self.motion)

    def __getitem__(self, place: int) -> Links:  # type: ignore[override]
        if place not in self._made:
            self._made[place] = self._links.at(self.motion.at(place))
        return self._made[place]


@dataclass(frozen=True, eq=False)
class Instants:
    """The same links at several instants, in the order of time. time_s: of each.

    places: those at which what follows places is worked out, None for all; place: [instants] which of them holds when.
    number: of each among the instants of a frame, where they are some of them. chosen: which of the links of `places`
    these are, None for all.
    """

    links: Sequence[Links]
    time_s: tuple[float, ...]
    places: "Instants | None" = None
    place: IntArray | None = None
    number: tuple[int, ...] | None = None
    chosen: IntArray | None = None

    def __len__(self) -> int:
        return len(self.links)

    @cached_property
    def motion(self) -> Motion:
        """Where nodes are at every instant."""
        if isinstance(self.links, MovingLinks):
            return self.links.motion
        return Motion.from_geometries([links.geometry for links in self.links])

    @cached_property
    def distance_m(self) -> FloatArray:
        """Length of each link at every instant, `[instants, links]` m."""
        pairs, square = self.links[0].pairs, 0.0
        for axis in np.moveaxis(self.motion.position_m, 2, 0):
            square = square + (axis[:, pairs.low] - axis[:, pairs.high]) ** 2
        return np.asarray(np.sqrt(square)[:, pairs.of_link])

    def only(self, links: Links, chosen: IntArray) -> "Instants":
        """Some of the links, and their places among all, `[n]`."""
        return replace(self, links=MovingLinks(links, self.motion), chosen=chosen)

    def by_place(self, values: Callable[[Links], FloatArray]) -> FloatArray:
        """What follows places, `[instants, links]`: of stacked links `[instants * links]`."""
        if self.places is None:
            return values(self.stacked).reshape(len(self), -1)
        found = values(self.places.stacked).reshape(len(self.places), -1)
        return np.asarray((found if self.chosen is None else found[:, self.chosen])[self.place])

    @cached_property
    def stacked(self) -> Links:
        """All instants as one vector of links, instant by instant: formulas per link then take one call for all.

        Nodes are counted on from instant to instant; numbers of links and pairs, which select random draws, are not.
        """
        first, count = self.links[0], len(self.links)
        if count == 1:
            return first
        if count not in first._repeats:
            first._repeats[count] = _repeated(first, count)
        rx, tx, pairs, number = first._repeats[count]
        motion = self.motion
        every = Links(rx, tx, Geometry(motion.position_m.reshape(-1, 3), motion.velocity_mps.reshape(-1, 3)))
        pair = read_only(pairs.number[pairs.of_link])
        every.__dict__.update(instants=count, pairs=pairs, number=read_only(number), pair=pair)
        return every


def _repeated(links: Links, count: int) -> "tuple[IntArray, IntArray, Pairs, IntArray]":
    """Receivers, senders, pairs and numbers of links that are repeated, each time between nodes of their own."""
    pairs = links.pairs

    def counted_on(values: IntArray, step: int) -> IntArray:
        return np.asarray((values + step * np.arange(count)[:, None]).reshape(-1))

    again = Pairs(
        np.tile(pairs.number, count),
        counted_on(pairs.low, links.nodes),
        counted_on(pairs.high, links.nodes),
        counted_on(pairs.of_link, len(pairs)),
    )
    return counted_on(links.rx, links.nodes), counted_on(links.tx, links.nodes), again, np.tile(links.number, count)
