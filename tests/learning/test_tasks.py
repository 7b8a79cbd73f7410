"""Learning tasks whose answer is known, images that move, modules that remember, and when to stop."""

import json

import numpy as np
import pytest
import tomli_w
import torch
from conftest import over, tiny, tiny_table
from scipy.optimize import minimize

import wirelessdl
from wirelessdl.errors import ScenarioError, TraceError
from wirelessdl.learning.models import layers
from wirelessdl.learning.models.closed_form import Ridge
from wirelessdl.mixing import perron_vector
from wirelessdl.preview.plan import preview_plan
from wirelessdl.run.build import build
from wirelessdl.run.session import simulate
from wirelessdl.run.summary import Plateau
from wirelessdl.scenario.loader import load_scenario, parse_scenario
from wirelessdl.trace.checkpoint import load_checkpoint

SKEWED = """
import numpy as np
class BySize:
    '''Nodes hold samples of rising labels: their optima lie far apart.'''
    def split(self, labels, nodes, rng):
        return np.array_split(np.argsort(labels, kind="stable"), nodes)
"""


# --- gradients


@pytest.mark.parametrize("clipping", ["per-sample", "batch"])
@pytest.mark.parametrize("padded", [False, True])
def test_ridge_gradients_equal_a_loop_over_samples(clipping, padded):
    rng = np.random.default_rng(0)
    x, a, y = (
        torch.as_tensor(rng.normal(size=(3, 6))),
        torch.as_tensor(rng.normal(size=(3, 5, 6))),
        rng.normal(size=(3, 5)),
    )
    weight = torch.as_tensor(rng.uniform(0.1, 0.4, (3, 5))) if padded else None
    learner = Ridge(5, penalty=0.3)
    gradient, loss = learner.gradient(x, a, torch.as_tensor(y), clipping, 0.7, weight)
    for node in range(3):
        total, losses = np.zeros(6), []
        each = np.full(5, 0.2) if weight is None else weight[node].numpy()
        for b in range(5):
            error = float(a[node, b] @ x[node]) - y[node, b]
            g = error * a[node, b].numpy()
            if clipping == "per-sample":
                g = g * min(1.0, 0.7 / np.linalg.norm(g))
            total += each[b] * g
            losses.append(error**2 / 2)
        if clipping == "batch":
            total *= min(1.0, 0.7 / np.linalg.norm(total))
        np.testing.assert_allclose(gradient[node], total, rtol=1e-12)
        expected = np.average(losses, weights=each) + 0.15 * float(x[node] @ x[node])
        assert float(loss[node]) == pytest.approx(expected)


# --- known optima


def ridge_scenario(tmp_path, **sections):
    (tmp_path / "skewed.py").write_text(SKEWED)
    base = {
        "scenario": {"rounds": 1500, "seed": 5},
        "network": {"nodes": 4},
        "channel": {"models": [{"model": "matrix", "loss_db": [[0.0, 15.0, 15.0, 15.0]] * 4}]},  # node 0 is loud
        "privacy": {"epsilon_max": float("inf"), "clip_norm": 100.0, "rho": 1.0},
        "power": {"balance": False, "multiplier": "mean"},
        "learning": {
            "dataset": {"kind": "synthetic-regression", "features": 4, "samples": 400, "noise": 0.5},
            "model": {"model": "ridge", "penalty": 0.1},
            "partition": {"kind": "skewed.py:BySize"},
            "sampling": "full",
            "batch_size": 100,
            "learning_rate": {"kind": "inverse", "initial": 0.5},
            "dtype": "float64",
            "regret": True,
            "eval_every": 1500,
        },
        "trace": {"links": "none"},
    }
    return parse_scenario(tiny_table(**over(base, sections)), folder=str(tmp_path))


def quadratics(world):
    """H_i and b_i of every node, written out."""
    data, penalty = world.data, world.learning.learner.penalty
    parts = []
    for client in world.client_indices:
        a = np.hstack([data.normalised(data.train_x[client]), np.ones((len(client), 1))])
        parts.append((a.T @ a / len(client) + penalty * np.eye(5), a.T @ data.train_y[client] / len(client)))
    return parts


def weighted_minimum(parts, weights):
    matrix = sum(w * h for w, (h, _) in zip(weights, parts))
    return np.linalg.solve(matrix, sum(w * b for w, (_, b) in zip(weights, parts)))


