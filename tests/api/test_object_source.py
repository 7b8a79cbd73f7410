"""The source of a class by itself: what is taken along, and what is not found."""

import dataclasses
import functools
import linecache
import math

import numpy as np
import pytest
from numpy import sqrt as root

import wirelessdl.links
from wirelessdl.scenario.objects import Given, plain_value
from wirelessdl.scenario.source import SourceNotFound, load_source, source_of

LIMIT = math.inf
HUGE = np.zeros(4)


def doubled(value):
    return 2 * value


class Base:
    def __init__(self, scale: float = 1.0):
        self.scale = scale


class Derived(Base):
    limit = LIMIT

    @property
    def twice(self):
        return doubled(self.scale)

    @functools.cached_property
    def links(self):
        return wirelessdl.links.Links

    def gain(self, links):
        LOCAL = [doubled for doubled in links]  # noqa: C416  a name of a comprehension
        return root(LOCAL) * self.twice


class Sessions:
    def gain(self):
        return HUGE


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


def test_bases_functions_constants_and_imports_are_taken_along():
    text = source_of(Derived)
    found = load_source(text, "Derived", "test_excerpt")(scale=3.0)
    np.testing.assert_array_equal(found.gain([4.0, 9.0]), [12.0, 18.0])
    assert found.limit == math.inf
    assert found.links is wirelessdl.links.Links
    assert text.index("class Base") < text.index("class Derived")
    assert "HUGE" not in text


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (Sessions, "it uses HUGE, a ndarray that only the session knows"),
        (within(3), "it uses outer, a variable of the function around it"),
        (made("class Typed:\n    def gain(self):\n        return 1\n"), "nobody keeps the lines of Typed"),
    ],
)
def test_what_has_no_source_says_why(target, why):
    with pytest.raises(SourceNotFound, match=why):
        source_of(target)


def cell(text, name):
    """A class as a notebook makes it: of a module without a file, its lines kept under the name of a cell."""
    file_name = f"/somewhere/ipykernel_1/{abs(hash(text))}.py"
    linecache.cache[file_name] = (len(text), None, text.splitlines(keepends=True), file_name)
    namespace = {"__name__": "__main__", "np": np}
    exec(compile(text, file_name, "exec"), namespace)
    return namespace[name]


def test_a_class_of_a_notebook_cell_has_its_source():
    text = "x = 1\n\nclass Mine:\n    def gain(self, links):\n        return np.ones(len(links))\n\nprint\n"
    assert source_of(cell(text, "Mine")) == (
        "import numpy as np\n\nclass Mine:\n    def gain(self, links):\n        return np.ones(len(links))\n"
    )


def test_lines_that_were_edited_after_the_class_was_made_are_noticed(tmp_path, monkeypatch):
    file = tmp_path / "edited_part.py"
    file.write_text("class Mine:\n    def gain(self):\n        return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    from edited_part import Mine

    assert "return 1" in source_of(Mine)
    file.write_text("class Mine:\n    def gain(self):\n        return 2 + 0 * 3\n")
    linecache.checkcache(str(file))
    with pytest.raises(SourceNotFound, match="its lines were changed after Mine was made"):
        source_of(Mine)


class Renamed:
    def __init__(self, exponent: float = 2.0):
        self.n = exponent


class Changed:
    def __init__(self, exponent: float = 2.0):
        self.exponent, self.offset = exponent, 0.0


class Needs:
    def __init__(self, exponent):
        self.n = exponent


def given(value) -> Given:
    objects: dict[str, Given] = {}
    plain_value("channel.models[0]", value, objects)
    return next(iter(objects.values()))


def test_arguments_are_read_from_attributes_and_tried():
    assert given(Derived(scale=np.float64(4))).parameters == {"scale": 4.0}
    assert given(Derived(4)).why == ""
    assert given(functools.partial(Needs, 3)).parameters == {"exponent": 3}
    assert given(Renamed()).why == ""  # defaults need no attribute
    assert given(Renamed(3.0)).why == "its attribute n is not what its constructor makes"
    assert given(Needs(3.0)).why == "its argument exponent is no attribute of that name"
    changed = Changed()
    changed.offset = 1.0
    assert given(changed).why == "its attribute offset is not what its constructor makes"


def test_a_class_that_was_executed_without_a_module_is_a_part_all_the_same():
    typed = given(made("class Typed:\n    def gain(self):\n        return 1\n")())
    assert typed.why == "no source: nobody keeps the lines of Typed"
    assert typed.name.startswith("Typed-")


@dataclasses.dataclass(frozen=True)
class Record:
    level: float = 0.5

    def gain(self, links):
        return self.level * len(links)


class Touchy:
    def __getattr__(self, name):
        raise RuntimeError(name)


def test_a_frozen_dataclass_has_its_source():
    found = given(Record(0.25))
    assert found.why == ""
    assert found.parameters == {"level": 0.25}
    assert "@dataclasses.dataclass(frozen=True)" in found.source


def test_attributes_that_raise_are_no_error():
    assert given(Touchy()).why == "reading its attributes raised RuntimeError"


def test_two_objects_that_only_the_session_knows_keep_two_names():
    objects: dict[str, Given] = {}
    one, other = Needs(1), Needs(2)
    tables = plain_value("channel.models", [one, other, one], objects)
    names = [table["model"] for table in tables]
    assert names[0] == names[2] != names[1]
    assert [objects[name].instance for name in names] == [one, other, one]


@pytest.mark.parametrize("now", ["text (that\nis no Python\n", "def f(:\n", "if 1:\n        x\n    y\n"])
def test_lines_of_a_file_that_is_something_else_by_now_are_not_its_source(now, tmp_path):
    """A function stays in memory when its file is edited, or has a page of documentation in its place."""
    file = tmp_path / "listener.py"
    namespace = {}
    exec(compile("worst = []\nlisten = lambda event: worst.append(event)\n", str(file), "exec"), namespace)
    file.write_text(now * 3)
    linecache.checkcache()
    with pytest.raises(SourceNotFound):
        source_of(namespace["listen"])


def test_the_statement_that_a_lambda_stands_in_does_not_run_again(tmp_path):
    """As a listener handed to simulate(...) on one line: its lines are the call itself."""
    script, ran = tmp_path / "script.py", tmp_path / "ran.txt"
    script.write_text(f"open({str(ran)!r}, 'a').write('once'); heard = lambda event: None\n")
    namespace = {}
    exec(compile(script.read_text(), str(script), "exec"), namespace)
    with pytest.raises(SourceNotFound, match="lambda: define it with def"):
        source_of(namespace["heard"])
    assert ran.read_text() == "once"
