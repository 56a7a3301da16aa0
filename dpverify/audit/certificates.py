"""Certified bounds: statements about privacy that are wrong with a stated probability at most.

An event is chosen on some draws and its two probabilities are bounded on others, so the choice
costs nothing. Each certificate states its own alpha; to combine several, divide alpha among
them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np

from dpverify.audit.confidence_regions import (
    ConfidenceRegion,
    Counted,
    at_least,
    confidence_region,
    region_of_both,
)
from dpverify.audit.reach import SENT_TO
from dpverify.privacy import Guarantee, points_of
from dpverify.privacy.numbers import Floats

Point = tuple[float, float]
"""An epsilon and the delta that is claimed there."""
_BEYOND_TESTING = Fraction(10**4)  # no number of draws tells one such epsilon from another
_BETWEEN = 3
DIRECTIONS = ("left over right", "right over left")
EITHER = "either side guessed"
"""Direction of certificates of single calls whose side is guessed, wherever one of two events
tells it.
"""
_ROUNDING = 1e-9  # more than the rounding of logarithms
_GUESSED = 0.8  # share of alpha of a "guesses" certificate; the rest is for its region


@dataclass(frozen=True, slots=True)
class Earlier:
    """Event of the draws on which a certificate's own event was chosen, itself chosen before them.

    hits, draws, other_hits, other_draws, share: as in ``Certificate``. weight: what these draws
    count in the sum of both (``confidence_regions``), fixed before they were drawn.
    """

    event: str
    hits: int
    draws: int
    other_hits: int
    other_draws: int
    share: float
    weight: float

    @property
    def counted(self) -> Counted:
        """The counts alone."""
        return Counted(self.hits, self.draws, self.other_hits, self.other_draws)

    def __str__(self) -> str:
        counts = f"{self.hits}/{self.draws} against {self.other_hits}/{self.other_draws}"
        return f"before it: {self.event}; {counts}"


@dataclass(frozen=True, slots=True)
class Certificate:
    """Statement that the counts of one event prove, wrong with probability at most ``alpha``.

    pair, direction, event: where it was seen. hits of draws on the event's own side, other_hits of
    other_draws on the other. share: the weight of the other side in the joint test
    (``confidence_regions``), 0 for the test of the ratio of odds.
    epsilon: a guarantee with this delta that holds has at least this epsilon; -inf if nothing
    is shown. claimed: the claim's own epsilon at this delta.
    mu, rho: lower bounds on the parameter of a Gaussian guarantee, and of zCDP.
    everywhere: a lower bound on delta at every epsilon, of an event that is impossible on the
    other side by its law, wrong with probability ``alpha`` at most, in addition; 0 where that
    is not known.
    refuted: whether the guarantee that was audited fails.
    earlier: an event that counts besides, in the draws that chose this one; what is shown is then
    shown of a guarantee that keeps both.
    method: "joint" from a number of draws fixed beforehand (``regions``); "guesses", for single
    calls and a claim without delta (``witnesses.guesses``): hits are right guesses at a call's
    side and other_hits wrong ones, epsilon and refuted hold whatever drifts with the calls, the
    rest as in "joint" where nothing does; or "betting" (``betting``): then counts are of the
    last event, and alpha is that of the whole attack.
    """

    pair: str
    direction: str
    event: str
    hits: int
    draws: int
    other_hits: int
    other_draws: int
    share: float
    delta: float
    epsilon: float
    claimed: float
    alpha: float
    method: Literal["joint", "guesses", "betting"] = "joint"
    mu: float = 0.0
    rho: float = 0.0
    everywhere: float = 0.0
    refuted: bool = False
    earlier: Earlier | None = None

    @property
    def region(self) -> ConfidenceRegion | None:
        """Confidence region of the event's two probabilities, of level 1 - ``alpha``; with an
        earlier event, boxes in which one of both is. None for bets, and for two events.
        """
        if self.method == "betting" or self.direction == EITHER:
            return None
        alpha = self.alpha * (1 - _GUESSED) if self.method == "guesses" else self.alpha
        counted = Counted(self.hits, self.draws, self.other_hits, self.other_draws)
        if self.earlier is not None:
            return _with_earlier(self.earlier, counted, self.share, alpha)[0]
        return confidence_region(counted, self.share, alpha)

    @property
    def scores(self) -> tuple[float, float] | None:
        """Scores that the earlier event and this one have to reach (``region_of_both``)."""
        if self.earlier is None:
            return None
        counted = Counted(self.hits, self.draws, self.other_hits, self.other_draws)
        return _with_earlier(self.earlier, counted, self.share, self.alpha)[1]

    @property
    def errors(self) -> tuple[float, float]:
        """Observed errors of the test "S, so it was this side": a point near the trade-off curve.

        (how often it is wrong on the other side, how often on its own); ``region`` encloses the
        truth where there is no earlier event.
        """
        return self.other_hits / self.other_draws, 1 - self.hits / self.draws

    @property
    def certified_delta(self) -> float:
        """Certified lower bound on delta at the claim's epsilon: a lower end of
        P(S) - e^epsilon Q(S).
        """
        return self.delta_at(self.claimed)

    def delta_at(self, epsilon: float) -> float:
        """Return a lower bound on delta at epsilon; the bounds at all epsilon hold together."""
        joint = self.region
        if joint is None:  # delta falls as epsilon rises
            return self.delta if epsilon <= self.epsilon else 0.0
        return max(0.0, self.everywhere, joint.excess(epsilon, 0.0))

    def __str__(self) -> str:
        counts = f"{self.hits}/{self.draws} against {self.other_hits}/{self.other_draws}"
        before = "" if self.earlier is None else f"; {self.earlier}"
        return f"pair {self.pair!r}, {self.direction}, event: {self.event}; {counts}{before}"


@dataclass(frozen=True, slots=True)
class Aim:
    """Purpose of a certificate: chosen, like the event itself, before its counts are seen.

    point: the (epsilon, delta) of the claim. share: as in ``Certificate``. impossible: whether the
    other side's law rules the event out. own: the part of all draws that best goes to the event's
    own side.
    """

    point: Point
    share: float
    impossible: bool = False
    own: float = 0.5


def _with_earlier(
    earlier: Earlier, counted: Counted, share: float, alpha: float
) -> tuple[ConfidenceRegion, tuple[float, float]]:
    return region_of_both(earlier.counted, earlier.share, counted, share, earlier.weight, alpha)


def certify(
    where: tuple[str, str, str],
    counted: Counted,
    aim: Aim,
    alpha: float,
    guarantee: Guarantee,
    earlier: Earlier | None = None,
) -> Certificate:
    """Certify what these counts show. where: (pair, direction, event). earlier: what counts
    besides; alpha is then fixed before those draws.

    An event that is said to be impossible gets half of alpha for what holds if that is so, and has
    no earlier one: this half would be chosen after the earlier event's draws.
    """
    assert earlier is None or not aim.impossible
    half = alpha / 2 if aim.impossible else alpha
    if earlier is None:
        joint = confidence_region(counted, aim.share, half)
    else:
        joint, _ = _with_earlier(earlier, counted, aim.share, half)
    claimed, delta = aim.point
    impossible = aim.impossible and counted.other_hits == 0
    least = float(at_least(counted.hits, counted.draws, half)) if impossible else 0.0
    return Certificate(
        *where,
        counted.hits,
        counted.draws,
        counted.other_hits,
        counted.other_draws,
        aim.share,
        delta,
        joint.epsilon_at(delta),
        claimed,
        half,
        mu=joint.mu(),
        rho=joint.rho(),
        everywhere=least,
        refuted=refutes(joint, guarantee),
        earlier=earlier,
    )


def certify_guesses(
    where: tuple[str, str, str], counted: Counted, aim: Aim, alpha: float, guarantee: Guarantee
) -> Certificate:
    """Certify right and wrong guesses at the sides of single calls, against a claim without
    delta.
    """
    claimed, _ = aim.point
    epsilon = guessed_epsilon(counted.hits, counted.other_hits, alpha * _GUESSED)
    made = Certificate(
        *where,
        counted.hits,
        counted.draws,
        counted.other_hits,
        counted.other_draws,
        aim.share,
        0.0,
        epsilon,
        claimed,
        alpha,
        method="guesses",
        refuted=epsilon > claimed,
    )
    joint = made.region
    return made if joint is None else replace(made, mu=joint.mu(), rho=joint.rho())


def guessed_epsilon(right: int, wrong: int, alpha: float) -> float:
    """Bound from below any epsilon that is promised without delta: ln(p / (1 - p)), p the lower
    end of right.
    """
    share = float(at_least(right, right + wrong, alpha)) if right else 0.0
    return math.log(share) - math.log1p(-share) - _ROUNDING if share else -math.inf


def refutes_by_guesses(counted: Counted, claimed: float, alpha: float) -> bool:
    """Return whether so many right and wrong guesses refute a claim without delta, in a
    certificate of this alpha.
    """
    return guessed_epsilon(counted.hits, counted.other_hits, alpha * _GUESSED) > claimed


def is_pure(points: Sequence[Point]) -> bool:
    """Return whether the tested profile is one epsilon without a delta."""
    return len(points) == 1 and points[0][1] == 0


def share_of_guesses(direction: str) -> float:
    """Return the part of delta that a bet on one call pays: 1/2 for each side that is guessed."""
    return 1.0 if direction == EITHER else 0.5


def refutes(joint: ConfidenceRegion, guarantee: Guarantee) -> bool:
    """Return whether the whole region breaks one point of the guarantee.

    The region is one statement about both probabilities, so any number of points may be looked at.
    """
    return bool(np.any(joint.excesses(*_points_as_arrays(guarantee)) > 0))


@lru_cache(maxsize=64)
def _points_as_arrays(guarantee: Guarantee) -> tuple[Floats, Floats]:
    epsilons, deltas = np.array(tested_points(guarantee)).T
    return epsilons, deltas


@lru_cache(maxsize=64)
def tested_points(guarantee: Guarantee) -> tuple[Point, ...]:
    """Return the points of the claimed profile that are tested, as floats: ``points_of`` and
    some between.
    """
    points = list(points_of(guarantee))
    for (left, _), (right, _) in pairwise(tuple(points)):
        for part in range(1, _BETWEEN + 1):
            epsilon = left + (right - left) * Fraction(part, _BETWEEN + 1)
            epsilon = Fraction(math.floor(epsilon * 2**30), 2**30)
            points.append((epsilon, guarantee.delta_at(epsilon).upper))
    return tuple(
        (float(min(epsilon, _BEYOND_TESTING)), float(delta)) for epsilon, delta in sorted(points)
    )


@lru_cache(maxsize=256)
def fewest_draws(guarantee: Guarantee, alpha: float) -> int:
    """Return the fewest draws per side with which an event that is certain on one side and
    never happens on the other would refute the guarantee.

    Raises ValueError when no number of draws below 10^9 would.
    """

    def enough(draws: int) -> bool:
        return refutes(confidence_region(Counted(draws, draws, 0, draws), 32, alpha), guarantee)

    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
        if high > 10**9:
            raise ValueError(
                f"No number of draws refutes {guarantee}: it hides nothing that could be seen. "
                "Claim something smaller; or, of Gaussian or Laplace noise, compare its "
                f"parameter: {SENT_TO}."
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
