"""The engine itself: divergences that are known exactly, tails on the safe side, laws of mass 1."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest
from flint import arb

from dpverify.privacy import Adjacency, ApproxDP, Norm, PerfectPrivacy
from dpverify.privacy.balls import ball
from spec.theory import laws as spec_laws
from spec.theory.above_threshold import AboveThresholdLaw
from spec.theory.rules import hockey_stick

from ..finite import random_pair
from . import laws
from .graph import ROUNDING, Law, divergence, edges, judge, left_out, moved, steps
from .test_above_threshold import report

ONE, HALF = Fraction(1), Fraction(1, 2)


def test_a_divergence_encloses_the_exact_one() -> None:
    rng = random.Random(20250901)
    for _ in range(100):
        pair, factor = random_pair(rng, far=True), Fraction(rng.randint(1, 9), 2)
        p, q = (laws.exactly(law) for law in pair)
        least, largest = divergence(p, q, ball(factor))
        exact = ball(hockey_stick(*pair, factor))
        assert abs(least - exact) < ROUNDING
        assert abs(largest - exact) < ROUNDING


def test_what_a_law_leaves_out_counts_on_the_safe_side() -> None:
    p: Law = {"a": ball(HALF), "b": ball(Fraction(1, 4))}
    q: Law = {"a": ball(HALF)}
    least, largest = divergence(p, q, arb(1))
    assert least == 0  # b may be what the other one leaves out
    assert abs(largest - ball(HALF)) < ROUNDING  # or b and the rest may all be new
    verdict = judge(lambda node: (p, q)[node], [(0, 1)], ApproxDP(1, Fraction(2, 5)), [ONE])
    assert not verdict.holds
    assert verdict.surely < 0
    with pytest.raises(AssertionError, match="more mass than 1"):
        left_out({"a": arb(1), "b": ball(HALF)})


def test_a_leak_of_one_in_a_million_is_seen() -> None:
    leak = Fraction(1, 10**6)
    nodes = [laws.exactly({0: 1 - leak, side: leak}) for side in (1, 2)]
    pairs = [(0, 1), (1, 0)]
    assert judge(nodes.__getitem__, pairs, ApproxDP(1, leak), [ONE]).holds
    assert not judge(nodes.__getitem__, pairs, ApproxDP(1, leak * Fraction(999, 1000)), [ONE]).holds
    assert judge(nodes.__getitem__, pairs, PerfectPrivacy(), [ONE]).surely > 0.9e-6


def test_edges_are_all_neighbors_and_steps_lead_over_them() -> None:
    pairs = edges(Adjacency.ADD_REMOVE, (0, 1), 2)
    assert len(pairs) == 2 * (2 + 6)  # (0, 0) loses one record in two ways to the same dataset
    assert ((), (0, 1)) in steps(pairs, 2)
    assert ((), (0,)) not in steps(pairs, 2)
    assert moved(lambda data: (len(data), 2 * len(data)), pairs, Norm.L1) == 3
    with pytest.raises(AssertionError, match="move against each other"):
        moved(lambda data: (len(data), -len(data)), pairs, Norm.ONE_WAY)


def _gaussian_mass(z: int) -> Any:
    return spec_laws.real_exponential.rounded_gaussian(z, Fraction(3, 2))


def _laplace_mass(z: int) -> Any:
    return spec_laws.DiscreteLaplaceLaw(0, ONE).probability((z,), spec_laws.real_exponential)


def test_noise_is_the_spec_s() -> None:
    """Compare mass by mass, but for lumped tails, and all of it."""
    with mp.workdps(50):
        for law, mass, listed in (
            (laws.rounded_gaussian(0, Fraction(3, 2)), _gaussian_mass, range(-15, 16)),
            (laws.laplace(0, ONE, -5, 5), _laplace_mass, range(-4, 5)),
        ):
            for z in listed:
                assert abs(mp.mpf(law[z].str(45, radius=False)) - mass(z)) < 1e-40
            assert left_out(law) < ROUNDING
    for law in (laws.discrete_gaussian(3, ONE), laws.rounded_laplace(3, ONE)):
        assert left_out(law) < ROUNDING


def test_reports_are_the_spec_s() -> None:
    for answers in ((0, -1, 2), (-1, -1, -1, 0)):
        with mp.workdps(40):
            spec = AboveThresholdLaw(answers, 0, HALF, ONE, 0, False)
            masses = spec.masses(spec_laws.real_exponential)
            for reported, mass in zip(report(answers, HALF, ONE).values(), masses, strict=True):
                assert abs(mp.mpf(reported.str(35, radius=False)) - mass) < 1e-30
