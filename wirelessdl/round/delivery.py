"""Step 2 again, under digital access: attempts of a frame, with gains of their own as time goes on."""

from collections.abc import Sequence

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.radio.access import Turns
from wirelessdl.radio.digital import Delivery, Messages
from wirelessdl.radio.frame_channel import FrameChannel
from wirelessdl.round.observe import Observer
from wirelessdl.units import to_s


class Delivering:
    """Delivers messages in time; asks the observer for the gains of repetitions."""

    def __init__(self, messages: Messages, observer: Observer):
        self._messages, self._observer = messages, observer

    def deliver(self, now_ns: int, channel: FrameChannel, on_air: BoolArray, turns: Turns) -> Delivery:
        """Of the frame that opens now. channel: among who sends and who listens; on_air: [K]."""

        def later(offsets_ns: Sequence[int]) -> Sequence[FloatArray]:
            return self._observer.again(channel.heard, [to_s(now_ns + offset_ns) for offset_ns in offsets_ns])

        return self._messages.deliver(channel, on_air, turns, later)
