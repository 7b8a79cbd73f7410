"""A part: a named model with its parameters, as a scenario writes it.

    topology = { kind = "erdos-renyi", p = 0.4 }
    { model = "channel_models/street.py:Street", exponent = 3.1 }

The scenario only keeps name and parameters. `Catalog.build` finds the class, built-in or the user's,
and checks the parameters against its `__init__` signature: one rule for both.
"""

import hashlib
import importlib.abc
import importlib.util
import inspect
import json
import math
import re
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path, PurePath
from types import ModuleType
from typing import Annotated, Any, ClassVar, get_type_hints

import numpy as np
import tomli_w
from annotated_types import MinLen
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue

from wirelessdl.contract import RAISED, Guard, format_error
from wirelessdl.errors import ScenarioError, nearest, quote, require_name
from wirelessdl.scenario.objects import UserPart, is_lost_object, keyword_of, unnumbered
from wirelessdl.scenario.section import explain

MODELS = "models"  # copies of the user's files, in a run directory
PROCESSES = "events.processes"  # the key whose parts may be functions: a generator function is a process
_TOML = (bool, int, float, str, list, tuple, dict)  # what a resolved scenario can spell out


class Part(BaseModel):
    """Name and parameters of a model; written as a table with `kind`, or as the bare name."""

    model_config = ConfigDict(frozen=True)
    key: ClassVar[str] = "kind"

    name: str
    parameters: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _from_table(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value, "parameters": {}}
        if not isinstance(value, Mapping):
            raise ValueError(f'must be a name or a table like {{ {cls.key} = "..." }}')
        table = dict(value)
        name = table.pop(next((key for key in (cls.key, "kind", "model") if key in table), cls.key), None)
        if not isinstance(name, str):
            raise ValueError(f"must name its {cls.key}")
        return {"name": name, "parameters": table}

    @property
    def is_user_class(self) -> bool:
        """Whether it names a class in a user's file."""
        return ":" in self.name

    @model_serializer
    def to_table(self) -> dict[str, Any]:
        return {self.key: self.name, **self.parameters}

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> JsonSchemaValue:
        table = {"type": "object", "properties": {cls.key: {"type": "string"}}, "required": [cls.key]}
        return {"anyOf": [{"type": "string"}, table], "title": cls.__name__}


# one part or several, held as a list; one is written as itself
PartOrList = Annotated[
    list[Part],
    MinLen(1),
    BeforeValidator(lambda value: value if isinstance(value, list) else [value]),
    PlainSerializer(lambda parts: parts[0].to_table() if len(parts) == 1 else [part.to_table() for part in parts]),
]


class Model(Part):
    """A part written with `model` instead of `kind`: channels and learners."""

    key: ClassVar[str] = "model"


class FamilyMember(Part):
    """A member of a family (`wirelessdl.families`): its keys stand beside it, so it is a bare name if built in."""

    @model_serializer
    def to_table(self) -> Any:
        return {self.key: self.name, **self.parameters} if self.parameters else self.name


@dataclass(frozen=True)
class UserFile:
    """A user's file that a scenario loads. content: of one that Python handed in."""

    name: str
    path: Path
    sha256: str
    content: bytes | None = None

    @classmethod
    def made(cls, name: str, text: str) -> "UserFile":
        """The source of a part that Python handed in."""
        content = text.encode()
        return cls(name, Path(name), hashlib.sha256(content).hexdigest(), content)

    @property
    def stored_name(self) -> str:
        """Its name among the copies that a run keeps: flat, whatever the scenario calls it, told apart by content."""
        bare = re.sub(r"[^A-Za-z0-9._-]", "_", PurePath(self.name).name)[-80:]
        return f"{self.sha256[:12]}-{bare}"


