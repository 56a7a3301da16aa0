"""``stability_histogram``: on every dataset, bins where they should be, counts within their
error."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, Literal

import mpmath as mp
import numpy as np
import pytest
from hypothesis import strategies as st

from dpverify import (
    Adjacency,
    ApproxDP,
    ApproximateGaussianDP,
    GaussianDP,
    HistogramEstimate,
    PureDP,
    SeededBits,
    StabilityHistogram,
)
from dpverify.grid.transcripts import transcript
from dpverify.privacy import Guarantee
from spec import stability_histogram as spec
from spec.theory.laws import real
from tests.mechanisms.helpers import (
    EDGE_DATA,
    EDGE_RECORDS,
    estimates,
    fails_at_most,
    largest_loss_found,
)
from tests.mechanisms.test_private_quantile import BAD_DATA
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
NOISES: list[Literal["laplace", "gaussian"]] = ["laplace", "gaussian"]


def histogram(**parameters: Any) -> StabilityHistogram:
    base: dict[str, Any] = {"adjacency": ADD, "noise_multiplier": 1, "width": 1, "delta": "1e-6"}
    return StabilityHistogram(**base | parameters)


def exact(**parameters: Any) -> StabilityHistogram:
    """P(noise != 0) < exp(-900): what it releases are the counts of at least 2."""
    return histogram(noise_multiplier="1/1000", **parameters)


def counts_of(mechanism: StabilityHistogram, data: Any, seed: int = 1) -> dict[float, int]:
    released = mechanism.release(data, SeededBits(seed))
    assert isinstance(released, HistogramEstimate)
    return dict(released.counts)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("width", [1, 1e-3, "1/3", 2.0**-1022, 1e300, 2.0**1023])
@pytest.mark.parametrize("data", EDGE_DATA, ids=range(len(EDGE_DATA)))
def test_every_dataset_has_a_release(
    data: list[float], width: Any, adjacency: Adjacency, noise: str
) -> None:
    mechanism = histogram(adjacency=adjacency, width=width, noise=noise, delta="0.1")
    released = mechanism.release(data, SeededBits(1))
    assert isinstance(released, HistogramEstimate)
    assert list(released.counts) == sorted(released.counts)
    assert all(type(count) is int for count in released.counts.values())
    assert min(released.counts.values(), default=9999) >= released.threshold
    assert str(released)


@pytest.mark.parametrize("width", [1, "1/10", 0.1, "7/3", 1e-5, 2.0**40])
@pytest.mark.parametrize("origin", [0, "1/3", -2.5])
def test_bins_are_floors(width: Any, origin: Any) -> None:
    """Records in the middles of bins, far from the edges, which are rounded to the grid."""
    step, start = Fraction(width), Fraction(origin)
    keys = [-7, -1, 0, 1, 1, 40, 1000, 1000, 1000]
    data = [float(start + (key + Fraction(1, 2)) * step) for key in keys for _ in range(2)]
    expected = {float(start + key * step): 2 * n for key, n in Counter(keys).items()}
    assert counts_of(exact(width=width, origin=origin), data) == expected


def test_a_record_on_an_edge_lies_above_it() -> None:
    data = [10.0, 10.0, 9.999999999999998, 9.999999999999998, -5e-324, -5e-324, 0.0, -0.0]
    assert counts_of(exact(width=10), data) == {-10.0: 2, 0.0: 4, 10.0: 2}


def test_a_lowest_edge_may_lie_beyond_the_floats() -> None:
    """An exception after the draw would be an output that nobody has accounted for."""
    counts = counts_of(exact(width=8e307), [-1.7e308] * 3 + [1.7e308] * 3)
    assert counts == {-np.inf: 3, 1.6e308: 3}


def test_records_far_away_count_as_lying_at_the_last_bin() -> None:
    assert counts_of(exact(), [1e308, 2.0**31, -1e308, -1e300]) == {-(2.0**30): 2, 2.0**30: 2}


def test_an_estimate_reads_well() -> None:
    mechanism = histogram(width="1/10", origin="1/20", noise_multiplier=2)
    estimate = mechanism.estimate(transcript({"histogram": (-1, 45, 2, 31, 3, 33)}))
    assert isinstance(estimate, HistogramEstimate)
    assert estimate.counts == {-0.05: 45, 0.25: 31, 0.35: 33}
    assert (estimate.width, estimate.threshold) == (0.1, spec.threshold_of(mechanism.parameters))
    assert str(estimate) == (
        "[-0.05, 0.05): 45\n[0.25, 0.35): 31\n[0.35, 0.45): 33\n"
        f"3 bins surfaced (threshold {estimate.threshold}, noise of standard deviation 2.8)"
    )
    nothing = mechanism.estimate(transcript({"histogram": ()}))
    assert str(nothing).startswith("0 bins surfaced")


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("multiplier", ["1/20", "1", "10/3", "1000"])
@pytest.mark.parametrize("delta", ["0.3", "1e-3", "1e-12"])
def test_the_threshold_is_the_least_for_its_predicate(
    noise: str, adjacency: Adjacency, multiplier: str, delta: str
) -> None:
    mechanism = histogram(
        noise=noise, adjacency=adjacency, noise_multiplier=multiplier, delta=delta
    )
    estimate = mechanism.estimate(transcript({"histogram": ()}))
    assert isinstance(estimate, HistogramEstimate)
    assert estimate.threshold == spec.threshold_of(mechanism.parameters)
    with mp.workdps(60):  # the claim's delta is that, rounded up
        surfaces = spec.surfaces(mechanism.parameters, estimate.threshold)
        ratio = real(mechanism.claim.guarantee.delta_floor) / surfaces
        assert 0 <= ratio - 1 < mp.mpf(10) ** -12


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("adjacency", Adjacency)
def test_a_bin_of_one_record_surfaces_no_more_often_than_delta(
    noise: str, adjacency: Adjacency
) -> None:
    """Count over 2000 releases; false alarm below 1e-6. A threshold two lower is noticed."""
    mechanism = histogram(noise=noise, adjacency=adjacency, delta="0.05", noise_multiplier=2)
    for changed, right in ((mechanism, True), (replace(mechanism, delta=Fraction(13, 100)), False)):
        shown = [float(len(estimate.counts)) for estimate in estimates(changed, [0.5], 2)]
        assert fails_at_most(shown, 0.5, 0.05) is right


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("adjacency", Adjacency)
def test_counts_and_bins_are_within_the_error_bound(noise: str, adjacency: Adjacency) -> None:
    mechanism, beta = (
        histogram(noise=noise, adjacency=adjacency, noise_multiplier=3),
        Fraction(1, 20),
    )
    t = spec.error_bound(mechanism.parameters, 10, beta)
    least = spec.threshold_of(mechanism.parameters) + t - 1
    data = np.repeat(np.arange(10) + 0.5, least)

    def misses(model: StabilityHistogram, seed: int) -> list[float]:
        tallies = [dict(e.counts) for e in estimates(model, data, seed, 400)]
        return [max(abs(one.get(float(k), -least) - least) for k in range(10)) for one in tallies]

    # false alarm below 1e-6
    assert fails_at_most(misses(mechanism, 3), t, float(beta))
    assert not fails_at_most(
        misses(replace(mechanism, noise_multiplier=Fraction(9, 2)), 4), t, float(beta)
    )


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("n", [0, 1, 2, 10**5])
def test_all_sizes_of_data(noise: str, n: int) -> None:
    mechanism = histogram(noise=noise, width=1000)
    data = np.arange(n)  # 100 bins of 1000 records each
    counts = counts_of(mechanism, data)
    # Beyond 60 by Laplace noise of scale 1: 200 exp(-60) < 1e-23. Small data: at most 1e-6 a bin.
    assert set(counts) == {1000.0 * k for k in range(n // 1000)}
    assert all(abs(count - 1000) < 60 for count in counts.values())


BAD_PARAMETERS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"width": 0}, ValueError, "not positive; give the width of a bin"),
    ({"width": float("nan")}, ValueError, "give a finite number"),
    ({"width": 5e-324}, ValueError, "give the data in another unit"),
    ({"width": "1e400"}, ValueError, "give the data in another unit"),
    ({"width": None}, TypeError, "give an int, Fraction"),
    ({"width": True}, TypeError, "truth value"),
    ({"origin": 2.0**30}, ValueError, "more than 2.29 bins from 0; subtract a public constant"),
    ({"origin": "x"}, ValueError, "write it like '1e-6'"),
    ({"delta": 0}, ValueError, r"outside \(0, 1\); try '1e-6'"),
    ({"delta": 1}, ValueError, r"outside \(0, 1\)"),
    ({"delta": None}, TypeError, "give an int, Fraction"),
    ({"noise": "Laplace"}, ValueError, "write 'laplace' or 'gaussian'"),
    ({"noise_multiplier": 0}, ValueError, "use for_budget"),
    ({"adjacency": None}, TypeError, "write Adjacency"),
]


@pytest.mark.parametrize(
    ("change", "kind", "message"), BAD_PARAMETERS, ids=range(len(BAD_PARAMETERS))
)
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        histogram(**change)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("data", "kind", "message"), BAD_DATA, ids=range(len(BAD_DATA)))
def test_no_bit_is_drawn_for_refused_data(
    data: Any, kind: type[Exception], message: str, noise: str
) -> None:
    with pytest.raises(kind, match=message):
        histogram(noise=noise).release(data, NoBits())


@pytest.mark.parametrize("multiplier", [Fraction(1, 2**11), Fraction(2**46)])
@pytest.mark.parametrize("data", [[], [1.0] * 9], ids=["nobody", "some"])
def test_gaussian_noise_that_is_not_drawn_is_refused_whatever_the_data(
    data: list[float], multiplier: Fraction
) -> None:
    mechanism = histogram(noise="gaussian", noise_multiplier=multiplier)
    with pytest.raises(ValueError, match=r"from 2\^-10 to 2\^45"):
        mechanism.release(data, NoBits())
    laplace = histogram(noise_multiplier=multiplier)
    assert isinstance(laplace.release(data, SeededBits(1)), HistogramEstimate)


def test_all_kinds_of_columns_and_orders_are_one() -> None:
    mechanism = histogram(delta="0.1", width=4)
    data = [7.0, 3.0, 50.0, 80.0, 12.0, 7.0, 7.0, 6.0]
    expected = counts_of(mechanism, data, 5)
    assert expected
    columns: list[Any] = [data[::-1], tuple(data), np.array(data).reshape(-1, 1)]
    columns += [np.array(data, dtype=kind) for kind in (np.float32, np.uint8)]
    for column in columns:
        assert counts_of(mechanism, column, 5) == expected


def test_a_nonfinite_record_counts_as_zero_when_replaced() -> None:
    mechanism: Any = exact(nonfinite="replace")
    assert counts_of(mechanism, [np.nan, -np.inf, None, 9.0, 9.0]) == {0.0: 3, 9.0: 2}


@pytest.mark.parametrize("noise", NOISES)
def test_nothing_depends_on_the_floating_point_environment(noise: str) -> None:
    for width in (1, 1e300, 2.0**-1022):
        mechanism = histogram(noise=noise, width=width, delta="0.2")
        expected = counts_of(mechanism, EDGE_RECORDS * 3, 6)
        with np.errstate(all="raise"):
            assert counts_of(mechanism, EDGE_RECORDS * 3, 6) == expected


def test_releases_are_as_their_seeds() -> None:
    data = [0.5] * 1000
    mechanism = histogram(noise_multiplier=1000)
    same = [counts_of(mechanism, data, 7) for _ in range(3)]
    others = {tuple(counts_of(mechanism, data * 50, seed).values()) for seed in range(10)}
    assert same[0] == same[1] == same[2]
    assert len(others) > 5  # values within some thousands: fixed by the seeds


@pytest.mark.parametrize("adjacency", Adjacency)
def test_a_budget_is_met_and_hardly_more(adjacency: Adjacency) -> None:
    budget = ApproxDP(1, "1e-6")
    for noise in NOISES:
        made = StabilityHistogram.for_budget(
            budget, adjacency=adjacency, width=1, delta=Fraction(1, 2 * 10**6), noise=noise
        )
        assert made.claim.guarantee == budget
        assert made.composed.implies(budget)
        less = made.noise_multiplier * Fraction(9999, 10**4)
        assert not replace(made, budget=None, noise_multiplier=less).composed.implies(budget)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_delta_is_the_budget_s_unless_it_is_given(adjacency: Adjacency) -> None:
    """All of it beside Laplace noise, which has none; a half beside Gaussian noise under
    (epsilon, delta)."""
    budget, delta = ApproxDP(1, "1e-6"), Fraction(1, 10**6)
    laplace = StabilityHistogram.for_budget(budget, adjacency=adjacency, width=1)
    gaussian = StabilityHistogram.for_budget(budget, adjacency=adjacency, width=1, noise="gaussian")
    assert laplace.delta == delta
    assert 1 - 1e-5 < laplace.noise_multiplier <= 1  # a threshold is a whole number
    assert gaussian.delta == delta / 2
    assert gaussian.claim.guarantee == laplace.claim.guarantee == budget
    weak = ApproximateGaussianDP(1, "1e-7", 0)
    made = StabilityHistogram.for_budget(weak, adjacency=adjacency, width=1, noise="gaussian")
    assert (made.delta, made.claim.guarantee) == (Fraction(1, 10**7), weak)
    small = StabilityHistogram.for_budget(budget, adjacency=adjacency, width=1, delta="1e-9")
    assert small.delta == Fraction(1, 10**9)


@pytest.mark.parametrize("budget", [PureDP(1), GaussianDP(1), ApproxDP(1, 0)])
def test_a_budget_without_a_delta_is_told_what_it_lacks(budget: Guarantee) -> None:
    with pytest.raises(ValueError, match="give an ApproxDP budget"):
        StabilityHistogram.for_budget(budget, adjacency=ADD, width=1)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize("delta", ["1e-5", "1e-2"])
def test_a_delta_beyond_the_budgets_is_refused_at_once(
    noise: Any, adjacency: Adjacency, delta: str
) -> None:
    """Searched, up to multipliers of 2^8192, some of these took minutes."""
    with pytest.raises(ValueError, match=r"and at 2\^100 .*Give a smaller delta"):
        StabilityHistogram.for_budget(
            ApproxDP(1, "1e-6"), adjacency=adjacency, width=1, delta=delta, noise=noise
        )


def test_claims_are_those_of_the_rules() -> None:
    laplace, gaussian = (
        histogram(noise_multiplier=2),
        histogram(noise="gaussian", adjacency=REPLACE),
    )
    assert isinstance(laplace.claim.guarantee, ApproxDP)
    assert laplace.claim.guarantee.epsilon == Fraction(1, 2)
    assert isinstance(gaussian.claim.guarantee, ApproximateGaussianDP)
    assert 0 <= 1 - gaussian.claim.guarantee.mu_squared < Fraction(1, 10**8)


RECORDS = st.one_of(
    st.sampled_from([0.5, 0.5, 0.25, -5e-324, 1.0]), st.sampled_from([*EDGE_RECORDS, 7.5])
)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_no_neighbors_with_the_same_bins_lose_more_than_claimed(adjacency: Adjacency) -> None:
    """Every bin is occupied three times already, so none appears or disappears."""
    mechanism = histogram(adjacency=adjacency, noise_multiplier=2, delta="0.4")
    occupied = [r for r in [*EDGE_RECORDS, 7.5] for _ in range(3)]

    def law(data: list[float]) -> Any:
        return mechanism.law([*data, *occupied])

    crowded: Any = SimpleNamespace(adjacency=adjacency, law=law)
    loss = largest_loss_found(crowded, RECORDS)
    assert 0.99 / 2 < loss <= (1 + 1e-9) / 2
