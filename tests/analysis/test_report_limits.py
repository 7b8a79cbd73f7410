"""Reports of runs that are unfinished, large, or traced in part: each says what it leaves out."""

import json
import shutil
import time

import numpy as np
import pytest
from browser import chromium, complaints, marks, open_page
from conftest import tiny
from pages import FIGURES, embedded, fading_scenario, unpacked

from wirelessdl import load_scenario, simulate
from wirelessdl.analysis.report import write_report
from wirelessdl.trace.files import RunLock


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return simulate(fading_scenario(), out=tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


def test_an_unfinished_run_is_reported_as_far_as_it_was_written(browser, run, tmp_path):
    going = tmp_path / "going"
    shutil.copytree(run.path, going)
    (going / "summary.json").unlink()
    shutil.rmtree(going / "privacy")
    origin = json.loads((going / "provenance.json").read_text())
    (going / "provenance.json").write_text(json.dumps({**origin, "state": "running"}))
    with RunLock(going):
        path = write_report([going], tmp_path / "report.html")
    open_page(browser, path)
    assert complaints(browser) == []
    text = browser.execute_script("return document.body.innerText")
    assert "running, round 24 of 24" in text
    assert "was still running when this report was made" in text
    found = marks(browser)
    assert set(found) == FIGURES - {"fig-totals"}
    assert min(found.values()) > 0


@pytest.mark.parametrize(
    ("change", "missing", "words"),
    [
        (
            {"trace": {"links": "none"}},
            {"fig-heat", "fig-weight", "fig-pi", "fig-gap", "fig-channel"},
            "No links were traced",
        ),
        (
            {"privacy": {"epsilon_max": float("inf"), "budget_total": float("inf")}},
            {"fig-heat", "fig-tradeoff", "fig-totals"},
            "No privacy noise: the epsilon of every link is infinite",
        ),
        pytest.param({"trace": {"links": "evaluated"}}, {"fig-pi"}, "hold 6 of 24 rounds", marks=pytest.mark.slow),
        pytest.param({"scenario": {"rounds": 1}}, set(), "epsilon of the run", marks=pytest.mark.slow),
    ],
)
def test_a_sentence_replaces_a_figure_of_what_was_not_traced(browser, change, missing, words, tmp_path):
    path = write_report([simulate(fading_scenario(**change), out=tmp_path).path], tmp_path / "report.html")
    open_page(browser, path)
    assert complaints(browser) == []
    found = marks(browser)
    assert set(found) == FIGURES - missing
    assert min(found.values()) > 0, found
    assert words in browser.execute_script("return document.body.textContent")


@pytest.mark.slow
def test_the_flagship_fits_into_eight_megabytes(tmp_path):
    scenario = load_scenario("urban_er_k20", overrides=["learning.eval_every=50"])
    run = simulate(scenario, out=tmp_path)
    path = write_report([run.path], tmp_path / "report.html")
    assert path.stat().st_size < 8e6
    assert embedded(path)[0]["notes"] == []


@pytest.mark.slow
def test_a_hundred_nodes_and_a_thousand_rounds_fit_in_size_and_time(browser, tmp_path):
    from bench.traces import large_run

    run = large_run(tmp_path)
    assert len(run.frame("links", ["round"])) == 9_900_000
    started = time.monotonic()
    path = write_report([run.path], tmp_path / "report.html")
    assert time.monotonic() - started < 60
    assert path.stat().st_size < 20e6
    open_page(browser, path)
    assert complaints(browser) == []
    assert min(marks(browser).values()) > 0
    assert "strongest of 9,900 links" in browser.execute_script("return document.body.textContent")


@pytest.mark.slow
def test_large_networks_are_shown_in_blocks_of_nodes(browser, tmp_path):
    scenario = tiny(network={"nodes": 250, "topology": {"kind": "ring", "reach": 2}})
    run = simulate(scenario, out=tmp_path)
    path = write_report([run.path], tmp_path / "report.html")
    (shown,) = embedded(path)
    assert shown["heat"]["width"] == 2
    largest = np.full((125, 125), np.nan)
    for row in run.links.itertuples():
        block = row.rx // 2, row.tx // 2
        largest[block] = np.fmax(largest[block], row.epsilon)
    np.testing.assert_allclose(unpacked(shown["heat"]["largest"]), largest, rtol=1e-6)
    assert any("blocks of 2 by 2 nodes" in note for note in shown["notes"])
    open_page(browser, path)
    assert complaints(browser) == []
    found = marks(browser)
    assert set(found) == FIGURES - {"fig-pi"}
    assert min(found.values()) > 0, found
