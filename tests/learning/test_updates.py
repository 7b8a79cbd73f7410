"""Updates: built-in members beside plain loops, users' files, and what becomes of one that does not keep its word."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import mostly_slow, tiny_table
from watching import Watched

from wirelessdl import ContractError, ScenarioError, resume, simulate
from wirelessdl.scenario.loader import parse_scenario

EXAMPLES = Path(__file__).parents[2] / "examples" / "updates"
OWN = {"objective": "own-noise", "alpha_min": 1e-9}
NETWORK = {"nodes": 5, "topology": {"kind": "erdos-renyi", "p": 0.6}}
DATA = {"kind": "synthetic", "classes": 3, "features": 6, "samples": 200, "test_samples": 20}
CRASH = {"crashes": {"kind": "schedule", "events": [{"node": 1, "at_s": 0.021, "for_s": 0.02}]}}
DOWN = {"crashes": {"kind": "schedule", "events": [{"node": 1, "at_s": 0.12, "for_s": 0.06}]}}
MEMBERS = {
    "momentum": {"update": "momentum", "momentum": 0.7},
    "nesterov": {"update": "nesterov"},
    "weight-decay": {"update": "weight-decay", "weight_decay": 0.2},
    "push-sum": {"update": "push-sum"},
    "local-steps": {"update": "local-steps", "local_steps": 3, "local_rate": 0.3},
    "heavy-ball": {"update": "heavy-ball"},
    "heavy-ball, declared": {"update": "heavy-ball", "update_kind": "step"},
    "top-k": {"update": "error-feedback", "top_k": 0.3},
    "one-bit": {"update": "error-feedback", "compression": "one-bit"},
    "gradient-tracking": {"update": "gradient-tracking", "tracking": 0.8},
}
DECLARED = ("heavy-ball, declared", "gradient-tracking")


def table(update, rounds=6, **sections):
    learning = {"dataset": DATA, "dtype": "float64", **(MEMBERS.get(update) or {"update": update})}
    given = {"network": NETWORK, "power": OWN, "scenario": {"rounds": rounds}, **sections}
    return tiny_table(**{**given, "learning": {**learning, **sections.get("learning", {})}})


def watched(update, folder="", **sections):
    return Watched(table(update, **sections), folder=str(folder))


def slow_model(name, s, old, t, step, oracle, clip):
    """x of one node before the ball, in plain NumPy. old: its state, changed in place; oracle: clipped gradients."""

    def clipped(v):
        return v * min(1.0, clip / max(np.sqrt(sum(number * number for number in v)), 1e-300))

    if name in ("momentum", "nesterov"):
        b = {"momentum": 0.7, "nesterov": 0.5}[name]
        base = s if t == 1 else s + b * (s - old["before"])
        old["before"] = s
        return base - step * oracle(base if name == "nesterov" else s)
    if name == "weight-decay":
        return 0.8 * s - step * oracle(s)
    if name == "push-sum":  # rows sum to one, so the weight stays one
        return s - step * oracle(s)
    if name == "local-steps":
        y, total = s, 0.0
        for _ in range(3):
            g = oracle(y)
            y, total = y - 0.3 * g, total + g
        return s - step * clipped(total)
    if name.startswith("heavy-ball"):
        old["v"] = 0.5 * old.get("v", 0.0) + oracle(s)
        return s - step * (old["v"] if "declared" in name else clipped(old["v"]))
    if name in ("top-k", "one-bit"):
        p = old.get("e", 0.0) - oracle(s)
        if name == "one-bit":
            q = np.sign(p) * np.mean(np.abs(p))
        else:
            q = np.zeros_like(p)
            for place in sorted(range(len(p)), key=lambda place: -abs(p[place]))[: math.ceil(0.3 * len(p))]:
                q[place] = p[place]
        old["e"] = p - q
        return s + step * clipped(q)
    g = oracle(s)
    base = s if t == 1 else s + 0.8 * (s - old["before"])
    x = base - step * (g - 0.8 * old.get("g", 0.0))
    old["before"], old["g"] = s, g
    return x


@pytest.mark.parametrize("name", MEMBERS)
def test_a_built_in_update_equals_its_slow_twin_in_float64(name):
    one = watched(name)
    learning, clip = one.world.learning, one.world.scenario.privacy.clip_norm
    inner, olds = learning.round, [{} for _ in range(5)]

    def round(given):
        result = inner(given)
        for node in range(5):
            calls = []

            def oracle(point, node=node, calls=calls):
                learning.draws.call = len(calls)
                calls.append(point)
                batch = learning.sampler.batch(learning.draws, node, given.round)
                return learning.gradients(node, [batch], torch.tensor(point)[None])[0].numpy()

            s, step = learning.held[node].numpy().copy(), float(given.update.step[node])
            x = slow_model(name, s, olds[node], given.round, step, oracle, clip)
            x = x * min(1.0, learning.radius / np.linalg.norm(x))
            np.testing.assert_allclose(learning.x[node].numpy(), x, rtol=1e-9, atol=1e-12)
        return result

    learning.round = round
    one.run()
    assert one.events["learning.update"][-1].round == 6


@pytest.mark.parametrize("name", MEMBERS)
def test_an_engine_that_is_restored_goes_on_bit_for_bit(name):
    """A crash among the rounds: the state of a node that takes no part stays as it was."""
    engines = [watched(name, rounds=8, faults=CRASH).world.learning for _ in range(2)]
    whole = watched(name, rounds=8, faults=CRASH)
    inputs, inner, states = [], whole.world.learning.round, []

    def round(given):
        states.append(whole.world.learning.state())
        inputs.append(given)
        return inner(given)

    whole.world.learning.round = round
    whole.run()
    assert any(given.update.keep.any() for given in inputs)
    part = engines[0]
    part.restore(states[5])
    for given in inputs[5:]:
        part.round(given)
    for array, values in whole.world.learning.state().items():
        assert np.array_equal(values, part.state()[array]), array


def test_push_sum_finds_the_mean_where_only_columns_sum_to_one(tmp_path):
    (tmp_path / "push.py").write_text(
        "import numpy as np\n\n\nclass Push:\n    def mix(self, links, gain, amplitude, on_air):\n"
        "        out = np.bincount(links.tx, minlength=links.nodes) + 1.0\n"
        "        return 1 / out[links.tx], 1 / out, np.zeros(links.nodes)\n"
    )
    (tmp_path / "graph.txt").write_text("tx,rx\n0,1\n1,2\n2,3\n3,4\n4,0\n0,2\n")
    sections = {
        "radio": {"access": "push.py:Push"},
        "privacy": {"epsilon_max": math.inf},
        "power": {**OWN, "balance": False, "multiplier": "none"},
        "network": {"nodes": 5, "topology": {"kind": "edge-list", "file": "graph.txt"}},
    }
    apart = {}
    for update in ("push-sum", "sgd"):
        one = watched(update, tmp_path, rounds=60, **sections)
        learning = one.world.learning
        generator = torch.Generator().manual_seed(1)
        start = 0.1 * torch.randn(learning._mixed.shape, generator=generator, dtype=torch.float64)
        learning._mixed.copy_(start)
        if learning._update is not None:
            learning._update.base.copy_(start)
        inner = learning.round

        def still(given, inner=inner):
            given.update.step[:] = 0.0
            return inner(given)

        learning.round = still
        one.run()
        apart[update] = float((learning._evaluated_models() - start.mean(dim=0)).abs().max())
    assert apart["push-sum"] < 1e-8  # what 60 rounds of this graph leave
    assert apart["sgd"] > 1e-3


# --- what is proven, and what is only declared


@pytest.mark.parametrize("name", [*MEMBERS, "sgd"])
def test_totals_are_proven_but_of_what_only_declares(name):
    one = watched(name)
    terms, exposure = one.world.terms, one.world.exposure
    kind = one.world.learning.kind
    assert terms.status == ("declared" if name in DECLARED else "proven")
    assert terms.amplified == (kind == "base")
    moved = {"base": 2.0 / 8, "change": 2.0, "step": one.world.learning.moves * 2.0 / 8}[kind]
    np.testing.assert_allclose(exposure.sensitivity, moved, rtol=1e-3)
    assert (exposure.sensitivity >= moved).all()
    assert ((exposure.sampling_rate < 1.0) == (kind == "base")).all()
    if name in DECLARED:
        words = "12 twins did not refute it; not proven"
        assert words in terms.adversary
        assert words in terms.conditions[0]
    for unit in ("sample", "node"):
        other = watched(name, privacy={"epsilon_max": 1.0, "unit": unit}).world
        assert other.exposure.sensitivity.min() >= (2.0 if unit == "node" else moved)


def test_the_words_of_a_declared_update_stand_wherever_its_total_does(tmp_path, wirelessdl_command):
    scenario = parse_scenario(table(f"{EXAMPLES}/gradient_tracking.py:Tracking", rounds=6))
    run = simulate(scenario, out=tmp_path)
    words = "gradient_tracking.py:Tracking keeps its declaration; 12 twins did not refute it; not proven"
    assert run.summary["epsilon_status"] == "declared"
    assert words in run.summary["adversary"]
    assert set(run.privacy[run.privacy["view"] == "own"]["status"]) == {"declared"}
    assert words in run.summary["epsilon_own_conditions"][0]
    path, given = str(run.path), str(run.path / "scenario.toml")
    for command in (("verify", path), ("plan", given), ("check", given)):
        shown = wirelessdl_command(*command)
        assert shown.code == 0, shown
        assert "not proven" in " ".join(shown.out.split()), command
    assert "not proven" in wirelessdl_command("list", str(tmp_path)).out
    wirelessdl_command("report", path)
    assert words in (run.path / "report.html").read_text(encoding="utf-8")


LIARS = """
import torch

