"""The bin that a noisy histogram names as the fullest, exactly, and the accuracy of its shares:
ZZ25's Proposition B.9 (KV18's Lemma 2.3).

n things fall into bins independently; bins that contain some are released with discrete Laplace
noise (masses in proportion to a^|z|) where that reaches a threshold; the largest of these is
named, of equal ones the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import comb, factorial, prod
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, SourceStatus, states

from .caches import cache
from .laws import real
from .obligations import require
from .pairs import overtakes, sinks

_NAMED = Source(
    "ZZ25",
    "Proposition B.9, the bin that a noisy histogram names",
    note="without the second case: empty bins are never named",
)
_SHARES = Source(
    "ZZ25",
    "Proposition B.9, shares of a noisy histogram",
    SourceStatus.CHANGED_CONSTANTS,
    note="a union over at most n bins",
)
Shares = Sequence[Fraction]


@states(_NAMED)
def rarely_named(things: int, share: Fraction) -> Fraction:
    """Give n p_k, a bound on the probability that bin k is named, however many bins there are, for
    it has to contain one of n things.
    """
    return things * share


@states(_SHARES)
def things_needed(eta: Any, scale: Any, threshold: int, beta: Any) -> int:
    """Compute the number n of things from which on every bin's noisy share
    (0 where it is not released) is within eta of its probability, except with probability beta.

    Half of eta is for sampling: a bin of ordered ones is a difference of two values of the
    distribution function, whose largest error exceeds eta / 4 with probability at most
    2 exp(-n eta^2 / 8) (Dvoretzky, Kiefer, Wolfowitz, Massart), at most beta / 2. Half is for
    noise: of at most n bins none has noise of z = scale ln(4 n / beta) or more, except with
    probability beta / 2, and one that is not released has less than threshold + z things. QED
    """
    sampling = 8 * mp.log(4 / mp.mpf(beta)) / mp.mpf(eta) ** 2
    n = int(mp.ceil(sampling))
    while 2 * (threshold + scale * mp.log(4 * n / mp.mpf(beta))) > n * eta:
        n += max(1, n // 64)
    return n


# --- exactly ------------------------------------------------------------------------------------


def _counts(things: int, bins: int) -> Iterator[tuple[int, ...]]:
    if bins == 1:
        yield (things,)
        return
    for first in range(things + 1):
        for rest in _counts(things - first, bins - 1):
            yield (first, *rest)


def _mass(counts: Sequence[int], shares: Shares) -> Fraction:
    orders = factorial(sum(counts)) // prod(map(factorial, counts))
    return orders * prod((p**c for p, c in zip(shares, counts, strict=True)), start=Fraction(1))


def _below(gap: int, a: Any) -> Any:
    """Compute P(Z < gap)."""
    return a ** (1 - gap) / (1 + a) if gap <= 0 else 1 - a**gap / (1 + a)


def named(things: int, shares: Shares, a: Any, threshold: int, *, empty: bool = False) -> list[Any]:
    """Compute the probability that each bin is named; what is missing to 1 is that of none. empty:
    bins that hold nothing are released too."""
    chances = [mp.mpf(0)] * len(shares)
    below, at = cache(lambda gap: _below(gap, a)), cache(lambda gap: (1 - a) / (1 + a) * a**gap)
    for counts in _counts(things, len(shares)):
        mass = real(_mass(counts, shares))
        if not mass:
            continue
        there = [k for k, c in enumerate(counts) if c or empty]
        for k, value in product(there, range(threshold, things + 60)):
            others = (below(value - counts[j] + (j > k)) for j in there if j != k)
            chances[k] += mass * at(abs(value - counts[k])) * mp.fprod(others)
    return chances


# --- obligations --------------------------------------------------------------------------------

_WORLDS: tuple[tuple[Fraction, ...], ...] = (
    (Fraction(1, 10), Fraction(9, 10)),
    (Fraction(1, 50), Fraction(1, 5), Fraction(39, 50)),
    (Fraction(1, 3), Fraction(1, 3), Fraction(1, 3)),
    (Fraction(0), Fraction(1, 4), Fraction(3, 4)),
)


@states(_NAMED)
def obligation_rarely_named(claimed: Callable[..., Any] = rarely_named) -> int:
    """Check, for 1 to 5 things in up to three bins, two scales and thresholds, that each bin is
    named with probability at most ``claimed``, and for some more than half of it.

    The fullest bin is not named with probability at most the sum of ``pairs.overtakes`` and
    ``pairs.sinks``. If empty bins were released too, one of probability 0 would be named.
    """
    cases = 0
    for shares in _WORLDS:
        nearest = mp.mpf(0)
        for things, scale, threshold in product((1, 3, 5), (1, 2), (1, 3)):
            a = mp.exp(-1 / mp.mpf(scale))
            chances = named(things, shares, a, threshold)
            require(mp.fsum(chances) <= 1 + mp.mpf("1e-12"), f"{shares}, {things}: {chances}")
            for share, one in zip(shares, chances, strict=True):
                most = real(Fraction(claimed(things, share)))
                require(one <= most, f"{shares}, {things}, {scale}, {threshold}: {one}, {most}")
                nearest = max(nearest, one / most) if most else nearest
            fullest = max(range(len(shares)), key=lambda k: shares[k])
            lost = sinks(things, real(shares[fullest]), threshold, scale) + mp.fsum(
                overtakes(things, real(shares[fullest]), real(p), scale)
                for k, p in enumerate(shares)
                if k != fullest
            )
            require(
                1 - chances[fullest] <= lost, f"{shares}, {things}: {1 - chances[fullest]}, {lost}"
            )
            cases += 1
        require(nearest > mp.mpf(1) / 2, f"{shares}: never near: {nearest}")
    require(named(3, _WORLDS[3], mp.exp(-1), 1, empty=True)[0] > mp.mpf("0.01"), "empty bins")
    return cases


@states(_SHARES)
def obligation_shares(claimed: Callable[..., int] = things_needed) -> int:
    """Check in two bins, by binomial sums and noise tails, that with that many things a share is
    off by more than eta with probability at most beta; with a tenth of them with more, for
    some.
    """
    cases, short = 0, mp.mpf(0)
    with mp.workdps(20):
        for share, scale, beta in product(
            (Fraction(3, 5), Fraction(19, 20)), (2, 20), ("0.1", "0.001")
        ):
            eta, threshold = mp.mpf("0.5"), 4 * scale
            n = claimed(eta, scale, threshold, mp.mpf(beta))
            off = [_off(k, share, eta, mp.exp(-1 / mp.mpf(scale)), threshold) for k in (n, n // 10)]
            require(off[0] <= mp.mpf(beta), f"{share}, {scale}, {beta}, n = {n}: {off[0]}")
            short, cases = max(short, off[1] / mp.mpf(beta)), cases + 1
    require(short > 1, f"a tenth would do: {short}")
    return cases


def _off(things: int, share: Fraction, eta: Any, a: Any, threshold: int) -> Any:
    """Compute P(some share is off by more than eta)."""
    right = mp.mpf(0)
    for i in range(things + 1):
        mass = comb(things, i) * real(share) ** i * real(1 - share) ** (things - i)
        if mass < mp.mpf(10) ** -15:
            continue
        both = [_near(i, things, real(share), eta, a, threshold)]
        both.append(_near(things - i, things, real(1 - share), eta, a, threshold))
        right += mass * both[0] * both[1]
    return 1 - right


def _near(count: int, things: int, share: Any, eta: Any, a: Any, threshold: int) -> Any:
    """Compute the probability that a bin's share is within eta."""
    if not count:
        return mp.mpf(1 if share <= eta else 0)
    low, high = (int(mp.ceil(things * (share - eta))), int(mp.floor(things * (share + eta))))
    low = max(low, threshold)
    inside = max(mp.mpf(0), _below(high + 1 - count, a) - _below(low - count, a))
    return inside + (_below(threshold - count, a) if share <= eta else 0)
