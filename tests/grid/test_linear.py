"""Exact linear algebra against Python integers, up to and beyond every bound; and false twins."""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpverify.grid import (
    check_word_budget,
    clip_to_ellipsoid,
    column_sums,
    gram,
    linear,
    matmul,
    second_moments,
    squared_distances,
    squared_norms,
)
from dpverify.grid.linear import ceiling_norms, float_moments, norms_at_most

Rng = np.random.Generator
Product = Callable[[Any, Any], Any]


def generator(seed: int) -> Rng:
    return np.random.default_rng(seed)


def entries(rng: Rng, rows: int, columns: int, bits: int) -> Any:
    """Integers up to 2^bits, some at the ends; 63 bits: all of int64."""
    if bits == 63:
        return rng.integers(-(2**63), 2**63 - 1, (rows, columns), endpoint=True)
    drawn = rng.integers(-(2**bits), 2**bits, (rows, columns), endpoint=True)
    extreme = rng.random((rows, columns)) < 0.3
    return np.where(extreme, np.sign(drawn) * 2**bits, drawn)


def rows_of(x: Any) -> list[list[int]]:
    return [[int(v) for v in row] for row in x]


def product_of(a: Any, b: Any) -> list[list[int]]:
    columns = list(zip(*rows_of(b), strict=True)) if len(b) else [()] * b.shape[1]
    return [
        [sum(p * q for p, q in zip(row, c, strict=True)) for c in columns] for row in rows_of(a)
    ]


def same(values: Any, expected: list[Any]) -> bool:
    """Return whether every entry is that integer; dtype int64 unless Python integers are needed."""
    assert values.dtype in (np.int64, object)
    return bool(values.tolist() == expected)


def test_results_are_those_of_python_integers() -> None:
    for seed in range(1680):  # sixteen times each kind
        rng = generator(seed)
        n, k, m = rng.integers(0, 6, 3)
        bits = (41, 41) if seed % 3 == 0 else tuple(rng.integers(0, 64, 2))
        a, b, c = (entries(rng, *s) for s in ((n, k, bits[0]), (k, m, bits[1]), (m, k, bits[1])))
        if seed % 5 == 0:
            a, b = np.asfortranarray(a), np.asfortranarray(b)
        if seed % 7 == 0:
            a = a.astype(object) << 30
        assert same(matmul(a, b), product_of(a, b)), seed
        assert same(gram(a), product_of(a, a.T)), seed
        assert same(second_moments(a), product_of(a.T, a)), seed
        assert same(column_sums(a), [sum(map(int, a[:, j])) for j in range(k)]), seed
        assert same(squared_norms(a), [sum(v * v for v in row) for row in rows_of(a)]), seed
        distances = [
            [sum((p - q) ** 2 for p, q in zip(x, y, strict=True)) for y in rows_of(c)]
            for x in rows_of(a)
        ]
        assert same(squared_distances(a, c), distances), seed
        own = squared_distances(a)
        assert same(own, squared_distances(a, a.copy()).tolist()), seed
        assert not np.diagonal(own).any()


def modulo(x: Any) -> Any:
    """Modulo 2^64."""
    if x.dtype == object:
        return np.array([[v % 2**64 for v in row] for row in x.tolist()], np.uint64).reshape(
            x.shape
        )
    return x.astype(np.int64).view(np.uint64)


LONG = [
    (3, 30_000, 4, 41, 41),
    (7, 20_000, 5, 20, 20),
    (7, 20_000, 5, 17, 17),
    (40, 10_000, 30, 41, 20),
    (200, 300, 300, 41, 22),
    (5000, 40, 40, 41, 2),
    (3, 70_001, 2, 26, 26),
    (64, 5000, 64, 62, 1),
]


@pytest.mark.parametrize("case", LONG, ids=str)
def test_long_sums_are_exact(case: tuple[int, int, int, int, int]) -> None:
    """Against NumPy's own integers, modulo 2^64; and some entries in full."""
    n, k, m, first, second = case
    rng = generator(k)
    a, b = entries(rng, n, k, first), entries(rng, k, m, second)
    product = matmul(a, b)
    assert (modulo(product) == a.view(np.uint64) @ b.view(np.uint64)).all()
    assert same(product[:2, :2], product_of(a[:2], b[:, :2]))
    squares = second_moments(b)
    assert (modulo(squares) == b.T.copy().view(np.uint64) @ b.view(np.uint64)).all()
    inner = gram(a[:200])
    assert (modulo(inner) == a[:200].view(np.uint64) @ a[:200].T.copy().view(np.uint64)).all()
    assert (inner == inner.T).all()
    assert (np.diagonal(inner) == squared_norms(a[:200])).all()


# --- at the bounds, where a product that is not exact would show ---------------------------------


