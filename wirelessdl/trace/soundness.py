"""Whether the tables and documents of a run are what wirelessdl writes: shapes, types and ranges of every value.

Readers rely on this. A run may come from a stranger, so what looks like a table of ours may hold anything. Counts come
first: nothing is allocated by a number that the tables do not bear out.
"""

import math
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wirelessdl.errors import TraceError, is_utf8, shown
from wirelessdl.families import columns
from wirelessdl.trace.run import Run, is_count
from wirelessdl.trace.schema import TABLES

# columns that may be null, beside those that members of access add
_NULLS = {
    "rounds": (
        *("accuracy_mean", "accuracy_min", "accuracy_max", "loss_mean"),
        *("epsilon_own_total", "epsilon_promised_total", "epsilon_link_max", "spectral_gap", "sinr_db"),
    ),
    "nodes": (
        *("accuracy", "loss", "grad_norm", "nonfinite_gradients"),
        *("excess_loss", "self_interference_w", "pass_power_w", "turn", "battery_j"),
    ),
    "links": ("phase_rad", "snr_db", "sinr_db", "epsilon"),
    "blocks": ("phase_rad", "epsilon"),
    "events": ("node",),
    "privacy": ("rx",),
}
_MAY_BE_INFINITE = re.compile(r"epsilon(_.*)?|s(i)?nr_db")  # no privacy, no noise
_MAY_BE_ANYTHING = ("loss", "loss_mean", "grad_norm", "excess_loss", "accuracy", "consensus_distance")  # may blow up
_RANGES = {
    **dict.fromkeys(("slot", "subband"), (0, 65_535)),
    "learning_rate": (math.ulp(0.0), math.inf),
    "sampling_rate": (1e-12, 1.0),
    "sensitivity": (0.0, math.inf),
    "epoch_rounds": (1, math.inf),
}
_SMALL = ("rounds", "clients", "privacy")  # tables that are checked whenever a run is looked at


def require_sound(
    run: Run, tables: Collection[str] = _SMALL, remedy: str = " (`wirelessdl verify` checks all of it)"
) -> Run:
    """The run, if its documents and these tables are what wirelessdl writes; else raises with the first problem."""
    for problem in problems_of(run, tables):
        raise TraceError(f"{shown(run.path)}: {problem}{remedy}")
    return run


def problems_of(run: Run, tables: Collection[str] = tuple(TABLES)) -> Iterator[str]:
    """One line for everything in a run's documents and in these tables that wirelessdl does not write."""
    try:
        yield from document_problems(run)
        count = run.scenario["network"]["nodes"]
        clients = run.table("clients")
        if clients.num_rows != count:
            yield f"clients: has {clients.num_rows} rows, network.nodes is {count}"
            return
        covered = run.covered("rounds")
        rounds = run.table("rounds", ["round"])["round"].to_numpy()
        if len(rounds) < covered or rounds.tolist() != list(range(1, len(rounds) + 1)):
            yield f"rounds: does not count from 1 to {covered} without gaps"
            return
        for name in tables:
            yield from _table(name, run.table(name), len(rounds), count)
        if "links" in tables and not _within(run.table("links", ["round"])["round"], 1, run.covered("links")):
            yield "links: name rounds that its parts do not cover"
    except TraceError as error:
        yield shown(error, 400)
    except (pa.ArrowException, ValueError, KeyError, TypeError, OverflowError) as error:
        yield f"its tables cannot be read: {type(error).__name__}: {shown(error)}"


