"""Moments of the statistic (-x x^T / 2, x) of normal vectors, the matrix packed.

The vectors are in balls and shells, or clipped to balls. The moments are computed about the
ball's center, in units of its radius, along the eigenvectors of the covariance, by the paths of
``balls``; and moved from there. Source: OURS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from dpverify.families.balls import Law, Limited
from dpverify.families.sets import Ball, Shell, Survival, pack, places
from dpverify.families.several_parameters import Clipped, Truncated
from dpverify.privacy.numbers import Floats

Which = Literal["mean", "precision", "both"]
"""Part of the statistic: x, or -x x^T / 2, or both of them."""


@dataclass(frozen=True)
class Frame:
    """A law about a ball's center along the covariance's eigenvectors, in units of the ball's
    radius.
    """

    center: Floats
    vectors: Floats
    law: Law

    @classmethod
    def of(cls, mean: Floats, covariance: Floats, center: Floats, radius: float) -> Frame:
        """Turn a law into the frame of a ball."""
        values, vectors = np.linalg.eigh(covariance)
        if len(center) != len(mean):
            raise ValueError(f"a center of {len(center)} numbers; records have {len(mean)}.")
        law = Law(vectors.T @ (mean - center) / radius, values / radius**2)
        return cls(center, vectors * radius, law)

    def moments(self, which: Which, mass: float, first: Floats, second: Floats) -> Floats:
        """Turn E f, E y f and E y y^T f' into those of the statistic."""
        x = self.vectors @ first
        if which == "mean":
            return np.asarray(x + mass * self.center)
        cross = np.outer(self.center, x)
        squares = self.vectors @ second @ self.vectors.T + cross + cross.T
        squares += mass * np.outer(self.center, self.center)
        if which == "precision":
            return -pack(squares) / 2
        return np.concatenate([-pack(squares) / 2, x + mass * self.center])

    def move(self, which: Which) -> Floats:
        """Return the matrix from moments of (y y^T, y), or of y, to those of the statistic.

        Constants are left out.
        """
        if which == "mean":
            return self.vectors
        d = len(self.center)
        return from_center(self.vectors, self.center)[
            : None if which == "both" else d * (d + 1) // 2
        ]


@dataclass(frozen=True)
class Inside:
    """Records in a ball, or in an outer and not in an inner one.

    Each ball has its moments, and the sign with which they count.
    """

    frames: list[Frame]
    parts: list[tuple[float, Limited]]

    @classmethod
    def of(cls, mean: Floats, covariance: Floats, survival: Survival) -> Inside:
        """Compute the moments for a law and a set."""
        inner, outer = radii(survival)
        frames = [
            Frame.of(mean, covariance, np.array(survival.center), radius)
            for radius in ((outer, inner) if inner else (outer,))
        ]
        limited = [frame.law.limited("inside") for frame in frames]
        signs = [
            sign * math.exp(one.shift - limited[0].shift)
            for sign, one in zip((1.0, -1.0), limited, strict=False)
        ]
        return cls(frames, list(zip(signs, limited, strict=True)))

    def part(self, which: Which) -> Truncated:
        """Give the moments of the statistic."""
        mass = sum(sign * one.total for sign, one in self.parts)
        if not mass > 0:
            raise ValueError("the set holds none of the law that a float can tell.")
        mean = np.sum(
            [
                sign * frame.moments(which, one.total, one.first, one.second)
                for frame, (sign, one) in zip(self.frames, self.parts, strict=True)
            ],
            axis=0,
        )
        log = min(0.0, self.parts[0][1].shift + math.log(mass))
        return Truncated(log, mean / mass, partial(self._covariance, which, mass))

    def _covariance(self, which: Which, mass: float) -> Floats:
        """Compute the covariance about the outer ball's center: in its units, to which an inner
        ball's moments are scaled.
        """
        own, first = np.zeros(()), np.zeros(())
        for frame, (sign, one) in zip(self.frames, self.parts, strict=True):
            unit = _unit(which, self.frames[0], frame)
            own = own + sign * np.outer(unit, unit) * _joint(which, one, one)
            first = first + sign * unit * _single(which, one, one)
        first = first / mass
        move = self.frames[0].move(which)
        return np.asarray(move @ (own / mass - np.outer(first, first)) @ move.T)


