"""Queries about the records that a filter retained: their number, and their mean."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.linear import WORD, Integers, largest, matmul
from dpverify.grid.nearness import Nearness
from dpverify.grid.queries import Query
from dpverify.grid.rounding import rounded_quotients
from dpverify.grid.transcripts import NOTHING, Handle, Transcripts
from dpverify.grid.vector_queries import UNIT, unit_sensitivity
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.adjacency import Friendly
from dpverify.privacy.hypotheses import Compared, Quantity, Relation, Side
from dpverify.privacy.numbers import render
from dpverify.privacy.rules import sensitivity_lemma

_SPEC = "theory/filters.py"
KEPT = Handle("kept")
"""The stage that releases the number of kept records, from which their mean is built."""
_KEPT_RECORDS = "the number of kept records"
_SOURCE = Source("OURS", "the mean of friendly records, in the unit of its noise")


@dataclass(frozen=True, slots=True)
class KeptCount(Query):
    """The number of kept records, minus a public ``shift``."""

    of_retained = True
    nearness: Nearness
    shift: int

    @property
    def width(self) -> int:
        """Number of released integers: always 1."""
        return 1

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> Integers:
        """Return the number, shape (size, 1), or (1,) where there is no filter."""
        packed = np.packbits(view.retained, axis=1)  # NumPy takes long to add up short rows
        numbers = np.bitwise_count(packed).sum(axis=1, dtype=np.int64)
        counts: Integers = numbers[:, np.newaxis] - self.shift
        return counts if view.is_filtered else counts[0]

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity, 1 for friendly neighbors."""
        about = _require_friends(self, adjacency)
        query = Quantity.of(_KEPT_RECORDS, "KeptCount", predicate=about.predicate, shift=self.shift)
        return _lemma(query, Norm.L1, 1, adjacency, domain, "kept_count")

    def reached(self, stage: str, at_least: int) -> Compared:
        """Return what is sure about a stage that released this number with noise, if it stopped
        where nothing is retained.

        A release of 1 or more where one of the neighbors keeps nothing, and the other at most
        one, is as large as the larger number. Raises ValueError for a gate below 1, which lets
        a release of 0 pass.
        """
        if at_least < 1:
            raise ValueError(
                f"A gate of {at_least} on {stage!r} lets pass what may come of nothing; ask for "
                "at least 1."
            )
        return below_kept(stage, self.nearness)


def below_kept(stage: str, nearness: Nearness, value: int | None = None) -> Compared:
    """State that a stage's released number of retained records is below the larger neighbor's.

    value: the number that a query was built from, in place of the released one.
    """
    number = Quantity.of(_KEPT_RECORDS, "KeptCount", predicate=nearness.predicate)
    return Compared(stage, Relation.AT_MOST, Side.LARGER, number, slack=1, value=value)


@dataclass(frozen=True, slots=True)
class KeptMean(Query):
    """The mean of the kept records in 2^-40 of its noise: round(2^40 r sum / (a R s N)), ties
    to even.

    r: the released number of kept records, N the true one, R the radius, s = ``spread``; the
    noise, of standard deviation a R s / r cells, is then 2^40 in this unit. Where nothing is
    kept, the value is 0. a = ``reach``: so many radii a kept record is from the mean of the
    others at most: 2, for all have friends in common, or 1 + strangers / r, if it has at most
    so many strangers.
    stage: the one that released r.
    """

    of_retained = True
    nearness: Nearness
    spread: Fraction
    released: int
    strangers: int | None = None
    stage: str = KEPT

    @property
    def width(self) -> int:
        """Width of the images."""
        return self.nearness.width

    @property
    def reach(self) -> Fraction:
        """Reach in radii; 2 where nothing better is known."""
        if self.strangers is None or self.released < 1:
            return Fraction(2)
        return 1 + min(Fraction(1), Fraction(self.strangers, self.released))

    @property
    def noise(self) -> Fraction:
        """The standard deviation of the noise, in cells."""
        return self.reach * self.nearness.radius * self.spread / max(1, self.released)

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> Integers:
        """Return the mean, shape (size, width), or (width,) where there is no filter. Exact,
        whatever the images: sums about one of them, then one rounding of a rational.
        """
        means = self._means(view.images(self.nearness).images, view.retained)
        return means if view.is_filtered else means[0]

    def _means(self, images: Integers, kept: NDArray[np.bool_]) -> Integers:
        used = np.flatnonzero(kept.any(axis=0))
        size = len(kept)
        if not len(used):
            return np.zeros((size, self.width), np.int64)
        about = images[used[len(used) // 2]]
        near, chosen = images[used] - about, kept[:, used]
        if chosen.all():
            sums: Integers = np.repeat(matmul(chosen[:1].astype(np.int64), near), size, axis=0)
        else:
            sums = matmul(chosen.astype(np.int64), near)
        counts = np.count_nonzero(chosen, axis=1)[:, np.newaxis]
        up, down = UNIT * self.noise.denominator, self.noise.numerator
        above = (sums.astype(object) + counts.astype(object) * about.astype(object)) * up
        means = rounded_quotients(above, np.maximum(counts, 1).astype(object) * down)
        return means.astype(np.int64) if largest(means) < WORD else means

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the squared sensitivity (2^40 / s + sqrt(width))^2 for friendly neighbors, if
        1 <= r and r is below the larger number.
        """
        about = _require_friends(self, adjacency)
        known, exchange = about.strangers, about.exchange
        if self.strangers is not None and (exchange or known is None or known > self.strangers):
            raise ValueError(
                f"a mean of records with few strangers has no sensitivity: {adjacency}."
            )
        if self.released < 1:
            raise ValueError(
                f"released = {self.released}: the mean of kept records has a sensitivity only "
                "where their released number is at least 1; put a gate before it."
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
