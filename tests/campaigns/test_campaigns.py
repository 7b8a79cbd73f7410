"""Combinations of options, kills, damages, odd surroundings, sessions and other users' files, with small counts;
`make soak` has large ones."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BY_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


@pytest.fixture
def folder():
    """One that every user can enter, unlike tmp_path."""
    made = Path(tempfile.mkdtemp(prefix="campaign-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("combinations", 20),
        ("kills", 10),
        ("damage", 20),
        ("surroundings", 16),
        ("sessions", 8),
        pytest.param("owners", 12, marks=BY_ROOT),
    ],
)
def test_a_campaign_finds_nothing(name, count, folder):
    done = subprocess.run(
        [sys.executable, str(HERE / f"{name}.py"), str(folder), str(count)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in done.stdout.splitlines() if line.startswith("FOUND")] == []
    assert done.returncode == 0, done.stderr[-2000:]
    counted = re.search(rf"^{name}: (\d+) ", done.stdout, re.MULTILINE)
    assert counted is not None
    assert int(counted[1]) >= count
