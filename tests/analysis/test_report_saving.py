"""Figures of a report as files, titles that fit, ticks at round steps, bands over seeds, heights and gaps in words."""

import csv
import io
import time

import numpy as np
import pytest
from browser import chromium, complaints, open_page
from pages import fading_scenario
from scipy.stats import t as student

from wirelessdl import simulate
from wirelessdl.analysis.report import write_report


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    drones = {"network": {"placement": {"kind": "disc", "radius_m": 60.0, "height_m": [20.0, 90.0]}}}
    seeds = [simulate(fading_scenario(scenario={"seed": seed}, **drones), out=folder) for seed in (1, 2, 3)]
    return [*seeds, simulate(fading_scenario(privacy={"epsilon_max": 2.0}), out=folder)]


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    return write_report([run.path for run in runs], tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


def data(browser, figure):
    return browser.execute_script(
        "return document.getElementById(arguments[0]).data.map(t => ({ name: t.name, x: t.x, y: t.y, z: t.z }))", figure
    )


def test_every_figure_is_offered_as_svg_and_its_numbers_as_csv(browser, page, tmp_path):
    open_page(browser, page)
    browser.execute_cdp_cmd("Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    for name in ("accuracy", "heat"):
        for kind in ("SVG", "CSV"):
            browser.execute_script(
                "document.querySelector(arguments[0]).click()", f'[aria-label="save {name} as {kind}"]'
            )
    wanted = [tmp_path / f"{name}.{kind}" for name in ("accuracy", "heat") for kind in ("svg", "csv")]
    deadline = time.monotonic() + 60
    while not all(path.is_file() and path.stat().st_size for path in wanted) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert wanted[0].read_text().startswith("<svg")
    rows = list(csv.DictReader(io.StringIO(wanted[1].read_text())))
    curve = next(one for one in data(browser, "fig-accuracy") if one["name"].startswith("mean of 3 runs"))
    said = [(float(row["x"]), float(row["y"])) for row in rows if row["series"] == curve["name"]]
    np.testing.assert_allclose(said, np.transpose([curve["x"], curve["y"]]))
    heat = data(browser, "fig-heat")[0]
    cells = list(csv.DictReader(io.StringIO(wanted[3].read_text())))
    assert len(cells) == sum(value is not None for row in heat["z"] for value in row)
    for cell in cells:
        assert float(cell["z"]) == pytest.approx(heat["z"][int(cell["y"])][int(cell["x"])])
    assert complaints(browser) == []


def test_runs_that_differ_in_seed_alone_have_a_mean_and_its_interval(browser, page, runs):
    open_page(browser, page)
    low, high, mean = data(browser, "fig-accuracy")[-3:]
    curves = np.array([run.rounds["accuracy_mean"].dropna() for run in runs[:3]])
    np.testing.assert_allclose(mean["y"], curves.mean(axis=0), rtol=1e-5)
    half = student.ppf(0.975, 2) * curves.std(axis=0, ddof=1) / np.sqrt(3)
    np.testing.assert_allclose(np.subtract(high["y"], low["y"]), 2 * half, rtol=1e-4)


@pytest.mark.parametrize(
    "width", [pytest.param(1400, marks=pytest.mark.slow), 800, pytest.param(390, marks=pytest.mark.slow)]
)
def test_no_title_is_wider_than_its_figure(browser, page, width):
    open_page(browser, page, width=width)
    found = browser.execute_script(
        "return [...document.querySelectorAll('.figure')].filter(f => f.querySelector('.gtitle')).map(f => {"
        "const box = f.getBoundingClientRect(), title = f.querySelector('.gtitle').getBoundingClientRect();"
        "return [f.id, title.left - box.left, box.right - title.right, title.top - box.top] })"
    )
    assert len(found) > 5
    assert [one for one in found if min(one[1:]) < -1] == []


@pytest.mark.slow
def test_ticks_of_nodes_are_at_round_steps(browser, page):
    open_page(browser, page)
    steps = browser.execute_script("return [4, 12, 13, 20, 30, 61, 100, 150, 1000, 20000].map(n => ticks(n).dtick)")
    assert steps == [1, 1, 2, 2, 5, 10, 10, 20, 100, 2000]


def test_heights_are_told_where_they_differ(browser, page):
    open_page(browser, page)
    assert "Higher nodes are drawn larger" in browser.execute_script(
        "return document.getElementById('note-map').textContent"
    )
    browser.execute_script(
        "const s = document.querySelector('.run-switch'); s.value = 3; s.dispatchEvent(new Event('change'))"
    )
    assert browser.execute_script("return document.getElementById('note-map').textContent") == ""


@pytest.mark.slow
def test_a_gap_that_stays_zero_is_explained(browser, tmp_path):
    crashes = {"kind": "exponential", "up_s": 0.05, "down_s": 0.05}
    run = simulate(fading_scenario(faults={"crashes": crashes}), out=tmp_path)
    open_page(browser, write_report([run.path], tmp_path / "report.html"))
    words = browser.execute_script("return document.getElementById('note-gap').textContent")
    share = (run.rounds["spectral_gap"].dropna() < 1e-9).mean()
    assert share > 0.05
    assert f"{round(100 * share)}%" in words or "every round" in words
