"""What each node did when: pilots, payload, passes, computing and outages, from the durations that the traces hold.

    opened | pilots | guard | feedback | payload | guard | pilots | guard | payload | guard | ... | exchange
           '---------- turn 0 of slot 0 -----------------'--------- turn 1 of slot 0 -------'

A frame opens at `rounds.opened_s`. Every turn of every slot takes pilots, guard, payload and guard; a node sends only
in its own turn (`nodes.turn`) of each slot. Feedback comes once, before the first payload. Each of `rounds.passes`
mixing passes takes as many slots again, in the same way. The last of all ends at `rounds.time_s`, and the frame a guard
and the exchange of z later. Within the pilots of a turn senders follow one another by node number, as far as there is
room: under tdma senders of a turn share no receiver and send theirs at once. Gradients are computed after the frame
(hardened) or from its opening on (paper), until the event `computed`. A node is down in rounds where `nodes.up` is
false. Where messages are sent, turns are as long as their slowest sender's payload (`nodes.node_payload_s`), and cycles
of turns follow each other as long as anybody repeats its message (`nodes.attempts`); turns without sender are skipped.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wirelessdl.analysis.releases import terms_of
from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.trace.run import Run

# in drawing order: computing may overlap a frame, pilots are thin
KINDS = ("compute", "down", "pass", "payload", "pilot")
_COMPUTE, _DOWN, _PASS, _PAYLOAD, _PILOT = range(len(KINDS))
_DURATIONS = ("pilot_s", "node_pilot_s", "payload_s", "guard_s", "feedback_s", "exchange_s")
_Frames: TypeAlias = dict[str, NDArray[Any]]  # columns of the rounds table, [R] each


@dataclass(frozen=True, eq=False)
class Bars:
    """Intervals by round: which row of the rounds, what, which node, from when, how long; one entry each."""

    row: IntArray
    kind: IntArray  # index into KINDS
    node: IntArray
    start_s: FloatArray
    length_s: FloatArray

    def of(self, rows: Any) -> "Bars":
        """Those of some rows."""
        return self[np.isin(self.row, rows)]

    def __getitem__(self, which: Any) -> "Bars":
        """Some of them, by mask, index or slice."""
        return Bars(self.row[which], self.kind[which], self.node[which], self.start_s[which], self.length_s[which])


@dataclass(frozen=True, eq=False)
class Timeline:
    """R rounds of K nodes; all times in s of simulated time, bars sorted by round."""

    nodes: int
    round: IntArray  # [R]
    opened_s: FloatArray  # [R]
    closed_s: FloatArray  # [R], end of the last payload
    bars: Bars


def timeline_of(run: Run) -> Timeline:
    """The timeline of every round written so far."""
    rounds, nodes = run.rounds, run.scenario["network"]["nodes"]
    shape = (len(rounds), nodes)
    # nodes are written before rounds, so a running run may have more of them
    table = run.frame("nodes", ["up", "turn", "present", "attempts", "node_payload_s"])[: shape[0] * shape[1]]
    turn = table["turn"].fillna(-1).to_numpy(dtype=np.int64).reshape(shape)
    up = table["up"].to_numpy(dtype=bool).reshape(shape)
    names = ("round", "opened_s", "time_s", "payload_slots", "passes", "turns", *_DURATIONS)
    frame: _Frames = {name: rounds[name].to_numpy() for name in names}
    # who sent has a gradient to compute; where nothing is ever sent, everyone has
    computes = turn >= 0 if terms_of(run).sends else table["present"].to_numpy(dtype=bool).reshape(shape)
    sent = _transmissions(frame, turn)
    if table["attempts"].notna().any():  # messages, each as long as its sender takes
        attempts = table["attempts"].fillna(0).to_numpy(dtype=np.int64).reshape(shape)
        sent = _messages(frame, turn, attempts, table["node_payload_s"].fillna(0.0).to_numpy(float).reshape(shape))
    parts = [_compute(run, frame, computes), _down(frame, up), *sent]
    bars = Bars(*(np.concatenate([getattr(part, name) for part in parts]) for name in Bars.__dataclass_fields__))
    return Timeline(
        nodes=nodes,
        round=frame["round"],
        opened_s=frame["opened_s"],
        closed_s=frame["time_s"],
        bars=bars[np.argsort(bars.row, kind="stable")],
    )


def _transmissions(frame: _Frames, turn: IntArray) -> tuple[Bars, Bars]:
    """Pilots, and payloads and passes; turn is `[R, K]`, -1 where a node did not send."""
    sent = turn >= 0
    row, node = np.nonzero(sent)
    slots = (frame["payload_slots"] * (1 + frame["passes"]))[row]
    slot = np.arange(slots.sum()) - np.repeat(np.cumsum(slots) - slots, slots)
    own_turn, place = np.repeat(turn[sent], slots), np.repeat(_pilot_place(frame, turn)[sent], slots)
    row, node = np.repeat(row, slots), np.repeat(node, slots)
    time = {name: values[row] for name, values in frame.items()}
    before = slot * time["turns"] + own_turn  # turns of this frame that are over
    turn_s = time["pilot_s"] + time["payload_s"] + 2 * time["guard_s"]
    begins_s = time["opened_s"] + before * turn_s
    pilot_s = begins_s + (before > 0) * time["feedback_s"] + place * time["node_pilot_s"]
    payload_s = begins_s + time["pilot_s"] + time["guard_s"] + time["feedback_s"]
    return (
        Bars(row, np.full(len(row), _PILOT), node, pilot_s, time["node_pilot_s"]),
        Bars(row, np.where(slot < time["payload_slots"], _PAYLOAD, _PASS), node, payload_s, time["payload_s"]),
    )


def _messages(frame: _Frames, turn: IntArray, attempts: IntArray, own_s: FloatArray) -> tuple[Bars, Bars]:
    """Pilots and payloads of messages, attempt by attempt; turn, attempts and own_s, of one payload, are `[R, K]`."""
    found: list[tuple[int, int, float, float, float]] = []  # row, node, pilots and payload begin, payload lasts
    for row in range(len(turn)):
        pilot_s, guard_s, feedback_s = (float(frame[name][row]) for name in ("pilot_s", "guard_s", "feedback_s"))
        begins_s = float(frame["opened_s"][row])
        for attempt in range(1, int(attempts[row].max(initial=0)) + 1):
            active = attempts[row] >= attempt
            for number in np.tile(np.unique(turn[row][active]), int(frame["payload_slots"][row])).tolist():
                senders = np.flatnonzero(active & (turn[row] == number))
                payload_s = begins_s + pilot_s + guard_s + feedback_s
                found += [(row, node, begins_s, payload_s, float(own_s[row, node])) for node in senders.tolist()]
                begins_s = payload_s + float(own_s[row, senders].max()) + guard_s
                feedback_s = 0.0  # once, before the first payload
    rows = np.array([one[0] for one in found], dtype=np.int64)
    nodes = np.array([one[1] for one in found], dtype=np.int64)
    pilots_s, payloads_s, lengths_s = (np.array([one[n] for one in found], dtype=np.float64) for n in (2, 3, 4))
    return (
        Bars(rows, np.full(len(rows), _PILOT), nodes, pilots_s, frame["node_pilot_s"][rows]),
        Bars(rows, np.full(len(rows), _PAYLOAD), nodes, payloads_s, lengths_s),
    )


def _pilot_place(frame: _Frames, turn: IntArray) -> IntArray:
    """How many pilots of a turn come before each sender's own, `[R, K]`; 0 where it did not send."""
    place = np.zeros_like(turn)
    for number in range(turn.max(initial=-1) + 1):
        at_once = turn == number
        place[at_once] = (np.cumsum(at_once, axis=1) - 1)[at_once]
    own_s = np.where(frame["node_pilot_s"] > 0, frame["node_pilot_s"], np.inf)
    room = np.maximum(1, np.rint(frame["pilot_s"] / own_s)).astype(np.int64)
    return place % room[:, None]


