"""From rounds to table columns: buffers what each slot was, and turns it into columns at a flush.

Tensors of the learning engine stay where they are until then, so a round waits for no transfer.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.errors import TrainingError
from wirelessdl.learning.engine import RoundResult
from wirelessdl.learning.runtime.device import fetch
from wirelessdl.power.problem import PowerPlan
from wirelessdl.privacy.ledger import Ledger
from wirelessdl.privacy.release import FrameRelease
from wirelessdl.radio.energy import EnergyModel
from wirelessdl.radio.frame import Frame
from wirelessdl.radio.frame_channel import FrameChannel, root_mean_square
from wirelessdl.round.weights import FrameWeights
from wirelessdl.sim.node_states import Participation
from wirelessdl.trace.events import Event, TraceEvents
from wirelessdl.trace.schema import TABLES
from wirelessdl.trace.sink import RunWriter
from wirelessdl.units import to_db, to_s

_FEWEST_ROUNDS = 20
_PATIENCE_S = 10.0  # slow rounds are written before the buffer is full, so that a reader sees them


@dataclass(frozen=True, eq=False)
class Slot:
    """A frame as it was decided, before learning: arrays per node, or per link that is heard."""

    round: int
    opened_ns: int
    frame: Frame
    turn: IntArray  # in which each node sends
    cast: Participation
    seen: FrameChannel
    plan: PowerPlan
    release: FrameRelease
    weights: FrameWeights
    on_air: BoolArray
    withdrawn: BoolArray
    alpha: FloatArray
    budget_w: FloatArray
    backoff_db: FloatArray
    violations: int
    sigma: FloatArray
    learning_rate: float
    multiplier: FloatArray
    spectral_gap: float
    link_epsilon: FloatArray
    own_epsilon: FloatArray
    total_epsilon: FloatArray


@dataclass(frozen=True, eq=False)
class Entry:
    """A slot, when it ended, what learning made of it, and who took a gradient step."""

    slot: Slot
    time_ns: int
    outcome: RoundResult
    stepped: BoolArray


@dataclass(frozen=True)
class Progress:
    """Where the run is, at an evaluation."""

    round: int
    rounds: int
    time_s: float
    accuracy_mean: float
    accuracy_min: float
    accuracy_max: float
    loss_mean: float
    epsilon_own_total: float


class Recorder:
    """Buffers entries and events, and writes them as parts."""

    writer: RunWriter  # set when the run starts; nothing is written before

    def __init__(
        self, *, energy: EnergyModel, thermal_w: float, self_interference: float = 0.0, links: str, flush_every: int
    ):
        self._energy, self._thermal_w, self._self_interference = energy, thermal_w, self_interference
        self._links, self._flush_every = links, flush_every
        self._entries: list[Entry] = []
        self._events: list[tuple[int, int, str, str]] = []
        self._flushed_at = time.monotonic()

    def listen(self, trace: TraceEvents) -> None:
        """Subscribe to what the tables hold."""
        trace.connect("node.state", self._note)
        trace.connect("net.state", self._note)
        trace.connect("learning.update", lambda event: self.add(event.entry))

    def _note(self, event: Event) -> None:
        """Something happened at a node, or in the network (node -1)."""
        fields = event.fields
        self._events.append((event.time_ns, fields.get("node", -1), fields["state"], fields["detail"]))

    def add(self, entry: Entry) -> None:
        self._entries.append(entry)
        waited = time.monotonic() - self._flushed_at > _PATIENCE_S
        if len(self._entries) >= (_FEWEST_ROUNDS if waited else self._flush_every):
            self.flush()

    def flush(self) -> None:
        """Write what is buffered; raise, once it is on disk, if training left the finite numbers."""
        entries, self._entries = self._entries, []
        events, self._events = self._events, []
        self._flushed_at = time.monotonic()
        if not entries:
            return
        first, last = entries[0].slot.round, entries[-1].slot.round
        loss = fetch([entry.outcome.loss for entry in entries])
        nodes = self._nodes(entries, loss)
        parts = {"nodes": nodes, "events": _event_columns(events)}
        if self._links != "none":
            traced = [n for n, entry in enumerate(entries) if self._wants_links(entry)]
            power = nodes["power_w"].reshape(len(entries), -1)[traced]
            parts["links"] = self._link_columns([entries[n] for n in traced], power)
        with ThreadPoolExecutor(len(parts)) as pool:  # a disk syncs three files as fast as one
            written = [pool.submit(self.writer.part, name, columns, first, last) for name, columns in parts.items()]
        for part in written:
            part.result()
        # last of all: what the rounds table has, every other table has too
        self.writer.part("rounds", self._rounds(entries, nodes), first, last)
        _require_finite(entries, loss)

    def privacy(self, ledger: Ledger, *, exact: bool) -> None:
        """Replace the privacy table by the ledger's totals so far, exact ones or running bounds."""
        self.writer.snapshot("privacy", privacy_columns(ledger, exact=exact))

    def _wants_links(self, entry: Entry) -> bool:
        return self._links == "all" or (self._links == "evaluated" and entry.outcome.accuracy is not None)

    def _nodes(self, entries: list[Entry], loss: FloatArray) -> dict[str, Any]:
        slots = [entry.slot for entry in entries]
        count = len(slots[0].alpha)

        def flat(get: Callable[[Slot], Any]) -> Any:
            return np.concatenate([get(slot) for slot in slots])

        sent_power = fetch([entry.outcome.sent_power for entry in entries]).ravel()
        alpha, budget_w, on_air = (
            flat(lambda s: s.alpha),
            flat(lambda s: s.budget_w),
            flat(lambda s: s.on_air),
        )
        sigma = flat(lambda s: s.sigma)
        power_w = on_air * budget_w * (alpha * sent_power + (1.0 - alpha) * sigma**2)
        spent = [
            self._energy.spent(
                entry.slot.frame,
                power_w=power,
                sends=entry.slot.on_air,
                hears=entry.slot.cast.ready,
                compute_s=entry.slot.on_air * entry.slot.cast.compute_s,
            )
            for entry, power in zip(entries, power_w.reshape(len(slots), -1))
        ]
        stepped = np.concatenate([entry.stepped for entry in entries])
        energy_j = {
            name: np.concatenate([getattr(one, name) for one in spent])
            for name in ("transmit_j", "pilot_j", "receive_j", "compute_j", "total_j")
        }
        return {
            "round": np.repeat([slot.round for slot in slots], count),
            "node": np.tile(np.arange(count), len(slots)),
            "time_s": np.repeat([to_s(entry.time_ns) for entry in entries], count),
            "x_m": flat(lambda s: s.seen.links.geometry.position_m[:, 0]),
            "y_m": flat(lambda s: s.seen.links.geometry.position_m[:, 1]),
            "height_m": flat(lambda s: s.seen.links.geometry.position_m[:, 2]),
            "up": flat(lambda s: s.cast.up),
            "present": flat(lambda s: s.cast.ready),
            "transmitted": on_air,
            "turn": np.ma.masked_array(flat(lambda s: s.turn), ~on_air),
            "accuracy": _accuracy(entries, count),
            "loss": np.ma.masked_array(loss.ravel(), ~stepped),
            "grad_norm": np.ma.masked_array(fetch([entry.outcome.grad_norm for entry in entries]).ravel(), ~stepped),
            "excess_loss": self._excess(entries, count),
            "alpha": alpha,
            "beta": 1.0 - alpha,
            "power_w": power_w,
            "backoff_db": flat(lambda s: s.backoff_db),
            "self_interference_w": self._self_interference_w(entries, on_air * alpha * budget_w),
            "multiplier": flat(lambda s: s.multiplier),
            "sent_multiplier": flat(lambda s: s.on_air * s.release.multiplier),
            "row_sum": flat(lambda s: s.weights.actual.row_sum),
            "energy_tx_j": energy_j["transmit_j"],
            "energy_pilot_j": energy_j["pilot_j"],
            "energy_rx_j": energy_j["receive_j"],
            "energy_compute_j": energy_j["compute_j"],
            "energy_j": energy_j["total_j"],
            "battery_j": np.ma.masked_invalid(flat(lambda s: s.cast.battery_j)),
        }

    def _excess(self, entries: list[Entry], count: int) -> Any:
        found = [excess for entry in entries if (excess := entry.outcome.excess) is not None]
        return fetch(found).ravel() if found else _nulls(count * len(entries))

    def _self_interference_w(self, entries: list[Entry], model_w: FloatArray) -> Any:
        """Echo times what each node radiated, as far as models and noise were really sent."""
        powers = [power for entry in entries if (power := entry.outcome.self_interference_power) is not None]
        return self._self_interference * model_w * fetch(powers).ravel() if powers else _nulls(len(model_w))

    def _link_columns(self, entries: list[Entry], power_w: FloatArray) -> dict[str, Any]:
        slots = [entry.slot for entry in entries]
        if not slots:
            return {name: [] for name in TABLES["links"].names}

        def flat(get: Callable[[Slot], Any]) -> Any:
            return np.concatenate([get(slot) for slot in slots])

        gain = flat(lambda s: root_mean_square([part.gain for part in s.seen.slots]))
        radiated = np.concatenate([power[slot.seen.heard.tx] for power, slot in zip(power_w, slots)])
        noisy = self._thermal_w > 0
        return {
            "round": np.repeat([slot.round for slot in slots], [len(slot.seen.heard) for slot in slots]),
            "tx": flat(lambda s: s.seen.heard.tx),
            "rx": flat(lambda s: s.seen.heard.rx),
            "neighbour": flat(lambda s: _neighbours(s.seen)),
            "distance_m": flat(lambda s: s.seen.heard.distance_m),
            "gain": gain,
            "gain_est": flat(lambda s: root_mean_square([part.gain_est for part in s.seen.slots])),
            "phase_rad": np.ma.masked_invalid(flat(lambda s: _phase_rad(s.seen))),
            "weight": flat(lambda s: s.weights.actual.link),
            "snr_db": to_db(gain**2 * radiated / self._thermal_w) if noisy else _nulls(len(gain)),
            "epsilon": flat(lambda s: s.link_epsilon),
        }

    def _rounds(self, entries: list[Entry], nodes: dict[str, Any]) -> dict[str, Any]:
        slots, count = [entry.slot for entry in entries], len(entries)

        def each(get: Callable[[Slot], Any]) -> Any:
            return np.array([get(slot) for slot in slots])

        accuracy = nodes["accuracy"].reshape(count, -1)
        gap = each(lambda s: s.spectral_gap)
        return {
            "round": each(lambda s: s.round),
            "time_s": np.array([to_s(entry.time_ns) for entry in entries]),
            "accuracy_mean": accuracy.mean(axis=1),
            "accuracy_min": accuracy.min(axis=1),
            "accuracy_max": accuracy.max(axis=1),
            "loss_mean": nodes["loss"].reshape(count, -1).mean(axis=1),
            "consensus_distance": fetch([entry.outcome.consensus_distance for entry in entries]),
            "learning_rate": each(lambda s: s.learning_rate),
            "noise_std": each(lambda s: s.sigma.max()),
            "epsilon_link_max": each(lambda s: s.link_epsilon.max(initial=0.0)),
            "epsilon_own_max": each(lambda s: s.own_epsilon.max()),
            "epsilon_total_max": each(lambda s: s.total_epsilon.max()),
            "violations": each(lambda s: s.violations),
            "active_nodes": each(lambda s: int(s.on_air.sum())),
            "up_nodes": each(lambda s: int(s.cast.up.sum())),
            "spectral_gap": np.ma.masked_invalid(gap),
            "slots": each(lambda s: s.frame.slots * s.frame.turns),
            "opened_s": each(lambda s: to_s(s.opened_ns)),
            "payload_slots": each(lambda s: s.frame.slots),
            "turns": each(lambda s: s.frame.turns),
            "pilot_s": each(lambda s: to_s(s.frame.pilot_ns)),
            "node_pilot_s": each(lambda s: to_s(s.frame.own_pilot_ns)),
            "payload_s": each(lambda s: to_s(s.frame.payload_ns)),
            "guard_s": each(lambda s: to_s(s.frame.guard_ns)),
            "feedback_s": each(lambda s: to_s(s.frame.feedback_ns)),
            "exchange_s": each(lambda s: to_s(s.frame.exchange_ns)),
            "airtime_s": each(lambda s: to_s(s.frame.airtime_ns)),
            "energy_j": nodes["energy_j"].reshape(count, -1).sum(axis=1),
        }


