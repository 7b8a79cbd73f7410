"""Makes privacy.json: totals by dp-accounting (Google, Apache-2.0), called by its public interface.

    python tests/reference/make_privacy.py

The file in the repository was made with dp-accounting 0.6.0. nu is noise over replace-one sensitivity.
"""

import json
from pathlib import Path

import dp_accounting as dp
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

DELTA = 1e-4
CASES = [(4.343612, 0.02, 100), (4.343612, 0.1, 300), (1.5, 0.01, 1000), (8.0, 0.25, 50)]
RELATION = dp.NeighboringRelation


def spent(accountant, event, rounds):
    accountant.compose(event, rounds)
    return accountant.get_epsilon(DELTA)


rows = []
for nu, q, rounds in CASES:
    without = dp.SampledWithoutReplacementDpEvent(10_000, round(q * 10_000), dp.GaussianDpEvent(nu))
    half = dp.PoissonSampledDpEvent(q, dp.GaussianDpEvent(2 * nu))  # add/remove moves a clipped sum half as far
    whole = dp.PoissonSampledDpEvent(q, dp.GaussianDpEvent(nu))
    values = {
        "rdp without-replacement replace-one per-sample": spent(
            RdpAccountant(None, RELATION.REPLACE_ONE), without, rounds
        ),
        "rdp poisson add-remove per-sample": spent(RdpAccountant(None, RELATION.ADD_OR_REMOVE_ONE), half, rounds),
        "pld poisson add-remove per-sample": spent(PLDAccountant(RELATION.ADD_OR_REMOVE_ONE), half, rounds),
        "pld poisson add-remove batch": spent(PLDAccountant(RELATION.ADD_OR_REMOVE_ONE), whole, rounds),
        "pld poisson replace-one per-sample": spent(PLDAccountant(RELATION.REPLACE_ONE), half, rounds),
        "gdp full-batch replace-one per-sample": spent(
            PLDAccountant(RELATION.ADD_OR_REMOVE_ONE), dp.GaussianDpEvent(nu), rounds
        ),
    }
    rows.append({"nu": nu, "q": q, "rounds": rounds, "delta": DELTA, "epsilon": values})

path = Path(__file__).with_name("privacy.json")
path.write_text(json.dumps(rows, indent=1) + "\n")
