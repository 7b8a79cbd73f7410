"""A learning rate and a number of rounds that follow from public numbers."""

import math

import numpy as np
import pytest

from wirelessdl.errors import ScenarioError
from wirelessdl.gaussian import analytic_mu
from wirelessdl.run.build import build
from wirelessdl.run.wiring import make_engine, run_rounds
from wirelessdl.scenario.loader import load_scenario


def scenario(*overrides):
    """Twenty nodes, 12,000 samples, features of norm 10."""
    automatic = ("scenario.rounds='auto'", "learning.learning_rate='auto'", "privacy.clip_norm=5")
    return load_scenario("urban_er_k20", overrides=[*automatic, *overrides])


def test_rounds_follow_from_the_total_alone():
    assert scenario().scenario.rounds == 40
    more = scenario("privacy.epsilon_total=3").scenario.rounds
    assert more == math.ceil(140 * analytic_mu(3.0, 1e-5)) > 80
    assert scenario("privacy.epsilon_total=3", "learning.dataset='cifar10'").scenario.rounds == more
    assert scenario("privacy.epsilon_total=inf", "privacy.epsilon_max=1").scenario.rounds == 40
    with pytest.raises(ScenarioError, match="whose stage takes rounds of its own: set 40 and its frames"):
        scenario("privacy.gram_share=0.2")
    with pytest.raises(ScenarioError, match=r'scenario.rounds is "most"; must be an integer .* or "auto"'):
        scenario("scenario.rounds='most'")


def test_noise_in_a_score_reaches_what_the_rate_was_made_for():
    """The formula by hand, and the noise that nodes really send: sigma of a release, pairs gone in the mean."""
    world = build(scenario(), device="cpu")
    rate, rounds, norm, clip, samples = world.schedule.rate(1), 40, 10.0, 5.0, 12_000
    own = 1 / (1 + 14 * 1.414**2 / (1 + 1.414**2))
    noise = math.sqrt(20 * own) * 2 * clip / (samples * analytic_mu(1.0, 1e-5))
    wanted = 0.64 * math.log(1 + norm / clip)
    assert rate == pytest.approx(wanted / (rounds * norm * noise) / 20)
    # each release hides 2C/n times rate and multiplier by own / hidden share; the mean of nodes has 1/K of its variance
    released = 2 * clip / (samples / 20) * rate * 20 / world.mu_max
    in_mean = released * math.sqrt(own / 20)
    # the first of 40 rounds has no gradient to send
    assert norm * in_mean * math.sqrt(rounds - 1) == pytest.approx(wanted * 39 / 40, rel=1e-3)
    assert world.spans_run


def test_a_step_has_a_largest_size_where_noise_is_small():
    world = build(scenario("privacy.epsilon_total=1000", "scenario.rounds=5"), device="cpu")
    assert world.schedule.rate(3) == pytest.approx(64 / (10 * 5) / 20)
    white = scenario("privacy.epsilon_total=1000", "scenario.rounds=63", "privacy.gram_share=0.2")
    assert build(white, device="cpu").schedule.rate(3) == pytest.approx(160 / (10 * 5) / 20)


def test_what_a_gram_stage_takes_and_another_adjacency_enter_the_rate():
    """23 of 62 rounds and a fifth of mu^2 go to the stage; a null record moves a gradient half as far."""
    rates = [
        build(scenario(*more), device="cpu").schedule.rate(1)
        for more in ((), ("scenario.rounds=62", "privacy.gram_share=0.2"), ("privacy.adjacency='zero-out'",))
    ]
    assert rates[1] == pytest.approx(rates[0] * math.sqrt(0.8))
    assert rates[2] == pytest.approx(rates[0] * 2)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("learning.sampling='poisson'", r'learning_rate is "auto" with learning.sampling "poisson"'),
        ("learning.features='none'", "features of no declared norm"),
        ("learning.update='nesterov'", r'with learning.update "nesterov"'),
        ("privacy.clipping='batch'", r'with privacy.clipping "batch"'),
    ],
)
def test_where_the_rule_does_not_hold_a_rate_is_asked_for(override, words):
    with pytest.raises(ScenarioError, match=words):
        build(scenario(override), device="cpu")


@pytest.mark.slow
def test_the_automatic_rate_is_within_two_points_of_the_tuned_one():
    """On the main example, whose rate was chosen on held-out training images; at its clip norm and at another."""
    found = []
    for one in (load_scenario("urban_er_k20"), scenario(), scenario("privacy.clip_norm=1")):
        world = build(one, device="cpu")
        engine = make_engine(world)
        run_rounds(world, engine)
        found.append(float(np.mean(world.learning.accuracy(world.learning.held).cpu().numpy())))
    assert min(found[1:]) > found[0] - 0.02