def privacy_columns(ledger: Ledger, *, exact: bool = True) -> dict[str, Any]:
    """The ledger's totals as the privacy table."""
    statements, terms = ledger.statements(exact=exact), ledger.terms
    sizes = [len(statement.tx) for statement in statements]
    rx = np.concatenate([statement.rx for statement in statements])

    def label(values: list[str]) -> list[str]:
        return [value for value, size in zip(values, sizes) for _ in range(size)]

    return {
        "tx": np.concatenate([statement.tx for statement in statements]),
        "rx": np.ma.masked_less(rx, 0),
        "view": label([statement.view for statement in statements]),
        "status": label([statement.status for statement in statements]),
        "accountant": label([statement.accountant for statement in statements]),
        "adjacency": [terms.adjacency] * len(rx),
        "sampler": [terms.sampler] * len(rx),
        "clipping": [terms.clipping] * len(rx),
        "delta": np.full(len(rx), terms.delta),
        "rounds": np.concatenate([statement.rounds for statement in statements]),
        "epsilon_total": np.concatenate([statement.epsilon_total for statement in statements]),
    }


def _event_columns(events: list[tuple[int, int, str, str]]) -> dict[str, Any]:
    time_ns, node, kind, detail = zip(*events) if events else ((), (), (), ())
    return {
        "time_s": np.array([to_s(ns) for ns in time_ns]),
        "node": np.ma.masked_less(np.array(node, dtype=np.int64), 0),
        "kind": list(kind),
        "detail": list(detail),
    }


