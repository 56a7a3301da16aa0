"""The affinity of two laws on bins, beside the sums that define it and exact errors of tests."""

from __future__ import annotations

from itertools import product
from math import comb
from typing import Any

import mpmath as mp

from spec.theory import discrete_laws


def _told_apart(g: Any, n: int) -> Any:
    """Compute the total variation of n records of two bins, (1 + g) / 2 and (1 - g) / 2 in either
    order."""
    high, low = (1 + g) / 2, (1 - g) / 2
    sides = (
        (comb(n, k) * high**k * low ** (n - k), comb(n, k) * low**k * high ** (n - k))
        for k in range(n + 1)
    )
    return mp.fsum(abs(one - other) for one, other in sides) / 2


def test_affinity_is_the_sum_of_roots_and_bounds_every_test() -> None:
    """Bound tests: by affinity n records are told apart at least as well as they are, and one
    record of one pair exactly so: an affinity that is larger would promise errors that nobody
    has to make."""
    for g, pairs in product(map(mp.mpf, ("0.01", "0.3", "0.9")), (1, 2, 25)):
        both = 2 * mp.sqrt((1 + g) * (1 - g)) / (2 * pairs)
        own = both + mp.mpf(pairs - 1) / pairs
        affinity = discrete_laws._affinity(g, pairs)
        assert abs(affinity - own) < mp.mpf("1e-12")
    for g, n in product(map(mp.mpf, ("0.01", "0.3", "0.9")), (1, 2, 7)):
        most = mp.sqrt(1 - discrete_laws._affinity(g, 1) ** (2 * n))
        exact = _told_apart(g, n)
        assert exact <= most + mp.mpf("1e-12")
        assert n > 1 or exact >= most - mp.mpf("1e-12")
