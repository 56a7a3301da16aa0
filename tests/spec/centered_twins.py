"""False twins and planted faults of the obligations about means about private centers."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest

from dpverify.privacy import Adjacency
from spec import coordinatewise_mean, gaussian_mean, variance_aware_mean
from spec.theory import (
    centered,
    clipped_response,
    coordinates,
    kept_response,
    known_covariance,
    public_sets,
    record_maps,
)

Plant = Callable[[pytest.MonkeyPatch], None]


def _sensitivities(right: Callable[..., int]) -> dict[str, Any]:
    def swapped(*given: Any) -> int:
        *rest, adjacency = given
        (other,) = set(Adjacency) - {adjacency}
        return right(*rest, other)

    return {
        "half": lambda *given: right(*given) / 2,
        "double": lambda *given: 2 * right(*given),
        "adjacencies swapped": swapped,
    }


def _coarser(stretch: Any, normal: Any, ends: Any) -> public_sets.Slab:
    """Leave a 64th of the numbers of the normal and the planes."""
    right = public_sets.slab(stretch, normal, ends)
    normal, low, high = (
        tuple(v // 64 for v in right.normal),
        right.low and right.low // 64,
        right.high and right.high // 64,
    )
    return public_sets.Slab(normal, low, high)


def _about_their_mean(public: record_maps.RecordMap, records: Any) -> Any:
    own = record_maps.images(public, records)
    middle = [sum(column) / len(own) for column in zip(*own, strict=True)]
    return [tuple(map(operator.sub, y, middle)) for y in own]


def _with_map(covariance: Any, center: Any, change: Callable[[Any], Any]) -> Any:
    right = known_covariance.whitening(covariance, center)
    return dataclasses.replace(
        right, map=dataclasses.replace(right.map, matrix=change(right.map.matrix))
    )


def _of_the_batch(records: Any, stretch: Any, radius: int, weight: int, kept: Any) -> Any:
    """Let the place of the records' sum decide which records count."""
    total = sum(stretch.image(record)[0] for record in records)
    side = public_sets.Slab((1, *(0,) * (len(stretch.center) - 1)), None, total)
    own = side if isinstance(kept, public_sets.Slab) else kept
    return coordinates.scaled_masked_sum(records, stretch, radius, weight, own)


