"""Spec of ``product_distribution``: noisy sums of bits as signs, then of weighted bits in an
orthant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from .theory import orthants, shrinking, vectors
from .theory.caches import cache
from .theory.gaussian_laws import UNIT, RoundedGaussianLaw, one_unit
from .theory.laws import IntegerLaw, Outcome, PointLaw, TranscriptLaw, real
from .theory.obligations import Departure, neighbors, require

Parameters = Mapping[str, Any]
Record = Fraction | tuple[Fraction, ...]
RADIUS = 1 << 20
WEIGHT = RADIUS // 4
DEPARTURES = (
    Departure(
        "KLSU19, private product distributions",
        "two stages on all records in place of log d rounds on disjoint blocks",
        "rounds on blocks of n / log d records lose more than their smaller radii gain, at "
        "every n and d that were tried",
    ),
    Departure(
        "KLSU19, sensitivity of clipped means",
        "sqrt(2) radii in place of two",
        "after bits are turned so that ones are rare, all records are vectors of one orthant",
    ),
)
_STAGES = Source("OURS", "product distributions in two stages", note="exact Gaussian DP")
_GAUSSIAN = Source("DRS22", "composition of GDP", note="adaptive")
_FAR, _NOISES = mp.mpf(7) / 2, mp.mpf(3) / 2


def adds(parameters: Parameters) -> bool:
    """Return whether the number of records is private."""
    return parameters["adjacency"] is Adjacency.ADD_REMOVE


def shares(parameters: Parameters) -> tuple[Fraction, Fraction]:
    """Return the shares of mu^2: coarse, fine."""
    share = Fraction(parameters["coarse_share"])
    return share, 1 - share


def noise(parameters: Parameters, share: Fraction) -> Fraction:
    """Return the noise of one sum, in radii: the root rounded up to 2^-40."""
    moves = 1 + Fraction(WEIGHT, RADIUS) ** 2 if adds(parameters) else Fraction(2)
    return Fraction(parameters["noise_multiplier"]) * shrinking.root_up(moves / share)


def sign(parameters: Parameters) -> int:
    """Return the size of a bit's contribution in the coarse stage, up or down."""
    return orthants.sign_of(RADIUS, parameters["d"], parameters["adjacency"])


def plain_noise(parameters: Parameters, share: Fraction) -> Fraction:
    """Return the noise of a probability read from signs, times the number of records."""
    return noise(parameters, share) * RADIUS / sign(parameters) / 2


def at_least(parameters: Parameters) -> int:
    """Return the least number of records: by default four times the noise of half a sum of signs,
    at most 2^60.
    """
    if parameters["at_least"] is not None:
        return int(parameters["at_least"])
    least = 4 * plain_noise(parameters, shares(parameters)[0])
    return min(max(1, math.ceil(least)), 1 << 60)


def octave(count: Fraction) -> int:
    """Return 4 log2 of a count of at least 1, rounded down."""
    k = 4 * (math.floor(count).bit_length() - 1)
    while count**4 >= Fraction(2) ** (k + 1):
        k += 1
    return k


def weights_after(parameters: Parameters, outcome: Outcome, n: int | None) -> tuple[int, ...]:
    """Return the second stage's weights; none where signs are better."""
    d, precision = parameters["d"], parameters["precision"]
    share = shares(parameters)[0]
    one = noise(parameters, share) * RADIUS / UNIT
    count = Fraction(n) if n is not None else outcome[d] * one / WEIGHT
    count = max(min(count, Fraction(10**18)), Fraction(at_least(parameters)))
    estimates = [(1 + v * one / sign(parameters) / count) / 2 for v in outcome[:d]]
    rough = [round(min(max(p, Fraction(-2)), Fraction(3)) * 2**precision) for p in estimates]
    own = real(plain_noise(parameters, share)) / mp.mpf(2) ** (mp.mpf(octave(count)) / 4)
    shown = [mp.mpf(p) / 2**precision for p in rough]
    rare = [1 - p if p > 0.5 else p for p in shown]
    least = [max(q, mp.mpf(1) / d, _NOISES * own) for q in rare]
    cautious = [max(q, own) / f for q, f in zip(rare, least, strict=True)]
    spread = mp.fsum(c / f for c, f in zip(cautious, least, strict=True))
    cap = max(mp.fsum(cautious) + _FAR * mp.sqrt(spread), 1 / min(least))
    plain = mp.mpf(1) / 4 if adds(parameters) else mp.mpf(1) / 2
    if cap >= plain * mp.fsum(1 / f for f in least):
        return (0,) * int(d)
    sizes = [min(max(int(mp.floor(RADIUS / mp.sqrt(f * cap))), 1), RADIUS) for f in least]
    return tuple(-w if p > 0.5 else w for w, p in zip(sizes, shown, strict=True))


