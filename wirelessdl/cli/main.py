"""`wirelessdl`: the commands, loaded lazily so that --help and --version answer at once."""

import sys
from importlib import import_module

import click

import wirelessdl
from wirelessdl.errors import WirelessdlError

_COMMANDS = {
    "run": "Run a scenario: TOML in, Parquet out.",
    "check": "Check a scenario and say what would run.",
    "plan": "How power is split, what a slot leaks, and whether it will train.",
    "channel": "What the air will be: link statistics, figure, export; no training.",
    "report": "One HTML file of a run, or of several: map, curves, privacy, power, air.",
    "plot": "A figure for a paper from one run, or the mean of several.",
    "compare": "Differing keys and final figures of runs, side by side.",
    "list": "List scenarios, models, channels and data sets; or runs and how they stand.",
    "data": "Fetch published data sets, and list what is there.",
    "schema": "Print the JSON Schema of scenarios, for editors.",
    "bench": "Measure ratios side by side, and say which targets are met.",
}


class LazyGroup(click.Group):
    """Knows its commands by name and one line; imports a module only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"wirelessdl.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS:
            from wirelessdl.errors import nearest

            ctx.fail(f"no command {args[0]!r}{nearest(args[0], _COMMANDS)}")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(wirelessdl.__version__, prog_name="wirelessdl")
def cli() -> None:
    """Wireless co-simulation of private, over-the-air decentralized learning.

    \b
    Example:
      wirelessdl run scenarios/urban_er_k20.toml
    """


def main() -> None:
    """Entry point: a mistake of the input is one line and exit code 2; a bug of ours shows itself."""
    try:
        cli()
    except WirelessdlError as error:
        click.echo(f"{type(error).__name__}: {' '.join(str(error).splitlines())}", err=True)
        sys.exit(2)
