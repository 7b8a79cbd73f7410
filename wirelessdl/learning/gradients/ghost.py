"""Per-sample clipping of a module without per-sample gradients (book-keeping, after Bu et al. 2023).

One backward pass goes to the layers' outputs only. What went into a layer, a, and what comes back at its
output, e, give each sample's gradient norm; then one more contraction with e weighed by the clipping
factors gives the clipped sum:

    linear      ||g||^2 = ||a||^2 ||e||^2; over several positions, (a a').(e e') or the product itself,
    conv        the same with a unfolded into patches, whichever is smaller
    group norm  g = sum over positions of e and of e times the normalised input

Holds for layers that run once and share no weights; `supported` says so, all else goes to vmap.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wirelessdl.learning.clipping import clear_, clip_factor, may_hold, not_finite, product_norm
from wirelessdl.learning.gradients.strategy import sample_losses


@dataclass(eq=False)
class _Seen:
    """One layer's pass: what went in, and what came back."""

    layer: nn.Module
    given: Tensor
    back: Tensor | None = None


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
        places = {id(parameter): place for parameter, place in out}
        square = torch.stack([_square_norm(seen) for seen in self._seen]).sum(dim=0)
        norm = square.sqrt_()
        bad = not_finite(norm)
        factor = clip_factor(norm, clip_norm).mul_(weight)
        if may_hold(bad):  # both factors of a product must be zero
            factor.masked_fill_(bad, 0.0)
            for seen in self._seen:
                assert seen.back is not None
                seen.given, seen.back = clear_(seen.given.clone(), bad, 0), clear_(seen.back.clone(), bad, 0)
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
        with torch.no_grad():
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


def _square_norm(seen: _Seen) -> Tensor:
    """||g_b||^2 of every sample's gradient of one layer."""
    layer, back = seen.layer, seen.back
    assert back is not None
    if isinstance(layer, nn.GroupNorm):
        return sum(_squares(part) for _, part in _norm_parts(seen))  # type: ignore[return-value]
    if isinstance(layer, nn.Conv2d):
        given, back = _patches(layer, seen.given), back.flatten(2)
    else:  # positions last
        given, back = seen.given.flatten(1, -2).mT if seen.given.ndim > 2 else seen.given.unsqueeze(2), back
        back = back.flatten(1, -2).mT if back.ndim > 2 else back.unsqueeze(2)
    positions = given.shape[2]
    if positions == 1:
        square = product_norm(_squares(back), _squares(given))
    elif 2 * positions**2 <= given.shape[1] * back.shape[1]:
        square = (torch.bmm(given.mT, given) * torch.bmm(back.mT, back)).sum(dim=(1, 2))
    else:
        square = _squares(torch.bmm(back, given.mT))
    if layer.bias is not None:
        square = square + _squares(back.sum(dim=2))
    return square


def _weighed(seen: _Seen, factor: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Sum over samples of factor times gradient, for every parameter of one layer."""
    layer, back = seen.layer, seen.back
    assert back is not None
    if isinstance(layer, nn.GroupNorm):
        return [(parameter, factor @ part) for parameter, part in _norm_parts(seen)]
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


def _patches(layer: nn.Conv2d, given: Tensor) -> Tensor:
    """What each output position of a convolution saw, `[B, in * kernel, positions]`."""
    if layer.kernel_size == (1, 1) and layer.padding == (0, 0):
        return given[:, :, :: layer.stride[0], :: layer.stride[1]].flatten(2)
    return F.unfold(given, layer.kernel_size, layer.dilation, layer.padding, layer.stride)  # type: ignore[arg-type]


def _squares(values: Tensor) -> Tensor:
    return values.flatten(1).square().sum(dim=1)
