"""What an instant of the air costs, against the least it could, one complex normal number per link; and subbands.

Rounds of subbands are measured in processor time: what other processes do meanwhile is none of their cost.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from bench.suites import FLAGSHIP, Contest, bare_rounds
from wirelessdl.channel.fading import Rayleigh
from wirelessdl.channel.los import ChannelCondition
from wirelessdl.channel.model import Chain, ChannelModel
from wirelessdl.channel.pathloss.standard import SidelinkUrban
from wirelessdl.channel.shadowing import Shadowing
from wirelessdl.links import Geometry, Links
from wirelessdl.run.build import build
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.streams import Streams

_STEPS = 10  # instants of a measurement
_ROUNDS = 30


def contests() -> Iterator[Contest]:
    for nodes, target in ((200, 8.0), (20, None)):
        yield Contest(
            f"loss + shadowing + Clarke, K={nodes}, everyone moving, against a bare complex normal draw",
            ours=Instants(nodes).step,
            other=Bare(nodes * (nodes - 1)).step,
            at_most=target,
            repeats=15,
        )
    flat = _rounds("rayleigh", 1)
    yield _sixteen("against a flat channel", _rounds("tdl", 16), flat)
    for words, overrides in _BANDS.items():
        yield _sixteen(words, *(_rounds("tdl", subbands, *overrides) for subbands in (16, 1)))


def _sixteen(words: str, ours: Callable[[], float], other: Callable[[], float]) -> Contest:
    name = f"softmax K=20, processor time of rounds in 16 subbands {words}"
    return Contest(name, ours=ours, other=other, at_most=2.5, reported=True)


# what 16 subbands are compared in, against one: the flagship's overrides
_BANDS: dict[str, tuple[str, ...]] = {
    "against one": (),
    "against one, linear program": ("power.objective=sum", "power.alpha_min=1e-6"),
    "against one, strangers and pilots": ("radio.interference=physical", "radio.csi={kind='pilots',symbols=4}"),
}


def _rounds(fading: str, subbands: int, *more: str) -> Callable[[], float]:
    """Seconds of processor time of the flagship's rounds on a band of 20 MHz, without events and tables."""
    models = f"[{{model='sidelink-urban'}},{{model='shadowing'}},{{model='{fading}',process='clarke'}}]"
    overrides = [
        f"scenario.rounds={_ROUNDS}",
        f"channel.models={models}",
        "radio.bandwidth_hz=2e7",
        f"radio.subbands={subbands}",
        *more,
    ]
    world = build(load_scenario(FLAGSHIP, overrides=overrides))
    return partial(bare_rounds, world, _ROUNDS)


class Instants:
    """A chain of models, all nodes in motion, one instant after another."""

    def __init__(self, nodes: int):
        rng = np.random.default_rng(0)
        start = np.column_stack([rng.uniform(0, 500, (nodes, 2)), np.full(nodes, 1.5)])
        self._geometry = Geometry(start, np.column_stack([rng.normal(0, 1, (nodes, 2)), np.zeros(nodes)]))
        self._links = Links.from_mask(np.ones((nodes, nodes), dtype=bool), self._geometry)
        condition = ChannelCondition("auto", "sidelink-urban", Streams(0))
        models: list[tuple[str, ChannelModel]] = [
            ("sidelink-urban", SidelinkUrban(3.5e9, condition)),
            ("shadowing", Shadowing(condition)),
            ("rayleigh", Rayleigh(3.5e9, process="clarke")),
        ]
        self._chain = Chain(models, Streams(0))
        self._time_s = 0.0

    def step(self) -> None:
        for _ in range(_STEPS):
            self._time_s += 0.01
            start, velocity = self._geometry.position_m, self._geometry.velocity_mps
            self._links = self._links.at(Geometry(start + self._time_s * velocity, velocity))
            self._chain.gain(self._links, self._time_s)


class Bare:
    """Complex normal numbers and nothing else."""

    def __init__(self, links: int):
        self._links, self._rng = links, np.random.default_rng(0)

    def step(self) -> None:
        for _ in range(_STEPS):
            real, imaginary = self._rng.standard_normal((2, self._links))
            _ = (real + 1j * imaginary) / np.sqrt(2.0)
