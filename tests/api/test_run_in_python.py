"""A run as Python holds it: in memory, its models, its figures, its numbers."""

import dataclasses
import inspect
import json
import math
import os
import re
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
import torch
from in_process import quick_table
from interrupting import StopAt

import wirelessdl
from wirelessdl import TraceError
from wirelessdl.analysis.figures import CURVES, SINGLE
from wirelessdl.analysis.verify import verify
from wirelessdl.run.build import build
from wirelessdl.run.session import RunOptions
from wirelessdl.run.wiring import make_engine, make_recorder
from wirelessdl.scenario.loader import parse_scenario


def scenario(**sections):
    return parse_scenario(quick_table(**sections))


@pytest.fixture(scope="module")
def run():
    """45 rounds with checkpoints after 20, 40 and 45."""
    table = {"scenario": {"rounds": 45}, "trace": {"checkpoint_every": 20, "flush_every": 20}}
    return wirelessdl.simulate(scenario(**table, learning={"eval_every": 15}), out=None)


def test_a_run_in_memory_has_all_tables_and_goes_away_with_the_object():
    run = wirelessdl.simulate(scenario(), out=None)
    path = run.path
    assert path.is_dir()
    for name in ("rounds", "nodes", "links", "clients", "events", "privacy"):
        assert len(getattr(run, name)), name
    assert not verify(path).problems
    then = run.up_to(len(run.rounds))
    del run
    assert len(then.rounds) >= 0  # whoever still refers to it keeps it
    del then
    assert not path.parent.exists()


