"""The attack on a declared sensitivity: neighbors whose query values are further apart than
claimed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.neighbors.boxes import Box
from dpverify.audit.neighbors.pairs import NeighboringPair
from dpverify.audit.progress import Progress, shown
from dpverify.audit.sensitivity.datasets import Candidate, Space
from dpverify.audit.sensitivity.norms import AnyNorm, Distance
from dpverify.audit.sensitivity.result import SensitivityPair, SensitivityResult
from dpverify.audit.sensitivity.searching import search
from dpverify.audit.sensitivity.subjects import Noted, metered, of_function, of_grid
from dpverify.grid import Query
from dpverify.privacy import Adjacency, Exact, exact
from dpverify.privacy.numbers import to_float, whole

FEWEST_CALLS = 100
_MOST_ROWS = 1 << 14
"""Largest number of records where the box does not say: enough to show how long sums round."""


def audit_sensitivity(
    query: Callable[[NDArray[np.float64]], Any] | Query,
    *,
    adjacency: Adjacency,
    domain: Box,
    norm: AnyNorm | None = None,
    bound: Exact | None = None,
    values: Sequence[float] = (),
    calls: int = 20_000,
    seed: int | None = None,
    progress: Progress = None,
) -> SensitivityResult:
    """Search for neighbors whose query values are further apart than ``bound``.

    query: a deterministic function of a float64 array of shape (n, columns), or (n,) for a
    domain of one column, that returns a number or an array; or a query of dpverify.grid, which
    is attacked in its own units, against its own lemma unless ``norm`` and ``bound`` say
    otherwise.
    domain: what data may be, as in ``search``: public bounds (without them all finite float64
    numbers are tried), whether numbers are integers, whether NaN and infinities occur, and how
    many records there are (up to 2^14 where the box does not say; a fewest only under replace,
    where their number is public).
    norm: an ``OutputNorm``, ``Mahalanobis(covariance)`` or a ``dpverify.privacy.Norm``.
    bound: the declared sensitivity, an exact number.
    values: public numbers of the query (thresholds, clipping bounds), to look around.
    calls: how often the query may be evaluated. seed: of the search; None: a fresh one, kept in
    the result. progress: as in ``audit``. A NaN, an infinity, two shapes and an exception are
    infinite distances. Distances are compared in exact arithmetic, so a violation is one for
    the values as the query returns them, be it by one rounding of a float: the result says
    which (``excess_of``). Warnings of the query are silenced. Errors: TypeError and ValueError
    for bad parameters, for a norm that does not fit the query's value, and for a query that
    changes its input or is random; InvalidRun for one that raises on all data.
    """
    if not isinstance(adjacency, Adjacency):
        raise TypeError(
            f"adjacency = {adjacency!r}; write Adjacency.ADD_REMOVE or Adjacency.REPLACE."
        )
    if not isinstance(domain, Box):
        raise TypeError(
            f"domain = {domain!r}; write Box(low=0, high=1), with what the data may be, or Box() "
            "for any finite numbers."
        )
    subject = (
        of_grid(query, norm, bound, adjacency, domain.domain)
        if isinstance(query, Query)
        else of_function(query, norm, bound, domain.domain)
    )
    fewest, most = _numbers_of_rows(domain, adjacency)
    space = Space(
        adjacency=adjacency,
        low=domain.lows,
        high=domain.highs,
        values=tuple(_finite(value, "values") for value in (*values, *subject.values)),
        nonfinite=domain.nonfinite == "replace",
        integers=domain.integers,
        fewest=fewest,
        most=most,
    )
    allowed = _at_least(calls, FEWEST_CALLS, "calls")
    chosen = secrets.randbelow(2**32) if seed is None else _at_least(seed, 0, "seed")
    noted = Noted()
    with shown(progress, f"sensitivity of {subject.name}", allowed) as meter:
        result = search(metered(noted.by(subject), meter), space, calls=allowed, seed=chosen)
    noted.require_a_value()
    return SensitivityResult(
        query=subject.name,
        norm=subject.measure.norm,
        bound=subject.bound,
        adjacency=adjacency,
        domain=domain,
        worst=_pair(*result.worst, adjacency),
        simplest=None if result.simplest is None else _pair(*result.simplest, adjacency),
        calls=result.calls,
        found_after=result.found_after,
        calls_allowed=allowed,
        seed=chosen,
    )


def _pair(candidate: Candidate, distance: Distance, adjacency: Adjacency) -> SensitivityPair:
    """Return both sides, after their relation is verified."""
    left, right = candidate.sides()
    NeighboringPair(name="found", left=left, right=right, adjacency=adjacency)
    return SensitivityPair(
        left,
        right,
        distance.estimate,
        distance.exceeds,
        distance.excess,
        distance.problem,
        distance.kind,
    )


def _numbers_of_rows(box: Box, adjacency: Adjacency) -> tuple[int, int]:
    """Return the fewest and the most records of the larger dataset of a pair."""
    fewest, most = box.sizes_up_to(_MOST_ROWS)
    if adjacency is Adjacency.ADD_REMOVE and fewest:
        raise ValueError(
            f"rows = {box.rows}: under add-remove the number of records is private and every "
            f"number is valid; write rows=(0, {most})."
        )
    if adjacency is Adjacency.ADD_REMOVE and most < 2:
        raise ValueError(f"rows = {box.rows}; give at least 2 as the most.")
    return max(1, fewest), most


def _finite(number: Any, name: str) -> float:
    value = to_float(exact(number, name))
    if not np.isfinite(value):
        raise ValueError(f"{name} = {number} is not finite as a float64; give a smaller number.")
    return value


def _at_least(number: int, fewest: int, name: str) -> int:
    if whole(number, name) < fewest:
        raise ValueError(f"{name} = {number}; give at least {fewest}.")
    return int(number)
