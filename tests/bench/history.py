"""Results of benchmarks over time: one JSON object per line, and what changed since.

A line holds the result, its suite, when it was measured, and what the numbers depend on: version, code, processor,
threads. Ratios of one machine can be compared over time; seconds of a shared machine cannot.
"""

import json
import math
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import wirelessdl
from bench.suites import Result
from wirelessdl.trace.files import plain
from wirelessdl.trace.provenance import git_commit, now

MAX_SAME = 0.05  # relative change of a ratio that repeats on an idle machine show, too


def append(path: Path, suite: str, result: Result) -> dict[str, Any]:
    """Write a result with all that a later reader needs at the end of a history; returns the line."""
    line: dict[str, Any] = plain(
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
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as handle:
        handle.write(json.dumps(line, allow_nan=False) + "\n")
    return line


def last_ratios(path: Path) -> dict[tuple[str, str], float | None]:
    """The last ratio of every benchmark in a history, by suite and name; None where it was not measured."""
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {(line["suite"], line["name"]): line["ratio"] for line in lines}


def change(before: float | None, after: float) -> tuple[str, str]:
    """A ratio of a history, and what became of it, in words."""
    if before is None or math.isnan(after):
        return "", "new" if before is None else "not measured"
    share = after / before - 1.0
    more = "more" if share > 0 else "less"
    return f"{before:.3f}", "same" if abs(share) < MAX_SAME else f"{abs(share):.0%} {more} time"
