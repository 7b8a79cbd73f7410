"""`wirelessdl plan` and `wirelessdl check`: a preview of a scenario, without training."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from wirelessdl.cli.options import (
    PATH,
    OutputFile,
    ScenarioChoice,
    echo_json,
    facts_table,
    json_alone,
    plain_table,
    scenario_options,
    wide_console,
)
from wirelessdl.cli.progress import starting

if TYPE_CHECKING:
    from wirelessdl.power.joint import Forecast
    from wirelessdl.preview.plan import PlanPreview
    from wirelessdl.scenario.protection import PowerSection

_MAX_LISTED_NODES = 40
# attributes of a preview and of its plan that --json prints under their names
_PREVIEW_FACTS = (
    *("verdict", "noise_to_update", "noise_std", "node_noise_std", "sinr_db", "thermal_std", "receiver_ratio"),
    *("left_out", "violation_rate", "central"),
)
_PLAN_FACTS = (
    *("theta", "spectral_gap", "balance", "iterations", "alpha", "beta", "power_w", "backoff_db", "multiplier"),
    "epsilon_own",
)


@click.command(epilog="Example: wirelessdl check scenarios/urban_er_k20.toml --set network.nodes=30")
@scenario_options()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def check(chosen: ScenarioChoice, as_json: bool) -> None:
    """Check SCENARIO, with its parts, data, gains and power plan, and print what would run. Writes nothing."""
    loaded = chosen.load()
    with json_alone(as_json), starting():
        from wirelessdl.preview import cancelling, describe
        from wirelessdl.preview.plan import preview_plan
        from wirelessdl.run.build import build
        from wirelessdl.run.warnings import scenario_warnings

        world = build(loaded, device="cpu")
        facts = describe(world)
        found = preview_plan(world)
        facts |= cancelling(found, loaded.power)
        facts["verdict"] = "; ".join(found.verdict)
        for number, warning in enumerate([*scenario_warnings(world), *world.channel.warnings]):
            facts["warning" if not number else f"warning {number + 1}"] = warning
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    console = wide_console()
    console.print(f"[bold]{loaded.scenario.name}[/]: OK")
    console.print(facts_table(facts.items()))


@click.command(epilog="Example: wirelessdl plan scenarios/urban_er_k20.toml --figure plan.pdf")
@scenario_options()
@click.option("--figure", type=PATH, help="Draw the plan into this file (.pdf, .png, .svg).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(chosen: ScenarioChoice, figure: Path | None, as_json: bool) -> None:
    """Print the power split of SCENARIO, its one-slot epsilons and a forecast of training. Trains nothing."""
    loaded = chosen.load()
    drawn = None if figure is None else OutputFile(figure, loaded)
    with json_alone(as_json), starting():
        from wirelessdl.preview.plan import preview_plan
        from wirelessdl.run.build import build

        found = preview_plan(build(loaded, device="cpu"))
    if drawn is not None:
        from wirelessdl.preview.figures import draw_plan

        draw_plan(found, loaded.scenario.name, drawn.path)
    if as_json:
        echo_json(facts(found))
        return
    console = wide_console()
    console.print(f"[bold]{loaded.scenario.name}[/]")
    for line in found.verdict:
        console.print(f"  {line}", soft_wrap=not console.is_terminal)
    console.print()
    console.print(facts_table(_figures(found, loaded.power)))
    console.print()
    if found.terms.sends:
        console.print(_nodes(found))
    if figure is not None:
        console.print(f"figure in {figure}", soft_wrap=True)


def facts(found: "PlanPreview") -> dict[str, Any]:
    """The preview as values that `echo_json` takes; matrices are [rx][tx]."""
    plan = found.plan
    return {
        **{name: getattr(found, name) for name in _PREVIEW_FACTS},
        **{name: getattr(found.terms, name) for name in ("promised", "adversary", "adjacency")},
        "epsilon_max": plan.problem.epsilon_max,
        "epsilon_total": found.forecast,
        "epsilon_own_total": found.forecast_own,
        **{name: getattr(plan, name) for name in _PLAN_FACTS},
        "spectral_gap": plan.spectral_gap if found.carry is None or found.carry.weights is None else None,
        "pi": plan.perron,
        "epsilon_coalition": None if plan.coalition_share is None else plan.epsilon_coalition,
        "epsilon": plan.epsilon if found.terms.counts_links else None,
        "pairs": found.protection.facts(),
        "passes": None if found.passes is None else asdict(found.passes),
        "messages": None,
        **({} if found.carry is None else {found.carry.title: dict(found.carry.facts)}),
        "joint": None if found.joint is None else _forecast(found.joint.best),
    }


def _forecast(one: "Forecast") -> dict[str, float]:
    """Predicted variance per coordinate of a node's model, and the choice that it belongs to."""
    values = asdict(one)
    return {"pair_ratio": values.pop("ratio"), **values, "error": one.error}


