"""Gradient strategies: ways to get K clipped gradients, all equal to `loop`.

    closed-form   softmax and MLP: batched matrix products, several nodes at a time in each thread;
                  a user's class with a gradient of its own, which is clipped here
    threads       any module: a copy of it per thread, node by node, one torch thread each
    vmap          any module that torch.func can vectorise: many nodes in one call
    loop          node by node and sample by sample with autograd: the slow twin

`auto` is a fixed rule (`choose`), never a race at the start: which one won could change from run to run.
"""

from wirelessdl.learning.gradients.choice import StrategyName, choose
from wirelessdl.learning.gradients.strategy import Job, Strategy

__all__ = ["Job", "Strategy", "StrategyName", "choose"]
