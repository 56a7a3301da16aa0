"""Judges: each takes one unit of work by name and says how it ended.

audit: attack the shipped sampler. exhibit: refute a false claim. obligation: run one of the spec's.
profile: the exact loss of every crafted pair, from the spec's law. refinement: the tie.
"""

from __future__ import annotations

import hashlib
import math
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import mpmath as mp

from dpverify.audit import Configuration, Verdict, audit
from dpverify.audit.audit_targets import FIRST_STAGE, FRIENDLY_CORE, AuditTarget, audit_targets
from dpverify.audit.auditing import trials_for
from dpverify.audit.oracle import hidden
from dpverify.audit.parts import Together
from dpverify.audit.subjects import claimed_of
from dpverify.audit.tracing import audit_tracing
from dpverify.plans import Mechanism
from dpverify.suite import black_boxes, lemmas, refutations
from dpverify.suite.audited import audited, proof_of
from dpverify.suite.engines import Work
from dpverify.suite.entries import Entry
from dpverify.suite.events import Judgment, Outcome, UnitFinished, finished
from dpverify.suite.exact_profiles import exact_profile
from dpverify.suite.misstated import misstated
from dpverify.suite.refinement import (
    RefinementFailed,
    compare_facts,
    refine,
    refine_loops,
)
from dpverify.suite.resuming import code_of, keyed
from dpverify.suite.trees import Suite, find_root, is_borrowed, load, module_of_audits

TOTAL_ALPHA = 1e-6
"""False-alarm probability of everything that a run of the suite certifies."""
AUDITS = ("audit", "exhibit", "tracing")
TRACED = ":traced"
"""Ending of the name of an audit by tracing."""
SHARED_LOOPS = "samplers"
"""Name of the refinement unit for the code that all mechanisms share."""
DEFAULT_DIGITS = 50
_ENDLESS = 10**12
_TOGETHER = Together()
_OUTCOMES = {
    Verdict.CONSISTENT: Outcome.HELD,
    Verdict.VIOLATED: Outcome.REFUTED,
    Verdict.POWERLESS: Outcome.POWERLESS,
}
_FEWER = 10
"""Number by which the draws of an exhibit are divided for its first look."""
CURVE = 8
"""Number of certified points of the trade-off curve, for the report."""
QUICK_TRIALS, THOROUGH_TRIALS = 400_000, 2_000_000


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of work, as plain data: any process can do it."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Options:
    """Options that all units of one run share.

    audits: the number of audits among which TOTAL_ALPHA is divided; None: counted, which loads
    every configuration.
    """

    suite: Path | None = None
    seed: int = 0
    trials: int = QUICK_TRIALS
    thorough: bool = False
    digits: int = DEFAULT_DIGITS
    seconds: float | None = None
    audits: int | None = None

    def alpha(self, suite: Suite) -> float:
        """Return the share of alpha of one audit."""
        return TOTAL_ALPHA / (certified_units(suite) if self.audits is None else self.audits)

    def extent(self, quick: int | None = None, *, longer: int | None = None) -> dict[str, Any]:
        """Return how long an audit attacks: so many draws, or sequentially for so many seconds
        a unit.

        quick: the number of draws that suffices for this unit under --quick, where the unit
        states one; longer: the number without --quick.
        """
        if self.seconds is None:
            own = quick is not None and self.trials == QUICK_TRIALS and not self.thorough
            if longer is not None and self.trials == THOROUGH_TRIALS:
                return {"trials": longer}
            return {"trials": quick if own else self.trials}
        return {"trials": _ENDLESS, "sequential": True, "seconds": self.seconds, "curve": 0}

    def replay(self, unit: Work) -> str:
        """Return the command that does this unit again."""
        suite = f" --suite {shlex.quote(str(self.suite))}" if self.suite is not None else ""
        if unit.kind in AUDITS:
            size = "" if self.trials == THOROUGH_TRIALS else f" --trials {self.trials}"
            size = " --quick" if self.trials == QUICK_TRIALS and not self.thorough else size
            size = f" --time {self.seconds:g}s" if self.seconds is not None else size
            return f"dpverify audit {shlex.quote(unit.name)} --seed {self.seed}{size}{suite}"
        digits = f" --digits {self.digits}" if self.digits != DEFAULT_DIGITS else ""
        name = shlex.quote(unit.name.partition(":obligation_")[0])
        return f"dpverify prove {name}{digits}{suite}"