def _compute(run: Run, frame: _Frames, sent: BoolArray) -> Bars:
    """From where a sender has what its gradient is taken at until the event; a gradient lost in a crash has none."""
    parallel = run.scenario["privacy"]["protocol"] == "paper"
    ends_s = frame["time_s"] + frame["guard_s"] + frame["exchange_s"]
    begins_s = frame["opened_s"] if parallel else ends_s
    begins_ns = np.rint(1e9 * begins_s).astype(np.int64)
    events = run.frame("events", ["time_s", "node", "kind"])
    done = events[(events["kind"] == "computed") & events["node"].notna()]
    done = done.sort_values(["node", "time_s"])
    node, until_s = done["node"].to_numpy(dtype=np.int64), done["time_s"].to_numpy()
    until_ns = np.rint(1e9 * until_s).astype(np.int64)
    row = np.full(len(done), -1)
    for number in range(sent.shape[1]):
        mine, frames = slice(*np.searchsorted(node, [number, number + 1])), np.flatnonzero(sent[:, number])
        row[mine] = np.append(frames, -1)[_matched(begins_ns[frames], until_ns[mine])]
    known = row >= 0
    row, node, until_s = row[known], node[known], until_s[known]
    return Bars(row, np.full(len(row), _COMPUTE), node, begins_s[row], until_s - begins_s[row])


def _matched(begins_ns: IntArray, until_ns: IntArray) -> IntArray:
    """Which begin each end belongs to, both in order, each at most once: the last before it; -1 for none.

    A slow node sends again only when it is done, so frames that it misses have no begin here; an event may be of a
    round that is not written yet. Under the paper's
    protocol an end may coincide with the next begin, and a gradient that takes no time with its own.
    """
    before = np.searchsorted(begins_ns, until_ns, side="left") - 1
    until = np.searchsorted(begins_ns, until_ns, side="right") - 1
    found, last = [], -1
    for earlier, later in zip(before.tolist(), until.tolist()):
        mine = earlier if earlier > last else later
        found.append(mine if mine > last else -1)
        last = max(last, mine)
    return np.array(found, dtype=np.int64)


def _down(frame: _Frames, up: BoolArray) -> Bars:
    """From the opening of a frame to the next, or to the end of the last one."""
    row, node = np.nonzero(~up)
    last_s = frame["time_s"][-1:] + frame["guard_s"][-1:] + frame["exchange_s"][-1:]
    until_s = np.concatenate([frame["opened_s"][1:], last_s])
    length_s = (until_s - frame["opened_s"])[row]
    return Bars(row, np.full(len(row), _DOWN), node, frame["opened_s"][row], length_s)
