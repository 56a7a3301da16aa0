"""Learned witnesses: every planted leak is found, and nothing where there is none.

What a candidate is worth is seen on fresh draws: its advantage, max P(S) - Q(S) over the events
{score >= t} and their complements, measured as the largest distance of two empirical distribution
functions of 4000 draws each. By Massart's inequality (1990) either one is off by more than .05 with
probability below 2 exp(-20) = 5e-9, so a measured advantage is off by more than .1 with probability
below 1e-8 a candidate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from dpverify.audit.outputs.draws import Draws, Floats
from dpverify.audit.outputs.laws import encode
from dpverify.audit.witnesses.learned import Candidate, Effort, candidates

Maker = Callable[[np.random.Generator, int, int], Any]
"""rng, size, side to outputs."""
FRESH = 4000


def advantage(own: Floats, other: Floats) -> float:
    own, other = np.sort(own), np.sort(other)
    cuts = np.concatenate([own, other])
    below = np.searchsorted(own, cuts) / len(own), np.searchsorted(other, cuts) / len(other)
    return float(np.max(np.abs(below[0] - below[1])))


def upward(own: Floats, other: Floats) -> float:
    """max P(own score >= t) - P(other score >= t)."""
    own, other = np.sort(own), np.sort(other)
    below = np.searchsorted(own, own) / len(own), np.searchsorted(other, own) / len(other)
    return float(np.max(below[1] - below[0]))


def area(own: Floats, other: Floats) -> float:
    """P(score of own > score of other), a tie being one half."""
    below = np.searchsorted(np.sort(other), own), np.searchsorted(np.sort(other), own, "right")
    return float((below[0] + below[1]).mean() / (2 * len(other)))


def learn(
    make: Maker,
    size: int = 1000,
    effort: Effort = Effort.QUICK,
    difference: Floats | None = None,
    law_known: bool = False,
) -> tuple[list[Candidate], Draws, Draws]:
    """Candidates, and fresh draws of both sides."""
    rng = np.random.default_rng(0)
    own, other = (encode(make(rng, size, side)) for side in (0, 1))
    found = candidates(
        own, other, law_known=law_known, difference=difference, seed=0, effort=effort
    )
    fresh, other_fresh = (encode(make(rng, FRESH, side)) for side in (0, 1))
    return found, fresh, other_fresh


def worth(
    make: Maker,
    *,
    size: int = 1000,
    effort: Effort = Effort.QUICK,
    difference: Any = None,
    words: str = "",
) -> dict[str, float]:
    """The advantage of each candidate whose description has these words."""
    found, own, other = learn(make, size, effort, difference)
    named = [one for one in found if words in one.description]
    return {one.description: advantage(one.score(own), one.score(other)) for one in named}


def nan(rng: Any, size: int, side: int) -> Any:
    return np.where(rng.random(size) < 0.3 * side, np.nan, rng.normal(size=size))


def exception_text(rng: Any, size: int, side: int) -> Any:
    return [ValueError(f"record {7 + side}") if u < 0.4 else u for u in rng.random(size)]


def exception_number(rng: Any, size: int, side: int) -> Any:
    return [ValueError(f"mean is {x + 2 * side}") for x in rng.normal(size=size)]


def length(rng: Any, size: int, side: int) -> Any:
    return [[0.5] * (2 + side) if u < 0.5 else [0.5] for u in rng.random(size)]


def kind(rng: Any, size: int, side: int) -> Any:
    return [int(n) if side else float(n) for n in rng.integers(5, size=size)]


def shape(rng: Any, size: int, side: int) -> Any:
    return [np.zeros((2, 1) if side else (1, 2)) for _ in range(size)]


def minus_zero(rng: Any, size: int, side: int) -> Any:
    return np.where(rng.random(size) < 0.4, -0.0 if side else 0.0, rng.normal(size=size))


def float32_inversion(rng: Any, size: int, side: int) -> Any:
    u = rng.random(size, dtype=np.float32) - np.float32(0.5)
    return np.float32(side) - np.sign(u) * np.log1p(-2 * np.abs(u))


def atom(rng: Any, size: int, side: int) -> Any:
    return np.where(rng.random(size) < 0.15 * side, 0.123, rng.normal(size=size))


def atom_anywhere(rng: Any, size: int, side: int) -> Any:
    values = rng.normal(size=(size, 6))
    here = rng.random(size) < 0.3 * side
    values[np.flatnonzero(here), rng.integers(6, size=here.sum())] = 0.123
    return values


def argmax(rng: Any, size: int, side: int) -> Any:
    values = rng.normal(size=(size, 5))
    rows = np.flatnonzero(rng.random(size) < 0.5 * side)
    places = values[rows].argmax(axis=1)
    top, second = values[rows, places], values[rows, 2]
    values[rows, places], values[rows, 2] = second, top
    return values


def equal_numbers(rng: Any, size: int, side: int) -> Any:
    values = rng.normal(size=(size, 4))
    rows = np.flatnonzero(rng.random(size) < 0.3 * side)
    values[rows, 3] = values[rows, 0]
    return values


def parity(rng: Any, size: int, side: int) -> Any:
    return 2 * rng.integers(-500, 500, size=size) + (rng.random(size) < 0.2 + 0.6 * side)


def spread(rng: Any, size: int, side: int) -> Any:
    return rng.normal(size=(size, 10)) * (1 + 0.25 * side)


def text_in_tuple(rng: Any, size: int, side: int) -> Any:
    rows = rng.choice(["TRUE", "FALSE"], size=(size, 12)).tolist()
    return [("FALSE", *row) if u < 0.2 + 0.4 * side else ("TRUE", *row)
            for row, u in zip(rows, rng.random(size), strict=True)]  # fmt: skip


def number_in_field(rng: Any, size: int, side: int) -> Any:
    return [{"mean": x, "note": "ok"} for x in (rng.normal(size=size) + side).tolist()]


def edges(rng: Any, size: int, side: int) -> Any:
    """Same mean and spread of the sign; one side has values near 0."""
    return rng.choice([-1.0, 1.0], size=size) * (rng.random(size) + (1 - side) * 0.5)


LEAKS: list[tuple[Maker, float, str]] = [
    (nan, 0.3, "output is"), (exception_text, 0.4, "output is"),
    (exception_number, 0.68, "first number in the output's text"), (length, 0.5, "output is"),
    (kind, 1.0, "output is"), (shape, 1.0, "output is"), (minus_zero, 0.4, "output is"),
    (float32_inversion, 0.38, ""), (atom, 0.15, "0.123"),
    (atom_anywhere, 0.3, "some number"), (argmax, 0.4, "place of the largest number is"),
    (equal_numbers, 0.3, "count of repeated numbers"), (parity, 0.6, "parity"),
    (spread, 0.37, "L2 norm"), (text_in_tuple, 0.4, "entry 0 is"), (number_in_field, 0.38, "number"),
    (edges, 0.5, "log-ratio of number 0"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "least", "words"), LEAKS)
def test_a_planted_leak_is_found(make: Maker, least: float, words: str) -> None:
    """``least`` is about the true advantage of the named event. False alarm below 1e-8 each."""
    assert max(worth(make, words=words).values(), default=0.0) > least - 0.1


@pytest.mark.parametrize("swapped", [0, 1])
def test_what_is_tried_with_one_sign_points_to_the_own_side(swapped: int) -> None:
    """And leaks are found from the other side as well. False alarm below 1e-6 in all."""
    for make, least, _ in LEAKS:
        found, own, other = learn(
            lambda rng, size, side, make=make: make(rng, size, side ^ swapped)  # type: ignore[misc]
        )
        best = 0.0
        for one in found:
            scores = one.score(own), one.score(other)
            value = advantage(*scores)
            best = max(best, value)
            if not one.both_signs:
                assert upward(*scores) > value - 0.1, one.description
        assert best > least - 0.1


def xor(rng: Any, size: int, side: int) -> Any:
    """Of the signs of two numbers: each alone tells nothing, a line little."""
    values = rng.choice([-1.0, 1.0], size=(size, 2)) * (0.1 + rng.random((size, 2)))
    wrong = (values[:, 0] * values[:, 1] > 0) != bool(side)
    values[wrong, 1] *= -1
    return values


def test_trees_see_what_no_line_does() -> None:
    """False alarm below 1e-6 over both assertions and some 50 candidates."""
    found = worth(xor, effort=Effort.FULL)
    assert found["boosted trees >= {threshold}"] > 0.8
    assert found["log-ratio of Gaussians >= {threshold}"] > 0.8  # a correlation
    lines = [text for text in found if text.startswith(("projection", "number"))]
    assert len(lines) >= 3
    assert max(found[text] for text in lines) < 0.5


def test_one_coordinate_of_a_thousand_keeps_its_signal() -> None:
    """97% of it: 2000 draws at distance .8 have the 25 standard errors of 20,000 at distance .25.

    The advantage at distance m is 2 Phi(m / 2) - 1; the signal is read off the scores' means, whose
    error is below .05 of .8 but for probability 1e-6 (5 standard errors, normal), so the score's
    correlation with the coordinate that differs is what is measured.
    """

    def sparse(rng: Any, size: int, side: int) -> Any:
        values = rng.normal(size=(size, 1000))
        values[:, 700] += 0.8 * side
        return values

    found, own, _ = learn(sparse, 2000)
    (score,) = [one.score for one in found if "evident" in one.description]
    assert abs(np.corrcoef(score(own), own.column(700))[0, 1]) > 0.97


def test_the_pair_suggests_a_direction_in_a_thousand() -> None:
    """Each coordinate moves by 1 / sqrt(1000): 1000 draws cannot learn that, the pair knows it.

    Rounded to a grid, or the lowest bits of the floats would tell.
    """
    moved = np.where(np.arange(1000) % 2, 1.0, -1.0)

    def dense(rng: Any, size: int, side: int) -> Any:
        return (rng.normal(size=(size, 1000)) + side * moved / math.sqrt(1000)).round(2)

    found = worth(dense, difference=moved, words="projection")
    best = found["projection on the pair's difference >= {threshold}"]
    assert best > 2 * norm.cdf(0.5) - 1 - 0.1
    blind = worth(dense, words="projection")
    assert max(blind.values()) < best - 0.1  # it is the direction that helps
    unfit, _, _ = learn(same_vectors, difference=np.ones(3))
    assert not any("the pair's difference" in one.description for one in unfit)


def test_correlated_noise_is_whitened() -> None:
    """Along the difference the noise is large, and almost none beside it.

    The true advantage of the whitened score is above .9; a single number's is below .1.
    """

    def correlated(rng: Any, size: int, side: int) -> Any:
        common = 10 * rng.normal(size=(size, 1))
        return common + 0.1 * rng.normal(size=(size, 3)) + side * np.array([0.3, -0.3, 0.0])

    found = worth(correlated)
    assert found["projection on the whitened difference of means >= {threshold}"] > 0.8
    assert found["number 0 >= {threshold}"] < 0.2


def test_label_and_number_together_beat_each() -> None:
    """Advantages: label .3; number .38, half the time; both by their log-ratio about .35."""

    def mixed(rng: Any, size: int, side: int) -> Any:
        stopped = rng.random(size) < 0.3 + 0.3 * side
        values = rng.normal(size=size) - 2 * side
        return [None if s else x for s, x in zip(stopped.tolist(), values.tolist(), strict=True)]

    found, own, other = learn(mixed, 4000)
    areas = {one.description: abs(area(one.score(own), one.score(other)) - 0.5) for one in found}
    both = areas.pop("log-ratio of label and number >= {threshold}")
    single = [value for text, value in areas.items() if text.startswith(("output is", "number"))]
    # A difference of areas has a standard error below .01: five of them are 3e-7.
    assert both > max(single) + 0.05


def test_two_sightings_on_one_side_are_a_candidate() -> None:
    """Exact: of labels, values and entries, however many there are."""
    plain: list[Any] = [("ordinary", float(x)) for x in range(500)]
    rare: list[Any] = [("rare", 0.25)] * 2
    for law_known in (True, False):
        found = candidates(
            encode(plain + rare),
            encode(plain + [("ordinary", -1.0)] * 2),
            law_known=law_known, difference=None, seed=0, effort=Effort.QUICK,
        )  # fmt: skip
        texts = [one.description for one in found]
        for event in ("output is ('rare', float)", "entry 0 is 'rare'", "number 1 is 0.25"):
            (score,) = [one.score for one in found if one.description == event]
            assert score(encode(plain)).sum() == 0
            assert score(encode(rare)).sum() == 2
        assert any(text.startswith("some number is") for text in texts)


def test_many_rare_labels_count_together() -> None:
    """A thousand labels, each rare, half of them impossible on the other side.

    With 20 draws a label both the table of log-ratios and the truth have advantage about 1/2.
    """

    def many(rng: Any, size: int, side: int) -> Any:
        return [f"bin {k}" for k in rng.integers(0, 500 if side else 1000, size=size)]

    assert worth(many, size=5000)["log-ratio of the output >= {threshold}"] > 0.4


def test_a_known_law_gets_the_cheap_candidates_only() -> None:
    found, _, _ = learn(spread, effort=Effort.FULL, law_known=True)
    assert found
    starts = ("output", "number", "some number", "log-ratio of the")
    assert all(one.description.startswith(starts) for one in found)


def same_numbers(rng: Any, size: int, side: int) -> Any:
    return rng.laplace(size=size)


def same_vectors(rng: Any, size: int, side: int) -> Any:
    return rng.normal(size=(size, 20)).round(1)


def same_texts(rng: Any, size: int, side: int) -> Any:
    return list(map(tuple, rng.choice(["TRUE", "FALSE", "ABORT"], size=(size, 10)).tolist()))


def same_mess(rng: Any, size: int, side: int) -> Any:
    odd = [None, math.nan, "x", [1.0, math.inf], [1.0], 3, ValueError("no")]
    return [odd[k] if k < len(odd) else float(k) for k in rng.integers(0, 40, size=size)]


@pytest.mark.parametrize("make", [same_numbers, same_vectors, same_texts, same_mess])
@pytest.mark.parametrize("effort", list(Effort))
def test_on_identical_laws_nothing_is_learned(make: Maker, effort: Effort) -> None:
    """Areas under the curve on fresh draws are near 1/2.

    Given a candidate, its area has standard deviation at most sqrt((2 n + 1) / (12 n^2)) = .0065
    for n = 4000 (ties make it smaller). Six of them: 2e-9, less than 1e-6 over all candidates and
    controls.
    """
    found, own, other = learn(make, effort=effort)
    assert len(found) >= 5
    for one in found:
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
    ([(1.0, "{x}")] * 30, [(1.0, "{threshold}")] * 30), ([1.0] * 100, ["x", 2.0] * 2),
    (np.zeros((40, 3, 0)), np.zeros((40, 3, 0))), ([True] * 30, [1.0] * 30), ([], [1.0, 2.0]),
    ([], []), (np.eye(45), np.eye(45)[::-1]),
]  # fmt: skip


@pytest.mark.parametrize(("own", "other"), ODD)
@pytest.mark.parametrize("effort", list(Effort))
def test_odd_draws_do_no_harm(own: Any, other: Any, effort: Effort) -> None:
    """Every score of every odd batch is finite, on draws of any kind and width."""
    found = candidates(
        encode(own), encode(other),
        law_known=False, difference=np.array([1e308, math.inf, math.nan]), seed=0, effort=effort,
    )  # fmt: skip
    strangers = [own, other, [], [1.0], [None], [[1.0, math.nan, 1e308] * 5, "?"], [KeyError()]]
    assert all("{{" not in one.description.format(threshold=0.5) for one in found)
    for batch in map(encode, strangers):
        for one in found:
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
    """Longer, larger or stranger draws beside it change nothing: else sound subjects are refuted."""
    rng = np.random.default_rng(11)
    found = candidates(
        encode(_ragged(rng, 400)), encode(_ragged(rng, 400)), law_known=False, difference=None,
        seed=0, effort=effort,
    )  # fmt: skip
    assert len(found) > 20
    beside = [[-1.0] * 9, [5.0] * 7, 2**70, math.inf, "more", ValueError("x"), {"k": 1}]
    rows = _ragged(rng, 60)
    for candidate in found:
        alone = np.concatenate([candidate.score(encode([row])) for row in rows])
        together = candidate.score(encode([*beside, *rows]))[len(beside) :]
        np.testing.assert_allclose(alone, together, rtol=1e-9, atol=1e-12, err_msg=str(candidate))
