"""The commands ``audit`` and ``prove``, and the file of what was proved for this build."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console

from dpverify.audit.auditing import FEWEST_TRIALS
from dpverify.cli.shared import (
    Commands,
    UsageError,
    add_changed,
    add_command,
    add_parallel,
    add_resume,
    add_seed,
    at_least,
    check_names,
    chosen,
    consumers_of,
    duration,
    engine_of,
    resumed_from,
    seed_from,
    shard_of,
)
from dpverify.suite import lemmas
from dpverify.suite.events import EXIT_HELD, EXIT_REFUTED, UnitFinished
from dpverify.suite.judges import (
    DEFAULT_DIGITS,
    QUICK_TRIALS,
    THOROUGH_TRIALS,
    Options,
    certified_units,
)
from dpverify.suite.lemmas import FILE
from dpverify.suite.measuring import MeasureOptions, coverage_units, power_units, run_measuring
from dpverify.suite.resuming import known_units
from dpverify.suite.runner import audit_units, provable, prove_units, run, selectable
from dpverify.suite.trees import Suite, find_root, is_borrowed


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Declare both commands."""
    audits = add_command(
        commands, "audit", audit, "attack every claim, and show that the attack had power",
        example="dpverify audit bounded_mean --quick --seed 7", names=True,
    )  # fmt: skip
    size = audits.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", action="store_true",
        help=f"{QUICK_TRIALS:,} draws a side and pair: seconds a mechanism; sees faults with 0.7 "
        "of the noise",
    )  # fmt: skip
    size.add_argument(
        "--trials", type=at_least(FEWEST_TRIALS), metavar="N",
        help=f"draws a side and pair (default {THOROUGH_TRIALS:,}: 5%% deficits of closed laws)",
    )  # fmt: skip
    size.add_argument(
        "--time", type=duration, metavar="TIME",
        help="10m, say, for everything: bet against each claim until it is refuted or time is up",
    )  # fmt: skip
    audits.add_argument(
        "--evidence", type=Path, metavar="DIR", help="write a witness of each violation"
    )
    itself = audits.add_mutually_exclusive_group()
    itself.add_argument(
        "--self-check", action="store_true",
        help="measure the auditor's own false alarms instead, where the truth is known",
    )  # fmt: skip
    itself.add_argument(
        "--power", action="store_true",
        help="measure instead what it sees: the least noise missing, and every planted fault",
    )  # fmt: skip
    add_seed(audits)
    add_changed(audits)
    add_parallel(audits)
    add_resume(audits)
    proofs = add_command(
        commands, "prove", prove, "obligations, exact losses of the crafted pairs, refinement",
        example="dpverify prove noisy_count --digits 80", names=True,
    )  # fmt: skip
    proofs.add_argument("--digits", type=at_least(30), default=50, metavar="N", help="default 50")
    recording = proofs.add_mutually_exclusive_group()
    recording.add_argument(
        "--update", action="store_true",
        help=f"obligations alone, those that {FILE} has not for this code; and write down which "
        "held",
    )  # fmt: skip
    recording.add_argument(
        "--check", action="store_true",
        help=f"run nothing; exit 1 if {FILE} has not every obligation for this code",
    )  # fmt: skip
    add_changed(proofs)
    proofs.add_argument("-v", "--verbose", action="store_true", help="every pair's exact loss")
    add_parallel(proofs)


def audit(options: argparse.Namespace, suite: Suite, console: Console) -> int:
    """Run the audits of the named configurations and exhibits, or measure the auditor."""
    if options.self_check or options.power:
        return _measure(options, suite, console)
    check_names(options.names, selectable(suite))
    quick = options.quick or options.trials is not None
    trials = options.trials or (QUICK_TRIALS if options.quick else THOROUGH_TRIALS)
    shared = Options(
        suite=options.suite,
        seed=seed_from(options),
        trials=trials,
        thorough=not quick or trials >= THOROUGH_TRIALS,
        audits=certified_units(suite),
    )
    units = chosen(options, suite, audit_units(suite, options.names))
    earlier, shard = _earlier(options), shard_of(options)
    with engine_of(options, suite) as engine:
        if options.time is not None:
            own = math.ceil(len(units) / shard.count)  # the same in all shards
            each = options.time * min(engine.workers, own) / max(1, own)
            shared = replace(shared, seconds=each)
        consumers = consumers_of(options, console, show_details=False)
        return run("audit", suite, units, shared, consumers, engine, known=earlier, shard=shard)


def _earlier(options: argparse.Namespace) -> dict[str, UnitFinished]:
    """Read earlier results before consumers are made: --jsonl may be the same file."""
    path = resumed_from(options)
    return {} if path is None else known_units(path)


