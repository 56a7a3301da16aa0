"""Certificates: what they refute, at the edges of their counts and of the guarantees."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpverify import ApproxDP, PerfectPrivacy, PureDP
from dpverify.audit import certificates
from dpverify.audit.certificates import Aim, Certificate, certify, fewest_draws, refutes
from dpverify.audit.confidence_regions import Counted, confidence_region
from dpverify.privacy import (
    ApproximateGaussianDP,
    GaussianDP,
    Guarantee,
    Profile,
    ZeroConcentratedDP,
)

WHERE = ("p", "left over right", "e")
KINDS: list[Guarantee] = [
    GaussianDP(1),
    ZeroConcentratedDP("0.5"),
    ApproximateGaussianDP(1, "1e-3", "1e-4"),
    Profile([GaussianDP("0.6"), PureDP("0.5")]),
]


def _certificate(hits: int, other: int, guarantee: Guarantee, delta: float = 0.0) -> Certificate:
    aim = Aim((certificates.tested_points(guarantee)[0][0], delta), 32)
    return certify(WHERE, Counted(hits, 10_000, other, 10_000), aim, 1e-6, guarantee)


def test_refutes_exactly_what_the_counts_exclude() -> None:
    def refuted(claim: Guarantee, hits: int = 5000, other: int = 500) -> bool:
        return _certificate(hits, other, claim).refuted

    assert refuted(PureDP(1))  # the ratio is 10, about 2.3
    assert refuted(PureDP(2))
    assert not refuted(PureDP("2.4"))
    assert refuted(PerfectPrivacy())
    assert not refuted(ApproxDP(1, "0.5"))
    assert refuted(ApproxDP(1, "0.1"))
    assert not refuted(PureDP("1e-9"), 500, 500)


def test_refutation_and_certified_epsilon_agree() -> None:
    rng = np.random.default_rng(0)
    for hits, other in rng.integers(0, 10_001, size=(100, 2)):
        bounds = confidence_region(Counted(int(hits), 10_000, int(other), 10_000), 32, 1e-6)
        epsilon = bounds.epsilon_at(0.0)
        if epsilon > 1e-6:
            assert refutes(bounds, PureDP(epsilon * (1 - 1e-6)))
            assert not refutes(bounds, PureDP(epsilon * (1 + 1e-6)))


def test_a_huge_epsilon_is_never_refuted() -> None:
    certificate = _certificate(10_000, 0, PureDP("1e308"))
    assert not certificate.refuted
    assert certificate.delta_at(1e308) == 0.0
    assert certificate.delta_at(0.0) > 0.99


@pytest.mark.parametrize("guarantee", KINDS, ids=str)
def test_the_tested_points_are_on_the_profile(guarantee: Guarantee) -> None:
    points = certificates.tested_points(guarantee)
    assert len(points) > 15
    for epsilon, delta in points:
        exact = guarantee.delta_at(epsilon)
        assert exact.lower <= delta * (1 + 1e-12)
        assert delta <= float(exact.upper) * (1 + 1e-9)


@pytest.mark.parametrize("guarantee", KINDS, ids=str)
def test_a_whole_profile_is_refuted_where_it_is_too_small(guarantee: Guarantee) -> None:
    """Probabilities just inside every tested inequality pass, and just outside one are refuted."""
    draws = 10**10  # so many that the region is nearly a point
    for epsilon, delta in certificates.tested_points(guarantee)[::4]:
        q = 0.01
        p = math.exp(epsilon) * q + delta
        if p >= 0.99:
            continue
        for surplus, expected in ((1e-3, True), (-1e-3, False)):
            hits = round((p + surplus) * draws)
            bounds = confidence_region(Counted(hits, draws, round(q * draws), draws), 32, 1e-6)
            broken = [bounds.excess(e, d) > 0 for e, d in certificates.tested_points(guarantee)]
            assert expected <= any(broken)
            assert refutes(bounds, guarantee) == any(broken)
            if not expected:
                assert bounds.excess(epsilon, delta) < 0


def test_an_impossible_event_bounds_delta_at_every_epsilon() -> None:
    aim = Aim((1.0, 0.0), 63, impossible=True)
    certificate = certify(WHERE, Counted(3000, 10_000, 0, 10_000), aim, 1e-6, PureDP(1))
    assert 0.27 < certificate.everywhere < 0.3
    assert certificate.delta_at(5000.0) == certificate.everywhere
    # a hit on the other side shows that its law was not what it said
    seen = certify(WHERE, Counted(3000, 10_000, 1, 10_000), aim, 1e-6, PureDP(1))
    assert seen.everywhere == 0.0


def test_the_fewest_draws_are_the_fewest() -> None:
    for guarantee, alpha in ((PureDP(1), 0.05), (ApproxDP(3, "0.01"), 1e-6), (GaussianDP(1), 1e-3)):
        enough = fewest_draws(guarantee, alpha)
        for draws, expected in ((enough, True), (enough - 1, False)):
            bounds = confidence_region(Counted(draws, draws, 0, draws), 32, alpha)
            assert refutes(bounds, guarantee) is expected


def test_a_guarantee_that_hides_nothing_needs_no_audit() -> None:
    with pytest.raises(ValueError, match="No number of draws refutes"):
        fewest_draws(PureDP(100), 0.05)
