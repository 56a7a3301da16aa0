"""The curves of Gaussian noise, and which claims lie below them."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise

from flint import arb

from dpverify.privacy.balls import SMALLEST, ball, working_precision
from dpverify.privacy.calibration import Unreachable, smallest_sufficient
from dpverify.privacy.guarantees.base import Guarantee
from dpverify.privacy.numbers import render
from dpverify.privacy.sources import Source, states

_FAR = arb(1 << 20)  # standard deviations beyond which a tail is below 2^-40000
_FARTHEST = Fraction(1 << 12)  # largest epsilon at which claims are compared
_BITS = 400
_FIRST_CELLS, _MOST_CELLS = 8, 400
_CLOSE, _SLIGHTLY_LESS = Fraction(1, 1 << 20), 1 - Fraction(1, 1 << 10)
_ZERO = Fraction(0)


def gaussian_delta(mu_squared: arb, epsilon: arb) -> arb:
    """Return Phi(-a) - e^epsilon Phi(-b), a = epsilon / mu - mu / 2, b = epsilon / mu + mu / 2.

    It is at least 0 and at most Phi(-a); for a < 0 it is at least 1 - 2 Phi(a), for e^epsilon
    Phi(-b) is at most Phi(a) when b >= -a. Far out these bounds are enough.
    """
    mu = mu_squared.sqrt()
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if a > _FAR:
        return arb(0).union(ball(SMALLEST) / 4)
    if a < -_FAR:
        return arb(1).union(1 - ball(SMALLEST))
    half = arb(2).sqrt()
    return ((a / half).erfc() - epsilon.exp() * (b / half).erfc()) / 2


def gaussian_tradeoff(mu_squared: arb, alpha: arb) -> arb:
    """Return Phi(Phi^-1(1 - alpha) - mu)."""
    return ((mu_squared / 2).sqrt() - (2 * alpha).erfcinv()).erfc() / 2


@states(Source("OURS", "a profile below a Gaussian one, up to delta, is approximate GDP"))
def lies_below(shown: Guarantee, mu_squared: Fraction, delta: Fraction) -> bool:
    """Return whether the profile shown is at most delta_mu + delta everywhere; never wrongly yes.

    The profile is that of every mechanism with the guarantee shown, at every epsilon >= 0. If
    it is, every such mechanism has approximate GDP (mu, delta), in the sense of
    ApproximateGaussianDP: with measures P0, Q0 that lack at most delta of the laws and have the
    Gaussian profile (spec/theory/adaptive.py:gaussian_share, proof). So it composes as such.

    Write g = e^epsilon. H(g) = sup_S P(S) - g Q(S) is convex in g, so between two points it is
    below the chord of any upper ends there; where the upper ends that a guarantee computes are
    not convex, the chord is less. delta_mu is convex in g, with slope
    -Phi(-epsilon / mu - mu / 2), so it is above its tangents at both points. All three are
    straight lines: from the left point on, the chord is below the tangent there for a share of
    the way; before the right point, it is below the tangent of that point for a share. Where
    the two shares together are the whole way, H is below delta_mu all along. Beyond the last
    point H only falls, and there it is at most delta. A cell that cannot be decided is halved,
    until there are too many of them.
    """
    with working_precision(_BITS):
        square = ball(mu_squared)
        first = _Knot(square, _ZERO, _claimed(shown, _ZERO) - delta)
        if not first.holds:  # decides most refusals; the rest costs a hundred times as much
            return False
        end = _end(shown, delta)
        if end is None or end > _FARTHEST:
            return False
        return _holds_up_to(end, first, shown, delta)


def _holds_up_to(end: Fraction, first: _Knot, shown: Guarantee, delta: Fraction) -> bool:
    """Return whether the profile shown lies below from the first knot to an end; never wrongly
    yes.
    """

    def knot(epsilon: Fraction) -> _Knot:
        return _Knot(first.square, epsilon, _claimed(shown, epsilon) - delta)

    knots = [first]
    for i in range(1, _FIRST_CELLS):
        knots.append(knot(end * i / _FIRST_CELLS))
        if not knots[-1].holds:
            return False
    knots.append(_Knot(first.square, end, _ZERO))
    left = deque(pairwise(knots))
    for _ in range(_MOST_CELLS):
        if not left:
            return True
        low, high = left.popleft()
        if not (low.holds and high.holds):
            return False
        if not _holds_between(low, high):
            middle = knot((low.epsilon + high.epsilon) / 2)
            left += [(low, middle), (middle, high)]
    return False


class _Knot:
    """A point at which a claim is compared with a Gaussian profile, each number computed once.

    square: mu^2 of that profile.
    claimed: the claimed delta at epsilon less the additive one.
    """

    def __init__(self, square: arb, epsilon: Fraction, claimed: Fraction) -> None:
        self.square = square
        self.epsilon = epsilon
        self.claimed = ball(claimed)

    @cached_property
    def growth(self) -> arb:
        """Slope variable of the lines: e^epsilon."""
        return ball(self.epsilon).exp()

    @cached_property
    def curve(self) -> arb:
        """Gaussian delta at epsilon."""
        return gaussian_delta(self.square, ball(self.epsilon))

    @cached_property
    def slope(self) -> arb:
        """Derivative of the Gaussian profile by e^epsilon: -Phi(-epsilon / mu - mu / 2)."""
        mu = self.square.sqrt()
        return -((ball(self.epsilon) / mu + mu / 2) / arb(2).sqrt()).erfc() / 2

    @property
    def holds(self) -> bool:
        """True if the claim is at most the Gaussian profile here; never wrongly true."""
        return bool(self.curve >= self.claimed)


def gaussian_share(shown: Guarantee, delta: Fraction = _ZERO) -> Fraction:
    """Find about the least mu^2 of an approximate GDP (mu, delta) that the guarantee shown implies.

    The result is on the safe side. The closed form is taken where it is within 2^-10 of the
    least, else a value within 2^-20. Raises ValueError where there is none: additive deltas are
    larger, or tails heavier, than a Gaussian curve and delta allow.
    """
    if _claimed(shown, _ZERO) <= delta:
        return _ZERO
    part = shown.gaussian
    most = part.mu_squared if part and not part.tv and part.delta <= delta else None
    if most is not None and not lies_below(shown, most * _SLIGHTLY_LESS, delta):
        return most
    try:
        return smallest_sufficient(lambda square: lies_below(shown, square, delta), gap=_CLOSE)
    except Unreachable:
        raise ValueError(
            f"{shown} lies below no Gaussian curve with delta = {render(delta)} beside it; give a "
            "larger delta, or a claim with lighter tails."
        ) from None


def _end(shown: Guarantee, delta: Fraction) -> Fraction | None:
    """Find an epsilon from which on the profile shown is at most delta; None if none is known."""
    loss = shown.largest_loss
    if (loss is not None and loss <= _FARTHEST) or not delta:
        return loss
    with suppress(ValueError):
        return shown.epsilon_at(delta).upper
    return None


@lru_cache(maxsize=4096)
def _claimed(shown: Guarantee, epsilon: Fraction) -> Fraction:
    return shown.delta_at(epsilon).upper


def _holds_between(low: _Knot, high: _Knot) -> bool:
    """Return whether the chord is below a tangent all along.

    Both ends are known to be below the curve.
    """
    reach = arb(0)
    for here, there in ((low, high), (high, low)):
        over = here.curve - here.claimed
        rise = here.slope * (there.growth - here.growth) - (there.claimed - here.claimed)
        if rise >= 0:
            return True
        if not rise < 0:
            return False
        reach += over / -rise  # the share of the way on which the chord is below this tangent
    return bool(reach >= 1)
