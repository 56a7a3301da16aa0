"""Thresholds, gates and what one record moves in a histogram or in a joint release."""

from __future__ import annotations

from .lemmas import Lemma, Term, is_below, is_nearest, larger, one, rint, size, z3

_HISTOGRAMS = "dpverify/privacy/rules/histograms.py"


def _key(strictly: bool) -> Term:
    z, threshold = z3.Ints("z threshold")
    exponent = z > threshold - 1 if strictly else z >= threshold - 1
    return z3.Implies(threshold >= 2, (1 + z >= threshold) == exponent)


def a_key_of_one_record_surfaces_from_threshold_less_one() -> Term:
    """count + Z >= threshold with count 1: the exponent threshold - 1 in delta."""
    return _key(False)


def a_key_of_one_record_surfaces_beyond_threshold_less_one() -> Term:
    """Twin: strictly beyond, which would make delta too small."""
    return _key(True)


def _rounded_key(half: bool) -> Term:
    z, threshold = z3.Ints("z threshold")
    g = z3.Real("g")
    edge = threshold - z3.Q(3, 2) if half else z3.ToReal(threshold - 1)
    surfaces = 1 + z >= threshold
    sure = z3.And(z3.Implies(surfaces, g >= edge), z3.Implies(g > edge, surfaces))
    return z3.Implies(z3.And(threshold >= 2, is_nearest(z, g)), sure)


def rounded_noise_surfaces_from_half_a_step_earlier() -> Term:
    """With Z the rounded Gaussian g a key of one record surfaces where g >= threshold - 3/2, but
    for the tie, of probability 0: so delta has Phi(-(threshold - 3/2) / sigma)."""
    return _rounded_key(True)


def rounded_noise_surfaces_as_if_not_rounded() -> Term:
    """Twin: where g >= threshold - 1, which would make delta too small."""
    return _rounded_key(False)


def _tie(parity: bool) -> Term:
    threshold = z3.Int("threshold")
    g = z3.Real("g")
    edge = threshold - z3.Q(3, 2)
    tie = z3.And(g == edge, (threshold - 1) % 2 == 0) if parity else g == edge
    return z3.Implies(threshold >= 2, (1 + rint(g) >= threshold) == z3.Or(g > edge, tie))


def a_tie_surfaces_at_odd_thresholds() -> Term:
    """With ties to even the tie itself, g = threshold - 3/2, surfaces where threshold is odd."""
    return _tie(True)


def a_tie_always_surfaces() -> Term:
    """Twin: it always does, as with ties upward."""
    return _tie(False)


def _keys(steps: int) -> Term:
    k = z3.Int("k")
    old, new = ([z3.Int(f"{name}{i}") for i in range(6)] for name in "ab")
    held = [is_below(entry, 2) for entry in (*old, *new)]
    few = [z3.Sum(old) <= k, z3.Sum(new) <= k]
    changed = [one(a != b) for a, b in zip(old, new, strict=True)]
    moved = [size(a - b) for a, b in zip(old, new, strict=True)]
    squares = [c == m for c, m in zip(changed, moved, strict=True)]
    return z3.Implies(z3.And(*held, *few), z3.And(z3.Sum(moved) <= steps * k, *squares))


def a_replaced_record_moves_its_keys_and_the_others() -> Term:
    """A record adds one to each of k keys at most, so a replaced one moves the counts by 2 k, in L1
    and (each by one) in squared L2 alike (six keys here)."""
    return _keys(2)


def a_replaced_record_moves_its_keys() -> Term:
    """Twin: by k, as an added one does."""
    return _keys(1)


def _gate(off_by: int) -> Term:
    n, z, least = z3.Ints("n z least")
    return z3.Not(n + z >= least) == (z <= -(n - least + off_by))


def a_gate_stops_where_noise_falls_short() -> Term:
    """Law.passes lets n + z >= least go on, so minimum_n asks for P(z <= -(n - least + 1))."""
    return _gate(1)


def a_gate_stops_where_noise_falls_back() -> Term:
    """Twin: P(z <= -(n - least)), which counts the released value ``least`` as stopped."""
    return _gate(0)


def _short(off_by: int) -> Term:
    z, distance = z3.Ints("z distance")
    k = larger(distance, off_by - distance)
    falls = z <= -distance
    near = z3.Implies(distance >= 1, falls == (-z >= k))
    far = z3.Implies(distance < 1, falls == z3.Not(z >= k))
    return z3.And(k >= 1, near, far)


