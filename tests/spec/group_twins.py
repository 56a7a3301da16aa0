"""False twins and planted faults of the obligations about groups of records and their votes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest

from dpverify.privacy import Adjacency
from spec import kth_largest_variance as kth
from spec.theory import group_votes, groups
from spec.theory.laws import real_exponential

Plant = Callable[[pytest.MonkeyPatch], None]


def _threshold_for_one_vote(parameters: Any) -> int:
    """Count two changed groups under replace, but take each of two new buckets for the only one."""
    low, delta = 2, mp.mpf(parameters["delta"].numerator) / parameters["delta"].denominator
    model = group_votes.model(parameters, (), 2)
    while model.below(2 - low, real_exponential) > delta:
        low += 1
    return max(low, 2)


def _powers(values: Sequence[Any]) -> list[int]:
    return [2**j for j in range(len(values).bit_length())]


TWINS: dict[str, dict[str, Any]] = {
    "theory.groups:obligation_group_buckets": {
        "always one": lambda adjacency: 1,
        "always two": lambda adjacency: 2,
        "adjacencies swapped": lambda adjacency: 1 if adjacency is Adjacency.REPLACE else 2,
    },
    "theory.group_votes:obligation_enough": {
        "a quarter more": lambda *given: group_votes.enough(*given) * 5 // 4,
        "a quarter fewer": lambda *given: group_votes.enough(*given) * 3 // 4,
        "whatever beta": lambda epsilon, delta, beta: group_votes.enough(
            epsilon, delta, Fraction(1)
        ),
    },
    "theory.group_votes:obligation_off_by_two": {
        "a third": lambda pairs: group_votes.off_by_two(pairs) / 3,
        "above twice alone": lambda pairs: mp.exp(-pairs * (1 - mp.log(2)) / 2),
        "of twice as many pairs": lambda pairs: group_votes.off_by_two(2 * pairs),
        "fifty times": lambda pairs: 50 * group_votes.off_by_two(pairs),
    },
    "kth_largest_variance:obligation_delta": {
        "one lower": lambda parameters: group_votes.threshold_of(parameters) - 1,
        "one higher": lambda parameters: group_votes.threshold_of(parameters) + 1,
        "of one vote": _threshold_for_one_vote,
    },
    "kth_largest_variance:obligation_loss": {"half": Fraction(1, 2), "double": Fraction(2)},
    "kth_largest_variance:obligation_kth_largest": {
        "k-th smallest": lambda k: lambda values: sorted(values)[k - 1],
        "from 0 on": lambda k: lambda values: sorted(values, reverse=True)[k % len(values)],
        "of different values": lambda k: (
            lambda values: sorted({*values}, reverse=True)[min(k, len({*values})) - 1]
        ),
    },
    "number_of_reports:obligation_reports_worth": {
        "the best": lambda values: min(
            (groups.reports_cost(values, k), Fraction(k**2)) for k in _powers(values)
        )[1],
        "always one": lambda values: Fraction(1),
        "not squared": lambda values: Fraction(round(groups.reports_worth(values) ** 0.5)),
    },
    "sum_of_variances:obligation_sum_over": {
        "all": lambda some: lambda values: sum(values),
        "the largest": lambda some: lambda values: max((values[i] for i in some), default=0),
        "counted from 1": lambda some: lambda values: sum(values[i - 1] for i in some),
    },
}


def _by_position(right: Any, records: Sequence[Any], by: Any) -> Any:
    """Group the first two records, then the next two."""
    grouped: Any = [[] for _ in range(by.groups)]
    for i, record in enumerate(records):
        grouped[i // 2 % by.groups].append(record)
    return grouped


def _by_arrival(right: Any, records: Sequence[Any]) -> Any:
    """Number a record among all of them, and not among its equals."""
    return [(record, i) for i, record in enumerate(records)]


def _patched(where: Any, name: str, wrong: Callable[..., Any]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(where, name)
        patch.setattr(where, name, lambda *given: wrong(right, *given))

    return plant


FAULTS: dict[str, list[Plant]] = {
    "theory.groups:obligation_group_buckets": [
        _patched(groups, "members", _by_position),
        _patched(groups, "slots", _by_arrival),
    ],
    "theory.groups:obligation_buckets": [
        _patched(groups, "bucket", lambda right, value: right(value) + 1),
        _patched(groups, "bucket", lambda right, value: right(2 * value)),
        _patched(groups, "bucket", lambda right, value: right(value) if value else 0),
    ],
    "kth_largest_variance:obligation_loss": [
        # noise for one count a group; then for one group whatever the adjacency
        _patched(group_votes, "scale", lambda right, p: right(p) / 2),
        _patched(group_votes, "moved", lambda right, adjacency: 1),
    ],
    "kth_largest_variance:obligation_lower_bound_is_below_error": [
        _patched(kth, "lower_bound", lambda right, *given: 50 * right(*given)),
        _patched(kth, "lower_bound", lambda right, *given: right(*given) // 4),
    ],
    "kth_largest_variance:obligation_delta": [
        _patched(group_votes, "surfaces", lambda right, p, t: right(p, t + 1)),
        _patched(group_votes, "surfaces", lambda right, p, t: right(p, t) / 2),
    ],
}