def run_unit(unit: Unit, options: Options) -> UnitFinished:
    """Do one unit."""

    def judge() -> Judgment:
        with mp.workdps(options.digits):
            return _JUDGES[unit.kind](loaded_suite(options.suite), unit.name, options)

    done = finished(unit.kind, unit.name, options.replay(unit), judge, asked="judged")
    if unit.kind not in AUDITS:
        return done
    suite = loaded_suite(options.suite)
    return keyed(suite.root, done, options, rests_on(suite, unit.name))


def rests_on(suite: Suite, name: str) -> str:
    """Hash the code outside of a user's suite on which an audit, a rate or an experiment in it
    rests.

    The digest is empty for this package's suite, and for measurements of the auditor, which
    rest on the package alone.
    """
    file = name.partition(":")[0]
    if suite.root == find_root() or file not in _files_of_audits(suite):
        return ""
    return black_boxes.digest_of(module_of_audits(suite, file))


def _files_of_audits(suite: Suite) -> list[str]:
    return [*suite.entries, *suite.boxes, *(f"exhibits/{name}" for name in suite.exhibits)]


def code_behind(suite: Suite) -> str:
    """Hash all code that results rest on: the package, the suite, and what files in its audits/
    import.

    Runs of different code are not merged, and a cluster's workers need this one. Installed
    packages do not count, since machines differ in those that no result rests on.
    """
    code = code_of(suite.root)
    if suite.root == find_root():
        return code
    modules = (module_of_audits(suite, name) for name in _files_of_audits(suite))
    own = map(black_boxes.text_digest_of, modules)
    return hashlib.sha256("\n".join((code, *own)).encode()).hexdigest()


@cache
def loaded_suite(root: Path | None) -> Suite:
    """Return the suite, loaded once a process."""
    return load(root)


def certified_units(suite: Suite) -> int:
    """Count the audits of a full run: TOTAL_ALPHA is divided among them, whichever are run."""
    audits = len(audited_keys(suite)) + len(traced_keys(suite))
    return audits + len(suite.exhibits) + len(suite.black_boxes)


def audited_keys(of: Suite | Entry) -> list[str]:
    """List the keys of the configurations, of the plans behind filters, and of the first stages."""
    keyed = of.configurations if isinstance(of, Suite) else of.keyed
    return [key + part for key, one in keyed.items() for part in audit_targets(one)]


def traced_keys(of: Suite | Entry) -> list[str]:
    """List the keys of the configurations that tracing attacks, too."""
    keyed = of.configurations if isinstance(of, Suite) else of.keyed
    return [key + TRACED for key, one in keyed.items() if one.traced is not None]


def audit_target(suite: Suite, key: str) -> tuple[Configuration, AuditTarget]:
    """Return the configuration of one of ``audited_keys``, and the attacked part of it."""
    name = key.removesuffix(FRIENDLY_CORE).removesuffix(FIRST_STAGE)
    configuration = suite.configuration(name)
    return configuration, audit_targets(configuration)[key.removeprefix(name)]


def seed_of(unit_name: str, seed: int) -> int:
    """Return the unit's seed: the run's seed and the unit's name, hashed."""
    digest = hashlib.sha256(f"{seed}/{unit_name}".encode()).digest()
    return int.from_bytes(digest[:8])


