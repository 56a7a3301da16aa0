"""Signatures and docstrings in the form that a page of the reference needs.

In docstrings a line that begins with a name and a colon ("radius: the public ball's") becomes an
item of a list, and a session of the interpreter becomes a block of code. Converters are left out of
annotations (``Annotated``), and the methods that every mechanism has are on a page of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from griffe import Attribute, Class, ExprSubscript, ExprTuple, Extension, Function, Object

NAMED = re.compile(r"([A-Za-z_][\w.*]*(?:, [A-Za-z_][\w.*]*)*): (?=\S)")
SHARED = {
    "calibrated_for", "check_parameters", "columns", "estimate", "fewest_records", "plan",
    "replacement",
}  # fmt: skip


class Docstrings(Extension):
    """The extension of griffe that rewrites each object when it is read."""

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        """Annotate with the type alone, without its converter."""
        annotation = attr.annotation
        if isinstance(annotation, ExprSubscript) and str(annotation.left) == "Annotated":
            inside = annotation.slice
            attr.annotation = inside.elements[0] if isinstance(inside, ExprTuple) else inside

    def on_class(self, *, cls: Class, **_: Any) -> None:
        """Leave out of a mechanism what all mechanisms have."""
        if cls.module.path.startswith("dpverify.mechanisms."):
            for name in SHARED & cls.members.keys():
                del cls.members[name]

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite an object's docstring."""
        if obj.docstring is not None:
            names = {"Data", "Output", "Claim", "Errors", "Source", *obj.members}
            if isinstance(obj, Function | Class):
                names |= {parameter.name for parameter in obj.parameters}
            one = "|".join(map(re.escape, sorted(names)))
            apart = re.sub(
                rf"(?<=[.])\s+((?:{one})(?:, (?:{one}))*): ", r"\n\1: ", obj.docstring.value
            )
            obj.docstring.value = "\n\n".join(_blocks(apart))


def _blocks(text: str) -> Iterator[str]:
    for block in re.split(r"\n\s*\n", text):
        if block.lstrip().startswith(">>> "):
            yield f"```python\n{block}\n```"
        elif block.startswith("    "):
            yield block
        else:
            yield "\n".join(_lines(block))


def _lines(block: str) -> Iterator[str]:
    item = False
    for line in block.splitlines():
        named = NAMED.match(line)
        if named and not item:
            yield ""
        item = item or named is not None
        if named:
            yield f"- **{named[1]}:** {line[named.end() :]}"
        else:
            yield f"    {line.lstrip()}" if item else line
