"""Learned witnesses: every planted leak is found, and nothing where there is none.

What a candidate is worth is seen on fresh draws: its advantage, max P(S) - Q(S) over the events
{score >= t} and their complements, measured as the largest distance of two empirical distribution
functions of 4000 draws each. By Massart's inequality (1990) either one is off by more than .05 with
probability below 2 exp(-20) = 5e-9, so a measured advantage is off by more than .1 with probability
below 1e-8 a candidate.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from dpverify.audit.outputs.draws import Draws
from dpverify.audit.outputs.laws import encode
from dpverify.audit.witnesses.directions import Moments
from dpverify.audit.witnesses.features import Feature, number
from dpverify.audit.witnesses.learned import Candidate, Effort, candidates
from dpverify.audit.witnesses.models import monotone_trees, trees
from tests.audit.learning import Maker, advantage, area, learn, same_vectors, upward, worth


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


def _codes(rng: Any, size: int) -> list[str]:
    """Return random texts of 6 to 12 letters, nearly all different."""
    letters = rng.choice(list("abcdefgh"), size=(size, 12)).tolist()
    return ["".join(row[:n]) for row, n in zip(letters, rng.integers(6, 13, size), strict=True)]


def one_character(rng: Any, size: int, side: int) -> Any:
    """Return the fourth letter."""
    codes, shown = _codes(rng, size), rng.random(size) < 0.4 * side
    return [
        code[:3] + "d" + code[4:] if one else code for code, one in zip(codes, shown, strict=True)
    ]


def last_character(rng: Any, size: int, side: int) -> Any:
    codes, shown = _codes(rng, size), rng.random(size) < 0.2 + 0.4 * side
    return [code + "yn"[int(one)] for code, one in zip(codes, shown, strict=True)]


def every_character(rng: Any, size: int, side: int) -> Any:
    """Draw 20 bits, each 1 with probability 0.4 or 0.6: the best event has advantage 0.65."""
    return [
        "".join(map(str, row)) for row in (rng.random((size, 20)) < 0.4 + 0.2 * side).astype(int)
    ]


def second_number(rng: Any, size: int, side: int) -> Any:
    return [
        f"n={n}, mean={x + 2 * side}"
        for n, x in zip(rng.integers(1000, size=size), rng.normal(size=size), strict=True)
    ]


LEAKS: list[tuple[Maker, float, str]] = [
    (nan, 0.3, "output is"), (exception_text, 0.4, "output is"),
    (exception_number, 0.68, "number 0 in the output's text"), (length, 0.5, "output is"),
    (kind, 1.0, "output is"), (shape, 1.0, "output is"), (minus_zero, 0.4, "output is"),
    (float32_inversion, 0.38, ""), (atom, 0.15, "0.123"),
    (atom_anywhere, 0.3, "some number"), (argmax, 0.4, "place of the largest number is"),
    (equal_numbers, 0.3, "count of repeated numbers"), (parity, 0.6, "parity"),
    (spread, 0.37, "L2 norm"), (text_in_tuple, 0.4, "entry 0 is"),
    (number_in_field, 0.38, "number"),
    (edges, 0.5, "log-ratio of number 0"), (one_character, 0.35, "character"),
    (last_character, 0.4, "character -"),
    (every_character, 0.6, "log-ratio of independent entries"),
    (second_number, 0.68, "number 1 in the output's text"),
]  # fmt: skip


@cache
def _learned(make: Maker) -> tuple[list[Candidate], Draws, Draws]:
    return learn(make)


@pytest.mark.parametrize(("make", "least", "words"), LEAKS)
def test_a_planted_leak_is_found(make: Maker, least: float, words: str) -> None:
    """``least`` is about the true advantage of the named event. False alarm below 1e-8 each."""
    pool, own, other = _learned(make)
    named = [one for one in pool if words in one.description]
    assert max(advantage(one.score(own), one.score(other)) for one in named) > least - 0.1


@pytest.mark.parametrize("swapped", [0, 1])
def test_what_is_tried_with_one_sign_points_to_the_own_side(swapped: int) -> None:
    """Find leaks from the other side as well. False alarm below 1e-6 in all."""
    for make, least, _ in LEAKS:
        pool, own, other = (
            learn(lambda rng, size, side, make=make: make(rng, size, 1 - side))  # type: ignore[misc]
            if swapped
            else _learned(make)
        )
        best = 0.0
        for one in pool:
            scores = one.score(own), one.score(other)
            value = advantage(*scores)
            best = max(best, value)
            if not one.both_signs:
                assert upward(*scores) > value - 0.1, one.description
        assert best > least - 0.1


def xor(rng: Any, size: int, side: int) -> Any:
    """Draw two numbers with dependent signs: each alone tells nothing, a line little."""
    values = rng.choice([-1.0, 1.0], size=(size, 2)) * (0.1 + rng.random((size, 2)))
    wrong = (values[:, 0] * values[:, 1] > 0) != bool(side)
    values[wrong, 1] *= -1
    return values


def test_trees_see_what_no_line_does() -> None:
    """False alarm below 1e-6 over both assertions and some 50 candidates."""
    advantages = worth(xor, effort=Effort.FULL)
    assert advantages["boosted trees >= {threshold}"] > 0.8
    assert advantages["log-ratio of Gaussians >= {threshold}"] > 0.8  # a correlation
    lines = [text for text in advantages if text.startswith(("projection", "number"))]
    assert len(lines) >= 3
    assert max(advantages[text] for text in lines) < 0.5


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

    pool, own, _ = learn(sparse, 2000)
    (score,) = [one.score for one in pool if "evident" in one.description]
    assert abs(np.corrcoef(score(own), own.column(700))[0, 1]) > 0.97


def test_the_pair_suggests_a_direction_in_a_thousand() -> None:
    """Each coordinate moves by 1 / sqrt(1000): 1000 draws cannot learn that, the pair knows it.

    Rounded to a grid, or the lowest bits of the floats would tell.
    """
    moved = np.where(np.arange(1000) % 2, 1.0, -1.0)

    def dense(rng: Any, size: int, side: int) -> Any:
        return (rng.normal(size=(size, 1000)) + side * moved / math.sqrt(1000)).round(2)

    advantages = worth(dense, difference=moved, words="projection")
    best = advantages["projection on the pair's difference >= {threshold}"]
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

    advantages = worth(correlated)
    assert advantages["projection on the whitened difference of means >= {threshold}"] > 0.8
    assert advantages["number 0 >= {threshold}"] < 0.2


def test_label_and_number_together_beat_each() -> None:
    """Advantages: label .3; number .38, half the time; both by their log-ratio about .35."""

    def mixed(rng: Any, size: int, side: int) -> Any:
        stopped = rng.random(size) < 0.3 + 0.3 * side
        values = rng.normal(size=size) - 2 * side
        return [None if s else x for s, x in zip(stopped.tolist(), values.tolist(), strict=True)]

    pool, own, other = learn(mixed, 4000)
    areas = {one.description: abs(area(one.score(own), one.score(other)) - 0.5) for one in pool}
    both = areas.pop("log-ratio of label and number >= {threshold}")
    single = [value for text, value in areas.items() if text.startswith(("output is", "number"))]
    # A difference of areas has a standard error below .01: five of them are 3e-7.
    assert both > max(single) + 0.05


def test_two_sightings_on_one_side_are_a_candidate() -> None:
    """Exact: of labels, values and entries, however many there are."""
    plain: list[Any] = [("ordinary", float(x)) for x in range(500)]
    rare: list[Any] = [("rare", 0.25)] * 2
    for law_known in (True, False):
        pool = candidates(
            encode(plain + rare),
            encode(plain + [("ordinary", -1.0)] * 2),
            law_known=law_known, difference=None, seed=0, effort=Effort.QUICK,
        )  # fmt: skip
        texts = [one.description for one in pool]
        for event in ("output is ('rare', float)", "entry 0 is 'rare'", "number 1 is 0.25"):
            (score,) = [one.score for one in pool if one.description == event]
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
    pool, _, _ = learn(spread, effort=Effort.FULL, law_known=True)
    assert pool
    starts = ("output", "number", "some number", "log-ratio of the", "bit 0")  # of scaled floats
    assert all(one.description.startswith(starts) for one in pool)


def test_monotone_trees_follow_the_odds_that_few_draws_show() -> None:
    """Exact on a grid, for this seed: the odds rise with the first number and fall with the
    second, but for outputs that have no second number; trees without that are not monotone."""
    rng, size = np.random.default_rng(5), 3000

    def drawn(moved: float) -> Draws:
        first = rng.integers(0, 10, 4 * size)
        second = np.where(rng.random(4 * size) < 0.1, 0.0, rng.normal(size=4 * size))
        odds = moved * (0.2 * first * (second < 0) - 0.2 * first * (second == 0))
        kept = np.flatnonzero(rng.random(4 * size) < 1 / (1 + np.exp(-odds)))[:size]
        return encode(np.stack([first[kept], second[kept]], axis=1))

    own, other = drawn(1.0), drawn(-1.0)
    moments = Moments.of(own.numbers, other.numbers)
    monotone = monotone_trees(moments, own, other, 0)
    assert monotone is not None
    features = [Feature("first", number(0)), Feature("second", number(1))]
    firsts, seconds = np.meshgrid(np.arange(10.0), np.linspace(-2, 2, 40), indexing="ij")
    grid = encode(np.stack([firsts.ravel(), seconds.ravel()], axis=1))
    for score, kept in ((monotone, True), (trees(features, own, other, 0), False)):
        scores = score(grid).reshape(firsts.shape)
        assert (np.diff(scores, axis=0).min() >= 0 >= np.diff(scores, axis=1).max()) == kept
    without, beside = encode([[9.0, 0.0]]), encode([[9.0, 1e-9]])
    assert monotone(without)[0] < monotone(beside)[0]


def test_without_a_number_that_plainly_differs_no_trees_are_monotone() -> None:
    """Exact, for this seed."""
    rng = np.random.default_rng(2)
    own, other = (encode(rng.normal(size=(500, 2))) for _ in range(2))
    assert monotone_trees(Moments.of(own.numbers, other.numbers), own, other, 0) is None