def stored_copies(run: Path) -> dict[str, Path]:
    """Copies of user files that a run directory keeps, by the names that its scenario gives them."""
    try:
        listed = json.loads((run / "provenance.json").read_text(encoding="utf-8"))["user_files"].items()
        files = [UserFile(name, run, sha256) for name, sha256 in listed if re.fullmatch("[0-9a-f]{64}", sha256)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return {file.name: run / MODELS / file.stored_name for file in files}


@dataclass
class Catalog:
    """Finds and builds parts, and remembers which files and the user's objects were used.

    objects: what Python handed in, by the names that stand for it. handed: which of them were built, by key.
    notes: what a user should know of them.
    """

    origin: str
    folders: tuple[Path, ...]
    copies: Mapping[str, Path] = field(default_factory=dict)  # looked for last, by name
    objects: Mapping[str, UserPart] = field(default_factory=dict)
    files: dict[str, UserFile] = field(default_factory=dict)
    handed: dict[str, UserPart] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _modules: dict[Path, ModuleType] = field(default_factory=dict)
    _siblings: dict[str, ModuleType] = field(default_factory=dict)

    def build(self, where: str, part: Part, known: Mapping[str, Any], **given: Any) -> tuple[Any, Part]:
        """The object a part describes, and the part with every parameter spelled out.

        known: built-in classes by name. given: what the simulator supplies where the class asks for it.
        """
        handed = self._handed(part.name)
        if handed is not None:
            self.handed[where] = handed
            if handed.source is not None and not handed.why:
                self.files[handed.file_name] = UserFile.made(handed.file_name, handed.source)
            if handed.instance is not None and handed.unchanged(part.parameters):
                return self._copied(where, part, handed)
            self._require_repeatable(where, part, handed)
        target = self.find(where, part, known)
        if inspect.isfunction(target) and where.startswith(PROCESSES):
            given = dict.fromkeys(("env", "network", "rng"))
            named = self._parameters(where, part, target, given)
            try:
                inspect.signature(target).bind(*given, **named)
            except TypeError:
                signature = f"{target.__name__}{inspect.signature(target)}"
                raise ScenarioError(
                    f'{self.origin}: {where}.{part.key} is "{part.name}"; its function {signature} must take '
                    "env, network, rng first"
                ) from None
            return partial(target, **named), type(part)(**{part.key: part.name, **named})
        if not inspect.isclass(target) and handed is None:
            raise ScenarioError(f'{self.origin}: {where}.{part.key} is "{part.name}"; must name a class')
        try:
            accepted = _accepted(target)
        except (TypeError, ValueError):  # of a built-in type of Python
            raise ScenarioError(
                f"{self.origin}: {where}: {part.name} does not say which parameters it takes; give it an __init__"
            ) from None
        parameters = self._parameters(where, part, target, given)
        supplied = {name: value for name, value in given.items() if name in accepted and name not in parameters}
        guard = Guard(
            f"{self.origin}: {where}: {part.name}",
            is_user_class=part.is_user_class,
            error=ScenarioError,
            built_in=f"{self.origin}: {where}.",
            built_in_error=ScenarioError,
        )
        try:
            with guard:
                built = target(**parameters, **supplied)
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, MemoryError) or "allocate" in str(error):  # as torch says it
                raise ScenarioError(
                    f"{self.origin}: {where}: {part.name} does not fit into memory; make it smaller"
                ) from error
            raise
        kept = {name: value for name, value in parameters.items() if isinstance(value, _TOML)}
        for name, value in kept.items():
            try:
                tomli_w.dumps({name: value}).encode()
            except (TypeError, ValueError, AttributeError, RecursionError):
                raise ScenarioError(
                    f"{self.origin}: {where}.{name} is {quote(repr(value), 60)}; a scenario cannot spell it out: "
                    "must be made of numbers, texts, true, false, lists, and tables with texts as keys"
                ) from None
        return built, type(part)(**{part.key: part.name, **kept})

    def _handed(self, name: str) -> UserPart | None:
        """The object that a name stands for; where a session has only one of its class, that one."""
        if name in self.objects or not is_lost_object(name):
            return self.objects.get(name)
        alike = [given for other, given in self.objects.items() if unnumbered(other) == unnumbered(name)]
        return alike[0] if len(alike) == 1 else None

    def _copied(self, where: str, part: Part, handed: UserPart) -> tuple[Any, Part]:
        """The object as it was given: a copy, so that what it remembers ends with the run."""
        built, problem = handed.fresh()
        if problem:
            self.notes.append(
                f"{where}: {handed.class_name} cannot be copied ({problem}): the run uses the object itself, and what "
                "it remembers passes to the next run"
            )
        return built, type(part)(**{part.key: part.name, **handed.parameters})

    def _require_repeatable(self, where: str, part: Part, handed: UserPart) -> None:
        """Raise where an object whose parameters the scenario changes cannot be made anew by its class."""
        if handed.instance is None or handed.repeatable:
            return
        key = next(key for key in part.parameters if handed.parameters.get(key) != part.parameters[key])
        raise ScenarioError(
            f"{self.origin}: {where}.{key} is {quote(part.parameters[key], 40)}; {handed.class_name} was given as an "
            f"object that cannot be made anew ({handed.why}): give functools.partial({handed.class_name}, ...)"
        )

    def find(self, where: str, part: Part, known: Mapping[str, Any]) -> Any:
        """The class that a part names."""
        handed = self._handed(part.name)
        if handed is not None:
            return handed.target
        if is_lost_object(part.name):
            raise ScenarioError(
                f'{self.origin}: {where} is "{part.name}", an object that no file can make again; hand it in: '
                f"{keyword_of(where)}=... of simulate, resume, sweep and learner"
            )
        if part.is_user_class:
            return self._from_file(where, part)
        if part.name not in known:
            raise ScenarioError(
                f'{self.origin}: {where}.{part.key} is "{part.name}"; no such {part.key}{nearest(part.name, known)}'
            )
        return known[part.name]

    def _parameters(self, where: str, part: Part, target: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        # what the simulator supplies may be said in the scenario: by a user's class, and a model's own carrier
        kept = part.parameters if part.is_user_class else part.parameters.keys() & {"frequency_hz"}
        accepted = {name: p for name, p in _accepted(target).items() if name not in given or name in kept}
        hints = type_hints(target)
        for name in part.parameters:
            if name not in accepted:
                hint = nearest(name, accepted) or f"; {part.name} takes no parameters"
                raise ScenarioError(f"{self.origin}: unknown key {where}.{name}{hint}")
        values = {}
        for name, parameter in accepted.items():
            if name not in part.parameters:
                if parameter.default is parameter.empty:
                    raise ScenarioError(f"{self.origin}: missing key {where}.{name}; {part.name} needs it")
                if parameter.default is not None:  # TOML has no null: absent stays absent
                    values[name] = parameter.default
                continue
            value = part.parameters[name]
            # a resolved scenario spells out defaults, whatever they are
            if isinstance(value, float) and not math.isfinite(value) and not _same(value, parameter.default):
                raise ScenarioError(f"{self.origin}: {where}.{name} is {value}; must be a finite number")
            try:
                values[name] = TypeAdapter(hints.get(name, Any)).validate_python(value)
            except ValidationError as error:
                raise ScenarioError(f"{self.origin}: {where}.{name} is {value!r}; {explain(error.errors())}") from None
        return values

    def _from_file(self, where: str, part: Part) -> Any:
        file_name, _, class_name = part.name.rpartition(":")
        path = self._located(file_name)
        key = f"{self.origin}: {where}.{part.key}"
        if path is None:
            raise ScenarioError(f'{key} is "{part.name}"; no file {file_name} in {self._looked_in}')
        module = self._import(key, file_name, path.resolve())
        if not hasattr(module, class_name):
            defined = [n for n, v in vars(module).items() if inspect.isclass(v) and v.__module__ == module.__name__]
            raise ScenarioError(
                f'{key} is "{part.name}"; {file_name} has no {class_name}{nearest(class_name, defined)}'
            )
        return getattr(module, class_name)

    def find_file(self, name: str) -> Path:
        """Where a data file that a part reads lies; remembered, so that the run keeps a copy."""
        path = self._located(name)
        if path is None:
            raise ValueError(f'file is "{name}"; no such file in {self._looked_in}')
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ValueError(f'file is "{name}"; {path} cannot be read: {error.strerror}') from None
        self.files[name] = UserFile(name, path.absolute(), hashlib.sha256(content).hexdigest())
        return path

    def _located(self, file_name: str) -> Path | None:
        require_name(file_name, ScenarioError)
        places = [folder / file_name for folder in self.folders]
        if file_name in self.copies:  # a run may have moved to where its files lie elsewhere
            places += [*(folder / Path(file_name).name for folder in self.folders), self.copies[file_name]]
        return next((place for place in places if place.is_file()), None)

    @property
    def _looked_in(self) -> str:
        return ", ".join(dict.fromkeys(str(folder) for folder in self.folders))

    def _import(self, key: str, file_name: str, path: Path) -> ModuleType:
        if path in self._modules:
            return self._modules[path]
        content = path.read_bytes()
        spec = importlib.util.spec_from_file_location(f"wirelessdl_user_{path.stem}", path)
        if spec is None or spec.loader is None:
            raise ScenarioError(f"{key} names {file_name}, which is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        try:
            with _Siblings(self, file_name, path), np.errstate():  # what the file sets of NumPy's errors ends with it
                spec.loader.exec_module(module)
        except RAISED as error:
            frames = traceback.extract_tb(error.__traceback__)
            line = next(
                (f.lineno for f in reversed(frames) if Path(f.filename) == path),
                getattr(error, "lineno", "?"),
            )
            raise ScenarioError(f"{key}: {file_name} line {line} raised {format_error(error)}") from error
        self._modules[path] = module
        self.files[file_name] = UserFile(file_name, path, hashlib.sha256(content).hexdigest())
        return module


class _Siblings(importlib.abc.MetaPathFinder):
    """Lets a user's file import modules that lie beside it, as a script can; the run keeps a copy of each.

    Names of the standard library stay Python's. Files of another scenario may have siblings of the same name: those are
    put aside.
    """

    _left: ClassVar[set[str]] = set()  # names in sys.modules that were found so

    def __init__(self, catalog: Catalog, file_name: str, path: Path):
        self._catalog, self._folder, self._beside = catalog, PurePath(file_name).parent, path.parent

    def __enter__(self) -> None:
        for name in self._left:
            sys.modules.pop(name, None)
        sys.modules.update(self._catalog._siblings)
        sys.meta_path.insert(0, self)

    def __exit__(self, *_: object) -> None:
        sys.meta_path.remove(self)
        self._catalog._siblings.update({name: sys.modules[name] for name in self._left if name in sys.modules})

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        if name.partition(".")[0] in sys.stdlib_module_names:
            return None
        stem = PurePath(*name.split("."))
        for inside in (stem.with_suffix(".py"), stem / "__init__.py"):
            kept_name = (self._folder / inside).as_posix()
            path = self._beside / inside
            if not path.is_file():  # where the file itself is the run's copy
                path = self._catalog.copies.get(kept_name, path)
            if path.is_file():
                self._left.add(name)
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                self._catalog.files[kept_name] = UserFile(kept_name, path.absolute(), digest)
                package = [str(path.parent)] if inside.name == "__init__.py" else None
                return importlib.util.spec_from_file_location(name, path, submodule_search_locations=package)
        return None


def _same(value: float, default: object) -> bool:
    return isinstance(default, float) and (value == default or (math.isnan(value) and math.isnan(default)))


def type_hints(target: Any) -> dict[str, Any]:
    """Type hints of a class's constructor, as far as they can be resolved."""
    try:
        return get_type_hints(target if inspect.isfunction(target) else target.__init__, include_extras=True)
    except Exception:  # an annotation that only a type checker understands
        return {}


def _accepted(target: Any) -> dict[str, inspect.Parameter]:
    """Parameters a class takes by keyword."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if inspect.isclass(target) and target.__init__ is object.__init__:
        return {}
    return {name: p for name, p in inspect.signature(target).parameters.items() if p.kind in kinds}
