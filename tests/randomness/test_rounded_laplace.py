"""Rounded Laplace noise: its law fraction for fraction, whatever the number of digits drawn at
first."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dpverify.randomness import (
    RoundedLaplace,
    SeededBits,
    discrete_laplace,
    enumerate_law,
    rounded,
    rounded_laplace,
)
from dpverify.randomness.bits import Bits, IntArray
from spec.theory.laws import real_exponential
from spec.theory.smooth import rounded_mass
from tests.randomness.helpers import STAND_INS, NoBits, formal_exponential
from tests.randomness.test_samplers import exactly_equal_mass

CASES = [("1/2", 0), ("1", 0), ("1", 1), ("2", 0), ("2", 2), ("1/4", 3)]


def _equal_mass(scale: str, digits: int, root: Fraction, most: int = 16) -> Fraction:
    """Return the mass on which the shipped law is the spec's as fractions; elsewhere brackets
    hold."""
    s = Fraction(scale)
    e = formal_exponential(root, 8 * s.numerator)
    law = enumerate_law(
        lambda bits: int(rounded_laplace(bits, s, 1, digits=digits)[0]),
        max_choices=most,
        exponential=e,
    )
    return exactly_equal_mass(law, lambda z: Fraction(rounded_mass(z, s, e)))


@pytest.mark.parametrize("root", STAND_INS[:2], ids=str)
@pytest.mark.parametrize(("scale", "digits"), CASES)
def test_the_law_is_right_fraction_for_fraction(scale: str, digits: int, root: Fraction) -> None:
    assert _equal_mass(scale, digits, root) >= Fraction(9, 10)


def test_a_fair_digit_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def fair(bits: Bits, place: int, size: int) -> IntArray:
        return bits.below(2, size)

    monkeypatch.setattr(rounded, "_digit", fair)
    with pytest.raises(AssertionError, match="mass of"):
        _equal_mass("1", 0, STAND_INS[0])


def test_a_first_number_of_zero_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """|Z| is one less than a discrete Laplace number other than 0; not the number itself."""
    monkeypatch.setattr(rounded, "discrete_laplace", lambda *given: 2 * discrete_laplace(*given))
    with pytest.raises(AssertionError, match="mass of"):
        _equal_mass("1", 0, STAND_INS[0])


@pytest.mark.parametrize("scale", ["1/3", "2", "5/7", "30"])
def test_atoms_are_the_law(scale: str) -> None:
    s = Fraction(scale)
    e = formal_exponential(Fraction(2, 5), 2 * s.numerator)
    atoms = RoundedLaplace(s).atoms(e)
    assert all(mass == rounded_mass(z, s, e) for z, mass in atoms)
    assert len({z for z, _ in atoms}) == len(atoms)
    assert 1 >= sum(mass for _, mass in atoms) >= Fraction(999, 1000)


SCALES = [Fraction(s) for s in ("1/9", "1", "7/3", "1000003/1024", f"{2**41}/3", str(2**60))]


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("digits", [3, 40])
def test_draws_follow_the_law(scale: Fraction, digits: int) -> None:
    """Twenty cells of about equal mass; chi-square beyond its 1e-9 quantile is a false alarm."""
    ends = sorted({round(float(scale) * float(stats.laplace.ppf(k / 20))) for k in range(1, 20)})

    def up_to(z: int) -> float:
        far = real_exponential((abs(z) + (Fraction(1, 2) if z >= 0 else Fraction(-1, 2))) / scale)
        return float(1 - far / 2 if z >= 0 else far / 2)

    with mp.workdps(30):
        masses = np.diff([0.0, *(up_to(z) for z in ends), 1.0])
    drawn = rounded_laplace(SeededBits(41, digits), scale, 20_000, digits=digits)
    counts = np.bincount(np.searchsorted(ends, drawn.astype(np.float64)), minlength=len(masses))

    def far_off(observed: np.ndarray) -> bool:
        expected = observed.sum() * masses
        kept = expected > 5
        square = ((observed - expected)[kept] ** 2 / expected[kept]).sum()
        return bool(square > stats.chi2.isf(1e-9, kept.sum()))

    assert not far_off(counts)
    if scale >= 1:  # noise that is a tenth too long is seen
        longer = rounded_laplace(SeededBits(42, digits), scale * Fraction(11, 10), 20_000)
        assert far_off(
            np.bincount(np.searchsorted(ends, longer.astype(np.float64)), minlength=len(masses))
        )


_FEWER = [Fraction(s) for s in ("9686940933/16384", f"{2**41}/3", f"{2**50 + 1}/4096", str(2**59))]


def _ends(scale: Fraction, size: int = 400) -> np.ndarray:
    """Return digits of |Z|: of likely values, and of those just around where a number begins."""
    rng = np.random.default_rng(5)
    known = rng.integers(0, 45 << 40, size)
    begin = [((2 * int(scale * z / 2**40) + 1) << 40) // (2 * scale) for z in known.tolist()]
    near = [max(0, int(z) + d) for z in begin for d in (-2, -1, 0, 1)]
    return np.concatenate([known, np.array(near, np.int64)])


def _equal_quotients(scale: Fraction) -> None:
    """Assert that numbers and open draws are those of Python's integers."""
    known = _ends(scale)
    slope, whole = 2 * scale.numerator, scale.denominator << 41
    first = [(slope * z + whole // 2) // whole for z in known.tolist()]
    last = [-(-(slope * (z + 1) + whole // 2) // whole) - 1 for z in known.tolist()]
    values, open_ = rounded._rounded(known, 40, scale)
    assert values.tolist() == first
    assert open_.tolist() == [i for i, (a, b) in enumerate(zip(first, last, strict=True)) if a < b]


@pytest.mark.parametrize("scale", _FEWER, ids=str)
def test_quotients_of_fewer_digits_are_raised_to_the_right_ones(scale: Fraction) -> None:
    _equal_quotients(scale)


def test_quotients_that_are_not_raised_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def left_alone(first: IntArray, *given: IntArray) -> tuple[IntArray, IntArray]:
        return first, np.zeros(0, np.intp)

    monkeypatch.setattr(rounded, "_raised", left_alone)
    with pytest.raises(AssertionError):
        _equal_quotients(_FEWER[0])


def test_a_scale_is_positive() -> None:
    with pytest.raises(ValueError, match="not positive"):
        rounded_laplace(NoBits(), Fraction(0), 1)
