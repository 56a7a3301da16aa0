"""The command line: list, audit, prove, explain, papers, claims."""

from __future__ import annotations

import argparse
import difflib
import os
import secrets
import sys
import traceback
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import groupby
from pathlib import Path

from rich.console import Console

import dpverify
from dpverify import ledger
from dpverify.audit.auditing import FEWEST_TRIALS
from dpverify.privacy import PAPERS, Derivation, PrivacyClaim, render, sources_of, textbook
from dpverify.report.jsonl import JsonLines
from dpverify.report.terminal import Terminal
from dpverify.suite.events import (
    EXIT_HELD,
    EXIT_INTERRUPTED,
    EXIT_INVALID,
    EXIT_REFUTED,
    EXIT_USAGE,
    Consumer,
)
from dpverify.suite.judges import QUICK_TRIALS, THOROUGH_TRIALS, Options
from dpverify.suite.papers import statements, unsourced
from dpverify.suite.runner import audit_units, provable, prove_units, run, selectable
from dpverify.suite.trees import Suite, SuiteError, load

_EXIT_CODES = """\
exit codes:
  0    all held
  1    a claim refuted, an obligation false, or the ledger disagrees
  2    wrong usage
  3    internal error, or an invalid run
  4    powerless: nothing refuted, but not everything planted was seen
  5    nothing collected
  130  stopped by Ctrl-C, with a valid partial report
"""


class _OurConsole(Console):
    """rich ends the process with exit code 1 when its output is closed; here 1 means refuted."""

    def on_broken_pipe(self) -> None:
        """Leave it to ``main``."""
        raise BrokenPipeError


class UsageError(Exception):
    """The command line asks for something that is not there."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        if options.suite is not None and not options.suite.is_dir():
            raise UsageError(f"--suite {options.suite} is not a folder.")
        command: Callable[[argparse.Namespace, Suite, Console], int] = options.command
        return command(options, load(options.suite), _OurConsole(soft_wrap=True))
    except UsageError as error:
        print(f"dpverify: {error}", file=sys.stderr)
        return EXIT_USAGE
    except BrokenPipeError:
        # Somebody closed our output, as `head` does. The run did not finish, so it may not say
        # that all held; what is still buffered goes nowhere, or the interpreter would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_INVALID
    except (SuiteError, ValueError, OSError) as error:
        print(f"dpverify: {error}", file=sys.stderr)
        return EXIT_INVALID
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception:  # whatever it is, it is no refutation: exit code 1 must mean one
        traceback.print_exc()
        return EXIT_INVALID


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dpverify",
        description="Differentially private estimators whose claims are derived, specified and "
        "attacked.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dpverify {dpverify.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _command(commands, "list", _list, "mechanisms, configurations, claims, status, source")
    _add_judges(commands)
    explain = _command(
        commands, "explain", _explain, "why a claim holds: the derivation tree, with sources",
        example="dpverify explain bounded_mean:add-remove:height",
    )  # fmt: skip
    explain.add_argument("names", nargs="+", metavar="NAME", help="mechanism or configuration")
    _command(commands, "papers", _papers, "from each item of the sources to its file and status")
    claims = _command(
        commands, "claims", _claims, "the code against the ledger claims.toml",
        example="dpverify claims --check",
    )  # fmt: skip
    mode = claims.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="exit 1 on any difference (default)")
    mode.add_argument("--update", action="store_true", help="write the ledger; review the diff")
    return parser


def _add_judges(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``audit`` and ``prove``: what runs units of work and emits events."""
    audits = _command(
        commands, "audit", _audit, "attack every claim, and show that the attack had power",
        example="dpverify audit bounded_mean --quick --seed 7", names=True,
    )  # fmt: skip
    size = audits.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", action="store_true",
        help=f"{QUICK_TRIALS:,} draws a side and pair: seconds a mechanism, every 0.7 fault caught",
    )  # fmt: skip
    size.add_argument(
        "--trials", type=_at_least(FEWEST_TRIALS), metavar="N",
        help=f"draws a side and pair (default {THOROUGH_TRIALS:,}: 5%% deficits of closed laws)",
    )  # fmt: skip
    audits.add_argument(
        "--seed", type=_at_least(0), metavar="N", help="default: fresh, and printed"
    )
    proofs = _command(
        commands, "prove", _prove, "obligations, exact losses of the crafted pairs, refinement",
        example="dpverify prove noisy_count --digits 80", names=True,
    )  # fmt: skip
    proofs.add_argument("--digits", type=_at_least(30), default=50, metavar="N", help="default 50")
    proofs.add_argument("-v", "--verbose", action="store_true", help="every pair's exact loss")
    for parallel in (audits, proofs):
        parallel.add_argument(
            "--workers", type=_at_least(1), metavar="N", help="default: one a core"
        )
        parallel.add_argument("--jsonl", type=Path, metavar="FILE", help="also write the events")


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    function: Callable[[argparse.Namespace, Suite, Console], int],
    summary: str,
    *,
    example: str = "",
    names: bool = False,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"example: {example or 'dpverify ' + name}\n\n{_EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=function)
    parser.add_argument(
        "--suite", type=Path, metavar="PATH", help="a folder with mechanisms/, spec/ and audits/"
    )
    if names:
        parser.add_argument("names", nargs="*", metavar="NAME", help="default: everything")
    return parser


