"""Times in provenance.json do not go back, though the clock of the machine is set back."""

import json
from datetime import UTC, datetime, timedelta

from conftest import command_line, tiny
from interrupting import StopAt, assert_same_tables

import wirelessdl
from wirelessdl.trace import provenance


class SetBack(datetime):
    """A clock that shows an hour less than it is."""

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) - timedelta(hours=1)


def test_a_run_goes_on_to_the_same_tables_though_its_clock_is_before_its_start(tmp_path, monkeypatch):
    scenario, stop = tiny(scenario={"rounds": 6}), StopAt(3)
    whole = wirelessdl.simulate(scenario, out=tmp_path / "whole")
    run = wirelessdl.simulate(scenario, out=tmp_path / "runs", on_round=stop.on_round, should_stop=stop.should_stop)
    monkeypatch.setattr(provenance, "datetime", SetBack)
    said = wirelessdl.resume(run.path).provenance
    assert said["started"] <= said["resumed"][0] <= said["finished"]
    assert_same_tables(run.path, whole.path)
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat(timespec="seconds")
    (run.path / "provenance.json").write_text(json.dumps({**said, "started": later}))
    listed = command_line("list", str(tmp_path / "runs"))
    assert listed.code == 0
    assert " -" not in listed.out  # no age is negative


def test_a_time_that_somebody_edited_is_passed_over():
    assert provenance.now(after=["noon", 5]) <= provenance.now()
