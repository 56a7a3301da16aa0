"""``audit``: try to prove a privacy claim wrong, and show that the attempt had power."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dpverify.audit.attack import FaultResult, FixedAttack
from dpverify.audit.betting import Bet
from dpverify.audit.certificates import Certificate, fewest_draws
from dpverify.audit.configuration import Exhibit
from dpverify.audit.faults import Fault
from dpverify.audit.first_stage import FirstStage
from dpverify.audit.friendly_core import FriendlyCore
from dpverify.audit.independence import InvalidRun
from dpverify.audit.last_bits import BITS_TRIALS, OF_BITS, on_bits, real, step_of
from dpverify.audit.neighbors.pairs import NeighboringPair
from dpverify.audit.outputs.unseen import noted, remarks_on
from dpverify.audit.parts import SUBJECT, Together
from dpverify.audit.progress import Meter, Progress, shown
from dpverify.audit.reach import beyond_draws, warned
from dpverify.audit.result import AuditResult
from dpverify.audit.scouting import study_sizes
from dpverify.audit.sequential import SequentialAttack
from dpverify.audit.staging import FAULT_TRIALS, STAGES, StagedAttack
from dpverify.audit.subjects import (
    Target,
    claimed_of,
    is_ours,
    name_of,
    planted_in,
    subject_of,
    target_of,
)
from dpverify.audit.verdicts import Verdict
from dpverify.plans import Mechanism
from dpverify.privacy import Derivation, Guarantee, PrivacyClaim
from dpverify.privacy.calls import fitting
from dpverify.privacy.numbers import whole

DEFAULT_TRIALS = 100_000
DEFAULT_ALPHA = 1e-6
FEWEST_TRIALS = 100
_LEAST_ALPHA = 1e-280
_TOGETHER = Together()
_FIRST = 0.9  # share of alpha; the rest is for another attack with as many draws as a fault needed
_AN_EXAMPLE = "audit(function, pairs=[added(name, data, record)], claim=PureDP(1))"


@fitting("audit", lambda _: _AN_EXAMPLE)
def audit(
    subject: Mechanism[Any]
    | FriendlyCore
    | FirstStage
    | Exhibit
    | Callable[..., Any]
    | None = None,
    *,
    pairs: Iterable[NeighboringPair],
    claim: PrivacyClaim | Derivation[PrivacyClaim] | Guarantee | None = None,
    faults: Iterable[Fault] | Iterable[Callable[..., Any]] | None = None,
    trials: int = DEFAULT_TRIALS,
    alpha: float = DEFAULT_ALPHA,
    seed: int | None = None,
    vectorized: bool = False,
    thorough: bool = False,
    sequential: bool = False,
    seconds: float | None = None,
    go_on: bool = False,
    curve: int = 0,
    fresh: Callable[[], Callable[[Any], Any]] | None = None,
    rounded: float | None = None,
    progress: Progress = None,
    parts: Together = _TOGETHER,
) -> AuditResult:
    """Attack ``subject`` on every pair in both directions; unless that refutes its claim,
    attack each planted fault likewise.

    subject: one of our mechanisms, or any function f(dataset) of its own randomness (with
    ``vectorized=True``: f(dataset, size), which returns ``size`` independent outputs, each with
    noise of its own; certificates mean nothing where outputs share a draw). For f(dataset), the
    audit tests that the law of every call, given the calls before, keeps the claim. The side of
    each call is a fair coin, so outputs may drift with the calls (a clock, a counter). Noise
    that calls share breaks this without any leak: the audit looks for it, and raises InvalidRun
    where it finds it.
    fresh: a factory in place of a subject: make() returns a new function f(dataset), which is
    called once. Give one for functions that keep noise, or draw it when they are made: no
    number of calls can tell that from a leak.
    rounded: a step, far below the noise, to which floats in a function's outputs are rounded,
    to look beyond their last bits; the report says so, and whether the bits leak as well.
    claim: a guarantee or claim; by default a mechanism's own. The pairs carry the adjacency.
    With pairs of k steps (``QueryMoves(by=k)``) give ``guarantee.for_group(k)``: under pure DP,
    a bound on that epsilon divided by k holds for at least one neighboring pair on the way, and
    its errors are divided as well.
    faults: for a mechanism, by default the generic ones; for a function, functions like it that
    are known to be broken. Without any the verdict can only be VIOLATED or POWERLESS.
    trials: draws per side and pair: a sixteenth at most to learn events, a tenth to a sixth to
    choose among them (twice that where more may teach), the rest to certify up to three; of a
    function of a size these are on average so many a side, more where the event is rarer. A
    fault gets a sixteenth of them, then a quarter, all, four times as many, until it is
    detected; where a fault took more than ``trials``, the subject is attacked with as many
    additional draws, at a tenth of alpha.
    alpha: the probability that a sound subject is called VIOLATED. The probability that any
    planted fault is called caught by chance is at most alpha as well.
    thorough: plant the faults that need many draws (5% less noise) as well.
    sequential: stop as soon as the claim is refuted (``trials`` is then the most that is
    drawn); the evidence is valid whenever it stops. Where outputs look as if a function kept
    noise, 1000 to 16000 a side are drawn first: no more than ``trials``, or 2000. Use it for
    slow functions. Faults get FAULT_TRIALS at most.
    seconds: a sequential audit stops after about so long, whatever it has found; seeds then do not
    fix where it stops, except that a violation is always found at the same draw.
    go_on: a sequential audit goes on after the refutation, until its trials or seconds are
    used, to say how bad it is: the bounds still rise.
    curve: certify so many more events on the most promising pair, along the trade-off curve.
    progress: by default, on a terminal, the time of a call (for a mechanism, of a draw) is
    measured first; an audit of more than ten seconds says how long it takes, and shows a bar.
    True: elsewhere too. False: never. A function is called with how many calls are done and how
    many there are at most.
    parts: which attacks are done here, and which were done elsewhere; by default all are done here.

    Raises TypeError or ValueError for a missing claim, no pairs, two of one name, pairs of
    another adjacency, too few trials (with how many are needed), a class for a mechanism, or a
    parameter of another type; nothing is drawn before. Raises InvalidRun if all calls fail or
    outputs share noise, and ValueError if memory runs out while drawing: that says nothing of
    the subject.
    """
    subject = subject_of(subject, fresh, vectorized)
    _check_subject(subject, faults)
    step = step_of(subject, rounded)
    listed = _listed(pairs)
    guarantee, adjacency = claimed_of(subject, claim, listed)
    alpha = real(alpha, "alpha", "1e-6")
    _check_budget(trials, alpha, guarantee, is_ours(subject))
    if whole(curve, "curve") < 0 or (curve and sequential):
        raise ValueError(
            f"curve = {curve}; give a number of events, at least 0, and no sequential=True with it."
        )
    limit, chosen = _limit(seconds, sequential, go_on), _seed(seed)
    in_all, alpha = alpha, alpha * (1 - OF_BITS) if step else alpha
    remarks = _remarks(subject, guarantee, alpha)
    run = _Run(guarantee, listed, trials, alpha, chosen, sequential, limit, go_on, curve, parts)
    most = 2 * trials * len(listed)
    with (
        noted() as unseen,
        shown(progress, name_of(subject), most, advice=_advice(sequential)) as meter,
    ):
        counted = _counted(subject, meter, vectorized)
        marked = None if faults is None else [_counted(one, meter, vectorized) for one in faults]
        told = meter.count if meter.is_watched else None  # counts draws from laws
        planted = planted_in(counted, marked, vectorized, thorough, step, told)
        outcome = run.all(target_of(counted, vectorized, step, told), planted, meter)
    certificates, results, draws, trials, bets, seen = outcome
    verdict, remarks = _verdict(certificates, results), remarks + seen
    unrounded = None if verdict is Verdict.VIOLATED else target_of(subject, vectorized)
    bits = FixedAttack(guarantee, listed, min(trials, BITS_TRIALS), in_all * OF_BITS, chosen)
    remarks += on_bits(step, bits, unrounded) + remarks_on(unseen)
    said = (certificates, results, in_all, trials, chosen, draws, bets)
    about = (tuple(listed), name_of(subject), remarks)
    return AuditResult(verdict, guarantee, adjacency, *said, *about)


@dataclass(frozen=True, slots=True)
class _Run:
    """One audit, with all that was asked for."""

    guarantee: Guarantee
    pairs: list[NeighboringPair]
    trials: int
    alpha: float
    seed: int
    sequential: bool
    limit: float
    go_on: bool
    curve: int
    parts: Together

    def all(
        self, target: Target, planted: Sequence[tuple[str, Target]], meter: Meter
    ) -> tuple[
        tuple[Certificate, ...], tuple[FaultResult, ...], int, int, tuple[Bet, ...], tuple[str, ...]
    ]:
        """Return certificates, planted faults, calls of the subject, draws per side and pair,
        bets, and remarks on a refutation.
        """
        listed, trials, bets = self.pairs, self.trials, tuple[Bet, ...]()
        certificates: tuple[Certificate, ...]
        if self.sequential:
            betting = SequentialAttack(
                self.guarantee, listed, trials, self.alpha, self.seed, self.limit, self.go_on
            )
            certificate, seen = betting.run(target, 0)
            certificates, draws, bets = (certificate,), 2 * seen, tuple(betting.bets)
            remarks = betting.remarks
        else:
            first = self.alpha * _FIRST if planted else self.alpha
            attack = FixedAttack(self.guarantee, listed, trials, first, self.seed, self.curve)
            certificates = self.parts.result(SUBJECT, lambda: attack.all_pairs(target, 0))
            draws, remarks = 2 * trials * len(listed), attack.remarks
        attacked = (
            [] if _violated(certificates) else planted
        )  # they show that silence means something
        results = self._faults(attacked, len(planted), meter)
        most = max((fault.trials for fault in results if fault.caught), default=trials)
        # the subject gets as many draws as a fault needed
        if most > trials and not self.sequential:
            meter.begin("the subject, with as many draws as a fault needed", 2 * most * len(listed))
            alpha = self.alpha * (1 - _FIRST)
            again = FixedAttack(self.guarantee, listed, most, alpha, self.seed, remarks=remarks)
            certificates += again.all_pairs(target, 1 + len(STAGES) * len(planted))
            draws, trials = draws + 2 * most * len(listed), most
        return certificates, results, draws, trials, bets, tuple(dict.fromkeys(remarks))

    def _faults(
        self, attacked: Sequence[tuple[str, Target]], number: int, meter: Meter
    ) -> tuple[FaultResult, ...]:
        tries = min(self.trials, FAULT_TRIALS) if self.sequential else self.trials
        share, beyond = self.alpha / max(1, number), not self.sequential
        staged = StagedAttack(self.guarantee, self.pairs, tries, share, self.seed, beyond=beyond)
        results = []
        for i, (name, target) in enumerate(attacked):
            most = sum(draws for _, draws in staged.stages()) * 2 * len(self.pairs)
            meter.begin(f"planted fault {i + 1} of {len(attacked)}: {name}", most)
            one = partial(staged.fault, name, target, i)
            results.append(self.parts.result(SUBJECT + 1 + i, one))
        return tuple(results)


def _counted(subject: Any, meter: Meter, vectorized: bool) -> Any:
    """Wrap a function so that its calls are counted; return anything else unchanged."""
    told = is_ours(subject) or isinstance(subject, (Exhibit, Fault)) or not callable(subject)
    return subject if told else meter.counted(subject, vectorized=vectorized)


def _advice(sequential: bool) -> str:
    """Return advice on how to shorten a long audit."""
    if sequential:
        return "seconds= ends it earlier; what was found until then is valid"
    return "fewer trials= take less; sequential=True stops as soon as the claim is refuted"


def _remarks(subject: Any, guarantee: Guarantee, alpha: float) -> tuple[str, ...]:
    """Return remarks on the claim before anything is drawn; for a function, with a warning."""
    if is_ours(subject) or isinstance(subject, Exhibit):
        remark = beyond_draws(guarantee, alpha)
        return () if remark is None else (remark,)
    return warned(guarantee, alpha, 4)  # _remarks, audit, and what checks its arguments


def _violated(certificates: Sequence[Certificate]) -> bool:
    return any(certificate.refuted for certificate in certificates)


def _verdict(certificates: Sequence[Certificate], faults: Sequence[FaultResult]) -> Verdict:
    if _violated(certificates):
        return Verdict.VIOLATED
    seen = bool(faults) and all(fault.caught for fault in faults)
    return Verdict.CONSISTENT if seen else Verdict.POWERLESS


def _check_subject(subject: Any, faults: Any) -> None:
    if isinstance(subject, type) and issubclass(subject, Mechanism):
        raise TypeError(
            f"{subject.__name__} is a class; audit a mechanism: write "
            f"{subject.__name__}.for_budget(...)."
        )
    if callable(faults) or isinstance(faults, Fault):
        raise TypeError("faults is a single fault; write faults=[fault].")
    if faults is not None and not isinstance(faults, Iterable):
        raise TypeError(
            f"faults = {faults!r:.80}; give a list of broken functions, or leave it out."
        )
    if isinstance(faults, Sequence) and any(one is subject for one in faults):
        raise ValueError(
            "A planted fault is the audited function itself, which no number of draws can catch. "
            "Plant a copy that is known to be broken, such as one with half of the noise."
        )


def _listed(pairs: Any) -> list[NeighboringPair]:
    """Return the pairs as a list. Their names must differ, because certificates and faults
    refer to them.
    """
    if isinstance(pairs, NeighboringPair):
        raise TypeError("pairs is a single NeighboringPair; write pairs=[pair].")
    if not isinstance(pairs, Iterable):
        raise TypeError(f"pairs = {pairs!r}; write pairs=[added(name, base, record)].")
    listed = list(pairs)
    names = [pair.name for pair in listed if isinstance(pair, NeighboringPair)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"Two pairs are named {twice!r}; give each a name of its own.")
    return listed


def _limit(seconds: float | None, sequential: bool, go_on: bool) -> float:
    """Return the time limit of a sequential audit in seconds, infinite if none is set."""
    limit = math.inf if seconds is None else real(seconds, "seconds", "60.0")
    if not limit > 0 or (seconds is not None and not sequential):
        raise ValueError(f"seconds = {seconds}; give a time above 0, and sequential=True with it.")
    if go_on and not sequential:
        raise ValueError(
            "go_on=True is for sequential=True; with a fixed number of draws all are used."
        )
    return limit


def _seed(seed: int | None) -> int:
    chosen = secrets.randbelow(2**32) if seed is None else whole(seed, "seed")
    if chosen < 0:
        raise ValueError(f"seed = {seed}; give a whole number of at least 0, or None.")
    return chosen


def _check_budget(trials: int, alpha: float, guarantee: Guarantee, law_known: bool) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha = {alpha} is outside (0, 1); give a probability, say 1e-6.")
    if alpha < _LEAST_ALPHA:
        raise ValueError(
            f"alpha = {alpha} is below {_LEAST_ALPHA}: no tail is computed that far. Give more, "
            "say 1e-6."
        )
    if whole(trials, "trials") < FEWEST_TRIALS:
        raise ValueError(f"trials = {trials}; at least {FEWEST_TRIALS} are needed to say a thing.")
    needed = fewest_draws(guarantee, alpha / 2)
    if trials - sum(study_sizes(trials, law_known)) < needed:
        raise ValueError(
            f"trials = {trials} can refute {guarantee} at alpha = {alpha:g} on no outcome "
            f"whatever; give at least {trials_for(guarantee, alpha)}, or a larger alpha."
        )


def trials_for(guarantee: Guarantee, alpha: float) -> int:
    """Return a number of draws per side and pair with which some outcome refutes the guarantee."""
    return max(FEWEST_TRIALS, fewest_draws(guarantee, alpha / 2) * 5 // 3 + 1)


__all__ = ["DEFAULT_ALPHA", "FaultResult", "InvalidRun", "audit"]
