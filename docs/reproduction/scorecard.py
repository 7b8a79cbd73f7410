# ruff: noqa: E501  words of a page
"""Writes the scorecard of docs/reproduction.md from the CSV files of `wirelessdl reproduce`.

    python docs/reproduction/scorecard.py FOLDER

FOLDER holds the CSV files of one scale. First a table of verdicts, then a section for each claim. A claim whose files
are not there says "not measured yet". Numbers and verdicts come from the files (`scorecard_theory.py`,
`scorecard_accuracy.py`); the words of the paper, and why, stand here.
"""

import itertools
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from scorecard_accuracy import (
    better_than_ped2fl,
    connectivity,
    in_short,
    learns,
    local,
    order_of_epsilon,
    paired,
    spread,
    stops,
)
from scorecard_tables import (
    DATA,
    EPSILON,
    GRAPH,
    Found,
    Missing,
    Tables,
    data_name,
    markdown,
    mean,
    number,
    one,
    percent,
)
from scorecard_theory import (
    alpha,
    bias,
    grows_with_nodes,
    hides_behind_others,
    perron,
    power,
    regret,
    slot,
    thermal,
    totals,
)

PAGE = Path(__file__).parents[1] / "reproduction.md"
NOT_YET = "not measured yet"


@dataclass(frozen=True)
class Claim:
    """words: of the paper, in its spelling but for formulas; files: CSV and figure; studies: that write them."""

    title: str
    words: str
    look: Callable[[Tables], Found]
    why: str
    files: str
    studies: tuple[str, ...]


