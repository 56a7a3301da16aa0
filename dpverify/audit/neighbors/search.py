"""``search``: from a domain and an adjacency alone, find the neighbors that betray a mechanism most.

Rounds of successive halving: many pairs with few draws each, then the better half of them, and pairs
near the best, with twice as many draws. A round costs the same number of calls as any other. The best
pair of the last round is audited on fresh draws, with all calls that are left: the bound is an
``audit``'s, and no choice made before can spoil it.

A mechanism that is broken a little shows it on datasets several steps apart, where the loss adds up and
the claim for a group adds up as well; so some of the pairs are.
"""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dpverify.audit.auditing import DEFAULT_ALPHA, audit
from dpverify.audit.certificates import fewest_draws, tested_points
from dpverify.audit.configuration import Exhibit
from dpverify.audit.faults import Fault
from dpverify.audit.neighbors.boxes import Box
from dpverify.audit.neighbors.contest import FEWEST_DRAWS, Contest, Round, rounds_of
from dpverify.audit.neighbors.pairs import Neighboring, NeighboringPair, QueryMoves, Steps
from dpverify.audit.neighbors.proposals import random_pair
from dpverify.audit.neighbors.templates import apart, check_bounds, in_turn, templates
from dpverify.audit.progress import Meter, Progress, shown
from dpverify.audit.result import AuditResult
from dpverify.audit.subjects import claimed_of, is_ours, name_of, target_of
from dpverify.audit.verdicts import Asked
from dpverify.plans import Mechanism
from dpverify.privacy import Derivation, Group, Guarantee, PrivacyClaim
from dpverify.privacy.numbers import whole

DEFAULT_CALLS = 5_000_000
FEWEST_CALLS = 10_000
_SEARCHING = 0.4  # of all calls, where pairs have to be found
_CHOOSING = 0.06  # where they are given
_MOST_PAIRS = 256
_USUAL_DRAWS = 100  # a side and pair, in the first round, unless there are more templates than that is enough for
_RANDOM, _FURTHER = 0.45, 0.15  # of the pairs that the calls are enough for
_NEAR = 4  # random neighbors for each random pair further apart
_STEPS = (
    8,
    4,
    2,
)  # those that are tried besides single ones: the first that the calls are enough for
_AMPLE = 4  # times the draws that show an event which is certain on one side and never on the other
_LONGEST = 200


@dataclass(frozen=True, slots=True, repr=False)
class SearchResult(Asked):
    """The best pair that was found, and its audit.

    guarantee: of neighbors. steps: how many lead from one side of the best pair to the other; its audit is of
    ``guarantee.for_group(steps)``.
    result: None where the search was interrupted before the audit; then nothing is certified.
    calls: of the subject, in all rounds and a finished audit, both sides.
    """

    guarantee: Guarantee
    best: NeighboringPair
    steps: int
    result: AuditResult | None
    rounds: tuple[Round, ...]
    calls: int
    seed: int

    @property
    def is_consistent(self) -> bool:
        """Whether the audit of the best pair is; never without planted faults (``faults=``)."""
        return self.result is not None and self.result.is_consistent

    @property
    def epsilon(self) -> float:
        """The certified lower bound on epsilon for some neighbors, at ``delta``; 0 where nothing was certified.

        Of a pair k steps apart that is a k-th of the audit's: if all neighbors on the way had (epsilon / k, delta),
        the two ends would have (epsilon, delta (1 + e^(epsilon / k) + ... + e^((k - 1) epsilon / k))).
        """
        return 0.0 if self.result is None else self.result.epsilon / self.steps

    @property
    def delta(self) -> float:
        """The delta at which ``epsilon`` is a bound."""
        if self.result is None:
            return 0.0
        one = min(self.epsilon, 700.0 / self.steps)
        return self.result.strongest.delta / sum(math.exp(i * one) for i in range(self.steps))

    def __str__(self) -> str:
        lines = [f"{i}. {one}" for i, one in enumerate(self.rounds, 1)]
        lines += [f"pair       {self.best.name}", f"left       {_shown(self.best.left)}"]
        lines += [f"right      {_shown(self.best.right)}"]
        if self.steps > 1:
            lines.append(
                f"steps      {self.steps}, so some neighbors on the way have epsilon >= {self.epsilon:.4g} at delta "
                f"{self.delta:.4g}"
            )
        lines += (
            ["interrupted: nothing was certified"] if self.result is None else [str(self.result)]
        )
        return "\n".join([*lines, f"searched   {self.calls} calls in all, seed {self.seed}"])

    def __repr__(self) -> str:
        found = "interrupted" if self.result is None else repr(self.result)
        return (
            f"<SearchResult for {self.guarantee}: {self.steps} steps apart, {self.calls} calls, seed {self.seed}; "
            f"{found}>"
        )


