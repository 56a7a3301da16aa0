"""Merged results of several runs, shards of one run or not, as those of one run.

Runs are merged only if their command, seed, sizes, code and suite are the same. Then each unit
has the same result wherever it was done; this is checked for units that several runs did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dpverify.suite.engines import Unfinished
from dpverify.suite.events import Outcome, RunStarted, UnitFinished
from dpverify.suite.stored import NotEvents, Stored, read

_SAME = ("command", "version", "seed", "alpha", "asked", "code")
_NAMED = 5


class NotOneRun(NotEvents):
    """Refusal of files of runs with different requests; the message names the difference."""


@dataclass(frozen=True, slots=True)
class Merged:
    """Merged run: its first event, and the results by kind and name."""

    started: RunStarted
    units: Mapping[str, UnitFinished]

    @property
    def missing(self) -> list[str]:
        """Units that were planned and that no file has, by kind and name."""
        return [name for name in self.started.planned if name not in self.units]

    def results(self) -> Iterator[UnitFinished]:
        """Yield what was planned, in that order. Raises Unfinished at the end if something is
        missing.
        """
        for name in self.started.planned:
            if name in self.units:
                yield self.units[name]
        if self.missing:
            named = ", ".join(self.missing[:_NAMED])
            more = f" and {len(self.missing) - _NAMED} more" if len(self.missing) > _NAMED else ""
            raise Unfinished(
                f"{len(self.missing)} of {len(self.started.planned)} units are in none of the "
                f"files ({named}{more})"
            )


def merge(paths: Sequence[Path]) -> Merged:
    """Read files of events. Raises NotEvents for other files, and NotOneRun where they do not
    fit together.
    """
    files = [read(path) for path in paths]
    first = _first(files)
    planned = dict.fromkeys(name for file in files for one in file.started for name in one.planned)
    begun = replace(first, units=len(planned), planned=tuple(planned), shard="1/1", expected={})
    return Merged(begun, _by_name(files))


def _first(files: Sequence[Stored]) -> RunStarted:
    """Return the beginning of the first run, after comparing it with all others."""
    begun = [(file.path, one) for file in files for one in file.started]
    for file in files:
        if not file.started:
            raise NotEvents(
                f"{file.path} has no beginning of a run; give a file that --jsonl wrote."
            )
    path, first = begun[0]
    for other_path, other in begun:
        if not other.code:
            raise NotOneRun(f"{other_path} does not say what was planned; run that again.")
        for name in _SAME:
            mine, theirs = getattr(first, name), getattr(other, name)
            if mine != theirs:
                raise NotOneRun(
                    f"{path} and {other_path} are not of one run: {_different(name, mine, theirs)}"
                )
    return first


def _different(name: str, mine: object, theirs: object) -> str:
    if name == "code":
        return "their code or their suite is not the same; run all shards with the same."
    return f"{name} is {mine} in the one and {theirs} in the other."


def _by_name(files: Iterable[Stored]) -> dict[str, UnitFinished]:
    """Return each unit once; a valid result goes before an invalid one. Units that are judged
    from parts are left out.
    """
    units: dict[str, UnitFinished] = {}
    for file in files:
        names = {name for one in file.started for name in one.planned}
        for unit in file.units:
            name = f"{unit.kind} {unit.name}"
            if name not in names:
                continue
            known = units.get(name)
            if known is None or known.outcome is Outcome.INVALID:
                units[name] = unit
            elif unit.outcome is not Outcome.INVALID and _result(unit) != _result(known):
                raise NotOneRun(
                    f"{file.path}: another file has another result of {name}; one of them was not "
                    "computed by this code. Run that unit again."
                )
    return units


def _result(unit: UnitFinished) -> UnitFinished:
    """Return the part of a result that does not depend on where and when the unit was done."""
    return replace(unit, seconds=0.0, replay="")
