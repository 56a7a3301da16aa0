"""Spec of ``rescaled_mean``: who agrees, then a noisy number of them and their noisy mean, after M^(-1/4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from .theory import rescaled_laws, scale_ladder
from .theory.core_means import Basic, Gaussian, Weights, gaussian_shift, laplace_shift
from .theory.filters import gaussian_probability, mean_noise
from .theory.gaussian_laws import UNIT, RoundedGaussianLaw
from .theory.laws import DiscreteLaplaceLaw, real, real_exponential
from .theory.lower_bounds import tracing
from .theory.obligations import Departure, require
from .theory.profiles import gaussian_profile
from .theory.rescaled_laws import ALGORITHM, WEIGHTS, public_map, setting_of, shares
from .theory.rescaling import quarter_root, rescaling, spectrum

Parameters = Mapping[str, Any]
ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
DEPARTURES = (
    Departure(
        "DJYZZ24, Algorithm 1",
        "by default no random filter: records are averaged with weights max(0, 2 degree - n), and a "
        "released agreement stands for the number of kept records",
        "the weights are what the filter keeps on average; without its coins nothing is lifted, and "
        "at (1, 1e-6) and n = 2000 the noise is 4.6 times less",
    ),
    Departure(
        "DJYZZ24, Algorithm 1, privacy",
        "with filter = basic, what runs behind the filter has epsilon ln(1 + epsilon / 2), and delta "
        "less accordingly (replace: 3 for 2); not epsilon and delta themselves",
        "with the displayed constants the whole is (O(epsilon), O(delta))-DP only: at (1, 1e-6) a clique of "
        "1999 with and without a record that has no friends tell the noisy number apart, delta(1) = 0.317",
    ),
    Departure(
        "DJYZZ24, Algorithm 1",
        "lambda and the matrix are public parameters; lambda comes from a public n_max",
        "computed from the number of rows, one record changes who is friends with whom: half of the "
        "records at 0, half at a distance between lambda(n - 1) and lambda(n)",
    ),
    Departure(
        "DJYZZ24, Algorithm 1",
        "the predicate and the mean see the same integers; the mean is divided by its noise, rounded "
        "to 2^-40 of it, and pays for that",
        "floats would leak, and a predicate on other numbers than those averaged proves nothing",
    ),
    Departure(
        "DJYZZ24, Theorem 5.3",
        "in the lower bound by buckets a bucket's records have its least deviation, not its largest",
        "records of any covariance in the bucket come from these by adding noise, which cannot be taken away",
    ),
)
_TAIL = Source("DJYZZ24", "Theorem 3.1, accuracy", SourceStatus.CHANGED_CONSTANTS, "explicit")


@states(WEIGHTS, ALGORITHM)
def law(parameters: Parameters, records: Sequence[Any]) -> Any:
    """The agreement and the mean, or what a filter's coins hide; on the rung of a ladder, where there is one."""
    if scale_ladder.has_ladder(parameters):
        mean: Any = rescaled_laws.law
        return scale_ladder.law(parameters, records, mean)
    return rescaled_laws.law(parameters, records)


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """By stage, of the mean squared in one unit; behind a filter for friendly neighbors."""
    if scale_ladder.has_ladder(parameters):
        return scale_ladder.sensitivities(sensitivities(scale_ladder.on_rung(parameters, 0)))
    plan, width = shares(parameters), len(parameters["matrix"])

    def unit(spread: Fraction) -> int:
        with mp.workdps(60):
            return int(mp.ceil((real(UNIT / spread) + mp.sqrt(width)) ** 2))

    if isinstance(plan, Weights):
        return {"agreement": plan.moves, "mean": unit(plan.spread)}
    if isinstance(plan, Basic):
        return {"kept": 1, "mean": unit(plan.multiplier)}
    rows = 0 if plan.adjacency is REPLACE else 1
    return {"rows": rows, "kept": 1, "mean": unit(setting_of(plan, plan.fewest).spread)}


# --- errors -------------------------------------------------------------------------------------


