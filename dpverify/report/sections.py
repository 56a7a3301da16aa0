"""Parts of the HTML report: the runs, the table of verdicts, and a section for each claim."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element

from dpverify.audit.verdicts import MEANING
from dpverify.privacy import numbers
from dpverify.report.figures import Figure, Table, digits, figures_of
from dpverify.report.markup import Child, tag
from dpverify.report.svg import draw
from dpverify.suite.events import Outcome, RunFinished, RunStarted, UnitFinished, units_of

SIGNS = {
    Outcome.HELD: "\N{CHECK MARK}",
    Outcome.REFUTED: "\N{MULTIPLICATION SIGN}",
    Outcome.POWERLESS: "?",
    Outcome.INVALID: "!",
}
"""Signs beside the word and the color of an outcome; powerless: nothing is known."""
_KINDS = {
    "audit": "Audit", "exhibit": "Exhibit", "profile": "Exact loss", "obligation": "Obligation",
    "refinement": "Refinement", "rate": "Rate", "experiment": "Experiment",
}  # fmt: skip


def brief(text: str) -> str:
    """Shorten long fractions, where the text has any.

    A text by others may look like a fraction and be none.
    """
    try:
        return numbers.brief(text)
    except ArithmeticError:
        return text


def badge(unit: UnitFinished) -> Element:
    """Write the verdict, as a sign, a word and a color."""
    sign = tag("span", SIGNS[unit.outcome], aria_hidden="true")
    return tag("span", sign, f" {unit.verdict}", class_=f"badge {unit.outcome}")


def breakable(name: str) -> Iterator[Child]:
    """Yield a name that may be broken between its parts, on a narrow screen."""
    first, *others = re.split(r"(?<=[:/])", name)
    yield first
    for other in others:
        yield tag("wbr")
        yield other


def run_line(run: RunStarted, end: RunFinished | None) -> Element:
    """Write one line about a run; it says so where the run was stopped or cut off."""
    parts = [f"dpverify {run.version} {run.command}", units_of(run.units)]
    if run.alpha:
        parts += [f"seed {run.seed}", f"false alarms of the whole suite ≤ {run.alpha:g}"]
    if run.shard != "1/1":
        parts.append(f"shard {run.shard}")
    if end is not None:
        parts.append(f"{end.seconds:.0f} s")
    stopped = end is None or end.interrupted
    why = f"{end.ending} " if end is not None and end.ending else ""
    note = tag(
        "strong", f" {why}Stopped before its end: what is here is valid, the rest is missing."
    )
    return tag("p", " · ".join(parts), note if stopped else None)


def counts(units: Sequence[UnitFinished]) -> Element:
    """Write how many units had each outcome."""
    tiles = []
    for outcome in Outcome:
        number = sum(unit.outcome is outcome for unit in units)
        sign = tag("span", SIGNS[outcome], aria_hidden="true")
        about = tag("span", sign, f" {outcome}", class_=f"badge {outcome}")
        tiles.append(tag("li", tag("span", str(number), class_="count"), about))
    return tag("ul", *tiles, class_="tiles")


def meanings() -> Element:
    """Explain the verdicts of audits."""
    terms = [part for verdict, meaning in MEANING.items()
             for part in (tag("dt", str(verdict)), tag("dd", f"{meaning}."))]  # fmt: skip
    summary = tag("summary", "What the verdicts of audits mean")
    return tag("details", summary, tag("dl", *terms, class_="meanings"))


def verdict_table(units: Sequence[UnitFinished], anchors: Mapping[str, str]) -> Element:
    """List every unit with its verdict; those with a section link to it."""
    names = (("Verdict", ""), ("Unit", ""), ("Kind", "wide"), ("Seconds", "wide number"))
    head = tag("tr", *(tag("th", name, scope="col", class_=look or None) for name, look in names))
    rows = [_row(unit, anchors.get(unit.name)) for unit in units]
    caption = tag("caption", "Verdicts")
    body = tag("tbody", *rows)
    return tag("table", caption, tag("thead", head), body, id="verdicts")


def _row(unit: UnitFinished, anchor: str | None) -> Element:
    parts = breakable(unit.name)
    name = tag("a", *parts, href=f"#{anchor}") if anchor else tag("span", *parts)
    said = tag("div", brief(unit.summary), class_="said") if unit.summary else None
    return tag(
        "tr",
        tag("td", badge(unit)),
        tag("th", name, said, scope="row"),
        tag("td", _kind(unit), class_="wide"),
        tag("td", f"{unit.seconds:.1f}", class_="wide number"),
        data_outcome=str(unit.outcome),
    )


def has_section(unit: UnitFinished) -> bool:
    """Return whether there is more to show of a unit than its row.

    That is a figure, a proof, or what went wrong.
    """
    more = {"derivation", "curve", "points", "orders"} & set(unit.data)
    return bool(more) or unit.outcome is not Outcome.HELD


def claim_section(name: str, units: Sequence[UnitFinished], anchor: str) -> Element:
    """Write everything about one claim.

    Facts, figures with their numbers, the derivation, replay lines.
    """
    data = [unit.data for unit in units]
    figures = [figure for one in data for figure in figures_of(one)]
    drawn = [_figure(figure, f"{anchor}f{i}") for i, figure in enumerate(figures)]
    proof = next((one["derivation"] for one in data if "derivation" in one), None)
    return tag(
        "section",
        tag("h3", *breakable(name), *(part for unit in units for part in (" ", badge(unit)))),
        _claim(data, proof),
        *(part for unit in units for part in _facts(unit)),
        tag("div", *drawn, class_="figures") if drawn else None,
        _numbers([figure.table for figure in figures], anchor) if figures else None,
        _derivation(proof) if isinstance(proof, Mapping) else None,
        *(_replay(unit) for unit in units if unit.replay),
        id=anchor,
        class_="claim",
    )


def _kind(unit: UnitFinished) -> str:
    return _KINDS.get(unit.kind, unit.kind)


def _claim(data: Sequence[Mapping[str, Any]], proof: Any) -> Element | None:
    """Write the claim, once for all units of this name.

    That is what was derived, and the stronger guarantee that was attacked.
    """
    known = [one for one in data if "guarantee" in one]
    tested = dict.fromkeys(f"{one['guarantee']} under {one.get('adjacency', '?')}" for one in known)
    derived = str(proof.get("statement", "")) if isinstance(proof, Mapping) else ""
    terms = [("Claim", derived)] if derived else []
    for text in map(brief, tested):
        if not derived.startswith(text):
            terms.append(("Attacked as" if derived else "Claim", text))
    return _terms(terms) if terms else None


def _terms(given: Iterable[tuple[str, str]]) -> Element:
    rows = (tag("div", tag("dt", term), tag("dd", text)) for term, text in given)
    return tag("dl", *rows, class_="facts")


def _facts(unit: UnitFinished) -> Iterator[Element]:
    """List what was seen of a unit, and the lines that explain it."""
    yield _terms(_said(unit))
    yield from _faults(unit)
    if unit.details:
        lines = tag("pre", "\n".join(brief(line) for line in unit.details))
        about = f"{_kind(unit)}: details"
        unfolded = unit.outcome is not Outcome.HELD
        yield tag("details", tag("summary", about), lines, open=unfolded)


def _said(unit: UnitFinished) -> Iterator[tuple[str, str]]:
    data = unit.data
    yield _kind(unit), brief(unit.summary)
    strongest = data.get("strongest")
    if isinstance(strongest, Mapping) and "pair" in strongest:
        yield "Strongest on", f"{strongest['pair']}, {strongest.get('direction', '')}"
    if "alpha" in data:
        drawn = f"; {data['draws']:,} draws" if isinstance(data.get("draws"), int) else ""
        yield "False alarm", f"probability at most {digits(data['alpha'])}{drawn}"
    if "instance" in data:
        setting = data.get("setting")
        named = setting.items() if isinstance(setting, Mapping) else ()
        parts = [str(data["instance"]), *(f"{name} = {value}" for name, value in named)]
        yield "Measured on", "; ".join(parts)


def _faults(unit: UnitFinished) -> Iterator[Element]:
    """Write the planted faults, folded where all were caught."""
    given = unit.data.get("faults")
    planted = [one for one in given if isinstance(one, Mapping)] if isinstance(given, list) else []
    if planted:
        caught = sum(bool(one.get("caught")) for one in planted)
        summary = tag("summary", f"Planted faults: {caught} of {len(planted)} caught")
        lines = (tag("li", _fault(one)) for one in planted)
        yield tag("details", summary, tag("ul", *lines), open=caught < len(planted))


def _fault(fault: Mapping[str, Any]) -> str:
    name = str(fault.get("name", fault.get("order", "fault")))
    how = fault.get("by")
    return f"{name}: {'caught' if fault.get('caught') else 'missed'}{f', {how}' if how else ''}"


def _figure(figure: Figure, name: str) -> Element:
    return tag("figure", tag("figcaption", figure.title), draw(figure, name))


def _numbers(tables: Sequence[Table], anchor: str) -> Element:
    shown: list[Child] = [_table(table, f"{anchor}n{i}") for i, table in enumerate(tables)]
    summary = tag("summary", "The numbers of these figures")
    return tag("details", summary, *shown, class_="numbers")


def _table(table: Table, name: str) -> Element:
    """Write a table that scrolls by itself where it is too wide; by keyboard, too."""
    head = tag("tr", *(tag("th", cell, scope="col") for cell in table.header))
    rows = (tag("tr", *(tag("td", cell) for cell in row)) for row in table.rows)
    caption = tag("caption", table.caption, id=name)
    parts = caption, tag("thead", head), tag("tbody", *rows)
    made = tag("table", *parts, class_=f"t{table.texts}")
    return tag("div", made, class_="scroll", role="group", aria_labelledby=name, tabindex="0")


def _derivation(proof: Mapping[str, Any]) -> Element:
    size = _size(proof)
    steps = f"{size} step{'s' * (size != 1)}"
    return tag(
        "details", tag("summary", f"Derivation, {steps}"), tag("ul", _node(proof), class_="tree")
    )


_DEEPEST = 80  # depth to which proofs are shown, several times that of any shipped one


def _premises(proof: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    given = proof.get("premises")
    return [one for one in given if isinstance(one, Mapping)] if isinstance(given, list) else []


def _size(proof: Mapping[str, Any]) -> int:
    """Return the number of nodes, which may be nested deeper than calls may be."""
    left, size = [proof], 0
    while left:
        size, premises = size + 1, _premises(left.pop())
        left += premises
    return size


def _node(proof: Mapping[str, Any], depth: int = 1) -> Element:
    """Write a statement with the rule that gave it; its premises fold away under it."""
    said = str(proof.get("statement", "?"))
    rule = tag("span", f"by {brief(str(proof.get('rule', '?')))}", class_="rule")
    premises = [_node(one, depth + 1) for one in _premises(proof)] if depth < _DEEPEST else []
    if not premises:
        return tag("li", said, " ", rule)
    summary = tag("summary", said, " ", rule)
    return tag("li", tag("details", summary, tag("ul", *premises), open=True))


def _replay(unit: UnitFinished) -> Element:
    return tag(
        "p", f"Replay the {_kind(unit).lower()}: ", tag("code", unit.replay), class_="replay"
    )
