"""A round of softmax regression in a few calls of torch, which hold no lock of the interpreter meanwhile.

    w = x + n,  s = A w + receiver noise,  g = clipped gradient at s or x,  x <- Proj(s - step g)

The operations are those of `Airing`, `Buffer`, `Softmax.gradient` and `LearningEngine`, in the same order: results are
equal bit for bit, and a test holds them so. In a few calls they can run beside the events, the channel and the plan of
rounds to come (`pipeline.py`); sixty short ones would wait for the interpreter sixty times.

Not for mixing passes, messages, offsets of carriers, phase errors, residual self-interference, listed pairs, padded
batches and augmented images: those rounds run call by call.
"""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from wirelessdl.learning.draws import rows_in_turn


def _clip_factor(norm: Tensor, most: float) -> Tensor:
    return norm.reciprocal().mul_(most).clamp_max_(1.0)


def _project_(rows: Tensor, radius: float) -> None:
    norm = torch.linalg.vector_norm(rows, 2.0, [1], True)
    if not bool((norm <= radius).all()):
        rows.mul_(_clip_factor(norm, radius))


def _finite_mean(values: Tensor) -> Tensor:
    mean = values.mean(dim=1)
    if bool(torch.isfinite(mean.sum())):
        return mean
    bad = torch.isfinite(mean).logical_not_()
    there = torch.isfinite(values)
    count = there.sum(dim=1, keepdim=True)
    some = torch.where(there, values / count, 0.0).sum(dim=1)
    return torch.where(bad, torch.where(count.squeeze(1) > 0, some, float("nan")), mean)


def _send(
    x: Tensor, out: Tensor, drawn: Tensor, seeds: list[int], scale: Tensor, group: list[Tensor], rng: torch.Generator
) -> None:
    """w into `out`. drawn: standard normal numbers, or nothing, and seeds. group: deviation, onto, back, or nothing."""
    if len(drawn) == 0:
        rows_in_turn(out, seeds, rng)
    if len(group) > 0:
        if len(drawn) > 0:
            out.copy_(drawn)
        if len(group[1]) > 0:
            out.addmm_(group[2], group[1] @ out, alpha=-1.0)
        out.mul_(group[0])
        out.add_(x)
    elif len(drawn) == 0:
        torch.addcmul(x, out, scale, out=out)
    else:
        torch.addcmul(x, drawn, scale, out=out)


def _gradient(
    point: Tensor,
    features: Tensor,
    labels: Tensor,
    feature_norm: Tensor,
    out: Tensor,
    per_sample: bool,
    clip_norm: float,
    largest: float,
) -> tuple[Tensor, Tensor]:
    """Loss and count of gradients that were not finite, `[k]` each; the clipped gradient into `out`, `[k, m]`."""
    nodes, batch = labels.shape[0], labels.shape[1]
    weights = point.view(nodes, -1, features.shape[2])
    chosen = labels.unsqueeze(1)
    error = torch.log_softmax(torch.bmm(weights, features.mT), dim=1)
    losses = error.gather(1, chosen).squeeze(1).neg_()
    error.exp_()
    error.scatter_(1, chosen, -1.0, reduce="add")
    loss = _finite_mean(losses)
    bad = torch.zeros([0, 0], dtype=torch.bool)
    if per_sample:
        norm = error.square().sum(dim=1).sqrt_()
        nothing = norm == 0
        norm.mul_(feature_norm).masked_fill_(nothing, 0.0)
        error.mul_(_clip_factor(norm, clip_norm).div_(batch).unsqueeze(1))
        bad = torch.lt(norm, largest).logical_not_()
        if bool(bad.any()):
            error.masked_fill_(bad.unsqueeze(1), 0.0)
    else:
        error.div_(batch)
    torch.bmm(error, features, out=out.view(weights.shape))
    if not per_sample:
        whole = torch.linalg.vector_norm(out, 2.0, [1], True)
        bad = torch.lt(whole, largest).logical_not_()
        out.mul_(_clip_factor(whole, clip_norm))
        if bool(bad.any()):
            out.masked_fill_(bad, 0.0)
    return loss, bad.sum(dim=1).to(out.dtype)


def _air(
    x: Tensor,
    spare: Tensor,
    mixed: Tensor,
    rng: torch.Generator,
    noisy: bool,
    noise: Tensor,
    noise_seeds: list[int],
    scale: Tensor,
    group: list[Tensor],
    heard: bool,
    thermal: Tensor,
    thermal_seeds: list[int],
    deviation: Tensor,
    edges: list[int],
    weights: list[Tensor],
    away: Tensor,
) -> Tensor:
    """s into `mixed`; `spare` is overwritten. Returns ||x||^2 / m, `[K]`.

    noise, thermal: standard normal numbers `[K, m]`, or nothing, and seeds of each row. edges: first and last
    coordinate of every slot; weights: A of every slot. away: who keeps what it holds.
    """
    kept = mixed
    if len(away) > 0:
        kept = mixed.index_select(0, away)
    sent_power: Tensor = torch.linalg.vector_norm(x, 2.0, [1]).square_().div_(x.shape[1])
    sent = x
    if noisy:
        sent = spare
        _send(x, sent, noise, noise_seeds, scale, group, rng)
    if heard:
        if len(thermal) == 0:
            rows_in_turn(mixed, thermal_seeds, rng)
        for slot in range(len(weights)):
            there = mixed[:, edges[slot] : edges[slot + 1]]
            drawn = there if len(thermal) == 0 else thermal[:, edges[slot] : edges[slot + 1]]
            torch.mul(drawn, deviation[:, slot : slot + 1], out=there)
    else:
        mixed.zero_()
    for slot in range(len(weights)):
        mixed[:, edges[slot] : edges[slot + 1]].addmm_(weights[slot], sent[:, edges[slot] : edges[slot + 1]])
    if len(away) > 0:
        mixed.index_copy_(0, away, kept)
    return sent_power


