"""``audit_calibration``: a noise parameter, of any library, against the exact profile of that
noise.

No draw shows that delta is 1e-9 where 1e-12 was claimed; the profile does, between two rational
ends. The decision is the kernel's: it uses the enclosures that the kernel's own claims rest on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

from dpverify.audit.portable import plain_floats
from dpverify.audit.verdicts import Asked, Verdict
from dpverify.privacy import (
    ApproxDP,
    DiscreteLaplaceShift,
    Exact,
    GaussianDP,
    Guarantee,
    PureDP,
    exact,
    points_of,
    render,
)
from dpverify.privacy.balls import Enclosure, ball, enclose
from dpverify.privacy.calibration import Unreachable, smallest_sufficient
from dpverify.privacy.numbers import approximately, to_float

_GAP = Fraction(1, 1 << 30)  # relative gap to the least scale that suffices, from above
_ZERO = Enclosure(Fraction(0), Fraction(0))


class Noise(Enum):
    """Kind of noise that is added; it decides what the scale and the sensitivity mean.

    GAUSSIAN: the standard deviation, and the L2 sensitivity. LAPLACE: b of the density
    exp(-|x| / b) / (2 b), and the L1 sensitivity. DISCRETE_LAPLACE: t of the masses
    proportional to exp(-|z| / t) on the integers, and the L1 sensitivity, a whole number: both
    in units of the grid.
    """

    GAUSSIAN = "Gaussian"
    LAPLACE = "Laplace"
    DISCRETE_LAPLACE = "discrete Laplace"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, repr=False)
class CalibrationResult(Asked):
    """Comparison of a noise's delta with the claimed one, at ``epsilon``.

    verdict: CONSISTENT if the noise surely has what is claimed, VIOLATED if it surely has not:
    both are proofs. POWERLESS if the enclosure cannot tell, because the numbers agree in 29
    digits.
    delta: an enclosure of the noise's delta. claimed: the claimed delta. needed: the least
    scale that meets the claim, rounded up in its 30th bit; None where no scale does.
    """

    verdict: Verdict
    noise: Noise
    scale: Fraction
    sensitivity: Fraction
    claim: Guarantee
    epsilon: Fraction
    delta: Enclosure
    claimed: Fraction
    needed: Fraction | None

    @property
    def is_consistent(self) -> bool:
        """True if the noise surely has the claimed guarantee."""
        return self.verdict is Verdict.CONSISTENT

    @property
    def times(self) -> float:
        """Ratio of the noise's delta to the claimed one, to a float's precision; infinite if 0
        is claimed.
        """
        if not self.claimed:
            return float("inf") if self.delta.upper else 0.0
        return to_float(self.delta.upper / self.claimed)

    def __str__(self) -> str:
        shown = "the claimed 0" if not self.claimed else f"{approximately(self.claimed)} claimed"
        times = "" if not self.claimed else f", {self.times:.4g} times what is claimed"
        would = (
            "no scale would do"
            if self.needed is None
            else f"a scale of {to_float(self.needed):.8g} would do"
        )
        return (
            f"{self.verdict}: {self.noise} noise of scale {approximately(self.scale)} for "
            f"sensitivity {render(self.sensitivity)} has delta = "
            f"{approximately(self.delta.upper)} at epsilon {approximately(self.epsilon)}, "
            f"against {shown}{times}; {would}."
        )

    def __repr__(self) -> str:
        return f"<CalibrationResult {self}>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; exact numbers are strings that read back, delta's ends
        are floats.
        """
        made: dict[str, Any] = plain_floats(
            {
                "result": "CalibrationResult",
                "verdict": str(self.verdict),
                "noise": str(self.noise),
                "scale": render(self.scale),
                "sensitivity": render(self.sensitivity),
                "claim": str(self.claim),
                "epsilon": render(self.epsilon),
                "delta": [to_float(self.delta.lower), to_float(self.delta.upper)],
                "claimed": render(self.claimed),
                "times": self.times,
                "needed": None if self.needed is None else render(self.needed),
            }
        )
        return made


