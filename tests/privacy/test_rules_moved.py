"""Thresholded histograms of a public number of things, some of which move to other keys."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp
import pytest

from dpverify.privacy import Adjacency, ApproxDP, ApproximateGaussianDP, Norm, rules
from spec.theory import rules as spec_rules
from spec.theory.laws import real

from . import noise_laws as laws
from .makers import lemma
from .noise_laws import Case, holds, measure

_THINGS, _KEYS = 5, 4
_SETTINGS = [(Fraction(1), 4), (Fraction(1, 2), 5), (Fraction(5), 4)]


def _moved(value: Any, adjacency: Any = Adjacency.ADD_REMOVE) -> Any:
    return lemma(value, query="the votes", norm=Norm.MOVED, adjacency=adjacency)


def _laplace(scale: Fraction, threshold: int, moved: int) -> Any:
    made = rules.stability_histogram(_moved(moved), scale=scale, threshold=threshold)
    return made.conclusion.guarantee


def _gaussian(sigma: Fraction, threshold: int, moved: int) -> Any:
    made = rules.gaussian_stability_histogram(_moved(moved), sigma=sigma, threshold=threshold)
    return made.conclusion.guarantee


_RULES = {"Laplace": _laplace, "Gaussian": _gaussian}
_TAILS = {"Laplace": laws.laplace_tail, "Gaussian": laws.rounded_gaussian_tail}


@pytest.mark.parametrize("moved", [1, 2, 5])
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(40)])
def test_the_rules_numbers_are_the_spec_s(scale: Fraction, moved: int) -> None:
    for distance in (1, 3, 12):
        threshold = moved + distance
        # more digits than the tails, some exp(-(distance / scale)^2 / 2), have zeros
        with mp.workdps(40 + int(((distance + 1) / scale) ** 2 / 4)):
            epsilon, delta = spec_rules.moved_histogram(scale, threshold, moved)
            guarantee = _laplace(scale, threshold, moved)
            assert isinstance(guarantee, ApproxDP)
            assert guarantee.epsilon == epsilon
            assert delta <= real(guarantee.delta) <= delta * (1 + mp.mpf("1e-12"))
            square, delta = spec_rules.moved_histogram(scale, threshold, moved, gaussian=True)
            shown = _gaussian(scale, threshold, moved)
            assert isinstance(shown, ApproximateGaussianDP)
            assert shown.mu_squared == square
            assert delta <= real(shown.delta) <= delta * (1 + mp.mpf("1e-12"))


def test_adjacency_does_not_matter_where_the_premise_says_how_many_move() -> None:
    for rule in (rules.stability_histogram, rules.gaussian_stability_histogram):
        width = "scale" if rule is rules.stability_histogram else "sigma"
        given: dict[str, Any] = {width: Fraction(3), "threshold": 9}
        one, two = (rule(_moved(2, adjacency), **given) for adjacency in Adjacency)
        assert one.conclusion.guarantee == two.conclusion.guarantee


def _changes(moved: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """List the counts that differ, for all ways in which at most so many of 5 things go to other
    ones of 4 keys."""
    tables = [t for t in product(range(_THINGS + 1), repeat=_KEYS) if sum(t) == _THINGS]
    changes = set()
    for left, right in product(tables, repeat=2):
        pairs = tuple(sorted(p for p in zip(left, right, strict=True) if p[0] != p[1]))
        if pairs and sum(abs(a - b) for a, b in pairs) <= 2 * moved:
            changes.add(pairs)
    yield from sorted(changes)


def _shown(tail: Any, count: int, cuts: range) -> Any:
    return laws.binned(tail, count, cuts) if count else {0: mp.mpf(1)}


def _cases(noise: str) -> list[Case]:
    cases = []
    for (width, threshold), moved in product(_SETTINGS, (1, 2)):
        loss = 2 * moved / width
        epsilons = [loss * Fraction(i, 4) for i in (0, 2, 4, 8)] + [Fraction(800)]
        for pairs in _changes(moved):
            released = []
            for counts in pairs:
                top = max(threshold, max(counts) + (noise == "Gaussian"))
                cuts = range(threshold, top + 1)
                one, two = (_shown(_TAILS[noise](width), count, cuts) for count in counts)
                released.append((one, two))
            cases.append(measure((width, threshold, moved), laws.joint(released), epsilons))
    return cases


@pytest.mark.parametrize("noise", _RULES)
def test_what_is_released_of_neighbors_keeps_the_promise_and_needs_it(noise: str) -> None:
    cases = _cases(noise)
    rule = _RULES[noise]
    assert holds(rule, cases)
    assert {c.facts for c in cases} == {c.facts for c in cases if _is_worst(c, rule)}
    for name, twin in _twins(noise).items():
        assert not holds(twin, cases), name


def _is_worst(case: Case, rule: Any) -> bool:
    """Pairs whose delta at a large epsilon is all of the rule's."""
    delta = real(rule(*case.facts).delta_floor)
    return bool(case.sticks[Fraction(800)] > delta * (1 - mp.mpf("1e-9")))


def _twins(noise: str) -> dict[str, Any]:
    """Build twins for keys instead of things: as if no two could meet; as if a thing moved one
    count; half."""

    def as_keys(width: Fraction, threshold: int, moved: int) -> Any:
        premise = lemma(2 * moved, query="q", norm=Norm.KEYS, adjacency=Adjacency.ADD_REMOVE)
        if noise == "Laplace":
            return rules.stability_histogram(
                premise, scale=width, threshold=threshold
            ).conclusion.guarantee
        made = rules.gaussian_stability_histogram(premise, sigma=width, threshold=threshold)
        return made.conclusion.guarantee

    def apart(width: Fraction, threshold: int, moved: int) -> Any:
        own = _RULES[noise](width, threshold, moved)
        one = _RULES[noise](width, threshold, 1).delta_floor
        delta = 1 - (1 - one) ** moved
        if noise == "Laplace":
            return ApproxDP(own.epsilon, delta)
        return ApproximateGaussianDP.of_square(own.mu_squared, delta)

    def one_count(width: Fraction, threshold: int, moved: int) -> Any:
        own = _RULES[noise](width, threshold, moved)
        if noise == "Laplace":
            return ApproxDP(own.epsilon / 2, own.delta)
        return ApproximateGaussianDP.of_square(own.mu_squared / 2, own.delta)

    twins = {"no two meet": apart, "one count": one_count}
    return twins | ({"keys": as_keys} if noise == "Gaussian" else {})


@pytest.mark.parametrize(
    ("premise", "threshold", "message"),
    [
        (_moved("3/2"), 9, "a whole number of things move, at least 1"),
        (_moved(0), 9, "a whole number of things move, at least 1"),
        (_moved(17), 99, "is for up to 16"),
        (_moved(2), 2, "2 things that move hold would surface .* Give a threshold of 3 or more"),
        (_moved(1), 1, "Give a threshold of 2 or more"),
    ],
)
def test_what_promises_nothing_is_refused(premise: Any, threshold: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rules.stability_histogram(premise, scale=1, threshold=threshold)
