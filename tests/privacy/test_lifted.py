"""The rest of a whole profile behind a random filter: against the lift's formula, point by
point."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest

from dpverify.privacy import (
    ApproxDP,
    Derivation,
    GaussianDP,
    Guarantee,
    Norm,
    PerfectPrivacy,
    PrivacyClaim,
    PureDP,
    ZeroConcentratedDP,
    parse_guarantee,
    rules,
)
from dpverify.privacy.adjacency import Friendly
from dpverify.privacy.guarantees import ApproximateGaussianDP, Lifted, Profile
from spec.theory import rules as spec_rules
from spec.theory.laws import real

from .makers import COLUMN, lemma

TWO, THREE = Fraction(2), Fraction(3)
BASES: dict[str, Guarantee] = {
    "pure": PureDP("0.7"),
    "approx": ApproxDP("0.4", "1e-6"),
    "large": ApproxDP(1, "1e-6"),  # its values rise at first
    "gaussian": GaussianDP("0.2"),
    "wide gaussian": GaussianDP(2),
    "zcdp": ZeroConcentratedDP("0.01"),
    "agaussian": ApproximateGaussianDP("0.2", "1e-9", 0),
    "events": ApproximateGaussianDP("0.2", "1e-9", "1e-8"),
    "pure twice": Profile([PureDP("0.1"), PureDP("0.2")], delta=Fraction(1, 10**7)),
}
LIFTS = {name: Lifted(base, TWO if len(name) % 2 else THREE) for name, base in BASES.items()}
EPSILONS = tuple(
    map(Fraction, ("0", "1/1000", "1/10", "1/2", "1", "2", "4", "8", "16", "64", "1e9"))
)
SOME = pytest.mark.parametrize("lifted", LIFTS.values(), ids=LIFTS)


def by_the_formula(lifted: Lifted, inner: Fraction) -> tuple[Any, Any]:
    """(epsilon, delta) that the lift has at this epsilon of the base, at 60 digits."""
    with mp.workdps(60):
        delta = lifted.base.delta_at(inner).upper
        if not inner:
            return mp.mpf(0), real(delta * lifted.moved)
        return spec_rules.friendly_lift(inner, delta, lifted.moved)


@SOME
def test_the_profile_is_the_lift_of_the_base_s_own_one(lifted: Lifted) -> None:
    """Never below the least (epsilon, delta) that the theorem gives at any inner epsilon, and at
    most that of an inner epsilon a little smaller."""
    grid = [Fraction(k, 64) for k in range(257)]
    shown = [by_the_formula(lifted, inner) for inner in grid]
    for at in EPSILONS[:-2]:
        bound = real(lifted.delta_at(at).upper)
        feasible = [delta for epsilon, delta in shown if epsilon <= real(at)]
        assert bound <= min([*feasible, mp.mpf(1)]) * mp.mpf("1.000001")  # of a search
        # the true least value over all inner epsilons up to it lies within a cell of the grid
        last = len(feasible)
        ends = zip([Fraction(0), *grid], grid, strict=False)
        below = [
            real(lifted.base.delta_at(high).lower) * _growth(lifted, low)
            for low, high in list(ends)[: last + 1]
        ]
        assert bound >= min([*below, mp.mpf(1)]) * mp.mpf("0.9999999")


def _growth(lifted: Lifted, inner: Fraction) -> Any:
    with mp.workdps(60):
        return (
            spec_rules.friendly_lift(inner, Fraction(1), lifted.moved)[1] if inner else lifted.moved
        )


@pytest.mark.parametrize("moved", [TWO, THREE, Fraction(1, 2)])
def test_of_one_point_it_is_the_lift_of_that_point(moved: Fraction) -> None:
    """Compare at epsilon = moved (e^e - 1), rounded up: the delta of ``friendly_lift`` (numbers
    by the spec)."""
    base = ApproxDP("0.4", "1e-6")
    with mp.workdps(60):
        epsilon, delta = spec_rules.friendly_lift(base.epsilon, base.delta, moved)
        above = Fraction(int(mp.ceil(epsilon * 2**80)), 2**80)
        enclosure = Lifted(base, moved).delta_at(above)
        assert 0 <= real(enclosure.upper) / delta - 1 < mp.mpf(10) ** -12


@SOME
def test_the_profile_falls_and_stays_a_probability(lifted: Lifted) -> None:
    values = [lifted.delta_at(at) for at in EPSILONS]
    uppers = [value.upper for value in values]
    assert uppers == sorted(uppers, reverse=True)
    assert all(0 <= value.lower <= value.upper <= 1 for value in values)
    assert uppers[-1] == lifted.delta_floor or not lifted.delta_floor


@SOME
def test_at_most_is_never_wrongly_yes(lifted: Lifted) -> None:
    """It may say yes to what the formula gives at some inner epsilon, and to nothing less."""
    for at in EPSILONS:
        most = lifted.delta_at(at).upper
        assert lifted.at_most(at, most)
        assert most == 0 or not lifted.at_most(at, most * Fraction(999, 1000))


@SOME
def test_the_trade_off_curve_is_above_all_lines_of_the_profile(lifted: Lifted) -> None:
    for alpha in (Fraction(1, 10**6), Fraction(1, 100), Fraction(3, 10), Fraction(9, 10)):
        tradeoff = lifted.tradeoff_at(alpha)
        lines = [mp.mpf(0)]
        for at in EPSILONS[:-2]:
            delta, grown = real(lifted.delta_at(at).upper), mp.exp(real(at))
            lines += [1 - delta - grown * real(alpha), (1 - delta - real(alpha)) / grown]
        assert 0 <= tradeoff.lower <= tradeoff.upper <= 1 - alpha
        assert real(tradeoff.lower) >= max(lines) * mp.mpf("0.98") - mp.mpf("1e-9")
    assert lifted.tradeoff_at(0).lower == 1 - lifted.delta_floor
    assert lifted.tradeoff_at(1).upper == 0


@SOME
def test_what_is_printed_is_read_back(lifted: Lifted) -> None:
    assert parse_guarantee(str(lifted)) == lifted
    assert hash(parse_guarantee(str(lifted))) == hash(lifted)


@SOME
def test_a_lift_only_weakens(lifted: Lifted) -> None:
    assert lifted.base.implies(lifted)
    assert lifted.implies(Lifted(lifted.base, lifted.moved * 2))
    assert not lifted.implies(Lifted(lifted.base, lifted.moved / 2))
    assert not lifted.implies(lifted.base)
    assert not lifted.base.implies(Lifted(lifted.base, Fraction(1, 2)))  # as deltas need not be one
    assert Lifted(PerfectPrivacy(), lifted.moved).implies(lifted)


@SOME
def test_a_point_follows_where_the_profile_says_so(lifted: Lifted) -> None:
    at = Fraction(3, 2)
    delta = lifted.delta_at(at).upper
    if delta < Fraction(9, 10):
        assert lifted.implies(ApproxDP(at, delta))
        assert not lifted.implies(ApproxDP(at, delta * Fraction(99, 100)))
    assert lifted.implies(PureDP(10**6)) is (lifted.largest_loss is not None)


def test_bounded_losses_stay_bounded() -> None:
    lifted = LIFTS["pure"]
    loss = lifted.largest_loss
    assert loss is not None
    with mp.workdps(60):
        exact = real(lifted.moved) * mp.expm1(real(Fraction("0.7")))
        assert 0 <= real(loss) / exact - 1 < mp.mpf(10) ** -25
    assert lifted.implies(PureDP(loss))
    assert not lifted.implies(PureDP(loss * Fraction(999, 1000)))
    assert Lifted(PureDP(65), TWO).largest_loss is None  # e^65: no use


@SOME
def test_groups_are_those_of_the_profile(lifted: Lifted) -> None:
    assert lifted.for_group(1) is lifted
    group = lifted.for_group(3)
    at = Fraction(3, 2)
    step, single = at / 3, lifted.delta_at(at / 3).upper
    with mp.workdps(40):
        grown = real(single) * sum(mp.exp(real(i * step)) for i in range(3))
        assert real(group.delta_at(at).upper) <= min(grown, 1) * (1 + mp.mpf(10) ** -9)
    assert lifted.implies(group)
    assert not group.implies(lifted)
    assert parse_guarantee(str(group)) == group


# --- refusals, and the rule that makes it ---------------------------------------------------------


def test_what_is_no_base_is_refused() -> None:
    with pytest.raises(TypeError, match="is no guarantee of one mechanism"):
        Lifted(LIFTS["pure"], TWO)
    with pytest.raises(TypeError, match="is no guarantee of one mechanism"):
        Lifted(LIFTS["gaussian"].for_group(2), TWO)
    for moved in (0, -1):
        with pytest.raises(ValueError, match=re.escape(f"moved = {moved} is not positive")):
            Lifted(PureDP(1), Fraction(moved))
    with pytest.raises(ValueError, match="asked for at epsilon >= 0"):
        LIFTS["pure"].delta_at(-1)
    with pytest.raises(ValueError, match="its delta stays above"):
        LIFTS["wide gaussian"].epsilon_at("1e-9")


def lift(base: Guarantee, moved: Fraction) -> Derivation[PrivacyClaim]:
    about: Any = Friendly("distance at most 1")
    inner = rules.conjecture(base, adjacency=about, domain=COLUMN)
    stability = lemma(moved, query="the filter", norm=Norm.KEEP)
    return rules.friendly_lift(inner, stability)


def test_the_rule_lifts_points_to_points_and_profiles_to_profiles() -> None:
    for name, base in BASES.items():
        guarantee = lift(base, TWO).conclusion.guarantee
        pointed = isinstance(base, (PureDP, ApproxDP))
        assert (guarantee == Lifted(base, TWO)) is not pointed, name
        if pointed:
            assert isinstance(guarantee, (PureDP, ApproxDP))
            about = ApproxDP(
                guarantee.epsilon, guarantee.delta * Fraction(1_000_001, 10**6)
            )  # of a search
            assert Lifted(base, TWO).implies(about)
