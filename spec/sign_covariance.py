"""Spec of ``sign_covariance``: noisy second moments of signs, each after the map that the earlier ones lead to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from .theory import outer_products, shrinking, signs, vectors
from .theory.gaussian_laws import UNIT, RoundedGaussianLaw, one_unit
from .theory.laws import IntegerLaw, Outcome, PointLaw, TranscriptLaw, real
from .theory.obligations import Departure, neighbors, require

Parameters = Mapping[str, Any]
Record = Fraction | tuple[Fraction, ...]

RADIUS = 1 << 17
DEPARTURES = (
    Departure(
        "T87, the estimator",
        "so many rounds of noisy second moments of signs in place of a fixed point; each inverts phi, where the "
        "published iteration multiplies",
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


def size(parameters: Parameters) -> int:
    """Coordinates that are mapped: the columns, and the constant if there is one."""
    return len(parameters["center"]) + (parameters["scale"] is not None)


def moves(parameters: Parameters) -> int:
    """The squared sensitivity of sums of u u^T, |u| <= 1."""
    return 2 if parameters["adjacency"] is Adjacency.REPLACE else 1


def share(parameters: Parameters, t: int) -> Fraction:
    """Of mu^2 in round t, from 0: half for the last one."""
    rounds, shares = parameters["rounds"], parameters["shares"]
    if shares is not None:
        return Fraction(shares[t])
    if rounds == 1:
        return Fraction(1)
    return Fraction(1, 2) if t == rounds - 1 else Fraction(1, 2 * (rounds - 1))


def deviation(parameters: Parameters, t: int) -> Fraction:
    """Of a diagonal entry's noise, in records: multiplier sqrt(moves / share), the root rounded up to 2^-40."""
    root = shrinking.root_up(moves(parameters) / share(parameters, t))
    return Fraction(parameters["noise_multiplier"]) * root


def scale(parameters: Parameters, t: int) -> Fraction:
    """The same in the units of the value."""
    return deviation(parameters, t) * outer_products.DIAGONAL * RADIUS**2


def at_least(parameters: Parameters) -> int:
    """The least number of records: sqrt(8 k^3 moves / share) times the multiplier, rounded up, at most 2^60: then no count
    suffices, for counts are at most 10^18."""
    if parameters["at_least"] is not None:
        return int(parameters["at_least"])
    square = Fraction(8 * moves(parameters) * size(parameters) ** 3) / share(parameters, 0)
    least = math.ceil(Fraction(parameters["noise_multiplier"]) * shrinking.root_up(square))
    return min(least, 1 << 60)


def cell(parameters: Parameters) -> Fraction:
    """The largest power of two not above ``cell``."""
    return power(floor_log2(Fraction(parameters["cell"])))


def constant(parameters: Parameters) -> int:
    """The scale in cells; 0 without one."""
    h = parameters["scale"]
    return 0 if h is None else round(Fraction(h) / cell(parameters))


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """By stage, squared, in one unit: the same for every map."""
    adjacency, d = parameters["adjacency"], size(parameters)
    moved = outer_products.moved_squared(RADIUS, 0, "sphere", adjacency)
    stated = {"count": 0} if adjacency is Adjacency.REPLACE else {}
    for t in range(parameters["rounds"]):
        stated[f"round {t + 1}"] = vectors.one_unit_sensitivity(
            moved, scale(parameters, t), d * (d + 1) // 2, int(UNIT)
        )
    return stated


# --- which map follows --------------------------------------------------------------------------


def counted(parameters: Parameters, first: Outcome, n: int | None) -> Fraction:
    """The public number, or the first released trace in records, at most 10^18 either way."""
    if n is not None:
        return Fraction(n)
    trace = sum(first[: size(parameters)]) * deviation(parameters, 0) / UNIT
    return min(max(trace, Fraction(-(10**18))), Fraction(10**18))


def floor_log2(value: Fraction) -> int:
    """The largest e with 2^e <= value, for a positive value."""
    found = value.numerator.bit_length() - value.denominator.bit_length()
    return found if Fraction(2) ** found <= value else found - 1


