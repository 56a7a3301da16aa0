"""Spec of ``histogram``: counts of public bins after a public matrix, plus integer noise in every
number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import isqrt, prod
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Norm, Source, SourceStatus, states

from .theory import bin_counts, lower_bounds
from .theory.bin_counts import Matrix
from .theory.boxes import LaplaceVectorLaw
from .theory.caches import lru_cache
from .theory.gaussian_laws import RoundedGaussianLaw
from .theory.laws import (
    DiscreteLaplaceLaw,
    TranscriptLaw,
    closed,
    least_tail,
    real,
    real_exponential,
)
from .theory.obligations import Departure, neighbors, require

Parameters = Mapping[str, Any]

DEPARTURES = (
    Departure(
        "DMNS06, Section 3",
        "integer noise instead of real Laplace noise",
        "counts are integers; real noise added in floats leaks through its low bits",
    ),
    Departure(
        "HRMS10, Section 4",
        "the branching and the height with the least mean variance over all ranges, for either "
        "noise; a circulant matrix for Gaussian noise",
        "a tree has to pay for every level; all ranges of a circle are answered best by a "
        "circulant",
    ),
)
_MATRICES = Source(
    "LMHMR15",
    "Section 3, the matrix mechanism",
    SourceStatus.CHANGED_CONSTANTS,
    note="integer matrices; the best circulant one",
)
_BITS = 15


# --- public matrices ------------------------------------------------------------------------------


def axes_of(parameters: Parameters) -> tuple[Any, ...]:
    """Give the axes with edges as exact numbers."""
    return tuple(
        axis if isinstance(axis, int) else tuple(map(Fraction, axis)) for axis in parameters["axes"]
    )


def overlap(bins: int, i: int, j: int) -> int:
    """Count the ranges of neighboring bins that contain both of two bins."""
    return (min(i, j) + 1) * (bins - max(i, j))


@states(_MATRICES)
@lru_cache(maxsize=16)
def kernel(bins: int, bits: int = _BITS) -> tuple[int, ...]:
    """Compute the first column of the best circulant matrix for all ranges, in units of its largest
    entry / 2^bits.

    With eigenvalues l_k of C^T C the squared sensitivity is (sum l_k) / n, and the variances of all
    ranges are (sum g_k / l_k) / n times it, where g are the eigenvalues of the circulant of the
    diagonals' sums of ``overlap``. By Cauchy-Schwarz the product is least for l_k in proportion to
    sqrt(g_k).
    """
    sums = [0] * bins
    for i, j in product(range(bins), repeat=2):
        sums[(i - j) % bins] += overlap(bins, i, j)

    def transformed(values: Sequence[Any], k: int) -> Any:
        return sum(v * mp.cos(2 * mp.pi * s * k / bins) for s, v in enumerate(values))

    roots = [mp.power(transformed(sums, k), mp.mpf(1) / 4) for k in range(bins)]
    column = [transformed(roots, s) for s in range(bins)]
    return tuple(int(mp.nint(entry / column[0] * 2**bits)) for entry in column)


@states(
    Source(
        "HRMS10", "Section 4, hierarchical sums with least squares", SourceStatus.CHANGED_CONSTANTS
    )
)
@lru_cache(maxsize=16)
def levels(bins: int, noise: str) -> tuple[int, ...]:
    """Choose the released levels of blocks of 2^(k l) bins: the least mean variance over all
    ranges, and the first of those that are within 10^-9 of it.
    """
    height = (bins - 1).bit_length()
    best: tuple[int, ...] = (1,)
    for step in range(1, height + 1):
        for top in range(0, height + 1, step):
            weights = tuple(int(level % step == 0) for level in range(top + 1))
            least = tree_error(bins, best, noise)
            if tree_error(bins, weights, noise) < least * (1 - Fraction(1, 10**9)):
                best = weights
    return best


@lru_cache(maxsize=256)
def tree_error(bins: int, weights: tuple[int, ...], noise: str) -> Fraction:
    """Compute the variances of all ranges of bins, added up, in units of a single count's noise.

    They are the trace of M^-1 G for M = A^T A and G = ``overlap``. M of a node is that of its two
    children beside each other, D, and weight^2 in every entry, so by Sherman and Morrison M^-1 =
    D^-1 - weight^2 v v^T / (1 + weight^2 sum v), v = D^-1 1: the trace falls by v^T G v in
    proportion, and M^-1 1 = v / (1 + weight^2 sum v).
    """

    def node(level: int, at: int) -> tuple[Fraction, Fraction, Fraction, Fraction]:
        """Give M^-1 1 of a node by its sum and its products with i + 1 and with G, and the
        trace.
        """
        if at << level >= bins:
            return (Fraction(0),) * 4
        if not level:
            one, held = Fraction(1, weights[0] ** 2), overlap(bins, at, at)
            return one, one * (at + 1), one**2 * held, one * held
        left, right = (node(level - 1, 2 * at + side) for side in (0, 1))
        total, first = left[0] + right[0], left[1] + right[1]
        crossing = 2 * left[1] * ((bins + 1) * right[0] - right[1])
        both, trace = left[2] + right[2] + crossing, left[3] + right[3]
        falls = 1 / (1 + weights[level] ** 2 * total)
        trace -= weights[level] ** 2 * falls * both
        return falls * total, falls * first, falls**2 * both, trace

    top = len(weights) - 1
    total = sum((node(top, at)[3] for at in range(-(-bins >> top))), Fraction(0))
    moved = bin_counts.bin_counts_sensitivity(
        (("levels", bins, tuple(weights)),),
        0,
        Norm.L1 if noise == "laplace" else Norm.SQUARED_L2,
        Adjacency.ADD_REMOVE,
    )
    assert moved is not None
    return total * (moved**2 if noise == "laplace" else moved)


def matrices(parameters: Parameters) -> tuple[Matrix, ...]:
    """Give the public matrix of each axis: of several with edges each circulant has fewer bits, 30
    in all.
    """
    factors: list[Matrix] = []
    ordered = [axis for axis in parameters["axes"] if not isinstance(axis, int)]
    bits = min(_BITS, 30 // max(1, len(ordered)))
    for axis in parameters["axes"]:
        bins = axis if isinstance(axis, int) else len(axis) - 1
        kind = "identity" if isinstance(axis, int) else parameters["strategy"]
        if kind == "circulant":
            factors.append(("circulant", bins, kernel(bins, bits)))
        else:
            tree: tuple[int, ...] = levels(bins, parameters["noise"])
            factors.append(("levels", bins, tree[:1] if kind == "identity" else tree))
    return tuple(factors)


# --- the law --------------------------------------------------------------------------------------


def _norm(parameters: Parameters) -> Norm:
    return Norm.L1 if parameters["noise"] == "laplace" else Norm.SQUARED_L2


def _moved(parameters: Parameters, other: int, adjacency: Adjacency) -> int:
    sensitivity = bin_counts.bin_counts_sensitivity(
        matrices(parameters), other, _norm(parameters), adjacency
    )
    assert sensitivity is not None
    return sensitivity


def other(parameters: Parameters) -> int:
    """Choose the weight of records outside: the largest that does not move the value further, at
    least 1."""
    if parameters["outside"] == "drop":
        return 0
    free, norm = _moved(parameters, 0, Adjacency.ADD_REMOVE), _norm(parameters)
    if parameters["adjacency"] is Adjacency.REPLACE:
        free -= 2 * prod(bin_counts.common(one, norm) for one in matrices(parameters))
    return max(1, free if norm is Norm.L1 else isqrt(max(1, free)))


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the sensitivity of the counts."""
    return {"counts": _moved(parameters, other(parameters), parameters["adjacency"])}


