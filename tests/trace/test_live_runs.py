"""Reading a run while it is written."""

import pytest
from in_process import quick_table

import wirelessdl
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.trace import run as run_module
from wirelessdl.trace.soundness import find_parts


@pytest.mark.parametrize("name", ["nodes", "links"])
def test_a_flush_while_a_table_is_listed_is_not_taken_for_a_deleted_part(name, tmp_path, monkeypatch):
    from wirelessdl.run.session import simulate

    scenario = parse_scenario(quick_table(scenario={"rounds": 40}, trace={"flush_every": 20, "checkpoint_every": 20}))
    folder = simulate(scenario, out=tmp_path, device="cpu").path
    (folder / "summary.json").unlink()
    newest = {table: folder / table / "part-000040.parquet" for table in (name, "rounds")}
    for path in newest.values():
        path.rename(path.with_name(f".{path.name}"))

    def then_flushed(*asked):
        found = find_parts(*asked)
        for path in newest.values():  # rounds last, as a run writes them
            if not path.exists():
                path.with_name(f".{path.name}").rename(path)
        return found

    monkeypatch.setattr(run_module, "find_parts", then_flushed)
    assert wirelessdl.open_run(folder).frame(name)["round"].max() == 40
