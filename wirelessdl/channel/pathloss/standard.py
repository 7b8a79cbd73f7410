"""3GPP losses as channel models: TR 38.901 and TR 37.885, by the condition of each link."""

from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Gt

from wirelessdl.arrays import FloatArray
from wirelessdl.channel.los import ChannelCondition, always_in_sight
from wirelessdl.channel.pathloss.distance import PathLoss
from wirelessdl.channel.pathloss.formulas import check_range, standard_loss_db
from wirelessdl.links import Links


class StandardLoss(PathLoss):
    """A 3GPP loss; `enforce_range = false` lets it be used where the standard gives no meaning to it."""

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
        """What is wrong with using it on these links all the same; None when nothing is."""
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
    """Urban micro cell in a street canyon (TR 38.901)."""

    name = "umi-street-canyon"


class Uma(StandardLoss):
    """Urban macro cell (TR 38.901)."""

    name = "uma"


class InhOffice(StandardLoss):
    """Indoor hotspot, office (TR 38.901)."""

    name = "inh-office"


class Rma(StandardLoss):
    """Rural macro cell (TR 38.901)."""

    name = "rma"


class SidelinkUrban(StandardLoss):
    """Device to device in a street grid (TR 37.885)."""

    name = "sidelink-urban"


class SidelinkHighway(StandardLoss):
    """Device to device on a highway (TR 37.885)."""

    name = "sidelink-highway"
