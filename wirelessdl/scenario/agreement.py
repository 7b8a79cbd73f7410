"""What sections of a scenario say about each other: combinations that prove nothing, or make no sense, are refused."""

import math
from typing import TYPE_CHECKING

from wirelessdl.families import Family, member

if TYPE_CHECKING:
    from wirelessdl.scenario.schema import Scenario


def require_agreement(scenario: "Scenario") -> None:
    """Raise a ValueError, with the keys and a remedy, for the first two that do not go together."""
    _require_target(scenario)
    _require_talk(scenario)
    _require_members(scenario)
    _require_passes(scenario)
    if scenario.privacy.protocol == "paper" and scenario.privacy.clipping == "per-sample":
        raise ValueError(
            'privacy.clipping is "per-sample" under privacy.protocol "paper"; its sensitivity 2C/B does not hold '
            'there: use clipping = "batch", or protocol = "hardened"'
        )
    if (
        scenario.privacy.unit == "node"
        and scenario.learning.sampling == "poisson"
        and scenario.privacy.clipping != "batch"
    ):
        raise ValueError(
            'privacy.unit is "node" under learning.sampling "poisson" and per-sample clipping; a batch may then '
            'hold any number of samples, and nothing bounds what a node adds: use clipping = "batch", or '
            '"without-replacement"'
        )
    if scenario.privacy.credit_thermal and scenario.radio.use_full_power:
        raise ValueError(
            "radio.use_full_power is true under privacy.credit_thermal; scaling transmissions up drowns the "
            "thermal noise that is credited: set one of them to false"
        )
    alpha_min = scenario.power.least_alpha(scenario.network.nodes)
    if alpha_min >= 1.0 - scenario.power.beta_min:
        raise ValueError(
            f"power.alpha_min is {alpha_min:g}; must be below 1 - power.beta_min, which is "
            f"{1.0 - scenario.power.beta_min:g}: lower either"
        )
    if math.isfinite(scenario.radio.interference_cutoff_db) and scenario.radio.interference == "none":
        raise ValueError(
            f"radio.interference_cutoff_db is {scenario.radio.interference_cutoff_db:g} with radio.interference "
            '"none"; there are no strangers to neglect: set interference = "physical", or leave it at inf'
        )
    _require_condition(scenario)
    _require_aligned(scenario)
    if scenario.power.multiplier == "balanced" and not scenario.power.balance:
        raise ValueError(
            'power.multiplier is "balanced" while power.balance is false; set balance = "receiver" or "power", '
            'or multiplier = "auto"'
        )


def _require_target(scenario: "Scenario") -> None:
    """Noise follows from one number: epsilon of a slot, or of the run."""
    privacy = scenario.privacy
    if not {"epsilon_max", "epsilon_total"} & privacy.model_fields_set:
        raise ValueError("missing key privacy.epsilon_max; add it, or epsilon_total")
    if not math.isfinite(privacy.epsilon_total):
        return
    if math.isfinite(privacy.epsilon_max):
        raise ValueError(
            f"privacy.epsilon_total is {privacy.epsilon_total:g} and epsilon_max {privacy.epsilon_max:g}; one follows "
            "from the other: keep one of them"
        )
    if privacy.protocol == "paper" or scenario.power.objective != "own-noise":
        key, value = (
            ("privacy.protocol", privacy.protocol)
            if privacy.protocol == "paper"
            else ("power.objective", scenario.power.objective)
        )
        raise ValueError(
            f'privacy.epsilon_total is {privacy.epsilon_total:g} under {key} "{value}"; only the total of hardened '
            'transmissions behind their senders\' own noise is proven: set protocol = "hardened" and objective = '
            '"own-noise", or use epsilon_max'
        )
    if scenario.scenario.rounds < 2:
        raise ValueError(
            f"privacy.epsilon_total is {privacy.epsilon_total:g} with rounds = {scenario.scenario.rounds}; the first "
            "round sends no gradient, so nothing is ever charged: use at least 2 rounds"
        )


def _require_talk(scenario: "Scenario") -> None:
    """Who sends nothing has nothing to pass on."""
    if not scenario.silent:
        return
    alone = "network.nodes 1" if scenario.network.nodes == 1 else 'network.topology "none"'
    for key, count in (
        ("radio.mixing_passes", scenario.radio.mixing_passes),
        ("learning.closing_passes", scenario.learning.closing_passes),
    ):
        if count:
            raise ValueError(f"{key} is {count} with {alone}; nothing is sent, and nothing passed on: set it to 0")


