"""The report: its numbers are the tables', it opens in a browser without a sound, and everything on it works."""

import base64
import json
import re
import shutil
import time

import numpy as np
import pytest
from browser import chromium, complaints, marks, open_page
from conftest import tiny

from wirelessdl import load_scenario, open_run, simulate
from wirelessdl.analysis.report import write_report
from wirelessdl.analysis.report.packing import packed_levels, thinned
from wirelessdl.trace.lock import RunLock

FIGURES = {
    "fig-map",
    "fig-learned",
    "fig-accuracy",
    "fig-loss",
    "fig-tradeoff",
    "fig-totals",
    "fig-heat",
    "fig-split",
    "fig-radiated",
    "fig-weight",
    "fig-pi",
    "fig-gap",
    "fig-slots",
    "fig-channel",
}
TYPES = {"Float32Array": "<f4", "Int16Array": "<i2", "Uint16Array": "<u2", "Uint8Array": "u1"}


def lively(**sections):
    """Five nodes that move and fade; a budget silences some of them."""
    base = {
        "scenario": {"rounds": 24},
        "network": {
            "nodes": 5,
            "placement": {"kind": "disc", "radius_m": 40},
            "mobility": {"kind": "random-waypoint", "speed_mps": [20.0, 40.0]},
        },
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "radio": {"payload_slots": 1},
        "privacy": {"budget_total": 0.5},
        "learning": {"eval_every": 4, "partition": {"kind": "dirichlet", "concentration": 1.0}},
    }
    for name, section in sections.items():
        base[name] = {**base.get(name, {}), **section}
    return tiny(**base)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return simulate(lively(), out=tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return simulate(lively(privacy={"epsilon_max": 2.0}), out=tmp_path_factory.mktemp("other"))


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


def embedded(path):
    """The data of a page, as its script reads them."""
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.DOTALL)[1]
    return json.loads(text)["runs"]


def unpacked(packed):
    raw = np.frombuffer(base64.b64decode(packed["base64"]), dtype=TYPES[packed["kind"]]).reshape(packed["shape"])
    if "scale" not in packed:
        return raw
    return np.where(raw == packed["none"], np.nan, raw * packed["scale"])


def test_the_map_holds_every_link_and_place(page, run):
    (shown,) = embedded(page)
    links, nodes = run.links, run.nodes
    assert shown["map"]["rounds"] == run.rounds["round"].tolist()
    number = {(tx, rx): n for n, (tx, rx) in enumerate(zip(shown["map"]["tx"], shown["map"]["rx"]))}
    gain, epsilon = unpacked(shown["map"]["gain"]), unpacked(shown["map"]["epsilon"])
    expected = np.full(gain.shape, np.nan), np.full(gain.shape, np.nan)
    for row in links.itertuples():
        place = row.round - 1, number[row.tx, row.rx]
        expected[0][place], expected[1][place] = 20 * np.log10(row.gain), row.epsilon
    np.testing.assert_allclose(gain, expected[0], atol=0.0051)  # hundredths of a dB
    np.testing.assert_allclose(epsilon, expected[1], atol=np.nanmax(expected[1]) / 65000)
    np.testing.assert_allclose(unpacked(shown["map"]["x"]), nodes["x_m"].to_numpy().reshape(-1, 5), rtol=1e-6)
    assert (unpacked(shown["map"]["standing"]) == 1 + nodes["transmitted"].to_numpy().reshape(-1, 5)).all()
    assert not nodes["transmitted"].all(), "nobody is silent: the test shows less than it should"


def test_heat_maps_are_the_links_tables(page, run):
    (shown,) = embedded(page)
    links = run.links
    for name, told in (
        ("largest", links.groupby(["rx", "tx"])["epsilon"].max()),
        ("mean", links.groupby(["rx", "tx"])["epsilon"].mean()),
        ("last", links[links["round"] == 24].set_index(["rx", "tx"])["epsilon"]),
    ):
        dense = np.full((5, 5), np.nan)
        for (rx, tx), value in told.items():
            dense[rx, tx] = value
        np.testing.assert_allclose(unpacked(shown["heat"][name]), dense, rtol=1e-6)


def test_mixing_weights_sum_to_one_and_pi_is_their_left_eigenvector(page, run):
    (shown,) = embedded(page)
    weight = np.nan_to_num(unpacked(shown["mixing"]["weight"]))
    mean = np.zeros((5, 5))
    for row in run.links.itertuples():
        mean[row.rx, row.tx] += row.weight / 24
    off = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose(weight[off], mean[off], rtol=1e-5)
    own = run.nodes.groupby("node")["row_sum"].mean()
    np.testing.assert_allclose(weight.sum(axis=1), own, rtol=1e-5)
    pi = np.array(shown["mixing"]["pi"])
    np.testing.assert_allclose(pi @ weight, pi, atol=1e-5)


