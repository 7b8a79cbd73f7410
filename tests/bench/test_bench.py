"""Benchmarks compare like with like, and say what they skip."""

import dataclasses

import numpy as np
import pytest
import torch
from made_engines import bytes_data, make, order


def test_benchmarks_skip_what_is_not_installed_and_report_what_is_counted():
    from importlib import import_module

    from bench.suites import SUITES, Contest, measure

    for target in SUITES.values():
        module, _, function = target.partition(":")
        assert callable(getattr(import_module(module), function))
    skipped = measure(Contest("peer", ours=list, other=list, at_least=8.0, skipped="not installed: peer"))
    assert (skipped.met, skipped.note, skipped.target) == (None, "not installed: peer", ">= 8x the speed")
    counted = measure(Contest("memory", ours=lambda: 0.5, other=lambda: 2.0, at_most=1.0, unit="GB", reported=True))
    assert (counted.ratio, counted.met, counted.unit) == (0.25, True, "GB")


def test_the_cost_of_every_component_is_measured_at_any_size():
    from bench.scale import COMPONENTS, measured

    found = measured("geometric", 30, rounds=3)
    assert set(COMPONENTS) <= set(found["cpu_s"])
    assert found["links"] > 0 < found["peak_gb"]


@pytest.mark.parametrize("kind", ["NaiveLoop", "CarefulLoop"])
def test_the_loops_we_are_measured_against_learn_the_same(kind):
    """Same data, mixing and step, no noise and full batches: else the ratio would compare two different things."""
    from functools import partial

    from bench import naive

    data = bytes_data(40)
    engine = make(data, nodes=4, sampling="full", clipping="batch", dtype="float32")
    weights = np.array([[0.5, 0.5, 0, 0], [0.25, 0.5, 0.25, 0], [0, 0.25, 0.5, 0.25], [0.2, 0, 0.3, 0.5]])

    def build_module():
        module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 3))
        torch.nn.init.zeros_(module[1].weight)
        torch.nn.init.zeros_(module[1].bias)
        return module

    loop = getattr(naive, kind)(build_module, data, engine.client_indices, weights, batch_size=10)
    quiet = partial(dataclasses.replace, noise_scale=np.zeros(4))
    for round in (1, 2, 3):
        engine.round(quiet(order(4, round=round, weights=weights, thermal=0.0)))
        loop.round(0.0, 0.3)
    for node, module in enumerate(loop.models):
        found = torch.cat([module[1].weight, module[1].bias.unsqueeze(1)], dim=1).detach()
        torch.testing.assert_close(engine.x[node].to(found).view(3, 37), found, atol=1e-5, rtol=1e-4)


def test_the_least_work_of_a_round_counts_operations_as_layers_do():
    from bench.limit import operations_of

    layer = torch.nn.Linear(7, 3, bias=False)
    # forward and the gradient of the weights; the input needs none
    assert operations_of(layer, torch.randn(5, 7)) == 2 * (2 * 5 * 7 * 3)


def test_the_stages_of_a_bundled_run_add_up_to_it_and_its_payloads_are_counted():
    from bench.limit import STAGES, Measured

    run = Measured("urban_er_k20", ("scenario.rounds=2", "learning.closing_passes=0"))
    whole = run.ours()
    (spent,) = run._stages
    assert sum(spent[name] for name in STAGES) == pytest.approx(2 * whole)  # two rounds
    assert min(spent.values()) > 0
    assert (run._work.rounds, run._work.evaluations) == (2, 1)
    assert len(run._work.receivers) >= 8  # two hubs a round at least: each collects, and each sends back