@dataclass(frozen=True)
class Nearest:
    """Records moved to the nearest place of a ball: y min(1, 1 / |y|)."""

    frame: Frame
    root: Limited
    ratio: Limited

    @classmethod
    def of(cls, mean: Floats, covariance: Floats, survival: Survival) -> Nearest:
        """Compute the moments for a law and a ball. Raises ValueError for a set that is not
        convex.
        """
        if not isinstance(survival, Ball):
            raise ValueError(
                f"{survival} is not convex: records have no nearest place in it. Give a Ball, or "
                "count records inside alone."
            )
        frame = Frame.of(mean, covariance, np.array(survival.center), survival.radius)
        return cls(frame, frame.law.limited("root"), frame.law.limited("ratio"))

    def part(self, which: Which) -> Clipped:
        """Give the moments of the statistic."""
        second = math.exp(self.ratio.shift) * self.ratio.second
        first = math.exp(self.root.shift) * self.root.first
        return Clipped(
            self.frame.moments(which, 1.0, first, second), partial(self._jacobian, which)
        )

    def _jacobian(self, which: Which) -> Floats:
        law, d = self.frame.law, len(self.frame.center)
        whole, size = law.means, np.full(d, math.exp(self.root.shift))
        if which != "mean":
            squares = pack(np.outer(law.means, law.means) + np.diag(law.variances))
            whole = np.concatenate([squares, whole])
            size = np.concatenate([np.full(len(squares), math.exp(self.ratio.shift)), size])
        own = _joint(which, self.ratio, self.root)
        own = own - np.outer(_single(which, self.ratio, self.root), whole)
        move = self.frame.move(which)
        return np.asarray(move @ (size[:, np.newaxis] * own) @ move.T)


def _single(which: Which, pairs: Limited, alone: Limited) -> Floats:
    """Return E (y y^T f, y g), packed, or E y g."""
    if which == "mean":
        return alone.first
    return np.concatenate([pack(pairs.second), alone.first])


def _joint(which: Which, pairs: Limited, alone: Limited) -> Floats:
    """Return E (y y^T f, y g)(y y^T, y)^T, packed, or E y y^T g."""
    if which == "mean":
        return alone.second
    rows, columns, factors = places(len(alone.a))
    squares = pairs.fourth[rows, columns][:, rows, columns] * np.outer(factors, factors)
    right = pairs.third[rows, columns] * factors[:, np.newaxis]
    below = right if alone is pairs else alone.third[rows, columns] * factors[:, np.newaxis]
    return np.block([[squares, right], [below.T, alone.second]])


def from_center(vectors: Floats, center: Floats) -> Floats:
    """Return the matrix from packed (y y^T, y) to (-x x^T / 2, x) for x = center + vectors y.

    Constants are left out.
    """
    d = len(center)
    rows, columns, factors = places(d)
    first, second = vectors[:, rows].T, vectors[:, columns].T
    outer = first[:, :, np.newaxis] * second[:, np.newaxis]
    outer = (outer + outer.swapaxes(1, 2)) * (factors / 2)[:, np.newaxis, np.newaxis]
    cross = vectors.T[:, :, np.newaxis] * center
    squares = -pack(np.concatenate([outer, cross + cross.swapaxes(1, 2)])).T / 2
    alone = np.concatenate([np.zeros((d, len(rows))), vectors], axis=1)
    return np.concatenate([squares, alone])


def _unit(which: Which, outer: Frame, inner: Frame) -> Floats:
    """Return the factors of moments of (y y^T, y), or of y, from the inner ball's units to the
    outer's.
    """
    d = len(outer.center)
    ratio = float(np.linalg.norm(inner.vectors) / np.linalg.norm(outer.vectors))
    alone = np.full(d, ratio)
    if which == "mean":
        return alone
    return np.concatenate([np.full(d * (d + 1) // 2, ratio**2), alone])


def radii(survival: Survival) -> tuple[float, float]:
    """Give the inner radius of a set, 0 for a ball, and the outer one."""
    if isinstance(survival, Shell):
        return survival.inner, survival.outer
    return 0.0, survival.radius


def definite(matrix: Floats) -> bool:
    """Return whether a matrix is symmetric and positive definite, as far as floats tell."""
    if not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T, rtol=1e-9, atol=0):
        return False
    values = np.linalg.eigvalsh(matrix)
    return bool(values[0] > 1e-15 * values[-1])


def finite(vector: Floats) -> Floats:
    """Copy a mean of the statistic. Raises ValueError where it is not finite."""
    own = np.array(vector, np.float64)
    if not np.isfinite(own).all():
        raise ValueError("a mean of the statistic that is not finite; give finite numbers.")
    return own
