"""The list of slow tests names tests that exist."""

import subprocess
import sys

import pytest
from conftest import ROOT


@pytest.mark.slow
def test_every_line_of_the_slow_tier_is_a_test():
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = set(done.stdout.splitlines())
    lines = (ROOT / "tests" / "slow_tier.txt").read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if not line.startswith("#") and line not in found]
