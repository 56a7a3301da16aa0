"""Shared parts of the benchmarks: timed calls, other libraries, headers, tables, our own speed."""

from __future__ import annotations

import hashlib
import importlib
import logging
import math
import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import mpmath as mp

from dpverify import privacy
from dpverify.privacy.balls import Enclosure
from dpverify.privacy.guarantees import (
    ApproxDP,
    ApproximateGaussianDP,
    BoundedRange,
    DiscreteLaplaceShift,
    GaussianDP,
    Guarantee,
    PureDP,
    ZeroConcentratedDP,
    calibrate,
)

Value = TypeVar("Value")

_SLOW = 0.1
"""Seconds from which a call is timed once."""
_REPEATS = 5


def timed(call: Callable[..., Value], *arguments: object) -> tuple[Value, float]:
    """Return the result, and one call's seconds of processor time: the median of five, or one if
    slow."""
    seconds = []
    for _ in range(_REPEATS):
        start = time.process_time()
        result = call(*arguments)
        seconds.append(time.process_time() - start)
        if seconds[0] > _SLOW:
            break
    return result, statistics.median(seconds)


def clocked(call: Callable[..., Value], *arguments: object) -> tuple[Value, float, float]:
    """Return the result of one call, its wall-clock seconds, and its seconds of processor time."""
    wall, processor = time.perf_counter(), time.process_time()
    result = call(*arguments)
    return result, time.perf_counter() - wall, time.process_time() - processor


def cold() -> None:
    """Clear everything that earlier calls have left in the kernel's caches."""
    for name, module in list(sys.modules.items()):
        if name.startswith("dpverify.privacy."):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def peer(package: str, module: str) -> Any:
    """Import a library that is compared with; without it return None and print a line."""
    try:
        return importlib.import_module(module)
    except ImportError:
        print(f"MISSING PEER: {package} is not installed; its rows are left out.")
        return None


