"""Blocks: whose records they are, what they cost together, and that their law is the product."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpverify import PureDP, SeededBits
from dpverify.grid import Answers, ClampedSum, Count, Query, Released, Transcripts, View
from dpverify.grid.records import Records
from dpverify.grid.splits import ByHash, ByIndex, ByInterval, Split, members
from dpverify.grid.transcripts import NOTHING
from dpverify.plans import (
    Adaptive,
    Blocks,
    DiscreteLaplace,
    Gate,
    KaryResponse,
    Law,
    Part,
    Plan,
    Stage,
    stages_of,
)
from dpverify.plans.plan import derive
from dpverify.privacy import Adjacency, Derivation, Domain, Sensitivity
from dpverify.randomness.bits import IntArray
from tests.plans.nested import (
    ADD,
    DOMAIN,
    REPLACE,
    Masses,
    Rounds,
    answers,
    enumerated,
    law,
    likelihoods_are_masses,
    mean,
    stopping,
    twice,
)

HALVES = ByInterval((0.5,))
CORNERS = [0.0, -0.0, 5e-324, -5e-324, 2.2e-308, 0.5, -0.5, 1.5, 1e300, 1e308, -1e308, 1.7e308]
SPLITS: list[Split] = [
    HALVES,
    ByInterval((-1e308, 0.0, 5e-324, 1e308), 1),
    ByHash(1, 0),
    ByHash(7, -3),
    ByHash(7, -3, 2**63 - 1),
    ByHash(1 << 9, -1074),
    ByHash(5, 900),
]


# --- whose records --------------------------------------------------------------------------------


@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_a_record_s_block_is_a_function_of_the_record_alone(split: Split) -> None:
    """Alone, permuted, in chunks, repeated, in other memory. Planted below: a split that looks
    at more."""
    rng = np.random.default_rng(2)
    rows = rng.choice(CORNERS, (300, 2))
    labels = split.labels(rows)
    assert labels.dtype == np.int64
    assert ((labels >= 0) & (labels < split.blocks)).all()
    assert [int(split.labels(row[np.newaxis])[0]) for row in rows] == labels.tolist()
    order = rng.permutation(300)
    assert np.array_equal(split.labels(rows[order]), labels[order])
    assert np.array_equal(split.labels(np.repeat(rows, 2, axis=0)), np.repeat(labels, 2))
    assert np.array_equal(split.labels(np.asfortranarray(rows)), labels)
    chunks = [split.labels(part) for part in np.array_split(rows, 7)]
    assert np.array_equal(np.concatenate(chunks), labels)
    for n in (0, 1):
        assert np.array_equal(split.labels(rows[:n]), labels[:n])
        assert sum(map(len, members(split, rows[:n]))) == n


def test_minus_zero_and_records_of_one_cell_are_in_one_block() -> None:
    rows = np.array([[0.0, 0.0], [-0.0, 0.0], [1e-9, -1e-9], [5e-324, 0.0]])
    for split in (ByHash(1 << 20, 0), ByHash(1 << 20, -20)):
        assert len(set(split.labels(rows).tolist())) == 1
    assert ByInterval((0.0,)).labels(rows).tolist() == [1] * 4
    far = np.array([[1e308, 0.0], [1.7e308, 0.0], [2.0**40, 0.0]])
    assert len(set(ByHash(1 << 20, 0).labels(far).tolist())) == 1  # beyond the outer box


def test_hashed_blocks_are_about_equally_full_and_keys_differ() -> None:
    """Count records by block; no claim rests on it. 8000 records in 8 blocks of 1000, sd 30: all
    of 16 within 200 but 1e-9."""
    rows = np.random.default_rng(3).normal(size=(8000, 2))
    labels = [ByHash(8, -20, key).labels(rows) for key in (0, 1)]
    for one in labels:
        assert (np.abs(np.bincount(one, minlength=8) - 1000) < 200).all()
    assert (labels[0] == labels[1]).mean() < 0.2


@given(st.lists(st.sampled_from(CORNERS), max_size=30), st.sampled_from(SPLITS[:1] + SPLITS[2:]))
@settings(derandomize=True, deadline=None, max_examples=100)
def test_blocks_are_disjoint_all_records_and_in_order(data: list[float], split: Split) -> None:
    rows = np.array(data).reshape(-1, 1)
    blocks = members(split, rows)
    assert len(blocks) == split.blocks
    assert sorted(np.concatenate(blocks).tolist()) == list(range(len(data)))
    labels = split.labels(rows)
    for block, places in enumerate(blocks):
        assert places.tolist() == np.flatnonzero(labels == block).tolist()
    views = View(rows)
    parts = views.parts(split)
    assert parts is views.parts(split)  # once for each split
    assert [len(part) for part in parts] == [len(places) for places in blocks]


@dataclass(frozen=True, slots=True)
class ByRank:
    """Planted: which block a record is in depends on the number of records."""

    blocks: int = 2
    by: Literal["value"] = "value"

    def labels(self, records: Records) -> IntArray:
        return ((records[:, 0] > 0) + len(records)).astype(np.int64) % 2


def one_block_gains_one_record(split: Split, rows: Records, more: Records) -> bool:
    """Return whether adding a record adds it to one block and leaves all others unchanged."""
    before = [sorted(map(tuple, rows[some].tolist())) for some in members(split, rows)]
    together = np.concatenate([rows, more])
    after = [sorted(map(tuple, together[some].tolist())) for some in members(split, together)]
    changed = [k for k in range(split.blocks) if before[k] != after[k]]
    if len(changed) != 1:
        return False
    (k,) = changed
    return after[k] == sorted([*before[k], *map(tuple, more.tolist())])


def test_an_added_record_changes_its_block_alone() -> None:
    """The premise of parallel composition by value. Planted: a split that looks at n."""
    rng = np.random.default_rng(4)
    datasets = [
        (rng.choice(CORNERS, (n, 2)), rng.choice(CORNERS, (1, 2))) for n in (0, 1, 2, 9, 40)
    ]
    for split in SPLITS:
        assert all(one_block_gains_one_record(split, *pair) for pair in datasets), split
    assert not all(one_block_gains_one_record(ByRank(), *pair) for pair in datasets)
    fronts = ((np.concatenate([pair[1], pair[0]])[1:], pair[1]) for pair in datasets)
    assert all(one_block_gains_one_record(HALVES, *pair) for pair in fronts)


def test_a_removed_record_moves_all_later_ones_by_index() -> None:
    """Why it is private under replace alone: there, one block changes by one record."""
    rows = np.arange(9.0)[:, np.newaxis]
    split = ByIndex(3)
    blocks = [rows[some, 0].tolist() for some in members(split, rows)]
    assert blocks == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    fewer = [rows[1:][some, 0].tolist() for some in members(split, rows[1:])]
    assert sum(a != b for a, b in zip(blocks, fewer, strict=True)) == 3
    other = rows.copy()
    other[4] = -1
    changed = [other[some, 0].tolist() for some in members(split, other)]
    assert [a != b for a, b in zip(blocks, changed, strict=True)] == [False, True, False]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ByInterval((1.0, 1.0)), "increasing order"),
        (lambda: ByInterval((float("nan"),)), "increasing order"),
        (lambda: ByInterval((float("inf"),)), "increasing order"),
        (lambda: ByInterval((0.0,), -1), "a column"),
        (lambda: ByHash(0, 0), "from 1 to 2"),
        (lambda: ByHash(2, 0, 1 << 63), "key ="),
        (lambda: ByHash(2, 0, -1), "key ="),
        (lambda: ByIndex((1 << 20) + 1), "from 1 to 2"),
        (lambda: Blocks("b", ByIndex(3), (twice(), twice())), "2 plans for 3 blocks"),
    ],
)
def test_bad_splits_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_splits_from_lists_are_the_same() -> None:
    edges: Any = [0.5, 2]
    assert ByInterval(edges) == ByInterval((0.5, 2.0))
    assert hash(ByInterval(edges)) == hash(ByInterval((0.5, 2.0)))


# --- claims ---------------------------------------------------------------------------------------


def counts(*scales: Fraction | int) -> tuple[Plan, ...]:
    return tuple((Stage("n", Count(), DiscreteLaplace(scale)),) for scale in scales)


def test_blocks_cost_what_the_dearest_costs() -> None:
    """Planted: the sum of the blocks, or the first one's."""
    plan: Plan = (Blocks("b", ByInterval((0.0, 1.0)), counts(5, 2, 3)),)
    assert derive(plan, ADD, DOMAIN).conclusion.guarantee == PureDP(Fraction(1, 2))
    after: Plan = (*plan, Stage("all", Count(), DiscreteLaplace(4)))
    assert derive(after, ADD, DOMAIN).conclusion.guarantee == PureDP(Fraction(3, 4))
    assert [s.name for s in stages_of(after)] == ["b/0/n", "b/1/n", "b/2/n", "all"]
    hashed: Plan = (Blocks("b", ByHash(3, 0), counts(5, 2, 3)),)
    assert derive(hashed, ADD, DOMAIN).conclusion.guarantee == PureDP(Fraction(1, 2))


