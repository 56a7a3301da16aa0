"""Float noise betrays its center; integers, grids and ours do not.

False alarms: each certificate is wrong with probability at most 1e-6. All draws are seeded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import PureDP
from dpverify.audit.structure import lowest_set_bit, membership
from dpverify.audit.structure.reachable import FORMULAS, fused, reachable
from dpverify.audit.structure.values import lowest_bit_exponent
from tests.audit.structure_subjects import (
    AVERAGED,
    COUNTED,
    NEWER,
    OURS,
    Ours,
    Vectorized,
    numpy_laplace,
    numpy_normal,
    snapped,
    textbook_laplace,
)

RELEASES = 450
"""Number of releases of each side in which either test finds float noise already."""


@pytest.mark.parametrize("make", [numpy_laplace, textbook_laplace])
@pytest.mark.parametrize(("center", "scale"), [(0.0, 1.0), (1.0, 1.0), (0.0, 2.7)])
def test_membership_finds_float_laplace_noise(
    make: Callable[..., Vectorized], center: float, scale: float
) -> None:
    few, finding = (
        membership(
            make(1, scale), center, center + 1, centers=(center, center + 1), scale=scale,
            draws=draws, vectorized=True,
        )
        for draws in (RELEASES, 4000)
    )  # fmt: skip
    assert few.detected
    assert finding.detected
    assert finding.certificate is not None
    assert finding.certificate.epsilon > 3
    assert finding.false_alarm == 1e-6
    assert "FOUND by membership" in str(finding)
    # the example can be checked by hand
    assert float.fromhex(finding.reproduce.split()[-1]) != center


def test_most_single_outputs_reveal_their_center() -> None:
    rng = np.random.default_rng(3)
    outputs = rng.laplace(0.0, 1.0, 2000)
    for formula, least in (("numpy's formula", 0.7), ("the textbook's formula", 0.5)):
        zero, one = (
            reachable(FORMULAS[formula], outputs, np.full(2000, center), 1.0)
            for center in (0.0, 1.0)
        )
        assert zero.mean() > 0.98  # logarithms of other libraries may differ in the last bit
        assert (zero & ~one).mean() > least


@pytest.mark.parametrize("seed", range(2))
def test_membership_is_silent_on_a_grid(seed: int) -> None:
    for make in (numpy_laplace, textbook_laplace):
        release = snapped(make(seed))
        finding = membership(release, 0.0, 1.0, centers=(0, 1), scale=1.0, vectorized=True)
        assert not finding.detected
        assert finding.problem == ""


@pytest.mark.parametrize("ours", [*OURS, *NEWER], ids=lambda ours: ours.name)
def test_both_are_silent_on_our_laws(ours: Ours) -> None:
    finding = membership(
        ours.law(0),
        ours.left,
        ours.right,
        centers=ours.centers(),
        scale=ours.scale(),
        draws=1000,
        vectorized=True,
    )
    assert not finding.detected
    finding = lowest_set_bit(ours.law(0), ours.left, ours.right, draws=4000, vectorized=True)
    assert not finding.detected
    assert finding.problem == ""


def _twice(ours: Ours, seed: int) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return a release, and one that says the same again as long as there is something to say."""
    release, told = ours.release(seed), {True: list[Any](), False: list[Any]()}

    def first(data: Any) -> Any:
        kept = told[data == ours.left]
        kept.append(release(data))
        return kept[-1]

    def again(data: Any) -> Any:
        kept = told[data == ours.left]
        return kept.pop() if kept else release(data)

    return first, again


@pytest.mark.parametrize("ours", [*OURS, *NEWER], ids=lambda ours: ours.name)
def test_both_are_silent_on_our_releases(ours: Ours) -> None:
    """Let both look at the same releases: each of them is wrong with probability 1e-6."""
    first, again = _twice(ours, 5)
    finding = membership(
        first,
        ours.left,
        ours.right,
        centers=ours.centers(released=True),
        scale=ours.scale(released=True),
        draws=RELEASES,
    )
    assert not finding.detected
    finding = lowest_set_bit(again, ours.left, ours.right, draws=RELEASES)
    assert not finding.detected
    assert finding.problem == ""


def test_the_centers_and_scales_of_ours_are_the_right_ones() -> None:
    # so that silence above is no matter of looking elsewhere
    for ours in (COUNTED, AVERAGED):
        release, (center, _), scale = ours.law(7), ours.centers(), ours.scale()
        outputs = np.asarray(release(ours.left, 4000), np.float64)
        outputs = outputs[outputs != 0]  # abstentions
        assert abs(np.mean(np.abs(outputs - center)) / scale - 1) < 0.2


@pytest.mark.parametrize("make", [numpy_normal, numpy_laplace])
def test_lowest_set_bit_finds_float_noise(make: Callable[[int], Vectorized]) -> None:
    assert lowest_set_bit(make(3), 0.0, 1.0, draws=RELEASES, vectorized=True).detected
    finding = lowest_set_bit(make(2), 0.0, 1.0, draws=100_000, vectorized=True)
    assert finding.detected
    assert finding.certificate is not None
    assert finding.certificate.epsilon > 6
    assert "lowest set bit" in finding.certificate.event


