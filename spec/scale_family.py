"""Spec of ``scale_family``: a search for the median of a statistic, then its mean in an interval
about the result, clipped or masked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from .theory import centered, stepped
from .theory.caches import cache, parameters_cache
from .theory.coordinates import middle, side_counts
from .theory.gaussian_laws import UNIT
from .theory.laws import IntegerLaw, Outcome, PointLaw, TranscriptLaw, real
from .theory.obligations import Departure, neighbors, require
from .theory.queries import of_each
from .theory.stepped import CELLS, at_least, counts, shares
from .theory.vectors import Record
from .theory.whitening import octave

Parameters = Mapping[str, Any]
Prefix = tuple[Outcome, ...]
PER_OCTAVE = 64
_LARGEST = Fraction(1.7e308)
DEPARTURES = (
    Departure(
        "ZZ25, Algorithm 3.1 (gradient steps on truncated data)",
        "one release of the mean of the statistic, then its moment is matched",
        "data enter the gradient through that mean alone, so steps add noise and nothing else",
    ),
    Departure(
        "ZZ25, survival sets of constant mass, bounding box by histograms",
        "an interval whose length balances sampling and noise; a search for the median",
        "constant mass is 2 to 6 times the error; a search needs no delta",
    ),
    Departure(
        "ZZ25, truncation",
        "records are clipped where they were not cut off before",
        "a clipped record says more than a dropped one, and its mean is as well known",
    ),
)
_ZZ25 = Source(
    "ZZ25",
    "Theorem 3.1, exponential families by truncation",
    SourceStatus.CHANGED_CONSTANTS,
    note="one scale; Gaussian DP",
)
_OURS = Source("OURS", "clipped and masked moments of exponential families in one release")
_GAUSSIAN = Source("DRS22", "composition of GDP", note="adaptive")
FOLDED = ("half_normal", "laplace")


# --- the family ---------------------------------------------------------------------------------


def gamma_shape(parameters: Parameters) -> Any:
    """Return a, where T(x) / s has the gamma law of shape a."""
    known = parameters["shape"]
    own = {"maxwell": mp.mpf(3) / 2, "half_normal": mp.mpf(1) / 2}
    if parameters["family"] in ("gamma", "chi"):
        return mp.mpf(known) / (2 if parameters["family"] == "chi" else 1)
    return own.get(parameters["family"], mp.mpf(1))


def power(parameters: Parameters) -> Any:
    """Return k of T(y) = y^k; 0 for ln(y / least)."""
    family = parameters["family"]
    if family == "weibull":
        return mp.mpf(parameters["shape"])
    if family == "pareto":
        return mp.mpf(0)
    return mp.mpf(2 if family in ("rayleigh", "maxwell", "half_normal", "chi") else 1)


def statistic(parameters: Parameters, y: Any) -> Any:
    """Return T of a number in the support; below it minus infinity, which counts as the end or is
    masked.
    """
    k, y = power(parameters), real(Fraction(y))
    if not k:
        least = mp.mpf(parameters["shape"])
        return mp.log(y / least) if y >= least else -mp.inf
    return y**k if y >= 0 else -mp.inf


def inverse(parameters: Parameters, t: Any) -> Any:
    """Return the number with this statistic."""
    k = power(parameters)
    return t ** (1 / k) if k else mp.mpf(parameters["shape"]) * mp.exp(t)


@cache
def _median(a: Any) -> Any:
    low, high = mp.mpf(0), a + 1
    for _ in range(200):
        x = (low + high) / 2 if low > high / 4 else high / 2
        low, high = (x, high) if below(a, x) < 0.5 else (low, x)
    return high


# --- moments ------------------------------------------------------------------------------------


def below(a: Any, b: Any) -> Any:
    """Return P(a, b), the regularized lower incomplete gamma function."""
    return mp.gammainc(a, 0, b, regularized=True)


def mean_of(a: Any, b: Any, outside: str) -> Any:
    """Return E of min(T, u) over u, or of T below u, for T of scale 1 and u = b."""
    inner = a / b * below(a + 1, b)
    return inner + 1 - below(a, b) if outside == "clip" else inner / below(a, b)


def square_of(a: Any, b: Any, outside: str) -> Any:
    """Return E of min(T, u)^2 over u^2, or of T^2 below u, for T of scale 1 and u = b."""
    inner = a * (a + 1) / b**2 * below(a + 2, b)
    return inner + 1 - below(a, b) if outside == "clip" else inner / below(a, b)


def slope_of(a: Any, b: Any, outside: str) -> Any:
    """Return -d mean / d ln b. Clipped: E[T; T < u] over u. Masked: the variance of T below u,
    over u.
    """
    if outside == "clip":
        return a / b * below(a + 1, b)
    return b * (square_of(a, b, outside) - mean_of(a, b, outside) ** 2)


# --- shares, noise ------------------------------------------------------------------------------


def weight(parameters: Parameters) -> int:
    """Return the weight of the number beside the statistics."""
    if counts(parameters):
        return CELLS * 3 // 4
    return CELLS * 7 // 4 if parameters["outside"] == "mask" else 0


def search_steps(parameters: Parameters) -> int:
    """Return six steps, and one for each doubling up to the number of octaves."""
    k = 0
    while 2**k < parameters["octaves"]:
        k += 1
    return 6 + k


def scale(parameters: Parameters, place: int) -> Fraction:
    """Return the noise of the number, of a step of the search, of the statistics, in their
    units.
    """
    share = shares(parameters)[place]
    return stepped.scale(parameters, place, weight(parameters), search_steps(parameters), share)


def place_of(parameters: Parameters, values: Sequence[int]) -> Any:
    """Return the statistic that the search examines after these values."""
    start = mp.mpf(1)
    if power(parameters):
        start = statistic(parameters, Fraction(parameters["unit"]))
    m = middle(values) * 2 ** search_steps(parameters)
    return start * mp.mpf(2) ** (real(m) / PER_OCTAVE)


def sum_noise(parameters: Parameters, mean: Any) -> Any:
    """Return the deviation of the noise in a sum of statistics over u, where their mean is
    ``mean``.
    """
    return stepped.sum_noise(scale(parameters, 2), weight(parameters), mean)


def errors(parameters: Parameters, b: Any, n: Any, noise: Any) -> tuple[Any, Any]:
    """Return the errors of ln s, to first order: by noise, and by sampling."""
    a, outside = gamma_shape(parameters), parameters["outside"]
    counted = n if outside == "clip" else n * below(a, b)
    slope = slope_of(a, b, outside)
    variance = square_of(a, b, outside) - mean_of(a, b, outside) ** 2
    return noise / counted / slope, mp.sqrt(variance / counted) / slope


@parameters_cache
def cut(parameters: Parameters, octave_: int) -> Any:
    """Return u over the scale, from the ladder: the one with the least error for the least number
    of this quarter octave.
    """
    n, a = mp.mpf(2) ** (mp.mpf(octave_) / 4), gamma_shape(parameters)
    noise = sum_noise(parameters, mp.mpf("0.3"))
    with mp.workdps(20):
        rungs = [max(a, 1) * mp.mpf(2) ** (mp.mpf(k) / 8) for k in range(-8, 49)]
        return min(rungs, key=lambda b: mp.hypot(*errors(parameters, b, n, noise)))


def top(parameters: Parameters, values: Sequence[int], count: Fraction) -> Any:
    """Return the end of the interval after the search's values and a number of records."""
    known = max(min(count, Fraction(10**18)), Fraction(at_least(parameters)))
    near = place_of(parameters, values) / _median(gamma_shape(parameters))
    end = near * cut(parameters, octave(known))
    if parameters["cap"] is not None:
        end = min(end, statistic(parameters, Fraction(parameters["cap"])))
    return end


