"""The generator of noise: integers bit for bit as in NumPy, normal numbers with their moments, no key twice."""

import numpy as np
import pytest
import torch

from wirelessdl.learning import draws
from wirelessdl.learning.clipping import wide
from wirelessdl.learning.draws import CounterGenerator, NodeDraws, most_rounds
from wirelessdl.streams import Streams

KEY = 0xFEDCBA9876543210


def numpy_words(counters, key):
    """The equations of the module, in unsigned arithmetic and one word after the other."""
    found = []
    for counter in counters:
        z = (counter * 0x9E3779B97F4A7C15 + key) % 2**64
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        found.append(z ^ (z >> 31))
    return np.array(found, dtype=np.uint64)


def normal(rows, size, first=None, key=KEY, dtype=torch.float64, device="cpu"):
    out = torch.empty(rows, size, dtype=dtype, device=device)
    start = torch.arange(rows) * ((size + 1) // 2) if first is None else torch.tensor(first)
    CounterGenerator(torch.device(device)).fill_normal(out, start.to(device), key)
    return out.cpu().numpy()


def test_words_are_those_of_unsigned_arithmetic(device):
    counters = [0, 1, 2, 12345, 2**40 + 3, 2**62 + 1]
    out = torch.empty(len(counters), 1, dtype=wide(torch.device(device)), device=device)
    CounterGenerator(torch.device(device)).fill_uniform(out, torch.tensor(counters, device=device), KEY)
    expected = (numpy_words(counters, KEY) >> np.uint64(11)) * 2.0**-53
    np.testing.assert_array_equal(out.cpu().numpy()[:, 0], expected.astype(out.cpu().numpy().dtype))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 2e-6)])
@pytest.mark.parametrize("size", [1, 7, 8])
def test_normal_numbers_are_box_and_mullers_of_the_words(size, dtype, tolerance, device):
    if dtype != torch.float32 and wide(torch.device(device)) != dtype:
        pytest.skip(f"{device} has no float64")
    first, half = [3, 10**9], (size + 1) // 2
    found = normal(2, size, first, dtype=dtype, device=device)
    for row, start in enumerate(first):
        z = numpy_words(range(start, start + half), KEY)
        radius = np.sqrt(-2 * np.log(((z & np.uint64(2**31 - 1)) + 0.5) / 2**31))
        angle = np.pi * (z >> np.uint64(32)).astype(np.uint32).astype(np.int32) / 2**31
        expected = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size]
        # radius 6.7 at most; single precision: an angle of 3 rounds by 1e-7
        np.testing.assert_allclose(found[row], expected, atol=7 * tolerance)


def test_pieces_make_no_difference(monkeypatch):
    whole = normal(5, 1001, dtype=torch.float32)
    monkeypatch.setattr(draws, "_WORDS", 64)
    np.testing.assert_array_equal(normal(5, 1001, dtype=torch.float32), whole)
    np.testing.assert_array_equal(normal(2, 1001, [2 * 501, 4 * 501], dtype=torch.float32), whole[[2, 4]])


def test_moments_are_those_of_the_normal_law():
    draws = normal(1000, 2000).reshape(-1)
    count = draws.size
    for power, expected, variance in ((1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)):
        assert abs((draws**power).mean() - expected) < 4 * np.sqrt(variance / count)
    beyond = np.mean(np.abs(draws) > 3.0)
    assert abs(beyond - 0.0026998) < 4 * np.sqrt(0.0027 / count)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param((0, KEY), (1000, KEY), id="next row"),
        pytest.param((0, KEY), (2**40, KEY), id="far counter"),
        pytest.param((0, KEY), (2**61, KEY), id="other purpose"),
        pytest.param((0, KEY), (0, KEY + 1), id="other key"),
    ],
)
def test_rows_of_different_counters_or_keys_are_uncorrelated(one, other):
    size = 2000
    a, b = (normal(200, size, [first + 10**6 * n for n in range(200)], key).reshape(-1) for first, key in (one, other))
    for left, right in ((a, b), (a**2 - 1, (b**2 - 1) / 2), (np.sign(a), np.sign(b))):
        scale = left.std() * right.std() * np.sqrt(a.size)
        assert abs((left * right).sum()) / np.sqrt(a.size) < 4 * scale / np.sqrt(a.size)
    halves = a.reshape(200, 2, size // 2)
    assert abs((halves[:, 0] * halves[:, 1]).mean()) < 4 / np.sqrt(a.size / 2)  # cos and sin of one word
    assert abs((a[:-1] * a[1:]).mean()) < 4 / np.sqrt(a.size)


def test_no_counter_is_used_twice_in_a_run(monkeypatch):
    """Of own noise, receiver noise, passes, pairs and dither, over rounds; and kinds end before the next begins."""
    used, nodes, size = [], 4, 7

    def note(words):
        def fill(_self, _out, first, _key):
            used.extend(first[:, None].add(torch.arange(words)).reshape(-1).tolist())

        return fill

    monkeypatch.setattr(CounterGenerator, "fill_normal", note((size + 1) // 2))
    monkeypatch.setattr(CounterGenerator, "fill_uniform", note(size))
    draws, low, high = NodeDraws(Streams(1), nodes, torch.device("cpu"), passes=2), *np.triu_indices(nodes, 1)
    rows = torch.empty(nodes, size)
    for round in (0, 1, 2, 3):
        for purpose in ("noise", "thermal", 0, 1):
            draws.fill_normal(rows, round, purpose)
        draws.fill_dither(rows, round)
        draws.fill_pairs(torch.empty(len(low), size), round, low, high)
    assert len(used) == 4 * (4 * nodes * 4 + nodes * size + len(low) * 4)
    assert len(set(used)) == len(used)
    last = most_rounds(nodes, size, pairs=True, passes=2)
    for kind, fill in enumerate(
        (
            lambda: draws.fill_normal(rows, last, 1),
            lambda: draws.fill_pairs(torch.empty(len(low), size), last, low, high),
            lambda: draws.fill_dither(rows, last),
        )
    ):
        used.clear()
        fill()
        assert kind * 2**61 <= min(used) <= max(used) < (kind + 1) * 2**61
