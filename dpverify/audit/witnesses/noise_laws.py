"""Laws of noise, from outputs that show it alone, and what outputs then say of a move.

Numbers of noise are taken to be independent, centered and scaled. Their law is Gaussian, or, where
they are plainly not, each has the density that draws of it show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpverify.privacy.numbers import Floats

_TAIL = 0.002, 0.005, 0.01, 0.02, 0.035, 0.06
_EDGES = np.array([*_TAIL, *np.linspace(0.1, 0.9, 21), *(1 - tail for tail in reversed(_TAIL))])
"""Shares of the draws below the edges of cells of equal density."""
_EVIDENT = 2.0  # times the number of cells that the logarithm of the likelihood must gain
_FEWEST = 2000  # draws
_SMALLEST = 1e-290  # width of a cell
_CELLS = 2048  # of a table, so that looking a number up takes no search

Along = Callable[[Floats], tuple[Floats, Floats]]
"""Function of moves, shape (parts, length): for every row and part the log-ratio of the density
moved by them over that at rest, shape (size, parts), and its derivative by every move, shape
(size, parts, length).
"""


class NoiseLaw(Protocol):
    """Law of independent numbers of noise."""

    def along(self, rows: Floats) -> Along:
        """Return what these rows, shape (size, parts, length), say of moves."""


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Law of standard Gaussian noise."""

    def along(self, rows: Floats) -> Along:
        """Return what these rows, shape (size, parts, length), say of moves."""
        return lambda moves: (
            np.einsum("nkl,kl->nk", rows, moves) - (moves**2).sum(axis=1) / 2,
            rows - moves,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """Logarithm of the density of one number: a line in each of many equal cells from ``start``
    on, and beyond the first and the last.

    intercepts, slopes: of these lines.
    """

    start: float
    step: float
    intercepts: Floats
    slopes: Floats

    @classmethod
    def of(cls, numbers: Floats) -> Density | None:
        """Estimate it by cells between quantiles, straight between their middles, with exponential
        tails; None where values repeat, or are so small that densities are no floats.
        """
        edges = np.quantile(numbers, _EDGES)
        widths = np.diff(edges)
        beyond = [side[side > 0] for side in (edges[0] - numbers, numbers - edges[-1])]
        if not ((widths > _SMALLEST).all() and all(map(len, beyond))):
            return None
        tails = [max(float(side.mean()), _SMALLEST) for side in beyond]
        knots = np.concatenate([edges[:1], edges[:-1] + widths / 2, edges[-1:]])
        shares = np.array([_EDGES[0], *np.diff(_EDGES), 1 - _EDGES[-1]])
        logs = np.log(shares / np.array([tails[0], *widths, tails[1]]))
        nodes = np.linspace(edges[0], edges[-1], _CELLS + 1)
        heights, step = np.interp(nodes, knots, logs), float(nodes[1] - nodes[0])
        slopes = np.array([1 / tails[0], *np.diff(heights) / step, -1 / tails[1]])
        begins = np.maximum(np.arange(-1, _CELLS + 1), 0)
        return cls(float(nodes[0]), step, heights[begins] - slopes * nodes[begins], slopes)

    def at(self, numbers: Floats) -> tuple[Floats, Floats]:
        """Return the logarithm at every number, and its slope."""
        places = np.clip((numbers - self.start) / self.step + 1, 0, _CELLS + 1).astype(np.intp)
        slopes = self.slopes[places]
        return self.intercepts[places] + slopes * numbers, slopes


@dataclass(frozen=True, slots=True, eq=False)
class Shaped:
    """Law of noise whose numbers have these densities, in order."""

    densities: tuple[Density, ...]

    def along(self, rows: Floats) -> Along:
        """Return what these rows, shape (size, parts, length), say of moves."""
        columns = np.ascontiguousarray(rows.reshape(len(rows), len(self.densities)).T)
        rest = [one.at(column)[0] for one, column in zip(self.densities, columns, strict=True)]

        def of(moves: Floats) -> tuple[Floats, Floats]:
            logs, slopes = np.empty_like(columns), np.empty_like(columns)
            for j, (one, move) in enumerate(zip(self.densities, moves.ravel(), strict=True)):
                logs[j], slopes[j] = one.at(columns[j] - move)
                logs[j] -= rest[j]
            logs, slopes = (one.reshape(*moves.shape, len(rows)) for one in (logs, slopes))
            return logs.sum(axis=1).T, -slopes.transpose(2, 0, 1)

        return of


def shaped(still: Floats) -> Shaped | None:
    """Return the law with the densities of these rows' numbers, shape (size, width); None where
    they are not plainly likelier than Gaussian noise, or values repeat.
    """
    if len(still) < _FEWEST:
        return None
    densities, gain = [], 0.0
    for numbers in still.T:
        density, variance = Density.of(numbers), numbers.var()
        if density is None or not variance >= np.finfo(float).tiny:
            return None
        densities.append(density)
        gain += float(density.at(numbers)[0].mean()) + (np.log(2 * np.pi * variance) + 1) / 2
    plain = gain * len(still) > _EVIDENT * len(_EDGES) * len(densities)
    return Shaped(tuple(densities)) if plain else None
