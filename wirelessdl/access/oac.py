"""Over-the-air computation: neighbours send at once, and the channel adds up what they send (paper eq. 5 to 11).

    y_i = sum_j |h_ij| sqrt(alpha_j P_j) w_j + noise,   s_i = a_i y_i / sum_j |h_ij| sqrt(alpha_j P_j) + (1 - a_i) w_i

    a_i     d_i / (d_i + 1) as printed, or chosen by receiver balancing such that A is doubly stochastic
    full duplex   everyone at once: one turn, and a node hears what is left of its own emission
    half duplex   nodes fall into two classes, anew in every frame; each sends while the other listens. Links within a
                  class carry nothing in that frame

`radio.alignment` says at whose antenna phases are aligned; a sender has only one phase:

    all     at every receiver at once: the paper's assumption, which no sender can meet
    turns   at one receiver after another (`access/turns.py`)
    hubs    at one hub after another, which sends the mean back (`access/hubs.py`)
    server  at a server without data, which sends the mean back (`access/server.py`)
    none    at nobody's: receivers separate senders by several antennas (`access/blind.py`)
"""

import math
from typing import TYPE_CHECKING, Annotated, Literal, cast

import numpy as np
from pydantic import Field, FiniteFloat

from wirelessdl.access import Access, AirSettings, Carrier, halves
from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.scenario.section import Section, rule_text

if TYPE_CHECKING:
    from wirelessdl.links import Links
    from wirelessdl.radio.frame import AirTime, Frame, Turns
    from wirelessdl.radio.frame_channel import FrameChannel
    from wirelessdl.scenario.schema import RadioSection, Scenario, Server
    from wirelessdl.streams import Streams

TRUNCATE_DB = 15.0  # radio.truncate_snr_db "auto" of hubs and turns
MAX_LATE = 1 / 6  # of a symbol, deviation of timing errors: they count up to half a symbol, three deviations
COLUMNS: dict[str, list[tuple[str, str, str, str]]] = {
    "rounds": [
        ("hubs", "float", "", "turns of hubs in the frame; null unless alignment is hubs"),
        ("uncollected", "float", "", "nodes on air that no hub, or not the server, collected; null otherwise"),
        ("disagreement", "float", "", "what the frame leaves of the largest disagreement; null likewise"),
        ("collect_s", "float", "s", "of a turn after its pilots, until the hub sends back; null likewise"),
        ("server_members", "float", "", "nodes that the server collected; null unless alignment is server"),
        ("server_j", "float", "J", "energy that the server took to send, at its budget; null likewise"),
        ("column_error", "float", "", "rms by which columns of weights miss 1; null unless alignment is none"),
    ],
    "nodes": [
        ("hub_turns", "int", "", "turns in which it was hub; null unless alignment is hubs"),
        ("collected", "bool", "", "whether a hub or the server collected it, or it was a hub; null otherwise"),
        (
            "component",
            "int",
            "",
            "group of nodes that hubs or the server could join when the frame opened; null: out of reach",
        ),
    ],
}


class Keys(Section):
    """Keys of [radio] that over-the-air computation reads."""

    alignment: Literal["all", "turns", "hubs", "server", "none"] = Field(
        "all",
        description="At whose antenna senders' phases are aligned. all: at every receiver at once (the paper), which "
        "no sender can do; turns: at one receiver after another; hubs: at one hub after another, which sends the "
        "mean back; server: at network.server, which does; none: at nobody's, and receivers separate senders by "
        "several antennas.",
    )
    subslots: Annotated[int, Field(ge=1, le=64)] = Field(
        8, description="Parts of a payload under turns and hubs, each after a pilot of its receiver."
    )
    hub_order: Literal["there", "there-and-back"] = Field(
        "there", description="Hubs of a round. there: each once; there-and-back: then again in reverse order."
    )
    hub_rotation: bool = Field(
        False,
        description="Whether nodes that were hub less often come first, among those that reach nearly as many: hubs "
        "send more than others.",
    )
    hub_failure: Annotated[FiniteFloat, Field(ge=0, lt=1)] = Field(
        0.0,
        json_schema_extra=rule_text("must be >= 0 and < 1"),
        description="Probability that a hub fails after it has collected and before it sends back.",
    )


