"""Rules between sections of a scenario: combinations that prove nothing, or make no sense, are refused."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from wirelessdl.families import MEMBERS, Family, keys_of, member, modules, robust

if TYPE_CHECKING:
    from wirelessdl.scenario.schema import Scenario


def require_agreement(scenario: "Scenario") -> None:
    """Raise a ValueError, with the keys and a remedy, for the first two that do not go together."""
    if not {"epsilon_max", "epsilon_total"} & scenario.privacy.model_fields_set:
        raise ValueError("missing key privacy.epsilon_max; add it, or epsilon_total")
    for problem in _total(scenario):
        raise ValueError(problem)
    _require_members(scenario)
    robust().refuse(scenario)
    for rules in (_passes, _protection, _antennas, _aligned, _channel):
        for problem in rules(scenario):
            raise ValueError(problem)


def _total(scenario: "Scenario") -> Iterator[str]:
    """Noise follows from one number: epsilon of a slot, or of the run."""
    privacy, objective, rounds = scenario.privacy, scenario.power.objective, scenario.scenario.rounds
    if not math.isfinite(privacy.epsilon_total):
        return
    what = f"privacy.epsilon_total is {privacy.epsilon_total:g}"
    if math.isfinite(privacy.epsilon_max):
        yield f"{what} and epsilon_max {privacy.epsilon_max:g}; one follows from the other: keep one of them"
    if privacy.protocol == "paper" or objective != "own-noise":
        under = 'privacy.protocol "paper"' if privacy.protocol == "paper" else f'power.objective "{objective}"'
        yield (
            f"{what} under {under}; only the total of hardened transmissions behind their senders' own noise is "
            'proven: set protocol = "hardened" and objective = "own-noise", or use epsilon_max'
        )
    if rounds < 2:
        yield (
            f"{what} with rounds = {rounds}; the first round sends no gradient, so nothing is ever charged: use at "
            "least 2 rounds"
        )


def _require_members(scenario: "Scenario") -> None:
    """What mechanism, access and update refuse."""
    update = scenario.learning.update.name
    if update != "sgd" and scenario.privacy.protocol == "paper":
        raise ValueError(
            f'learning.update is "{update}" under privacy.protocol "paper"; there the gradient is taken at a model '
            'that was never sent: set protocol = "hardened"'
        )
    _require_read_keys(scenario, update)
    if scenario.privacy.gram_share:
        _require_gram(scenario)
    parts: tuple[tuple[Family, str], ...] = (
        ("mechanism", scenario.privacy.noise.name),
        ("access", scenario.radio.access.name),
        ("update", update),
    )
    for family, name in parts:
        module = member(family, name)
        if module is not None and "refuse" in vars(module):
            module.refuse(scenario)


def _require_gram(scenario: "Scenario") -> None:
    """Raise ValueError for what does not go together with a Gram stage."""
    privacy = scenario.privacy
    clashes = (
        (math.isinf(privacy.epsilon_total), "privacy.epsilon_total inf", "a share of it pays for it", "set it"),
        (scenario.learning.update.name != "sgd", "another update", "plain steps are proven", 'use "sgd"'),
        (privacy.unit == "node", 'privacy.unit "node"', "all samples of a node move it without bound", 'use "sample"'),
        (math.isfinite(privacy.budget_total), "privacy.budget_total", "it is charged once", "leave it at inf"),
        (scenario.learning.regret, "learning.regret", "the optimum is in other coordinates", "set it to false"),
        (scenario.silent, "nothing sent", "there is nothing to release", "set it to 0"),
    )
    for there, other, why, remedy in clashes:
        if there:
            raise ValueError(f"privacy.gram_share is {privacy.gram_share:g} with {other}; {why}: {remedy}")


def _require_read_keys(scenario: "Scenario", update: str) -> None:
    """A key of another update than the one that is used would change nothing."""
    found = dict(zip(MEMBERS["update"], modules("update")))
    reads = {name: vars(module).get("READS", tuple(keys_of(module))) for name, module in found.items()}
    for key, field in (pair for module in found.values() for pair in keys_of(module).items()):
        value = getattr(scenario.learning, key)
        if value != field.default and key not in reads.get(update, ()):
            readers = " or ".join(f'"{name}"' for name, keys in reads.items() if key in keys)
            raise ValueError(
                f'learning.{key} is {value} with learning.update "{update}", which does not read it: leave it out, or '
                f"set update to {readers}"
            )


def _passes(scenario: "Scenario") -> Iterator[str]:
    """Passes send what was received on: post-processing of noisy transmissions, and only of those."""
    mixing, closing, power = scenario.radio.mixing_passes, scenario.learning.closing_passes, scenario.power
    if not (mixing or closing):
        return
    what = f"radio.mixing_passes is {mixing}" if mixing else f"learning.closing_passes is {closing}"
    if scenario.alone:
        alone = "network.nodes 1" if scenario.network.nodes == 1 else 'network.topology "none"'
        yield f"{what} with {alone}; nothing is sent, and nothing passed on: set it to 0"
    if power.objective != "own-noise":
        yield (
            f'{what} under power.objective "{power.objective}"; a linear program hides a sender behind what one '
            'receiver hears in one slot, and passes hand that on to all nodes: set objective = "own-noise"'
        )
    if scenario.privacy.protocol == "paper":
        yield (
            f'{what} under privacy.protocol "paper"; there the gradient is taken at a model that was never sent: set '
            'protocol = "hardened"'
        )
    if power.balance in ("power", False) or power.multiplier in ("product", "mean", "tracked", "windowed"):
        yield (
            f"{what} without receiver balancing; z follows one averaging, not a row of them: set balance = "
            '"receiver" or "partial", and leave multiplier at "auto"'
        )
    if closing and scenario.learning.stop_after:
        yield (
            f"learning.closing_passes is {closing} with learning.stop_after {scenario.learning.stop_after}; that a "
            "round is the last is known only after its passes: set either to 0"
        )
    if scenario.privacy.credit_thermal:
        yield f"{what} under privacy.credit_thermal; links are not accounted for: set it to false"


def _protection(scenario: "Scenario") -> Iterator[str]:
    """What clipping, sampling and power must be for a sensitivity and its noise to hold."""
    privacy, power, radio = scenario.privacy, scenario.power, scenario.radio
    if privacy.protocol == "paper" and privacy.clipping == "per-sample":
        yield (
            'privacy.clipping is "per-sample" under privacy.protocol "paper"; its sensitivity 2C/B does not hold '
            'there: use clipping = "batch", or protocol = "hardened"'
        )
    if privacy.unit == "node" and scenario.learning.sampling == "poisson" and privacy.clipping != "batch":
        yield (
            'privacy.unit is "node" under learning.sampling "poisson" and per-sample clipping; a batch may then '
            'hold any number of samples, and nothing bounds what a node adds: use clipping = "batch", or '
            '"without-replacement"'
        )
    if privacy.credit_thermal and radio.use_full_power:
        yield (
            "radio.use_full_power is true under privacy.credit_thermal; scaling transmissions up drowns the "
            "thermal noise that is credited: set one of them to false"
        )
    alpha_min, most = power.least_alpha(scenario.network.nodes), 1.0 - power.beta_min
    if alpha_min >= most:
        yield f"power.alpha_min is {alpha_min:g}; must be below 1 - power.beta_min, which is {most:g}: lower either"
    if math.isfinite(radio.interference_cutoff_db) and radio.interference == "none":
        yield (
            f"radio.interference_cutoff_db is {radio.interference_cutoff_db:g} with radio.interference "
            '"none"; there are no non-neighbours to neglect: set interference = "physical", or leave it at inf'
        )
    if power.multiplier == "balanced" and not power.balance:
        yield (
            'power.multiplier is "balanced" while power.balance is false; set balance = "receiver" or "power", '
            'or multiplier = "auto"'
        )


def _antennas(scenario: "Scenario") -> Iterator[str]:
    """Several antennas are one receiver's: what it makes of them is a matter of its access."""
    radio, server = scenario.radio, scenario.network.server
    if (
        server != "none"
        and not scenario.silent
        and (radio.access.name != "oac" or getattr(radio, "alignment", "") != "server")
    ):
        yield (
            'network.server is given where nodes do not align to it: set radio.access = "oac" and alignment = '
            '"server", or server = "none"'
        )
    if radio.antenna_correlation and radio.antennas == 1 and server == "none":
        yield f"radio.antenna_correlation is {radio.antenna_correlation:g} with one antenna: set it to 0, or antennas"
    if radio.antennas == 1:
        return
    what, alignment = f"radio.antennas is {radio.antennas}", getattr(radio, "alignment", "")
    clashes = (
        (radio.subbands > 1, f"radio.subbands {radio.subbands}", "set subbands = 1"),
        (radio.csi.is_user_class, f"radio.csi {radio.csi.name}", 'use "pilots" or "perfect"'),
        (
            radio.access.name == "oac" and alignment in ("all", "turns"),
            f'radio.alignment "{alignment}", which aligns to single antennas',
            'use "hubs", "server" or "none"',
        ),
    )
    for there, other, remedy in clashes:
        if there:
            yield f"{what} with {other}: {remedy}, or antennas = 1"


def _aligned(scenario: "Scenario") -> Iterator[str]:
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
            yield (
                f'power.allocator is "aligned" with {what}; aligned senders hide behind what one receiver hears of all '
                f'of them in one slot: {remedy}, or allocator = "lp"'
            )
    if scenario.power.balance in ("power", "partial"):
        yield (
            f'power.balance is "{scenario.power.balance}" with power.allocator "aligned"; powers follow from alignment '
            'alone: set balance = false, or "receiver"'
        )


def _channel(scenario: "Scenario") -> Iterator[str]:
    """A map decides on lines of sight alone, and only sidelink models know vehicles."""
    rule = scenario.channel.condition
    if rule != "auto" and scenario.network.map.name != "none":
        yield (
            f'channel.condition is "{rule}" with a network.map; the map decides which links have a line of sight: '
            'leave it at "auto", or remove the map'
        )
    if rule == "nlosv" and not any(part.name.startswith("sidelink-") for part in scenario.channel.models):
        yield (
            'channel.condition is "nlosv"; only sidelink models know vehicles in the way: use "nlos", or '
            'model = "sidelink-urban"'
        )
