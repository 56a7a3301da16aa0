"""Comparison of two runs, unit by unit: what got worse, and whether by more than is allowed.

Claims are compared at points (epsilon, delta) of the old claim: the new claim's epsilon at that
delta, and its delta at that epsilon, on the safe side. So claims of different kinds can be
compared, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from dpverify.privacy import ApproxDP, Guarantee, PureDP, parse_guarantee, points_of
from dpverify.privacy.numbers import brief
from dpverify.suite.events import Event, Outcome, RunFinished, RunStarted, UnitFinished
from dpverify.suite.judges import AUDITS
from dpverify.suite.reporting import PART

Number = Fraction | float
_RANK = (Outcome.HELD, Outcome.POWERLESS, Outcome.INVALID, Outcome.REFUTED)
DEFAULT_LIMITS = {"epsilon": Fraction(0), "delta": Fraction(0)}
"""Default limits for claims: any claim that promises less fails."""


class Mark(Enum):
    """Words of the table about a unit."""

    FAIL = "FAIL"
    WORSE = "worse"
    BETTER = "better"
    NEW = "new"
    NOTE = "note"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table: a unit, the compared quantity, both values, and the result."""

    mark: Mark
    unit: str
    what: str
    old: str
    new: str
    said: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """Texts of the line, one for each column."""
        return (str(self.mark), self.unit, self.what, self.old, self.new, self.said)


def compared(
    old: Sequence[Event], new: Sequence[Event], limits: Mapping[str, Fraction]
) -> list[Line]:
    """List every difference between two runs.

    limits: for each of METRICS the share of its old value by which it may grow. A worse
    verdict, a missing unit and a result that cannot be compared always fail. Raises ValueError
    if a run has a unit twice, or if no unit of the old run is in the new one.
    """
    before, after = (_units(events, which) for events, which in ((old, "OLD"), (new, "NEW")))
    if not before or before.keys().isdisjoint(after):
        raise ValueError(
            f"OLD has {len(before)} finished units and NEW {len(after)}, and none of OLD's is in "
            "NEW: there is nothing to compare. Give two runs of one command and one suite."
        )
    lines = [*_notes(old, new)]
    for key in dict.fromkeys((*before, *after)):
        if key not in after:
            held = before[key].verdict
            lines.append(Line(Mark.FAIL, _name(before[key]), "unit", held, "-", "gone"))
        elif key not in before:
            lines.append(Line(Mark.NEW, _name(after[key]), "unit", "-", after[key].verdict))
        else:
            lines += _differences(before[key], after[key], limits)
    return lines


def _units(events: Iterable[Event], which: str) -> dict[tuple[str, str], UnitFinished]:
    units = dict[tuple[str, str], UnitFinished]()
    for event in events:
        if isinstance(event, UnitFinished) and event.kind != PART:
            if (event.kind, event.name) in units:
                raise ValueError(f"{which} has two results of {_name(event)}; give one run a file.")
            units[event.kind, event.name] = event
    return units


def _name(unit: UnitFinished) -> str:
    return f"{unit.kind} {unit.name}"


def _notes(old: Sequence[Event], new: Sequence[Event]) -> Iterator[Line]:
    """Yield the differences between the runs as wholes, and whether one was stopped."""
    starts = [[e for e in events if isinstance(e, RunStarted)] for events in (old, new)]
    if all(starts):
        for what in ("command", "version", "seed"):
            a, b = (str(getattr(start[0], what)) for start in starts)
            if a != b:
                yield Line(Mark.NOTE, "the run", what, a, b)
    for which, events in (("OLD", old), ("NEW", new)):
        ends = [event for event in events if isinstance(event, RunFinished)]
        if not ends or any(end.interrupted for end in ends):
            yield Line(Mark.NOTE, "the run", "end", "", "", f"{which} was stopped before its end")


def _differences(
    old: UnitFinished, new: UnitFinished, limits: Mapping[str, Fraction]
) -> Iterator[Line]:
    name = _name(new)
    if old.verdict != new.verdict or old.outcome is not new.outcome:
        ranks = _RANK.index(old.outcome), _RANK.index(new.outcome)
        mark = (
            Mark.FAIL if ranks[1] > ranks[0] else Mark.BETTER if ranks[1] < ranks[0] else Mark.NOTE
        )
        yield Line(mark, name, "verdict", old.verdict, new.verdict)
    for what in ("adjacency", "trials", "bound"):
        a, b = (str(unit.data.get(what, "-")) for unit in (old, new))
        if a != b:
            yield Line(Mark.FAIL if what == "adjacency" else Mark.NOTE, name, what, a, b)
    yield from _lost_faults(old, new)
    try:
        yield from _measured(old, new, limits)
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        yield Line(Mark.FAIL, name, "result", "", "", f"cannot be compared: {error}")


def _measured(
    old: UnitFinished, new: UnitFinished, limits: Mapping[str, Fraction]
) -> Iterator[Line]:
    """Yield what is worse or better in the claims, and in the measurements."""
    name = _name(new)
    if (claims := _claims(old, new)) is not None:
        yield _implied(name, *claims, exactly=limits.get("epsilon") == 0)
        for metric, pairs in (("epsilon", _epsilons(*claims)), ("delta", _deltas(*claims))):
            yield from _grown(name, metric, pairs, limits.get(metric))
    for metric, measure in _MEASURES.items():
        if metric in limits:  # metrics that vary from run to run are compared on request only
            yield from _grown(name, metric, measure(old, new), limits[metric])


