"""The attack on a declared sensitivity: neighbors whose query values are further apart than claimed."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.neighbors.pairs import NeighboringPair
from dpverify.audit.sensitivity.datasets import LARGEST, Candidate, Space
from dpverify.audit.sensitivity.norms import AnyNorm, Distance
from dpverify.audit.sensitivity.result import SensitivityPair, SensitivityResult
from dpverify.audit.sensitivity.searching import search
from dpverify.audit.sensitivity.subjects import of_function, of_grid
from dpverify.grid import Query
from dpverify.privacy import Adjacency, Domain, Exact, exact
from dpverify.privacy.numbers import Floats, to_float, whole

FEWEST_CALLS = 100


def audit_sensitivity(
    query: Callable[[NDArray[np.float64]], Any] | Query,
    *,
    adjacency: Adjacency,
    domain: Domain,
    norm: AnyNorm | None = None,
    bound: Exact | None = None,
    low: float | Sequence[float] | None = None,
    high: float | Sequence[float] | None = None,
    values: Sequence[float] = (),
    calls: int = 20_000,
    rows: int | tuple[int, int] = 1 << 14,
    seed: int | None = None,
) -> SensitivityResult:
    """Search for neighbors whose query values are further apart than ``bound``.

    query: a deterministic function of a float64 array of shape (n, columns), or (n,) for a domain of
    one column, that returns a number or an array; or a query of dpverify.grid, which is attacked in
    its own units, against its own lemma unless ``norm`` and ``bound`` say otherwise.
    norm: an ``OutputNorm``, ``Mahalanobis(covariance)`` or a ``dpverify.privacy.Norm``.
    bound: the declared sensitivity, an exact number.
    low, high: public bounds of the records, a number or one a column; without them all finite
    float64 numbers are tried. A domain of nonfinite="replace" has NaN and infinities besides.
    values: public numbers of the query (thresholds, clipping bounds), to look around.
    calls: how often the query may be evaluated. rows: the most records of a dataset; under replace,
    where their number is public, also (fewest, most). seed: of the search; None: a fresh one, kept in
    the result.
    A NaN, an infinity, two shapes and an exception are infinite distances. Distances are compared in
    exact arithmetic, so a violation is one for the values as the query returns them, be it by one
    rounding of a float. Warnings of the query are silenced.
    Errors: TypeError and ValueError for bad parameters, for a norm that does not fit the query's
    value, and for a query that changes its input or is random.
    """
    if not isinstance(adjacency, Adjacency):
        raise TypeError(
            f"adjacency = {adjacency!r}; write Adjacency.ADD_REMOVE or Adjacency.REPLACE."
        )
    if not isinstance(domain, Domain):
        raise TypeError(
            f"domain = {domain!r}; write Domain(columns), with how many columns there are, and the range of "
            "the data as low= and high=."
        )
    subject = (
        of_grid(query, norm, bound, adjacency, domain)
        if isinstance(query, Query)
        else of_function(query, norm, bound, domain)
    )
    fewest, most = _numbers_of_rows(rows, adjacency)
    space = Space(
        adjacency=adjacency,
        low=_edge(low, -LARGEST, domain.columns, "low"),
        high=_edge(high, LARGEST, domain.columns, "high"),
        values=tuple(_finite(value, "values") for value in (*values, *subject.values)),
        nonfinite=domain.nonfinite == "replace",
        fewest=fewest,
        most=most,
    )
    if (space.low > space.high).any():
        column = int(np.argmax(space.low > space.high))
        raise ValueError(
            f"low = {space.low[column]} is above high = {space.high[column]} in column {column}; give "
            "the smaller one as low."
        )
    allowed = _at_least(calls, FEWEST_CALLS, "calls")
    chosen = secrets.randbelow(2**32) if seed is None else _at_least(seed, 0, "seed")
    found = search(subject, space, calls=allowed, seed=chosen)
    return SensitivityResult(
        query=subject.name,
        norm=subject.measure.norm,
        bound=subject.bound,
        adjacency=adjacency,
        domain=domain,
        worst=_pair(*found.worst, adjacency),
        simplest=None if found.simplest is None else _pair(*found.simplest, adjacency),
        calls=found.calls,
        found_after=found.found_after,
        calls_allowed=allowed,
        seed=chosen,
    )


def _pair(candidate: Candidate, distance: Distance, adjacency: Adjacency) -> SensitivityPair:
    """Both sides, whose relation is verified."""
    left, right = candidate.sides()
    NeighboringPair(name="found", left=left, right=right, adjacency=adjacency)
    return SensitivityPair(
        left, right, distance.estimate, distance.exceeds, distance.excess, distance.problem
    )


def _edge(given: float | Sequence[float] | None, default: float, columns: int, name: str) -> Floats:
    """One end of the box, shape (columns,)."""
    if given is None:
        return np.full(columns, default)
    numbers: Any = given.tolist() if isinstance(given, np.ndarray | np.generic) else given
    if not isinstance(numbers, Sequence) or isinstance(numbers, str):
        return np.full(columns, _finite(numbers, name))
    if len(numbers) != columns:
        raise ValueError(
            f"{name} has {len(numbers)} numbers for {columns} columns; give one number, or one for "
            "each column."
        )
    return np.array([_finite(number, name) for number in numbers])


def _numbers_of_rows(rows: int | tuple[int, int], adjacency: Adjacency) -> tuple[int, int]:
    """The fewest and the most records of the larger dataset of a pair."""
    if not isinstance(rows, tuple):
        return 1, _at_least(rows, 2, "rows")
    if adjacency is Adjacency.ADD_REMOVE:
        raise ValueError(
            f"rows = {rows}: under add-remove the number of records is private and every number is "
            "valid; give the most alone."
        )
    if len(rows) != 2:
        raise ValueError(f"rows = {rows}; give the most, or (fewest, most).")
    fewest = _at_least(rows[0], 1, "the fewest rows")
    return fewest, _at_least(rows[1], fewest, "the most rows")


def _finite(number: Any, name: str) -> float:
    value = to_float(exact(number, name))
    if not np.isfinite(value):
        raise ValueError(f"{name} = {number} is not finite as a float64; give a smaller number.")
    return value


def _at_least(number: int, fewest: int, name: str) -> int:
    if whole(number, name) < fewest:
        raise ValueError(f"{name} = {number}; give at least {fewest}.")
    return int(number)
