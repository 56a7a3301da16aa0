"""Answers of OpenDP and diffprivlib to ``first_day``, in an environment of their own.

Reads a task from standard input as JSON: epsilon, runs, and questions, each with its kind,
adjacency, bounds and records. Writes a list for each question: of each peer that answers it under
that adjacency, the answers of all runs. Imports nothing of this project.

OpenDP: chains of its vector transformations, calibrated by its binary search. Of a mean where the
number of records is private, a sum and a count with half of epsilon each; where it is public, its
mean of a sized vector, for two steps of its symmetric distance. Quantiles: its exponential
mechanism over 2001 candidates, evenly from bound to bound. diffprivlib: ``tools``, each asked only
under an adjacency for which its noise suffices: its mean takes the number of records as public, its
histogram's noise is for a removal.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

CANDIDATES = 2001
Answer = Callable[[], Any]


def opendp(asked: dict[str, Any], epsilon: float) -> Answer:
    """Return a function that answers a question once."""
    dp: Any = import_module("opendp.prelude")
    dp.enable_features("contrib", "floating-point")
    kind, steps = asked["kind"], 1 + (asked["adjacency"] == "replace")
    low, high = asked["bounds"]
    numpy: Any = import_module("numpy")
    real = kind in ("mean", "quantile")
    records = numpy.array(asked["records"], dtype=numpy.float64 if real else numpy.int32)

    def chain(last: Callable[[float], Any], size: int | None = None, share: float = 1.0) -> Any:
        of = dp.atom_domain(T=float, nan=False) if real else dp.atom_domain(T=int)
        domain = dp.vector_domain(of, size=size)
        space = domain, dp.symmetric_distance()
        return dp.binary_search_chain(lambda scale: space >> last(scale), steps, epsilon * share)

    if kind == "mean" and steps == 2:
        sized = chain(
            lambda s: dp.t.then_clamp((low, high)) >> dp.t.then_mean() >> dp.m.then_laplace(s),
            len(records),
        )
        return lambda: sized(records)
    if kind == "mean":
        total = chain(
            lambda s: dp.t.then_clamp((low, high)) >> dp.t.then_sum() >> dp.m.then_laplace(s),
            share=0.5,
        )
        number = chain(lambda s: dp.t.then_count() >> dp.m.then_laplace(s), share=0.5)
        return lambda: min(max(total(records) / max(1, number(records)), low), high)
    if kind == "count":
        steps = 1  # a replaced record changes a sum of zeros and ones by one, as a removed one does
        flagged = chain(
            lambda s: dp.t.then_clamp((0, 1)) >> dp.t.then_sum() >> dp.m.then_laplace(s)
        )
        return lambda: flagged(records)
    if kind == "quantile":
        step = (high - low) / (CANDIDATES - 1)
        grid = [low + i * step for i in range(CANDIDATES)]
        chosen = chain(
            lambda s: dp.m.then_private_quantile(dp.max_divergence(), grid, asked["at"], s)
        )
        return lambda: chosen(records)
    bins = list(range(asked["bins"]))
    listed = chain(lambda s: dp.t.then_count_by_categories(bins, False) >> dp.m.then_laplace(s))
    return lambda: listed(records)


def diffprivlib(asked: dict[str, Any], epsilon: float) -> Answer | None:
    """Return a function that answers a question once; None where its noise is for the other
    adjacency."""
    sys.modules.setdefault(
        "diffprivlib.models", ModuleType("models")
    )  # do not load with new scikit-learn
    tools: Any = import_module("diffprivlib.tools")
    numpy: Any = import_module("numpy")
    records, bounds = numpy.array(asked["records"]), tuple(asked["bounds"])
    kind, replaced = asked["kind"], asked["adjacency"] == "replace"
    if kind == "mean" and replaced:
        return lambda: float(tools.mean(records, epsilon=epsilon, bounds=bounds))
    if kind == "count":
        return lambda: int(tools.count_nonzero(records, epsilon=epsilon))
    if kind == "quantile":
        return lambda: float(tools.quantile(records, asked["at"], epsilon=epsilon, bounds=bounds))
    if kind == "histogram" and not replaced:
        edges = numpy.arange(asked["bins"] + 1) - 0.5
        return lambda: tools.histogram(records, epsilon=epsilon, bins=edges)[0].tolist()
    return None


def answers(task: dict[str, Any]) -> Iterator[dict[str, list[Any]]]:
    """Ask every question of both, as often as the task says."""
    for asked in task["questions"]:
        made = {"OpenDP": opendp(asked, task["epsilon"])}
        other = diffprivlib(asked, task["epsilon"])
        made |= {"diffprivlib": other} if other is not None else {}
        yield {name: [one() for _ in range(task["runs"])] for name, one in made.items()}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    json.dump(list(answers(json.load(sys.stdin))), sys.stdout)
