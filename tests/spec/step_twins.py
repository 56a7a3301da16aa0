"""False twins and planted faults of the obligations about steps between edges and families with
one scale."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest

from dpverify.privacy import Adjacency
from spec import location_scale, scale_family, truncated_mle, truncation
from spec.theory import families, family_frames, steps, truncated_laws
from spec.theory import location_scale as located

Plant = Callable[[pytest.MonkeyPatch], None]
Orders = dict[tuple[Any, ...], Fraction]


def _pads_behind(kept: tuple[Any, ...], size: int, pad: Any) -> Orders:
    """Shuffle before padding."""
    padded = [pad] * (size - len(kept))
    return {(*one, *padded): mass for one, mass in truncation.in_every_order(kept).items()}


def _often_shuffled(listed: tuple[Any, ...]) -> Orders:
    """Leave the list as it is one time out of four."""
    orders = {one: mass * 3 / 4 for one, mass in truncation.in_every_order(listed).items()}
    return orders | {listed: orders[listed] + Fraction(1, 4)}


class LogisticFamily:
    """Stands for the family of this name."""


TWINS: dict[str, dict[str, Any]] = {
    "theory.gradient_steps:obligation_steps_average": {
        "the plain mean": lambda steps: [Fraction(1, steps)] * steps,
        "the last parameter alone": lambda steps: [
            Fraction(2 * (s + 1), steps * (steps + 1)) for s in range(steps)
        ],
    },
    "theory.gradient_steps:obligation_median_of_runs": {
        "the mean": lambda values: sum(values) / len(values),
        "the largest": max,
        "the lower quarter": lambda values: sorted(values)[len(values) // 4],
    },
    "theory.gradient_steps:obligation_published_noise": {
        "no worse than full gradients": (0, 2),
        "a hundred times": (90, 110),
    },
    "theory.steps:obligation_step_sums": {
        "one less": lambda *given: steps.moved_squared(*given) - 1,
        "one more": lambda *given: steps.moved_squared(*given) + 1,
        "a mask is a clip": lambda c, w, outside, a: steps.moved_squared(c, w, "clip", a),
        "the number is free": lambda c, w, outside, a: steps.moved_squared(c, 0, outside, a),
        "half of the range": lambda c, w, outside, a: (
            c**2 if a is Adjacency.REPLACE else steps.moved_squared(c, w, outside, a)
        ),
    },
    "theory.steps:obligation_step_moments": {
        "one less": lambda *given: steps.moments_moved_squared(*given) - 1,
        "one more": lambda *given: steps.moments_moved_squared(*given) + 1,
        "a mask is a clip": lambda c, t, a, b, o, w, outside, near: steps.moments_moved_squared(
            c, t, a, b, o, w, "clip", near
        ),
        "the number is free": lambda c, t, a, b, o, w, *rest: steps.moments_moved_squared(
            c, t, a, b, o, 0, *rest
        ),
        "one moment": lambda c, t, a, b, o, *rest: steps.moments_moved_squared(
            c, t, a, 0, 0, *rest
        ),
        "the ends alone": lambda c, t, a, b, o, w, outside, near: (
            (2 * a * t) ** 2
            if near is Adjacency.REPLACE and outside == "clip"
            else steps.moments_moved_squared(c, t, a, b, o, w, outside, near)
        ),
    },
    "scale_family:obligation_loss": {
        "a little less": Fraction(999, 1000),
        "a little more": Fraction(1001, 1000),
    },
    "scale_family:obligation_moments": {
        "clipped for masked": lambda a, b, outside: scale_family.mean_of(a, b, "clip"),
        "not clipped": lambda a, b, outside: a / b,
        "another shape": lambda a, b, outside: scale_family.mean_of(a + 1, b, outside),
    },
    "truncation:obligation_of_public_size": {
        "no pads": lambda records, inside, size, pad: tuple(filter(inside, records))[:size],
        "pads with a record": lambda records, inside, size, pad: truncation.of_public_size(
            records, inside, size, next(filter(inside, records), pad)
        ),
        "trims every other one": lambda records, inside, size, pad: truncation.of_public_size(
            tuple(filter(inside, records))[::2], inside, size, pad
        ),
        "pads and trims": lambda records, inside, size, pad: truncation.of_public_size(
            tuple(filter(inside, records))[len(records) % 2 :], inside, size, pad
        ),
        "a size by the data": lambda records, inside, size, pad: truncation.of_public_size(
            records, inside, size + len(records) % 2, pad
        ),
    },
    "truncation:obligation_coupling": {
        "not shuffled": lambda *given: {truncation.of_public_size(*given): Fraction(1)},
        "pads behind": lambda records, inside, size, pad: _pads_behind(
            tuple(filter(inside, records))[:size], size, pad
        ),
        "shuffled three times out of four": lambda *given: _often_shuffled(
            truncation.of_public_size(*given)
        ),
        "pads with a record": lambda records, inside, size, pad: truncation.law(
            records, inside, size, next(filter(inside, records), pad)
        ),
        "pads and trims": lambda records, inside, size, pad: truncation.law(
            tuple(filter(inside, records))[len(records) % 2 :], inside, size, pad
        ),
        "a size by the data": lambda records, inside, size, pad: truncation.law(
            records, inside, size + len(records) % 2, pad
        ),
    },
    "theory.truncated_laws:obligation_bias": {
        "half": lambda *given: truncated_laws.bias_bound(*given) / 2,
        "the other share": lambda a, v: truncated_laws.bias_bound(1 - a, v),
        "loose": lambda *given: 2 * truncated_laws.bias_bound(*given),
    },
    "theory.truncated_laws:obligation_mass": {
        "Cauchy and Schwarz": lambda a, most, distance: 2 * math.log(a) - most * distance**2,
        "no bias": lambda a, most, distance: math.log(a) - most * distance**2 / 2,
        "no share": lambda a, most, distance: truncated_laws.mass_bound(1.0, most, distance),
    },
    "theory.truncated_laws:obligation_tail": {
        "normal tails": lambda v, r, t: 2 * math.exp(-t * t / (2 * v)),
        "five times the rate": lambda v, r, t: truncated_laws.tail_bound(v / 5, 5 * r, t),
        "a hundredth": lambda *given: truncated_laws.tail_bound(*given) / 100,
    },
    "truncated_mle:obligation_loss": {
        "a little less": Fraction(999, 1000),
        "a little more": Fraction(1001, 1000),
    },
    "location_scale:obligation_loss": {
        "a little less": Fraction(999, 1000),
        "a little more": Fraction(1001, 1000),
    },
    "theory.location_scale:obligation_moments": {
        "clipped for masked": lambda family, m, s, where: located.moments(
            family, m, s, where._replace(outside="clip")
        ),
        "another scale": lambda family, m, s, where: located.moments(family, m, 1.01 * s, where),
        "no turn": lambda family, m, s, where: located.moments(
            family, m, s, where._replace(turn=1.0)
        ),
        "another law": lambda family, *given: located.moments(
            located.known(LogisticFamily()), *given
        ),
    },
    "theory.location_scale:obligation_one_law": {
        "twice as wide": (2.0, 2.0),
        "half as wide again": (1.5, 2.0),
    },
    "theory.families:obligation_limited": {
        "clipped for masked": lambda *given: families.limited(*given[:4], "clip"),
        "another parameter": lambda family, theta, *given: families.limited(
            family, theta + 0.01, *given
        ),
        "not limited": lambda family, theta, *given: families.whole(family, theta),
        "the variance for the slope": lambda *given: families.limited(*given)._replace(
            slope=families.limited(*given).variance
        ),
    },
}


def _times(name: str, factor: Any, where: Any = scale_family) -> Plant:
    right = getattr(where, name)
    return lambda patch: patch.setattr(where, name, lambda *given: factor * right(*given))


_DESCENT = truncated_mle.descent


def _whole_list_for_each_chunk(parameters: Any, listed: Any) -> Any:
    twice = [z for z in listed for _ in range(parameters["runs"])]
    return _DESCENT(parameters, twice)


def _size_by_the_data(parameters: Any, values: Any, reached: Any, number: Any) -> Any:
    frame = family_frames.frame_of(parameters, family_frames.theta_after(parameters, reached), 0)
    cells = (family_frames.cell_of(parameters, frame, x) for x in values)
    return tuple(z for z in cells if z is not None)


FAULTS: dict[str, list[Plant]] = {
    "scale_family:obligation_loss": [
        _times("scale", Fraction(9, 10)),
        lambda patch: patch.setattr(
            scale_family, "shares", lambda p: (Fraction(1, 3), Fraction(1, 2), Fraction(1))
        ),
    ],
    "location_scale:obligation_loss": [
        _times("scale", Fraction(9, 10), location_scale),
        _times("step_scale", Fraction(9, 10), location_scale),
    ],
    "location_scale:obligation_lower_bound_is_below_error": [
        _times("lower_bound", 60, location_scale),
        _times("lower_bound", mp.mpf(1) / 60, location_scale),
    ],
    "truncated_mle:obligation_loss": [
        _times("scale", Fraction(9, 10), truncated_mle),
        _times("step_scale", Fraction(9, 10), truncated_mle),
        lambda patch: patch.setattr(truncated_mle, "descent", _whole_list_for_each_chunk),
        lambda patch: patch.setattr(truncated_mle, "list_after", _size_by_the_data),
        lambda patch: patch.setattr(
            family_frames, "shares", lambda p: (Fraction(1, 3), Fraction(1, 2), Fraction(1))
        ),
    ],
    "truncated_mle:obligation_lower_bound_is_below_error": [
        _times("lower_bound", 6, truncated_mle),
        _times("lower_bound", mp.mpf(1) / 6, truncated_mle),
    ],
    "scale_family:obligation_lower_bound_is_below_error": [
        _times("lower_bound", 60),
        _times("lower_bound", mp.mpf(1) / 60),
    ],
}
