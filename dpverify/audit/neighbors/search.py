"""``search``: from a domain and an adjacency alone, find the neighbors that betray a mechanism most.

Rounds of successive halving: many pairs with few draws each, then the better half of them, and pairs
near the best, with twice as many draws. A round costs the same number of calls as any other. The best
pair of the last round is audited on fresh draws, with all calls that are left: the bound is an
``audit``'s, and no choice made before can spoil it.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpverify.audit.auditing import audit
from dpverify.audit.certificates import fewest_draws, tested_points
from dpverify.audit.configuration import Exhibit
from dpverify.audit.neighbors.boxes import Box
from dpverify.audit.neighbors.pairs import Neighboring, NeighboringPair
from dpverify.audit.neighbors.proposals import mutated, random_pair
from dpverify.audit.neighbors.proxies import Point, promise
from dpverify.audit.neighbors.templates import check_bounds, templates
from dpverify.audit.result import AuditResult
from dpverify.audit.subjects import Target, claimed_of, target_of
from dpverify.plans import Mechanism
from dpverify.privacy import Derivation, Guarantee, PrivacyClaim
from dpverify.privacy.numbers import whole
from dpverify.randomness import SeededBits

DEFAULT_CALLS = 5_000_000
FEWEST_CALLS = 10_000
_SEARCHING = 0.4  # of all calls, where pairs have to be found
_CHOOSING = 0.06  # where they are given
_MOST_PAIRS = 256
_FEWEST_DRAWS = 100  # a side and pair, in the first round
_FROM_TEMPLATES = 0.6
_ERRORS = (1.0, 2.5)  # standard errors taken off a score, in the first and the last round
_CHILDREN = 0.25  # of a round's pairs are near the best of the round before
_MOST_DRAWS = 200_000  # a score of more is no better
_SHOWN = 8
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Round:
    """One round: how many pairs were compared with how many draws a side, and the best of them.

    calls: all calls of the subject in this round. best: names and scores (see ``proxies.promise``).
    failed: pairs on which the subject raised an exception, by name.
    """

    pairs: int
    draws: int
    calls: int
    best: tuple[tuple[str, float], ...]
    failed: tuple[str, ...] = ()

    def __str__(self) -> str:
        name, score = self.best[0] if self.best else ("none", -np.inf)
        return f"{self.pairs} pairs, {self.draws} draws a side; best {score:+.3g}: {name}"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best pair that was found, and its audit.

    result: None where the search was interrupted before the audit; then nothing is certified.
    calls: of the subject, in all rounds and a finished audit, both sides.
    """

    guarantee: Guarantee
    best: NeighboringPair
    result: AuditResult | None
    rounds: tuple[Round, ...]
    calls: int
    seed: int

    @property
    def epsilon(self) -> float:
        """The certified lower bound on epsilon, 0 where nothing was certified."""
        return 0.0 if self.result is None else self.result.epsilon

    def __str__(self) -> str:
        lines = [f"{i}. {one}" for i, one in enumerate(self.rounds, 1)]
        lines += [f"pair       {self.best.name}", f"left       {_shown(self.best.left)}"]
        lines += [f"right      {_shown(self.best.right)}"]
        lines += (
            ["interrupted: nothing was certified"] if self.result is None else [str(self.result)]
        )
        return "\n".join([*lines, f"searched   {self.calls} calls in all, seed {self.seed}"])


