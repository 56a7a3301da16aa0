"""``sign_covariance``: the shape of an elliptical law, by noisy means of signs (Tyler's
estimator).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Annotated, Any

import numpy as np

from dpverify.estimation.budget_shares import ROOT_BITS, checked_shares
from dpverify.estimation.clip_schedule import in_units
from dpverify.estimation.clipping import LARGEST_FLOAT, PerColumn, capped
from dpverify.estimation.column_grids import PublicCell, exponents_of
from dpverify.estimation.handles import COUNT
from dpverify.estimation.rationals import Rationals
from dpverify.estimation.shapes import Concentrated, ShapeEstimate
from dpverify.estimation.sign_locations import noise_of_location, sign_location
from dpverify.estimation.sign_rounds import (
    RADIUS,
    floored_spectrum,
    measured,
    next_map,
    start,
    traces,
)
from dpverify.grid import OUTER_BOX, Count
from dpverify.grid.joint import least_counted
from dpverify.grid.linear import Integers
from dpverify.grid.masks import Row, different, different_rows
from dpverify.grid.outer_products import DIAGONAL, SecondMoments
from dpverify.grid.vector_queries import OneUnit
from dpverify.plans import (
    UNIT,
    Abstained,
    Handle,
    Mechanism,
    NoNoise,
    Plan,
    Released,
    RoundedGaussian,
    Stage,
    Transcripts,
)
from dpverify.plans.parameters import (
    MOST_LEAST,
    FewestReleased,
    Rational,
    positive,
    probability,
    whole_from,
)
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Exact, Floats, exact, root_up, settle, to_float

_MOST_COLUMNS = 1 << 10
# Largest difference of the exponents of two columns' cells, so that shapes are floats.
_WIDEST = 200
_LAST = Fraction(1, 2)
_MOST_RECORDS = 1e18
_MANTISSA = (1 << 41) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SignCovariance(Mechanism[ShapeEstimate | Concentrated]):
    """The shape (the covariance matrix up to its scale) of vectors of an elliptical law, and its
    center if that is not public.

    Each round maps the records, moves them to the sphere and releases their noisy second moments;
    the next map is the one after which these signs would be spread evenly. So no scale, no
    condition number and no moments are needed: heavy tails and eigenvalues of 1 to 10^8 are as
    good as any.

    Data: shape (n, d), d = len(center) from 2 to 1024. Output: ``ShapeEstimate`` of determinant
    1; ``Concentrated`` where some directions hold too many or too few of the records' signs;
    ``Abstained`` below ``at_least`` records.
    Claim: GaussianDP(1 / noise_multiplier) up to the grid's rounding, for both adjacencies and
    all data.
    center: the public point that the law is symmetric about; records at it count for nothing, and
    a center that is off by t deviations in a direction adds about t^2 to the shape there. With
    ``scale`` a rough center, at most 2^20 of the smallest deviations off, is enough.
    scale: h, a deviation, or how far the center may be off if that is more: the center is
    estimated too, from (record - center, h) as one more column. The shape is then that of the
    location-scatter M-estimator of a Cauchy law (Kent and Tyler). A center that is off by c > h
    makes the condition number (c / h)^2 times as large, which takes more rounds.
    cell: the public grid's step, rounded down to a power of two; rounding adds a deviation of up
    to 0.3 cells in every direction, so take at most 1/100 of the smallest deviation. Numbers
    beyond 2^40 cells are clamped. With one cell for each column, ``scale`` is in cells.
    rounds: number of releases; one does for condition numbers to 100.
    shares: the parts of mu^2, one a round, of sum 1; by default 1/2 for the last, the rest in
    equal parts.
    at_least: abstain below this released (or public) number; by default 4 k^(3/2) times an early
    round's noise multiplier, k = d, or d + 1 with a scale; under add-remove over sqrt(2). Near it
    noise hides a direction that is much shorter than all others (``Concentrated``): 8 rounds find
    one of 1e-8 in 9 of 10 datasets of 1.5 times as many records, 10 rounds in nearly all.
    precision: a released matrix is rounded to 2^-precision of its trace before the next map
    follows from it.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: OURS; T87, KT91 (the estimators without privacy), DRS22 (Gaussian accounting).
    """

    center: PerColumn
    cell: PublicCell
    scale: Annotated[float, positive(as_given=True)] | None = None
    rounds: Annotated[int, whole_from(1, most=20)] = 8
    shares: tuple[Rational, ...] | None = None
    at_least: FewestReleased = None
    precision: Annotated[int, whole_from(2, most=40)] = 30

    def check_parameters(self) -> None:
        """Check for two columns or more, a center on the grid, and shares of sum 1."""
        d = len(self.center)
        if not 2 <= d <= _MOST_COLUMNS:
            raise ValueError(
                f"center has {d} coordinates: a shape is of 2 to 1024 columns (that of one column "
                "is 1, whatever the data)."
            )
        if self.shares is not None:
            settle(self, shares=checked_shares(self.shares, self.rounds))
        if max(self.exponents()) - min(self.exponents()) > _WIDEST:
            raise ValueError(
                "cell: the cells of two columns are more than 2^200 apart; give columns in nearer "
                "units."
            )
        sides = zip(self.center, self.exponents(), strict=True)
        far = max(abs(exact(c, "center")) / _power(e) for c, e in sides)
        if far > OUTER_BOX:
            raise ValueError(
                f"center: up to {to_float(far):.3g} cells from zero, beyond the 2^40 of the public "
                "grid. Subtract a public constant from the data, or give a larger cell."
            )
        if self.scale is not None and not 1 <= self.constant() <= OUTER_BOX:
            raise ValueError(
                f"scale = {self.scale}: {self.constant():.3g} cells; give one of 1 to 2^40 cells: "
                "a deviation of the data, or how far the center may be off."
            )

    def columns(self) -> int:
        """Return the number of columns."""
        return len(self.center)

    def replacement(self) -> float | tuple[float, ...]:
        """Return the center, which adds nothing; with a scale it adds the sign of the constant
        column alone.
        """
        return self.center

    def plan(self) -> Plan:
        """Release the public count under replace; then the second moments of signs, each after
        the map that the earlier ones lead to.
        """
        public = () if self._counts() else (Stage(COUNT, Count(), NoNoise()),)
        return (*public, *(self._round(t) for t in range(self.rounds)))

    def estimate(self, transcript: Transcripts) -> ShapeEstimate | Concentrated | Abstained:
        """Return the last round's second moments, mapped back."""
        count = self.numbers(transcript)[0]
        if not count >= self.least():
            return Abstained(f"fewer than {self.least()} records, by the first released count")
        d, last = self.size(), self.rounds - 1
        released = transcript[_name(last)]
        signs = in_units(traces(released, d), self._deviation(last) / UNIT)[0]
        if not 2 * signs >= self.least():
            return Abstained(
                f"fewer than {self.least()} / 2 records have a sign, by the last released trace"
            )
        count = min(count, float(signs))  # records at the center have none
        public, values, vectors, spectrum = self._last(transcript, count)
        uneven = self._uneven(count, values, vectors, public)
        if uneven is not None:
            return uneven
        factor = np.linalg.solve(public, vectors * np.sqrt(spectrum))
        return self._located(factor, spectrum, count)

    def _last(self, transcript: Transcripts, count: float) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the last round's map, and of its signs the eigenvalues, eigenvectors and
        spectrum.
        """
        d, last = self.size(), self.rounds - 1
        row, _ = measured(transcript[_name(last)], 62, d)
        public = self.maps(last, transcript)[0][0].astype(np.float64).reshape(d, d)
        noise = self._noise(last, count) * math.sqrt(2 * d)
        return public, *floored_spectrum(tuple(row[0].tolist()), 62, d, noise / 2)

    def _uneven(
        self, count: float, values: Floats, vectors: Any, public: Floats
    ) -> Concentrated | None:
        """Return directions whose signs are still further from even than noise and sampling
        explain, or that no map reaches; None if there are none.
        """
        d, last, columns = self.size(), self.rounds - 1, self.columns()
        noise = self._noise(last, count) * math.sqrt(2 * d)
        # With a single round, no later round sees what is below the edge of the noise.
        hidden = values < (noise / 2 if last else noise)
        off = hidden
        if last:
            # Shares that the round before took for 1 / d are 1 / (d + noise d^2) at least; and
            # twice the noise is rare.
            earlier = self._noise(last - 1, count) * math.sqrt(2 * d)
            sampling = 4 * math.sqrt(2 / count) / d
            most = 1 / d + 2 * math.hypot(noise, earlier) + sampling
            least = 1 / (d + 2 * earlier * d**2) - 2 * noise - sampling
            off = hidden | (values > most) | (values < least)
        if off.any():
            shares = np.where(hidden, 0.0, values * d)[off]
            along = (vectors[:, off].T @ public)[:, :columns]
            return Concentrated.of(shares, count, along / self._relative())
        return None

    def _located(self, factor: Any, spectrum: Floats, count: float) -> ShapeEstimate:
        """Return the shape of this factor; with a scale, the factor is of
        [[V + l l^T, l], [l^T, 1]], and the result has the location l and the shape of V.
        """
        spread = self.spread(count)
        center = np.array(self.center)
        relative = self._relative()[:, np.newaxis]
        if self.scale is None:
            return _shape(relative * factor, count, spread, center)
        # Rotate so that the last row is (g, 0, ...).
        turned = factor @ np.linalg.qr(factor[-1:].T, mode="complete")[0]
        offset, scatter = turned[:-1, 0] / turned[-1, 0], turned[:-1, 1:] / turned[-1, 0]
        with np.errstate(over="ignore"):
            unit = self.constant() * self._units()
            length = np.linalg.norm(scatter, axis=1) * unit
            length /= math.sqrt(sign_location(self.columns()).scatter)
            _, earlier, excess = self.location_errors(count)
            noise = np.hypot(self._last_noise(factor, spectrum, count), length * earlier)
            own = [np.minimum(one, LARGEST_FLOAT) for one in (noise, length * excess)]
            location = center + np.clip(offset * unit, -LARGEST_FLOAT, LARGEST_FLOAT)
        location = np.clip(location, -LARGEST_FLOAT, LARGEST_FLOAT)
        return _shape(relative * scatter, count, spread, location, *own)

    def expected_error(self, n: int) -> float:
        """Predict the error from noise alone, after enough rounds: the Frobenius norm of the
        noise's part, in coordinates where the shape is the identity.

        For records of any elliptical law about the center, none at it. Infinite below
        ``at_least`` records.
        """
        if n < self.least():
            return math.inf
        d = self.columns()
        return self.spread(n) * math.sqrt(d * (d + 1) / 2 - 1)

    def spread(self, count: float) -> float:
        """Return the ``spread`` of a result for this many records."""
        return (self.size() + 2) * self._noise(self.rounds - 1, count)

    def location_noise(self, transcript: Transcripts, count: float) -> Floats:
        """Return the standard deviation of the last round's noise in a found center, shape (d,)."""
        public, _, vectors, spectrum = self._last(transcript, count)
        factor = np.linalg.lstsq(public, vectors * np.sqrt(spectrum), rcond=None)[0]
        return self._last_noise(factor, spectrum, count)

    def _last_noise(self, factor: Any, spectrum: Floats, count: float) -> Floats:
        noise = noise_of_location(factor / np.sqrt(spectrum), spectrum)
        noise *= self._noise(self.rounds - 1, count)
        return np.asarray(noise * self.constant() * self._units())

    def location_errors(self, count: float) -> tuple[float, float, float]:
        """Predict the standard deviations of a found center in each direction, in those of normal
        records: of the last round's noise, of what it leaves of that of earlier rounds, and of
        (center without noise - mean of all records).
        """
        law, last = sign_location(self.columns()), self.rounds - 1
        unit = math.sqrt(law.scatter / 2) * (self.size() + 2)
        earlier = (law.left ** (last - t) * self._noise(t, count) for t in range(last))
        now = unit * self._noise(last, count)
        return now, unit * math.hypot(*earlier), math.sqrt(law.excess / count)

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return the least n for which n records, none at the center, abstain with probability at
        most ``beta``.
        """
        allowed = probability(beta, "beta")
        if not self._counts():
            return self.least()
        d = self.size()
        # each z_i^2 falls short by less than two cells in z_i; the sum of d rounded noises by
        # less than d / 2 more
        full = (1 - 2 * root_up(Fraction(d), ROOT_BITS) / RADIUS) ** 2
        per_record = full * UNIT / self._deviation(0)
        noise = RoundedGaussian(UNIT * root_up(Fraction(d), ROOT_BITS))
        return least_counted(
            self.least(), per_record, lambda k: noise.falls_short(k - 2 * d, allowed)
        )

    def fewest_records(self) -> int:
        """Return ``at_least``: fewer records, a public number under replace, are refused."""
        return 0 if self._counts() else self.least()

    # --- a round: its noise, its query ----------------------------------------------------------

    def _counts(self) -> bool:
        return self.adjacency is Adjacency.ADD_REMOVE

    def _moves(self) -> int:
        """Return the squared sensitivity of second moments of unit vectors."""
        return 1 if self._counts() else 2

    def _share(self, t: int) -> Fraction:
        if self.shares is not None:
            return self.shares[t]
        if self.rounds == 1:
            return Fraction(1)
        return _LAST if t == self.rounds - 1 else (1 - _LAST) / (self.rounds - 1)

    def _deviation(self, t: int) -> Fraction:
        """Return the noise scale of a diagonal entry in round t, in records."""
        return self.noise_multiplier * root_up(self._moves() / self._share(t), ROOT_BITS)

    def _noise(self, t: int, count: float) -> float:
        """Return the noise scale of a diagonal entry over the trace."""
        return min(to_float(self._deviation(t)), 1e150) / count

    def least(self) -> int:
        """Return ``at_least``, or its default: sqrt(8 k^3 moves / share) times the multiplier,
        rounded up; at most 2^60.
        """
        if self.at_least is not None:
            return self.at_least
        square = Fraction(8 * self._moves() * self.size() ** 3) / self._share(0)
        return min(math.ceil(self.noise_multiplier * root_up(square, ROOT_BITS)), MOST_LEAST)

    def exponents(self) -> tuple[int, ...]:
        """Return the binary logarithm of each column's cell."""
        return exponents_of(self.cell, self.columns())

    def _relative(self) -> Floats:
        """Return the cells of columns over that of the first, shape (d,)."""
        first, *_ = own = self.exponents()
        return np.array([capped(_power(e - first)) for e in own])

    def _units(self) -> Floats:
        """Return the cell of each column, shape (d,)."""
        return np.array([capped(_power(e)) for e in self.exponents()])

    def constant(self) -> int:
        """Return the scale in cells; 0 without one."""
        if self.scale is None:
            return 0
        unit = 1 if isinstance(self.cell, tuple) else _power(self.exponents()[0])
        return round(exact(self.scale, "scale") / unit)

    def size(self) -> int:
        """Return the number of coordinates that are mapped."""
        return self.columns() + (self.scale is not None)

    def _round(self, t: int) -> Stage:
        public = (COUNT,) if not self._counts() else ()
        reads = (*public, *map(_name, range(t))) if t else ()
        exponents = self.exponents()
        center = Rationals.of(self.center).cells(exponents)
        maps = Released(reads, partial(self.maps, t))
        query = SecondMoments(
            center=center,
            exponent=exponents if isinstance(self.cell, tuple) else exponents[0],
            rows=self.size(),
            radius=RADIUS,
            maps=maps,
            constant=self.constant(),
        )
        scale = self._deviation(t) * DIAGONAL * RADIUS**2
        return Stage(_name(t), OneUnit(query, scale), RoundedGaussian(UNIT))

    # --- from what was released to the next map -------------------------------------------------

    def numbers(self, before: Transcripts) -> Floats:
        """Return the public count, or the first released trace in records, shape (size,)."""
        if not self._counts():
            return in_units(before[COUNT][:, 0], Fraction(1))
        trace = traces(before[_name(0)], self.size())
        return np.clip(in_units(trace, self._deviation(0) / UNIT), -_MOST_RECORDS, _MOST_RECORDS)

    def maps(self, t: int, before: Transcripts) -> tuple[Integers, Integers]:
        """Return the maps of round t, each row by row, and which one each draw has."""
        d = self.size()
        maps, which = [start(d)], np.zeros(len(before), np.intp)
        counts, levels = self._levels(before) if t else ([], which)
        for s in range(t):
            rows, good = measured(before[_name(s)], self.precision, d)
            numbers = np.column_stack([np.where(good, levels, -1), which, rows])
            unique, which = different_rows(numbers, "maps")
            made = [self._next(s, row, maps, counts) for row in unique]
            # Many draws lead to one map.
            place = {one: k for k, one in enumerate(dict.fromkeys(made))}
            maps, which = list(place), np.array([place[one] for one in made], np.intp)[which]
        return np.array(maps, np.int64), which

    def _levels(self, before: Transcripts) -> tuple[list[float], Integers]:
        """Round counts to a few significant bits; return each level once, and which one a draw
        has: -1 for a count below ``at_least``.
        """
        numbers, bits = self.numbers(before), self.precision
        part, exponent = np.frexp(numbers)
        codes = np.floor(np.ldexp(part, bits)).astype(np.int64) + (exponent.astype(np.int64) << 41)
        codes, which = different(np.where(numbers >= self.least(), codes, -1))
        known = [code for code in codes.tolist() if code >= 0]
        levels = [math.ldexp(code & _MANTISSA, (code >> 41) - bits) for code in known]
        return levels, which - (len(codes) - len(known))

    def _next(self, t: int, row: Row, maps: list[Row], counts: list[float]) -> Row:
        """Return the map after round t of a draw with this count, this map and these moments."""
        level, now, *moments = row
        if level < 0:  # fewer than at_least, or no positive trace
            return maps[now]
        return next_map(maps[now], tuple(moments), self.precision, self._floor(t, counts[level]))

    def _floor(self, t: int, count: float) -> float:
        """Return the value below which an eigenvalue of round t is taken for noise: a part of the
        noise's length, a small one at first.

        An eigenvalue that is raised too far is overshot, which the next round undoes; one that is
        raised too little takes many rounds.
        """
        d = self.size()
        length = self._noise(t, count) * math.sqrt(2 * d)
        early = t < self.rounds - 2
        return length * (min(max(length * d / 4, 0.02), 0.125) if early else 0.25)


def _shape(
    factor: Any,
    count: float,
    spread: float,
    location: Floats,
    noise: Floats | None = None,
    cut: Floats | None = None,
) -> ShapeEstimate:
    """Scale the factor to a determinant of 1."""
    own = factor * math.exp(-np.linalg.slogdet(factor)[1] / len(factor))
    return ShapeEstimate(own @ own.T, count, spread, own, location, noise, location_cut=cut)


def _power(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def _name(t: int) -> Handle:
    """Name the stage of round t, from 0."""
    return Handle(f"round {t + 1}")
