"""Every block of every page: commands and Python run in the page's order, in one folder; TOML is read.

The README has a test of its own. Long commands run shortened, as SHORTER and SLOW_OPTIONS say; those of the tutorial
and the recipes run unchanged.
"""

import itertools
import linecache
import re
import runpy
import shlex
import tomllib
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path

import click
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from conftest import ROOT, command_line
from in_process import in_process
from test_readme import checkout

import wirelessdl
from wirelessdl.cli.main import cli
from wirelessdl.scenario.objects import PART_KEYS

PAGES = {
    path.relative_to(ROOT).as_posix(): path
    for path in (*sorted((ROOT / "docs").glob("*.md")), ROOT / "channel_models/README.md", ROOT / "CONTRIBUTING.md")
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SAVED = re.compile(r"[Ss]ave this as `([\w.]+)`:\s*\Z")
NAMED = re.compile(r"# (\w+\.py)\n")
RUN = "outputs/quickstart-s7-r1"
# what stands on a page, and what runs here instead: the same command with fewer rounds, trials or runs
SHORTER = {
    "wirelessdl audit quickstart --set learning.sampling=full": (
        "wirelessdl audit quickstart --set learning.sampling=full --trials 60 --rounds 3 --samples 8 --workers 1"
    ),
    "wirelessdl reproduce fig2 --scale cpu --protocol hardened --jobs 2": (
        "wirelessdl reproduce fig2 --scale smoke --protocol hardened --jobs 1"
    ),
    "wirelessdl reproduce all --scale cpu --jobs 2": "wirelessdl reproduce theorem1 --scale smoke --jobs 1",
    "wirelessdl reproduce my_study.toml --scale cpu": (
        "wirelessdl reproduce my_study.toml --scale smoke --out outputs/mine"
    ),
}
# files and runs that a page takes as given, as commands
GIVEN = {
    "docs/baselines.md": ["wirelessdl run urban_er_k20"],
    "docs/report.md": ["wirelessdl run urban_er_k20 --rounds 80"],
    "docs/reproduction.md": [f"cp {ROOT}/scenarios/studies/fig4.toml my_study.toml"],
    "docs/survival.md": ["wirelessdl run quickstart --rounds 4"],
    "docs/wideband.md": ["wirelessdl run wideband_factory_k10 --rounds 4 --set trace.blocks=true"],
}
# run below, with what their blocks must come to
NOTEBOOKS = ("docs/python.md", "docs/from_ns3.md", "docs/from_pytorch.md")
# what Python of a page takes as given
NAMES = {
    "docs/network.md": """
from wirelessdl import Geometry, Links
import numpy as np
places = Geometry(np.array([[0.0, 0.0, 1.5], [9.0, 0.0, 1.5]]), np.zeros((2, 3)))
links_of_every_round = [Links.from_pairs(np.array([0, 1]), np.array([1, 0]), places)] * 20
"""
}
# options that would make a study of a page take minutes
SLOW_OPTIONS = {
    **{f"docs/{page}.md": ("--scale cpu", "--scale smoke") for page in ("air", "data", "digital", "learning", "power")},
    "docs/report.md": ("--rounds 100", "--rounds 2"),
    "docs/studies.md": ("--rounds 40", "--rounds 3"),
}


def blocks(page: str) -> list[tuple[str, str, str]]:
    """Language, text, and what stands before a block."""
    text = PAGES[page].read_text(encoding="utf-8")
    return [(found[1], found[2], text[: found.start()]) for found in BLOCK.finditer(text)]


def commands(page: str) -> list[str]:
    listed = [line for language, block, _ in blocks(page) if language == "sh" for line in block.splitlines()]
    return [line for line in listed if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("page", PAGES)
def test_commands_on_a_page_have_these_options(page):
    root = click.Context(cli, info_name="wirelessdl")
    for line in commands(page):
        words = shlex.split(line.partition(" > ")[0], comments=True)
        if words[0] != "wirelessdl" or words[1].startswith("--"):
            continue
        command = cli.get_command(root, words[1])
        assert command is not None, line
        command.make_context(words[1], list(words[2:]), parent=root)


@pytest.mark.parametrize("page", PAGES)
def test_python_and_toml_of_a_page_can_be_read(page):
    for language, block, _ in blocks(page):
        if language == "python":
            compile(block, page, "exec")
        elif language == "toml":
            whole = any(line.startswith("[") for line in block.splitlines())
            repeated = len(set(re.findall(r"^(\w+) =", block, re.MULTILINE))) < len(
                re.findall(r"^\w+ =", block, re.MULTILINE)
            )
            for text in [block] if whole or not repeated else block.splitlines():
                tomllib.loads(text)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page) and page not in NOTEBOOKS])