def _list(options: argparse.Namespace, suite: Suite, console: Console) -> int:
    rows = [("configuration", "claim", "status", "source")]
    for key, configuration in suite.configurations.items():
        claim = configuration.mechanism.claim
        papers = dict.fromkeys(s.paper for s in sources_of(suite.entries[_name(key)].spec.law))
        rows.append((key, str(claim.guarantee), str(claim.status), ", ".join(papers)))
    for name, exhibit in suite.exhibits.items():
        claim = exhibit.claim.conclusion
        row = (f"exhibits/{name}", str(claim.guarantee), "refuted", exhibit.claim.source.paper)
        rows.append(row)
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        print("  ".join(cell.ljust(w) for cell, w in zip(row, (*widths, 0), strict=True)).rstrip())
    return EXIT_HELD


def _name(key: str) -> str:
    return key.partition(":")[0]


def _audit(options: argparse.Namespace, suite: Suite, console: Console) -> int:
    _check_names(options.names, selectable(suite))
    quick = options.quick or options.trials is not None
    trials = options.trials or (QUICK_TRIALS if options.quick else THOROUGH_TRIALS)
    shared = Options(
        suite=options.suite,
        seed=secrets.randbelow(2**32) if options.seed is None else options.seed,
        trials=trials,
        thorough=not quick or trials >= THOROUGH_TRIALS,
    )
    units = audit_units(suite, options.names)
    consumers = _consumers(options, console, show_details=False)
    return run("audit", suite, units, shared, consumers, workers=_workers(options))


def _prove(options: argparse.Namespace, suite: Suite, console: Console) -> int:
    _check_names(options.names, provable(suite))
    shared = Options(suite=options.suite, digits=options.digits)
    units = prove_units(suite, options.names)
    consumers = _consumers(options, console, show_details=options.verbose)
    return run("prove", suite, units, shared, consumers, workers=_workers(options))


def _explain(options: argparse.Namespace, suite: Suite, console: Console) -> int:
    _check_names(options.names, selectable(suite))
    for key, configuration in suite.configurations.items():
        if not any(key == name or key.startswith(f"{name}:") for name in options.names):
            continue
        derivation = configuration.mechanism.derivation
        delta = derivation.conclusion.guarantee.delta_floor or textbook.DELTA
        print(f"{key}\n\n{derivation.tree(partial(textbook.numbers, delta=delta))}\n")
        _print_costs(derivation, delta)
        print("lemmas it rests on, beside the rules, the samplers and the grid:")
        for lemma in derivation.lemmas:
            print(f"  {lemma.conclusion}: spec/{lemma.obligation}")
        for departure in suite.entries[_name(key)].departures:
            print(f"departs from {departure.source}: {departure.what}\n  because {departure.why}")
        print()
    for name in options.names:
        if name.startswith("exhibits/"):
            exhibit = suite.exhibits[name.removeprefix("exhibits/")]
            print(f"{name}\n\n{exhibit.claim}\n\nfalse, because {exhibit.why}\n")
    return EXIT_HELD


def _print_costs(derivation: Derivation[PrivacyClaim], delta: Fraction) -> None:
    stages = textbook.stages_of(derivation)
    print(f"{len(stages)} stage{'s' * (len(stages) != 1)}, together, at delta {render(delta)}:")
    for cost in textbook.costs(derivation, delta):
        shown = "does not apply" if cost.epsilon is None else f"{float(cost.epsilon):.6g}"
        print(f"  epsilon <= {shown:<14}  {cost.accounting}")
    print()


def _papers(options: argparse.Namespace, suite: Suite, console: Console) -> int:
    for key, group in groupby(statements(suite), key=lambda stated: stated.paper):
        paper = PAPERS[key]
        print(f"{key}  {paper.authors}: {paper.title}. {paper.where}.")
        for stated in group:
            note = f" ({stated.note})" if stated.note else ""
            print(f"  {stated.item}: {stated.status.value}{note}")
            for place in stated.places:
                print(f"      {place}")
        print()
    missing = unsourced(suite)
    for place in missing:
        print(f"{place} says no source")
    return EXIT_REFUTED if missing else EXIT_HELD


def _claims(options: argparse.Namespace, suite: Suite, console: Console) -> int:
    path, current = ledger.path_of(suite), ledger.promised(suite)
    differences = ledger.compare(ledger.read(path), current)
    for difference in differences:
        mark = "breaking: " if difference.breaking else ""
        print(f"{difference.kind:<12} {difference.key}  {mark}{difference.detail}")
    if options.update:
        ledger.write(path, current)
        print(f"wrote {len(current)} entries to {path}; review the diff")
        return EXIT_HELD
    if differences:
        print(f"{len(differences)} differences from {path}; if they are meant, run "
              "`dpverify claims --update` and have the diff reviewed")  # fmt: skip
        return EXIT_REFUTED
    print(f"{len(current)} entries agree with {path}")
    return EXIT_HELD


def _check_names(names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3, cutoff=0.3)
            hint = f"did you mean {' or '.join(near)}?" if near else "see `dpverify list`."
            raise UsageError(f"there is no {name!r}; {hint}")


def _consumers(
    options: argparse.Namespace, console: Console, *, show_details: bool
) -> list[Consumer]:
    consumers: list[Consumer] = [Terminal(console, show_details=show_details)]
    if options.jsonl is not None:
        consumers.append(JsonLines(options.jsonl))
    return consumers


def _workers(options: argparse.Namespace) -> int:
    return options.workers or os.cpu_count() or 1


def _at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"{text} is too small; at least {least} is needed")
        return value

    return parse
