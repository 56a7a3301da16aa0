"""``rescaled_mean``: the mean of records that agree, with noise shaped like the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.nearness import Nearness
from dpverify.grid.shapes import Matrix, Numbers, Shape, shape_of, spectrum, tail_radius
from dpverify.mechanisms.clipped_mean import VectorMeanEstimate
from dpverify.plans import Abstained, Mechanism, Plan, Transcript
from dpverify.privacy import Adjacency, ApproxDP, Guarantee
from dpverify.privacy.numbers import Exact, approximately, exact, to_float, whole
from dpverify.transformations.means import (
    BasicCoreMean,
    CoreMean,
    GaussianCoreMean,
    WeightedCoreMean,
)

Floats = NDArray[np.float64]
_LEAST_TAIL = Fraction(1, 10**300)
_LEAST, _LARGEST = (
    Fraction(1, 10**100),
    10**9,
)  # multipliers; above, too few cells are left for noise
Filters = Literal["weights", "gaussian", "basic"]
CORES: dict[str, type[CoreMean]] = {
    "weights": WeightedCoreMean,
    "gaussian": GaussianCoreMean,
    "basic": BasicCoreMean,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaledMean(Mechanism[VectorMeanEstimate]):
    """The mean of vectors, with no bound on where it is: noise shaped like a public covariance.

    Each record counts by how many friends it has beyond half of all (friends: others within
    ``radius`` after the map M^(-1/4)); how far they agree and their weighted mean are released with
    noise. The noise has covariance proportional to M^(1/2): with M the data's covariance its length is
    that of tr M^(1/2), whatever the dimension. On skewed data the mean leans to the bulk by about
    radius times the share of pairs that are no friends, at most 1 / n_max by default.

    Data: shape (n, d), any unit, within 2^19 radii of zero (else clamped). Output:
    ``VectorMeanEstimate``, or ``Abstained`` when too few records agree.
    matrix: the public M, its diagonal of shape (d,) or a symmetric positive definite (d, d). origin: with
    a singular M, for data in a plane, a public point of that plane: what of a record is outside the
    range of M is not looked at, and the estimate has the origin's instead.
    radius: lambda, how far apart friends are at most after the map. Public: never from the number of
    rows under add-remove. ``for_budget`` finds both from ``covariance`` and ``n_max``.
    filter: "weights", or, to compare, one of the random filters it stands for: "gaussian" (noise on
    every number of friends) or "basic" (coins); they have more noise for every number of records.
    n_max: about how many records are expected, public; it decides how the budget is shared. tail: the
    probability that each of the rare events may have which make the claim's delta.
    Claim: approximate GDP of mu = 1 / noise_multiplier, with one tail for "weights" and 3 (add-remove)
    or 2 (replace) for "gaussian"; for "basic" what the friendly lift gives.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: DJYZZ24, Algorithm 1, with weights (OURS) in place of its filter and other constants.
    """

    matrix: Numbers | Matrix
    radius: float
    n_max: int
    tail: Fraction
    filter: Filters = "weights"
    origin: Numbers | None = None

    def check_parameters(self) -> None:
        """A positive definite M, or an origin, a positive radius, n_max >= 1, a tail in (0, 1 / 10)."""
        check_shared(self)

    @classmethod
    def for_budget(
        cls,
        budget: Guarantee,
        *,
        adjacency: Adjacency,
        covariance: Any = None,
        **parameters: Any,
    ) -> Self:
        """The mechanism with the least noise whose claim is ``budget``, on the safe side.

        covariance: a public proxy of the data's covariance, as a diagonal or a matrix: then M is that
        proxy (unless ``matrix`` is given) and the radius one that pairs exceed with probability at
        most 1 / n_max. trace, largest: of a covariance of which no more is known, with ``columns``: M
        is then the identity. tail: by default a tenth of what the filter can use of delta.
        """
        with_covariance(parameters, covariance)
        chosen = parameters.get("filter", "weights")
        if "tail" not in parameters:
            parameters["tail"] = default_tail(budget, adjacency, chosen)
        elif isinstance(budget, ApproxDP):
            require_room(exact(parameters["tail"], "tail"), budget, adjacency, chosen)
        return super(RescaledMean, cls).for_budget(budget, adjacency=adjacency, **parameters)

    def columns(self) -> int:
        """The dimension."""
        return len(self.matrix)

    def plan(self) -> Plan:
        """Through the filter: the number of kept records, then their mean."""
        return self.core().plan

    def core(self) -> CoreMean:
        """The filter's part, with what is known of it."""
        nearness = self._shape().nearness(exact(self.radius, "radius"))
        make = CORES[self.filter]
        return make(self.adjacency, nearness, self.noise_multiplier, self.n_max, self.tail)

    def estimate(self, transcript: Transcript) -> VectorMeanEstimate | Abstained:
        """The released mean, in the data's units."""
        if transcript.stopped is not None:
            return Abstained(transcript.stopped)
        core, shape = self.core(), self._shape()
        nearness, unit = core.nearness, to_float(core.noise_of(transcript))
        released = np.array([bounded_float(v) for v in transcript.released["mean"]])
        value = shape.place(released * (unit / 2.0**40), nearness)
        kept = float(number_kept(transcript))
        return VectorMeanEstimate(value, kept, spread_of(shape, nearness, unit), 0 * value)

    def expected_noise(self, n: int) -> float:
        """About the noise's standard deviation after the map, in radii, where n records agree; infinite
        where the mechanism would abstain. From public numbers alone."""
        return self.core().expected_noise(n)

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """The least n such that n records that are all friends abstain with probability at most
        ``beta``."""
        allowed = exact(beta, "beta")
        if not 0 < allowed < 1:
            raise ValueError(f"beta = {beta} is outside (0, 1); give a probability, say '1e-3'.")
        return self.core().minimum_n(allowed)

    def _shape(self) -> Shape:
        return shape_of(self.matrix, self.origin)[1]