def test_by_value_under_replace_pays_twice() -> None:
    """A replaced record leaves one block and enters another. The plans are for add-remove: a
    count is private."""
    plan: Plan = (Blocks("b", HALVES, counts(2, 3)),)
    assert derive(plan, REPLACE, DOMAIN).conclusion.guarantee == PureDP(1)
    assert derive(plan[0].plans[0], REPLACE, DOMAIN).conclusion.guarantee != PureDP(1)  # type: ignore[union-attr]


def test_by_index_is_for_replace_alone() -> None:
    plan: Plan = (Blocks("b", ByIndex(2), (twice(1), twice(2))),)
    assert derive(plan, REPLACE, DOMAIN).conclusion.guarantee == PureDP(2)
    with pytest.raises(ValueError, match=r"by='index' needs claims|the conclusion is asked under"):
        derive((Blocks("b", ByIndex(2), counts(1, 1)),), ADD, DOMAIN)
    within: Plan = (Blocks("a", HALVES, ((Blocks("b", ByIndex(1), counts(1)),),) * 2),)
    for adjacency in Adjacency:  # blocks by value are for add-remove, whatever is around them
        with pytest.raises(
            ValueError, match=r"by='index' needs claims|the conclusion is asked under"
        ):
            derive(within, adjacency, DOMAIN)


