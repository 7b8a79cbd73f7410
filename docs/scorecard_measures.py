# ruff: noqa: E501  words of a table
"""What the scorecard says was measured, claim by claim, from the CSV files of `wirelessdl reproduce`."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pandas as pd

NOT_YET = "not measured yet"
SIZES = {"fig4": 4, "fig5": 10, "fig6": 20}
DATA = "learning.partition"
EPSILON = "privacy.epsilon_max"
ROUNDS_AT_MOST = 600  # of the study stopping
GRAPH = "network.topology"


class Missing(Exception):
    """A CSV file, or rows of it, are not there."""


@dataclass(frozen=True)
class Found:
    """What was measured, and the verdict that follows."""

    measured: str
    verdict: str


class Tables:
    """The CSV files of a folder."""

    def __init__(self, folder: Path):
        self._folder = folder

    def __call__(self, name: str) -> pd.DataFrame:
        path = self._folder / f"{name}.csv"
        if not path.is_file():
            raise Missing(name)
        return pd.read_csv(path)

    def sizes(self, protocol: str) -> dict[int, pd.DataFrame]:
        """Own cells of fig4 to fig6 that are there, by number of nodes."""
        found = {}
        for name, nodes in SIZES.items():
            try:
                table = self(f"{name}-{protocol}")
            except Missing:
                continue
            found[nodes] = table[table["baseline"].isna()]
        if not found:
            raise Missing("fig4 to fig6")
        return found


def percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def mean(row: pd.Series, of: str = "accuracy_mean") -> str:
    half = row[f"{of}_high"] - row[of]
    return f"{percent(row[of])} +- {100 * half:.1f}" if math.isfinite(half) else f"{percent(row[of])} (one seed)"


def points(row: pd.Series) -> str:
    return f"{100 * row['difference']:+.1f} +- {100 * (row['high'] - row['difference']):.1f}"


def seeds(table: pd.DataFrame) -> str:
    least, most = int(table["n"].min()), int(table["n"].max())
    return f"{least} seeds" if least == most else f"{least} to {most} seeds"


def one(table: pd.DataFrame, **keys: object) -> pd.Series:
    for key, value in keys.items():
        table = table[table[key] == value]
    if table.empty:
        raise Missing(str(keys))
    return table.iloc[0]


# --- rows


def slot(tables: Tables) -> Found:
    """The plan's bound, and what the slot really carries."""
    excess = max(
        float((table["epsilon_link_max"] / table[EPSILON])[table[EPSILON] < math.inf].max())
        for table in tables.sizes("paper").values()
    )
    slots = tables("theorem1-slots")
    slots = slots[slots[EPSILON] <= 1]  # beyond, plans are made with the analytic mechanism
    early = slots[slots["round"] == slots["round"].min()]
    late = slots[slots["round"] == slots["round"].max()]
    factor = float((early["formula"] / early[EPSILON]).max())
    above = int((slots["test_low"] > slots["exact"]).sum())
    return Found(
        f"printed formula: largest link epsilon / epsilon_max {excess:.6f}; with the learning rate of the gradient that "
        f"the slot carries: {factor:.2f} in round {int(early['round'].iloc[0])}, "
        f"{float((late['formula'] / late[EPSILON]).max()):.3f} in round {int(late['round'].iloc[0])}; optimal test on "
        f"200,000 draws above the analytic epsilon (beyond its 95% interval) on {above} of {len(slots)} links, {0.025 * len(slots):.0f} expected by chance",
        "holds only if noise follows the learning rate of the gradient it hides",
    )


def power(tables: Tables) -> Found:
    largest = max(float(table["power_over_budget"].max()) for table in tables.sizes("paper").values())
    return Found(f"largest radiated power over budget {largest:.3f}", "holds" if largest <= 1 else "does not")


def perron(tables: Tables) -> Found:
    largest = max(float(table["z_minus_pi"].max()) for table in tables.sizes("paper").values())
    return Found(f"after the last round |z_ii - pi_i| <= {largest:.1e}", "holds" if largest < 1e-6 else "does not")


