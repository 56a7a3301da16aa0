"""Laws of privacy losses that have a transform: one for each kind of part, tilted."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from flint import acb, arb

from dpverify.privacy.balls import ball
from dpverify.privacy.guarantees.approximate import PureDP
from dpverify.privacy.guarantees.base import Guarantee
from dpverify.privacy.guarantees.gaussian import GaussianDP
from dpverify.privacy.guarantees.noise import DiscreteLaplaceShift
from dpverify.privacy.guarantees.parts import Parts

_PRECISION = 128
_ZERO = Fraction(0)


@dataclass(frozen=True, slots=True, eq=False)
class Composition:
    """Parts with atoms and Gaussian parts, and the precision to work at.

    The Gaussian ones are given by their mu^2 together.
    """

    parts: Parts
    square: Fraction
    precision: int


@lru_cache(maxsize=16)
def composition(parts: Parts) -> Composition:
    """Compose parts whose losses have a transform in closed form."""
    return Composition(parts, square_of(parts), _PRECISION + bits_of(parts))


def square_of(parts: Parts) -> Fraction:
    """Return mu^2 of the Gaussian parts together."""
    return sum((p.mu_squared * n for p, n in parts if isinstance(p, GaussianDP)), _ZERO)


def bits_of(parts: Parts) -> int:
    """Return the precision to work at.

    Angles of large losses, and 1 - e^(-1 / scale) of large scales, need more bits.
    """
    scales = [int(p.scale).bit_length() for p, _ in parts if isinstance(p, DiscreteLaplaceShift)]
    losses = [int(p.largest_loss or 0).bit_length() for p, _ in parts]
    return max(scales, default=0) + max(losses, default=0)


@dataclass(frozen=True, slots=True)
class Closed:
    """The law of a part's loss, tilted by e^(tL): its characteristic function.

    Losses (reach - 2 j) unit, j = 0..reach, with weights 1, inner ratio^j, ratio^reach;
    ``total`` is the sum of the weights. A pure part has reach 1.
    """

    unit: arb
    reach: int
    ratio: arb
    inner: arb
    total: arb
    times: int

    def at(self, w: arb) -> acb:
        """Return E e^(iwL) under the tilted law."""
        sine, cosine = (w * self.unit).sin_cos()
        if self.reach == 1:
            lean = (1 - self.ratio) / self.total
            transform = acb(cosine, sine * lean)
        else:
            turn = acb(cosine, sine)
            back = acb(cosine, -sine)
            ratio = self.ratio * back * back
            far = ratio**self.reach
            middle = self.inner * (ratio - far) / (1 - ratio)
            transform = turn**self.reach * (1 + middle + far) / self.total
        return transform**self.times if self.times > 1 else transform


def closed(part: Guarantee, times: int, tilt: arb) -> tuple[Closed, arb]:
    """Return the tilted law, and M(tilt) of ``times`` such parts."""
    if isinstance(part, PureDP):
        unit, reach = ball(part.epsilon), 1
    else:
        assert isinstance(part, DiscreteLaplaceShift)
        unit, reach = ball(1 / part.scale), part.shift
    q = (-unit).exp()
    ratio, inner = q * (-2 * tilt * unit).exp(), 1 - q
    far = ratio**reach
    total = 1 + far + (inner * (ratio - far) / (1 - ratio) if reach > 1 else 0)
    moment = (tilt * reach * unit).exp() * total / (1 + q)
    return Closed(unit, reach, ratio, inner, total, times), moment**times


def factors_of(laws: Composition, tilt: arb) -> list[Closed]:
    """Return the characteristic functions of all parts but the Gaussian ones."""
    others = [p for p in laws.parts if not isinstance(p[0], GaussianDP)]
    return [closed(part, times, tilt)[0] for part, times in others]


def moment_of(laws: Composition, tilt: arb, smoothing: Fraction) -> arb:
    """Return M(tilt) of all parts, the smoothing included."""
    product = (ball(laws.square + smoothing) * tilt * (tilt + 1) / 2).exp()
    for part, times in laws.parts:
        if not isinstance(part, GaussianDP):
            product *= closed(part, times, tilt)[1]
    return product
