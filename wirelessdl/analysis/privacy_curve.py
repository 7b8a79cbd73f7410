"""Own total epsilon after every evaluation, and by every accountant, computed again from the traces.

The privacy table holds one total per sender, at the end. The traces hold what each round sent (alpha, beta, multiplier,
sampling rate, sensitivity), so a new ledger can record the same releases once more: it gives the total after every
evaluation, and the totals of other accountants.

    mu[t, j] = sensitivity multiplier sqrt(alpha / beta) / rho,  with the multiplier of the gradient sent

A ledger that does not arrive at the stored totals is not shown.
"""

import math
from dataclasses import dataclass

import numpy as np

from wirelessdl.analysis.data_split import DataSplit, data_split
from wirelessdl.analysis.releases import releases_of
from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.errors import TraceError
from wirelessdl.gaussian import analytic_epsilon
from wirelessdl.privacy.combinations import noise_factor, valid_accountants
from wirelessdl.privacy.counts import GRID
from wirelessdl.privacy.ledger import Ledger
from wirelessdl.privacy.terms import Terms
from wirelessdl.privacy.totals import total_epsilon
from wirelessdl.trace.run import Run

_MOST_RDP = 40  # senders whose Renyi totals are computed: a fifth of a second each
_AGREE = 1e-6


@dataclass(frozen=True, eq=False)
class PrivacyCurve:
    """Own totals: `epsilon` after `round`, the largest of all senders; and of each sender at the end, by accountant."""

    round: IntArray
    epsilon: FloatArray
    accountant: str
    totals: dict[str, FloatArray]
    note: str = ""  # why something is missing


def privacy_curve(run: Run, *, others: bool = True) -> PrivacyCurve:
    """As exact as the traces allow; where they do not, the running bounds, and a note that says why.

    others: also the totals of the other accountants, which take seconds.
    """
    stored = run.privacy
    own = stored[stored["view"] == "own"].sort_values("tx")
    name = str(own["accountant"].iloc[0]) if len(own) else "rdp-wang19"
    table = {name: own["epsilon_total"].to_numpy()} if len(own) else {}
    rounds = run.rounds
    running = PrivacyCurve(
        rounds["round"].to_numpy(),
        rounds["epsilon_own_bound"].to_numpy(),
        "running bound",
        table,
        "the run is not finished",
    )
    if not run.summary or not len(own):
        return running
    try:
        split = data_split(run)
    except TraceError as error:
        return PrivacyCurve(running.round, running.epsilon, running.accountant, table, str(error))
    if not split.terms.amplified:
        return PrivacyCurve(running.round, running.epsilon, name, table)
    at = _evaluations(rounds["round"].to_numpy()[rounds["accuracy_mean"].notna()], len(split.rate))
    ledger, epsilon = Ledger(split.terms, split.rate), []
    for release in releases_of(run, split):
        ledger.record(release)
        if release.round in at:
            epsilon.append(float(ledger.own_total().max()))
    again = ledger.own_total()
    if again.shape != table[name].shape or not np.allclose(again, table[name], rtol=_AGREE, equal_nan=True):
        note = "the traces do not lead to the stored totals, so other accountants are left out"
        larger = {name: np.fmax(again, table[name])} if again.shape == table[name].shape else table
        return PrivacyCurve(running.round, running.epsilon, running.accountant, larger, note)
    more, note = _other_accountants(ledger, split) if others else ({}, "")
    return PrivacyCurve(np.array(sorted(at)), np.array(epsilon), name, {**table, **more}, note)


def _evaluations(evaluated: IntArray, nodes: int) -> set[int]:
    """Evaluated rounds, evenly thinned: each costs a composition per sender."""
    points = min(len(evaluated), max(5, min(40, 800 // nodes)))
    shown = np.unique(np.linspace(0, len(evaluated) - 1, points).astype(int))
    return {int(evaluated[n]) for n in shown}


def _other_accountants(ledger: Ledger, split: DataSplit) -> tuple[dict[str, FloatArray], str]:
    """Totals of the same releases by the other accountants that are valid for them."""
    terms = split.terms
    valid = valid_accountants(terms.sampler, terms.adjacency, terms.clipping)
    found = {}
    if "rdp-wang19" in valid:
        found["rdp-wang19"] = ledger.own_bound()
    factor = noise_factor("gdp", terms.sampler, terms.adjacency, terms.clipping)
    found["gdp"] = np.array([_gdp(cells, factor, terms.delta) for cells in ledger.own.cells])
    if "rdp" not in valid:
        return found, ""
    alike = all(len(cells) <= 1 and -1 not in cells for cells in ledger.own.cells)
    if not alike or len(ledger.own.cells) > _MOST_RDP:
        why = f"there are more than {_MOST_RDP} senders" if alike else "releases differ from slot to slot"
        return found, f"rdp is left out because {why}; it would take minutes"
    found["rdp"] = np.array([_rdp(cells, q, terms) for cells, q in zip(ledger.own.cells, split.rate.tolist())])
    return found, ""


def _gdp(cells: dict[int, int], factor: float, delta: float) -> float:
    """mu adds in squares."""
    if -1 in cells:
        return math.inf
    nu = factor * GRID.nu(np.array(list(cells), dtype=np.int64))
    return float(analytic_epsilon(float(np.sqrt(np.sum(np.array(list(cells.values())) / nu**2))), delta))


def _rdp(cells: dict[int, int], q: float, terms: Terms) -> float:
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
