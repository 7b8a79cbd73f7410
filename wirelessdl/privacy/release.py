"""What left the antenna in one slot, written down before it is sent.

A release says what was done, not what it costs: accountants read it. mu is sensitivity over noise
deviation, the inverse of the noise multiplier; zero where the state sent carries no gradient, as in
the first round, whose models come from no data.
"""

from dataclasses import dataclass

from wirelessdl.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class FrameRelease:
    """One slot, one frozen record for all its transmissions.

    `own_mu[K]` per sender behind its own noise, `link_mu` per link behind all its receiver hears;
    `gamma[K]` and `multiplier[K]` of the gradient each sender's model carries, 0 for none.
    """

    round: int
    on_air: BoolArray
    gamma: FloatArray
    multiplier: FloatArray
    own_mu: FloatArray
    link_rx: IntArray
    link_tx: IntArray
    link_mu: FloatArray

    @property
    def link_number(self) -> IntArray:
        """Number rx * K + tx of each link."""
        return self.link_rx * len(self.on_air) + self.link_tx
