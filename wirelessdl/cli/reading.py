"""Commands that only look at runs: what a damaged or hostile run makes them stumble over becomes one line."""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from wirelessdl.errors import TraceError, WirelessdlError, shown

F = TypeVar("F", bound=Callable[..., Any])


@contextmanager
def reading(paths: Sequence[Path]) -> Iterator[None]:
    """Turn an unexpected error into one line if a run is at fault; if all are sound, it is ours and shows itself."""
    try:
        yield
    except (WirelessdlError, click.ClickException, click.exceptions.Exit):
        raise
    except Exception as error:
        from wirelessdl.trace.run import open_run
        from wirelessdl.trace.soundness import problems_of

        for path in paths:
            found = next(iter(problems_of(open_run(path))), None)
            if found is not None:
                words = f"{shown(path)}: {found} (`wirelessdl verify` checks all of it)"
                raise TraceError(words) from error
        raise


def reads_runs(function: F) -> F:
    """A command whose arguments `runs`, `run` or `audit` name run directories."""

    @functools.wraps(function)
    def command(*arguments: Any, **options: Any) -> Any:
        named = [options.get(name) for name in ("runs", "run", "audit")]
        paths = [path for one in named for path in (one if isinstance(one, tuple) else [one]) if path is not None]
        with reading(paths):
            return function(*arguments, **options)

    return command  # type: ignore[return-value]
