"""Roots by Newton's method inside an interval."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import scipy

from dpverify.families.roots import root_in


@pytest.mark.parametrize("root", [-0.999, -1e-9, 0.0, 1e-300, 0.3, 0.999])
@pytest.mark.parametrize("start", [-1.0, 0.0, 1.0, 7.0])
@pytest.mark.parametrize(
    ("value", "slope"),
    [
        (lambda x: x, lambda x: 1.0),
        (lambda x: math.atan(40 * x), lambda x: 40 / (1 + (40 * x) ** 2)),  # Newton's steps diverge
        (lambda x: math.cbrt(x), lambda x: 0.0 if x == 0 else abs(x) ** (-2 / 3) / 3),
        (lambda x: math.exp(9 * x), lambda x: 9 * math.exp(9 * x)),
        (lambda x: x, lambda x: 0.0),  # no slope: the interval is halved
        (lambda x: x, lambda x: 1e300),  # a slope that is far too steep goes nowhere
    ],
)
def test_the_root_is_that_of_bisection(
    root: float, start: float, value: Callable[[float], float], slope: Callable[[float], float]
) -> None:
    """The last case's steps vanish: what it returns is where it stopped, inside the interval."""
    at = root_in(lambda x: (value(x) - value(root), slope(x)), -1.0, 1.0, start)
    if slope(0.5) == 1e300:
        assert -1 <= at <= 1
        return
    other = scipy.optimize.bisect(lambda x: value(x) - value(root), -1.0, 1.0, xtol=1e-15)
    assert at == pytest.approx(other, abs=1e-13)
