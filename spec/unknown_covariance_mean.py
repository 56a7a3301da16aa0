"""Spec of ``unknown_covariance_mean``: votes, a ladder of reports, further votes, and a refined
mean about M.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from . import large_variances, refined_mean
from .theory import group_votes, groups, levels
from .theory.caches import cache
from .theory.laws import Outcome, TranscriptLaw, real
from .theory.obligations import Departure, require
from .theory.rough_covariance import diagonal
from .theory.tracing_bound import BOUND

Parameters = Mapping[str, Any]
Prefix = tuple[Outcome, ...]

DEPARTURES = (
    Departure(
        "DJYZZ24, Algorithm 2",
        "all steps see all records, and compose adaptively; there one half finds the variances, "
        "the other is averaged",
        "half of the records would double the mean's noise, a share of mu^2 costs its square "
        "root. No step needs the halves to be independent: the radius holds for every M that "
        "may come, and a diagonal M from few numbers hardly depends on any record",
    ),
    Departure(
        "DJYZZ24, Algorithm 2",
        "one mean of all columns, M having each reported column's variance and for the others "
        "their average; there one mean of the reported columns with these and another of the "
        "others with M = I",
        "with S and T the noise of the two at all of mu, one mean has S + T, two at half of "
        "mu^2 each sqrt(2 (S^2 + T^2)), which is no less (Cauchy and Schwarz)",
    ),
    Departure(
        "DJYZZ24, Algorithm 2",
        "variances of reported columns are the levels of their reports, and the largest "
        "variance is voted for to begin with; there k single calls of SumVar, and the k-th "
        "largest variance",
        "a ladder of levels gives both, and is paid for by reports alone",
    ),
    Departure(
        "DJYZZ24, Algorithm 1",
        "the mean is a refined one: weights in place of coins, then a masked sum about its result",
        "as for refined_mean; friends are as far apart as two records at the radius, so that "
        "numbers of friends are cheap",
    ),
    Departure(
        "DJYZZ24, Remark 2",
        "how many reports there are follows from n_max and the budget, as many as the groups "
        "carry, unless it is given, say by ``number_of_reports``; there from dyadic buckets of "
        "the variances",
        "a report costs accuracy of other columns' levels alone, as long as noise stays below "
        "the margin",
    ),
)
_OURS = Source("OURS", "one mean about a diagonal of released variances")
_PAPER = Source("DJYZZ24", "Algorithm 2, unknown covariance", SourceStatus.CHANGED_CONSTANTS)
_FINE = 2**40


# --- shares -------------------------------------------------------------------------------------


def root_down(square: Fraction) -> Fraction:
    """Return the square root, rounded down to 2^-40."""
    return Fraction(math.isqrt(math.floor(square * _FINE**2)), _FINE)


def _scaled(parameters: Parameters, share: Fraction) -> Fraction:
    """Return the multiplier of a part with this share of mu^2."""
    noise: Fraction = parameters["noise_multiplier"] * root_down(1 / share)
    return noise


def ladder_part(parameters: Parameters) -> dict[str, Any]:
    """Return the parameters of ``large_variances`` for the reports."""
    share = parameters["ladder_share"] / parameters["reports"]
    own = {"noise_multiplier": _scaled(parameters, share), "largest": None}
    return {**parameters, **own, "delta": parameters["tail"]}


def votes_part(parameters: Parameters) -> dict[str, Any]:
    """Return the parameters of either vote: half of their share, and one tail."""
    own = {"noise_multiplier": _scaled(parameters, parameters["votes_share"] / 2)}
    return large_variances.voting({**parameters, **own, "delta": parameters["tail"]})


def mean_part(parameters: Parameters, prefix: Prefix) -> dict[str, Any]:
    """Return the refined mean's parameters, after the votes, the reports and the votes for the
    others.
    """
    d, cell = parameters["d"], Fraction(parameters["cell"])
    here = large_variances.ladder_of(ladder_part(parameters), prefix)
    places = [place for (place,) in prefix[1:-1]]
    columns, below = levels.identified(places, d, here)
    others = large_variances.top_of(prefix[-1])
    matrix, radius = diagonal(columns, below, others, d, cell, parameters["n_max"])
    left = 1 - sum(parameters[f"{name}_share"] for name in ("votes", "ladder", "center"))
    return {
        **{name: parameters[name] for name in ("adjacency", "n_max", "tail")},
        "noise_multiplier": _scaled(parameters, left),
        "center_multiplier": _scaled(parameters, parameters["center_share"]),
        "center_epsilon": None,
        "matrix": matrix,
        "radius": Fraction(parameters["reach"]) * radius,
        "record_radius": radius,
        "filter": "weights",
        "origin": None,
        "budget": None,
    }


def _example(parameters: Parameters) -> Prefix:
    """Return the prefix for the declaration: largest variance and sum in the bucket 0, every
    report at the first place.
    """
    shown = group_votes.threshold_of(votes_part(parameters))
    return ((0, shown), *(((0,),) * parameters["reports"]), (0, shown))


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the sensitivity of each stage."""
    changed = groups.moved(parameters["adjacency"])
    reports = {f"report {i + 1}": changed for i in range(parameters["reports"])}
    mean = refined_mean.sensitivities(mean_part(parameters, _example(parameters)))
    return {"largest": changed, **reports, "others": changed, **inside(mean)}