def judge_audit(suite: Suite, name: str, options: Options, parts: Together = _TOGETHER) -> Judgment:
    """Attack one of ``audited_keys``, or a black box. parts: results of attacks that were done
    elsewhere.
    """
    if name.partition(":")[0] in suite.boxes:
        return _judge_box(suite, name, options)
    _, attacked = audit_target(suite, name)
    alpha, seed = options.alpha(suite), seed_of(name, options.seed)
    unseen: dict[str, float] = {}
    if options.thorough:
        guarantee, _ = claimed_of(attacked.mechanism, None, attacked.pairs)
        unseen = hidden(attacked, guarantee, alpha=alpha, draws=options.trials, seed=seed)
    planted = attacked.planted(thorough=options.thorough)
    result = audit(
        attacked.mechanism,
        pairs=attacked.pairs,
        faults=[fault for fault in planted if fault.name not in unseen],
        alpha=alpha,
        seed=seed,
        parts=parts,
        **{"curve": CURVE, **options.extent(attacked.quick_trials)},
    )
    outcome = _OUTCOMES[result.verdict]
    unit = name, options.replay(Unit("audit", name))
    judged = audited(result, unit, outcome, str(result.verdict))
    summary = "; ".join((judged.summary, *not_planted(unseen)))
    return replace(
        judged, summary=summary, data={**(judged.data or {}), **_derived(attacked.mechanism)}
    )


def _derived(subject: Any) -> dict[str, Any]:
    """Return the derivation of a mechanism's claim; a part of a mechanism, and a function, has
    none.
    """
    return {"derivation": proof_of(subject.derivation)} if isinstance(subject, Mechanism) else {}


def _judge_box(suite: Suite, name: str, options: Options) -> Judgment:
    box = suite.boxed(name.partition(":")[0])[name]
    quick = box.quick_trials
    longer = None if quick is None else black_boxes.LONGER * quick
    return black_boxes.judge(
        box,
        (name, options.replay(Unit("audit", name))),
        seed=seed_of(name, options.seed),
        alpha=options.alpha(suite),
        extent={"curve": CURVE, **options.extent(quick, longer=longer)},
    )


def not_planted(unseen: Mapping[str, float]) -> Iterator[str]:
    """Yield, for each fault that an oracle needs too many draws for, its name and how many
    draws.
    """
    for name, draws in unseen.items():
        needs = f"the best event needs {draws:,.0f} draws a side"
        yield f"not planted: {name} ({'no event shows it' if math.isinf(draws) else needs})"


def _judge_tracing(suite: Suite, name: str, options: Options) -> Judgment:
    """Trace the records of an estimate; its planted fault is the estimate without noise."""
    traced = suite.configuration(name.removesuffix(TRACED)).traced
    assert traced is not None
    result = audit_tracing(
        traced.mechanism,
        instance=traced.instance,
        runs=traced.runs,
        alpha=options.alpha(suite),
        seed=seed_of(name, options.seed),
    )
    summary = (
        f"epsilon >= {result.epsilon:.3g} at delta {result.delta:.3g} (claimed: "
        f"{result.claimed:.3g}) from {result.runs} runs; without noise >= {result.fault:.3g}"
    )
    outcome = _OUTCOMES[result.verdict]
    details = () if outcome is Outcome.HELD else tuple(str(result).splitlines())
    return Judgment(outcome, result.verdict.name, summary, details)


def _judge_exhibit(suite: Suite, name: str, options: Options) -> Judgment:
    """Refute a false claim: with few draws and half of alpha, else with all draws and the rest.

    Few draws are enough where they show the bound of the kept witness, too.
    """
    own = name.removeprefix("exhibits/")
    exhibit, witnessed = suite.exhibits[own], refutations.witnessed(suite, own)
    looks, alpha = [options.extent(exhibit.quick_trials)], options.alpha(suite)
    # A claim that is plainly false needs few draws; an exhibit that says how many has one look.
    if exhibit.quick_trials is None and options.seconds is None:
        few = looks[0]["trials"] // _FEWER
        if few >= trials_for(exhibit.claim.conclusion.guarantee, alpha / 2):
            looks, alpha = [{"trials": few}, *looks], alpha / 2
    for extent in looks:
        result = audit(
            exhibit,
            claim=exhibit.claim,
            pairs=exhibit.pairs,
            alpha=alpha,
            seed=seed_of(name, options.seed),
            **extent,
        )
        if result.verdict is Verdict.VIOLATED and result.epsilon >= witnessed:
            break
    refuted = result.verdict is Verdict.VIOLATED
    return audited(
        result,
        (name, options.replay(Unit("exhibit", name))),
        Outcome.HELD if refuted else Outcome.POWERLESS,
        "VIOLATED, as it should be" if refuted else "POWERLESS: the false claim was not refuted",
    )


