"""The Gram stage in whole runs: its charge beside exact transcripts, in the ledger, over hubs, resumed."""

import math
import shutil

import exact_transcripts
import numpy as np
import pytest
import tomli_w
import torch
from conftest import over, refusal, tiny, tiny_table
from exact_transcripts import Transcript
from hostile import arrays, sign
from interrupting import HELD, HOLD, StopAt, assert_same_tables, start, wait_for_hold

import wirelessdl
from wirelessdl.analysis.releases import promised_totals
from wirelessdl.analysis.verify import verify
from wirelessdl.errors import TraceError
from wirelessdl.gaussian import analytic_epsilon, analytic_mu
from wirelessdl.learning.gram import Gram, triangle
from wirelessdl.preview.plan import preview_plan
from wirelessdl.privacy import total_epsilon
from wirelessdl.run.build import build
from wirelessdl.run.session import simulate
from wirelessdl.run.wiring import make_engine, run_rounds
from wirelessdl.trace.checkpoint import load_checkpoint

DELTA, SHARE, NODES = 1e-5, 0.3, 6
FRAMES = 3  # 60 features, 10 classes
DATA = {"kind": "synthetic", "features": 60, "samples": 600, "test_samples": 50}
PAIRS = {"noise": "pairwise", "coalition": 2, "pair_ratio": 1.4}
HUBS = {"alignment": "hubs", "thermal_noise": True, "truncate_snr_db": 18, "subslots": 1}
DOWN_AT_FIRST = {"node": 5, "at_s": 0.0, "for_s": 0.008}
CRASH = {"kind": "schedule", "events": [{"node": 5, "at_s": 0.005, "for_s": 0.012}]}


def sections(**more):
    promise = {"epsilon_max": math.inf, "epsilon_total": 2.0, "delta_total": DELTA, "gram_share": SHARE}
    base = {
        "scenario": {"name": "gram", "rounds": 7},
        "privacy": promise,
        "learning": {"dataset": DATA, "eval_every": 2},
    }
    return exact_transcripts.toy(**over(base, more))


def toy(**more):
    return tiny(**sections(**more))


class StageTranscript(Transcript):
    """A transcript whose triangles are what one sample changes in them: as far as it may, and in every frame.

    times: by how much more than the sensitivity.
    """

    def __init__(self, scenario, node, times=1.0, **more):
        self.times = times
        real = Gram.sent

        def sent(gram, frame, part, *_):
            rows = torch.zeros(self.world.nodes, gram.size, dtype=torch.float64)
            share = np.sqrt(np.arange(1, gram.frames + 1) / (gram.frames * (gram.frames + 1) / 2))
            rows[node, -2] = self.times * self.world.gram.sensitivity * share[frame - 1]
            return rows[part]

        Gram.sent = sent
        try:
            super().__init__(scenario, node, **more)
        finally:
            Gram.sent = real

    def _watched(self, given):
        result = super()._watched(given)
        if given.gram is not None:  # what was received, by everyone
            self.heard.append(self.learning.gram.chunk(given.round).clone())
        return result


CASES = {
    "own noise, passes": {"radio": {"mixing_passes": 2}},
    "pairs": {"privacy": PAIRS},
    "pairs, hubs": {"privacy": PAIRS, "radio": HUBS, "learning": {"closing_passes": 1}},
    "pairs, hubs that fail": {"privacy": PAIRS, "radio": {**HUBS, "hub_failure": 0.4}},
    "pairs, crashes": {"privacy": PAIRS, "faults": {"crashes": CRASH, "rejoin": "listen"}},
    "zero-out, one after another": {"privacy": {"adjacency": "zero-out"}, "radio": {"access": "tdma"}},
}


def case(name):
    made, given = sections(), CASES[name]
    return toy(**{part: {**made.get(part, {}), **section} for part, section in given.items()})


@pytest.mark.parametrize("name", CASES)
def test_a_transcript_tells_exactly_what_is_charged(name):
    """mu of all that is sent and received in stage and training, by least squares over its joint Gaussian."""
    scenario = case(name)
    transcript = StageTranscript(scenario, 0)
    assert [one.release.stage for one in transcript.decisions] == [True] * FRAMES + [False] * 4
    coalition = scenario.privacy.noise.name == "pairwise"
    view, known = ("coalition", (1, 2)) if coalition else ("own", tuple(range(1, NODES)))
    charged = transcript.charged(view)
    assert transcript.mu(known) == pytest.approx(charged, rel=1e-6)
    stage = math.sqrt(sum(getattr(one.release, f"{view}_mu")[0] ** 2 for one in transcript.decisions[:FRAMES]))
    total = analytic_mu(2.0, DELTA)
    assert stage == pytest.approx(math.sqrt(SHARE) * total, rel=1e-6)
    assert charged == pytest.approx(total, rel=1e-6)


