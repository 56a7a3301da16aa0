"""Sums of outer products: as the spec says in every map, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, get_args

import numpy as np
import pytest

from dpverify.grid import OneUnit, Released, View
from dpverify.grid.outer_products import (
    FirstMoments,
    How,
    LengthSides,
    SecondMoments,
    moved_squared,
)
from dpverify.grid.transcripts import transcript
from dpverify.grid.vectors import IntegerMap, onto_sphere
from dpverify.privacy import Adjacency, Domain
from spec.theory import outer_products as spec
from spec.theory.vectors import Map

FAR = 1.7976931348623157e308
EDGE = np.array([0.0, -0.0, 0.5, -3.0, 5e-324, 2.2e-308, 1e9, -FAR, FAR, 2.0**40])


def fixed(*matrices: Any, draws: int = 1) -> Released[Any]:
    """Return the same maps whatever was released, in turn."""
    rows = np.array([np.ravel(matrix) for matrix in matrices], np.int64)
    return Released((), lambda before: (rows, np.arange(draws) % len(rows)))


def moments(d: int, matrix: Any, **changes: Any) -> SecondMoments:
    own: dict[str, Any] = {"radius": 1 << 17, "center": (3,) * d, "exponent": -6}
    own["rows"] = len(matrix)
    return SecondMoments(**own | changes, maps=fixed(matrix))


WORLDS: list[tuple[int, Any, dict[str, Any]]] = [
    (1, [[1 << 16]], {}),
    (2, [[1 << 16, 0], [0, 1 << 16]], {}),
    (2, [[1 << 16, 3], [-7, 1 << 40]], {"radius": 7}),
    (2, [[5, 1, 2], [0, 3, -4]], {"constant": 9}),
    (3, [[1, 2, 3], [0, 1, 0], [1 << 41, 0, -(1 << 41)], [1, 1, 1]], {"exponent": 3}),
    (3, [[0, 0, 0]], {}),
]


@pytest.mark.parametrize("how", get_args(How))
@pytest.mark.parametrize("weight", [0, 5])
@pytest.mark.parametrize("world", WORLDS, ids=range(len(WORLDS)))
def test_values_are_the_spec_s_for_every_record(world: Any, how: How, weight: int) -> None:
    d, matrix, changes = world
    query = moments(d, matrix, how=how, weight=weight, **changes)
    assert isinstance(query.exponent, int)
    rng = np.random.default_rng(d)
    for n in (0, 1, 2, 40):
        records = rng.choice(EDGE, (n, d))
        public = Map(
            query.center, query.radius, Fraction(2) ** query.exponent, tuple(map(tuple, matrix))
        )
        rows: Any = [tuple(Fraction(x) for x in row) for row in records.tolist()]
        expected = spec.second_moments(rows, public, how, weight, query.constant)
        values = query.evaluate(View(records))
        assert tuple(values.tolist()) == expected
        assert len(expected) == query.width
        assert max(map(abs, expected)) <= query.largest(n)


@pytest.mark.parametrize("how", ["clip", "mask"])
@pytest.mark.parametrize("reach", [1, 9, 1 << 24, 1 << 50, (1 << 62) - 1])
@pytest.mark.parametrize("world", WORLDS, ids=range(len(WORLDS)))
def test_rows_may_move_the_center_and_say_how_far_the_ball_reaches(
    world: Any, reach: int, how: How
) -> None:
    """Lengths, first and second moments are the spec's; a center that would leave the grid stays
    at its end."""
    d, matrix, changes = world
    exponents = tuple(changes.get("exponent", -6) + j % 2 for j in range(d))
    row = [*np.ravel(matrix).tolist(), *[(5, -(2**41), 7)[j] for j in range(d)], reach]
    own: Any = {"center": (3,) * d, "exponent": exponents, "rows": len(matrix), "moved": True}
    own |= {"constant": changes.get("constant", 0), "maps": fixed(row)}
    center = tuple(3 + by if j != 1 else -(2**40) for j, by in enumerate(row[-d - 1 : -1]))
    rng = np.random.default_rng(reach % 1000)
    public = Map(center, 1 << 17, matrix=tuple(map(tuple, matrix)))
    for n in (0, 1, 2, 40):
        records = rng.choice([*EDGE, 1.0, 0.015625], (n, d))
        rows: Any = [
            tuple(Fraction(x) / Fraction(2) ** e for x, e in zip(row, exponents, strict=True))
            for row in records.tolist()
        ]
        more: Any = (own["constant"], reach)
        second = SecondMoments(**own, radius=1 << 17, how=how, with_reach=True, weight=5)
        expected = spec.second_moments(rows, public, how, 5, *more)
        assert tuple(second.evaluate(View(records)).tolist()) == expected
        assert max(map(abs, expected)) <= second.largest(n)
        first = FirstMoments(**own, radius=1 << 17, how=how, with_reach=True)
        expected = spec.first_moments(rows, public, how, *more)
        assert tuple(first.evaluate(View(records)).tolist()) == expected
        expected = spec.length_sides(rows, public, reach, own["constant"])
        assert tuple(LengthSides(**own).evaluate(View(records)).tolist()) == expected


def test_every_draw_has_its_own_map() -> None:
    """Check also that the value of a batch is that of its draws, with maps that are asked of the
    same view in any order."""
    rng = np.random.default_rng(0)
    records, matrices = rng.normal(size=(50, 2)), rng.integers(-(2**20), 2**20, (3, 4))
    which = np.array([2, 0, 0, 1, 2])
    reads = Released(
        ("round 1",), lambda before: (matrices, before["round 1"][:, 0].astype(np.intp))
    )
    query = SecondMoments(center=(0, 0), exponent=-10, rows=2, radius=1 << 17, maps=reads)
    before = transcript({"round 1": (0,)})
    batch = type(before)({"round 1": which[:, np.newaxis]}, np.ones(5, np.intp), np.full(5, -1))
    values = query.evaluate(View(records), batch)
    for i, k in enumerate(which):
        alone = moments(2, matrices[k].reshape(2, 2), center=(0, 0), exponent=-10)
        assert values[i].tolist() == alone.evaluate(View(records)).tolist()
    assert len({tuple(row) for row in values.tolist()}) == 3


def test_signs_do_not_depend_on_lengths_and_weigh_the_same() -> None:
    """The trace of n records' signs is n R^2, but for the cells that floors take."""
    d, n, radius = 5, 200, 1 << 17
    rows = np.random.default_rng(1).integers(-(2**40), 2**40, (n, d))
    z = onto_sphere(rows, radius)
    lengths = (z.astype(object) ** 2).sum(axis=1)
    assert (lengths <= radius**2).all()
    assert (lengths >= (radius - 2 * 3) ** 2).all()  # sqrt(5) < 3
    assert (onto_sphere(rows // 8, radius) - z).max() <= 2
    assert onto_sphere(np.zeros((2, d), np.int64), radius).tolist() == [[0] * d] * 2
    assert onto_sphere(np.zeros((0, d), np.int64), radius).shape == (0, d)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("how", get_args(How))
def test_the_sensitivity_is_the_spec_s(adjacency: Adjacency, how: How) -> None:
    for weight in (0, 1, 2**31, 2**40):
        query = moments(2, [[1, 0], [0, 1]], how=how, weight=weight)
        shown = query.sensitivity(adjacency, Domain(columns=2)).conclusion
        expected = spec.moved_squared(1 << 17, weight, how, adjacency)
        assert shown.value == expected == moved_squared(1 << 17, weight, how, adjacency)
        OneUnit(query, Fraction(3)).sensitivity(adjacency, Domain(columns=2))


PLAIN: Any = {"center": (0, 0), "exponent": 0, "rows": 1}
REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda: moments(2, [[1, 0]], radius=0), ValueError, "radius = 0 cells"),
    (lambda: moments(2, [[1, 0]], how="cut"), ValueError, "how = 'cut'; write 'sphere'"),
    (lambda: moments(2, [[1, 0]], weight=-1), ValueError, r"weight = -1 is outside 0..2\^84"),
    (lambda: moments(2, [[1, 0]], constant=2**42), ValueError, "constant: .*beyond"),
    (
        lambda: moments(2, [[1, 0, 0]]).evaluate(View(np.zeros((1, 2)))),
        ValueError,
        "give 2 numbers for each",
    ),
    (lambda: moments(2, [[1, 0]]).evaluate(View(np.zeros((1, 3)))), ValueError, "of 3 columns"),
    (
        lambda: moments(2, [[1, 0]], clipped=False).sensitivity(
            Adjacency.REPLACE, Domain(columns=2)
        ),
        ValueError,
        "no bound",
    ),
    (
        lambda: moments(2, [[1, 0]]).sensitivity(Adjacency.REPLACE, Domain(columns=3)),
        ValueError,
        "one coordinate a column",
    ),
    (lambda: moments(2, [[1, 0]], with_reach=True), ValueError, "a sphere has no reach"),
    (
        lambda: LengthSides(**PLAIN, maps=fixed([1, 0])).evaluate(View(np.zeros((1, 2)))),
        ValueError,
        "give 3 numbers for each map",
    ),
    (
        lambda: LengthSides(**PLAIN, maps=fixed([1, 0, 1])).sensitivity(
            Adjacency.REPLACE, Domain(columns=3)
        ),
        ValueError,
        "one coordinate a column",
    ),
    (lambda: IntegerMap((0,), 0, constant=1), ValueError, "without a matrix"),
]


