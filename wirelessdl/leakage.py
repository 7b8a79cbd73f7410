"""What one over-the-air slot leaks on each link (paper Theorem 1, receiver first).

    mu[i, j] = sens gamma_j mult_j |h_ij| sqrt(alpha_j P_j) / sqrt(sum_k |h_ik|^2 beta_k P_k sigma_k^2 + tau^2)

    sens           sensitivity of one gradient; gamma_j, mult_j: learning rate and multiplier of the gradient sent
    |h_ij|         amplitude gain of the link j -> i; P_j: power of sender j, W
    alpha_j, beta_j  shares of power for model and noise; sigma_k: noise deviation; tau^2: credited receiver noise, W

The senders that receiver i hears mask one another. Valid for one slot and a single-antenna receiver that knows the
past; it does not add up over slots. The power plan bounds mu and the ledger records it: both use this function.
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
    masks_others: FloatArray | None = None,
) -> FloatArray:
    """mu, sensitivity over noise deviation, of every link, `[links]`; inf where nothing masks it.

    gain: [links] |h|, or [slots, links] for as many rows of mu. model_w: [K] alpha_j P_j, W. noise_w: [K] beta_j P_j
    sigma_j^2, W. step_sensitivity: [K] how far one sample can move x_j, sens gamma_j mult_j; 0 where x_j holds no
    gradient. thermal_w: receiver noise that counts as masking, W. masks_others: [links] share of a sender's noise that
    masks other senders, by default all of it; its own signal goes the same way as its noise, which masks it in full.
    """
    shift = step_sensitivity[links.tx] * gain * np.sqrt(model_w[links.tx])
    heard_w = gain**2 * noise_w[links.tx]
    if masks_others is None:
        masking = (links.sum_per_receiver(heard_w) + thermal_w)[..., links.rx]
    else:
        others = (links.sum_per_receiver(masks_others * heard_w) + thermal_w)[..., links.rx]
        masking = others + (1 - masks_others) * heard_w
    with np.errstate(divide="ignore", invalid="ignore"):
        mu = shift / np.sqrt(masking)
    return np.where(shift == 0.0, 0.0, mu)


def own_mu(model_w: FloatArray, noise_w: FloatArray, step_sensitivity: FloatArray) -> FloatArray:
    """mu of each sender's transmission masked by its own noise only, `[K]`; arguments as in `link_mu`."""
    shift = step_sensitivity * np.sqrt(model_w)
    with np.errstate(divide="ignore", invalid="ignore"):
        mu = shift / np.sqrt(noise_w)
    return np.where(shift == 0.0, 0.0, mu)
