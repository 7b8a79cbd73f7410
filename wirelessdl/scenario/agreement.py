"""What sections of a scenario say about each other: combinations that prove nothing, or make no sense, are refused."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wirelessdl.scenario.schema import Scenario


def require_agreement(scenario: "Scenario") -> None:
    """Raise a ValueError, with the keys and a remedy, for the first two that do not go together."""
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
    if scenario.power.alpha_min >= 1.0 - scenario.power.beta_min:
        raise ValueError(
            f"power.alpha_min is {scenario.power.alpha_min:g}; must be below 1 - power.beta_min, which is "
            f"{1.0 - scenario.power.beta_min:g}: lower either"
        )
    _require_condition(scenario)
    _require_access(scenario)
    if scenario.power.multiplier == "balanced" and not scenario.power.balance:
        raise ValueError(
            'power.multiplier is "balanced" while power.balance is false; set balance = "receiver" or "power", '
            'or multiplier = "auto"'
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


def _require_access(scenario: "Scenario") -> None:
    """Senders that are heard alone hide behind their own noise, and Metropolis weights need no balancing."""
    if scenario.radio.access == "oac":
        return
    if scenario.power.objective != "own-noise":
        raise ValueError(
            f'power.objective is "{scenario.power.objective}" under radio.access "tdma"; a sender that is heard alone '
            'hides behind its own noise only: set objective = "own-noise"'
        )
    if scenario.power.balance != "receiver":
        raise ValueError(
            f'power.balance is {scenario.power.balance!r} under radio.access "tdma"; Metropolis weights are doubly '
            'stochastic as they are: leave it at "receiver"'.replace("False", "false")
        )
    if scenario.radio.duplex == "half":
        raise ValueError(
            'radio.duplex is "half" under radio.access "tdma"; turns are made such that no node sends while it '
            "listens: leave it at its default"
        )
