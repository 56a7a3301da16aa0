"""``gaussian_covariance``: the covariance of normal records, whitened by private signs, clipped, calibrated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any

import numpy as np

from dpverify.estimation.budget_shares import ROOT_BITS
from dpverify.estimation.clip_schedule import in_units
from dpverify.estimation.clipping import PerColumn, finite
from dpverify.estimation.covariances import TYPICAL_BEYOND, CovarianceEstimate
from dpverify.estimation.handles import COUNT
from dpverify.estimation.normal_fits import (
    Fit,
    best_bound,
    best_mean_bound,
    fitted,
    length_within,
    mean_response,
    per_record,
    quotients,
    rarely_longer,
    responses,
    sandwich,
)
from dpverify.estimation.rationals import Rationals
from dpverify.estimation.shapes import Concentrated
from dpverify.estimation.sign_rounds import RADIUS, START_BITS, start, symmetric
from dpverify.estimation.whitening import (
    Maps,
    Sphere,
    Spheres,
    about_location,
    centered,
    count_of,
    known,
    octaves,
    refined,
    searched,
    solved,
    thresholds,
    with_lengths,
)
from dpverify.grid.cells import floor_log2
from dpverify.grid.joint import least_counted
from dpverify.grid.linear import Integers
from dpverify.grid.masks import Row
from dpverify.grid.outer_products import DIAGONAL, FirstMoments, LengthSides, SecondMoments
from dpverify.grid.queries import Count
from dpverify.grid.vector_queries import OneUnit
from dpverify.mechanisms.sign_covariance import SignCovariance
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
from dpverify.plans.parameters import Share, one_of, positive, probability, whole_from
from dpverify.plans.plan import stages_of
from dpverify.plans.search import Search
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Exact, Floats, exact, root_up, to_float

SHAPE = "shape"
MEAN, MOMENTS = Handle("mean"), Handle("moments")
BEYOND, CERTIFICATE = Handle("beyond"), Handle("certificate")
_STEPS = 13  # 9 halvings to an eighth of an octave of lengths, and four steps that decide nothing
_FINE = 40  # bits of second moments in an estimate
_EVEN = 16.0  # variances after rounds of signs are within this factor of their mean
_FAILS = 1e-2  # the probability that a certificate is wrong
_SHARES = ("rounds_share", "scale_share", "check_share", "mean_share", "certify")


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianCovariance(Mechanism[CovarianceEstimate | Concentrated]):
    """The covariance matrix of normal records, with no bound on its eigenvalues or their ratio.

    Four steps, each on all records: ``rounds`` of private signs give a map after which the records are nearly
    spherical (``SignCovariance``); a search for the median of their lengths gives its scale; the second moments
    of the mapped records, clipped to the ball that makes the predicted error least, are released, and calibrated
    at the normal law; a count says whether as many records are far out as of that law.

    Data: shape (n, d), d = len(center) from 1 to 1024. Output: ``CovarianceEstimate``; ``Concentrated`` where some
    directions hold too many or too few of the records' signs; ``Abstained`` below ``at_least`` records.
    Claim: GaussianDP(1 / noise_multiplier) up to the grid's rounding, for both adjacencies and all data.
    What is estimated of records that are not normal is the scatter calibrated at the normal law.
    center, cell, scale, rounds, at_least, precision: as for ``SignCovariance``; with a ``scale`` the center is
    estimated too. rounds = 0 leaves out the signs, for records that are nearly spherical; one column needs none.
    largest: with rounds = 0, a public bound on the deviation in any direction, in place of the search.
    outside: records outside of the ball are clipped to it ("clip"), or left out ("mask"), for data that were
    truncated before.
    rounds_share, scale_share, check_share: of mu^2, for the rounds, the search and the last count.
    certify: of mu^2, for a release that says how far off ``value`` is at most, of normal records about a public
    center, except with probability 1/100: the lower end always, the upper one if it clipped no record.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: OURS; BDKU20 and KLSU19 (whitening in rounds), T87, DRS22 (Gaussian accounting).
    """

    center: PerColumn
    cell: Annotated[float, positive(as_given=True)]
    scale: Annotated[float, positive(as_given=True)] | None = None
    rounds: Annotated[int, whole_from(0, most=20)] = 8
    largest: Annotated[float, positive(as_given=True)] | None = None
    outside: Annotated[Any, one_of("clip", "mask")] = "clip"
    rounds_share: Share = Fraction(1, 4)
    scale_share: Share = Fraction(3, 100)
    check_share: Share = Fraction(1, 50)
    mean_share: Share | None = None
    certify: Share | None = None
    at_least: Annotated[int, whole_from(1, most=1 << 60)] | None = None
    precision: Annotated[int, whole_from(2, most=40)] = 30

    def check_parameters(self) -> None:
        """Shares that leave something for the moments, and parameters that fit together."""
        if self._left() <= 0:
            raise ValueError(
                f"{', '.join(_SHARES)} leave {self._left()} for the moments; give shares that add up to less than 1."
            )
        for wrong, why in self._contradictions():
            if wrong:
                raise ValueError(why)
        if self.has_rounds:
            self.shape()  # refuses a center that is not for the grid; elsewhere the queries do

    def _contradictions(self) -> tuple[tuple[bool, str], ...]:
        signs, unknown = self.has_rounds, self.scale is not None
        return (
            (
                self.largest is not None and signs,
                f"largest = {self.largest} with rounds of signs, which need no scale; leave one of them out.",
            ),
            (
                unknown and not signs,
                "scale: without rounds of signs (rounds = 0, or one column) no center is found. Leave out scale and give a "
                "public center; for one column there is UnivariateGaussian.",
            ),
            (
                unknown and self.certify is not None,
                "certify: the certificate is for a public center; leave out scale, or certify.",
            ),
            (
                self.mean_share is not None and not unknown,
                "mean_share: the mean is released where it is unknown; give a scale, or leave it out.",
            ),
        )

    def columns(self) -> int:
        """The dimension."""
        return len(self.center)

    def replacement(self) -> float | tuple[float, ...]:
        """The center."""
        return self.center if len(self.center) > 1 else self.center[0]

    def plan(self) -> Plan:
        """The rounds (or the number), the search, the mean, the moments, the count, the certificate."""
        if self.has_rounds:
            found: Plan = (self.shape().part(SHAPE),)
        elif self._adds():
            everybody = Released((), self._everybody)
            found = (self._sides(COUNT, everybody, self._step_share(), moved=False),)
        else:
            found = (Stage(COUNT, Count(), NoNoise()),)
        if self.largest is None:
            search, share = self._search(), self._step_share()
            for step in range(_STEPS):
                maps = thresholds(self._rows(), search, step)
                found += (self._sides(Handle(search.stage(step)), maps, share),)
        if self.mean_share is not None:
            found += (self._mean_stage(self.mean_share),)
        found += (self._moments_stage(MOMENTS, self._balls(), self._left()),)
        beyond = with_lengths(self._fits(), lambda one: _typical(self.columns()))
        found += (self._sides(BEYOND, beyond, self.check_share),)
        if self.certify is not None:
            maps = with_lengths(self._fits(), self._rarely_longer)
            found += (self._moments_stage(CERTIFICATE, maps, self.certify),)
        return found

    def estimate(self, transcript: Transcripts) -> CovarianceEstimate | Concentrated | Abstained:
        """The law whose clipped moments were released, taken back through their map."""
        if not self._counts()(transcript)[0] >= self.least():
            return Abstained(f"fewer than {self.least()} records, by the released count")
        sphere = self._spheres()(transcript)[0][0]
        count, inside = (one[0] for one in self._numbers(transcript, MOMENTS))
        (seen,) = self._seen(transcript, MOMENTS, _FINE).tolist()
        fit = fitted(tuple(seen), self.columns(), _FINE, self._floor(sphere), self.outside)
        if fit is None or not min(count, inside) > 0:
            return Abstained("nearly no record is inside of the ball, by the released moments")
        uneven = self._uneven(fit, sphere, float(count))
        return uneven or self._result(transcript, fit, sphere, float(count))

    def _uneven(self, fit: Fit, sphere: Sphere, count: float) -> Concentrated | None:
        """Directions that noise hides, and after rounds of signs those that are still far longer or shorter than others."""
        d = self.columns()
        hidden = fit.values < 2 * self._floor(sphere)
        share = fit.variances / fit.variances.mean()
        far = (np.maximum(share, 1 / share) > _EVEN) & self.has_rounds
        off = hidden | far
        if not off.any():
            return None
        along = fit.vectors[:, off].T @ np.array(sphere.row[: d * d], np.float64).reshape(d, d)
        return Concentrated.of(np.where(hidden, 0.0, share)[off], count, along)

    def _result(
        self, transcript: Transcripts, fit: Fit, sphere: Sphere, count: float
    ) -> CovarianceEstimate:
        d, unit = self.columns(), self._cells()
        noise = to_float(self._moments_noise(self._left())) / count
        sides = to_float(self._side_noise(self.check_share)) / count
        beyond = in_units(transcript[BEYOND][:, 0], Fraction(1, UNIT))
        with np.errstate(all="ignore"):
            image = fit.factor * sphere.long * self._radius(sphere)
            factor = finite(solved(sphere.row, d, image) * unit[:, np.newaxis])
            value = finite(factor @ factor.T)
            location, deviation = self._location(transcript, sphere, factor, count)
        return CovarianceEstimate(
            value=value,
            count=count,
            spread=fit.spread * noise,
            trace_spread=fit.trace_spread * noise,
            factor=factor,
            location=location,
            location_deviation=deviation,
            beyond=(1 + float(beyond[0]) * sides) / 2,
            beyond_deviation=sides / 2,
            certificate=self._certificate(transcript, count),
        )

    def _location(
        self, transcript: Transcripts, sphere: Sphere, factor: Floats, count: float
    ) -> tuple[Floats, Floats | None]:
        """The center, and the deviation of its noise where it was estimated."""
        d = self.columns()
        center = np.array(self.center)
        if self.scale is None:
            return center, None
        moved = np.array(sphere.row[d * d :], np.float64)
        lengths = np.linalg.norm(factor, axis=1)
        if self.mean_share is None:
            last = self.shape().spread(count) / math.sqrt(2)
        else:
            bound = self._mean_bound(sphere)
            noise = to_float(self._mean_noise(self.mean_share)) * math.sqrt(bound) / count
            last = noise / mean_response(d, bound)
        return finite(center + moved * self._cells()), finite(lengths * last)

    def expected_error(self, n: int) -> float:
        """The root mean square of the noise's part, as a Frobenius norm where the covariance is the identity.

        For n normal records whose rounds and search succeeded. Infinite below ``at_least`` records.
        """
        if n < self.least():
            return math.inf
        d, octave = self.columns(), int(octaves(np.array([float(n)]))[0])
        across, along = responses(d, self._bound(octave), self.outside)
        noise = to_float(self._moments_noise(self._left())) / n
        return noise * math.sqrt((d * (d + 1) / 2 - 1) / across**2 + 1 / along**2)

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """The least n such that n records, none at the center, abstain with probability at most ``beta``."""
        if not self._adds():
            return self.fewest_records()
        allowed, noise = probability(beta, "beta") / 2, RoundedGaussian(UNIT)
        if self.has_rounds:
            first = self.shape().minimum_n(beta=allowed)
        else:
            one = UNIT / self._side_noise(self._step_share())
            first = least_counted(self.least(), one, lambda k: noise.falls_short(k, allowed))
        one = UNIT * self._weight() / (self._moments_noise(self._left()) * RADIUS**2)
        return max(first, least_counted(1, one, lambda k: noise.falls_short(k, allowed)))

    def fewest_records(self) -> int:
        """Under replace: ``least``, decided on the public number of records."""
        return 0 if self._adds() else self.least()

    def least(self) -> int:
        """``at_least``, or its default: that of the rounds; without, what the moments and the search need."""
        if self.has_rounds:
            return self.shape().least()
        if self.at_least is not None:
            return self.at_least
        square = Fraction(8 * self._moves() * self.columns() ** 3) / self._left()
        enough = self.noise_multiplier * root_up(square, ROOT_BITS)
        return math.ceil(max(enough, 3 * self._side_noise(self._step_share())))

    @property
    def has_rounds(self) -> bool:
        """Whether records are whitened by signs: one column never is."""
        return self.rounds > 0 and len(self.center) > 1

    def shape(self) -> SignCovariance:
        """The rounds of signs, with their share of the budget."""
        return _shape_of(self)

    # --- public numbers -------------------------------------------------------------------------

    def _adds(self) -> bool:
        return self.adjacency is Adjacency.ADD_REMOVE

    def _step_share(self) -> Fraction:
        """Of mu^2, for a step of the search, and for the number where nothing else gives one."""
        steps = _STEPS * (self.largest is None) + (self._adds() and not self.has_rounds)
        return self.scale_share / max(steps, 1)

    def _left(self) -> Fraction:
        used = self.check_share + self.scale_share + (self.certify or 0) + (self.mean_share or 0)
        return 1 - used - (self.rounds_share if self.has_rounds else 0)

    def _exponent(self) -> int:
        return floor_log2(exact(self.cell, "cell"))

    def _cells(self) -> Floats:
        """The cell of each column, shape (d,)."""
        return np.ldexp(np.ones(self.columns()), self._exponent())

    def _moves(self) -> Fraction:
        """The squared sensitivity of moments and number, in squared squares of the radius."""
        return 1 + Fraction(self._weight(), RADIUS**2) ** 2 if self._adds() else Fraction(2)

    def _weight(self) -> int:
        """Of the number beside the moments: none where it is public, all that is free with a mask."""
        if self._adds():
            return RADIUS**2 // 8
        return RADIUS**2 if self.outside == "mask" else 0

    def _moments_noise(self, share: Fraction) -> Fraction:
        """The noise of a diagonal entry, in records that fill the ball along it."""
        return self.noise_multiplier * root_up(self._moves() / share, ROOT_BITS)

    def _mean_noise(self, share: Fraction) -> Fraction:
        """The noise of the mean in each direction, in records at the ball's end."""
        return self.noise_multiplier * root_up((1 if self._adds() else 4) / share, ROOT_BITS)

    _side_noise = _mean_noise  # a count of one side or the other moves alike

    def _mu(self, share: Fraction) -> float:
        return 1 / to_float(self.noise_multiplier * root_up(1 / share, ROOT_BITS))

    def _bound(self, octave: int) -> float:
        """Squared length at which moments are clipped, in deviations, for about so many records."""
        moves, weight = (1, 1 / 8) if self._adds() else (2, float(self.outside == "mask"))
        n, mu = count_of(octave), self._mu(self._left())
        return best_bound(self.columns(), n, mu, moves, self.outside, weight)

    def _radius(self, sphere: Sphere) -> float:
        return math.sqrt(self._bound(sphere.octave))

    def _mean_bound(self, sphere: Sphere) -> float:
        moves = 1 if self._adds() else 2
        assert self.mean_share is not None
        return best_mean_bound(
            self.columns(), count_of(sphere.octave), self._mu(self.mean_share), moves
        )

    def _floor(self, sphere: Sphere) -> float:
        """Below which an eigenvalue of the moments is taken for noise, in squared radii."""
        noise = to_float(self._moments_noise(self._left())) * math.sqrt(2 * self.columns())
        return noise / (4 * count_of(sphere.octave))

    def _rarely_longer(self, sphere: Sphere) -> float:
        return rarely_longer(self.columns(), count_of(sphere.octave), _FAILS / 2)

    # --- stages ---------------------------------------------------------------------------------

    def _images(self, maps: Maps, *, moved: bool = True) -> dict[str, Any]:
        """What all queries of images have."""
        exponent, rows = self._exponent(), self.columns()
        center = Rationals.of(self.center).cells((exponent,) * rows)
        own: dict[str, Any] = {"center": center, "exponent": exponent, "rows": rows, "maps": maps}
        return own | {"moved": moved and self.scale is not None}

    def _sides(self, name: Handle, maps: Maps, share: Fraction, *, moved: bool = True) -> Stage:
        query = LengthSides(**self._images(maps, moved=moved))
        return Stage(name, OneUnit(query, self._side_noise(share)), RoundedGaussian(UNIT))

    def _moments_stage(self, name: Handle, maps: Maps, share: Fraction) -> Stage:
        how: Any = {"radius": RADIUS, "how": self.outside, "reached": True}
        query = SecondMoments(**self._images(maps), **how, weight=self._weight())
        scale = self._moments_noise(share) * DIAGONAL * RADIUS**2
        return Stage(name, OneUnit(query, scale), RoundedGaussian(UNIT))

    def _mean_stage(self, share: Fraction) -> Stage:
        maps = with_lengths(self._searched(), lambda one: math.sqrt(self._mean_bound(one)))
        how: Any = {"radius": RADIUS, "how": "clip", "reached": True}
        query = FirstMoments(**self._images(maps), **how)
        return Stage(MEAN, OneUnit(query, self._mean_noise(share) * RADIUS), RoundedGaussian(UNIT))

    def _search(self) -> Search:
        return Search("length", 1, _STEPS)

    # --- what follows from what was released ----------------------------------------------------

    def _everybody(self, before: Transcripts) -> tuple[Integers, Integers]:
        """A threshold that every image is longer than."""
        row = [*start(self.columns()), -1]
        return np.array([row], np.int64), np.zeros(len(before), np.intp)

    def _rows(self) -> Released[tuple[list[Row], Integers]]:
        """The map after the rounds, about the center that they found."""
        d = self.columns()
        if not self.has_rounds:
            return Released((), lambda before: ([start(d)], np.zeros(len(before), np.intp)))
        shape = self.shape()

        def rows(before: Transcripts) -> tuple[list[Row], Integers]:
            maps, which = shape.maps(self.rounds, before.within(SHAPE))
            found = [tuple(row) for row in maps.tolist()]
            if self.scale is not None:
                found = [about_location(row, d, shape.constant()) for row in found]
            return found, which

        return Released(self._shape_stages(), rows)

    def _shape_stages(self) -> tuple[str, ...]:
        return tuple(stage.name for stage in stages_of((self.shape().part(SHAPE),)))

    def _counts(self) -> Released[Floats]:
        """The first released number of records, shape (size,)."""
        if self.has_rounds:
            shape = self.shape()
            return Released(
                self._shape_stages(), lambda before: shape.numbers(before.within(SHAPE))
            )
        unit = self._side_noise(self._step_share()) / UNIT if self._adds() else Fraction(1)
        return Released((COUNT,), lambda before: in_units(before[COUNT][:, 0], unit))

    def _searched(self) -> Spheres:
        """The maps with the length of a deviation."""
        if self.largest is None:
            return searched(self._rows(), self._counts(), self._search(), self.columns())
        cells = exact(self.largest, "largest") * (1 << START_BITS) / Fraction(2) ** self._exponent()
        return known(self._rows(), self._counts(), to_float(cells))

    def _spheres(self) -> Spheres:
        """The same about the released mean."""
        if self.mean_share is None:
            return self._searched()
        unit = to_float(UNIT / self._mean_noise(self.mean_share))

        def mean(before: Transcripts) -> Integers:
            values = before[MEAN].astype(np.float64)
            return quotients(values, self._counts()(before) * unit, self.precision)

        def length(one: Sphere) -> float:
            bound = self._mean_bound(one)
            return math.sqrt(bound) / mean_response(self.columns(), bound)

        reads = (*self._counts().reads, MEAN)
        found = Released(reads, mean)
        return centered(self._searched(), found, self.columns(), self.precision, length)

    def _balls(self) -> Maps:
        return with_lengths(self._spheres(), self._radius)

    def _fits(self) -> Spheres:
        """The maps that make fits spheres."""
        spheres = self._spheres()
        reads = tuple(dict.fromkeys((*spheres.reads, *self._counts().reads, MOMENTS)))
        seen = Released(reads, lambda before: self._seen(before, MOMENTS, self.precision))
        law = (self.outside, self._radius, self._floor)
        return refined(spheres, seen, self.columns(), self.precision, law)

    def _numbers(self, before: Transcripts, stage: str) -> tuple[Floats, Floats]:
        """How many records there are, and how many of them count in these moments, each of shape (size,)."""
        every = self._counts()(before)
        if not self._weight():
            return every, every
        share = self._left() if stage == MOMENTS else self.certify
        per = self._moments_noise(share or self._left()) * RADIUS**2 / (UNIT * self._weight())
        inside = in_units(before[stage][:, -1], per)
        return (every if self.outside == "mask" else inside), inside

    def _seen(self, before: Transcripts, stage: str, precision: int) -> Integers:
        """Second moments over the number of records, in 2^-precision squared radii, shape (size, d (d + 1) / 2)."""
        share = self._left() if stage == MOMENTS else self.certify
        unit = to_float(UNIT / self._moments_noise(share or self._left()))
        filled = self._numbers(before, stage)[1] * unit
        return per_record(before[stage], self.columns(), filled, precision)

    def _certificate(self, transcript: Transcripts, count: float) -> tuple[float, float] | None:
        """Bounds on the covariance over ``value``, from moments that are clipped where hardly any record is."""
        if self.certify is None:
            return None
        d = self.columns()
        (seen,) = self._seen(transcript, CERTIFICATE, _FINE).tolist()
        square = self._rarely_longer(self._spheres()(transcript)[0][0]) ** 2
        values = np.linalg.eigvalsh(np.ldexp(symmetric(tuple(seen), d), -_FINE))
        noise = to_float(self._moments_noise(self.certify)) / count
        return sandwich(values * square, count, noise * square, _FAILS / 2)


def _typical(d: int) -> float:
    """The length that one in ten normal records exceeds."""
    return length_within(d, 1 - TYPICAL_BEYOND)


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
