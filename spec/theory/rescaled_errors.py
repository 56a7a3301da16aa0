"""Errors of a mean of records that agree, from public parameters: what is expected, and bounds that
hold for every sub-Gaussian law, whether its records are all friends or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from . import normal_fits, strangers
from .core_means import Basic, Weights, gaussian_shift, laplace_shift
from .filters import mean_noise
from .gaussian_laws import RoundedGaussianLaw
from .laws import DiscreteLaplaceLaw, real, real_exponential
from .obligations import require
from .profiles import gaussian_profile
from .rescaled_laws import public_map, shares
from .rescaling import image_spectrum, spectrum

Parameters = Mapping[str, Any]
_TAIL = Source("DJYZZ24", "Theorem 3.1, accuracy", SourceStatus.CHANGED_CONSTANTS, "explicit")


@states(_TAIL)
def expected_error(parameters: Parameters, n: int) -> Any:
    """Compute the root mean squared |estimate - mean| of n records that are all friends, where
    there is one, in the data's units: noise of deviation a R s / r times M^(1/4), averaged over the
    released r.
    """
    public = public_map(parameters)
    number, least = _released(parameters, n, 0)
    outcomes, _ = number.most_outcomes()
    largest = real(_noise(parameters, n, 1) * public.cell)
    total, squares = mp.mpf(0), mp.mpf(0)
    with mp.workdps(15):
        for (released,) in outcomes:
            if released >= least:
                mass = real(number.probability((released,), real_exponential))
                total += mass
                squares += mass / released**2
        return largest * mp.sqrt(squares / total * root_trace(parameters))


@states(_TAIL)
def error_bound(parameters: Parameters, n: int, beta: Fraction, covariance: Any = None) -> Any:
    """Bound the error, in the data's units up to the grid's rounding, for the stated radius
    (the rung 0 of a ladder).

    Without a covariance: on |estimate - mean| for n records that are all friends; it fails with
    probability at most 2 beta: (a R s / r) (sqrt(tr M^(1/2)) + sqrt(2 |M^(1/2)| ln(1 / beta))),
    where at least r = n - shift - t is released, t the noise's quantile at beta.

    With a covariance proxy S (a matrix or a diagonal): on |estimate - expectation| for n
    independent records of any sub-Gaussian law with that proxy, friends or not. It fails with
    probability at most 5 beta, with the basic filter 6 beta: these two, the records' own
    sqrt(tr S / n) + sqrt(2 |S| ln(1 / beta) / n), the number of pairs that are no friends, how
    far the farthest record is from the mean of all, and what coins drop. Pairs that are no
    friends (strangers.py) lower what is released and let the mean lean. Raises ValueError where
    it may abstain with more than beta.
    """
    pairs = 0 if covariance is None else pairs_apart(parameters, n, beta, covariance)
    lost, leaning = _lost(parameters, n, pairs, beta)
    number, least = _released(parameters, n, lost)
    (center,) = number.center if isinstance(number, RoundedGaussianLaw) else (number.center,)
    surely = center - least_quantile(number, beta)
    if surely < least:
        raise ValueError(f"n = {n}: at least {surely} is released, less than the gate's {least}")
    noise = real(_noise(parameters, n, surely) * public_map(parameters).cell)
    error = noise * _length([mp.sqrt(value) for value in spectrum(parameters["matrix"])], beta)
    if covariance is None:
        return error
    own = spectrum(covariance)
    sampling = _length(own, beta) / mp.sqrt(n)
    return error + sampling + real(leaning) * strangers.longest(own, n, beta)


@states(_TAIL)
def tail_bound(parameters: Parameters, n: int, log_inverse_beta: Any) -> Any:
    """Bound the error of n records that are all friends; it fails with probability at most
    exp(-log_inverse_beta)."""
    return error_bound(parameters, n, _part(log_inverse_beta, 2))


@states(_TAIL)
def law_bound(parameters: Parameters, n: int, log_inverse_beta: Any) -> Any:
    """Bound the error of n records of any sub-Gaussian law of proxy M; it fails with probability at
    most exp(-log_inverse_beta)."""
    parts = 6 if isinstance(shares(parameters), Basic) else 5
    return error_bound(parameters, n, _part(log_inverse_beta, parts), parameters["matrix"])


def _part(log_inverse_beta: Any, parts: int) -> Fraction:
    return Fraction(int(mp.ldexp(mp.exp(-mp.mpf(log_inverse_beta)) / parts, 60)), 2**60)


@states(_TAIL)
def noise_quantile(parameters: Parameters, n: int, log_inverse_beta: Any) -> Any:
    """Compute the length that the noise of n friends exceeds with probability
    exp(-log_inverse_beta), to first order, where all eigenvalues of M are equal: a multiple of
    a normal vector's length.
    """
    d, share = len(parameters["matrix"]), -mp.expm1(-mp.mpf(log_inverse_beta))
    return expected_error(parameters, n) * normal_fits.length_within(d, share) / mp.sqrt(d)


@states(_TAIL)
def pairs_apart(parameters: Parameters, n: int, beta: Fraction, covariance: Any) -> int:
    """Bound the number of pairs that are no friends, for n records of this proxy, except with
    probability beta.

    Images differ by at most 1 + 2^-17 times what the exact map says, and 2 sqrt(d) + 2 cells
    (``obligation_map``).
    """
    public = public_map(parameters)
    cells = public.radius - 2 * mp.sqrt(public.width) - 2
    radius = cells * real(public.cell) / (1 + mp.mpf(2) ** -17)
    chance = strangers.pair_chance(radius, image_spectrum(parameters["matrix"], covariance))
    return strangers.most_pairs(n, chance, beta)


def _lost(parameters: Parameters, n: int, pairs: int, beta: Fraction) -> tuple[int, Fraction]:
    """Bound the amount by which pairs that are no friends lower the released number, and the lean
    in farthest records.
    """
    if isinstance(shares(parameters), Basic):
        dropped = strangers.most_dropped(n, pairs, beta)
        if dropped < n:
            return dropped, strangers.lean_of_kept(n, dropped)
    elif 4 * pairs < n * n:
        return n - strangers.least_agreement(n, pairs), strangers.lean(n, pairs)
    raise ValueError(f"n = {n}: as many as {pairs} pairs may be no friends, and nobody be left")


def _length(eigenvalues: Sequence[Any], beta: Fraction) -> Any:
    """Bound a sub-Gaussian vector of these eigenvalues, except with probability beta
    (spec/theory/joint.py).
    """
    level = 2 * mp.log(1 / real(beta))
    return mp.sqrt(mp.fsum(eigenvalues)) + mp.sqrt(max(eigenvalues) * level)


def least_quantile(number: Any, beta: Fraction) -> int:
    """Return t with P(number <= center - t - 1) <= beta."""
    if isinstance(number, RoundedGaussianLaw):
        return gaussian_shift(number.scale, beta) - 1
    return laplace_shift(number.scale, beta) - 1


def _released(parameters: Parameters, n: int, lost: int) -> tuple[Any, int]:
    """Give the law of the released number for n records of which so many are lost, and the gate.
    Raises ValueError for scores, whose noise loses records."""
    plan = shares(parameters)
    if isinstance(plan, Weights):
        return RoundedGaussianLaw((n - lost - plan.shift,), plan.scale), plan.least
    if isinstance(plan, Basic):
        return DiscreteLaplaceLaw(n - lost - plan.shift, plan.scale), 1
    raise ValueError("no closed form of the error with noisy scores")


def _noise(parameters: Parameters, n: int, released: int) -> Fraction:
    """Compute the noise in cells, after the map."""
    plan, radius = shares(parameters), public_map(parameters).radius
    if isinstance(plan, Weights):
        return plan.noise(radius, released)
    return mean_noise(radius, Fraction(parameters["noise_multiplier"]), released)


def root_trace(parameters: Parameters) -> Any:
    """Compute the trace of M^(1/2)."""
    return mp.fsum(mp.sqrt(value) for value in spectrum(parameters["matrix"]))


# --- obligations --------------------------------------------------------------------------------

_SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    *({"epsilon": Fraction(e)} for e in ("1/4", "4")),
    *({"delta": Fraction(1, 10**k)} for k in (3, 12)),
    *({"beta": Fraction(1, 10**k)} for k in (4, 9)),
    *({"n": n} for n in (20_000, 10**6)),
    *({"d": d, "power": power} for d, power in ((1, 0), (60, 0), (60, 1), (60, 2))),
    {"d": 1, "beta": Fraction(1, 10**9)},
    {"n": 10**7, "epsilon": Fraction(1, 4), "delta": Fraction(1, 10**12), "d": 60},
)
_BASE: dict[str, Any] = {
    "epsilon": Fraction(1),
    "delta": Fraction(1, 10**6),
    "beta": Fraction(1, 20),
    "n": 200_000,
    "d": 10,
    "power": 1,
}
Terms = Callable[[Mapping[str, Any], Sequence[Any]], Any]


def private_part(setting: Mapping[str, Any], variances: Sequence[Any]) -> Any:
    """Compute the noise at n records by Theorem 3.1, up to a constant: sqrt(ln(1 / delta)) (t +
    sqrt(t s l) + s sqrt(l L)) / (epsilon n), t the trace and s the largest eigenvalue of
    S^(1/2), l = ln(n / beta), L = ln(1 / beta).

    The last part is of its proof alone. For one column and a small beta the others are of lower
    order, and noise that is proportional to the radius, which has sqrt(l), exceeds sqrt(L)
    deviations with about that probability.
    """
    n, level = setting["n"], mp.log(1 / real(setting["beta"]))
    roots = [mp.sqrt(value) for value in variances]
    trace, largest, pairs = mp.fsum(roots), max(roots), mp.log(n / real(setting["beta"]))
    noise = trace + mp.sqrt(trace * largest * pairs) + largest * mp.sqrt(level * pairs)
    return mp.sqrt(mp.log(1 / real(setting["delta"]))) * noise / (real(setting["epsilon"]) * n)


def _multiplier(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return 1 / mu for which mu-GDP has this profile, a thousandth too large at most."""
    low, high = Fraction(1, 2**10), Fraction(2**10)
    while high / low > Fraction(1001, 1000):
        middle = (low + high) / 2
        if gaussian_profile(1 / middle**2, epsilon) <= real(delta):
            high = middle
        else:
            low = middle
    return high


