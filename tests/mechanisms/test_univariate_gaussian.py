"""``univariate_gaussian``: on every dataset as the spec says; its errors, its intervals, and
what has no normal law."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    Degenerate,
    GaussianDP,
    NormalEstimate,
    SeededBits,
    UnivariateGaussian,
    result_from,
)
from dpverify.privacy import Domain
from dpverify.suite.refinement import compare_facts, exact_records
from spec import univariate_gaussian as spec
from tests.mechanisms.helpers import fails_at_most
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE


def made(**parameters: Any) -> UnivariateGaussian:
    base: dict[str, Any] = {"adjacency": ADD, "noise_multiplier": 1, "cell": 2**-8}
    return UnivariateGaussian(**base | parameters)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"cell": 0}, ValueError, "cell = 0 is not positive"),
    ({"cell": math.nan}, ValueError, "cell"),
    ({"cell": None}, TypeError, "cell"),
    ({"center": 1e300}, ValueError, "Subtract a public constant"),
    ({"center": math.inf}, ValueError, "center"),
    ({"reach": -1}, ValueError, "reach = -1 is not positive"),
    ({"reach": 2.0**40}, ValueError, "more than 2.40 cells"),
    ({"shares": ("1/2", "1/2")}, ValueError, "give 4 positive numbers"),
    ({"at_least": 0}, ValueError, "at_least = 0; give an integer from 1"),
    ({"noise_multiplier": 0}, ValueError, "noise_multiplier = 0 is not positive"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        made(**change)


def test_no_bit_is_drawn_for_refused_data() -> None:
    with pytest.raises(ValueError, match="Record 1 is not finite"):
        made().release([0.0, math.inf], NoBits())
    with pytest.raises(ValueError, match=r"have 2 records.*needs at least 200"):
        made(adjacency=REPLACE).release([0.0, 1.0], NoBits())


EDGE = [0.0, -0.0, 0.5, 5e-324, -5e-324, 2.2e-308, 1e308, -1e308, 1.7976931348623157e308]
WORLDS: list[dict[str, Any]] = [
    {"at_least": 1},
    {"at_least": 1, "adjacency": REPLACE},
    {"at_least": 1, "center": 2.0**43, "adjacency": REPLACE},
    {"at_least": 1, "cell": 5e-324},
    {"at_least": 1, "cell": 1.7e308, "adjacency": REPLACE},
    {"at_least": 1, "noise_multiplier": "1e300"},
]


@pytest.mark.parametrize("parameters", WORLDS, ids=range(len(WORLDS)))
def test_every_dataset_has_a_typed_release_and_the_spec_s_law(parameters: dict[str, Any]) -> None:
    mechanism = made(**parameters)
    normal = np.random.default_rng(0).normal(size=100)
    datasets: list[Any] = [EDGE[:1], EDGE[6:8], EDGE, [1.0] * 90, normal]
    datasets += [[]] if parameters.get("adjacency") is not REPLACE else []
    assert compare_facts(spec, mechanism, [datasets[0], EDGE, normal]) > 3
    for seed, data in enumerate(datasets):
        with np.errstate(all="raise", under="ignore"):
            release = mechanism.release(data, SeededBits(seed))
        if seed % 3 == 0:
            assert release == mechanism.release(data, SeededBits(seed))
        assert result_from(release.to_dict()) == release
        if isinstance(release, NormalEstimate):
            assert math.isfinite(release.value)
            assert math.isfinite(release.deviation)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_every_transcript_leads_to_the_spec_s_stages(adjacency: Adjacency) -> None:
    """Exact values after each prefix; no chance in it but the noise of a fixed seed."""
    mechanism = made(adjacency=adjacency, at_least=1, noise_multiplier=2)
    data = 1000 + 3 * np.random.default_rng(0).normal(size=90)
    law = mechanism.law(data)
    batch = law.sample(SeededBits(7), 4)
    specified = spec.law(mechanism.parameters, exact_records(data, mechanism.domain))
    seen: set[Any] = set()
    for i in range(len(batch)):
        outcomes = tuple(batch[i].released.values())
        for t in (-2, -1):
            place = len(specified.stages) + t
            stage: Any = mechanism.fixed_plan[place]
            center = law.center_after(stage, outcomes[:place])
            expected: Any = specified.stages[place][1](outcomes[:place])
            assert tuple(center.tolist()) == expected.center
            seen.add(expected.center)
    assert len(seen) > 4


def test_errors_and_intervals_are_as_predicted_with_no_guess() -> None:
    """50 fixed seeds for either adjacency, a mean of 12345.6 and a deviation of .037: root mean
    squares, over the spec's, within 25% of 1 together (1e-3 of chi-square with 100 degrees, once
    and for all) and within 35% each (likewise of 50 degrees); none abstains, and 95% intervals
    fail at most 14 times of 100."""
    off: list[Any] = []
    n, held = 1700, 0
    for adjacency in Adjacency:
        mechanism = UnivariateGaussian.for_budget(
            ApproxDP("1/2", "1e-6"), adjacency=adjacency, cell=2**-14
        )
        parameters = mechanism.parameters
        predicted = np.array(
            [float(f(parameters, n)) for f in (spec.expected_error, spec.expected_deviation_error)]
        )
        for seed in range(len(off), len(off) + 50):
            data = 12345.6 + 0.037 * np.random.default_rng([3, seed]).normal(size=n)
            release = mechanism.release(data, SeededBits(seed))
            assert isinstance(release, NormalEstimate)
            error = np.array([release.value - 12345.6, release.deviation - 0.037]) / 0.037
            off.append(error / predicted)
            low, high = release.interval(sampling=True)
            least, most = release.deviation_interval(sampling=True)
            held += (low < 12345.6 < high) + (least < 0.037 < most)
        assert np.abs(np.sqrt(np.mean(np.square(off[-50:]), axis=0)) - 1).max() < 0.35
        assert mechanism.expected_error(n) == pytest.approx(
            float(spec.noise_error(parameters, n)), rel=1e-6
        )
        assert mechanism.expected_deviation_error(n) == pytest.approx(
            float(spec.noise_deviation_error(parameters, n)), rel=1e-6
        )
        assert mechanism.minimum_n() <= n
    assert np.abs(np.sqrt(np.mean(np.square(off), axis=0)) - 1).max() < 0.25
    assert held >= 200 - 28


def test_the_error_bound_fails_as_rarely_as_stated() -> None:
    """200 draws of the last noise; more than 1/20 of them beyond the bound with probability
    below 1e-6."""
    mechanism = made(adjacency=REPLACE, at_least=1)
    data = np.random.default_rng(1).normal(size=400)
    bound = spec.error_bound(mechanism.parameters, 400, Fraction(1, 20))
    law = mechanism.law(data)
    batch = law.sample(SeededBits(2), 200)
    stage: Any = mechanism.fixed_plan[-1]
    off = []
    for i in range(200):
        outcomes = tuple(batch[i].released.values())
        exact = law.center_after(stage, outcomes[:-1])
        ours = spec.ratios(mechanism.parameters, spec.LAST, outcomes[-1], 400)
        theirs = spec.ratios(mechanism.parameters, spec.LAST, tuple(exact.tolist()), 400)
        assert ours is not None
        assert theirs is not None
        off.append(
            max(float(abs(a - b)) / float(c) for a, b, c in zip(ours, theirs, bound, strict=True))
        )
    assert fails_at_most(off, 1.0, 0.05)
    assert not fails_at_most(off, 0.6, 0.05)


def test_what_has_no_normal_law_is_typed() -> None:
    for adjacency in (ADD, REPLACE):
        mechanism = made(adjacency=adjacency)
        point = mechanism.release([5.0] * 2000, SeededBits(0))
        assert isinstance(point, Degenerate)
        assert abs(point.value - 5) < 0.05
        point.interval()
        far = mechanism.release([1e300] * 2000, SeededBits(0))
        assert isinstance(far, (Abstained, Degenerate))
    assert isinstance(made().release([], SeededBits(0)), Abstained)
    assert isinstance(made().release(np.arange(40.0), SeededBits(0)), Abstained)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_a_budget_is_met_and_hardly_missed(adjacency: Adjacency) -> None:
    """Calibrate: in exact arithmetic rounding costs less than 2^-16 of the multiplier."""
    mechanism = UnivariateGaussian.for_budget(GaussianDP(1), adjacency=adjacency, cell=1e-3)
    assert mechanism.claim.guarantee == GaussianDP(1)
    assert float(mechanism.noise_multiplier) == pytest.approx(1, rel=2e-5)


@pytest.mark.parametrize(
    ("degrees", "deviation"), [(1, 2.29), (3, 1.29)], ids=["Cauchy", "t of 3 degrees"]
)
def test_heavy_tails_lead_to_the_normal_law_of_their_middle(degrees: int, deviation: float) -> None:
    """5 fixed seeds: every deviation within 10% of the fixed point's, every mean within .2;
    neither the variance nor the mean of the records is near."""
    mechanism = UnivariateGaussian.for_budget(ApproxDP(1, "1e-6"), adjacency=REPLACE, cell=2**-14)
    for seed in range(5):
        data = np.random.default_rng([7, seed]).standard_t(degrees, size=8000)
        release = mechanism.release(data, SeededBits(seed))
        assert isinstance(release, NormalEstimate)
        assert abs(release.deviation / deviation - 1) < 0.1
        assert abs(release.value) < 0.2


def test_an_estimate_is_shown_to_the_digits_that_noise_leaves() -> None:
    shown = NormalEstimate(12345.60123456, 0.037, 1000.0, 4e-4, 0.01, 1e-3, 0.02)
    assert str(shown) == "12345.60123 (deviation 0.037), of 1000 records"
    assert str(NormalEstimate(0.0, 1.0, 9.0, math.inf, 0.1, 0.1, 0.1)).startswith("0 (deviation 1)")
    assert str(NormalEstimate(1e300, 1.0, 9.0, 5e-324, 0.1, 0.1, 0.1)).startswith("1.00000000000")


def test_mechanisms_that_differ_in_the_center_alone_keep_it_as_their_own_replacement() -> None:
    """Their domains are equal, and so are the statements about them, which are derived once."""
    for center in (0.0, 5.0, -3.0):
        mechanism = made(center=center, nonfinite="replace", at_least=1)
        assert mechanism.domain.replacement == center
        for node in mechanism.derivation.nodes():
            assert isinstance(node.conclusion.domain, Domain)
            assert node.conclusion.domain.replacement == center
        data, replaced = [1.0, math.nan, 2.0, 4.0] * 30, [1.0, center, 2.0, 4.0] * 30
        assert mechanism.release(data, SeededBits(1)) == mechanism.release(replaced, SeededBits(1))
