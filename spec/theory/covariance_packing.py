"""Packings of covariances between I and kappa I: how many can be distinguished, for lower bounds
in kappa.

An estimate S is within alpha of Sigma if |Sigma^-1/2 S Sigma^-1/2 - I|_F <= alpha < 1. Then the
affine-invariant distance of S and Sigma, |log(Sigma^-1/2 S Sigma^-1/2)|_F, is at most
-ln(1 - alpha): an eigenvalue 1 + e has |ln(1 + e)| <= |e| (-ln(1 - alpha)) / alpha. So of
covariances that are more than -2 ln(1 - alpha) apart, S is within alpha of at most one.

Scales are diagonal matrices of powers of r. Lattices have x = (u, w) with u ~ N(0, k I), w = B
u + N(0, I), B of entries in h / sqrt(k) times integers. For C = sqrt(k) (B - B') of singular
values c_i the relative eigenvalues come in pairs l, 1 / l with l + 1 / l = 2 + c_i^2, ln l =
2 asinh(c_i / 2), and the distance is sqrt(8 sum asinh(c_i / 2)^2). asinh(sqrt(y) / 2)^2 is
concave in y and 0 at 0, so the sum is at least asinh(|C|_F / 2)^2, and |C|_F is at least h.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations, islice, product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from .group_events import PACKING, changed, changed_gaussian
from .laws import real
from .many_hypotheses import records_needed
from .obligations import require

RATIO = Source(
    "KLSU19",
    "packing of covariances between I and kappa I",
    note="built; ln of their number grows as d^2 ln kappa / 8",
)
_MARGIN = mp.mpf(10) ** -6


def reach(alpha: Any) -> Any:
    """Compute the distance between covariances from which on no estimate is within alpha of two of
    them.
    """
    return -2 * mp.log(1 - mp.mpf(alpha))


@states(RATIO)
def scales(d: int, kappa: Any, alpha: Any) -> int:
    """Count diagonal matrices of powers of r, 1 to kappa, ln r a little above ``reach``."""
    steps = mp.log(mp.mpf(kappa)) / (reach(alpha) * (1 + _MARGIN))
    each: int = int(mp.floor(steps)) + 1
    total: int = each**d
    return total


def lattice_step(alpha: Any) -> Any:
    """Compute the least h, a little above, of sqrt(8) asinh(h / 2) = ``reach``."""
    return 2 * mp.sinh(reach(alpha) / mp.sqrt(8)) * (1 + _MARGIN)


def _half_width(d: int, kappa: Any, alpha: Any) -> tuple[int, Any]:
    """Compute (m, k): entries of B are h / sqrt(k) times -m, ..., m, of operator norm 1 at most.

    With |B| <= 1 the largest eigenvalue is at most 2 k + 1 and the inverse of the least at most
    2 + 1 / k, so that the ratio is at most (2 k + 1)^2 / k = 4 k + 4 + 1 / k; kappa for
    k = (kappa - 4 + sqrt(kappa^2 - 8 kappa)) / 8.
    """
    kappa = mp.mpf(kappa)
    if d < 2 or kappa <= 9:
        return 0, mp.mpf(1)
    k = (kappa - 4 + mp.sqrt(kappa**2 - 8 * kappa)) / 8
    entries = (d // 2) * (d - d // 2)
    return int(mp.floor(mp.sqrt(k / entries) / lattice_step(alpha))), k


@states(RATIO)
def lattices(d: int, kappa: Any, alpha: Any) -> int:
    """Count the B: (2 m + 1)^(floor(d / 2) ceil(d / 2)), whose logarithm is d^2 ln(kappa) / 8 to
    first order.
    """
    m, _ = _half_width(d, kappa, alpha)
    return int((2 * m + 1) ** ((d // 2) * (d - d // 2)))


@states(RATIO)
def count(d: int, kappa: Any, alpha: Any) -> int:
    """Count the covariances of the larger packing."""
    return max(scales(d, kappa, alpha), lattices(d, kappa, alpha))


@states(RATIO, PACKING)
def records_for_ratio(
    d: int, kappa: Any, alpha: Any, beta: Fraction, adjacency: Adjacency, **claim: Any
) -> int:
    """Compute the number of records needed to be within alpha (relative, below 1) of every
    covariance between I and kappa I, except with probability beta.

    For mu-GDP (``mu``) it is at least sqrt(2 ln count) / mu to first order; for
    (epsilon, delta)-DP the smaller of ln(count) / epsilon and ln(1 / delta) / epsilon.
    """
    if "mu" in claim:
        return records_needed(
            lambda n: changed_gaussian(claim["mu"], n), count(d, kappa, alpha), adjacency, beta
        )
    epsilon, delta = claim["epsilon"], claim["delta"]
    return records_needed(
        lambda n: changed(epsilon, delta, n), count(d, kappa, alpha), adjacency, beta
    )


# --- built --------------------------------------------------------------------------------------


@states(RATIO)
def built(d: int, kappa: Any, alpha: Any) -> Iterator[Any]:
    """Make the matrices of the lattice packing, scaled so that the least eigenvalue is at least
    1.
    """
    m, k = _half_width(d, kappa, alpha)
    step = lattice_step(alpha) / mp.sqrt(k)
    a, b = d // 2, d - d // 2
    for numbers in product(range(-m, m + 1), repeat=a * b):
        factor = mp.diag([mp.sqrt(k)] * a + [mp.mpf(1)] * b)
        for place, number in enumerate(numbers):
            factor[a + place // a, place % a] = step * number * mp.sqrt(k)
        yield factor * factor.T * (2 + 1 / k)


@states(RATIO)
def built_scales(d: int, kappa: Any, alpha: Any) -> Iterator[Any]:
    """Make those of the packing by scales."""
    step = reach(alpha) * (1 + _MARGIN)
    levels = int(mp.floor(mp.log(mp.mpf(kappa)) / step)) + 1
    for powers in product(range(levels), repeat=d):
        yield mp.diag([mp.exp(step * power) for power in powers])


def apart(left: Any, right: Any) -> Any:
    """Compute the affine-invariant distance."""
    inverse = mp.inverse(mp.cholesky(left))
    values = mp.eigsy(inverse * right * inverse.T, eigvals_only=True)
    return mp.sqrt(mp.fsum(mp.log(value) ** 2 for value in values))


# --- obligations --------------------------------------------------------------------------------

_SIZES = ((2, 40, "1/4"), (2, 400, "1/2"), (3, 60, "1/4"), (4, 20, "1/4"))


def _gap(d: int, kappa: int, alpha: Fraction) -> Any:
    return reach(real(alpha))


@states(RATIO)
def obligation_apart(claimed: Callable[[int, int, Fraction], Any] = _gap) -> int:
    """Check matrices of both packings, up to 40 of each: between I and kappa I, as many as
    counted, and pairwise more than ``claimed`` apart, some of them by less than a tenth more.
    """
    cases = 0
    for (d, kappa, text), (make, number) in product(
        _SIZES, ((built, lattices), (built_scales, scales))
    ):
        alpha = Fraction(text)
        packing = list(islice(make(d, kappa, real(alpha)), 40))
        total = number(d, kappa, real(alpha))
        require(total == sum(1 for _ in make(d, kappa, real(alpha))) > 1, f"{d}, {kappa}: {total}")
        for matrix in packing:
            values = mp.eigsy(matrix, eigvals_only=True)
            case = f"{d}, {kappa}: eigenvalues from {min(values)} to {max(values)}"
            require(1 - mp.mpf("1e-12") <= min(values) <= max(values) <= kappa, case)
        near = min(apart(a, b) for a, b in islice(combinations(packing, 2), 150))
        least = claimed(d, kappa, alpha)
        require(least < near < least * mp.mpf("1.1"), f"{d}, {kappa}, {text}: {near}, {least}")
        cases += 1
    return cases


@states(RATIO)
def obligation_one_at_most(claimed: Callable[[Any], Any] = reach) -> int:
    """Check the worst estimates between diag(1, 1) and scaled versions: an estimate within alpha
    of one is further than alpha from the other, and in one direction nothing smaller than
    ``claimed`` suffices (geometric means of the two).
    """
    cases = 0
    for text in ("1/10", "1/2", "9/10"):
        alpha = real(Fraction(text))
        gap = claimed(alpha)
        for other in ((gap, 0), (gap / mp.sqrt(2),) * 2, (gap / mp.sqrt(2), -gap / mp.sqrt(2))):
            far = [mp.exp(power) for power in other]
            for share in (mp.mpf(k) / 20 for k in range(21)):
                middle = [mp.exp(share * power) for power in other]
                own = mp.sqrt(mp.fsum((s - 1) ** 2 for s in middle))
                last = mp.sqrt(mp.fsum((s / t - 1) ** 2 for s, t in zip(middle, far, strict=True)))
                within = max(own, last) <= alpha * (1 - mp.mpf("1e-9"))
                require(not within, f"alpha {text}: {middle} is within of both, {own} and {last}")
                cases += 1
        shrunk = 1 - alpha  # |log| is largest at 1 - alpha
        require(abs(2 * mp.log(1 / shrunk) - gap) < mp.mpf("1e-9"), f"alpha {text}: {gap}")
    return cases


@states(RATIO, PACKING)
def obligation_growth(claimed: Callable[..., int] = records_for_ratio) -> int:
    """Check the records needed: for mu-GDP they grow as sqrt(ln kappa), and in proportion to d;
    for a pure claim as d^2 ln kappa / epsilon; and with a delta no further than
    ln(1 / (delta beta)) / epsilon.
    """
    cases, beta, alpha = 0, Fraction(1, 3), mp.mpf(1) / 4
    replace = Adjacency.REPLACE
    for mu, d in ((mp.mpf(1) / 100, 8), (mp.mpf(1) / 10, 16)):
        needed = [claimed(d, mp.mpf(10) ** k, alpha, beta, replace, mu=mu) for k in (10, 40)]
        grown = mp.mpf(needed[1]) / needed[0]
        require(mp.mpf("1.8") < grown < mp.mpf("2.6"), f"mu = {mu}, d = {d}: {needed}")
        most = mp.sqrt(2 * d**2 / mp.mpf(8) * mp.log(10) * 40) / mu
        require(
            most / 2 < needed[1] < most * mp.mpf("1.2"), f"mu = {mu}, d = {d}: {needed}, {most}"
        )
        cases += 1
    for d in (8, 16):
        kappa = mp.mpf(10) ** 20
        pure, approximate = (
            claimed(d, kappa, alpha, beta, replace, epsilon=Fraction(1, 10), delta=delta)
            for delta in (Fraction(0), Fraction(1, 10**6))
        )
        whole = 10 * mp.mpf(d) ** 2 / 8 * mp.log(kappa)
        require(whole / 2 < pure < whole * 2, f"d = {d}: {pure}, {whole}")
        require(100 < approximate < 160, f"d = {d}: {approximate}")
        cases += 1
    return cases
