"""CONTRIBUTING.md says which files to touch to add something: one of each is added to a copy of the package, by those.

The table is read from the page. What a row names may be edited (`file.py`) or filled (`folder/`), nothing else; the
copy must then run, check, list and verify with everything that was added.
"""

import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import ROOT

from wirelessdl.units import from_db, thermal_noise_w

pytestmark = pytest.mark.slow

CHANNEL = '''"""A tunnel: loss grows linearly with distance."""

from wirelessdl.channel.model import Composable


class Tunnel(Composable):
    """Loss 60 + a d [dB], d in metres."""

    def __init__(self, db_per_m: float = 0.05):
        self.db_per_m = db_per_m

    def gain(self, links, time_s, rng):
        return 10 ** (-(60 + self.db_per_m * links.distance_m) / 20)
'''
TOPOLOGY = '''"""A line: every node hears the one before and the one after."""

import numpy as np

from wirelessdl.links import Links


class Line:
    """Nodes in a row."""

    def links(self, geometry, snr_db, rng):
        node = np.arange(geometry.nodes - 1)
        return Links.from_pairs(node, node + 1, geometry, both_ways=True)
'''
ACCESS = '''"""Everyone at once, in as many turns as a key says, of which only the first is used."""

from dataclasses import replace

import numpy as np
from pydantic import Field

from wirelessdl.access import Access
from wirelessdl.scenario.section import Section

COLUMNS = {"rounds": [("pause_senders", "int", "", "nodes on air; null under others")]}


class Keys(Section):
    pause_turns: int = Field(1, ge=1, description="Turns of a slot.")


def refuse(scenario):
    if scenario.radio.pause_turns > 8:
        raise ValueError("radio.pause_turns is above 8; must be <= 8")


class Member(Access):
    """Everyone at once, then a pause."""

    def __init__(self, radio, nodes):
        self._turns, self._nodes = radio.pause_turns, nodes

    def schedule(self, round, links):
        from wirelessdl.radio.frame import Turns

        return Turns(np.zeros(self._nodes, dtype=np.int64), self._turns)

    def audible(self, channel, schedule):
        return channel

    def carrier(self, given):
        from wirelessdl.access.weights import AllAtOnce

        class Paused(AllAtOnce):
            def carry(self, given):
                return replace(super().carry(given), rounds={"pause_senders": int(given.on_air.sum())})

        return Paused(given)
'''
MECHANISM = '''"""Own noise, louder than the plan asks for. The proof of own noise holds: there is more of it."""

from dataclasses import replace

from pydantic import Field

from wirelessdl.mechanism import Mechanism, Protection
from wirelessdl.mechanism.own import recount  # noqa: F401
from wirelessdl.scenario.section import Section

COALITION = False


class Keys(Section):
    louder_by: float = Field(1.0, ge=1.0, description="Variance over what the plan asks for.")


def refuse(scenario):
    pass


class Member(Mechanism):
    """Louder noise of every node's own."""

    def __init__(self, privacy):
        self._by = privacy.louder_by

    def protect(self, plan, on_air, links, sigma):
        return Protection(replace(plan, alpha=1 / (1 + self._by * plan.beta / plan.alpha)))
'''
UPDATE = '''"""A step from s + b (s - s_before), with the gradient taken there."""

from pydantic import Field

from wirelessdl.scenario.section import Section


class Keys(Section):
    extrapolation: float = Field(0.0, ge=0.0, le=1.0, description="b.")


def refuse(scenario):
    pass


class Member:
    """Extrapolated models."""

    def __init__(self, learning):
        self.b = learning.extrapolation

    def initial(self, received):
        return {"before": received}

    def base(self, received, state, round):
        moved = received + self.b * (received - state["before"])
        return moved, moved, {"before": received}
'''
SCENARIO = """
[scenario]
name = "added"
rounds = 2
[network]
nodes = 4
topology = "line"
[channel]
models = [{ model = "tunnel", db_per_m = 0.1 }]
[radio]
access = "pause"
pause_turns = 2
extra_noise_db = 3.0
[power]
objective = "own-noise"
[privacy]
noise = "louder"
louder_by = 4.0
epsilon_max = 1.0
[learning]
update = "extrapolated"
extrapolation = 0.5
dataset = { kind = "synthetic" }
batch_size = 8
"""


