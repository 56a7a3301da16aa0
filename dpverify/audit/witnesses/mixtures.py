"""Scores of mixtures: parts of an output that move together, all or not at all, with some
probability.

A record that is sampled by a coin, step after step, leaves parts of a transcript as if it were not
there. Where part k moves by m_k with probability w and the noise is Gaussian, the logarithm of the
density with the record over that without is the sum of ln(1 - w + w exp(<m_k, x_k> - |m_k|^2 /
2)), for x_k what is new in part k after those before, in units of the noise. The mean difference
is w m_k, so few values of w show which side has the record, how long the parts are, and whether
all m_k are the same. From there w and m_k are fitted by likelihood: a mean difference says little
of moves that are large and rare, which outputs far out tell apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, product
from typing import Any

import numpy as np
import scipy

from dpverify.audit.outputs.draws import Draws
from dpverify.audit.witnesses.bent_predictions import BentPredictions
from dpverify.audit.witnesses.directions import Scaling
from dpverify.audit.witnesses.features import by_rows
from dpverify.audit.witnesses.noise_laws import Gaussian, NoiseLaw, shaped
from dpverify.privacy.numbers import Floats

_SHARES = 0.5, 0.3, 0.2, 0.1, 0.05, 0.02
_MOST_PARTS = 64
_MOST_SHARES = 12  # parts whose shares are fitted one by one
_COMPARED = 8000  # draws per side by which ways are compared
_FITTED, _STEPS = 2, 25  # ways of the largest likelihoods that are fitted, and steps of a fit
_DONE = 1e-7  # relative gain of a step, below which a fit ends
_FARTHEST = 600.0  # exponent, below that of the largest float
_LONGEST, _LOGIT = 30.0, 7.0  # largest entry of a move, and logarithm of the odds of a share
_LEAST_VARIANCE, _RIDGE = 1e-12, 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class _Noise:
    """Noise of scaled numbers, as the side without the record shows it.

    center: its mean. whitening: makes each number what is new in it after those before, with
    variance 1.
    moves: how much larger the mean of that is on the side with the record.
    law: that of what is new.
    bends: what is not new either, since parts follow those before by it, if that is plain.
    """

    center: Floats
    whitening: Floats
    moves: Floats
    law: NoiseLaw = field(default_factory=Gaussian)
    bends: BentPredictions | None = None

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

    def shaped(self, still: Floats) -> list[_Noise]:
        """Return the same with the law that rows without the record show, if it is not Gaussian."""
        law = shaped(self.new(still, 1)[:, :, 0])
        return [] if law is None else [replace(self, law=law)]

    def bent(self, moved: Floats, still: Floats, length: int) -> list[_Noise]:
        """Return the same without what parts of this length follow of those before by bends, if
        rows without the record show that plainly.
        """
        starts = _starts(len(self.moves), length)
        blocks = [self.whitening[k : k + length, k : k + length] for k in starts]
        rows, new = still.reshape(len(still), -1, length), self.new(still, length)
        bends = BentPredictions.of(rows, new, np.linalg.inv(np.stack(blocks)))
        if bends is None:
            return []
        made = replace(self, bends=bends)
        means = [made.new(rows, length).mean(axis=0).ravel() for rows in (moved, still)]
        return [replace(made, moves=means[0] - means[1])]

    def new(self, rows: Floats, length: int) -> Floats:
        """Return what is new in every number, shape (size, parts, length)."""
        new = (rows - self.center) @ self.whitening.T
        new = new.reshape(len(rows), len(self.moves) // length, length)
        return new if self.bends is None else self.bends.left(rows.reshape(new.shape), new)

    def parts(self, rows: Floats, length: int) -> Floats:
        """Return, for every row, the products with ``moves``, part by part; shape (size, parts)."""
        moves = self.moves.reshape(-1, length)
        return np.asarray(np.einsum("nkl,kl->nk", self.new(rows, length), moves))

    def ratio(self, parts: Floats, length: int, shares: Floats) -> Floats:
        """Return the log-ratio of every part, from what ``parts`` gave, by the share of each."""
        squares = np.add.reduceat(self.moves**2, _starts(len(self.moves), length))
        moved = np.log(shares) + parts / shares - squares / (2 * shares**2)
        return np.asarray(np.logaddexp(np.log1p(-shares), moved))


@dataclass(frozen=True, slots=True, eq=False)
class _Way:
    """A way to tell the sides apart.

    sign: which side has the record. alike: whether all parts move alike. shares: for every part,
    the probability that it moves.
    """

    sign: int
    noise: _Noise
    length: int
    alike: bool
    shares: Floats

    @property
    def numbers(self) -> int:
        """Number of numbers that are fitted."""
        parts = len(self.shares)
        return self.length + 1 if self.alike else parts * self.length + self._own_shares

    @property
    def _own_shares(self) -> int:
        parts = len(self.shares)
        return 1 if self.alike or parts > _MOST_SHARES else parts

    @property
    def is_shaped(self) -> bool:
        """Whether noise has the law that outputs show, and is not Gaussian."""
        return not isinstance(self.noise.law, Gaussian)

    def ratio(self, rows: Floats) -> Floats:
        """Return the log-ratio of scaled rows."""
        return np.asarray(self.sign * self._told(rows)(self.shares).sum(axis=1))

    def _told(self, rows: Floats) -> Callable[[Floats], Floats]:
        """Return the log-ratio of every part of scaled rows, as a function of the shares."""
        if not self.is_shaped:  # then all shares have the same products with the moves
            parts = self.noise.parts(rows, self.length)
            return lambda shares: self.noise.ratio(parts, self.length, shares)
        along = self.noise.law.along(self.noise.new(rows, self.length))
        means = self.noise.moves.reshape(-1, self.length)
        return lambda shares: np.logaddexp(
            np.log1p(-shares), np.log(shares) + along(means / shares[:, None])[0]
        )

    def best_share(self, own: Floats, other: Floats) -> tuple[float, _Way]:
        """Return the mean logarithm of the likelihood of the sides with the best share of all
        parts, and the way with that.
        """
        told = [self._told(side) for side in (own, other)]

        def likely(way: _Way) -> float:
            ours, theirs = (self.sign * of(way.shares).sum(axis=1) for of in told)
            logs = scipy.special.log_expit(ours), scipy.special.log_expit(-theirs)
            return float(logs[0].mean() + logs[1].mean())

        ways = [replace(self, shares=np.full(len(self.shares), share)) for share in _SHARES]
        return max(((likely(way), way) for way in ways), key=lambda one: one[0])

    def with_own_shares(self, own: Floats, other: Floats) -> _Way:
        """Return the way with the best share of each part alone, if each has its own: a rare large
        move and a frequent small one are far apart, and no fit goes from one to the other.
        """
        if self._own_shares == 1:
            return self
        told, likely = [self._told(side) for side in (own, other)[:: self.sign]], []
        for share in _SHARES:
            ours, theirs = (of(np.full(len(self.shares), share)) for of in told)
            logs = scipy.special.log_expit(ours), scipy.special.log_expit(-theirs)
            likely.append(logs[0].mean(axis=0) + logs[1].mean(axis=0))
        return replace(self, shares=np.array(_SHARES)[np.argmax(likely, axis=0)])

    def fitted(self, own: Floats, other: Floats) -> tuple[float, _Way]:
        """Return the largest mean logarithm of the likelihood near this way, and that way."""
        sides = (own, other)[:: self.sign]
        along = self.noise.law.along(self.noise.new(np.concatenate(sides), self.length))
        signs = np.repeat([1.0, -1.0], [len(side) for side in sides])
        weights = np.repeat([1 / len(side) for side in sides], [len(side) for side in sides])

        def loss(numbers: Floats) -> tuple[float, Floats]:
            moves, logits = self._of(numbers)
            kept = scipy.special.expit(logits)
            logs, by_move = along(moves)
            moved = kept * np.exp(np.minimum(logs, _FARTHEST))
            ratios = moved + (1 - kept)
            told = signs * np.log(ratios).sum(axis=1)
            slopes = weights * signs * scipy.special.expit(-told)
            moved *= slopes[:, None] / ratios  # by how likely each part was kept
            by_logit = moved.sum(axis=0) - slopes.sum() * kept
            pull = np.einsum("nk,nkl->kl", moved, by_move)
            gradient = self._numbers_of(pull, by_logit, np.sum)
            return -float((weights * scipy.special.log_expit(told)).sum()), -gradient

        start = self.noise.moves.reshape(-1, self.length) / self.shares[:, None]
        start = self._numbers_of(start, scipy.special.logit(self.shares), np.mean)
        ends = np.full(len(start), _LONGEST)
        ends[len(start) - self._own_shares :] = _LOGIT
        best = scipy.optimize.minimize(
            loss,
            np.clip(start, -ends, ends),
            jac=True,
            method="L-BFGS-B",
            bounds=scipy.optimize.Bounds(-ends, ends),
            options={"maxiter": _STEPS, "ftol": _DONE},
        )
        moves, logits = self._of(best.x)
        shares = scipy.special.expit(logits)
        noise = replace(self.noise, moves=(moves * shares[:, None]).ravel())
        return -float(best.fun), replace(self, noise=noise, shares=shares)

    def _numbers_of(self, moves: Floats, logits: Floats, tied: Callable[..., Any]) -> Floats:
        """Return the numbers that are fitted. tied: what makes one of those that are the same."""
        if self.alike:
            moves = tied(moves, axis=0)
        if self._own_shares == 1:
            logits = np.atleast_1d(tied(logits))
        return np.concatenate([moves.ravel(), logits])

    def _of(self, numbers: Floats) -> tuple[Floats, Floats]:
        """Return the moves and the logarithms of the odds of all shares, likewise."""
        parts, moves = len(self.shares), numbers[: -self._own_shares]
        rows = np.broadcast_to(moves.reshape(-1, self.length), (parts, self.length))
        return rows, np.broadcast_to(numbers[-self._own_shares :], (parts,))


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """The log-ratio that tells the numbers of two sides apart best, among those of mixtures."""

    scaling: Scaling
    way: _Way

    def __str__(self) -> str:
        shares = " or ".join(sorted({f"{share:.2g}" for share in self.way.shares}))
        follow = "" if self.way.noise.bends is None else " that follow those before"
        parts = f"parts of {self.way.length} numbers{follow}"
        return f"log-ratio of moves with probability {shares} in {parts}"

    def score(self, draws: Draws) -> Floats:
        """Return the log-ratio of every draw."""
        rows = draws.columns(len(self.scaling.center))
        return by_rows(rows, lambda some: self.way.ratio(self.scaling.apply(some)))

    def refitted(self, own: Floats, other: Floats) -> Mixture:
        """Return the same way to tell the sides apart, fitted to other rows of both sides, as
        they are.
        """
        sides = self.scaling.apply(own), self.scaling.apply(other)
        way, ordered = self.way, sides[:: self.way.sign]
        noise = _Noise.of(*ordered)
        if way.noise.bends is not None:
            noise = next(iter(noise.bent(ordered[0], ordered[1], way.length)), noise)
        if way.alike:
            noise = noise.alike(way.length)
        if way.is_shaped:
            noise = next(iter(noise.shaped(ordered[1])), noise)
        return Mixture(self.scaling, replace(self.way, noise=noise).fitted(*sides)[1])


def mixture(scaling: Scaling, own: Floats, other: Floats) -> Mixture:
    """Return the mixture that tells the scaled numbers of two sides apart best.

    own, other: shape (size, width) each. Either side may be the one with the record. Ways of more
    fitted numbers are taken where they are likelier by more than these gain by chance (Akaike
    1974).
    """
    each = 1 / min(len(own), len(other))
    few = own[:_COMPARED], other[:_COMPARED]
    tried = [way.best_share(*few) for way in _ways(own, other)]
    tried.sort(key=lambda one: one[1].numbers * each - one[0])
    fits = [way.with_own_shares(own, other).fitted(own, other) for _, way in tried[:_FITTED]]
    return Mixture(scaling, max(fits, key=lambda one: one[0] - one[1].numbers * each)[1])


def _ways(own: Floats, other: Floats) -> Iterator[_Way]:
    """Yield all signs, lengths and laws of noise, with moves of every part or alike in all."""
    width = own.shape[1]
    for sign in (1, -1):
        sides = (own, other)[::sign]
        gaussian = _Noise.of(*sides)
        plain = gaussian, *gaussian.shaped(sides[1])
        bent = ((one, k) for k in _lengths(width) for one in gaussian.bent(sides[0], sides[1], k))
        for noise, length in chain(product(plain, _lengths(width)), bent):
            shares = np.full(width // length, _SHARES[0])
            yield _Way(sign, noise, length, False, shares)
            if length < width:
                yield _Way(sign, noise.alike(length), length, True, shares)


def _lengths(width: int) -> list[int]:
    """Return the lengths of equal parts, the whole among them."""
    return [k for k in range(1, width + 1) if width % k == 0 and width // k <= _MOST_PARTS]


def _starts(width: int, length: int) -> list[int]:
    return list(range(0, width, length))


__all__ = ["Mixture", "mixture"]
