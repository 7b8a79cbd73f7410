"""Regret of a study's runs beside the bound of Theorem 2, R_j(T) <= U_1 + U_2 (1 + ln T).

    R_j(T) = sum over t = 1..T of F(x_j,t) - F(x*), worst node j; runs need learning.regret
    U_1    = xi C G / (1 - xi) (2 (K + theta) sum_i |x_i,0| + K theta L)
    U_2    as in the last display of the paper's proof (its terms are added as printed)

    A      mixing matrix of the last round; xi: modulus of its second largest eigenvalue; C: smallest constant with
           |[A^t]_ij - pi_j| <= C xi^t for t = 0..200
    theta  of the learning-rate schedule gamma_t = 1 / (mu theta t), or the largest multiplier, which may not be larger
    mu     of the schedule; G: clip norm; m: coordinates sent; L: diameter of the projection ball
    |x_i,0| is 0: models start at the origin, or the bound is larger still

The slope of R against ln T is fitted over a decade, one fit per run. A logarithmic regret has the same slope in
every decade; a regret like sqrt(T) has sqrt(10) = 3.2 times the slope of the decade before. `growth` is that factor,
the geometric mean over runs with its interval: one run is compared with itself.
"""

import math
from itertools import zip_longest
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from wirelessdl.analysis.runs import require_sound
from wirelessdl.analysis.study_tables import escape_math
from wirelessdl.analysis.style import COLUMN, dashed, save, styled
from wirelessdl.arrays import FloatArray
from wirelessdl.errors import TraceError, quote
from wirelessdl.mixing import perron_vector
from wirelessdl.trace.run import Run
from wirelessdl.trace.study import Study, mean_interval

_PER_DECADE = 8
_POWERS = 200


def regret_tables(study: Study) -> dict[str, pd.DataFrame]:
    """`regret`: R(T) and the bound by cell and T; `slopes`: fits of R against ln T by cell and decade."""
    curves, slopes = [], []
    for cell, part in study.finished.groupby("cell", sort=True):
        name = part["name"].iloc[0] if not pd.isna(part["name"].iloc[0]) else cell
        runs = [require_sound(study.run(path)) for path in part["path"]]
        regret = np.array([run.regret().to_numpy().max(axis=1) for run in runs])  # [runs, T]
        bounds = np.array([theorem_bound(run) for run in runs])  # [runs, 2]
        last = regret.shape[1]
        if last < 4:
            raise TraceError(f"{quote(study.path)}: its runs have {last} rounds; a regret needs some")
        for rounds in _grid(last):
            mean, low, high, n = mean_interval(regret[:, rounds - 1])
            bound = float(np.mean(bounds[:, 0] + bounds[:, 1] * (1 + math.log(rounds))))
            curves.append(
                {"cell": cell, "name": name, "T": rounds, "regret": mean, "low": low, "high": high, "n": n}
                | {"bound": bound, "bound_over_regret": bound / mean}
            )
        slopes += [{"cell": cell, "name": name, **row} for row in slope_rows(regret)]
    return {"regret": pd.DataFrame(curves), "slopes": pd.DataFrame(slopes)}


