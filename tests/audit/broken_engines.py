"""A small scenario to attack, and three engines that do not do what is charged."""

import pytest
import torch
from conftest import tiny

from wirelessdl.learning.draws import NodeDraws
from wirelessdl.learning.sampling import Sampler

REGRESSION = {
    "dataset": {"kind": "synthetic-regression", "features": 16, "samples": 600, "test_samples": 20},
    "model": "ridge",
}


def attacked(**sections):
    """Three nodes, three classes, 16 features: a round takes a millisecond."""
    made = {
        "scenario": {"rounds": 60},
        "network": {"nodes": 3},
        "privacy": {"epsilon_max": 4.0},
        "power": {"objective": "own-noise"},
    }
    for name, section in sections.items():
        made[name] = {**made.get(name, {}), **section}
    data = {"kind": "synthetic", "classes": 3, "features": 16, "samples": 600, "test_samples": 20}
    made["learning"] = {"dataset": data, "sampling": "full", **made.get("learning", {})}
    return tiny(**made)


def halve_noise(patch: pytest.MonkeyPatch) -> None:
    """Half of the noise that the plan asks for."""
    real = NodeDraws.fill_normal

    def fill_normal(self, out, round, purpose, nodes=None):
        real(self, out, round, purpose, nodes)
        if purpose == "noise":
            out.mul_(0.5)

    patch.setattr(NodeDraws, "fill_normal", fill_normal)


def stop_clipping(patch: pytest.MonkeyPatch) -> None:
    """Samples' gradients are summed as they are."""
    patch.setattr("wirelessdl.learning.models.closed_form.clip_factor", lambda norm, _: torch.ones_like(norm))


def reuse_batch(patch: pytest.MonkeyPatch) -> None:
    """The batch of the first round in every round."""
    real = Sampler.batches
    patch.setattr(Sampler, "batches", lambda self, draws, nodes, round: real(self, draws, nodes, 1))  # noqa: ARG005
