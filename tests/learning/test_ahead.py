"""What a second thread does beside the round changes no number: noise drawn ahead, evaluations on their way."""

import threading

import numpy as np
import pytest
import torch
from conftest import tiny
from interrupting import assert_same_tables
from made_engines import bytes_data, make, order

from wirelessdl.learning.ahead import Ahead
from wirelessdl.learning.draws import NodeDraws, _fill_rows, rows_in_turn
from wirelessdl.learning.models.closed_form import Mlp
from wirelessdl.run.session import simulate
from wirelessdl.streams import Streams

CPU = torch.device("cpu")


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def perceptron(data):
    return make(data, learner=Mlp(data.features, data.classes, hidden=[4]))


def draws(nodes=4):
    return NodeDraws(Streams(3), nodes, CPU, passes=2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_filled_without_the_interpreters_lock_are_the_same(dtype):
    seeds = [5, 2**32 - 1, 0, 77]
    found = [torch.empty(4, 501, dtype=dtype) for _ in range(2)]
    _fill_rows(found[0], seeds, torch.Generator())
    rows_in_turn(found[1], seeds, torch.Generator())
    assert torch.equal(*found)


def test_noise_drawn_ahead_is_that_of_the_round():
    ahead = Ahead(draws(), torch.empty(4, 300))
    ahead.rounds, taken = 3, 0
    for round in (1, 2, 3, 4, 5, 6, 7, 20, 21, 22, 23, 24):  # with a gap
        for purpose in ("noise", "thermal", 1):
            found, expected = ahead.normal(round, purpose), torch.empty(4, 300)
            draws().fill_normal(expected, round, purpose)
            if round < 3 or 20 <= round < 24:
                assert found is None
            elif found is not None:
                assert torch.equal(found, expected)
                taken += 1
        wait(ahead)
        ahead.expect(round + 1)
        wait(ahead)
    assert taken == 3 * 6
    assert len(ahead._rooms) == 6  # two for each purpose, whatever the number of rounds


def wait(ahead):
    for one in ahead._blocks.values():
        one.result(10)


def test_what_is_not_used_any_more_is_not_drawn_for_ever():
    ahead = Ahead(draws(), torch.empty(4, 30))
    ahead.rounds = 2
    for round in range(1, 9):
        ahead.normal(round, "thermal")
        if round < 3:
            ahead.normal(round, "noise")
        ahead.expect(round + 1)
        wait(ahead)
    assert {purpose for _, purpose in ahead._blocks} == {"thermal"}


def test_work_that_has_not_begun_is_left_to_the_one_who_needs_it():
    ahead, gate = Ahead(draws(), torch.empty(4, 30)), threading.Event()
    ahead.rounds = 1
    ahead.normal(1, "noise")
    evaluation = ahead.evaluate(lambda models: models + (not gate.wait(10)), torch.ones(1))
    ahead.expect(2)
    assert ahead.normal(3, "noise") is None  # and does not wait for the evaluation
    assert not evaluation.done()
    gate.set()
    assert evaluation.result(10) == torch.ones(1)


@pytest.mark.usefixtures("two_threads")
def test_other_streams_forget_what_was_drawn():
    engine, other = perceptron(bytes_data()), perceptron(bytes_data())
    assert engine._ahead is not None
    engine.round(order(5))
    for one in (engine, other):
        one.restart(Streams(9))
        one.round(order(5, round=2))
    np.testing.assert_array_equal(engine.state(), other.state())


@pytest.mark.usefixtures("two_threads")
def test_an_evaluation_is_of_the_models_as_they_were():
    engine = perceptron(bytes_data())
    result = engine.round(order(5, evaluate=True))
    expected = engine.accuracy(engine._mixed)
    for round in (2, 3, 4):
        engine.round(order(5, round=round))
    assert result.evaluated
    assert torch.equal(result.accuracy, expected)
    assert result.known


@pytest.mark.usefixtures("two_threads")
def test_an_error_in_an_evaluation_comes_out_where_it_is_asked_for(monkeypatch):
    engine = perceptron(bytes_data())
    monkeypatch.setattr(engine.strategy, "scores", lambda *_: (_ for _ in ()).throw(MemoryError))
    result = engine.round(order(5, evaluate=True))
    with pytest.raises(MemoryError):
        _ = result.accuracy


@pytest.mark.parametrize("patient", [False, True])
@pytest.mark.usefixtures("two_threads")
def test_runs_are_the_same_and_evaluations_are_told_in_order(tmp_path, patient):
    model = {"model": "mlp", "hidden": [4]}
    scenario = tiny(scenario={"rounds": 30}, learning={"eval_every": 3, "model": model})
    told, rounds = [], []
    run = simulate(
        scenario,
        out=tmp_path,
        name="two",
        on_evaluation=lambda progress: told.append((progress.round, len(rounds))),
        on_round=rounds.append,
        patient=patient,
    )
    assert [round for round, _ in told] == list(range(3, 31, 3))
    if not patient:  # at the end of the very round
        assert all(heard == round - 1 for round, heard in told)
    torch.set_num_threads(1)
    assert_same_tables(run.path, simulate(scenario, out=tmp_path, name="one").path)
