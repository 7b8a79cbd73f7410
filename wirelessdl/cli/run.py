"""`wirelessdl run`."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from wirelessdl.cli.options import all_overrides, scenario_options

if TYPE_CHECKING:
    from wirelessdl.sim.recorder import Progress as Evaluation


@click.command(epilog="Example: wirelessdl run scenarios/urban_er_k20.toml --rounds 100 --set privacy.epsilon_max=0.5")
@scenario_options
@click.option("--out", default="outputs", type=click.Path(path_type=Path), help="Parent of the run directory.")
@click.option("--device", default="auto", help="auto, cpu, cuda, cuda:N or mps.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per evaluation, then the summary.")
def command(
    scenario: str,
    overrides: tuple[str, ...],
    seed: int | None,
    run_number: int | None,
    rounds: int | None,
    out: Path,
    device: str,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run SCENARIO, a TOML file or the name of a bundled scenario, into a new directory under --out."""
    from wirelessdl.scenario.loader import load_scenario

    loaded = load_scenario(scenario, overrides=all_overrides(overrides, seed, run_number, rounds))
    console = Console(quiet=quiet or as_json, highlight=False)
    total = loaded.scenario.rounds
    console.print(
        f"[bold]{loaded.scenario.name}[/]  seed {loaded.scenario.seed}, run {loaded.scenario.run}: "
        f"{loaded.network.nodes} nodes, {total} rounds, {loaded.privacy.protocol} protocol, "
        f"epsilon_max {loaded.privacy.epsilon_max:g} per slot",
        soft_wrap=True,
    )
    from wirelessdl.sim.engine import simulate  # after the first line: torch takes a second or two

    with _listener(console, total, as_json) as listen:
        run = simulate(loaded, out=out, device=device, on_round=listen.on_round, on_evaluation=listen.on_evaluation)
    if as_json:
        _emit({"event": "summary", "path": str(run.path), **run.summary})
        return
    console.print(summary_table(run.summary))
    console.print(f"traces in {run.path}", soft_wrap=True)


def summary_table(summary: dict[str, Any]) -> Table:
    """Final figures, in the words of the privacy table."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    epsilon = "{:.3g}".format
    table.add_row(
        "test accuracy",
        f"{summary['accuracy_mean']:.1%} mean, {summary['accuracy_min']:.1%} to {summary['accuracy_max']:.1%}",
    )
    table.add_row(
        "one slot, any link",
        f"epsilon {epsilon(float(summary['epsilon_link_max']))} at delta {summary['delta']:g}"
        + (f", {summary['violations']} above epsilon_max" if summary["violations"] else ""),
    )
    table.add_row(
        "whole run, own noise",
        f"epsilon {epsilon(float(summary['epsilon_own_total']))} at delta {summary['delta_total']:g}  (proven, "
        "whoever listens)",
    )
    table.add_row(
        "whole run, link sum",
        f"epsilon {epsilon(float(summary['epsilon_claim_total']))}  (the paper's claim)",
    )
    table.add_row("simulated time", f"{summary['time_s']:.3f} s, {summary['airtime_s']:.3f} s on air")
    table.add_row("energy radiated", f"{summary['energy_j']:.3g} J by {summary['nodes']} nodes")
    table.add_row("wall clock", f"{summary['wall_s']:.1f} s for {summary['rounds']} rounds")
    return table


class _Listener:
    """Hears of rounds and evaluations; says nothing."""

    def on_round(self, round: int) -> None: ...

    def on_evaluation(self, evaluation: "Evaluation") -> None: ...


class _JsonLines(_Listener):
    def on_evaluation(self, evaluation: "Evaluation") -> None:
        _emit({"event": "evaluation", **asdict(evaluation)})


class _PlainLines(_Listener):
    def __init__(self, console: Console):
        self._console = console

    def on_evaluation(self, evaluation: "Evaluation") -> None:
        self._console.print(
            f"round {evaluation.round}/{evaluation.rounds}  {_figures(evaluation)}  {evaluation.time_s:.2f} s simulated"
        )


class _Bar(_Listener):
    def __init__(self, bar: Progress, total: int):
        self._bar = bar
        self._task = bar.add_task("", total=total, figures="")

    def on_round(self, round: int) -> None:
        self._bar.update(self._task, completed=round)

    def on_evaluation(self, evaluation: "Evaluation") -> None:
        self._bar.update(self._task, figures=_figures(evaluation))


@contextmanager
def _listener(console: Console, total: int, as_json: bool) -> Iterator[_Listener]:
    if as_json:
        yield _JsonLines()
    elif console.quiet:
        yield _Listener()
    elif not console.is_terminal:
        yield _PlainLines(console)
    else:
        columns = (
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console) as bar:
            yield _Bar(bar, total)


def _figures(evaluation: "Evaluation") -> str:
    return f"accuracy {evaluation.accuracy_mean:.1%}, own epsilon {evaluation.epsilon_own_total:.3g}"


def _emit(content: dict[str, Any]) -> None:
    from wirelessdl.trace.files import plain

    sys.stdout.write(json.dumps(plain(content), allow_nan=False) + "\n")
    sys.stdout.flush()