def bias(tables: Tables) -> Found:
    table = tables("bias-minima")
    last = table[table["rounds"] == table["rounds"].max()]
    with_z, without = one(last, name="one-over-z"), one(last, name="none")
    holds = with_z["to_optimum"] < with_z["to_weighted"] and without["to_weighted"] < without["to_optimum"]
    return Found(
        f"after {int(with_z['rounds'])} rounds, minima {with_z['apart']:.4f} apart: with 1/z {with_z['to_optimum']:.1e} "
        f"from that of sum f; without {without['to_weighted']:.1e} from that of sum pi f, {without['to_optimum']:.1e} "
        f"from that of sum f ({seeds(last)})",
        "holds" if holds else "does not",
    )


def alpha(tables: Tables) -> Found:
    table = tables("alpha")
    table = table[table["baseline"].isna()]
    said, gains = [], []
    for epsilon, part in table.groupby(EPSILON):
        part = part.sort_values("privacy.rho")
        first, last = part.iloc[0], part.iloc[-1]
        gains.append(last["accuracy_mean_low"] > first["accuracy_mean_high"])
        said.append(
            f"epsilon_max {epsilon:g}, rho {first['privacy.rho']:g} to {last['privacy.rho']:g}: sum alpha "
            f"{first['sum_alpha']:.3f} to {last['sum_alpha']:.2f}, noise over update {first['noise_over_update']:.0f} to "
            f"{last['noise_over_update']:.0f}, accuracy {mean(first)} to {mean(last)}"
        )
    return Found("; ".join(said) + f" ({seeds(table)})", "holds" if all(gains) else "does not")


def thermal(tables: Tables) -> Found:
    """At a signal-to-noise ratio: without credit for thermal noise, with it, and sum alpha of both."""
    said, better, total = [], 0, 0
    for protocol in ("paper", "hardened"):
        try:
            table, apart = tables(f"thermal-{protocol}"), tables(f"thermal-{protocol}-differences")
        except Missing:
            said.append(f"{protocol}: {NOT_YET}")
            continue
        better, total = better + int((apart["low"] > 0).sum()), total + len(apart)
        cells = []
        for figure, rows in table[table["baseline"].isna()].groupby("radio.noise_figure_db"):
            plain, credit = one(rows, name="no-credit"), one(rows, name="credit")
            cells.append(
                f"{144 - figure:.0f} dB: {mean(plain)} / {mean(credit)}, sum alpha {plain['sum_alpha']:.2f} / "
                f"{credit['sum_alpha']:.2f}"
            )
        said.append(
            f"{protocol} by signal-to-noise ratio at |h| = 1, accuracy without / with credit: {', '.join(cells)}"
        )
    if not total:
        raise Missing("thermal")
    return Found(
        "epsilon_max 1. "
        + "; ".join(said)
        + f"; more accurate with credit beyond its interval in {better} of {total} cells",
        "holds" if better > total / 2 else f"holds for link epsilons; learning gains in {better} of {total} cells",
    )


def stops(tables: Tables) -> Found:
    """After how many rounds the printed rule ends a run."""
    said, never, total = [], 0, 0
    for protocol in ("paper", "hardened"):
        try:
            table = tables(f"stopping-{protocol}")
        except Missing:
            said.append(f"{protocol}: {NOT_YET}")
            continue
        rows = table[table["baseline"].isna()]
        for _, row in rows.iterrows():
            all_never = row["rounds"] >= ROUNDS_AT_MOST
            never, total = never + bool(all_never), total + 1
            when = f"never in {ROUNDS_AT_MOST} rounds" if all_never else f"after {row['rounds']:.0f} rounds on average"
            said.append(
                f"{protocol}, epsilon_max {row[EPSILON]:g}: {when} ({int(row['n'])} seeds, accuracy {mean(row)})"
            )
    if not total:
        raise Missing("stopping")
    return Found(
        "K = 4, full, IID. " + "; ".join(said),
        "holds"
        if not never
        else "does not"
        if never == total
        else "holds only where noise is small, or chance stands still",
    )


