"""Spec of ``gaussian``: searches for medians and a length, then ``gaussian_covariance`` about
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from . import gaussian_covariance
from .theory import (
    chi_square,
    coordinates,
    covariance_readings,
    covariance_tracing,
    normal_fits,
    outer_products,
    shrinking,
    sign_readings,
    vectors,
)
from .theory.caches import cache
from .theory.gaussian_laws import UNIT, RoundedGaussianLaw, one_unit
from .theory.laws import IntegerLaw, Outcome, TranscriptLaw, real
from .theory.obligations import Departure, neighbors, require
from .theory.queries import of_each
from .theory.signs import START_BITS, start
from .theory.whitening import octave, place

Parameters = Mapping[str, Any]
Record = tuple[Fraction, ...]
Prefix = tuple[Outcome, ...]

MEDIANS = Fraction(4, 5)
DEPARTURES = (
    Departure(
        "KLSU19, a Gaussian in total variation",
        "medians and signs in place of bounds R and kappa",
        "no public bound is needed; with one, steps and rounds are saved",
    ),
    Departure(
        "KLSU19, the covariance from differences of pairs",
        "one more, constant column, and moments about the released mean",
        "all records are used, and the number of records may be private",
    ),
)
_STAGES = Source("OURS", "a normal law without bounds", note="exact Gaussian DP")
_GAUSSIAN = Source("DRS22", "composition of GDP", note="adaptive")


def exponents(parameters: Parameters) -> tuple[int, ...]:
    """Return the exponent of each column's cell."""
    given = parameters["cell"]
    each = given if isinstance(given, tuple) else (given,) * parameters["d"]
    return tuple(sign_readings.floor_log2(Fraction(c)) for c in each)


def bits(parameters: Parameters) -> int:
    """Return the bits of the range of medians, in cells either way."""
    if parameters["bound"] is None:
        return 40
    least = sign_readings.power(min(exponents(parameters)))
    return max(1, (math.ceil(Fraction(parameters["bound"]) / least) - 1).bit_length())


def median_steps(parameters: Parameters) -> int:
    """Return the number of median steps: halvings down to 64 cells, and four more."""
    if parameters["center_steps"] is not None:
        return int(parameters["center_steps"])
    return max(1, bits(parameters) - 6) + 4


def search_noise(parameters: Parameters, number: int, share: Fraction) -> Fraction:
    """Return the noise of a step in which a record counts in so many numbers, in records."""
    moves = number * (4 if parameters["adjacency"] is Adjacency.REPLACE else 1)
    root = shrinking.root_up(moves / (Fraction(parameters["center_share"]) * share))
    return Fraction(parameters["noise_multiplier"]) * root


def medians(parameters: Parameters, prefix: Prefix) -> tuple[float, ...]:
    """Return the thresholds that these steps lead to, which are floats."""
    outcomes = prefix[: median_steps(parameters)]
    middles = [coordinates.middle([o[j] for o in outcomes]) for j in range(parameters["d"])]
    far = Fraction(2) ** bits(parameters)
    cells = map(sign_readings.power, exponents(parameters))
    return tuple(float(m * far * c) for m, c in zip(middles, cells, strict=True))


def length(parameters: Parameters, prefix: Prefix) -> int:
    """Return the threshold of lengths after these steps, as an image of 2^16 times the identity."""
    return place(coordinates.middle([outcome[0] for outcome in prefix[median_steps(parameters) :]]))


def rounds(parameters: Parameters) -> int:
    """Return the number of rounds of signs: 8, or what the ratio of eigenvalues needs."""
    if parameters["rounds"] is not None:
        return int(parameters["rounds"])
    if parameters["kappa"] is None:
        return 8
    return int(min(8, 2 + mp.ceil(mp.log(real(Fraction(parameters["kappa"])), 2) / 4)))


def fit(parameters: Parameters, center: tuple[float, ...], long: int) -> dict[str, Any]:
    """Return the parameters of the covariance's part."""
    rest = 1 - Fraction(parameters["center_share"])
    names = ("rounds_share", "scale_share", "mean_share", "check_share")
    return {
        "adjacency": parameters["adjacency"],
        "noise_multiplier": Fraction(parameters["noise_multiplier"]) * shrinking.root_up(1 / rest),
        "center": center,
        "cell": tuple(map(sign_readings.power, exponents(parameters))),
        "scale": min(max(long >> START_BITS, 1), 1 << 40),
        "rounds": rounds(parameters),
        "method": "sign",
        "largest": None,
        "outside": "clip",
        "certify": None,
        "scale_steps": parameters["scale_steps"],
        "at_least": parameters["at_least"],
        "precision": parameters["precision"],
        **{name: Fraction(parameters[name]) / rest for name in names},
    }


def start_of(parameters: Parameters) -> dict[str, Any]:
    """Return the covariance's parameters before anything is released: its claim is that of every
    other.
    """
    return fit(parameters, (0.0,) * parameters["d"], place(Fraction(0)))


