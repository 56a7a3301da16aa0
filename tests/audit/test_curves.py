"""Pictures of an audit in a report: nothing drawn says more than the certificates do."""

from __future__ import annotations

import numpy as np
import pytest

from dpverify.audit import audit, certificates
from dpverify.audit.certificates import Certificate
from dpverify.audit.confidence_regions import ConfidenceRegion
from dpverify.audit.curves import Points, profile_points, tradeoff_regions
from dpverify.audit.result import AuditResult
from dpverify.privacy import GaussianDP, PerfectPrivacy, PureDP
from dpverify.suite.audited import proof_of
from dpverify.suite.trees import load

COUNT = load().configuration("noisy_count:add-remove:all")


def _audited(claim: PureDP | GaussianDP | PerfectPrivacy, *, curve: int = 8) -> AuditResult:
    """Audit a mechanism that is pure(1); any other claim is wrong, or weaker."""
    return audit(COUNT.mechanism, claim=claim, pairs=COUNT.pairs, trials=5000, seed=3, curve=curve)


@pytest.fixture(scope="module")
def consistent() -> AuditResult:
    return audit(COUNT.mechanism, pairs=COUNT.pairs, trials=10_000, alpha=1e-6, seed=3, curve=8)


def _is_covered(region: ConfidenceRegion, corners: Points) -> bool:
    """Return whether every cell of the region is below and left of some corner."""
    cells = zip(region.upper, region.lower, strict=True)
    return all(any(q <= x and 1 - p <= y for x, y in corners) for q, p in cells)


def _counted(hits: int, other_hits: int, *, method: str = "joint") -> Certificate:
    return Certificate(
        "pair", "left over right", "event", hits, 1000, other_hits, 1000, 32, 0.0, 0.0, 1.0, 1e-6,
        method=method,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize(("hits", "other_hits"), [(0, 0), (1000, 0), (1, 999), (500, 200), (3, 0)])
def test_the_corners_enclose_the_whole_region(hits: int, other_hits: int) -> None:
    certificate = _counted(hits, other_hits)
    (corners,) = tradeoff_regions([certificate])
    region = certificate.region
    assert region is not None
    assert _is_covered(region, corners)
    assert [x for x, _ in corners] == sorted(x for x, _ in corners)
    assert [y for _, y in corners] == sorted((y for _, y in corners), reverse=True)
    assert all(0 <= end <= 1 for corner in corners for end in corner)


def test_corners_of_other_cells_would_not_enclose_it() -> None:
    """The mistake of taking each step's height at its right end; and of rounding down."""
    region = _counted(500, 200).region
    assert region is not None
    chosen = np.unique(np.linspace(0, len(region.upper) - 1, 8).round().astype(int))
    right_ends = [[float(region.upper[i]), 1 - float(region.lower[i])] for i in chosen]
    assert not _is_covered(region, right_ends)
    (corners,) = tradeoff_regions([_counted(500, 200)])
    assert not _is_covered(region, [[x - 1e-4, y] for x, y in corners])


def test_bets_have_no_region() -> None:
    assert tradeoff_regions([_counted(5, 1, method="betting")]) == [[]]


def test_a_consistent_claim_is_nowhere_below_what_was_certified(consistent: AuditResult) -> None:
    points = profile_points(consistent)
    assert all(certified <= claimed for _, claimed, certified in points)
    assert any(certified > 0.9 * claimed > 0 for _, claimed, certified in points)
    assert {e for e, _ in certificates.tested_points(consistent.guarantee)} <= {
        e for e, _, _ in points
    }
    for epsilon, claimed, certified in points:
        exact = consistent.guarantee.delta_at(str(epsilon)).upper
        assert claimed >= exact
        assert certified <= consistent.delta_at(epsilon)


@pytest.mark.parametrize("claim", [PureDP("0.5"), GaussianDP("0.5"), PerfectPrivacy()])
def test_a_refuted_claim_is_somewhere_below(claim: PureDP | GaussianDP | PerfectPrivacy) -> None:
    points = profile_points(_audited(claim))
    assert any(certified > claimed for _, claimed, certified in points)


def test_the_curve_is_paid_for_and_kept(consistent: AuditResult) -> None:
    """The events along the curve pay a tenth of alpha; all of them are there to be drawn."""
    pairs = [pair for pair in COUNT.pairs if pair.name == consistent.strongest.pair]
    paid = [one.alpha for one in consistent.certificates if one.pair == pairs[0].name]
    assert sum(abs(alpha - 1e-6 * 0.9 * 0.1 / 8) < 1e-12 for alpha in paid) >= 2
    assert len(tradeoff_regions(consistent.certificates)) == len(consistent.certificates)


def test_a_proof_is_kept_node_by_node() -> None:
    derivation = COUNT.mechanism.derivation
    kept = [proof_of(derivation)]
    for node in derivation.nodes():
        one = kept.pop(0)
        assert one["statement"].startswith(str(node.conclusion)[:20])
        assert one["rule"].startswith(node.rule)
        assert (f"spec/{node.obligation}" in one["rule"]) is bool(node.obligation)
        kept = [*one["premises"], *kept]
    assert kept == []
