"""Odds that rise along a score as far as a pure claim lets them, and no further.

Under epsilon-DP no output is more than e^epsilon times as likely on one side as on the other. Where
a mechanism is as private as claimed, and no more, the odds of many outputs are at that bound: those
of Laplace noise are flat from a kink on. A line that is fitted to such odds rises on beyond it, and
says that rare events tell more than common ones.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from dpverify.privacy.numbers import Floats

_STEPS, _HALVES, _RIDGE, _DONE = 25, 12, 1e-6, 1e-6


def held_odds(
    line: tuple[Floats, Floats],
    hits: Floats,
    both: Floats,
    apart: NDArray[np.intp],
    most: float,
    even: float,
) -> tuple[Floats, Floats, float]:
    """Fit even + most tanh(line / most) to the logarithm of the odds at every level of a score.

    line: the basis, shape (levels, numbers), and the weights of a line, from which the fit begins;
    its first number is a constant. hits, both: draws of the own side, and of both, at every level.
    apart: levels whose odds are their own. most: epsilon. even: what the logarithm is where a draw
    is as likely on either side.

    Returns the logarithms, their standard errors, and the logarithm of the likelihood.
    """
    basis, weights = line[0], line[1].copy()
    weights[0] -= even

    def at(weights: Floats) -> tuple[Floats, Floats, Floats, float]:
        """Return the line, the logarithms, by how much they rise with the line, the likelihood."""
        straight = basis @ weights
        bent = np.tanh(_divided(straight, most))
        odds, rises = most * bent, 1 - bent**2
        odds[apart], rises[apart] = straight[apart], 1.0
        shares = scipy.special.expit(odds + even)
        likely = scipy.special.xlogy(hits, shares) + scipy.special.xlogy(both - hits, 1 - shares)
        return straight, odds + even, rises, float(likely.sum())

    def curvature(odds: Floats, rises: Floats) -> tuple[Floats, Floats]:
        slopes, shares = basis * rises[:, np.newaxis], scipy.special.expit(odds)
        weighted = slopes * (both * shares * (1 - shares))[:, np.newaxis]
        return slopes, weighted.T @ slopes + _RIDGE * np.eye(len(weights))

    straight, odds, rises, likely = at(weights)
    for _ in range(_STEPS):
        slopes, curved = curvature(odds, rises)
        step = np.linalg.solve(curved, slopes.T @ (hits - both * scipy.special.expit(odds)))
        tried = (weights + step / 2**k for k in range(_HALVES))
        better = next((one for one in tried if at(one)[3] > likely + _DONE), None)
        if better is None:
            break
        weights = better
        straight, odds, rises, likely = at(weights)
    spread = np.linalg.solve(curvature(odds, rises)[1], basis.T).T
    errors = np.sqrt(np.einsum("ij,ij->i", basis, spread))
    low = even + most * np.tanh(_divided(straight - errors, most))
    low[apart] = odds[apart] - errors[apart]
    return odds, odds - low, likely


def _divided(line: Floats, most: float) -> Floats:
    with np.errstate(over="ignore"):  # of a tiny epsilon
        return line / most


__all__ = ["held_odds"]
