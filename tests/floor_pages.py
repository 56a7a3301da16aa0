"""The tables of docs/floors/: one row for each file, with the first paragraph of its docstring.

    python -m tests.floor_pages            the pages that are out of date
    python -m tests.floor_pages --update   write the tables into the pages

A table stands below a heading that names its folder or its files, as ### `dpverify/grid/`.
Everything else on the pages is written by people.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "floors").glob("*.md"))
HEAD = "| file | what it has |\n|---|---|\n"
_TABLE = re.compile(re.escape(HEAD) + r"(\|.*\n)*")
_HEADING = re.compile(r"^### (.*)$", re.MULTILINE)
_PATH = re.compile(r"`(dpverify/[\w/.]+)`")


def opening(path: Path) -> str:
    """Return the first paragraph of a file's docstring, without the full stop at its end."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    line = " ".join(text.split("\n\n")[0].split())
    return line.rstrip(".").replace("``", "`").replace("|", "&#124;")


def table(paths: list[Path]) -> str:
    """Return the table of the files, and of those in folders, without ``__init__``."""
    listed = [sorted(path.glob("*.py")) if path.is_dir() else [path] for path in paths]
    files = [file for each in listed for file in each if file.stem != "__init__"]
    return HEAD + "".join(f"| `{file.stem}` | {opening(file)} |\n" for file in files)


def page(text: str) -> str:
    """Return a page with its tables as the files have them. Raises ValueError for a table whose
    heading names no file.
    """
    return _TABLE.sub(lambda match: table(_named(text[: match.start()])), text)


def _named(before: str) -> list[Path]:
    named = _PATH.findall((_HEADING.findall(before) or [""])[-1])
    if not named:
        raise ValueError("A table of files stands below a heading such as ### `dpverify/grid/`.")
    return [ROOT / path for path in named]


def main() -> int:
    """Print which pages are out of date, and with ``--update`` write them."""
    stale = [path for path in PAGES if page(path.read_text("utf-8")) != path.read_text("utf-8")]
    for path in stale:
        if "--update" in sys.argv:
            path.write_text(page(path.read_text("utf-8")), "utf-8")
        print(path.relative_to(ROOT))
    return 0 if "--update" in sys.argv or not stale else 1


if __name__ == "__main__":
    sys.exit(main())
