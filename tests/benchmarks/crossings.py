"""Python calls of one release, and how often they go from one file of dpverify to another, by hand.

    python -m tests.benchmarks.crossings [--only TEXT] [--against FILE]

Every configuration of audits/ releases once from the left dataset of its first pair by
SeededBits; that warms what is kept between releases. The second release, from a source of the
same seed, runs under sys.setprofile. Counted are frames of functions in files of the package:
not those of other packages, not built-in functions, and not what a comprehension runs in, which
is no frame in every version of Python. A generator that goes on counts as a call.

calls: such frames. files: in how many files. A frame's caller is the nearest frame around it
that is counted, so a call that goes through functools, dataclasses or numpy has a caller as
well; release itself has none. changes: calls whose caller is in another file. pairs: distinct
(file of the caller, file of the called) of these changes. total: sums over the configurations.
together: distinct ones over all of them.

--only: configurations whose names contain this text. --against: an earlier output of this
benchmark; the last three columns are our numbers over its numbers. Their total is over the
configurations that both have, and so is typical: the geometric mean of the ratios, in which
every configuration counts alike.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import dpverify
from dpverify import SeededBits
from dpverify.audit import Configuration
from dpverify.suite.trees import load
from tests.benchmarks.errors import code, seed_of
from tests.benchmarks.timing import header, table

COLUMNS = ("configuration", "calls", "changes", "pairs", "files")
RATIOS = ("calls ratio", "changes ratio", "pairs ratio")
TOTAL, TOGETHER, TYPICAL = "total", "together", "typical"
_PACKAGE = str(Path(dpverify.__file__).resolve().parent)
_INLINED = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})
"""Functions up to Python 3.11, part of the function around them from 3.12 on."""

Pair = tuple[str, str]
Numbers = tuple[int, ...]
"""calls, changes, pairs, files."""


@dataclass
class Count:
    """The calls of one run, and the pairs of files that they went between."""

    calls: int = 0
    changes: int = 0
    pairs: set[Pair] = field(default_factory=set)
    files: set[str] = field(default_factory=set)

    def numbers(self) -> Numbers:
        """Give a line of the table."""
        return self.calls, self.changes, len(self.pairs), len(self.files)

    def add(self, other: Count) -> None:
        """Add another run's calls, and unite the pairs and the files."""
        self.calls += other.calls
        self.changes += other.changes
        self.pairs |= other.pairs
        self.files |= other.files


def counted(call: Callable[[], object]) -> Count:
    """Run a call under sys.setprofile and count what it calls."""
    count = Count()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not _counts(frame):
            return
        file = frame.f_code.co_filename
        count.calls += 1
        count.files.add(file)
        caller = _caller(frame)
        if caller is not None and caller != file:
            count.changes += 1
            count.pairs.add((caller, file))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(before)
    return count


def _counts(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_filename.startswith(_PACKAGE) and code.co_name not in _INLINED


def _caller(frame: FrameType) -> str | None:
    """Find the file of the nearest frame around this one that is counted."""
    around = frame.f_back
    while around is not None:
        if _counts(around):
            return around.f_code.co_filename
        around = around.f_back
    return None


def measured(key: str, configuration: Configuration) -> Count:
    """Count the second release of a configuration from its first pair's left dataset."""
    mechanism, data = configuration.mechanism, configuration.pairs[0].left
    status = str(mechanism.claim.status)
    accepted = "" if status == "proved" else f"{status}: counted by a benchmark, never published"

    def release() -> object:
        return mechanism.release(data, SeededBits(seed_of(key)), accept_status=accepted)

    release()
    return counted(release)


def earlier(path: Path) -> dict[str, Numbers]:
    """Read the lines of an output of this benchmark, by configuration."""
    numbers = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, *cells = re.split(r" {2,}", line.strip())
        cells = cells[: len(COLUMNS) - 1]
        if len(cells) == len(COLUMNS) - 1 and all(cell.isdecimal() for cell in cells):
            numbers[name] = tuple(map(int, cells))
    if not numbers:
        raise SystemExit(f"{path} has no table of this benchmark.")
    return numbers


def rows(counts: dict[str, Count], before: dict[str, Numbers] | None) -> list[list[str]]:
    """Write a line for each configuration, then the totals."""
    numbers = {key: count.numbers() for key, count in counts.items()}
    lines = [[key, *map(str, ours)] for key, ours in numbers.items()]
    every = Count()
    for count in counts.values():
        every.add(count)
    lines.append([TOTAL, *map(str, _sums(list(numbers.values())))])
    lines.append([TOGETHER, *map(str, every.numbers())])
    if before is None:
        return lines
    shared = [key for key in numbers if key in before]
    ratios = {key: _ratios(numbers[key], before[key]) for key in shared}
    ours, theirs = _sums([numbers[key] for key in shared]), _sums([before[key] for key in shared])
    ratios[TOTAL] = _ratios(ours, theirs)
    if TOGETHER in before and before.keys() - {TOTAL, TOGETHER} == numbers.keys():
        ratios[TOGETHER] = _ratios(every.numbers(), before[TOGETHER])
    lines.append([TYPICAL, *["-"] * (len(COLUMNS) - 1)])
    ratios[TYPICAL] = [_typical(numbers, before, shared, i) for i in range(len(RATIOS))]
    return [[*line, *ratios.get(line[0], ["-"] * len(RATIOS))] for line in lines]


def _sums(lines: Sequence[Numbers]) -> Numbers:
    return tuple(map(sum, zip(*lines, strict=True))) if lines else (0,) * (len(COLUMNS) - 1)


def _ratios(ours: Numbers, theirs: Numbers) -> list[str]:
    columns = zip(ours, theirs, strict=True)
    return [f"{a / b:.3f}" if b else "-" for a, b in columns][: len(RATIOS)]


def _typical(
    ours: dict[str, Numbers], theirs: dict[str, Numbers], shared: Sequence[str], column: int
) -> str:
    ratios = [ours[key][column] / theirs[key][column] for key in shared if theirs[key][column]]
    if not ratios or min(ratios) <= 0:
        return "-"
    return f"{statistics.geometric_mean(ratios):.3f}"


def main() -> None:
    """Count every configuration, then print the table."""
    parser = argparse.ArgumentParser(description="Calls between files in one release.")
    parser.add_argument("--only", default="", help="a part of the names of configurations")
    parser.add_argument("--against", type=Path, help="an earlier output, to divide by")
    given = parser.parse_args()
    before = None if given.against is None else earlier(given.against)
    counts = {}
    for key, configuration in load().configurations.items():
        if given.only in key:
            counts[key] = measured(key, configuration)
            print(key, file=sys.stderr, flush=True)
    if not counts:
        raise SystemExit(f"No configuration's name contains {given.only!r}.")
    command = "python -m tests.benchmarks.crossings"
    header(
        "Calls between files in one release", command, "Nothing here is timed: calls are counted."
    )
    print(f"# what releases run: sha256 of its files {code()}")
    print(f"# ratios: against {given.against.name}\n" if given.against else "")
    print(__doc__)
    table((*COLUMNS, *(RATIOS if before else ())), rows(counts, before))
    if before:
        gone = before.keys() - counts.keys() - {TOTAL, TOGETHER}
        if gone and not given.only:
            print(f"\nNot here any more: {', '.join(sorted(gone))}.")


if __name__ == "__main__":
    main()