def rows_of(records: Sequence[Record]) -> list[tuple[Fraction, ...]]:
    """Return the records as tuples."""
    return [record if isinstance(record, tuple) else (record,) for record in records]


def value(
    parameters: Parameters, weights: Sequence[int], records: Sequence[Record]
) -> vectors.Vector:
    """Return the exact integers that a stage adds noise to, before they are divided by its
    scale.
    """
    weight = WEIGHT if adds(parameters) else 0
    adjacency = parameters["adjacency"]
    return orthants.bit_sums(rows_of(records), weights, RADIUS, adjacency, weight)


def noisy_sums(
    parameters: Parameters, weights: Sequence[int], records: Sequence[Record], share: Fraction
) -> RoundedGaussianLaw:
    """Return the law of a stage with these weights."""
    scale = noise(parameters, share) * RADIUS
    return RoundedGaussianLaw(one_unit(value(parameters, weights, records), scale), UNIT)


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the squared sensitivity of each stage, in one unit."""
    weight = WEIGHT if adds(parameters) else 0
    moved = orthants.moved_squared(RADIUS, weight, parameters["adjacency"])
    width = parameters["d"] + bool(weight)
    stated = {} if adds(parameters) else {"count": 0}
    for name, share in zip(("coarse", "fine"), shares(parameters), strict=True):
        scale = noise(parameters, share) * RADIUS
        stated[name] = vectors.one_unit_sensitivity(moved, scale, width, int(UNIT))
    return stated


@states(_STAGES, _GAUSSIAN)
def law(parameters: Parameters, records: Sequence[Record]) -> TranscriptLaw:
    """Return the law of the number if it is public, the sums of signs, then of the bits weighted
    by what the transcript gives.
    """
    public, d = not adds(parameters), parameters["d"]
    number = len(records)
    n = number if public else None
    coarse, fine = shares(parameters)

    @cache
    def noisy(weights: tuple[int, ...], share: Fraction) -> IntegerLaw:
        return noisy_sums(parameters, weights, records, share)

    stages: list[Any] = [("count", lambda prefix: PointLaw((number,)))] if public else []
    stages.append(("coarse", lambda prefix: noisy((0,) * d, coarse)))
    stages.append(("fine", lambda prefix: noisy(weights_after(parameters, prefix[-1], n), fine)))
    nothing: tuple[Outcome, ...] = ((0,) * (d + (not public)),)
    return TranscriptLaw(tuple(stages), (((0,), *nothing) if public else nothing))


# --- error --------------------------------------------------------------------------------------


@states(_STAGES)
def noise_error(parameters: Parameters, n: int) -> Any:
    """Return the root mean square length of the noise of both stages, combined, where bits count
    as signs in both.
    """
    first, second = (real(plain_noise(parameters, share)) for share in shares(parameters))
    return mp.sqrt(parameters["d"]) * first * second / mp.hypot(first, second) / n


@states(_STAGES, Source("BDKU20", "tail of a normal length", note="shrinking.clip_radius"))
def error_bound(parameters: Parameters, n: int, beta: Fraction) -> Any:
    """Return a bound on the length of that noise over n records; it fails with probability at most
    beta.
    """
    d = parameters["d"]
    length = shrinking.clip_radius(0, d, beta) + mp.sqrt(d) / real(UNIT)
    return noise_error(parameters, n) / mp.sqrt(d) * length


@states(Source("OURS", "lower bound for product distributions, by fingerprints, for GDP"))
def lower_bound(parameters: Parameters, n: int) -> Any:
    """Return a lower bound on the root mean squared length of the error, at some product law, of
    every mu-GDP estimate of all probabilities.

    Let p be uniform on [0, 1]^d, M the estimate, alpha^2 = E|M - p|^2, Z_i = <M - p, x_i - p>.
    (a) E[sum_i (x_ij - p_j) M_j | p] = p (1 - p) g'(p), g = E[M_j | p]; by parts its mean is
    E[(2 p - 1) g] = 1/6 + E[(2 p - 1) (M - p)]: together at least d / 6 - alpha sqrt(d / 3).
    (b) Without record i Z has mean 0 and E Z^2 = E sum (M - p)^2 p (1 - p) <= alpha^2 / 4. (c)
    as in theory/covariance_tracing.py: E Z_i <= sqrt(e^(mu^2) - 1) alpha / 2. Under add-remove
    the same bounds the larger of the errors at n - 1 and n records; here the one at n is taken
    with n + 1.
    """
    d, mu = parameters["d"], 1 / real(Fraction(parameters["noise_multiplier"]))
    return least_error(d, n + adds(parameters), mu)


def least_error(d: int, n: int, mu: Any) -> Any:
    """Return (d / 6) / (n sqrt(e^(mu^2) - 1) / 2 + sqrt(d / 3))."""
    return mp.mpf(d) / 6 / (n * mp.sqrt(mp.expm1(mu**2)) / 2 + mp.sqrt(mp.mpf(d) / 3))


# --- obligations --------------------------------------------------------------------------------

_BITS = tuple(tuple(map(Fraction, one)) for one in (("0", "0"), ("1", "0"), ("0", "1"), ("1", "1")))


def _parameters(adjacency: Adjacency, **changes: Any) -> dict[str, Any]:
    return {
        "adjacency": adjacency,
        "noise_multiplier": Fraction(3, 2),
        "d": 2,
        "coarse_share": Fraction(1, 4),
        "at_least": 1,
        "precision": 20,
        **changes,
    }


def _outcomes(parameters: Parameters) -> list[Outcome]:
    """Return coarse sums of 10^4 records: all bits as likely as not; rare ones; one rare, one
    common; nothing.
    """
    one = noise(parameters, shares(parameters)[0]) * RADIUS / UNIT
    outcomes = []
    for first, second in ((0, 0), (-99, -99), (-90, 95)):
        sums = [round(10**4 * sign(parameters) * share / 100 / one) for share in (first, second)]
        counted = [round(10**4 * WEIGHT / one)] if adds(parameters) else []
        outcomes.append((*sums, *counted))
    return [*outcomes, (0,) * (2 + adds(parameters))]


@states(_STAGES, _GAUSSIAN)
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check that the squares of the exact mu of both stages sum to at most
    (claimed / multiplier)^2, on all neighbors of at most 2 records and whatever the first stage
    released.

    That is up to the grid's 2^-16. The sum is also at most the code's sensitivities in one
    unit, and for some pair within 1/100 of the bound.
    """
    cases = 0
    for adjacency in Adjacency:
        parameters = _parameters(adjacency)
        stated = sum(sensitivities(parameters).values()) / UNIT**2
        square, reached = (claimed / parameters["noise_multiplier"]) ** 2, Fraction(0)
        n = None if adds(parameters) else 10**4
        for outcome, pair in product(_outcomes(parameters), neighbors(_BITS, 2, adjacency)):
            rows = ((0,) * parameters["d"], weights_after(parameters, outcome, n))
            largest = Fraction(0)
            for weights, share in zip(rows, shares(parameters), strict=True):
                ours, theirs = (noisy_sums(parameters, weights, one, share) for one in pair)
                largest += ours.mu_squared(theirs)
            require(
                largest <= stated <= square * (1 + Fraction(1, 2**16)),
                f"{pair} after {outcome}: mu^2 = {float(largest)}, stated {float(stated)}",
            )
            reached, cases = max(reached, largest), cases + 1
        require(reached * Fraction(101, 100) >= square, f"{adjacency}: only {float(reached)}")
    return cases


