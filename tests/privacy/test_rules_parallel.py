"""Parallel composition by index, by an independent label and by value, on whole small datasets.

Records are (key, value); a block releases the noisy sum of its values. A rational base stands for e
(see finite.py), but for the examples with Gaussian noise and bounded range.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache, partial
from itertools import permutations, product
from typing import Any, NamedTuple

import mpmath as mp
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpverify import privacy as dp
from dpverify.privacy import Adjacency, Guarantee, parse_guarantee, rules
from dpverify.privacy.adjacency import Groups
from spec.theory import rules as spec_rules
from spec.theory.laws import real
from spec.theory.obligations import neighbors

from .finite import Law, Pair, laplace_law, satisfies
from .makers import conjectured, fractions, guarantee_of, lemma, numbers_of
from .noise_laws import DIGITS, joint, keeps, measure
from .test_rules_kinds import parts_of, ranged, rounded

Data = tuple[tuple[int, int], ...]
Labels = Iterator[tuple[Fraction, Sequence[int]]]
Block = Callable[[tuple[int, ...]], Law]
Parallel = Callable[..., Guarantee | None]
_REPLACE, _ADD_REMOVE = Adjacency.REPLACE, Adjacency.ADD_REMOVE


def _parallel(parts: Sequence[Guarantee], by: Any, about: Any, to: Any = None) -> Guarantee:
    premises = [conjectured(part, adjacency=about) for part in parts]
    return rules.parallel(premises, by=by, adjacency=to).conclusion.guarantee


# --- numbers ------------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.lists(st.tuples(fractions("1/1000", 5), fractions(0, "1/10000")), min_size=1, max_size=5))
@example(
    [(Fraction("4.9"), Fraction(1, 10**4)), (Fraction("4.9") + Fraction(1, 10**9), Fraction(0))]
)
def test_the_rule_s_numbers_are_the_spec_s(parts: list[tuple[Fraction, Fraction]]) -> None:
    """The largest of each number; or less, where one part is weaker than all others together."""
    guarantees = [guarantee_of(*part) for part in parts]
    largest = guarantee_of(*spec_rules.parallel(parts))
    weakest = [one for one in guarantees if all(other.implies(one) for other in guarantees)]
    expected = numbers_of(weakest[0] if weakest else largest)
    assert guarantee_of(*expected).implies(largest)
    for by, about in (("index", _REPLACE), ("independent_label", _REPLACE), ("value", _ADD_REMOVE)):
        assert numbers_of(_parallel(guarantees, by, about)) == expected
    with mp.workdps(DIGITS):
        doubled = numbers_of(_parallel(guarantees, "value", _ADD_REMOVE, _REPLACE))
        for above, true in zip(doubled, spec_rules.replace_from_add_remove(*expected), strict=True):
            assert true <= real(above) <= true * (1 + mp.mpf(10) ** -12)


@pytest.mark.parametrize(
    ("parts", "weakest"),
    [
        ("zcdp(1) + zcdp(2) + perfect", "zcdp(2)"),
        ("gaussian(1) + gaussian(2)", "gaussian(2)"),
        ("gaussian(2) + agaussian(1, 0.1, 0.01)", "agaussian(2, 0.1, 0.01)"),
        ("pure(1) + zcdp(0.5)", "zcdp(0.5)"),
        ("pure(1) + range(2)", "range(2)"),
        ("range(1) + pure(1)", "pure(1)"),
        ("perfect + perfect", "perfect"),
    ],
)
def test_the_weakest_part_is_what_holds_of_the_others_too(parts: str, weakest: str) -> None:
    given, expected = parts_of(parts), parse_guarantee(weakest)
    assert _parallel(given, "index", _REPLACE) == expected
    assert _parallel(given, "value", _ADD_REMOVE) == expected
    assert _parallel(given, "value", _ADD_REMOVE, _REPLACE) == expected.for_group(2)


# --- whole mechanisms on small datasets ---------------------------------------------------------


def _noisy(epsilon: int, told: Fraction = Fraction(0), *, sized: bool = False) -> Block:
    """Return the sum, which moves by 1, told with some chance; ``sized``: and the number of
    records."""

    @cache
    def block(values: tuple[int, ...]) -> Law:
        total, size = sum(values), len(values) if sized else 0
        noisy = laplace_law(total, 4, Fraction(1, 2**epsilon))
        law: Law = {(size, o): m * (1 - told) for o, m in noisy.items()}
        return law | {("told", total): told}

    return block


def _by_key(data: Data) -> Labels:
    yield Fraction(1), [key for key, _ in data]


def _by_index(data: Data) -> Labels:
    yield Fraction(1), [int(i >= 2) for i in range(len(data))]


def _by_label(data: Data) -> Labels:
    """Assign records to block 0 one time out of three."""
    for labels in product((0, 1), repeat=len(data)):
        yield Fraction(2 ** sum(labels), 3 ** len(data)), labels


def _by_halves(data: Data) -> Labels:
    """Assign half of the records, at random, to block 0."""
    every = {*permutations([int(i >= len(data) // 2) for i in range(len(data))])}
    for labels in sorted(every):
        yield Fraction(1, len(every)), labels


def _law(blocks: Sequence[Block], labels_of: Callable[[Data], Labels], data: Data) -> Law:
    """Return the average over the labels of the blocks' outputs, side by side."""
    law: Law = {}
    for chance, labels in labels_of(data):
        own = [tuple(v for (_, v), at in zip(data, labels, strict=True) if at == i) for i in (0, 1)]
        first, second = (block(values) for block, values in zip(blocks, own, strict=True))
        for (o, m), (p, n) in product(first.items(), second.items()):
            law[(o, p)] = law.get((o, p), Fraction(0)) + chance * m * n
    return law


