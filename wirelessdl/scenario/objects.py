"""Parts that Python hands in: an object, its class, or `functools.partial` of the class.

    scenario.replace(channel=Street(exponent=2.5))       # an object
    scenario.replace(model=Net)                          # a class: built when the run is, as one from a file
    scenario.replace(model=partial(Net, width=32))       # the same with parameters

A scenario only holds names and numbers. A part enters it under a name that stands for it, with the arguments of its
constructor beside it, read from attributes of the same name; whether they make the same object is tried.

    street@3f2a9c0d.py:Street         its class can be imported: the run keeps a copy of the file, and resumes like a
                                      run that names a file
    Street-3f2a9c0d.object:Street     any other, as a class of a notebook: resuming needs it again, and is refused where
                                      it gives other values; all that only reads the run needs nothing

To worker processes either goes by cloudpickle. Nothing that a run directory holds is ever unpickled.
"""

import ast
import builtins
import copy
import functools
import hashlib
import inspect
import linecache
import math
import numbers
import re
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from wirelessdl.errors import ScenarioError, nearest, quote

# how a part is called where Python hands it in, and its key in a scenario
PART_KEYS = {
    "map": "network.map",
    "placement": "network.placement",
    "mobility": "network.mobility",
    "topology": "network.topology",
    "channel": "channel.models",
    "csi": "radio.csi",
    "access": "radio.access",
    "allocator": "power.allocator",
    "noise": "privacy.noise",
    "dataset": "learning.dataset",
    "features": "learning.features",
    "model": "learning.model",
    "partition": "learning.partition",
    "learning_rate": "learning.learning_rate",
    "update": "learning.update",
    "robust": "learning.robust",
    "compute": "time.compute",
    "policy": "time.policy",
    "crashes": "faults.crashes",
    "blockage": "faults.blockage",
    "stragglers": "faults.stragglers",
    "jammer": "faults.jammer",
    "byzantine": "faults.byzantine",
    "processes": "events.processes",
}
_LIST, _PROCESSES = "channel.models", "events.processes"  # the keys that hold several parts
_NAMES = ("kind", "model")
_OBJECT = ".object"
_DATA = ("numpy", "pandas")  # libraries whose classes are no parts


@dataclass(frozen=True, eq=False)
class UserPart:
    """A part that was handed in.

    name: as the scenario writes it. target: what constructs it, a class or a partial of one. instance: the object, if
    one was given. parameters: what its constructor is called with, as far as that is known. source: the file that
    defines the class; of a class that cannot be imported its lines, to be read, if they are found. why: what keeps file
    and parameters from making it again; empty where nothing does. repeatable: whether the parameters are all that its
    constructor was called with.
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
        return f"{self.class_name}.py" if self.why else self.name.rpartition(":")[0]

    def unchanged(self, parameters: Mapping[str, Any]) -> bool:
        """Whether a scenario asks for the object as it was given."""
        return dict(parameters) == dict(self.parameters)

    def fresh(self) -> tuple[Any, str]:
        """A copy of the object for one run, and why it could not be copied; then it is the object itself."""
        try:
            return copy.deepcopy(self.instance), ""
        except Exception as error:  # a lock, an open file: whatever an attribute may raise
            return self.instance, f"{type(error).__name__}: {quote(error, 80)}"


def keyword_of(where: str) -> str:
    """How the part under a key is called where Python hands it in."""
    return {key: word for word, key in PART_KEYS.items()}.get(where.partition("[")[0], where)


def is_lost_object(name: str) -> bool:
    """Whether a scenario names an object that no file can make again."""
    return _OBJECT in name.rpartition(":")[0]


def stream_name(name: str) -> str:
    """The key of a part's random numbers: its name; of one handed in its class, so that a comment changes no draw."""
    file, _, class_name = name.rpartition(":")
    handed_in = rf"[^/]+@[0-9a-f]{{8}}\.py|{re.escape(class_name)}-[0-9a-f]{{8}}\.object(-\d+)?"
    return class_name if re.fullmatch(handed_in, file) else name


def unnumbered(name: str) -> str:
    """A name without what tells objects of one class apart, which depends on what else a session handed in."""
    return re.sub(rf"{re.escape(_OBJECT)}-\d+:", f"{_OBJECT}:", name)


