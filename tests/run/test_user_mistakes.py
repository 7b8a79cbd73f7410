"""Whatever code of the user's raises, wherever it is called: one line that names it, and nothing is lost."""

import pytest
from conftest import tiny_table

from wirelessdl.errors import WirelessdlError
from wirelessdl.run.session import simulate
from wirelessdl.scenario.loader import parse_scenario

METHODS = {
    "channel.models": "gain(self, links, time_s, rng)",
    "power.allocator": "allocate(self, problem, theta=None)",
    "learning.learning_rate": "rate(self, round)",
    "time.compute": "duration_s(self, node, round)",
    "time.policy": "wait(self, gate)",
    "faults.stragglers": "factor(self, node, round)",
    "faults.crashes": "outages(self, node, rng)",
}


def line_of(folder, key: str, text: str, **sections) -> str:
    """The line with which a tiny run is refused whose part `key` is the class Mine of this file."""
    (folder / "mine.py").write_text(text)
    section, _, name = key.partition(".")
    table = tiny_table(**sections)
    value = [{"model": "mine.py:Mine"}] if name == "models" else {"kind": "mine.py:Mine"}
    table[section] = {**table.get(section, {}), name: value}
    with pytest.raises(WirelessdlError) as caught:
        simulate(parse_scenario(table, folder=str(folder)), out=folder / "outputs", device="cpu")
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.mark.parametrize("key", METHODS)
@pytest.mark.parametrize("raised", ["KeyError('lost')", "SystemExit()"])
def test_what_a_method_raises_is_one_line_that_names_the_class(tmp_path, key, raised):
    line = line_of(tmp_path, key, f"class Mine:\n    def {METHODS[key]}:\n        raise {raised}\n")
    assert key in line or "mine.py:Mine.gain" in line
    assert "Mine" in line
    assert f"raised {raised.partition('(')[0]}" in line
    assert "(mine.py line 3)" in line


def test_times_that_are_no_numbers_are_one_line(tmp_path):
    line = line_of(
        tmp_path, "time.compute", "class Mine:\n    def duration_s(self, node, round):\n        return None\n"
    )
    assert line.startswith("time.compute gave node 0 None s and faults.stragglers a factor of 1.0 in round 1")


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        ("import sys; sys.exit()", "mine.py line 1 raised SystemExit"),
        ("import sys; sys.exit('over')", "mine.py line 1 raised SystemExit: over"),
        ("raise GeneratorExit", "mine.py line 1 raised GeneratorExit"),
    ],
)
def test_a_file_that_ends_the_program_as_it_is_imported_is_refused(tmp_path, raised, words):
    line = line_of(tmp_path, "channel.models", f"{raised}\nclass Mine: pass\n")
    assert line.endswith(words)


def test_a_plan_that_cannot_be_is_still_said_to_be_infeasible(tmp_path):
    text = "from wirelessdl.power.allocate import LinearProgram\nclass Mine(LinearProgram): pass\n"
    line = line_of(tmp_path, "power.allocator", text, privacy={"epsilon_max": 1e-3}, power={"alpha_min": 0.1})
    assert "cannot meet epsilon_max=0.001" in line
