"""Pairwise noise: nodes on air also add noise that they share in pairs, and that cancels in the network.

    n_j = a u_j + sum_k b v_jk,   b = r a:     variance a^2 (1 + p_j r^2), p_j partners of node j

    own share         of that variance against all other nodes: a^2 alone
    coalition share   against any c nodes: a^2 (1 + (p_j - c) r^2 / (1 + r^2)), the one-hop bound of
                      `wirelessdl.privacy.coalition`, which has the proof; exact where every two nodes on air are
                      partners

    v_jk = -v_kj, drawn by both ends from a seed that they share, fresh in every round; u_j its own; all standard normal

All nodes that are joined by pairs have the same a: the largest that one of them needs, so that noise cancels and the
bound holds for each. Pairs come from the roster that the frame opens with, before anything is sent.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import numpy as np
from pydantic import Field, FiniteFloat

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.errors import InfeasiblePowerError
from wirelessdl.mechanism import Mechanism, Protection
from wirelessdl.scenario.section import Section, rule_text
from wirelessdl.units import format_range

if TYPE_CHECKING:
    from wirelessdl.learning.records import PairInput
    from wirelessdl.links import Links
    from wirelessdl.power.problem import PowerPlan
    from wirelessdl.scenario.protection import PrivacySection
    from wirelessdl.scenario.schema import Scenario
    from wirelessdl.trace.run import Run

COALITION = True
UNPAIRED = "nodes share no noise in this frame: with these partners it would leave a model less than alpha_min"
_AGREE = 1e-9  # of the same formula, written down as a number in between
_ROUNDED = 1e-9  # an alpha at its limit: the engine has it from other sums


class PairGroups(Section):
    """Pairs within groups: node k is in group k mod groups."""

    groups: Annotated[int, Field(ge=1, le=10**9)]


class Keys(Section):
    """Keys of [privacy] that pairwise noise reads."""

    pairs: Literal["all", "neighbours", "optimised"] | PairGroups = Field(
        "all",
        json_schema_extra=rule_text('must be "all", "neighbours", "optimised" or { groups = number of groups }'),
        description="Who shares noise, of the nodes on air. all: every two; neighbours: those with a link; optimised: "
        "those with a link, each pair as much as leaves the least predicted error; "
        "{ groups = g }: every two of the same of g groups.",
    )
    pair_ratio: Literal["auto"] | Annotated[FiniteFloat, Field(ge=0, le=100)] = Field(
        "auto",
        json_schema_extra=rule_text('must be "auto" or a number from 0 to 100'),
        description="Deviation of the noise that a pair shares over that of a node's own; auto: with the least "
        "predicted error.",
    )


def refuse(scenario: "Scenario") -> None:
    """Pairwise-cancelling noise is proven under the hardened protocol, for senders that nobody else's noise hides."""
    privacy, nodes = scenario.privacy, scenario.network.nodes
    if scenario.alone:
        alone = "network.nodes 1" if nodes == 1 else 'network.topology "none"'
        raise ValueError(
            f'privacy.noise is "pairwise" with {alone}; nothing is sent, and nobody to share noise with: set noise = '
            '"independent"'
        )
    if privacy.protocol == "paper":
        raise ValueError(
            'privacy.noise is "pairwise" under privacy.protocol "paper"; what it hides is proven for the hardened '
            'protocol only: set protocol = "hardened"'
        )
    if scenario.power.objective != "own-noise":
        raise ValueError(
            f'privacy.noise is "pairwise" under power.objective "{scenario.power.objective}"; a linear program counts '
            'on noise of others that now cancels: set objective = "own-noise"'
        )
    if privacy.coalition < 1:
        raise ValueError(
            "privacy.coalition is 0 with pairwise noise; a curious receiver is a coalition of one, and knows its own "
            "part of the noise: set at least 1"
        )
    if privacy.coalition > nodes - 1:
        raise ValueError(
            f"privacy.coalition is {privacy.coalition}; there are {nodes - 1} other nodes: lower it, or use noise = "
            '"independent", which protects against all of them'
        )
    if privacy.credit_thermal:
        raise ValueError(
            "privacy.credit_thermal is true with pairwise noise; links are not accounted for there: set it to false"
        )


