"""What a scenario holds of a part that Python hands in: its name, its arguments, its source, and what is missing."""

import dataclasses
import functools
import linecache
import sys
from pathlib import Path

import numpy as np
import pytest

from wirelessdl.scenario.objects import UserPart, plain_value, source_text, stream_name


class Base:
    def __init__(self, scale: float = 1.0):
        self.scale = scale


class Derived(Base):
    def gain(self, links):
        return self.scale * len(links)


class Renamed:
    def __init__(self, exponent: float = 2.0):
        self.n = exponent


class Changed:
    def __init__(self, exponent: float = 2.0):
        self.exponent, self.offset = exponent, 0.0


class Needs:
    def __init__(self, exponent):
        self.n = exponent


@dataclasses.dataclass(frozen=True)
class Record:
    level: float = 0.5

    def gain(self, links):
        return self.level * len(links)


class Touchy:
    def __getattr__(self, name):
        raise RuntimeError(name)


def within(outer):
    class Inner:
        def gain(self):
            return outer

    return Inner


def made(text, name="Typed"):
    """A class from a text that nobody keeps, as at a prompt."""
    namespace = {}
    exec(text, namespace)
    return namespace[name]


def cell(text, name):
    """A class as a notebook makes it: of a module without a file, its lines kept under the name of a cell."""
    file_name = f"/somewhere/ipykernel_1/{abs(hash(text))}.py"
    linecache.cache[file_name] = (len(text), None, text.splitlines(keepends=True), file_name)
    namespace = {"__name__": "__main__", "np": np}
    exec(compile(text, file_name, "exec"), namespace)
    return namespace[name]


def given(value) -> UserPart:
    objects: dict[str, UserPart] = {}
    plain_value("channel.models[0]", value, objects)
    return next(iter(objects.values()))


def test_a_class_that_can_be_imported_is_its_file():
    found = given(Derived(3.0))
    assert found.why == ""
    assert found.source == Path(__file__).read_text(encoding="utf-8")
    assert found.name == f"{found.file_name}:Derived"
    assert found.file_name.startswith("test_objects@")
    assert given(Record()).file_name == found.file_name  # one copy of a file, whatever was taken from it
    assert stream_name(found.name) == "Derived"
    assert stream_name("street-1234abcd.py:Street") == "street-1234abcd.py:Street"  # a file of the user's own


def test_a_class_of_a_notebook_is_an_object_with_its_lines_to_be_read():
    text = "x = 1\n\nclass Mine:\n    def gain(self, links):\n        return np.ones(len(links))\n\nprint\n"
    found = given(cell(text, "Mine"))
    assert found.source == "class Mine:\n    def gain(self, links):\n        return np.ones(len(links))"
    assert found.why == "its class is of a notebook or script, which cannot be imported"
    assert found.repeatable
    assert found.name.endswith(".object:Mine")
    assert stream_name(found.name) == "Mine"
    edited = given(cell(text.replace("ones", "zeros"), "Mine"))
    assert edited.name == found.name  # whether it is the same is judged by the values it gives


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (within(3), "test_objects has no Inner that can be imported"),
        (made("class Typed:\n    def gain(self):\n        return 1\n"), "builtins has no Typed that can be imported"),
    ],
)
def test_what_cannot_be_imported_says_why(target, why):
    assert given(target).why == why


def test_a_file_that_needs_the_package_around_it_is_not_taken_for_a_copy(tmp_path, monkeypatch):
    (tmp_path / "around").mkdir()
    (tmp_path / "around/__init__.py").write_text("LEVEL = 2\n")
    (tmp_path / "around/near.py").write_text("from . import LEVEL\n\nclass Near:\n    pass\n")
    (tmp_path / "around/far.py").write_text("from around import LEVEL\n\nclass Far:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    from around.far import Far
    from around.near import Near

    assert given(Near).why == "around.near imports from the package around it"
    assert given(Far).why == ""
    for name in ("around", "around.near", "around.far"):
        del sys.modules[name]


def test_arguments_are_read_from_attributes_and_tried():
    assert given(Derived(scale=np.float64(4))).parameters == {"scale": 4.0}
    assert given(Derived(4)).why == ""
    assert given(functools.partial(Needs, 3)).parameters == {"exponent": 3}
    assert given(Renamed()).why == ""  # defaults need no attribute
    assert given(Renamed(3.0)).why == "its attribute n is not what its constructor makes"
    assert given(Needs(3.0)).why == "its argument exponent is no attribute of that name"
    assert given(Record(0.25)).parameters == {"level": 0.25}
    changed = Changed()
    changed.offset = 1.0
    assert given(changed).why == "its attribute offset is not what its constructor makes"


def test_attributes_that_raise_are_no_error():
    assert given(Touchy()).why == "reading its attributes raised RuntimeError"


def test_two_objects_that_only_the_session_knows_keep_two_names():
    objects: dict[str, UserPart] = {}
    one, other = Needs(1), Needs(2)
    tables = plain_value("channel.models", [one, other, one], objects)
    names = [table["model"] for table in tables]
    assert names[0] == names[2] != names[1]
    assert [objects[name].instance for name in names] == [one, other, one]


def test_two_classes_of_one_name_keep_two_names():
    one, other = (cell(f"class Mine:\n    def gain(self):\n        return {n}\n", "Mine") for n in (1, 2))
    objects: dict[str, UserPart] = {}
    names = [table["model"] for table in plain_value("channel.models", [one, other, one()], objects)]
    assert names[0] == names[2] != names[1]
    assert [objects[name].target for name in names] == [one, other, one]


@pytest.mark.parametrize("now", ["text (that\nis no Python\n", "def f(:\n", "if 1:\n        x\n    y\n"])
def test_lines_of_a_file_that_is_something_else_by_now_are_no_error(now, tmp_path):
    """A function or class stays in memory when its file is edited, or has a page of documentation in its place."""
    file, namespace = tmp_path / "listener.py", {}
    text = "class Heard:\n    def __call__(self, event):\n        pass\n\n\ndef listen(event):\n    pass\n"
    exec(compile(text, str(file), "exec"), namespace)
    file.write_text(now * 3)
    linecache.checkcache()
    assert source_text(namespace["Heard"]) is None
    assert "def listen" not in (source_text(namespace["listen"]) or "")
