"""What a run keeps of objects and functions that Python handed in: their source, and a word on each."""

from collections.abc import Mapping
from types import FunctionType
from typing import Any

from wirelessdl.scenario.objects import Given
from wirelessdl.scenario.part import UserFile
from wirelessdl.scenario.source import SourceNotFound, source_of
from wirelessdl.trace.events import Listener


def note_handed_in(
    origin: dict[str, Any], objects: Mapping[str, Given], connect: Mapping[str, Listener]
) -> list[UserFile]:
    """Say in the provenance which parts and callbacks were handed in; returns the files of callbacks to be kept."""
    if objects:
        origin["objects"] = {where: _words(given) for where, given in objects.items()}
    files, words = [], {}
    for event, listener in connect.items():
        name = getattr(listener, "__qualname__", type(listener).__name__)
        try:
            text = source_of(listener) if isinstance(listener, FunctionType) else source_of(type(listener))
        except SourceNotFound as error:
            words[event] = {"function": name, "source": None, "why": str(error)}
            continue
        file = UserFile.made(f"{name.rpartition('.')[2]}.py", text)
        files.append(file)
        words[event] = {"function": name, "source": file.stored_name, "why": ""}
    if words:
        origin["callbacks"] = words
    return files


def _words(given: Given) -> dict[str, Any]:
    source = None if given.source is None else UserFile.made(given.file_name, given.source).stored_name
    return {"class": given.class_name, "source": source, "resumes": not given.why, "why": given.why}
