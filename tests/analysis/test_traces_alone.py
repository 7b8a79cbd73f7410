"""Looking at a run takes its traces and nothing else: no torch, no simulator, no file of the user's."""

import json
import subprocess
import sys
import tomllib

import pytest
import tomli_w
from conftest import tiny, tiny_table

from wirelessdl import open_run, simulate
from wirelessdl.analysis.figures import CURVES, SINGLE

# every key of a scenario that may name a class in a file
PARTS = [
    *("network.topology", "network.placement", "network.mobility", "channel.models", "radio.csi", "power.allocator"),
    *("learning.dataset", "learning.model", "learning.partition", "learning.learning_rate", "time.compute"),
    *("time.policy", "faults.crashes", "faults.blockage", "faults.stragglers", "faults.jammer", "trace.connect"),
]
NAME = "planted.py:Planted"
FORBIDDEN = ["torch", "torchvision", "simpy"]
UPDATES = ["wirelessdl.learning", "wirelessdl.learning.updates"]  # members of a family say what is proven of a run
ROOMS = ["sim", "round", "run", "preview", "learning", "radio", "channel", "network", "power"]
LOADERS = ["wirelessdl.scenario.loader", "wirelessdl.scenario.part", "wirelessdl.scenario.schema"]  # of users' files


@pytest.fixture
def run(tmp_path):
    return simulate(tiny(scenario={"rounds": 4}), out=tmp_path / "outputs")


def looks(run, folder):
    """Every command that looks at runs, a second run beside the first where one is needed."""
    other = simulate(tiny(scenario={"rounds": 4, "run": 2}), out=folder / "outputs").path
    yield from (
        ["plot", str(run.path), "--figure", figure, "--out", str(folder / f"{figure}.png")]
        for figure in (*CURVES, *SINGLE)
    )
    yield ["report", str(run.path), "--accountants", "--csv", str(folder / "csv"), "--tensorboard", str(folder / "tb")]
    yield ["compare", str(run.path), str(other)]
    yield ["compare", str(run.path), str(other), "--json"]
    yield ["list", str(run.path.parent)]


def test_reports_figures_and_comparisons_need_no_torch_and_no_simulator(run, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import json, sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] in {FORBIDDEN}:\n"
        "            raise ModuleNotFoundError(f'no module named {name!r} here', name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from wirelessdl.cli.main import main\n"
        "codes = []\n"
        "for arguments in json.loads(sys.argv[1]):\n"
        "    sys.argv = ['wirelessdl', *arguments]\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as stop:\n"
        "        codes.append(stop.code or 0)\n"
        "loaded = [name for name in sys.modules if name.startswith('wirelessdl.')]\n"
        "print(json.dumps([codes, sorted(loaded)]), file=sys.stderr)\n"
    )
    commands = list(looks(run, tmp_path))
    done = subprocess.run(
        [sys.executable, script, json.dumps(commands)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    codes, loaded = json.loads(done.stderr.splitlines()[-1])
    assert codes == [0] * len(commands), done.stderr
    rooms = {name.split(".")[1] for name in loaded if name not in UPDATES and not name.startswith(f"{UPDATES[1]}.")}
    assert not rooms & set(ROOMS)
    assert not set(loaded) & set(LOADERS)
    assert {"analysis", "trace", "privacy"} <= set(rooms)


def planted(table, key):
    """A scenario's table that names the planted class at a key."""
    section, name = key.split(".")
    value = {"channel.models": [{"model": NAME}], "trace.connect": {"phy.rx": [NAME]}}.get(key, NAME)
    return {**table, section: {**table.get(section, {}), name: value}}


def plant(folder, marker):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "planted.py").write_text(
        f"open({str(marker)!r}, 'a').write('ran')\n\n\nclass Planted:\n    def __init__(self):\n        pass\n"
    )


def test_no_file_that_a_run_names_is_executed(run, tmp_path, wirelessdl_command):
    """The file lies wherever a scenario's files are looked for, and in the run itself."""
    marker, commands = tmp_path / "marker", list(looks(run, tmp_path))
    origin = json.loads((run.path / "provenance.json").read_text())
    for folder in (run.path / "models", run.path, run.path.parent, tmp_path, tmp_path / "home"):
        plant(folder, marker)
    (run.path / "provenance.json").write_text(json.dumps({**origin, "folder": str(tmp_path / "home")}))
    table = tomllib.loads((run.path / "scenario.toml").read_text())
    for key in PARTS:
        table = planted(table, key)
    (run.path / "scenario.toml").write_text(tomli_w.dumps(table))
    assert (run.path / "scenario.toml").read_text().count(NAME) == len(PARTS)
    for command in commands:
        done = wirelessdl_command(*command)
        assert done.code == 0, done.err
        assert not marker.exists(), command
    opened = open_run(run.path, strict=False)
    assert len(opened.final_models()) == run.scenario["network"]["nodes"]
    opened.plot("accuracy")
    assert "<svg" in opened._repr_html_()
    assert not marker.exists()
    assert "planted" not in sys.modules
    # nor is anything left out for it
    page = (run.path / "report.html").read_text()
    assert all(f'"name":"{accountant}"' in page for accountant in ("pld", "rdp", "rdp-wang19", "gdp"))


@pytest.mark.parametrize("key", PARTS)
def test_the_planted_file_is_one_that_runs_when_a_scenario_is_built(key, tmp_path, wirelessdl_command):
    """Without this the test above could not fail."""
    marker = tmp_path / "marker"
    plant(tmp_path, marker)
    (tmp_path / "x.toml").write_text(tomli_w.dumps(planted(tiny_table(), key)))
    wirelessdl_command("check", "x.toml")  # most are no such part, which is an error after the import
    assert marker.exists()