@dataclass(frozen=True)
class PairSettings:
    """pairs: all nodes on air, those with a link, or those of the same of so many groups. ratio: r = b / a.

    was_chosen: whether the ratio was left to the first plan.
    """

    pairs: Literal["all", "neighbours", "optimised"] | int
    ratio: float
    coalition: int
    promised: Literal["own", "coalition"]
    was_chosen: bool = False

    def least_own(self, nodes: int) -> float:
        """Own variance over the variance that must stay hidden, at least, whoever is on air of so many nodes."""
        if self.promised == "own":
            return 1.0
        partners = nodes - 1 if isinstance(self.pairs, str) else -(-nodes // self.pairs) - 1
        if self.pairs == "optimised":  # no term of the bound is above 1
            return 1.0 / (1.0 + max(partners - self.coalition, 0))
        square = self.ratio**2
        return 1.0 / (1.0 + max(partners - self.coalition, 0) * square / (1.0 + square))


@dataclass(frozen=True, eq=False)
class Roster:
    """The pairs of one frame.

    on_air: [K]. group: [K] nodes of one group are all partners, -1 for none; None where pairs are listed. low, high:
    [pairs] listed pairs. joined: [K] nodes with the same number are joined by pairs.
    """

    terms: PairSettings
    on_air: BoolArray
    partners: IntArray
    joined: IntArray
    group: IntArray | None
    low: IntArray
    high: IntArray
    ratio: FloatArray | None = None  # of each listed pair, where pairs differ

    @cached_property
    def own_share(self) -> FloatArray:
        """Share of each node's noise variance that is its own, `[K]`."""
        if self.ratio is not None:
            shared = [np.bincount(end, self.ratio**2, minlength=len(self.on_air)) for end in (self.low, self.high)]
            return np.asarray(1.0 / (1.0 + shared[0] + shared[1]))
        return np.asarray(1.0 / (1.0 + self.partners * self.terms.ratio**2))

    @cached_property
    def coalition_share(self) -> FloatArray:
        """Share of each node's noise variance that hides it from the coalition, `[K]`."""
        from wirelessdl.privacy.coalition import coalition_variance_of_pairs, group_variance

        if self.ratio is not None:
            ends = np.ones(len(self.on_air)), self.low, self.high, self.ratio
            return coalition_variance_of_pairs(*ends, self.terms.coalition) * self.own_share
        return group_variance(1.0, self.terms.ratio, self.partners + 1, self.terms.coalition) * self.own_share

    def noise(self, deviation: FloatArray) -> "PairInput":
        """What the learning engine draws. deviation: [K] of all noise that each node sends."""
        from wirelessdl.learning.records import PairInput

        own = np.where(self.on_air, deviation * np.sqrt(self.own_share), 0.0)
        # equal among all that are joined but for the last bit, which would not cancel
        most = np.zeros(2 * len(own))
        np.maximum.at(most, self.joined, own)
        own = np.where(self.on_air, most[self.joined], 0.0)
        ratio = self.terms.ratio if self.ratio is None else self.ratio
        pair = ratio * (most[self.joined] if self.group is not None else most[self.joined[self.low]])
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
            ratio=None if self.ratio is None else self.ratio[kept],
        )

    @property
    def promised_share(self) -> FloatArray:
        return self.coalition_share if self.terms.promised == "coalition" else self.own_share


@dataclass(frozen=True, eq=False, kw_only=True)
class PairProtection(Protection):
    """The pairs of a frame, and the plan with their noise."""

    roster: Roster

    def noise(self, deviation: FloatArray) -> "PairInput | None":
        return self.roster.noise(deviation)

    def facts(self) -> dict[str, Any]:
        roster, terms = self.roster, self.roster.terms
        return {
            "pairs": terms.pairs if isinstance(terms.pairs, str) else {"groups": terms.pairs},
            "pair_ratio": terms.ratio,
            "coalition": terms.coalition,
            "partners": roster.partners.tolist(),
            "own_share": roster.own_share.tolist(),
            "coalition_share": roster.coalition_share.tolist(),
        }

    def words(self, deviation: FloatArray) -> str:
        roster, terms = self.roster, self.roster.terms
        linked = "nodes with a link"
        who = {"all": "every two nodes on air", "neighbours": linked, "optimised": linked}.get(
            str(terms.pairs), f"every two nodes of the same of {terms.pairs} groups"
        )
        given = "chosen for the least predicted error" if terms.was_chosen else "as set"
        ratio = f"{terms.ratio:.3g}"
        if roster.ratio is not None:
            ratio, given = format_range(roster.ratio), "optimised over the graph"
        return (
            f"{who} share noise, {format_range(roster.partners)} partners a node; pair ratio {ratio} "
            f"({given}), coalition {terms.coalition}; a node sends noise of {format_range(deviation)} per coordinate "
            f"in round 1, of which {format_range(deviation * np.sqrt(roster.own_share))} its own"
        )


