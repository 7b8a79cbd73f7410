"""Modules on a CPU: a copy per thread, whole nodes, one torch thread each.

Convolutions of a node's batch are large enough to fill a core and too small to share one. Weights are
copied into the module, which keeps them, like its images, with channels last.

Per-sample clipping of a module by book-keeping (after Bu et al. 2023).

One backward pass goes to the layers' outputs only. What went into a layer, a, and what comes back at its output, e,
give each sample's gradient of the layer:

    linear, conv   g = sum over positions p of e_p a_p', with a unfolded into patches
    group norm     g = sum over positions of e, and of e times the normalised input

With a single position the norm is ||e|| ||a||, and the clipped sum over samples is one product of all f e and a. With
several, g itself is worked out: from (a a').(e e') its norm would be a small difference of large numbers wherever
positions cancel, up to any factor too small, and one product over all samples and positions would be as wrong. So what
is measured is what is summed, see `learning/clipping.py`. Samples' gradients are kept for their sum up to an allowance;
beyond it they are worked out twice, from the same numbers by the same operations, which give the same bits.

Holds for layers that run once and share no weights; `supported` says so, all else goes to vmap.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wirelessdl.contract import Guard
from wirelessdl.learning.batch import Batch
from wirelessdl.learning.clipping import (
    clear_,
    clip_factor,
    clip_rows_,
    may_hold,
    norm_bound,
    not_finite,
    product_norm,
    sum_samples,
    wide,
)
from wirelessdl.learning.gradients.batched import GradientJob, Vectorised, sample_losses
from wirelessdl.learning.models import layers
from wirelessdl.learning.models.module import scores_in_chunks, statistics

_MAX_CACHED_BYTES = 2**21  # bytes of patches and gradients that a thread works on at once
_MAX_KEPT_BYTES = 2**27  # bytes of samples' gradients that are kept for their sum


class Threads:
    name = "threads"
    accepts_weights = True
    chunk = 1

    def __init__(self, job: GradientJob, workers: int, fallback: Vectorised):
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


@dataclass(eq=False)
class _Seen:
    """One layer's pass: what went in, what came back, and samples' gradients `[B, *shape]` of some parameters."""

    layer: nn.Module
    given: Tensor
    back: Tensor | None = None
    samples: dict[str, Tensor] = field(default_factory=dict)

    @property
    def kept_bytes(self) -> int:
        return sum(part.nbytes for part in self.samples.values())

    def clear(self, bad: Tensor) -> None:
        """Make nothing of samples whose gradients are not finite."""
        for part in self.samples.values():
            clear_(part, bad, 0)
        if "weight" not in self.samples:
            assert self.back is not None
            self.given, self.back = clear_(self.given.clone(), bad, 0), clear_(self.back.clone(), bad, 0)


class Ghost:
    """Clipped gradients of one module; hooks stay on it."""

    def __init__(self, module: nn.Module):
        self._module = module
        self._seen: list[_Seen] = []
        self._listening = False
        for layer in module.modules():
            if next(layer.parameters(recurse=False), None) is not None:
                layer.register_forward_hook(self._note)

    def clip(
        self, features: Tensor, labels: Tensor, weight: Tensor, clip_norm: float, out: Sequence[tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """Weighed sum of clipped gradients into `out`, pairs of parameter and place.

        Returns losses, and which samples' gradients were not finite and counted as zero, `[B]` each.
        """
        self._seen, self._listening = [], True
        try:
            with torch.enable_grad():
                point = features.detach().requires_grad_()
                losses = sample_losses(self._module(point), labels)
                torch.autograd.grad(losses.sum(), point)
        finally:
            self._listening = False
        places, room = {id(parameter): place for parameter, place in out}, _MAX_KEPT_BYTES
        norms = []
        for seen in self._seen:
            norms += _norm_bounds(seen, room)
            room -= seen.kept_bytes
        norm = norm_bound(torch.stack(norms), dim=0)
        bad = not_finite(norm)
        factor = clip_factor(norm, clip_norm).mul_(weight)
        if may_hold(bad):  # both factors of a product must be zero
            factor.masked_fill_(bad, 0.0)
            for seen in self._seen:
                seen.clear(bad)
        for seen in self._seen:
            for name, gradient in _weighed(seen, factor).items():
                places[id(getattr(seen.layer, name))].copy_(gradient)
        self._seen = []
        return losses.detach(), bad

    def _note(self, layer: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
        if not self._listening:
            return
        seen = _Seen(layer, given[0].detach())
        self._seen.append(seen)

        def keep(gradient: Tensor) -> None:
            seen.back = gradient

        # a hook, not the tensor: an activation may overwrite the output in place
        out.register_hook(keep)  # type: ignore[no-untyped-call]


def supported(module: nn.Module, input_shape: tuple[int, ...]) -> bool:
    """Whether every weight belongs to a layer that is known here, which runs exactly once and alone uses it."""
    holders = [layer for layer in module.modules() if next(layer.parameters(recurse=False), None) is not None]
    if not all(_known(layer) for layer in holders):
        return False
    runs: dict[nn.Module, int] = {}
    samples = 3  # few layers have as many positions

    def count(layer: nn.Module, given: tuple[Any, ...], out: Any) -> None:
        # samples first, on both sides: what a layer is given may have been turned or flattened
        by_sample = len(given) == 1 and len(given[0]) == len(out) == samples and given[0].ndim == out.ndim
        runs[layer] = runs.get(layer, 0) + (1 if by_sample else 2)

    hooks = [layer.register_forward_hook(count) for layer in holders]
    parameters = list(module.parameters())
    wanted = [parameter.requires_grad for parameter in parameters]
    try:
        module.requires_grad_(True)
        with torch.enable_grad(), Guard(f"learning.model: {type(module).__name__}.forward"):
            scores = module(torch.zeros(samples, *input_shape, dtype=parameters[0].dtype, device=parameters[0].device))
            # raises where an input that a gradient needs was overwritten
            torch.autograd.grad(scores.sum(), parameters, allow_unused=True, retain_graph=True)
    finally:
        for hook in hooks:
            hook.remove()
        for parameter, want in zip(parameters, wanted):
            parameter.requires_grad_(want)
    uses = _uses(scores)
    return all(runs.get(layer) == 1 for layer in holders) and all(uses.get(id(p)) == 1 for p in parameters)


def _uses(scores: Tensor) -> dict[int, int]:
    """How often each parameter enters the graph of some scores, whichever layer or function takes it."""
    uses: dict[int, int] = {}
    nodes, seen = [scores.grad_fn], {scores.grad_fn}
    while nodes:
        node = nodes.pop()
        for after, _ in () if node is None else node.next_functions:
            leaf = getattr(after, "variable", None)
            if leaf is not None:
                uses[id(leaf)] = uses.get(id(leaf), 0) + 1
            elif after not in seen:
                seen.add(after)
                nodes.append(after)
    return uses


def _known(layer: nn.Module) -> bool:
    """A layer of exactly these classes, with weight and bias for parameters and nothing else of its own.

    A subclass, a hook or a forward set on the layer may compute anything.
    """
    plain = all(name in ("weight", "bias") for name, _ in layer.named_parameters(recurse=False))
    changed = layer._forward_hooks or layer._forward_pre_hooks or "forward" in vars(layer)
    if changed or not plain:
        return False
    if type(layer) is nn.Conv2d:  # as `unfold` knows it
        return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return type(layer) in (nn.Linear, nn.GroupNorm)


def _norm_bounds(seen: _Seen, room: int) -> list[Tensor]:
    """Bounds on the norms of every sample's gradients of one layer, `[B]` each; at most `room` bytes are kept."""
    layer = seen.layer
    if isinstance(layer, nn.GroupNorm):
        seen.samples = _norm_parts(seen)
        return [norm_bound(part) for part in seen.samples.values()]
    assert isinstance(layer, nn.Linear | nn.Conv2d)  # `supported`
    back = _by_position(seen)
    if layer.bias is not None:
        seen.samples["bias"] = back.sum(dim=1)
    norms = [norm_bound(part) for part in seen.samples.values()]
    if back.shape[1] == 1:
        return [*norms, product_norm(norm_bound(back[:, 0]), norm_bound(_inputs(seen, slice(None))[:, 0]))]
    kept = None
    if len(back) * layer.weight.nbytes <= room:
        kept = seen.samples["weight"] = back.new_empty(len(back), back.shape[2], layer.weight[0].numel())
    pieces = [norm_bound(_products(seen, some, kept).flatten(1)) for some in _pieces(back, layer.weight)]
    return [*norms, torch.cat(pieces)]


