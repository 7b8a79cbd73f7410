"""Counted releases: comparing them, bounding many senders by one, and states that are refused."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirelessdl.privacy.counts import GRID, ReleaseCounts

WIDTH = GRID.cells + 1


def counted(*streams):
    """Counts of these streams, {cell: number} each."""
    entries = [(stream * WIDTH + cell + 1, n) for stream, cells in enumerate(streams) for cell, n in cells.items()]
    counts = ReleaseCounts()
    counts.restore(np.array(entries, dtype=np.int64).reshape(-1, 2).T)
    return counts


def matched(mine, its):
    """Whether every release of `its` has one of no more noise in `mine`, each used once: by sorting both."""
    ours, theirs = (sorted(cell for cell, n in some.items() for _ in range(n)) for some in (mine, its))
    return len(ours) >= len(theirs) and all(a <= b for a, b in zip(ours, theirs))


def test_the_grid_starts_at_a_thousandth_in_steps_of_a_hundredth():
    np.testing.assert_allclose(GRID.nu(np.array([0, 1, 100])), [1e-3, 1.01e-3, 1e-3 * 1.01**100], rtol=1e-12)
    assert GRID.nu(np.array([-1])).tolist() == [0.0]
    assert 1e4 <= GRID.nu(np.array([GRID.cells - 1]))[0] < 1.01e4
    inside = GRID.nu(np.array([0, 7, 900])) * 1.005
    assert GRID.cell(inside).tolist() == [0, 7, 900]
    assert GRID.cell(np.array([0.0, 9e-4, 1e9, np.inf])).tolist() == [-1, -1, GRID.cells - 1, GRID.cells - 1]


def test_noise_is_rounded_down_by_less_than_a_cell():
    nu = np.geomspace(1.001e-3, 9.9e3, 10_000)
    kept = GRID.nu(GRID.cell(nu))
    assert (kept <= nu * (1 + 1e-12)).all()
    assert (kept > nu / GRID.ratio * (1 - 1e-12)).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 150))
def test_counts_equal_a_loop_over_releases(seed, slots):
    rng, streams = np.random.default_rng(seed), 4
    counts, expected = ReleaseCounts(), [{} for _ in range(streams)]
    for slot in range(slots):
        stream = np.flatnonzero(rng.random(streams) < 0.7)
        mu = rng.choice([0.0, 0.1, 0.1004, 0.3, 2000.0, np.inf], len(stream))
        counts.record(stream, mu)
        for node, value in zip(stream.tolist(), mu.tolist()):
            if value > 0:
                cell = -1 if value > 1e3 else math.floor(math.log(1 / value / 1e-3) / math.log(1.01))
                expected[node][cell] = expected[node].get(cell, 0) + 1
        if slot == 20:  # as a resumed run finds them
            kept, counts = counts.state(), ReleaseCounts()
            counts.restore(kept[:, ::-1])  # in any order
        if slot % 40 == 30:
            counts.by_stream(streams)  # looking changes nothing
    assert counts.by_stream(streams) == expected
    assert counts.by_stream(streams + 1) == [*expected, {}]
    assert counts.rounds(streams).tolist() == [sum(cells.values()) for cells in expected]
    stream, cell, number = counts.entries()
    rows = sorted((node, cell, n) for node, cells in enumerate(expected) for cell, n in cells.items())
    assert list(zip(stream.tolist(), cell.tolist(), number.tolist())) == rows
    number[:] = 0
    assert counts.rounds(streams).tolist() == [sum(cells.values()) for cells in expected]


def test_cells_are_told_apart_from_the_first_on():
    counts = ReleaseCounts()
    for mu, cells in ((math.inf, {-1: 1}), (1 / 1.005e-3, {-1: 1, 0: 1})):
        counts.record(np.array([0]), np.array([mu]))
        assert counts.by_stream(1) == [cells]


def test_fewer_releases_or_more_noise_are_noticed_where_a_matching_says_so():
    kinds = [dict(zip((3, 5, 8), n)) for n in itertools.product(range(3), repeat=3)]
    kinds = [{cell: n for cell, n in kind.items() if n} for kind in kinds]
    for mine in kinds:
        fewer = counted(*[mine] * len(kinds)).fewer_than(counted(*kinds))
        assert fewer.tolist() == [stream for stream, its in enumerate(kinds) if not matched(mine, its)]


@pytest.mark.parametrize(
    ("key", "count"),
    [
        ([-1, 5], [1, 1]),
        ([5, 2 * WIDTH], [1, 1]),
        ([5, 6], [1, 0]),
        ([5, 5], [1, 1]),
        ([5, -6], [1, -1]),
        ([5], [1 << 31]),
    ],
)
def test_states_of_other_streams_or_of_no_releases_do_not_fit(key, count):
    counts = ReleaseCounts()
    assert not counts.fits(np.array([key, count]), 2)
    assert counts.fits(np.array([[0, 5, 2 * WIDTH - 1], [1, 2, 3]]), 2)


def test_what_was_just_recorded_is_in_every_answer():
    for answer, expected in (
        (lambda counts: [column.tolist() for column in counts.entries()], [[0, 2], [700, 700], [1, 1]]),
        (lambda counts: counts.rounds(3).tolist(), [1, 0, 1]),
        (lambda counts: counts.by_stream(3), [{700: 1}, {}, {700: 1}]),
        (lambda counts: counts.most_cells(), 1),
        (lambda counts: counts.state().tolist(), [[701, 2 * WIDTH + 701], [1, 1]]),
    ):
        counts = ReleaseCounts()
        counts.record(np.array([2, 0]), 1 / np.full(2, 1e-3 * 1.01**700 * 1.005))
        assert answer(counts) == expected


def test_most_cells_are_those_of_one_stream():
    assert ReleaseCounts().most_cells() == 0
    assert counted({3: 2, 5: 1}, {}, {5: 1, -1: 4, 9: 1}, {1: 7}).most_cells() == 3


def test_renumbered_streams_keep_their_releases():
    again = counted({3: 2}, {}, {5: 1, -1: 4}).renumbered(np.array([4, 0, 1]))
    assert again.by_stream(5) == [{}, {-1: 4, 5: 1}, {}, {}, {3: 2}]


def test_slots_that_were_just_recorded_are_compared_too():
    one, two = ReleaseCounts(), ReleaseCounts()
    for counts, slots in ((one, 1), (two, 2)):
        for _ in range(slots):
            counts.record(np.array([0]), np.array([0.5]))
    assert one.fewer_than(two).tolist() == [0]
    one.record(np.array([1]), np.array([0.5]))
    two.record(np.array([1]), np.array([0.5]))
    assert two.fewer_than(one).tolist() == []