def scale(parameters: Parameters) -> Fraction:
    """Return multiplier x sensitivity; of a squared sensitivity the root, rounded up to a multiple
    of 2^-40.
    """
    moved, multiplier = (
        sensitivities(parameters)["counts"],
        Fraction(parameters["noise_multiplier"]),
    )
    if parameters["noise"] == "laplace":
        return multiplier * moved
    root = isqrt(moved << 80)
    return multiplier * Fraction(root + (root**2 < moved << 80), 2**40)


@states(
    Source("DMNS06", "Section 3, noise calibrated to L1 sensitivity"),
    Source("DRS22", "Gaussian noise on a query of known L2 sensitivity is mu-GDP"),
)
def law(parameters: Parameters, records: Sequence[Any]) -> TranscriptLaw:
    """Return the product of the counts with the public matrices, and the weighted number outside,
    plus noise.
    """
    rows = [one if isinstance(one, tuple) else (one,) for one in records]
    given = axes_of(parameters), matrices(parameters), other(parameters)
    center = bin_counts.value(rows, *given)
    kind = LaplaceVectorLaw if parameters["noise"] == "laplace" else RoundedGaussianLaw
    return closed("counts", kind(center, scale(parameters)))


_SMALL: tuple[tuple[Any, ...], ...] = (((0.0, 1.0, 2.0, 4.0),), ((0.0, 1.0, 4.0), 2), (3,))


