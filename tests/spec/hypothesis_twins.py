"""False twins of the obligations about many hypotheses, laws on bins, and norms."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency
from spec import gaussian_covariance
from spec.theory import (
    covariance_packing,
    discrete_laws,
    group_events,
    many_hypotheses,
    normal_norms,
)
from spec.theory.group_events import changed
from spec.theory.laws import real
from spec.theory.many_hypotheses import most_success


def _first_kind_alone(epsilon: Fraction, delta: Fraction, n: int) -> Any:
    e, d = mp.exp(real(epsilon)), real(delta)
    grown = (e**n - 1) / (e - 1) if epsilon else n
    return lambda q: min(mp.mpf(1), e**n * q + d * grown)


def _other(adjacency: Adjacency) -> Adjacency:
    return next(one for one in Adjacency if one is not adjacency)


def _mean_number(success: Any, n: int, apart: Any) -> Any:
    """Compute as if exactly the mean number of records differed."""
    return success(int(n * apart))


def _least(name: str, factor: Any) -> Any:
    right = getattr(discrete_laws, name)
    return lambda *given: factor * right(*given)


TWINS: dict[str, dict[str, Any]] = {
    "theory.group_events:obligation_changed": {
        "the first kind of step alone": _first_kind_alone,
        "delta once": lambda e, d, n: lambda q: changed(e, d, 1)(changed(e, 0, n - 1)(q)),
        "one step more": lambda e, d, n: changed(e, d, n + 1),
        "pure": lambda e, d, n: changed(e, 0, n),
    },
    "theory.many_hypotheses:obligation_success": {
        "one hypothesis more": lambda group, count, adjacency: most_success(
            group, count and count + 1, adjacency
        ),
        "adjacencies swapped": lambda group, count, adjacency: most_success(
            group, count, _other(adjacency)
        ),
        "from nothing": lambda group, count, adjacency: most_success(group, None, adjacency),
    },
    "theory.many_hypotheses:obligation_gaussian": {
        "root of n": lambda mu, n: group_events.changed_gaussian(mu / mp.sqrt(n), n),
        "half of mu": lambda mu, n: group_events.changed_gaussian(mu / 2, n),
    },
    "theory.group_events:obligation_concentrated": {
        "the order two": lambda rho, n: lambda q: mp.sqrt(q) * mp.exp(rho * n**2),
        "linear in n": lambda rho, n: group_events.changed_concentrated(rho / n, n),
        "half of rho": lambda rho, n: group_events.changed_concentrated(rho / 2, n),
    },
    "theory.many_hypotheses:obligation_drawn": {
        "the mean number": _mean_number,
        "half of what differs": lambda success, n, apart: many_hypotheses.drawn(
            success, n, apart / 2
        ),
        "all records": lambda success, n, apart: success(n),
    },
    "theory.many_hypotheses:obligation_records": {
        "half": lambda *given: many_hypotheses.records_needed(*given) // 2,
        "one more": lambda *given: 1 + many_hypotheses.records_needed(*given),
        "failures forgotten": lambda groups, count, adjacency, beta: many_hypotheses.records_needed(
            groups, count, adjacency, beta / 100
        ),
    },
    "theory.discrete_laws:obligation_mean_deviation": {
        "as if normal": lambda a, b: mp.sqrt((a**2 + 2 * b**2) * 2 / mp.pi),
        "added": lambda a, b: a * mp.sqrt(2 / mp.pi) + b,
    },
    "theory.discrete_laws:obligation_bridge": {
        "seen everywhere": lambda n, bins, scale: mp.pi / mp.sqrt(12 * n),
        "of a motion, no bridge": lambda n, bins, scale: (
            discrete_laws.kolmogorov_error(n, bins, scale)
            * mp.sqrt(mp.mpf("1.83") / mp.mpf("0.8225"))
        ),
    },
    "theory.discrete_laws:obligation_variation": {
        "eight times": _least("least_variation", 8),
        "a tenth": _least("least_variation", mp.mpf(1) / 10),
        "all laws far apart": lambda e, d, adjacency, n, bins: (
            mp.mpf(1) - most_success(changed(e, d, n), 2, adjacency)
        ),
    },
    "theory.discrete_laws:obligation_kolmogorov": {
        "a hundred times": _least("least_kolmogorov", 100),
        "two laws": lambda e, d, adjacency, n, bins: discrete_laws.least_kolmogorov(
            e, d, adjacency, n, 2
        ),
        "delta forgotten": lambda e, d, adjacency, n, bins: discrete_laws.least_kolmogorov(
            e, Fraction(0), adjacency, n, bins
        ),
    },
    "theory.covariance_packing:obligation_apart": {
        "half": lambda *given: covariance_packing._gap(*given) / 2,
        "a hundredth more": lambda *given: covariance_packing._gap(*given) * mp.mpf("1.01"),
    },
    "theory.covariance_packing:obligation_one_at_most": {
        "twice alpha": lambda alpha: 2 * alpha,
        "once": lambda alpha: covariance_packing.reach(alpha) / 2,
    },
    "theory.covariance_packing:obligation_growth": {
        "by scales alone": lambda d, kappa, *rest, **claim: covariance_packing.records_for_ratio(
            1, kappa, *rest, **claim
        ),
        "a third": lambda *given, **claim: (
            covariance_packing.records_for_ratio(*given, **claim) // 3
        ),
        "the count, not its logarithm": lambda d, kappa, *rest, **claim: covariance_packing.count(
            d, kappa, rest[0]
        ),
    },
    "gaussian_covariance:obligation_kappa": {
        "twenty times": lambda *given: 20 * gaussian_covariance.least_for_kappa(*given),
        "a tenth": lambda *given: gaussian_covariance.least_for_kappa(*given) // 10,
        "of a single column": lambda parameters, beta: gaussian_covariance.least_for_kappa(
            {**parameters, "center": (0.0,)}, beta
        ),
    },
    "theory.normal_norms:obligation_norms": {
        "the mean, not the root mean square": lambda d, power: (
            d * mp.sqrt(2 / mp.pi) if power == 1 else normal_norms.root_mean_square(d, power)
        ),
        "the root of 2 ln d": lambda d, power: (
            mp.sqrt(2 * mp.log(d)) if power == mp.inf else normal_norms.root_mean_square(d, power)
        ),
        "all alike": lambda d, power: mp.sqrt(d),
    },
}
