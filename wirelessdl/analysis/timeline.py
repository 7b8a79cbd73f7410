"""The timeline of a run: pilots, payload, passes, computing and outages of each node, from durations in the traces.

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
Turns of hubs are events of their own (`hub`): pilots of all senders, members until `rounds.collect_s`, then the hub's
broadcast.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wirelessdl.analysis.releases import terms_of
from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.trace.run import Run

# in drawing order: computing may overlap a frame, pilots are thin
KINDS = ("compute", "down", "pass", "payload", "broadcast", "pilot")
_COMPUTE, _DOWN, _PASS, _PAYLOAD, _BROADCAST, _PILOT = range(len(KINDS))
_DURATIONS = ("pilot_s", "node_pilot_s", "payload_s", "guard_s", "feedback_s", "exchange_s")
_HUB_TURN = re.compile(r"turn \d+: \d+ members?: ([\d ]*)(; fails)?")  # an event, as `access/hubs.py` writes it
_Frames: TypeAlias = dict[str, NDArray[Any]]  # columns of the rounds table, [R] each


@dataclass(frozen=True, eq=False)
class Bars:
    """Intervals by round: which row of the rounds, what, which node, from when, how long; one entry each."""

    row: IntArray
    kind: IntArray  # index into KINDS
    node: IntArray
    start_s: FloatArray
    length_s: FloatArray

    def in_rows(self, rows: Any) -> "Bars":
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


@dataclass(frozen=True, eq=False)
class HubTurn:
    """A turn of a hub: which row of the rounds, from when, who collects, from whom, and whether it then fails."""

    row: int
    opened_s: float
    hub: int
    members: IntArray
    failed: bool


def hub_turns(run: Run) -> list[HubTurn]:
    """Turns of hubs in the rounds written so far, in order; none where nothing is collected by hubs."""
    if run.rounds["hubs"].isna().all():
        return []
    events = run.frame("events", ["time_s", "node", "kind", "detail"])
    events = events[(events["kind"] == "hub") & (events["time_s"] <= run.rounds["time_s"].iloc[-1])]
    rows = np.searchsorted(run.rounds["opened_s"], events["time_s"], side="right") - 1
    found = []
    for row, time_s, hub, detail in zip(rows.tolist(), events["time_s"], events["node"], events["detail"]):
        said = _HUB_TURN.match(detail)
        if said is not None:
            members = np.array(said[1].split(), dtype=np.int64)
            found.append(HubTurn(row, float(time_s), int(hub), members, said[2] is not None))
    return found


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
    attempts, own_s = None, np.broadcast_to(frame["payload_s"][:, None], shape)
    if table["attempts"].notna().any():  # messages, each as long as its sender takes
        attempts = table["attempts"].fillna(0).to_numpy(dtype=np.int64).reshape(shape)
        own_s = table["node_payload_s"].fillna(0.0).to_numpy(float).reshape(shape)
    collected = hub_turns(run)
    sent = (
        _hub_transmissions(frame, rounds["collect_s"].to_numpy(), turn, collected)
        if collected
        else _transmissions(frame, turn, attempts, own_s)
    )
    parts = [_compute(run, frame, computes), _down(frame, up), *sent]
    bars = Bars(*(np.concatenate([getattr(part, name) for part in parts]) for name in Bars.__dataclass_fields__))
    return Timeline(
        nodes=nodes,
        round=frame["round"],
        opened_s=frame["opened_s"],
        closed_s=frame["time_s"],
        bars=bars[np.argsort(bars.row, kind="stable")],
    )


def _transmissions(frame: _Frames, turn: IntArray, attempts: IntArray | None, own_s: FloatArray) -> tuple[Bars, Bars]:
    """Pilots, and payloads and passes, turn by turn; turn is `[R, K]`, -1 where a node did not send.

    attempts: how often each message was sent, None where none is repeated; own_s: length of a payload; both `[R, K]`.
    """
    rows, nodes, kinds = list[int](), list[int](), list[int]()
    pilots_s, payloads_s, lengths_s = list[float](), list[float](), list[float]()
    for row in range(len(turn)):
        pilot_s, node_pilot_s, payload_s, guard_s, feedback_s = (float(frame[name][row]) for name in _DURATIONS[:5])
        room = max(1, round(pilot_s / node_pilot_s)) if node_pilot_s > 0 else 1
        begins_s = float(frame["opened_s"][row])
        for kind, senders in _turns(frame, row, turn[row], None if attempts is None else attempts[row]):
            starts_s = begins_s + pilot_s + guard_s + feedback_s
            length_s = own_s[row, senders]
            rows += [row] * len(senders)
            nodes += senders.tolist()
            kinds += [kind] * len(senders)
            pilots_s += (begins_s + np.arange(len(senders)) % room * node_pilot_s).tolist()
            payloads_s += [starts_s] * len(senders)
            lengths_s += length_s.tolist()
            begins_s = starts_s + (float(length_s.max()) if len(senders) else payload_s) + guard_s
            feedback_s = 0.0  # once, before the first payload
    at, node, kind_of = (np.array(values, dtype=np.int64) for values in (rows, nodes, kinds))
    pilots = Bars(at, np.full(len(at), _PILOT), node, np.array(pilots_s), frame["node_pilot_s"][at])
    return pilots, Bars(at, kind_of, node, np.array(payloads_s), np.array(lengths_s))


def _hub_transmissions(
    frame: _Frames, collect_s: FloatArray, turn: IntArray, turns: Sequence[HubTurn]
) -> tuple[Bars, Bars]:
    """The same where hubs collect and send back. collect_s: [R] of a turn after its pilots, until the hub sends."""
    pilots, payloads = list[tuple[int, int, float]](), list[tuple[int, int, int, float, float]]()
    for one in turns:
        pilot_s, node_pilot_s, turn_s, guard_s = (float(frame[name][one.row]) for name in _DURATIONS[:4])
        senders = np.flatnonzero(turn[one.row] >= 0).tolist()
        pilots += [(one.row, node, one.opened_s + n * node_pilot_s) for n, node in enumerate(senders)]
        starts_s, collected_s = one.opened_s + pilot_s + guard_s, float(collect_s[one.row])
        payloads += [(one.row, _PAYLOAD, node, starts_s, collected_s) for node in one.members.tolist()]
        if not one.failed:
            payloads.append((one.row, _BROADCAST, one.hub, starts_s + collected_s, turn_s - collected_s))
    row, node, begins_s = (np.array(values) for values in zip(*pilots))
    at, kind, who, starts, lengths = (np.array(values) for values in zip(*payloads))
    return (
        Bars(row, np.full(len(row), _PILOT), node, begins_s, frame["node_pilot_s"][row]),
        Bars(at, kind, who, starts, lengths),
    )


def _turns(frame: _Frames, row: int, turn: IntArray, attempts: IntArray | None) -> Iterator[tuple[int, IntArray]]:
    """Kind and senders of every turn of a frame, in order."""
    slots = int(frame["payload_slots"][row])
    if attempts is None:
        for slot in range(slots * (1 + int(frame["passes"][row]))):
            for number in range(int(frame["turns"][row])):
                yield _PAYLOAD if slot < slots else _PASS, np.flatnonzero(turn == number)
        return
    for attempt in range(1, int(attempts.max(initial=0)) + 1):
        active = attempts >= attempt
        for number in np.tile(np.unique(turn[active]), slots).tolist():
            yield _PAYLOAD, np.flatnonzero(active & (turn == number))


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
