"""Odds along broken lines in few numbers, whose slopes depend on each other.

The logarithm of the odds of many mechanisms is a line in each number that bends somewhere, with
slopes that another number sets: after more answers that say nothing, the next one says more. A
regression on few bends knows this from few draws, and follows it to where outputs are rare; trees,
which know only where their leaves are, need many draws there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpverify.audit.outputs.draws import Draws
from dpverify.audit.witnesses.directions import TELLING, Scaling
from dpverify.audit.witnesses.features import Score, atoms_of
from dpverify.audit.witnesses.models import regressed
from dpverify.privacy.numbers import Floats

BENT_WIDTH = 3
"""Largest number of columns for which these are fitted."""
_BENDS = 0.1, 0.3, 0.5, 0.7, 0.9  # where lines bend: shares of the draws below
_MANY = 32  # values of a number, above which its line bends


@dataclass(frozen=True, slots=True)
class _Line:
    """A number's broken line. value: one that repeats and has odds of its own, or none."""

    bends: tuple[float, ...]
    value: float | None

    @classmethod
    def of(cls, own: Floats, other: Floats) -> _Line:
        both, value = np.concatenate([own, other]), None
        for repeated, z_score in atoms_of(own, other, 1):
            if abs(z_score) > TELLING:  # often it stands for no number
                value, both = repeated, both[both != repeated]
        many = len(np.unique(both)) > _MANY
        bends = np.unique(np.quantile(both, _BENDS)).tolist() if many else []
        return cls(tuple(bends), value)

    def parts(self, numbers: Floats) -> Floats:
        """Return the numbers, and what they are above each bend, shape (size, parts)."""
        bends = np.array([-np.inf, *self.bends])
        above: Floats = np.maximum(numbers[:, None], bends)
        above[:, 1:] -= bends[1:]
        return above


def bent_lines(own: Draws, other: Draws) -> Score:
    """Fit a logistic regression on broken lines in each number, and on their products with each
    other number.
    """
    width = max(own.numbers.shape[1], other.numbers.shape[1])
    scaling = Scaling.of(own.columns(width), other.columns(width))
    scaled = [scaling.apply(side.columns(width)) for side in (own, other)]
    lines = [_Line.of(scaled[0][:, j], scaled[1][:, j]) for j in range(width)]
    sides = [_features(lines, side) for side in scaled]
    both = np.concatenate(sides)
    center, spread = both.mean(axis=0), both.std(axis=0)
    weights = regressed(*((side - center) / np.where(spread > 0, spread, 1.0) for side in sides))
    weights /= np.where(spread > 0, spread, 1.0)
    return lambda draws: _features(lines, scaling.apply(draws.columns(width))) @ weights


def _features(lines: list[_Line], numbers: Floats) -> Floats:
    """Return the lines of all numbers, and their products, shape (size, features)."""
    features = []
    for j, line in enumerate(lines):
        parts = line.parts(numbers[:, j])
        features.append(parts)
        if line.value is not None:
            features.append((numbers[:, j : j + 1] == line.value).astype(np.float64))
        for i in range(len(lines)):
            if i != j:  # two numbers themselves have one product
                features.append(numbers[:, i : i + 1] * parts[:, i > j :])
    return np.hstack(features)


__all__ = ["BENT_WIDTH", "bent_lines"]
