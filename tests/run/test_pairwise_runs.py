"""Runs with noise that pairs share and with mixing passes: readers hold both views against the traces, and name who
each epsilon is promised against."""

import json
import re
import shutil

import numpy as np
import pytest
from conftest import command_line, tiny
from hostile import arrays, column, document, parts, scenario, sign

from wirelessdl.analysis.releases import data_split, promised_totals, recounted_ledger
from wirelessdl.analysis.runs import final_figures
from wirelessdl.analysis.verify import verify
from wirelessdl.errors import TraceError
from wirelessdl.privacy.terms import PrivacyAssumptions
from wirelessdl.run.session import resume, simulate

COALITION = "any 2 colluding nodes that hear every transmission"
EVERYONE = "all other nodes colluding"
SECTIONS = {
    "scenario": {"name": "pairs", "rounds": 4},
    "network": {"nodes": 5},
    "radio": {"mixing_passes": 2},
    "power": {"objective": "own-noise"},
    "privacy": {"noise": "pairwise", "coalition": 2, "pair_ratio": 1.5, "epsilon_max": 1.0},
    "learning": {"eval_every": 1, "closing_passes": 3},
}


def changed(**sections):
    return {name: {**SECTIONS.get(name, {}), **sections.get(name, {})} for name in {*SECTIONS, *sections}}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return simulate(tiny(**SECTIONS), out=tmp_path_factory.mktemp("pairs"))


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run.path, tmp_path / "copy")


def test_verify_finds_nothing_wrong_and_names_the_adversary(run):
    found = verify(run.path)
    assert found.problems == ()
    assert (found.epsilon_total, found.adversary) == (pytest.approx(run.summary["epsilon_total"]), COALITION)
    assert found.epsilon_own_total == pytest.approx(run.summary["epsilon_own_total"])
    assert found.epsilon_own_total > 1.5 * found.epsilon_total
    shown = command_line("verify", str(run.path))
    assert shown.code == 0
    words = f"epsilon {found.epsilon_total:.4g} (replace-one) by the traces against {COALITION}"
    assert shown.out.rstrip().endswith(words)


def test_terms_and_both_views_are_worked_out_again_from_the_traces(run):
    split = data_split(run)
    delta = run.scenario["privacy"]["delta_total"]
    expected = PrivacyAssumptions(
        "hardened", "without-replacement", "per-sample", delta, coalition=2, promised="coalition", passes=True
    )
    assert split.terms == expected
    again = recounted_ledger(run, split)
    for view, totals in again.views():
        stored = run.privacy[run.privacy["view"] == view].sort_values("tx")["epsilon_total"]
        np.testing.assert_allclose(totals.total(), stored, rtol=1e-9)
    # 4 partners each, r^2 = 9/4: own share 1/10, and two honest partners add 9/13 of it each
    sent = run.nodes[run.nodes["transmitted"]]
    np.testing.assert_allclose(sent["own_share"], 0.1)
    np.testing.assert_allclose(sent["coalition_share"], 0.1 * (1 + 2 * 9 / 13))


def scaled(table_name, name, factor):
    return parts(table_name, lambda table: column(table, name, np.minimum(factor * table[name].to_numpy(), 1.0)))


