"""The page in a browser: no message on the console, every control works, and it says what it leaves out."""

import json
import math
import shutil
import time
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from browser import choose, chromium, complaints, marks, open_page
from conftest import hubs, tiny
from pages import FIGURES, embedded, fading_scenario, unpacked
from scipy.stats import t as student

from wirelessdl import simulate
from wirelessdl.analysis.report import write_report
from wirelessdl.analysis.timeline import hub_turns
from wirelessdl.trace.files import RunLock


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three seeds of nodes at several heights, and one run with another limit."""
    folder = tmp_path_factory.mktemp("runs")
    drones = {"network": {"placement": {"kind": "disc", "radius_m": 60.0, "height_m": [20.0, 90.0]}}}
    seeds = [simulate(fading_scenario(scenario={"seed": seed}, **drones), out=folder) for seed in (1, 2, 3)]
    return [*seeds, simulate(fading_scenario(privacy={"epsilon_max": 2.0}), out=folder)]


@pytest.fixture(scope="module")
def several(runs, tmp_path_factory):
    return write_report([run.path for run in runs], tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return simulate(fading_scenario(), out=tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def page(run, tmp_path_factory):
    return write_report([run.path], tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


def click(browser, selector):
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)


def text_of(browser, id):
    return browser.execute_script("return document.getElementById(arguments[0]).textContent", id)


def figure(browser, id, of):
    """A property of a figure, as a path from its element."""
    return browser.execute_script(f"return document.getElementById(arguments[0]).{of}", id)


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


def test_the_slider_moves_the_map(browser, page, run):
    open_page(browser, page)
    nodes = run.nodes
    for frame in (0, 12, 23):
        choose(browser, "#round", frame, "input")
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
    choose(browser, "#round", 20, "input")
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
    bar_title = "data.at(-1).marker.colorbar.title.text"
    assert figure(browser, "fig-map", bar_title) == "gain in dB"
    click(browser, '[data-switch="colour"] [data-value="epsilon"]')
    assert figure(browser, "fig-map", bar_title) == "one-slot epsilon"
    for value, title, column in (
        ("time", "simulated time in s", "time_s"),
        ("energy", "energy used by all nodes in J", "energy_total_j"),
        ("round", "round", "round"),
    ):
        click(browser, f'[data-switch="against"] [data-value="{value}"]')
        assert figure(browser, "fig-accuracy", "layout.xaxis.title.text") == title
        expected = run.evaluated[column].tolist()
        assert figure(browser, "fig-accuracy", "data.at(-1).x") == pytest.approx(expected, rel=1e-5)
    for value, title in (("mean", "Mean over the rounds"), ("last", "Round 24"), ("largest", "Largest over the run")):
        click(browser, f'[data-switch="heat"] [data-value="{value}"]')
        assert figure(browser, "fig-heat", "layout.title.text") == title
    click(browser, '[data-switch="span"] [data-value="2"]')
    assert text_of(browser, "span-label") == "rounds 1 to 2"
    click(browser, "#later")
    assert text_of(browser, "span-label") == "rounds 3 to 4"
    click(browser, "#earlier")
    click(browser, "#earlier")
    assert text_of(browser, "span-label") == "rounds 1 to 2"
    kinds = figure(browser, "fig-timeline", "data.map(t => [t.name, t.x.length / 3])")
    sent = int(run.nodes.query("round <= 2")["transmitted"].sum())
    assert dict(kinds) == {"compute": sent, "payload": sent, "pilot": sent}
    ink = "layout.font.color"
    assert figure(browser, "fig-accuracy", ink) == "#1d2329"
    click(browser, "#theme")
    assert figure(browser, "fig-accuracy", ink) == "#e4e8ec"
    assert complaints(browser) == []


def test_a_node_that_is_clicked_stands_out_in_every_chart(browser, page, run):
    open_page(browser, page)
    curves = figure(browser, "fig-accuracy", "data.length")
    emit = "document.getElementById(arguments[0]).emit('plotly_click', {points: [{x: 3, y: 3}]})"
    browser.execute_script(emit, "fig-energy")
    assert figure(browser, "fig-accuracy", "data.length") == curves + 1
    accuracy = run.nodes.query("node == 3")["accuracy"].dropna().tolist()
    assert figure(browser, "fig-accuracy", "data.at(-1).y") == pytest.approx(accuracy, rel=1e-5)
    for id in ("fig-energy", "fig-learned", "fig-radiated"):
        colours = figure(browser, id, "data[0].marker.color")
        assert colours.count(colours[3]) == 1
        assert len(set(colours)) == 2
    energy_mj = 1000 * run.nodes.query("node == 3")["energy_j"].sum()
    assert f"node 3: test accuracy {accuracy[-1]:.1%} at the end" in text_of(browser, "node-card")
    assert f"{energy_mj:.3g} mJ" in text_of(browser, "node-card")
    assert {name.split()[0] for name in figure(browser, "fig-channel", "data.map(t => t.name)")} == {"3"}
    assert figure(browser, "fig-heat", "layout.shapes.map(s => [s.x0, s.x1, s.y0, s.y1])") == [
        [2.5, 3.5, 0, 1],
        [0, 1, 2.5, 3.5],
    ]
    for key, node in (("n", 4), ("n", 0), ("p", 4)):
        browser.execute_script("document.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0]}))", key)
        assert f"node {node}: " in text_of(browser, "node-card")
    browser.execute_script("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
    assert figure(browser, "fig-accuracy", "data.length") == curves
    assert not browser.execute_script("return document.getElementById('node-card').offsetParent")
    assert complaints(browser) == []


def test_a_click_on_the_map_reaches_the_node_under_the_pointer(browser, tmp_path):
    """Also nodes 1 and 3, a quarter of the way between 0 and 4, where the marks of these links are."""
    still = {"nodes": 5, "placement": {"kind": "line", "spacing_m": 20.0}, "mobility": "static", "topology": "full"}
    open_air = {"epsilon_max": math.inf, "budget_total": math.inf}
    found = simulate(fading_scenario(network=still, scenario={"rounds": 2}, privacy=open_air), out=tmp_path)
    open_page(browser, write_report([found.path], tmp_path / "report.html"))
    where = """
        const map = document.getElementById('fig-map'), { xaxis, yaxis } = map._fullLayout;
        map.scrollIntoView({ block: 'center' });
        const box = map.getBoundingClientRect(), nodes = map.data.find((one) => one.name === 'on air');
        const left = box.left + xaxis._offset, top = box.top + yaxis._offset;
        return nodes.x.map((x, k) => [left + xaxis.d2p(x), top + yaxis.d2p(nodes.y[k])]);
    """
    chosen = []
    for x, y in browser.execute_script(where):
        for kind, count in (("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 1)):
            event = {"type": kind, "x": x, "y": y, "button": "left" if count else "none", "clickCount": count}
            browser.execute_cdp_cmd("Input.dispatchMouseEvent", event)
            time.sleep(0.2)  # Plotly looks for what is under the pointer at most every 50 ms
        chosen.append(browser.execute_script("return chosen.node"))
    assert chosen == [0, 1, 2, 3, 4]
    assert complaints(browser) == []


def test_charts_mark_the_round_of_the_map_and_the_timeline_follows(browser, page, run):
    open_page(browser, page)
    browser.execute_script("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft'}))")
    assert text_of(browser, "round-label").startswith("round 23, ")
    choose(browser, "#round", 11, "input")
    time_s = run.rounds["time_s"].iloc[11]
    for id, expected in (("fig-accuracy", 12), ("fig-loss", 12), ("fig-gap", 12), ("fig-channel", time_s)):
        assert figure(browser, id, "layout.shapes[0].x0") == pytest.approx(expected, rel=1e-5)
    assert text_of(browser, "span-label") == "rounds 12 to 16"
    first = "data.find(t => t.name === arguments[1]).x.slice(0, 2)"
    pilot, payload = (
        browser.execute_script(f"return document.getElementById(arguments[0]).{first}", "fig-timeline", name)
        for name in ("pilot", "payload")
    )
    assert pilot[1] <= payload[0] + 1e-6, "a pilot that is drawn longer covers no payload"
    click(browser, '[data-switch="span"] [data-value="1"]')
    assert text_of(browser, "span-label") == "round 12"
    ends = figure(browser, "fig-timeline", "data.find(t => t.name === 'pilot').x.slice(0, 2)")
    assert np.ptp(ends) == pytest.approx(1e3 * run.rounds["node_pilot_s"].iloc[11], rel=1e-4)  # to scale
    assert complaints(browser) == []


def test_a_zoom_is_undone_by_a_button(browser, page):
    open_page(browser, page)
    hidden = "return document.querySelector('[aria-label=\"reset the zoom of accuracy\"]').offsetParent === null"
    ends = figure(browser, "fig-accuracy", "layout.xaxis.range")
    assert browser.execute_script(hidden)
    browser.execute_script("Plotly.relayout('fig-accuracy', {'xaxis.range[0]': 5, 'xaxis.range[1]': 9})")
    assert not browser.execute_script(hidden)
    click(browser, '[aria-label="reset the zoom of accuracy"]')
    assert figure(browser, "fig-accuracy", "layout.xaxis.range") == pytest.approx(ends)
    assert browser.execute_script(hidden)
    assert complaints(browser) == []


def test_payloads_of_a_round_are_stepped_through(browser, tmp_path):
    found = simulate(hubs(scenario={"rounds": 3}), out=tmp_path)
    open_page(browser, write_report([found.path], tmp_path / "report.html"))
    turns = [turn for turn in hub_turns(found) if turn.row == 2]
    assert text_of(browser, "turn-label") == f"all {2 * len(turns)} payloads"
    sending = "data.find(t => t.name === 'on air').text.map(Number)"
    for number, turn in enumerate(turns):
        click(browser, "#turn-on")
        assert text_of(browser, "turn-label") == f"payload {2 * number + 1} of {2 * len(turns)}"
        assert figure(browser, "fig-map", sending) == turn.members.tolist()
        click(browser, "#turn-on")
        assert figure(browser, "fig-map", sending) == [turn.hub]
    click(browser, "#turn-on")
    assert text_of(browser, "turn-label").startswith("all ")
    assert complaints(browser) == []


def test_the_first_sentence_names_the_runs_beside_it(browser, tmp_path):
    """Two runs and their baselines: their accuracies stand in the sentence, and as lines in the figure."""
    run = simulate(fading_scenario(scenario={"name": "one"}), out=tmp_path)
    other = simulate(
        fading_scenario(
            scenario={"name": "one-no-privacy"}, privacy={"epsilon_max": math.inf, "budget_total": math.inf}
        ),
        out=tmp_path,
    )
    open_page(browser, write_report([run.path], tmp_path / "report.html"))
    said = text_of(browser, "sentence")
    assert said.startswith(f"{run.summary['accuracy_mean']:.1%} test accuracy at a proven total epsilon of ")
    assert said.endswith(f"In the runs beside it: without privacy {other.summary['accuracy_mean']:.1%}.")
    assert figure(browser, "fig-accuracy", "data.at(-1).y") == pytest.approx(2 * [other.summary["accuracy_mean"]])
    assert complaints(browser) == []


def test_links_are_added_and_removed(browser, page, run):
    open_page(browser, page)
    names = "data.map(t => t.name)"
    before = figure(browser, "fig-channel", names)
    assert len(before) == 3
    missing = next((tx, rx) for tx in range(5) for rx in range(5) if tx != rx and f"{tx} to {rx}" not in before)
    choose(browser, "#from", str(missing[0]))
    choose(browser, "#to", str(missing[1]))
    click(browser, "#add-link")
    tx, rx = missing
    assert figure(browser, "fig-channel", names) == [*before, f"{tx} to {rx}"]
    shown = figure(browser, "fig-channel", "data.at(-1).y")
    gain = run.links.query("tx == @tx and rx == @rx")["gain"]
    assert shown == pytest.approx((20 * np.log10(gain)).tolist(), abs=0.006)
    click(browser, "#chosen-links button")
    assert figure(browser, "fig-channel", names) == [*before[1:], f"{tx} to {rx}"]
    assert complaints(browser) == []


def test_several_runs_are_overlaid_and_picked(browser, several, runs):
    """Of seeds of one scenario there is a mean with its interval, too."""
    open_page(browser, several)
    assert complaints(browser) == []
    assert min(marks(browser).values()) > 0
    assert browser.execute_script("return document.querySelector('main section').id") == "differing"
    keys = browser.execute_script("return [...document.querySelectorAll('#differing .key')].map(k => k.textContent)")
    assert {"privacy.epsilon_max", "scenario.seed"} <= set(keys)
    low, high, mean = figure(browser, "fig-accuracy", "data.map(t => t.y)")[-3:]
    curves = np.array([run.rounds["accuracy_mean"].dropna() for run in runs[:3]])
    np.testing.assert_allclose(mean, curves.mean(axis=0), rtol=1e-5)
    half = student.ppf(0.975, 2) * curves.std(axis=0, ddof=1) / np.sqrt(3)
    np.testing.assert_allclose(np.subtract(high, low), 2 * half, rtol=1e-4)
    for number, shown in enumerate(runs):
        choose(browser, ".run-switch", number)
        own = shown.privacy.query("view == 'own'").sort_values("tx")["epsilon_total"].tolist()
        assert figure(browser, "fig-totals", "data[0].y") == pytest.approx(own, rel=1e-5)
        picked = "return [...document.querySelectorAll('.run-switch')].map(s => Number(s.value))"
        assert set(browser.execute_script(picked)) == {number}
        visible = "return [...document.querySelectorAll('.of-run')].map(p => p.offsetParent !== null)"
        assert browser.execute_script(visible) == [place == number for place in range(4)]
        assert text_of(browser, "note-map").startswith("Higher nodes are drawn larger" if number < 3 else "")
    assert text_of(browser, "note-map") == "", "the last run's nodes are at one height"
    assert complaints(browser) == []


def test_every_figure_is_offered_as_svg_and_its_numbers_as_csv(browser, several, tmp_path):
    open_page(browser, several)
    browser.execute_cdp_cmd("Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    wanted = [(name, kind) for name in ("accuracy", "heat") for kind in ("SVG", "CSV")]
    files = {(name, kind): tmp_path / f"{name}.{kind.lower()}" for name, kind in wanted}
    for name, kind in files:
        click(browser, f'[aria-label="save {name} as {kind}"]')
    deadline = time.monotonic() + 60
    while not all(path.is_file() and path.stat().st_size for path in files.values()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert files["accuracy", "SVG"].read_text().startswith("<svg")
    rows = pd.read_csv(files["accuracy", "CSV"])
    curves = {name: (x, y) for name, x, y in figure(browser, "fig-accuracy", "data.map(t => [t.name, t.x, t.y])")}
    name = next(name for name in curves if name.startswith("mean of 3 runs"))
    said = rows.loc[rows["series"] == name, ["x", "y"]].to_numpy()
    np.testing.assert_allclose(said, np.transpose(curves[name]))
    heat = figure(browser, "fig-heat", "data[0].z")
    cells = pd.read_csv(files["heat", "CSV"])
    assert len(cells) == sum(value is not None for row in heat for value in row)
    assert all(cell.z == pytest.approx(heat[int(cell.y)][int(cell.x)]) for cell in cells.itertuples())
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
            {"fig-heat", "fig-tradeoff", "fig-totals", "fig-split"},
            "No privacy noise: the epsilon of every link is infinite",
        ),
        pytest.param({"trace": {"links": "evaluated"}}, {"fig-pi"}, "hold 6 of 24 rounds", marks=pytest.mark.slow),
        pytest.param(
            {"scenario": {"rounds": 1}}, {"fig-totals"}, "Every node has the same total epsilon", marks=pytest.mark.slow
        ),
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
    assert set(found) == FIGURES - {"fig-energy"}
    assert text_of(browser, "none-energy").startswith("Every node used ")
    assert min(found.values()) > 0, found
