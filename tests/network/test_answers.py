"""What a user's topology, mobility or channel answers is held to its contract, in one line that names the culprit."""

import numpy as np
import pytest
import tomli_w
from conftest import refusal, tiny_table

from wirelessdl.run.session import simulate
from wirelessdl.scenario.loader import load_scenario

TOPOLOGY = """
import numpy as np
from wirelessdl import Links

class Mine:
    def links(self, geometry, snr_db, rng):
        rx, tx = {pairs}
        return Links(np.array(rx), np.array(tx), geometry)
"""
MOBILITY = """
import numpy as np
from wirelessdl import Geometry

class Mine:
    def __init__(self, start_m):
        self.start = start_m
    def geometry(self, time_s):
        position = self.start.copy()
        {change}
        return Geometry(position, np.zeros_like(position))
"""
CHANNEL = """
import numpy as np

class Decibels:
    def gain(self, links, time_s, rng):
        return np.full(len(links), 80.0)
"""


def written(folder, code, **sections):
    (folder / "mine.py").write_text(code)
    path = folder / "s.toml"
    path.write_bytes(tomli_w.dumps(tiny_table(**sections)).encode())
    return path


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ("[0, 1, 2, 9], [1, 2, 3, 0]", "links() returned rx 9, expected node numbers, 0 to 3"),
        ("[0, 1, 2, 3], [1, 2, -3, 0]", "links() returned tx -3, expected node numbers, 0 to 3"),
        ("[0.5, 1.0], [1.0, 0.0]", "links() returned rx 0.5, expected node numbers, 0 to 3"),
    ],
)
def test_links_of_your_own_are_checked(pairs, words, tmp_path):
    path = written(tmp_path, TOPOLOGY.format(pairs=pairs), network={"topology": {"kind": "mine.py:Mine"}})
    line = refusal(path)
    assert words in line
    assert "Links.from_pairs" in line


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("position[2, 0] = np.nan", "mine.py:Mine at 0 s returned position_m nan for node 2, expected"),
        ("position = position[:3]", "at 0 s returned position_m shape (3, 3), expected (4, 3)"),
    ],
)
def test_places_that_are_none_name_the_node(change, words, tmp_path):
    path = written(tmp_path, MOBILITY.format(change=change), network={"mobility": {"kind": "mine.py:Mine"}})
    assert words in refusal(path)


PLACEMENT = """
import numpy as np

class Mine:
    def positions(self, nodes, rng):
        position = rng.uniform(1, 50, (nodes, 3))
        {change}
        return position
"""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("position[2, 0] = np.nan", "mine.py:Mine: positions() returned nan for node 2, expected"),
        ("position = position[:, :2]", "positions() returned shape (4, 2), expected (4, 3), finite metres"),
        ("position[1] = position[0]", "positions of nodes 0 and 1 are both"),
    ],
)
def test_starts_that_are_none_name_the_node(change, words, tmp_path):
    path = written(tmp_path, PLACEMENT.format(change=change), network={"placement": {"kind": "mine.py:Mine"}})
    line = refusal(path)
    assert words in line
    assert "shape (4, 3), expected (4, 3)" not in line


RADIO = """
import numpy as np

class Loud:
    def noise_w(self, geometry, time_s):
        return np.where(np.arange(geometry.nodes) == 1, {value}, 1e-9)

class Guess:
    symbols = 1
    def estimate(self, links, gain, power_w, noise_w, rng):
        return np.where(links.number == links.number[2], {value}, gain)
"""


@pytest.mark.parametrize("value", ["np.nan", "-2.0"])
@pytest.mark.parametrize(
    ("section", "words"),
    [
        (
            {"faults": {"jammer": "mine.py:Loud"}},
            "Loud.noise_w returned {} for node 1, expected finite numbers >= 0 (1 of 4)",
        ),
        ({"radio": {"csi": "mine.py:Guess"}}, "Guess returned {} for link 3 -> 0, expected finite numbers >= 0 (1 of"),
    ],
)
def test_numbers_that_are_none_are_told(value, section, words, tmp_path):
    line = refusal(written(tmp_path, RADIO.format(value=value), **section))
    assert words.format(f"{eval(value, {'np': np}):g}") in line


@pytest.mark.parametrize(
    "sections",
    [{}, {"network": {"topology": "ring"}, "radio": {"interference": "physical"}, "power": {"objective": "own-noise"}}],
    ids=["neighbours", "strangers"],
)
def test_nodes_that_meet_on_their_way_are_named(sections, tmp_path):
    change = "position[1] = position[3] if time_s > 0 else position[1]"
    network = {"mobility": {"kind": "mine.py:Mine"}, **sections.get("network", {})}
    path = written(tmp_path, MOBILITY.format(change=change), **{**sections, "network": network})
    with pytest.raises(
        Exception, match=r"mine\.py:Mine has nodes \d and \d at one point at .* s; a link needs a length"
    ):
        simulate(load_scenario(path), out=tmp_path / "outputs", device="cpu")


def test_a_gain_in_decibels_is_a_warning_by_name(tmp_path):
    path = written(tmp_path, CHANNEL, channel={"models": [{"model": "mine.py:Decibels"}]})
    warnings = simulate(load_scenario(path), out=tmp_path / "outputs", device="cpu").summary["warnings"]
    assert any("mine.py:Decibels gives an amplitude of 80" in line and "is it in dB" in line for line in warnings)
