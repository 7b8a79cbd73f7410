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
from wirelessdl.privacy.terms import Terms
from wirelessdl.privacy.terms import adversary as adversary_words
from wirelessdl.trace.run import Run

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
    table, nodes = run.clients, run.scenario["network"]["nodes"]
    if table["node"].tolist() != list(range(nodes)):
        raise TraceError(
            f"{run.path}/clients: has {len(table)} rows, network.nodes is {nodes}; must have one row per node: run the "
            "scenario again"
        )
    counts = table["class_counts"].tolist()
    rate, sensitivity = table["sampling_rate"].to_numpy(), table["sensitivity"].to_numpy()
    sound = {
        "class_counts": len({len(row) for row in counts}) == 1,
        "sampling_rate": bool(np.all((rate > 0) & (rate <= 1))),
        "sensitivity": bool(np.all(sensitivity >= 0)),
        "epoch_rounds": bool((table["epoch_rounds"] >= 1).all()),
    }
    wrong = [column for column, fine in sound.items() if not fine]
    if wrong:
        raise TraceError(f"{run.path}/clients: {wrong[0]} is out of range; run the scenario again")
    return DataSplit(
        counts=np.array(counts, dtype=np.int64),
        rate=rate,
        sensitivity=sensitivity,
        terms=_terms(run, table["epoch_rounds"].to_numpy()),
    )


def _terms(run: Run, epoch_rounds: IntArray) -> Terms:
    sampling = _stored(run, "learning.sampling", tuple(SAMPLERS))
    return Terms(
        protocol=_stored(run, "privacy.protocol", _PROTOCOLS),
        sampler=SAMPLERS[sampling],
        clipping=_stored(run, "privacy.clipping", get_args(Clipping)),
        delta=delta_of(run, "delta_total"),
        unit=_stored(run, "privacy.unit", get_args(Unit)),
        epoch_rounds=tuple(epoch_rounds.tolist()) if sampling == "shuffled" else (),
        coalition=coalition_of(run),
        declared=mechanism_of(run) if ":" in mechanism_of(run) else "",
        promised=promised_view(run),
        passes=any(_count(run, key) for key in ("radio.mixing_passes", "learning.closing_passes")),
        sends=sends(run),
    )


def delta_of(run: Run, key: Literal["delta", "delta_total"]) -> float:
    """Delta of one slot, or of the whole run."""
    delta = _stored(run, f"privacy.{key}")
    if not isinstance(delta, float) or not 0 < delta < 1:
        raise TraceError(f"{run.path}/scenario.toml: privacy.{key} is {delta!r}; must be in (0, 1): it was edited")
    return delta


def sends(run: Run) -> bool:
    """Whether anything left a node: not with one node alone, nor on a graph without links."""
    topology = _stored(run, "network.topology")
    return _count(run, "network.nodes") != 1 and not (isinstance(topology, dict) and topology.get("kind") == "none")


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
    coalition = _count(run, "privacy.coalition")
    if coalition < 1:
        raise TraceError(
            f"{run.path}/scenario.toml: privacy.coalition is {coalition}; must be >= 1 where nodes share noise: it was "
            "edited"
        )
    return coalition


def promised_view(run: Run) -> Literal["own", "coalition"]:
    """The view of the ledger that is promised."""
    against = _stored(run, "privacy.against", ("auto", "everyone", "coalition"))
    return "own" if against == "everyone" or not coalition_of(run) else "coalition"


def adversary(run: Run) -> str:
    """Against whom the promised total of a run holds, in words."""
    declared = mechanism_of(run) if ":" in mechanism_of(run) else ""
    return adversary_words(promised_view(run), coalition_of(run), declared, sends=sends(run))


def _count(run: Run, key: str) -> int:
    value = _stored(run, key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TraceError(f"{run.path}/scenario.toml: {key} is {value!r}; must be a number from 0: it was edited")
    return value


def _stored(run: Run, key: str, allowed: tuple[str, ...] = ()) -> Any:
    """A value of the resolved scenario, which spells every key out unless somebody edited it."""
    section, name = key.split(".")
    value = run.scenario.get(section, {}).get(name)
    if allowed and value not in allowed:
        raise TraceError(
            f"{run.path}/scenario.toml: {key} is {value!r}; must be one of {', '.join(allowed)}: it was edited"
        )
    return value
