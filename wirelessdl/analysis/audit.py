"""The transcript audit of a finished run, from its own traces."""

from dataclasses import dataclass

import numpy as np

from wirelessdl.analysis.releases import data_split, terms_of
from wirelessdl.errors import TraceError
from wirelessdl.gaussian import analytic_epsilon
from wirelessdl.privacy.attack import Transcript, transcript_mu
from wirelessdl.trace.run import Run
from wirelessdl.trace.schema import TABLES
from wirelessdl.trace.soundness import require_sound


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
