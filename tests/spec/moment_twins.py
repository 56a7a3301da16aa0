"""False twins and planted faults of the obligations about moments of records in a box."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from dpverify.privacy import Adjacency
from spec import moment_matrix
from spec.theory import box_moments
from spec.theory.box_moments import Box

Plant = Callable[[pytest.MonkeyPatch], None]
RIGHT = box_moments.moved_squared


def _sums_are_free(
    d: int, h: int, r: int, c: int, a: int, b: int, n: bool, t: int, of: Adjacency
) -> int:
    return RIGHT(d, h, r, 1, a, b, n, t, of)


def _half_of_products(
    d: int, h: int, r: int, c: int, a: int, b: int, n: bool, t: int, of: Adjacency
) -> int:
    return RIGHT(d, h, r, c, a, max(1, b // 2), n, t, of)


def _number_is_free(
    d: int, h: int, r: int, c: int, a: int, b: int, n: bool, t: int, of: Adjacency
) -> int:
    return RIGHT(d, h, r, c, a, b, False, t, of)


def _no_opposite(
    d: int, h: int, r: int, c: int, a: int, b: int, n: bool, t: int, of: Adjacency
) -> int:
    """Take the distance of orthogonal records for the largest under replace."""
    if of is Adjacency.ADD_REMOVE:
        return RIGHT(d, h, r, c, a, b, n, t, of)
    return 2 * RIGHT(d, h, r, c, a, b, False, t, Adjacency.ADD_REMOVE) - a**2 * h**4


def _no_products_with_targets(
    d: int, h: int, r: int, c: int, a: int, b: int, n: bool, t: int, of: Adjacency
) -> int:
    """Pay for the features and for the targets' sums alone."""
    sums = b**2 * c**2 * t * h**2 * (4 if of is Adjacency.REPLACE else 1)
    return RIGHT(d - t, h, r, c, a, b, n, 0, of) + (sums if t else 0)


def _targets_among_themselves(
    d: int, h: int, r: int, c: int, a: int, b: int, n: bool, t: int, of: Adjacency
) -> int:
    return RIGHT(d, h, r, c, a, b, n, 0, of)


def _without_ball(box: Box, record: Any) -> Any:
    return replace(box, radius=99 * box.side).image(record)


def _patched(name: str, change: Callable[..., Any]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(moment_matrix, name)
        patch.setattr(moment_matrix, name, lambda *given: change(right, *given))

    return plant


def _l1(change: Callable[[int], int]) -> Plant:
    """Change what is claimed in L1, which is a default of the obligation."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = box_moments.moved
        own = (RIGHT, lambda *given: change(right(*given)))
        patch.setattr(box_moments.obligation_box_moments, "__defaults__", own)

    return plant


_OF_L1: tuple[Callable[[int], int], ...] = (lambda n: n - 1, lambda n: 2 * n, lambda n: n * 3 // 4)


TWINS: dict[str, dict[str, Any]] = {
    "theory.box_moments:obligation_box_moments": {
        "one less": lambda *given: RIGHT(*given) - 1,
        "double": lambda *given: 2 * RIGHT(*given),
        "the sums are free": _sums_are_free,
        "half of each product": _half_of_products,
        "the number is free": _number_is_free,
        "no record has an opposite": _no_opposite,
        "products with targets are free": _no_products_with_targets,
        "targets among themselves are paid": _targets_among_themselves,
        "no ball": lambda d, h, r, *rest: RIGHT(d, h, min(r, h), *rest),
    },
    "theory.box_moments:obligation_images_are_in_the_box_and_the_ball": {
        "no ball": _without_ball,
        "a cell to one side": lambda box, record: tuple(z + 1 for z in box.image(record)),
        "half": lambda box, record: tuple(z // 2 for z in box.image(record)),
    },
    "moment_matrix:obligation_loss": {
        "a little less": Fraction(9, 10),
        "a half more": Fraction(3, 2),
    },
    "moment_matrix:obligation_laplace_loss": {
        "a little less": Fraction(9, 10),
        "twice": Fraction(2),
    },
    "moment_matrix:obligation_lower_bound_is_below_error": {"within once": 1},
}

FAULTS: dict[str, list[Plant]] = {
    "theory.box_moments:obligation_box_moments": [_l1(change) for change in _OF_L1],
    "moment_matrix:obligation_laplace_loss": [
        _patched("scale", lambda right, parameters: right(parameters) / 2)
    ],
    "moment_matrix:obligation_loss": [
        _patched("scale", lambda right, parameters: right(parameters) / 2),
        _patched("scale", lambda right, parameters: right(parameters) * 2),
    ],
    "moment_matrix:obligation_lower_bound_is_below_error": [
        _patched("lower_bound", lambda right, *given: 100 * right(*given)),
        _patched("expected_error", lambda right, *given: right(*given) / 100),
    ],
}
