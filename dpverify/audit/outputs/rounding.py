"""Outputs with floats rounded to multiples of a step, to look beyond their last bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dpverify.audit.outputs.columns import Kept

# number of steps beyond which a float is a multiple itself or has coarser bits than the step
_EXACT = 2.0**52


def rounded(output: Any, step: float) -> Any:
    """Round all floats in a number, an array, a list, a tuple or a dict, and those of an output
    taken apart.

    A zero has no sign afterwards. Integers, texts and what else there is stay as they are.
    """
    kind = type(output)
    if kind is list or kind is tuple:
        return kind(rounded(one, step) for one in output)
    if kind is dict:
        return {key: rounded(one, step) for key, one in output.items()}
    if isinstance(output, Kept):
        return replace(output, numbers=_multiples(output.numbers, step))
    if isinstance(output, (float, np.floating)):
        return np.asarray(output).dtype.type(_multiples(np.asarray(output), step))
    if isinstance(output, (complex, np.complexfloating)):
        return complex(rounded(output.real, step), rounded(output.imag, step))
    if kind is np.ndarray and output.dtype.kind == "f":
        return _multiples(output, step)
    if kind is np.ndarray and output.dtype.kind == "c":
        return _multiples(output.real, step) + 1j * _multiples(output.imag, step)
    return output


def _multiples(numbers: Any, step: float) -> Any:
    with np.errstate(all="ignore"):
        steps = np.rint(numbers / step)
        near = np.where(np.abs(steps) < _EXACT, steps * step + 0.0, numbers)
    return near.astype(numbers.dtype)