def test_blocks_of_a_page_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.setattr("wirelessdl.study.engine.open_cluster", in_process)  # a study's processes would load torch anew
    checkout(tmp_path)
    (tmp_path / "docs").mkdir()  # pictures of pages are written there
    with chdir(tmp_path):
        monkeypatch.syspath_prepend(str(tmp_path))
        for line in GIVEN.get(page, ()):
            run_line(page, line)
        for one in blocks(page):
            run_block(page, *one)


def run_block(page: str, language: str, block: str, before: str) -> str:
    """What it prints."""
    saved = SAVED.search(before)
    named = NAMED.match(block)
    if saved or named:
        Path((saved or named)[1]).write_text(block, encoding="utf-8")
    elif language == "sh" and not block.startswith("pip install"):  # else its commands need what is not installed here
        return "".join(run_line(page, line) for line in block.splitlines())
    elif language == "python":
        with redirect_stdout(StringIO()) as out:
            exec(compile(NAMES.get(page, "") + block, page, "exec"), {"__name__": "__main__"})
        return out.getvalue()
    return ""


def run_line(page: str, line: str) -> str:
    line = line.replace("outputs/<run>", RUN)
    old, new = SLOW_OPTIONS.get(page, ("", ""))
    written = shlex.split(line, comments=True)
    if not written or written[0] in ("make", ".", "pytest"):
        return ""  # targets of make have tests of their own, or are the tests
    if written[:2] == ["wirelessdl", "watch"] or written[-2:] == ["--log", "wandb"]:
        return ""  # goes on until Ctrl-C, or needs a package that is not installed here; tests of their own start them
    if written[0] == "python" and written[1].startswith("docs/"):
        return ""  # tables and figures of whole studies, which are shortened here
    if written[0] == "cp":
        Path(written[2]).write_bytes(Path(written[1]).read_bytes())
        return ""
    shorter = SHORTER.get(line, line)
    words = shlex.split(shorter.replace(old, new) if old else shorter, comments=True)
    target = None
    if ">" in words:
        words, target = words[: words.index(">")], words[-1]
    if words[0] == "python":
        with redirect_stdout(StringIO()) as out:
            runpy.run_path(words[1], run_name="__main__")
        return out.getvalue()
    assert words[0] == "wirelessdl", line
    done = command_line(*words[1:])
    assert done.code == 0, f"{line}\n{done.out}\n{done.err}"
    if target:
        Path(target).write_text(done.out, encoding="utf-8")
    return done.out


def test_shortened_commands_stand_on_a_page():
    every = {line for page in PAGES for line in commands(page)}
    assert set(SHORTER) <= every


# --- pages whose blocks follow one another like cells of a notebook

_number = itertools.count()


def run_page(name: str) -> dict:
    """All Python blocks of a page in one namespace; their lines are kept, as a notebook keeps its cells."""
    cells = [block for language, block, _ in blocks(f"docs/{name}.md") if language == "python"]
    assert len(cells) > 2
    namespace = {"__name__": "__main__"}
    for block in cells:
        file = f"<{name}.md block {next(_number)}>"
        linecache.cache[file] = (len(block), None, block.splitlines(keepends=True), file)
        exec(compile(block, file, "exec"), namespace)
    plt.close("all")
    return namespace


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("wirelessdl.study.engine.open_cluster", in_process)


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_the_python_page_runs():
    done = run_page("python")
    assert done["part"]["exponent"] == 2.0
    assert done["study"].finished.shape[0] == 6  # two values and local training, two seeds each
    assert len(done["models"]) == 4


