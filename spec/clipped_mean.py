"""Spec of ``clipped_mean``: one Gaussian release of a sum of vectors and of their number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from .theory import heavy_tails, joint, queries, vectors
from .theory.gaussian_laws import UNIT, RoundedGaussianLaw, one_unit
from .theory.laws import PointLaw, TranscriptLaw, closed, real
from .theory.normal_norms import NORMS, root_mean_square
from .theory.obligations import Departure, neighbors, require

Parameters = Mapping[str, Any]
Record = Fraction | tuple[Fraction, ...]

DEPARTURES = (
    Departure(
        "ZZ25, Lemma 2.1, trim, pad and shuffle",
        "records outside are left out and one noise is added to the sum and their number",
        "the noise needs no bound on how many are left out, and both adjacencies are covered",
    ),
    Departure(
        "DRS22, the Gaussian mechanism",
        "the sum is of integers, the noise is rounded to 2^-40 of its standard deviation",
        "floats would leak; the sensitivity pays for it, sqrt(d + 1) 2^-40 in mu",
    ),
    Departure(
        "DRS22, the Gaussian mechanism",
        "a record beyond 2^40 cells is first clamped in every coordinate, then clipped",
        "the integers stay within 64 bits; such a record keeps its signs, not its direction",
    ),
)
_MEAN = Source("OURS", "a sum and a count under one noise", note="records clipped, or masked")
_GAUSSIAN = Source("DRS22", "Gaussian noise on a query of known L2 sensitivity is mu-GDP")


def public_map(parameters: Parameters) -> vectors.Map:
    """Return the cells and the integer ellipsoid {y : |C y| <= R}.

    Let F be the matrix's Frobenius norm (1 without one). The cell is the largest power of two
    with cell F <= 2^-20 radius; the matrix is multiplied by the largest power of two that
    leaves its entries below 2^13 and F at most 2^20, and rounded; so R = radius times that
    power, in cells.
    """
    radius, rows = Fraction(parameters["radius"]), _rows(parameters)
    square = sum(entry**2 for row in rows for entry in row)
    cell = queries.largest_power(lambda c: c**2 * square * 4**20 <= radius**2)
    center = tuple(round(Fraction(c) / cell) for c in parameters["center"])
    if parameters["matrix"] is None:
        return vectors.Map(center, math.floor(radius / cell), cell)
    unit = matrix_unit(parameters)
    integers = tuple(tuple(round(entry * unit) for entry in row) for row in rows)
    return vectors.Map(center, math.floor(radius * unit / cell), cell, integers)


def matrix_unit(parameters: Parameters) -> Fraction:
    """Return the factor by which the matrix is multiplied before it is rounded; 1 without a
    matrix.
    """
    if parameters["matrix"] is None:
        return Fraction(1)
    entries = [entry for row in _rows(parameters) for entry in row]
    top, square = max(map(abs, entries)), sum(entry**2 for entry in entries)
    return queries.largest_power(lambda u: u * top < 2**13 and u**2 * square <= 4**20)


def _rows(parameters: Parameters) -> list[list[Fraction]]:
    return [[Fraction(entry) for entry in row] for row in parameters["matrix"] or ((1,),)]


def weight(parameters: Parameters) -> int | None:
    """Return the weight of one record in the released number, in cells; None where the number is
    public.

    By default it is the largest that is free for a mask under replace, else
    joint.default_weight.
    """
    masked = parameters["outside"] == "mask"
    replace = parameters["adjacency"] is Adjacency.REPLACE
    radius, given = public_map(parameters).radius, parameters["count_weight"]
    if replace and not masked:
        return None
    if given is not None:
        return max(1, round(Fraction(given) * radius))
    if replace:
        return vectors.free_weight(radius)
    return joint.default_weight(radius, len(parameters["center"]))


def moved(parameters: Parameters) -> int:
    """Return the squared L2 sensitivity of what is released, in cells."""
    w, adjacency = weight(parameters), parameters["adjacency"]
    radius = public_map(parameters).radius
    if w is None:
        return vectors.vector_sum_sensitivity(radius, adjacency)
    if parameters["outside"] == "mask":
        return vectors.masked_sum_sensitivity(radius, w, adjacency)
    return joint.with_count_sensitivity(radius, w, adjacency)


def scale(parameters: Parameters) -> Fraction:
    """Return the noise's standard deviation in cells: multiplier times sensitivity, down to 2^-40
    cells.
    """
    root = Fraction(math.isqrt(moved(parameters) * 4**40), 2**40)
    return Fraction(parameters["noise_multiplier"]) * root


def released(parameters: Parameters) -> joint.Ratio:
    """Return the parameters of the released ratio."""
    public = public_map(parameters)
    width = vectors.width_of(public)
    return joint.Ratio(scale(parameters), public.radius, width, weight(parameters))


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the squared sensitivity of each stage, in one unit."""
    ratio = released(parameters)
    width = ratio.width + (ratio.weight is not None)
    square = vectors.one_unit_sensitivity(moved(parameters), ratio.scale, width, int(UNIT))
    return {"count": 0, "sum": square} if ratio.weight is None else {"sum and count": square}


