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
        from wirelessdl.trace.study import is_study, open_study

        for path in paths:
            for run in open_study(path).runs() if is_study(path) else [open_run(path)]:
                found = next(iter(problems_of(run)), None)
                if found is not None:
                    words = f"{shown(run.path)}: {found} (`wirelessdl verify` checks all of it)"
                    raise TraceError(words) from error
        raise


def reads_runs(function: F) -> F:
    """A command whose arguments `runs`, `run` or `audit` name run directories, or studies."""

    @functools.wraps(function)
    def command(*arguments: Any, **options: Any) -> Any:
        named = [options.get(name) for name in ("runs", "run", "audit")]
        paths = [path for one in named for path in (one if isinstance(one, tuple) else [one]) if path is not None]
        with reading(paths):
            result = function(*arguments, **options)
        for path in paths:
            _say_changes(path)
        return result

    return command  # type: ignore[return-value]


def _say_changes(path: Path) -> None:
    """A line for each document of a run that was edited: what was shown may rest on it."""
    from wirelessdl.trace.checksums import changed_documents
    from wirelessdl.trace.lock import is_locked

    if path.is_dir() and not (path / "study.json").is_file() and not is_locked(path):
        for line in changed_documents(path):
            click.echo(f"warning: {shown(path)}: {line}", err=True)


def one_study(paths: Sequence[Path]) -> bool:
    """Whether the one thing named is a study; several things of which one is a study are refused."""
    for path in paths:
        if (path / "index.parquet").is_file() and not (path / "study.json").is_file():
            raise TraceError(f"{shown(path)}: is a study whose study.json is missing; restore it")
    found = [path for path in paths if (path / "study.json").is_file()]
    if found and len(paths) > 1:
        raise click.UsageError(f"{shown(found[0])} is a study; name it alone, or name runs (they are in its runs/)")
    return bool(found)
