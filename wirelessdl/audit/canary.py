"""The canary: two neighbouring data sets as far apart as they can be made, and what an attack on them proves.

Epsilon holds for every data set, so the auditor chooses it. Node j's samples are copies of one sample, c'; in the other
data set one of them is the canary c. Their clipped gradients should be opposite, C and -C, in every round. (zero-out:
the copy that becomes c is a null record.) Pairs:

    features   one label, features +r u and -r u: the gradient (p - y) a' of a linear layer changes sign with a
    labels     one sample of the node, two labels; real labels are +L and -L, which is exact for linear regression
    across     features r u and r v with u.v = 0, the only pair under a Gram stage: z z' is the same for z and -z

Copies of c' alone would be learned in a few rounds, and a gradient that is no longer clipped moves less. So of the
other nodes every second one holds copies of c, and the rest copies of c' (`others`), unless their own data serve
better. No pair is best for every model: a few are rehearsed with random draws of their own, and the one that moves
transmissions most is taken. What the rehearsal saw plays no part in the trials.

Lower bounds on epsilon come from an attack that told the two apart. Every trial is run on D or on D', by a fair coin,
and gives one score (a log-likelihood ratio). The attacker says "D" where the score exceeds a threshold. Part of the
trials, the pilot, chooses the threshold and the rule; the bound comes from the others, so it holds with the stated
confidence for whatever was chosen:

    accuracy   right in a share p of trials, p >= p_low (Clopper-Pearson):  TPR - FPR >= 2 p_low - 1
    rates      TPR >= TPR_low and FPR <= FPR_high (Clopper-Pearson, half of the doubt each)

    TPR, FPR   how often the attacker says "D" under D, and under D'

A release of Gaussian noise with mu has TPR - FPR <= 2 Phi(mu/2) - 1 and Phi^-1(TPR) - Phi^-1(FPR) <= mu (Dong, Roth and
Su), so either rule bounds mu from below, and mu gives epsilon at delta. A Clopper-Pearson bound at delta itself would
need far more than 1/delta trials.

Where a total is amplified by sampling, mu does not describe it. There the rates are compared with what the accountant
allows: an (epsilon, delta') guarantee allows TPR <= e^epsilon FPR + delta', and TPR - FPR <= (e^epsilon - 1 + 2
delta')/(e^epsilon + 1), for every delta'. `attack_epsilon` looks for the factor by which all noise would have to be
smaller for the accountant to allow what was seen, and gives the accountant's epsilon at that factor. A factor above 1
refutes the claim, without further assumption; below 1 the epsilon assumes that the shape of the trade-off between TPR
and FPR is the accountant's.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import ndtri
from scipy.stats import beta

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.gaussian import analytic_epsilon
from wirelessdl.learning.data import Dataset
from wirelessdl.privacy.ledger import SenderTotals
from wirelessdl.privacy.terms import PrivacyAssumptions
from wirelessdl.run.build_learning import Plant

_LENGTHS = (2.5, 8.0, 25.0, 1e3)  # of the features, normalised


@dataclass(frozen=True, eq=False)
class Canary:
    """The samples, as stored: c and its label, c' and its label; and what the other nodes hold."""

    name: str
    sample: NDArray[Any]
    label: Any
    other_sample: NDArray[Any]
    other_label: Any
    others: Literal["data", "copies"]


def cut(samples: int | None) -> Plant:
    """Nobody keeps more than so many samples; those that are kept are stored side by side."""

    def plant(data: Dataset, clients: list[IntArray]) -> tuple[Dataset, list[IntArray]]:
        kept = [client[:samples] for client in clients]
        order, ends = np.concatenate(kept), np.cumsum([len(client) for client in kept])
        places = [np.arange(end - len(client), end) for client, end in zip(kept, ends)]
        return replace(data, train_x=data.train_x[order], train_y=data.train_y[order]), places

    return plant


def planted(canary: Canary, node: int, samples: int | None, *, with_canary: bool) -> Plant:
    """One of the two data sets; the canary is the node's first sample."""

    def plant(data: Dataset, clients: list[IntArray]) -> tuple[Dataset, list[IntArray]]:
        data, clients = cut(samples)(data, clients)
        train_x, train_y = data.train_x.copy(), data.train_y.copy()

        def put(places: IntArray, *, canary_itself: bool) -> None:
            train_x[places] = canary.sample if canary_itself else canary.other_sample
            train_y[places] = canary.label if canary_itself else canary.other_label

        own = clients[node]
        put(own, canary_itself=False)
        if canary.others == "copies":
            for place, other in enumerate(other for other in range(len(clients)) if other != node):
                put(clients[other], canary_itself=place % 2 == 0)
        if with_canary:
            put(own[:1], canary_itself=True)
        return replace(data, train_x=train_x, train_y=train_y), clients

    return plant