def _parameters(setting: Mapping[str, Any], variances: Sequence[Any], wide: bool) -> Parameters:
    """Make the parameters as ``for_budget`` does, with a radius that a pair exceeds with
    probability at most 1 / n; wide: that any pair does with beta. In closed form, a little more
    than the least one.
    """
    n, tail = setting["n"], setting["delta"] / 10
    rare = n * n / real(setting["beta"]) if wide else mp.mpf(n)
    roots = [mp.sqrt(value) for value in variances]
    radius = mp.sqrt(2 * mp.fsum(roots)) + 2 * mp.sqrt(max(roots) * mp.log(rare))
    return {
        "adjacency": setting.get("adjacency", Adjacency.ADD_REMOVE),
        "filter": "weights",
        "noise_multiplier": _multiplier(setting["epsilon"], setting["delta"] - tail),
        "n_max": n,
        "tail": tail,
        "matrix": tuple(map(float, variances)),
        "radius": float(radius),
    }


def _cases() -> Iterator[tuple[dict[str, Any], tuple[Any, ...]]]:
    for own, adjacency in product(_SETTINGS, Adjacency):
        setting = {**_BASE, "adjacency": adjacency, **own}
        places = range(1, setting["d"] + 1)
        yield setting, tuple(mp.mpf(i) ** (-2 * setting["power"]) for i in places)


