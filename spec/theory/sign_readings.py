"""Parameters of rounds of signs: shares, noise, the least number of records, and the map that
follows from a transcript.

A mechanism's parameters are those of ``sign_covariance``, whose rounds these are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency

from . import outer_products, shrinking, signs
from .gaussian_laws import UNIT
from .laws import Outcome, real

Parameters = Mapping[str, Any]

RADIUS = 1 << 17


def size(parameters: Parameters) -> int:
    """Return the number of coordinates that are mapped: the columns, and the constant if there is
    one.
    """
    return len(parameters["center"]) + (parameters["scale"] is not None)


def moves(parameters: Parameters) -> int:
    """Return the squared sensitivity of sums of u u^T, |u| <= 1."""
    return 2 if parameters["adjacency"] is Adjacency.REPLACE else 1


def share(parameters: Parameters, t: int) -> Fraction:
    """Return the share of mu^2 in round t, from 0: half for the last one."""
    rounds, shares = parameters["rounds"], parameters["shares"]
    if shares is not None:
        return Fraction(shares[t])
    if rounds == 1:
        return Fraction(1)
    return Fraction(1, 2) if t == rounds - 1 else Fraction(1, 2 * (rounds - 1))


def deviation(parameters: Parameters, t: int) -> Fraction:
    """Return the deviation of a diagonal entry's noise, in records: multiplier
    sqrt(moves / share), the root rounded up to 2^-40.
    """
    root = shrinking.root_up(moves(parameters) / share(parameters, t))
    return Fraction(parameters["noise_multiplier"]) * root


def scale(parameters: Parameters, t: int) -> Fraction:
    """Return the deviation of a diagonal entry's noise in the units of the value."""
    return deviation(parameters, t) * outer_products.DIAGONAL * RADIUS**2


def at_least(parameters: Parameters) -> int:
    """Return the least number of records: sqrt(8 k^3 moves / share) times the multiplier, rounded
    up, at most 2^60.

    At 2^60 no count suffices, for counts are at most 10^18.
    """
    if parameters["at_least"] is not None:
        return int(parameters["at_least"])
    square = Fraction(8 * moves(parameters) * size(parameters) ** 3) / share(parameters, 0)
    least = math.ceil(Fraction(parameters["noise_multiplier"]) * shrinking.root_up(square))
    return min(least, 1 << 60)


def cells(parameters: Parameters) -> tuple[Fraction, ...]:
    """Return, for each column, the largest power of two not above ``cell``."""
    given, d = parameters["cell"], len(parameters["center"])
    each = given if isinstance(given, tuple) else (given,) * d
    return tuple(power(floor_log2(Fraction(c))) for c in each)


def constant(parameters: Parameters) -> int:
    """Return the scale in cells, or as it is where columns have cells of their own; 0 without
    one.
    """
    h = parameters["scale"]
    if h is None:
        return 0
    own = isinstance(parameters["cell"], tuple)
    return round(Fraction(h) / (1 if own else cells(parameters)[0]))


# --- which map follows --------------------------------------------------------------------------


def counted(parameters: Parameters, first: Outcome, n: int | None) -> Fraction:
    """Return the public number, or the first released trace in records, at most 10^18 either
    way.
    """
    if n is not None:
        return Fraction(n)
    trace = sum(first[: size(parameters)]) * deviation(parameters, 0) / UNIT
    return min(max(trace, Fraction(-(10**18))), Fraction(10**18))


def floor_log2(value: Fraction) -> int:
    """Return the largest e with 2^e <= value, for a positive value."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= value else exponent - 1


def power(exponent: int) -> Fraction:
    """Return 2 to this power."""
    return Fraction(2**exponent) if exponent >= 0 else Fraction(1, 2**-exponent)


def rounded_down(count: Fraction, bits: int) -> Fraction:
    """Return a positive number rounded down to so many significant bits."""
    grain = power(floor_log2(count) + 1 - bits)
    return math.floor(count / grain) * grain


def floor_of(parameters: Parameters, t: int, count: Fraction) -> Any:
    """Return the number below which an eigenvalue of round t counts as noise: a part of nu, the
    noise's norm, s sqrt(2 k).

    The part is clip(nu k / 4, 1/50, 1/8), and 1/4 in the last two rounds.
    """
    k = size(parameters)
    nu = real(deviation(parameters, t)) * mp.sqrt(2 * k) / real(count)
    early = t < parameters["rounds"] - 2
    part = min(max(nu * k / 4, mp.mpf(1) / 50), mp.mpf(1) / 8) if early else mp.mpf(1) / 4
    return part * nu


def map_after(parameters: Parameters, outcomes: Sequence[Outcome], n: int | None) -> signs.Row:
    """Return C after so many rounds, row by row; unchanged by a round that saw too few records, or
    no positive trace.
    """
    k = size(parameters)
    public = signs.start(k)
    if not outcomes:
        return public
    count = counted(parameters, outcomes[0], n)
    if count <= 0:
        return public
    count = rounded_down(count, parameters["precision"])
    for t, outcome in enumerate(outcomes):
        row = signs.measured(outcome, parameters["precision"], k)
        if row is not None and count >= at_least(parameters):
            floor = floor_of(parameters, t, count)
            public = signs.next_map(public, row, parameters["precision"], floor)
    return public