class _World(NamedTuple):
    """Parts, what they are put together by, what they are about, and the conclusion."""

    parts: Sequence[Guarantee]
    by: str
    about: Adjacency
    to: Adjacency


@cache
def _cases() -> list[tuple[_World, Pair]]:
    cases, plain = list[tuple[_World, Pair]](), (dp.PureDP(1), dp.PureDP(2))
    bits, signed = ((0, 0), (0, 1)), tuple(product((0, 1), (-1, 1)))
    told = (dp.ApproxDP(1, "0.1"), dp.PureDP(2))
    rows: list[tuple[_World, Any, Any, int]] = [
        (_World(told, "index", _REPLACE, _REPLACE), _by_index, bits, 4),
        (_World(told, "index", _ADD_REMOVE, _ADD_REMOVE), _by_index, bits, 4),
        (_World(told, "independent_label", _REPLACE, _REPLACE), _by_label, bits, 3),
        (_World(told, "independent_label", _ADD_REMOVE, _ADD_REMOVE), _by_label, bits, 3),
        (_World(told, "value", _ADD_REMOVE, _ADD_REMOVE), _by_key, signed, 2),
        (_World(plain, "value", _ADD_REMOVE, _REPLACE), _by_key, signed, 2),
        (_World(plain, "value", _REPLACE, _REPLACE), _by_key, signed, 2),
    ]
    for world, labels_of, universe, most in rows:
        first, second = map(numbers_of, world.parts)
        sized = world.about is _REPLACE
        blocks = [_noisy(1, first[1], sized=sized), _noisy(2, second[1], sized=sized)]
        law = cache(partial(_law, blocks, labels_of))
        pairs = {(a, b) for a, b in neighbors(universe, most, world.to) if a < b}
        cases += [(world, (law(a), law(b))) for a, b in sorted(pairs)]
    return cases


def _rule(parts: Sequence[Guarantee], by: str, about: Any, to: Any) -> Guarantee | None:
    try:
        return _parallel(parts, by, about, to)
    except ValueError:
        return None


def _holds(rule: Parallel) -> bool:
    """Return whether all that the rule promises holds; a refusal promises nothing."""
    promised = {world: rule(*world) for world, _ in _cases()}
    return all(
        satisfies(pair, *numbers_of(guarantee))
        for world, pair in _cases()
        if (guarantee := promised[world]) is not None
    )


def _accepting(by: str, other: Adjacency) -> Parallel:
    """Takes parts under another adjacency for what they are not."""
    return lambda parts, how, about, to: _rule(
        parts, how, *((other, other) if how == by and about is to else (about, to))
    )


def _two_parts(parts: Sequence[Guarantee], by: str, about: Any, to: Any) -> Guarantee | None:
    both = rules.compose(*map(conjectured, parts)).conclusion.guarantee
    return _rule(parts, by, about, to) if about is to else both


def _with(change: Callable[[Fraction, Fraction], tuple[Fraction, Fraction]]) -> Parallel:
    def twin(*world: Any) -> Guarantee | None:
        guarantee = _rule(*world)
        return None if guarantee is None else guarantee_of(*change(*numbers_of(guarantee)))

    return twin


_TWINS: dict[str, Parallel] = {
    "by index under add-remove": _accepting("index", _REPLACE),
    "by value under replace": _accepting("value", _ADD_REMOVE),
    "a replaced record is one step": lambda parts, by, about, to: _rule(parts, by, about, None),
    "a replaced record is two parts": _two_parts,
    "the first part only": lambda parts, *world: _rule(parts[:1], *world),
    "the smallest epsilon": _with(lambda epsilon, delta: (epsilon / 2, delta)),
    "no delta": _with(lambda epsilon, delta: (epsilon, Fraction(0))),
}


def test_blocks_side_by_side_keep_what_the_rule_promises() -> None:
    assert _holds(_rule)
    refused = {(world.by, world.about) for world, _ in _cases() if _rule(*world) is None}
    assert refused == {("index", _ADD_REMOVE), ("value", _REPLACE)}


