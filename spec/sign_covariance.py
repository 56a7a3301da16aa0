"""Spec of ``sign_covariance``: noisy second moments of signs, each after the map that the earlier
ones lead to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from .theory import outer_products, shrinking, sign_readings, signs, vectors
from .theory.caches import cache
from .theory.gaussian_laws import UNIT, RoundedGaussianLaw, one_unit
from .theory.laws import IntegerLaw, Outcome, PointLaw, TranscriptLaw, real
from .theory.obligations import Departure, neighbors, require
from .theory.queries import of_each
from .theory.sign_readings import RADIUS, Parameters

Record = Fraction | tuple[Fraction, ...]

DEPARTURES = (
    Departure(
        "T87, the estimator",
        "so many rounds of noisy second moments of signs in place of a fixed point; each "
        "inverts phi, where the published iteration multiplies",
        "a round costs budget: one that inverts phi does the work of many",
    ),
    Departure(
        "KT91, the Cauchy M-estimator of location and scatter",
        "records get one more coordinate, a public constant: the same estimator, as signs",
        "one query and one sensitivity for both",
    ),
)
_ROUNDS = Source("OURS", "private signs in rounds", note="exact Gaussian DP")
_GAUSSIAN = Source("DRS22", "composition of GDP", note="adaptive")


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the squared sensitivity of each stage, in one unit: the same for every map."""
    adjacency, d = parameters["adjacency"], sign_readings.size(parameters)
    moved = outer_products.moved_squared(RADIUS, 0, "sphere", adjacency)
    stated = {"count": 0} if adjacency is Adjacency.REPLACE else {}
    for t in range(parameters["rounds"]):
        stated[f"round {t + 1}"] = vectors.one_unit_sensitivity(
            moved, sign_readings.scale(parameters, t), d * (d + 1) // 2, int(UNIT)
        )
    return stated


def value(parameters: Parameters, public: signs.Row, records: Sequence[Record]) -> vectors.Vector:
    """Return the exact integers that a round adds noise to, before they are divided by its
    scale.
    """
    units, k = sign_readings.cells(parameters), sign_readings.size(parameters)

    def in_cells(record: Record) -> tuple[Fraction, ...]:
        row = record if isinstance(record, tuple) else (record,)
        return tuple(x / u for x, u in zip(row, units, strict=True))

    rows = of_each(in_cells, records)
    center = tuple(round(Fraction(c) / u) for c, u in zip(parameters["center"], units, strict=True))
    matrix = tuple(public[i * k : (i + 1) * k] for i in range(k))
    where = vectors.Map(center, RADIUS, Fraction(1), matrix)
    return outer_products.second_moments(
        rows, where, "sphere", constant=sign_readings.constant(parameters)
    )


