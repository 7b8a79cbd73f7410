"""Everything a run needs, built and checked."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.channel.csi import Csi
from wirelessdl.channel.los import ChannelCondition
from wirelessdl.channel.model import Chain
from wirelessdl.errors import InfeasiblePowerError
from wirelessdl.learning.data import Dataset
from wirelessdl.learning.engine import LearningEngine
from wirelessdl.learning.schedule import Schedule
from wirelessdl.links import Links
from wirelessdl.network.mobility import Mobility
from wirelessdl.network.topology import Topology
from wirelessdl.power.allocate import PowerAllocator
from wirelessdl.power.problem import PowerPlan, PowerProblem
from wirelessdl.privacy.combinations import SAMPLERS
from wirelessdl.privacy.ledger import Terms
from wirelessdl.radio.blockage import Blockage
from wirelessdl.radio.frame import Frame
from wirelessdl.radio.jammer import Jammer
from wirelessdl.run.registry import Builder, channel_models, mean_snr_db
from wirelessdl.scenario.part import UserFile
from wirelessdl.scenario.schema import Scenario
from wirelessdl.sim.simulation import EventSimulation
from wirelessdl.streams import Streams
from wirelessdl.trace.events import Callback
from wirelessdl.units import from_db, thermal_noise_w


@dataclass(frozen=True, eq=False)
class World:
    """Everything a run needs, built and checked; `resolved` spells every parameter out."""

    scenario: Scenario
    resolved: Scenario
    streams: Streams
    mobility: Mobility
    topology: Topology
    links: Links
    channel: Chain
    condition: ChannelCondition
    csi: Csi
    allocator: PowerAllocator
    schedule: Schedule
    data: Dataset
    client_indices: list[IntArray]
    learning: LearningEngine
    simulation: EventSimulation
    blockage: Blockage
    jammer: Jammer
    coherence_s: float | None
    power_w: FloatArray
    thermal_w: float
    callbacks: tuple[tuple[str, Callback], ...]
    user_files: tuple[UserFile, ...]
    extra_folders: tuple[Path, ...] = ()

    @property
    def nodes(self) -> int:
        return self.scenario.network.nodes

    @property
    def frame(self) -> Frame:
        return self.simulation.frame

    @property
    def orthogonal(self) -> bool:
        """Whether every sender is heard in a turn of its own."""
        return self.scenario.radio.access == "tdma"

    @property
    def complete(self) -> bool:
        """Whether every node takes part in every frame, come what may."""
        time, faults = self.scenario.time, self.scenario.faults
        return time.policy.name == "barrier" and faults.crashes.name == "none" and not self.simulation.energy.finite

    @property
    def noise_w(self) -> float:
        """kTBF of a receiver, whether or not the scenario adds it to what is heard."""
        radio = self.scenario.radio
        return thermal_noise_w(radio.bandwidth_hz, radio.noise_figure_db, radio.temperature_k)

    @property
    def self_interference(self) -> float:
        """Share of its own emission that a node hears; none where it does not send while it listens."""
        if self.orthogonal or self.scenario.radio.duplex == "half":
            return 0.0
        return from_db(-self.scenario.radio.cancellation_db)

    @property
    def sampling_rate(self) -> FloatArray:
        """q_j of every node that amplification may count on."""
        return self.learning.sampler.rate

    @property
    def sensitivity(self) -> float:
        """How far one replaced sample moves any gradient, at most."""
        return self.learning.sensitivity

    @property
    def terms(self) -> Terms:
        privacy, sampling = self.scenario.privacy, self.scenario.learning.sampling
        epochs = tuple(self.learning.sampler.epoch_rounds.tolist()) if sampling == "shuffled" else ()
        return Terms(
            privacy.protocol,
            SAMPLERS[sampling],
            privacy.clipping,
            privacy.delta_total,
            epoch_rounds=epochs,
        )

    def snr_db(self, candidates: Links) -> FloatArray:
        """Mean SNR of links at full power by the loss models."""
        return mean_snr_db(self.scenario, self.channel)(candidates)

    def problem(
        self,
        links: Links,
        gain: FloatArray,
        samples: FloatArray | None = None,
        heard: tuple[Links, FloatArray] | None = None,
        power_w: FloatArray | None = None,
    ) -> PowerProblem:
        """The power problem of these gains, to hold for `samples` too, and for all that is `heard`."""
        power, privacy = self.scenario.power, self.scenario.privacy
        return PowerProblem(
            links=links,
            gain=gain,
            power_w=self.power_w if power_w is None else power_w,
            rho=privacy.rho,
            sensitivity=self.sensitivity,
            delta=privacy.delta,
            epsilon_max=privacy.epsilon_max,
            balance=power.balance,
            thermal_w=self.thermal_w / self.largest_rate**2 if privacy.credit_thermal else 0.0,
            alpha_min=power.alpha_min,
            beta_min=power.beta_min,
            margin_db=power.csi_margin_db,
            samples=samples,
            heard=None if heard is None else heard[0],
            heard_gain=None if heard is None else heard[1],
        )

    def plan(
        self,
        links: Links,
        gain: FloatArray,
        theta: float | None = None,
        samples: FloatArray | None = None,
        heard: tuple[Links, FloatArray] | None = None,
        power_w: FloatArray | None = None,
    ) -> PowerPlan:
        try:
            return self.allocator.allocate(self.problem(links, gain, samples, heard, power_w), theta)
        except InfeasiblePowerError as error:
            raise InfeasiblePowerError(f"{self.scenario.origin}: {error}") from error

    @property
    def largest_rate(self) -> float:
        return max(self.schedule.rate(round) for round in range(1, self.scenario.scenario.rounds + 1))

    def fresh_models(self) -> list[tuple[str, Any]]:
        """The channel's models once more, without what they remember; line of sight is as in the run."""
        return channel_models(Builder(self.scenario, self.extra_folders), self.condition)

    def sample_gains(self, links: Links, mean_gain: FloatArray, count: int, offset: int = 0) -> FloatArray:
        """Realisations of the fading around the mean gains that the run will not see, `[count, links]`.

        Fresh models on streams of another name; without small-scale fading there is only the one.
        """
        rows = []
        for number in range(offset, offset + count):
            fading = [(name, model) for name, model in self.fresh_models() if getattr(model, "small_scale", False)]
            if not fading:
                return mean_gain[None]
            rows.append(mean_gain * Chain(fading, self.streams, prefix=f"robust.{number}").gain(links, 0.0).now)
        return np.stack(rows)
