"""Commands load the libraries they use and no others, each in a process of its own."""

import json
import os
import subprocess
import sys
from importlib import import_module

import pytest
from conftest import tiny

import wirelessdl
from wirelessdl.cli.list import _described, _of_class, _of_source
from wirelessdl.learning.features import FEATURES
from wirelessdl.learning.models import MODELS

HARNESS = """
import atexit, json, sys
atexit.register(lambda: open(sys.argv.pop(), "w").write(json.dumps(sorted(sys.modules))))
loaded, sys.argv = sys.argv.pop(1), ["wirelessdl", *sys.argv[1:]]
from wirelessdl.cli.main import main
try:
    main()
finally:
    sys.argv.append(loaded)
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two short runs, side by side."""
    learning = {"dataset": {"kind": "synthetic", "features": 6, "samples": 80, "classes": 3}, "batch_size": 4}
    out = tmp_path_factory.mktemp("runs")
    return [
        wirelessdl.simulate(tiny(learning=learning, scenario={"rounds": 2, "run": n, "name": "tiny"}), out=out).path
        for n in (1, 2)
    ]


def modules_of(folder, *arguments):
    """What a command had loaded when its process ended."""
    loaded = folder / "modules.json"
    done = subprocess.run(
        [sys.executable, "-c", HARNESS, str(loaded), *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(loaded.read_text()))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["list"],
        ["list", "--json"],
        ["check", "--help"],
        ["run", "--help"],
        ["list", "RUNS"],
        ["compare", "RUN", "OTHER"],
        ["plot", "RUN", "--figure", "accuracy"],
        ["report", "RUN", "--out", "report.html"],
        ["verify", "RUN"],
        ["sweep", "--help"],
        ["reproduce", "--help"],
    ],
    ids=" ".join,
)
def test_commands_that_train_nothing_load_no_torch(arguments, runs, tmp_path):
    names = {"RUN": str(runs[0]), "OTHER": str(runs[1]), "RUNS": str(runs[0].parent)}
    loaded = modules_of(tmp_path, *(names.get(argument, argument) for argument in arguments))
    assert "wirelessdl.cli.main" in loaded
    assert not loaded & {"torch", "torchvision", "dask", "distributed"}
    if "--help" in arguments:
        assert not loaded & {"numpy", "scipy", "pandas", "pyarrow", "pydantic"}
    if arguments[0] == "list" and "RUNS" not in arguments:
        assert not loaded & {"scipy.special", "scipy.optimize", "scipy.sparse", "pandas", "matplotlib"}


def test_a_run_loads_neither_pandas_nor_figures_nor_statistics(tmp_path):
    loaded = modules_of(tmp_path, "run", "quickstart", "--rounds", "2")
    assert {"torch", "pyarrow.parquet", "simpy"} <= loaded
    unused = {"pandas", "matplotlib", "plotly", "scipy.stats", "scipy.signal", "networkx", "torchvision"}
    assert not loaded & (unused | {"dp_accounting", "torch.utils.flop_counter", "dask"})


def test_models_and_features_are_listed_from_their_source_as_from_their_classes():
    assert list(MODELS) == ["softmax", "logistic", "ridge", "mlp", "cnn", "resnet20"]
    for module, title in [*MODELS.homes.values(), *FEATURES.homes.values()]:
        found = getattr(import_module(module), title)
        (summary, parameters), (same, others) = _of_source(module, title), _of_class(found)
        assert summary == same
        assert [(one.name, one.default) for one in parameters] == [(one.name, one.default) for one in others]
    assert _described(MODELS, "ridge", ()) == "Linear regression with an L2 penalty. [dim]features, penalty = 0.01[/]"
