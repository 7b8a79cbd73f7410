"""Learning rates: each form by its formula, always positive, and honest about what depends on the rounds."""

import math

import pytest
from conftest import tiny

from wirelessdl.errors import ScenarioError, TraceError
from wirelessdl.learning.schedule import Constant, Cosine, Inverse, InverseSqrt, Piecewise, WarmUp
from wirelessdl.run.build import build
from wirelessdl.run.session import resume, simulate


def rates(schedule, rounds):
    return [schedule.rate(t) for t in range(1, rounds + 1)]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (InverseSqrt(0.1), [0.1, 0.1 / math.sqrt(2), 0.1 / math.sqrt(3), 0.05]),
        (Constant(0.02), [0.02] * 3),
        (Inverse(mu=0.5, theta=10.0), [1 / (0.5 * 10 * t) for t in (1, 2, 3, 4)]),  # Theorem 2's
        (Inverse(initial=0.3), [0.3, 0.15, 0.1]),
        (Cosine(rounds=10, initial=0.2), [0.1 * (1 + math.cos(math.pi * t / 10)) for t in range(10)]),
        (Cosine(rounds=6, initial=0.2, final=0.1, length=2), [0.2, 0.15, 0.1, 0.1, 0.1, 0.1]),
        (Piecewise([2, 4], [0.3, 0.2, 0.1]), [0.3, 0.3, 0.2, 0.2, 0.1, 0.1]),
        (Piecewise([], [0.3]), [0.3, 0.3]),
    ],
)
def test_every_form_is_its_formula(schedule, expected):
    found = rates(schedule, len(expected))
    assert found == pytest.approx(expected)
    assert min(found) > 0


@pytest.mark.parametrize("given", [{}, {"mu": 1.0}, {"theta": 4.0}, {"initial": 0.1, "mu": 1.0}])
def test_inverse_wants_one_way_of_saying_it(given):
    with pytest.raises(ValueError, match=r"initial is .*; give initial alone, or mu and theta"):
        Inverse(**given)


@pytest.mark.parametrize(
    ("then", "form"),
    [
        ("inverse-sqrt", InverseSqrt(0.1)),
        ("constant", Constant(0.1)),
        ("inverse", Inverse(initial=0.1)),
        ("cosine", Cosine(rounds=16, initial=0.1)),
    ],
)
def test_warm_up_climbs_and_then_hands_over(then, form):
    found = rates(WarmUp(rounds=20, length=4, start=0.02, initial=0.1, then=then), 20)
    assert found[:4] == pytest.approx([0.02, 0.04, 0.06, 0.08])
    assert found[4:] == pytest.approx(rates(form, 16))


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"kind": "cosine", "initial": 0.05, "final": 0.1}, "final is 0.1; must be <= initial, which is 0.05"),
        ({"kind": "cosine", "length": 1}, "final is 0; 1 rounds come after length, and rates must be > 0"),
        ({"kind": "piecewise", "boundaries": [1], "rates": [0.1]}, "rates is [0.1]; must be one more than boundaries"),
        ({"kind": "piecewise", "boundaries": [3, 3], "rates": [0.1, 0.1, 0.1]}, "boundaries is [3, 3]; must rise"),
        ({"kind": "piecewise", "boundaries": [], "rates": [-0.1]}, "rates is [-0.1]; must be > 0"),
        ({"kind": "piecewise"}, "missing key learning.learning_rate.boundaries; piecewise needs it"),
        ({"kind": "warm-up", "length": 2}, "length is 2; must be below the number of rounds, which is 2"),
        ({"kind": "warm-up", "length": 1, "start": 1}, "start is 1; must be <= initial, which is 0.1"),
        ({"kind": "warm-up", "then": "sine"}, "then is 'sine'; must be"),
        ({"kind": "inverse"}, "initial is absent; give initial alone"),
        ({"kind": "cosine", "rounds": 5}, "unknown key learning.learning_rate.rounds"),
        ({"kind": "constant", "initial": 0.5}, "privacy.rho is 10; rho times the largest learning rate is 5"),
    ],
)
def test_bad_schedules_are_told(part, words):
    with pytest.raises(ScenarioError) as told:
        build(tiny(learning={"learning_rate": part}), device="cpu")
    assert words in str(told.value)
    assert "\n" not in str(told.value)


def test_a_cosine_run_cannot_be_extended_unless_its_length_is_said(tmp_path):
    """More rounds would have meant other rates from the start; noise already sent was made for the old ones."""
    short = {"scenario": {"rounds": 3}}
    run = simulate(tiny(learning={"learning_rate": {"kind": "cosine"}}, **short), out=tmp_path, device="cpu")
    with pytest.raises(TraceError, match=r"scenario\.rounds was 3, is 5; start a new run instead"):
        resume(run.path, rounds=5, device="cpu")
    said = {"kind": "cosine", "length": 3, "final": 0.01}
    run = simulate(tiny(learning={"learning_rate": said}, **short), out=tmp_path, device="cpu")
    longer = resume(run.path, rounds=5, device="cpu")
    assert longer.rounds["learning_rate"].to_numpy()[3:] == pytest.approx([0.01, 0.01])
