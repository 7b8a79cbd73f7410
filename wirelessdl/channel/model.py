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

The slots of a frame are several instants in a row. Built-in models work them out together where that gives the same
numbers as one call after another, which is what `gain` defines (`gains`, `[instants, links]`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self, TypeAlias, runtime_checkable
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import FloatArray, read_only
from wirelessdl.contract import NON_NEGATIVE, Guard, Rule, capability, checked_array, guard_of
from wirelessdl.links import Instants, Links
from wirelessdl.scenario.objects import stream_name
from wirelessdl.streams import Streams


class ChannelModel(Protocol):
    def gain(self, links: Links, time_s: float, rng: np.random.Generator) -> FloatArray:
        """|h| of every link at time_s, `[links]`, finite and >= 0; time_s never decreases between calls."""
        ...


# the stream of each instant, by its place in the row; made when it is asked for
RngOf: TypeAlias = Callable[[int], np.random.Generator]


@runtime_checkable
class TakesInstants(Protocol):
    def gains(self, instants: Instants, rng_of: RngOf) -> FloatArray | None:
        """|h| at several instants, `[instants, links]`, as `gain` at one after the other; None: ask `gain`."""
        ...


class Composable:
    """Lets `a >> b` chain models in Python; it is enough that one of the two is built in.

    scenario_name: by which a scenario names a built-in class; made_with: the arguments of its constructor. Both are
    all that a scenario needs to make the model. A class derived from a built-in one has neither.
    """

    scenario_name: ClassVar[str]
    made_with: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *given: Any, **named: Any) -> Self:
        made = super().__new__(cls)
        if "scenario_name" in vars(cls):
            made.made_with = (given, named)
        return made

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

    @cached_property
    def gains(self) -> Callable[[Instants, RngOf], FloatArray | None] | None:
        """Of built-in models: several instants at once, None where they cannot. Never of a class derived from one."""
        built_in = type(self.model).__module__.startswith("wirelessdl.")
        return self.model.gains if built_in and isinstance(self.model, TakesInstants) else None

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
class Air:
    """|h| per link, `[links]` or `[instants, links]`: `now`, and `mean`, root mean square over small-scale fading.

    Of a chain with subbands `now` is `[..., subbands, links]`; `mean` is one for all subbands.
    """

    now: FloatArray
    mean: FloatArray


class Chain:
    """Models applied one after the other; what each returns is checked.

    offset_hz: [subbands] centres from the carrier, Hz; None for a band that is not divided.
    """

    def __init__(
        self,
        models: Sequence[tuple[str, ChannelModel]],
        streams: Streams,
        prefix: str = "channel",
        offset_hz: FloatArray | None = None,
    ):
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

    def gain(self, links: Links, time_s: float) -> Air:
        """|h| of every link at one instant. Every model is called exactly once."""
        air = self.gains(Instants((links,), (time_s,)))
        return Air(air.now[0], air.mean[0])

    def gains(self, instants: Instants) -> Air:
        """|h| of the same links at several instants, `[instants, links]`; as `gain` at one after the other."""
        shape = (len(instants), len(instants.links[0]))
        offset_hz = self.offset_hz
        now = np.ones(shape if offset_hz is None else (shape[0], len(offset_hz), shape[1]))
        mean = np.ones(shape)
        loudest: list[tuple[FloatArray, str]] = []
        for named in self.models:
            selective = offset_hz is not None and named.response is not None
            factor = self._selective(named, instants) if selective else self._factors(named, instants)
            self.checksums[named.stream] = crc32(factor.tobytes(), self.checksums[named.stream])
            now = now * (factor[:, None] if now.ndim > factor.ndim else factor)
            if not named.small_scale:
                overall = np.sqrt(np.mean(factor**2, axis=1)) if selective else factor
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
        return Air(now, mean)

    def _selective(self, named: Named, instants: Instants) -> FloatArray:
        """|h| that a model gives every subband at every instant, `[instants, subbands, links]`, checked."""
        assert named.response is not None
        assert self.offset_hz is not None
        rows = []
        for place, (links, time_s) in enumerate(zip(instants.links, instants.time_s)):
            with named.response_guard:
                row = named.response(links, time_s, self.offset_hz, self._rng(named, place))
            rows.append(np.abs(_checked_response(f"{named.name}.response", row, links, len(self.offset_hz))))
        return np.stack(rows)

    def _rng(self, named: Named, place: int) -> np.random.Generator:
        return self._streams.draws(named.stream, self._calls + 1 + place)

    def _factors(self, named: Named, instants: Instants) -> FloatArray:
        """What one model makes of every instant, `[instants, links]`, checked."""

        def rng(place: int) -> np.random.Generator:
            return self._rng(named, place)

        if named.gains is not None:
            with named.guard:
                found = named.gains(instants, rng)
            if found is not None:
                for row, links in (
                    zip(found, instants.links) if not (found < np.inf).all() or found.min(initial=0.0) < 0 else ()
                ):
                    named.checked(row, links)
                return found
        rows = []
        for place, (links, time_s) in enumerate(zip(instants.links, instants.time_s)):
            with named.guard:
                row = named.model.gain(links, time_s, rng(place))
            rows.append(named.checked(row, links))
        return rows[0][None] if len(rows) == 1 else np.stack(rows)

    def loss_db(self, links: Links) -> FloatArray:
        """Sum of the losses of the loss models on candidate links, `[links]` dB."""
        return _summed_loss_db((named.model for named in self.models), links)


_LOSSES = Rule("dB, inf where nothing is heard", lambda values: values > -np.inf)


def _checked(where: str, gain: object, links: Links, *, is_user_class: bool) -> FloatArray:
    rules: dict[str, Any] = {"place": links.place, "is_user_class": is_user_class}
    return checked_array(where, gain, (len(links),), "one |h| per link", NON_NEGATIVE, **rules)


def _checked_loss_db(where: str, loss_db: object, links: Links) -> FloatArray:
    return checked_array(where, loss_db, (len(links),), "one loss in dB per link", _LOSSES, place=links.place)


def _checked_response(where: str, response: object, links: Links, subbands: int) -> NDArray[np.complex128]:
    shape, each = (subbands, len(links)), "one h per subband and link"
    return checked_array(where, response, shape, each, place=links.place, dtype=np.complex128)
