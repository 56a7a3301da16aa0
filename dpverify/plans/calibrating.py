"""Least noise that meets a budget: guessed in floats, decided exactly.

``smallest_sufficient`` asks at some sixty multipliers whether the budget is met, and each time
a mechanism is made. Nearly all of its questions are answered by two that were asked before, one
on either side of a good guess: a budget that is met with some noise is met with more. So the
answer is the same to the last bit, for a tenth of the mechanisms, where what is promised falls
as noise rises. Bounds for several bounded ranges fall only but for some 1e-9 of the noise. There
many multipliers are least ones, and the two ways may find different ones, which differ by less
than 1e-8 and all meet the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from dpverify.privacy import ApproxDP, GaussianDP, Guarantee, PureDP, calibrate
from dpverify.privacy.calibration import smallest_sufficient
from dpverify.privacy.guarantees import ApproximateGaussianDP, Lifted
from dpverify.privacy.numbers import to_float

_CLOSE = 2.0**-49  # difference of logarithms; floats tell nearer guesses no better
_WIDTHS = (51, 50, 49, 47, 44, 36, 28)  # brackets about a guess, in negative powers of two
_UNSURE = Fraction(1, 1 << 32)  # relative distance from the answer where monotony is not relied on
_MOST_GUESSES = 24
_NARROW, _NOISE = 2.0**-10, 2.0**-40
_LITTLE, _MOST_MISSES = 0.9, 2
"""Within a distance of _NARROW, but for the noise of floats, a guess is to make the excess on its
side fall by a factor of _LITTLE; after so many that do not, it jumps.
"""
_FIRST_STEP = 1.5
"""Longest step where no two guesses enclose the answer yet; the next step may be twice as long,
and so on.
"""

Point = tuple[float, float]
"""Logarithm of a guessed multiplier, and the excess there."""


def least_multiplier(made: Callable[[Fraction], Guarantee], budget: Guarantee) -> Fraction:
    """Find the least noise multiplier for which ``made(multiplier)`` implies the budget, on the
    safe side.

    ``made`` is weaker for smaller multipliers. Raises Unreachable where no multiplier or every
    one suffices.
    """
    known = _Known(made, budget)
    guessed = _guessed(known)
    if guessed is not None:
        guess, unsure = guessed
        for bits in (math.floor(-math.log2(unsure)), *_WIDTHS[-1:]) if unsure else _WIDTHS:
            low, high = (guess * (1 + side * Fraction(1, 1 << bits)) for side in (-1, 1))
            if known.tried(high) and known.tried(low) is False:
                break
    least = smallest_sufficient(known)
    if known.asked(least):
        return least
    # the promise is not monotone to the last bits: near the answer every multiplier is asked
    near = smallest_sufficient(
        lambda m: known.asked(m) if abs(m / least - 1) < _UNSURE else known(m)
    )
    return near if known.asked(near) else smallest_sufficient(known.asked)


class _Known:
    """Known answers to whether multipliers suffice: what follows from them is not asked again."""

    def __init__(self, made: Callable[[Fraction], Guarantee], budget: Guarantee) -> None:
        self.budget = budget
        self._made = made
        self._too_small: Fraction | None = None
        self._enough: Fraction | None = None
        self._answers: dict[Fraction, bool] = {}

    def __call__(self, multiplier: Fraction) -> bool:
        if self._enough is not None and multiplier >= self._enough:
            return True
        if self._too_small is not None and multiplier <= self._too_small:
            return False
        enough = self.asked(multiplier)
        if enough:
            self._enough = multiplier
        else:
            self._too_small = multiplier
        return enough

    def asked(self, multiplier: Fraction) -> bool:
        """Return whether the multiplier suffices: by a mechanism of its own, made once."""
        if multiplier not in self._answers:
            self._answers[multiplier] = self.made(multiplier).implies(self.budget)
        return self._answers[multiplier]

    def made(self, multiplier: Fraction) -> Guarantee:
        """Return what is claimed with this multiplier."""
        return self._made(multiplier)

    def tried(self, multiplier: Fraction) -> bool | None:
        """Return whether the multiplier suffices; None where there is no mechanism of so much
        or so little noise.
        """
        try:
            return self(multiplier)
        except ValueError:
            return None


def _guessed(known: _Known) -> tuple[Fraction, float] | None:
    """Guess where the budget is just met, by secants through logarithms, and how far off that
    is, 0 where it is close; None where floats know no better.

    Where an integer, say a threshold, follows from the multiplier, the excess jumps, maybe over
    0. No secant leads to a jump, and a guess costs more than a decision: so it ends there.
    """
    excess = _Excess(known.budget)
    points: list[Point] = []
    at, guess, reach, misses = 0.0, Fraction(1), _FIRST_STEP, 0
    for _ in range(_MOST_GUESSES):
        try:
            over = excess(known.made(guess))
        except (ValueError, OverflowError):
            return None
        if over is None or math.isnan(over) or over == math.inf:
            return None
        points.append((at, over))
        (low, _), (high, _) = _ends(points)
        misses += _NOISE < high - low < _NARROW and _misses(points)
        if misses == _MOST_MISSES:
            return Fraction(math.exp((low + high) / 2)), (high - low) / 2
        step = _within(_step(points), points, reach)
        reach *= 2
        if not math.isfinite(step) or abs(at + step) > 500:
            return None
        at += step
        guess = Fraction(float(guess) * math.exp(step))  # an exact product has ever more digits
        if abs(step) < _CLOSE:
            break
    return guess, 0.0


def _step(points: list[Point]) -> float:
    """Return the step from the last point to where nothing is over: by the last two, or as for
    what falls like 1 / multiplier; -infinity from where nothing is promised away, which tells
    nothing but that the answer is below.
    """
    at, over = points[-1]
    if over == -math.inf:
        return over
    known = [point for point in points if point[1] > -math.inf]
    if len(known) > 1:
        before, other = known[-2]
        if over != other and at != before and (over - other) / (at - before) < 0:
            return -over * (at - before) / (over - other)
    return over


def _within(step: float, points: list[Point], reach: float) -> float:
    """Return the step, or a shorter one: far from the answer an excess hardly tells where the
    answer is.

    A step that leaves the interval between a guess of too little noise and one of enough is
    replaced by a step to its middle.
    """
    at, ((low, _), (high, _)) = points[-1][0], _ends(points)
    if low == -math.inf or high == math.inf:
        return max(-reach, min(step, reach))
    if low <= at + step <= high:
        return step
    return (low + high) / 2 - at


def _ends(points: list[Point]) -> tuple[Point, Point]:
    """Return the last guess of too little noise, and the first one of enough; at infinity where
    there is none.
    """
    low = max((point for point in points if point[1] > 0), default=(-math.inf, math.inf))
    return low, min((point for point in points if point[1] <= 0), default=(math.inf, -math.inf))


def _misses(points: list[Point]) -> bool:
    """Return whether the last guess is hardly better than the best before on its side."""
    over, ends = points[-1][1], _ends(points[:-1])
    return _LITTLE * abs(ends[over <= 0][1]) < abs(over) < math.inf


class _Excess:
    """Logarithm of the factor by which too much is promised away; it falls as noise rises."""

    def __init__(self, budget: Guarantee) -> None:
        self.budget = budget

    def __call__(self, guarantee: Guarantee) -> float | None:
        budget = self.budget
        if isinstance(guarantee, PureDP) and isinstance(budget, ApproxDP):
            return _log(guarantee.epsilon, Fraction(_pure(budget)))
        if isinstance(budget, PureDP) and guarantee.largest_loss:
            return _log(guarantee.largest_loss, budget.epsilon)
        if isinstance(guarantee, (GaussianDP, ApproximateGaussianDP)):
            part = guarantee.gaussian
            assert part is not None
            mu = _mu_for(budget, part.delta, part.tv)
            return _log(part.mu_squared, mu) / 2
        if isinstance(budget, ApproxDP) and budget.delta:
            # of a lift the value at this very epsilon mostly is the least one up to it, which
            # takes a search
            delta_at = guarantee.value_at if isinstance(guarantee, Lifted) else guarantee.delta_at
            return _log(delta_at(budget.epsilon).upper, budget.delta)
        return None


@lru_cache(maxsize=256)
def _mu_for(budget: Guarantee, delta: Fraction, tv: Fraction) -> Fraction:
    """Compute mu^2 of about the weakest approximate GDP with these that meets the budget."""
    if isinstance(budget, (GaussianDP, ApproximateGaussianDP)):
        given = budget.gaussian
        assert given is not None
        # this misses at most what a spare delta would add
        if delta <= given.delta and tv <= given.tv:
            return given.mu_squared
    part = calibrate(lambda mu: ApproximateGaussianDP(mu, delta, tv), budget).gaussian
    assert part is not None
    return part.mu_squared


def _pure(budget: ApproxDP) -> float:
    """Compute about the largest epsilon of pure DP that meets the budget.

    The profile of epsilon' is (e^epsilon' - e^epsilon) / (e^epsilon' + 1).
    """
    epsilon, delta = to_float(budget.epsilon), to_float(budget.delta)
    return epsilon + math.log1p(delta * math.exp(-epsilon)) - math.log1p(-delta)


def _log(value: Fraction, over: Fraction) -> float:
    """Return the logarithm of value / over, with all digits where the two are close."""
    ratio = value / over
    if abs(ratio - 1) < 0.1:
        return math.log1p(ratio - 1)
    return math.log(ratio.numerator) - math.log(ratio.denominator) if ratio > 0 else -math.inf
