# ruff: noqa: E501  words of tables
"""What the scorecard says of theorems, lemmas and remarks."""

import itertools
import math

import pandas as pd
from scorecard_tables import DATA, EPSILON, GRAPH, PROTOCOLS, Found, Tables, data_name, mean, number, one, seeds

_ROUNDING = 1e-6


def slot(tables: Tables) -> Found:
    """The plan's bound, and what the slot really carries."""
    found = pd.concat(tables.sizes("paper").values())
    found = found[found[EPSILON] < math.inf]
    excess = float((found["epsilon_link_max_most"] / found[EPSILON]).max())
    slots = tables("theorem1-slots")
    slots = slots[slots[EPSILON] <= 1]  # beyond, plans are made with the analytic mechanism
    rows, factors = [], []
    for round, part in slots.groupby("round"):
        factors.append(float((part["formula"] / part[EPSILON]).max()))
        rows.append([f"with the learning rate of the gradient on air, round {round}", f"{factors[-1]:.3f}"])
    above, chance = int((slots["test_low"] > slots["exact"]).sum()), 0.025 * len(slots)
    if excess > 1 + _ROUNDING or above > chance + 3 * math.sqrt(chance):
        verdict = "does not"
    elif max(factors) > 1 + _ROUNDING:
        verdict = "holds only if noise follows the learning rate of the gradient it hides"
    else:
        verdict = "holds"
    rows = [["as printed, gradient and noise of the same round", f"{excess:.6f}"], *rows]
    words = (
        f"An optimal test on 200,000 draws of a slot is above the analytic epsilon, beyond its 95% interval, on {above} of "
        f"{len(slots)} links; {chance:.0f} are expected by chance ({slots['seed'].nunique()} seeds)."
    )
    return Found(verdict, ((("link epsilon over epsilon_max", "largest"), rows),), words)


def power(tables: Tables) -> Found:
    return _bounded(tables, "power_over_budget_most", "power radiated over budget", 1.0, ".4f")


def perron(tables: Tables) -> Found:
    return _bounded(tables, "z_minus_pi_most", "abs(z_ii - pi_i) in the last round", 1e-6, ".1e")


def _bounded(tables: Tables, column: str, what: str, most: float, spelled: str) -> Found:
    found = {nodes: float(table[column].max()) for nodes, table in tables.sizes("paper").items()}
    verdict = "holds" if max(found.values()) <= most * (1 + _ROUNDING) else "does not"
    rows = [[str(nodes), format(value, spelled)] for nodes, value in found.items()]
    return Found(verdict, ((("K", f"{what}, largest of all runs"), rows),))


def bias(tables: Tables) -> Found:
    table = tables("bias-minima")
    rows = []
    for rounds, part in table.groupby("rounds"):
        with_z, without = one(part, name="one-over-z"), one(part, name="none")
        rows.append(
            [f"{rounds}"] + [f"{row[key]:.4f}" for row in (with_z, without) for key in ("to_optimum", "to_weighted")]
        )
    # the intervals of the last round must not meet: what is near one minimum is away from the other
    holds = (
        with_z["to_optimum_high"] < with_z["to_weighted_low"]
        and without["to_weighted_high"] < without["to_optimum_low"]
    )
    heading = ("rounds", "1/z: to min sum f", "1/z: to min sum pi f", "none: to min sum f", "none: to min sum pi f")
    words = f"Distances of final models; the minima are {with_z['apart']:.4f} apart ({seeds(table)})."
    return Found("holds" if holds else "does not", ((heading, rows),), words)


