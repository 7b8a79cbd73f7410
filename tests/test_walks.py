"""The reading path and the three walks of CONTRIBUTING.md: what they name exists, is called, and is counted."""

import ast
import os
import re
import subprocess
import sys

import pytest
from conftest import ROOT

PACKAGE = ROOT / "wirelessdl"
HOP = re.compile(r"^\d+\. `([\w/]+\.py):([\w.]+)`", flags=re.MULTILINE)
WALK = re.compile(r"^\*\*(One [^*]+)\*\*: (\d+) hops in (\d+) files\.$", flags=re.MULTILINE)


def test_the_reading_path_names_files_that_exist_and_is_as_long_as_it_says():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## The way in")[1].split("| to add |")[0]
    path, beside = text.split("Beside the path")
    named = {one.removeprefix("wirelessdl/") for one in re.findall(r"`([\w/]+\.py)`", path)}
    files, lines = re.search(r"(\d+) files of about ([\d,]+) lines", path).groups()
    assert len(named) == int(files)
    found = sum(len((PACKAGE / one).read_text(encoding="utf-8").splitlines()) for one in named)
    assert abs(found - int(lines.replace(",", ""))) <= 300  # "about"
    assert all((PACKAGE / one).is_file() for one in re.findall(r"`([\w/]+\.py)`", beside))


def walks():
    """Hops of each walk, (file, function), by its name; and the numbers of hops and files that the page states."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Three walks")[1]
    parts = WALK.split(text)[1:]
    return {
        parts[n]: (HOP.findall(parts[n + 3]), int(parts[n + 1]), int(parts[n + 2])) for n in range(0, len(parts), 4)
    }


def defined(path):
    """Functions and classes of a file, methods by `Class.method`."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        for one in (node, *(node.body if isinstance(node, ast.ClassDef) else ())):
            if isinstance(one, ast.FunctionDef | ast.ClassDef):
                found.add(one.name if one is node else f"{node.name}.{one.name}")
    return found


def test_there_are_three_walks_of_the_stated_lengths():
    assert list(walks()) == ["One |h_ij|", "One gradient", "One epsilon"]
    for hops, stated, files in walks().values():
        assert (len(hops), len({file for file, _ in hops})) == (stated, files)


@pytest.mark.parametrize("walk", walks())
def test_every_hop_of_a_walk_is_a_function_of_its_file(walk):
    for file, function in walks()[walk][0]:
        assert (PACKAGE / file).is_file(), file
        assert function in defined(PACKAGE / file), f"{file}:{function}"


TRACED = """
import sys, threading
from wirelessdl.cli.main import main
called = set()

def note(frame, event, _):
    if event == "call":
        called.add((frame.f_code.co_filename, frame.f_code.co_qualname))

def command(*arguments):
    sys.argv = ["wirelessdl", *arguments]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, arguments

threading.setprofile(note)
sys.setprofile(note)
command("run", "quickstart", "--rounds", "2", "--out", "runs", "--quiet", "--set", "learning.batch_size=8")
command("report", "runs/quickstart-s7-r1")
sys.setprofile(None)
for file, function in called:
    print("called", file, function)
"""


@pytest.mark.slow
def test_every_hop_is_called_in_a_run_and_its_report(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", TRACED]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    called = {tuple(line.split()[1:]) for line in done.stdout.splitlines() if line.startswith("called ")}
    for hops, *_ in walks().values():
        for file, function in hops:
            path = str(PACKAGE / file)
            # of a class it says only that its module is imported
            assert (path, function) in called, f"{file}:{function}"


def test_pages_and_docstrings_name_files_that_exist():
    """Paths in backquotes, from the root, the package, docs/ or tests/."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    named = re.compile(r"`((?:\w+/)+\w+\.(?:py|md|toml))")
    homes = (ROOT, PACKAGE, ROOT / "docs", ROOT / "tests")
    gone = {
        (page.relative_to(ROOT).as_posix(), path)
        for page in pages
        if page.name != "CHANGELOG.md"  # it speaks of what was
        for path in named.findall(page.read_text(encoding="utf-8"))
        if not any((home / path).exists() for home in homes)
    }
    assert not gone
