"""``refined_mean``: a rescaled mean as center, then one masked sum around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np

from dpverify.estimation.budget_shares import Tail, default_tail
from dpverify.estimation.clipping import Numbers, PublicRadius
from dpverify.estimation.friendly_means import (
    CORES,
    Expected,
    Filters,
    Numbered,
    ball_after,
    balls,
    bounded_float,
    check_shared,
    noise_length,
    number_kept,
    spread_of,
    with_covariance,
    within_reach,
)
from dpverify.estimation.handles import SUM_AND_COUNT
from dpverify.estimation.results import VectorMeanEstimate
from dpverify.estimation.scale_ladder import (
    ON_RUNG,
    LadderMultiplier,
    default_ladder,
    ladder_plan,
    on_rung,
    rung_of,
)
from dpverify.estimation.two_balls import (
    ENOUGH,
    NormalRecords,
    TwoBalls,
    combined,
    directions,
    left_of_noise,
    mapped,
)
from dpverify.grid.drawn_in import DrawnInSum, TwoBallSum, tilt
from dpverify.grid.linear import Integers
from dpverify.grid.masks import different
from dpverify.grid.rounding import rounded_multiples
from dpverify.grid.shapes import Matrix, Shape, shape_of, tail_radius
from dpverify.grid.transcript_queries import weight_of
from dpverify.mechanisms.rescaled_mean import RescaledMean
from dpverify.plans import (
    UNIT,
    Abstained,
    Mechanism,
    Plan,
    Released,
    RoundedGaussian,
    Stage,
    Transcripts,
)
from dpverify.plans.parameters import CHOSEN, Rational, Share, positive, probability
from dpverify.plans.plan import stages_of
from dpverify.privacy import Adjacency, ApproxDP, Guarantee, calibrate
from dpverify.privacy.adjacency import Nonfinite
from dpverify.privacy.guarantees import ApproximateGaussianDP
from dpverify.privacy.numbers import Exact, Floats, exact, root_down, settle, to_float, whole
from dpverify.randomness.bits import IntArray
from dpverify.transformations.means import MEAN, BasicCoreMean, CoreMean

_SHARES = (0.02, 0.04, 0.08, 0.15, 0.25, 0.4, 0.55, 0.7, 0.8)
_RARE = (0.001, 0.002, 0.005, 0.01, 0.02, 0.04)
_MOST_RARE = 0.1  # largest share of records that are drawn in to the ball
_MOST_NOISE = 2 / 3  # largest noise, in sampling errors, with which there are two balls
_NUMBER = 8  # the radius over a record's weight in the number
_MOST = 1e140  # stands for every larger number in estimates: sums and squares of such are finite


@dataclass(frozen=True, slots=True, kw_only=True)
class RefinedMean(Mechanism[VectorMeanEstimate]):
    """The mean of vectors, with no bound on where it is: ``RescaledMean``, then once more around
    its result.

    A rescaled mean for a small share of the budget is a public center. Then the records about it
    (after the map M^(-1/4)) are summed and counted under one noise: records outside of a ball are
    drawn in to it, and those beyond twice its radius, outliers, are left out. One record moves
    that sum by the radius, not by the distance of friends, and the number needs no shift: at
    large n the noise is about half of the rescaled mean's.

    With an inner_ratio records are summed in a smaller ball as well, under the same noise. What
    the larger ball adds is then known apart, and is shrunk towards 0 as far as its noise explains
    it. Of normal records it is small: with few records the noise is about that of the smaller
    ball, with many (or a large epsilon) that of the larger one. Whatever the records are, it is
    in the mean square no more than that of the larger one alone, but for rounding to cells
    (spec/theory/two_balls.py). Shrinking moves single coordinates: where what the larger ball
    adds of one skewed column is about two deviations of its noise, that column's interval covers
    less than it states, 67 to 76% in the worst case measured. ``inner_ratio=None`` has no such
    case.

    Data, output, matrix, origin, radius, n_max, tail, filter: as for ``RescaledMean``.
    record_radius: the radius of the ball, after the map; the released radius adds the center's
    own error in quadrature. Few records should be outside: of skewed records the part beyond the
    ball is lost.
    inner_ratio: the radius of the smaller ball over that of the larger one, in (0, 1); None for
    one ball.
    center_multiplier: the noise multiplier of the first stage.
    center_epsilon: with the basic filter, the epsilon that the first stage claims. ``for_budget``
    chooses both for the least noise at n_max.
    Claim: with the Gaussian filter approximate GDP,
    mu^2 = 1 / center_multiplier^2 + 1 / noise_multiplier^2 and the rescaled mean's delta; with
    the basic one, the composition.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: OURS; DJYZZ24, Algorithm 1, is the first stage.
    """

    matrix: Numbers | Matrix = field(hash=False)  # it is long, and searches look mechanisms up
    radius: PublicRadius
    record_radius: Annotated[float, positive(as_given=True)]
    n_max: Expected
    tail: Tail
    center_multiplier: Annotated[Rational, positive()]
    filter: Filters = "weights"
    origin: Numbers | None = None
    center_epsilon: Rational | None = None
    ladder_multiplier: LadderMultiplier = None
    inner_ratio: Share | None = None

    def check_parameters(self) -> None:
        """Check as ``RescaledMean`` does, and that the basic filter alone has a center_epsilon."""
        check_shared(self)
        if (self.filter == "basic") is (self.center_epsilon is None):
            raise ValueError(
                f"center_epsilon = {self.center_epsilon} with filter={self.filter!r}: the basic "
                "filter needs one, the Gaussian filter has none."
            )
        if self.center_epsilon is not None:
            settle(self, center_epsilon=exact(self.center_epsilon, "center_epsilon"))

    if TYPE_CHECKING:  # what ``calibrated_for`` chooses may be left out

        @classmethod
        def for_budget(  # type: ignore[override]
            cls,
            budget: Guarantee,
            /,
            *,
            adjacency: Adjacency,
            nonfinite: Nonfinite = "refuse",
            matrix: Numbers | Matrix = CHOSEN,
            radius: PublicRadius = CHOSEN,
            record_radius: Annotated[float, positive(as_given=True)] = CHOSEN,
            n_max: Expected,
            tail: Tail = CHOSEN,
            center_multiplier: Annotated[Rational, positive()] = CHOSEN,
            filter: Filters = "weights",
            origin: Numbers | None = None,
            center_epsilon: Rational | None = None,
            ladder_multiplier: LadderMultiplier = CHOSEN,
            inner_ratio: Share | None = CHOSEN,
            covariance: Any = None,
            columns: int = CHOSEN,
            trace: float = CHOSEN,
            largest: float = CHOSEN,
        ) -> Self:
            """Make the mechanism with the least noise for the budget; see ``calibrated_for``."""

    @classmethod
    def calibrated_for(
        cls, budget: Guarantee, *, adjacency: Adjacency, covariance: Any = None, **parameters: Any
    ) -> Self:
        """Build the mechanism whose claim is ``budget``, with the shares of least noise at n_max
        records.

        covariance, or columns, trace, largest: as for ``RescaledMean``. There are two balls with
        enough directions that matter (tr M^(1/2) is at least four times the largest eigenvalue),
        where n_max normal records have less expected error than with one, and where the outer
        one's noise at n_max is at most two thirds of the sampling error:
        with more noise, what it adds of skewed data does not show. A normal record exceeds the
        smaller radius with probability 1/2 at most, and the record_radius with probability 1 /
        (2 sqrt(n_max)). Otherwise there is one ball, exceeded with probability at most 2 /
        sqrt(n_max). Either is at most 1/10, and the loss for skewed data is then below the
        sampling error. The radius is the one with the least noise on the center, which may lean
        to the bulk of skewed data. Given parameters are kept.
        """
        given = dict(parameters)
        own_radius = "radius" in parameters
        values = with_covariance(parameters, covariance)
        if values is not None:
            _choose_balls(values, parameters)
            if not own_radius:
                parameters["radius"] = center_radius(values)
        elif "record_radius" not in parameters:
            raise TypeError(
                "record_radius cannot be chosen without a covariance; give covariance or both."
            )
        chosen = parameters.setdefault("filter", "weights")
        if "center_multiplier" not in parameters:
            parameters.update(_shared(budget, adjacency, chosen, parameters))
        elif "tail" not in parameters:
            parameters["tail"] = default_tail(budget, adjacency, chosen)
        made = super(RefinedMean, cls).calibrated_for(budget, adjacency=adjacency, **parameters)
        if values is None or made.inner_ratio is None or "inner_ratio" in given:
            return made
        own = {**given, "inner_ratio": None}
        one = cls.calibrated_for(budget, adjacency=adjacency, covariance=covariance, **own)
        expected, outer = made._expected(made.n_max, values)
        noise = noise_length(made._shape(), made.core().nearness, outer)
        trace = values.sum()
        if covariance is not None:
            trace = np.trace(covariance) if np.ndim(covariance) == 2 else np.sum(covariance)
        if noise > _MOST_NOISE * math.sqrt(trace / made.n_max):
            return one
        return made if expected < one._expected(one.n_max, values)[0] else one

    @classmethod
    def where_it_helps(
        cls, budget: Guarantee, *, adjacency: Adjacency, **parameters: Any
    ) -> RefinedMean | RescaledMean:
        """Return this mechanism or ``RescaledMean``, both for ``budget``: the one with less noise
        at n_max.

        After the map the center's noise is sqrt(d) times as long as in any one direction, and the
        ball must make up for it: in high dimension, or with few records, one stage has less noise
        than two.
        Parameters: as for ``for_budget``, from the covariance (or trace, largest and columns),
        n_max.
        """
        first = RescaledMean.for_budget(budget, adjacency=adjacency, **parameters)
        try:
            both = cls.calibrated_for(budget, adjacency=adjacency, **parameters)
        except ValueError:  # valid for one stage: the budget has no room for two
            return first
        noises = [one.expected_noise(one.n_max) * one.radius for one in (first, both)]
        return both if noises[1] < noises[0] else first

    def columns(self) -> int:
        """Return the number of columns."""
        return len(self.matrix)

    def core(self) -> CoreMean:
        """Return the first stage."""
        nearness = self._shape().nearness(exact(self.radius, "radius"))
        shared = (self.adjacency, nearness, self.center_multiplier, self.n_max, self.tail)
        if self.filter == "basic":
            return BasicCoreMean(*shared, self.center_epsilon)
        return CORES[self.filter](*shared)

    def plan(self) -> Plan:
        """Release the rescaled mean, then the masked sum and number around it; on the ladder's
        rung, where there is one.
        """
        if self.ladder_multiplier is not None:
            return ladder_plan(self, self.core().nearness, self.ladder_multiplier)
        return (*self.core().plan, Stage(SUM_AND_COUNT, self._sum(), RoundedGaussian(UNIT)))

    def estimate(self, transcript: Transcripts) -> VectorMeanEstimate | Abstained:
        """Return center + noisy sum / noisy number; the center alone for too small a number."""
        if transcript.stopped is not None:
            return Abstained(transcript.stopped)
        if self.ladder_multiplier is not None:
            here: RefinedMean = on_rung(self, rung_of(transcript, self.ladder_multiplier))
            return here.estimate(transcript.within(ON_RUNG))
        core, shape = self.core(), self._shape()
        total = self._stage(SUM_AND_COUNT).query
        assert isinstance(total, (DrawnInSum, TwoBallSum))
        ((numbers,), _) = _numbers(transcript, total.reads)
        noise, radius = ball_after(core, self._share(), numbers)
        mean = rounded_multiples(transcript[MEAN], [noise / UNIT])
        point = within_reach(mean)[0].astype(np.float64)
        nearness = core.nearness
        scale = min(to_float(total.unit(radius)), _MOST)
        own = [bounded_float(v) * scale / 2.0**40 for v in transcript.numbers(SUM_AND_COUNT)]
        d, small = len(point), total.inside(radius) if isinstance(total, TwoBallSum) else radius
        weight, moved, cut = weight_of(small), np.array(own[:d]), np.zeros(d)
        number, kept = own[d] / weight, float(number_kept(transcript))
        if number < kept / 4:  # the center is far from the data, or the radius too small
            spread = spread_of(shape, nearness, min(to_float(noise), _MOST))
            return VectorMeanEstimate(
                shape.place(point, nearness), kept, spread, np.zeros_like(point)
            )
        noisy = scale
        if isinstance(total, TwoBallSum):
            balls = TwoBalls(small, radius, float(tilt(small, radius)), scale)
            moved, noisy, cut = combined(shape, nearness, balls, moved, np.array(own[d + 1 :]))
        step = np.clip(moved / number, -_MOST, _MOST)
        along = shape.back(step, nearness) * (scale / weight / number)
        value, spread = (
            shape.place(point + step, nearness),
            spread_of(shape, nearness, noisy / number),
        )
        return VectorMeanEstimate(
            value, number, spread, along, count_deviation=scale / weight, cut=cut / number
        )

    def expected_noise(self, n: int) -> float:
        """Predict about the noise's standard deviation after the map, in radii of friends; see
        ``RescaledMean``.
        """
        return self._expected(n, mapped(self._shape()))[0]

    def expected_error(self, n: int) -> float:
        """Predict the root mean square distance from the records' mean, in the data's units, for n
        records that are all friends and within the ball about the first center.

        With an inner_ratio they are normal with covariance M: what the outer ball adds of them is
        not quite 0. Of skewed records the noise is up to that of one ball. Infinite where too few
        agree.
        """
        return noise_length(self._shape(), self.core().nearness, self.expected_noise(n))

    def _expected(self, n: int, values: Floats) -> tuple[float, float]:
        """Predict ``expected_noise`` where a record's covariance after the map has these
        eigenvalues, and that of the outer ball alone.
        """
        first = self.core().expected_noise(n)
        if not math.isfinite(first):
            return math.inf, math.inf
        sides = 2.0 if self.adjacency is Adjacency.REPLACE else math.hypot(1, 1 / _NUMBER)
        multiplier = sides * to_float(self.noise_multiplier)
        own, ratio, left = float(self.radius), 1.0, 1.0
        radius = math.hypot(self.record_radius / own, first * math.sqrt(self.columns()))
        if self.inner_ratio is not None:
            ratio = to_float(self.inner_ratio)
            records = NormalRecords(n, values, first * own, multiplier)
            left = left_of_noise(records.signal(ratio * radius * own, radius * own), self._shape())
        number = _NUMBER * first * math.sqrt(2 / (1 + ratio))
        both = math.hypot(radius * math.sqrt(ratio**2 + (1 - ratio**2) * left), number)
        return multiplier * both / n, multiplier * math.hypot(radius, number) / n

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return the first stage's ``minimum_n``."""
        allowed = probability(beta, "beta")
        return self.core().minimum_n(allowed)

    def _sum(self) -> DrawnInSum | TwoBallSum:
        core = self.core()
        place = Released(tuple(stage.name for stage in stages_of(core.plan)), self._places)
        shared = (core.nearness, self.noise_multiplier, self.adjacency, place)
        if self.inner_ratio is None:
            return DrawnInSum(*shared)
        return TwoBallSum(*shared, self.inner_ratio)

    def _places(self, batch: Transcripts) -> tuple[Integers, Integers]:
        """Return where the masked sum is taken, by what was released: centers and radii, in
        cells.
        """
        core, share = self.core(), self._share()
        numbers, which = _numbers(batch, tuple(batch.values))
        known = balls(core, share, numbers)
        points = within_reach(rounded_multiples(batch[MEAN], [unit for unit, _ in known], which))
        return points, np.array([radius for _, radius in known], np.int64)[which]

    def _share(self) -> Fraction:
        """Return the radius for records over that for friends."""
        return exact(self.record_radius, "record_radius") / exact(self.radius, "radius")

    def _shape(self) -> Shape:
        return shape_of(self.matrix, self.origin)[1]


