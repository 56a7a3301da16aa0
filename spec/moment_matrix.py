"""Spec of ``moment_matrix``: one Gaussian release of first and second moments, and of the number of
records with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import floor, isqrt
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from .theory import box_moments, joint, queries, vectors
from .theory.box_moments import Box
from .theory.boxes import LaplaceVectorLaw
from .theory.gaussian_laws import UNIT, RoundedGaussianLaw, one_unit
from .theory.laws import PointLaw, TranscriptLaw, closed, real
from .theory.obligations import Departure, neighbors, require

Parameters = Mapping[str, Any]
Record = Fraction | tuple[Fraction, ...]

SIDE = 2**16
DEPARTURES = (
    Departure(
        "DRS22, the Gaussian mechanism",
        "the moments are of integers, the noise is rounded to 2^-40 of its standard deviation",
        "floats would leak; the sensitivity pays for it",
    ),
)
_MOMENTS = Source("OURS", "first and second moments of records in a box")
_LAPLACE = Source("DMNS06", "Section 3, noise calibrated to L1 sensitivity")
_GAUSSIAN = Source("DRS22", "Gaussian noise on a query of known L2 sensitivity is mu-GDP")


def box(parameters: Parameters) -> Box:
    """Return the public parameters of the query. Cells are the largest powers of two of which
    bounds contain 2^20.

    The ball's radius is the given one, or the half diagonal of the box; in units of 2^-16 of a
    column's half range. The constant is the root of .6 radii, or with targets .6 radii divided by
    the root of the number of columns, rounded down. Entries above the diagonal count as much as
    those on it, or 239 / 169 times as much, which makes the value nearly isometric to matrices:
    whichever leaves less noise in the Frobenius norm of the second moments that are released.
    """
    edges = tuple(
        queries.grid(low, high, 2**20)
        for low, high in zip(parameters["lower"], parameters["upper"], strict=True)
    )
    radius = isqrt(len(edges) * SIDE**2 - 1) + 1
    if parameters["radius"] is not None:
        radius = min(radius, floor(Fraction(parameters["radius"]) * SIDE))
    targets = parameters["targets"]
    square = 9 * radius**2 // (25 * len(edges)) if targets else 3 * radius * SIDE // 5
    constant = max(1, isqrt(square))
    counted = parameters["adjacency"] is Adjacency.ADD_REMOVE
    if parameters["noise"] == "laplace":
        return Box(edges, SIDE, radius, constant, 169, 169, counted, targets)
    both = [
        Box(edges, SIDE, radius, constant, 169, above, counted, targets) for above in (169, 239)
    ]
    return min(both, key=lambda one: frobenius_noise(one, parameters["adjacency"]))


def frobenius_noise(public: Box, adjacency: Adjacency) -> Fraction:
    """Return a number in proportion to the mean squared Frobenius norm of the noise in the second
    moments.
    """
    return public.moved_squared(adjacency) * _in_each(public)


def _in_each(public: Box) -> Fraction:
    """Return the mean squared Frobenius norm of released second moments, for noise of 1 in each."""
    k, t = len(public.edges) - public.targets, public.targets
    return Fraction(k, public.diagonal**2) + Fraction(k * (k - 1) + 2 * k * t, public.above**2)


def scale(parameters: Parameters) -> Fraction:
    """Return multiplier times sensitivity: of Laplace noise its scale, else its deviation, down to
    2^-40.
    """
    if parameters["noise"] == "laplace":
        return Fraction(parameters["noise_multiplier"]) * _in_l1(parameters)
    moved = box(parameters).moved_squared(parameters["adjacency"])
    return Fraction(parameters["noise_multiplier"]) * Fraction(isqrt(moved * 4**40), 2**40)


def _in_l1(parameters: Parameters) -> int:
    b = box(parameters)
    return box_moments.moved(len(b.edges), *b.numbers(), parameters["adjacency"])


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the squared sensitivity of each stage, in one unit; for Laplace noise in L1."""
    public = box(parameters)
    if parameters["noise"] == "laplace":
        return {**({} if public.counted else {"count": 0}), "moments": _in_l1(parameters)}
    rows, t = len(public.edges) + 1, public.targets
    width = (rows * (rows + 1) - t * (t + 1)) // 2 - (not public.counted)
    moved = public.moved_squared(parameters["adjacency"])
    square = vectors.one_unit_sensitivity(moved, scale(parameters), width, int(UNIT))
    return {"moments": square} if public.counted else {"count": 0, "moments": square}


