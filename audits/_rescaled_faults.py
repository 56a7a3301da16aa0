"""Planted faults of ``rescaled_mean``, and the places of its crafted records."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpverify import RescaledMean
from dpverify.audit import Fault
from dpverify.audit.faults import plan_fault
from dpverify.grid import Query, Transcripts, View, ingest
from dpverify.grid.image_view import Images
from dpverify.grid.nearness import Nearness
from dpverify.plans import KeptCount, Plan
from dpverify.plans.filtering import Filter
from dpverify.plans.law import Law
from dpverify.plans.walking import with_filters, with_stages
from dpverify.privacy import Adjacency, Derivation, Domain, PrivacyClaim
from dpverify.privacy.adjacency import Friendly
from dpverify.randomness import Bits
from dpverify.randomness.bits import BoolArray, IntArray
from dpverify.transformations.degree_weights import Agreement

from ._moving import Faulty

Weigh = Callable[[IntArray], IntArray]
"""Map from the numbers of friends of n records to their weights, 0 to n."""
FROZEN = 30
"""Stand-in for n in n / 2 where that is frozen."""


# --- weights ------------------------------------------------------------------------------------


class Weighed(Images):
    """Images of records with faulty weights."""

    def __init__(self, images: Images, weigh: Weigh) -> None:
        super().__init__(images.records, images.nearness)
        object.__setattr__(self, "_weigh", weigh)
        object.__setattr__(self, "_right", images)

    @cached_property
    def degrees(self) -> IntArray:
        """The right numbers of friends."""
        friends: IntArray = self._right.degrees  # type: ignore[attr-defined]
        return friends

    @cached_property
    def excess(self) -> IntArray:
        """The faulty weights, computed from the right numbers of friends."""
        weights: IntArray = self._weigh(self.degrees)  # type: ignore[attr-defined]
        return weights


class OtherView(View):
    """A view of the same records with other images."""

    def __init__(self, view: View, change: Callable[[Images], Images]) -> None:
        super().__init__(view.records)
        self._right, self._change = view, change

    def images(self, nearness: Nearness) -> Images:
        """Return the changed images, computed once for each map."""
        return self.once(nearness, lambda: self._change(self._right.images(nearness)))


def _with_queries(plan: Plan, change: Callable[[Query], Query]) -> Plan:
    return with_stages(plan, lambda s: dataclasses.replace(s, query=change(s.query)))


def _weights(name: str, mechanism: RescaledMean, weigh: Weigh) -> Fault:
    known: dict[int, OtherView] = {}

    def value(base: Any, view: View, batch: Transcripts) -> IntArray:
        if id(view) not in known:
            known.clear()
            known[id(view)] = OtherView(view, lambda images: Weighed(images, weigh))
        answer: IntArray = base.evaluate(known[id(view)], batch)
        return answer

    return plan_fault(
        name, mechanism, _with_queries(mechanism.fixed_plan, lambda q: Faulty.of(q, value))
    )


def hard_threshold(mechanism: RescaledMean) -> Fault:
    """Weigh a record 1 if a majority are its friends, and 0 otherwise."""

    def weigh(degrees: IntArray) -> IntArray:
        return np.asarray(np.where(2 * degrees > len(degrees), len(degrees), 0))

    return _weights("weights 1 for a majority of friends, else 0", mechanism, weigh)


def square_root(mechanism: RescaledMean) -> Fault:
    """Weigh records by a square root, whose slope is unbounded where a record begins to count."""

    def weigh(degrees: IntArray) -> IntArray:
        n = len(degrees)
        return np.asarray(np.sqrt(n * np.maximum(2.0 * degrees - n, 0)), np.int64)

    return _weights("weights by a square root", mechanism, weigh)


def frozen_half(mechanism: RescaledMean) -> Fault:
    """Compare with half of the expected number of records, so that records without a majority
    count once there are more than expected."""

    def weigh(degrees: IntArray) -> IntArray:
        return np.asarray(np.clip(2 * degrees - FROZEN, 0, len(degrees)))

    return _weights("n / 2 frozen", mechanism, weigh)


def no_shift(mechanism: RescaledMean) -> Fault:
    """Leave out the shift, so that an overestimated number decides the noise and whether a mean
    is released."""

    def change(query: Query) -> Query:
        if isinstance(query, (Agreement, KeptCount)):
            return dataclasses.replace(query, shift=0)
        return query

    plan = _with_queries(mechanism.fixed_plan, change)
    return plan_fault("the shift left out", mechanism, plan)


def radius_by_rows(mechanism: RescaledMean, rows: int) -> Fault:
    """Take the radius lambda n / rows, so that one more record makes friends of all who are
    slightly farther apart."""

    def law(data: ArrayLike) -> Law:
        records = ingest(data, mechanism.domain)
        radius = float(Fraction(mechanism.radius) * len(records) / rows)
        own = mechanism if not len(records) else dataclasses.replace(mechanism, radius=radius)
        return Law(own.fixed_plan, records, mechanism.adjacency, mechanism.domain)

    return Fault("the radius from the number of rows", law)


# --- filters ------------------------------------------------------------------------------------

Keep = Callable[[IntArray], BoolArray]


@dataclass(frozen=True, slots=True)
class FaultyFilter(Filter):
    """A filter with another, deterministic rule, of which no lift is proved."""

    base: Filter
    rule: Keep

    @property
    def nearness(self) -> Nearness:  # type: ignore[override]
        """The nearness of the right filter."""
        return self.base.nearness

    @property
    def friendly(self) -> Friendly:
        """The property on which the inner plan's claim relies."""
        return self.base.friendly

    def keep(self, bits: Bits, degrees: IntArray, size: int) -> BoolArray:
        """Keep the same records in every row."""
        return np.tile(self.rule(degrees), (size, 1))

    def lift(
        self, inner: Derivation[PrivacyClaim], adjacency: Adjacency, domain: Domain
    ) -> Derivation[PrivacyClaim]:
        """Lift as the right filter does: the fault is in the records kept, not in the claim."""
        return self.base.lift(inner, adjacency, domain)