@states(Source("DRS22", "Gaussian noise on a query of known L2 sensitivity is mu-GDP"))
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check on all neighbors of at most one record (of two under replace) that the loss under
    Laplace noise, and mu under Gaussian noise up to 2^-40, is at most claimed / multiplier, and
    for some pair that.
    """
    cases, multiplier = 0, Fraction(3, 2)
    numbers = (Fraction(-1), Fraction(0), Fraction(1), Fraction(4))
    for axes, adjacency, outside in product(_SMALL, Adjacency, ("drop", "count")):
        kinds = ["identity"] if axes == (3,) else ["identity", "tree", "circulant"]
        pairs = [*neighbors([*product(numbers, repeat=len(axes))], 1, adjacency)]
        for strategy, noise in product(kinds, ("laplace", "gaussian")):
            if (strategy, noise) == ("circulant", "laplace"):
                continue
            own: Parameters = {"axes": axes, "adjacency": adjacency, "noise_multiplier": multiplier}
            more = {"strategy": strategy, "noise": noise, "outside": outside}
            own |= more  # type: ignore[operator]
            largest = max(_loss(own, *pair) for pair in pairs)
            cases += len(pairs)
            gap = abs(largest - real(claimed / multiplier))
            require(gap < mp.mpf(10) ** -11, f"{own}: the largest is {largest}")
    return cases


def _loss(parameters: Parameters, left: Sequence[Any], right: Sequence[Any]) -> Any:
    one, two = (law(parameters, side).stages[0][1](()) for side in (left, right))
    if isinstance(one, RoundedGaussianLaw) and isinstance(two, RoundedGaussianLaw):
        return mp.sqrt(real(one.mu_squared(two)))
    assert isinstance(one, LaplaceVectorLaw)
    assert isinstance(two, LaplaceVectorLaw)
    return real(one.largest_loss(two))


# --- least squares --------------------------------------------------------------------------------


def estimates(parameters: Parameters) -> mp.matrix:
    """Compute the covariance of the least-squares counts for noise of variance 1: (A^T A)^-1 of
    each axis's matrix, of several axes their product; bins in the order of the first axis, then of
    the next."""
    covariance = mp.matrix([[1]])
    for matrix in matrices(parameters):
        columns = bin_counts.columns(matrix)
        gram = mp.matrix([[sum(map(int.__mul__, a, b)) for b in columns] for a in columns])
        inverse, size = gram**-1, len(columns)
        grown = mp.matrix(covariance.rows * size)
        for i, j in product(range(grown.rows), repeat=2):
            grown[i, j] = covariance[i // size, j // size] * inverse[i % size, j % size]
        covariance = grown
    return covariance


def deviation(parameters: Parameters) -> Any:
    """Return the standard deviation of the noise in each released number."""
    own = scale(parameters)
    if parameters["noise"] == "gaussian":
        return mp.sqrt(real(own) ** 2 + mp.mpf(1) / 12)
    w = real_exponential(1 / own)
    return mp.sqrt(2 * w) / (1 - w)


def expected_error(parameters: Parameters) -> Any:
    """Return the root of the expected squared noise of all counts together."""
    covariance = estimates(parameters)
    return deviation(parameters) * mp.sqrt(sum(covariance[i, i] for i in range(covariance.rows)))


def range_error(parameters: Parameters) -> Any:
    """Return the root of the mean, over all ranges of bins of one axis, of the squared noise."""
    covariance = estimates(parameters)
    total = sum(
        covariance[i, j] * overlap(covariance.rows, i, j)
        for i, j in product(range(covariance.rows), repeat=2)
    )
    return deviation(parameters) * mp.sqrt(2 * total / (covariance.rows * (covariance.rows + 1)))


@states(Source("GRS09", "geometric mechanism"))
def error_bound(parameters: Parameters, beta: Fraction) -> Any:
    """Return t with P(|noise| >= t) <= beta in a released number.

    For rounded Gaussian noise |z| >= t if scale |N| >= t - 1/2. With strategy "identity" a
    released number is a count.
    """
    own = scale(parameters)
    if parameters["noise"] == "gaussian":
        return real(own) * mp.sqrt(2) * mp.erfinv(1 - real(beta)) + 1
    return least_tail(DiscreteLaplaceLaw(0, own), beta)


@states(Source("HT10", "packing argument", note="for two datasets at distance k, in a single bin"))
def lower_bound(epsilon: Fraction) -> Any:
    """Return a lower bound on the expected absolute error, on some dataset, of every epsilon-DP
    count of a bin (add-remove).
    """
    return lower_bounds.two_point(epsilon, Fraction(1), 10**6)


@states(_MATRICES)
def obligation_kernel(claimed: Callable[[int], Sequence[int]] = kernel) -> int:
    """Check that of all circulant matrices the chosen one has the least mean variance over all
    ranges, for 2 to 8 bins.

    Proof. Eigenvalues l_k of C^T C decide it, by (sum l_k) (sum g_k / l_k) >= (sum sqrt(g_k))^2
    (Cauchy and Schwarz), with equality if and only if all l_k / sqrt(g_k) are one number: here
    to 1e-3, for the kernel is rounded. Every change of one of them by an eighth is worse.
    """
    cases = 0
    for bins in range(2, 9):
        sums = [sum(overlap(bins, i, (i - s) % bins) for i in range(bins)) for s in range(bins)]
        goal = [_spectrum(sums, k) for k in range(bins)]
        own = [abs(_spectrum(claimed(bins), k)) ** 2 for k in range(bins)]
        ratios = [value / mp.sqrt(abs(g)) for value, g in zip(own, goal, strict=True)]
        require(max(ratios) < min(ratios) * (1 + mp.mpf(10) ** -3), f"{bins} bins: {ratios}")
        for k, factor in product(range(bins), (mp.mpf(7) / 8, mp.mpf(9) / 8)):
            changed = [v * factor if i in (k, (bins - k) % bins) else v for i, v in enumerate(own)]
            more = _cost(changed, goal) > _cost(own, goal)
            require(more, f"{bins} bins: times {factor} at {k} is better")
            cases += 1
    return cases


def _spectrum(values: Sequence[Any], k: int) -> Any:
    return sum(v * mp.expjpi(mp.mpf(2) * s * k / len(values)) for s, v in enumerate(values))


def _cost(eigenvalues: Sequence[Any], goal: Sequence[Any]) -> Any:
    """Return the squared sensitivity times the variances of all ranges, in units of 1 / bins^2."""
    return sum(eigenvalues) * sum(abs(g) / own for g, own in zip(goal, eigenvalues, strict=True))


@states(
    Source(
        "HRMS10", "Section 4, hierarchical sums with least squares", SourceStatus.CHANGED_CONSTANTS
    )
)
def obligation_tree(claimed: Callable[[int, tuple[int, ...], str], Fraction] = tree_error) -> int:
    """Check that the variances of all ranges, added up, are those of the least-squares answers,
    for all trees of at most nine bins: the trace of (A^T A)^-1 times the numbers of ranges that
    contain two bins.
    """
    cases = 0
    for bins in range(1, 10):
        for weights in product((0, 1), repeat=(bins - 1).bit_length()):
            columns = bin_counts.columns(("levels", bins, (1, *weights)))
            gram = mp.matrix([[sum(map(int.__mul__, a, b)) for b in columns] for a in columns])
            inverse = gram**-1
            total = sum(
                inverse[i, j] * overlap(bins, i, j) for i, j in product(range(bins), repeat=2)
            )
            for noise, cost in (
                ("laplace", (1 + sum(weights)) ** 2),
                ("gaussian", 1 + sum(weights)),
            ):
                gap = abs(real(claimed(bins, (1, *weights), noise)) - total * cost)
                require(gap < mp.mpf(10) ** -9, f"{bins} bins, {weights}, {noise}: off by {gap}")
                cases += 1
    return cases
