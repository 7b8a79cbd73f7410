"""The import direction of the design, walked in the source; nobody carries the world."""

import ast
import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from conftest import ROOT, tiny

PACKAGE = ROOT / "wirelessdl"
BASE = {
    "memory",
    "arrays",
    "chebyshev",
    "contract",
    "counter_rng",
    "errors",
    "families",
    "gaussian",
    "leakage",
    "links",
    "mixing",
    "streams",
    "units",
}
ROOMS = {"learning", "power", "privacy", "channel", "radio", "network", "trace"}
FAMILIES = {"access", "mechanism"}  # their members are rooms' callers, and imported by name where one is asked for
# who may import whom, beyond itself and the base
ALLOWED = {
    "scenario": set(),
    **{room: {"scenario"} for room in ROOMS},
    **{family: ROOMS | {"scenario"} for family in FAMILIES},
    "sim": {"radio", "scenario"},
    "round": ROOMS | FAMILIES | {"scenario"},
    "run": ROOMS | FAMILIES | {"scenario", "round", "sim", "analysis"},
    "analysis": {"trace", "privacy"},
    "preview": ROOMS | FAMILIES | {"scenario", "round", "sim", "run", "analysis"},
    "audit": ROOMS | FAMILIES | {"scenario", "round", "sim", "run"},
    "study": ROOMS | FAMILIES | {"scenario", "round", "run"},
    "api": ROOMS | FAMILIES | {"scenario", "round", "run", "analysis", "study"},
    "cli": ROOMS | FAMILIES | {"scenario", "round", "sim", "run", "analysis", "preview", "audit", "study"},
}
# heavy libraries and the only rooms that may name them
LIBRARIES = {
    "simpy": {"sim"},
    "torch": {"learning", "audit"},
    "torchvision": {"learning"},
    "pyarrow": {"trace", "channel", "learning"},
    "click": {"cli"},
    "rich": {"cli"},
    "dask": {"study"},
    "distributed": {"study"},
    "matplotlib": {"analysis", "preview", "api"},
    "plotly": {"analysis"},
    "jinja2": {"analysis"},
    "tensorboardX": {"trace"},
}
# what build gives is taken apart by these; the command line names its type in annotations, and hands it on
MAX_SHARED_FIELDS = 6  # of two dataclasses; beyond, one holds or extends the other
WORLD_USERS = {"run", "preview", "audit"}


