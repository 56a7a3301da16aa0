"""What is asked of the records that a filter kept: their number, and their mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from dpverify.grid import UNIT
from dpverify.grid.linear import WORD, Integers, largest, matmul
from dpverify.grid.nearness import Nearness
from dpverify.plans.filtering import CoreQuery
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.adjacency import Friendly
from dpverify.privacy.balls import ball, enclose
from dpverify.privacy.hypotheses import Compared, Quantity, Relation, Side
from dpverify.privacy.numbers import render
from dpverify.privacy.rules import sensitivity_lemma
from dpverify.randomness.bits import BoolArray, IntArray

_SPEC = "theory/filters.py"
_KEPT_RECORDS = "the number of kept records"
_HALF = 0.4999  # less than 1/2 by more than these comparisons round
_SOURCE = Source("OURS", "the mean of friendly records, in the unit of its noise")


@dataclass(frozen=True, slots=True)
class KeptCount(CoreQuery):
    """The number of kept records, minus a public ``shift``."""

    nearness: Nearness
    shift: int

    @property
    def width(self) -> int:
        """1."""
        return 1

    def of_cores(self, images: Integers, kept: BoolArray) -> IntArray:
        """Shape (size, 1)."""
        counts: IntArray = np.count_nonzero(kept, axis=1)[:, np.newaxis] - self.shift
        return counts

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """1, for friendly neighbors."""
        about = _require_friends(self, adjacency)
        query = Quantity.of(_KEPT_RECORDS, "KeptCount", predicate=about.predicate, shift=self.shift)
        return _lemma(query, Norm.L1, 1, adjacency, domain, "kept_count")

    def reached(self, stage: str, at_least: int) -> Compared:
        """What is sure of a stage that released this number with noise, if it stopped where nothing is kept.

        A release of 1 or more where one of the neighbors keeps nothing, and the other at most one, is as large as
        the larger number. Raises ValueError for a gate below 1, which lets a release of 0 pass.
        """
        if at_least < 1:
            raise ValueError(
                f"A gate of {at_least} on {stage!r} lets pass what may come of nothing; ask for at least 1."
            )
        return below_kept(stage, self.nearness)


def below_kept(stage: str, nearness: Nearness, value: int | None = None) -> Compared:
    """That a stage's released number of kept records is below the larger neighbor's.

    value: the number that a query was built from, in place of the released one.
    """
    number = Quantity.of(_KEPT_RECORDS, "KeptCount", predicate=nearness.predicate)
    return Compared(stage, Relation.AT_MOST, Side.LARGER, number, slack=1, value=value)


@dataclass(frozen=True, slots=True)
class KeptMean(CoreQuery):
    """The mean of the kept records in 2^-40 of its noise: round(2^40 r sum / (a R s N)), ties to even.

    r: the released number of kept records, N the true one, R the radius, s = ``spread``; the noise,
    of standard deviation a R s / r cells, is then 2^40 in this unit. Where nothing is kept: 0.
    a = ``reach``: so many radii a kept record is from the mean of the others at most: 2, for all have
    friends in common, or 1 + strangers / r, if it has at most so many strangers.
    stage: the one that released r.
    """

    nearness: Nearness
    spread: Fraction
    released: int
    strangers: int | None = None
    stage: str = "kept"

    @property
    def width(self) -> int:
        """Of the images."""
        return self.nearness.width

    @property
    def reach(self) -> Fraction:
        """In radii; 2 where nothing better is known."""
        if self.strangers is None or self.released < 1:
            return Fraction(2)
        return 1 + min(Fraction(1), Fraction(self.strangers, self.released))

    @property
    def noise(self) -> Fraction:
        """The standard deviation of the noise, in cells."""
        return self.reach * self.nearness.radius * self.spread / max(1, self.released)

    def of_cores(self, images: Integers, kept: BoolArray) -> IntArray:
        """Exact, whatever the images: sums about one of them, then one rounding of a rational."""
        used = np.flatnonzero(kept.any(axis=0))
        size = len(kept)
        if not len(used):
            return np.zeros((size, self.width), np.int64)
        about = images[used[len(used) // 2]]
        near, chosen = images[used] - about, kept[:, used]
        if chosen.all():
            sums: IntArray = np.repeat(matmul(chosen[:1].astype(np.int64), near), size, axis=0)
        else:
            sums = matmul(chosen.astype(np.int64), near)
        counts = np.count_nonzero(chosen, axis=1)[:, np.newaxis]
        up, down = UNIT * self.noise.denominator, self.noise.numerator
        above = (sums.astype(object) + counts.astype(object) * about.astype(object)) * up
        found = rounded_quotients(above, np.maximum(counts, 1).astype(object) * down)
        return found.astype(np.int64) if largest(found) < WORD else found

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """(2^40 / s + sqrt(width))^2 for friendly neighbors, if 1 <= r and r is below the larger number."""
        about = _require_friends(self, adjacency)
        known, exchange = about.strangers, about.exchange
        if self.strangers is not None and (exchange or known is None or known > self.strangers):
            raise ValueError(
                f"a mean of records with few strangers has no sensitivity: {adjacency}."
            )
        if self.released < 1:
            raise ValueError(
                f"released = {self.released}: the mean of kept records has a sensitivity only where their released "
                "number is at least 1; put a gate before it."
            )
        value = unit_sensitivity(self.spread, self.width)
        query = Quantity.of(
            f"the mean of kept records, in 2^-40 of {render(self.spread)} of its reach",
            "KeptMean",
            predicate=about.predicate,
            spread=self.spread,
            width=self.width,
            released=self.released,
            strangers=self.strangers,
        )
        below = (below_kept(self.stage, self.nearness, self.released),)
        name = "swapped_mean" if exchange else "kept_mean"
        return _lemma(query, Norm.SQUARED_L2, value, adjacency, domain, name, below)


def unit_sensitivity(spread: Fraction, width: int) -> int:
    """(2^40 / spread + sqrt(width))^2, rounded up."""

    def square() -> arb:
        return (ball(UNIT / spread) + ball(Fraction(width)).sqrt()) ** 2

    return math.ceil(enclose(square).upper)


def rounded_multiples(
    values: IntArray, factors: Sequence[Fraction], which: IntArray | None = None
) -> IntArray:
    """Each row of values times a positive factor, to the nearest integers, ties to even, exactly.

    which: for each row the index of its factor; None: the first one. In floats where they are sure, first
    in short ones: with e the type's epsilon, both numbers of the factor, their quotient, the value and the
    product are rounded by e / 2 of themselves each, so the product is off by less than 4 e of itself; a
    nearest integer that is nearer than 1/2 less that is the right one.
    """
    rows = np.zeros(len(values), np.intp) if which is None else which
    if not all(map(_short, factors)):
        return _by_integers(values, factors, rows)
    if values.dtype == object:
        return _by_kind(values, factors, rows)
    found: IntArray = np.zeros(values.shape, np.int64)
    left = np.arange(len(values))
    for kind in (np.float64, np.longdouble):
        ratio = np.array([kind(f.numerator) / kind(f.denominator) for f in factors], kind)
        here = slice(None) if len(left) == len(values) else left
        nearest, sure = _nearest(values[here], ratio[rows[here]])
        found[here] = nearest
        left = left[~sure]
        if not len(left):
            return found
    exact = _by_integers(values[left], factors, rows[left])
    found = found if exact.dtype == np.int64 else found.astype(object)
    found[left] = exact
    return found


def _by_kind(values: IntArray, factors: Sequence[Fraction], rows: IntArray) -> IntArray:
    """Python integers: rows that fit words as words, the others by integers."""
    fit = ((values < WORD) & (values > -WORD)).reshape(len(values), -1).all(axis=1)
    if not fit.any():
        return _by_integers(values, factors, rows)
    words = rounded_multiples(values[fit].astype(np.int64), factors, rows[fit])
    if fit.all():
        return words
    found = values.copy()
    found[fit], found[~fit] = words, _by_integers(values[~fit], factors, rows[~fit])
    return found.astype(np.int64) if largest(found) < WORD else found


def _nearest(values: IntArray, ratio: NDArray[Any]) -> tuple[IntArray, BoolArray]:
    """The nearest integers of each row times its ratio, in the ratio's type, and in which rows all are sure."""
    product = values * ratio.reshape(-1, *(1,) * (values.ndim - 1))
    nearest = np.rint(product)
    size = np.abs(product)
    sure = np.abs(product - nearest) + 8 * np.finfo(ratio.dtype).eps * size < _HALF
    sure &= size < WORD
    if not sure.all():
        nearest = np.where(sure, nearest, 0)
    return nearest.astype(np.int64), sure.reshape(len(values), -1).all(axis=1)