def _judge_obligation(suite: Suite, name: str, options: Options) -> Judgment:
    path, _, function = name.partition(":")
    where = f"{path}.py:{function}"
    obligation = suite.obligation(where)
    known = lemmas.shipped(where) if is_borrowed(suite.root, where.partition(":")[0]) else None
    if known is not None:
        summary = (
            f"{known.cases:,} cases, checked for this build of dpverify ({lemmas.FILE}); "
            "not run again"
        )
        return Judgment(Outcome.HELD, "HOLDS", summary, data={"cases": known.cases})
    try:
        cases = obligation()
    except AssertionError as failure:
        return Judgment(Outcome.REFUTED, "FALSE", str(failure))
    if cases < 1:
        return Judgment(Outcome.INVALID, "INVALID", "the obligation checked no case")
    return Judgment(Outcome.HELD, "HOLDS", f"{cases:,} cases", data={"cases": cases})


def _judge_profile(suite: Suite, name: str, options: Options) -> Judgment:
    """Judge the exact loss of every crafted pair, and say why the claim holds for all others:
    each of its lemmas says what its obligation shows.
    """
    for reason in misstated(suite, name):
        return Judgment(Outcome.INVALID, "INVALID", f"a lemma says something else: {reason}")
    mechanism = suite.configuration(name).mechanism
    claim = mechanism.claim
    about = {"guarantee": str(claim.guarantee), "adjacency": str(claim.adjacency)}
    judged = exact_profile(suite, name)
    return replace(judged, data={**about, **_derived(mechanism)})


def _judge_refinement(suite: Suite, name: str, options: Options) -> Judgment:
    """Judge all small instances by enumeration, and all configurations by their facts."""
    if name == SHARED_LOOPS:
        return _judge_loops()
    entry = suite.entries[name]
    try:
        done = [refine(entry.spec, instance) for instance in entry.small]
        facts: int = sum(
            compare_facts(
                entry.spec,
                configuration.mechanism,
                [data for pair in configuration.pairs for data in (pair.left, pair.right)],
            )
            for configuration in entry.configurations
        )
    except RefinementFailed as failure:
        return Judgment(Outcome.REFUTED, "DIFFERS", str(failure))
    summary = (
        f"{sum(r.outcomes for r in done):,} outcomes of {len(done)} small instances equal the "
        f"spec's law ({float(min(r.exact_mass for r in done)):.4%} of the mass fraction for "
        f"fraction); {facts:,} facts of the configurations equal"
    )
    return Judgment(Outcome.HELD, "EQUAL", summary)


def _judge_loops() -> Judgment:
    try:
        done = refine_loops()
    except RefinementFailed as failure:
        return Judgment(Outcome.REFUTED, "DIFFERS", str(failure))
    summary = (
        f"{done.outcomes} outcomes of the shared loops on batches of two, every retry followed "
        f"({float(done.exact_mass):.2%} of the mass to its end)"
    )
    return Judgment(Outcome.HELD, "EQUAL", summary)


_JUDGES: dict[str, Callable[[Suite, str, Options], Judgment]] = {
    "audit": judge_audit,
    "exhibit": _judge_exhibit,
    "tracing": _judge_tracing,
    "obligation": _judge_obligation,
    "profile": _judge_profile,
    "refinement": _judge_refinement,
}