def regret(tables: Tables) -> Found:
    slopes, curves = tables("theorem2-slopes"), tables("theorem2-regret")
    said, logarithmic = [], {}
    for name, part in slopes.groupby("name", sort=False):
        part = part.sort_values("to_T")
        last, before = part.iloc[-1], part.iloc[-2]
        end = curves[(curves["name"] == name)].sort_values("T").iloc[-1]
        said.append(
            f"{name}: slope of R against ln T {last['slope']:.3g} +- {last['high'] - last['slope']:.2g} over T = "
            f"{int(last['from_T'])} to {int(last['to_T'])}, {before['slope']:.3g} in the decade before; bound / R "
            f"{end['bound_over_regret']:.1e} at T = {int(end['T'])}"
        )
        logarithmic[name] = last["slope"] < 1.5 * before["slope"]
    if all(logarithmic.values()):
        verdict = "holds"
    else:
        names = [name for name, yes in logarithmic.items() if yes]
        verdict = f"holds only if {' and '.join(names)} clipping, up to T = 10,000" if names else "does not up to T"
    return Found("; ".join(said) + f" ({seeds(slopes)})", verdict)


def better_than_ped2fl(name: str) -> Callable[[Tables], Found]:
    def look(tables: Tables) -> Found:
        said, wins = [], []
        for protocol in ("paper", "hardened"):
            try:
                table = tables(f"{name}-{protocol}-differences")
            except Missing:
                said.append(f"{protocol}: {NOT_YET}")
                continue
            rows = table[table["name"].str.startswith("proposed")]
            for reference, part in rows[rows["reference"].isin(["ped2fl", "ped2fl-step-k"])].groupby("reference"):
                for _, row in part.iterrows():
                    data = "IID" if row[DATA] == "iid" else "Dirichlet(1)"
                    said.append(f"{protocol}, {data}, against {reference} {points(row)} ({int(row['n'])} seeds)")
                    wins.append((protocol, reference, row["low"] > 0, row["high"] < 0))
        if not wins:
            raise Missing(name)
        if all(win for *_, win, _ in wins):
            verdict = "holds"
        elif not any(win for *_, win, _ in wins):
            verdict = "does not"
        else:
            where = dict.fromkeys(f"{protocol} against {reference}" for protocol, reference, win, _ in wins if win)
            verdict = f"holds only for {', '.join(where)}"
        missing = [protocol for protocol in ("paper", "hardened") if not any(protocol == one for one, *_ in wins)]
        verdict += f" ({missing[0]}: {NOT_YET})" if missing else ""
        return Found("proposed minus PED2FL in points: " + "; ".join(said), verdict)

    return look


def order_of_epsilon(tables: Tables) -> Found:
    said, fine = [], []
    for protocol in ("paper", "hardened"):
        try:
            found = tables.sizes(protocol)
        except Missing:
            said.append(f"{protocol}: {NOT_YET}")
            continue
        for nodes, table in found.items():
            part = table[(table[GRAPH] == "full") & (table[DATA] == "iid")].set_index(EPSILON)
            said.append(
                f"{protocol}, K = {nodes}: "
                + ", ".join(f"{epsilon:g}: {mean(row)}" for epsilon, row in part.iterrows())
            )
            small = [part.loc[value] for value in (0.5, 1.0, math.inf)]
            fine.append(all(a["accuracy_mean_high"] < b["accuracy_mean_low"] for a, b in pairwise(small)))
    verdict = "holds" if all(fine) else "holds for inf; 0.5 and 1 are not resolved in every case"
    return Found("full, IID, accuracy by epsilon_max. " + "; ".join(said), verdict)


def paired(key: str, what: str) -> Callable[[Tables], Found]:
    """Cells beside the reference value of a key, over all sizes and protocols."""

    def look(tables: Tables) -> Found:
        said, better, total = [], 0, 0
        for protocol in ("paper", "hardened"):
            for name, nodes in SIZES.items():
                try:
                    table = tables(f"{name}-{protocol}-differences")
                except Missing:
                    continue
                reference = "full" if key == GRAPH else "iid"
                rows = table[
                    table["reference"].str.contains(reference) & (table[key] != reference) & table[key].notna()
                ]
                rows = rows[~rows["reference"].str.startswith("local") & ~rows["name"].str.startswith("local")]
                rows = rows[_alone(rows, key)]
                if rows.empty:
                    continue
                lower = int((rows["high"] < 0).sum())
                better, total = better + lower, total + len(rows)
                said.append(
                    f"{protocol}, K = {nodes}: {100 * rows['difference'].min():+.1f} to "
                    f"{100 * rows['difference'].max():+.1f} points, below 0 with its interval in {lower} of {len(rows)} "
                    f"cells"
                )
        if not total:
            raise Missing(key)
        verdict = "holds" if better > 0.8 * total else "not resolved" if better < 0.2 * total else "holds in part"
        return Found(f"{what}. " + "; ".join(said), verdict)

    return look


