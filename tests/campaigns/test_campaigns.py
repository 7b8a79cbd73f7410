"""Combinations of options and kills, with small counts; `make soak` has large ones."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("combinations", 20), ("kills", 10)])
def test_a_campaign_finds_nothing(name, count, tmp_path):
    done = subprocess.run(
        [sys.executable, str(HERE / f"{name}.py"), str(tmp_path), str(count)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in done.stdout.splitlines() if line.startswith("FOUND")] == []
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"{name}: {count} " in done.stdout or name == "kills"
