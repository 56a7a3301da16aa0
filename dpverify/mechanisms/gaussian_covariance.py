"""``gaussian_covariance``: the covariance of normal records, whitened by private signs, clipped, calibrated."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Annotated, Any

import numpy as np

from dpverify.estimation.budget_shares import ROOT_BITS
from dpverify.estimation.clip_schedule import in_units
from dpverify.estimation.clipping import PerColumn
from dpverify.estimation.covariances import TYPICAL_BEYOND, CovarianceEstimate
from dpverify.estimation.handles import COUNT
from dpverify.estimation.rationals import Rationals
from dpverify.estimation.shapes import Concentrated, ShapeEstimate
from dpverify.estimation.sign_rounds import RADIUS, START_BITS, start, symmetric
from dpverify.estimation.whitening import (
    FARTHEST,
    Fit,
    about_location,
    best_bound,
    center_of,
    count_of,
    finite,
    fitted,
    length_within,
    octaves,
    per_record,
    rarely_longer,
    refined,
    responses,
    sandwich,
    threshold,
)
from dpverify.grid.cells import floor_log2
from dpverify.grid.joint import least_counted
from dpverify.grid.linear import Integers
from dpverify.grid.masks import Row, different_rows
from dpverify.grid.outer_products import DIAGONAL, LengthSides, SecondMoments
from dpverify.grid.queries import Count
from dpverify.grid.vector_queries import OneUnit, VectorQuery
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
MOMENTS, BEYOND, CERTIFICATE = Handle("moments"), Handle("beyond"), Handle("certificate")
_STEPS = 13  # 9 halvings to an eighth of an octave of lengths, and four steps that decide nothing
_FINE = 40  # bits of second moments in an estimate
_FAILS = 1e-2  # the probability that a certificate is wrong
_SHARES = ("rounds_share", "scale_share", "check_share", "certify")
Maps = Callable[[Transcripts], tuple[Integers, Integers]]


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
    outside: Annotated[str, one_of("clip", "mask")] = "clip"
    rounds_share: Share = Fraction(1, 4)
    scale_share: Share = Fraction(3, 100)
    check_share: Share = Fraction(1, 50)
    certify: Share | None = None
    at_least: Annotated[int, whole_from(1, most=1 << 60)] | None = None
    precision: Annotated[int, whole_from(2, most=40)] = 30

    def check_parameters(self) -> None:
        """Shares that leave something; a search or a bound; and what ``SignCovariance`` asks."""
        if self._left() <= 0:
            raise ValueError(
                f"{' + '.join(_SHARES)} = {1 - self._left()} leaves nothing for the moments; give shares that "
                "add up to less than 1."
            )
        if self.largest is not None and self._signs():
            raise ValueError(
                f"largest = {self.largest} with rounds of signs, which need no scale; leave one of them out."
            )
        if self.scale is not None and not self._signs():
            raise ValueError(
                "rounds = 0 with a scale: the center is found by the signs' rounds. Give a public center alone, or rounds."
            )
        if self.scale is not None and self.certify is not None:
            raise ValueError("certify is for a public center; leave out scale, or certify.")
        if self.scale is not None and len(self.center) == 1:
            raise ValueError("one column with an unknown center is for UnivariateGaussian.")
        if self._signs():
            self._shape()  # refuses a center or a cell that is not for the grid

    def columns(self) -> int:
        """The dimension."""
        return len(self.center)

    def replacement(self) -> float | tuple[float, ...]:
        """The center."""
        return self.center if len(self.center) > 1 else self.center[0]

    def plan(self) -> Plan:
        """The rounds, the search, the moments, the count, the certificate; without rounds, first the number."""
        if self._signs():
            found: Plan = (self._shape().part(SHAPE),)
        elif self._adds():
            everybody = LengthSides(*self._grid(), Released((), self._everybody), self._constant())
            found = (
                self._stage(COUNT, everybody, self._side_noise(self.scale_share / self._steps())),
            )
        else:
            found = (Stage(COUNT, Count(), NoNoise()),)
        if self._searches():
            found += tuple(self._step(step) for step in range(_STEPS))
        reads = tuple(stage.name for stage in stages_of(found))
        moments = self._second_moments(reads, self._balls)
        found += (self._stage(MOMENTS, moments, self._moments_noise(self._left())),)
        reads += (MOMENTS,)
        sides = LengthSides(*self._grid(), Released(reads, self._beyond), self._constant())
        found += (self._stage(BEYOND, sides, self._side_noise(self.check_share)),)
        if self.certify is not None:
            query = self._second_moments(reads, self._certifying)
            found += (self._stage(CERTIFICATE, query, self._moments_noise(self.certify)),)
        return found

    def estimate(self, transcript: Transcripts) -> CovarianceEstimate | Concentrated | Abstained:
        """The last moments taken back through their map."""
        shape = self._shape().estimate(transcript.within(SHAPE)) if self._signs() else None
        if isinstance(shape, (Concentrated, Abstained)):
            return shape
        if not self._counts(transcript)[0] >= self.least():
            return Abstained(f"fewer than {self.least()} records, by the released count")
        count, inside = (float(one[0]) for one in self._numbers(transcript, MOMENTS))
        seen = self._seen(transcript, MOMENTS, inside)
        floor = self._floor(count)
        fit = fitted(seen, self.columns(), _FINE, floor, self.outside) if count > 0 else None
        if fit is None:
            return Abstained("nearly no record is inside of the ball, by the released moments")
        return self._result(transcript, fit, count, shape)

    def _result(
        self, transcript: Transcripts, fit: Fit, count: float, shape: ShapeEstimate | None
    ) -> CovarianceEstimate:
        d, unit = self.columns(), to_float(self._shape_cell())
        *public, reach = self._balls(transcript)[0][0].tolist()
        matrix = np.array(public, np.float64).reshape(d, -1)[:, :d]
        with np.errstate(all="ignore"):
            factor = finite(np.linalg.solve(matrix, fit.factor) * reach * unit)
            location = finite(
                np.array(self.center) + center_of(tuple(public), d, self._constant()) * unit
            )
            value = finite(factor @ factor.T)
        noise = to_float(self._moments_noise(self._left())) / count
        sides = in_units(transcript[BEYOND][:, 0], self._side_noise(self.check_share) / UNIT)
        return CovarianceEstimate(
            value=value,
            count=count,
            spread=fit.spread * noise,
            trace_spread=fit.trace_spread * noise,
            factor=factor,
            location=location,
            location_deviation=None if shape is None else shape.location_deviation,
            beyond=(1 + float(sides[0]) / count) / 2,
            beyond_deviation=to_float(self._side_noise(self.check_share)) / (2 * count),
            certificate=self._certificate(transcript, count),
        )

    def expected_error(self, n: int) -> float:
        """The root mean square of the noise's part, as a Frobenius norm in the coordinates where the covariance is the identity.

        For n normal records about the center whose rounds and search succeeded. Infinite below ``at_least`` records.
        """
        if n < self.least():
            return math.inf
        d = self.columns()
        across, along = responses(d, self._bound(n), self.outside)
        noise = to_float(self._moments_noise(self._left())) / n
        return noise * math.sqrt((d * (d + 1) / 2 - 1) / across**2 + 1 / along**2)

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """The least n such that n records, none at the center, abstain with probability at most ``beta``.

        Of normal records; of others the rounds may end as ``Concentrated``.
        """
        if not self._adds():
            return self.fewest_records()
        allowed, noise = probability(beta, "beta") / 2, RoundedGaussian(UNIT)
        if self._signs():
            first = self._shape().minimum_n(beta=allowed)
        else:
            one = UNIT / self._side_noise(self.scale_share / self._steps())
            first = least_counted(self.least(), one, lambda k: noise.falls_short(k, allowed))
        one = UNIT * self._weight() / (self._moments_noise(self._left()) * RADIUS**2)
        return max(first, least_counted(1, one, lambda k: noise.falls_short(k, allowed)))

    def fewest_records(self) -> int:
        """Under replace: ``least``, decided on the public number of records."""
        return 0 if self._adds() else self.least()

    def least(self) -> int:
        """``at_least``, or its default: that of the rounds; without, what the moments and the search need."""
        if self._signs():
            return self._shape().least()
        if self.at_least is not None:
            return self.at_least
        square = Fraction(8 * self._moves() * self.columns() ** 3) / self._left()
        enough = self.noise_multiplier * root_up(square, ROOT_BITS)
        return math.ceil(max(enough, 3 * self._side_noise(self.scale_share / self._steps())))

    # --- public numbers -------------------------------------------------------------------------

    def _adds(self) -> bool:
        return self.adjacency is Adjacency.ADD_REMOVE

    def _signs(self) -> bool:
        return self.rounds > 0 and len(self.center) > 1

    def _searches(self) -> bool:
        return self.largest is None

    def _steps(self) -> int:
        """How many releases share ``scale_share``: the search's, and the number where nothing else gives one."""
        return _STEPS * self._searches() + (self._adds() and not self._signs())

    def _left(self) -> Fraction:
        used = self.check_share + (self.certify or 0)
        used += self.rounds_share if self._signs() else 0
        return 1 - used - (self.scale_share if self._steps() else 0)

    def _shape(self) -> SignCovariance:
        return _rounds_of(self)

    def _exponent(self) -> int:
        return floor_log2(exact(self.cell, "cell"))

    def _shape_cell(self) -> Fraction:
        return Fraction(2) ** self._exponent()

    def _constant(self) -> int:
        return 0 if self.scale is None else round(exact(self.scale, "scale") / self._shape_cell())

    def _grid(self) -> tuple[Row, int, int]:
        """The center in cells, the cell's exponent, and how many coordinates images have."""
        exponent = self._exponent()
        center = Rationals.of(self.center).cells((exponent,) * self.columns())
        return center, exponent, self.columns()

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

    def _side_noise(self, share: Fraction) -> Fraction:
        """The noise of one count, in records."""
        return self.noise_multiplier * root_up((1 if self._adds() else 4) / share, ROOT_BITS)

    def _bound(self, count: float) -> float:
        """Squared length at which to clip, in deviations, for about so many records."""
        mu = 1 / to_float(self.noise_multiplier * root_up(1 / self._left(), ROOT_BITS))
        moves = 1 if self._adds() else 2
        rounded = count_of(int(octaves(np.array([count]))[0]))
        return best_bound(self.columns(), rounded, mu, moves, self.outside)

    def _floor(self, count: float) -> float:
        """Below which an eigenvalue of the moments is taken for noise, in squared radii."""
        noise = to_float(self._moments_noise(self._left())) * math.sqrt(2 * self.columns())
        return noise / (4 * max(count, 1.0))

    # --- stages ---------------------------------------------------------------------------------

    def _stage(self, name: Handle, query: VectorQuery, noise: Fraction) -> Stage:
        unit = DIAGONAL * RADIUS**2 if isinstance(query, SecondMoments) else 1
        return Stage(name, OneUnit(query, noise * unit), RoundedGaussian(UNIT))

    def _second_moments(self, reads: tuple[str, ...], maps: Maps) -> SecondMoments:
        center, exponent, rows = self._grid()
        how: Any = {"constant": self._constant(), "weight": self._weight(), "reached": True}
        numbers = Released(reads, maps)
        return SecondMoments(center, exponent, rows, RADIUS, numbers, self.outside, **how)

    def _search(self) -> Search:
        return Search("length", 1, _STEPS)

    def _step(self, step: int) -> Stage:
        search = self._search()
        reads = self._first() + tuple(map(search.stage, range(step)))
        thresholds = Released(reads, partial(self._lengths, step))
        query = LengthSides(*self._grid(), thresholds, self._constant())
        noise = self._side_noise(self.scale_share / self._steps())
        return self._stage(Handle(search.stage(step)), query, noise)

    def _first(self) -> tuple[str, ...]:
        """What the map follows from."""
        if not self._signs():
            return ()
        return tuple(stage.name for stage in stages_of((self._shape().part(SHAPE),)))

    # --- from what was released to maps ---------------------------------------------------------

    def _everybody(self, before: Transcripts) -> tuple[Integers, Integers]:
        """A threshold that every image is longer than."""
        row = [*start(self.columns()), -1]
        return np.array([row], np.int64), np.zeros(len(before), np.intp)

    def _maps(self, before: Transcripts) -> tuple[list[Row], Integers]:
        """The map after the rounds, about the center that they found."""
        if not self._signs():
            return [start(self.columns())], np.zeros(len(before), np.intp)
        maps, which = self._shape().maps(self.rounds, before.within(SHAPE))
        rows = [tuple(row) for row in maps.tolist()]
        if self.scale is not None:
            rows = [about_location(row, self.columns()) for row in rows]
        return rows, which

    def _lengths(self, step: int, before: Transcripts) -> tuple[Integers, Integers]:
        """The map and this step's threshold."""
        maps, which = self._maps(before)
        nodes = self._search().nodes(step)(before)
        found, which = different_rows(np.column_stack([which, nodes]), "steps")
        rows = [(*maps[k], self._threshold(node)) for k, node in found]
        return np.array(rows, np.int64), which

    def _threshold(self, node: int) -> int:
        (middle,) = self._search().middles((node,))
        return min(threshold(middle, _STEPS), FARTHEST)

    def _counts(self, before: Transcripts) -> Floats:
        """The first released number of records, shape (size,)."""
        if self._signs():
            return self._shape().numbers(before.within(SHAPE))
        if not self._adds():
            return in_units(before[COUNT][:, 0], Fraction(1))
        noise = self._side_noise(self.scale_share / self._steps())
        return in_units(before[COUNT][:, 0], noise / UNIT)

    def _balls(self, before: Transcripts) -> tuple[Integers, Integers]:
        """The map, and how far images reach that are not clipped."""
        maps, which = self._maps(before)
        nodes = np.ones((len(before), 1), np.int64)
        if self._searches():
            nodes = self._search().nodes(_STEPS)(before)
        codes = np.column_stack([which, nodes, octaves(self._counts(before))])
        found, which = different_rows(codes, "balls")
        rows = [(*maps[k], self._reach(node, octave)) for k, node, octave in found]
        return np.array(rows, np.int64), which

    def _reach(self, node: int, octave: int) -> int:
        bound = self._bound(count_of(octave))
        if self.largest is None:
            long = self._threshold(node) / length_within(self.columns(), 0.5)
        else:
            cells = exact(self.largest, "largest") / self._shape_cell()
            long = to_float(cells) * (1 << START_BITS)
        return min(max(round(long * math.sqrt(bound)), 1), FARTHEST)

    def _numbers(self, before: Transcripts, stage: str) -> tuple[Floats, Floats]:
        """How many records there are, and how many of them count in these moments, each of shape (size,)."""
        every, share = self._counts(before), self._left()
        if stage == CERTIFICATE:
            assert self.certify is not None
            share = self.certify
        if not self._weight():
            return every, every
        per = self._moments_noise(share) * RADIUS**2 / (UNIT * self._weight())
        inside = in_units(before[stage][:, -1], per)
        return (every if self.outside == "mask" else inside), inside

    def _seen(self, before: Transcripts, stage: str, inside: float) -> Row:
        """Of a single draw, in 2^-40."""
        return tuple(self._rows(before, stage, np.array([inside]), _FINE)[0].tolist())

    def _rows(self, before: Transcripts, stage: str, inside: Floats, precision: int) -> Integers:
        """Second moments over the number of records, in 2^-precision squared radii, shape (size, d (d + 1) / 2)."""
        share = self._left() if stage == MOMENTS else self.certify
        assert share is not None
        filled = inside * to_float(UNIT / self._moments_noise(share))
        shown = per_record(before[stage], self.columns(), filled)
        return np.rint(np.ldexp(shown, precision)).astype(np.int64)

    def _fitted(self, before: Transcripts) -> tuple[list[tuple[Row, float]], Integers]:
        """The maps that make fits spheres, each with how long a deviation is in image cells, and which one a draw has."""
        numbers, which = self._balls(before)
        _, inside = self._numbers(before, MOMENTS)
        rows = self._rows(before, MOMENTS, inside, self.precision)
        codes = np.column_stack([which, octaves(self._counts(before)), rows])
        found, which = different_rows(codes, "fits")
        made = []
        for k, octave, *seen in found:
            *public, reach = numbers[k].tolist()
            how = (self.columns(), self.precision, self._floor(count_of(octave)), self.outside)
            row, long = refined(tuple(public), tuple(seen), *how)
            made.append((row, long * reach))
        return made, which

    def _after(self, length: float, before: Transcripts) -> tuple[Integers, Integers]:
        """The maps of fits, and so many of their deviations."""
        made, which = self._fitted(before)
        rows = [(*row, min(max(round(long * length), 1), FARTHEST)) for row, long in made]
        return np.array(rows, np.int64), which

    def _beyond(self, before: Transcripts) -> tuple[Integers, Integers]:
        return self._after(length_within(self.columns(), 1 - TYPICAL_BEYOND), before)

    # --- the certificate ------------------------------------------------------------------------

    def _certifying(self, before: Transcripts) -> tuple[Integers, Integers]:
        """The maps of fits, and a length that normal records rarely have."""
        numbers, which = self._fitted(before)
        octave = octaves(self._counts(before))
        found, which = different_rows(np.column_stack([which, octave]), "certificates")
        rows = []
        for k, one in found:
            row, long = numbers[k]
            length = rarely_longer(self.columns(), count_of(one), _FAILS)
            rows.append((*row, min(max(round(long * length), 1), FARTHEST)))
        return np.array(rows, np.int64), which

    def _certificate(self, transcript: Transcripts, count: float) -> tuple[float, float] | None:
        """Bounds on the covariance over ``value``, from moments that are clipped where hardly any record is."""
        if self.certify is None:
            return None
        _, inside = self._numbers(transcript, CERTIFICATE)
        seen = self._rows(transcript, CERTIFICATE, inside, _FINE)[0]
        values = np.linalg.eigvalsh(symmetric(tuple(seen.tolist()), self.columns()) / 2.0**_FINE)
        long = rarely_longer(
            self.columns(), count_of(int(octaves(self._counts(transcript))[0])), _FAILS
        )
        noise = to_float(self._moments_noise(self.certify)) / count
        return sandwich(values * long**2, self.columns(), count, noise * long**2, _FAILS)


@lru_cache(maxsize=64)
def _rounds_of(mechanism: GaussianCovariance) -> SignCovariance:
    """The mechanism's rounds with its share of the budget."""
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
