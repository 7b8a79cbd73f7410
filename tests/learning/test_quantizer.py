"""The quantiser of messages: levels, scales, no bias, and nothing that depends on a model without its noise."""

import numpy as np
import pytest
import torch

from wirelessdl.learning.superposition import Quantizer, single_above


def rounded(values, bits, block, draws, seed=1):
    """`draws` independent roundings of the same values, `[draws, m]`."""
    w = torch.tensor(values, dtype=torch.float64).repeat(draws, 1)
    dither = torch.rand(w.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    Quantizer(bits, block).apply_(w, dither)
    return w.numpy()


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_the_mean_over_dither_is_the_value(bits):
    values = np.random.default_rng(3).normal(size=37) * np.geomspace(1e-3, 10, 37)
    draws = 20_000
    found = rounded(values, bits, 10, draws)
    largest = torch.tensor(np.repeat([np.abs(values[n : n + 10]).max() for n in range(0, 37, 10)], 10)[:37])
    scale = single_above(largest).numpy()
    step = 2 * scale / (2**bits - 1)
    up = (values + scale) / step % 1  # how often a value goes to the level above it
    standard_error = step * np.sqrt(up * (1 - up) / draws)
    error = np.abs(found.mean(axis=0) - values)
    # three standard errors each; of 37 values one in ten seeds has one beyond it, this one has none
    assert (error <= 3 * standard_error + 1e-15).all()
    assert (np.abs(found - values) <= step * (1 + 1e-9)).all()


def test_levels_and_scale_by_hand():
    w = torch.tensor([[0.0, 3.0, -1.0, 0.5, 0.0, 0.0]], dtype=torch.float64)
    Quantizer(2, 4).apply_(w, torch.full((1, 6), 0.5, dtype=torch.float64))
    # levels -3 -1 1 3; (w + 3) / 2 = 1.5 3 1 1.75, plus a half and rounded down 2 3 1 2; a block of zeros stays
    assert w.tolist() == [[1.0, 3.0, -1.0, 1.0, 0.0, 0.0]]


def test_scales_are_single_precision_and_never_below_the_largest():
    values = torch.tensor(np.random.default_rng(5).normal(size=1000) ** 3)
    above = single_above(values.abs())
    assert (above >= values.abs()).all()
    assert (above.to(torch.float32).to(torch.float64) == above).all()
    assert ((above - values.abs()) <= 2**-23 * values.abs()).all()


def test_32_bits_are_exact_to_single_precision():
    values = np.random.default_rng(7).normal(size=500)
    assert np.abs(rounded(values, 32, 256, 1)[0] - values).max() < 2e-9


def test_each_block_has_a_scale_of_its_own():
    small, large = np.full(8, 1e-4), np.full(8, 100.0)
    found = rounded(np.concatenate([small, large]), 4, 8, 50)
    assert np.abs(found[:, :8]).max() <= 1.0001e-4
