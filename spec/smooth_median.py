"""Spec of ``smooth_median``: medians, each with Laplace noise in proportion to a smooth scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, ApproxDP, Source, SourceStatus, states

from .theory import queries, smooth
from .theory.laws import TranscriptLaw, closed, real, real_exponential
from .theory.obligations import Departure, datasets, require
from .theory.vectors import Record

Parameters = Mapping[str, Any]
_NRS = "NRS07, smooth sensitivity of the median"

DEPARTURES = (
    Departure(
        _NRS,
        "records, medians and scales are integers of a public grid, the weights e^(-k beta) are "
        "integers W_k with W_(k+1) >= decay W_k, and the noise is rounded to cells",
        "a float near a record leaks it, and a rounded scale is smooth only if the rounding is",
    ),
    Departure(
        _NRS,
        "a scale is never less than a cell",
        "where many records are equal noise of scale 0 would show it: their scale differs from "
        "that of neighbors by more than any factor",
    ),
    Departure(
        "NRS07, noise in proportion to a smooth bound on the local sensitivity",
        "delta is the exact one of a shift together with a dilation, not delta / 2 for each "
        "with a factor of 1 + e^(epsilon / 2); epsilon is not divided in halves",
        "a shift under Laplace noise is pure, so after a dilation it costs no factor on delta; "
        "at (1, 1e-6) the noise is two thirds as long",
    ),
)
_MEDIAN = Source("NRS07", "smooth sensitivity of the median", note="on a public grid")
_NOISE = Source(
    "NRS07",
    "noise in proportion to a smooth bound on the local sensitivity",
    SourceStatus.CHANGED_CONSTANTS,
    "Laplace noise, with the exact profile of a shift and a dilation together",
)


def table(parameters: Parameters) -> list[int]:
    """Return the weights, for the column of most cells."""
    most = max(upper - lower for lower, upper, _ in queries.grids(parameters))
    return smooth.weights(most, Fraction(parameters["decay"]))


def sensitivities(parameters: Parameters) -> dict[str, Fraction]:
    """Return the factor by which scales change."""
    return {"medians": 1 / Fraction(parameters["decay"])}


@states(_MEDIAN, _NOISE)
def law(parameters: Parameters, records: Sequence[Fraction | Record]) -> TranscriptLaw:
    """Return the law of every column's median, with noise."""
    rows = [record if isinstance(record, tuple) else (record,) for record in records]
    weights, numbers = table(parameters), []
    for j, (lower, upper, cell) in enumerate(queries.grids(parameters)):
        cells = sorted(queries.to_cells(row[j], lower, upper, cell) for row in rows)
        median = cells[smooth.rank(len(cells)) - 1]
        numbers.append((median, smooth.smooth_scale(cells, lower, upper, weights)))
    multiplier = Fraction(parameters["noise_multiplier"])
    return closed("medians", smooth.SmoothLaw(tuple(numbers), multiplier, weights[0]))


def noise(parameters: Parameters, records: Sequence[Fraction | Record]) -> list[tuple[Any, Any]]:
    """Return, for every column, the noise's scale and the cell, in the data's units."""
    ((_, stage),) = law(parameters, records).stage_laws()
    assert isinstance(stage, smooth.SmoothLaw)
    cells = [real(cell) for _, _, cell in queries.grids(parameters)]
    return [(real(s) * c, c) for (_, s), c in zip(stage.parts(), cells, strict=True)]


@states(_NOISE)
def error_bound(
    parameters: Parameters, records: Sequence[Fraction | Record], beta: Fraction
) -> list[Any]:
    """Return, for every column, a bound on the distance of the estimate from the record of rank
    ceil(n / 2), moved into the bounds; all hold together with probability at least 1 - beta.

    P(|noise| > t) <= e^-(t / scale) <= beta / d, and a cell at the most for rounding records
    and the noise.
    """
    logarithm = mp.log(queries.width(parameters) / real(beta))
    return [scale * logarithm + cell for scale, cell in noise(parameters, records)]


def largest_error(
    parameters: Parameters, records: Sequence[Fraction | Record], beta: Fraction
) -> Any:
    """Return the largest of these bounds: no column is further off, with probability at least 1 -
    beta.
    """
    return max(error_bound(parameters, records, beta))


def expected_error(parameters: Parameters, records: Sequence[Fraction | Record]) -> Any:
    """Return the root mean squared distance from the medians of these records, on the grid, due to
    noise alone.

    E z^2 = the sum of (2 j - 1) P(|z| >= j) = q^(1/2) (1 + q) / (1 - q)^2 cells, q =
    e^(-1 / scale). The gain from moving into the bounds is left out.
    """
    total = mp.mpf(0)
    for scale, cell in noise(parameters, records):
        q = mp.exp(-cell / scale)
        total += mp.sqrt(q) * (1 + q) / (1 - q) ** 2 * cell**2
    return mp.sqrt(total)


@states(Source("V17", "Lemma 2.2, group privacy", note="two datasets far apart"))
def lower_bound(parameters: Parameters, n: int) -> Any:
    """Return a lower bound on the root mean squared error of every mechanism with this budget, in
    a column of n even records, or of these with the lowest r moved above the highest.

    Even records are (upper - lower) / n apart.

    The medians are r spacings apart, so if one is missed by less than half of that, the other
    is not. Let both be missed by as much with probability at most p: then 1 - p <=
    e^(r epsilon) p + delta_r, with delta_r = delta (e^(r epsilon) - 1) / (e^epsilon - 1). The
    error is at least r / 2 sqrt(p) spacings.
    """
    budget = parameters["budget"]
    assert isinstance(budget, ApproxDP)
    e, best = real(budget.epsilon), mp.mpf(0)
    for r in range(1, n):
        delta = real(budget.delta) * mp.expm1(r * e) / mp.expm1(e)
        if delta >= 1:
            break
        bound = mp.mpf(r) / 2 * mp.sqrt((1 - delta) / (1 + mp.exp(r * e)))
        if bound < best:
            break
        best = bound
    apart = real(Fraction(parameters["upper"][0]) - Fraction(parameters["lower"][0])) / n
    return best * apart


