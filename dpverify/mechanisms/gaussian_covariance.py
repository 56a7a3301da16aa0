"""``gaussian_covariance``: the covariance of normal records, by private signs and clipped
moments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any

import numpy as np

from dpverify.estimation.budget_shares import ROOT_BITS
from dpverify.estimation.clip_bounds import excess
from dpverify.estimation.clip_schedule import in_units
from dpverify.estimation.clipping import PerColumn, finite
from dpverify.estimation.column_grids import PublicCell, exponents_of
from dpverify.estimation.covariance_parameters import contradictions
from dpverify.estimation.covariances import CovarianceEstimate
from dpverify.estimation.cutting import solved_excess
from dpverify.estimation.handles import COUNT
from dpverify.estimation.normal_fits import (
    Fit,
    fitted,
    mean_response,
    of_identity,
    responses,
    sandwich,
)
from dpverify.estimation.rationals import Rationals
from dpverify.estimation.shapes import Concentrated
from dpverify.estimation.sign_rounds import RADIUS, START_BITS, start, symmetric
from dpverify.estimation.spectral_rounds import SpectralRounds
from dpverify.estimation.whitened import (
    BEYOND,
    CERTIFICATE,
    FAILS,
    FINE,
    MOMENTS,
    Whitened,
)
from dpverify.estimation.whitening import Sphere, about_location, octave_of, solved
from dpverify.grid.joint import least_counted
from dpverify.grid.linear import Integers
from dpverify.grid.masks import Row
from dpverify.grid.queries import Count
from dpverify.mechanisms.sign_covariance import SignCovariance
from dpverify.plans import (
    UNIT,
    Abstained,
    Mechanism,
    NoNoise,
    Plan,
    Released,
    RoundedGaussian,
    Stage,
    Transcripts,
)
from dpverify.plans.parameters import (
    Share,
    one_of,
    positive,
    probability,
    rational,
    whole_from,
)
from dpverify.plans.plan import stages_of
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Exact, Floats, exact, root_up, to_float

SHAPE = "shape"
_ROUNDED = 12**-0.5  # deviation of a rounding to whole numbers
_EVEN = 16.0  # variances after rounds of signs are within this factor of their mean
_ratio = rational(lambda value: value >= 1, " is below 1; give a bound on a ratio.", as_given=True)
_SHARES = ("rounds_share", "scale_share", "check_share", "mean_share", "certify")


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianCovariance(Mechanism[CovarianceEstimate | Concentrated]):
    """The covariance matrix of normal records, with no bound on its eigenvalues or their ratio.

    Four steps, each on all records: ``rounds`` of private signs give a map after which the
    records are nearly spherical (``SignCovariance``); a search for the median of their lengths
    gives its scale; the second moments of the mapped records are released, clipped to the ball of
    least predicted error and calibrated at the normal law; a count tells whether as many records
    are far out as under that law.

    Data: shape (n, d), d = len(center) from 1 to 1024. Output: ``CovarianceEstimate``;
    ``Concentrated`` where some directions hold too many or too few of the records' signs;
    ``Abstained`` below ``at_least`` records.
    Claim: GaussianDP(1 / noise_multiplier) up to the grid's rounding, for both adjacencies and
    all data. For records that are not normal, the estimate is their scatter calibrated at the
    normal law.
    center, cell, scale, rounds, at_least, precision: as for ``SignCovariance``; with a ``scale``
    the center is estimated too. rounds = 0 leaves out the signs, for records that are nearly
    spherical; one column needs none.
    method: how rounds whiten. "sign" needs no bounds. "spectral" (CoinPress) divides by the root
    of clipped second moments and what noise may hide; "recursive" halves the directions of large
    variances, and takes about two rounds for each factor of 3 in ``kappa``.
    kappa: for "spectral" and "recursive", a public bound on the largest eigenvalue over the
    smallest.
    largest: a public bound on the standard deviation in any direction, for "spectral" and
    "recursive", and for rounds = 0, where it replaces the search.
    outside: records outside of the ball are clipped to it ("clip"), or left out ("mask"), for
    data that were truncated before.
    rounds_share, scale_share, check_share: the parts of mu^2 for the rounds, the search and the
    last count.
    scale_steps: steps of that search: 9 halvings to an eighth of an octave, and four for steps
    that decide nothing.
    certify: the part of mu^2 for a release that bounds the error of ``value``, for normal records
    about a public center, except with probability 1/100: the lower end always holds, the upper
    end if no record was clipped.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: OURS; BDKU20 and KLSU19 (whitening in rounds), T87, DRS22 (Gaussian accounting).
    """

    center: PerColumn
    cell: PublicCell
    scale: Annotated[float, positive(as_given=True)] | None = None
    rounds: Annotated[int, whole_from(0, most=20)] = 8
    method: Annotated[Any, one_of("sign", "spectral", "recursive")] = "sign"
    kappa: Annotated[float, _ratio] | None = None
    largest: Annotated[float, positive(as_given=True)] | None = None
    outside: Annotated[Any, one_of("clip", "mask")] = "clip"
    rounds_share: Share = Fraction(1, 4)
    scale_share: Share = Fraction(3, 100)
    check_share: Share = Fraction(1, 50)
    mean_share: Share | None = None
    certify: Share | None = None
    scale_steps: Annotated[int, whole_from(1, most=40)] = 13
    at_least: Annotated[int, whole_from(1, most=1 << 60)] | None = None
    precision: Annotated[int, whole_from(2, most=40)] = 30

    def check_parameters(self) -> None:
        """Check that the shares leave something for the moments, and that the parameters fit
        together.
        """
        if self._left() <= 0:
            raise ValueError(
                f"{', '.join(_SHARES)} leave {self._left()} for the moments; give shares that add "
                "up to less than 1."
            )
        for wrong, why in contradictions(self):
            if wrong:
                raise ValueError(why)
        if self.has_signs:
            self.shape()  # refuses a center off the grid; without signs the queries refuse it

    def columns(self) -> int:
        """Return the number of columns."""
        return len(self.center)

    def replacement(self) -> float | tuple[float, ...]:
        """Return the center."""
        return self.center if len(self.center) > 1 else self.center[0]

    def plan(self) -> Plan:
        """Release the rounds (or the count), the search, the mean, the moments, the far records'
        count, and the certificate.
        """
        own = self.whitened()
        if self.has_signs:
            stages: Plan = (self.shape().part(SHAPE),)
        elif own.adds:
            stages = (own.sides(COUNT, Released((), self._everybody), self._step_share()),)
        else:
            stages = (Stage(COUNT, Count(), NoNoise()),)
        if self.has_rounds and not self.has_signs:
            stages += self.spectral().plan()
        if own.long is None:
            stages += own.search_stages()
        if self.mean_share is not None:
            stages += (own.mean_stage(),)
        stages += (own.moments_stage(MOMENTS), own.beyond_stage(self.check_share))
        return stages if self.certify is None else (*stages, own.moments_stage(CERTIFICATE))

    def estimate(self, transcript: Transcripts) -> CovarianceEstimate | Concentrated | Abstained:
        """Return the normal law whose clipped moments are the released ones, mapped back."""
        own = self.whitened()
        count, inside = (float(one[0]) for one in own.numbers(transcript, MOMENTS))
        if not own.counts(transcript)[0] >= self.least() <= 2 * count:
            return Abstained(f"fewer than {self.least()} records, by the released counts")
        sphere = own.spheres(transcript)[0][0]
        (seen,) = own.seen(transcript, MOMENTS, FINE).tolist()
        fit = fitted(tuple(seen), self.columns(), FINE, own.floor(sphere), self.outside)
        if fit is None or not inside > 0:
            return self._stretched(sphere, count) or Abstained(
                "nearly no record is inside of the ball, by the released moments"
            )
        return self._uneven(fit, sphere, count) or self._result(
            transcript, fit, sphere, count, inside
        )

    def _stretched(self, sphere: Sphere, count: float) -> Concentrated | None:
        """Return the directions that hold all records, where the others were stretched beyond the
        map's integers; None if there are none.
        """
        d = self.columns()
        lengths, axes = np.linalg.svd(np.array(sphere.row[: d * d], np.float64).reshape(d, d))[1:]
        lost = lengths < 1
        if not lost.any():
            return None
        with np.errstate(all="ignore"):
            along = finite(axes[lost] / self._cells())
        return Concentrated.of(np.full(len(along), float(d)), count, along)

    def _uneven(self, fit: Fit, sphere: Sphere, count: float) -> Concentrated | None:
        """Return directions that noise or the grid hides, and, after rounds of signs, those whose
        variance is still far from the mean variance; None if there are none.
        """
        d, own = self.columns(), self.whitened()
        hidden = fit.values < 2 * own.floor(sphere)
        share = fit.variances / fit.variances.mean()
        far = (np.maximum(share, 1 / share) > _EVEN) & self.has_signs
        off = hidden | far
        if off.any():
            shares = np.where(hidden, 0.0, share)[off]
            along = fit.vectors[:, off].T @ np.array(sphere.row[: d * d], np.float64).reshape(d, d)
        else:  # a deviation below one cell comes from the grid
            factor = solved(sphere.row, d, fit.factor * sphere.long * own.radius(sphere))
            axes, lengths, _ = np.linalg.svd(factor)
            if lengths[-1] >= 1:
                return None
            along = axes[:, lengths < 1].T
            shares = np.zeros(len(along))
        with np.errstate(all="ignore"):
            return Concentrated.of(shares, count, finite(along / self._cells()))

    def _result(
        self, transcript: Transcripts, fit: Fit, sphere: Sphere, count: float, inside: float
    ) -> CovarianceEstimate:
        own = self.whitened()
        noise = to_float(own.moments_noise(MOMENTS)) / inside
        along = own.along_identity(float(fit.values.sum()))
        spread, trace_spread = fit.spreads
        sides = to_float(own.side_noise(self.check_share)) / count
        beyond = in_units(transcript[BEYOND][:, 0], 1 / UNIT)
        bound = len(fit.variances) / float(fit.variances.sum())
        cut, trace_cut = (
            math.sqrt(one / count) for one in excess(self.columns(), bound, self.outside)
        )
        with np.errstate(all="ignore"):
            image = fit.factor * sphere.long * own.radius(sphere)
            factor = solved(sphere.row, self.columns(), image) * self._cells()[:, np.newaxis]
            factor = finite(factor)
            return CovarianceEstimate(
                value=finite(factor @ factor.T),
                count=count,
                spread=spread * noise,
                trace_spread=trace_spread * noise * along,
                cut=cut,
                trace_cut=trace_cut,
                factor=factor,
                **self._location(transcript, sphere, factor, count),
                beyond=(1 + float(beyond[0]) * sides) / 2,
                beyond_deviation=sides / 2,
                certificate=self._certificate(transcript, count),
            )

    def _location(
        self, transcript: Transcripts, sphere: Sphere, factor: Floats, count: float
    ) -> dict[str, Floats]:
        """Return the center, and the standard deviations of its noise and of what signs, clipping
        and rounding to whole cells add, where it was estimated.
        """
        d, center = self.columns(), np.array(self.center)
        if self.scale is None:
            return {"location": center}
        moved = np.array(sphere.row[d * d :], np.float64) * self._cells()
        lengths = np.linalg.norm(factor, axis=1)
        now, earlier, cut = self._center_errors(sphere.octave, count)
        if self.mean_share is None:
            last = self.shape().location_noise(transcript.within(SHAPE), count)
        else:
            back = solved(sphere.row, d, np.eye(d) * sphere.long) * self._cells()[:, np.newaxis]
            last = np.linalg.norm(back, axis=1) * now
        return {
            "location": finite(center + moved),
            "location_noise": finite(np.hypot(last, lengths * earlier)),
            "location_cut": finite(np.hypot(lengths * cut, self._cells() * _ROUNDED)),
        }

    def _certificate(self, transcript: Transcripts, count: float) -> tuple[float, float] | None:
        """Bound the covariance relative to ``value``, by moments that are clipped where hardly
        any record is.
        """
        if self.certify is None:
            return None
        own = self.whitened()
        (seen,) = own.seen(transcript, CERTIFICATE, FINE).tolist()
        square = own.rare_length(own.spheres(transcript)[0][0]) ** 2
        values = np.linalg.eigvalsh(np.ldexp(symmetric(tuple(seen), self.columns()), -FINE))
        noise = to_float(own.moments_noise(CERTIFICATE)) / count
        of_number = noise * RADIUS**2 / own.weight if own.weight else 0.0
        return sandwich(values * square, count, noise * square, FAILS / 2, of_number)

    def expected_error(self, n: int) -> float:
        """Predict the root mean square of the noise's part, as a Frobenius norm in coordinates
        where the covariance is the identity.

        This is for n normal records whose rounds and search succeeded. Infinite below
        ``at_least`` records.
        """
        if n < self.least():
            return math.inf
        d, own = self.columns(), self.whitened()
        bound = own.bound(octave_of(n))
        across, along = responses(d, bound, self.outside)
        trace, inside = of_identity(d, bound, self.outside)
        noise = to_float(own.moments_noise(MOMENTS)) / (n * inside)
        longer = own.along_identity(trace)
        return noise * math.sqrt((d * (d + 1) / 2 - 1) / across**2 + (longer / along) ** 2)

    def expected_mean_error(self, n: int) -> float:
        """Predict the root mean square of the noise's part in the center, in coordinates where
        the covariance is the identity; 0 if the center is public.
        """
        if self.scale is None or n < self.least():
            return 0.0 if self.scale is None else math.inf
        return math.hypot(*self._center_errors(octave_of(n), n)[:2]) * math.sqrt(self.columns())

    def _center_errors(self, octave: int, count: float) -> tuple[float, float, float]:
        """Predict the standard deviations in each direction, in those of the records, of the
        center's noise, of what is left of earlier noise, and of (center without noise - mean of all
        records).
        """
        if self.mean_share is None:
            return self.shape().location_errors(count)
        d, own = self.columns(), self.whitened()
        bound = own.mean_bound(octave)
        noise = to_float(own.side_noise(self.mean_share)) * math.sqrt(bound) / count
        excess = solved_excess(d, math.sqrt(bound), "clip")
        return noise / mean_response(d, bound), 0.0, math.sqrt(excess / count)

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return the least n for which n records, none at the center, abstain with probability at
        most ``beta``.
        """
        own = self.whitened()
        if not own.adds:
            return self.fewest_records()
        allowed, noise = probability(beta, "beta") / 2, RoundedGaussian(UNIT)
        if self.has_signs:
            first = self.shape().minimum_n(beta=allowed)
        else:
            one = UNIT / own.side_noise(self._step_share())
            first = least_counted(self.least(), one, lambda k: noise.falls_short(k, allowed))
        one = UNIT * own.weight / (own.moments_noise(MOMENTS) * RADIUS**2)
        half = -(-self.least() // 2)
        return max(first, least_counted(half, one, lambda k: noise.falls_short(k, allowed)))

    def fewest_records(self) -> int:
        """Return ``least()``: fewer records, a public number under replace, are refused."""
        return 0 if self.adjacency is Adjacency.ADD_REMOVE else self.least()

    def least(self) -> int:
        """Return ``at_least``, or its default: that of the rounds; without rounds, the number
        that the moments and the search need.
        """
        if self.has_signs:
            return self.shape().least()
        if self.at_least is not None:
            return self.at_least
        moves, sides = (1, 1) if self.adjacency is Adjacency.ADD_REMOVE else (2, 4)
        share = (
            min(self._left(), self.rounds_share / self.rounds) if self.has_rounds else self._left()
        )
        for_moments = Fraction(8 * moves * self.columns() ** 3) / share
        for_sides = 9 * sides / self._step_share()
        enough = self.noise_multiplier * root_up(max(for_moments, for_sides), ROOT_BITS)
        return min(math.ceil(enough), 1 << 60)

    @property
    def has_rounds(self) -> bool:
        """Tell whether records are whitened in rounds; a single column never is."""
        return self.rounds > 0 and len(self.center) > 1

    @property
    def has_signs(self) -> bool:
        """Tell whether records are whitened by signs."""
        return self.has_rounds and self.method == "sign"

    def shape(self) -> SignCovariance:
        """Return the rounds of signs, with their share of the budget."""
        return _shape_of(self)

    def spectral(self) -> SpectralRounds:
        """Return the rounds of second moments, with their share of the budget."""
        return _spectral_of(self)

    def whitened(self) -> Whitened:
        """Return the stages after the rounds."""
        return _whitened_of(self)

    # --- public numbers -------------------------------------------------------------------------

    def _step_share(self) -> Fraction:
        """Return the part of mu^2 for a step of the search, which the number of records also
        takes where nothing else tells it.
        """
        adds = self.adjacency is Adjacency.ADD_REMOVE
        searched = self.has_rounds or self.largest is None
        steps = self.scale_steps * searched + (adds and not self.has_signs)
        return self.scale_share / max(steps, 1)

    def _left(self) -> Fraction:
        used = self.check_share + self.scale_share + (self.certify or 0) + (self.mean_share or 0)
        return 1 - used - (self.rounds_share if self.has_rounds else 0)

    def first_length(self) -> float | None:
        """Return the largest deviation of images under the first map, in cells; None if it is not
        public.
        """
        return None if self.largest is None else to_float(self.long() * (1 << START_BITS))

    def exponents(self) -> tuple[int, ...]:
        """Return the binary logarithm of each column's cell."""
        return exponents_of(self.cell, self.columns())

    def long(self) -> Fraction:
        """Return ``largest`` in cells of the column with the least cell; 0 if it is not given."""
        if self.largest is None:
            return Fraction(0)
        return exact(self.largest, "largest") / Fraction(2) ** min(self.exponents())

    def _cells(self) -> Floats:
        """Return the cell of each column, shape (d,)."""
        return finite(np.ldexp(np.ones(self.columns()), self.exponents()))

    # --- what the stages follow from ------------------------------------------------------------

    def _everybody(self, before: Transcripts) -> tuple[Integers, Integers]:
        """Return a threshold that every image exceeds."""
        row = [*start(self.columns()), -1]
        return np.array([row], np.int64), np.zeros(len(before), np.intp)

    def _shape_stages(self) -> tuple[str, ...]:
        return tuple(stage.name for stage in stages_of((self.shape().part(SHAPE),)))

    def _rows(self) -> Released[tuple[list[Row], Integers]]:
        """Return the map after the rounds, about the center that they found."""
        d = self.columns()
        if not self.has_rounds:
            return Released((), lambda before: ([start(d)], np.zeros(len(before), np.intp)))
        if not self.has_signs:
            return self.spectral().rows()
        shape = self.shape()

        def rows(before: Transcripts) -> tuple[list[Row], Integers]:
            maps, which = shape.maps(self.rounds, before.within(SHAPE))
            map_rows = [tuple(row) for row in maps.tolist()]
            if self.scale is not None:
                map_rows = [about_location(row, d, shape.constant()) for row in map_rows]
            return map_rows, which

        return Released(self._shape_stages(), rows)

    def _counts(self) -> Released[Floats]:
        """Return the first released number of records, shape (size,)."""
        if self.has_signs:
            shape = self.shape()
            return Released(
                self._shape_stages(), lambda before: shape.numbers(before.within(SHAPE))
            )
        unit = Fraction(1)
        if self.adjacency is Adjacency.ADD_REMOVE:
            unit = self.noise_multiplier * root_up(1 / self._step_share(), ROOT_BITS) / UNIT
        return Released(
            (COUNT,), lambda before: np.clip(in_units(before[COUNT][:, 0], unit), -1e18, 1e18)
        )


@lru_cache(maxsize=64)
def _shape_of(mechanism: GaussianCovariance) -> SignCovariance:
    share = mechanism.rounds_share
    return SignCovariance(
        adjacency=mechanism.adjacency,
        nonfinite=mechanism.nonfinite,
        noise_multiplier=mechanism.noise_multiplier * root_up(1 / share, ROOT_BITS),
        center=mechanism.center,
        cell=mechanism.cell,
        scale=mechanism.scale,
        rounds=mechanism.rounds,
        at_least=mechanism.at_least,
        precision=mechanism.precision,
    )


@lru_cache(maxsize=64)
def _spectral_of(mechanism: GaussianCovariance) -> SpectralRounds:
    exponents = mechanism.exponents()
    assert mechanism.kappa is not None
    return SpectralRounds(
        method=mechanism.method,
        rounds=mechanism.rounds,
        adds=mechanism.adjacency is Adjacency.ADD_REMOVE,
        multiplier=mechanism.noise_multiplier,
        share=mechanism.rounds_share / mechanism.rounds,
        center=Rationals.of(mechanism.center).cells(exponents),
        exponent=exponents[0],
        kappa=to_float(exact(mechanism.kappa, "kappa")),
        long=mechanism.first_length(),
        precision=mechanism.precision,
        counts=mechanism._counts(),
        least=mechanism.least(),
    )


@lru_cache(maxsize=64)
def _whitened_of(mechanism: GaussianCovariance) -> Whitened:
    exponents = mechanism.exponents()
    return Whitened(
        adds=mechanism.adjacency is Adjacency.ADD_REMOVE,
        multiplier=mechanism.noise_multiplier,
        center=Rationals.of(mechanism.center).cells(exponents),
        exponent=exponents if isinstance(mechanism.cell, tuple) else exponents[0],
        moved=mechanism.scale is not None,
        outside=mechanism.outside,
        precision=mechanism.precision,
        steps=mechanism.scale_steps,
        step_share=mechanism._step_share(),
        mean_share=mechanism.mean_share,
        moments_shares={MOMENTS: mechanism._left(), CERTIFICATE: mechanism.certify},
        rows=mechanism._rows(),
        counts=mechanism._counts(),
        least=mechanism.least(),
        long=None if mechanism.has_rounds else mechanism.first_length(),
    )
