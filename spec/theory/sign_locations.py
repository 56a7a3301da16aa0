"""Location of normal records that private signs imply: its error beside the mean of all records.

x is standard normal in d dimensions. The signs are z / |z|, z = ((x - l) / sqrt(v), 1), up to a
map that makes them even. So the location l and the scatter v are those of Kent and Tyler: the
mean of psi = (x - l) / (v + |x - l|^2) is 0, and that of |x - l|^2 / (v + |x - l|^2) is d / (d +
1).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import mpmath as mp

from dpverify.privacy import Source, states

from .obligations import require
from .quadrature import integral
from .signs import sphere_part

_LOCATION = Source("KT91", "the Cauchy M-estimator of location", note="its error, by Stein: OURS")


class SignLocation(NamedTuple):
    """Law of the location, after enough rounds.

    scatter: v. excess: n times the variance, in each coordinate, of (location without noise -
    mean of all n records). left: the part of an earlier map's error that a round leaves.
    """

    scatter: Any
    excess: Any
    left: Any


@states(_LOCATION)
def sign_location(d: int) -> SignLocation:
    """Return the law, to 15 digits.

    By Stein the mean of psi follows that of the records with the slope E x_1 psi_1 = 1 / (d + 1),
    and from the divergence of psi, d / (v + r^2) - 2 r^2 / (v + r^2)^2, whose mean is E x psi =
    d / (d + 1), and E 1 / (v + r^2) = 1 / (v (d + 1)) follows E |psi|^2 = d (1 - v) / (2 v (d +
    1)). The location follows the mean of psi over its slope; of its variance the mean of all
    records has 1 / n and is uncorrelated with the rest, since E x_1 psi_1 is that slope.

    To first order a round turns a change of the signs' second moments above their diagonal into
    d + 3 times that of the scatter (phi of d + 1 numbers has the slope 1 / (d + 3)), so moves the
    location by sqrt(v) (d + 3) times E u_1 u_(d+1), which is sqrt(v) times the slope times its
    error. QED
    """
    v = mp.findroot(lambda v: v * inverse(d, v) - mp.mpf(1) / (d + 1), (0.3, 1), solver="anderson")
    return SignLocation(v, (d + 1) * (1 - v) / (2 * v) - 1, 1 - v * (d + 3) / (d + 1))


def inverse(d: int, v: Any) -> Any:
    """Return E 1 / (v + |x|^2) as the integral of exp(-t v) (1 + 2 t)^(-d / 2) over t > 0.

    With s = 1 + 2 t it is e^(v / 2) E_(d/2)(v / 2) / 2, E the exponential integral.
    """
    half = mp.mpf(v) / 2
    return mp.exp(half) * mp.expint(mp.mpf(d) / 2, half) / 2


# --- obligations --------------------------------------------------------------------------------


@states(_LOCATION)
def obligation_sign_location(claimed: Callable[[int], SignLocation] = sign_location) -> int:
    """Check to 9 digits, by quadrature over lengths, that signs are even at the scatter.

    There the excess is the variance of psi over its slope, minus the record, and what a round
    leaves follows from that slope and from that of phi. Slopes are means of derivatives, and a
    difference quotient.
    """
    cases = 0
    for d in (2, 3, 8):
        v, excess, left = claimed(d)
        even, slope = _mean(d, partial(_share, v)), _mean(d, partial(_slope, d, v))
        require(abs(even - mp.mpf(d) / (d + 1)) < 1e-9, f"{d}: signs have {even}")
        off = _mean(d, partial(_off, v, slope)) / d
        require(abs(excess - off) < 1e-9, f"{d}: an excess of {excess}, not {off}")
        step = mp.mpf(10) ** -6
        spectrum = [1 + step, 1 - step, *[mp.mpf(1)] * (d - 1)]
        first, second = (sphere_part(spectrum, i) for i in range(2))
        total = sphere_part([mp.mpf(1)] * (d + 1), 0) * (d + 1)
        turned = (first - second) / total / (2 * step)
        wanted = 1 - v * slope / turned
        require(abs(left - wanted) < 1e-9, f"{d}: a round leaves {left}, not {wanted}")
        cases += 1
    return cases


def _share(v: Any, r: Any) -> Any:
    return r**2 / (v + r**2)


def _slope(d: int, v: Any, r: Any) -> Any:
    """Return the divergence of psi over d: on average its derivative by the location."""
    return 1 / (v + r**2) - 2 * r**2 / d / (v + r**2) ** 2


def _off(v: Any, slope: Any, r: Any) -> Any:
    """Return the square of what a record moves the location by, beside itself."""
    return (r / (v + r**2) / slope - r) ** 2


def _mean(d: int, term: Callable[[Any], Any]) -> Any:
    """Return the mean of a function of |x|, by Gauss's rule."""
    front = mp.mpf(2) ** (1 - mp.mpf(d) / 2) / mp.gamma(mp.mpf(d) / 2)
    far = mp.sqrt(d) + 12
    places = [mp.mpf(k) / 2 for k in range(int(2 * far) + 2)]
    return front * integral(lambda r: term(r) * r ** (d - 1) * mp.exp(-(r**2) / 2), places)
