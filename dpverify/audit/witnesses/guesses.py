"""Guesses at the side of a call, where a fair coin chose the side.

Let a fair coin choose the dataset of each call, and let every call's law, given all calls
before it, keep an (epsilon, delta) guarantee. However outputs, clocks or counters drift, and
whatever the function remembers, given the past

    P(left, S) = P(S) / 2 <= (e^epsilon Q(S) + delta) / 2 = e^epsilon P(right, S) + delta / 2

for every set S of outputs, and likewise with the sides exchanged. So a guess that says left on
S and right on a disjoint set T is right with probability at most e^epsilon times that of being
wrong, plus delta / 2 for each side that is ever guessed. This is what the bets of ``betting``
on single calls rest on.

With delta = 0 counts are exact too. Let what the function carries from call to call be clocks,
counters and its own outputs, but nothing else of the datasets it was called on. Then given all
outputs the sides are independent, since the joint probability of sides and outputs is a product
over the calls of one half times P_t(y_t) or Q_t(y_t), which the past outputs determine; and
each guess is right with probability at most e^epsilon / (1 + e^epsilon). Hence given all
outputs, and so their number K of guesses, the number of right ones is stochastically at most
Binomial(K, e^epsilon / (1 + e^epsilon)), whatever drifts. (A function that remembers the
datasets themselves could stop giving outputs of S just when many guesses were right. It is held
to its claim by bets, ``sequential=True``, which no choice of a stopping time helps.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.betting import Tally, expected_growth
from dpverify.audit.certificates import DIRECTIONS, EITHER, Aim, share_of_guesses
from dpverify.audit.outputs.draws import Draws
from dpverify.audit.witnesses.choosing import Witness
from dpverify.privacy.numbers import Floats

_TWICE = re.compile(r"not \(((?:(?! is ).)* is(?: exactly)?) not (.*)\)", re.DOTALL)
_NEVER_RAISES = re.compile(r"not \(the call does not raise (.*)\)", re.DOTALL)
_PLAINER = 0.02  # how much more guesses of either side, which are harder to explain, must win


@dataclass(frozen=True, slots=True)
class Guess:
    """Guess at the side of a call: left where one event happens, right where another does, none
    where both do or neither.

    events: one of the left side and one of the right; None where that side is never guessed.
    """

    events: tuple[Witness | None, Witness | None]

    @property
    def direction(self) -> str:
        """Direction of the guess: one of ``DIRECTIONS``, or ``EITHER``."""
        if self.is_of_either:
            return EITHER
        return DIRECTIONS[0] if self.events[0] is not None else DIRECTIONS[1]

    @property
    def is_of_either(self) -> bool:
        """True if both sides are guessed."""
        return all(event is not None for event in self.events)

    @property
    def share(self) -> float:
        """The part of delta that each call pays: 1/2 for each side that is guessed."""
        return share_of_guesses(self.direction)

    @property
    def aim(self) -> Aim:
        """Aim of the more promising event."""
        return max((one for one in self.events if one is not None), key=lambda one: one.promise).aim

    def __str__(self) -> str:
        left, right = self.events
        if left is None or right is None:
            return said(right if left is None else left)
        return f"left where {said(left)}, right where {said(right)}"

    def counts(self, left: Draws, right: Draws) -> tuple[int, int]:
        """Return how many guesses are right on these draws, and how many wrong."""
        hits = [
            [int(np.count_nonzero(one)) for one in self.happenings(side, {})]
            for side in (left, right)
        ]
        return hits[0][0] + hits[1][1], hits[0][1] + hits[1][0]

    def tally(self, left: Draws, right: Draws) -> Tally:
        """Return the same as a tally for a bet on single calls."""
        own, other = self.counts(left, right)
        return Tally(0, own, other, len(left) + len(right) - own - other)

    def draws(self, left: Draws, right: Draws) -> tuple[int, int]:
        """Return how many calls could have been guessed rightly, and how many wrongly."""
        sizes = len(left), len(right)
        if self.is_of_either:
            return sum(sizes), sum(sizes)
        return sizes if self.events[0] is not None else sizes[::-1]

    def happenings(self, draws: Draws, scores: dict[int, Floats]) -> list[NDArray[np.bool_]]:
        """Return where left is said, and where right. scores: as in ``Witness.happenings``."""
        says = [
            np.zeros(len(draws), dtype=np.bool_) if one is None else one.happens_in(draws, scores)
            for one in self.events
        ]
        return [says[0] & ~says[1], says[1] & ~says[0]]


def said(event: Witness | Guess | None) -> str:
    """Return an event in words, without a negation of a negation."""
    text = str(event)
    if isinstance(event, Witness) and event.sign < 0:
        text = _TWICE.sub(r"\1 \2", text) if _TWICE.fullmatch(text) else text
        raising = _NEVER_RAISES.fullmatch(text)
        text = f"the call raises {raising[1]}" if raising else text
    return text


def guesses_of(witnesses: Sequence[Witness]) -> tuple[Guess, Guess, Guess]:
    """Return the guesses of left alone, of right alone, of either side."""
    left, right = witnesses
    return Guess((left, None)), Guess((None, right)), Guess((left, right))


def best_bet(witnesses: Sequence[Witness], left: Draws, right: Draws) -> Guess:
    """Return the guess whose bets grow fastest on these draws; that of the more promising event
    where none does.
    """
    first = max((0, 1), key=lambda side: witnesses[side].promise)
    options = guesses_of(witnesses)
    best, most = options[first], 0.0
    for guess in options:
        own, other = guess.counts(left, right)
        draws = guess.draws(left, right)
        rates = [(k + 0.5) / (n + 1) for k, n in zip((own, other), draws, strict=True)]
        growth = expected_growth(*guess.aim.point, rates[0], rates[1], guess.share)
        if growth > most * (1 + _PLAINER):
            best, most = guess, growth
    return best
