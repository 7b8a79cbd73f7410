"""Columns of the tables that no record of a round makes: events, clients, privacy. Pure functions, one per table."""

from collections.abc import Sequence

import numpy as np

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.learning.data import Dataset
from wirelessdl.learning.partition import class_histogram
from wirelessdl.privacy.ledger import Ledger
from wirelessdl.privacy.terms import Exposure
from wirelessdl.run.columns import Columns
from wirelessdl.units import to_s


def event_columns(events: Sequence[tuple[int, int, str, str]]) -> Columns:
    """One row per event: time in ns, node or -1, kind, detail."""
    time_ns, node, kind, detail = zip(*events) if events else ((), (), (), ())
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