def _require_members(scenario: "Scenario") -> None:
    """What mechanism, access and update refuse."""
    update = scenario.learning.update.name
    if update != "sgd" and scenario.privacy.protocol == "paper":
        raise ValueError(
            f'learning.update is "{update}" under privacy.protocol "paper"; there the gradient is taken at a model '
            'that was never sent: set protocol = "hardened"'
        )
    parts: tuple[tuple[Family, str], ...] = (
        ("mechanism", scenario.privacy.noise.name),
        ("access", scenario.radio.access.name),
        ("update", scenario.learning.update.name),
    )
    for family, name in parts:
        module = member(family, name)
        if module is not None:
            module.refuse(scenario)


def _require_passes(scenario: "Scenario") -> None:
    """Passes send what was received on: post-processing of noisy transmissions, and only of those."""
    if not (scenario.radio.mixing_passes or scenario.learning.closing_passes):
        return
    key = "radio.mixing_passes" if scenario.radio.mixing_passes else "learning.closing_passes"
    count = scenario.radio.mixing_passes or scenario.learning.closing_passes
    if scenario.power.objective != "own-noise":
        raise ValueError(
            f'{key} is {count} under power.objective "{scenario.power.objective}"; a linear program hides a sender '
            "behind what one receiver hears in one slot, and passes hand that on to everyone: set objective = "
            '"own-noise"'
        )
    if scenario.privacy.protocol == "paper":
        raise ValueError(
            f'{key} is {count} under privacy.protocol "paper"; there the gradient is taken at a model that was never '
            'sent: set protocol = "hardened"'
        )
    if scenario.power.balance in ("power", False) or scenario.power.multiplier in ("product", "mean", "windowed"):
        raise ValueError(
            f"{key} is {count} without receiver balancing; z follows one averaging, not a row of them: set balance = "
            '"receiver" or "partial", and leave multiplier at "auto"'
        )
    if scenario.learning.closing_passes and scenario.learning.stop_after:
        raise ValueError(
            f"learning.closing_passes is {scenario.learning.closing_passes} with learning.stop_after "
            f"{scenario.learning.stop_after}; that a round is the last is known only after its passes: set either to 0"
        )
    if scenario.privacy.credit_thermal:
        raise ValueError(f"{key} is {count} under privacy.credit_thermal; links are not accounted for: set it to false")


def _require_aligned(scenario: "Scenario") -> None:
    """Aligned senders hide behind each other in one slot, and back off as alignment says."""
    if scenario.power.allocator.name != "aligned" or scenario.silent:
        return
    passes = scenario.radio.mixing_passes or scenario.learning.closing_passes
    noise, access = scenario.privacy.noise.name, scenario.radio.access.name
    clashes = (
        (math.isfinite(scenario.privacy.epsilon_total), "privacy.epsilon_total", "use epsilon_max"),
        (noise != "independent", f'privacy.noise "{noise}"', 'set noise = "independent"'),
        (bool(passes), "mixing or closing passes", "set them to 0"),
        (access != "oac", f'radio.access "{access}"', 'set access = "oac"'),
    )
    for there, what, remedy in clashes:
        if there:
            raise ValueError(
                f'power.allocator is "aligned" with {what}; aligned senders hide behind what one receiver hears of all '
                f'of them in one slot: {remedy}, or allocator = "lp"'
            )
    if scenario.power.balance in ("power", "partial"):
        raise ValueError(
            f'power.balance is "{scenario.power.balance}" with power.allocator "aligned"; powers follow from alignment '
            'alone: set balance = false, or "receiver"'
        )


def _require_condition(scenario: "Scenario") -> None:
    """A map decides on lines of sight alone, and only sidelink models know vehicles."""
    rule = scenario.channel.condition
    if rule != "auto" and scenario.network.map.name != "none":
        raise ValueError(
            f'channel.condition is "{rule}" with a network.map; the map decides which links have a line of sight: '
            'leave it at "auto", or remove the map'
        )
    if rule == "nlosv" and not any(part.name.startswith("sidelink-") for part in scenario.channel.models):
        raise ValueError(
            'channel.condition is "nlosv"; only sidelink models know vehicles in the way: use "nlos", or '
            'model = "sidelink-urban"'
        )
