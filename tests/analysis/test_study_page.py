"""A study of real runs: its page in a browser, learning curves, runs of different size on one page, hostile names."""

import json
import math
import shutil

import numpy as np
import pandas as pd
import pytest
from browser import choose, chromium, complaints, marks, open_page
from studies import run_study, write_study

from wirelessdl import open_study
from wirelessdl.analysis.families import Request, learning_curves
from wirelessdl.analysis.report import write_report
from wirelessdl.analysis.report.study import write_study_report
from wirelessdl.analysis.runs import mean_band

KEYS = {"privacy.epsilon_max": [1.0, math.inf], "network.nodes": [4, 5]}
HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror=hacked()>"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two sizes with and without noise, two seeds each, and nodes that learn alone."""
    return open_study(
        run_study(
            tmp_path_factory.mktemp("studies") / "study",
            KEYS,
            baselines={"local": {"network.topology": "none"}},
            scenario={"rounds": 6},
            power={"objective": "own-noise"},
            learning={"batch_size": 8, "eval_every": 2},
        )
    )


@pytest.fixture(scope="module")
def page(study):
    write_report([study.path / study.index["path"].iloc[0]], study.path / study.index["path"].iloc[0] / "report.html")
    return write_study_report(study.path, study.path / "report.html")


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


def rows(browser):
    """Texts of the table's rows, cell by cell."""
    script = "return [...document.querySelectorAll('#table tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    return browser.execute_script(script)


def test_it_opens_without_complaint_at_every_width_and_theme(browser, page):
    for width in (1400, 390):
        for dark in (False, True):
            open_page(browser, page, width=width, dark=dark)
            assert complaints(browser) == []
            found = marks(browser)
            assert len(found) == 4, "one panel of results, differences, two panels of learning curves"
            accuracies = ".figure:not(.hidden, #fig-paired)"
            axes = f"return [...document.querySelectorAll('{accuracies}')].map((one) => one.layout.yaxis.range)"
            assert all(
                low >= 0 and high <= 1 for low, high in browser.execute_script(axes)
            )  # accuracies, whatever bands
            assert min(found.values()) > 0, found
            wide = browser.execute_script("return document.documentElement.scrollWidth")
            assert wide <= width, "the page scrolls sideways"
    assert page.read_text().count("http-equiv") == 1


def test_the_table_holds_the_means_and_sorts_and_filters(browser, page, study):
    open_page(browser, page, width=1400)
    found = rows(browser)
    assert len(found) == 5
    mean = study.mean(by=["cell"], of="accuracy").set_index("cell")
    for number, row in enumerate(found[:4]):
        one = mean.loc[f"c{number:03d}"]
        shown, half = (float(part) for part in row[5].replace("%", "").split(" ± "))
        assert shown == pytest.approx(100 * one["mean"], abs=0.06)  # a digit after the point
        assert half == pytest.approx(50 * (one["high"] - one["low"]), abs=0.06)
    local = study.mean(by=["baseline"], of="accuracy").set_index("baseline").loc["local", "mean"]
    assert float(found[4][5].partition("%")[0]) == pytest.approx(100 * local, abs=0.06)
    difference = float(found[0][6].partition(" ")[0].replace("−", "-"))
    assert difference == pytest.approx(100 * (mean.loc["c000", "mean"] - local), abs=0.06)
    titles = browser.execute_script("return [...document.querySelectorAll('#table .sort')].map((b) => b.textContent)")
    (place,) = [n for n, title in enumerate(titles) if title.startswith("energy in ")]
    factor = {"J": 1.0, "mJ": 1e3, "µJ": 1e6}[titles[place].removeprefix("energy in ")]
    energy = study.mean(by=["cell"], of="energy").set_index("cell").loc["c000", "mean"]
    assert float(found[0][place + 1].partition(" ")[0]) == pytest.approx(factor * energy, rel=6e-3)  # three digits
    nodes = [row[3] for row in found]
    browser.execute_script("document.querySelector('#table .sort[title=\"network.nodes\"]').click()")
    assert [row[3] for row in rows(browser)] == [*sorted(nodes[:4]), ""]
    browser.execute_script("document.querySelector('#table .sort[title=\"network.nodes\"]').click()")
    assert [row[3] for row in rows(browser)] == [*sorted(nodes[:4], reverse=True), ""]
    assert browser.execute_script("return document.querySelector('[aria-sort=descending]').textContent") == "nodes ↓"
    for words, left in (("nodes=5", 2), ("epsilon_max=1 nodes=5", 1), ("local", 1), ("privacy.epsilon_max=inf", 2)):
        choose(browser, "#filter", words, "input")
        assert len(rows(browser)) == left, words
        assert browser.execute_script("return document.getElementById('matching').textContent") == f"{left} of 5 cells"
    assert complaints(browser) == []


