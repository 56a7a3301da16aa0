"""A filter that keeps records with many friends: majorities overlap, chances to stay move little.

Record i is kept with probability max(0, 2 deg_i - n) / n, deg_i the number of its friends among
the n records, itself included. ``friendly_lift`` has the filter's stability, 2 or 3, for a premise.
"""

from __future__ import annotations

from .lemmas import Lemma, Term, larger, one, size, z3

_LIFT = "dpverify/privacy/rules/filters.py:friendly_lift"


def _overlap(known: Term, deg: Term, deg2: Term, n: Term) -> Term:
    """Two sets of deg and deg2 records among n have one in common, if ``known``."""
    both, only, only2, neither = z3.Ints("both only only2 neither")
    counts = [part >= 0 for part in (both, only, only2, neither)] + [deg >= 1, deg2 >= 1]
    parts = [both + only == deg, both + only2 == deg2, both + only + only2 + neither == n]
    return z3.Implies(z3.And(*counts, *parts, known), both >= 1)


def two_majorities_share_a_record() -> Term:
    """Two records that may be kept, with 2 deg > n each, have a common friend among all records."""
    n, deg, deg2 = z3.Ints("n deg deg2")
    return _overlap(z3.And(2 * deg > n, 2 * deg2 > n), deg, deg2, n)


def two_halves_share_a_record() -> Term:
    """Twin: half of the records is enough."""
    n, deg, deg2 = z3.Ints("n deg deg2")
    return _overlap(z3.And(2 * deg >= n, 2 * deg2 >= n), deg, deg2, n)


def _six(kept_friend: bool) -> Term:
    friends = [[z3.Bool(f"friends_{min(i, j)}_{max(i, j)}") for j in range(6)] for i in range(6)]
    themselves = z3.And(*(friends[i][i] for i in range(6)))
    kept = [2 * z3.Sum([one(friend) for friend in row]) > 6 for row in friends]
    common = [z3.And(friends[0][k], friends[1][k]) for k in range(6)]
    clauses = [z3.And(c, k) for c, k in zip(common, kept, strict=True)] if kept_friend else common
    return z3.Implies(z3.And(themselves, kept[0], kept[1]), z3.Or(*clauses))


def two_kept_records_share_a_friend() -> Term:
    """The same with every symmetric predicate on six records: the common friend is one of the
    records that went into the filter."""
    return _six(False)


def two_kept_records_share_a_kept_friend() -> Term:
    """Twin: one of the records that can come out. ``Friendly`` must not ask for that."""
    return _six(True)


def records_kept_from_neighbors_share_a_friend() -> Term:
    """On the way from x to x less one record some are kept by n records, others by n - 1: with
    floor(n / 2) + 1 and ceil(n / 2) friends among the n they still share one."""
    n, deg, deg2, fewer = z3.Ints("n deg deg2 fewer")
    whole = z3.And((2 * deg > n) == (deg >= n / 2 + 1), (2 * fewer > n - 1) == (fewer >= -(-n / 2)))
    known = z3.And(n >= 1, 2 * deg > n, 2 * fewer > n - 1, fewer <= deg2)
    return z3.And(whole, _overlap(known, deg, deg2, n))


def records_kept_from_replaced_ones_share_a_friend() -> Term:
    """Twin: so on the way to a replaced record, of n + 1 records in all, for n that is odd too. All
    keep-probabilities must fall before any rises."""
    n, deg, deg2 = z3.Ints("n deg deg2")
    return _overlap(z3.And(n >= 1, 2 * deg > n, 2 * deg2 > n), deg, deg2, n + 1)


def _numerator(replaced: bool) -> Term:
    n, deg, deg2 = z3.Ints("n deg deg2")
    n2 = n if replaced else n - 1
    near = size(deg - deg2) <= 1 if replaced else z3.Or(deg2 == deg, deg2 == deg - 1)
    known = z3.And(near, deg >= 1, deg <= n, deg2 >= 1, deg2 <= n2)
    return z3.Implies(known, size((2 * deg - n) - (2 * deg2 - n2)) <= 1)


