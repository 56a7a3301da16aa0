"""Writer of a user's first suite, copied from this package's template."""

from __future__ import annotations

from pathlib import Path

import dpverify

_TEMPLATE = Path(dpverify.__file__).resolve().parent / "_template"
_KINDS = (".py", ".md", ".toml")


def template_files() -> dict[str, str]:
    """Read every file of a first suite, by its path from the suite's root."""
    files = (file for file in sorted(_TEMPLATE.rglob("*")) if file.suffix in _KINDS)
    return {
        file.relative_to(_TEMPLATE).as_posix(): file.read_text(encoding="utf-8") for file in files
    }


def write_suite(folder: Path) -> list[str]:
    """Write a working suite into a folder that is empty or not there yet; return its files' paths.

    Raises ValueError for a folder with anything in it, and OSError where it cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; give a folder that is empty or not there yet.")
    if folder.is_dir() and any(folder.iterdir()):
        raise ValueError(
            f"{folder} is not empty, and nothing in it is overwritten; give a folder that is empty "
            "or not there yet."
        )
    files = template_files()
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return [*files]
