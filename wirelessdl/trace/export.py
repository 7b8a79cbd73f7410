"""Traces for other tools: CSV files, TensorBoard's event files, Weights & Biases."""

from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv

from wirelessdl.errors import TraceError
from wirelessdl.trace.files import require_outside, write_whole
from wirelessdl.trace.schema import TABLES

if TYPE_CHECKING:
    from wirelessdl.trace.run import Run


def write_csv(run: "Run", folder: Path) -> list[Path]:
    """Every table of a run, part after part, so that no table need fit into memory."""
    require_outside(folder)
    _make(folder)
    written = []
    for name, schema in TABLES.items():
        if name == "blocks" and not (run.path / name).is_dir():
            continue  # written on request only
        path = folder / f"{name}.csv"
        plain = pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])
        write_whole(path, lambda handle, name=name, plain=plain: _dump(run, name, plain, handle))  # type: ignore[misc]
        written.append(path)
    return written


def _dump(run: "Run", name: str, schema: pa.Schema, handle: IO[bytes]) -> None:
    with csv.CSVWriter(handle, schema) as writer:
        for table in run.tables(name):
            columns = [_texts(column) if pa.types.is_list(column.type) else column for column in table.columns]
            writer.write_table(pa.table(columns, names=table.column_names).cast(schema))


def _texts(column: pa.ChunkedArray) -> pa.Array:
    """Lists as numbers with spaces between them, which fit into one field."""
    return pa.array([" ".join(map(str, values)) for values in column.to_pylist()], pa.string())


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.string()
    return kind.value_type if pa.types.is_dictionary(kind) else kind


class WandbLog:
    """`--log wandb`: the rounds table, as it is written, to an offline run of Weights & Biases in ./wandb.

    No key, and nothing is sent: `wandb sync` is the user's own decision. Every column by its name, step: the round.
    """

    def __init__(self) -> None:
        try:
            import wandb
        except ImportError:
            raise TraceError(
                "--log wandb needs a package that is not installed; install it with: pip install wirelessdl[wandb]"
            ) from None
        self._wandb = wandb
        self._run: Any = None

    def begin(self, folder: Path, scenario: dict[str, Any]) -> None:
        """The run in this directory begins, or goes on."""
        settings = self._wandb.Settings(silent=True, console="off", disable_git=True, save_code=False)
        self._run = self._wandb.init(
            project="wirelessdl", name=folder.name, config=scenario, mode="offline", settings=settings
        )

    def rounds(self, columns: Mapping[str, Any]) -> None:
        """Rows of the rounds table; what is null there is left out."""
        for n, round in enumerate(np.asarray(columns["round"]).tolist()):
            row = {name: np.ma.asarray(values)[n] for name, values in columns.items() if name != "round"}
            numbers = {name: value for name, value in row.items() if value is not np.ma.masked and _is_number(value)}
            self._run.log({name: float(value) for name, value in numbers.items()}, step=int(round))

    def finish(self, *, sound: bool) -> None:
        if self._run is not None:
            self._run.finish(exit_code=0 if sound else 1)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and bool(np.isfinite(value))


def write_tensorboard(run: "Run", folder: Path, name: str = "") -> Path:
    """One event file with every column of the rounds table, `accuracy_mean` as `accuracy/mean`.

    Points are stamped with the wall-clock time the run began and its simulated time.
    name: of the folder that it is written to, else that of the run's.
    """
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise TraceError(
            "TensorBoard events need the package tensorboardX; install it with: pip install wirelessdl[tensorboard]"
        ) from None
    require_outside(folder)
    target = folder / (name or run.path.resolve().name)
    if any(target.glob("events.out.tfevents.*")):
        raise TraceError(f"{target}: holds events already, and TensorBoard would mix them; name another folder")
    _make(target)
    rounds = run.rounds
    began = _began(run)
    with SummaryWriter(str(target)) as writer:
        for column in rounds.select_dtypes("number").columns.drop("round"):
            points = pd.DataFrame(
                {"round": rounds["round"], "time_s": rounds["time_s"], "value": rounds[column]}
            ).dropna()
            for number, time_s, value in points.itertuples(index=False):
                writer.add_scalar(
                    column.replace("_", "/", 1), float(value), int(number), walltime=began + float(time_s)
                )
    return target


def _began(run: "Run") -> float:
    """Seconds since the epoch; TensorBoard's axis "relative" then shows simulated time."""
    try:
        return float(pd.Timestamp(run.provenance["started"]).timestamp())
    except (KeyError, ValueError):
        return 0.0


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TraceError(f"{folder}: cannot be written to: {error.strerror}; name another folder") from None