def audit_calibration(
    sigma: Exact,
    claim: Guarantee,
    sensitivity: Exact,
    *,
    noise: Noise = Noise.GAUSSIAN,
) -> CalibrationResult:
    """Compare a noise's scale with what is claimed of it, exactly; nothing is drawn.

    sigma: the scale of the noise, and sensitivity: how far neighbors move the value, as
    ``Noise`` says; so adjacency does not matter here. A float is the binary number that it is.
    claim: (epsilon, delta)-DP or pure DP; for Gaussian noise, Gaussian DP as well. The profile
    of a sum of several such values, each with noise of its own, is not worse than that of one
    that moves by all of the sensitivity.

    Raises TypeError or ValueError for another claim or noise, for numbers that are not
    positive, and for a sensitivity that is not whole under DISCRETE_LAPLACE.

    >>> calibration = audit_calibration("0.47", ApproxDP(10, "1e-5"), 1)
    >>> print(calibration.verdict, f"{calibration.times:.2f} times too large")
    VIOLATED 4.78 times too large
    """
    if not isinstance(noise, Noise):
        names = ", ".join(f"Noise.{one.name}" for one in Noise)
        raise TypeError(
            f"noise = {noise!r}; write one of {names}. Rounded Gaussian noise is as private as "
            "Gaussian noise, or more."
        )
    scale, moved = _positive(sigma, "sigma"), _positive(sensitivity, "sensitivity")
    if noise is Noise.DISCRETE_LAPLACE and moved.denominator != 1:
        raise ValueError(
            f"sensitivity = {sensitivity} is no whole number; give it, and sigma, in units of "
            "the grid."
        )
    _check_claim(claim, noise)
    points = points_of(claim)

    def most(scale: Fraction) -> tuple[Fraction, Enclosure, Fraction]:
        """Return the point where the ratio of delta to the claimed one is largest."""
        tried = [(at, delta_of(noise, scale, moved, at), delta) for at, delta in points]
        return max(tried, key=lambda one: one[1].upper / one[2] if one[2] else bool(one[1].upper))

    def meets(scale: Fraction) -> bool:
        _, actual, claimed = most(scale)
        return actual.upper <= claimed

    epsilon, delta, claimed = most(scale)
    if isinstance(claim, GaussianDP):
        sound: bool | None = (moved / scale) ** 2 <= claim.mu_squared
    elif noise is Noise.GAUSSIAN and not claimed:
        sound = False  # the losses of Gaussian noise have no bound
    else:
        sound = True if delta.upper <= claimed else False if delta.lower > claimed else None
    verdict = _VERDICTS[sound]
    needed = _least(meets, claim, noise)
    return CalibrationResult(verdict, noise, scale, moved, claim, epsilon, delta, claimed, needed)


_VERDICTS = {True: Verdict.CONSISTENT, False: Verdict.VIOLATED, None: Verdict.POWERLESS}


def delta_of(noise: Noise, scale: Fraction, sensitivity: Fraction, epsilon: Fraction) -> Enclosure:
    """Return the exact profile of the noise at ``epsilon``, for a shift by the full sensitivity.

    Laplace: the loss is (sensitivity - 2 x) / b between its ends, so delta is
    1 - e^((epsilon - s) / 2) below s = sensitivity / b, and 0 from there on.
    """
    if noise is Noise.GAUSSIAN:
        return GaussianDP(sensitivity / scale).delta_at(epsilon)
    if noise is Noise.DISCRETE_LAPLACE:
        return DiscreteLaplaceShift(int(sensitivity), scale).delta_at(epsilon)
    loss = sensitivity / scale
    if epsilon >= loss:
        return _ZERO
    return enclose(lambda: -(ball(epsilon - loss) / 2).expm1())


def _least(meets: Callable[[Fraction], bool], claim: Guarantee, noise: Noise) -> Fraction | None:
    """Return the least scale that meets the claim; None if no scale does, as for Gaussian noise
    under a pure claim.
    """
    if noise is Noise.GAUSSIAN and not points_of(claim)[-1][1]:
        return None
    try:
        return smallest_sufficient(meets, gap=_GAP)
    except Unreachable:
        return None


def _check_claim(claim: Any, noise: Noise) -> None:
    kinds: tuple[type[Guarantee], ...] = (ApproxDP, PureDP)
    if noise is Noise.GAUSSIAN:
        kinds = (*kinds, GaussianDP)
    if isinstance(claim, kinds):
        return
    names = "ApproxDP(1, '1e-6'), PureDP(1)" + ", GaussianDP(1)" * (noise is Noise.GAUSSIAN)
    more = (
        " Gaussian noise has rho = sensitivity^2 / (2 sigma^2), exactly."
        if noise is Noise.GAUSSIAN
        else ""
    )
    raise TypeError(
        f"claim = {claim!r} is not compared with {noise} noise; write one of {names}.{more}"
    )


def _positive(value: Exact, name: str) -> Fraction:
    number = exact(value, name)
    if number <= 0:
        raise ValueError(f"{name} = {value} is not positive; give a number above 0, say 1.")
    return number


__all__ = ["CalibrationResult", "Noise", "audit_calibration", "delta_of"]