@states(_ROUNDS, _GAUSSIAN)
def law(parameters: Parameters, records: Sequence[Record]) -> TranscriptLaw:
    """Return the law of the number if it is public, then of each round's second moments plus
    noise, after the transcript's map.
    """
    public = parameters["adjacency"] is Adjacency.REPLACE
    number = len(records)
    n = number if public else None
    exact = cache(lambda matrix: value(parameters, matrix, records))

    @cache
    def a_round(t: int, prefix: tuple[Outcome, ...]) -> IntegerLaw:
        matrix = sign_readings.map_after(parameters, prefix[public:], n)
        return RoundedGaussianLaw(one_unit(exact(matrix), sign_readings.scale(parameters, t)), UNIT)

    stages: list[Any] = [("count", lambda prefix: PointLaw((number,)))] if public else []
    stages += [
        (f"round {t + 1}", lambda prefix, t=t: a_round(t, prefix))
        for t in range(parameters["rounds"])
    ]
    k = sign_readings.size(parameters)
    nothing: list[Outcome] = [(0,)] if public else []
    nothing += [(0,) * (k * (k + 1) // 2)] * (parameters["rounds"] - 1)
    return TranscriptLaw(tuple(stages), tuple(nothing))


# --- error --------------------------------------------------------------------------------------


@states(_ROUNDS, Source("OURS", "error of a shape from noisy signs", note="first order"))
def noise_error(parameters: Parameters, n: int) -> Any:
    """Return the root mean squared Frobenius norm of the noise's part of the shape, where the
    shape is the identity.

    phi at (1, ..., 1) + e, k numbers, is 1/k + (e_i - mean) / (k + 2) to first order, from E
    u_i^2 u_j^2 = 1 / (k (k + 2)), i /= j, and E u_i^4 = 3 / (k (k + 2)). So noise of deviation
    s / n on the diagonal of M, and s / (sqrt(2) n) above it, becomes (k + 2) times that of the
    shape, without its trace: (k + 2) s / n sqrt(d (d + 1) / 2 - 1) over the d columns.
    """
    d, k = len(parameters["center"]), sign_readings.size(parameters)
    s = real(sign_readings.deviation(parameters, parameters["rounds"] - 1))
    return (k + 2) * s / n * mp.sqrt(mp.mpf(d * (d + 1)) / 2 - 1)


@states(_ROUNDS, Source("T87", "asymptotic variance of signs' shape"))
def expected_error(parameters: Parameters, n: int) -> Any:
    """Return the root mean squared error with the sampling error, 2 (k + 2) / k (d (d + 1) / 2 -
    1) / n in its square.

    Signs: u u^T has the covariance of (k + 2) / k times that of g g^T over k + 2, without its
    trace; so the shape's entries above the diagonal vary by (k + 2) / (k n), those on it by
    twice that, whatever the elliptical law.
    """
    d, k = len(parameters["center"]), sign_readings.size(parameters)
    sampling = mp.mpf(k + 2) / k * (d * (d + 1) - 2) / n
    return mp.sqrt(noise_error(parameters, n) ** 2 + sampling)


@states(_ROUNDS, Source("BDKU20", "tail of a squared normal length", note="shrinking.clip_radius"))
def error_bound(parameters: Parameters, n: int, beta: Fraction) -> Any:
    """Return a bound on the Frobenius norm of the noise in the last round's mean of u u^T over n
    records; it fails with probability at most beta.

    With D = k (k + 1) / 2 numbers: those on the diagonal have the deviation s, those above it
    169 / 239 s and count twice, 2 (169 / 239)^2 = 57122 / 57121 of s^2. So the norm is at most
    the root of that times the length of D normal numbers, and rounding adds less than 2^-40 s
    sqrt(D).
    """
    k = sign_readings.size(parameters)
    width = k * (k + 1) // 2
    s = real(sign_readings.deviation(parameters, parameters["rounds"] - 1))
    length = mp.sqrt(mp.mpf(57122) / 57121) * shrinking.clip_radius(0, width, beta)
    return s / n * (length + mp.sqrt(width) / real(UNIT))


@states(Source("GL95", "information of normal records about their shape"))
def lower_bound(parameters: Parameters, n: int) -> Any:
    """Return a lower bound on the root mean squared error, at the identity, of every unbiased
    estimate of a normal law's shape, private or not.

    Of records g with the covariance I + e, e without a trace, the information about e is <e,
    e> / 2 each (log det has no first order): each of the d (d + 1) / 2 - 1 orthonormal
    directions costs 2 / n.
    """
    d = len(parameters["center"])
    return mp.sqrt(mp.mpf(d * (d + 1) - 2) / n)


# --- obligations --------------------------------------------------------------------------------

_UNIVERSE = tuple(
    (Fraction(x), Fraction(y)) for x, y in ((0, 0), (1, 0), (0, -2), (3, 4), (-(10**30), 10**30))
)


def _parameters(adjacency: Adjacency, **changes: Any) -> dict[str, Any]:
    return {
        "adjacency": adjacency,
        "noise_multiplier": Fraction(3, 2),
        "center": (0.0, 0.0),
        "cell": Fraction(1, 64),
        "scale": None,
        "rounds": 2,
        "shares": None,
        "at_least": 1,
        "precision": 30,
        **changes,
    }


def _prefixes(parameters: Parameters) -> Iterator[tuple[Outcome, ...]]:
    """Yield outcomes of rounds that found nothing; even ones; very uneven ones, along an axis and
    across.
    """
    k, public = sign_readings.size(parameters), parameters["adjacency"] is Adjacency.REPLACE
    for diagonal, across in ((0, 0), (1, 0), (1, 1), (99, -9)):
        outcomes = []
        for t in range(parameters["rounds"] - 1):
            one = int(200 / k / sign_readings.deviation(parameters, t) * UNIT)
            own = [one * diagonal, *[one] * (k - 1)]
            outcomes.append((*own, *([across * one // 2] * (k * (k - 1) // 2))))
        yield (*([(200,)] if public else []), *outcomes)


@states(_ROUNDS, _GAUSSIAN)
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check that the squares of the exact mu of all rounds sum to at most
    (claimed / multiplier)^2, on all neighbors of at most 2 records and wherever the first
    rounds lead.

    That is up to the grid's 2^-16. The sum is also at most the code's sensitivities in one
    unit, and for some pair within 1/40 of the bound (no two signs are quite orthogonal after
    every map).
    """
    cases = 0
    worlds: tuple[dict[str, Any], ...] = (
        {},
        {"rounds": 1},
        {"scale": Fraction(1)},
        {"rounds": 3},
    )
    for adjacency, changes in product(Adjacency, worlds):
        parameters = _parameters(adjacency, **changes)
        stated = sum(sensitivities(parameters).values()) / UNIT**2
        square = (claimed / parameters["noise_multiplier"]) ** 2
        reached = Fraction(0)
        for prefix in _prefixes(parameters):
            largest, count = _largest_square(parameters, prefix)
            case = f"{parameters} after {prefix}: mu^2 = {float(largest)}, stated {float(stated)}"
            require(largest <= stated <= square * (1 + Fraction(1, 2**16)), case)
            reached, cases = max(reached, largest), cases + count
        require(reached * Fraction(41, 40) >= square, f"{parameters}: only {float(reached)}")
    return cases


def _largest_square(parameters: Parameters, prefix: tuple[Outcome, ...]) -> tuple[Fraction, int]:
    """Return the largest sum of the rounds' squared mu over all neighbors after a prefix, and the
    number of pairs.
    """
    public = parameters["adjacency"] is Adjacency.REPLACE
    known: dict[Any, list[Any]] = {}
    largest, count = Fraction(0), 0
    for pair in neighbors(_UNIVERSE, 2, parameters["adjacency"]):
        for records in pair:
            if records not in known:
                stages = law(parameters, records).stages[public:]
                known[records] = [
                    stage(prefix[: t + public]) for t, (_, stage) in enumerate(stages)
                ]
        ours, theirs = (known[records] for records in pair)
        both = zip(ours, theirs, strict=True)
        largest = max(largest, sum((a.mu_squared(b) for a, b in both), Fraction(0)))
        count += 1
    return largest, count


def obligation_lower_bound_is_below_error(within: Fraction = Fraction(3, 2)) -> int:
    """Check that the expected error is above the lower bound and at most 3/2 times it where n is
    large.
    """
    cases = 0
    for adjacency, (d, n) in product(Adjacency, ((2, 4000), (10, 40_000), (50, 10**6))):
        parameters = _parameters(adjacency, center=(0.0,) * d, rounds=8)
        least, error = lower_bound(parameters, n), expected_error(parameters, n)
        require(least <= error <= real(within) * least, f"{parameters}, {n}: {least}, {error}")
        cases += 1
    return cases
