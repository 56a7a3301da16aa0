"""False twins of the filters' obligations."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency
from spec import basic_filter, gaussian_filter
from spec.theory import (
    filtered_means,
    filters,
    graphs,
    kept_releases,
    rare_events,
    rescaled_errors,
    rules,
    strangers,
)
from spec.theory.filtered_means import Release
from spec.theory.laws import real


def _without(part: str, share: Fraction = Fraction(1)) -> Any:
    """Return the claimed mu^2 less a share of one part's."""

    def mu_squared(release: Release) -> Fraction:
        parts = {
            "counts": release.mu_count**2 * (2 if release.adjacency is Adjacency.ADD_REMOVE else 1),
            "filter": release.mu_filter**2,
            "mean": 1 / release.multiplier**2,
        }
        return filtered_means.mu_squared(release) - share * parts[part]

    return mu_squared


def _growth_of_falls(moves: Any, factor: Any) -> Any:
    return graphs.growth([(p, q) for p, q in moves if p > q], factor)


def _delta_of_the_paper(epsilon: Fraction, d: Fraction, moved: Fraction) -> tuple[Any, Any]:
    a = mp.expm1(real(epsilon))
    return a * real(moved), real(moved) * real(d) * mp.exp(real(epsilon) + a * real(moved))


_BOUNDS: dict[str, Any] = {
    "three halves": lambda adjacency, n: Fraction(3, 2),
    "two": lambda adjacency, n: Fraction(2) if n > 1 else basic_filter.moved(adjacency, n),
    "a third record": lambda adjacency, n: basic_filter.moved(adjacency, n) - Fraction(1, 3 * n),
}


def _one_less(kind: str, scale: Fraction, rare: Fraction) -> int:
    return rare_events.least_shifts(kind, scale, rare) - 1


def _as_if_pairs_were_independent(n: int, chance: Any, beta: Fraction) -> int:
    many = n * (n - 1)
    return strangers.most_pairs(many, real(chance), beta) * (n - 1) // (2 * (many - 1))


def _statement_alone(setting: Any, variances: Any) -> Any:
    """Omit the part that (3) leaves to the proof; twice, as no constant mends it."""
    level = mp.log(1 / real(setting["beta"]))
    pairs = mp.log(setting["n"] / real(setting["beta"]))
    rate = mp.sqrt(mp.log(1 / real(setting["delta"]))) / (real(setting["epsilon"]) * setting["n"])
    last = rate * mp.sqrt(max(variances) * level * pairs)
    return 2 * (rescaled_errors.private_part(setting, variances) - last)


