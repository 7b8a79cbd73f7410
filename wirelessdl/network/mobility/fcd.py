"""Vehicles and persons of SUMO: floating car data, the file that `sumo --fcd-output FILE` writes.

    <fcd-export>
      <timestep time="0.50">
        <vehicle id="car" x="181.60" y="11.84" .../>
        <person id="walker" x="186.61" y="176.84" .../>

XML, or the same compressed by gzip; x and y in metres (not --fcd-output.geo). The file, not the placement, says where
nodes are. Nodes are those that are there at `from_s` or later, in the order in which they come, those of one instant
in the order of the file: the first K of them. Run time 0 is `from_s` of the file, by default its first instant.

A node goes straight from record to record. Who has not departed yet, has arrived, or is missing in between, is down:
it neither computes nor sends, and comes back as `faults.rejoin` says. Until then it waits where it will appear, after
that where it was last. Who is there at the last instant stays.

Nodes at one point (a person in a car, walkers that wait together) stand half a metre beside each other: a link needs a
length.
"""

import gzip
import math
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Literal, cast
from xml.etree import ElementTree

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.links import Geometry, Motion
from wirelessdl.network.mobility.paths import Paths, side_by_side
from wirelessdl.network.parameters import FindFile, Length, checked_time

_KINDS = {"all": ("vehicle", "person"), "vehicles": ("vehicle",), "persons": ("person",)}
_MOST_UNPACKED = 200  # times its size; what sumo writes packs to a tenth or so, repeated elements to a thousandth


class SumoFcd:
    """Motion, departures and arrivals from a file of SUMO.

    who: which of them are nodes. from_s: the file's time that is 0 s of the run, by default its first instant.
    """

    def __init__(
        self,
        start_m: FloatArray,
        find_file: FindFile,
        file: str,
        who: Literal["all", "vehicles", "persons"] = "all",
        from_s: float | None = None,
        vehicle_height_m: Length = 1.6,
        person_height_m: Length = 1.5,
    ):
        times, seen = _read(find_file(file), file, who, from_s)
        begins_s = times[0] if from_s is None else from_s
        nodes, present = len(start_m), {one: rows for one, rows in seen.items() if times[rows[-1][0]] >= begins_s}
        if len(present) < nodes:
            what = "vehicles or persons" if who == "all" else who
            raise ValueError(
                f'file is "{file}"; has {len(present)} {what} from {begins_s:g} s on, network.nodes is {nodes}: lower '
                "it, or simulate more traffic"
            )
        self.ids = tuple(name for _, name in list(present)[:nodes])
        at = np.array(times) - begins_s
        self._away: list[list[tuple[float, float]]] = []
        legs = []
        for (kind, _), rows in list(present.items())[:nodes]:
            step = np.array([row[0] for row in rows])
            height = vehicle_height_m if kind == "vehicle" else person_height_m
            place = np.array([(row[1], row[2], height) for row in rows])
            legs.append((at[step], place))
            self._away.append(list(_absences(step, at)))
        self._paths = _paths(legs)

    def outages(self, node: int) -> list[tuple[float, float]]:
        """When a node is not there: begin and length, s; inf for good."""
        return self._away[node]

    def geometry(self, time_s: float) -> Geometry:
        return self.motion((time_s,)).at(0)

    def motion(self, times_s: Sequence[float]) -> Motion:
        found = self._paths.motion(np.array([checked_time(time_s) for time_s in times_s]))
        return Motion(side_by_side(found.position_m), found.velocity_mps)


def _absences(step: FloatArray, at_s: FloatArray) -> Iterator[tuple[float, float]]:
    """Begin and length of every time in which a node has no record; step: numbers of the instants that have one."""
    here = np.zeros(len(at_s), dtype=bool)
    here[step] = True
    change = np.flatnonzero(np.diff(np.concatenate([[True], here, [True]])))  # away from here to there, in pairs
    for gone, back in zip(change[::2].tolist(), change[1::2].tolist()):
        begin_s = max(0.0, float(at_s[gone])) if gone else 0.0
        end_s = float(at_s[back]) if back < len(at_s) else math.inf
        if end_s > begin_s:
            yield begin_s, end_s - begin_s


