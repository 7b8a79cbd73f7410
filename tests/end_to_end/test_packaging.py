"""The wheel carries scenarios and channel models; the schema accepts what the loader accepts."""

import json
import os
import subprocess
import sys
import tomllib
import zipfile

import jsonschema
import pytest
from conftest import ROOT, command_line

import wirelessdl
from wirelessdl.scenario.loader import bundled_scenarios


@pytest.mark.slow
def test_the_wheel_runs_a_bundled_scenario_outside_the_checkout(tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("wirelessdl-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    code = """
import sys
import wirelessdl
from wirelessdl.cli.main import main

print(wirelessdl.__file__)
street = "channel.models=[{model='channel_models/street.py:Street'}]"
for extra in ([], ["--set", street]):
    sys.argv = ["wirelessdl", "run", "urban_er_k20", "--rounds", "2", "--json", *extra]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, stop.code
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    where, *lines = done.stdout.splitlines()
    assert where.startswith(str(tmp_path / "site"))  # or it proved nothing
    summaries = [told for told in map(json.loads, lines) if told["event"] == "summary"]
    assert [summary["rounds"] for summary in summaries] == [2, 2]


@pytest.fixture(scope="module")
def schema():
    """What the printed schema accepts."""
    printed = json.loads(command_line("schema").out)
    validator = jsonschema.validators.validator_for(printed)
    validator.check_schema(printed)
    return validator(printed)


@pytest.mark.parametrize("name", bundled_scenarios())
def test_schema_accepts_bundled_scenarios(name, schema):
    schema.validate(tomllib.loads(bundled_scenarios()[name].read_text()))


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("network", "topology", {"kind": "erdos-renyi", "p": 0}),
        ("network", "topology", {"kind": "erdos-reny", "p": 0.5}),
        ("network", "placement", {"kind": "disc", "radius": 5}),
        ("channel", "models", [{"model": "rician", "k": 5}]),
        ("privacy", "epsilon_max", 0),
        ("learning", "batchsize", 5),
    ],
)
def test_schema_refuses_what_the_loader_refuses(section, key, value, schema):
    table = tomllib.loads(bundled_scenarios()["quickstart"].read_text())
    table[section][key] = value
    with pytest.raises(jsonschema.ValidationError):
        schema.validate(table)


def test_list_check_and_version_speak(wirelessdl_command):
    assert wirelessdl_command("--version").out.strip() == f"wirelessdl, version {wirelessdl.__version__}"
    listed = wirelessdl_command("list").out
    for word in ("urban_er_k20", "erdos-renyi", "log-distance", "fashion-mnist-subset", "softmax", "street.py"):
        assert word in listed
    checked = wirelessdl_command("check", "quickstart", "--json").out
    assert json.loads(checked)["network"].startswith("4 nodes, full, 12 links")
    assert "quickstart: OK" in wirelessdl_command("check", "quickstart").out
