"""Scores of mixtures: parts of an output that move together, all or not at all, with some
probability.

A record that is sampled by a coin, step after step, leaves parts of a transcript as if it were not
there. Where part k moves by m_k with probability w and the noise is Gaussian, the logarithm of the
density with the record over that without is the sum of ln(1 - w + w exp(<m_k, x_k> - |m_k|^2 /
2)), for x_k what is new in part k after those before, in units of the noise. The mean difference
is w m_k, so w and the length of the parts are all that is left to try.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_expit

from dpverify.audit.witnesses.directions import Scaling
from dpverify.audit.witnesses.features import Score, by_rows
from dpverify.privacy.numbers import Floats

_SHARES = 0.5, 0.3, 0.2, 0.1, 0.05, 0.02
_MOST_PARTS = 64
_COMPARED = 8000  # draws a side by which shares and lengths are compared
_LEAST_VARIANCE, _RIDGE = 1e-12, 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class _Noise:
    """What the side without the record shows, of scaled numbers.

    center: its mean. whitening: makes each number what is new in it after those before, with
    variance 1.
    moves: by how much the mean of that is more on the side with the record.
    """

    center: Floats
    whitening: Floats
    moves: Floats

    @classmethod
    def of(cls, moved: Floats, still: Floats) -> _Noise:
        center, (size, width) = still.mean(axis=0), still.shape
        covariance = np.atleast_2d(np.cov(still, rowvar=False, bias=True))
        variances = np.maximum(np.diag(covariance), _LEAST_VARIANCE)
        shrunk = covariance * (1 - min(1.0, width / size))
        np.fill_diagonal(shrunk, variances * (1 + _RIDGE))
        whitening = np.linalg.inv(np.linalg.cholesky(shrunk))
        return cls(center, whitening, whitening @ (moved.mean(axis=0) - center))

    def parts(self, rows: Floats, length: int) -> Floats:
        """For every row the products with ``moves``, part by part; shape (size, parts)."""
        new = (rows - self.center) @ self.whitening.T
        return np.add.reduceat(new * self.moves, _starts(len(self.moves), length), axis=1)

    def ratio(self, parts: Floats, length: int, share: float) -> Floats:
        """The log-ratio, from what ``parts`` gave."""
        squares = np.add.reduceat(self.moves**2, _starts(len(self.moves), length))
        moved = math.log(share) + parts / share - squares / (2 * share**2)
        return np.asarray(np.logaddexp(math.log1p(-share), moved).sum(axis=1))


def mixture(scaling: Scaling, own: Floats, other: Floats) -> tuple[str, Score]:
    """What it is in words, and the log-ratio that tells the scaled numbers of two sides apart best.

    own, other: shape (size, width) each. Either side may be the one with the record.
    """
    width, best = own.shape[1], -math.inf
    for sign in (1, -1):
        noise = _Noise.of(own, other) if sign > 0 else _Noise.of(other, own)
        for length in _lengths(width):
            parts = noise.parts(own[:_COMPARED], length), noise.parts(other[:_COMPARED], length)
            for share in _SHARES:
                ours, theirs = (sign * noise.ratio(part, length, share) for part in parts)
                likely = float(log_expit(ours).mean() + log_expit(-theirs).mean())
                if likely > best:
                    best, chosen = likely, (sign, noise, length, share)
    sign, noise, length, share = chosen

    def ratio(rows: Floats) -> Floats:
        return sign * noise.ratio(noise.parts(scaling.apply(rows), length), length, share)

    name = f"log-ratio of moves with probability {share:g} in parts of {length} numbers"
    return name, lambda draws: by_rows(draws.columns(width), ratio)


def _lengths(width: int) -> list[int]:
    """Of equal parts, the whole among them."""
    return [k for k in range(1, width + 1) if width % k == 0 and width // k <= _MOST_PARTS]


def _starts(width: int, length: int) -> list[int]:
    return list(range(0, width, length))


__all__ = ["mixture"]