def _by_integers(values: IntArray, factors: Sequence[Fraction], rows: IntArray) -> IntArray:
    above, below = values.astype(object), np.ones(values.shape, object)
    for index in np.unique(rows):
        chosen, factor = rows == index, factors[index]
        above[chosen] *= factor.numerator
        below[chosen] *= factor.denominator
    found = rounded_quotients(above, below)
    return found.astype(np.int64) if largest(found) < WORD else found


def _short(factor: Fraction) -> bool:
    """Whether both numbers are far from the ends of the floats."""
    return max(factor.numerator, factor.denominator) < 1 << 512


def rounded_quotients(above: IntArray, below: IntArray) -> IntArray:
    """above / below to the nearest integer, ties to even; below > 0, Python integers."""
    quotients = above // below
    twice = 2 * (above - quotients * below)
    up = (twice > below) | ((twice == below) & (quotients % 2 == 1))
    found: IntArray = quotients + up.astype(object)
    return found


def _require_friends(query: KeptCount | KeptMean, adjacency: object) -> Friendly:
    """Refuse neighbors that are not friendly by the query's own predicate."""
    if not isinstance(adjacency, Friendly):
        raise ValueError(
            f"{type(query).__name__} has a sensitivity for friendly neighbors only, not under "
            f"{adjacency}; put it behind a filter."
        )
    if adjacency.predicate != query.nearness.predicate:
        raise ValueError(
            f"The kept records are friends by {adjacency.predicate!r}, {type(query).__name__} is "
            f"about {query.nearness.predicate!r}; give both the same nearness."
        )
    return adjacency


def _lemma(
    query: Quantity,
    norm: Norm,
    value: int,
    adjacency: Adjacency,
    domain: Domain,
    name: str,
    hypotheses: tuple[Compared, ...] = (),
) -> Derivation[Sensitivity]:
    return sensitivity_lemma(
        query,
        norm=norm,
        value=value,
        adjacency=adjacency,
        domain=domain,
        obligation=f"{_SPEC}:obligation_{name}",
        source=_SOURCE,
        hypotheses=hypotheses,
    )
