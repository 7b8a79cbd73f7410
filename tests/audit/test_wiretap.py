"""An engine that starts again is as if just built, and tells gradients that its rounds would take."""

import numpy as np
import pytest
import torch
from conftest import tiny
from made_engines import bytes_data, make, order

from wirelessdl.audit.wiretap import Wiretap
from wirelessdl.run.build import build
from wirelessdl.streams import Streams


@pytest.mark.parametrize("sampling", ["without-replacement", "shuffled"])
def test_an_engine_that_starts_again_is_as_if_just_built(sampling):
    learning = {"sampling": sampling, "dataset": {"kind": "synthetic", "samples": 200, "test_samples": 10}}
    used, fresh = (build(tiny(scenario={"run": run}, learning=learning), device="cpu").learning for run in (1, 2))
    for round in (1, 2, 3):
        used.round(order(4, round))
    used.restart(Streams(3, 2))
    for round in (1, 2, 3):
        used.round(order(4, round))
        fresh.round(order(4, round))
        assert torch.equal(used.x, fresh.x)


def test_gradients_are_those_of_the_round():
    engine = make(bytes_data(), nodes=3, projection_radius=1e9)
    engine.round(order(3))
    for node in range(3):
        batch = engine.sampler.batch(engine.draws, node, 1)
        held = engine.held[node]
        found = engine.gradients(node, [batch, batch[:0]], torch.stack([held, held]))
        torch.testing.assert_close(held - 0.3 * found[0], engine.x[node])
        assert not found[1].any()  # nobody's gradient is none


def test_a_wiretap_hears_what_is_sent():
    engine = make(bytes_data(), nodes=3)
    tap = Wiretap(engine)
    weights = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]])
    before = engine.x.clone()
    engine.round(order(3, weights=weights))
    eta = torch.empty_like(before)
    engine.draws.fill_normal(eta, 1, "noise")
    torch.testing.assert_close(tap.sent, before + 0.1 * eta)
