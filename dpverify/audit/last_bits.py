"""Audits of outputs whose floats are rounded first, and remarks on the bits that they do not
look at.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from dpverify.audit.attack import FixedAttack, strength
from dpverify.audit.configuration import Exhibit
from dpverify.audit.subjects import Target, is_ours

OF_BITS, BITS_TRIALS = 0.1, 20_000
"""Part of alpha, and number of draws, with which an audit of rounded outputs looks at the
outputs as they are.
"""
_STREAM = 1 << 20


def real(value: Any, name: str, example: str) -> float:
    """Convert a real number to a float. Raises TypeError for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        kind = type(value).__name__
        raise TypeError(f"{name} = {value!r} is a {kind}; write a number, as {name}={example}.")
    return float(value)


def step_of(subject: Any, rounded: float | None) -> float:
    """Return the step to which floats are rounded; 0 for no rounding."""
    if rounded is None:
        return 0.0
    step = real(rounded, "rounded", "1e-9")
    if not 0 < step < math.inf or is_ours(subject) or isinstance(subject, Exhibit):
        raise ValueError(
            f"rounded = {rounded}; give a step above 0 and far below the noise, and only for a "
            "function of your own: mechanisms of dpverify release integers."
        )
    return step


def trials_within(draws: int, step: float) -> int:
    """Return how many of so many draws per side an audit can have as its trials, if it looks at
    bits as well (``step``).
    """
    return max(draws - BITS_TRIALS, draws // 2) if step else draws


def draws_on_bits(trials: int, step: float, refuted: bool) -> int:
    """Return how many draws per side an audit of so many trials takes to look at bits."""
    return min(trials, BITS_TRIALS) if step and not refuted else 0


def on_bits(step: float, attack: FixedAttack, unrounded: Target | None) -> tuple[str, ...]:
    """Return the report's remarks on the bits that an audit of rounded outputs did not look at.

    unrounded: how to draw outputs as they are; None where the rounded ones refute the claim
    already.
    """
    if not step:
        return ()
    said = f"floats were rounded to multiples of {step:g} before anything was looked at"
    if unrounded is None:
        return (f"{said}, so no event is about their last bits",)
    seen = attack.all_pairs(unrounded, _STREAM)
    worst = max(seen, key=strength)
    if not worst.refuted:
        return (
            f"{said}; {attack.trials} draws a side as they are did not refute the claim either",
        )
    return (
        f"{said}. {attack.trials} draws a side as they are refute the claim (epsilon >= "
        f"{worst.epsilon:.4g}; event: {worst.event}): their last bits leak too, so release "
        "what is rounded",
    )
