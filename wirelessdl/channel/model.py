"""What a channel model is, how models chain, and what is checked of every one.

A model is any object with

    gain(links, time_s, rng) -> |h| per link

Loss models add in dB and fading multiplies; amplitudes do both by multiplication. A model that only
adds small-scale fading of unit mean power declares `small_scale = True`, so that mean gains can leave it
out. What else a model may declare is in `wirelessdl.contract`. Each call gets a random stream of its own, keyed by
(model, call): whether a model draws from it changes no other model's draws.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol
from zlib import crc32

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.contract import Guard, capability
from wirelessdl.errors import ContractError
from wirelessdl.links import Links
from wirelessdl.streams import Streams


class ChannelModel(Protocol):
    def gain(self, links: Links, time_s: float, rng: np.random.Generator) -> FloatArray:
        """|h| of every link at time_s, `[links]`, finite and >= 0; time_s never decreases between calls."""
        ...


class Composable:
    """Lets `a >> b` chain models in Python; it is enough that one of the two is built in."""

    def __rshift__(self, other: ChannelModel) -> "Composite":
        return compose(self, other)  # type: ignore[arg-type]

    def __rrshift__(self, other: ChannelModel) -> "Composite":
        return compose(other, self)  # type: ignore[arg-type]


class Composite(Composable):
    """Models applied in turn as one model. Each has its own stream, keyed by its class and occurrence."""

    def __init__(self, models: Sequence[ChannelModel]):
        self.models = tuple(models)

    @property
    def small_scale(self) -> bool:
        """Whether every one of the models is small-scale fading."""
        return all(capability(model, "small_scale") for model in self.models)

    def gain(self, links: Links, time_s: float, rng: np.random.Generator) -> FloatArray:
        product, occurrences = np.ones(len(links)), Counter[str]()
        for model in self.models:
            name = type(model).__name__
            product = product * model.gain(links, time_s, _child(rng, name, occurrences[name]))
            occurrences[name] += 1
        return product

    def loss_db(self, links: Links) -> FloatArray:
        """Sum of the losses of the loss models among them, `[links]` dB."""
        return _summed_loss_db(self.models, links)


def compose(*models: ChannelModel) -> Composite:
    """The models as one: losses add in dB, fading multiplies. The same as `a >> b >> c`."""
    flat = [part for model in models for part in (model.models if isinstance(model, Composite) else (model,))]
    return Composite(flat)


def _child(rng: np.random.Generator, name: str, nth: int) -> np.random.Generator:
    sequence = rng.bit_generator.seed_seq
    if not isinstance(sequence, np.random.SeedSequence):
        return rng.spawn(1)[0]
    key = (*sequence.spawn_key, crc32(name.encode()), nth)
    return np.random.default_rng(np.random.SeedSequence(sequence.entropy, spawn_key=key))


def _summed_loss_db(models: Iterable[object], links: Links) -> FloatArray:
    total = np.zeros(len(links))
    for model in models:
        loss_db = capability(model, "loss_db")
        if loss_db is not None:
            total = total + loss_db(links)
    return total


@dataclass(frozen=True)
class Named:
    """A model with the name it has in messages and the key of its stream."""

    name: str
    stream: str
    model: ChannelModel


@dataclass(frozen=True, eq=False)
class Air:
    """|h| per link, `[links]` each: `now`, and `mean`, its root mean square over small-scale fading."""

    now: FloatArray
    mean: FloatArray


class Chain:
    """Models applied one after the other; what each returns is checked."""

    def __init__(self, models: Sequence[tuple[str, ChannelModel]], streams: Streams, prefix: str = "channel"):
        self.models: list[Named] = []
        for name, model in models:
            # keyed by name and occurrence, not position: adding a model changes no other model's draws
            nth = sum(named.name == name for named in self.models)
            self.models.append(Named(name, f"{prefix}.{name}.{nth}", model))
        self._streams = streams
        self._calls = 0
        self.warnings: list[str] = []  # of the first gains that are suspect
        # over all that each model has returned, by its stream: a resumed run must reproduce it
        self.checksums = {named.stream: 0 for named in self.models}

    def gain(self, links: Links, time_s: float) -> Air:
        """|h| of every link at one instant. Every model is called exactly once."""
        self._calls += 1
        now, mean = np.ones(len(links)), np.ones(len(links))
        loudest: list[tuple[float, str]] = []
        for named in self.models:
            rng = self._streams.draws(named.stream, self._calls)
            factor = _checked(named, _asked(named, links, time_s, rng), links)
            self.checksums[named.stream] = crc32(factor.tobytes(), self.checksums[named.stream])
            now = now * factor
            if not capability(named.model, "small_scale"):
                mean = mean * factor
                loudest.append((float(factor.max(initial=0.0)), named.name))
        if not self.warnings and mean.max(initial=0.0) > 1.0:
            self.warnings.append(
                f"channel.models: {max(loudest)[1]} gives an amplitude of {max(loudest)[0]:g}; more is received than "
                "was sent: is it in dB? return 10 ** (-loss_db / 20)"
            )
        return Air(now, mean)

    def loss_db(self, links: Links) -> FloatArray:
        """Sum of the losses of the loss models on candidate links, `[links]` dB."""
        return _summed_loss_db((named.model for named in self.models), links)


def _asked(named: Named, links: Links, time_s: float, rng: np.random.Generator) -> object:
    # a built-in's ValueError: out of the model's range, and the message says which value
    with Guard(f"{named.name}.gain", is_user_class=":" in named.name, built_in=f"channel model {named.name}: "):
        return named.model.gain(links, time_s, rng)


def _checked(named: Named, gain: object, links: Links) -> FloatArray:
    where = f"{named.name}.gain" if ":" in named.name else f"channel model {named.name}"
    try:
        if np.asarray(gain).dtype.kind == "c":
            raise ContractError(f"{where} returned complex numbers, expected amplitudes: return abs(h)")
        values = np.asarray(gain, dtype=np.float64)
    except (TypeError, ValueError):
        raise ContractError(f"{where} returned {type(gain).__name__}, expected one |h| per link") from None
    if values.shape != (len(links),):
        raise ContractError(f"{where} returned shape {values.shape}, expected {(len(links),)}, one |h| per link")
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        first = int(np.argmax(bad))
        raise ContractError(
            f"{where} returned {values[first]:g} for link {links.tx[first]} -> {links.rx[first]}, "
            f"expected a finite amplitude >= 0 ({int(bad.sum())} of {len(links)} links)"
        )
    return values
