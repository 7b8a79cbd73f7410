"""Named baselines: every one over every bundled scenario, on the command line, and before a user's own overrides."""

import pytest
from conftest import ROOT

import wirelessdl
from wirelessdl.errors import ScenarioError
from wirelessdl.scenario.loader import bundled_scenarios, load_scenario

NAMES = ["local", "central", "d-psgd", "no-privacy", "own-noise", "tdma", "digital", "central-dp"]


@pytest.mark.parametrize("scenario", bundled_scenarios())
def test_every_baseline_of_every_bundled_scenario_is_valid(scenario):
    base = load_scenario(scenario)
    for name in NAMES:
        found = load_scenario(scenario, baseline=name)
        assert found.scenario.name == f"{base.scenario.name}-{name}"
        assert found.scenario.model_copy(update={"name": base.scenario.name}) == base.scenario
        kept = {"dataset", "model", "features", "batch_size", "batch_fraction", "sampling", "learning_rate", "dtype"}
        kept |= {"projection_radius", "augment", "eval_every"}
        kept -= {"batch_size"} if name == "central-dp" else set()
        assert {key: getattr(found.learning, key) for key in kept} == {key: getattr(base.learning, key) for key in kept}
        for key in ("protocol", "unit", "clipping", "clip_norm", "rho", "delta", "delta_total"):
            assert getattr(found.privacy, key) == getattr(base.privacy, key)


def test_what_the_baselines_are():
    base = "urban_er_k20_ideal"  # pairs, passes and a promised total: everything that could be in the way
    every = [load_scenario(base, baseline=name) for name in NAMES]
    local, central, d_psgd, no_privacy, own, tdma, digital, central_dp = every
    assert not central_dp.silent
    assert (central_dp.network.nodes, central_dp.power.multiplier) == (1, 20.0)
    assert central_dp.learning.batch_size == 20 * load_scenario(base).learning.batch_size
    assert (central_dp.privacy.epsilon_total, central_dp.privacy.noise.name) == (1.0, "independent")
    assert load_scenario("quickstart", baseline="central-dp").power.multiplier == 4.0
    assert local.silent
    assert local.network.nodes == 20
    assert local.learning.partition.name == "shards"
    assert central.silent
    assert central.network.nodes == 1
    assert central.learning.partition.name == "iid"
    assert (d_psgd.radio.access.name, d_psgd.power.multiplier, d_psgd.radio.thermal_noise) == ("tdma", "none", False)
    assert d_psgd.radio.mixing_passes == d_psgd.learning.closing_passes == 0
    for scenario in (d_psgd, no_privacy):
        assert scenario.privacy.epsilon_max == scenario.privacy.epsilon_total == float("inf")
    assert (no_privacy.radio.access.name, no_privacy.radio.mixing_passes) == ("oac", 10)
    assert (own.privacy.noise.name, own.privacy.epsilon_total, own.power.objective) == ("independent", 1.0, "own-noise")
    assert (tdma.radio.access.name, tdma.privacy.noise.name, tdma.privacy.epsilon_total) == ("tdma", "pairwise", 1.0)
    assert (digital.radio.access.name, digital.privacy.noise.name, digital.radio.mixing_passes) == (
        "digital",
        "pairwise",
        0,
    )


def test_overrides_come_after_the_baseline():
    scenario = load_scenario("quickstart", baseline="d-psgd", overrides=["power.multiplier=auto"])
    assert scenario.power.multiplier == "auto"


def test_unknown_baselines_suggest_the_nearest(wirelessdl_command):
    with pytest.raises(ScenarioError, match="no baseline locla; did you mean local"):
        load_scenario("quickstart", baseline="locla")
    result = wirelessdl_command("run", "quickstart", "--baseline", "locla")
    assert result.code == 2
    assert len(result.err.splitlines()) == 1


def test_a_baseline_that_cannot_be_is_one_line(wirelessdl_command):
    result = wirelessdl_command("check", "stragglers_clocked_k20", "--baseline", "tdma")
    assert result.code == 2
    assert "with baseline tdma: time.policy.period_s is 0.015; a frame takes" in result.err


def test_a_long_name_stays_within_its_limit(tmp_path):
    text = (ROOT / "scenarios/quickstart.toml").read_text().replace('"quickstart"', f'"{"x" * 100}"')
    (tmp_path / "long.toml").write_text(text)
    name = load_scenario(tmp_path / "long.toml", baseline="no-privacy").scenario.name
    assert len(name) == 100
    assert name.endswith("-no-privacy")


def test_run_check_and_plan_take_a_baseline(wirelessdl_command, tmp_path):
    for command in ("check", "plan"):
        result = wirelessdl_command(command, "quickstart", "--baseline", "local")
        assert result.code == 0, result.err
        assert "quickstart-local" in result.out
    result = wirelessdl_command("run", "quickstart", "--baseline", "local", "--rounds", "2", "--quiet")
    assert result.code == 0, result.err
    run = wirelessdl.open_run(tmp_path / "outputs/quickstart-local-s7-r1")
    assert run.summary["epsilon_total"] == 0.0
