"""Reading a run: typed pandas frames.

    run = wirelessdl.open_run("outputs/quickstart-s7-r1")
    run.rounds.dropna(subset="accuracy_mean").plot(x="time_s", y="accuracy_mean")

    run.frame("links", ["round", "tx", "rx", "gain"], rounds=(1, 50))   # a few columns of a large table

Works while the run goes on: it shows what has been written so far.
"""

import copy
import tomllib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from wirelessdl.arrays import FloatArray
from wirelessdl.errors import TraceError, nearest, quote, require_name
from wirelessdl.trace.files import (
    is_locked,
    read_object,
    read_object_if_whole,
    read_regular,
    require_outside,
    write_whole,
)
from wirelessdl.trace.schema import SNAPSHOTS, TABLES, VERSION
from wirelessdl.trace.soundness import Parts, find_parts, read_parts, require_resolved

if TYPE_CHECKING:  # a run that only writes needs no frames, and pandas takes half a second
    import pandas as pd

State = Literal["running", "done", "interrupted", "failed", "unreadable"]


def open_run(path: str | Path, *, strict: bool = True) -> "Run":
    """The run in a directory. `strict=False` reads what can be read of a damaged one, with warnings."""
    folder = require_run(path)
    run = Run(folder, strict=strict)
    if strict:
        check_version(folder, run.provenance)
    return run


def require_run(path: str | Path) -> Path:
    """The folder of a run; raises where it is none."""
    require_name(path, TraceError)
    folder = Path(path)
    if not (folder / "scenario.toml").is_file():
        what = "not a run directory (no scenario.toml)" if folder.is_dir() else "no such folder"
        what = "is a file, not a run directory" if folder.is_file() else what
        raise TraceError(f"{path}: {what}; name a folder that `wirelessdl run` made")
    if (folder / "study.json").is_file():
        raise TraceError(f"{path}: is a study; name a run in its runs/, or read it with open_study")
    return folder


def check_version(path: str | Path, provenance: Mapping[str, Any]) -> None:
    """Refuse a run whose tables are those of another version."""
    written, writer = provenance.get("schema", VERSION), provenance.get("wirelessdl", "unknown")
    if written != VERSION:
        raise TraceError(
            f"{quote(path)}: its tables are of schema {quote(written, 40)}, this version reads {VERSION}; use the "
            f"wirelessdl that wrote it ({quote(writer, 40)}), or run the scenario again"
        )


def state_of(path: Path) -> State:
    """Whether a run goes on, is done, or how it ended otherwise."""
    if is_locked(path):
        return "running"
    if (path / "summary.json").is_file():
        return "done"  # written last; a process killed right after it had finished all the same
    failed = read_object_if_whole(path / "provenance.json").get("state") == "failed"
    return "failed" if failed else "interrupted"  # said so, or was killed before it could


def _frame_of(name: str) -> "cached_property[pd.DataFrame]":
    """A table as a frame, read when it is first asked for."""
    return cached_property(lambda run: _to_pandas(run.table(name)))