Stage = tuple[str, Callable[[Prefix], IntegerLaw]]


def _searches(parameters: Parameters, records: Sequence[Record]) -> list[Stage]:
    p, d = parameters, parameters["d"]
    first, second = median_steps(p), int(p["spread_steps"])
    cells = list(map(sign_readings.power, exponents(p)))

    def side(k: int) -> Stage:
        def law(prefix: Prefix) -> IntegerLaw:
            thresholds = [Fraction(m) for m in medians(p, prefix[:k])]
            scale = search_noise(p, d * first, MEDIANS)
            return RoundedGaussianLaw(
                one_unit(coordinates.side_counts(records, thresholds), scale), UNIT
            )

        return f"median {k + 1}", law

    def in_cells(row: Record) -> Record:
        return tuple(x / c for x, c in zip(row, cells, strict=True))

    def spread(k: int) -> Stage:
        def law(prefix: Prefix) -> IntegerLaw:
            near = zip(medians(p, prefix), cells, strict=True)
            center = tuple(round(Fraction(m) / c) for m, c in near)
            rows = of_each(in_cells, records)
            matrix = tuple(start(d)[i * d : (i + 1) * d] for i in range(d))
            where = vectors.Map(center, 1, Fraction(1), matrix)
            value = outer_products.length_sides(rows, where, length(p, prefix[: first + k]))
            return RoundedGaussianLaw(one_unit(value, search_noise(p, second, 1 - MEDIANS)), UNIT)

        return f"spread {k + 1}", law

    return [side(k) for k in range(first)] + [spread(k) for k in range(second)]


@states(_STAGES, _GAUSSIAN)
def law(parameters: Parameters, records: Sequence[Record]) -> TranscriptLaw:
    """Return the law of the searches, then of the covariance's stages about what they found."""
    searches = _searches(parameters, records)
    number = len(searches)

    @cache
    def inner(center: tuple[float, ...], long: int) -> TranscriptLaw:
        return gaussian_covariance.law(fit(parameters, center, long), records)

    def later(i: int) -> Callable[[Prefix], Any]:
        def stage(prefix: Prefix) -> Any:
            inner_law = inner(medians(parameters, prefix), length(parameters, prefix[:number]))
            return inner_law.stages[i][1](prefix[number:])

        return stage

    declared = gaussian_covariance.law(start_of(parameters), records)
    names = [name for name, _ in declared.stages]
    rest = [(f"fit/{name}", later(i)) for i, name in enumerate(names)]
    d = parameters["d"]
    nothing = [(0,) * (d if name.startswith("median") else 1) for name, _ in searches]
    return TranscriptLaw((*searches, *rest), (*nothing, *declared.example))


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the squared sensitivity of each stage, in one unit."""
    p, d, adjacency = parameters, parameters["d"], parameters["adjacency"]
    first, second = median_steps(p), int(p["spread_steps"])
    moved = coordinates.side_counts_sensitivity(d, adjacency)
    scale = search_noise(p, d * first, MEDIANS)
    side = vectors.one_unit_sensitivity(moved, scale, d, int(UNIT))
    scale = search_noise(p, second, 1 - MEDIANS)
    spread = vectors.one_unit_sensitivity(
        outer_products.sides_squared(adjacency), scale, 1, int(UNIT)
    )
    own = gaussian_covariance.sensitivities(start_of(p))
    return {
        **{f"median {k + 1}": side for k in range(first)},
        **{f"spread {k + 1}": spread for k in range(second)},
        **{f"fit/{name}": value for name, value in own.items()},
    }


# --- error --------------------------------------------------------------------------------------


def _mean_parts(parameters: Parameters, n: int) -> tuple[Any, Any]:
    """Return the parts of the squared length of the mean's error: sampling, noise."""
    own, d = start_of(parameters), parameters["d"]
    square = covariance_readings.mean_bound(own, octave(Fraction(n)))
    response = normal_fits.mean_response(d, square)
    noise = real(covariance_readings.side_noise(own, own["mean_share"])) * mp.sqrt(square) / n
    below = chi_square.below(d + 2, square) * d + square * (1 - chi_square.below(d, square))
    return below / n / response**2, d * noise**2 / response**2


@states(_STAGES)
def expected_error(parameters: Parameters, n: int) -> Any:
    """Return the root of E(2 |mean|^2 + |covariance - identity|_F^2) for standard normal records,
    to first order: twice the root of the relative entropy.

    It is noise and sampling of mean and moments, after searches and rounds that are right.
    """
    mean = sum(_mean_parts(parameters, n))
    return mp.sqrt(2 * mean + gaussian_covariance.expected_error(start_of(parameters), n) ** 2)


