"""What a channel model is, how models chain, and what is checked of every one.

A model is any object with

    gain(links, time_s, rng) -> |h| per link

Loss models add in dB and fading multiplies; amplitudes do both by multiplication. A model that only
adds small-scale fading of unit mean power declares `small_scale = True`, so that mean gains can leave it
out. What else a model may declare is in `wirelessdl.contract`. Each call gets a random stream of its own, keyed by
(model, call): whether a model draws from it changes no other model's draws.

A model that depends on frequency has `response(links, time_s, offset_hz, rng)`, complex h of every subband and link,
`[subbands, links]`; where a payload goes in several subbands it is asked instead of `gain`, which is h at the carrier.
Every other model is flat: all subbands have its gain.

The slots of a frame are several instants in a row. Built-in models work them out together, with the same numbers as one
call after another, which is what `gain` defines (`gains`, `[instants, links]`).

**Large-scale state is held.** Built-in models that follow places only (`placed`: losses, shadowing) are asked anew once
a node has moved by more than HELD_SHARE of the shortest correlation distance among them, at any motion where they
have none. Until then a level of correlation exp(-x / d) changes by sigma sqrt(2 (1 - exp(-2 HELD_SHARE))) rms at most,
0.42 dB at sigma = 3 dB; what fading does goes on from instant to instant.

**Phases.** h = |h| exp(i phase). A chain that is asked for phases adds those of fading and complex responses; without
a response each pair has a phase of its own besides, uniform on the circle. Both directions share it. Flight time, where
asked for, adds -2 pi f d / c at every frequency f; the phases of a Clarke process follow motion already.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self, TypeAlias, runtime_checkable
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from wirelessdl import counter_rng
from wirelessdl.arrays import FloatArray, read_only
from wirelessdl.channel.antennas import Antennas
from wirelessdl.contract import NON_NEGATIVE, Guard, Rule, capability, checked_array, guard_of
from wirelessdl.links import Instants, Links
from wirelessdl.scenario.objects import stream_name
from wirelessdl.streams import Streams
from wirelessdl.units import SPEED_OF_LIGHT_MPS


class ChannelModel(Protocol):
    def gain(self, links: Links, time_s: float, rng: np.random.Generator) -> FloatArray:
        """|h| of every link at time_s, `[links]`, finite and >= 0; time_s never decreases between calls."""


# the stream of each instant, by its place in the row; made when it is asked for
RngOf: TypeAlias = Callable[[int], np.random.Generator]
_LOOKED_AHEAD = 64  # instants, for one at which nodes have moved on
HELD_SHARE = 0.005  # of a correlation distance, by which a node moves before large-scale state is worked out again


@runtime_checkable
class TakesInstants(Protocol):
    def gains(self, instants: Instants, rng_of: RngOf) -> FloatArray:
        """|h| at several instants, `[instants, links]`, as `gain` at one after the other."""


@runtime_checkable
class HasPhases(Protocol):
    def amplitudes(self, instants: Instants, rng_of: RngOf) -> NDArray[np.complex128]:
        """h at several instants, `[instants, links]`; `gains` is its absolute value."""


class Composable:
    """Lets `a >> b` chain models in Python; it is enough that one of the two is built in.

    scenario_name: by which a scenario names a built-in class; made_with: the arguments of its constructor. Both are
    all that a scenario needs to make the model. A class derived from a built-in one has neither. placed: whether gains
    follow the places of nodes and nothing else; correlated_m: over which distance what is drawn by them is correlated.
    redrawn: whether it fades in blocks without a duration, and begins another whenever it is asked.
    """

    scenario_name: ClassVar[str]
    placed: ClassVar[bool] = False
    redrawn: bool = False
    made_with: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *given: Any, **named: Any) -> Self:
        made = super().__new__(cls)
        if "scenario_name" in vars(cls):
            made.made_with = (given, named)
        return made

    @property
    def correlated_m(self) -> float:
        return np.inf

    def __rshift__(self, other: ChannelModel) -> "Composite":
        return compose(self, other)  # type: ignore[arg-type]

    def __rrshift__(self, other: ChannelModel) -> "Composite":
        return compose(other, self)  # type: ignore[arg-type]


class Composite(tuple[ChannelModel, ...], Composable):
    """Models in a row. Handed to a scenario it is a list of models, which make the chain of the run.

    A user's model may ask it as one model; then each has its own stream, keyed by its class and occurrence.
    """

    def __new__(cls, models: Iterable[ChannelModel]) -> Self:
        return tuple.__new__(cls, models)

    def gain(self, links: Links, time_s: float, rng: np.random.Generator) -> FloatArray:
        """|h| of every link, `[links]`: the product over the models."""
        product = np.ones(len(links))
        for model, child in self._with_streams(rng):
            product = product * _gain(model, links, time_s, child)
        return product

    def response(
        self, links: Links, time_s: float, offset_hz: FloatArray, rng: np.random.Generator
    ) -> NDArray[np.complex128]:
        """h of every subband, `[subbands, links]` complex; flat models have the same in all of them."""
        product = np.ones((len(offset_hz), len(links)), np.complex128)
        for model, child in self._with_streams(rng):
            response = capability(model, "response")
            if response is None:
                product = product * _gain(model, links, time_s, child)
            else:
                guard = guard_of("channel.models", model, "response")
                with guard:
                    h = response(links, time_s, offset_hz, child)
                if guard.is_user_class:
                    h = _checked_response(guard.name, h, links, len(offset_hz))
                product = product * h
        return product

    def loss_db(self, links: Links) -> FloatArray:
        """Sum of the losses of the loss models among them, `[links]` dB."""
        return _summed_loss_db(self, links)

    def _with_streams(self, rng: np.random.Generator) -> Iterator[tuple[ChannelModel, np.random.Generator]]:
        occurrences = Counter[str]()
        for model in self:
            name = type(model).__name__
            yield model, _child(rng, name, occurrences[name])
            occurrences[name] += 1


def compose(*models: ChannelModel) -> Composite:
    """The models as one: losses add in dB, fading multiplies. The same as `a >> b >> c`."""
    return Composite(part for model in models for part in (model if isinstance(model, Composite) else (model,)))


def _child(rng: np.random.Generator, name: str, nth: int) -> np.random.Generator:
    sequence = rng.bit_generator.seed_seq
    if not isinstance(sequence, np.random.SeedSequence):
        return rng.spawn(1)[0]
    key = (*sequence.spawn_key, crc32(name.encode()), nth)
    return np.random.default_rng(np.random.SeedSequence(sequence.entropy, spawn_key=key))


def _gain(model: ChannelModel, links: Links, time_s: float, rng: np.random.Generator) -> FloatArray:
    """|h| that a model within another gives every link, `[links]`; of a user's class checked."""
    guard = guard_of("channel.models", model, "gain")
    with guard:
        gain = model.gain(links, time_s, rng)
    return _checked(guard.name, gain, links, is_user_class=True) if guard.is_user_class else gain


