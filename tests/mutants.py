"""Mutation testing of the modules that epsilons rest on: `make mutants`.

Every mutant is a module with one small change (a comparison, a sign, a constant, a call left out). The quick tests of
that module run against it; a mutant that no test notices survives. Survivors that are no fault are listed, each with
its reason, in `mutants_survivors.toml`.

    python tests/mutants.py [--file PART] [--only TEXT] [--workers N] [--list]

Numerical libraries are loaded once; each mutant is a fork that imports the package anew, the changed module from
memory, so nothing on disk changes. Time limits are of processor time: a busy machine kills no mutant.
"""

import argparse
import ast
import contextlib
import copy
import gc
import importlib
import importlib.abc
import importlib.util
import io
import os
import resource
import signal
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
sys.dont_write_bytecode = True

ROOT = Path(__file__).parent.parent
SURVIVORS = ROOT / "tests" / "mutants_survivors.toml"
LEAST = 0.85  # of the mutants of a file that are not equivalent to it
CPU_LIMIT_S = 15

# the quick tests of each module, the sharpest first: the first failure ends a mutant
TARGETS = {
    "wirelessdl/gaussian.py": ["tests/test_gaussian.py"],
    "wirelessdl/leakage.py": ["tests/test_leakage_of_links.py"],
    "wirelessdl/round/releases.py": ["tests/round/test_releases.py"],
    "wirelessdl/privacy/accountant.py": ["tests/privacy/test_accountant.py"],
    "wirelessdl/privacy/counts.py": ["tests/privacy/test_counts.py"],
    "wirelessdl/privacy/coalition.py": ["tests/privacy/test_coalition.py"],
    "wirelessdl/privacy/ledger.py": ["tests/privacy/test_ledger.py"],
    "wirelessdl/privacy/terms.py": [
        "tests/privacy/test_ledger.py",
        "tests/privacy/test_totals.py::test_what_has_no_proof_is_refused_with_what_has",
        "tests/privacy/test_totals.py::test_the_table_of_valid_combinations_is_the_specified_one",
        "tests/privacy/test_totals.py::test_sensitivities_of_amplified_releases_are_those_of_replaced_samples",
        "tests/privacy/test_totals.py::test_odd_arguments_are_refused_or_answered",
    ],
}

COMPARISONS = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
NAMES = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "any": "all",
    "all": "any",
    "argmax": "argmin",
    "floor": "ceil",
    "ceil": "floor",
    "zeros": "ones",
    "ones": "zeros",
    "isinf": "isfinite",
    "isfinite": "isinf",
    "isposinf": "isinf",
    "expm1": "exp",
    "log1p": "log",
    "sqrt": "cbrt",
    "exp": "expm1",
}


@dataclass(frozen=True)
class Mutant:
    """One change of one file: of the node with this number in `ast.walk`, its variant with this number."""

    file: str
    node: int
    variant: int
    line: int
    function: str
    code: str
    becomes: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.file, self.function, self.code, self.becomes

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}: {self.code} -> {self.becomes}"