@pytest.mark.parametrize(("make", "kind", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_makes_no_sense_is_refused(make: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


def _floor_length(vector: Any, radius: int) -> Any:
    """Round the root down: beyond the ball."""
    square = sum(v * v for v in vector)
    if not square:
        return vector
    below = int(np.floor(np.sqrt(square)))
    return tuple((1 if v > 0 else -1) * (abs(v) * radius // below) for v in vector)


TWINS: dict[str, dict[str, Any]] = {
    "theory.outer_products:obligation_second_moments": {
        "one less": lambda *given: spec.moved_squared(*given) - 1,
        "one more": lambda *given: spec.moved_squared(*given) + 1,
        "one outer product": lambda r, w, how, a: 169**2 * (r**4 + w**2),
        "the number is free": lambda r, w, how, a: spec.moved_squared(r, 0, how, a),
        "masked as clipped": lambda r, w, how, a: spec.moved_squared(r, w, "clip", a),
        "no weight off the diagonal": lambda *given: spec.moved_squared(*given) // 169**2 * 119**2,
    },
    "theory.outer_products:obligation_first_moments": {
        "one less": lambda r, a: spec.first_squared(r, a) - 1,
        "one more": lambda r, a: spec.first_squared(r, a) + 1,
        "as for one record more": lambda r, a: r**2,
    },
    "theory.outer_products:obligation_length_sides": {
        "one less": lambda adjacency: spec.sides_squared(adjacency) - 1,
        "one more": lambda adjacency: spec.sides_squared(adjacency) + 1,
        "as for one record more": lambda adjacency: 1,
    },
    "theory.outer_products:obligation_filled": {
        "longer ones as they are": lambda v, r, reach: tuple(x * r // reach for x in v),
        "the length rounded down": lambda v, r, reach: _floor_length(v, r),
        "a reach that is one more": lambda v, r, reach: spec.filled(v, r, reach + 1),
    },
    "theory.outer_products:obligation_onto_sphere": {
        "the root rounded down": _floor_length,
        "short vectors as they are": lambda v, r: (
            v if sum(x * x for x in v) <= r * r else spec.onto_sphere(v, r)
        ),
        "rounded": lambda v, r: tuple(-x for x in spec.onto_sphere(tuple(-x for x in v), r - 9)),
    },
}
