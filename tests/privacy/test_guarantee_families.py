"""All kinds of guarantees: what follows from what, groups, calibration, spelling and refusals."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpverify.privacy import (
    ApproxDP,
    ApproximateGaussianDP,
    BoundedRange,
    DiscreteLaplaceShift,
    GaussianDP,
    Group,
    Guarantee,
    PerfectPrivacy,
    Profile,
    PureDP,
    ZeroConcentratedDP,
    calibrate,
    parse_guarantee,
    point_of,
)
from dpverify.privacy.balls import Enclosure
from spec.theory.laws import real
from spec.theory.rules import hockey_stick

from .finite import random_pair

_HAIR = 1 + Fraction(1, 10**9)
_KINDS: list[Guarantee] = [PerfectPrivacy()]
for size in ("0.05", "0.3", "1", "2"):
    _KINDS += [PureDP(size), BoundedRange(size), GaussianDP(size), ZeroConcentratedDP(size)]
    _KINDS += [ApproxDP(size, 0), ApproxDP(size, "1e-4"), ApproximateGaussianDP(size)]
    _KINDS += [ApproximateGaussianDP(size, "1e-4"), ApproximateGaussianDP(size, 0, "1e-4")]
    _KINDS += [DiscreteLaplaceShift(1, 1 / Fraction(size)), DiscreteLaplaceShift(3, size)]
    _KINDS += [Group(GaussianDP(size), 2), Group(ApproximateGaussianDP(size, "1e-5"), 2)]
_KINDS += [Profile([(PureDP("0.3"), 3)]), Profile([PureDP("0.3"), GaussianDP("0.3")])]
_KINDS += [Profile([PureDP(1), PureDP("0.5")], "1e-4"), Profile([BoundedRange(1)])]
Implies = Callable[[Guarantee, Guarantee], bool]


@cache
def _profile(guarantee: Guarantee) -> list[Enclosure]:
    return [guarantee.delta_at(e) for e in ("0", "0.02", "0.2", "0.7", "1.5", "3", "6")]


@cache
def _curve(guarantee: Guarantee) -> list[Enclosure]:
    return [guarantee.tradeoff_at(a) for a in ("1e-9", "0.01", "0.1", "0.3", "0.6", "0.95")]


def _is_never_wrongly_yes(implies: Implies) -> bool:
    """Check that an implied guarantee has a profile that is nowhere smaller and a curve that is
    nowhere larger."""
    return all(
        all(x.lower <= y.upper for x, y in zip(_profile(a), _profile(b), strict=True))
        and all(x.upper >= y.lower for x, y in zip(_curve(a), _curve(b), strict=True))
        for a, b in itertools.product(_KINDS, repeat=2)
        if implies(a, b)
    )


_TWINS: list[Implies] = [
    lambda a, b: (a.concentrated or 9) <= (b.concentrated or 0),
    lambda a, b: bool(a.gaussian and b.gaussian and a.gaussian.mu_squared <= b.gaussian.mu_squared),
    lambda a, b: _profile(a)[3].upper <= _profile(b)[3].upper,
]


@pytest.mark.parametrize("twin", _TWINS, ids=["concentrated", "mu", "one epsilon"])
def test_no_guarantee_follows_from_a_weaker_one_and_false_orders_are_caught(twin: Implies) -> None:
    assert _is_never_wrongly_yes(Guarantee.implies)
    assert not _is_never_wrongly_yes(twin)


def _renyi(p: list[Any], q: list[Any], a: Any) -> Any:
    return mp.log(mp.fsum(x**a * y ** (1 - a) for x, y in zip(p, q, strict=True))) / (a - 1)


def _two_losses(high: Any, low: Any) -> tuple[list[Any], list[Any]]:
    """Return the pair of two outcomes with these privacy losses."""
    p = (1 - mp.exp(-low)) / (mp.exp(-high) - mp.exp(-low))
    return [p, 1 - p], [p * mp.exp(-high), (1 - p) * mp.exp(-low)]


@pytest.mark.parametrize("length", ["0.01", "0.5", "3", "9"])
def test_renyi_divergences_stay_below_rho(length: str) -> None:
    e = real(Fraction(length))
    for share, order in itertools.product((0.05, 0.3, 0.5, 0.8), (1.0001, 1.5, 3, 20, 300)):
        p, q = _two_losses(e * share, -e * (1 - share))
        assert _renyi(p, q, order) <= order * real(BoundedRange(length).concentrated)
        p, q = _two_losses(e, -e)
        assert _renyi(p, q, order) <= order * real(PureDP(length).concentrated)
    p, q = _two_losses(mp.mpf("5e-4"), mp.mpf("-5e-4"))
    assert _renyi(p, q, 1.01) > 1.01 * real(BoundedRange("0.000999").concentrated), "tight"


@pytest.mark.parametrize("epsilon", ["1e-6", "0.1", "1", "5", "40"])
def test_pure_dp_is_gaussian_exactly_from_the_corner_of_its_curve_on(epsilon: str) -> None:
    with mp.workdps(80):
        corner = 1 / (1 + mp.exp(real(Fraction(epsilon))))
        mu = -2 * mp.sqrt(2) * mp.erfinv(2 * corner - 1)
        edge = Fraction(int(mu * 2**180), 2**180)
    for claim in (PureDP(epsilon), ApproxDP(epsilon, 0), BoundedRange(2 * Fraction(epsilon))):
        assert claim.implies(GaussianDP(edge * _HAIR))
        assert not claim.implies(GaussianDP(edge / _HAIR))
        assert claim.implies(ApproximateGaussianDP(edge * _HAIR, "1e-9"))
    assert ApproxDP(epsilon, "1e-9").implies(ApproximateGaussianDP(edge * _HAIR, "1e-9"))
    assert not ApproxDP(epsilon, "1e-9").implies(ApproximateGaussianDP(edge * _HAIR, "0.9e-9"))


@pytest.mark.parametrize("guarantee", _KINDS, ids=str)
def test_every_guarantee_implies_itself_and_its_own_points(guarantee: Guarantee) -> None:
    assert guarantee.implies(guarantee)
    assert PerfectPrivacy().implies(guarantee)
    epsilon, delta = point_of(guarantee)
    if epsilon:
        assert guarantee.implies(ApproxDP(epsilon * _HAIR, delta))


_YES: list[tuple[Guarantee, Guarantee]] = [
    (PureDP("0.7"), ZeroConcentratedDP("0.245")),
    (BoundedRange("0.8"), ZeroConcentratedDP("0.08")),
    (BoundedRange("0.8"), PureDP("0.8")),
    (PureDP("0.4"), BoundedRange("0.8")),
    (GaussianDP("0.6"), ZeroConcentratedDP("0.18")),
    (GaussianDP("0.6"), ApproximateGaussianDP("0.6")),
    (ApproximateGaussianDP("0.6"), GaussianDP("0.6")),
    (DiscreteLaplaceShift(3, 2), PureDP("1.5")),
    (DiscreteLaplaceShift(3, 2), DiscreteLaplaceShift(4, 2)),
    (Profile([(PureDP("0.1"), 7)]), PureDP("0.7")),
    (Profile([(PureDP("0.1"), 7)]), ZeroConcentratedDP("0.035")),
    (Profile([GaussianDP(3), GaussianDP(4)]), GaussianDP(5)),
    (Profile([PureDP("0.1"), PureDP("0.2")]), Profile([PureDP("0.2"), PureDP("0.3")])),
    (Profile([PureDP("0.1")], "1e-9"), Profile([PureDP("0.2"), GaussianDP(1)], "1e-8")),
    (PureDP("0.1"), Profile([GaussianDP(1)])),
    (GaussianDP(1), Group(GaussianDP(1), 2)),
    (Group(GaussianDP(1), 2), Group(GaussianDP(2), 3)),
    (Group(PureDP(1), 2), PureDP(2)),
]
_NO: list[tuple[Guarantee, Guarantee]] = [
    (ZeroConcentratedDP("0.5"), GaussianDP(100)),
    (ApproxDP(1, "1e-9"), ZeroConcentratedDP(10**6)),
    (ApproxDP(1, "1e-9"), PureDP(10**6)),
    (GaussianDP("0.01"), PureDP(10**6)),
    (PureDP("0.5"), BoundedRange("0.999")),
    (PureDP("0.7"), ZeroConcentratedDP("0.2449999")),
    (DiscreteLaplaceShift(3, 2), DiscreteLaplaceShift(3, 1)),
    (Profile([PureDP("0.2"), PureDP("0.2")]), Profile([PureDP("0.3")])),
    (Profile([PureDP("0.2")], "1e-8"), Profile([PureDP("0.2")], "1e-9")),
    (Group(GaussianDP(1), 3), Group(GaussianDP(1), 2)),
    (Group(GaussianDP(1), 2), GaussianDP(1)),
    (PureDP(1), PerfectPrivacy()),
]


@pytest.mark.parametrize(("a", "b"), _YES + _NO)
def test_useful_consequences_are_seen_and_no_others(a: Guarantee, b: Guarantee) -> None:
    assert a.implies(b) == ((a, b) in _YES)


def _groups_of_two(laws: list[Any], loss: Fraction) -> list[Guarantee]:
    """Return the guarantees of the ends that follow from those of both steps.

    ``loss`` is the largest loss of the steps.
    """
    steps = [(laws[0], laws[1]), (laws[1], laws[0]), (laws[1], laws[2]), (laws[2], laws[1])]
    delta = max(hockey_stick(p, q, mp.exp(real(loss * 9 / 10))) for p, q in steps)
    share = Fraction(int(delta * 2**50) + 1, 2**50)
    square = PureDP(loss).gaussian.mu_squared
    one: list[Guarantee] = [PureDP(loss), BoundedRange(2 * loss), ZeroConcentratedDP(loss**2 / 2)]
    one += [GaussianDP.of_square(square), ApproximateGaussianDP.of_square(square)]
    one += [ApproxDP(loss * 9 / 10, share), Profile([PureDP(loss * 9 / 10)], share)]
    return [Group(GaussianDP.of_square(square), 2), *(g.for_group(2) for g in one)]


def test_group_privacy_holds_for_three_explicit_datasets() -> None:
    rng, tight = random.Random(7), 0
    for _ in range(120):
        (a, b), (c, _) = random_pair(rng), random_pair(rng)
        if set(a) != set(c):
            continue
        largest = max(abs(mp.log(real(x[o] / y[o]))) for x, y in ((a, b), (b, c)) for o in a)
        loss = Fraction(int(largest * 1000) + 1, 1000)
        for e in ("0", "0.1", "0.5", "1", "2"):
            factor = mp.exp(real(Fraction(e)))
            reached = max(hockey_stick(a, c, factor), hockey_stick(c, a, factor))
            deltas = [real(g.delta_at(e).upper) for g in _groups_of_two([a, b, c], loss)]
            assert reached <= min(deltas), (a, b, c)
            tight += bool(reached > min(deltas) / 2)
    assert tight > 10, "else the chains are too easy"


def test_calibration_without_a_solution_prints_both_sides() -> None:
    budget = ApproxDP(1, "1e-6")
    with pytest.raises(ValueError, match="No parameter solves this: ") as refusal:
        calibrate(lambda mu: ApproximateGaussianDP(mu, "1e-3"), budget)
    assert "agaussian(1, 0.001, 0) does not imply approx(1, 1e-6)" in str(refusal.value)
    with pytest.raises(ValueError, match=r"pure\(0.5\) implies approx\(1, 1e-6\)"):
        calibrate(lambda _: PureDP("0.5"), budget)
    with pytest.raises(ValueError, match=r"zcdp\(1\) does not imply gaussian\(1\)"):
        calibrate(ZeroConcentratedDP, GaussianDP(1))


def test_calibration_between_kinds_is_exact_where_it_can_be() -> None:
    assert calibrate(PureDP, ZeroConcentratedDP("0.02")) == PureDP("0.2")
    assert calibrate(BoundedRange, ZeroConcentratedDP("0.02")) == BoundedRange("0.4")
    assert calibrate(GaussianDP, ZeroConcentratedDP("0.02")) == GaussianDP("0.2")
    four = calibrate(lambda e: Profile([(PureDP(e), 4)]), PureDP(1))
    assert four == Profile([(PureDP("1/4"), 4)])


_POSITIVE = st.one_of(
    st.fractions(min_value="1/100000", max_value=10**6, max_denominator=10**6),
    st.floats(min_value=1e-300, max_value=1e300).map(Fraction),
)
_SHARES = st.one_of(st.just(Fraction(0)), st.floats(min_value=1e-320, max_value=0.04).map(Fraction))
_SIMPLE = st.one_of(
    st.builds(PureDP, _POSITIVE),
    st.builds(ApproxDP, _POSITIVE, _SHARES),
    st.builds(ZeroConcentratedDP, _POSITIVE),
    st.builds(GaussianDP, _POSITIVE),
    st.builds(GaussianDP.of_square, _POSITIVE),
    st.builds(ApproximateGaussianDP.of_square, _POSITIVE, _SHARES, _SHARES),
    st.builds(BoundedRange, _POSITIVE),
    st.builds(DiscreteLaplaceShift, st.integers(1, 10**6), _POSITIVE),
    st.just(PerfectPrivacy()),
)
_PARTS = st.lists(st.tuples(_SIMPLE, st.integers(1, 3)), min_size=0, max_size=4)
_PROFILES = st.builds(Profile, _PARTS, _SHARES, _SHARES)
_GROUPS = st.builds(Group, st.one_of(_SIMPLE, _PROFILES), st.integers(2, 10**6))


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.one_of(_SIMPLE, _PROFILES, _GROUPS))
def test_what_is_printed_is_read_back(guarantee: Guarantee) -> None:
    assert parse_guarantee(str(guarantee)) == guarantee
    assert parse_guarantee(f"  {str(guarantee).replace(', ', ' ,  ')} ") == guarantee


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gaussian(sqrt(-2))", "mu_squared = -2 is not positive"),
        ("zcdp(nan)", "rho = 'nan' is not a finite number"),
        ("agaussian(1, 0, 1)", "tv = 1 is outside [0, 1)"),
        ("agaussian(1, 1e-6)", "is not a guarantee; write 'pure(1)'"),
        ("laplace-shift(0, 1)", "shift = 0; a query that moves at all moves by at least 1."),
        ("group(1, gaussian(1))", "size = 1; a single record has the guarantee itself."),
        ("group(2, group(2, pure(1)))", "A group of groups is one group"),
        ("group(2, gauss(1))", "'gauss(1)' is not a guarantee"),
        ("profile(0 * pure(1))", "size = 0; a group has at least 1 record."),
        ("profile(pure(1), group(2, pure(1)))", "has no composition rule"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_guarantee(text)


_MAKERS: list[Any] = [ZeroConcentratedDP, GaussianDP, GaussianDP.of_square, BoundedRange]
_MAKERS += [ApproximateGaussianDP, ApproximateGaussianDP.of_square]
_MAKERS += [lambda scale: DiscreteLaplaceShift(1, scale)]


@pytest.mark.parametrize("value", [0, -1, "-1e-300", float("nan"), float("inf"), True, None, "x"])
@pytest.mark.parametrize("make", _MAKERS)
def test_a_parameter_that_is_no_positive_number_is_refused(make: Any, value: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"not positive|finite|truth|NoneType"):
        make(value)


@pytest.mark.parametrize("share", [1, "1.5", -1, float("nan"), False, None])
def test_a_share_that_is_no_probability_below_one_is_refused(share: Any) -> None:
    for make in (ApproximateGaussianDP, lambda *two: Profile([PureDP(1)], *two[1:])):
        for two in ((1, share), (1, 0, share)):
            with pytest.raises((ValueError, TypeError), match=r"outside|finite|truth|NoneType"):
                make(*two)


@pytest.mark.parametrize("size", [0, -3, 1.0, 2.0, "2", True, None, Fraction(2)])
def test_a_number_of_records_is_a_positive_integer(size: Any) -> None:
    for guarantee in _KINDS[:14]:
        with pytest.raises((ValueError, TypeError), match="size = "):
            guarantee.for_group(size)
    with pytest.raises((ValueError, TypeError), match="size = "):
        Group(PureDP(1), size)
    with pytest.raises((ValueError, TypeError), match=r"(size|times) = "):
        Profile([(PureDP(1), size)])
    with pytest.raises((ValueError, TypeError), match=r"shift = |scale"):
        DiscreteLaplaceShift(size, 0)