def variants(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of a node, one small change each."""
    match node:
        case ast.Compare(ops=[operator]):
            for other in COMPARISONS[type(operator)]:
                yield _with(node, ops=[other()])
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in OPERATORS:
            yield _with(node, op=OPERATORS[type(operator)]())
        case ast.BoolOp(op=operator):
            yield _with(node, op=ast.Or() if isinstance(operator, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert()):
            yield node.operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1)
            if value not in (0, 1):
                yield ast.Constant(type(value)(0))
        case ast.Constant(value=str(value)) if " " not in value:  # sentences are for people
            yield ast.Constant(f"not {value}")
        case ast.Name(id=name) if name in NAMES:
            yield _with(node, id=NAMES[name])
        case ast.Attribute(attr=name) if name in NAMES:
            yield _with(node, attr=NAMES[name])
    yield from _calls_and_statements(node)


def _calls_and_statements(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Call(func=ast.Attribute(attr="copy", value=value), args=[]):
            yield value
        case ast.Call(func=ast.Attribute(attr="where"), args=[test, yes, no]):
            yield _with(node, args=[test, no, yes])
        case ast.If() | ast.IfExp():
            yield _with(node, test=ast.Constant(True))
            yield _with(node, test=ast.Constant(False))
        case ast.While():
            yield _with(node, test=ast.Constant(False))
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
    if isinstance(node, ast.Call) and not ast.unparse(node.func)[0].isupper():  # a record needs all its fields
        for keyword in node.keywords:
            yield _with(node, keywords=[other for other in node.keywords if other is not keyword])


def _with(node: ast.AST, **fields: object) -> ast.AST:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def source_tree(file: str) -> tuple[ast.Module, list[ast.AST], dict[int, tuple[ast.AST, str, int | None]]]:
    """The tree of a file, its nodes in order, and where each hangs."""
    tree = ast.parse((ROOT / file).read_text())
    place = {}
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(child, ast.AST):
                    place[id(child)] = (parent, field, index)
    return tree, list(ast.walk(tree)), place


def put(place: dict[int, tuple[ast.AST, str, int | None]], node: ast.AST, other: ast.AST) -> None:
    parent, field, index = place[id(node)]
    if index is None:
        setattr(parent, field, other)
    else:
        getattr(parent, field)[index] = other


def unchanged(node: ast.AST, place: dict[int, tuple[ast.AST, str, int | None]]) -> bool:
    """Whether a node is never changed: docstrings, annotations, decorators, imports, numpy's warnings."""
    while id(node) in place:
        parent, field, _ = place[id(node)]
        if field in ("annotation", "returns", "decorator_list", "slice") and _is_type(parent, field):
            return True
        if isinstance(parent, ast.Expr) and isinstance(node, ast.Constant):
            return True
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("np.errstate", "cast"):
            return True
        node = parent
    return False


def _is_type(parent: ast.AST, field: str) -> bool:
    return field != "slice" or ast.unparse(parent).startswith(("Literal[", "dict[", "list[", "tuple["))


def mutants_of(file: str) -> list[Mutant]:
    """All mutants of a file, by line."""
    tree, nodes, place = source_tree(file)
    whole = ast.unparse(tree)
    found = []
    for number, node in enumerate(nodes):
        if unchanged(node, place):
            continue
        for variant, other in enumerate(variants(node)):
            shown = node
            while isinstance(shown, ast.expr) and isinstance(place[id(shown)][0], ast.expr | ast.keyword):
                parent = place[id(shown)][0]
                if len(ast.unparse(parent)) > 60:
                    break
                shown = parent
            before = ast.unparse(shown)
            put(place, node, other)
            after = ast.unparse(other if shown is node else shown)
            if ast.unparse(tree) != whole:
                change = _first_line(before), _first_line(after)
                found.append(Mutant(file, number, variant, node.lineno, _function(node, place), *change))
            put(place, node, node)
    return sorted(found, key=lambda mutant: (mutant.line, mutant.node, mutant.variant))


def _first_line(code: str) -> str:
    return code.splitlines()[0] if code else code


def _function(node: ast.AST, place: dict[int, tuple[ast.AST, str, int | None]]) -> str:
    names = []
    while id(node) in place:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        node = place[id(node)][0]
    return ".".join(reversed(names))


def code_of(mutant: Mutant) -> str:
    """The source of the changed module."""
    tree, nodes, place = source_tree(mutant.file)
    node = nodes[mutant.node]
    put(place, node, list(variants(node))[mutant.variant])
    return ast.unparse(ast.fix_missing_locations(tree))


class FromMemory(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a string instead of its file."""

    def __init__(self, file: str, code: str):
        self.name, self.path, self.code = file.removesuffix(".py").replace("/", "."), str(ROOT / file), code

    def find_spec(self, fullname, path, target=None):
        return importlib.util.spec_from_loader(fullname, self, origin=self.path) if fullname == self.name else None

    def exec_module(self, module):
        exec(compile(self.code, self.path, "exec"), module.__dict__)


def warm_up() -> None:
    """Load libraries, and leave no module of the package or of its tests behind."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    for name in ("pytest", "hypothesis", "scipy.stats", "scipy.integrate", "torch"):
        importlib.import_module(name)
    for name in ("round.releases", "privacy", "power"):
        importlib.import_module(f"wirelessdl.{name}")
    run_tests(["tests/test_gaussian.py"])  # plugins, hypothesis' engine
    for name in [name for name in sys.modules if name.split(".")[0] in ("wirelessdl", "conftest", "test_gaussian")]:
        del sys.modules[name]
    gc.collect()
    gc.freeze()


def run_tests(files: list[str]) -> int:
    """Exit code of pytest: 0 passed, 1 failed, more: could not run them."""
    import hypothesis
    import pytest

    settings = hypothesis.settings
    settings.register_profile(
        "mutants", derandomize=True, database=None, deadline=None, phases=[hypothesis.Phase.generate]
    )
    settings.load_profile("mutants")
    here = ["-x", "-q", "-n0", "--assert=plain", "--noconftest", "-m", "not slow", "--tb=no", "-W", "ignore"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return int(
            pytest.main([*here, "-p", "no:cacheprovider", "--rootdir", str(ROOT), *(str(ROOT / f) for f in files)])
        )


def start(mutant: Mutant | None, file: str) -> int:
    """Process that tests a mutant, or the file as it is."""
    child = os.fork()
    if child:
        return child
    code = 3
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S))
        sys.meta_path.insert(0, FromMemory(file, code_of(mutant) if mutant else (ROOT / file).read_text()))
        code = run_tests(TARGETS[file])
    finally:
        os._exit(code)


def outcome(status: int) -> str:
    if os.WIFSIGNALED(status):
        return "timeout" if os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL) else "killed"
    return "survived" if os.WEXITSTATUS(status) == 0 else "killed"


