"""A mistake is one clear line, exit code 2, and nothing left behind."""

from pathlib import Path

import pytest
import tomli_w
from conftest import refusal, tiny_table

YOURS = """
import numpy as np

class Complex:
    def __init__(self, order: "Unknown" = np.array([1.0])):  # a hint nobody can resolve, a default TOML cannot hold
        pass
    def gain(self, links, time_s, rng):
        return np.full(len(links), 1j)

class Picky:
    def __init__(self):
        {}["missing"]

class Nothing:
    def links(self, geometry, snr_db, rng):
        return None

class Flat:
    def positions(self, nodes, rng):
        return np.zeros((nodes, 2))

class Falling:
    def rate(self, round):
        return 0.05 if round == 1 else -0.1

class Shared:
    def split(self, labels, nodes, rng):
        return [np.arange(40) + 39 * node for node in range(nodes)]

class Twice:
    def split(self, labels, nodes, rng):
        return [np.zeros(10, dtype=int) for _ in range(nodes)]

instance = Nothing()
"""

# override, and words the line must hold
MISTAKES = [
    ("learning.batch_size=many", 'learning.batch_size is "many"; must be an integer'),
    ("learning.batchsize=3", "unknown key learning.batchsize; did you mean learning.batch_size?"),
    ("radio.nodes=3", "unknown key radio.nodes; did you mean network.nodes?"),
    ("nonsense.key=3", "unknown key nonsense; known: channel, energy, events"),
    (
        "network.topology.kind=erdos-reny",
        'network.topology.kind is "erdos-reny"; no such kind; did you mean erdos-renyi?',
    ),
    ("channel.models.0.model=raileigh", 'channel.models[0].model is "raileigh"; no such model; did you mean rayleigh?'),
    ("channel.models.0.hihg=2", "unknown key channel.models[0].hihg; did you mean high?"),
    ("channel.models.0.low=loud", "channel.models[0].low is 'loud'; must be a number"),
    ("channel.models.0.low=2", "channel.models[0].high is 1; must be >= low, which is 2"),
    ("learning.features=2", "learning.features is 2; must be a name or a table like"),
    ("learning.features={a=1}", "learning.features is {'a': 1}; must name its kind"),
    ("trace.connect={0=3}", "trace.connect.0 is 3; must be"),
    ("learning.features=[3]", "learning.features.0 is 3; must be a name or a table like"),
    ("privacy.epsilon_max=-1", "privacy.epsilon_max is -1; must be > 0, or inf for no privacy noise"),
    ("privacy.delta=1", "privacy.delta is 1; must be > 0 and < 1"),
    ("privacy.protocol=paper", 'use clipping = "batch", or protocol = "hardened"'),
    (
        "learning.learning_rate={kind='constant',initial=1e-300}",
        "privacy.rho is 10; rho times the smallest learning rate is 1e-299, must be >= 1e-100",
    ),
    ("privacy.rho=1000", "privacy.rho is 1000; rho times the largest learning rate is 100, must be <= 1"),
    ("network.topology={kind='erdos-renyi', p=0.001}", "network.topology.p is 0.001; none of 1000 graphs of 4 nodes"),
    ("network.topology={kind='erdos-renyi'}", "missing key network.topology.p; erdos-renyi needs it"),
    ("scenario.rounds=-5", "scenario.rounds is -5; must be an integer from 1 to 999999"),
    ("scenario.name=a/b", 'scenario.name is "a/b"; must be at most 100 letters, digits'),
    ("channel.models.0.model=nowhere.py:X", "no file nowhere.py in"),
    ("channel.models.0.model=broken.py:X", "broken.py line 2 raised ZeroDivisionError: division by zero"),
    ("channel.models.0.model=good.py:Goood", "good.py has no Goood; did you mean Good?"),
    ("channel.models.0={model='good.py:Good', value=-1}", "ContractError: good.py:Good.gain returned -1"),
    ("channel.models.3.low=1", "3 is no entry of a list of 1; count from 0"),
    ("rounds=3", "must be section.key=value"),
    ("radio.power_dbm=4000", "radio.power_dbm is 4000; must be from -200 to 200"),
    ("learning.projection_radius=50", "must be > 0 and <= 1, so that models stay within the power budget"),
    ("power.beta_min=0.9999", "power.alpha_min is 0.001; must be below 1 - power.beta_min, which is 0.0001"),
    (
        "channel.models.0.model=yours.py:Complex",
        "returned complex128, expected (12,), one |h| per link: return abs(...)",
    ),
    ("channel.models.0.model=yours.py:Picky", "yours.py:Picky raised KeyError: 'missing' (yours.py line"),
    ("channel.models.0.model=yours.py:instance", 'is "yours.py:instance"; must name a class'),
    ("network.topology=yours.py:Nothing", "links() returned NoneType, expected a wirelessdl.Links"),
    (
        "learning.learning_rate=yours.py:Falling",
        "learning.learning_rate is -0.1 in round 2; must be a finite number > 0",
    ),
    ("learning.partition=yours.py:Twice", "gave node 0 a sample twice or one that does not exist"),
    ("learning.partition=yours.py:Shared", "sample 39 to nodes 0 and 1; epsilon counts what one node sends"),
    (
        "faults.crashes={kind='schedule',events=[{node=1,at_s=0.1,for_s=0}]}",
        "for_s is 0; nothing happens in no time",
    ),
    ("learning.stop_rule=printed", 'learning.stop_rule is "printed"; must be'),
    ("power.allocator=yours.py:Nothing", "the class needs a method allocate(problem, theta)"),
    ("scenario.rounds.x=3", "rounds is a value, not a section"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    (tmp_path / "x.toml").write_text(tomli_w.dumps(tiny_table()))
    (tmp_path / "broken.py").write_text("x = 1\ny = x / 0\n")
    (tmp_path / "good.py").write_text(
        "import numpy as np\n"
        "class Good:\n"
        "    def __init__(self, value=1.0): self.value = value\n"
        "    def gain(self, links, time_s, rng): return np.full(len(links), self.value)\n"
    )
    (tmp_path / "yours.py").write_text(YOURS)
    return tmp_path


def assert_one_line(result, words):
    assert result.code == 2, result.err
    lines = result.err.strip().splitlines()
    assert len(lines) == 1, result.err
    assert words in lines[0]
    assert "Traceback" not in result.err


@pytest.mark.parametrize(("override", "words"), MISTAKES)
def test_mistakes_are_one_line(override, words, folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert words in refusal(folder / "x.toml", override)


def test_a_partition_that_leaves_a_node_without_a_batch_is_named(folder):
    even = "learning.partition=iid"
    uneven = "learning.partition={kind='dirichlet', concentration=0.001}"
    line = refusal(folder / "x.toml", "network.nodes=20", "learning.batch_size=32", uneven)
    said, _, remedy = line.partition(" of 12000 samples; ")
    assert "learning.partition gives node " in said
    assert remedy == (
        "must be at least 32, a batch: set its min_samples to 32, lower learning.batch_size, or use batch_fraction"
    )
    assert "learning.batch_size is 700; node 0 has only 600 samples" in refusal(
        folder / "x.toml", "network.nodes=20", "learning.batch_size=700", even
    )


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("network.nodes=0", "ScenarioError: x.toml: network.nodes is 0; must be an integer from 1 to 1e9"),
        (
            "learning.batch_size=4000",
            "ScenarioError: x.toml: learning.batch_size is 4000; node 0 has only 3000 samples: lower batch_size, use "
            "batch_fraction, fewer nodes, or a more even partition",
        ),
        (
            "channel.models.0={model='good.py:Good', value=-1}",
            "ContractError: good.py:Good.gain returned -1",
        ),
        ("privacy.epsilon_max=1e-9", "InfeasiblePowerError: x.toml: node "),
        ("privacy.epsilon_max=1\nfoo=3", "ScenarioError: x.toml: privacy.epsilon_max is"),
    ],
    ids=["loader", "build", "user's class", "first frame", "line break"],
)
def test_the_command_line_prints_mistakes_as_one_line(override, line, folder, wirelessdl_command):
    """One mistake for each place that finds them; the messages themselves are above."""
    result = wirelessdl_command("run", "x.toml", "--set", override)
    assert_one_line(result, line)
    assert result.err.startswith(line)
    assert not (folder / "outputs").exists()


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


def test_a_defaulted_part_and_a_bare_name_can_be_overridden(wirelessdl_command, folder):
    table = tiny_table(channel={"models": ["uniform"]})
    (folder / "bare.toml").write_text(tomli_w.dumps(table))
    changes = ["network.placement.radius_m=30", "time.compute.seconds=2", "channel.models.0.low=0.5"]
    result = wirelessdl_command("run", "bare.toml", "--quiet", *(word for c in changes for word in ("--set", c)))
    assert (result.code, result.err) == (0, "")
    assert wirelessdl_command("run", "bare.toml", "--quiet", "--set", "channel.models.0.model=rayleigh").code == 0


def test_options_that_need_another_say_so(wirelessdl_command):
    assert "--force goes with --resume" in wirelessdl_command("run", "x.toml", "--force").err
    assert "name a SCENARIO" in wirelessdl_command("run").err
    assert "did you mean run?" in wirelessdl_command("rum").err
    assert '--device is "abacus"; not available' in wirelessdl_command("run", "x.toml", "--device", "abacus").err
    assert "x.toml: is a file, not a folder of runs" in wirelessdl_command("list", "x.toml").err


def test_a_missing_scenario_suggests_a_bundled_one(wirelessdl_command):
    result = wirelessdl_command("run", "urban_er_k2")
    assert_one_line(
        result, "urban_er_k2: no such file, and no bundled scenario of that name; did you mean urban_er_k20?"
    )


def test_output_that_cannot_be_written_is_said_before_training(folder, wirelessdl_command):
    (folder / "file").write_text("in the way")
    assert_one_line(wirelessdl_command("run", "x.toml", "--out", "file"), "--out is file; cannot be written to")
    assert (folder / "file").read_text() == "in the way"


def test_weak_deltas_are_warned_about(wirelessdl_command):
    shown = wirelessdl_command("run", "x.toml", "--set", "privacy.delta_total=0.5", "--set", "privacy.delta=0.01").out
    assert shown.count("not below 1/n") == 2
    assert "warning" in wirelessdl_command("check", "x.toml", "--set", "privacy.delta=0.5").out