def value(parameters: Parameters, records: Sequence[Record]) -> vectors.Vector:
    """Return the exact integers that noise is added to, before they are divided by its scale."""
    public, w = public_map(parameters), weight(parameters)
    rows = [record if isinstance(record, tuple) else (record,) for record in records]
    if w is None:
        return vectors.vector_sum(rows, public)
    if parameters["outside"] == "mask":
        return vectors.masked_sum(rows, public, w)
    return joint.sum_with_count(rows, public, w)


@states(_MEAN, _GAUSSIAN)
def law(parameters: Parameters, records: Sequence[Record]) -> TranscriptLaw:
    """Sum and number plus noise; or the number as it is, then the sum plus noise."""
    center = one_unit(value(parameters, records), scale(parameters))
    noisy = RoundedGaussianLaw(center, UNIT)
    if weight(parameters) is not None:
        return closed("sum and count", noisy)
    n = len(records)
    stages = (("count", lambda prefix: PointLaw((n,))), ("sum", lambda prefix: noisy))
    return TranscriptLaw(stages, ((n,),))


@states(Source("OURS", "error of a noisy sum over a noisy count, normal tails"))
def error_bound(parameters: Parameters, n: int, beta: Fraction) -> Any:
    """Return a bound on |A (estimate - mean)| that fails with probability at most beta
    (joint.error_bound).

    A is the rounded matrix, n the number of records (with a mask: inside), the mean that of the
    clipped records on the grid.
    """
    bound = joint.error_bound(released(parameters), n, beta, parameters["at_least"])
    return bound * _cell_after_matrix(parameters)


def grid_error(parameters: Parameters) -> Any:
    """Return a bound on the distance of the mean on the grid from that of records clipped to the
    ball itself.

    It is for clipping without a matrix, of records within 2^39 cells. Rounding record and
    center moves each coordinate by 1/2 cell each, which projection does not increase; the ball
    on the grid is less than a cell smaller, and its integers are within two cells of the
    projection in every coordinate; and 1/2 cell is for adding the center itself instead of the
    grid's: 7/2 sqrt(d) + 1 cells.
    """
    public = public_map(parameters)
    return (mp.mpf(7) / 2 * mp.sqrt(len(public.center)) + 1) * real(public.cell)


def expected_error(parameters: Parameters, n: int, offset: Any = 0) -> Any:
    """Return the root mean squared |A (estimate - mean)| to first order; ``offset`` = |A
    (mean - center)|.
    """
    cell = _cell_after_matrix(parameters)
    return joint.expected_error(released(parameters), n, mp.mpf(offset) / cell) * cell


