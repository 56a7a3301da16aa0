"""Normal records truncated to a set of mass a: the effect on mean and covariance, the accuracy of
their estimates, and one round of whitening.

Units: the records are y = Sigma^(-1/2) (x - mean), standard normal before they are truncated;
lengths are Sigma^(-1/2)'s. a is the set's mass, ln(1 / a) = L. Nothing here depends on the
dimension unless it says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise, product
from typing import Any, NamedTuple

import mpmath as mp

from dpverify.privacy import Source, SourceStatus, states

from .chi_square import below
from .clipped_moments import masked_spectrum
from .laws import real
from .obligations import require
from .preconditioning import certified

_LIMITS = Source(
    "ZZ25",
    "Proposition C.5, covariance of a truncated normal law",
    SourceStatus.CHANGED_CONSTANTS,
    note="(pi / 6) a^2 from below; 2 sqrt(L) + 2 L from the identity",
)
_SAMPLES = Source(
    "ZZ25",
    "Proposition C.4, samples of a truncated normal law",
    SourceStatus.CHANGED_CONSTANTS,
    note="second moments of convex symmetric sets",
)
_ROUND = Source(
    "ZZ25",
    "Lemma C.2, a round of whitening truncated records",
    SourceStatus.CHANGED_CONSTANTS,
    note="by the certificate of a round and Proposition C.5",
)
_BIAS = Source("ZZ25", "Proposition B.6, bias of a truncated mean", SourceStatus.CHANGED_CONSTANTS)


class Limits(NamedTuple):
    """Bounds for a law truncated to mass a: the move of the mean; the least variance of a
    direction; |E y y^T - I|, Frobenius.
    """

    shift: Any
    least: Any
    moments: Any


@states(_LIMITS, _BIAS)
def limits(share: Any) -> Limits:
    """Give the limits for mass a: phi(Phi^-1(a)) / a, at most sqrt(2 L); (pi / 6) a^2; 2 sqrt(L) +
    2 L.

    Shift: among sets of mass a the half-space has the largest mean along its normal
    (Neyman and Pearson). Least: a direction's density is at most 1 / sqrt(2 pi), so that inside
    P(|u y - c| <= t) <= 2 t / (a sqrt(2 pi)), and E (u y - c)^2 is at least the integral of 1 -
    2 sqrt(t) / (a sqrt(2 pi)) up to pi a^2 / 2, a third of that. Moments: for a symmetric U
    with |U|_F = 1 and s < 1/2, s E (y U y - tr U) <= ln E[exp(s (y U y - tr U)); inside] + L <=
    s^2 / (1 - 2 s) + L (Jensen; the normal law's cumulants), least at s with 2 sqrt(L) + 2 L;
    likewise for -U. QED
    """
    share = mp.mpf(share)
    level = -mp.log(share)
    quantile = -mp.sqrt(2) * mp.erfinv(1 - 2 * share)
    shift = mp.npdf(quantile) / share if share < 1 else mp.mpf(0)
    return Limits(shift, mp.pi / 6 * share**2, 2 * mp.sqrt(level) + 2 * level)


Piece = tuple[Any, Any]


def _line(pieces: tuple[Piece, ...]) -> tuple[Any, Any, Any]:
    """Compute mass, mean and second moment of a standard normal number in a union of intervals."""
    mass, first, second = mp.mpf(0), mp.mpf(0), mp.mpf(0)
    for a, b in pieces:
        own = mp.ncdf(b) - mp.ncdf(a)
        mass, first = mass + own, first + mp.npdf(a) - mp.npdf(b)
        edges = [mp.mpf(0) if mp.isinf(x) else x * mp.npdf(x) for x in (a, b)]
        second += own + edges[0] - edges[1]
    return mass, first / mass, second / mass


def _unions() -> Iterator[tuple[Piece, ...]]:
    """Yield half-lines, intervals, what is outside of them."""
    for x in map(mp.mpf, (-2, 0, 1, 3)):
        yield ((x, mp.inf),)
    for a, b in ((-0.02, 0.02), (-0.5, 0.5), (-2, 2), (0.3, 0.5), (2, 2.5)):
        yield ((mp.mpf(a), mp.mpf(b)),)
    for x in map(mp.mpf, ("0.2", 1, 3)):
        yield ((-mp.inf, -x), (x, mp.inf))
    yield ((mp.mpf(-1), mp.mpf(-0.5)), (mp.mpf(1), mp.mpf(2)))


@states(_LIMITS)
def obligation_limits(claimed: Callable[[Any], Limits] = limits) -> int:
    """Check the limits on half-lines, intervals and unions of them (times any space), on balls and
    on the outside of balls, in up to 30 dimensions.

    Half-lines attain the shift, short intervals the variance, to 1%, and some set comes to
    within a factor of 3 of the moments.
    """
    cases, nearest = 0, [mp.mpf(0)] * 3
    for pieces in _unions():
        share, mean, second = _line(pieces)
        at = claimed(share)
        case = f"{pieces}: {share}, {mean}, {second}; {at}"
        variance, off = second - mean**2, abs(second - 1)
        require(abs(mean) <= at.shift * (1 + mp.mpf("1e-9")), case)
        require(at.least <= variance, case)
        require(off <= at.moments, case)
        ratios = (abs(mean) / at.shift, at.least / variance, off / at.moments)
        nearest, cases = [max(pair) for pair in zip(nearest, ratios, strict=True)], cases + 1
    for d, scale, outside in product((2, 10, 30), ("0.3", 1, "1.5", 2), (False, True)):
        square = mp.mpf(scale) * d
        inner, grown = below(d, square), below(d + 2, square)
        share, one = (1 - inner, 1 - grown) if outside else (inner, grown)
        if share < mp.mpf(10) ** -12:
            continue
        off, at = mp.sqrt(d) * abs(one / share - 1), claimed(share)
        require(off <= at.moments, f"ball, {d}, {scale}, {outside}: {off}, {at}")
        require(at.least <= one / share, f"ball, {d}, {scale}, {outside}: {one / share}, {at}")
        nearest[2], cases = max(nearest[2], off / at.moments), cases + 1
    ends = (1 - mp.mpf("1e-9"), mp.mpf("0.99"), mp.mpf(1) / 3)
    require(all(a > b for a, b in zip(nearest, ends, strict=True)), f"never near: {nearest}")
    return cases


# --- samples ------------------------------------------------------------------------------------


@states(_SAMPLES)
def longest(d: int, n: int, share: Any, beta: Any) -> Any:
    """Give sqrt(d + 2 sqrt(d t) + 2 t), t = ln(n / (a beta)): none of n truncated records is
    longer, but with probability beta. An event has at most 1 / a times its mass inside; then by a
    union and ``joint.normal_length``."""
    t = mp.log(n / (mp.mpf(share) * beta))
    return mp.sqrt(d + 2 * mp.sqrt(d * t) + 2 * t)


@states(_SAMPLES)
def moment_error(d: int, n: int, share: Any, beta: Any) -> Any:
    """Give the eta with (1 - eta) M <= mean of x x^T <= (1 + eta) M, M = E x x^T inside, except
    with probability beta, for sets that are convex and symmetric.

    It is 2 (sqrt(32 K^2 t / n) + 2 K t / n), K = 6 / (pi a^2), t = d ln 9 + ln(2 / beta). For
    z = u x over the root of u M u: ln E e^(s z) <= K s^2 / 2, for its second derivative is the
    variance of z under a law with the density exp(-y^2 / 2 + linear) on a convex set, at most
    that without the set (Brascamp and Lieb), and M >= Sigma / K. So P(|z| > t) <=
    2 e^(-t^2 / (2 K)), E z^(2 k) <= 2 k! (2 K)^k, and by Bernstein the mean of z^2 is off by
    half of eta with probability at most 2 e^-t. A net of 9^d directions, at each of which it is
    not, gives twice that for all. QED
    """
    k, t = 6 / (mp.pi * mp.mpf(share) ** 2), d * mp.log(9) + mp.log(2 / mp.mpf(beta))
    return 2 * (mp.sqrt(32 * k**2 * t / n) + 2 * k * t / n)


@states(_SAMPLES)
def obligation_longest(claimed: Callable[..., Any] = longest) -> int:
    """Check for records outside of a ball of mass 1 - a, the worst case, that 1 -
    P(|y| <= ``claimed``)^n is at most beta, and at half of the length above beta.
    """
    cases = 0
    for d, n, share, beta in product((1, 3, 20), (1, 100, 10**5), ("0.5", "0.01"), ("0.1", "1e-6")):
        length, a, b = claimed(d, n, share, mp.mpf(beta)), mp.mpf(share), mp.mpf(beta)
        beyond = [(1 - below(d, (part * length) ** 2)) / a for part in (1, mp.mpf(1) / 2)]
        missed = [-mp.expm1(n * mp.log1p(-min(one, 1 - mp.mpf("1e-12")))) for one in beyond]
        require(missed[0] <= b, f"{d}, {n}, {share}, {beta}: {missed}")
        require(missed[1] > b, f"{d}, {n}, {share}, {beta}: {missed}")
        cases += 1
    return cases


def even_moment(k: int, factor: Any) -> Any:
    """Give 2 k! (2 K)^k."""
    return 2 * mp.factorial(k) * (2 * factor) ** k


@states(_SAMPLES)
def obligation_moment_error(claimed: Callable[[int, Any], Any] = even_moment) -> int:
    """Check the premises of ``moment_error`` for numbers in intervals about 0: moments of z up to
    the 16th are at most ``claimed``, and its cumulant function is below K s^2 / 2.

    A quarter of the moments' bound does not hold for wide intervals. And at a = 1 eta falls as
    1 / sqrt(n).
    """
    cases, nearest = 0, mp.mpf(0)
    for r in map(mp.mpf, ("0.05", "0.7", "1.5", 6)):
        share, _, second = _line(((-r, r),))
        factor = 6 / (mp.pi * share**2)
        for k in range(1, 9):
            own = mp.quad(lambda y, k=k: y ** (2 * k) * mp.npdf(y), [-r, 0, r]) / share / second**k
            require(own <= claimed(k, factor), f"{r}, {k}: {own}, {claimed(k, factor)}")
            nearest, cases = max(nearest, own / claimed(k, factor)), cases + 1
        for s in map(mp.mpf, ("0.3", 1, 3)):
            tilt = s / mp.sqrt(second)
            own = tilt**2 / 2 + mp.log((mp.ncdf(r - tilt) - mp.ncdf(-r - tilt)) / share)
            require(own <= factor * s**2 / 2, f"{r}, {s}: {own}")
            cases += 1
    require(nearest > mp.mpf(1) / 8, f"moments are never near: {nearest}")
    wide = [moment_error(5, n, 1, mp.mpf("0.05")) for n in (10**8, 4 * 10**8)]
    require(abs(wide[0] / wide[1] - 2) < mp.mpf("0.01"), f"{wide}")
    return cases + 1


# --- a round of whitening -----------------------------------------------------------------------


@states(_ROUND)
def whitened(least: Any, share: Any, eta: Any, nu: Any) -> tuple[Any, Any]:
    """Give (low, high): low I <= A Sigma A^T <= high I after A = U^(-1/2), U the noisy second
    moments of truncated records with eta + nu added, where l I <= Sigma <= I.

    The set is a ball about the mean of mass a. Inside, M has c l I <= c Sigma <= M <= Sigma <= I, c
    = (pi / 6) a^2 (``limits``; Brascamp and Lieb), so A M A^T is from l' = ``certified`` (c l) to
    1, and A Sigma A^T from l' to 1 / c. QED Truncation costs the factor 1 / c once, in the end.
    """
    kept = limits(share).least
    return certified(kept * least, eta, nu), 1 / kept


def rounds(kappa: Any, share: Any, eta: Any, nu: Any, goal: Any) -> int:
    """Count how many of them bring l from 1 / kappa to ``goal`` of the fixed point (1 - eta - 2 nu)
    / (1 + eta)."""
    least, count = limits(share).least / mp.mpf(kappa), 0
    while least < goal * (1 - eta - 2 * nu) / (1 + eta):
        least, count = certified(least, eta, nu), count + 1
    return count


_TURNS = (Fraction(0), Fraction(1, 8), Fraction(1, 4), Fraction(3, 8), Fraction(1, 2))


@states(_ROUND)
def obligation_whitened(claimed: Callable[..., tuple[Any, Any]] = whitened) -> int:
    """Check that the covariance after a round is within ``claimed``, in two columns and for balls
    that contain few or nearly all of the records, with second moments off by eta and noise of
    norm nu along several axes.

    Without sampling and noise the lower end is nearly attained for balls that contain all. The
    rounds grow with log(kappa).
    """
    cases = 0
    with mp.workdps(20):
        for bound, small in product((8, 1, "0.05"), ("1e-3", "0.1", "1")):
            spectrum, nearest = (mp.mpf(1), mp.mpf(small)), mp.mpf(0)
            share, *parts = masked_spectrum(spectrum, mp.mpf(bound))
            inside = [part / share for part in parts]
            for (eta, nu), turn, other in product(
                ((0, 0), ("0.2", 0), ("0.1", "0.1")), _TURNS, _TURNS[::2]
            ):
                e, v = mp.mpf(eta), mp.mpf(nu)
                low, high = claimed(spectrum[1], share, e, v)
                values = _after(spectrum, inside, e * _mirror(turn), v * _mirror(other), e + v)
                case = f"{small}, {bound}, {eta}, {nu}, {turn}, {other}: {values}, {low}, {high}"
                require(low <= values[0] * (1 + mp.mpf("1e-12")) and values[1] <= high, case)
                nearest, cases = max(nearest, low / values[0]), cases + 1
            attained = bound != 8 or small == "1" or nearest > mp.mpf("0.99")
            require(attained, f"{small}: the lower end is never near: {nearest}")
        counts = [
            rounds(mp.mpf(10) ** k, mp.mpf(1) / 2, mp.mpf("0.1"), mp.mpf("0.05"), mp.mpf("0.9"))
            for k in (2, 4, 6, 8)
        ]
        steps = {b - a for a, b in pairwise(counts)}
        require(max(steps) <= 4 and min(steps) >= 1, f"rounds: {counts}")
    return cases


def _mirror(turn: Fraction) -> Any:
    """Build a reflection at this part of a turn: a symmetric matrix with the eigenvalues 1 and
    -1.
    """
    angle = 2 * mp.pi * real(turn)
    return mp.matrix([[mp.cos(angle), mp.sin(angle)], [mp.sin(angle), -mp.cos(angle)]])


def _after(spectrum: Any, inside: Any, sampled: Any, noise: Any, more: Any) -> tuple[Any, Any]:
    """Compute the eigenvalues of A Sigma A^T."""
    root = mp.diag([mp.sqrt(one) for one in inside])
    own = root * (mp.eye(2) + sampled) * root + noise + more * mp.eye(2)
    inverse = own**-1
    turned = mp.diag([mp.sqrt(one) for one in spectrum])
    values = mp.eigsy(turned * inverse * turned, eigvals_only=True)
    return min(values), max(values)