# --- the law ------------------------------------------------------------------------------------


def distances(parameters: Parameters, records: Sequence[Fraction]) -> list[Fraction]:
    """Return the numbers that are compared: the records, or their distances from the center, as
    floats.
    """
    if parameters["family"] not in FOLDED:
        return list(records)
    center = Fraction(parameters["center"])
    return of_each(lambda x: centered.as_floats([abs(x - center)])[0], records)


def in_steps(parameters: Parameters, values: Sequence[Fraction], end: Any) -> tuple[int, ...]:
    """Return the sum of statistics in cells of [0, end], with their number if it is released."""
    w, outside = weight(parameters), parameters["outside"]

    def counted(y: Fraction) -> int | None:
        t = statistic(parameters, y)
        if outside == "mask" and not 0 <= t < end:
            return None
        return 2 * int(mp.floor(CELLS * max(min(t, end), 0) / end + 0.5)) - CELLS

    seen = [v for v in of_each(counted, values) if v is not None]
    return (sum(seen), *([w * len(seen)] if w else []))


@states(_OURS, _ZZ25, _GAUSSIAN)
def law(parameters: Parameters, records: Sequence[Fraction | Record]) -> TranscriptLaw:
    """Return the law of the number; scale 1, scale 2, ...; the statistics."""
    own = [r[0] if isinstance(r, tuple) else r for r in records]
    values, n = distances(parameters, own), len(own)
    rows = of_each(lambda x: (x,), own)
    unit = scale(parameters, 0) / UNIT if counts(parameters) else Fraction(1)

    def number() -> IntegerLaw:
        if counts(parameters):
            return centered.noisy((n,), scale(parameters, 0))
        return PointLaw((n,))

    def side(prefix: Prefix) -> IntegerLaw:
        far = inverse(parameters, place_of(parameters, [o[0] for o in prefix[1:]]))
        if parameters["family"] not in FOLDED:
            counted = side_counts(rows, [_as_float(far)])
        else:
            center = Fraction(parameters["center"])
            near = Fraction(float(far))
            ends = centered.as_floats([center + near, center - near])
            counted = side_counts(rows, ends[:1], ends[1:])
        return centered.noisy(counted, scale(parameters, 1))

    def statistics(prefix: Prefix) -> IntegerLaw:
        end = top(parameters, [o[0] for o in prefix[1:]], prefix[0][0] * unit)
        return centered.noisy(in_steps(parameters, values, end), scale(parameters, 2))

    stages: list[Any] = [("count", lambda prefix: number())]
    stages += [(f"scale {k + 1}", side) for k in range(search_steps(parameters))]
    stages.append(("statistics", statistics))
    first = (n,) if not counts(parameters) else (round(n / unit),)
    return TranscriptLaw(tuple(stages), (first, *[(0,)] * search_steps(parameters)))