def _figures(found: "PlanPreview", power: "PowerSection") -> Iterator[tuple[str, str]]:
    import numpy as np

    from wirelessdl.preview import cancelling, promise, totals
    from wirelessdl.privacy.terms import AMPLIFIED
    from wirelessdl.units import format_range

    plan, pi, backoff = found.plan, found.plan.perron, found.plan.backoff_db
    rows = cancelling(found, power)
    if "one slot" in rows:
        yield "guaranteed", promise(found.terms, found.privacy)
    yield from rows.items()
    if not found.terms.sends:
        yield "gradient multiplier", f"{plan.theta:.4g}"
        return
    why = f"minimum {len(pi)}" if plan.fixed is None else "as power.multiplier says"
    yield "gradient multiplier", f"{plan.theta:.4g} ({why})"
    yield "weight of a node", f"pi {format_range(pi)}"
    if found.carry is None or found.carry.weights is None:
        yield "spectral gap", f"{plan.spectral_gap:.3g}"
    ratio = f"{found.noise_to_update:.3g}x the update"
    yield "noise on the model", f"{found.noise_std:.3g} per coordinate in round 1, {ratio}"
    if found.central is not None:
        same = "epsilon_total" if np.isfinite(found.privacy.epsilon_total) else "epsilon_max"
        yield (
            "beside it",
            f"central-dp, a trusted holder of all data: {found.central:.3g}x at the same {same}; no-privacy: 0; "
            "local: 0, and every node has its own data alone",
        )
    if len(found.sinr_db) and np.isfinite(found.sinr_db).all():
        low, middle, high = np.min(found.sinr_db), np.median(found.sinr_db), np.max(found.sinr_db)
        yield "SINR of links", f"{low:.1f} to {high:.1f}, median {middle:.1f} dB at full power"
    if found.thermal_std:
        over = found.receiver_ratio
        share = f"; in the whole run {over:.3g}x the variance of privacy noise" if over else ""
        yield "receiver noise on it", f"{found.thermal_std:.3g} per coordinate in round 1{share}"
    if found.left_out:
        yield "links left out", f"{found.left_out:.1%} of receptions, below radio.truncate_snr_db"
    if plan.problem.private and len(plan.link_epsilon) and found.terms.counts_links:
        limit = f"epsilon_max {plan.problem.epsilon_max:g} (single-antenna receiver)"
        yield "one slot, one receiver", f"epsilon {plan.link_epsilon.max():.4g} at most by Theorem 1, {limit}"
        yield "one slot, own noise", f"epsilon {format_range(plan.epsilon_own)} by Theorem 1 (any eavesdropper)"
    if plan.problem.private and "whole run" not in rows:
        first = "; by the first frame's plan" if found.first_frame_only else ""
        first += f"; {AMPLIFIED}" if found.terms.amplified else ""
        yield "whole run, own noise", f"epsilon {totals(found.forecast)} for {found.terms.protects}{first}"
    if found.violation_rate is not None:
        yield "under fading", f"{found.violation_rate:.1%} of links above epsilon_max in frames not planned for"
    if backoff.max() > 0.005:
        yield "back-off", f"{backoff.min():.1f} to {backoff.max():.1f} dB below the power budget"


def _nodes(found: "PlanPreview") -> Table:
    plan = found.plan
    coalition = ("coalition",) if found.terms.coalition else ()
    width = 12 if coalition else 24
    names = ("node", "alpha", "", "noise", "own epsilon", *coalition, "pi", "back-off")
    table = plain_table(names, no_wrap=True)
    for node in range(min(len(plan.alpha), _MAX_LISTED_NODES)):
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
    if len(plan.alpha) > _MAX_LISTED_NODES:
        table.add_row("...", f"{len(plan.alpha) - _MAX_LISTED_NODES} more; --json has all")
    return table