@states(_MOMENTS, _GAUSSIAN, _LAPLACE)
def law(parameters: Parameters, records: Sequence[Record]) -> TranscriptLaw:
    """Return the law: moments and number plus noise; or the public number, then the moments plus
    noise.
    """
    public = box(parameters)
    rows = [record if isinstance(record, tuple) else (record,) for record in records]
    value, own = box_moments.moments(rows, public), scale(parameters)
    noisy: Any = RoundedGaussianLaw(one_unit(value, own), UNIT)
    if parameters["noise"] == "laplace":
        noisy = LaplaceVectorLaw(value, own)
    if public.counted:
        return closed("moments", noisy)
    n = len(records)
    stages = (("count", lambda prefix: PointLaw((n,))), ("moments", lambda prefix: noisy))
    return TranscriptLaw(stages, ((n,),))


def entry_noise(parameters: Parameters) -> Any:
    """Return the standard deviation of the noise in the sum of z_i z_j, i < j, in units of the
    bounds.
    """
    return _deviation(parameters) / (box(parameters).above * SIDE**2)


def _deviation(parameters: Parameters) -> Any:
    own = real(scale(parameters))
    return own * mp.sqrt(2) if parameters["noise"] == "laplace" else own


@states(_MOMENTS)
def expected_error(parameters: Parameters, n: int) -> Any:
    """Return the root mean squared Frobenius norm of the noise in the second moments of z that
    are released, over n.
    """
    public = box(parameters)
    each = public.above**2 * _in_each(public)
    return entry_noise(parameters) * mp.sqrt(real(each)) / n


@states(Source("OURS", "tail of the largest of several normal numbers"))
def error_bound(parameters: Parameters, n: int, beta: Fraction) -> Any:
    """Return a bound on the largest error of a second moment, over n, that fails with probability
    at most beta.

    Each of d (d + 1) / 2 may fail with its part of beta; the largest move by rounding to the
    unit is included.
    """
    public = box(parameters)
    d = len(public.edges)
    tail = real(beta) / (d * (d + 1) / 2)
    reach = mp.sqrt(2) * mp.erfinv(1 - tail) + 1 / real(UNIT)
    if parameters["noise"] == "laplace":
        reach = -mp.log(tail) + 1 / real(scale(parameters))
    least = min(public.above, public.diagonal)
    return reach * real(scale(parameters)) / (least * SIDE**2) / n


@states(_MOMENTS)
def regression_error(parameters: Parameters, n: int, variance: float) -> Any:
    """Return the root mean squared distance of coefficients from least squares, to first order,
    for uncorrelated features of this variance, in units of the bounds, that are independent of
    the target.

    It is the noise in their covariances with the target, less what the ridge takes.
    """
    k = len(parameters["lower"]) - 1
    noise = entry_noise(parameters) / n
    return mp.sqrt(k) * noise * variance / (mp.mpf(variance) ** 2 + k * noise**2)


@states(Source("OURS", "Assouad's lemma with group privacy of Gaussian DP"))
def lower_bound(parameters: Parameters, n: int) -> Any:
    """Return a lower bound on the root mean squared error, in Frobenius norm, of the second
    moments on some dataset of n records, of every estimate of this privacy.

    For v in {0, 1}^d let k <= n records have z_j^2 = v_j u, u = min(1, radius^2 / d), and the
    others 0, so the j-th second moment is v_j u k / n. Flipping v_j replaces k records: k mu-GDP.
    On average over v_j an estimate is then on the wrong side of u k / (2 n) with probability at
    least Phi(-k mu / 2), which costs (u k / (2 n))^2. Summed over j and averaged over v, the mean
    square is at least d (u k / (2 n))^2 Phi(-k mu / 2) for some v.
    joint.least_error(mu, n d, d) is the largest root of d (k / (n d))^2 Phi(-k mu / 2) over
    k <= n. The root of the bound is u d / 2 times as large, for k / (n d) times u d / 2 is
    u k / (2 n). Replacing is removing and adding: under add-remove, for 2 mu. QED
    """
    d = len(parameters["lower"])
    mu = 1 / real(Fraction(parameters["noise_multiplier"]))
    twice = 2 if parameters["adjacency"] is Adjacency.ADD_REMOVE else 1
    radius = box(parameters).radius
    most = min(Fraction(1), Fraction(radius**2, d * SIDE**2))
    return real(most) * d / 2 * joint.least_error(twice * mu, n * d, d)


