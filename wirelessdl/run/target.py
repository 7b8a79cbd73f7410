"""The noise that a promised total takes: mu of every release, by the accountant that will count them."""

import math

import numpy as np

from wirelessdl.errors import UnsoundError
from wirelessdl.privacy.counts import GRID
from wirelessdl.privacy.exposure import Exposure
from wirelessdl.privacy.terms import Terms
from wirelessdl.privacy.totals import calibrate


def release_mu(epsilon_total: float, rounds: int, exposure: Exposure, terms: Terms) -> float:
    """Largest mu of a release with which no node's total exceeds epsilon_total after all rounds.

    The first round sends no gradient. Batches and sizes decide how much sampling amplifies; the worst node counts.
    """
    releases = rounds - 1
    charged = (
        np.ceil(releases / exposure.epoch_rounds) if terms.by_epoch else np.full(len(exposure.epoch_rounds), releases)
    )
    kinds = {(float(q), int(n)) for q, n in zip(exposure.sampling_rate, charged)}
    return 1.0 / max(_least_nu(epsilon_total, q, n, terms) for q, n in kinds)


def _least_nu(target: float, q: float, releases: int, terms: Terms) -> float:
    try:
        if not terms.amplified:
            return calibrate(target, q=1.0, delta=terms.delta, accountant="gdp", rounds=releases) * (1.0 + 1e-9)
        found = calibrate(
            target,
            q=q,
            delta=terms.delta,
            accountant="pld",
            rounds=releases,
            sampler=terms.sampler,
            clipping=terms.clipping,
        )
    except UnsoundError as error:
        raise ValueError(f"epsilon_total is {target:g}; {error}") from error
    # as the ledger counts it: by the lower end of a cell of noise multipliers
    cell = int(GRID.cell(np.array([found]))[0])
    least = float(GRID.nu(np.array([cell]))[0])
    if least < found:
        least = float(GRID.nu(np.array([cell + 1]))[0])
    if not math.isfinite(least) or cell < 0:
        raise ValueError(
            f"epsilon_total is {target:g}; it needs a noise multiplier of {found:.3g}, beyond what is counted"
        )
    return least * (1.0 + 1e-9)