def at_the_bound(rng: Rng, inner: int) -> tuple[Any, Any]:
    """Odd entries of one sign whose inner product is just above 2^53, where odd numbers are
    lost."""
    top = math.isqrt(linear.EXACT // inner) + 2
    a, b = (rng.integers(top - 2, top + 3, shape) | 1 for shape in ((4, inner), (inner, 3)))
    return a, b


def catches(twin: Product) -> bool:
    """Return whether some products at the bounds of a word or of int64 are wrong."""
    wrong = False
    for inner in (1, 2, 3, 100, 999):
        rng = generator(inner)
        for a, b in (at_the_bound(rng, inner), [entries(rng, 3, inner, 41) for _ in range(2)]):
            right = b if len(b) == inner else b.T
            with np.errstate(all="ignore"):
                wrong |= twin(a, right).tolist() != product_of(a, right)
    return wrong


def one_float_word(a: Any, b: Any) -> Any:
    return np.array((a.astype(float) @ b.astype(float)).tolist(), object)


def wrapping(a: Any, b: Any) -> Any:
    return a @ b


def single_precision(a: Any, b: Any) -> Any:
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float64)


def test_products_at_the_bounds_are_exact_and_false_twins_are_not() -> None:
    assert not catches(matmul)
    assert catches(one_float_word)
    assert catches(wrapping)
    assert catches(single_precision)


def sums_go_wrong(sums: Callable[[Any], Any]) -> bool:
    data = [np.full((3, 2), 2**62), np.full((5, 1), 2**24 + 1), entries(generator(1), 4, 3, 62)]
    return any(
        [int(v) for v in sums(x)] != [sum(map(int, x[:, j])) for j in range(x.shape[1])]
        for x in data
    )


def test_column_sums_neither_wrap_around_nor_round() -> None:
    assert not sums_go_wrong(column_sums)
    assert sums_go_wrong(lambda x: x.sum(axis=0))
    assert sums_go_wrong(lambda x: x.astype(np.float32).sum(axis=0))


def plan(a: Any, b: Any) -> tuple[int, int]:
    """Return into how many words the operands are split."""
    seen: list[tuple[int, int]] = []
    right = linear._cheapest

    def watched(*given: Any) -> tuple[int, int]:
        seen.append(right(*given))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "_cheapest", watched)
        matmul(a, b)
    return seen[0]


def test_no_more_words_than_the_bounds_ask_for() -> None:
    rng = generator(5)
    assert plan(entries(rng, 9, 300, 20), entries(rng, 300, 9, 24)) == (1, 1)
    # 300 * 2^52 is beyond 2^53, but one large entry a row keeps the norms small
    sparse = np.zeros((9, 300), np.int64)
    sparse[:, 4] = 2**26
    assert plan(sparse, sparse.T) == (1, 1)
    assert math.prod(plan(entries(rng, 9, 300, 26), entries(rng, 300, 9, 26))) > 1


# --- order, layout, threads ----------------------------------------------------------------------


def layouts(x: Any) -> list[Any]:
    """Return the same matrix in other places of the memory."""
    wide = np.zeros((2 * len(x), 3 * x.shape[1]), np.int64)
    wide[::2, ::3] = x
    turned = np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]
    frozen = x.copy()
    frozen.setflags(write=False)
    return [np.asfortranarray(x), wide[::2, ::3], turned, frozen, x.astype(object)]


@pytest.mark.parametrize("bits", [10, 24, 41])
def test_layout_and_order_do_not_matter(bits: int) -> None:
    rng = generator(bits)
    x, y = entries(rng, 130, 70, bits), entries(rng, 70, 20, 25)
    whole = {f: f(x) for f in (gram, second_moments, column_sums, squared_norms, squared_distances)}
    projected, order = matmul(x, y), rng.permutation(len(x))
    for other in layouts(x):
        assert all((f(other) == value).all() for f, value in whole.items())
        assert (matmul(other, y) == projected).all()
    assert (matmul(x[order], y) == projected[order]).all()
    assert (np.vstack([matmul(x[:31], y), matmul(x[31:], y)]) == projected).all()
    assert (second_moments(x[order]) == whole[second_moments]).all()
    parts = second_moments(x[:31]).astype(object) + second_moments(x[31:])
    assert (parts == whole[second_moments]).all()


def test_the_number_of_threads_does_not_matter() -> None:
    if importlib.util.find_spec("threadpoolctl") is None:
        pytest.skip("threadpoolctl is not installed")
    limits = importlib.import_module("threadpoolctl").threadpool_limits
    rng = generator(0)
    results = []
    x, y = entries(rng, 700, 300, 24), entries(rng, 300, 300, 24)
    for threads in (1, 2, 7):
        with limits(threads):
            made = (matmul(x, y), gram(x), second_moments(x), clip_to_ellipsoid(x, y, 2**40))
            results.append([value.tobytes() for value in made])
    assert results[0] == results[1] == results[2]


