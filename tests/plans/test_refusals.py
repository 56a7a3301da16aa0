"""Plans and queries that would claim less than they spend are refused; no statistics."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify.grid import NOTHING, UNIT, Query, Released, View
from dpverify.grid.nearness import Nearness
from dpverify.grid.region_queries import MovingHistogram, MovingMoments
from dpverify.grid.splits import ByHash, ByIndex, ByInterval
from dpverify.grid.transcript_queries import MovingSum
from dpverify.plans import Blocks, Gate, Law, Part, Plan, RoundedGaussian, Stage
from dpverify.plans.calibrating import least_multiplier
from dpverify.plans.plan import derive
from dpverify.privacy import ApproxDP, BoundedRange, GaussianDP, Guarantee, Profile, PureDP
from dpverify.privacy.adjacency import Friendly, Groups
from dpverify.privacy.calibration import smallest_sufficient
from dpverify.randomness import SeededBits
from tests.plans.nested import ADD, DOMAIN, REPLACE, answers

NEAR = Nearness(4, 0, (1.0,))
ZERO = np.zeros((1, 1), np.int64)
RADIUS = np.array([3])


def at(point: Any = ZERO, radius: Any = RADIUS) -> Released[Any]:
    return Released((), lambda before: (point, radius))


def along(directions: Any) -> Released[Any]:
    return Released((), lambda before: directions)


@pytest.mark.parametrize("spread", [Fraction(0), Fraction(-1), Fraction(-7, 3)])
@pytest.mark.parametrize("kind", [MovingSum, MovingMoments])
def test_a_spread_that_is_not_positive_has_no_sensitivity(kind: Any, spread: Fraction) -> None:
    """A negative one would turn a large sensitivity into a small one."""
    with pytest.raises(ValueError, match="is not positive; noise needs a standard deviation"):
        kind(NEAR, spread, ADD, at()).sensitivity(ADD, DOMAIN)


def test_more_directions_than_declared_are_refused() -> None:
    """A record counts once for each direction: sensitivity is by their number."""
    for count in (1, 2):
        asked = MovingHistogram(NEAR, 8, 1, at(), along(np.full((1, count, 1), 64)))
        if count == 1:
            assert asked.evaluate(View(np.zeros((5, 1))), NOTHING).sum() == 5
            continue
        with pytest.raises(ValueError, match=r"directions of shape \(1, 2, 1\) were released"):
            asked.evaluate(View(np.zeros((5, 1))), NOTHING)


@pytest.mark.parametrize(
    ("point", "radius"),
    [
        (ZERO + 0.5, RADIUS),
        (ZERO, RADIUS + 0.5),
        (np.zeros((1, 2), np.int64), RADIUS),
        (np.zeros(1, np.int64), RADIUS),
        (ZERO, RADIUS[:, np.newaxis]),
        (ZERO > 0, RADIUS),
    ],
)
@pytest.mark.parametrize(
    "made",
    [
        lambda place: MovingSum(NEAR, Fraction(1), ADD, place),
        lambda place: MovingMoments(NEAR, Fraction(1), ADD, place),
        lambda place: MovingHistogram(NEAR, 8, 1, place, along(np.full((1, 1, 1), 64))),
    ],
)
def test_balls_that_are_not_of_integers_one_a_draw_are_refused(
    made: Callable[[Any], Query], point: Any, radius: Any
) -> None:
    with pytest.raises(ValueError, match="give integers, a point and a radius for each"):
        made(at(point, radius)).evaluate(View(np.zeros((5, 1))), NOTHING)


def test_a_query_of_inputs_has_no_claim_for_other_neighbors() -> None:
    """Refuse other neighbors: its lemma is for one record more or less; of several, or of
    friends exchanged, it says nothing."""
    stage = Stage("sum", MovingSum(NEAR, Fraction(1), ADD, at()), RoundedGaussian(UNIT))
    assert not stage.derivation(ADD, DOMAIN).conclusion.hypotheses
    for other in (Groups(ADD, 2), Friendly(NEAR.predicate, exchange=True)):
        with pytest.raises(TypeError, match="MovingSum has a sensitivity for inputs, not under"):
            stage.derivation(other, DOMAIN)


def test_how_a_split_is_made_is_no_parameter() -> None:
    """Refuse the parameter: by value and by index are priced by different rules: nobody says
    which by hand."""
    splits: tuple[Any, ...] = ((ByIndex, (2,)), (ByInterval, ((0.0,),)), (ByHash, (2, 0)))
    for kind, given in splits:
        assert kind(*given).by == ("index" if kind is ByIndex else "value")
        with pytest.raises(TypeError, match="by"):
            kind(*given, by="value")
    with pytest.raises(ValueError, match="the conclusion is asked under add-remove"):
        derive((Blocks("b", ByIndex(2), ((answers("x"),),) * 2),), ADD, DOMAIN)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ((answers("x"), Gate("x", 1, "no"), Gate("x", 2, "no")), "two gates on 'x' stop for the"),
        ((Part("p", (answers("x"),)), Gate("p", 1, "no")), "a gate reads 'p', which is not"),
        (
            (Stage("s", MovingSum(NEAR, Fraction(1), REPLACE, Released(("x",), at())),
                RoundedGaussian(UNIT)), answers("x")),
            "What follows from 'x' is asked before it is released",
        ),
    ],
)  # fmt: skip
def test_plans_whose_words_mean_two_things_are_refused(plan: Plan, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        derive(plan, REPLACE, DOMAIN)


def test_a_gate_after_a_part_did_not_stop_the_part() -> None:
    """Planted: the part is told that it stopped, and its estimate abstains although all was
    released."""
    plan: Plan = (Part("p", (answers("x"),)), answers("y"), Gate("y", 2, "later"))
    derive(plan, REPLACE, DOMAIN)
    drawn = Law(plan, np.ones((1, 1)), REPLACE, DOMAIN).sample(SeededBits(1), 1)
    assert drawn.stopped == "later"
    inside = drawn.within("p")
    assert inside.stopped is None
    assert inside.released == {"x": drawn.numbers("p/x")}


def test_a_claim_that_is_not_monotone_to_the_last_bit_is_still_met() -> None:
    """Meet the claim: what was asked before is not taken for granted where rounding makes simple
    multipliers dearer."""
    budget, asked = PureDP(Fraction(3, 10)), []

    def rough(multiplier: Fraction) -> PureDP:
        asked.append(multiplier)
        simple = multiplier.denominator < 1000
        return PureDP((1 + Fraction(simple, 1 << 46)) / multiplier)

    least = least_multiplier(rough, budget)
    assert Fraction(10, 3) in asked
    assert rough(least).implies(budget)
    assert 0 < least - Fraction(10, 3) < Fraction(1, 1 << 30)
    assert least_multiplier(lambda m: PureDP(1 / m), budget) == Fraction(10, 3)


def least_by_asking(made: Callable[[Fraction], Guarantee], budget: Guarantee) -> Fraction:
    return smallest_sufficient(lambda m: made(m).implies(budget))


@pytest.mark.parametrize("delta", ["1e-5", "1e-300"])
@pytest.mark.parametrize("kind", ["pure", "Gaussian", "both"])
def test_guesses_do_not_change_the_least_noise(kind: str, delta: str) -> None:
    """Compare with asking at every multiplier: the answers are the same fraction."""

    def made(m: Fraction) -> Guarantee:
        parts: dict[str, list[Guarantee]] = {"pure": [PureDP(1 / m)] * 3, "Gaussian": []}
        parts["Gaussian"] = [GaussianDP(1 / m)]
        return Profile(parts.get(kind) or parts["pure"] + parts["Gaussian"])

    budget = ApproxDP(1, delta)
    assert least_multiplier(made, budget) == least_by_asking(made, budget)


@pytest.mark.parametrize(("times", "delta"), [(20, "1e-5"), (3, "1e-300")])
def test_several_bounded_ranges_have_a_least_noise_to_eight_digits(times: int, delta: str) -> None:
    """Meet the budget, which a little less noise misses: the bounds are not monotone to the ninth
    digit, so that the fraction is not that of asking at every multiplier."""
    budget = ApproxDP(1, delta)

    def made(m: Fraction) -> Guarantee:
        return Profile([(BoundedRange(1 / m), times)])

    least, asked = least_multiplier(made, budget), least_by_asking(made, budget)
    assert made(least).implies(budget)
    assert abs(least / asked - 1) < Fraction(1, 10**8)
    assert not made(least * (1 - Fraction(1, 10**8))).implies(budget)


@pytest.mark.parametrize(("times", "first"), [(9, 1), (2, 1), (9, 1000), (9, Fraction(1, 1000))])
def test_a_guess_that_promises_nothing_away_is_above_the_answer(
    times: int, first: Fraction
) -> None:
    """Some guesses leave a delta of 0, whose logarithm tells no distance. Planted: they ended the
    guessing, and the search asked at 54 to 60 multipliers.
    """
    asked = list[Fraction]()

    def composed(multiplier: Fraction) -> Profile:
        asked.append(multiplier)
        return Profile([(PureDP(first / multiplier), times)])

    budget = ApproxDP(1, "1e-6")
    least = least_multiplier(composed, budget)
    assert len(asked) < 45
    assert least == smallest_sufficient(lambda m: composed(m).implies(budget))
