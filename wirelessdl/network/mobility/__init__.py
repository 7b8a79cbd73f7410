"""How nodes move: positions and velocities at any time.

A mobility is any object with `geometry(time_s)`. Its constructor may ask for `start_m` (where nodes were
placed, `[K, 3]`), `rng` and `find_file`. Answers must not depend on which times were asked for before.
"""

from typing import Protocol

from wirelessdl.arrays import FloatArray
from wirelessdl.links import Geometry
from wirelessdl.network.mobility.track import Track
from wirelessdl.network.mobility.walk import GaussMarkov, RandomWalk
from wirelessdl.network.mobility.waypoint import RandomWaypoint
from wirelessdl.network.mobility.waypoint_files import Waypoints


class Mobility(Protocol):
    def geometry(self, time_s: float) -> Geometry: ...


class Static:
    """Nodes stay where they were placed."""

    def __init__(self, start_m: FloatArray):
        self._geometry = Geometry.at_rest(start_m)

    def geometry(self, time_s: float) -> Geometry:  # noqa: ARG002
        return self._geometry


MOBILITIES = {
    "static": Static,
    "random-waypoint": RandomWaypoint,
    "random-walk": RandomWalk,
    "gauss-markov": GaussMarkov,
    "track": Track,
    "waypoints": Waypoints,
}
