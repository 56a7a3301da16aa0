"""``search``: from a domain and an adjacency alone, find the neighbors that betray a mechanism
most.

Rounds of successive halving: many pairs with few draws each, then the better half of them, and
pairs near the best, with twice as many draws. A round costs the same number of calls as any
other. The best pair of the last round is audited on fresh draws, with all calls that are left:
the bound is an ``audit``'s, and no choice made before can spoil it.

A mechanism that is broken a little shows it on datasets several steps apart, where the loss
adds up and the claim for a group adds up as well; so some of the pairs are.
"""

from __future__ import annotations

import math
import secrets
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpverify.audit.auditing import DEFAULT_ALPHA, audit
from dpverify.audit.certificates import fewest_draws
from dpverify.audit.configuration import Exhibit
from dpverify.audit.faults import Fault
from dpverify.audit.last_bits import OF_BITS, draws_on_bits, step_of, trials_within
from dpverify.audit.neighbors.boxes import Box
from dpverify.audit.neighbors.contest import FEWEST_DRAWS, Contest, Round, rounds_of
from dpverify.audit.neighbors.pairs import Neighboring, NeighboringPair
from dpverify.audit.neighbors.planning import Plan
from dpverify.audit.portable import plain_floats
from dpverify.audit.progress import Meter, Progress, shown
from dpverify.audit.reach import OutOfReachWarning, warned
from dpverify.audit.result import AuditResult
from dpverify.audit.subjects import is_ours, name_of, subject_of, target_of
from dpverify.audit.verdicts import Asked, Verdict
from dpverify.plans import Mechanism
from dpverify.privacy import Derivation, Guarantee, PrivacyClaim
from dpverify.privacy.numbers import whole

DEFAULT_CALLS = 5_000_000
FEWEST_CALLS = 10_000
_LONGEST = 200


