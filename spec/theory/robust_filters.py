"""Filters for a robust mean, step by step, and the reason that no such filter has a sensitivity.

Rows are tuples of numbers, arithmetic is mpmath's. Where the source leaves something open, the
choice is stated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, SourceStatus, states

from .laws import real
from .obligations import require
from .robust_claims import FACTOR

Row = tuple[Any, ...]
Rows = Sequence[Row]
Estimator = Callable[[Rows], Row]
_TAIL = Fraction(5, 2)


def mean(rows: Rows) -> Row:
    """Return the mean of every column."""
    return tuple(mp.fsum(column) / len(rows) for column in zip(*rows, strict=True))


def median(rows: Rows) -> Row:
    """Return the median of every column; halfway between the middle two of an even number."""
    return tuple(_middle(sorted(column)) for column in zip(*rows, strict=True))


def _middle(values: Sequence[Any]) -> Any:
    n = len(values)
    return (values[(n - 1) // 2] + values[n // 2]) / mp.mpf(2)


def spectrum(rows: Rows) -> list[tuple[Any, Row]]:
    """Return the eigenvalues of the covariance (divided by n), ascending, each with a unit
    vector.
    """
    center, d = mean(rows), len(rows[0])
    centered = [[x - c for x, c in zip(row, center, strict=True)] for row in rows]
    scatter = mp.matrix(d, d)
    for i, j in product(range(d), repeat=2):
        scatter[i, j] = mp.fsum(row[i] * row[j] for row in centered) / len(rows)
    if d == 1:
        return [(scatter[0, 0], (mp.mpf(1),))]
    values, vectors = mp.eigsy(scatter)
    return [(values[k], tuple(vectors[i, k] for i in range(d))) for k in range(d)]


def _along(row: Row, direction: Row) -> Any:
    return mp.fsum(x * v for x, v in zip(row, direction, strict=True))


def _limit(gamma: Fraction) -> Any:
    return real(FACTOR * gamma) * mp.log(real(1 / gamma))


@states(
    Source(
        "DKKLMS19",
        "Filter-Gaussian-Unknown-Mean, as its authors and DH20's coded it",
        SourceStatus.CHANGED_CONSTANTS,
        note="a one-sided tail for a two-sided distance, the failing row is kept, nothing is "
        "pruned",
    )
)
def as_coded(rows: Rows, gamma: Fraction, tau: Fraction) -> Row:
    """Return the mean of the rows that remain. Undefined where d gamma = tau: ln(d gamma / tau)
    divides.
    """
    while True:
        n, d = len(rows), len(rows[0])
        value, direction = spectrum(rows)[-1]
        if value < 1 + _limit(gamma):
            return mean(rows)
        along = [_along(row, direction) for row in rows]
        middle = _middle(sorted(along))
        order = sorted(range(n), key=lambda i: abs(along[i] - middle))
        allowed = real(gamma) / (d * mp.log(real(d * gamma / tau)))
        last = n
        for rank, i in enumerate(order, start=1):
            tail = mp.erfc((abs(along[i] - middle) - 2 * real(gamma)) / mp.sqrt(2)) / 2
            if n - rank > real(_TAIL) * n * (tail + allowed):
                last = rank
                break
        if last in (1, n):
            return mean(rows)
        rows = [rows[i] for i in sorted(order[:last])]


@states(
    Source(
        "DKKLMS19",
        "Filter-Gaussian-Unknown-Mean after NaivePrune",
        SourceStatus.CHANGED_CONSTANTS,
        note="constants where it leaves them open",
    )
)
def as_published(rows: Rows, gamma: Fraction, tau: Fraction) -> Row:
    """Return the mean of the rows that remain, with the stopping rule's C and a pruning radius of
    4 sqrt(d ln(n / tau)).

    The threshold is the least T of those at a row. Where there is none, as on good samples, it
    stops.
    """
    d = len(rows[0])
    rows = _pruned(rows, 16 * d * mp.log(real(len(rows) / tau)))
    while True:
        n, center = len(rows), mean(rows)
        value, direction = max(
            ((value - 1, v) for value, v in spectrum(rows)), key=lambda one: abs(one[0])
        )
        if n < 2 or abs(value) < _limit(gamma):
            return center
        slack, middle = 3 * mp.sqrt(real(gamma) * abs(value)), _along(center, direction)
        distance = [abs(_along(row, direction) - middle) for row in rows]
        most = _heavy(distance, slack, gamma, tau, d)
        kept = [row for row, x in zip(rows, distance, strict=True) if x <= most]
        if len(kept) == n:
            return center
        rows = kept


def _pruned(rows: Rows, square: Any) -> Rows:
    """Return the rows with more than half of all within this squared distance; all, if there are
    none.
    """

    def near(row: Row) -> int:
        return sum(
            mp.fsum((x - y) ** 2 for x, y in zip(row, other, strict=True)) <= square
            for other in rows
        )

    return [row for row in rows if 2 * near(row) > len(rows)] or rows


def _heavy(distance: Sequence[Any], slack: Any, gamma: Fraction, tau: Fraction, d: int) -> Any:
    n = len(distance)
    rest = 8 * real(gamma) / mp.log(d * mp.log(real(d / (gamma * tau))))
    for x in sorted(distance):
        t = x - slack
        if t > 0 and sum(y > x for y in distance) > n * (8 * mp.exp(-t * t / 2) + rest / t**2):
            return x
    return mp.inf


def walk(estimator: Estimator, rows: Rows, shift: Row) -> Iterator[Any]:
    """Yield the squared move of the estimate in each of the n replacements from X to X + shift."""
    before = estimator(rows)
    for i in range(len(rows)):
        moved = tuple(x + c for x, c in zip(rows[i], shift, strict=True))
        rows = [*rows[:i], moved, *rows[i + 1 :]]
        after = estimator(rows)
        yield mp.fsum((x - y) ** 2 for x, y in zip(after, before, strict=True))
        before = after


GAMMA, TAU = Fraction(1, 10), Fraction(1, 50)
EQUIVARIANT: dict[str, Estimator] = {
    "mean": mean,
    "median": median,
    "the coded filter": lambda rows: as_coded(rows, GAMMA, TAU),
    "the published filter": lambda rows: as_published(rows, GAMMA, TAU),
}
"""Estimators with f(X + c) = f(X) + c for every c."""


@states(Source("DH20", "Section 4, a global sensitivity of twice the error", SourceStatus.REFUTED))
def obligation_no_sensitivity(claimed: dict[str, Estimator] | None = None) -> int:
    """Check that some replacement moves the estimate by at least |c| / n, for arbitrarily large c.

    Proof. The n moves from X to X + c add up to f(X + c) - f(X) = c. QED. So no equivariant
    estimator has a sensitivity. All datasets of up to 4 records in {0, 1, 5} are tried.
    """
    cases, far = 0, 10**4
    for n in range(1, 5):
        for rows in product([(0,), (1,), (5,)], repeat=n):
            for name, estimator in (EQUIVARIANT if claimed is None else claimed).items():
                most = max(walk(estimator, rows, (far,)))
                case = f"{name} moves by at most {mp.sqrt(most)} from {rows} to {far} further"
                require(most * n * n >= far * far * (1 - mp.mpf(10) ** (8 - mp.mp.dps)), case)
                cases += 1
    return cases
