"""Bets against a claim: evidence that is valid whenever one stops.

For an event S chosen from the past, a draw a of its own side and a draw b of the other, the
payoff 1{a in S} - e^epsilon 1{b in S} - delta has mean <= 0 if (epsilon, delta)-DP holds. The
wealth, a product of 1 + stake * payoff with stakes in [0, 1 / (e^epsilon + delta)) chosen from
the past, is then a nonnegative supermartingale that starts at 1, and reaches 1 / alpha with
probability at most alpha, however long one looks (Ville 1939).

Where a fair coin chooses the side of each single call, no pairs are needed: a guess at the side
pays 1 if it is right, -e^epsilon if it is wrong, less delta / 2 a call for each side that is
ever guessed. Given all calls before, that has mean <= 0 if each call's law keeps the claim
given these, whatever drifts from call to call (``witnesses.guesses``). In a pair of calls the
second may know the dataset of the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpverify.privacy import Guarantee
from dpverify.privacy.numbers import Floats

_BOLDEST = 0.95  # share of the stake at which one loss would take everything
# share of Kelly's stake: an event is chosen where it looks best, so its rates flatter it
_PART = 0.6
_HALVINGS = 40
_BEYOND = 650.0  # below this, e^epsilon is still a float


@dataclass(frozen=True, slots=True)
class Tally:
    """Paired draws (a, b): how many had a in S and b in S, a only, b only, neither.

    For single calls, whose side is guessed: 0, the right guesses, the wrong ones, the calls
    without a guess.
    """

    both: int
    own: int
    other: int
    neither: int

    @property
    def total(self) -> int:
        """Number of pairs."""
        return self.both + self.own + self.other + self.neither

    @classmethod
    def of(cls, own: NDArray[np.bool_], other: NDArray[np.bool_]) -> Tally:
        """Count the outcomes of draws that are paired in their order."""
        counts = (own & other, own & ~other, other & ~own, ~own & ~other)
        return cls(*(int(np.count_nonzero(count)) for count in counts))


@dataclass(frozen=True, slots=True)
class Bet:
    """One bet of a sequential audit against the claim, on a batch of paired draws or single calls.

    share: the part of delta that each single call pays, 1/2 for each side that is guessed; 0
    for pairs.
    """

    pair: str
    direction: str
    event: str
    epsilon: float
    delta: float
    stake: float
    tally: Tally
    share: float = 0.0

    @property
    def log_growth(self) -> float:
        """Natural logarithm of the factor by which the bet multiplied the wealth, rounded down."""
        payoffs = payoffs_of(np.array([self.epsilon]), np.array([self.delta]), self.share)
        return float(log_growth(payoffs, np.array([self.stake]), self.tally)[0])


def payoffs_of(epsilon: Floats, delta: Floats, share: float = 0.0) -> Floats:
    """Return the payoffs of both, own, other and neither, shape (4, claims), rounded down.
    share: as in ``Bet``.
    """
    factor = np.exp(np.minimum(epsilon, _BEYOND)) * (1 + 1e-12)
    loss = delta * (share or 1.0) * (1 + 1e-12)
    return np.stack([1 - factor - loss, 1 - loss, -factor - loss, -loss])


def log_growth(payoffs: Floats, stakes: Floats, tally: Tally) -> Floats:
    """Return the log growth of the wealth of each claim, rounded down by more than the
    logarithm's error.
    """
    counts = np.array([tally.both, tally.own, tally.other, tally.neither], dtype=np.float64)
    steps = np.log1p(stakes * payoffs)
    grown: Floats = counts @ (steps - 1e-14 * (1 + np.abs(steps)))
    return np.where(stakes > 0, grown, 0.0)


def chances_of(own_rate: float, other_rate: float, share: float = 0.0) -> Floats:
    """Return the probabilities of both, own, other and neither, shape (4, 1), for an event with
    these rates.

    share: as in ``Bet``; guesses of one side can be right on half of the calls.
    """
    p, q = own_rate * (share or 1.0), other_rate * (share or 1.0)
    if share:
        return np.array([0.0, p, q, max(0.0, 1 - p - q)])[:, None]
    return np.array([p * q, p * (1 - q), (1 - p) * q, (1 - p) * (1 - q)])[:, None]


def stakes_for(payoffs: Floats, own_rate: float, other_rate: float, share: float = 0.0) -> Floats:
    """Return a fraction of the stakes of largest expected log growth (Kelly 1956) if the event
    had these rates.

    own_rate, other_rate: estimates from the past. The stakes are 0 where nothing is to be won.
    """
    gains = chances_of(own_rate, other_rate, share) * payoffs
    low = np.zeros(payoffs.shape[1])
    high = _BOLDEST / -payoffs.min(axis=0)
    high = np.minimum(high, 1.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        rises = (gains / (1 + middle * payoffs)).sum(axis=0) > 0
        low, high = np.where(rises, middle, low), np.where(rises, high, middle)
    return np.where(gains.sum(axis=0) > 0, _PART * low, 0.0)


def expected_growth(
    epsilon: float, delta: float, own_rate: float, other_rate: float, share: float
) -> float:
    """Return the expected log growth of a bet on one single call, if the guesses had these
    rates.
    """
    payoffs = payoffs_of(np.array([epsilon]), np.array([delta]), share)
    stakes = stakes_for(payoffs, own_rate, other_rate, share)
    chances = chances_of(own_rate, other_rate, share)
    return float((chances * np.log1p(stakes * payoffs)).sum())


@dataclass(slots=True)
class Wealth:
    """Bets against a grid of claims (epsilon_j, delta), one delta: a confidence sequence for
    epsilon.

    The bound is the largest epsilon of the grid such that it and all smaller ones are refuted:
    if it exceeds the truth, the first claim of the grid at or above the truth was refuted
    wrongly.
    """

    epsilons: Floats
    delta: float
    log_wealth: Floats
    peak: Floats

    @classmethod
    def on(cls, claimed: float, delta: float, size: int = 60) -> Wealth:
        """Create a grid of claims from 0 past the claimed epsilon, which is one of its points."""
        below = claimed * (1 - np.geomspace(1, 1e-3, size // 2))
        above = claimed + np.geomspace(1e-3, 12, size // 2) * max(1.0, min(claimed, 3.0))
        grid = np.unique(np.concatenate([[0.0], below, [claimed], above]))
        return cls(grid, delta, np.zeros(len(grid)), np.zeros(len(grid)))

    def bound(self, alpha: float) -> float:
        """Return the certified epsilon at delta; -inf if not even 0 is refuted."""
        refuted = self.peak >= -math.log(alpha)
        count = len(refuted) if refuted.all() else int(np.argmin(refuted))
        return float(self.epsilons[count - 1]) if count else -math.inf


def bet_on(
    wealths: Sequence[Wealth], own_rate: float, other_rate: float, tally: Tally, share: float = 0.0
) -> None:
    """Let every wealth bet on this batch at rates estimated before it. share: as in ``Bet``."""
    payoffs = [payoffs_of(w.epsilons, np.full(len(w.epsilons), w.delta), share) for w in wealths]
    stakes = stakes_for(np.concatenate(payoffs, axis=1), own_rate, other_rate, share)
    ends = np.cumsum([len(wealth.epsilons) for wealth in wealths])[:-1]
    for wealth, paid, staked in zip(wealths, payoffs, np.split(stakes, ends), strict=True):
        wealth.log_wealth = wealth.log_wealth + log_growth(paid, staked, tally)
        wealth.peak = np.maximum(wealth.peak, wealth.log_wealth)


def largest_parameter(
    kind: Callable[[Fraction], Guarantee], points: Iterable[tuple[float, float]]
) -> float:
    """Return the largest ``parameter_at`` of these (epsilon, delta), 0 if there is none."""
    best = 0.0
    for epsilon, delta in points:
        best = max(best, parameter_at(kind, epsilon, delta, best))
    return best


def parameter_at(
    kind: Callable[[Fraction], Guarantee], epsilon: float, delta: float, known: float = 0.0
) -> float:
    """Return a lower bound on the parameter of a guarantee of this kind that is not (epsilon,
    delta)-DP.

    Found by bisection with the exact profile, which rises with the parameter: mu of GaussianDP,
    rho of ZeroConcentratedDP. 0 where there is none, or none above the ``known`` parameter.
    """
    if delta <= 0 or epsilon < 0:
        return 0.0
    low, high = 0.0, 1.0
    allowed = Fraction(delta)

    def too_small(value: float) -> bool:
        return kind(Fraction(value)).delta_at(Fraction(epsilon)).upper < allowed

    if known and not too_small(known):
        return 0.0
    while too_small(high) and high < 100:
        low, high = high, 2 * high
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if too_small(middle) else (low, middle)
    return low
