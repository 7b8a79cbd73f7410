"""What the pages say is true: examples run, tables of keys and columns are complete."""

import fnmatch
import importlib.util
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from conftest import ROOT

import wirelessdl
from wirelessdl.scenario.loader import bundled_scenarios
from wirelessdl.study.reproduce import reproductions

README = (ROOT / "README.md").read_text(encoding="utf-8")
ARGUMENTS = {"noise_study": ("outputs", "1")}  # one seed; `make docs-numbers-all` compares the figures of three


@pytest.mark.slow
@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples_run(example, tmp_path):
    words = [sys.executable, str(example), *ARGUMENTS.get(example.stem, ())]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 2  # the shortest print two


def test_readme_is_two_screens():
    assert len(README.splitlines()) <= 120
    assert len(README.encode()) <= 8192
    assert "](docs/report.gif)" in README  # the map of a report, playing
    assert (ROOT / "docs" / "report.gif").stat().st_size < 1.5e6


def test_links_of_the_readme_lead_to_files_and_headings():
    """The site checks all other pages; the README is not one of them."""
    for target in re.findall(r"(?:\]\(|src=\")([^)\"\s]+)[)\"]", re.sub(r"```.*?```", "", README, flags=re.DOTALL)):
        path, _, anchor = target.partition("#")
        assert (ROOT / path).exists(), target
        if anchor:
            text = re.sub(r"```.*?```", "", (ROOT / path).read_text(encoding="utf-8"), flags=re.DOTALL)
            headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
            made = [re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.lower())) for heading in headings]
            assert anchor in made, target


