"""Families whose members cross a round: ways across the air (`access`), ways to hide a sender (`mechanism`), ways to
learn from what was received (`update`).

A member is one module of its own. Beside its class, `Member`, it has, where it needs them,

    Keys        scenario keys that this member alone reads, a pydantic model; they stand in the section of its family
    refuse      refuse(scenario) raises ValueError, with keys and remedy, for what does not go together with it

and what the protocol of the family names (`wirelessdl/access/__init__.py`, `wirelessdl/mechanism/__init__.py`,
`wirelessdl/learning/updates/__init__.py`).
Modules are imported by name, so nothing but this table knows one: to add a member, add a line here, a test and a
section of its page. A member's imports at the top are light (no torch, no SciPy): scenarios are checked with it.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Literal, TypeAlias

from wirelessdl.errors import nearest

Family: TypeAlias = Literal["access", "mechanism", "update"]
UpdateKind: TypeAlias = Literal["base", "change", "step"]  # what is proven of an update: see `learning/updates`
UPDATE_TWINS = 12  # pairs of twins that a declared update is tried with before a run
UPDATE_KINDS: tuple[UpdateKind, ...] = ("base", "change", "step")

MEMBERS: dict[Family, dict[str, str]] = {
    "access": {
        "oac": "wirelessdl.access.oac",
        "tdma": "wirelessdl.access.tdma",
        "digital": "wirelessdl.access.digital",
        "published": "wirelessdl.access.published",
    },
    "mechanism": {
        "independent": "wirelessdl.mechanism.own",
        "pairwise": "wirelessdl.mechanism.pairwise",
    },
    "update": {
        "sgd": "wirelessdl.learning.updates.sgd",
        "momentum": "wirelessdl.learning.updates.momentum",
        "nesterov": "wirelessdl.learning.updates.nesterov",
        "weight-decay": "wirelessdl.learning.updates.weight_decay",
        "push-sum": "wirelessdl.learning.updates.push_sum",
        "local-steps": "wirelessdl.learning.updates.local_steps",
        "heavy-ball": "wirelessdl.learning.updates.heavy_ball",
        "error-feedback": "wirelessdl.learning.updates.error_feedback",
        "gradient-tracking": "wirelessdl.learning.updates.gradient_tracking",
    },
}
KEYS: dict[Family, str] = {"access": "radio.access", "mechanism": "privacy.noise", "update": "learning.update"}


def member(family: Family, name: str) -> ModuleType | None:
    """The module of a built-in member; None for your class, `file.py:Class`."""
    if ":" in name:
        return None
    if name not in MEMBERS[family]:
        raise ValueError(f'{KEYS[family]} is "{name}"; no such {family}{nearest(name, MEMBERS[family])}')
    return import_module(MEMBERS[family][name])


def robust() -> ModuleType:
    """What receivers make of several values, and what that refuses: a family of one method, without keys."""
    return import_module("wirelessdl.learning.robust")


def modules(family: Family) -> list[ModuleType]:
    """All built-in members."""
    return [import_module(path) for path in MEMBERS[family].values()]


def keys_of(module: ModuleType) -> Mapping[str, Any]:
    """Fields of the scenario keys that a member alone reads, by name."""
    return module.Keys.model_fields if hasattr(module, "Keys") else {}


def kind_of_update(name: str, part: Any, asked: str) -> UpdateKind:
    """How an update is used: as asked, or by the method it has that proves most. Raises ValueError where it cannot be.

    part: its class, or an object of it; asked: `learning.update_kind`.
    """
    has = [kind for kind in UPDATE_KINDS if callable(getattr(part, kind, None))]
    for kind in has:
        if asked in ("auto", kind):
            return kind
    if has:
        raise ValueError(f'update_kind is "{asked}"; "{name}" has no such method: use "auto", or {", ".join(has)}')
    raise ValueError(
        f'update.kind is "{name}"; the class needs a method base(received, state, round), or change(received, state, '
        "gradient, round), or step(received, state, gradient, round)"
    )


def stored_kind(learning: Mapping[str, Any]) -> tuple[str, UpdateKind]:
    """Update of a resolved scenario and its kind. Raises ValueError where somebody edited it."""
    stored, kind = learning.get("update"), learning.get("update_kind", "auto")
    name = stored.get("kind") if isinstance(stored, dict) else stored
    if not isinstance(name, str) or kind not in ("auto", *UPDATE_KINDS) or (":" in name and kind == "auto"):
        raise ValueError(f"update is {str(name)[:40]!r}, update_kind {str(kind)[:40]!r}; it was edited")
    module = member("update", name)
    return name, kind if module is None else kind_of_update(name, module.Member, kind)


def columns(table: str) -> list[tuple[str, str, str, str]]:
    """What members of access add to a table: name, type ("float", "int" or "bool"), unit and meaning."""
    return [column for module in modules("access") for column in vars(module).get("COLUMNS", {}).get(table, ())]


def classes(family: Family) -> dict[str, Any]:
    """Classes of all built-in members, by name."""
    return {name: import_module(path).Member for name, path in MEMBERS[family].items()}


class LazyClasses(Mapping[str, Any]):
    """Classes by name, imported when asked for: torch takes seconds. homes: module and class of each name."""

    def __init__(self, homes: Mapping[str, tuple[str, str]]):
        self.homes = homes

    def __getitem__(self, name: str) -> Any:
        module, title = self.homes[name]
        return getattr(import_module(module), title)

    def __iter__(self) -> Iterator[str]:
        return iter(self.homes)

    def __len__(self) -> int:
        return len(self.homes)
