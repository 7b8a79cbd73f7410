"""What nodes hold and how they draw from it, dealt once more from the scenario: traces do not keep data.

Only data set, partition, sampler and learner are built; the network and its air are replaced by the plainest ones, so
that no channel of the user's runs again, and a report needs no more than it shows.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.errors import TraceError, WirelessdlError
from wirelessdl.learning.partition import class_histogram
from wirelessdl.privacy.ledger import Terms
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.trace.run import Run
from wirelessdl.trace.sink import MODELS

_CODE = ".py:"  # in the name of a user's class


@dataclass(frozen=True, eq=False)
class Holdings:
    """Samples per node and class `[K, classes]`, sampling rate of each node, and what totals are stated under."""

    counts: IntArray
    rate: FloatArray
    sensitivity: float
    terms: Terms


def holdings(run: Run) -> Holdings:
    """Deal a run's data once more. Raises TraceError where that takes code or files that are not there."""
    from wirelessdl.run.build import build

    table = run.scenario
    for key in ("dataset", "model", "partition"):
        part = table.get("learning", {}).get(key, "")
        if _CODE in str(part.get("kind", part.get("model", "")) if isinstance(part, dict) else part):
            raise TraceError(f"{run.path}: learning.{key} is a class of yours, which is not run to look at a run")
    plain: dict[str, Any] = {
        **table,
        "network": {"nodes": table["network"]["nodes"], "topology": "ring"},
        "channel": {"models": [{"model": "uniform"}]},
        "time": {},
        "trace": {},
    }
    plain["radio"] = {
        key: value for key, value in table.get("radio", {}).items() if key not in ("csi", "payload_slots")
    }
    plain["power"] = {key: value for key, value in table.get("power", {}).items() if key != "allocator"}
    home = Path(run.provenance.get("folder", "") or run.path)
    try:
        scenario = parse_scenario(plain, origin=f"{run.path}/scenario.toml", folder=str(home))
        world = build(scenario, device="cpu", extra_folders=(home, home.parent, run.path / MODELS))
    except WirelessdlError as error:
        raise TraceError(f"{run.path}: its data cannot be dealt again: {error}") from error
    if world.data.task == "classification":
        counts = class_histogram(world.data.train_y, world.client_indices, world.data.classes)
    else:
        counts = np.array([[len(client)] for client in world.client_indices])
    return Holdings(counts, world.sampling_rate, world.sensitivity, world.terms)