def final_models(scenario, tmp_path):
    """Models after the run, from its last checkpoint's world."""
    run = simulate(scenario, out=tmp_path / "runs")
    world = build(scenario)
    world.learning.restore(load_checkpoint(run.path).arrays)
    return run, world.learning.x.numpy()


def test_with_the_multiplier_ridge_reaches_the_optimum_of_all(tmp_path):
    scenario = ridge_scenario(tmp_path)
    world = build(scenario)
    parts = quadratics(world)
    optimum = weighted_minimum(parts, np.ones(4))
    np.testing.assert_allclose(world.learning.optimum, optimum, rtol=1e-9)
    run, models = final_models(scenario, tmp_path)
    assert np.abs(models - optimum).max() < 1e-3
    assert run.nodes.excess_loss.iloc[-1] < 1e-5
    first = run.nodes[run.nodes["round"] == 1]
    assert (run.regret().iloc[0] == first.set_index("node").excess_loss).all()


@pytest.mark.slow
def test_without_the_multiplier_it_ends_where_the_loudest_want_it(tmp_path):
    """D-PSGD on a row-stochastic mixing minimises sum pi_i f_i, pi the Perron vector of the air's weights."""
    scenario = ridge_scenario(
        tmp_path,
        power={"balance": False, "multiplier": "none"},
        learning={
            **ridge_scenario(tmp_path).to_table()["learning"],
            "learning_rate": {"kind": "inverse", "initial": 1.0},
        },
    )
    world = build(scenario)
    parts = quadratics(world)
    pi = perron_vector(preview_plan(world).plan.weights)
    biased, optimum = weighted_minimum(parts, pi), weighted_minimum(parts, np.ones(4))
    _, models = final_models(scenario, tmp_path)
    assert np.abs(biased - optimum).max() > 0.02  # they are different places
    assert np.abs(models - biased).max() < 1e-3


def test_the_optimum_of_logistic_regression_is_found_and_no_model_is_below_it():
    table = tiny_table(
        learning={
            "dataset": {"kind": "synthetic", "classes": 3, "features": 5, "samples": 300, "test_samples": 30},
            "model": {"model": "logistic", "penalty": 0.05},
            "partition": {"kind": "dirichlet", "concentration": 0.5},
            "dtype": "float64",
            "regret": True,
        }
    )
    world = build(parse_scenario(table))
    data = world.data
    a = np.hstack([data.normalised(data.train_x), np.ones((300, 1))])
    weight = np.zeros(300)
    for client in world.client_indices:
        weight[client] = 1 / len(client)

    def total(flat):
        scores = a @ flat.reshape(3, -1).T
        top = scores.max(axis=1)
        losses = np.log(np.exp(scores - top[:, None]).sum(axis=1)) + top - scores[np.arange(300), data.train_y]
        return weight @ losses + 4 * 0.05 / 2 * flat @ flat

    found = minimize(total, np.zeros(18), method="BFGS", options={"gtol": 1e-7})
    assert total(world.learning.optimum) <= found.fun + 1e-9
    np.testing.assert_allclose(world.learning.optimum, found.x, atol=1e-4)
    objective = world.learning._objective
    points = torch.as_tensor(np.random.default_rng(0).normal(size=(5, 18)))
    expected = [total(point.numpy()) - total(world.learning.optimum) for point in points]
    np.testing.assert_allclose(objective.excess(points), expected, rtol=1e-8)


@pytest.mark.slow
def test_regret_grows_like_a_logarithm(tmp_path):
    """Theorem 2 under privacy noise: equal factors of T add about equal amounts."""
    scenario = load_scenario("ridge_regret_k10")
    regret = simulate(scenario, out=tmp_path).regret().mean(axis=1)
    early, late = regret[100] - regret[10], regret[1000] - regret[100]
    assert 0.4 < late / early < 1.6
    assert regret[1000] < 100


# --- images that move, modules that remember


def images(tmp_path, **learning):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (240, 3, 8, 8), dtype=np.uint8), rng.integers(0, 4, 240)
    np.savez(tmp_path / "images.npz", train_x=x[:200], train_y=y[:200], test_x=x[200:], test_y=y[200:])
    return parse_scenario(
        tiny_table(
            scenario={"rounds": 6},
            learning={
                "dataset": {"kind": "file", "path": str(tmp_path / "images.npz"), "scale": 255.0},
                "model": {"model": "cnn", "channels": 4, "hidden": 8},
                "batch_size": 10,
                "eval_every": 3,
                **learning,
            },
            privacy={"epsilon_max": float("inf")},
        ),
        folder=str(tmp_path),
    )


