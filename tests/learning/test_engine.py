"""The engine around the gradients: mixing, batches, threads, state, memory, and what it refuses."""

import dataclasses

import numpy as np
import pytest
import torch
from conftest import tiny, tiny_table
from made_engines import bytes_data, make, order

from wirelessdl.errors import ScenarioError
from wirelessdl.learning import clipping as clipping_module
from wirelessdl.learning import engine as engine_module
from wirelessdl.learning.batch import Buffer, Store, apply_changes, draw_changes, sample_shape
from wirelessdl.learning.clipping import sum_samples
from wirelessdl.learning.draws import NodeDraws
from wirelessdl.learning.engine import share_right
from wirelessdl.learning.models.closed_form import Softmax
from wirelessdl.learning.models.module import ModuleLearner
from wirelessdl.learning.models.nets import Cnn
from wirelessdl.learning.records import ModelUpdate
from wirelessdl.learning.runtime import Workers
from wirelessdl.learning.superposition import Superposer, consensus_distance, one_slot, project_
from wirelessdl.links import Geometry, Links
from wirelessdl.mixing import mix, uniform_air
from wirelessdl.run.build import build
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.streams import Streams

CPU = torch.device("cpu")

# --- state, mixing, threads --------------------------------------------------------------------------------


def test_sparse_mixing_equals_dense_and_is_taken_where_few_hear_each_other():
    rng = np.random.default_rng(0)
    nodes = 300
    mask = rng.random((nodes, nodes)) < 10 / nodes
    links = Links.from_mask(mask, Geometry.at_rest(np.zeros((nodes, 3))))
    mixing = mix(links, rng.random(len(links)) + 0.1, np.ones(nodes), air=uniform_air(links))
    assert mixing.compact is not mixing.dense
    sent, start = torch.randn(nodes, 40, dtype=torch.float64), torch.randn(nodes, 40, dtype=torch.float64)
    found = [start.clone(), start.clone()]
    for out, weights in zip(found, (mixing.compact, mixing.dense)):
        Superposer(CPU, torch.float64).superpose(one_slot(40, weights, np.zeros(nodes)), sent, out)
    torch.testing.assert_close(*found)
    full = Links.from_mask(np.ones((nodes, nodes), dtype=bool), links.geometry)
    crowded = mix(full, np.ones(len(full)), np.ones(nodes), air=uniform_air(full))
    assert crowded.compact is crowded.dense


@pytest.mark.parametrize("kind", ["softmax", "cnn"])
def test_threads_and_pieces_change_nothing(kind):
    """One thread or three, in float32, to the last bit."""
    data, threads = bytes_data(), torch.get_num_threads()

    def learner():
        if kind == "softmax":
            return Softmax(data.features, data.classes)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return ModuleLearner(Cnn((1, 6, 6), 3, channels=4, hidden=6), (1, 6, 6), 3)

    found = []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            engine = make(data, nodes=7, learner=learner(), dtype="float32")
            if kind == "softmax":
                engine.strategy.chunk = 2
            outcomes = [engine.round(order(7, round=r, evaluate=r == 3)) for r in (1, 2, 3)]
            found.append((engine.x.numpy(), outcomes[-1].accuracy.numpy(), outcomes[-1].loss.numpy()))
    finally:
        torch.set_num_threads(threads)
    for one, three in zip(*found):
        np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("clipping", ["per-sample", "batch"])
def test_full_batches_that_are_kept_are_those_gathered_anew(clipping, monkeypatch):
    data, found = bytes_data(samples=203), []
    for most in (engine_module._MAX_KEPT, 0):
        monkeypatch.setattr(engine_module, "_MAX_KEPT", most)
        engine = make(data, sampling="full", clipping=clipping, dtype="float32")
        assert engine.keeps_batches == (most > 0)
        engine.strategy.chunk = 2
        for round in (1, 2, 3):
            engine.round(order(5, round=round))
        found.append((engine.x.numpy(), engine.need()))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    kept = 5 * 41 * (data.features + 1) * 4  # nodes, samples of the largest, numbers of a sample, bytes
    assert found[0][1].batches - found[1][1].batches == kept


def test_sums_of_nodes_in_pieces_are_those_of_all_nodes(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(7, *shape, generator=generator) for shape in ((3, 20), (20, 50)))
    whole = left.double() @ right.double()
    for most in (10**6, 2 * 20 * 50, 7 * 50):  # all, two nodes, seven samples of one node
        monkeypatch.setattr(clipping_module, "_MAX_WIDENED", most)
        for lies in (right, right.mT.contiguous().mT):
            torch.testing.assert_close(sum_samples(left, lies), whole, rtol=1e-14, atol=1e-14)  # rounding of 20 terms
    torch.testing.assert_close(sum_samples(left[0], right[0]), whole[0], rtol=1e-14, atol=1e-14)