def alpha(tables: Tables) -> Found:
    table, apart = tables("alpha"), tables("alpha-differences")
    own = table[table["baseline"].isna()].sort_values([EPSILON, "privacy.rho"])
    rows, gains = [], []
    for row in (row for _, row in own.iterrows()):
        beside = apart[apart["cell"] == row["cell"]]
        change = ""
        if not beside.empty:
            found = beside.iloc[0]
            gains.append(found["low"] > 0)
            change = f"{100 * found['difference']:+.1f} +- {100 * (found['high'] - found['difference']):.1f}"
        rows.append(
            [
                f"{row[EPSILON]:g}",
                f"{row['privacy.rho']:g}",
                f"{row['sum_alpha']:.3f}",
                f"{row['noise_over_update']:.0f}",
                mean(row),
                change,
            ]
        )
    heading = ("epsilon_max", "rho", "sum alpha", "noise over update", "accuracy", "minus rho 2, points")
    verdict = "holds" if all(gains) else "does not at equal epsilon_max" if not any(gains) else "holds in part"
    return Found(verdict, ((heading, rows),), f"As printed, K = 4, full, IID, gamma = 0.01 / sqrt(t) ({seeds(own)}).")


def thermal(tables: Tables) -> Found:
    """At a signal-to-noise ratio: without credit for thermal noise, with it, and sum alpha of both."""
    rows, better, total, most, more = [], 0, 0, 0.0, True
    for protocol, name in PROTOCOLS.items():
        table, apart = tables(f"thermal-{protocol}"), tables(f"thermal-{protocol}-differences")
        for figure, part in table[table["baseline"].isna()].groupby("radio.noise_figure_db"):
            plain, credit = one(part, name="no-credit"), one(part, name="credit")
            found = one(apart, cell=credit["cell"], reference_cell=plain["cell"])
            better, total = better + bool(found["low"] > 0), total + 1
            most = max(most, 100 * float(found["difference"]))
            more = more and credit["sum_alpha"] >= plain["sum_alpha"] - _ROUNDING
            rows.append(
                [
                    name,
                    f"{144 - figure:.0f} dB",
                    f"{plain['sum_alpha']:.2f}",
                    f"{credit['sum_alpha']:.2f}",
                    mean(plain),
                    f"{100 * found['difference']:+.2f} +- {100 * (found['high'] - found['difference']):.2f}",
                ]
            )
    if better > total / 2:
        verdict = "holds" if more else "holds for accuracy"
    else:
        verdict = f"{'holds for alpha' if more else 'does not for alpha'}; learning gains in {better} of {total} cells, {most:.1f} points at most"
    heading = ("protocol", "SNR at h = 1", "sum alpha", "with credit", "accuracy", "with credit, points")
    return Found(verdict, ((heading, rows),), f"epsilon_max 1, K = 4, full, IID ({seeds(table)}).")


def regret(tables: Tables) -> Found:
    slopes, curves = tables("theorem2-slopes"), tables("theorem2-regret")
    rows, words = [], {}
    for name, part in slopes.groupby("name", sort=False):
        for row in (row for _, row in part.sort_values("to_T").iterrows()):
            end = one(curves, name=name, T=row["to_T"])
            growth = (
                f"{row['growth']:.2f} ({row['growth_low']:.2f} to {row['growth_high']:.2f})"
                if math.isfinite(row["growth"])
                else ""
            )
            rows.append(
                [
                    f"{name}",
                    f"{int(row['from_T'])} to {int(row['to_T'])}",
                    f"{number(row['slope'])} +- {number(row['high'] - row['slope'])}",
                    growth,
                    number(end["regret"]),
                    f"{end['bound_over_regret']:.1e}",
                ]
            )
        # the last decade: a logarithm grows by 1, a square root by 3.2
        logarithmic, faster = row["growth_high"] < math.sqrt(10), row["growth_low"] > 1
        words[name] = "logarithmic" if logarithmic and not faster else "faster" if faster else "not resolved"
    last = int(slopes["to_T"].max())
    fine = [name for name, found in words.items() if found == "logarithmic"]
    if len(fine) == len(words):
        verdict = f"holds up to T = {last:,}"
    else:
        rest = "; ".join(f"{name}: {found}" for name, found in words.items() if found != "logarithmic")
        holds = f"holds only if clipping is {' or '.join(fine)}" if fine else "does not"
        verdict = f"{holds}, up to T = {last:,} ({rest})"
    heading = (
        "clipping",
        "T",
        "slope of R against ln T",
        "over that of the decade before",
        "R at the end",
        "bound over R",
    )
    loose = curves["bound_over_regret"]
    bound = "holds and says nothing" if loose.min() > 1 else "does not hold"
    return Found(
        verdict,
        ((heading, rows),),
        f"Ridge regression, K = 10, worst node ({seeds(slopes)}). The bound {bound}: it is {loose.min():.0e} to "
        f"{loose.max():.0e} times the regret.",
    )