def search(
    subject: Mechanism[Any] | Exhibit | Callable[..., Any],
    *,
    claim: PrivacyClaim | Derivation[PrivacyClaim] | Guarantee | None = None,
    domain: Box | None = None,
    adjacency: Neighboring | None = None,
    pairs: Iterable[NeighboringPair] = (),
    calls: int = DEFAULT_CALLS,
    alpha: float = 0.05,
    seed: int | None = None,
    vectorized: bool = True,
    progress: Callable[[Round], object] | None = None,
) -> SearchResult:
    """Look for neighbors that refute the claim, and audit the best of them.

    subject, claim: as in ``audit``; a function is f(dataset, size) unless ``vectorized=False``.
    domain: the box to look in, under ``adjacency``: templates, random pairs, and changes of the best.
    pairs: crafted neighbors to begin with; without a domain only these are compared.
    calls: how often the subject is called, search and audit together.
    alpha: the false-alarm probability of the audit, and so of everything.
    progress: called after every round.
    Ctrl-C ends the search: the result has the rounds that were finished.

    Raises TypeError or ValueError, before anything is drawn, for a missing claim, nothing to look at,
    pairs of another adjacency, or too few calls; and ValueError from the subject's own exception if
    it raises one on every pair of a round.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha = {alpha} is outside (0, 1); give a probability, say .05.")
    first, guarantee, started = _prepared(
        subject, claim, domain, adjacency, list(pairs), calls, seed
    )
    _check_calls(calls, _budget(calls, domain), len(first), guarantee, alpha)
    contest = _Contest(
        target_of(subject, vectorized), tested_points(guarantee), domain, started, first[0]
    )
    result = None
    try:
        contest.run(first, _budget(calls, domain), progress)
        result = audit(
            subject,
            pairs=[contest.best],
            claim=claim,
            faults=(),
            trials=(calls - contest.calls) // 2,
            alpha=alpha,
            seed=started + 1,  # no draw of the search is drawn again
            vectorized=vectorized,
        )
    except KeyboardInterrupt:
        pass  # what the finished rounds found is the result
    spent = contest.calls + (0 if result is None else 2 * result.trials)
    return SearchResult(guarantee, contest.best, result, tuple(contest.rounds), spent, started)


def _prepared(
    subject: Any,
    claim: Any,
    domain: Box | None,
    adjacency: Neighboring | None,
    given: list[NeighboringPair],
    calls: int,
    seed: int | None,
) -> tuple[list[NeighboringPair], Guarantee, int]:
    """The first round's pairs, what is claimed of them, the seed; refusals, before any draw."""
    if whole(calls, "calls") < FEWEST_CALLS:
        raise ValueError(f"calls = {calls}; a search needs at least {FEWEST_CALLS}.")
    started = secrets.randbelow(2**32) if seed is None else whole(seed, "seed")
    if domain is not None:
        if adjacency is None:
            adjacency = given[0].adjacency if given else getattr(subject, "adjacency", None)
        if adjacency is None:
            raise TypeError("adjacency is missing; say who are neighbors in the domain.")
        given += _found(domain, adjacency, _places(_budget(calls, domain)) - len(given), started)
    elif not given:
        raise ValueError("There is nothing to search; give a domain (a Box), or pairs.")
    if adjacency is not None and any(pair.adjacency != adjacency for pair in given):
        raise ValueError(f"A pair is of another adjacency than {adjacency}; search one at a time.")
    guarantee, _ = claimed_of(subject, claim, given)
    return given, guarantee, started


def _check_calls(calls: int, budget: int, pairs: int, guarantee: Guarantee, alpha: float) -> None:
    """Refuse a search whose audit could not refute the claim by any event."""
    searching = max(budget, 2 * _FEWEST_DRAWS * pairs * _rounds(pairs))
    certifying = (calls - searching) * 3 // 10  # a side, after the audit has chosen its event
    needed = fewest_draws(guarantee, alpha / 2)
    if certifying < needed:
        raise ValueError(
            f"calls = {calls} for {pairs} pairs can refute {guarantee} at alpha = {alpha:g} by no event "
            f"whatever; give at least {2 * (searching + 4 * needed)}, or a larger alpha."
        )


def _budget(calls: int, domain: Box | None) -> int:
    """The calls that all rounds may spend."""
    return int(calls * (_CHOOSING if domain is None else _SEARCHING))


def _places(budget: int) -> int:
    """With how many pairs a search begins: a power of two, with enough draws for each."""
    places = 2
    while places < _MOST_PAIRS and 2 * places * _rounds(2 * places) * 2 * _FEWEST_DRAWS <= budget:
        places *= 2
    return places