def candidates(data: Dataset, client: IntArray, *, across: bool = False) -> Iterator[Canary]:
    """Pairs to rehearse. client: the node's samples. across: only those that a Gram stage tells apart."""
    for name, sample, label, other_sample, other_label in _across(data) if across else _pairs(data, client):
        yield Canary(name, sample, label, other_sample, other_label, "copies")
        yield Canary(name, sample, label, other_sample, other_label, "data")


def _pairs(data: Dataset, client: IntArray) -> Iterator[tuple[str, NDArray[Any], Any, NDArray[Any], Any]]:
    ones = np.ones(data.shape) / np.sqrt(data.features)
    first, label = data.train_x[client[0]], data.train_y[client[0]]
    if data.task == "regression":
        bound = 1e3 * (1.0 + np.abs(data.train_y).max())
        yield "labels", first, bound, first, -bound
        for length in _LENGTHS:
            sample = _stored(data, length * ones)
            yield f"labels, features {length:g}", sample, bound, sample, -bound
        return
    for length in _LENGTHS:
        sample, other = _stored(data, length * ones), _stored(data, -length * ones)
        yield f"features {length:g}", sample, 0, other, 0
    if data.classes > 1:
        yield "labels", first, label, first, (label + 1) % data.classes
    # a canary that outweighs a whole batch of short ones, for batch clipping
    short, long = _LENGTHS[0], _LENGTHS[-1]
    yield f"features {long:g} among {short:g}", _stored(data, long * ones), 0, _stored(data, -short * ones), 0


def _across(data: Dataset) -> Iterator[tuple[str, NDArray[Any], Any, NDArray[Any], Any]]:
    first = np.arange(data.features).reshape(data.shape) < data.features // 2
    for length in _LENGTHS:
        sample, other = (_stored(data, length * half / np.sqrt(half.sum())) for half in (first, ~first))
        bound = 1e3 * (1.0 + np.abs(data.train_y).max()) if data.task == "regression" else 0
        yield f"features {length:g} across", sample, bound, other, -bound


def _stored(data: Dataset, features: FloatArray) -> NDArray[Any]:
    """A sample as stored, of normalised features; as close as whole numbers of the stored type come."""
    mean, deviation = (
        np.reshape(np.asarray(constant), (-1, 1, 1)) if isinstance(constant, tuple) else constant
        for constant in (data.mean, data.deviation)
    )
    values = (features * deviation + mean) * data.scale
    kind = data.train_x.dtype
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        values = np.clip(np.round(values), limits.min, limits.max)
    return np.asarray(values, dtype=kind)


PILOT = 0.2  # share of trials that choose the rule
MIN_TRIALS = 50  # trials below which no bound can say anything
_FALSE_POSITIVE_RATES = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)  # for which thresholds are tried
_LOG_FACTOR_RANGE = (-6.0, 6.0)  # of ln factor
_DELTAS_TRIED = 10  # deltas at which a claim is compared with what was seen
_HALVINGS = 11  # halvings of that range: to 0.6%, within the ledger's grid

_Rule: TypeAlias = tuple[Literal["accuracy", "rates"], float]  # and its threshold
Claim: TypeAlias = Callable[[float, float], float]  # (factor of mu, delta) -> epsilon


@dataclass(frozen=True)
class Evidence:
    """What the trials after the pilot show, at a confidence.

    tpr, fpr: as counted. advantage: lower bound on TPR - FPR (rule "accuracy"); tpr_low, fpr_high: bounds (rule
    "rates"). mu: lower bound on mu if the releases are Gaussian.
    """

    rule: Literal["accuracy", "rates"]
    threshold: float
    trials: int
    tpr: float
    fpr: float
    advantage: float
    tpr_low: float
    fpr_high: float
    mu: float

    def excess(self, epsilon: float, delta: float) -> float:
        """How much more was seen than an (epsilon, delta) guarantee allows; above 0 refutes it."""
        if epsilon > 700:
            return -1.0
        ratio = math.exp(epsilon)
        if self.rule == "accuracy":
            return self.advantage - (ratio - 1.0 + 2.0 * delta) / (ratio + 1.0)
        false_alarms = self.tpr_low - (ratio * self.fpr_high + delta)
        misses = (1.0 - self.fpr_high) - (ratio * (1.0 - self.tpr_low) + delta)
        return max(false_alarms, misses)


def least_rate(hits: int, trials: int, doubt: float) -> float:
    """Clopper-Pearson lower bound on a rate; wrong with probability at most `doubt`."""
    return float(beta.ppf(doubt, hits, trials - hits + 1)) if hits else 0.0


def largest_rate(hits: int, trials: int, doubt: float) -> float:
    """Clopper-Pearson upper bound on a rate; wrong with probability at most `doubt`."""
    return 1.0 - least_rate(trials - hits, trials, doubt)


