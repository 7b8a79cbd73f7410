"""A small data set of bytes, a learning engine on it, and the input of a round."""

import numpy as np

from wirelessdl.learning.data import Dataset
from wirelessdl.learning.engine import LearningEngine
from wirelessdl.learning.models.closed_form import Softmax
from wirelessdl.learning.records import ModelUpdate, RoundInput, Settings, StepInput
from wirelessdl.learning.superposition import one_slot
from wirelessdl.streams import Streams


def bytes_data(samples=200, shape=(6, 6), classes=3, **changes):
    rng = np.random.default_rng(5)
    kept = {"scale": 255.0, "mean": 0.4, "deviation": 0.2, **changes}
    return Dataset(
        "bytes",
        rng.integers(0, 256, (samples, *shape), dtype=np.uint8),
        rng.integers(0, classes, samples),
        rng.integers(0, 256, (40, *shape), dtype=np.uint8),
        rng.integers(0, classes, 40),
        classes,
        **kept,
    )


def make(data, nodes=5, learner=None, **settings):
    client_indices = np.array_split(np.arange(len(data.train_y)), nodes)
    chosen = Settings(
        **{
            "batch_size": 8,
            "clipping": "per-sample",
            "clip_norm": 1.0,
            "projection_radius": 0.5,
            "gradient_at": "mixed",
            "dtype": "float64",
            **settings,
        }
    )
    return LearningEngine(learner or Softmax(data.features, data.classes), data, client_indices, Streams(3), chosen)


def order(nodes, round=1, weights=None, evaluate=False, thermal=0.01):
    mixing = np.full((nodes, nodes), 1 / nodes) if weights is None else weights
    return RoundInput(
        round=round,
        steps=(StepInput.release(one_slot(10**9, mixing, np.full(nodes, thermal)), nodes),),
        noise_scale=np.full(nodes, 0.1),
        update=ModelUpdate.everyone(np.full(nodes, 0.3)),
        evaluate=evaluate,
    )
