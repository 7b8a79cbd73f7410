"""`wirelessdl plan`."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from wirelessdl.cli.options import PATH, OutputFile, all_overrides, reads_runs, say_user_code, scenario_options
from wirelessdl.cli.output import json_alone

if TYPE_CHECKING:
    from wirelessdl.power.joint import Forecast
    from wirelessdl.preview.plan import PlanPreview
    from wirelessdl.scenario.protection import PowerSection

_SHADES = " .:-=+*#@"
_MOST = 40  # nodes shown one by one


@click.command(epilog="Example: wirelessdl plan scenarios/urban_er_k20.toml --figure plan.pdf")
@scenario_options(required=False)
@click.option("--audit", type=PATH, help="Audit this finished run instead.")
@click.option("--receiver", type=int, help="With --audit: the receiver (default: the one with the most links).")
@click.option("--figure", type=PATH, help="Draw the plan into this file (.pdf, .png, .svg).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@reads_runs
def command(
    scenario: str | None,
    baseline: str | None,
    overrides: tuple[str, ...],
    seed: int | None,
    run_number: int | None,
    rounds: int | None,
    audit: Path | None,
    receiver: int | None,
    figure: Path | None,
    as_json: bool,
) -> None:
    """Print the power split of SCENARIO, its one-slot epsilons and a forecast of training. Trains nothing.

    --audit RUN reads a finished run instead. For one receiver and each sender it hears it prints a lower bound on
    the epsilon of everything received (reached by an example), the paper's sum over rounds and the proven upper
    bound.
    """
    if audit is not None:
        if scenario is not None or figure is not None:
            raise click.UsageError("--audit looks at a run alone; leave SCENARIO and --figure out")
        _audit(audit, receiver, as_json)
        return
    if receiver is not None:
        raise click.UsageError("--receiver goes with --audit")
    if scenario is None:
        raise click.UsageError("name a SCENARIO, or a run to --audit")
    from wirelessdl.preview.plan import preview_plan
    from wirelessdl.run.build import build
    from wirelessdl.scenario.loader import load_scenario

    drawn = None if figure is None else OutputFile(figure)
    loaded = load_scenario(scenario, overrides=all_overrides(overrides, seed, run_number, rounds), baseline=baseline)
    say_user_code(loaded)
    if drawn is not None:
        drawn.require_unread(loaded)
    with json_alone(as_json):
        world = build(loaded, device="cpu")
        if drawn is not None:
            drawn.require_unread(loaded, world.user_files)
        found = preview_plan(world)
    if drawn is not None:
        from wirelessdl.preview.plan_figure import draw_plan

        draw_plan(found, loaded.scenario.name, drawn.path)
    if as_json:
        from wirelessdl.trace.files import figures_text

        click.echo(figures_text(facts(found), indent=2))
        return
    console = Console(highlight=False)
    console.print(f"[bold]{loaded.scenario.name}[/]")
    for line in found.verdict:
        console.print(f"  {line}", soft_wrap=True)
    console.print()
    console.print(_figures(found, loaded.power))
    console.print()
    if found.terms.sends:
        console.print(_nodes(found))
    if len(found.plan.alpha) <= _MOST and found.plan.problem.private and found.terms.counts_links:
        console.print(_heat(found))
    if figure is not None:
        console.print(f"figure in {figure}", soft_wrap=True)


def _audit(path: Path, receiver: int | None, as_json: bool) -> None:
    from wirelessdl.analysis.audit import audit_run
    from wirelessdl.trace.files import figures_text
    from wirelessdl.trace.run import open_run

    found = audit_run(open_run(path), receiver)
    if as_json:
        click.echo(figures_text([asdict(audit) for audit in found], indent=2))
        return
    table = Table(box=None, pad_edge=False)
    for name in ("receiver", "sender", "audit >=", "proven <=", "sum over rounds", ""):
        table.add_column(name, justify="left" if not name else "right")
    for one in found:
        beyond = "masking does not add up" if one.attained > one.link_sum * (1 + 1e-9) else ""
        figures = (f"{value:.3g}" for value in (one.attained, one.proven, one.link_sum))
        table.add_row(str(one.rx), str(one.tx), *figures, beyond)
    console = Console(highlight=False)
    console.print(f"epsilon (replace-one) over {found[0].rounds} rounds, without amplification, no thermal noise")
    console.print(table)


def facts(found: "PlanPreview") -> dict[str, Any]:
    """The preview as plain values; matrices are [rx][tx]."""
    plan = found.plan
    return {
        "verdict": list(found.verdict),
        "theta": plan.theta,
        "spectral_gap": plan.spectral_gap,
        "noise_to_update": found.noise_to_update,
        "noise_std": found.noise_std,
        "sinr_db": found.sinr_db.tolist(),
        "thermal_std": found.thermal_std,
        "receiver_ratio": found.receiver_ratio,
        "left_out": found.left_out,
        "violation_rate": found.violation_rate,
        "promised": found.terms.promised,
        "adversary": found.terms.adversary,
        "adjacency": found.terms.adjacency,
        "epsilon_max": plan.problem.epsilon_max,
        "epsilon_total": found.forecast,
        "epsilon_own_total": found.forecast_own,
        "balance": plan.balance,
        "iterations": plan.iterations,
        "alpha": plan.alpha.tolist(),
        "beta": plan.beta.tolist(),
        "power_w": plan.power_w.tolist(),
        "backoff_db": plan.backoff_db.tolist(),
        "pi": plan.perron.tolist(),
        "multiplier": plan.multiplier.tolist(),
        "node_noise_std": found.node_noise_std.tolist(),
        "epsilon_own": plan.epsilon_own.tolist(),
        "epsilon_coalition": None if plan.coalition_share is None else plan.epsilon_coalition.tolist(),
        "epsilon": plan.epsilon.tolist() if found.terms.counts_links else None,
        "pairs": found.protection.facts(),
        "passes": None if found.passes is None else asdict(found.passes),
        "messages": None if found.carry is None else dict(found.carry.facts),
        "joint": None if found.joint is None else _forecast(found.joint.best),
        "trade": [{"passes": passes, **_forecast(one)} for passes, row in found.trade for one in row],
    }


def _forecast(one: "Forecast") -> dict[str, float]:
    """Predicted variance per coordinate of a node's model, and the choice that it belongs to."""
    return {
        "pair_ratio": one.ratio,
        "exponent": one.exponent,
        "mean": one.mean,
        "apart": one.apart,
        "error": one.error,
        "alpha": one.alpha,
    }