@pytest.mark.parametrize("twin", _TWINS.values(), ids=_TWINS)
def test_false_twins_of_parallel_composition_are_caught(twin: Parallel) -> None:
    assert not _holds(twin)


def test_labels_must_not_know_the_number_of_records() -> None:
    many, few = ((0, 0), (0, 1), (0, 1), (0, 1), (0, 1)), ((0, 1),) * 4
    blocks = [_noisy(1)] * 2
    for labels_of, holds in ((_by_label, True), (_by_halves, False)):
        pair = _law(blocks, labels_of, many), _law(blocks, labels_of, few)
        assert satisfies(pair, Fraction(1), Fraction(0)) is holds


# --- examples -----------------------------------------------------------------------------------


def test_a_value_replaced_inside_its_block_moves_gaussian_noise_by_two_mu() -> None:
    # Sums of values from -1 to 1 under noise of deviation 2: mu = 1/2 for every record.
    part, epsilons = dp.GaussianDP("1/2"), [Fraction(i, 2) for i in range(6)]
    one, two = (rounded(moved) for moved in (2, 4))  # moved by one, and by two
    other_block = measure((), joint([one, (one[1], one[0])]), epsilons)
    same_block = measure((), two, epsilons)
    promised = _parallel([part, part], "value", _ADD_REMOVE, _REPLACE)
    two_parts = _parallel([part, part], "value", _ADD_REMOVE), dp.GaussianDP.of_square("1/2")
    assert promised == dp.GaussianDP(1)
    assert [keeps(promised, case) for case in (other_block, same_block)] == [True, True]
    assert [keeps(two_parts[1], case) for case in (other_block, same_block)] == [True, False]
    assert [keeps(two_parts[0], case) for case in (other_block, same_block)] == [False, False]


def test_an_average_over_labels_keeps_the_profile_of_a_range_but_not_the_range() -> None:
    # Whether another record shares the block is told; alone the losses are 0.9 and -0.1, together
    # 0.1 and -0.9. Each pair has range 1, and their average over the label has range 1.8.
    pairs = [ranged(Fraction(1), Fraction(top, 10)) for top in (9, 1)]
    p, q = ({(i, o): pairs[i][side][o] / 2 for i in (0, 1) for o in (0, 1)} for side in (0, 1))
    averaged = measure((), (p, q), [Fraction(i, 8) for i in range(9)], losses=True)
    part = dp.BoundedRange(1)
    assert all(keeps(part, measure((), pair, [Fraction(0)], losses=True)) for pair in pairs)
    assert not keeps(part, averaged)
    promised = _parallel([part, part], "independent_label", _REPLACE)
    assert promised == dp.Profile([part])
    assert keeps(promised, averaged)
    assert not promised.implies(part)
    assert _parallel([part, part], "index", _REPLACE) == part
    # The same where an earlier block's coin, which is released, says which of the pairs it is.
    both = [conjectured(part, adjacency=_REPLACE)] * 2
    assert rules.parallel(both, by="index", chained=True).conclusion.guarantee == promised


def test_two_records_may_fall_into_two_blocks_so_groups_are_refused() -> None:
    # A block says, with noise, whether any record is 1: that moves by 1 whatever changes.
    def some(values: tuple[int, ...]) -> Law:
        return laplace_law(int(any(values)), 4, Fraction(1, 2))

    pair = tuple(_law([some, some], _by_label, ((0, bit),) * 2) for bit in (0, 1))
    assert not satisfies((pair[0], pair[1]), Fraction(1), Fraction(0))
    groups: Any = Groups(_REPLACE, 2)
    shown = rules.discrete_laplace(lemma(1, adjacency=groups), 1)  # so each block is 1-DP
    with pytest.raises(ValueError, match="groups of 2, replace"):
        rules.parallel([shown, shown], by="independent_label")


# --- side conditions ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "by", "about", "to", "message"),
    [
        ("pure(1)", "index", _ADD_REMOVE, None, "under replace, and these are under add-remove"),
        ("pure(1)", "value", _REPLACE, _REPLACE, "under add-remove, and these are under replace"),
        ("pure(1)", "label", _REPLACE, None, "by = 'label'; write 'index', 'independent_label' or"),
        ("pure(1)", "index", _REPLACE, _ADD_REMOVE, "under replace, the conclusion is asked under"),
        ("pure(1)", "independent_label", _ADD_REMOVE, _REPLACE, "the conclusion is asked under"),
        ("zcdp(1) + gaussian(1.5)", "value", _ADD_REMOVE, None, "none of zcdp(1), gaussian(1.5)"),
    ],
)
def test_what_is_not_parallel_is_refused(
    parts: str, by: str, about: Any, to: Any, message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        _parallel(parts_of(parts), by, about, to)