def test_lowest_set_bit_finds_a_center_with_low_bits() -> None:
    # noise on a grid, added to a number that is not on it
    rng = np.random.default_rng(1)

    def release(center: float, size: int) -> Any:
        return center + np.rint(rng.laplace(0.0, 1024.0, size)) / 1024

    finding = lowest_set_bit(release, 0.0, 0.1, offsets=(0.1,), draws=10_000, vectorized=True)
    assert finding.detected
    assert finding.certificate is not None
    assert finding.certificate.epsilon > 5


@pytest.mark.parametrize("seed", range(2))
def test_lowest_set_bit_is_silent_on_rounded_noise(seed: int) -> None:
    release = snapped(numpy_laplace(seed), 1.0)
    finding = lowest_set_bit(release, 0.0, 1.0, draws=20_000, vectorized=True)
    assert not finding.detected
    assert finding.certificate is not None
    assert finding.certificate.epsilon < 1


def test_a_weaker_claim_is_not_refuted() -> None:
    release = numpy_normal(1)
    assert not lowest_set_bit(
        release, 0.0, 1.0, claim=PureDP(20), draws=20_000, vectorized=True
    ).detected


def test_calls_that_raise_are_reported_and_can_be_the_leak() -> None:
    def broken(data: float) -> float:
        raise OSError("disk on fire")

    both = membership(broken, 0.0, 1.0, centers=(0, 1), scale=1.0, draws=200)
    assert not both.detected
    assert "400 of 400 calls raised OSError: disk on fire" in both.problem
    assert str(both).startswith("INCOMPLETE")

    def one_side(data: float) -> float:
        return broken(data) if data else 0.0

    finding = lowest_set_bit(one_side, 0.0, 1.0, draws=1000)
    assert finding.detected
    assert finding.certificate is not None
    assert "OSError" in finding.problem


def test_odd_outputs_do_no_harm() -> None:
    outputs: list[Any] = [math.nan, math.inf, -0.0, 5e-324, 1e308, 2**70, None, "no", True]
    rng = np.random.default_rng(0)

    def release(data: float) -> Any:
        return outputs[rng.integers(len(outputs))]

    for finding in (
        membership(release, 0.0, 1.0, centers=(0, 1), scale=1.0, draws=500),
        lowest_set_bit(release, 0.0, 1.0, offsets=(1.0,), draws=500),
    ):
        assert not finding.detected
        assert "nan" not in str(finding).replace("is nan", "").replace("is not nan", "")


def test_lowest_bit_exponents_are_exact() -> None:
    values = [1.0, 3.0, 0.5, 0.1, 5e-324, 1e308, -12.0, 2.0**-1074 * 12]
    for value in values:
        exact = Fraction(value)
        (exponent,) = lowest_bit_exponent(np.array([value]))
        odd = exact / Fraction(2) ** int(exponent)
        assert odd.denominator == 1
        assert odd.numerator % 2 == 1
    assert lowest_bit_exponent(np.zeros(1)) > 1024


def test_the_fused_formula_rounds_once() -> None:
    rng = np.random.default_rng(1)
    for center in (0.0, 1.0, 0.3):
        logs = np.log(rng.integers(1, 2**53, 200) / 2.0**53)
        noisy = [float(Fraction(center) + Fraction(0.7) * Fraction(x)) for x in logs.tolist()]
        hits = reachable(fused, np.array(noisy), np.full(200, center), 0.7)
        assert hits.mean() > 0.95


def test_bad_parameters_are_refused() -> None:
    release = numpy_laplace(0)
    with pytest.raises(ValueError, match="at least 100"):
        membership(release, 0.0, 1.0, centers=(0, 1), scale=1.0, draws=10)
    with pytest.raises(ValueError, match="scale"):
        membership(release, 0.0, 1.0, centers=(0, 1), scale=0.0)
    with pytest.raises(ValueError, match="does not fit outputs of width 1"):
        membership(release, 0.0, 1.0, centers=([0, 1], 1), scale=1.0, vectorized=True)
    with pytest.raises(ValueError, match="formulas"):
        membership(release, 0.0, 1.0, centers=(0, 1), scale=1.0, formulas={})
    with pytest.raises(ValueError, match="alpha"):
        lowest_set_bit(release, 0.0, 1.0, alpha=0.0)
    with pytest.raises(ValueError, match="offsets"):
        lowest_set_bit(release, 0.0, 1.0, offsets=(1.0, 2.0, 3.0))
    with pytest.raises(ValueError, match="3 outputs when asked for 7"):
        lowest_set_bit(lambda _, size: [1.0] * 3, 0.0, 1.0, draws=100, vectorized=True)