def part_overrides(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Parts by the words that Python uses as values by key; None leaves the scenario's own."""
    for word in parts:
        if word not in PART_KEYS:
            hint = nearest(word, PART_KEYS)
            keys = f"{hint} Values" if "did you" in hint else "; values"
            raise ScenarioError(
                f'a scenario has no part {quote(word)}{keys} of keys go into overrides={{"scenario.rounds": 100}}'
            )
    found = {PART_KEYS[word]: value for word, value in parts.items() if value is not None}
    for key in (_LIST, _PROCESSES):
        if key in found and not isinstance(found[key], list | tuple):
            found[key] = [found[key]]
    return found


def named_objects(parts: Mapping[str, Any]) -> dict[str, UserPart]:
    """Parts by the words that Python uses as objects by the names that stand for them."""
    objects: dict[str, UserPart] = {}
    for key, value in part_overrides(parts).items():
        plain_value(key, value, objects)
    return objects


def plain_value(where: str, value: Any, objects: dict[str, UserPart]) -> Any:
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


def _plain_table(where: str, value: Mapping[Any, Any], objects: dict[str, UserPart]) -> dict[str, Any]:
    """A table; under `kind` or `model` there may be a class, whose parameters stand beside it."""
    name = next((name for name in _NAMES if name in value), None)
    if name is None or isinstance(value[name], str):
        return {str(key): plain_value(f"{where}.{key}", item, objects) for key, item in value.items()}
    beside = {str(key): plain_value(f"{where}.{key}", item, objects) for key, item in value.items() if key != name}
    return {**_table(handed_in(where, value[name], objects)), **beside}


def _table(given: UserPart) -> dict[str, Any]:
    return {"model": given.name, **given.parameters}


def handed_in(where: str, value: Any, objects: dict[str, UserPart]) -> UserPart:
    """An object, class or partial, named and kept; a built-in one is named as in a file, and nothing need be kept."""
    given = _given(where, value)
    if given.is_built_in:
        return given
    stem, number = given.name.rpartition(":")[0], 1
    while given.why and (other := objects.get(given.name)) is not None and not _stands_for(other, given):
        number += 1
        given = replace(given, name=f"{stem}-{number}:{given.class_name}")
    objects[given.name] = given
    return given


def _stands_for(one: UserPart, other: UserPart) -> bool:
    """Whether one name does for two parts: of one class, and told apart by their parameters if at all."""
    return one.target is other.target and (one.instance is other.instance or (one.repeatable and other.repeatable))


def _given(where: str, value: Any) -> UserPart:
    function = value.func if isinstance(value, functools.partial) else value
    if where.startswith(_PROCESSES) and inspect.isfunction(function) and function.__name__.isidentifier():
        return _named(value, function)  # a generator function is a process
    target = value.func if isinstance(value, functools.partial) else value if inspect.isclass(value) else type(value)
    if not inspect.isclass(target) or inspect.isroutine(value) or inspect.ismodule(value) or _is_data(target):
        what = getattr(value, "__name__", type(value).__name__)
        kind = "function" if inspect.isroutine(value) or not inspect.isclass(target) else type(value).__name__
        raise ScenarioError(
            f"{where} is the {kind} {quote(what, 60)}; must be an object with the part's method, its class, a "
            "functools.partial of the class, or the name of a model"
        )
    if not target.__name__.isidentifier():
        raise ScenarioError(f"{where} is of the class {quote(target.__name__, 60)}; a class needs a name")
    return _named(value, target)


def _named(value: Any, target: Any) -> UserPart:
    """A part by the class or function behind it."""
    instance = None if isinstance(value, functools.partial) or value is target else value
    try:
        parameters, unknown = ({}, "") if value is target else _arguments(value, target)
    except ScenarioError:
        raise
    except Exception as error:  # attributes may raise anything
        parameters, unknown = {}, f"reading its attributes raised {type(error).__name__}"
    title, source, why = target.__name__, None, ""
    if _is_built_in(target):
        title = vars(target)["scenario_name"]
        if not unknown:
            return UserPart(title, target, parameters=parameters)
    else:
        source, why = _source(target)
    if why or unknown:
        name = f"{title}-{_digest(f'{target.__module__}.{target.__qualname__}')}{_OBJECT}:{title}"
        made_by = value if unknown and instance is None else target
        return UserPart(name, made_by, instance, parameters, source, quote(unknown or why, 200), not unknown)
    stem = Path(inspect.getfile(target)).stem
    return UserPart(f"{stem}@{_digest(source or '')}.py:{title}", target, instance, parameters, source)


def _is_built_in(target: type) -> bool:
    return "scenario_name" in vars(target)  # not of a class derived from it


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _source(target: type) -> tuple[str | None, str]:
    """The file of a class, or its lines where no copy of the file can be imported; and why it cannot be."""
    module = sys.modules.get(target.__module__)
    if target.__module__ == "__main__":
        return source_text(target), "its class is of a notebook or script, which cannot be imported"
    if module is None or vars(module).get(target.__name__) is not target:
        return source_text(target), f"{target.__module__} has no {target.__name__} that can be imported"
    try:
        text = Path(inspect.getfile(module)).read_bytes().decode()
        tree = ast.parse(text)
    except (OSError, TypeError, ValueError, SyntaxError):  # compiled, or edited since
        return None, f"{target.__module__} is no file that can be read"
    if any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree)):
        return text, f"{target.__module__} imports from the package around it"
    return text, ""


