# ruff: noqa: E501  words of tables
"""What the scorecard says of accuracies."""

import math
from collections.abc import Callable

import pandas as pd
from scipy.special import stdtrit
from scorecard_tables import (
    DATA,
    EPSILON,
    GRAPH,
    PROTOCOLS,
    SIZES,
    Found,
    Tables,
    data_name,
    markdown,
    mean,
    number,
    one,
    percent,
    points,
    seeds,
    span,
)

from wirelessdl.trace.study import mean_interval

ROUNDS_AT_MOST = 600  # of the study stopping
CHANCE = 0.1
LEARNED = 0.4  # half of what is reached without noise
STEPS = {"local": "gamma", "local-step-k": "K gamma"}  # cells of the study alone
_METHODS = ("proposed", "ped2fl-step-k", "ours")


def better_than_ped2fl(study: str) -> Callable[[Tables], Found]:
    def look(tables: Tables) -> Found:
        methods, apart, curves, wins, losses, ahead, pairs_of_runs = [], [], [], [], 0, 0, 0
        for protocol, said in PROTOCOLS.items():
            means, rows = tables(f"{study}-{protocol}"), tables(f"{study}-{protocol}-differences")
            for name in means["name"].unique():
                iid, other = (row for _, row in means[means["name"] == name].iterrows())
                noise, total = iid["noise_over_update"], iid["epsilon_total"]
                methods.append(
                    [said, name, mean(iid), mean(other), "" if math.isnan(noise) else f"{noise:.1f}", number(total)]
                )
            rows = rows.assign(own=rows["name"], to=rows["reference"].str.partition(",")[0])
            for data, part in rows.groupby(DATA, sort=False):
                pairs = [("proposed", "ped2fl"), ("proposed", "ped2fl-step-k"), ("ours", "ped2fl-step-k")]
                found = [one(part, own=own, to=to) for own, to in (*pairs, ("proposed", "alone-step-k"))]
                apart.append([said, data_name(data), *(points(row) for row in found)])
                wins += [(said, row["to"]) for row in found[:2] if row["low"] > 0]
                losses += sum(row["high"] < 0 for row in found[:2])
                ahead += sum(int(row["above"]) for row in found[:2])
                pairs_of_runs += sum(int(row["n"]) for row in found[:2])
                curves.append([said, data_name(data), *_over_training(tables(f"{study}-{protocol}-curves"), data)])
        total = 2 * len(apart)
        if len(wins) == total:
            verdict = "holds"
        else:
            where = f"ahead beyond its interval in {len(wins)} of {total} comparisons, behind in {losses}; by seed ahead in {ahead} of {pairs_of_runs}"
            verdict = f"holds only for {_listed(wins)} ({where})" if wins else f"does not ({where})"
        heading = ("protocol", "data", "proposed - PED2FL", "proposed - PED2FL at K gamma", "ours - PED2FL at K gamma")
        return Found(
            verdict,
            (
                ((*heading, "proposed - alone at K gamma"), apart),
                (("protocol", "data", "rounds above PED2FL", "above PED2FL at K gamma"), curves),
                (
                    (
                        "protocol",
                        "method",
                        "accuracy, IID",
                        "Dirichlet(1)",
                        "noise over update, IID",
                        "proven total, IID",
                    ),
                    methods,
                ),
            ),
            "Final accuracy in points: mean difference with its 95% interval; median; in how many of the seeds it is above 0. "
            "Below it, throughout training: in how many of the evaluated rounds the mean accuracy of proposed is above.",
        )

    return look


def _over_training(curves: pd.DataFrame, data: object) -> list[str]:
    """In how many evaluated rounds the mean of proposed is above that of PED2FL, with its own step and with K gamma."""
    part = curves[(curves[DATA] == data) & curves["baseline"].isna()]
    means = part.pivot(index="round", columns="name", values="accuracy_mean")
    return [f"{int((means['proposed'] > means[to]).sum())} of {len(means)}" for to in ("ped2fl", "ped2fl-step-k")]


