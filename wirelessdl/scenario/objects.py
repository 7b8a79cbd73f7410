"""Parts that Python hands in: an object, its class, or `functools.partial` of the class.

    scenario.replace(channel=Street(exponent=2.5))       # an object
    scenario.replace(model=Net)                          # a class: built when the run is, as one from a file
    scenario.replace(model=partial(Net, width=32))       # the same with parameters

A scenario only holds names and numbers. An object enters it as `Street-3f2a9c0d.py:Street` with the arguments of its
constructor beside it, and the scenario keeps the object under that name. The file is made from the source of the class
and stored in the run, so that the run can be resumed like one that names a file. Arguments are read from attributes of
the same name; whether they make the same object is tried. Where they do not, or where there is no source, the name is
`Street-3f2a9c0d.object:Street`: resuming needs the object again, all that only reads the run needs nothing.
"""

import builtins
import copy
import functools
import hashlib
import inspect
import math
import numbers
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from wirelessdl.errors import ScenarioError, nearest, shown
from wirelessdl.scenario.source import SourceNotFound, load_source, source_of

# how a part is called where Python hands it in, and its key in a scenario
PART_KEYS = {
    "map": "network.map",
    "placement": "network.placement",
    "mobility": "network.mobility",
    "topology": "network.topology",
    "channel": "channel.models",
    "csi": "radio.csi",
    "allocator": "power.allocator",
    "dataset": "learning.dataset",
    "features": "learning.features",
    "model": "learning.model",
    "partition": "learning.partition",
    "learning_rate": "learning.learning_rate",
    "compute": "time.compute",
    "policy": "time.policy",
    "crashes": "faults.crashes",
    "blockage": "faults.blockage",
    "stragglers": "faults.stragglers",
    "jammer": "faults.jammer",
}
_LIST = "channel.models"  # the one key that holds several parts
_NAMES = ("kind", "model")
_OBJECT = ".object"
_DATA = ("numpy", "pandas")  # libraries whose classes are no parts
_DEEPEST = 8  # objects within each other that are compared


@dataclass(frozen=True, eq=False)
class Given:
    """A part that was handed in.

    name: as the scenario writes it. target: what constructs it, a class or a partial of one. instance: the object, if
    one was given. parameters: what its constructor is called with, as far as that is known. source: a file that
    defines the class, if there is one. why: what keeps it from being made again by that file and the parameters; empty
    where nothing does. repeatable: whether the parameters are all that its constructor was called with.
    """

    name: str
    target: Any
    instance: Any = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None
    why: str = ""
    repeatable: bool = True

    @property
    def is_built_in(self) -> bool:
        """Whether its name and parameters are those that a scenario file would have."""
        return ":" not in self.name

    @property
    def class_name(self) -> str:
        return self.name.rpartition(":")[2]

    @property
    def file_name(self) -> str:
        """What its source is called in a run."""
        return self.name.rpartition(":")[0].partition(_OBJECT)[0].removesuffix(".py") + ".py"

    def unchanged(self, parameters: Mapping[str, Any]) -> bool:
        """Whether a scenario asks for the object as it was given."""
        return all(key in self.parameters and self.parameters[key] == value for key, value in parameters.items())

    def fresh(self) -> tuple[Any, str]:
        """A copy of the object for one run, and why it could not be copied; then it is the object itself."""
        try:
            return copy.deepcopy(self.instance), ""
        except Exception as error:  # a lock, an open file: whatever an attribute may raise
            return self.instance, f"{type(error).__name__}: {shown(error, 80)}"


def keyword_of(where: str) -> str:
    """How the part under a key is called where Python hands it in."""
    return {key: word for word, key in PART_KEYS.items()}.get(where.partition("[")[0], where)


def is_lost_object(name: str) -> bool:
    """Whether a scenario names an object that no file can make again."""
    return _OBJECT in name.rpartition(":")[0]


def stream_name(name: str) -> str:
    """The key of a part's random numbers: its name; of an object its class, so that a comment in it changes no draw."""
    file, _, class_name = name.rpartition(":")
    return class_name if re.fullmatch(rf"{re.escape(class_name)}-[0-9a-f]{{8}}(\.py|\.object(-\d+)?)", file) else name