# --- what is refused -----------------------------------------------------------------------------


def next_to_squares() -> list[list[int]]:
    """Return rows whose squared norm is a square, (2 m^2 + 1)^2, and one below and above; up to
    2^122."""
    roots = [*(1 << bits for bits in range(30)), *generator(0).integers(1, 2**29, 300).tolist()]
    return [[2 * m * m, 2 * m, *last] for m in roots for last in ((0, 0), (1, 0), (1, 1))]


def ceilings(rows: list[list[int]]) -> tuple[list[int], list[bool]]:
    squares = [sum(v * v for v in row) for row in rows]
    roots = [math.isqrt(square - 1) + 1 if square else 0 for square in squares]
    return roots, [root * root == square for root, square in zip(roots, squares, strict=True)]


def by_floats(x: Any) -> tuple[Any, Any]:
    """Planted: a root of a float is believed."""
    norms = np.minimum(np.linalg.norm(x.astype(float), axis=1), 1e18)
    return np.ceil(norms).astype(np.int64), norms == np.ceil(norms)


def test_moments_of_floats_are_exact_up_to_the_bound_and_refused_beyond_it() -> None:
    most, rows = (1 << 20) - 1, 1 << 13
    x = np.full((rows, 2), most)
    x[::3, 1] = -most
    x[-1] = 1
    square, sums = float_moments(x.astype(np.float64), most)
    assert square.tolist() == second_moments(x.astype(object)).tolist()
    assert sums.tolist() == column_sums(x).tolist()
    with pytest.raises(ValueError, match="give at most 8192 at once"):
        float_moments(np.zeros((rows + 1, 1)), most + 1)
    # twin: beyond the bound the sums round
    far = np.array([[1 << 27], [1]])
    assert int((far.T.astype(float) @ far.astype(float))[0, 0]) != int(second_moments(far)[0, 0])


def test_norms_round_up_wherever_they_lie() -> None:
    rng, wrong = generator(3), 0
    rows = next_to_squares()
    cases = [np.array(rows), np.array(rows) << 1, np.array(rows[:60]), np.array(rows)[:, ::-1]]
    cases += [entries(rng, 4, int(k), int(bits)) for k, bits in rng.integers(0, 64, (200, 2))]
    cases += [rng.integers(-(2**45), 2**45, (3, 5000)), np.zeros((2, 3), np.int64)]
    for x in cases:
        expected = ceilings(rows_of(x))
        for given in (x, x.astype(object)):
            assert tuple(part.tolist() for part in ceiling_norms(given)) == expected
        wrong += tuple(part.tolist() for part in by_floats(x)) != expected
        for square in {n + step for n in map(int, squared_norms(x)[:40]) for step in (-1, 0, 1)}:
            most = [int(n) <= square for n in squared_norms(x)]
            assert norms_at_most(x, square).tolist() == most
        assert norms_at_most(x, 1 << 5000).all()
    assert wrong > 50


@pytest.mark.parametrize("bad", [[[1.0]], np.ones((2, 2)), [["1"]], [[True]]], ids=str)
def test_only_integers_are_taken(bad: Any) -> None:
    with pytest.raises(TypeError, match="where integers belong"):
        squared_norms(bad)


def test_other_integers_are_taken() -> None:
    assert squared_norms(np.array([[200, 200]], np.uint8)).tolist() == [80000]
    assert squared_norms(np.array([[2**64 - 1]], np.uint64)).tolist() == [(2**64 - 1) ** 2]
    assert matmul([[2**2000, 1]], [[0], [2**70]]).tolist() == [[2**70]]
    assert matmul([[2**2000]], [[0]]).tolist() == [[0]]
    assert gram([[1, 2], [3, 4]]).tolist() == [[5, 11], [11, 25]]
    assert matmul(np.array([[-(2**63)]]), np.array([[-1]])).tolist() == [[2**63]]


@pytest.mark.parametrize("shapes", [((2, 3), (2, 3)), ((3,), (3, 1)), ((1, 2, 2), (2, 2))], ids=str)
def test_shapes_must_fit(shapes: Any) -> None:
    with pytest.raises(ValueError, match=r"have no product; give \(n, k\)"):
        matmul(*(np.ones(shape, np.int64) for shape in shapes))


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("radius", "larger cell .* or a smaller radius"), ("matrix", "Divide the matrix")],
)
def test_a_refusal_says_which_parameter_to_change(name: str, remedy: str) -> None:
    check_word_budget(linear.LARGEST_ENTRY, name)
    check_word_budget(-linear.LARGEST_ENTRY, name)
    with pytest.raises(ValueError, match=rf"^{name}: .*beyond the 2\^41 cells.*{remedy}"):
        check_word_budget(linear.LARGEST_ENTRY + 1, name)
