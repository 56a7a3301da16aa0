"""A Winsorized mean with Laplace noise of half a range over epsilon n: epsilon is claimed, 3
epsilon is lost.

The constants of one public implementation on this package's grid: a quartile's cell has the
weight e^(-epsilon' |rank error|), as if a record moved one side of the comparison only, so each
quartile costs 2 epsilon' = epsilon / 2; and noise of scale (u - l) / (2 epsilon n) on a mean
that moves by (u - l) / n costs 2 epsilon.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dpverify.randomness import Bits

from ._winsorized import exhibit, released


def winsorized_half_range(data: Any, size: int, bits: Bits) -> Sequence[Any]:
    """Release with half the scale of the quartiles' choices and a quarter of the noise."""
    return released(data, size, bits, quartiles=Fraction(1, 2), noise=Fraction(1, 4))


EXHIBIT = exhibit(
    "winsorized_half_range",
    winsorized_half_range,
    "the Winsorized mean with noise of (u - l) / (2 epsilon n)",
    "a record that goes from one end of the range to the other moves the mean by four scales of "
    "its share",
    quick_trials=200_000,
)