class Run:
    """One run directory. Frames are read when asked for, and then kept."""

    def __init__(self, path: Path, *, strict: bool = True):
        self.path, self._strict = path, strict
        self._last_round: int | None = None

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def up_to(self, round: int) -> "Run":
        """The run as it was after a round: parts that hold later rounds are left aside."""
        then = copy.copy(self)  # with whatever a subclass holds on to
        then.__dict__ = {name: value for name, value in vars(self).items() if name not in TABLES}
        then._last_round = round
        return then

    rounds = _frame_of("rounds")
    """One row per round."""
    nodes = _frame_of("nodes")
    """One row per node and round."""
    links = _frame_of("links")
    """One row per link and round."""
    blocks = _frame_of("blocks")
    """One row per link, round, slot and subband; empty without trace.blocks."""
    clients = _frame_of("clients")
    """One row per node: samples, sampling rate, sensitivity, class counts."""
    events = _frame_of("events")
    """What happened when."""
    privacy = _frame_of("privacy")
    """Totals per sender (proven) and per link (the paper's sum, unproven)."""

    def regret(self) -> "pd.DataFrame":
        """R_j(T) of Theorem 2: rounds by nodes, running sums of F(x_j) - F(x*)."""
        excess = self.table("nodes", ["round", "node", "excess_loss"]).to_pandas()
        if excess["excess_loss"].isna().all():
            raise TraceError(f"{self.path}: the optimum was not traced; set learning.regret = true (ridge, logistic)")
        wide: pd.DataFrame = excess.pivot(index="round", columns="node", values="excess_loss").cumsum()
        return wide

    @property
    def summary(self) -> dict[str, Any]:
        """Final figures; empty while the run goes on. An infinite epsilon is `math.inf`, what is unknown None."""
        return self._json("summary.json")

    @property
    def provenance(self) -> dict[str, Any]:
        """Versions, machine, command, code."""
        return self._json("provenance.json")

    @property
    def scenario(self) -> dict[str, Any]:
        """The resolved scenario as nested tables: the keys that everything here reads are there, and of their type."""
        path = self.path / "scenario.toml"
        try:
            table = copy.deepcopy(_parsed(read_regular(path)))
        except (OSError, ValueError, RecursionError) as error:
            raise TraceError(f"{quote(path)}: cannot be read: {quote(error)}") from None
        require_resolved(table, path)
        return table

    @property
    def evaluated(self) -> "pd.DataFrame":
        """The rounds whose models were evaluated, with `energy_total_j`, the energy all nodes had used by then."""
        rounds = self.rounds.assign(energy_total_j=self.rounds["energy_j"].cumsum())
        return rounds.dropna(subset="accuracy_mean").reset_index(drop=True)

    def frame(
        self, name: str, columns: Sequence[str] | None = None, rounds: tuple[int, int] | None = None
    ) -> "pd.DataFrame":
        """A table as a frame: only the columns asked for are read, and only the parts with rounds first to last."""
        if rounds is not None and "round" not in TABLES[_require_table(name)].names:
            raise TraceError(f"the {name} table has no rounds to choose from; leave rounds out")
        if rounds is not None and not _is_range(rounds):
            raise TraceError(f"rounds is {quote(repr(rounds), 60)}; must be the first and the last, such as (1, 50)")
        wanted = None if columns is None else list(columns)
        read = wanted if wanted is None or rounds is None or "round" in wanted else ["round", *wanted]
        frame = _to_pandas(self.table(name, read, rounds))
        if rounds is not None:
            frame = frame[frame["round"].between(*rounds)].reset_index(drop=True)
        return frame if wanted is None else frame[wanted]

    def frames(self, name: str, columns: Sequence[str] | None = None) -> "Iterator[pd.DataFrame]":
        """The same part by part, for tables that are larger than memory."""
        for table in self.tables(name, columns):
            yield _to_pandas(table)

    def tables(self, name: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """One table as Arrow, part by part."""
        schema = _schema(name, columns)
        parts, problems = self._parts_of(name)
        self._raise_or_warn(problems)
        for path in parts.paths:
            table, damaged = read_parts([path], schema)
            self._raise_or_warn(damaged)
            yield table

    def matrix(self, column: str, round: int) -> FloatArray:
        """A column of the links in one round as `[rx, tx]`, NaN where there is no link."""
        count = self.scenario["network"]["nodes"]
        links = self.frame("links", ["rx", "tx", column], rounds=(round, round))
        if len(links) and not (links[["rx", "tx"]].min().min() >= 0 and links[["rx", "tx"]].max().max() < count):
            raise TraceError(f"{quote(self.path)}: links name nodes beyond network.nodes, {count}; a file was edited")
        dense = np.full((count, count), np.nan)
        dense[links["rx"], links["tx"]] = links[column]
        return dense

    def to_csv(self, folder: str | Path) -> list[Path]:
        """Every table as a CSV file in a folder, part after part, so that none need fit into memory; their paths.

        Lists are numbers with spaces between them, which fit into one field.
        """
        from pyarrow import csv

        place, written = _made(Path(folder)), []

        def dump(name: str, schema: pa.Schema, handle: IO[bytes]) -> None:
            with csv.CSVWriter(handle, schema) as writer:
                for table in self.tables(name):
                    columns = [_texts(column) if pa.types.is_list(column.type) else column for column in table.columns]
                    writer.write_table(pa.table(columns, names=table.column_names).cast(schema))

        for name, schema in TABLES.items():
            if name == "blocks" and not (self.path / name).is_dir():
                continue  # written on request only
            plain = pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])
            written.append(place / f"{name}.csv")
            write_whole(written[-1], partial(dump, name, plain))
        return written

    def to_tensorboard(self, folder: str | Path, name: str = "") -> Path:
        """Every column of the rounds table as TensorBoard events, `accuracy_mean` as `accuracy/mean`; their folder.

        Points are stamped with the wall-clock time the run began and its simulated time. name: of the folder that they
        are written to within this one, else that of the run's.
        """
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise TraceError(
                "TensorBoard events need the package tensorboardX; install it with: pip install wirelessdl[tensorboard]"
            ) from None
        target = Path(folder) / (name or self.path.resolve().name)
        if any(target.glob("events.out.tfevents.*")):
            raise TraceError(f"{target}: holds events already, and TensorBoard would mix them; name another folder")
        _made(target)
        began, rounds = _began(self.provenance), self.rounds
        with SummaryWriter(str(target)) as writer:
            for column in rounds.select_dtypes("number").columns.drop("round"):
                points = rounds[["round", "time_s"]].assign(value=rounds[column]).dropna()
                for number, time_s, value in points.itertuples(index=False):
                    tag = column.replace("_", "/", 1)
                    writer.add_scalar(tag, float(value), int(number), walltime=began + float(time_s))
        return target

    def table(self, name: str, columns: list[str] | None = None, rounds: tuple[int, int] | None = None) -> pa.Table:
        """One table as Arrow, its field metadata with unit and meaning; of whole parts that touch the rounds."""
        schema = _schema(name, columns)
        parts, problems = self._parts_of(name)
        table, damaged = read_parts(parts.within(rounds), schema)
        self._raise_or_warn(problems + damaged)
        return table

    def covered(self, name: str) -> int:
        """The last round that the parts of a table say they hold; 0 where there is none."""
        return find_parts(self.path, name, self._last_round).last_round

    def _raise_or_warn(self, problems: list[str]) -> None:
        """Raise, or warn of, what is wrong with a table."""
        if problems and self._strict:
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            raise TraceError(f"{problems[0]}{more}; open_run(path, strict=False) reads the rest")
        for problem in problems:
            warnings.warn(problem, stacklevel=3)

    def _parts_of(self, name: str) -> tuple[Parts, list[str]]:
        """The parts of a table, and what is wrong with them: damaged, missing, or ending before the run did."""
        # before the parts: `rounds` is written last, so parts that are listed after it cover what it covers
        end, problems = self._end(name)
        parts = find_parts(self.path, name, self._last_round)
        if parts.problems or problems or not end:
            return parts, parts.problems or problems
        if name in SNAPSHOTS:
            return parts, [] if parts.paths else [f"{self.path / name}: is missing; it was deleted"]
        if parts.last_round >= end:
            return parts, []
        return parts, [f"{self.path / name}: rounds {parts.last_round + 1} to {end} are missing; a part was deleted"]

    def _end(self, name: str) -> tuple[int, list[str]]:
        """The last round that a table must hold by now, 0 where unknown; and what is wrong with the summary."""
        if not is_traced(self.scenario, name):
            return 0, []
        if self._last_round is not None:
            return (0 if name in SNAPSHOTS else self._last_round), []
        done = self.summary.get("rounds", 0)
        if not isinstance(done, int):
            return 0, [f"{self.path / 'summary.json'}: rounds is {quote(done, 40)}; must be a number"]
        whole = name == "rounds" or name in SNAPSHOTS
        return (done if whole else max(done, find_parts(self.path, "rounds").last_round)), []

    def _json(self, name: str) -> dict[str, Any]:
        path = self.path / name
        return read_object(path) if path.is_file() else {}


