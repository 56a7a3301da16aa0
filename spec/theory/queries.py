"""The integer queries, on exact rationals, with their sensitivities shown on all small datasets.

Each sensitivity has a one-line proof for every dataset and an exhaustive check on a small universe;
the check is what a mistake in the proof, or in the code's formula, would run into.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

from dpverify.privacy import Adjacency, Norm, Source, of_query, shows, states

from .obligations import neighbors, require

Value = TypeVar("Value")
Grid = tuple[int, int, Fraction]
"""(lower, upper, cell): public bounds in cells."""
_ALL = (Adjacency.REPLACE, Adjacency.ADD_REMOVE)
_INTERVALS = (None, (Fraction(0), Fraction(1)), (Fraction(-1), Fraction(0)))
_UNIVERSE = tuple(Fraction(i, 2) for i in range(-5, 6))


def of_each(function: Callable[[Any], Value], records: Sequence[Any]) -> list[Value]:
    """Return the function of every record, in order.

    A record that occurs thousands of times as the same object is computed once.
    """
    distinct = {id(record): record for record in records}
    known = {key: function(record) for key, record in distinct.items()}
    return [known[id(record)] for record in records]


def count(records: Sequence[Fraction], within: tuple[Fraction, Fraction] | None) -> int:
    """Return the number of records, or of those in a closed interval."""
    if within is None:
        return len(records)
    low, high = within
    return sum(low <= record <= high for record in records)


def count_sensitivity(within: tuple[Fraction, Fraction] | None, adjacency: Adjacency) -> int:
    """Return the sensitivity: one record is one summand in {0, 1}, and the number of all records
    stays when one is replaced.
    """
    return 0 if within is None and adjacency is Adjacency.REPLACE else 1


@states(Source("DMNS06", "Section 3, counting queries"))
@shows(
    "Count",
    Norm.L1,
    value=of_query(lambda some, adjacency: count_sensitivity(_INTERVALS[some], adjacency), "some"),
)
def obligation_count(claimed: Callable[..., int] = count_sensitivity) -> int:
    """Check that the largest move over all neighbors of at most 3 records is exactly
    ``claimed``.
    """
    cases = 0
    for adjacency in _ALL:
        for within in _INTERVALS:
            moves = [
                abs(count(left, within) - count(right, within))
                for left, right in neighbors(_UNIVERSE[::2], 3, adjacency)
            ]
            cases += len(moves)
            largest = claimed(within, adjacency)
            require(max(moves) == largest, f"count {within} {adjacency}: {max(moves)}, {largest}")
    return cases


def largest_power(fits: Callable[[Fraction], bool]) -> Fraction:
    """Find the largest power of two that fits, where every smaller one does."""
    two = Fraction(2)
    low, high = -1, 1
    while not fits(two**low):
        low *= 2
    while fits(two**high):
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(two**middle) else (low, middle)
    return two**low


def grid(low: Any, high: Any, cells: int, cell: Fraction | None = None) -> Grid:
    """Return bounds in cells, rounded to the nearest, and the cell.

    A cell that is not given is the largest power of two of which the bounds contain ``cells``.
    """
    a, b = Fraction(low), Fraction(high)
    size = largest_power(lambda power: power * cells <= b - a) if cell is None else cell
    return round(a / size), round(b / size), size


def width(parameters: Mapping[str, Any]) -> int:
    """Return the number of columns."""
    return len(parameters["lower"])


def grids(parameters: Mapping[str, Any]) -> list[Grid]:
    """Return the grid of every column, between its public bounds."""
    bounds = zip(parameters["lower"], parameters["upper"], strict=True)
    return [grid(low, high, parameters["cells"]) for low, high in bounds]


def nearest(x: Fraction, cell: Fraction) -> int:
    """Return round(x / cell), ties to even; the quotient's lowest terms would take longer."""
    over, under = x.numerator * cell.denominator, x.denominator * cell.numerator
    whole, rest = divmod(over, under)
    return whole + (2 * rest > under or (2 * rest == under and whole % 2 == 1))


def to_cells(record: Fraction, lower: int, upper: int, cell: Fraction) -> int:
    """Return clamp(round(record / cell), lower, upper), ties to even
    (Python's rule for fractions).
    """
    return min(max(nearest(record, cell), lower), upper)


def clamped_sum(
    records: Sequence[Fraction], lower: int, upper: int, center: int, cell: Fraction
) -> int:
    """Return the sum of the records in cells about the center."""
    return sum(to_cells(record, lower, upper, cell) - center for record in records)


def clamped_sum_sensitivity(lower: int, upper: int, center: int, adjacency: Adjacency) -> int:
    """Return the sensitivity. add-remove: one summand, at most its largest magnitude. replace: two
    summands' difference.
    """
    if adjacency is Adjacency.REPLACE:
        return upper - lower
    return max(upper - center, center - lower)


@states(Source("OURS", "the sensitivity of a clamped sum"))
@shows("ClampedSum", Norm.L1, value=of_query(clamped_sum_sensitivity, "lower", "upper", "center"))
def obligation_clamped_sum(claimed: Callable[..., int] = clamped_sum_sensitivity) -> int:
    """Check that the largest move over all neighbors of at most 2 records is exactly
    ``claimed``.
    """
    cases = 0
    for adjacency in _ALL:
        for lower, upper, center in ((-1, 1, 0), (0, 2, 1), (-2, 1, 0), (-2, 1, -1), (0, 1, 0)):
            for cell in (Fraction(1), Fraction(1, 2)):
                moves = [
                    abs(
                        clamped_sum(left, lower, upper, center, cell)
                        - clamped_sum(right, lower, upper, center, cell)
                    )
                    for left, right in neighbors(_UNIVERSE, 2, adjacency)
                ]
                cases += len(moves)
                largest = claimed(lower, upper, center, adjacency)
                case = f"sum on [{lower}, {upper}] about {center}, {adjacency}"
                require(max(moves) == largest, f"{case}: {max(moves)}, not {largest}")
    return cases


def answers(records: Sequence[Fraction], categories: int) -> tuple[int, ...]:
    """Return each record's category: rounded, clamped to 0..categories-1."""
    return tuple(to_cells(record, 0, categories - 1, Fraction(1)) for record in records)


CHANGED_ANSWERS = 1
"""Number of answers changed by replacing a record; under add-remove the list's length changes
too.
"""


@states(Source("W65", "randomized response"))
@shows(
    "Answers",
    Norm.HAMMING,
    value=lambda s: CHANGED_ANSWERS if s.adjacency is Adjacency.REPLACE else None,
)
def obligation_answers(claimed: int = CHANGED_ANSWERS) -> int:
    """Check that replacing one record changes at most, and for some pair exactly, ``claimed``
    answers.
    """
    cases, largest = 0, 0
    for categories in (2, 3):
        for left, right in neighbors(_UNIVERSE, 2, Adjacency.REPLACE):
            pairs = zip(answers(left, categories), answers(right, categories), strict=True)
            largest = max(largest, sum(a != b for a, b in pairs))
            cases += 1
    require(largest == claimed, f"{largest} answers change, not {claimed}")
    return cases