def grows_with_nodes(tables: Tables) -> Found:
    """The claimed total of every cell over K; the table shows one of them."""
    sizes = tables.sizes("paper")
    kinds = {nodes: table.assign(full=table[GRAPH] == "full") for nodes, table in sizes.items()}
    smallest = kinds[min(kinds)]
    growing = [
        _grows([one(table, full=row["full"], **{DATA: row[DATA], EPSILON: row[EPSILON]}) for table in kinds.values()])
        for _, row in smallest[smallest[EPSILON] < math.inf].iterrows()
    ]
    rows = []
    for nodes, table in sizes.items():
        row = one(table, **{GRAPH: "full", DATA: "iid", EPSILON: 1.0})
        rows.append(
            [str(nodes), f"{64 * nodes / 12000:.4f}", f"{row['epsilon_link_total']:.2f}", number(row["epsilon_total"])]
        )
    word = "holds for the claim" if all(growing) else "holds in part" if any(growing) else "does not"
    return Found(
        f"{word} ({sum(growing)} of {len(growing)} cells)",
        ((("K", "q", "claim (Theorem 9)", "proven"), rows),),
        f"As printed, full, IID, epsilon_max 1, 150 rounds, means of {seeds(table)}. Counted are cells of all graphs, data and "
        "finite epsilon_max whose intervals of the claim do not meet from one K to the next.",
    )


def _grows(rows: list[pd.Series]) -> bool:
    ends = [(row["epsilon_link_total_low"], row["epsilon_link_total_high"]) for row in rows]
    return all(before[1] < after[0] for before, after in itertools.pairwise(ends))


def totals(tables: Tables) -> Found:
    table = tables("theorem1-totals")
    rows = [
        [f"{row[EPSILON]:g}"]
        + [
            f"{number(row[key])} ({number(max(row[f'{key}_low'], 0))} to {number(row[f'{key}_high'])})"
            for key in ("claim", "audit", "proven")
        ]
        for _, row in table.iterrows()
    ]
    refuted = bool((table["audit_low"] > table["claim_high"]).all())
    return Found(
        "does not: an attack attains more than the sum of slots" if refuted else "not refuted here, not proven",
        ((("epsilon_max", "sum of slots", "audit (attained)", "proven"), rows),),
        f"Without amplification by sampling, 150 rounds, K = 4, worst link ({seeds(table)}).",
    )


def hides_behind_others(tables: Tables) -> Found:
    table = tables("fig2-hardened")
    rows, refuted = [], True
    for row in (row for _, row in table[table["name"] == "proposed"].iterrows()):
        refuted = refuted and row["epsilon_total"] > 10 * row["epsilon_link_total"]
        rows.append(
            [
                data_name(row[DATA]),
                f"{row['epsilon_link_total']:.2f}",
                number(row["epsilon_total"]),
                number(row["epsilon_total_most"]),
            ]
        )
    heading = ("data", "claim (Theorem 9)", "proven, mean", "proven, largest")
    return Found(
        "does not against neighbours who collude" if refuted else "holds",
        ((heading, rows),),
        f"The paper's linear program with per-sample clipping, epsilon_max 1, K = 4 ({seeds(table)}).",
    )