def _numbers(batch: Transcripts, first: Sequence[str]) -> tuple[list[Numbered], IntArray]:
    """List what was released except the mean, each combination once, and tell which one each
    transcript has.
    """
    names = [name for name in first if name != MEAN]
    which = np.zeros(len(batch), np.intp)
    for name in names:
        seen, column = different(batch.values[name][:, 0])
        which = different(which * len(seen) + column)[1]
    one = np.zeros(which.max(initial=-1) + 1, np.intp)
    one[which] = np.arange(len(batch))
    return [tuple((name, int(batch.values[name][i, 0])) for name in names) for i in one], which


def _choose_balls(values: Floats, parameters: dict[str, Any]) -> None:
    """Choose the radii that are not given: two where enough directions matter, otherwise one."""
    root = math.sqrt(whole(parameters["n_max"], "n_max"))
    if "inner_ratio" not in parameters:
        shape = shape_of(parameters["matrix"], parameters.get("origin"))[1]
        if directions(shape)[0] < ENOUGH:
            parameters["inner_ratio"] = None
    one = parameters.get("inner_ratio", ...) is None
    rare = min(_MOST_RARE, 2 / root if one else 1 / (2 * root))
    outer = parameters.setdefault("record_radius", tail_radius(values, rare))
    if "inner_ratio" not in parameters:
        ratio = Fraction(math.ceil(2**12 * tail_radius(values, 0.5) / outer), 2**12)
        parameters["inner_ratio"] = ratio if 0 < ratio < 1 else None


