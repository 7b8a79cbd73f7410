"""Combinations of options, kills and damages, with small counts; `make soak` has large ones."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("combinations", 20), ("kills", 10), ("damage", 20)])
def test_a_campaign_finds_nothing(name, count, tmp_path):
    done = subprocess.run(
        [sys.executable, str(HERE / f"{name}.py"), str(tmp_path), str(count)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in done.stdout.splitlines() if line.startswith("FOUND")] == []
    assert done.returncode == 0, done.stderr[-2000:]
    counted = re.search(rf"^{name}: (\d+) ", done.stdout, re.MULTILINE)
    assert counted is not None
    assert int(counted[1]) >= count
