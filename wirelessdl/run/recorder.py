"""Buffers the records of rounds and turns them into table columns at a flush.

Tensors of the learning engine stay where they are until then, so a round waits for no transfer.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.errors import TrainingError
from wirelessdl.learning.data import Dataset
from wirelessdl.learning.partition import class_histogram
from wirelessdl.learning.runtime import fetch
from wirelessdl.privacy.ledger import Ledger
from wirelessdl.privacy.terms import Exposure, PrivacyAssumptions
from wirelessdl.radio.energy import EnergyModel
from wirelessdl.round.records import Progress, RoundRecord
from wirelessdl.run.columns import (
    Columns,
    LinkSample,
    block_columns,
    link_columns,
    node_columns,
    round_columns,
    sinr_of_rounds,
)
from wirelessdl.trace.events import Event, TraceEvents
from wirelessdl.trace.sink import RunWriter
from wirelessdl.units import to_s

_MIN_FLUSHED_ROUNDS = 20
_MAX_BUFFERED_ROWS = 300_000  # of links and nodes that are buffered: a buffered frame holds about 300 bytes of each
_ROUNDED = 1e-5  # relative, of squared norms in float32
PATIENCE_S = 10.0  # slow rounds are written before the buffer is full, so that a reader sees them


class Recorder:
    """Buffers records and events, and writes them as parts."""

    writer: RunWriter  # set when the run starts; nothing is written before
    on_rounds: Callable[[Columns], None] | None = None  # hears rows of the rounds table once they are written

    def __init__(
        self,
        *,
        energy: EnergyModel,
        thermal_w: float,
        self_interference: float = 0.0,
        links: str,
        flush_every: int,
        sample: LinkSample,
        blocks_delta: float | None = None,
    ):
        """blocks_delta: delta of the epsilon of blocks; None: blocks are not traced."""
        self._blocks_delta = blocks_delta
        self._energy, self._thermal_w, self._self_interference = energy, thermal_w, self_interference
        self._links, self._flush_every, self._sample = links, flush_every, sample
        self._records: list[RoundRecord] = []
        self._events: list[tuple[int, int, str, str]] = []
        self._flushed_at = time.monotonic()
        self._rows = 0

    def listen(self, trace: TraceEvents) -> None:
        """Subscribe to what the tables hold."""
        trace.connect("node.state", self._note)
        trace.connect("net.state", self._note)
        trace.connect("learning.update", lambda event: self.add(event.record))

    def _note(self, event: Event) -> None:
        """Something happened at a node, or in the network (node -1)."""
        fields = event.fields
        self._events.append((event.time_ns, fields.get("node", -1), fields["state"], fields["detail"]))

    def add(self, record: RoundRecord) -> None:
        self._records.append(record)
        channel = record.decision.channel
        self._rows += len(channel.heard) * channel.subbands + channel.heard.nodes
        waited = time.monotonic() - self._flushed_at > PATIENCE_S
        due = _MIN_FLUSHED_ROUNDS if waited else self._flush_every
        if self._rows >= _MAX_BUFFERED_ROWS or len(self._records) >= due:
            self.flush()

    def flush(self) -> None:
        """Write what is buffered; raise, once it is on disk, if training left the finite numbers."""
        if not self._records:
            return
        records, self._records = self._records, []
        events, self._events = self._events, []
        self._flushed_at, self._rows = time.monotonic(), 0
        first, last = records[0].decision.round, records[-1].decision.round
        loss = fetch([record.result.loss for record in records])
        nodes = node_columns(records, loss, self._energy, self._self_interference)
        sinr_db = sinr_of_rounds(records, nodes, self._thermal_w)
        parts = {"nodes": nodes, "events": event_columns(events)}
        if self._links != "none":
            traced = [n for n, record in enumerate(records) if self._links != "evaluated" or record.result.evaluated]
            power_w = nodes["power_w"].reshape(len(records), -1)
            parts["links"] = link_columns(
                [records[n] for n in traced],
                power_w[traced],
                [sinr_db[n] for n in traced],
                self._thermal_w,
                self._sample,
            )
            if self._blocks_delta is not None:
                parts["blocks"] = block_columns([records[n] for n in traced], self._blocks_delta, self._sample)
        # last of all: what the rounds table has, every other table has too
        parts["rounds"] = round_columns(records, nodes, sinr_db, self._energy, self._thermal_w)
        for name, columns in parts.items():
            self.writer.part(name, columns, first, last)
        if self.on_rounds is not None:
            self.on_rounds(parts["rounds"])
        _require_finite(records, loss)
        _require_within_budget(records, np.maximum(nodes["power_w"], nodes["pass_power_w"].filled(0.0)))

    def privacy(self, ledger: Ledger, *, exact: bool) -> None:
        """Replace the privacy table by the ledger's totals so far, exact ones or running bounds."""
        self.writer.snapshot("privacy", privacy_columns(ledger, exact=exact))


