"""Rules about one release: their numbers, and that finite mechanisms keep what they promise.

Every check is a function of the rule's number, so that a false twin of the rule can be seen to
fail it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings

from dpverify.privacy import Adjacency, Guarantee, Norm, PerfectPrivacy, PureDP, rules
from spec.theory import rules as spec_rules
from spec.theory.obligations import datasets

from .finite import Law, Pair, laplace_law, response_law, satisfies
from .makers import fractions, lemma

_steady = settings(derandomize=True, deadline=None, max_examples=200)
_POSITIVE = fractions("1/10000", 10000)

Number = Callable[[Fraction, Fraction], Fraction]
"""A sensitivity and a scale to an epsilon."""
SCALES = [Fraction(text) for text in ("1/5", "1/2", "1", "3/2", "4")]
# e^(-1 / scale) is stood in for by 1/2 throughout, that is e^epsilon by 2^(epsilon * scale).
_WEIGHT = Fraction(1, 2)


def _epsilon(guarantee: Guarantee) -> Fraction:
    if isinstance(guarantee, PureDP):
        return guarantee.epsilon
    assert guarantee == PerfectPrivacy()
    return Fraction(0)


def _laplace_rule(sensitivity: Fraction, scale: Fraction) -> Fraction:
    shown = rules.discrete_laplace(lemma(sensitivity), scale)
    return _epsilon(shown.conclusion.guarantee)


def _response_rule(sensitivity: Fraction, scale: Fraction) -> Fraction:
    premise = lemma(sensitivity, norm=Norm.HAMMING)
    return _epsilon(rules.randomized_response(premise, scale).conclusion.guarantee)


@_steady
@given(_POSITIVE, _POSITIVE)
def test_the_rules_numbers_are_the_spec_s(sensitivity: Fraction, scale: Fraction) -> None:
    expected = spec_rules.discrete_laplace(sensitivity, scale)
    assert expected == _laplace_rule(sensitivity, scale)
    expected = spec_rules.randomized_response(sensitivity, scale)
    assert expected == _response_rule(sensitivity, scale)


@pytest.mark.parametrize("scale", SCALES)
def test_noise_on_what_cannot_move_is_perfectly_private(scale: Fraction) -> None:
    for norm, rule in (
        (Norm.L1, rules.discrete_laplace),
        (Norm.HAMMING, rules.randomized_response),
    ):
        assert rule(lemma(0, norm=norm), scale).conclusion.guarantee == PerfectPrivacy()


def test_extreme_numbers_are_divided_exactly() -> None:
    tiny, huge = Fraction(5e-324), Fraction(1e308)
    assert _laplace_rule(huge, tiny) == huge / tiny
    assert _laplace_rule(tiny, huge) == tiny / huge
    assert _response_rule(Fraction(1), Fraction(3)) == Fraction(1, 3)


# --- discrete Laplace ---------------------------------------------------------------------------


def _centers() -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Query values of one and two coordinates that neighbors might have."""
    one = [((0,), (b,)) for b in (0, 1, 2, 5)]
    return one + [((0, 0), b) for b in product((-1, 0, 2), repeat=2)]


def _noisy(center: Sequence[int]) -> Law:
    marginals = [laplace_law(c, 6, _WEIGHT) for c in center]
    joint: Law = {}
    for outcome in product(*marginals):
        mass = Fraction(1)
        for marginal, coordinate in zip(marginals, outcome, strict=True):
            mass *= marginal[coordinate]
        joint[outcome] = mass
    return joint


_LAPLACE_CASES: list[tuple[Fraction, Pair]] = [
    (Fraction(sum(abs(x - y) for x, y in zip(a, b, strict=True))), (_noisy(a), _noisy(b)))
    for a, b in _centers()
]


def _keeps_its_promise(number: Number, cases: list[tuple[Fraction, Pair]]) -> bool:
    return all(
        satisfies(pair, number(distance, scale) * scale, Fraction(0))
        for scale in SCALES
        for distance, pair in cases
    )


def _wastes_nothing(number: Number, cases: list[tuple[Fraction, Pair]]) -> bool:
    return not any(
        satisfies(pair, number(distance, scale) * scale - Fraction(1, 7), Fraction(0))
        for scale in SCALES
        for distance, pair in cases
        if distance
    )


def test_discrete_laplace_noise_keeps_exactly_what_the_rule_promises() -> None:
    assert _keeps_its_promise(_laplace_rule, _LAPLACE_CASES)
    assert _wastes_nothing(_laplace_rule, _LAPLACE_CASES)


_FALSE_NUMBERS: dict[str, Number] = {
    "inverted scale": lambda sensitivity, scale: sensitivity * scale,
    "half": lambda sensitivity, scale: sensitivity / scale / 2,
    "sensitivity forgotten": lambda sensitivity, scale: 1 / scale,
    "scale forgotten": lambda sensitivity, scale: sensitivity,
    "variance for scale": lambda sensitivity, scale: sensitivity / (2 * scale**2),
    "a hair less": lambda sensitivity, scale: sensitivity / scale * Fraction(999, 1000),
}


