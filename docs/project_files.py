"""Files of the project outside docs/ that pages link to, as part of the site.

Pages link as they must in a checkout (``../../ARCHITECTURE.md``). On the site such a file is under
project/, and the links to it and in it lead there. A link to what does not exist is left as it is,
so that a strict build refuses it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FETCHED = re.compile(
    r"""<(?:script|img|link|iframe)\b[^>]*?\b(?:src|href)=["']?((?:https?:)?//[^"' >]+)"""
)
LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=(?:#[^)\s]*)?\))")


def on_files(files: Files, config: Any) -> Files:
    """Add each file of the project that a page links to, and those that these link to."""
    waiting = [DOCS / file.src_uri for file in files.documentation_pages()]
    waiting += [ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    seen = set(waiting)
    for path in waiting:
        if DOCS not in path.parents:
            files.append(File.generated(config, _place(path), abs_src_path=str(path)))
        if path.suffix != ".md":
            continue
        for match in LINK.finditer(path.read_text(encoding="utf-8")):
            linked = _target(path, match[1])
            if linked.is_file() and DOCS not in linked.parents and linked not in seen:
                seen.add(linked)
                waiting.append(linked)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links to files outside docs/ to where they are on the site."""
    return LINK.sub(_moved(Path(page.file.abs_src_path), page.file.src_uri), markdown)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Refuse a page that fetches a script, a style or an image from elsewhere."""
    fetched = FETCHED.search(output)
    if fetched:
        raise PluginError(
            f"{page.file.src_uri} fetches {fetched[1]} from elsewhere; keep a copy of it here."
        )
    return output


def _moved(source: Path, place: str) -> Callable[[re.Match[str]], str]:
    def moved(match: re.Match[str]) -> str:
        linked = _target(source, match[1])
        if not linked.is_file():
            return match[1]
        return os.path.relpath(_place(linked), os.path.dirname(place) or ".")

    return moved


def _target(source: Path, link: str) -> Path:
    return Path(os.path.normpath(source.parent / link))


def _place(path: Path) -> str:
    if DOCS in path.parents:
        return path.relative_to(DOCS).as_posix()
    return f"project/{path.relative_to(ROOT).as_posix()}"