def inside(mean: Mapping[str, int]) -> dict[str, int]:
    """Return the refined mean's stages under the names that they have as a part."""
    return {f"mean/{name}": moved for name, moved in mean.items()}


def reports_by_rule(parameters: Parameters) -> int:
    """Return the default number of reports of a mechanism for a budget, given its multiplier: see
    ``for_budget``.

    It is the largest with which noise hides a column at n_max with probability at most 1/20; at
    least 1, at most d, and no more than the larger of 64 and d / 4, rounded up.
    """
    d = parameters["d"]
    low, high = 1, min(d, max(64, -(-d // 4))) + 1
    while high - low > 1:
        middle = (low + high) // 2
        hidden = large_variances.noise_missed(ladder_part({**parameters, "reports": middle}))
        low, high = (middle, high) if hidden <= mp.mpf(1) / 20 else (low, middle)
    return low


# --- the law ------------------------------------------------------------------------------------


@states(_PAPER, _OURS)
def law(parameters: Parameters, records: Sequence[Any]) -> TranscriptLaw:
    """Return the law of the votes for the largest variance, the reports and the votes for the
    other columns; then of the refined mean's stages, for the M that follows. No bucket that
    surfaces ends it.
    """
    d, k = parameters["d"], parameters["reports"]
    ladder = large_variances.law(ladder_part(parameters), records).stages[1:]
    votes, known = votes_part(parameters), {}

    def largest(prefix: Prefix) -> Any:
        return group_votes.law_of(votes, records, groups.kth_largest(1)).stages[0][1](())

    def others(prefix: Prefix) -> Any:
        here = large_variances.ladder_of(ladder_part(parameters), prefix)
        columns, _ = levels.identified([place for (place,) in prefix[1:]], d, here)
        rest = [i for i in range(d) if i not in columns] or list(range(d))
        return group_votes.law_of(votes, records, groups.sum_over(rest)).stages[0][1](())

    def mean(prefix: Prefix) -> TranscriptLaw:
        if prefix not in known:
            transcript = refined_mean.law(mean_part(parameters, prefix), records)
            assert isinstance(transcript, TranscriptLaw)
            known[prefix] = transcript
        return known[prefix]

    def then(stage: Callable[[Prefix], Any], first: int) -> Callable[[Prefix], Any]:
        """Return the stage, or None if one of the votes before it was empty."""
        return lambda prefix: None if () in (prefix[0], *prefix[k + 1 : first]) else stage(prefix)

    def inner(i: int) -> Callable[[Prefix], Any]:
        return lambda prefix: mean(prefix[: k + 2]).stages[i][1](prefix[k + 2 :])

    declared = mean(_example(parameters))
    rounds = tuple((name, then(stage, k + 1)) for name, stage in ladder)
    names = [name for name, _ in declared.stages]
    last = tuple((f"mean/{name}", then(inner(i), k + 2)) for i, name in enumerate(names))
    stages = (("largest", largest), *rounds, ("others", then(others, k + 1)), *last)
    return TranscriptLaw(stages, (*_example(parameters), *declared.example))


# --- how good it is -----------------------------------------------------------------------------


def typical(parameters: Parameters, variances: Sequence[Any]) -> Prefix:
    """Return the prefix where every vote and every report is at the level of the true variance."""
    d, square = parameters["d"], real(Fraction(parameters["cell"])) ** 2
    shown = group_votes.threshold_of(votes_part(parameters))

    @cache  # thousands of columns have few variances
    def bucket(value: Any) -> int:
        return int(mp.floor(mp.log(value / square, 4)))

    top = (min(max(bucket(max(variances)), 0), 40), shown)
    here = large_variances.ladder_of(ladder_part(parameters), (top,))
    own = [bucket(value) for value in variances]
    asked = [(level, i) for level in here for i in range(d) if own[i] == level]
    places = [here.index(level) * d + i for level, i in asked][: parameters["reports"]]
    rest = {*range(d)} - {place % d for place in places}
    places += [d * len(here)] * (parameters["reports"] - len(places))
    summed = mp.fsum(variances[i] for i in rest) if rest else mp.fsum(variances)
    return (top, *((p,) for p in places), (min(max(bucket(summed), 0), 40), shown))


def _variances(parameters: Parameters, deviation: Any, power: Any) -> list[Any]:
    """Return deviation^2 j^(-2 power), j from 1 to d."""
    top, own = mp.mpf(deviation) ** 2, mp.mpf(power)
    return [top * mp.mpf(j) ** (-2 * own) for j in range(1, parameters["d"] + 1)]


@states(_OURS)
def noise_error(parameters: Parameters, n: int, deviation: Any, power: Any) -> Any:
    """Return the root mean squared |estimate - mean of the records| of n normal records with
    columns of deviations deviation j^-power, to first order: the refined mean's for the typical
    levels.
    """
    return _noise_of(parameters, n, _variances(parameters, deviation, power))


def _noise_of(parameters: Parameters, n: int, variances: Sequence[Any]) -> Any:
    """Return the noise to first order, for the typical levels of columns of these variances."""
    return refined_mean.expected_error(mean_part(parameters, typical(parameters, variances)), n)


@states(_OURS)
def noise_few_large(parameters: Parameters, n: int, deviation: Any, count: int) -> Any:
    """Return ``noise_error`` for ``count`` columns of this deviation and others of it divided by
    d.
    """
    d, top = parameters["d"], mp.mpf(deviation) ** 2
    return _noise_of(parameters, n, [top] * count + [top / d**2] * (d - count))


@states(_OURS)
def noise_geometric(parameters: Parameters, n: int, deviation: Any, ratio: Any) -> Any:
    """Return ``noise_error`` for columns of deviation, deviation ratio, deviation ratio^2, ..."""
    top, falls = mp.mpf(deviation) ** 2, mp.mpf(ratio) ** 2
    return _noise_of(parameters, n, [top * falls**j for j in range(parameters["d"])])


@states(_OURS)
def expected_error(parameters: Parameters, n: int, deviation: Any, power: Any) -> Any:
    """Return the root mean squared error about the mean of the population: with the sampling error
    sqrt(tr / n) beside it.
    """
    trace = mp.fsum(_variances(parameters, deviation, power))
    return mp.sqrt(noise_error(parameters, n, deviation, power) ** 2 + trace / n)


@states(_PAPER)
def error_bound(parameters: Parameters, n: int, beta: Fraction, prefix: Prefix) -> Any:
    """Return a bound on |M^(-1/4) (estimate - mean)| that fails with probability at most beta once
    ``prefix`` was released: the refined mean's.

    It is for n records whose images are within 9/10 of the radius of that of their mean
    (so all are friends). ``large_variances.error_bound`` bounds the probability that levels are
    wrong; the image of a normal record is beyond the radius with probability at most 1 / n_max
    (theory/rough_covariance.py).
    """
    own = mean_part(parameters, prefix)
    within = own["record_radius"] * Fraction(9, 10)
    return refined_mean.error_bound(own, n, beta, within)


@states(BOUND)
def lower_bound(parameters: Parameters, n: int, deviation: Any, power: Any) -> Any:
    """Return the lower bound of a mean with known variances and all of the budget, mu = 1 /
    noise_multiplier.
    """
    matrix = tuple(map(float, _variances(parameters, deviation, power)))
    rare = {"matrix": matrix, "tail": 3 * parameters["tail"]}
    own = {**mean_part(parameters, _example(parameters)), **rare}
    half = parameters["noise_multiplier"] * Fraction(1414, 1000)
    return refined_mean.lower_bound({**own, "noise_multiplier": half, "center_multiplier": half}, n)


# --- obligations --------------------------------------------------------------------------------


def _model(adjacency: Adjacency, d: int, reports: int, **changes: Any) -> dict[str, Any]:
    return {
        "adjacency": adjacency,
        "noise_multiplier": Fraction(5),
        "d": d,
        "n_max": 10**5,
        "reports": reports,
        "tail": Fraction(1, 10**7),
        "votes_share": Fraction(1, 20),
        "ladder_share": Fraction(1, 8),
        "center_share": Fraction(1, 10),
        "reach": 2,
        "depth": None,
        "groups": None,
        "cell": Fraction(1, 2**20),
        "key": 0,
        **changes,
    }


def mu_squared(parameters: Parameters) -> Fraction:
    """Return mu^2 of the whole, each report counted as Gaussian DP of 1 / multiplier: the sum over
    all parts.
    """
    mean = mean_part(parameters, _example(parameters))
    votes = 2 / Fraction(votes_part(parameters)["noise_multiplier"]) ** 2
    reports = parameters["reports"] / Fraction(ladder_part(parameters)["noise_multiplier"]) ** 2
    names = ("center_multiplier", "noise_multiplier")
    means = sum((1 / Fraction(mean[name]) ** 2 for name in names), Fraction(0))
    return Fraction(votes + reports + means)


@states(_OURS)
def obligation_shares(claimed: Callable[[Parameters], Fraction] = mu_squared) -> int:
    """Check that parts add up to 1 / noise_multiplier^2, up to rounding, for several shares and
    numbers of reports.
    """
    cases = 0
    for adjacency, reports, share in product(Adjacency, (1, 3, 40), ("1/20", "2/5")):
        given = _model(adjacency, 50, reports, ladder_share=Fraction(share))
        total = claimed(given) * given["noise_multiplier"] ** 2
        require(abs(total - 1) <= Fraction(1, 2**30), f"{adjacency}, {reports}: {float(total)}")
        cases += 1
    return cases


@states(_OURS)
def obligation_any_transcript(
    claimed: Callable[[Parameters, Prefix], dict[str, Any]] = mean_part,
) -> int:
    """Check, whatever was released, votes for nothing above or below a grid included, that M has
    positive numbers within 2^78 of each other, the radius is positive, and the sensitivities
    are those declared.
    """
    cases = 0
    for adjacency, d, reports in product(Adjacency, (2, 5), (1, 2)):
        given = _model(adjacency, d, reports, depth=30)
        stated = sensitivities(given)
        asked = range(0, 30 * d + 1, 29)
        for places in product((*asked, 30 * d), repeat=reports):
            for top, others in product((-1024, 17, 90), repeat=2):
                prefix = ((top, 9), *((place,) for place in places), (others, 9))
                own = claimed(given, prefix)
                low, high = min(own["matrix"]), max(own["matrix"])
                require(0 < low <= high <= low * 2**78, f"{prefix}: M from {low} to {high}")
                require(own["record_radius"] > 0, f"{prefix}: {own['record_radius']}")
                cases += 1
            mean = inside(refined_mean.sensitivities(own))
            require(mean.items() <= stated.items(), f"{prefix}: {mean} were not declared")
    return cases


@states(_OURS)
def obligation_typical(claimed: Callable[[Parameters, Sequence[Any]], Prefix] = typical) -> int:
    """Check for variances at the lower third of levels that a typical M has every column's level
    where reports suffice, and the others' average within a factor of 4.
    """
    cases = 0
    for d, reports in product((3, 8), (1, 2, 3)):
        variances = [mp.mpf("1.4") * mp.mpf(4) ** -i for i in range(d)]
        given = _model(Adjacency.ADD_REMOVE, d, reports)
        own = mean_part(given, claimed(given, variances))["matrix"]
        for i in range(reports):
            require(own[i] == mp.mpf(4) ** -i, f"{d}, {reports}: column {i} has {own[i]}")
        left = mp.fsum(variances[reports:])
        for entry in own[reports:]:
            ratio = left / (len(own) - reports) / entry
            require(1 - mp.mpf(2) ** -18 <= ratio < 4, f"{d}, {reports}: {entry}, off by {ratio}")
        cases += 1
    return cases


@states(BOUND)
def obligation_lower_bound_is_below_error(claimed: int = 45) -> int:
    """Check that the error to first order is above the lower bound and at most ``claimed`` times
    it.
    """
    cases = 0
    for adjacency, d, power in product(Adjacency, (4, 50), (0, 1)):
        given = _model(adjacency, d, min(d, 5))
        bound, error = (f(given, 10**5, 1, power) for f in (lower_bound, expected_error))
        require(bound <= error <= claimed * bound, f"{adjacency}, {d}, {power}: {bound}, {error}")
        cases += 1
    return cases


def worst_noise(
    parameters: Parameters, n: int, reports: Callable[[Parameters], int] = reports_by_rule
) -> Any:
    """Return the larger ``noise_error`` over the sum of the columns' deviations, of K equal
    columns and others of deviation 0.

    K is a little above 3/2 and 2 times the default number of reports for n_max = n: where the
    bound of ``most_lost`` is met.
    """
    given = {**parameters, "n_max": n}
    d, k = given["d"], reports(given)
    own, ratios = {**given, "reports": k}, []
    for size in (min(d, 3 * k // 2 + 1), min(d, 2 * k + 1)):
        variances = [mp.mpf(2)] * size + [mp.mpf(10) ** -16] * (d - size)
        ratios.append(_noise_of(own, n, variances) / (size * mp.sqrt(2)))
    return max(ratios)


def records_for(d: int, alpha: Any, reports: Callable[[Parameters], int] = reports_by_rule) -> Any:
    """Return the least n = 2^(j / 16) whose ``worst_noise`` is at most alpha, for the default
    parameters.
    """
    given = _model(Adjacency.ADD_REMOVE, d, 1, noise_multiplier=Fraction(17, 4))
    low, high = 16 * 17, 16 * 22
    while high - low > 1:
        middle = (low + high) // 2
        enough = worst_noise(given, int(mp.power(2, middle / mp.mpf(16))), reports) <= alpha
        low, high = (low, middle) if enough else (middle, high)
    require(16 * 17 + 1 < high < 16 * 22, f"d = {d}: n is outside of what was searched")
    return mp.power(2, high / mp.mpf(16))


@states(Source("DJYZZ24", "Theorem 4.1, the term of d^(1/4)", note="up to logarithms"))
def obligation_exponent(claimed: Callable[[Parameters], int] = reports_by_rule) -> int:
    """Check that the records that make the worst noise 6e-5 of the sum of deviations grow as
    d^(1/4), to 0.05, from d = 512 to 8192.

    The mechanism is the one of ``for_budget`` at (1, 1e-6), with multiplier 4.25; ``claimed``
    is its number of reports.
    """
    ds = (512, 2048, 8192)
    logs = (mp.log(records_for(d, mp.mpf("6e-5"), claimed), 4) for d in ds)
    for here, there in pairwise(logs):  # d grows by factors of 4
        slope = there - here
        require(abs(slope - mp.mpf("0.25")) <= mp.mpf("0.05"), f"{ds}: {mp.nstr(slope, 6)}")
    return len(ds)
