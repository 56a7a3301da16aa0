"""``randomized_response``: each respondent's category, randomized on its own."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated

from dpverify.estimation.answers import Result, binomial_ends, tail_of
from dpverify.grid import Answers
from dpverify.plans import Abstained, Handle, KaryResponse, Mechanism, Plan, Stage, Transcripts
from dpverify.plans.parameters import whole_from
from dpverify.privacy.numbers import Exact, to_float

ANSWERS = Handle("answers")
_MOST_CATEGORIES = 1 << 16  # a draw takes about as many proposals at small e^-epsilon


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FrequencyEstimate(Result):
    """Unbiased shares of the categories, from n randomized answers.

    ``frequencies`` sum to 1 and may leave [0, 1]; ``standard_deviation`` bounds the noise of
    each. ``gap`` is the chance that a category is answered where it is true, minus the chance
    where it is not.
    """

    frequencies: tuple[float, ...]
    standard_deviation: float
    answers: tuple[int, ...] = field(repr=False)
    gap: float = field(repr=False)

    @property
    def value(self) -> tuple[float, ...]:
        """Return ``frequencies``."""
        return self.frequencies

    def interval(
        self, level: Exact = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Compute (low, high) that hold the categories' shares among these respondents.

        Conservative, by Bernstein's inequality for independent answers: about 1.4 times as long
        as normal intervals.
        sampling: hold the population's shares instead, from which respondents are independent
        draws: an answer's number is binomial, and the interval that of Clopper and Pearson.
        simultaneous: hold for all categories together, by Bonferroni's bound.
        Raises TypeError or ValueError for a level outside (0, 1).
        """
        n, k = len(self.answers), len(self.frequencies)
        tail = tail_of(level, k if simultaneous else 1)
        if sampling:
            false = (1 - self.gap) / k
            told = [false + self.gap * share for share in self.frequencies]
            ends = [binomial_ends(rate, rate, n, tail) for rate in told]
            pairs = [[(end - false) / self.gap for end in pair] for pair in ends]
        else:
            log = math.log(2 / tail)
            reach = math.sqrt(2 * log) * self.standard_deviation + log / (3 * n * self.gap)
            pairs = [[share - reach, share + reach] for share in self.frequencies]
        return tuple(low for low, _ in pairs), tuple(high for _, high in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomizedResponse(Mechanism[FrequencyEstimate]):
    """Every answer in 0..categories-1 kept with weight 1, or replaced by any other with weight
    e^-epsilon.

    Data: one column of category numbers, shape (n,) or (n, 1), n >= 1; others are rounded to the
    nearest integer (ties to even) and clamped. With nonfinite="replace" a missing answer counts
    as category 0: keep one for it. Output: ``FrequencyEstimate``, with the n randomized answers.
    Claim: PureDP(1 / noise_multiplier) under Adjacency.REPLACE, proved; add-remove is refused,
    since a list of answers shows how many there are. The claim holds for each respondent even if
    every other one and the collector collude (local privacy).
    Errors: TypeError or ValueError for parameters and for data that are not a real column.
    Source: W65 (two categories); KBR16, Section 3 (k categories).
    """

    categories: Annotated[
        int, whole_from(2, "; give a number from 2 to 65536.", most=_MOST_CATEGORIES)
    ]

    def fewest_records(self) -> int:
        """Return 1: without any answer there are no shares."""
        return 1

    def plan(self) -> Plan:
        """Plan one stage: the list of answers, each randomized."""
        noise = KaryResponse(self.categories, self.noise_multiplier)
        return (Stage(ANSWERS, Answers(self.categories), noise),)

    def estimate(self, transcript: Transcripts) -> FrequencyEstimate | Abstained:
        """Return (share of answers j - q) / (p - q), with p and q the chances to report j truly
        and falsely.
        """
        answers = transcript.numbers(ANSWERS)
        n, k = len(answers), self.categories
        p, q, gap = self._chances()
        shares = [0] * k
        for answer in answers:
            shares[answer] += 1
        frequencies = tuple((share / n - q) / gap for share in shares)
        deviation = math.sqrt(max(p * (1 - p), q * (1 - q)) / n) / gap
        return FrequencyEstimate(frequencies, deviation, answers, gap)

    def expected_error(self, n: int) -> float:
        """Predict the Euclidean length of the shares' errors, whatever the answers of n
        respondents are.
        """
        p, q, gap = self._chances()
        square = p * (1 - p) + (self.categories - 1) * q * (1 - q)
        return math.sqrt(square / n) / gap if n > 0 < gap else math.inf

    def _chances(self) -> tuple[float, float, float]:
        """Return the chances to report a category truly and falsely, and their difference."""
        epsilon = min(to_float(1 / self.noise_multiplier), 700.0)
        total = 1 + (self.categories - 1) * math.exp(-epsilon)
        return 1 / total, math.exp(-epsilon) / total, -math.expm1(-epsilon) / total