def _paths(legs: Sequence[tuple[FloatArray, FloatArray]]) -> Paths:
    """Straight legs from record to record; before the first and after the last a node stands."""
    most = 1 + max(len(time) for time, _ in legs)
    begin = np.full((most, len(legs)), np.inf)
    origin, velocity = np.zeros((2, most, len(legs), 3))
    for node, (time, place) in enumerate(legs):
        begin[0, node], origin[0, node] = min(0.0, time[0]) - 1.0, place[0]
        begin[1 : len(time) + 1, node], origin[1 : len(time) + 1, node] = time, place
        velocity[1 : len(time), node] = np.diff(place, axis=0) / np.diff(time)[:, None]
    return Paths(begin, origin, velocity)


_Rows = dict[tuple[str, str], list[tuple[int, float, float]]]


def _read(path: Path, file: str, who: str, from_s: float | None) -> tuple[list[float], _Rows]:
    """Times of all instants, s, and by kind and id the number of the instant, x and y of every record."""
    times: list[float] = []
    seen: _Rows = {}
    others = 0
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as stream:
            steps = _timesteps(_Unpacked(cast(IO[bytes], stream), _MOST_UNPACKED * path.stat().st_size), file)
            for time, records in steps:
                if times and time <= times[-1]:
                    raise ValueError(f'file is "{file}"; timestep {time:g} follows {times[-1]:g}; times must increase')
                times.append(time)
                for kind, name, x, y in records:
                    if kind not in _KINDS[who]:
                        others += 1
                        continue
                    rows = seen.setdefault((kind, name), [])
                    if rows and rows[-1][0] == len(times) - 1:
                        raise ValueError(
                            f'file is "{file}"; {kind} "{name}" is twice at time {time:g}; ids must differ: give each '
                            "its own"
                        )
                    rows.append((len(times) - 1, x, y))
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f'file is "{file}"; cannot be read: {error}') from None
    if not seen:
        what = "vehicles or persons" if who == "all" else who
        hint = (
            f': it has only others; set who = "all", or simulate {what}' if others else ": write it with --fcd-output"
        )
        raise ValueError(f'file is "{file}"; has no {what}{hint}')
    if from_s is not None and not times[0] <= from_s < times[-1]:
        raise ValueError(f"from_s is {from_s:g}; the file goes from {times[0]:g} to {times[-1]:g} s")
    return times, seen


class _Unpacked:
    """A stream of which no more than so many bytes are read."""

    def __init__(self, stream: IO[bytes], most: int):
        self._stream, self._left = stream, most

    def read(self, size: int = -1) -> bytes:
        found = self._stream.read(size)
        self._left -= len(found)
        if self._left < 0:
            raise OSError(f"it unpacks to more than {_MOST_UNPACKED} times its size")
        return found


def _timesteps(stream: _Unpacked, file: str) -> Iterator[tuple[float, list[tuple[str, str, float, float]]]]:
    """Instants in turn with the records of each: kind, id, x and y."""
    root, depth = None, 0
    for event, element in _elements(stream, file):
        depth += 1 if event == "start" else -1
        if root is None:
            root = element
            if root.tag != "fcd-export":
                raise ValueError(
                    f'file is "{file}"; begins with <{root.tag}>, must begin with <fcd-export>: the file that sumo '
                    "--fcd-output writes"
                )
        if event == "end" and element.tag == "timestep":
            time = _number(file, element, "time", "a timestep")
            yield (
                time,
                [
                    (one.tag, one.get("id", ""), _number(file, one, "x", words), _number(file, one, "y", words))
                    for one in element
                    if one.tag in _KINDS["all"]
                    for words in [f"{one.tag} {one.get('id', '')} at time {time:g}"]
                ],
            )
        if depth == 1:
            root.clear()  # what was read is not kept


def _elements(stream: _Unpacked, file: str) -> Iterator[tuple[str, ElementTree.Element]]:
    """Elements as they begin and end."""
    try:
        yield from ElementTree.iterparse(cast(IO[bytes], stream), events=("start", "end"))
    except ElementTree.ParseError as error:
        raise ValueError(f'file is "{file}"; line {error.position[0]}: no XML: {error.msg}') from None
    except (LookupError, ValueError) as error:  # its encoding
        raise ValueError(f'file is "{file}"; no XML: {error}: save it as UTF-8') from None


def _number(file: str, element: ElementTree.Element, name: str, of: str) -> float:
    try:
        value = float(element.get(name, ""))
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and abs(value) <= 1e9):
        raise ValueError(f'file is "{file}"; {name} of {of} is "{element.get(name, "")}"; must be a finite number')
    return value
