"""The pages on Python use run as they stand, block by block, like cells of a notebook."""

import itertools
import linecache
import re

import matplotlib.pyplot as plt
import pytest
from conftest import ROOT
from in_process import in_process

from wirelessdl.scenario.objects import PART_KEYS

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_number = itertools.count()


def run_page(name: str) -> dict:
    """All Python blocks of a page in one namespace; their lines are kept, as a notebook keeps its cells."""
    blocks = BLOCK.findall((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8"))
    assert len(blocks) > 2
    namespace = {"__name__": "__main__"}
    for block in blocks:
        file = f"<{name}.md block {next(_number)}>"
        linecache.cache[file] = (len(block), None, block.splitlines(keepends=True), file)
        exec(compile(block, file, "exec"), namespace)
    plt.close("all")
    return namespace


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("wirelessdl.study.sweep.open_cluster", in_process)


@pytest.mark.slow
def test_the_python_page_runs():
    done = run_page("python")
    assert done["part"]["exponent"] == 2.0
    assert done["study"].finished.shape[0] == 6  # two values and learning alone, two seeds each
    assert len(done["models"]) == 4


def test_the_python_page_names_every_part():
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    table = page[page.index("| keyword |") : page.index("A class is constructed by the run")]
    assert set(re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines()[2:] if line))) == set(
        PART_KEYS
    )


def test_the_page_for_users_of_ns3_runs():
    done = run_page("from_ns3")
    first = done["run"].links.query("tx == 0 and rx == 1")
    assert -84 < done["np"].log10(first["gain"]).mean() * 20 < -76  # what the file says
    assert done["own"].summary["rounds"] == 30


def test_the_page_for_users_of_pytorch_runs():
    done = run_page("from_pytorch")
    said = done["run"].provenance["objects"]
    assert {key: words["class"] for key, words in said.items()} == {
        "learning.model": "Net",
        "learning.dataset": "Moons",
    }
    assert not any(words["resumes"] for words in said.values())  # classes of a notebook
    assert done["accuracy"] > 0.7