def _summed_loss_db(models: Iterable[object], links: Links) -> FloatArray:
    total = np.zeros(len(links))
    for model in models:
        loss_db = capability(model, "loss_db")
        if loss_db is not None:
            guard = guard_of("channel.models", model, "loss_db")
            with guard:
                loss = loss_db(links)
            total = total + (_checked_loss_db(guard.name, loss, links) if guard.is_user_class else loss)
    return total


@dataclass(frozen=True)
class Named:
    """A model with the name it has in messages and the key of its stream."""

    name: str
    stream: str
    model: ChannelModel

    @cached_property
    def small_scale(self) -> bool:
        return bool(capability(self.model, "small_scale"))

    @cached_property
    def response(self) -> Callable[..., Any] | None:
        """Of models that depend on frequency: complex h of every subband."""
        found: Callable[..., Any] | None = capability(self.model, "response")
        return found

    @property
    def _built_in(self) -> bool:
        """Never of a class derived from one, which may change `gain` alone."""
        return type(self.model).__module__.startswith("wirelessdl.")

    @cached_property
    def gains(self) -> Callable[[Instants, RngOf], FloatArray] | None:
        """Of built-in models: several instants at once."""
        return self.model.gains if self._built_in and isinstance(self.model, TakesInstants) else None

    @cached_property
    def amplitudes(self) -> Callable[[Instants, RngOf], NDArray[np.complex128]] | None:
        """Of built-in fading: complex h at several instants."""
        return self.model.amplitudes if self._built_in and isinstance(self.model, HasPhases) else None

    @cached_property
    def placed(self) -> bool:
        """Whether it follows the places of nodes and nothing else, so that it need not be asked while they rest."""
        return self._built_in and isinstance(self.model, Composable) and self.model.placed

    @property
    def correlated_m(self) -> float:
        """Shortest correlation distance of what it draws by places, m; inf without any."""
        return self.model.correlated_m if isinstance(self.model, Composable) else np.inf

    @cached_property
    def guard(self) -> Guard:
        return self._guard("gain")

    @cached_property
    def response_guard(self) -> Guard:
        return self._guard("response")

    def checked(self, gain: object, links: Links) -> FloatArray:
        """What the model gave these links, held to its contract."""
        is_user_class = ":" in self.name
        where = f"{self.name}.gain" if is_user_class else f"channel model {self.name}"
        return _checked(where, gain, links, is_user_class=is_user_class)

    def _guard(self, method: str) -> Guard:
        # a built-in's ValueError: out of the model's range, and the message says which value
        return Guard(f"{self.name}.{method}", is_user_class=":" in self.name, built_in=f"channel model {self.name}: ")