class TwoSteps:
    '''Two local steps, sent as they are.'''
    def step(self, received, state, gradient, round):
        point = received - 0.1 * gradient(received)
        return received - gradient.step * (gradient(received) + gradient(point)), state

class Ball:
    '''Momentum of its own gradients, declared to move as one of them.'''
    def initial(self, received):
        return {"v": 0 * received}
    def step(self, received, state, gradient, round):
        v = 0.9 * state["v"] + gradient(received)
        return received - gradient.step * v, {"v": v}

class Kept(Ball):
    moves = 10.0

BEFORE = []

class Leaks:
    '''A change that holds the gradient of the node that was asked before: through a global, past its state.'''
    def change(self, received, state, gradient, round):
        g, other = gradient(received), BEFORE[-1] if BEFORE else 0 * received
        BEFORE[:] = [g]
        return -g - other, state

class Nothing:
    def update(self, received):
        return received

class Zero(Ball):
    def step(self, received, state, gradient, round):
        return received * 0.0, state


class OfClass:
    seen = []
    def change(self, received, state, gradient, round):
        self.seen.append(gradient(received))
        return -self.seen[-1] - self.seen[0], state

class Parent:
    seen = []

class OfParent(Parent):
    def change(self, received, state, gradient, round):
        self.seen.append(gradient(received))
        return -self.seen[-1] - self.seen[0], state

