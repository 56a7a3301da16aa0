"""Order, batch, layout and threads: every finding is two answers to one question, no statistics."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from dpverify.audit.structure import batch_dependence, order_dependence
from dpverify.grid import ClampedSum, Count, Query, View, quantize
from dpverify.randomness.bits import IntArray
from tests.audit.structure_subjects import (
    crossing_rows,
    exact_sum,
    project_then_clip,
    unit_rows,
)

GRID_SUM = ClampedSum(-1024, 1024, 0, -10)


def asked(query: Query, rows: Any) -> IntArray:
    return query.evaluate(View(rows))


@pytest.mark.parametrize("name", ["mean", "sum"])
@pytest.mark.parametrize("seed", range(3))
def test_a_float_mean_or_sum_depends_on_the_order(name: str, seed: int) -> None:
    finding = order_dependence(
        lambda rows: getattr(rows, name)(axis=0), unit_rows(seed, 3000, 20), seed=seed
    )
    assert finding.detected
    assert finding.false_alarm == 0
    assert "permuted: " in finding.evidence
    assert "this is a proof" in str(finding)


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_one_record_moves_a_float_sum_by_more_than_its_norm(norm: float) -> None:
    record = np.array([1.0, 0.0], dtype=np.float32)
    finding = order_dependence(
        lambda rows: rows.sum(axis=0), crossing_rows(), record=record, sensitivity=1, norm=norm
    )
    assert finding.detected
    assert "one record at 0 moves the answer by 2 in norm" in finding.evidence
    assert "more than the claimed 1" in finding.evidence


@pytest.mark.parametrize("seed", range(3))
def test_exact_sums_do_not_depend_on_anything(seed: int) -> None:
    rows = unit_rows(seed, 1000, 3, np.float64)
    assert not order_dependence(exact_sum, rows, seed=seed).detected
    integers = np.rint(rows * 2**20).astype(np.int64)
    record = np.array([2**20, 0, 0])
    finding = order_dependence(
        lambda r: r.sum(axis=0),
        integers,
        record=record,
        sensitivity=2**20,
        additive=True,
        seed=seed,
    )
    assert not finding.detected
    assert finding.problem == ""
    assert finding.evidence == "29 answers are the same bit for bit"


@pytest.mark.parametrize("seed", range(3))
def test_our_grid_queries_do_not_depend_on_anything(seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(500, 1))
    for query, sensitivity in ((GRID_SUM, 1024), (Count((-0.5, 0.5)), 1), (Count(), 1)):
        finding = order_dependence(
            partial(asked, query),
            rows,
            record=[1.0],
            sensitivity=Fraction(sensitivity),
            norm=1,
            additive=True,
            seed=seed,
        )
        assert not finding.detected
        assert finding.problem == ""
    finding = batch_dependence(lambda r: quantize(r, -1024, 1024, -10), rows[0], seed=seed)
    assert not finding.detected


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_project_then_clip_depends_on_the_batch(kind: type) -> None:
    finding = batch_dependence(project_then_clip(1, 300, kind), unit_rows(2, 1, 300, kind)[0])
    assert finding.detected
    assert "another batch: " in finding.evidence


@pytest.mark.parametrize("seed", range(3))
def test_a_true_row_by_row_map_does_not(seed: int) -> None:
    record = unit_rows(seed, 1, 300, np.float64)[0]
    finding = batch_dependence(
        lambda rows: np.rint(np.sqrt(np.abs(rows)) * 1024), record, seed=seed
    )
    assert not finding.detected
    assert finding.problem == ""


def test_a_batch_leak_planted_by_hand() -> None:
    finding = batch_dependence(lambda rows: rows + (len(rows) > 100), [1.0, 2.0])
    assert finding.detected
    assert "another batch: 3 answers differ, by up to 1, first at 0 of 257" in finding.evidence


def test_threads_and_layouts() -> None:
    active = [1]

    @contextlib.contextmanager
    def limit(count: int) -> Iterator[None]:
        active[0] = count
        yield
        active[0] = 1

    finding = order_dependence(
        lambda rows: rows.sum(axis=0) * active[0], np.ones((5, 2)), thread_limit=limit
    )
    assert "another number of threads: 2 answers differ" in finding.evidence
    finding = batch_dependence(lambda rows: rows * active[0], [1.0], sizes=(2,), thread_limit=limit)
    assert "another number of threads: 4 answers differ" in finding.evidence
    assert not order_dependence(
        lambda rows: rows.sum(axis=0), np.ones((5, 2)), thread_limit=limit
    ).detected
    finding = order_dependence(lambda rows: [rows.flags["F_CONTIGUOUS"]], np.ones((5, 2)))
    assert "another memory layout: 1 answers differ" in finding.evidence
    assert "in Fortran order" in finding.evidence


def test_chunks() -> None:
    rows = unit_rows(1, 1000, 2)
    finding = order_dependence(lambda r: r.sum(axis=0), rows, additive=True, permutations=0)
    assert "in two chunks" in finding.evidence


def test_what_raises_or_is_random_is_reported() -> None:
    def broken(rows: Any) -> Any:
        raise OSError("disk on fire")

    rng = np.random.default_rng(0)
    for attack in (order_dependence, batch_dependence):
        finding = attack(broken, np.ones((4, 2)))
        assert not finding.detected
        assert "disk on fire" in finding.problem
        finding = attack(lambda rows: rows + rng.normal(), np.ones((4, 2)))
        assert not finding.detected
        assert "no deterministic query" in finding.problem
    assert str(finding).startswith("INCOMPLETE")


def test_a_query_that_raises_sometimes() -> None:
    def picky(rows: Any) -> Any:
        if rows[0] != 0:
            raise OSError("zero must come first")
        return rows.sum()

    finding = order_dependence(picky, np.arange(10), record=3, sensitivity=3, norm=1)
    assert not finding.detected
    assert "zero must come first" in finding.problem
    assert "more)" in finding.problem


def test_answers_without_a_finite_distance_are_no_violation_and_no_silence() -> None:
    finding = order_dependence(
        lambda rows: [math.nan], np.ones(3), record=1.0, sensitivity=1, permutations=1
    )
    assert not finding.detected
    assert finding.problem


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="together"):
        order_dependence(exact_sum, np.ones((3, 1)), record=[1.0])
    with pytest.raises(ValueError, match="norm"):
        order_dependence(exact_sum, np.ones((3, 1)), norm=3)
    with pytest.raises(ValueError, match="sizes"):
        batch_dependence(exact_sum, [1.0], sizes=())


def test_answers_in_one_array_are_compared_all_the_same() -> None:
    """Else each would be held against itself."""
    buffer = np.zeros(1)

    def fills(rows: Any) -> Any:
        buffer[0] = rows[0]
        return buffer

    assert order_dependence(fills, np.arange(5.0)).detected
    places = np.zeros(100_000)

    def places_in(rows: Any) -> Any:
        places[: len(rows)] = rows[:, 0] + np.arange(len(rows))
        return places[: len(rows)]

    assert batch_dependence(places_in, np.ones(1), sizes=(1, 5)).detected
