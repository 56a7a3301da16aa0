"""``randomized_response``: each respondent's category, randomized on its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from dpverify.grid import Answers
from dpverify.plans import Abstained, Handle, KaryResponse, Mechanism, Plan, Stage, Transcripts
from dpverify.plans.parameters import whole_from
from dpverify.privacy.numbers import to_float

ANSWERS = Handle("answers")
_MOST_CATEGORIES = 1 << 16  # a draw takes about as many proposals at small e^-epsilon


@dataclass(frozen=True, slots=True)
class FrequencyEstimate:
    """Unbiased shares of the categories, from n randomized answers.

    ``frequencies`` sum to 1 and may leave [0, 1]; ``standard_deviation`` bounds the noise of each.
    """

    frequencies: tuple[float, ...]
    standard_deviation: float
    answers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomizedResponse(Mechanism[FrequencyEstimate]):
    """Every answer in 0..categories-1 kept with weight 1, else any other with weight e^-epsilon.

    Data: one column of category numbers, shape (n,) or (n, 1), n >= 1; others are rounded to the
    nearest integer (ties to even) and clamped. Output: ``FrequencyEstimate``, with the n randomized
    answers. Claim: PureDP(1 / noise_multiplier) under Adjacency.REPLACE, proved; add-remove is
    refused, for a list of answers shows how many there are. With nonfinite="replace" a missing answer
    counts as category 0: keep one for it. It holds for each respondent even if
    every other one and the collector collude (local privacy).
    Errors: TypeError or ValueError for parameters and for data that are not a real column.
    Source: W65 (two categories); KBR16, Section 3 (k categories).
    """

    categories: Annotated[
        int, whole_from(2, "; give a number from 2 to 65536.", most=_MOST_CATEGORIES)
    ]

    def fewest_records(self) -> int:
        """One: there are no shares of nothing."""
        return 1

    def plan(self) -> Plan:
        """One stage: the list of answers, each randomized."""
        noise = KaryResponse(self.categories, self.noise_multiplier)
        return (Stage(ANSWERS, Answers(self.categories), noise),)

    def estimate(self, transcript: Transcripts) -> FrequencyEstimate | Abstained:
        """(share of answers j - q) / (p - q), p and q the chances to report j truly and falsely."""
        answers = transcript.numbers(ANSWERS)
        n, k = len(answers), self.categories
        epsilon = min(to_float(1 / self.noise_multiplier), 700.0)
        total = 1 + (k - 1) * math.exp(-epsilon)
        p, q, gap = 1 / total, math.exp(-epsilon) / total, -math.expm1(-epsilon) / total
        shares = [0] * k
        for answer in answers:
            shares[answer] += 1
        frequencies = tuple((share / n - q) / gap for share in shares)
        deviation = math.sqrt(max(p * (1 - p), q * (1 - q)) / n) / gap
        return FrequencyEstimate(frequencies, deviation, answers)