def test_a_node_that_crashes_in_the_stage_is_charged_for_all_that_it_sent():
    transcript = StageTranscript(case("pairs, crashes"), 5)
    on_air = [bool(one.on_air[5]) for one in transcript.decisions]
    assert not all(on_air[:FRAMES])
    assert transcript.mu((0, 1)) <= transcript.charged() * (1 + 1e-6)


def test_a_triangle_that_moves_further_than_its_sensitivity_is_seen():
    transcript = StageTranscript(case("pairs"), 0, times=1.2)
    assert transcript.mu((1, 2)) > 1.02 * transcript.charged()


@pytest.mark.parametrize("sampling", ["full", "poisson", "without-replacement"])
def test_the_ledger_composes_one_release_that_nothing_amplifies_with_those_of_training(sampling, tmp_path):
    run = simulate(toy(learning={**sections()["learning"], "sampling": sampling, "batch_size": 20}), out=tmp_path)
    assert run.rounds["stage"].tolist() == ["gram"] * FRAMES + ["train"] * 4
    assert run.rounds["violations"].sum() == 0
    total, mu = run.summary["epsilon_total"], math.sqrt(SHARE) * analytic_mu(2.0, DELTA)
    assert total <= 2.0 * (1 + 1e-9)
    assert total > 1.9
    assert verify(run.path).problems == ()
    world = build(toy(learning={**sections()["learning"], "sampling": sampling, "batch_size": 20}))
    accountant, sampler = ("gdp", "full-batch") if sampling == "full" else ("pld", sampling)
    given = {"delta": DELTA, "accountant": accountant, "sampler": sampler}
    again = max(total_epsilon(1 / world.mu_max, float(q), 4, beside=mu, **given) for q in world.exposure.sampling_rate)
    assert total == pytest.approx(again, rel=2e-2)  # noise is rounded down by 1% where it is counted
    assert run.rounds["loss_mean"].isna().tolist() == [True] * (FRAMES - 1) + [False] * 5
    others = promised_totals(run).epsilon
    assert "rdp" not in others  # it would leave the stage out
    plain = analytic_epsilon(math.hypot(mu, 2.0 * world.mu_max), DELTA)
    assert others["gdp"].max() == pytest.approx(plain, rel=2e-2)


@pytest.mark.parametrize(("batch", "rounds", "epochs"), [(25, 7, 2), (25, 8, 2), (33, 8, 3), (50, 8, 3)])
def test_epochs_are_counted_from_the_round_of_the_first_gradient(batch, rounds, epochs, tmp_path):
    """100 samples of a node; gradients of rounds 3 .. T - 1: a stage that ends within an epoch leaves a part of it."""
    scenario = toy(scenario={"rounds": rounds}, learning={"sampling": "shuffled", "batch_size": batch})
    world, mu = build(scenario), math.sqrt(SHARE) * analytic_mu(2.0, DELTA)
    assert math.hypot(mu, math.sqrt(epochs) * world.mu_max) == pytest.approx(analytic_mu(2.0, DELTA), rel=1e-5)
    assert preview_plan(world).forecast == {"gdp": pytest.approx(2.0, rel=1e-4)}
    assert simulate(scenario, out=tmp_path).summary["epsilon_total"] == pytest.approx(2.0, rel=1e-5)


def test_nodes_train_on_rows_of_one_preconditioner():
    """Over hubs, without noise to speak of: what nodes received is the mean of all triangles."""
    privacy = {**sections()["privacy"], "epsilon_total": 1e5, **PAIRS}
    learning = {**sections()["learning"], "closing_passes": 20, "learning_rate": {"kind": "constant", "initial": 0.05}}
    world = build(toy(radio={"power_dbm": 60, **HUBS, "truncate_snr_db": 12}, privacy=privacy, learning=learning))
    run_rounds(world, make_engine(world))
    gram = world.learning.gram
    assert gram.apart < 0.05
    every = sum(gram_of(world, node) for node in range(NODES))
    for node in range(NODES):
        found = gram.heard[node, : len(every)].numpy()
        cosine = found @ every / np.linalg.norm(found) / np.linalg.norm(every)
        assert cosine > 0.999


