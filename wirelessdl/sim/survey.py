"""What the air will be in a run, seen before any training: every frame's gains, value for value."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.channel.model import Chain
from wirelessdl.links import Links
from wirelessdl.sim.build import World
from wirelessdl.sim.clock import to_s
from wirelessdl.sim.engine import Engine
from wirelessdl.sim.frame import Seen
from wirelessdl.sim.openings import move_time
from wirelessdl.sim.recorder import Recorder
from wirelessdl.units import SPEED_OF_LIGHT_MPS, dbm_to_w, to_db

COHERENCE = 0.423  # of the largest Doppler shift's period: where the correlation of amplitudes has fallen to a half
_INSTANTS, _PER_COHERENCE, _REALISATIONS = 240, 10, 8


@dataclass(frozen=True, eq=False)
class Survey:
    """The air frame by frame."""

    time_s: FloatArray
    seen: tuple[Seen, ...]
    los: BoolArray  # of the first frame's links

    @property
    def links(self) -> Links:
        return self.seen[0].links

    def rows(self) -> tuple[FloatArray, IntArray, IntArray, FloatArray]:
        """time_s, tx, rx, gain: one row per link and frame."""
        sizes = [len(seen.links) for seen in self.seen]
        return (
            np.repeat(self.time_s, sizes),
            np.concatenate([seen.links.tx for seen in self.seen]),
            np.concatenate([seen.links.rx for seen in self.seen]),
            np.concatenate([seen.gain for seen in self.seen]),
        )

    def over_time(self, tx: int, rx: int) -> tuple[FloatArray, FloatArray]:
        """Instants at which a link exists, and its |h| then."""
        time_s, senders, receivers, gain = self.rows()
        chosen = (senders == tx) & (receivers == rx)
        return time_s[chosen], gain[chosen]


@dataclass(frozen=True, eq=False)
class LinkFacts:
    """Statistics of every link over the frames in which it exists, in order of links."""

    tx: IntArray
    rx: IntArray
    frames: IntArray
    distance_m: FloatArray
    gain_db: FloatArray  # mean power gain
    deepest_db: FloatArray  # least gain met, against the mean
    snr_db: FloatArray  # of the mean gain at full power


@dataclass(frozen=True, eq=False)
class Probe:
    """Fading alone, sampled closely: amplitudes `[instants, links]`, and what theory says of them."""

    time_s: FloatArray
    amplitude: FloatArray
    links: Links
    theory_cdf: Callable[[FloatArray], FloatArray] | None
    theory_correlation: Callable[[FloatArray], FloatArray] | None

    def correlation(self, lags: int) -> FloatArray:
        """Correlation of the power over lags of the instants, all links together."""
        power = self.amplitude**2
        power = power - power.mean()
        count = len(power)
        together = [np.mean(power[: count - lag] * power[lag:]) for lag in range(lags)]
        return np.asarray(together / np.mean(power**2))


class _Watch:
    """Looks when a frame opens, and does nothing else."""

    def __init__(self, engine: Engine, on_frame: Callable[[int], None] | None):
        self._engine, self._on_frame = engine, on_frame
        self.time_s: list[float] = []
        self.seen: list[Seen] = []

    def open_frame(self, round: int, now_ns: int) -> None:
        self.time_s.append(to_s(now_ns))
        self.seen.append(self._engine.look(round, to_s(now_ns)))
        if self._on_frame is not None:
            self._on_frame(round)

    def close_frame(self, round: int, now_ns: int) -> None:
        pass


def survey(world: World, on_frame: Callable[[int], None] | None = None) -> Survey:
    """Every frame of the run, without learning."""
    trace, scenario = world.scenario.trace, world.scenario
    recorder = Recorder(frame=world.frame, thermal_w=world.thermal_w, links=trace.links, flush_every=trace.flush_every)
    watch = _Watch(Engine(world, recorder), on_frame)
    move_time(
        watch,
        frame=world.frame,
        compute=world.compute,
        nodes=world.nodes,
        rounds=scenario.scenario.rounds,
        parallel=scenario.privacy.protocol == "paper",
    )
    return Survey(np.array(watch.time_s), tuple(watch.seen), world.condition.los(watch.seen[0].links))


def link_facts(world: World, found: Survey) -> LinkFacts:
    """Statistics of all links that ever exist."""
    _, tx, rx, gain = found.rows()
    number = rx * world.nodes + tx
    key, first, inverse = np.unique(number, return_index=True, return_inverse=True)
    frames = np.bincount(inverse)
    power = np.bincount(inverse, weights=gain**2) / frames
    distance = np.concatenate([seen.links.distance_m for seen in found.seen])
    deepest = np.full(len(key), np.inf)
    np.minimum.at(deepest, inverse, gain**2)
    noise_w = world.noise_w
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(power > 0, deepest / power, 0.0)
    return LinkFacts(
        tx=tx[first],
        rx=rx[first],
        frames=frames,
        distance_m=np.bincount(inverse, weights=distance) / frames,
        gain_db=to_db(power),
        deepest_db=to_db(relative),
        snr_db=to_db(power * dbm_to_w(world.scenario.radio.power_dbm) / noise_w),
    )


def doppler_hz(world: World, links: Links) -> FloatArray:
    """Largest Doppler shift of each link: both ends' speeds add up."""
    speed = np.linalg.norm(links.geometry.velocity_mps, axis=1)
    fixed = [model.clarke.speed_mps for _, model in _fading(world) if getattr(model, "clarke", None) is not None]
    fixed = [value for value in fixed if value is not None]
    if fixed:
        speed = np.full(links.nodes, max(fixed))
    return np.asarray((speed[links.tx] + speed[links.rx]) * world.scenario.channel.frequency_hz / SPEED_OF_LIGHT_MPS)


