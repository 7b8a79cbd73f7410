"""Options that several commands share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def scenario_options(*, required: bool = True) -> Callable[[F], F]:
    """SCENARIO with --set, --seed, --run, --rounds."""

    def decorated(function: F) -> F:
        return _decorate(function, required)

    return decorated


def _decorate(function: F, required: bool) -> F:
    for decorate in reversed(
        [
            click.argument("scenario", required=required),
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
