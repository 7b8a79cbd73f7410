"""The promised total after every evaluation, and by every accountant, computed again from the traces.

The privacy table holds one total per sender, at the end. The traces hold what each round sent (alpha, beta, multiplier,
sampling rate, sensitivity), so a new ledger can record the same releases once more: it gives the total after every
evaluation, and the totals of other accountants.

    mu[t, j] = sensitivity multiplier sqrt(alpha / (share beta)) / rho,  with the multiplier of the gradient sent

The promised view is `own` (everyone else colludes) or, under noise that pairs share, `coalition`; share is what of the
noise hides a sender in it.

A ledger that does not arrive at the stored totals is not shown.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from wirelessdl.analysis.releases import DataSplit, data_split, releases_of, terms_of
from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.errors import TraceError
from wirelessdl.gaussian import analytic_epsilon
from wirelessdl.privacy.counts import GRID
from wirelessdl.privacy.ledger import Ledger, SenderTotals
from wirelessdl.privacy.terms import PrivacyAssumptions, noise_factor, valid_accountants
from wirelessdl.privacy.totals import total_epsilon
from wirelessdl.trace.run import Run

_MAX_RDP_SENDERS = 40  # senders whose Renyi totals are computed: a fifth of a second each
_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class PrivacyCurve:
    """Promised totals: `epsilon` after `round`, the largest of all senders; of each sender at the end, by accountant.

    adversary: against whom they hold, in words.
    """

    round: IntArray
    epsilon: FloatArray
    accountant: str
    totals: dict[str, FloatArray]
    adversary: str
    note: str = ""  # why something is missing


def privacy_curve(run: Run, *, others: bool = True) -> PrivacyCurve:
    """As exact as the traces allow; where they do not, the running bounds, and a note that says why.

    others: also the totals of the other accountants, which take seconds.
    """
    terms = terms_of(run)
    view, against = terms.promised, terms.adversary
    stored = run.privacy
    rows = stored[stored["view"] == view].sort_values("tx")
    name = str(rows["accountant"].iloc[0]) if len(rows) else "rdp-wang19"
    table = {name: rows["epsilon_total"].to_numpy()} if len(rows) else {}
    rounds = run.rounds
    running = PrivacyCurve(
        rounds["round"].to_numpy(),
        rounds["epsilon_promised_bound"].to_numpy(),
        "running bound",
        table,
        against,
        "the run is not finished",
    )
    if not run.summary or not len(rows):
        return running
    try:
        split = data_split(run)
    except TraceError as error:
        return replace(running, note=str(error))
    if not split.terms.amplified:
        return replace(running, accountant=name, note="")
    at = _evaluations(rounds["round"].to_numpy()[rounds["accuracy_mean"].notna()], len(split.rate))
    ledger, epsilon = Ledger(split.terms, split.rate), []
    for release in releases_of(run, split):
        ledger.record(release)
        if release.round in at:
            epsilon.append(float(ledger.promised.total().max()))
    again = ledger.promised.total()
    if again.shape != table[name].shape or not np.allclose(again, table[name], rtol=_TOLERANCE, equal_nan=True):
        note = "the traces do not lead to the stored totals, so other accountants are left out"
        larger = {name: np.fmax(again, table[name])} if again.shape == table[name].shape else table
        return replace(running, totals=larger, note=note)
    more, note = _other_accountants(ledger.promised, split) if others else ({}, "")
    return PrivacyCurve(np.array(sorted(at)), np.array(epsilon), name, {**table, **more}, against, note)


def _evaluations(evaluated: IntArray, nodes: int) -> set[int]:
    """Evaluated rounds, evenly thinned: each costs a composition per sender."""
    points = min(len(evaluated), max(5, min(40, 800 // nodes)))
    shown = np.unique(np.linspace(0, len(evaluated) - 1, points).astype(int))
    return {int(evaluated[n]) for n in shown}


def _other_accountants(promised: SenderTotals, split: DataSplit) -> tuple[dict[str, FloatArray], str]:
    """Totals of the same releases by the other accountants that are valid for them."""
    terms = split.terms
    valid = valid_accountants(terms.sampler, terms.adjacency, terms.clipping)
    found = {}
    if "rdp-wang19" in valid:
        found["rdp-wang19"] = promised.bound()
    factor = noise_factor("gdp", terms.sampler, terms.adjacency, terms.clipping)
    found["gdp"] = np.array([_gdp(cells, factor, terms.delta) for cells in promised.cells])
    if "rdp" not in valid:
        return found, ""
    alike = all(len(cells) <= 1 and -1 not in cells for cells in promised.cells)
    if not alike or len(promised.cells) > _MAX_RDP_SENDERS:
        why = f"there are more than {_MAX_RDP_SENDERS} senders" if alike else "releases differ from slot to slot"
        return found, f"rdp is left out because {why}; it would take minutes"
    found["rdp"] = np.array([_rdp(cells, q, terms) for cells, q in zip(promised.cells, split.rate.tolist())])
    return found, ""


def _gdp(cells: dict[int, int], factor: float, delta: float) -> float:
    """mu adds in squares."""
    if -1 in cells:
        return math.inf
    nu = factor * GRID.nu(np.array(list(cells), dtype=np.int64))
    return float(analytic_epsilon(float(np.sqrt(np.sum(np.array(list(cells.values())) / nu**2))), delta))


def _rdp(cells: dict[int, int], q: float, terms: PrivacyAssumptions) -> float:
    if not cells:
        return 0.0
    ((cell, rounds),) = cells.items()
    return total_epsilon(
        float(GRID.nu(np.array([cell]))[0]),
        q,
        rounds,
        delta=terms.delta,
        accountant="rdp",
        sampler=terms.sampler,
        adjacency=terms.adjacency,
        clipping=terms.clipping,
    )
