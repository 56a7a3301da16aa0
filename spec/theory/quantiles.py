"""Cells of public grids by the exponential mechanism: one quantile, or several at once.

A bounded range of losses is Gaussian DP: see ``gaussian_of_range``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .laws import Exponential, Outcome, real, real_exponential
from .obligations import require


@states(Source("MT07", "the exponential mechanism", note="bounded range: DDR20, Section 3"))
@dataclass(frozen=True)
class QuantileLaw:
    """Law with mass proportional to e^(-score(t) / scale) on every cell t of lower..upper; sorted
    ``cells``.
    """

    cells: tuple[int, ...]
    lower: int
    upper: int
    numerator: int
    denominator: int
    scale: Fraction

    def score(self, t: int) -> int:
        """Return the score of cell t as in ``tables.score``, by bisection."""
        wanted = self.numerator * len(self.cells)
        below, up_to = bisect_left(self.cells, t), bisect_right(self.cells, t)
        return max(0, self.denominator * below - wanted, wanted - self.denominator * up_to)

    def stretches(self, *others: QuantileLaw) -> list[tuple[int, int]]:
        """Return (first, last) of each cell with a record, and of each run of cells between
        them.
        """
        records = {z for law in (self, *others) for z in law.cells}
        starts = sorted({self.lower, *records, *(z + 1 for z in records if z < self.upper)})
        return list(zip(starts, [first - 1 for first in starts[1:]] + [self.upper], strict=True))

    def total(self, e: Exponential) -> Any:
        """Return the sum of all weights, stretch by stretch."""
        weights = (
            (last - first + 1) * e(self.score(first) / self.scale)
            for first, last in self.stretches()
        )
        return sum(weights, Fraction(0))

    def probability(self, outcome: Outcome, e: Exponential) -> Any:
        """Return the mass of cell t; 0 outside the grid."""
        (t,) = outcome
        if not self.lower <= t <= self.upper:
            return Fraction(0)
        return e(self.score(t) / self.scale) / self.total(e)

    def moves(self, other: QuantileLaw) -> list[Fraction]:
        """Return, for each stretch, by how much its score is larger in the other law, over the
        scale.

        The loss of a cell is that plus ln(the other law's total / this law's total), the same
        for all cells.
        """
        self._same_grid(other)
        firsts = (first for first, _ in self.stretches(other))
        return [(other.score(t) - self.score(t)) / self.scale for t in firsts]

    def largest_loss(self, other: QuantileLaw) -> Any:
        """Return the largest loss, a real number and not a rational one: totals are sums of
        exponentials.
        """
        if self == other:
            return Fraction(0)
        totals = mp.log(other.total(real_exponential)) - mp.log(self.total(real_exponential))
        return real(max(self.moves(other))) + totals

    def profile(self, other: QuantileLaw, epsilon: Fraction) -> Any:
        """Sum over the stretches of both of size * max(0, P - e^epsilon Q)."""
        self._same_grid(other)
        totals = self.total(real_exponential), other.total(real_exponential)
        delta, factor = mp.mpf(0), mp.exp(real(epsilon))
        for first, last in self.stretches(other):
            own, theirs = (
                real_exponential(law.score(first) / self.scale) / total
                for law, total in zip((self, other), totals, strict=True)
            )
            delta += (last - first + 1) * max(mp.mpf(0), own - factor * theirs)
        return delta

    def facts(self) -> tuple[Any, ...]:
        """Return the name of the law, cells, grid, quantile and scale."""
        grid = (self.lower, self.upper, self.numerator, self.denominator)
        return ("QuantileChoice", self.cells, *grid, self.scale)

    def _same_grid(self, other: QuantileLaw) -> None:
        if self.facts()[2:] != other.facts()[2:]:
            raise ValueError("the grid, the quantile and the scale must be the same on neighbors")


@states(Source("MT07", "the exponential mechanism", note="bounded range: DDR20, Section 3"))
@dataclass(frozen=True)
class QuantilesLaw:
    """Law of some quantiles, independent, all of one scale. ``claimed`` says how the code adds up
    their losses.
    """

    parts: tuple[QuantileLaw, ...]
    claimed: str

    def probability(self, outcome: Outcome, e: Exponential) -> Any:
        """Return the product over quantiles; 0 for another number of cells."""
        if len(outcome) != len(self.parts):
            return Fraction(0)
        masses = (part.probability((t,), e) for part, t in zip(self.parts, outcome, strict=True))
        return prod(masses, start=Fraction(1))

    def largest_loss(self, other: QuantilesLaw) -> Any:
        """Return the sum of the quantiles' largest losses."""
        losses = [own.largest_loss(theirs) for own, theirs in self._pairs(other)]
        return sum(losses, mp.mpf(0)) if any(losses) else Fraction(0)

    def ranges(self, other: QuantilesLaw) -> list[Fraction]:
        """Return, for each quantile, the length of the interval that contains all its losses."""
        moved = [own.moves(theirs) for own, theirs in self._pairs(other)]
        return [max(one) - min(one) for one in moved]

    def mu_squared(self, other: QuantilesLaw) -> Any:
        """Return a bound on mu^2: each quantile is mu-GDP by the range of its losses, and squares
        add up.
        """
        return sum((gaussian_of_range(r) ** 2 for r in self.ranges(other)), mp.mpf(0))

    def profile(self, other: QuantilesLaw, epsilon: Fraction) -> Any:
        """Return sup over events of P - e^epsilon Q, over every outcome: runs of cells are taken
        together.
        """
        atoms = [(mp.mpf(1), mp.mpf(1))]
        for own, theirs in self._pairs(other):
            runs = []
            for first, last in own.stretches(theirs):
                masses = (law.probability((first,), real_exponential) for law in (own, theirs))
                runs.append([(last - first + 1) * mass for mass in masses])
            atoms = [(p * r, q * s) for p, q in atoms for r, s in runs]
        factor = mp.exp(real(epsilon))
        return sum((max(mp.mpf(0), p - factor * q) for p, q in atoms), mp.mpf(0))

    def facts(self) -> tuple[Any, ...]:
        """Return the name of the law, cells and grids, one quantile after another, the scale, and
        what is claimed.
        """
        cells = tuple(z for part in self.parts for z in part.cells)
        grids = tuple(part.facts()[2:-1] for part in self.parts)
        return ("QuantileChoices", cells, grids, self.parts[0].scale, self.claimed)

    def _pairs(self, other: QuantilesLaw) -> list[tuple[QuantileLaw, QuantileLaw]]:
        return list(zip(self.parts, other.parts, strict=True))