def _filtered(name: str, mechanism: RescaledMean, rule: Keep) -> Fault:
    plan = with_filters(mechanism.fixed_plan, lambda base: FaultyFilter(base, rule))
    return plan_fault(name, mechanism, plan)


def keeps_everything(mechanism: RescaledMean) -> Fault:
    """Keep every record, so that a far one moves the mean by its distance."""
    return _filtered("keeps everything", mechanism, lambda d: np.ones(len(d), np.bool_))


def keeps_majorities(mechanism: RescaledMean) -> Fault:
    """Keep exactly the records with a majority of friends: one record may change half of them."""
    return _filtered("keeps by a hard threshold", mechanism, lambda d: 2 * d > len(d))


def keeps_by_frozen_half(mechanism: RescaledMean) -> Fault:
    """Keep by half of the expected number, so that two groups without common friends may both be
    kept."""
    return _filtered("n / 2 frozen", mechanism, lambda d: 2 * d > FROZEN)


# --- places -------------------------------------------------------------------------------------

Floats = NDArray[np.float64]
_WITHIN = 1 - 2.0**-30


def place(mechanism: RescaledMean, radii: float) -> tuple[float, ...]:
    """Return a record whose image is ``radii`` radii from that of 0, along the first coordinate.

    It is slightly nearer than that, so that rounding to the grid makes nobody a stranger.
    """
    d = len(mechanism.matrix)
    away = np.zeros(d)
    away[0] = radii * float(Fraction(mechanism.radius)) * _WITHIN
    full = np.array(mechanism.matrix)
    if full.ndim == 1:
        return tuple((away * full**0.25).tolist())
    values, vectors = np.linalg.eigh(full)
    return tuple(((vectors * values**0.25) @ vectors.T @ away).tolist())


def crowd(mechanism: RescaledMean, *groups: tuple[float, int]) -> Floats:
    """Place the given number of records at each distance (in radii; infinity means 1e308), shape
    (n, d)."""
    rows = [np.tile(at(mechanism, radii), (count, 1)) for radii, count in groups]
    return np.concatenate([np.zeros((0, len(mechanism.matrix))), *rows])


def at(mechanism: RescaledMean, radii: float) -> tuple[float, ...]:
    """Return one record at this distance in radii; infinity means 1e308."""
    if math.isinf(radii):
        return (math.copysign(1e308, radii),) * len(mechanism.matrix)
    return place(mechanism, radii)