def _learn(
    first: int,
    last: int,
    point: Tensor,
    mixed: Tensor,
    out: Tensor,
    results: Tensor,
    place: Tensor,
    train_x: Tensor,
    train_y: Tensor,
    norms: Tensor,
    raw: Tensor,
    rows: Tensor,
    scaled: bool,
    shift: Tensor,
    slope: float,
    per_sample: bool,
    clip_norm: float,
    largest: float,
    radius: float,
    step: Tensor,
) -> None:
    """The next x of nodes from first to last into `out`; gradients at `point`.

    place: [K, B] samples; norms: of all samples' features, or nothing; raw, rows: room for these nodes' batches.
    results: [3, K] norm of the gradient, loss, count of gradients that were not finite.
    """
    batch = place.shape[1]
    here = place[first:last].reshape(-1)
    count = here.shape[0]
    features = rows[:count]
    body = features[:, :-1]
    body.copy_(torch.index_select(train_x, 0, here, out=raw[:count]))
    if scaled:
        torch.add(shift, body, alpha=slope, out=body)
    labels = train_y.index_select(0, here).view(last - first, batch)
    known = norms
    if per_sample:
        known = norms.index_select(0, here).view(last - first, batch)
    gradient = out[first:last]
    shaped = features.view(last - first, batch, features.shape[1])
    found = _gradient(point[first:last], shaped, labels, known, gradient, per_sample, clip_norm, largest)
    results[0, first:last] = torch.linalg.vector_norm(gradient, 2.0, [1])
    results[1, first:last], results[2, first:last] = found[0], found[1]
    torch.addcmul(mixed[first:last], gradient, step[first:last], out=gradient)
    _project_(gradient, radius)


def _end(x: Tensor, spare: Tensor, mixed: Tensor, away: Tensor, evaluates_mixed: bool) -> Tensor:
    """Who is away keeps its x; x is overwritten. Returns the distance from consensus."""
    if len(away) > 0:
        spare.index_copy_(0, away, x.index_select(0, away))
    evaluated = mixed if evaluates_mixed else spare
    apart: Tensor = torch.linalg.vector_norm(torch.sub(evaluated, evaluated.mean(dim=0), out=x), 2.0, [1])
    return apart.square_().mean().sqrt_()


def _round(
    piece: int,
    x: Tensor,
    spare: Tensor,
    mixed: Tensor,
    rng: torch.Generator,
    noisy: bool,
    noise: Tensor,
    noise_seeds: list[int],
    scale: Tensor,
    group: list[Tensor],
    heard: bool,
    thermal: Tensor,
    thermal_seeds: list[int],
    deviation: Tensor,
    edges: list[int],
    weights: list[Tensor],
    away: Tensor,
    point: Tensor,
    results: Tensor,
    place: Tensor,
    train_x: Tensor,
    train_y: Tensor,
    norms: Tensor,
    raw: Tensor,
    rows: Tensor,
    scaled: bool,
    shift: Tensor,
    slope: float,
    per_sample: bool,
    clip_norm: float,
    largest: float,
    radius: float,
    step: Tensor,
    evaluates_mixed: bool,
) -> tuple[Tensor, Tensor]:
    """A whole round, `piece` nodes at a time; arguments and results are those of `_air`, `_learn` and `_end`."""
    sent_power = _air(
        x, spare, mixed, rng, noisy, noise, noise_seeds, scale, group, heard, thermal, thermal_seeds, deviation, edges,
        weights, away,
    )  # fmt: skip
    nodes = x.shape[0]
    for first in range(0, nodes, piece):
        _learn(
            first, min(first + piece, nodes), point, mixed, spare, results, place, train_x, train_y, norms, raw, rows,
            scaled, shift, slope, per_sample, clip_norm, largest, radius, step,
        )  # fmt: skip
    return sent_power, _end(x, spare, mixed, away, evaluates_mixed)


def share_right(scores: Tensor, labels: Tensor) -> Tensor:
    """Share of samples whose first largest score is that of their label, `[k]`; scores `[k, samples, classes]`."""
    top = scores.amax(dim=2)
    if int((scores == top.unsqueeze(2)).sum()) != top.numel():  # ties, or scores that are no numbers
        return (scores.argmax(dim=2) == labels).to(scores.dtype).mean(dim=1)
    of_label = scores.gather(2, labels.view(1, -1, 1).expand(len(scores), -1, 1)).squeeze(2)
    return (of_label == top).to(scores.dtype).mean(dim=1)  # argmax takes forty times as long as amax


def _accuracy(x: Tensor, features: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Share of the samples that each model gets right, `[k]`."""
    flat = x.reshape(len(x) * classes, -1) @ features.t()
    return share_right(flat.view(len(x), classes, len(features)).mT, labels)


@cache
def scripted() -> dict[str, Callable[..., Any]] | None:
    """The functions of this file as torch runs them without the interpreter; None where this torch cannot."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated in favour of compilers, which need a C++ compiler
        try:
            return {
                function.__name__: torch.jit.script(function) for function in (_round, _air, _learn, _end, _accuracy)
            }
        except Exception:  # whatever a later torch says instead
            return None
