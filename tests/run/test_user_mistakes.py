"""Whatever code of the user's raises, wherever it is called: one line that names it, and nothing is lost."""

import re
import shutil

import numpy as np
import pytest
from conftest import tiny_table

from wirelessdl.errors import ScenarioError, TraceError, WirelessdlError
from wirelessdl.run.build import build
from wirelessdl.run.session import resume, simulate
from wirelessdl.scenario.loader import load_scenario, parse_scenario

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


@pytest.mark.parametrize(
    ("key", "written", "expected"),
    [
        ("channel.models", "gain(self, links)", "gain(self, links, time_s, rng)"),
        ("channel.models", "gain(self, links, time_s, rng, snr)", "gain(self, links, time_s, rng)"),
        ("power.allocator", "allocate(self, problem)", "allocate(self, problem, theta)"),
        ("faults.crashes", "outages(self)", "outages(self, node, rng)"),
    ],
)
def test_a_method_that_takes_other_arguments_is_told_the_signature(tmp_path, key, written, expected):
    line = line_of(tmp_path, key, f"class Mine:\n    def {written}:\n        return ()\n")
    assert line.endswith(f'"mine.py:Mine"; its method {written} must be {expected}')


STREET = """
from lengths import TENTH
from shapes.line import slope

class Mine:
    def gain(self, links, time_s, rng):
        return links.rx * slope() + TENTH
"""


def street(folder, tenth: float) -> None:
    (folder / "shapes").mkdir(parents=True)
    (folder / "shapes" / "__init__.py").touch()
    (folder / "shapes" / "line.py").write_text("def slope():\n    return 0.0\n")
    (folder / "lengths.py").write_text(f"TENTH = {tenth}\n")
    (folder / "street.py").write_text(STREET)


def test_a_file_may_import_its_siblings_and_the_run_keeps_them(tmp_path):
    table = tiny_table(channel={"models": [{"model": "mine/street.py:Mine"}]})
    for name, tenth in (("one", 0.1), ("two", 0.2)):  # each scenario has its own
        street(tmp_path / name / "mine", tenth)
        run = simulate(parse_scenario(table, folder=str(tmp_path / name)), out=tmp_path / "outputs", device="cpu")
        assert set(run.links["gain"]) == {tenth}
    assert sorted(run.provenance["user_files"]) == [
        "mine/lengths.py",
        "mine/shapes/__init__.py",
        "mine/shapes/line.py",
        "mine/street.py",
    ]
    lengths = tmp_path / "two" / "mine" / "lengths.py"
    lengths.write_text("TENTH = 0.3\n")
    with pytest.raises(TraceError, match=r"user_files\.mine/lengths\.py was "):
        resume(run.path, rounds=3, device="cpu")
    shutil.rmtree(tmp_path / "two")  # the copies in the run directory will do
    assert set(resume(run.path, rounds=3, device="cpu").links["gain"]) == {0.2}


def test_a_file_that_ends_the_program_as_it_is_imported_is_refused(tmp_path):
    line = line_of(tmp_path, "channel.models", "import sys; sys.exit('over')\nclass Mine: pass\n")
    assert line.endswith("mine.py line 1 raised SystemExit: over")


@pytest.mark.parametrize("default", ["math.inf", "math.nan"])
def test_a_default_that_is_not_finite_resumes_and_may_not_be_chosen_otherwise(tmp_path, default):
    text = f"import math\nclass Mine:\n    def __init__(self, most_m: float = {default}, least_m: float = 0.0): pass\n"
    body = "    def gain(self, links, time_s, rng):\n        return links.rx * 0 + 0.5\n"
    (tmp_path / "mine.py").write_text(text + body)
    table = tiny_table(channel={"models": [{"model": "mine.py:Mine"}]})
    run = simulate(parse_scenario(table, folder=str(tmp_path)), out=tmp_path / "outputs", device="cpu")
    assert resume(run.path, rounds=3, device="cpu").summary["rounds"] == 3
    again = simulate(load_scenario(run.path / "scenario.toml"), out=tmp_path / "again", device="cpu")
    assert again.summary["accuracy_mean"] == resume(run.path).summary["accuracy_mean"]
    table["channel"]["models"][0]["least_m"] = float("inf")
    with pytest.raises(ScenarioError, match=r"least_m is inf; must be a finite number"):
        simulate(parse_scenario(table, folder=str(tmp_path)), out=tmp_path / "outputs", device="cpu")


def test_a_file_is_looked_for_in_the_folder_that_was_named(tmp_path):
    (tmp_path / "street.py").write_text("class Mine: pass\n")
    table = tiny_table(channel={"models": [{"model": "no_such_folder/street.py:Mine"}]})
    with pytest.raises(ScenarioError, match=r"no file no_such_folder/street.py in "):
        build(parse_scenario(table, folder=str(tmp_path)))


def test_a_class_without_a_signature_is_one_line(tmp_path):
    line = line_of(tmp_path, "channel.models", "class Mine(dict):\n    def gain(self, links, time_s, rng): pass\n")
    assert line.endswith("mine.py:Mine does not say which parameters it takes; give it an __init__")


