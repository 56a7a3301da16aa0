"""Part of a mechanism behind a filter, attacked by itself: on friendly neighbors, all of them
retained.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from dpverify.audit.plan_part import PlanPart
from dpverify.grid import squared_norms
from dpverify.grid.linear import Integers
from dpverify.grid.nearness import Nearness
from dpverify.plans import Filtered, Plan
from dpverify.plans.walking import filters_of
from dpverify.privacy import Adjacency, Derivation, PrivacyClaim
from dpverify.privacy.adjacency import Dataset, Friendly


@dataclass(frozen=True, slots=True)
class FriendlyCore(PlanPart):
    """The inner plan of a mechanism's filter, with every record kept; its claim is for friendly
    neighbors. A lift loses something on every pair, so only here a missing share of noise shows.

    Raises ValueError for a mechanism without a filter.
    """

    def __post_init__(self) -> None:
        filtered_of(self.mechanism.fixed_plan)

    @property
    def fixed_plan(self) -> Plan:
        """Plan of what runs behind the filter."""
        return filtered_of(self.mechanism.fixed_plan).inner

    @property
    def derivation(self) -> Derivation[PrivacyClaim]:
        """Derivation of the claim for friendly neighbors."""
        return filtered_of(self.mechanism.fixed_plan).friendly_derivation(self.domain)


@dataclass(frozen=True, slots=True)
class FriendlyNeighbors:
    """One dataset is the other without one record, and any two records have a common friend: they
    are at most two radii apart, after the map of ``nearness``.

    strangers: that record is more than a radius away from at most so many others; None: any number.
    """

    nearness: Nearness
    columns: int
    strangers: int | None = None

    def __str__(self) -> str:
        return str(Friendly(self.nearness.predicate, self.strangers))

    def why_not_neighbors(self, left: Dataset, right: Dataset) -> str | None:
        """Return None for friendly neighbors; otherwise the reason."""
        reason = Adjacency.ADD_REMOVE.why_not_neighbors(left, right)
        if reason is not None:
            return reason
        longer, shorter = (left, right) if len(left) > len(right) else (right, left)
        every = self._images(longer)
        images = np.unique(every, axis=0)
        if self.strangers is not None:
            (extra,) = _lacking(every, self._images(shorter))
            far = squared_norms(every - extra) > self.nearness.radius**2
            if np.count_nonzero(far) > self.strangers:
                return f"the record has {np.count_nonzero(far)} strangers, not {self.strangers}"
        for i, image in enumerate(images):
            gaps = squared_norms(images[i + 1 :] - image)
            if len(gaps) and int(gaps.max()) > 4 * self.nearness.radius**2:
                return f"two records are more than two radii of {self.nearness.radius} cells apart"
        return None

    def _images(self, data: Dataset) -> Integers:
        records = np.array(data, dtype=np.float64).reshape(-1, self.columns)
        return self.nearness.images(records)


def _lacking(longer: Integers, shorter: Integers) -> Integers:
    """Return the row that the shorter dataset lacks, shape (1, width)."""
    counts = Counter(map(tuple, longer.tolist()))
    counts.subtract(map(tuple, shorter.tolist()))
    return np.array([row for row, count in counts.items() if count > 0], dtype=np.int64)


def filtered_of(plan: Plan) -> Filtered:
    """Return the first filter of a plan, as declared. Raises ValueError where there is none."""
    filtered = next(filters_of(plan), None)
    if filtered is None:
        raise ValueError("The mechanism has no filter, so nothing runs behind one.")
    return filtered
