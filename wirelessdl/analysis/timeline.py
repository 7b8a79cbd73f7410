"""When each node computed, sent pilots and payload, or was down: the slots of a run, from its traces.

A frame opens (event `frame`), pilots take K turns, a guard passes, the payload ends at the round's `time_s`.
Gradients are computed after it (hardened) or from the opening on (paper), until the event `computed`. A
payload that goes in several slots, each with pilots of its own, is shown as one.
"""

from dataclasses import dataclass

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.trace.run import Run


@dataclass(frozen=True, eq=False)
class Slots:
    """Of R rounds and K nodes: times in s, NaN where nothing is known. Rows are rounds, columns nodes."""

    round: IntArray  # [R]
    opened_s: FloatArray  # [R]
    closed_s: FloatArray  # [R], end of the payload
    pilot_s: float  # how long all pilots take
    guard_s: float
    parallel: bool  # whether gradients are computed from the opening on
    computed_s: FloatArray  # [R, K], when the gradient was ready
    sent: BoolArray  # [R, K]
    up: BoolArray  # [R, K]

    @property
    def compute_from_s(self) -> FloatArray:
        """When nodes begin to compute, [R]."""
        return self.opened_s if self.parallel else self.closed_s + self.guard_s


def slots_of(run: Run) -> Slots:
    """The slots of every round written so far."""
    scenario, rounds = run.scenario, run.rounds
    count = scenario["network"]["nodes"]
    nodes = run.frame("nodes", ["transmitted", "up"])
    shape = (len(rounds), count)
    events = run.frame("events", ["time_s", "node", "kind"])
    opened = events.loc[events["kind"] == "frame", "time_s"].to_numpy()[: len(rounds)]
    closed = rounds["time_s"].to_numpy()
    if len(opened) < len(closed):  # a run being written: events may lag
        opened = np.concatenate([opened, np.full(len(closed) - len(opened), np.nan)])
    radio = scenario.get("radio", {})
    symbols = radio.get("csi", {}).get("symbols", 1) if isinstance(radio.get("csi"), dict) else 1
    pilot_s = count * symbols / radio.get("bandwidth_hz", 1e6)
    guard_s = radio.get("guard_s", 0.0)
    parallel = scenario["privacy"]["protocol"] == "paper"
    done = events[(events["kind"] == "computed") & events["node"].notna()]
    computed = np.full(shape, np.nan)
    # the opening or closing before it says which round a gradient belongs to
    begins = opened if parallel else closed
    when, who = done["time_s"].to_numpy(), done["node"].to_numpy().astype(np.int64)
    row = np.searchsorted(np.where(np.isnan(begins), np.inf, begins), when, side="right") - 1
    known = (row >= 0) & (who < count)
    computed[row[known], who[known]] = when[known]
    return Slots(
        round=rounds["round"].to_numpy(),
        opened_s=opened,
        closed_s=closed,
        pilot_s=pilot_s,
        guard_s=guard_s,
        parallel=parallel,
        computed_s=computed,
        sent=_rows(nodes["transmitted"].to_numpy(), shape),
        up=_rows(nodes["up"].to_numpy(), shape),
    )


def _rows(flat: BoolArray, shape: tuple[int, int]) -> BoolArray:
    """Node columns as a matrix; nodes are written before rounds, so a running run may have more of them."""
    return flat[: shape[0] * shape[1]].astype(bool).reshape(shape)