def _rounds(pairs: int) -> int:
    """How many rounds of halving lead from so many pairs to one."""
    return math.ceil(math.log2(pairs))


def _found(box: Box, adjacency: Neighboring, places: int, seed: int) -> Iterator[NeighboringPair]:
    """Templates, spread over all there are, and random pairs."""
    check_bounds(adjacency, box)
    usual = list(templates(adjacency, box))
    number = min(len(usual), max(1, int(places * _FROM_TEMPLATES)))
    yield from (usual[i * len(usual) // number] for i in range(number))
    rng = np.random.default_rng((seed, 0))
    for i in range(places - number):
        yield random_pair(f"random {i}", adjacency, box, rng)


class _Contest:
    """Rounds of halving, and what they found so far."""

    def __init__(
        self,
        target: Target,
        points: Sequence[Point],
        box: Box | None,
        seed: int,
        best: NeighboringPair,
    ) -> None:
        self.target, self.points, self.box, self.seed = target, points, box, seed
        self.best = best
        self.rounds: list[Round] = []
        self.calls = 0
        self._rng = np.random.default_rng((seed, 1))

    def run(
        self,
        pairs: Sequence[NeighboringPair],
        budget: int,
        progress: Callable[[Round], object] | None,
    ) -> None:
        """Until one pair is left."""
        rounds = _rounds(len(pairs))
        for number in range(1, rounds + 1):
            draws = min(budget // rounds // (2 * len(pairs)), _MOST_DRAWS)
            first, last = _ERRORS
            errors = last + (first - last) * (rounds - number) / max(1, rounds - 1)
            pairs = self._round(pairs, max(_FEWEST_DRAWS, draws), errors)
            if progress is not None:
                progress(self.rounds[-1])

    def _round(
        self, pairs: Sequence[NeighboringPair], draws: int, errors: float
    ) -> list[NeighboringPair]:
        """Score all pairs; the better half of them, some replaced by pairs near the best."""
        before = self.calls
        scored: list[tuple[float, NeighboringPair]] = []
        failures: list[tuple[NeighboringPair, Exception]] = []
        for index, pair in enumerate(pairs):
            try:
                scored.append((self._score(pair, index, draws, errors), pair))
            except Exception as error:  # on this dataset; the others may do
                failures.append((pair, error))
        if not scored:
            raise failures[0][1]
        scored.sort(key=lambda one: -one[0])
        self.best = scored[0][1]
        self.rounds.append(
            Round(
                len(pairs),
                draws,
                self.calls - before,
                tuple((pair.name, score) for score, pair in scored[:_SHOWN]),
                tuple(pair.name for pair, _ in failures),
            )
        )
        kept = [pair for _, pair in scored[: (len(pairs) + 1) // 2]]
        return self._with_children(kept)

    def _score(self, pair: NeighboringPair, index: int, draws: int, errors: float) -> float:
        laws = self.target(pair.left), self.target(pair.right)
        address = (self.seed, len(self.rounds), index)
        self.calls += draws
        left = laws[0].draw(SeededBits(*address, 0), draws)
        self.calls += draws
        right = laws[1].draw(SeededBits(*address, 1), draws)
        return promise(left, right, laws, self.points, errors)

    def _with_children(self, kept: list[NeighboringPair]) -> list[NeighboringPair]:
        """The last of the kept ones make room for changes of the first."""
        room = int(len(kept) * _CHILDREN) if self.box is not None and len(kept) > 2 else 0
        for i in range(room):
            assert self.box is not None
            name = f"{kept[i % (1 + len(kept) // 4)].name.split(', changed')[0]}, changed"
            child = mutated(name, kept[i % (1 + len(kept) // 4)], self.box, self._rng)
            if child is not None:
                kept[len(kept) - 1 - i] = child
        return kept


def _shown(data: Any) -> str:
    """A dataset in one line."""
    text = " ".join(repr(np.asarray(data).tolist()).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(data)} records)"


__all__ = ["Round", "SearchResult", "search"]
