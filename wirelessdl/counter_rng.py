"""Counter-based random numbers: the draw of pair 3-7 depends on the pair only, not on which other pairs exist.

A channel model gets a generator with each call. One 64-bit word of it and the number of a pair select a place in the
SplitMix64 sequence. So the cost is that of the present links, not of all K^2 pairs, and adding or removing a link
changes no other link's draws.
"""

import numpy as np
from numpy.typing import NDArray

from wirelessdl.arrays import FloatArray, IntArray

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_TO_UNIT, _WORD = 2.0**-53, 2**64 - 1


def key(rng: np.random.Generator) -> int:
    """A seed of 64 bits, drawn from a generator."""
    word: int = rng.bit_generator.random_raw()  # what integers(0, 2**64) gives, in a third of the time
    return word


def word(seed: int, number: int) -> int:
    """A seed of 64 bits for each number, such as that of a round."""
    return int(_mixed(np.array([seed ^ (number * int(_STEP)) & _WORD], dtype=np.uint64))[0])


def uniform(word: int, number: IntArray, lanes: int = 1) -> FloatArray:
    """Uniform on (0, 1), `[lanes, len(number)]`: `lanes` independent draws for each number."""
    place = np.asarray(number).astype(np.uint64)[None, :] * np.uint64(lanes)
    place = place + np.arange(1, lanes + 1, dtype=np.uint64)[:, None]
    place *= _STEP
    place += np.uint64(word)
    unit = (_mixed(place) >> np.uint64(11)).astype(np.float64)
    unit += 0.5
    unit *= _TO_UNIT
    return unit


def complex_normal(word: int, number: IntArray) -> NDArray[np.complex128]:
    """CN(0, 1), `[len(number)]`."""
    radius, turn = uniform(word, number, 2)
    return np.asarray(np.sqrt(-np.log(radius)) * np.exp(2j * np.pi * turn))


def normal(word: int, number: IntArray) -> FloatArray:
    """N(0, 1), `[len(number)]`."""
    radius, turn = uniform(word, number, 2)
    return np.asarray(np.sqrt(-2.0 * np.log(radius)) * np.cos(2.0 * np.pi * turn))


def _mixed(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    word ^= word >> np.uint64(30)
    word *= _FIRST
    word ^= word >> np.uint64(27)
    word *= _SECOND
    word ^= word >> np.uint64(31)
    return word