@lru_cache(maxsize=8)  # by content: a report asks a hundred times, and a run may be edited meanwhile
def _parsed(text: bytes) -> dict[str, Any]:
    return tomllib.loads(text.decode())


def is_traced(scenario: dict[str, Any], name: str) -> bool:
    """Whether a run with this resolved scenario writes a table; links and blocks may be left out."""
    trace = scenario["trace"]
    if name == "links":
        return bool(trace["links"] != "none")
    return name != "blocks" or bool(trace.get("blocks", False) and trace["links"] != "none")


def _is_range(rounds: Any) -> bool:
    return isinstance(rounds, tuple | list) and [isinstance(one, int | np.integer) for one in rounds] == [True, True]


def _require_table(name: str) -> str:
    if name not in TABLES:
        raise TraceError(f"no table {name!r}{nearest(name, TABLES)}")
    return name


def _schema(name: str, columns: Sequence[str] | None) -> pa.Schema:
    schema = TABLES[_require_table(name)]
    if columns is None:
        return schema
    for column in columns:
        if column not in schema.names:
            raise TraceError(f"the {name} table has no column {column!r}{nearest(column, schema.names)}")
    return pa.schema([schema.field(column) for column in columns])


def _to_pandas(table: pa.Table) -> "pd.DataFrame":
    """Uses the table up. One block per column: gathering ten million rows into square blocks would copy them again."""
    frame: pd.DataFrame = table.to_pandas(split_blocks=True, self_destruct=True)
    return frame


# --- for other tools


def _texts(column: pa.ChunkedArray) -> pa.Array:
    return pa.array([" ".join(map(str, values)) for values in column.to_pylist()], pa.string())


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.string()
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _began(provenance: Mapping[str, Any]) -> float:
    """Seconds since the epoch; TensorBoard's axis "relative" then shows simulated time."""
    try:
        return datetime.fromisoformat(provenance["started"]).timestamp()
    except (KeyError, ValueError):
        return 0.0


def _made(folder: Path) -> Path:
    require_outside(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TraceError(f"{folder}: cannot be written to: {error.strerror}; name another folder") from None
    return folder
