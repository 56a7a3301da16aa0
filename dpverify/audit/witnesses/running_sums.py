"""What parts of an output follow of the running sum of the parts before them, where that is not
linear.

The noisy gradients of a run are its parts, and their running sum is where it is. What other records
add to a gradient depends on that place, by clipped and bent functions of it; what is left of a part
without it is noise alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpverify.privacy.numbers import Floats

_EVIDENT = 2.0  # times the number of coefficients that the logarithm of the likelihood must gain
_MOST = 20_000  # rows that are fitted
_RIDGE, _TINY = 1e-9, 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class RunningSums:
    """Least squares of the numbers of every part, but the first, by the running sum of the parts
    before, its direction and its length.

    coefficients: shape (parts - 1, 2 length + 2, length).
    """

    coefficients: Floats

    @classmethod
    def of(cls, rows: Floats, new: Floats) -> RunningSums | None:
        """Fit what is new in rows, both of shape (size, parts, length), with variance about 1;
        None where a fit is not plainly likelier than none.
        """
        rows, new = rows[:_MOST], new[:_MOST]
        size, parts, length = new.shape
        if parts < 2 or size < 4 * (length + 1):
            return None
        told = _told(rows)  # by part
        squares = told.transpose(0, 2, 1) @ told
        ridge = _RIDGE * np.trace(squares, axis1=1, axis2=2)[:, None, None] * np.eye(2 * length + 2)
        later = new[:, 1:].transpose(1, 0, 2)
        coefficients = np.linalg.solve(squares + ridge, told.transpose(0, 2, 1) @ later)
        before, after = later.var(axis=1), (later - told @ coefficients).var(axis=1)
        with np.errstate(all="ignore"):
            gain = size / 2 * float(np.log(before / after).sum())
        return cls(coefficients) if gain > _EVIDENT * coefficients.size else None

    def follow(self, rows: Floats) -> Floats:
        """Return what of the numbers of these rows follows, shape (size, parts, length)."""
        followed = np.zeros_like(rows)
        followed[:, 1:] = (_told(rows) @ self.coefficients).transpose(1, 0, 2)
        return followed


def _told(rows: Floats) -> Floats:
    """Return the running sums before all parts but the first, their directions and lengths, and 1;
    shape (parts - 1, size, 2 length + 2).
    """
    sums = np.cumsum(rows[:, :-1], axis=1).transpose(1, 0, 2)
    lengths = np.linalg.norm(sums, axis=2, keepdims=True)
    directions = sums / np.maximum(lengths, _TINY)
    return np.concatenate([sums, directions, lengths, np.ones_like(lengths)], axis=2)


__all__ = ["RunningSums"]
