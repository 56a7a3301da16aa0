"""The HTML report: one file that needs nothing else, from a run or from kept lines of events."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from xml.etree.ElementTree import Element

from dpverify.report.markup import html, tag
from dpverify.report.saving import save
from dpverify.report.sections import (
    claim_section,
    counts,
    has_section,
    meanings,
    run_line,
    verdict_table,
)
from dpverify.suite.events import Event, Outcome, RunFinished, RunStarted, UnitFinished
from dpverify.suite.reporting import PART

_WORST_FIRST = (Outcome.INVALID, Outcome.REFUTED, Outcome.POWERLESS, Outcome.HELD)


class HtmlReport:
    """A consumer that writes a page after the last event.

    After Ctrl-C it writes the units that finished.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._events: list[Event] = []

    def __call__(self, event: Event) -> None:
        """Take one event."""
        self._events.append(event)
        if isinstance(event, RunFinished):
            save(self._path, page(self._events))


def page(events: Sequence[Event]) -> str:
    """Write the report of one run, or of several after one another."""
    units = [e for e in events if isinstance(e, UnitFinished) and e.kind != PART]
    units.sort(key=lambda unit: _WORST_FIRST.index(unit.outcome))
    anchors = _anchors(units)
    main = tag(
        "main",
        tag("h1", "Privacy claims, attacked and proved"),
        *_runs(events),
        counts(units),
        meanings(),
        tag("form", id="filter", hidden=True),
        verdict_table(units, anchors),
        *_claims(units, anchors),
    )
    return html(
        tag("html", _head(), tag("body", main, tag("script", _asset("page.js"))), lang="en")
    )


def _head() -> Element:
    """Write the head, with a policy that forbids every request, and all scripts and styles but
    the page's.
    """
    style = _asset("page.css")
    policy = (
        f"default-src 'none'; img-src data:; style-src {_digest(style)}; "
        f"script-src {_digest(_asset('page.js'))}; base-uri 'none'; form-action 'none'"
    )
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", "dpverify: privacy claims"),
        tag("link", rel="icon", href="data:,"),
        tag("style", style),
    )


def _asset(name: str) -> str:
    return files("dpverify.report").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _runs(events: Sequence[Event]) -> list[Element]:
    """Write a line for each run; its end is the next one in the stream."""
    lines = list[Element]()
    for i, event in enumerate(events):
        if isinstance(event, RunStarted):
            rest = (one for one in events[i + 1 :] if not isinstance(one, UnitFinished))
            end = next(rest, None)
            lines.append(run_line(event, end if isinstance(end, RunFinished) else None))
    return lines


def _anchors(units: Sequence[UnitFinished]) -> dict[str, str]:
    """Return the place of each section in the page, by the name of its units."""
    named = dict.fromkeys(unit.name for unit in units if has_section(unit))
    return {name: f"c{i}" for i, name in enumerate(named)}


def _claims(units: Sequence[UnitFinished], anchors: dict[str, str]) -> list[Element]:
    """Write the sections, under a heading for each mechanism.

    A mechanism's place is that of its first section, which is its worst outcome.
    """
    of = {name: [unit for unit in units if unit.name == name] for name in anchors}
    parts, groups = list[Element](), dict[str, list[str]]()
    for name in anchors:
        groups.setdefault(_group(name), []).append(name)
    for group, names in groups.items():
        parts.append(tag("h2", group))
        parts += [claim_section(name, of[name], anchors[name]) for name in names]
        parts.append(
            tag("p", tag("a", "To the table of verdicts", href="#verdicts"), class_="back")
        )
    return parts


def _group(name: str) -> str:
    """Return the mechanism that a configuration, an obligation or a rate belongs to; the file
    of a test.
    """
    return "exhibits" if name.startswith("exhibits/") else name.partition(":")[0]
