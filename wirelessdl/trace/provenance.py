"""The provenance of a run: versions, machine, command, code, and what Python handed in."""

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FunctionType
from typing import Any

import wirelessdl
from wirelessdl.scenario.objects import UserPart, source_text
from wirelessdl.scenario.part import UserFile
from wirelessdl.trace.schema import VERSION

_PACKAGES = ("numpy", "scipy", "torch", "simpy", "pandas", "pyarrow", "pydantic")


def provenance(*, device: str, threads: int, strategy: str, user_files: dict[str, str], folder: str) -> dict[str, Any]:
    """What decides whether another run must agree with this one, value for value."""
    return {
        "schema": VERSION,
        "python": platform.python_version(),
        **versions(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "device": device,
        "threads": threads,
        "strategy": strategy,
        "omp_wait_policy": os.environ.get("OMP_WAIT_POLICY"),
        "git": git_commit(),
        "command": [word.encode(errors="backslashreplace").decode() for word in sys.argv],  # of a script, any bytes
        "user_files": user_files,
        "folder": str(Path(folder).resolve()) if folder else "",
        "started": now(),
    }


def handed_in(
    objects: Mapping[str, UserPart], connect: Mapping[str, Callable[..., Any]]
) -> tuple[dict[str, Any], list[UserFile]]:
    """What the provenance says of parts and callbacks that Python handed in, and their sources, to be read only."""
    files: list[UserFile] = []

    def stored(name: str, text: str | None) -> str | None:
        if text is None:
            return None
        files.append(UserFile.made(name, text))
        return files[-1].stored_name

    parts, callbacks = {}, {}
    for where, given in objects.items():
        source = stored(given.file_name, given.source)
        parts[where] = {"class": given.class_name, "source": source, "resumes": not given.why, "why": given.why}
    for event, listener in connect.items():
        name = getattr(listener, "__qualname__", type(listener).__name__)
        text = source_text(listener if isinstance(listener, FunctionType) else type(listener))
        callbacks[event] = {"function": name, "source": stored(f"{name.rpartition('.')[2]}.py", text)}
    words = {"objects": parts, "callbacks": callbacks}
    return {key: given for key, given in words.items() if given}, files


def versions() -> dict[str, Any]:
    """Versions that two runs must share to agree value for value."""
    return {"wirelessdl": wirelessdl.__version__, "packages": {name: _version(name) for name in _PACKAGES}}


def now() -> str:
    """Time of day, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache  # packages do not change under a running process
def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def git_commit() -> str | None:
    """Commit of the checkout wirelessdl runs from, with '+' when it has changes."""
    root = Path(wirelessdl.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    try:
        described = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty=+"],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip()
