"""The sequential attack: stops as soon as the claim is refuted, and may run as long as one likes.

One wealth is bet against the claim, batch after batch, on the pair, direction, event and point
of the claim that look best on all batches before: every draw first pays for the evidence and
then teaches.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.betting import (
    Bet,
    Tally,
    Wealth,
    bet_on,
    largest_parameter,
    log_growth,
    payoffs_of,
    stakes_for,
)
from dpverify.audit.certificates import DIRECTIONS, Aim, Certificate, Point, tested_points
from dpverify.audit.independence import EventWatch, Watch, refuse_constant
from dpverify.audit.kept_noise import doubts, drifting, refuse_kept, stillness, unchanging
from dpverify.audit.neighbors.pairs import NeighboringPair
from dpverify.audit.outputs.draws import Draws, together
from dpverify.audit.outputs.laws import (
    AuditedLaw,
    all_failed,
    are_functions,
    both_drawn,
    called_singly,
    is_known,
)
from dpverify.audit.scouting import refuse_failures, suggested_direction
from dpverify.audit.subjects import Target
from dpverify.audit.witnesses.choosing import Witness, choose, likelihood_ratio
from dpverify.audit.witnesses.guesses import Guess, best_bet, said
from dpverify.audit.witnesses.learned import Effort, candidates
from dpverify.audit.witnesses.promises import Task
from dpverify.privacy import GaussianDP, Guarantee, ZeroConcentratedDP
from dpverify.privacy.numbers import to_float

_FIRST = 64  # draws per side that only teach, on every pair
# draws per side after which a function that never gave a value is taken to be broken
_FAILED = 2000
# draws per side before a refutation stands: where neighbors are this much alike; where a number
# never changes; where its law does
_ALIKE, _STILL, _DOUBTED = ((0.9, 2000), (0.75, 1000)), 2000, 16_000
_MORE = 64  # draws per side at a time, at least
_GROWTH = 0.15  # a batch is this part of what a pair has seen
_RELEARN = 1.5  # learn again when a pair has seen this much more
_KEPT = 100_000  # draws per side to learn from
_ELSEWHERE = 5  # once in so many batches another pair than the best has its turn


@dataclass(slots=True)
class _Track:
    """State of the attack on one pair. guess: for single calls, what is bet on instead of the
    witness.
    """

    index: int
    pair: NeighboringPair
    laws: tuple[AuditedLaw, AuditedLaw]
    past: tuple[list[Draws], list[Draws]] = field(default_factory=lambda: ([], []))
    batches: int = 0
    seen: int = 0
    learned_at: int = 0
    side: int = 0
    witness: Witness | None = None
    guess: Guess | None = None
    rates: tuple[list[int], list[int]] = field(default_factory=lambda: ([0, 0], [0, 0]))

    @property
    def promise(self) -> float:
        return -math.inf if self.witness is None else self.witness.promise

    @property
    def share(self) -> float:
        """Part of delta that a call pays, as in ``Bet``."""
        return 0.0 if self.guess is None else self.guess.share

    @property
    def direction(self) -> str:
        return DIRECTIONS[self.side] if self.guess is None else self.guess.direction

    @property
    def event(self) -> str:
        return said(self.witness if self.guess is None else self.guess)

    @property
    def aim(self) -> Aim:
        assert self.witness is not None
        return self.witness.aim if self.guess is None else self.guess.aim

    def tally(self, drawn: Sequence[Draws]) -> Tally:
        """Return the tally of draws of the left side and of the right."""
        if self.guess is not None:
            return self.guess.tally(drawn[0], drawn[1])
        return Tally.of(self._happened(drawn[self.side]), self._happened(drawn[1 - self.side]))

    def seen_in(self, drawn: Sequence[Draws]) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the event's hits on its own side and on the other with their numbers of draws;
        or those of guesses.
        """
        if self.guess is not None:
            left, right = drawn
            return self.guess.counts(left, right), self.guess.draws(left, right)
        own, other = drawn[self.side], drawn[1 - self.side]
        hits = [int(np.count_nonzero(self._happened(side))) for side in (own, other)]
        return (hits[0], hits[1]), (len(own), len(other))

    def _happened(self, draws: Draws) -> NDArray[np.bool_]:
        assert self.witness is not None
        return self.witness.happens(self.witness.candidate.score(draws))

    def estimate(self, which: int) -> float:
        """Return the event's estimated rate on its own side (0) or the other (1)."""
        hits, draws = self.rates[which]
        return (hits + 0.5) / (draws + 1)


