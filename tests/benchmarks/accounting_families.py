"""Compositions with families: bounded ranges, zCDP and smooth Laplace noise, one call at a time.

Each call from cold caches: delta at 0, at 1 and at 50, epsilon at 1e-6 and at 1e-12, the
trade-off curve at 0.05 and at 1e-9, and whether (1, 1e-6)-DP follows. Target: no call above a
second of processor time. longest: of the calls, with its name. gap: (upper - lower) / upper of
delta(1) and of epsilon at 1e-6; a family's two ends stay apart, whatever the arithmetic does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from dpverify.privacy import (
    ApproxDP,
    BoundedRange,
    DiscreteLaplaceShift,
    GaussianDP,
    Profile,
    PureDP,
    SmoothLaplace,
    ZeroConcentratedDP,
)
from dpverify.privacy.balls import Enclosure
from tests.benchmarks.timing import clocked, cold, header, table

LONGEST = 1.0
CALLS: dict[str, Callable[[Profile], Any]] = {
    "delta(0)": lambda p: p.delta_at(0),
    "delta(1)": lambda p: p.delta_at(1),
    "delta(50)": lambda p: p.delta_at(50),
    "epsilon(1e-6)": lambda p: p.epsilon_at("1e-6"),
    "epsilon(1e-12)": lambda p: p.epsilon_at("1e-12"),
    "curve(0.05)": lambda p: p.tradeoff_at("0.05"),
    "curve(1e-9)": lambda p: p.tradeoff_at("1e-9"),
    "implies": lambda p: p.implies(ApproxDP(1, "1e-6")),
}


def compositions() -> Iterator[tuple[str, list[Any]]]:
    """List names and parts."""
    ranges, noise, zcdp = BoundedRange, GaussianDP, ZeroConcentratedDP
    yield "range and little noise", [ranges("0.1"), noise("0.03")]
    yield "range and noise", [ranges("0.1"), noise("0.5")]
    yield "range and much noise", [ranges("0.001"), noise(10)]
    yield "wide range, least noise", [ranges(10), noise("0.001")]
    yield "2 ranges", [(ranges("0.1"), 2)]
    yield "20 ranges and pure", [(ranges("0.1"), 20), PureDP("0.3")]
    yield "500 ranges and pure", [(ranges("0.1"), 500), PureDP("0.3")]
    yield "2 ranges and zCDP", [ranges("0.3"), ranges("0.2"), zcdp("0.02")]
    yield "zCDP and pure", [zcdp("0.1"), PureDP("0.3")]
    yield "little zCDP, much pure", [zcdp("0.001"), PureDP(10)]
    yield "much zCDP, little pure", [zcdp(10), PureDP("0.001")]
    yield "zCDP and range", [zcdp(10), ranges(10)]
    yield "zCDP and noise", [zcdp("0.1"), noise("0.3")]
    pure = [PureDP(Fraction(31 + i, 997)) for i in range(30)]
    yield "30 zCDP, 30 pure", [*(zcdp(Fraction(i + 1, 1000)) for i in range(30)), *pure]
    ugly = [PureDP(Fraction(0.03 + 0.00137 * i)) for i in range(30)]
    yield "zCDP, 30 pure of 53 bits", [zcdp("0.1"), *ugly]
    yield "3 ranges, 30 pure of 53 bits", [(ranges("0.1"), 3), *ugly]
    many: list[Any] = [ranges(Fraction(40 + i, 1000)) for i in range(30)]
    yield "30 ranges, 5 pure, zCDP, noise", [*many, *pure[:5], zcdp("0.01"), noise("0.2")]
    yield "Laplace shifts and zCDP", [(DiscreteLaplaceShift(3, "7.1"), 5), zcdp("0.05")]
    yield "smooth and noise", [SmoothLaplace("0.3", "1.1"), noise("0.5")]
    yield "10 smooth", [(SmoothLaplace("0.1", "1.01"), 10)]
    yield "smooth, zCDP, range", [SmoothLaplace(1, 2), zcdp("0.05"), ranges("0.4")]
    six = [PureDP("0.2"), DiscreteLaplaceShift(2, 5), noise("0.3"), ranges("0.25"), zcdp("0.02")]
    yield "all six", [*six, SmoothLaplace("0.2", "1.05")]


def _gap(bounds: Enclosure) -> str:
    return f"{float((bounds.upper - bounds.lower) / bounds.upper):.2e}" if bounds.upper else "0"


def line(name: str, parts: list[Any]) -> list[str]:
    """Return a row's cells."""
    profile, seconds, answers = Profile(parts), {}, {}
    for call, ask in CALLS.items():
        cold()
        answers[call], _, seconds[call] = clocked(ask, profile)
    slowest = max(seconds, key=seconds.__getitem__)
    one, inverse = answers["delta(1)"], answers["epsilon(1e-6)"]
    late = "ok" if seconds[slowest] <= LONGEST else "miss"
    ends = [f"{float(x):.6e}" for x in (one.lower, one.upper)]
    ends += [f"{float(x):.6f}" for x in (inverse.lower, inverse.upper)]
    return [name, f"{seconds[slowest]:.2f}", slowest, late, *ends, _gap(one), _gap(inverse)]


def main() -> None:
    """Print the table."""
    header("Compositions with families", "python -m tests.benchmarks.accounting_families")
    print(f"\n{__doc__}")
    columns = "what,longest s,of,,delta(1),upper,epsilon(1e-6),upper,gap delta,gap epsilon"
    table(columns.split(","), [line(*row) for row in compositions()])


if __name__ == "__main__":
    main()