def slope_rows(regret: FloatArray) -> list[dict[str, Any]]:
    """Slopes of R against ln T by decade, the last first; regret: `[runs, T]`."""
    first, decades = regret.shape[1], []
    while first > 1:
        first, end = max(1, first // 10), first
        if end < 4 * first:
            break
        decades.append((first, end, np.array([_slope(one, first, end) for one in regret])))
    rows = []
    for (first, end, fits), before in zip_longest(decades, [fits for *_, fits in decades[1:]]):
        mean, low, high, n = mean_interval(fits)
        row = {"from_T": first, "to_T": end, "slope": mean, "low": low, "high": high, "n": n}
        growth: tuple[float, ...] = (math.nan,) * 3
        if before is not None and (fits > 0).all() and (before > 0).all():
            growth = tuple(math.exp(one) for one in mean_interval(np.log(fits / before))[:3])
        rows.append(row | dict(zip(("growth", "growth_low", "growth_high"), growth)))
    return rows


def _grid(last: int) -> list[int]:
    steps = np.geomspace(1, last, max(2, round(_PER_DECADE * math.log10(last)) + 1))
    return sorted({*(round(float(step)) for step in steps), *(10**k for k in range(1, 7) if 10**k <= last)})


def _slope(regret: FloatArray, first: int, last: int) -> float:
    """Slope of R against ln T; every round weighs 1/T, so that all parts of a decade count alike."""
    rounds = np.arange(first, last + 1, dtype=float)
    return float(np.polyfit(np.log(rounds), regret[first - 1 : last], 1, w=rounds**-0.5)[0])


def theorem_bound(run: Run) -> tuple[float, float]:
    """U_1 and U_2 of Theorem 2 for a run."""
    last = int(run.rounds["round"].iloc[-1])
    nodes = run.frame("nodes", rounds=(last, last)).sort_values("node")
    links = run.frame("links", rounds=(last, last))
    if links.empty:
        raise TraceError(f'{quote(run.path)}: links of the last round are not traced; set trace.links = "evaluated"')
    if run.scenario["radio"]["access"] == "digital":
        raise TraceError(f"{quote(run.path)}: radio.access is digital; Theorem 2 is about what the air adds up")
    privacy, learning = run.scenario["privacy"], run.scenario["learning"]
    alpha, beta = (nodes[name].to_numpy(float) for name in ("alpha", "beta"))
    power = run.clients.sort_values("node")["budget_w"].to_numpy(float)
    gain, rx, tx = (links[name].to_numpy() for name in ("gain", "rx", "tx"))
    count = len(nodes)
    mixing = np.zeros((count, count))
    mixing[rx, tx] = links["weight"]
    np.fill_diagonal(mixing, nodes["row_sum"].to_numpy(float) - mixing.sum(axis=1))
    c, xi = mixing_constants(mixing)
    schedule = learning["learning_rate"]
    if schedule.get("mu") is None or schedule.get("theta") is None:
        raise TraceError(
            f"{quote(run.path)}: learning.learning_rate is not 1 / (mu theta t); Theorem 2 needs "
            '{ kind = "inverse", mu = ..., theta = ... }'
        )
    mu, theta = float(schedule["mu"]), max(float(schedule["theta"]), float(nodes["multiplier"].max()))
    g, delta = privacy["clip_norm"], privacy["delta"]
    row = run.rounds.iloc[-1]
    m = 2 * round(float(row["payload_s"]) * int(row["payload_slots"]) * run.scenario["radio"]["bandwidth_hz"])
    diameter = 2 * learning["projection_radius"] * math.sqrt(m)
    log = math.log(1.25 / delta)
    split = math.sqrt(float(np.max(beta / alpha)))
    loudest = float(np.max(gain * np.sqrt(alpha * power)[tx]))
    masking = np.sqrt(np.bincount(rx, gain**2 * (beta * power)[tx], minlength=count))
    least = float(np.min(links["epsilon"].to_numpy(float) * masking[rx]))
    u1 = xi * c * g / (1 - xi) * count * theta * diameter
    noise = split * loudest / mu
    u2 = (
        noise * 2 * (8 * count**2 + 8 * theta * count + theta) * math.sqrt(m) * g**2 * math.sqrt(2 * log) / least
        + split**2 * loudest**2 / mu * 4 * m * g**2 * theta * log / least
        + noise
        * (4 * (2 * count + 1) * (theta + count) * count * math.sqrt(m) * c * g**2 * math.sqrt(2 * log))
        / ((1 - xi) * least)
        + 2 * count * (count + theta) * c * g**2 / (1 - xi)
        + 0.5 * (8 * count + 9 * theta) * g**2
    )
    return u1, u2


def mixing_constants(mixing: FloatArray) -> tuple[float, float]:
    """C and xi with |[A^t]_ij - pi_j| <= C xi^t."""
    xi = float(np.sort(np.abs(np.linalg.eigvals(mixing)))[-2])
    pi, power, most = perron_vector(mixing), np.eye(len(mixing)), 0.0
    for t in range(_POWERS):
        apart = float(np.abs(power - pi).max())
        if apart < 1e-13:  # rounding
            break
        most = max(most, apart / xi**t)
        power = mixing @ power
    return most, xi


def draw_regret(table: pd.DataFrame, path: Path) -> None:
    """R(T) of every cell with its band, and the bounds, over T; both axes logarithmic."""
    with styled():
        figure, axis = plt.subplots(figsize=(COLUMN, 2.6), layout="constrained")
        for number, (name, part) in enumerate(table.groupby("name", sort=False)):
            colour, dash, _ = dashed(number)
            axis.plot(part["T"], part["regret"], color=colour, linestyle=dash, label=escape_math(str(name)))
            if part["low"].notna().all():
                axis.fill_between(part["T"], part["low"], part["high"], color=colour, alpha=0.16, linewidth=0)
            axis.plot(part["T"], part["bound"], color=colour, linestyle=":", label=f"bound, {escape_math(str(name))}")
        axis.set(xscale="log", yscale="log", xlabel="rounds T", ylabel="regret R(T), worst node")
        axis.legend(fontsize=7)
        save(figure, path)