def script(name):
    """A script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["scenarios", "traces", "cli"])
def test_pages_of_keys_columns_and_commands_are_up_to_date(page):
    tables = script("tables")
    written = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert written == getattr(tables, f"{page}_page")(), "run python docs/tables.py"


def test_pages_name_the_schema_versions_that_are_written():
    from wirelessdl.trace import checkpoint, schema

    page = (ROOT / "docs" / "survival.md").read_text(encoding="utf-8")
    assert f"Tables have schema version {schema.VERSION}, checkpoints have schema version {checkpoint.VERSION}." in page


def test_the_scorecard_is_what_its_csv_files_say(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "reproduction")
    scorecard = script("reproduction/scorecard")
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    for table in scorecard.parts(ROOT / "docs" / "reproduction").values():
        assert table in page, "run python docs/reproduction/scorecard.py docs/reproduction"


def changed(folder, name, **columns):
    """Other values in a column of a CSV file."""
    table = pd.read_csv(folder / name)
    table.assign(**columns).to_csv(folder / name, index=False)


def test_verdicts_of_the_scorecard_follow_from_its_files(monkeypatch, tmp_path):
    """Files that say the opposite give the opposite verdict."""
    monkeypatch.syspath_prepend(ROOT / "docs" / "reproduction")
    scorecard = script("reproduction/scorecard")
    folder = Path(shutil.copytree(ROOT / "docs" / "reproduction", tmp_path / "copy"))
    looks = {claim.title: claim.look for claim in scorecard.CLAIMS}

    def verdict(title):
        return looks[title](scorecard.Tables(folder)).verdict

    assert verdict("Power within P") == "holds"
    changed(folder, "fig5-paper.csv", power_over_budget_most=1.2)
    assert verdict("Power within P") == "does not"
    assert verdict("Better than PED2FL at epsilon_max 1").startswith("does not")
    for protocol in ("paper", "hardened"):
        changed(folder, f"fig2-{protocol}-differences.csv", low=0.01)
    assert verdict("Better than PED2FL at epsilon_max 1") == "holds"
    assert "faster" in verdict("Regret of order log T")
    changed(folder, "theorem2-slopes.csv", growth_low=0.9, growth_high=1.1)
    assert verdict("Regret of order log T") == "holds up to T = 10,000"
    changed(folder, "theorem2-slopes.csv", growth_low=0.5, growth_high=5.0)
    assert verdict("Regret of order log T").startswith("does not")
    assert verdict("Total by Theorem 9").startswith("does not")
    changed(folder, "theorem1-totals.csv", audit_low=0.0)
    assert verdict("Total by Theorem 9") == "not refuted here, not proven"
    for name in ("fig4", "fig5", "fig6"):
        changed(folder, f"{name}-hardened-differences.csv", low=-0.1, high=-0.01)
        changed(folder, f"{name}-paper-differences.csv", low=-0.1, high=0.1)
    graphs = verdict("Full graphs above ring and random")
    assert graphs == "printed: not resolved (0 of 36 cells); hardened: holds (27 of 27 cells)"
    assert " of 60 cells" in verdict("Local training")
    changed(folder, "alone-paper.csv", accuracy_mean=0.0, accuracy_mean_high=0.001)
    changed(folder, "alone-hardened.csv", accuracy_mean=0.0, accuracy_mean_high=0.001)
    assert "beat it in 60 of 60 cells and lose in 0" in verdict("Local training")
    assert verdict("Leakage grows with K") == "holds for the claim (20 of 20 cells)"
    changed(folder, "fig6-paper.csv", epsilon_link_total_low=0.0)
    assert verdict("Leakage grows with K") == "does not (0 of 20 cells)"
    (folder / "bias-minima.csv").unlink()
    assert "not measured yet" in scorecard.scorecard(folder)


def test_every_claim_names_its_files_and_they_are_there(monkeypatch):
    """CSV files are in the repository; figures are written beside them by the studies that the claim names."""
    monkeypatch.syspath_prepend(ROOT / "docs" / "reproduction")
    drawn = cache(
        lambda study: [f"{one.name}-{figure.name}" for one in reproductions(study, "cpu") for figure in one.figures]
    )
    of_theorems = ["theorem1-leakage", "theorem2-regret", "bias-minima"]  # docs/reproduction/theorems.py
    for claim in script("reproduction/scorecard").CLAIMS:
        tables, figures = (re.findall(rf"`([a-z0-9*-]+)\.{kind}`", claim.files) for kind in ("csv", "pdf"))
        assert tables, claim.title
        assert figures, claim.title
        for name in tables:
            assert list((ROOT / "docs" / "reproduction").glob(f"{name}.csv")), name
        made = [name for study in claim.studies for name in drawn(study)] + of_theorems
        for name in figures:
            assert fnmatch.filter(made, name), (claim.title, name)


def test_learning_alone_is_that_of_the_figures():
    """The study alone repeats the baseline of fig4 to fig6: the same nodes, data, batches and seeds."""
    folder = ROOT / "docs" / "reproduction"
    for protocol in ("paper", "hardened"):
        alone = pd.read_csv(folder / f"alone-{protocol}.csv").set_index(["name", "network.nodes", "learning.partition"])
        for study, nodes in (("fig4", 4), ("fig5", 10), ("fig6", 20)):
            table = pd.read_csv(folder / f"{study}-{protocol}.csv")
            for row in table[table["baseline"] == "local"].itertuples():
                same = alone.loc[("local", nodes, table.loc[row.Index, "learning.partition"])]
                assert same["accuracy_mean"] == pytest.approx(row.accuracy_mean, abs=1e-9)


def test_the_gallery_is_what_its_runs_and_headers_say():
    gallery = script("gallery")
    assert set(gallery.kept()) == set(bundled_scenarios()), "run python docs/gallery.py NAME"
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert page == gallery.gallery_page(), "run python docs/gallery.py --page"
    for name, row in gallery.kept().items():
        assert (ROOT / "docs" / "gallery" / f"{name}.png").is_file() == bool(row["summary"]), name


def test_no_picture_lacks_its_command_and_none_is_older_than_what_decides_it():
    """`make docs-numbers` also draws quick ones anew, and docs-numbers-all those that take minutes."""
    pictures = script("pictures")
    assert not pictures.without_command(), "name its command in docs/pictures.toml"
    assert not list(pictures.outdated())
    for name in pictures.shown():
        assert (ROOT / "docs" / name).is_file(), name
    assert {f"{name}.png" for name in bundled_scenarios()} == {
        path.name for path in (ROOT / "docs" / "gallery" / "maps").glob("*.png")
    }


def test_headers_of_scenarios_expect_what_the_gallery_reached():
    for name, row in script("gallery").kept().items():
        said = re.search(r"Expect about (\d+)% mean\s+test accuracy", _folded(bundled_scenarios()[name]))
        if said and row["summary"]:
            assert float(said[1]) == pytest.approx(100 * row["summary"]["accuracy_mean"], abs=1.5), name


def _folded(path):
    return " ".join(line.lstrip("# ") for line in path.read_text(encoding="utf-8").splitlines())


def test_numbers_that_are_checked_stand_in_their_pages():
    numbers = script("check_numbers")
    for entry in numbers.numbers():
        if isinstance(entry, numbers.Number):
            assert numbers.stands_in(entry) == 1, f"{entry.page}: {entry.plain!r}"
            assert entry.tolerance > 0
        else:
            assert entry.block()


def test_numbers_that_are_not_run_again_name_a_test_or_a_command_of_their_page():
    numbers = script("check_numbers")
    for one in numbers.left_out():
        if isinstance(one, numbers.Tested):
            path, _, name = one.test.partition("::")
            assert f"def {name}" in (ROOT / path).read_text(encoding="utf-8"), one
            assert numbers.stands_in(one) == 1, one
        else:
            assert one.command in (ROOT / one.page).read_text(encoding="utf-8"), one


def test_every_page_with_measured_numbers_is_in_the_table_of_numbers():
    numbers = script("check_numbers")
    listed = {entry.page for entry in [*numbers.entries(), *numbers.left_out()]}
    pages = "audit baselines channels choosing data digital gallery learning network noise performance power privacy"
    pages += " reliability report reproduction scale survival time tutorial wideband"
    assert {f"docs/{page}.md" for page in pages.split()} | {"README.md"} <= listed


def test_a_table_is_its_cells_and_no_command_is_run_twice(tmp_path, monkeypatch):
    numbers = script("check_numbers")
    table = numbers.Table(
        "docs/channels.md",
        "| seed | 11 | 1 | 2 | 3 | mean |",
        "wirelessdl run x {row} --seed {column} --json",
        0.5,
        {"`none`": "--set a=b"},
        json="accuracy_mean",
    )
    first, *_, mean = table.numbers()
    assert first.command == "wirelessdl run x --set a=b --seed 11 --json"
    said = float(first.stated.rstrip("%")) / 100
    assert first.problem([f'{{"accuracy_mean": {said + 0.004}}}']) == ""
    assert "gives" in first.problem([f'{{"accuracy_mean": {said + 0.006}}}'])
    assert [command.split()[6] for command in mean.commands] == ["11", "1", "2", "3"]
    assert "gives 50" in mean.problem(['{"accuracy_mean": 0.5}'] * 4)
    one = numbers.Number("README.md", "is {3} here", "python -c 'print(3)'", 0.1, match=r"(\d)")
    assert numbers.check([one], tmp_path) == ([], 0)
    monkeypatch.setattr(numbers, "_run", lambda *_: pytest.fail("run again"))
    assert numbers.check([one], tmp_path) == ([], 0)  # what a command printed is kept


def test_a_number_that_differs_is_found():
    numbers = script("check_numbers")
    one = numbers.Number("README.md", "reaches {80.1%} here", "wirelessdl run x --json", 0.5, json="a.b")
    assert one.problem(['{"a": {"b": 0.8055}}']) == ""
    assert "gives 80.7" in one.problem(['{"a": {"b": 0.807}}'])
    shown = numbers.Output("docs/power.md", "paper_k4_full", "wirelessdl plan paper_k4_full", 0.01)
    assert shown.problem([shown.block() + "more\n"]) == ""
    assert "no such line" in shown.problem([shown.block().replace("this will not train", "this will train")])
    assert "no such line" in shown.problem([re.sub(r"theta is [\d.]+", "theta is 9.99", shown.block())])


def test_no_file_names_a_place_of_one_machine():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    suspicious = re.compile(r"(?<![\w.])/(?:home|root|Users|work|tmp)/\w")
    for name in listed:
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".txt", ".svg", ".yml", ".yaml", ".json"} or path.name == "Makefile":
            assert not suspicious.search(path.read_text(encoding="utf-8")), name


def test_the_citation_has_this_version_and_the_paper():
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {wirelessdl.__version__}\n" in cited
    title = "A Joint Power-Privacy Control Framework for Decentralized Learning over Heterogeneous Wireless"
    for page in (cited, README):
        assert title in " ".join(page.replace("\n>", "\n").split())
        assert all(name in page for name in ("Ziaeddini", "Yakimenka", "Kliewer"))