@dataclass(frozen=True, eq=False)
class ChannelGains:
    """|h| per link, `[links]` or `[instants, links]`: `now`, and `mean`, root mean square over small-scale fading.

    Of a chain with subbands `now` is `[..., subbands, links]`; `mean` is one for all subbands. phase_rad: of the shape
    of `now`, None from a chain that was not asked for phases. antennas: complex h of every antenna of the receivers,
    `[instants, M, links]`, of which `now` and `phase_rad` are the first; None without phases.
    """

    now: FloatArray
    mean: FloatArray
    phase_rad: FloatArray | None = None
    antennas: NDArray[np.complex128] | None = None

    @cached_property
    def h(self) -> NDArray[np.complex128]:
        """Complex h, of the shape of `now`."""
        assert self.phase_rad is not None
        return np.asarray(self.now * np.exp(1j * self.phase_rad))


class Chain:
    """Models applied one after the other; what each returns is checked.

    offset_hz: [subbands] centres from the carrier, Hz; None for a band that is not divided. phases: whether gains come
    with phases; flight_hz: carrier, Hz, of whose flight time phases tell besides, None for none. antennas: of
    receivers; several need phases, and a band that is not divided.
    """

    def __init__(
        self,
        models: Sequence[tuple[str, ChannelModel]],
        streams: Streams,
        prefix: str = "channel",
        offset_hz: FloatArray | None = None,
        *,
        phases: bool = False,
        flight_hz: float | None = None,
        antennas: Antennas | None = None,
    ):
        self.array = antennas or Antennas()
        self.offset_hz = None if offset_hz is None else read_only(offset_hz)
        self.models: list[Named] = []
        for name, model in models:
            # keyed by name and occurrence, not position: adding a model changes no other model's draws
            key = stream_name(name)
            nth = sum(stream_name(named.name) == key for named in self.models)
            self.models.append(Named(name, f"{prefix}.{key}.{nth}", model))
        self._streams = streams
        self._calls = 0
        self.warnings: list[str] = []  # of the first gains that are suspect
        # over all that each model has returned, by its stream: a resumed run must reproduce it
        self.checksums = {named.stream: 0 for named in self.models}
        reach_m = min((named.correlated_m for named in self.models if named.placed), default=np.inf)
        self._hold_m = HELD_SHARE * reach_m if reach_m < np.inf else 0.0
        self._kept: Links | None = None  # at the last instant about which models that follow places were asked
        self._factor: dict[str, FloatArray] = {}  # what each of them gave then, by its stream
        self._block: dict[str, tuple[FloatArray, FloatArray | None]] = {}  # what fading in blocks gave last, likewise
        self.phases = phases
        self._flight_hz = None if self.has_carrier_phase else flight_hz
        self._pair_word: int | None = None
        if phases and all(named.response is None for named in self.models):
            self._pair_word = counter_rng.key(streams.draws(f"{prefix}.phase"))

    @property
    def has_carrier_phase(self) -> bool:
        """Whether fading among the models turns the carrier's phase as links grow longer."""
        return any(named.response is not None or named.amplitudes is not None for named in self.models)

    def gain(self, links: Links, time_s: float) -> ChannelGains:
        """|h| of every link at one instant. Every model is called at most once."""
        found = self.gains(Instants((links,), (time_s,)))
        return ChannelGains(found.now[0], found.mean[0], None if found.phase_rad is None else found.phase_rad[0])

    def gains(self, instants: Instants, wanted: Links | None = None, *, goes_on: bool = False) -> ChannelGains:
        """|h| of the same links at several instants, `[instants, links]`; as `gain` at one after the other.

        wanted: those of the links whose gains are wanted, None for all. Models that follow each link through time are
        asked for all of them all the same. goes_on: within the block that was asked for last, for fading that would
        begin another at every call.
        """
        instants, fresh = self._hold(instants)
        several, chosen, some = self.array.count > 1, None, instants
        if wanted is not None and not wanted.alike(every := instants.links[0]):
            chosen = np.searchsorted(every.number, wanted.number)
            some = instants.only(wanted, chosen)
        spread = self.array.over(some) if several else some
        shape = (len(some), len(some.links[0]))
        offset_hz = self.offset_hz
        now = np.ones((shape[0], len(spread.links[0])) if offset_hz is None else (shape[0], len(offset_hz), shape[1]))
        mean = np.ones(shape)
        phase = np.zeros_like(now) if self.phases else None
        if phase is not None and self._pair_word is not None:
            phase += 2.0 * np.pi * counter_rng.uniform(self._pair_word, spread.links[0].pair)[0]
        if phase is not None and self._flight_hz is not None:
            flight_s = np.tile(some.distance_m, self.array.count) / SPEED_OF_LIGHT_MPS
            if offset_hz is None:
                phase -= 2.0 * np.pi * (self._flight_hz * flight_s % 1.0)
            else:
                phase -= 2.0 * np.pi * ((self._flight_hz + offset_hz[:, None]) * flight_s[:, None] % 1.0)
        loudest: list[tuple[FloatArray, str]] = []
        for named in self.models:
            turn = None
            redrawn = isinstance(named.model, Composable) and named.model.redrawn
            each = several and named.small_scale  # antennas fade by themselves
            selective = named.response is not None and (offset_hz is not None or self.phases)
            if goes_on and redrawn:
                factor, turn = self._block[named.stream]
            elif named.placed:
                factor = self._at_places(named, instants, fresh)[:, slice(None) if chosen is None else chosen]
                factor = factor[instants.place]
            elif named.amplitudes is not None and not redrawn and not selective:
                factor, turn = self._factors(named, spread if each else some)  # of a link, whatever others are asked
            else:
                asked = self.array.over(instants) if each else instants
                factor, turn = self._selective(named, asked) if selective else self._factors(named, asked)
            if redrawn:
                self._block[named.stream] = factor[-1:], None if turn is None else turn[-1:]
            if chosen is not None and factor.shape[-1] != (now.shape[-1] if each else shape[1]):
                of = self.array.copies(chosen, len(instants.links[0])) if each else chosen
                factor, turn = factor[..., of], None if turn is None else turn[..., of]
            if phase is not None and turn is not None:
                phase += turn[:, None] if phase.ndim > turn.ndim else turn
            if several and not each:
                now = now * np.tile(factor, self.array.count)
            else:
                now = now * (factor[:, None] if now.ndim > factor.ndim else factor)
            if not named.small_scale:
                overall = np.sqrt(np.mean(factor**2, axis=1)) if factor.ndim > mean.ndim else factor
                mean = mean * overall
                loudest.append((overall, named.name))
        if not self.warnings and mean.max(initial=0.0) > 1.0:
            place = int(np.argmax(mean.max(axis=1) > 1.0))
            amplitude, name = max((float(factor[place].max()), name) for factor, name in loudest)
            self.warnings.append(
                f"channel.models: {name} gives an amplitude of {amplitude:g}; more is received than "
                "was sent: is it in dB? return 10 ** (-loss_db / 20)"
            )
        self._calls += len(instants)
        if phase is None or offset_hz is not None:
            return ChannelGains(now, mean, phase)
        h = self.array.correlated((now * np.exp(1j * phase)).reshape(shape[0], self.array.count, shape[1]))
        now, phase = now[:, : shape[1]], phase[:, : shape[1]]
        return ChannelGains(now, mean, phase, h)

    def _hold(self, instants: Instants) -> tuple[Instants, Instants]:
        """The instants with the places that hold in them, and those places that were not held before."""
        kept, fresh = self._kept, list[int]()
        here, number, at = instants.links[0], 0, np.zeros(len(instants), dtype=np.int64)
        if kept is not None and not (kept is here or kept.alike(here)):
            kept = None
        while number < len(instants):
            if kept is not None:
                moved = _moved_m(instants, kept, slice(number, number + _LOOKED_AHEAD)) > self._hold_m
                held = int(np.argmax(moved)) if moved.any() else len(moved)
                at[number : number + held] = len(fresh)
                number += held
                if held == len(moved) or number == len(instants):
                    continue
            kept = instants.links[number]
            fresh.append(number)
            at[number] = len(fresh)
            number += 1
        new = Instants(
            tuple(instants.links[n] for n in fresh),
            tuple(instants.time_s[n] for n in fresh),
            number=tuple(fresh),
        )
        places = new
        if at[0] == 0:  # the first has the place kept from before
            assert self._kept is not None
            places = Instants((self._kept, *new.links), (instants.time_s[0], *new.time_s))
        self._kept = kept
        return replace(instants, places=places, place=at - at[0]), new

    def _at_places(self, named: Named, instants: Instants, fresh: Instants) -> FloatArray:
        """What a model that follows places makes of them, `[places, links]`; asked about new ones only."""
        rows = []
        if instants.places is not fresh:
            rows.append(self._factor[named.stream][None])
        if len(fresh):
            rows.append(self._factors(named, fresh)[0])
        factor = rows[0] if len(rows) == 1 else np.concatenate(rows)
        self._factor[named.stream] = factor[-1]
        return factor

    def _selective(self, named: Named, instants: Instants) -> tuple[FloatArray, FloatArray]:
        """|h| and phase in every subband, `[instants, subbands, links]` each, or `[instants, links]`; checked."""
        assert named.response is not None
        offset_hz = np.zeros(1) if self.offset_hz is None else self.offset_hz
        rows = []
        for place, (links, time_s) in enumerate(zip(instants.links, instants.time_s)):
            with named.response_guard:
                row = named.response(links, time_s, offset_hz, self._rng(named, place))
            rows.append(_checked_response(f"{named.name}.response", row, links, len(offset_hz)))
        h = np.stack(rows) if self.offset_hz is not None else np.concatenate(rows)
        return self._noted(named, np.abs(h)), np.angle(h)

    def _rng(self, named: Named, place: int) -> np.random.Generator:
        return self._streams.draws(named.stream, self._calls + 1 + place)

    def _noted(self, named: Named, factor: FloatArray) -> FloatArray:
        self.checksums[named.stream] = crc32(factor.tobytes(), self.checksums[named.stream])
        return factor

    def _factors(self, named: Named, instants: Instants) -> tuple[FloatArray, FloatArray | None]:
        """|h| and phase that one model gives at every instant, `[instants, links]` each, checked; None: no phase."""
        turn = None

        def rng(place: int) -> np.random.Generator:
            return self._rng(named, place if instants.number is None else instants.number[place])

        if self.phases and named.amplitudes is not None:
            with named.guard:
                h = named.amplitudes(instants, rng)
            found, turn = np.abs(h), np.angle(h)
        elif named.gains is not None:
            with named.guard:
                found = named.gains(instants, rng)
        else:
            rows = []
            for place, (links, time_s) in enumerate(zip(instants.links, instants.time_s)):
                with named.guard:
                    row = named.model.gain(links, time_s, rng(place))
                rows.append(named.checked(row, links))
            return self._noted(named, np.stack(rows)), None
        if not (found < np.inf).all() or found.min(initial=0.0) < 0:
            for row, links in zip(found, instants.links):
                named.checked(row, links)
        return self._noted(named, found), turn

    def loss_db(self, links: Links) -> FloatArray:
        """Sum of the losses of the loss models on candidate links, `[links]` dB."""
        return _summed_loss_db((named.model for named in self.models), links)


def _moved_m(instants: Instants, kept: Links, some: slice) -> FloatArray:
    """How far the node has moved that has moved furthest, of some of the instants, `[n]` m."""
    away_m = instants.motion.position_m[some] - kept.geometry.position_m
    return np.asarray(np.sqrt(np.einsum("tka,tka->tk", away_m, away_m).max(axis=1, initial=0.0)))


_LOSSES = Rule("dB, inf where nothing is heard", lambda values: values > -np.inf)


def _checked(where: str, gain: object, links: Links, *, is_user_class: bool) -> FloatArray:
    rules: dict[str, Any] = {"place": links.place, "is_user_class": is_user_class}
    return checked_array(where, gain, (len(links),), "one |h| per link", NON_NEGATIVE, **rules)


def _checked_loss_db(where: str, loss_db: object, links: Links) -> FloatArray:
    return checked_array(where, loss_db, (len(links),), "one loss in dB per link", _LOSSES, place=links.place)


def _checked_response(where: str, response: object, links: Links, subbands: int) -> NDArray[np.complex128]:
    shape, each = (subbands, len(links)), "one h per subband and link"
    return checked_array(where, response, shape, each, place=links.place, dtype=np.complex128)