def center_radius(values: Floats) -> float:
    """Choose a radius lambda(p) that pairs exceed with probability at most p, for the p of least
    lambda(p) / (1 - 4 p), which the center's noise is proportional to.
    """
    return min(
        (radius / (1 - 4 * p), radius) for p in _RARE for radius in (tail_radius(2 * values, p),)
    )[1]


def _shared(
    budget: Guarantee, adjacency: Adjacency, filter_: str, parameters: dict[str, Any]
) -> dict[str, Any]:
    """Choose the first stage's part of the budget: of a few shares, the one of least noise at
    n_max records, preferring those with which n_max records rarely abstain.
    """
    if not isinstance(budget, ApproxDP):
        raise ValueError(
            f"budget = {budget}: give center_multiplier and tail, or an ApproxDP budget."
        )
    shared = {k: v for k, v in parameters.items() if k not in ("record_radius", "inner_ratio")}
    tail = exact(shared.setdefault("tail", default_tail(budget, adjacency, filter_)), "tail")
    if filter_ == "basic":
        return _basic_share(budget, adjacency, shared)
    times = {"weights": 1, "gaussian": 3}[filter_]
    mu = calibrate(lambda mu: ApproximateGaussianDP(mu, times * tail, 0), budget)
    ladder, left = None, mu.mu_squared
    if filter_ != "weights":
        shared.setdefault("ladder_multiplier", None)
    if shared.setdefault("ladder_multiplier", "default") == "default":
        ladder, left = default_ladder(mu.mu_squared, adjacency, shared["n_max"])
    elif shared["ladder_multiplier"] is not None:
        ladder = exact(shared["ladder_multiplier"], "ladder_multiplier")
        left = mu.mu_squared - 1 / ladder**2
    shared.pop("ladder_multiplier")
    chosen = _best_share(left, adjacency, shared, parameters)
    if chosen[0] and ladder is not None and "ladder_multiplier" not in parameters:
        ladder, chosen = None, _best_share(mu.mu_squared, adjacency, shared, parameters)
    _, least, multiplier = chosen
    if not math.isfinite(least):
        raise ValueError(
            f"No share of {budget} leaves room for two stages at n_max = {shared['n_max']}; raise "
            "one of them, or use RescaledMean."
        )
    return {"tail": tail, "center_multiplier": multiplier, "ladder_multiplier": ladder}


