"""Outputs of a weighted mean, as a law: its noisy agreement, and the mean with noise that this
decides.

The hockey stick of two such laws is computed in one dimension, for records at a few distinct
points: a sum over the noisy agreement, in closed form over the mean. In floats: cut tails have
mass below 1e-17.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import erfc, exp, floor, inf, log, sqrt

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from .caches import cache
from .filters import least_shift
from .laws import real
from .obligations import require
from .profiles import gaussian_profile
from .weights import LEAST, MOVES, REACH, SLACK, exact_agreement, weight

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
THEOREM = Source("OURS", "a noisy agreement, then a mean weighted by friends: approximate GDP")
Points = tuple[tuple[Fraction, int], ...]
"""Points, in radii, and how many records are there. Friends are within a radius."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Parameters of a release.

    The agreement has noise of deviation MOVES / mu_agreement, the mean of multiplier times how
    far it can move; the bad event has probability ``rare``.
    """

    adjacency: Adjacency
    mu_agreement: Fraction
    multiplier: Fraction
    rare: Fraction

    @property
    def scale(self) -> Fraction:
        """Standard deviation of the noise on the agreement."""
        return MOVES[self.adjacency] / self.mu_agreement

    def noise(self, low: int) -> Fraction:
        """Return the standard deviation of the mean's noise, in radii, for this lower bound on the
        agreement.
        """
        return REACH[self.adjacency] * self.multiplier / low


def taken_off(release: Release) -> int:
    """Return the number that is taken off the noisy agreement."""
    shift = least_shift(release.rare, release.scale)
    return MOVES[release.adjacency] + SLACK[release.adjacency] + shift


@states(THEOREM)
def mu_squared(release: Release) -> Fraction:
    """Return mu^2 of the noisy agreement and the noisy mean together.

    The mechanism releases q = agreement(degrees) + round(scale N), scale = MOVES / mu_S.
    low = q - MOVES - SLACK - t, t = least_shift(rare, scale). If low < 1 it releases nothing
    more; else the weighted mean plus noise of deviation REACH s / low radii in each dimension.

    Proof. Fix the pair; A is the smaller of the two exact agreements. The bad event is
    low > A - SLACK, a set of q. Either agreement, rounded down, is at most the smaller one of
    both plus MOVES, so at most A + MOVES: where q is bad it is above its center by more than t,
    of probability at most ``rare`` under either dataset. Where q is not bad and low >= 1,
    A >= 1 + SLACK = LEAST, so the means are at most REACH / (A - SLACK) <= REACH / low radii
    apart (weights.reach): 1 / s deviations. Up to the bad event the two laws are a composition:
    the agreements differ by at most MOVES (mu_S), then 1 / s. So for an event S, P(S) <=
    P(S, good) + rare <= e^epsilon Q(S) + delta_mu(epsilon) + rare. Where all weights are 0,
    A <= 0 and whatever is released is bad: any value may stand for the mean. QED.
    """
    return release.mu_agreement**2 + 1 / release.multiplier**2


@states(THEOREM)
def delta(release: Release) -> Fraction:
    """Return the delta that the bad event adds to the Gaussian profile."""
    return release.rare


@cache
def center(points: Points) -> tuple[Fraction, Fraction]:
    """Return the exact agreement and the weighted mean, 0 without weight."""
    n = sum(count for _, count in points)
    own = [weight(sum(m for y, m in points if abs(x - y) <= 1), n) for x, _ in points]
    total = sum(w * m for w, (_, m) in zip(own, points, strict=True))
    moment = sum((w * m * x for w, (x, m) in zip(own, points, strict=True)), Fraction(0))
    return exact_agreement(total, n), moment / total if total else Fraction(0)


def hockey_stick(release: Release, left: Points, right: Points, epsilon: float) -> float:
    """Return sup over events S of P(S) - e^epsilon Q(S)."""
    (agreed, mean), (also, other) = center(left), center(right)
    q, other_q = floor(agreed), floor(also)
    scale, excess = float(release.scale), 0.0
    reach, off = floor(9 * scale) + 1, taken_off(release)
    for seen in range(q - reach, q + reach + 1):
        low = seen - off
        apart = float(abs(mean - other) / release.noise(low)) if low >= 1 else 0.0
        excess += two_normals(
            mass_at(seen - q, scale), mass_at(seen - other_q, scale), apart, epsilon
        )
    return excess


def two_normals(p: float, q: float, mu: float, epsilon: float) -> float:
    """Return the hockey stick of p N(0, 1) and q N(mu, 1), at most p."""
    shift = inf if q == 0 else log(p / q) - epsilon if p > 0 else -inf
    if mu == 0 or abs(shift) == inf:
        return max(0.0, p - exp(epsilon) * q)
    above = shift / mu + mu / 2
    return max(0.0, p * _below(above) - exp(epsilon) * q * _below(above - mu))


def mass_at(z: int, scale: float) -> float:
    """Return P(round(scale N(0, 1)) = z), from the side where it does not cancel."""
    return _below((0.5 - abs(z)) / scale) - _below((-0.5 - abs(z)) / scale)


def _below(x: float) -> float:
    return erfc(-x / sqrt(2)) / 2


# --- obligations --------------------------------------------------------------------------------


def _points(*counts: int) -> Points:
    """Return so many records at 0, 1, 2, ... radii."""
    return tuple((Fraction(i), count) for i, count in enumerate(counts) if count)


_NASTY: tuple[tuple[str, Adjacency, tuple[str, str], tuple[int, ...], tuple[int, ...]], ...] = (
    # mu of the agreement, multiplier of the mean; records at 0, 1, 2, ... radii on both sides
    ("an eighth do not know it", ADD_REMOVE, ("1", "1/2"), (250, 1749, 1), (250, 1749)),
    ("an eighth, few records", ADD_REMOVE, ("1/2", "1/2"), (5, 34, 1), (5, 34)),
    ("a far friend", ADD_REMOVE, ("1", "1"), (200, 1), (200,)),
    ("a clique and a lonely one", ADD_REMOVE, ("1", "8"), (60, 0, 1), (60,)),
    ("a clique and lonely ones", ADD_REMOVE, ("4", "1"), (30, 0, 2, 0, 1), (30, 0, 2)),
    ("two halves with a bridge", ADD_REMOVE, ("4", "1/4"), (20, 60, 21), (20, 60, 20)),
    ("two cliques", ADD_REMOVE, ("2", "1/4"), (20, 0, 20), (20, 0, 19)),
    ("one from end to end", REPLACE, ("1", "1/2"), (1, 1999, 0), (0, 1999, 1)),
    ("one leaves the clique", REPLACE, ("1", "8"), (60,), (59, 0, 1)),
    ("two halves with a bridge", REPLACE, ("4", "1/4"), (20, 60, 21), (21, 60, 20)),
    ("two cliques", REPLACE, ("2", "1/4"), (20, 0, 20), (19, 0, 21)),
)
LOST = 1e-8
"""Error allowed in a hockey stick: rounding, times e^epsilon."""


@states(THEOREM)
def obligation_composition(
    claimed: Callable[[Release], Fraction] = mu_squared, rare: Fraction = Fraction(1, 1000)
) -> int:
    """Check that the hockey stick of agreement and mean, both ways and at several epsilon, is at
    most the profile of the claimed mu plus ``rare``, for pairs in one dimension; and above half
    of it for some.
    """
    cases, nearest = 0, mp.mpf(0)
    for name, adjacency, (mu, multiplier), *sides in _NASTY:
        release = Release(
            adjacency=adjacency,
            mu_agreement=Fraction(mu),
            multiplier=Fraction(multiplier),
            rare=rare,
        )
        left, right = (_points(*counts) for counts in sides)
        for p, q in ((left, right), (right, left)):
            for epsilon in (0, 1, 2, 4, 8):
                excess = hockey_stick(release, p, q, epsilon)
                most = gaussian_profile(claimed(release), Fraction(epsilon)) + real(delta(release))
                case = f"{name}, {adjacency}, epsilon = {epsilon}: {excess} > {mp.nstr(most, 8)}"
                require(excess <= most + LOST, case)
                nearest = max(nearest, excess / most)
                cases += 1
    require(nearest >= mp.mpf("0.5"), f"at most {nearest} of what is claimed")
    return cases


@states(THEOREM)
def obligation_bad_event(claimed: Callable[[Release], int] = taken_off) -> int:
    """Check on the same pairs that the lower bound exceeds A - SLACK with probability at most
    ``rare``, and more than half of that for some; where it does not, A is at least LEAST.
    """
    cases = 0
    for adjacency in Adjacency:
        require(LEAST[adjacency] == 1 + SLACK[adjacency], f"{adjacency}: what is left may be 1")
        nearest = 0.0
        for name, _, _, *sides in (pair for pair in _NASTY if pair[1] is adjacency):
            exact = [center(_points(*counts))[0] for counts in sides]
            for mu, rare in ((8, 10), (2, 1000), (1, 10**6)):
                release = Release(
                    adjacency=adjacency,
                    mu_agreement=Fraction(mu, 8),
                    multiplier=Fraction(1),
                    rare=Fraction(1, rare),
                )
                good = floor(min(exact) - SLACK[adjacency]) + claimed(release)
                room = good - max(map(floor, exact))
                tail = _below(-(room + 0.5) / float(release.scale))
                require(tail <= release.rare, f"{name}, {release}: probability {tail}")
                nearest = max(nearest, tail * rare)
                cases += 1
        require(nearest >= 0.5, f"{adjacency}: at most {nearest} of the probability")
    return cases
