"""The contract between the simulator and the parts that a scenario names, built in or the user's.

A part is any object with the method by which it is used (`gain`, `links`, `geometry`, ...); it needs no base class.
Beyond that method a part may have **capabilities**: attributes and methods that the simulator uses where they exist.
`CAPABILITIES` declares all of them. A part without one gets the default; a part that has one of the wrong type is
refused with the name of its class.

    class Fade:
        small_scale = True          # a capability of channel models

        def gain(self, links, time_s, rng):
            return rng.rayleigh(size=len(links))

Code of the user's may raise anything, at any time. `Guard` turns what it raises into one line that names the class,
the error and the line in the user's file; so does `sys.exit()`, which would end a run without a word. Only Ctrl-C
passes. A `ValueError` of a built-in part is a value that the scenario chose; it
names its key. Anything else that a built-in raises is a defect of wirelessdl and keeps its traceback.

An array that a part returned goes through `checked_array`: type, shape, and a `Rule` for every number of it.
"""

import math
import numbers
import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import BoolArray, kept
from wirelessdl.errors import ContractError, WirelessdlError

# what code of the user's may raise; anything else, as KeyboardInterrupt, is not its own
RAISED = (Exception, SystemExit, GeneratorExit)
_PACKAGE = str(Path(__file__).parent)


@dataclass(frozen=True)
class Kind:
    """A type of capability: its words in messages, and what brings a value into its form (None: it does not fit)."""

    words: str
    convert: Callable[[Any], Any]


def _flag(value: Any) -> bool | None:
    return bool(value) if isinstance(value, bool | np.bool_) else None


def _number(value: Any) -> float | None:
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return None if not real or math.isnan(value) else float(value)


def _count(value: Any) -> int | None:
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return int(value) if whole and value >= 0 else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _method(value: Any) -> Any:
    return value if callable(value) else None


def _shapes(value: Any) -> list[tuple[int, ...]] | None:
    try:
        return [tuple(int(size) for size in shape) for shape in value]
    except (TypeError, ValueError):
        return None


FLAG = Kind("True or False", _flag)
NUMBER = Kind("a number", _number)
COUNT = Kind("a whole number >= 0", _count)
TEXT = Kind("a text", _text)
METHOD = Kind("a method", _method)
SHAPES = Kind("a list of shapes", _shapes)


@dataclass(frozen=True)
class Capability:
    """What a part may have besides the method by which it is used."""

    name: str
    part: str  # the scenario's key
    kind: Kind
    default: Any  # of parts without it; where it is None, a part may also say None
    meaning: str


# by the scenario's key of the part: name, type, default, meaning
_DECLARED: dict[str, tuple[tuple[str, Kind, Any, str], ...]] = {
    "channel.models": (
        ("small_scale", FLAG, False, "adds small-scale fading of unit mean power and nothing else"),
        ("loss_db", METHOD, None, "loss_db(links): path loss, [links] dB, by which the snr topology decides"),
        ("warning", METHOD, None, "warning(links): a text where links leave its validity range, else None"),
        ("ends_s", NUMBER, math.inf, "time after which it has no gains, s: the end of a recording"),
        ("coherence_s", NUMBER, None, "time over which its fading is constant, s; None: derived from Doppler"),
        ("reciprocal", FLAG, True, "both directions of a link have the same gain"),
        ("doppler_speed_mps", NUMBER, None, "speed of both ends in its Doppler, m/s; None: the nodes' own"),
        (
            "response",
            METHOD,
            None,
            "response(links, time_s, offset_hz, rng): complex h of every subband, [subbands, links], asked instead of "
            "gain where radio.subbands is above 1; None: its gain holds for the whole band",
        ),
        ("delay_spread_s", NUMBER, None, "root mean square delay spread of its taps, s; None: flat in frequency"),
    ),
    "network.map": (
        ("buildings", METHOD, None, "buildings(): left, bottom, width and depth of each, [n, 4] m, for figures"),
    ),
    "network.mobility": (
        ("outages", METHOD, None, "outages(node): when a node is not there, pairs of start and length, s, in turn"),
    ),
    "network.topology": (
        ("follows_motion", FLAG, False, "its links are worked out again as nodes move"),
        ("remedy", TEXT, "choose a denser graph", "what would join a graph that falls into parts"),
    ),
    "power.allocator": (
        ("keeps_epsilon_max", FLAG, False, "no link of its plans leaks more than epsilon_max in a slot"),
    ),
    "radio.access": (("turns", METHOD, None, "turns(round, links): [K] the turn in which each node sends, from 0"),),
    "radio.csi": (("symbols", COUNT, 1, "pilot symbols of each sender; senders take turns"),),
    "faults.blockage": (
        ("still_heard", FLAG, False, "a blocked link still interferes where radio.interference is physical"),
    ),
    "learning.features": (
        ("public", TEXT, None, "what everyone must be taken to know of the map, in words"),
        ("norm", NUMBER, None, "norm of every row of features at most, by which a rate can be chosen without data"),
        ("whitened", FLAG, False, "no direction of its features is much longer than others; a rate may be larger"),
    ),
    "learning.partition": (("by_content", FLAG, False, "sees samples ordered by label, then by content"),),
    "learning.update": (
        ("initial", METHOD, None, "initial(received): its state before the first round, tensors"),
        ("mixed", TEXT, None, "a state of a `base`, [K, 1], that is mixed by A before base is asked"),
        ("shows_point", FLAG, False, "accuracy, losses and final models are those of the point of a `base`"),
        ("moves", NUMBER, 1.0, "times 2C/B that one sample moves what `step` returns, per gamma mult, at most"),
    ),
    "learning.learning_rate": (("spans_run", FLAG, False, "its rates depend on how many rounds the run has"),),
    "learning.model": (
        ("name", TEXT, None, "its name in messages; None: that of its class, in lower case"),
        ("task", TEXT, "classification", "what its labels are for: classification or regression"),
        ("bias_column", FLAG, True, "its samples are flat rows that end in a one"),
        ("gradient", METHOD, None, "gradient(...): clipped gradients in closed form"),
        ("forward", METHOD, None, "forward(parameters, features): scores that autograd can follow"),
        ("shapes", SHAPES, None, "shapes of its parameters, in the order they lie in x"),
        ("activations", COUNT, None, "how many numbers one sample leaves in the layers; None: from its shapes"),
        ("batch_norm", TEXT, None, "name of a layer through which samples of a batch see each other"),
        ("penalty", NUMBER, None, "factor of a penalty on the weights, which clipping does not bound"),
        ("objective", METHOD, None, "objective(...): the loss of all nodes together, whose optimum is known"),
    ),
}
CAPABILITIES = {name: Capability(name, part, *rest) for part, declared in _DECLARED.items() for name, *rest in declared}