@pytest.mark.parametrize("default", ["[None]", "{1: 2}", "[[{'a': {3}}]]", r"'\ud800'"])
def test_a_default_that_no_scenario_can_hold_is_one_line(tmp_path, default):
    text = f"import numpy as np\nclass Mine:\n    def __init__(self, odd={default}): pass\n"
    line = line_of(tmp_path, "channel.models", text + "    def gain(self, links, time_s, rng): pass\n")
    assert "channel.models[0].odd is " in line
    assert "a scenario cannot spell it out" in line


@pytest.mark.parametrize("place", ["file", "method"])
def test_what_a_class_sets_of_numpys_errors_ends_with_it(tmp_path, place):
    setting = "np.seterr(all='raise')"
    (tmp_path / "mine.py").write_text(
        f"import numpy as np\n{setting if place == 'file' else ''}\nclass Mine:\n"
        f"    def gain(self, links, time_s, rng):\n        {setting if place == 'method' else ''}\n"
        "        return np.full(len(links), 0.5)\n"
    )
    before = np.geterr()
    table = tiny_table(channel={"models": [{"model": "mine.py:Mine"}]})
    try:
        run = simulate(parse_scenario(table, folder=str(tmp_path)), out=tmp_path, device="cpu")
        assert run.provenance["state"] == "done"
        assert np.geterr() == before
    finally:
        np.seterr(**before)


ENDS = {"KeyError('lost')": "raised KeyError: 'lost' (mine.py line 3)", "SystemExit()": "raised SystemExit (mine.py"}
GAIN = "    def gain(self, links, time_s, rng):\n        return np.full(len(links), 0.5)\n"


def with_answer(method: str, answer: str, rest: str) -> str:
    """A file whose class Mine has this method; an answer that is an exception is raised."""
    word = "raise" if answer in ENDS else "return"
    return f"import numpy as np\nclass Mine:\n    def {method}: {word} {answer}\n{rest}"


# by method: the key of its class, the rest of the class, and what is said of answers that it may not give
ANSWERS = {
    "loss_db(self, links)": (
        ("channel.models", GAIN),
        {
            "np.zeros(3)": "returned shape (3,), expected (12,), one loss in dB per link",
            "np.full(len(links), np.nan)": "returned nan for link 1 -> 0, expected dB, inf where nothing is heard",
        },
    ),
    "warning(self, links)": (("channel.models", GAIN), {"3": "returned int, expected a text, or None"}),
}


@pytest.mark.parametrize(
    ("method", "answer", "words"),
    [(method, *case) for method, (_, refused) in ANSWERS.items() for case in {**ENDS, **refused}.items()],
)
def test_what_a_part_may_not_say_of_itself_is_one_line(tmp_path, method, answer, words):
    (key, rest), _ = ANSWERS[method]
    network = {} if key == "network.topology" else {"network": {"topology": {"kind": "snr", "min_snr_db": 3.0}}}
    line = line_of(tmp_path, key, with_answer(method, answer, rest), **network)
    assert re.search(rf"{key}(\[0\])?: Mine.{method.partition('(')[0]} {re.escape(words)}", line)


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        ("float('nan')", "answered nan for round 6; must be a finite number > 0"),
        ("0.2", "answered 0.2 for round 6; must be 1e-101 to 0.1 where privacy.rho is 10"),
    ],
)
def test_a_schedule_that_answers_otherwise_in_the_run_is_one_line(tmp_path, rate, words):
    text = f"""class Mine:
    asked = 0
    def rate(self, round):
        self.asked += 1
        return 0.1 if self.asked < 12 else {rate}
"""
    line = line_of(tmp_path, "learning.learning_rate", text, scenario={"name": "tiny", "seed": 3, "rounds": 6})
    assert f"learning.learning_rate: Mine.rate {words}" in line


@pytest.mark.parametrize("answer", ["('1', '2')", "3.0", "(1.0, 2.0, 3.0)"])
def test_outages_that_are_no_pairs_of_numbers_are_one_line(tmp_path, answer):
    text = f"class Mine:\n    def outages(self, node, rng):\n        yield {answer}\n"
    line = line_of(tmp_path, "faults.crashes", text)
    assert line.startswith(f"faults.crashes: Mine.outages gave node 0 {answer}, expected a pair of numbers")


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ("3", "yields 3, expected an event of gate.env, such as gate.all_ready()"),
        ("__import__('simpy').Environment().timeout(1)", "expected an event of gate.env, such as gate.all_ready()"),
        ("gate.env.event()", "waits in round 1 for an event that never comes"),
        ("gate.env.event().fail(KeyError('lost'))", "raised KeyError: 'lost'"),
    ],
)
def test_a_policy_that_waits_for_no_event_is_one_line(tmp_path, event, words):
    text = f"class Mine:\n    def wait(self, gate):\n        yield gate.all_ready()\n        yield {event}\n"
    line = line_of(tmp_path, "time.policy", text)
    assert line.startswith("time.policy: Mine.wait ")
    assert words in line
