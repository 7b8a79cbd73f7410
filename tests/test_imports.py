"""The import direction of the design, walked in the source."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

PACKAGE = ROOT / "wirelessdl"
BASE = {"arrays", "contract", "counter_rng", "errors", "gaussian", "leakage", "links", "mixing", "streams", "units"}
ROOMS = {"learning", "power", "privacy", "channel", "radio", "network", "trace"}
# who may import whom, beyond itself and the base
ALLOWED = {
    "scenario": set(),
    **{room: {"scenario"} for room in ROOMS},
    "sim": {"radio", "scenario"},
    "round": ROOMS | {"scenario"},
    "run": ROOMS | {"scenario", "round", "sim"},
    "analysis": {"trace", "privacy"},
    "preview": ROOMS | {"scenario", "round", "sim", "run", "analysis"},
    "bench": ROOMS | {"scenario", "round", "sim", "run", "analysis", "preview"},
    "cli": ROOMS | {"scenario", "round", "sim", "run", "analysis", "preview", "bench"},
}
# heavy libraries and the only rooms that may name them
LIBRARIES = {
    "simpy": {"sim"},
    "torch": {"learning", "bench"},
    "torchvision": {"learning"},
    "pyarrow": {"trace", "channel", "learning"},
    "click": {"cli"},
    "rich": {"cli"},
    "matplotlib": {"analysis", "preview"},
    "plotly": {"analysis"},
    "jinja2": {"analysis"},
    "tensorboardX": {"trace"},
}


def imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    relative = path.relative_to(PACKAGE)
    room = relative.parts[0].removesuffix(".py").replace("__main__", "cli")
    allowed = set() if room in BASE else ALLOWED[room]
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "wirelessdl" and len(parts) > 1:
            target = parts[1]
            known = target in BASE or target == room or target in allowed or target == "__version__"
            assert known, f"{relative} imports {name}: {room} may not know {target}"
        elif parts[0] in LIBRARIES:
            assert room in LIBRARIES[parts[0]], f"{relative} imports {parts[0]}"


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
