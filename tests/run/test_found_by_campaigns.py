"""What campaigns over combinations, kills and damages found (docs/reliability.md): each failed before it was mended."""

import tomllib
from contextlib import suppress

import pytest
import tomli_w
from conftest import tiny

from wirelessdl.analysis.report import render
from wirelessdl.analysis.runs import open_runs
from wirelessdl.errors import TraceError
from wirelessdl.run.session import simulate


def test_rounds_in_which_nobody_sends_stand_beside_rounds_with_self_interference(tmp_path):
    """A budget that is spent after some rounds: nothing is left of anyone's own emission in the others."""
    run = simulate(
        tiny(
            scenario={"rounds": 8},
            radio={"cancellation_db": 90.0},
            power={"objective": "own-noise"},
            privacy={"unit": "node", "budget_total": 1.5},
        ),
        out=tmp_path,
    )
    sent = run.nodes.groupby("round")["transmitted"].sum()
    assert sent.max() == 4
    assert sent.min() == 0
    heard = run.nodes["self_interference_w"]
    assert (heard.notna() == run.nodes["round"].map(sent > 0)).all()
    assert (heard[heard.notna()] > 0).all()


def test_a_clock_goes_on_though_nothing_is_sent(tmp_path):
    """Frames without a transmission take no time: every one of them was opened at time zero."""
    run = simulate(
        tiny(
            scenario={"rounds": 3},
            network={"topology": "none"},
            time={"policy": {"kind": "clocked", "period_s": 0.2}},
        ),
        out=tmp_path,
    )
    assert run.rounds["opened_s"].tolist() == [0.0, 0.2, 0.4]


def test_a_report_without_any_one_section_of_the_scenario_is_a_page_or_one_line(tmp_path):
    """And without a key that decides how time is drawn: `radio.access` was a traceback (mutant 2174)."""
    run = simulate(tiny(scenario={"rounds": 2}), out=tmp_path)
    file = run.path / "scenario.toml"
    whole = file.read_text()
    for section in tomllib.loads(whole):
        table = tomllib.loads(whole)
        del table[section]
        file.write_text(tomli_w.dumps(table))
        with suppress(TraceError):
            render(open_runs([run.path]), accountants=False)
    table = tomllib.loads(whole)
    del table["radio"]["access"]
    file.write_text(tomli_w.dumps(table))
    with pytest.raises(TraceError, match=r"radio\.access is missing; a run's scenario is complete"):
        render(open_runs([run.path]), accountants=False)