def type_only(tree: ast.Module) -> set[ast.AST]:
    """Statements that only type checkers see."""
    blocks = [n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    return {inner for block in blocks for inner in ast.walk(block)}


def imports(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Every imported name, wherever it stands: at the top, in a function, under a condition."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((f"{module}.{alias.name}", node) for alias in node.names)


def import_faults(room: str, tree: ast.Module) -> Iterator[str]:
    allowed = set() if room in BASE else ALLOWED[room]
    for name, node in imports(tree):
        first, _, rest = name.partition(".")
        target = rest.partition(".")[0]
        if name.startswith("."):
            yield f"imports {name}: imports are absolute"
        elif first == "wirelessdl" and rest:
            if target not in BASE | {room, "__version__"} | allowed:
                yield f"imports {name}: {room} may not know {target}"
            named_only = room == "cli" and node in type_only(tree)
            if name == "wirelessdl.run.build.World" and room not in WORLD_USERS and not named_only:
                yield f"imports World: only {', '.join(sorted(WORLD_USERS))} take it apart"
        elif first in LIBRARIES and room not in LIBRARIES[first]:
            yield f"imports {first}: only {', '.join(sorted(LIBRARIES[first]))} may"


def storage_faults(tree: ast.Module) -> Iterator[str]:
    """Classes that keep a World: as an attribute, or as a field of a dataclass."""
    for owner in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for node in ast.walk(owner):
            stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
            if stored and node.attr in ("world", "_world"):
                yield f"{owner.name} stores .{node.attr}"
        for field in (node for node in owner.body if isinstance(node, ast.AnnAssign)):
            if any(isinstance(node, ast.Name) and node.id == "World" for node in ast.walk(field.annotation)):
                yield f"{owner.name}.{ast.unparse(field.target)} is a World"


def faults(relative: Path, source: str) -> list[str]:
    """What a file of the package does that the design forbids."""
    room = relative.parts[0].removesuffix(".py").replace("__main__", "cli")
    tree = ast.parse(source)
    return [f"{relative} {fault}" for fault in (*import_faults(room, tree), *storage_faults(tree))]


def test_imports_point_one_way_and_no_class_stores_the_world():
    sources = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
    assert len(sources) > 150
    found = [f for path in sources for f in faults(path.relative_to(PACKAGE), path.read_text(encoding="utf-8"))]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("path", "source", "fault"),
    [
        *(
            ("analysis/x.py", f"def f():\n    from wirelessdl.{room}.y import z", f"analysis may not know {room}")
            for room in ("sim", "round", "run", "learning", "radio", "scenario", "preview")
        ),
        ("sim/x.py", "import wirelessdl.round.engine", "sim may not know round"),
        ("round/x.py", "from wirelessdl.sim import clock", "round may not know sim"),
        ("units.py", "from wirelessdl.links import Links\nfrom wirelessdl.power import y", "units may not know power"),
        ("power/x.py", "import torch.nn", "imports torch: only audit, learning may"),
        ("power/x.py", "from .problem import PowerPlan", "imports .problem.PowerPlan: imports are absolute"),
        ("cli/x.py", "from wirelessdl.run.build import World", "imports World: only audit, preview, run take"),
        ("run/x.py", "class A:\n    def f(self, world):\n        self._world = world", "A stores ._world"),
        ("run/x.py", "class A:\n    given: 'int' = 1\n    kept: World | None = None", "A.kept is a World"),
    ],
)
def test_what_is_forbidden_is_found(path, source, fault):
    (found,) = faults(Path(path), source)
    assert fault in found


def test_what_is_allowed_is_not_found():
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from wirelessdl.run.build import World"
    assert faults(Path("cli/x.py"), typed) == []
    assert faults(Path("run/x.py"), "from wirelessdl.run.build import World\nfrom wirelessdl.links import Links") == []


def test_an_engine_and_previews_let_go_of_the_world_they_were_made_from():
    from wirelessdl.preview.channel import preview_channel
    from wirelessdl.preview.plan import preview_plan
    from wirelessdl.run.build import build
    from wirelessdl.run.wiring import make_engine, make_recorder

    world = build(tiny(), device="cpu")
    made = [preview_plan(world), preview_channel(world), make_engine(world, make_recorder(world))]
    there = weakref.ref(world)
    del world
    gc.collect()
    assert there() is None
    assert len(made) == 3  # and they are still there


def test_the_command_line_answers_without_the_heavy_libraries():
    code = """
import sys
sys.argv = ["wirelessdl", "--help"]
from wirelessdl.cli.main import main
try:
    main()
except SystemExit:
    pass
heavy = {"torch", "numpy", "pandas", "scipy", "pyarrow", "pydantic", "rich", "simpy"} & set(sys.modules)
print("heavy:", sorted(heavy))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "heavy: []" in done.stdout
    assert "run" in done.stdout


@pytest.mark.parametrize(("given", "expected"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_openmp_waits_passively_unless_the_user_said_otherwise(given, expected, monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if given:
        monkeypatch.setenv("OMP_WAIT_POLICY", given)
    code = "import os, wirelessdl; print(os.environ['OMP_WAIT_POLICY'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected


def shared_fields(sources):
    """Fields of equal name and type of every two dataclasses, by the names of the two."""
    fields = {}
    for text in sources:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(one) for one in node.decorator_list):
                own = [one for one in node.body if isinstance(one, ast.AnnAssign)]
                fields[node.name] = {(ast.unparse(one.target), ast.unparse(one.annotation)) for one in own}
    return {pair: fields[pair[0]] & fields[pair[1]] for pair in combinations(sorted(fields), 2)}


def test_no_dataclass_repeats_the_fields_of_another():
    found = shared_fields(path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py")))
    assert {pair: len(both) for pair, both in found.items() if len(both) > MAX_SHARED_FIELDS} == {}


def test_shared_fields_are_found():
    text = "@dataclass\nclass A:\n    x: int\n    y: int\n@dataclass(frozen=True)\nclass B:\n    x: int\n    y: str\n"
    assert shared_fields([text]) == {("A", "B"): {("x", "int")}}


# `Member` and `Keys` are what every member of a family has; the API's `Run` and `Study` extend those of trace, and are
# what users call them
SHARED_NAMES = {"Keys", "Member", "Run", "Study"}


def test_two_classes_never_share_a_name():
    homes: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(path.relative_to(PACKAGE).as_posix())
    # a section of a scenario has a second definition for the type checker, in the same file
    shared = {name: places for name, places in homes.items() if len(set(places)) > 1}
    assert not {name: places for name, places in shared.items() if name not in SHARED_NAMES}