@dataclass(slots=True)
class SequentialAttack:
    """Sequential attack of at most ``most`` draws per side and pair, and about so many
    ``seconds``.

    ``alpha`` is for the whole attack, whenever it stops. go_on: whether the attack goes on
    after the refutation, with events that would refute larger epsilons: bets stop there, but
    bounds still rise.
    """

    guarantee: Guarantee
    pairs: Sequence[NeighboringPair]
    most: int
    alpha: float
    seed: int
    seconds: float = math.inf
    go_on: bool = False
    wealths: list[Wealth] = field(default_factory=list)
    bets: list[Bet] = field(default_factory=list)
    log_wealth: float = 0.0
    peak: float = 0.0
    remarks: list[str] = field(default_factory=list)

    def run(self, target: Target, stream: int) -> tuple[Certificate, int]:
        """Return the certificate, and the number of draws per side. ``bets`` has the history."""
        tracks = [
            _Track(index, pair, (target(pair.left), target(pair.right)))
            for index, pair in enumerate(self.pairs)
        ]
        wealths = self.wealths = [Wealth.on(*point) for point in self._points]
        for track in tracks:
            self._first(track, stream)
        turn, end = 0, perf_counter() + self.seconds
        while (self.go_on or not self._refuted(wealths)) and perf_counter() < end:
            left = self.most * len(tracks) - sum(track.seen for track in tracks)
            if left <= 0:
                break
            turn += 1
            best = max(tracks, key=lambda one: one.promise)
            track = tracks[turn % len(tracks)] if turn % _ELSEWHERE == 0 else best
            self._batch(track, stream, wealths, left)
        best = max(tracks, key=lambda one: one.promise)
        for track in tracks:
            self._refuse_dependent(track, stream, end, refuted=self._refuted(wealths))
        return self._certificate(best, wealths), sum(track.seen for track in tracks)

    @property
    def _points(self) -> list[Point]:
        return sorted(set(tested_points(self.guarantee)))

    @property
    def _levels(self) -> tuple[float, float]:
        """Levels of the bet against the claim and of every bound: a lone point is on the grid
        of its bound.
        """
        several = len(self._points)
        return (
            (self.alpha, self.alpha) if several == 1 else (self.alpha / 2, self.alpha / 2 / several)
        )

    def _refuted(self, wealths: Sequence[Wealth]) -> bool:
        against, each = self._levels
        if len(wealths) == 1:  # with all smaller epsilons, so that one false claim alone decides
            return wealths[0].bound(each) >= self._points[0][0]
        return self.peak >= -math.log(against)

    def _draw(self, track: _Track, stream: int, size: int) -> list[Draws]:
        addresses = [(self.seed, stream, track.index, side, track.batches) for side in (0, 1)]
        drawn = both_drawn(track.laws, addresses, size)
        for past, draws in zip(track.past, drawn, strict=True):
            past.append(draws)
        track.seen += size
        track.batches += 1
        return drawn

    def _first(self, track: _Track, stream: int) -> None:
        for _ in range(2):
            drawn = self._draw(track, stream, _FIRST // 2)
        while all(map(all_failed, drawn)) and track.seen < min(_FAILED, self.most):
            drawn = self._draw(track, stream, track.seen)
        refuse_failures(track.pair, drawn)
        self._learn(track)

    def _refuse_dependent(self, track: _Track, stream: int, end: float, *, refuted: bool) -> None:
        """Raise InvalidRun where outputs share noise, or the event that won bets comes in runs.

        Where a few hundred outputs refute the claim and look as if noise were kept, more are
        drawn before the claim is called false, on the pairs that were bet on.
        """
        if not are_functions(track.laws):
            return
        watch, name = self._watched(track), track.pair.name
        won = refuted and any(bet.pair == name for bet in self.bets)
        while won and perf_counter() < end and (left := _wanted(watch, self.most) - track.seen) > 0:
            self._draw(track, stream, min(left, max(_MORE, track.seen // 2)))
            watch = self._watched(track)
        past = [together(batches) for batches in track.past]
        refuse_constant(name, track.laws, past)
        watch.require_fresh()
        event = track.witness if track.guess is None else track.guess
        if refuted and event is not None:
            runs = EventWatch(track.laws, str(event))
            for draws in past:
                runs.take(event.happenings(draws, {}))
            runs.require_fresh()
        if won:
            refuse_kept(watch)
            self.remarks.extend(doubts(watch, name, _ALIKE[-1][1]))

    def _watched(self, track: _Track) -> Watch:
        watch = Watch(track.laws)
        watch.take([together(batches) for batches in track.past])
        return watch

    def _learn(self, track: _Track) -> None:
        """Learn a new event from all retained draws: learned on every other batch, chosen on
        the rest.
        """
        while len(track.past[0]) > 4 and sum(map(len, track.past[0][1:])) > _KEPT:
            for past in track.past:
                del past[0]
        known = is_known(track.laws[0])
        study = [together(past[0::2]) for past in track.past]
        options = [past[1::2] for past in track.past]
        effort = Effort.FULL if track.seen > 5000 and not known else Effort.QUICK
        pool = candidates(
            *study,
            law_known=known,
            difference=suggested_direction(track.pair),
            seed=self.seed % 2**32,
            effort=effort,
        )
        if known:
            pool = [likelihood_ratio(*track.laws), *pool]
        task = Task(self._aims(), self.alpha, 2 * track.seen)
        witnesses = choose(options[0], options[1], pool, task)
        track.side = int(witnesses[1].promise > witnesses[0].promise)
        track.witness, track.learned_at = witnesses[track.side], track.seen
        if called_singly(track.laws):
            track.guess = best_bet(witnesses, *(together(batches) for batches in options))
        seen = [track.seen_in(drawn) for drawn in zip(*options, strict=True)]
        for which, rate in enumerate(track.rates):
            rate[:] = [sum(one[k][which] for one in seen) for k in (0, 1)]

    def _aims(self) -> tuple[Point, ...]:
        """Return the claim's points; once it is refuted, those that would raise the bounds."""
        if not self._refuted(self.wealths):
            return tested_points(self.guarantee)
        _, each = self._levels
        bounds = [wealth.bound(each) for wealth in self.wealths]
        return tuple(
            (max(bound, claimed), delta)
            for bound, (claimed, delta) in zip(bounds, self._points, strict=True)
        )

    def _batch(self, track: _Track, stream: int, wealths: Sequence[Wealth], left: int) -> None:
        size = max(16, int(_GROWTH * track.seen))
        drawn = self._draw(track, stream, min(size, 1 << 20, left))
        tally, share = track.tally(drawn), track.share
        p, q = track.estimate(0), track.estimate(1)
        epsilon, delta = track.aim.point
        payoffs = payoffs_of(np.array([epsilon]), np.array([delta]), share)
        stake = stakes_for(payoffs, p, q, share)
        if stake[0] > 0 and not self._refuted(wealths):
            where = track.pair.name, track.direction, track.event
            self.bets.append(Bet(*where, epsilon, delta, float(stake[0]), tally, share))
            self.log_wealth += float(log_growth(payoffs, stake, tally)[0])
            self.peak = max(self.peak, self.log_wealth)
        bet_on(wealths, p, q, tally, share)
        for rate, hits, draws in zip(track.rates, *track.seen_in(drawn), strict=True):
            rate[0] += hits
            rate[1] += draws
        if track.seen >= _RELEARN * track.learned_at:
            self._learn(track)

    def _certificate(self, track: _Track, wealths: Sequence[Wealth]) -> Certificate:
        assert track.witness is not None
        points, (_, each) = self._points, self._levels
        bounds = [wealth.bound(each) for wealth in wealths]
        above = [bound - claimed for bound, (claimed, _) in zip(bounds, points, strict=True)]
        best = int(np.argmax(above))
        claimed, delta = points[best]
        made = Certificate(
            track.pair.name,
            track.direction,
            track.event,
            track.rates[0][0],
            track.rates[0][1],
            track.rates[1][0],
            track.rates[1][1],
            track.aim.share,
            delta,
            bounds[best],
            claimed,
            self.alpha,
            method="betting",
            refuted=self._refuted(wealths),
        )
        shown = [(b, d) for b, (_, d) in zip(bounds, points, strict=True) if b >= 0]
        mu, rho = (largest_parameter(kind, shown) for kind in (GaussianDP, ZeroConcentratedDP))
        # then every smaller mu is refuted as well
        if made.refuted and isinstance(self.guarantee, GaussianDP):
            mu = max(mu, _float_below(self.guarantee.mu_squared, 2))
        if made.refuted and isinstance(self.guarantee, ZeroConcentratedDP):
            rho = max(rho, _float_below(self.guarantee.rho, 1))
        return replace(made, mu=mu, rho=rho)


def _wanted(watch: Watch, most: int) -> int:
    """Return how many draws of a side it takes before a refutation stands. most: that were asked
    for; a few hundred say nothing of kept noise, so at least ``_STILL`` are drawn all the same.
    """
    if drifting(watch) is not None:
        return max(_STILL, min(most, _DOUBTED))
    if unchanging(watch) is not None:
        return _STILL
    alike = stillness(watch)
    return next((draws for share, draws in _ALIKE if alike >= share), 0)


def _float_below(value: Fraction, power: int) -> float:
    """Return a float, about the largest one, whose ``power`` is at most this positive number,
    exactly.
    """
    root = math.pow(min(to_float(value), sys.float_info.max), 1 / power)
    while Fraction(root) ** power > value:
        root = math.nextafter(root, 0)
    return root