@states(_TAIL)
def obligation_theorem(
    claimed: Terms = private_part, count: Callable[..., int] = pairs_apart
) -> int:
    """Check for every epsilon, delta, beta, n, d, spectrum and adjacency tried that the bound on
    the noise, with a radius for all pairs, is 5/2 to 19/2 times ``claimed``, and no pair is
    lost.

    The bound for all sub-Gaussian records is at most the same times ``claimed`` and three times
    the records' own part; with the default radius, ln(1 / beta) / n times the distance of the
    farthest record is added.
    """
    cases, (low, high) = 0, (Fraction(5, 2), Fraction(19, 2))
    for setting, variances in _cases():
        n, beta = setting["n"], setting["beta"]
        own = claimed(setting, variances)
        sampling = 3 * _length(variances, beta) / mp.sqrt(n)
        for wide in (True, False):
            parameters = _parameters(setting, variances, wide)
            noise = error_bound(parameters, n, beta)
            case = f"{setting}, {wide}: {mp.nstr(noise / own, 5)} times what is stated of the noise"
            require(noise <= real(high) * own, case)
            require(not wide or noise >= real(low) * own, case)
            pairs = count(parameters, n, beta, variances)
            require(not wide or pairs == 0, f"{setting}: {pairs} pairs are no friends")
            far = 0 if wide else mp.log(1 / real(beta)) / n * strangers.longest(variances, n, beta)
            most = real(high) * (own + far) + sampling
            bound = error_bound(parameters, n, beta, variances)
            require(bound <= most, f"{setting}, {wide}: {mp.nstr(bound, 5)}, {mp.nstr(most, 5)}")
            cases += 1
    return cases


@states(_TAIL)
def obligation_skewed(claimed: Callable[..., Any] = error_bound) -> int:
    """Check a law whose rare records get no weight: a share p of records is at 1, beyond the
    radius from the others at 0, so that the estimate is 0, up to noise.

    The bound for the proxy of that law, (1 - 2 p) / (2 ln((1 - p) / p)) (Kearns and Saul 1998),
    is at least p, the expectation, and at most 1; with many records, where without these pairs
    it would be below p.
    """
    cases, beta = 0, Fraction(1, 20)
    for p, kind, adjacency in product(
        map(Fraction, ("1/10000", "1/100000")), ("weights", "basic"), Adjacency
    ):
        proxy = real(1 - 2 * p) / (2 * mp.log(real((1 - p) / p)))
        setting = {**_BASE, "n": 10**9, "d": 1, "adjacency": adjacency}
        parameters = {**_parameters(setting, (proxy,), False), "filter": kind}
        parameters["radius"] = float(mp.mpf("0.9") / mp.root(proxy, 4))
        bound = claimed(parameters, setting["n"], beta, (proxy,))
        case = f"{kind}, {adjacency}, p = {p}: {mp.nstr(bound, 6)}"
        require(real(p) <= bound <= 1, case)
        cases += 1
    return cases
