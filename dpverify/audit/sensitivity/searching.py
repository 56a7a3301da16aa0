"""The search: crafted neighbors, random ones, climbing from the best, and a smaller pair at the
end.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from dpverify.audit.sensitivity.crafted import crafted
from dpverify.audit.sensitivity.datasets import Candidate, Space, moved, random_candidate
from dpverify.audit.sensitivity.norms import Distance, Excess, compare
from dpverify.audit.sensitivity.subjects import Subject
from dpverify.audit.sensitivity.values import Value
from dpverify.privacy.numbers import Floats

# Shares of the calls after which each part ends; what is left makes the pair smaller.
_CRAFTED, _RANDOM, _CLIMBED = 0.5, 0.65, 0.9
_SIMPLIFIED = 1.5  # times the rows: by then the datasets have become short
_ROWS_A_CALL = 600  # on average, so that long datasets do not take all the time
_REPEATED = 6  # calls kept for evaluating twice what must not change
_BEAMS = (8, 4, 2, 1)
_REMEMBERED = 1 << 20  # numbers in the values that are kept
_MOST_NUMBERS = 40
_ROUNDED, _INFINITE = -(10**6), 10**6  # beyond the exponents of floats

Scored = tuple[Candidate, Distance]


@dataclass(frozen=True, slots=True)
class Found:
    """Result of the search: the worst candidate; for a violation a smaller one of the same
    kind; the number of calls, and of those before the first such violation.
    """

    worst: Scored
    simplest: Scored | None
    calls: int
    found_after: int | None


def search(subject: Subject, space: Space, *, calls: int, seed: int) -> Found:
    """Search with so many evaluations at most. Equal seeds give equal results.

    Raises ValueError for a query that is random, changes its input or does not fit the norm, and
    TypeError for one that returns no numbers.
    """
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        attack = _Attack(subject, space, calls)
        attack.probe()
        attack.try_all(crafted(space, rng), _CRAFTED)
        attack.try_all(_endless(space, rng), _RANDOM)
        attack.climb(rng)
        worst, distance = attack.worst
        simplest = attack.simplified(distance) if distance.exceeds else None
        attack.repeat(worst, distance)
    after = attack.found_after.get(distance.kind)
    return Found((worst, attack.exactly(worst)), simplest, attack.calls, after)


class _SpentError(Exception):
    """Signal that the calls for making a pair smaller are used up."""


class _Attack:
    """The state of one search."""

    def __init__(self, subject: Subject, space: Space, calls: int) -> None:
        self.subject, self.space = subject, space
        self.allowed = calls - _REPEATED
        self.calls = self.rows = self.tries = 0
        self.found_after: dict[Excess | None, int] = {}
        self.shortest: dict[int, Scored] = {}
        self.best: dict[tuple[bool, float, float], Scored] = {}
        self._known: dict[bytes, Value] = {}
        self._held = 0

    @property
    def worst(self) -> Scored:
        """The candidate with the largest distance so far."""
        return self.best[max(self.best)]

    def probe(self) -> None:
        """Refuse what cannot be measured, on the fewest records, of zeros."""
        record = self.space.admit(np.zeros((self.space.fewest, self.space.columns)))
        value, again = self._evaluated(record), self._evaluated(record)
        if value.foreign:
            raise TypeError(
                f"The value of {self.subject.name} is {value.problem}; a query returns a number, "
                "an array or nested lists of numbers."
            )
        self._refuse_random(value.equals(again))
        value, _ = self.subject.aligned(value, value)
        reason = "" if value.problem else self.subject.measure.why_not(value.numbers.shape)
        if reason:
            raise ValueError(f"norm: {reason}.")

    def repeat(self, candidate: Candidate, distance: Distance) -> None:
        """Raise ValueError unless the query says of the worst pair what it said before."""
        self._known.clear()
        again = self._distance(candidate)
        self._refuse_random(again.score == distance.score and again.problem == distance.problem)

    def _refuse_random(self, same: bool) -> None:
        if not same:
            raise ValueError(
                f"{self.subject.name} gives two values for one dataset; a sensitivity is about a "
                "query without randomness and without memory. Audit a mechanism's draws with "
                "audit()."
            )

    def exactly(self, candidate: Candidate) -> Distance:
        """Return the distance in exact arithmetic even when it is small, from values already
        known.
        """
        return self._distance(candidate, exactly=True)

    def try_all(self, candidates: Iterator[Candidate], share: float) -> None:
        """Try the candidates, until the share of calls or of rows is used or nothing can be
        worse.
        """
        for candidate in candidates:
            if self._spent(share):
                return
            self.tries += 1
            if self._affordable(candidate, share):
                self.attempt(candidate)

    def _spent(self, share: float) -> bool:
        """Return whether a part of the search ends: its calls are used, or an infinite distance
        was found.

        Tries count as well, for in a small domain nothing new may be left to evaluate.
        """
        if self.best and self.worst[1].problem:
            return True
        return max(self.calls + 2, self.tries) > share * self.allowed

    def attempt(self, candidate: Candidate) -> Distance:
        """Return the candidate's distance, and keep it if it is among the largest."""
        distance = self._distance(candidate)
        if distance.exceeds:
            self.found_after.setdefault(distance.kind, self.calls)
            shortest = self.shortest.get(_octave(distance))
            if shortest is None or len(candidate.rows) < len(shortest[0].rows):
                self.shortest[_octave(distance)] = (candidate, distance)
        if distance.score not in self.best:
            self.best[distance.score] = (candidate, distance)
            if len(self.best) > _BEAMS[0]:
                del self.best[min(self.best)]
        return distance

    def climb(self, rng: np.random.Generator) -> None:
        """Climb from the best candidates, by moves that do not make it worse, with fewer starts
        and more steps each time.
        """
        part = (_CLIMBED - _RANDOM) / len(_BEAMS)
        for i, beams in enumerate(_BEAMS):
            starts = sorted(self.best, reverse=True)[:beams]
            chains = [self.best[score] for score in starts]
            share = _RANDOM + part * (i + 1)
            while not self._spent(share):
                chains = [self._step(chain, share, rng) for chain in chains]

    def _step(self, chain: Scored, share: float, rng: np.random.Generator) -> Scored:
        self.tries += 1
        candidate, distance = chain
        other = moved(self.space, candidate, rng)
        over = self.calls + 2 > share * self.allowed
        if over or not self._affordable(other, share):
            return chain
        reached = self.attempt(other)
        return (other, reached) if reached.score >= distance.score else chain

    def simplified(self, worst: Distance) -> Scored:
        """Return a pair of fewer records and rounder numbers that shows what the worst one
        does: an excess by rounding, or one of substance and at least half as large.
        """

        def as_telling(distance: Distance) -> bool:
            same = distance.kind is worst.kind and bool(distance.problem) == bool(worst.problem)
            return same and (worst.kind is Excess.ROUNDING or distance.excess >= worst.excess / 2)

        starts = [one for one in self.shortest.values() if as_telling(one[1])]
        accepted = [min(starts, key=lambda one: len(one[0].rows))[0]]

        def good(candidate: Candidate) -> bool:
            if len(candidate.rows) < self.space.fewest:
                return False
            if self.calls + 2 > self.allowed or not self._affordable(candidate, _SIMPLIFIED):
                raise _SpentError
            if as_telling(self._distance(candidate)):
                accepted.append(candidate)
            return accepted[-1] is candidate

        with suppress(_SpentError):
            shorter = _with_fewer_rows(accepted[0], good)
            rounder = _with_rounder_numbers(self.space, shorter, good)
            _with_fewer_rows(rounder, good)
        return accepted[-1], self.exactly(accepted[-1])

    def _affordable(self, candidate: Candidate, share: float) -> bool:
        return self.rows + 2 * len(candidate.rows) <= share * self.allowed * _ROWS_A_CALL

    def _distance(self, candidate: Candidate, *, exactly: bool = False) -> Distance:
        left, right = (self._known_value(side) for side in candidate.sides())
        left, right = self.subject.aligned(left, right)
        return compare(self.subject.measure, left, right, self.subject.bound, exactly=exactly)

    def _known_value(self, rows: Floats) -> Value:
        key = blake2b(rows.tobytes(), digest_size=24).digest() + len(rows).to_bytes(8, "big")
        value = self._known.get(key)
        if value is None:
            value = self._evaluated(rows)
            self._held += 1 + value.numbers.size
            if self._held > _REMEMBERED:
                self._known.clear()
                self._held = 0
            self._known[key] = value
        return value

    def _evaluated(self, rows: Floats) -> Value:
        self.calls += 1
        self.rows += len(rows)
        return self.subject.evaluate(rows)


