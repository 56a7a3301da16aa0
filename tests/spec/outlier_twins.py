"""False twins and planted faults of the robust mean's obligations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from dpverify.privacy import Adjacency
from spec import robust_mean
from spec.theory import (
    correlated_cuts,
    drawn_normals,
    farthest_columns,
    hidden_directions,
    inner_cuts,
    long_axes,
    outliers,
    regions,
    slabs,
    sliced_means,
    transcript_sums,
)

from .refined_twins import scaled

Plant = Callable[[pytest.MonkeyPatch], None]


def _other(adjacency: Adjacency) -> Adjacency:
    add, replace = Adjacency.ADD_REMOVE, Adjacency.REPLACE
    return replace if adjacency is add else add


def _votes_of(wrong: Callable[..., Any]) -> Plant:
    """Votes that are cast twice, or by the records of a smaller ball alone."""
    return lambda patch: patch.setattr(
        farthest_columns, "votes", partial(wrong, farthest_columns.votes)
    )


def _nobody_drawn_in(patch: pytest.MonkeyPatch) -> None:
    """Leave records as long as they are, beside noise for such as are drawn in."""
    patch.setattr(regions, "clip_to_ball", lambda vector, radius: vector)


TWINS: dict[str, dict[str, Any]] = {
    "theory.regions:obligation_moments": {
        "half": lambda radius, adjacency: regions.moments_reach(radius, adjacency) // 2,
        "double": lambda radius, adjacency: 2 * regions.moments_reach(radius, adjacency),
        "adjacencies swapped": lambda radius, adjacency: regions.moments_reach(
            radius, _other(adjacency)
        ),
        "the radius for its square": lambda radius, adjacency: radius**2,
    },
    "theory.regions:obligation_inner_moments": {
        "half": lambda radius, adjacency: regions.moments_reach(radius, adjacency) // 2,
        "double": lambda radius, adjacency: 2 * regions.moments_reach(radius, adjacency),
        "adjacencies swapped": lambda radius, adjacency: regions.moments_reach(
            radius, _other(adjacency)
        ),
    },
    "theory.inner_cuts:obligation_inner_slabs": {
        "nothing is cut": lambda first, second, most, *own: inner_cuts.slabs(
            first, [0 * x for x in second], most, *own
        ),
        "as if there were no sampling": lambda first, second, most, square, constant: (
            inner_cuts.slabs(first, second, most, 0, constant)
        ),
        "about the center": lambda first, second, most, square, constant: inner_cuts.slabs(
            first, second, most, square, 0
        ),
    },
    "theory.regions:obligation_histogram": {
        "one direction": lambda count, adjacency: regions.histogram_moves(1, adjacency),
        "adjacencies swapped": lambda count, adjacency: regions.histogram_moves(
            count, _other(adjacency)
        ),
        "one more": lambda count, adjacency: 1 + regions.histogram_moves(count, adjacency),
    },
    "theory.regions:obligation_slab_sum": {
        "half": lambda radius, adjacency: transcript_sums.reach(radius, adjacency) // 4,
        "one more": lambda radius, adjacency: transcript_sums.reach(radius, adjacency) + 1,
    },
    "theory.regions:obligation_slice_sum": {
        "half": lambda radius, adjacency: transcript_sums.reach(radius, adjacency) // 4,
        "less": lambda radius, adjacency: transcript_sums.reach(radius, adjacency) - 1,
        "one more": lambda radius, adjacency: transcript_sums.reach(radius, adjacency) + 1,
    },
    "theory.regions:obligation_signed_count": {
        "one under either": lambda adjacency: 1,
        "two under replace": lambda adjacency: 2 if adjacency is Adjacency.REPLACE else 1,
        "one more": lambda adjacency: regions.signed_moves(adjacency) + 1,
    },
    "theory.sliced_means:obligation_slices": {
        "the first direction": lambda rounds, first, share, noise: replace(
            sliced_means.fit(rounds, first, share, noise), along=first
        ),
        "no outliers": lambda rounds, first, share, noise: sliced_means.fit(
            rounds, first, 0.0, noise
        ),
        "twice as many": lambda rounds, first, share, noise: sliced_means.fit(
            rounds, first, 2 * share, noise
        ),
    },
    "theory.sliced_means:obligation_side": {
        "the other side": lambda count, noise, records: -sliced_means.side(count, noise, records),
        "always a side": lambda count, noise, records: 1 if count > 0 else -1,
        "as if there were no chance": lambda count, noise, records: sliced_means.side(
            count, noise, 0
        ),
    },
    "theory.farthest_columns:obligation_votes": {
        "one under either": lambda adjacency: 1,
        "adjacencies swapped": lambda adjacency: farthest_columns.votes_moves(_other(adjacency)),
        "two sides": lambda adjacency: 2 * farthest_columns.votes_moves(adjacency),
    },
    "theory.farthest_columns:obligation_box": {
        "five deviations": partial(farthest_columns.box, surprise=Fraction(5)),
        "two deviations": partial(farthest_columns.box, surprise=Fraction(2)),
        "no noise": lambda counts, noise, *given: farthest_columns.box(counts, Fraction(0), *given),
        "any number of outliers": lambda counts, noise, gamma, half: farthest_columns.box(
            counts, noise, Fraction(1), half
        ),
        "never": lambda counts, *given: (farthest_columns.OPEN,) * len(counts),
    },
    "theory.outliers:obligation_sure_agreement": {
        "outliers that agree": lambda n, inliers, full: 2 * inliers - n,
        "one more": lambda *given: outliers.sure_agreement(*given) + 1,
        "by degree": lambda n, inliers, full: outliers.sure_agreement(n, inliers),
        "inliers in full": lambda n, inliers, full: (
            outliers.sure_agreement(n, inliers) if full is None else 2 * inliers - n
        ),
    },
    "theory.outliers:obligation_most_outliers": {
        "one in a hundred more": lambda full: outliers.most_outliers(full) * 101 / 100,
        "one in a hundred less": lambda full: outliers.most_outliers(full) * 99 / 100,
        "by degree": lambda full: outliers.most_outliers(),
        "while inliers count in full": lambda full: 1 - (full or Fraction(9, 10)),
    },
    "theory.outliers:obligation_center_bias": {
        "half": lambda *given: outliers.center_bias(*given) / 2,
        "double": lambda *given: outliers.center_bias(*given) * 2,
        "outliers as near as inliers": lambda n, m, spread, radius, full: outliers.center_bias(
            n, m, spread, Fraction(0), full
        ),
        "half of it with a soft core": lambda *given: (
            outliers.center_bias(*given) / (1 if given[-1] is None else 2)
        ),
    },
    "theory.outliers:obligation_leaning": {
        "share squared": lambda share, variance: share**2 * variance,
        "double": lambda share, variance: 2 * outliers.leaning(share, variance),
    },
    "theory.slabs:obligation_slab": {
        "narrower than two bins": partial(slabs.slab, least=0),
        "always open": lambda counts, deviation, noise: (0, 256 * len(counts)),
        "four bins at least": partial(slabs.slab, least=1024),
    },
    "theory.long_axes:obligation_seen_deviation": {
        "the public one": lambda counts, deviation, noise, gamma: deviation,
        "as if there were no outliers": lambda counts, deviation, noise, gamma: (
            long_axes.seen_deviation(counts, deviation, noise, Fraction(0))
        ),
        "half as many": lambda counts, deviation, noise, gamma: long_axes.seen_deviation(
            counts, deviation, noise, gamma / 2
        ),
    },
    "theory.correlated_cuts:obligation_one_axis": {
        "uncorrelated": lambda d, radius, common: correlated_cuts.one_axis(d, radius, 0),
        "axes swapped": lambda d, radius, common: correlated_cuts.one_axis(d, radius, -common),
        "half the radius": lambda d, radius, common: correlated_cuts.one_axis(
            d, radius / 2, common
        ),
    },
    "theory.hidden_directions:obligation_signal": {
        "half": lambda hidden: hidden_directions.signal(hidden) / 2,
        "a third more": lambda hidden: hidden_directions.signal(hidden) * 4 / 3,
        "along u alone": lambda hidden: abs(hidden_directions._part_along(hidden) - 1 / hidden.d),
        "of outliers that are far": lambda hidden: (
            hidden_directions._part_along(hidden) - Fraction(int(hidden.low > 1), hidden.d)
        ),
    },
    "theory.hidden_directions:obligation_overlap": {
        "four fifths of the information": lambda nats, d: hidden_directions.most_overlap(
            nats * 4 / 5, d
        ),
        "in a third column": lambda nats, d: hidden_directions.most_overlap(nats, d + 1),
        "no bound": lambda nats, d: 1,
    },
    "theory.hidden_directions:obligation_no_second_moment": {
        "0.13": Fraction(13, 100),
        "0.1": Fraction(1, 10),
    },
    "theory.hidden_directions:obligation_no_second_moment_where_drawn_in": {
        "0.12": Fraction(12, 100),
        "0.09": Fraction(9, 100),
    },
    "theory.drawn_normals:obligation_response": {
        "of one column more": lambda d, *own: drawn_normals.response(d + 1, *own),
        "one for one": lambda *_: 1,
        "nobody left out": lambda d, radius, *own: drawn_normals.response(d, 40, *own),
        "as if nothing were off": lambda d, radius, reach, off: drawn_normals.response(
            d, radius, reach
        ),
    },
    "robust_mean:obligation_loss": {"nine tenths": Fraction(9, 10), "double": Fraction(2)},
}


FAULTS: dict[str, list[Plant]] = {
    "theory.regions:obligation_moments": [
        # a weight above sqrt(2); and a claim without room for rounding
        lambda patch: patch.setattr(regions, "OFF_DIAGONAL", Fraction(3, 2)),
        lambda patch: patch.setattr(
            regions, "unit_sensitivity", lambda spread, width: int((2**40 / spread) ** 2)
        ),
        _nobody_drawn_in,
    ],
    "theory.regions:obligation_inner_moments": [_nobody_drawn_in],
    "theory.inner_cuts:obligation_inner_slabs": [
        lambda patch: patch.setattr(inner_cuts, "_LIMITS", (Fraction(4, 3),) * 2),
        lambda patch: patch.setattr(inner_cuts, "_APART", Fraction(2)),
    ],
    "theory.regions:obligation_slab_sum": [_nobody_drawn_in],
    "theory.regions:obligation_slice_sum": [_nobody_drawn_in],
    "theory.sliced_means:obligation_slices": [
        lambda patch: patch.setattr(sliced_means, "_STEPS", 1),
        lambda patch: patch.setattr(sliced_means, "_density", lambda x: 0.0),
    ],
    "theory.sliced_means:obligation_side": [
        lambda patch: patch.setattr(sliced_means, "_SURPRISE", 3),
    ],
    "theory.hidden_directions:obligation_no_second_moment_where_drawn_in": [
        scaled(hidden_directions, "slab_error", Fraction(9, 10)),
    ],
    "theory.farthest_columns:obligation_votes": [
        _votes_of(lambda own, images, region: tuple(2 * c for c in own(images, region))),
        _votes_of(
            lambda own, images, region: own(images, replace(region, radius=region.radius // 2))
        ),
    ],
    "theory.hidden_directions:obligation_no_second_moment": [
        scaled(hidden_directions, "information", 2),
        scaled(hidden_directions, "slab_error", Fraction(9, 10)),
    ],
    "robust_mean:obligation_bounds_are_in_order": [
        scaled(robust_mean, "lower_bound", 70),
        scaled(robust_mean, "lower_bound", Fraction(1, 60)),
        scaled(robust_mean, "error_bound", Fraction(1, 70)),
    ],
}
