"""From rounds to tables: buffers the records of rounds and turns them into columns at a flush.

Tensors of the learning engine stay where they are until then, so a round waits for no transfer. A part of the tables is
written while the next rounds go on.
"""

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.errors import TrainingError
from wirelessdl.learning.data import Dataset
from wirelessdl.learning.partition import class_histogram
from wirelessdl.learning.runtime import fetch
from wirelessdl.privacy.ledger import Ledger
from wirelessdl.privacy.terms import Exposure
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
        self._pool: ThreadPoolExecutor | None = None
        self._writing: Future[None] | None = None

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
        if self._rows >= _MAX_BUFFERED_ROWS:
            self.flush()
            return
        waited = time.monotonic() - self._flushed_at > PATIENCE_S
        due = _MIN_FLUSHED_ROUNDS if waited else self._flush_every
        if len(self._records) >= due:
            self._flush()

    def flush(self) -> None:
        """Write what is buffered; raise, once it is on disk, if training left the finite numbers."""
        self._flush()
        self._await()

    def close(self) -> None:
        """End the threads that write, once what they have is on disk."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _await(self) -> None:
        """Until what was made is on disk. Raises what went wrong with it."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _flush(self) -> None:
        """Make the tables of what is buffered, and begin to write them."""
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
        rounds = round_columns(records, nodes, sinr_db, self._energy, self._thermal_w)
        self._await()
        if self._pool is None:  # a disk syncs three files as fast as one; one more thread waits for the others
            self._pool = ThreadPoolExecutor(len(parts) + 1, "wirelessdl-tables")
        self._writing = self._pool.submit(self._write, self._pool, parts, rounds, first, last)
        try:
            _require_finite(records, loss)
            _require_within_budget(records, np.maximum(nodes["power_w"], nodes["pass_power_w"].filled(0.0)))
        except TrainingError:
            self._await()
            raise

    def _write(
        self, pool: ThreadPoolExecutor, parts: dict[str, Any], rounds: dict[str, Any], first: int, last: int
    ) -> None:
        written = [pool.submit(self.writer.part, name, columns, first, last) for name, columns in parts.items()]
        wait(written)
        for part in written:
            part.result()
        # last of all: what the rounds table has, every other table has too
        self.writer.part("rounds", rounds, first, last)

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
    """No node may radiate more than its budget, whatever a plan or a model of the user's does."""
    budget_w = np.stack([record.decision.plan.problem.power_w for record in records])
    over = power_w.reshape(budget_w.shape) > budget_w * (1.0 + _ROUNDED)
    if over.any():
        row, node = np.argwhere(over)[0]
        raise TrainingError(
            f"node {node} radiates {power_w.reshape(budget_w.shape)[row, node]:.6g} W in round "
            f"{records[row].decision.round}, above its budget of {budget_w[row, node]:.6g} W: the power allocator gave "
            "it more than it has, or its model left the ball of learning.projection_radius"
        )


def progress(record: RoundRecord, rounds: int, coalition: int) -> Progress:
    """Where the run is, from an evaluated record. coalition: most nodes that collude, where that is promised."""
    result, decision = record.result, record.decision
    assert result.accuracy is not None
    accuracy = fetch([result.accuracy])
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
        coalition=coalition if decision.charged.view == "coalition" else None,
        epsilon_own_total=decision.charged.own_total.worst,
        epsilon_own_bound=float(decision.charged.own_total.bound.max()),
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
        "unit": [terms.unit] * len(rx),
        "adjacency": [terms.adjacency] * len(rx),
        "sampler": [terms.sampler] * len(rx),
        "clipping": [terms.clipping] * len(rx),
        "delta": np.full(len(rx), terms.delta),
        "rounds": np.concatenate([statement.rounds for statement in statements]),
        "epsilon_total": np.concatenate([statement.epsilon_total for statement in statements]),
    }
