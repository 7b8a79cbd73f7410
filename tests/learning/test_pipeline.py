"""Rounds in a few calls and in a second thread: every number equals that of the rounds call by call."""

import threading
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from conftest import tiny
from interrupting import assert_same_tables
from made_engines import bytes_data, make, order

from wirelessdl.learning import fused, fused_rounds, pipeline
from wirelessdl.learning.draws import NodeDraws
from wirelessdl.learning.fused import share_right
from wirelessdl.learning.pipeline import Pipeline
from wirelessdl.learning.records import ModelUpdate, PairInput
from wirelessdl.learning.superposition import Air, Segment
from wirelessdl.run.session import simulate
from wirelessdl.streams import Streams

CPU = torch.device("cpu")
VALUES = ("sent_power", "grad_norm", "loss", "nonfinite_gradients", "consensus_distance")
NODES, ROUNDS = 5, 12


@pytest.fixture(autouse=True, params=[0, 2**19], ids=["shared rounds", "rounds in one call"])
def two_threads(monkeypatch, request):
    monkeypatch.setattr(fused_rounds, "_SHARED", request.param)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    monkeypatch.setattr(fused_rounds, "_WARM_UP", 0)
    yield
    torch.set_num_threads(before)


def slots(nodes, size, count, thermal):
    """A payload in several slots, each with weights of its own."""
    rng, edges = np.random.default_rng(4), np.linspace(0, size, count + 1).astype(int).tolist()
    weights = rng.dirichlet(np.ones(nodes), (count, nodes))
    return tuple(
        Segment(slice(low, high), matrix, None, np.full(nodes, thermal), np.zeros(nodes))
        for low, high, matrix in zip(edges, edges[1:], weights)
    )


def groups(round):
    """All but the last node in two groups; one of them silent in every third round."""
    on_air = np.array([True, round % 3 > 0, True, True, True])
    return PairInput(
        own=np.full(NODES, 0.1),
        pair=np.array([0.3, 0.3, 0.2, 0.2, 0.0]),
        on_air=on_air,
        group=np.array([0, 0, 1, 1, -1]),
        low=np.zeros(0, int),
        high=np.zeros(0, int),
    )


def away(round):
    keep = np.arange(NODES) == round % NODES
    return ModelUpdate(np.zeros(NODES, bool), keep, np.where(keep, 0.0, 0.3))


def spoilt(data):
    """Some samples whose gradients are no numbers."""
    features = data.train_x.astype(np.float64)
    features[::7] = 1e200
    return replace(data, train_x=features, scale=1.0, mean=0.0, deviation=1.0)


RUNS = {
    "hardened": ({}, {}),
    "batch": ({"clipping": "batch"}, {}),
    "paper": ({"clipping": "batch", "gradient_at": "own", "evaluated": "own"}, {}),
    "float32": ({"dtype": "float32"}, {}),
    "ball": ({"projection_radius": 0.05}, {}),
    "no noise": ({}, {"noise_scale": np.zeros(NODES)}),
    "pairs": ({}, {"pairs": groups}),
    "away": ({}, {"update": away}),
    "away from a batch": ({"clipping": "batch"}, {"update": away}),
}


def given(round, size, changes, thermal=0.01, count=3):
    base = replace(order(NODES, round=round, evaluate=round % 4 == 0), segments=slots(NODES, size, count, thermal))
    return replace(base, **{name: value(round) if callable(value) else value for name, value in changes.items()})


def both(settings, changes, data=None, **parts):
    """An engine that hands rounds over and one that does not, after the same rounds, with their results."""
    found = []
    for fuses in (True, False):
        engine = make(bytes_data() if data is None else data, NODES, **settings)
        assert engine._pipeline is not None
        if not fuses:
            engine._pipeline = None
        size = engine.learner.size
        results = [engine.round(given(round, size, changes, **parts)) for round in range(1, ROUNDS + 1)]
        assert all(isinstance(one.values, pipeline.Future) == fuses for one in results)
        found.append((engine, results))
    return found