class Slots:
    __slots__ = ("seen",)
    def change(self, received, state, gradient, round):
        self.seen = gradient(received) + getattr(self, "seen", 0.0)
        return -self.seen, state

class Hides:
    '''What another node asked for, kept beside what cannot be written down.'''
    def __init__(self):
        self.rate, self.seen = (lambda: 1.0), []
    def change(self, received, state, gradient, round):
        self.seen.append(gradient(received))
        return -self.seen[-1] - self.seen[0], state

class Listens(torch.Tensor):
    '''Its operators are called with the gradient, where the engine steps from a base of it.'''

class Watches:
    def base(self, received, state, round):
        return received.as_subclass(Listens), received, state

class Sound:
    def initial(self, received):
        return {"v": 0 * received}
    def change(self, received, state, gradient, round):
        v = 0.5 * state["v"] + gradient(received)
        return -v, {"v": v}

class Writes(Sound):
    def change(self, received, state, gradient, round):
        found = super().change(received, state, gradient, round)
        gradient.step *= 1000.0
        received.zero_(), state["v"].zero_()
        return found

class Reaches(Sound):
    def change(self, received, state, gradient, round):
        change, kept = super().change(received, state, gradient, round)
        every = [values._base for values in (received, state["v"]) if values._base is not None]
        return change + sum(rows.sum(dim=0) for rows in every), kept

class Draws:
    def change(self, received, state, gradient, round):
        return torch.randn_like(received) - gradient(received), state
