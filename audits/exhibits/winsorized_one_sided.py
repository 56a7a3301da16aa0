"""A Winsorized mean whose quartiles are chosen with weights e^(-epsilon' |rank error|): 1.5 epsilon is lost.

The constants of another public implementation on this package's grid: the noise is right, but a record moves
the rank error up on one side of a quartile and down on the other, so a choice of these weights has a range
of losses of 2 epsilon', not epsilon'.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dpverify.randomness import Bits

from ._winsorized import exhibit, released


def winsorized_one_sided(data: Any, size: int, bits: Bits) -> Sequence[Any]:
    """Half the scale of the quartiles' choices."""
    return released(data, size, bits, quartiles=Fraction(1, 2), noise=Fraction(1))


EXHIBIT = exhibit(
    "winsorized_one_sided",
    winsorized_one_sided,
    "the Winsorized mean with quartiles by e^(-epsilon |rank error|)",
    "one record moves both quartiles' scores down in one cell and up in the others, and the mean besides",
)