@states(_TAIL)
def expected_error(parameters: Parameters, n: int) -> Any:
    """The root mean squared |estimate - mean| of n records that are all friends, where there is one, in
    the data's units: noise of deviation a R s / r times M^(1/4), averaged over the released r."""
    public = public_map(parameters)
    number, least = _released(parameters, n)
    outcomes, _ = number.most_outcomes()
    largest = real(_noise(parameters, n, 1) * public.cell)
    total, squares = mp.mpf(0), mp.mpf(0)
    with mp.workdps(15):
        for (released,) in outcomes:
            if released >= least:
                mass = real(number.probability((released,), real_exponential))
                total += mass
                squares += mass / released**2
        return largest * mp.sqrt(squares / total * _trace(parameters))


@states(_TAIL)
def error_bound(parameters: Parameters, n: int, beta: Fraction, covariance: Any = None) -> Any:
    """A bound on |estimate - mean| for n records that are all friends, in the data's units, that fails
    with probability at most 2 beta: (a R s / (n - shift - t)) (sqrt(tr M^(1/2)) + sqrt(2 |M^(1/2)| ln(1 /
    beta))), t the noise's quantile at beta.

    With a covariance proxy (a matrix or a diagonal) about the expectation of sub-Gaussian records, that
    fails with 3 beta: sqrt(tr S / n) + sqrt(2 |S| ln(1 / beta) / n) more. Raises ValueError where it
    may abstain with more than beta.
    """
    number, least = _released(parameters, n)
    (center,) = number.center if isinstance(number, RoundedGaussianLaw) else (number.center,)
    surely = center - least_quantile(number, beta)
    if surely < least:
        raise ValueError(f"n = {n}: at least {surely} is released, less than the gate's {least}")
    noise = real(_noise(parameters, n, surely) * public_map(parameters).cell)
    levels = [mp.sqrt(value) for value in spectrum(parameters["matrix"])]
    found = noise * _length(levels, beta)
    if covariance is not None:
        found += _length(spectrum(covariance), beta) / mp.sqrt(n)
    return found


def _length(eigenvalues: Sequence[Any], beta: Fraction) -> Any:
    """That a sub-Gaussian vector of these exceeds with probability at most beta (spec/theory/joint.py)."""
    level = 2 * mp.log(1 / real(beta))
    return mp.sqrt(mp.fsum(eigenvalues)) + mp.sqrt(max(eigenvalues) * level)


def least_quantile(number: Any, beta: Fraction) -> int:
    """t with P(number <= center - t - 1) <= beta."""
    if isinstance(number, RoundedGaussianLaw):
        return gaussian_shift(number.scale, beta) - 1
    return laplace_shift(number.scale, beta) - 1


def _released(parameters: Parameters, n: int) -> tuple[Any, int]:
    """The law of the released number for n friends, and the gate. Raises ValueError for scores, whose
    noise loses records."""
    plan = shares(parameters)
    if isinstance(plan, Weights):
        return RoundedGaussianLaw((n - plan.shift,), plan.scale), plan.least
    if isinstance(plan, Basic):
        return DiscreteLaplaceLaw(n - plan.shift, plan.scale), 1
    raise ValueError("no closed form of the error with noisy scores")


def _noise(parameters: Parameters, n: int, released: int) -> Fraction:
    """In cells, after the map."""
    plan, radius = shares(parameters), public_map(parameters).radius
    if isinstance(plan, Weights):
        return plan.noise(radius, released)
    return mean_noise(radius, Fraction(parameters["noise_multiplier"]), released)


def _trace(parameters: Parameters) -> Any:
    """Of M^(1/2)."""
    return mp.fsum(mp.sqrt(value) for value in spectrum(parameters["matrix"]))


