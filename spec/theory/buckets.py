"""Buckets of similar deviations: an isotropic lower bound applied to anisotropic vectors.

At the price of two logarithms, which tracing_bound.py does not pay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from dpverify.privacy import Source, SourceStatus, states

from .fingerprinting import records_needed_plainly
from .laws import real
from .obligations import require
from .tracing_bound import records_needed

BUCKETS = Source(
    "DJYZZ24",
    "Theorem 5.3, buckets of like variances",
    SourceStatus.CHANGED_CONSTANTS,
    note="a bucket's least deviation where the proof takes its largest: noise can only be added",
)


@states(BUCKETS)
def buckets(deviations: Sequence[Fraction]) -> list[tuple[Fraction, ...]]:
    """Return the buckets S_k of deviations in sigma_1 (2^-k, 2^(1 - k)], k = 1, ..., max(1,
    ceil(log2 d)).

    Smaller deviations are left out: there are fewer than d, none above sigma_1 / d, so their
    sum is below sigma_1.
    """
    largest, count = max(deviations), max(1, (len(deviations) - 1).bit_length())
    groups: list[tuple[Fraction, ...]] = []
    for k in range(1, count + 1):
        top = largest / 2 ** (k - 1)
        groups.append(tuple(sorted((s for s in deviations if top / 2 < s <= top), reverse=True)))
    return groups


@states(BUCKETS)
def best_bucket(deviations: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return the bucket S of largest |S| min S.

    That is at least half of |S| max S, which for the bucket of the largest sum is at least the
    sum of all deviations over the number of buckets and one.
    """
    return max(buckets(deviations), key=lambda s: len(s) * min(s, default=Fraction(0)))


@states(BUCKETS)
def added_noise(deviations: Sequence[Fraction]) -> list[Fraction]:
    """Return variances to add to records of N(p, s^2 I_S) to make them N(p, Sigma): an estimate
    from these is one from those.

    Here s is the least deviation of the best bucket S, and other coordinates are 0.

    The least, not the largest: noise can only be added.
    """
    bucket = list(best_bucket(deviations))
    least, added = min(bucket), list[Fraction]()
    for deviation in deviations:
        if deviation in bucket:
            bucket.remove(deviation)
            added.append(deviation**2 - least**2)
        else:
            added.append(deviation**2)
    return added


@states(BUCKETS)
def records_needed_by_buckets(
    epsilon: Fraction, alpha: Fraction, deviations: Sequence[Fraction]
) -> Fraction:
    """Return |S| s / (12 alpha epsilon) of the best bucket, under the conditions of
    ``records_needed_plainly``.

    It is at least tr Sigma^(1/2) / (24 (L + 1) alpha epsilon), L buckets.
    """
    bucket = best_bucket(deviations)
    return records_needed_plainly(epsilon, len(bucket), alpha / min(bucket))


# --- obligations --------------------------------------------------------------------------------

_SPECTRA: dict[str, tuple[Fraction, ...]] = {
    "one": (Fraction(3),),
    "equal": (Fraction(1),) * 12,
    "harmonic": tuple(Fraction(1, i) for i in range(1, 40)),
    "powers": tuple(Fraction(1, 2**i) for i in range(17)),
    "edges": tuple(Fraction(5, 2**i) for i in (0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3)),
    "falling slowly": tuple(Fraction(20, 20 + i) for i in range(20)),
    "one large": (Fraction(100), *(Fraction(1, 100),) * 63),
    "a step": (*(Fraction(1),) * 3, *(Fraction(1, 7),) * 50),
}


@states(BUCKETS)
def obligation_buckets(
    claimed: Callable[[Sequence[Fraction]], list[Fraction]] = added_noise,
) -> int:
    """Check that the added noise has nonnegative variances and makes Sigma from as many equal
    coordinates as the bound counts.

    The bound is at least a share 1 / (24 (L + 1)) of tr Sigma^(1/2) / (alpha epsilon), and at
    most the one without buckets.
    """
    cases, epsilon, alpha = 0, Fraction(1), Fraction(1, 10)
    for name, deviations in _SPECTRA.items():
        least, noise = min(best_bucket(deviations)), claimed(deviations)
        require(min(noise) >= 0, f"{name}: a variance of {min(noise)} cannot be added")
        before = [s**2 - added for s, added in zip(deviations, noise, strict=True)]
        like = [v for v in before if v]
        require(set(like) == {least**2}, f"{name}: {like} are not all {least**2}")
        needed = records_needed_by_buckets(epsilon, alpha, deviations)
        counted = len(like) * least / (12 * alpha * epsilon)
        require(needed == counted, f"{name}: {needed} counted as {counted}")
        share = sum(deviations) / (24 * (len(buckets(deviations)) + 1) * alpha * epsilon)
        require(needed >= share, f"{name}: {needed} is below {share}")
        variances = [s**2 for s in deviations]
        direct = records_needed(
            epsilon=epsilon, delta=Fraction(0), variances=variances, alpha=real(alpha)
        )
        require(real(needed) <= direct, f"{name}: {needed} beyond {direct}")
        cases += 1
    return cases
