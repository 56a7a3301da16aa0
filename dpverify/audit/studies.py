"""Studies of pairs: events that the first draws led to, and how alpha is divided among them.

Where a second look chooses again, the draws that it takes for that certify as well, by the event
that had been chosen before them (``confidence_regions``). What they may not decide is how alpha is
divided, so that is fixed before they are drawn (``Before``), and before second looks at other pairs
are: what a function draws may depend on all that it drew before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpverify.audit.certificates import Aim, Earlier, Point
from dpverify.audit.confidence_regions import share_for_parts
from dpverify.audit.counting import EITHER_SIDE, Division, Seen
from dpverify.audit.independence import Watch
from dpverify.audit.outputs.draws import Draws
from dpverify.audit.outputs.laws import AuditedLaw
from dpverify.audit.witnesses.choosing import Options, Witness
from dpverify.audit.witnesses.guesses import Guess, said
from dpverify.audit.witnesses.promises import signed_root

MAIN = 0.9
"""Share of alpha for the most promising direction; the others share the rest."""
SEVERAL = 0.8, 0.2
"""Shares of a direction's alpha, where it is in doubt which event tells most."""
_EITHER = 0.5, 0.5  # likewise, where one of them is suspicious
_UNSETTLED = 0.9, 0.1  # likewise, if a look that no suspicion began leaves it in doubt
_LIGHTER = 0.5, 0.25  # weight of a draw that chooses as well, of one that only certifies: where its
# event is not fitted, and where it is, so that more draws may teach a much better one
_ASIDE = 0.01  # share of a direction's alpha for an event that only its counts speak for
_AGAINST = 1.0  # standard errors above the claim from which an event speaks against it
SUSPICIOUS, _PLAIN = 2.5, 3.3
"""Standard errors above the claim that the best of many events has by chance: often, rarely."""

Hope = tuple[float, float, float]
"""Key by which pairs and directions are ordered."""


class Place(NamedTuple):
    """Place of an event that is certified after a second look, fixed before it: the share of its
    direction's alpha, and whether the draws of the look certify as well.
    """

    share: float
    counted: bool


@dataclass(frozen=True, slots=True)
class Before:
    """Choices that were fixed before a second look drew, and counts of what it drew.

    suspicious: whether a suspicion began the look. hopes: of the two directions, for the division
    of alpha. places: for either direction, those of its events, in order. events: one of either
    direction. draws: of the look, on either side. weights: of these draws, for either event.
    counts: of the events.
    """

    suspicious: bool
    hopes: tuple[Hope, Hope]
    places: tuple[tuple[Place, ...], tuple[Place, ...]]
    events: tuple[Witness, Witness]
    draws: int
    weights: tuple[float, float]
    counts: Seen

    @classmethod
    def of(
        cls,
        options: Sequence[Options],
        against: Sequence[bool],
        counts: Seen,
        draws: int,
        left: int,
        suspicious: bool,
    ) -> Before:
        """Return what is known before a look of so many draws chooses, and leaves so many.

        Its draws count less than as many others, since the event before it may tell much less
        than the one after it. Half the weight costs 1% of the power where both tell as much.
        They count nothing where the event before it promises no bound above 0; nor for what is to
        refute the claim, where that event does not speak against it. against: whether it has done
        so before the look, for either direction (``speaks_against``).
        """
        uncertain, events = doubtful(options), events_of(options)
        suspects = [one.suspect if uncertain else None for one in options]
        hopes = [_hope(one.promise, suspect) for one, suspect in zip(events, suspects, strict=True)]
        places = [places_of(suspicious, uncertain, one) for one in against]
        part = draws / (draws + left)
        weights = [part * _LIGHTER[one.candidate.fitted] * _tells(one) for one in events]
        both = (hopes[0], hopes[1]), (places[0], places[1])
        return cls(suspicious, *both, events, draws, (weights[0], weights[1]), counts)

    def seen(self, side: int) -> Earlier | None:
        """Return the counts of the event of one direction; None if they count nothing."""
        if not self.weights[side]:
            return None
        event, counted = self.events[side], self.counts.counted(side, side)
        counts = counted.hits, counted.draws, counted.other_hits, counted.other_draws
        share = share_for_parts(event.aim.share, event.aim.own)
        return Earlier(said(event), *counts, share, self.weights[side])