def capability(part: object, name: str) -> Any:
    """A capability of a part: its value, of the declared type, or the declared default where it has none."""
    declared = CAPABILITIES[name]
    label = f"{type(part).__name__}.{name}"
    try:
        value = getattr(part, name)
    except WirelessdlError:
        raise
    except RAISED as error:
        if isinstance(error, AttributeError) and not hasattr(type(part), name):
            return declared.default
        raise ContractError(f"{label} raised {formatted(error)}") from error  # a property that fails
    if value is None and declared.default is None:
        return None
    converted = declared.kind.convert(value)
    if converted is None:
        raise ContractError(f"{label} is {value!r}, expected {declared.kind.words}: {declared.meaning}")
    return converted


@dataclass(frozen=True)
class Guard:
    """Stands around each call of a part: `with Guard("radio.csi: my.py:Mine", is_user_class=True): ...`.

    name: what was called, as messages name it. detail: what a message says after the error.
    built_in: how a message begins where a built-in part raises a ValueError; None leaves it alone.
    """

    name: str
    is_user_class: bool = True
    error: type[WirelessdlError] = ContractError
    built_in: str | None = None
    built_in_error: type[WirelessdlError] = ContractError
    detail: str = ""

    def __enter__(self) -> None:
        if self.is_user_class:
            self.__dict__["_errors"] = np.geterr()

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        # a generator that is left early ends in its own frame, which no code of the user's raised
        left = isinstance(error, GeneratorExit) and (frames is None or frames.tb_next is None)
        if left:
            return
        if self.is_user_class:
            np.seterr(**self.__dict__["_errors"])  # the whole process would keep what the class set
        if not isinstance(error, RAISED):
            return
        if self.is_user_class:
            raise self.error(f"{self.name} raised {formatted(error)}{self.detail}") from error
        if self.built_in is not None and isinstance(error, ValueError):
            raise self.built_in_error(f"{self.built_in}{error}") from error


class Memory:
    """Whether an object of the user's remembers from call to call what a resumed run would not have."""

    def __init__(self, name: str, part: object, remedy: str):
        self._name, self._part, self._remedy, self._first = name, part, remedy, _fingerprint(part)

    def require_none(self) -> None:
        """Raise where its attributes have changed since it was made."""
        if _fingerprint(self._part) != self._first:
            raise ContractError(f"{self._name} remembers in self, which a resumed run would not have: {self._remedy}")


def _fingerprint(part: object) -> dict[str, bytes | int]:
    """Attributes of an object and its classes: as bytes, or which object it is where that cannot be written down.

    Methods and what Python itself keeps in a class are none.
    """
    found: dict[str, bytes | int] = {}
    classes = [vars(one) for one in reversed(type(part).__mro__)]
    shared = {name: value for one in classes for name, value in one.items() if not hasattr(value, "__get__")}
    slots = {name: getattr(part, name, None) for one in classes for name in one.get("__slots__", ())}
    for name, value in {**shared, **slots, **getattr(part, "__dict__", {})}.items():
        if name.startswith("__"):
            continue
        try:
            found[name] = pickle.dumps(value)
        except Exception:  # attributes may be anything
            found[name] = id(value)
    return found