def test_a_cell_leads_to_its_runs(browser, page, study):
    open_page(browser, page, width=1400)
    browser.execute_script("document.querySelectorAll('#table .open')[0].click()")
    browser.execute_script("document.querySelectorAll('#table .open')[1].click()")
    first, second = (row[0] for row in rows(browser) if len(row) == 1)
    assert "seed 3, run 1: finished" in first
    link = browser.execute_script("return document.querySelector('#table .of-cell a').getAttribute('href')")
    assert link == "./runs/c000-s3-r1/report.html"
    assert f"wirelessdl report {study.path}/runs/c001-s3-r1" in second
    browser.execute_script("document.querySelector('#table .of-cell a').click()")
    assert browser.execute_script("return document.title") == "c000-s3-r1 · wirelessdl"


def test_families_follow_the_choices(browser, page, study):
    open_page(browser, page, width=1400)
    data = "return document.getElementById('family-panels-0').data.map(t => [t.x, t.y])"
    shapes = (
        "return document.getElementById('family-panels-0').layout.shapes.filter(s => s.type === 'line')"
        ".map(s => [s.y0, s.line.dash])"
    )
    own = study.mean(by=["cell"], of="accuracy").set_index("cell")["mean"]
    curves = browser.execute_script(data)
    assert [y for _, y in curves] == [[pytest.approx(own["c000"], rel=1e-5)], [pytest.approx(own["c001"], rel=1e-5)]]
    assert curves[0][0] == [
        pytest.approx(study.mean(by=["cell"], of="epsilon").set_index("cell").loc["c000", "mean"], rel=1e-5)
    ]
    levels = browser.execute_script(shapes)
    assert sorted(dash for _, dash in levels) == ["dash", "dash", "dot"]
    assert [y for y, dash in levels if dash == "dash"] == [pytest.approx(own[c], rel=1e-5) for c in ("c002", "c003")]
    choose(browser, "#family-x", "network.nodes")
    choose(browser, "#family-series", "privacy.epsilon_max")
    curves = browser.execute_script(data)
    assert [x for x, _ in curves] == [[4, 5], [4, 5]]
    assert curves[1][1] == [pytest.approx(own[cell], rel=1e-5) for cell in ("c002", "c003")]
    choose(browser, "#family-facet", "network.nodes")
    assert browser.execute_script("return document.querySelectorAll('#family-panels .figure').length") == 2
    browser.execute_script("document.getElementById('theme').click()")
    assert complaints(browser) == []


def test_a_figure_that_is_replaced_is_let_go_of_after_it_was_drawn(browser, page):
    """Plotly fails on the console where a figure is purged while it makes room for long ticks."""
    open_page(browser, page)
    early = browser.execute_async_script(
        """
        const done = arguments[0], { react, purge } = Plotly;
        let early = 0;
        Plotly.react = (figure, ...rest) => {
            const drawn = react(figure, ...rest);
            figure.busy = true;
            drawn.then(() => { figure.busy = false; });
            return drawn;
        };
        Plotly.purge = (figure) => { early += Boolean(figure.busy); purge(figure); };
        for (const one of document.querySelectorAll('select')) {
            for (const option of one.options) { one.value = option.value; one.dispatchEvent(new Event('change')); }
        }
        setTimeout(() => done(early), 500);
        """
    )
    assert early == 0
    assert complaints(browser) == []


def test_learning_curves_are_means_of_the_tables_with_their_bands(browser, page, study):
    runs = [study.run(path) for path in study.finished.loc[study.finished["cell"] == "c001", "path"]]
    mean, half = mean_band(np.array([run.evaluated["accuracy_mean"] for run in runs]))
    energy = np.mean([run.evaluated["energy_total_j"] for run in runs], axis=0)
    airtime = np.mean([run.rounds["airtime_s"].cumsum()[run.rounds["accuracy_mean"].notna()] for run in runs], axis=0)
    family = learning_curves(study, Request(curves="energy"))
    assert (family.roles.series, family.roles.facet) == ("privacy.epsilon_max", None)
    assert family.roles.style == "network.nodes"
    curve = next(curve for curve in family.curves if set(curve.points["cell"]) == {"c001"})
    assert curve["y"] == pytest.approx(mean)
    assert curve["high"] - curve["low"] == pytest.approx(2 * half)
    assert curve["x"] == pytest.approx(energy)
    along = {curve.points["cell"].iloc[0]: curve for curve in learning_curves(study, Request(curves="airtime")).curves}
    assert along["c001"]["x"] == pytest.approx(airtime)
    assert along["c004"].kind == "level", "who sends nothing has no airtime"
    over = {curve.points["cell"].iloc[0]: curve for curve in learning_curves(study, Request(curves="epsilon")).curves}
    assert over["c001"]["x"][-1] == pytest.approx(np.mean([run.summary["epsilon_total"] for run in runs]))
    assert (over["c003"].kind, over["c004"].kind) == ("level", "level")
    open_page(browser, page, width=1400)
    drawn = browser.execute_script(
        "return document.getElementById('curves-panels-1').data.map(t => [t.y, t.line.dash])"
    )
    solid = [y for y, dash in drawn if dash == "solid"]
    assert solid[0] == pytest.approx(mean.tolist(), rel=1e-5)
    for against in ("time", "energy", "nominal-energy", "airtime", "epsilon"):
        choose(browser, "#curves-against", against)
        assert min(marks(browser).values()) > 0
    choose(browser, "#curves-y", "loss")
    assert complaints(browser) == []