def _figures(found: "PlanPreview", power: "PowerSection") -> Table:
    from wirelessdl.preview.words import cancelling, promise, totals
    from wirelessdl.privacy.terms import AMPLIFIED

    plan = found.plan
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    pi = plan.perron
    promised = plan.problem.epsilon_max
    backoff = plan.backoff_db
    rows = cancelling(found, power)
    if "one slot" in rows:
        table.add_row("promised", promise(found.terms, found.privacy))
    for name, words in rows.items():
        table.add_row(name, words)
    if not found.terms.sends:
        table.add_row("gradient multiplier", f"{plan.theta:.4g}")
        return table
    why = f"least possible: {len(pi)}" if plan.fixed is None else "as power.multiplier says"
    table.add_row("theta", f"{plan.theta:.4g} ({why})")
    table.add_row("weight of a node", f"pi {pi.min():.3g} to {pi.max():.3g}")
    table.add_row("spectral gap", f"{plan.spectral_gap:.3g}")
    ratio = f"{found.noise_to_update:.3g}x the update"
    table.add_row("noise on the model", f"{found.noise_std:.3g} per coordinate in round 1, {ratio}")
    if len(found.sinr_db) and np.isfinite(found.sinr_db).all():
        low, middle, high = np.min(found.sinr_db), np.median(found.sinr_db), np.max(found.sinr_db)
        table.add_row("SINR of links", f"{low:.1f} to {high:.1f}, median {middle:.1f} dB at full power")
    if found.thermal_std:
        over = found.receiver_ratio
        share = f"; in the whole run {over:.3g}x the variance of privacy noise" if over else ""
        table.add_row("receiver noise on it", f"{found.thermal_std:.3g} per coordinate in round 1{share}")
    if found.left_out:
        table.add_row("links left out", f"{found.left_out:.1%} of receptions, below radio.truncate_snr_db")
    if plan.problem.private and len(plan.link_epsilon) and found.terms.counts_links:
        table.add_row(
            "one slot, one receiver",
            f"epsilon {plan.link_epsilon.max():.4g} at most by Theorem 1, epsilon_max {promised:g} (one antenna, in "
            "phase)",
        )
        table.add_row(
            "one slot, own noise",
            f"epsilon {plan.epsilon_own.min():.3g} to {plan.epsilon_own.max():.3g} by Theorem 1 (whoever listens)",
        )
    if plan.problem.private and "whole run" not in rows:
        first = "; by the first frame's plan" if found.first_frame_only else ""
        first += f"; {AMPLIFIED}" if found.terms.amplified else ""
        table.add_row("whole run, own noise", f"epsilon {totals(found.forecast)} for {found.terms.protects}{first}")
    if found.violation_rate is not None:
        table.add_row(
            "under fading", f"{found.violation_rate:.1%} of links above epsilon_max in frames not planned for"
        )
    if backoff.max() > 0.005:
        table.add_row("back-off", f"{backoff.min():.1f} to {backoff.max():.1f} dB below the power budget")
    return table


def _nodes(found: "PlanPreview") -> Table:
    plan = found.plan
    table = Table(box=None, pad_edge=False)
    coalition = ("coalition",) if found.terms.coalition else ()
    width = 12 if coalition else 24
    for name in ("node", "alpha", "", "noise", "own epsilon", *coalition, "pi", "back-off"):
        table.add_column(name, justify="left" if not name else "right", no_wrap=True)
    for node in range(min(len(plan.alpha), _MOST)):
        filled = round(width * plan.alpha[node])
        table.add_row(
            f"{node}",
            f"{plan.alpha[node]:.3f}",
            f"[blue]{'█' * filled}[/][yellow]{'░' * (width - filled)}[/]",
            f"{found.node_noise_std[node]:.3g}",
            f"{plan.epsilon_own[node]:.3g}",
            *([f"{plan.epsilon_coalition[node]:.3g}"] if coalition else []),
            f"{plan.perron[node]:.3f}",
            f"{plan.backoff_db[node]:.1f} dB",
        )
    if len(plan.alpha) > _MOST:
        table.add_row("...", f"{len(plan.alpha) - _MOST} more; --json has all")
    return table


def _heat(found: "PlanPreview") -> str:
    plan = found.plan
    lines = [f"\none slot, receiver down, sender across ('{_SHADES[1]}' little to '{_SHADES[-1]}' epsilon_max)"]
    for node, row in enumerate(plan.epsilon):
        cells = [_shade(value / plan.problem.epsilon_max) for value in row]
        lines.append(f"{node:>4}  " + " ".join(cells))
    return "\n".join(lines)


def _shade(share: float) -> str:
    if share != share:  # no link
        return " "
    return _SHADES[1 + min(int(share * (len(_SHADES) - 1)), len(_SHADES) - 2)]
