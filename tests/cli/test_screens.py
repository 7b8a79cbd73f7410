"""What commands print for people: names are whole, energy has a prefix, wall clock says what it counts."""

import json
import re

import pytest
import tomli_w
from conftest import command_line, tiny_table

import wirelessdl
from wirelessdl.analysis.runs import final_figures
from wirelessdl.cli.run import summary_rows
from wirelessdl.gaussian import analytic_epsilon, classic_factor
from wirelessdl.run.build import build
from wirelessdl.run.warnings import receiver_noise_warnings, scenario_warnings
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.units import prefixed

LONG = "twenty-pedestrians-on-the-streets-of-a-city-with-very-long-names-that-nobody-wants-to-type-again"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with one run of a long name."""
    from wirelessdl.run.session import simulate

    out = tmp_path_factory.mktemp("outputs")
    simulate(parse_scenario(tiny_table(scenario={"name": LONG})), out=out, name=LONG)
    return out


def test_a_piped_list_cuts_no_name(folder):
    printed = command_line("list", str(folder)).out
    (line,) = [line for line in printed.splitlines() if line.startswith(LONG)]
    assert LONG in line.removeprefix(LONG)
    assert "2/2" in line
    assert "…" not in printed
    (row,) = map(json.loads, command_line("list", str(folder), "--json").out.splitlines())
    assert row["name"] == LONG


def test_the_epsilon_of_an_unfinished_run_is_called_a_bound(tmp_path):
    rounds = iter(range(10))
    given = parse_scenario(tiny_table(scenario={"rounds": 9}, learning={"eval_every": 9}))
    stopped = wirelessdl.simulate(given, out=tmp_path, should_stop=lambda: next(rounds) == 3)
    (row,) = map(json.loads, command_line("list", str(tmp_path), "--json").out.splitlines())
    assert (row["state"], row["round"], row["bound"]) == ("interrupted", 4, True)
    assert row["epsilon"] == stopped.rounds["epsilon_own_bound"].iloc[-1] == final_figures(stopped)["epsilon"]
    printed = command_line("list", str(tmp_path)).out
    assert f"<= {row['epsilon']:.3g}" in printed
    assert "running bound of a run that is not finished" in printed
    assert "epsilon at most" in stopped._repr_html_()
    done = wirelessdl.resume(stopped)
    (row,) = map(json.loads, command_line("list", str(tmp_path), "--json").out.splitlines())
    assert (row["epsilon"], row["bound"]) == (done.summary["epsilon_total"], False)
    assert "<=" not in command_line("list", str(tmp_path)).out


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.294, "294 mJ"), (2.9e-6, "2.9 µJ"), (0.9999, "1 J"), (12345, "12.3 kJ"), (0.0, "0 J"), (3e-15, "3e-06 nJ")],
)
def test_energy_has_a_prefix(value, text):
    assert prefixed(value, "J") == text


def test_the_summary_says_which_energy_and_which_time(folder):
    summary = wirelessdl.open_run(folder / LONG).summary

    bare = dict(summary_rows(summary))
    assert "energy used" in bare
    assert bare["wall clock"].endswith("start-up not counted")
    known = dict(summary_rows(summary, start_s=1.25, transmits_only=True))
    assert known["transmit energy"].endswith("J by 4 nodes")
    assert known["wall clock"].endswith("after 1.2 s of start-up")


def test_every_screen_with_an_epsilon_names_its_adjacency(folder, tmp_path):
    """Which data sets are neighbours is a factor of two: replaced, or added and removed."""
    run, scenario = str(folder / LONG), tmp_path / "tiny.toml"
    scenario.write_text(tomli_w.dumps(tiny_table()))
    again = command_line("run", str(scenario), "--out", str(tmp_path)).out
    assert "epsilon_max 1 (replace-one) per slot; totals against all other nodes" in again
    texts = [text for _, text in summary_rows(wirelessdl.open_run(run).summary) if re.search("epsilon [0-9]", text)]
    assert len(texts) == 3  # the total, one slot, the paper's sum
    assert all("(replace-one)" in text for text in texts)
    (other,) = tmp_path.glob("tiny-*")
    screens = {
        "list": command_line("list", str(folder)).out,
        "verify": command_line("verify", run).out,
        "plan": command_line("plan", str(scenario)).out,
        "check": command_line("check", str(scenario)).out,
        "compare": command_line("compare", run, str(other)).out,
        "page": wirelessdl.open_run(run)._repr_html_(),
    }
    assert not [name for name, text in screens.items() if "(replace-one)" not in text]
    assert wirelessdl.open_run(run).summary["adjacency"] == "replace-one"
    assert json.loads(command_line("plan", str(scenario), "--json").out)["adjacency"] == "replace-one"


def test_the_first_screen_says_why_a_whole_run_may_leak_less_than_one_slot(folder):
    """Both figures by the exact formula, and what only the total counts; without sampling, nothing of it is said."""
    summary = wirelessdl.open_run(folder / LONG).summary
    assert summary["amplified"] is True
    summary.update(epsilon_link_max=0.779, delta=1e-4)  # as in quickstart
    words = dict(summary_rows(summary))["one slot, one receiver"]
    assert words.startswith(f"epsilon {analytic_epsilon(0.779 / classic_factor(1e-4), 1e-4):.3g} (replace-one)")
    assert words.endswith("; 0.779 by Theorem 1")
    assert "Theorem 1" not in dict(summary_rows({**summary, "epsilon_link_max": 1.3}))["one slot, one receiver"]
    said = [text for _, text in summary_rows(summary)]
    assert said[said.index(words) + 1].endswith("(amplification by sampling), one slot does not")
    assert "amplification" not in " ".join(text for _, text in summary_rows({**summary, "amplified": False}))


def test_what_epsilon_does_not_cover_stands_below_it(folder):
    from wirelessdl.analysis.report import render

    run = wirelessdl.open_run(folder / LONG)
    words = "tuning, choice of features and repeated runs on the same data are outside epsilon; published runs compose"
    names, texts = zip(*summary_rows(run.summary))
    assert texts[names.index("whole run") + 1] == words
    assert words in render([run])
    assert any(words in condition for condition in run.summary["epsilon_own_conditions"])
    endless = {**run.summary, "epsilon_total": "inf"}
    assert words not in [text for _, text in summary_rows(endless)]  # nothing is promised


def test_a_run_whose_nodes_never_reach_each_other_says_so_and_has_a_report(tmp_path):
    """No round leaves any disagreement that could be averaged."""
    table = tiny_table(
        scenario={"rounds": 2},
        channel={"models": [{"model": "log-distance"}, {"model": "rayleigh", "reciprocal": False}]},
        radio={"alignment": "hubs", "thermal_noise": True, "truncate_snr_db": 150},
        power={"objective": "own-noise"},
        privacy={"epsilon_max": 1.0},
    )
    (tmp_path / "alone.toml").write_text(tomli_w.dumps(table))
    done = command_line("run", str(tmp_path / "alone.toml"), "--out", str(tmp_path / "out"))
    assert done.code == 0
    assert "no two nodes on air had a link of radio.truncate_snr_db" in " ".join(done.out.split())
    assert "rayleigh is not reciprocal" in " ".join((done.out + done.err).split())
    (folder,) = (tmp_path / "out").iterdir()
    assert command_line("report", str(folder)).code == 0


@pytest.mark.parametrize(("alignment", "remedy"), [("all", "use_full_power"), ("hubs", "truncate_snr_db")])
def test_remedies_for_receiver_noise_are_keys_that_alignment_takes(alignment, remedy):
    table = tiny_table(radio={"alignment": alignment}, power={"objective": "own-noise"})
    (line,) = receiver_noise_warnings(parse_scenario(table), 1.0, 2.0)
    assert re.findall(r"radio\.(\w+)", line) == ["power_dbm", remedy]


@pytest.mark.parametrize(
    ("radio", "words"),
    [({}, []), ({"subslots": 1}, ["of the coherence time"]), ({"cfo_hz": [0.0, 900.0]}, ["carriers turn by"])],
)
def test_what_changes_within_a_part_of_a_payload_is_worth_a_line(radio, words):
    table = tiny_table(
        network={"nodes": 2},
        channel={"models": [{"model": "log-distance"}, {"model": "rayleigh", "process": "clarke", "speed_mps": 1.0}]},
        radio={"alignment": "hubs", "bandwidth_hz": 1e6, **radio},
        power={"objective": "own-noise"},
    )
    given = build(parse_scenario(table), device="cpu")
    found = [line for line in scenario_warnings(given) if "within" in line]
    assert len(found) == len(words)
    assert all(part in line for part, line in zip(words, found))
