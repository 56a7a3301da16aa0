"""Sums of records as vectors, with their squared L2 sensitivities as lemmas.

Each record is mapped on its own to an integer vector (dpverify.grid.vectors) in a ball of public
radius; sums of integers are exact, whatever the order or the batch.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from dpverify.grid.inner_sums import inner_sum
from dpverify.grid.linear import WORD, Integers, check_word_budget, column_sums
from dpverify.grid.queries import UNCLIPPED, Query
from dpverify.grid.rounding import rounded_multiples
from dpverify.grid.transcripts import NOTHING, Released, Transcripts
from dpverify.grid.vectors import (
    IntegerMap,
    Matrix,
    Vector,
    check_rank,
    checked_radius,
    clip_to_ball,
    inside_ball,
)
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.balls import ball, enclose
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import exact, render, settle, whole
from dpverify.privacy.rules import sensitivity_lemma
from dpverify.privacy.rules.making import require_made, require_norm

UNIT = 1 << 40
"""The standard deviation of the noise that is added to a value in one unit."""
_SPEC = "theory/vectors.py"


class VectorQuery(Query):
    """A query of public width, whose values have a public bound for a number of records."""

    __slots__ = ()

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of integers in a value."""

    @abstractmethod
    def largest(self, rows: int) -> int:
        """Return a bound on the magnitude of every coordinate, for that many records."""


@dataclass(frozen=True, slots=True)
class VectorSum(VectorQuery):
    """The sum over records of C (cells - center), each clipped to the ball of ``radius``.

    Cells are of 2^exponent, center and radius in cells; without ``matrix``, C is the identity.
    """

    adds_up = True
    center: Vector
    radius: int
    exponent: int
    matrix: Matrix | None = None
    clipped: bool = True

    def __post_init__(self) -> None:
        _check_map(self)

    @property
    def map(self) -> IntegerMap:
        """Map from records to what is clipped."""
        return _map_of(self.center, self.exponent, self.matrix)

    @property
    def width(self) -> int:
        """Number of released integers: the columns, or the rows of the matrix."""
        return len(self.matrix or self.center)

    def largest(self, rows: int) -> int:
        """Return the radius for each record; without clipping, as far as the outer box goes."""
        return rows * (self.radius if self.clipped else self.map.reach)

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[np.int64]:
        """Return the sum, shape (width,), exact for every n."""
        total = _clipped_sum(self.map, view, self.radius if self.clipped else None)
        return _array(total, self.largest(len(view)))

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the squared sensitivity. Add-remove: one vector, R^2; replace: one vector for
        another, (2R)^2.
        """
        if not self.clipped:
            raise ValueError(UNCLIPPED)
        value = self.radius**2 * (4 if adjacency is Adjacency.REPLACE else 1)
        words = f"the sum of records clipped to {_ball(self)}"
        what = Quantity.of(words, "VectorSum", radius=self.radius)
        return _lemma(what, len(self.center), value, adjacency, domain, "obligation_vector_sum")

    def unclipped(self) -> Query:
        """Return the same sum, clamped to the outer box of the grid only."""
        return replace(self, clipped=False)


@dataclass(frozen=True, slots=True)
class ReleasedSum(VectorQuery):
    """The sum over records of their images under a map that earlier stages decided, clipped to
    a public ball.

    maps: the map of each draw, every one from ``columns`` to ``rows`` numbers (of the matrix).
    Where images are clipped one bound holds for all maps, so no stage has to be built from the
    transcript.
    """

    adds_up = True
    columns: int
    rows: int
    radius: int
    maps: Released[Sequence[IntegerMap]]

    def __post_init__(self) -> None:
        settle(self, radius=checked_radius(self.radius))

    @property
    def width(self) -> int:
        """Number of released integers: the rows of the matrix."""
        return self.rows

    @property
    def reads(self) -> tuple[str, ...]:
        """Stages that the maps follow from."""
        return self.maps.reads

    def largest(self, rows: int) -> int:
        """Return the radius for each record."""
        return rows * self.radius

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[np.int64]:
        """Return the sum, shape (size, width), exact; draws that lead to one map share the work.

        Raises ValueError for a map of another shape.
        """
        maps = self.maps(before)
        sums = {one: self._sum(one, view) for one in set(maps)}
        return np.array([sums[one] for one in maps], np.int64 if self._short(view) else object)

    def _sum(self, public: IntegerMap, view: View) -> list[int]:
        if (public.columns, public.width) != (self.columns, self.width):
            raise ValueError(
                f"a map from {public.columns} to {public.width} numbers was released for a sum "
                f"that declared {self.columns} and {self.width}; queries of one plan have one "
                "shape."
            )
        return view.once((public, self.radius), lambda: _clipped_sum(public, view, self.radius))

    def _short(self, view: View) -> bool:
        return self.largest(len(view)) < WORD

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the squared sensitivity of ``VectorSum``, whatever the map: add-remove R^2;
        replace (2R)^2.
        """
        value = self.radius**2 * (4 if adjacency is Adjacency.REPLACE else 1)
        words = f"the sum of records clipped to a ball of {self.radius} cells, after a released map"
        what = Quantity.of(words, "VectorSum", radius=self.radius)
        return _lemma(what, self.columns, value, adjacency, domain, "obligation_vector_sum")