def test_curves_and_totals_are_the_tables(page, run):
    (shown,) = embedded(page)
    evaluated = run.evaluated
    assert shown["learning"]["accuracy"]["round"] == evaluated["round"].tolist()
    assert shown["learning"]["accuracy"]["mean"] == pytest.approx(evaluated["accuracy_mean"].tolist(), rel=1e-5)
    assert shown["learning"]["accuracy"]["energy"] == pytest.approx(evaluated["energy_total_j"].tolist(), rel=1e-5)
    assert shown["learning"]["loss"]["mean"] == pytest.approx(run.rounds["loss_mean"].tolist(), rel=1e-5)
    own = run.privacy.query("view == 'own'").sort_values("tx")["epsilon_total"].tolist()
    totals = {one["name"]: one["epsilon"] for one in shown["totals"]["accountants"]}
    assert totals["pld"] == pytest.approx(own, rel=1e-5)
    assert shown["tradeoff"]["epsilon"][-1] == pytest.approx(max(own), rel=1e-5)
    accuracy = run.nodes.dropna(subset="accuracy")["accuracy"].to_numpy().reshape(-1, 5)
    np.testing.assert_allclose(unpacked(shown["learned"]["accuracy"]), accuracy, rtol=1e-6)


def test_the_page_needs_nothing_from_elsewhere(page):
    text = page.read_text()
    assert "default-src 'none'" in text
    tags = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", tags)


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


def click(browser, selector):
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)


def said(browser, id):
    return browser.execute_script("return document.getElementById(arguments[0]).textContent", id)


def test_the_slider_moves_the_map(browser, page, run):
    open_page(browser, page)
    nodes = run.nodes
    for frame in (0, 12, 23):
        browser.execute_script(
            "const s = document.getElementById('round'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))",
            frame,
        )
        assert said(browser, "round-said").startswith(f"round {frame + 1}, ")
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
    deadline = time.monotonic() + 20
    while said(browser, "round-said").split(",")[0] != "round 24" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert said(browser, "round-said").startswith("round 24")
    time.sleep(0.3)
    assert browser.execute_script("return document.getElementById('play').getAttribute('aria-label')") == "play"
    click(browser, "#play")  # from the end it starts over
    time.sleep(0.35)
    click(browser, "#play")
    stopped = said(browser, "round-said")
    assert not stopped.startswith("round 24")
    time.sleep(0.4)
    assert said(browser, "round-said") == stopped
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
    assert said(browser, "span-said") == "rounds 1 to 2"
    click(browser, "#later")
    assert said(browser, "span-said") == "rounds 3 to 4"
    click(browser, "#earlier")
    click(browser, "#earlier")
    assert said(browser, "span-said") == "rounds 1 to 2"
    kinds = browser.execute_script(
        "return document.getElementById('fig-slots').data.map(t => [t.name, t.x.length / 3])"
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
        assert "</script><script>window.hacked" in browser.execute_script("return document.body.innerText")
    legend = browser.execute_script("return document.querySelector('#fig-accuracy .legendtext').textContent")
    assert legend.startswith("run<b>1<img")


def test_a_run_still_going_is_reported_as_far_as_it_is(browser, run, tmp_path):
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
    assert "was still going when this page was made" in text
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
            "No privacy noise: every link leaks all",
        ),
        ({"trace": {"links": "evaluated"}}, {"fig-pi"}, "hold 6 of 24 rounds"),
        ({"scenario": {"rounds": 1}}, set(), "own epsilon of the run"),
    ],
)
def test_what_was_not_traced_is_said_instead_of_an_empty_figure(browser, change, missing, words, tmp_path):
    path = write_report([simulate(lively(**change), out=tmp_path).path], tmp_path / "report.html")
    open_page(browser, path)
    assert complaints(browser) == []
    found = marks(browser)
    assert set(found) == FIGURES - missing
    assert min(found.values()) > 0, found
    assert words in browser.execute_script("return document.body.textContent")


