"""Events that reports are made of in tests: of a small audit that is run once, and of everything
that can go wrong."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from dpverify.suite.events import Event, Outcome, RunFinished, RunStarted, UnitFinished
from dpverify.suite.judges import Options, Unit, run_unit
from dpverify.suite.reporting import PART

NASTY = (
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>\"'&\x1b[31m\ud800"
)
"""A name that is markup, with characters that no XML has."""
STARTED = RunStarted("audit", "0.1.0", "suite", 7, 9, 1e-6)
ENDED = RunFinished(1, {"held": 3, "refuted": 1}, 2.5, interrupted=False)
RATE: dict[str, Any] = {
    "variable": "n",
    "metric": "median",
    "instance": "normal records",
    "setting": {"d": "2"},
    "alpha": 1e-8,
    "slope": {"value": -1.01, "low": -1.05, "high": -0.97},
    "exponent": {"value": -1.0, "tolerance": 0.1},
    "points": [
        {"value": n, "measured": 1 / n, "low": 0.9 / n, "high": 1.2 / n, "predicted": 1.05 / n,
         "upper": 3 / n, "lower": 0.3 / n, "ratio": 0.95}
        for n in (100.0, 1000.0, 10_000.0)
    ],
    "faults": [{"name": "a lost factor", "caught": True, "by": "point 2"}],
}  # fmt: skip


@cache
def audited(name: str) -> UnitFinished:
    """Return a unit of ours with 3000 draws: enough to certify something."""
    kind = "exhibit" if name.startswith("exhibits/") else "audit"
    return run_unit(Unit(kind, name), Options(seed=3, trials=3000, audits=100))


def unit(outcome: Outcome, *, name: str = "", kind: str = "audit", **data: Any) -> UnitFinished:
    """Return a unit that ended so, with a line of details."""
    return UnitFinished(
        kind, name or f"{kind}_{outcome}", outcome, str(outcome).upper(), f"summary of {outcome}",
        ("a detail",), f"dpverify {kind} {outcome} --seed 7", 0.25, data,
    )  # fmt: skip


def everything() -> list[Event]:
    """Audits, an exhibit, a rate, one unit of each outcome, one that is markup, one of another
    version."""
    return [
        STARTED,
        audited("noisy_count:add-remove:all"),
        audited("exhibits/count_silent_when_empty"),
        UnitFinished("rate", "noisy_count:error", Outcome.HELD, "HELD", "error against n",
            data=RATE),
        *(unit(outcome) for outcome in Outcome),
        unit(Outcome.REFUTED, name=NASTY, guarantee=NASTY, adjacency=NASTY, derivation={
            "statement": NASTY, "rule": NASTY, "premises": [{"statement": NASTY}, "no node"]}),
        UnitFinished("surprise", "later.py::test[a]", Outcome.HELD, "HELD", "of a later version",
                     data={"curve": 3, "points": [{}], "profile": "?", "alpha": "?", "faults": 5}),
        unit(Outcome.INVALID, name="a piece", kind=PART),
        ENDED,
    ]  # fmt: skip


def written(path: Path, text: str) -> Path:
    """Return a file with this text."""
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    return path


def places(data: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the keys that lead to each part of nested data."""
    inner = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, (list, tuple))
        else ()
    )
    return [here, *(place for key, part in inner for place in places(part, (*here, key)))]


def spoiled(data: Any, place: tuple[Any, ...], by: Any) -> Any:
    """Return the data with something else in one place."""
    if not place:
        return by
    made = dict(data) if isinstance(data, dict) else list(data)
    made[place[0]] = spoiled(data[place[0]], place[1:], by)
    return made
