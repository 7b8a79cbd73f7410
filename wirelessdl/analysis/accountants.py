"""The promised total by every accountant that is valid, computed again from the traces.

The privacy table holds one total per sender, at the end. The traces hold what each round sent, so a new ledger can
record the same releases once more; it arrives at the stored totals, or the larger of both is shown with a note.
"""

import math
from dataclasses import dataclass

import numpy as np

from wirelessdl.analysis.releases import DataSplit, data_split, recounted_ledger, terms_of
from wirelessdl.arrays import FloatArray
from wirelessdl.errors import TraceError
from wirelessdl.gaussian import analytic_epsilon
from wirelessdl.privacy.counts import GRID
from wirelessdl.privacy.ledger import SenderTotals
from wirelessdl.privacy.terms import PrivacyAssumptions, noise_factor, valid_accountants
from wirelessdl.privacy.totals import total_epsilon
from wirelessdl.trace.run import Run

_MAX_RDP_SENDERS = 40  # senders whose Renyi totals are computed: a fifth of a second each
_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class PromisedTotals:
    """Promised totals of each sender, by accountant; note: why something is missing."""

    epsilon: dict[str, FloatArray]
    note: str = ""


def promised_totals(run: Run, *, others: bool = True) -> PromisedTotals:
    """As stored, if the traces lead there. others: also those of the other accountants, which take seconds."""
    stored = run.privacy
    rows = stored[stored["view"] == terms_of(run).promised].sort_values("tx")
    if not len(rows) or not run.summary:
        table = {str(rows["accountant"].iloc[0]): rows["epsilon_total"].to_numpy()} if len(rows) else {}
        return PromisedTotals(table, "the run is not finished")
    name, epsilon = str(rows["accountant"].iloc[0]), rows["epsilon_total"].to_numpy()
    try:
        split = data_split(run)
    except TraceError as error:
        return PromisedTotals({name: epsilon}, str(error))
    if not split.terms.amplified:
        return PromisedTotals({name: epsilon})
    promised = recounted_ledger(run, split).promised
    again = promised.total()
    if again.shape != epsilon.shape or not np.allclose(again, epsilon, rtol=_TOLERANCE, equal_nan=True):
        larger = np.fmax(again, epsilon) if again.shape == epsilon.shape else epsilon
        note = "the traces do not lead to the stored totals, so other accountants are left out"
        return PromisedTotals({name: larger}, note)
    more, note = _other_accountants(promised, split) if others else ({}, "")
    return PromisedTotals({name: epsilon, **more}, note)


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
