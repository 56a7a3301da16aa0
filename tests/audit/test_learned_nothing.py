"""Learned witnesses where there is nothing to learn, and on odd draws."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from dpverify.audit.outputs.draws import Draws
from dpverify.audit.outputs.laws import encode
from dpverify.audit.witnesses.learned import Effort, candidates
from tests.audit.learning import Maker, area, learn, same_vectors


def same_numbers(rng: Any, size: int, side: int) -> Any:
    return rng.laplace(size=size)


def same_texts(rng: Any, size: int, side: int) -> Any:
    return list(map(tuple, rng.choice(["TRUE", "FALSE", "ABORT"], size=(size, 10)).tolist()))


def same_codes(rng: Any, size: int, side: int) -> Any:
    return ["".join(row) for row in rng.choice(list("abcdefgh"), size=(size, 12)).tolist()]


def same_mess(rng: Any, size: int, side: int) -> Any:
    odd = [None, math.nan, "x", [1.0, math.inf], [1.0], 3, ValueError("no")]
    return [odd[k] if k < len(odd) else float(k) for k in rng.integers(0, 40, size=size)]


@pytest.mark.parametrize("make", [same_numbers, same_vectors, same_texts, same_codes, same_mess])
@pytest.mark.parametrize("effort", list(Effort))
def test_on_identical_laws_nothing_is_learned(make: Maker, effort: Effort) -> None:
    """Areas under the curve on fresh draws are near 1/2.

    Given a candidate, its area has standard deviation at most sqrt((2 n + 1) / (12 n^2)) = .0065
    for n = 4000 (ties make it smaller). Six of them: 2e-9, less than 1e-6 over all candidates and
    controls.
    """
    pool, own, other = learn(make, effort=effort)
    assert len(pool) >= 5
    for one in pool:
        assert abs(area(one.score(own), one.score(other)) - 0.5) < 0.039, one.description


def test_the_same_seed_gives_the_same_scores() -> None:
    first, own, _ = learn(same_mess, 300, Effort.FULL)
    again, _, _ = learn(same_mess, 300, Effort.FULL)
    for one, two in zip(first, again, strict=True):
        assert one.description == two.description
        assert one.both_signs == two.both_signs
        assert np.array_equal(one.score(own), two.score(own))


ODD: list[tuple[Any, Any]] = [
    ([1.0], [2.0]), ([1.0] * 50, [1.0] * 50), ([math.nan] * 50, [math.nan] * 40),
    ([None] * 50, ["a"] * 50), ([[]] * 50, [[1.0]] * 50), ([[]] * 5, [[]] * 5),
    ([math.inf] * 50, [-math.inf] * 50), ([1e308, -1e308] * 30, [5e-324, 0.0] * 30),
    ([[1e308] * 3, [-1e308] * 3] * 30, [[0.0] * 3] * 60), ([10**400] * 20, [-(10**400)] * 20),
    ([[1.0] * (k % 5) for k in range(60)], [[2.0] * (k % 3) for k in range(60)]),
    (np.zeros((30, 200)), np.ones((30, 200))), ([ValueError("a")] * 30, [ValueError("b")] * 30),
    ([f"\x00{k}\ud800" for k in range(90)], [f"{k}\n" * (k % 90) for k in range(90)]),
    ([(1.0, "{x}")] * 30, [(1.0, "{threshold}")] * 30), ([1.0] * 100, ["x", 2.0] * 2),
    (np.zeros((40, 3, 0)), np.zeros((40, 3, 0))), ([True] * 30, [1.0] * 30), ([], [1.0, 2.0]),
    ([], []), (np.eye(45), np.eye(45)[::-1]),
]  # fmt: skip


@cache
def _strangers() -> list[Draws]:
    batches: tuple[Any, ...] = ([], [1.0], [None], [[1.0, math.nan, 1e308] * 5, "?"], [KeyError()])
    return list(map(encode, batches))


@pytest.mark.parametrize(("own", "other"), ODD)
@pytest.mark.parametrize("effort", list(Effort))
def test_odd_draws_do_no_harm(own: Any, other: Any, effort: Effort) -> None:
    """Every score of every odd batch is finite, on draws of any kind and width."""
    drawn = encode(own), encode(other)
    pool = candidates(
        *drawn, law_known=False, difference=np.array([1e308, math.inf, math.nan]), seed=0,
        effort=effort,
    )  # fmt: skip
    assert all("{{" not in one.description.format(threshold=0.5) for one in pool)
    for batch in (*drawn, *_strangers()):
        for one in pool:
            values = one.score(batch)
            assert values.shape == (len(batch),)
            assert np.isfinite(values).all()


def _ragged(rng: np.random.Generator, size: int) -> list[Any]:
    """Lists of one to six numbers, negative ones mostly, texts, None and NaN among them."""
    odd: list[Any] = [None, "text", [math.nan, -1.0], [], (0.0, -0.0), 2**60 + 1]
    rows: list[Any] = [(-rng.exponential(size=1 + k % 3)).round(2).tolist() for k in range(size)]
    for k in range(0, size, 17):
        rows[k] = odd[int(rng.integers(len(odd)))]
    return rows


@pytest.mark.parametrize("effort", list(Effort))
def test_a_score_is_a_function_of_one_draw(effort: Effort) -> None:
    """Longer, larger or stranger draws beside it change nothing: else sound subjects are
    refuted."""
    rng = np.random.default_rng(11)
    pool = candidates(
        encode(_ragged(rng, 400)), encode(_ragged(rng, 400)), law_known=False, difference=None,
        seed=0, effort=effort,
    )  # fmt: skip
    assert len(pool) > 20
    beside = [[-1.0] * 9, [5.0] * 7, 2**70, math.inf, "more", ValueError("x"), {"k": 1}]
    rows = _ragged(rng, 60)
    singly, among = [encode([row]) for row in rows], encode([*beside, *rows])
    for candidate in pool:
        alone = np.concatenate([candidate.score(one) for one in singly])
        together = candidate.score(among)[len(beside) :]
        np.testing.assert_allclose(alone, together, rtol=1e-9, atol=1e-12, err_msg=str(candidate))