def _measure(options: argparse.Namespace, suite: Suite, console: Console) -> int:
    """Measure the auditor, for ``--self-check`` and ``--power``."""
    flag = "--self-check" if options.self_check else "--power"
    if options.changed:
        raise UsageError(f"{flag} measures the auditor, whatever changed: leave --changed out.")
    if options.trials is not None or options.time is not None:
        raise UsageError(f"{flag} chooses its numbers of draws: leave --trials and --time out.")
    if options.self_check:
        known = [unit.name for unit in coverage_units()]
        check_names(options.names, known, listed=f"its cases are: {'; '.join(known)}.")
    else:
        check_names(options.names, selectable(suite))
    shared = MeasureOptions(
        suite=options.suite,
        seed=seed_from(options),
        quick=options.quick,
    )
    choose = coverage_units if options.self_check else partial(power_units, suite)
    units = choose(options.names)
    earlier, shard = _earlier(options), shard_of(options)
    with engine_of(options, suite) as engine:
        consumers = consumers_of(options, console, show_details=options.power)
        return run_measuring(suite, units, shared, consumers, engine, known=earlier, shard=shard)


def prove(options: argparse.Namespace, suite: Suite, console: Console) -> int:
    """Run the obligations, exact profiles and refinements that the names select."""
    _refuse_boxes(options, suite)
    if not {*options.names} <= {*provable(suite, options.names)}:
        check_names(options.names, provable(suite))  # all are loaded to say what is near
    if options.update and options.changed:
        raise UsageError("--update runs what is not recorded for this code: leave --changed out.")
    if options.update and options.shard is not None:
        raise UsageError("--update records what holds in one file: leave --shard out.")
    if options.update:
        return _update(options, suite, console)
    shared = Options(suite=options.suite, digits=options.digits)
    units = chosen(options, suite, prove_units(suite, options.names))
    shard = shard_of(options)
    with engine_of(options, suite) as engine:
        consumers = consumers_of(options, console, show_details=options.verbose)
        return run("prove", suite, units, shared, consumers, engine, shard=shard)


def _refuse_boxes(options: argparse.Namespace, suite: Suite) -> None:
    """Raise UsageError for the name of a black box, of which nothing can be proved."""
    for name in options.names:
        if name.partition(":")[0] in suite.boxes:
            raise UsageError(
                f"{name} is a black box: its claim is asserted, and there is nothing to prove. "
                f"Attack it with `dpverify audit {name}`."
            )


def _update(options: argparse.Namespace, suite: Suite, console: Console) -> int:
    """Run the obligations that are not recorded for this code, and record those that hold."""
    if options.digits != DEFAULT_DIGITS:
        raise UsageError(
            f"--digits {options.digits} with --update: {FILE} says what holds at "
            f"{DEFAULT_DIGITS} digits; leave --digits out."
        )
    build, path = lemmas.Build(suite.root), lemmas.path_of(suite.root)
    proved = [unit for unit in prove_units(suite, options.names) if unit.kind == "obligation"]
    asked = [
        one for one in proved if not is_borrowed(suite.root, f"{one.name.partition(':')[0]}.py")
    ]
    lemmas.check_readable(build, suite, [lemmas.name_of(unit.name) for unit in asked])
    recorder = lemmas.Recorder(path, build)
    missing = lemmas.differences(recorder.entries, build)
    units = [unit for unit in asked if lemmas.name_of(unit.name) in missing]
    code = EXIT_HELD
    if units:
        with engine_of(options, suite) as engine:
            consumers = consumers_of(options, console, show_details=options.verbose)
            shared = Options(suite=options.suite)
            code = run("prove", suite, units, shared, [*consumers, recorder], engine)
    left = len(lemmas.differences(recorder.entries, build))
    print(
        f"{len(units)} obligations were run, {len(asked) - len(units)} needed no run; {path} has "
        f"{len(recorder.entries)}, and {left} are not checked for this build"
    )
    return code


def check_lemmas(options: argparse.Namespace) -> int:
    """Compare the file of checked obligations with the code, from sources alone.

    Nothing is loaded or run.
    """
    if options.names:
        raise UsageError(f"--check is of all obligations: leave {' '.join(options.names)} out.")
    root = find_root(options.suite)
    build, path = lemmas.Build(root), lemmas.path_of(root)
    kinds = lemmas.differences(lemmas.read(path), build)
    for name, kind in kinds.items():
        print(lemmas.shown(name, kind))
    if kinds:
        print(f"{len(kinds)} differences from {path}; run {lemmas.updating(path)}")
        return EXIT_REFUTED
    print(f"{len(build.obligations)} obligations are checked for this build, by {path}")
    return EXIT_HELD
