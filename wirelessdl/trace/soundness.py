"""Whether the tables and documents of a run are what wirelessdl writes: shapes, types and ranges of every value.

Readers rely on this. A run may come from a stranger, so what looks like a table of ours may hold anything. Counts come
first: nothing is allocated by a number that the tables do not bear out.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wirelessdl.errors import TraceError, is_utf8, shown
from wirelessdl.trace.run import Run
from wirelessdl.trace.schema import TABLES

# columns that may be null, and numbers that may be infinite (no privacy) or not a number
_NULLS = {
    "rounds": (
        *("accuracy_mean", "accuracy_min", "accuracy_max", "loss_mean"),
        *("epsilon_own_total", "epsilon_promised_total", "epsilon_link_max", "spectral_gap", "sinr_db"),
        *("attempts_mean", "outage_rate"),
    ),
    "nodes": (
        *("accuracy", "loss", "grad_norm", "nonfinite_gradients"),
        *("excess_loss", "self_interference_w", "pass_power_w", "turn", "battery_j"),
        *("rate_bps_hz", "attempts", "node_payload_s"),
    ),
    "links": ("phase_rad", "snr_db", "sinr_db", "epsilon", "decoded_in", "outage"),
    "blocks": ("phase_rad", "epsilon"),
    "events": ("node",),
    "privacy": ("rx",),
    "clients": (),
}
_INFINITE = (
    "epsilon",
    "epsilon_link_max",
    "epsilon_own_max",
    "epsilon_own_bound",
    "epsilon_own_total",
    "epsilon_promised_max",
    "epsilon_promised_bound",
    "epsilon_promised_total",
    "epsilon_total",
    "snr_db",
    "sinr_db",
)
_LOOSE = ("loss", "loss_mean", "grad_norm", "excess_loss", "accuracy", "consensus_distance")  # training may blow up
_FIGURES = (
    "rounds",
    "nodes",
    "accuracy_mean",
    "epsilon_total",
    "epsilon_declared",
    "epsilon_own_declared",
    "epsilon_coalition_declared",
    "epsilon_own_total",
    "epsilon_coalition_total",
    "epsilon_link_total",
    "pair_ratio",
    "coalition",
    "time_s",
    "energy_j",
    "energy_nominal_j",
)


def problems_of(run: Run, tables: Sequence[str] = tuple(TABLES)) -> Iterator[str]:
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
    for field in table.schema:
        column = table[field.name]
        if column.null_count and field.name not in _NULLS[name]:
            yield f"{name}: {field.name} has empty fields"
            return
        if pa.types.is_floating(field.type) and field.name not in _LOOSE:
            allowed = pc.is_finite(column) if field.name not in _INFINITE else pc.invert(pc.is_nan(column))
            if not pc.all(allowed).as_py() and column.null_count < len(column):
                yield f"{name}: {field.name} holds what is no number"
                return
    if name == "nodes":
        every = np.arange(rounds * count)
        kept = table.slice(0, rounds * count)
        if kept.num_rows < rounds * count or not (
            np.array_equal(kept["node"].to_numpy(), every % count)
            and np.array_equal(kept["round"].to_numpy(), every // count + 1)
        ):
            yield f"nodes: does not hold nodes 0 to {count - 1} in every round"
    for key, most in (("rx", count - 1), ("tx", count - 1), ("node", count - 1)):
        if key in table.schema.names and not _within(table[key], 0, most):
            yield f"{name}: {key} names nodes beyond 0 to {most}"
    if name == "blocks" and not all(_within(table[key], 0, 65_535) for key in ("slot", "subband")):
        yield "blocks: slot or subband is out of range"
    if name == "rounds" and not pc.all(pc.greater(table["learning_rate"], 0.0)).as_py():
        yield "rounds: learning_rate is not above 0"
    if name == "links" and _repeats(table, count):
        yield "links: names a link twice in one round"
    if name == "clients":
        counts = table["class_counts"].to_pylist()
        if len({len(row) for row in counts}) != 1 or not all(
            row and None not in row and min(row) >= 0 for row in counts
        ):
            yield "clients: class_counts is out of range"
        elif [sum(row) for row in counts] != table["samples"].to_pylist():
            yield "clients: class_counts does not add up to samples"
        if not _within(table["sampling_rate"], 1e-12, 1.0):
            yield "clients: sampling_rate is out of range"


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
    table = run.scenario  # raises where keys that readers rely on are missing
    for name, section in table.items():
        if not isinstance(section, dict):
            yield f"scenario.toml: {shown(name, 40)} is no section"
    for key, least in (("privacy.clip_norm", 0.0), ("learning.batch_size", 1)):
        section_name, _, key_name = key.partition(".")
        value = table.get(section_name, {}).get(key_name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not value >= least:
            yield f"scenario.toml: {key} is {shown(value, 40)}"
    if not table["scenario"]["name"].isprintable():
        yield f"scenario.toml: scenario.name is {shown(table['scenario']['name'], 40)}"
    summary, origin = run.summary, run.provenance
    stopped = summary.get("stopped")
    if stopped is not None and (not isinstance(stopped, int) or isinstance(stopped, bool)):
        yield f"summary.json: stopped is {shown(stopped, 40)}"
    for name in _FIGURES if summary else ():
        if name in summary and not _is_figure(summary[name]):
            yield f"summary.json: {name} is {shown(summary[name], 40)}"
    lists = [summary.get("warnings", []), summary.get("epsilon_own_conditions", []), origin.get("resumed", [])]
    if not all(isinstance(items, list) and all(_is_text(item) for item in items) for items in lists):
        yield "summary.json or provenance.json: a list of texts is something else"
    for name in ("started", "finished", "state", "error", "folder", "wirelessdl", "device"):
        if name in origin and not _is_text(origin[name]):
            yield f"provenance.json: {name} is no text"
    for name, rule, words in _ORIGIN:
        if origin.get(name) is not None and not rule(origin[name]):
            yield f"provenance.json: {name} is {shown(origin[name], 40)}; must be {words}"


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_figure(value: Any) -> bool:
    return (isinstance(value, int | float) and not isinstance(value, bool)) or value in ("inf", "-inf", None)


def _is_text(value: Any) -> bool:
    """A text that can be written down: no zero bytes, no halves of characters."""
    return isinstance(value, str) and "\0" not in value and is_utf8(value)


def _are_texts(value: Any) -> bool:
    """Texts by name; None stands for a package that is not installed."""
    return isinstance(value, dict) and all(item is None or _is_text(item) for item in value.values())


_ORIGIN = (
    ("packages", _are_texts, "texts by name"),
    ("user_files", _are_texts, "texts by name"),
    ("threads", _is_count, "a whole number"),
    ("schema", _is_count, "a whole number"),
    ("wall_s", _is_figure, "a number"),
    ("strategy", _is_text, "a text"),
    ("git", _is_text, "a text"),
    ("command", lambda value: isinstance(value, list) and all(map(_is_text, value)), "a list of texts"),
    ("extended", lambda value: isinstance(value, list) and all(map(_is_count, value)), "a list of whole numbers"),
)
