"""The digest of the trusted core, to tell apart what other code has made."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

_CORE = ("privacy", "randomness", "grid", "plans", "transformations", "estimation", "mechanisms")


@cache
def build() -> str:
    """Return the SHA-256 of the sources of the trusted core, in hexadecimal; computed once."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for folder in _CORE:
        for file in sorted((root / folder).rglob("*.py")):
            text = file.read_bytes().replace(b"\r\n", b"\n")
            digest.update(f"{file.relative_to(root).as_posix()} {len(text)}\n".encode())
            digest.update(text)
    return digest.hexdigest()
