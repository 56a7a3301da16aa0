"""Public rules that choose a mechanism for a question, from declared types, the adjacency and the
unit of the account.

Nothing here looks at a record, and nothing that was released decides. An account that adds up
epsilons takes Laplace noise, one that adds up mu^2 Gaussian noise; quantiles take the exponential
mechanism in both. docs/how_to/session.md has the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import scipy

from dpverify.mechanisms.bounded_mean import BoundedMean
from dpverify.mechanisms.bounded_sum import BoundedSum
from dpverify.mechanisms.clipped_mean import ClippedMean
from dpverify.mechanisms.gaussian import Gaussian
from dpverify.mechanisms.moment_matrix import MomentMatrix, targets_of_regression
from dpverify.mechanisms.noisy_count import NoisyCount
from dpverify.mechanisms.private_quantile import PrivateQuantile
from dpverify.mechanisms.private_quantiles import PrivateQuantiles
from dpverify.mechanisms.robust_mean import RobustMean
from dpverify.mechanisms.univariate_gaussian import UnivariateGaussian
from dpverify.plans import Mechanism
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import as_written, exact
from dpverify.session.accounting import Unit
from dpverify.session.questions import Question
from dpverify.tables import Boolean, ColumnType, Integer, Number

_FEWEST_TOGETHER = 3  # least number of quantiles: for two both ways are alike
_CELLS = 1 << 20  # cells in a declared range, where a mechanism asks for a cell


@dataclass(frozen=True, slots=True)
class Choice:
    """A mechanism's class with its public parameters, and the rule by which it was chosen, in
    words.

    masking: a public value, with the parameters, in place of the mechanism's own, under which the
    mechanism gives this value no weight. Under replace the records that are left out count as it,
    so that a replaced record is one step and not two.
    """

    kind: type[Mechanism[Any]]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    masking: tuple[float, Mapping[str, Any]] | None = None

    def masked(self) -> Choice:
        """Return the choice under which records that are left out count as the value of no
        weight.
        """
        assert self.masking is not None
        why = f"{self.why}; a record that is left out has no weight"
        return Choice(self.kind, {**self.parameters, **self.masking[1]}, why)


def bounds_of(column: str, kind: ColumnType, wanted: str) -> tuple[float, float]:
    """Return a column's declared bounds. Raises TypeError for what is no number, ValueError for a
    number without bounds.
    """
    if isinstance(kind, Boolean):
        return 0.0, 1.0
    if not isinstance(kind, Number):
        raise TypeError(
            f"{wanted} of {column!r}: the column is declared as {kind}, and this is about numbers; "
            "declare "
            f"{column}=Number(low, high), or ask for a histogram."
        )
    if kind.low is None or kind.high is None:
        raise ValueError(
            f"{wanted} of {column!r}: the column has no declared bounds, and bounds that were read "
            "off the data would be a "
            f"leak; declare {column}=Number(low, high) with public numbers."
        )
    return kind.low, kind.high


def count(unit: Unit) -> Choice:
    """Choose a mechanism for a number of records."""
    noise = noise_of(unit)
    why = f"a count takes {noise} noise"
    return Choice(NoisyCount, {"noise": noise}, why, (1.0, {"within": (-0.5, 0.5)}))


def total(types: Mapping[str, ColumnType], unit: Unit, delta: Fraction) -> Choice:
    """Choose a mechanism for the sum of one column."""
    ((column, kind),) = types.items()
    low, high = bounds_of(column, kind, "the sum")
    given = {"lower": low, "upper": high, "noise": noise_of(unit)}
    why = f"one column with declared bounds, {noise_of(unit)} noise"
    around = {"lower": min(0.0, low), "upper": max(0.0, high)}
    return Choice(BoundedSum, given, why, (0.0, around))


def mean(types: Mapping[str, ColumnType], unit: Unit, delta: Fraction, **given: Any) -> Choice:
    """Choose a mechanism for the mean of one or several columns."""
    low, high = _box(types, "the mean")
    if unit == "epsilon" and len(low) == 1:
        bounds = {"lower": low[0], "upper": high[0]}
        return Choice(BoundedMean, bounds | given, "one column with declared bounds, laplace noise")
    center = [a / 2 + b / 2 for a, b in zip(low, high, strict=True)]
    half = [b / 2 - a / 2 for a, b in zip(low, high, strict=True)]
    why = f"{_columns(low)} with declared bounds, gaussian noise in the ball that holds their box"
    ball: dict[str, Any] = {"center": center, "radius": half[0]}
    if len(low) > 1:
        matrix = [[1 / h if i == j else 0.0 for j in range(len(half))] for i, h in enumerate(half)]
        ball = {"center": center, "radius": _root_up(len(half)), "matrix": matrix}
    # A little wider, so that rounding to the grid leaves no record at a bound outside.
    wider = {"outside": "mask", "radius": ball["radius"] * (1 + 2.0**-10)}
    beyond = center[0] + 4 * math.sqrt(len(half)) * half[0]
    masking = (beyond, wider) if math.isfinite(beyond) else None
    return Choice(ClippedMean, ball | given, why, masking)


def moments(
    types: Mapping[str, ColumnType],
    unit: Unit,
    delta: Fraction,
    adjacency: Adjacency | None = None,
    **given: Any,
) -> Choice:
    """Choose a mechanism for all first and second moments, and for what follows from them, which
    ``target``, ``ridge`` and ``k`` describe. adjacency: that of a regression.
    """
    low, high = _box(types, "moments")
    own = {name: value for name, value in given.items() if name not in ("target", "ridge", "k")}
    target = given.get("target", ())
    targets = 1 if isinstance(target, str) else len(target)
    if ("k" in given or target) and own.get("targets", 0) not in (0, targets):
        raise ValueError(
            f"targets = {own['targets']!r}; components need the moments of all columns, and a "
            "regression those of all but its own targets: leave it out."
        )
    k = given.get("k", 1)
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= len(low):
        raise ValueError(
            f"k = {k!r} components of {_columns(low)}; give a number from 1 to {len(low)}."
        )
    if exact(given.get("ridge", 0), "ridge") < 0:
        raise ValueError(f"ridge = {given['ridge']} is negative; give 0 or more.")
    noise = noise_of(unit)
    left_out = targets_of_regression(len(low) - targets, targets, noise, adjacency)
    own = ({"targets": left_out} if left_out else {}) | own
    which = "all but the target's square" if own.get("targets") else "all"
    why = f"{_columns(low)} with declared bounds: {which} first and second moments, {noise} noise"
    return Choice(MomentMatrix, {"lower": low, "upper": high, "noise": noise} | own, why)


def quantile(column: str, kind: ColumnType, at: Any) -> Choice:
    """Choose a mechanism for a quantile of one column."""
    low, high = bounds_of(column, kind, "a quantile")
    given: dict[str, Any] = {"lower": low, "upper": high, "quantile": at}
    if isinstance(kind, (Integer, Boolean)):
        given["cell"] = 1  # values are whole: no cell between them is a candidate
    return Choice(PrivateQuantile, given, "one column with declared bounds, exponential mechanism")


def quantiles(
    column: str, kind: ColumnType, levels: Sequence[Any], unit: Unit, adjacency: Adjacency
) -> Sequence[Choice]:
    """Choose mechanisms for several quantiles of one column: three different ones or more
    together, where that is nearer than each by itself at the same cost, by the noise alone.
    """
    exactly = sorted({as_written(level, "at") for level in levels})
    if len(exactly) < _FEWEST_TOGETHER or len(exactly) < len(levels):
        return [quantile(column, kind, level) for level in levels]
    apart = [quantile(column, kind, level) for level in exactly]
    given = {k: v for k, v in apart[0].parameters.items() if k != "quantile"}
    given["levels"] = exactly
    if not _nearer_together(given, apart, unit, adjacency):
        return apart
    why = f"{len(exactly)} quantiles of one column with declared bounds, in halves of the records"
    return [Choice(PrivateQuantiles, given, why)]


def _nearer_together(
    given: Mapping[str, Any], apart: Sequence[Choice], unit: Unit, adjacency: Adjacency
) -> bool:
    """Compare root mean squares over the quantiles, together and apart: rounds share the cost as
    single quantiles do.
    """
    own: dict[str, Any] = {"adjacency": adjacency, "noise_multiplier": 1}
    together = PrivateQuantiles(**given, **own)
    alone = [float(one.kind(**one.parameters, **own).expected_error(1)) for one in apart]
    power = 1.0 if unit == "epsilon" else 0.5  # noise grows with this power of the number of parts
    each = math.hypot(*alone) / math.sqrt(len(alone))
    rounds, parts = len(together.fixed_plan), len(apart)
    return bool(together.expected_error(1) * rounds**power < each * parts**power)


def gaussian(types: Mapping[str, ColumnType], unit: Unit, delta: Fraction, **given: Any) -> Choice:
    """Choose a mechanism for the mean and covariance of normal records, one column or several."""
    low, high = _box(types, "a normal law")
    cells = [(b - a) / _CELLS for a, b in zip(low, high, strict=True)]
    why = (
        f"{_columns(low)} of normal records, searched on a grid of 2^20 cells of the declared range"
    )
    if len(low) == 1:
        reach = (high[0] - low[0]) / 2
        own = {"cell": cells[0], "center": low[0] + reach, "reach": reach}
        return Choice(UnivariateGaussian, own | given, why)
    return Choice(Gaussian, {"d": len(low), "cell": cells} | given, why)


def robust_mean(
    types: Mapping[str, ColumnType], unit: Unit, delta: Fraction, **given: Any
) -> Choice:
    """Choose a mechanism for a mean where a share of the records may be anything. delta: the
    additive part of the cost.
    """
    if "deviations" not in given:
        raise ValueError(
            "robust_mean needs deviations=[...], a public standard deviation of each column's "
            "typical records."
        )
    if isinstance(given["deviations"], (list, tuple)) and len(given["deviations"]) != len(types):
        raise ValueError(
            f"deviations has {len(given['deviations'])} numbers for {_columns(list(types))}; give "
            "one for each."
        )
    own: dict[str, Any] = {"n_max": 10**6} | ({"directions": 1} if len(types) == 1 else {})
    if unit == "gaussian":  # then it is calibrated to mu^2 beside a delta of its own
        if not delta:
            raise ValueError(
                "robust_mean rests on an event that is paid for by a delta, and this budget has "
                "none; give an ApproxDP "
                "budget."
            )
        near = math.sqrt(scipy.special.chdtri(len(types), 0.005))
        far = math.sqrt(2 * scipy.special.chdtri(len(types), 0.02))
        own |= {"tail": delta, "record_radius": near, "radius": far, "shares": _ROBUST_SHARES}
    why = (
        f"{_columns(list(types))} of which a tenth may be anything: records that agree, then cuts "
        "along suspicious directions"
    )
    return Choice(RobustMean, own | given, why)


_ROBUST_SHARES = RobustMean.__dataclass_fields__["shares"].default


def choose(
    question: Question,
    types: Mapping[str, ColumnType],
    unit: Unit,
    delta: Fraction,
    adjacency: Adjacency,
) -> Sequence[Choice]:
    """Choose a mechanism, or several for several quantiles, by the kind of question and the
    declared types.

    delta: the additive part of what the answer may cost, where mu^2 adds up. adjacency: that of
    the mechanism. Raises TypeError or ValueError.
    """
    kind, given = question.kind, dict(question.given)
    if kind == "release":
        return [_by_name(given["mechanism"], given["parameters"])]
    if kind in _OF_ONE and len(types) != 1:
        raise ValueError(
            f"{kind} is about one column, and {list(types)} are given; ask once for each."
        )
    if kind == "count":
        return [count(unit)]
    if kind in ("quantile", "median"):
        ((column, declared),) = types.items()
        at = given.get("at", "1/2")
        if at in ([], ()):
            raise ValueError(f"{kind} of {column!r}: at=[] asks for none; write at='9/10'.")
        listed = list(at) if isinstance(at, (list, tuple)) else [at]
        return quantiles(column, declared, listed, unit, adjacency)
    if kind == "regression":
        given["adjacency"] = adjacency
    if kind not in _CHOOSERS:
        raise ValueError(f"{kind!r} is no question; ask one of {', '.join(KINDS)}.")
    return [_CHOOSERS[kind](types, unit, delta, **given)]


def _by_name(kind: Any, given: Mapping[str, Any]) -> Choice:
    """Check a mechanism that was named. Raises TypeError for anything else."""
    if not (isinstance(kind, type) and issubclass(kind, Mechanism)):
        name = getattr(kind, "__name__", type(kind).__name__)  # a name without an address in memory
        raise TypeError(f"mechanism = {name}; give a mechanism's class, for example BoundedMean.")
    return Choice(kind, given, "chosen by name")


def edges_of(column: str, kind: ColumnType, bins: int | Sequence[float] | None) -> list[float]:
    """Return the public edges of a histogram's bins, from the first to the last. Raises TypeError
    or ValueError.
    """
    low, high = bounds_of(column, kind, "a histogram")
    if bins is None:
        raise ValueError(
            f"histogram of {column!r}: give bins, a number of equal ones between the declared "
            "bounds, or their edges."
        )
    if isinstance(bins, int) and not isinstance(bins, bool):
        if not 1 <= bins <= _MOST_BINS:
            raise ValueError(f"bins = {bins}; give a number from 1 to {_MOST_BINS}.")
        step = (Fraction(high) - Fraction(low)) / bins
        edges = [low, *(float(Fraction(low) + i * step) for i in range(1, bins)), high]
    elif isinstance(bins, Sequence) and not isinstance(bins, (str, bytes)):
        edges = [kind.number(edge, column) + 0.0 for edge in bins]
    else:
        raise TypeError(f"bins = {bins!r}; give a number of bins, or a list of edges.")
    if len(edges) < 2 or len(edges) > _MOST_BINS + 1 or sorted(set(edges)) != edges:
        raise ValueError(
            f"bins of {column!r}: give 2 to {_MOST_BINS + 1} edges in increasing order, no two "
            "alike."
        )
    if (edges[0], edges[-1]) != (low, high):
        raise ValueError(
            f"bins of {column!r}: the first and the last edge are the declared bounds {low} and "
            f"{high}, or some records "
            f"would be in no bin; give both."
        )
    return edges


_MOST_BINS = 1000
_OF_ONE = ("sum", "variance", "standard_deviation", "quantile", "median")
_CHOOSERS: Mapping[str, Callable[..., Choice]] = {
    "sum": total,
    "mean": mean,
    "variance": moments,
    "standard_deviation": moments,
    "covariance": moments,
    "moments": moments,
    "regression": moments,
    "principal_components": moments,
    "gaussian": gaussian,
    "robust_mean": robust_mean,
}
KINDS = ("count", "median", "quantile", "histogram", "top", *_CHOOSERS)
"""Questions that a session answers by a rule; any mechanism besides by ``Session.release``."""


def _box(types: Mapping[str, ColumnType], wanted: str) -> tuple[list[float], list[float]]:
    if not types:
        raise ValueError(f"{wanted}: give the name of a column, or a list of names.")
    both = [bounds_of(column, kind, wanted) for column, kind in types.items()]
    return [low for low, _ in both], [high for _, high in both]


def noise_of(unit: Unit) -> str:
    """Return the noise that suits the account's unit."""
    return "laplace" if unit == "epsilon" else "gaussian"


def _columns(low: Sequence[Any]) -> str:
    return "one column" if len(low) == 1 else f"{len(low)} columns"


def _root_up(d: int) -> float:
    """Return a float no smaller than the square root."""
    return math.nextafter(math.sqrt(d), math.inf)
