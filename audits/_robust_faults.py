"""Planted faults in the stages of ``robust_mean`` that follow a released region."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpverify import RobustMean
from dpverify.audit import Fault
from dpverify.audit.faults import plan_fault
from dpverify.grid import Released, Transcripts, View
from dpverify.grid.region_queries import WHOLE, MovingMoments, SlabSum
from dpverify.plans import NoNoise, Plan, RoundedGaussian, Stage
from dpverify.plans.noise import LogProbabilities
from dpverify.plans.plan import stages_of
from dpverify.plans.walking import with_stages
from dpverify.randomness import Bits
from dpverify.randomness.bits import IntArray

from ._moving import Faulty


@dataclass(frozen=True, slots=True, init=False)
class OnlyOccupied(RoundedGaussian):
    """Gaussian noise on occupied bins, and none on empty ones."""

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Draw noisy counts; empty bins stay at 0."""
        noisy = RoundedGaussian(self.scale).sample(bits, center, size)
        return np.where(center == 0, 0, noisy)

    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        """Return log probabilities: -inf where an empty bin shows a count."""
        empty = np.broadcast_to(center == 0, outputs.shape)
        shown = np.where(empty, np.broadcast_to(center, outputs.shape), outputs)
        own = RoundedGaussian(self.scale).log_probability(shown, center)
        return np.where((empty & (outputs != 0)).any(axis=1), -np.inf, own)


def changed(mechanism: RobustMean, stage: str, **parts: Any) -> Plan:
    """Return the plan with parts of one stage replaced."""
    return with_stages(
        mechanism.fixed_plan,
        lambda one: dataclasses.replace(one, **parts) if one.name == stage else one,
    )


def query_of(mechanism: RobustMean, name: str) -> Any:
    """Return the query of the stage with this name."""
    return next(s.query for s in stages_of(mechanism.fixed_plan) if s.name == name)


def unmasked(mechanism: RobustMean) -> Fault:
    """Take the moments of records outside the ball too, so that a far record's square is
    unbounded."""
    query = query_of(mechanism, "moments")

    def value(base: MovingMoments, view: View, before: Transcripts) -> IntArray:
        def place(rows: Transcripts) -> tuple[Any, Any]:
            points, radii = base.place(rows)
            return points, np.full_like(radii, 1 << 21)  # twice the ball

        wide = dataclasses.replace(base, place=Released(base.place.reads, place)).evaluate(
            view, before
        )
        factor = base.unit(1 << 21) / base.unit(int(base.place(before)[1][0]))
        return np.asarray(np.rint(wide * float(factor)), np.int64)

    wrong = Faulty.of(query, value)
    return plan_fault(
        "moments of records outside the ball too",
        mechanism,
        changed(mechanism, "moments", query=wrong),
    )


def as_they_are(mechanism: RobustMean) -> Fault:
    """Take the moments of records as they are, with the noise for such as are drawn in."""
    query = query_of(mechanism, "moments")

    def value(base: MovingMoments, view: View, before: Transcripts) -> IntArray:
        whole = dataclasses.replace(base, drawn=WHOLE)
        radius = int(base.place(before)[1][0])
        factor = float(whole.unit(radius) / base.unit(radius))
        return np.asarray(np.rint(whole.evaluate(view, before) * factor), np.int64)

    wrong = Faulty.of(query, value)
    return plan_fault(
        "moments of records that are not drawn in",
        mechanism,
        changed(mechanism, "moments", query=wrong),
    )


def occupied(mechanism: RobustMean) -> Fault:
    """Leave empty bins without noise."""
    noise = next(s.noise for s in stages_of(mechanism.fixed_plan) if s.name == "histogram")
    assert isinstance(noise, RoundedGaussian)
    plan = changed(mechanism, "histogram", noise=OnlyOccupied(noise.scale))
    return plan_fault("noise on occupied bins only", mechanism, plan)


def exact_number(mechanism: RobustMean) -> Fault:
    """Release the number of records between the slabs exactly, as if it were public."""
    query = query_of(mechanism, "sum and count")

    def value(base: SlabSum, view: View, before: Transcripts) -> IntArray:
        numbers: IntArray = base.totals(view.images(base.nearness), *base.place(before), before)[1]
        return numbers[:, np.newaxis]

    exact = Stage("exact", Faulty.of(query, value, 1), NoNoise())
    plan = (*mechanism.fixed_plan[:-1], exact, mechanism.fixed_plan[-1])
    return plan_fault("releases the number between the slabs without noise", mechanism, plan)


def with_exact(before: Transcripts, exact: Mapping[str, IntArray]) -> Transcripts:
    """Put exact values in place of released ones.

    Values computed from the released ones are discarded: a batch that kept them would answer
    with them.
    """
    return dataclasses.replace(before, values={**before.values, **exact}, known=None)


def exactly_cut(mechanism: RobustMean) -> Fault:
    """Cut slabs by the exact histograms, as if their release made them public."""
    query, histogram = query_of(mechanism, "sum and count"), query_of(mechanism, "histogram")

    def value(base: SlabSum, view: View, before: Transcripts) -> IntArray:
        return base.evaluate(
            view, with_exact(before, {"histogram": histogram.evaluate(view, before)})
        )

    wrong = Faulty.of(query, value, None, *histogram.reads)
    return plan_fault(
        "slabs by the exact histograms",
        mechanism,
        changed(mechanism, "sum and count", query=wrong),
    )