def _listed(wins: list[tuple[str, str]]) -> str:
    return " and ".join(dict.fromkeys(f"{said} against {to}" for said, to in wins))


def spread(tables: Tables) -> str:
    """By seed, and with it by channel: noise over update and accuracy of fig2, hardened, IID; and what one seed decides."""
    runs = tables("fig2-hardened-runs")
    runs = runs[(runs[DATA] == "iid") & runs["name"].isin(_METHODS)]
    noise, accuracy = (
        runs.pivot(index="seed", columns="name", values=of)[list(_METHODS)]
        for of in ("noise_over_update", "accuracy_mean")
    )
    rows = [
        [str(seed), *(f"{value:.1f}" for value in noise.loc[seed]), *(percent(value) for value in accuracy.loc[seed])]
        for seed in noise.index
    ]
    heading = [
        "seed",
        *(f"noise over update, {name}" for name in _METHODS),
        *(f"accuracy, {name}" for name in _METHODS),
    ]
    apart = 100 * (accuracy["proposed"] - accuracy["ped2fl-step-k"])
    (whole, half), fewer = _interval(apart), {seed: _interval(apart.drop(seed)) for seed in apart.index}
    seed = min(fewer, key=lambda one: fewer[one][1])
    words = (
        f"proposed - ped2fl-step-k is {whole:+.1f} +- {half:.1f} points with all seeds, {fewer[seed][0]:+.1f} +- "
        f"{fewer[seed][1]:.1f} without seed {seed}."
    )
    return f"{markdown(heading, rows)}\n\n{words}"


def _interval(values: pd.Series) -> tuple[float, float]:
    """Mean and half the width of its 95% interval (Student's t)."""
    center, low, *_ = mean_interval(values)
    return center, center - low


def order_of_epsilon(tables: Tables) -> Found:
    rows, counts = [], []
    for protocol, said in PROTOCOLS.items():
        levels: dict[float, None] = {}
        lines, below, above, total = [], 0, 0, 0
        for study, nodes in SIZES.items():
            table = tables.sizes(protocol)[nodes]
            part = table[(table[GRAPH] == "full") & (table[DATA] == "iid")].set_index(EPSILON)
            levels |= dict.fromkeys(part.index)
            lines.append([said, str(nodes), part])
            apart = tables.beside(f"{study}-{protocol}", EPSILON)
            half, free = apart[apart[EPSILON] == 0.5], apart[apart[EPSILON] == math.inf]
            below, above = below + int((half["high"] < 0).sum()), above + int((free["low"] > 0).sum())
            total += len(half)
        counts.append((said, below, above, total))
        for name, nodes, part in lines:
            rows.append(
                [name, nodes]
                + [mean(part.loc[e]) if e in part.index else "" for e in (0.5, 1.0, 4.0, 10.0, 100.0, math.inf)]
            )
    verdict = "; ".join(
        f"{said}: 0.5 < 1 {_word(below, 0, total)}, 1 < inf {_word(above, 0, total)}"
        for said, below, above, total in counts
    )
    heading = ("protocol", "K", "0.5", "1", "4", "10", "100", "inf")
    return Found(
        verdict,
        ((heading, rows),),
        "Accuracy by epsilon_max, full graph, IID (5 seeds). Counted are cells of all graphs and data whose difference by "
        "seed has its interval on one side of 0.",
    )


def paired(key: str, what: str) -> Callable[[Tables], Found]:
    """Cells beside the reference value of a key, over all sizes and protocols."""

    def look(tables: Tables) -> Found:
        rows, counts = [], {}
        for protocol, said in PROTOCOLS.items():
            for study, nodes in SIZES.items():
                apart = tables.beside(f"{study}-{protocol}", key)
                for data, part in apart.groupby(DATA, sort=False):
                    below, above = int((part["high"] < 0).sum()), int((part["low"] > 0).sum())
                    before = counts.get(said, (0, 0, 0))
                    counts[said] = (before[0] + below, before[1] + above, before[2] + len(part))
                    rows.append(
                        [
                            said,
                            str(nodes),
                            data_name(data),
                            span(part),
                            f"{below} of {len(part)}",
                            f"{above} of {len(part)}",
                        ]
                    )
        heading = ("protocol", "K", "data", f"{what}, points", "below 0 beyond its interval", "above 0")
        return Found(
            "; ".join(f"{said}: {_word(*count)}" for said, count in counts.items()),
            ((heading, rows),),
            "Range over the cells of a row; differences are by seed (5 seeds).",
        )

    return look


