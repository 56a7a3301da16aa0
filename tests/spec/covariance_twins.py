"""False twins of the obligations about covariances after maps, normal fits and product
distributions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest

from dpverify.privacy import Adjacency
from spec import gaussian, gaussian_covariance, partitioned_product, product_distribution
from spec.theory import chi_square, normal_fits, orthants, whitening

Plant = Callable[[pytest.MonkeyPatch], None]


def _moved_by(factor: Fraction) -> Any:
    def twin(public: Any, d: int, constant: int) -> Any:
        row, moved = whitening.about_location(public, d, constant)
        return row, tuple(int(v * factor) for v in moved)

    return twin


def _first_rows(public: Any, d: int, constant: int) -> Any:
    row = tuple(v for i in range(d) for v in public[i * (d + 1) : i * (d + 1) + d])
    return row, whitening.about_location(public, d, constant)[1]


def _sandwich(of_noise: float, of_sampling: float) -> Any:
    """Noise, or sampling, counted in part."""

    def twin(low: Any, high: Any, d: int, n: Any, noise: Any, *rest: Any) -> Any:
        wide = normal_fits.sandwich(low, high, d, n, of_noise * noise, *rest)
        own = normal_fits.sandwich(low, high, d, n * 10**9, of_noise * noise, *rest)
        return own if not of_sampling else wide

    return twin


TWINS: dict[str, dict[str, Any]] = {
    "theory.whitening:obligation_about_location": {
        "not moved": _moved_by(Fraction(0)),
        "half as far": _moved_by(Fraction(1, 2)),
        "the other way": _moved_by(Fraction(-1)),
        "the first rows": _first_rows,
    },
    "theory.whitening:obligation_place": {
        "half the range": lambda middle: whitening.place(middle / 2),
        "to whole octaves": lambda middle: whitening.place(Fraction(round(32 * middle), 32)),
    },
    "theory.normal_fits:obligation_mean_response": {
        "of d degrees": lambda d, b: (
            normal_fits.mean_response(max(d - 1, 1), b) * (d > 1) + (d == 1)
        ),
        "of those inside": lambda d, b: chi_square.below(d + 2, b),
    },
    "theory.normal_fits:obligation_variances": {
        "as they are": lambda wanted, outside: list(wanted),
        "a little more": lambda wanted, outside: [
            v * mp.mpf("1.001") for v in normal_fits.variances_of(wanted, outside)
        ],
    },
    "theory.normal_fits:obligation_in_plane": {
        "a little more": lambda own, how: [
            v * mp.mpf("1.0001") for v in normal_fits.in_plane(own, how)
        ],
        "in the tenth digit": lambda own, how: [
            v * (1 + mp.mpf(10) ** -10) for v in normal_fits.in_plane(own, how)
        ],
        "clipped as masked": lambda own, how: normal_fits.in_plane(own, "clip"),
    },
    "theory.normal_fits:obligation_sandwich": {
        "half of the noise": _sandwich(0.25, 1),
        "no sampling": _sandwich(1, 0),
    },
    "theory.orthants:obligation_bit_sums": {
        "one less": lambda r, w, a: orthants.moved_squared(r, w, a) - 1,
        "one more": lambda r, w, a: orthants.moved_squared(r, w, a) + 1,
        "one vector": lambda r, w, a: r**2 + w**2,
        "the number is free": lambda r, w, a: orthants.moved_squared(r, 0, a),
        "two radii": lambda r, w, a: (
            4 * r**2 if a is Adjacency.REPLACE else orthants.moved_squared(r, w, a)
        ),
    },
    "partitioned_product:obligation_one_block_pays": {
        "a little less": Fraction(999, 1000),
        "a little more": Fraction(102, 100),
    },
    "partitioned_product:obligation_rounds_settle": {
        "twice": lambda k: 2 * partitioned_product.threshold(k),
        "half": lambda k: partitioned_product.threshold(k) / 2,
        "one for all": lambda k: partitioned_product.threshold(1),
    },
    "product_distribution:obligation_loss": {
        "a little less": Fraction(999, 1000),
        "a little more": Fraction(102, 100),
    },
    "product_distribution:obligation_fingerprints": {
        "of the mean": lambda moment, power: moment(power + 1) - moment(power),
        "without a half": lambda moment, power: 2 * moment(power + 1),
    },
    "gaussian_covariance:obligation_loss": {
        "a little less": Fraction(999, 1000),
        "a little more": Fraction(12, 10),
    },
    "gaussian:obligation_loss": {
        "a little less": Fraction(999, 1000),
        "a little more": Fraction(13, 10),
    },
}


def _times(module: Any, name: str, factor: Any) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(module, name)
        patch.setattr(module, name, lambda *given: factor * right(*given))

    return plant


FAULTS: dict[str, list[Plant]] = {
    "partitioned_product:obligation_one_block_pays": [
        # blocks that are none
        lambda patch: patch.setattr(partitioned_product, "block_of", lambda p, records, k: records),
        _times(partitioned_product, "scale", Fraction(7, 10)),
    ],
    "product_distribution:obligation_loss": [
        # each stage as if it were the only one
        lambda patch: patch.setattr(
            product_distribution, "shares", lambda p: (Fraction(1), Fraction(1))
        ),
    ],
    "product_distribution:obligation_lower_bound_is_below_error": [
        _times(product_distribution, "least_error", 20),
        _times(product_distribution, "least_error", mp.mpf(1) / 20),
    ],
    "gaussian_covariance:obligation_loss": [
        # the number, or the mean, is free
        _times(gaussian_covariance, "side_noise", Fraction(1, 3)),
        _times(gaussian_covariance, "moments_noise", Fraction(9, 10)),
    ],
    "gaussian_covariance:obligation_lower_bound_is_below_error": [
        _times(gaussian_covariance, "lower_bound", 2),
        _times(gaussian_covariance, "lower_bound", mp.mpf(1) / 2),
    ],
    "gaussian:obligation_loss": [_times(gaussian, "search_noise", Fraction(9, 10))],
    "gaussian:obligation_lower_bound_is_below_error": [
        _times(gaussian, "lower_bound", 2),
        _times(gaussian, "lower_bound", mp.mpf(1) / 2),
    ],
}
