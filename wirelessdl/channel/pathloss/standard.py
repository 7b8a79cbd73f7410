"""3GPP losses as channel models: TR 38.901 and TR 37.885, with or without a line of sight per link.

The formulas, with every symbol, stand in tr38901.py and tr37885.py; the ranges of validity in formulas.py.
"""

from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Gt

from wirelessdl.arrays import FloatArray
from wirelessdl.channel.los import ChannelCondition, always_in_sight
from wirelessdl.channel.pathloss.distance import PathLoss
from wirelessdl.channel.pathloss.formulas import check_range, standard_loss_db
from wirelessdl.links import Links


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

    def warning(self, links: Links) -> str | None:
        """Which link is outside the range of validity, in words; None where all are inside."""
        try:
            check_range(self.name, links.distance_2d_m, links.tx_height_m, links.rx_height_m, self.frequency_hz)
        except ValueError as error:
            return str(error)
        return None

    def loss_db(self, links: Links) -> FloatArray:
        clear, blocked = (
            standard_loss_db(
                self.name,
                links.distance_2d_m,
                links.tx_height_m,
                links.rx_height_m,
                self.frequency_hz,
                los,
                enforce=self._enforce,
            )
            for los in (True, False)
        )
        return np.where(self._condition.los(links), clear, blocked)


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


class SidelinkUrban(StandardLoss):
    """Device to device in a street grid (TR 37.885).

    Low antennas at both ends; no upper distance is given; slant range below 1 m is taken as 1 m.
    """

    name = "sidelink-urban"


class SidelinkHighway(StandardLoss):
    """Device to device on a highway (TR 37.885).

    Low antennas at both ends; no upper distance is given; slant range below 1 m is taken as 1 m.
    """

    name = "sidelink-highway"
