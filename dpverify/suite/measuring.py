"""Measurements of the auditor itself, in units of work: false alarms ("coverage"), and detected
deficits ("power").
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from dpverify.audit.cases import cases
from dpverify.audit.coverage import Coverage, chance_of_failing, measure, repeats_of
from dpverify.audit.neighbors.pairs import NeighboringPair
from dpverify.audit.oracle import Oracle, draws_needed, hidden, oracle
from dpverify.audit.outputs.laws import is_known
from dpverify.audit.power import ENOUGH, Effort, Frequency, PlantedFault, Survey
from dpverify.audit.subjects import claimed_of
from dpverify.suite.doing import results
from dpverify.suite.engines import Engine
from dpverify.suite.events import Consumer, Judgment, Outcome, UnitFinished, finished
from dpverify.suite.judges import (
    QUICK_TRIALS,
    THOROUGH_TRIALS,
    TOTAL_ALPHA,
    Unit,
    audit_target,
    certified_units,
    not_planted,
    rests_on,
    seed_of,
)
from dpverify.suite.reporting import report, started_by
from dpverify.suite.resuming import keyed
from dpverify.suite.runner import audit_units, known_in
from dpverify.suite.sharding import WHOLE, Shard
from dpverify.suite.trees import Suite, load

_LESS = Fraction(1, 2)  # deficit of noise at which the most revealing pair is searched for
QUICK = Effort(few=QUICK_TRIALS, many=QUICK_TRIALS, deficits=5, faults=3, again=0)
FULL = Effort(few=QUICK_TRIALS, many=THOROUGH_TRIALS, deficits=10, faults=10, again=10)
_SAMPLES = {QUICK: 100_000, FULL: 400_000}
"""Draws of the oracle, on each side."""
_COMPARED = {QUICK: (Fraction(3, 10),), FULL: (Fraction(1, 10), Fraction(3, 10))}
"""Deficits at which the number of draws needed is compared with an oracle's."""


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """Options that the units of one run share."""

    suite: Path | None = None
    seed: int = 0
    quick: bool = False

    def replay(self, unit: Unit) -> str:
        """Return the command that measures this unit again."""
        suite = f" --suite {shlex.quote(str(self.suite))}" if self.suite is not None else ""
        size = " --quick" if self.quick else ""
        flag = "--self-check" if unit.kind == "coverage" else "--power"
        return f"dpverify audit {shlex.quote(unit.name)} {flag} --seed {self.seed}{size}{suite}"


def coverage_units(names: Sequence[str] = ()) -> list[Unit]:
    """List one unit for each case, those with most audits first, among these names; no names:
    all.
    """
    listed = sorted(cases().values(), key=lambda case: case.alpha)
    return [Unit("coverage", case.name) for case in listed if not names or case.name in names]


def power_units(suite: Suite, names: Sequence[str]) -> list[Unit]:
    """List one unit for every audit of a mechanism's claim whose law is known, among these
    names; no names: all.
    """
    chosen = [unit.name for unit in audit_units(suite, names) if unit.kind == "audit"]
    return [Unit("power", name) for name in chosen if name.partition(":")[0] in suite.entries]


def chance_of_failing_all(quick: bool) -> float:
    """Bound the probability that a sound auditor fails some case of the self-check: a sum over
    the cases.
    """
    return sum(chance_of_failing(repeats_of(case, quick), case.alpha) for case in cases().values())


def run_measuring(
    suite: Suite,
    units: Sequence[Unit],
    options: MeasureOptions,
    consumers: Sequence[Consumer],
    engine: Engine,
    *,
    known: Mapping[str, UnitFinished] | None = None,
    shard: Shard = WHOLE,
) -> int:
    """Measure all units but the ``known`` ones and return the exit code; a run that Ctrl-C
    stops leaves valid results.
    """
    coverage = bool(units) and units[0].kind == "coverage"
    chance = chance_of_failing_all(options.quick) if coverage else TOTAL_ALPHA
    command = "self-check" if coverage else "power"
    started = started_by(command, suite, units, options, chance, shard)
    own = shard.of(units)
    finishing = results(own, options, measure_unit, engine, known_in(suite, known or {}, options))
    return report(started, finishing, consumers)


def measure_unit(unit: Unit, options: MeasureOptions) -> UnitFinished:
    """Do one unit."""

    def judge() -> Judgment:
        if unit.kind == "coverage":
            return _judge_coverage(unit.name, options)
        return _judge_power(_suite(options.suite), unit.name, options)

    done = finished(unit.kind, unit.name, options.replay(unit), judge)
    suite = _suite(options.suite)
    return keyed(suite.root, done, options, rests_on(suite, unit.name))


@cache
def _suite(root: Path | None) -> Suite:
    return load(root)


# --- coverage -----------------------------------------------------------------------------------


def _judge_coverage(name: str, options: MeasureOptions) -> Judgment:
    case = cases()[name]
    repeats = repeats_of(case, options.quick)
    tally = measure(case, repeats=repeats, seed=seed_of(name, options.seed))
    low, high = tally.interval
    shared = f" of {tally.choices:,} choices" if tally.choices < tally.repeats else ""
    summary = (
        f"{tally.alarms} false alarms in {tally.repeats:,} audits{shared} at alpha {tally.alpha:g} "
        f"(95% interval {low:.2g}..{high:.2g}; at most {tally.limit} pass)"
    )
    kinds = tuple(f"{kind} above the truth: {n}" for kind, n in sorted(tally.kinds.items()))
    outcome = Outcome.HELD if tally.passed else Outcome.REFUTED
    verdict = "COVERED" if tally.passed else "TOO MANY FALSE ALARMS"
    return Judgment(outcome, verdict, summary, kinds, _coverage_data(tally))


