"""Warnings on valid scenarios: settings that weaken an epsilon, or have another effect than expected."""

import math
from collections.abc import Iterator
from typing import cast

import numpy as np

from wirelessdl.access.oac import Keys
from wirelessdl.contract import capability, guard_of
from wirelessdl.errors import ContractError
from wirelessdl.radio.frame import FLAT, STATIC_SHARE
from wirelessdl.run.build import World, superposed_at_all
from wirelessdl.scenario.objects import keyword_of
from wirelessdl.scenario.schema import Scenario
from wirelessdl.units import to_s

# Variance in the mean model over that of privacy noise. digital_vs_oac_k20 with 5 nodes and 40 rounds at 3, -12 and
# -27 dBm: accuracy .50 at a ratio of .01, .46 at .34, .19 at 11.
RECEIVER_NOISE_LIMIT = 1.0
_LEAST_HZ = {"channel.frequency_hz": 1e6, "radio.bandwidth_hz": 1e3}  # below: a unit is mistaken, or it is no radio
_MOST_TURNED_RAD = 0.3
_FIXED_GAINS = ("uniform", "matrix")  # channel models that are no radio channel of any place
_NEAR_ONLY = ("range", "snr", "random-geometric", "full")  # graphs whose non-neighbours are weak, or that have none


def scenario_warnings(world: World) -> list[str]:
    """One line for each; none where nothing is sent."""
    if world.scenario.alone:
        return [] if world.scenario.silent else list(_privacy(world))
    return [*_privacy(world), *_plans(world), *_air(world), *_tables(world)]


def object_warnings(world: World) -> list[str]:
    """One line for each part that was handed in and that the run directory alone cannot bring back."""
    lost = [
        f"{where}: {given.class_name} was handed in and cannot be made again from the run directory ({given.why}): "
        f"resume needs it again, {keyword_of(where)}=...; verify and report need nothing"
        for where, given in world.objects.items()
        if given.why
    ]
    return [*lost, *world.notes]


def receiver_noise_warnings(scenario: Scenario, privacy: float, receiver: float) -> Iterator[str]:
    """A line where receivers add more than RECEIVER_NOISE_LIMIT times what privacy adds to the network's model.

    privacy, receiver: variances; without privacy noise nothing is said, for then receivers are all there is.
    """
    if not 0 < privacy * RECEIVER_NOISE_LIMIT < receiver:
        return
    radio = scenario.radio
    remedies = ["raise radio.power_dbm"]
    one_by_one = radio.access.name == "oac" and cast(Keys, radio).alignment != "all"
    if radio.access.name == "tdma" or one_by_one:
        remedies.append("raise radio.truncate_snr_db")
    if not (radio.use_full_power or one_by_one):
        remedies.append("set radio.use_full_power = true")
    yield (
        f"receiver noise, not privacy noise, drives the models: its variance in their mean is {receiver / privacy:.3g} "
        f"times that of privacy noise, above {RECEIVER_NOISE_LIMIT:g}; {', or '.join(remedies)}"
    )


def _privacy(world: World) -> Iterator[str]:
    privacy = world.scenario.privacy
    sizes = [len(client) for client in world.client_indices]
    fewest = int(np.argmin(sizes))
    for key, delta in (("delta", privacy.delta), ("delta_total", privacy.delta_total)):
        if np.isfinite(privacy.epsilon_max) and delta >= 1.0 / sizes[fewest]:
            yield (
                f"privacy.{key} is {delta:g}; not below 1/n, {1 / sizes[fewest]:.2g} for node {fewest}: "
                "such a delta allows a sample to be published outright"
            )
    dataset = world.scenario.learning.dataset
    from_labels = (
        dataset.name == "file" and world.data.task == "classification" and not dataset.parameters.get("classes")
    )
    if np.isfinite(privacy.epsilon_max) and from_labels:
        yield (
            "learning.dataset takes its classes from the labels, which are private: state them as classes, so that "
            "they tell nothing"
        )
    attackers = world.learning.settings.attackers
    promised = np.isfinite(privacy.epsilon_max) and privacy.promised == "coalition"
    if promised and attackers is not None and len(attackers.nodes) > world.mechanism.coalition > 0:
        yield (
            f"faults.byzantine has {len(attackers.nodes)} attackers, who may collude; epsilon is promised against "
            f"privacy.coalition {world.mechanism.coalition}: raise it, or quote the own total"
        )
    if privacy.credit_thermal:
        yield "privacy.credit_thermal counts receiver noise as masking: a better receiver hears more"


