"""Histograms and trees of OpenDP and diffprivlib, in an environment of their own.

Reads a task from standard input as JSON: runs, and questions, each with its budget (epsilon, or
rho of zCDP), adjacency, number of bins, and each record's bin. Writes for each question and each
method the counts that it gives, for all runs. Imports nothing of this project.

OpenDP: counts by categories, with its Laplace or Gaussian noise calibrated by its binary search;
for ranges its b-ary tree over these counts, made consistent, with the branching that it
recommends for so many bins and with 2, 4, 8 and 16. A replaced record is two steps of its
symmetric distance. diffprivlib: ``tools.histogram`` and ``histogram2d``, for add-remove alone,
for which their noise suffices.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

Answer = Callable[[], list[float]]


def opendp(asked: dict[str, Any], branching: int | None) -> Answer:
    """Return a function that answers a question once: counts, or those of the consistent tree."""
    dp: Any = import_module("opendp.prelude")
    numpy: Any = import_module("numpy")
    dp.enable_features("contrib")
    laplace, bins = asked["noise"] == "laplace", asked["bins"]
    records = numpy.array(asked["places"], dtype=numpy.int32)
    distance = dp.L1Distance[int] if laplace else dp.L2Distance[int]
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()

    def last(scale: float) -> Any:
        made = dp.t.then_count_by_categories(list(range(bins)), False, MO=distance)
        if branching is not None:
            made = made >> dp.t.then_b_ary_tree(bins, branching)
        return made >> (dp.m.then_laplace(scale) if laplace else dp.m.then_gaussian(scale))

    steps = 1 + (asked["adjacency"] == "replace")
    chain = dp.binary_search_chain(lambda scale: space >> last(scale), steps, asked["budget"])
    if branching is None:
        return lambda: list(map(float, chain(records)))
    consistent = dp.t.make_consistent_b_ary_tree(branching)
    return lambda: list(consistent(chain(records)))[:bins]


def diffprivlib(asked: dict[str, Any]) -> Answer:
    """Return a function that answers a question once, of one column or of two."""
    sys.modules.setdefault("diffprivlib.models", ModuleType("models"))
    tools: Any = import_module("diffprivlib.tools")
    numpy: Any = import_module("numpy")
    places, epsilon = numpy.array(asked["places"]), asked["budget"]
    shape = asked["shape"]
    edges = [numpy.arange(bins + 1) - 0.5 for bins in shape]
    if len(shape) == 1:
        return lambda: tools.histogram(places, epsilon=epsilon, bins=edges[0])[0].tolist()
    first, second = numpy.divmod(places, shape[1])
    return lambda: tools.histogram2d(first, second, epsilon=epsilon, bins=edges)[0].ravel().tolist()


def methods(asked: dict[str, Any]) -> Iterator[tuple[str, Answer]]:
    """Give the methods that answer a question, by name."""
    dp: Any = import_module("opendp.prelude")
    dp.enable_features("contrib")
    yield "OpenDP counts", opendp(asked, None)
    if asked["ranges"]:
        recommended = dp.t.choose_branching_factor(asked["bins"])
        yield "OpenDP tree, as recommended", opendp(asked, recommended)
        for branching in (2, 4, 8, 16):
            yield f"OpenDP tree of {branching}", opendp(asked, branching)
    if asked["noise"] == "laplace" and asked["adjacency"] != "replace":
        yield "diffprivlib", diffprivlib(asked)


def answers(task: dict[str, Any]) -> Iterator[dict[str, list[Any]]]:
    """Ask every question of every method, as often as the task says."""
    for asked in task["questions"]:
        yield {name: [one() for _ in range(task["runs"])] for name, one in methods(asked)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    json.dump(list(answers(json.load(sys.stdin))), sys.stdout)
