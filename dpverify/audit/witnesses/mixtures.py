"""Scores of mixtures: parts of an output that move together, all or not at all, with some
probability.

A record that is sampled by a coin, step after step, leaves parts of a transcript as if it were not
there. Where part k moves by m_k with probability w and the noise is Gaussian, the logarithm of the
density with the record over that without is the sum of ln(1 - w + w exp(<m_k, x_k> - |m_k|^2 /
2)), for x_k what is new in part k after those before, in units of the noise. The mean difference
is w m_k, so w, of all parts or of each, and the length of the parts are all that is left to try;
and whether all m_k are the same, so that their mean is better known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy

from dpverify.audit.witnesses.directions import Scaling
from dpverify.audit.witnesses.features import Score, by_rows
from dpverify.privacy.numbers import Floats

_SHARES = 0.5, 0.3, 0.2, 0.1, 0.05, 0.02
_MOST_PARTS = 64
_MOST_SHARES = 12  # parts whose shares are looked at one by one
_EVIDENT = 4.0  # gain in the logarithm of the likelihood that a share of its own needs
_COMPARED = 8000  # draws per side by which shares and lengths are compared
_LEAST_VARIANCE, _RIDGE = 1e-12, 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class _Noise:
    """Noise of scaled numbers, as the side without the record shows it.

    center: its mean. whitening: makes each number what is new in it after those before, with
    variance 1.
    moves: how much larger the mean of that is on the side with the record.
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

    def alike(self, length: int) -> _Noise:
        """Return the same for parts that all move alike: by the mean of their moves."""
        mean = self.moves.reshape(-1, length).mean(axis=0)
        return replace(self, moves=np.tile(mean, len(self.moves) // length))

    def parts(self, rows: Floats, length: int) -> Floats:
        """Return, for every row, the products with ``moves``, part by part; shape (size, parts)."""
        new = (rows - self.center) @ self.whitening.T
        return np.add.reduceat(new * self.moves, _starts(len(self.moves), length), axis=1)

    def ratio(self, parts: Floats, length: int, shares: Floats) -> Floats:
        """Return the log-ratio of every part, from what ``parts`` gave, by the share of each."""
        squares = np.add.reduceat(self.moves**2, _starts(len(self.moves), length))
        moved = np.log(shares) + parts / shares - squares / (2 * shares**2)
        return np.asarray(np.logaddexp(np.log1p(-shares), moved))


@dataclass(frozen=True, slots=True, eq=False)
class _Way:
    """A way to tell the sides apart, and both sides' draws as its parts see them.

    sign: which side has the record. shares: for every part, the probability that it moves.
    """

    sign: int
    noise: _Noise
    length: int
    shares: Floats
    parts: tuple[Floats, Floats]

    def likely(self) -> float:
        """Return the mean logarithm of the likelihood of the sides."""
        ours, theirs = (
            self.sign * self.noise.ratio(side, self.length, self.shares).sum(axis=1)
            for side in self.parts
        )
        return float(scipy.special.log_expit(ours).mean() + scipy.special.log_expit(-theirs).mean())

    def with_share(self, share: float, part: int | slice) -> _Way:
        """Return the same with another share of one part, or of all of them."""
        shares = self.shares.copy()
        shares[part] = share
        return replace(self, shares=shares)


def mixture(scaling: Scaling, own: Floats, other: Floats) -> tuple[str, Score]:
    """Return the log-ratio that tells the scaled numbers of two sides apart best, with its
    description in words.

    own, other: shape (size, width) each. Either side may be the one with the record. Ways of more
    fitted numbers are taken where they are likelier by more than these gain by chance (Akaike
    1974).
    """
    width, best, each = own.shape[1], -math.inf, 1 / min(len(own), len(other))
    for way, numbers in _ways(own, other):
        for share in _SHARES:
            tried = way.with_share(share, slice(None))
            likely = tried.likely() - numbers * each
            if likely > best:
                best, chosen = likely, tried
    chosen = _refined(chosen, each)

    def ratio(rows: Floats) -> Floats:
        parts = chosen.noise.parts(scaling.apply(rows), chosen.length)
        ratios = chosen.noise.ratio(parts, chosen.length, chosen.shares)
        return np.asarray(chosen.sign * ratios.sum(axis=1))

    shares = " or ".join(f"{share:g}" for share in sorted(set(chosen.shares.tolist())))
    name = f"log-ratio of moves with probability {shares} in parts of {chosen.length} numbers"
    return name, lambda draws: by_rows(draws.columns(width), ratio)


def _ways(own: Floats, other: Floats) -> Iterator[tuple[_Way, int]]:
    """Yield all signs and lengths, with moves of every part or alike in all, and how many
    numbers each way fits.
    """
    width = own.shape[1]
    for sign in (1, -1):
        fitted = _Noise.of(own, other) if sign > 0 else _Noise.of(other, own)
        for length in _lengths(width):
            shares = np.full(width // length, _SHARES[0])
            ways = [(fitted, width)]
            if length < width:
                ways.append((fitted.alike(length), length))
            for noise, numbers in ways:
                ours, theirs = (noise.parts(side[:_COMPARED], length) for side in (own, other))
                yield _Way(sign, noise, length, shares, (ours, theirs)), numbers


def _refined(way: _Way, each: float) -> _Way:
    """Return the way with other shares of single parts, where these are evidently others."""
    if len(way.shares) > _MOST_SHARES:
        return way
    best = way.likely()
    for part in range(len(way.shares)):
        for share in _SHARES:
            tried = way.with_share(share, part)
            likely = tried.likely()
            if likely > best + _EVIDENT * each:
                best, way = likely, tried
    return way


def _lengths(width: int) -> list[int]:
    """Return the lengths of equal parts, the whole among them."""
    return [k for k in range(1, width + 1) if width % k == 0 and width // k <= _MOST_PARTS]


def _starts(width: int, length: int) -> list[int]:
    return list(range(0, width, length))


__all__ = ["mixture"]
