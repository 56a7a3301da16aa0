"""Hypothesis strategies for tests of one's own: neighboring datasets, nasty ones included.

Hypothesis is needed when a strategy is made, and not to import this module.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from dpverify.audit.neighbors.boxes import Box, Record
from dpverify.audit.neighbors.pairs import Neighboring, NeighboringPair, QueryMoves, Steps, moved
from dpverify.audit.neighbors.templates import EXTREMES, INTEGER_ENDS, NOT_FINITE, check_bounds
from dpverify.privacy import Adjacency, Domain

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

_MOST_COLUMNS = 8  # largest number of columns that are drawn one by one
_MOST_ROWS = 20  # largest number of rows where the domain has none
_POOL = 3  # number of records that are drawn to be repeated


def neighboring_datasets(
    adjacency: Neighboring, domain: Domain | Box
) -> SearchStrategy[NeighboringPair]:
    """Draw neighboring datasets of a domain: pairs with ``left`` and ``right``, in either order.

    adjacency: ADD_REMOVE, REPLACE, ``QueryMoves`` for vectors of query answers, or ``Steps``.
    domain: a ``Domain`` is all of what a claim covers, in up to 20 records; a ``Box`` adds
    bounds, integers and other numbers of records. Vectors of answers need a ``Box`` with
    bounds.

    Datasets are lists of numbers for one column, else arrays of shape (n, columns), as in
    ``templates``. Among them are the empty dataset, a single record, duplicates, bounds, 1e308,
    subnormal numbers, -0.0, the ends of integer types, and NaN and infinities where the domain
    has them. Failing examples shrink towards few records of zeros. From 9 columns on, a record
    is constant but for 8 of its columns.

    Raises ImportError without Hypothesis, TypeError for a relation of one's own, and ValueError
    for a box whose numbers of records leave no room for neighbors.
    """
    try:
        from hypothesis import strategies as st
    except ImportError:
        raise ImportError(
            "neighboring_datasets makes a Hypothesis strategy; run `pip install hypothesis`."
        ) from None
    box = _box_of(domain)
    base = adjacency.base if isinstance(adjacency, Steps) else adjacency
    check_bounds(base, box)
    numbers = [_number(box, column) for column in range(box.columns)]
    if isinstance(base, QueryMoves):
        return st.composite(_draw_vectors)(base, box, numbers)
    steps = adjacency.number if isinstance(adjacency, Steps) else 1
    fewest, most = box.sizes
    if base is Adjacency.ADD_REMOVE and most <= fewest:
        raise ValueError(
            f"rows = {box.rows}: neighbors under add-remove differ in their number of records; "
            f"write rows=({fewest}, {fewest + 1}) or more."
        )
    make = _draw_added if base is Adjacency.ADD_REMOVE else _draw_replaced
    record = st.composite(_draw_record)(box, numbers)
    pool = st.lists(record, min_size=1, max_size=_POOL)
    return st.composite(make)(adjacency, box, steps, record, pool)


def _box_of(domain: Domain | Box) -> Box:
    if isinstance(domain, Box):
        return domain
    if not isinstance(domain, Domain):
        raise TypeError(
            f"domain = {domain!r}; write Domain(columns=1), or Box(low=0, high=1) with public "
            "bounds."
        )
    most = _MOST_ROWS if domain.most_rows is None else min(domain.most_rows, _MOST_ROWS)
    return Box(columns=domain.columns, nonfinite=domain.nonfinite, rows=(0, most))


def _draw_added(
    draw: DrawFn,
    adjacency: Neighboring,
    box: Box,
    steps: int,
    record: SearchStrategy[Record],
    pool: SearchStrategy[list[Record]],
) -> NeighboringPair:
    """Draw a common part, and records that one of the sides has besides: one, or up to
    ``steps``.
    """
    from hypothesis import strategies as st

    fewest, most = box.sizes
    number = draw(st.integers(1, min(steps, most - fewest)))
    record = _repeating(draw, record, pool)
    common = draw(st.lists(record, min_size=fewest, max_size=most - number))
    sides = [*common], [*common]
    for _ in range(number):
        side = draw(st.sampled_from(sides))
        side.insert(draw(st.integers(0, len(side))), draw(record))
    return _pair(adjacency, box, *sides)


def _draw_replaced(
    draw: DrawFn,
    adjacency: Neighboring,
    box: Box,
    steps: int,
    record: SearchStrategy[Record],
    pool: SearchStrategy[list[Record]],
) -> NeighboringPair:
    """Draw a dataset, and records to stand in other places of it: one, or up to ``steps``."""
    from hypothesis import strategies as st

    fewest, most = box.sizes
    record = _repeating(draw, record, pool)
    left = draw(st.lists(record, min_size=fewest, max_size=most))
    right = [*left]
    for _ in range(draw(st.integers(1, steps)) if left else 0):
        right[draw(st.integers(0, len(left) - 1))] = draw(record)
    return _pair(adjacency, box, left, right)


def _draw_vectors(
    draw: DrawFn, adjacency: QueryMoves, box: Box, numbers: Sequence[SearchStrategy[Any]]
) -> NeighboringPair:
    """Draw answers, and moves of as many of them as may move at once, that stay in the box."""
    from hypothesis import strategies as st

    answers = [draw(number) for number in numbers]
    most = box.columns if adjacency.at_once is None else min(adjacency.at_once, box.columns)
    moving = draw(st.lists(st.integers(0, box.columns - 1), max_size=most, unique=True))
    step: Any = math.floor(adjacency.distance) if box.integers else adjacency.step
    within: SearchStrategy[Any]
    within = st.integers(-step, step) if box.integers else st.floats(-step, step)
    moves: list[Any] = [type(step)(0)] * box.columns
    for column in moving:
        moves[column] = draw(st.sampled_from((step, -step)) | within)
    pair = moved("drawn", answers, moves, adjacency)
    right = [
        type(step)(min(max(answer, _end(box.low, column)), _end(box.high, column)))
        for column, answer in enumerate(pair.right)
    ]
    both = (pair.left, right) if draw(st.booleans()) else (right, pair.left)
    return NeighboringPair(name="drawn", left=both[0], right=both[1], adjacency=adjacency)


def _pair(adjacency: Neighboring, box: Box, left: list[Any], right: list[Any]) -> NeighboringPair:
    sides = box.dataset(left), box.dataset(right)
    return NeighboringPair(name="drawn", left=sides[0], right=sides[1], adjacency=adjacency)


def _repeating(
    draw: DrawFn, record: SearchStrategy[Record], pool: SearchStrategy[list[Record]]
) -> SearchStrategy[Record]:
    """Make a strategy for records of which some are drawn again and again, since ties and
    duplicates break things.
    """
    from hypothesis import strategies as st

    return st.sampled_from(draw(pool)) | record


def _draw_record(draw: DrawFn, box: Box, numbers: Sequence[SearchStrategy[Any]]) -> Record:
    from hypothesis import strategies as st

    if box.columns <= _MOST_COLUMNS:
        drawn = [draw(number) for number in numbers]
        return drawn[0] if box.columns == 1 else tuple(drawn)
    constant = draw(st.sampled_from((box.middles, box.lows, box.highs)))
    made = [*cast("Sequence[Any]", box.record(constant))]
    places = st.lists(st.integers(0, box.columns - 1), max_size=_MOST_COLUMNS, unique=True)
    for column in draw(places):
        made[column] = draw(numbers[column])
    return tuple(made)


def _number(box: Box, column: int) -> SearchStrategy[Any]:
    """Make a strategy for numbers of one column, the nasty ones often.

    It shrinks towards 0 or the bound that is nearest.
    """
    from hypothesis import strategies as st

    nasty: list[Any]
    low, high = (_end(bound, column) for bound in (box.low, box.high))
    if box.integers:
        least, most = (
            -(2**63) if low is None else int(low),
            2**63 - 1 if high is None else int(high),
        )
        ends = [sign * end for end in INTEGER_ENDS for sign in (1, -1)]
        nasty = [least, most, *(end for end in ends if least <= end <= most)]
        return st.integers(least, most) | st.sampled_from(nasty)
    lowest, highest = float(box.lows[column]), float(box.highs[column])
    nasty = [lowest, highest, *(odd for odd in EXTREMES if lowest <= odd <= highest)]
    if box.nonfinite == "replace":
        nasty += NOT_FINITE
    return st.floats(lowest, highest) | st.sampled_from(nasty)


def _end(bound: Any, column: int) -> Any:
    """Return a column's bound as it was given, exactly: an integer may be none of the floats."""
    return bound[column] if isinstance(bound, Sequence) else bound


__all__ = ["neighboring_datasets"]
