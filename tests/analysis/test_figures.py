"""Figures for papers: all are drawn in every format, a column wide, fonts embedded; bands are what they say."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
from conftest import tiny
from PIL import Image
from scipy import stats

from wirelessdl import simulate
from wirelessdl.analysis.figures import CURVES, SINGLE
from wirelessdl.analysis.runs import mean_band

FIGURES = [*CURVES, *SINGLE]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    return [simulate(tiny(scenario={"rounds": 8, "run": number}), out=out) for number in (1, 2, 3)]


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("kind", ["pdf", "png", "svg"])
def test_every_figure_in_every_format(figure, kind, runs, wirelessdl_command, tmp_path):
    named = runs if figure in CURVES else runs[:1]
    done = wirelessdl_command("plot", *(str(run.path) for run in named), "--figure", figure, "--format", kind)
    assert done.code == 0, done.err
    path = tmp_path / f"{figure}.{kind}"
    content = path.read_bytes()
    if kind == "pdf":
        width = float(re.search(rb"/MediaBox \[ ?0 0 ([\d.]+)", content)[1])
        assert width == pytest.approx(3.5 * 72, abs=1)  # an IEEE column
        assert b"/Type3" not in content  # journals refuse Type 3
        assert b"/FontFile2" in content
    elif kind == "png":
        image = np.asarray(Image.open(path).convert("L"))
        border = np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])
        assert border.min() > 250, "something touches the edge: it may be clipped"
        assert (image < 128).mean() > 0.003, "nearly nothing is drawn"
    else:
        assert content.count(b"<path") > 10


def test_band_is_students_interval_of_the_mean():
    values = np.array([[1.0, 2.0, 4.0], [2.0, 2.0, 5.0], [4.0, 2.0, 9.0]])
    mean, half = mean_band(values)
    for point in range(3):
        column = values[:, point]
        assert mean[point] == pytest.approx(column.mean())
        if column.std():
            low, _ = stats.t.interval(0.95, 2, loc=column.mean(), scale=stats.sem(column))
            assert mean[point] - half[point] == pytest.approx(low)
        else:
            assert half[point] == 0
    alone, none = mean_band(values[:1])
    assert alone.tolist() == [1.0, 2.0, 4.0]
    assert np.isnan(none).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--figure is missing"),
        (["--figure", "acuracy"], "acuracy"),
        (["--figure", "map", "--round", "99"], "no links of round 99; rounds are 1 to 8"),
        (["--figure", "timeline", "--round", "99"], "rounds 1 to 8"),
        (["--figure", "channel", "--link", "0-9"], "has no such link"),
        (["--figure", "channel", "--link", "0:1"], "sender and receiver"),
        (["--figure", "accuracy", "--out", "x.jpg"], ".pdf, .png, .svg"),
        (["--figure", "accuracy", "--out", "no/such/x.pdf"], "cannot be written"),
    ],
)
def test_mistakes_are_one_line(arguments, words, runs, wirelessdl_command, tmp_path):
    done = wirelessdl_command("plot", str(runs[0].path), *arguments)
    assert done.code == 2
    assert words in done.err.splitlines()[-1]
    assert not list(tmp_path.iterdir())
    assert not plt.get_fignums()


@pytest.mark.parametrize("figure", SINGLE)
def test_figures_of_one_run_refuse_two(figure, runs, wirelessdl_command):
    done = wirelessdl_command("plot", str(runs[0].path), str(runs[1].path), "--figure", figure)
    assert done.code == 2
    assert "it shows one run" in done.err


@pytest.mark.parametrize(
    ("changes", "figures", "words"),
    [
        ({"privacy": {"epsilon_max": float("inf")}}, ["privacy", "tradeoff"], "without privacy noise"),
        ({"trace": {"links": "none"}}, ["map", "channel"], "links"),
    ],
)
def test_what_a_run_does_not_hold_is_named(changes, figures, words, tmp_path, wirelessdl_command):
    run = simulate(tiny(**changes), out=tmp_path)
    for figure in figures:
        done = wirelessdl_command("plot", str(run.path), "--figure", figure)
        assert done.code == 2
        assert words in done.err
