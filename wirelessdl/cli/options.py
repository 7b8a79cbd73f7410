"""Shared by commands: scenario options, runs that are named, files that are written, tables."""

import functools
import re
import sys
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

import click
from rich.console import Console
from rich.table import Table

from wirelessdl.errors import ScenarioError, TraceError, WirelessdlError, quote
from wirelessdl.trace.files import StablePath, leaves, require_outside

if TYPE_CHECKING:
    from wirelessdl.scenario.schema import Scenario

F = TypeVar("F", bound=Callable[..., Any])
PATH = click.Path(path_type=Path, readable=False)  # whoever reads it says in one line that it cannot be read


def complete_scenario(_context: Any, _parameter: Any, begun: str) -> list[Any]:
    """For the shell: bundled scenarios and TOML files of this folder; where none begins so, any path."""
    from click.shell_completion import CompletionItem

    from wirelessdl.scenario.loader import bundled_scenarios

    names = sorted({*bundled_scenarios(), *map(str, Path().glob("*.toml"))})
    return [name for name in names if name.startswith(begun)] or [CompletionItem(begun, type="file")]


def complete_baseline(_context: Any, _parameter: Any, begun: str) -> list[str]:
    """For the shell: names of baselines."""
    from wirelessdl.scenario.overrides import BASELINES

    return [name for name in BASELINES if name.startswith(begun)]


def complete_key(_context: Any, _parameter: Any, begun: str) -> list[str]:
    """For the shell: keys of a scenario, `section.key=`."""
    from wirelessdl.scenario.schema import Scenario

    sections: dict[str, Any] = {name: field.annotation for name, field in Scenario.model_fields.items()}
    keys = [f"{section}.{key}=" for section, keys in sections.items() for key in keys.model_fields]
    return [key for key in keys if key.startswith(begun)]


@dataclass(frozen=True)
class ScenarioChoice:
    """SCENARIO with --baseline, --set, --seed, --run, --rounds, as given."""

    scenario: str | None
    baseline: str | None
    overrides: tuple[str, ...]
    seed: int | None
    run: int | None
    rounds: int | None

    @property
    def changes(self) -> list[str]:
        """--set and the short options as one list; the short ones win."""
        short = {key: getattr(self, key) for key in ("seed", "run", "rounds")}
        return [*self.overrides, *(f"scenario.{key}={value}" for key, value in short.items() if value is not None)]

    def load(self) -> "Scenario":
        """The scenario; says on stderr if it executes code from elsewhere."""
        from wirelessdl.scenario.loader import load_scenario

        assert self.scenario is not None
        loaded = load_scenario(self.scenario, overrides=self.changes, baseline=self.baseline)
        warn_of_user_code(loaded)
        return loaded


set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="SECTION.KEY=VALUE",
    shell_complete=complete_key,
    help="Override a key of the scenario; repeatable.",
)
seed_option = click.option("--seed", type=int, help="Seed of placement, topology, partition and initial weights.")
_SCENARIO_OPTIONS = (
    click.option(
        "--baseline",
        metavar="NAME",
        shell_complete=complete_baseline,
        help="Run a baseline of the scenario instead: local, central, central-dp, d-psgd, no-privacy, own-noise, tdma, "
        "server or digital; --set comes after it.",
    ),
    set_option,
    seed_option,
    click.option("--run", type=int, help="Run number: seed of fading, batches, noise and faults."),
    click.option("--rounds", type=int, help="Number of rounds."),
)