class Member(Mechanism):
    """Pairs of the nodes on air."""

    def __init__(self, privacy: "PrivacySection"):
        keys = cast(Keys, privacy)
        pairs = keys.pairs.groups if isinstance(keys.pairs, PairGroups) else keys.pairs
        self.coalition = privacy.coalition
        self.draws_pairs = pairs in ("neighbours", "optimised")  # within groups one draw per node has the same law
        self.ratio = None if keys.pair_ratio == "auto" else keys.pair_ratio
        self.ratio = 0.0 if pairs == "optimised" else self.ratio
        self.terms = PairSettings(pairs, 0.0, privacy.coalition, privacy.promised, was_chosen=self.ratio is None)

    def chosen(self, ratio: float) -> "Member":
        found = copy(self)
        found.terms = replace(self.terms, ratio=ratio)
        return found

    def partners(self, links: "Links") -> int:
        return int(roster_of(self.terms, np.ones(links.nodes, dtype=bool), links).partners.min())

    def protect(self, plan: "PowerPlan", on_air: BoolArray, links: "Links", sigma: FloatArray) -> PairProtection:
        return with_pairs(plan, roster_of(self.terms, on_air, links), sigma)

    def protect_groups(
        self, plan: "PowerPlan", on_air: BoolArray, links: "Links", sigma: FloatArray, component: IntArray
    ) -> PairProtection:
        return with_pairs(plan, roster_of(self.terms, on_air, links, component), sigma)

    def feasibility(self, plan: "PowerPlan", links: "Links") -> str:
        terms = self.terms
        require_room(plan, roster_of(terms, np.ones(links.nodes, dtype=bool), links))
        most = links.nodes if isinstance(terms.pairs, str) else -(-links.nodes // terms.pairs)
        fewest = fewest_with_room(plan, terms, most)
        if not fewest or terms.pairs in ("neighbours", "optimised"):
            return ""
        of_group = "" if terms.pairs == "all" else " of a group"
        return (
            f"with fewer than {fewest} of {most} nodes{of_group} on air, pairs would leave models less than alpha_min: "
            "own noise alone then"
        )

    def least_own(self, nodes: int) -> float:
        return self.terms.least_own(nodes)

    def figures(self) -> dict[str, Any]:
        return {"pair_ratio": self.terms.ratio}

    def warnings(self, notes: Sequence[str]) -> Iterator[str]:
        count = sum(note.endswith(UNPAIRED) for note in notes)
        if count:
            yield (
                f"pairs of nodes shared no noise in {count} frames, where it would have left models less than "
                "power.alpha_min of the power: own noise alone hid them, which does not cancel; lower power.alpha_min, "
                "privacy.pair_ratio or privacy.coalition"
            )


def roster_of(terms: PairSettings, on_air: BoolArray, links: "Links", component: IntArray | None = None) -> Roster:
    """The pairs among those on air, `[K]`; none where the coalition may hold all partners of all: they hide nothing.

    component: [K] only nodes with the same number meet in a mean, so only they share noise; None: all do.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    nodes, nothing = len(on_air), np.zeros(0, dtype=np.int64)
    if terms.pairs == "neighbours" or terms.pairs == "optimised":
        pairs, ratio = links.pairs, None
        both = on_air[pairs.low] & on_air[pairs.high]
        low, high = pairs.low[both], pairs.high[both]
        if terms.pairs == "optimised":
            from wirelessdl.mechanism.optimised import ratios

            ratio = ratios(nodes, low, high, terms.coalition)
            low, high, ratio = low[ratio > 0], high[ratio > 0], ratio[ratio > 0]
        partners = np.bincount(low, minlength=nodes) + np.bincount(high, minlength=nodes)
        graph = csr_array((np.ones(len(low)), (low, high)), shape=(nodes, nodes))
        joined = connected_components(graph, directed=False)[1].astype(np.int64)
        most = np.zeros(nodes, dtype=np.int64)
        np.maximum.at(most, joined, partners)
        useful = most[joined] > terms.coalition
        low, high, ratio = low[useful[low]], high[useful[low]], None if ratio is None else ratio[useful[low]]
        joined = np.where(useful, joined, nodes + np.arange(nodes))
        return Roster(terms, on_air, np.where(useful, partners, 0), joined, None, low, high, ratio)
    groups = 1 if terms.pairs == "all" else terms.pairs
    group = np.arange(nodes) % groups
    if component is not None:
        # from 0 without gaps: numbers from `nodes` on are those of nodes without partners
        group = np.unique(np.where(on_air, component, 0) * groups + group, return_inverse=True)[1]
        groups = nodes
    size = np.bincount(group[on_air], minlength=groups)
    paired = on_air & (size[group] - 1 > terms.coalition)
    partners = np.where(paired, size[group] - 1, 0)
    joined = np.where(paired, group, nodes + np.arange(nodes))
    return Roster(terms, on_air, partners, joined, np.where(paired, group, -1), nothing, nothing)


def with_pairs(plan: "PowerPlan", roster: Roster, sigma: FloatArray) -> PairProtection:
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
    )
    return PairProtection(paired, f"{apart} {UNPAIRED}" if apart else "", roster=formed)


def require_room(plan: "PowerPlan", roster: Roster) -> None:
    """Raise, naming the node, where pairs of equal senders leave a model less than alpha_min."""
    alpha = np.where(roster.partners > 0, _paired_alpha(plan, roster, np.ones(len(plan.alpha))), 1.0)
    worst = int(np.argmin(alpha))
    if alpha[worst] < plan.problem.alpha_min:
        raise InfeasiblePowerError(
            f"pairwise noise leaves node {worst} a share alpha of {alpha[worst]:.3g} for its model, below alpha_min="
            f"{plan.problem.alpha_min:g}; raise epsilon or rho, or lower alpha_min, pair_ratio or coalition"
        )


def fewest_with_room(plan: "PowerPlan", terms: PairSettings, nodes: int) -> int:
    """Nodes of a group on air, of so many, from which on its pairs leave all models alpha_min; 0 where any number does.

    Senders that carry gradients of equal learning rates. Against a coalition few partners take more noise than many.
    """
    from wirelessdl.privacy.coalition import group_variance

    partners = np.arange(terms.coalition + 1, nodes)
    if terms.promised == "own" or not len(partners):
        return 0
    sent = (1.0 + partners * terms.ratio**2) / group_variance(1.0, terms.ratio, partners + 1, terms.coalition)
    short = 1.0 / (1.0 + float(np.max(plan.beta / plan.alpha)) * sent) < plan.problem.alpha_min
    return int(partners[short].max(initial=-2)) + 2


def _paired_alpha(plan: "PowerPlan", roster: Roster, sigma: FloatArray) -> FloatArray:
    """Share of power that the noise of pairs leaves each model, `[K]`."""
    needed = np.where(roster.on_air, plan.beta / plan.alpha * sigma**2, 0.0)  # variance that must stay hidden
    own = needed * roster.own_share / roster.promised_share
    most = np.zeros(2 * len(own))
    np.maximum.at(most, roster.joined, own)
    ratio = most[roster.joined] / (roster.own_share * sigma**2)
    return np.where(roster.on_air, 1.0 / (1.0 + ratio), plan.alpha)


def recount(run: "Run", coalition: int, *, promised_coalition: bool) -> Iterator[str]:
    """What is wrong with the shares of noise in a run's tables, one line each: they decide what the ledger charges.

    A group whose other nodes on air may all collude forms no pairs, nor does one whose pairs would leave a model less
    than alpha_min of the power: both are computed again here, the latter from alpha and learning rates of what was
    sent. With pairs of neighbours p is not traced: it must be a whole number, at most that of the others on air, which
    needs r. Under an access that joins only some nodes, pairs are within a component.
    """
    count = run.scenario["network"]["nodes"]
    columns = ["round", "transmitted", "own_share", "coalition_share", "alpha", "sent_learning_rate", "component"]
    nodes = run.frame("nodes", columns)
    own, hidden = (nodes[name].to_numpy().reshape(-1, count) for name in ("own_share", "coalition_share"))
    if not ((own > 0) & (own <= hidden) & (hidden <= 1.0)).all():
        yield "nodes: own_share and coalition_share are out of order; must be 0 < own_share <= coalition_share <= 1"
        return
    on_air = nodes["transmitted"].to_numpy().astype(bool).reshape(-1, count)
    pairs, partners = run.scenario["privacy"]["pairs"], None
    if pairs == "optimised":  # their ratios follow from graphs, which tables need not hold
        most = np.maximum(on_air.sum(axis=1, keepdims=True) - 1 - coalition, 0)
        if (hidden > own * (1.0 + most) * (1.0 + _AGREE)).any():
            yield "nodes: coalition_share is more than so many partners on air can give"
        return
    component = nodes["component"].to_numpy(dtype=np.float64, na_value=np.nan).reshape(-1, count)
    radio = run.scenario["radio"]
    in_components = radio["access"] == "oac" and radio.get("alignment") in ("hubs", "server")
    if in_components and not np.isfinite(component[on_air]).all():
        yield "nodes: component is null where a node was on air; it names the nodes that hubs or the server could join"
        return
    group = np.tile(np.arange(count) % (1 if isinstance(pairs, str) else int(pairs["groups"])), (len(own), 1))
    if in_components:  # numbers of nodes that are not on air mean nothing
        group = group + count * np.where(on_air, component, 0).astype(np.int64)
    group = np.unique(group + np.arange(len(own))[:, None] * (group.max(initial=0) + 1), return_inverse=True)[1]
    group = group.reshape(own.shape)
    if pairs != "neighbours":
        partners = _partners(on_air, group, coalition)
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
        rate = _learning_rates(run, nodes["round"].to_numpy(), nodes["sent_learning_rate"].to_numpy()).reshape(
            -1, count
        )
        short = _without_room(
            run,
            coalition,
            promised_coalition,
            nodes["alpha"].to_numpy().reshape(-1, count),
            rate,
            partners,
            square,
            group,
        )
        partners = np.where((own == 1.0) & short, 0, partners)
    if not np.allclose(own, 1.0 / (1.0 + partners * square), rtol=_AGREE):
        yield "nodes: own_share does not follow from who was on air"
    honest = np.maximum(partners - coalition, 0)
    if not np.allclose(hidden, own * (1.0 + honest * square / (1.0 + square)), rtol=_AGREE):
        yield "nodes: coalition_share does not follow from own_share and privacy.coalition"


def _partners(on_air: BoolArray, group: IntArray, coalition: int) -> IntArray:
    """Others on air of the same group, `[rounds, K]`; 0 if silent, or if all may be in the coalition."""
    others = np.bincount(group[on_air], minlength=int(group.max(initial=-1)) + 1)[group] - 1
    return np.where(on_air & (others > coalition), others, 0)


def _learning_rates(run: "Run", round: IntArray, sent: FloatArray) -> FloatArray:
    """Learning rate that the noise of each row follows: of the gradient that was sent, else of the round."""
    rounds = run.frame("rounds", ["round", "learning_rate"])
    rate = rounds["learning_rate"].to_numpy()[np.searchsorted(rounds["round"].to_numpy(), round)]
    return np.where(sent > 0, sent, rate)


def _without_room(
    run: "Run",
    coalition: int,
    promised_coalition: bool,
    alpha: FloatArray,
    rate: FloatArray,
    partners: IntArray,
    square: float,
    group: IntArray,
) -> BoolArray:
    """Nodes of groups whose pairs would leave one of them less than alpha_min, had they been formed, `[rounds, K]`.

    alpha: of noise of their own alone. The group's a is the largest that one of them needs. group: numbers that no two
    rounds have in common.
    """
    own = 1.0 / (1.0 + partners * square)
    honest = np.maximum(partners - coalition, 0)
    promised = own * (1.0 + honest * square / (1.0 + square)) if promised_coalition else own
    hidden = np.where(partners > 0, (1.0 - alpha) / alpha * rate**2 * own / promised, 0.0)
    paired, most = partners > 0, np.zeros(int(group.max(initial=-1)) + 1)
    np.maximum.at(most, group, hidden)
    left = 1.0 / (1.0 + most[group] / (own * rate**2))
    short = np.zeros(len(most), dtype=bool)
    short[group[paired & (left < _least_alpha(run) * (1.0 + _ROUNDED))]] = True
    return np.asarray(short[group] & paired)


def _least_alpha(run: "Run") -> float:
    """power.alpha_min, or what `auto` means: 1e-3, and 1e-3 (100 / K)^2 above 100 nodes."""
    stated = run.scenario["power"]["alpha_min"]
    return 1e-3 * min(1.0, (100 / run.scenario["network"]["nodes"]) ** 2) if stated == "auto" else float(stated)


def _square(run: "Run", own: FloatArray, partners: IntArray | None) -> float | None:
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
