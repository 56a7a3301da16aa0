"""What parts of an output follow of those before them, where that is not linear.

The noisy gradients of a run are its parts. What other records add to a gradient depends on the
place that those before led to, by clipped and bent functions. The linear prediction of a part from
those before lies along that, whatever the rates and the momentum of the run were.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpverify.privacy.numbers import Floats

_EVIDENT = 2.0  # times the number of coefficients that the logarithm of the likelihood must gain
_MOST = 20_000  # rows that are fitted
_RIDGE, _TINY = 1e-9, 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class BentPredictions:
    """Least squares of what is new in every part, but the first, by features of its linear
    prediction.

    factors: make of what is new in a part what the prediction misses, shape (parts, length,
    length). coefficients: shape (parts - 1, 3 length + 2, length).
    """

    factors: Floats
    coefficients: Floats

    @classmethod
    def of(cls, rows: Floats, new: Floats, factors: Floats) -> BentPredictions | None:
        """Fit what is new in rows, both of shape (size, parts, length), with variance about 1;
        None where a fit is not plainly likelier than none.
        """
        rows, new = rows[:_MOST], new[:_MOST]
        size, parts, length = new.shape
        width = 3 * length + 2
        if parts < 2 or size < 2 * width:
            return None
        told = _features(rows, new, factors)
        squares = told.transpose(0, 2, 1) @ told
        ridge = _RIDGE * np.trace(squares, axis1=1, axis2=2)[:, None, None] * np.eye(width)
        later = new[:, 1:].transpose(1, 0, 2)
        coefficients = np.linalg.solve(squares + ridge, told.transpose(0, 2, 1) @ later)
        before, after = later.var(axis=1), (later - told @ coefficients).var(axis=1)
        with np.errstate(all="ignore"):
            gain = size / 2 * float(np.log(before / after).sum())
        return cls(factors, coefficients) if gain > _EVIDENT * coefficients.size else None

    def left(self, rows: Floats, new: Floats) -> Floats:
        """Return what is left of what is new in these rows, all of shape (size, parts, length)."""
        left = new.copy()
        followed = _features(rows, new, self.factors) @ self.coefficients
        left[:, 1:] -= followed.transpose(1, 0, 2)
        return left


def _features(rows: Floats, new: Floats, factors: Floats) -> Floats:
    """Return the linear predictions of all parts but the first, their directions and lengths,
    their numbers' signed squares, and 1; shape (parts - 1, size, 3 length + 2).
    """
    later, missed = (one[:, 1:].transpose(1, 0, 2) for one in (rows, new))
    predicted = later - missed @ factors[1:].transpose(0, 2, 1)
    lengths = np.linalg.norm(predicted, axis=2, keepdims=True)
    directions = predicted / np.maximum(lengths, _TINY)
    squares = predicted * np.abs(predicted)
    ones = np.ones_like(lengths)
    return np.concatenate([predicted, directions, lengths, squares, ones], axis=2)


__all__ = ["BentPredictions"]
