"""How ``robust_mean`` shares its budget, and which records its center counts in full: from public numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dpverify.plans.regions import histogram_moves
from dpverify.privacy import Adjacency, ApproxDP, Guarantee, calibrate
from dpverify.privacy.guarantees import ApproximateGaussianDP
from dpverify.privacy.numbers import exact, render, to_float
from dpverify.transformations.degree_weights import reach as weighted_reach
from dpverify.transformations.means import SoftCoreMean, WeightedCoreMean
from dpverify.transformations.soft_core import reach as soft_reach

if TYPE_CHECKING:
    from dpverify.mechanisms.robust_mean import RobustMean

FULL = (Fraction(9, 10), Fraction(5, 6), Fraction(3, 4), Fraction(2, 3), Fraction(3, 5))
_CENTERS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6)
MOMENTS, HISTOGRAM = Fraction(1, 5), Fraction(3, 20)
MOST_RECORDS = 1 << 60
"""What n_max may be."""


@lru_cache(maxsize=64)
def core_of(*parts: Any) -> WeightedCoreMean:
    """The center's part, from adjacency, nearness, multiplier, records expected to agree, tail, full."""
    return WeightedCoreMean(*parts[:5]) if parts[5] is None else SoftCoreMean(*parts)


def sure_share(gamma: Fraction, full: Fraction | None = None) -> Fraction:
    """The agreement over n, of friends but for a share gamma of anything: 2 (1 - gamma) w - 1, w the weight of
    a record with a share 1 - gamma of friends, at most 1; 1 - 6 gamma + 4 gamma^2 for degree weights."""
    own = 1 - 2 * gamma
    return 2 * (1 - gamma) * (own if full is None else min(own / (2 * full - 1), Fraction(1))) - 1


def check_gamma(gamma: Fraction, full: Fraction | None) -> None:
    """ValueError for a share of outliers that may leave no agreement (spec/theory/outliers.py: most_outliers)."""
    if 0 <= gamma < Fraction(1, 2) and sure_share(gamma, full) > 0:
        return
    best, remedy = chosen_full(Adjacency.REPLACE, gamma), ""
    counted = "degree weights" if full is None else f"full = {full}"
    if best is not None and 0 < gamma < _limit(best):
        remedy = f"; under replace full = {best} allows up to {render(_limit(best))}"
    raise ValueError(
        f"gamma = {to_float(gamma)!r}: with {counted} give a share from 0 to {render(_limit(full))}. With more "
        f"outliers no records are sure to agree, and nothing is proved about the center{remedy}."
    )


def _limit(full: Fraction | None) -> Fraction:
    """The largest gamma that leaves agreement, rounded down to 10^-4."""
    return max(g for g in (Fraction(k, 10_000) for k in range(5000)) if sure_share(g, full) > 0)


def chosen_full(adjacency: Adjacency, gamma: Fraction) -> Fraction | None:
    """Of ``FULL`` and degree weights the one of least reach over ``sure_share``; the last if that is 0 for all."""
    if adjacency is not Adjacency.REPLACE:
        return None

    def noise(full: Fraction | None) -> Fraction:
        reach = weighted_reach(adjacency) if full is None else soft_reach(full)
        return reach / sure_share(gamma, full)

    allowed = (full for full in (None, *FULL) if sure_share(gamma, full) > 0)
    return min(allowed, key=noise, default=FULL[-1])


def shared(budget: Guarantee, trial: RobustMean, wanted: int | None) -> dict[str, Any]:
    """Directions and shares, of a few the ones of least noise at n_max records, among those with which so
    many rarely abstain, if there are any."""
    if not isinstance(budget, ApproxDP):
        raise ValueError(f"budget = {budget}: give shares, or an ApproxDP budget.")
    mu = calibrate(lambda mu: ApproximateGaussianDP(mu, trial.tail, 0), budget)
    size, d, n = math.sqrt(to_float(mu.mu_squared)), trial.columns(), trial.n_max
    if not size:
        raise ValueError(f"budget = {budget} leaves nothing for a center; give a larger budget.")
    looked = math.sqrt(2 * d) * math.sqrt(histogram_moves(1, trial.adjacency))
    seen = looked / (n * size * math.sqrt(MOMENTS)) <= float(trial.gamma) / 4
    count = (min(2, d) if seen else 0) if wanted is None else wanted
    spent = MOMENTS + HISTOGRAM if count else Fraction(0)
    multiplier = Fraction(math.ceil(2**30 / size), 2**30)
    _, least, part = _center(trial, multiplier, spent)
    if not math.isfinite(least):
        fewest = _fewest(trial, multiplier, spent)
        remedy = (
            "give a larger budget"
            if fewest is None
            else (f"it takes at least {fewest} of them, or a larger budget")
        )
        raise ValueError(
            f"No share of {budget} leaves room for a center of n_max = {n} records; {remedy}."
        )
    last = 1 - part - spent
    return {
        "directions": count,
        "shares": (part, MOMENTS, HISTOGRAM, last) if count else (part, last),
    }


def _center(
    trial: RobustMean, multiplier: Fraction, spent: Fraction
) -> tuple[bool, float, Fraction]:
    """Whether it often abstains, the noise at the end, infinite where there is no room, and the center's share: the
    least of these."""
    found: list[tuple[bool, float, Fraction]] = []
    for part in (Fraction(str(share)) for share in _CENTERS):
        if part + spent >= 1:
            continue
        made = _with(trial, multiplier, (part, 1 - part))
        core = made.core()
        noise = core.expected_noise(core.n_max) * to_float(exact(trial.radius, "radius"))
        reach = math.hypot(trial.record_radius, noise * math.sqrt(trial.columns()))
        abstains = made.minimum_n() > trial.n_max
        found.append((abstains, reach / math.sqrt(1 - part - spent), part))
    return min(found)


def _fewest(trial: RobustMean, multiplier: Fraction, spent: Fraction) -> int | None:
    """The least n_max that leaves room for a center; None if no n_max does."""

    def room(n: int) -> bool:
        return math.isfinite(_center(replace(trial, n_max=n), multiplier, spent)[1])

    low, high = trial.n_max, min(2 * trial.n_max, MOST_RECORDS)
    while not room(high):
        if high == MOST_RECORDS:
            return None
        low, high = high, min(2 * high, MOST_RECORDS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if room(middle) else (middle, high)
    return high


def _with(trial: RobustMean, multiplier: Fraction, shares: tuple[Fraction, ...]) -> RobustMean:
    return replace(trial, noise_multiplier=multiplier, shares=shares)