"""


@pytest.fixture
def liars(tmp_path):
    (tmp_path / "liars.py").write_text(LIARS)
    return tmp_path


def test_two_local_steps_sent_unclipped_are_refused_for_hundreds_of_times_their_declaration(liars):
    with pytest.raises(ContractError) as caught:
        watched("liars.py:TwoSteps", liars, learning={"sampling": "full", "dataset": {**DATA, "samples": 4000}})
    times = float(str(caught.value).split("its model ")[1].split(" times")[0])
    assert 100 < times <= 1 + 4000
    assert "it declares moves = 1: return the change from change(...)" in str(caught.value)


def test_memory_of_gradients_is_refused_where_less_is_declared_than_it_moves(liars):
    with pytest.raises(ContractError, match=r"moved its model [2-9][.\d]* times .* declares moves = 1"):
        watched("liars.py:Ball", liars)
    watched("liars.py:Kept", liars).run()  # 1 / (1 - 0.9)


def test_rounding_of_a_declared_step_stays_below_what_is_charged_however_far_what_was_received_is(liars):
    """x is 0; what it is off by is rounding in float32 of a difference that is no longer than R."""
    one = watched("liars.py:Zero", liars, learning={"dtype": "float32"}, privacy={"epsilon_max": 0.01})
    engine = one.run().world.learning
    assert torch.linalg.vector_norm(engine.held, dim=1).min() > 10 * engine.radius
    assert torch.linalg.vector_norm(engine.x, dim=1).max() < engine.radius * 2.0**-24


@pytest.mark.parametrize("update", ["Writes", "Reaches"])
def test_what_a_class_writes_into_and_reaches_from_what_it_is_given_changes_nothing(update, liars):
    """Else the engine's own step is 1,000 times as long in float64, and views of all rows hold other nodes' data."""
    ours, sound = (watched(f"liars.py:{name}", liars).run() for name in (update, "Sound"))
    np.testing.assert_array_equal(ours.after_round, sound.after_round)


def test_what_torch_draws_in_an_update_is_keyed_by_node_and_round(liars):
    runs = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        runs.append(watched("liars.py:Draws", liars).run().after_round)
    np.testing.assert_array_equal(*runs)
    assert not np.allclose(runs[0][1], runs[0][0])


@pytest.mark.parametrize(
    ("update", "words"),
    [
        ("liars.py:Nothing", "the class needs a method base(received, state, round), or change("),
        ("liars.py:Hides", "Hides.change remembers in self"),
        ("liars.py:OfClass", "OfClass.change remembers in self"),
        ("liars.py:OfParent", "OfParent.change remembers in self"),
        ("liars.py:Slots", "Slots.change remembers in self"),
        ("liars.py:Watches", "Watches.base returned a base that is not (5, 21) finite numbers"),
    ],
)
def test_a_class_that_is_no_update_is_one_line(liars, update, words):
    with pytest.raises((ScenarioError, ContractError)) as caught:
        watched(update, liars).run()
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("learning", "words"),
    [
        (
            {"update": "sgd", "momentum": 0.7},
            '"sgd", which does not read it: leave it out, or set update to "momentum"',
        ),
        ({"update": "local-steps", "update_kind": "base"}, '"local-steps" has no such method: use "auto", or change'),
    ],
)
def test_a_key_that_changes_nothing_is_refused(learning, words):
    with pytest.raises(ScenarioError) as caught:
        watched("sgd", learning=learning)
    assert words in str(caught.value)


def test_push_sum_is_refused_where_more_than_one_averaging_makes_a_round():
    with pytest.raises(ScenarioError, match="whose weight is mixed in one slot; leave out"):
        watched("push-sum", radio={"mixing_passes": 2})


# --- users' files


def example(name, folder=""):
    kinds = {"momentum": "Momentum", "local_steps": "LocalSteps", "gradient_tracking": "Tracking"}
    return watched(f"{EXAMPLES}/{name}.py:{kinds[name]}", folder)


@pytest.mark.parametrize(
    ("name", "built_in"),
    [
        ("momentum", {"update": "momentum"}),
        ("local_steps", {"update": "local-steps"}),
        ("gradient_tracking", {"update": "gradient-tracking"}),
    ],
)
def test_a_user_s_file_of_fifteen_lines_does_what_the_built_in_one_does(name, built_in):
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 15
    ours, theirs = example(name).run(), watched("sgd", learning=built_in).run()
    assert ours.world.learning.kind == theirs.world.learning.kind
    np.testing.assert_array_equal(ours.world.exposure.sensitivity, theirs.world.exposure.sensitivity)
    for one, other in zip(ours.after_round, theirs.after_round):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "update",
    mostly_slow(["liars.py:Kept", "liars.py:Draws", "nesterov", "push-sum", "top-k", "heavy-ball"], "nesterov"),
)
def test_a_run_that_is_interrupted_while_a_node_is_down_resumes_bit_for_bit(update, liars, tmp_path):
    sections = {"trace": {"checkpoint_every": 20, "flush_every": 20}, "learning": {"eval_every": 30}, "faults": DOWN}
    scenario = parse_scenario(table(update, rounds=60, **sections), folder=str(liars))
    whole = simulate(scenario, out=tmp_path / "whole")
    done = []
    part = simulate(scenario, out=tmp_path / "part", on_round=done.append, should_stop=lambda: len(done) >= 30)
    assert part.state == "interrupted"
    down = part.nodes[part.nodes["node"] == 1].set_index("round")["up"]
    assert not down.iloc[-1]
    part = resume(part.path)
    for one, other in zip(whole.final_models(), part.final_models()):
        assert all(torch.equal(one[name], other[name]) for name in one)
    for name in ("rounds", "nodes"):
        pd.testing.assert_frame_equal(getattr(whole, name), getattr(part, name))
