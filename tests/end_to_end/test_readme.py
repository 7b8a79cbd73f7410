"""Every block of the README runs, in order, in one folder, and the first one trains as the page says."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from conftest import ROOT, command_line
from in_process import in_process
from PIL import Image

import wirelessdl

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```|^\|[^|\n]*\| `(wirelessdl [^`\n]*)` \|", re.MULTILINE | re.DOTALL)
# the environment that runs the tests stands for the one that make would install: there is nothing to install
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name not in ("MAKELEVEL", "MFLAGS")},  # of `make test`
    "VENV": sys.prefix,
    "MAKEFLAGS": "STAMP=installed",
    "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}",
}


def checkout(folder: Path) -> None:
    """Make a folder look like the checkout, with outputs of its own."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "wirelessdl", "scenarios", "channel_models"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "installed").touch()
    (folder / ".venv").symlink_to(sys.prefix)


def run_blocks(folder: Path, run: Callable[[str, str], str]) -> dict[str, str]:
    """What run(language, block) prints for each block, in the page's order, and each command of its tables."""
    checkout(folder)
    printed = {}
    for language, block, command in BLOCK.findall(README):
        if language != "text":
            printed[(block or command).strip()] = run(language or "sh", block or command)
    return printed


def assert_trained_as_the_page_says(printed: dict[str, str]) -> None:
    figures = re.compile(r"test accuracy\s+([\d.]+)%")
    said, seen = (float(figures.search(text)[1]) for text in (README, printed["make run"]))
    # the pasted run used two threads, this one uses one: sums differ in the last bits
    assert said == pytest.approx(seen, abs=1.0)


def in_this_process(language: str, block: str) -> str:
    """Commands by their entry point, `make run` by the command that make would run, Python as it stands."""
    if language == "python":
        with redirect_stdout(StringIO()) as out:
            exec(block, {})
        return out.getvalue()
    printed = ""
    for line in block.splitlines():
        command = shlex.split(line)
        if command == [".", ".venv/bin/activate"]:
            continue  # this process is in it
        if command[0] == "make":
            told = subprocess.run(
                [*command, "-n", "--no-print-directory"], env=ENVIRONMENT, capture_output=True, text=True, check=True
            ).stdout
            command = shlex.split(told)
        assert Path(command[0]).name == "wirelessdl", line
        done = command_line(*command[1:])
        assert done.code == 0, f"{line}\n{done.out}\n{done.err}"
        printed += done.out
    return printed


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The folder in which all blocks ran, and what each printed."""
    folder = tmp_path_factory.mktemp("readme")
    with chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr("wirelessdl.study.engine.open_cluster", in_process)  # a study's processes would load torch anew
        return folder, run_blocks(folder, in_this_process)


def test_readme_blocks_run_in_order(ran):
    folder, printed = ran
    assert_trained_as_the_page_says(printed)
    assert len(printed) >= 6
    for name in (
        "plan.png",
        "gains.png",
        "outputs/urban_er_k20-s7-r1/report.html",
        "accuracy-epsilon.pdf",
        "accuracy.png",
    ):
        assert (folder / name).is_file(), name


def test_the_picture_of_a_report_is_of_the_main_example(ran):
    """The numbers of the run that it shows stand in the file; see CONTRIBUTING.md for how it is made."""
    shown = json.loads(Image.open(ROOT / "docs" / "report.png").text["Summary"])
    found = wirelessdl.open_run(ran[0] / "outputs" / "urban_er_k20-s7-r1").summary
    assert (shown["scenario"], shown["rounds"]) == (found["scenario"], found["rounds"])
    assert shown["epsilon_total"] == pytest.approx(found["epsilon_total"], rel=1e-6)
    assert shown["accuracy_mean"] == pytest.approx(found["accuracy_mean"], abs=0.01)  # two threads there, one here


def test_the_flagship_learns(ran):
    run = wirelessdl.open_run(ran[0] / "outputs" / "urban_er_k20-s7-r1")
    assert run.summary["rounds"] == 40
    assert run.summary["accuracy_mean"] > 0.78
    assert run.summary["accuracy_min"] > 0.76
    assert run.summary["epsilon_total"] == run.summary["epsilon_coalition_total"] <= 1.0
    assert run.summary["coalition"] == 5
    assert run.summary["violations"] == 0
    assert run.summary["airtime_s"] < 1.1


@pytest.mark.slow
def test_readme_blocks_run_in_a_shell(tmp_path):
    def in_a_shell(language: str, block: str) -> str:
        command = ["bash", "-euc", block] if language == "sh" else [sys.executable, "-c", block]
        done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    assert_trained_as_the_page_says(run_blocks(tmp_path, in_a_shell))
