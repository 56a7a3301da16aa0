"""``noisy_count``: the number of all records, or of those in a public interval."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Literal

from dpverify.estimation.answers import NoiseLaw, Result, around, tail_of, whole_deviation
from dpverify.estimation.handles import COUNT
from dpverify.grid import Count, interval
from dpverify.plans import (
    Abstained,
    DiscreteLaplace,
    Mechanism,
    Plan,
    RoundedGaussian,
    Stage,
    Transcripts,
)
from dpverify.plans.parameters import one_of
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Exact


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CountEstimate(Result):
    """A private count, with the standard deviation of its (public) noise, of law ``noise``.

    ``value`` is unbiased and may be negative; clip it only for display.
    """

    value: int
    standard_deviation: float
    noise: NoiseLaw = field(default="laplace", repr=False)

    def interval(self, level: Exact = 0.95) -> tuple[float, float]:
        """Compute (value - t, value + t) with the least integer t for which it holds the count,
        by the noise's exact tail.

        Raises TypeError or ValueError for a level outside (0, 1).
        """
        return around(
            self.value, whole_deviation(self.noise, self.standard_deviation, tail_of(level))
        )


def _interval(value: Any, name: str) -> tuple[float, float]:
    """Read a pair of finite numbers in increasing order."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise TypeError(f"{name} = {value!r}; give a pair such as (120.0, 200.0).")
    return interval(*value, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyCount(Mechanism[CountEstimate]):
    """The number of records, or of those in [a, b] for ``within=(a, b)``, plus integer noise.

    Data: one column, shape (n,) or (n, 1). Output: ``CountEstimate``, in records.
    Claim, proved, exact for n = 0 and every finite or replaced value: noise="laplace":
    PureDP(1 / noise_multiplier); "gaussian": GaussianDP(1 / noise_multiplier), which composes
    better where several counts are released. Under Adjacency.REPLACE the number of all records is
    public, so ``within`` is required.
    Errors: TypeError or ValueError for parameters and for data that are not a real column.
    Source: DMNS06, Section 3 (counting queries); GRS09 (the geometric mechanism); DRS22 (Gaussian
    noise).
    """

    within: Annotated[tuple[float, float], _interval] | None = None
    noise: Annotated[Literal["laplace", "gaussian"], one_of("laplace", "gaussian")] = "laplace"

    def check_parameters(self) -> None:
        """Check that ``within`` is not the whole line, and is given where the plain count is
        public.
        """
        if self.within is not None:
            if not math.isfinite(self.replacement()):
                raise ValueError(f"within = {self.within} holds every number; leave it out.")
        elif self.adjacency is Adjacency.REPLACE:
            raise ValueError(
                "within = None under replace: the number of records is public there, so len(data) "
                "is the answer. Give within=(a, b), or use Adjacency.ADD_REMOVE."
            )

    def replacement(self) -> float:
        """Return a value outside ``within``, so that a missing one is not counted."""
        if self.within is None:
            return 0.0
        below = math.nextafter(self.within[0], -math.inf)
        return below if math.isfinite(below) else math.nextafter(self.within[1], math.inf)

    def plan(self) -> Plan:
        """Plan one stage: the count, of sensitivity 1, with scale noise_multiplier."""
        return (Stage(COUNT, Count(self.within), _noise(self.noise, self.noise_multiplier)),)

    def expected_error(self, n: int) -> float:
        """Return the noise's standard deviation, in records, whatever n is."""
        return _deviation(self.noise, self.noise_multiplier)

    def estimate(self, transcript: Transcripts) -> CountEstimate | Abstained:
        """Return the released integer."""
        deviation = _deviation(self.noise, self.noise_multiplier)
        return CountEstimate(transcript.number(COUNT), deviation, self.noise)


def _noise(name: str, scale: Fraction) -> DiscreteLaplace | RoundedGaussian:
    return DiscreteLaplace(scale) if name == "laplace" else RoundedGaussian(scale)


@lru_cache(maxsize=64)
def _deviation(name: str, scale: Fraction) -> float:
    """Return a noise's standard deviation; a mechanism asks for it in each estimate."""
    return _noise(name, scale).standard_deviation
