"""`wirelessdl check`."""

import json

import click
from rich.console import Console
from rich.table import Table

from wirelessdl.cli.options import all_overrides, scenario_options


@click.command(epilog="Example: wirelessdl check scenarios/urban_er_k20.toml --set network.nodes=30")
@scenario_options()
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
def command(
    scenario: str,
    overrides: tuple[str, ...],
    seed: int | None,
    run_number: int | None,
    rounds: int | None,
    as_json: bool,
) -> None:
    """Check SCENARIO whole, parts, data, gains and power plan included, and say what would run. Nothing is written."""
    from wirelessdl.scenario.loader import load_scenario
    from wirelessdl.sim.build import build
    from wirelessdl.sim.cautions import cautions
    from wirelessdl.sim.describe import describe
    from wirelessdl.sim.preview import preview

    loaded = load_scenario(scenario, overrides=all_overrides(overrides, seed, run_number, rounds))
    world = build(loaded, device="cpu")
    facts = describe(world)
    facts["verdict"] = "; ".join(preview(world).verdict)
    for number, caution in enumerate(cautions(world)):
        facts["caution" if not number else f"caution {number + 1}"] = caution
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    for name, fact in facts.items():
        table.add_row(name, fact)
    console = Console(highlight=False)
    console.print(f"[bold]{loaded.scenario.name}[/] is fine")
    console.print(table)
