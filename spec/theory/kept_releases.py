"""Outputs of a mean behind a filter, as a law: the noisy number of kept records, and the mean with
noise that it decides.

The hockey stick of two such laws for friendly neighbors is computed in one dimension: a sum
over the noisy number, in closed form over the mean. A lost shift shows here, where the claim of
the whole filter is too loose for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import exp

import mpmath as mp

from dpverify.privacy import Source, states

from .core_means import gaussian_shift
from .laws import real
from .obligations import require
from .profiles import gaussian_profile
from .weighted_releases import mass_at, two_normals

THEOREM = Source("OURS", "a noisy number of kept records, then their mean: approximate GDP")
LOST = 1e-8
"""Error allowed in a hockey stick: rounding, times e^epsilon."""
Radii = tuple[int, ...]
"""Kept records at so many radii on a line, all within two radii of each other."""


@dataclass(frozen=True, slots=True)
class KeptRelease:
    """Parameters of a release: noise of deviation ``scale`` on the number, lowered by the shift of
    ``rare``; on the mean, of ``multiplier`` times how far it can move.
    """

    scale: Fraction
    multiplier: Fraction
    rare: Fraction

    @property
    def mu_squared(self) -> Fraction:
        """Total mu^2: the number moves by 1, the mean by 2 radii over the released number."""
        return 1 / self.scale**2 + 1 / self.multiplier**2


def least_shift(release: KeptRelease) -> int:
    """Return t with P(noise >= t) <= rare: a release from the larger number, or none, needs
    that.
    """
    return gaussian_shift(release.scale, release.rare)


def hockey_stick(
    release: KeptRelease, shift: int, left: Radii, right: Radii, epsilon: float
) -> float:
    """Return sup over events S of P(S) - e^epsilon Q(S); where nothing is kept a mean is never
    released.
    """
    scale, excess = float(release.scale), 0.0
    most = max(len(left), len(right))
    width = int(10 * scale) + 2
    for seen in range(most - shift - width, most - shift + width + 1):
        p, q = (mass_at(seen + shift - len(kept), scale) for kept in (left, right))
        if seen < 1:
            excess += max(0.0, p - exp(epsilon) * q)
        elif not (left and right):  # one side always stops, which distinguishes the two
            excess += p
        else:
            apart = abs(Fraction(sum(left), len(left)) - Fraction(sum(right), len(right)))
            noise = 2 * release.multiplier / seen
            excess += two_normals(p, q, float(apart / noise), epsilon)
    return excess


def _pairs() -> Iterator[tuple[Radii, Radii]]:
    """Yield neighbors with one record more, two radii from the others."""
    for n in (0, 1, 2, 3, 7, 20, 60):
        yield (0,) * n, (*(0,) * n, 2)


_RELEASES = tuple(
    KeptRelease(Fraction(scale), Fraction(multiplier), Fraction(rare))
    for scale, multiplier, rare in (("2", "1/2", "1/10"), ("1", "1", "1e-2"), ("4", "2", "1e-3"))
)


@states(THEOREM)
def obligation_kept_release(claimed: Callable[[KeptRelease], int] = least_shift) -> int:
    """Check that the hockey stick of number and mean, both ways and at several epsilon, is at most
    the profile of mu plus ``rare`` with the claimed shift, and above half of ``rare`` for some.

    Where one neighbor keeps nothing, any release of the other reveals it: so without the shift,
    or with a smaller one, delta is larger than ``rare`` however large epsilon is.
    """
    cases, nearest = 0, 0.0
    for release in _RELEASES:
        shift = claimed(release)
        for pair in _pairs():
            for left, right in (pair, pair[::-1]):
                for epsilon in (0, 1, 4, 8):
                    excess = hockey_stick(release, shift, left, right, epsilon)
                    curve = gaussian_profile(release.mu_squared, Fraction(epsilon))
                    most = float(curve + real(release.rare))
                    case = f"{release}, shift {shift}, {len(left)} and {len(right)}, {epsilon}"
                    require(excess <= most + LOST, f"{case}: {excess} > {mp.nstr(most, 8)}")
                    if epsilon == 8:
                        nearest = max(nearest, excess / float(release.rare))
                    cases += 1
    require(nearest >= 0.5, f"at most {nearest} of the event's probability")
    return cases
