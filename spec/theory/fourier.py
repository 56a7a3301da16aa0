"""Profiles of compositions from transforms of their losses: the facts with proofs, as plain
functions.

L is the sum of independent privacy losses under P, f(y) = E (1 - e^(y - L))_+ for every real y
(at y >= 0 the profile), M(s) = E e^(sL), finite for the s that occur. Laws are given as
{loss: mass}, beside Gaussian noise of a given mu.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .laws import real
from .profiles import gaussian_profile


@states(Source("OURS", "profile of atoms beside Gaussian noise"))
def profile_at(atoms: dict[Fraction, Any], mu: Fraction, y: Fraction | Any) -> Any:
    """Return f(y), the mean over atoms of the Gaussian pair's f(y - loss).

    The Gaussian pair is symmetric, so f(-y) = 1 - e^-y + e^-y f(y).
    """
    return mp.fsum(p * _gaussian_at(mu, _number(y) - real(x)) for x, p in atoms.items())


def _number(y: Fraction | Any) -> Any:
    return real(y) if isinstance(y, Fraction) else mp.mpf(y)


def _gaussian_at(mu: Fraction, y: Any) -> Any:
    if y < 0:
        return 1 - mp.exp(y) + mp.exp(y) * _gaussian_at(mu, -y)
    if not mu:
        return mp.mpf(0)
    m = real(mu)
    return mp.ncdf(m / 2 - y / m) - mp.exp(y) * mp.ncdf(-m / 2 - y / m)


@states(Source("OURS", "Poisson summation of a tilted profile"))
def summed(atoms: dict[Fraction, Any], mu: Fraction, tilt: Any, step: Any, y: Any) -> Any:
    """Return (step / 2 pi) sum over all k of F(k step) e^(-i k step y), F(w) = M(s) / (s (s + 1)),
    s = t + iw.

    It equals the sum over all j of h(y + jp), h(y) = f(y) e^(ty), p = 2 pi / step. Proof: the
    integral of (1 - e^(y - l))_+ e^(sy) dy over y <= l is e^(sl) (1 / s - 1 / (s + 1)) for Re
    s > 0, so F is the integral of h(y) e^(iwy). h is continuous, integrable and of bounded
    variation, and F decreases at least like 1 / w^2, so Poisson's formula holds at every point.
    QED.
    """
    t, a, total, k = real(tilt), real(step), mp.mpf(0), 0
    while True:
        s = mp.mpc(t, k * a)
        m = mp.exp(real(mu) ** 2 * s * (s + 1) / 2)
        m *= mp.fsum(p * mp.exp(s * real(x)) for x, p in atoms.items())
        term = (m * mp.exp(-1j * k * a * real(y)) / (s * (s + 1))).real
        total += term / 2 if k == 0 else term
        if k and abs(m) < mp.mpf(10) ** -(mp.mp.dps + 5):
            return total * a / mp.pi
        k += 1


@states(Source("OURS", "Chernoff's bound of a profile"))
def chernoff(moment: Any, s: Any, y: Any) -> Any:
    """Return the bound kappa(s) M(s) e^(-sy) >= f(y), for s >= 0.

    Here kappa(s) = s^s / (s + 1)^(s + 1), and kappa(0) = 1.

    Proof: for u = L - y > 0, (1 - e^-u) e^(-su) is largest where e^-u = s / (s + 1), and is
    kappa(s) there. So (1 - e^(y - L))_+ <= kappa(s) e^(s (L - y)); take the mean. QED.
    """
    at = real(s)
    kappa = at**at / (at + 1) ** (at + 1) if at else mp.mpf(1)
    return kappa * moment * mp.exp(-at * real(y))


@states(Source("OURS", "what smoothing adds to a profile"))
def smoothing_bound(sigma: Fraction, y: Any) -> Any:
    """Return sigma phi(y / sigma) e^(y / 2), a bound on c(y) = f_sigma(y) - (1 - e^y)_+ >= 0,
    f_sigma of Gaussian noise.

    Proof: for y >= 0, f_sigma(y) = Phi(sigma / 2 - y / sigma) - e^y Phi(-sigma / 2 - y / sigma)
    has the derivative phi(sigma / 2 - y / sigma) in sigma, for e^y phi(-sigma / 2 - y / sigma)
    is the same number, and the limit 0 at sigma = 0. The derivative is phi(y / v)
    e^(y / 2 - v^2 / 8) at sigma = v, and phi(y / v) <= phi(y / sigma) for v <= sigma. For
    y < 0, symmetry gives c(y) = e^y c(-y). QED.

    Composed with any L this gives E f_sigma(y - L) - f(y) <= sigma^2 e^(sigma^2 / 8) g(y), g
    the density of L + Z, Z the Gaussian loss (mean sigma^2 / 2, variance sigma^2): the mean
    over L of sigma phi((y - L) / sigma) e^((y - L) / 2) is that, for phi((u - sigma^2 / 2) /
    sigma) = phi(u / sigma) e^(u / 2 - sigma^2 / 8).
    """
    width = real(sigma)
    return width * mp.npdf(real(y) / width) * mp.exp(real(y) / 2)


def excess(sigma: Fraction, y: Fraction) -> Any:
    """Return c(y); at 0 it is 2 Phi(sigma / 2) - 1, which is above e^(-sigma^2 / 8) times the
    bound.
    """
    if y < 0:
        return mp.exp(real(y)) * excess(sigma, -y)
    return gaussian_profile(sigma**2, y)


@states(Source("OURS", "largest moment of a bounded range"))
def range_moment(length: Fraction, t: Any) -> Any:
    """Return a bound on E e^(tL), t > 0, for losses in an interval of this length.

    It is y^t A / ((t + 1) (e^length - 1)) with A = e^length - e^(-t length), y = t A / ((t + 1)
    (1 - e^(-t length))).

    Proof: let the losses lie in [b - length, b], Y = e^b. E e^-L is the mass of Q, which is 1,
    for all losses are finite. e^(tL) is convex in e^-L, so it lies below its
    chord between the two ends, and the mean of the chord depends on E e^-L alone: it is (Y^t
    (e^length - Y) + Y^t e^(-t length) (Y - 1)) / (e^length - 1) = Y^t (A - Y (1 -
    e^(-t length))) / (e^length - 1), which over all Y > 0 is largest at y. A pair of a
    mechanism that comes later, given what came before, has such losses as well, so moments
    multiply. QED.
    """
    top, order = real(length), real(t)
    whole = mp.exp(top) - mp.exp(-order * top)
    y = order / (order + 1) * whole / -mp.expm1(-order * top)
    return y**order * whole / ((order + 1) * mp.expm1(top))


@states(Source("OURS", "one bound of a profile beside atoms"))
def beside_atoms(
    profile_at: Callable[[Any], Any], atoms: dict[Fraction, Any], epsilon: Fraction
) -> Any:
    """Return a bound on delta(epsilon) of a mechanism beside a pair of these losses.

    The mechanism's profile is at most ``profile_at``, in both directions. The bound is the sum
    over losses x of mass * h(epsilon - x), h(y) = profile_at(y) for y >= 0, and 1 - e^y + e^y
    profile_at(-y) for y < 0.

    Proof: let P x P', Q x Q' be the two together (adaptively: given any output of the pair with
    the losses). For an event S, P P'(S) - e^epsilon Q Q'(S) is the mean over the pair's
    outputs, under P', of P(S_o) - e^(epsilon - x) Q(S_o), x the loss there: each is at most the
    profile at epsilon - x of real argument, and at y < 0 that is 1 - e^y + e^y times the other
    direction's at -y (complements). In the other order, at most the mean over outputs m of the
    mechanism, under P, of the pair's profile at e^epsilon Q(m) / P(m), which is the sum over x
    of mass (1 - e^(epsilon - x) Q(m) / P(m))_+; summed over m first, it is the same. QED.
    """
    total = mp.mpf(0)
    for x, mass in atoms.items():
        y = real(epsilon - x)
        total += mass * (profile_at(y) if y >= 0 else -mp.expm1(y) + mp.exp(y) * profile_at(-y))
    return total
