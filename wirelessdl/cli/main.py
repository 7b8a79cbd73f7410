"""`wirelessdl`: the commands, loaded lazily so that --help and --version answer at once."""

import errno
import gc
import io
import os
import sys
from contextlib import suppress
from importlib import import_module

import click

import wirelessdl
from wirelessdl.errors import NOT_UTF8, ScenarioError, WirelessdlError, is_utf8, nearest, quote

_COMMANDS = {
    "run": "Run a scenario and write its tables as Parquet.",
    "sweep": "Run a scenario with many values, seeds and runs; or a study file.",
    "reproduce": "Run the study behind a figure of the paper; or a study file, with figures.",
    "check": "Check a scenario and print what would run.",
    "plan": "Print the power split, one-slot epsilons and a forecast of training.",
    "audit": "Check a scenario's engine, attack it with a canary, compare with the proof.",
    "channel": "Print link statistics of every frame; draw or export gains.",
    "report": "Write one HTML file of one or several runs, or of a study.",
    "watch": "Serve the report of a run to this machine's browser while the run goes on.",
    "plot": "Draw a figure for a paper, of runs or of a study, with 95% bands.",
    "compare": "Print runs side by side, and paired differences of runs or of a study.",
    "verify": "Check that a run holds what was written, and that its numbers agree.",
    "list": "List scenarios and parts; or the runs and studies of a folder with their state.",
    "data": "Fetch and list published data sets.",
    "schema": "Print the JSON Schema of scenario files, for editors.",
}

_MODULES = {"check": "plan", "schema": "list", "verify": "report"}  # of commands that have none of their own


class LazyGroup(click.Group):
    """Knows its commands by name and one line; imports a module only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"wirelessdl.cli.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, cmd_name if cmd_name in _MODULES else "command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS:
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
    gc.set_threshold(100_000, *gc.get_threshold()[1:])  # imports make much and drop little: a sixth of their time
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what the encoding lacks is escaped
    try:
        _require_folder()
        for word in sys.argv[1:]:
            if not is_utf8(word):
                raise ScenarioError(f"{quote(word)}: {NOT_UTF8}")
        if "_WIRELESSDL_COMPLETE" in os.environ:
            _complete_keys_without_a_blank()
        cli()
    except WirelessdlError as error:
        line = f"{type(error).__name__}: {quote(' '.join(str(error).splitlines()), 4000)}"
    except OSError as error:
        if isinstance(error, PermissionError):  # a file of another user: no mistake of ours, wherever it was met
            line = (
                f"{quote(error.filename, 4000)}: permission denied; it belongs to another user, or its mode forbids it"
            )
        elif error.errno == errno.ENAMETOOLONG:
            line = f"{quote(error.filename)}: the name is too long for a file; name another"
        elif error.filename is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what is buffered, when Python ends
            line = f"standard output: {error.strerror}"
        else:
            raise
        line = f"{type(error).__name__}: {line}"
    with suppress(OSError):
        click.echo(line, err=True)
    sys.exit(2)


def _complete_keys_without_a_blank() -> None:
    """A value follows the sign behind a key: Bash would put a blank there."""
    from click.shell_completion import BashComplete, add_completion_class

    class Bash(BashComplete):
        source_template = BashComplete.source_template.replace(
            "COMPREPLY+=($value)", "COMPREPLY+=($value)\n            [[ $value == *= ]] && compopt -o nospace"
        )

    add_completion_class(Bash)


def _require_folder() -> None:
    """Raise where the working folder is gone: no relative path leads anywhere, and torch ends the process."""
    try:
        os.getcwd()
    except OSError:
        raise ScenarioError("the working folder is not there any more; change to one that is") from None
