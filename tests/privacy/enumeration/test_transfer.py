"""The same mechanism under another guarantee or adjacency: whole mechanisms on small graphs."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import pytest

from dpverify.privacy import (
    Adjacency,
    ApproxDP,
    GaussianDP,
    Guarantee,
    Norm,
    PerfectPrivacy,
    PureDP,
    ZeroConcentratedDP,
)
from dpverify.privacy.balls import ball

from . import laws, premises
from .graph import Law, Mechanism, edges, grid, judge, moved, steps

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
SCALE, SIGMA = Fraction(3, 2), Fraction(3)
SIGNS = (-1, 1)
PAIRS = edges(ADD_REMOVE, SIGNS, 3)


def total(data: Sequence[int]) -> tuple[int]:
    """Add up the records."""
    return (sum(data),)


def laplace(data: Sequence[int]) -> Law:
    """Release the sum with discrete Laplace noise."""
    return laws.laplace(sum(data), SCALE, -4, 4)


def gaussian(data: Sequence[int]) -> Law:
    """Release the sum with rounded Gaussian noise."""
    return laws.rounded_gaussian(sum(data), SIGMA)


def response(data: Sequence[int]) -> Law:
    """Answer whether the sum is odd, truly e^(2/3) times as likely."""
    odd = sum(data) % 2 == 1
    return laws.coin(1 / SCALE, odd, not odd)


def _claims() -> dict[str, tuple[Mechanism, Guarantee]]:
    """Make mechanisms with the claims that the rules give them by how far the sum moves."""
    once, square = moved(total, PAIRS, Norm.L1), moved(total, PAIRS, Norm.SQUARED_L2)
    odd = moved(lambda data: (sum(data) % 2,), PAIRS, Norm.HAMMING)
    return {
        "Laplace": (laplace, premises.discrete_laplace(once, SCALE, ADD_REMOVE, exact=True)),
        "Gaussian": (gaussian, premises.rounded_gaussian(square, SIGMA, ADD_REMOVE)),
        "response": (response, premises.randomized_response(odd, SCALE, ADD_REMOVE)),
    }


# --- functions of the output --------------------------------------------------------------------


def test_post_process() -> None:
    """Enumerate the sign of a noisy sum, then with a coin thrown in: little is lost."""
    law, claim = _claims()["Laplace"]
    assert judge(law, PAIRS, claim, grid(1 / SCALE)).holds

    @cache
    def side(outcome: int) -> Law:
        return laws.coin(Fraction(3), outcome > 0, outcome <= 0)

    @cache
    def mapped(value: int, noisy: bool) -> Law:
        return laws.mapped(laplace((value,)), side if noisy else lambda o: laws.point(o > 0))

    after = premises.post_process(claim, ADD_REMOVE)
    plain = judge(lambda data: mapped(sum(data), False), PAIRS, after, grid(1 / SCALE))
    assert plain.holds
    assert plain.share > 1 - 1e-12
    thrown = judge(lambda data: mapped(sum(data), True), PAIRS, after, grid(1 / SCALE))
    assert thrown.holds
    assert thrown.share > 0.9


def test_post_process_twin_reads_the_data() -> None:
    """Catch a noisy sum that is cut to what is possible for this number of records."""
    law, claim = _claims()["Laplace"]

    @cache
    def mapped(value: int, most: int) -> Law:
        return laws.mapped(law((value,)), lambda o: laws.point(max(-most, min(most, o))))

    after = premises.post_process(claim, ADD_REMOVE)
    verdict = judge(lambda d: mapped(sum(d), len(d)), PAIRS, after, grid(1 / SCALE))
    assert verdict.surely > 0.1


# --- conversion ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Laplace", "Gaussian", "response"])
def test_convert(kind: str) -> None:
    """Enumerate conversions to (epsilon, delta), the delta being all that the profile allows
    there."""
    law, claim = _claims()[kind]
    for epsilon in map(Fraction, ("1/20", "1/5", "1/3")):
        delta = claim.delta_at(epsilon).upper
        to = premises.convert(claim, ADD_REMOVE, ApproxDP(epsilon, delta))
        verdict = judge(law, PAIRS, to, grid(epsilon, 1))
        assert verdict.holds
        assert verdict.share > (0.97 if kind == "Gaussian" else 1 - 1e-12)
    concentrated = claim.concentrated
    assert concentrated is not None
    weaker = premises.convert(claim, ADD_REMOVE, ZeroConcentratedDP(concentrated))
    assert judge(law, PAIRS, weaker, grid(1)).holds


def test_convert_twins() -> None:
    """Catch a hair less than the profile; pure for concentrated, Gaussian for pure of its size."""
    law, claim = _claims()["response"]
    epsilon = Fraction(1, 5)
    hair = claim.delta_at(epsilon).upper * Fraction(99, 100)
    for false in (ApproxDP(epsilon, hair), GaussianDP(1 / SCALE)):
        with pytest.raises(ValueError, match="does not imply"):
            premises.convert(claim, ADD_REMOVE, false)
        assert judge(law, PAIRS, false, grid(epsilon)).surely > 0.001
    law, claim = _claims()["Gaussian"]
    assert claim.concentrated == Fraction(1, 18)
    with pytest.raises(ValueError, match="does not imply"):
        premises.convert(claim, ADD_REMOVE, PureDP(Fraction(1, 18)))
    assert judge(law, PAIRS, PureDP(Fraction(1, 18)), grid(1)).surely > 0.05


# --- groups and adjacency -----------------------------------------------------------------------


@cache
def _telling(value: int) -> Law:
    """Say one of two things, e^(2/3) apart, and tell the value outright with probability 1/50."""
    heard = laws.coin(1 / SCALE, 0, 1) if value <= 0 else laws.coin(1 / SCALE, 1, 0)
    told = laws.exactly({("told", value): Fraction(1, 50)})
    return {**{outcome: mass * ball(Fraction(49, 50)) for outcome, mass in heard.items()}, **told}


def telling(data: Sequence[int]) -> Law:
    """Tell the number of records, now and then."""
    return _telling(len(data) - 1)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("kind", ["Laplace", "Gaussian", "telling"])
def test_group_privacy(kind: str, size: int) -> None:
    """Enumerate all pairs that two or three steps lead between."""
    claims = _claims() | {"telling": (telling, ApproxDP(1 / SCALE, Fraction(1, 50)))}
    law, claim = claims[kind]
    assert judge(law, PAIRS, claim, grid(1 / SCALE)).holds
    whole = premises.group_privacy(claim, ADD_REMOVE, size)
    verdict = judge(law, steps(PAIRS, size), whole, grid(size / SCALE))
    least = {"Laplace": 1 - 1e-12, "Gaussian": 0.98, "telling": 0.4}
    assert verdict.holds
    assert verdict.share > least[kind]


def test_group_privacy_twin_one_step() -> None:
    """Catch the claim of one step, for two."""
    law, claim = _claims()["Laplace"]
    assert judge(law, steps(PAIRS, 2), claim, grid(2)).surely > 0.1


def test_group_privacy_twin_deltas_add_up() -> None:
    """Catch two deltas for two steps, each of which takes a chance from x to e x + 1/50."""
    delta, two = Fraction(1, 50), Fraction(2)

    @cache
    def chain(node: int) -> Law:
        chance = ball(Fraction(0))
        for _ in range(2 - node):
            chance = chance * ball(Fraction(1)).exp() + ball(delta)
        return {True: chance, False: 1 - chance}

    one = ApproxDP(1, delta)
    assert judge(chain, [(0, 1), (1, 0), (1, 2), (2, 1)], one, grid(1)).holds
    right = judge(chain, [(0, 2), (2, 0)], premises.group_privacy(one, ADD_REMOVE, 2), [two])
    assert right.holds
    assert right.share > 1 - 1e-12
    assert judge(chain, [(0, 2), (2, 0)], ApproxDP(2, 2 * delta), [two]).surely > 0.03


@cache
def _window(value: int) -> Law:
    return laws.exactly({value + i: Fraction(1, 10) for i in range(10)})


def window(data: Sequence[int]) -> Law:
    """Release one of the ten integers from the sum on: one in ten tells a step, off it none
    does."""
    return _window(sum(data))


TENTH = Fraction(1, 10)


def test_group_privacy_twin_event_of_each_pair() -> None:
    """Catch groups of what is perfectly private off an event of each pair, of probability 1/10.

    Two steps need twice that: to take groups first, and to pay for the event afterwards, is false.
    """
    tenth = premises.add_delta_event(PerfectPrivacy(), ADD_REMOVE, TENTH)
    one = judge(window, PAIRS, tenth, grid(1))
    assert one.holds
    assert one.share > 1 - 1e-12
    right = premises.group_privacy(tenth, ADD_REMOVE, 2)
    two = judge(window, steps(PAIRS, 2), right, grid(1))
    assert two.holds
    assert two.share > 1 - 1e-12
    with pytest.raises(ValueError, match="group privacy needs a statement without hypotheses"):
        premises.grouped_then_discharged(PerfectPrivacy(), ADD_REMOVE, TENTH, 2)
    false = ApproxDP(Fraction(1, 1000), TENTH)
    assert judge(window, steps(PAIRS, 2), false, [Fraction(0)]).surely > 0.099


@pytest.mark.parametrize("kind", ["Laplace", "Gaussian"])
def test_change_adjacency(kind: str) -> None:
    """Enumerate replaced records: one that changes its sign moves the sum by two."""
    law, claim = _claims()[kind]
    assert judge(law, PAIRS, claim, grid(1)).holds
    replaced = premises.change_adjacency(claim)
    verdict = judge(law, edges(REPLACE, SIGNS, 3), replaced, grid(2 / SCALE))
    assert verdict.holds
    assert verdict.share > (1 - 1e-12 if kind == "Laplace" else 0.98)


def test_change_adjacency_twin_one_step() -> None:
    """Catch the claim of one step, for a replacement."""
    law, claim = _claims()["Laplace"]
    assert judge(law, edges(REPLACE, SIGNS, 3), claim, grid(2)).surely > 0.1


def test_change_adjacency_twin_event_of_each_pair() -> None:
    """Catch two steps taken first, and the event of each pair paid for afterwards."""
    with pytest.raises(ValueError, match="a change of adjacency needs a statement without"):
        premises.replaced_then_discharged(PerfectPrivacy(), TENTH)
    false = ApproxDP(Fraction(1, 1000), TENTH)
    pairs = edges(REPLACE, SIGNS, 3)
    assert judge(window, pairs, false, [Fraction(0)]).surely > 0.099
