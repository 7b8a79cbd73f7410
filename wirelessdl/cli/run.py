"""`wirelessdl run`."""

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wirelessdl.cli.options import (
    PATH,
    ScenarioChoice,
    counted,
    facts_table,
    json_alone,
    scenario_options,
    warn_of_user_code,
    wide_console,
)
from wirelessdl.cli.progress import emit, run_listener, stopper_installed
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
    help="Log to stderr, e.g. sim=debug,channel=info; components sim, network, channel, power, privacy, phy, learning; "
    "wandb: the rounds table to Weights & Biases, offline.",
)
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per evaluation, then the summary.")
def command(
    chosen: ScenarioChoice,
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
    if chosen.scenario is None and resumed is None:
        raise click.UsageError("name a SCENARIO, or a run to --resume; `wirelessdl list` shows the bundled scenarios")
    if chosen.baseline is not None and chosen.scenario is None:
        raise click.UsageError("--baseline goes with a SCENARIO; a run that is resumed has its own")
    if force and resumed is None:
        raise click.UsageError("--force goes with --resume")
    if resumed is None:
        require_outside(out)
    console = wide_console(quiet=quiet or as_json)
    loaded = None if chosen.scenario is None else chosen.load()
    changes = () if loaded else chosen.changes
    done = 0
    if resumed is not None:
        from wirelessdl.run.resume import complete_finished, resumption

        going = resumption(resumed, scenario=loaded, overrides=changes)
        shown, done = going.scenario, going.done
        if going.finished:
            complete_finished(going.run)
            console.print(f"{resumed} is finished; --rounds extends it", markup=False, soft_wrap=True)
            if as_json:
                emit({"event": "summary", "path": str(resumed), **going.run.summary})
            return
        warn_of_user_code(shown, resumed)
    else:
        assert loaded is not None
        shown = loaded
    console.print(_headline(shown, done), soft_wrap=not console.is_terminal)
    with (
        stopper_installed() as stop,
        run_listener(console, done=done, rounds=shown.scenario.rounds, as_json=as_json) as listen,
        json_alone(as_json),
    ):
        from wirelessdl.run.session import (
            RunOptions,
            resume,
            simulate,
        )  # while it is shown: torch takes a second or two

        options = RunOptions(device, listen.on_round, listen.on_evaluation, stop.asked, log=log)
        try:
            if resumed is None:
                run = simulate(shown, options, out=out)
            else:
                run = resume(resumed, options, scenario=loaded, overrides=changes, force=force)
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
    console.print(facts_table(summary_rows(run.summary, start_s=start_s, transmits_only=transmits_only)))
    console.print(f"traces in {run.path}", soft_wrap=True, markup=False)


def _headline(loaded: "Scenario", done: int) -> str:
    section = loaded.scenario
    return (
        f"[bold]{section.name}[/]  seed {section.seed}, run {section.run}: {counted(loaded.network.nodes, 'node')}, "
        f"{section.rounds} rounds{f', continuing after round {done}' if done else ''}, "
        f"{loaded.privacy.protocol} protocol, {'nothing is sent' if loaded.silent else _target(loaded.privacy)}"
    )


def _target(privacy: "PrivacySection") -> str:
    """What is asked for, and against whom the totals hold that follow."""
    from wirelessdl.privacy.terms import adversary_in_short

    coalition = privacy.coalition if privacy.promised == "coalition" else None
    totals = f"totals against {adversary_in_short(coalition, declared=privacy.noise.is_user_class)}"
    if math.isfinite(privacy.epsilon_total):
        total = f"total epsilon {privacy.epsilon_total:g} ({privacy.adjacency}) at delta {privacy.delta_total:g}"
        return f"{total}; {totals}"
    return f"epsilon_max {privacy.epsilon_max:g} ({privacy.adjacency}) per slot; {totals}"


def summary_rows(
    summary: dict[str, Any], *, start_s: float | None = None, transmits_only: bool = False
) -> Iterator[tuple[str, str]]:
    """Final figures, in the words of the privacy table.

    start_s: what loading and building took, if known. transmits_only: whether receiving and computing cost nothing.
    """
    from wirelessdl.gaussian import exact_slot_epsilon
    from wirelessdl.privacy.terms import AMPLIFIED, NOBODY_SENDS, OUTSIDE, Proven, adversary, protected
    from wirelessdl.trace.catalog import headline
    from wirelessdl.units import prefixed

    low, high, adjacency = summary["accuracy_min"], summary["accuracy_max"], summary["adjacency"]
    yield "test accuracy", f"{summary['accuracy_mean']:.1%} mean, {low:.1%} to {high:.1%}"
    yield (
        "whole run",
        f"epsilon {float(headline(summary)):.3g} at delta {summary['delta_total']:g} for "
        f"{protected(summary.get('unit', 'sample'), adjacency)}, {summary['epsilon_status']}, against "
        f"{summary['adversary']}",
    )
    total = float(summary["epsilon_total"])
    if "epsilon_declared" in summary:
        stopped = summary["stopped"]
        rest = f"met in round {stopped}" if stopped else f"never met in {summary['rounds']} rounds"
        yield (
            "stopping rule",
            f"{rest}, where the running total (an odometer) is {total:.3g}; when it stops depends on data, so the "
            "figure above is that of all rounds declared",
        )
    if summary["epsilon_coalition_total"] is not None:
        other: Proven = "own" if summary["promised"] == "coalition" else "coalition"
        yield (
            "",
            f"epsilon {float(headline(summary, other)):.3g} ({adjacency}), {summary['epsilon_status']}, against "
            f"{adversary(other, summary['coalition'])}; pair ratio {summary['pair_ratio']:.3g}",
        )
    sends = summary["adversary"] != NOBODY_SENDS
    if sends and math.isfinite(total):
        yield "", OUTSIDE
    if summary["epsilon_link_total"] is not None and sends:
        slot, delta = float(summary["epsilon_link_max"]), summary["delta"]
        classic = f"; {slot:.3g} by Theorem 1" if slot < 1.0 else ""
        above = f"; {summary['violations']} above epsilon_max" if summary["violations"] else ""
        yield (
            "one slot, one receiver",
            f"epsilon {exact_slot_epsilon(slot, delta):.3g} ({adjacency}) at delta {delta:g}, worst link "
            f"(single-antenna receiver){classic}{above}",
        )
        if summary.get("amplified"):
            yield "", AMPLIFIED
        link_sum = float(summary["epsilon_link_total"])
        yield "whole run, link sum", f"epsilon {link_sum:.3g} ({adjacency}), the paper's sum, unproven"
    yield "simulated time", f"{summary['time_s']:.3f} s, {summary['airtime_s']:.3f} s on air"
    if "outage_rate" in summary:
        attempts, outage = summary["attempts_mean"], summary["outage_rate"]
        yield "messages", f"{attempts:.3g} attempts on average, {outage:.2%} of links in outage"
    without = ""
    if "server_members" in summary:
        members, sends, without = summary["server_members"], prefixed(summary["server_j"], "J"), " without the server"
        yield "server", f"{members:.3g} members per round; it sends {sends} per round, not in the energy"
    if "hubs" in summary:
        found = "none: no two nodes on air had a link of radio.truncate_snr_db or more in any round"
        if "disagreement" in summary:
            turns = summary["hubs"]
            found = (
                f"{turns:.3g} turn{'s' * (turns != 1)} per round{without}, {summary['disagreement']:.2g} of "
                f"disagreement left, {summary['uncollected']:.2g} nodes not collected"
            )
        yield "hubs", found
    energy = f"{prefixed(summary['energy_j'], 'J')} by {counted(summary['nodes'], 'node')}"
    yield "transmit energy" if transmits_only else "energy used", energy
    start = "start-up not counted" if start_s is None else f"after {start_s:.1f} s of start-up"
    yield "wall clock", f"{summary['wall_s']:.1f} s for {summary['rounds']} rounds, {start}"
    if summary.get("connectivity"):
        yield "graph", summary["connectivity"]
    for warning in summary["warnings"]:
        yield "[yellow]warning[/]", warning
