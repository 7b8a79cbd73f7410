"""`wirelessdl check`."""

import json

import click
from rich.console import Console
from rich.table import Table

from wirelessdl.cli.options import all_overrides, say_user_code, scenario_options
from wirelessdl.cli.output import json_alone


@click.command(epilog="Example: wirelessdl check scenarios/urban_er_k20.toml --set network.nodes=30")
@scenario_options()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def command(
    scenario: str,
    baseline: str | None,
    overrides: tuple[str, ...],
    seed: int | None,
    run_number: int | None,
    rounds: int | None,
    as_json: bool,
) -> None:
    """Check SCENARIO, with its parts, data, gains and power plan, and print what would run. Writes nothing."""
    from wirelessdl.preview.describe import describe
    from wirelessdl.preview.plan import preview_plan
    from wirelessdl.preview.words import cancelling
    from wirelessdl.run.build import build
    from wirelessdl.run.warnings import scenario_warnings
    from wirelessdl.scenario.loader import load_scenario

    loaded = load_scenario(scenario, overrides=all_overrides(overrides, seed, run_number, rounds), baseline=baseline)
    say_user_code(loaded)
    with json_alone(as_json):
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
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    for name, fact in facts.items():
        table.add_row(name, fact)
    console = Console(highlight=False)
    console.print(f"[bold]{loaded.scenario.name}[/] is fine")
    console.print(table)