def scenario_options(*, required: bool = True) -> Callable[[F], F]:
    """SCENARIO and its options, handed to the command as one `chosen`."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def command(**options: Any) -> Any:
            given = {field.name: options.pop(field.name) for field in fields(ScenarioChoice)}
            return function(chosen=ScenarioChoice(**given), **options)

        for option in reversed(
            (click.argument("scenario", required=required, shell_complete=complete_scenario), *_SCENARIO_OPTIONS)
        ):
            command = option(command)
        return command  # type: ignore[return-value]

    return decorate


def warn_of_user_code(scenario: "Scenario", run: Path | None = None) -> None:
    """On stderr: which Python files a scenario from elsewhere will execute. run: the run directory that is resumed."""
    from wirelessdl.scenario.loader import share_folder

    home = (run or Path(scenario.folder or ".")).resolve()
    if home.is_relative_to(Path.cwd().resolve()) or home.is_relative_to(share_folder().resolve()):
        return
    named = [text for text in _texts(scenario) if re.fullmatch(r".+\.\w+:\w+", text)]  # file.py:Class
    files = sorted({name.rpartition(":")[0] for name in named})
    if files:
        click.echo(
            f"{quote(home)} is outside of the working folder, and its scenario executes Python code: "
            f"{quote(', '.join(files))}; run only scenarios that you trust",
            err=True,
        )


def _texts(scenario: "Scenario") -> list[str]:
    """Every text among the values of a scenario."""
    values = [value if isinstance(value, list) else [value] for _, value in leaves(scenario.to_table())]
    return [text for value in values for text in value if isinstance(text, str)]


def reads_runs(function: F) -> F:
    """A command that only looks at runs or studies, which its arguments `runs`, `run` or `audit` name.

    An unexpected error becomes one line if a run is at fault; if all are sound, it is ours and shows itself. Documents
    of a run that were edited get a warning each: what was shown may rest on them.
    """

    @functools.wraps(function)
    def command(*arguments: Any, **options: Any) -> Any:
        named = [options.get(name) for name in ("runs", "run", "audit")]
        paths = [path for one in named for path in (one if isinstance(one, tuple) else [one]) if path is not None]
        try:
            result = function(*arguments, **options)
        except (WirelessdlError, click.ClickException, click.exceptions.Exit):
            raise
        except Exception:
            _require_sound(paths)
            raise
        from wirelessdl.trace.files import is_locked
        from wirelessdl.trace.sink import changed_documents

        for path in paths:
            if path.is_dir() and not (path / "study.json").is_file() and not is_locked(path):
                for line in changed_documents(path):
                    click.echo(f"warning: {quote(path)}: {line}", err=True)
        return result

    return command  # type: ignore[return-value]


def _require_sound(paths: Sequence[Path]) -> None:
    from wirelessdl.trace.run import open_run
    from wirelessdl.trace.schema import TABLES
    from wirelessdl.trace.soundness import require_sound
    from wirelessdl.trace.study import is_study, open_study

    for path in paths:
        for run in open_study(path).runs() if is_study(path) else [open_run(path)]:
            require_sound(run, TABLES)


def one_study(paths: Sequence[Path]) -> bool:
    """Whether the one thing named is a study; several things of which one is a study are refused."""
    for path in paths:
        if (path / "index.parquet").is_file() and not (path / "study.json").is_file():
            raise TraceError(f"{quote(path)}: is a study whose study.json is missing; restore it")
    found = [path for path in paths if (path / "study.json").is_file()]
    if found and len(paths) > 1:
        raise click.UsageError(f"{quote(found[0])} is a study; name it alone, or name runs (they are in its runs/)")
    return bool(found)


class OutputFile(StablePath):
    """A file that a command writes after the user's code ran, which may change the working folder: in no run, and no
    file that the scenario reads."""

    def __init__(self, named: Path, scenario: "Scenario"):
        from wirelessdl.scenario.loader import catalog_for

        require_outside(named)
        super().__init__(named)
        texts = [text for text in _texts(scenario) if "\0" not in text]
        if named.resolve() in ((folder / text).resolve() for folder in catalog_for(scenario).folders for text in texts):
            raise ScenarioError(f"{quote(named)}: is read by {quote(scenario.origin)}; choose another file to write")


def facts_table(rows: Iterable[tuple[str, str]]) -> Table:
    """Names, and a fact beside each."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    for row in rows:
        table.add_row(*row)
    return table


def plain_table(names: Iterable[str], left: Container[str] = ("",), **column: Any) -> Table:
    """A table without lines, its columns to the right but those named in left."""
    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name, justify="left" if name in left else "right", **column)
    return table


def wide_console(width: int = 200, *, quiet: bool = False) -> Console:
    """A terminal has a width; what a pipe or a file gets is at least this wide, so that nothing is cut or folded."""
    console = Console(highlight=False, quiet=quiet)
    if not console.is_terminal:
        console.width = max(console.width, width)
        console.file = cast(IO[str], _Trimmed(console.file))
    return console


class _Trimmed:
    """A stream whose lines end without the blanks that fill a table's cells."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return self._stream.write(re.sub(r" +(?=\n)", "", text))


def json_alone(as_json: bool) -> AbstractContextManager[Any]:
    """Where results are JSON, whatever the user's code prints meanwhile goes to standard error."""
    return redirect_stdout(sys.stderr) if as_json else nullcontext()


def echo_json(content: Any, indent: int | None = 2) -> None:
    from wirelessdl.trace.files import figures_text

    click.echo(figures_text(content, indent=indent))


def counted(count: int, word: str) -> str:
    """1 node, 2 nodes."""
    return f"{count} {word}{'s' * (count != 1)}"


def parse_link(text: str, option: str) -> tuple[int, int]:
    """Sender and receiver of TX-RX."""
    tx, _, rx = text.strip().partition("-")
    if not (tx.isdecimal() and rx.isdecimal() and max(len(tx), len(rx)) < 10):
        raise click.UsageError(f"{option} has {quote(text)!r}; must be sender and receiver, such as 0-3")
    return int(tx), int(rx)
