"""Requests chosen after seeing answers: every analyst of a few, each a tree of choices, enumerated
whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import pytest

from dpverify.privacy import (
    Adjacency,
    ApproxDP,
    ApproximateGaussianDP,
    Guarantee,
    PureDP,
)
from dpverify.privacy.balls import ball
from dpverify.privacy.guarantees.curves import gaussian_share

from . import laws, premises
from .graph import Law, Mechanism, edges, judge

REPLACE = Adjacency.REPLACE
PAIRS = edges(REPLACE, (0, 1), 1)
Path = tuple[Guarantee, ...]
"""Guarantees of the requests so far."""


class Analyst(NamedTuple):
    """A request, and who goes on after the answer that is likelier for the record 1, after the
    other, and after being told."""

    request: Guarantee
    high: Analyst | None = None
    low: Analyst | None = None


def _answer(request: Guarantee, record: int) -> Law:
    """Give a record's answers: randomized response, which now and then tells the record
    outright."""
    one, other = ("high", "low") if record else ("low", "high")
    if isinstance(request, PureDP):
        return laws.coin(request.epsilon, one, other)
    assert isinstance(request, ApproxDP)
    told = ball(request.delta)
    noisy = laws.coin(request.epsilon, one, other)
    return {f"told {record}": told, **{o: m * (1 - told) for o, m in noisy.items()}}


def transcript(analyst: Analyst | None, record: int) -> Law:
    """List all that the analyst may see, with probabilities."""
    if analyst is None:
        return laws.point(())
    masses: dict[Any, Any] = {}
    for answer, mass in _answer(analyst.request, record).items():
        after = {"high": analyst.high, "low": analyst.low}.get(str(answer))
        for rest, more in transcript(after, record).items():
            masses[analyst.request, answer, rest] = mass * more
    return masses


def mechanism(analyst: Analyst) -> Mechanism:
    """Let the analyst ask about the first record; nobody is asked of an empty dataset."""
    seen = {record: transcript(analyst, record) for record in (0, 1)}
    return lambda data: seen[data[0] if data else 0]


def analysts(
    menu: Path, allowed: Callable[[Path], bool], rounds: int, taken: Path = ()
) -> Iterator[Analyst | None]:
    """List every analyst of at most so many requests, all of whose paths are allowed."""
    yield None
    for request in menu if rounds else ():
        if allowed((*taken, request)):
            rest = list(analysts(menu, allowed, rounds - 1, (*taken, request)))
            for high, low in product(rest, repeat=2):
                yield Analyst(request, high, low)


def paths(analyst: Analyst | None) -> Iterator[Path]:
    """List the guarantees along every path to where the analyst stops."""
    if analyst is None:
        yield ()
        return
    for after in (analyst.high, analyst.low):
        for rest in paths(after):
            yield (analyst.request, *rest)


@cache
def _share(request: Guarantee) -> Guarantee:
    delta = request.delta_floor
    return ApproximateGaussianDP.of_square(gaussian_share(request, delta), delta)


def _itself(request: Guarantee) -> Guarantee:
    return request


class Case(NamedTuple):
    """Requests, what each counts as, limits on the sums, how many analysts keep to them, and what
    share of a delta one reaches."""

    menu: Path
    counted: Callable[[Guarantee], Guarantee]
    budget: Guarantee
    analysts: int
    share: float


def allows(case: Case, path: Path) -> bool:
    """Tell whether the rule concludes the budget of requests along this path."""
    steps = map(case.counted, path)
    try:
        return premises.privacy_filter(steps, REPLACE, budget=case.budget) == case.budget
    except ValueError:
        return False


SMALL, LARGE, TELLING = PureDP("1/4"), PureDP("1/2"), ApproxDP("1/2", "1/50")
MENU = (SMALL, LARGE, TELLING)
GAUSSIAN = ApproximateGaussianDP.of_square(2 * gaussian_share(LARGE), "1/50")
CASES = {
    "Gaussian": Case(MENU, _share, GAUSSIAN, 710, 0.8),
    "epsilon and delta": Case(MENU, _itself, ApproxDP(1, "1/50"), 710, 0.99),
}
EPSILONS = [Fraction(i, 2) for i in (0, 1, 2, 4)]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_privacy_filter(case: Case) -> None:
    """Enumerate all analysts of at most three requests that the rule allows on every path."""
    strategies = [
        one for one in analysts(case.menu, cache(lambda path: allows(case, path)), 3) if one
    ]
    judged = [judge(mechanism(one), PAIRS, case.budget, EPSILONS) for one in strategies]
    assert all(one.holds for one in judged)
    assert max(one.share for one in judged) > case.share
    adaptive = [one for one in strategies if len(set(map(frozenset, paths(one)))) > 1]
    assert len(strategies) == case.analysts
    assert len(adaptive) > case.analysts // 2


def test_privacy_filter_twin_one_epsilon() -> None:
    """Catch a limit on delta(1) of what is composed: each path keeps to it, and the analyst does
    not.

    Responses at 1/2 and 3/5 have delta(1) = .0382, and so have a response at 1/2 and one that tells
    the record with probability .0382, whatever comes out. The first after a high answer, the second
    after a low one: .0527.
    """
    more, told = PureDP("3/5"), Fraction(382, 10**4)
    telling = ApproxDP("1/1000", told)
    limit = Fraction(3825, 10**5)
    claim = ApproxDP(1, limit)
    for second in (more, telling):
        both = Analyst(LARGE, Analyst(second), Analyst(second))
        assert judge(mechanism(both), PAIRS, claim, [Fraction(1)]).holds
    chosen = mechanism(Analyst(LARGE, Analyst(more), Analyst(telling)))
    verdict = judge(chosen, PAIRS, claim, [Fraction(1)])
    assert Fraction(verdict.surely) + limit == pytest.approx(0.0527, abs=5e-5)
    assert not allows(Case(MENU, _itself, claim, 0, 0), (LARGE, more))


def _twice(size: Guarantee) -> Guarantee:
    return ApproximateGaussianDP.of_square(2 * gaussian_share(size))


def test_privacy_filter_twin_limit_after_an_answer() -> None:
    """Catch a limit that is chosen after the first answer, and then kept to on every path."""
    case = Case(MENU, _share, _twice(SMALL), 0, 0)
    larger = case._replace(budget=ApproximateGaussianDP.of_square(9 * gaussian_share(LARGE)))
    after_high: Analyst | None = None
    for _ in range(6):
        after_high = Analyst(LARGE, after_high, after_high)
    analyst = Analyst(SMALL, Analyst(SMALL), after_high)
    low, high = (SMALL, SMALL), (SMALL, *[LARGE] * 6)
    assert set(paths(analyst)) == {low, high}
    assert allows(case, low)
    assert allows(larger, high)
    assert not allows(case, high)
    assert judge(mechanism(analyst), PAIRS, case.budget, EPSILONS).surely > 0.1
    assert judge(mechanism(analyst), PAIRS, larger.budget, EPSILONS).holds


def test_privacy_filter_twin_what_was_spent() -> None:
    """Catch the sum of what was spent as the claim, where the analyst stops after an answer that
    looks good."""
    spent = ApproximateGaussianDP.of_square(gaussian_share(LARGE))
    assert allows(Case(MENU, _share, spent, 0, 0), (LARGE,))
    analyst = Analyst(LARGE, None, Analyst(LARGE, None, Analyst(LARGE)))
    assert (LARGE,) in set(paths(analyst))
    assert judge(mechanism(analyst), PAIRS, spent, EPSILONS).surely > 0.02
    whole = ApproximateGaussianDP.of_square(3 * gaussian_share(LARGE))
    assert judge(mechanism(analyst), PAIRS, whole, EPSILONS).holds