@dataclass(frozen=True, slots=True, repr=False)
class SearchResult(Asked):
    """The best pair that was found, and its audit.

    guarantee: the claim for neighbors. steps: how many lead from one side of the best pair to
    the other; its audit is of ``guarantee.for_group(steps)``.
    result: None where the search was interrupted before the audit; then nothing is certified.
    calls: number of calls of the subject, in all rounds and a finished audit, on both sides.
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
        """True if the audit of the best pair is CONSISTENT; never without planted faults
        (``faults=``).
        """
        return self.result is not None and self.result.is_consistent

    @property
    def epsilon(self) -> float:
        """The certified lower bound on epsilon for some neighbors, at ``delta``; 0 where
        nothing was certified.

        For a pair k steps apart this is 1/k of the audit's bound: if all neighbors on the way
        had (epsilon / k, delta), the two ends would have (epsilon, delta
        (1 + e^(epsilon / k) + ... + e^((k - 1) epsilon / k))).
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
                f"steps      {self.steps}, so some neighbors on the way have epsilon >= "
                f"{self.epsilon:.4g} at delta {self.delta:.4g}"
            )
        lines += (
            ["interrupted: nothing was certified"] if self.result is None else [str(self.result)]
        )
        return "\n".join([*lines, f"searched   {self.calls} calls in all, seed {self.seed}"])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that JSON keeps as it is; ``audit`` is what ``AuditResult.to_dict``
        gives, or None.
        """
        made: dict[str, Any] = plain_floats(
            {
                "result": "SearchResult",
                "guarantee": str(self.guarantee),
                "best": self.best.name,
                "steps": self.steps,
                "epsilon": self.epsilon,
                "delta": self.delta,
                "audit": None if self.result is None else self.result.to_dict(),
                "rounds": [asdict(one) for one in self.rounds],
                "calls": self.calls,
                "seed": self.seed,
            }
        )
        return made

    def __repr__(self) -> str:
        outcome = "interrupted" if self.result is None else repr(self.result)
        return (
            f"<SearchResult for {self.guarantee}: {self.steps} steps apart, {self.calls} calls, "
            f"seed {self.seed}; {outcome}>"
        )


def search(
    subject: Mechanism[Any] | Exhibit | Callable[..., Any] | None = None,
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
    fresh: Callable[[], Callable[[Any], Any]] | None = None,
    rounded: float | None = None,
    progress: Progress = None,
) -> SearchResult:
    """Look for neighbors that refute the claim, and audit the best of them.

    subject, claim, faults, alpha, vectorized, fresh, progress: as in ``audit``; faults are
    planted in the audit of the best pair, none by default.
    rounded: as in ``audit``; the search looks at rounded outputs alone, so that pairs which
    differ in the last bits of floats do not hide one that leaks more. The audit of the best
    pair then says whether bits leak as well.
    domain: the box to look in, under ``adjacency``: templates, random pairs, and changes of the
    best.
    pairs: crafted neighbors to begin with; without a domain only these are compared.
    steps: how far apart the two sides of a pair are, in turn; by default neighbors, and 8, 4 or
    2 steps, as many as the calls are enough for (only neighbors where a group's claim is of no
    closed form).
    calls: how often the subject is called, search and audit together; planted faults have
    additional calls. Ctrl-C ends the search: the result has the rounds that were finished.

    Raises TypeError or ValueError, before anything is drawn, for a missing claim, nothing to
    look at, pairs of another adjacency, or too few calls; and ValueError from the subject's own
    exception if it raises one on every pair of a round.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha = {alpha} is outside (0, 1); give a probability, say 1e-6.")
    if whole(calls, "calls") < FEWEST_CALLS:
        raise ValueError(f"calls = {calls}; a search needs at least {FEWEST_CALLS}.")
    started = secrets.randbelow(2**32) if seed is None else whole(seed, "seed")
    subject = subject_of(subject, fresh, vectorized)
    step = step_of(subject, rounded)
    plan = Plan(subject, claim, domain, adjacency, tuple(pairs), steps, calls, alpha)
    first = plan.first_round(started)
    _check_calls(calls, plan, len(first), alpha, step)
    if not (is_ours(subject) or isinstance(subject, Exhibit)):
        warned(plan.guarantee, alpha, 2)
    with shown(progress, f"search of {name_of(subject)}", calls) as meter:
        counted = _counted(subject, meter, vectorized)
        contest = Contest(
            target_of(counted, vectorized, step), plan.claimed_of, domain, started, first[0]
        )
        result = None
        try:
            contest.run(first, plan.budget)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OutOfReachWarning)  # the caller was warned above
                result = audit(
                    counted,
                    pairs=[contest.best],
                    claim=plan.claim_of(contest.best),
                    faults=faults,
                    trials=trials_within((calls - contest.calls) // 2, step),
                    alpha=alpha,
                    seed=started + 1,  # so no draw of the search is drawn again
                    vectorized=vectorized,
                    rounded=rounded,
                    progress=False,
                )
        except KeyboardInterrupt:
            meter.stop()  # what the finished rounds found is the result
    spent = contest.calls
    if result is not None:
        refuted = result.verdict is Verdict.VIOLATED
        spent += result.draws + 2 * draws_on_bits(result.trials, step, refuted)
    far = plan.steps_of(contest.best)
    fields = (plan.guarantee, contest.best, far, result, tuple(contest.rounds))
    return SearchResult(*fields, spent, started)


def _counted(subject: Any, meter: Meter, vectorized: bool) -> Any:
    told = is_ours(subject) or isinstance(subject, Exhibit)
    return subject if told else meter.counted(subject, vectorized=vectorized)


def _check_calls(calls: int, plan: Plan, pairs: int, alpha: float, step: float) -> None:
    """Refuse a search whose audit could not refute the claim by any event."""
    searching = max(plan.budget, 2 * FEWEST_DRAWS * pairs * rounds_of(pairs))
    trials = trials_within((calls - searching) // 2, step)
    if step:
        alpha *= 1 - OF_BITS
    needed = fewest_draws(plan.guarantee, alpha / 2)
    # draws per side that are left after the audit has chosen its event
    if trials * 6 // 10 < needed:
        enough = 2 * (searching + 4 * needed * (2 if step else 1))
        raise ValueError(
            f"calls = {calls} for {pairs} pairs can refute {plan.guarantee} at alpha = {alpha:g} "
            f"by no event whatever; give at least {enough}, or a larger alpha."
        )


def _shown(data: Any) -> str:
    """Write a dataset in one line."""
    text = " ".join(repr(np.asarray(data).tolist()).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(data)} records)"


__all__ = ["Round", "SearchResult", "search"]
