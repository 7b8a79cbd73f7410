"""`wirelessdl bench`."""

import json
from dataclasses import asdict

import click
from rich.console import Console
from rich.table import Table


@click.command(epilog="Example: wirelessdl bench --suite survival")
@click.option("--suite", default="survival", help="Which benchmarks; see docs/performance.md.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per result.")
def command(suite: str, as_json: bool) -> None:
    """Measure ratios side by side, and say which targets are met. Takes minutes; leave the machine alone."""
    from wirelessdl.errors import WirelessdlError, nearest
    from wirelessdl.experiments.bench import SUITES, run_suite

    if suite not in SUITES:
        raise WirelessdlError(f'--suite is "{suite}"; no such suite{nearest(suite, SUITES)}')
    console = Console(highlight=False, stderr=as_json)
    table = Table(box=None, pad_edge=False)
    for name in ("what", "ours", "other", "ratio", "target", ""):
        table.add_column(name, justify="left" if name in ("what", "target", "") else "right")
    with console.status("measuring"):
        for result in run_suite(suite):
            if as_json:
                click.echo(json.dumps(asdict(result)))
            table.add_row(
                result.name,
                f"{result.ours_s * 1e3:.3g} ms",
                f"{result.other_s * 1e3:.3g} ms",
                f"{result.ratio:.3f}",
                result.target,
                "[green]met[/]" if result.met else "[red]falls short[/]",
            )
    if not as_json:
        console.print(table)