def test_state_that_was_handed_out_stays_as_it_was():
    engine = make(bytes_data())
    engine.round(order(5))
    state = {**engine.state(), "held": engine.mixed()}
    kept = {name: values.copy() for name, values in state.items()}
    engine.round(order(5, round=2))
    for name, values in state.items():
        np.testing.assert_array_equal(values, kept[name])
    assert (engine.state()["gradient"] != state["gradient"]).any()


def test_a_restored_engine_goes_on_as_before():
    data = bytes_data()
    for sampling in ("shuffled", "poisson"):
        first = make(data, sampling=sampling)
        for round in (1, 2):
            first.round(order(5, round=round))
        second = make(data, sampling=sampling)
        second.restore(first.state())
        first.round(order(5, round=3))
        second.round(order(5, round=3))
        np.testing.assert_array_equal(first.x, second.x)


def test_steps_taken_back_leave_what_was_received():
    engine = make(bytes_data())
    engine.round(order(5))
    mixed = engine.mixed()
    silent = dataclasses.replace(
        order(5, round=2, weights=np.eye(5), thermal=0.0),
        update=ModelUpdate(np.arange(5) == 0, np.zeros(5, dtype=bool), np.zeros(5)),
        noise_scale=np.zeros(5),
    )
    kept = engine.x
    engine.round(silent)
    np.testing.assert_allclose(engine.x[0], mixed[0])
    np.testing.assert_allclose(engine.x[1:], kept[1:])


def test_errors_in_threads_come_out_and_nobody_is_left_at_work():
    workers, done = Workers(3), []

    def work(_worker, piece):
        if piece == 2:
            raise ValueError("piece 2")
        done.append(piece)

    with pytest.raises(ValueError, match="piece 2"):
        workers.each(6, work)
    workers.each(4, lambda worker, piece: done.append((worker, piece)))
    assert sorted(piece for entry in done if isinstance(entry, tuple) for piece in entry[1:]) == [0, 1, 2, 3]


@pytest.mark.parametrize("bias_column", [True, False])
@pytest.mark.parametrize("kind", ["grey bytes", "colour bytes", "features"])
def test_samples_are_normalised_as_their_data_set_says(kind, bias_column):
    rng = np.random.default_rng(0)
    if kind == "colour bytes":
        data = bytes_data(30, (3, 4, 4), mean=(0.1, 0.2, 0.3), deviation=(0.5, 0.6, 0.7))
        mean, deviation = (np.array(v).reshape(3, 1, 1) for v in (data.mean, data.deviation))
    else:
        data = bytes_data(30, (4, 4))
        mean, deviation = data.mean, data.deviation
    if kind == "features":
        data = dataclasses.replace(
            data, train_x=rng.normal(size=(30, 5)), test_x=rng.normal(size=(40, 5)), scale=1.0, mean=0.0, deviation=1.0
        )
        mean, deviation = 0.0, 1.0
    store = Store(data, CPU, torch.float64, bias_column=bias_column)
    buffer = Buffer(store)
    buffer.batch([np.array([5, 5, 5])], np.array([3.0]))  # what was there before does not show
    batch = buffer.batch([np.array([3, 1]), np.array([2])], np.array([2.0, 2.0]))
    expected = ((data.train_x / data.scale - mean) / deviation)[[3, 1, 2]]
    found = batch.features.reshape(4, *batch.features.shape[2:])[:3]
    if bias_column:
        assert (found[:, -1] == 1).all()
        np.testing.assert_allclose(found[:, :-1], expected.reshape(3, -1), atol=1e-14)
    else:
        np.testing.assert_allclose(found, expected.reshape(3, *sample_shape(data)), atol=1e-14)
    assert batch.weight.tolist() == [[0.5, 0.5], [0.5, 0.0]]
    assert batch.labels[0].tolist() == data.train_y[[3, 1]].tolist()


# --- what is refused ---------------------------------------------------------------------------------------


def test_too_large_is_refused_before_anything_is_allocated_with_what_would_fit(monkeypatch):
    monkeypatch.setattr("wirelessdl.learning.runtime.free_bytes", lambda: 3_000_000)
    with pytest.raises(ScenarioError, match=r"learning needs .* are free on cpu") as caught:
        build(tiny(), device="cpu")
    assert "use a smaller model or batch_size" in str(caught.value)
    monkeypatch.setattr("wirelessdl.learning.runtime.free_bytes", lambda: 60_000_000)
    table = tiny_table(network={"nodes": 400}, learning={"batch_size": 8})
    with pytest.raises(ScenarioError, match=r"60 MB are free on cpu: \d+ nodes would fit"):
        build(parse_scenario(table), device="cpu")


