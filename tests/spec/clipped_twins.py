"""False twins of the obligations about clipped and masked second moments."""

from __future__ import annotations

from typing import Any

import mpmath as mp

from spec.theory import clipped_errors
from spec.theory import clipped_moments as right


def _by_plain_law(spectrum: Any, bound: Any) -> list[Any]:
    """Omit the two more degrees of freedom of the coordinate that is squared."""
    return [one * right.clipped(spectrum, bound) for one in spectrum]


def _with_one_degree(spectrum: Any, bound: Any) -> list[Any]:
    """Count one more degree of freedom for squares."""
    return [one * right.clipped([*spectrum, one], bound) for one in spectrum]


def _by_the_normal_law(spectrum: Any, bound: Any) -> list[Any]:
    """Take the squared length of more than 200 equal columns for a normal number."""
    d, one = len(spectrum), spectrum[0]
    if d <= 200 or spectrum.count(one) < d:
        return right.clipped_spectrum(spectrum, bound)
    deviation = mp.sqrt(2 * mp.mpf(d))
    t = (bound / one - d) / deviation
    mean = d + deviation * (t * (1 - mp.ncdf(t)) - mp.npdf(t))
    return [one * mean / d] * d


def _not_above(spectrum: Any, bound: Any) -> Any:
    """Keep G at the bound."""
    total = mp.mpf(0)
    for one in spectrum:
        share = mp.fprod(one / (one - other) for other in spectrum if other != one)
        total += share * 2 * one * -mp.expm1(-bound / (2 * one))
    return total


def _unscaled_noise(
    d: int, n: Any, bound: Any, scale: Any, count: Any = 0, how: str = "clip"
) -> Any:
    """Noise of the scale above the diagonal too: isometric only in name."""
    return clipped_errors.expected_error(d, n, bound, scale * mp.sqrt(2), count, how)


TWINS: dict[str, dict[str, Any]] = {
    "theory.clipped_moments:obligation_clipped_spectrum": {
        "plain law": _by_plain_law,
        "normal": _by_the_normal_law,
        "one degree": _with_one_degree,
        "masked": lambda spectrum, bound: right.masked_spectrum(spectrum, bound)[1:],
        "a little more": lambda spectrum, bound: [
            one * (1 + mp.mpf(10) ** -10) for one in right.clipped_spectrum(spectrum, bound)
        ],
    },
    "theory.clipped_moments:obligation_masked_spectrum": {
        "clipped": lambda spectrum, bound: [
            right.inside(spectrum, bound),
            *right.clipped_spectrum(spectrum, bound),
        ],
        "conditional": lambda spectrum, bound: [
            right.inside(spectrum, bound),
            *(
                one / right.inside(spectrum, bound)
                for one in right.masked_spectrum(spectrum, bound)[1:]
            ),
        ],
        "certain": lambda spectrum, bound: [
            mp.mpf(1),
            *right.masked_spectrum(spectrum, bound)[1:],
        ],
    },
    "theory.clipped_moments:obligation_off_diagonal": {
        "one coordinate's": lambda spectrum, bound, i, j: right.clipped(spectrum, bound, i),
        "the same twice": lambda spectrum, bound, i, j: right.clipped(spectrum, bound, i, i),
        "ratio": lambda spectrum, bound, i, j: (
            right.clipped_spectrum(spectrum, bound)[i] / spectrum[i]
        ),
    },
    "theory.clipped_moments:obligation_potential": {
        "flat above": _not_above,
        "half": lambda spectrum, bound: right.potential(spectrum, bound) / 2,
    },
    "theory.clipped_errors:obligation_expected_error": {
        "off-diagonal noise": _unscaled_noise,
        "without count": lambda d, n, bound, scale, count=0, how="clip": (
            clipped_errors.expected_error(d, n, bound, scale, 0, how)
        ),
        "without noise": lambda d, n, bound, scale, count=0, how="clip": (
            clipped_errors.expected_error(d, n, bound, 0, count, how)
        ),
        "clip for mask": lambda d, n, bound, scale, count=0, how="clip": (
            clipped_errors.expected_error(d, n, bound, scale, count)
        ),
        "of no truncation": lambda d, n, bound, scale, count=0, how="clip": mp.sqrt(
            d * (d + 1) * (mp.mpf(1) / n + mp.mpf(scale) ** 2 / 2)
        ),
    },
}