def test_blocks_of_means_are_means() -> None:
    """A mechanism in each block, by value: its estimate is that of its own records."""
    one = mean(noise_multiplier=Fraction(1, 10**6))
    plan: Plan = (Blocks("b", HALVES, (one.fixed_plan, one.fixed_plan)),)
    assert derive(plan, ADD, DOMAIN).conclusion.guarantee == one.claim.guarantee
    rows = np.array([[-3.0], [2.0], [-1.0], [4.0], [3.0]])
    drawn = Law(plan, rows, ADD, DOMAIN).sample(SeededBits(1), 1)
    estimates = [one.estimate(drawn.within(f"b/{k}")) for k in range(2)]
    assert [getattr(e, "value", None) for e in estimates] == [-2.0, 3.0]
    rounds = Rounds(adjacency=ADD, parts=(("x", one),))
    assert rounds.claim.guarantee == one.claim.guarantee


def test_an_open_block_is_refused() -> None:
    from tests.plans.parted import CORE

    assert derive((Blocks("b", HALVES, (CORE.plan,) * 2),), ADD, DOMAIN).events
    with pytest.raises(ValueError, match="The claim of the part 'b/1' is open"):
        derive((Blocks("b", HALVES, (CORE.plan, CORE.plan[:-1])),), ADD, DOMAIN)


# --- laws -----------------------------------------------------------------------------------------


def block_law(plan: Plan, records: Any, name: str) -> Masses:
    """Return the law of a block's plan by itself on its records, under the names that it has in
    the whole."""
    masses, _ = enumerated(law(plan, records))
    return {(tuple((f"{name}/{n}", v) for n, v in o), s): m for (o, s), m in masses.items()}


def same(masses: Masses, expected: Masses) -> bool:
    return masses.keys() == expected.keys() and all(masses[k] == expected[k] for k in masses)


@pytest.mark.parametrize("data", [(1.0, 0.0), (0.0, 1.0), (1.0,), ()])
def test_the_law_of_two_blocks_is_the_product_of_their_laws(data: tuple[float, ...]) -> None:
    """Compare by index, with a gate in the first; fraction for fraction. Planted: the blocks
    exchanged."""
    plans: tuple[Plan, Plan] = (answers("x", 2),), (answers("x", 3), answers("y", 1))
    plan: Plan = (Blocks("b", ByIndex(2), plans), answers("last"))
    masses, _ = enumerated(law(plan, data))
    last, _ = enumerated(law((answers("last"),), data))
    blocks = [block_law(plans[k], data[k::2], f"b/{k}") for k in range(2)]
    assert same(masses, stopping(blocks[0], stopping(blocks[1], last)))
    assert likelihoods_are_masses(law(plan, data))
    if len(set(data)) == 2:
        turned = [block_law(plans[k], data[1 - k :: 2], f"b/{k}") for k in range(2)]
        assert not same(masses, stopping(turned[0], stopping(turned[1], last)))
        other: Plan = (Blocks("b", ByIndex(2), plans[::-1]), answers("last"))
        assert not same(masses, enumerated(law(other, data))[0])


