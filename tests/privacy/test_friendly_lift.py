"""The friendly lift: a filter, then a mechanism that is private for friendly neighbors only.

The filter's stability on every small graph, the exact bound and its tightness over all mechanisms
by linear programming (see friendly.py), and the library's rule against all of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpverify import privacy as dp
from dpverify.audit import NeighboringPair, audit
from dpverify.privacy import Adjacency, rules
from dpverify.privacy.adjacency import Friendly, Groups
from spec.theory import rules as spec_rules
from spec.theory.laws import real

from . import friendly as fr
from .makers import COLUMN, conjectured, fractions, guarantee_of, lemma, numbers_of

_DIGITS = 60
_ZERO = Fraction(0)
_NEAR: Any = Friendly("distance at most 1")
_STEPS = {Adjacency.ADD_REMOVE: Fraction(2), Adjacency.REPLACE: Fraction(3)}
_FACTORS = [Fraction(3, 2), Fraction("2.7182818")]
_DELTAS = [_ZERO, Fraction("1e-4"), Fraction("1e-3")]
_CHANCES = [Fraction("1e-3"), Fraction("1e-2")]


# --- the filter ---------------------------------------------------------------------------------

Bound = Callable[[Adjacency, int], Fraction]


def _stability(adjacency: Adjacency, n: int) -> Fraction:
    """Return by how much the keep-probabilities of n records (the larger side) move in all."""
    if adjacency is Adjacency.ADD_REMOVE:
        return 2 - Fraction(1, n)
    return max(Fraction(2), 3 - Fraction(2, n))


def _is_stable(bound: Bound) -> bool:
    return all(fr.distance(moves) <= bound(adjacency, n) for adjacency, n, moves in fr.every())


def test_the_keep_probabilities_move_by_less_than_the_premises_say() -> None:
    assert _is_stable(_stability)
    assert _is_stable(lambda adjacency, n: _STEPS[adjacency])
    for adjacency, sizes in ((Adjacency.ADD_REMOVE, (1, 3)), (Adjacency.REPLACE, (1, 2, 3, 4))):
        for n in sizes:
            reached = max(map(fr.distance, fr.all_moves(adjacency, n)))
            assert reached == _stability(adjacency, n)


@pytest.mark.parametrize(
    "twin",
    [
        lambda adjacency, n: Fraction(1),
        lambda adjacency, n: Fraction(3, 2),
        lambda adjacency, n: Fraction(2),
        lambda adjacency, n: _stability(adjacency, n) - Fraction(1, n),
    ],
    ids=["one", "three halves", "two", "smaller"],
)
def test_false_twins_of_the_filter_s_stability_are_caught(twin: Bound) -> None:
    assert not _is_stable(twin)


def test_records_that_one_dataset_may_keep_have_a_common_friend_in_it() -> None:
    for n in range(1, 5):
        for edges in fr.graphs(n):
            kept = [i for i, chance in fr.keep(edges, range(n)).items() if chance]
            assert all(fr.common_friend(edges, i, j, range(n)) for i in kept for j in kept)


def test_friends_are_looked_for_among_all_records_not_among_the_kept_ones() -> None:
    # A cycle of five: every record may be kept alone, and all common friends may be dropped.
    cycle = [frozenset((i, (i + 1) % 5)) for i in range(5)]
    assert set(fr.keep(cycle, range(5)).values()) == {Fraction(1, 5)}
    assert fr.common_friend(cycle, 0, 2, range(5))
    assert not fr.common_friend(cycle, 0, 2, (0, 2))
    # Without the last record, 0 is never kept: a mechanism that promises nothing for {0, 2} tells.
    assert fr.keep(cycle, range(4))[0] == 0


def test_records_that_different_datasets_keep_need_not_be_friends_of_a_friend() -> None:
    # So keep-probabilities are first lowered, then raised, on the way from one to the other.
    edges = [frozenset((0, 2)), frozenset((1, 3))]
    left, right = fr.keep(edges, (0, 1, 2)), fr.keep(edges, (0, 1, 3))
    assert left[0] > 0 == right[0]
    assert right[1] > 0 == left[1]
    assert not fr.common_friend(edges, 0, 1, range(4))


# --- the bound, before R is rounded up to e^(a T) -----------------------------------------------

Most = Callable[[fr.Moves, Fraction, Fraction, Fraction], Fraction]


def _bound_holds(most: Most) -> bool:
    return all(left <= most(moves, e, d, right) for moves, e, d, left, right in fr.tried())


_FALSE_BOUNDS: dict[str, Most] = {
    "of one side": lambda m, e, d, x: fr.bound(tuple(p for p in m if p[0] > p[1]), e, d, x),
    "d as it was": lambda m, e, d, x: fr.bound(m, e, _ZERO, x) + d,
    "d not divided by a": lambda m, e, d, x: fr.bound(m, e, d * (e - 1), x),
}


def test_every_test_of_friendly_mechanisms_keeps_the_exact_bound() -> None:
    assert _bound_holds(fr.bound)


@pytest.mark.parametrize("twin", _FALSE_BOUNDS.values(), ids=_FALSE_BOUNDS)
def test_false_twins_of_the_exact_bound_are_caught(twin: Most) -> None:
    assert not _bound_holds(twin)


def test_no_friendly_mechanism_does_worse_and_some_does_as_badly() -> None:
    cases = [(m, e, d, x) for m in fr.small() for e in _FACTORS for d in _DELTAS for x in _CHANCES]
    numbers = [(moves, float(factor), float(d), float(x)) for moves, factor, d, x in cases]
    most = fr.most_likely(numbers, mixed=False)
    tight = 0
    for (moves, factor, d, x), best in zip(cases, most, strict=True):
        bound = float(fr.bound(moves, factor, d, x))
        worst = fr.worst_test(moves, factor, d, x)
        assert best <= bound + 1e-7
        assert worst is None or best >= bound - 1e-7
        assert worst is None or fr.average(worst, moves, 0) == fr.bound(moves, factor, d, x)
        assert worst is not None or (d, x) == (_DELTAS[-1], _CHANCES[0])
        tight += worst is not None
    assert tight > 0.9 * len(cases)


# --- the rule -----------------------------------------------------------------------------------

Lift = Callable[[Fraction, Fraction, Adjacency], tuple[Any, Any]]


def _stable(adjacency: Any = Adjacency.ADD_REMOVE) -> dp.Derivation[dp.Sensitivity]:
    steps = _STEPS.get(adjacency, Fraction(2))
    return lemma(steps, query="the filter", norm=dp.Norm.KEEP, adjacency=adjacency)


def _friendly(guarantee: dp.Guarantee, domain: Any = COLUMN, about: Any = _NEAR) -> Any:
    return rules.conjecture(guarantee, adjacency=about, domain=domain)


def _lift_rule(epsilon: Fraction, delta: Fraction, adjacency: Adjacency) -> tuple[Any, Any]:
    inner = _friendly(guarantee_of(epsilon, delta))
    lifted = rules.friendly_lift(inner, _stable(adjacency)).conclusion
    assert lifted.adjacency is adjacency
    above, most = numbers_of(lifted.guarantee)
    return real(above), real(most)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    fractions("1/1000", "3/2"),
    st.just(_ZERO) | fractions("1/100000000", "1/1000000"),
    st.sampled_from(Adjacency),
)
def test_the_lift_s_numbers_are_the_spec_s_rounded_up(
    epsilon: Fraction, delta: Fraction, adjacency: Adjacency
) -> None:
    with mp.workdps(_DIGITS):
        expected = spec_rules.friendly_lift(epsilon, delta, _STEPS[adjacency])
        numbers = _lift_rule(epsilon, delta, adjacency)
        for above, true in zip(numbers, expected, strict=True):
            assert true <= above <= true * (1 + mp.mpf(10) ** -12)


def _lift_holds(lift: Lift, most: int = 2000) -> bool:
    with mp.workdps(_DIGITS):
        claimed = {m[:3]: lift(m.epsilon, m.d, m.adjacency) for m in fr.mechanisms(most)}
        bounds = {key: (mp.exp(epsilon), delta) for key, (epsilon, delta) in claimed.items()}
        cases = ((m.left, m.right, *bounds[m[:3]]) for m in fr.mechanisms(most))
        return all(left <= factor * right + delta for left, right, factor, delta in cases)


def _with(moved: Callable[[Adjacency], Fraction]) -> Lift:
    return lambda e, d, adjacency: spec_rules.friendly_lift(e, d, moved(adjacency))


def _changed(change: Callable[[Any, Any, Any, Any], tuple[Any, Any]]) -> Lift:
    """Build a changed formula of e, d, a and T."""
    return lambda e, d, about: change(real(e), real(d), mp.expm1(real(e)), real(_STEPS[about]))


_TWINS: dict[str, Lift] = {
    "T = 1": _with(lambda adjacency: Fraction(1)),
    "T = 2 under replace": _with(lambda adjacency: Fraction(2)),
    "T a little smaller": _with(lambda adjacency: _STEPS[adjacency] * Fraction(99, 100)),
    "epsilon as it was": _changed(lambda e, d, a, t: (e, d * mp.expm1(a * t) / a)),
    "epsilon T": _changed(lambda e, d, a, t: (e * t, d * mp.expm1(a * t) / a)),
    "delta as it was": _changed(lambda e, d, a, t: (a * t, d)),
    "delta T": _changed(lambda e, d, a, t: (a * t, d * t)),
    "delta not divided by a": _changed(lambda e, d, a, t: (a * t, d * mp.expm1(a * t))),
    "delta as a group's": _changed(lambda e, d, a, t: (a * t, d * mp.expm1(e * t) / a)),
}


def test_the_lift_covers_real_mechanisms() -> None:
    assert _lift_holds(_lift_rule)
    with mp.workdps(_DIGITS):
        assert all(
            fr.growth([(real(p), real(q)) for p, q in moves], a) <= mp.exp(a * real(_STEPS[about]))
            for about, _, moves in fr.every()
            for a in (mp.mpf("0.01"), mp.mpf(1), mp.mpf(20))
        )


@pytest.mark.parametrize("twin", _TWINS.values(), ids=_TWINS)
def test_false_twins_of_the_lift_are_caught(twin: Lift) -> None:
    assert not _lift_holds(twin)


def test_replacing_needs_three_from_three_records_on() -> None:
    assert _lift_holds(_TWINS["T = 2 under replace"], most=2)
    assert not _lift_holds(_TWINS["T = 2 under replace"], most=3)


def test_the_lift_is_tight_in_the_limit_but_for_the_replaced_record_itself() -> None:
    # A clique meets a record without friends: R goes to e^(2 a); where the record replaces one of
    # the clique, to (1 + a) e^(2 a), for one whole change costs 1 + a and not e^a.
    with mp.workdps(_DIGITS):
        for ahead in (0, 1):
            grown = mp.e**ahead * mp.exp(2 * (mp.e - 1))
            for d, x in ((mp.mpf(0), mp.mpf(10) ** -9), (mp.mpf(10) ** -9, mp.mpf(0))):
                limit = grown * x + d * (grown - 1) / (mp.e - 1)
                assert 0.99 * limit < fr.chain(2000, mp.e, d, x, ahead=ahead) < limit


# --- side conditions ----------------------------------------------------------------------------

_PURE = _friendly(dp.PureDP(1))


@pytest.mark.parametrize(
    ("inner", "stability", "message"),
    [
        (conjectured(), _stable(), "this one is under add-remove (pure(1) under add-remove"),
        (
            _PURE,
            lemma(2),
            "needs a sensitivity in keep-probability distance, but neighbors' values",
        ),
        (_PURE, _stable(_NEAR), "stability is under friendly add-remove (distance at most 1)"),
        (_PURE, _stable(Groups(Adjacency.REPLACE, 2)), "stability is under groups of 2, replace"),
        (
            _friendly(dp.PureDP(1), dp.Domain(columns=2)),
            _stable(),
            "of 2 columns, the filter's lemma",
        ),
        (_friendly(dp.ApproxDP(2, "1e-3")), _stable(), "approx(2, 0.001) would grow to 1"),
        (_friendly(dp.ApproxDP(12, "1e-3")), _stable(), "this promises nothing"),
        (
            _friendly(dp.PureDP(1), about=Friendly("kin")),
            _stable(),
            "prove both for the same neighbors",
        ),
        (
            _friendly(dp.PureDP(1), about=Friendly("distance at most 1", strangers=3)),
            _stable(),
            "prove both for the same neighbors",
        ),
    ],
)
def test_what_the_lift_is_not_about_is_refused(inner: Any, stability: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        rules.friendly_lift(inner, stability)


def test_a_large_epsilon_without_delta_is_lifted_all_the_same() -> None:
    lifted = rules.friendly_lift(_friendly(dp.PureDP(60)), _stable()).conclusion
    assert numbers_of(lifted.guarantee)[1] == 0


def test_what_no_neighbor_can_change_stays_perfect() -> None:
    still = lemma(0, query="the filter", norm=dp.Norm.KEEP)
    for inner, stability in ((_friendly(dp.PerfectPrivacy()), _stable()), (_PURE, still)):
        lifted = rules.friendly_lift(inner, stability)
        assert lifted.conclusion.guarantee == dp.PerfectPrivacy()


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_conclusion_is_about_the_filter_s_inputs_and_as_weak_as_its_premises(
    adjacency: Adjacency,
) -> None:
    proved = rules.discrete_laplace(lemma(1, adjacency=_NEAR), 1)
    for inner, status in (
        (proved, dp.Status.PROVED),
        (_PURE, dp.Status.CONJECTURED),
        (rules.refuted(proved, "a pair"), dp.Status.REFUTED),
    ):
        lifted = rules.friendly_lift(inner, _stable(adjacency))
        assert lifted.conclusion.adjacency is adjacency
        assert lifted.status is lifted.conclusion.status is status
        assert [premise.rule for premise in lifted.premises] == [inner.rule, "lemma"]


def test_a_friendly_claim_is_neither_audited_nor_composed_with_others() -> None:
    pair = NeighboringPair(name="one", left=[1], right=[], adjacency=Adjacency.ADD_REMOVE)
    with pytest.raises(ValueError, match=re.escape(f"The claim is under {_NEAR}; audit one under")):
        audit(len, pairs=[pair], claim=_PURE)
    with pytest.raises(ValueError, match=r"friendly add-remove .*under add-remove"):
        rules.compose(_PURE, conjectured())
