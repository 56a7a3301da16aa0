"""Spec of ``winsorized_mean``: quartiles of every column, then a sum of the records in their
range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Norm, Source, states

from .theory import boxes, centered, queries, tables
from .theory.coordinates import Stretch, rows_of, stretch_about
from .theory.gaussian_laws import UNIT, RoundedGaussianLaw
from .theory.laws import IntegerLaw, Outcome, PointLaw, TranscriptLaw, real
from .theory.obligations import Departure, neighbors, require
from .theory.quantiles import QuantileLaw, QuantilesLaw, gaussian_of_range
from .theory.tracing_bound import BOUND, least_gaussian_error
from .theory.vectors import Record, Vector

Parameters = Mapping[str, Any]
Prefix = tuple[Outcome, ...]
RADIUS = 2**20
"""Half a range in units of the sum."""
PER_QUARTILE = Fraction(1349, 1000)
"""Distance of the quartiles of N(0, 1), rounded up."""

DEPARTURES = (
    Departure(
        "S11, the Winsorized mean",
        "the range is k times as long as the distance of the quartiles, k of a public share of "
        "clipped normal records, and not n^(1/3 + 1/10) times",
        "normal records need sqrt(2 ln n); the longer range makes the noise 8 to 200 times larger",
    ),
    Departure(
        "S11, the Winsorized mean",
        "quartiles are cells of a public grid, and a range is never shorter than two of its cells",
        "a real number near a record leaks it; the noise always has a scale above 0",
    ),
    Departure(
        "S11, the Winsorized mean",
        "a choice of scores that move by q has the scale 2 q / epsilon, and noise the scale of "
        "a whole range over epsilon",
        "as in two public implementations the whole is 3 epsilon-DP and 1.5 epsilon-DP",
    ),
)
_WINSORIZED = Source("S11", "the Winsorized mean", note="private quartiles, then a clipped mean")
_GAUSSIAN = Source("DRS22", "Gaussian noise on a query of known L2 sensitivity is mu-GDP")


def times(parameters: Parameters) -> Fraction:
    """Return half a range over the distance of the quartiles, k: sqrt(2 ln(1 / clipped)) / 1.349,
    up to 2^-10.

    P(|N(0, 1)| > t) <= e^(-t^2 / 2), so of normal records at most a share ``clipped`` lies
    outside.
    """
    k = mp.sqrt(-2 * mp.log(real(Fraction(parameters["clipped"])))) / real(PER_QUARTILE)
    return Fraction(int(mp.ceil(k * 2**10)), 2**10)


def ranges(parameters: Parameters, quartiles: Outcome) -> Stretch:
    """Return the map to the sum's units: half a range, k |b - a| or a cell at the least, is RADIUS
    of them.
    """
    middles, squares = [], []
    pairs = zip(quartiles[::2], quartiles[1::2], strict=True)
    for (_, _, cell), (a, b) in zip(queries.grids(parameters), pairs, strict=True):
        middles.append(Fraction(a + b, 2) * cell)
        squares.append((max(Fraction(1), times(parameters) * abs(b - a)) * cell) ** 2)
    return stretch_about(middles, squares, Fraction(1), RADIUS)


def _laplace(parameters: Parameters) -> bool:
    return bool(parameters["noise"] == "laplace")


def norm(parameters: Parameters) -> Norm:
    """Return the norm of the sum's sensitivity."""
    return Norm.L1 if _laplace(parameters) else Norm.SQUARED_L2


def length(parameters: Parameters) -> Fraction:
    """Return the range of losses of each of the 2 d choices.

    All together have ``quartile_share`` of epsilon, or of mu^2, of which 3/2 mu is a range.
    """
    share, count = Fraction(parameters["quartile_share"]), 2 * queries.width(parameters)
    multiplier = Fraction(parameters["noise_multiplier"])
    if _laplace(parameters):
        return share / (multiplier * count)
    bound: Fraction = Fraction(3, 2) / (multiplier * centered.root(count / share))
    return bound


def quartile_scale(parameters: Parameters) -> Fraction:
    """Return twice the score's sensitivity over ``length``."""
    return 2 * tables.score_sensitivity(1, 4, parameters["adjacency"]) / length(parameters)


