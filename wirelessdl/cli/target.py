"""A file that a command writes after code of the user's ran, which may have changed the working folder."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from wirelessdl.errors import ScenarioError, shown
from wirelessdl.trace.files import leaves, require_outside
from wirelessdl.trace.place import Place

if TYPE_CHECKING:
    from wirelessdl.run.world import World
    from wirelessdl.scenario.schema import Scenario

_NAMES = (".kind", ".model")  # of parts: a folder that is called like one is not read


class Target:
    """A file to write, by the name that the user gave it: in no run, and none of a study's own."""

    def __init__(self, named: Path):
        require_outside(named)
        self._named, self._place = named, Place(named)

    def __str__(self) -> str:
        return str(self._named)

    @property
    def path(self) -> Path:
        """Where it lies, whatever the working folder is by now."""
        return self._place.path

    def require_apart(self, scenario: "Scenario") -> None:
        """Raise where a scenario names it among its data, or a folder that it lies in; asked before any class runs."""
        whole = self.path.resolve()
        here = Path.cwd().resolve()
        for data in _data(scenario):
            # a folder that holds the working folder, such as "/", is no data set
            within = whole.is_relative_to(data) and os.path.isdir(data) and not here.is_relative_to(data)
            if whole == data or within:
                where = "is" if whole == data else f"lies in {shown(data)}, which is"
                self._refuse(where, scenario)

    def require_unread(self, world: "World") -> None:
        """Raise where it is a file that the parts of a scenario loaded."""
        if self.path.resolve() in {file.path.resolve() for file in world.user_files}:
            self._refuse("is", world.scenario)

    def _refuse(self, where: str, scenario: "Scenario") -> None:
        raise ScenarioError(
            f"{shown(self._named)}: {where} read by {shown(scenario.origin)}; choose another file to write"
        )


def targets(*named: Path | None) -> "tuple[Target | None, ...]":
    """Files to write, of those that the user asked for."""
    return tuple(None if path is None else Target(path) for path in named)


def _data(scenario: "Scenario") -> Iterator[Path]:
    """Every place that a text among the parameters of parts may stand for."""
    from wirelessdl.scenario.loader import catalog_for

    folders = catalog_for(scenario).folders
    for key, value in leaves(scenario.to_table()):
        if key.count(".") < 2 or key.endswith(_NAMES):
            continue
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and text and "\0" not in text:
                yield from ((folder / text).resolve() for folder in folders)
