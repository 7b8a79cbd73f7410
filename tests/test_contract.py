"""Capabilities that parts declare, arrays they return, and the guard around code of the user's."""

import ast
import math
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

from wirelessdl.contract import CAPABILITIES, FLAGS, NON_NEGATIVE, Guard, capability, checked_array, of_node
from wirelessdl.errors import ContractError, ScenarioError

PACKAGE = ROOT / "wirelessdl"
# attributes looked up by name of things that are no parts: arrays, exceptions, torchvision's classes, mappings,
# modules, processes, partial functions, what a user hands in before it is a part, standard output, nodes of autograd
NOT_PARTS = {"mask", "lineno", "reason", "tgz_md5", "homes", "sched_getaffinity", "_inheriting", "func", "state_dict"}
NOT_PARTS |= {"reconfigure", "variable", "Keys", "READS", "refuse", "alignment", "subslots", "shape"}
NOT_PARTS |= {"payloads_of_pass", "needs_phases"}  # of a built-in access, with defaults


def lookups(path: Path) -> list[tuple[str, str]]:
    """(function, name) of every getattr, hasattr and capability with a literal name."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1:
            name = node.args[1]
            if node.func.id in ("getattr", "hasattr", "capability") and isinstance(name, ast.Constant):
                found.append((node.func.id, str(name.value)))
    return found


SOURCES = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "contract.py"]


def test_parts_are_asked_for_capabilities_by_the_contract_only():
    bare = {
        (str(path.relative_to(PACKAGE)), name)
        for path in SOURCES
        for function, name in lookups(path)
        if function != "capability" and name not in NOT_PARTS and not name.startswith("__")  # Python's own
    }
    assert bare == set()


def test_every_declared_capability_is_used_and_every_used_one_is_declared():
    used = {name for path in SOURCES for function, name in lookups(path) if function == "capability"}
    assert used == set(CAPABILITIES)


def test_a_part_without_a_capability_has_the_default():
    assert capability(object(), "small_scale") is False
    assert capability(object(), "bias_column") is True
    assert capability(object(), "ends_s") == math.inf
    assert capability(object(), "loss_db") is None


class Fade:
    small_scale = np.bool_(True)
    ends_s = 3
    coherence_s = None
    shapes = ((2, np.int64(3)), (4,))

    def loss_db(self, links):
        return links


def test_values_come_in_the_declared_type():
    part = Fade()
    assert capability(part, "small_scale") is True
    assert type(capability(part, "ends_s")) is float
    assert capability(part, "coherence_s") is None
    assert capability(part, "loss_db")(7) == 7
    assert capability(part, "shapes") == [(2, 3), (4,)]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("small_scale", "yes", r"Odd.small_scale is 'yes', expected True or False: adds small-scale fading"),
        ("small_scale", None, r"Odd.small_scale is None, expected True or False"),
        ("ends_s", "late", r"Odd.ends_s is 'late', expected a number"),
        ("ends_s", math.nan, r"Odd.ends_s is nan, expected a number"),
        ("ends_s", True, r"Odd.ends_s is True, expected a number"),
        ("loss_db", 3.0, r"Odd.loss_db is 3.0, expected a method"),
        ("task", 1, r"Odd.task is 1, expected a text"),
        ("activations", -1, r"Odd.activations is -1, expected a whole number >= 0"),
        ("shapes", 4, r"Odd.shapes is 4, expected a list of shapes"),
    ],
)
def test_a_capability_of_the_wrong_type_names_the_class(name, value, words):
    odd = type("Odd", (), {name: value})()
    with pytest.raises(ContractError, match=words):
        capability(odd, name)


@pytest.mark.parametrize("error", [AttributeError("lost"), ZeroDivisionError("lost"), SystemExit("lost")])
def test_a_property_that_fails_is_not_taken_for_absent(error):
    class Fails:
        @property
        def small_scale(self):
            raise error

    with pytest.raises(ContractError, match=rf"Fails.small_scale raised {type(error).__name__}: lost \(test_contract"):
        capability(Fails(), "small_scale")


def test_the_guard_names_what_raised_and_where():
    with pytest.raises(ContractError) as caught, Guard("my.py:Mine.gain", detail=" on phy.rx"):
        _ = 1 / 0
    assert str(caught.value).startswith("my.py:Mine.gain raised ZeroDivisionError: division by zero (test_contract.py")
    assert str(caught.value).endswith(") on phy.rx")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_built_in_names_its_key_and_its_defects_keep_their_traceback():
    guard = Guard("x.toml: radio.csi: pilots", is_user_class=False, built_in="x.toml: radio.csi.")
    with pytest.raises(ContractError, match=r"^x.toml: radio.csi.symbols is 0$"), guard:
        raise ValueError("symbols is 0")
    with pytest.raises(ZeroDivisionError), guard:
        _ = 1 / 0
    with pytest.raises(ValueError, match=r"^as it was$"), Guard("radio.csi: pilots", is_user_class=False):
        raise ValueError("as it was")


def test_the_guard_raises_the_error_it_was_given_and_leaves_interrupts_alone():
    with pytest.raises(ScenarioError, match=r"^x raised KeyError"), Guard("x", error=ScenarioError):
        raise KeyError("missing")
    with pytest.raises(KeyboardInterrupt), Guard("x"):
        raise KeyboardInterrupt


def ends(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("error", [SystemExit(0), SystemExit("over"), GeneratorExit()])
def test_the_guard_makes_one_line_of_code_that_ends_the_program(error):
    with pytest.raises(ContractError, match=rf"^x raised {type(error).__name__}.*\(test_contract.py line"), Guard("x"):
        ends(error)
    with pytest.raises(type(error)), Guard("x", is_user_class=False):
        ends(error)


def test_an_error_that_cannot_be_put_in_words_is_named_all_the_same():
    class Mute(Exception):
        def __str__(self):
            raise KeyError("no words")

    with pytest.raises(ContractError, match=r"^x raised Mute: its __str__ raised KeyError \("), Guard("x"):
        raise Mute


def test_the_guard_holds_inside_a_generator():
    def outages():
        with Guard("faults.crashes: Mine.outages"):
            yield 1.0, 2.0
            raise IndexError("no more")

    turns = outages()
    assert next(turns) == (1.0, 2.0)
    with pytest.raises(ContractError, match=r"faults.crashes: Mine.outages raised IndexError: no more"):
        next(turns)


def test_a_guarded_generator_that_is_left_early_raises_nothing():
    def users():
        yield 1.0
        yield 2.0

    def asked():
        with Guard("time.policy: Mine.wait"):
            yield from users()

    turns = asked()
    assert next(turns) == 1.0
    turns.close()


class Refuses:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("not now")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([1, 2], r"returned shape \(2,\), expected \(3,\), one W per node$"),
        (4.0, r"returned float, expected \(3,\), one W per node$"),
        ([1, 2, -3], r"returned -3 for node 2, expected finite numbers >= 0 \(1 of 3\)$"),
        ([np.inf, 2, np.nan], r"returned inf for node 0, expected finite numbers >= 0 \(2 of 3\)$"),
        (np.ma.masked_equal([1, 2, 3], 2), r"returned a masked array with masked entries, expected .*: fill it$"),
        ([1j, 2, 3], r"returned complex128, expected \(3,\), one W per node: return abs\(...\)$"),
        ([[1], [2, 3], 4], r"returned list, expected \(3,\), one W per node \(ValueError: .*\)$"),
        (Refuses(), r"returned Refuses, expected \(3,\), one W per node \(RuntimeError: not now\)$"),
    ],
)
def test_an_array_that_breaks_its_contract_is_named_with_what_was_expected(answer, words):
    with pytest.raises(ContractError, match=f"^faults.jammer: Loud.noise_w {words}"):
        checked_array("faults.jammer: Loud.noise_w", answer, (3,), "one W per node", NON_NEGATIVE, place=of_node)


def test_an_array_of_the_users_is_copied_and_one_of_ours_is_not():
    mine = np.ones((2, 4))
    assert checked_array("part", mine, (None, 4), "rows") is not mine
    assert checked_array("part", mine, (None, 4), "rows", is_user_class=False) is mine


def test_numbers_are_not_taken_for_true_or_false():
    assert checked_array("part", [True, False], (2,), "flags", FLAGS, dtype=bool).tolist() == [True, False]
    with pytest.raises(ContractError, match=r"part returned int64, expected \(2,\), flags"):
        checked_array("part", [1, 0], (2,), "flags", FLAGS, dtype=bool)
