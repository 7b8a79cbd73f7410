"""How nodes move: positions and velocities at any time.

A mobility is any object with `geometry(time_s)`. Its constructor may ask for `start_m` (where nodes were
placed, `[K, 3]`), `rng`, `streets` (the map, or None) and `find_file`. The geometry of a time must not depend on
earlier calls. A built-in class may have `motion(times_s)` besides: several instants in one call.
"""

from collections.abc import Sequence
from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.contract import checked_array, of_node
from wirelessdl.errors import ContractError
from wirelessdl.links import Geometry, Motion
from wirelessdl.network.mobility.fcd import SumoFcd
from wirelessdl.network.mobility.streets import Streets
from wirelessdl.network.mobility.track import Track
from wirelessdl.network.mobility.walk import GaussMarkov, RandomWalk
from wirelessdl.network.mobility.waypoint import RandomWaypoint
from wirelessdl.network.mobility.waypoint_files import Waypoints


class Mobility(Protocol):
    def geometry(self, time_s: float) -> Geometry: ...


@runtime_checkable
class HasMotion(Protocol):
    def motion(self, times_s: Sequence[float]) -> Motion: ...


def has_motion(mobility: object) -> TypeGuard[HasMotion]:
    """Never of a class derived from a built-in one, which may change `geometry` alone."""
    return isinstance(mobility, HasMotion) and type(mobility).__module__.startswith("wirelessdl.")


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
    "streets": Streets,
    "track": Track,
    "waypoints": Waypoints,
    "sumo-fcd": SumoFcd,
}


def require_geometry(geometry: object, nodes: int, time_s: float, name: str) -> Geometry:
    """What a mobility of this name answered at time_s, checked: finite `[K, 3]`, antennas above ground.

    Of a class of the user's it is a copy: that may fill and return the same arrays, or the same object, every time.
    """
    if not isinstance(geometry, Geometry):
        raise ContractError(
            f"network.mobility: {name} returned {type(geometry).__name__}, expected a wirelessdl.Geometry"
        )
    parts = [
        checked_array(
            f"network.mobility: {name} at {time_s:g} s",
            getattr(geometry, field),
            (nodes, 3),
            "x, y and height of each node",
            field=field,
            place=of_node,
            is_user_class=":" in name,
        )
        for field in ("position_m", "velocity_mps")
    ]
    if ":" in name:
        geometry = Geometry(*parts)
    if (geometry.position_m[:, 2] <= 0).any():
        node = int(np.argmax(geometry.position_m[:, 2] <= 0))
        raise ContractError(
            f"network.mobility: {name} puts node {node} at a height of {geometry.position_m[node, 2]:g} m at "
            f"{time_s:g} s; antennas must be above ground"
        )
    return geometry


def require_motion(motion: Motion, nodes: int, times_s: Sequence[float], name: str) -> Motion:
    """The same of a built-in mobility at several instants."""
    position, velocity = motion.position_m, motion.velocity_mps
    sound = position.shape == velocity.shape == (len(times_s), nodes, 3)
    if not (sound and np.isfinite(position).all() and np.isfinite(velocity).all() and (position[..., 2] > 0).all()):
        for place, time_s in enumerate(times_s):
            require_geometry(motion.at(place), nodes, time_s, name)
    return motion
