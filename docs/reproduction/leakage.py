"""Theorem 1 beside tests on draws, and over slots beside the audit and what is proven.

One slot, one link j -> i: what i hears is shifted by Delta_ij = sens gamma mult_j |h_ij| sqrt(alpha_j P_j) in one
direction if a sample of j is replaced, under noise of deviation sqrt(sum_k |h_ik|^2 beta_k P_k sigma^2). The optimal
test compares the projection on that direction with a threshold. Here noise of every sender is drawn and added up as the
air does, for both data sets, and mu is measured: Phi^-1(true positives) - Phi^-1(false positives) at the middle, with
its 95% interval; epsilon at delta follows from mu by the analytic Gaussian mechanism.

    claimed   Theorem 1 as printed, gradient and noise of the same round
    formula   the same with the learning rate of the gradient that the slot carries, that of the round before
    exact     the analytic Gaussian mechanism instead of sqrt(2 ln(1.25 / delta))

Over all slots: `audit` is attained by linear losses without sampling, `claim` the paper's sum of slots, `proven` the
own-noise total, the last two without amplification by sampling too, so that all three are of one thing.
"""

import math
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import norm
from transcripts import audit_run

from wirelessdl.analysis.runs import require_sound
from wirelessdl.analysis.style import COLUMN, dashed, save, styled
from wirelessdl.gaussian import analytic_epsilon
from wirelessdl.trace.run import Run
from wirelessdl.trace.study import Study, mean_interval

_DRAWS = 200_000
_EARLY = 3  # the first whose gradient has a multiplier near theta; noise falls fastest from here


def leakage_tables(study: Study) -> dict[str, pd.DataFrame]:
    """`slots`: links of round 3 and of the last, of every run; `totals`: means of audit, claim and proven by cell."""
    slots: list[dict[str, Any]] = []
    totals: list[dict[str, Any]] = []
    for cell, part in study.finished.groupby("cell", sort=True):
        keys = {"cell": cell, **{key: part[key].iloc[0] for key in study.varied}}
        worst = []
        for path, seed in zip(part["path"], part["seed"]):
            run = require_sound(study.run(path))
            for round in (_EARLY, len(run.rounds)):
                slots += [{**keys, "seed": seed, "round": round, **row} for row in slot_tests(run, round, int(seed))]
            nodes = int(run.scenario["network"]["nodes"])
            found = [one for receiver in range(nodes) for one in audit_run(run, receiver)]
            worst.append([max(getattr(one, name) for one in found) for name in ("attained", "link_sum", "proven")])
        for number, name in enumerate(("audit", "claim", "proven")):
            mean, low, high, n = mean_interval([row[number] for row in worst])
            keys |= {name: mean, f"{name}_low": low, f"{name}_high": high, "n": n}
        totals.append(keys)
    return {"slots": pd.DataFrame(slots), "totals": pd.DataFrame(totals)}


def slot_tests(run: Run, round: int, seed: int) -> list[dict[str, Any]]:
    """Every link of a round: predicted epsilon (the formula's and the exact one) and what a test on draws shows."""
    nodes = run.frame("nodes", rounds=(round, round)).sort_values("node")
    links = run.frame("links", rounds=(round, round))
    clients = run.clients.sort_values("node")
    sigma = float(run.rounds["noise_std"].iloc[round - 1])
    delta = run.scenario["privacy"]["delta"]
    power = clients["budget_w"].to_numpy(float)
    alpha, beta = (nodes[name].to_numpy(float) for name in ("alpha", "beta"))
    step = nodes["sent_learning_rate"].to_numpy(float) * nodes["sent_multiplier"].to_numpy(float)
    shift = clients["sensitivity"].to_numpy(float) * step * np.sqrt(alpha * power)
    found = []
    amplitude = np.sqrt(beta * power) * sigma
    for receiver in sorted({int(rx) for rx in links["rx"]}):
        heard = links[links["rx"] == receiver]
        senders, gain = heard["tx"].to_numpy(int), heard["gain"].to_numpy(float)
        rng = np.random.default_rng([seed, round, receiver])
        noise = [(gain * amplitude[senders]) @ rng.standard_normal((len(senders), _DRAWS)) for _ in range(2)]
        masking = float(np.linalg.norm(gain * amplitude[senders]))
        for sender, h, claimed in zip(senders.tolist(), gain.tolist(), heard["epsilon"].to_numpy(float).tolist()):
            moved = h * float(shift[sender])
            hits, alarms = float(np.mean(noise[0] + moved > moved / 2)), float(np.mean(noise[1] > moved / 2))
            error = 1.96 * math.sqrt(sum(p * (1 - p) / norm.pdf(norm.ppf(p)) ** 2 for p in (hits, alarms)) / _DRAWS)
            mu = float(norm.ppf(hits) - norm.ppf(alarms))
            found.append(
                {
                    "tx": sender,
                    "rx": receiver,
                    "claimed": claimed,
                    "formula": moved / masking * math.sqrt(2 * math.log(1.25 / delta)),
                    "exact": float(analytic_epsilon(moved / masking, delta)),
                    "test": float(analytic_epsilon(mu, delta)),
                    "test_low": float(analytic_epsilon(max(mu - error, 0.0), delta)),
                    "test_high": float(analytic_epsilon(mu + error, delta)),
                }
            )
    return found


def draw_leakage(tables: dict[str, pd.DataFrame], key: str, path: Path) -> None:
    """Left: test against prediction of each link; right: audit, claim and proven over the varied key."""
    with styled():
        figure, (left, right) = plt.subplots(1, 2, figsize=(2 * COLUMN, 2.6), layout="constrained")
        slots, totals = tables["slots"], tables["totals"]
        error = np.stack([slots["test"] - slots["test_low"], slots["test_high"] - slots["test"]])
        left.errorbar(slots["exact"], slots["test"], error, fmt="o", markersize=2, linewidth=0.6, label="link")
        top = float(slots["exact"].max())
        left.plot([0, top], [0, top], color="#888888", linewidth=0.8, label="as predicted")
        left.set(xlabel="predicted epsilon of the slot (analytic)", ylabel="epsilon of the optimal test on draws")
        left.legend(fontsize=7)
        for number, name in enumerate(("claim", "audit", "proven")):
            colour, dash, marker = dashed(number)
            right.plot(totals[key], totals[name], color=colour, linestyle=dash, marker=marker, label=name)
        right.set(xscale="log", yscale="log", xlabel=key, ylabel="epsilon of the whole run, no amplification")
        right.legend(fontsize=7)
        save(figure, path)
