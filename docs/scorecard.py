# ruff: noqa: E501  words of a table
"""Writes the scorecard of docs/reproduction.md from the CSV files of `wirelessdl reproduce`.

    python docs/scorecard.py FOLDER

FOLDER holds the CSV files of one scale. A row whose files are not there says "not measured yet". Numbers and verdicts
come from the files; the words of the paper, and why, stand here.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pandas as pd

PAGE = Path(__file__).with_name("reproduction.md")
BEGIN, END = "<!-- scorecard: written by docs/scorecard.py -->", "<!-- end of scorecard -->"
NOT_YET = "not measured yet"
SIZES = {"fig4": 4, "fig5": 10, "fig6": 20}
DATA = "learning.partition"
EPSILON = "privacy.epsilon_max"
GRAPH = "network.topology"


class Missing(Exception):
    """A CSV file, or rows of it, are not there."""


@dataclass(frozen=True)
class Found:
    """What was measured, and the verdict that follows."""

    measured: str
    verdict: str


@dataclass(frozen=True)
class Row:
    claim: str
    words: str
    look: Callable[["Tables"], Found]
    why: str
    files: str
    command: str


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


ROWS = (
    Row(
        "slot leakage <= epsilon_max",
        "Theorem 1, eq. (8): each slot is (epsilon_ij, delta)-DP",
        slot,
        "printed noise is rho gamma_t, the gradient on air is that of round t - 1 with the larger gamma_(t-1): up to "
        "sqrt(2) too little noise, less as t grows",
        "theorem1-slots.csv, fig4-paper.csv",
        "theorem1",
    ),
    Row(
        "power <= P",
        "average per-coordinate transmit power does not exceed P_i",
        power,
        "models are projected and rho gamma <= 1 is checked",
        "fig4-paper.csv to fig6-paper.csv",
        "fig4",
    ),
    Row(
        "z -> pi",
        "Lemma 1: |z_ii - pi_i| <= C xi^t",
        perron,
        "constant A; under fading it is not so (docs/power.md)",
        "fig4-paper.csv to fig6-paper.csv",
        "fig4",
    ),
    Row(
        "bias without 1/z",
        "the standard update converges to the minimizer of sum pi_i f_i",
        bias,
        "as the closed forms say",
        "bias-minima.csv, bias-minima.pdf",
        "bias",
    ),
    Row(
        "more alpha learns better",
        "allocating more power to information transmission improves ... convergence",
        alpha,
        "alpha scales with rho; the noise on the models follows from epsilon_max, not from alpha",
        "alpha.csv, alpha-rho.pdf",
        "alpha",
    ),
    Row(
        "channel noise helps",
        "Remark 1: intrinsic channel noise contributes to privacy",
        lambda _: Found("none", "not tested here"),
        "credited noise is that of a receiver no better than assumed (privacy.credit_thermal)",
        "none",
        "fig4",
    ),
    Row(
        "regret O(log T)",
        "Theorem 2: U_1 + U_2 (1 + log T)",
        regret,
        "the bound holds and says nothing: its constant is this many times the regret",
        "theorem2-slopes.csv, theorem2-regret.csv, theorem2-regret.pdf",
        "theorem2",
    ),
    Row(
        "better than PED2FL, epsilon_max 1",
        "Fig. 2: consistently achieves higher test accuracy",
        better_than_ped2fl("fig2"),
        "1/z is about K and PED2FL has no multiplier: with its own step it is a comparison of step sizes",
        "fig2-*-differences.csv, fig2-*-curves.pdf",
        "fig2",
    ),
    Row(
        "better than PED2FL, epsilon_max 0.5",
        "Fig. 3: the same",
        better_than_ped2fl("fig3"),
        "as in Fig. 2",
        "fig3-*-differences.csv, fig3-*-curves.pdf",
        "fig3",
    ),
    Row(
        "0.5 < 1 < inf",
        "stronger privacy reduces accuracy",
        order_of_epsilon,
        "as printed 0.5 and 1 are both at chance",
        "fig4-*.csv to fig6-*.csv",
        "fig4",
    ),
    Row(
        "IID > non-IID",
        "IID data generally achieve higher accuracy",
        paired(DATA, "non-IID minus IID"),
        "softmax is convex: Dirichlet(1) costs it little",
        "fig4-*-differences.csv to fig6-*",
        "fig4",
    ),
    Row(
        "full > ring, ER",
        "fully connected networks generally outperform ring and random topologies",
        paired(GRAPH, "ring or ER minus full"),
        "more senders hide a link, and theta is smaller",
        "fig4-*-differences.csv to fig6-*",
        "fig4",
    ),
    Row(
        "leakage grows with K",
        "cumulative RDP leakage generally increases with K",
        grows_with_nodes,
        "q = batch / samples grows; the proven total as printed has no amplification",
        "fig4-paper.csv to fig6-paper.csv",
        "fig6",
    ),
    Row(
        "Theorem 9 total",
        "epsilon_tot = T epsilon_sub",
        totals,
        "a gradient is heard again in later slots; gradients are taken at un-noised models, so no amplification is proven",
        "theorem1-totals.csv, theorem1-leakage.pdf",
        "theorem1",
    ),
    Row(
        "the LP with per-sample clipping",
        "a link is hidden by its neighbours' noise",
        hides_behind_others,
        "one node sends almost no noise of its own: against colluding neighbours nothing hides it",
        "fig2-hardened.csv",
        "fig2",
    ),
    Row(
        "learns at epsilon 0.5 and 1",
        "strong performance across the considered settings",
        learns,
        "batch clipping has sensitivity 2G whatever the batch: noise is hundreds of times the update",
        "fig4-*.csv to fig6-*.csv",
        "fig4",
    ),
    Row(
        "connectivity mitigates noise",
        "the role of network connectivity in mitigating the effects of DP noise",
        paired(GRAPH, "ring or ER minus full"),
        "see full > ring, ER",
        "fig4-*-differences.csv to fig6-*",
        "fig4",
    ),
    Row(
        "learning alone",
        "not in the paper",
        local,
        "it leaks nothing: collaboration under privacy pays where data differ",
        "fig4-*-differences.csv to fig6-*",
        "fig4",
    ),
    Row(
        "training stops",
        "|acc(t+k) - acc(t)| <= 0.001 for k = 1..15",
        lambda _: Found("none", NOT_YET),
        'learning.stop_rule = "anchored" is this rule; runs here have 150 rounds',
        "none",
        "fig4",
    ),
)


def scorecard(folder: Path) -> str:
    tables = Tables(folder)
    lines = [
        "| claim | words of the paper | measured | verdict | why | files | command |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        try:
            found = row.look(tables)
        except Missing:
            found = Found("none", NOT_YET)
        command = f"`wirelessdl reproduce {row.command} --scale cpu`"
        cells = (row.claim, row.words, found.measured, f"**{found.verdict}**", row.why, row.files, command)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2]
    PAGE.write_text(f"{head}{BEGIN}\n\n{scorecard(Path(sys.argv[1]))}\n\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