def part_overrides(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Parts by the words that Python uses as values by key; None leaves the scenario's own."""
    for word in parts:
        if word not in PART_KEYS:
            keys = '; values of keys go into overrides={"scenario.rounds": 100}'
            hint = nearest(word, PART_KEYS)
            raise ScenarioError(f"a scenario has no part {shown(word)}{hint if 'did you' in hint else keys}")
    found = {PART_KEYS[word]: value for word, value in parts.items() if value is not None}
    if _LIST in found and not isinstance(found[_LIST], list | tuple):
        found[_LIST] = [found[_LIST]]
    return found


def plain_value(where: str, value: Any, objects: dict[str, Given]) -> Any:
    """A value as a scenario holds it; objects in it are kept by the name that stands for them."""
    if isinstance(value, list | tuple):
        if where == _LIST:  # `a >> b` in a list stands for its models
            value = [part for item in value for part in (item if isinstance(item, tuple) else (item,))]
        return [plain_value(f"{where}[{n}]", item, objects) for n, item in enumerate(value)]
    if isinstance(value, Mapping):
        return _plain_table(where, value, objects)
    if value is None:
        raise ScenarioError(f"{where} is None; leave it out for what the scenario says")
    simple = _simple(value)
    return simple if simple is not None else _table(handed_in(where, value, objects))


def _plain_table(where: str, value: Mapping[Any, Any], objects: dict[str, Given]) -> dict[str, Any]:
    """A table; under `kind` or `model` there may be a class, whose parameters stand beside it."""
    name = next((name for name in _NAMES if name in value), None)
    if name is None or isinstance(value[name], str):
        return {str(key): plain_value(f"{where}.{key}", item, objects) for key, item in value.items()}
    beside = {str(key): plain_value(f"{where}.{key}", item, objects) for key, item in value.items() if key != name}
    return {**_table(handed_in(where, value[name], objects)), **beside}


def _table(given: Given) -> dict[str, Any]:
    return {"model": given.name, **given.parameters}


def handed_in(where: str, value: Any, objects: dict[str, Given]) -> Given:
    """An object, class or partial, named and kept; a built-in one is named as in a file, and nothing need be kept."""
    given = _given(where, value)
    if given.is_built_in:
        return given
    if given.why:  # two objects of one class are told apart by a number, the same one is itself again
        stem, number = given.name.rpartition(":")[0], 1
        while (other := objects.get(given.name)) is not None and other.instance is not given.instance:
            number += 1
            given = replace(given, name=f"{stem}-{number}:{given.class_name}")
    objects[given.name] = given
    return given


def _given(where: str, value: Any) -> Given:
    target = value.func if isinstance(value, functools.partial) else value if inspect.isclass(value) else type(value)
    if not inspect.isclass(target) or inspect.isroutine(value) or inspect.ismodule(value) or _is_data(target):
        what = getattr(value, "__name__", type(value).__name__)
        kind = "function" if inspect.isroutine(value) or not inspect.isclass(target) else type(value).__name__
        raise ScenarioError(
            f"{where} is the {kind} {shown(what, 60)}; must be an object with the part's method, its class, a "
            "functools.partial of the class, or the name of a model"
        )
    title = target.__name__
    if not title.isidentifier():
        raise ScenarioError(f"{where} is of the class {shown(title, 60)}; a class needs a name")
    if "scenario_name" in vars(target):  # not of a class derived from it
        return _built_in(target, value)
    source, why = None, ""
    try:
        source = source_of(target)
    except SourceNotFound as error:
        why = f"no source: {error}"
    digest = hashlib.sha256((source or f"{target.__module__}.{target.__qualname__}").encode()).hexdigest()[:8]
    if isinstance(value, functools.partial):
        parameters, unknown = _bound(value)
        target, instance = (value, None) if unknown else (target, None)
        parameters = {} if unknown else parameters
    elif inspect.isclass(value):
        parameters, unknown, instance = {}, "", None
    else:
        instance = value
        try:
            parameters, unknown = _arguments(value, source)
        except Exception as error:  # attributes may raise anything
            parameters, unknown = {}, f"reading its attributes raised {type(error).__name__}"
    why = shown(why or unknown, 200)
    name = f"{title}-{digest}{_OBJECT if why else '.py'}:{title}"
    return Given(name, target, instance, parameters, source, why, repeatable=not unknown)


def _built_in(target: Any, value: Any) -> Given:
    """A built-in model: its name in a scenario and the arguments of its constructor, if a scenario can hold them.

    What it remembers is not among them; one whose settings were changed afterwards is kept as an object.
    """
    name, instance, made_by = target.scenario_name, None, value
    if inspect.isclass(value):
        return Given(name, target)
    if not isinstance(value, functools.partial):
        given, named = value.made_with
        instance, made_by = value, functools.partial(target, *given, **named)
    parameters, why = _bound(made_by)
    if instance is not None and not why:
        again = vars(made_by())
        changed = [key for key, item in vars(value).items() if _is_setting(key, item) and item != again.get(key)]
        why = f"its attribute {changed[0]} was changed" if changed else ""
    if not why:
        return Given(name, target, parameters=parameters)
    digest = hashlib.sha256(f"{target.__module__}.{target.__qualname__}".encode()).hexdigest()[:8]
    target = target if instance is not None else made_by
    return Given(f"{name}-{digest}{_OBJECT}:{name}", target, instance, why=shown(why, 200), repeatable=False)


def _is_setting(name: str, value: Any) -> bool:
    return not name.startswith("_") and _simple(value) is not None


def _is_data(target: type) -> bool:
    """Whether a type holds values and is no part: an array, a set, a frame."""
    return getattr(builtins, target.__name__, None) is target or target.__module__.partition(".")[0] in _DATA


def _bound(value: "functools.partial[Any]") -> tuple[dict[str, Any], str]:
    """Arguments of a partial by name, and which of them a scenario cannot hold."""
    try:
        given = inspect.signature(value.func).bind_partial(*value.args, **value.keywords).arguments
    except TypeError as error:
        raise ScenarioError(f"functools.partial of {value.func.__name__}: {error}") from None
    found = {name: _holdable(item) for name, item in given.items() if item is not None}
    unknown = next((name for name, item in found.items() if item is None), "")
    why = f"its argument {unknown} is {_an(given[unknown])}" if unknown else ""
    return {name: item for name, item in found.items() if item is not None}, why


def _arguments(instance: Any, source: str | None) -> tuple[dict[str, Any], str]:
    """What the constructor of an object was called with, by attributes of the same name; and what is unknown."""
    target, found = type(instance), {}
    if callable(getattr(instance, "state_dict", None)):
        return {}, "it holds weights of its own"
    names = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    plain_class = target.__init__ is object.__init__
    try:
        accepted = {} if plain_class else inspect.signature(target).parameters
    except (TypeError, ValueError):
        return {}, "its constructor has no signature"
    for name, parameter in accepted.items():
        if parameter.kind not in names:
            return {}, f"its constructor takes *{name}"
        if not hasattr(instance, name):
            if parameter.default is parameter.empty:
                return {}, f"its argument {name} is no attribute of that name"
            continue
        value = getattr(instance, name)
        if value is None and parameter.default is None:
            continue
        simple = _holdable(value)
        if simple is None:
            return {}, f"its argument {name} is {_an(value)}"
        found[name] = simple
    if source is None:
        return found, ""
    try:
        again = load_source(source, target.__name__, "wirelessdl_excerpt")(**found)
    except Exception as error:  # of the user's code
        return {}, f"{target.__name__}(...) raised {type(error).__name__} when it was made again"
    different = _difference(instance, again)
    return ({}, f"its attribute {different} is not what its constructor makes") if different else (found, "")


def _an(value: Any) -> str:
    return "an array" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"


def _simple(value: Any) -> Any:
    """A number or text as TOML has it; None for anything else."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return str(value) if isinstance(value, Path) else None


def _holdable(value: Any) -> Any:
    """A parameter as a scenario can hold it, None where it cannot."""
    if isinstance(value, list | tuple):
        items = [_holdable(item) for item in value]
        return None if any(item is None for item in items) else items
    if isinstance(value, Mapping):
        table = {key: _holdable(item) for key, item in value.items()}
        return table if all(isinstance(k, str) and v is not None for k, v in table.items()) else None
    simple = _simple(value)
    return None if isinstance(simple, float) and not math.isfinite(simple) else simple


def _difference(one: Any, other: Any) -> str:
    """The first attribute in which two objects differ; empty where none does."""
    mine, theirs = _state(one), _state(other)
    for name in [*mine, *(name for name in theirs if name not in mine)]:
        if name not in mine or name not in theirs or not _alike(mine[name], theirs[name], 0):
            return str(name)
    return ""


def _state(value: Any) -> dict[str, Any]:
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if hasattr(value, name)]
    return {**getattr(value, "__dict__", {}), **{name: getattr(value, name) for name in slots if name != "__dict__"}}


def _alike(one: Any, other: Any, depth: int) -> bool:
    """Whether two values are equal, by content; objects of equally named classes by their attributes."""
    if one is other:
        return True
    if isinstance(one, numbers.Number | np.generic) and isinstance(other, numbers.Number | np.generic):
        return bool(one == other)  # a float of NumPy comes back as a float
    if depth > _DEEPEST or type(one).__qualname__ != type(other).__qualname__:
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(_alike(a, b, depth + 1) for a, b in zip(one, other))
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_alike(one[key], other[key], depth + 1) for key in one)
    if isinstance(one, np.random.Generator):
        return _alike(one.bit_generator.state, other.bit_generator.state, depth + 1)
    if callable(one):
        return False
    try:
        if bool(one == other):
            return True
    except Exception:  # of the user's __eq__, or of an array of another kind
        return False
    mine, theirs = _state(one), _state(other)
    return bool(mine) and mine.keys() == theirs.keys() and all(_alike(mine[k], theirs[k], depth + 1) for k in mine)
