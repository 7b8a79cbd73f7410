"""Whether the shares of noise that hide senders follow from who was on air: they decide what the ledger charges.

    own share         1 / (1 + p r^2)                                   p: partners of the node on air
    coalition share   own share (1 + max(p - c, 0) r^2 / (1 + r^2))     r: pair ratio, c: most nodes that collude

Both are 1 where noise is independent. A group whose other nodes on air may all collude forms no pairs, nor does one
whose pairs would leave a model less than alpha_min of the power: both are computed again here, the latter from alpha
and learning rates of what was sent. With pairs of neighbours p is not traced: it must be a whole number, at most that
of the others on air, which needs r.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.privacy.terms import Terms
from wirelessdl.trace.run import Run

_AGREE = 1e-9  # of the same formula, written down as a number in between
_ROUNDED = 1e-9  # an alpha at its limit: the engine has it from other sums


def share_problems(run: Run, terms: Terms) -> Iterator[str]:
    """One line for each share that is not what the roster of its frame gives."""
    count = run.scenario["network"]["nodes"]
    nodes = run.frame("nodes", ["round", "transmitted", "own_share", "coalition_share", "alpha", "sent_learning_rate"])
    own, coalition = (nodes[name].to_numpy().reshape(-1, count) for name in ("own_share", "coalition_share"))
    if not terms.pairwise:
        if (own != 1.0).any() or (coalition != 1.0).any():
            yield "nodes: own_share and coalition_share are not 1, and noise is independent"
        return
    if not ((own > 0) & (own <= coalition) & (coalition <= 1.0)).all():
        yield "nodes: own_share and coalition_share are out of order; must be 0 < own_share <= coalition_share <= 1"
        return
    on_air = nodes["transmitted"].to_numpy().astype(bool).reshape(-1, count)
    pairs, partners = run.scenario["privacy"]["pairs"], None
    if pairs != "neighbours":
        partners = _partners(on_air, 1 if pairs == "all" else int(pairs["groups"]), terms.coalition)
    square = _square(run, own, partners)
    if square is None:  # until a run is done, the ratio that it chose stands nowhere else
        return
    if partners is None:
        with np.errstate(divide="ignore", invalid="ignore"):
            partners = np.where(own < 1.0, np.rint((1.0 / own - 1.0) / square), 0).astype(np.int64)
        if ((partners < 0) | (partners >= np.maximum(on_air.sum(axis=1, keepdims=True), 1))).any():
            yield "nodes: own_share names more partners than there are on air"
            return
    else:
        groups = 1 if pairs == "all" else int(pairs["groups"])
        rate = _learning_rates(run, nodes["round"].to_numpy(), nodes["sent_learning_rate"].to_numpy()).reshape(
            -1, count
        )
        short = _without_room(run, terms, nodes["alpha"].to_numpy().reshape(-1, count), rate, partners, square, groups)
        partners = np.where((own == 1.0) & short, 0, partners)
    if not np.allclose(own, 1.0 / (1.0 + partners * square), rtol=_AGREE):
        yield "nodes: own_share does not follow from who was on air"
    honest = np.maximum(partners - terms.coalition, 0)
    if not np.allclose(coalition, own * (1.0 + honest * square / (1.0 + square)), rtol=_AGREE):
        yield "nodes: coalition_share does not follow from own_share and privacy.coalition"


def _partners(on_air: BoolArray, groups: int, coalition: int) -> IntArray:
    """Others on air of the same group, `[rounds, K]`; 0 if silent, or if all may be in the coalition."""
    number = np.arange(on_air.shape[1]) % max(groups, 1)
    size = np.stack([on_air[:, number == group].sum(axis=1) for group in np.unique(number)], axis=1)
    others = size[:, number] - 1
    return np.where(on_air & (others > coalition), others, 0)


def _learning_rates(run: Run, round: IntArray, sent: FloatArray) -> FloatArray:
    """Learning rate that the noise of each row follows: of the gradient that was sent, else of the round."""
    rounds = run.frame("rounds", ["round", "learning_rate"])
    rate = rounds["learning_rate"].to_numpy()[np.searchsorted(rounds["round"].to_numpy(), round)]
    return np.where(sent > 0, sent, rate)


def _without_room(
    run: Run, terms: Terms, alpha: FloatArray, rate: FloatArray, partners: IntArray, square: float, groups: int
) -> BoolArray:
    """Nodes of groups whose pairs would leave one of them less than alpha_min, had they been formed, `[rounds, K]`.

    alpha: of noise of their own alone. The group's a is the largest that one of them needs.
    """
    own = 1.0 / (1.0 + partners * square)
    honest = np.maximum(partners - terms.coalition, 0)
    promised = own * (1.0 + honest * square / (1.0 + square)) if terms.promised == "coalition" else own
    hidden = np.where(partners > 0, (1.0 - alpha) / alpha * rate**2 * own / promised, 0.0)
    number, short = np.arange(alpha.shape[1]) % max(groups, 1), np.zeros(alpha.shape, dtype=bool)
    for group in np.unique(number):
        members = number == group
        left = 1.0 / (1.0 + hidden[:, members].max(axis=1, keepdims=True) / (own * rate**2)[:, members])
        low = (partners[:, members] > 0) & (left < _least_alpha(run) * (1.0 + _ROUNDED))
        short[:, members] = low.any(axis=1, keepdims=True) & (partners[:, members] > 0)
    return short


def _least_alpha(run: Run) -> float:
    """power.alpha_min, or what `auto` means: 1e-3, and 1e-3 (100 / K)^2 above 100 nodes."""
    stated = run.scenario["power"]["alpha_min"]
    return 1e-3 * min(1.0, (100 / run.scenario["network"]["nodes"]) ** 2) if stated == "auto" else float(stated)


def _square(run: Run, own: FloatArray, partners: IntArray | None) -> float | None:
    """r^2: as the scenario fixes it, as the summary states it, or as the largest share of partners gives it."""
    stated: Any = run.scenario["privacy"]["pair_ratio"]
    if stated == "auto":
        stated = run.summary.get("pair_ratio")
    if stated is not None:
        return float(stated) ** 2
    if partners is None:
        return None
    found = (1.0 / own[partners > 0] - 1.0) / partners[partners > 0]
    return float(found.max(initial=0.0))
