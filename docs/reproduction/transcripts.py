"""Transcript audits: a lower bound on what one receiver's view of a whole run reveals about one sender.

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

from wirelessdl.analysis.releases import data_split, terms_of
from wirelessdl.arrays import FloatArray
from wirelessdl.errors import TraceError
from wirelessdl.gaussian import analytic_epsilon
from wirelessdl.trace.run import Run
from wirelessdl.trace.schema import TABLES
from wirelessdl.trace.soundness import require_sound

_MAX_SIGN_FLIPS = 20


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
        for _ in range(_MAX_SIGN_FLIPS):
            pull = form @ signs
            gain = np.diagonal(form) - signs * pull  # half of what flipping each sign would add
            worst = int(np.argmax(gain))
            if gain[worst] <= 0:
                break
            signs[worst] *= -1.0
        best = max(best, float(signs @ form @ signs))
    return best


@dataclass(frozen=True)
class Audit:
    """What one receiver's whole view reveals of one sender: at least `attained`, at most `proven`.

    Both without amplification by sampling, which linear losses on full data do not have. `link_sum` is the
    paper's sum over rounds, unproven, computed the same way: where attained exceeds it, masking did not add up.
    """

    rx: int
    tx: int
    rounds: int
    attained: float
    link_sum: float
    proven: float


def audit_run(run: Run, receiver: int | None = None) -> list[Audit]:
    """The audit for one receiver and every sender it hears; by default the receiver that hears most."""
    if run.scenario["trace"]["links"] != "all":
        raise TraceError(f'{run.path}: the audit needs every link; run with trace.links = "all"')
    if not terms_of(run).sends:
        raise TraceError(f"{run.path}: nothing was sent, so nobody heard anything; nothing to audit")
    require_sound(run, TABLES)  # it works on dense matrices of what the tables name
    nodes, links = run.nodes, run.links
    count, rounds = int(nodes["node"].max()) + 1, int(nodes["round"].max())
    if receiver is None:
        receiver = int(np.bincount(links["rx"]).argmax())
    if not 0 <= receiver < count:
        raise TraceError(f"{run.path}: no receiver {receiver}; nodes are 0 to {count - 1}")
    transcript = transcript_of(run)
    sens, delta = data_split(run).sensitivity, run.scenario["privacy"]["delta_total"]
    step = np.vstack([np.zeros(count), transcript.step[:-1]])  # of the gradient in each slot's transmission
    sent = (step > 0) & (transcript.noise > 0)
    own = np.divide(sens * step, transcript.noise, out=np.zeros_like(step), where=sent)
    own[(step > 0) & ~sent] = np.inf
    if not (links["rx"] == receiver).any():
        raise TraceError(f"{run.path}: receiver {receiver} hears nobody")
    found = []
    for sender in np.unique(links.loc[links["rx"] == receiver, "tx"]):
        weight = transcript.mixing[:, receiver].copy()
        weight[:, receiver] = 0.0
        masking = np.sqrt(np.sum((weight * transcript.noise) ** 2, axis=1))
        shift = sens[sender] * weight[:, sender] * step[:, sender]
        slots = np.divide(shift, masking, out=np.where(shift > 0, np.inf, 0.0), where=masking > 0)
        found.append(
            Audit(
                rx=receiver,
                tx=int(sender),
                rounds=rounds,
                attained=float(
                    analytic_epsilon(transcript_mu(transcript, receiver, int(sender), float(sens[sender])), delta)
                ),
                link_sum=float(analytic_epsilon(float(np.sqrt(np.sum(slots**2))), delta)),
                proven=float(analytic_epsilon(float(np.sqrt(np.sum(own[:, sender] ** 2))), delta)),
            )
        )
    return found


def transcript_of(run: Run) -> Transcript:
    """Mixing, noise and steps of every round, from the tables."""
    nodes, links, rounds = run.nodes, run.links, run.rounds
    count, length = int(nodes["node"].max()) + 1, len(rounds)
    mixing = np.zeros((length, count, count))
    mixing[links["round"] - 1, links["rx"], links["tx"]] = links["weight"]
    row_sum = nodes["row_sum"].to_numpy().reshape(length, count)
    diagonal = np.arange(count)
    mixing[:, diagonal, diagonal] = row_sum - mixing.sum(axis=2)
    shape = (length, count)
    on_air = nodes["transmitted"].to_numpy().reshape(shape)
    split = np.sqrt(nodes["beta"].to_numpy() / nodes["alpha"].to_numpy()).reshape(shape)
    noise = on_air * split * rounds["noise_std"].to_numpy()[:, None]
    step = on_air * nodes["multiplier"].to_numpy().reshape(shape) * rounds["learning_rate"].to_numpy()[:, None]
    step[:-1] *= on_air[1:]  # who falls silent takes its last step back
    return Transcript(mixing, noise, step)
