"""Gradient strategies: ways to get K clipped gradients, all equal to `loop`.

    closed-form   softmax and MLP: batched matrix products, several nodes at a time in each thread;
                  a user's class with a gradient of its own, which is clipped here
    threads       any module: a copy of it per thread, node by node, one torch thread each
    vmap          any module that torch.func can vectorise: many nodes in one call
    loop          node by node and sample by sample with autograd: the slow twin

`auto` is a fixed rule of model family, device and K, never a race at the start: which one won could change from run to
run.

    closed form known                       closed-form
    a module on an accelerator              vmap
    a module on the CPU: convolutions       threads
                         fewer than 4 nodes threads
                         else               vmap, where torch can vectorise it, else threads
"""

import math
from typing import Any, Literal, TypeAlias

import torch

from wirelessdl.contract import RAISED, capability, formatted
from wirelessdl.errors import ContractError
from wirelessdl.learning.batch import Batch
from wirelessdl.learning.gradients.batched import ClosedForm, GradientJob, Loop, Strategy, UserGradients, Vectorised
from wirelessdl.learning.gradients.threads import Threads
from wirelessdl.learning.models import is_built_in
from wirelessdl.learning.models.module import ModuleLearner

__all__ = ["GradientJob", "Strategy", "StrategyName", "choose"]

StrategyName: TypeAlias = Literal["auto", "closed-form", "threads", "vmap", "loop"]
_MIN_NODES = 4  # nodes below which vectorising over them does not pay
_ALLOWANCE, _OF_CUDA = 2**28, 2**30  # bytes to work in; fixed, since chunks change the last bits


def choose(
    name: StrategyName, job: GradientJob, *, nodes: int, batch: int, input_shape: tuple[int, ...], threads: int
) -> Strategy:
    """The strategy of a run. Raises ValueError where the configured one does not fit the model."""
    learner = job.learner
    module, closed = isinstance(learner, ModuleLearner), capability(learner, "gradient") is not None
    workers = threads if job.device.type == "cpu" else 1
    allowance = _OF_CUDA if job.device.type == "cuda" else _ALLOWANCE
    remembers = module and learner.remembered > 0
    if remembers and name in ("vmap", "loop"):
        raise ValueError(
            f'learning.strategy is "{name}"; batch normalisation that remembers, as under the paper protocol, runs '
            "in threads only: use threads"
        )
    if name == "auto":
        name = "threads" if remembers else _rule(job, nodes)
        if name == "vmap" and job.device.type == "cpu":
            try:
                _try(Vectorised(job, 1, 2, allowance), job, input_shape)
            except (ValueError, ContractError) as error:
                if isinstance(error, ContractError) and not isinstance(error.__cause__, ValueError):
                    raise
                name = "threads"  # torch cannot vectorise it
    if name == "closed-form" and not closed:
        raise ValueError(f'learning.strategy is "closed-form"; {_named(learner)} has none: use threads, vmap or loop')
    if name == "threads" and not module:
        raise ValueError(
            f'learning.strategy is "threads"; it runs torch modules, {_named(learner)} is none: use closed-form'
        )
    if name in ("vmap", "loop") and capability(learner, "forward") is None:
        raise ValueError(f'learning.strategy is "{name}"; {_named(learner)} has no forward(...): use closed-form')
    if name == "closed-form":
        ours = ClosedForm(job, math.prod(input_shape) * job.dtype.itemsize, batch, nodes, workers, allowance)
        return ours if is_built_in(learner) else UserGradients(job, batch, ours.chunk, allowance)
    if name == "loop":
        return Loop(job)
    activations = capability(learner, "activations")  # numbers that one sample leaves in the layers
    if activations is None:
        activations = sum(shape[0] for shape in learner.shapes)
    vectorised = Vectorised(job, activations, batch, allowance)
    if name == "threads":
        return Threads(job, workers, vectorised)
    _try(vectorised, job, input_shape)
    return vectorised


def _rule(job: GradientJob, nodes: int) -> StrategyName:
    if capability(job.learner, "gradient") is not None:
        return "closed-form"
    if job.device.type != "cpu":
        return "vmap"
    return "threads" if job.learner.convolutional or nodes < _MIN_NODES else "vmap"


def _try(strategy: Vectorised, job: GradientJob, input_shape: tuple[int, ...]) -> None:
    """One gradient of zeros, so that an error of torch's is raised before the run."""
    x = torch.zeros(2, job.learner.size, dtype=job.dtype, device=job.device)
    shape = (math.prod(input_shape) + 1,) if job.learner.bias_column else input_shape
    features = torch.zeros(2, 2, *shape, dtype=job.dtype, device=job.device)
    labels = torch.zeros(2, 2, dtype=job.dtype if job.regression else torch.int64, device=job.device)
    try:
        strategy.gradient(0, x, Batch(features, labels), torch.empty_like(x))
    except RuntimeError as error:
        words = " ".join(str(error).split())[:160]
        raise ValueError(
            f'learning.strategy is "vmap"; torch cannot vectorise {_named(job.learner)} ({words}): use threads'
        ) from error
    except RAISED as error:
        if is_built_in(job.learner):
            raise
        raise ContractError(f"learning.model: {_named(job.learner)}.forward raised {formatted(error)}") from error


def _named(learner: Any) -> str:
    return capability(learner, "name") or type(learner).__name__.lower()
