"""The reading path: Algorithm 1 in loops equals the engine, in float64, for learners of every strategy."""

import numpy as np
import pytest
import torch
from conftest import tiny_table

from wirelessdl.round.reference import Node, Radio, reference_round
from wirelessdl.run.build import build
from wirelessdl.run.wiring import make_engine, run_rounds
from wirelessdl.scenario.loader import parse_scenario

MODELS = {
    "softmax": {"model": "softmax"},
    "an MLP": {"model": {"model": "mlp", "hidden": [5]}},
    "a CNN": {"model": {"model": "cnn", "channels": 2}},
}


def normal(world, round, purpose):
    out = torch.empty(world.nodes, world.learning.learner.size, dtype=torch.float64)
    world.learning.draws.fill_normal(out, round, purpose)
    return out.numpy()


CSI = """
import numpy as np

class Off:  # estimates that differ from |h|; without phase errors, which the paper does not have
    def estimate(self, links, gain, pilot_w, noise_w, rng):
        return gain * (1 + 0.1 * np.sin(links.number))
"""


@pytest.mark.parametrize("learner", MODELS)
def test_algorithm_1_in_loops_is_what_the_engine_does(learner, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "csi.py").write_text(CSI)
    given = tiny_table(
        scenario={"rounds": 4},
        network={"nodes": 5, "topology": {"kind": "erdos-renyi", "p": 0.6}},
        channel={"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        radio={"thermal_noise": True, "csi": "csi.py:Off"},
        power={"objective": "own-noise", "alpha_min": 1e-9},
        learning={"dtype": "float64", **MODELS[learner]},
    )
    world = build(parse_scenario(given), device="cpu")
    engine, learning, scenario = make_engine(world), world.learning, world.scenario
    nodes = [Node(x=model, s=model) for model in learning.x.numpy()]
    draws, rounds = learning.draws, []
    inner = learning.round

    def gradient(node, round, point):
        batch = draws.batch(node, round, len(world.client_indices[node]), scenario.learning.batch_size)
        return learning.gradients(node, [batch], torch.from_numpy(point)[None])[0].numpy()

    def watched(given):
        decision = engine._decision
        channel, plan = decision.channel, decision.plan
        dense = [channel.links.matrix(channel.of_links(values)) for values in (channel.heard_gain, channel.gain_est)]
        radio = Radio(*dense, plan.alpha, decision.budget_w, world.thermal_w)
        reference_round(
            nodes,
            radio,
            given.round,
            gamma=world.schedule.rate(given.round),
            rho=scenario.privacy.rho,
            sensitivity=world.exposure.sensitivity,
            radius=learning.radius,
            gradient=gradient,
            eta=normal(world, given.round, "noise"),
            thermal=normal(world, given.round, "thermal"),
        )
        result = inner(given)
        rounds.append(given.round)
        # 1e-9: a linear solve against 20,000 steps of a walk, and sums in another order
        np.testing.assert_allclose(learning.held.numpy(), [node.s for node in nodes], rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(learning.x.numpy(), [node.x for node in nodes], rtol=1e-9, atol=1e-11)
        charged = [node.mu[-1] if node.mu else 0.0 for node in nodes]
        np.testing.assert_allclose(decision.release.own_mu, charged, rtol=1e-12)
        return result

    learning.round = watched
    run_rounds(world, engine)
    assert rounds == [1, 2, 3, 4]
