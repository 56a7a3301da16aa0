"""``rescaled_mean``: the mean of records that agree, with noise shaped like the data."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from dpverify.estimation.budget_shares import Tail, default_tail, require_room
from dpverify.estimation.clipping import Numbers, PublicRadius
from dpverify.estimation.friendly_means import (
    CORES,
    Expected,
    Filters,
    all_friends_radius,
    bounded_float,
    check_shared,
    matrix_for,
    noise_length,
    number_kept,
    spread_of,
    with_covariance,
)
from dpverify.estimation.results import VectorMeanEstimate
from dpverify.estimation.scale_ladder import (
    ON_RUNG,
    LadderMultiplier,
    default_ladder,
    ladder_plan,
    on_rung,
    rung_of,
)
from dpverify.grid.shapes import Matrix, Shape, shape_of
from dpverify.plans import Abstained, Mechanism, Plan, Transcripts
from dpverify.plans.parameters import CHOSEN, probability
from dpverify.privacy import Adjacency, ApproxDP, Guarantee, calibrate
from dpverify.privacy.adjacency import Nonfinite
from dpverify.privacy.guarantees import ApproximateGaussianDP
from dpverify.privacy.numbers import Exact, exact, root_up, to_float, whole
from dpverify.transformations.means import MEAN, CoreMean


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaledMean(Mechanism[VectorMeanEstimate]):
    """The mean of vectors, with no bound on where it is: noise shaped like a public covariance.

    Friends of a record are the others within ``radius`` of it after the map M^(-1/4). Each record
    has a weight: the number of its friends beyond half of all records. The records' agreement and
    their weighted mean are released with noise. The noise has covariance proportional to M^(1/2):
    with M the data's covariance its length is proportional to tr M^(1/2), whatever the dimension.
    On skewed data the mean leans to the bulk, by at most twice the share of pairs that are no
    friends or a little more (1 / n_max by default, without a ladder) times the distance of the
    farthest record.

    Data: shape (n, d), any unit, within 2^19 radii of zero (else clamped). Output:
    ``VectorMeanEstimate``, or ``Abstained`` when too few records agree.
    matrix: the public M, its diagonal of shape (d,) or a symmetric positive definite (d, d).
    origin: with a singular M, for data in a plane, a public point of that plane: the part of a
    record outside the range of M is not looked at, and the estimate has the origin's part
    instead.
    radius: lambda, the largest distance of friends after the map. Public: never from the number
    of rows under add-remove. ``for_budget`` finds matrix and radius from ``covariance`` and
    ``n_max``.
    filter: "weights", or, to compare, one of the random filters it stands for: "gaussian" (noise
    on every number of friends) or "basic" (coins); they have more noise for every number of
    records.
    ladder_multiplier: the noise multiplier of a first stage, in which pairs of records vote for a
    radius: ``radius`` times a power of two from 1/16 to 64, and ``radius`` itself unless another
    is plainly better; None uses ``radius`` as it is. With a ladder, a stated spread that is up to
    ten times too small or too large costs accuracy, but no answer. Without one, the stated spread
    has to be an upper bound: if it is two or three times too small, nearly all releases abstain. A
    smaller radius is not taken where plainly some pairs need a larger one, lest rare records far
    from the bulk be lost.
    n_max: about how many records are expected, public; it decides how the budget is shared.
    tail: the largest probability of each of the rare events that make the claim's delta.
    Claim: approximate GDP, mu^2 = 1 / noise_multiplier^2 (+ 1 / ladder_multiplier^2), with one
    tail for "weights" and 3 (add-remove) or 2 (replace) for "gaussian"; for "basic" what the
    friendly lift gives.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: DJYZZ24, Algorithm 1 (and footnote 4: the Mahalanobis norm), with weights (OURS) in
    place of its filter and other constants.
    """

    matrix: Numbers | Matrix = field(hash=False)  # it is long, and searches look mechanisms up
    radius: PublicRadius
    n_max: Expected
    tail: Tail
    filter: Filters = "weights"
    origin: Numbers | None = None
    ladder_multiplier: LadderMultiplier = None

    def check_parameters(self) -> None:
        """Check for a positive definite M, or an origin, and a multiplier that some grid serves."""
        check_shared(self)

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
            n_max: Expected,
            tail: Tail = CHOSEN,
            filter: Filters = "weights",
            origin: Numbers | None = None,
            ladder_multiplier: LadderMultiplier = CHOSEN,
            covariance: Any = None,
            columns: int = CHOSEN,
            trace: float = CHOSEN,
            largest: float = CHOSEN,
            strangers: Exact | None = None,
            metric: Literal["euclidean", "mahalanobis"] = "euclidean",
        ) -> Self:
            """Make the mechanism with the least noise for the budget; see ``calibrated_for``."""

    @classmethod
    def calibrated_for(
        cls,
        budget: Guarantee,
        *,
        adjacency: Adjacency,
        covariance: Any = None,
        strangers: Exact | None = None,
        metric: Literal["euclidean", "mahalanobis"] = "euclidean",
        **parameters: Any,
    ) -> Self:
        """Build the mechanism with the least noise whose claim is ``budget``, on the safe side.

        covariance: a public proxy of the data's covariance, as a diagonal or a matrix. M is then
        that proxy (unless ``matrix`` is given), and the radius one that pairs exceed with
        probability at most 1 / n_max.
        columns, trace, largest: facts on a covariance of which no more is known; M is then the
        identity.
        metric: with "mahalanobis" M is the square of the covariance, which must be known. Noise
        is then shaped like the records themselves, as long in units of every direction's
        deviation, and has the least length in the covariance's Mahalanobis norm.
        tail: by default a tenth of the part of delta that the filter can use.
        strangers: a bound on the probability that any two of n_max records are farther apart than
        the radius, as in Theorem 3.1, in place of 1 / n_max for each pair. The radius is then 1.1
        to 1.5 times as large, and there is no ladder unless it is given.
        ladder_multiplier: by default a 20th of mu^2 or less is for the votes, and nothing where
        n_max records are too few. Then the proxy has to be an upper bound.
        """
        own_radius = "radius" in parameters
        if metric != "euclidean":
            parameters["matrix"] = matrix_for(metric, covariance, parameters)
        values = with_covariance(parameters, covariance)
        if strangers is not None:
            if own_radius or values is None:
                raise ValueError(
                    f"strangers = {strangers} chooses a radius from a covariance; give covariance "
                    "(or trace, largest and columns) and no radius, or leave strangers out."
                )
            parameters["radius"] = all_friends_radius(values, strangers, parameters["n_max"])
            parameters.setdefault("ladder_multiplier", None)
        chosen = parameters.get("filter", "weights")
        if "tail" not in parameters:
            parameters["tail"] = default_tail(budget, adjacency, chosen)
        elif isinstance(budget, ApproxDP):
            require_room(exact(parameters["tail"], "tail"), budget, adjacency, chosen)
        if "ladder_multiplier" not in parameters:
            parameters["ladder_multiplier"] = _ladder(budget, adjacency, chosen, parameters)
        return super(RescaledMean, cls).calibrated_for(budget, adjacency=adjacency, **parameters)

    def columns(self) -> int:
        """Return the number of columns."""
        return len(self.matrix)

    def plan(self) -> Plan:
        """Release the number of kept records, then their mean, through the filter; on the
        ladder's rung, where there is one.
        """
        if self.ladder_multiplier is None:
            return self.core().plan
        return ladder_plan(self, self.core().nearness, self.ladder_multiplier)

    def core(self) -> CoreMean:
        """Return the filter's part, with its public facts."""
        nearness = self._shape().nearness(exact(self.radius, "radius"))
        make = CORES[self.filter]
        return make(self.adjacency, nearness, self.noise_multiplier, self.n_max, self.tail)

    def estimate(self, transcript: Transcripts) -> VectorMeanEstimate | Abstained:
        """Return the released mean, in the data's units."""
        if transcript.stopped is not None:
            return Abstained(transcript.stopped)
        if self.ladder_multiplier is not None:
            here: RescaledMean = on_rung(self, rung_of(transcript, self.ladder_multiplier))
            return here.estimate(transcript.within(ON_RUNG))
        core, shape = self.core(), self._shape()
        nearness, unit = core.nearness, to_float(core.noise_of(transcript))
        released = np.array([bounded_float(v) for v in transcript.numbers(MEAN)])
        value = shape.place(released * (unit / 2.0**40), nearness)
        kept = float(number_kept(transcript))
        return VectorMeanEstimate(
            value, kept, spread_of(shape, nearness, unit), np.zeros_like(value)
        )

    def expected_noise(self, n: int) -> float:
        """Predict about the noise's standard deviation after the map, in radii, where n records
        agree; infinite where the mechanism would abstain. It depends on public numbers alone.
        """
        return self.core().expected_noise(n)

    def expected_error(self, n: int) -> float:
        """Predict the root mean square length of the noise, in the data's units, for n records
        that are all friends of each other. Infinite where too few agree.
        """
        return noise_length(self._shape(), self.core().nearness, self.expected_noise(n))

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return the least n for which n records that are all friends abstain with probability at
        most ``beta``.
        """
        allowed = probability(beta, "beta")
        return self.core().minimum_n(allowed)

    def _shape(self) -> Shape:
        return shape_of(self.matrix, self.origin)[1]


def _ladder(
    budget: Guarantee, adjacency: Adjacency, filter_: str, parameters: dict[str, Any]
) -> Fraction | None:
    """Choose the votes' multiplier: None where about n_max records have too few pairs, or would
    abstain more often for it.
    """
    if filter_ != "weights" or not isinstance(budget, ApproxDP):
        return None
    tail = exact(parameters["tail"], "tail")
    mu = calibrate(lambda mu: ApproximateGaussianDP(mu, tail, 0), budget)
    n_max = whole(parameters["n_max"], "n_max")
    ladder, left = default_ladder(mu.mu_squared, adjacency, n_max)
    if ladder is None:
        return None
    multiplier = root_up(1 / left, 30)
    trial = RescaledMean(adjacency=adjacency, noise_multiplier=multiplier, **parameters)
    return ladder if trial.minimum_n() <= n_max else None
