"""Families of a study: each key has a role, bands are Student's, levels are levels, and no two series look alike."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from studies import write_study

from wirelessdl import open_study
from wirelessdl.analysis.families import Request, end_points, learning_curves
from wirelessdl.analysis.figures.study import study_figure
from wirelessdl.analysis.study_tables import Labels
from wirelessdl.analysis.style import look
from wirelessdl.errors import TraceError
from wirelessdl.trace.study import mean_interval

KEYS = ["privacy.epsilon_max", "network.nodes"]


def rows(nodes=(4, 10, 20), limits=(0.5, 1.0, 2.0, math.inf), **more):
    rng = np.random.default_rng(5)
    made = []
    for limit in limits:
        for count in nodes:
            cell = f"c{len(made):03d}"
            for seed in (7, 8, 9):
                accuracy = 0.5 + 0.1 * min(limit, 3) + 0.001 * count + 0.01 * rng.standard_normal()
                total = {"epsilon_total": limit * count / 10 + 0.001 * seed, "promised": "own", "coalition": None}
                keys = {KEYS[0]: limit, KEYS[1]: count}
                made.append({"cell": cell, "seed": seed, **keys, "accuracy_mean": accuracy, **total, **more})
    return made


def local(value=0.31):
    return [
        {"cell": "c900", "baseline": "local", "seed": seed, "accuracy_mean": value, "epsilon_total": 0.0}
        for seed in (7, 8, 9)
    ]


@pytest.fixture
def folder(tmp_path):
    return write_study(tmp_path / "study", [*rows(), *local()], KEYS)


def made_study(tmp_path, made, keys=KEYS):
    return open_study(write_study(tmp_path / "study", made, keys))


def drawn(study, **asked):
    figure, _ = study_figure(study, Request(**asked))
    figure.canvas.draw()
    return figure


def test_every_cell_is_a_point_every_series_a_curve_and_what_has_no_place_a_level(folder):
    study = open_study(folder)
    family = end_points(study, Request())
    assert (family.roles.x, family.roles.y, family.roles.series) == ("epsilon", "accuracy_mean", "network.nodes")
    curves = [curve for curve in family.curves if curve.kind == "curve"]
    assert [curve.series for curve in curves] == [4, 10, 20]
    for curve in curves:
        assert len(curve.points) == 3
        assert (np.diff(curve["x"]) > 0).all()
        for point in curve.points.itertuples():
            part = study.index[study.index["cell"] == point.cell]
            expected = mean_interval(part["accuracy_mean"])
            assert (point.y, point.low, point.high, point.n) == pytest.approx(expected)
            assert point.x == pytest.approx(part["epsilon_total"].mean())
    levels = [curve for curve in family.curves if curve.kind == "level"]  # infinite epsilon, and a baseline
    assert [(curve.series, curve.baseline) for curve in levels] == [(4, None), (10, None), (20, None), (None, "local")]
    assert levels[-1]["y"][0] == pytest.approx(0.31)
    assert math.isinf(levels[0]["x"][0])


def test_a_baseline_with_an_epsilon_of_its_own_stands_where_it_belongs(tmp_path):
    own = [
        {**row, "cell": f"b{row['cell']}", "baseline": "own-noise", "epsilon_total": 3 * row["epsilon_total"]}
        for row in rows(limits=(0.5, 1.0))
    ]
    copies = [{**row, "cell": f"c90{n}", KEYS[0]: limit} for n, limit in enumerate((0.5, 1.0)) for row in local()]
    study = made_study(tmp_path, [*rows(), *own, *copies])
    alike = [curve for curve in end_points(study, Request()).curves if curve.baseline == "local"]
    assert [curve.points["n"].tolist() for curve in alike] == [[3]], "the same beside every cell is one line"
    found = [curve for curve in end_points(study, Request()).curves if curve.baseline == "own-noise"]
    assert [(curve.kind, curve.series, len(curve.points)) for curve in found] == [("curve", k, 2) for k in (4, 10, 20)]
    over_keys = end_points(study, Request(x="network.nodes"))
    assert over_keys.roles.series == "privacy.epsilon_max"


def test_keys_fill_the_roles_that_are_left(tmp_path):
    keys = [*KEYS, "learning.partition", "power.objective", "scenario.rounds"]
    made = [
        {**row, "cell": f"{row['cell']}{partition}{mode}{rounds}", **dict(zip(keys[2:], (partition, mode, rounds)))}
        for row in rows(nodes=(4, 10), limits=(0.5, 1.0))
        for partition in ("iid", "dirichlet")
        for mode in ("sum", "own-noise")
        for rounds in (10, 20)
    ]
    study = made_study(tmp_path, made, keys)
    roles = end_points(study, Request()).roles
    assert (roles.series, roles.style, roles.facet, roles.spare) == (*keys[1:4], ("scenario.rounds",))
    roles = end_points(study, Request(series="partition", facet="nodes", where=["scenario.rounds=10"])).roles
    assert (roles.series, roles.style, roles.facet) == ("learning.partition", "power.objective", "network.nodes")
    fewer = end_points(study, Request(where=["network.nodes=4", "learning.partition=iid", "scenario.rounds=10"]))
    assert (fewer.roles.series, fewer.roles.style) == ("power.objective", None)
    assert len({cell for curve in fewer.curves for cell in curve.points["cell"]}) == 4
    with pytest.raises(
        TraceError, match=r"power\.objective, scenario\.rounds varies too; name it in --series, --dashes"
    ):
        learning_curves(study, Request(curves="round"))


def test_keys_that_vary_together_need_one_role(tmp_path):
    made = [{**row, "scenario.rounds": {0.5: 100, 1.0: 50, 2.0: 25}[row[KEYS[0]]]} for row in rows(limits=(0.5, 1, 2))]
    study = made_study(tmp_path, made, [*KEYS, "scenario.rounds"])
    roles = end_points(study, Request()).roles
    assert (roles.series, roles.style, roles.spare) == ("network.nodes", None, ())


def test_adversaries_are_named_where_they_differ(tmp_path):
    made = [{**row, "promised": "coalition" if row[KEYS[1]] == 20 else "own", "coalition": 5} for row in rows()]
    study = made_study(tmp_path, made)
    family = end_points(study, Request())
    assert family.adversaries == {4: "all other nodes", 10: "all other nodes", 20: "any 5 nodes"}
    text = Labels()
    assert text.axis("epsilon", family) == "guaranteed total ε (replace-one, worst node)"
    assert text.series(20, family) == "nodes 20, against any 5 nodes"
    same = end_points(study, Request(where=["network.nodes=20"]))
    assert text.axis("epsilon", same) == "total ε against any 5 nodes (replace-one, worst node)"


def test_a_total_read_under_a_stopping_rule_is_pointed_out(tmp_path):
    study = made_study(tmp_path, rows(epsilon_declared=9.0))
    assert any("--x epsilon" in note for note in end_points(study, Request(x="epsilon_total")).notes)
    assert not end_points(study, Request(x="epsilon")).notes


def test_twelve_series_have_twelve_looks_and_are_named_at_their_ends(tmp_path):
    assert len({look(number) for number in range(77)}) == 77
    figure = drawn(made_study(tmp_path, rows(nodes=range(2, 14))))
    (axis,) = figure.axes
    looks = {(line.get_color(), line.get_marker()) for line in axis.lines if len(line.get_xdata()) == 3}
    assert len(looks) == 12
    assert [text.get_text() for text in axis.texts] == [str(count) for count in range(2, 14)]
    boxes = [text.get_window_extent() for text in axis.texts]
    assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n]), "names overlap"


def test_the_legend_stands_outside_the_data(folder):
    figure = drawn(open_study(folder), size="double")
    (legend,) = figure.legends
    assert not any(legend.get_window_extent().overlaps(axis.get_window_extent()) for axis in figure.axes)
    assert [text.get_text() for text in legend.get_texts()] == [
        *("nodes 4", "nodes 10", "nodes 20", "ε ∞", "local", "95%, 3 runs")
    ]
    styled = drawn(open_study(folder), series="network.nodes", style="privacy.epsilon_max")
    texts = [text.get_text() for text in styled.legends[0].get_texts()]
    assert "epsilon_max 2" in texts
    assert "epsilon_max inf" not in texts, "it is a level, and has its entry as such"


def beside(limits=(0.3, 1.0, 3.0), factor=1.0):
    """Cells of one size, and two baselines beside each of them."""
    own = rows(nodes=(4,), limits=limits)
    for row in own:
        row["epsilon_total"] = factor * row[KEYS[0]]
    others = [{**row, "cell": f"{name}-{row['cell']}", "baseline": name} for name in ("a", "b") for row in own]
    return [*own, *others, *local()]


@pytest.mark.parametrize("label", [(), ("tiny=Ours",)])
def test_the_scenario_has_a_legend_entry_beside_its_baselines_and_no_two_curves_look_alike(label, tmp_path):
    study = made_study(tmp_path, beside())
    figure, _ = study_figure(study, Request(labels=label))
    (legend,) = figure.legends
    named = {text.get_text(): handle for text, handle in zip(legend.get_texts(), legend.legend_handles)}
    own = "Ours" if label else "tiny"
    assert set(named) == {own, "a", "b", "local", "95%, 3 runs"}
    looks = [(line.get_color(), line.get_marker()) for line in figure.axes[0].lines if len(line.get_xdata()) == 3]
    assert len(set(looks)) == 3
    assert looks == [(named[name].get_color(), named[name].get_marker()) for name in (own, "a", "b")]


@pytest.mark.parametrize(
    ("x", "limits", "factor", "expected"),
    [
        ("privacy.epsilon_max", (0.3, 1.0, 3.0), 1.0, [0.3, 1.0, 3.0]),
        ("epsilon", (0.25, 1.0, 3.0), 0.98, [0.25, 1.0, 3.0]),  # totals come out just below what was asked for
        ("epsilon", (0.3, 1.0, 3.0), 1.117, [0.5, 1.0, 2.0]),  # results that nobody asked for
        ("privacy.epsilon_max", (1.0, 1.05, 1.1, 10.0), 1.0, [1.0, 2.0, 5.0, 10.0]),  # labels would overlap
    ],
)
def test_a_logarithmic_axis_has_its_ticks_at_the_values_that_were_swept(x, limits, factor, expected, tmp_path):
    study = made_study(tmp_path, beside(limits, factor))
    axis = study_figure(study, Request(x, logx=True))[0].axes[0]
    axis.figure.canvas.draw()
    low, high = axis.get_xlim()
    ticks = [tick for tick in axis.get_xticks() if low <= tick <= high]
    assert ticks == pytest.approx(expected)
    texts = [text.get_text() for text in axis.get_xticklabels() if low <= text.get_position()[0] <= high]
    assert texts == [f"{tick:g}" for tick in expected]


@pytest.mark.parametrize("logx", [True, False])
@pytest.mark.filterwarnings("error")
def test_points_at_one_place_have_an_axis_around_them(logx, tmp_path):
    """As totals of two graphs that differ in their last digit: matplotlib cannot make an axis of that."""
    made = rows(nodes=(4, 10), limits=(1.0,))
    for row in made:
        row["epsilon_total"] = 0.85 * (1 + (row["network.nodes"] == 10) * 1e-15)
    study = made_study(tmp_path, [*made, *local()])
    figure = drawn(study, x="epsilon", logx=logx)
    low, high = figure.axes[0].get_xlim()
    assert low < 0.81 < 0.89 < high


@pytest.mark.filterwarnings("error")
def test_what_is_infinite_has_no_place_in_a_figure(tmp_path):
    """Such as the total of cells without noise, drawn upwards."""
    study = made_study(tmp_path, rows())
    asked = {"x": "network.nodes", "y": "epsilon_total", "series": "privacy.epsilon_max"}
    figure = drawn(study, **asked)
    assert np.isfinite(figure.axes[0].get_ylim()).all()
    for changes, words in (
        ({"epsilon_total": math.inf}, "epsilon_total is infinite in every run that has a place"),
        ({"status": "planned"}, "none of 36 runs is finished; wait, or go on with: wirelessdl sweep --resume"),
    ):
        study = open_study(write_study(tmp_path / words[:4], [{**row, **changes} for row in rows()], KEYS))
        with pytest.raises(TraceError, match=words):
            drawn(study, **asked)


def test_plot_writes_figure_data_and_command(folder, wirelessdl_command, tmp_path):
    asked = ["plot", str(folder), "--x", "epsilon_total", "--y", "accuracy", "--facet", "network.nodes", "--logx"]
    done = wirelessdl_command(*asked, "--size", "double", "--label", "network.nodes=$K$", "--label", "local=alone")
    assert done.code == 0, done.err
    content = (tmp_path / "accuracy-epsilon_total.pdf").read_bytes()
    assert float(re.search(rb"/MediaBox \[ ?0 0 ([\d.]+)", content)[1]) == pytest.approx(7.16 * 72, abs=1)
    data = pd.read_csv(tmp_path / "accuracy-epsilon_total.csv")
    assert data["kind"].tolist().count("level") == 4
    assert len(data) == 13
    mean = open_study(folder).mean(by=["cell"], of="accuracy").set_index("cell")
    for _, row in data[data["baseline"].isna()].iterrows():
        expected = mean.loc[row["cell"]]
        assert (row["accuracy_mean"], row["low_95"]) == pytest.approx((expected["mean"], expected["low"]))
    script = (tmp_path / "accuracy-epsilon_total.sh").read_text().splitlines()
    assert script[-1].startswith(f"wirelessdl plot {folder} --x epsilon_total")
    assert all(line.startswith("#") for line in script[:-1])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--x", "epsilon_tot"], "did you mean epsilon_total?"),
        (["--y", "acuracy"], "did you mean accuracy_mean?"),
        (["--series", "network.node"], "did you mean network.nodes?"),
        (["--y", "promised"], "holds texts; an axis needs numbers"),
        (["--y", "coalition"], "column coalition is empty in every finished run"),
        (["--series", "nodes", "--facet", "network.nodes"], "are both network.nodes"),
        (["--where", "network.nodes=5"], "network.nodes is one of 4"),
        (["--where", "network.nodes=five"], "'five' is none"),
        (["--where", "network.nodes"], "must be KEY=VALUE"),
        (["--where", "privacy.epsilon_max=inf", "--x", "epsilon"], "epsilon is infinite or empty in every run"),
        (["--label", "K"], "must be NAME=TEXT"),
        (["--label", "network.node=K"], "did you mean network.nodes?"),
        (["--label", r"network.nodes=$\frac{$"], "cannot be set as mathematics"),
        (["--figure", "map"], "--figure is for runs"),
        (["--curves", "--x", "round"], "with --curves the horizontal axis is --against"),
        (["--out", "x.jpg"], ".pdf, .png, .svg"),
        (["--out", "no/such/x.pdf"], "cannot be written"),
        (["study"], "is a study; name it alone"),
    ],
)
def test_mistakes_are_one_line(arguments, words, folder, wirelessdl_command, tmp_path):
    done = wirelessdl_command("plot", str(folder), *arguments)
    assert done.code == 2
    assert words in done.err.splitlines()[-1], done.err
    assert [path.name for path in tmp_path.iterdir()] == ["study"]


def test_files_beside_a_figure_are_written_over_only_where_a_plot_wrote_them(folder, wirelessdl_command, tmp_path):
    for name in ("mydata.csv", "mydata.sh"):
        (tmp_path / name).write_text("mine\n")
        done = wirelessdl_command("plot", str(folder), "--out", "mydata.png")
        said = f"TraceError: {name}: is there, and no plot wrote it; move it, or name another figure\n"
        assert (done.code, done.err) == (2, said)
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "study"])
        assert (tmp_path / name).read_text() == "mine\n"
        (tmp_path / name).unlink()
    for out in ("x.png", "x.pdf"):  # another format, too
        done = wirelessdl_command("plot", str(folder), "--out", out)
        assert done.code == 0, done.err
        assert (tmp_path / "x.csv").read_text() != "old"
        (tmp_path / "x.csv").write_text("old")
    (tmp_path / "x.sh").unlink()
    assert "x.csv: is there, and no plot wrote it" in wirelessdl_command("plot", str(folder), "--out", "x.pdf").err


def test_a_strangers_names_are_no_mathematics(tmp_path, wirelessdl_command):
    made = [{**row, "learning.partition": "$\\bad{$ $"} for row in rows(limits=(0.5, 1.0))]
    made += [{**row, "cell": f"d{row['cell']}", "learning.partition": "\nx$y$"} for row in made]
    folder = write_study(tmp_path / "study", made, [*KEYS, "learning.partition"], name="a\nrm -rf $HOME")
    done = wirelessdl_command("plot", str(folder), "--dashes", "learning.partition", "--out", "x.png")
    assert done.code == 0, done.err
    lines = (tmp_path / "x.sh").read_text().splitlines()
    assert [line[0] for line in lines] == ["#", "w"]
