"""What the pages say is true: examples run, tables of keys and columns are complete."""

import importlib.util
import re
import subprocess
import sys

import pytest
from conftest import ROOT

import wirelessdl
from wirelessdl.scenario.loader import bundled_scenarios

README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples_run(example, tmp_path):
    done = subprocess.run([sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 2


def test_readme_names_every_bundled_scenario():
    assert not [name for name in bundled_scenarios() if f"`{name}`" not in README]
    assert not [name for name in bundled_scenarios() if README.count(f"\n| `{name}` |") > 1]  # and once in its table


@pytest.mark.parametrize("page", ["scenarios", "traces"])
def test_pages_of_keys_and_columns_are_up_to_date(page):
    spec = importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py")
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    written = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert written == getattr(tables, f"{page}_page")(), "run python docs/tables.py"


def test_the_scorecard_is_what_its_csv_files_say(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    spec = importlib.util.spec_from_file_location("scorecard", ROOT / "docs" / "scorecard.py")
    scorecard = importlib.util.module_from_spec(spec)
    sys.modules["scorecard"] = scorecard  # dataclasses look themselves up
    spec.loader.exec_module(scorecard)
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert scorecard.scorecard(ROOT / "docs" / "reproduction") in page, "run python docs/scorecard.py docs/reproduction"


def test_no_file_names_a_place_of_one_machine():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    suspicious = re.compile(r"(?<![\w.])/(?:home|root|Users|work|tmp)/\w")
    for name in listed:
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".txt", ".svg"} or path.name == "Makefile":
            assert not suspicious.search(path.read_text(encoding="utf-8")), name


def test_the_citation_has_this_version_and_the_paper():
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {wirelessdl.__version__}\n" in cited
    title = "A Joint Power-Privacy Control Framework for Decentralized Learning over Heterogeneous Wireless"
    for page in (cited, README):
        assert title in " ".join(page.replace("\n>", "\n").split())
        assert all(name in page for name in ("Ziaeddini", "Yakimenka", "Kliewer"))