@states(Source("OURS", "a bounded range of losses is Gaussian DP"))
def gaussian_of_range(length: Fraction) -> Any:
    """Return the least mu such that losses in an interval of this length are mu-GDP.

    It is 2 g(length / 2), where g(x) = Phi^-1(1 / (1 + e^-x)); at most length sqrt(2 pi) / 4.

    Proof. Let the losses ln(P / Q) lie in [t - r, t]. An event has P(S) <= e^t Q(S), and its
    complement P(not S) >= e^(t - r) Q(not S), so the odds of S under P are at most e^r times
    those under Q. So with Q(S) = 1 / (1 + e^-x), Phi^-1(P(S)) - Phi^-1(Q(S)) is at most
    g(x + r) - g(x), and mu-GDP says that it is at most mu. g is odd, and g' falls as |x| grows
    (below), so the difference is largest at x = -r / 2, where it is 2 g(r / 2) <= r g'(0) = r
    sqrt(2 pi) / 4. Randomized response of r / 2 attains it: its losses are -r / 2 and r / 2.
    g'(x) = m(z) = Phi(z) Phi(-z) / phi(z) at z = g(x), for 1 / (1 + e^-x) has the derivative
    Phi(z) Phi(-z). m is even; let k(z) = -m'(z) = 2 Phi(z) - 1 - z m(z). Then (k e^(-z^2 / 2))'
    = e^(-z^2 / 2) (2 phi - m), k(0) = 0, and k e^(-z^2 / 2) -> 0. The sign of 2 phi - m is that
    of h(z) h(-z) - 1/2, h = phi / Phi(-z) the hazard rate; h(z) h(-z) is 2 / pi at 0, tends to
    0, and falls: its logarithm has the derivative h(z) - h(-z) - 2 z, which is negative, as
    0 < h' < 1 (Sampford 1953). So k e^(-z^2 / 2) rises from 0 and then falls to 0: k > 0 for
    z > 0. QED
    """
    return 2 * logit_to_normal(real(length) / 2)


def logit_to_normal(x: Any) -> Any:
    """Return Phi^-1(1 / (1 + e^-x)): where the normal law has the probability that the logistic
    one has at x.
    """
    tail = 1 / (1 + mp.exp(abs(x)))
    quantile = -mp.sqrt(2) * mp.erfinv(2 * tail - 1) if tail > mp.mpf(10) ** -15 else _far(tail)
    return quantile if x >= 0 else -quantile


def _far(tail: Any) -> Any:
    """Return the normal quantile by bisection, where the inverse error function would lose every
    digit.
    """
    low, high = mp.mpf(0), mp.mpf(100)
    for _ in range(int(mp.mp.prec)):
        middle = (low + high) / 2
        low, high = (middle, high) if mp.erfc(middle / mp.sqrt(2)) / 2 > tail else (low, middle)
    return low


def obligation_range_is_gaussian(claimed: Callable[[Any], Any] = gaussian_of_range) -> int:
    """Check over a grid of levels that no event of a pair with this range is beyond mu-GDP and one
    is at mu, and that mu is at most length sqrt(2 pi) / 4, by less than a tenth for lengths up
    to 1.
    """
    cases = 0
    for text in ("1/1000", "1/10", "1", "3", "10", "30"):
        length = Fraction(text)
        mu, x = claimed(length), real(length)
        gaps = [
            logit_to_normal(at + x) - logit_to_normal(at)
            for at in (x * (k - 60) / 40 for k in range(81))
        ]
        require(max(gaps) <= mu + mp.mpf(10) ** -10, f"{length}: {max(gaps)} is beyond {mu}")
        require(mu <= max(gaps) + mp.mpf(10) ** -10, f"{length}: {mu}, but at most {max(gaps)}")
        line = x * mp.sqrt(2 * mp.pi) / 4
        require(mu <= line and (length > 1 or line <= 1.1 * mu), f"{length}: {mu}, not {line}")
        cases += len(gaps)
    return cases
