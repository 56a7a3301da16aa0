"""Whitening by second moments in rounds, for those who have public bounds on a covariance's
eigenvalues.

Records are first divided by the largest deviation that they can have, so that their covariance
S is at most the identity. Every round releases noisy second moments Z of the images up to a
public length, and changes the map:

* "spectral": A <- U^(-1/2) A, U = Z + (eta + nu) I. Small variances grow by about
  1 / (eta + 2 nu) in a round.
* "recursive": directions in which Z is at least 1 / 2 are halved, and the largest deviation is
  then smaller.

eta bounds what sampling, and nu what noise does to Z, with high probability. Everything here
but the queries is post-processing of what was released. Source: BDKU20 (MVC), KLSU19 (WeakPPC);
theorems in spec/theory/preconditioning.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from dpverify.estimation.budget_shares import ROOT_BITS
from dpverify.estimation.clip_bounds import How
from dpverify.estimation.normal_fits import per_record, rarely_longer
from dpverify.estimation.sign_rounds import RADIUS, start, stepped, symmetric
from dpverify.estimation.whitening import Numbers, Sphere, Spheres, count_of, known, with_lengths
from dpverify.grid.linear import Integers
from dpverify.grid.masks import Row, different_rows
from dpverify.grid.outer_products import DIAGONAL, SecondMoments
from dpverify.grid.vector_queries import OneUnit
from dpverify.grid.vectors import Vector
from dpverify.plans import UNIT, Handle, Plan, Released, RoundedGaussian, Stage, Transcripts
from dpverify.privacy.numbers import Floats, root_up, to_float

LONGER = 1.0
"""Number of n normal records that are longer than the length up to which images count, on
average and at most.
"""
RARELY = 0.05
"""Probability with which eta, or nu, is no bound."""
ALLOWANCE = 0.1
"""Factor on eta and nu. With 1 the theorems hold for the maps; with less, fewer records or
fewer rounds suffice.
"""
THRESHOLD, DIVISOR = 0.5, 2.0
"""Share of the largest variance that counts as large for "recursive", and the divisor of
deviations in such directions.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpectralRounds:
    """Rounds of second moments, and the maps that follow from them.

    method: "spectral" or "recursive". adds: whether neighbors add or remove a record.
    multiplier: of all noise; share: of its mu^2, for one round. center, exponent: of the grid,
    in cells. kappa: a bound on the largest eigenvalue over the smallest. long: the largest
    deviation, as an image of the first map, in cells. precision: of released moments. counts:
    numbers of records that were released before; those below ``least`` count as ``least``.
    """

    method: str
    rounds: int
    adds: bool
    multiplier: Fraction
    share: Fraction
    center: Vector
    exponent: int
    kappa: float
    long: float | None
    precision: int
    counts: Released[Floats]
    least: int

    @property
    def d(self) -> int:
        """Number of columns."""
        return len(self.center)

    @property
    def noise(self) -> Fraction:
        """The noise of a diagonal entry of a round, in records that fill the ball along it."""
        return self.multiplier * root_up((1 if self.adds else 2) / self.share, ROOT_BITS)

    @property
    def how(self) -> How:
        """Treatment of long images: CoinPress clips them, the recursive preconditioner leaves
        them out.
        """
        return "clip" if self.method == "spectral" else "mask"

    def plan(self) -> Plan:
        """Build the second moments of every round, each after the map of those before."""
        return tuple(self._stage(t) for t in range(self.rounds))

    def rows(self) -> Released[Numbers]:
        """Return the map after all rounds."""
        spheres = self.spheres(self.rounds)

        def rows(before: Transcripts) -> tuple[list[Row], Integers]:
            own, which = spheres(before)
            return [one.row for one in own], which

        return Released(spheres.reads, rows)

    def _stage(self, t: int) -> Stage:
        query = SecondMoments(
            center=self.center,
            exponent=self.exponent,
            rows=self.d,
            maps=with_lengths(self.spheres(t), self._reach),
            radius=RADIUS,
            how=self.how,
            with_reach=True,
        )
        return Stage(
            _name(t), OneUnit(query, self.noise * DIAGONAL * RADIUS**2), RoundedGaussian(UNIT)
        )

    def spheres(self, t: int) -> Spheres:
        """Return the maps of a round, from 0, with the length of the largest deviation."""
        assert self.long is not None
        d = self.d
        first = Released((), lambda before: ([start(d)], np.zeros(len(before), np.intp)))
        spheres = known(first, self._enough, self.long)
        for s in range(t):
            spheres = _followed(spheres, self._seen(s), partial(self._after, s))
        return spheres

    def _seen(self, t: int) -> Released[Integers]:
        """Return the second moments over the number of records, in 2^-precision squared radii."""
        unit, enough = self.noise / UNIT, self._enough

        def seen(before: Transcripts) -> Integers:
            return per_record(before[_name(t)], self.d, unit, enough(before), self.precision)

        return Released((*self.counts.reads, _name(t)), seen)

    @property
    def _enough(self) -> Released[Floats]:
        """The released number of records, or ``least`` if it is below."""
        return Released(
            self.counts.reads, lambda before: np.maximum(self.counts(before), self.least)
        )

    def _reach(self, sphere: Sphere) -> float:
        """Return the length up to which images count, in largest deviations."""
        return rarely_longer(self.d, count_of(sphere.octave), LONGER)

    def _after(self, t: int, sphere: Sphere, seen: Row) -> Sphere:
        """Compute the map of the next round."""
        n, noise = count_of(sphere.octave), to_float(self.noise)
        given = (sphere.row, seen, self.precision, self._reach(sphere) ** 2)
        if self.method == "spectral":
            row, long = _whitened(*given, self.kappa, slack(self.d, n, noise))
        else:
            row, long = _halved(*given, factor(self.d, n, noise, self.kappa, t))
        return Sphere(row, long * sphere.long, sphere.octave)


