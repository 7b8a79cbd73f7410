"""Models of the user's: what runs, what is refused, and what blows up."""

import numpy as np
import pytest
import tomli_w
from conftest import refusal, tiny_table

import wirelessdl
from wirelessdl.errors import ScenarioError, TrainingError
from wirelessdl.learning.models.nets import Cnn
from wirelessdl.run.build import build
from wirelessdl.scenario.loader import parse_scenario

USERS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, classes: int, width: int = 12):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(784, width), nn.ReLU(), nn.Linear(width, classes))
    def forward(self, images):
        return self.net(images)

class Conv(nn.Module):
    def __init__(self, classes: int):
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(1, 4, 5, stride=4), nn.BatchNorm2d(4), nn.Linear(144, classes)
    def forward(self, images):
        return self.last(torch.relu(self.norm(self.conv(images))).flatten(1))

class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(784, 7)
    def forward(self, images):
        return self.last(images.flatten(1))

class Dropping(Net):
    def __init__(self, classes: int):
        super().__init__(classes)
        self.net.append(nn.Dropout())

class Bare(nn.Module):
    def forward(self, images):
        return images

class Exploding(Net):
    def forward(self, images):
        scores = super().forward(images)
        return scores / (scores.detach() * 0) if images.shape[0] == 8 else scores
"""

USERS += """
class Nearest:
    '''Pulls a mean per class towards its samples; gradients of its own, no autograd.'''
    def __init__(self, features: int, classes: int):
        self.shape, self.size = (classes, features + 1), classes * (features + 1)
    def initial(self, rng):
        return rng.normal(size=self.size) * 0.01
    def gradient(self, x, features, labels, clipping, clip_norm):
        hot = torch.nn.functional.one_hot(labels, self.shape[0]).to(x.dtype)
        pull = hot.sum(1).unsqueeze(2) * x.view(len(x), *self.shape) - torch.bmm(hot.mT, features)
        flat = pull.reshape(len(x), -1) / features.shape[1]
        return flat * (clip_norm / flat.norm(dim=1, keepdim=True)).clamp_max(1.0), flat.norm(dim=1)
    def scores(self, x, features):
        return features @ x.view(len(x), *self.shape).mT
"""


@pytest.fixture
def user_models(tmp_path):
    (tmp_path / "mine.py").write_text(USERS)
    return tmp_path


def with_model(folder, model, **sections):
    sections.setdefault("learning", {})["model"] = model
    table = tiny_table()
    for name, keys in sections.items():
        table[name] = {**table[name], **keys}
    (folder / "x.toml").write_text(tomli_w.dumps(table))
    return parse_scenario(table, folder=str(folder))


@pytest.mark.parametrize(
    ("model", "sections", "strategy"),
    [
        ({"model": "mine.py:Net", "width": 5}, {}, "vmap"),
        ({"model": "mine.py:Conv"}, {"privacy": {"clipping": "batch"}}, "threads"),
        ({"model": "mine.py:Nearest"}, {"privacy": {"clipping": "batch"}}, "closed-form"),
        ({"model": "mine.py:Nearest"}, {"learning": {"sampling": "poisson"}}, "closed-form"),
        (
            {"model": "mlp", "hidden": [9, 8], "activation": "tanh"},
            {"learning": {"sampling": "poisson"}},
            "closed-form",
        ),
        ({"model": "cnn", "channels": 4}, {"learning": {"sampling": "poisson"}}, "threads"),
    ],
)
def test_models_run_from_a_scenario(model, sections, strategy, user_models):
    run = wirelessdl.simulate(with_model(user_models, model, **sections), out=user_models / "out")
    assert run.provenance["strategy"] == strategy
    assert np.isfinite(run.nodes["loss"]).all()
    assert run.rounds["accuracy_mean"].notna().sum() == 1
    assert run.scenario["learning"]["model"]["model"] == model["model"]
    again = wirelessdl.simulate(with_model(user_models, model, **sections), out=user_models / "out")
    assert again.nodes["loss"].tolist() == run.nodes["loss"].tolist()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("mine.py:Conv", 'learning.model is Conv, whose layer "norm" normalises over the batch; per-sample clipping'),
        ("mine.py:Wide", "forward() of 2 samples of shape (1, 28, 28) returned (2, 7), expected (2, 10)"),
        ("mine.py:Dropping", "model is Dropping, which has Dropout; what it drops would depend on which thread"),
        ("mine.py:Bare", "model is Bare, which has no parameters"),
    ],
)
def test_modules_that_cannot_run_are_refused_in_one_line(model, words, user_models):
    with_model(user_models, model)
    assert words in refusal(user_models / "x.toml")


def test_a_learner_that_cannot_weigh_samples_is_refused_where_batches_are_padded(user_models):
    padded = {"sampling": "full"}
    scenario = with_model(user_models, "mine.py:Nearest", learning=padded, privacy={"clipping": "batch"})
    with pytest.raises(ScenarioError, match=r'sampling is "full"; .* gradient\(...\) of Nearest takes no weight'):
        build(scenario, device="cpu")
    build(with_model(user_models, "mine.py:Nearest", learning=dict(padded)), device="cpu")  # samples come one by one


def test_convolutions_on_plain_features_are_refused():
    with pytest.raises(ValueError, match="convolutions need images"):
        Cnn((5,), 3)


def test_a_loss_that_leaves_the_numbers_stops_with_node_round_and_cause(user_models):
    scenario = with_model(user_models, "mine.py:Exploding", scenario={"rounds": 3}, learning={"strategy": "threads"})
    with pytest.raises(TrainingError, match=r"loss of node 0 is nan in round 1; .* likely too large: lower"):
        wirelessdl.simulate(scenario, out=user_models / "out")
    run = wirelessdl.open_run(user_models / "out" / "tiny-s3-r1")
    assert run.rounds["round"].tolist() == [1, 2, 3]
    assert run.provenance["state"] == "failed"
