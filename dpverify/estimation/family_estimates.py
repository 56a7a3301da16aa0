"""Results of fits to a family with one parameter, or to a location-scale family."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from dpverify.estimation.answers import Result, deviations, tail_of
from dpverify.privacy.numbers import Exact


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FamilyEstimate(Result):
    """A private parameter of an exponential family.

    ``value`` is the parameter that ``parameter`` names, ``natural`` the same as the family's
    theta; ``count`` the (noisy or public) number of records. ``spread`` is the standard
    deviation of the noise in ``value``, ``sampling`` that of independent records; both to first
    order. ``lowest`` and ``highest`` are the ends of the public range.
    """

    family: str
    parameter: str
    value: float
    natural: float
    count: float
    spread: float = field(repr=False)
    sampling: float = field(repr=False)
    lowest: float = field(repr=False)
    highest: float = field(repr=False)

    def interval(self, level: Exact = 0.95, *, sampling: bool = False) -> tuple[float, float]:
        """Return (low, high), to first order, inside the public range.

        With this probability the interval contains the estimate without noise, or with
        ``sampling`` the parameter of the law that the records are independent draws from.
        Raises TypeError or ValueError for a level outside (0, 1).
        """
        far = deviations("gaussian", tail_of(level))
        reach = far * math.hypot(self.spread, self.sampling * sampling)
        low, high = (min(max(self.value + s * reach, self.lowest), self.highest) for s in (-1, 1))
        return low, high

    def __str__(self) -> str:
        return f"{self.family}, {self.parameter} {self.value:.6g}, of {self.count:.6g} records"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LocationScaleEstimate(Result):
    """Two private parameters of a location-scale family.

    ``value`` has the two that ``parameters`` names; ``location`` and ``scale`` are those of the
    family's t, of which a record is a function; ``count`` is the (noisy or public) number of
    records that the estimate is from: with a mask, of those inside. ``spread`` has the standard
    deviations of the noise in ``value``, ``sampling`` those of independent records; all to
    first order.
    """

    family: str
    parameters: tuple[str, ...]
    value: tuple[float, ...]
    location: float
    scale: float
    count: float
    spread: tuple[float, ...] = field(repr=False)
    sampling: tuple[float, ...] = field(repr=False)

    def interval(
        self, level: Exact = 0.95, *, sampling: bool = False
    ) -> tuple[tuple[float, float], ...]:
        """Return (low, high) for each parameter, to first order.

        Each contains, with this probability, its estimate without noise, or with ``sampling``
        the parameter; not both together. The parameter is that of the law that the records are
        independent draws from. Raises TypeError or ValueError for a level outside (0, 1).
        """
        far, intervals = deviations("gaussian", tail_of(level)), []
        for value, noise, drawn in zip(self.value, self.spread, self.sampling, strict=True):
            reach = far * math.hypot(noise, drawn * sampling)
            intervals.append((value - reach, value + reach))
        return tuple(intervals)

    def __str__(self) -> str:
        pairs = zip(self.parameters, self.value, strict=True)
        shown = ", ".join(f"{name} {value:.6g}" for name, value in pairs)
        return f"{self.family}, {shown}, of {self.count:.6g} records"
