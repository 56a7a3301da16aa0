"""Transforms of privacy losses: the laws of single parts, tilted, and their characteristic functions."""

from __future__ import annotations

import math
from dataclasses import dataclass

from flint import acb, acb_mat, arb

from dpverify.privacy.balls import ball
from dpverify.privacy.discretize import each_above
from dpverify.privacy.guarantees.approximate import PureDP
from dpverify.privacy.guarantees.base import Guarantee
from dpverify.privacy.guarantees.gaussian import GaussianDP
from dpverify.privacy.guarantees.noise import DiscreteLaplaceShift
from dpverify.privacy.guarantees.parts import Parts
from dpverify.privacy.losses import Losses


def has_transform(parts: Parts) -> bool:
    """Whether every part is one of those with a transform in closed form."""
    return all(isinstance(p, (PureDP, DiscreteLaplaceShift, GaussianDP)) for p, _ in parts)


@dataclass(frozen=True, slots=True)
class Closed:
    """The law of a part's loss, tilted by e^(tL): its characteristic function.

    Losses (reach - 2 j) unit, j = 0..reach, with weights 1, inner ratio^j, ratio^reach; ``top`` is
    the largest loss, ``total`` the sum of the weights. A pure part has reach 1.
    """

    unit: arb
    reach: int
    ratio: arb
    inner: arb
    total: arb
    times: int

    def at(self, w: arb) -> acb:
        """E e^(iwL) under the tilted law."""
        sine, cosine = (w * self.unit).sin_cos()
        if self.reach == 1:
            lean = (1 - self.ratio) / self.total
            found = acb(cosine, sine * lean)
        else:
            turn = acb(cosine, sine)
            back = acb(cosine, -sine)
            ratio = self.ratio * back * back
            far = ratio**self.reach
            middle = self.inner * (ratio - far) / (1 - ratio)
            found = turn**self.reach * (1 + middle + far) / self.total
        return found**self.times if self.times > 1 else found


def closed(part: Guarantee, times: int, tilt: arb) -> tuple[Closed, arb]:
    """The tilted law, and M(tilt) of ``times`` such parts."""
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


@dataclass(frozen=True, slots=True)
class Summed:
    """The same of losses (lowest + i) mesh with the given weights, tilted, of sum 1.

    weights: i = row * columns + column. Every power of e^(iw mesh) is computed on its own: by Horner's
    scheme a complex ball would grow by sqrt(2) at every step.
    """

    mesh: arb
    lowest: int
    weights: acb_mat
    times: int

    def at(self, w: arb) -> acb:
        """E e^(iwL) under the tilted law."""
        angle, rows, columns = w * self.mesh, self.weights.nrows(), self.weights.ncols()
        inner = acb_mat([[acb(0, angle * j).exp()] for j in range(columns)])
        outer = acb_mat([[acb(0, angle * (self.lowest + columns * i)).exp() for i in range(rows)]])
        found: acb = (outer * (self.weights * inner))[0, 0]
        return found**self.times if self.times > 1 else found


def summed(losses: Losses, times: int, tilt: arb) -> tuple[Summed, arb]:
    """The tilted law, and M(tilt) of ``times`` such parts."""
    mesh, weights, growth = ball(losses.mesh), [], (tilt * ball(losses.mesh)).exp()
    power = (tilt * losses.lowest * mesh).exp()
    for mass in losses.masses.coeffs():
        weights.append(power * arb(mass))
        power *= growth
    total = sum(weights, arb(0))
    moment = total / arb(2) ** losses.bits
    columns = math.isqrt(len(weights)) + 1
    weights += [arb(0)] * (-len(weights) % columns)
    rows = [weights[i : i + columns] for i in range(0, len(weights), columns)]
    shares = acb_mat([[acb(weight / total) for weight in row] for row in rows])
    return Summed(mesh, losses.lowest, shares, times), moment**times


def factors_of(parts: Parts, tilt: arb, bits: int) -> list[tuple[Closed | Summed, arb]]:
    """Of all parts but the Gaussian ones."""
    above = each_above(parts, bits) if bits else (None,) * len(parts)
    return [
        closed(part, times, tilt)
        if losses is None or has_transform(((part, times),))
        else summed(losses, times, tilt)
        for (part, times), losses in zip(parts, above, strict=True)
        if not isinstance(part, GaussianDP)
    ]
