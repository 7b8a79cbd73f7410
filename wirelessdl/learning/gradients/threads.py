"""Modules on a CPU: a copy per thread, whole nodes, one torch thread each.

Convolutions of a node's batch are large enough to fill a core and too small to share one. Weights are
copied into the module, which keeps them, like its images, with channels last.
"""

import torch
from torch import Tensor

from wirelessdl.learning.batch import Batch
from wirelessdl.learning.clipping import clip_rows_
from wirelessdl.learning.gradients.batched import Vectorised
from wirelessdl.learning.gradients.ghost import Ghost, supported
from wirelessdl.learning.gradients.strategy import Job, layers, sample_losses
from wirelessdl.learning.models.module import scores_in_chunks, statistics


class Threads:
    name = "threads"
    accepts_weights = True
    chunk = 1

    def __init__(self, job: Job, workers: int, fallback: Vectorised):
        learner = job.learner
        self._job, self.workers = job, workers
        self._modules = learner.copies(workers, job.device, job.dtype)
        self._images = len(learner.input_shape) == 3
        if self._images:
            for module in self._modules:
                module.to(memory_format=torch.channels_last)
        self._parameters = [dict(module.named_parameters()) for module in self._modules]
        self.remembered: Tensor | None = None
        self.ghosts: list[Ghost] | None = None  # one per thread, where book-keeping clips samples
        self._fallback = None
        if job.clipping == "per-sample":
            if supported(self._modules[0], learner.input_shape):
                self.ghosts = [Ghost(module) for module in self._modules]
            else:
                self._fallback, self.workers, self.chunk = fallback, 1, fallback.chunk
        else:
            for module in self._modules:
                module.requires_grad_(True)

    def gradient(self, worker: int, x: Tensor, batch: Batch, out: Tensor) -> tuple[Tensor, Tensor]:
        if self._fallback is not None:
            return self._fallback.gradient(worker, x, batch, out)
        losses, bad = [], []
        for node, features in enumerate(batch.features):
            self._load(worker, x[node])
            self._recall(worker, batch.nodes[node] if batch.nodes else None)
            places = [part[0] for part in layers(self._job.learner, out[node : node + 1])]
            weight = batch.weights()[node]
            if self.ghosts is not None:
                pairs = list(zip(self._parameters[worker].values(), places))
                found, flags = self.ghosts[worker].clip(
                    self._last(features), batch.labels[node], weight, self._job.clip_norm, pairs
                )
                losses.append(found)
                bad.append(flags)
            else:
                there = batch.real(node)  # statistics of a batch see nothing else
                found = self._mean(worker, features[there], batch.labels[node, there], weight[there], places)
                losses.append(torch.nn.functional.pad(found, (0, len(weight) - len(found))))
                self._remember(worker, batch.nodes[node] if batch.nodes else None)
        loss = batch.mean(torch.stack(losses))
        if self.ghosts is None:
            return loss, clip_rows_(out, self._job.clip_norm).to(loss.dtype)
        return loss, batch.count(torch.stack(bad))

    def scores(self, worker: int, x: Tensor, features: Tensor, nodes: range = range(0)) -> Tensor:
        found, module = [], self._modules[worker]
        module.train(self.remembered is None)  # running statistics are used in evaluation only
        for place, row in enumerate(x):
            self._load(worker, row)
            self._recall(worker, nodes[place] if nodes else None)
            found.append(scores_in_chunks(lambda part: module(self._last(part)), features))
        module.train()
        return torch.stack(found)

    def remember(self, nodes: int) -> None:
        """Give every node's batch normalisation a memory, `remembered[nodes, numbers]`."""
        start = torch.cat([part.reshape(-1) for part in statistics(self._modules[0])])
        self.remembered = start.repeat(nodes, 1)

    def _recall(self, worker: int, node: int | None) -> None:
        if self.remembered is None or node is None:
            return
        parts = statistics(self._modules[worker])
        for part, kept in zip(parts, torch.split(self.remembered[node], [part.numel() for part in parts])):
            part.copy_(kept)

    def _remember(self, worker: int, node: int | None) -> None:
        if self.remembered is not None and node is not None:
            torch.cat([part.reshape(-1) for part in statistics(self._modules[worker])], out=self.remembered[node])

    def _mean(self, worker: int, features: Tensor, labels: Tensor, weight: Tensor, places: list[Tensor]) -> Tensor:
        parameters = list(self._parameters[worker].values())
        with torch.enable_grad():
            losses = sample_losses(self._modules[worker](self._last(features)), labels)
            gradients = torch.autograd.grad((losses * weight).sum(), parameters, materialize_grads=True)
        for place, gradient in zip(places, gradients):
            place.copy_(gradient)
        return losses.detach()

    def _load(self, worker: int, row: Tensor) -> None:
        """Put a node's weights into a thread's module."""
        with torch.no_grad():
            for parameter, part in zip(self._parameters[worker].values(), layers(self._job.learner, row.unsqueeze(0))):
                parameter.copy_(part[0])

    def _last(self, features: Tensor) -> Tensor:
        return features.contiguous(memory_format=torch.channels_last) if self._images else features
