"""False twins of the obligations about clipped moments of one column."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpverify.privacy import Adjacency
from spec.theory import clipped_scalars as clipped


def _both_ends(*given: Any) -> int:
    """Under replace as if one end for the other moved most."""
    turn, _, linear, *_, adjacency = given
    if adjacency is Adjacency.REPLACE:
        return int((2 * linear * turn) ** 2)
    return clipped.moved_squared(*given)


TWINS: dict[str, dict[str, Any]] = {
    "theory.clipped_scalars:obligation_clipped_moments": {
        "half": lambda *given: clipped.moved_squared(*given) // 2,
        "one end for the other": _both_ends,
    },
    "theory.clipped_scalars:obligation_units": {
        "a sixteenth more": lambda level: clipped.unit_of(level) + Fraction(1, 16),
    },
    "univariate_gaussian:obligation_loss": {
        "a little less": Fraction(999, 1000),
        "a little more": Fraction(1001, 1000),
    },
    "univariate_gaussian:obligation_searches_find": {"half": 100, "four times": 800},
    "univariate_gaussian:obligation_lower_bound_is_below_error": {"within 1": 1},
}
