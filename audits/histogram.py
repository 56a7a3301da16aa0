"""Attacks on ``histogram``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, GaussianDP, Histogram, PureDP
from dpverify.audit import Configuration, Fault, SmallInstance, added, replaced
from dpverify.audit.faults import plan_fault
from dpverify.grid import View
from dpverify.grid.bin_counts import BinCounts
from dpverify.grid.linear import Integers
from dpverify.grid.strategies import Levels
from dpverify.grid.transcripts import NOTHING, Transcripts
from dpverify.plans import Stage
from dpverify.plans.walking import with_stages
from dpverify.rates import Curve, Empirical, Exponent, Instance, RateClaim

_ADD, _REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
_AGES = (0.0, 18.0, 65.0, 120.0)
_EIGHT = tuple(map(float, range(9)))

# --- planted faults -----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _ClosedBins(BinCounts):
    """Bins that hold both of their edges, so that a record on an edge is counted twice: planted."""

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> Integers:
        """Count each record on an inner edge a second time, in the bin below."""
        (edges,) = self.axes
        assert isinstance(edges, tuple)
        counts = BinCounts.evaluate(self, view).copy()
        for place, edge in enumerate(edges[1:-1]):
            counts[place] += int((view.records[:, 0] == edge).sum())
        return counts


def _closed_bins(mechanism: Histogram) -> Fault:
    """Ask for closed bins under the same noise."""

    def change(query: BinCounts) -> BinCounts:
        return _ClosedBins(query.axes, query.strategies, query.norm, query.other)

    return _asking(mechanism, "counts records on an edge twice", change)


def _heavy_ancestor(mechanism: Histogram) -> Fault:
    """Make the sums of the upper level three times as heavy as the sensitivity allows for."""

    def change(query: BinCounts) -> BinCounts:
        (tree,) = query.strategies
        assert isinstance(tree, Levels)
        heavy = Levels(tree.bins, (*tree.weights[:-1], 3 * tree.weights[-1]))
        return dataclasses.replace(query, strategies=(heavy,))

    return _asking(mechanism, "forgets an ancestor's weight", change)


def _asking(mechanism: Histogram, name: str, change: Callable[[BinCounts], BinCounts]) -> Fault:
    """Plant another query under the same noise."""

    def changed(stage: Stage) -> Stage:
        assert isinstance(stage.query, BinCounts)
        return dataclasses.replace(stage, query=change(stage.query))

    return plan_fault(name, mechanism, with_stages(mechanism.fixed_plan, changed))


_BARS = Histogram.for_budget(PureDP(1), adjacency=_ADD, axes=(_AGES,))
_TREE = Histogram.for_budget(
    GaussianDP(1), adjacency=_REPLACE, axes=(_EIGHT,), strategy="tree", noise="gaussian"
)
_DEEP = Histogram.for_budget(
    PureDP(2), adjacency=_ADD, axes=(tuple(map(float, range(44))),), strategy="tree"
)
_BOTH = Histogram.for_budget(
    GaussianDP(1),
    adjacency=_ADD,
    axes=(tuple(map(float, range(5))), 3),
    strategy="circulant",
    noise="gaussian",
)

CONFIGURATIONS = (
    Configuration(
        name="bins",
        mechanism=_BARS,
        pairs=(
            added("nobody against somebody", [], 18.0),
            added("on an edge", [17.0] * 4 + [66.0] * 3, 65.0),
            added("everything shifts by a place", [17.0, 18.0] * 8, 18.0),
        ),
        faults=(_closed_bins(_BARS),),
        quick_trials=60_000,
    ),
    Configuration(
        name="bins-gaussian",
        mechanism=Histogram.for_budget(
            GaussianDP(1), adjacency=_REPLACE, axes=(_AGES,), noise="gaussian"
        ),
        pairs=(
            replaced("from one bin to another", [1.0] * 5, 119.0),
            replaced("by the smallest step", [17.999999999999996] + [1.0] * 4, 18.0),
        ),
        quick_trials=20_000,
    ),
    Configuration(
        name="categories-and-the-rest",
        mechanism=Histogram.for_budget(PureDP(1), adjacency=_REPLACE, axes=(3,), outside="count"),
        pairs=(
            replaced("into no category", [1.0] * 5, 0.5),
            replaced("from one category to another", [1.0] * 5, 2.0),
        ),
        quick_trials=20_000,
    ),
    Configuration(
        name="tree",
        mechanism=_TREE,
        pairs=(
            replaced("under another ancestor", [3.0] * 5, 6.0),
            replaced("to the neighboring bin", [3.0] * 5, 2.0),
        ),
        faults=(_heavy_ancestor(_TREE),),
        quick_trials=20_000,
    ),
    Configuration(
        name="deep-tree",
        mechanism=_DEEP,
        pairs=(
            added("nobody against somebody", [], 32.0),
            added("everything shifts by a place", [3.0, 20.0] * 4, 32.0),
        ),
        quick_trials=20_000,
    ),
    Configuration(
        name="ranges",
        mechanism=Histogram.for_budget(
            GaussianDP(1),
            adjacency=_REPLACE,
            axes=(_EIGHT,),
            strategy="circulant",
            noise="gaussian",
            outside="count",
        ),
        pairs=(
            replaced("half a circle away", [1.0] * 5, 5.0),
            replaced("out of all bins", [1.0] * 5, -1.0),
        ),
        quick_trials=20_000,
    ),
    Configuration(
        name="two-way",
        mechanism=_BOTH,
        pairs=(
            added("somebody against nobody but one", [(1.0, 0.0)], (3.0, 2.0)),
            added("one more in a cell", [(1.0, 0.0)] * 4, (1.0, 0.0)),
        ),
        quick_trials=20_000,
    ),
)


def _small(multiplier: str, adjacency: Adjacency, **how: Any) -> Histogram:
    own: dict[str, Any] = {"axes": (_AGES,), **how}
    return Histogram(adjacency=adjacency, noise_multiplier=Fraction(multiplier), **own)


SMALL = (
    SmallInstance(
        name="two bins, Laplace noise",
        mechanism=_small("1/2", _ADD, axes=((0.0, 1.0, 2.0),)),
        data=(1.0, 0.5, -0.0, 2.0, 7.0),
        max_choices=20,
    ),
    SmallInstance(
        name="one category, and the rest",
        mechanism=_small("1/4", _REPLACE, axes=(1,), outside="count"),
        data=(0.0, 0.5, 1.0),
        max_choices=20,
    ),
    SmallInstance(
        name="three bins, Gaussian noise",
        mechanism=_small("2", _REPLACE, noise="gaussian"),
        data=(18.0, 120.0, 120.00000000000001),
    ),
    SmallInstance(
        name="a tree and categories",
        mechanism=_small("1", _ADD, axes=(_AGES, 2), noise="gaussian", strategy="tree"),
        data=((18.0, 1.0), (70.0, 0.0), (1.0, 0.5)),
        followed=20,
    ),
    SmallInstance(
        name="a circulant, and the rest",
        mechanism=_small("1", _REPLACE, noise="gaussian", strategy="circulant", outside="count"),
        data=(18.0, -1.0, 64.0),
        followed=20,
    ),
)


# --- rates ----------------------------------------------------------------------------------------


def _of_bins(setting: Mapping[str, Any]) -> Histogram:
    edges = tuple(float(x) for x in np.linspace(0.0, 1.0, setting["bins"] + 1))
    gaussian: dict[str, Any] = {"noise": "gaussian", "strategy": setting["strategy"]}
    multiplier = Fraction(setting["noise_multiplier"])
    return Histogram(adjacency=_ADD, noise_multiplier=multiplier, axes=(edges,), **gaussian)


def _counted(mechanism: Histogram, data: Any) -> Any:
    return np.histogram(data[:, 0], mechanism.axes[0])[0]


def _of_all_ranges(estimate: Any, truth: Any) -> float:
    """Return the root mean squared error of all range counts.

    It averages (P_j - P_i)^2 over all i < j, where P are the errors of the cumulative sums.
    """
    below = np.concatenate([[0.0], np.cumsum(estimate.value - truth)])
    pairs = len(below) * float(below @ below) - float(below.sum()) ** 2
    return float(np.sqrt(2 * pairs / (len(below) * (len(below) - 1))))


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    return RateClaim(
        name=name,
        mechanism=_of_bins,
        variable=variable,
        values=values,
        instance=Instance(kind="uniform", parameters={"low": 0.0, "high": 1.0}),
        target=Empirical(_counted),
        error=_of_all_ranges,
        repeats=1000,
        curve=Curve(function="range_error", arguments=("parameters",)),
        **claimed,
    )


RATES = (
    _rate(
        "ranges-against-bins",
        "bins",
        (4, 8, 16),
        setting={"n": 100, "noise_multiplier": 10, "strategy": "circulant"},
        source="OURS: the best circulant matrix; LMHMR15, the matrix mechanism",
    ),
    _rate(
        "ranges-against-n",
        "n",
        (30, 300, 3000),
        setting={"bins": 8, "noise_multiplier": 10, "strategy": "circulant"},
        exponent=Exponent(value=0, tolerance=0.05),
        source="OURS: the noise of the best circulant matrix, whatever the data",
    ),
    _rate(
        "ranges-against-noise",
        "noise_multiplier",
        (5, 20, 80),
        setting={"n": 100, "bins": 8, "strategy": "tree"},
        exponent=Exponent(value=1, tolerance=0.05),
        source="HRMS10: the noise of the tree, whatever the data",
    ),
)
