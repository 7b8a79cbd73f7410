"""Learners that bring their own gradient: several nodes in one call, as many as the cache holds."""

import inspect

from torch import Tensor

from wirelessdl.learning.batch import Batch
from wirelessdl.learning.gradients.strategy import Job

_CACHE = 2**22  # bytes of features that a thread works on at once
_PIECES = 4  # pieces from which a second thread pays: operations are short, and the interpreter is one
_WORK = 2**25  # products in a piece, beyond which it is large enough to share


class ClosedForm:
    name = "closed-form"

    def __init__(self, job: Job, sample_bytes: int, batch: int, nodes: int, workers: int):
        self._job = job
        accepted = inspect.signature(job.learner.gradient).parameters  # a user's learner may know of neither
        self.weighs, self._fills = "weight" in accepted, "out" in accepted
        held, work = _CACHE // (sample_bytes * batch), _WORK // (job.learner.size * batch)
        self.chunk = max(1, min(held, work))
        self.workers = workers if nodes >= _PIECES * self.chunk else 1

    def gradient(self, worker: int, x: Tensor, batch: Batch, out: Tensor) -> Tensor:  # noqa: ARG002
        job = self._job
        given = {} if batch.weight is None else {"weight": batch.weight}
        if self._fills:
            given["out"] = out
        gradient, loss = job.learner.gradient(x, batch.features, batch.labels, job.clipping, job.clip_norm, **given)
        if gradient is not out:
            out.copy_(gradient)
        return loss  # type: ignore[no-any-return]

    def scores(self, worker: int, x: Tensor, features: Tensor) -> Tensor:  # noqa: ARG002
        return self._job.learner.scores(x, features)  # type: ignore[no-any-return]
