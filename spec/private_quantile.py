"""Spec of ``private_quantile``: a cell of a public grid, by the exponential mechanism."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from .theory import queries, tables
from .theory.laws import TranscriptLaw, closed, real, real_exponential
from .theory.obligations import Departure, datasets, neighbors, require
from .theory.quantiles import QuantileLaw

Parameters = Mapping[str, Any]

DEPARTURES = (
    Departure(
        "S11, private quantiles by the exponential mechanism",
        "cells of a fixed public grid are chosen, not points of the intervals between records",
        "a real number drawn between two records is rounded to a float near them, so that the "
        "set of possible outputs depends on the records; every cell is possible for every "
        "dataset",
    ),
    Departure(
        "S11, private quantiles by the exponential mechanism",
        "under add-remove scores are divided by max(p, q - p), not by q",
        "p n moves together with q #{z < t} and q #{z <= t}, so they move by less than under "
        "replace",
    ),
    Departure(
        "S11, private quantiles by the exponential mechanism",
        "a record's cell has all ranks #{z < t}..#{z <= t}, and its score is p n / q's distance "
        "from them",
        "the intervals of length 0 between equal records are never drawn there; here ties are",
    ),
    Departure(
        "AD20, the inverse sensitivity mechanism",
        "cells are weighed by how far their ranks are from the quantile's, not by how many records "
        "have to be replaced for a cell to hold it",
        "for a quantile the two differ by one record at most (obligation_inverse_sensitivity): at "
        "the same epsilon every cell has its probability there up to a factor of e^(epsilon / 2)",
    ),
)


def grid(parameters: Parameters) -> queries.Grid:
    """Return the grid, of cells that are at most 2^-20 of the interval, unless given."""
    return queries.grid(parameters["lower"], parameters["upper"], 2**20, parameters["cell"])


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the sensitivity of the score."""
    p, q = _quantile(parameters)
    return {"cell": tables.score_sensitivity(p, q, parameters["adjacency"])}


def scale(parameters: Parameters) -> Fraction:
    """Return 2 multiplier times the sensitivity: then losses lie in an interval of length
    1 / multiplier.
    """
    noise: Fraction = 2 * parameters["noise_multiplier"] * sensitivities(parameters)["cell"]
    return noise


@states(
    Source("S11", "private quantiles by the exponential mechanism"),
    Source("MT07", "the exponential mechanism", note="bounded range: DDR20, Section 3"),
)
def law(parameters: Parameters, records: Sequence[Fraction]) -> TranscriptLaw:
    """Return the law of one cell t, with mass proportional to e^(-max(0, q #{z < t} - p n, p n - q
    #{z <= t}) / scale).
    """
    lower, upper, cell = grid(parameters)
    cells = sorted(queries.to_cells(record, lower, upper, cell) for record in records)
    return closed(
        "cell", QuantileLaw(tuple(cells), lower, upper, *_quantile(parameters), scale(parameters))
    )


_WIDE = (0, 1, 2**19, 2**20)
"""Records on a grid of 2^20 + 1 cells: its ends, the cell next to one, its middle."""


def _models(
    quantile: Fraction, adjacency: Adjacency, upper: int, universe: Sequence[int], most: int
) -> Iterator[tuple[QuantileLaw, QuantileLaw]]:
    """Return the laws of all small neighbors; with multiplier 1, so that losses are multiples of
    it.
    """
    p, q = quantile.as_integer_ratio()
    width = Fraction(2 * tables.score_sensitivity(p, q, adjacency))
    for pair in neighbors(universe, most, adjacency):
        left, right = (QuantileLaw(tuple(sorted(z)), 0, upper, p, q, width) for z in pair)
        yield left, right