def test_a_run_in_memory_that_fails_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(wirelessdl.WirelessdlError):
        wirelessdl.simulate(scenario(learning={"batch_size": 10_000}), out=None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        *(
            (given, "out must be a folder, or None for a run in memory")
            for given in ({"out": 3}, *({"name": name} for name in ("../x", "..", ".", "a\0b", 3)))
        ),
        ({"out": "a\0b"}, "no file has such a name"),
        ({"log": None}, "log is None; must be a text"),
        ({"device": None}, "device is None; must be a text"),
        ({"overrides": 3}, "overrides is 3; must be values by key"),
    ],
)
def test_an_argument_of_another_type_is_one_line(given, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(wirelessdl.WirelessdlError, match=message):
        wirelessdl.simulate(scenario(), **{"out": None, **given})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rounds", ["x", 3, (1,), (1, "x"), (1, 2, 3)])
def test_rounds_that_are_no_range_are_one_line(rounds, run):
    with pytest.raises(TraceError, match="must be the first and the last"):
        run.frame("rounds", rounds=rounds)


def test_final_models_are_what_nodes_hold_of_what_was_sent(run):
    """The engine by hand: s of the last round, never x."""
    world = build(scenario(scenario={"rounds": 45}, learning={"eval_every": 15}), device="cpu")
    engine = make_engine(world, make_recorder(world))
    world.simulation.run(45, engine, engine.node_state)
    held, own = world.learning.mixed(), world.learning.x.numpy()
    assert np.abs(held - own).max() > 1e-3
    models = run.final_models()
    found = np.array([np.column_stack([model["weight"], model["bias"]]).ravel() for model in models])
    np.testing.assert_array_equal(found, held)


def test_models_evaluated_again_have_the_accuracy_of_the_run(run):
    learner, models = run.learner(), run.final_models()
    last = run.nodes[run.nodes["round"] == 45]["accuracy"]
    np.testing.assert_allclose(learner.accuracy(models), last, rtol=1e-6)
    assert learner.accuracy(models[2]).shape == (1,)
    linear = torch.nn.Linear(6, 3)
    linear.load_state_dict(models[0])  # names and shapes of torch
    right = (linear(torch.as_tensor(learner.data.test_x)).argmax(1).numpy() == learner.data.test_y).mean()
    assert right == pytest.approx(last.iloc[0], abs=1e-6)
    scores = learner.scores(models, learner.data.test_x[:5])
    np.testing.assert_allclose(scores[0], linear(torch.as_tensor(learner.data.test_x[:5])).detach(), rtol=1e-4)


def test_models_of_a_perceptron_fit_a_sequential_of_torch():
    run = wirelessdl.simulate(scenario(learning={"model": {"model": "mlp", "hidden": [5]}}), out=None)
    net = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    net.load_state_dict(run.final_models()[1])
    learner = run.learner()
    scores = learner.scores(run.final_models()[1], learner.data.test_x)[0]
    np.testing.assert_allclose(scores, net(torch.as_tensor(learner.data.test_x)).detach(), rtol=1e-4, atol=1e-6)


def test_models_of_earlier_rounds_are_there_where_checkpoints_hold_them(run):
    assert run.models(40)[0]["weight"].shape == (3, 6)
    assert not torch.equal(run.models(40)[0]["weight"], run.models(45)[0]["weight"])
    with pytest.raises(TraceError, match=r"no checkpoint of round 20; there are: 40, 45"):
        run.models(20)


def test_nodes_that_come_and_go_show_what_they_hold_too():
    """Such runs keep s for themselves in a checkpoint; it is not stored twice."""
    crashes = {"crashes": {"kind": "exponential", "up_s": 0.05, "down_s": 0.01}}
    run = wirelessdl.simulate(scenario(scenario={"rounds": 20}, faults=crashes), out=None)
    with np.load(run.path / "checkpoint" / "round-000020.npz") as kept:
        names = set(kept.files)
        held = kept["mixed"]
    assert "released" not in names
    found = np.column_stack([run.final_models()[0]["weight"], run.final_models()[0]["bias"]]).ravel()
    np.testing.assert_array_equal(found, held[0])


@pytest.mark.parametrize("network", [{"nodes": 1}, {"nodes": 4, "topology": "none"}])
def test_where_nothing_is_sent_there_is_no_release(network):
    run = wirelessdl.simulate(scenario(network=network), out=None)
    with pytest.raises(TraceError, match="nothing is sent in this run, so there is no private release"):
        run.final_models()


def test_models_that_do_not_fit_are_refused_in_one_line(run):
    learner = run.learner()
    with pytest.raises(TraceError, match=r"a model has no bias; its names must be weight, bias"):
        learner.accuracy({"weight": torch.zeros(3, 6)})
    with pytest.raises(TraceError, match=r"weight of a model has shape \(6, 3\), expected \(3, 6\)"):
        learner.accuracy({"weight": torch.zeros(6, 3), "bias": torch.zeros(3)})
    with pytest.raises(TraceError, match=r"samples have shape \(5, 7\); must be \[N, 6\]"):
        learner.scores(run.final_models(), np.zeros((5, 7)))
    with pytest.raises(TraceError, match=r"learning.model is softmax, which is no torch module"):
        learner.module(run.final_models()[0])


def test_a_run_that_is_stopped_is_returned():
    stop = StopAt(3)
    run = wirelessdl.simulate(
        scenario(scenario={"rounds": 9}), out=None, on_round=stop.on_round, should_stop=stop.should_stop
    )
    assert run.state == "interrupted"
    assert len(run.rounds) == 3
    assert run.summary == {}
    with pytest.raises(TraceError, match=r"is interrupted, not done; models\(round\) has those of its checkpoints: 3"):
        run.final_models()
    assert len(run.models(3)) == 4
    assert "interrupted, round 3 of 9" in run._repr_html_()
    assert wirelessdl.resume(run).state == "done"
    assert run.state == "done"


# large enough for two threads; tables are written before the run ends
WIDE = {"learning": {"model": {"model": "mlp", "hidden": [14_000]}}, "trace": {"flush_every": 20}}


def in_two_threads(code, tmp_path):
    """What a script prints whose torch has two threads."""
    (tmp_path / "script.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_run_leaves_no_threads_however_it_ends(tmp_path):
    """Of the engine's, which takes whole nodes."""
    code = f"""
import threading, wirelessdl
from wirelessdl.scenario.loader import parse_scenario
most = []

def on_round(round):
    most.append(threading.active_count())

def fails(round):
    on_round(round)
    if round == 21:
        raise KeyError("mine")

scenario = parse_scenario({quick_table(scenario={"rounds": 21}, **WIDE)!r})
run = wirelessdl.simulate(scenario, out=None, on_round=on_round)
print(max(most) > 1, threading.active_count())
run.learner().accuracy(run.final_models())
print(threading.active_count())
most.clear()
try:
    wirelessdl.simulate(scenario, out=None, on_round=fails)
except KeyError:
    print(max(most) > 1, threading.active_count())
"""
    assert in_two_threads(code, tmp_path) == "True 1\n1\nTrue 1\n"


def test_a_process_that_is_forked_after_a_run_can_run_and_use_torch(tmp_path):
    """OpenMP's threads do not survive a fork: it waited for them forever."""
    code = f"""
import multiprocessing, torch, wirelessdl
from wirelessdl.scenario.loader import parse_scenario
scenario = parse_scenario({quick_table(**WIDE)!r})

def forked():
    matrix = torch.ones(2000, 2000)
    assert (matrix @ matrix)[0, 0] == 2000
    print(wirelessdl.simulate(scenario, out=None).provenance["threads"], flush=True)

if __name__ == "__main__":
    print(wirelessdl.simulate(scenario, out=None).provenance["threads"], flush=True)
    torch.ones(2000, 2000) @ torch.ones(2000, 2000)
    child = multiprocessing.get_context("fork").Process(target=forked)
    child.start()
    child.join(120)
    print(child.exitcode, torch.get_num_threads())
    child.kill()
"""
    assert in_two_threads(code, tmp_path) == "2\n1\n0 2\n"


@pytest.mark.parametrize("figure", [*CURVES, *SINGLE])
def test_every_figure_comes_as_axes(run, figure):
    axes = run.plot(figure)
    assert isinstance(axes, matplotlib.axes.Axes)
    assert axes.figure.axes[0] is axes
    matplotlib.pyplot.close(axes.figure)


def test_a_figure_has_the_numbers_of_the_run(run):
    axes = run.plot("accuracy", against="time")
    (line,) = axes.get_lines()
    np.testing.assert_array_equal(line.get_ydata(), run.evaluated["accuracy_mean"])
    np.testing.assert_array_equal(line.get_xdata(), run.evaluated["time_s"])
    matplotlib.pyplot.close(axes.figure)
    with pytest.raises(TraceError, match="no figure acuracy; did you mean accuracy"):
        run.plot("acuracy")


def test_a_notebook_shows_headline_and_a_small_figure(run):
    before = matplotlib.pyplot.get_fignums()
    shown = run._repr_html_()
    assert "<b>tiny</b>: done, round 45 of 45" in shown
    assert f"test accuracy {run.summary['accuracy_mean']:.1%}" in shown
    assert f"epsilon {run.summary['epsilon_total']:.3g} for one sample (replace-one), against all other nodes" in shown
    assert shown.count("<svg") == shown.count("</svg>") == 1
    assert str(run.path) not in shown  # in memory: its folder is nobody's business
    assert len(shown) < 40_000
    assert matplotlib.pyplot.get_fignums() == before


def test_infinity_is_a_number_in_the_summary():
    run = wirelessdl.simulate(scenario(privacy={"epsilon_max": math.inf}), out=None)
    assert run.summary["epsilon_total"] == math.inf
    text = (run.path / "summary.json").read_text()
    assert re.search(r'"epsilon_total": 1e999,', text)
    assert json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))["epsilon_total"] == math.inf
    assert not verify(run.path).problems
    assert "epsilon inf" in run._repr_html_()


def test_errors_are_at_the_top_level():
    from wirelessdl import errors

    known = [n for n, v in vars(errors).items() if isinstance(v, type) and issubclass(v, errors.WirelessdlError)]
    assert all(getattr(wirelessdl, name) is getattr(errors, name) for name in known)


def test_the_top_level_stays_lazy():
    code = (
        "import sys, wirelessdl; dir(wirelessdl); wirelessdl.ScenarioError; wirelessdl.load_scenario('quickstart', "
        "overrides={'privacy.epsilon_max': 2}); wirelessdl.simulate; wirelessdl.sweep; wirelessdl.open_run; "
        "print(sorted({'torch', 'matplotlib', 'pandas', 'simpy', 'distributed'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_option_of_a_run_can_be_given_from_python():
    options = [field.name for field in dataclasses.fields(RunOptions)]
    for function in (wirelessdl.simulate, wirelessdl.resume):
        given = inspect.signature(function).parameters
        assert [name for name in given if name in options] == options
        assert all(given[field.name].default == field.default for field in dataclasses.fields(RunOptions))
