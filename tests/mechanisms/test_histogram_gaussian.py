"""``histogram_gaussian``: scale, place, mean and deviation by histograms; what is lost and how
rarely; refusals and typed outcomes."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    Degenerate,
    HistogramGaussian,
    NormalEstimate,
    SeededBits,
    UnivariateGaussian,
    result_from,
)
from dpverify.estimation.fullest_bins import overtakes, sinks
from dpverify.grid import Released, View
from dpverify.grid.pairs import TIE, ClampedSquares, PairOctaves
from dpverify.grid.transcripts import transcript
from dpverify.mechanisms.histogram_gaussian import fullest
from dpverify.privacy import Domain
from dpverify.suite.refinement import compare_facts, exact_records
from spec import histogram_gaussian as spec
from spec.theory import pairs
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
ONE = Domain(columns=1)
NOWHERE: Released[Any] = Released((), lambda before: None)


def line(**parameters: Any) -> HistogramGaussian:
    base: dict[str, Any] = {
        "adjacency": REPLACE,
        "noise_multiplier": 1,
        "cell": 2**-10,
        "delta": "1e-6",
    }
    return HistogramGaussian(**base | parameters)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"adjacency": ADD}, ValueError, "or UnivariateGaussian, which has both"),
    ({"cell": 0}, ValueError, "cell = 0 is not positive"),
    ({"cell": 1e300}, ValueError, "give the data in another unit"),
    ({"delta": 0}, ValueError, r"delta = 0 is outside \(0, 1\)"),
    ({"failure": 1}, ValueError, r"failure = 1 is outside \(0, 1\)"),
    ({"shares": (1, 0, 0, 0)}, ValueError, "give 4 positive numbers"),
    ({"at_least": 1}, ValueError, "at_least = 1"),
    ({"noise_multiplier": 0}, ValueError, "noise_multiplier = 0 is not positive"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        line(**change)


def test_no_bit_is_drawn_for_refused_data() -> None:
    mechanism = line()
    with pytest.raises(ValueError, match="Record 1 is not finite"):
        mechanism.release([0.0, math.nan], NoBits())
    with pytest.raises(ValueError, match="needs at least"):
        mechanism.release([0.0] * (mechanism.fewest_records() - 1), NoBits())
    for multiplier in ("1e6", "1e12", "1e300"):  # so much noise that no number of records may do
        with pytest.raises(ValueError, match="needs at least"):
            line(noise_multiplier=multiplier).release([0.0] * 9, NoBits())


FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(FLOATS, min_size=0, max_size=9), st.sampled_from((-1040, -3, 0, 900)))
@settings(derandomize=True, deadline=None, max_examples=150)
def test_octaves_are_the_spec_s(data: list[float], exponent: int) -> None:
    octaves = PairOctaves(exponent).evaluate(View(np.array(data).reshape(-1, 1)))
    exact = exact_records(data, ONE)
    expected = pairs.pair_octaves(exact, Fraction(2) ** exponent, 2**40)
    assert tuple(map(tuple, octaves.tolist())) == expected
    assert octaves[:, 1].sum() == len(data) // 2


@given(
    st.lists(FLOATS, min_size=0, max_size=9),
    st.tuples(st.integers(-(2**40), 2**40 - 1), st.integers(1, 2**20)),
    st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=3),
)
@settings(derandomize=True, deadline=None, max_examples=150)
def test_squares_are_the_spec_s(
    data: list[float], ends: tuple[int, int], centers: list[int]
) -> None:
    lower, upper = ends[0], min(ends[0] + ends[1], 2**40)
    numbers = np.array(centers, np.int64)[:, np.newaxis]
    query = ClampedSquares(lower, upper, -3, Released(("x",), lambda before: numbers))
    before = transcript({"x": (0,)}).select(np.zeros(len(centers), np.intp))
    exact = exact_records(data, ONE)
    squares = query.evaluate(View(np.array(data).reshape(-1, 1)), before)
    expected = [pairs.clamped_squares(exact, Fraction(1, 8), lower, upper, c) for c in centers]
    assert squares[:, 0].tolist() == expected
    assert query.sensitivity(REPLACE, ONE).conclusion.value == (upper - lower) ** 2


def test_squares_of_many_records_are_exact() -> None:
    """10^5 squares of 2^41 each: beyond 64 bits."""
    query = ClampedSquares(-(2**40), 2**40, 0, Released((), lambda before: np.array([[-(2**40)]])))
    data = np.full((100_000, 1), 1e308)
    assert query.evaluate(View(data), transcript({})).tolist() == [[100_000 * 2**82]]


@pytest.mark.parametrize("query", [PairOctaves(0), ClampedSquares(0, 1, 0, NOWHERE)])
def test_neither_has_a_sensitivity_under_add_remove(query: Any) -> None:
    with pytest.raises(ValueError, match="under add-remove"):
        query.sensitivity(ADD, ONE)


WORLDS: list[dict[str, Any]] = [
    {},
    {"delta": "1/4", "at_least": 2, "noise_multiplier": "1/9"},
    {"delta": "1/4", "at_least": 2, "noise_multiplier": "1e-300"},
    {"at_least": 2, "noise_multiplier": "1e300"},
    {"delta": "1/4", "at_least": 2, "noise_multiplier": "1/9", "failure": "1e-900"},
    {"delta": "1/4", "at_least": 2, "noise_multiplier": "1/9", "cell": 2.0**900},
    {"delta": "1/4", "at_least": 2, "noise_multiplier": "1/9", "cell": 2.0**-900},
]


@pytest.mark.parametrize("parameters", WORLDS, ids=range(len(WORLDS)))
def test_every_dataset_has_a_typed_release_and_the_spec_s_law(parameters: dict[str, Any]) -> None:
    mechanism = line(**parameters)
    edge = [0.0, -0.0, 5e-324, 1e308, -1e308, 0.25, 1e6, 1.7e308]
    rng = np.random.default_rng(0)
    datasets = [rng.choice(edge, n) for n in (2, 3, 40)]
    datasets += [np.full(900, 1e308), np.zeros(900), rng.normal(1e6, 1.0, 3000)]
    datasets += [rng.normal(0, 1e307, 1000), rng.standard_cauchy(1000)]
    datasets = [one for one in datasets if len(one) >= mechanism.fewest_records()]
    if 1e-100 < mechanism.noise_multiplier < 1e100:
        assert compare_facts(spec, mechanism, datasets) > 3
    for seed, data in enumerate(datasets):
        with np.errstate(all="raise", under="ignore"):
            release = mechanism.release(data, SeededBits(seed))
        assert result_from(release.to_dict()) == release
        if isinstance(release, NormalEstimate):
            assert math.isfinite(release.value)
            assert 0 < release.deviation < math.inf
            low, high = release.deviation_interval(sampling=True)
            assert low <= release.deviation <= high


def test_outcomes_are_typed() -> None:
    mechanism = line(noise_multiplier="1/4")
    assert isinstance(mechanism.release([7.0] * 900, SeededBits(0)), Degenerate)
    gaps = np.repeat(2.0 ** np.arange(-10, 29), 6)  # six of each octave
    nothing = mechanism.release(np.column_stack([0 * gaps, gaps]).ravel(), SeededBits(0))
    assert isinstance(nothing, Abstained)
    assert nothing.reason == "no octave of differences has enough of them"
    far = mechanism.release(1e9 + np.tile([0.0, 1.0], 900), SeededBits(0))
    assert isinstance(far, Abstained)
    assert "2^27 widths" in far.reason
    distinct = np.cumsum(np.tile([1.5, 9.0], 900))
    away = mechanism.release(distinct, SeededBits(1))
    assert isinstance(away, Abstained)
    assert away.reason == "no bin has enough records"


def test_the_fullest_key_is_the_first_of_the_largest() -> None:
    seen = transcript({"h": (TIE, 5, 2, 9, 3, 9)})
    assert fullest(seen, "h").tolist() == [2] == [spec.fullest((TIE, 5, 2, 9, 3, 9))]  # type: ignore[arg-type]
    assert fullest(transcript({"h": ()}), "h").tolist() == [0]  # type: ignore[arg-type]


def test_bounds_on_histograms_are_the_spec_s() -> None:
    for things, scale, threshold in ((0, "1/2", 2), (100, "8", 131), (2000, "8", 131)):
        s = Fraction(scale)
        for share, other in ((0.29, 0.151), (0.34, 0.137), (0.3, 0.3)):
            stated = (
                pairs.overtakes(things, share, other, s),
                pairs.sinks(things, share, threshold, s),
            )
            bounds = overtakes(things, share, other, s), sinks(things, share, threshold, s)
            assert bounds == pytest.approx(tuple(map(float, stated)), rel=1e-9, abs=1e-300)
    mechanism = line()
    parameters = mechanism.parameters
    for n in (1000, 2000, 4000):
        assert mechanism.lost(n) == pytest.approx(float(spec.lost(parameters, n)), rel=1e-9)
    least = mechanism.minimum_n(beta="1e-3")
    assert mechanism.lost(least) <= 1e-3 < mechanism.lost(least - 1)
    assert mechanism.minimum_n(beta="1e-6") > least
    assert mechanism.expected_error(least) == pytest.approx(
        4 * spec.noise_error(parameters, least), rel=1e-3
    )
    assert mechanism.expected_error(mechanism.fewest_records() - 1) == math.inf


def test_minimum_n_records_are_hardly_ever_lost() -> None:
    """Widths from 1 to 8 deviations and a bin within 1.5 widths of the mean: lost at most 1 in
    1000, so 6 of 200 or more have probability below 1e-6. A deviation for which all of its 40 are
    lost is seen."""
    mechanism = line(noise_multiplier=1)
    n, missed = mechanism.minimum_n(), 0
    for seed, deviation in enumerate([0.05, 1.0, 1.41, 1.99, 1e5] * 40):
        mean = np.random.default_rng(seed).uniform(-9, 9) * deviation
        data = np.random.default_rng(seed + 1000).normal(mean, deviation, n)
        drawn = mechanism.law(data).sample(SeededBits(seed), 1)
        if drawn[0].stopped is not None:
            missed += 1
            continue
        octave, key = (int(fullest(drawn, name)[0]) for name in ("octaves", "bins"))  # type: ignore[arg-type]
        width = 2.0 ** (octave + 2 - 10)
        right = 1 <= width / deviation <= 8 and abs(key * width - mean) <= 1.5 * width
        missed += not right
    assert missed < 6


def test_intervals_cover() -> None:
    """250 releases of the same records: intervals of 95% about the mean without noise; of the
    true mean, from fresh records. Fewer are held than stated with probability below 1e-6; half
    as wide intervals, which hold 78% at most, are refused but for 1e-4."""
    mechanism = line(noise_multiplier=Fraction(1, 4))
    held, number = [0, 0], 250
    rng = np.random.default_rng(5)
    same = rng.normal(3.0, 1.0, 4000)
    law = mechanism.law(same)
    for seed in range(number):
        estimate = mechanism.estimate(law.sample(SeededBits(seed), 1)[0])
        assert isinstance(estimate, NormalEstimate)
        low, high = estimate.interval()
        held[0] += low <= same.mean() <= high
        fresh = mechanism.release(rng.normal(3.0, 1.0, 4000), SeededBits(seed))
        assert isinstance(fresh, NormalEstimate)
        low, high = fresh.interval(sampling=True)
        held[1] += low <= 3.0 <= high
    assert min(held) >= stats.binom.ppf(1e-6, number, 0.95)


def test_no_bounds_and_less_noise_elsewhere() -> None:
    """Why ``UnivariateGaussian`` is what to take: at (1, 1e-6) and n = 4000 the mean's root mean
    square error is .0165 and .148."""
    budget = ApproxDP(1, "1e-6")
    ours = UnivariateGaussian.for_budget(budget, adjacency=REPLACE, cell=2**-10)
    theirs = HistogramGaussian.for_budget(budget, adjacency=REPLACE, cell=2**-10, delta="1e-7")
    errors: list[list[float]] = [[], []]
    for seed in range(12):
        data = np.random.default_rng(seed).normal(5.0, 1.0, 4000)
        for offsets, mechanism in zip(errors, (ours, theirs), strict=True):
            released: Any = mechanism.release(data, SeededBits(seed))
            offsets.append(released.value - 5.0)
    near, far = (float(np.sqrt(np.mean(np.square(e)))) for e in errors)
    assert 4 * near < far
