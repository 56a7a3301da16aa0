"""Agreement and weighted mean: against all pairs in fractions, and attacked on neighbors; no
statistics.

That they move by no more than is claimed, for every dataset, is for the spec to show; here the
shipped integers are held against the claim on crafted and random neighbors.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from dpverify.grid import UNIT, View
from dpverify.grid.image_view import Images
from dpverify.grid.nearness import Nearness
from dpverify.plans import Transcripts
from dpverify.privacy import Adjacency, Domain
from dpverify.transformations import Agreement, WeightedMean
from dpverify.transformations.degree_weights import LEAST, agreement_of, moves, reach, slack

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
NEAR = Nearness(1000, 0, (1.0,))
DOMAIN = Domain(columns=1)
Records = list[int]


def seen(records: Records) -> View:
    return View(np.array(records, np.float64).reshape(-1, 1))


def mapped(records: Records) -> Images:
    return seen(records).images(NEAR)


def weights(records: Records) -> list[int]:
    n = len(records)
    return [max(0, 2 * sum(abs(x - y) <= 1000 for y in records) - n) for x in records]


def score(records: Records) -> Fraction:
    """2 K / n - n, before it is rounded down."""
    n = len(records)
    return Fraction(2 * sum(weights(records)), n) - n if n else Fraction(0)


def exact_mean(records: Records) -> Fraction:
    factors = weights(records)
    total = sum(w * x for w, x in zip(factors, records, strict=True))
    return Fraction(total, sum(factors)) if sum(factors) else Fraction(0)


def random_records(rng: random.Random) -> Records:
    """Blocks of records that are friends of some others: cliques, bridges and outliers."""
    places = [
        rng.choice((0, 400, 999, 1000, 1001, 1600, 2000, 3000, -1000, 50_000)) for _ in range(4)
    ]
    sizes = [rng.choice((0, 1, 2, 5, 12, 40)) for _ in places]
    records = [place for place, size in zip(places, sizes, strict=True) for _ in range(size)]
    rng.shuffle(records)
    return records


def pairs(adjacency: Adjacency) -> Iterator[tuple[Records, Records]]:
    rng = random.Random(17)
    crafted = [
        [0] * n + [1000] * k + [2000] * j for n in (0, 30, 80) for k in (1, 40) for j in (1, 9)
    ]
    for data in [*crafted, *(random_records(rng) for _ in range(250))]:
        for new in (rng.choice(data) if data else 0, 2000, -1000, 10**6):
            if adjacency is ADD:
                yield data, [*data, new]
            elif data:
                yield data, [*data[1:], new]


def test_agreement_and_mean_are_those_of_fractions() -> None:
    rng = random.Random(5)
    for _ in range(200):
        records = random_records(rng)
        here = mapped(records)
        assert agreement_of(here) == math.floor(score(records))
        assert Agreement(NEAR, 7).evaluate(seen(records)).tolist() == [
            math.floor(score(records)) - 7
        ]
        sums, total = here.weighted_sum
        assert total == sum(weights(records))
        assert Fraction(sums[0], max(1, total)) == exact_mean(records)


@pytest.mark.parametrize(
    ("records", "agreement"),
    [([], 0), ([5], 1), ([0, 0], 2), ([0, 5000], -2), ([0, 1000, 2000], 0), ([0] * 50, 50)],
)
def test_known_numbers(records: Records, agreement: int) -> None:
    assert agreement_of(mapped(records)) == agreement


def test_the_order_of_records_does_not_show() -> None:
    rng = random.Random(6)
    for _ in range(30):
        records = random_records(rng)
        turned = rng.sample(records, len(records))
        assert mapped(records).weighted_sum == mapped(turned).weighted_sum
        assert agreement_of(mapped(records)) == agreement_of(mapped(turned))


@cache
def view_of(records: tuple[int, ...]) -> View:
    """Return one view for all tests: what the records' distances tell is computed once."""
    return seen([*records])


def value_after(view: View, query: WeightedMean, released: int) -> list[int]:
    column = {"agreement": np.array([[released]])}
    batch = Transcripts(column, np.ones(1, np.intp), np.full(1, -1, np.intp), ())
    answer: list[int] = query.evaluate(view, batch)[0].tolist()
    return answer


def largest_shares(adjacency: Adjacency, released_above: int = 0) -> tuple[Fraction, Fraction]:
    """Return, as shares of what is claimed, how far the agreement moves, and (squared) the mean
    in its unit."""
    query = WeightedMean(NEAR, Fraction(3), adjacency)
    most = query.sensitivity(adjacency, DOMAIN).conclusion.value
    agreement, mean = Fraction(0), Fraction(0)
    for pair in pairs(adjacency):
        views = [view_of(tuple(records)) for records in pair]
        sides = [agreement_of(view.images(NEAR)) for view in views]
        share = Fraction(abs(sides[0] - sides[1]), moves(adjacency))
        agreement = max(agreement, share)
        released = min(sides) - slack(adjacency) + released_above
        if released >= LEAST:
            a, b = (value_after(view, query, released) for view in views)
            mean = max(mean, Fraction((a[0] - b[0]) ** 2) / most)
    return agreement, mean


@pytest.mark.parametrize("adjacency", Adjacency)
def test_neighbors_move_both_by_no_more_than_is_claimed(adjacency: Adjacency) -> None:
    agreement, mean = largest_shares(adjacency)
    assert Fraction(3, 4) <= agreement <= 1
    assert Fraction(2, 3) <= mean <= 1


def test_without_the_premise_on_the_released_agreement_the_mean_moves_further() -> None:
    """Planted: released numbers 30 above the smaller agreement, which the claim's event pays
    for."""
    assert largest_shares(ADD, released_above=30)[1] > 1


def test_what_is_claimed_is_the_theorem_s() -> None:
    assert [moves(a) for a in (ADD, REPLACE)] == [5, 6]
    assert [reach(a) for a in (ADD, REPLACE)] == [Fraction(17, 16), Fraction(17, 8)]
    assert [slack(a) for a in (ADD, REPLACE)] == [0, 2]
    for adjacency in Adjacency:
        shown = Agreement(NEAR, 0).sensitivity(adjacency, DOMAIN)
        assert shown.conclusion.value == moves(adjacency)
        mean = WeightedMean(NEAR, Fraction(3), adjacency).sensitivity(adjacency, DOMAIN)
        exact = (UNIT / Fraction(3) + 1) ** 2
        assert exact <= mean.conclusion.value < exact + 1
        names = {leaf.obligation for one in (shown, mean) for leaf in one.lemmas}
        assert names == {
            "degree_weights.py:obligation_agreement",
            "degree_weights.py:obligation_reach",
        }


@pytest.mark.parametrize("n", [10**6, 3 * 10**6])
def test_millions_of_records_do_not_overflow(n: int) -> None:
    """Sums of weights are about n^2, weighted sums of cells about 2^40 n^2: past 64 bits."""
    here: Any = mapped([])
    here.__dict__["degrees"] = np.full(n, n - 1, np.int64)
    here.__dict__["images"] = np.full((n, 1), (1 << 40) - 1, np.int64)
    here.__dict__["images"][::2] -= 1000
    assert agreement_of(here) == n - 4
    sums, total = here.weighted_sum
    assert total == n * (n - 2)
    assert sums == [(n - 2) * (n * ((1 << 40) - 1) - 1000 * ((n + 1) // 2))]
