"""Whole rounds on a device that computes nothing: no two devices in one operation, no value read back, no loop.

Torch's fake tensors stand for an accelerator. "lazy" is a type of device that every build of torch knows and through
which it differentiates; fake "cuda" tensors abort the process there. An operation on two devices raises, and so does
whatever asks for a value: `float(tensor)`, a branch on a tensor, `.numpy()`.

What a device really computes: `pytest --device cuda tests/learning` compares traces with those of the CPU.
"""

from collections import Counter
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from conftest import mostly_slow, tiny_table
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode

from wirelessdl import mixing
from wirelessdl.learning import engine as engine_module
from wirelessdl.learning import runtime
from wirelessdl.learning.models.module import ModuleLearner
from wirelessdl.run import build_learning
from wirelessdl.run.build import build
from wirelessdl.run.session import simulate
from wirelessdl.run.wiring import make_engine, run_rounds
from wirelessdl.scenario.loader import parse_scenario

DEVICE = torch.device("lazy", 0)
OWN = {"power": {"objective": "own-noise"}}
PAIRS = {"noise": "pairwise", "coalition": 1, "pair_ratio": 1.5}
FEATURES = {"kind": "synthetic", "features": 6, "samples": 20_003, "test_samples": 20}  # shared unevenly
BATCH = {"clipping": "batch", "epsilon_max": 50.0}
IMAGES = {"dataset": {"kind": "file", "path": "images.npz"}}
NET = """
from torch import nn

class Net(nn.Module):
    def __init__(self, classes: int):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 3, 5, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(27, classes))
    def forward(self, images):
        return self.net(images)
"""
CASES = {
    "softmax": {},
    "MLP": {"learning": {"model": {"model": "mlp", "hidden": [5]}}},
    "CNN": {"learning": {**IMAGES, "model": "cnn"}},
    "CNN, batch clipping": {"learning": {**IMAGES, "model": "cnn"}, "privacy": BATCH},
    "CNN, augmented": {"learning": {**IMAGES, "model": "cnn", "augment": "flip-crop"}},
    "ResNet-20": {"learning": {**IMAGES, "model": "resnet20"}},
    "a user's module": {"learning": {**IMAGES, "model": "net.py:Net"}},
    "batch clipping": {"privacy": BATCH},
    "poisson": {"learning": {"sampling": "poisson"}},
    "full batches": {"learning": {"sampling": "full"}},
    "shuffled": {"learning": {"sampling": "shuffled"}},
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
    "turns": {**OWN, "radio": {"alignment": "turns", "mixing_passes": 1, "thermal_noise": True}},
    "hubs of antennas": {
        **OWN,
        "network": {"topology": "full"},
        "radio": {"alignment": "hubs", "antennas": 4, "thermal_noise": True},
    },
    "server": {
        **OWN,
        "network": {"topology": "full", "server": {"at": "center", "antennas": 4}},
        "radio": {"alignment": "server", "thermal_noise": True},
    },
    "nobody aligns": {
        **OWN,
        "radio": {"alignment": "none", "antennas": 4, "mixing_passes": 1, "thermal_noise": True},
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


def scenario_table(nodes, rounds=4, **sections):
    table = tiny_table(scenario={"rounds": rounds}, network={"nodes": nodes, "topology": "ring"})
    for section, keys in {"learning": {"dataset": FEATURES, "eval_every": 2}, **sections}.items():
        table[section] = {**table.get(section, {}), **({"dataset": FEATURES} if section == "learning" else {}), **keys}
    return table


def really(make):
    """What makes a learner, with numbers in its tensors."""

    def made(*given):
        with unset_fake_temporarily():
            return make(*given)

    return made


@pytest.fixture
def files(monkeypatch, tmp_path):
    """A module and images of the user's in the working folder."""
    (tmp_path / "net.py").write_text(NET)
    pixels, labels = np.random.default_rng(0).integers(0, 256, (8000, 16, 16), np.uint8), np.arange(8000) % 4
    np.savez(tmp_path / "images.npz", train_x=pixels, train_y=labels, test_x=pixels[:20], test_y=labels[:20])
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def fake(monkeypatch, files):  # noqa: ARG001
    """The learning engine on a device that does not exist."""
    monkeypatch.setattr(engine_module, "pick_device", lambda _: DEVICE)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)  # asks for a device that exists
    monkeypatch.setattr(build_learning, "_learner", really(build_learning._learner))
    monkeypatch.setattr(ModuleLearner, "prepare", lambda *_: None)  # it swaps parameters, which every call replaces
    monkeypatch.setattr(
        engine_module, "LearnerTrials", lambda *_: Mock()
    )  # before a run: they compare numbers, which are not there
    monkeypatch.setattr(mixing, "is_sparse", lambda *_: False)  # fake tensors know no sparse ones
    monkeypatch.setattr(runtime, "free_bytes", lambda: 2**60)  # nothing is allocated


def operators(nodes, *, at_once=None, rows=None, **sections):
    """Operations of every round by name, calls of gradients in a round, and pieces of nodes on the air."""
    counted = []
    with FakeTensorMode(allow_non_fake_inputs=True):
        world = build(parse_scenario(scenario_table(nodes, **sections)), device="cpu")
        engine = world.learning
        engine.strategy.chunk, engine.exchange.rows = (
            at_once or engine.strategy.chunk,
            rows or engine.exchange.rows,
        )
        inner = engine.round

        def watched(given):
            with Operators() as seen:
                result = inner(given)
            counted.append(seen.count)
            return result

        engine.round = watched
        run_rounds(world, make_engine(world))
    return counted, engine.gradient_calls, -(-nodes // engine.exchange.rows)


QUICK = ("softmax", "pairs of neighbours", "passes", "digital")


@pytest.mark.parametrize("name", mostly_slow(CASES, *QUICK, "CNN", "a user's module", "poisson"))
@pytest.mark.usefixtures("fake")
def test_rounds_stay_on_the_device(name):
    assert len(operators(4, **CASES[name])[0]) == 4


SIZES = [
    pytest.param(name, nodes, marks=() if name in QUICK and nodes == 60 else pytest.mark.slow)
    for name in CASES
    # ResNet-20: calls of seven nodes, each of many operations; all pairs of 1,000 take one copy more; turns, of which a
    # ring of 10 takes more than one of 60, are sent one after another
    for nodes in {"ResNet-20": (20,), "pairs of all": (60,), "hubs of antennas": (60,), "turns": ()}.get(
        name, (60, 1000)
    )
]


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(("name", "nodes"), SIZES)
def test_many_nodes_take_as_many_operations_as_few_but_for_what_memory_holds_at_once(name, nodes):
    """`check` names the number of calls of gradients; pieces on the air are of 2^26 numbers.

    Rounds 2 and 4 are evaluated. Memory cuts that too: in a network of 60, one piece for small models.
    """
    (_, few_evaluated, few, _), *once = operators(10, at_once=10, rows=10, **CASES[name])
    (_, evaluated, many, _), calls, pieces = operators(nodes, **CASES[name])
    assert once == [1, 1]
    if nodes == 60 and calls == 1:
        assert evaluated == few_evaluated
    assert max(calls, pieces) <= nodes / 5
    expected = few.copy()
    for count, cut in ((calls, {"at_once": 5}), (pieces, {"rows": 5})):
        if count > 1:
            (*_, twice, _), *_ = operators(10, **cut, **CASES[name])
            expected.update({operator: (count - 1) * (twice[operator] - few[operator]) for operator in twice})
    assert many == expected


@pytest.mark.parametrize("name", ["hubs of antennas", "server", "nobody aligns"])
@pytest.mark.usefixtures("fake")
def test_many_antennas_take_as_many_operations_as_one(name):
    network, radio = CASES[name].get("network", {}), CASES[name]["radio"]
    found = []
    for count in (1, 16):
        server = {"server": {"at": "center", "antennas": count}} if "server" in network else {}
        antennas = {} if server else {"antennas": count}
        sections = {**CASES[name], "network": {**network, **server}, "radio": {**radio, **antennas}}
        found.append(operators(6, **sections))
    assert found[0] == found[1]


def test_a_value_that_is_read_back_would_be_noticed():
    with FakeTensorMode(), pytest.raises(DataDependentOutputException):
        float(torch.zeros(3, device=DEVICE).sum())
    with FakeTensorMode(), pytest.raises(RuntimeError, match="same device"):
        torch.zeros(3, device=DEVICE) + torch.zeros(3)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("name", CASES)
def test_traces_are_those_of_the_cpu(name, device):
    """Single precision over three rounds; a message may be rounded to the next of its 2^8 levels, a score may tie."""
    if device == "cpu" and name != "softmax":
        pytest.skip("compares another device with the CPU: pytest --device cuda")
    runs = [
        simulate(parse_scenario(scenario_table(6, **CASES[name])), out=where, device=where) for where in ("cpu", device)
    ]
    for table in ("rounds", "nodes"):
        here, there = (getattr(run, table).select_dtypes("number") for run in runs)
        assert list(here) == list(there)
        for column in here:
            loose = 0.15 if "accuracy" in column else 1e-2 if name == "digital" else 1e-3
            np.testing.assert_allclose(there[column], here[column], rtol=loose, atol=loose, err_msg=column)