@lru_cache(maxsize=256)
def slack(d: int, n: float, noise: float) -> tuple[float, float]:
    """Compute eta and nu for n records and this noise of a diagonal entry, times ``ALLOWANCE``.

    eta = 2 e + e^2, e = (sqrt(d) + sqrt(2 ln(2 / b))) / sqrt(n) (Gordon; Davidson and Szarek);
    nu is the length sqrt(2 d) + sqrt(2 ln(2 / b)) of a symmetric normal matrix, times the
    deviation on its diagonal.
    """
    level = math.sqrt(2 * math.log(2 / RARELY))
    root = (math.sqrt(d) + level) / math.sqrt(n)
    one = noise / n * rarely_longer(d, n, LONGER) ** 2
    return ALLOWANCE * (2 * root + root**2), ALLOWANCE * one * (math.sqrt(2 * d) + level)


@lru_cache(maxsize=1 << 10)
def _whitened(
    public: Row, seen: Row, precision: int, square: float, kappa: float, off: tuple[float, float]
) -> tuple[Row, float]:
    """Multiply the map by U^(-1/2); return it, with the factor by which the largest deviation
    is longer in its cells.

    U = Z + (eta + nu) I, its eigenvalues at least the larger of eta and ``smallest``. Where eta
    and nu are bounds this changes nothing, because then U >= S >= ``smallest`` and Z >= -nu.
    The map stays as it was where eta + nu >= 1, because then Z says nothing.
    """
    eta, nu = off
    if not eta + nu < 1:
        return public, 1.0
    d = math.isqrt(len(public))
    values, vectors = _eigen(seen, d, precision, square)
    own = np.maximum(values + (eta + nu), max(eta, smallest(kappa, eta, nu)))
    least = float(own.min())
    row, bits, _ = stepped((vectors * np.sqrt(least / own)) @ vectors.T, public, d)
    return row, math.ldexp(math.sqrt(least), bits)


