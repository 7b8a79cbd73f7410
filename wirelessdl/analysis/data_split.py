"""The data split of a run as its traces state it: no data set is loaded and no file of the user's is imported.

The `clients` table holds what each node has and how it samples; `scenario.toml` says under which terms privacy
totals are stated.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.errors import TraceError, shown
from wirelessdl.families import MEMBERS, member
from wirelessdl.privacy.combinations import SAMPLERS, Clipping
from wirelessdl.privacy.exposure import Unit
from wirelessdl.privacy.terms import NOBODY_SENDS, Terms, adversary_of
from wirelessdl.trace.run import Run
from wirelessdl.trace.soundness import require_sound

_PROTOCOLS = ("hardened", "paper")


@dataclass(frozen=True, eq=False)
class DataSplit:
    """Of K nodes: samples of each class, sampling rate q, sensitivity of the gradient, and terms of the totals."""

    counts: IntArray  # [K, classes]; of a regression [K, 1], all samples
    rate: FloatArray  # [K]
    sensitivity: FloatArray  # [K]
    terms: Terms


def data_split(run: Run) -> DataSplit:
    """The split of a run. Raises TraceError where the table or the scenario does not hold it."""
    table = require_sound(run, ("clients",)).clients
    return DataSplit(
        counts=np.array(table["class_counts"].tolist(), dtype=np.int64),
        rate=table["sampling_rate"].to_numpy(),
        sensitivity=table["sensitivity"].to_numpy(),
        terms=_terms(run, table["epoch_rounds"].to_numpy()),
    )


def _terms(run: Run, epoch_rounds: IntArray) -> Terms:
    sampling = _stored(run, "learning.sampling", tuple(SAMPLERS))
    return Terms(
        protocol=_stored(run, "privacy.protocol", _PROTOCOLS),
        sampler=SAMPLERS[sampling],
        clipping=_stored(run, "privacy.clipping", get_args(Clipping)),
        delta=run.scenario["privacy"]["delta_total"],
        unit=_stored(run, "privacy.unit", get_args(Unit)),
        epoch_rounds=tuple(epoch_rounds.tolist()) if sampling == "shuffled" else (),
        coalition=coalition_of(run),
        declared=mechanism_of(run) if ":" in mechanism_of(run) else "",
        promised=promised_view(run),
        passes=bool(run.scenario["radio"]["mixing_passes"] or run.scenario["learning"]["closing_passes"]),
        sends=sends(run),
    )


def sends(run: Run) -> bool:
    """Whether anything left a node: not with one node alone, nor on a graph without links."""
    network = run.scenario["network"]
    topology = network.get("topology")
    return network["nodes"] != 1 and not (isinstance(topology, dict) and topology.get("kind") == "none")


def mechanism_of(run: Run) -> str:
    """The mechanism that hid senders: a name of ours, or a class of the user's, `file.py:Class`."""
    stored = _stored(run, "privacy.noise")
    name = stored.get("kind") if isinstance(stored, dict) else stored
    if not isinstance(name, str) or (name not in MEMBERS["mechanism"] and ":" not in name):
        raise TraceError(
            f"{run.path}/scenario.toml: privacy.noise is {shown(name, 40)}; no such mechanism: it was edited"
        )
    return name


def coalition_of(run: Run) -> int:
    """Most nodes that collude, where nodes share noise; 0 where every node's noise is its own."""
    module = member("mechanism", mechanism_of(run))
    if module is None or not module.COALITION:
        return 0
    coalition = _stored(run, "privacy.coalition")
    if not isinstance(coalition, int) or isinstance(coalition, bool) or coalition < 1:
        raise TraceError(
            f"{run.path}/scenario.toml: privacy.coalition is {shown(coalition, 40)}; must be >= 1 where nodes share "
            "noise: it was edited"
        )
    return coalition


def promised_view(run: Run) -> Literal["own", "coalition"]:
    """The view of the ledger that is promised."""
    against = _stored(run, "privacy.against", ("auto", "everyone", "coalition"))
    return "own" if against == "everyone" or not coalition_of(run) else "coalition"


def adversary(run: Run) -> str:
    """Against whom the promised total of a run holds, in words."""
    declared = mechanism_of(run) if ":" in mechanism_of(run) else ""
    return adversary_of(promised_view(run), coalition_of(run), declared) if sends(run) else NOBODY_SENDS


def _stored(run: Run, key: str, allowed: tuple[str, ...] = ()) -> Any:
    """A value of the resolved scenario, which spells every key out unless somebody edited it."""
    section, name = key.split(".")
    value = run.scenario.get(section, {}).get(name)
    if allowed and value not in allowed:
        raise TraceError(
            f"{run.path}/scenario.toml: {key} is {value!r}; must be one of {', '.join(allowed)}: it was edited"
        )
    return value
