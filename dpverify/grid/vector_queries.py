"""Sums of records as vectors, with their squared L2 sensitivities as lemmas.

Each record is mapped on its own to an integer vector (dpverify.grid.vectors) in a ball of public
radius; sums of integers are exact, whatever the order or the batch.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import NDArray

from dpverify.grid.linear import WORD, Integers, check_word_budget, column_sums
from dpverify.grid.queries import UNCLIPPED, Query
from dpverify.grid.records import Records
from dpverify.grid.vectors import (
    OUTER_BOX,
    Matrix,
    Vector,
    check_rank,
    checked_center,
    checked_exponent,
    checked_matrix,
    checked_radius,
    clip_to_ball,
    inside_ball,
    mapped,
)
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.balls import ball, enclose
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import exact, render, whole
from dpverify.privacy.rules import sensitivity_lemma
from dpverify.privacy.rules.making import require_norm

UNIT = 1 << 40
"""The standard deviation of the noise that is added to a value in one unit."""
_SPEC = "theory/vectors.py"


class VectorQuery(Query):
    """A query of public width, whose values have a public bound for a number of records."""

    __slots__ = ()

    @property
    @abstractmethod
    def width(self) -> int:
        """How many integers a value has."""

    @abstractmethod
    def largest(self, rows: int) -> int:
        """A bound on the magnitude of every coordinate, for that many records."""


@dataclass(frozen=True, slots=True)
class VectorSum(VectorQuery):
    """The sum over records of C (cells - center), each clipped to the ball of ``radius``.

    Cells are of 2^exponent, center and radius in cells; without ``matrix``, C is the identity.
    """

    center: Vector
    radius: int
    exponent: int
    matrix: Matrix | None = None
    clipped: bool = True

    def __post_init__(self) -> None:
        _check_map(self)

    @property
    def width(self) -> int:
        """Columns, or rows of the matrix."""
        return _width(self)

    def largest(self, rows: int) -> int:
        """The radius for each record; without clipping, as far as the outer box goes."""
        return rows * (self.radius if self.clipped else _reach(self))

    def evaluate(self, records: Records) -> NDArray[np.int64]:
        """Shape (width,), exact for every n."""
        total: Integers = np.zeros(self.width, object)
        for image in _mapped(self, records):
            total += column_sums(clip_to_ball(image, self.radius) if self.clipped else image)
        return _array(total.tolist(), self.largest(len(records)))

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """add-remove: one vector, R^2; replace: one vector for another, (2R)^2."""
        if not self.clipped:
            raise ValueError(UNCLIPPED)
        value = self.radius**2 * (4 if adjacency is Adjacency.REPLACE else 1)
        words = f"the sum of records clipped to {_ball(self)}"
        what = Quantity.of(words, "VectorSum", radius=self.radius)
        return _lemma(what, self, value, adjacency, domain, "obligation_vector_sum")

    def unclipped(self) -> Query:
        """The same sum, clamped to the outer box of the grid only."""
        return replace(self, clipped=False)


@dataclass(frozen=True, slots=True)
class MaskedSum(VectorQuery):
    """The sum of the records inside a ball, and ``weight`` times their number.

    A record counts as C (cells - center) if that lies in the ball of ``radius``, else not at all.
    With weight = isqrt(3 R^2) the number is free under replace.
    """

    center: Vector
    radius: int
    exponent: int
    weight: int
    matrix: Matrix | None = None
    clipped: bool = True

    def __post_init__(self) -> None:
        _check_map(self)
        object.__setattr__(self, "weight", whole(self.weight, "weight"))
        if self.weight < 1:
            raise ValueError(
                f"weight = {self.weight}; the number of records inside needs a weight of at least "
                "1: isqrt(3 * radius**2) costs nothing under replace."
            )
        check_word_budget(self.weight, "weight", 1 << 42)

    @property
    def width(self) -> int:
        """Columns, or rows of the matrix, and the number."""
        return _width(self) + 1

    def largest(self, rows: int) -> int:
        """The radius or the weight for each record; without a mask, as far as the outer box goes."""
        return rows * max(self.weight, self.radius if self.clipped else _reach(self))

    def evaluate(self, records: Records) -> NDArray[np.int64]:
        """Shape (width,), exact for every n: the sum, then weight times the number."""
        total: Integers = np.zeros(_width(self), object)
        number = 0
        for image in _mapped(self, records):
            kept = image[inside_ball(image, self.radius)] if self.clipped else image
            total += column_sums(kept)
            number += len(kept)
        return _array([*total.tolist(), self.weight * number], self.largest(len(records)))

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """One record in or out: R^2 + w^2. Replace may also move one within: (2R)^2."""
        if not self.clipped:
            raise ValueError(UNCLIPPED)
        square = self.radius**2
        value = square + self.weight**2
        if adjacency is Adjacency.REPLACE:
            value = max(value, 4 * square)
        words = f"the sum of records inside {_ball(self)}, with {self.weight} times their number"
        what = Quantity.of(words, "MaskedSum", radius=self.radius, weight=self.weight)
        return _lemma(what, self, value, adjacency, domain, "obligation_masked_sum")

    def unclipped(self) -> Query:
        """The sum of all records, inside or not."""
        return replace(self, clipped=False)


@dataclass(frozen=True, slots=True)
class OneUnit(VectorQuery):
    """round(value 2^40 / scale), ties to even: a value in 2^-40 of its public noise scale.

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
        object.__setattr__(self, "scale", exact(self.scale, "scale"))
        if self.scale <= 0:
            raise ValueError(
                f"scale = {self.scale} is not positive; give the standard deviation of the noise, "
                "in units of the query."
            )

    @property
    def width(self) -> int:
        """That of the query."""
        return self.query.width

    def largest(self, rows: int) -> int:
        """The query's bound in this unit, rounded up."""
        return math.ceil(self.query.largest(rows) * UNIT / self.scale)

    def evaluate(self, records: Records) -> NDArray[np.int64]:
        """Shape (width,): the query's value, rounded once, exactly."""
        up, down = UNIT * self.scale.denominator, self.scale.numerator
        values = self.query.evaluate(records).tolist()
        return _array([round(Fraction(v * up, down)) for v in values], self.largest(len(records)))

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """(sqrt(v) 2^40 / scale + sqrt(moved))^2 for the query's v: an integer, rounded safely.

        Each coordinate that moves is rounded twice, by at most 1/2 each; at most min(width, v) of
        the query's integers move.
        """
        shown = self.query.sensitivity(adjacency, domain)
        require_norm(shown, (Norm.SQUARED_L2,), "a value in the unit of its noise")
        inner = shown.conclusion
        return sensitivity_lemma(
            Quantity.of(
                f"{inner.query}, rounded to 2^-40 of {render(self.scale)}",
                "OneUnit",
                moved=inner.value,
                scale=self.scale,
                width=self.width,
            ),
            norm=Norm.SQUARED_L2,
            value=rounded_sensitivity(math.floor(inner.value), self.scale, self.width),
            adjacency=adjacency,
            domain=domain,
            obligation=f"{_SPEC}:obligation_one_unit",
            source=Source("OURS", "an integer query in a unit of its noise"),
            premises=(shown,),
        )

    def unclipped(self) -> Query | None:
        """The same of the query without its clipping."""
        wild = self.query.unclipped()
        return replace(self, query=wild) if isinstance(wild, VectorQuery) else None