def test_the_python_page_names_every_part():
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    table = page[page.index("| keyword |") : page.index("A class is constructed by the run")]
    assert set(re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines()[2:] if line))) == set(
        PART_KEYS
    )


@pytest.mark.usefixtures("here")
def test_the_page_for_users_of_ns3_runs():
    done = run_page("from_ns3")
    first = done["run"].links.query("tx == 0 and rx == 1")
    assert -84 < done["np"].log10(first["gain"]).mean() * 20 < -76  # what the file says
    assert done["own"].summary["rounds"] == 30


@pytest.mark.usefixtures("here")
def test_the_page_for_users_of_pytorch_runs():
    done = run_page("from_pytorch")
    said = done["run"].provenance["objects"]
    assert {key: words["class"] for key, words in said.items()} == {
        "learning.model": "Net",
        "learning.dataset": "Moons",
    }
    assert not any(words["resumes"] for words in said.values())  # classes of a notebook
    assert done["accuracy"] > 0.7


# --- five tasks by the lines of their recipes alone


def of_a_figure(_: str) -> None:
    series = pd.read_csv("accuracy-round-curves.csv")
    assert set(series["network.topology"]) == {"ring", "full"}
    assert series["high_95"].gt(series["low_95"]).all()
    assert b"/FontFile" in Path("accuracy-round-curves.pdf").read_bytes()


def of_a_comparison(printed: str) -> None:
    rows = {name: list(map(float, numbers)) for name, *numbers in map(str.split, printed.splitlines()[2:])}
    assert set(rows) == {"oac", "tdma"}
    assert all(low < mean < high and mean > 0.7 for mean, low, high in rows.values())
    assert Path("oac_tdma.pdf").is_file()


def of_a_channel(printed: str) -> None:
    period_s = wirelessdl.open_run(RUN).rounds["time_s"].diff().mean()
    # of amplitudes, whose correlation is nearly that of powers, r^2; 59 frames of 6 pairs scatter by .1
    assert float(printed.split()[-1]) == pytest.approx(np.exp(-2 * period_s / 0.05), abs=0.2)


def of_a_leakage(printed: str) -> None:
    assert printed.splitlines()[-1] == "against all other nodes colluding proven"
    last = printed.splitlines()[-2].split()
    assert last[1] == "40"
    assert float(last[3]) >= float(last[4]) > 0  # the running bound, and the exact total
    assert Path("leakage.pdf").is_file()


def of_an_algorithm(_: str) -> None:
    run = wirelessdl.open_run("outputs/quickstart-s7-r6")
    assert run.scenario["learning"]["update"] == {"kind": "lookahead.py:Lookahead", "every": 4, "back": 0.5}
    assert run.summary["accuracy_mean"] > 0.5
    assert list(run.path.glob("models/*-lookahead.py"))  # the run keeps it


TASKS = {
    "Put a figure into a paper": of_a_figure,
    "Compare accesses at equal energy, with my module and data": of_a_comparison,
    "Write a channel that remembers": of_a_channel,
    "See what node 3 leaks to node 7 over time": of_a_leakage,
    "Run an algorithm of my own": of_an_algorithm,
}


def recipes() -> dict[str, list[tuple[str, str, str]]]:
    found: dict[str, list[tuple[str, str, str]]] = {}
    for one in blocks("docs/howto.md"):
        found.setdefault(re.findall(r"^## (.*)$", one[2], re.MULTILINE)[-1], []).append(one)
    return found


def test_recipes_have_at_most_20_lines():
    for title, recipe in recipes().items():
        assert len([line for _, block, _ in recipe for line in block.splitlines() if line.strip()]) <= 20, title


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_done_by_the_lines_of_its_recipe(task):
    printed = "".join(run_block("docs/howto.md", *one) for one in recipes()[task])
    TASKS[task](printed)
