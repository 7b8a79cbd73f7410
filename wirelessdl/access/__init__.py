"""Access: how models get across the air, and what every node holds then.

    s = A w + receiver noise      w: what is sent, once a round, with its noise; A and the noise are the access's

An access decides who sends in which turn, how long that takes, and which weights receivers apply; nothing that it does
depends on data. A frame is a sequence of `Step`s. The first sends w, the one release of the round, charged before;
further ones send on only what nodes hold by then, and only nodes that sent w take part in that. The round engine holds
every access to it, so the own and the coalition total hold whatever its weights (post-processing).

Your class, `radio.access = "mine.py:Mine"`, has a method `mix` (see `UserAccess`); totals are proven under it by
construction. To add one: a module here (`tdma.py` is a short one) with `Keys` and `refuse` (see
`wirelessdl/families.py`) and

    Member              an `Access`: `schedule` says who sends when; `carrier` makes the `Carrier` whose `carry` makes
                        the steps of every frame. Its constructor asks by name for what it needs of radio (the
                        section), nodes, streams, silent and server
    COLUMNS             what it adds to the tables; nothing by default
    needs_phases        (radio) -> "no", "fading" or "flight": whether gains come with phases; by default no
    payloads_of_pass    (radio, nodes) -> payloads of one averaging, which count draws of noise; by default 1

a line in `families.MEMBERS`, a test, a section of docs/air.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import BoolArray, FloatArray, IntArray, read_only
from wirelessdl.contract import Memory, Rule, capability, checked_array, guarded, of_node
from wirelessdl.errors import ContractError

if TYPE_CHECKING:
    from wirelessdl.access.weights import FrameWeights
    from wirelessdl.channel.antennas import Antennas
    from wirelessdl.learning.announced import AnnouncedStep
    from wirelessdl.learning.records import MessageInput
    from wirelessdl.links import Links
    from wirelessdl.power.problem import PowerPlan
    from wirelessdl.radio.frame import AirTime, Frame, Turns
    from wirelessdl.radio.frame_channel import FrameChannel
    from wirelessdl.radio.offsets import Offsets

# at later instants of the frame, ns: |h| of all that is heard, instant by instant; complex h of links, [instants, M, n]
Later = Callable[["FrameChannel", Sequence[int]], Sequence[FloatArray]]
ComplexLater = Callable[["Links", Sequence[int]], "NDArray[np.complex128]"]
# h to the antennas of the server, and from its first to those of nodes, likewise, [instants, M, K]
ServerLater = Callable[[Sequence[int]], "tuple[NDArray[np.complex128], NDArray[np.complex128]]"]


def _one_antenna() -> "Antennas":
    from wirelessdl.channel.antennas import Antennas  # here: whoever reads traces reads columns of members

    return Antennas()


@dataclass(frozen=True, eq=False)
class AirSettings:
    """What a run gives to its access. power_w: [K] budgets; thermal_w: receiver noise, W; coordinates: of a model.

    mixing: how steps that send on what is held are weighed, "chebyshev" or "plain" (`access.passes`). balance_from:
    gains that receivers balance by, every frame's ("block") or the mean ones. offsets: of carriers and timing, None
    without any. later, h_at: ask for gains of the open frame as time goes on; None in previews. passes, closing: mixing
    passes of a round, and further ones of the last of `rounds`. pilots: symbols of a pilot; None: receivers know h.
    phase_error_rad, timing_error_s: deviations of what alignment leaves. number_s: of a number on the control channel.
    array: antennas of each receiver. half_duplex: nodes send in one of two turns. groups: that a hub collects one after
    another; robust: whether it keeps their values apart.
    """

    frame: "Frame"
    coordinates: int
    bandwidth_hz: float
    power_w: FloatArray
    thermal_w: float
    balance_from: str
    mixing: str
    offsets: "Offsets | None"
    rounds: int = 1
    passes: int = 0
    closing: int = 0
    pilots: int | None = None
    phase_error_rad: float = 0.0
    timing_error_s: float = 0.0
    number_s: float = 0.0
    array: "Antennas" = field(default_factory=_one_antenna)
    half_duplex: bool = False
    groups: int = 1
    robust: bool = False
    later: Later | None = None
    h_at: ComplexLater | None = None
    server_at: ServerLater | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenFrame:
    """A frame as it opens: all that its turns depend on.

    channel: among who sends and who listens. on_air: [K]. receivers: [K] nodes that may receive and do not send.
    """

    round: int
    now_ns: int
    channel: "FrameChannel"
    on_air: BoolArray
    receivers: BoolArray
    turns: "Turns"


@dataclass(frozen=True, eq=False, kw_only=True)
class Sending(OpenFrame):
    """A frame as it is decided, before anything is sent.

    model_w: [K] power of each sender's model, alpha P, W. listening: [K] receivers that take the mean of what they
    hear. held_square: mean square of a coordinate at which what a node holds takes all its power. component: [K] which
    nodes what is sent can join, -1 for none; None: all. apart_square: mean square of a coordinate by which what nodes
    send differs, a public number.
    """

    plan: "PowerPlan"
    model_w: FloatArray
    listening: BoolArray
    held_square: float
    component: IntArray | None = None
    apart_square: float = 1.0


@dataclass(frozen=True, eq=False)
class Step:
    """Nodes send once, and every receiver makes something of it:

        y <- heard (A v + receiver noise) + before (the v of the step before)

    source: of v: "w", models with their noise; "held": the y of the step before. weights: A of every block, and how
    receiver noise comes in. power_w: [K] W of a v of unit mean square. heard, before: [K]. limit: [K] mean square
    that takes all power a node has; who holds more scales it down, and the v before that likewise. Infinite: it sends
    nothing, or as the plan has it.
    """

    source: Literal["w", "held"]
    weights: "FrameWeights"
    power_w: FloatArray
    heard: FloatArray
    before: FloatArray
    limit: FloatArray

    @staticmethod
    def release(weights: "FrameWeights", power_w: FloatArray) -> "Step":
        """Models with their noise, of which receivers keep what they hear."""
        nodes = len(power_w)
        return Step("w", weights, power_w, np.ones(nodes), np.zeros(nodes), np.full(nodes, np.inf))


@dataclass(frozen=True, eq=False)
class Carried:
    """What becomes of a frame: its steps, of which the first sends w.

    uneven_ns: payloads of all turns in sequence, where turns differ; airtime: of each node, likewise. coded: symbols of
    a code, sent at the power budget and decoded without receiver noise. nodes, links, rounds: values of the columns
    that this access adds, `[K]`, [links] of the graph, and numbers. announced: payloads by the announced size of what
    is held (`learning/announced.py`), in sequence, in place of steps; what a node holds is w at first. Then the one
    step has the weights that they make together, for tables. states: what single nodes do in the frame, for the events:
    time in ns, node, state, detail. multiplier: [K] of gradients that are taken now; None: by the run's rule.
    """

    steps: tuple[Step, ...]
    uneven_ns: tuple[int, ...] | None = None
    airtime: "AirTime | None" = None
    coded: bool = False
    announced: "tuple[AnnouncedStep, ...]" = ()
    nodes: Mapping[str, Any] = field(default_factory=dict)
    links: Mapping[str, Any] = field(default_factory=dict)
    rounds: Mapping[str, float] = field(default_factory=dict)
    states: tuple[tuple[int, int, str, str], ...] = ()
    multiplier: FloatArray | None = None

    @property
    def weights(self) -> "FrameWeights":
        """Of w."""
        return self.steps[0].weights


@dataclass(frozen=True, eq=False)
class CarryPreview:
    """What to expect of an access, before a run: as `plan --json` says it, and in words.

    receiver_share: deviation that receivers add to the network's mean over that of the noise that a node sends; None
    where it follows from weights. title: what it is about, a word. hub_members: hubs and the nodes that each
    collects, for maps. weights: [rx, tx] of what is held after a round; None where they are those of the plan.
    """

    facts: Mapping[str, Any]
    words: str
    receiver_share: float | None = None
    title: str = "messages"
    hub_members: tuple[tuple[int, IntArray], ...] = ()
    weights: FloatArray | None = None


@dataclass(frozen=True)
class MeanErrors:
    """What the air adds to the network's mean in a frame, as shares of the variance that one node sends over K.

    receiver: of receiver noise; alignment: of phases and estimates. apart: disagreement that is left at the end.
    """

    receiver: float
    alignment: float
    apart: float


class Carrier:
    """An access at work in a run: `carry` makes the steps of every frame. The other methods have defaults.

    rounds: the last, which closing passes follow where frames are its own matter.
    """

    rounds = 1

    def expect(self, channel: "FrameChannel", plan: "PowerPlan", schedule: "Turns") -> None:
        """The first frame of a run, of all nodes, whether or not it is replayed."""

    def carry(self, given: Sending) -> Carried:
        """The steps of the frame that opens now."""
        raise NotImplementedError

    def lasting(self, opened: OpenFrame) -> "tuple[tuple[int, ...], AirTime] | None":
        """Payloads of all turns and airtime of nodes, where turns differ: all that replaying time needs to know."""
        return None

    def messages(self, on_air: BoolArray) -> "MessageInput | None":
        """How what is sent is rounded; None where it is sent as it is."""
        return None

    def errors(self, size: FloatArray, server: FloatArray | None = None) -> MeanErrors | None:
        """What it adds to the network's mean by mean gains, `[K, K]` and, to a server, `[K]`; None where that follows
        from weights.
        """
        return None

    def preview(self, channel: "FrameChannel", schedule: "Turns", pool: FloatArray) -> CarryPreview | None:
        """What fading will make of it; None without anything to say. pool: [N, heard] |h| that no run will see."""
        return None


class Access:
    """An access as a scenario sets it; every member extends it.

    orthogonal: a receiver hears one sender at a time, so nobody else's noise hides it. coded: what is sent arrives
    whole or not at all, without receiver noise or phases. hears_itself: nodes send while they receive.
    """

    orthogonal = False
    coded = False
    hears_itself = False
    one_slot = True  # whether what a receiver hears of a sender in one slot is all that it ever hears of it
    separates = False  # whether receivers tell senders apart by several antennas, and nobody aligns to anybody
    lays_out_frames = False  # whether turns, pilots and passes of a frame are its own matter, decided as time goes on

    def planned_airtime(self, frame: "Frame") -> "AirTime | None":
        """What a battery must carry to take part in a frame; None: what the frame says."""
        return None

    def reached(
        self, channel: "FrameChannel", on_air: BoolArray, power_w: FloatArray, thermal_w: float
    ) -> IntArray | None:
        """Which nodes on air what is sent can join, `[K]`: their group, -1 for who is out of reach; None: all."""
        return None

    def least_gain(self, power_w: FloatArray, thermal_w: float) -> FloatArray | float:
        """|h| by sender, `[K]`, below which a receiver leaves a link out (`radio.truncate_snr_db`); 0: none is."""
        return 0.0

    def schedule(self, round: int, links: "Links") -> "Turns":
        """Who sends in which turn of a frame with these links."""
        raise NotImplementedError

    def audible(self, channel: "FrameChannel", schedule: "Turns") -> "FrameChannel":
        """What a receiver can hear at all: nobody who sends when it does, where it cannot do both."""
        turn = schedule.turn
        return channel if schedule.count == 1 else channel.only(turn[channel.heard.tx] != turn[channel.heard.rx])

    def planned_turns(self, links: "Links") -> tuple[int, int]:
        """Turns of a slot, and how many nodes may send pilots in one."""
        return self.schedule(1, links).count, links.nodes

    def message_symbols(self, parameters: int) -> int | None:
        """Complex symbols of the shortest payload that a sender may choose; None: two coordinates a symbol."""
        return None

    def words(self, turns: int) -> str:
        """What `check` says after the number of slots."""
        return ""

    def carrier(self, given: AirSettings) -> Carrier:
        """The access at work."""
        raise NotImplementedError


class UserAccess(Access):
    """Your class, held to its contract. What it needs:

        def mix(self, links, gain, amplitude, on_air):
            return weight, own, noise

    links: of the graph, receiver-major; gain: [links] estimated |h|; amplitude: [K] sqrt(alpha P); on_air: [K]. weight:
    [links] of what is sent, own: [K] of a node's own w, noise: [K] by which a receiver multiplies its noise:
    s_i = own_i w_i + sum_j weight_ij w_j + noise_i sqrt(thermal_w) n_i. It may have `turns(round, links)`: [K] the turn
    in which each node sends, from 0; without it all send at once.
    """

    def __init__(self, name: str, given: Any):
        self.name, self._mix = name, guarded("radio.access", given, "mix")
        self._memory = Memory(f"radio.access: {name}.mix", given, "use what it is given")
        self._turns = None if capability(given, "turns") is None else guarded("radio.access", given, "turns")

    def schedule(self, round: int, links: "Links") -> "Turns":
        from wirelessdl.radio.frame import Turns

        if self._turns is None:
            return Turns(np.zeros(links.nodes, dtype=np.int64), 1)
        given, name, nodes = self._turns(round, links), f"radio.access: {self.name}.turns", links.nodes
        rule = Rule(f"turns from 0 to {nodes - 1}", lambda values: (values >= 0) & (values < nodes))
        turn = checked_array(name, given, (nodes,), "one turn per node", rule, place=of_node, dtype=np.int64)
        return Turns(turn, int(turn.max()) + 1)

    def words(self, turns: int) -> str:
        return f", by {self.name} in {turns} turns"

    def carrier(self, given: AirSettings) -> Carrier:
        from wirelessdl.access.weights import UserWeigher

        return UserWeigher(given, self.name, self._asked)

    def _asked(
        self, links: "Links", gain: FloatArray, amplitude: FloatArray, on_air: BoolArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        found = self._mix(links, read_only(gain), read_only(amplitude), read_only(on_air))
        self._memory.require_none()
        name = f"radio.access: {self.name}.mix"
        try:
            weight, own, noise = found
        except (TypeError, ValueError):
            raise ContractError(f"{name} must return weight, own and noise") from None
        weight = checked_array(name, weight, (len(links),), "one per link", field="weight", place=links.place)
        own = checked_array(name, own, (links.nodes,), "one per node", field="own", place=of_node)
        noise = checked_array(name, noise, (links.nodes,), "one per node", field="noise", place=of_node)
        return weight, own, noise


def halves(nodes: int, rng: np.random.Generator) -> BoolArray:
    """Which of two classes each node is in: halves, drawn afresh."""
    return np.asarray(rng.permutation(nodes) % 2 == 0)
