"""False twins of the obligations about signs and their second moments."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest

from spec import sign_covariance
from spec.theory import sign_locations, sign_readings, signs
from tests.grid.test_outer_products import TWINS as MOMENTS


def _linear(spectrum: Any) -> Any:
    """Return the shares of squares for those of signs."""
    return [one / mp.fsum(spectrum) for one in spectrum]


def _without_floor_bits(public: Any, row: Any, precision: int, floor: Any) -> Any:
    """Take no power of two out."""
    made = signs.next_map(public, row, precision, floor)
    return tuple(v << 3 for v in made)


def _transposed(public: Any, row: Any, precision: int, floor: Any) -> Any:
    """Count what is above the diagonal with the wrong sign."""
    d = 2
    turned = (*row[:d], *(-v for v in row[d:]))
    return signs.next_map(public, turned, precision, floor)


def _by_squares(public: Any, row: Any, precision: int, floor: Any) -> Any:
    """Shares, not lambda, decide the step."""
    root = [mp.sqrt(v) for v in row[:2]]
    least = min(root)
    return tuple(int(v) for v in (least / root[0] * 2**16, 0, 0, least / root[1] * 2**16))


def _located(**changes: Callable[..., Any]) -> Any:
    """Return the law of the location with some numbers changed."""

    def twin(d: int) -> Any:
        own = sign_locations.sign_location(d)
        new = {name: change(d, getattr(own, name)) for name, change in changes.items()}
        return own._replace(**new)

    return twin


TWINS: dict[str, dict[str, Any]] = {
    **MOMENTS,
    "theory.signs:obligation_sphere_spectrum": {
        "squares": _linear,
        "roots": lambda spectrum: [
            mp.sqrt(one) / mp.fsum(map(mp.sqrt, spectrum)) for one in spectrum
        ],
    },
    "theory.signs:obligation_spectrum_of": {
        "squares": _linear,
        "roots inverted": lambda shares: [one**2 for one in shares],
    },
    "theory.signs:obligation_next_map": {
        "too long": _without_floor_bits,
        "the wrong way round": _transposed,
        "by shares": _by_squares,
    },
    "theory.sign_locations:obligation_sign_location": {
        "scatter of the records": _located(scatter=lambda d, own: mp.mpf(1)),
        "of the location alone": _located(excess=lambda d, own: own + 1),
        "efficient": _located(excess=lambda d, own: mp.mpf(0)),
        "nothing left": _located(left=lambda d, own: mp.mpf(0)),
        "one dimension less": lambda d: sign_locations.sign_location(d - 1),
    },
    "sign_covariance:obligation_loss": {
        "a little less": Fraction(999, 1000),
        "a little more": Fraction(1025, 1000),
    },
}


def _patched(name: str, change: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    where = sign_covariance if hasattr(sign_covariance, name) else sign_readings

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(where, name)
        patch.setattr(where, name, lambda *given: change(right, *given))

    return plant


FAULTS: dict[str, list[Callable[[pytest.MonkeyPatch], None]]] = {
    "sign_covariance:obligation_loss": [
        # every round as if it were the only one; one outer product for another, as long as one
        _patched("share", lambda right, p, t: Fraction(1)),
        _patched("moves", lambda right, p: Fraction(1, 2) * right(p)),
    ],
    "sign_covariance:obligation_lower_bound_is_below_error": [
        _patched("lower_bound", lambda right, *given: 2 * right(*given)),
        _patched("lower_bound", lambda right, *given: right(*given) / 2),
    ],
}
