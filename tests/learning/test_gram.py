"""Second moments of rows: a sensitivity that is attained and never exceeded, and preconditioners in loops."""

import math

import numpy as np
import pytest
import torch

from wirelessdl.learning.gram import Gram, frames_of, preconditioner, transformed, triangle, unit_rows
from wirelessdl.mechanism.gram import GramStage

DIMENSIONS = 9


def stage(adjacency, samples):
    return GramStage(1, 1.0, 1.0, np.ones(1), samples, adjacency).sensitivity


def hostile(chance, dtype):
    """Rows that rounding may take beyond norm 1: of any size, nearly equal, one number large, denormal, zero."""
    row = chance.standard_normal(DIMENSIONS)
    kind = chance.integers(7)
    if kind == 0:
        row = np.full(DIMENSIONS, chance.uniform(0.5, 2.0))
    elif kind == 1:
        row *= 10.0 ** chance.integers(-30, 30)
    elif kind == 2:
        row[chance.integers(DIMENSIONS)] *= 1e12
    elif kind == 3:
        row *= np.finfo(dtype).tiny / 4
    elif kind == 4:
        row = np.eye(DIMENSIONS)[chance.integers(DIMENSIONS)] * 3.0
    elif kind == 5:
        row *= np.finfo(dtype).max / 1e3 / np.abs(row).max()
    elif kind == 6:
        row[:] = 0.0
    with np.errstate(over="ignore", under="ignore"):
        return row.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_two_rows_move_a_triangle_by_more_than_the_sensitivity(dtype):
    chance, others = np.random.default_rng(5), np.random.default_rng(6).standard_normal((40, DIMENSIONS)).astype(dtype)
    allowed, zeroed = stage("replace-one", 41), stage("zero-out", 41)
    without, most, most_zeroed = triangle(others), 0.0, 0.0
    for _ in range(800):
        one, other = (triangle(np.vstack([others, hostile(chance, dtype)[None]])) for _ in range(2))
        most = max(most, float(np.linalg.norm(one - other)))
        most_zeroed = max(most_zeroed, float(np.linalg.norm(one - without)))
    assert math.sqrt(2.0) * (1 - 1e-5) < most <= allowed
    assert 1 - 1e-5 < most_zeroed <= zeroed
    assert allowed < math.sqrt(2.0) * (1 + 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_scaled_to_1_never_exceed_it_in_exact_arithmetic(dtype):
    """Norms of what is really multiplied, by fractions: a float32 row of norm 1 may reach 1 + 1e-7."""
    from fractions import Fraction

    chance = np.random.default_rng(7)
    for _ in range(300):
        row = unit_rows(hostile(chance, dtype)[None])[0]
        square = sum((Fraction(float(value)) ** 2 for value in row), Fraction(0))
        assert square == 0 or 1 - 2.0**-18 < square <= 1


def test_orthogonal_rows_attain_the_sensitivity():
    rows = np.eye(DIMENSIONS, dtype=np.float32) * 10
    moved = np.linalg.norm(triangle(rows[:1]) - triangle(rows[1:2]))
    assert moved == pytest.approx(stage("replace-one", 1), rel=3e-6)
    assert np.linalg.norm(triangle(rows[:1])) == pytest.approx(stage("zero-out", 1), rel=3e-6)


def test_the_preconditioner_is_the_one_in_loops():
    """Eigenvalues of what was received over its trace, floored where its least one shows the edge of the noise."""
    chance = np.random.default_rng(3)
    rows = chance.standard_normal((300, DIMENSIONS)) * np.linspace(3.0, 0.1, DIMENSIONS)
    noise = 0.02 * chance.standard_normal(DIMENSIONS * (DIMENSIONS + 1) // 2)
    for added in (0.0, 300.0):
        received = 0.37 * (triangle(rows) + added * noise)
        matrix, place = np.zeros((DIMENSIONS, DIMENSIONS)), 0
        for i in range(DIMENSIONS):
            for j in range(i, DIMENSIONS):
                matrix[i, j] = matrix[j, i] = received[place] / (1.0 if i == j else math.sqrt(2.0))
                place += 1
        value, vector = np.linalg.eigh(matrix / np.trace(matrix))
        floor = max(0.01, -value[0])
        assert (floor > 0.01) == (added > 0)
        expected = sum(
            math.sqrt(floor / max(value[k], floor)) * np.outer(vector[:, k], vector[:, k]) for k in range(DIMENSIONS)
        )
        found = preconditioner(received, DIMENSIONS)
        np.testing.assert_allclose(found, expected, atol=1e-12)
        turned = transformed(torch.from_numpy(rows), torch.from_numpy(found)).numpy()
        np.testing.assert_allclose(np.linalg.norm(turned, axis=1), np.linalg.norm(rows, axis=1), rtol=1e-12)
    assert preconditioner(-received, DIMENSIONS) is None


def test_a_triangle_is_sent_once_whole_in_frames_and_who_missed_one_keeps_its_rows():
    chance = np.random.default_rng(8)
    stored = torch.from_numpy(chance.standard_normal((30, DIMENSIONS)).astype(np.float32))
    clients = [np.arange(0, 10), np.arange(10, 30)]
    gram = Gram(2, DIMENSIONS, 20, torch.float64)
    assert gram.frames == frames_of(DIMENSIONS, 20) == 3  # 45 numbers
    for frame in range(1, 4):
        sent = gram.sent(frame, slice(0, 2), stored, clients, None)
        gram.take(frame, sent, np.array([False, frame == 2]))
    expected = triangle(stored.numpy()[:10])
    np.testing.assert_array_equal(gram.heard[0, :45].numpy(), expected)
    assert gram.got.tolist() == [[True] * 3, [True, False, True]]
    assert not torch.equal(gram.rows(0, stored), stored)
    assert torch.equal(gram.rows(1, stored), stored)
    zeroed = Gram(2, DIMENSIONS, 45, torch.float64).sent(1, slice(0, 1), stored, clients, 4)[0]
    np.testing.assert_allclose(zeroed.numpy(), triangle(np.delete(stored.numpy()[:10], 4, axis=0)))