SIZES = ("fig4", "fig5", "fig6")
CLAIMS = (
    Claim(
        "Slot leakage within epsilon_max",
        "The constraint epsilon_ij <= epsilon_max ensures that, for every directed communication link (j -> i), the privacy leakage resulting from node j's transmitted signal remains below a predefined tolerance level. (Theorem 1, eq. 16)",
        slot,
        "Printed noise is rho gamma_t, the gradient on air is that of round t - 1 with the larger gamma_(t-1): sqrt(3/2) = 1.22 times too little noise for the second gradient, less as t grows. (For the first it is sqrt(2), and that one has the multiplier 1/z_ii = 1 instead of theta, which leaves room.) The hardened protocol has noise of the round of the gradient.",
        "`theorem1-slots.csv`, `theorem1-leakage.pdf`, `fig4-paper.csv` to `fig6-paper.csv`",
        ("theorem1", *SIZES),
    ),
    Claim(
        "Power within P",
        "the average per-coordinate transmit power does not exceed P_i",
        power,
        "Models are projected and rho gamma <= 1 is checked.",
        "`fig4-paper.csv` to `fig6-paper.csv`, `fig4-paper-claim.pdf` to `fig6-paper-claim.pdf`",
        SIZES,
    ),
    Claim(
        "z converges to pi",
        "there exist constants C > 0 and 0 < xi < 1 such that [...] abs(z_ii,t - pi_i) <= C xi^t (Lemma 1)",
        perron,
        "A is constant here; under fading it is not so ([power.md](power.md)).",
        "`fig4-paper.csv` to `fig6-paper.csv`, `fig4-paper-claim.pdf` to `fig6-paper-claim.pdf`",
        SIZES,
    ),
    Claim(
        "Bias without 1/z",
        "the standard DSGD update rule [...] becomes biased and no longer converges to the minimizer of F(x). Instead, it converges to the minimizer of a weighted objective",
        bias,
        "As the closed forms say: sum f_i with 1/z_ii, sum pi_i f_i without.",
        "`bias-minima.csv`, `bias-minima.pdf`",
        ("bias",),
    ),
    Claim(
        "More alpha learns better",
        "Allocating more power to information transmission improves the received signal strength and accelerates convergence",
        alpha,
        "alpha grows with rho, and the noise on the models does not fall: it follows from epsilon_max. At a given rho more alpha is less noise, and a larger epsilon ([0.5, 1, inf](#accuracy-falls-with-privacy)).",
        "`alpha.csv`, `alpha-differences.csv`, `alpha-rho.pdf`",
        ("alpha",),
    ),
    Claim(
        "Channel noise helps",
        "the intrinsic channel noise naturally contributes to privacy protection, potentially allowing smaller DP noise power fractions beta_k and larger model power fractions alpha_k, which can improve learning performance (Remark 1)",
        thermal,
        "Credited noise is that of a receiver no better than assumed: the proven total credits none. Thermal noise that is large enough to hide gradients drowns models, too.",
        "`thermal-*.csv`, `thermal-*-differences.csv`, `thermal-*-snr.pdf`",
        ("thermal",),
    ),
    Claim(
        "Regret of order log T",
        "the proposed algorithm achieves an expected regret of order O(log T) [...] U_1 + U_2 (1 + log T) (Theorem 2)",
        regret,
        "A logarithm has the same slope in every decade, a square root 3.2 times that of the decade before. Steps have mu = 1, the losses are 0.79-strongly convex. Both cells take the gradient at the received mix: at the paper's point no clipping bounds the gradient of the penalty.",
        "`theorem2-slopes.csv`, `theorem2-regret.csv`, `theorem2-regret.pdf`",
        ("theorem2",),
    ),
    Claim(
        "Better than PED2FL at epsilon_max 1",
        "the proposed method consistently achieves higher test accuracy throughout training under both IID and non-IID data distributions (Fig. 2)",
        better_than_ped2fl("fig2"),
        "1/z is about K and PED2FL has no multiplier: with its own step it is a comparison of step sizes. Where noise is small (batch 256) the proposed method is ahead of PED2FL's own step and level with it at K gamma. The width of the intervals is that of the channels, [below](#what-the-intervals-of-fig-2-and-3-are-made-of).",
        "`fig2-*.csv`, `fig2-*-differences.csv`, `fig2-*-curves.pdf`",
        ("fig2",),
    ),
    Claim(
        "Better than PED2FL at epsilon_max 0.5",
        "the proposed method consistently achieves higher test accuracy throughout training under both IID and non-IID data distributions (Fig. 3)",
        better_than_ped2fl("fig3"),
        "As at epsilon_max 1.",
        "`fig3-*.csv`, `fig3-*-differences.csv`, `fig3-*-curves.pdf`",
        ("fig3",),
    ),
    Claim(
        "Accuracy falls with privacy",
        "stronger privacy (epsilon_max = 0.5) reduces accuracy relative to epsilon_max = 1 and infinity",
        order_of_epsilon,
        "As printed hardly anything is learned at 0.5 and 1 ([below](#learns-at-epsilon_max-05-and-1)).",
        "`fig4-*.csv` to `fig6-*.csv`, `fig4-*-differences.csv` to `fig6-*-differences.csv`, `fig4-*-claim.pdf` to `fig6-*-claim.pdf`, `fig4-*-proven.pdf` to `fig6-*-proven.pdf`",
        SIZES,
    ),
    Claim(
        "IID data above non-IID",
        "IID data generally achieve higher accuracy than non-IID data",
        paired(DATA, "non-IID - IID"),
        "Softmax is convex: Dirichlet(1) costs it little; noise hides the rest.",
        "`fig4-*-differences.csv` to `fig6-*-differences.csv`, `fig4-*-claim.pdf` to `fig6-*-claim.pdf`",
        SIZES,
    ),
    Claim(
        "Full graphs above ring and random",
        "Fully connected networks generally outperform ring and random topologies",
        paired(GRAPH, "ring or ER - full"),
        "As printed more senders hide a link, and theta is smaller. Hardened, each node's own noise hides it and balancing makes theta K on every graph: what is left is that sparse graphs mix more slowly, at most two points for softmax.",
        "`fig4-*-differences.csv` to `fig6-*-differences.csv`, `fig4-*-claim.pdf` to `fig6-*-claim.pdf`",
        SIZES,
    ),
    Claim(
        "Leakage grows with K",
        "Cumulative RDP leakage generally increases with K because the fixed mini-batch size results in larger q",
        grows_with_nodes,
        "The proven total as printed has no amplification by sampling: it follows from the noise of the node that sends least.",
        "`fig4-paper.csv` to `fig6-paper.csv`, `fig4-paper-claim.pdf` to `fig6-paper-claim.pdf`",
        SIZES,
    ),
    Claim(
        "Total by Theorem 9",
        "the cumulative privacy leakage after T communication rounds is [...] T epsilon_ij^sub(lambda)",
        totals,
        "A gradient is heard again in later slots, so slots do not add up. Gradients are taken at un-noised models, so no amplification is proven; and Theorem 9 is for sampling without replacement, where the text says Poisson.",
        "`theorem1-totals.csv`, `theorem1-leakage.pdf`",
        ("theorem1",),
    ),
    Claim(
        "Hidden by the noise of others",
        "The aggregate noise masks each neighbor's contribution, thereby providing privacy at node i.",
        hides_behind_others,
        "The program leaves a node with almost no noise of its own: against colluding neighbours, or more than one antenna, nothing hides it. What is proven counts a node's own noise.",
        "`fig2-hardened.csv`, `fig2-hardened-curves.pdf`",
        ("fig2",),
    ),
    Claim(
        "Learns at epsilon_max 0.5 and 1",
        "The results demonstrate strong performance across the considered settings",
        learns,
        "Batch clipping has sensitivity 2G whatever the batch: noise is hundreds of times the update. As printed it learns from epsilon_max 4 on ([above](#accuracy-falls-with-privacy)).",
        "`fig4-*.csv` to `fig6-*.csv`, `fig4-*-claim.pdf` to `fig6-*-claim.pdf`, `fig4-*-proven.pdf` to `fig6-*-proven.pdf`",
        SIZES,
    ),
    Claim(
        "Connectivity mitigates noise",
        "The results highlight [...] the role of network connectivity in mitigating the effects of DP noise",
        connectivity,
        "As printed the ratio of noise to update is smaller on the full graph. Hardened it is the same on all graphs, which average the noise out more slowly the fewer links they have.",
        "`fig4-*.csv` to `fig6-*.csv`, `fig4-*-differences.csv` to `fig6-*-differences.csv`, `fig4-*-claim.pdf` to `fig6-*-claim.pdf`",
        SIZES,
    ),
    Claim(
        "Local training",
        "",
        local,
        "It leaks nothing: collaboration under privacy pays where data differ. A smaller step is a handicap of its own: figures have the baseline with the step gamma, so an IID cell above its line need not be above local training.",
        "`alone-*.csv`, `alone-*-nodes.pdf`, `fig4-*.csv` to `fig6-*.csv`, `fig4-*-claim.pdf` to `fig6-*-claim.pdf`",
        ("alone", *SIZES),
    ),
    Claim(
        "Training stops",
        "Training is considered stable when abs(acc_(t+k) - acc_t) <= 0.001 for all k = 1, ..., 15.",
        stops,
        '`learning.stop_rule = "anchored"` is this rule. 16 values within 0.001 need a test set and a learning rate for which noise moves accuracy by less.',
        "`stopping-*.csv`, `stopping-*-rounds.pdf`",
        ("stopping",),
    ),
)


