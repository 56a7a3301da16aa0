"""A Winsorized mean whose quartiles are drawn at half the scale: epsilon is claimed, up to 1.5
epsilon is lost.

The constants of another public implementation on this package's grid: a quartile's cell has the
weight e^(-epsilon' |rank error|), so each quartile costs 2 epsilon' = epsilon / 2, as in
winsorized_half_range; the noise has the scale 2 (u - l) / (epsilon n), and costs the epsilon / 2
that is left for it. An event of probability 0.053 on one side has a loss of 2.42, where 2 is
claimed.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dpverify.randomness import Bits

from ._winsorized import exhibit, released


def winsorized_half_scale(data: Any, size: int, bits: Bits) -> Sequence[Any]:
    """Release with half the scale of the quartiles' choices and the right noise."""
    return released(data, size, bits, quartiles=Fraction(1, 2), noise=Fraction(1))


EXHIBIT = exhibit(
    "winsorized_half_scale",
    winsorized_half_scale,
    "the Winsorized mean with noise of 2 (u - l) / (epsilon n)",
    "a record that goes from end to end moves the ranks of nearly all cells, for and against, "
    "so that each quartile loses nearly twice its share, and the mean loses its own",
    quick_trials=300_000,
)
