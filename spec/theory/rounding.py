"""Privacy losses rounded to a lattice, apart or toward zero: the facts, with proofs, as plain
functions.

A law is {loss under P: P's mass}; a pair with it has Q's masses p e^-l. f(x) = E (1 -
e^(x - L))_+ for every real x, at x >= 0 the profile.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .laws import real

Law = dict[Fraction, Any]


def profile_at(law: Law, x: Fraction) -> Any:
    """Return f(x) = E (1 - e^(x - L))_+ of a law of losses L."""
    return mp.fsum(p * -mp.expm1(real(x - loss)) for loss, p in law.items() if loss > x)


@states(Source("OURS", "losses rounded apart dominate"))
def apart(law: Law, step: Fraction) -> Law:
    """Return the law in which every loss between two points of the lattice through the largest one
    becomes either, with P's and Q's masses kept.

    For l in [a, a + step): the share s = (1 - e^(a - l)) / (1 - e^-step) goes to a + step, the
    rest to a. f only grows, at every x, also where independent losses are added to both, or
    losses that come later and depend on the output. Proof: (1 - s) e^-a + s e^-(a + step) =
    e^-l, so Q's mass is kept, and e^-L becomes e^-L' with E (e^-L' | L) = e^-L. (1 - e^x u)_+
    is convex in u; Jensen's inequality, given all else. QED.
    """
    top, masses = max(law), dict[Fraction, Any]()
    for loss, p in law.items():
        low = top + (loss - top) // step * step
        share = mp.expm1(real(low - loss)) / mp.expm1(real(-step))
        masses[low] = masses.get(low, mp.mpf(0)) + p * (1 - share)
        masses[low + step] = masses.get(low + step, mp.mpf(0)) + p * share
    return {loss: p for loss, p in masses.items() if p}


@states(Source("OURS", "losses rounded toward zero are a mechanism's"))
def toward_zero(law: Law, step: Fraction) -> Law:
    """Return the law of a symmetric pair, p(-l) = e^-l p(l), in which every |L| becomes the next
    smaller multiple of the step.

    The result is the law of a post-processing of the pair, so f does not grow at any x. Proof:
    |L| has the same law under P and Q. Given |L| = l, the sign is + with odds e^l under P and
    e^-l under Q: randomized response. Let k <= l. Flipping it with probability c gives odds of
    + under P that fall without a jump from e^l at c = 0 to 1 at c = 1/2, and under Q their
    reciprocals, so some c gives e^k and e^-k. Forgetting |L| except for its k is
    post-processing as well. QED. The same with a smaller multiple in place of the next.
    """
    sizes = dict[Fraction, Any]()
    for loss, p in law.items():
        k = abs(loss) // step * step
        sizes[k] = sizes.get(k, mp.mpf(0)) + p
    masses = dict[Fraction, Any]()
    for k, p in sizes.items():
        for at in (k, -k):
            masses[at] = masses.get(at, mp.mpf(0)) + p / (1 + mp.exp(real(-at)))
    return masses