@states(NORMS)
def error_in_norm(parameters: Parameters, n: int, power: float) -> Any:
    """Predict the root mean square l_p norm of A (estimate - mean) under replace: the noise is
    spherical.
    """
    d = len(parameters["center"])
    return expected_error(parameters, n) / mp.sqrt(d) * root_mean_square(d, power)


@states(
    Source(
        "K19", "Take 2, truncate, then the empirical covariance", note="its error grows with kappa"
    )
)
def relative_error(parameters: Parameters, n: int, kappa: float) -> Any:
    """Predict the noise's root mean square in a covariance of variances kappa, 1, ..., 1, relative
    to it, where records are outer products: of equal noise s in every entry, s
    (k - 1 + 1 / kappa).

    The ball is in proportion to kappa, so the error is, too: it is lost in the directions of
    variance 1.
    """
    d = len(parameters["center"])
    others = math.isqrt(d) - 1
    return expected_error(parameters, n) / mp.sqrt(d) * (others + 1 / mp.mpf(kappa))


def heavy_tailed_error(parameters: Parameters, n: int, law: str) -> Any:
    """Compute the root mean squared error for n records of a heavy-tailed law of one column: the
    noise, the sampling of clipped records and their bias, where clipping is about zero and the
    number of records is public."""
    radius = Fraction(parameters["radius"])
    mean, variance = heavy_tails.clipped_moments(law, radius)
    noise = expected_error(parameters, n)
    return mp.sqrt(noise**2 + variance / n + (mean - heavy_tails.mean_of(law)) ** 2)


def second_moment_bound(parameters: Parameters, n: int, second_moment: Any) -> Any:
    """Bound the error of the clipped mean by the second moment about the center alone
    (theory/heavy_tails.py).
    """
    noise, radius = expected_error(parameters, n), Fraction(parameters["radius"])
    return heavy_tails.second_moment_bound(noise, n, second_moment, radius)


def _cell_after_matrix(parameters: Parameters) -> Any:
    """Return one cell of the released sum in the units of the radius."""
    return real(public_map(parameters).cell / matrix_unit(parameters))


@states(Source("OURS", "Assouad's lemma with group privacy of Gaussian DP"))
def lower_bound(parameters: Parameters, n: int) -> Any:
    """Return a lower bound on the root mean squared |A (estimate - mean)|, on some dataset of n
    records inside, of every estimate of this privacy.

    Replacing is removing and adding: under add-remove, the bound is for 2 mu.
    """
    mu = 1 / real(Fraction(parameters["noise_multiplier"]))
    twice = 2 if parameters["adjacency"] is Adjacency.ADD_REMOVE else 1
    least = joint.least_error(twice * mu, n, len(parameters["center"]))
    return least * real(Fraction(parameters["radius"]))


# --- obligations --------------------------------------------------------------------------------

_STRETCHED = ((2.0, 1.0), (0.0, 0.5))
_BY_DIMENSION: dict[int, tuple[tuple[Fraction, ...], ...]] = {
    # in radii about 0: inside, on the boundary and opposite, a cell beyond, far outside
    1: tuple((Fraction(x),) for x in (0, 1, -1, 0.3, 1 + 2**-20, -(10**30))),
    2: tuple(
        (Fraction(x), Fraction(y))
        for x, y in ((0, 0), (1, 0), (-1, 0), (0.5, 0), (-0.5, 0), (-1, 2), (10**30, -7))
    ),
}


def _settings() -> Iterator[dict[str, Any]]:
    for adjacency, outside in product(Adjacency, ("clip", "mask")):
        for d, matrix in ((1, None), (2, None), (2, _STRETCHED)):
            for given in (None, Fraction(1), Fraction(5, 2)):
                yield _parameters(adjacency, outside, d, matrix=matrix, count_weight=given)


