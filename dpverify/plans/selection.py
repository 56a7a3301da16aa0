"""Choice of a cell of a grid by the exponential mechanism, exactly, however many cells there
are.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpverify.grid import Query
from dpverify.grid.tables import ColumnScores, QuantileScores
from dpverify.plans.noise import LogProbabilities, Noise, positive_scale
from dpverify.privacy import Derivation, GaussianDP, PrivacyClaim, Sensitivity, rules
from dpverify.privacy.guarantees import BoundedRange
from dpverify.privacy.numbers import Exact, settle
from dpverify.randomness import Bits
from dpverify.randomness.bits import IntArray
from dpverify.randomness.choice import Choice
from dpverify.randomness.weights import Weights

_STEEPEST = Fraction(10**300)

Groups = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""First cell, number of cells and score of each group of cells of one score, in order."""


@dataclass(frozen=True, slots=True, init=False)
class QuantileChoice(Noise):
    """Choice of a cell t of lower..upper with probability proportional to e^(-score(t) /
    scale).

    score(t) = max(0, q #{z < t} - p n, p n - q #{z <= t}) for the sorted cells z that
    ``QuantileScores`` gives. Cells between two neighboring records have one score, and a
    record's cell has its own: such a group is chosen by its size times its weight, and then a
    cell in it uniformly, so the cost follows n and not the number of cells. Where groups begin
    and end depends on the records, but every cell keeps a positive probability for every
    dataset.
    """

    lower: int
    upper: int
    numerator: int
    denominator: int
    scale: Fraction

    def __init__(
        self, lower: int, upper: int, numerator: int, denominator: int, scale: Exact
    ) -> None:
        settle(self, lower=lower, upper=upper)
        settle(self, numerator=numerator)
        settle(self, denominator=denominator)
        settle(self, scale=positive_scale(scale))

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Draw exactly (dpverify.randomness.choice), shape (size, 1)."""
        return self.drawn(bits, self.groups(center), size, None)

    def drawn(self, bits: Bits, about: Groups, size: int, weights: Weights | None) -> IntArray:
        """Draw from the records' groups, shape (size, 1); weights: of these scores and others."""
        starts, sizes, scores = about
        groups = bits.noise(Choice(scores, 1 / self.scale, sizes, weights), size)
        cells = np.zeros(size, dtype=np.int64)
        for group in np.flatnonzero(np.bincount(groups)):
            rows = np.flatnonzero(groups == group)
            cells[rows] = starts[group] + bits.below(int(sizes[group]), len(rows))
        return cells[:, np.newaxis]

    def check(self, query: Query) -> None:
        """Check that the query is ``QuantileScores`` of the same grid and quantile, and nothing
        else.
        """
        _require_same((self.lower, self.upper, self.numerator, self.denominator), query)

    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        """Compute log-probabilities, for witnesses only: float64."""
        starts, sizes, scores = self.groups(center)
        rate = -float(min(1 / self.scale, _STEEPEST))
        weights = np.maximum(rate * scores.astype(np.float64), -1e300)
        filled = sizes > 0
        normalizer = _log_sum(weights[filled], sizes[filled].astype(np.float64))
        cells = outputs[:, 0]
        log_masses = weights[np.searchsorted(starts, cells, side="right") - 1] - normalizer
        inside = (cells >= self.lower) & (cells <= self.upper)
        return np.where(inside, log_masses, -np.inf)

    def claim(self, sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
        """Derive the claim by the rule of the exponential mechanism."""
        return rules.exponential_mechanism(sensitivity, self.scale)

    def rescaled(self, factor: Fraction) -> Noise:
        """Return the same choice of scale * factor."""
        return QuantileChoice(
            self.lower, self.upper, self.numerator, self.denominator, self.scale * factor
        )

    def dropped(self) -> Noise:
        """Return a choice of a scale so small that only cells of the least score are left."""
        return self.rescaled(Fraction(1, 10**4) / self.scale)

    def groups(self, center: IntArray) -> Groups:
        """Return the groups of cells of one score about these records, in order.

        They are in turn a stretch without records, which may be empty, and a record's cell; the
        first and the last are stretches. The last that starts at or before a cell is the cell's
        group.
        """
        cells = center[0]
        new = np.ones(len(cells) + 1, np.bool_)  # the end is counted with the last record
        np.not_equal(cells[1:], cells[:-1], out=new[1:-1])
        counted = np.flatnonzero(new)
        starts = np.empty(2 * len(counted), np.int64)
        starts[0], starts[-1] = self.lower, self.upper + 1
        starts[1:-1:2] = cells[counted[:-1]]
        starts[2:-1:2] = starts[1:-1:2] + 1
        starts, sizes = starts[:-1], starts[1:] - starts[:-1]
        ranks = self.denominator * np.repeat(counted, 2) - self.numerator * center.shape[1]
        # ranks[i] is the number of records before group i, ranks[i + 1] includes those in it
        return starts, sizes, np.maximum(0, np.maximum(ranks[:-1], -ranks[1:]))


def weights_of(groups: list[Groups], scale: Fraction) -> Weights:
    """Enclose the weights of all of these groups at one scale, each weight once."""
    return Weights.of(((scores, sizes) for _, sizes, scores in groups), 1 / scale)


def _log_sum(exponents: LogProbabilities, counts: LogProbabilities) -> float:
    """Compute ln of the sum of counts times e^exponent; counts > 0. The largest terms are kept
    apart, for precision.
    """
    most = exponents.max()
    largest = exponents == most
    multiple = (counts * largest).sum()
    others = (counts * np.exp(np.where(largest, -np.inf, exponents) - most)).sum()
    return float(np.log1p(others / multiple) + np.log(multiple) + most)


Grid = tuple[int, int, int, int]
"""Fields lower, upper, numerator and denominator of a ``QuantileChoice``."""


def _require_same(grid: Grid, query: Query) -> None:
    """Refuse a query that is no ``QuantileScores`` of this grid and quantile."""
    if not isinstance(query, QuantileScores) or grid != (
        query.lower,
        query.upper,
        query.numerator,
        query.denominator,
    ):
        raise ValueError(
            f"A choice among cells {grid[0]}..{grid[1]} for the quantile {grid[2]}/{grid[3]} "
            f"needs the QuantileScores of just these, not {query}."
        )


@dataclass(frozen=True, slots=True, init=False)
class QuantileChoices(Noise):
    """A ``QuantileChoice`` for each row of ``ColumnScores``, independently, all of one scale.

    claimed: what is said of each, its bounded "range" or the "gaussian" DP that follows; all
    together compose.
    """

    grids: tuple[Grid, ...]
    scale: Fraction
    claimed: Literal["range", "gaussian"]

    def __init__(
        self, grids: tuple[Grid, ...], scale: Exact, claimed: Literal["range", "gaussian"]
    ) -> None:
        settle(self, grids=grids)
        settle(self, scale=positive_scale(scale))
        settle(self, claimed=claimed)

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Draw exactly, shape (size, choices)."""
        choices = self._choices()
        groups = [one.groups(center[k : k + 1]) for k, one in enumerate(choices)]
        weights = weights_of(groups, self.scale)
        each = zip(choices, groups, strict=True)
        columns = [one.drawn(bits, about, size, weights) for one, about in each]
        return np.concatenate(columns, axis=1)

    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        """Compute log-probabilities, for witnesses only: float64."""
        total = np.zeros(len(outputs))
        for k, choice in enumerate(self._choices()):
            total += choice.log_probability(outputs[:, k : k + 1], center[k : k + 1])
        return total

    def claim(self, sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
        """Derive the claim by the rules of the exponential mechanism, its conversion, and their
        composition.
        """
        each = rules.exponential_mechanism(sensitivity, self.scale)
        shown = each.conclusion.guarantee
        if self.claimed == "gaussian" and isinstance(shown, BoundedRange):
            each = rules.convert(each, GaussianDP.of_square(shown.gaussian.mu_squared))
        return rules.adaptive_compose([each] * len(self.grids))

    def check(self, query: Query) -> None:
        """Check that the query is ``ColumnScores`` of the same grids and quantiles, and nothing
        else.
        """
        if not isinstance(query, ColumnScores) or len(query.scores) != len(self.grids):
            raise ValueError(f"{len(self.grids)} choices need as many ColumnScores, not {query}.")
        for grid, (_, scored) in zip(self.grids, query.scores, strict=True):
            _require_same(grid, scored)

    def rescaled(self, factor: Fraction) -> Noise:
        """Return the same choices of scale * factor."""
        return QuantileChoices(self.grids, self.scale * factor, self.claimed)

    def dropped(self) -> Noise:
        """Return choices of scales so small that only cells of the least score are left."""
        return self.rescaled(Fraction(1, 10**4) / self.scale)

    def _choices(self) -> list[QuantileChoice]:
        return [QuantileChoice(*grid, self.scale) for grid in self.grids]