def power(exponent: int) -> Fraction:
    """2 to this power."""
    return Fraction(2**exponent) if exponent >= 0 else Fraction(1, 2**-exponent)


def rounded_down(count: Fraction, bits: int) -> Fraction:
    """A positive number to so many significant bits."""
    grain = power(floor_log2(count) + 1 - bits)
    return math.floor(count / grain) * grain


def floor_of(parameters: Parameters, t: int, count: Fraction) -> Any:
    """Below which an eigenvalue of round t counts as noise: a part of nu, the noise's length, s sqrt(2 k).

    The part is clip(nu k / 4, 1/50, 1/8), and 1/4 in the last two rounds.
    """
    k = size(parameters)
    nu = real(deviation(parameters, t)) * mp.sqrt(2 * k) / real(count)
    early = t < parameters["rounds"] - 2
    part = min(max(nu * k / 4, mp.mpf(1) / 50), mp.mpf(1) / 8) if early else mp.mpf(1) / 4
    return part * nu


def map_after(parameters: Parameters, outcomes: Sequence[Outcome], n: int | None) -> signs.Row:
    """C after so many rounds, row by row; as it was after a round that saw too few records, or no positive trace."""
    k = size(parameters)
    public = signs.start(k)
    if not outcomes:
        return public
    count = counted(parameters, outcomes[0], n)
    if count <= 0:
        return public
    count = rounded_down(count, parameters["precision"])
    for t, outcome in enumerate(outcomes):
        row = signs.measured(outcome, parameters["precision"], k)
        if row is not None and count >= at_least(parameters):
            floor = floor_of(parameters, t, count)
            public = signs.next_map(public, row, parameters["precision"], floor)
    return public


def value(parameters: Parameters, public: signs.Row, records: Sequence[Record]) -> vectors.Vector:
    """The exact integers that a round adds noise to, before they are divided by its scale."""
    rows = [record if isinstance(record, tuple) else (record,) for record in records]
    k, unit = size(parameters), cell(parameters)
    center = tuple(round(Fraction(c) / unit) for c in parameters["center"])
    matrix = tuple(public[i * k : (i + 1) * k] for i in range(k))
    where = vectors.Map(center, RADIUS, unit, matrix)
    return outer_products.second_moments(rows, where, "sphere", constant=constant(parameters))


