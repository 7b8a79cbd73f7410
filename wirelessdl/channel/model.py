"""What a channel model is, how models chain, and what is checked of every one.

A model is any object with

    gain(links, time_s, rng) -> |h| per link

Loss models add in dB and fading multiplies; amplitudes do both by multiplication. A model that only
adds small-scale fading of unit mean power says `small_scale = True`, so that mean gains can leave it
out. Each call gets a stream of its own, keyed by (model, call): a model may use it or not, and no
other model's draws move.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from zlib import crc32

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.errors import ContractError
from wirelessdl.links import Links
from wirelessdl.scenario.part import told
from wirelessdl.streams import Streams


class ChannelModel(Protocol):
    def gain(self, links: Links, time_s: float, rng: np.random.Generator) -> FloatArray: ...


@dataclass(frozen=True)
class Named:
    """A model with the name it has in messages and the key of its stream."""

    name: str
    stream: str
    model: ChannelModel


@dataclass(frozen=True, eq=False)
class Air:
    """|h| per link: `now`, and its root `mean` square over small-scale fading."""

    now: FloatArray
    mean: FloatArray


class Chain:
    """Models applied in turn, each held to the contract."""

    def __init__(self, models: Sequence[tuple[str, ChannelModel]], streams: Streams, prefix: str = "channel"):
        self.models: list[Named] = []
        for name, model in models:
            # keyed by name and occurrence, not position: a new neighbour shifts nobody's draws
            nth = sum(named.name == name for named in self.models)
            self.models.append(Named(name, f"{prefix}.{name}.{nth}", model))
        self._streams = streams
        self._calls = 0
        # of all each model ever returned, by its stream: a replay must come to the same
        self.checksums = {named.stream: 0 for named in self.models}

    def gain(self, links: Links, time_s: float) -> Air:
        """|h| of every link at one instant. Every model is asked exactly once."""
        self._calls += 1
        now, mean = np.ones(len(links)), np.ones(len(links))
        for named in self.models:
            rng = self._streams.draws(named.stream, self._calls)
            factor = _checked(named, _asked(named, links, time_s, rng), links)
            self.checksums[named.stream] = crc32(factor.tobytes(), self.checksums[named.stream])
            now = now * factor
            if not getattr(named.model, "small_scale", False):
                mean = mean * factor
        return Air(now, mean)

    def loss_db(self, links: Links) -> FloatArray:
        """What the loss models alone take away on candidate links."""
        total = np.zeros(len(links))
        for named in self.models:
            if hasattr(named.model, "loss_db"):
                total = total + named.model.loss_db(links)
        return total


def _asked(named: Named, links: Links, time_s: float, rng: np.random.Generator) -> object:
    try:
        return named.model.gain(links, time_s, rng)
    except Exception as error:
        if ":" in named.name:
            raise ContractError(f"{named.name}.gain raised {told(error)}") from error
        if isinstance(error, ValueError):  # out of a model's range: the message says which value
            raise ContractError(f"channel model {named.name}: {error}") from error
        raise


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