@states(Source("OURS", "anisotropic tracing bound, without a loss of log d"))
def lower_bound(parameters: Parameters, n: int) -> Any:
    """No estimate of this privacy has a smaller root mean squared error about the mean p, both for n and
    for n - 1 records of N(p, M), for every p (theory/lower_bounds.py), at the best of a few points of
    the claim's profile."""
    d = len(parameters["matrix"])
    points = [(epsilon, _delta(parameters, epsilon)) for epsilon in _EPSILONS]
    budget = parameters["budget"]
    if hasattr(budget, "epsilon") and hasattr(budget, "delta"):
        points.append((budget.epsilon, real(budget.delta)))
    bounds = [tracing(_trace(parameters), d, n, e, delta) for e, delta in points if delta < 1]
    return max(bounds, default=mp.mpf(0))


_EPSILONS = tuple(map(Fraction, ("1/4", "1/2", "1", "2", "4")))


def _delta(parameters: Parameters, epsilon: Fraction) -> Any:
    """Of the Gaussian guarantee that the stages compose to; 1 for the basic filter."""
    rare = {"weights": 1, "gaussian": 2 + (parameters["adjacency"] is ADD_REMOVE), "basic": 0}
    times = rare[parameters["filter"]]
    if not times:
        return mp.mpf(1)
    square = 1 / Fraction(parameters["noise_multiplier"]) ** 2
    if scale_ladder.has_ladder(parameters):
        square += 1 / Fraction(parameters["ladder_multiplier"]) ** 2
    return gaussian_profile(square, epsilon) + times * real(parameters["tail"])


# --- obligations --------------------------------------------------------------------------------


def _settings() -> Iterator[dict[str, Any]]:
    for adjacency, kind in product(Adjacency, ("weights", "basic", "gaussian")):
        for multiplier, n_max in (("17/4", 2000), ("17/4", 100_000), ("6/5", 200), ("1/2", 50)):
            for matrix in ((2.0,), (1.0, 0.25, 1e-3), ((2.0, 0.5), (0.5, 0.3))):
                yield _parameters(adjacency, kind, Fraction(multiplier), n_max, matrix=matrix)


def _parameters(
    adjacency: Adjacency, kind: str, multiplier: Fraction, n_max: int, **own: Any
) -> dict[str, Any]:
    return {
        "adjacency": adjacency,
        "filter": kind,
        "noise_multiplier": multiplier,
        "n_max": n_max,
        "matrix": (1.0,),
        "radius": 1.0,
        "tail": Fraction(1, 10**7),
        "budget": None,
        **own,
    }


@states(WEIGHTS, ALGORITHM)
def obligation_shares(claimed: Fraction = Fraction(1)) -> int:
    """The stages' mu^2 add up to at most claimed / multiplier^2, and to at least 999/1000 of it; what runs
    after a filter, to what the scores leave, for the fewest rows and for many."""
    cases = 0
    for parameters in _settings():
        plan, d = shares(parameters), len(parameters["matrix"])
        allowed = claimed / parameters["noise_multiplier"] ** 2
        for spent in _spent(plan, d):
            case = f"{parameters}: {mp.nstr(spent, 12)}, {float(allowed)}"
            require(mp.mpf("0.999") * real(allowed) <= spent <= real(allowed), case)
            cases += 1
    return cases


def _spent(plan: Weights | Basic | Gaussian, d: int) -> Iterator[Any]:
    """mu^2 of all stages together."""

    def of_mean(spread: Fraction) -> Any:
        return (1 / real(spread) + mp.sqrt(d) / 2**40) ** 2

    if isinstance(plan, Weights):
        yield real((plan.moves / plan.scale) ** 2) + of_mean(plan.spread)
    if isinstance(plan, Gaussian):
        kept, noisy = plan.counts
        rows = 0 if plan.adjacency is REPLACE else 1 / noisy**2
        for assumed in (plan.fewest, plan.assumed(50 * plan.fewest)):
            setting = setting_of(plan, assumed)
            p, q = setting.weights
            scores = plan.cost(q, p) * assumed / setting.sigma**2
            outside = (q - p) ** 2 * assumed / setting.sigma**2
            inside = real(scores + 1 / kept**2) + of_mean(setting.spread)
            yield real(rows) + max(inside, real(outside))


