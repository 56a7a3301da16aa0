"""Mean of the records in a ball, of a normal law whose columns have one correlation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .obligations import require

_SOURCE = Source("OURS", "what a ball makes of the mean of correlated normal records")


@states(_SOURCE)
def one_axis(d: int, radius: Any, common: Any) -> tuple[Any, tuple[Any, Any], tuple[Any, Any]]:
    """Return the share of normal records within ``radius`` of their mean, and along the long axis
    and across it the derivative of their mean by the mean of all, and n times the variance of the
    difference of the two.

    Any two of the d >= 2 columns have this correlation, so the long axis has the variance v = 1 +
    (d - 1) c, and all others 1 - c. By Stein's identity E 1 y is the mean times E 1 y^2 / v to
    first order; a = that over the share is the derivative. A record counts by 1 y / share - y, of
    variance v (a / share - 2 a + 1).
    """
    radius, common = mp.mpf(radius), mp.mpf(common)
    long, short = 1 + (d - 1) * common, 1 - common
    end = radius / mp.sqrt(long)

    def over(power: int, degrees: int) -> Any:
        """Integrate y^power along the long axis, for unit variance, and a chi-square across."""

        def at(y: Any) -> Any:
            room = max(mp.mpf(0), radius**2 - long * y * y) / short
            inside = mp.gammainc(mp.mpf(degrees) / 2, 0, room / 2, regularized=True)
            return 2 * y**power * mp.npdf(y) * inside

        return mp.quad(at, [0, min(end, mp.mpf(2)), end] if end > 2 else [0, end])

    share = over(0, d - 1)
    follows = over(2, d - 1) / share, over(0, d + 1) / share
    excess = tuple(v * (a / share - 2 * a + 1) for v, a in zip((long, short), follows, strict=True))
    return share, follows, (excess[0], excess[1])


@states(_SOURCE)
def obligation_one_axis(claimed: Callable[[int, Any, Any], Any] = one_axis) -> int:
    """Check in a plane, by quadrature of the density about a mean that is a thousandth off along
    either axis, that the mean of the records in the ball is the mean of all times the claimed
    derivative, to a ten-thousandth; and the share and the variances, about their mean.
    """
    cases = 0
    with mp.workdps(12):
        for radius, common in ((mp.mpf(1), mp.mpf("0.6")), (mp.mpf(2), mp.mpf("0.3"))):
            share, follows, excess = claimed(2, radius, common)
            variances = 1 + common, 1 - common

            def summed(
                what: Callable[[Any, Any], Any],
                off: tuple[Any, Any],
                radius: Any = radius,
                variances: Any = variances,
            ) -> Any:
                """Integrate over the ball, in polar coordinates."""

                def at(r: Any, angle: Any) -> Any:
                    y = r * mp.cos(angle), r * mp.sin(angle)
                    own = [(y[i] - off[i]) ** 2 / variances[i] for i in (0, 1)]
                    return r * what(*y) * mp.exp(-sum(own) / 2)

                area = mp.quad(at, [0, radius], [0, mp.pi, 2 * mp.pi], maxdegree=4)
                return area / (2 * mp.pi * mp.sqrt(variances[0] * variances[1]))

            inside = summed(lambda *y: 1, (0, 0))
            require(abs(inside - share) < 1e-6, f"{radius}, {common}: {share}")
            for axis in (0, 1):
                off = [mp.mpf(axis == i) / 1000 for i in (0, 1)]
                moved = summed(lambda *y, axis=axis: y[axis], tuple(off)) * 1000
                near = abs(moved / inside / follows[axis] - 1)
                require(near < 1e-4, f"{radius}, {common}, {axis}: {follows}")
                square = summed(lambda *y, axis=axis: y[axis] ** 2, (0, 0))
                v = variances[axis]
                own = square / inside**2 - 2 * square / inside + v
                require(abs(own - excess[axis]) < 1e-6, f"{radius}, {common}: {excess}")
                cases += 1
    return cases
