"""Bends in what parts of an output follow of those before them.

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
        coefficients, gain = np.empty((parts - 1, width, length)), 0.0
        for k in range(1, parts):
            told = _features(rows[:, k], new[:, k], factors[k])
            squares = told.T @ told
            ridge = _RIDGE * np.trace(squares) * np.eye(width)
            coefficients[k - 1] = np.linalg.solve(squares + ridge, told.T @ new[:, k])
            after = (new[:, k] - told @ coefficients[k - 1]).var(axis=0)
            with np.errstate(all="ignore"):
                gain += size / 2 * float(np.log(new[:, k].var(axis=0) / after).sum())
        return cls(factors, coefficients) if gain > _EVIDENT * coefficients.size else None

    def left(self, rows: Floats, new: Floats) -> Floats:
        """Return what is left of what is new in these rows, all of shape (size, parts, length)."""
        left = new.copy()
        for k, own in enumerate(self.coefficients, 1):  # features are several times as many
            left[:, k] -= _features(rows[:, k], new[:, k], self.factors[k]) @ own
        return left


def _features(rows: Floats, new: Floats, factor: Floats) -> Floats:
    """Return the linear prediction of a part, its direction and length, its numbers' signed
    squares, and 1; shape (size, 3 length + 2).

    rows: the part, and new: what is new in it, both of shape (size, length).
    """
    predicted = rows - new @ factor.T
    lengths = np.linalg.norm(predicted, axis=1, keepdims=True)
    directions = predicted / np.maximum(lengths, _TINY)
    squares = predicted * np.abs(predicted)
    ones = np.ones_like(lengths)
    return np.concatenate([predicted, directions, lengths, squares, ones], axis=1)


__all__ = ["BentPredictions"]
