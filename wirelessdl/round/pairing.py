"""Pairs of a frame: who shares noise with whom, how much noise that takes, and what it hides from whom.

    n_j = a u_j + sum_k b v_jk,   b = r a:     variance a^2 (1 + p_j r^2), p_j partners of node j

    own share         of that variance against everyone: a^2 alone
    coalition share   against any c nodes: a^2 (1 + (p_j - c) r^2 / (1 + r^2)), the one-hop bound of
                      `wirelessdl.privacy.coalition`; exact where every two nodes on air are partners

All nodes that are joined by pairs have the same a: the largest that one of them needs, so that noise cancels and the
bound holds for each. Pairs come from the roster that the frame opens with, before anything is sent.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.errors import InfeasiblePowerError
from wirelessdl.learning.records import PairInput
from wirelessdl.links import Links
from wirelessdl.power.problem import PowerPlan
from wirelessdl.privacy.coalition import group_variance

UNPAIRED = "nodes share no noise in this frame: with these partners it would leave a model less than alpha_min"


@dataclass(frozen=True)
class PairTerms:
    """pairs: all nodes on air, those with a link, or those of the same of so many groups. ratio: r = b / a."""

    pairs: Literal["all", "neighbours"] | int
    ratio: float
    coalition: int
    promised: Literal["own", "coalition"]

    def least_own(self, nodes: int) -> float:
        """Own variance over the variance that must stay hidden, at least, whoever is on air of so many nodes."""
        if self.promised == "own":
            return 1.0
        partners = nodes - 1 if isinstance(self.pairs, str) else -(-nodes // self.pairs) - 1
        square = self.ratio**2
        return 1.0 / (1.0 + max(partners - self.coalition, 0) * square / (1.0 + square))


@dataclass(frozen=True, eq=False)
class Roster:
    """The pairs of one frame.

    on_air: [K]. group: [K] nodes of one group are all partners, -1 for none; None where pairs are listed. low, high:
    [pairs] listed pairs. joined: [K] nodes with the same number are joined by pairs.
    """

    terms: PairTerms
    on_air: BoolArray
    partners: IntArray
    joined: IntArray
    group: IntArray | None
    low: IntArray
    high: IntArray

    @cached_property
    def own_share(self) -> FloatArray:
        """Share of each node's noise variance that is its own, `[K]`."""
        return np.asarray(1.0 / (1.0 + self.partners * self.terms.ratio**2))

    @cached_property
    def coalition_share(self) -> FloatArray:
        """Share of each node's noise variance that hides it from the coalition, `[K]`."""
        return group_variance(1.0, self.terms.ratio, self.partners + 1, self.terms.coalition) * self.own_share

    def noise(self, deviation: FloatArray) -> PairInput:
        """What the learning engine draws. deviation: [K] of all noise that each node sends."""
        own = np.where(self.on_air, deviation * np.sqrt(self.own_share), 0.0)
        # equal among all that are joined but for the last bit, which would not cancel
        most = np.zeros(2 * len(own))
        np.maximum.at(most, self.joined, own)
        own = np.where(self.on_air, most[self.joined], 0.0)
        pair = self.terms.ratio * (most[self.joined] if self.group is not None else most[self.joined[self.low]])
        return PairInput(own, pair, self.on_air, self.group, self.low, self.high)

    def without(self, nodes: BoolArray) -> "Roster":
        """The pairs of all others: these nodes, `[K]`, and all that are joined with them, share no noise."""
        apart = np.isin(self.joined, self.joined[nodes])
        kept = ~apart[self.low]
        return replace(
            self,
            partners=np.where(apart, 0, self.partners),
            joined=np.where(apart, len(apart) + np.arange(len(apart)), self.joined),
            group=None if self.group is None else np.where(apart, -1, self.group),
            low=self.low[kept],
            high=self.high[kept],
        )

    @property
    def promised_share(self) -> FloatArray:
        return self.coalition_share if self.terms.promised == "coalition" else self.own_share


