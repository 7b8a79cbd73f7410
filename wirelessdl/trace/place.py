"""A folder as the user named it, though code of theirs changes the working folder while a run goes on.

A relative name stays relative as long as the working folder is the one it was named in, also where that is renamed;
from any other working folder the same folder is meant by its absolute name.
"""

import os
from pathlib import Path


class Place:
    """A folder, named from the working folder of now."""

    def __init__(self, named: Path):
        self._named = named
        found = _working_folder()
        self._from = None if found is None else found[1]
        self._absolute = named if found is None else found[0] / named

    @property
    def path(self) -> Path:
        """A name that leads there from the working folder: as it was named, else absolute."""
        found = _working_folder()
        return self._named if found is not None and found[1] == self._from else self._absolute

    @property
    def absolute(self) -> Path:
        """A name that leads there from everywhere: for threads beside which the working folder may change."""
        found = _working_folder()
        return found[0] / self._named if found is not None and found[1] == self._from else self._absolute


def _working_folder() -> tuple[Path, tuple[int, int]] | None:
    """Its name, and which folder that is, whatever it is called later; None where it is gone."""
    try:
        name = os.getcwd()
        found = os.stat(name)
    except OSError:
        return None
    return Path(name), (found.st_dev, found.st_ino)