def _as_float(value: Any) -> Fraction:
    return min(Fraction(float(min(value, mp.mpf(1.7e308)))), _LARGEST)


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the squared sensitivity of each stage, in one unit."""
    scales = tuple(scale(parameters, k) if shares(parameters)[k] else Fraction(1) for k in range(3))
    return stepped.sensitivities(
        parameters, weight(parameters), search_steps(parameters), "scale", scales
    )


# --- errors -------------------------------------------------------------------------------------


@states(_OURS)
def noise_error(parameters: Parameters, n: int) -> Any:
    """Return the error of ln s by noise, for n records of the family, to first order."""
    b = cut(parameters, octave(Fraction(n)))
    noise = sum_noise(parameters, mean_of(gamma_shape(parameters), b, parameters["outside"]))
    return errors(parameters, b, n, noise)[0]


@states(_OURS, _ZZ25)
def expected_error(parameters: Parameters, n: int) -> Any:
    """Return the error of ln s by noise and sampling."""
    b = cut(parameters, octave(Fraction(n)))
    noise = sum_noise(parameters, mean_of(gamma_shape(parameters), b, parameters["outside"]))
    return mp.hypot(*errors(parameters, b, n, noise))


@states(_OURS)
def error_bound(parameters: Parameters, n: int, beta: Fraction) -> Any:
    """Return a bound on the noise's part in the released mean over u, which fails with probability
    at most beta.
    """
    b = cut(parameters, octave(Fraction(n)))
    noise = sum_noise(parameters, mean_of(gamma_shape(parameters), b, parameters["outside"]))
    return noise * mp.sqrt(2 * mp.log(2 / real(beta))) / n


@states(Source("OURS", "two scales by a coupling, for GDP"))
def lower_bound(parameters: Parameters, n: int) -> Any:
    """Return a lower bound on the expected error, at some s, of every mu-GDP estimate of ln s.

    Two laws with ln s apart by h have a total variation of at most h E|T / s - a| / 2 <= h
    sqrt(a) / 2, the score being T / s - a. Couple n records so that K differ, E K = n times
    that at most. k differing records are k steps (replace) or 2 k (add-remove), and m
    steps have a total variation of at most 2 Phi(m mu / 2) - 1 <= m mu / sqrt(2 pi). So that of
    the outputs is at most n h sqrt(a) mu c / (2 sqrt(2 pi)), c = 1 or 2, which is 1/2 for h =
    sqrt(2 pi) / (n sqrt(a) mu c); and by Le Cam one of the errors is at least (h / 4)
    (1 - 1/2). QED
    """
    c = 2 if counts(parameters) else 1
    multiplier = real(Fraction(parameters["noise_multiplier"]))
    return mp.sqrt(2 * mp.pi) * multiplier / (8 * n * mp.sqrt(gamma_shape(parameters)) * c)


# --- obligations --------------------------------------------------------------------------------

_FAR = Fraction(10) ** 30
_UNIVERSE = tuple((Fraction(x),) for x in ("1/5", "8/5", 3, -7, _FAR))


def _parameters(adjacency: Adjacency, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "adjacency": adjacency,
        "noise_multiplier": Fraction(3, 2),
        "family": "exponential",
        "shape": None,
        "center": 0.0,
        "outside": "clip",
        "cap": None,
        "unit": 1.0,
        "octaves": 64,
        "search_share": Fraction(15, 100),
        "at_least": 1,
    }
    return base | changes


_WORLDS: tuple[dict[str, Any], ...] = (
    {},
    {"outside": "mask"},
    {"family": "weibull", "shape": 2.5, "outside": "mask", "cap": 4.0},
    {"family": "laplace", "center": 1.5},
    {"family": "pareto", "shape": 0.1, "octaves": 3},
)


@states(_OURS, _GAUSSIAN)
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check that every stage's mu^2 is at most the stated one, on all neighbors of at most 2
    records along the example transcript.

    It reaches the stated one to within a thousandth, that of the statistics to within a half.
    The stated ones add up to (claimed / multiplier)^2, up to the grid's 2^-16.
    """
    cases, slack = 0, 1 + Fraction(1, 2**16)
    for adjacency, changes in product(Adjacency, _WORLDS):
        parameters = _parameters(adjacency, **changes)
        stated = sensitivities(parameters)
        total = sum(stated.values()) / UNIT**2
        square = (claimed / parameters["noise_multiplier"]) ** 2
        case = f"{parameters}: mu^2 = {float(total)}, not {float(square)}"
        require(total <= square * slack and square <= total * slack, case)
        cases += _stages_move(parameters, stated)
    return cases