@pytest.mark.parametrize("twin", _FALSE_NUMBERS.values(), ids=_FALSE_NUMBERS)
def test_false_twins_of_the_laplace_rule_are_caught(twin: Number) -> None:
    assert not _keeps_its_promise(twin, _LAPLACE_CASES)


def test_a_wasteful_twin_of_the_laplace_rule_is_caught() -> None:
    def double(sensitivity: Fraction, scale: Fraction) -> Fraction:
        return 2 * sensitivity / scale

    assert _keeps_its_promise(double, _LAPLACE_CASES)
    assert not _wastes_nothing(double, _LAPLACE_CASES)


def test_the_largest_coordinate_instead_of_their_sum_is_caught() -> None:
    def largest(a: tuple[int, ...], b: tuple[int, ...]) -> Fraction:
        return Fraction(max(abs(x - y) for x, y in zip(a, b, strict=True)))

    cases = [(largest(a, b), (_noisy(a), _noisy(b))) for a, b in _centers()]
    assert not _keeps_its_promise(_laplace_rule, cases)


# --- randomized response ------------------------------------------------------------------------


def _response_cases() -> list[tuple[Fraction, Pair]]:
    cases = []
    for categories, n in ((2, 1), (2, 3), (3, 2), (4, 1)):
        for other in product(range(categories), repeat=n):
            truth = (0,) * n
            differing = Fraction(sum(x != y for x, y in zip(truth, other, strict=True)))
            laws = [response_law(answers, categories, _WEIGHT) for answers in (truth, other)]
            cases.append((differing, (laws[0], laws[1])))
    return cases


def test_randomized_response_keeps_exactly_what_the_rule_promises() -> None:
    assert _keeps_its_promise(_response_rule, _response_cases())
    assert _wastes_nothing(_response_rule, _response_cases())


@pytest.mark.parametrize("twin", _FALSE_NUMBERS.values(), ids=_FALSE_NUMBERS)
def test_false_twins_of_the_response_rule_are_caught(twin: Number) -> None:
    assert not _keeps_its_promise(twin, _response_cases())


def test_a_wasteful_twin_of_the_response_rule_is_caught() -> None:
    def double(sensitivity: Fraction, scale: Fraction) -> Fraction:
        return 2 * sensitivity / scale

    assert not _wastes_nothing(double, _response_cases())


# --- public values ------------------------------------------------------------------------------

Query = Callable[[tuple[int, ...]], int]
Accepts = Callable[[Fraction, Adjacency], bool]

_QUERIES: dict[str, Query] = {
    "a constant": lambda data: 7,
    "how many": len,
    "how many ones": lambda data: sum(row == 1 for row in data),
    "the sum": sum,
    "three times the sum": lambda data: 3 * sum(data),
}


def _neighbors(adjacency: Adjacency) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    every = list(datasets((0, 1, 2), 3))
    return [(a, b) for a in every for b in every if adjacency.are_neighbors(a, b)]


def _by_the_rule(sensitivity: Fraction, adjacency: Adjacency) -> bool:
    try:
        shown = rules.public_value(lemma(sensitivity, adjacency=adjacency))
    except ValueError:
        return False
    assert shown.conclusion.guarantee == PerfectPrivacy()
    return True


def _released_values_are_public(accepts: Accepts) -> bool:
    """Return whether no accepted query ever moves, by its largest move over all neighbors."""
    accepted = 0
    for adjacency in Adjacency:
        pairs = _neighbors(adjacency)
        for query in _QUERIES.values():
            sensitivity = Fraction(max(abs(query(a) - query(b)) for a, b in pairs))
            if accepts(sensitivity, adjacency):
                accepted += 1
                laws: list[tuple[dict[Any, Fraction], dict[Any, Fraction]]] = [
                    ({query(a): Fraction(1)}, {query(b): Fraction(1)}) for a, b in pairs
                ]
                if any(spec_rules.hockey_stick(p, q, Fraction(1)) for p, q in laws):
                    return False
    # A constant under both adjacencies, and the number of rows under replace.
    assert accepted >= 3, "a rule that accepts nothing is not what is tested here"
    return True


def test_a_public_value_has_the_same_law_on_all_neighbors() -> None:
    assert _released_values_are_public(_by_the_rule)


@pytest.mark.parametrize(
    "twin",
    [
        lambda sensitivity, adjacency: sensitivity <= 1,
        lambda sensitivity, adjacency: adjacency is Adjacency.REPLACE,
        lambda sensitivity, adjacency: sensitivity != 2,
    ],
    ids=["small moves", "replace", "two"],
)
def test_false_twins_of_the_public_value_rule_are_caught(twin: Accepts) -> None:
    assert not _released_values_are_public(twin)
