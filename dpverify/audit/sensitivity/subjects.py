"""Subjects of a sensitivity audit: a function of an array, or a query of the grid, with its
declared sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify.audit.independence import InvalidRun
from dpverify.audit.progress import Meter
from dpverify.audit.sensitivity.norms import AnyNorm, Measure, measure_of
from dpverify.audit.sensitivity.values import Value, nothing, read
from dpverify.audit.structure.result import describe
from dpverify.grid import Query, View, ingest
from dpverify.grid.groups import GroupBuckets
from dpverify.grid.tables import KeyedCounts, QuantileScores
from dpverify.privacy import Adjacency, Domain, Exact, exact
from dpverify.privacy.numbers import Floats

Aligned = Callable[[Value, Value], tuple[Value, Value]]
_FARTHEST = 1e300
_RAISED = "missing, for the query raised "


@dataclass(frozen=True, slots=True)
class Subject:
    """A query as the search sees it.

    evaluate: the query's value on records of shape (n, columns); raises ValueError for a query
    that changes its input. aligned: two values as arrays that can be subtracted. values: its
    public numbers.
    """

    name: str
    measure: Measure
    bound: Fraction
    evaluate: Callable[[Floats], Value]
    aligned: Aligned
    values: tuple[float, ...] = ()


def of_function(
    query: Callable[[Any], Any], norm: AnyNorm | None, bound: Exact | None, domain: Domain
) -> Subject:
    """Return a subject for a user's function. Raises TypeError without a norm, a bound or a
    function.
    """
    if not callable(query):
        raise TypeError(
            f"query is a {type(query).__name__}; give a function of an array of records, or a "
            "query of dpverify.grid."
        )
    measure = measure_of(norm)
    if bound is None:
        raise TypeError("bound is missing; give the declared sensitivity, such as 1 or '0.5'.")

    def evaluate(rows: Floats) -> Value:
        given = (rows[:, 0] if domain.columns == 1 else rows).copy()
        before = given.tobytes()
        try:
            value = read(query(given))
        except Exception as error:
            value = nothing(_RAISED + describe(error))
        if given.tobytes() != before:
            raise ValueError(
                f"The query {_name(query)} changes the array that it is given, so that its next "
                "value is about other data; let it work on a copy."
            )
        return value

    return Subject(_name(query), measure, _bound(bound), evaluate, _as_they_are)


def of_grid(
    query: Query,
    norm: AnyNorm | None,
    bound: Exact | None,
    adjacency: Adjacency,
    domain: Domain,
) -> Subject:
    """Return a subject for a query of the library in its own units, by its own lemma unless
    both are given.
    """
    if (norm is None) != (bound is None):
        raise TypeError("give both norm and bound, or neither to take those of the query's lemma.")
    if norm is None or bound is None:
        lemma = query.sensitivity(adjacency, domain).conclusion
        if lemma.hypotheses:
            raise ValueError(
                f"{lemma}: a pair of datasets does not show whether that is so. Give norm and "
                "bound for a query of the dataset alone."
            )
        norm, bound = lemma.norm, lemma.value

    def evaluate(rows: Floats) -> Value:
        try:
            return read(query.evaluate(View(ingest(rows, domain))))
        except Exception as error:
            return nothing(_RAISED + describe(error))

    return Subject(
        repr(query), measure_of(norm), _bound(bound), evaluate, _aligned(query), _values_of(query)
    )


@dataclass(slots=True)
class Noted:
    """A note of whether a query had a value on any data that it was given."""

    valued: bool = False
    problem: str = ""

    def by(self, subject: Subject) -> Subject:
        """Return the same subject with its values noted."""

        def evaluate(rows: Floats) -> Value:
            value = subject.evaluate(rows)
            if value.problem.startswith(_RAISED):
                self.problem = value.problem.removeprefix(_RAISED)
            else:
                self.valued = True
            return value

        return replace(subject, evaluate=evaluate)

    def require_a_value(self) -> None:
        """Raise InvalidRun if the query raised on all data: nothing was measured."""
        if not self.valued:
            raise InvalidRun(
                f"The query raised {self.problem} on all data, so nothing was measured. Call it "
                "once on data of the domain; it is given an array of shape (n, columns), or (n,) "
                "for one column."
            )


def metered(subject: Subject, meter: Meter) -> Subject:
    """Return the same subject with its evaluations counted by a meter."""

    def evaluate(rows: Floats) -> Value:
        value = subject.evaluate(rows)
        meter.count(1)
        return value

    return replace(subject, evaluate=evaluate)


def _bound(bound: Exact) -> Fraction:
    value = exact(bound, "bound")
    if value < 0:
        raise ValueError(f"bound = {bound} is negative; a distance is at least 0.")
    return value


def _name(query: Any) -> str:
    return str(getattr(query, "__name__", type(query).__name__))


def _as_they_are(left: Value, right: Value) -> tuple[Value, Value]:
    return left, right


def _aligned(query: Query) -> Aligned:
    if isinstance(query, (KeyedCounts, GroupBuckets)):
        return _by_key
    if isinstance(query, QuantileScores):
        return lambda left, right: _scores(query, left, right)
    return _as_they_are


def _by_key(left: Value, right: Value) -> tuple[Value, Value]:
    """Return the counts of every key that one of them has."""
    if left.problem or right.problem:
        return left, right
    tables = [dict(value.numbers.tolist()) for value in (left, right)]
    keys = sorted(tables[0].keys() | tables[1].keys())
    first, second = (read([table.get(key, 0) for key in keys]) for table in tables)
    return first, second


def _scores(query: QuantileScores, left: Value, right: Value) -> tuple[Value, Value]:
    """Return the scores of all cells where one of them changes, and of those beside them."""
    if left.problem or right.problem:
        return left, right
    records = [np.array(value.numbers.ravel().tolist(), np.int64) for value in (left, right)]
    jumps = np.concatenate([*records, [query.lower, query.upper]]).astype(np.int64)
    cells = np.unique(np.concatenate([jumps - 1, jumps, jumps + 1]))
    cells = cells[(cells >= query.lower) & (cells <= query.upper)]
    p, q = query.numerator, query.denominator

    def scored(z: Any) -> Value:
        below, up_to = (np.searchsorted(z, cells, side) for side in ("left", "right"))
        center = p * len(z)
        return read(np.maximum(0, np.maximum(q * below - center, center - q * up_to)))

    return scored(records[0]), scored(records[1])


def _values_of(query: Query) -> tuple[float, ...]:
    """Return the public numbers of a query in units of the records: bounds, centers, radii, a
    cell.
    """
    inner = getattr(query, "query", query)
    cells: list[float] = [1, 0.5, 1.5]
    names = ("upper", "lower", "radius", "step", "origin", "categories")
    cells[:0] = [float(getattr(inner, name)) for name in names if hasattr(inner, name)]
    center = getattr(inner, "center", ())
    centers = [float(c) for c in (center if isinstance(center, tuple) else (center,))][:4]
    radius = float(getattr(inner, "radius", 0))
    cells += [c + sign * radius for c in centers for sign in (0, 1, -1)]
    exponent = getattr(inner, "exponent", 0)
    within = [float(edge) for edge in getattr(inner, "within", None) or ()]
    numbers = [*within, *(_ldexp(cell, exponent) for cell in cells)]
    return tuple(dict.fromkeys(value for value in numbers if abs(value) < _FARTHEST))


def _ldexp(cell: float, exponent: int) -> float:
    try:
        return math.ldexp(cell, exponent)
    except OverflowError:
        return math.inf