def refuse(scenario: "Scenario") -> None:
    """Raise ValueError for what does not go together with senders that are superposed."""
    keys = cast(Keys, scenario.radio)
    if keys.alignment in ("all", "none"):
        refuse_truncation(scenario, "all neighbours are superposed, and none of them can be left out")
    if keys.alignment == "server" and not scenario.silent:
        from wirelessdl.access.server import refuse as refuse_server

        refuse_server(scenario)
    if keys.alignment == "none" and scenario.radio.phase_error_rad:
        raise ValueError(
            f'radio.phase_error_rad is {scenario.radio.phase_error_rad:g} under radio.alignment "none"; nobody aligns: '
            "set it to 0"
        )
    if keys.alignment == "all":
        return
    refuse_alignment(scenario, f'radio.alignment is "{keys.alignment}"')


def refuse_alignment(scenario: "Scenario", what: str) -> None:
    """Raise ValueError for what does not go together with one aligned receiver at a time."""
    radio, power, privacy = scenario.radio, scenario.power, scenario.privacy
    by_size = getattr(radio, "alignment", "") != "none"  # whether senders announce what they hold
    clashes = (
        (privacy.protocol == "paper", 'privacy.protocol "paper"', "it aligns all receivers", 'set alignment = "all"'),
        (
            power.objective != "own-noise",
            f'power.objective "{power.objective}"',
            "who overhears several turns or has several antennas solves for single senders, whom no other noise hides",
            'set objective = "own-noise"',
        ),
        (
            power.balance != "receiver",
            f"power.balance {power.balance!r}".replace("False", "false"),
            "weights follow from gains as they are",
            'leave it at "receiver"',
        ),
        (
            power.schedule != "static" and by_size,
            f'power.schedule "{power.schedule}"',
            "senders scale by what they announce before every payload",
            'set schedule = "static"',
        ),
        (privacy.credit_thermal, "privacy.credit_thermal", "links are not accounted for", "set it to false"),
        (
            radio.use_full_power and by_size,
            "radio.use_full_power",
            "every payload is sent at full power",
            "set it to false",
        ),
        (
            by_size and radio.timing_error_s * radio.bandwidth_hz > MAX_LATE,
            f"radio.timing_error_s {radio.timing_error_s:g}",
            f"that is {radio.timing_error_s * radio.bandwidth_hz:.3g} symbols, and errors count up to half of one",
            f"set it to {MAX_LATE / radio.bandwidth_hz:.3g} or less, or lower bandwidth_hz",
        ),
        (radio.subbands > 1, f"radio.subbands {radio.subbands}", "a payload goes over the whole band", "set it to 1"),
        (
            radio.payload_slots not in ("auto", 1) and by_size,
            f"radio.payload_slots {radio.payload_slots}",
            "a payload goes in radio.subslots parts",
            'leave it at "auto"',
        ),
        (radio.csi.is_user_class, f"radio.csi {radio.csi.name}", "pilots are its own", 'use "pilots" or "perfect"'),
    )
    for there, other, why, remedy in clashes:
        if there:
            raise ValueError(f"{what} with {other}; {why}: {remedy}")


def refuse_truncation(scenario: "Scenario", why: str) -> None:
    """Raise ValueError where links are to be left out and cannot be."""
    least_db = scenario.radio.truncate_snr_db
    if least_db != "auto" and least_db > -math.inf:
        raise ValueError(
            f'radio.truncate_snr_db is {least_db:g} under radio.access "{scenario.radio.access.name}"; {why}: leave it '
            'at "auto", or set access = "tdma"'
        )


def needs_phases(radio: "RadioSection") -> Literal["no", "fading", "flight"]:
    """Whether channel models are asked for complex h, and whether phases hold flight time (else `Offsets` has it)."""
    if cast(Keys, radio).alignment == "all":
        return "fading" if radio.flight_time else "no"
    return "flight" if radio.flight_time else "fading"


def payloads_of_pass(radio: "RadioSection", nodes: int) -> int:
    """Payloads that one averaging takes at most: two a turn of hubs, and every node is hub twice at most."""
    return {"all": 1, "none": 1, "turns": nodes, "hubs": 4 * nodes, "server": 4 * nodes}[cast(Keys, radio).alignment]


