"""Assertions for test suites: audits that raise an AssertionError unless they pass.

The error has a readable report. None of them needs pytest. In a test that pytest runs with the
plugin, an audit is seeded by the test's name, its failure ends with the command that runs this
test again, and ``--dp-report`` has it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from time import perf_counter
from typing import Any, Literal, ParamSpec, Protocol, TypeVar

from dpverify.audit import (
    AuditResult,
    CalibrationResult,
    InvalidRun,
    NeighboringPair,
    NotConsistent,
    SensitivityResult,
    Verdict,
    audit,
    audit_calibration,
    audit_sensitivity,
)
from dpverify.audit.auditing import DEFAULT_ALPHA, DEFAULT_TRIALS
from dpverify.audit.certificates import fewest_draws
from dpverify.audit.subjects import claimed_of, name_of, subject_of
from dpverify.privacy import render
from dpverify.privacy.numbers import approximately, brief

Kind = Literal["audit", "sensitivity", "calibration"]
Result = AuditResult | SensitivityResult | CalibrationResult
P = ParamSpec("P")
R = TypeVar("R", AuditResult, SensitivityResult, CalibrationResult)

QUICK_TRIALS, QUICK_CALLS = 20_000, 4_000
"""Largest numbers under ``--dp-quick``: of draws for each side and pair, and of evaluations of
a query.
"""
_DEFAULT_CALLS = 20_000
_PLUGIN = "_dpverify_pytest"
_ROOM = 80  # number of characters for a dataset


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of one assertion, for reports.

    facts: what was claimed, what was seen, on which pair, how likely a sound subject shows
    that, and how to run it again: "claim", "seen", "pair", "chance", "replay".
    result: None where ``error`` was raised instead.
    """

    kind: Kind
    verdict: str
    facts: dict[str, str]
    result: Result | None
    error: Exception | None
    seconds: float

    def __str__(self) -> str:
        lines = [f"{self.verdict}: {self._meaning}"]
        lines += [f"{name:<10} {text}" for name, text in self.facts.items()]
        if self.result is not None:
            more = str(self.result).splitlines()[1:]
            lines += ["", "in full:", *more] if more else []
        return "\n".join(lines)

    @property
    def _meaning(self) -> str:
        if isinstance(self.result, AuditResult):
            return f"{self.result.meaning}."
        if self.result is None:
            return "nothing was audited, so nothing is known of the claim."
        if self.verdict == str(Verdict.POWERLESS):
            return "the two numbers agree in so many digits that the comparison does not tell."
        return "the claim is false, as the numbers below show exactly."


class RunningTest(Protocol):
    """A test that pytest is running, as the plugin knows it."""

    quick: bool

    def seed(self, given: int | None) -> int:
        """Return the seed of an audit in this test."""

    def replay(self, seed: int | None) -> str:
        """Return the command that runs this test again."""

    def record(self, finding: Finding) -> None:
        """Keep a finding."""