def _implied(name: str, old: Guarantee, new: Guarantee, *, exactly: bool) -> Line:
    """Return whether the new claim promises all that the old one did.

    exactly: a claim that promises anything less fails.
    """
    texts = brief(str(old)), brief(str(new))
    if new.implies(old):
        return Line(Mark.BETTER, name, "claim", *texts, "promises no less")
    return Line(
        Mark.FAIL if exactly else Mark.WORSE, name, "claim", *texts, "promises less somewhere"
    )


def _lost_faults(old: UnitFinished, new: UnitFinished) -> Iterator[Line]:
    planted = [
        {str(fault["name"]) for fault in unit.data.get("faults", ()) if "name" in fault}
        for unit in (old, new)
    ]
    if lost := sorted(planted[0] - planted[1]):
        had, has = (str(len(names)) for names in planted)
        said = f"not planted: {', '.join(lost)}"
        yield Line(Mark.NOTE, _name(new), "faults", had, has, said)


def _grown(
    name: str, metric: str, pairs: Sequence[tuple[Number, Number]], limit: Fraction | None
) -> Iterator[Line]:
    """Yield a line if a value changed: for the one of these pairs that grew by the largest
    share.
    """
    known = [pair for pair in pairs if any(value == value for value in pair)]
    if any(old != old or new != new for old, new in known):
        raise ValueError(f"its {metric} is not a number in one of the runs")
    if not known:
        return
    old, new = max(known, key=lambda pair: _share(*pair))
    share = _share(old, new)
    if not share:
        return
    said = f"{float(share):+.1%}" if share < math.inf else "infinitely more"
    mark = Mark.WORSE if share > 0 else Mark.BETTER
    if limit is not None and share > limit:
        mark, said = Mark.FAIL, f"{said}; {float(100 * limit):g}% allowed"
    yield Line(mark, name, metric, _shown(old), _shown(new), said)


def _share(old: Number, new: Number) -> Number:
    """Return the share of the old value by which the new one is larger; infinite where the old
    value was 0.
    """
    if old == new:
        return 0
    if old == math.inf:
        return -1
    return math.inf if new == math.inf or not old else new / old - 1


def _shown(value: Number) -> str:
    return f"{float(value):.6g}"


# --- what is measured -----------------------------------------------------------------------------


Pairs = list[tuple[Number, Number]]


def _claims(old: UnitFinished, new: UnitFinished) -> tuple[Guarantee, Guarantee] | None:
    """Read both claims; None where there are none, or the same. Raises ValueError otherwise."""
    named = "claim" if old.kind == new.kind == "calibration" else "guarantee"
    texts = [unit.data.get(named) for unit in (old, new)]
    if texts[0] is None or texts[0] == texts[1]:
        return None
    a, b = (parse_guarantee(str(text)) for text in texts)
    return a, b


def _epsilons(old: Guarantee, new: Guarantee) -> Pairs:
    """Pair the claims' epsilons, at deltas of the old one."""
    return [(epsilon, _epsilon_at(new, delta)) for epsilon, delta in points_of(old)]


def _epsilon_at(claim: Guarantee, delta: Fraction) -> Number:
    """Find an epsilon of the claim at this delta.

    An epsilon that is written in the claim is returned as written; a search would end slightly
    above it.
    """
    if isinstance(claim, (PureDP, ApproxDP)) and claim.delta == delta:
        return claim.epsilon
    try:
        return claim.epsilon_at(delta).upper
    except ValueError:  # the claim's delta stays above this one
        return math.inf


def _deltas(old: Guarantee, new: Guarantee) -> Pairs:
    """Pair the claims' deltas, at epsilons of the old one."""
    return [(delta, new.delta_at(epsilon).upper) for epsilon, delta in points_of(old)]


def _certified(old: UnitFinished, new: UnitFinished) -> Pairs:
    """Pair the certified lower bounds: on epsilon, or on mu for a claim with a whole profile."""
    if old.kind not in AUDITS:
        return []
    text = str(old.data["guarantee"])
    what = "epsilon" if text.startswith(("pure", "approx", "perfect")) else "mu"
    return [(float(old.data[what]), float(new.data[what]))]


def _errors(old: UnitFinished, new: UnitFinished) -> Pairs:
    """Pair the errors of a rate, at each value that was measured in both runs."""
    before, after = (
        {float(point["value"]): float(point["measured"]) for point in unit.data.get("points", ())}
        for unit in (old, new)
    )
    return [(before[value], after[value]) for value in before if value in after]


def _seconds(old: UnitFinished, new: UnitFinished) -> Pairs:
    return [(float(old.seconds), float(new.seconds))]


_MEASURES: dict[str, Callable[[UnitFinished, UnitFinished], Pairs]] = {
    "certified": _certified,
    "error": _errors,
    "seconds": _seconds,
}
METRICS = (*DEFAULT_LIMITS, *_MEASURES)
"""Quantities whose growth by a share may be limited; smaller is better for all of them."""