# --- obligations --------------------------------------------------------------------------------

_UNIVERSES: dict[int, tuple[tuple[Fraction, ...], ...]] = {
    1: tuple((Fraction(x),) for x in (0, 1, -1, Fraction(1, 3), 10**30)),
    2: tuple(
        (Fraction(x), Fraction(y)) for x, y in ((0, 0), (1, 1), (-1, 1), (1, -1), (10**30, 0))
    ),
}


def _settings() -> Iterator[dict[str, Any]]:
    for adjacency, d, radius in product(Adjacency, (1, 2), (None, 1.0, 0.5)):
        for targets in range(d):
            yield _parameters(adjacency, d, radius=radius, targets=targets)


def _parameters(adjacency: Adjacency, d: int, **changes: Any) -> dict[str, Any]:
    return {
        "adjacency": adjacency,
        "noise_multiplier": Fraction(3, 2),
        "lower": (-1.0,) * d,
        "upper": (1.0,) * d,
        "radius": None,
        "noise": "gaussian",
        "at_least": 1,
        "targets": 0,
        **changes,
    }


@states(_MOMENTS, _GAUSSIAN)
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check on all neighbors of at most 2 records that the exact mu is at most
    claimed / multiplier, up to the grid's 2^-18, and at most the code's sensitivity in one
    unit.

    Under add-remove it is within 2^-4 of that for some pair; under replace some pairs have half
    of its square, or 2/5 with targets in a ball.
    """
    cases, slack = 0, 1 + Fraction(1, 2**18)
    for parameters in _settings():
        universe = _UNIVERSES[len(parameters["lower"])]
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
        near = Fraction(15, 16)
        if parameters["adjacency"] is Adjacency.REPLACE:
            near = Fraction(2, 5) if _cut(parameters) else Fraction(1, 2)
        require(largest >= square * near, case)
    return cases


def _cut(parameters: Parameters) -> bool:
    """Return whether a ball shortens features and targets together, for which bounds are wider."""
    return bool(parameters["targets"]) and parameters["radius"] is not None


@states(_MOMENTS, _LAPLACE)
def obligation_laplace_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check on all neighbors of at most 2 records that the largest loss of Laplace noise is at
    most claimed / multiplier; under add-remove it is within 2^-4 of that for some pair, or 1/4
    with targets in a ball, under replace within half.
    """
    cases = 0
    for parameters in _settings():
        parameters["noise"] = "laplace"
        universe, largest = _UNIVERSES[len(parameters["lower"])], Fraction(0)
        known: dict[Any, Any] = {}
        for pair in neighbors(universe, 2, parameters["adjacency"]):
            for records in pair:
                if records not in known:
                    transcript = law(parameters, records)
                    known[records] = transcript.stages[-1][1](transcript.example)
            largest = max(largest, known[pair[0]].largest_loss(known[pair[1]]))
            cases += 1
        stated = claimed / parameters["noise_multiplier"]
        case = f"{parameters}: {float(largest)}, claimed {float(stated)}"
        require(largest <= stated, case)
        near = Fraction(1, 2)
        if parameters["adjacency"] is Adjacency.ADD_REMOVE:
            near = Fraction(3, 4) if _cut(parameters) else Fraction(15, 16)
        require(largest >= stated * near, case)
    return cases


def obligation_lower_bound_is_below_error(claimed: int = 20) -> int:
    """Check that the root mean squared error is above the lower bound, and at most ``claimed``
    times it a column.
    """
    cases = 0
    for adjacency, d in product(Adjacency, (1, 3, 10)):
        for n, multiplier in ((100, "1"), (1000, "10"), (10, "1/2")):
            parameters = _parameters(adjacency, d, noise_multiplier=Fraction(multiplier))
            bound, error = lower_bound(parameters, n), expected_error(parameters, n)
            require(bound <= error <= claimed * d * bound, f"{parameters}, {n}: {bound}, {error}")
            cases += 1
    return cases