def rows():
    """What CONTRIBUTING.md says to touch: text of the second column by what is added."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split("| to add | touch |", 1)[1].split("\n\n", 1)[0]
    return dict(re.findall(r"^\| ([^|]+?) \| (.+?) \|$", table, flags=re.MULTILINE))


class Copy:
    """A copy of the package, of which a row of the table says what may be touched."""

    def __init__(self, folder):
        self.folder, self.rows, self._may = folder, rows(), []
        shutil.copytree(ROOT / "wirelessdl", folder / "wirelessdl", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "scenarios", folder / "scenarios")
        (folder / "channel_models").mkdir()

    def adding(self, what, reader=""):
        """Only what the row of `what` names from here on; and reader, where the row lets one choose."""
        (row,) = (text for name, text in self.rows.items() if what in re.split(r", ", name))
        self._may = re.findall(r"`([\w/.]+(?:\.py|/))`", row)
        if reader:
            assert "the file that reads it" in row
            self._may.append(reader)

    def write(self, name, text):
        path = self.folder / "wirelessdl" / name
        assert f"{name.rpartition('/')[0]}/" in self._may, f"CONTRIBUTING.md names no folder of {name}: {self._may}"
        assert not path.exists()
        path.write_text(text, encoding="utf-8")

    def edit(self, name, old, new):
        path = self.folder / "wirelessdl" / name
        assert name in self._may, f"CONTRIBUTING.md does not name {name}: {self._may}"
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{name} has {old!r} {text.count(old)} times"
        path.write_text(text.replace(old, new), encoding="utf-8")

    def python(self, *arguments):
        """Python, with the copy in place of the package."""
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def command(self, *arguments):
        return self.python("-m", "wirelessdl", *arguments)

    def run(self, name, *arguments):
        """A run of the scenario, its folder."""
        done = self.command("run", "added.toml", "--out", name, "--quiet", *arguments)
        assert done.returncode == 0, done.stderr
        (run,) = (self.folder / name).iterdir()
        return run


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The package with one of each added."""
    made = Copy(tmp_path_factory.mktemp("adding"))
    made.adding("a channel model")
    made.write("channel/tunnel.py", CHANNEL)
    made.edit("channel/__init__.py", "# by the name", "from wirelessdl.channel.tunnel import Tunnel\n\n# by the name")
    made.edit("channel/__init__.py", '    "tdl": Tdl,\n', '    "tdl": Tdl,\n    "tunnel": Tunnel,\n')
    made.adding("an access")
    made.write("access/pause.py", ACCESS)
    made.edit("families.py", '"access": {\n', '"access": {\n        "pause": "wirelessdl.access.pause",\n')
    made.adding("a mechanism")
    made.write("mechanism/louder.py", MECHANISM)
    made.edit("families.py", '"mechanism": {\n', '"mechanism": {\n        "louder": "wirelessdl.mechanism.louder",\n')
    made.adding("an update")
    made.write("learning/updates/extrapolated.py", UPDATE)
    line = '"extrapolated": "wirelessdl.learning.updates.extrapolated"'
    made.edit("families.py", '"update": {', f'"update": {{{line}, ')
    made.adding("a topology")
    made.write("network/topology/line.py", TOPOLOGY)
    made.edit(
        "network/topology/__init__.py",
        "\n\nTOPOLOGIES = {\n",
        '\n\nfrom wirelessdl.network.topology.line import Line  # noqa: E402\n\nTOPOLOGIES = {\n    "line": Line,\n',
    )
    made.adding("a column")
    made.edit(
        "trace/schema.py",
        "        up_nodes                int    -    nodes that are not down\n",
        "        up_nodes                int    -    nodes that are not down\n"
        "        down_nodes              int    -    nodes that are down\n",
    )
    made.edit(
        "run/columns.py",
        '        "spectral_gap": np',
        '        "down_nodes": each(lambda d: int((~d.participation.up).sum())),\n        "spectral_gap": np',
    )
    made.adding("a scenario key", reader="run/build.py")
    made.edit(
        "scenario/schema.py",
        "    temperature_k: Positive",
        '    extra_noise_db: FiniteFloat = Field(0.0, description="Added to the noise figure.")\n'
        "    temperature_k: Positive",
    )
    made.edit(
        "run/build.py",
        "thermal_w=noise_w if radio.thermal_noise",
        "thermal_w=noise_w * from_db(radio.extra_noise_db) if radio.thermal_noise",
    )
    (made.folder / "added.toml").write_text(SCENARIO, encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def run(copy):
    return copy.run("whole")


def tables(run, *names):
    return [pq.read_table(run / name).to_pydict() for name in names]


def test_a_scenario_runs_with_one_of_each_and_its_tables_show_them(copy, run):
    rounds, nodes, links = tables(run, "rounds", "nodes", "links")
    assert rounds["down_nodes"] == [0, 0]
    assert rounds["pause_senders"] == [4, 4]
    assert rounds["turns"] == [2, 2]
    assert {(one, other) for one, other in zip(links["tx"], links["rx"])} == {
        (one, one + step) for one in range(4) for step in (-1, 1) if 0 <= one + step < 4
    }
    gain, sent_w = np.array(links["gain"]), np.array(nodes["power_w"]).reshape(2, 4)
    np.testing.assert_allclose(gain, 10 ** (-(60 + 0.1 * np.array(links["distance_m"])) / 20), rtol=1e-12)
    power_w = sent_w[np.array(links["round"]) - 1, links["tx"]]
    thermal_w = thermal_noise_w(1e6, 7.0, 290.0) * from_db(3.0)
    np.testing.assert_allclose(links["snr_db"], 10 * np.log10(gain**2 * power_w / thermal_w), rtol=1e-9)
    verified = copy.command("verify", str(run))
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_louder_noise_and_extrapolation_take_effect(copy, run):
    runs = (
        run,
        copy.run("quiet", "--set", "privacy.louder_by=1"),
        copy.run("plain", "--set", "learning.extrapolation=0"),
    )
    whole, quiet, plain = (tables(one, "nodes")[0] for one in runs)
    share = [np.array(one["beta"]) / np.array(one["alpha"]) for one in (whole, quiet)]
    np.testing.assert_allclose(share[0], 4.0 * share[1], rtol=1e-9)
    assert whole["alpha"] == plain["alpha"]
    assert whole["grad_norm"] != plain["grad_norm"]


REFUSED = {
    "radio.extra_noise=1": "unknown key radio.extra_noise; did you mean radio.extra_noise_db?",
    "radio.pause_turn=1": "unknown key radio.pause_turn; did you mean radio.pause_turns?",
    "radio.pause_turns=9": "radio.pause_turns is above 8; must be <= 8",
    "privacy.louder=1": "unknown key privacy.louder; did you mean privacy.louder_by?",
    "learning.extrapolations=1": "unknown key learning.extrapolations; did you mean learning.extrapolation?",
    "learning.extrapolation=2": "learning.extrapolation is 2; must be <= 1",
}
LOADED = """
import sys
from wirelessdl.errors import ScenarioError
from wirelessdl.scenario.loader import load_scenario
for text in sys.argv[1:]:
    try:
        load_scenario("added.toml", overrides=[text])
    except ScenarioError as error:
        print(error)
    else:
        print("accepted")
"""


def test_keys_of_all_are_accepted_and_others_refused_in_one_line(copy):
    accepted = ("radio.extra_noise_db=1", "radio.pause_turns=3", "privacy.louder_by=2", "learning.extrapolation=1")
    lines = copy.python("-c", LOADED, *accepted, *REFUSED).stdout.splitlines()
    assert lines[: len(accepted)] == ["accepted"] * len(accepted)
    assert len(lines) == len(accepted) + len(REFUSED)
    for line, words in zip(lines[len(accepted) :], REFUSED.values()):
        assert words in line


def test_list_names_what_was_added(copy):
    names = json.loads(copy.command("list", "--json").stdout)
    for key, name in (
        ("channel.models", "tunnel"),
        ("network.topology", "line"),
        ("radio.access", "pause"),
        ("privacy.noise", "louder"),
        ("learning.update", "extrapolated"),
    ):
        assert name in names[key]
