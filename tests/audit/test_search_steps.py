"""Pairs several steps apart, records of NaN, and the ends of integer types: what a search tries
by itself."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest

from dpverify import Adjacency, ApproxDP, GaussianDP, NoisyCount, PureDP
from dpverify.audit import (
    AuditResult,
    Box,
    NotConsistent,
    OutOfReachWarning,
    QueryMoves,
    Verdict,
    audit,
    search,
    templates,
    witness_of,
)
from dpverify.audit.neighbors.pairs import NeighboringPair, Steps, further, steps_of_edits
from dpverify.audit.neighbors.proposals import change_of, random_pair
from dpverify.audit.neighbors.search import SearchResult
from dpverify.privacy import Guarantee, Profile
from spec.theory.check_witness import check

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
BYTES = Box(low=0, high=255, integers=True)


def above(seed: int) -> Any:
    """Ten noisy comparisons with 0: each is .05-private, so all of them are .5-private."""
    rng = np.random.default_rng(seed)
    return lambda answers, size: np.array(answers) + rng.laplace(scale=20.0, size=(size, 10)) > 0


def looked(steps: tuple[int, ...] | None, **more: Any) -> SearchResult:
    return search(
        above(0), claim=PureDP("0.1"), domain=Box(low=-10, high=10, columns=10),
        adjacency=QueryMoves(), calls=60_000, alpha=1e-3, seed=0, vectorized=True, steps=steps,
        **more,
    )  # fmt: skip


def test_a_loss_that_adds_up_is_seen_several_steps_apart() -> None:
    """Search several steps apart: of one step no event of 60,000 calls tells .5 from .1; the
    loss of 8 steps is 4."""
    near, far = looked((1,)), looked(None)
    assert near.result is not None
    assert near.result.verdict is Verdict.POWERLESS
    assert (near.steps, far.steps) == (1, 8)
    assert far.result is not None
    assert far.result.verdict is Verdict.VIOLATED
    assert far.result.guarantee == PureDP("0.8")
    assert 0.1 < far.epsilon <= 0.5
    assert far.epsilon == far.result.epsilon / 8
    assert "steps      8, so some neighbors on the way have epsilon >= 0." in str(far)
    assert "8 steps apart" in repr(far)
    made = json.loads(json.dumps(far.to_dict(), allow_nan=False))
    assert made == far.to_dict()
    assert AuditResult.from_dict(made["audit"]) == far.result
    told = check(witness_of(far.result))
    assert told[0].endswith("all answers move by at most 8 neighbors")


@pytest.mark.parametrize("steps", [1, 3])
def test_a_sound_mechanism_is_not_flagged_several_steps_apart(steps: int) -> None:
    """Search at alpha = 1e-6 each."""
    rng = np.random.default_rng(1)

    def noisy(data: Any, size: int) -> Any:
        return np.round((sum(data) + rng.laplace(size=size)) * 1024)

    report = search(
        noisy, claim=PureDP(1), domain=Box(low=0, high=1), adjacency=ADD, calls=40_000, seed=2,
        vectorized=True, steps=(steps,),
    )  # fmt: skip
    assert report.result is not None
    assert report.result.verdict is Verdict.POWERLESS
    assert report.steps == steps
    assert 0.3 < report.epsilon <= 1.0


def test_pairs_are_named_once_after_what_they_come_from() -> None:
    report = search(
        lambda data, size: np.random.default_rng(size).laplace(size=size), claim=PureDP(1),
        domain=Box(low=0, high=1), adjacency=ADD, calls=20_000, seed=0, vectorized=True,
        steps=(4,),
    )  # fmt: skip
    names = [name for one in report.rounds for name, _ in one.best]
    assert any(name.endswith(", changed, 4 steps apart") for name in names)
    assert all(name.count("changed") <= 1 and name.count("apart") == 1 for name in names)


def test_the_delta_of_one_step_is_what_adds_up() -> None:
    """Add up deltas: for k steps with (epsilon, delta) each, delta (1 + e^epsilon + ...) is what
    a group is promised."""
    report = search(
        lambda data, size: np.full(size, len(data)), claim=ApproxDP("0.5", "1e-3"), domain=BYTES,
        adjacency=ADD, calls=20_000, seed=0, vectorized=True, steps=(2,),
    )  # fmt: skip
    assert report.result is not None
    certified, group = report.result.strongest, ApproxDP("0.5", "1e-3").for_group(2)
    assert report.result.guarantee == group
    assert report.epsilon == certified.epsilon / 2
    assert report.delta == pytest.approx(certified.delta / (1 + math.exp(report.epsilon)))


def test_how_far_apart_follows_from_the_calls() -> None:
    """Take as many steps as the draws are ample for: e^8 is too much for 20,000 calls, and e^0.8
    is not."""

    def far(claim: Guarantee, calls: int) -> set[int]:
        seen: set[int] = set()

        def watched(data: Any, size: int) -> Any:
            seen.add(len(data))
            return np.zeros(size)

        box = Box(low=0, high=1, rows=(0, 1 if calls < 0 else 20))
        search(watched, claim=claim, domain=box, adjacency=ADD, calls=abs(calls), seed=0,
               alpha=0.05, vectorized=True)  # fmt: skip
        return seen

    assert 8 in far(PureDP("0.1"), 20_000)  # eight records, or none
    assert 4 in far(PureDP(1), 40_000)
    assert 8 not in far(PureDP(1), 40_000) - {8}
    assert far(PureDP("0.1"), -20_000) == {0, 1}  # the box has room for one record


def test_claims_whose_groups_are_not_of_closed_form_are_searched_among_neighbors() -> None:
    claim = Profile([PureDP("0.2"), GaussianDP("0.1")], "1e-4")
    report = search(
        lambda data, size: np.full(size, len(data)), claim=claim, domain=BYTES, adjacency=ADD,
        calls=20_000, seed=0, alpha=0.05, vectorized=True,
    )  # fmt: skip
    assert report.steps == 1


def test_every_template_is_tried_before_any_is_repeated() -> None:
    box = Box(low=-10, high=10, columns=5)
    seen: set[tuple[float, ...]] = set()

    def watched(data: Any, size: int) -> Any:
        seen.add(tuple(data))
        return np.zeros(size)

    report = search(watched, claim=PureDP(1), domain=box, adjacency=QueryMoves(), calls=400_000,
                   seed=0, alpha=0.05, vectorized=True)  # fmt: skip
    wanted = list(templates(QueryMoves(), box))
    assert len(wanted) > 100
    assert all({tuple(pair.left), tuple(pair.right)} <= seen for pair in wanted)
    assert report.rounds[0].pairs > len(wanted) + 20  # and others besides
    few = search(watched, claim=PureDP(1), domain=box, adjacency=QueryMoves(), calls=20_000,
                 seed=0, alpha=0.05, vectorized=True)  # fmt: skip
    assert few.calls <= 20_000


def test_the_first_templates_are_of_all_kinds() -> None:
    first = [pair.name for pair in itertools.islice(templates(ADD, Box(nonfinite="replace")), 12)]
    for kind in ("nobody", "threshold", "shifts by a place", "record of nan", "1e+308", "beside 1"):
        assert any(kind in name for name in first), kind
    pairs = [*itertools.islice(templates(QueryMoves(), Box(low=-9, high=9, columns=4)), 12)]
    assert len({pair.name.split("; ")[0] for pair in pairs}) == 12


# --- records that nobody thinks of ----------------------------------------------------------


def certain(leak: Any, box: Box, calls: int = 20_000, adjacency: Adjacency = ADD) -> SearchResult:
    """Return a search of a function without noise that claims a large epsilon but for the leak."""
    return search(
        lambda data, size: np.full(size, leak(data)), claim=PureDP(3), domain=box,
        adjacency=adjacency, calls=calls, seed=0, vectorized=True, alpha=1e-3,
    )  # fmt: skip


@pytest.mark.parametrize("columns", [1, 3])
def test_a_record_of_nan_is_tried_where_the_domain_admits_it(columns: int) -> None:
    def leak(data: Any) -> float:
        return float(np.isnan(np.asarray(data, dtype=float)).any())

    replacing = Box(low=0, high=1, columns=columns, nonfinite="replace")
    assert certain(leak, replacing).epsilon > 3
    refusing = Box(low=0, high=1, columns=columns)
    assert certain(leak, refusing).epsilon == 0


def test_a_nan_in_one_column_is_tried_too() -> None:
    def leak(data: Any) -> float:
        rows = np.asarray(data, dtype=float).reshape(-1, 3)
        odd = np.isnan(rows)
        return float((odd.any(axis=1) & ~odd.all(axis=1)).any())

    assert certain(leak, Box(columns=3, nonfinite="replace"), calls=60_000).epsilon > 3


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16])
def test_sums_that_wrap_around_are_seen_at_the_ends_of_their_type(kind: Any) -> None:
    low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)

    def wraps(data: Any) -> float:
        with np.errstate(all="ignore"):
            total = np.asarray(data, dtype=kind).sum(dtype=kind)
        return float(int(total) != sum(data))

    bounds = {} if kind is np.int64 else {"low": low, "high": high}
    box = Box(integers=True, **bounds)  # type: ignore[arg-type]
    assert certain(wraps, box, calls=30_000).epsilon > 3


def test_integers_are_integers_up_to_the_last_one() -> None:
    records: set[Any] = set()
    for pair in templates(ADD, Box(integers=True)):
        records.update([*pair.left, *pair.right])
    assert {type(record) for record in records} == {int}
    assert {2**63 - 1, -(2**63), 2**31 - 1, 2**53, 1, 0} <= records
    assert max(records) == 2**63 - 1
    wide = [pair.left for pair in templates(ADD, Box(low=0, high=9, integers=True, columns=2))]
    assert {getattr(data, "dtype", None) for data in wide} == {np.dtype(np.int64)}
    assert not Box(integers=True).contains(2**63)
    assert not Box(low=0, high=9, integers=True).contains(9.5)
    assert Box(low=0, high=9, integers=True, columns=2).contains(np.array([0, 9]))


# --- the relation -----------------------------------------------------------------------------


def test_edits_are_counted_as_by_brute_force() -> None:
    def fewest(a: tuple[int, ...], b: tuple[int, ...]) -> int:
        """Count edits by the longest common subsequence."""
        for size in range(min(len(a), len(b)), -1, -1):
            if set(itertools.combinations(a, size)) & set(itertools.combinations(b, size)):
                return len(a) + len(b) - 2 * size
        raise AssertionError("the empty one is common")

    rng = np.random.default_rng(0)
    for _ in range(300):
        a, b = (tuple(rng.integers(3, size=rng.integers(6)).tolist()) for _ in range(2))
        expected = fewest(a, b)
        for most in range(8):
            assert steps_of_edits(a, b, most) == (expected if expected <= most else None)


def test_several_steps_are_neighbors_of_their_own() -> None:
    two = Steps(ADD, 2)
    assert str(two) == "add-remove, up to 2 steps"
    assert two.why_not_neighbors([1.0, 2.0, 3.0], [2.0]) is None
    assert two.why_not_neighbors([1.0], [2.0]) is None  # remove and add
    assert two.why_not_neighbors([1.0, 5.0], [2.0]) is not None
    other = Steps(REPLACE, 2)
    assert other.why_not_neighbors([1.0, 2.0, 3.0], [9.0, 2.0, 8.0]) is None
    assert "3 records differ" in str(other.why_not_neighbors([1.0, 2.0, 3.0], [7.0, 8.0, 9.0]))
    assert "keeps their number" in str(other.why_not_neighbors([1.0], []))
    with pytest.raises(ValueError, match="not add-remove, up to 2 steps neighbors: more than 2"):
        NeighboringPair(name="far", left=[1.0, 2.0, 3.0], right=[], adjacency=two)


def test_what_is_no_number_of_steps_is_refused() -> None:
    with pytest.raises(TypeError, match="QueryMoves"):
        Steps(QueryMoves(), 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="of a single step write replace"):
        Steps(REPLACE, 1)
    for steps in ((), (0, 1)):
        with pytest.raises(ValueError, match="give numbers from 1 on"):
            looked(steps)
    with pytest.raises(ValueError, match="has no room for so many"):
        search(above(0), claim=PureDP(1), domain=Box(low=0, high=1, rows=(0, 2)), adjacency=ADD,
               calls=20_000, alpha=0.05, steps=(1, 4))  # fmt: skip
    with pytest.raises(TypeError, match="give an integer"):
        looked((1.5,))  # type: ignore[arg-type]


def test_answers_that_are_whole_move_by_whole_steps() -> None:
    assert further(QueryMoves("1.5"), 4, integers=True) == QueryMoves(4)
    assert further(QueryMoves("1.5"), 4) == QueryMoves(6)
    assert further(ADD, 1) is ADD


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_random_pairs_several_steps_apart_are_what_they_say(adjacency: Adjacency) -> None:
    rng = np.random.default_rng(0)
    for i in range(50):
        pair = random_pair(f"random {i}", adjacency, Box(low=0, high=1), rng, 3)
        assert pair.adjacency == Steps(adjacency, 3)
        change = change_of(pair, Box(low=0, high=1))
        if change is not None:
            again = change.pair(adjacency, Box(low=0, high=1), 3)
            assert again is not None
            assert again.adjacency.why_not_neighbors(pair.left, again.left) is None


def test_an_audit_of_several_steps_names_them() -> None:
    pair = NeighboringPair(name="two", left=[1.0, 1.0], right=[], adjacency=Steps(ADD, 2))
    result = audit(
        lambda data: len(data), claim=PureDP("0.5").for_group(2), pairs=[pair], trials=400, seed=0
    )
    assert "under add-remove, up to 2 steps" in str(result)
    assert type(result).from_dict(result.to_dict()) == result


# --- one set of defaults -----------------------------------------------------------------------


def test_a_search_has_the_defaults_of_an_audit() -> None:
    """One output a call, and a false alarm once in a million."""
    rng = np.random.default_rng(0)
    report = search(
        lambda data: round(float(sum(data)) + rng.laplace(), 2), claim=PureDP(1),
        domain=Box(low=0, high=1), adjacency=ADD, calls=10_000, seed=0,
    )  # fmt: skip
    assert report.result is not None
    assert report.result.alpha == 1e-6
    assert report.result.verdict is Verdict.POWERLESS
    with pytest.raises(NotConsistent, match="no fault was planted"):
        report.require_consistent()


def test_a_search_with_planted_faults_is_consistent() -> None:
    count = NoisyCount.for_budget(PureDP(1), adjacency=ADD)
    rng = np.random.default_rng(0)

    def noisy(data: Any, size: int, scale: float = 1.0) -> Any:
        return np.round((len(data) + rng.laplace(scale=scale, size=size)) * 16)

    report = search(
        noisy, claim=PureDP(1), domain=Box(low=0, high=1), adjacency=ADD, calls=40_000, seed=0,
        vectorized=True, faults=[lambda data, size: noisy(data, size, 0.3)],
    )  # fmt: skip
    report.require_consistent()
    assert search(count, domain=Box(), calls=10_000, seed=0).result is not None


def test_a_search_of_a_claim_beyond_draws_warns_before_any_draw() -> None:
    def never(data: Any) -> None:
        raise AssertionError("drawn before the warning")

    with pytest.raises(OutOfReachWarning, match="out of reach"):  # warnings are errors here
        search(never, claim=ApproxDP(1, "1e-40"), domain=Box(), adjacency=ADD, calls=10_000, seed=0)
