"""Per-sample clipping of a module without per-sample gradients (book-keeping, after Bu et al. 2023).

One backward pass goes to the layers' outputs only. What went into a layer, a, and what comes back at its
output, e, give each sample's gradient norm; then one more contraction with e weighed by the clipping
factors gives the clipped sum:

    linear      ||g||^2 = ||a||^2 ||e||^2; over several positions, (a a').(e e') or the product itself,
    conv        the same with a unfolded into patches, whichever is smaller
    group norm  g = sum over positions of e and of e times the normalised input

Where samples' gradients of a layer come up on the way to their norms, they are kept, up to an allowance: their weighed
sum takes less than another contraction.

Holds for layers that run once and share no weights; `supported` says so, all else goes to vmap.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wirelessdl.contract import Guard
from wirelessdl.learning.clipping import clear_, clip_factor, may_hold, not_finite, product_norm
from wirelessdl.learning.gradients.strategy import sample_losses

_CACHE = 2**21  # bytes of patches that a thread works on at once
_KEPT = 2**27  # bytes of samples' gradients that are kept for their sum


@dataclass(eq=False)
class _Seen:
    """One layer's pass: what went in, what came back, and samples' gradients `[B, *shape]` where they are kept."""

    layer: nn.Module
    given: Tensor
    back: Tensor | None = None
    samples: list[tuple[Tensor, Tensor]] | None = None

    @property
    def kept_bytes(self) -> int:
        return sum(part.nbytes for _, part in self.samples or [])

    def clear(self, bad: Tensor) -> None:
        """Make nothing of samples whose gradients are not finite."""
        if self.samples is not None:
            self.samples = [(parameter, clear_(part, bad, 0)) for parameter, part in self.samples]
            return
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
        places, room = {id(parameter): place for parameter, place in out}, _KEPT
        squares = []
        for seen in self._seen:
            squares.append(_square_norm(seen, room))
            room -= seen.kept_bytes
        norm = torch.stack(squares).sum(dim=0).sqrt_()
        bad = not_finite(norm)
        factor = clip_factor(norm, clip_norm).mul_(weight)
        if may_hold(bad):  # both factors of a product must be zero
            factor.masked_fill_(bad, 0.0)
            for seen in self._seen:
                seen.clear(bad)
        for seen in self._seen:
            for parameter, gradient in _weighed(seen, factor):
                places[id(parameter)].copy_(gradient)
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
    """Whether every weight belongs to a layer that is known here and runs exactly once."""
    holders = [layer for layer in module.modules() if next(layer.parameters(recurse=False), None) is not None]
    known = all(isinstance(layer, nn.Linear | nn.GroupNorm) or _plain(layer) for layer in holders)
    parameters = [id(p) for layer in holders for p in layer.parameters(recurse=False)]
    if not known or len(set(parameters)) < len(parameters):
        return False
    runs: dict[int, int] = {}

    def count(layer: nn.Module, _given: Any, _out: Any) -> None:
        runs[id(layer)] = runs.get(id(layer), 0) + 1

    hooks = [layer.register_forward_hook(count) for layer in holders]
    parameter = next(module.parameters())
    try:
        with torch.no_grad(), Guard(f"learning.model: {type(module).__name__}.forward"):
            module(torch.zeros(2, *input_shape, dtype=parameter.dtype, device=parameter.device))
    finally:
        for hook in hooks:
            hook.remove()
    return all(runs.get(id(layer)) == 1 for layer in holders)


def _plain(layer: nn.Module) -> bool:
    """A two-dimensional convolution as `unfold` knows it."""
    return (
        type(layer) is nn.Conv2d
        and layer.groups == 1
        and layer.padding_mode == "zeros"
        and not isinstance(layer.padding, str)
    )


def _square_norm(seen: _Seen, room: int) -> Tensor:
    """||g_b||^2 of every sample's gradient of one layer, `[B]`; gradients that take at most `room` bytes are kept."""
    layer = seen.layer
    if isinstance(layer, nn.GroupNorm):
        parts = _norm_parts(seen)
    else:
        assert isinstance(layer, nn.Linear | nn.Conv2d)  # `supported`
        back = _by_position(seen)
        positions, inputs, outputs = back.shape[1], layer.weight[0].numel(), back.shape[2]
        square = None
        if positions == 1:
            square = product_norm(_squares(back), _squares(_inputs(seen, slice(None))))
        elif 2 * positions**2 <= inputs * outputs:
            given = _inputs(seen, slice(None))
            square = (torch.bmm(given, given.mT) * torch.bmm(back, back.mT)).sum(dim=(1, 2))
        if square is not None:
            return square if layer.bias is None else square + _squares(back.sum(dim=1))
        parts = [(layer.weight, _products(seen, back, inputs))]
        if layer.bias is not None:
            parts.append((layer.bias, back.sum(dim=1)))
    if sum(part.nbytes for _, part in parts) <= room:
        seen.samples = parts
    return sum(_squares(part) for _, part in parts)  # type: ignore[return-value]


