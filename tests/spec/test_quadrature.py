"""Gauss's rule: polynomials exactly, analytic functions to its digits, and kinks only between
places."""

from __future__ import annotations

import mpmath as mp

from spec.theory.quadrature import DIGITS, integral, nodes

TINY = mp.mpf(10) ** (3 - DIGITS)


def test_polynomials_and_normal_laws() -> None:
    with mp.workdps(DIGITS):
        assert abs(integral(lambda x: x**46, [-1, 1]) - mp.mpf(2) / 47) < TINY
    assert abs(integral(mp.npdf, mp.linspace(-12, 12, 9)) - 1) < TINY
    assert abs(integral(lambda x: x**2 * mp.npdf(x), mp.linspace(-12, 12, 9)) - 1) < TINY


def test_weights_add_up_to_lengths() -> None:
    rule = nodes([0, 1, 5])
    assert len(rule) == 2 * 24
    assert abs(mp.fsum(weight for _, weight in rule) - 5) < TINY
    assert all(0 < x < 5 for x, _ in rule)


def test_a_kink_belongs_between_pieces() -> None:
    with mp.workdps(DIGITS):
        kink, exact = mp.mpf(1) / 3, mp.mpf(5) / 18
        bent = [integral(lambda x: abs(x - kink), ends) for ends in ([0, 1], [0, kink, 1])]
        assert abs(bent[1] - exact) < TINY < abs(bent[0] - exact)