def smallest(kappa: float, eta: float, nu: float) -> float:
    """Compute a lower bound on the eigenvalues of S: 1 / kappa, or the fixed point of the
    certificate's recursion.

    From l I <= S <= I a round makes l / ((1 + eta) l + eta + 2 nu), which is more than l below
    the fixed point.
    """
    return min(1 / kappa, max(0.0, 1 - eta - 2 * nu) / (1 + eta))


@lru_cache(maxsize=1 << 10)
def _halved(
    public: Row, seen: Row, precision: int, square: float, shorter: float | None
) -> tuple[Row, float]:
    """Divide the map by ``DIVISOR`` in directions in which Z is at least ``THRESHOLD``, and
    return it with the factor of the largest variance that follows.
    """
    if shorter is None:
        return public, 1.0
    d = math.isqrt(len(public))
    values, vectors = _eigen(seen, d, precision, square)
    own = np.where(values >= THRESHOLD, 1 / DIVISOR, 1.0)
    row, bits, _ = stepped((vectors * own) @ vectors.T, public, d)
    return row, math.ldexp(math.sqrt(shorter), bits)


@lru_cache(maxsize=1 << 10)
def factor(d: int, n: float, noise: float, kappa: float, t: int) -> float | None:
    """Compute the factor of the largest variance in round t, from 0; None in rounds that change
    nothing.

    All rounds change nothing from the first one on before which the largest eigenvalue over the
    smallest is so small, or noise so large, that ``shortened`` says nothing.
    """
    eta, nu = slack(d, n, noise)
    for _ in range(t):
        shrunk = shortened(kappa, eta, nu)
        if shrunk is None:
            return None
        kappa = shrunk[1]
    shrunk = shortened(kappa, eta, nu)
    return None if shrunk is None else shrunk[0]


def shortened(kappa: float, eta: float, nu: float) -> tuple[float, float] | None:
    """Compute a factor of the largest variance, below 1, and the ratio of eigenvalues after a
    round; None where neither falls.

    Source: KLSU19; with its constants, spec/theory/preconditioning.py.
    """
    square, large = DIVISOR**2, (THRESHOLD - nu) * kappa
    if not (large > square and eta < 1):
        return None
    lost = (square - 1) * (nu * kappa / (large - square)) * (nu * kappa / (large - 1))
    ratio = (max((1 + eta) / square, THRESHOLD + nu) + nu / DIVISOR) / (1 - eta)
    if not (lost < 1 and ratio < 1):
        return None
    after = kappa * ratio * (1 + eta) / ((1 - eta) * (1 - lost))
    return (ratio, after) if after < kappa else None


def _eigen(seen: Row, d: int, precision: int, square: float) -> tuple[Floats, Floats]:
    """Compute the eigenvalues, in squares of the largest deviation, and eigenvectors of
    released moments.
    """
    values, vectors = np.linalg.eigh(np.ldexp(symmetric(seen, d), -precision))
    return np.asarray(values * square), np.asarray(vectors)


def _followed(
    spheres: Spheres, seen: Released[Integers], after: Callable[[Sphere, Row], Sphere]
) -> Spheres:
    """Return the maps that follow from these and from what was released after them, each once."""

    def step(before: Transcripts) -> tuple[list[Sphere], Integers]:
        own, which = spheres(before)
        rows, which = different_rows(np.column_stack([which, seen(before)]), "maps")
        made = [after(own[k], tuple(moments)) for k, *moments in rows]
        place = {one: k for k, one in enumerate(dict.fromkeys(made))}
        return list(place), np.array([place[one] for one in made], np.intp)[which]

    return Released(tuple(dict.fromkeys((*spheres.reads, *seen.reads))), step)


def _name(t: int) -> Handle:
    """Name the stage of round t, from 0."""
    return Handle(f"round {t + 1}")