@states(Source("MT07", "the exponential mechanism", note="bounded range: DDR20, Section 3"))
def obligation_range(claimed: Fraction = Fraction(1)) -> int:
    """Check that losses of all neighbors of at most 4 records lie in an interval of length
    claimed / multiplier, and for the quantiles 1/4 and 1/2 and some pair in no shorter one;
    exactly, for totals cancel.

    For the quantiles 0 and 1 scores move in one direction only, and half of the interval is
    unused; 9/10 needs more records to use all of it.
    """
    cases, half, whole = 0, Fraction(1, 2), Fraction(1)
    for adjacency in Adjacency:
        most = Fraction(7, 10) if adjacency is Adjacency.REPLACE else Fraction(2, 3)
        for p, share in (("0", half), ("1/4", whole), ("1/2", whole), ("9/10", most), ("1", half)):
            pairs = _models(Fraction(p), adjacency, 3, range(4), 4)
            moves = [own.moves(other) for own, other in pairs]
            cases, largest = cases + len(moves), max(max(losses) - min(losses) for losses in moves)
            case = f"{p}, {adjacency}: the losses' largest range is {largest}, of {claimed}"
            require(largest == claimed * share, case)
    return cases


@states(Source("MT07", "the exponential mechanism", note="bounded range: DDR20, Section 3"))
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check that the median's losses on wide grids are below claimed / multiplier, by less than
    10^-5 of it.
    """
    cases = 0
    for adjacency in Adjacency:
        pairs = _models(Fraction(1, 2), adjacency, _WIDE[-1], _WIDE, 3)
        losses = [own.largest_loss(other) for own, other in pairs]
        cases, short = cases + len(losses), real(claimed) - max(losses)
        require(0 <= short < mp.mpf(10) ** -5, f"{adjacency}: the largest loss is {max(losses)}")
    return cases


@states(Source("OURS", "every cell of a public grid is possible for every dataset"))
def obligation_support() -> int:
    """Check that every cell has a positive mass, by its score, and that all masses add up to 1,
    fraction for fraction.
    """
    cases, lower, upper, width = 0, -1, 3, Fraction(3)
    for (p, q), cells in product(((0, 1), (1, 2), (9, 10)), datasets(range(lower, upper + 1), 3)):
        model, ordered = QuantileLaw(tuple(sorted(cells)), lower, upper, p, q, width), Fraction(0)
        weights = [_formal(tables.score(cells, t, p, q) / width) for t in range(lower, upper + 1)]
        for t, weight in zip(range(lower, upper + 1), weights, strict=True):
            mass = model.probability((t,), _formal)
            require(mass == weight / sum(weights) > 0, f"{p}/{q}, {cells}: cell {t} has {mass}")
            ordered += mass
        require(ordered == 1, f"{p}/{q}, {cells}: {ordered}")
        cases += len(weights)
    return cases


def length(cells: Sequence[int], t: int, p: int, q: int) -> int:
    """Count how many records have to be replaced for t to be the record of rank m = ceil(p n / q),
    at least 1.

    Proof. t is that record if at most m - 1 are below and at least m at or below it. A replacement
    changes both numbers by one at most, and records that are moved from below t, or from above it,
    to t change the one that fails. QED
    """
    m = max(1, -(-p * len(cells) // q))
    below, up_to = sum(z < t for z in cells), sum(z <= t for z in cells)
    return max(0, below - m + 1, m - up_to)


@states(
    Source("AD20", "the inverse sensitivity mechanism", note="a quantile's is ours within a rank")
)
def obligation_inverse_sensitivity(claimed: Fraction = Fraction(1)) -> int:
    """Check that the choice by scores is within e^(claimed epsilon / 2) of the inverse sensitivity
    mechanism.

    A cell's length is the number of records that must change for it to be the quantile. It is
    at least the cell's score over q and at most ``claimed`` more, which some cell has; lengths
    move by at most 1 between neighbors, as scores over q do. So the probabilities
    e^(-length epsilon / 2) and e^(-score epsilon / (2 q)), each divided by their total, are
    within e^(claimed epsilon / 2) of each other.

    Proof. As m - 1 < p n / q <= m, #{z < t} - m + 1 is up to 1 more than #{z < t} - p n / q,
    and m - #{z <= t} less than 1 more than p n / q - #{z <= t}. Weights and their totals are
    then within a factor of e^(epsilon / 2), and weights by lengths are the smaller ones. QED
    """
    cases, universe, most = 0, range(4), Fraction(0)
    for (p, q), n in product(((1, 2), (1, 4), (9, 10)), range(1, 5)):
        ordered = [tuple(cells) for cells in datasets(universe, n) if len(cells) == n]
        held = {cells: sorted(cells)[max(1, -(-p * n // q)) - 1] for cells in ordered}
        for cells, t in product(ordered, universe):
            steps = [
                sum(x != y for x, y in zip(cells, other, strict=True))
                for other in ordered
                if held[other] == t
            ]
            own, score = length(cells, t, p, q), Fraction(tables.score(cells, t, p, q), q)
            require(
                own == min(steps), f"{p}/{q}, {cells}: cell {t} is {min(steps)} away, not {own}"
            )
            require(0 <= own - score <= claimed, f"{p}/{q}, {cells}: {own}, {score}")
            most, cases = max(most, own - score), cases + 1
        for left, right in neighbors(universe, min(n, 3), Adjacency.REPLACE):
            if len(left) == n:
                moved = [abs(length(left, t, p, q) - length(right, t, p, q)) for t in universe]
                require(max(moved) <= 1, f"{left}, {right}: {moved}")
    require(most == claimed, f"lengths are at most {most} longer")
    return cases + _alike(claimed)


def _alike(claimed: Fraction) -> int:
    """Compare both laws on 2^6 cells, and by how much they differ."""
    cases, reach = 0, mp.mpf(1)
    for epsilon, rows in product(map(Fraction, ("1/10", "1", "4")), ((3, 9, 9, 50), (0, 1, 60))):
        grid_of, half = range(64), real(epsilon) / 2
        by_score = [mp.exp(-half * tables.score(rows, t, 1, 2) / 2) for t in grid_of]
        by_length = [mp.exp(-half * length(rows, t, 1, 2)) for t in grid_of]
        totals = mp.fsum(by_score), mp.fsum(by_length)
        for a, b in zip(by_score, by_length, strict=True):
            ratio = (a / totals[0]) / (b / totals[1])
            bound = mp.exp(half * real(claimed))
            require(1 / bound <= ratio <= bound, f"{epsilon}, {rows}: {ratio}, {bound}")
            reach, cases = max(reach, abs(mp.log(ratio)) / half), cases + 1
    require(reach > mp.mpf(1) / 4, f"they differ by {reach} of it")
    return cases


def _formal(exponent: Fraction) -> Fraction:
    """Return a stand-in for e^-exponent, for exponents in thirds."""
    return Fraction(1, 2) ** int(exponent * 3)


@states(Source("S11", "utility of the exponential mechanism", note="in ranks"))
def error_bound(parameters: Parameters, beta: Fraction) -> Any:
    """Return a bound (scale / q) ln(cells / beta) on the rank error of the released cell, which
    holds with probability at least 1 - beta.

    The rank error of cell t is the distance of p n / q from the ranks #{z < t}..#{z <= t}.

    Proof. The first cell with q #{z <= t} >= p n (the last cell has that) has the score 0, for
    up to the cell before there are fewer. So the total of all weights is at least 1, and cells
    with a score above s have together a probability below cells e^(-s / scale), which is beta
    for this s / q. QED.
    Where all records share a cell, the others are min(p, q - p) n / q ranks off, so one of them
    is released with probability at most cells e^(-min(p, q - p) n / scale).
    """
    lower, upper, _ = grid(parameters)
    _, q = _quantile(parameters)
    return real(scale(parameters) / q) * mp.log((upper - lower + 1) / real(beta))


def expected_error(parameters: Parameters, records: Sequence[Fraction]) -> Any:
    """Return the root mean squared rank error on these records, exactly: every cell by its
    probability.
    """
    _, q = _quantile(parameters)
    ((_, chosen),) = law(parameters, records).stage_laws()
    assert isinstance(chosen, QuantileLaw)
    total = squares = mp.mpf(0)
    for first, last in chosen.stretches():
        score = chosen.score(first)
        weight = (last - first + 1) * real_exponential(score / chosen.scale)
        total, squares = total + weight, squares + weight * real(Fraction(score, q)) ** 2
    return mp.sqrt(squares / total)


def obligation_error(factor: Fraction = Fraction(1)) -> int:
    """Check on every small dataset that ``factor`` times the bound is exceeded with probability at
    most beta.
    """
    cases = 0
    parameters = {"lower": 0.0, "upper": 7.0, "cell": Fraction(1), "adjacency": Adjacency.REPLACE}
    parameters |= {"quantile": Fraction(1, 2), "noise_multiplier": Fraction(1, 4)}
    for beta, cells in product((Fraction(1, 2), Fraction(1, 20)), datasets((0, 1, 3, 7), 4)):
        model = law(parameters, [Fraction(z) for z in cells]).stage_laws()[0][1]
        most = real(factor) * error_bound(parameters, beta)
        errors = {t: mp.mpf(tables.score(cells, t, 1, 2)) / 2 for t in range(8)}
        beyond = [model.probability((t,), real_exponential) for t, s in errors.items() if s > most]
        require(sum(beyond) <= real(beta), f"{cells}: {sum(beyond)} is above {beta}")
        require(min(errors.values()) == 0, f"{cells}: no cell has the quantile's rank")
        cases += 1
    return cases


@states(Source("HT10", "packing argument", note="of one cell in which the quantile lies alone"))
def lower_bound(parameters: Parameters, epsilon: Fraction, n: int) -> Any:
    """Return a lower bound on the expected rank error, on some dataset of n records, of every
    epsilon-DP choice of a cell, where q divides p n.

    Let p n / q - r records lie in the first cell, 2 r in cell j, and the others in the last
    cell. Then cell j has rank error 0 and every other at least r, so the events "the error is
    below r" exclude each other for the N choices of j. These datasets differ in 2 r records:
    one has an event of probability at most e^(2 r epsilon) / N (4 r steps under add-remove).
    """
    lower, upper, _ = grid(parameters)
    quantile, best = parameters["quantile"], mp.mpf(0)
    steps = 2 if parameters["adjacency"] is Adjacency.REPLACE else 4
    for r in range(1, int(min(quantile, 1 - quantile) * n) + 1):
        bound = r * (1 - mp.exp(real(steps * r * epsilon)) / (upper - lower + 1))
        if bound <= best:  # concave in r
            break
        best = bound
    return best


def obligation_lower_bound_is_below_error() -> int:
    """Check that the expected error of the hardest dataset is above the bound, and that the bound
    of error in expectation, (scale / q) (ln cells + 1), is within 24 times of it.
    """
    cases = 0
    for adjacency, epsilon in product(Adjacency, (Fraction(1, 100), Fraction(1, 10))):
        parameters: dict[str, Any] = {"lower": 0.0, "upper": 1.0, "cell": None}
        parameters |= {"adjacency": adjacency, "noise_multiplier": 1 / epsilon}
        parameters["quantile"] = Fraction(1, 2)
        bound = lower_bound(parameters, epsilon, 10**4)
        # P(error > (scale / q) (ln cells + s)) <= e^-s, so this is a bound of the expected error
        most = error_bound(parameters, Fraction(1)) + real(scale(parameters) / 2)
        require(0 < bound <= most <= 24 * bound, f"{adjacency}, {epsilon}: {bound}, {most}")
        cases += 1
    return cases


def _quantile(parameters: Parameters) -> tuple[int, int]:
    p, q = Fraction(parameters["quantile"]).as_integer_ratio()
    return p, q