def _alone(rows: pd.DataFrame, key: str) -> pd.Series:
    """Rows whose reference differs in this key alone."""
    other = DATA if key == GRAPH else GRAPH
    short = other.rpartition(".")[2]
    return pd.Series(
        [f"{short} {row[other]}" in row["reference"] for _, row in rows.iterrows()], index=rows.index, dtype=bool
    )


def grows_with_nodes(tables: Tables) -> Found:
    found = tables.sizes("paper")
    if len(found) < 2:
        raise Missing("fig5, fig6")
    said, values = [], []
    for nodes, table in found.items():
        row = table[(table[GRAPH] == "full") & (table[DATA] == "iid") & (table[EPSILON] == 1.0)].iloc[0]
        values.append(row["epsilon_link_total"])
        said.append(f"K = {nodes}: claim {row['epsilon_link_total']:.2f}, proven {row['epsilon_total']:.3g}")
    return Found(
        "printed, full, IID, epsilon_max 1, 150 rounds. " + "; ".join(said),
        "holds for the claim" if values == sorted(values) else "does not",
    )


def totals(tables: Tables) -> Found:
    table = tables("theorem1-totals")
    said = [
        f"epsilon_max {row[EPSILON]:g}: claim {row['claim']:.3g}, audit {row['audit']:.3g}, proven {row['proven']:.3g}"
        for _, row in table.iterrows()
    ]
    refuted = bool((table["audit"] > table["claim"]).all())
    return Found(
        "without amplification, 150 rounds, worst link. " + "; ".join(said) + f" ({seeds(table)})",
        "does not: the audit attains more than the claim" if refuted else "not refuted here, not proven",
    )


def hides_behind_others(tables: Tables) -> Found:
    row = one(tables("fig2-hardened"), name="proposed", **{DATA: "iid"})
    return Found(
        f"claim {row['epsilon_link_total']:.2f}, proven {row['epsilon_total']:.3g} (mean of {int(row['n'])} seeds)",
        "does not",
    )


def learns(tables: Tables) -> Found:
    said, best = [], 0.0
    for protocol in ("paper", "hardened"):
        try:
            found = tables.sizes(protocol)
        except Missing:
            said.append(f"{protocol}: {NOT_YET}")
            continue
        for nodes, table in found.items():
            rows = table[table[EPSILON].isin([0.5, 1.0])]
            said.append(
                f"{protocol}, K = {nodes}: {percent(rows['accuracy_mean'].min())} to "
                f"{percent(rows['accuracy_mean'].max())} over {len(rows)} cells"
            )
            if protocol == "paper":
                best = max(best, float(rows["accuracy_mean"].max()))
    verdict = "does not as printed" if best < 0.3 else "holds"
    return Found("; ".join(said), verdict)


def local(tables: Tables) -> Found:
    said, beaten, total = [], 0, 0
    for protocol in ("paper", "hardened"):
        for name, nodes in SIZES.items():
            try:
                table = tables(f"{name}-{protocol}-differences")
            except Missing:
                continue
            rows = table[table["reference"].str.startswith("local") & (table[EPSILON] <= 1.0)]
            if rows.empty:
                continue
            for data, part in rows.groupby(DATA):
                beaten, total = beaten + int((part["low"] > 0).sum()), total + len(part)
                said.append(
                    f"{protocol}, K = {nodes}, {data.replace('dirichlet concentration=', 'Dirichlet ')[:14].strip()}: "
                    f"{100 * part['difference'].min():+.1f} to {100 * part['difference'].max():+.1f} ({seeds(part)})"
                )
    if not total:
        raise Missing("local")
    return Found(
        f"epsilon_max 0.5 and 1 minus learning alone, in points. {'; '.join(said)}; above 0 with its interval in {beaten} "
        f"of {total} cells",
        "the paper has no such baseline",
    )