def _stages_move(parameters: Parameters, stated: Mapping[str, int]) -> int:
    """Compare the largest move of every stage with the stated one."""
    known: Any = cache(lambda records: law(parameters, records).stage_laws())
    largest, cases = dict.fromkeys(stated, Fraction(0)), 0
    for pair in neighbors(_UNIVERSE, 2, parameters["adjacency"]):
        for (name, ours), (_, theirs) in zip(*(known(tuple(one)) for one in pair), strict=True):
            if isinstance(ours, PointLaw):
                require(ours == theirs, f"{name} is public and differs: {ours}, {theirs}")
            else:
                largest[name] = max(largest[name], ours.mu_squared(theirs))
        cases += 1
    for name, square in largest.items():
        most = stated[name] / UNIT**2
        near = Fraction(1001, 1000) if name != "statistics" else 2
        case = f"{name}, {parameters}: mu^2 = {float(square)}, {float(most)} stated"
        require(square <= most <= square * near, case)
    return cases


@cache
def _integrals(a: Any, b: Any) -> tuple[Any, ...]:
    """Return the integrals of 1, x and x^2 from 0 to b under the gamma density of shape a."""
    with mp.workdps(30):
        places, total = mp.linspace(0, b, 5), mp.gamma(a)
        return tuple(
            mp.quad(lambda x, k=k: x ** (a - 1 + k) * mp.exp(-x), places) / total for k in (0, 1, 2)
        )


@states(_OURS)
def obligation_moments(claimed: Callable[..., Any] = mean_of) -> int:
    """Check that ``claimed``, its slope, and the squares are the integrals over the gamma density,
    to 1e-12; the mean falls with b.
    """
    cases = 0
    for a, outside in product(
        (mp.mpf(1) / 2, mp.mpf(1), mp.mpf("2.5"), mp.mpf(20)), ("clip", "mask")
    ):
        last = mp.inf
        for b in (mp.mpf("0.2"), mp.mpf(1), mp.mpf(6), mp.mpf(30)):
            parts = _integrals(a, b)
            inside = 1 if outside == "clip" else parts[0]
            rest = 1 - parts[0] if outside == "clip" else 0
            mean, square = parts[1] / b / inside + rest, parts[2] / b**2 / inside + rest
            own = claimed(a, b, outside)
            h = mp.mpf(10) ** -5
            slope = (claimed(a, b * (1 - h), outside) - claimed(a, b * (1 + h), outside)) / (2 * h)
            case = f"{a}, {b}, {outside}: {own}, not {mean}"
            require(abs(own - mean) < mp.mpf(10) ** -8 and own <= last, case)
            require(abs(square_of(a, b, outside) - square) < mp.mpf(10) ** -8, case)
            require(abs(slope - slope_of(a, b, outside)) < mp.mpf(10) ** -8, f"slope: {case}")
            last, cases = own, cases + 1
    return cases


@states(Source("OURS", "two scales by a coupling, for GDP"))
def obligation_lower_bound_is_below_error(within: int = 60) -> int:
    """Check that the noise alone is above the lower bound and at most 60 times it."""
    cases = 0
    for adjacency, changes in product(Adjacency, _WORLDS[:2]):
        for n, multiplier in ((1000, Fraction(4)), (10**5, Fraction(100))):
            parameters = _parameters(adjacency, noise_multiplier=multiplier, **changes)
            bound, error = lower_bound(parameters, n), noise_error(parameters, n)
            require(bound <= error <= within * bound, f"{parameters}, {n}: {bound}, {error}")
            cases += 1
    return cases
