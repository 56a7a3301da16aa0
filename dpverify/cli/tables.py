"""Tables in columns; on a terminal that is too narrow for them, in lines of their own."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence

_INDENT = "    "


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of equal length, the first of which names the columns."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in table(rows, width):
        print(line)


def table(rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Return the lines of a table.

    width: the terminal's; None: there is none, and columns are as wide as they need.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = [
        "  ".join(cell.ljust(w) for cell, w in zip(row, (*widths, 0), strict=True)).rstrip()
        for row in rows
    ]
    if width is None or max(map(len, lines)) <= width:
        return lines
    return [line for row in rows[1:] for line in _stacked(rows[0], row, width)]


def _stacked(names: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    """Return a row as its first cell that says anything, and below it each other one with the
    column's name.
    """
    first = next((place for place, cell in enumerate(row) if cell), 0)
    lines = textwrap.wrap(row[first], width, subsequent_indent=_INDENT) or [""]
    for name, cell in zip(names[first + 1 :], row[first + 1 :], strict=True):
        if cell:
            said = f"{name}: {cell}" if name else cell
            lines += textwrap.wrap(
                said, width, initial_indent=_INDENT, subsequent_indent=2 * _INDENT
            )
    return lines
