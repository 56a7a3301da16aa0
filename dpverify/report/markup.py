"""Trees of HTML, SVG and XML by the standard library, so that whatever a result says is escaped."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, indent, tostring

Child = Element | str | None
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Element:
    """Make an element. A child or an attribute that is None is left out.

    Attributes are written as Python allows: ``class_`` is "class" and ``aria_label`` is
    "aria-label". True stands for the attribute's own name, False leaves it out.
    """
    made = Element(name)
    for key, value in attributes.items():
        if value is not None and value is not False:
            key = key.rstrip("_").replace("_", "-")
            made.set(key, key if value is True else clean(str(value)))
    for child in children:
        if isinstance(child, str):
            _append_text(made, clean(child))
        elif child is not None:
            made.append(child)
    return made


def clean(text: str) -> str:
    """Replace the characters that no XML document may contain, such as a terminal's colors."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def html(root: Element) -> str:
    """Write a document of HTML."""
    return f"<!doctype html>\n{tostring(root, encoding='unicode', method='html')}\n"


def xml(root: Element) -> str:
    """Write a document of XML, one line for each element."""
    indent(root)
    body = tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


def _append_text(to: Element, text: str) -> None:
    if len(to):
        to[-1].tail = (to[-1].tail or "") + text
    else:
        to.text = (to.text or "") + text