def sum_scale(parameters: Parameters) -> Fraction:
    """Return the scale of the sum's noise, in its units: multiplier times sensitivity over the
    share left for it.
    """
    left = 1 - Fraction(parameters["quartile_share"])
    d, multiplier = queries.width(parameters), Fraction(parameters["noise_multiplier"])
    if _laplace(parameters):
        return multiplier * boxes.box_sensitivity(d, RADIUS, norm(parameters)) / left
    return multiplier * 2 * RADIUS * centered.root(d / left)


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the sensitivity of each stage; that of the sum with Gaussian noise squared, in one
    unit.
    """
    d = queries.width(parameters)
    moved = boxes.box_sensitivity(d, RADIUS, norm(parameters))
    if not _laplace(parameters):
        moved = centered.unit_sensitivity(moved, sum_scale(parameters), d)
    quartiles = tables.score_sensitivity(1, 4, parameters["adjacency"])
    return {"quartiles": quartiles, "count": 0, "sum": moved}


def quartile_law(parameters: Parameters, rows: Sequence[Record]) -> QuantilesLaw:
    """Return the law of the quartiles 1/4 and 3/4 of every column in turn."""
    parts = []
    for j, (lower, upper, cell) in enumerate(queries.grids(parameters)):
        cells = tuple(sorted(queries.to_cells(row[j], lower, upper, cell) for row in rows))
        scale = quartile_scale(parameters)
        parts += [QuantileLaw(cells, lower, upper, p, 4, scale) for p in (1, 3)]
    return QuantilesLaw(tuple(parts), "range" if _laplace(parameters) else "gaussian")


@states(_WINSORIZED, _GAUSSIAN)
def law(parameters: Parameters, records: Sequence[Fraction | Record]) -> TranscriptLaw:
    """Return the law of the quartiles, the number, the sum."""
    rows = rows_of(records)
    quartiles, scale = quartile_law(parameters, rows), sum_scale(parameters)

    def summed(prefix: Prefix) -> IntegerLaw:
        stretch = ranges(parameters, prefix[0])
        value: Vector = boxes.box_sum(rows, stretch, RADIUS)
        if _laplace(parameters):
            return boxes.LaplaceVectorLaw(value, scale)
        return centered.noisy(value, scale)

    n, lowest = len(rows), tuple(low for low, _, _ in queries.grids(parameters) for _ in range(2))
    stages = (
        ("quartiles", lambda prefix: quartiles),
        ("count", lambda prefix: PointLaw((n,))),
        ("sum", summed),
    )
    return TranscriptLaw(stages, (lowest, (n,)))


@states(Source("OURS", "error of a noisy sum, in every column"))
def error_bound(parameters: Parameters, n: int, beta: Fraction) -> Any:
    """Return a bound, in half ranges, on the distance of the estimate in any column from the mean
    of the clipped records on the grid; it fails with probability at most beta.

    By a union bound over d tails of at most 2 e^-x; moving into the range brings nothing
    further away.
    """
    scale, d = real(sum_scale(parameters)), queries.width(parameters)
    logarithm = mp.log(2 * d / real(beta))
    if _laplace(parameters):
        return (scale * logarithm + 1) / (n * RADIUS)
    rounded = 1 / real(UNIT)  # half a unit twice
    return scale * (mp.sqrt(2 * logarithm) + rounded) / (n * RADIUS)


def expected_error(parameters: Parameters, n: int, deviation: Any = 1) -> Any:
    """Return the root mean squared distance from the mean of n normal records of this standard
    deviation in every column, to first order: due to noise alone, the quartiles being those of
    the law.

    The effect of clipping is left out.
    """
    spread, cell = Fraction(deviation), queries.grids(parameters)[0][2]
    half = max(cell, times(parameters) * PER_QUARTILE * spread)
    stretch = stretch_about([Fraction(0)], [half**2], Fraction(1), RADIUS)
    unit, scale = real(stretch.cells[0] / stretch.factors[0]), real(sum_scale(parameters))
    each = scale * (mp.sqrt(2) if _laplace(parameters) else 1)  # for large scales
    return mp.sqrt(queries.width(parameters)) * each * unit / n


@states(BOUND)
def lower_bound(parameters: Parameters, n: int, deviation: Any = 1) -> Any:
    """Return a lower bound on the root mean squared error, for all means of n normal records of
    this standard deviation in every column, of every estimate of this privacy.

    Pure DP of epsilon is a range of 2 epsilon, and so Gaussian DP.
    """
    epsilon = 1 / Fraction(parameters["noise_multiplier"])
    square = gaussian_of_range(2 * epsilon) ** 2 if _laplace(parameters) else epsilon**2
    variances = [Fraction(deviation) ** 2] * queries.width(parameters)
    return least_gaussian_error(mu_squared=square, variances=variances, n=n)


# --- obligations --------------------------------------------------------------------------------

_SLACK = 1 + Fraction(1, 2**18)
_ENDS = tuple(map(Fraction, (-(10**30), 1, 10**30)))


def _settings(noise: str, d: int, **own: Any) -> dict[str, Any]:
    return {
        "adjacency": Adjacency.REPLACE,
        "noise_multiplier": Fraction(3, 2),
        "lower": (0.0,) * d,
        "upper": (3.0,) * d,
        "noise": noise,
        "cells": 3,
        "clipped": Fraction(1, 10**4),
        "quartile_share": Fraction(1, 3),
        **own,
    }


@states(_WINSORIZED, _GAUSSIAN)
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check on all neighbors of at most 4 records of a small universe the losses of every choice,
    of the sum, and of both together.

    The losses of a choice have a range of at most ``length``, and for some pair exactly that;
    the sum has the remainder of epsilon, or of mu^2 to within 2^-18; and both add up to
    (claimed / multiplier).
    """
    cases = 0
    for noise, d in product(("gaussian", "laplace"), (1, 2)):
        parameters = _settings(noise, d)
        universe = [(z, 3 - z)[:d] for z in _ENDS]
        longest, most = Fraction(0), Fraction(0)
        known: dict[Any, list[IntegerLaw]] = {}
        for pair in neighbors(universe, 4, parameters["adjacency"]):
            for records in pair:
                if records not in known:
                    known[records] = [one for _, one in law(parameters, records).stage_laws()]
            sides: Any = [known[records] for records in pair]
            longest = max(longest, *sides[0][0].ranges(sides[1][0]))
            most = max(most, _last_loss(sides[0][-1], sides[1][-1]))
            cases += 1
        case = f"{parameters}: range {float(longest)}, {float(most)} of the sum"
        share, whole = parameters["quartile_share"], claimed / parameters["noise_multiplier"]
        require(longest == length(parameters), case)
        if _laplace(parameters):
            require(2 * d * longest == share * whole and most == (1 - share) * whole, case)
            continue
        left, all_quartiles = (1 - share) * whole**2, 2 * d * gaussian_of_range(longest) ** 2
        require(left <= most * _SLACK and most <= left * _SLACK, case)
        paid = real(share * whole**2)
        require(all_quartiles <= paid * real(_SLACK) and paid <= all_quartiles * 1.2, case)
    return cases


