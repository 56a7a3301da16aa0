"""The kernel's rules again, as plain functions on fractions and mpmath numbers.

The tests hold dpverify.privacy.rules against these, and these against brute force on random finite
mechanisms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .laws import real

FiniteLaw = Mapping[Any, Fraction]


def hockey_stick(p: FiniteLaw, q: FiniteLaw, factor: Any) -> Any:
    """sup over events S of P(S) - factor Q(S), by summation; ``factor`` is e^epsilon."""
    gaps = (p.get(o, Fraction(0)) - factor * q.get(o, Fraction(0)) for o in {*p, *q})
    return sum((gap for gap in gaps if gap > 0), Fraction(0))


@states(Source("DMNS06", "Section 3, noise calibrated to L1 sensitivity"))
def discrete_laplace(sensitivity: Fraction, scale: Fraction) -> Fraction:
    """epsilon of an integer query of this L1 sensitivity with noise of this scale."""
    return sensitivity / scale


@states(Source("KBR16", "Section 3, k-ary randomized response"))
def randomized_response(sensitivity: Fraction, scale: Fraction) -> Fraction:
    """epsilon when at most ``sensitivity`` answers change."""
    return sensitivity / scale


@states(Source("DR14", "Theorem B.1", note="Theorem 3.16 for adaptive stages, by induction"))
def compose(parts: Sequence[tuple[Fraction, Fraction]]) -> tuple[Fraction, Fraction]:
    """(epsilon, delta) of all outputs together, adaptively."""
    return sum((e for e, _ in parts), Fraction(0)), sum((d for _, d in parts), Fraction(0))


@states(Source("KOV15", "Section 3, the dominating mechanism"))
def profile(epsilon0: Fraction, delta0: Fraction, epsilon: Fraction) -> Any:
    """The largest delta at ``epsilon`` that an (epsilon0, delta0)-DP mechanism can have.

    The dominating pair puts delta0 where the other law has nothing, and shares the rest as
    randomized response does: (1 - delta0) (e^epsilon0 - e^epsilon) / (1 + e^epsilon0).
    """
    if epsilon >= epsilon0:
        return real(delta0)
    top, here = mp.exp(real(epsilon0)), mp.exp(real(epsilon))
    return real(delta0) + (1 - real(delta0)) * (top - here) / (1 + top)
