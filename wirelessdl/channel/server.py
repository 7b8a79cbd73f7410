"""The air between nodes and a server: the channel models of the scenario, on links of a star with draws of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.channel.model import Chain
from wirelessdl.links import Geometry, Instants, Links

Complex = NDArray[np.complex128]


@dataclass(eq=False)
class ServerParts:
    """position_m: [3] of the server; channel: between it and nodes; antennas, node_antennas: of either end; power_w:
    its budget, W; up: whether it works in a round. The server is node K of the links here, and of nothing else.
    """

    position_m: FloatArray
    channel: Chain
    antennas: int
    node_antennas: int
    power_w: float
    up: Callable[[int], bool]
    _links: Links | None = field(default=None, repr=False)

    def h_at(self, geometries: Sequence[Geometry], times_s: Sequence[float]) -> tuple[Complex, Complex, FloatArray]:
        """h at several instants, `[instants, M, K]`: to the antennas of the server, and from its first to those of
        nodes; and mean |h| of the first instant, `[K]`.
        """
        links = tuple(self._star(geometry) for geometry in geometries)
        found, nodes = self.channel.gains(Instants(links, tuple(times_s))), geometries[0].nodes
        assert found.antennas is not None
        h = found.antennas  # receiver-major: nodes hear the server, then it hears them
        return h[:, : self.antennas, nodes:], h[:, : self.node_antennas, :nodes], found.mean[0, nodes:]

    def _star(self, nodes: Geometry) -> Links:
        geometry = Geometry(
            np.vstack([nodes.position_m, self.position_m]), np.vstack([nodes.velocity_mps, np.zeros(3)])
        )
        if self._links is None:
            leaf: IntArray = np.arange(nodes.nodes)
            hub = np.full_like(leaf, nodes.nodes)
            self._links = Links(np.concatenate([leaf, hub]), np.concatenate([hub, leaf]), geometry).precomputed()
        return self._links.at(geometry)
