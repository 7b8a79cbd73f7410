"""Results of benchmarks over time: one JSON object per line, and what changed since.

A line holds the result, its suite, when it was measured, and what the numbers depend on: version, code, processor,
threads. Ratios of one machine can be compared over time; seconds of a shared machine cannot.
"""

import json
import math
import os
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import wirelessdl
from bench.suites import Result
from wirelessdl.errors import TraceError, WirelessdlError, shown
from wirelessdl.trace.files import plain, read_regular
from wirelessdl.trace.provenance import git_commit, now

HISTORY = Path("outputs") / "bench.jsonl"
SAME = 0.05  # relative change of a ratio that repeats on an idle machine show, too


def line(suite: str, result: Result) -> dict[str, Any]:
    """A result with all that a later reader needs."""
    found: dict[str, Any] = plain(
        {
            "suite": suite,
            **asdict(result),
            "measured": now(),
            "wirelessdl": wirelessdl.__version__,
            "git": git_commit(),
            "machine": platform.machine(),
            "processors": os.cpu_count(),
            "load": round(os.getloadavg()[0], 2),
        }
    )
    return found


def append(path: Path, content: dict[str, Any]) -> None:
    """One more line at the end of a history, which is made where it does not exist."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(content, allow_nan=False) + "\n")
    except OSError as error:
        raise TraceError(f"--history is {shown(path)}; cannot be written: {error.strerror}") from None


def read(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The last result of every benchmark in a history, by suite and name."""
    try:
        text = read_regular(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not text"
        raise WirelessdlError(f"--compare is {shown(path)}; cannot be read: {reason}") from None
    return {(entry["suite"], entry["name"]): entry for entry in _entries(path, text)}


def _entries(path: Path, text: str) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(text.splitlines(), start=1):
        if not row.strip():
            continue
        try:
            entry = json.loads(row)
        except ValueError:
            entry = None
        if not isinstance(entry, dict) or not {"suite", "name", "ratio"} <= entry.keys():
            raise WirelessdlError(
                f"--compare is {shown(path)}; line {number} is no result: use a file that bench --json wrote"
            )
        yield entry


@dataclass(frozen=True)
class Change:
    """A ratio then and now; NaN where one of them was not measured."""

    before: float
    after: float

    @property
    def words(self) -> str:
        """In words: less than 5% is no change."""
        if math.isnan(self.before) or math.isnan(self.after):
            return "new" if math.isnan(self.before) else "not measured"
        share = self.after / self.before - 1.0
        if abs(share) < SAME:
            return "same"
        return f"{abs(share):.0%} {'more' if share > 0 else 'less'} time"


def change(before: dict[str, Any] | None, after: Result) -> Change:
    """What became of a benchmark since an entry of a history."""
    old = None if before is None else before["ratio"]
    return Change(float(old) if isinstance(old, int | float) else math.nan, after.ratio)