FORGERIES = {
    "more is hidden from the coalition": (scaled("nodes", "coalition_share", 1.3), "coalition_share does not follow"),
    "more of the noise is its own": (scaled("nodes", "own_share", 1.3), "own_share does not follow"),
    "less is hidden from the coalition than its own": (scaled("nodes", "coalition_share", 0.1), "out of order"),
    "a smaller coalition": (scenario("privacy.coalition", 1), "coalition totals do not follow|does not follow from"),
    "a smaller promised total": (document("summary.json", epsilon_total=0.001), "epsilon_total is 0.001"),
    "a smaller coalition total": (
        document("summary.json", epsilon_coalition_total=0.001),
        "epsilon_coalition_total is",
    ),
    "no coalition total": (document("summary.json", epsilon_coalition_total=None), "epsilon_coalition_total is None"),
    "a weaker adversary in words": (document("summary.json", adversary="nobody"), "adversary is nobody"),
    "a link sum": (document("summary.json", epsilon_link_max=0.1), "epsilon_link_max is 0.1"),
    "a smaller ledger": (arrays("ledger_coalition_total", lambda x: 0.5 * x), "its ledger does not follow"),
    "another promise": (scenario("privacy.against", "everyone"), "promised is coalition, the scenario says own"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_verify_complains_of_a_forgery_with_right_checksums(name, copy):
    forge, words = FORGERIES[name]
    forge(copy)
    sign(copy)
    problems = verify(copy).problems
    assert any(re.search(words, line) for line in problems), problems


def test_totals_of_forged_shares_are_told_apart_even_where_shares_agree_with_each_other(copy):
    """A larger pair ratio leaves less own noise: shares that fit it do not fit the table."""
    partners, coalition, square = 4, 2, 1.0
    own = 1 / (1 + partners * square)
    shares = {"own_share": own, "coalition_share": own * (1 + (partners - coalition) * square / (1 + square))}
    for name, value in shares.items():
        parts("nodes", lambda table, name=name, value=value: column(table, name, [value] * table.num_rows))(copy)
    scenario("privacy.pair_ratio", 1.0)(copy)
    sign(copy)
    problems = verify(copy).problems
    assert "privacy: own totals do not follow from the traces" in problems
    assert "privacy: coalition totals do not follow from the traces" in problems


@pytest.mark.parametrize(
    ("forge", "words"),
    [
        (arrays("ledger_coalition_total", lambda x: 0.5 * x), r"with epsilon .* \(view coalition\)"),
        (scaled("nodes", "coalition_share", 1.3), "coalition_share does not follow"),
    ],
)
def test_a_run_whose_coalition_is_charged_less_does_not_go_on(forge, words, copy):
    (copy / "summary.json").unlink()
    forge(copy)
    sign(copy)
    with pytest.raises(TraceError, match=words):
        resume(copy, rounds=6)


def test_every_reader_shows_the_promised_epsilon_with_its_adversary(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    full = {"sampling": "full"}  # nothing is amplified, so pages need no seconds for accountants
    run = simulate(tiny(**changed(learning=full)), out="runs")
    own = simulate(
        tiny(**changed(learning=full, privacy={"against": "everyone"}, scenario={"name": "own"})), out="runs"
    )
    rows = command_line("list", "runs").out.splitlines()
    shown = {row.split()[1]: row for row in rows[1:3]}  # runs that began in the same second have no order
    assert "any 2 " in shown["pairs"]
    assert "all other" in shown["own"]
    listed = [json.loads(line) for line in command_line("list", "runs", "--json").out.splitlines()]
    totals = {one["scenario"]: (one["epsilon"], one["coalition"]) for one in listed}
    assert totals == {"pairs": (run.summary["epsilon_total"], 2), "own": (own.summary["epsilon_total"], None)}

    figures = final_figures(run)
    assert figures["epsilon"] == figures["epsilon_total"] == run.summary["epsilon_coalition_total"]
    assert (figures["epsilon_link_total"], figures["epsilon_link_max"]) == (None, None)
    compared = command_line("compare", str(run.path), str(own.path)).out
    line = next(line for line in compared.splitlines() if line.startswith("the guaranteed epsilon holds against"))
    assert COALITION in line
    assert EVERYONE in line

    assert command_line("report", str(run.path), "--out", "report.html", "--csv", "csv").code == 0
    page = (tmp_path / "report.html").read_text()
    assert f"proven, against {COALITION}" in page
    assert f"Guaranteed against {COALITION}." in page
    assert command_line("plot", str(run.path), str(own.path), "--figure", "tradeoff", "--format", "svg").code == 0


def test_totals_are_of_the_promised_view(run):
    found = promised_totals(run, others=False)
    assert (list(found.epsilon), found.note) == (["pld"], "")
    assert found.epsilon["pld"].max() == pytest.approx(run.summary["epsilon_coalition_total"])
    assert found.epsilon["pld"].max() == pytest.approx(run.rounds["epsilon_promised_total"].iloc[-1])


def test_tables_hold_no_epsilon_of_links(run):
    assert run.links["epsilon"].isna().all()
    assert run.rounds["epsilon_link_max"].isna().all()
    assert set(run.privacy["view"]) == {"own", "coalition"}