def _by_parts(moment: Callable[[int], Any], power: int) -> Any:
    """Return E[(2 p - 1) g] for g = p^power."""
    return 2 * moment(power + 1) - moment(power)


@states(_STAGES)
def obligation_fingerprints(claimed: Callable[..., Any] = _by_parts) -> int:
    """Check that E[p (1 - p) g'(p)] is ``claimed``, for g = p^k up to k = 12 and p uniform on
    [0, 1], on exact rationals.
    """

    def moment(k: int) -> Fraction:
        return Fraction(1, k + 1)

    for power in range(13):
        slope = power * (moment(power) - moment(power + 1)) if power else Fraction(0)
        mean = claimed(moment, power)
        require(mean == slope, f"p^{power}: {mean}, not {slope}")
    return 13


@states(_STAGES)
def obligation_lower_bound_is_below_error(within: int = 12) -> int:
    """Check that the lower bound is below the error of the noise and of sampling at 1/2, within a
    factor of 12 where noise is most of it.
    """
    cases = 0
    for adjacency, d, n in product(Adjacency, (2, 20, 400), (100, 10_000)):
        parameters = _parameters(adjacency, d=d)
        error = mp.sqrt(noise_error(parameters, n) ** 2 + mp.mpf(d) / (4 * n))
        least = lower_bound(parameters, n)
        require(0 < least <= error, f"{d}, {n}: {least} > {error}")
        if n * 4 < d**2:
            require(error <= within * least, f"{d}, {n}: {error} > {within} times {least}")
        cases += 1
    return cases
