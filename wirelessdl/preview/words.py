"""A previewed plan in words: what is promised against whom, what hides a sender, and what that takes."""

import math

from wirelessdl.preview.cancelling import PassCost
from wirelessdl.preview.plan import PlanPreview
from wirelessdl.privacy.terms import Terms
from wirelessdl.scenario.protection import PowerSection, PrivacySection
from wirelessdl.units import format_range, prefixed

EVERYONE = "everyone else, all nodes colluding"


def promise(terms: Terms, privacy: PrivacySection) -> str:
    """The promise as the scenario makes it: of the whole run, or of a slot."""
    if not terms.sends:
        return f"epsilon 0 for {terms.protects}: nothing is sent"
    if math.isfinite(privacy.epsilon_total):
        return (
            f"epsilon {privacy.epsilon_total:g} over the whole run at delta {privacy.delta_total:g} for "
            f"{terms.protects}, against {terms.adversary}"
        )
    if terms.counts_links:
        return f"epsilon_max {privacy.epsilon_max:g} per link and slot at delta {privacy.delta:g} for {terms.protects}"
    return (
        f"epsilon_max {privacy.epsilon_max:g} per slot at delta {privacy.delta:g} for {terms.protects}, against "
        f"{terms.adversary}"
    )


def cancelling(found: PlanPreview, power: PowerSection) -> dict[str, str]:
    """One fact per line on a promised total, noise that cancels, passes, messages, amplitudes; empty without any."""
    rows: dict[str, str] = {}
    if not found.terms.sends:
        return {"whole run": promise(found.terms, found.privacy)}
    private = found.plan.problem.private
    if private and (math.isfinite(found.privacy.epsilon_total) or not found.terms.counts_links):
        rows["one slot"] = _slot(found)
        rows["whole run"] = _whole(found)
    shared = found.protection.words(found.node_noise_std) if private else ""
    if shared:
        rows["pairs"] = shared
    if found.passes is not None:
        rows["passes"] = _passes(found.passes)
    if found.carry is not None:
        rows["messages"] = found.carry.words
    if power.balance == "partial" and found.joint is not None:
        given = "chosen for the least predicted error" if power.balance_exponent == "auto" else "as set"
        rows["amplitudes"] = (
            f"balanced by power to the exponent {found.joint.best.exponent:.3g} ({given}; 0: by receivers alone, 1: by "
            "power alone)"
        )
    if found.joint is not None:
        best = found.joint.best
        when = " before the closing passes" if found.passes is not None and found.passes.closing else " at the end"
        rows["predicted error"] = (
            f"variance {best.error:.3g} per coordinate of a node's model{when}: {best.mean:.3g} of the consensus, "
            f"{best.apart:.3g} of nodes from it"
        )
    return rows


def _slot(found: PlanPreview) -> str:
    plan, delta = found.plan, found.privacy.delta
    coalition = found.terms.promised == "coalition"
    promised = plan.epsilon_coalition if coalition else plan.epsilon_own
    words = (
        f"epsilon {format_range(promised)} by Theorem 1 at delta {delta:g} for {found.terms.protects}, against "
        f"{found.terms.adversary}"
    )
    count = found.terms.coalition
    if not count:
        return words
    other = (
        f"{format_range(plan.epsilon_own)} against {EVERYONE}"
        if coalition
        else f"{format_range(plan.epsilon_coalition)} against any {count} of them"
    )
    return f"{words}; {other}"


def _whole(found: PlanPreview) -> str:
    first = "; by the first frame's plan" if found.first_frame_only else ""
    words = (
        f"epsilon {totals(found.forecast)} at delta {found.privacy.delta_total:g} for {found.terms.protects}, against "
        f"{found.terms.adversary}"
    )
    if found.terms.promised == "coalition":
        words += f"; {totals(found.forecast_own)} against {EVERYONE}"
    return words + first


def totals(forecast: dict[str, float]) -> str:
    """Totals by accountant, the tightest first."""
    return ", ".join(f"{value:.3g} ({name})" for name, value in sorted(forecast.items(), key=lambda t: t[1]))


def _passes(cost: PassCost) -> str:
    closing = f"{cost.closing} more in the last round" if cost.passes else f"{cost.closing} in the last round"
    counts = [f"{cost.passes} after every payload"] if cost.passes else []
    counts += [closing] if cost.closing else []
    round_ms, passes_ms = 1e3 * cost.round_airtime_s, 1e3 * cost.round_passes_s
    return (
        f"{', '.join(counts)} ({cost.mixing}): {passes_ms:.3g} of {round_ms:.3g} ms on air a round, "
        f"{cost.airtime_passes_s:.3g} of {cost.airtime_s:.3g} s and at most {prefixed(cost.energy_passes_j, 'J')} of "
        f"{prefixed(cost.energy_j, 'J')} in the whole run; they cost no epsilon"
    )