def _last_loss(own: Any, theirs: Any) -> Fraction:
    """Return mu^2 of Gaussian noise, the largest loss of Laplace noise."""
    if isinstance(own, RoundedGaussianLaw):
        return own.mu_squared(theirs)
    loss: Fraction = own.largest_loss(theirs)
    return loss


def obligation_clipped() -> int:
    """Check that at most a share ``clipped`` of normal records lies outside the range about the
    middle of their quartiles, and more than a fiftieth of that.
    """
    cases, distance = 0, 2 * mp.sqrt(2) * mp.erfinv(mp.mpf(1) / 2)
    for text in ("1/2", "1/10", "1/1000", "1/1000000", "1/1000000000000"):
        share = Fraction(text)
        parameters = _settings("gaussian", 1, clipped=share)
        outside = mp.erfc(real(times(parameters)) * distance / mp.sqrt(2))
        require(outside <= real(share) <= 50 * outside, f"{share}: {outside}")
        cases += 1
    return cases


def obligation_range() -> int:
    """Check that RADIUS units are half the range, or up to 1/32 more, about the middle of the
    quartiles.

    The quartiles may come in either order; equal ones leave a cell on either side.
    """
    cases = 0
    for cells, low, high in ((3, 0.0, 3.0), (2**20, -7.0, 900.0), (16, 1e300, 1.5e300)):
        own = {"cells": cells, "lower": (low, 0.0), "upper": (high, 1.0)}
        parameters = _settings("gaussian", 2, **own)
        (first, last, cell), (_, right, fine) = queries.grids(parameters)
        for a, b in ((first, last), (last, first), (first, first), (first + 1, first + 2)):
            stretch = ranges(parameters, (a, b, right, 0))
            halves = [
                RADIUS * c / f / times(parameters)
                for c, f in zip(stretch.cells, stretch.factors, strict=True)
            ]
            wanted = [max(Fraction(abs(b - a)), 1 / times(parameters)) * cell, right * fine]
            fits = all(w <= h <= w * Fraction(33, 32) for w, h in zip(wanted, halves, strict=True))
            require(fits, f"{parameters}, {a}, {b}: {halves}, not {wanted}")
            off = stretch.center[0] * stretch.cells[0] - Fraction(a + b, 2) * cell
            require(abs(off) <= stretch.cells[0] / 2, f"{parameters}: the middle is {off} away")
            cases += 1
    return cases


def obligation_lower_bound_is_below_error(within: int = 40) -> int:
    """Check that the noise alone is above the lower bound and at most 40 times it in one column,
    or with Gaussian noise.
    """
    cases = 0
    for noise, d in (("gaussian", 1), ("gaussian", 10), ("gaussian", 100), ("laplace", 1)):
        wide = {"upper": (1000.0,) * d, "cells": 2**20, "noise_multiplier": Fraction(4)}
        parameters = _settings(noise, d, **wide)
        bound, error = lower_bound(parameters, 10**4), expected_error(parameters, 10**4)
        require(bound <= error <= within * bound, f"{parameters}: {bound}, {error}")
        cases += 1
    return cases
