"""``gaussian``: the mean and the covariance of normal records, without any bound on either."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any

import numpy as np

from dpverify.estimation.budget_shares import ROOT_BITS
from dpverify.estimation.column_grids import PublicCell, exponents_of
from dpverify.estimation.covariances import CovarianceEstimate
from dpverify.estimation.rationals import Rationals
from dpverify.estimation.shapes import Concentrated
from dpverify.estimation.sign_rounds import START_BITS, start
from dpverify.estimation.whitening import place_of
from dpverify.grid.coordinates import SideCounts
from dpverify.grid.masks import Row
from dpverify.grid.outer_products import LengthSides
from dpverify.grid.vector_queries import OneUnit
from dpverify.grid.vectors import OUTER_BOX
from dpverify.mechanisms.gaussian_covariance import GaussianCovariance
from dpverify.plans import (
    UNIT,
    Abstained,
    Mechanism,
    Plan,
    Released,
    RoundedGaussian,
    Transcripts,
)
from dpverify.plans.parameters import Share, positive, whole_from
from dpverify.plans.search import Prefix, Search
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Exact, exact, root_up

FIT = "fit"
_BOX_BITS = 40  # the grid's range, in cells either way
_NEAR_BITS = 6  # a median is searched to 64 cells: a deviation has about a hundred or more
_EXTRA_STEPS = 4  # steps of a search beyond its halvings, for steps that decide nothing
_MEDIANS = Fraction(4, 5)  # part of center_share for the medians; the rest is for the length
_LARGEST_EXPONENT = 900  # largest exponent of a cell, so that the grid's ends are floats
_SHARES = ("center_share", "rounds_share", "scale_share", "mean_share", "check_share")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian(Mechanism[CovarianceEstimate | Concentrated]):
    """The mean and the covariance matrix of normal records, with no bound on where they are or
    how far apart.

    Noisy binary searches find the columns' medians, and the typical length of records about these
    medians. Private signs of (record, that length) whiten and center the records
    (``SignCovariance``), and a search finds their scale. Then the mean, and about it the
    covariance, are released from all records, clipped where the predicted error is least
    (``GaussianCovariance``).

    Data: shape (n, d), d from 2 to 1023, in any unit. Output: ``CovarianceEstimate``, whose
    ``location`` is the mean; ``Concentrated`` where directions hold too many or too few records;
    ``Abstained`` below ``at_least`` records.
    Claim: GaussianDP(1 / noise_multiplier) up to the grid's rounding, for both adjacencies and
    all data.
    cell: the public grid's step, for all columns or one for each, rounded down to a power of two;
    at most 1/100 of the smallest standard deviation in any direction, in the units of all
    columns. Numbers beyond 2^40 cells are clamped, so the mean and all deviations have to be well
    below that.
    bound: R, the public bound on the means' magnitude, in the data's unit; by default 2^40 cells.
    kappa: a public bound on the ratio of the covariance's eigenvalues; with it, rounds that are
    not needed are left out.
    rounds: number of rounds of signs; by default as many as ``kappa`` needs, 8 without it.
    center_share, rounds_share, scale_share, mean_share, check_share: the parts of mu^2 for the
    medians, the signs, the scale, the mean and the count of far records; the covariance gets the
    rest.
    center_steps, spread_steps, scale_steps: numbers of steps of the searches for medians (by
    default one for each halving of their range down to 64 cells, and four for steps that decide
    nothing), for the length and for the scale.
    at_least, precision: as for ``SignCovariance``.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: KLSU19 (a Gaussian in total variation); the stages are OURS.
    """

    d: Annotated[int, whole_from(2, most=1023)]
    cell: PublicCell
    bound: Annotated[float, positive(as_given=True)] | None = None
    kappa: Annotated[float, positive(as_given=True)] | None = None
    rounds: Annotated[int, whole_from(1, most=20)] | None = None
    center_share: Share = Fraction(5, 100)
    rounds_share: Share = Fraction(17, 100)
    scale_share: Share = Fraction(2, 100)
    mean_share: Share = Fraction(22, 100)
    check_share: Share = Fraction(1, 100)
    center_steps: Annotated[int, whole_from(1, most=50)] | None = None
    spread_steps: Annotated[int, whole_from(1, most=40)] = 10
    scale_steps: Annotated[int, whole_from(1, most=40)] = 13
    at_least: Annotated[int, whole_from(1, most=1 << 60)] | None = None
    precision: Annotated[int, whole_from(2, most=40)] = 30

    def check_parameters(self) -> None:
        """Check that the shares leave something, kappa is at least 1 and the bound is on the
        grid.
        """
        left = 1 - sum(getattr(self, name) for name in _SHARES)
        if left <= 0:
            raise ValueError(
                f"{', '.join(_SHARES)} leave {left} for the covariance; give shares that add up to "
                "less than 1."
            )
        if max(map(abs, exponents_of(self.cell, self.d))) > _LARGEST_EXPONENT:
            raise ValueError(f"cell = {self.cell} is outside 2^-900..2^900; take another unit.")
        if self.kappa is not None and self.kappa < 1:
            raise ValueError(
                f"kappa = {self.kappa} is below 1; it bounds the largest eigenvalue over the "
                "smallest."
            )
        if self.bound is not None and not 0 < self._bits() <= _BOX_BITS:
            raise ValueError(
                f"bound = {self.bound} is not from 1 to 2^40 cells of every column; give another "
                "bound or cell, or leave it out."
            )

    def columns(self) -> int:
        """Return the number of columns."""
        return self.d

    def plan(self) -> Plan:
        """Search for the medians and for the length of records about them; then estimate the
        covariance.
        """
        sides, lengths = self._search(), self._lengths()
        moved = 1 if self.adjacency is Adjacency.ADD_REMOVE else 4
        of_sides = self._noise(moved * self.d * sides.steps, self.center_share * _MEDIANS)
        of_lengths = self._noise(moved * lengths.steps, self.center_share * (1 - _MEDIANS))

        def sides_query(row: Row) -> OneUnit:
            return OneUnit(SideCounts(self.medians(row)), of_sides)

        def lengths_query(row: Row) -> OneUnit:
            return OneUnit(self._longer(row), of_lengths)

        noise = RoundedGaussian(UNIT)
        stages = sides.elements(sides_query, noise)
        stages += lengths.elements(lengths_query, noise, Prefix().then(sides, sides.steps))
        return (*stages, self._searched().part(lambda row: self.fit(row).part(FIT)))

    def estimate(self, transcript: Transcripts) -> CovarianceEstimate | Concentrated | Abstained:
        """Return the estimate of the covariance's part, which includes the mean."""
        return self.fit(self._searched().row(transcript)).estimate(transcript.within(FIT))

    def expected_error(self, n: int) -> float:
        """Predict the root of the expected squared noise in the mean and the covariance, in
        coordinates where the covariance is the identity.

        It is sqrt(2 |noise of the mean|^2 + |noise of the covariance|_F^2), to first order twice
        the root of the relative entropy. This is for n normal records whose rounds and searches
        succeeded. Infinite below ``at_least`` records.
        """
        own = self.fit(self._start())
        return math.hypot(own.expected_error(n), math.sqrt(2) * own.expected_mean_error(n))

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return the least n for which n records, none at the medians, abstain with probability
        at most ``beta``.
        """
        return self.fit(self._start()).minimum_n(beta=beta)

    def fewest_records(self) -> int:
        """Return ``at_least``: fewer records, a public number under replace, are refused."""
        return self.fit(self._start()).fewest_records()

    def fit(self, row: Row) -> GaussianCovariance:
        """Build the mechanism for the covariance about these medians."""
        return _about(self, row)

    def medians(self, row: Row) -> tuple[float, ...]:
        """Return the middles of the medians' intervals, in the data's units."""
        search, exponents = self._search(), exponents_of(self.cell, self.d)
        shift = self._bits() - search.steps
        middles = search.middles(row[: self.d])
        return tuple(math.ldexp(m, shift + e) for m, e in zip(middles, exponents, strict=True))

    def _longer(self, row: Row) -> LengthSides:
        """Build the query that counts records further from the medians than a threshold, in
        cells, minus those nearer.
        """
        exponents = exponents_of(self.cell, self.d)
        center = Rationals.of(self.medians(row)).cells(exponents)
        numbers = np.array([[*start(self.d), place_of(self._lengths(), row[-1])]], np.int64)
        maps = Released((), lambda before: (numbers, np.zeros(len(before), np.intp)))
        return LengthSides(center=center, exponent=exponents, rows=self.d, maps=maps)

    def _start(self) -> Row:
        return self._searched().start

    def _searched(self) -> Prefix:
        sides, lengths = self._search(), self._lengths()
        return Prefix().then(sides, sides.steps).then(lengths, lengths.steps)

    def _bits(self) -> int:
        """Return the search's range in either direction, as a power of two of cells."""
        if self.bound is None:
            return _BOX_BITS
        least = Fraction(2) ** min(exponents_of(self.cell, self.d))
        return max(1, (math.ceil(exact(self.bound, "bound") / least) - 1).bit_length())

    def _search(self) -> Search:
        halvings = max(1, self._bits() - _NEAR_BITS)
        steps = halvings + _EXTRA_STEPS if self.center_steps is None else self.center_steps
        return Search("median", self.d, steps)

    def _lengths(self) -> Search:
        """Return the search for the records' length. An octave is enough: within it, the length
        of the constant column matters little.
        """
        return Search("spread", 1, self.spread_steps)

    def _noise(self, moves: int, share: Fraction) -> Fraction:
        return self.noise_multiplier * root_up(moves / share, ROOT_BITS)

    def rounds_needed(self) -> int:
        """Return the number of rounds of signs."""
        if self.rounds is not None:
            return self.rounds
        if self.kappa is None:
            return 8
        return min(8, 2 + math.ceil(math.log2(self.kappa) / 4))


@lru_cache(maxsize=1 << 10)
def _about(mechanism: Gaussian, row: Row) -> GaussianCovariance:
    """Build the covariance's part, with the budget that the medians leave."""
    rest = 1 - mechanism.center_share
    own: dict[str, Any] = {
        name: getattr(mechanism, name) / rest for name in _SHARES if name != "center_share"
    }
    exponents = exponents_of(mechanism.cell, mechanism.d)
    return GaussianCovariance(
        adjacency=mechanism.adjacency,
        nonfinite=mechanism.nonfinite,
        noise_multiplier=mechanism.noise_multiplier * root_up(1 / rest, ROOT_BITS),
        center=mechanism.medians(row),
        cell=tuple(math.ldexp(1.0, e) for e in exponents),
        scale=min(max(1, place_of(mechanism._lengths(), row[-1]) >> START_BITS), OUTER_BOX),
        rounds=mechanism.rounds_needed(),
        at_least=mechanism.at_least,
        scale_steps=mechanism.scale_steps,
        precision=mechanism.precision,
        **own,
    )
