"""What one over-the-air slot leaks on each link (paper Theorem 1, receiver first).

    mu[i, j] = sens gamma_j mult_j |h_ij| sqrt(alpha_j P_j) / sqrt(sum_k |h_ik|^2 beta_k P_k sigma_k^2 + tau^2)

The senders that receiver i hears mask one another. Right for one slot and a single-antenna receiver
that knows the past; it does not add up over slots. The power plan keeps it within bounds, the ledger
writes it down: both use this one function.
"""

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.links import Links


def link_mu(
    links: Links,
    gain: FloatArray,
    *,
    model_w: FloatArray,
    noise_w: FloatArray,
    step_sensitivity: FloatArray,
    thermal_w: float = 0.0,
) -> FloatArray:
    """Sensitivity over noise deviation on every link.

    model_w: alpha_j P_j; noise_w: beta_j P_j sigma_j^2; step_sensitivity: how far one sample can move
    x_j, sens gamma_j mult_j (0 where x_j carries no gradient); thermal_w: only where credited.
    """
    shift = step_sensitivity[links.tx] * gain * np.sqrt(model_w[links.tx])
    masking = links.sum_per_receiver(gain**2 * noise_w[links.tx]) + thermal_w
    with np.errstate(divide="ignore", invalid="ignore"):
        mu = shift / np.sqrt(masking[links.rx])
    return np.where(shift == 0.0, 0.0, mu)


def own_mu(model_w: FloatArray, noise_w: FloatArray, step_sensitivity: FloatArray) -> FloatArray:
    """Sensitivity over noise deviation of each sender's transmission, masked by its own noise alone."""
    shift = step_sensitivity * np.sqrt(model_w)
    with np.errstate(divide="ignore", invalid="ignore"):
        mu = shift / np.sqrt(noise_w)
    return np.where(shift == 0.0, 0.0, mu)