# --- obligations --------------------------------------------------------------------------------


def _settings(**own: Any) -> dict[str, Any]:
    return {
        "adjacency": Adjacency.REPLACE,
        "noise_multiplier": Fraction(2),
        "lower": (0.0,),
        "upper": (1024.0,),
        "cells": 1024,
        "decay": Fraction(1, 2),
        "budget": None,
        **own,
    }


@states(_NOISE)
def obligation_profile(claimed: Fraction = Fraction(1)) -> int:
    """Check that the exact delta of all neighbors of at most three records of a small universe is
    at most ``claimed`` times the profile, at epsilons below and above the one from which the
    profile is exact.

    Above it some pair is within 1/50 of the profile at decay 1/2, where both the shift and the
    dilation are the largest possible.
    """
    cases = 0
    for decay, multiplier in (("1/2", "2"), ("1/2", "1"), ("3/4", "3")):
        shift, growth = 1 / Fraction(multiplier), 1 / Fraction(decay)
        pairs = _neighboring(decay, multiplier)
        for epsilon in map(Fraction, ("0", "1/4", "3/2", "3")):
            worst = _worst(pairs, epsilon)
            stated = real(claimed) * smooth.profile(shift, growth, epsilon)
            case = f"decay {decay}, multiplier {multiplier}, epsilon {epsilon}: {worst}, {stated}"
            require(worst <= stated, case)
            if decay == "1/2" and epsilon > 1 + shift:
                require(worst >= stated * mp.mpf("0.98"), case)
            cases += len(pairs)
    return cases


def _neighboring(decay: str, multiplier: str) -> frozenset[tuple[Any, Any]]:
    """Return the laws of neighbors of at most three records of a small universe."""
    universe = tuple(map(Fraction, (0, 128, 512, 1024)))
    parameters = _settings(decay=Fraction(decay), noise_multiplier=Fraction(multiplier))
    laws = {
        rows: law(parameters, rows).stage_laws()[0][1] for rows in datasets(universe, 3) if rows
    }
    return frozenset(
        (laws[rows], laws[(*rows[:i], record, *rows[i + 1 :])])
        for rows in laws
        for i, record in product(range(len(rows)), universe)
    )


def _worst(pairs: frozenset[tuple[Any, Any]], epsilon: Fraction) -> Any:
    return max(own.profile(other, epsilon) for own, other in pairs)


def obligation_error() -> int:
    """Check on every small dataset that the bound is exceeded with probability at most beta, and
    by more than a fifth of that on some; the expected error is the law's own, summed.
    """
    cases = 0
    parameters = _settings(upper=(8.0,), cells=8, noise_multiplier=Fraction(1, 2))
    for beta in (Fraction(1, 2), Fraction(1, 50)):
        closest = mp.mpf(0)
        for rows in datasets(tuple(map(Fraction, (0, 3, 8))), 3):
            if not rows:
                continue
            stage = law(parameters, rows).stage_laws()[0][1]
            assert isinstance(stage, smooth.SmoothLaw)
            ((median, scale),) = stage.parts()
            (most,), reach = error_bound(parameters, rows, beta), range(median - 120, median + 121)
            masses = {
                z: mp.mpf(smooth.rounded_mass(z - median, scale, real_exponential)) for z in reach
            }
            beyond = sum(mass for z, mass in masses.items() if abs(z - median) > most)
            require(beyond <= real(beta), f"{rows}: {beyond} is above {beta}")
            closest = max(closest, beyond / real(beta))
            squares = mp.sqrt(sum(mass * (z - median) ** 2 for z, mass in masses.items()))
            off = abs(squares / expected_error(parameters, rows) - 1)
            require(off < mp.mpf(10) ** -6, f"{rows}: {squares} is not what is expected")
            cases += 1
        require(closest > mp.mpf(1) / 5, f"at most {closest} of {beta} is used")
    return cases


def obligation_lower_bound_is_below_error(within: int = 400) -> int:
    """Check on even records that the error is above the lower bound and at most 400 times it for
    epsilon from 1/4 to 4: the noise of smooth sensitivity goes as 1 / epsilon^2, the lower
    bound as 1 / epsilon.
    """
    cases = 0
    for epsilon, decay, multiplier in (
        ("1/4", "253/256", "7"),
        ("1", "61/64", "2"),
        ("4", "7/8", "1/2"),
    ):
        budget = ApproxDP(Fraction(epsilon), Fraction(1, 10**6))
        own = {"decay": Fraction(decay), "noise_multiplier": Fraction(multiplier), "budget": budget}
        parameters, n = _settings(upper=(1.0,), cells=2**16, **own), 2000
        shift, growth = 1 / parameters["noise_multiplier"], 1 / parameters["decay"]
        met = smooth.profile(shift, growth, budget.epsilon)
        require(met <= real(budget.delta), f"{own}: delta is {met}")
        error = expected_error(parameters, [Fraction(2 * i + 1, 2 * n) for i in range(n)])
        bound = lower_bound(parameters, n)
        require(bound <= error <= within * bound, f"{own}: {bound}, {error}")
        cases += 1
    return cases