def _taking_arguments_of(
    audit: Callable[P, R],
) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Give a function the signature, and with it the defaults, of the audit that it makes."""

    def typed(assertion: Callable[..., R]) -> Callable[P, R]:
        return wraps(audit, assigned=(), updated=())(assertion)

    return typed


@_taking_arguments_of(audit)
def assert_private(*given: Any, **options: Any) -> AuditResult:
    """Audit a privacy claim, and raise NotConsistent unless it comes out CONSISTENT.

    NotConsistent is an AssertionError. Takes the arguments of ``dpverify.audit.audit``, with
    its defaults, and returns its result. Without planted ``faults`` the verdict of a function
    is at best POWERLESS, which fails: give ``faults``. Raises AssertionError where the run is
    invalid (all calls failed, or outputs share noise), and what ``audit`` raises for wrong
    arguments.
    """
    __tracebackhide__ = True
    return _checked("audit", audit, given, options)


@_taking_arguments_of(audit_sensitivity)
def assert_sensitivity(*given: Any, **options: Any) -> SensitivityResult:
    """Search for neighbors that move a query by more than it declares; raise NotConsistent if
    found.

    Takes the arguments of ``dpverify.audit.audit_sensitivity``, with its defaults, and returns
    its result.
    """
    __tracebackhide__ = True
    return _checked("sensitivity", audit_sensitivity, given, options)


@_taking_arguments_of(audit_calibration)
def assert_calibrated(*given: Any, **options: Any) -> CalibrationResult:
    """Compare the scale of noise with the claimed one; raise NotConsistent unless it suffices.

    The comparison is exact. Takes the arguments of ``dpverify.audit.audit_calibration`` and
    returns its result; nothing is drawn.
    """
    __tracebackhide__ = True
    return _checked("calibration", audit_calibration, given, options)


def _checked(kind: Kind, run: Callable[..., R], given: Any, options: dict[str, Any]) -> R:
    """Audit, tell the running test of it, and return a result that is consistent or raise."""
    __tracebackhide__ = True
    test = running_test()
    if test is not None and kind != "calibration":
        options["seed"] = test.seed(options.get("seed"))
        if test.quick:
            _shorten(kind, given, options)
    start = perf_counter()
    try:
        result = run(*given, **options)
    except Exception as error:
        facts = _facts_of_error(error, given, options, test)
        finding = Finding(kind, "INVALID", facts, None, error, perf_counter() - start)
        if test is not None:
            test.record(finding)
        if isinstance(error, InvalidRun):
            raise AssertionError(str(finding)) from error.with_traceback(None)
        raise
    facts = {**_facts_of(result), "replay": _replay(test, getattr(result, "seed", None))}
    finding = Finding(kind, _verdict_of(result), facts, result, None, perf_counter() - start)
    if test is not None:
        test.record(finding)
    if not result.is_consistent:
        raise NotConsistent(result, str(finding))
    return result


def running_test() -> RunningTest | None:
    """Return the test that pytest is running, or None: outside of tests, and without the plugin."""
    plugin = sys.modules.get(_PLUGIN)
    test: RunningTest | None = None if plugin is None else plugin.current_test()
    return test


def _shorten(kind: Kind, given: Any, options: dict[str, Any]) -> None:
    """Take fewer draws, but as many as can refute the claim at all."""
    if kind == "sensitivity":
        options["calls"] = min(options.get("calls", _DEFAULT_CALLS), QUICK_CALLS)
        return
    try:
        options["pairs"] = pairs = [*options["pairs"]]
        subject = subject_of(
            given[0] if given else options.get("subject"),
            options.get("fresh"),
            options.get("vectorized", False),
        )
        guarantee, _ = claimed_of(subject, options.get("claim"), pairs)
        needed = fewest_draws(guarantee, options.get("alpha", DEFAULT_ALPHA) / 2) * 2
    except (TypeError, ValueError, KeyError):
        return  # the audit says what is wrong with these arguments
    options["trials"] = min(options.get("trials", DEFAULT_TRIALS), max(QUICK_TRIALS, needed))


def _verdict_of(result: Result) -> str:
    if isinstance(result, SensitivityResult):
        return "VIOLATED" if result.violated else "nothing found"
    return str(result.verdict)


def _facts_of(result: Result) -> dict[str, str]:
    """Return what was claimed, what was seen, on which pair, and how likely a sound subject
    shows that.
    """
    if isinstance(result, AuditResult):
        return _facts_of_audit(result)
    if isinstance(result, SensitivityResult):
        worst = result.simplest or result.worst
        return {
            "claim": f"{result.query} has {result.norm} sensitivity {render(result.bound)} under "
            f"{result.adjacency}, for {result.domain}",
            "seen": f"values {result.largest!r} apart, in {result.calls} calls of the query",
            "pair": " ".join(str(worst).split()),
            "chance": "0: what exceeds the bound does so exactly, of the values as returned",
        }
    return {
        "claim": f"{brief(str(result.claim))} by {result.noise} noise of scale "
        f"{approximately(result.scale)} for sensitivity {render(result.sensitivity)}",
        "seen": str(result),
        "pair": f"any whose values are {render(result.sensitivity)} apart",
        "chance": "0: nothing was drawn, and the profile is enclosed from both sides",
    }


def _facts_of_audit(result: AuditResult) -> dict[str, str]:
    best = result.strongest
    about = f", by {result.subject}" if result.subject else ""
    counts = f"{best.hits}/{best.draws} against {best.other_hits}/{best.other_draws}"
    seen = (
        f"epsilon >= {result.epsilon:.4g} at delta {best.delta:.4g} (claimed: {best.claimed:.4g})"
    )
    missed = "".join(f"; missed the planted fault {fault.name}" for fault in result.missed)
    remarks = "".join(f"; {remark}" for remark in result.remarks)
    refuted = result.verdict is Verdict.VIOLATED
    chance = f"a sound subject is refuted with probability at most {result.alpha:g}"
    return {
        "claim": f"{brief(str(result.guarantee))} under {result.adjacency}{about}",
        "seen": f"{seen}, by the event {best.event}: {counts}{missed}{remarks}",
        "pair": f"{best.pair!r}, {best.direction}{_datasets(result.pairs, best.pair)}",
        "chance": chance if refuted else f"nothing was refuted; {chance}",
    }


def _datasets(pairs: tuple[NeighboringPair, ...], name: str) -> str:
    """Return the datasets of the pair of this name, where they are short."""
    for pair in pairs:
        both = (pair.left, pair.right)
        if pair.name != name or max(map(len, both)) > _ROOM:
            continue
        sides = [" ".join(repr(side).split()) for side in both]
        if max(map(len, sides)) <= _ROOM:
            return f": {sides[0]} and {sides[1]}"
    return ""


def _facts_of_error(
    error: Exception, given: Any, options: dict[str, Any], test: RunningTest | None
) -> dict[str, str]:
    subject = name_of(given[0]) if given else "what was given"
    claim = options.get("claim")
    return {
        "claim": f"{'as declared' if claim is None else claim}, by {subject}",
        "seen": f"{type(error).__name__}: {error}",
        "pair": "none",
        "chance": "nothing was refuted: nothing was audited",
        "replay": _replay(test, options.get("seed")),
    }


def _replay(test: RunningTest | None, seed: int | None) -> str:
    if test is not None:
        return test.replay(seed)
    return "the same call" if seed is None else f"the same call with seed={seed}"


__all__ = ["assert_calibrated", "assert_private", "assert_sensitivity"]
