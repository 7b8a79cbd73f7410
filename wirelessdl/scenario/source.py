"""The source of a class that was handed in as an object, with all that it needs, as one Python file.

A class of a notebook or a script has no file that could be imported again: the script would run a second time. So the
lines of the class are taken, then those of the functions, classes and constants of its own module that it names, and
an import for every other name. What is found is run and compared with the class: a file that was edited after its
import is noticed.

Not found are: classes that were typed at a prompt which keeps no source, classes within a function that use its
variables, lambdas, and names whose values only the session knows, such as an array.
"""

import ast
import dis
import inspect
import linecache
import symtable
import sys
import textwrap
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import Any

_LONGEST = 10_000  # characters of a constant
_FUTURE_ANNOTATIONS = 0x1000000  # flag of code below `from __future__ import annotations`


class SourceNotFound(Exception):
    """Why a class has no source of its own, in words."""


def source_of(target: type | FunctionType) -> str:
    """A Python file that defines the class, or function, and needs no other file of the user's."""
    excerpt = _Excerpt(_namespace(target))
    excerpt.define(target.__name__, target)
    text = excerpt.text()
    if not _same_code(target, load_source(text, target.__name__, "wirelessdl_excerpt")):
        raise SourceNotFound(f"its lines were changed after {target.__name__} was made")
    return text


def load_source(text: str, class_name: str, module_name: str) -> Any:
    """The class that such a file defines; lines of it are shown in tracebacks."""
    module = ModuleType(module_name)
    file_name = f"<{module_name}>"
    linecache.cache[file_name] = (len(text), None, text.splitlines(keepends=True), file_name)
    try:
        exec(compile(text, file_name, "exec"), module.__dict__)
        return getattr(module, class_name)
    except Exception as error:
        raise SourceNotFound(f"its source does not run by itself: {type(error).__name__}: {error}") from error


@dataclass
class _Excerpt:
    """What was gathered so far; definitions stand after those they need."""

    namespace: Mapping[str, Any]
    imports: dict[str, None] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    bodies: dict[str, str] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    future: bool = False

    def text(self) -> str:
        head = ["from __future__ import annotations\n"] if self.future else []
        parts = ["\n".join([*head, *sorted(self.imports)]), "\n".join(self.constants.values()), *self.bodies.values()]
        return "\n\n".join(part.rstrip() for part in parts if part) + "\n"

    def define(self, name: str, value: Any) -> None:
        """Take the lines of a class or function, after everything that they name."""
        if name in self.bodies or name in self.open:
            return
        self.open.add(name)
        for code in _codes(value):
            outer = [free for free in code.co_freevars if free != "__class__"]
            if outer:
                raise SourceNotFound(f"it uses {outer[0]}, a variable of the function around it")
            self.future |= bool(code.co_flags & _FUTURE_ANNOTATIONS)
        lines = _lines(value)
        try:
            names = _names(lines)
        except (SyntaxError, ValueError):
            raise SourceNotFound(f"its lines were changed after {name} was made") from None
        for used in sorted(names - {name}):
            if used in self.namespace:
                self._add(used, self.namespace[used], lines)
        self.bodies[name] = lines

    def _add(self, name: str, value: Any, user: str) -> None:
        if isinstance(value, ModuleType):
            self._import_module(name, value, user)
        elif isinstance(value, type | FunctionType) and _namespace(value) is self.namespace:
            if value.__name__ != name:
                raise SourceNotFound(f"it uses {name}, another name of {value.__name__}")
            self.define(name, value)
        elif (home := _home(name, value)) is not None:
            module, attribute = home
            self.imports[f"from {module} import {attribute}" + (f" as {name}" if attribute != name else "")] = None
        elif (text := _literal(value)) is not None:
            self.constants[name] = f"{name} = {text}"
        else:
            raise SourceNotFound(f"it uses {name}, a {type(value).__name__} that only the session knows")

    def _import_module(self, name: str, module: ModuleType, user: str) -> None:
        if module.__name__ == "__main__":
            raise SourceNotFound(f"it uses {name}, the session itself")
        self.imports[f"import {module.__name__}" + (f" as {name}" if module.__name__ != name else "")] = None
        for node in ast.walk(ast.parse(user)):  # `import a.b` binds a, and loads b as well
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
                part = f"{module.__name__}.{node.attr}"
                if isinstance(getattr(module, node.attr, None), ModuleType) and part in sys.modules:
                    self.imports[f"import {part}"] = None


def _codes(value: Any) -> list[CodeType]:
    """Code of a function, or of what a class itself defines."""
    if isinstance(value, FunctionType):
        return [inspect.unwrap(value).__code__]
    return [function.__code__ for function in _functions(value).values()]


