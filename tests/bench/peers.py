"""Other simulators of learning in networks, where they are installed (extra `bench`): a round of softmax.

Neither has a radio, DP noise or a privacy account, and neither averages over all neighbours: gossipy sends
each model to one of them, fluke to one server. They do less per round than we do, and are measured as they are.
"""

import contextlib
import io
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from bench.naive import per_channel
from wirelessdl.learning.batch import shared_tensor
from wirelessdl.learning.data import Dataset
from wirelessdl.learning.data.fetch import import_torchvision


def gossipy_round(data: Dataset, nodes: int, batch: int) -> Callable[[], None]:
    """Every node pushes its model to one other, which averages it in and takes one step."""
    import_torchvision()
    from gossipy import LOG
    from gossipy.core import AntiEntropyProtocol, CreateModelMode, StaticP2PNetwork
    from gossipy.data import DataDispatcher
    from gossipy.data.handler import ClassificationDataHandler
    from gossipy.model import TorchModel
    from gossipy.model.handler import TorchModelHandler
    from gossipy.node import GossipNode
    from gossipy.simul import GossipSimulator

    LOG.setLevel(logging.ERROR)

    class Linear(TorchModel):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(data.features, data.classes)

        def init_weights(self) -> None:
            pass

        def forward(self, features: torch.Tensor) -> Any:
            return self.layer(features)

    images, labels = _floats(data)
    test = images[:10], labels[:10]
    dispatcher = DataDispatcher(ClassificationDataHandler(images, labels, *test), n=nodes, eval_on_user=False)
    handler = TorchModelHandler(
        net=Linear(),
        optimizer=torch.optim.SGD,
        optimizer_params={"lr": 0.02},
        criterion=nn.CrossEntropyLoss(),
        local_epochs=0,
        batch_size=batch,
        create_model_mode=CreateModelMode.MERGE_UPDATE,
    )
    members = GossipNode.generate(dispatcher, StaticP2PNetwork(nodes), handler, round_len=10, sync=True)
    simulator = GossipSimulator(
        members, dispatcher, delta=10, protocol=AntiEntropyProtocol.PUSH, sampling_eval=1.0 / nodes
    )
    simulator.init_nodes(seed=1)

    def run() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            simulator.start(n_rounds=1)

    return run


def fluke_round(data: Dataset, nodes: int, batch: int) -> Callable[[], None]:
    """Federated averaging: every client takes one step, the server averages."""
    import_torchvision()
    from fluke.client import Client
    from fluke.config import OptimizerConfigurator
    from fluke.data import FastDataLoader
    from fluke.server import Server

    images, labels = _floats(data)

    def loader(part: slice) -> Any:
        return FastDataLoader(images[part], labels[part], num_labels=10, batch_size=batch, single_batch=True)

    model = nn.Linear(data.features, data.classes)
    size = len(images) // nodes
    clients = [
        Client(
            node,
            loader(slice(node * size, (node + 1) * size)),
            None,
            OptimizerConfigurator({"name": torch.optim.SGD, "lr": 0.02}),
            nn.CrossEntropyLoss(),
            local_epochs=1,
            clipping=1.0,
        )
        for node in range(nodes)
    ]
    server = Server(model, None, clients)
    for client in clients:
        client.set_channel(server.channel)

    def run() -> None:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            server.fit(n_rounds=1, eligible_perc=1.0, finalize=False)

    return run


def _floats(data: Dataset) -> tuple[torch.Tensor, torch.Tensor]:
    images = shared_tensor(data.train_x).float() / data.scale
    images = (images - per_channel(data.mean)) / per_channel(data.deviation)
    return images.flatten(1), shared_tensor(np.asarray(data.train_y))