def gram_of(world, node):
    return triangle(world.data.train_x[world.client_indices[node]])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["privacy.epsilon_total=inf", "privacy.epsilon_max=1.0"], "gram_share is 0.3 with privacy.epsilon_total inf"),
        (["learning.update=nesterov"], 'with another update; plain steps are proven: use "sgd"'),
        (["privacy.unit=node"], 'with privacy.unit "node"; all samples of a node move it without bound'),
        (["scenario.rounds=3"], "its stage takes 3 rounds of scenario.rounds 3: set at least 4, or gram_share = 0"),
        (["learning.dataset=fashion-mnist-subset"], "needs samples that are rows of features"),
    ],
)
def test_what_does_not_go_with_a_stage_is_one_line(changes, said, tmp_path):
    path = tmp_path / "gram.toml"
    path.write_text(tomli_w.dumps(tiny_table(**sections())))
    assert said in refusal(path, *changes)


def test_baselines_of_a_scenario_with_a_stage_are_valid(tmp_path):
    path = tmp_path / "gram.toml"
    path.write_text(tomli_w.dumps(tiny_table(**sections())))
    shares = {
        name: wirelessdl.load_scenario(path, baseline=name).privacy.gram_share
        for name in ("local", "no-privacy", "central-dp")
    }
    assert shares == {"local": 0.0, "no-privacy": 0.0, "central-dp": SHARE}
    central = wirelessdl.load_scenario(path, baseline="central-dp")
    assert simulate(central, out=tmp_path).summary["epsilon_total"] == pytest.approx(2.0, rel=1e-6)
    here, there = (preview_plan(build(scenario)) for scenario in (wirelessdl.load_scenario(path), central))
    assert here.central == pytest.approx(there.noise_to_update, rel=1e-4)


@pytest.mark.parametrize("view", ["own", "coalition"])
def test_a_checkpoint_that_counts_a_frame_of_the_stage_as_charged_is_refused(view, tmp_path):
    """Node 5 is down in the first frame. If its triangle were taken for charged, it would be sent for nothing.

    As it was written, the run goes on.
    """
    stop, scenario = StopAt(1), toy(privacy=PAIRS, faults={"crashes": {**CRASH, "events": [DOWN_AT_FIRST]}})
    run = wirelessdl.simulate(scenario, out=tmp_path, on_round=stop.on_round, should_stop=stop.should_stop).path
    name = f"pending_stage_{view}"
    kept = load_checkpoint(run).arrays[name]
    assert kept[5] == 0 < kept[0]
    whole = shutil.copytree(run, tmp_path / "whole")
    assert not verify(wirelessdl.resume(whole).path).problems
    arrays(name, lambda charged: np.full_like(charged, charged.max()))(run)
    sign(run)
    with pytest.raises(TraceError, match=rf"counts more of the Gram stage of node 5 as charged .*\(view {view}\)"):
        wirelessdl.resume(run)


@pytest.mark.slow
def test_killed_in_the_middle_of_the_stage_and_resumed_it_equals_an_uninterrupted_run(tmp_path):
    changes = {
        "scenario": {"rounds": 34},
        "privacy": PAIRS,
        "radio": {"alignment": "hubs", "truncate_snr_db": 18, "subslots": 1},
        "learning": {"dataset": {**DATA, "features": 120, "classes": 2}, "closing_passes": 1},
        "trace": {"checkpoint_every": 20, "flush_every": 20, "connect": HELD},
    }
    made = sections()
    table = tiny_table(**made | {name: {**made.get(name, {}), **section} for name, section in changes.items()})
    for folder in (tmp_path / "killed", tmp_path / "whole"):
        folder.mkdir()
        (folder / "hold.py").write_text(HOLD)
        (folder / "tiny.toml").write_text(tomli_w.dumps(table))
    process = start("tiny.toml", "--quiet", cwd=tmp_path / "killed", hold_in=25)
    wait_for_hold(tmp_path / "killed", process)
    process.kill()
    process.communicate()
    (killed,) = (tmp_path / "killed" / "outputs").iterdir()
    assert load_checkpoint(killed).round == 20
    whole = simulate(wirelessdl.load_scenario(tmp_path / "whole" / "tiny.toml"), out=tmp_path / "whole")
    assert whole.rounds["stage"].tolist() == ["gram"] * 30 + ["train"] * 4
    assert_same_tables(wirelessdl.resume(killed).path, whole.path)
