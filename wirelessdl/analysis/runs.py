"""Several runs side by side: differing keys, final figures, and groups of runs of one scenario.

Runs of one scenario are those whose keys are alike but for `scenario.seed` and `scenario.run`.

`beside` puts a run next to what the same nodes could do otherwise, the baselines in the same folder:

    central-dp   one trusted holder of all data, at the same epsilon: a ceiling on average over seeds
    no-privacy   the same network without noise
    local        every node alone

Runs of `--baseline NAME` carry its name, seed and run number; nothing is executed, and what is not there is left out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit  # Student's quantile; scipy.stats takes half a second to load

from wirelessdl.analysis.releases import terms_of
from wirelessdl.arrays import FloatArray
from wirelessdl.errors import TraceError, quote
from wirelessdl.privacy.terms import protected
from wirelessdl.trace.catalog import headline, run_status
from wirelessdl.trace.files import leaves
from wirelessdl.trace.run import Run, State, open_run
from wirelessdl.trace.soundness import require_sound
from wirelessdl.trace.study import Study

_DRAWS = ("scenario.seed", "scenario.run")  # keys in which runs of one scenario may differ
_WORDS = ("scenario.description",)  # keys that change nothing


@dataclass(frozen=True)
class Group:
    """Runs of one scenario, and a name that distinguishes it from the others."""

    name: str
    runs: tuple[Run, ...]


def open_runs(paths: Sequence[str | Path], *, same_nodes: bool = False) -> list[Run]:
    """The runs in these folders, each with at least one round written; one clear line where that cannot be."""
    runs = [open_run(path) for path in paths]
    seen: set[Path] = set()
    for run in runs:
        if run.path.resolve() in seen:
            raise TraceError(f"{run.path}: is named twice; name each run once")
        seen.add(run.path.resolve())
        require_rounds(run)
    counts = {run.scenario["network"]["nodes"]: run for run in reversed(runs)}
    if same_nodes and len(counts) > 1:
        listed = ", ".join(f"{count} in {counts[count].path}" for count in sorted(counts))
        raise TraceError(f"network.nodes differs: {listed}; show them apart, or side by side with `wirelessdl compare`")
    return runs


def require_rounds(run: Run) -> None:
    """Raise unless a run has a round, and tables that hold together."""
    if run.rounds.empty:
        how = "it has only begun: wait for its first rounds" if state(run) == "running" else "run it again"
        raise TraceError(f"{run.path}: is empty, no round was written; {how}")
    require_sound(run)


def state(run: Run) -> State:
    """Running, done, interrupted or failed."""
    return run_status(run.path).state


def differing(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """Keys whose values are not the same in all runs, with the value of each; None where a run lacks the key."""
    tables = [dict(leaves(run.scenario)) for run in runs]
    keys = dict.fromkeys(key for table in tables for key in table)
    found = {key: [table.get(key) for table in tables] for key in keys}
    return {key: values for key, values in found.items() if any(value != values[0] for value in values)}


def grouped(runs: Sequence[Run]) -> list[Group]:
    """Runs of one scenario together, in the order in which scenarios first appear."""
    together: dict[str, list[Run]] = {}
    for run in runs:
        kept = {key: value for key, value in leaves(run.scenario) if key not in (*_DRAWS, *_WORDS)}
        together.setdefault(repr(sorted(kept.items())), []).append(run)
    groups = list(together.values())
    names = _names([group[0] for group in groups])
    return [Group(name, tuple(group)) for name, group in zip(names, groups)]


def _names(firsts: list[Run]) -> list[str]:
    """Names that distinguish scenarios: their own, else a few short keys, else their folders."""
    apart = {key: values for key, values in differing(firsts).items() if key not in (*_DRAWS, *_WORDS)}
    names = [str(run.scenario["scenario"]["name"]) for run in firsts]
    if len(firsts) == 1 or len(set(names)) == len(names):
        return names
    if 1 <= len(apart) <= 2:
        return [
            ", ".join(f"{key.rpartition('.')[2]} {format_value(values[n])}" for key, values in apart.items())
            for n in range(len(firsts))
        ]
    return labels(firsts)


def labels(runs: Sequence[Run]) -> list[str]:
    """A short name for each run: its folder's, or the whole path where folders share one."""
    names = [run.path.resolve().name for run in runs]
    return [name if names.count(name) == 1 else str(run.path) for name, run in zip(names, runs)]


def folder_names(runs: Sequence[Run]) -> list[str]:
    """A folder's name for each run, no two alike: its own, or `name-2`, `name-3`, ... where others have it before."""
    own, names = [run.path.resolve().name for run in runs], list[str]()
    for name in own:
        number, free = 1, name
        while free in names or (number > 1 and free in own):
            number += 1
            free = f"{name}-{number}"
        names.append(free)
    return names