def _require_finite(records: list[RoundRecord], loss: FloatArray) -> None:
    bad = ~np.isfinite(loss) & np.stack([record.stepped for record in records])
    if bad.any():
        row, node = np.argwhere(bad)[0]
        raise TrainingError(
            f"loss of node {node} is {loss[row, node]} in round {records[row].decision.round}; the noise or the "
            "learning rate is likely too large: lower learning.learning_rate, or raise privacy.epsilon_max"
        )


def _require_within_budget(records: list[RoundRecord], power_w: FloatArray) -> None:
    """No node may radiate more than its budget, whatever a plan or a user's model does."""
    budget_w = np.stack([record.decision.plan.problem.power_w for record in records])
    over = power_w.reshape(budget_w.shape) > budget_w * (1.0 + _ROUNDED)
    if over.any():
        row, node = np.argwhere(over)[0]
        raise TrainingError(
            f"node {node} radiates {power_w.reshape(budget_w.shape)[row, node]:.6g} W in round "
            f"{records[row].decision.round}, above its budget of {budget_w[row, node]:.6g} W: the power allocator gave "
            "it more than it has, or its model left the ball of learning.projection_radius"
        )


def progress(record: RoundRecord, rounds: int, terms: PrivacyAssumptions) -> Progress:
    """Where the run is, from an evaluated record. terms: what totals are stated under."""
    result, decision = record.result, record.decision
    assert result.accuracy is not None
    accuracy = fetch([result.accuracy])[0][~decision.attackers]
    loss = fetch([result.loss])[0][record.stepped]
    return Progress(
        round=decision.round,
        rounds=rounds,
        time_s=to_s(record.time_ns),
        accuracy_mean=float(accuracy.mean()),
        accuracy_min=float(accuracy.min()),
        accuracy_max=float(accuracy.max()),
        loss_mean=float(loss.mean()) if len(loss) else float("nan"),
        epsilon_total=decision.charged.promised_total.worst,
        epsilon_bound=float(decision.charged.promised_total.bound.max()),
        coalition=terms.coalition if decision.charged.view == "coalition" else None,
        epsilon_own_total=decision.charged.own_total.worst,
        epsilon_own_bound=float(decision.charged.own_total.bound.max()),
        declared=terms.status != "proven",
    )


def event_columns(events: Sequence[tuple[int, int, str, str]]) -> Columns:
    """One row per event, in order of time: time in ns, node or -1, kind, detail."""
    ordered = sorted(events, key=lambda event: event[0])  # turns of a frame are known when it opens
    time_ns, node, kind, detail = zip(*ordered) if events else ((), (), (), ())
    return {
        "time_s": np.array([to_s(ns) for ns in time_ns]),
        "node": np.ma.masked_less(np.array(node, dtype=np.int64), 0),
        "kind": list(kind),
        "detail": list(detail),
    }


def client_columns(
    data: Dataset, client_indices: Sequence[IntArray], exposure: Exposure, power_w: FloatArray
) -> Columns:
    """One row per node: its data and its power budget `[K]` W. client_indices: the samples of each node."""
    samples = np.array([len(client) for client in client_indices])
    counts = samples[:, None]
    if data.task == "classification":
        counts = class_histogram(data.train_y, list(client_indices), data.classes)
    return {
        "node": np.arange(len(samples)),
        "samples": samples,
        "sampling_rate": exposure.sampling_rate,
        "sensitivity": exposure.sensitivity,
        "epoch_rounds": exposure.epoch_rounds,
        "class_counts": counts.tolist(),
        "budget_w": power_w,
    }


def privacy_columns(ledger: Ledger, *, exact: bool = True) -> Columns:
    """The ledger's totals: one row per sender, and per link that was heard."""
    statements, terms = ledger.statements(exact=exact), ledger.terms

    def rows(name: str) -> Any:
        return np.concatenate([getattr(statement, name) for statement in statements])

    def labels(name: str) -> list[str]:
        return [getattr(statement, name) for statement in statements for _ in statement.tx]

    rx = rows("rx")
    return {
        **{name: rows(name) for name in ("tx", "rounds", "epsilon_total")},
        "rx": np.ma.masked_less(rx, 0),
        **{name: labels(name) for name in ("view", "status", "accountant")},
        **{name: [getattr(terms, name)] * len(rx) for name in ("unit", "adjacency", "sampler", "clipping")},
        "delta": np.full(len(rx), terms.delta),
    }
