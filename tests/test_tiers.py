"""The list of slow tests names tests that exist."""

import subprocess
import sys

import pytest
from conftest import ROOT, slow_tier


@pytest.mark.slow
def test_every_line_of_the_slow_tier_is_a_test():
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    cases = [line for line in done.stdout.splitlines() if "::" in line]
    tests = {case.partition("[")[0] for case in cases}
    names = {*cases, *tests, *(test.partition("::")[0] for test in tests)}
    assert not [name for name in slow_tier() if name not in names]
