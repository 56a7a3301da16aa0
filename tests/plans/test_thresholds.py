"""Thresholded histograms: what is shown, with which probability, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache, partial
from itertools import product
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dpverify import Adjacency, SeededBits
from dpverify.grid.tables import KeyedCounts
from dpverify.plans import (
    Noise,
    ThresholdedGaussian,
    ThresholdedLaplace,
    least_threshold,
    rarely_surfacing,
    thresholds,
)
from dpverify.plans.thresholds import ExactCounts, as_tuples
from dpverify.privacy import Domain
from dpverify.randomness import Bits, enumerate_law
from dpverify.randomness.bits import IntArray
from spec.theory.laws import real, real_exponential
from spec.theory.tables import (
    Counts,
    ThresholdedGaussianLaw,
    ThresholdedLaplaceLaw,
    ThresholdedLaw,
    hockey_stick_of_product,
)
from tests.randomness.helpers import NoBits

FALSE_ALARM = 1e-7
KINDS: list[tuple[Any, type[ThresholdedLaw]]] = [
    (ThresholdedLaplace, ThresholdedLaplaceLaw),
    (ThresholdedGaussian, ThresholdedGaussianLaw),
]
EPSILONS = [Fraction(text) for text in ("0", "1/5", "1", "5/2")]


@pytest.fixture(autouse=True)
def _forty_digits() -> Iterator[None]:
    with mp.workdps(40):
        yield


def center(counts: Counts) -> IntArray:
    return np.array(counts, dtype=np.int64).reshape(-1, 2)


def array_of(outputs: list[tuple[int, ...]]) -> IntArray:
    made = np.empty(len(outputs), dtype=object)
    for i, output in enumerate(outputs):
        made[i] = output
    return made


COUNTS: list[Counts] = [(), ((3, 1),), ((-2, 2), (0, 1), (5, 9)), ((0, 4), (1, 4))]
OUTPUTS = [
    *((), (3, 2), (3, 7), (0, 4), (5, 9), (-2, 2, 5, 8), (-2, 3, 0, 2, 5, 9), (0, 4, 1, 5)),
    *((3, 1), (4, 9), (5, 9, -2, 2), (0, 5, 0, 5), (0, 2, 1, 1)),  # hardly anything: no output
]


@pytest.mark.parametrize(("kind", "law"), KINDS)
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(7, 2)])
def test_log_probabilities_are_those_of_the_spec(kind: Any, law: Any, scale: Fraction) -> None:
    for counts in COUNTS:
        noise, model = kind(scale, 2), law(counts, scale, 2)
        log_masses = noise.log_probability(array_of(OUTPUTS), center(counts))
        for output, likelihood in zip(OUTPUTS, log_masses.tolist(), strict=True):
            mass = model.probability(output, real_exponential)
            true = mp.log(mass) if mass else -mp.inf
            assert likelihood == true or abs(likelihood - true) < 1e-9 * (1 + abs(true)), output


def test_counts_beyond_64_bits_have_probabilities() -> None:
    noise = ThresholdedLaplace(Fraction(2**70), 2)
    log_masses = noise.log_probability(array_of([(0, 2**71), (0, 2**72)]), center(((0, 1),)))
    assert abs(log_masses[0] - log_masses[1] - 2) < 1e-9


@pytest.mark.parametrize(("kind", "law"), KINDS)
def test_draws_are_as_frequent_as_the_spec_says(kind: Any, law: Any) -> None:
    """Binomial, two-sided, of each of 20 frequent outputs: at most 40 * 1e-9; a threshold one lower
    and a scale of 4/5 are refused."""
    counts: Counts = ((0, 2), (7, 4))
    size, scale = 10**5, Fraction(3, 2)
    drawn = kind(scale, 3).sample(SeededBits(1), center(counts), size).tolist()
    shown = {output: drawn.count(output) for output in sorted({*drawn}, key=drawn.count)[-20:]}
    models = [law(counts, *facts) for facts in ((scale, 3), (scale, 2), (Fraction(6, 5), 3))]
    for model, right in zip(models, (True, False, False), strict=True):
        worst = min(
            stats.binomtest(count, size, float(model.probability(output, real_exponential))).pvalue
            for output, count in shown.items()
        )
        assert bool(worst > 1e-9) is right


def test_every_draw_is_a_flat_tuple_of_keys_in_order() -> None:
    counts = tuple((key, 3) for key in range(-20, 20))
    drawn = ThresholdedLaplace(2, 3).sample(SeededBits(2), center(counts), 50)
    assert drawn.shape == (50,)
    for output in drawn:
        assert all(type(value) is int for value in output)
        keys, values = output[::2], output[1::2]
        assert list(keys) == sorted(set(keys))
        assert min(values, default=3) >= 3
    # A key surfaces with probability 0.6: all of 2000 alike has one below 1e-200.
    assert 0 < sum(len(output) for output in drawn) < 2 * 50 * 40


@pytest.mark.parametrize("large", [1, 2**70])
def test_few_tuples_are_those_of_many(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    keys = np.sort(rng.integers(-9, 9, 5)).astype(object) * large
    for rows in (0, 1, 7, 25, 2000):
        values, shown = rng.integers(0, 3, (rows, 5)), rng.random((rows, 5)) < 0.5
        few = as_tuples(keys, values, shown)
        with monkeypatch.context() as patched:
            patched.setattr(thresholds, "_FEW", -1)
            many = as_tuples(keys, values, shown)
        assert (few.dtype, few.shape) == (many.dtype, many.shape)
        assert repr(few.tolist()) == repr(many.tolist())


def test_nobody_shows_nothing_without_a_bit() -> None:
    for kind, _ in KINDS:
        assert kind(1, 2).sample(NoBits(), center(()), 3).tolist() == [(), (), ()]


class _StandIn:
    """e^-g as (1/2)^g; Gaussian noise on -1, 0, 1."""

    def __call__(self, exponent: Fraction) -> Fraction:
        return Fraction(1, 2) ** int(exponent)

    def rounded_gaussian(self, z: int, scale: Fraction) -> Fraction:
        return {-1: Fraction(1, 6), 0: Fraction(1, 2), 1: Fraction(1, 3)}.get(z, Fraction(0))


def _one(noise: Noise, around: IntArray, bits: Bits) -> tuple[int, ...]:
    output: tuple[int, ...] = noise.sample(bits, around, 1)[0]
    return output


@pytest.mark.parametrize("threshold", [2, 3])
def test_the_law_is_the_specs_fraction_for_fraction(threshold: int) -> None:
    """Compare counts below, at and above the threshold; masses of Gaussian stand-ins are finite
    sums."""
    for numbers in product(range(1, 5), repeat=2):
        counts: Counts = ((-1, numbers[0]), (4, numbers[1]))
        noise = ThresholdedGaussian(1, threshold)
        enumeration = enumerate_law(
            partial(_one, noise, center(counts)), max_choices=2, exponential=_StandIn()
        )
        law = ThresholdedGaussianLaw(counts, Fraction(1), threshold)
        assert enumeration.undecided == 0
        for output, mass in enumeration.masses.items():
            assert mass == law.probability(output, _StandIn())  # type: ignore[arg-type]


# --- the exact losses and profiles of the spec, against sums over every output ------------------

PAIRS: list[tuple[Counts, Counts]] = [
    (((0, 1),), ()),
    ((), ((0, 1),)),
    (((0, 5),), ((0, 6),)),
    (((0, 6),), ((0, 5),)),
    (((0, 2), (3, 9)), ((0, 3), (3, 9))),
    (((0, 1), (1, 2)), ((1, 3),)),
    (((0, 1), (1, 7)), ((1, 7), (2, 1))),
    (((0, 2), (1, 8)), ((0, 3), (1, 7))),
    (((0, 30), (1, 7)), ((0, 29), (1, 8))),
    (((0, 4),), ((0, 4),)),
]


class _Remembered:
    """``real_exponential``, computed once for each of its few arguments."""

    def __init__(self) -> None:
        self._power = cache(real_exponential)
        self.rounded_gaussian = cache(real_exponential.rounded_gaussian)

    def __call__(self, exponent: Fraction) -> Any:
        return self._power(exponent)


def _masses(law: ThresholdedLaw, keys: list[int], top: int) -> dict[tuple[int, ...], Any]:
    """Return all outputs of these keys, up to values where next to nothing is left."""
    values = [None, *range(law.threshold, top + 42)]
    masses, exponential = {}, _Remembered()
    for chosen in product(values, repeat=len(keys)):
        shown = [(key, v) for key, v in zip(keys, chosen, strict=True) if v is not None]
        output = tuple(number for pair in shown for number in pair)
        masses[output] = law.probability(output, exponential)
    return masses


LAWS = [law for _, law in KINDS]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_profiles_are_sums_over_outputs(
    law: type[ThresholdedLaw], pair: tuple[Counts, Counts]
) -> None:
    top = max(count for counts in pair for _, count in counts)
    with mp.workdps(20):  # 42 values above each count at scale 1: the rest is below e^-41
        own, other = (law(counts, Fraction(1), 4) for counts in pair)
        keys = sorted(_moved(pair))
        masses = [_masses(_only(model, keys), keys, top) for model in (own, other)]
        for epsilon in EPSILONS:
            factor = mp.exp(real(epsilon))
            gaps = (mass - factor * masses[1][output] for output, mass in masses[0].items())
            expected = sum((gap for gap in gaps if gap > 0), mp.mpf(0))
            assert abs(own.profile(other, epsilon) - expected) < mp.mpf(10) ** -14


def _moved(pair: tuple[Counts, Counts]) -> set[int]:
    return {key for key, _ in set(pair[0]) ^ set(pair[1])}


def test_keys_of_equal_counts_cancel() -> None:
    for law in LAWS:
        alone, beside = (
            [law((*rest, (7, count)), Fraction(1), 4) for count in (5, 6)]
            for rest in ((), ((0, 1), (3, 40)))
        )
        assert alone[0].profile(alone[1], Fraction(1)) == beside[0].profile(beside[1], Fraction(1))


def _only(law: ThresholdedLaw, keys: list[int]) -> ThresholdedLaw:
    counts = tuple((key, count) for key, count in law.counts if key in keys)
    return type(law)(counts, law.scale, law.threshold)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_the_largest_loss_is_that_of_some_output(
    law: type[ThresholdedLaw], pair: tuple[Counts, Counts]
) -> None:
    own, other = (law(counts, Fraction(1), 4) for counts in pair)
    loss, total = own.largest_loss(other), mp.mpf(0)
    moved = sorted(_moved(pair))
    for key in moved:
        sides = [_masses(_only(model, [key]), [key], 37) for model in (own, other)]
        ratios = [
            a / b if b else mp.inf for a, b in ((a, sides[1][o]) for o, a in sides[0].items()) if a
        ]
        total += mp.log(max(ratios))
    if loss is None:  # an output of one side only, or a loss that grows: 75 values are no bound
        assert total == mp.inf or (law is ThresholdedGaussianLaw and total > 30)
    else:
        assert abs(loss - total) < mp.mpf(10) ** -25


def test_laws_of_other_noise_are_not_compared() -> None:
    laws = [ThresholdedLaplaceLaw((), Fraction(1), threshold) for threshold in (2, 3)]
    with pytest.raises(ValueError, match="must be the same on neighbors"):
        laws[0].profile(laws[1], Fraction(1))


def test_a_product_without_parts_tells_nothing() -> None:
    assert hockey_stick_of_product([], mp.mpf(1)) == 0


# --- faults, thresholds -------------------------------------------------------------------------


def test_faults_are_planted_by_scale_and_by_no_noise() -> None:
    for kind, _ in KINDS:
        noise: Noise = kind(3, 5)
        assert noise.rescaled(Fraction(1, 2)) == kind("1.5", 5)
        exact = noise.dropped()
        assert isinstance(exact, ExactCounts)
        drawn = exact.sample(NoBits(), center(((0, 5), (1, 4), (2, 9))), 3)
        assert drawn.tolist() == [(0, 5, 2, 9)] * 3
        log_masses = exact.log_probability(
            array_of([(0, 5, 2, 9), (0, 5)]), center(((0, 5), (2, 9)))
        )
        assert log_masses.tolist() == [0.0, -np.inf]


@pytest.mark.parametrize("least", [2, 3, 4, 5, 8, 9, 1000, 2**40 + 1])
def test_the_least_threshold_is_found(least: int) -> None:
    asked = []

    def holds(threshold: int) -> bool:
        asked.append(threshold)
        return threshold >= least

    for about in (2, least - 1, least, least + 1, least + 2, least + 3, 3 * least):
        assert least_threshold(holds, about) == least
    assert min(asked) >= 2
    asked.clear()
    least_threshold(holds, least)
    assert asked == [least - 1, least][-min(least - 1, 2) :]


def test_thresholds_that_floats_guess_are_the_least() -> None:
    moves = KeyedCounts(1 << 12, 0, -12).sensitivity(Adjacency.ADD_REMOVE, Domain(1))
    for kind, delta in product([kind for kind, _ in KINDS], ("1e-3", "1e-30")):
        for scale in map(Fraction, ("1/3", "7", "1000", "1e60")):
            noise = rarely_surfacing(kind, scale, moves, Fraction(delta))
            deltas = [
                kind(scale, threshold).claim(moves).conclusion.guarantee.delta_floor
                for threshold in (noise.threshold, noise.threshold - 1)
                if threshold > 1
            ]
            assert deltas[0] <= Fraction(delta) < max(deltas[1:], default=1)
