"""A dataset after a public map, with the quantities that several queries need, each computed
once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from dpverify.grid.linear import Integers, column_sums, matmul
from dpverify.grid.masks import Counted, distinct
from dpverify.grid.nearness import Nearness
from dpverify.grid.records import Records


@dataclass(frozen=True)
class Images:
    """Images of records under a map: as secret as the records; the repr shows nothing of them."""

    records: Records
    nearness: Nearness
    progress: Callable[[int, int], None] | None = None

    def __repr__(self) -> str:
        return f"<private data after a map to {self.nearness.width} integers>"

    @cached_property
    def images(self) -> Integers:
        """The records as integer vectors, shape (n, width)."""
        return self.nearness.images(self.records)

    @cached_property
    def distinct(self) -> Counted:
        """The images, equal ones once."""
        return distinct(self.images)

    @cached_property
    def degrees(self) -> Integers:
        """Number of friends of each record, itself included, shape (n,)."""
        return self.nearness.degrees(self.images, self.progress)

    @cached_property
    def excess(self) -> Integers:
        """Excess max(0, 2 degree - n) of each record, shape (n,): nothing without a majority of
        friends.
        """
        return np.asarray(np.maximum(2 * self.degrees - len(self.degrees), 0))

    @cached_property
    def weighted_sum(self) -> tuple[list[int], int]:
        """Pair (the sum of the images, each times its excess, and the sum of the excesses),
        exactly.
        """
        return self._sum_by(self.excess)

    def soft_sum(self, full: Fraction) -> tuple[list[int], int]:
        """Return the same by weights clip(q (2 degree - n - 1), 0, (2 p - q) n), full = p / q."""
        if full not in self._soft_sums:
            p, q, n = full.numerator, full.denominator, len(self.degrees)
            weights = np.clip(q * (2 * self.degrees - n - 1), 0, (2 * p - q) * n)
            self._soft_sums[full] = self._sum_by(np.asarray(weights))
        return self._soft_sums[full]

    @cached_property
    def _soft_sums(self) -> dict[Fraction, tuple[list[int], int]]:
        return {}

    def _sum_by(self, weights: Integers) -> tuple[list[int], int]:
        used = np.flatnonzero(weights)
        total = int(column_sums(weights[:, np.newaxis])[0])
        if not len(used):
            return [0] * self.nearness.width, 0
        # any of them will do: images near it need one word
        about = self.images[used[len(used) // 2]]
        sums = matmul(weights[used][np.newaxis], self.images[used] - about)[0]
        totals = [int(s) + total * int(a) for s, a in zip(sums, about, strict=True)]
        return totals, total
