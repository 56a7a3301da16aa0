"""Sums of vectors against the spec: values, sensitivities, refusals; and a search for neighbors."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from dpverify.grid import (
    OUTER_BOX,
    UNIT,
    Count,
    MaskedSum,
    OneUnit,
    VectorQuery,
    VectorSum,
    View,
    ingest,
    vector_queries,
)
from dpverify.privacy import Adjacency, Domain, Norm
from spec.theory import vectors as spec

TWO = Domain(columns=2)
BOTH = (Adjacency.REPLACE, Adjacency.ADD_REMOVE)
LARGEST = 1.7976931348623157e308
EXTREMES = [0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, LARGEST, -LARGEST, 0.5, 1.5, 2.5, -2.5]
SUMS: list[VectorSum | MaskedSum] = [
    VectorSum((0, 0), 3, 0),
    VectorSum((4, -7), 10, -2),
    VectorSum((OUTER_BOX, -OUTER_BOX), 2**41, -1074),
    VectorSum((0, 1), 1000, 0, ((2, 1), (1, 3))),
    VectorSum((3, 0), 7, 1, ((1, -2),)),
    VectorSum((0, 0), 2**40, 0, ((2**41, 3), (5, 2**41), (1, 1))),
    MaskedSum((0, 0), 3, 0, 5),
    MaskedSum((4, -7), 10, -2, 1),
    MaskedSum((0, 0), 2**41, 0, 2**42),
    MaskedSum((0, 1), 1000, 0, 3000, ((2, 1), (1, 3))),
]
QUERIES: list[VectorQuery] = [
    *SUMS,
    *(OneUnit(query, Fraction(7 * query.radius, 3)) for query in SUMS),
    OneUnit(SUMS[0], Fraction(1, 10**6)),
    OneUnit(SUMS[6], Fraction(UNIT) * 2),
]


def public(query: VectorSum | MaskedSum) -> spec.Map:
    return spec.Map(query.center, query.radius, Fraction(2) ** query.exponent, query.matrix)


def specified(query: VectorQuery, records: Any) -> tuple[int, ...]:
    if isinstance(query, OneUnit):
        return spec.one_unit(specified(query.query, records), query.scale, UNIT)
    rows = [tuple(map(Fraction, row)) for row in records.tolist()]
    if isinstance(query, MaskedSum):
        return spec.masked_sum(rows, public(query), query.weight)
    assert isinstance(query, VectorSum)
    return spec.vector_sum(rows, public(query))


def stated(query: VectorQuery, adjacency: Adjacency) -> int:
    if isinstance(query, OneUnit):
        inner = stated(query.query, adjacency)
        return spec.one_unit_sensitivity(inner, query.scale, query.width, UNIT)
    if isinstance(query, MaskedSum):
        return spec.masked_sum_sensitivity(query.radius, query.weight, adjacency)
    assert isinstance(query, VectorSum)
    return spec.vector_sum_sensitivity(query.radius, adjacency)


def value(query: VectorQuery, records: Any) -> tuple[int, ...]:
    numbers = query.evaluate(View(records))
    assert numbers.shape == (query.width,)
    assert all(abs(v) <= query.largest(len(records)) for v in numbers.tolist())
    return tuple(numbers.tolist())


def base(query: VectorQuery) -> VectorSum | MaskedSum:
    inner = query.query if isinstance(query, OneUnit) else query
    assert isinstance(inner, VectorSum | MaskedSum)
    return inner


def some_records(query: VectorQuery, rng: np.random.Generator, rows: int) -> Any:
    """Around the center, out to some radii, with ties, and with records that are nowhere near."""
    inner = base(query)
    steps = rng.integers(-5, 6, (rows, 2)) * inner.radius / rng.choice([1, 2, 3, 7], (rows, 1))
    with np.errstate(all="ignore"):
        near = np.ldexp(np.array(inner.center) + steps, inner.exponent)
    wild = rng.random((rows, 2)) < 0.1
    return ingest(np.where(wild, rng.choice(EXTREMES, (rows, 2)), near), TWO)


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_values_are_those_of_the_spec_in_every_order(query: VectorQuery) -> None:
    """1,056 datasets, each in five ways."""
    for seed in range(48):
        rng = np.random.default_rng(seed)
        records = some_records(query, rng, seed % 12)
        whole = value(query, records)
        assert whole == specified(query, records), seed
        assert value(query, records[rng.permutation(len(records))]) == whole
        assert value(query, np.asfortranarray(records)) == whole
        assert value(query, np.repeat(records, 2, axis=0)[::2]) == whole
        if not isinstance(query, OneUnit):
            parts = [value(query, records[:3]), value(query, records[3:])]
            assert tuple(map(sum, zip(*parts, strict=True))) == whole


@pytest.mark.parametrize("query", [SUMS[1], SUMS[3], SUMS[9]], ids=str)
def test_blocks_do_not_matter(query: VectorSum, monkeypatch: pytest.MonkeyPatch) -> None:
    records = some_records(query, np.random.default_rng(8), 500)
    whole = value(query, records)
    for block in (2, 6, 64):
        monkeypatch.setattr("dpverify.grid.vectors._BLOCK", block)
        assert value(query, records) == whole


def test_the_dtype_is_public() -> None:
    """int64 or Python integers by the number of rows alone, whatever the records."""
    query, rows = VectorSum((0,), 2**41, 0), 1 << 21
    assert query.evaluate(View(np.full((rows - 1, 1), 1e300))).dtype == np.int64
    nothing, most = (query.evaluate(View(np.full((rows, 1), fill))) for fill in (0.0, 1e300))
    assert nothing.dtype == most.dtype == object
    assert (nothing.tolist(), most.tolist()) == ([0], [1 << 61])


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_sensitivities_are_those_of_the_spec(query: VectorQuery, adjacency: Adjacency) -> None:
    lemma = query.sensitivity(adjacency, TWO)
    names = {VectorSum: "vector_sum", MaskedSum: "masked_sum", OneUnit: "one_unit"}
    assert lemma.conclusion.value == stated(query, adjacency)
    assert lemma.conclusion.norm is Norm.SQUARED_L2
    assert lemma.obligation == f"theory/vectors.py:obligation_{names[type(query)]}"
    assert hasattr(spec, lemma.obligation.split(":")[1])


def test_one_unit_is_as_tight_as_integers_allow() -> None:
    """Enclosures against exact integers, for values of every size: never less, mostly the same."""
    rng, same = np.random.default_rng(0), 0
    for _ in range(400):
        square = int(rng.integers(0, 2**20)) ** int(rng.integers(1, 5))
        scale = Fraction(int(rng.integers(1, 10**9)), int(rng.integers(1, 10**6)))
        width = int(rng.integers(1, 10_001))
        sensitivity = vector_queries.rounded_sensitivity(square, scale, width)
        exact = spec.one_unit_sensitivity(square, scale, width, UNIT)
        assert 0 <= sensitivity - exact <= 1
        same += sensitivity == exact
        plain = square * (UNIT / scale) ** 2
        assert sensitivity >= plain - 1
    assert same >= 396


# --- neighbors -----------------------------------------------------------------------------------

Bound = Callable[[VectorQuery, Adjacency], int]


def search(query: VectorQuery, adjacency: Adjacency, beyond: float = math.inf) -> int:
    """Return the largest squared distance of the neighbors tried: all crafted ends, and 60 random
    pairs.

    beyond: a distance from which on no larger one is looked for.
    """
    inner, rng = base(query), np.random.default_rng(1)
    ends = [(inner.radius, 0), (-inner.radius, 0), (0, inner.radius), (OUTER_BOX, OUTER_BOX)]
    with np.errstate(all="ignore"):
        crafted = np.ldexp(np.array(inner.center) + np.array(ends, float), inner.exponent)
    worst = 0
    places = [*product(range(3, 7), repeat=2), *(tuple(rng.choice(7, 2)) for _ in range(60))]
    for old, new in places:
        drawn = np.vstack([some_records(query, rng, 3), crafted])
        kept = drawn[rng.integers(0, 7, 2)]
        left = np.vstack([kept, drawn[old : old + 1]])
        right = np.vstack([kept, drawn[new : new + 1]]) if adjacency is BOTH[0] else kept
        worst = max(worst, spec.squared_distance(value(query, left), value(query, right)))
        if worst > beyond:
            break
    return worst


FREE = MaskedSum((1, 2), 100, 0, math.isqrt(3 * 100**2))
SEARCHED = [*QUERIES, FREE, OneUnit(FREE, Fraction(1, 7))]


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("query", SEARCHED, ids=range(len(SEARCHED)))
def test_no_neighbors_are_found_beyond_the_sensitivity(
    query: VectorQuery, adjacency: Adjacency
) -> None:
    worst = search(query, adjacency)
    assert worst <= stated(query, adjacency)
    coarse = isinstance(query, OneUnit) and query.scale > UNIT
    if base(query).matrix is None and base(query).radius < 2**40 and not coarse:
        # some reach it, up to the rounding
        assert worst >= stated(query, adjacency) * (1 - Fraction(1, 2**10))
    wild = query.unclipped()
    assert isinstance(wild, VectorQuery)
    with pytest.raises(ValueError, match="no bound"):
        wild.sensitivity(adjacency, TWO)
    if base(query).radius < 2**40:
        bound = stated(query, adjacency)
        assert search(wild, adjacency, bound) > bound


def test_the_number_inside_is_free_under_replace() -> None:
    alone = VectorSum(FREE.center, FREE.radius, 0)
    assert stated(FREE, Adjacency.REPLACE) == stated(alone, Adjacency.REPLACE) == 4 * 100**2
    dearer = MaskedSum(FREE.center, FREE.radius, 0, FREE.weight + 1)
    assert stated(dearer, Adjacency.REPLACE) > 4 * 100**2
    assert search(dearer, Adjacency.REPLACE, 4 * 100**2) > 4 * 100**2
    assert search(FREE, Adjacency.REPLACE) == 4 * 100**2


def less(statement: Callable[..., int]) -> Callable[..., int]:
    return lambda *given: statement(*given) - 1


FALSE: dict[str, list[Callable[..., int]]] = {
    "vector_sum": [less(spec.vector_sum_sensitivity), lambda r, a: 4 * r**2, lambda r, a: r**2],
    "masked_sum": [
        less(spec.masked_sum_sensitivity),
        lambda r, w, a: r**2 + w**2,
        lambda r, w, a: 4 * r**2,
        lambda r, w, a: 4 * (r**2 + w**2),
    ],
    "free_count": [less(spec.free_weight), lambda r: spec.free_weight(r) + 1, lambda r: 2 * r],
    "one_unit": [
        less(spec.one_unit_sensitivity),
        lambda v, scale, width, unit: math.floor(v * (unit / scale) ** 2),
        lambda v, scale, width, unit: spec.one_unit_sensitivity(v, scale, 1, unit),
        lambda *given: spec.one_unit_sensitivity(*given) + 1,
    ],
}


# --- what is refused -----------------------------------------------------------------------------

REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: VectorSum((0,), 0, 0), ValueError, "radius = 0 cells; give"),
    (lambda: VectorSum((0,), 2**41 + 1, 0), ValueError, r"radius: .*beyond the 2\^41.*larger cell"),
    (lambda: VectorSum((0,), 1.5, 0), TypeError, "radius = 1.5"),  # type: ignore[arg-type]
    (
        lambda: VectorSum((OUTER_BOX + 1,), 1, 0),
        ValueError,
        r"center: .*within the 2\^40.*Subtract",
    ),
    (lambda: VectorSum((), 1, 0), ValueError, "center: 0 coordinates"),
    (lambda: VectorSum(3, 1, 0), TypeError, "center: a int where"),  # type: ignore[arg-type]
    (lambda: VectorSum((0.5,), 1, 0), TypeError, "center = 0.5"),  # type: ignore[arg-type]
    (lambda: VectorSum((0,), 1, 2000), ValueError, "exponent = 2000"),
    (lambda: VectorSum((0, 0), 1, 0, ((1, 2), (2, 4))), ValueError, "of rank 1, .*singular"),
    (lambda: VectorSum((0, 0), 1, 0, ((0, 0),)), ValueError, "of rank 0"),
    (lambda: VectorSum((0, 0), 1, 0, ((1, 2), (2,))), ValueError, r"rows of \[1, 2\] entries"),
    (lambda: VectorSum((0,), 1, 0, ((1, 2), (2, 5))), ValueError, r"rows of \[2\] entries"),
    (lambda: VectorSum((0,), 1, 0, ()), ValueError, r"rows of \[\] entries"),
    (lambda: VectorSum((0,), 1, 0, ((2**41 + 1,),)), ValueError, "matrix: .*Divide the matrix"),
    (lambda: MaskedSum((0,), 1, 0, 0), ValueError, "weight = 0; .*isqrt"),
    (lambda: MaskedSum((0,), 1, 0, 2**42 + 1), ValueError, r"weight: .*beyond the 2\^42"),
    (lambda: OneUnit(SUMS[0], Fraction(0)), ValueError, "scale = 0 is not positive"),
    (lambda: OneUnit(Count(), Fraction(1)), TypeError, "query: a Count has no"),  # type: ignore[arg-type]
    (lambda: SUMS[0].sensitivity(BOTH[0], Domain(columns=3)), ValueError, "for a center of 2"),
    (lambda: SUMS[0].evaluate(View(np.zeros((3, 1)))), ValueError, "records of 1 columns"),
]


@pytest.mark.parametrize(("make", "kind", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_makes_no_sense_is_refused(
    make: Callable[[], Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        make()


def test_queries_are_values() -> None:
    """Arrays and NumPy integers become tuples and Python integers, which neither wrap nor
    change."""
    plain = VectorSum((1, 2), 2**40, -3, ((1, 0), (0, 1)))
    given: Any = (np.array([1, 2]), np.int64(2**40), np.int64(-3), np.eye(2, dtype=np.int64))
    assert VectorSum(*given) == plain
    assert hash(VectorSum(*given)) == hash(plain)
    assert stated(VectorSum(*given), Adjacency.REPLACE) == 2**82
    assert OneUnit(plain, "0.5") == OneUnit(plain, Fraction(1, 2))  # type: ignore[arg-type]
    assert VectorSum(*given).sensitivity(Adjacency.REPLACE, TWO).conclusion.value == 2**82
    assert len({*QUERIES, *QUERIES}) == len(QUERIES)