_LOSSES = {
    "half": Fraction(1, 2),
    "a hair less": Fraction(9999, 10000),
    "a hair more": Fraction(10001, 10000),
}
TWINS: dict[str, dict[str, Any]] = {
    "theory.coordinates:obligation_side_counts": {
        **_sensitivities(coordinates.side_counts_sensitivity),
        "one column": lambda d, adjacency: coordinates.side_counts_sensitivity(1, adjacency),
        "d squared": lambda d, adjacency: coordinates.side_counts_sensitivity(d * d, adjacency),
        "2 d under replace": lambda d, adjacency: 2 * d if adjacency is Adjacency.REPLACE else d,
    },
    "theory.coordinates:obligation_norm_counts": {
        **_sensitivities(coordinates.norm_counts_sensitivity),
        "4 under replace": lambda adjacency: 4 if adjacency is Adjacency.REPLACE else 1,
    },
    "theory.coordinates:obligation_scaled_sum": _sensitivities(coordinates.scaled_sum_sensitivity),
    "theory.coordinates:obligation_scaled_masked_sum": {
        **_sensitivities(coordinates.scaled_masked_sum_sensitivity),
        "no weight": lambda radius, weight, adjacency: coordinates.scaled_sum_sensitivity(
            radius, adjacency
        ),
        "both": lambda radius, weight, adjacency: (
            coordinates.scaled_sum_sensitivity(radius, adjacency) + weight**2
        ),
    },
    "variance_aware_mean:obligation_loss": _LOSSES,
    "coordinatewise_mean:obligation_reach": {
        "ten times": lambda *given: 10 * coordinatewise_mean.least_for_reach(*given),
        "a tenth": lambda *given: coordinatewise_mean.least_for_reach(*given) // 10,
        "of one column": lambda parameters, beta: coordinatewise_mean.least_for_reach(
            {**parameters, "center": (0.5,), "deviations": (1.0,)}, beta
        ),
        "any reach": lambda parameters, beta: coordinatewise_mean.least_for_reach(
            {**parameters, "reach": Fraction(2)}, beta
        ),
    },
    "coordinatewise_mean:obligation_loss": _LOSSES,
    "gaussian_mean:obligation_loss": {
        "half": Fraction(1, 2),
        "a little less": Fraction(999, 1000),
        "a little more": Fraction(1001, 1000),
    },
    "theory.clipped_response:obligation_moment": {
        "the other one": lambda d, r, m, outside: clipped_response.moment(
            d, r, m, "mask" if outside == "clip" else "clip"
        ),
        "another dimension": lambda d, r, m, outside: clipped_response.moment(d + 1, r, m, outside),
        "at the center": lambda d, r, m, outside: clipped_response.moment(
            d, r, m / 1000, outside
        )._replace(length=m * clipped_response.moment(d, r, m / 1000, outside).ratio),
    },
    "theory.public_sets:obligation_plane": {
        "too few bits": _coarser,
        "about the origin": lambda stretch, normal, ends: public_sets.slab(
            dataclasses.replace(stretch, center=(0,) * len(normal)), normal, ends
        ),
        "no factors": lambda stretch, normal, ends: public_sets.slab(
            dataclasses.replace(stretch, factors=(1,) * len(normal)), normal, ends
        ),
        "without its plane": lambda *given: dataclasses.replace(
            public_sets.slab(*given), low=None, high=None
        ),
    },
    "theory.record_maps:obligation_of_images": {
        "about their mean": _about_their_mean,
        "each once": lambda public, records: sorted({*record_maps.images(public, records)}),
        "the one before": lambda public, records: (
            [record_maps.images(public, [records[i - 1]])[0] for i in range(len(records))]
            + record_maps.images(public, records)
        ),
    },
    "theory.known_covariance:obligation_whitening": {
        "of the transpose": lambda covariance, center: _with_map(
            covariance, center, lambda matrix: tuple(zip(*matrix, strict=True))
        ),
        "of half of it": lambda covariance, center: known_covariance.whitening(
            tuple(tuple(v / 2 for v in row) for row in covariance), center
        ),
        "without shift": lambda covariance, center: _with_map(
            covariance, center, lambda matrix: tuple(tuple(v // 2 for v in row) for row in matrix)
        ),
        "not about the center": lambda covariance, center: dataclasses.replace(
            known_covariance.whitening(covariance, center), center=(Fraction(0),) * len(center)
        ),
    },
    "theory.kept_response:obligation_kept_moment": {
        "nothing is cut": lambda cut, a, b: kept_response.moment(
            kept_response.Cut(cut.d, cut.radius), a, b
        ),
        "another dimension": lambda cut, a, b: kept_response.moment(
            cut._replace(d=cut.d + 1), a, b
        ),
        "the other side": lambda cut, a, b: kept_response.moment(
            cut._replace(low=-cut.high, high=-cut.low, about=-cut.about), a, b
        ),
        "nothing across": lambda cut, a, b: kept_response.moment(cut, a, mp.mpf(0)),
    },
    "theory.kept_response:obligation_way_back": {
        "of variance 1": lambda cut, a, b: kept_response.moment(cut, a, b)._replace(
            covariance=(mp.mpf(1), mp.mpf(0), mp.mpf(1))
        ),
        "mirrored": lambda cut, a, b: kept_response.moment(cut, -a, b),
        "half as much across": lambda cut, a, b: (
            lambda at: at._replace(across=at.across / 2 if cut.d > 1 else at.across)
        )(kept_response.moment(cut, a, b)),
    },
    "theory.clipped_response:obligation_offset": {
        "the length itself": lambda d, r, length, outside: min(
            length, clipped_response.farthest(d, outside)
        ),
        "half": lambda *given: clipped_response.offset_of(*given) / 2,
        "no end": lambda d, r, length, outside: (
            clipped_response.offset_of(d, r, length, outside) + (length >= r)
        ),
    },
}


def _instead(obligation: Callable[..., int], twin: Any) -> Plant:
    """The obligation looks at this instead of what it is about."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(obligation, "__defaults__", (twin,))

    return plant


def _second(obligation: Callable[..., int], twin: Any) -> Plant:
    """The second of what the obligation is about is this."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        defaults: Any = obligation.__defaults__
        patch.setattr(obligation, "__defaults__", (defaults[0], twin))

    return plant


def _patched(where: Any, name: str, change: Callable[..., Any]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(where, name)
        patch.setattr(where, name, lambda *given: change(right, *given))

    return plant


def _impatient(values: Any) -> Fraction:
    """Every value decides, however small."""
    low, high = Fraction(-1), Fraction(1)
    for value in values:
        t = (low + high) / 2
        low, high = (t, high) if value > 0 else (low, t)
    return (low + high) / 2


def _even_factors(*given: Any) -> coordinates.Stretch:
    right = coordinates.stretch_about(*given)
    return dataclasses.replace(right, factors=(48,) * len(right.factors))


def _no_margin(parameters: Any, counts: Any) -> int:
    last = len(parameters["radii"]) - 1
    fits = (b for b in range(last) if sum(counts[b + 1 :]) <= sum(counts) // 1000)
    return next(fits, last)


_MISSED, _SEARCH = coordinates.obligation_missed, coordinates.obligation_search
FAULTS: dict[str, list[Plant]] = {
    "theory.coordinates:obligation_missed": [
        _instead(_MISSED, lambda r: mp.ncdf(-r - 2)),
        _instead(_MISSED, lambda r: 4 * coordinates.missed(r)),
        _instead(_MISSED, lambda r: mp.ncdf(-r)),
    ],
    "theory.coordinates:obligation_search": [
        _instead(_SEARCH, _impatient),
        _instead(_SEARCH, lambda values: -coordinates.middle(values)),
        _instead(_SEARCH, lambda values: coordinates.middle(values) / 2),
    ],
    "theory.coordinates:obligation_stretch": [
        _instead(coordinates.obligation_stretch, _even_factors),
        _instead(
            coordinates.obligation_stretch,
            lambda m, w, e, t: coordinates.stretch_about(m, [x**2 for x in w], e, t),
        ),
        _instead(
            coordinates.obligation_stretch,
            lambda m, w, e, t: coordinates.stretch_about(m, w, 2 * e, t),
        ),
    ],
    "theory.coordinates:obligation_scaled_masked_sum": [
        _second(coordinates.obligation_scaled_masked_sum, _of_the_batch),
        _second(
            coordinates.obligation_scaled_masked_sum,
            lambda records, stretch, radius, weight, kept: coordinates.scaled_masked_sum(
                records, stretch, radius + (kept is not None), weight, kept
            ),
        ),
    ],
    "variance_aware_mean:obligation_radius": [
        _instead(variance_aware_mean.obligation_radius, _no_margin),
        _instead(
            variance_aware_mean.obligation_radius,
            lambda p, counts: variance_aware_mean.chosen(p, [*counts[1:], counts[0]]),
        ),
    ],
    "variance_aware_mean:obligation_lower_bound_is_below_error": [
        _patched(variance_aware_mean, "lower_bound", lambda right, *given: 4 * right(*given)),
        _patched(variance_aware_mean, "lower_bound", lambda right, *given: right(*given) / 4),
    ],
    "variance_aware_mean:obligation_collapse": [
        _patched(centered, "missed", lambda right, r: right(r * 9)),
        _patched(centered, "missed", lambda right, r: right(r / 2)),
    ],
    "gaussian_mean:obligation_loss": [
        _patched(gaussian_mean, "scale", lambda right, *given: right(*given) * Fraction(99, 100)),
        _patched(gaussian_mean, "sum_share", lambda right, p: right(p) + Fraction(1, 100)),
    ],
    "gaussian_mean:obligation_lower_bound_is_below_error": [
        _patched(gaussian_mean, "lower_bound", lambda right, *given: 20 * right(*given)),
        _patched(gaussian_mean, "lower_bound", lambda right, *given: right(*given) / 20),
        _patched(gaussian_mean, "error_bound", lambda right, *given: right(*given) / 12),
    ],
    "coordinatewise_mean:obligation_ball": [
        _patched(coordinatewise_mean, "multiple", lambda right, p: right(p) - Fraction(1, 2)),
    ],
    "coordinatewise_mean:obligation_lower_bound_is_below_error": [
        _patched(coordinatewise_mean, "lower_bound", lambda right, *given: 9 * right(*given)),
        _patched(coordinatewise_mean, "lower_bound", lambda right, *given: right(*given) / 9),
    ],
}