def _best_share(
    mu_squared: Fraction,
    adjacency: Adjacency,
    shared: dict[str, Any],
    parameters: dict[str, Any],
) -> tuple[bool, float, Fraction]:
    """Try a few shares, and return for the best one whether n_max records abstain often, the
    noise at them, and the center's multiplier.
    """
    ratio = parameters["record_radius"] / parameters["radius"]
    options: list[tuple[bool, float, Fraction]] = []
    for share in _SHARES:
        square = Fraction(round(2**30 * to_float(mu_squared) * share), 2**30)
        multiplier = root_down(1 / square, 30) + Fraction(1, 2**30)
        trial = RescaledMean(adjacency=adjacency, noise_multiplier=multiplier, **shared)
        first = trial.expected_noise(trial.n_max) * math.sqrt(trial.columns())
        abstains = trial.minimum_n() > trial.n_max
        options.append((abstains, math.hypot(ratio, first) / math.sqrt(1 - share), multiplier))
    return min(options)


def _basic_share(budget: ApproxDP, adjacency: Adjacency, shared: dict[str, Any]) -> dict[str, Any]:
    """Give the first stage half of epsilon and a third of delta."""
    part = ApproxDP(budget.epsilon / 2, budget.delta / 3)
    shared["tail"] = default_tail(part, adjacency, "basic")
    first = RescaledMean.for_budget(part, adjacency=adjacency, **shared)
    return {
        "tail": shared["tail"],
        "center_multiplier": first.noise_multiplier,
        "center_epsilon": part.epsilon,
    }