@states(_STAGES)
def noise_error(parameters: Parameters, n: int) -> Any:
    """Return the noise's part of the expected error. Balls grow with n, so it falls a little more
    slowly than 1 / n.
    """
    mean = _mean_parts(parameters, n)[1]
    return mp.sqrt(2 * mean + gaussian_covariance.noise_error(start_of(parameters), n) ** 2)


@states(_STAGES, Source("BDKU20", "tail of a squared normal length", note="shrinking.clip_radius"))
def error_bound(parameters: Parameters, n: int, beta: Fraction) -> Any:
    """Return a bound on the Frobenius norm of the noise in the moments over n records, as for
    ``gaussian_covariance``.
    """
    return gaussian_covariance.error_bound(start_of(parameters), n, beta)


@states(covariance_tracing.BOUND, Source("GL95", "information of normal records"))
def lower_bound(parameters: Parameters, n: int) -> Any:
    """Return a lower bound on the error of ``expected_error`` for every estimate of this privacy.

    Without privacy no unbiased estimate has less than 2 d / n + d (d + 1) / n in its square;
    and no private one a smaller error of the covariance alone, at all covariances.
    """
    d, mu = parameters["d"], 1 / real(Fraction(parameters["noise_multiplier"]))
    more = parameters["adjacency"] is Adjacency.ADD_REMOVE
    private = covariance_tracing.least_error(d, n + more, mu)
    return max(private, mp.sqrt(mp.mpf(2 * d) / n + mp.mpf(d * (d + 1)) / n))


# --- obligations --------------------------------------------------------------------------------

_UNIVERSE = tuple(
    (Fraction(x), Fraction(y)) for x, y in ((0, 0), (9, -9), (-3, 5), (10**30, 10**30))
)


def _parameters(adjacency: Adjacency, **changes: Any) -> dict[str, Any]:
    return {
        "adjacency": adjacency,
        "noise_multiplier": Fraction(3, 2),
        "d": 2,
        "cell": (Fraction(1, 4), Fraction(1)),
        "bound": Fraction(64),
        "kappa": None,
        "rounds": 1,
        "center_share": Fraction(3, 4),
        "rounds_share": Fraction(1, 20),
        "scale_share": Fraction(1, 50),
        "mean_share": Fraction(1, 10),
        "check_share": Fraction(1, 100),
        "center_steps": 2,
        "spread_steps": 1,
        "scale_steps": 1,
        "at_least": 1,
        "precision": 4,
        **changes,
    }


@states(_STAGES, _GAUSSIAN)
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check that the squares of the exact mu of all stages sum to at most
    (claimed / multiplier)^2, on all neighbors of at most 2 records, after transcripts that go
    either way.

    That is up to the grid's 2^-16. The sum is also at most the code's sensitivities in one
    unit. For some pair the searches alone, which have three quarters of it, come to 7 / 10.
    """
    cases = 0
    for adjacency in Adjacency:
        parameters = _parameters(adjacency)
        stated = sum(sensitivities(parameters).values()) / UNIT**2
        square, reached = (claimed / parameters["noise_multiplier"]) ** 2, Fraction(0)
        for turned in (-1, 1):
            example = law(parameters, ((Fraction(0),) * 2,) * 2).example
            prefix = tuple(
                tuple(turned * 3 * int(UNIT) for _ in one) if i < 3 else one
                for i, one in enumerate(example)
            )
            known: dict[Any, list[Any]] = {}
            for pair in neighbors(_UNIVERSE, 2, adjacency):
                if adjacency is Adjacency.REPLACE and len(pair[0]) != 2:
                    continue
                for records in pair:
                    if records not in known:
                        stages = law(parameters, records).stages
                        known[records] = [
                            stage(prefix[:t])
                            for t, (name, stage) in enumerate(stages)
                            if not name.endswith("count")
                        ]
                ours, theirs = (known[records] for records in pair)
                both = zip(ours, theirs, strict=True)
                largest = sum((a.mu_squared(b) for a, b in both), Fraction(0))
                case = f"{pair}: mu^2 = {float(largest)}, stated {float(stated)}"
                require(largest <= stated <= square * (1 + Fraction(1, 2**16)), case)
                reached, cases = max(reached, largest), cases + 1
        require(reached >= square * Fraction(7, 10), f"{parameters}: only {float(reached)}")
    return cases


@states(_STAGES)
def obligation_lower_bound_is_below_error(within: Fraction = Fraction(3, 2)) -> int:
    """Check that the expected error is above the lower bound and at most 3/2 times it where n is
    large.
    """
    cases = 0
    for adjacency in Adjacency:
        for d, n in ((2, 40_000), (10, 400_000)):
            parameters = _parameters(
                adjacency,
                d=d,
                cell=Fraction(1, 64),
                center_share=Fraction(1, 20),
                mean_share=Fraction(1, 5),
            )
            least, error = lower_bound(parameters, n), expected_error(parameters, n)
            require(least <= error <= real(within) * least, f"{d}, {n}: {least}, {error}")
            cases += 1
    return cases
