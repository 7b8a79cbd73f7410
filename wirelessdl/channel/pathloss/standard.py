"""3GPP losses as channel models: TR 38.901 and TR 37.885, with or without a line of sight per link.

The formulas, with every symbol, and the ranges of validity stand in formulas.py.
"""

from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Gt, Interval

from wirelessdl.arrays import FloatArray
from wirelessdl.channel.los import NLOSV, ChannelCondition, always_in_sight
from wirelessdl.channel.pathloss.distance import PathLoss
from wirelessdl.channel.pathloss.formulas import VehicleLaw, check_range, standard_loss_db, vehicle_loss_db
from wirelessdl.links import Links

_CAR_M, _TRUCK_M = 1.6, 3.0  # TR 37.885: vehicle types 1 and 2; type 3


class StandardLoss(PathLoss):
    """A 3GPP loss; `enforce_range = false` evaluates the formula outside the standard's range of validity."""

    name: ClassVar[str]

    def __init__(
        self,
        frequency_hz: Annotated[float, Gt(0)],
        condition: ChannelCondition | None = None,
        enforce_range: bool = True,
    ):
        self.frequency_hz, self._enforce = frequency_hz, enforce_range
        self._condition = condition or always_in_sight()

    @property
    def correlated_m(self) -> float:
        """Shortest distance over which what it depends on is correlated, m; inf where nothing is drawn by places."""
        return self._condition.correlated_m

    def warning(self, links: Links) -> str | None:
        """Which link is outside the range of validity, in words; None where all are inside."""
        try:
            check_range(self.name, links, self.frequency_hz)
        except ValueError as error:
            return str(error)
        return None

    def loss_db(self, links: Links) -> FloatArray:
        if self._enforce:
            check_range(self.name, links, self.frequency_hz)
        blocked, clear = (standard_loss_db(self.name, links, self.frequency_hz, los) for los in (False, True))
        return np.where(self._condition.nlos(links), blocked, clear)


class UmiStreetCanyon(StandardLoss):
    """Urban micro cell in a street canyon (TR 38.901).

    Valid: ground distance 10 m to 5 km, higher antenna 1.5 to 25 m, lower antenna 1.5 to 22.5 m, 0.5 to 100 GHz.
    """

    name = "umi-street-canyon"


class Uma(StandardLoss):
    """Urban macro cell (TR 38.901).

    Valid: ground distance 10 m to 5 km, higher antenna 1.5 to 60 m, lower antenna 1.5 to 13 m, 0.5 to 100 GHz.
    """

    name = "uma"


class InhOffice(StandardLoss):
    """Indoor hotspot, office (TR 38.901).

    Valid: ground distance up to 150 m (slant range below 1 m is taken as 1 m), higher antenna 1 to 5 m, lower antenna
    0.5 to 5 m, 0.5 to 100 GHz.
    """

    name = "inh-office"


class Rma(StandardLoss):
    """Rural macro cell (TR 38.901).

    Valid: ground distance 10 m to 10 km, higher antenna 10 to 150 m, lower antenna 1 to 10 m, 0.5 to 30 GHz; mean
    building height 5 m, street width 20 m.
    """

    name = "rma"


class Sidelink(StandardLoss):
    """Device to device: beside a line of sight and none, a vehicle may be in the way.

    tall_vehicles: share of the vehicles in the way that are 3 m high; the others are 1.6 m. vehicle_law: of what a
    vehicle adds in dB: normal, cut at 0, or log-normal as in ns-3 (formulas.py). Low antennas at both ends; no upper
    distance is given; slant range below 1 m is taken as 1 m.
    """

    def __init__(
        self,
        frequency_hz: Annotated[float, Gt(0)],
        condition: ChannelCondition | None = None,
        enforce_range: bool = True,
        tall_vehicles: Annotated[float, Interval(ge=0, le=1)] = 0.0,
        vehicle_law: VehicleLaw = "normal",
    ):
        super().__init__(frequency_hz, condition, enforce_range)
        self._tall_share, self._law = tall_vehicles, vehicle_law

    def loss_db(self, links: Links) -> FloatArray:
        loss_db, behind = super().loss_db(links), self._condition.state(links) == NLOSV
        if behind.any():
            ends = (links.tx_height_m, links.rx_height_m)
            level, roof = self._condition.vehicle_level(links), self._roof_m(links)
            loss_db = loss_db + behind * vehicle_loss_db(
                links.distance_m, np.minimum(*ends), np.maximum(*ends), roof, level, self._law
            )
        return loss_db

    def _roof_m(self, links: Links) -> FloatArray:
        """Height of the vehicle in the way, `[links]` m: a car, or a bus or truck."""
        if self._tall_share == 0:
            return np.full(len(links), _CAR_M)
        return np.where(self._condition.vehicle_unit(links) < self._tall_share, _TRUCK_M, _CAR_M)


class SidelinkUrban(Sidelink):
    """Device to device in a street grid (TR 37.885)."""

    name = "sidelink-urban"


class SidelinkHighway(Sidelink):
    """Device to device on a highway (TR 37.885)."""

    name = "sidelink-highway"


STANDARD: dict[str, type[StandardLoss]] = {
    kind.name: kind for kind in (UmiStreetCanyon, Uma, InhOffice, Rma, SidelinkUrban, SidelinkHighway)
}
