"""The attack on declared sensitivities: the library's own queries, odd answers, results, refusals.

As in test_sensitivity, nothing is statistical: a right query is never flagged.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from audits._group_votes import GroupsByIndex
from dpverify.audit import Box, InvalidRun, NotConsistent
from dpverify.audit.sensitivity import (
    Excess,
    OutputNorm,
    audit_sensitivity,
)
from dpverify.audit.sensitivity.norms import measure_of, rounded_down
from dpverify.grid import (
    Answers,
    ClampedSum,
    Count,
    MaskedSum,
    OneUnit,
    Query,
    VectorSum,
)
from dpverify.grid.groups import GroupBuckets, KthLargest
from dpverify.grid.joint import WithCount
from dpverify.grid.tables import KeyedCounts, QuantileScores
from dpverify.privacy import Adjacency, Domain, Norm, exact
from tests.audit.sensitivity_subjects import (
    ADD,
    ONE,
    REPLACE,
    TWO,
    Array,
    attack,
    float64_sum,
    grid_sum,
    not_alternating,
    running_float32,
)

L1, L2 = OutputNorm.L1, OutputNorm.L2


LIBRARY: list[tuple[Query, Domain, tuple[Adjacency, ...]]] = [
    (Count(), ONE, (ADD,)),
    (Count((0.25, 7.0)), ONE, (ADD, REPLACE)),
    (ClampedSum(-5, 9, 1, -3), ONE, (ADD, REPLACE)),
    (VectorSum((0, 3), 1000, -8), TWO, (ADD, REPLACE)),
    (VectorSum((5, 0), 900, -9, ((1, 2), (0, 1))), TWO, (ADD,)),
    (MaskedSum((0, 3), 1000, -8, 1732), TWO, (ADD,)),
    (MaskedSum((0, 0), 1000, -8, 1732), TWO, (REPLACE,)),
    (WithCount(VectorSum((0, 3), 1000, -8), 50), TWO, (ADD, REPLACE)),
    (OneUnit(VectorSum((0, 3), 1000, -8), Fraction(777)), TWO, (ADD, REPLACE)),
    (OneUnit(MaskedSum((0, 3), 1000, -8, 1732), Fraction(777)), TWO, (ADD,)),
    (Answers(4), ONE, (REPLACE,)),
    (QuantileScores(-5, 20, -2, 1, 3), ONE, (ADD, REPLACE)),
    (KeyedCounts(3, 1, -2), ONE, (ADD, REPLACE)),
    (GroupBuckets(KthLargest(1), 1, 6, 0), ONE, (ADD, REPLACE)),
]


@pytest.mark.parametrize(
    ("query", "domain", "adjacency"),
    [(query, domain, each) for query, domain, adjacencies in LIBRARY for each in adjacencies],
    ids=lambda value: str(value)[:40],
)
def test_the_librarys_queries_keep_their_lemmas_and_no_smaller_ones(
    query: Query, domain: Domain, adjacency: Adjacency
) -> None:
    proved = query.sensitivity(adjacency, domain).conclusion
    # as many calls refute a 1% smaller claim (of integers: a claim of one less), so the silence
    # means something
    less = min(proved.value - 1, proved.value * Fraction(99, 100))
    claim: dict[str, Any] = {"norm": proved.norm, "bound": less}
    calls = next(
        n for n in (100, 400, 2000) if attack(query, adjacency, domain, calls=n, **claim).violated
    )
    silent = attack(query, adjacency, domain, calls=calls)
    assert not silent.violated
    assert (silent.bound, silent.norm) == (proved.value, measure_of(proved.norm).norm)


def test_a_count_of_everybody_is_free_under_replace() -> None:
    result = attack(Count(), REPLACE, ONE, calls=400)
    assert not result.violated
    assert result.bound == result.largest == 0


@pytest.mark.parametrize(
    ("query", "domain"),
    [(ClampedSum(-5, 9, 1, -3), ONE), (OneUnit(MaskedSum((0, 3), 90, -8, 155), Fraction(7)), TWO)],
)
def test_a_query_of_the_library_without_its_clipping_is_found(query: Query, domain: Domain) -> None:
    proved = query.sensitivity(ADD, domain).conclusion
    wild = query.unclipped()
    result = attack(wild, ADD, domain, norm=proved.norm, bound=proved.value, calls=400)
    assert result.violated
    assert not result.worst.problem


ODD: list[tuple[Callable[[Array], Any], str]] = [
    (lambda x: x.mean(), "NaN"),  # of nobody
    (lambda x: float(np.exp(min(1000.0, float(np.abs(x).sum())))), "infinite"),
    (lambda x: np.clip(x, 0, 1), r"shapes \(1,\) and \(0,\)"),
    (lambda x: [1] * len(x), "shapes"),
    (lambda x: 1 / len(x), "ZeroDivisionError"),
    (lambda x: np.linalg.inv(np.zeros((1, 1)) + len(x))[0], "LinAlgError: Singular"),
    (lambda x: int(x[0]) * 0, "IndexError"),
    (lambda x: 0 if len(x) else None, "no number but a NoneType"),
    (lambda x: 0 if len(x) < 3 else [[1, 2], [3]], "ragged|no number but a list"),
    (lambda x: len(x) if len(x) < 3 else np.zeros((2, 2)), "matrix|shapes"),
]


@pytest.mark.parametrize(("query", "said"), ODD)
def test_what_is_no_distance_is_an_infinite_one(query: Callable[[Array], Any], said: str) -> None:
    result = attack(query, ADD, ONE, norm=L1, bound=10**9, calls=400)
    assert result.violated
    assert result.largest == math.inf
    assert re.search(said, result.worst.problem)
    json.dumps(result.to_dict(), allow_nan=False)


def test_the_same_exception_on_both_sides_is_found_too() -> None:
    def never_two(x: Array) -> float:
        if len(x) == 2:
            raise OSError("disk on fire")
        return 0.0

    result = attack(never_two, REPLACE, ONE, norm=L1, bound=1, calls=400)
    assert result.violated
    assert "disk on fire" in result.worst.problem
    # under replace the number of records is public, so a caller may leave it out
    assert not attack(never_two, REPLACE, ONE, norm=L1, bound=1, rows=(3, 50)).violated


def test_warnings_of_the_query_are_no_findings() -> None:
    def noisy(x: Array) -> int:
        warnings.warn("look here", UserWarning, stacklevel=1)
        np.float64(1e308) * np.float64(1e308)
        return len(x)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not attack(noisy, ADD, ONE, norm=L1, bound=1, calls=300).violated


def test_records_may_be_nan_where_the_domain_says_so() -> None:
    def trusting(x: Array) -> float:
        return float(np.rint(np.clip(x, 0, 1)).sum())

    replacing = Domain(1, "replace")
    assert not attack(trusting, ADD, ONE, norm=L1, bound=1, calls=400).violated
    result = attack(trusting, ADD, replacing, norm=L1, bound=1, calls=400)
    assert result.violated
    assert "NaN" in result.worst.problem
    json.dumps(result.to_dict(), allow_nan=False)
    careful = attack(
        lambda x: trusting(np.nan_to_num(x)), ADD, replacing, norm=L1, bound=1, calls=400
    )
    assert not careful.violated
    assert not attack(ClampedSum(-5, 9, 1, -3), ADD, replacing, calls=400).violated


def test_a_result_reads_back_from_plain_data() -> None:
    result = attack(running_float32, REPLACE, ONE, norm=L1, bound="2.0", seed=3)
    data = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    for name, pair in (("worst", result.worst), ("simplest", result.simplest)):
        assert pair is not None
        sides = [
            np.array([row for times, row in data[name][side] for _ in range(times)])
            for side in ("left", "right")
        ]
        assert np.array_equal(sides[0], pair.left)
        assert np.array_equal(sides[1], pair.right)
        assert REPLACE.why_not_neighbors(*sides) is None
        left, right = (Fraction(float(running_float32(side[:, 0]))) for side in sides)
        far = abs(left - right)
        assert far > exact(data["bound"], "bound")
        assert data[name]["distance"] == rounded_down(far)
    assert data["violated"] is True
    assert data["norm"] == "L1"
    assert data["adjacency"] == "replace"


def test_the_text_says_what_silence_means() -> None:
    silent = str(attack(Count(), ADD, ONE, calls=200))
    assert silent.startswith("nothing found")
    assert "proves nothing" in silent
    text = str(attack(not_alternating, REPLACE, ONE, norm=L1, bound="0.5", calls=200))
    assert text.startswith("VIOLATED: not_alternating: L1 sensitivity 0.5 under replace")
    assert "does not give the promised privacy" in text


# Refusals, before anything is searched.


def test_a_query_that_changes_its_input_is_refused() -> None:
    def sorting(x: Array) -> float:
        x.sort()
        return 0.0

    def late(x: Array) -> float:
        if len(x) == 3:
            x[0] = 7.0
        return 0.0

    for query in (sorting, late):
        if query is sorting:  # one record is sorted already
            assert attack(lambda x: sorting(x.copy()), ADD, ONE, norm=L1, bound=1).violated is False
        with pytest.raises(ValueError, match=f"{query.__name__} changes the array"):
            attack(query, ADD, ONE, norm=L1, bound=1)


def test_a_random_query_is_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="two values for one dataset"):
        attack(lambda _: rng.normal(), ADD, ONE, norm=L1, bound=1)
    with pytest.raises(ValueError, match="two values for one dataset"):  # not on the probe
        attack(lambda x: rng.normal() * (len(x) > 1), ADD, ONE, norm=L1, bound=1)


def test_a_query_that_raises_on_all_data_is_invalid() -> None:
    """Raise on all data: on some it is an infinite distance; on all nothing was measured, and no
    claim refuted."""

    def on_some(x: Array) -> float:
        return 1 / (len(x) - 1)

    def on_all(x: Array) -> float:
        raise KeyError("age")

    assert attack(on_some, ADD, ONE, norm=L1, bound=1).violated
    with pytest.raises(InvalidRun, match=r"raised KeyError.* on all data, so nothing was measured"):
        attack(on_all, ADD, ONE, norm=L1, bound=1)


@pytest.mark.parametrize("output", [None, "1", {"a": 1}, 1j, [1, "2"], np.array(["a"])])
def test_what_returns_no_numbers_is_refused(output: Any) -> None:
    with pytest.raises(TypeError, match="no number but a"):
        attack(lambda _: output, ADD, ONE, norm=L1, bound=1)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"query": 7}, TypeError, "query is a int; give a function"),
    ({"norm": "L2"}, TypeError, "OutputNorm.L1.*FROBENIUS.*Mahalanobis.covariance"),
    ({"norm": None}, TypeError, "not one of the named norms"),
    ({"norm": 2}, TypeError, "not one of the named norms"),
    ({"norm": Norm.KEEP}, TypeError, "not one of the named norms"),
    ({"bound": -1}, ValueError, "negative"),
    ({"bound": math.inf}, ValueError, "not finite"),
    ({"bound": math.nan}, ValueError, "not finite"),
    ({"bound": "one"}, ValueError, "not a finite number"),
    ({"bound": None}, TypeError, "bound is missing"),
    ({"bound": True}, TypeError, "truth value"),
    ({"adjacency": "replace"}, TypeError, "Adjacency.ADD_REMOVE or Adjacency.REPLACE"),
    ({"adjacency": None}, TypeError, "Adjacency.ADD_REMOVE or Adjacency.REPLACE"),
    ({"domain": 1}, TypeError, "Box"),
    ({"domain": ONE}, TypeError, "write Box.low=0, high=1."),
    ({"calls": 99}, ValueError, "calls = 99; give at least 100"),
    ({"calls": 1e4}, TypeError, "calls"),
    ({"domain": Box(rows=(0, 1))}, ValueError, "at least 2 as the most"),
    ({"domain": Box(rows=(2, 5))}, ValueError, "under add-remove the number of records is private"),
    ({"progress": "yes"}, TypeError, "write True, False, None"),
    ({"seed": -1}, ValueError, "seed = -1; give at least 0"),
    ({"seed": 0.5}, TypeError, "seed"),
    ({"values": [math.inf]}, ValueError, "values"),
    ({"query": Count(), "bound": None}, TypeError, "both norm and bound"),
    ({"query": Count(), "norm": None}, TypeError, "both norm and bound"),
]


@pytest.mark.parametrize(("bad", "error", "said"), BAD)
def test_bad_parameters_are_refused(bad: dict[str, Any], error: type[Exception], said: str) -> None:
    good = {"query": grid_sum, "adjacency": ADD, "domain": Box(), "norm": L1, "bound": 1}
    with pytest.raises(error, match=said):
        audit_sensitivity(**{**good, **bad})


def test_a_lemma_that_does_not_exist_is_refused_by_the_query() -> None:
    with pytest.raises(ValueError, match="add-remove keeps private"):
        attack(Answers(3), ADD, ONE)


def test_groups_by_index_are_refuted_under_add_remove_alone() -> None:
    """Every later record goes to another group."""
    query = GroupsByIndex(KthLargest(1), 1, 6, 0)
    for adjacency, violated in ((ADD, True), (REPLACE, False)):
        assert attack(query, adjacency, ONE, calls=1000).violated is violated


# Excesses of rounding and of substance.


def scaled_by(factor: float) -> Callable[[Array], float]:
    """Return a count of the records in [0, 1], a little too large."""
    return lambda x: factor * int(((x >= 0) & (x <= 1)).sum())


@pytest.mark.parametrize(
    ("factor", "kind"),
    [
        (1.0, None),
        (1 + 2**-52, Excess.ROUNDING),
        (1 + 9e-7, Excess.ROUNDING),
        (1 + 1.1e-6, Excess.SUBSTANCE),
        (2.0, Excess.SUBSTANCE),
    ],
)
def test_an_excess_of_rounding_is_told_from_one_of_substance(
    factor: float, kind: Excess | None
) -> None:
    result = attack(scaled_by(factor), REPLACE, ONE, norm=L1, bound=1, calls=300)
    assert result.excess_of is kind
    assert result.violated == (kind is not None) == (not result.is_consistent)
    assert result.to_dict()["excess_of"] == (None if kind is None else str(kind))
    assert str(result).startswith(
        {
            None: "nothing found",
            Excess.ROUNDING: "VIOLATED BY ROUNDING: ",
            Excess.SUBSTANCE: "VIOLATED: ",
        }[kind]
    )
    assert ("does not give the promised privacy" in str(result)) == (kind is Excess.SUBSTANCE)
    assert ("by a rounding: at most a millionth" in str(result)) == (kind is Excess.ROUNDING)


def test_a_float_sum_rounds_and_a_float32_sum_is_broken() -> None:
    rounded = attack(float64_sum, ADD, ONE, norm=L1, bound=1, rows=(0, 100))
    assert rounded.excess_of is Excess.ROUNDING
    broken = attack(running_float32, REPLACE, ONE, norm=L1, bound=2, seed=3)
    assert broken.excess_of is Excess.SUBSTANCE


def test_the_simplest_pair_shows_what_the_worst_one_does() -> None:
    """Rounding on few records, and a wrong value on many: the pair that is shown must be of the
    second kind."""

    def both(x: Array) -> float:
        return (1 + 2**-52) * int((x >= 0).sum()) + 5 * (len(x) > 32)

    result = attack(both, ADD, ONE, norm=L1, bound=1, low=0, high=1, rows=(0, 64))
    assert result.excess_of is Excess.SUBSTANCE
    assert result.simplest is not None
    assert result.simplest.kind is Excess.SUBSTANCE
    assert len(result.simplest.left) == 33


def test_a_nan_is_no_rounding() -> None:
    result = attack(lambda x: x.mean(), ADD, ONE, norm=L1, bound=10**9, calls=300)
    assert result.excess_of is Excess.SUBSTANCE


def test_no_bound_has_no_rounding() -> None:
    result = attack(lambda x: 1e-300 * len(x), ADD, ONE, norm=L1, bound=0, calls=300)
    assert result.excess_of is Excess.SUBSTANCE


def test_a_result_is_asked_like_an_audit() -> None:
    result = attack(scaled_by(2), REPLACE, ONE, norm=L1, bound=1, calls=300)
    with pytest.raises(NotConsistent, match="VIOLATED: "):
        result.require_consistent()
    with pytest.raises(TypeError, match="no truth value"):
        assert result
    assert len(repr(result)) < 200
    assert "VIOLATED (substance)" in repr(result)
    attack(scaled_by(1), REPLACE, ONE, norm=L1, bound=1, calls=300).require_consistent()


def test_integers_are_whole_in_a_box_of_integers() -> None:
    seen: set[float] = set()

    def watching(x: Array) -> int:
        seen.update(x.tolist())
        return len(x)

    box = Box(low=-3, high=7, integers=True)
    result = audit_sensitivity(
        watching, adjacency=ADD, domain=box, norm=L1, bound=1, calls=400, seed=0
    )
    result.require_consistent()
    assert len(seen) > 5
    assert seen <= set(range(-3, 8))


def test_calls_are_told_to_a_function() -> None:
    told: list[tuple[int, int]] = []
    audit_sensitivity(
        len, adjacency=ADD, domain=Box(), norm=L1, bound=1, calls=400, seed=0,
        progress=lambda done, most: told.append((done, most)),
    )  # fmt: skip
    assert told[0] == (1, 400)
    assert 300 < told[-1][0] <= 400
    assert [done for done, _ in told] == sorted(done for done, _ in told)