def guard_of(where: str, part: object, method: str) -> Guard:
    """The guard around a method of a part, for those that only know the object."""
    built_in = type(part).__module__.startswith("wirelessdl.")
    return Guard(f"{where}: {type(part).__name__}.{method}", is_user_class=not built_in)


def guarded(where: str, part: object, method: str) -> Callable[..., Any]:
    """A method of a part; where its class is the user's, with a guard around each call."""
    guard, call = guard_of(where, part, method), getattr(part, method)
    if not guard.is_user_class:
        found: Callable[..., Any] = call
        return found

    def ask(*given: Any) -> Any:
        with guard:
            return call(*given)

    return ask


@dataclass(frozen=True)
class Rule:
    """What every number of an array must be: in words, and the test."""

    words: str
    holds: Callable[[NDArray[Any]], BoolArray]


FINITE = Rule("finite numbers", np.isfinite)
NON_NEGATIVE = Rule("finite numbers >= 0", lambda values: (values >= 0) & (values < np.inf))
POSITIVE = Rule("finite numbers > 0", lambda values: (values > 0) & (values < np.inf))
SHARES = Rule("shares > 0 and <= 1", lambda values: (values > 0) & (values <= 1))
FLAGS = Rule("True or False", lambda values: np.ones_like(values, dtype=bool))


def of_node(at: tuple[int, ...]) -> str:
    """Place of an entry in an array whose first axis is nodes."""
    return f" for node {at[0]}"


def checked_array(
    name: str,
    answer: object,
    shape: tuple[int | None, ...],
    each: str,
    rule: Rule = FINITE,
    *,
    field: str = "",
    place: Callable[[tuple[int, ...]], str] | None = None,
    dtype: Any = np.float64,
    is_user_class: bool = True,
) -> NDArray[Any]:
    """An array that a part returned, held to its contract; a copy where the class is the user's (`arrays.kept`).

    name: the part, class and method, as messages name them; field: of what it returned, where that has several. shape:
    None for an axis of any length; each: what the axes are, "one |h| per link". place: where an entry stands, in words.
    Complex numbers are not taken for real ones, nor numbers for True or False. Raises ContractError, in one line.
    """
    returned = f"{name} returned {field}{' ' * bool(field)}"
    wanted = f"({', '.join('n' if n is None else str(n) for n in shape)}{',' * (len(shape) == 1)})"
    expected = f"expected {wanted}, {each}"
    try:
        found, wanted_kind = np.asarray(answer).dtype, np.dtype(dtype).kind
        if np.ma.is_masked(answer):
            raise ContractError(f"{returned}a masked array with masked entries, {expected}: fill it")
        if found.kind != wanted_kind and (found.kind == "c" or wanted_kind == "b"):
            remedy = ": return abs(...)" * (found.kind == "c")
            raise ContractError(
                f"{returned}{type(answer).__name__ if found.kind == 'O' else found}, {expected}{remedy}"
            )
        values = kept(answer, dtype, is_user_class=is_user_class)
    except ContractError:
        raise
    except RAISED as error:  # a text, rows of different lengths, what its __array__ raised
        raise ContractError(f"{returned}{type(answer).__name__}, {expected} ({format_error(error)})") from None
    if len(values.shape) != len(shape) or any(n not in (None, m) for n, m in zip(shape, values.shape)):
        what = f"shape {values.shape}" if values.ndim else type(answer).__name__
        raise ContractError(f"{returned}{what}, {expected}")
    holds = rule.holds(values)
    if not holds.all():
        at = tuple(np.argwhere(~holds)[0].tolist())
        where = "" if place is None else place(at)
        count = f"({int((~holds).sum())} of {holds.size})"
        raise ContractError(f"{returned}{values[at]:g}{where}, expected {rule.words} {count}")
    return values


def outside(error: BaseException) -> list[traceback.FrameSummary]:
    """Frames of an error that are in no file of ours."""
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if not frame.filename.startswith(_PACKAGE)]


def formatted(error: BaseException) -> str:
    """An error of the user's code in half a line: type, words, and the line it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    # what the simulator raised, because it was asked wrongly, came from the user's line
    last = (outside(error) if isinstance(error, WirelessdlError) else frames)[-1:]
    where = f" ({Path(last[0].filename).name} line {last[0].lineno})" if last else ""
    name, words = type(error).__name__, _words(error)
    if isinstance(error, ValueError) and "read-only" in words:  # as NumPy says it
        words += ": arrays of the simulator must not change; copy them first, as in d = links.distance_m.copy()"
    return f"{name}: {words}{where}" if words else f"{name}{where}"


def format_error(error: BaseException) -> str:
    """Type and words of an error of the user's code."""
    words = _words(error)
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _words(error: BaseException) -> str:
    try:
        return " ".join(str(error).split())
    except RAISED as second:  # in the error's own __str__
        return f"its __str__ raised {type(second).__name__}"
