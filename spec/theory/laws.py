"""Integer laws, exactly: probabilities as rational functions of exponentials.

Every probability here is built from e(g) = exp(-g) for rational g by field operations alone. With
``real_exponential`` it is a number at mpmath's working precision; with a formal one (a rational
stand-in, multiplicative in g) it is a fraction, which the enumeration of the shipped code must meet
exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, comb
from typing import Any, Protocol

import mpmath as mp

from dpverify.privacy import Source, states

from .caches import lru_cache

Exponential = Callable[[Fraction], Any]
"""Function exp(-exponent), or a stand-in; where a law needs them, with the masses of rounded
Gaussian noise.
"""
Outcome = tuple[int, ...]
_FAR = 36


def real(value: Any) -> Any:
    """Return the rational as a number of mpmath's working precision; an mpmath number as it is."""
    return (
        mp.mpf(value.numerator) / value.denominator if isinstance(value, (Fraction, int)) else value
    )


class _Real:
    """Numbers as they are, at mpmath's working precision."""

    def __call__(self, exponent: Fraction) -> Any:
        return mp.exp(-real(exponent))

    def rounded_gaussian(self, z: int, scale: Fraction) -> Any:
        return _gaussian_mass(abs(z), scale, mp.mp.prec)


@lru_cache(maxsize=1 << 14)
def _gaussian_mass(z: int, scale: Fraction, precision: int) -> Any:
    """Return the mass of z >= 0, cached, as sums over a released number ask for equal masses in
    each direction.
    """
    ends = (real(Fraction(2 * z + side, 2) / scale) / mp.sqrt(2) for side in (-1, 1))
    near, far = (mp.erfc(end) / 2 for end in ends)
    return near - far


real_exponential = _Real()


class IntegerLaw(Protocol):
    """Law of one stage."""

    def probability(self, outcome: Outcome, e: Exponential) -> Any:
        """Return the mass of one outcome."""

    def largest_loss(self, other: Any) -> Fraction | None:
        """Return sup over outcomes of ln(P / Q); None if it is infinite."""

    def profile(self, other: Any, epsilon: Fraction) -> Any:
        """Return sup over events S of P(S) - exp(epsilon) Q(S)."""

    def facts(self) -> tuple[Any, ...]:
        """Return the kind of noise, the query's value and the noise's parameters, which are
        compared with the code's.
        """


@dataclass(frozen=True, slots=True)
class PointLaw:
    """Law with all mass on one outcome."""

    value: Outcome

    def probability(self, outcome: Outcome, e: Exponential) -> Any:
        """Return 1 at the point, 0 elsewhere."""
        return Fraction(1 if outcome == self.value else 0)

    def largest_loss(self, other: PointLaw) -> Fraction | None:
        """Return 0 for the same point, else None (infinite)."""
        return Fraction(0) if self.value == other.value else None

    def profile(self, other: PointLaw, epsilon: Fraction) -> Any:
        """Return 0 for the same point, else 1."""
        return mp.mpf(0 if self.value == other.value else 1)

    def most_outcomes(self) -> tuple[Iterable[Outcome], Any]:
        """Return the point; nothing lies beyond."""
        return ((self.value,), mp.mpf(0))

    def facts(self) -> tuple[Any, ...]:
        """Return the name of a law without noise, and the point."""
        return ("NoNoise", self.value)


@states(
    Source("CKS20", "Algorithms 1 and 2, exact coins and discrete Laplace noise"),
    Source("GRS09", "geometric mechanism"),
)
@dataclass(frozen=True)
class DiscreteLaplaceLaw:
    """Law with mass (1 - w) / (1 + w) w^|x - center| on every integer x, w = exp(-1 / scale)."""

    center: int
    scale: Fraction

    def probability(self, outcome: Outcome, e: Exponential) -> Any:
        """Return the mass of the outcome (x,)."""
        (x,) = outcome
        w = e(1 / self.scale)
        return (1 - w) / (1 + w) * e(Fraction(abs(x - self.center)) / self.scale)

    def at_most(self, x: int, e: Exponential) -> Any:
        """Return P(X <= x): a geometric series on one side of the center or the other."""
        w = e(1 / self.scale)
        if x < self.center:
            return e(Fraction(self.center - x) / self.scale) / (1 + w)
        return 1 - e(Fraction(x - self.center + 1) / self.scale) / (1 + w)

    def tail(self, distance: int, e: Exponential) -> Any:
        """Return P(|X - center| >= distance), distance >= 1: both tails."""
        return 2 * self.at_most(self.center - distance, e)

    def largest_loss(self, other: DiscreteLaplaceLaw) -> Fraction | None:
        """Return |center - center'| / scale, attained at every x beyond this law's center."""
        self._same_scale(other)
        return Fraction(abs(self.center - other.center)) / self.scale

    def profile(self, other: DiscreteLaplaceLaw, epsilon: Fraction) -> Any:
        """Return the exact profile: the loss falls as x moves from this center to the other, so
        the best event is a half-line.

        For centers c < c' the loss at x is (c + c' - 2x) / scale between them and constant
        outside, so it exceeds epsilon < (c' - c) / scale exactly for x <
        (c + c' - epsilon scale) / 2.
        """
        self._same_scale(other)
        low, high = sorted((self.center, other.center))  # the law is symmetric: mirror if needed
        if epsilon >= Fraction(high - low) / self.scale:
            return mp.mpf(0)
        threshold = ceil((low + high - epsilon * self.scale) / 2) - 1
        own = DiscreteLaplaceLaw(low, self.scale).at_most(threshold, real_exponential)
        others = DiscreteLaplaceLaw(high, self.scale).at_most(threshold, real_exponential)
        return own - mp.exp(real(epsilon)) * others

    def most_outcomes(self) -> tuple[Iterable[Outcome], Any]:
        """Return all outcomes but a mass below 1e-15 (_FAR scales away on either side), and that
        mass.
        """
        reach = ceil(_FAR * self.scale)
        near = range(self.center - reach, self.center + reach + 1)
        return ((x,) for x in near), self.tail(reach + 1, real_exponential)

    def facts(self) -> tuple[Any, ...]:
        """Return the name of the law, center and scale."""
        return ("DiscreteLaplace", (self.center,), self.scale)

    def _same_scale(self, other: DiscreteLaplaceLaw) -> None:
        if self.scale != other.scale:
            raise ValueError("the noise scale must be the same on neighbors")