_PRIVATE = rescaled_errors.private_part
TWINS: dict[str, dict[str, Any]] = {
    "theory.strangers:obligation_lean": {
        "half": lambda n, pairs: strangers.lean(n, pairs) / 2,
        "twice": lambda n, pairs: strangers.lean(n, pairs) * 2,
        "weights are not scarcer": lambda n, pairs: Fraction(3 * pairs, n * n),
    },
    "theory.strangers:obligation_pair_chance": {
        "one record's proxy": lambda r, own: strangers.pair_chance(r, [v / 2 for v in own]),
        "twice the pair's": lambda r, own: strangers.pair_chance(r, [2 * v for v in own]),
        "of one column": lambda r, own: strangers.pair_chance(r, own[:1]),
    },
    "theory.strangers:obligation_most_pairs": {
        "independent pairs": _as_if_pairs_were_independent,
        "what is expected": lambda n, q, beta: int(n * (n - 1) * q / 2),
        "Markov alone": lambda n, q, beta: int(n * (n - 1) * q / (2 * real(beta))),
        "one fewer": lambda n, q, beta: strangers.most_pairs(n, q, beta) - 1,
    },
    "theory.strangers:obligation_most_dropped": {
        "what is expected": lambda n, pairs, beta: 4 * pairs // n,
        "half": lambda n, pairs, beta: strangers.most_dropped(n, pairs, beta) // 2,
        "quadruple": lambda n, pairs, beta: 4 * strangers.most_dropped(n, pairs, beta),
    },
    "theory.rescaled_errors:obligation_skewed": {
        "all are friends": lambda parameters, n, beta, own: (
            rescaled_errors.error_bound(parameters, n, beta)
            + mp.sqrt(own[0] / n) * (1 + mp.sqrt(-2 * mp.log(real(beta))))
        ),
        "nearly nothing": lambda *given: rescaled_errors.error_bound(*given) / 10**4,
        "hundredfold": lambda *given: rescaled_errors.error_bound(*given) * 100,
    },
    "theory.rescaled_errors:obligation_theorem": {
        "folklore, sqrt(d tr S)": lambda setting, own: (
            mp.sqrt(len(own)) * _PRIVATE(setting, [mp.fsum(own)])
        ),
        "whatever delta": lambda setting, own: _PRIVATE(
            {**setting, "delta": Fraction(1, 10**6)}, own
        ),
        "whatever beta": lambda setting, own: _PRIVATE({**setting, "beta": Fraction(1, 20)}, own),
        "sqrt(epsilon)": lambda setting, own: (
            mp.sqrt(real(setting["epsilon"])) * _PRIVATE(setting, own)
        ),
        "n^0.9": lambda setting, own: (
            (setting["n"] / mp.mpf(200_000)) ** mp.mpf("0.1") * _PRIVATE(setting, own)
        ),
        "without what the proof adds": _statement_alone,
    },
    "theory.kept_releases:obligation_kept_release": {
        "a lost shift": lambda release: 0,
        "one less": lambda release: kept_releases.least_shift(release) - 1,
        "two more": lambda release: kept_releases.least_shift(release) + 2,
    },
    "rescaled_mean:obligation_shares": {
        "a hundredth less": Fraction(99, 100),
        "a fiftieth more": Fraction(51, 50),
    },
    "rescaled_mean:obligation_shift": {
        "one less": lambda plan: plan.shift - 1,
        "one more": lambda plan: plan.shift + 1,
    },
    "rescaled_mean:obligation_map": {"no rounding": -2},
    "rescaled_mean:obligation_lower_bound_is_below_error": {"within 4 times": 4},
    "theory.rare_events:obligation_overcount": {
        "one less": _one_less,
        "twice": lambda *given: 2 * rare_events.least_shifts(*given),
    },
    "theory.rare_events:obligation_undercount": {
        "what is released": lambda plan, released: max(plan.fewest, released),
        "half of the shift": lambda plan, released: plan.assumed(released - plan.shifts[1] // 2),
    },
    "basic_filter:obligation_stability": {
        **_BOUNDS,
        "three": lambda adjacency, n: Fraction(3),
        "adjacencies swapped": lambda adjacency, n: basic_filter.moved(
            Adjacency.REPLACE if adjacency is Adjacency.ADD_REMOVE else Adjacency.ADD_REMOVE, n
        ),
    },
    "basic_filter:obligation_larger_graphs": _BOUNDS,
    "basic_filter:obligation_growth": {
        "of one side": _growth_of_falls,
        "rounded up": lambda moves, factor: (1 + 2 * (factor - 1)) * graphs.growth(moves, factor),
        "upside down": lambda moves, factor: 1 / graphs.growth(moves, factor),
    },
    "basic_filter:obligation_lift": {
        "T a little smaller": lambda e, d, moved: rules.friendly_lift(
            e, d, moved * Fraction(9, 10)
        ),
        "d as it was": lambda e, d, moved: (rules.friendly_lift(e, d, moved)[0], real(d)),
        "two removals": lambda e, d, moved: rules.friendly_lift(e, d, 2 * moved),
        "delta of the paper": _delta_of_the_paper,
    },
    "basic_filter:obligation_law": {
        "deg / n": lambda degree, n: Fraction(degree, n),
        "hard": lambda degree, n: Fraction(2 * degree > n),
    },
    "theory.filters:obligation_kept_mean": {
        "half": lambda spread, width: filters.mean_sensitivity(2 * spread, width),
        "double": lambda spread, width: filters.mean_sensitivity(spread / 2, width),
        "a little less": lambda spread, width: filters.mean_sensitivity(spread * 11 / 10, width),
    },
    "theory.filters:obligation_swapped_mean": {
        "as of a removal": lambda spread, width, reach: filters.mean_sensitivity(spread, width),
        "always double": lambda spread, width, reach: filters.mean_sensitivity(spread / 2, width),
    },
    "theory.filters:obligation_kept_count": {"none": 0, "two": 2},
    "gaussian_filter:obligation_margins": {
        "friends only": {**gaussian_filter.STEPS, Adjacency.ADD_REMOVE: frozenset((-2, 0))},
        "by one under replace": {**gaussian_filter.STEPS, Adjacency.REPLACE: frozenset((-1, 0, 1))},
        "more steps": {**gaussian_filter.STEPS, Adjacency.ADD_REMOVE: frozenset((-1, 0, 1))},
    },
    "gaussian_filter:obligation_friendly": {"one": 1, "none": 0},
    "theory.rare_events:obligation_bad_events": {
        "one lower": lambda *given: filters.threshold(*given) - 1,
        "add-remove one lower": lambda adjacency, *given: (
            filters.threshold(adjacency, *given) - (adjacency is Adjacency.ADD_REMOVE)
        ),
        "replace one lower": lambda adjacency, *given: (
            filters.threshold(adjacency, *given) - (adjacency is Adjacency.REPLACE)
        ),
        "not for all records": lambda adjacency, size, scale, rare: (
            2 + filters.least_shift(rare, scale)
        ),
    },
    "gaussian_filter:obligation_scores": {
        "half": lambda *given: gaussian_filter.moved_scores(*given) // 2,
        "as inside": lambda adjacency, inside, *given: gaussian_filter.moved_scores(
            adjacency, True, *given
        ),
        "friends alone": lambda adjacency, inside, n, weights: (
            weights[0] ** 2 * n
            if adjacency is Adjacency.ADD_REMOVE and inside
            else gaussian_filter.moved_scores(adjacency, inside, n, weights)
        ),
    },
    "gaussian_filter:obligation_missed": {
        "one lower": lambda *given: gaussian_filter.score_margin(*given) - 1,
        "one higher": lambda *given: gaussian_filter.score_margin(*given) + 1,
        "none": lambda adjacency, weights: 0,
    },
    "theory.filtered_means:obligation_composition": {
        "no counts": _without("counts"),
        "one count": _without("counts", Fraction(1, 2)),
        "no filter": _without("filter"),
        "half of the filter": _without("filter", Fraction(3, 4)),
        "no mean": _without("mean"),
        "half of the mean": _without("mean", Fraction(3, 4)),
    },
}
