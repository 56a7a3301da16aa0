"""Finite mechanisms with exact fractions: what the rules are tried on by brute force.

A rational ``BASE`` stands for e. Every rule here is algebra in e^epsilon, so a rule that is right
for e is right for 2, and the comparisons need no rounding.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping
from fractions import Fraction
from itertools import product

from spec.theory.rules import hockey_stick

BASE = Fraction(2)
Law = dict[Hashable, Fraction]
Pair = tuple[Law, Law]


def normalized(weights: Mapping[Hashable, Fraction]) -> Law:
    """Return the law with these weights."""
    total = sum(weights.values(), Fraction(0))
    return {outcome: weight / total for outcome, weight in weights.items()}


def slack(pair: Pair, epsilon: int) -> Fraction:
    """Return the least delta with which the pair is (epsilon, delta)-indistinguishable, both
    ways."""
    p, q = pair
    factor = BASE**epsilon
    return Fraction(max(hockey_stick(p, q, factor), hockey_stick(q, p, factor)))


def satisfies(pair: Pair, epsilon: Fraction, delta: Fraction) -> bool:
    """Return whether P(S) <= BASE^epsilon Q(S) + delta for every event, both ways.

    A fractional epsilon is compared exactly when delta is 0: P <= 2^(a/b) Q is P^b <= 2^a Q^b.
    """
    if epsilon.denominator == 1:
        return slack(pair, epsilon.numerator) <= delta
    assert delta == 0, "a fractional power of the base is compared only without a delta"
    a, b = epsilon.numerator, epsilon.denominator
    p, q = pair
    outcomes = {*p, *q}
    return all(
        one.get(o, Fraction(0)) ** b <= BASE**a * other.get(o, Fraction(0)) ** b
        for one, other in ((p, q), (q, p))
        for o in outcomes
    )


def random_pair(rng: random.Random, *, far: bool = False) -> Pair:
    """Return two laws on two to four outcomes; ``far`` allows outcomes that only one side has."""
    outcomes = range(rng.randint(2, 4))
    least = 0 if far and rng.random() < 0.5 else 1

    def law() -> Law:
        weights: dict[Hashable, Fraction] = {o: Fraction(rng.randint(least, 9)) for o in outcomes}
        weights[rng.choice(outcomes)] += 1  # never all zero
        return normalized(weights)

    return law(), law()


def tight_pair(epsilon: int, delta: Fraction) -> Pair:
    """Randomized response that tells outright with probability delta: nothing to spare."""
    yes = BASE**epsilon / (1 + BASE**epsilon) * (1 - delta)
    no = (1 - delta) - yes
    p: Law = {"left!": delta, "left?": yes, "right?": no}
    q: Law = {"right!": delta, "left?": no, "right?": yes}
    return p, q


def adaptive_product(first: Pair, then: Callable[[Hashable], Pair]) -> Pair:
    """Return the joint laws of a first output and a second stage that may depend on it."""

    def joint(side: int) -> Law:
        laws: Law = {}
        for o, mass in first[side].items():
            for o2, mass2 in then(o)[side].items():
                laws[(o, o2)] = mass * mass2
        return laws

    return joint(0), joint(1)


def pushed(law: Law, kernel: Callable[[Hashable], Law]) -> Law:
    """Return the law of a randomized function of the output."""
    result: Law = {}
    for outcome, mass in law.items():
        for image, share in kernel(outcome).items():
            result[image] = result.get(image, Fraction(0)) + mass * share
    return result


def response_law(answers: tuple[int, ...], categories: int, weight: Fraction) -> Law:
    """Return every list of answers by its weight, ``weight`` for each answer changed; then
    normalized."""
    weights: dict[Hashable, Fraction] = {}
    for output in product(range(categories), repeat=len(answers)):
        changed = sum(x != y for x, y in zip(output, answers, strict=True))
        weights[output] = weight**changed
    return normalized(weights)


def laplace_law(center: int, window: int, weight: Fraction) -> Law:
    """Two-sided geometric weights on [-window, window] and one outcome for each tail beyond.

    Outside a window that holds all centers a likelihood ratio is constant, so lumping the tails
    loses nothing.
    """
    weights: dict[Hashable, Fraction] = {
        x: weight ** abs(x - center) for x in range(-window, window + 1)
    }
    # weight^m + weight^(m+1) + ... = weight^m / (1 - weight)
    weights["below"] = weight ** (window + 1 + center) / (1 - weight)
    weights["above"] = weight ** (window + 1 - center) / (1 - weight)
    return normalized(weights)