@dataclass(frozen=True, slots=True)
class Study:
    """Events that the first draws on a pair led to.

    laws: of both sides. witnesses: an event for either direction. besides: after a second look
    for what may refute, others; the last one is of the largest bound. suspects: the events of the
    largest signed roots, where nothing promises a refutation.
    along: further events on the curve. draws: how many of either side are left to certify
    with, on average.
    watch: evidence of noise that outputs share, so far none.
    guess: a guess at either side of single calls, for a claim without delta, with its promise.
    before: the event before a second look, if its draws certify as well.
    """

    index: int
    laws: tuple[AuditedLaw, AuditedLaw]
    witnesses: tuple[Witness, Witness]
    besides: tuple[tuple[Witness, ...], ...]
    along: tuple[tuple[Witness, ...], ...]
    draws: int
    watch: Watch
    guess: tuple[Guess, float] | None = None
    suspects: tuple[Witness | None, Witness | None] = (None, None)
    before: Before | None = None

    @property
    def division(self) -> Division:
        """Division of the draws that certify between the sides, fixed before they are drawn."""
        side = max((0, 1), key=self.hope)
        return Division.of(2 * self.draws, self.witnesses[side].aim.own, side)

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of draws of either side that certify."""
        division = self.division
        return (self.draws, self.draws) if division.parts == 2 else division.sizes

    def aim_of(self, shot: Shot) -> Aim:
        """Return what the event of a shot is to show, with the share for these sizes."""
        aim = shot.witness.aim
        if shot.side == EITHER_SIDE or self.sizes[0] == self.sizes[1]:
            return aim
        part = self.sizes[shot.side] / sum(self.sizes)
        return replace(aim, share=share_for_parts(aim.share, aim.own, part), own=part)

    @property
    def promise(self) -> float:
        """Promise of the better direction."""
        return max(witness.promise for witness in self.witnesses)

    @property
    def promises(self) -> list[float]:
        """Promises of the two directions, and of a guess at either side if there is one."""
        guess = [] if self.guess is None else [self.guess[1]]
        return [*(witness.promise for witness in self.witnesses), *guess]

    def hope(self, side: int) -> Hope:
        """Return the key by which pairs are ordered."""
        if self.before is not None:
            return self.before.hopes[side]
        suspect = self.suspects[side] if side != EITHER_SIDE else None
        return _hope(self.promises[side], suspect)

    def shots(self, side: int, alpha: float) -> list[Shot]:
        """Return the events to certify in one direction, or (side 2) a guess at either; several
        events share ``alpha``.
        """
        if side == EITHER_SIDE and self.guess is not None:
            return [Shot(EITHER_SIDE, self.guess[0], alpha)]
        if self.before is not None:
            return self._fixed_shots(side, alpha, self.before)
        several, suspect = [self.witnesses[side], *self.besides[side]], self.suspects[side]
        shares, aside = SEVERAL[: len(several)], list[Shot]()
        if suspect is not None and not any(suspect.is_same_as(one) for one in several):
            if suspect.promise >= SUSPICIOUS:
                shares = SEVERAL if suspect.promise >= _PLAIN else _EITHER
                several = [suspect, several[-1]]
            else:
                aside = [Shot(side, suspect, alpha * _ASIDE)]
                alpha *= 1 - _ASIDE
        each = alpha / sum(shares)
        shots = [Shot(side, w, each * share) for w, share in zip(several, shares, strict=False)]
        return shots + aside

    def _fixed_shots(self, side: int, alpha: float, before: Before) -> list[Shot]:
        """Return the events in the places that were fixed before these were chosen.

        A look for a suspicious event has what may refute first; an event without another has both
        places, if these are two tests. After other looks the event of the largest bound is first.
        """
        several, suspect = [self.witnesses[side], *self.besides[side]], self.suspects[side]
        bound, places, earlier = several[-1], before.places[side], before.seen(side)
        if suspect is not None and not any(suspect.is_same_as(one) for one in several):
            several = [suspect, bound] if suspect.promise >= SUSPICIOUS else [*several, suspect]
        others = [one for one in several if not one.is_same_as(bound)]
        if earlier is None and not others:  # nothing of the look counts: both would be one test
            return [Shot(side, bound, alpha)]
        if not before.suspicious:
            several = [bound, *others]
        elif not places[0].counted:
            several = [others[0] if others else bound, bound]
        return [
            Shot(side, event, alpha * place.share, earlier if place.counted else None)
            for event, place in zip(several, places, strict=False)
        ]


def places_of(suspicious: bool, uncertain: bool, against: bool) -> tuple[Place, ...]:
    """Return the places of a direction's events: first for what is to refute the claim, and second
    for the largest bound, if a suspicion began the look; the other way round otherwise.
    """
    if not uncertain:
        return (Place(1.0, True),)
    if not suspicious:
        return Place(_UNSETTLED[0], True), Place(_UNSETTLED[1], against)
    first, second = SEVERAL if against else _EITHER
    return Place(first, against), Place(second, True)


def speaks_against(event: Witness, draws: Sequence[Draws], side: int, point: Point) -> bool:
    """Return whether an event speaks against a claim at this point, by draws that it may have been
    chosen on. side: the one that it is more likely on.
    """
    own, other = draws[side], draws[1 - side]
    hits = [np.array([np.count_nonzero(event.happens_in(one, {}))]) for one in (own, other)]
    surplus = hits[0] - point[1] * len(own)
    return bool(signed_root(surplus, hits[1], len(own) / len(other), point[0])[0] >= _AGAINST)


def _tells(event: Witness) -> bool:
    """Return whether an event promises a bound above 0; rare ones that tell nothing do harm."""
    return event.promise + event.aim.point[0] > 0


def _hope(promise: float, suspect: Witness | None) -> Hope:
    """Return a key: a promised refutation first, then suspicion, then promise."""
    root = 0.0 if suspect is None or suspect.promise < SUSPICIOUS else suspect.promise
    return max(0.0, promise), root, promise


@dataclass(frozen=True, slots=True)
class Shot:
    """An event to be certified, the side that it is more likely on, and at which level; and the
    event that counts besides, if there was a second look.
    """

    side: int
    witness: Witness | Guess
    alpha: float
    earlier: Earlier | None = None


def events_of(options: Sequence[Options]) -> tuple[Witness, Witness]:
    """Return the most promising event of either direction."""
    return options[0].witnesses[0], options[1].witnesses[0]


def doubtful(options: Sequence[Options]) -> bool:
    """Return whether no event promises a refutation."""
    return best_of(options).promise <= 0


def best_of(options: Sequence[Options]) -> Witness:
    """Return the most promising event of both directions."""
    return max((one.witnesses[0] for one in options), key=lambda witness: witness.promise)


def root_of(options: Options) -> float:
    """Return how many standard errors the most suspicious event is above the claim."""
    return 0.0 if options.suspect is None else options.suspect.promise
