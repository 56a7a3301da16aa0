"""Public bounds: finite, in order, real floats; everything else is refused with what to write."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify.grid import Count, interval

BAD_INTERVALS: list[tuple[Any, Any, type[Exception], str]] = [
    (1.0, 1.0, ValueError, "equal"),
    (2, 1, ValueError, "reversed"),
    (0.0, -0.0, ValueError, "equal"),
    (float("nan"), 1.0, ValueError, "not finite"),
    (0.0, float("inf"), ValueError, "not finite"),
    (float("-inf"), 0.0, ValueError, "not finite"),
    (0, 10**400, ValueError, "not finite"),
    (2**53, 2**53 + 1, ValueError, "equal"),
    ("0", 1.0, TypeError, "is a str"),
    (False, True, TypeError, "is a bool"),
    (np.False_, 1.0, TypeError, "is a bool"),
    (None, 1.0, TypeError, "is a NoneType"),
    (0j, 1.0, TypeError, "is a complex"),
    (Fraction(1, 2), 1.0, TypeError, "is a Fraction"),
    ([0.0], 1.0, TypeError, "is a list"),
    (np.array([0.0]), 1.0, TypeError, "is a ndarray"),
]


@pytest.mark.parametrize(
    ("lower", "upper", "kind", "message"), BAD_INTERVALS, ids=range(len(BAD_INTERVALS))
)
def test_bad_intervals_are_refused(
    lower: Any, upper: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=f"^here: .*{message}"):
        interval(lower, upper, "here")


def test_a_proper_interval_becomes_two_floats() -> None:
    bounds = interval(np.int64(1), np.float32(2.5), "here")
    assert bounds == (1.0, 2.5)
    assert [type(bound) for bound in bounds] == [float, float]
    assert interval(-1e308, 1.7976931348623157e308, "here") == (-1e308, 1.7976931348623157e308)


def test_a_count_refuses_a_bad_interval() -> None:
    with pytest.raises(ValueError, match=r"within: .*reversed"):
        Count((1.0, 0.0))