@pytest.mark.parametrize("against", ["round", "epsilon"])
def test_plot_draws_learning_curves(against, study, wirelessdl_command, tmp_path):
    asked = ["--curves", "--against", against, "--facet", "network.nodes", "--size", "double"]
    done = wirelessdl_command("plot", str(study.path), *asked, "--format", "svg")
    assert done.code == 0, done.err
    data = pd.read_csv(tmp_path / f"accuracy-{against}-curves.csv")
    assert set(data["network.nodes"].dropna()) == {4, 5}
    assert len(data) == (3 * 5 if against == "round" else 3 * 2 + 3)


def test_an_unknown_column_of_learning_curves_suggests_the_nearest(study, wirelessdl_command):
    done = wirelessdl_command("plot", str(study.path), "--curves", "--y", "accuracy_men")
    assert done.code == 2
    assert "did you mean accuracy_mean?" in done.err


@pytest.mark.slow
def test_runs_of_different_size_share_a_page(browser, study, tmp_path):
    paths = [study.path / f"runs/c00{cell}-s3-r1" for cell in (0, 1)]
    out = write_report(paths, tmp_path / "both.html")
    open_page(browser, out)
    assert complaints(browser) == []
    assert min(marks(browser).values()) > 0
    assert browser.execute_script("return document.querySelector('h1').textContent") == "2 runs, 4 to 5 nodes"
    for number, nodes in enumerate((4, 5)):
        choose(browser, ".run-switch", number)
        assert browser.execute_script("return document.getElementById('fig-radiated').data[0].x.length") == nodes
    assert complaints(browser) == []


def test_names_of_a_stranger_stay_text(browser, study, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(study.path, folder)
    made = study.index.replace({np.nan: None}).drop(columns="epsilon").to_dict("records")
    for row in made:
        row |= {"learning.partition": HOSTILE if row["seed"] else "", "error": HOSTILE}
        if row["baseline"]:
            row |= {"baseline": HOSTILE, "name": HOSTILE}
        else:
            row["name"] = f"{row['cell']} {HOSTILE}"
    made[0]["status"] = "failed"
    write_study(folder, made, [*KEYS, "learning.partition"], name=HOSTILE)
    manifest = json.loads((folder / "study.json").read_text())
    manifest["versions"] = {HOSTILE: HOSTILE}
    (folder / "study.json").write_text(json.dumps(manifest))
    (folder / "scenario.toml").write_text(HOSTILE)
    out = write_study_report(folder, tmp_path / "hostile.html")
    open_page(browser, out, width=1400)
    browser.execute_script("document.querySelectorAll('#table .open').forEach(b => b.click())")
    assert complaints(browser) == []
    assert browser.execute_script("return window.hacked") is None
    assert browser.execute_script("return document.querySelectorAll('script').length") == 3
    assert browser.execute_script("return document.querySelectorAll('img').length") == 0
    assert browser.execute_script("return document.querySelector('h1').textContent").startswith("</script>")


@pytest.mark.slow
def test_a_study_that_has_only_begun_has_a_page(browser, tmp_path):
    planned = [{"cell": "c000", "seed": 1, "network.nodes": 4, "status": "planned"}]
    folder = write_study(tmp_path / "begun", planned, ["network.nodes"])
    open_page(browser, write_study_report(folder, folder / "report.html"))
    assert complaints(browser) == []
    assert "No run is finished yet" in browser.execute_script("return document.querySelector('main').textContent")


def test_a_damaged_run_of_a_study_is_one_line(study, tmp_path, wirelessdl_command):
    folder = tmp_path / "study"
    shutil.copytree(study.path, folder)
    for part in (folder / "runs/c000-s3-r1/rounds").iterdir():
        part.write_bytes(part.read_bytes()[:200])
    done = wirelessdl_command("plot", str(folder), "--curves")
    assert done.code == 2
    assert len(done.err.strip().splitlines()) == 1
    assert "c000-s3-r1" in done.err
    done = wirelessdl_command("report", str(folder))
    assert done.code == 0, done.err
    assert "1 cells have no learning curves" in (folder / "report.html").read_text()
