"""Checks that a run is what wirelessdl writes: its documents, the parts of its tables, and every value in them.

A run may come from an untrusted source: what looks like a table of a run may hold anything, and readers rely on these
checks. Every part states which rounds it covers, so one that is damaged, missing or not of this run is noticed and
named. Counts come first: nothing is allocated by a number that the tables do not confirm.
"""

import math
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wirelessdl.errors import TraceError, is_utf8, quote
from wirelessdl.families import columns
from wirelessdl.memory import require_free
from wirelessdl.trace.files import open_regular
from wirelessdl.trace.schema import TABLES, covered_rounds

if TYPE_CHECKING:
    from wirelessdl.trace.run import Run

_PART_NAME = re.compile(r"part-\d{6,}\.parquet")
# columns that may be null, beside those that members of access add
_NULLS = {
    "rounds": (
        *("accuracy_mean", "accuracy_min", "accuracy_max", "loss_mean"),
        *("epsilon_own_total", "epsilon_promised_total", "epsilon_link_max", "spectral_gap", "sinr_db"),
    ),
    "nodes": (
        *("accuracy", "loss", "grad_norm", "nonfinite_gradients"),
        *("excess_loss", "self_interference_w", "pass_power_w", "turn", "battery_j"),
        *("epsilon_own_total", "epsilon_promised_total"),
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
_BYTES_PER_VALUE = 24  # as it is unpacked, and again in the frames of readers
_ALWAYS_CHECKED = ("rounds", "clients", "privacy")  # tables that are checked whenever a run is looked at


def is_count(value: Any) -> bool:
    """Whether a value of a document is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or is_count(value)


def _is_text(value: Any) -> bool:
    """A text that can be written down: no zero bytes, no halves of characters."""
    return isinstance(value, str) and "\0" not in value and is_utf8(value)


def _is_outline(value: Any) -> bool:
    """Corners of a building, x and y of each."""
    return isinstance(value, list) and all(
        isinstance(corner, list) and len(corner) == 2 and all(map(_is_number, corner)) for corner in value
    )


_KINDS: dict[str, Callable[[Any], bool]] = {
    "a text": _is_text,
    "a text, or null": lambda value: value is None or _is_text(value),
    "a name, or a table with a name": lambda value: isinstance(value, str | dict),
    "a whole number": is_count,
    "a whole number, or null": lambda value: value is None or is_count(value),
    "a whole number from 0": lambda value: is_count(value) and value >= 0,
    "a whole number from 1 to 2^31": lambda value: is_count(value) and 1 <= value <= 2**31,
    "a number": _is_number,
    "a number, or null": lambda value: _is_number(value) or value is None,
    "a number from 0": lambda value: _is_number(value) and value >= 0,
    "a number from 1": lambda value: _is_number(value) and value >= 1,
    "a number above 0 and below 1": lambda value: _is_number(value) and 0 < value < 1,
    "texts by name": lambda value: (
        value is None or (isinstance(value, dict) and all(item is None or _is_text(item) for item in value.values()))
    ),
    "a list of texts": lambda value: isinstance(value, list) and all(map(_is_text, value)),
    "a list of whole numbers": lambda value: isinstance(value, list) and all(map(is_count, value)),
    "outlines": lambda value: isinstance(value, list) and all(map(_is_outline, value)),
}
# keys of a resolved scenario that readers rely on, all of them there
_SCENARIO: dict[str, tuple[str, ...]] = {
    "a text": ("scenario.name", "trace.links", "learning.sampling", "privacy.protocol", "privacy.clipping"),
    "a whole number": ("scenario.seed", "scenario.run"),
    "a whole number from 1 to 2^31": ("scenario.rounds", "network.nodes"),
    "a name, or a table with a name": ("radio.access",),
    "a whole number from 0": ("radio.mixing_passes", "learning.closing_passes"),
    "a number": ("radio.bandwidth_hz", "privacy.rho", "privacy.epsilon_max"),
    "a number from 0": ("privacy.clip_norm",),
    "a number from 1": ("learning.batch_size",),
    "a number above 0 and below 1": ("privacy.delta", "privacy.delta_total"),
}
# entries of the other documents, where they are there
_SUMMARY: dict[str, tuple[str, ...]] = {
    "a number, or null": (
        *("rounds", "nodes", "accuracy_mean", "pair_ratio", "coalition", "time_s", "energy_j", "energy_nominal_j"),
        *("epsilon_total", "epsilon_own_total", "epsilon_coalition_total", "epsilon_link_total"),
        *("epsilon_declared", "epsilon_own_declared", "epsilon_coalition_declared"),
    ),
    "a whole number, or null": ("stopped",),
    "a list of texts": ("warnings", "epsilon_own_conditions"),
}
_PROVENANCE: dict[str, tuple[str, ...]] = {
    "a number, or null": ("wall_s",),
    "a whole number": ("threads", "schema"),
    "a text": ("started", "finished", "state", "error", "folder", "wirelessdl", "device"),
    "a text, or null": ("strategy", "git"),
    "texts by name": ("packages", "user_files"),
    "a list of texts": ("command", "resumed"),
    "a list of whole numbers": ("extended",),
    "outlines": ("outlines_m",),
}


def require_resolved(table: dict[str, Any], path: Path) -> None:
    """Raise, naming the key, unless a stored scenario has what readers rely on."""
    for section in ("scenario", "network", "radio", "privacy", "learning", "trace"):
        part = table.get(section)
        for key, kind in ((key, kind) for kind, keys in _SCENARIO.items() for key in keys if key.startswith(section)):
            value = part.get(key.removeprefix(f"{section}.")) if isinstance(part, dict) else None
            if not _KINDS[kind](value):
                what = f"is {quote(value, 40)}; must be {kind}"
                what = "is missing; a run's scenario is complete" if value is None else what
                raise TraceError(f"{quote(path)}: {key} {what}: restore the file, or run the scenario anew")


def document_problems(run: "Run") -> Iterator[str]:
    """One line for everything in scenario.toml, summary.json and provenance.json that wirelessdl does not write."""
    table = run.scenario  # raises where keys that readers rely on are missing or out of range
    for name, section in table.items():
        if not isinstance(section, dict):
            yield f"scenario.toml: {quote(name, 40)} is no section"
    if not table["scenario"]["name"].isprintable():
        yield f"scenario.toml: scenario.name is {quote(table['scenario']['name'], 40)}"
    for document, content, rules in (
        ("summary.json", run.summary, _SUMMARY),
        ("provenance.json", run.provenance, _PROVENANCE),
    ):
        for kind, names in rules.items():
            for name in names:
                if name in content and not _KINDS[kind](content[name]):
                    yield f"{document}: {name} is {quote(content[name], 40)}; must be {kind}"


@dataclass(frozen=True)
class Parts:
    """Readable parts in order, and one line for every problem."""

    paths: list[Path]
    problems: list[str]
    last_round: int
    covered: list[tuple[int, int]]  # first and last round of each path

    def within(self, rounds: tuple[int, int] | None) -> list[Path]:
        """The parts that hold any of the rounds from first to last."""
        if rounds is None:
            return self.paths
        first, last = rounds
        return [path for path, (start, end) in zip(self.paths, self.covered) if start <= last and end >= first]


def find_parts(run: Path, name: str, last_round: int | None = None) -> Parts:
    """The parts of one table of a run, up to a round."""
    paths, covered, problems, damaged = [], [], [], False
    expected = 1
    folder = run / name
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.name.startswith("."):
            continue  # being written
        if not _PART_NAME.fullmatch(path.name):
            problems.append(f"{path}: foreign file; move it out of the table's folder")
            continue
        if last_round is not None and int(path.stem.removeprefix("part-")) > last_round:
            continue
        try:
            with open_regular(path) as handle:
                schema = pq.ParquetFile(handle).schema_arrow
        except (pa.ArrowException, OSError, ValueError) as error:
            problems.append(f"{path}: cannot be read: {' '.join(str(error).split()).rstrip('.')}")
            damaged = True
            continue
        if not schema.equals(TABLES[name]):
            problems.append(f"{path}: has other columns than the {name} table of this version")
            continue
        try:
            first, last = covered_rounds(schema)
        except (KeyError, TypeError, ValueError):
            problems.append(f"{path}: was not written by wirelessdl")
            continue
        if last and first < expected:
            problems.append(f"{path}: covers rounds {first} to {last} again; a part was copied")
            continue
        if first > expected and not damaged:
            problems.append(f"{folder}: rounds {expected} to {first - 1} are missing; a part was deleted")
        expected, damaged = last + 1, False
        paths.append(path)
        covered.append((first, last))
    return Parts(paths, problems, expected - 1, covered)


def read_parts(paths: list[Path], schema: pa.Schema) -> tuple[pa.Table, list[str]]:
    """The given columns of all parts, in order, and a line for each part whose data cannot be read."""
    tables, problems = [], []
    for path in paths:
        try:
            with open_regular(path) as handle:
                tables.append(_unpacked(handle, schema))
        except (pa.ArrowException, OSError, ValueError) as error:
            problems.append(f"{path}: cannot be read: {' '.join(str(error).split())}")
    return pa.concat_tables(tables).unify_dictionaries() if tables else schema.empty_table(), problems


def _unpacked(handle: IO[bytes], schema: pa.Schema) -> pa.Table:
    """The given columns of a part. Raises ValueError where they do not fit into memory: a value that is repeated a
    billion times takes next to no space in a file.
    """
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    stored = pq.ParquetFile(handle, page_checksum_verification=True, read_dictionary=texts)
    groups = [stored.metadata.row_group(number) for number in range(stored.num_row_groups)]
    columns = [group.column(number) for group in groups for number in range(group.num_columns)]
    count = sum(one.num_values for one in columns if one.path_in_schema.partition(".")[0] in schema.names)
    remedy = "read it on a larger machine, or do not trust it"
    require_free(f"holds {count} values", _BYTES_PER_VALUE * count, remedy)
    table = stored.read(columns=schema.names)
    for name in texts:
        length = sum(
            int(np.array([len(text or "") for text in chunk.dictionary.to_pylist()], dtype=np.int64)[used].sum())
            for chunk in table[name].chunks
            if len(used := chunk.indices.drop_null().to_numpy())
        )
        require_free(f"{name} holds {length} characters", _BYTES_PER_VALUE * length, remedy)
    return table.cast(schema)


def require_sound(
    run: "Run", tables: Collection[str] = _ALWAYS_CHECKED, remedy: str = " (`wirelessdl verify` checks all of it)"
) -> "Run":
    """The run, if its documents and these tables are what wirelessdl writes; else raises with the first problem."""
    for problem in problems_of(run, tables):
        raise TraceError(f"{quote(run.path)}: {problem}{remedy}")
    return run


def problems_of(run: "Run", tables: Collection[str] = tuple(TABLES)) -> Iterator[str]:
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
        if len(rounds) < covered or not np.array_equal(rounds, np.arange(1, len(rounds) + 1)):
            yield f"rounds: does not count from 1 to {covered} without gaps"
            return
        for name in tables:
            yield from _table_problems(name, run.table(name), len(rounds), count)
        if "links" in tables and not _within(run.table("links", ["round"])["round"], 1, run.covered("links")):
            yield "links: name rounds that its parts do not cover"
    except TraceError as error:
        yield quote(error, 400)
    except (pa.ArrowException, ValueError, KeyError, TypeError, OverflowError) as error:
        yield f"its tables cannot be read: {type(error).__name__}: {quote(error)}"


def _table_problems(name: str, table: pa.Table, rounds: int, count: int) -> Iterator[str]:
    import pyarrow.compute as pc  # takes a moment to load, and a run that only writes needs none of it

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
    import pyarrow.compute as pc

    found = pc.min_max(column)
    low, high = found["min"].as_py(), found["max"].as_py()
    return low is None or (low >= least and high <= most)