def test_a_gate_of_a_block_stops_the_whole_plan() -> None:
    """Stop at the gate of each block in turn. Planted: a gate that stops the others' blocks
    only."""
    plans = (twice(1, reason="zero"), twice(2, reason="one"))
    plan: Plan = (Blocks("b", ByIndex(2), plans), answers("last"))
    data = (1.0, 1.0)
    masses, draws = enumerated(law(plan, data))
    last, _ = enumerated(law((answers("last"),), data))
    blocks = [block_law(plans[k], data[k::2], f"b/{k}") for k in range(2)]
    assert same(masses, stopping(blocks[0], stopping(blocks[1], last)))
    assert {draw.stopped for draw in draws.values()} == {"zero", "one", None}
    assert likelihoods_are_masses(law(plan, data))


def test_the_law_by_value_is_that_of_each_interval_s_records() -> None:
    """Compare counts with atoms of noise. Planted: every block sees all records."""
    plan: Plan = (Blocks("b", HALVES, counts(1, 1)),)
    data = np.array([[0.0], [0.5], [7.0], [-1.0], [0.9]])
    own = Law(plan, data, ADD, DOMAIN)
    masses, draws = enumerated(own)
    likeliest = draws[max(masses, key=lambda key: masses[key])]
    assert likeliest.released == {"b/0/n": (2,), "b/1/n": (3,)}
    assert likelihoods_are_masses(own)
    whole = Law((Blocks("b", ByHash(1, 0), counts(1)),), data, ADD, DOMAIN)
    assert max(enumerated(whole)[0].items(), key=lambda item: item[1])[0][0] == (("b/0/n", (5,)),)
    stages = stages_of(plan)
    assert [own.center_after(s, [(0,)] * i).tolist() for i, s in enumerate(stages)] == [[2], [3]]


def test_an_adaptive_stage_in_a_block_reads_its_own_block() -> None:
    """Planted: a reading of the first block by both."""

    def side(before: Any) -> Any:
        return before["side"]

    def build(row: tuple[int, ...]) -> Stage:
        return answers("more", 1 + 4 * row[0])

    inner: Plan = (answers("side"), Adaptive(build((0,)), Released(("side",), side), build))
    plan: Plan = (Blocks("b", ByIndex(2), (inner, inner)),)
    data = (1.0, 0.0)
    blocks = [block_law(inner, data[k::2], f"b/{k}") for k in range(2)]
    assert same(enumerated(law(plan, data))[0], stopping(*blocks))
    assert likelihoods_are_masses(law(plan, data))


def test_one_element_in_two_places_keeps_its_promise_in_each() -> None:
    """Check each place: what is built has sensitivity 1 for a record more or less and 2 for
    another one: as private as declared in the blocks, which are for add-remove, and not in the
    plan around them. Planted: a check done once for both."""

    def stage(low: int) -> Stage:
        return Stage("x", ClampedSum(low, 1, 0, 0), DiscreteLaplace(1))

    element = Adaptive(
        stage(0), Released((), lambda b: np.zeros((len(b), 0), int)), lambda row: stage(-1)
    )
    inside: Plan = (Blocks("b", HALVES, ((element,), (element,))),)
    data = np.array([[0.0], [1.0]])
    Law(inside, data, REPLACE, DOMAIN).sample(SeededBits(1), 3)
    both: Plan = (*inside, element)
    derive(both, REPLACE, DOMAIN)
    with pytest.raises(ValueError, match="declare the largest loss it can have"):
        Law(both, data, REPLACE, DOMAIN).sample(SeededBits(1), 3)


def test_a_gate_on_a_block_from_outside() -> None:
    plan: Plan = (Blocks("b", ByIndex(1), ((answers("x"),),)), Gate("b/0/x", 1, "no"), answers("y"))
    _, draws = enumerated(law(plan))
    assert {draw.stopped for draw in draws.values()} == {"no", None}
    assert likelihoods_are_masses(law(plan))
    assert isinstance(stages_of(plan)[0].noise, KaryResponse)
    assert isinstance(stages_of(plan)[0].query, Answers)


