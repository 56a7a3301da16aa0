"""False twins of the lower bounds' obligations."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency
from spec.theory import (
    buckets,
    chi_square,
    fingerprinting,
    packing,
    replaced_scores,
    score_drift,
    tracing_bound,
    tracing_examples,
)
from spec.theory.laws import real


def _two_sided(change: Any) -> Any:
    """Return the statement with one of its terms changed: (t, above, below, delta, e^epsilon)."""

    def most(epsilon: Fraction, delta: Any, q: Any, t: int) -> Any:
        apart = [(mass, z - t) for mass, z in zip(q, score_drift._SCORES, strict=True)]
        above, below = (sum(m * max(s * w, 0) for m, w in apart) for s in (1, -1))
        return change(t, above, below, delta, mp.exp(real(epsilon)))

    return most


_SIDED_TWINS: dict[str, Any] = {
    "delta once": _two_sided(lambda t, a, b, delta, e: t + e * a - b / e + delta * (3 - t)),
    "delta to unit scores": _two_sided(
        lambda t, a, b, delta, e: t + e * a - b / e + delta * (1 - t) + delta * (1 + t) / e
    ),
    "half the spread": _two_sided(
        lambda t, a, b, delta, e: t + (e * a - b / e) / 2 + delta * (3 - t) + delta * (3 + t) / e
    ),
    "no threshold": _two_sided(
        lambda t, a, b, delta, e: e * a - b / e + delta * (3 - t) + delta * (3 + t) / e
    ),
    "a mass above one": _two_sided(
        lambda t, a, b, delta, e: t + e * a - b / e + delta * 3 + delta * (3 + t) / e
    ),
}


def _gaussian(leak: Any, rare: int) -> Any:
    """Return another leak, and so many times delta."""
    return lambda mu, delta, deviation, reach: leak(mu) * deviation + rare * delta * reach


def _least_error(**changes: Any) -> Any:
    """Return the bound, of a changed budget."""
    return lambda **given: tracing_bound.least_error(**{**given, **changes})


def _least_error_scaled(factor: float) -> Any:
    return lambda **given: factor * tracing_bound.least_error(**given)


def _in_box_scaled(factor: float) -> Any:
    return lambda **given: factor * tracing_bound.least_error_in_box(**given)


def _at_largest_noise(deviations: Any) -> Any:
    """Simulation from the bucket's largest deviation."""
    bucket = buckets.best_bucket(deviations)
    return [s**2 - (max(bucket) ** 2 if s in bucket else 0) for s in deviations]


def _next_bucket(deviations: Any) -> Any:
    """Subtract the best bucket's square from all squares, and leave nothing out."""
    least = min(buckets.best_bucket(deviations))
    return [s**2 - least**2 for s in deviations]


def _records_needed(change: Any) -> Any:
    return lambda **given: change(packing.records_needed(**given))