def quiet() -> None:
    """Silence the warnings of other libraries: their results are judged."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")


def header(title: str, command: str, times: str = "") -> None:
    """Describe the run, the machine, and how far the times can be trusted.

    times: how often a call was timed, where it is not as ``timed`` does it.
    """
    print(f"# {title}")
    print(f"# command: {command}")
    print(f"# date (UTC): {time.strftime('%Y-%m-%d %H:%M', time.gmtime())}")
    print(f"# Python {platform.python_version()}; {versions()}")
    print(f"# dpverify/privacy as it was: sha256 of its files {fingerprint()}")
    print(
        f"# {os.cpu_count()} cores, with other jobs on them (load {os.getloadavg()[0]:.1f} at "
        f"the start),"
    )
    print(
        "# so calls are timed in PROCESSOR time; where a wall time is given, it is for the record."
    )
    usual = f"Fast calls: the median of {_REPEATS}; calls above {_SLOW:g} s: one measurement."
    print(f"# {times or usual}")


def fingerprint() -> str:
    """Return text that tells one state of the kernel from another, committed or not."""
    digest = hashlib.sha256()
    for path in sorted(Path(privacy.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def versions() -> str:
    """Return the versions of every package that affects the numbers."""
    names = ("dpverify", "python-flint", "mpmath", "numpy", "scipy", "dp-accounting", "opendp")
    packages = []
    for name in names:
        try:
            packages.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            packages.append(f"{name} not installed")
    return ", ".join(packages)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Format columns as wide as they need to be; the first to the left, the others to the right."""
    lines = [list(columns), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for number, line in enumerate(lines):
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        print("  ".join(cells).rstrip())
        if not number:
            print("  ".join("-" * width for width in widths))


def milliseconds(seconds: float) -> str:
    """Format with three digits."""
    return f"{1000 * seconds:.3g}"


def number(x: Fraction) -> Any:
    """Convert a rational to mpmath's working precision."""
    return mp.mpf(x.numerator) / x.denominator


@dataclass
class Score:
    """One row: a tool's reports on the points, against the truth."""

    label: str
    failed: int = 0
    zero: int = 0
    unsafe: int = 0
    far: int = 0
    false: int = 0
    gap: Any = 0
    error: Any = 0
    worst: str = ""
    seconds: list[float] = field(default_factory=list)

    def unsafe_by(self, error: Any, false: bool, inputs: tuple[float, ...]) -> None:
        """Enter a report on the unsafe side."""
        self.unsafe += 1
        self.far += bool(error > 1e-12)
        self.false += false
        if error > self.error:
            self.error = error
            self.worst = (
                f"  worst unsafe of {self.label}: epsilon, delta, given, reported = {inputs}"
            )

    def row(self) -> list[str]:
        """Return a row's cells."""
        counts = (len(self.seconds), self.failed, self.zero, self.unsafe, self.far, self.false)
        worst = (mp.nstr(mp.mpf(x), 3) for x in (self.gap, self.error))
        times = (statistics.median(self.seconds), max(self.seconds))
        return [self.label, *map(str, counts), *worst, *map(milliseconds, times)]


def _family(name: str, epsilon: Fraction, delta: Fraction) -> Callable[[Fraction], Guarantee]:
    """Return a one-parameter family that can meet the budget; events take half of its delta."""
    if name == "ApproxDP":
        return lambda p: ApproxDP(p, delta / 2)
    if name == "ApproximateGaussianDP, no tv":
        return lambda p: ApproximateGaussianDP(p, delta / 2)
    if name == "ApproximateGaussianDP, tv":
        tv = delta / (1 << (3 + math.ceil(2 * float(epsilon))))
        return lambda p: ApproximateGaussianDP(p, delta / 4, tv)
    if name == "DiscreteLaplaceShift(1)":
        return lambda p: DiscreteLaplaceShift(1, 1 / p)
    if name == "DiscreteLaplaceShift(100)":
        return lambda p: DiscreteLaplaceShift(100, 100 / p)
    families: dict[str, Callable[[Fraction], Guarantee]] = {
        "GaussianDP": GaussianDP,
        "ZeroConcentratedDP": ZeroConcentratedDP,
        "PureDP": PureDP,
        "BoundedRange": BoundedRange,
    }
    return families[name]


_FAMILIES = (
    "GaussianDP",
    "ZeroConcentratedDP",
    "PureDP",
    "ApproxDP",
    "ApproximateGaussianDP, no tv",
    "ApproximateGaussianDP, tv",
    "BoundedRange",
    "DiscreteLaplaceShift(1)",
    "DiscreteLaplaceShift(100)",
)
_SMALL = 1e-40


def speed(grid: Sequence[tuple[float, float]]) -> None:
    """Print our times and the width of our enclosures, family by family, against the targets."""
    print(
        "\nSPEED: ours, in ms of processor time, over the grid; "
        "a time is the median of its repeats at one point"
    )
    print("targets: delta <= 1 down to 1e-40 and <= 10 below; calibration <= 20; gap <= 1e-9")
    print("delta is asked for at the budget's epsilon; for families that end at an epsilon of")
    print("their own, just below that end, where it is small as well: at end * (1 - sqrt(delta))")
    columns = ["family", "delta med", "max", "max < 1e-40", "epsilon med", "max"]
    columns += ["calibration med", "max", "worst gap delta", "epsilon", "misses"]
    table(columns, [_speed_row(name, grid) for name in _FAMILIES])


def _speed_row(name: str, grid: Sequence[tuple[float, float]]) -> list[str]:
    times: dict[str, list[float]] = {"usual": [], "small": [], "epsilon": [], "calibration": []}
    gaps: dict[str, list[Fraction]] = {"delta": [], "epsilon": []}
    for point in grid:
        epsilon, delta = map(Fraction, point)
        family = _family(name, epsilon, delta)
        budget = ApproxDP(epsilon, delta)
        guarantee, seconds = timed(calibrate, family, budget)
        times["calibration"].append(seconds)
        end = getattr(guarantee, "epsilon", None)
        at = epsilon if end is None else end * (1 - Fraction(math.sqrt(point[1])))
        value, seconds = timed(guarantee.delta_at, at)
        times["usual" if point[1] >= _SMALL else "small"].append(seconds)
        gaps["delta"].append(_gap(value))
        value, seconds = timed(guarantee.epsilon_at, delta)
        times["epsilon"].append(seconds)
        gaps["epsilon"].append(_gap(value))
    limits = (("usual", 1e-3), ("small", 1e-2), ("calibration", 2e-2))
    misses = sum(seconds > limit for key, limit in limits for seconds in times[key])
    misses += sum(gap > Fraction(1, 10**9) for gap in gaps["delta"] + gaps["epsilon"])
    row = [name, milliseconds(statistics.median(times["usual"] + times["small"]))]
    row += [milliseconds(max(times[key])) for key in ("usual", "small")]
    for key in ("epsilon", "calibration"):
        row += [milliseconds(statistics.median(times[key])), milliseconds(max(times[key]))]
    return [*row, *(f"{float(max(gaps[key])):.1e}" for key in gaps), str(misses)]


def _gap(enclosure: Enclosure) -> Fraction:
    """Return the width relative to the lower end; 1 when only that end is zero."""
    if enclosure.upper == enclosure.lower:
        return Fraction(0)
    return (enclosure.upper - enclosure.lower) / enclosure.lower if enclosure.lower else Fraction(1)
