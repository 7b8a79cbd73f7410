"""Options that several commands share."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wirelessdl.errors import shown

if TYPE_CHECKING:
    from wirelessdl.scenario.schema import Scenario

F = TypeVar("F", bound=Callable[..., Any])
PATH = click.Path(path_type=Path, readable=False)  # whoever reads it says in one line that it cannot be read


def scenario_options(*, required: bool = True) -> Callable[[F], F]:
    """SCENARIO with --baseline, --set, --seed, --run, --rounds."""

    def decorated(function: F) -> F:
        return _decorate(function, required)

    return decorated


def _decorate(function: F, required: bool) -> F:
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
    from wirelessdl.trace.files import leaves

    return [
        str(value)
        for _, value in leaves(scenario.to_table())
        for value in (value if isinstance(value, list) else [value])
        if isinstance(value, str) and re.fullmatch(r".+\.\w+:\w+", value)
    ]