def scorecard(folder: Path) -> str:
    """The table of verdicts, and a section for each claim."""
    tables, rows, sections = Tables(folder), [], []
    for claim in CLAIMS:
        try:
            found = claim.look(tables)
        except Missing:
            found = Found(NOT_YET, ())
        first, *others = claim.studies
        command = f"`wirelessdl reproduce {first} --scale cpu`" + "".join(f", `{one}`" for one in others)
        rows.append([f"[{claim.title}](#{anchor(claim.title)})", found.verdict, command])
        words = re.sub(r" (\((?:Theorem|Lemma|Remark|Fig)[^()]*\))$", r'" \1', f'The paper: "{claim.words}')
        words += '"' * (words.count('"') % 2)
        parts = [f"### {claim.title}", words if claim.words else "Not in the paper."]
        parts += [f"**Verdict: {found.verdict}.** {claim.why}"]
        parts += [found.words] if found.words else []
        parts += [markdown(*table) for table in found.tables]
        sections.append("\n\n".join([*parts, f"Files: {claim.files}. Command: {command}."]))
    return "\n\n".join([markdown(("claim", "verdict", "command"), rows), *sections])


def anchor(title: str) -> str:
    """Where the site puts a heading."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


def short(folder: Path) -> str:
    """The numbers of the first paragraph."""
    printed, hardened = in_short(Tables(folder))
    return (
        f"In the run with K = 4, full graph, IID data and epsilon_max 1 the paper would claim "
        f"{printed['epsilon_link_total']:.2f}; what can be proven is {number(printed['epsilon_total'])}, and accuracy is "
        f"{percent(printed['accuracy_mean'])} (chance is 10%). With per-sample clipping, the gradient at the received mix "
        f"and noise of its own the same network learns ({percent(hardened['accuracy_mean'])}), and "
        f"{number(hardened['epsilon_total'])} is proven (means of {int(printed['n'])} seeds, `fig4-paper.csv`, "
        f"`fig4-hardened.csv`)."
    )


def cells(folder: Path, study: str, target: float | None = None) -> str:
    """A study's cells as a table: accuracy and the proven total at each epsilon_max; local training without one.

    target: an accuracy; a last column says which total reaches it.
    """
    table = Tables(folder)(study)
    groups = [key for key in ("name", DATA) if key in table and table[key].nunique() > 1]
    slots = sorted(table[EPSILON].dropna().unique())
    heading = [*("data" if key == DATA else "cell" for key in groups), *(f"epsilon_max {e:g}" for e in slots)]
    heading += [f"total at {percent(target)}"] if target is not None else []
    lines = ["| " + " | ".join(heading) + " |", "|" + "---|" * len(heading)]
    for key, rows in table.groupby(groups, sort=False):
        said = [data_name(part) for part in (key if isinstance(key, tuple) else (key,))]
        if rows[EPSILON].isna().all():
            alone = rows.loc[rows["accuracy_mean"].idxmax()]
            said += [f"{mean(alone)}; nothing is sent"]
            said += [""] * (len(heading) - len(said))
        else:
            own = [one(rows, **{EPSILON: e}) for e in slots]
            said += [f"{mean(row)}; {row['epsilon_total']:.3g}" for row in own]
            said += [_total_at(target, own)] if target is not None else []
        lines.append("| " + " | ".join(said) + " |")
    return "\n".join(lines)


def _total_at(target: float, rows: list[pd.Series]) -> str:
    """The proven total at which a cell reaches an accuracy, between two of them in its logarithm; rows: by epsilon_max."""
    points = [(row["accuracy_mean"], row["epsilon_total"]) for row in rows]
    if points[0][0] >= target:
        return f"{points[0][1]:.3g} or less"
    for (low, before), (high, after) in itertools.pairwise(points):
        if high >= target:
            return f"{before * (after / before) ** ((target - low) / (high - low)):.3g}"
    return "not reached"


def main() -> None:
    text, folder = PAGE.read_text(encoding="utf-8"), Path(sys.argv[1])
    for (begin, end), table in parts(folder).items():
        head, _, rest = text.partition(begin)
        text = f"{head}{begin}\n\n{table}\n\n{end}{rest.partition(end)[2]}"
    PAGE.write_text(text, encoding="utf-8")


def parts(folder: Path) -> dict[tuple[str, str], str]:
    """What stands between which marks of the page."""
    found = {"in short": short(folder), "scorecard": scorecard(folder), "spread": spread(Tables(folder))}
    found |= {"ablation": cells(folder, "ablation", 0.6), "others": cells(folder, "others")}
    return {
        (f"<!-- {name}: written by docs/reproduction/scorecard.py -->", f"<!-- end of {name} -->"): text
        for name, text in found.items()
    }


if __name__ == "__main__":
    main()
