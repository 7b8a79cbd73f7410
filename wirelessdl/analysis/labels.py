"""Labels of columns, values and curves of a study. Texts of a study are untrusted: none is read as mathematics."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from wirelessdl.analysis.families import Family, scenario_name
from wirelessdl.analysis.runs import format_value
from wirelessdl.errors import TraceError, quote
from wirelessdl.trace.schema import TABLES
from wirelessdl.trace.study import Study, resolved

COLUMNS = {
    "accuracy_mean": "test accuracy",
    "accuracy_min": "test accuracy, worst node",
    "accuracy_max": "test accuracy, best node",
    "loss_mean": "mini-batch loss (no epsilon covers it)",
    "time_s": "simulated time in s",
    "airtime_s": "time on air in s",
    "energy_j": "energy used by all nodes in J",
    "energy_nominal_j": "energy of all nodes at the power budget in J",
    "wall_s": "wall clock in s",
    "epsilon_link_total": "link sum of ε (unproven)",
    "epsilon_own_total": "total ε against all other nodes",
    "epsilon_coalition_total": "total ε against the coalition",
    "sinr_db": "SINR in dB",
    "round": "round",
}
_EPSILONS = ("epsilon", "epsilon_total", "epsilon_declared")  # totals as promised: the adversary belongs to them


@dataclass(frozen=True)
class Labels:
    """Texts that a user chose: of columns and baselines, and of single values (`key:value`)."""

    texts: dict[str, str] = field(default_factory=dict)

    def column(self, name: str) -> str:
        """A column in a legend: its own name without the section."""
        return self.texts.get(name, escape_math(COLUMNS.get(name, name.rpartition(".")[2])))

    def value(self, key: str, value: Any) -> str:
        """One value of a key in a legend; a number has its key's name, a text says by itself what it is."""
        text = format_value(value)
        chosen = self.texts.get(f"{key}:{text}")
        if chosen is not None:
            return chosen
        named = key in self.texts or not isinstance(value, str)
        return f"{self.column(key)} {escape_math(text)}" if named else escape_math(text)

    def axis(self, name: str, family: Family) -> str:
        """A column along an axis."""
        if name in self.texts:
            return self.texts[name]
        if name in _EPSILONS:
            every = set(family.adversaries.values())
            whom = f"against {every.pop()}" if len(every) == 1 else "as guaranteed"
            return f"total ε {whom} ({family.adjacency}, worst node)"
        return escape_math(COLUMNS.get(name, name))

    def baseline(self, name: str) -> str:
        """A baseline, or the scenario itself beside it."""
        return self.texts.get(name, escape_math(name))

    def series(self, value: Any, family: Family) -> str:
        """One series in the legend, with its adversary where those of the series differ."""
        text = self.value(family.roles.series or "", value)
        if family.roles.x in _EPSILONS and len(set(family.adversaries.values())) > 1:
            text += f", against {family.adversaries.get(value, 'several')}"
        return text


def labels_of(given: Sequence[str], study: Study) -> Labels:
    """`NAME=TEXT` or `NAME:VALUE=TEXT`; NAME is a column (short names too), a baseline or the scenario."""
    baselines = [*(str(name) for name in study.index["baseline"].dropna().unique()), scenario_name(study)]
    columns = [*map(str, study.index.columns), *TABLES["rounds"].names]
    texts = {}
    for entry in given:
        name, equals, text = entry.partition("=")
        if not equals or not text:
            raise TraceError(
                f"--label is {quote(entry)!r}; must be NAME=TEXT or NAME:VALUE=TEXT, such as network.nodes=K"
            )
        key, colon, value = name.partition(":")
        if key not in baselines or colon:
            key = resolved(key, [*columns, *baselines], f"--label {quote(entry)}: no column or baseline")
        texts[f"{key}:{value}" if colon else key] = _drawable(text)
    return Labels(texts)


def _drawable(text: str) -> str:
    """A user's own text, which may hold mathematics between dollar signs."""
    from matplotlib.mathtext import MathTextParser

    if text.count("$") - text.count(r"\$") < 2:
        return escape_math(text)
    try:
        MathTextParser("path").parse(text)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise TraceError(f"--label text {quote(text)!r} cannot be set as mathematics: {quote(reason)}") from None
    return text


def escape_math(text: str) -> str:
    """A text as it is: no dollar sign begins mathematics."""
    return quote(text, 60).replace("$", r"\$")
