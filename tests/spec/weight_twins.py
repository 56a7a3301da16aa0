"""False twins of the obligations about means weighted by friends."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dpverify.privacy import Adjacency
from spec.theory import weight_steps, weighted_releases, weights
from spec.theory.weight_steps import Parts
from spec.theory.weighted_releases import Release


def _less(part: str, share: Fraction) -> Callable[[Release], Fraction]:
    """Return the claimed mu^2 less a share of one part's."""

    def mu_squared(release: Release) -> Fraction:
        parts = {"agreement": release.mu_agreement**2, "mean": 1 / release.multiplier**2}
        return weighted_releases.mu_squared(release) - share * parts[part]

    return mu_squared


def _one_way(given: Parts) -> tuple[Fraction, ...]:
    """Masses that forget what m' moves."""
    terms = [m * (given.p.get(i, 0) - given.d.get(i, 0)) for i, m in enumerate(given.sizes)]
    return (*(Fraction(x) for x in terms[:-1]), given.own)


def _reach(add_remove: str, replace: str) -> Callable[[Adjacency, Fraction], Fraction]:
    """Return the reach with other constants."""
    radii = {Adjacency.ADD_REMOVE: Fraction(add_remove), Adjacency.REPLACE: Fraction(replace)}
    return lambda adjacency, least: radii[adjacency] / (least - weights.SLACK[adjacency])


TWINS: dict[str, dict[str, Any]] = {
    "degree_weights:obligation_agreement": {
        "four": lambda adjacency: weights.MOVES[adjacency] - 1,
        "one more": lambda adjacency: weights.MOVES[adjacency] + 1,
        "adjacencies swapped": lambda adjacency: 11 - weights.MOVES[adjacency],
    },
    "degree_weights:obligation_reach": {
        "one radius": _reach("1", "17/8"),
        "a little less": _reach("33/32", "17/8"),
        "two radii less": _reach("17/16", "15/8"),
        "as of a removal": _reach("17/16", "17/16"),
        "twice as far": _reach("17/8", "17/4"),
    },
    "theory.weight_steps:obligation_identity": {
        "the mean stays": _one_way,
        "upside down": lambda given: tuple(-mass for mass in given.masses()),
    },
    "theory.weight_steps:obligation_friendly": {
        "half is enough": lambda degree, n: max(0, 2 * degree - n + 1),
        "a third is enough": lambda degree, n: max(0, 3 * degree - n),
    },
    "theory.weight_steps:obligation_spread": {"an eighth": Fraction(1, 8), "none": Fraction(0)},
    "theory.weight_steps:obligation_costs": {
        "all at one radius": lambda given: ("6", given.own + given.x),
        "a little less": lambda given: (
            weight_steps.costs(given)[0],
            weight_steps.costs(given)[1] * Fraction(24, 25),
        ),
    },
    "theory.weight_steps:obligation_target": {
        "one radius": Fraction(1),
        "a little less": Fraction(271, 256),
    },
    "theory.weighted_releases:obligation_composition": {
        "no agreement": _less("agreement", Fraction(1)),
        "half of the agreement": _less("agreement", Fraction(3, 4)),
        "no mean": _less("mean", Fraction(1)),
        "half of the mean": _less("mean", Fraction(3, 4)),
    },
    "theory.weighted_releases:obligation_bad_event": {
        "no tail": lambda release: (
            weights.MOVES[release.adjacency] + weights.SLACK[release.adjacency]
        ),
        "no moves": lambda release: (
            weighted_releases.taken_off(release) - weights.MOVES[release.adjacency]
        ),
        "no slack": lambda release: (
            weighted_releases.taken_off(release) - 2 * weights.SLACK[Adjacency.REPLACE]
        ),
        "one more": lambda release: weighted_releases.taken_off(release) + 9,
    },
}