def source_text(value: Any) -> str | None:
    """The lines of a class or function, as a file or a notebook keeps them; to be read, never to be run."""
    try:
        parts = vars(value).values() if inspect.isclass(value) else ()
        code = next((part.__code__ for part in parts if inspect.isfunction(part)), None)
        if code is None:
            return textwrap.dedent(inspect.getsource(value))
        text = "".join(linecache.getlines(code.co_filename))  # inspect finds no class of a notebook before Python 3.13
        found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
        around = [node for node in found if node.lineno <= code.co_firstlineno <= (node.end_lineno or 0)]
        return ast.get_source_segment(text, next(node for node in around if node.name == value.__name__))
    except Exception:  # a prompt keeps no lines; a file may be anything by now
        return None


def _is_data(target: type) -> bool:
    """Whether a type holds values and is no part: an array, a set, a frame."""
    return getattr(builtins, target.__name__, None) is target or target.__module__.partition(".")[0] in _DATA


def _arguments(value: Any, target: Any) -> tuple[dict[str, Any], str]:
    """What a constructor is, or was, called with, by name; or why a scenario cannot say it."""
    if isinstance(value, functools.partial):
        return _held(_bound(target, value.args, value.keywords))
    if callable(getattr(value, "state_dict", None)):
        return {}, "it holds weights of its own"
    if _is_built_in(target):
        parameters, unknown = _held(_bound(target, *value.made_with))
    else:
        parameters, unknown = _attributes(value, target)
    if unknown:
        return {}, unknown
    try:
        again = target(**parameters)
    except Exception as error:  # of the user's code
        return {}, f"{target.__name__}(...) raised {type(error).__name__} when it was made again"
    different = _difference(value, again)
    return ({}, f"its attribute {different} is not what its constructor makes") if different else (parameters, "")


def _bound(target: Any, given: tuple[Any, ...], named: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return inspect.signature(target).bind_partial(*given, **named).arguments
    except TypeError as error:
        raise ScenarioError(f"functools.partial of {target.__name__}: {error}") from None


def _attributes(instance: Any, target: Any) -> tuple[dict[str, Any], str]:
    """Arguments of the constructor of an object by attributes of the same name; defaults need none."""
    try:
        accepted = {} if target.__init__ is object.__init__ else inspect.signature(target).parameters
    except (TypeError, ValueError):
        return {}, "its constructor has no signature"
    found = {}
    for name, parameter in accepted.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            return {}, f"its constructor takes *{name}"
        if hasattr(instance, name):
            found[name] = getattr(instance, name)
        elif parameter.default is parameter.empty:
            return {}, f"its argument {name} is no attribute of that name"
    return _held(found)


def _held(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Arguments as a scenario holds them, without those that are None; or which of them it cannot hold."""
    found = {name: _holdable(value) for name, value in arguments.items() if value is not None}
    unknown = next((name for name, item in found.items() if item is None), None)
    if unknown is None:
        return found, ""
    value = arguments[unknown]
    kind = "an array" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
    return {}, f"its argument {unknown} is {kind}"


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
    """The first attribute in which two objects differ, or that cannot be compared; empty where none does."""
    from cloudpickle import dumps  # type: ignore[import-untyped]

    mine, theirs = _state(one), _state(other)
    for name in {**mine, **theirs}:
        try:
            if name not in mine or name not in theirs or dumps(mine[name]) != dumps(theirs[name]):
                return str(name)
        except Exception:  # a lock, an open file: whatever an attribute may raise
            return str(name)
    return ""


def _state(value: Any) -> dict[str, Any]:
    """Attributes by name, numbers of NumPy as those of Python; of a built-in one its settings, not its memory."""
    held = value.__getstate__()
    parts = held if isinstance(held, tuple) else (held,)  # with __slots__ a pair
    found = {name: item for part in parts for name, item in (part or {}).items()}
    if _is_built_in(type(value)):
        return {name: _simple(item) for name, item in found.items() if name[0] != "_" and _simple(item) is not None}
    return {name: item.item() if isinstance(item, np.generic) else item for name, item in found.items()}