@dataclass(frozen=True, slots=True)
class MaskedSum(VectorQuery):
    """The sum of the records inside a ball, and ``weight`` times their number.

    A record counts as C (cells - center) if that lies in the ball of ``radius``, else not at all.
    With weight = isqrt(3 R^2) the number is free under replace.
    """

    adds_up = True
    center: Vector
    radius: int
    exponent: int
    weight: int
    matrix: Matrix | None = None
    clipped: bool = True

    def __post_init__(self) -> None:
        _check_map(self)
        settle(self, weight=whole(self.weight, "weight"))
        if self.weight < 1:
            raise ValueError(
                f"weight = {self.weight}; the number of records inside needs a weight of at least "
                "1: isqrt(3 * radius**2) costs nothing under replace."
            )
        check_word_budget(self.weight, "weight", 1 << 42)

    @property
    def map(self) -> IntegerMap:
        """Map from records to what is masked."""
        return _map_of(self.center, self.exponent, self.matrix)

    @property
    def width(self) -> int:
        """Number of released integers: the columns, or the rows of the matrix, and the number
        of records.
        """
        return len(self.matrix or self.center) + 1

    def largest(self, rows: int) -> int:
        """Return the radius or the weight for each record; without a mask, as far as the outer
        box goes.
        """
        return rows * max(self.weight, self.radius if self.clipped else self.map.reach)

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[np.int64]:
        """Return the sum, then weight times the number, shape (width,), exact for every n."""
        total: Integers = np.zeros(self.width - 1, object)
        others, number = view.records, 0
        if self.clipped:
            total, others = inner_sum(self.map, view.records, self.radius)
            number = len(view) - len(others)
        for image in self.map.images(others):
            kept = image[inside_ball(image, self.radius)] if self.clipped else image
            total += column_sums(kept)
            number += len(kept)
        return _array([*total.tolist(), self.weight * number], self.largest(len(view)))

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the squared sensitivity: one record in or out, R^2 + w^2. Replace may also
        move one within: (2R)^2.
        """
        if not self.clipped:
            raise ValueError(UNCLIPPED)
        square = self.radius**2
        value = square + self.weight**2
        if adjacency is Adjacency.REPLACE:
            value = max(value, 4 * square)
        words = f"the sum of records inside {_ball(self)}, with {self.weight} times their number"
        what = Quantity.of(words, "MaskedSum", radius=self.radius, weight=self.weight)
        return _lemma(what, len(self.center), value, adjacency, domain, "obligation_masked_sum")

    def unclipped(self) -> Query:
        """Return the sum of all records, inside or not."""
        return replace(self, clipped=False)


@dataclass(frozen=True, slots=True)
class OneUnit(VectorQuery):
    """Query of a value in 2^-40 of its public noise scale: round(value 2^40 / scale), ties to even.

    Integer noise of standard deviation 2^40 then fits whatever the scale.
    """

    query: VectorQuery
    scale: Fraction

    def __post_init__(self) -> None:
        if not isinstance(self.query, VectorQuery):
            raise TypeError(
                f"query: a {type(self.query).__name__} has no public width; give a VectorSum, a "
                "MaskedSum or another VectorQuery."
            )
        settle(self, scale=exact(self.scale, "scale"))
        if self.scale <= 0:
            raise ValueError(
                f"scale = {self.scale} is not positive; give the standard deviation of the noise, "
                "in units of the query."
            )

    @property
    def width(self) -> int:
        """Width of the query."""
        return self.query.width

    def largest(self, rows: int) -> int:
        """Return the query's bound in this unit, rounded up."""
        return math.ceil(self.query.largest(rows) * UNIT / self.scale)

    @property
    def in_any_order(self) -> bool:
        """True if the query's value does not depend on the order."""
        return self.query.in_any_order

    @property
    def reads(self) -> tuple[str, ...]:
        """Stages that the query reads."""
        return self.query.reads

    @property
    def addends(self) -> tuple[Query, ...] | None:
        """Addends of the query: what adds up is rounded once, after it was added."""
        return self.query.addends

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[Any]:
        """Return the query's value, rounded once, exactly; of the same shape."""
        values = view.value(self.query, before)
        return rounded_multiples(np.atleast_2d(values), [UNIT / self.scale]).reshape(values.shape)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity (sqrt(v) 2^40 / scale + sqrt(moved))^2 for the query's v: an
        integer, rounded safely.

        Each coordinate that moves is rounded twice, by at most 1/2 each; at most min(width, v) of
        the query's integers move.
        """
        shown = self.query.sensitivity(adjacency, domain)
        require_made(shown)  # before a look-alike is answered with the statement of its like
        return _in_unit(
            shown, self.scale, self.width, adjacency, domain, replacement=domain.replacement
        )

    def unclipped(self) -> Query | None:
        """Return the same of the query without its clipping."""
        wild = self.query.unclipped()
        return replace(self, query=wild) if isinstance(wild, VectorQuery) else None


@lru_cache(maxsize=1024)
def _in_unit(
    shown: Derivation[Sensitivity],
    scale: Fraction,
    width: int,
    adjacency: Adjacency,
    domain: Domain,
    *,
    replacement: object,
) -> Derivation[Sensitivity]:
    """Derive the sensitivity in a unit from that of the query itself.

    The steps of a search, and all releases of a mechanism, have the same. replacement: that of
    the domain, which equal domains need not share.
    """
    require_norm(shown, (Norm.SQUARED_L2,), "a value in the unit of its noise")
    inner = shown.conclusion
    quantity = Quantity.of(
        f"{inner.query}, rounded to 2^-40 of {render(scale)}",
        "OneUnit",
        moved=inner.value,
        scale=scale,
        width=width,
    )
    return sensitivity_lemma(
        quantity,
        norm=Norm.SQUARED_L2,
        value=rounded_sensitivity(math.floor(inner.value), scale, width),
        adjacency=adjacency,
        domain=domain,
        obligation=f"{_SPEC}:obligation_one_unit",
        source=Source("OURS", "an integer query in a unit of its noise"),
        premises=(shown,),
    )


@lru_cache(maxsize=1024)
def rounded_sensitivity(value: int, scale: Fraction, width: int) -> int:
    """Return floor((sqrt(value) 2^40 / scale + sqrt(min(width, value)))^2), never below.

    The floor is safe: squared distances of integer vectors are integers.
    """
    if value == 0:
        return 0
    square, moved = value * (UNIT / scale) ** 2, Fraction(min(width, value))

    def root() -> arb:
        return ball(square).sqrt() + ball(moved).sqrt()

    return math.floor(enclose(lambda: root() ** 2).upper)


def unit_sensitivity(spread: Fraction, width: int) -> int:
    """Return (2^40 / spread + sqrt(width))^2, rounded up."""
    if spread <= 0:
        raise ValueError(
            f"spread = {spread} is not positive; noise needs a standard deviation above 0."
        )

    def square() -> arb:
        return (ball(UNIT / spread) + ball(Fraction(width)).sqrt()) ** 2

    return math.ceil(enclose(square).upper)


@lru_cache(maxsize=64)
def _map_of(center: Vector, exponent: int, matrix: Matrix | None) -> IntegerMap:
    """Make the map once: chunks are asked again and again."""
    return IntegerMap(center, exponent, matrix)


def _check_map(query: VectorSum | MaskedSum) -> None:
    """Turn sequences into tuples and NumPy integers into Python ones. Raises TypeError or
    ValueError for a map that makes no sense.
    """
    made = IntegerMap(query.center, query.exponent, query.matrix)
    settle(query, center=made.center, exponent=made.exponent, matrix=made.matrix)
    settle(query, radius=checked_radius(query.radius))
    if made.matrix is not None:
        check_rank(made.matrix, made.columns)


def _clipped_sum(public: IntegerMap, view: View, radius: int | None) -> list[int]:
    total: Integers = np.zeros(public.width, object)
    others = view.records
    if radius is not None:
        total, others = inner_sum(public, view.records, radius)
    for image in public.images(others):
        total += column_sums(image if radius is None else clip_to_ball(image, radius))
    sums: list[int] = total.tolist()
    return sums


def _ball(query: VectorSum | MaskedSum) -> str:
    mapped = "" if query.matrix is None else ", after a public matrix"
    return f"a ball of {query.radius} cells about a public center{mapped}"


def _array(values: list[int], bound: int) -> Integers:
    """Return an int64 array, or one of Python integers where the public bound leaves 62 bits."""
    return np.array(values, np.int64 if bound < WORD else object)


def _lemma(
    what: Quantity,
    columns: int,
    value: int,
    adjacency: Adjacency,
    domain: Domain,
    obligation: str,
) -> Derivation[Sensitivity]:
    if domain.columns != columns:
        raise ValueError(
            f"{domain}, for a center of {columns} coordinates; give one coordinate a column."
        )
    return sensitivity_lemma(
        what,
        norm=Norm.SQUARED_L2,
        value=value,
        adjacency=adjacency,
        domain=domain,
        obligation=f"{_SPEC}:{obligation}",
        source=Source("OURS", "sums of integer vectors in a ball"),
    )
