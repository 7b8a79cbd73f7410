"""What training is measured by: samples and scores of evaluations, and the optimum of all losses where it is known."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wirelessdl.arrays import IntArray
from wirelessdl.contract import Guard, capability
from wirelessdl.learning.batch import Buffer, Store
from wirelessdl.learning.behaviour import name_of
from wirelessdl.learning.models import is_built_in
from wirelessdl.learning.models.convex import Objective
from wirelessdl.streams import Streams


def evaluation_samples(store: Store, count: int, streams: Streams) -> tuple[Tensor, Tensor]:
    """Features and labels of evaluations on the way; all, where count is 0 or as many as there are."""
    features, labels = store.test_x, store.test_y
    if not 0 < count < len(labels):
        return features, labels
    chosen = streams.world("learning.eval_samples").choice(len(labels), count, replace=False)
    place = torch.from_numpy(np.sort(chosen)).to(labels.device)
    return features.index_select(0, place), labels.index_select(0, place)


def share_right(scores: Tensor, labels: Tensor) -> Tensor:
    """Share of samples whose first largest score is that of their label, `[k]`; scores `[k, samples, classes]`."""
    top = scores.amax(dim=2)
    if int((scores == top.unsqueeze(2)).sum()) != top.numel():  # ties, or scores that are no numbers
        return (scores.argmax(dim=2) == labels).to(scores.dtype).mean(dim=1)
    of_label = scores.gather(2, labels.view(1, -1, 1).expand(len(scores), -1, 1)).squeeze(2)
    return (of_label == top).to(scores.dtype).mean(dim=1)  # argmax takes forty times as long as amax


def known_objective(learner: Any, store: Store, client_indices: Sequence[IntArray]) -> Objective:
    """The mean of all nodes' losses and where it is least. Raises ValueError for a learner that does not know it."""
    if capability(learner, "objective") is None:
        raise ValueError(
            f"learning.regret is true; the optimum of {type(learner).__name__} is not known: use ridge or logistic"
        )
    features = Buffer(store).normalise(store.train_x)
    weight = torch.zeros(len(features), dtype=store.dtype, device=features.device)
    for client in client_indices:  # each node's mean counts alike
        weight[torch.as_tensor(client, device=features.device)] = 1.0 / len(client)
    guard = Guard(f"learning.model: {name_of(learner)}.objective", is_user_class=not is_built_in(learner))
    with torch.no_grad(), guard:
        objective: Objective = learner.objective(features, store.train_y, weight, len(client_indices))
    return objective
