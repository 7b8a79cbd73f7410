"""What the engine is measured against: decentralized learning as people write it in PyTorch, node by node.

    NaiveLoop     one module and optimizer per node; state dicts are noised, averaged over neighbours entry by
                  entry, and loaded; autograd, `clip_grad_norm_`, a step
    CarefulLoop   the same with each model as one vector: as few calls as a loop over nodes can do with

Both start, like the engine, from stored bytes, which become normalised floats batch by batch.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_, parameters_to_vector, vector_to_parameters

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.learning.batch import sample_shape, shared_tensor
from wirelessdl.learning.data import Dataset


class _Loop:
    """K modules and their data."""

    def __init__(
        self,
        build: Callable[[], nn.Module],
        data: Dataset,
        client_indices: list[IntArray],
        weights: FloatArray,
        batch_size: int,
    ):
        self.models = [build() for _ in client_indices]
        self.images = shared_tensor(data.train_x).view(-1, *sample_shape(data))
        self.labels, self.batch_size = shared_tensor(data.train_y), batch_size
        self.scale, self.mean, self.deviation = data.scale, per_channel(data.mean), per_channel(data.deviation)
        self.client_indices = [torch.as_tensor(client) for client in client_indices]
        self.own = weights.diagonal().tolist()
        self.heard = [
            [(int(tx), float(weights[rx, tx])) for tx in weights[rx].nonzero()[0] if tx != rx]
            for rx in range(len(client_indices))
        ]
        self.radius = 0.5 * sum(p.numel() for p in self.models[0].parameters()) ** 0.5

    def differentiate(self, node: int) -> None:
        """One clipped gradient, into the module."""
        client, model = self.client_indices[node], self.models[node]
        chosen = client[torch.randperm(len(client))[: self.batch_size]]
        images = (self.images[chosen].float() / self.scale - self.mean) / self.deviation
        F.cross_entropy(model(images), self.labels[chosen]).backward()  # type: ignore[no-untyped-call]
        clip_grad_norm_(model.parameters(), 1.0)


def per_channel(values: float | tuple[float, ...]) -> torch.Tensor:
    """Constants of a data set, ready to broadcast over images `[N, C, H, W]`, or over anything if there is one."""
    return torch.tensor(values) if isinstance(values, float) else torch.tensor(values).view(-1, 1, 1)


class NaiveLoop(_Loop):
    """As it is usually written."""

    def round(self, noise: float, step: float) -> None:
        """Send with noise, mix, one clipped gradient each, step, project."""
        sent = [
            {name: value + noise * torch.randn_like(value) for name, value in model.state_dict().items()}
            for model in self.models
        ]
        for node, model in enumerate(self.models):
            mixed: dict[str, Tensor] = {}
            for name, value in sent[node].items():
                mixed[name] = self.own[node] * value
                for other, weight in self.heard[node]:
                    mixed[name] = mixed[name] + weight * sent[other][name]
            model.load_state_dict(mixed)
            optimizer = torch.optim.SGD(model.parameters(), lr=step)
            optimizer.zero_grad()
            self.differentiate(node)
            optimizer.step()
            with torch.no_grad():
                length = torch.sqrt(sum(p.square().sum() for p in model.parameters()))  # type: ignore[arg-type]
                if length > self.radius:
                    for parameter in model.parameters():
                        parameter.mul_(self.radius / length)


class CarefulLoop(_Loop):
    """With few calls."""

    def round(self, noise: float, step: float) -> None:
        """Send with noise, mix, one clipped gradient each, step, project."""
        with torch.no_grad():
            sent = [parameters_to_vector(model.parameters()) for model in self.models]
            for vector in sent:
                vector.add_(torch.randn_like(vector), alpha=noise)
        for node, model in enumerate(self.models):
            with torch.no_grad():
                mixed = sent[node] * self.own[node]
                for other, weight in self.heard[node]:
                    mixed.add_(sent[other], alpha=weight)
                vector_to_parameters(mixed, model.parameters())
            model.zero_grad()
            self.differentiate(node)
            with torch.no_grad():
                gradient = parameters_to_vector([p.grad for p in model.parameters() if p.grad is not None])
                moved = mixed.sub_(gradient, alpha=step)
                length = moved.norm()
                if length > self.radius:
                    moved.mul_(self.radius / length)
                vector_to_parameters(moved, model.parameters())
