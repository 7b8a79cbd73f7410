# ruff: noqa: E501  words of a table
"""Writes the scorecard of docs/reproduction.md from the CSV files of `wirelessdl reproduce`.

    python docs/scorecard.py FOLDER

FOLDER holds the CSV files of one scale. A row whose files are not there says "not measured yet". Numbers and verdicts
come from the files (`scorecard_measures.py`); the words of the paper, and why, stand here.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scorecard_measures import (
    DATA,
    EPSILON,
    GRAPH,
    NOT_YET,
    Found,
    Missing,
    Tables,
    alpha,
    better_than_ped2fl,
    bias,
    grows_with_nodes,
    hides_behind_others,
    learns,
    local,
    mean,
    one,
    order_of_epsilon,
    paired,
    perron,
    power,
    regret,
    slot,
    stops,
    thermal,
    totals,
)

PAGE = Path(__file__).with_name("reproduction.md")
BEGIN, END = "<!-- scorecard: written by docs/scorecard.py -->", "<!-- end of scorecard -->"


@dataclass(frozen=True)
class Row:
    claim: str
    words: str
    look: Callable[["Tables"], Found]
    why: str
    files: str
    command: str


ROWS = (
    Row(
        "slot leakage <= epsilon_max",
        "Theorem 1, eq. (8): each slot is (epsilon_ij, delta)-DP",
        slot,
        "printed noise is rho gamma_t, the gradient on air is that of round t - 1 with the larger gamma_(t-1): up to "
        "sqrt(2) too little noise, less as t grows",
        "theorem1-slots.csv, theorem1-leakage.pdf, fig4-paper.csv",
        "theorem1",
    ),
    Row(
        "power <= P",
        "average per-coordinate transmit power does not exceed P_i",
        power,
        "models are projected and rho gamma <= 1 is checked",
        "fig4-paper.csv to fig6-paper.csv, fig4-paper-claim.pdf to fig6-paper-claim.pdf",
        "fig4",
    ),
    Row(
        "z -> pi",
        "Lemma 1: |z_ii - pi_i| <= C xi^t",
        perron,
        "constant A; under fading it is not so (docs/power.md)",
        "fig4-paper.csv to fig6-paper.csv, fig4-paper-claim.pdf to fig6-paper-claim.pdf",
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
        thermal,
        "credited noise is that of a receiver no better than assumed: the proven total credits none. Thermal noise that "
        "is large enough to hide gradients drowns models, too",
        "thermal-*.csv, thermal-*-differences.csv, thermal-*-snr.pdf",
        "thermal",
    ),
    Row(
        "regret O(log T)",
        "Theorem 2: U_1 + U_2 (1 + log T)",
        regret,
        "the bound holds and says nothing: its constant is this many times the regret. Both clippings with the gradient at the received mix: the paper's point has a penalty whose gradient no clipping bounds",
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
        "fig4-*.csv to fig6-*.csv, fig4-*-claim.pdf, fig4-*-proven.pdf to fig6-*",
        "fig4",
    ),
    Row(
        "IID > non-IID",
        "IID data generally achieve higher accuracy",
        paired(DATA, "non-IID minus IID"),
        "softmax is convex: Dirichlet(1) costs it little",
        "fig4-*-differences.csv to fig6-*, fig4-*-claim.pdf to fig6-*",
        "fig4",
    ),
    Row(
        "full > ring, ER",
        "fully connected networks generally outperform ring and random topologies",
        paired(GRAPH, "ring or ER minus full"),
        "more senders hide a link, and theta is smaller",
        "fig4-*-differences.csv to fig6-*, fig4-*-claim.pdf to fig6-*",
        "fig4",
    ),
    Row(
        "leakage grows with K",
        "cumulative RDP leakage generally increases with K",
        grows_with_nodes,
        "q = batch / samples grows; the proven total as printed has no amplification",
        "fig4-paper.csv to fig6-paper.csv, fig4-paper-claim.pdf to fig6-paper-claim.pdf",
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
        "fig2-hardened.csv, fig2-hardened-curves.pdf",
        "fig2",
    ),
    Row(
        "learns at epsilon 0.5 and 1",
        "strong performance across the considered settings",
        learns,
        "batch clipping has sensitivity 2G whatever the batch: noise is hundreds of times the update",
        "fig4-*.csv to fig6-*.csv, fig4-*-claim.pdf, fig4-*-proven.pdf to fig6-*",
        "fig4",
    ),
    Row(
        "connectivity mitigates noise",
        "the role of network connectivity in mitigating the effects of DP noise",
        paired(GRAPH, "ring or ER minus full"),
        "see full > ring, ER",
        "fig4-*-differences.csv to fig6-*, fig4-*-claim.pdf to fig6-*",
        "fig4",
    ),
    Row(
        "learning alone",
        "not in the paper",
        local,
        "it leaks nothing: collaboration under privacy pays where data differ",
        "fig4-*-differences.csv to fig6-*, fig4-*-claim.pdf to fig6-*",
        "fig4",
    ),
    Row(
        "training stops",
        "|acc(t+k) - acc(t)| <= 0.001 for k = 1..15",
        stops,
        'learning.stop_rule = "anchored" is this rule, an evaluation every round; 16 values within 0.001 need a test set '
        "and a learning rate for which noise moves accuracy by less",
        "stopping-*.csv",
        "stopping",
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


def cells(folder: Path, study: str) -> str:
    """A study's cells as a table: accuracy and the proven total at each epsilon_max; learning alone without one."""
    table = Tables(folder)(study)
    groups = [key for key in ("name", DATA) if key in table and table[key].nunique() > 1]
    slots = sorted(table[EPSILON].dropna().unique())
    lines = [
        "| "
        + " | ".join([*("data" if key == DATA else "cell" for key in groups), *(f"epsilon_max {e:g}" for e in slots)])
        + " |",
        "|" + "---|" * (len(groups) + len(slots)),
    ]
    for key, rows in table.groupby(groups, sort=False):
        said = (
            [str(part).replace("dirichlet concentration=", "Dirichlet ").replace(" min_samples=64", "") for part in key]
            if isinstance(key, tuple)
            else [str(key)]
        )
        if rows[EPSILON].isna().all():
            alone = rows.loc[rows["accuracy_mean"].idxmax()]
            said += [f"{mean(alone)}; nothing is sent"] + [""] * (len(slots) - 1)
        else:
            said += [f"{mean(row)}; {row['epsilon_total']:.3g}" for row in (one(rows, **{EPSILON: e}) for e in slots)]
        lines.append("| " + " | ".join(said) + " |")
    return "\n".join(lines)


def main() -> None:
    text, folder = PAGE.read_text(encoding="utf-8"), Path(sys.argv[1])
    for (begin, end), table in parts(folder).items():
        head, _, rest = text.partition(begin)
        text = f"{head}{begin}\n\n{table}\n\n{end}{rest.partition(end)[2]}"
    PAGE.write_text(text, encoding="utf-8")


def parts(folder: Path) -> dict[tuple[str, str], str]:
    """What stands between which marks of the page."""
    found = {(BEGIN, END): scorecard(folder)}
    for study in ("ablation", "others"):
        found[f"<!-- {study}: written by docs/scorecard.py -->", f"<!-- end of {study} -->"] = cells(folder, study)
    return found


if __name__ == "__main__":
    main()
