"""False twins of the obligations about whitening by second moments in rounds."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from spec.theory import preconditioning
from spec.theory.laws import real
from spec.theory.preconditioning import Public, State, sandwich

Plant = Callable[[pytest.MonkeyPatch], None]


def _as_on_the_slide(kappa: Any, eta: Any, nu: Any, theta: Any, divisor: Any) -> Any:
    """I <= A S A to the letter, but for what sampling takes."""
    bounds = sandwich(kappa, eta, nu, theta, divisor)
    return bounds and ((1 - eta) / (1 + eta), bounds[1])


def _three_quarters(kappa: Any, eta: Any, nu: Any, theta: Any, divisor: Any) -> Any:
    """A S A <= 3 / 4 kappa I, whatever noise and sampling are."""
    bounds = sandwich(kappa, eta, nu, theta, divisor)
    return bounds and (bounds[0], Fraction(3, 4))


def _no_noise(kappa: Any, eta: Any, nu: Any, theta: Any, divisor: Any) -> Any:
    """The threshold is met to the letter."""
    bounds = sandwich(kappa, eta, nu, theta, divisor)
    return bounds and (bounds[0], max((1 + eta) / divisor**2, theta) / (1 - eta))


def _no_sampling(kappa: Any, eta: Any, nu: Any, theta: Any, divisor: Any) -> Any:
    """Compute as if second moments were the covariance."""
    bounds = sandwich(kappa, eta, nu, theta, divisor)
    return bounds and (bounds[0] * (1 + eta) / (1 - eta), bounds[1])


def _far_off(kappa: Any, eta: Any, nu: Any, theta: Any, divisor: Any) -> Any:
    """An upper end that nothing comes near."""
    bounds = sandwich(kappa, eta, nu, theta, divisor)
    return bounds and (bounds[0], 2 * bounds[1])


def _no_slack(outcomes: Any, public: Public) -> State:
    """Compute as if there were half of the noise."""
    more = Public(
        public.d, public.count, public.noise / 2, public.kappa, public.long, public.precision
    )
    return preconditioning.spectral_map_after(outcomes, more)


def _never_shorter(outcomes: Any, public: Public) -> State:
    """The largest deviation is what it was."""
    row, _ = preconditioning.recursive_map_after(outcomes, public)
    return row, real(public.long)


TWINS: dict[str, dict[str, Any]] = {
    "theory.preconditioning:obligation_certificate": {
        "noise once": lambda least, eta, nu: least / ((1 + eta) * least + eta + nu),
        "no sampling": lambda least, eta, nu: least / (least + 2 * nu),
        "noise three times": lambda least, eta, nu: least / ((1 + eta) * least + eta + 3 * nu),
    },
    "theory.preconditioning:obligation_sandwich": {
        "as on the slide": _as_on_the_slide,
        "three quarters": _three_quarters,
        "no noise": _no_noise,
        "no sampling": _no_sampling,
        "far off": _far_off,
    },
    "theory.preconditioning:obligation_spectral_map": {"no slack": _no_slack},
    "theory.preconditioning:obligation_recursive_map": {"never shorter": _never_shorter},
}


def _transposed(row: Any, d: int) -> Any:
    return tuple(row[j * d + i] for i, j in product(range(d), repeat=2))


def _wrong_order(patch: pytest.MonkeyPatch) -> None:
    """A U^(-1/2), not U^(-1/2) A: steps are symmetric."""
    right = preconditioning.stepped

    def stepped(step: Any, row: Any, d: int) -> Any:
        made, bits = right(step, _transposed(row, d), d)
        return _transposed(made, d), bits

    patch.setattr(preconditioning, "stepped", stepped)


def _bits_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Images are taken to be as long as the step says."""
    right = preconditioning.stepped
    patch.setattr(preconditioning, "stepped", lambda *given: (right(*given)[0], 0))


FAULTS: dict[str, list[Plant]] = {
    "theory.preconditioning:obligation_spectral_map": [_wrong_order, _bits_forgotten],
    "theory.preconditioning:obligation_recursive_map": [_wrong_order, _bits_forgotten],
}