def _parameters(adjacency: Adjacency, outside: str, d: int, **changes: Any) -> dict[str, Any]:
    return {
        "adjacency": adjacency,
        "noise_multiplier": Fraction(3, 2),
        "center": (0.0,) * d,
        "radius": 1.0,
        "matrix": None,
        "outside": outside,
        "count_weight": None,
        "at_least": 1,
        **changes,
    }


@states(_MEAN, _GAUSSIAN, Source("OURS", "sums of integer vectors in a ball"))
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check on all neighbors of at most 2 records that the exact mu is at most
    claimed / multiplier, up to the grid's 2^-18, and at most the code's sensitivity in one
    unit; for some pair it is within 2^-18.
    """
    cases, slack = 0, 1 + Fraction(1, 2**18)
    for parameters in _settings():
        universe = _BY_DIMENSION[len(parameters["center"])]
        known: dict[Any, TranscriptLaw] = {}
        largest = Fraction(0)
        for pair in neighbors(universe, 2, parameters["adjacency"]):
            for records in pair:
                if records not in known:
                    known[records] = law(parameters, records)
            largest = max(largest, joint.mu_squared(*(known[records] for records in pair)))
            cases += 1
        stated = max(sensitivities(parameters).values()) / UNIT**2
        square = (claimed / parameters["noise_multiplier"]) ** 2
        case = f"{parameters}: mu^2 = {float(largest)}, {float(stated)} in one unit"
        require(largest <= stated <= square * slack, case)
        require(largest * slack >= square, case)
    return cases


@states(Source("OURS", "sums of integer vectors in a ball", note="sqrt(3) radii a record"))
def obligation_count_is_free() -> int:
    """Check that by default, with a mask under replace, the scale is that of the sum alone."""
    cases = 0
    for d, radius in product((1, 2, 3, 100), (1.0, 0.7, 3e10, 5e-300)):
        parameters = _parameters(Adjacency.REPLACE, "mask", d, radius=radius)
        alone = _parameters(Adjacency.REPLACE, "clip", d, radius=radius)
        require(scale(parameters) == scale(alone), f"d = {d}, radius {radius}: the count costs")
        cases += 1
    return cases


@states(Source("OURS", "an integer query in a unit of its noise"))
def obligation_rounding(extra: Fraction = Fraction(1, 2**39)) -> int:
    """Check that rounding to one unit adds at most sqrt(d + 1) 2^-40 to mu, and that of the scale
    at most 2^-59 of it.

    So for d below 10^4 and multipliers up to 10^3 the claim is (1 + 2^-23) / multiplier or
    better.
    """
    cases = 0
    for adjacency, outside in product(Adjacency, ("clip", "mask")):
        for d, multiplier in product((1, 3, 50, 1000), ("1/100", "1", "1000")):
            own = {"noise_multiplier": Fraction(multiplier), "radius": 0.3}
            parameters = _parameters(adjacency, outside, d, **own)
            stated = mp.sqrt(max(sensitivities(parameters).values())) / real(UNIT)
            exact_mu = 1 / real(Fraction(multiplier))
            most = exact_mu * (1 + mp.mpf(2) ** -59) + mp.sqrt(d + 1) * real(extra) / 2
            case = f"{adjacency}, {outside}, d = {d}, {multiplier}: {stated}, {most}"
            require(exact_mu <= stated <= most, case)
            cases += 1
    return cases


def obligation_lower_bound_is_below_error(within: int = 5) -> int:
    """Check that the root mean squared error is above the lower bound and at most 5 times it."""
    cases = 0
    for adjacency, outside in product(Adjacency, ("clip", "mask")):
        for d, n, multiplier in ((1, 100, "1"), (3, 1000, "10"), (50, 10**4, "40"), (1, 10, "1/2")):
            own = {"noise_multiplier": Fraction(multiplier), "radius": 3.0}
            parameters = _parameters(adjacency, outside, d, **own)
            bound, error = lower_bound(parameters, n), expected_error(parameters, n)
            require(bound <= error <= within * bound, f"{parameters}, {n}: {bound}, {error}")
            cases += 1
    return cases