def test_all(mutants: list[Mutant], workers: int) -> Iterator[tuple[Mutant, str]]:
    """Outcome of every mutant, in the order in which they end."""
    waiting, running = list(reversed(mutants)), {}
    while waiting or running:
        while waiting and len(running) < workers:
            mutant = waiting.pop()
            running[start(mutant, mutant.file)] = mutant
        child, status = os.wait()
        yield running.pop(child), outcome(status)
        if sys.stderr.isatty():
            print(f"\r{len(mutants) - len(waiting) - len(running)} of {len(mutants)}", end="\r", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", default="", help="only files whose path holds this")
    parser.add_argument("--only", default="", help="only mutants whose function or change holds this")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--list", action="store_true", help="print the mutants, test none")
    asked = parser.parse_args()
    files = [file for file in TARGETS if asked.file in file]
    if not files:
        parser.error(f"no file of {', '.join(TARGETS)} holds {asked.file!r}")
    mutants = {file: [mutant for mutant in mutants_of(file) if asked.only in str(mutant)] for file in files}
    if asked.list:
        print("\n".join(str(mutant) for file in files for mutant in mutants[file]))
        return 0
    listed, rows, good = known_survivors(), [], True
    warm_up()
    for file in files:
        began = time.monotonic()
        if outcome(os.waitpid(start(None, file), 0)[1]) != "survived":
            print(f"{file}: its tests fail, or take too long, without any change: {' '.join(TARGETS[file])}")
            return 2
        results = dict(test_all(mutants[file], asked.workers))
        survivors = [mutant for mutant in mutants[file] if results[mutant] == "survived"]
        for mutant in survivors:
            print(f"{mutant}\n    {' - '.join(listed.get(mutant.key, ('NOT LISTED',)))}", flush=True)
        if not asked.only:
            for key in sorted({key for key in listed if key[0] == file} - {mutant.key for mutant in survivors}):
                print(f"{SURVIVORS.name}: {' '.join(key)}\n    listed, but it does not survive: take it out")
        timeouts = sum(result == "timeout" for result in results.values())
        equivalent = sum(listed.get(mutant.key, ("",))[0] == "equivalent" for mutant in survivors)
        rows.append([file, len(results), len(results) - len(survivors), timeouts, len(survivors), equivalent])
        rows[-1].append(round(time.monotonic() - began))
        good &= all(mutant.key in listed for mutant in survivors)
    return report(rows, good)


def known_survivors() -> dict[tuple[str, str, str, str], tuple[str, str]]:
    """Kind and reason of every survivor that is listed."""
    rows = tomllib.loads(SURVIVORS.read_text())["survivor"]
    return {
        (row["file"], row["function"], row["code"], becomes): (row["kind"], row["reason"])
        for row in rows
        for becomes in row["becomes"]
    }


def report(rows: list[list], good: bool) -> int:
    """Print the table and give the exit code: 0 where enough is killed and every survivor is listed."""
    print(f"\n{'file':34} mutants  killed  by time  survived  equivalent  killed  of the others  seconds")
    rows = [*rows, ["all", *(sum(column) for column in list(zip(*rows))[1:])]]
    for file, number, killed, timeouts, survived, equivalent, took in rows:
        share, others = killed / max(number, 1), killed / max(number - equivalent, 1)
        good &= others >= LEAST
        print(
            f"{file:34} {number:7} {killed:7} {timeouts:8} {survived:9} {equivalent:11} {share:7.1%} {others:14.1%} "
            f"{took:8}"
        )
    if not good:
        print(f"less than {LEAST:.0%} killed, or survivors that are not listed in {SURVIVORS.relative_to(ROOT)}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
