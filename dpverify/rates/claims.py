"""Claims about errors, as data: a metric, a variable that runs, an exponent, curves, a regime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from dpverify.plans import Law, Mechanism
from dpverify.privacy.numbers import Floats
from dpverify.rates.instances import Instance
from dpverify.rates.metrics import FEWEST_OF_NORMS, FEWEST_REPEATS, RMS, Metric

Setting = Mapping[str, Any]
"""Public numbers by name: n, d, epsilon, whatever the mechanism and the instance need."""
Facts = Mapping[str, float]
_FEWEST_FOR_A_SLOPE = 3
_MARGIN = 1.1
_INF = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponent:
    """Claimed exponent: the error is proportional to variable^value, up to ``tolerance`` in the
    fitted slope.

    It is claimed for values of the variable from ``start`` to ``end``: the regime, where one
    part of the error dominates. drift: the planted fault is noise that grows as variable^drift
    besides; by default twice the tolerance; more is needed where other errors than noise
    dominate.
    """

    value: float
    tolerance: float
    start: float = 0.0
    end: float = _INF
    drift: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < _INF:
            raise ValueError(f"tolerance = {self.tolerance} is not positive; try 0.1.")
        if not self.start < self.end:
            raise ValueError(f"The regime from {self.start} to {self.end} is empty; give a range.")

    def covers(self, value: float) -> bool:
        """Return whether this value of the variable is in the regime."""
        return self.start <= value <= self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Function of the mechanism's spec, and its arguments by name.

    arguments: "parameters" (the mechanism's public ones), "records" (exact), names of the
    setting, or of the claim's facts. beside: one of these that is added in squares, as the
    sampling error is to that of noise; per: one that the sum is divided by, if any. margin: the
    factor by which the measured error may differ; a lower bound has none.
    """

    function: str
    arguments: tuple[str, ...]
    beside: str = ""
    per: str = ""
    margin: float = _MARGIN

    def __post_init__(self) -> None:
        if not 1 <= self.margin < _INF:
            raise ValueError(f"margin = {self.margin} is below 1; give a factor such as 1.1.")


@dataclass(frozen=True, slots=True)
class Empirical:
    """Target that is a statistic of the dataset itself, which is made once for each value.

    Only noise is random: one law, many draws. statistic: of (mechanism, data).
    """

    statistic: Callable[[Any, Floats], Any]


@dataclass(frozen=True, slots=True)
class Population:
    """Target that is a number of the instance's law; every draw has its own data.

    Sampling and noise are both random. value: of (mechanism, setting).
    """

    value: Callable[[Any, Setting], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateFault:
    """Planted fault: other behavior, or another estimate, of the mechanism at one setting.

    law: of (mechanism, data, value of the variable); None: the right one. estimate: of
    (mechanism, transcript); None: the right one. grows: whether the fault grows with the
    variable, so that the last value is examined first.
    """

    name: str
    law: Callable[[Any, Floats, Any], Law] | None = None
    estimate: Callable[[Any, Any], Any] | None = None
    grows: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RateClaim:
    """Claim about how the error of a mechanism depends on one public number. A claim that says
    nothing is refused.

    name: unique in its file. mechanism: from a setting. variable, values: what runs, in increasing
    order; setting: what else is fixed; ``n``, the number of records, is in one of them.
    target: what the error is about. error: of (estimate, truth), at least 0.
    exponent: the claimed slope in the regime. curve: the metric itself. upper: a bound on it.
    lower: what no private mechanism can beat on the hardest data; for errors that are alike on all
    data, or there.
    lines: rates of others by name, drawn beside what is measured; nothing is compared with them.
    facts: of (setting, data, truth), numbers that curves need; the data are None for a Population.
    faults: the claim's own, beside the generic ones.
    shows_last: whether a lost constant shows most at the last value, where it is looked for first.
    So it is without a word where the noise multiplier or d runs.
    repeats: releases for each value in a quick run: an eighth of them first, but at least
    ``fewest``, and up to four times as many where they leave something open
    (``dpverify.rates.looking``).
    fewest: the fewest releases that are looked at. Fewer than 200, and at least 50, only where
    errors are lengths of several nearly normal numbers and the mechanism does not abstain: so few
    show no rare errors, and no rare abstentions.
    by_column: ``error`` gives an array, one error for each column of a release, and repeats counts
    these. For noise that is independent and alike in all columns: then a few releases of many
    columns tell as much as many releases of one. Times sqrt(d) their rms is that of the distance.
    """

    name: str
    mechanism: Callable[[Setting], Mechanism[Any]]
    variable: str
    values: Sequence[Any]
    instance: Instance
    target: Empirical | Population
    error: Callable[[Any, Any], Any]
    source: str
    setting: Setting = field(default_factory=dict)
    metric: Metric = RMS
    exponent: Exponent | None = None
    curve: Curve | None = None
    upper: Curve | None = None
    lower: Curve | None = None
    lines: Mapping[str, Curve] = field(default_factory=dict)
    facts: Callable[[Setting, Any, Any], Facts] | None = None
    faults: Sequence[RateFault] = ()
    shows_last: bool = False
    repeats: int = 2000
    fewest: int = FEWEST_REPEATS
    by_column: bool = False

    def __post_init__(self) -> None:
        self._check_values()
        if not FEWEST_OF_NORMS <= self.fewest <= self.repeats:
            raise ValueError(
                f"{self.name}: repeats = {self.repeats} and fewest = {self.fewest}; an interval "
                f"needs at least {FEWEST_REPEATS} releases, and {FEWEST_OF_NORMS} where errors are "
                "lengths of several nearly normal numbers: then say so by fewest."
            )
        if self.by_column and not isinstance(self.target, Empirical):
            raise ValueError(
                f"{self.name}: by_column is for noise about a statistic of fixed data; give an "
                "Empirical target."
            )
        if self.exponent is None and self.curve is None and self.upper is None:
            raise ValueError(f"{self.name}: nothing is claimed; give exponent, curve or upper.")
        if self.exponent is not None and len(self.regime) < _FEWEST_FOR_A_SLOPE:
            raise ValueError(
                f"{self.name}: an exponent needs at least {_FEWEST_FOR_A_SLOPE} values in its "
                f"regime; of {list(map(str, self.values))} it covers {len(self.regime)}."
            )

    def _check_values(self) -> None:
        if not self.values:
            raise ValueError(f"{self.name}: there are no values of {self.variable}; give a range.")
        numbers = [float(value) for value in self.values]
        if numbers[0] <= 0 or any(b <= a for a, b in pairwise(numbers)):
            raise ValueError(
                f"{self.name}: the values of {self.variable} are {list(map(str, self.values))}; "
                "give positive numbers in increasing order."
            )
        if self.variable in self.setting:
            raise ValueError(
                f"{self.name}: {self.variable} runs and is fixed; leave one of them out."
            )
        if "n" not in {self.variable, *self.setting}:
            raise ValueError(
                f"{self.name}: there is no n; put the number of records in the setting."
            )

    @property
    def regime(self) -> list[int]:
        """Indices of the values for which the exponent is claimed; all without an exponent."""
        exponent = self.exponent
        if exponent is None:
            return list(range(len(self.values)))
        return [i for i, value in enumerate(self.values) if exponent.covers(float(value))]

    @property
    def intervals(self) -> int:
        """Number of confidence intervals that a verdict rests on: one a value, and the slope's."""
        return len(self.values) + (self.exponent is not None)

    def at(self, index: int) -> dict[str, Any]:
        """Return the setting for one value of the variable."""
        return {**self.setting, self.variable: self.values[index]}
