"""Joint confidence regions for the two probabilities of one event, by exact binomial tails.

An event S has hits ~ Binomial(draws, p) on one side and other_hits ~ Binomial(other_draws, q)
on the other. For a pair (p, q) let A = P(at least hits | p) and B = P(at most other_hits | q).
Both are superuniform and independent, so with z(t) = -(normal quantile of t) and weights w,
v >= 0 fixed beforehand, w^2 + v^2 = 1, the sum w z(A) + v z(B) is stochastically at most
standard normal, and reaches z(a) with probability at most a (Stouffer's combination). With
A > g and B > g besides, each broken with probability at most g, the pairs (p, q) that pass all
three tests are a confidence region of level 1 - (a + 2 g).

Draws that chose an event may certify as well, by another event that was chosen before them
(``region_of_both``). Let Z_1 be the sum w z(A) + v z(B) of a first block of draws at the true
probabilities (p_1, q_1) of its event, or -2 where it is lower, and Z_2 that of a second block at
those of an event that may depend on the first block. Given all draws before it, each sum is
stochastically at most standard normal. Let s, t > 0 with s^2 + t^2 = 1, and the level, be fixed
before the first block. Given that block, P(s Z_1 + t Z_2 >= z(a)) <= P(N >= (z(a) - s Z_1) / t)
for a standard normal N. This rises with Z_1, so its mean is at most that for a standard normal
first sum M, or -2 where M is lower. If M is, N has to reach (z(a) + 2 s) / t >= z(a), which has
probability a; otherwise s M + t N has to reach z(a). That is a (1 + P(M < -2)) together. The guards
of both blocks break with probability 4 g at most. Otherwise s Z_1 + t Z_2 < z(a), and for every
z_1 >= -2 and z_2 with s z_1 + t z_2 = z(a) one of the two pairs passes its own block's tests, with
z_1 or z_2 in place of z(a): it is in that block's region. For z_1 = -2 it is the second pair. A
guarantee that holds keeps both pairs, so each of its parameters is at least the smallest value at
the corners of these regions. That is one statement for all z_1 at once, so z_1 may be chosen after
the counts. The -2 is for a first event that turns out to tell nothing.

How many draws either side has may follow from all that was drawn before them, and be unequal: given
that, their hits are binomial, and all of the above holds. It may not follow from these draws.

For rare events one test is as good at all counts, so that nothing has to be known of them: that of
the ratio of odds, given the number of all hits (``odds``). It stands in place of the sum where the
share is 0: its score is superuniform in the same way, and the pairs that pass are above a curve
as well.

Two separate ends for p and q (a box) add up two errors where the truth makes one: their root of
sum of squares. That is the difference between the power of this region and that of a box.

The region is the set of pairs above an increasing curve p = f(q). It is covered by boxes
{p >= lower_i, q <= upper_i}, cell by cell of q, so that a quantity which rises with p and falls
with q is at least its smallest value at the corners (lower_i, upper_i): exactly, for all
quantities at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from dpverify.audit.odds import log_odds_at_least
from dpverify.privacy.numbers import Floats

Counts = NDArray[np.int64]
# The inverse beta function is good to about 1e-14; every bound is moved outward by more than that.
OUTWARD = 1e-10
PARTS = 64
"""Denominator of shares; a share says how much of the variance the other side has."""
OF_ODDS = 0.0
"""Share that stands for the test of the ratio of odds."""
_FINEST = 1 / PARTS  # parts: shares are multiples of this, so floats tell all of them exactly
_CELLS = 256  # the cover costs about 1 / _CELLS of the distance between the estimate and the bound
_FINE = 1024  # of a curve along which the ratio of odds is the same
_ROUGH = 16  # one box in so many bounds, from above, what all boxes of a region certify
_DEEPEST = 20.0  # lower scores of p are taken for minus this: tails above 1e-89 can be inverted
LEAST_PART = 1 / 8
"""Least part of all draws that is spent on one side."""
_GUARD = 0.01  # the share of alpha for each of the two guards
LOWEST, BOTH = -2.0, 0.9386
"""Score that stands for all lower ones of the first of two blocks; and the share of alpha for the
sum of both, at most (1 - 4 / 100) / (1 + P(M < -2)) for a standard normal M."""
_FARTHEST, _HALVINGS = 8.0, 14  # scores of a block that are looked at, and how finely
_ENDS = "lower", "upper"
_ORDERS = np.concatenate([1 + np.geomspace(1e-3, 1, 24), np.geomspace(2.1, 400, 40)])


def at_least(hits: Counts | int, draws: int, alpha: float | Floats) -> Floats:
    """Return lower confidence ends for probabilities: P(end > truth) <= alpha. Clopper, Pearson
    1934.
    """
    k = np.asarray(hits, dtype=np.float64)
    ends = scipy.special.betaincinv(np.maximum(k, 1), draws - k + 1, alpha)
    return np.where(k == 0, 0.0, ends * (1 - OUTWARD))


def at_most(hits: Counts | int, draws: int, alpha: float | Floats) -> Floats:
    """Return upper confidence ends for probabilities: P(end < truth) <= alpha. Clopper, Pearson
    1934.
    """
    k = np.asarray(hits, dtype=np.float64)
    ends = scipy.special.betainccinv(k + 1, np.maximum(draws - k, 1), alpha)
    return np.where(k >= draws, 1.0, np.minimum(1.0, ends * (1 + OUTWARD)))


def _floors(hits: int, draws: int, scores: Floats) -> Floats:
    """Return the p at which P(at least hits | p) has these scores z; for z < 0 from the
    complement, which is exact.
    """
    if not hits:
        return np.zeros_like(scores)
    tails, rest, below = scipy.special.ndtr(-np.abs(scores)), draws - hits + 1, scores < 0
    ends = np.empty_like(tails)  # two inversions, each only where it is needed
    scipy.special.betainccinv(hits, rest, tails, out=ends, where=below)
    scipy.special.betaincinv(hits, rest, tails, out=ends, where=~below)
    return np.asarray(ends * (1 - OUTWARD))


def _ceilings(hits: int, draws: int, scores: Floats) -> Floats:
    """Return the q at which P(at most hits | q) has these scores z, likewise."""
    if hits >= draws:
        return np.ones_like(scores)
    tails, rest, below = scipy.special.ndtr(-np.abs(scores)), draws - hits, scores < 0
    ends = np.empty_like(tails)
    scipy.special.betaincinv(hits + 1, rest, tails, out=ends, where=below)
    scipy.special.betainccinv(hits + 1, rest, tails, out=ends, where=~below)
    return np.minimum(1.0, ends * (1 + OUTWARD))


@dataclass(frozen=True, slots=True)
class Counted:
    """Counts of an event on its own side and on the other."""

    hits: int
    draws: int
    other_hits: int
    other_draws: int


@dataclass(frozen=True, slots=True, eq=False)
class ConfidenceRegion:
    """Confidence region for (P(S), Q(S)), wrong with a stated probability: in a box
    {p >= lower[i], q <= upper[i]}.
    """

    lower: Floats
    upper: Floats

    def excess(self, epsilon: float, delta: float) -> float:
        """Bound P(S) - e^epsilon Q(S) - delta from below."""
        return float(self.excesses(np.array([epsilon]), np.array([delta]))[0])

    def excesses(self, epsilons: Floats, deltas: Floats) -> Floats:
        """Bound P(S) - e^epsilon Q(S) - delta from below at each of these points."""
        with np.errstate(over="ignore", invalid="ignore"):
            factors = np.exp(epsilons)[:, None] * (1 + OUTWARD)
            other = np.where(self.upper > 0, factors * self.upper, 0.0)
        least: Floats = np.min(self.lower * (1 - OUTWARD) - other, axis=1)
        return least - deltas * (1 + OUTWARD)

    def epsilon_at(self, delta: float) -> float:
        """Bound from below the epsilon of any guarantee with this delta:
        ln((P(S) - delta) / Q(S)).
        """
        above = np.maximum(self.lower * (1 - OUTWARD) - delta * (1 + OUTWARD), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.where(above > 0, np.log(above) - np.log(self.upper * (1 + OUTWARD)), -np.inf)
        return float(np.min(ends))

    def mu(self) -> float:
        """Bound from below the mu of a Gaussian guarantee: P(S) <= Phi(mu + Phi^-1(Q(S)))."""
        ends = scipy.special.ndtri(self.lower) - scipy.special.ndtri(self.upper)
        return max(0.0, float(np.min(np.nan_to_num(ends, nan=-np.inf))) - OUTWARD)

    def rho(self) -> float:
        """Bound from below the rho of zCDP: the divergence of order a of S against not S
        is <= rho a.
        """
        if not np.all(self.lower > self.upper):  # such a box shows nothing
            return 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = [f(t) for t in (self.lower, self.upper) for f in (np.log, _log_rest)]
            # The smallest of the boxes' largest values. A box of which a few orders show more
            # than that is not it.
            least = np.min(_steepest_orders(logs, slice(None, None, _ROUGH), _ORDERS))
            few = _steepest_orders(logs, slice(None), _ORDERS[::_ROUGH])
            rest = np.flatnonzero(few < least)
            if len(rest):
                least = min(least, np.min(_steepest_orders(logs, rest, _ORDERS)))
        return max(0.0, float(least) - OUTWARD)


def _log_rest(t: Floats) -> Floats:
    return np.asarray(np.log1p(-t))


def _steepest_orders(logs: Sequence[Floats], boxes: slice | Counts, orders: Floats) -> Floats:
    """Return the largest divergence over its order of some boxes. logs: of p, 1 - p, q, 1 - q."""
    p, not_p, q, not_q = (log[boxes, None] for log in logs)
    happens, not_happens = orders * p + (1 - orders) * q, orders * not_p + (1 - orders) * not_q
    divergence = np.logaddexp(happens, not_happens) / (orders - 1)
    best: Floats = np.max(np.nan_to_num(divergence / orders, nan=0.0, neginf=0.0), axis=1)
    return best


@lru_cache(maxsize=256)
def confidence_region(counted: Counted, share: float, alpha: float) -> ConfidenceRegion:
    """Return the confidence region of level 1 - alpha. share: parts of PARTS, fixed before the
    counts.

    The other side weighs sqrt(share / PARTS) in the sum; best is its part of the variance of
    ln P(S) - ln Q(S). Any share is valid; 0 (``OF_ODDS``) takes the test of the ratio of odds,
    which is best for events that are rare on both sides. With all of PARTS the sum is z(B) alone,
    and the region is a box: the own side's probability is above its guard.
    """
    return _covered(counted, share, *_bars(alpha), 1)


@lru_cache(maxsize=256)
def region_of_both(
    first: Counted, share: float, second: Counted, other_share: float, weight: float, alpha: float
) -> tuple[ConfidenceRegion, tuple[float, float]]:
    """Return the boxes of level 1 - alpha in which one of two events is, chosen one after the
    other, and the scores (z_1, z_2) of their own regions. Every bound that is read from the
    boxes holds for a guarantee of both events.

    first, second: counts of the event chosen before either block, and of the event that may depend
    on the first block. weight: the first block's part of the variance of the sum, between 0 and
    1; like alpha and the first share it is fixed before the first block.
    The scores are those where both regions show the same epsilon without delta, nearly; or -2
    and what the second region then has to reach alone.
    """
    bar, guard = float(-scipy.special.ndtri(BOTH * alpha)), _GUARD * alpha
    own, other = np.sqrt(weight), np.sqrt(1 - weight)

    def scores(z: float) -> tuple[float, float]:
        return z, float((bar - own * z) / other)

    def regions(z: float, every: int) -> list[ConfidenceRegion]:
        blocks = zip((first, second), (share, other_share), scores(z), strict=True)
        return [_covered(counted, part, at, guard, every) for counted, part, at in blocks]

    def shows_more(z: float) -> bool:  # the first block, which shows less as z rises
        shown = [one.epsilon_at(0.0) for one in regions(z, _ROUGH)]
        return shown[0] > shown[1]

    low, high = LOWEST, _FARTHEST
    if not shows_more(low):
        return regions(low, 1)[1], scores(low)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if shows_more(middle) else (low, middle)
    boxes = regions(low, 1)
    lower, upper = (np.concatenate([getattr(one, end) for one in boxes]) for end in _ENDS)
    return ConfidenceRegion(lower, upper), scores(low)


def best_share(counted: Counted, shares: Sequence[float], alpha: float, delta: float) -> float:
    """Return the share, the first of equal ones, with which these counts certify the largest
    epsilon at delta.

    Some boxes of a region certify no less than all of them, so most shares need no whole region.
    """
    bars = _bars(alpha)
    rough = [_covered(counted, share, *bars, _ROUGH).epsilon_at(delta) for share in shares]
    best, most = len(shares), -np.inf
    for i in sorted(range(len(shares)), key=lambda i: -rough[i]):
        if rough[i] < most:
            break
        epsilon = confidence_region(counted, shares[i], alpha).epsilon_at(delta)
        if epsilon > most or (epsilon == most and i < best):
            best, most = i, epsilon
    return shares[best]


def score_of(alpha: float) -> float:
    """Return the score that the sum of one block has to reach."""
    return float(-scipy.special.ndtri(alpha - 2 * _GUARD * alpha))


def _bars(alpha: float) -> tuple[float, float]:
    """Return that score, and the level of a guard."""
    return score_of(alpha), _GUARD * alpha


def _covered(
    counted: Counted, share: float, bar: float, guard: float, every: int
) -> ConfidenceRegion:
    """Return one box in every so many of the cover, the first and the last among them."""
    if share == OF_ODDS:
        return _above_odds(counted, bar, guard, every)
    own_weight, other_weight = np.sqrt((PARTS - share) / PARTS), np.sqrt(share / PARTS)
    far = -scipy.special.ndtri(guard)
    least = at_least(counted.hits, counted.draws, guard)
    if not own_weight:
        ceiling = at_most(
            counted.other_hits, counted.other_draws, max(guard, float(scipy.special.ndtr(-bar)))
        )
        return ConfidenceRegion(np.array([float(least)]), np.array([float(ceiling)]))
    scores = _scores(float(own_weight), float(other_weight), float(bar), float(far))
    ceilings = _ceilings(counted.other_hits, counted.other_draws, scores[::every])
    needed = np.clip((bar - other_weight * scores[:-1]) / own_weight, -_DEEPEST, far)
    floors = _floors(counted.hits, counted.draws, needed[every - 1 :: every])
    return ConfidenceRegion(np.concatenate([[least], np.maximum(floors, least)]), ceilings)


def _above_odds(counted: Counted, bar: float, guard: float, every: int) -> ConfidenceRegion:
    """Cover the pairs whose ratio of odds passes, likewise."""
    least = float(at_least(counted.hits, counted.draws, guard))
    most = float(at_most(counted.other_hits, counted.other_draws, guard))
    odds = math.exp(log_odds_of(counted, bar))
    first = least / (odds * (1 - least) + least) if odds else most
    if first >= most:
        return ConfidenceRegion(np.array([least]), np.array([most]))
    ceilings = np.geomspace(first, most, _FINE + 1)
    ceilings[-1] = most
    curve = odds * ceilings / (1 - ceilings + odds * ceilings) * (1 - OUTWARD)
    floors = np.maximum(curve[every - 1 : -1 : every], least)
    return ConfidenceRegion(np.concatenate([[least], floors]), ceilings[::every])


def log_odds_of(counted: Counted, score: float) -> float:
    """Return the lower end of the logarithm of the ratio of odds (``odds``) at this score."""
    counts = counted.hits, counted.draws, counted.other_hits, counted.other_draws
    return log_odds_at_least(*counts, score)


@lru_cache(maxsize=256)
def _scores(own_weight: float, other_weight: float, bar: float, far: float) -> Floats:
    """Return where cells of z(B) begin and end, rising: evenly spaced in z(B) and, between
    these, in z(A).

    The curve w z(A) + v z(B) = bar is followed from where the own guard is the stricter test to the
    guard of the other side. Where w is small nearly all of it lies in a narrow range of z(B).
    """
    lowest = -far if bar >= 0 else -_DEEPEST  # below a bar that is passed, both scores may be low
    near = max((bar - own_weight * far) / other_weight, lowest)
    even = np.linspace(near, far, _CELLS // 2 + 1)
    last = max((bar - other_weight * far) / own_weight, lowest)
    own = np.linspace(far, last, _CELLS + 1)[1::2]
    between = np.clip((bar - own_weight * own) / other_weight, near, far)
    return np.sort(np.concatenate([even, between]))


def own_part_of(share: float) -> float:
    """Return the part of all draws, nearly, that best goes to the own side, where this share is
    best for equal parts.

    Relative variances are as PARTS - share to share then. With n draws for the own side and m for
    the other the sum is v / n + w / m, which is least for n to m as the roots of v and w.
    """
    own, other = math.sqrt(PARTS - share), math.sqrt(share)
    return min(max(own / (own + other), LEAST_PART), 1 - LEAST_PART)


def share_for_parts(share: float, own: float, part: float = 0.5) -> float:
    """Return the share that weighs both sides alike if the own side has ``part`` of all draws and
    not ``own``.
    """
    if share in (OF_ODDS, PARTS) or own == part:
        return share
    spreads = (PARTS - share) * own / part, share * (1 - own) / (1 - part)
    return share_of(math.sqrt(spreads[0]), math.sqrt(spreads[1]))


def share_of(own_spread: float, other_spread: float) -> float:
    """Return the parts for two relative standard deviations, never all for one side."""
    total = own_spread**2 + other_spread**2
    if not 0 < total < np.inf:
        return PARTS / 2
    parts = round(PARTS * other_spread**2 / total / _FINEST) * _FINEST
    return min(max(parts, _FINEST), PARTS - _FINEST)
