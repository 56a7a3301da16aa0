"""Laws of noise, from outputs that show it alone, and what outputs then say of a move.

Numbers of noise are taken to be independent, centered and scaled. Their law is Gaussian, or, where
they are plainly not, each has the density that draws of it show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpverify.privacy.numbers import Floats

_TAIL = 0.002, 0.005, 0.01, 0.02, 0.035, 0.06
_EDGES = np.array([*_TAIL, *np.linspace(0.1, 0.9, 21), *(1 - tail for tail in reversed(_TAIL))])
"""Shares of the draws below the edges of cells of equal density."""
_EVIDENT = 2.0  # times what as many numbers gain in the logarithm of the likelihood by chance
_FEWEST = 2000  # draws
_LARGEST = 30.0


class NoiseLaw(Protocol):
    """Law of independent numbers of noise, in parts of equal length.

    rows: shape (size, parts, length). moves: shape (parts, length).
    """

    def along(self, rows: Floats, moves: Floats) -> Floats:
        """Return the log-ratio of the density moved by ``moves`` over that at rest, for every part:
        shape (size, parts).
        """

    def pull(self, weights: Floats, rows: Floats, moves: Floats) -> Floats:
        """Return the derivative by every move of the sum of ``along``, weighted by ``weights``,
        shape (size, parts): shape (parts, length).
        """


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Law of standard Gaussian noise."""

    def along(self, rows: Floats, moves: Floats) -> Floats:
        """Return the log-ratio of every part, as ``NoiseLaw`` says."""
        return np.einsum("nkl,kl->nk", rows, moves) - (moves**2).sum(axis=1) / 2

    def pull(self, weights: Floats, rows: Floats, moves: Floats) -> Floats:
        """Return the derivative by every move, as ``NoiseLaw`` says."""
        return np.einsum("nk,nkl->kl", weights, rows) - weights.sum(axis=0)[:, None] * moves


@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """Logarithm of the density of one number: straight between knots, and beyond them.

    slopes: before the first knot, between each two, and after the last.
    """

    knots: Floats
    logs: Floats
    slopes: Floats

    @classmethod
    def of(cls, numbers: Floats) -> Density | None:
        """Estimate it by cells between quantiles, with exponential tails; None where values
        repeat.
        """
        edges = np.quantile(numbers, _EDGES)
        widths = np.diff(edges)
        if not (widths > 0).all():
            return None
        tails = [float(np.mean(side[side > 0])) for side in (edges[0] - numbers, numbers - edges[-1])]
        knots = np.concatenate([edges[:1], edges[:-1] + widths / 2, edges[-1:]])
        shares = np.array([_EDGES[0], *np.diff(_EDGES), 1 - _EDGES[-1]])
        logs = np.log(shares / np.array([tails[0], *widths, tails[1]]))
        inside = np.diff(logs) / np.diff(knots)
        return cls(knots, logs, np.array([1 / tails[0], *inside, -1 / tails[1]]))

    def at(self, numbers: Floats) -> tuple[Floats, Floats]:
        """Return the logarithm at every number, and its slope."""
        places = np.searchsorted(self.knots, numbers)
        before = np.maximum(places - 1, 0)
        slopes = self.slopes[places]
        return self.logs[before] + slopes * (numbers - self.knots[before]), slopes


@dataclass(frozen=True, slots=True, eq=False)
class Shaped:
    """Law of noise whose numbers have these densities, in order."""

    densities: tuple[Density, ...]

    def along(self, rows: Floats, moves: Floats) -> Floats:
        """Return the log-ratio of every part, as ``NoiseLaw`` says."""
        result = np.zeros(rows.shape[:2])
        for at, density in self._places(moves):
            numbers = rows[:, at[0], at[1]]
            result[:, at[0]] += density.at(numbers - moves[at])[0] - density.at(numbers)[0]
        return result

    def pull(self, weights: Floats, rows: Floats, moves: Floats) -> Floats:
        """Return the derivative by every move, as ``NoiseLaw`` says."""
        result = np.zeros(moves.shape)
        for at, density in self._places(moves):
            _, slopes = density.at(rows[:, at[0], at[1]] - moves[at])
            result[at] = -(weights[:, at[0]] @ slopes)
        return result

    def _places(self, moves: Floats) -> list[tuple[tuple[int, int], Density]]:
        return list(zip(np.ndindex(*moves.shape), self.densities, strict=True))


def shaped(still: Floats) -> Shaped | None:
    """Return the law with the densities of these rows' numbers, shape (size, width); None where
    they are not plainly likelier than Gaussian noise, or values repeat.
    """
    if len(still) < _FEWEST:
        return None
    densities, gain = [], 0.0
    for numbers in still.T:
        density = Density.of(numbers)
        if density is None:
            return None
        densities.append(density)
        gain += float(density.at(numbers)[0].mean()) + (np.log(2 * np.pi * numbers.var()) + 1) / 2
    plain = gain * len(still) > _EVIDENT * len(_EDGES) * len(densities)
    return Shaped(tuple(densities)) if plain else None