def test_augmented_images_change_training_and_nothing_else(tmp_path):
    plain = simulate(images(tmp_path), out=tmp_path)
    moved = simulate(images(tmp_path, augment="flip-crop"), out=tmp_path)
    again = simulate(images(tmp_path, augment="flip-crop"), out=tmp_path)
    assert (plain.nodes.loss != moved.nodes.loss).any()
    np.testing.assert_array_equal(moved.nodes.loss, again.nodes.loss)
    np.testing.assert_array_equal(plain.links.gain, moved.links.gain)


def remembering(tmp_path, rounds=6):
    table = images(tmp_path, model={"model": "cnn", "channels": 4, "hidden": 8, "norm": "batch"}).to_table()
    table["privacy"] |= {"protocol": "paper", "clipping": "batch"}
    table["power"]["balance"] = False
    table["scenario"]["rounds"] = rounds
    table["trace"] |= {"checkpoint_every": 20}
    return parse_scenario(table, folder=str(tmp_path))


def test_batch_normalisation_remembers_for_every_node_under_the_paper_protocol(tmp_path):
    world = build(remembering(tmp_path))
    kept = world.learning.remembered
    assert kept.shape == (4, 2 * (4 + 8))
    start = kept.clone()
    run = simulate(remembering(tmp_path), out=tmp_path)
    state = load_checkpoint(run.path).arrays
    learned = torch.as_tensor(state["remembered"])
    assert learned.shape == start.shape
    assert (learned != start).any(dim=1).all()
    assert len({tuple(row.tolist()) for row in learned}) == 4  # nodes saw different data
    # judging goes by what was remembered: plain torch, one node
    world.learning.restore(state)
    module = world.learning.learner.copies(1, torch.device("cpu"), torch.float32)[0]
    with torch.no_grad():
        for parameter, part in zip(module.parameters(), layers(world.learning.learner, world.learning.x[2:3])):
            parameter.copy_(part[0])
        means = [m for m in module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
        sizes = [size for layer in means for size in (layer.num_features, layer.num_features)]
        parts = iter(torch.split(learned[2], sizes))
        for layer in means:
            layer.running_mean.copy_(next(parts))
            layer.running_var.copy_(next(parts))
        module.eval()
        store = world.learning._store
        right = (module(store.test_x).argmax(dim=1) == store.test_y).float().mean()
    assert float(world.learning.accuracy(world.learning.x)[2]) == pytest.approx(float(right))
    run = wirelessdl.open_run(run.path)
    learner, models = run.learner(), run.final_models()
    for ask in (lambda: learner.accuracy(models), lambda: learner.scores(models, learner.data.test_x[:1])):
        with pytest.raises(TraceError, match="running statistics of batch normalisation, which were never sent"):
            ask()


def test_what_was_remembered_survives_an_interruption(tmp_path):
    scenario = remembering(tmp_path, rounds=45)
    whole = simulate(scenario, out=tmp_path / "a")
    done = []
    with pytest.raises(wirelessdl.errors.RunInterrupted):
        simulate(scenario, out=tmp_path / "b", on_round=done.append, should_stop=lambda: len(done) >= 27)
    rest = wirelessdl.resume(next((tmp_path / "b").iterdir()))
    np.testing.assert_array_equal(whole.nodes.loss, rest.nodes.loss)
    np.testing.assert_array_equal(whole.rounds.accuracy_mean.dropna(), rest.rounds.accuracy_mean.dropna())


# --- when to stop


def test_a_plateau_is_so_many_evaluations_in_a_narrow_band():
    plateau = Plateau(3, 0.01)
    for accuracy, reached in ((0.5, False), (0.505, False), (0.52, False), (0.515, False), (0.511, True)):
        plateau.add(accuracy)
        assert plateau.reached is reached
    assert not Plateau(0, 1.0).enabled


def test_training_that_rests_stops_and_tells_both_epsilons(tmp_path, wirelessdl_command):
    overrides = ["scenario.rounds=60", "learning.eval_every=2", "learning.stop_after=3", "learning.stop_within=0.2"]
    sets = [word for override in overrides for word in ("--set", override)]
    result = wirelessdl_command("run", "quickstart", "--out", str(tmp_path), *sets)
    assert result.code == 0, result.err
    summary = json.loads(next(tmp_path.glob("*/summary.json")).read_text())
    assert summary["rounds"] == summary["stopped"] < 60
    assert summary["epsilon_own_total"] < summary["epsilon_declared"]
    assert "odometer" in " ".join(result.out.split())
    run = wirelessdl.open_run(next(tmp_path.iterdir()))
    recent = run.rounds.accuracy_mean.dropna().tail(3)
    assert recent.max() - recent.min() <= 0.2
    assert wirelessdl.resume(run.path).summary["stopped"] == summary["stopped"]  # it stays at rest
    declared = wirelessdl.simulate(
        load_scenario("quickstart", overrides=["scenario.rounds=60"]), out=tmp_path / "whole"
    )
    assert summary["epsilon_declared"] == pytest.approx(declared.summary["epsilon_own_total"], rel=0.02)


def test_a_run_stopped_while_at_rest_does_not_go_on(tmp_path):
    """Interrupted in the very round in which the rule is met, and killed right after its checkpoint."""
    overrides = ["scenario.rounds=60", "learning.eval_every=2", "learning.stop_after=3", "learning.stop_within=0.2"]
    scenario = load_scenario("quickstart", overrides=overrides)
    whole = simulate(scenario, out=tmp_path / "a")
    done = []
    rounds = whole.summary["stopped"]
    stopped = simulate(scenario, out=tmp_path / "b", on_round=done.append, should_stop=lambda: len(done) >= rounds)
    assert stopped.summary["stopped"] == rounds
    (stopped.path / "summary.json").unlink()  # as if killed before the end was written
    assert wirelessdl.resume(stopped.path).summary["stopped"] == rounds


def test_what_later_plans_would_leak_is_not_promised(tmp_path):
    overrides = ["scenario.rounds=30", "learning.eval_every=1", "learning.stop_after=5", "learning.stop_within=1.0"]
    adaptive = ["power.schedule=adaptive", "power.objective=sum"]
    run = simulate(load_scenario("quickstart", overrides=[*overrides, *adaptive]), out=tmp_path)
    assert float(run.summary["epsilon_declared"]) == float("inf")


# --- mistakes


@pytest.mark.parametrize(
    ("learning", "words"),
    [
        ({"regret": True}, "learning.regret is true; the optimum of Softmax is not known: use ridge or logistic"),
        ({"augment": "flip-crop"}, 'learning.augment is "flip-crop"; it turns and shifts images'),
        ({"model": "ridge"}, "learning.model is ridge, made for regression; the data set fashion-mnist-subset is a"),
        (
            {"dataset": {"kind": "synthetic-regression"}},
            "learning.model is softmax, made for classification; the data set synthetic-regression is a regression",
        ),
        ({"stop_after": -1}, "learning.stop_after is -1"),
        (
            {"dataset": {"kind": "synthetic-regression"}, "model": "ridge", "paper": True},
            'learning.model is ridge under privacy.protocol "paper"; its penalty is taken at the private model',
        ),
        ({"model": {"model": "ridge", "penalty": 0.0}}, "learning.model.penalty is 0.0; must be > 0"),
    ],
)
def test_mistakes_are_one_line(learning, words, tmp_path, wirelessdl_command):
    learning = dict(learning)
    paper = {"protocol": "paper", "clipping": "batch"} if learning.pop("paper", False) else {}
    (tmp_path / "x.toml").write_text(tomli_w.dumps(tiny_table(learning=learning, privacy=paper)))
    result = wirelessdl_command("check", str(tmp_path / "x.toml"))
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert words in result.err


def test_batch_normalisation_that_remembers_needs_threads(tmp_path):
    table = remembering(tmp_path).to_table()
    table["learning"]["strategy"] = "vmap"
    with pytest.raises(ScenarioError, match="batch normalisation that remembers"):
        build(parse_scenario(table, folder=str(tmp_path)))


def test_regret_of_a_run_without_it_says_so(tmp_path):
    with pytest.raises(TraceError, match=r"set learning\.regret = true"):
        simulate(tiny(), out=tmp_path).regret()
