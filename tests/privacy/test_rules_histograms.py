"""Thresholded histograms: every small pair of neighbors, with all that may be released of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from math import erfc, exp, sqrt
from typing import Any

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpverify.privacy import Adjacency, ApproxDP, ApproximateGaussianDP, Guarantee, Norm, rules
from dpverify.privacy.adjacency import Friendly, Groups
from spec.theory import rules as spec_rules
from spec.theory.laws import real

from . import noise_laws as laws
from .makers import fractions, lemma
from .noise_laws import Case, RealLaw, RealPair, Rule, Tail, holds, measure, spares_nothing

_steady = settings(derandomize=True, deadline=None, max_examples=60)
_WIDTHS = fractions("1/10", 1000) | st.sampled_from([Fraction(1, 2**10), Fraction(2**45)])


def _keys(value: Any, adjacency: Any = Adjacency.ADD_REMOVE) -> Any:
    return lemma(value, query="the histogram", norm=Norm.KEYS, adjacency=adjacency)


def _laplace(scale: Fraction, threshold: int, keys: int, adjacency: Adjacency) -> Guarantee:
    premise = _keys(keys, adjacency)
    made = rules.stability_histogram(premise, scale=scale, threshold=threshold)
    return made.conclusion.guarantee


def _gaussian(sigma: Fraction, threshold: int, keys: int, adjacency: Adjacency) -> Guarantee:
    premise = _keys(keys, adjacency)
    made = rules.gaussian_stability_histogram(premise, sigma=sigma, threshold=threshold)
    return made.conclusion.guarantee


_RULES: dict[str, Rule] = {"Laplace": _laplace, "Gaussian": _gaussian}


def _rounded_up(bound: Fraction, truth: Any) -> bool:
    return bool(truth <= real(bound) <= truth * (1 + mp.mpf("1e-12")))


@_steady
@given(_WIDTHS, fractions(0, 60), st.integers(1, 20), st.sampled_from(Adjacency))
def test_the_rules_numbers_are_the_spec_s(
    width: Fraction, distance: Fraction, keys: int, adjacency: Adjacency
) -> None:
    facts = width, 2 + int(distance * width), keys
    replaced = adjacency is Adjacency.REPLACE
    with mp.workdps(1000):
        loss, delta = spec_rules.stability_histogram(*facts, replaced=replaced)
        made = _laplace(*facts, adjacency)
        assert isinstance(made, ApproxDP)
        assert made.epsilon == loss
        assert _rounded_up(made.delta, delta)
        if width > Fraction(1, 100):  # a smaller delta than 1e-4000: see the next test
            square, delta = spec_rules.gaussian_stability_histogram(*facts, replaced=replaced)
            shown = _gaussian(*facts, adjacency)
            assert isinstance(shown, ApproximateGaussianDP)
            assert (shown.mu_squared, shown.tv) == (square, Fraction(0))
            assert _rounded_up(shown.delta, delta)


@_steady
@given(_WIDTHS, fractions(0, 60), st.integers(1, 20), st.sampled_from(Adjacency))
def test_the_tests_numbers_are_the_spec_s(
    width: Fraction, distance: Fraction, values: int, adjacency: Adjacency
) -> None:
    facts = width, 2 + int(distance * width), values
    with mp.workdps(1000):
        loss, delta = spec_rules.propose_test_release(*facts)
        premise = lemma(values, query="the bins", norm=Norm.STABLE, adjacency=adjacency)
        made = rules.propose_test_release(premise, scale=width, threshold=facts[1])
        shown = made.conclusion.guarantee
        assert isinstance(shown, ApproxDP)
        assert shown.epsilon == loss
        assert _rounded_up(shown.delta, delta)


@pytest.mark.parametrize(
    ("rule", "width", "threshold"),
    [
        (_laplace, Fraction(1), 9500),
        (_laplace, Fraction(1, 2**10), 10),
        (_gaussian, Fraction(1), 142),
        (_gaussian, Fraction(1, 2**10), 2),
    ],
)
def test_a_threshold_far_above_the_noise_leaves_a_tiny_delta(
    rule: Rule, width: Fraction, threshold: int
) -> None:
    # The true ones are below 1e-4000; a parameter has at most 4000 digits.
    made = rule(width, threshold, 1, Adjacency.ADD_REMOVE)
    assert Fraction(1, 10**4000) <= made.delta_floor < Fraction(1, 10**3000)


# --- neighbors ----------------------------------------------------------------------------------

Dataset = tuple[tuple[int, ...], ...]
"""Records, each with a 1 for every key that it has."""
Changes = tuple[tuple[int, ...], ...]
"""The two counts of each key whose count changes."""


def _neighbors(keys: int, adjacency: Adjacency) -> Iterator[tuple[Dataset, Dataset]]:
    """Nobody else, everybody else once or five times on every key, or on half of the keys only."""
    records = [r for r in product((0, 1), repeat=2 * keys) if 1 <= sum(r) <= keys]
    every = tuple(r for r in records if sum(r) == 1)
    for rest in ((), every, every * 5, every[:keys] * 5, every[: keys + 1] * 2):
        others = [()] if adjacency is Adjacency.ADD_REMOVE else [(r,) for r in records]
        for record, other in product(records, others):
            pair = (record, *rest), (*other, *rest)
            if pair[0] != pair[1]:
                assert adjacency.are_neighbors(*pair)
                yield pair


@cache
def _changes(keys: int, adjacency: Adjacency) -> list[Changes]:
    """Each once; a key whose count does not change has the same law for both, and is left out."""
    changes = set()
    for pair in _neighbors(keys, adjacency):
        counts = [tuple(sum(r[key] for r in data) for data in pair) for key in range(2 * keys)]
        changes.add(tuple(sorted(both for both in counts if both[0] != both[1])))
    return sorted(changes)


def _shown(tail: Tail, count: int, cuts: Sequence[int]) -> RealLaw:
    """count + Z if it is at or above the first cut, the threshold; without a record nothing is."""
    return laws.binned(tail, count, cuts) if count else {0: mp.mpf(1)}


def _released(tail: Tail, changes: Changes, threshold: int, reach: int) -> RealPair:
    """Return for each key hidden (0) or its noisy count, lumped above the larger count + reach."""
    pairs = []
    for counts in changes:
        cuts = range(threshold, max(threshold, max(counts) + reach) + 1)
        one, two = (_shown(tail, count, cuts) for count in counts)
        pairs.append((one, two))
    return laws.joint(pairs)


_TAILS = {"Laplace": laws.laplace_tail, "Gaussian": laws.rounded_gaussian_tail}
_SETTINGS = {
    "Laplace": [(Fraction(1), 2), (Fraction(1, 2), 4), (Fraction(5), 3)],
    "Gaussian": [(Fraction(1), 2), (Fraction(1, 2), 4), (Fraction(3), 5)],
}


@cache
def _cases(noise: str) -> list[Case]:
    cases = []
    for (width, threshold), keys, adjacency in product(_SETTINGS[noise], (1, 2), Adjacency):
        loss = (2 if adjacency is Adjacency.REPLACE else 1) * keys / width
        epsilons = [loss * Fraction(i, 4) for i in (0, 1, 2, 3, 4, 8)]
        for changes in _changes(keys, adjacency):
            reach = 0 if noise == "Laplace" else 1  # Laplace: beyond both counts loss is constant
            pair = _released(_TAILS[noise](width), changes, threshold, reach)
            cases.append(measure((width, threshold, keys, adjacency), pair, epsilons))
    return cases


@cache
def _lonely(noise: str) -> list[Case]:
    """Keys that only the changed record holds, at an epsilon where nothing but delta is left."""
    cases = []
    for (width, threshold), keys, adjacency in product(_SETTINGS[noise], (1, 2, 4), Adjacency):
        pair = _released(_TAILS[noise](width), ((1, 0),) * keys, threshold, reach=0)
        cases.append(measure((width, threshold, keys, adjacency), pair, [Fraction(800)]))
    return cases


@pytest.mark.parametrize("noise", _RULES)
def test_what_is_released_of_neighbors_keeps_the_promise(noise: str) -> None:
    changed = {len(changes) for adjacency in Adjacency for changes in _changes(2, adjacency)}
    assert changed == {1, 2, 3, 4}, "keys that a record and its replacement share, or not"
    assert holds(_RULES[noise], _cases(noise))


@pytest.mark.parametrize("noise", _RULES)
def test_delta_is_attained_by_keys_that_nobody_else_holds(noise: str) -> None:
    assert holds(_RULES[noise], _lonely(noise))
    assert spares_nothing(_RULES[noise], _lonely(noise))


# --- twins --------------------------------------------------------------------------------------

Twin = Callable[[float, int, int], tuple[int, float]]
"""(chance that a lonely key surfaces, keys, 2 under replace) to (change of the counts, delta)."""
Chance = Callable[[float, int], float]


def _beyond(deviations: float) -> float:
    return erfc(deviations / sqrt(2)) / 2


_CHANCES: dict[str, Chance] = {
    "Laplace": lambda scale, threshold: exp(-(threshold - 1) / scale) / (1 + exp(-1 / scale)),
    "Gaussian": lambda sigma, threshold: _beyond((threshold - 1.5) / sigma),
}


def _right(chance: float, keys: int, steps: int) -> tuple[int, float]:
    return steps * keys, 1 - (1 - chance) ** keys


def _rule(noise: str, twin: Twin = _right, chance: Chance | None = None) -> Rule:
    """Build the rule in floats, with their rounding compensated, so that it is not what catches
    a twin."""

    def rule(width: Fraction, threshold: int, keys: int, adjacency: Adjacency) -> Guarantee:
        lonely = (chance or _CHANCES[noise])(float(width), threshold)
        moved, delta = twin(lonely, keys, 2 if adjacency is Adjacency.REPLACE else 1)
        delta *= 1 + 1e-9
        if noise == "Gaussian":
            return ApproximateGaussianDP.of_square(moved / width**2, delta)
        return ApproxDP(moved / width, delta)

    return rule


_FALSE: dict[str, Twin] = {
    "a hair less": lambda chance, *others: _right(chance * (1 - 1e-6), *others),
    "delta forgotten": lambda chance, keys, steps: (steps * keys, 0),
    "one key's delta": lambda chance, keys, steps: (steps * keys, chance),
    "replace for add-remove": lambda chance, keys, steps: _right(chance, keys, 1),
    "one key's loss": lambda chance, keys, steps: (steps, _right(chance, keys, 1)[1]),
}
_FALSE_CHANCES: dict[str, dict[str, Chance]] = {
    "Laplace": {
        "> for >=": lambda scale, threshold: _CHANCES["Laplace"](scale, threshold + 1),
        "real noise": lambda scale, threshold: exp(-(threshold - 1) / scale) / 2,
        "over e^epsilon": lambda scale, t: _CHANCES["Laplace"](scale, t) * exp(-1 / scale),
    },
    "Gaussian": {
        "> for >=": lambda sigma, threshold: _beyond((threshold - 0.5) / sigma),
        "real noise": lambda sigma, threshold: _beyond((threshold - 1) / sigma),
        "no count": lambda sigma, threshold: _beyond(threshold / sigma),
    },
}


@pytest.mark.parametrize("noise", _RULES)
def test_false_twins_of_the_histograms_are_caught(noise: str) -> None:
    cases = [*_cases(noise), *_lonely(noise)]
    assert holds(_rule(noise), cases)
    for name, twin in _FALSE.items():
        assert not holds(_rule(noise, twin), cases), name
    for name, chance in _FALSE_CHANCES[noise].items():
        assert not holds(_rule(noise, chance=chance), cases), name


def test_the_union_bound_holds_and_is_not_attained() -> None:
    def union(chance: float, keys: int, steps: int) -> tuple[int, float]:
        return steps * keys, min(keys * chance, 0.99)

    assert holds(_rule("Laplace", union), _cases("Laplace"))
    assert not spares_nothing(_rule("Laplace", union), _lonely("Laplace"))


# --- side conditions ----------------------------------------------------------------------------

_HISTOGRAMS: list[tuple[Callable[..., Any], str]] = [
    (rules.stability_histogram, "scale"),
    (rules.gaussian_stability_histogram, "sigma"),
]


@pytest.mark.parametrize(("rule", "width"), _HISTOGRAMS)
def test_premises_that_are_about_no_number_of_keys_are_refused(rule: Any, width: str) -> None:
    for premise, message in (
        (
            lemma(1),
            "a thresholded histogram needs a sensitivity in keys a record or things moved "
            "distance, but",
        ),
        (_keys("3/2"), "a record touches a whole number of keys, at least 1."),
        (_keys(0), "a record touches a whole number of keys, at least 1."),
        (_keys(1, Groups(Adjacency.REPLACE, 2)), "no claim under groups of 2, replace."),
        (_keys(1, Friendly("close")), "no claim under friendly add-remove (close)."),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            rule(premise, threshold=10, **{width: 1})


@pytest.mark.parametrize(("rule", "width"), _HISTOGRAMS)
def test_scales_and_thresholds_that_are_none_are_refused(rule: Any, width: str) -> None:
    def refused(kind: type[Exception], message: str, *, threshold: Any = 9, scale: Any = 1) -> None:
        with pytest.raises(kind, match=re.escape(message)):
            rule(_keys(1), threshold=threshold, **{width: scale})

    for least in (1, 0, -5):
        message = f"threshold = {least}: a key that one record holds would surface about every"
        refused(ValueError, message, threshold=least)
    for odd in (True, 10.0, Fraction(10), "10"):
        refused(TypeError, f"threshold = {odd!r} is a", threshold=odd)
    for scale in (0, -1, Fraction(-1, 3)):
        refused(ValueError, f"{width} = {scale} is not positive; noise needs", scale=scale)
    refused(ValueError, f"{width} = nan is not finite", scale=float("nan"))
    with pytest.raises(
        ValueError, match=r"would surface almost surely; raise the threshold or the noise"
    ):
        rule(_keys(1000), threshold=2, **{width: 10})
    assert rule(_keys(3), threshold=9, **{width: 1}).premises == (_keys(3),)


def test_values_that_are_no_stable_ones_are_refused() -> None:
    def refused(premise: Any, message: str, threshold: Any = 9, scale: Any = 1) -> None:
        with pytest.raises(ValueError, match=re.escape(message)):
            rules.propose_test_release(premise, scale=scale, threshold=threshold)

    def stable(value: Any, adjacency: Any = Adjacency.REPLACE) -> Any:
        return lemma(value, query="the bins", norm=Norm.STABLE, adjacency=adjacency)

    refused(_keys(1), "propose-test-release needs a sensitivity in stable values distance, but")
    refused(stable("3/2"), "there is a whole number of values, at least 1.")
    refused(stable(0), "there is a whole number of values, at least 1.")
    refused(stable(1, Groups(Adjacency.REPLACE, 2)), "no claim under groups of 2, replace.")
    refused(stable(1), "threshold = 1: a key that one record holds would surface", threshold=1)
    refused(stable(1), "scale = 0 is not positive", scale=0)
    refused(stable(1000), "would surface almost surely", threshold=2, scale=10)