@states(WEIGHTS)
def obligation_shift(claimed: Callable[[Weights], int] = lambda plan: plan.shift) -> int:
    """A released agreement is above both true ones (less 2 under replace) with probability at most
    ``tail``, where they are as far apart as they can be; and with one less it is not."""
    cases = 0
    for parameters in _settings():
        plan = shares(parameters)
        if not isinstance(plan, Weights):
            continue
        slack = 0 if plan.adjacency is ADD_REMOVE else 2
        for shift, rare in ((claimed(plan), True), (claimed(plan) - 1, False)):
            # the larger one, lowered by the shift, with noise above the smaller one less the slack
            above = gaussian_probability(0, plan.scale, shift - plan.moves - slack)
            case = f"{parameters}: shift {shift}, probability {mp.nstr(above, 8)}"
            require((above <= real(plan.tail)) is rare, case)
            cases += 1
    return cases


_RECORDS: dict[int, tuple[tuple[Fraction, ...], ...]] = {
    1: tuple((Fraction(x),) for x in (0, 1, -0.3, 5e-324, 1000.1)),
    2: tuple((Fraction(x), Fraction(y)) for x, y in ((0, 0), (1, 0), (-0.3, 0.7), (5e-324, 100.1))),
}


@states(ALGORITHM)
def obligation_map(claimed: int = 1) -> int:
    """An image is within sqrt(d) + ``claimed`` cells, or 2^-18 of it, of M^(-1/4) x; the radius has 2^20 to 2^21 cells; and
    places beyond the outer box are clamped to it."""
    cases = 0
    matrices: tuple[Any, ...] = ((16.0,), (0.3,), (2.0, 1e-3), ((2.0, 0.5), (0.5, 0.3)))
    for matrix, radius in product(matrices, (1.0, 0.3, 7e10)):
        public, d = rescaling(matrix, radius), len(matrix)
        full = matrix if isinstance(matrix[0], tuple) else _diagonal(matrix)
        root = quarter_root(full)
        require(2**20 <= public.radius < 2**21, f"{matrix}, {radius}: {public.radius} cells")
        for record in _RECORDS[d]:
            exact = root * mp.matrix([real(x) for x in record]) / real(public.cell)
            gaps = [y - x for y, x in zip(public.image(record), exact, strict=True)]
            most = mp.sqrt(d) + claimed + mp.norm(exact) / 2**18
            case = f"{matrix}, {radius}, {record}: off by {mp.nstr(mp.norm(mp.matrix(gaps)), 6)}"
            require(mp.norm(mp.matrix(gaps)) <= most, case)
            cases += 1
        far = public.image((Fraction(10) ** 300,) * d)
        require(max(map(abs, far)) == 2**40 or len(public.matrix) > 0, f"{matrix}: {far}")
    return cases


def _diagonal(matrix: Sequence[float]) -> tuple[tuple[float, ...], ...]:
    return tuple(
        tuple(m if i == k else 0.0 for k in range(len(matrix))) for i, m in enumerate(matrix)
    )


def obligation_lower_bound_is_below_error(claimed: int = 40) -> int:
    """For records of N(p, M) the root mean squared error (noise, and sampling besides) is above the lower
    bound; the noise within 40 times of it (about 12 for lambda over sqrt(tr M^(1/2)), 1 / mu and 17/16; twice that
    under replace)."""
    cases = 0
    for adjacency, d, n in product(Adjacency, (5, 50), (10_000,)):
        matrix = tuple(1.0 / (i + 1) ** 2 for i in range(d))
        trace = sum(m**0.5 for m in matrix)
        own = {"matrix": matrix, "radius": (2 * trace) ** 0.5 + (4 * math.log(n)) ** 0.5}
        parameters = _parameters(adjacency, "weights", Fraction(17, 4), n, **own)
        bound, noise = lower_bound(parameters, n), expected_error(parameters, n)
        error = mp.sqrt(noise**2 + mp.fsum(matrix) / n)
        case = f"{adjacency}, d = {d}, n = {n}: {mp.nstr(bound, 6)}, {mp.nstr(noise, 6)}"
        require(bound <= error and noise <= claimed * bound, case)
        cases += 1
    return cases
