"""`make bench SUITE=NAME`: performance ratios beside their targets."""

import json
import math
from dataclasses import asdict

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.suites import SUITES, run_suite
from wirelessdl.errors import WirelessdlError, nearest
from wirelessdl.trace.files import plain

_VERDICTS = {True: "[green]met[/]", False: "[red]falls short[/]"}


@click.command(epilog="Example: make bench SUITE=survival")
@click.option(
    "--suite",
    default="survival",
    help="channel, network, engine, limit, noise, power, privacy, report, scale, study, survival or time; "
    "see docs/performance.md.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per result.")
def command(suite: str, as_json: bool) -> None:
    """Measure performance ratios and compare them with targets. Takes minutes; needs an otherwise idle machine."""
    if suite not in SUITES:
        raise WirelessdlError(f'--suite is "{suite}"; no such suite{nearest(suite, SUITES)}')
    console = Console(highlight=False, stderr=as_json)
    table = Table(box=None, pad_edge=False)
    for name in ("what", "ours", "other", "ratio", "target", ""):
        table.add_column(name, justify="right" if name in ("ours", "other", "ratio") else "left")
    with console.status("measuring"):
        for result in run_suite(suite):
            if as_json:
                click.echo(json.dumps(plain({"suite": suite, **asdict(result)}), allow_nan=False))
            table.add_row(
                result.name,
                _number(result.ours, result.unit),
                _number(result.other, result.unit),
                "" if math.isnan(result.ratio) else f"{result.ratio:.3f} ({1 / result.ratio:.3g}x the speed)",
                result.target,
                _VERDICTS[result.met] if result.met is not None else f"[yellow]{escape(result.note)}[/]",
            )
    if not as_json:
        console.print(table)


def _number(value: float, unit: str) -> str:
    if math.isnan(value):
        return ""
    return f"{value * 1e3:.3g} ms" if unit == "s" else f"{value:.3g} {unit}"


if __name__ == "__main__":
    try:
        command()
    except WirelessdlError as error:
        raise SystemExit(f"bench: {error}") from None