def weigh(score: FloatArray, with_canary: BoolArray, *, doubt: float) -> Evidence:
    """The rule that the pilot chooses, applied to the other trials. score, with_canary: [trials].

    It is the likelihood ratio at 0, the best guess of the coin, unless another rule promises clearly more.
    """
    if len(score) < MIN_TRIALS:
        raise ValueError(f"trials is {len(score)}; must be at least {MIN_TRIALS}")
    pilot = max(1, int(PILOT * len(score)))
    tried, side = score[:pilot], with_canary[:pilot]
    scale = (len(score) - pilot) / pilot  # what a rule would give if the other trials were like the pilot
    chosen, *others = _rules(tried, side)
    # the pilot's mu has a deviation of about 2.6 / sqrt(trials), and the best of many rules is a lucky one
    promised = _apply(chosen, tried, side, doubt, scale).mu + 4.0 / math.sqrt(pilot)
    for rule in others:
        found = _apply(rule, tried, side, doubt, scale).mu
        if found > promised:
            promised, chosen = found, rule
    return _apply(chosen, score[pilot:], with_canary[pilot:], doubt)


def _rules(score: FloatArray, with_canary: BoolArray) -> Iterator[_Rule]:
    yield "accuracy", 0.0
    without = score[~with_canary]
    if len(without):
        for tail in _FALSE_POSITIVE_RATES:
            threshold = float(np.quantile(without, 1.0 - tail))
            yield "accuracy", threshold
            yield "rates", threshold


def _apply(rule: _Rule, score: FloatArray, with_canary: BoolArray, doubt: float, scale: float = 1.0) -> Evidence:
    """The bounds of one rule; with a scale, as if so many times as many trials had come out alike."""
    kind, threshold = rule
    guessed = score > threshold
    positives, negatives = int(with_canary.sum()), int((~with_canary).sum())
    hits, alarms = int((guessed & with_canary).sum()), int((guessed & ~with_canary).sum())
    correct = hits + negatives - alarms

    def scaled(count: int) -> int:
        return round(scale * count)

    accuracy = least_rate(scaled(correct), scaled(len(score)), doubt)
    advantage = max(0.0, 2.0 * accuracy - 1.0)
    tpr_low = least_rate(scaled(hits), scaled(positives), doubt / 2) if positives else 0.0
    fpr_high = largest_rate(scaled(alarms), scaled(negatives), doubt / 2) if negatives else 1.0
    if kind == "accuracy":
        mu = 2.0 * float(ndtri(0.5 + advantage / 2.0))
    else:
        mu = max(0.0, float(ndtri(tpr_low) - ndtri(fpr_high))) if tpr_low > 0 and fpr_high < 1 else 0.0
    return Evidence(
        rule=kind,
        threshold=threshold,
        trials=len(score),
        tpr=hits / positives if positives else 0.0,
        fpr=alarms / negatives if negatives else 1.0,
        advantage=advantage,
        tpr_low=tpr_low,
        fpr_high=fpr_high,
        mu=mu,
    )


def attack_epsilon(evidence: Evidence, delta: float, claim: Claim | None = None) -> float:
    """Epsilon at delta that the evidence implies: by mu, or by a claim that is amplified by sampling."""
    if claim is None:
        return analytic_epsilon(evidence.mu, delta)
    low, high = _LOG_FACTOR_RANGE
    if not _refuted(evidence, claim, math.exp(low)):
        return 0.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _refuted(evidence, claim, math.exp(middle)) else (low, middle)
    return claim(math.exp(low), delta)


def _refuted(evidence: Evidence, claim: Claim, factor: float) -> bool:
    """Whether a claim whose mu are all multiplied by a factor forbids what was seen, at any delta."""

    def excess(log_delta: float) -> float:
        delta = math.exp(log_delta)
        return -evidence.excess(claim(factor, delta), delta)

    # every delta is a valid test; the search only looks for a good one
    found = minimize_scalar(
        excess, bounds=(math.log(1e-7), math.log(0.5)), method="bounded", options={"maxiter": _DELTAS_TRIED}
    )
    return bool(found.fun < 0)


def sender_claim(
    terms: PrivacyAssumptions, rate: float, rounds: IntArray, mu: FloatArray, epoch_rounds: int | None, stage: int = 0
) -> Claim:
    """The ledger's total for one sender in a proven view as a function of a factor of its mu, and of delta.

    rate: sampling rate. rounds, mu: [releases] round of each release, and its mu. epoch_rounds: of the sender.
    stage: rounds of the Gram stage.
    """
    epochs = () if epoch_rounds is None else (epoch_rounds,)

    def claim(factor: float, delta: float) -> float:
        totals = SenderTotals(replace(terms, delta=delta, epoch_rounds=epochs), np.array([rate]))
        for round, one in zip(rounds.tolist(), mu.tolist()):
            totals.record(round, np.zeros(1, dtype=np.int64), np.array([factor * one]), whole=round <= stage)
        return float(totals.total()[0])

    return claim
