"""The numbers of a report are those of the tables, and so are the files it exports."""

import re
import shutil

import numpy as np
import pandas as pd
import pytest
from conftest import hubs, tiny
from pages import embedded, fading_scenario, unpacked

from wirelessdl import open_run, simulate
from wirelessdl.analysis.report import write_report
from wirelessdl.analysis.report.content import packed_levels, thinned
from wirelessdl.analysis.timeline import hub_turns


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return simulate(fading_scenario(), out=tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return simulate(fading_scenario(privacy={"epsilon_max": 2.0}), out=tmp_path_factory.mktemp("other"))


@pytest.fixture(scope="module")
def page(run, tmp_path_factory):
    return write_report([run.path], tmp_path_factory.mktemp("page") / "report.html")


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
    assert (unpacked(shown["map"]["state"]) == 1 + nodes["transmitted"].to_numpy().reshape(-1, 5)).all()
    assert not nodes["transmitted"].all(), "nobody is silent: the test shows less than it should"


def test_the_map_holds_hubs_and_their_members(run, page, tmp_path):
    assert embedded(page)[0]["map"]["hubs"] is None
    found = simulate(hubs(scenario={"rounds": 6}), out=tmp_path)
    text = write_report([found.path], tmp_path / "report.html").read_text()
    (shown,) = embedded(tmp_path / "report.html")
    assert shown["map"]["rounds"] == [1, 2, 3, 4, 5, 6]
    turns = hub_turns(found)
    for row, frame in enumerate(shown["map"]["hubs"]):
        mine = [{"hub": t.hub, "members": t.members.tolist(), "failed": t.failed} for t in turns if t.row == row]
        assert frame["turns"] == mine
        stated = found.rounds.iloc[row]
        assert frame["disagreement"] == pytest.approx(stated["disagreement"], rel=1e-5)
        assert frame["uncollected"] == stated["uncollected"]
    assert f"{found.rounds['hubs'].mean():.3g} turns of hubs each" in text
    both = write_report([run.path, found.path], tmp_path / "both.html").read_text()
    assert "<th>turns of hubs per round</th><td></td>" in both
    assert "turns of hubs" not in page.read_text().partition('<script type="application/json"')[0]


def test_heat_maps_are_the_links_tables(page, run):
    (shown,) = embedded(page)
    links = run.links
    for name, expected in (
        ("largest", links.groupby(["rx", "tx"])["epsilon"].max()),
        ("mean", links.groupby(["rx", "tx"])["epsilon"].mean()),
        ("last", links[links["round"] == 24].set_index(["rx", "tx"])["epsilon"]),
    ):
        dense = np.full((5, 5), np.nan)
        for (rx, tx), value in expected.items():
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


def test_curves_and_totals_are_the_tables(page, run, tmp_path):
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
    assert set(totals) == {"pld"}  # the others take seconds, and come on request
    (asked,) = embedded(write_report([run.path], tmp_path / "asked.html", accountants=True))
    assert {"pld", "rdp-wang19", "gdp"} <= {one["name"] for one in asked["totals"]["accountants"]}
    accuracy = run.nodes.dropna(subset="accuracy")["accuracy"].to_numpy().reshape(-1, 5)
    np.testing.assert_allclose(unpacked(shown["learned"]["accuracy"]), accuracy, rtol=1e-6)


def test_the_page_needs_nothing_from_elsewhere(page):
    text = page.read_text()
    assert "default-src 'none'" in text
    tags = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", tags)


def test_report_writes_into_the_run_or_where_out_says(run, other, wirelessdl_command, tmp_path):
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


def test_runs_of_different_size_share_a_page_but_not_a_figure_of_nodes(run, tmp_path, wirelessdl_command):
    four = simulate(tiny(), out=tmp_path)
    done = wirelessdl_command("report", str(run.path), str(four.path))
    assert done.code == 0, done.err
    first, second = embedded(tmp_path / "report.html")
    assert (first["nodes"], second["nodes"]) == (5, 4)
    assert [len(one["power"]["alpha"]) for one in (first, second)] == [5, 4]
    done = wirelessdl_command("plot", str(run.path), str(four.path), "--figure", "power")
    assert done.code == 2
    assert "network.nodes differs: 4 in" in done.err


def test_tables_are_exported_as_csv_and_events(run, other, tmp_path, wirelessdl_command):
    """Runs with one name go to folders of their own."""
    for folder, one in (("a", run), ("b", other)):
        shutil.copytree(one.path, tmp_path / folder / "same")
    asked = ["--out", "r.html", "--csv", "csv", "--tensorboard", "tb"]
    done = wirelessdl_command("report", "a/same", "b/same", *asked)
    assert done.code == 0, done.err
    assert "tables in csv/same-2, of b/same" in done.out
    for name, one in (("same", run), ("same-2", other)):
        for table in ("rounds", "nodes", "links", "clients", "events", "privacy"):
            frame, read = getattr(one, table), pd.read_csv(tmp_path / "csv" / name / f"{table}.csv")
            assert read.columns.tolist() == frame.columns.tolist()
            assert len(read) == len(frame)
            for column in frame.select_dtypes("number"):
                np.testing.assert_allclose(read[column], frame[column], rtol=1e-12)
        counts = pd.read_csv(tmp_path / "csv" / name / "clients.csv")["class_counts"]
        assert [[int(number) for number in row.split()] for row in counts] == one.clients["class_counts"].map(
            list
        ).tolist()
        curves = events_of(next((tmp_path / "tb" / name).glob("events.out.tfevents.*")))
        evaluated = one.evaluated
        assert curves["accuracy/mean"] == {
            step: pytest.approx(value, rel=1e-6) for step, value in zip(evaluated["round"], evaluated["accuracy_mean"])
        }
        assert len(curves["loss/mean"]) == 24
    again = wirelessdl_command("report", "a/same", "b/same", "--out", "r.html", "--tensorboard", "tb")
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
