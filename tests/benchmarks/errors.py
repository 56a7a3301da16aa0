"""Shared parts of the benchmarks of means: kept points, methods that may be missing, medians."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

import dpverify
from dpverify import Abstained, SeededBits

Floats = NDArray[np.float64]
Values = dict[str, str | int | float]
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Method:
    """A class of dpverify.mechanisms by name, which this checkout may lack, with parameters."""

    name: str
    module: str
    parameters: dict[str, Any]

    @property
    def kind(self) -> Any:
        """The class; None where there is no such module."""
        try:
            module = importlib.import_module(f"dpverify.mechanisms.{self.module}")
        except ModuleNotFoundError:
            return None
        return getattr(module, "".join(part.title() for part in self.module.split("_")))

    @cached_property
    def mechanism(self) -> Any:
        """Build the mechanism by for_budget; None where no noise meets the budget."""
        given = dict(self.parameters)
        try:
            return self.kind.for_budget(given.pop("budget"), **given)
        except ValueError as refused:
            print(f"{self.name}: {refused}", file=sys.stderr)
            return None

    def error(self, data: Floats, truth: Floats, seed: int) -> float:
        """Return the L2 error of one release; infinite where it abstains or no noise meets the
        budget."""
        if self.mechanism is None:
            return math.inf
        estimate = self.mechanism.release(data, SeededBits(seed))
        return math.inf if isinstance(estimate, Abstained) else distance(estimate.value, truth)


def distance(value: Floats, truth: Floats) -> float:
    """Return the Euclidean distance."""
    return float(np.linalg.norm(value - truth))


def seed_of(*parts: object) -> int:
    """Return a seed that is the same for the same words in every process."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big")


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return (lower end, median, upper end) by order statistics.

    They hold the median of any law with probability 95% or more; the ends are 0 and infinity
    where there are fewer than 6 values.
    """
    ordered, n = sorted(values), len(values)
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    rank = int(binom.ppf((1 - CONFIDENCE) / 2, n, 0.5))  # P(fewer than rank are below) <= 2.5%
    if rank == 0 or n < 6:
        return 0.0, middle, math.inf
    return ordered[rank - 1], middle, ordered[n - rank]


def shown(values: Sequence[float]) -> str:
    """Format the median, its interval in brackets, and the number of runs."""
    if not values:
        return "not measured"
    low, middle, high = interval(values)
    if math.isinf(middle):
        return f"abstains /{len(values)}"
    return f"{digits(middle)} [{digits(low)}, {digits(high)}] /{len(values)}"


def digits(x: float) -> str:
    """Format with three digits."""
    if x == 0 or math.isinf(x):
        return "-"
    return f"{x:.3g}" if x >= 1e-3 else f"{x:.2g}"


@dataclass
class Points:
    """Results in a file of JSON lines, so that a run that was stopped goes on.

    Points of the same key and the same code count as done; with ``keep``, points of any code.
    """

    path: Path
    keep: bool = False
    points: dict[str, Values] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                point = json.loads(line)
                self.points[self._key(point["key"])] = point

    def get(self, make: Callable[[], float], **key: str | int) -> float:
        """Return the value at a key: known, or computed now and written down."""
        known = self.points.get(self._key(key))
        if known is None or not (self.keep or known["code"] == code()):
            known = {"key": key, "value": make(), "code": code()}  # type: ignore[dict-item]
            self.points[self._key(key)] = known
            with self.path.open("a") as file:
                file.write(json.dumps(known) + "\n")
        return float(known["value"])

    def values(self, **key: str | int) -> list[float]:
        """Return the values of all points whose keys contain this key."""
        wanted = key.items()
        return [
            float(point["value"])
            for point in self.points.values()
            if wanted <= point["key"].items()  # type: ignore[union-attr]
        ]

    def codes(self) -> dict[str, int]:
        """Count the points by the code that made them."""
        counts: dict[str, int] = {}
        for point in self.points.values():
            counts[str(point["code"])] = counts.get(str(point["code"]), 0) + 1
        return counts

    def _key(self, key: Any) -> str:
        return json.dumps(key, sort_keys=True)


def code() -> str:
    """Return text that tells one state of all that releases run from another: all files of
    dpverify but its judges."""
    global _CODE
    if not _CODE:
        root, digest = Path(dpverify.__file__).parent, hashlib.sha256()
        for folder in (
            "privacy",
            "randomness",
            "grid",
            "plans",
            "transformations",
            "estimation",
            "mechanisms",
        ):
            for path in sorted((root / folder).rglob("*.py")):
                digest.update(path.read_bytes())
        _CODE = digest.hexdigest()[:16]
    return _CODE


_CODE = ""


@contextmanager
def degrees_once() -> Iterator[None]:
    """Compute neighbor counts once for equal images and radii; for errors, never for times."""
    try:
        module = importlib.import_module("dpverify.grid.nearness")
    except ModuleNotFoundError:
        yield
        return
    true, known = module.degrees, {}

    def remembered(rows: Any, radius: int, progress: Any = None) -> Any:
        key = hashlib.blake2b(np.ascontiguousarray(rows).data).hexdigest(), radius
        if key not in known:
            known[key] = true(rows, radius, progress)
        return known[key]

    with mock.patch.object(module, "degrees", remembered):
        yield
