"""Claims that no number of draws can test: said before anything is drawn."""

from __future__ import annotations

import math
import warnings

from dpverify.privacy import Guarantee, points_of

MOST_DRAWS = 10**9
"""Largest number of draws per side that anybody makes."""


class OutOfReachWarning(UserWarning):
    """A claim whose delta is too small for draws: what is attacked is its epsilon alone."""


def beyond_draws(guarantee: Guarantee, alpha: float) -> str | None:
    """Say why no number of draws tests the claim's delta, and what does; None where draws do.

    An event that has this delta here and never happens there is seen once in
    ln(1 / alpha) / delta draws at level alpha, whatever the test.
    """
    points = set(points_of(guarantee))
    _, delta = next(iter(points))
    if len(points) > 1 or not delta:  # for a profile or pure DP, common events decide
        return None
    needed = -math.log(alpha) / float(delta) if float(delta) else math.inf
    if needed <= MOST_DRAWS:
        return None
    return (
        f"delta = {float(delta):.3g} is out of reach: an event of that probability takes "
        f"{needed:.1e} draws to be seen, so draws show a violation only where epsilon is "
        "exceeded by far commoner events. If the noise is Gaussian or Laplace, compare its "
        f"parameter exactly instead: {SENT_TO}"
    )


def warned(guarantee: Guarantee, alpha: float, level: int) -> tuple[str, ...]:
    """Return the remark on a claim beyond draws, if it is one, and warn the caller so many
    levels up.
    """
    remark = beyond_draws(guarantee, alpha)
    if remark is None:
        return ()
    warnings.warn(remark, OutOfReachWarning, stacklevel=level + 1)
    return (remark,)


SENT_TO = (
    "audit_calibration(sigma, claim, sensitivity), or, of a composition, "
    "Profile([...]).delta_at(epsilon)"
)
