"""Shared parts of the tests of all mechanisms: many seeded releases, and the checks made on
them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from dpverify import Adjacency, SeededBits, result_from
from dpverify.grid import View
from dpverify.grid.records import ingest
from dpverify.plans import Mechanism
from dpverify.plans.law import Law

RELEASES = 2000
OF_NORMAL_NOISE = 1000  # enough for ``mean_square_fits`` where noise is Gaussian
FALSE_ALARM = 1e-6
EDGE_RECORDS = [0.0, -0.0, 0.5, 1.0, 5e-324, -5e-324, 2.2e-308, 1e308, -1e308]
EDGE_DATA: list[list[float]] = [
    [],
    [0.5],
    [0.5, 0.5],
    [1e308],
    [1e308, -1e308],
    [1.7976931348623157e308] * 3,
    [5e-324],
    [5e-324, -5e-324],
    [0.25] * 1000,
    EDGE_RECORDS,
]

EDGE = [0.0, -0.0, 0.5, 5e-324, -5e-324, 2.2e-308, 1e308, -1e308, 1.7976931348623157e308]


def edge_rows() -> list[Any]:
    """Return datasets of two columns of edge numbers: no record, one, two, twenty, all pairs."""
    rows = np.array([(x, y) for x in EDGE for y in EDGE])
    return [rows[:0], *(rows[i : i + n] for n, i in ((1, 61), (2, 23), (20, 61))), rows]


def some_edge_rows(world: int) -> list[Any]:
    """All of ``edge_rows`` for the first two of a mechanism's worlds; two rows and all pairs for
    the others."""
    return edge_rows() if world < 2 else edge_rows()[2::2]


def view_of(mechanism: Mechanism[Any], data: Any) -> View:
    """Return a view of records, from which several mechanisms of one domain can release: what
    takes long, such as counting friends, is done once for all of them."""
    return View(ingest(data, mechanism.domain))


def law_on(mechanism: Mechanism[Any], view: View) -> Law:
    """Return the law of a mechanism on a view of ``view_of``."""
    return Law(mechanism.fixed_plan, view, mechanism.adjacency, mechanism.domain)


def typed_releases(mechanism: Mechanism[Any], datasets: Sequence[Any]) -> Iterator[Any]:
    """Release each dataset that has enough records, without a floating-point error.

    Each result survives the way to plain data and back; each third one is released twice, to the
    same result.
    """
    for seed, data in enumerate(datasets):
        if len(data) < mechanism.fewest_records():
            continue
        with np.errstate(all="raise", under="ignore"):
            release = mechanism.release(data, SeededBits(seed))
            again = mechanism.release(data, SeededBits(seed)) if seed % 3 == 0 else release
        assert release == again
        assert result_from(release.to_dict()) == release
        yield release


def estimates(mechanism: Mechanism[Any], data: Any, seed: int, size: int = RELEASES) -> list[Any]:
    """Independent releases, drawn in one batch by seeded bits."""
    batch = mechanism.law(data).sample(SeededBits(61, seed), size)
    return [mechanism.estimate(batch[i]) for i in range(size)]


def mean_square_fits(
    errors: Sequence[float], predicted_rms: float, releases: int = RELEASES
) -> bool:
    """Return whether the mean of 2000 squared errors is within 30% of its prediction (RMS: -16%
    to +14%); or of 1000 squared errors of Gaussian noise within 25%.

    Of discrete Laplace noise of scale 0.9 or more, the mean square is further off with probability
    4e-7 at most (by the exact law of the sum of 2000 squares). Its kurtosis is at most 7: 5 +
    (1 + q^2) / (2 q). So the mean square has a relative sd of at most sqrt(6 / 2000) = 0.055, and
    noise x 1.3, which gives 1.69 or more, is 4.2 sd beyond the limit. Of Gaussian noise the
    kurtosis is 3: 1000 squares have a relative sd of sqrt(2 / 1000) = 0.0447 and a skewness of
    0.09, so that 25% are 5.6 sd, which has probability below 1e-6 again; and 1.69 is 5.8 sd beyond.
    """
    assert len(errors) == releases >= OF_NORMAL_NOISE
    ratio = float(np.mean(np.square(np.asarray(errors, dtype=np.float64)))) / predicted_rms**2
    return abs(ratio - 1) < (0.3 if releases == RELEASES else 0.25)


def fails_at_most(errors: Sequence[float], bound: float, beta: float) -> bool:
    """Return whether |error| >= bound is as rare as ``beta`` allows; false alarm below 1e-6."""
    failures = sum(abs(error) >= bound for error in errors)
    return bool(failures <= stats.binom.isf(FALSE_ALARM, len(errors), beta))


Pair = tuple[list[float], list[float]]


@st.composite
def neighbors(
    draw: st.DrawFn, record: st.SearchStrategy[float], adjacency: Adjacency, fewest: int
) -> Pair:
    """Neighboring datasets of up to six records."""
    left = draw(st.lists(record, min_size=fewest, max_size=5))
    at, new = draw(st.integers(0, 5)), draw(record)
    if adjacency is Adjacency.ADD_REMOVE:
        return left, [*left[:at], new, *left[at:]]
    return [*left[:at], draw(record), *left[at:]], [*left[:at], new, *left[at:]]


def largest_loss_found(
    mechanism: Mechanism[Any],
    record: st.SearchStrategy[float],
    fewest: int = 0,
    crafted: Sequence[Pair] = (),
) -> float:
    """Return the largest |ln P(t) / P'(t)| over many neighbors and transcripts t drawn from both.

    crafted: pairs that come near a claim. Which others are looked at follows from what is
    imported, for numbers in modules are among those that are tried.
    """
    losses: list[float] = []

    def look(pair: Pair) -> None:
        assert mechanism.adjacency.are_neighbors(*pair)
        left, right = (mechanism.law(data) for data in pair)
        for law in (left, right):
            batch = law.sample(SeededBits(62, len(losses)), 40)
            gaps = left.log_likelihood(batch) - right.log_likelihood(batch)
            assert not np.isnan(gaps).any()
            losses.append(float(np.abs(gaps).max()))

    @settings(derandomize=True, deadline=None, max_examples=60, phases=[Phase.generate])
    @given(neighbors(record, mechanism.adjacency, fewest))
    def search(pair: Pair) -> None:
        look(pair)

    for pair in crafted:
        look(pair)
    search()
    return max(losses)


def slope(sizes: Sequence[int], error: Callable[[int], float]) -> float:
    """Fit the slope of ln(error) against ln(n), by least squares."""
    logs = np.array([[math.log(n), math.log(error(n))] for n in sizes])
    x: NDArray[np.float64] = logs[:, 0] - logs[:, 0].mean()
    return float((x * logs[:, 1]).sum() / (x**2).sum())
