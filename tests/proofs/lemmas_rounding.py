"""Rounding and clamping one record: what the queries on the grid rest on."""

from __future__ import annotations

from .lemmas import Lemma, Term, clip, half_up, is_nearest, rint, size, smaller, z3


def clip_moves_no_further() -> Term:
    """Clamping brings two records no further apart, so what bounds their distance still does."""
    x, y, low, high = z3.Ints("x y low high")
    moved = size(clip(x, low, high) - clip(y, low, high))
    return z3.Implies(low <= high, moved <= smaller(size(x - y), high - low))


def clip_moves_just_as_far() -> Term:
    """Twin: up to the width, distances are kept."""
    x, y, low, high = z3.Ints("x y low high")
    moved = size(clip(x, low, high) - clip(y, low, high))
    return z3.Implies(low <= high, moved == smaller(size(x - y), high - low))


def _lands_between(premise: bool) -> Term:
    x, low, high = z3.Ints("x low high")
    y = clip(x, low, high)
    lands = z3.And(low <= y, y <= high, clip(y, low, high) == y)
    return z3.Implies(low <= high, lands) if premise else lands


def clip_lands_between() -> Term:
    """A clamped record lies between the bounds and stays where it is when clamped again; ClampedSum
    refuses bounds out of order for this."""
    return _lands_between(True)


def clip_lands_between_any_bounds() -> Term:
    """Twin: bounds out of order too."""
    return _lands_between(False)


def clip_keeps_order() -> Term:
    """Clamping is monotone, so it commutes with other monotone maps, rounding among them."""
    x, y, low, high = z3.Ints("x y low high")
    return z3.Implies(z3.And(low <= high, x <= y), clip(x, low, high) <= clip(y, low, high))


def clip_keeps_strict_order() -> Term:
    """Twin: strictly monotone."""
    x, y, low, high = z3.Ints("x y low high")
    return z3.Implies(z3.And(low < high, x < y), clip(x, low, high) < clip(y, low, high))


def _box(inside: bool) -> Term:
    x, low, high, box = z3.Ints("x low high box")
    known = z3.And(low <= high, box >= 0, *([-box <= low, high <= box] if inside else []))
    return z3.Implies(known, clip(clip(x, -box, box), low, high) == clip(x, low, high))


def an_overflow_clips_as_its_record() -> Term:
    """A scaled record beyond the outer box (an infinity at worst) may be replaced by the box's end:
    bounds inside the box clamp both alike."""
    return _box(True)


def an_overflow_clips_anywhere() -> Term:
    """Twin: for bounds that leave the box."""
    return _box(False)


def _either_way(strictly: bool) -> Term:
    x, y = z3.Reals("x y")
    r, s = z3.Ints("r s")
    moved, reach = size(z3.ToReal(r - s)), size(x - y) + 1
    bounded = moved < reach if strictly else moved <= reach
    return z3.Implies(z3.And(is_nearest(r, x), is_nearest(s, y)), bounded)


def rounding_moves_by_at_most_one_more() -> Term:
    """Two rounded records are at most one cell further apart than the records, however ties go."""
    return _either_way(False)


def rounding_moves_by_less_than_one_more() -> Term:
    """Twin: strictly less than one cell. Two ties may go opposite ways."""
    return _either_way(True)


def half_up_moves_by_less_than_one_more() -> Term:
    """With ties upward the extra is less than a cell; np.rint does not give this."""
    x, y = z3.Reals("x y")
    return size(z3.ToReal(half_up(x) - half_up(y))) < size(x - y) + 1


def rint_moves_by_less_than_one_more() -> Term:
    """Twin: ties to even, which take 1/2 down to 0 and 3/2 up to 2."""
    x, y = z3.Reals("x y")
    return size(z3.ToReal(rint(x) - rint(y))) < size(x - y) + 1


def rint_keeps_order() -> Term:
    """np.rint is a nearest integer, monotone, and keeps integers: records at a bound stay there."""
    x, y = z3.Reals("x y")
    k = z3.Int("k")
    monotone = z3.Implies(x <= y, rint(x) <= rint(y))
    return z3.And(is_nearest(rint(x), x), monotone, rint(z3.ToReal(k)) == k)


def rint_keeps_strict_order() -> Term:
    """Twin: strictly monotone, so that different records have different cells."""
    x, y = z3.Reals("x y")
    return z3.Implies(x < y, rint(x) < rint(y))


def _bounded(clamp_last: bool) -> Term:
    x, bound = z3.Real("x"), z3.Real("bound") if not clamp_last else z3.Int("bound")
    value = clip(rint(x), -bound, bound) if clamp_last else rint(clip(x, -bound, bound))
    return z3.Implies(bound >= 0, size(value) <= bound)


def rounded_then_clamped_is_bounded() -> Term:
    """quantize clamps last and to integers, so no rounding can leave the bounds again."""
    return _bounded(True)


def clamped_then_rounded_is_bounded() -> Term:
    """Twin: clamp first, to a real bound."""
    return _bounded(False)


def _in_cells(rounded: bool) -> Term:
    x, low, high = z3.Reals("x low high")
    ends = [rint(bound) if rounded else z3.ToInt(bound) for bound in (low, high)]
    return z3.Implies(low <= high, clip(rint(x), *ends) == rint(clip(x, low, high)))


def cells_clamp_as_units_do() -> Term:
    """The mean's bounds are rounded to cells by the records' own rule: clamping in cells is
    clamping at the bounds that the user gave, then rounding."""
    return _in_cells(True)


def floored_bounds_clamp_as_units_do() -> Term:
    """Twin: bounds rounded down."""
    return _in_cells(False)


_QUANTIZE = "dpverify/grid/cells.py:quantize"
_CELLS = "dpverify/mechanisms/bounded_mean.py:BoundedMean._sum"
LEMMAS = (
    Lemma("clip is 1-Lipschitz", _QUANTIZE, clip_moves_no_further, clip_moves_just_as_far),
    Lemma("clip lands between", _QUANTIZE, clip_lands_between, clip_lands_between_any_bounds),
    Lemma("clip keeps order", _QUANTIZE, clip_keeps_order, clip_keeps_strict_order),
    Lemma("outer box", _QUANTIZE, an_overflow_clips_as_its_record, an_overflow_clips_anywhere),
    Lemma(
        "rounding distance",
        _QUANTIZE,
        rounding_moves_by_at_most_one_more,
        rounding_moves_by_less_than_one_more,
    ),
    Lemma(
        "rounding distance, ties upward",
        _QUANTIZE,
        half_up_moves_by_less_than_one_more,
        rint_moves_by_less_than_one_more,
    ),
    Lemma("rint keeps order", _QUANTIZE, rint_keeps_order, rint_keeps_strict_order),
    Lemma(
        "round, then clamp",
        _QUANTIZE,
        rounded_then_clamped_is_bounded,
        clamped_then_rounded_is_bounded,
    ),
    Lemma("bounds in cells", _CELLS, cells_clamp_as_units_do, floored_bounds_clamp_as_units_do),
)
