"""Batches from written transcripts, and mechanisms made to be tested."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpverify import grid
from dpverify.grid import Answers, Count
from dpverify.plans import (
    Abstained,
    Adaptive,
    DiscreteLaplace,
    Gate,
    KaryResponse,
    Mechanism,
    Plan,
    Stage,
    Transcripts,
)
from dpverify.plans.plan import Built
from dpverify.privacy.hypotheses import Compared
from dpverify.randomness.bits import IntArray

Outcome = tuple[int, ...]
Released = tuple[Outcome, ...]


def batch_of(
    names: Sequence[str], written: Sequence[Released], gates: Sequence[int]
) -> Transcripts:
    """Return the batch of these transcripts. gates[i] is the gate that stopped transcript i, or
    -1."""
    values: dict[str, IntArray] = {}
    for index, name in enumerate(names):
        width = next(len(released[index]) for released in written if len(released) > index)
        column = [
            released[index] if len(released) > index else (0,) * width for released in written
        ]
        values[name] = np.array(column, dtype=np.int64).reshape(len(written), width)
    reached = np.array([len(released) for released in written], dtype=np.intp)
    return Transcripts(values, reached, np.array(gates, dtype=np.intp), ("gate 0", "gate 1"))


def released(transcript: Transcripts) -> Released:
    return tuple(transcript.released.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoAnswers(Mechanism[Released]):
    """One respondent answers, and answers again if the first report was 1: a finite law."""

    def plan(self) -> Plan:
        noise = KaryResponse(2, self.noise_multiplier)
        return (
            Stage("first", Answers(2), noise),
            Gate("first", 1, "said no"),
            Stage("second", Answers(2), noise),
        )

    def estimate(self, transcript: Transcripts) -> Released | Abstained:
        return released(transcript)


def adaptive(
    declared: Built,
    reads: tuple[str, ...],
    key: Callable[[Transcripts], IntArray],
    build: Callable[[int], Built],
    under: tuple[Compared, ...] = (),
) -> Adaptive:
    """Build a plan from one integer a draw, ``key`` of shape (size,), which sees the stages it
    reads."""

    def row(before: Transcripts) -> IntArray:
        return key(before)[:, np.newaxis]

    return Adaptive(declared, grid.Released(reads, row), lambda row: build(row[0]), under)


def parity(batch: Transcripts) -> IntArray:
    """Return the parity of the released count."""
    parities: IntArray = batch.values["count"][:, 0] % 2
    return parities


@dataclass(frozen=True, slots=True, kw_only=True)
class CountsTwice(Mechanism[Released]):
    """A count, then a count within [0, 1] whose noise is doubled if the first came out odd.

    ``factor`` multiplies the noise of the second stage as built, but not as declared.
    """

    factor: Fraction = Fraction(1)
    built_name: str = "again"

    def plan(self) -> Plan:
        within, scale = Count((0.0, 1.0)), self.noise_multiplier

        def build(odd: int) -> Stage:
            noise = DiscreteLaplace(scale * (1 + odd) * self.factor)
            return Stage(self.built_name, within, noise)

        return (
            Stage("count", Count(), DiscreteLaplace(scale)),
            adaptive(Stage("again", within, DiscreteLaplace(scale)), ("count",), parity, build),
        )

    def estimate(self, transcript: Transcripts) -> Released | Abstained:
        return released(transcript)