def _pieces(back: Tensor, weight: Tensor) -> list[slice]:
    """A few samples at a time, whose patches and gradients a cache holds."""
    count, positions, outputs = back.shape
    each = (positions + outputs) * weight[0].numel() * back.element_size()
    step = max(1, _MAX_CACHED_BYTES // each) if back.device.type == "cpu" else count
    return [slice(first, first + step) for first in range(0, count, step)]


def _products(seen: _Seen, some: slice, out: Tensor | None = None) -> Tensor:
    """Gradients of some samples, `[b, outputs, inputs]`, into their places in `out`."""
    back = _by_position(seen)[some].mT
    return torch.bmm(back, _inputs(seen, some), out=None if out is None else out[some])


def _weighed(seen: _Seen, factor: Tensor) -> dict[str, Tensor]:
    """Sum over samples of factor times gradient, for every parameter of one layer."""
    layer = seen.layer
    found = {name: sum_samples(factor[None], part.flatten(1))[0] for name, part in seen.samples.items()}
    if isinstance(layer, nn.GroupNorm):
        return found
    assert isinstance(layer, nn.Linear | nn.Conv2d)  # `supported`
    back = _by_position(seen)
    if "weight" in found:
        weight = found["weight"]
    elif back.shape[1] == 1:
        weight = sum_samples((back[:, 0] * factor.unsqueeze(1)).T, _inputs(seen, slice(None))[:, 0])
    else:
        weight = back.new_zeros(layer.weight.numel(), dtype=wide(back.device))
        for some in _pieces(back, layer.weight):
            weight += sum_samples(factor[None, some], _products(seen, some).flatten(1))[0]
    if isinstance(layer, nn.Conv2d):  # patches have their channels last
        found["weight"] = weight.view(layer.out_channels, *layer.kernel_size, -1).permute(0, 3, 1, 2)
    else:
        found["weight"] = weight.view(layer.weight.shape)
    return found


def _norm_parts(seen: _Seen) -> dict[str, Tensor]:
    """Each sample's gradient of scale and shift, `[B, channels]`."""
    layer, back = seen.layer, seen.back
    assert isinstance(layer, nn.GroupNorm)
    assert back is not None
    normal = F.group_norm(seen.given, layer.num_groups, eps=layer.eps)
    positions = tuple(range(2, back.ndim))
    if not positions:
        return {"weight": back * normal, "bias": back.clone()}
    return {"weight": (back * normal).sum(dim=positions), "bias": back.sum(dim=positions)}


def _by_position(seen: _Seen) -> Tensor:
    """What came back at each output position, `[B, positions, outputs]`."""
    back = seen.back
    assert back is not None
    if isinstance(seen.layer, nn.Conv2d):
        return back.permute(0, 2, 3, 1).flatten(1, 2)
    return back.unsqueeze(1) if back.ndim == 2 else back.flatten(1, -2)


def _inputs(seen: _Seen, some: slice) -> Tensor:
    """What each output position saw of some samples, `[B, positions, inputs]`; of convolutions, channels last."""
    layer, given = seen.layer, seen.given[some]
    if not isinstance(layer, nn.Conv2d):
        return given.unsqueeze(1) if given.ndim == 2 else given.flatten(1, -2)
    assert not isinstance(layer.padding, str)  # `supported`
    (down, across), (beyond, beside) = layer.stride, layer.padding
    images = F.pad(given.permute(0, 2, 3, 1), (0, 0, beside, beside, beyond, beyond)).contiguous()
    if layer.kernel_size == (1, 1):
        return images[:, ::down, ::across].flatten(1, 2)
    count, height, width, channels = images.shape
    reach = [step * (size - 1) + 1 for step, size in zip(layer.dilation, layer.kernel_size)]
    rows, columns = (height - reach[0]) // down + 1, (width - reach[1]) // across + 1
    sample, row, column, _ = images.stride()
    patches = images.as_strided(
        (count, rows, columns, *layer.kernel_size, channels),
        (sample, row * down, column * across, row * layer.dilation[0], column * layer.dilation[1], 1),
    )
    return patches.reshape(count, rows * columns, -1)
