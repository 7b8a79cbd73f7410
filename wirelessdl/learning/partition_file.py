"""The node of each training sample, from a file.

.npz    one array, or one of that name
.json   a list, or an object with a list of that name
.csv    a column of that name, one row per sample
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from wirelessdl.arrays import IntArray
from wirelessdl.errors import nearest
from wirelessdl.learning.data.files import find_file


def owners(path: str, column: str, folders: Sequence[Path]) -> IntArray:
    """Node numbers, one per sample. A ValueError tells what is wrong with the file."""
    place = find_file("path", path, folders)
    readers = {".npz": _npz, ".json": _json, ".csv": _csv}
    if place.suffix.lower() not in readers:
        raise ValueError(f'path is "{path}"; must be an .npz, .json or .csv file')
    try:
        found = readers[place.suffix.lower()](place, column)
        values = np.asarray(found)
    except KeyError as error:
        raise ValueError(f'column is "{column}"; {place.name} has none of that name{error.args[0]}') from None
    except (OSError, BadZipFile, EOFError, ValueError) as error:
        raise ValueError(f'path is "{path}"; cannot be read: {str(error).splitlines()[0]}') from None
    if values.ndim != 1 or values.dtype.kind not in "iu" or not len(values):
        raise ValueError(f'path is "{path}"; must hold one whole number for each sample: the node that gets it')
    return values.astype(np.int64)


def _npz(place: Path, column: str) -> Any:
    with np.load(place, allow_pickle=False) as arrays:
        if column not in arrays and len(arrays.files) == 1:
            return arrays[arrays.files[0]]
        return arrays[_known(column, arrays.files)]


def _json(place: Path, column: str) -> Any:
    content = json.loads(place.read_text(encoding="utf-8"))
    return content[_known(column, content)] if isinstance(content, dict) else content


def _csv(place: Path, column: str) -> Any:
    from pyarrow import csv

    table = csv.read_csv(place)  # pyarrow's errors are ValueErrors
    return table.column(_known(column, table.column_names)).to_numpy()


def _known(column: str, names: Sequence[str] | dict[str, Any]) -> str:
    if column not in names:
        raise KeyError(nearest(column, names))
    return column