def format_value(value: Any) -> str:
    """A value of a key as people write it, control characters escaped."""
    if value is None:
        return "absent"
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float | np.floating) else quote(value)


def node_means(run: Run, columns: tuple[str, ...]) -> FloatArray:
    """Mean of columns over the rounds in which each node transmitted, `[columns, K]`; 0 for one that never did."""
    nodes = run.frame("nodes", ["node", "transmitted", *columns])
    count = run.scenario["network"]["nodes"]
    sent = nodes[nodes["transmitted"]].groupby("node")[list(columns)].mean()
    return sent.reindex(range(count), fill_value=0.0).to_numpy().T


def mean_band(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean over runs and half the width of its 95% band, NaN for one run alone; values are `[runs, points]`."""
    count = len(values)
    if count < 2:
        return values[0], np.full_like(values[0], np.nan)
    with np.errstate(invalid="ignore"):  # infinite values have a mean and no band
        error = values.std(axis=0, ddof=1) / np.sqrt(count)
    return values.mean(axis=0), stdtrit(count - 1, 0.975) * error


def common_rounds(frames: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """The rows of every frame whose round all of them hold."""
    common = set(frames[0]["round"]).intersection(*(frame["round"] for frame in frames[1:]))
    return [frame[frame["round"].isin(common)] for frame in frames]


def final_figures(run: Run) -> dict[str, float | int | None]:
    """Results so far: from the summary where there is one, else from the tables."""
    summary, rounds, privacy = run.summary, run.rounds, run.privacy
    evaluated = rounds.dropna(subset="accuracy_mean")
    last: Any = evaluated.iloc[-1] if len(evaluated) else {}
    newest = rounds.iloc[-1]  # between evaluations there is the bound
    promised, own = (
        _number(newest[f"epsilon_{view}_total"], newest[f"epsilon_{view}_bound"]) for view in ("promised", "own")
    )
    coalition = promised if terms_of(run).promised == "coalition" else None
    on_links = rounds["epsilon_link_max"]
    link_sum = privacy.loc[privacy["view"] == "link", "epsilon_total"].max()
    return {
        "rounds": int(newest["round"]),
        **{name: _number(last.get(name)) for name in ("accuracy_mean", "accuracy_min", "accuracy_max")},
        "loss_mean": float(newest["loss_mean"]),
        "epsilon": _number(headline(summary), promised),
        "epsilon_total": _number(summary.get("epsilon_total"), promised),
        "epsilon_own": _number(headline(summary, "own"), own),
        "epsilon_coalition": _number(headline(summary, "coalition"), coalition),
        "epsilon_link_total": _number(summary.get("epsilon_link_total"), link_sum),
        "epsilon_promised_max": float(rounds["epsilon_promised_max"].max()),
        "epsilon_link_max": None if on_links.isna().any() else float(on_links.max()),
        "violations": int(rounds["violations"].sum()),
        "sinr_db": _number(rounds["sinr_db"].median()),
        "time_s": _number(summary.get("time_s"), newest["time_s"]),
        **{name: float(rounds[name].sum()) for name in ("airtime_s", "energy_j", "energy_nominal_j")},
        **{name: _number(rounds[name].mean()) for name in ("hubs", "disagreement", "uncollected")},
        "wall_s": _number(summary.get("wall_s")),
    }


def _number(*values: Any) -> float | None:
    """The first that is there; JSON keeps infinities as text."""
    return next((float(value) for value in values if not pd.isna(value)), None)


def protects(run: Run) -> str:
    """What the epsilons of a run protect."""
    terms = terms_of(run)
    return protected(terms.unit, terms.adjacency)


def one_adjacency(found: Iterable[str]) -> str:
    """The adjacency of all epsilons in a figure; raises where there are several, whose numbers do not compare."""
    every = sorted(set(found)) or ["replace-one"]
    if len(every) > 1:
        raise TraceError(
            f"privacy.adjacency is {' and '.join(every)}; epsilons of different neighbours do not compare, and no "
            "figure shows both: show them apart, or side by side with `wirelessdl compare`"
        )
    return every[0]


def adjacency_of(study: Study) -> str:
    """The adjacency of all epsilons of a study."""
    rows = study.index
    return one_adjacency(rows["adjacency"].dropna().astype(str) if "adjacency" in rows else [])


# each final figure: label and format
FIGURES: dict[str, tuple[str, str]] = {
    "rounds": ("rounds", "{:d}"),
    "accuracy_mean": ("test accuracy, mean of nodes", "{:.1%}"),
    "accuracy_min": ("test accuracy, worst node", "{:.1%}"),
    "accuracy_max": ("test accuracy, best node", "{:.1%}"),
    "loss_mean": ("mini-batch loss in the last round (no epsilon covers it)", "{:.3g}"),
    "epsilon": ("total epsilon, guaranteed", "{:.3g}"),
    "epsilon_total": ("total epsilon when the run ended", "{:.3g}"),
    "epsilon_own": ("epsilon of the run if all other nodes collude (own)", "{:.3g}"),
    "epsilon_coalition": ("epsilon of the run against the coalition", "{:.3g}"),
    "epsilon_link_total": ("epsilon of the run, link sum (the paper's sum, unproven)", "{:.3g}"),
    "epsilon_promised_max": ("epsilon of one transmission, worst sender, guaranteed", "{:.3g}"),
    "epsilon_link_max": ("epsilon of one slot by Theorem 1, worst link (single-antenna receiver)", "{:.3g}"),
    "violations": ("links above epsilon_max (senders, where links are not accounted for)", "{:d}"),
    "sinr_db": ("SINR of links in dB, median", "{:.1f}"),
    "time_s": ("simulated time in s", "{:.3f}"),
    "airtime_s": ("time on air in s", "{:.3f}"),
    "energy_j": ("energy used in J", "{:.3g}"),
    "energy_nominal_j": ("energy used in J, payloads at the power budget", "{:.3g}"),
    "hubs": ("turns of hubs per round", "{:.3g}"),
    "disagreement": ("disagreement that a round of hubs leaves", "{:.2g}"),
    "uncollected": ("nodes that no hub collected, per round", "{:.2g}"),
    "wall_s": ("wall clock in s", "{:.1f}"),
}


def format_figure(name: str, value: float | int | None) -> str:
    """A final figure as text; empty where it is not known yet."""
    return "" if value is None else FIGURES[name][1].format(value)


def figure_rows(finals: Sequence[dict[str, float | int | None]]) -> list[tuple[str, list[str]]]:
    """Label and text of each final figure that one of these runs has at least."""
    rows = [(words, [format_figure(name, final[name]) for final in finals]) for name, (words, _) in FIGURES.items()]
    return [(words, texts) for words, texts in rows if any(texts)]


# baselines, and words for them
BASELINES = {"central-dp": "central DP", "no-privacy": "without privacy", "local": "local training"}
_LONGEST = 99  # characters of a scenario's name with that of its baseline


@dataclass(frozen=True)
class Beside:
    """A finished run: what it is, and what it reached."""

    name: str
    path: Path
    accuracy: float
    epsilon: float


def beside(run: Run) -> list[Beside]:
    """The run itself, and the newest finished run of each baseline with its seed, run number and rounds."""
    section = run.scenario["scenario"]
    found = []
    for name in ("", *BASELINES):
        own = section["name"][: _LONGEST - len(name)] if name else section["name"]
        scenario = f"{own}-{name}" if name else own
        folders = (
            [run.path]
            if not name
            else sorted(run.path.resolve().parent.glob(f"{_escaped(scenario)}-s{section['seed']}-r{section['run']}*"))
        )
        for folder in reversed(folders):
            one = _finished(name or "this run", folder, scenario, run)
            if one is not None:
                found.append(one)
                break
    return found


def in_one_line(found: list[Beside]) -> str:
    """The accuracies of a run and its baselines; empty where there is nothing to compare with."""
    if len(found) < 2 or found[0].name != "this run":
        return ""
    return ", ".join(f"{one.name} {one.accuracy:.1%} (epsilon {one.epsilon:.3g})" for one in found)


def _finished(name: str, folder: Path, scenario: str, run: Run) -> Beside | None:
    """None where the folder holds something else."""
    try:
        status, other = run_status(folder), Run(folder, strict=False).scenario
    except (TraceError, OSError, LookupError, TypeError, ValueError):
        return None
    alike = all(other["scenario"].get(key) == run.scenario["scenario"].get(key) for key in ("seed", "run", "rounds"))
    alike &= other["privacy"].get("adjacency") == run.scenario["privacy"].get("adjacency")
    if not alike or status.scenario != scenario or status.state != "done":
        return None
    if status.accuracy is None or status.epsilon is None:
        return None
    return Beside(name, folder, status.accuracy, status.epsilon)


def _escaped(name: str) -> str:
    """A name in which no character means others."""
    return "".join(f"[{one}]" if one in "*?[" else one for one in name)
