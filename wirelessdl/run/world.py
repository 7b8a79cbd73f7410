"""What `build` gives: every part of a scenario, found, checked and constructed once.

Nobody carries a World along: functions of `run` and `preview` take it apart and hand each stage its inputs.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wirelessdl.access import Access
from wirelessdl.channel.csi import Csi
from wirelessdl.contract import capability
from wirelessdl.power.allocate import PowerAllocator
from wirelessdl.privacy.terms import SAMPLERS, Exposure, Terms
from wirelessdl.privacy.totals import release_mu
from wirelessdl.radio.blockage import Blockage
from wirelessdl.radio.frame import Frame
from wirelessdl.radio.jammer import Jammer
from wirelessdl.radio.offsets import Offsets
from wirelessdl.run.build_learning import BuiltLearning
from wirelessdl.run.build_network import BuiltNetwork
from wirelessdl.run.link_sample import sampling_rate
from wirelessdl.scenario.objects import Given
from wirelessdl.scenario.part import UserFile
from wirelessdl.scenario.schema import Scenario
from wirelessdl.sim.simulation import EventSimulation
from wirelessdl.streams import Streams
from wirelessdl.trace.events import Listener


@dataclass(frozen=True, eq=False, kw_only=True)
class World(BuiltNetwork, BuiltLearning):
    """Everything that a scenario describes: its network, its learning, and the rest; `resolved` spells it all out.

    thermal_w: receiver noise in W, 0 where the scenario leaves it out; noise_w: kTBF all the same. self_interference:
    share of its own emission that a node hears. offsets: of carriers and timing, None where no two nodes differ.
    """

    scenario: Scenario
    resolved: Scenario
    streams: Streams
    csi: Csi
    allocator: PowerAllocator
    access: Access
    simulation: EventSimulation
    blockage: Blockage
    jammer: Jammer
    coherence_s: float | None
    thermal_w: float
    noise_w: float
    self_interference: float
    offsets: Offsets | None
    listeners: tuple[tuple[str, Listener], ...]
    user_files: tuple[UserFile, ...]
    objects: Mapping[str, Given]  # parts that Python handed in, by key
    notes: tuple[str, ...]  # on those objects

    @property
    def nodes(self) -> int:
        return self.scenario.network.nodes

    @property
    def link_rate(self) -> float:
        """Share of links that are traced."""
        trace = self.scenario.trace
        return sampling_rate(trace.links, trace.link_rows, self.scenario.scenario.rounds, self.heard_links)

    @property
    def frame(self) -> Frame:
        return self.simulation.frame

    @property
    def always_complete(self) -> bool:
        """Whether every node takes part in every frame, come what may."""
        scenario = self.scenario
        planned = scenario.radio.control_failure == 0.0 or self.frame.feedback_ns == 0
        waited = scenario.time.policy.name == "barrier" and scenario.faults.crashes.name == "none"
        return waited and planned and not self.simulation.energy.finite

    @property
    def largest_rate(self) -> float:
        return max(self.schedule.rate(round) for round in range(1, self.scenario.scenario.rounds + 1))

    @property
    def terms(self) -> Terms:
        """What the ledger states its totals under."""
        privacy, sampling = self.scenario.privacy, self.scenario.learning.sampling
        return Terms(
            privacy.protocol,
            SAMPLERS[sampling],
            privacy.clipping,
            privacy.delta_total,
            unit=privacy.unit,
            evaluated=self.learning.settings.evaluated,
            epoch_rounds=tuple(self.exposure.epoch_rounds.tolist()) if sampling == "shuffled" else (),
            coalition=self.mechanism.coalition,
            declared=privacy.noise.name if privacy.noise.is_user_class else "",
            promised=privacy.promised,
            passes=bool(self.scenario.radio.mixing_passes or self.scenario.learning.closing_passes),
            one_slot=not self.scenario.radio.access.is_user_class,
            sends=not self.scenario.silent,
            rounding=self.rounding_share,
        )

    @cached_property
    def mu_max(self) -> float | None:
        """mu of every release that keeps the promised total; None where epsilon_max is the target."""
        total = self.scenario.privacy.epsilon_total
        if math.isinf(total) or self.scenario.silent:
            return None
        return release_mu(total, self.scenario.scenario.rounds, self.exposure, self.terms)

    @property
    def spans_run(self) -> bool:
        """Whether more rounds would have made it another run from the start, so that it cannot be extended.

        Noise is made for a promised total of all rounds; closing passes were sent in the last one; what is chosen by
        predicted error is chosen for so many rounds.
        """
        scenario = self.scenario
        chosen = self.mechanism.ratio is None or (
            scenario.power.balance == "partial" and scenario.power.balance_exponent == "auto"
        )
        promised = math.isfinite(scenario.privacy.epsilon_total)
        stretched = bool(capability(self.schedule, "spans_run"))
        if scenario.silent:  # nothing was sent by a plan for so many rounds
            return stretched
        return stretched or promised or chosen or scenario.learning.closing_passes > 0

    @property
    def exposure(self) -> Exposure:
        """How far and how often what epsilon protects enters gradients."""
        privacy, sampler, rounding = self.scenario.privacy, self.learning.sampler, self.learning.rounding
        if privacy.unit == "sample":
            return Exposure(self.learning.sensitivity + rounding, sampler.rate, sampler.epoch_rounds)
        whole = np.full(self.nodes, 2.0 * privacy.clip_norm)  # no gradient is longer than the clip norm
        return Exposure(whole + rounding, np.ones(self.nodes), np.ones(self.nodes, dtype=np.int64))

    @property
    def rounding_share(self) -> float:
        """Largest share of a node's charged sensitivity that is rounding before the noise."""
        return float(np.max(self.learning.rounding / self.exposure.sensitivity))
