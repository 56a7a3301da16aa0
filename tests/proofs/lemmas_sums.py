"""Sums, counts and lists of answers: how far one record moves them."""

from __future__ import annotations

from .lemmas import Lemma, Term, clip, is_below, larger, one, rint, size, z3

_QUERIES = "dpverify/grid/queries.py"


def _replaced(bound_is_width: bool) -> Term:
    rest, x, y, low, high, center = z3.Ints("rest x y low high center")
    old, new = (rest + clip(record, low, high) - center for record in (x, y))
    bound = high - low if bound_is_width else larger(high - center, center - low)
    return z3.Implies(low < high, size(old - new) <= bound)


def a_replaced_record_moves_a_sum_by_the_width() -> Term:
    """The sensitivity of ClampedSum under replace, whatever the center and the other records."""
    return _replaced(True)


def a_replaced_record_moves_a_sum_by_the_radius() -> Term:
    """Twin: the sensitivity of the other adjacency."""
    return _replaced(False)


def _added(bound_is_radius: bool) -> Term:
    rest, x, low, high, center = z3.Ints("rest x low high center")
    more = rest + clip(x, low, high) - center
    radius = larger(high - center, center - low)
    moved = size(more - rest)
    return z3.Implies(low < high, moved <= radius if bound_is_radius else 2 * moved <= high - low)


def an_added_record_moves_a_sum_by_the_radius() -> Term:
    """The sensitivity of ClampedSum under add-remove, for a center inside the bounds or outside."""
    return _added(True)


def an_added_record_moves_a_sum_by_half_the_width() -> Term:
    """Twin: half the width, as if the center were always exactly in the middle."""
    return _added(False)


def _middle(up: int) -> Term:
    low, high = z3.Ints("low high")
    center = (low + high) / 2
    radius = larger(high - center, center - low)
    return z3.Implies(low < high, z3.And(radius == (high - low + up) / 2, radius > 0))


def the_middle_has_half_the_width_rounded_up() -> Term:
    """The mean's center (low + high) // 2 has the radius ceil((high - low) / 2): the least there
    is, and never 0, so the sum's noise has a scale."""
    return _middle(1)


def the_middle_has_half_the_width_rounded_down() -> Term:
    """Twin: rounded down."""
    return _middle(0)


def _fits(more: int) -> Term:
    k, n, radius, partial, term, limit = z3.Ints("k n radius partial term limit")
    known = [is_below(k, n), radius >= 0, size(partial) <= k * radius, size(term) <= radius]
    total = partial + term
    fits = z3.And(size(total) < limit, size(total) <= (k + 1) * radius)
    return z3.Implies(z3.And(*known, n * radius < limit + more), fits)


def a_sum_within_the_guard_stays_there() -> Term:
    """With n * radius < 2^62 (any limit here) every partial sum of ClampedSum stays below it, in
    any order: int64 holds them exactly."""
    return _fits(0)


def a_sum_at_the_guard_stays_below_it() -> Term:
    """Twin: with n * radius = limit as well; at 2^63 that is one too many."""
    return _fits(1)


def _counted(replaced: int) -> Term:
    rest = z3.Int("rest")
    x, y, low, high = z3.Reals("x y low high")
    inside = [one(z3.And(low <= record, record <= high)) for record in (x, y)]
    old, new = (rest + indicator for indicator in inside)
    bounded = z3.And(size(old - new) <= replaced, size(old - rest) <= 1)
    return z3.Implies(z3.And(rest >= 0, low < high), bounded)


def a_record_moves_a_count_by_one() -> Term:
    """The sensitivity of Count(within) under both adjacencies."""
    return _counted(1)


def a_replaced_record_keeps_a_count_within() -> Term:
    """Twin: replacing a record keeps the count within an interval, as it keeps the total."""
    return _counted(0)


def _total(added: int) -> Term:
    rest = z3.Int("rest")
    old, new, without = rest + 1, rest + 1, rest
    return z3.Implies(rest >= 0, z3.And(old - new == 0, size(old - without) == added))


def the_total_moves_only_with_the_rows() -> Term:
    """Count() has sensitivity 0 under replace and 1 under add-remove."""
    return _total(1)


def the_total_never_moves() -> Term:
    """Twin: the number of rows is public under both adjacencies."""
    return _total(0)


def _answers(exactly: bool) -> Term:
    xs, ys = ([z3.Real(f"{name}{i}") for i in range(4)] for name in "xy")
    categories = z3.Int("categories")
    one_record = z3.Sum([one(x != y) for x, y in zip(xs, ys, strict=True)]) == 1
    old, new = ([clip(rint(x), 0, categories - 1) for x in data] for data in (xs, ys))
    changed = z3.Sum([one(a != b) for a, b in zip(old, new, strict=True)])
    bounded = changed == 1 if exactly else changed <= 1
    return z3.Implies(z3.And(categories >= 2, one_record), bounded)


def a_replaced_record_changes_one_answer_at_most() -> Term:
    """The Hamming sensitivity of Answers: records are mapped one by one (four of them here)."""
    return _answers(False)


def a_replaced_record_changes_one_answer() -> Term:
    """Twin: exactly one. Another record may have the same category."""
    return _answers(True)


_CELLS = "dpverify/mechanisms/bounded_mean.py:BoundedMean._sum"
_SUM, _EVALUATE = f"{_QUERIES}:ClampedSum.sensitivity", f"{_QUERIES}:ClampedSum.evaluate"
_COUNT, _ANSWERS = f"{_QUERIES}:Count.sensitivity", f"{_QUERIES}:Answers.sensitivity"
LEMMAS = (
    Lemma(
        "sum, replace",
        _SUM,
        a_replaced_record_moves_a_sum_by_the_width,
        a_replaced_record_moves_a_sum_by_the_radius,
    ),
    Lemma(
        "sum, add-remove",
        _SUM,
        an_added_record_moves_a_sum_by_the_radius,
        an_added_record_moves_a_sum_by_half_the_width,
    ),
    Lemma(
        "radius of the middle",
        _CELLS,
        the_middle_has_half_the_width_rounded_up,
        the_middle_has_half_the_width_rounded_down,
    ),
    Lemma(
        "sum in int64",
        _EVALUATE,
        a_sum_within_the_guard_stays_there,
        a_sum_at_the_guard_stays_below_it,
    ),
    Lemma(
        "count within",
        _COUNT,
        a_record_moves_a_count_by_one,
        a_replaced_record_keeps_a_count_within,
    ),
    Lemma("count of all", _COUNT, the_total_moves_only_with_the_rows, the_total_never_moves),
    Lemma(
        "list of answers",
        _ANSWERS,
        a_replaced_record_changes_one_answer_at_most,
        a_replaced_record_changes_one_answer,
    ),
)