def search(
    subject: Mechanism[Any] | Exhibit | Callable[..., Any],
    *,
    claim: PrivacyClaim | Derivation[PrivacyClaim] | Guarantee | None = None,
    domain: Box | None = None,
    adjacency: Neighboring | None = None,
    pairs: Iterable[NeighboringPair] = (),
    faults: Iterable[Fault] | Iterable[Callable[..., Any]] = (),
    steps: Sequence[int] | None = None,
    calls: int = DEFAULT_CALLS,
    alpha: float = DEFAULT_ALPHA,
    seed: int | None = None,
    vectorized: bool = False,
    progress: Progress = None,
) -> SearchResult:
    """Look for neighbors that refute the claim, and audit the best of them.

    subject, claim, faults, alpha, vectorized, progress: as in ``audit``; faults are planted in the audit of the best
    pair, none by default.
    domain: the box to look in, under ``adjacency``: templates, random pairs, and changes of the best.
    pairs: crafted neighbors to begin with; without a domain only these are compared.
    steps: how far apart the two sides of a pair are, in turn; by default neighbors, and 8, 4 or 2 steps, as many
    as the calls are enough for (only neighbors where a group's claim is of no closed form).
    calls: how often the subject is called, search and audit together; planted faults have calls besides.
    Ctrl-C ends the search: the result has the rounds that were finished.

    Raises TypeError or ValueError, before anything is drawn, for a missing claim, nothing to look at,
    pairs of another adjacency, or too few calls; and ValueError from the subject's own exception if
    it raises one on every pair of a round.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha = {alpha} is outside (0, 1); give a probability, say 1e-6.")
    if whole(calls, "calls") < FEWEST_CALLS:
        raise ValueError(f"calls = {calls}; a search needs at least {FEWEST_CALLS}.")
    started = secrets.randbelow(2**32) if seed is None else whole(seed, "seed")
    plan = _Plan(subject, claim, domain, adjacency, tuple(pairs), steps, calls, alpha)
    first = plan.first_round(started)
    _check_calls(calls, plan.budget, len(first), plan.guarantee, alpha)
    with shown(progress, f"search of {name_of(subject)}", calls) as meter:
        counted = _counted(subject, meter, vectorized)
        contest = Contest(
            target_of(counted, vectorized), plan.claimed_of, domain, started, first[0]
        )
        result = None
        try:
            contest.run(first, plan.budget)
            result = audit(
                counted,
                pairs=[contest.best],
                claim=plan.claim_of(contest.best),
                faults=faults,
                trials=(calls - contest.calls) // 2,
                alpha=alpha,
                seed=started + 1,  # no draw of the search is drawn again
                vectorized=vectorized,
                progress=False,
            )
        except KeyboardInterrupt:
            meter.stop()  # what the finished rounds found is the result
    spent = contest.calls + (0 if result is None else result.draws)
    far = plan.steps_of(contest.best)
    found = (plan.guarantee, contest.best, far, result, tuple(contest.rounds))
    return SearchResult(*found, spent, started)


def _counted(subject: Any, meter: Meter, vectorized: bool) -> Any:
    told = is_ours(subject) or isinstance(subject, Exhibit)
    return subject if told else meter.counted(subject, vectorized=vectorized)


class _Plan:
    """What is looked at, how far apart, and what is claimed of it; refusals, before any draw."""

    def __init__(
        self,
        subject: Any,
        claim: Any,
        domain: Box | None,
        adjacency: Neighboring | None,
        given: tuple[NeighboringPair, ...],
        steps: Sequence[int] | None,
        calls: int,
        alpha: float,
    ) -> None:
        self.box, self.given, self.claim = domain, given, claim
        self.budget = int(calls * (_CHOOSING if domain is None else _SEARCHING))
        if domain is None and not given:
            raise ValueError("There is nothing to search; give a domain (a Box), or pairs.")
        if adjacency is None:
            adjacency = given[0].adjacency if given else getattr(subject, "adjacency", None)
        if adjacency is None:
            raise TypeError("adjacency is missing; say who are neighbors in the domain.")
        if any(pair.adjacency != adjacency for pair in given):
            raise ValueError(
                f"A pair is of another adjacency than {adjacency}; search one at a time."
            )
        self.adjacency = adjacency
        if domain is not None:
            if not isinstance(domain, Box):
                raise TypeError(
                    f"domain = {domain!r}; write Box(low=0, high=1), with what the data may be."
                )
            check_bounds(adjacency, domain)
            self.near = list(templates(adjacency, domain))
        one = self.given or (self.near[:1] if domain is not None else [])
        if not one:  # a box too small for templates
            one = [random_pair("random", adjacency, domain, np.random.default_rng(0))]  # type: ignore[arg-type]
        self.guarantee, _ = claimed_of(subject, claim, [*one, *(self.near if domain else ())])
        certifying = (calls - self.budget) * 3 // 10
        self.steps: tuple[int, ...] = (1,)
        if domain is not None:
            wanted = _chosen_steps(steps, self.guarantee, certifying, alpha)
            self.steps = tuple(k for k in wanted if k == 1 or self._fits(k)) or (1,)

    def _fits(self, steps: int) -> bool:
        """Whether the box has room for so many steps."""
        assert self.box is not None
        return next(templates(self.adjacency, self.box, steps=steps), None) is not None

    def first_round(self, seed: int) -> list[NeighboringPair]:
        """The pairs given; every template before any is repeated further apart; some that are; and random ones."""
        if self.box is None:
            return list(self.given)
        box, adjacency = self.box, self.adjacency
        places = _places(self.budget, _USUAL_DRAWS) - len(self.given)
        rng = np.random.default_rng((seed, 0))
        number = max(1, int(places * _RANDOM)) if places > 0 else 0
        far = [k for k in self.steps for _ in range(_NEAR if k == 1 else 1)]
        random = [
            random_pair(f"random {i}{apart(k)}", adjacency, box, rng, k)
            for i, k in zip(range(number), itertools.cycle(far), strict=False)
        ]
        usual = [
            self.near if k == 1 else list(templates(adjacency, box, steps=k)) for k in self.steps
        ]
        others = list(in_turn(usual[1:]))
        further = min(len(others), int(places * _FURTHER))
        most = _places(self.budget, FEWEST_DRAWS, exactly=True) - len(self.given) - number - further
        near = max(1, min(max(places - number - further, len(usual[0])), most))
        more = others[: max(further, places - number - near)]
        return [*self.given, *usual[0][:near], *more, *random]

    def steps_of(self, pair: NeighboringPair) -> int:
        """How many steps lead from one side of the pair to the other."""
        relation = pair.adjacency
        if isinstance(relation, Steps):
            return relation.number
        if isinstance(relation, QueryMoves) and isinstance(self.adjacency, QueryMoves):
            return math.ceil(relation.distance / self.adjacency.distance)
        return 1

    def claim_of(self, pair: NeighboringPair) -> Any:
        """What is claimed of this pair."""
        far = self.steps_of(pair)
        return self.claim if far == 1 else self.guarantee.for_group(far)

    def claimed_of(self, pair: NeighboringPair) -> tuple[int, Sequence[tuple[float, float]]]:
        """How many steps apart it is, and where what is claimed of it is tested."""
        far = self.steps_of(pair)
        return far, _points(self.guarantee, far)


@lru_cache(maxsize=64)
def _points(guarantee: Guarantee, steps: int) -> Sequence[tuple[float, float]]:
    return tested_points(guarantee.for_group(steps) if steps > 1 else guarantee)


def _chosen_steps(
    given: Sequence[int] | None, guarantee: Guarantee, certifying: int, alpha: float
) -> tuple[int, ...]:
    """Those asked for; or 1, and the most of a few numbers that so many draws a side are ample for."""
    if given is not None:
        steps = tuple(dict.fromkeys(whole(k, "steps") for k in given))
        if not steps or min(steps) < 1:
            raise ValueError(f"steps = {given!r}; give numbers from 1 on, such as steps=(1, 8).")
        return steps
    for k in _STEPS:
        try:
            group = guarantee.for_group(k)
            closed = not isinstance(group, Group)
            if closed and _AMPLE * fewest_draws(group, alpha / 2) <= certifying:
                return (1, k)
        except ValueError:  # a group of that size is promised nothing, or nothing that draws show
            continue
    return (1,)


def _check_calls(calls: int, budget: int, pairs: int, guarantee: Guarantee, alpha: float) -> None:
    """Refuse a search whose audit could not refute the claim by any event."""
    searching = max(budget, 2 * FEWEST_DRAWS * pairs * rounds_of(pairs))
    certifying = (calls - searching) * 3 // 10  # a side, after the audit has chosen its event
    needed = fewest_draws(guarantee, alpha / 2)
    if certifying < needed:
        raise ValueError(
            f"calls = {calls} for {pairs} pairs can refute {guarantee} at alpha = {alpha:g} by no event "
            f"whatever; give at least {2 * (searching + 4 * needed)}, or a larger alpha."
        )


def _places(budget: int, draws: int, *, exactly: bool = False) -> int:
    """With how many pairs a search can begin, so that each gets so many draws a side: a power of two, unless it is to
    be the most."""
    places = 2
    while places < _MOST_PAIRS and 4 * places * rounds_of(2 * places) * draws <= budget:
        places *= 2
    while exactly and 2 * (places + 1) * rounds_of(places + 1) * draws <= budget:
        places += 1
    return places


def _shown(data: Any) -> str:
    """A dataset in one line."""
    text = " ".join(repr(np.asarray(data).tolist()).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(data)} records)"


__all__ = ["Round", "SearchResult", "search"]
