"""The canary attack: sound engines pass, broken ones are caught, and what cannot be audited is one line."""

import json
import subprocess
import sys
import time

import psutil
import pytest
import tomli_w
from broken_engines import REGRESSION, attacked, halve_noise, reuse_batch, stop_clipping

from wirelessdl.audit import AuditOptions, audit_scenario
from wirelessdl.errors import ScenarioError
from wirelessdl.scenario.loader import load_scenario

QUICK = AuditOptions(trials=250, rounds=5)
PAIRWISE = ["privacy.noise=pairwise", "power.objective=own-noise"]


def test_a_sound_engine_passes_and_the_attack_comes_close():
    report = audit_scenario(attacked(), QUICK)
    (own,) = report.views
    assert report.sound
    assert report.reach > 0.9
    # 200 trials after the pilot leave about 0.3 of mu unproven
    assert 0.6 * own.proven < own.attack < own.proven


@pytest.mark.parametrize("broken", [halve_noise, stop_clipping])
def test_a_broken_engine_is_caught(broken, monkeypatch, tmp_path, wirelessdl_command):
    broken(monkeypatch)
    path = tmp_path / "attacked.toml"
    path.write_text(tomli_w.dumps(attacked().to_table()))
    shown = wirelessdl_command(
        "audit", str(path), "--trials", "250", "--rounds", "5", "--workers", "1", "--json", "--node", "1"
    )
    assert shown.code == 1
    report = json.loads(shown.out)
    own = report["views"][0]
    assert report["node"] == 1
    assert not report["sound"]
    assert own["attack"] > 1.2 * own["proven"]


@pytest.mark.parametrize(
    "sections",
    [
        {"learning": {"sampling": "without-replacement"}},
        pytest.param({"learning": {"sampling": "without-replacement", "batch_fraction": 0.25}}, marks=pytest.mark.slow),
        pytest.param({"learning": {"sampling": "shuffled"}}, marks=pytest.mark.slow),
        pytest.param({"learning": {"model": {"model": "mlp", "hidden": [4]}}}, marks=pytest.mark.slow),
        {"privacy": {"epsilon_max": 8.0, "protocol": "paper", "clipping": "batch"}, "power": {"balance": False}},
        {"radio": {"access": "tdma"}},
        {"radio": {"alignment": "hubs", "thermal_noise": True, "hub_failure": 0.2}},
        {"faults": {"crashes": {"kind": "schedule", "events": [{"node": 0, "at_s": 0.001, "for_s": 0.01}]}}},
    ],
    ids=["without-replacement", "fraction", "shuffled", "mlp", "paper", "tdma", "hubs", "crash"],
)
def test_sound_engines_of_other_kinds_pass(sections):
    report = audit_scenario(attacked(**sections), AuditOptions(trials=60, rounds=4, samples=16))
    assert report.sound
    assert 0 < report.reach < 1 + 1e-3  # nothing moves a transmission more than is charged


def test_the_command_prints_attack_beside_proof_and_two_processes_give_what_one_gives(tmp_path, wirelessdl_command):
    path = tmp_path / "attacked.toml"
    path.write_text(tomli_w.dumps(attacked().to_table()))
    asked = ("audit", str(path), "--trials", "60", "--rounds", "3", "--samples", "16", "--workers")
    shown = wirelessdl_command(*asked, "2")
    assert shown.code == 0
    for words in ("attack >=", "proven <=", "keeps 16 of its 200 samples", "none exceeds what is proven"):
        assert words in shown.out
    assert wirelessdl_command(*asked, "1").out == shown.out


@pytest.mark.parametrize(
    ("overrides", "options", "said"),
    [
        ([], {"trials": 0}, "--trials is 0; must be at least 50"),
        ([], {"rounds": 1}, "--rounds is 1; must be from 2"),
        ([], {"rounds": 500}, "to scenario.rounds = 200"),
        ([], {"node": 4}, "--node is 4; no such node: nodes are 0 to 3"),
        ([], {"node": -1}, "--node is -1; no such node"),
        ([], {"samples": 100}, "--samples is 100; must be at least 128, a batch"),
        ([], {"workers": 0}, "--workers is 0; must be at least 1"),
        (["privacy.epsilon_max=inf"], {}, "privacy.epsilon_max is inf; nothing is claimed"),
        (["privacy.unit=node"], {}, 'privacy.unit is "node"; the audit replaces one sample'),
        (["learning.augment=flip-crop"], {}, 'learning.augment is "flip-crop"; the audit cannot know'),
        ([], {"coalition": 1}, '--coalition is 1 and privacy.noise "independent"'),
        (PAIRWISE, {"coalition": 5}, "--coalition is 5; must be from 1 to 3"),
        (PAIRWISE, {"coalition": 0}, "--coalition is 0; must be from 1 to 3"),
    ],
)
def test_what_cannot_be_audited_is_one_line(overrides, options, said):
    with pytest.raises(ScenarioError) as caught:
        audit_scenario(load_scenario("quickstart", overrides=overrides), AuditOptions(**options))
    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.slow
def test_a_batch_that_is_used_again_is_caught(monkeypatch):
    # q = 1/8, mu about 0.6 in each of 30 rounds: fresh batches hide most of it, one batch for all hides little
    scenario = attacked(
        learning={**REGRESSION, "sampling": "without-replacement", "batch_size": 4}, privacy={"epsilon_max": 2.2}
    )
    options = AuditOptions(trials=2400, rounds=31, samples=32)
    sound = audit_scenario(scenario, options)
    assert sound.sound
    reuse_batch(monkeypatch)
    broken = audit_scenario(scenario, options)
    assert not broken.sound
    assert broken.views[0].proven == sound.views[0].proven
    assert broken.views[0].evidence.rule == "rates"  # it shows in the tail


@pytest.mark.slow
def test_with_full_batches_quickstart_is_attacked_to_within_15_percent(wirelessdl_command):
    shown = wirelessdl_command("audit", "quickstart", "--set", "learning.sampling=full", "--json")
    own = json.loads(shown.out)["views"][0]
    assert shown.code == 0
    assert 0.85 * own["proven"] < own["attack"] < own["proven"]


@pytest.mark.slow
def test_workers_end_when_the_audit_is_killed():
    """They waited for trials for ever, each with what it had loaded."""
    command = [sys.executable, "-m", "wirelessdl", "audit", "quickstart", "--trials", "100000", "--workers", "2"]
    audit = psutil.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    workers, until = [], time.monotonic() + 600
    try:
        while len(workers) < 2 and time.monotonic() < until:
            time.sleep(0.2)
            started = [child for child in audit.children() if any("spawn_main" in word for word in child.cmdline())]
            workers = [child for child in started if child.cpu_times().user > 3.0]  # imports are over
        assert len(workers) == 2
    finally:
        audit.kill()
        audit.wait()
    _, alive = psutil.wait_procs(workers, timeout=60)
    for left in alive:
        left.kill()
    assert not alive
