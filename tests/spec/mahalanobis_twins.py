"""False twins of the obligations about errors in the Mahalanobis norm."""

from __future__ import annotations

from typing import Any

TWINS: dict[str, dict[str, Any]] = {
    "theory.mahalanobis:obligation_footnote": {
        "the covariance itself": lambda maha: 1,
        "its square, in both norms": lambda maha: 2,
        "its cube": lambda maha: 3 if maha else 1,
        "no matrix": lambda maha: 0,
    },
    "theory.mahalanobis:obligation_rates_of_others": {"the square of d": 2, "no d": 0},
}
