"""What is transmitted in one slot, as the ledger records it before it is sent.

A release states what was sent, not what it costs in privacy: accountants compute that from it. mu is sensitivity over
noise deviation, the inverse of the noise multiplier; 0 where the model sent holds no gradient, as in the first round,
whose models depend on no data.
"""

from dataclasses import dataclass

from wirelessdl.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class FrameRelease:
    """All transmissions of one slot.

    on_air: [K] which nodes send. gamma, multiplier: [K] learning rate and multiplier of the gradient that each sender's
    model holds, 0 for none. own_mu: [K] mu masked by the sender's own noise only. link_rx, link_tx: [links] receiver
    and sender. link_mu: [links] mu masked by all noise that the receiver hears; NaN where that means nothing.
    coalition_mu: [K] mu masked by what the coalition does not know, where pairs share noise. counts_links: whether what
    a receiver hears is accounted for at all. block_mu: [blocks, links] link_mu block by block, of which it is the
    largest.
    """

    round: int
    on_air: BoolArray
    gamma: FloatArray
    multiplier: FloatArray
    own_mu: FloatArray
    link_rx: IntArray
    link_tx: IntArray
    link_mu: FloatArray
    coalition_mu: FloatArray | None = None
    counts_links: bool = True
    block_mu: FloatArray | None = None

    @property
    def link_number(self) -> IntArray:
        """Number rx * K + tx of each link."""
        return self.link_rx * len(self.on_air) + self.link_tx
