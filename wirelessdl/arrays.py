"""Array types that cross the rooms: float64 for channels, power and privacy."""

from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]

# what NumPy does of errors unless a notebook has set something else
USUAL_ERRORS: Final[dict[str, Any]] = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}

Array = TypeVar("Array", bound=NDArray[Any])


def read_only(values: Array) -> Array:
    """The same numbers in an array that cannot be written to: whoever is handed it must not change the simulator's."""
    if not (isinstance(values, np.ndarray) and values.flags.writeable):
        return values
    view = values.view()
    view.setflags(write=False)
    return view


def kept(values: object, dtype: Any = np.float64, *, is_user_class: bool = True) -> NDArray[Any]:
    """What a part answered as an array; a copy where the class is the user's, which may fill and return one buffer.

    Entries that a masked array hides become NaN, or the least whole number, which no contract takes.
    """
    if np.ma.is_masked(values):
        floating = np.issubdtype(dtype, np.floating)
        return np.ma.filled(np.ma.asarray(values).astype(dtype), np.nan if floating else np.iinfo(dtype).min)
    return np.array(values, dtype=dtype) if is_user_class else np.asarray(values, dtype=dtype)


def lock(owner: object, *names: str) -> None:
    """Make these arrays of a frozen dataclass read-only; whoever made them may still write to theirs."""
    for name in names:
        owner.__dict__[name] = read_only(owner.__dict__[name])