def check_shared(mechanism: Any) -> None:
    """Refuse bad parameters that the rescaled and the refined mean share."""
    object.__setattr__(mechanism, "matrix", shape_of(mechanism.matrix, mechanism.origin)[0])
    if mechanism.origin is not None:
        object.__setattr__(mechanism, "origin", tuple(map(float, mechanism.origin)))
    if exact(mechanism.radius, "radius") <= 0:
        raise ValueError(f"radius = {mechanism.radius} is not positive; give a public radius > 0.")
    name = "center_multiplier" if hasattr(mechanism, "center_multiplier") else "noise_multiplier"
    check_multiplier(mechanism, name)
    object.__setattr__(mechanism, "n_max", whole(mechanism.n_max, "n_max"))
    if mechanism.n_max < 1:
        raise ValueError(f"n_max = {mechanism.n_max}; say about how many records you expect.")
    object.__setattr__(mechanism, "tail", exact(mechanism.tail, "tail"))
    if not _LEAST_TAIL < mechanism.tail < Fraction(1, 10):
        raise ValueError(
            f"tail = {approximately(mechanism.tail)} is outside (1e-300, 1/10); give a share of your "
            "delta."
        )
    if mechanism.filter not in CORES:
        raise ValueError(f"filter = {mechanism.filter!r}; write 'weights', 'gaussian' or 'basic'.")


def check_multiplier(mechanism: Any, name: str) -> None:
    """Refuse what would be noise of less than any cell, or of more than any grid."""
    given = exact(getattr(mechanism, name), name)
    if given > 0 and not _LEAST <= given <= _LARGEST:
        raise ValueError(
            f"{name} is outside 1e-100 to 1e9, where no grid serves it; use for_budget."
        )


def bounded_float(value: int) -> float:
    """As a float whose square is finite: 1e140 stands for every larger number."""
    return float(min(max(value, -(10**140)), 10**140))