def test_report_writes_into_the_run_or_where_told(run, other, wirelessdl_command, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run.path, copy)
    done = wirelessdl_command("report", str(copy))
    assert done.code == 0, done.err
    assert (copy / "report.html").is_file()
    open_run(copy)  # a report beside the tables does them no harm
    assert wirelessdl_command("report", str(copy), str(other.path)).code == 0
    assert (tmp_path / "report.html").is_file()
    for out, words in (("no/such/x.html", "no such folder"), (str(tmp_path), "is a folder")):
        done = wirelessdl_command("report", str(copy), "--out", out)
        assert done.code == 2
        assert words in done.err


def test_runs_of_different_size_are_refused(run, tmp_path, wirelessdl_command):
    four = simulate(tiny(), out=tmp_path)
    done = wirelessdl_command("report", str(run.path), str(four.path))
    assert done.code == 2
    assert "network.nodes differs: 4 in" in done.err
    assert not list(tmp_path.glob("*.html"))


def test_tables_are_exported_as_csv_and_events(run, tmp_path, wirelessdl_command):
    import pandas as pd

    done = wirelessdl_command("report", str(run.path), "--out", "r.html", "--csv", "csv", "--tensorboard", "tb")
    assert done.code == 0, done.err
    for name in ("rounds", "nodes", "links", "events", "privacy"):
        frame, read = getattr(run, name), pd.read_csv(tmp_path / "csv" / f"{name}.csv")
        assert read.columns.tolist() == frame.columns.tolist()
        assert len(read) == len(frame)
        for column in frame.select_dtypes("number"):
            np.testing.assert_allclose(read[column], frame[column], rtol=1e-12)
    curves = events_of(next((tmp_path / "tb").rglob("events.out.tfevents.*")))
    evaluated = run.evaluated
    assert curves["accuracy/mean"] == {
        step: pytest.approx(value, rel=1e-6) for step, value in zip(evaluated["round"], evaluated["accuracy_mean"])
    }
    assert len(curves["learning/loss"]) == 24
    again = wirelessdl_command("report", str(run.path), "--out", "r.html", "--tensorboard", "tb")
    assert again.code == 2
    assert "holds events already" in again.err


def events_of(path):
    """Scalars of an event file: records of length, checksum, message, checksum."""
    from tensorboardX.proto.event_pb2 import Event

    raw, place, found = path.read_bytes(), 0, {}
    while place < len(raw):
        length = int.from_bytes(raw[place : place + 8], "little")
        event = Event.FromString(raw[place + 12 : place + 12 + length])
        place += length + 16
        for value in event.summary.value:
            found.setdefault(value.tag, {})[event.step] = value.simple_value
    return found


def test_frames_read_only_what_is_asked_for(run):
    links = run.links
    few = run.frame("links", ["gain", "tx"], rounds=(3, 5))
    expected = links.loc[links["round"].between(3, 5), ["gain", "tx"]].reset_index(drop=True)
    assert few.equals(expected)
    assert sum(len(part) for part in run.frames("links", ["gain"])) == len(links)
    matrix = run.matrix("gain", 7)
    for row in links[links["round"] == 7].itertuples():
        assert matrix[row.rx, row.tx] == row.gain
    assert np.isnan(np.diag(matrix)).all()
    for call, words in (
        (lambda: run.frame("link"), "no table 'link'; did you mean links"),
        (lambda: run.frame("links", ["gains"]), "no column 'gains'; did you mean gain"),
        (lambda: run.frame("events", rounds=(1, 2)), "no rounds to choose from"),
    ):
        with pytest.raises(Exception, match=words):
            call()


def test_thinning_keeps_both_ends_and_codes_keep_their_level():
    assert thinned(5, 9).tolist() == [0, 1, 2, 3, 4]
    kept = thinned(1000, 7)
    assert (len(kept), kept[0], kept[-1]) == (7, 0, 999)
    values = np.array([[0.0, 0.3, np.nan], [1.7, 2.0, np.inf]])
    decoded = unpacked(packed_levels(values))
    np.testing.assert_allclose(decoded, [[0.0, 0.3, np.nan], [1.7, 2.0, np.nan]], atol=2e-5)


def test_the_flagship_fits_into_eight_megabytes(tmp_path):
    scenario = load_scenario("urban_er_k20", overrides=["learning.eval_every=50"])
    run = simulate(scenario, out=tmp_path)
    path = write_report([run.path], tmp_path / "report.html")
    assert path.stat().st_size < 8e6
    assert embedded(path)[0]["notes"] == []


@pytest.mark.slow
def test_a_hundred_nodes_and_a_thousand_rounds_fit_in_size_and_time(browser, tmp_path):
    from wirelessdl.bench.traces import large_run

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
