"""Columns made from buffers are those that pyarrow makes."""

import numpy as np
import pyarrow as pa
import pytest

from wirelessdl.trace.sink import arrow_array

MASK = np.array([False, True, False, False, True, False, True, True, True, False])
NUMBERS = np.array([0.0, -1.5, np.nan, np.inf, 4.0, 5.0, -0.0, 7.0, 8.0, 1e300])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (NUMBERS, pa.float64()),
        (NUMBERS[::2], pa.float64()),
        (NUMBERS[:-1].astype(np.float32), pa.float64()),
        (np.arange(10), pa.int32()),
        (np.arange(10), pa.int64()),
        (MASK, pa.bool_()),
        (MASK[:3], pa.bool_()),
        (np.zeros(0), pa.int32()),
        ([], pa.float64()),
        ([], pa.bool_()),
        (["a", "", "grüße", "a"], pa.string()),
        ([], pa.string()),
        ([[1, 2], [], [3]], pa.list_(pa.int64())),
        (np.array([[1, 2], [3, 4]]).tolist(), pa.list_(pa.int64())),
    ],
)
def test_a_column_equals_pyarrows_own(values, kind):
    made = arrow_array(values, kind)
    made.validate(full=True)
    assert made.type == kind
    expected = pa.array(values, type=kind)
    assert (made.null_count, len(made)) == (expected.null_count, len(expected))
    np.testing.assert_equal(made.to_pylist(), expected.to_pylist())  # NaN equals NaN


@pytest.mark.parametrize("data", [NUMBERS, np.arange(10), ~MASK])
def test_what_is_masked_is_null(data):
    kind = {"f": pa.float64(), "i": pa.int32(), "b": pa.bool_()}[data.dtype.kind]
    made = arrow_array(np.ma.masked_array(data, MASK), kind)
    made.validate(full=True)
    assert made.null_count == MASK.sum()
    np.testing.assert_equal(made.to_pylist(), pa.array(data, type=kind, mask=MASK).to_pylist())
    assert arrow_array(np.ma.masked_array(data), kind).null_count == 0


def test_repeated_texts_become_a_dictionary():
    kind = pa.dictionary(pa.int32(), pa.string())
    made = arrow_array(["own", "link", "own"], kind)
    assert made.type == kind
    assert made.equals(pa.array(["own", "link", "own"]).dictionary_encode())


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.array([2**31]), pa.int32()),
        (np.array([1.0]), pa.int32()),
        (np.array([1, 0]), pa.bool_()),
        (np.array([1j]), pa.float64()),
    ],
)
def test_what_a_column_cannot_hold_is_refused(values, kind):
    with pytest.raises((ValueError, TypeError)):
        arrow_array(values, kind)
