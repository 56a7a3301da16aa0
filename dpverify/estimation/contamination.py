"""Shares of outliers: what they leave of an agreement, and how ``robust_mean`` shares its
budget; from public numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpverify.estimation.column_cuts import VOTES, worthwhile
from dpverify.estimation.cutting import best_drawn
from dpverify.estimation.inner_cuts import MOST_DIRECTIONS
from dpverify.grid.region_queries import histogram_moves
from dpverify.privacy import Adjacency, ApproxDP, Guarantee, calibrate
from dpverify.privacy.calibration import Unreachable, least_integer
from dpverify.privacy.guarantees import ApproximateGaussianDP
from dpverify.privacy.numbers import render, to_float
from dpverify.transformations.degree_weights import reach as weighted_reach
from dpverify.transformations.means import SoftCoreMean, WeightedCoreMean
from dpverify.transformations.soft_core import reach as soft_reach

FULL = (Fraction(9, 10), Fraction(5, 6), Fraction(3, 4), Fraction(2, 3), Fraction(3, 5))
_CENTERS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6)
MOMENTS, HISTOGRAM = Fraction(1, 5), Fraction(3, 20)
INNER, MANY_COLUMNS = 10, 50
"""Directions of the inner moments by default, and the number of columns from which they are taken:
in fewer columns the first moments alone show directions well, and histograms tell where to cut."""
INNER_LOOKS = Fraction(1, 4), Fraction(3, 25)
"""Shares of the first moments and of the inner ones, where those are taken."""
SIDES = Fraction(1, 50)
"""Share of the signed count that precedes rounds in slices."""
MOST_RECORDS = 1 << 60
"""Largest ``n_max`` that is accepted."""


@lru_cache(maxsize=64)
def core_of(*parts: Any) -> WeightedCoreMean:
    """Build the center's part from adjacency, nearness, multiplier, records expected to agree,
    tail and full; the part is cached.
    """
    return WeightedCoreMean(*parts[:5]) if parts[5] is None else SoftCoreMean(*parts)


def sure_share(gamma: Fraction, full: Fraction | None = None) -> Fraction:
    """Return a share of n that the agreement is sure to reach where all but a share gamma of
    the records are friends.

    The share is 2 (1 - gamma) w - 1, with w the weight of a record with a share 1 - gamma of
    friends, at most 1; for degree weights (full = None) that is 1 - 6 gamma + 4 gamma^2. The
    theorem is in spec/theory/outliers.py.
    """
    own = 1 - 2 * gamma
    return 2 * (1 - gamma) * (own if full is None else min(own / (2 * full - 1), Fraction(1))) - 1


def check_gamma(gamma: Fraction, full: Fraction | None) -> None:
    """Refuse, with ValueError, a share of outliers that may leave no agreement.

    The bound is in spec/theory/outliers.py (most_outliers).
    """
    if 0 <= gamma < Fraction(1, 2) and sure_share(gamma, full) > 0:
        return
    best, remedy = chosen_full(Adjacency.REPLACE, gamma), ""
    counted = "degree weights" if full is None else f"full = {full}"
    if best is not None and 0 < gamma < _limit(best):
        remedy = f"; under replace full = {best} allows up to {render(_limit(best))}"
    raise ValueError(
        f"gamma = {to_float(gamma)!r}: with {counted} give a share from 0 to "
        f"{render(_limit(full))}. With more outliers no records are sure to agree, and nothing is "
        f"proved about the center{remedy}."
    )


def _limit(full: Fraction | None) -> Fraction:
    """Find the largest gamma that leaves agreement, rounded down to 10^-4."""
    first = least_integer(lambda k: sure_share(Fraction(k, 10_000), full) <= 0, above=0, most=5000)
    return Fraction(first - 1, 10_000)


def chosen_full(adjacency: Adjacency, gamma: Fraction) -> Fraction | None:
    """Choose, of ``FULL`` and degree weights (None), the option with the least reach over
    ``sure_share``.

    Return the last of ``FULL`` where none leaves agreement, and None under add-remove, for
    which a soft core has no bounds.
    """
    if adjacency is not Adjacency.REPLACE:
        return None

    def noise(full: Fraction | None) -> Fraction:
        reach = weighted_reach(adjacency) if full is None else soft_reach(full)
        return reach / sure_share(gamma, full)

    allowed = (full for full in (None, *FULL) if sure_share(gamma, full) > 0)
    return min(allowed, key=noise, default=FULL[-1])


Center = Callable[[int, Fraction, Fraction], tuple[bool, float]]
"""Function of n_max, the noise multiplier and the center's share. It returns whether that many
records often abstain, and how far the records that are summed may be from the center, in
deviations; infinite where there is no room for a center.
"""


def best_shares(
    budget: Guarantee,
    center: Center,
    *,
    tail: Fraction,
    gamma: Fraction,
    columns: int,
    n_max: int,
    adjacency: Adjacency,
    directions: int | None,
    votes: bool | None = None,
    record_radius: float | None = None,
    inner: int | None = None,
    rounds: int = 1,
) -> dict[str, Any]:
    """Choose directions and shares of the budget for the least noise at n_max records.

    Of a few shares for the center, those with which n_max records rarely abstain are preferred.
    directions: how many are wanted; None for two (three with inner moments) where n_max records
    would show outliers at half the radius, and none elsewhere. votes: whether they are wanted;
    None for where they are worthwhile, unless no directions are wanted. record_radius: that of
    normal inliers, who may be drawn in; None where they may not. inner: directions of inner
    moments; None for ``INNER`` in ``MANY_COLUMNS`` where directions are not given. rounds: of the
    sum; several need a signed count. Returns the parameters ``directions``, ``inner``, ``votes``,
    ``shares`` and ``drawn``. Raises ValueError where no share leaves room for a center, and for a
    budget other than (epsilon, delta).
    """
    if not isinstance(budget, ApproxDP):
        raise ValueError(f"budget = {budget}: give shares, or an ApproxDP budget.")
    mu = calibrate(lambda mu: ApproximateGaussianDP(mu, tail, 0), budget)
    size = math.sqrt(to_float(mu.mu_squared))
    if not size:
        raise ValueError(f"budget = {budget} leaves nothing for a center; give a larger budget.")
    looked = math.sqrt(2 * columns) * math.sqrt(histogram_moves(1, adjacency))
    seen = looked / (n_max * size * math.sqrt(MOMENTS)) <= float(gamma) / 4
    if inner is None:
        inner = INNER if directions is None and columns >= MANY_COLUMNS and seen else 0
    most = min(MOST_DIRECTIONS, inner - 1) if inner else min(2, columns)
    count = (most if seen or inner else 0) if directions is None else directions
    multiplier = Fraction(math.ceil(2**30 / size), 2**30)
    if votes is None:
        noise = multiplier / Fraction(math.sqrt(VOTES))
        votes = directions != 0 and worthwhile(columns, n_max, gamma, noise, adjacency)
    both = INNER_LOOKS if inner else (MOMENTS, HISTOGRAM)
    looks = (both if count else ()) + ((VOTES,) if votes else ()) + ((SIDES,) * (rounds > 1))
    spent = sum(looks, start=Fraction(0))
    _, least, part = _best_center(center, n_max, multiplier, spent)
    if not math.isfinite(least):
        fewest = _fewest(center, n_max, multiplier, spent)
        remedy = (
            "give a larger budget"
            if fewest is None
            else (f"it takes at least {fewest} of them, or a larger budget")
        )
        raise ValueError(
            f"No share of {budget} leaves room for a center of n_max = {n_max} records; {remedy}."
        )
    left, drawn = 1 - part - spent, Fraction(1)
    if record_radius is not None:
        moves = 2 if adjacency is Adjacency.REPLACE else 1
        deviation = moves / (size * math.sqrt(left))
        ball = max(least * math.sqrt(left), record_radius)
        offset = math.sqrt((ball - record_radius) * (ball + record_radius))
        drawn = best_drawn(columns, ball, n_max, deviation, offset)
    return {
        "directions": count,
        "inner": inner,
        "votes": votes,
        "shares": (part, *looks, left),
        "drawn": drawn,
    }


def _best_center(
    center: Center, n_max: int, multiplier: Fraction, spent: Fraction
) -> tuple[bool, float, Fraction]:
    """Find the best center: the least of (whether it often abstains, the noise at the end, the
    center's share), in that order.

    The noise is infinite where there is no room.
    """
    options: list[tuple[bool, float, Fraction]] = []
    for part in (Fraction(str(share)) for share in _CENTERS):
        if part + spent >= 1:
            continue
        abstains, reach = center(n_max, multiplier, part)
        options.append((abstains, reach / math.sqrt(1 - part - spent), part))
    return min(options)


def _fewest(center: Center, n_max: int, multiplier: Fraction, spent: Fraction) -> int | None:
    """Find the least n_max that leaves room for a center; None if no n_max does."""

    def room(n: int) -> bool:
        return math.isfinite(_best_center(center, n, multiplier, spent)[1])

    first = min(2 * n_max, MOST_RECORDS)
    try:
        return least_integer(room, above=n_max, first=first, most=MOST_RECORDS)
    except Unreachable:
        return None
