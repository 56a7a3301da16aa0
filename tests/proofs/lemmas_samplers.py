"""Discrete Laplace noise from uniform and geometric integers, and the sums that it enters."""

from __future__ import annotations

from .lemmas import Lemma, Term, is_below, quotient_is, size, z3


def _block(last: int) -> Term:
    u, v, u2, v2, a = z3.Ints("u v u2 v2 a")
    known = [a >= 1, v >= 0, v2 >= 0, is_below(u, a + last), is_below(u2, a + last)]
    same = z3.And(u == u2, v == v2)
    return z3.Implies(z3.And(*known, u + a * v == u2 + a * v2), same)


def a_number_has_one_block_and_remainder() -> Term:
    """u + a v with 0 <= u < a and v >= 0 is a different number for every (u, v): its law is the
    product of theirs."""
    return _block(0)


def a_number_has_one_block_and_remainder_up_to_a() -> Term:
    """Twin: u may be a itself."""
    return _block(1)


def every_number_has_a_block_and_remainder() -> Term:
    """Every x >= 0 is u + a v with 0 <= u < a, v >= 0: no value of the geometric law is missing."""
    x, a, v = z3.Ints("x a v")
    known = z3.And(x >= 0, a >= 1, quotient_is(v, x, a))
    return z3.Implies(known, z3.And(v >= 0, is_below(x - a * v, a)))


def every_number_has_a_positive_block() -> Term:
    """Twin: with v >= 1, as for a geometric law that counts from 1."""
    x, a, v = z3.Ints("x a v")
    known = z3.And(x >= 0, a >= 1, quotient_is(v, x, a))
    return z3.Implies(known, z3.And(v >= 1, is_below(x - a * v, a)))


def _magnitude(up: bool) -> Term:
    x, b, m, r = z3.Ints("x b m r")
    known = z3.And(b >= 1, m >= 0, is_below(r, b), x == b * m + r)
    return z3.Implies(known, quotient_is(m + 1, x + b - 1, b) if up else quotient_is(m, x, b))


def b_numbers_in_a_row_share_a_magnitude() -> Term:
    """x // b = m for the b numbers x = b m + r, 0 <= r < b: magnitudes are geometric with the ratio
    of x to the power b."""
    return _magnitude(False)


def b_numbers_in_a_row_share_a_magnitude_rounded_up() -> Term:
    """Twin: with x / b rounded up, m + 1 for all of them."""
    return _magnitude(True)


def _sign(rejected: bool) -> Term:
    z, magnitude, magnitude2 = z3.Ints("z magnitude magnitude2")
    negative, negative2 = z3.Bools("negative negative2")

    def gives(sign: Term, m: Term) -> Term:
        accepted = z3.Not(z3.And(sign, m == 0))
        drawn = z3.And(m >= 0, z3.If(sign, -m, m) == z)
        return z3.And(drawn, accepted) if rejected else drawn

    both = z3.And(gives(negative, magnitude), gives(negative2, magnitude2))
    same = z3.And(negative == negative2, magnitude == magnitude2)
    return z3.And(z3.Implies(both, same), gives(z < 0, size(z)))


def a_sign_and_a_magnitude_make_each_integer_once() -> Term:
    """With minus zero rejected every integer has one sign and one magnitude: two-sided noise is
    symmetric with the mass of 0 counted once."""
    return _sign(True)


def minus_zero_is_another_integer() -> Term:
    """Twin: without the rejection."""
    return _sign(False)


def _whole(unsigned_zero: bool) -> Term:
    m, sign, k, r, sign2, k2, r2 = z3.Ints("m sign k r sign2 k2 r2")
    known = [m >= 1, k >= 0, k2 >= 0, is_below(r, m), is_below(r2, m)]
    known += [z3.Or(s == 1, s == -1) for s in (sign, sign2)]
    x, x2 = (z3.If(s == 1, value, -value) for s, value in ((sign, m * k + r), (sign2, m * k2 + r2)))
    same = z3.And(sign == sign2, k == k2, r == r2)
    zero = z3.And(k == 0, r == 0, k2 == 0, r2 == 0, sign != sign2)
    only = z3.Or(same, zero) if unsigned_zero else same
    return z3.Implies(z3.And(*known, x == x2), only)


def only_zero_has_two_signed_blocks() -> Term:
    """sign * (m k + r): one sign, block and remainder for each nonzero integer; 0 = -0 is the only
    duplicate, and the one attempt that is rejected."""
    return _whole(True)


def no_integer_has_two_signed_blocks() -> Term:
    """Twin: none has two, so nothing need be rejected."""
    return _whole(False)


def _fits(blocks_more: int) -> Term:
    u, v, most, a, limit = z3.Ints("u v most a limit")
    known = [a >= 1, is_below(u, a), is_below(v, most + 1), (most + blocks_more) * a < limit]
    return z3.Implies(z3.And(*known), is_below(u + a * v, limit))


def a_block_more_bounds_every_draw() -> Term:
    """(largest v + 1) a < 2^62 (any limit here) keeps every u + a v of a batch below it: int64
    holds them exactly."""
    return _fits(1)


def the_largest_block_bounds_every_draw() -> Term:
    """Twin: (largest v) a below the limit does."""
    return _fits(0)


def _sum_fits(limit: int) -> Term:
    noise, center, largest, most = z3.Ints("noise center largest most")
    known = [size(noise) <= largest, size(center) <= most, largest + most < limit]
    total = noise + center
    return z3.Implies(z3.And(*known), z3.And(total >= -(1 << 63), total < 1 << 63))


def noise_and_center_fit_together() -> Term:
    """Below the guard of 2^62 the sum of noise and center is exact in int64."""
    return _sum_fits(1 << 62)


def noise_and_center_fit_up_to_the_word() -> Term:
    """Twin: a guard of 2^64, the size of a word."""
    return _sum_fits(1 << 64)


_LAPLACE = "dpverify/randomness/samplers.py:discrete_laplace_by_coins"
_SUM = "dpverify/plans/noise.py:added_to"
LEMMAS = (
    Lemma(
        "block and remainder",
        _LAPLACE,
        a_number_has_one_block_and_remainder,
        a_number_has_one_block_and_remainder_up_to_a,
    ),
    Lemma(
        "every number is drawn",
        _LAPLACE,
        every_number_has_a_block_and_remainder,
        every_number_has_a_positive_block,
    ),
    Lemma(
        "magnitude",
        _LAPLACE,
        b_numbers_in_a_row_share_a_magnitude,
        b_numbers_in_a_row_share_a_magnitude_rounded_up,
    ),
    Lemma(
        "minus zero",
        _LAPLACE,
        a_sign_and_a_magnitude_make_each_integer_once,
        minus_zero_is_another_integer,
    ),
    Lemma(
        "signed blocks", _LAPLACE, only_zero_has_two_signed_blocks, no_integer_has_two_signed_blocks
    ),
    Lemma(
        "draws in int64",
        _LAPLACE,
        a_block_more_bounds_every_draw,
        the_largest_block_bounds_every_draw,
    ),
    Lemma(
        "noise in int64", _SUM, noise_and_center_fit_together, noise_and_center_fit_up_to_the_word
    ),
)