def least_tail(noise: DiscreteLaplaceLaw, beta: Fraction) -> int:
    """Return the least t >= 1 with P(|noise| >= t) <= beta."""
    t = 1
    while noise.tail(t, real_exponential) > real(beta):
        t *= 2
    low = t // 2
    while t - low > 1:
        middle = (low + t) // 2
        if noise.tail(middle, real_exponential) <= real(beta):
            t = middle
        else:
            low = middle
    return t


@states(
    Source("KBR16", "Section 3, k-ary randomized response"), Source("W65", "randomized response")
)
@dataclass(frozen=True)
class KaryResponseLaw:
    """Law of k-ary randomized response: answer j is reported truly with weight 1, as each other
    category with weight exp(-1/scale).
    """

    answers: Outcome
    categories: int
    scale: Fraction

    def probability(self, outcome: Outcome, e: Exponential) -> Any:
        """Return w^(answers changed) / (1 + (k - 1) w)^n."""
        if len(outcome) != len(self.answers):
            return Fraction(0)
        w = e(1 / self.scale)
        result: Any = Fraction(1)
        for reported, true in zip(outcome, self.answers, strict=True):
            if not 0 <= reported < self.categories:
                return Fraction(0)
            result = result * (1 if reported == true else w) / (1 + (self.categories - 1) * w)
        return result

    def largest_loss(self, other: KaryResponseLaw) -> Fraction | None:
        """Return (answers that differ) / scale."""
        return Fraction(self._differing(other)) / self.scale

    def profile(self, other: KaryResponseLaw, epsilon: Fraction) -> Any:
        """Sum over how many of the differing answers were reported truly (a) or as theirs (b)."""
        m, k = self._differing(other), self.categories
        w, total = real_exponential(1 / self.scale), mp.mpf(0)
        for a in range(m + 1):
            for b in range(m - a + 1):
                if Fraction(a - b) / self.scale > epsilon:
                    ways = comb(m, a) * comb(m - a, b) * (k - 2) ** (m - a - b)
                    gap = w ** (m - a) - mp.exp(real(epsilon)) * w ** (m - b)
                    total += ways * gap / (1 + (k - 1) * w) ** m
        return total

    def facts(self) -> tuple[Any, ...]:
        """Return the name of the law, answers, categories and scale."""
        return ("KaryResponse", self.answers, self.categories, self.scale)

    def _differing(self, other: KaryResponseLaw) -> int:
        pairs = zip(self.answers, other.answers, strict=True)
        return sum(mine != theirs for mine, theirs in pairs)


StageLaw = Callable[[tuple[Outcome, ...]], IntegerLaw | None]


@dataclass(frozen=True, slots=True)
class TranscriptLaw:
    """Stages in order; the law of each is a function of the outcomes so far, or None where it
    stopped.

    ``example`` is a prefix that reaches the last stage, one outcome short of a whole
    transcript.
    """

    stages: tuple[tuple[str, StageLaw], ...]
    example: tuple[Outcome, ...] = ()
    known: dict[tuple[Outcome, ...], IntegerLaw | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """The laws of next stages that ``probability`` has needed, by what was released before."""

    def probability(self, transcript: tuple[Outcome, ...], e: Exponential) -> Any:
        """Return the mass of one whole transcript; 0 for a prefix or for more than a transcript."""
        result: Any = Fraction(1)
        for i, (_, stage) in enumerate(self.stages):
            prefix = transcript[:i]
            if prefix not in self.known:
                self.known[prefix] = stage(prefix)
            law = self.known[prefix]
            if law is None:
                return result if len(transcript) == i else Fraction(0)
            if len(transcript) <= i:
                return Fraction(0)
            result = result * law.probability(transcript[i], e)
        return result if len(transcript) == len(self.stages) else Fraction(0)

    def stage_laws(self) -> list[tuple[str, IntegerLaw]]:
        """Return each stage's law after the example prefix."""
        laws = [(name, stage(self.example[:i])) for i, (name, stage) in enumerate(self.stages)]
        return [(name, law) for name, law in laws if law is not None]


def closed(name: str, law: IntegerLaw) -> TranscriptLaw:
    """Return the transcript law of a single stage."""
    return TranscriptLaw(((name, lambda prefix: law),))
