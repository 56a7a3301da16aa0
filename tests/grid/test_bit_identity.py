"""Ten thousand generated cases: no bit of a value depends on order, chunks, layout, threads or
batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import threadpoolctl

from dpverify.grid import MaskedSum, VectorSum, View, clip_to_ball, gram, matmul, to_cells
from dpverify.grid.records import Records

_SPREADS = (1e-3, 1.0, 1e3, 1e12, 1e308, 5e-324)


def _drawn(rng: np.random.Generator) -> tuple[Records, VectorSum | MaskedSum]:
    """Return records of all magnitudes, with duplicates and -0.0, and a query of their
    dimension."""
    n, d = int(rng.integers(0, 30)), int(rng.integers(1, 7))
    with np.errstate(all="ignore"):
        rows = rng.uniform(-1, 1, (n, d)) * rng.choice(_SPREADS, (n, 1))
    rows[rng.random((n, d)) < 0.1] = -0.0
    if n > 1 and rng.random() < 0.3:
        rows[0] = rows[-1]
    center = tuple(int(c) for c in rng.integers(-50, 51, d))
    radius, exponent = int(rng.integers(1, 2**30)), int(rng.integers(-30, 5))
    matrix = None
    if rng.random() < 0.3:
        public = rng.integers(-9, 10, (d, d)) + 20 * d * np.eye(d, dtype=np.int64)
        matrix = tuple(tuple(int(e) for e in row) for row in public)
    if rng.random() < 0.5:
        return rows, VectorSum(center, radius, exponent, matrix)
    return rows, MaskedSum(center, radius, exponent, int(rng.integers(1, 2**20)), matrix)


def _limited() -> Callable[[int], Any]:
    """Return what limits the threads of linear algebra to a number, its libraries looked up
    once."""
    controller = threadpoolctl.ThreadpoolController()
    return lambda threads: controller.limit(limits=threads)


def _differing(rng: np.random.Generator, seen: Counter[str]) -> list[str]:
    """Return the comparisons of one generated dataset that differ; all of them are counted."""
    rows, query = _drawn(rng)
    whole, n = query.evaluate(View(rows)), len(rows)
    cut = int(rng.integers(0, n + 1))
    at = int(rng.integers(0, n)) if n else 0
    cells = to_cells(rows, query.exponent, query.center)
    alone = cells[at : at + 1]
    other = np.vstack([rng.uniform(-1, 1, rows.shape), rows[at : at + 1]])[::-1]
    clipped = clip_to_ball(cells, query.radius)
    order = rng.permutation(n)
    cases = {
        "permuted": (query.evaluate(View(rows[order])), whole),
        "in two chunks": (
            query.evaluate(View(rows[:cut])) + query.evaluate(View(rows[cut:])),
            whole,
        ),
        "in Fortran order": (query.evaluate(View(np.asfortranarray(rows))), whole),
        "a row, alone": (clip_to_ball(alone, query.radius), clipped[at : at + 1]),
        "a row, in another batch": (
            clip_to_ball(to_cells(other, query.exponent, query.center), query.radius)[:1],
            clipped[at : at + 1] if n else clip_to_ball(cells, query.radius)[:0],
        ),
        "Gram matrix, permuted": (gram(cells[order]), gram(cells)[np.ix_(order, order)]),
        "product, a row alone": (matmul(alone, cells.T), matmul(cells, cells.T)[at : at + 1]),
    }
    if not n:
        cases.pop("a row, in another batch")
    seen.update(cases.keys())
    return [name for name, (one, two) in cases.items() if not np.array_equal(one, two)]


def test_no_bit_differs_in_ten_thousand_cases() -> None:
    rng, seen, differing = np.random.default_rng(8), Counter[str](), []
    limited = _limited()
    for seed in range(1600):
        with limited(1 + seed % 2):
            differing += [(seed, name) for name in _differing(rng, seen)]
    assert differing == []
    assert sum(seen.values()) >= 10_000, seen


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_float_sums_would_be_seen_to_differ(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: the same query, in floats and without cells."""

    def evaluate(self: Any, view: View) -> Any:
        total = np.zeros(len(self.center), kind)
        for row in view.records:
            total += np.clip(row, -1e3, 1e3).astype(kind) / kind(3)
        return total

    monkeypatch.setattr(VectorSum, "evaluate", evaluate)
    rng, seen, differing = np.random.default_rng(8), Counter[str](), []
    for _ in range(60):
        differing += _differing(rng, seen)
    assert {"permuted", "in two chunks"} <= set(differing)
