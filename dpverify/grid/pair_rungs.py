"""Pairs of records counted by how far apart they are after a public map, on a ladder of public
radii.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.groups import MOST_GROUPS, GroupBuckets, KthLargest
from dpverify.grid.hashes import GOLDEN, mixed
from dpverify.grid.linear import Integers, squared_norms
from dpverify.grid.nearness import Nearness
from dpverify.grid.queries import Query
from dpverify.grid.transcripts import NOTHING, Transcripts
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import whole
from dpverify.privacy.rules import sensitivity_lemma

_MOST_RUNGS = 16


def scattered(n: int) -> NDArray[np.intp]:
    """Order the places 0 to n - 1 by a public hash of each, a bijection of words, so that there
    are no ties.
    """
    words = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    return np.argsort(mixed(words), kind="stable")


@dataclass(frozen=True, slots=True)
class PairRungs(Query):
    """Numbers of pairs of records that are friends from each rung on; the last number counts
    those that are on none.

    Rung k, from -below to above, has the radius 2^k R, with R the radius of ``nearness`` in
    cells. A pair counts at the least rung with |y - y'| <= 2^k R, for y the images of its
    records. Under replace places in the list are paired by a public hash of theirs, so that
    sorted records are not paired with their nearest. Under add-remove each of ``groups`` groups
    has one pair, or none: a record's group and its place in it are a public hash of its image
    and of which of its equals it is, and the pair is of the first two.
    """

    nearness: Nearness
    below: int
    above: int
    adjacency: Adjacency
    groups: int

    def __post_init__(self) -> None:
        for name in ("below", "above"):
            if not 0 <= whole(getattr(self, name), name) <= _MOST_RUNGS:
                raise ValueError(f"{name} = {getattr(self, name)}; give 0 to {_MOST_RUNGS} rungs.")
        if not 1 <= whole(self.groups, "groups") <= MOST_GROUPS:
            raise ValueError(f"groups = {self.groups}; give a number from 1 to 2^20.")

    @property
    def width(self) -> int:
        """Number of released integers: one for each rung, and one for pairs that are farther
        apart than the last.
        """
        return self.below + self.above + 2

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[np.int64]:
        """Return the counts, shape (width,)."""

        def counted() -> NDArray[np.int64]:
            images = view.images(self.nearness).images
            return self.counted(images, *self.pairs(images))

        return view.once(self, counted)

    def counted(
        self, images: Integers, one: NDArray[np.intp], two: NDArray[np.intp]
    ) -> NDArray[np.int64]:
        """Count pairs of images, given by their places, by rung, in integers; shape (width,)."""
        squares = squared_norms(images[one] - images[two])
        square = self.nearness.radius**2
        rungs = range(-self.below, self.above + 1)
        # |y - y'|^2 is an integer, so it is at most 4^k R^2 where it is at most the floor of that
        edges = [square << 2 * k if k >= 0 else square >> -2 * k for k in rungs]
        votes = np.zeros(len(squares), np.int64)
        for edge in edges:
            votes += np.asarray(squares > edge, np.bool_)
        return np.bincount(votes, minlength=self.width).astype(np.int64)

    def pairs(self, images: Integers) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Name the records of each pair, shape (pairs,) twice."""
        if self.adjacency is Adjacency.REPLACE:
            order = scattered(len(images))
            half = len(order) // 2
            return order[: 2 * half : 2], order[1 : 2 * half : 2]
        # cells of 2^0 of an image are the image: its integers are below 2^41, so exact as floats
        grouping = GroupBuckets(KthLargest(1), self.nearness.width, self.groups, 0)
        ordered, sizes = grouping.grouped(images.astype(np.float64))
        firsts = (np.cumsum(sizes) - sizes)[sizes > 1]
        return ordered[firsts], ordered[firsts + 1]

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the squared sensitivity, 2: one pair changes, and moves from one number to
        another.
        """
        if adjacency is not self.adjacency:
            raise ValueError(f"the pairs were chosen for {self.adjacency}, not {adjacency}.")
        return sensitivity_lemma(
            Quantity.of(
                "the numbers of pairs by the rung from which on they are friends "
                f"({self.nearness.predicate})",
                "PairRungs",
                predicate=self.nearness.predicate,
                pairs=str(self.adjacency),
            ),
            norm=Norm.SQUARED_L2,
            value=2,
            adjacency=adjacency,
            domain=domain,
            obligation="theory/scale_ladder.py:obligation_pair_rungs",
            source=Source("OURS", "a radius from a ladder by votes of pairs"),
        )
