"""Calibration of mechanisms to a part of the account, before a record is read, from public
numbers alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from threading import Lock
from typing import Any

import numpy as np

from dpverify.plans import Mechanism
from dpverify.privacy import Adjacency, ApproxDP, GaussianDP, Guarantee, PureDP
from dpverify.privacy.numbers import Exact, as_written
from dpverify.session.account import Account
from dpverify.session.choices import Choice


def share_of(share: Exact | None) -> Fraction | None:
    """Read a share; a float counts as the decimal number that it is written as, so ten times 0.1
    is the whole.

    Raises TypeError or ValueError outside (0, 1].
    """
    if share is None:
        return None
    part = as_written(share, "share")
    if not 0 < part <= 1:
        raise ValueError(
            f"share = {share} is outside (0, 1]: a share is a part of the whole budget. Write "
            "share='1/3' for a third of it, or '0.05' for 5%."
        )
    return part


def additive_part(account: Account, share: Fraction | None) -> Fraction:
    """Compute the share of the account's additive delta, where it adds up mu^2."""
    if share is None or account.unit == "epsilon":
        return Fraction(0)
    part = account.fraction(share, of_delta=share).gaussian
    return Fraction(0) if part is None else part.delta


def wholes_of(
    account: Account, share: Fraction | None, budget: Guarantee | None, parts: int
) -> list[Callable[[], Guarantee]]:
    """Return the guarantees that each part of an answer may have, to be tried in this order."""
    if (share is None) == (budget is None):
        raise ValueError(
            "Say what the answer may cost: share='1/3' (of the whole budget as it was at the "
            "beginning), or "
            "budget=PureDP('0.1'); one of them."
        )
    if budget is not None:
        if not isinstance(budget, Guarantee):
            raise TypeError(f"budget = {budget!r} is not a guarantee; write PureDP('0.1').")
        given = budget
        return [lambda: given if parts == 1 else given / parts]
    part = (share or Fraction(0)) / parts
    return [lambda: account.fraction(part), lambda: account.fraction(part, of_delta=part)]


def calibrated(
    choice: Choice, wholes: Sequence[Callable[[], Guarantee]], steps: int, adjacency: Adjacency
) -> Mechanism[Any]:
    """Calibrate to the first of the guarantees that some amount of noise meets."""
    refusal: ValueError | None = None
    for whole in wholes:
        try:
            budget = one_step(whole(), steps)
            return _made(choice.kind, budget, adjacency, choice.parameters)
        except NoHalf as error:  # it says less than an earlier refusal
            refusal = refusal or error
        except ValueError as error:
            refusal = error
    assert refusal is not None
    raise refusal


class NoHalf(ValueError):
    """A guarantee whose half is unknown."""


def one_step(whole: Guarantee, steps: int) -> Guarantee:
    """Return a guarantee of which two steps are at most ``whole``; for one step ``whole``
    itself.
    """
    if steps == 1:
        return whole
    if isinstance(whole, PureDP):
        half: Guarantee = PureDP(whole.epsilon / 2)
    elif isinstance(whole, GaussianDP):
        half = GaussianDP.of_square(whole.mu_squared / 4)
    elif isinstance(whole, ApproxDP):
        grown = Fraction(math.exp(whole.epsilon / 2) * (1 + 1e-9))
        half = ApproxDP(whole.epsilon / 2, whole.delta / (1 + grown))
    else:
        raise NoHalf(
            f"Under replace a record that may be left out is paid for twice, and half of {whole} "
            "is not known; declare a public "
            "value for what is missing and ask without where= and by=, or use Adjacency.ADD_REMOVE."
        )
    if not half.for_group(2).implies(whole):
        raise NoHalf(f"No half of {whole} was found; give another share.")
    return half


def _made(
    kind: type[Mechanism[Any]], budget: Guarantee, adjacency: Adjacency, given: Mapping[str, Any]
) -> Mechanism[Any]:
    """Calibrate, or reuse an earlier calibration for the same plain parameters."""
    try:
        key = _key(given)
    except TypeError:
        return _calibrate(kind, budget, adjacency, given)
    with _LOCK:
        known = _KNOWN.get((kind, budget, adjacency, key))
    if known is None:
        known = _calibrate(kind, budget, adjacency, given)
        with _LOCK:
            if len(_KNOWN) >= _MOST_KNOWN:
                _KNOWN.clear()
            _KNOWN[kind, budget, adjacency, key] = known
    return known


_KNOWN: dict[Any, Mechanism[Any]] = {}
_LOCK = Lock()
_MOST_KNOWN = 256


def _key(value: Any) -> Any:
    """Make a key of plain parameters in which 1, 1.0 and True differ. Raises TypeError for other
    objects."""
    if isinstance(value, Mapping):
        return tuple((name, _key(value[name])) for name in sorted(value))
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(_key, value))
    if type(value) in (str, int, float, bool, Fraction, type(None)):
        return type(value), value
    raise TypeError


def _calibrate(
    kind: type[Mechanism[Any]], budget: Guarantee, adjacency: Adjacency, given: Mapping[str, Any]
) -> Mechanism[Any]:
    """Calibrate, and check that the law can be built at all: refusals come before a spend, not
    after.
    """
    own = sorted(given.keys() & {"adjacency", "noise_multiplier", "budget"})
    if own:
        raise TypeError(
            f"{', '.join(own)}: the session gives its mechanisms these; leave them out."
        )
    mechanism = kind.calibrated_for(budget, adjacency=adjacency, **given)
    rows = max(mechanism.fewest_records(), 1)
    mechanism.law(np.zeros((rows, mechanism.columns())))
    return mechanism
