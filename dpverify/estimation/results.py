"""The results that several mechanisms release: a mean of vectors, and a variance up to a factor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dpverify.privacy.numbers import Floats


@dataclass(frozen=True, slots=True, eq=False)
class VectorMeanEstimate:
    """A private mean of shape (d,), with the covariance of its (public) noise.

    ``value`` is in the data's units. ``count`` is the (noisy or public) number of records it rests on.
    The noise is that of the sum, ``spread`` times a standard normal vector (a number, d numbers or a
    (d, d) matrix), and that of the count along ``along``; neither contains the sampling error.
    """

    value: Floats
    count: float
    spread: float | Floats = field(repr=False)
    along: Floats = field(repr=False)

    @property
    def covariance(self) -> Floats:
        """Of the noise, shape (d, d)."""
        with np.errstate(all="ignore"):
            spread = np.asarray(self.spread)
            if spread.ndim < 2:
                own = np.diag(np.broadcast_to(spread * spread, len(self.value)))
            else:
                own = spread @ spread.T
            total: Floats = own + np.outer(self.along, self.along)
        return total

    @property
    def standard_deviation(self) -> Floats:
        """Of the noise in each coordinate, shape (d,)."""
        with np.errstate(all="ignore"):
            spread = np.asarray(self.spread)
            own = spread if spread.ndim < 2 else np.linalg.norm(spread, axis=1)
            return np.asarray(np.hypot(own, self.along))


@dataclass(frozen=True, slots=True)
class VarianceEstimate:
    """A variance, up to a factor of about 4, in the square of the data's unit.

    ``value`` is twice the lower edge of the bucket [4^b, 4^(b + 1)) that most groups voted for, or 0.
    ``votes`` are the noisy numbers of groups by bucket (named likewise), of ``groups`` in all; a bucket
    of fewer than ``threshold`` is not shown. ``standard_deviation`` is that of a vote count's noise.
    """

    value: float
    votes: Mapping[float, int]
    groups: int
    threshold: int
    standard_deviation: float

    def __str__(self) -> str:
        most = max(self.votes.values())
        return f"{self.value:.6g}, within a factor of 4 ({most} of {self.groups} groups)"
