"""The transcript audit: a lower bound on what one receiver's view of a whole run reveals about one sender.

A run is linear in noise and gradients while projections are inactive:

    x_{t+1} = A_t (x_t + S_t eta_t) - G_t g_t,       view_t = sum over k != i of A_t[i, k] (x_t + S_t eta_t)_k

    x_t, g_t, eta_t  models, gradients and standard normal noise of round t; A_t: mixing [K, K]
    S_t, G_t         diagonal: noise deviation, and learning rate times multiplier, of each node

So receiver i's T observations are jointly Gaussian, with covariance N N' from all other nodes' noise and mean M g from
the sender's gradients. Q = M' (N N')^-1 M is the squared sensitivity ratio of the whole transcript; linear losses
attain sens^2 u'Qu for any signs u. That is a lower bound on the leakage, attained by an example: it is no guarantee,
but it refutes a claimed epsilon that is smaller.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, solve_triangular

from wirelessdl.arrays import FloatArray

_SWEEPS = 20


@dataclass(frozen=True, eq=False)
class Transcript:
    """A run for the audit. mixing: [T, K, K]; noise: [T, K] deviation; step: [T, K] gamma * multiplier."""

    mixing: FloatArray
    noise: FloatArray
    step: FloatArray


def transcript_mu(transcript: Transcript, receiver: int, sender: int, sensitivity: float) -> float:
    """mu of the receiver's whole view for the worst known pair of neighbouring data sets; a lower bound."""
    noise_map, gradient_map = view_maps(transcript, receiver, sender)
    if not gradient_map.any():
        return 0.0
    heard = noise_map.any(axis=1) | gradient_map.any(axis=1)  # slots in which it hears anything
    noise_map, gradient_map = noise_map[heard], gradient_map[heard]
    # QR of the noise map: no covariance is squared up, no jitter needed
    _, triangle = qr(noise_map.T, mode="economic")
    if np.abs(np.diagonal(triangle)).min() < 1e-12 * np.abs(np.diagonal(triangle)).max():
        return np.inf  # some combination of what is heard has no noise
    whitened = solve_triangular(triangle, gradient_map, trans="T")
    return sensitivity * float(np.sqrt(_largest_sign_form(whitened.T @ whitened)))


def view_maps(transcript: Transcript, receiver: int, sender: int) -> tuple[FloatArray, FloatArray]:
    """Linear maps N, `[T, T K]`, from all noise and M, `[T, T]`, from the sender's gradients to what is heard."""
    rounds, nodes = transcript.noise.shape
    state_noise, state_gradient = np.zeros((nodes, rounds * nodes)), np.zeros((nodes, rounds))
    noise_rows, gradient_rows = [], []
    for t in range(rounds):
        sent = state_noise.copy()
        sent[np.arange(nodes), t * nodes + np.arange(nodes)] += transcript.noise[t]
        heard = transcript.mixing[t, receiver].copy()
        heard[receiver] = 0.0  # its own part it knows
        noise_rows.append(heard @ sent)
        gradient_rows.append(heard @ state_gradient)
        state_noise = transcript.mixing[t] @ sent
        state_gradient = transcript.mixing[t] @ state_gradient
        state_gradient[sender, t] -= transcript.step[t, sender]
    noise_map = np.stack(noise_rows)
    noise_map[:, receiver::nodes] = 0.0  # and its own noise
    return noise_map, np.stack(gradient_rows)


def _largest_sign_form(form: FloatArray) -> float:
    """max u'Qu over u = +-1, by flipping signs from the leading eigenvector's and from all ones."""
    best = 0.0
    leading = np.linalg.eigh(form)[1][:, -1]
    for start in (np.ones(len(form)), np.where(leading >= 0, 1.0, -1.0)):
        signs = start.copy()
        for _ in range(_SWEEPS):
            pull = form @ signs
            gain = np.diagonal(form) - signs * pull  # half of what flipping each sign would add
            worst = int(np.argmax(gain))
            if gain[worst] <= 0:
                break
            signs[worst] *= -1.0
        best = max(best, float(signs @ form @ signs))
    return best