@dataclass(frozen=True)
class Motion:
    """How fast the air changes, against how long a payload takes."""

    doppler_hz: float
    coherence_s: float | None
    payload_s: float

    @property
    def payload_to_coherence(self) -> float:
        return 0.0 if self.coherence_s is None else self.payload_s / self.coherence_s

    def __str__(self) -> str:
        if self.coherence_s is None:
            return "none: no Doppler"
        return (
            f"Doppler up to {self.doppler_hz:.3g} Hz, coherence {1e3 * self.coherence_s:.3g} ms, "
            f"payload {self.payload_to_coherence:.2g} of it"
        )


def motion(world: World, links: Links) -> Motion:
    """Of the fastest pair."""
    doppler = float(doppler_hz(world, links).max())
    return Motion(doppler, COHERENCE / doppler if doppler > 0 else None, to_s(world.frame.payload_ns))


def probe(world: World, found: Survey) -> Probe | None:
    """Fading at close instants, of fresh models on streams of their own; None where nothing fades."""
    fading = _fading(world)
    if not fading:
        return None
    step_s = _step_s(world, found, [model for _, model in fading])
    time_s = np.asarray(step_s * np.arange(_INSTANTS), dtype=np.float64)
    air = [found.links.at(world.mobility.geometry(t)) for t in time_s]
    chains = [Chain(_fading(world), world.streams, prefix=f"probe.{n}") for n in range(_REALISATIONS)]
    rows = [np.concatenate([chain.gain(links, t).now for chain in chains]) for links, t in zip(air, time_s.tolist())]
    return Probe(time_s, np.stack(rows), found.links, *_theory(fading, found.links))


def _fading(world: World) -> list[tuple[str, Any]]:
    return [(name, model) for name, model in world.fresh_models() if getattr(model, "small_scale", False)]


def _theory(
    fading: list[tuple[str, Any]], links: Links
) -> tuple[Callable[[FloatArray], FloatArray] | None, Callable[[FloatArray], FloatArray] | None]:
    """What is known of one fading model; of several in a chain, or of a user's, nothing is."""
    model = fading[0][1]
    if len(fading) > 1:
        return None, None
    cdf, correlation = getattr(model, "cdf", None), getattr(model, "power_correlation", None)
    return (
        None if cdf is None else lambda amplitude: cdf(amplitude, links),
        None if correlation is None else lambda lag_s: correlation(links, lag_s).mean(axis=1),
    )


def _step_s(world: World, found: Survey, models: list[Any]) -> float:
    """A tenth of the shortest time in which something changes; a frame where nothing is known of that."""
    times = list(_coherence_times(world, found, models))
    frame_s = float(np.diff(found.time_s).min()) if len(found.time_s) > 1 else 1e-3
    return min(times) / _PER_COHERENCE if times else frame_s


def _coherence_times(world: World, found: Survey, models: list[Any]) -> Iterator[float]:
    for model in models:
        blocks, clarke = getattr(model, "blocks", None), getattr(model, "clarke", None)
        if clarke is not None:
            fastest = float(doppler_hz(world, found.links).max())
            if fastest > 0:
                yield COHERENCE / fastest
        elif blocks is not None and blocks.coherence_s is not None:
            yield blocks.coherence_s
