"""A mistake is one clear line, exit code 2, and nothing left behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tomli_w
from conftest import tiny_table

# override, and words the line must hold
MISTAKES = [
    ("learning.batch_size=many", 'learning.batch_size is "many"; must be an integer'),
    ("learning.batchsize=3", "unknown key learning.batchsize; did you mean learning.batch_size?"),
    ("privacy.nodes=3", "unknown key privacy.nodes; did you mean network.nodes?"),
    ("nonsense.key=3", "unknown key nonsense; known: channel, learning"),
    (
        "network.topology.kind=erdos-reny",
        'network.topology.kind is "erdos-reny"; no such model; did you mean erdos-renyi?',
    ),
    ("channel.models.0.model=raileigh", 'channel.models[0].model is "raileigh"; no such model; did you mean rayleigh?'),
    ("learning.model=perceptron", 'learning.model.model is "perceptron"; no such model; known: softmax'),
    ("channel.models.0.hihg=2", "unknown key channel.models[0].hihg; did you mean high?"),
    ("channel.models.0.low=-1", "channel.models[0].low is -1; must be > 0"),
    ("channel.models.0.low=loud", "channel.models[0].low is 'loud'; must be a number"),
    ("channel.models.0.low=2", "channel.models[0].high is 1; must be >= low, which is 2"),
    ("privacy.epsilon_max=0", "privacy.epsilon_max is 0; must be > 0, or inf for no privacy noise"),
    ("privacy.epsilon_max=-1", "privacy.epsilon_max is -1; must be > 0, or inf for no privacy noise"),
    ("privacy.epsilon_max=nan", "privacy.epsilon_max is nan; must be > 0, or inf for no privacy noise"),
    ("privacy.epsilon_max=1e-9", "cannot meet epsilon_max=1e-09"),
    ("privacy.delta=1", "privacy.delta is 1; must be > 0 and < 1"),
    ("privacy.protocol=paper", 'use clipping = "batch", or protocol = "hardened"'),
    ("privacy.rho=1000", "privacy.rho is 1000; rho times the largest learning rate is 100, must be <= 1"),
    ("network.nodes=1", "network.nodes is 1; must be an integer >= 2"),
    ("network.topology={kind='erdos-renyi', p=0}", "network.topology.p is 0; must be > 0"),
    ("network.topology={kind='erdos-renyi', p=0.001}", "network.topology.p is 0.001; none of 1000 graphs of 4 nodes"),
    ("network.topology={kind='erdos-renyi'}", "missing key network.topology.p; erdos-renyi needs it"),
    ("network.topology={kind='full', p=1}", "unknown key network.topology.p; full takes no parameters"),
    ("learning.batch_size=4000", "learning.batch_size is 4000; node 0 has only 3000 samples: lower batch_size"),
    ("scenario.rounds=-5", "scenario.rounds is -5; must be >= 1"),
    ("scenario.name=a/b", 'scenario.name is "a/b"; must be letters, digits'),
    ("channel.models.0.model=nowhere.py:X", "no file nowhere.py in"),
    ("channel.models.0.model=broken.py:X", "broken.py line 2 raised ZeroDivisionError: division by zero"),
    ("channel.models.0.model=syntax.py:X", "syntax.py line 1 raised SyntaxError"),
    ("channel.models.0.model=good.py:Goood", "good.py has no Goood; did you mean Good?"),
    ("channel.models.0={model='good.py:Good', valeu=2}", "unknown key channel.models[0].valeu; did you mean value?"),
    ("channel.models.0={model='good.py:Good', value=-1}", "ContractError: good.py:Good.gain returned -1"),
    ("channel.models.0={model='good.py:Silent'}", "which has no method gain(links, time_s, rng)"),
    ("channel.models.3.low=1", "3 is no entry of a list of 1; count from 0"),
    ("rounds=3", "must be section.key=value"),
    ("scenario.rounds.x=3", "rounds is a value, not a section"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    (tmp_path / "x.toml").write_text(tomli_w.dumps(tiny_table()))
    (tmp_path / "broken.py").write_text("x = 1\ny = x / 0\n")
    (tmp_path / "syntax.py").write_text("def (:\n")
    (tmp_path / "good.py").write_text(
        "import numpy as np\n"
        "class Good:\n"
        "    def __init__(self, value=1.0): self.value = value\n"
        "    def gain(self, links, time_s, rng): return np.full(len(links), self.value)\n"
        "class Silent:\n    pass\n"
    )
    return tmp_path


def assert_one_line(result, words):
    assert result.code == 2, result.err
    lines = result.err.strip().splitlines()
    assert len(lines) == 1, result.err
    assert words in lines[0]
    assert "Traceback" not in result.err


@pytest.mark.parametrize(("override", "words"), MISTAKES)
def test_mistakes_are_one_line(override, words, folder, wirelessdl_command):
    result = wirelessdl_command("run", "x.toml", "--set", override)
    assert_one_line(result, words)
    assert not (folder / "outputs").exists()


def test_check_finds_what_run_would(wirelessdl_command):
    assert_one_line(wirelessdl_command("check", "x.toml", "--set", "learning.batch_size=4000"), "node 0 has only 3000")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("syntax.toml", "[scenario\nname = 1", "syntax.toml: not TOML: "),
        ("binary.toml", b"\xff\xfe\x00", "binary.toml: not a text file in UTF-8"),
        ("empty.toml", "", "empty.toml: missing section [scenario]; add it"),
        ("folder", None, "folder: is a folder; name a scenario file in it"),
    ],
)
def test_files_that_are_no_scenarios(name, content, words, folder, wirelessdl_command):
    path = folder / name
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert_one_line(wirelessdl_command("run", name), words)


def test_a_missing_scenario_suggests_a_bundled_one(wirelessdl_command):
    result = wirelessdl_command("run", "urban_er_k2")
    assert_one_line(
        result, "urban_er_k2: no such file, and no bundled scenario of that name; did you mean urban_er_k20?"
    )


def test_output_that_cannot_be_written_is_said_before_training(folder, wirelessdl_command):
    (folder / "file").write_text("in the way")
    assert_one_line(wirelessdl_command("run", "x.toml", "--out", "file"), "--out is file; cannot be written to")
    assert (folder / "file").read_text() == "in the way"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_said(folder, wirelessdl_command):
    (folder / "locked").mkdir(mode=0o500)
    assert_one_line(wirelessdl_command("run", "x.toml", "--out", "locked"), "Permission denied")


def test_an_unknown_device_is_said(wirelessdl_command):
    assert_one_line(
        wirelessdl_command("run", "x.toml", "--device", "abacus"), '--device is "abacus"; not available here'
    )


def test_unknown_commands_suggest_the_nearest(wirelessdl_command):
    result = wirelessdl_command("rum")
    assert result.code == 2
    assert "did you mean run?" in result.err


def test_a_real_process_exits_with_two(folder):
    done = subprocess.run(
        [sys.executable, "-m", "wirelessdl", "run", "x.toml", "--set", "network.nodes=1"],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("ScenarioError: x.toml: network.nodes is 1")
    assert done.stdout == ""