def _word(below: int, above: int, total: int) -> str:
    if above > below:
        word = "does not"
    elif below >= 0.75 * total:
        word = "holds"
    else:
        word = "holds in part" if below > 0.25 * total else "not resolved"
    return f"{word} ({below} of {total} cells)"


def connectivity(tables: Tables) -> Found:
    """Noise over update and accuracy of ring or ER beside full: with noise, and without."""
    rows, counts = [], {}
    for protocol, said in PROTOCOLS.items():
        for study, nodes in SIZES.items():
            means = tables.sizes(protocol)[nodes]
            at_one = means[(means[EPSILON] == 1.0) & (means[DATA] == "iid")]
            full, other = (at_one[(at_one[GRAPH] == "full") == yes].iloc[0] for yes in (True, False))
            apart = tables.beside(f"{study}-{protocol}", GRAPH)
            noisy, free = apart[apart[EPSILON] < math.inf], apart[apart[EPSILON] == math.inf]
            before = counts.get(said, (0, 0, 0))
            found = (int((noisy["high"] < 0).sum()), int((noisy["low"] > 0).sum()), len(noisy))
            counts[said] = tuple(a + b for a, b in zip(before, found))
            rows.append(
                [
                    said,
                    str(nodes),
                    number(full["noise_over_update"]),
                    number(other["noise_over_update"]),
                    span(noisy),
                    f"{found[0]} of {found[2]}",
                    span(free),
                ]
            )
    heading = ("protocol", "K", "noise over update, full", "ring or ER", "ring or ER - full with noise, points")
    return Found(
        "; ".join(f"{said}: {_word(*count)}" for said, count in counts.items()),
        (((*heading, "below 0 beyond its interval", "without noise"), rows),),
        "Noise over update at epsilon_max 1, IID; differences over all data and epsilon_max (5 seeds).",
    )


def learns(tables: Tables) -> Found:
    rows, best = [], {}
    for protocol, said in PROTOCOLS.items():
        for nodes, table in tables.sizes(protocol).items():
            line = [said, str(nodes)]
            for epsilon in (0.5, 1.0):
                part = table[table[EPSILON] == epsilon]["accuracy_mean"]
                line.append(f"{percent(part.min())} to {percent(part.max())}")
                best.setdefault(said, []).append((float(part.min()), float(part.max())))
            rows.append(line)
    learned = {said: min(low for low, _ in found) > LEARNED for said, found in best.items()}
    verdict = "holds" if all(learned.values()) else "holds only if hardened" if learned["hardened"] else "does not"
    high = max(value for _, value in best["printed"])
    free = pd.concat([table[table[EPSILON] == math.inf] for one in PROTOCOLS for table in tables.sizes(one).values()])
    free = free["accuracy_mean"]
    return Found(
        f"{verdict} (as printed {percent(high)} at most)" if not learned["printed"] else verdict,
        ((("protocol", "K", "accuracy at epsilon_max 0.5", "at 1"), rows),),
        f"Range over graphs and data, means of 5 seeds; chance is {percent(CHANCE)}, without noise {percent(free.min())} "
        f"to {percent(free.max())}. Above {percent(LEARNED)} in all cells counts as learning.",
    )


