"""`wirelessdl audit`."""

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from wirelessdl.cli.options import (
    ScenarioChoice,
    complete_scenario,
    echo_json,
    json_alone,
    plain_table,
    seed_option,
    set_option,
)

if TYPE_CHECKING:
    from wirelessdl.audit import AuditReport


@click.command(epilog="Example: wirelessdl audit quickstart --set learning.sampling=full --trials 4000")
@click.argument("scenario", shell_complete=complete_scenario)
@set_option
@seed_option
@click.option("--run", type=int, help="Run number: seed of fading, and of all trials.")
@click.option("--nodes", type=int, help="Number of nodes, instead of the scenario's.")
@click.option("--trials", type=int, default=4000, show_default=True, help="Runs of the engine, on either data set.")
@click.option("--rounds", type=int, default=20, show_default=True, help="First rounds of the scenario to attack.")
@click.option("--node", type=int, help="Node that holds the canary (default: the one with the largest total).")
@click.option(
    "--samples", type=int, help="Most samples that a node keeps (default: 64 with full batches, else about 4 batches)."
)
@click.option(
    "--coalition",
    type=int,
    help="Nodes that collude in the attack, where nodes share noise (default: as many as privacy.coalition).",
)
@click.option("--workers", type=int, default=lambda: os.cpu_count() or 1, help="Processes (default: one per core).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def command(
    scenario: str,
    overrides: tuple[str, ...],
    seed: int | None,
    run: int | None,
    nodes: int | None,
    as_json: bool,
    **attack: Any,
) -> None:
    """Attack SCENARIO: run its engine on two data sets that differ in one sample, and tell them apart by what is sent.

    First it checks conditions of the proof in the engine: what is sent and held depends on the sample by its charge
    only, noise has the declared covariance, mixing passes carry what was received. One line each, passed or refuted.

    For each view it prints the epsilon that the attack reached, a lower bound with 95% confidence, beside the epsilon
    that is proven. Exits with 1 where a check is refuted, or the attack exceeds the proof: then the engine does not do
    what is charged.
    """
    from wirelessdl.audit import AuditOptions, audit_scenario
    from wirelessdl.cli.progress import frames_bar

    given = overrides if nodes is None else (*overrides, f"network.nodes={nodes}")
    loaded = ScenarioChoice(scenario, None, given, seed, run, None).load()
    options = AuditOptions(**attack)
    with json_alone(as_json), frames_bar(options.trials, quiet=as_json) as advance:
        report = audit_scenario(loaded, options, advance)
    if as_json:
        echo_json(facts(report))
    else:
        _print(loaded.scenario.name, report, loaded.privacy.adjacency)
    if not report.sound:
        raise click.exceptions.Exit(1)


def facts(report: "AuditReport") -> dict[str, Any]:
    """The report as plain values, verdicts included."""
    views, checks = (
        [{**asdict(found), "sound": found.sound} for found in part] for part in (report.views, report.checks)
    )
    return {**asdict(report), "views": views, "checks": checks, "sound": report.sound}


def _print(name: str, report: "AuditReport", adjacency: str) -> None:
    console = Console(highlight=False)
    kept = f"{report.samples} of its {report.scenario_samples} samples"
    console.print(
        f"[bold]{name}[/]: {report.trials} trials of rounds 1 to {report.rounds}; node {report.node} keeps {kept}, "
        f"sampling rate {report.sampling_rate:.3g}",
        soft_wrap=True,
    )
    console.print(f"canary: {report.canary}, {report.reach:.1%} of the worst case", soft_wrap=True)
    for check in report.checks:
        verdict = "passed" if check.sound else "[red]refuted[/]"
        numbers = f"{check.measured:.3g}, allowed {check.allowed:.3g}"
        console.print(f"{verdict}: {check.name}: {numbers} ({check.words})", soft_wrap=True)
    word = "stated" if "not proven" in report.views[0].adversary else "proven"
    columns = ("view", "attack >=", f"{word} <=", "TPR", "FPR", "")
    table = plain_table(columns, left=("view", ""), no_wrap=True)
    for view in report.views:
        share = f"{view.attack / view.proven:.0%} of the proof" if view.sound else "[red]exceeds the proof[/]"
        rates = (f"{view.evidence.tpr:.3f}", f"{view.evidence.fpr:.3f}")
        table.add_row(f"{view.view}, all rounds", f"{view.attack:.3g}", f"{view.proven:.3g}", *rates, share)
    console.print(table)
    for view in report.views:
        if view.coalition is not None:
            members = ", ".join(map(str, view.coalition))
            console.print(f"coalition: {view.adversary}; in the attack: {members}", soft_wrap=True)
    if word == "stated":
        console.print(f"stated against {report.views[0].adversary}", soft_wrap=True)
    refuted = sum(not check.sound for check in report.checks)
    if report.sound:
        verdict = f"none exceeds what is {word}"
    elif all(view.sound for view in report.views):
        verdict = f"[red]{refuted} of {len(report.checks)} checks refuted: the proof does not hold[/]"
    else:
        verdict = "[red]the engine leaks more than is charged[/]"
    console.print(
        f"epsilon ({adjacency}) at delta {report.views[0].delta:g}; attacks are lower bounds at "
        f"{report.confidence:.0%} confidence; {verdict}",
        soft_wrap=True,
    )