# --- evaluation --------------------------------------------------------------------------------------------


def test_evaluations_on_the_way_take_some_test_samples_and_the_last_takes_all():
    """What the tables say of each round is the share of just those samples, drawn once for all runs of a seed."""
    data = bytes_data()
    engine = make(data, eval_samples=13)
    on_the_way, last = (engine.round(order(5, round=r, evaluate=True)) for r in (1, 2))
    assert engine._tests[1].shape == (13,)
    np.testing.assert_allclose(np.mod(on_the_way.accuracy.numpy() * 13, 1), 0, atol=1e-9)
    torch.testing.assert_close(last.accuracy, engine.accuracy(engine.held, whole=False))
    whole = engine.round(dataclasses.replace(order(5, round=3, evaluate=True), whole=True))
    torch.testing.assert_close(whole.accuracy, engine.accuracy(engine.held))
    assert torch.equal(make(data, eval_samples=13)._tests[0], engine._tests[0])


def test_the_share_that_is_right_is_that_of_the_first_largest_score():
    scores = torch.tensor(
        [[[1.0, 2.0, 0.0], [3.0, 3.0, 1.0], [0.0, 0.0, 0.0]], [[0.0, 1.0, 2.0], [5.0, 1.0, 2.0], [0.0, 1.0, 0.5]]]
    )
    for labels in ([1, 0, 0], [1, 1, 2], [2, 0, 1]):
        expected = (scores.argmax(dim=2) == torch.tensor(labels)).float().mean(dim=1)
        assert torch.equal(share_right(scores, torch.tensor(labels)), expected)
        assert torch.equal(share_right(scores[1:], torch.tensor(labels)), expected[1:])
    nan = scores.clone()
    nan[0, 0, 2] = torch.nan
    assert share_right(nan, torch.tensor([2, 0, 0]))[0] == 1.0  # as argmax has it


def test_projection_keeps_the_inside_and_shortens_the_outside():
    x = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    torch.testing.assert_close(project_(x, 1.0), torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]))


def test_consensus_distance_of_two_opposite_models():
    assert consensus_distance(torch.tensor([[3.0, 0.0], [-3.0, 0.0]])) == 3.0
    four = torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    assert consensus_distance(four) == pytest.approx(2.0**0.5)  # root of the mean square, not the mean


def test_draws_depend_on_node_and_round_alone():
    draws = NodeDraws(Streams(1, 1), 4, CPU)
    batch = draws.batch(2, 7, 100, 10)
    noise = torch.empty(4, 50)
    draws.fill_normal(noise, 7, "noise")
    other = NodeDraws(Streams(1, 1), 4, CPU)
    later = torch.empty(4, 50)
    other.fill_normal(later, 8, "noise")
    other.fill_normal(later, 7, "noise")
    np.testing.assert_array_equal(other.batch(2, 7, 100, 10), batch)
    torch.testing.assert_close(later, noise, rtol=0, atol=0)
    thermal = torch.empty(4, 50)
    draws.fill_normal(thermal, 7, "thermal")
    assert (thermal != noise).all()


def loop(images, changes, padding):
    """One image at a time: mirror, pad, cut the window out."""
    out = []
    for image, flip, down, right in zip(images, *changes, strict=True):
        channels, height, width = image.shape
        padded = torch.zeros(channels, height + 2 * padding, width + 2 * padding, dtype=image.dtype)
        padded[:, padding : padding + height, padding : padding + width] = image.flip(2) if flip else image
        top, left = padding - int(down), padding - int(right)
        out.append(padded[:, top : top + height, left : left + width])
    return torch.stack(out)


def test_batched_changes_equal_the_loop():
    images = torch.randn(64, 3, 6, 5, generator=torch.Generator().manual_seed(4))
    changes = draw_changes(np.random.default_rng(4).random((3, 64)))
    assert torch.equal(apply_changes(images, changes), loop(images, changes, 4))


def test_draws_are_fair_and_do_not_depend_on_who_draws_with_them():
    count, draws = 20_000, NodeDraws(Streams(3), 10, CPU)
    changes = draw_changes(draws.of_samples(range(10), 1, count // 10))
    assert abs(changes[0].double().mean() - 0.5) < 4.5 * 0.5 / count**0.5
    for shift in changes[1:]:
        seen = torch.bincount(shift + 4, minlength=9).double() / count
        assert (seen - 1 / 9).abs().max() < 4.5 * (8 / 81 / count) ** 0.5
    alone = draw_changes(draws.of_samples(range(4, 6), 1, 7))  # other nodes, a narrower batch
    assert torch.equal(alone.view(3, 2, 7), changes.view(3, 10, -1)[:, 4:6, :7])