def test_printing_a_law_of_blocks_shows_no_data() -> None:
    plan: Plan = (Blocks("b", HALVES, counts(1, 1)),)
    secret = Law(plan, np.array([[12345.0], [0.0]]), ADD, DOMAIN)
    secret.sample(SeededBits(1), 1)
    assert "12345" not in repr(secret) + repr(secret._view) + repr(secret._view.parts(HALVES))


# --- blocks that read earlier ones ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Turned(Query):
    """The one bit of a block, turned where an odd number of bits was released in these stages."""

    after: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        return 1

    @property
    def reads(self) -> tuple[str, ...]:
        return self.after

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> IntArray:
        bit = np.array([int(view.records[0, 0])])
        if not self.after:
            return bit
        released: IntArray = sum(before[name] for name in self.after)  # type: ignore[assignment]
        return np.asarray((released + bit) % 2)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        return ClampedSum(0, 1, 0, 0).sensitivity(adjacency, domain)


def turned(*after: str, scale: int = 1, name: str = "bit") -> Stage:
    return Stage(name, Turned(after), DiscreteLaplace(Fraction(scale, 8)))


def chained(*plans: Plan, split: Split | None = None, name: str = "b") -> Blocks:
    return Blocks(name, split or ByIndex(len(plans)), plans, chained=True)


CHAIN: Plan = (
    turned(name="all"),
    chained(
        (turned(),),
        (turned("b/0/bit", "all"), turned("b/1/bit", name="again", scale=2)),
        (Adaptive(
            turned(),
            Released(("b/1/again",), lambda before: before["b/1/again"]),
            lambda row: turned(*["b/0/bit"] * (row[0] % 2), scale=1 + row[0] % 2),
        ),),
    ),
    turned("b/2/bit", name="last"),
)  # fmt: skip


PAIR: Plan = (chained((turned(),), (turned("b/0/bit"),)),)


def test_chained_blocks_see_what_was_released_before_and_cost_the_dearest() -> None:
    derivation = derive(CHAIN, REPLACE, DOMAIN)
    assert derivation.conclusion.guarantee == PureDP(8 + 12 + 8)
    assert likelihoods_are_masses(law(CHAIN, (1.0,) * 3), choices=40)


def test_each_chained_block_has_the_law_that_earlier_outputs_lead_to() -> None:
    """Compute by hand: block k's bit is the record's, plus what it follows from."""
    masses, _ = enumerated(law(PAIR, (1.0, 0.0)), 30)
    share = math.tanh(4)  # of noise 0
    for ((_, (a,)), (_, (b,))), _ in masses:
        own = share**2 * math.exp(-8 * (abs(a - 1) + abs(b - a % 2)))
        key = ((("b/0/bit", (a,)), ("b/1/bit", (b,))), None)
        assert math.isclose(float(masses[key]), own, rel_tol=1e-9)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ((chained((turned("b/1/bit"),), (turned(),)),), "'b/1/bit' is asked before"),
        (
            (
                chained(
                    (turned("b/0/bit"),),
                ),
            ),
            "'bit' is asked before|'b/0/bit' is asked before",
        ),
        (
            (
                chained(
                    (turned("bit", name="x"),),
                ),
            ),
            "'bit' is asked before",
        ),
        ((chained((turned(),), (turned("late"),)), turned(name="late")), "'late' is asked before"),
        ((Blocks("b", ByIndex(2), ((turned(),), (turned("b/0/bit"),))),), "'b/0/bit' is asked"),
    ],
)
def test_what_is_not_released_before_a_chained_block_is_refused(plan: Plan, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        derive(plan, REPLACE, DOMAIN)


def test_chained_blocks_in_chained_blocks_are_refused_but_in_a_part_they_are_read_there() -> None:
    inner = chained((turned(),), (turned("b/0/bit"),))
    with pytest.raises(ValueError, match="chained blocks in chained blocks"):
        chained((inner,), (turned(),), name="a")
    plan: Plan = (turned(), Part("p", (inner, turned("b/1/bit", name="last"))))
    assert derive(plan, REPLACE, DOMAIN).conclusion.guarantee == PureDP(24)
    assert likelihoods_are_masses(law(plan, (1.0, 0.0)), choices=30)
