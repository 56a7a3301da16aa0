"""Laws of several stages: a filter whose coins are never released, and stages that a released
number decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import mpmath as mp

from .gaussian_laws import RoundedGaussianLaw
from .laws import (
    Exponential,
    IntegerLaw,
    Outcome,
    StageLaw,
    TranscriptLaw,
    real,
    real_exponential,
)
from .profiles import gaussian_profile

Core = tuple[Outcome, Any, TranscriptLaw]
"""A set of records that may be kept, its probability, and what is then released."""


@dataclass(frozen=True, slots=True)
class FilteredLaw:
    """Stages, then a random filter, then a transcript about the records that it keeps.

    first_stages: the stages released before the filter. cores: given those outcomes, every set that
    may be kept (increasing positions), its probability and the transcript that follows; None if
    it stopped before. everything: the transcript that follows where all records are kept, as
    declared before any data (a filter's friendly neighbors see that). filter: its kind, the
    part of the records that it sees, and its parameters.
    """

    first_stages: tuple[tuple[str, StageLaw], ...]
    cores: Callable[[tuple[Outcome, ...], Exponential], Iterable[Core] | None]
    everything: TranscriptLaw
    filter: tuple[Any, ...]

    def probability(self, transcript: tuple[Outcome, ...], e: Exponential) -> Any:
        """Return the mass of one whole transcript: the average over all kept sets."""
        return sum(self.by_core(transcript, e).values(), Fraction(0))

    def by_core(self, transcript: tuple[Outcome, ...], e: Exponential) -> dict[Outcome | None, Any]:
        """Return the mass of one whole transcript by kept sets; None where it stopped before the
        filter.
        """
        before, after = transcript[: len(self.first_stages)], transcript[len(self.first_stages) :]
        result: Any = Fraction(1)
        for i, (_, stage) in enumerate(self.first_stages):
            law = stage(before[:i])
            if law is None or len(before) <= i:
                return {}
            result = result * law.probability(before[i], e)
        cores = self.cores(before, e)
        if cores is None:
            return {None: Fraction(0) if after else result}
        return {kept: result * share * inner.probability(after, e) for kept, share, inner in cores}

    def stage_laws(self) -> list[tuple[str, IntegerLaw]]:
        """Return the laws of the stages before the filter, then of those after it where everything
        is kept.
        """
        first_law = TranscriptLaw(self.first_stages)
        return first_law.stage_laws() + self.everything.stage_laws()

    @property
    def example(self) -> tuple[Outcome, ...]:
        """Example transcript of the stages after the filter; the stages before it do not depend on
        each other.
        """
        return self.everything.example


def delta_of_transcripts(p: TranscriptLaw, q: TranscriptLaw, epsilon: Any) -> Any:
    """Return sup over events S of P(S) - e^epsilon Q(S), for transcripts whose last stage knows
    its profile.

    Every outcome of an earlier stage is summed: given it, the rest has its own delta at epsilon
    less the loss so far. For vectors the stages after the first are one Gaussian pair, whose
    mu^2 adds up, each taken where those before it are most likely under P. The mass that a
    summed stage puts more than 8 standard deviations away counts in full, so the value is never
    below the true one, and within 2e-15 of it.
    """
    return _delta_after(p, q, epsilon, ())


def _delta_after(
    p: TranscriptLaw, q: TranscriptLaw, epsilon: Any, prefix: tuple[Outcome, ...]
) -> Any:
    i = len(prefix)
    own: Any
    own, other = (law.stages[i][1](prefix) if i < len(law.stages) else None for law in (p, q))
    if own is None or other is None:
        surely = 1 - mp.exp(epsilon)
        return mp.mpf(1) if (own is None) != (other is None) else max(mp.mpf(0), surely)
    if i == len(p.stages) - 1:
        return _delta_of_stage(own, other, epsilon)
    if i and hasattr(own, "mu_squared"):
        square = _gaussian_rest(p, q, prefix)
        return gaussian_profile(square, epsilon) if square else max(mp.mpf(0), 1 - mp.exp(epsilon))
    delta: Any = mp.mpf(0)
    outcomes, beyond = own.most_outcomes()
    for outcome in outcomes:
        mass, others = (real(law.probability(outcome, real_exponential)) for law in (own, other))
        if mass:
            left = epsilon - mp.log(mass / others) if others else -mp.inf
            rest = _delta_after(p, q, left, (*prefix, outcome)) if others else 1
            delta += mass * rest
    return delta + beyond


def _gaussian_rest(p: TranscriptLaw, q: TranscriptLaw, prefix: tuple[Outcome, ...]) -> Fraction:
    """Return mu^2 of all stages after the prefix, with the likeliest outcomes under P put in."""
    square = Fraction(0)
    for (_, own), (_, other) in list(zip(p.stages, q.stages, strict=True))[len(prefix) :]:
        mine, theirs = (cast(RoundedGaussianLaw, stage(prefix)) for stage in (own, other))
        square += mine.mu_squared(theirs)
        prefix = (*prefix, mine.center)
    return square


def _delta_of_stage(own: Any, other: Any, epsilon: Any) -> Any:
    """Return the delta of a stage at any real epsilon; for a stage that does not move it is 1 -
    e^epsilon below 0.
    """
    if own.largest_loss(other) == 0:
        return max(mp.mpf(0), 1 - mp.exp(epsilon))
    return own.profile(other, epsilon)