def roster_of(terms: PairTerms, on_air: BoolArray, links: Links) -> Roster:
    """The pairs among those on air, `[K]`; none where the coalition may hold all partners of all: they hide nothing."""
    nodes, nothing = len(on_air), np.zeros(0, dtype=np.int64)
    if terms.pairs == "neighbours":
        pairs = links.pairs
        both = on_air[pairs.low] & on_air[pairs.high]
        low, high = pairs.low[both], pairs.high[both]
        partners = np.bincount(low, minlength=nodes) + np.bincount(high, minlength=nodes)
        graph = csr_array((np.ones(len(low)), (low, high)), shape=(nodes, nodes))
        joined = connected_components(graph, directed=False)[1].astype(np.int64)
        most = np.zeros(nodes, dtype=np.int64)
        np.maximum.at(most, joined, partners)
        useful = most[joined] > terms.coalition
        low, high = low[useful[low]], high[useful[low]]
        joined = np.where(useful, joined, nodes + np.arange(nodes))
        return Roster(terms, on_air, np.where(useful, partners, 0), joined, None, low, high)
    groups = 1 if terms.pairs == "all" else terms.pairs
    group = np.arange(nodes) % groups
    size = np.bincount(group[on_air], minlength=groups)
    paired = on_air & (size[group] - 1 > terms.coalition)
    partners = np.where(paired, size[group] - 1, 0)
    joined = np.where(paired, group, nodes + np.arange(nodes))
    return Roster(terms, on_air, partners, joined, np.where(paired, group, -1), nothing, nothing)


def with_pairs(plan: PowerPlan, roster: Roster, sigma: FloatArray) -> tuple[PowerPlan, Roster]:
    """The plan with the noise of pairs, and the pairs: a from what each sender needs by itself. sigma: [K] of eta.

    Few partners, or one that carries an older gradient, may take more noise than alpha_min leaves room for. Such pairs
    are not formed: own noise alone, which the plan has room for, then hides as much. Rosters, gains and learning rates
    decide that, and nothing that depends on data.
    """
    short = (roster.partners > 0) & (_paired_alpha(plan, roster, sigma) < plan.problem.alpha_min)
    formed = roster.without(short) if short.any() else roster
    apart = int(((roster.partners > 0) & (formed.partners == 0)).sum())
    paired = replace(
        plan,
        alpha=_paired_alpha(plan, formed, sigma),
        own_share=formed.own_share,
        coalition_share=formed.coalition_share,
        notes=(*plan.notes, *([f"{apart} {UNPAIRED}"] if apart else [])),
    )
    return paired, formed


def require_room(plan: PowerPlan, roster: Roster) -> None:
    """Raise, naming the node, where pairs of equal senders leave a model less than alpha_min."""
    alpha = np.where(roster.partners > 0, _paired_alpha(plan, roster, np.ones(len(plan.alpha))), 1.0)
    worst = int(np.argmin(alpha))
    if alpha[worst] < plan.problem.alpha_min:
        raise InfeasiblePowerError(
            f"pairwise noise leaves node {worst} a share alpha of {alpha[worst]:.3g} for its model, below alpha_min="
            f"{plan.problem.alpha_min:g}; raise epsilon or rho, or lower alpha_min, pair_ratio or coalition"
        )


def fewest_with_room(plan: PowerPlan, terms: PairTerms, nodes: int) -> int:
    """Nodes of a group on air, of so many, from which on its pairs leave all models alpha_min; 0 where any number does.

    Senders that carry gradients of equal learning rates. Against a coalition few partners take more noise than many.
    """
    partners = np.arange(terms.coalition + 1, nodes)
    if terms.promised == "own" or not len(partners):
        return 0
    sent = (1.0 + partners * terms.ratio**2) / group_variance(1.0, terms.ratio, partners + 1, terms.coalition)
    short = 1.0 / (1.0 + float(np.max(plan.beta / plan.alpha)) * sent) < plan.problem.alpha_min
    return int(partners[short].max(initial=-2)) + 2


def _paired_alpha(plan: PowerPlan, roster: Roster, sigma: FloatArray) -> FloatArray:
    """Share of power that the noise of pairs leaves each model, `[K]`."""
    needed = np.where(roster.on_air, plan.beta / plan.alpha * sigma**2, 0.0)  # variance that must stay hidden
    own = needed * roster.own_share / roster.promised_share
    most = np.zeros(2 * len(own))
    np.maximum.at(most, roster.joined, own)
    ratio = most[roster.joined] / (roster.own_share * sigma**2)
    return np.where(roster.on_air, 1.0 / (1.0 + ratio), plan.alpha)
