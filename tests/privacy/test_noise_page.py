"""docs/noise.md: its table is what its program prints, and its scenario is one."""

import io
import re
from contextlib import redirect_stdout

from conftest import ROOT

from wirelessdl.preview.plan import preview_plan
from wirelessdl.run.build import build
from wirelessdl.scenario.loader import load_scenario

PAGE = (ROOT / "docs" / "noise.md").read_text(encoding="utf-8")


def block(kind):
    (found,) = re.findall(rf"```{kind}\n(.*?)```", PAGE, flags=re.DOTALL)
    return found


def test_the_table_of_collusion_is_what_the_program_prints():
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(block("python"), "docs/noise.md", "exec"), {})
    rows = out.getvalue()
    assert rows.count("\n") == 8
    assert rows in PAGE


def test_the_example_scenario_keeps_its_promise_in_the_plan(tmp_path):
    file = tmp_path / "cancelling.toml"
    file.write_text(block("toml"))
    found = preview_plan(build(load_scenario(str(file)), device="cpu"))
    assert found.terms.adversary == "any 3 colluding nodes that hear every transmission"
    assert min(found.forecast.values()) <= 1.0
    assert found.verdict[0].endswith("should train")
