"""False twins of the obligations about families of normal vectors."""

from __future__ import annotations

from typing import Any

import mpmath as mp

from spec.theory import gaussian_families as right

TWINS: dict[str, dict[str, Any]] = {
    "theory.gaussian_families:obligation_limited": {
        "without the mean": lambda means, variances, *given: right.limited(
            [0 * m for m in means], variances, *given
        ),
        "the other power": lambda means, variances, limit, *given: right.limited(
            means, variances, str({"root": "ratio", "ratio": "root"}.get(limit, limit)), *given
        ),
        "not limited": lambda means, variances, limit, indices: right.tilted(
            means, variances, mp.mpf(0), indices
        ),
        "one moment less": lambda means, variances, limit, indices: right.limited(
            means, variances, limit, indices[1:]
        ),
    },
    "theory.gaussian_families:obligation_curvature": {
        "without a mean": lambda low, high, far: (1 / high**2 / 2, 1 / low**2 / 2),
        "ends swapped": lambda low, high, far: right.curvature(high, low, far),
        "half of it": lambda *given: (
            right.curvature(*given)[0] / 2,
            right.curvature(*given)[1],
        ),
        "twice the mean": lambda low, high, far: right.curvature(low, high, 2 * far),
    },
    "theory.gaussian_families:obligation_error": {
        "half": lambda least, moved: right.error_bound(least, moved) / 2,
        "ten times": lambda least, moved: 10 * right.error_bound(least, moved),
        "multiplied": lambda least, moved: least * moved,
    },
}