def _accuracy(entries: list[Entry], count: int) -> Any:
    """Accuracy per node and round, masked where no evaluation took place."""
    values = np.ma.masked_invalid(np.full((len(entries), count), np.nan))
    evaluated = [n for n, entry in enumerate(entries) if entry.outcome.accuracy is not None]
    if evaluated:
        values[evaluated] = fetch([a for n in evaluated if (a := entries[n].outcome.accuracy) is not None])
    return values.ravel()


def _neighbours(seen: FrameChannel) -> BoolArray:
    return np.ones(len(seen.heard), dtype=bool) if seen.inside is None else seen.inside


def _phase_rad(seen: FrameChannel) -> FloatArray:
    """Of the first slot; NaN without phase errors."""
    phase = seen.slots[0].phase_rad
    return np.full(len(seen.heard), np.nan) if phase is None else phase


def _nulls(count: int) -> Any:
    return np.ma.masked_invalid(np.full(count, np.nan))


def _require_finite(entries: list[Entry], loss: FloatArray) -> None:
    bad = ~np.isfinite(loss) & np.stack([entry.stepped for entry in entries])
    if bad.any():
        row, node = np.argwhere(bad)[0]
        raise TrainingError(
            f"loss of node {node} is {loss[row, node]} in round {entries[row].slot.round}; the noise or the learning "
            "rate is likely too large: lower learning.learning_rate, or raise privacy.epsilon_max"
        )


def progress(entry: Entry, rounds: int) -> Progress:
    """Where the run is, from an evaluated entry."""
    outcome = entry.outcome
    assert outcome.accuracy is not None
    accuracy = fetch([outcome.accuracy])
    loss = fetch([outcome.loss])[0][entry.stepped]
    return Progress(
        round=entry.slot.round,
        rounds=rounds,
        time_s=to_s(entry.time_ns),
        accuracy_mean=float(accuracy.mean()),
        accuracy_min=float(accuracy.min()),
        accuracy_max=float(accuracy.max()),
        loss_mean=float(loss.mean()) if len(loss) else float("nan"),
        epsilon_own_total=float(entry.slot.total_epsilon.max()),
    )
