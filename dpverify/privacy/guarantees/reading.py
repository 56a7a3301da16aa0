"""Guarantees read from text, and calibrated to a budget."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

from dpverify.privacy.calibration import Unreachable, largest_sufficient
from dpverify.privacy.guarantees.approximate import ApproxDP, PerfectPrivacy, PureDP
from dpverify.privacy.guarantees.base import Guarantee
from dpverify.privacy.guarantees.concentrated import ZeroConcentratedDP
from dpverify.privacy.guarantees.gaussian import ApproximateGaussianDP, GaussianDP
from dpverify.privacy.guarantees.group import Group
from dpverify.privacy.guarantees.lifted import Lifted
from dpverify.privacy.guarantees.noise import BoundedRange, DiscreteLaplaceShift
from dpverify.privacy.guarantees.profile import Profile
from dpverify.privacy.guarantees.smooth import SmoothLaplace
from dpverify.privacy.numbers import exact

_CLOSE, _TABLED = Fraction(1, 1 << 50), Fraction(1, 1 << 20)
AnyGuarantee = TypeVar("AnyGuarantee", bound=Guarantee)

_EXAMPLES = (
    "'pure(1)', 'approx(1, 1e-6)', 'zcdp(0.5)', 'gaussian(1)', 'agaussian(1, 1e-6, 0)', "
    "'profile(10 * pure(0.1), gaussian(0.5))' or 'perfect'"
)


def parse_guarantee(text: str) -> Guarantee:
    """Read the ledger's spelling, for example "approx(1, 1e-6)"; raises ValueError."""
    if not isinstance(text, str):
        raise TypeError(f"{text!r:.80} is no text; write {_EXAMPLES}.")
    match = re.fullmatch(r"\s*([\w-]+)\s*(?:\((.*)\))?\s*", text, re.DOTALL)
    name = match[1] if match else ""
    arguments = _split(match[2]) if match and match[2] else []
    reader = _READERS.get((name, len(arguments)))
    try:
        if reader is not None:
            return reader(*arguments)
        if name == "profile" and match is not None and match[2] is not None:
            return _profile(arguments)
    except TypeError as error:
        raise ValueError(f"{text!r} is not a guarantee: {error}") from None
    raise ValueError(f"{text!r} is not a guarantee; write {_EXAMPLES}.")


def _split(arguments: str) -> list[str]:
    """Split at the commas that are not inside parentheses."""
    parts, depth = [""], 0
    for character in arguments:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _profile(arguments: list[str]) -> Profile:
    parts: list[tuple[Guarantee, int]] = []
    events = {"delta": "0", "tv": "0"}
    for argument in arguments:
        event = re.fullmatch(r"(delta|tv)\s+(\S+)", argument)
        if event:
            events[event[1]] = event[2]
            continue
        times = re.match(r"(\d+)\s*\*\s*", argument)
        part = parse_guarantee(argument[times.end() :] if times else argument)
        parts.append((part, int(times[1]) if times else 1))
    return Profile(parts, events["delta"], events["tv"])


def _whole(text: str) -> int:
    value = exact(text, "number")
    if value.denominator != 1:
        raise ValueError(f"{text} is not a whole number.")
    return value.numerator


def _square(mu: str) -> Fraction:
    root = re.fullmatch(r"sqrt\((.*)\)", mu)
    return exact(root[1], "mu^2") if root else exact(mu, "mu") ** 2


_READERS: dict[tuple[str, int], Callable[..., Guarantee]] = {
    ("perfect", 0): PerfectPrivacy,
    ("pure", 1): PureDP,
    ("approx", 2): ApproxDP,
    ("zcdp", 1): ZeroConcentratedDP,
    ("gaussian", 1): lambda mu: GaussianDP.of_square(_square(mu)),
    ("agaussian", 3): lambda mu, delta, tv: ApproximateGaussianDP.of_square(_square(mu), delta, tv),
    ("range", 1): BoundedRange,
    ("laplace-shift", 2): lambda shift, scale: DiscreteLaplaceShift(_whole(shift), scale),
    ("smooth-laplace", 2): SmoothLaplace,
    ("lifted", 2): lambda moved, base: Lifted(parse_guarantee(base), exact(moved, "moved")),
    ("group", 2): lambda size, base: Group(parse_guarantee(base), _whole(size)),
}


def calibrate(family: Callable[[Fraction], AnyGuarantee], budget: Guarantee) -> AnyGuarantee:
    """Return the weakest guarantee of a one-parameter family that still implies the budget.

    family: from a parameter to a guarantee, weaker as the parameter grows: ``GaussianDP``,
    ``ZeroConcentratedDP``, ``lambda mu: ApproximateGaussianDP(mu, "1e-7")``.

    The parameter is within 2^-50 (compositions: 2^-20) of the best one, on the safe side.
    Raises ValueError when there is none.

    >>> print(calibrate(PureDP, ApproxDP(1, 0)))
    pure(1)
    """
    if not callable(family):
        raise TypeError(f"family = {family!r:.80}; give a function such as GaussianDP.")

    def holds(parameter: Fraction) -> bool:
        return family(parameter).implies(budget)

    try:
        tabled = isinstance(
            family(Fraction(1)), (Profile, Group, Lifted)
        )  # these are slow, and enclosed to 1e-4
        return family(largest_sufficient(holds, gap=_TABLED if tabled else _CLOSE))
    except Unreachable:
        tried = family(Fraction(1))
        raise ValueError(
            f"No parameter solves this: {tried} "
            f"{'implies' if tried.implies(budget) else 'does not'}"
            f"{'' if tried.implies(budget) else ' imply'} {budget}, and so it is for every other "
            "parameter. Give another budget or another family."
        ) from None


@lru_cache(maxsize=64)
def points_of(guarantee: Guarantee) -> tuple[tuple[Fraction, Fraction], ...]:
    """Return points (epsilon, delta) of the guarantee where a test has a chance to refute it.

    For (epsilon, delta)-DP that is its own point; for a whole profile, points from
    epsilon = 0 to where delta is 1/1000 of what it is there (above its floor).
    """
    if isinstance(guarantee, (PureDP, ApproxDP)) or guarantee.is_perfect():
        return (point_of(guarantee),)
    floor = guarantee.delta_floor
    top = guarantee.delta_at(0).upper
    points = [(Fraction(0), top)]
    for share in map(Fraction, ("1/2", "1/5", "1/20", "1/100", "1/1000")):
        epsilon = guarantee.epsilon_at(floor + (top - floor) * share).upper
        points.append((epsilon, guarantee.delta_at(epsilon).upper))
    return tuple(points)


def point_of(guarantee: Guarantee) -> tuple[Fraction, Fraction]:
    """Return an (epsilon, delta) that the guarantee promises.

    It is the guarantee's own, or at delta = 1/1000 above its floor.
    """
    if isinstance(guarantee, (PureDP, ApproxDP)):
        return guarantee.epsilon, guarantee.delta
    if guarantee.is_perfect():
        return Fraction(0), Fraction(0)
    floor = guarantee.delta_floor
    delta = min(floor * 3 + Fraction(1, 1000), (floor + 1) / 2)
    return guarantee.epsilon_at(delta).upper, delta