def _functions(owner: type) -> dict[str, FunctionType]:
    """Functions that stand in the body of a class."""
    found = {}
    for name, member in vars(owner).items():
        inner = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        inner = inspect.unwrap(getattr(inner, "func", inner)) if inner is not None else None  # cached_property
        if not isinstance(inner, FunctionType) or inner.__code__.co_filename.startswith("<string>"):
            continue  # made by dataclasses and the like
        if inner.__qualname__.startswith(f"{owner.__qualname__}."):
            found[name] = inner
    return found


def _namespace(value: Any) -> Mapping[str, Any]:
    """The globals that a class or function was defined among."""
    if isinstance(value, FunctionType):
        inner: Any = inspect.unwrap(value)
        namespace: Mapping[str, Any] = inner.__globals__
        return namespace
    for function in _functions(value).values():
        return function.__globals__
    return vars(sys.modules.get(value.__module__, ModuleType("unknown")))


def _lines(value: Any) -> str:
    """The lines of a class or function, from its file or from what a notebook keeps of its cells."""
    kinds = ast.ClassDef if isinstance(value, type) else ast.FunctionDef
    for code in _codes(value):
        every = linecache.getlines(code.co_filename, dict(_namespace(value)))
        with_line = _covering("".join(every), kinds, value.__name__, code.co_firstlineno)
        if with_line is not None:
            return textwrap.dedent("".join(every[with_line[0] - 1 : with_line[1]]))
    try:
        found = textwrap.dedent(inspect.getsource(value))
        body = ast.parse(found).body
    except (OSError, TypeError, SyntaxError, ValueError, tokenize.TokenError):  # the last: lines that are not its own
        raise SourceNotFound(f"nobody keeps the lines of {value.__name__}") from None
    # lines with more than the definition are statements of the user's, which must not run a second time
    if len(body) != 1 or not isinstance(body[0], kinds):
        why = "it is a lambda: define it with def" if value.__name__ == "<lambda>" else "its lines hold more than it"
        raise SourceNotFound(why)
    return found


def _covering(text: str, kind: Any, name: str, line: int) -> tuple[int, int] | None:
    """First and last line of the innermost definition of a name around a line."""
    try:
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kind) and node.name == name]
    except (SyntaxError, ValueError):
        return None
    spans = [(min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.end_lineno) for node in nodes]
    around = [(first, last) for first, last in spans if first <= line <= last]
    return min(around, key=lambda span: span[1] - span[0], default=None)


def _names(text: str) -> set[str]:
    """Names that a definition takes from the module around it."""
    return set(_taken(symtable.symtable(text, "excerpt", "exec")))


def _taken(table: symtable.SymbolTable) -> Iterator[str]:
    outermost = table.get_type() == "module"
    for symbol in table.get_symbols():
        bound = symbol.is_assigned() or symbol.is_imported()
        if symbol.is_referenced() and (not bound if outermost else symbol.is_global()):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _taken(inner)


def _home(name: str, value: Any) -> tuple[str, str] | None:
    """Module and name by which a value can be imported."""
    module = getattr(value, "__module__", None)
    for attribute in dict.fromkeys((getattr(value, "__name__", name), name)):
        home = sys.modules.get(module) if isinstance(module, str) else None
        if home is not None and module != "__main__" and getattr(home, str(attribute), None) is value:
            return str(module), str(attribute)
    return None


def _literal(value: Any) -> str | None:
    """A constant as Python writes it; None for anything else."""
    if isinstance(value, float):
        return f"float({str(value)!r})" if value != value or value in (float("inf"), float("-inf")) else repr(value)
    try:
        text = repr(value)
        return text if len(text) <= _LONGEST and ast.literal_eval(text) == value else None
    except Exception:  # whatever a repr or an == may raise
        return None


def _same_code(one: Any, other: Any) -> bool:
    """Whether two classes have the same functions, line numbers aside; or whether two functions are the same."""
    if isinstance(one, FunctionType) and isinstance(other, FunctionType):
        return _digest(inspect.unwrap(one).__code__) == _digest(inspect.unwrap(other).__code__)
    if not isinstance(other, type):
        return False
    mine, theirs = _functions(one), _functions(other)
    return mine.keys() == theirs.keys() and all(
        _digest(mine[name].__code__) == _digest(theirs[name].__code__) for name in mine
    )


def _digest(code: CodeType) -> list[Any]:
    """Instructions without what depends on the lines around: imports beside a class change how methods are called."""
    found: list[Any] = []
    for step in dis.get_instructions(code):
        if step.opname == "PUSH_NULL":
            continue
        value = _digest(step.argval) if isinstance(step.argval, CodeType) else repr(step.argval)
        jump = step.opcode in dis.hasjrel or step.opcode in dis.hasjabs  # by a distance
        found.append(("LOAD_ATTR" if step.opname == "LOAD_METHOD" else step.opname, None if jump else value))
    return found