def _products(seen: _Seen, back: Tensor, inputs: int) -> Tensor:
    """Every sample's gradient, `[B, outputs, inputs]`: a few samples at a time, whose patches a cache holds."""
    count, positions, outputs = back.shape
    found = back.new_empty(count, outputs, inputs)
    step = max(1, _CACHE // (positions * inputs * back.element_size())) if back.device.type == "cpu" else count
    for first in range(0, count, step):
        some = slice(first, first + step)
        torch.bmm(back[some].mT, _inputs(seen, some), out=found[some])
    return found


def _weighed(seen: _Seen, factor: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Sum over samples of factor times gradient, for every parameter of one layer."""
    layer, back = seen.layer, seen.back
    assert back is not None
    if seen.samples is None and isinstance(layer, nn.GroupNorm):
        seen.samples = _norm_parts(seen)
    if seen.samples is not None:
        return [(parameter, _shaped(layer, parameter, factor @ part.flatten(1))) for parameter, part in seen.samples]
    back = back * factor.view(-1, *[1] * (back.ndim - 1))
    if isinstance(layer, nn.Conv2d):
        _, weight, bias = torch.ops.aten.convolution_backward(
            back,
            seen.given,
            layer.weight,
            None if layer.bias is None else [layer.out_channels],
            layer.stride,
            layer.padding,
            layer.dilation,
            False,
            [0, 0],
            1,
            [False, True, layer.bias is not None],
        )
    else:
        back = back.flatten(0, -2)
        weight, bias = back.T @ seen.given.flatten(0, -2), back.sum(dim=0)
    found: list[Any] = [(layer.weight, weight), (layer.bias, bias)]
    return found[:1] if layer.bias is None else found


def _norm_parts(seen: _Seen) -> list[tuple[Tensor, Tensor]]:
    """Each sample's gradient of scale and shift, `[B, channels]`."""
    layer, back = seen.layer, seen.back
    assert isinstance(layer, nn.GroupNorm)
    assert back is not None
    normal = F.group_norm(seen.given, layer.num_groups, eps=layer.eps)
    positions = tuple(range(2, back.ndim))
    scale = (back * normal).sum(dim=positions) if positions else back * normal
    return [(layer.weight, scale), (layer.bias, back.sum(dim=positions) if positions else back)]


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


def _shaped(layer: nn.Module, parameter: Tensor, gradient: Tensor) -> Tensor:
    """As the parameter is: patches have their channels last."""
    if not isinstance(layer, nn.Conv2d) or parameter.ndim != 4:
        return gradient.view(parameter.shape)
    return gradient.view(layer.out_channels, *layer.kernel_size, -1).permute(0, 3, 1, 2)


def _squares(values: Tensor) -> Tensor:
    return values.flatten(1).square().sum(dim=1)
