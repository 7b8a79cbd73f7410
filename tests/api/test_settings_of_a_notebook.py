"""What a notebook has set of torch and NumPy: a run is that of a fresh process all the same, and the settings stay."""

import contextlib
import inspect
import threading
import warnings

import numpy as np
import pytest
import torch
from conftest import command_line
from in_process import quick_table
from interrupting import PATIENCE_S, StopAt, assert_same_tables
from torch import nn

import wirelessdl
from wirelessdl.arrays import USUAL_ERRORS
from wirelessdl.scenario.loader import parse_scenario


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 5), nn.GroupNorm(1, 5), nn.Linear(5, 3)

    def forward(self, x):
        shift = torch.zeros(5)  # of the default type and device
        return self.last(torch.relu(self.norm(self.first(x)) + shift))


@contextlib.contextmanager
def default_type(dtype):
    torch.set_default_dtype(dtype)
    yield
    torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


SETTINGS = {
    "double": lambda: default_type(torch.float64),
    "half": lambda: default_type(torch.bfloat16),
    "meta": lambda: torch.device("meta"),
    "no gradients": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "errors": lambda: np.errstate(all="raise"),
    "warnings": warnings_are_errors,
}


def settings():
    return (
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        np.geterr(),
    )


def interrupted_and_resumed(table, out, **parts):
    """Four rounds, interrupted after the second."""
    stop = StopAt(2)
    part = wirelessdl.simulate(
        parse_scenario(table), out=out, on_round=stop.on_round, should_stop=stop.should_stop, **parts
    )
    assert part.state == "interrupted"
    return wirelessdl.resume(part)


MODELS = {"softmax": ({}, {}), "mlp": ({"model": {"kind": "mlp", "hidden": [4]}}, {}), "own": ({}, {"model": Net})}


@pytest.fixture(scope="module", params=MODELS)
def plain(request, tmp_path_factory):
    """A run of a model in a session that has set nothing, and how to make it."""
    learning, parts = MODELS[request.param]
    table = quick_table(scenario={"rounds": 4}, learning={"eval_every": 2, **learning})
    run = interrupted_and_resumed(table, tmp_path_factory.mktemp("plain"), **parts)
    return table, parts, run, run.learner().accuracy(run.final_models())


@pytest.mark.parametrize("name", SETTINGS)
def test_a_run_and_its_models_are_those_of_a_fresh_process(plain, name, tmp_path):
    table, parts, expected, accuracy = plain
    with SETTINGS[name]():
        before = settings()
        run = interrupted_and_resumed(table, tmp_path, **parts)
        models = run.final_models()
        assert np.array_equal(run.learner().accuracy(models), accuracy)
        assert not any(values.is_inference() or values.is_meta for model in models for values in model.values())
        run.plot("accuracy")
        assert settings() == before
    assert_same_tables(run.path, expected.path)


@pytest.mark.parametrize("line", ["torch.set_autocast_enabled('cpu', True)", "torch.set_grad_enabled(False)"])
def test_what_a_file_of_the_users_sets_ends_before_the_first_round(line, tmp_path):
    body = inspect.getsource(Net)
    tables = []
    for name, first in (("usual", ""), ("set", line)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "net.py").write_text(f"import torch\nfrom torch import nn\n{first}\n\n{body}")
        table = quick_table(scenario={"rounds": 4}, learning={"eval_every": 2, "model": "net.py:Net"})
        before = settings()
        run = wirelessdl.simulate(parse_scenario(table, folder=str(folder)), out=folder)
        assert settings() == before
        tables.append(run.path)
    assert_same_tables(*tables)


class LeavesAutocastOn(Net):
    def forward(self, x):
        torch.set_autocast_enabled("cpu", True)
        return super().forward(x)


@pytest.mark.parametrize("clipping", ["per-sample", "batch"])
def test_a_model_that_leaves_autocast_on_is_refused(clipping):
    """A gradient of one sample had norm 0.0502 where 0.05 was charged for."""
    table = quick_table(privacy={"clipping": clipping, "clip_norm": 0.05})
    before = settings()
    with pytest.raises(wirelessdl.ContractError, match="LeavesAutocastOn turns autocast on and leaves it on"):
        wirelessdl.simulate(parse_scenario(table), out=None, model=LeavesAutocastOn)
    assert settings() == before


@pytest.mark.parametrize("name", SETTINGS)
def test_a_plan_is_that_of_a_fresh_process(name):
    words = ("plan", "quickstart", "--json")
    expected = command_line(*words)
    assert expected.code == 0
    with SETTINGS[name](), np.errstate(**USUAL_ERRORS):  # a command is for a process of its own
        assert command_line(*words) == expected


def test_runs_in_two_threads_that_end_in_the_order_they_began():
    second_has_begun, ended = threading.Event(), []

    def run(name, on_round):
        run = wirelessdl.simulate(parse_scenario(quick_table(scenario={"rounds": 1})), out=None, on_round=on_round)
        ended.append((name, len(run.rounds)))

    first = threading.Thread(target=run, args=("first", lambda _: second_has_begun.wait(PATIENCE_S)))
    seen = []

    def second_round(_):
        second_has_begun.set()
        first.join(PATIENCE_S)
        seen.append(torch.get_default_dtype())

    second = threading.Thread(target=run, args=("second", second_round))
    with default_type(torch.float64):
        first.start()
        second.start()
        first.join(PATIENCE_S)
        second.join(PATIENCE_S)
        assert torch.get_default_dtype() == torch.float64
    assert ended == [("first", 1), ("second", 1)]
    assert seen == [torch.float32]


def test_settings_are_as_they_were_after_a_run_that_fails():
    def fail(_):
        raise ValueError("enough")

    with torch.inference_mode(), default_type(torch.float64), np.errstate(all="raise"):
        before = settings()
        with pytest.raises(ValueError, match="enough"):
            wirelessdl.simulate(parse_scenario(quick_table()), out=None, on_round=fail)
        assert settings() == before


def test_a_working_folder_that_is_gone_holds_nothing_that_a_run_in_memory_needs(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    with contextlib.chdir(gone):
        gone.rmdir()
        run = wirelessdl.simulate(parse_scenario(quick_table(scenario={"rounds": 2})), out=None)
        assert len(run.rounds) == 2
