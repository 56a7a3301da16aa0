"""``bounded_mean``: on every dataset, by its formula, and nothing but typed results."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import strategies as st

from dpverify import Abstained, Adjacency, BoundedMean, MeanEstimate, PureDP, SeededBits
from dpverify.grid.transcripts import transcript
from spec import bounded_mean as spec
from tests.mechanisms.helpers import EDGE_DATA, EDGE_RECORDS, estimates, largest_loss_found
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE


def mean(**parameters: Any) -> BoundedMean:
    base: dict[str, Any] = {"adjacency": ADD, "noise_multiplier": 1, "lower": -1.0, "upper": 3.0}
    return BoundedMean(**base | parameters)


BOUNDS = [(-1.0, 3.0), (120.0, 200.0), (0.0, 5e-324), (-1.7e308, 1.7e308), (0, 1e7), (-2e-308, 1.0)]


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize("data", EDGE_DATA[1:], ids=range(1, len(EDGE_DATA)))
def test_every_dataset_has_a_typed_release(
    data: list[float], adjacency: Adjacency, lower: float, upper: float
) -> None:
    mechanism = mean(adjacency=adjacency, lower=lower, upper=upper)
    for seed in range(3):
        released = mechanism.release(data, SeededBits(seed))
        if isinstance(released, MeanEstimate):
            assert lower <= released.value <= upper
            assert released.standard_deviation >= 0
            assert released.count >= 1
        else:
            assert isinstance(released, Abstained)
            assert adjacency is ADD


def test_nobody_is_an_ordinary_dataset_under_add_remove() -> None:
    releases = estimates(mean(), [], 1, 300)
    kinds = {type(release) for release in releases}
    assert kinds == {Abstained, MeanEstimate}  # one kind only: P < 0.65^300


def test_abstaining_is_typed_and_says_why() -> None:
    # P(the count's noise exceeds 10^6 at scale 4) < exp(-10^5).
    released = mean(at_least=10**6).release([1.0], SeededBits(1))
    reason = "fewer than 1000000 records, by the noisy count"
    assert released == Abstained(reason)
    assert str(released) == f"abstained: {reason}"


@pytest.mark.parametrize("data", [[], [1.0], [1.0, 2.0]])
def test_under_replace_too_few_records_are_refused_before_a_bit_is_drawn(
    data: list[float],
) -> None:
    mechanism = mean(adjacency=REPLACE, at_least=3)
    with pytest.raises(ValueError, match=rf"have {len(data)} records?.*needs at least 3"):
        mechanism.release(data, NoBits())
    assert isinstance(mechanism.release([1.0] * 3, SeededBits(1)), MeanEstimate)


def test_under_replace_the_count_is_the_public_count() -> None:
    mechanism = mean(adjacency=REPLACE)
    for n in (1, 2, 17):
        released = mechanism.release([0.5] * n, SeededBits(n))
        assert isinstance(released, MeanEstimate)
        assert released.count == n


BAD_PARAMETERS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"lower": 3.0}, ValueError, "equal; give the smaller one first"),
    ({"lower": 4.0}, ValueError, "reversed; give the smaller one first"),
    ({"lower": float("nan")}, ValueError, "give a finite public bound"),
    ({"upper": float("inf")}, ValueError, "give a finite public bound"),
    ({"upper": 10**400}, ValueError, "give a finite public bound"),
    ({"lower": "0"}, TypeError, "a bound is a number"),
    ({"upper": True}, TypeError, "a bound is a number"),
    ({"upper": None}, TypeError, "a bound is a number"),
    ({"lower": 1.0, "upper": 1.0000000000000002}, ValueError, "Subtract a public constant"),
    ({"cell": Fraction(1, 2**50)}, ValueError, "give a larger cell"),
    ({"cell": 64}, ValueError, "leave no room between them"),
    ({"cell": "1/3"}, ValueError, r"not a power of two; write for example '1/1024'"),
    ({"cell": "3/4"}, ValueError, "not a power of two"),
    ({"cell": 0}, ValueError, "not a power of two"),
    ({"cell": -1}, ValueError, "not a power of two"),
    ({"cell": 0.1}, ValueError, "not a power of two"),
    ({"cell": []}, TypeError, "give an int, Fraction"),
    ({"count_share": 0}, ValueError, r"outside \(0, 1\); try '1/4'"),
    ({"count_share": 1}, ValueError, r"outside \(0, 1\); try '1/4'"),
    ({"count_share": "-1/4"}, ValueError, r"outside \(0, 1\)"),
    ({"count_share": None}, TypeError, "give an int, Fraction"),
    ({"at_least": 0}, ValueError, "a mean needs at least 1 record"),
    ({"at_least": -5}, ValueError, "a mean needs at least 1 record"),
    ({"at_least": 1.0}, TypeError, "give an integer"),
    ({"at_least": True}, TypeError, "give an integer"),
]


@pytest.mark.parametrize(
    ("change", "kind", "message"), BAD_PARAMETERS, ids=range(len(BAD_PARAMETERS))
)
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        mean(**change)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ([1.0, np.inf], ValueError),
        ([[1.0, 2.0]], ValueError),
        (1.0, ValueError),
        ([[1.0], [1.0, 2.0]], TypeError),
        (["1"], TypeError),
        (np.array(["1"], dtype=object), TypeError),
    ],
    ids=range(6),
)
def test_no_bit_is_drawn_for_refused_data(
    data: Any, kind: type[Exception], adjacency: Adjacency
) -> None:
    with pytest.raises(kind):
        mean(adjacency=adjacency).release(data, NoBits())


GRIDS: list[dict[str, Any]] = [
    {},
    {"lower": 120.0, "upper": 200.0, "at_least": 3},
    {"cell": "1/8", "count_share": "1/3"},
    {"lower": -0.3, "upper": 1e-3, "noise_multiplier": "10/3"},
    {"adjacency": REPLACE, "lower": 0, "upper": 7},
    {"lower": 0.0, "upper": 5e-324},
    {"lower": 0.0, "upper": 1e-318},
    {"lower": -1.7e308, "upper": 1.7e308},
]


@pytest.mark.parametrize("parameters", GRIDS, ids=range(len(GRIDS)))
@pytest.mark.parametrize(
    ("count", "total"), [(1, 0), (7, 12), (100, -12345), (3, 10**12), (2, -(10**9))]
)
def test_the_estimate_is_the_formula(parameters: dict[str, Any], count: int, total: int) -> None:
    """(center + noisy sum / noisy count) cells, clipped to the bounds; the deviation by the
    spec."""
    mechanism = mean(**parameters)
    _, _, center, cell = spec.grid(mechanism.parameters)
    unclipped = (center + Fraction(total, count)) * cell
    value = min(max(unclipped, Fraction(mechanism.lower)), Fraction(mechanism.upper))
    estimate = mechanism.estimate(transcript({"count": (count,), "sum": (total,)}))
    assert isinstance(estimate, MeanEstimate)
    assert estimate.value == float(value)
    assert estimate.count == count
    radius = mechanism.plan()[-1].query.radius  # type: ignore[union-attr]
    seen = center + min(max(Fraction(total, count), Fraction(-radius)), Fraction(radius))
    with mp.workdps(400):
        mean_seen = mp.mpf((seen * cell).numerator) / (seen * cell).denominator
        deviation = spec.expected_error(mechanism.parameters, count, mean_seen)
        beyond = deviation > 1.7976931348623157e308
    if beyond:
        assert estimate.standard_deviation == float("inf")
    else:  # two steps of the smallest floats, where a deviation has no more digits
        assert abs(estimate.standard_deviation - deviation) <= 1e-9 * deviation + 1e-323


def test_a_stopped_transcript_is_an_abstention() -> None:
    assert mean().estimate(transcript({"count": (0,)}, "too few")) == Abstained("too few")


@pytest.mark.parametrize("parameters", GRIDS, ids=range(len(GRIDS)))
def test_the_order_of_the_records_does_not_matter(parameters: dict[str, Any]) -> None:
    mechanism, data = mean(**parameters), [*EDGE_RECORDS, 150.0] * 2
    expected = mechanism.release(data, SeededBits(3))
    assert mechanism.release(data[::-1], SeededBits(3)) == expected
    assert mechanism.release(np.array(data).reshape(-1, 1), SeededBits(3)) == expected


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
def test_nothing_depends_on_the_floating_point_environment(lower: float, upper: float) -> None:
    """Else a record of 1e-310 raises in a program that calls np.seterr(all="raise")."""
    mechanism = mean(lower=lower, upper=upper)
    expected = mechanism.release(EDGE_RECORDS, SeededBits(4))
    with np.errstate(all="raise"):
        assert mechanism.release(EDGE_RECORDS, SeededBits(4)) == expected


@pytest.mark.parametrize(
    ("lower", "upper"), [(0.0, 1.0), (-1e308, 1.7e308), (1e308, 1.7e308), (0.0, 5e-324)]
)
def test_a_nonfinite_record_counts_as_the_middle_when_replaced(lower: float, upper: float) -> None:
    mechanism = mean(lower=lower, upper=upper, nonfinite="replace")
    middle = mechanism.replacement()
    assert lower <= middle <= upper
    expected = mechanism.release([middle, middle, lower], SeededBits(5))
    assert mechanism.release([np.nan, -np.inf, lower], SeededBits(5)) == expected


@pytest.mark.parametrize("epsilon", ["1e-300", "1e-303", "1e-310"])
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_noise_beyond_the_largest_float_is_still_released(
    adjacency: Adjacency, epsilon: str
) -> None:
    """An exception after the draw would be an output that nobody has accounted for."""
    mechanism = BoundedMean.for_budget(PureDP(epsilon), adjacency=adjacency, lower=0, upper=1)
    for seed in range(6):
        released = mechanism.release([0.5] * 3, SeededBits(seed))
        if isinstance(released, MeanEstimate):
            assert 0.0 <= released.value <= 1.0
        else:
            assert adjacency is ADD


RECORDS = st.one_of(
    st.sampled_from([*EDGE_RECORDS, -1.0, 3.0, 1.0]),
    st.sampled_from([1e308, -1e308]),
    st.floats(allow_nan=False, allow_infinity=False),
)


@pytest.mark.parametrize(
    "mechanism",
    [
        mean(noise_multiplier=2, cell="1/4"),
        mean(noise_multiplier="3/2", count_share="2/5"),
        mean(noise_multiplier=3, lower=0.1, upper=0.7, at_least=2),
        mean(noise_multiplier=2, adjacency=REPLACE, cell=1),
        mean(noise_multiplier=2, adjacency=REPLACE, lower=-1e300, upper=1e300),
    ],
    ids=range(5),
)
def test_no_neighbors_lose_more_than_claimed(mechanism: BoundedMean) -> None:
    loss = largest_loss_found(mechanism, RECORDS)
    epsilon = float(1 / mechanism.noise_multiplier)
    assert mechanism.claim.guarantee == PureDP(1 / mechanism.noise_multiplier)
    # The search comes near the claim, so a claim 10% smaller would be refuted by it.
    assert 0.9 * epsilon < loss <= epsilon * (1 + 1e-9)


def test_the_search_refutes_a_mechanism_that_does_not_clip() -> None:
    """Planted: bounds ten times as wide as the noise is made for."""
    honest = mean(noise_multiplier=2, cell=1)
    wide = replace(honest, lower=-10.0, upper=30.0)
    noise_for_honest = wide.noise_multiplier / 10
    faulty = replace(wide, noise_multiplier=noise_for_honest)
    assert largest_loss_found(faulty, RECORDS) > float(1 / honest.noise_multiplier)
