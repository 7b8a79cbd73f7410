"""The baseline `central-dp`: one trusted holder of all data, beside central DP-SGD in plain NumPy."""

import math

import numpy as np
import pytest
from conftest import tiny_table
from scipy.special import ndtr

import wirelessdl
from wirelessdl.analysis.verify import verify
from wirelessdl.audit.recording import record
from wirelessdl.audit.wiretap import Wiretap, unnoised_models, wiretap
from wirelessdl.errors import ScenarioError
from wirelessdl.gaussian import analytic_mu
from wirelessdl.preview.plan import preview_plan
from wirelessdl.run.build import build
from wirelessdl.run.session import simulate
from wirelessdl.scenario.loader import load_scenario

DELTA = 1e-5


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    import tomli_w

    table = tiny_table(
        scenario={"rounds": 5},
        network={"nodes": 4},
        power={"objective": "own-noise"},
        privacy={"epsilon_max": math.inf, "epsilon_total": 1.0, "delta_total": DELTA, "clip_norm": 0.7},
        learning={
            "dataset": {"kind": "synthetic", "samples": 800, "test_samples": 200},
            "sampling": "full",
            "dtype": "float64",
        },
    )
    path = tmp_path_factory.mktemp("scenario") / "tiny.toml"
    path.write_text(tomli_w.dumps(table))
    return path


def test_it_is_central_dp_sgd_with_one_gaussian_a_round(file, tmp_path):
    """Every s - x is normal with deviation 2C K gamma / (N mu), mu sqrt(T-1) that of epsilon; x is NumPy's."""
    scenario = load_scenario(file, baseline="central-dp")
    world = build(scenario)
    engine, data = world.learning, world.data
    samples = len(data.train_y)
    mu = analytic_mu(1.0, DELTA) / math.sqrt(4)  # T - 1 releases
    assert world.exposure.sensitivity[0] == pytest.approx(2 * 0.7 / samples, rel=1e-5)
    found = simulate(scenario, out=tmp_path)
    assert found.summary["epsilon_total"] == pytest.approx(1.0, rel=1e-6)
    assert verify(found.path).problems == ()
    assert found.summary["airtime_s"] == found.summary["energy_j"] == 0.0
    nodes, rounds = found.nodes, found.rounds
    assert nodes["multiplier"].eq(4.0).all()
    deviation = np.sqrt(nodes["beta"] / nodes["alpha"]).to_numpy() * rounds["noise_std"].to_numpy()
    step = 4.0 * rounds["learning_rate"].to_numpy()
    assert deviation[1:] == pytest.approx(2 * 0.7 / samples / mu * step[:-1], rel=1e-4)
    assert found.privacy["rounds"].tolist() == [4]
    # the gradient: mean of clipped gradients of all samples, softmax with a bias
    point = engine.held[:1]
    features = engine._store.ready(data.train_x).reshape(samples, -1).numpy()
    weights = point[0].numpy().reshape(data.classes, -1)
    rows = features if features.shape[1] == weights.shape[1] else np.c_[features, np.ones(samples)]
    scores = np.exp(rows @ weights.T - (rows @ weights.T).max(axis=1, keepdims=True))
    error = scores / scores.sum(axis=1, keepdims=True) - np.eye(data.classes)[data.train_y]
    each = error[:, :, None] * rows[:, None, :]
    size = np.sqrt((each**2).sum(axis=(1, 2)))
    expected = (each * np.minimum(1.0, 0.7 / size)[:, None, None]).mean(axis=0).ravel()
    taken = engine.gradients(0, [np.arange(samples)], point)[0].numpy()
    assert taken == pytest.approx(expected, abs=1e-9)


def test_noise_that_is_published_is_what_is_charged(file):
    """w - x over its declared deviation is standard normal: a Kolmogorov distance of 1.95 / sqrt(n) is one in 1,000."""
    world = build(load_scenario(file, baseline="central-dp"))
    recording = record(world, 5)
    engine = world.learning
    engine.restart(world.streams)
    Wiretap(engine)
    drawn = []
    for given in recording.inputs:
        x = unnoised_models(engine, given)
        engine.round(given)
        drawn.append(((wiretap(engine).sent - x) / float(given.noise_scale[0])).numpy().ravel())
        assert (engine.held == wiretap(engine).sent).all()  # what is evaluated is what was published
    values = np.sort(np.concatenate(drawn))
    count = len(values)
    assert np.abs(ndtr(values) - (np.arange(count) + 0.5) / count).max() < 1.95 / math.sqrt(count)


def test_the_plan_shows_the_noise_of_a_trusted_holder_beside_its_own(file):
    """The same figure that the plan of the baseline itself has, without building it."""
    here = preview_plan(build(load_scenario(file)))
    there = preview_plan(build(load_scenario(file, baseline="central-dp")))
    assert here.central == pytest.approx(there.noise_to_update, rel=1e-4)
    assert here.central < here.noise_to_update
    assert there.central is None


def test_one_line_shows_a_run_beside_its_baselines(file, tmp_path, wirelessdl_command):
    own = simulate(load_scenario(file), out=tmp_path)
    alone = wirelessdl_command("compare", str(own.path))
    assert alone.code == 2
    assert "--baseline central-dp, no-privacy or local" in alone.err
    for name in ("central-dp", "no-privacy", "local"):
        simulate(load_scenario(file, baseline=name), out=tmp_path)
    said = wirelessdl_command("compare", str(own.path)).out
    (line,) = [line for line in said.splitlines() if "beside its baselines" in line]
    reached = {
        name: wirelessdl.open_run(tmp_path / f"tiny-{name}-s3-r1").summary["accuracy_mean"]
        for name in ("central-dp", "no-privacy", "local")
    }
    assert [f"{name} {value:.1%}" in line for name, value in reached.items()] == [True] * 3
    assert f"this run {own.summary['accuracy_mean']:.1%} (epsilon 1)" in line
    assert wirelessdl_command("report", str(own.path)).code == 0
    page = (own.path / "report.html").read_text()
    assert f"central DP {reached['central-dp']:.1%}" in page


def test_it_is_refused_for_several_nodes(file):
    with pytest.raises(ScenarioError, match=r'radio\.access is "published" with network\.nodes 4'):
        load_scenario(file, overrides=["radio.access=published"])
