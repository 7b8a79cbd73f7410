"""What several commands share: options of a scenario, runs that are named, files that are written."""

import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wirelessdl.errors import ScenarioError, TraceError, WirelessdlError, shown
from wirelessdl.trace.files import StablePath, leaves, require_outside

if TYPE_CHECKING:
    from wirelessdl.scenario.part import UserFile
    from wirelessdl.scenario.schema import Scenario

F = TypeVar("F", bound=Callable[..., Any])
PATH = click.Path(path_type=Path, readable=False)  # whoever reads it says in one line that it cannot be read


def scenario_options(*, required: bool = True) -> Callable[[F], F]:
    """SCENARIO with --baseline, --set, --seed, --run, --rounds."""
    return functools.partial(_decorate, required=required)


def _decorate(function: F, *, required: bool) -> F:
    for decorate in reversed(
        [
            click.argument("scenario", required=required),
            click.option(
                "--baseline",
                metavar="NAME",
                help="Run a baseline of the scenario instead: local, central, d-psgd, no-privacy, own-noise, tdma "
                "or digital; --set comes after it.",
            ),
            click.option(
                "--set",
                "overrides",
                multiple=True,
                metavar="SECTION.KEY=VALUE",
                help="Override a key of the scenario; repeatable.",
            ),
            click.option("--seed", type=int, help="Seed of placement, topology, partition and initial weights."),
            click.option(
                "--run", "run_number", type=int, help="Run number: seed of fading, batches, noise and faults."
            ),
            click.option("--rounds", type=int, help="Number of rounds."),
        ]
    ):
        function = decorate(function)
    return function


def all_overrides(
    overrides: tuple[str, ...], seed: int | None, run_number: int | None, rounds: int | None
) -> list[str]:
    """--set and the short options as one list; the short ones win."""
    short = {"scenario.seed": seed, "scenario.run": run_number, "scenario.rounds": rounds}
    return [*overrides, *(f"{key}={value}" for key, value in short.items() if value is not None)]


def say_user_code(scenario: "Scenario", run: Path | None = None) -> None:
    """On stderr: which Python files a scenario from elsewhere will execute. run: the run directory that is resumed."""
    from wirelessdl.scenario.loader import share_folder

    home = (run or Path(scenario.folder or ".")).resolve()
    if home.is_relative_to(Path.cwd().resolve()) or home.is_relative_to(share_folder().resolve()):
        return
    files = sorted({name.rpartition(":")[0] for name in user_classes(scenario)})
    if files:
        click.echo(
            f"{shown(home)} is outside of the working folder, and its scenario executes Python code: "
            f"{shown(', '.join(files))}; run only scenarios that you trust",
            err=True,
        )


def user_classes(scenario: "Scenario") -> list[str]:
    """Every `file.py:Class` that a scenario names."""
    return [
        str(value)
        for _, value in leaves(scenario.to_table())
        for value in (value if isinstance(value, list) else [value])
        if isinstance(value, str) and re.fullmatch(r".+\.\w+:\w+", value)
    ]


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
                    click.echo(f"warning: {shown(path)}: {line}", err=True)
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
            raise TraceError(f"{shown(path)}: is a study whose study.json is missing; restore it")
    found = [path for path in paths if (path / "study.json").is_file()]
    if found and len(paths) > 1:
        raise click.UsageError(f"{shown(found[0])} is a study; name it alone, or name runs (they are in its runs/)")
    return bool(found)


class OutputFile:
    """A file that a command writes after the user's code ran: in no run, none of a study's own, nothing that is read.

    The user's code may have changed the working folder: `path` leads to the file all the same.
    """

    def __init__(self, named: Path):
        require_outside(named)
        self._named, self._stable = named, StablePath(named)

    @property
    def path(self) -> Path:
        return self._stable.path

    def require_unread(self, scenario: "Scenario", loaded: "Iterable[UserFile] | None" = None) -> None:
        """Raise where a scenario names it among its data, or a folder that it lies in; or among code that was loaded.

        The first is asked before any code of the user's runs, the second after it.
        """
        whole, here = self.path.resolve(), Path.cwd().resolve()
        for read in _data(scenario) if loaded is None else (file.path.resolve() for file in loaded):
            # a folder that holds the working folder, such as "/", is no data set
            within = whole.is_relative_to(read) and os.path.isdir(read) and not here.is_relative_to(read)
            if whole == read or within:
                where = "is" if whole == read else f"lies in {shown(read)}, which is"
                raise ScenarioError(
                    f"{shown(self._named)}: {where} read by {shown(scenario.origin)}; choose another file to write"
                )


def _data(scenario: "Scenario") -> Iterator[Path]:
    """Every place that a text among the parameters of parts may stand for."""
    from wirelessdl.scenario.loader import catalog_for

    folders = catalog_for(scenario).folders
    for key, value in leaves(scenario.to_table()):
        if key.count(".") < 2 or key.endswith((".kind", ".model")):  # names of parts, no files
            continue
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and text and "\0" not in text:
                yield from ((folder / text).resolve() for folder in folders)