@states(_ROUNDS, _GAUSSIAN)
def law(parameters: Parameters, records: Sequence[Record]) -> TranscriptLaw:
    """The number if it is public, then each round's second moments plus noise, after the transcript's map."""
    public = parameters["adjacency"] is Adjacency.REPLACE
    number = len(records)
    n = number if public else None
    exact = cache(lambda matrix: value(parameters, matrix, records))

    @cache
    def a_round(t: int, prefix: tuple[Outcome, ...]) -> IntegerLaw:
        matrix = map_after(parameters, prefix[public:], n)
        return RoundedGaussianLaw(one_unit(exact(matrix), scale(parameters, t)), UNIT)

    stages: list[Any] = [("count", lambda prefix: PointLaw((number,)))] if public else []
    stages += [
        (f"round {t + 1}", lambda prefix, t=t: a_round(t, prefix))
        for t in range(parameters["rounds"])
    ]
    k = size(parameters)
    nothing: list[Outcome] = [(0,)] if public else []
    nothing += [(0,) * (k * (k + 1) // 2)] * (parameters["rounds"] - 1)
    return TranscriptLaw(tuple(stages), tuple(nothing))


# --- error --------------------------------------------------------------------------------------


@states(_ROUNDS, Source("OURS", "error of a shape from noisy signs", note="first order"))
def noise_error(parameters: Parameters, n: int) -> Any:
    """The root mean squared Frobenius norm of the noise's part of the shape, where the shape is the identity.

    phi at (1, ..., 1) + e, k numbers: phi = 1/k + (e_i - mean) / (k + 2) to first order [from E u_i^2 u_j^2 = 1 / (k (k + 2)), i /= j,
    and E u_i^4 = 3 / (k (k + 2))], so noise of deviation s / n on the diagonal of M, and s / (sqrt(2) n) above it, becomes (k + 2)
    times that of the shape, without its trace: (k + 2) s / n sqrt(d (d + 1) / 2 - 1) over the d columns.
    """
    d, k = len(parameters["center"]), size(parameters)
    s = real(deviation(parameters, parameters["rounds"] - 1))
    return (k + 2) * s / n * mp.sqrt(mp.mpf(d * (d + 1)) / 2 - 1)


@states(_ROUNDS, Source("T87", "asymptotic variance of signs' shape"))
def expected_error(parameters: Parameters, n: int) -> Any:
    """The same with the sampling error, 2 (k + 2) / k (d (d + 1) / 2 - 1) / n in its square.

    Signs: u u^T has the covariance of (k + 2) / k times that of g g^T over k + 2, without its trace; so the shape's
    entries above the diagonal vary by (k + 2) / (k n), those on it by twice that, whatever the elliptical law.
    """
    d, k = len(parameters["center"]), size(parameters)
    sampling = mp.mpf(k + 2) / k * (d * (d + 1) - 2) / n
    return mp.sqrt(noise_error(parameters, n) ** 2 + sampling)


@states(_ROUNDS, Source("BDKU20", "tail of a squared normal length", note="shrinking.clip_radius"))
def error_bound(parameters: Parameters, n: int, beta: Fraction) -> Any:
    """A bound on the Frobenius norm of the noise in the last round's mean of u u^T over n records; it fails with probability
    at most beta.

    With D = k (k + 1) / 2 numbers: those on the diagonal have the deviation s, those above it 169 / 239 s and count twice,
    2 (169 / 239)^2 = 57122 / 57121 of s^2. So the norm is at most the root of that times the length of D normal numbers, and
    rounding adds less than 2^-40 s sqrt(D).
    """
    k = size(parameters)
    width = k * (k + 1) // 2
    s = real(deviation(parameters, parameters["rounds"] - 1))
    length = mp.sqrt(mp.mpf(57122) / 57121) * shrinking.clip_radius(0, width, beta)
    return s / n * (length + mp.sqrt(width) / real(UNIT))


@states(Source("GL95", "information of normal records about their shape"))
def lower_bound(parameters: Parameters, n: int) -> Any:
    """No unbiased estimate of a normal law's shape, private or not, has a smaller root mean squared error at the identity.

    Of records g with the covariance I + e, e without a trace, the information about e is <e, e> / 2 each (log det has no first
    order): each of the d (d + 1) / 2 - 1 orthonormal directions costs 2 / n.
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
    """Rounds that found nothing; even ones; very uneven ones, along an axis and across."""
    k, public = size(parameters), parameters["adjacency"] is Adjacency.REPLACE
    for diagonal, across in ((0, 0), (1, 0), (1, 1), (99, -9)):
        outcomes = []
        for t in range(parameters["rounds"] - 1):
            one = int(200 / k / deviation(parameters, t) * UNIT)
            own = [one * diagonal, *[one] * (k - 1)]
            outcomes.append((*own, *([across * one // 2] * (k * (k - 1) // 2))))
        yield (*([(200,)] if public else []), *outcomes)


@states(_ROUNDS, _GAUSSIAN)
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """On all neighbors of at most 2 records, wherever the first rounds lead, the squares of the exact mu of all rounds sum to at
    most (claimed / multiplier)^2, but for the grid's 2^-16, and to at most the code's sensitivities in one unit; and for some pair to
    within 1/40 of it (no two signs are quite orthogonal after every map)."""
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
    """The largest sum of squares over all those pairs after a prefix, and how many they are."""
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
    """The expected error is above the lower bound, and within 3/2 of it where n is large."""
    cases = 0
    for adjacency, (d, n) in product(Adjacency, ((2, 4000), (10, 40_000), (50, 10**6))):
        parameters = _parameters(adjacency, center=(0.0,) * d, rounds=8)
        least, error = lower_bound(parameters, n), expected_error(parameters, n)
        require(least <= error <= real(within) * least, f"{parameters}, {n}: {least}, {error}")
        cases += 1
    return cases
