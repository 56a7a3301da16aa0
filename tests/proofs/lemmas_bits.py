"""Uniform integers from words of bits, and coins from uniform integers."""

from __future__ import annotations

from .lemmas import Lemma, Term, is_below, larger, quotient_is, z3

_BITS = "dpverify/randomness/bits.py"


def every_value_has_as_many_words() -> Term:
    """``below`` keeps the top bits of a word and rejects values >= n: of S * B words (S = 2^(bits
    dropped), B = 2^(bits kept) >= n) exactly the S words from v S on give the value v, for each
    v < n. So accepted values are uniform."""
    word, v, n, step, top = z3.Ints("word v n step top")
    known = z3.And(step >= 1, is_below(v, n), n <= top)
    here = z3.And(v * step <= word, word < (v + 1) * step)
    all_there = z3.And(v * step >= 0, (v + 1) * step <= step * top)
    return z3.Implies(known, z3.And(quotient_is(v, word, step) == here, all_there))


def every_residue_has_as_many_words() -> Term:
    """Twin: word % n, without rejection, has as many words for each value."""
    v, n, words = z3.Ints("v n words")
    having = (words - 1 - v) / n + 1
    return z3.Implies(z3.And(is_below(v, n), n <= words), having == (words - 1) / n + 1)


def _more_than_half(bits_of_one_less: bool) -> Term:
    n, top = z3.Ints("n top")
    counted = n - 1 if bits_of_one_less else n
    known = z3.And(n >= 2, top <= 2 * counted, counted < top)
    return z3.Implies(known, z3.And(n <= top, top < 2 * n))


def more_than_half_of_the_words_are_accepted() -> Term:
    """With B = 2^((n - 1).bit_length()), so B / 2 <= n - 1 < B: every value fits, and a word is
    rejected with probability below 1/2, so the loop ends."""
    return _more_than_half(True)


def more_than_half_are_accepted_with_the_bits_of_n() -> Term:
    """Twin: with n.bit_length() bits. A power of two would be one bit too long."""
    return _more_than_half(False)


def _joined(base: int) -> Term:
    high, low, high2, low2, top = z3.Ints("high low high2 low2 top")
    known = [is_below(h, top) for h in (high, high2)]
    known += [is_below(word, 1 << 64) for word in (low, low2)]
    value, value2 = high * base + low, high2 * base + low2
    different = z3.Implies(value == value2, z3.And(high == high2, low == low2))
    return z3.Implies(z3.And(*known), z3.And(is_below(value, top * base), different))


def joined_words_are_one_number() -> Term:
    """high * 2^64 + low gives every pair of words a number of its own below top * 2^64, where
    high < top: joined words are uniform."""
    return _joined(1 << 64)


def words_joined_one_bit_early_are_one_number() -> Term:
    """Twin: a shift by 63."""
    return _joined(1 << 63)


def _prefix(ties: bool) -> Term:
    word, edge, top = z3.Ints("word edge top")
    u, f = z3.Reals("u f")
    known = z3.And(top >= 1, word <= u * top, u * top < word + 1, edge == z3.ToInt(f * top))
    below = word <= edge if ties else word < edge
    return z3.Implies(known, z3.And(z3.Implies(below, u < f), z3.Implies(word > edge, u > f)))


def a_prefix_decides_unless_it_ties() -> Term:
    """With w the first bits of a uniform U (w = floor(2^64 U), here any top for 2^64) and
    t = floor(2^64 F): w < t shows U < F, and w > t shows U > F. So words joined from the high end
    can be compared with a threshold one by one; only w = t needs the next."""
    return _prefix(False)


def a_prefix_decides_its_tie() -> Term:
    """Twin: w = t shows U < F."""
    return _prefix(True)


def _coin(clamped: bool) -> Term:
    degree, n, x = z3.Ints("degree n x")
    accepting = larger(2 * degree - n, 0) if clamped else 2 * degree - n
    known = z3.And(degree >= 0, degree <= n, n >= 1)
    first_ones = z3.Implies(is_below(x, n), (x < 2 * degree - n) == (x < accepting))
    return z3.Implies(known, z3.And(accepting >= 0, accepting <= n, first_ones))


def a_coin_with_a_negative_numerator_never_falls() -> Term:
    """draws < numerator, draws uniform below n: for the numerator 2 deg - n the first
    max(0, 2 deg - n) of the n values accept, and so many there are. A keep-probability of
    max(0, 2 deg - n) / n is one such coin."""
    return _coin(True)


def a_coin_with_any_numerator_has_that_many_values() -> Term:
    """Twin: 2 deg - n values accept, for every degree."""
    return _coin(False)


_BELOW, _JOIN = f"{_BITS}:Bits.below", f"{_BITS}:Bits._integers"
_COIN = f"{_BITS}:Bits.bernoulli"
LEMMAS = (
    Lemma(
        "uniform by rejection",
        _BELOW,
        every_value_has_as_many_words,
        every_residue_has_as_many_words,
    ),
    Lemma(
        "bits of a uniform",
        _BELOW,
        more_than_half_of_the_words_are_accepted,
        more_than_half_are_accepted_with_the_bits_of_n,
    ),
    Lemma(
        "joined words",
        _JOIN,
        joined_words_are_one_number,
        words_joined_one_bit_early_are_one_number,
    ),
    Lemma("prefix", _JOIN, a_prefix_decides_unless_it_ties, a_prefix_decides_its_tie),
    Lemma(
        "coin",
        _COIN,
        a_coin_with_a_negative_numerator_never_falls,
        a_coin_with_any_numerator_has_that_many_values,
    ),
)