def _plans(world: World) -> Iterator[str]:
    """Plans that rest on gains which will be others."""
    power, network = world.scenario.power, world.scenario.network
    if not np.isfinite(world.scenario.privacy.epsilon_max):
        return
    masked = power.objective != "own-noise"  # others' noise is counted on
    moves = network.mobility.name != "static"
    if masked and moves and power.schedule != "adaptive":
        yield (
            f'power.schedule is "{power.schedule}" while nodes move; the plan is made for where they start, and later '
            'links may exceed epsilon_max by far: use schedule = "adaptive", or objective = "own-noise"'
        )
    whole = (
        world.always_complete
        and world.scenario.faults.blockage.name == "none"
        and world.scenario.radio.duplex == "full"
    )
    if masked and power.schedule != "adaptive" and not whole:
        yield (
            f'power.schedule is "{power.schedule}" while nodes or links fall silent: a link whose maskers are away '
            "leaks more than epsilon_max; violations are counted, the own total holds"
        )
    if masked and world.frame.blocks > 1 and power.schedule != "adaptive":
        slots, subbands = world.frame.slots, world.frame.subbands
        what = f"{slots} slots" if subbands == 1 else f"{world.frame.blocks} blocks ({slots} by {subbands} subbands)"
        yield (
            f"a payload goes in {what}, each with gains of its own, and the plan does not follow them: "
            f'{what.split()[1]} may exceed epsilon_max; use schedule = "adaptive", or objective = "own-noise"'
        )
    if masked and world.offsets is not None and world.offsets.delayed and not world.access.orthogonal:
        key = "flight_time" if world.offsets.flight_hz is not None else "timing_offset_s"
        if world.offsets.flight_hz is None and world.offsets.late is None:
            key = "timing_error_s"
        yield (
            f"radio.{key} weakens what a sender's noise hides of others, and the plan does not count on it: "
            'links may exceed epsilon_max; use objective = "own-noise"'
        )
    fades = any(capability(named.model, "small_scale") for named in world.channel.models)
    if power.balance == "power" and power.schedule != "adaptive" and (fades or moves):
        yield (
            'power.balance is "power" with a plan that is not adaptive; gains change and the mixing will not stay '
            'doubly stochastic: use balance = "receiver"'
        )


def _tables(world: World) -> Iterator[str]:
    if world.link_rate < 1.0:
        yield (
            f"trace.links samples links at rate {world.link_rate:.4g}, so that the links table stays within "
            f"{world.scenario.trace.link_rows} rows"
        )


