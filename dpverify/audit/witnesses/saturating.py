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

_STEPS, _HALVINGS = 25, 12  # at most: steps of the fit, and how often one is halved
_RIDGE, _DONE = 1e-6, 1e-6  # added to the curvature; a gain in log-likelihood that is none


def held_odds(
    basis: Floats,
    line: Floats,
    hits: Floats,
    both: Floats,
    apart: NDArray[np.intp],
    most: float,
    even: float,
) -> tuple[Floats, float]:
    """Fit even + most tanh(line / most) to the logarithm of the odds at every level of a score.

    basis: of a line, shape (levels, numbers), the first of which is a constant. line: the weights
    from which the fit begins. hits, both: draws of the own side, and of both, at every level.
    apart: levels whose odds are their own, and are not held. most: epsilon. even: what the
    logarithm is where a draw is as likely on either side.

    Returns the logarithms, and that of the likelihood.
    """

    def at(weights: Floats) -> tuple[Floats, Floats, float]:
        """Return the logarithms, how fast they rise with the line, and the likelihood."""
        straight = basis @ weights
        with np.errstate(over="ignore"):  # of a tiny epsilon
            bent = np.tanh(straight / most)
        odds, rises = most * bent, 1 - bent**2
        odds[apart], rises[apart] = straight[apart], 1.0
        shares = scipy.special.expit(odds + even)
        likely = scipy.special.xlogy(hits, shares) + scipy.special.xlogy(both - hits, 1 - shares)
        return odds + even, rises, float(likely.sum())

    weights = line - even * (np.arange(len(line)) == 0)
    odds, rises, likely = at(weights)
    for _ in range(_STEPS):
        slopes, shares = basis * rises[:, np.newaxis], scipy.special.expit(odds)
        curved = (slopes * (both * shares * (1 - shares))[:, np.newaxis]).T @ slopes
        curved += _RIDGE * np.eye(len(weights))
        step = np.linalg.solve(curved, slopes.T @ (hits - both * shares))
        tried = (weights + step / 2**k for k in range(_HALVINGS))
        better = next((one for one in tried if at(one)[2] > likely + _DONE), None)
        if better is None:
            break
        weights = better
        odds, rises, likely = at(weights)
    return odds, likely


__all__ = ["held_odds"]
