"""What nodes hold and how they draw from it, as the clients table: all that analysis needs of the data."""

from typing import Any

import numpy as np

from wirelessdl.learning.partition import class_histogram
from wirelessdl.run.world import World


def client_columns(world: World) -> dict[str, Any]:
    """One row per node."""
    samples = np.array([len(client) for client in world.client_indices])
    if world.data.task == "classification":
        counts = class_histogram(world.data.train_y, world.client_indices, world.data.classes)
    else:
        counts = samples[:, None]
    return {
        "node": np.arange(world.nodes),
        "samples": samples,
        "sampling_rate": world.sampling_rate,
        "sensitivity": np.full(world.nodes, world.sensitivity),
        "epoch_rounds": world.learning.sampler.epoch_rounds,
        "class_counts": counts.tolist(),
    }
