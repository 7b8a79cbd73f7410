"""What a user's topology, mobility or channel answers is held to its contract, in one line that names the culprit."""

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


PLACEMENT = """
import numpy as np

class Mine:
    def positions(self, nodes, rng):
        position = rng.uniform(1, 50, (nodes, 3))
        {change}
        return position
"""
RADIO = """
import numpy as np

class Loud:
    def noise_w(self, geometry, time_s):
        return np.where(np.arange(geometry.nodes) == 1, np.nan, 1e-9)

class Guess:
    symbols = 1
    def estimate(self, links, gain, power_w, noise_w, rng):
        return np.where(links.number == links.number[2], np.nan, gain)
"""
NETWORK = {part: {"network": {part: {"kind": "mine.py:Mine"}}} for part in ("topology", "mobility", "placement")}
JAMMER, CSI = {"faults": {"jammer": "mine.py:Loud"}}, {"radio": {"csi": "mine.py:Guess"}}
NAN = "position[2, 0] = np.nan"


def written(folder, code, **sections):
    (folder / "mine.py").write_text(code)
    path = folder / "s.toml"
    path.write_bytes(tomli_w.dumps(tiny_table(**sections)).encode())
    return path


@pytest.mark.parametrize(
    ("code", "sections", "words"),
    [
        *(
            (
                TOPOLOGY.format(pairs=pairs),
                NETWORK["topology"],
                f"links() returned {words}, expected node numbers, 0 to 3",
            )
            for pairs, words in (
                ("[0, 1, 2, 9], [1, 2, 3, 0]", "rx 9"),
                ("[0.5, 1.0], [1.0, 0.0]", "rx 0.5"),
            )
        ),
        *(
            (MOBILITY.format(change=change), NETWORK["mobility"], words)
            for change, words in ((NAN, "mine.py:Mine at 0 s returned position_m nan for node 2, expected"),)
        ),
        *(
            (PLACEMENT.format(change=change), NETWORK["placement"], words)
            for change, words in (
                (NAN, "mine.py:Mine: positions() returned nan for node 2, expected"),
                ("position[1] = position[0]", "positions of nodes 0 and 1 are both"),
            )
        ),
        *(
            (RADIO, part, f"{words}, expected finite numbers >= 0 (1 of ")
            for part, words in (
                (JAMMER, "Loud.noise_w returned nan for node 1"),
                (CSI, "Guess returned nan for link 3 -> 0"),
            )
        ),
    ],
)
def test_an_answer_that_is_none_is_named(code, sections, words, tmp_path):
    assert words in refusal(written(tmp_path, code, **sections))


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
