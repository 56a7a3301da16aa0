"""The command ``compare``: two runs, and what got worse from one to the other."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from dpverify.cli.shared import Commands, UsageError, add_standalone
from dpverify.cli.tables import print_table
from dpverify.suite.events import EXIT_HELD, EXIT_REFUTED
from dpverify.suite.regressions import DEFAULT_LIMITS, METRICS, Line, Mark, compared
from dpverify.suite.stored import read

_CODES = """\
exit codes:
  0    nothing got worse by more than is allowed
  1    something did: it stands in a line that begins with FAIL
  2    wrong usage, or a file that --jsonl did not write
"""
_COLUMNS = ("", "unit", "what", "old", "new", "")


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = add_standalone(
        commands, "compare", compare, "two runs whose events --jsonl kept: what got worse",
        example="dpverify compare OLD.jsonl NEW.jsonl --fail epsilon:5% --fail seconds:50%",
        codes=_CODES,
    )  # fmt: skip
    parser.add_argument("old", type=Path, metavar="OLD", help="written by --jsonl")
    parser.add_argument("new", type=Path, metavar="NEW", help="likewise, by a later run")
    parser.add_argument(
        "--fail", action="append", type=_limit, metavar="WHAT:SHARE",
        help=(
            "fail if this grew by more than a share of the old value: epsilon and delta of the "
            "claim, certified (the bound that an audit found), error (of a rate), seconds. May be "
            "given several times; where neither epsilon nor delta is given, both are 0%%. A worse "
            "verdict and a unit that is gone fail always"
        ),
    )  # fmt: skip


def _limit(text: str) -> tuple[str, Fraction]:
    """Parse an argument that is a metric and a share, as epsilon:5%."""
    match = re.fullmatch(r"([a-z]+):(\d+(?:\.\d+)?)%", text)
    if match is None or match[1] not in METRICS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no limit; write epsilon:5%, say, of {', '.join(METRICS)}"
        )
    return match[1], Fraction(match[2]) / 100


def compare(options: argparse.Namespace) -> int:
    """Print the table of differences; the exit code says whether one of them fails."""
    asked: list[tuple[str, Fraction]] = options.fail or []
    for metric, times in Counter(metric for metric, _ in asked).items():
        if times > 1:
            raise UsageError(f"--fail {metric}: is given {times} times; give one share of each.")
    limits = dict(asked)
    if limits.keys().isdisjoint(DEFAULT_LIMITS):  # a limit on seconds lets no claim get worse
        limits |= DEFAULT_LIMITS
    old, new = (read(path).events for path in (options.old, options.new))
    try:
        lines = compared(old, new, limits)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if lines:
        print_table([_COLUMNS, *(line.cells for line in lines)])
    return _said(lines, options.old, options.new)


def _said(lines: Sequence[Line], old: Path, new: Path) -> int:
    counts = Counter(line.mark for line in lines)
    if not counts[Mark.FAIL]:
        print(f"nothing got worse by more than is allowed from {old} to {new}")
        return EXIT_HELD
    many = "1 regression" if counts[Mark.FAIL] == 1 else f"{counts[Mark.FAIL]} regressions"
    print(f"{many} from {old} to {new}")
    return EXIT_REFUTED