def _octave(excess: Distance) -> int:
    """Return a class of excesses: all by rounding together; those of substance by size, up to a
    factor of 2.
    """
    if excess.kind is Excess.ROUNDING or math.isinf(excess.excess):
        return _ROUNDED if excess.kind is Excess.ROUNDING else _INFINITE
    return math.frexp(excess.excess)[1]


def _endless(space: Space, rng: np.random.Generator) -> Iterator[Candidate]:
    while True:
        yield random_candidate(space, rng)


def _with_fewer_rows(candidate: Candidate, good: Callable[[Candidate], bool]) -> Candidate:
    """Drop stretches of records, halves first, as long as the candidate stays good."""
    stretch = max(1, len(candidate.rows) // 2)
    while True:
        start, failed = 0, False  # failed: whether the stretch before could not be dropped
        while start < len(candidate.rows):
            if failed and _drop_alike(candidate, start, stretch):
                start += stretch
                continue
            dropped = np.arange(start, min(start + stretch, len(candidate.rows)))
            dropped = dropped[dropped != candidate.at]
            at = candidate.at - int(np.count_nonzero(dropped < candidate.at))
            fewer = Candidate(np.delete(candidate.rows, dropped, axis=0), at, candidate.record)
            if len(dropped) and good(fewer):
                candidate, failed = fewer, False
            else:
                start, failed = start + stretch, True
        if stretch == 1:
            return candidate
        stretch //= 2


def _drop_alike(candidate: Candidate, start: int, stretch: int) -> bool:
    """Return whether without this stretch the datasets are those without the stretch before it."""
    rows, at = candidate.rows, candidate.at
    before, here = rows[start - stretch : start], rows[start : start + stretch]
    same_place = start + stretch <= at or start - stretch > at
    return same_place and before.tobytes() == here.tobytes()


def _with_rounder_numbers(
    space: Space, candidate: Candidate, good: Callable[[Candidate], bool]
) -> Candidate:
    """Replace each number, wherever it stands, by the roundest one with which the candidate
    stays good.
    """
    record = np.zeros(0) if candidate.record is None else candidate.record
    numbers = np.unique(np.concatenate([candidate.rows.ravel(), record]))
    numbers = numbers[np.isfinite(numbers)][:_MOST_NUMBERS]
    for number in numbers.tolist():
        for rounder in _rounder(number):
            if rounder == number:
                break
            other = _replaced(space, candidate, number, rounder)
            if good(other):
                candidate = other
                break
    return candidate


def _rounder(number: float) -> Iterator[float]:
    yield from (0.0, 1.0, -1.0)
    yield from (float(np.rint(number)), float(f"{number:.0e}"), float(f"{number:.2e}"))
    yield float(np.copysign(2.0 ** np.rint(np.log2(abs(number))), number))


def _replaced(space: Space, candidate: Candidate, number: float, rounder: float) -> Candidate:
    rows = space.admit(np.where(candidate.rows == number, rounder, candidate.rows))
    record = candidate.record
    if record is not None:
        record = space.admit(np.where(record == number, rounder, record))
    return Candidate(rows, candidate.at, record)
