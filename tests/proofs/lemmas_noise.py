"""Noise on integer queries: the arithmetic inside the rules and the guarantees."""

from __future__ import annotations

from .lemmas import Lemma, Term, ceiling, half_up, is_below, larger, rint, size, z3

_RULES = "dpverify/privacy/rules/noise.py"
_SHIFT = "dpverify/privacy/guarantees/noise.py:DiscreteLaplaceShift.delta_ball"


def distances_move_by_at_most_the_query() -> Term:
    """|y - q| - |y - q'| is at most |q - q'|: discrete Laplace noise has loss |q - q'| / scale."""
    y, q, other = z3.Ints("y q other")
    return size(size(y - q) - size(y - other)) <= size(q - other)


def distances_move_by_the_query() -> Term:
    """Twin: always exactly so, as outside the two centers."""
    y, q, other = z3.Ints("y q other")
    return size(size(y - q) - size(y - other)) == size(q - other)


def _together(l1: bool) -> Term:
    ys, qs, others = (z3.Ints(" ".join(f"{name}{i}" for i in range(3))) for name in ("y", "q", "o"))
    lost = z3.Sum([size(y - o) - size(y - q) for y, q, o in zip(ys, qs, others, strict=True)])
    moves = [size(q - o) for q, o in zip(qs, others, strict=True)]
    return lost <= (z3.Sum(moves) if l1 else larger(larger(moves[0], moves[1]), moves[2]))


def coordinates_lose_their_sum() -> Term:
    """Losses of several coordinates add up, so the rule asks for the L1 norm (three of them)."""
    return _together(True)


def coordinates_lose_their_largest() -> Term:
    """Twin: the L-infinity norm would do."""
    return _together(False)


def _shift(ceil: bool) -> Term:
    shift, z = z3.Ints("shift z")
    t = z3.Real("t")  # epsilon * scale
    below = (shift - t) / 2
    m = ceiling(below) - 1 if ceil else z3.ToInt(below)
    loses_more = size(z - shift) - size(z) > t
    return z3.Implies(z3.And(shift >= 1, is_below(t, shift)), loses_more == (z <= m))


def the_best_event_is_a_half_line() -> Term:
    """The loss of z exceeds epsilon exactly up to m = ceil((shift - epsilon scale) / 2) - 1, so the
    profile of DiscreteLaplaceShift is the difference of two tails there."""
    return _shift(True)


def the_best_event_holds_ties() -> Term:
    """Twin: m is the floor, which takes in a loss of just epsilon (no harm in a profile, but then m
    is not the largest integer of the docstring)."""
    return _shift(False)


def _tails(middle: bool) -> Term:
    shift = z3.Int("shift")
    t = z3.Real("t")
    m = ceiling((shift - t) / 2) - 1
    closed = z3.And(m >= 0, shift - m >= 1)
    known = z3.And(shift >= 1, is_below(t, shift))
    return z3.Implies(known, 2 * m == shift - 1 if middle else closed)


def both_tails_have_the_closed_form() -> Term:
    """m >= 0 and m - shift < 0: P(Z > m) and P(Z <= m - shift) are tails beyond the center, each
    q^k / (1 + q) with k = m + 1 >= 1 or k = shift - m >= 1."""
    return _tails(False)


def the_half_line_ends_in_the_middle() -> Term:
    """Twin: the event is that of total variation at every epsilon."""
    return _tails(True)


def _scores(length: int) -> Term:
    a, b, a2, b2, most = z3.Reals("a b a2 b2 most")
    moves = [a2 - a, b2 - b]
    lost = size(moves[0] - moves[1])
    return z3.Implies(z3.And(*(size(move) <= most for move in moves)), lost <= length * most)


def two_scores_part_by_twice_the_sensitivity() -> Term:
    """Two candidates' log-probabilities move apart by at most 2 D, the normalizing constant moving
    both alike: the exponential mechanism has range 2 D / scale in the L-infinity norm."""
    return _scores(2)


def two_scores_part_by_the_sensitivity() -> Term:
    """Twin: D, which is right only where all scores move the same way."""
    return _scores(1)


def half_up_moves_with_integers() -> Term:
    """round(query + g) = query + round(g) with ties upward; so both readings of rounded Gaussian
    noise are one law, ties having probability 0."""
    q, g = z3.Int("q"), z3.Real("g")
    return half_up(q + g) == q + half_up(g)


def rint_moves_with_integers() -> Term:
    """Twin: with ties to even too, at every single g."""
    q, g = z3.Int("q"), z3.Real("g")
    return rint(q + g) == q + rint(g)


LEMMAS = (
    Lemma(
        "triangle inequality",
        f"{_RULES}:discrete_laplace",
        distances_move_by_at_most_the_query,
        distances_move_by_the_query,
    ),
    Lemma(
        "L1 norm",
        f"{_RULES}:discrete_laplace",
        coordinates_lose_their_sum,
        coordinates_lose_their_largest,
    ),
    Lemma("best event", _SHIFT, the_best_event_is_a_half_line, the_best_event_holds_ties),
    Lemma(
        "two tails",
        _SHIFT,
        both_tails_have_the_closed_form,
        the_half_line_ends_in_the_middle,
    ),
    Lemma(
        "range of scores",
        f"{_RULES}:exponential_mechanism",
        two_scores_part_by_twice_the_sensitivity,
        two_scores_part_by_the_sensitivity,
    ),
    Lemma(
        "query plus rounded noise",
        f"{_RULES}:rounded_gaussian",
        half_up_moves_with_integers,
        rint_moves_with_integers,
    ),
)
