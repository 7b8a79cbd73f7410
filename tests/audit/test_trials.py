"""Likelihood ratios of the real engine: distributed as those of the Gaussian releases that are charged."""

import numpy as np
import pytest
from broken_engines import REGRESSION, assert_gaussian, attacked

from wirelessdl.audit import AuditJob, make_trial, run_trials, trial_streams
from wirelessdl.audit.canary import candidates, cut, planted
from wirelessdl.audit.recording import record, same_frames
from wirelessdl.run.build import build


def first_canary(scenario, node=0):
    world = build(scenario, device="cpu")
    return next(iter(candidates(world.data, world.client_indices[node])))


def trials_of(scenario, knowledge, count, rounds=4, samples=64):
    recording = record(build(scenario, device="cpu", plant=cut(samples)), rounds)
    job = AuditJob(scenario, rounds, 0, samples, first_canary(scenario), knowledge)
    trial, _ = make_trial(job)
    trials = run_trials(job, trial, count, workers=1)
    return trials, recording


@pytest.mark.slow
def test_ratios_of_full_batches_are_those_of_the_charged_gaussian():
    # gradients of a sample with labels +L and -L are C and -C at every model: exactly the worst case
    trials, recording = trials_of(attacked(privacy={"epsilon_max": 2.0}, learning=REGRESSION), "batch", 600)
    assert_gaussian(trials.own, trials.with_canary, np.sqrt(np.sum(recording.mu("own")[:, 0] ** 2)))


@pytest.mark.parametrize("update", ["sgd", "momentum", "nesterov", "weight-decay", "push-sum"])
def test_the_score_of_an_attack_is_that_of_the_charged_gaussian_in_every_trial(update):
    """Given what was sent before, a release adds N(+-d^2 / 2, d^2) to the score, d what twins differ by over the noise.

    So sum d^2 <= mu^2 in every trial is more than any number of trials shows. Labels +L and -L attain it.
    """
    scenario = attacked(learning={**REGRESSION, "update": update})
    trial, (recording, _) = make_trial(AuditJob(scenario, 4, 0, 64, first_canary(scenario), "batch"))
    charged = np.sqrt(np.sum(recording.mu("own")[:, 0] ** 2))
    found = [trial.run(bool(number % 2), trial_streams(scenario, number)).mu for number in range(16)]
    assert max(found) <= charged * (1 + 1e-6)
    assert min(found) >= charged * (1 - 1e-3)  # less what rounding of models in float32 is charged with


@pytest.mark.parametrize(("sampling", "knowledge"), [("without-replacement", "rate"), ("poisson", "rest")])
def test_ratios_of_sampled_batches_are_likelihood_ratios(sampling, knowledge):
    scenario = attacked(learning={"sampling": sampling, "batch_size": 8})
    trials, *_ = trials_of(scenario, knowledge, 300, rounds=3, samples=16)
    # E[p/q] under q is 1, whatever the law: three standard errors
    for ratio in (np.exp(trials.own[~trials.with_canary]), np.exp(-trials.own[trials.with_canary])):
        assert ratio.mean() == pytest.approx(1.0, abs=3 * ratio.std() / np.sqrt(len(ratio)))
    assert trials.own[trials.with_canary].mean() > trials.own[~trials.with_canary].mean()


def test_two_data_sets_differ_in_one_sample_and_in_nothing_that_is_decided():
    scenario = attacked()
    canary = first_canary(scenario)
    one, two = (
        build(scenario, device="cpu", plant=planted(canary, 0, 16, with_canary=present)) for present in (False, True)
    )
    differs = (one.data.train_x != two.data.train_x).any(axis=1)
    assert np.flatnonzero(differs).tolist() == [one.client_indices[0][0]]
    assert [len(client) for client in one.client_indices] == [16, 16, 16]
    here, there = record(one, 3), record(two, 3)
    assert same_frames(here, there)
    other = record(build(attacked(privacy={"epsilon_max": 3.0}), device="cpu", plant=cut(16)), 3)
    assert not same_frames(here, other)
