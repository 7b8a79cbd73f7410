"""Objects on their way to worker processes, and kept with a study.

An object that its source and parameters make again travels as text, and is made by the worker, as it is when a run is
resumed. Any other travels by cloudpickle, between processes only: a study's directory never holds a pickle.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirelessdl.errors import StudyError, shown
from wirelessdl.scenario.objects import Given
from wirelessdl.scenario.part import MODELS, UserFile
from wirelessdl.scenario.source import SourceNotFound, load_source
from wirelessdl.trace.files import own_folder, read_regular, write_text


@dataclass(frozen=True)
class Parcel:
    """One object. pickled: class and object, where source and parameters do not make it."""

    name: str
    parameters: Mapping[str, Any]
    source: str | None
    why: str
    repeatable: bool
    pickled: bytes | None = None


def packed(objects: Mapping[str, Given]) -> tuple[Parcel, ...]:
    """Objects as workers take them; raises one line for an object that cannot leave this process."""
    return tuple(_packed(given) for given in objects.values())


def _packed(given: Given) -> Parcel:
    parcel = Parcel(given.name, given.parameters, given.source, given.why, given.repeatable)
    if not given.why:
        return parcel
    import cloudpickle  # type: ignore[import-untyped]  # of Dask, which sends tasks by it

    try:
        pickled = cloudpickle.dumps((given.target, given.instance))
    except Exception as error:  # whatever an attribute may raise
        raise StudyError(
            f"{given.class_name} cannot be sent to worker processes: {type(error).__name__}: {shown(error, 120)}; give "
            f"functools.partial({given.class_name}, ...) instead of an object, and let it open what it needs when used"
        ) from None
    return Parcel(given.name, given.parameters, given.source, given.why, given.repeatable, pickled)


def unpacked(parcels: tuple[Parcel, ...]) -> dict[str, Given]:
    """The objects, in a worker."""
    return {parcel.name: _unpacked(parcel) for parcel in parcels}


def _unpacked(parcel: Parcel) -> Given:
    if parcel.pickled is None:
        return _made(parcel.name, parcel.source or "", parcel.parameters)
    import pickle

    target, instance = pickle.loads(parcel.pickled)
    return Given(parcel.name, target, instance, parcel.parameters, parcel.source, parcel.why, parcel.repeatable)


def _made(name: str, source: str, parameters: Mapping[str, Any]) -> Given:
    file_name, _, class_name = name.rpartition(":")
    module = f"wirelessdl_object_{re.sub('[^A-Za-z0-9]', '_', file_name.removesuffix('.py'))}"
    try:
        target = load_source(source, class_name, module)
    except SourceNotFound as error:
        raise StudyError(f"{shown(name)}: {error}") from None
    return Given(name, target, None, parameters, source)


def keep_objects(study: Path, objects: Mapping[str, Given]) -> dict[str, Any]:
    """Write the sources of objects into a study; returns what its manifest says of them."""
    words = {}
    for given in objects.values():
        words[given.name] = {"sha256": None, "parameters": dict(given.parameters), "why": given.why}
        if given.source is not None:
            file = UserFile.made(given.file_name, given.source)
            write_text(own_folder(study / MODELS) / file.stored_name, given.source)
            words[given.name]["sha256"] = file.sha256
    return words


def kept_objects(study: Path, words: Any) -> dict[str, Given]:
    """Objects that a study's directory can make again; raises where a file of them was changed."""
    if words is None:
        return {}
    found = {}
    try:
        for name, said in words.items():
            if said["why"] or not re.fullmatch("[0-9a-f]{64}", str(said["sha256"])):
                continue
            file_name = name.rpartition(":")[0]
            path = study / MODELS / UserFile(file_name, study, said["sha256"]).stored_name
            content = read_regular(path)
            if hashlib.sha256(content).hexdigest() != said["sha256"]:
                raise StudyError(f"{shown(path)}: was changed since the study began; restore it, or start a new study")
            found[name] = _made(name, content.decode(), dict(said["parameters"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StudyError(f"{shown(study)}: its objects cannot be read: {shown(error, 120)}; restore them") from None
    return found