TWINS: dict[str, dict[str, Any]] = {
    "theory.chi_square:obligation_tail": {
        "one degree more": lambda d, q: chi_square.tail(d + 1, q),
        "twice the argument": lambda d, q: chi_square.tail(d, 2 * q),
        "two sides": lambda d, q: 2 * chi_square.tail(d, q),
    },
    "theory.chi_square:obligation_top_mass": {
        "the mass alone": lambda d, delta: d * real(delta),
        "two degrees fewer": lambda d, delta: chi_square.top_mass(max(1, d - 2), delta),
        "half of delta": lambda d, delta: chi_square.top_mass(d, delta / 2),
    },
    "theory.tracing_examples:obligation_response": {
        "all of epsilon": lambda epsilon: (real(epsilon), real(epsilon)),
        "no positive part": lambda epsilon: (tracing_examples._implied(epsilon)[1],) * 2,
        "half": lambda epsilon: tuple(v / 2 for v in tracing_examples._implied(epsilon)),
    },
    "theory.score_drift:obligation_two_sided": _SIDED_TWINS,
    "theory.score_drift:obligation_drift": {
        "for any mass": lambda epsilon: mp.sqrt(2 / mp.pi) * mp.sinh(real(epsilon)),
        "the threshold": score_drift.threshold,
        "of GDP": lambda epsilon: real(epsilon),
    },
    "theory.replaced_scores:obligation_replaced": {
        "nine tenths": lambda *given: replaced_scores.most_when_replaced(*given) * mp.mpf("0.9"),
        "half of epsilon": lambda epsilon, *given: replaced_scores.most_when_replaced(
            epsilon / 2, *given
        ),
        "no delta": lambda epsilon, delta, q, cap: replaced_scores.most_when_replaced(
            epsilon, 0, q, cap
        ),
        "as from the law without": lambda epsilon, delta, q, cap: (
            2 * replaced_scores.most_when_replaced(epsilon, delta, q, cap)
        ),
    },
    "theory.replaced_scores:obligation_delta": {
        "no delta": lambda epsilon, delta, d: replaced_scores.replaced_leak(
            epsilon, Fraction(0), d
        ),
        "delta, not its root": lambda epsilon, delta, d: replaced_scores.replaced_leak(
            epsilon, delta**2, d
        ),
        "in one dimension": lambda epsilon, delta, d: replaced_scores.replaced_leak(
            epsilon, delta, 1
        ),
        "half of epsilon": lambda epsilon, delta, d: replaced_scores.replaced_leak(
            epsilon / 2, delta, d
        ),
        "twice as much": lambda *given: 2 * replaced_scores.replaced_leak(*given),
    },
    "theory.replaced_scores:obligation_attained": {
        "half": lambda epsilon: replaced_scores.replaced_leak(epsilon, Fraction(0), 1) / 2,
        "from the law without": score_drift.drift,
        "of a cap": lambda epsilon: replaced_scores.threshold(epsilon, mp.mpf(1)),
    },
    "theory.tracing_bound:obligation_gaussian": {
        "nine tenths": _gaussian(lambda mu: mp.sqrt(mp.sinh(mu**2)) * mp.mpf("0.9"), 2),
        "half of mu": _gaussian(lambda mu: mp.sqrt(mp.sinh(mu**2 / 4)), 2),
        "delta once": _gaussian(lambda mu: mp.sqrt(mp.sinh(mu**2)), 1),
        "no delta": _gaussian(lambda mu: mp.sqrt(mp.sinh(mu**2)), 0),
    },
    "theory.tracing_bound:obligation_odd_part": {
        "mu squared": lambda square: square,
        "all of the density": mp.expm1,
    },
    "theory.tracing_examples:obligation_below_errors": {
        "one percent more": _least_error_scaled(1.01),
        "delta forgotten": _least_error(delta=Fraction(0)),
        "one record": _least_error(n=1),
        "a wider prior": lambda **given: tracing_bound.least_error(
            **{**given, "spread": 2 * given["spread"]}
        ),
    },
    "theory.tracing_examples:obligation_apart": {
        "as for any mass": {"1e-6": "4.03"},
        "whatever delta": {"1e-3": "3.34"},
    },
    "theory.tracing_examples:obligation_in_box": {
        "one percent more": _in_box_scaled(1.01),
        "not two thirds": _in_box_scaled(1.5),
        "privacy alone": lambda **given: tracing_bound.least_error_in_box(
            **{**given, "reach": 3 * given["reach"]}
        ),
    },
    "theory.tracing_bound:obligation_limits": {
        "of one record": _least_error(n=1),
        "no prior": _least_error(spread=None, epsilon=Fraction(1)),
        "square of the variances": lambda **given: tracing_bound.least_error(
            **{**given, "variances": [v**2 for v in given["variances"]]}
        ),
    },
    "theory.tracing_bound:obligation_rotation": {
        "the diagonal": lambda matrix: [matrix[i][i] for i in range(len(matrix))],
        "none too small": lambda matrix: [v * (1 + 1e-6) for v in tracing_bound.spectrum(matrix)],
        "the largest": lambda matrix: tracing_bound.spectrum(matrix)[-1:],
    },
    "theory.fingerprinting:obligation_scores_add_up": {
        "no prior": lambda roots, total, alpha, spread: real(roots),
        "half the loss": lambda roots, total, alpha, spread: (
            real(roots) - alpha * mp.sqrt(real(total)) / (2 * spread)
        ),
        "the mean's square": lambda roots, total, alpha, spread: (
            real(roots) - alpha * mp.sqrt(real(total) / 2) / spread
        ),
    },
    "theory.fingerprinting:obligation_scores_add_up_in_box": {
        "all, not two thirds": lambda roots, total, alpha, reach: (
            real(roots) - 2 * alpha * mp.sqrt(real(total) / 3) / reach
        ),
        "half the loss": lambda roots, total, alpha, reach: (
            2 * real(roots) / 3 - alpha * mp.sqrt(real(total) / 3) / reach
        ),
        "the normal prior's": fingerprinting._least_scores,
    },
    "theory.fingerprinting:obligation_identity": {
        "half": lambda reach, p: (reach**2 - p**2) / 2,
        "no square": lambda reach, p: reach * (reach - abs(p)),
        "unweighted": lambda reach, p: reach**2,
    },
    "theory.fingerprinting:obligation_isotropic": {
        "nine": lambda e, d, alpha: fingerprinting.records_needed_plainly(e, d, alpha) * 12 / 9,
        "d squared": lambda e, d, alpha: d * fingerprinting.records_needed_plainly(e, d, alpha),
        "sqrt of epsilon": lambda e, d, alpha: (
            fingerprinting.records_needed_plainly(e, d, alpha) * max(1, e)
        ),
    },
    "theory.buckets:obligation_buckets": {
        "from the largest": _at_largest_noise,
        "from all": _next_bucket,
        "nothing added": lambda deviations: [Fraction(0) for _ in deviations],
    },
    "theory.packing:obligation_lattice": {
        "alpha apart": lambda d, reach, alpha: (mp.mpf(reach) / real(alpha)) ** d,
        "every integer point": lambda d, reach, alpha: mp.mpf(2 * reach + 1) ** d,
    },
    "theory.packing:obligation_codes": {
        "balls that do not meet": lambda d, apart: packing.code_count(d, (apart + 1) // 2),
        "one bit less": lambda d, apart: packing.code_count(d, max(1, apart - 1)),
    },
    "theory.packing:obligation_success": {
        "without the means' own": lambda e, n, count, adjacency: mp.exp(real(n * e)) / count,
        "one step": lambda e, n, count, adjacency: packing.most_success(e, 1, count, adjacency),
        "adjacencies swapped": lambda e, n, count, adjacency: packing.most_success(
            e, n, count, next(other for other in Adjacency if other is not adjacency)
        ),
        "one mean more": lambda e, n, count, adjacency: packing.most_success(
            e, n, count + 1, adjacency
        ),
    },
    "theory.packing:obligation_records": {
        "twice": _records_needed(lambda n: 2 * n),
        "half": _records_needed(lambda n: n / 2),
        "failures forgotten": lambda **given: packing.records_needed(
            **{**given, "beta": Fraction(0)}
        ),
    },
}
