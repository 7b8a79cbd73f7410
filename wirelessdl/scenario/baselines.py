"""Baselines: what else the same nodes could do with the same data, as named sets of overrides.

A baseline changes what it is about and, beyond that, only what would not go together with it; the task, the data and
their partition, the schedule and the rounds are the scenario's. `central` alone changes the partition: one node has all
data. Overrides of the user's own come after it and win.

    local        no links: every node learns from its own data, sends nothing and leaks nothing
    central      all data at one node, which sends nothing: what no network can beat
    d-psgd       decentralized SGD on ideal links: TDMA, Metropolis weights, no noise, no multiplier
    no-privacy   the scenario without privacy noise
    own-noise    the scenario with noise of each node's own alone
    tdma         the scenario with one sender after another instead of over-the-air computation
    digital      the same with quantised, coded messages that are repeated until they arrive
"""

from collections.abc import Sequence
from dataclasses import dataclass

from wirelessdl.errors import ScenarioError, nearest, shown


@dataclass(frozen=True)
class Baseline:
    """A named set of overrides, `section.key=value`, and what it stands for."""

    name: str
    summary: str
    overrides: tuple[str, ...]


_INDEPENDENT = ("privacy.noise=independent", "privacy.against=auto")
_NO_PASSES = ("radio.mixing_passes=0", "learning.closing_passes=0")
_NO_NOISE = (*_INDEPENDENT, "privacy.epsilon_max=inf", "privacy.epsilon_total=inf", "privacy.budget_total=inf")
_SILENT = ("network.topology=none", *_INDEPENDENT, *_NO_PASSES, "power.multiplier=auto")
# a sender that is heard alone hides behind its own noise, and Metropolis weights need no balancing
_TDMA = (
    "radio.access=tdma",
    "radio.duplex=full",
    "power.allocator=lp",
    "power.objective=own-noise",
    "power.balance=receiver",
)
_IDEAL = (
    "radio.thermal_noise=false",
    "radio.csi=perfect",
    "radio.phase_error_rad=0.0",
    "radio.cfo_hz=0.0",
    "radio.timing_offset_s=0.0",
    "radio.interference=none",
    "radio.control_failure=0.0",
    "faults.jammer=none",
    "privacy.credit_thermal=false",
)
# one node alone: all that a scenario may say of each of K nodes
_ONE_NODE = (
    "network.nodes=1",
    "network.map=none",
    "network.placement=disc",
    "network.mobility=static",
    "channel.condition=auto",
    "radio.power_dbm=23.0",
    "radio.cfo_hz=0.0",
    "radio.timing_offset_s=0.0",
    "learning.partition=iid",
    "faults.crashes=none",
    "faults.blockage=none",
    "faults.stragglers=none",
    "faults.jammer=none",
    "energy.battery_j=inf",
)

BASELINES: dict[str, Baseline] = {
    baseline.name: baseline
    for baseline in (
        Baseline("local", "Every node learns from its own data alone; nothing is sent, nothing leaks.", _SILENT),
        Baseline("central", "All data at one node, which sends nothing.", (*_SILENT, *_ONE_NODE)),
        Baseline(
            "d-psgd",
            "Decentralized SGD on ideal links: TDMA, Metropolis weights, no noise, no multiplier.",
            (*_TDMA, *_NO_NOISE, *_NO_PASSES, *_IDEAL, "power.multiplier=none", "power.schedule=static"),
        ),
        Baseline("no-privacy", "The scenario without privacy noise.", _NO_NOISE),
        Baseline(
            "own-noise",
            "Noise of each node's own alone meets the scenario's target.",
            (*_INDEPENDENT, "power.allocator=lp", "power.objective=own-noise"),
        ),
        Baseline(
            "tdma", "One sender after another instead of over-the-air computation.", (*_TDMA, "power.multiplier=auto")
        ),
        Baseline(
            "digital",
            "Quantised, coded messages, one sender after another, repeated until they arrive.",
            (
                *_TDMA,
                *_NO_PASSES,
                "radio.access=digital",
                "radio.subbands=1",
                "radio.truncate_snr_db=auto",
                "radio.z_exchange=control",
                "power.multiplier=auto",
                "privacy.credit_thermal=false",
                "energy.battery_j=inf",
            ),
        ),
    )
}


def with_baseline(overrides: Sequence[str], name: str | None) -> list[str]:
    """Overrides with those of a baseline before them, so that they win; name: None for none."""
    if name is None:
        return list(overrides)
    if name not in BASELINES:
        raise ScenarioError(f"no baseline {shown(name)}{nearest(name, BASELINES)}")
    return [*BASELINES[name].overrides, *overrides]
