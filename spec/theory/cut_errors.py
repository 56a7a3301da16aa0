"""Errors that slabs and balls add to a mean, as a robust mean reports them: number by number, for
drawn records that stand for a normal law.

Nothing here bounds a privacy loss: it is post-processing. Points are a public sample of the
standard normal law and of its mirror images; lengths are in deviations, and vectors in the
coordinates of the eigenvectors of the released second moments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

_SOURCE = Source("OURS", "errors of a mean between slabs whose middles are estimated")
_ROUNDS = 6
_LEAST, _LEAST_RESPONSE = 1e-3, 0.05
Point = Sequence[float]


@states(_SOURCE)
def window_error(half: Any, variance: Any, noise: Any, width: Any, number: int, bins: int) -> Any:
    """Return the mean square error of a slab's middle about the mean of all records, for a noisy
    histogram of normal records.

    g(m) is the mean of the records within ``half`` of m. A middle m + e leads to a + g'(0) e, where
    a is what the noise and the sampling of the records within add to g; so four rounds from a start
    of error s leave b s + c a / (1 - g'(0)), which is computed round by round. The start is the
    middle of the median's bin: a bin's spread, and the median's error by the noise of half of the
    bins and by sampling. The fixed point of g counts a record y within by y / (share (1 - g'(0))):
    that less y has the sampling variance below, by quadrature. Noise counts by its bin's place.
    """
    v, h, n = mp.mpf(variance), mp.mpf(half), mp.mpf(number)

    def integral(power: int, middle: Any) -> Any:
        def at(y: Any) -> Any:
            return y**power * mp.npdf(y, 0, mp.sqrt(v))

        return mp.quad(at, mp.linspace(middle - h, middle + h, 5))

    share = integral(0, 0)
    slope = mp.diff(lambda m: integral(1, m) / integral(0, m), 0)
    follows = 1 - slope
    offsets = mp.quad(lambda t: t**2, [-h, h]) / width  # sum of squared offsets of the bins
    of_noise = noise**2 * offsets / (n * share * follows) ** 2
    counted = 1 / (share * follows)
    of_sampling = (counted**2 * integral(2, 0) - 2 * counted * integral(2, 0) + v) / n
    per_count = mp.sqrt(2 * mp.pi * v) / n  # by which the median moves for a record
    start = mp.mpf(width) ** 2 / 12
    start += per_count**2 * (noise**2 * mp.mpf(bins) / 4 + n / 4)
    of_start, of_round = mp.mpf(1), mp.mpf(0)
    for _ in range(4):
        of_start, of_round = slope * of_start, slope * of_round + follows
    return of_start**2 * start + of_round**2 * (of_noise + of_sampling)


def _shrunk(square: float, reach: float) -> float:
    """Return by how much a vector of this squared length is drawn in to ``reach``."""
    return 1.0 if square <= reach**2 else reach / math.sqrt(square)


def _dot(v: Point, w: Point) -> float:
    return math.fsum(a * b for a, b in zip(v, w, strict=True))


@states(_SOURCE)
def inner_error(
    axis: Point,
    step: Point,
    variances: Point,
    leading: Sequence[Point],
    inner: tuple[float, float, float, float],
    number: float,
    points: Sequence[Point],
) -> float:
    """Return the mean square error of the mean along an axis that inner moments show.

    inner: the ball's radius, the reach r to which a record's places along the ``leading``
    directions and the constant c are drawn in, c, and the noise s of an entry. step: of the mean
    from the center. A record y counts by w = min(1, r^2 / (places^2 + c^2)) if it is in the ball:
    the estimate is E w y / E w. It follows the mean by a = E w y^2 / (v E w), per eigenvector, so
    of the step 1 / a - 1 is missing; sampling adds the variance of w y / E w - y over the number,
    and noise s over the number, c and E w.
    """
    radius, reach, constant, noise = inner
    away = _dot(step, step)
    fixed = constant**2 + math.fsum(_dot(one, step) ** 2 for one in leading)
    records = [[math.sqrt(v) * z for v, z in zip(variances, p, strict=True)] for p in points]
    weights = []
    for y in records:
        inside = _dot(y, y) + away <= radius**2
        places = math.fsum(_dot(one, y) ** 2 for one in leading) + fixed
        weights.append(_shrunk(places, reach) ** 2 if inside else 0.0)
    mean = max(math.fsum(weights) / len(points), _LEAST)
    missing, sampling = 0.0, 0.0
    for i, v in enumerate(variances):
        own = [(w / mean, y[i] ** 2) for w, y in zip(weights, records, strict=True)]
        follows = math.fsum(w * square for w, square in own) / len(points) / v
        square = math.fsum(w**2 * square for w, square in own) / len(points)
        missing += axis[i] * (1 / max(follows, _LEAST_RESPONSE) - 1) * step[i]
        sampling += axis[i] ** 2 * max(square - 2 * follows * v + v, 0.0) / number
    return missing**2 + sampling + (noise / (constant * mean * number)) ** 2


@states(_SOURCE)
def spectrum(
    moments: Point, noise: float, radius: float, reach: float, away: float, points: Sequence[Point]
) -> list[float]:
    """Return the variances of inliers, of mean 1, from the eigenvalues of noisy second moments of
    the records that a ball leaves, drawn in to ``reach``.

    The sum of squares of a symmetric matrix is that of its eigenvalues: noise of deviation s on the
    diagonal and s / sqrt(2) above it adds s^2 d + s^2 d (d - 1) / 2, and takes s^2 from the square
    of the trace over d. Deviations of eigenvalues from their mean are scaled to what is left. Then
    variances are scaled, six times, by what is shown over what drawn records of them would show.
    away: the squared distance of the mean from the center.
    """
    d, mean = len(moments), math.fsum(moments) / len(moments)
    if d == 1 or not 0 < mean < math.inf:
        return [1.0] * d
    off = [m / mean - 1 for m in moments]
    seen = math.fsum(x * x for x in off)
    of_noise = (noise / mean) ** 2 * (d + d * (d - 1) / 2 - 1)
    if seen <= of_noise:
        return [1.0] * d
    shown = [max(1 + math.sqrt(1 - of_noise / seen) * x, _LEAST) for x in off]
    variances = _scaled(shown)
    for _ in range(_ROUNDS):
        left = [0.0] * d
        for p in points:
            squares = [v * z * z for v, z in zip(variances, p, strict=True)]
            length = math.fsum(squares) + away
            if length <= radius**2:
                weight = _shrunk(length, reach) ** 2
                left = [a + weight * b for a, b in zip(left, squares, strict=True)]
        total = math.fsum(left)
        if not total > 0:
            return [1.0] * d
        parts = [max(d * one / total, _LEAST) for one in left]
        variances = [v * s / p for v, s, p in zip(variances, shown, parts, strict=True)]
        variances = [max(v, _LEAST) for v in _scaled(variances)]
    return _scaled(variances)


def _scaled(values: Point) -> list[float]:
    mean = math.fsum(values) / len(values)
    return [v / mean for v in values]


@states(_SOURCE)
def along_squares(
    own: Point,
    lost: Point,
    axes: Sequence[Point],
    errors: Point,
    apart: bool,
) -> list[float]:
    """Return the mean square errors of the estimate along each eigenvector.

    own: of the estimate, if slabs and ball were about the mean of all. lost: what of a shift of
    their middle the estimate follows. The middle of a slab, across one of the ``axes``, has these
    mean square ``errors``; away from them the middle is the ball's center. That is a mean of the
    same records, and errs as the estimate does: an own error x becomes x + lost x. A slab's middle
    errs alike, too, but where it is ``apart``, shown by other moments than the center.
    """
    squares = []
    for i, (x, part) in enumerate(zip(own, lost, strict=True)):
        inside = min(math.fsum(axis[i] ** 2 for axis in axes), 1.0)
        alike = max(part * (1 - inside) if apart else part, 0.0)
        middle = math.fsum(e * axis[i] ** 2 for axis, e in zip(axes, errors, strict=True))
        squares.append(x * (1 + alike) ** 2 + part**2 * middle)
    return squares