def assert_equal(found):
    (ours, one), (theirs, other) = found
    np.testing.assert_array_equal(ours.state(), theirs.state())
    np.testing.assert_array_equal(ours.mixed(), theirs.mixed())
    for mine, its in zip(one, other):
        for name in VALUES:
            torch.testing.assert_close(getattr(mine, name), getattr(its, name), rtol=0, atol=0, equal_nan=True)
        assert mine.evaluated == its.evaluated
        assert not mine.evaluated or torch.equal(mine.accuracy, its.accuracy)


@pytest.mark.parametrize(("settings", "changes"), RUNS.values(), ids=RUNS)
def test_a_round_in_few_calls_equals_the_round_call_by_call(settings, changes):
    assert_equal(both(settings, changes))


@pytest.mark.parametrize("clipping", ["per-sample", "batch"])
def test_gradients_that_are_no_numbers_count_as_zero_there_too(clipping):
    found = both({"clipping": clipping}, {}, spoilt(bytes_data()))
    assert_equal(found)
    assert sum(float(one.nonfinite_gradients.sum()) for one in found[0][1]) > 0


def test_without_receiver_noise_and_in_one_slot():
    assert_equal(both({}, {}, thermal=0.0, count=1))


def test_batches_gathered_in_pieces_are_the_same(monkeypatch):
    found = both({}, {})
    monkeypatch.setattr("wirelessdl.learning.gradients.batched._CACHE", 2 * 8 * 37 * 8)  # two nodes at a time
    pieces = both({}, {})
    assert pieces[0][0]._fused._piece < found[0][0]._fused._piece
    assert_equal(pieces)
    assert_equal([pieces[0], found[0]])


WITHDRAWN = ModelUpdate(np.arange(NODES) == 2, np.zeros(NODES, bool), np.full(NODES, 0.3))


def test_what_does_not_go_in_few_calls_goes_call_by_call_after_the_rounds_before():
    engines = [make(bytes_data(), NODES) for _ in range(2)]
    engines[1]._pipeline = None
    for engine in engines:
        size = engine.learner.size
        for round in range(1, ROUNDS + 1):
            changes = {"update": WITHDRAWN} if round % 4 == 0 else {}
            result = engine.round(given(round, size, changes))
            assert isinstance(result.values, pipeline.Future) == (engine is engines[0] and not changes)
    np.testing.assert_array_equal(engines[0].state(), engines[1].state())


class Listening(Air):
    """Somebody who listens in is asked call by call."""


def test_rounds_go_call_by_call_where_another_air_listens():
    engine = make(bytes_data(), NODES)
    engine.air = Listening(engine.device, engine.dtype)
    result = engine.round(given(1, engine.learner.size, {}))
    assert not isinstance(result.values, pipeline.Future)


def test_rounds_go_call_by_call_where_torch_cannot_join_them(monkeypatch):
    monkeypatch.setattr(fused, "scripted", lambda: None)
    engine = make(bytes_data(), NODES)
    assert not isinstance(engine.round(given(1, engine.learner.size, {})).values, pipeline.Future)


def test_short_runs_do_not_pay_for_joining_calls(monkeypatch):
    monkeypatch.setattr(fused_rounds, "_WARM_UP", 2)
    engine = make(bytes_data(), NODES)
    results = [engine.round(given(round, engine.learner.size, {})) for round in (1, 2, 3)]
    assert [isinstance(one.values, pipeline.Future) for one in results] == [False, False, True]


def waiting_pipeline():
    gate, like = threading.Event(), torch.empty(4, 30)
    line = Pipeline(NodeDraws(Streams(3), 4, CPU), like)
    return gate, line


def test_who_would_wait_draws_noise_of_later_rounds():
    gate, line = waiting_pipeline()
    done = [line.hand_over(round, ("noise",), lambda: gate.wait(10)) for round in range(1, pipeline._DEPTH + 1)]
    threading.Timer(0.2, gate.set).start()
    last = pipeline._DEPTH + 1
    done.append(line.hand_over(last, ("noise",), lambda: True))
    line.settle()
    assert all(one.result(0) for one in done)
    found, expected = line.normal(last + 1, "noise"), torch.empty(4, 30)
    NodeDraws(Streams(3), 4, CPU).fill_normal(expected, last + 1, "noise")
    assert found is not None
    assert torch.equal(found, expected)
    assert line.normal(last + 1, "noise") is None  # it is taken
    assert line.normal(last + 2, "thermal") is None


