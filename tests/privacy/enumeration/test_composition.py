"""Several releases from one dataset: whole mechanisms of two stages, and blocks side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from math import comb
from typing import Any, NamedTuple

import pytest

from dpverify.privacy import Adjacency, ApproxDP, Guarantee, Norm, PerfectPrivacy, Profile, PureDP
from dpverify.privacy.balls import ball

from ..makers import numbers_of
from . import laws, premises
from .graph import Law, Mechanism, edges, grid, judge, moved, span

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
ONE, TWO, WIDE = Fraction(1), Fraction(2), Fraction(3)
TOLD = Fraction(1, 50)
PAIRS = edges(ADD_REMOVE, (0, 1, 2), 2)
Stage = Callable[[Any, Any], Law]
"""A law from a dataset and what came first."""


def count(data: Sequence[int], what: int) -> int:
    """Count the records of one value."""
    return data.count(what) if isinstance(data, tuple) else sum(row == what for row in data)


def _laplace(data: Any, what: int, scale: Fraction = ONE) -> Law:
    return laws.laplace(count(data, what), scale, 0, 2)


@cache
def _telling(number: int) -> Law:
    """Tell the count with probability 1/50, else release it with noise."""
    noisy = laws.laplace(number, ONE, 0, 2)
    told = {("told", number): ball(TOLD)}
    return {o: m * ball(1 - TOLD) for o, m in noisy.items()} | told


@cache
def _choice(number: int, handicap: int) -> Law:
    return laws.weighted((Fraction(number + handicap), Fraction(0)))


def _moves(what: int, norm: Norm) -> int:
    return moved(lambda data: (count(data, what),), PAIRS, norm)


def _one_choice() -> Guarantee:
    """Claim the range of ``_choice``, whatever the handicap: one score moves, the other does
    not."""
    move = moved(lambda data: (count(data, 1), 0), PAIRS, Norm.RANGE)
    return premises.exponential_mechanism(move, ONE, ADD_REMOVE, Norm.RANGE)


def _joint(first: Mechanism, second: Stage) -> Mechanism:
    """Put two stages together; the second is told what came first."""

    @cache
    def of(ones: int, twos: int) -> Law:
        data = (1,) * ones + (2,) * twos
        return laws.then(first(data), lambda outcome: second(data, outcome))

    return lambda data: of(count(data, 1), count(data, 2))


class Case(NamedTuple):
    """Two stages, what is claimed of each, where the whole is compared, and the share it
    reaches."""

    first: Mechanism
    second: Stage
    parts: tuple[Guarantee, Guarantee]
    top: int
    share: float


def _both_hold(case: Case) -> bool:
    """Judge the first stage, and the second after every outcome of the first."""

    def after(outcome: Any) -> Mechanism:
        return lambda data: case.second(data, outcome)

    outcomes = {outcome for data, _ in PAIRS for outcome in case.first(data)}
    # Laws are remembered, so outcomes after which the second stage is the same are judged once.
    stages = {}
    for outcome in outcomes:
        found_laws = [case.second(data, outcome) for data, _ in PAIRS]
        stages[tuple(map(id, found_laws))] = outcome, found_laws
    verdicts = [judge(after(o), PAIRS, case.parts[1], grid(case.top)) for o, _ in stages.values()]
    verdicts.append(judge(case.first, PAIRS, case.parts[0], grid(case.top)))
    return all(one.holds for one in verdicts)


# --- two stages ---------------------------------------------------------------------------------


def _side_by_side() -> dict[str, Case]:
    pure = premises.discrete_laplace(_moves(1, Norm.L1), ONE, ADD_REMOVE, exact=True)
    weak = premises.discrete_laplace(_moves(1, Norm.L1), ONE / 2, ADD_REMOVE)
    square = _moves(1, Norm.SQUARED_L2)
    gauss = premises.rounded_gaussian(square, TWO, ADD_REMOVE)
    wide = premises.rounded_gaussian(square, WIDE, ADD_REMOVE)

    def normal(sigma: Fraction) -> Mechanism:
        return lambda data: laws.rounded_gaussian(count(data, 1), sigma)

    return {
        "pure": Case(
            lambda d: _laplace(d, 1, ONE / 2), lambda d, o: _laplace(d, 1, ONE / 2),
            (weak, weak), 4, 0.79,
        ),
        "Gaussian": Case(
            normal(TWO), lambda d, o: normal(WIDE)(d), (gauss, wide), 1, 0.96
        ),
        "mixed": Case(
            lambda d: _laplace(d, 1), lambda d, o: normal(TWO)(d), (pure, gauss), 2, 0.99
        ),
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["pure", "Gaussian", "mixed"])
def test_compose(kind: str) -> None:
    """Enumerate two noisy counts of the same records."""
    case = _side_by_side()[kind]
    assert _both_hold(case)
    claim = premises.compose(case.parts, ADD_REMOVE)
    law = _joint(case.first, case.second)
    verdict = judge(law, PAIRS, claim, grid(case.top))
    assert verdict.holds
    assert verdict.share > case.share
    by_profiles = premises.compose(case.parts, ADD_REMOVE, by_profiles=True)
    assert judge(law, PAIRS, by_profiles, grid(case.top)).holds


def test_compose_twin_same_noise() -> None:
    """Catch twice the count with the noise of the first stage: each stage alone has its claim.

    The second claim must hold whatever came first, and here the difference is the count itself.
    """
    parts = [
        premises.discrete_laplace(times * _moves(1, Norm.L1), ONE, ADD_REMOVE) for times in (1, 2)
    ]
    alone: Mechanism = lambda d: laws.laplace(2 * count(d, 1), ONE, 0, 4)  # noqa: E731
    assert judge(alone, PAIRS, parts[1], grid(2)).holds
    law = _joint(lambda d: _laplace(d, 1), lambda d, o: laws.point(2 * count(d, 1)))
    assert judge(law, PAIRS, premises.compose(parts, ADD_REMOVE), grid(3)).surely > 0.9


def _adaptive() -> dict[str, Case]:
    """List stages whose second question depends on what came first."""
    pure = premises.discrete_laplace(_moves(1, Norm.L1), ONE, ADD_REMOVE)
    told = ApproxDP(ONE, TOLD)
    square = _moves(1, Norm.SQUARED_L2)
    gauss = premises.rounded_gaussian(square, TWO, ADD_REMOVE)
    ranged = _one_choice()

    def asked(outcome: Any) -> int:
        return 1 if outcome == 0 else 2

    return {
        "pure": Case(
            lambda d: _laplace(d, 1), lambda d, o: _laplace(d, asked(o)), (pure, pure), 2, 0.44
        ),
        "approximate": Case(
            lambda d: _telling(count(d, 1)), lambda d, o: _telling(count(d, asked(o))),
            (told, told), 2, 0.85,
        ),
        "Gaussian": Case(
            lambda d: laws.rounded_gaussian(count(d, 1), TWO),
            lambda d, o: laws.rounded_gaussian(count(d, 1 if o < 1 else 2), TWO),
            (gauss, gauss), 1, 0.85,
        ),
        "range": Case(
            lambda d: _choice(count(d, 1), 0), lambda d, o: _choice(count(d, 1), 1 - 2 * o),
            (ranged, ranged), 2, 0.8,
        ),
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["pure", "approximate", "Gaussian", "range"])
def test_adaptive_compose(kind: str) -> None:
    """Enumerate second stages whose claim holds after every outcome of the first."""
    case = _adaptive()[kind]
    assert _both_hold(case)
    claim = premises.adaptive_compose(case.parts, ADD_REMOVE)
    verdict = judge(_joint(case.first, case.second), PAIRS, claim, grid(case.top))
    assert verdict.holds
    assert verdict.share > case.share


def test_adaptive_compose_twin_careless_branch() -> None:
    """Catch a stage that after one outcome out of three has a third of the declared noise."""
    pure = premises.discrete_laplace(_moves(1, Norm.L1), ONE, ADD_REMOVE)

    def second(data: Any, outcome: Any) -> Law:
        return _laplace(data, 1, ONE / 3 if outcome == 1 else ONE)

    case = Case(lambda d: _laplace(d, 1), second, (pure, pure), 2, 0)
    assert not _both_hold(case)
    claim = premises.adaptive_compose(case.parts, ADD_REMOVE)
    assert judge(_joint(case.first, case.second), PAIRS, claim, grid(2)).surely > 0.1


def test_adaptive_compose_twin_range_after_a_coin() -> None:
    """Catch a public coin, perfectly private, and what has range 1 after either side of it.

    The whole has the profile of that range, and is no bounded range: the two intervals of losses
    differ.
    """
    ranged = _one_choice()
    fair = laws.exactly({0: Fraction(1, 2), 1: Fraction(1, 2)})
    case = Case(
        lambda d: fair,
        lambda d, o: _choice(count(d, 1), 8 * o - 4),
        (PerfectPrivacy(), ranged),
        1,
        0,
    )
    assert _both_hold(case)
    after: Mechanism = lambda d: case.second(d, 1)  # noqa: E731
    assert span(after, PAIRS) < 1 + 1e-12
    law = _joint(case.first, case.second)
    assert judge(law, PAIRS, Profile([ranged]), grid(1)).holds
    made = premises.adaptive_compose([PerfectPrivacy(), ranged], ADD_REMOVE)
    assert made == Profile([ranged])
    assert span(law, PAIRS) > 1.9


# --- many stages --------------------------------------------------------------------------------

STAGES = 100


def _repeated(
    epsilon: Fraction, told: Fraction = Fraction(0), *, stages: int = STAGES
) -> Mechanism:
    """Ask a hundred times whether there is a 1, in words that depend on the answers so far.

    Outcomes with the same number of true answers have the same likelihoods, and are one here.
    """

    @cache
    def of(truth: bool) -> Law:
        yes = laws.coin(epsilon, True, False)[truth]
        none = ball((1 - told) ** stages)
        masses: dict[Any, Any] = {
            j: none * comb(stages, j) * yes**j * (1 - yes) ** (stages - j)
            for j in range(stages + 1)
        }
        return masses | ({("told", truth): 1 - none} if told else {})

    return lambda data: of(1 in data)


@pytest.mark.parametrize(("epsilon", "share"), [("1/20", 0.3), ("1/4", 0.75)])
def test_advanced_compose(epsilon: str, share: float) -> None:
    """Enumerate a hundred answers about the same bit, each of which may tell it outright."""
    pairs, slack = edges(REPLACE, (0, 1), 2), Fraction(1, 4)
    for told in (Fraction(0), Fraction(1, 400)):
        part = ApproxDP(epsilon, told) if told else PureDP(epsilon)
        once = _repeated(Fraction(epsilon), told, stages=1)
        assert judge(once, pairs, part, grid(Fraction(epsilon), 1)).holds
        claim = premises.advanced_compose([part] * STAGES, REPLACE, slack=slack)
        loss, _ = numbers_of(claim)
        verdict = judge(_repeated(Fraction(epsilon), told), pairs, claim, grid(loss))
        assert verdict.holds
        assert verdict.share > share


def test_advanced_compose_twin_delta_and_slack() -> None:
    """Catch the claim without the deltas of the stages, and without the slack."""
    pairs, told, epsilon = edges(REPLACE, (0, 1), 2), Fraction(1, 200), Fraction(1, 20)
    slack = Fraction(1, 4)
    claim = premises.advanced_compose([PureDP(epsilon)] * STAGES, REPLACE, slack=slack)
    loss, _ = numbers_of(claim)
    assert judge(_repeated(epsilon, told), pairs, claim, [loss]).surely > 0.1
    assert judge(_repeated(epsilon), pairs, PureDP(loss), [loss]).surely > 0.001
