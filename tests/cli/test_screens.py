"""What commands print for people: names are whole, energy has a prefix, wall clock says what it counts."""

import json

import pytest
from conftest import command_line, tiny_table

from wirelessdl.cli.run import summary_table
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


def test_a_narrow_terminal_folds_a_name(folder, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes the stream for a terminal
    monkeypatch.setenv("COLUMNS", "80")
    printed = command_line("list", str(folder)).out
    names = "".join(line.split(" ")[0] for line in printed.splitlines()[1:] if "epsilon:" not in line)
    assert "…" not in names
    assert "city-with-very-long" not in printed  # it was folded, or the test shows nothing


def test_the_epsilon_of_an_unfinished_run_is_called_a_bound(tmp_path):
    import wirelessdl

    rounds = iter(range(10))
    given = parse_scenario(tiny_table(scenario={"rounds": 9}, learning={"eval_every": 9}))
    stopped = wirelessdl.simulate(given, out=tmp_path, should_stop=lambda: next(rounds) == 3)
    (row,) = map(json.loads, command_line("list", str(tmp_path), "--json").out.splitlines())
    assert (row["state"], row["bound"]) == ("interrupted", True)
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
    import wirelessdl

    summary = wirelessdl.open_run(folder / LONG).summary

    def rows(**options):
        columns = [[str(cell) for cell in column.cells] for column in summary_table(summary, **options).columns]
        return dict(zip(*columns, strict=True))

    bare = rows()
    assert "energy used" in bare
    assert bare["wall clock"].endswith("start-up not counted")
    known = rows(start_s=1.25, transmits_only=True)
    assert known["transmit energy"].endswith("J by 4 nodes")
    assert known["wall clock"].endswith("after 1.2 s of start-up")