def test_memory_of_noise_does_not_grow_with_rounds(monkeypatch):
    monkeypatch.setattr(pipeline, "_ROOM", 0)
    engine = make(bytes_data(), NODES)
    for round in range(1, 60):
        engine.round(given(round, engine.learner.size, {}))
    engine.settle()
    line = engine._pipeline
    assert line._made == len(line._free) + len(line._drawn) <= 4


def test_who_would_wait_takes_pieces_of_the_round_under_way():
    _, line = waiting_pipeline()
    took, both = [], threading.Barrier(2, timeout=10)

    def piece(thread, number):
        took.append((thread, number))
        both.wait()  # neither goes on without the other

    line.hand_over(1, (), lambda: line.share(4, piece))
    line.settle()
    assert sorted(number for _, number in took) == [0, 1, 2, 3]
    assert {thread for thread, _ in took} == {0, 1}


@pytest.mark.parametrize("thread", [0, 1])
def test_an_error_in_a_piece_comes_out_whoever_took_it(thread):
    _, line = waiting_pipeline()
    both = threading.Barrier(2, timeout=10)

    def piece(number, _):
        both.wait()
        if number == thread:
            raise MemoryError

    line.hand_over(1, (), lambda: line.share(2, piece))
    with pytest.raises(MemoryError):
        line.settle()


def test_only_so_many_rounds_are_under_way():
    gate, line = waiting_pipeline()
    for round in range(1, pipeline._DEPTH + 1):
        line.hand_over(round, (), lambda: gate.wait(10))
    entered = threading.Event()

    def more():
        line.hand_over(99, (), lambda: None)
        entered.set()

    thread = threading.Thread(target=more)
    thread.start()
    assert not entered.wait(0.2)
    gate.set()
    thread.join(10)
    assert entered.is_set()


def test_noise_that_was_drawn_ahead_is_forgotten_with_its_streams():
    engine, other = make(bytes_data(), NODES), make(bytes_data(), NODES)
    size = engine.learner.size
    for round in range(1, 20):
        engine.round(given(round, size, {}))
    for one in (engine, other):
        one.restart(Streams(9))
        for round in range(1, 20):
            one.round(given(round, size, {}))
    np.testing.assert_array_equal(engine.state(), other.state())


def test_an_error_in_a_round_comes_out_where_its_values_are_read(monkeypatch):
    engine = make(bytes_data(), NODES)
    scripted = fused.scripted()
    failing = {
        **scripted,
        **dict.fromkeys(("_air", "_round"), lambda *_: (_ for _ in ()).throw(MemoryError("of the round"))),
    }
    monkeypatch.setattr(fused, "scripted", lambda: failing)
    result = engine.round(given(1, engine.learner.size, {}))
    with pytest.raises(MemoryError, match="of the round"):
        _ = result.loss
    with pytest.raises(MemoryError, match="of the round"):
        engine.state()


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


def test_runs_are_the_same_whichever_way(tmp_path, monkeypatch):
    scenario = tiny(scenario={"rounds": 30}, learning={"eval_every": 3})
    monkeypatch.setattr(fused_rounds, "_WARM_UP", 5)
    run = simulate(scenario, out=tmp_path, name="two")
    torch.set_num_threads(1)
    assert_same_tables(run.path, simulate(scenario, out=tmp_path, name="one").path)


def test_parts_hold_the_same_rounds_and_events_whichever_way(tmp_path):
    """Rounds under way are not waited for: what happens meanwhile belongs to the next part."""
    trace = {"flush_every": 20, "checkpoint_every": 70}
    scenario = tiny(scenario={"rounds": 150}, learning={"eval_every": 3}, trace=trace)
    two = simulate(scenario, out=tmp_path, name="two").path
    torch.set_num_threads(1)
    one = simulate(scenario, out=tmp_path, name="one").path
    for table in ("rounds", "nodes", "links", "events"):
        parts = sorted(path.name for path in (one / table).iterdir())
        assert parts == sorted(path.name for path in (two / table).iterdir())
        assert len(parts) == 9  # three of 20 rounds and one of 10, twice; then the last 10
        for part in parts:
            assert pq.read_table(one / table / part).equals(pq.read_table(two / table / part)), (table, part)
