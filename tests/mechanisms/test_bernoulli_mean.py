"""``bernoulli_mean``: at its stated error, by its formula, and nothing but typed results."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from dpverify import Abstained, Adjacency, ApproxDP, BernoulliMean, GaussianDP, SeededBits
from dpverify import ShareEstimate as Share
from dpverify.grid.transcripts import transcript
from dpverify.suite.refinement import compare_facts
from spec import bernoulli_mean as spec
from spec.theory import joint
from tests.mechanisms.helpers import (
    EDGE_DATA,
    EDGE_RECORDS,
    RELEASES,
    estimates,
    fails_at_most,
    mean_square_fits,
    slope,
)
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE


def share(**parameters: Any) -> BernoulliMean:
    return BernoulliMean(**{"adjacency": ADD, "noise_multiplier": 1, **parameters})


def answers(n: int, p: float) -> list[float]:
    ones = round(n * p)
    return [1.0] * ones + [0.0] * (n - ones)


def errors(mechanism: BernoulliMean, n: int, p: float, seed: int, size: int = RELEASES) -> Any:
    releases = estimates(mechanism, answers(n, p), seed, size)
    assert all(isinstance(one, Share) for one in releases)
    return [one.value - p for one in releases]


CASES = [
    (ADD, 400, 0.5),
    (ADD, 400, 0.25),
    (ADD, 10_000, 0.9),
    (REPLACE, 30, 0.5),
    (REPLACE, 10_000, 0.1),
]


@pytest.mark.parametrize(("adjacency", "n", "p"), CASES)
def test_the_error_is_the_predicted_one(adjacency: Adjacency, n: int, p: float) -> None:
    """Compare at n where the second order is below 2%, and clipping to [0, 1] is further than 7
    sd away."""
    right = share(adjacency=adjacency)
    predicted = float(spec.expected_error(right.parameters, n, p))
    documented = 1.0 if adjacency is REPLACE else math.sqrt(2) * max(p, 1 - p)
    assert predicted <= documented / n * 1.0001
    assert mean_square_fits(errors(right, n, p, 1), predicted)
    wrong = share(adjacency=adjacency, noise_multiplier="1.3")
    assert not mean_square_fits(errors(wrong, n, p, 2), predicted)
    stated = [one.standard_deviation for one in estimates(right, answers(n, p), 3, 200)]
    # The released number is off by a relative 6 sqrt(2) / n: below 2.2% at n = 400 (P < 1e-6).
    assert max(abs(deviation / predicted - 1) for deviation in stated) < 0.03


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_the_error_falls_as_one_over_n(adjacency: Adjacency) -> None:
    # ln RMS of 1500 normal errors has sd 0.018; the slope over three decades 0.004: 0.05 is 13 sd.
    mechanism = share(adjacency=adjacency)

    def rms(n: int) -> float:
        return float(np.sqrt(np.mean(np.square(errors(mechanism, n, 0.5, n, 1500)))))

    assert abs(slope((100, 1000, 10_000, 100_000), rms) + 1) < 0.05


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_the_error_bound_fails_as_rarely_as_stated(adjacency: Adjacency, p: float) -> None:
    mechanism = share(adjacency=adjacency)
    bound = float(spec.error_bound(mechanism.parameters, 100, Fraction(1, 20)))
    offsets = errors(mechanism, 100, p, 4)
    assert fails_at_most(offsets, bound, 0.05)
    assert not fails_at_most(offsets, bound / 6, 0.05)


@pytest.mark.parametrize(("multiplier", "at_least"), [("1", 1), ("1/30", 1), ("7/2", 50)])
def test_minimum_n_is_the_least(multiplier: str, at_least: int) -> None:
    mechanism = share(noise_multiplier=multiplier, at_least=at_least)
    ratio = spec.released(mechanism.parameters)
    for beta in ("0.9", "1/2", "0.05", "1e-6", "1e-30"):
        least = mechanism.minimum_n(beta=beta)
        with mp.workdps(50):
            allowed = mp.mpf(Fraction(beta).numerator) / Fraction(beta).denominator
            assert joint.abstains(ratio, least, at_least) <= allowed
            assert least == 0 or joint.abstains(ratio, least - 1, at_least) > allowed * (1 - 1e-9)
    assert share(adjacency=REPLACE, at_least=at_least).minimum_n() == at_least


@pytest.mark.parametrize("beta", [0, 1, -1, None, True])
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_minimum_n_needs_a_probability(beta: Any, adjacency: Adjacency) -> None:
    with pytest.raises((ValueError, TypeError), match="beta"):
        share(adjacency=adjacency).minimum_n(beta=beta)


def test_abstaining_is_typed_and_as_frequent_as_stated() -> None:
    mechanism = share(at_least=30)
    least = mechanism.minimum_n(beta="0.05")
    for n, rare in ((least, True), (least - 3, False)):
        releases = estimates(mechanism, answers(n, 0.5), 6)
        assert {type(one) for one in releases} == {Abstained, Share}  # else P < 0.99^2000
        assert fails_at_most([float(isinstance(o, Abstained)) for o in releases], 1.0, 0.05) is rare
    stopped = mechanism.release([], SeededBits(1))  # 30 by noise of sd 1.5: P < 1e-80
    assert str(stopped) == "abstained: fewer than 30 records, by the released count"


def test_nobody_is_an_ordinary_dataset_under_add_remove() -> None:
    kinds = {type(one) for one in estimates(share(), [], 1, 300)}
    assert kinds == {Abstained, Share}  # one kind only: P < 0.77^300


def test_under_replace_the_number_is_public() -> None:
    mechanism = share(adjacency=REPLACE, at_least=3)
    assert {one.count for one in estimates(mechanism, [1.0] * 7, 1, 50)} == {7.0}
    for n in (0, 1, 2):
        with pytest.raises(ValueError, match=rf"have {n} records?.*needs at least 3"):
            mechanism.release([1.0] * n, NoBits())


@pytest.mark.parametrize("multiplier", ["1", "1e-300", "1e2000", "1/3"])
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_every_dataset_has_a_typed_release(adjacency: Adjacency, multiplier: str) -> None:
    """An exception after the draw would be an output that nobody has accounted for."""
    mechanism = share(adjacency=adjacency, noise_multiplier=multiplier)
    datasets = EDGE_DATA if adjacency is ADD else EDGE_DATA[1:]
    for seed, data in enumerate(datasets):
        release = mechanism.release(data, SeededBits(seed))
        with np.errstate(all="raise"):
            assert mechanism.release(data, SeededBits(seed)) == release
        if isinstance(release, Share):
            assert 0 <= release.value <= 1
            assert release.standard_deviation >= 0
            assert release.count >= 1
    if multiplier != "1e-300":
        assert compare_facts(spec, mechanism, datasets) > len(datasets)


@pytest.mark.parametrize(
    ("record", "vote"),
    [
        (0.0, -1), (-0.0, -1), (0.25, -1), (0.2500001, 0), (0.5, 0), (0.7499999, 0), (0.75, 1),
        (1.0, 1), (7.0, 1), (1e308, 1), (-3.0, -1), (-1e308, -1), (5e-324, -1), (True, 1),
    ],
)  # fmt: skip
def test_what_a_record_counts_as(record: float, vote: int) -> None:
    """0.25 and 0.75 are ties: 2 x is rounded to the even neighbor, 0 and 2."""
    mechanism = share(adjacency=REPLACE, noise_multiplier="1/2")  # the unit is 2^40 a vote
    query = mechanism.fixed_plan[-1].query  # type: ignore[union-attr]
    assert mechanism.law([record]).center(query).tolist() == [vote << 40]
    assert spec.vote(Fraction(record)) == vote


def test_the_law_is_the_same_however_the_data_come() -> None:
    ones = np.random.default_rng(1).random(50) < 0.3
    mechanism = share()
    query = mechanism.fixed_plan[0].query  # type: ignore[union-attr]
    expected = mechanism.law(ones.astype(float)).center(query).tolist()
    kinds: list[Any] = [ones, ones.tolist(), ones[::-1], ones[:, np.newaxis]]
    kinds += [ones.astype(kind) for kind in ("i1", "u8", "f2", "f4", ">f8")]
    for data in kinds:
        assert mechanism.law(data).center(query).tolist() == expected


def test_a_nonfinite_record_counts_as_one_half_when_replaced() -> None:
    mechanism = share(nonfinite="replace")
    expected = mechanism.release([0.5, 0.5, 1.0], SeededBits(5))
    assert mechanism.release([np.nan, -np.inf, 1.0], SeededBits(5)) == expected
    with pytest.raises(ValueError, match="Record 0 is not finite"):
        share().release([np.nan], NoBits())


def test_a_release_is_a_draw_of_the_law() -> None:
    for adjacency in (ADD, REPLACE):
        mechanism = share(adjacency=adjacency)
        for seed in range(5):
            drawn = mechanism.law(EDGE_RECORDS).sample(SeededBits(seed), 1)[0]
            assert mechanism.release(EDGE_RECORDS, SeededBits(seed)) == mechanism.estimate(drawn)


@pytest.mark.parametrize("total", [-(10**15), -3 << 40, 0, 12345, 5 << 40, 10**15])
@pytest.mark.parametrize("count", [1, 2, 77])
def test_the_estimate_is_the_formula(total: int, count: int) -> None:
    """1/2 + sum / (2 number), clipped to [0, 1]."""
    public = share(adjacency=REPLACE, noise_multiplier="3/7")
    unit = spec.scale(public.parameters) / 2**40
    expected = Fraction(1, 2) + total * unit / (2 * count)
    estimate = public.estimate(transcript({"count": (count,), "sum": (total,)}))
    assert isinstance(estimate, Share)
    assert estimate.value == pytest.approx(float(min(max(expected, Fraction(0)), Fraction(1))))
    joint_release = share(noise_multiplier="3/7")
    unit = spec.scale(joint_release.parameters) / 2**40
    number = math.ceil(count / unit)
    expected = Fraction(1, 2) + Fraction(total, 2 * number)
    estimate = joint_release.estimate(transcript({"sum and count": (total, number)}))
    assert isinstance(estimate, Share)
    assert estimate.value == pytest.approx(float(min(max(expected, Fraction(0)), Fraction(1))))
    assert estimate.count == float(number * unit)
    below = joint_release.estimate(transcript({"sum and count": (total, math.ceil(1 / unit) - 1)}))
    assert isinstance(below, Abstained)


@pytest.mark.parametrize("budget", [GaussianDP(1), GaussianDP("1/7"), ApproxDP(1, "1e-6")])
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_the_noise_for_a_budget_is_the_least(budget: Any, adjacency: Adjacency) -> None:
    made = BernoulliMean.for_budget(budget, adjacency=adjacency)
    assert made.claim.guarantee == budget
    assert made.composed.implies(budget)
    assert not share(
        adjacency=adjacency, noise_multiplier=made.noise_multiplier * (1 - Fraction(1, 10**6))
    ).claim.guarantee.implies(budget)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"at_least": 0}, ValueError, "a share needs at least 1 record"),
        ({"at_least": 1.0}, TypeError, "give an integer"),
        ({"at_least": True}, TypeError, "give an integer"),
        ({"noise_multiplier": 0}, ValueError, r"use for_budget\(...\)"),
        ({"adjacency": "replace"}, TypeError, "Adjacency.REPLACE"),
    ],
)
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        dataclasses.replace(share(), **change)


@pytest.mark.parametrize("data", [1.0, [[1.0, 0.0]], ["1"], [[1.0], [1.0, 0.0]], None])
def test_no_bit_is_drawn_for_refused_data(data: Any) -> None:
    for adjacency in (ADD, REPLACE):
        with pytest.raises((TypeError, ValueError)):
            share(adjacency=adjacency).release(data, NoBits())