def _table(name: str, table: pa.Table, rounds: int, count: int) -> Iterator[str]:
    may_be_null = (*_NULLS.get(name, ()), *(added for added, *_ in columns(name)))
    for field in table.schema:
        column = table[field.name]
        if column.null_count and field.name not in may_be_null:
            yield f"{name}: {field.name} has empty fields"
            return
        if pa.types.is_floating(field.type) and field.name not in _MAY_BE_ANYTHING:
            infinite = _MAY_BE_INFINITE.fullmatch(field.name)
            allowed = pc.invert(pc.is_nan(column)) if infinite else pc.is_finite(column)
            if not pc.all(allowed).as_py() and column.null_count < len(column):
                yield f"{name}: {field.name} holds what is no number"
                return
        if field.name in _RANGES and not _within(column, *_RANGES[field.name]):
            yield f"{name}: {field.name} is out of range"
    if name == "nodes":
        every = np.arange(rounds * count)
        kept = table.slice(0, rounds * count)
        if kept.num_rows < rounds * count or not (
            np.array_equal(kept["node"].to_numpy(), every % count)
            and np.array_equal(kept["round"].to_numpy(), every // count + 1)
        ):
            yield f"nodes: does not hold nodes 0 to {count - 1} in every round"
    for key in ("rx", "tx", "node"):
        if key in table.schema.names and not _within(table[key], 0, count - 1):
            yield f"{name}: {key} names nodes beyond 0 to {count - 1}"
    if name == "links" and _repeats(table, count):
        yield "links: names a link twice in one round"
    if name == "clients":
        if table["node"].to_pylist() != list(range(count)):
            yield f"clients: does not hold nodes 0 to {count - 1} in order"
        counts = table["class_counts"].to_pylist()
        if len({len(row) for row in counts}) != 1 or not all(
            row and None not in row and min(row) >= 0 for row in counts
        ):
            yield "clients: class_counts is out of range"
        elif [sum(row) for row in counts] != table["samples"].to_pylist():
            yield "clients: class_counts does not add up to samples"


def _repeats(table: pa.Table, count: int) -> bool:
    """Whether a link stands in a round more than once."""
    round, rx, tx = (table[name].to_numpy() for name in ("round", "rx", "tx"))
    number = (round * count + rx) * count + tx
    return bool((np.diff(number) <= 0).any()) and len(np.unique(number)) < len(number)  # mostly they are in order


def _within(column: pa.ChunkedArray, least: float, most: float) -> bool:
    found = pc.min_max(column)
    low, high = found["min"].as_py(), found["max"].as_py()
    return low is None or (low >= least and high <= most)


def document_problems(run: Run) -> Iterator[str]:
    """One line for everything in scenario.toml, summary.json and provenance.json that wirelessdl does not write."""
    table = run.scenario  # raises where keys that readers rely on are missing or out of range
    for name, section in table.items():
        if not isinstance(section, dict):
            yield f"scenario.toml: {shown(name, 40)} is no section"
    if not table["scenario"]["name"].isprintable():
        yield f"scenario.toml: scenario.name is {shown(table['scenario']['name'], 40)}"
    for document, content in (("summary.json", run.summary), ("provenance.json", run.provenance)):
        for words, names in _ENTRIES[document].items():
            for name in names:
                if name in content and not _KINDS[words](content[name]):
                    yield f"{document}: {name} is {shown(content[name], 40)}; must be {words}"


def _is_text(value: Any) -> bool:
    """A text that can be written down: no zero bytes, no halves of characters."""
    return isinstance(value, str) and "\0" not in value and is_utf8(value)


def _is_list(value: Any, rule: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(rule, value))


_KINDS: dict[str, Callable[[Any], bool]] = {
    "a number": lambda value: isinstance(value, float) or is_count(value) or value in ("inf", "-inf", None),
    "a whole number": lambda value: value is None or is_count(value),
    "a text": _is_text,
    "a text, or null": lambda value: value is None or _is_text(value),
    "texts by name": lambda value: (
        value is None or (isinstance(value, dict) and all(_is_text(item) or item is None for item in value.values()))
    ),
    "a list of texts": lambda value: _is_list(value, _is_text),
    "a list of whole numbers": lambda value: _is_list(value, is_count),
}
_ENTRIES: dict[str, dict[str, tuple[str, ...]]] = {
    "summary.json": {
        "a number": (
            *("rounds", "nodes", "accuracy_mean", "pair_ratio", "coalition", "time_s", "energy_j", "energy_nominal_j"),
            *("epsilon_total", "epsilon_own_total", "epsilon_coalition_total", "epsilon_link_total"),
            *("epsilon_declared", "epsilon_own_declared", "epsilon_coalition_declared"),
        ),
        "a whole number": ("stopped",),
        "a list of texts": ("warnings", "epsilon_own_conditions"),
    },
    "provenance.json": {
        "a number": ("wall_s",),
        "a whole number": ("threads", "schema"),
        "a text": ("started", "finished", "state", "error", "folder", "wirelessdl", "device"),
        "a text, or null": ("strategy", "git"),
        "texts by name": ("packages", "user_files"),
        "a list of texts": ("command", "resumed"),
        "a list of whole numbers": ("extended",),
    },
}