def one_tail_gives_both_cases_of_falling_short() -> Term:
    """k = max(d, 1 - d) >= 1: P(z <= -d) is the tail from k on where d >= 1, else 1 less it."""
    return _short(1)


def one_tail_from_the_same_distance() -> Term:
    """Twin: k = max(d, -d)."""
    return _short(0)


def _missed(moves: bool) -> Term:
    q, other, m, shift, slack, z = z3.Ints("q other m shift slack z")
    smaller, bigger = z3.If(q < other, q, other), z3.If(q < other, other, q)
    released, away, far = q - shift + z, shift - slack + 1, m if moves else 0
    above = z3.And(
        z3.Implies(released > smaller - slack, z >= away - far),
        z3.Implies(released > bigger - slack, z >= away),
    )
    away = slack - shift + 1
    below = z3.And(
        z3.Implies(released < bigger - slack, -z >= away - far),
        z3.Implies(released < smaller - slack, -z >= away),
    )
    return z3.Implies(size(q - other) <= m, z3.And(above, below))


def a_number_that_misses_a_bound_has_noise_beyond_a_distance() -> Term:
    """q - shift + z above (below) the smaller or larger of both values, less slack: z is as
    large as ``released_event`` says, where neighbors' values differ by at most m."""
    return _missed(True)


def a_number_that_misses_a_bound_though_nothing_moves() -> Term:
    """Twin: without the move between neighbors."""
    return _missed(False)


def _joint(replaced_as_added: bool) -> Term:
    y, y2, radius, weight = z3.Ints("y y2 radius weight")
    m, m2 = z3.Ints("m m2")
    known = [is_below(mask, 2) for mask in (m, m2)]
    known += [size(y) <= radius, size(y2) <= radius, weight >= 1]
    old, new = ((z3.If(i == 1, v, 0), weight * i) for i, v in ((m, y), (m2, y2)))
    replaced = size(old[0] - new[0]) + size(old[1] - new[1])
    added = z3.And(size(old[0]) <= radius, m <= 1, size(old[0]) + old[1] <= radius + weight)
    most = radius + weight if replaced_as_added else larger(2 * radius, radius + weight)
    return z3.Implies(z3.And(*known), z3.And(added, replaced <= most))


def a_masked_sum_and_its_weighted_count_move_together() -> Term:
    """(sum m_i y_i, k sum m_i) with m_i in {0, 1}: an added record moves them by radius and k, a
    replaced one by max(2 radius, radius + k) in all, for both cannot reach their most at once. The
    mean, whose mask is all ones, needs the first alone."""
    return _joint(False)


def a_replaced_masked_record_moves_as_an_added_one() -> Term:
    """Twin: under replace as well by radius + k."""
    return _joint(True)


_GAUSSIAN = f"{_HISTOGRAMS}:gaussian_stability_histogram"
LEMMAS = (
    Lemma(
        "threshold",
        f"{_HISTOGRAMS}:stability_histogram",
        a_key_of_one_record_surfaces_from_threshold_less_one,
        a_key_of_one_record_surfaces_beyond_threshold_less_one,
    ),
    Lemma(
        "threshold of rounded noise",
        _GAUSSIAN,
        rounded_noise_surfaces_from_half_a_step_earlier,
        rounded_noise_surfaces_as_if_not_rounded,
    ),
    Lemma("tie at a threshold", _GAUSSIAN, a_tie_surfaces_at_odd_thresholds, a_tie_always_surfaces),
    Lemma(
        "keys of a record",
        f"{_HISTOGRAMS}:_change",
        a_replaced_record_moves_its_keys_and_the_others,
        a_replaced_record_moves_its_keys,
    ),
    Lemma(
        "gate",
        "dpverify/plans/mechanism.py:Mechanism._gate_minimum",
        a_gate_stops_where_noise_falls_short,
        a_gate_stops_where_noise_falls_back,
    ),
    Lemma(
        "falling short",
        "dpverify/privacy/tails.py:Tail.at_least",
        one_tail_gives_both_cases_of_falling_short,
        one_tail_from_the_same_distance,
    ),
    Lemma(
        "missed bound",
        "dpverify/privacy/rules/events.py:released_event",
        a_number_that_misses_a_bound_has_noise_beyond_a_distance,
        a_number_that_misses_a_bound_though_nothing_moves,
    ),
    Lemma(
        "masked sum and weighted count",
        "dpverify/mechanisms/bounded_mean.py:BoundedMean.plan",
        a_masked_sum_and_its_weighted_count_move_together,
        a_replaced_masked_record_moves_as_an_added_one,
    ),
)