def number_kept(transcript: Transcript) -> int:
    """What was released about how many records agree."""
    return transcript["agreement" if "agreement" in transcript.released else "kept"]


def with_covariance(parameters: dict[str, Any], covariance: Any) -> Floats | None:
    """The matrix and the radius that follow from what is known of the covariance, and from n_max, where
    they are not given. Returns the mapped covariance's eigenvalues, None where nothing is known."""
    if "trace" in parameters:
        columns = whole(parameters.pop("columns"), "columns")
        values = isotropic_worst(columns, parameters.pop("trace"), parameters.pop("largest"))
        parameters.setdefault("matrix", (1.0,) * columns)
    elif covariance is not None:
        parameters.setdefault("matrix", covariance)
        origin = parameters.get("origin")
        values = mapped_spectrum(parameters["matrix"], covariance, origin)
    else:
        return None
    if "radius" not in parameters:
        n_max = whole(parameters["n_max"], "n_max")
        parameters["radius"] = tail_radius(2 * values, 1 / n_max)
    return values


def isotropic_worst(columns: int, trace: float, largest: float) -> Floats:
    """Eigenvalues of this sum, none above the largest: as many equal to it as there can be, whose norms
    have the heaviest tails."""
    if not 0 < largest <= trace <= columns * largest:
        raise ValueError(
            f"trace = {trace} and largest = {largest} belong to no covariance of {columns} columns; "
            "largest <= trace <= columns * largest."
        )
    full = int(trace // largest)
    values = np.zeros(columns)
    values[:full] = largest
    if full < columns:
        values[full] = trace - full * largest
    return values


def mapped_spectrum(matrix: Any, covariance: Any, origin: Any = None) -> Floats:
    """The eigenvalues of M^(-1/4) Sigma M^(-1/4)."""
    _, shape = shape_of(matrix, origin)
    if shape.rows is None and np.ndim(covariance) == 1:
        scales = np.array(shape.scales)
        return np.asarray(spectrum(covariance) * scales**2)
    root = np.diag(shape.scales) if shape.rows is None else np.array(shape.rows)
    full = np.diag(covariance) if np.ndim(covariance) == 1 else np.asarray(covariance)
    turned = root @ full @ root.T
    return np.maximum(spectrum((turned + turned.T) / 2), 0)


def spread_of(shape: Shape, nearness: Nearness, noise: float) -> Floats:
    """Of noise of this deviation in every cell's direction, in the data's units: (d,) or (d, d)."""
    if shape.rows is None:
        return shape.back(np.full(shape.columns, noise), nearness)
    return shape.back(np.eye(shape.columns) * noise, nearness).T


def require_room(tail: Fraction, budget: ApproxDP, adjacency: Adjacency, filter_: str) -> None:
    """Refuse a tail whose rare events alone take all of delta: no noise would meet that budget."""
    rows = 1 if adjacency is Adjacency.ADD_REMOVE else 0
    times = 2 + rows if filter_ == "gaussian" else 1
    if times * tail >= 10 * default_tail(budget, adjacency, filter_):
        raise ValueError(
            f"tail = {approximately(tail)} leaves nothing of delta in {budget}; leave it out for a "
            "tenth of what there is."
        )


def default_tail(budget: Guarantee, adjacency: Adjacency, filter_: str) -> Fraction:
    """A tenth of the budget's delta; for the basic filter, of what the lift leaves of it."""
    if not isinstance(budget, ApproxDP):
        raise ValueError(f"budget = {budget}: say which ``tail`` of it rare events may take.")
    share = budget.delta / 10
    if filter_ == "basic":
        moved = 2 if adjacency is Adjacency.ADD_REMOVE else 3
        share *= Fraction(
            to_float(budget.epsilon) / moved / math.expm1(min(to_float(budget.epsilon), 700))
        )
    return share.limit_denominator(10**40) if share > Fraction(1, 10**30) else share