def rounded_sensitivity(value: int, scale: Fraction, width: int) -> int:
    """floor((sqrt(value) 2^40 / scale + sqrt(min(width, value)))^2), never below.

    The floor is safe: squared distances of integer vectors are integers.
    """
    if value == 0:
        return 0
    square, moved = value * (UNIT / scale) ** 2, Fraction(min(width, value))

    def root() -> arb:
        return ball(square).sqrt() + ball(moved).sqrt()

    return math.floor(enclose(lambda: root() ** 2).upper)


def _check_map(query: VectorSum | MaskedSum) -> None:
    """Sequences become tuples, NumPy integers Python ones. Raises TypeError or ValueError for a map that makes no sense."""
    object.__setattr__(query, "center", checked_center(query.center))
    object.__setattr__(query, "radius", checked_radius(query.radius))
    object.__setattr__(query, "exponent", checked_exponent(query.exponent))
    if query.matrix is not None:
        matrix = checked_matrix(query.matrix, len(query.center))
        check_rank(matrix, len(query.center))
        object.__setattr__(query, "matrix", matrix)


def _width(query: VectorSum | MaskedSum) -> int:
    return len(query.center if query.matrix is None else query.matrix)


def _reach(query: VectorSum | MaskedSum) -> int:
    """How far a coordinate of an image can be from zero, without clipping."""
    sides = [OUTER_BOX + abs(coordinate) for coordinate in query.center]
    if query.matrix is None:
        return max(sides)
    return max(
        sum(abs(entry) * side for entry, side in zip(row, sides, strict=True))
        for row in query.matrix
    )


def _ball(query: VectorSum | MaskedSum) -> str:
    mapped = "" if query.matrix is None else ", after a public matrix"
    return f"a ball of {query.radius} cells about a public center{mapped}"


def _mapped(query: VectorSum | MaskedSum, records: Records) -> Iterator[Integers]:
    return mapped(records, query.exponent, query.center, query.matrix)


def _array(values: list[int], bound: int) -> Integers:
    """int64, or Python integers where the public bound leaves 62 bits."""
    return np.array(values, np.int64 if bound < WORD else object)


def _lemma(
    what: Quantity,
    query: VectorSum | MaskedSum,
    value: int,
    adjacency: Adjacency,
    domain: Domain,
    obligation: str,
) -> Derivation[Sensitivity]:
    if domain.columns != len(query.center):
        raise ValueError(
            f"{domain}, for a center of {len(query.center)} coordinates; give one coordinate a "
            "column."
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
