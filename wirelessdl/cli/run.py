"""`wirelessdl run`."""

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from wirelessdl.cli.options import PATH, all_overrides, say_user_code, scenario_options
from wirelessdl.cli.output import json_alone
from wirelessdl.cli.progress import emit, listener, stopper_installed
from wirelessdl.errors import RunInterrupted
from wirelessdl.trace.files import require_outside

if TYPE_CHECKING:
    from wirelessdl.scenario.protection import PrivacySection
    from wirelessdl.scenario.schema import Scenario


@click.command(epilog="Example: wirelessdl run scenarios/urban_er_k20.toml --rounds 100 --set privacy.epsilon_max=0.5")
@scenario_options(required=False)
@click.option("--out", default="outputs", type=PATH, help="Folder for run directories.")
@click.option("--resume", "resumed", type=PATH, help="Continue the run in this directory.")
@click.option(
    "--force", is_flag=True, help="With --resume: allow changes to tracing, evaluation, device, threads and versions."
)
@click.option("--device", default="auto", help="Torch device: auto, cpu, cuda, cuda:N or mps.")
@click.option(
    "--log",
    default="",
    metavar="COMPONENT=LEVEL,...",
    help="Log to stderr, e.g. sim=debug,channel=info; components sim, network, channel, power, privacy, phy, learning.",
)
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per evaluation, then the summary.")
def command(
    scenario: str | None,
    baseline: str | None,
    overrides: tuple[str, ...],
    seed: int | None,
    run_number: int | None,
    rounds: int | None,
    out: Path,
    resumed: Path | None,
    force: bool,
    device: str,
    log: str,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run SCENARIO and write its tables into a new directory under --out.

    SCENARIO is a TOML file or the name of a bundled scenario. Ctrl-C stops after the current round and keeps the
    state. --resume continues from there, or from the last checkpoint of a killed run, and writes the same tables as
    an uninterrupted run. --resume with --rounds extends a finished run.
    """
    began = time.perf_counter()
    if scenario is None and resumed is None:
        raise click.UsageError("name a SCENARIO, or a run to --resume; `wirelessdl list` shows the bundled scenarios")
    if baseline is not None and scenario is None:
        raise click.UsageError("--baseline goes with a SCENARIO; a run that is resumed has its own")
    if force and resumed is None:
        raise click.UsageError("--force goes with --resume")
    if resumed is None:
        require_outside(out)
    changes = all_overrides(overrides, seed, run_number, rounds)
    console = Console(quiet=quiet or as_json, highlight=False)
    from wirelessdl.scenario.loader import load_scenario

    loaded = None if scenario is None else load_scenario(scenario, overrides=changes, baseline=baseline)
    done = 0
    if resumed is not None:
        from wirelessdl.run.resume import resumption, settle_finished

        going = resumption(resumed, scenario=loaded, overrides=() if loaded else changes)
        shown, done = going.scenario, going.done
        if going.finished:
            settle_finished(going.run)
            console.print(f"{resumed} is finished; --rounds extends it", markup=False, soft_wrap=True)
            if as_json:
                emit({"event": "summary", "path": str(resumed), **going.run.summary})
            return
    else:
        assert loaded is not None
        shown = loaded
    say_user_code(shown, resumed)
    console.print(_headline(shown, done), soft_wrap=True)
    from wirelessdl.run.session import RunOptions, resume, simulate  # after the first line: torch takes a second or two

    with (
        stopper_installed() as stop,
        listener(console, done=done, rounds=shown.scenario.rounds, as_json=as_json) as listen,
        json_alone(as_json),
    ):
        options = RunOptions(device, listen.on_round, listen.on_evaluation, stop.asked, log=log)
        try:
            if resumed is None:
                run = simulate(shown, options, out=out)
            else:
                run = resume(resumed, options, scenario=loaded, overrides=() if loaded else changes, force=force)
        except RunInterrupted as interrupted:
            listen.close()
            stop.end(str(interrupted))
    if as_json:
        emit({"event": "summary", "path": str(run.path), **run.summary})
        return
    energy = run.scenario["energy"]
    # wall_s begins when the world stands; what came before is loading and building
    start_s = None if resumed is not None else time.perf_counter() - began - run.summary["wall_s"]
    transmits_only = not energy["receive_w"] and not energy["compute_w"]
    console.print(summary_table(run.summary, start_s=start_s, transmits_only=transmits_only))
    console.print(f"traces in {run.path}", soft_wrap=True, markup=False)


def _headline(loaded: "Scenario", done: int) -> str:
    section = loaded.scenario
    return (
        f"[bold]{section.name}[/]  seed {section.seed}, run {section.run}: {_counted(loaded.network.nodes)}, "
        f"{section.rounds} rounds{f', continuing after round {done}' if done else ''}, "
        f"{loaded.privacy.protocol} protocol, {'nothing is sent' if loaded.silent else _target(loaded.privacy)}"
    )


def _counted(nodes: int) -> str:
    return f"{nodes} node{'s' * (nodes > 1)}"


def _target(privacy: "PrivacySection") -> str:
    if math.isfinite(privacy.epsilon_total):
        return f"total epsilon {privacy.epsilon_total:g} (replace-one) at delta {privacy.delta_total:g}"
    return f"epsilon_max {privacy.epsilon_max:g} (replace-one) per slot"


def summary_table(summary: dict[str, Any], *, start_s: float | None = None, transmits_only: bool = False) -> Table:
    """Final figures, in the words of the privacy table.

    start_s: what loading and building took, if known. transmits_only: whether receiving and computing cost nothing.
    """
    from wirelessdl.gaussian import exact_slot_epsilon
    from wirelessdl.privacy.terms import AMPLIFIED, NOBODY_SENDS, OUTSIDE, Proven, adversary, protected
    from wirelessdl.trace.catalog import headline
    from wirelessdl.units import prefixed

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    epsilon = "{:.3g}".format
    table.add_row(
        "test accuracy",
        f"{summary['accuracy_mean']:.1%} mean, {summary['accuracy_min']:.1%} to {summary['accuracy_max']:.1%}",
    )
    unit = protected(summary.get("unit", "sample"))
    total = float(summary["epsilon_total"])
    shared = summary["epsilon_coalition_total"] is not None
    table.add_row(
        "whole run",
        f"epsilon {epsilon(float(headline(summary)))} at delta {summary['delta_total']:g} for {unit}, "
        f"{summary['epsilon_status']}, against {summary['adversary']}",
    )
    if "epsilon_declared" in summary:
        rest = (
            f"met in round {summary['stopped']}" if summary["stopped"] else f"never met in {summary['rounds']} rounds"
        )
        table.add_row(
            "stopping rule",
            f"{rest}, where an odometer reads {epsilon(total)}; when it stops depends on data, so the figure above is "
            "that of all rounds declared",
        )
    if shared:
        other: Proven = "own" if summary["promised"] == "coalition" else "coalition"
        table.add_row(
            "",
            f"epsilon {epsilon(float(headline(summary, other)))} (replace-one) against "
            f"{adversary(other, summary['coalition'])}; pair ratio {summary['pair_ratio']:.3g}",
        )
    sends = summary["adversary"] != NOBODY_SENDS
    if sends and math.isfinite(total):
        table.add_row("", OUTSIDE)
    above = f"; {summary['violations']} above epsilon_max" if summary["violations"] else ""
    if summary["epsilon_link_total"] is not None and sends:
        slot = float(summary["epsilon_link_max"])
        classic = f"; {epsilon(slot)} by Theorem 1" if slot < 1.0 else ""
        table.add_row(
            "one slot, one receiver",
            f"epsilon {epsilon(exact_slot_epsilon(slot, summary['delta']))} (replace-one) at delta "
            f"{summary['delta']:g}, worst link, one antenna in phase{classic}{above}",
        )
        if summary.get("amplified"):
            table.add_row("", AMPLIFIED)
        table.add_row(
            "whole run, link sum",
            f"epsilon {epsilon(float(summary['epsilon_link_total']))} (replace-one), the paper's sum, unproven",
        )
    table.add_row("simulated time", f"{summary['time_s']:.3f} s, {summary['airtime_s']:.3f} s on air")
    if "outage_rate" in summary:
        table.add_row(
            "messages",
            f"{summary['attempts_mean']:.3g} attempts on average, {summary['outage_rate']:.2%} of links in outage",
        )
    table.add_row(
        "transmit energy" if transmits_only else "energy used",
        f"{prefixed(summary['energy_j'], 'J')} by {_counted(summary['nodes'])}",
    )
    start = "start-up not counted" if start_s is None else f"after {start_s:.1f} s of start-up"
    table.add_row("wall clock", f"{summary['wall_s']:.1f} s for {summary['rounds']} rounds, {start}")
    if summary.get("connectivity"):
        table.add_row("graph", summary["connectivity"])
    for warning in summary["warnings"]:
        table.add_row("[yellow]warning[/]", warning)
    return table
