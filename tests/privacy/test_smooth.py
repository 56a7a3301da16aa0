"""Smooth sensitivity: as private as Laplace noise whose scale follows the data."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest

from dpverify.privacy import (
    Adjacency,
    ApproxDP,
    Domain,
    Group,
    Norm,
    Profile,
    PureDP,
    SmoothLaplace,
    Source,
    parse_guarantee,
    rules,
)
from dpverify.privacy.hypotheses import Quantity
from spec.theory import smooth
from spec.theory.laws import real

PAIRS = [
    ("1/2", "21/20"),
    ("1/50", "11/10"),
    ("3", "2"),
    ("1/100", "5/2"),
    ("1", "1000001/1000000"),
]
EPSILONS = [Fraction(e) for e in ("0", "1/100", "1/10", "1/2", "11/20", "1", "2", "4", "20")]


@pytest.mark.parametrize(("shift", "growth"), PAIRS)
def test_the_profile_is_the_specs(shift: str, growth: str) -> None:
    with mp.workdps(60):
        for epsilon in EPSILONS:
            delta = SmoothLaplace(shift, growth).delta_at(epsilon)
            wanted = smooth.profile(Fraction(shift), Fraction(growth), epsilon)
            if wanted < mp.mpf(10) ** -10000:  # enclosed as between 0 and 2^-40000
                assert delta.upper < Fraction(1, 10**9000)
                continue
            assert abs(real(delta.upper) / wanted - 1) < mp.mpf(10) ** -25
            assert delta.lower <= delta.upper


@pytest.mark.parametrize(("shift", "growth"), PAIRS)
def test_it_falls_and_grows_with_its_parameters(shift: str, growth: str) -> None:
    own = SmoothLaplace(shift, growth)
    values = [own.delta_at(epsilon).upper for epsilon in EPSILONS]
    assert values == sorted(values, reverse=True)
    for more in (
        SmoothLaplace(own.shift * 2, growth),
        SmoothLaplace(shift, own.growth * Fraction(3, 2)),
    ):
        assert own.implies(more)
        assert not more.implies(own)
        for epsilon, value in zip(EPSILONS, values, strict=True):
            assert value <= more.delta_at(epsilon).upper


def test_it_is_read_as_it_is_written() -> None:
    for shift, growth in PAIRS:
        made = SmoothLaplace(shift, growth)
        assert parse_guarantee(str(made)) == made
    assert str(SmoothLaplace("1/2", 2)) == "smooth-laplace(0.5, 2)"


def test_no_loss_bounds_it() -> None:
    own = SmoothLaplace("1/2", "11/10")
    assert own.largest_loss is None
    assert own.concentrated is None
    assert own.gaussian is None
    assert own.delta_floor == 0
    assert not own.implies(PureDP(100))
    assert own.implies(ApproxDP(1, own.delta_at(1).upper))
    assert not own.implies(ApproxDP(1, own.delta_at(1).lower * Fraction(999, 1000)))
    assert own.for_group(1) == own
    assert own.for_group(3) == Group(own, 3)


def test_the_tradeoff_curve_is_below_every_pair_of_events() -> None:
    """Thresholds on the pair itself: P(X > t) under the shorter, P(X <= t) under the longer
    noise."""
    own = SmoothLaplace("1", "3/2")
    narrow, wide = (mp.mpf(1), mp.mpf(1)), (mp.mpf(0), mp.mpf("1.5"))

    def up_to(t: float, law: tuple[Any, Any]) -> Any:
        tail = mp.exp(-abs(t - law[0]) / law[1]) / 2
        return tail if t < law[0] else 1 - tail

    for k in range(-20, 30):
        t = k / 5
        for first, second in ((narrow, wide), (wide, narrow)):
            alpha = Fraction(float(1 - up_to(t, first)))
            curve = own.tradeoff_at(alpha)
            assert real(curve.lower) <= up_to(t, second) + mp.mpf(10) ** -12
    assert own.tradeoff_at("1/10").lower > Fraction(3, 10)  # it says something


@pytest.mark.parametrize(
    ("shift", "growth", "times"), [("1/3", "21/20", 3), ("1/1000", "51/50", 40)]
)
def test_compositions_are_between_a_part_and_the_sum(shift: str, growth: str, times: int) -> None:
    one = SmoothLaplace(shift, growth)
    whole = Profile([(one, times)])
    for epsilon in (Fraction(1, 2), Fraction(1), Fraction(2)):
        delta = whole.delta_at(epsilon).upper
        assert one.delta_at(epsilon).lower <= delta
        assert delta <= times * one.delta_at(epsilon / times).upper
    assert whole.delta_at(0).upper < 1


def test_compositions_are_above_a_pair_that_is_composed_exactly() -> None:
    """Two numbers under noise of the law itself, summed over a fine grid."""
    own = smooth.SmoothLaw(((0, 4),) * 2, Fraction(1), 1)
    other = smooth.SmoothLaw(((4, 2),) * 2, Fraction(1), 1)  # scales 4 and 2, a distance of 4
    claimed = Profile([(SmoothLaplace(2, 2), 2)]).delta_at(5).upper
    with mp.workdps(20):
        delta = max(own.profile(other, Fraction(5)), other.profile(own, Fraction(5)))
    assert claimed / 4 < Fraction(float(delta)) <= claimed


BAD: list[tuple[Any, Any, str]] = [
    (0, 2, "shift = 0 is not positive"),
    (1, 1, "growth = 1; .* above 1"),
    (1, "1/2", "above 1"),
]


@pytest.mark.parametrize(("shift", "growth", "message"), BAD)
def test_bad_parameters_are_refused(shift: Any, growth: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SmoothLaplace(shift, growth)


def _lemma(norm: Norm) -> Any:
    return rules.sensitivity_lemma(
        Quantity.of("the median", "SmoothMedians"),
        norm=norm,
        value="10/9",
        adjacency=Adjacency.REPLACE,
        domain=Domain(1),
        obligation="theory/smooth.py:obligation_smooth",
        source=Source("NRS07", "smooth sensitivity of the median"),
    )


def test_the_rule_has_a_norm_of_its_own() -> None:
    made = rules.smooth_laplace(_lemma(Norm.SMOOTH), 2)
    assert made.conclusion.guarantee == SmoothLaplace("1/2", "10/9")
    assert "which changes by a factor of at most 10/9" in str(made)
    with pytest.raises(ValueError, match="needs a sensitivity in smooth distance"):
        rules.smooth_laplace(_lemma(Norm.L1), 2)
    with pytest.raises(ValueError, match="in L1 distance"):
        rules.discrete_laplace(_lemma(Norm.SMOOTH), 2)
    with pytest.raises(ValueError, match="not positive"):
        rules.smooth_laplace(_lemma(Norm.SMOOTH), 0)
