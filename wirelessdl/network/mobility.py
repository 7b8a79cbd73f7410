"""How nodes move: positions and velocities at any time, deterministic."""

from typing import Protocol

from wirelessdl.arrays import FloatArray
from wirelessdl.links import Geometry


class Mobility(Protocol):
    def geometry(self, time_s: float) -> Geometry: ...


class Static:
    """Nodes stay where they were placed."""

    def __init__(self, start_m: FloatArray):
        self._geometry = Geometry.at_rest(start_m)

    def geometry(self, time_s: float) -> Geometry:  # noqa: ARG002
        return self._geometry


MOBILITIES = {"static": Static}
