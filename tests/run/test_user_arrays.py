"""Arrays that pass between the simulator and classes of the user's: neither side changes what the other holds."""

from pathlib import Path

import numpy as np
import pytest
from conftest import tiny_table

from wirelessdl.errors import ContractError
from wirelessdl.links import Geometry, Links
from wirelessdl.run.session import simulate
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.trace.run import Run

HEADER = """import numpy as np
from dataclasses import replace
from wirelessdl import Geometry, Links
from wirelessdl.power.allocate import solve
class Mine:
"""


def run(folder: Path, key: str, body: str, **sections: dict) -> Run:
    """A tiny run whose part `key` is a class with this body."""
    (folder / "mine.py").write_text(HEADER + body)
    section, _, name = key.partition(".")
    part = {"kind": "mine.py:Mine"}
    value = [{"model": "mine.py:Mine"}, {"model": "friis"}] if name == "models" else part
    table = tiny_table(**sections)
    table[section] = {**table.get(section, {}), name: value}
    scenario = parse_scenario(table, folder=str(folder))
    return simulate(scenario, out=folder / "outputs", device="cpu")


WRITES = {
    "distance": ("channel.models", "gain(self, links, time_s, rng)", "d = links.distance_m; d[d < 120] = 120"),
    "senders": ("channel.models", "gain(self, links, time_s, rng)", "links.tx.sort()"),
    "positions": ("channel.models", "gain(self, links, time_s, rng)", "links.geometry.position_m += 1"),
    "pairs": ("channel.models", "gain(self, links, time_s, rng)", "links.pairs.low[:] = 0"),
    "gain": ("radio.csi", "estimate(self, links, gain, pilot_w, noise_w, rng)", "gain *= 0.5; return gain"),
    "power": ("radio.csi", "estimate(self, links, gain, pilot_w, noise_w, rng)", "pilot_w *= 0.5; return gain"),
    "velocities": ("faults.jammer", "noise_w(self, geometry, time_s)", "geometry.velocity_mps[:] = 1"),
    "labels": ("learning.partition", "split(self, labels, nodes, rng)", "labels.sort()"),
}


@pytest.mark.parametrize("what", WRITES)
def test_a_class_that_writes_into_the_simulators_arrays_is_refused_in_one_line(tmp_path, what):
    key, method, body = WRITES[what]
    with pytest.raises(ContractError) as caught:
        run(tmp_path, key, f"    def {method}:\n        {body}\n")
    line = str(caught.value)
    assert "Mine" in line
    assert "read-only" in line
    assert "(mine.py line 7)" in line
    assert "copy them first, as in d = links.distance_m.copy()" in line
    assert "\n" not in line


def test_whoever_makes_a_geometry_or_links_may_still_write_to_the_arrays():
    position, rx = np.ones((2, 3)), np.array([0, 1])
    links = Links(rx, np.array([1, 0]), Geometry.at_rest(position))
    position[0], rx[0] = 2.0, 0
    assert not links.geometry.position_m.flags.writeable
    assert not links.rx.flags.writeable
    # links are looked up by the identity of their receivers, so moving the nodes keeps the array
    assert links.at(Geometry.at_rest(position)).rx is links.rx


def test_a_listener_cannot_change_what_the_run_goes_on_with(tmp_path):
    (tmp_path / "watch.py").write_text("def heard(event):\n    event.gain[:] = 0\n")
    with pytest.raises(ContractError, match=r"watch.py:heard raised ValueError.*read-only.*copy them first"):
        simulate(
            parse_scenario(tiny_table(trace={"connect": {"phy.rx": "watch.py:heard"}}), folder=str(tmp_path)),
            out=tmp_path / "outputs",
            device="cpu",
        )
