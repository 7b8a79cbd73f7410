"""Steps 1 and 2 of a round: where nodes are, who hears whom, |h| of every link, and its estimate."""

from collections import deque
from collections.abc import Callable
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from wirelessdl import counter_rng
from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.errors import ContractError
from wirelessdl.links import Geometry, Links
from wirelessdl.radio.frame_channel import FrameChannel, SlotChannel
from wirelessdl.run.world import World
from wirelessdl.scenario.part import formatted
from wirelessdl.units import to_db, to_s


class Observer:
    """Looks at the world as frames open; the only one to ask mobility, topology, channel and CSI."""

    def __init__(self, world: World):
        self._world = world
        self._follows = bool(getattr(world.topology, "follows_motion", False))
        physical = world.scenario.radio.interference == "physical"
        self._everyone = Links.from_mask(np.ones((world.nodes, world.nodes), bool), world.links.geometry)
        self._everyone = self._everyone if physical else world.links
        self._physical = physical
        self._last_geometry: Geometry | None = None
        self._links = world.links
        self.connectivity = Connectivity(world.scenario.network.joint_window)
        self._checksums = {
            "network.topology": crc32(np.concatenate([world.links.rx, world.links.tx]).tobytes()),
            "network.mobility": 0,
            "radio.csi": 0,
            "faults.blockage": 0,
            "faults.jammer": 0,
        }
        self._blocks = world.scenario.faults.blockage.name != "none"
        self._jams = world.scenario.faults.jammer.name != "none"

    def look(self, round: int, time_s: float) -> FrameChannel:
        """The frame that opens now. Slots of the frame follow each other at fixed times."""
        world = self._world
        geometry = self._where(time_s)
        self._note("network.mobility", geometry.position_m)
        links = self._who_hears_whom(geometry)
        heard, inside = (links, None) if not self._physical else self._all_heard(links, geometry)
        jam_w = self._jam_w(geometry, time_s)
        noise_w = world.thermal_w if jam_w is None else world.thermal_w + jam_w[heard.rx]
        slots: list[SlotChannel] = []
        mean = np.zeros(0)
        for slot in range(world.frame.slots):
            when_s = time_s + to_s(world.frame.opens_ns(slot))
            here = heard if slot == 0 else heard.at(self._where(when_s))
            air = world.channel.gain(here, when_s)
            if slot == 0:
                mean = air.mean
            key = (round,) if slot == 0 else (round, slot)
            rng = world.streams.draws("radio.csi", *key)
            estimate = self._estimate(here, air.now, noise_w, rng)
            self._note("radio.csi", estimate)
            slots.append(SlotChannel(air.now, estimate, self._phase_rad(here, key)))
        blocked = self._blocked(heard, time_s, slots[0].gain, jam_w)
        return FrameChannel(links, heard, inside, mean, tuple(slots), jam_w, blocked)

    def checksums(self) -> dict[str, int]:
        """Of everything that was seen so far, by what gave it."""
        return dict(self._checksums)

    def _answer(self, key: str, question: Callable[[], Any]) -> Any:
        """What a part of the network answers as time goes on."""
        part = getattr(self._world.scenario.network, key)
        try:
            return question()
        except Exception as error:
            if part.is_user_class:
                raise ContractError(f"network.{key}: {part.name} raised {formatted(error)}") from error
            if isinstance(error, ValueError):
                raise ContractError(f"network.{key}: {part.name}: {error}") from error
            raise

    def _where(self, time_s: float) -> Geometry:
        world = self._world
        geometry = self._answer("mobility", lambda: world.mobility.geometry(time_s))
        if self._last_geometry is not None and geometry is self._last_geometry:
            return self._last_geometry
        name, shape = world.scenario.network.mobility.name, (world.nodes, 3)
        if not isinstance(geometry, Geometry):
            raise ContractError(f"network.mobility: {name} returned {type(geometry).__name__}, expected a Geometry")
        for what, value in (("position_m", geometry.position_m), ("velocity_mps", geometry.velocity_mps)):
            if np.shape(value) != shape or not np.isfinite(value).all():
                raise ContractError(
                    f"network.mobility: {name} gave {what} of shape {np.shape(value)} at {time_s:g} s, expected finite "
                    f"numbers of shape {shape}"
                )
        if (geometry.position_m[:, 2] <= 0).any():
            node = int(np.argmax(geometry.position_m[:, 2] <= 0))
            raise ContractError(
                f"network.mobility: {name} puts node {node} at a height of {geometry.position_m[node, 2]:g} m at "
                f"{time_s:g} s; antennas must be above ground"
            )
        self._last_geometry = geometry
        return geometry

    def _estimate(
        self, links: Links, gain: FloatArray, noise_w: float | FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        world, name = self._world, self._world.scenario.radio.csi.name
        try:
            estimate = world.csi.estimate(links, gain, world.power_w, noise_w, rng)
            if estimate is gain:
                return gain
            values = np.asarray(estimate, dtype=np.float64)
        except Exception as error:
            if not world.scenario.radio.csi.is_user_class:
                raise
            raise ContractError(f"radio.csi: {name} raised {formatted(error)}") from error
        if values.shape != gain.shape or not (np.isfinite(values) & (values >= 0)).all():
            raise ContractError(
                f"radio.csi: {name} returned shape {values.shape}, expected a finite estimate >= 0 for each of "
                f"{len(links)} links"
            )
        return values

    def _who_hears_whom(self, geometry: Geometry) -> Links:
        """The graph as drawn, or what motion makes of it."""
        world = self._world
        if not self._follows:
            return world.links.at(geometry)
        rng = world.streams.world("network.topology")
        links = self._answer("topology", lambda: world.topology.links(geometry, world.snr_db, rng))
        if not isinstance(links, Links) or links.nodes != world.nodes:
            raise ContractError(
                f"network.topology: links() returned {type(links).__name__}, expected {world.nodes} nodes' Links"
            )
        if np.array_equal(links.rx, self._links.rx) and np.array_equal(links.tx, self._links.tx):
            links = self._links.at(geometry)  # what was worked out of the same links holds
        self._links = links
        self._note("network.topology", np.concatenate([links.rx, links.tx]))
        self.connectivity.add(links)
        return links

    def _all_heard(self, links: Links, geometry: Geometry) -> tuple[Links, BoolArray]:
        """Every pair, and which of them are the graph's: receiver-major order without the diagonal."""
        self._everyone = self._everyone.at(geometry)
        inside = np.zeros(len(self._everyone), dtype=bool)
        inside[links.rx * (links.nodes - 1) + links.tx - (links.tx > links.rx)] = True
        return self._everyone, inside

    def _phase_rad(self, links: Links, key: tuple[int, ...]) -> FloatArray | None:
        deviation = self._world.scenario.radio.phase_error_rad
        if deviation == 0:
            return None
        word = counter_rng.key(self._world.streams.draws("radio.phase", *key))
        return deviation * counter_rng.normal(word, links.rx * links.nodes + links.tx)

    def _jam_w(self, geometry: Geometry, time_s: float) -> FloatArray | None:
        if not self._jams:
            return None
        jammer = self._world.jammer
        jam_w = asked("faults.jammer", jammer, "noise_w", lambda: jammer.noise_w(geometry, time_s), (geometry.nodes,))
        self._note("faults.jammer", jam_w)
        return jam_w

    def _blocked(self, heard: Links, time_s: float, gain: FloatArray, jam_w: FloatArray | None) -> BoolArray | None:
        if not self._blocks:
            return None
        world = self._world
        noise_w = world.noise_w if jam_w is None else world.noise_w + jam_w[heard.rx]
        snr_db = to_db(np.asarray(gain**2 * world.power_w[heard.tx] / noise_w))
        blockage = world.blockage
        found = asked(
            "faults.blockage", blockage, "blocked", lambda: blockage.blocked(heard, time_s, snr_db), (len(heard),)
        )
        self._note("faults.blockage", found)
        return found.astype(bool)

    def _note(self, name: str, values: NDArray[Any]) -> None:
        self._checksums[name] = crc32(values.tobytes(), self._checksums[name])


def asked(where: str, part: object, method: str, question: Callable[[], Any], shape: tuple[int, ...]) -> FloatArray:
    """What a fault answers, held to its contract: finite numbers >= 0 of a shape."""
    name = f"{where}: {type(part).__name__}.{method}"
    try:
        values = np.asarray(question(), dtype=np.float64)
    except Exception as error:
        raise ContractError(f"{name} raised {formatted(error)}") from error
    if values.shape != shape or not (np.isfinite(values) & (values >= 0)).all():
        raise ContractError(f"{name} returned shape {values.shape}, expected finite numbers >= 0 of shape {shape}")
    return values


class Connectivity:
    """Whether models can reach everyone within a window of frames, as links come and go."""

    def __init__(self, window: int):
        self.window = window
        self.frames = self.apart = self.windows = self.gaps = 0
        self._recent: deque[tuple[IntArray, bool]] = deque(maxlen=window)

    def add(self, links: Links) -> None:
        """One more frame."""
        connected = links.strongly_connected()
        self.frames += 1
        self.apart += not connected
        self._recent.append((links.rx * links.nodes + links.tx, connected))
        if len(self._recent) < self.window:
            return
        self.windows += 1
        if not any(whole for _, whole in self._recent):
            union = np.unique(np.concatenate([number for number, _ in self._recent]))
            self.gaps += not Links(*np.divmod(union, links.nodes), links.geometry).strongly_connected()

    def formatted(self) -> str | None:
        """In words; None where links never change."""
        if not self.frames:
            return None
        if not self.apart:
            return f"connected in each of {self.frames} frames"
        if not self.windows:
            return f"in parts in {self.apart} of {self.frames} frames, fewer than a window of {self.window}"
        return (
            f"in parts in {self.apart} of {self.frames} frames, and over {self.window} frames together in "
            f"{self.gaps} of {self.windows} windows"
        )