class Member(Access):
    """All senders of a turn at once."""

    def __init__(
        self,
        radio: "RadioSection",
        nodes: int,
        streams: "Streams",
        silent: bool,
        server: 'Server | Literal["none"]' = "none",
        groups: int = 1,
    ):
        self._server, self._groups = server, groups
        self._keys, self.aligned = cast(Keys, radio), "all" if silent else cast(Keys, radio).alignment
        one_by_one = self.aligned not in ("all", "none")
        self._half_duplex, self._nodes, self._streams = radio.duplex == "half" and not silent, nodes, streams
        self._half_duplex = self._half_duplex and not one_by_one  # nobody sends while it receives
        self.hears_itself = radio.duplex == "full" and not one_by_one
        self.separates = self.aligned == "none"
        self.one_slot, self.lays_out_frames = self.aligned == "all" and groups == 1, one_by_one
        given = radio.truncate_snr_db
        # above 0, of links that are not there, also where no link is to be left out
        self._near_snr = max(10.0 ** ((TRUNCATE_DB if given == "auto" else given) / 10.0), np.finfo(np.float64).tiny)
        self._everyone: Turns | None = None

    def schedule(self, round: int, links: "Links") -> "Turns":
        from wirelessdl.radio.frame import Turns

        if self._groups > 1 and not self.lays_out_frames:  # each in a turn of its own (`learning/robust`)
            classes = self._streams.draws("radio.groups", round).permutation(self._nodes) % self._groups
            return Turns(classes.astype(np.int64), self._groups)
        if self._half_duplex:
            return Turns(halves(self._nodes, self._streams.draws("radio.duplex", round)).astype(np.int64), 2)
        if self._everyone is None:
            self._everyone = Turns(np.zeros(self._nodes, dtype=np.int64), 1)
        return self._everyone

    def planned_turns(self, links: "Links") -> tuple[int, int]:
        if self.aligned == "turns":  # pilots of all go before the first turn
            return 1, 1
        turns = 2 if self._half_duplex else 1
        turns = turns if self.lays_out_frames or self._groups == 1 else self._groups
        return turns, -(-links.nodes // turns)

    def audible(self, channel: "FrameChannel", schedule: "Turns") -> "FrameChannel":
        return super().audible(channel, schedule) if self._half_duplex else channel

    def planned_airtime(self, frame: "Frame") -> "AirTime | None":
        """Of a node that is hub once and member three times, or that sends to ten receivers in turn."""
        from wirelessdl.radio.frame import AirTime

        if not self.lays_out_frames:
            return None
        payloads, turns = {"hubs": (4, 4), "server": (1, 1), "turns": (10, 1)}[self.aligned]
        pilots = turns + (1 + self._groups) * self._keys.subslots + 1
        return AirTime(payloads * frame.payload_ns, pilots * frame.own_pilot_ns, 2 * payloads * frame.payload_ns)

    def reached(
        self, channel: "FrameChannel", on_air: BoolArray, power_w: FloatArray, thermal_w: float
    ) -> IntArray | None:
        if self.aligned not in ("hubs", "server"):
            return None
        given = (channel, on_air, power_w, thermal_w, self._near_snr)
        if self._server != "none":
            from wirelessdl.access.server import reached_by_server

            return reached_by_server(*given, self._server)
        from wirelessdl.access.hubs import reached

        return reached(*given)

    def words(self, turns: int) -> str:
        if self.lays_out_frames:
            who = {"hubs": "one hub aligned at a time", "turns": "one receiver aligned at a time"}
            return f", {who.get(self.aligned, 'aligned to the server')}"
        return ", half duplex in two turns" if self._half_duplex else ""

    def carrier(self, given: AirSettings) -> Carrier:
        if self.aligned == "hubs":
            from wirelessdl.access.hubs import HubCarrier

            return HubCarrier(self._keys, given, self._near_snr, self._streams)
        if self.aligned == "turns":
            from wirelessdl.access.turns import TurnCarrier

            return TurnCarrier(self._keys, given, self._near_snr, self._streams)
        if self._server != "none":
            from wirelessdl.access.server import ServerCarrier

            return ServerCarrier(self._keys, given, self._near_snr, self._streams, self._server)
        if self.aligned == "none":
            from wirelessdl.access.blind import BlindCarrier

            return BlindCarrier(given)
        from wirelessdl.access.weights import AllAtOnce

        return AllAtOnce(given)
