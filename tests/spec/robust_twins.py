"""False twins of the obligations about a robust private mean."""

from __future__ import annotations

from typing import Any

import mpmath as mp

from spec.theory import goodness, robust_claims, robust_filters, robust_refutations
from spec.theory.laws import real


def _clamped(rows: robust_filters.Rows) -> robust_filters.Row:
    """Return a mean that does not follow its data: it has a sensitivity."""
    return robust_filters.mean([tuple(min(x, 100) for x in row) for row in rows])


def _at_records(rows: robust_filters.Rows) -> Any:
    """Look at records alone: at nothing between two of them, and nothing farther out."""
    n, largest = len(rows), mp.mpf(0)
    for t, *counts in goodness._levels(rows):
        largest = max(largest, *(abs(mp.mpf(k) / n - mp.ncdf(-t)) * t**2 for k in counts))
    return largest


TWINS: dict[str, dict[str, Any]] = {
    "theory.robust_filters:obligation_no_sensitivity": {
        "clamped": {"mean": robust_filters.mean, "clamped": _clamped},
        "constant": {"constant": lambda rows: (mp.mpf(0),)},
    },
    "theory.goodness:obligation_farthest": {
        "along the axes": lambda rows: max(
            goodness.farthest([(row[j],) for row in rows]) for j in range(len(rows[0]))
        ),
        "at the records' own distances": _at_records,
        "double": lambda rows: 2 * goodness.farthest(rows),
    },
    "theory.robust_refutations:obligation_lost_step": {
        "with a constant of 4": lambda g: 4 * robust_refutations.step_of_lost_part(g),
    },
    "theory.robust_refutations:obligation_outlier_step": {
        "with the term that was lost": lambda g: 3 * real(g) * mp.log(real(1 / g)),
    },
    "theory.robust_refutations:obligation_lost_part": {
        "half": lambda g: robust_claims.lost_part(g) / 2,
        "no smaller term": lambda g: mp.sqrt(real(2 * g)) / real(1 - 2 * g),
    },
    "theory.robust_refutations:obligation_outlier_part": {
        "half": lambda g, top: robust_claims.outlier_part(g, top) / 2,
        "no eigenvalue": lambda g, top: robust_claims.outlier_part(g, 0),
        "one root of gamma": lambda g, top: (
            robust_claims.outlier_part(g, 0) + mp.sqrt(real(g) * top)
        ),
    },
    "theory.robust_refutations:obligation_stopping": {"a constant of 3": 3},
    "theory.robust_refutations:obligation_dimension": {
        "a tenth more": lambda n: 1.1 * robust_claims.error_of_clean_data(n),
        "a tenth less": lambda n: 0.9 * robust_claims.error_of_clean_data(n),
    },
    "theory.robust_refutations:obligation_good_mean": {
        "a tenth more": lambda n, d: 1.1 * robust_refutations.good_mean(n, d),
        "one column more": lambda n, d: robust_refutations.good_mean(n, d + 1),
    },
    "theory.robust_refutations:obligation_no_delta": {
        "a fifth of the shift": lambda shift, scale, e: robust_claims.delta(shift / 5, scale, e),
        "a claimed delta": lambda shift, scale, e: mp.mpf("1e-3"),
    },
}