def local(tables: Tables) -> Found:
    """Private cells of fig4 to fig6 beside local training, with the step gamma and with theirs, K gamma."""
    rows, counts = [], {step: [0, 0, 0] for step in STEPS}
    for protocol, said in PROTOCOLS.items():
        alone = tables(f"alone-{protocol}")
        for nodes, table in tables.sizes(protocol).items():
            private = table[table[EPSILON] <= 1.0]
            for data, part in private.groupby(DATA, sort=False):
                line = [said, str(nodes), data_name(data)]
                for step, count in counts.items():
                    reference = one(alone, **{"name": step, "network.nodes": nodes, DATA: data})
                    apart = [_welch(row, reference) for _, row in part.iterrows()]
                    above, below = sum(low > 0 for low, _, _ in apart), sum(high < 0 for _, _, high in apart)
                    for place, more in enumerate((above, below, len(apart))):
                        count[place] += more
                    middle = [f"{100 * value:+.1f}" for value in (min(a[1] for a in apart), max(a[1] for a in apart))]
                    line += [mean(reference), f"{middle[0]} to {middle[1]}", f"{above} of {len(apart)}"]
                rows.append(line)
    (ahead, behind, total), (own_ahead, own_behind, _) = counts["local-step-k"], counts["local"]
    heading = [
        column
        for step in STEPS.values()
        for column in (f"alone, step {step}", "epsilon_max 0.5 and 1 minus it, points", "above 0")
    ]
    return Found(
        f"the paper has no such baseline: with their step, K gamma, private runs beat it in {ahead} of {total} cells and lose "
        f"in {behind} (with the step gamma: {own_ahead} and {own_behind})",
        ((("protocol", "K", "data", *heading), rows),),
        f"Private runs have the step K gamma. Intervals are Welch's, of {seeds(alone)} and 5 of the private cells.",
    )


def _welch(row: pd.Series, reference: pd.Series) -> tuple[float, float, float]:
    """Low, middle and high of the difference of two means, each known by its own 95% interval over n seeds."""
    errors = []
    for one_mean in (row, reference):
        half = one_mean["accuracy_mean_high"] - one_mean["accuracy_mean"]
        errors.append((half / stdtrit(one_mean["n"] - 1, 0.975)) ** 2)
    freedom = sum(errors) ** 2 / sum(e**2 / (m["n"] - 1) for e, m in zip(errors, (row, reference)))
    half = float(stdtrit(freedom, 0.975)) * math.sqrt(sum(errors))
    middle = row["accuracy_mean"] - reference["accuracy_mean"]
    return middle - half, middle, middle + half


def stops(tables: Tables) -> Found:
    """After how many rounds the printed rule ends a run."""
    rows, stopped = [], []
    for protocol, said in PROTOCOLS.items():
        table = tables(f"stopping-{protocol}")
        for row in (row for _, row in table.iterrows()):
            name = "local training" if row["baseline"] == "local" else f"epsilon_max {row[EPSILON]:g}"
            never, some = row["rounds"] >= ROUNDS_AT_MOST, row["rounds_most"] >= ROUNDS_AT_MOST
            when = f"{row['rounds']:.0f} +- {row['rounds_high'] - row['rounds']:.0f}"
            when = f"never in {ROUNDS_AT_MOST}" if never else f"{when}, some never" if some else when
            if row["baseline"] != "local":
                stopped.append((f"{said} at epsilon_max {row[EPSILON]:g}", not some))
            rows.append([said, name, when, mean(row)])
    where = [name for name, yes in stopped if yes]
    verdict = "holds" if len(where) == len(stopped) else f"holds only for {', '.join(where)}" if where else "does not"
    return Found(
        verdict,
        ((("protocol", "run", "rounds until it stops", "accuracy"), rows),),
        f"K = 4, full, IID, an evaluation every round ({seeds(table)}).",
    )


def in_short(tables: Tables) -> tuple[pd.Series, pd.Series]:
    """The cell K = 4, full, IID, epsilon_max 1, as printed and hardened."""
    keys = {GRAPH: "full", DATA: "iid", EPSILON: 1.0}
    printed, hardened = (one(tables.sizes(protocol)[4], **keys) for protocol in PROTOCOLS)
    return printed, hardened