def _coverage_data(tally: Coverage) -> dict[str, Any]:
    return {
        **asdict(tally),
        "limit": tally.limit,
        "interval": tally.interval,
        "chance_of_failing": chance_of_failing(tally.repeats, tally.alpha),
    }


# --- power --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Compared:
    """Draws on each side for power ENOUGH: an oracle's number, and ours as a multiple of it.

    oracle: None where no event breaks the claim; closed: whether the law is closed, so that the
    oracle's number is known.
    """

    share: Fraction
    closed: bool
    oracle: Oracle | None
    factor: float | None
    draws: int


@dataclass(frozen=True, slots=True)
class _Power:
    """Measurements of one configuration."""

    survey: Survey
    pair: str
    least: Fraction | None
    deficits: Mapping[Fraction, Frequency]
    faults: Sequence[PlantedFault]
    compared: Sequence[_Compared]


def _judge_power(suite: Suite, name: str, options: MeasureOptions) -> Judgment:
    _, attacked = audit_target(suite, name)
    guarantee, _ = claimed_of(attacked.mechanism, None, attacked.pairs)
    alpha, seed = TOTAL_ALPHA / certified_units(suite), seed_of(name, options.seed)
    effort = QUICK if options.quick else FULL
    unseen: dict[str, float] = {}
    if effort.again:
        unseen = hidden(attacked, guarantee, alpha=alpha, draws=effort.many, seed=seed)
    survey = Survey(attacked, guarantee, alpha, effort, seed, frozenset(unseen))
    pair = survey.pair_for(survey.deficit(_LESS))
    compared = [_compare(survey, pair, share) for share in _COMPARED[effort]]
    power = _Power(survey, pair.name, *survey.deficits(pair), list(survey.faults()), compared)
    powerless = any(fault.missed for fault in power.faults)
    return Judgment(
        Outcome.POWERLESS if powerless else Outcome.HELD,
        "POWERLESS" if powerless else "SEES",
        _power_summary(power),
        (*_power_lines(power), *not_planted(unseen)),
        _power_data(power),
    )


def _compare(survey: Survey, pair: NeighboringPair, share: Fraction) -> _Compared:
    target = survey.deficit(share)
    laws = target(pair.left), target(pair.right)
    if not is_known(laws[0]):
        return _Compared(share, False, None, None, 0)
    best = oracle(
        survey.guarantee,
        laws,
        alpha=survey.alpha,
        seed=survey.seed,
        sample=_SAMPLES[survey.effort],
    )
    if best is None:
        return _Compared(share, True, None, None, 0)
    factor, draws = draws_needed(
        lambda trials, seed: survey.setting(pair, trials).sees(target, seed),
        best.draws,
        survey.effort.deficits,
        survey.seed,
    )
    return _Compared(share, True, best, factor, draws)


def _power_summary(power: _Power) -> str:
    seen = "no deficit of noise" if power.least is None else f"{float(power.least):.0%} less noise"
    parts = [f"sees {seen} with {power.survey.effort.many:,} draws a side"]
    if power.faults:
        worst = max((fault.final for fault in power.faults), key=lambda final: 1 - final.rate)
        parts.append(
            f"{len(power.faults)} planted faults, missed at most {worst.missed} of {worst.tried} "
            "times"
        )
    for one in power.compared:
        if one.oracle is not None:
            parts.append(f"{_factor(one)} x an oracle's draws at {float(one.share):.0%}")
    return ", ".join(parts)


def _factor(one: _Compared) -> str:
    return "more than 10" if one.factor is None else f"{one.factor:g}"


def _power_lines(power: _Power) -> Iterator[str]:
    yield f"deficits of noise, {power.survey.effort.many:,} draws a side, pair {power.pair!r}:"
    for share, seen in power.deficits.items():
        low, high = seen.interval
        yield f"  {float(share):>4.0%}  seen {seen.seen} of {seen.tried}  95% {low:.2f}..{high:.2f}"
    yield "planted faults: missed, with the upper 95% end, at so many draws a side"
    for fault in power.faults:
        cells = [
            f"{f.missed} of {f.tried} (<= {f.miss_at_most():.2f}) at {trials:,}"
            for trials, f in fault.caught.items()
        ]
        yield f"  {fault.name}, pair {fault.pair!r}: {', '.join(cells)}"
    yield f"draws a side for power {ENOUGH:g}: of an oracle that knows the best event, and ours"
    for one in power.compared:
        text = "no event breaks the claim" if one.closed else "the law is not closed"
        if one.oracle is not None:
            text = f"{one.oracle.draws:,} and {one.draws:,} ({_factor(one)} x)"
        yield f"  {float(one.share):>4.0%}  {text}"


def _power_data(power: _Power) -> dict[str, Any]:
    return {
        "guarantee": str(power.survey.guarantee),
        "alpha": power.survey.alpha,
        "seed": power.survey.seed,
        "trials": power.survey.effort.many,
        "pair": power.pair,
        "smallest_deficit": None if power.least is None else float(power.least),
        "deficits": [
            {"deficit": float(share), **_counts(seen), "interval": seen.interval}
            for share, seen in power.deficits.items()
        ],
        "faults": [
            {"name": fault.name, "pair": fault.pair, "trials": trials, **_counts(seen)}
            for fault in power.faults
            for trials, seen in fault.caught.items()
        ],
        "oracle": [{**asdict(one), "share": float(one.share)} for one in power.compared],
    }


def _counts(frequency: Frequency) -> dict[str, Any]:
    return {
        "seen": frequency.seen,
        "tried": frequency.tried,
        "stopped": frequency.stopped,
        "miss_at_most": frequency.miss_at_most(),
    }
