"""The page in a browser: it opens without a message on the console, and every control works."""

import json
import shutil
import time
from itertools import combinations

import numpy as np
import pytest
from browser import chromium, complaints, marks, open_page
from pages import FIGURES, fading_scenario

from wirelessdl import simulate
from wirelessdl.analysis.report import write_report


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return simulate(fading_scenario(), out=tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return simulate(fading_scenario(privacy={"epsilon_max": 2.0}), out=tmp_path_factory.mktemp("other"))


@pytest.fixture(scope="module")
def page(run, tmp_path_factory):
    return write_report([run.path], tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def both(run, other, tmp_path_factory):
    return write_report([run.path, other.path], tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


def test_it_opens_without_complaint_and_every_figure_has_marks(browser, page):
    for width in (1280, 390):
        for dark in (False, True):
            open_page(browser, page, width=width, dark=dark)
            assert complaints(browser) == []
            found = marks(browser)
            assert set(found) == FIGURES
            assert min(found.values()) > 0, found
            wide = browser.execute_script("return document.documentElement.scrollWidth")
            assert wide <= width, "the page scrolls sideways"
            theme = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
            assert theme == ("rgb(20, 24, 28)" if dark else "rgb(255, 255, 255)")


def test_titles_end_within_their_figures_and_names_of_nodes_do_not_collide(browser, tmp_path):
    crowd = {"nodes": 12, "placement": {"kind": "disc", "radius_m": 20.0}}
    crowded = simulate(fading_scenario(network=crowd, scenario={"rounds": 2}), out=tmp_path)
    page = write_report([crowded.path], tmp_path / "report.html")
    for width in (1400, 800, 390):
        open_page(browser, page, width=width)
        titles = browser.execute_script(
            "return [...document.querySelectorAll('.figure:not(.hidden)')]"
            ".filter((one) => one.querySelector('.gtitle'))"
            ".map((one) => [one.querySelector('.gtitle').textContent, one.getBoundingClientRect().right"
            " - one.querySelector('.gtitle').getBoundingClientRect().right])"
        )
        assert len(titles) > 5
        assert [title for title, room in titles if room < 0] == []
        boxes = browser.execute_script(
            "return [...document.querySelectorAll('#fig-map .textpoint')].map((one) => one.getBoundingClientRect())"
            ".map((box) => [box.left, box.top, box.right, box.bottom])"
        )
        assert len(boxes) == 12
        # letters fill about two thirds of their line's box: corners may touch
        touching = [
            (one, two)
            for one, two in combinations(boxes, 2)
            if min(one[2], two[2]) - max(one[0], two[0]) > 1 and min(one[3], two[3]) - max(one[1], two[1]) > 4
        ]
        assert touching == []


def click(browser, selector):
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)


def text_of(browser, id):
    return browser.execute_script("return document.getElementById(arguments[0]).textContent", id)


def test_the_slider_moves_the_map(browser, page, run):
    open_page(browser, page)
    nodes = run.nodes
    for frame in (0, 12, 23):
        browser.execute_script(
            "const s = document.getElementById('round'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))",
            frame,
        )
        assert text_of(browser, "round-label").startswith(f"round {frame + 1}, ")
        drawn = browser.execute_script(
            "return document.getElementById('fig-map').data.filter(t => ['down', 'silent', 'on air'].includes(t.name))"
            ".map(t => [t.name, t.text.map((n, k) => [Number(n), t.x[k], t.y[k]])])"
        )
        drawn = dict(drawn)
        here = nodes[nodes["round"] == frame + 1]
        assert [n for n, *_ in drawn["silent"]] == here.loc[~here["transmitted"], "node"].tolist()
        for node, x, y in drawn["on air"] + drawn["silent"]:
            row = here.iloc[int(node)]
            assert (x, y) == (pytest.approx(row.x_m, rel=1e-5), pytest.approx(row.y_m, rel=1e-5))


def test_play_runs_to_the_end_and_stops(browser, page):
    open_page(browser, page)
    browser.execute_script(
        "const s = document.getElementById('round'); s.value = 20; s.dispatchEvent(new Event('input'))"
    )
    click(browser, "#play")
    assert browser.execute_script("return document.getElementById('play').getAttribute('aria-label')") == "pause"
    deadline = time.monotonic() + 300
    while text_of(browser, "round-label").split(",")[0] != "round 24" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert text_of(browser, "round-label").startswith("round 24")
    time.sleep(0.3)
    assert browser.execute_script("return document.getElementById('play').getAttribute('aria-label')") == "play"
    click(browser, "#play")  # from the end it starts over
    time.sleep(0.35)
    click(browser, "#play")
    stopped = text_of(browser, "round-label")
    assert not stopped.startswith("round 24")
    time.sleep(0.4)
    assert text_of(browser, "round-label") == stopped
    assert complaints(browser) == []


def test_switches_change_what_is_drawn(browser, page, run):
    open_page(browser, page)

    def bar_title():
        return browser.execute_script(
            "return document.getElementById('fig-map').data.at(-1).marker.colorbar.title.text"
        )

    assert bar_title() == "gain in dB"
    click(browser, '[data-switch="colour"] [data-value="epsilon"]')
    assert bar_title() == "one-slot epsilon"
    for value, title, column in (
        ("time", "simulated time in s", "time_s"),
        ("energy", "energy used by all nodes in J", "energy_total_j"),
        ("round", "round", "round"),
    ):
        click(browser, f'[data-switch="against"] [data-value="{value}"]')
        for figure in ("fig-accuracy", "fig-loss"):
            shown = browser.execute_script(
                "return document.getElementById(arguments[0]).layout.xaxis.title.text", figure
            )
            assert shown == title
        x = browser.execute_script("return document.getElementById('fig-accuracy').data.at(-1).x")
        assert x == pytest.approx(run.evaluated[column].tolist(), rel=1e-5)
    for value, title in (("mean", "Mean over the rounds"), ("last", "Round 24"), ("largest", "Largest over the run")):
        click(browser, f'[data-switch="heat"] [data-value="{value}"]')
        assert browser.execute_script("return document.getElementById('fig-heat').layout.title.text") == title
    click(browser, '[data-switch="span"] [data-value="2"]')
    assert text_of(browser, "span-label") == "rounds 1 to 2"
    click(browser, "#later")
    assert text_of(browser, "span-label") == "rounds 3 to 4"
    click(browser, "#earlier")
    click(browser, "#earlier")
    assert text_of(browser, "span-label") == "rounds 1 to 2"
    kinds = browser.execute_script(
        "return document.getElementById('fig-timeline').data.map(t => [t.name, t.x.length / 3])"
    )
    sent = int(run.nodes.query("round <= 2")["transmitted"].sum())
    assert dict(kinds) == {"compute": sent, "payload": sent, "pilot": sent}
    assert complaints(browser) == []


def test_links_are_added_and_removed(browser, page, run):
    open_page(browser, page)
    names = "return document.getElementById('fig-channel').data.map(t => t.name)"
    before = browser.execute_script(names)
    assert len(before) == 3
    missing = next((tx, rx) for tx in range(5) for rx in range(5) if tx != rx and f"{tx} to {rx}" not in before)
    browser.execute_script(
        "const [f, t] = [document.getElementById('from'), document.getElementById('to')];"
        "f.value = arguments[0]; f.dispatchEvent(new Event('change')); t.value = arguments[1];",
        *map(str, missing),
    )
    click(browser, "#add-link")
    tx, rx = missing
    assert browser.execute_script(names) == [*before, f"{tx} to {rx}"]
    shown = browser.execute_script("return document.getElementById('fig-channel').data.at(-1).y")
    gain = run.links.query("tx == @tx and rx == @rx")["gain"]
    assert shown == pytest.approx((20 * np.log10(gain)).tolist(), abs=0.006)
    click(browser, "#chosen-links button")
    assert browser.execute_script(names) == [*before[1:], f"{tx} to {rx}"]
    assert complaints(browser) == []


def test_the_theme_button_turns_everything(browser, page):
    open_page(browser, page)
    ink = "return document.getElementById('fig-accuracy').layout.font.color"
    assert browser.execute_script(ink) == "#1d2329"
    click(browser, "#theme")
    assert browser.execute_script(ink) == "#e4e8ec"
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 28)"
    assert complaints(browser) == []


def test_a_window_that_becomes_narrow_keeps_its_figures_large(browser, page):
    """A colour bar goes from the side to below; the map and the matrices are as wide as on a page opened narrow."""
    area = "const f = document.getElementById(arguments[0])._fullLayout._plots.xy.xaxis._length; return f"
    open_page(browser, page, width=390)
    opened = {id: browser.execute_script(area, id) for id in ("fig-map", "fig-heat", "fig-weight")}
    open_page(browser, page, width=1280)
    metrics = {"width": 390, "height": 900, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.execute_async_script("setTimeout(arguments[0], 500)")
    click(browser, "#theme")
    browser.execute_async_script("setTimeout(arguments[0], 500)")
    assert {id: browser.execute_script(area, id) for id in opened} == pytest.approx(opened, abs=12)
    assert complaints(browser) == []


def test_several_runs_are_overlaid_and_picked(browser, both, run, other):
    open_page(browser, both)
    assert complaints(browser) == []
    assert min(marks(browser).values()) > 0
    first = browser.execute_script("return document.querySelector('main section').id")
    assert first == "differing"
    assert (
        browser.execute_script("return document.querySelector('#differing .key').textContent") == "privacy.epsilon_max"
    )
    for figure in ("fig-accuracy", "fig-loss", "fig-tradeoff"):
        assert len(browser.execute_script("return document.getElementById(arguments[0]).data", figure)) == 2
        legend = "return document.getElementById(arguments[0]).querySelectorAll('.legendtext').length"
        assert browser.execute_script(legend, figure) == 2
    totals = "return document.getElementById('fig-totals').data[0].y"
    for number, shown in enumerate((run, other)):
        browser.execute_script(
            "const s = document.querySelectorAll('.run-switch')[2]; s.value = arguments[0];"
            "s.dispatchEvent(new Event('change'))",
            number,
        )
        own = shown.privacy.query("view == 'own'").sort_values("tx")["epsilon_total"].tolist()
        assert browser.execute_script(totals) == pytest.approx(own, rel=1e-5)
        picked = browser.execute_script(
            "return [...document.querySelectorAll('.run-switch')].map(s => Number(s.value))"
        )
        assert set(picked) == {number}
        visible = "return [...document.querySelectorAll('.of-run')].map(p => p.offsetParent !== null)"
        assert browser.execute_script(visible) == [number == 0, number == 1]
    assert complaints(browser) == []


def test_names_stay_text(browser, run, tmp_path):
    """A scenario named <script> must not become one, in the page, in its data, or in a legend."""
    folders = []
    for number in (1, 2):
        folder = tmp_path / f"run<b>{number}<img src=x onerror=hacked()>"
        shutil.copytree(run.path, folder)
        text = (folder / "scenario.toml").read_text()
        hostile = "</script><script>window.hacked = 1</script>"
        text = text.replace('name = "tiny"', f"name = '{hostile}'").replace(
            'description = ""', f"description = '{hostile}'"
        )
        (folder / "scenario.toml").write_text(text)
        origin = json.loads((folder / "provenance.json").read_text())
        (folder / "provenance.json").write_text(json.dumps({**origin, "command": [hostile], hostile: "<i>"}))
        folders.append(folder)
    for named in (folders[:1], folders):
        path = write_report(named, tmp_path / "report.html")
        open_page(browser, path)
        assert complaints(browser) == []
        assert browser.execute_script("return window.hacked") is None
        assert browser.execute_script("return document.querySelectorAll('script').length") == 3
        assert browser.execute_script("return document.querySelectorAll('img, header b, main b').length") == 0
        shown = browser.execute_script("return document.querySelector('main').textContent")  # folded sections too
        assert "</script><script>window.hacked" in shown
    legend = browser.execute_script("return document.querySelector('#fig-accuracy .legendtext').textContent")
    assert legend.startswith("run<b>1<img")
