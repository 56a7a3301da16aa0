"""Parts of the bound on the error of a mean of records that agree, against exact probabilities."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp
import pytest

from spec.theory import strangers
from spec.theory.gaussian_laws import RoundedGaussianLaw
from spec.theory.laws import DiscreteLaplaceLaw, real, real_exponential
from spec.theory.rescaled_errors import least_quantile


def _beyond(length: Any, n: int, d: int) -> Any:
    """Sum P(|x_i - mean| > length) over n standard normal records of d columns: x_i less the
    mean has the variance 1 - 1 / n."""
    square = length**2 / (1 - mp.mpf(1) / n)
    return n * mp.gammainc(mp.mpf(d) / 2, square / 2, mp.inf, regularized=True)


def _holds(longest: Any) -> bool:
    """Check that no record is farther but for beta, and that some are where lengths are 0.6 of
    that."""
    given = list(product((8, 40, 10**6), (1, 10, 300), map(Fraction, ("1/20", "1/10000"))))
    lengths = [longest((1,) * d, n, beta) for n, d, beta in given]
    pairs = list(zip(lengths, given, strict=True))
    return all(_beyond(own, n, d) <= real(beta) for own, (n, d, beta) in pairs) and all(
        _beyond(mp.mpf("0.6") * own, n, d) > real(beta) for own, (n, d, beta) in pairs
    )


def test_the_farthest_record_is_within_its_bound() -> None:
    """Compare with the exact chi-square law; with half of it, without n or without the trace it
    is not."""
    assert _holds(strangers.longest)
    assert not _holds(lambda *own: strangers.longest(*own) / 2)
    assert not _holds(lambda values, n, beta: strangers.longest(values, 1, beta))
    assert not _holds(lambda values, n, beta: strangers.longest(values[:1], n, beta))


@pytest.mark.parametrize("beta", ["1/20", "1/1000000000"])
@pytest.mark.parametrize("kind", [RoundedGaussianLaw, DiscreteLaplaceLaw])
def test_the_released_number_is_rarely_lower(kind: Any, beta: str) -> None:
    """Bound its error: by more than t it is lower with probability at most beta; by t or more it
    is more often."""
    for scale in map(Fraction, ("1/2", "8", "345/2")):
        number: Any = kind((1000,), scale) if kind is RoundedGaussianLaw else kind(1000, scale)
        t = least_quantile(number, Fraction(beta))

        def below(most: int, number: Any = number) -> Any:
            if isinstance(number, DiscreteLaplaceLaw):
                return number.at_most(most, real_exponential)
            return mp.ncdf((most - 1000 + mp.mpf(1) / 2) / real(number.scale))

        assert below(1000 - t - 1) <= real(Fraction(beta)) < below(1000 - t)