def _air(world: World) -> Iterator[str]:
    radio, topology = world.scenario.radio, world.scenario.network.topology.name
    superposed = superposed_at_all(world.access) and not radio.access.is_user_class
    if superposed and radio.flight_time:
        yield (
            'radio.flight_time under radio.alignment "all": a sender is in phase at one neighbour only, and all others '
            "add what is turned and late; plan and verdict do not count on it: docs/time.md"
        )
    elif superposed and any(part.name not in _FIXED_GAINS for part in world.scenario.channel.models):
        yield (
            'radio.alignment "all" takes phases as aligned at every receiver at once, which no sender can do: '
            "docs/air.md; radio.flight_time = true shows what it costs"
        )
    if world.access.lays_out_frames:
        yield from _sub_slots(world, cast(Keys, radio).subslots)
    for named in world.channel.models if world.access.lays_out_frames else ():
        if not capability(named.model, "reciprocal"):
            yield (
                f"channel model {named.name} is not reciprocal, and senders align by what they hear of their receiver: "
                "what arrives has another phase or size than meant; use one that is"
            )
    for key, least_hz in _LEAST_HZ.items():
        section, _, name = key.partition(".")
        value_hz = getattr(getattr(world.scenario, section), name)
        if value_hz < least_hz:
            yield f"{key} is {value_hz:g} Hz, below {least_hz:g}: is it in MHz or GHz? 20 MHz is 20e6, 3.5 GHz is 3.5e9"
    if radio.interference == "physical" and topology not in _NEAR_ONLY:
        yield (
            f'radio.interference is "physical" on a graph by {topology}; loud nodes that are no neighbours drown what '
            "is meant to be heard: use a range or snr topology"
        )
    if world.reach is not None:
        yield f"radio.interference_cutoff_db neglects {world.reach.words}; what they hear is in no link row"
    yield from _subbands(world)
    if topology == "snr" and not any(capability(named.model, "loss_db") for named in world.channel.models):
        yield "network.topology is snr, but no channel model has a loss_db; every pair is linked"
    for n, named in enumerate(world.channel.models):
        check = capability(named.model, "warning")
        if check is None:
            continue
        guard = guard_of(f"channel.models[{n}]", named.model, "warning")
        with guard:
            warning = check(world.links)
        if warning is not None and not isinstance(warning, str):
            raise ContractError(f"{guard.name} returned {type(warning).__name__}, expected a text, or None")
        if warning:
            yield f"channel.models[{n}]: {warning}"


def _sub_slots(world: World, subslots: int) -> Iterator[str]:
    """What changes within a part of a payload, which its pilot cannot tell."""
    part_s, remedy = to_s(world.frame.payload_ns) / subslots, "raise radio.subslots or radio.bandwidth_hz"
    if world.coherence_s is not None and part_s > STATIC_SHARE * world.coherence_s:
        yield (
            f"a part of a payload takes {1e3 * part_s:.3g} ms, {part_s / world.coherence_s:.2g} of the coherence time, "
            f"above {STATIC_SHARE:g}: its pilot does not tell what follows, changes within it are left out; {remedy}"
        )
    cfo_hz = None if world.offsets is None else world.offsets.cfo_hz
    turned = 0.0 if cfo_hz is None else 2.0 * np.pi * float(np.ptp(cfo_hz)) * part_s
    if turned > _MOST_TURNED_RAD:
        yield (
            f"carriers turn by {turned:.2g} rad within a part of a payload, above {_MOST_TURNED_RAD:g}; what that "
            f"takes of the mean counts, what single symbols turn does not: lower radio.cfo_hz, or {remedy}"
        )


def _subbands(world: World) -> Iterator[str]:
    """Whether subbands are narrow enough for the delays, and worth having."""
    radio = world.scenario.radio
    spreads_s = [s for named in world.channel.models if (s := capability(named.model, "delay_spread_s")) is not None]
    selective = any(named.response is not None for named in world.channel.models)
    if radio.subbands > 1 and not selective:
        yield (
            f"radio.subbands is {radio.subbands}, but no channel model depends on frequency: all subbands have the "
            'same gains; add { model = "tdl" }, or set subbands = 1'
        )
    width_hz, spread_s = radio.bandwidth_hz / radio.subbands, max(spreads_s, default=0.0)
    if width_hz * spread_s > FLAT:
        needed = math.ceil(radio.bandwidth_hz * spread_s / FLAT)
        yield (
            f"a subband of {width_hz / 1e6:.3g} MHz times a delay spread of {spread_s * 1e9:.3g} ns is "
            f"{width_hz * spread_s:.2g}, above {FLAT:g}: its gain is taken at its centre though it varies within; set "
            f"radio.subbands to {needed} or more, or a smaller bandwidth_hz"
        )
