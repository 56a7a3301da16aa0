"""Numbers of families that look at what they are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

SEEN: list[object] = []
"""Numbers and arrays that any of them was compared with."""


class Spy:
    """A number that looks at what it is compared with."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value

    def _look(self, other: object) -> bool:
        SEEN.append(other)
        return self.value < float(other)  # type: ignore[arg-type]

    __lt__ = __le__ = __gt__ = __ge__ = _look


class SpyArray(np.ndarray[Any, np.dtype[np.float64]]):
    """An array that does."""

    def __array_ufunc__(self, *given: Any, **options: Any) -> Any:
        SEEN.extend(given)
        return NotImplemented

    def __array_function__(self, *given: Any) -> Any:
        SEEN.extend(given)
        return NotImplemented


def spying(values: Any, as_array: bool) -> Any:
    """Return these numbers as spies: as one array, or as an array of objects."""
    if as_array:
        return np.array(values, np.float64).view(SpyArray)
    return np.array([Spy(float(one)) for one in values], object)
