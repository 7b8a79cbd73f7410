"""Whole rounds on a device that computes nothing: no two devices in one operation, no value read back, no loop.

Torch's fake tensors stand for an accelerator ("lazy" is a type of device that every build of torch knows). An operation
on two devices raises there, and so does whatever asks for a value: `float(tensor)`, a branch on a tensor, `.numpy()`.
What a device really computes is not tested here; `pytest --device cuda` runs the learning suite on one.
"""

from collections import Counter

import pytest
import torch
from conftest import tiny_table
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from wirelessdl.learning import engine as engine_module
from wirelessdl.run.build import build
from wirelessdl.run.wiring import make_engine, run_rounds
from wirelessdl.scenario.loader import parse_scenario

DEVICE = torch.device("lazy", 0)
OWN = {"power": {"objective": "own-noise"}}
PAIRS = {"noise": "pairwise", "coalition": 1, "pair_ratio": 1.5}
FEATURES = {"kind": "synthetic", "features": 6, "samples": 6000, "test_samples": 20}
CASES = {
    "softmax": {},
    "MLP": {"learning": {"model": {"model": "mlp", "hidden": [5]}}},
    "batch clipping": {"privacy": {"clipping": "batch", "epsilon_max": 50.0}},
    "poisson": {"learning": {"sampling": "poisson"}},
    "full batches": {"learning": {"sampling": "full"}},
    "pairs of all": {**OWN, "privacy": PAIRS},
    "pairs of groups": {**OWN, "privacy": {**PAIRS, "pairs": {"groups": 2}}},
    "pairs of neighbours": {**OWN, "privacy": {**PAIRS, "pairs": "neighbours"}},
    "passes": {**OWN, "radio": {"mixing_passes": 3}},
    "digital": {**OWN, "radio": {"access": "digital"}},
    "tdma": {**OWN, "radio": {"access": "tdma"}},
    "phases": {"radio": {"phase_error_rad": 0.1}},
    "hubs": {
        **OWN,
        "network": {"topology": "full"},
        "radio": {"alignment": "hubs", "thermal_noise": True, "csi": {"kind": "pilots", "symbols": 4}},
    },
    "hubs, pairs": {
        **OWN,
        "network": {"topology": "full"},
        "radio": {"alignment": "hubs", "mixing_passes": 1, "hub_failure": 0.2, "phase_error_rad": 0.1},
        "privacy": PAIRS,
    },
}


ALLOCATIONS = ("aten.empty.memory_format", "aten.new_empty.default", "aten.ones.default")  # buffers that grow


class Operators(TorchDispatchMode):
    """Counts operations but for views and questions, which cost nothing on a device."""

    def __init__(self):
        super().__init__()
        self.count = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace == "aten" and not function.is_view and str(function) not in ALLOCATIONS:
            self.count[str(function)] += 1
        return function(*args, **(kwargs or {}))


def operators(monkeypatch, nodes, rounds=3, **sections):
    """Operations of every round, as counts by name."""
    table = tiny_table(scenario={"rounds": rounds}, network={"nodes": nodes, "topology": "ring"})
    for section, keys in {"learning": {"dataset": FEATURES, "eval_every": 2}, **sections}.items():
        table[section] = {**table.get(section, {}), **({"dataset": FEATURES} if section == "learning" else {}), **keys}
    monkeypatch.setattr(engine_module, "pick_device", lambda _: DEVICE)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)  # asks for a device that exists
    counted = []
    with FakeTensorMode(allow_non_fake_inputs=True):
        world = build(parse_scenario(table), device="cpu")
        inner = world.learning.round

        def watched(given):
            with Operators() as seen:
                result = inner(given)
            counted.append(seen.count)
            return result

        world.learning.round = watched
        run_rounds(world, make_engine(world))
    return counted


@pytest.mark.parametrize("name", CASES)
def test_rounds_stay_on_the_device(name, monkeypatch):
    assert len(operators(monkeypatch, 4, **CASES[name])) == 3


@pytest.mark.parametrize("name", CASES)
def test_as_many_operations_for_many_nodes_as_for_few(name, monkeypatch):
    few, many = (operators(monkeypatch, nodes, **CASES[name])[1] for nodes in (10, 60))
    assert many == few


def test_a_value_that_is_read_back_would_be_noticed():
    with FakeTensorMode(), pytest.raises(DataDependentOutputException):
        float(torch.zeros(3, device=DEVICE).sum())
    with FakeTensorMode(), pytest.raises(RuntimeError, match="same device"):
        torch.zeros(3, device=DEVICE) + torch.zeros(3)
