"""Sums of records clipped in every coordinate, on exact rationals, and Laplace noise on several
integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from dpverify.privacy import Adjacency, Norm, Sensitivity, Source, shows, states

from .coordinates import Stretch
from .laws import DiscreteLaplaceLaw, Exponential, Outcome
from .obligations import neighbors, require
from .profiles import profile
from .vectors import Record, Vector

_BOXES = Source("OURS", "sums of integer vectors in a box")


def box_sum(records: Sequence[Record], stretch: Stretch, radius: int) -> Vector:
    """Return the sum of the images, each coordinate clamped to the radius."""
    images = [stretch.image(record) for record in records]
    clipped = [[min(max(z, -radius), radius) for z in image] for image in images]
    return tuple(sum(one[j] for one in clipped) for j in range(len(stretch.center)))


def box_sensitivity(
    d: int, radius: int, norm: Norm, adjacency: Adjacency = Adjacency.REPLACE
) -> int:
    """Return the sensitivity of the sum in this norm: a record contributes z, |z_j| <= R.

    add-remove: each z_j by R at most; replace: by 2R. In L1 they add up, their squares do in
    squared L2.
    """
    move = 2 * radius if adjacency is Adjacency.REPLACE else radius
    return d * (move if norm is Norm.L1 else move**2)


_LINE = tuple((Fraction(i, 2),) for i in range(-4, 5))
_PLANE = tuple((Fraction(i), Fraction(j)) for i, j in product((-3, 0, 1, 3), (-3, 0, 3)))
_STRETCHES = (
    (_LINE, Stretch((0,), (Fraction(1, 2),), (1,))),
    (_LINE, Stretch((1,), (Fraction(1),), (2,), box=2)),
    (_PLANE, Stretch((0, 0), (Fraction(1), Fraction(1)), (2, 1))),
    (_PLANE, Stretch((0, 0), (Fraction(1), Fraction(2)), (1, 2), box=3)),
)


def _stated(statement: Sensitivity) -> int:
    """Return the sensitivity in the statement's norm."""
    given: Any = statement.query
    near: Any = statement.adjacency
    return box_sensitivity(given["width"], given["radius"], statement.norm, near)


@states(_BOXES)
@shows("BoxSum", Norm.L1, Norm.SQUARED_L2, value=_stated)
def obligation_box_sum(claimed: Callable[..., int] = box_sensitivity) -> int:
    """Check that the largest move over all neighbors of small universes is exactly ``claimed``, in
    both norms.
    """
    cases = 0
    for (universe, stretch), radius in product(_STRETCHES, (1, 2)):
        for norm, adjacency in product((Norm.L1, Norm.SQUARED_L2), Adjacency):
            moves = list(_moves(universe, stretch, radius, norm, adjacency))
            most = claimed(len(stretch.center), radius, norm, adjacency)
            case = f"{stretch}, {radius}, {norm}, {adjacency}: {max(moves)}, not {most}"
            require(max(moves) == most, case)
            cases += len(moves)
    return cases


def _moves(
    universe: Sequence[Record], stretch: Stretch, radius: int, norm: Norm, adjacency: Adjacency
) -> Iterator[int]:
    known: dict[Sequence[Record], Vector] = {}
    for pair in neighbors(universe, 2, adjacency):
        for records in pair:
            if records not in known:
                known[records] = box_sum(records, stretch, radius)
        gaps = [abs(a - b) for a, b in zip(*(known[records] for records in pair), strict=True)]
        yield sum(gap if norm is Norm.L1 else gap**2 for gap in gaps)


@states(Source("DMNS06", "Section 3, noise calibrated to L1 sensitivity"))
@dataclass(frozen=True)
class LaplaceVectorLaw:
    """Law of center + discrete Laplace noise in every coordinate, independently."""

    center: Outcome
    scale: Fraction

    def probability(self, outcome: Outcome, e: Exponential) -> Any:
        """Return the product over coordinates, each (1 - w) / (1 + w) w^|x - center|; 0 for another
        number of integers.
        """
        if len(outcome) != len(self.center):
            return Fraction(0)
        w = e(1 / self.scale)
        away = sum(abs(x - c) for x, c in zip(outcome, self.center, strict=True))
        return ((1 - w) / (1 + w)) ** len(self.center) * e(Fraction(away) / self.scale)

    def largest_loss(self, other: LaplaceVectorLaw) -> Fraction | None:
        """Return the L1 distance over the scale, attained beyond all of this law's centers."""
        if self.scale != other.scale:
            raise ValueError("the noise scale must be the same on neighbors")
        gaps = (abs(a - b) for a, b in zip(self.center, other.center, strict=True))
        return Fraction(sum(gaps)) / self.scale

    def profile(self, other: LaplaceVectorLaw, epsilon: Fraction) -> Any:
        """Return the exact profile of one coordinate that moves; of several, the bound of pure DP
        with that loss.
        """
        moved = [(a, b) for a, b in zip(self.center, other.center, strict=True) if a != b]
        if len(moved) == 1:
            own, theirs = (DiscreteLaplaceLaw(c, self.scale) for c in moved[0])
            return own.profile(theirs, epsilon)
        loss = self.largest_loss(other)
        assert loss is not None
        return profile(loss, Fraction(0), epsilon)

    def facts(self) -> tuple[Any, ...]:
        """Return the name of the law, center and scale."""
        return ("DiscreteLaplace", self.center, self.scale)
