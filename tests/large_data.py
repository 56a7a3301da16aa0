"""The table of docs/how_to/large_data.md: how each mechanism reads records in chunks. Written by
``--update``, checked by a test."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dpverify.plans import Mechanism
from dpverify.plans.streaming import streaming
from dpverify.suite.trees import load

PAGE = Path(__file__).parents[1] / "docs" / "how_to" / "large_data.md"
FIRST = "<!-- written by `python -m tests.large_data --update` -->"
LAST = "<!-- the table ends here -->"
_FEW = 10_000
WHY = {
    "Agreement": "all pairs of records",
    "SoftAgreement": "all pairs of records",
    "filter": "all pairs of records",
    "GroupBuckets": "groups of records by a hash",
    "LevelCounts": "groups of records by a hash",
    "PairRungs": "pairs of records by a hash",
    "QuantileScores": "sorted records",
    "ColumnScores": "sorted records",
    "BlockScores": "sorted records",
    "SmoothMedians": "sorted records",
    "QuartileBins": "sorted records",
    "KeyedCounts": "counts by keys that nobody lists",
    "Answers": "one answer for each record",
    "PairOctaves": "pairs by the records' places",
    "places": "blocks by the records' places",
    "list": "a list that is made of all records",
}
"""Requests of mechanisms that do not add up, by a word of the refusal."""


@cache
def configurations() -> tuple[tuple[str, Mechanism[Any], Any], ...]:
    """Return one configuration of each mechanism and adjacency, with records that its audit
    attacks."""
    subjects: dict[str, tuple[str, Mechanism[Any], Any]] = {}
    for name, one in _audited():
        key = f"{name} {one.mechanism.adjacency}"
        small = [pair for pair in one.pairs if len(pair.left) < _FEW]
        if small and key not in subjects:
            subjects[key] = key, one.mechanism, np.asarray(small[0].left, float)
    return tuple(subjects.values())


def _audited() -> list[tuple[str, Any]]:
    """List all configurations with their mechanisms' names, by the modules that the suite loads."""
    entries = load().entries
    return [(name, one) for name, entry in entries.items() for one in entry.configurations]


def rows() -> list[str]:
    """Write the table: a line for each mechanism, over all configurations that are audited."""
    table: dict[str, tuple[set[int], set[str]]] = {}
    for _, one in _audited():
        passes, reasons = table.setdefault(type(one.mechanism).__name__, (set(), set()))
        asked = streaming(one.mechanism.fixed_plan)
        if asked.refusal is None:
            passes.add(asked.passes)
        else:
            reasons.add(_why(asked.refusal))
    lines = ["| mechanism | in chunks | needs in memory |", "|---|---|---|"]
    order = sorted(table, key=lambda name: (max(table[name][0], default=99), name))
    return lines + [
        f"| `{name}` | {_passes(table[name][0])} | {_listed(table[name][1])} |" for name in order
    ]


def _why(refusal: str) -> str:
    words = refusal.replace(",", " ").replace(".", " ").split()
    return next((why for word, why in WHY.items() if word in words), "all records at once")


def _passes(passes: set[int]) -> str:
    if not passes:
        return "no"
    least, most = min(passes), max(passes)
    if most == 1:
        return "one pass"
    return f"up to {most} passes" if least == most or least > 1 else f"one pass, or up to {most}"


def _listed(reasons: set[str]) -> str:
    return "; ".join(sorted(reasons)) or "nothing"


def updated(page: str) -> str:
    """Give the page with the table as it is now."""
    before, _, rest = page.partition(FIRST)
    return "\n".join([f"{before}{FIRST}", "", *rows(), "", f"{LAST}{rest.partition(LAST)[2]}"])


if __name__ == "__main__":
    if "--update" in sys.argv[1:]:
        PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print("\n".join(rows()))
