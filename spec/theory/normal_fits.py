"""Normal laws with given clipped moments, the choice of the clipping radius, and bounds of a
covariance on both sides, by mpmath.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import mul
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from . import clipped_errors
from .caches import cache, lru_cache
from .chi_square import below
from .clipped_moments import clipped_spectrum, masked_spectrum
from .obligations import require
from .quadrature import integral
from .signs import symmetric

FULL = 1 - mp.mpf(10) ** -3
TINY = mp.mpf(10) ** -12
MOST = mp.mpf(1000)
_FIT = Source("OURS", "covariances from clipped moments", note="Newton's method")


@lru_cache(maxsize=64)
def length_within(d: int, share: Any) -> Any:
    """Return the length that this share of standard normal records does not exceed, to the working
    precision: by Newton's method for its square, and halves of a bracket where that leaves it.

    The share is in (0, 1). Some bits more than asked for keep rounding from the last step.
    """
    close = mp.eps
    with mp.extraprec(20):
        half, low, high = mp.mpf(d) / 2, mp.mpf(0), mp.mpf(d)
        while below(d, high) < share:
            low, high = high, 2 * high
        x = high if low else high * (1 - mp.mpf(2) / (9 * d)) ** 3
        for _ in range(_ROUNDS):
            gap = below(d, x) - share
            low, high = (x, high) if gap < 0 else (low, x)
            density = mp.exp((half - 1) * mp.log(x / 2) - x / 2 - mp.loggamma(half)) / 2
            step = gap / density
            if abs(step) <= x * close:
                break
            x = x - step if low < x - step < high else (low + high) / 2
        else:
            raise ValueError(f"no length has the share {share} in {d} dimensions")
        root = mp.sqrt(x - step)
    return +root


@lru_cache(maxsize=256)
def best_bound(d: int, n: Any, mu: Any, moves: int, outside: str, weight: Any) -> Any:
    """Return the bound d 2^(k / 8), k from -24 to 47, with the least predicted error at the
    identity.

    The release has the sensitivity sqrt(max(moves, 1 + weight^2)) bound, and includes
    ``weight`` bound times the number of records.
    """

    def error(bound: Any) -> Any:
        scale = mp.sqrt(max(mp.mpf(moves), 1 + weight**2)) * bound / (n * mu)
        of_count = scale / (weight * bound) if weight else mp.mpf(0)
        return clipped_errors.expected_error(d, n, bound, scale, of_count, outside)

    return min((d * mp.mpf(2) ** (mp.mpf(k) / 8) for k in range(-24, 48)), key=error)


@lru_cache(maxsize=256)
def best_mean_bound(d: int, n: Any, mu: Any, moves: int) -> Any:
    """Return the bound with the least predicted error for a mean of clipped records: (E
    min(r^2, bound) / n + d s^2) / a^2, s = 2 sqrt(bound) / (n mu) or half of it.
    """

    def square(bound: Any) -> Any:
        sampling = d * below(d + 2, bound) + bound * (1 - below(d, bound))
        noise = d * (4 if moves == 2 else 1) * bound / (n * mu) ** 2
        return (sampling / n + noise) / mean_response(d, bound) ** 2

    return min((d * mp.mpf(2) ** (mp.mpf(k) / 8) for k in range(-24, 48)), key=square)


@states(Source("OURS", "the mean of clipped normal records", note="by Stein's identity"))
def mean_response(d: int, bound: Any) -> Any:
    """Return d E clip(y + m) / d m at 0, which is E[min(1, r / |y|)] for |y|^2 chi-square of d + 2
    degrees.

    By Stein the derivative is E of the divergence of clip over d: inside 1, outside (d - 1) / d
    r / |y|, and E[y_1 clip(y)_1] = E[y_1^2 min(1, r / |y|)], y_1^2 weighting the law of |y|^2
    to d + 2 degrees. E[1 / |y|; |y|^2 > b] for d + 2 degrees is Gamma((d + 1) / 2) / (sqrt(2)
    Gamma((d + 2) / 2)) P(chi-square of d + 1 degrees > b).
    """
    inverse = mp.gamma(mp.mpf(d + 1) / 2) / mp.gamma(mp.mpf(d + 2) / 2) / mp.sqrt(2)
    return below(d + 2, bound) + mp.sqrt(bound) * inverse * (1 - below(d + 1, bound))


def attainable(values: Sequence[Any], floor: Any) -> list[Any]:
    """Return moments in units of the bound, raised to a floor, with a trace of at most 1 - 10^-3:
    the excess over the floor is scaled.
    """
    d = len(values)
    least = min(max(floor, TINY), FULL / (2 * d))
    above = [max(v, least) - least for v in values]
    room = min(mp.mpf(1), (FULL - d * least) / max(mp.fsum(above), mp.mpf(10) ** -300))
    return [least + v * room for v in above]


@lru_cache(maxsize=512)
def fitted(seen: tuple[int, ...], d: int, precision: int, floor: Any, outside: str) -> Any:
    """Return (variances, vectors) of the normal law whose records, clipped to the unit ball or
    masked, have these second moments.

    Moments are in 2^-precision. None where their trace is not positive.
    """
    moments = symmetric(seen, d) / mp.mpf(2) ** precision
    if mp.fsum(moments[i, i] for i in range(d)) <= 0:
        return None
    values, vectors = mp.eigsy(moments)
    wanted = attainable(list(values), min(floor, mp.mpf(1) / (4 * d)))
    return variances_of(wanted, outside), vectors


def moments_of(variances: Sequence[Any], outside: str) -> list[Any]:
    """Return the second moments of records clipped to the unit ball, or of those inside."""
    own = [mp.mpf(v) for v in variances]
    if outside == "clip":
        if len(own) == 2:
            return in_plane(own, outside)[1:]
        return clipped_spectrum(own, mp.mpf(1))
    return masked_moments(own)[1:]


def masked_moments(variances: Sequence[Any]) -> list[Any]:
    """Return the mass of the unit ball, and the second moments of the records inside."""
    if len(variances) == 2:
        return in_plane(variances, "mask")
    mass, *moments = masked_spectrum(variances, mp.mpf(1))
    return [mass, *(one / mass for one in moments)]


def in_plane(variances: Sequence[Any], outside: str) -> list[Any]:
    """Return, for two variances a, b, the mass of the unit ball (clipped: 1) and the second
    moments, by trapezoids over directions.

    In polar coordinates int_0^1 r^3 e^(-k r^2 / 2) dr = 2 (1 - e^(-k / 2) (1 + k / 2)) / k^2,
    and clipped 2 (1 - e^(-k / 2)) / k^2, k = u_1^2 / a + u_2^2 / b. Over t, u_2 / u_1 = e^t, the
    integrand is analytic, and bounded for |Im t| < pi / 4 at least: so the error falls like
    e^(-(pi^2 / 2) m) with m steps in a unit, whatever a / b is (with 4 it was up to 8e-9, with 7
    none is left), and like e^-|t - log sqrt(b / a)|. Nodes are multiples of a step, so that
    directions are computed once. All terms are positive, so floats keep 12 digits: the least
    accurate is the mass of a masked k, whose relative error is some 10^-16 / k.
    """
    a, b = map(float, variances)
    in_first, in_second = 1 / a, 1 / b
    middle = round(math.log(b / a) / 2 / _STEP)
    nodes = [_direction(j) for j in range(middle - _SIDE, middle + _SIDE + 1)]
    shares, lengths = [], []
    for first, second, *_ in nodes:
        k = in_first * first + in_second * second
        beyond = -math.expm1(-k / 2)
        shares.append(beyond / k)
        if outside == "mask":
            beyond -= math.exp(-k / 2) * k / 2
        lengths.append(beyond / k / k)
    _, _, angles, firsts, seconds = zip(*nodes, strict=True)
    share = 2 * _STEP / math.pi / math.sqrt(a) / math.sqrt(b)
    moments = [2 * share * math.fsum(map(mul, one, lengths)) for one in (firsts, seconds)]
    if outside == "clip":
        return [mp.mpf(1), *map(mp.mpf, moments)]
    mass = share * math.fsum(map(mul, angles, shares))
    return [mp.mpf(mass), *(mp.mpf(one / mass) for one in moments)]


_STEP, _SIDE = 1 / 7, 218


@cache
def _direction(j: int) -> tuple[float, ...]:
    """Return u_1^2 and u_2^2 where u_2 / u_1 = e^t, t = j steps; the derivative of the angle in t,
    and its products with the squares.
    """
    t = j * _STEP
    first, second = 1 / (1 + math.exp(2 * t)), 1 / (1 + math.exp(-2 * t))
    angle = first * math.exp(t)
    return first, second, angle, angle * first, angle * second


def variances_of(wanted: Sequence[Any], outside: str) -> list[Any]:
    """Return the variances with these moments.

    Those of masked records are at most MOST, beyond which moments hardly grow: they are the
    likeliest ones up to it, b.wanted / 2 + log int_ball exp(-sum_i b_i y_i^2 / 2) dy being
    least over b = 1 / variance.
    """
    return _clipped_fit(wanted) if outside == "clip" else _masked_fit(wanted)


def _clipped_fit(wanted: Sequence[Any]) -> list[Any]:
    """Return the variances by Newton's method in logarithms, in which
    ``clipped_moments.potential`` is convex; its gradient is the excess of the moments.
    """

    def missed(logs: Sequence[Any]) -> list[Any]:
        moments = moments_of([mp.exp(one) for one in logs], "clip")
        return [m - w for m, w in zip(moments, wanted, strict=True)]

    logs = [mp.log(v) - mp.log1p(-mp.fsum(wanted)) for v in wanted]
    now = missed(logs)
    for _ in range(_ROUNDS):
        if max(abs(m) / w for m, w in zip(now, wanted, strict=True)) < _CLOSE:
            return [mp.exp(one) for one in logs]
        step = _newton(missed, logs, now, [mp.mpf(1)] * len(logs), range(len(logs)))
        share, slope = min(mp.mpf(1), 3 / max(map(abs, step))), mp.fdot(step, now)
        while True:
            tried = [one + share * s for one, s in zip(logs, step, strict=True)]
            later = missed(tried)
            if mp.fdot(step, later) <= abs(slope) * mp.mpf("0.3"):
                break
            share /= 2
        logs, now = tried, later
    raise ValueError(f"no variances have the clipped moments {wanted}")


def _masked_fit(wanted: Sequence[Any]) -> list[Any]:
    """Return the variances by Newton's method over b >= 1 / MOST, in which the likelihood is
    convex; its gradient is half of the moments' shortfall.
    """

    def at(b: Sequence[Any]) -> tuple[Any, list[Any]]:
        mass, *moments = masked_moments([1 / one for one in b])
        value = mp.fdot(b, wanted) / 2 + mp.log(mass) - mp.fsum(map(mp.log, b)) / 2
        return value, [(w - m) / 2 for m, w in zip(moments, wanted, strict=True)]

    b = [max(1 / w, 1 / MOST) for w in wanted]
    value, now = at(b)
    for _ in range(_ROUNDS):
        free = [i for i, one in enumerate(b) if one > 1 / MOST or now[i] < 0]
        if all(2 * abs(now[i]) / wanted[i] < _CLOSE for i in free):
            return [MOST if one == 1 / MOST else 1 / one for one in b]
        step, share = _newton(lambda own: at(own)[1], b, now, b, free), mp.mpf(1)
        while True:
            moved = [min(max(x + share * s, x / 50), 50 * x) for x, s in zip(b, step, strict=True)]
            tried = [max(one, 1 / MOST) for one in moved]
            later, slopes = at(tried)
            gained = mp.fsum(g * (y - x) for g, x, y in zip(now, b, tried, strict=True))
            if later <= value + gained / 10**4 + abs(value) / 10**14:
                break
            share /= 2
        b, value, now = tried, later, slopes
    raise ValueError(f"no variances have the moments {wanted} inside")


_ROUNDS, _CLOSE = 100, mp.mpf(10) ** -10


def _newton(
    gradient: Callable[[Sequence[Any]], list[Any]],
    at: Sequence[Any],
    now: Sequence[Any],
    sizes: Sequence[Any],
    free: Sequence[int],
) -> list[Any]:
    """Return the step along free coordinates that would make the gradient 0, by its differences at
    10^-7 of their sizes.
    """
    slopes = mp.zeros(len(free))
    for j, i in enumerate(free):
        by = sizes[i] / 10**7
        later = gradient([one + by * (k == i) for k, one in enumerate(at)])
        for row, k in enumerate(free):
            slopes[row, j] = (later[k] - now[k]) * sizes[k] * 10**7
    solution = mp.lu_solve(slopes, mp.matrix([-now[i] * sizes[i] for i in free]))
    step = [mp.mpf(0)] * len(at)
    for i, one in zip(free, solution, strict=True):
        step[i] = one * sizes[i]
    return step


def sandwich(
    low: Any, high: Any, d: int, n: Any, noise: Any, beta: Any, of_number: Any = 0
) -> tuple[Any, Any]:
    """Return bounds on the eigenvalues of a covariance, from the least and the largest of noisy
    second moments of n normal records.

    Z = (sum x x^T + W) / c for a released number c, and Y = W / c. With probability 1 -
    beta / 3 the symmetric noise Y, of deviation s on its diagonal and at most s / sqrt(2) above
    it, has a norm of at most s (sqrt(2 d) + sqrt(2 ln(6 / beta))): E|Y| <= s sqrt(2 d) (Chevet,
    Slepian: Y is compared with <g, u> sqrt(2)), and |Y| is s-Lipschitz in the standard normal
    numbers behind it; both signs, beta / 6 each. With probability 1 - beta / 3 singular values
    of white records over sqrt(n) are within 1 -+ e, e = sqrt(d / n) + sqrt(2 ln(6 / beta) / n)
    (Gordon; Davidson and Szarek), so second moments within 1 -+ (2 e + e^2) of the covariance,
    as forms. c - n is normal of deviation ``of_number`` c, so with probability 1 -
    beta / 3 c / n is from 1 / (1 + m) to 1 / (1 - m), m = of_number sqrt(2 ln(6 / beta)); and
    (1/n) sum x x^T = (Z - Y) c / n. Clipping only makes second moments smaller, which leaves
    the lower bound.
    """
    level = 2 * mp.log(6 / beta)
    far = noise * (mp.sqrt(2 * d) + mp.sqrt(level))
    e = mp.sqrt(mp.mpf(d) / n) + mp.sqrt(level / n)
    off, more = 2 * e + e**2, of_number * mp.sqrt(level)
    least = max(mp.mpf(0), (low - far) / ((1 + off) * (1 + more)))
    if off >= 1 or more >= 1:
        return least, mp.inf
    return least, (high + far) / ((1 - off) * (1 - more))


# --- obligations --------------------------------------------------------------------------------


@states(Source("OURS", "the mean of clipped normal records", note="by Stein's identity"))
def obligation_mean_response(claimed: Callable[[int, Any], Any] = mean_response) -> int:
    """Check the response to 8 digits: in one dimension against the difference quotient of E
    clip(y + m) by quadrature; in any against E[y_1^2 min(1, r / |y|)] by quadrature over the
    chi-square law of |y|^2.
    """
    cases = 0
    for bound in (mp.mpf(1) / 4, mp.mpf(1), mp.mpf(6)):
        radius, small = mp.sqrt(bound), mp.mpf(10) ** -4
        for d in (1, 2, 5, 20):

            def term(t: Any, d: int = d, b: Any = bound) -> Any:
                weight = (
                    mp.exp((mp.mpf(d) / 2 - 1) * mp.log(t / 2) - t / 2)
                    / 2
                    / mp.gamma(mp.mpf(d) / 2)
                )
                return t / d * min(mp.mpf(1), mp.sqrt(b / t)) * weight

            expected = mp.quad(
                term, sorted({mp.mpf(0), bound / 50, bound, mp.mpf(4 * d), mp.mpf(90 + 6 * d)})
            )
            factor = claimed(d, bound)
            require(abs(factor / expected - 1) < 1e-8, f"{d}, {bound}: {factor}, not {expected}")
            cases += 1

        def clipped(m: Any, r: Any = radius) -> Any:
            inner = mp.quad(lambda y: (y + m) * mp.npdf(y), [-r - m, r - m])
            return inner + r * (mp.ncdf(m - r) - mp.ncdf(-m - r))

        slope = (clipped(small) - clipped(-small)) / (2 * small)
        require(abs(claimed(1, bound) / slope - 1) < 1e-6, f"1, {bound}: {slope}")
        cases += 1
    return cases


@states(_FIT)
def obligation_variances(claimed: Callable[..., list[Any]] = variances_of) -> int:
    """Check to 9 digits that the fitted law has the moments that were asked for, also with
    variances beyond the ball; for masked records a variance is MOST only where the moment is
    still below what was asked for.
    """
    cases = 0
    worlds = {
        "clip": ([0.2], [0.9], [0.3, 0.1], [0.7, 0.2], [0.998, 1e-9], [0.2, 1e-12]),
        "mask": ([0.2], [0.9], [0.2, 0.1], [0.2, 1e-9], [0.75, 0.2], [0.4, 0.4], [0.998, 1e-9]),
    }
    for outside, asked in worlds.items():
        for one in asked:
            wanted = [mp.mpf(v) for v in one]
            variances = claimed(wanted, outside)
            moments = moments_of(variances, outside)
            for a, b, own in zip(moments, wanted, variances, strict=True):
                held = outside == "mask" and own == MOST and a < b
                require(held or abs(a / b - 1) < 1e-9, f"{outside}, {one}: {moments}")
                cases += 1
    return cases


@states(_FIT)
def obligation_in_plane(claimed: Callable[..., list[Any]] = in_plane) -> int:
    """Check to 11 digits that the trapezoids agree with the contour integrals of
    theory/clipped_moments.py, and for equal variances up to ``MOST`` with the chi-square laws
    of lengths.
    """
    cases = 0

    def compare(pair: Sequence[Any], expected: dict[str, list[Any]]) -> None:
        nonlocal cases
        for outside, values in expected.items():
            for a, b in zip(claimed(pair, outside), values, strict=True):
                require(abs(a / b - 1) < 1e-11, f"{pair}, {outside}: {a}, not {b}")
                cases += 1

    for pair in ((0.3, 0.3), (2, 0.1), (0.05, 5), ("1e-12", 1), (1, "1e-4"), (1000, "1e-15")):
        own = [mp.mpf(v) for v in pair]
        mass, *inside = masked_spectrum(own, mp.mpf(1))
        clipped = [mp.mpf(1), *clipped_spectrum(own, mp.mpf(1))]
        compare(own, {"clip": clipped, "mask": [mass, *(v / mass for v in inside)]})
    for one in map(mp.mpf, (0.001, 0.3, 30, MOST)):
        mass, kept = below(2, 1 / one), one * below(4, 1 / one)
        beyond = (1 - mass) / 2
        clipped, masked = [mp.mpf(1), *[kept + beyond] * 2], [mass, *[kept / mass] * 2]
        compare([one, one], {"clip": clipped, "mask": masked})
    return cases


@states(Source("OURS", "a covariance between two bounds", note="Davidson and Szarek; Chevet"))
def obligation_sandwich(claimed: Callable[..., tuple[Any, Any]] = sandwich) -> int:
    """Check in one dimension, where all laws are known, that both bounds together fail with
    probability at most beta: Z is a chi-square of n degrees over n, plus noise, by quadrature.
    """
    cases = 0
    for n in (20, 200, 2000):
        for noise in (mp.mpf(0), mp.mpf(1) / 50, mp.mpf(1)):
            for beta in (mp.mpf(1) / 100, mp.mpf(1) / 5):
                low, high = (_where(claimed, k, n, noise, beta) for k in (0, 1))
                failing = _beyond(low, n, noise) + 1 - _beyond(high, n, noise)
                case = f"{n}, {noise}, {beta}: they fail with probability {failing}"
                require(failing <= beta, case)
                cases += 1
    return cases


def _where(claimed: Callable[..., tuple[Any, Any]], k: int, n: int, noise: Any, beta: Any) -> Any:
    """Return the second moment at which a bound is 1; bounds are linear in it far out, or
    infinite.
    """
    one, two = (claimed(mp.mpf(z), mp.mpf(z), 1, n, noise, beta)[k] for z in (100, 200))
    if two == mp.inf:
        return -mp.inf
    return 100 + 100 * (1 - one) / (two - one)


def _beyond(z: Any, n: int, noise: Any) -> Any:
    """Return P(chi-square / n + noise > z)."""
    if z == -mp.inf:
        return mp.mpf(1)

    def given(g: Any) -> Any:
        least = max(n * (z - noise * g), mp.mpf(0))
        return mp.gammainc(mp.mpf(n) / 2, least / 2, mp.inf, regularized=True)

    if not noise:
        return given(mp.mpf(0))
    width = mp.sqrt(mp.mpf(2) / n) / noise  # width of the rise, about g = (z - 1) / noise
    rise = [(z - 1) / noise + k * width for k in range(-12, 13, 3)]
    ends = {*mp.linspace(-9, 9, 7), *(min(max(g, mp.mpf(-9)), mp.mpf(9)) for g in rise)}
    return integral(lambda g: given(g) * mp.npdf(g), sorted(ends))
