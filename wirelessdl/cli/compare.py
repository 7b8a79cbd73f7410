"""`wirelessdl compare`."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wirelessdl.cli.options import PATH, echo_json, one_study, plain_table, reads_runs, wide_console
from wirelessdl.errors import quote

if TYPE_CHECKING:
    from wirelessdl.analysis.study_tables import Difference
    from wirelessdl.trace.run import Run


@click.command(
    epilog="Examples: wirelessdl compare outputs/urban_er_k20-s7-r1 outputs/urban_er_k20_paper_lp-s7-r1; "
    "wirelessdl compare outputs/tradeoff --to privacy.epsilon_max=inf"
)
@click.argument("runs", nargs=-1, required=True, type=PATH, metavar="STUDY|RUN RUN...")
@click.option(
    "--to",
    metavar="REFERENCE",
    help="Study: what cells are compared with: a baseline, a cell, its name, or KEY=VALUE; default: local.",
)
@click.option(
    "--of", "columns", multiple=True, metavar="COLUMN", help="Study: column to compare; repeatable; default: accuracy."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@reads_runs
def command(runs: tuple[Path, ...], to: str | None, columns: tuple[str, ...], as_json: bool) -> None:
    """Print final results side by side, and paired differences by seed with their 95% intervals.

    Of a STUDY: every cell beside a reference at the same seeds. Of RUNs, which may have different scenarios and sizes:
    differing keys and final results; where scenarios were run with the same seeds, also their differences to the first.
    Of one RUN: the same with runs of its baselines central-dp, no-privacy and local in its folder, first in one line.
    """
    if one_study(runs):
        _compare_study(runs[0], to, columns or ("accuracy",), as_json)
        return
    if to is not None or columns:
        raise click.UsageError(f"--{'to' if to is not None else 'of'} is for a study; leave it out")
    _compare_runs(runs, as_json)


def _compare_study(folder: Path, to: str | None, columns: tuple[str, ...], as_json: bool) -> None:
    from wirelessdl.analysis.study_tables import study_differences
    from wirelessdl.errors import TraceError
    from wirelessdl.trace.study import open_study

    study = open_study(folder)
    found = {column: study_differences(study, column, to) for column in columns}
    if not any(found.values()):
        raise TraceError(f"{quote(folder)}: no other finished cell has the same seeds as the reference")
    if as_json:
        content = {"study": study.manifest["name"], "differences": [asdict(one) for n in found.values() for one in n]}
        echo_json(content)
        return
    _print_differences(wide_console(160), [one for differences in found.values() for one in differences])


def _compare_runs(runs: tuple[Path, ...], as_json: bool) -> None:
    from wirelessdl.analysis.releases import terms_of
    from wirelessdl.analysis.runs import (
        BASELINES,
        beside,
        differing,
        figure_rows,
        final_figures,
        format_value,
        in_one_line,
        labels,
        open_runs,
        protects,
        state,
    )

    opened = open_runs(runs)
    others, names = beside(opened[0]), list(BASELINES)
    if len(runs) < 2:
        if not in_one_line(others):
            raise click.UsageError(
                "name two runs or more, or one with a finished run of its scenario beside it, made with --baseline "
                f"{', '.join(names[:-1])} or {names[-1]}; `wirelessdl report RUN` shows one"
            )
        opened = open_runs([one.path for one in others])
    keys, figures = differing(opened), [final_figures(run) for run in opened]
    pairs = _pairs(opened)
    if as_json:
        entries = [
            {
                "path": str(run.path),
                "state": state(run),
                "keys": {key: keys[key][n] for key in keys},
                "adversary": terms_of(run).adversary,
                **figures[n],
            }
            for n, run in enumerate(opened)
        ]
        near = [{**asdict(one), "path": str(one.path)} for one in others]
        echo_json({"differing": list(keys), "runs": entries, "paired": [asdict(one) for one in pairs], "beside": near})
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("", overflow="fold")
    for name in labels(opened):
        table.add_column(escape(quote(name)), overflow="fold")
    rows = figure_rows(figures)
    for words, texts in rows:
        if words.startswith("test accuracy"):
            table.add_row(words, *texts, style="bold")
    table.add_row()
    for key, values in keys.items():
        table.add_row(escape(quote(key)), *(escape(format_value(value)) for value in values), style="cyan")
    if keys:
        table.add_row()
    if any(state(run) != "done" for run in opened):
        table.add_row("state", *(state(run) for run in opened))
    table.add_row("every epsilon protects", *(protects(run) for run in opened))
    table.add_row("the guaranteed epsilon holds against", *(terms_of(run).adversary for run in opened))
    for words, texts in rows:
        if not words.startswith("test accuracy"):
            table.add_row(words, *texts)
    console = wide_console(60 + 60 * len(opened))
    if line := in_one_line(others):
        console.print(f"{escape(quote(opened[0].path.name))} beside its baselines: {line}", soft_wrap=True)
    if not keys:
        console.print("no key differs")
    console.print(table)
    if pairs:
        console.print()
        _print_differences(console, pairs)


def _pairs(opened: "list[Run]") -> "list[Difference]":
    """Differences of scenarios that share two seeds or run numbers, figure by figure; none for single runs."""
    from wirelessdl.analysis.runs import grouped
    from wirelessdl.analysis.study_tables import PAIRED_FIGURES, group_differences

    groups = grouped(opened)
    if len(groups) < 2 or max(len(group.runs) for group in groups[1:]) < 2:
        return []
    found = [one for of in PAIRED_FIGURES for one in group_differences(groups, of)]
    return [one for one in found if one.n > 1 and math.isfinite(one.difference)]


def _print_differences(console: Console, differences: "list[Difference]") -> None:
    from wirelessdl.analysis.study_tables import figure_label, format_difference

    first = differences[0]
    one_reference = len({one.reference for one in differences}) == 1
    one_figure = len({one.of for one in differences}) == 1
    to = f" to {first.reference}" if one_reference else ""
    what = f"{figure_label(first.of)}: " if one_figure else ""
    console.print(f"[bold]{escape(what)}paired differences by seed and run{escape(to)}[/]")
    names = ["", *(["reference"] if not one_reference else []), *(["figure"] if not one_figure else [])]
    table = plain_table(names, left=names, overflow="fold")
    for name in ("mean", "reference mean", "difference", "95% interval", "pairs"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in differences:
        low, high = (format_difference(one.of, value, signed=True) for value in (one.low, one.high))
        table.add_row(
            escape(one.name),
            *([] if one_reference else [escape(one.reference)]),
            *([] if one_figure else [escape(figure_label(one.of))]),
            format_difference(one.of, one.mean),
            format_difference(one.of, one.reference_mean),
            format_difference(one.of, one.difference, signed=True),
            f"{low.removesuffix(' points')} to {high}" if low else "",
            str(one.n),
        )
    console.print(table)