def a_removed_record_moves_a_numerator_by_one() -> Term:
    """2 deg - n moves by 1 when one record is removed, friend or not, since n moves too."""
    return _numerator(False)


def a_replaced_record_moves_a_numerator_by_one() -> Term:
    """Twin: by 1 under replace as well. It is 2, since n stays."""
    return _numerator(True)


def _chances(friends_share: int) -> Term:
    n, deg = z3.Ints("n deg")
    known = z3.And(n >= 2, deg >= 1, deg <= n)
    old = (n - 1) * larger(2 * deg - n, 0)  # all in units of 1 / (n (n - 1))
    stranger, friend = (n * larger(2 * d - (n - 1), 0) for d in (deg, deg - 1))
    far = z3.Implies(deg <= n - 1, z3.And(stranger - old >= 0, stranger - old <= 2 * (n - 1)))
    near = z3.And(old - friend >= 0, friends_share * (old - friend) <= 2 * (n - 1))
    return z3.Implies(known, z3.And(far, near))


def a_removed_record_moves_chances_by_two_or_one_nth() -> Term:
    """Removing a record raises a stranger's keep-probability by at most 2 / n and lowers a friend's
    by at most 1 / n."""
    return _chances(2)


def a_removed_record_moves_friends_by_half_an_nth() -> Term:
    """Twin: a friend's by at most 1 / (2 n)."""
    return _chances(4)


def _removed(constant: int) -> Term:
    n, deg = z3.Ints("n deg")
    others = 2 * (n - deg) + (deg - 1)  # strangers and friends, in units of 1 / n
    moved = larger(2 * deg - n, 0) + others
    return z3.Implies(z3.And(n >= 1, deg >= 1, deg <= n), moved <= constant * n)


def a_removed_record_moves_all_chances_by_two() -> Term:
    """The premise T = 2 of friendly_lift under add-remove: its own chance and all others'."""
    return _removed(2)


def a_removed_record_moves_all_chances_by_one() -> Term:
    """Twin: T = 1, the largest chance that the record itself can have."""
    return _removed(1)


def _replaced(constant: int) -> Term:
    n, deg, deg2, changed = z3.Ints("n deg deg2 changed")
    known = [n >= 1, *(z3.And(d >= 1, d <= n) for d in (deg, deg2))]
    known += [changed <= deg + deg2 - 2, changed <= 2 * n - deg - deg2, changed <= n - 1]
    own = larger(2 * deg - n, 0) + larger(2 * deg2 - n, 0)
    return z3.Implies(z3.And(*known), own + 2 * changed <= constant * n)


def a_replaced_record_moves_all_chances_by_three() -> Term:
    """The premise T = 3 of friendly_lift under replace: the old record's chance falls to 0, the new
    one's rises from 0, and 2 / n for each friend of just one of them."""
    return _replaced(3)


def a_replaced_record_moves_all_chances_by_two() -> Term:
    """Twin: T = 2, as under add-remove."""
    return _replaced(2)


LEMMAS = (
    Lemma("two majorities", _LIFT, two_majorities_share_a_record, two_halves_share_a_record),
    Lemma(
        "a common friend",
        _LIFT,
        two_kept_records_share_a_friend,
        two_kept_records_share_a_kept_friend,
    ),
    Lemma(
        "on the way to a neighbor",
        _LIFT,
        records_kept_from_neighbors_share_a_friend,
        records_kept_from_replaced_ones_share_a_friend,
    ),
    Lemma(
        "keep-numerators",
        _LIFT,
        a_removed_record_moves_a_numerator_by_one,
        a_replaced_record_moves_a_numerator_by_one,
    ),
    Lemma(
        "keep-probabilities",
        _LIFT,
        a_removed_record_moves_chances_by_two_or_one_nth,
        a_removed_record_moves_friends_by_half_an_nth,
    ),
    Lemma(
        "keeping, add-remove",
        _LIFT,
        a_removed_record_moves_all_chances_by_two,
        a_removed_record_moves_all_chances_by_one,
    ),
    Lemma(
        "keeping, replace",
        _LIFT,
        a_replaced_record_moves_all_chances_by_three,
        a_replaced_record_moves_all_chances_by_two,
    ),
)
