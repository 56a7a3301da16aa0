"""Results of mechanisms: their base class, intervals for the noise, plain JSON and back, one
line of text.
"""

from __future__ import annotations

import dataclasses
import json
import math
from abc import ABC, abstractmethod
from collections import abc
from collections.abc import Iterable, Mapping
from contextlib import suppress
from fractions import Fraction
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import scipy

from dpverify.plans import Abstained
from dpverify.plans.parameters import holding
from dpverify.privacy.numbers import Exact, as_written, to_float

NoiseLaw = Literal["gaussian", "laplace"]
"""Law of the noise in a result: that of ``RoundedGaussian`` or of ``DiscreteLaplace``."""
_SHOWN = 4  # number of printed entries of a longer value
_WIDEST = 1 << 53  # larger integers are text in JSON, because many readers take them for floats
_KINDS: dict[str, type[Any]] = {"Abstained": Abstained}


class Result(ABC):
    """Base class of released results: frozen dataclasses of public numbers, computed from a
    transcript alone.

    Two results are equal if their ``to_dict`` say the same, so NaN equals NaN.
    """

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        known = _KINDS.get(cls.__name__, cls)
        # a foreign class of the same name does not replace it
        if known.__module__ == cls.__module__:
            _KINDS[cls.__name__] = cls

    # at run time a property would be taken for the default of a field of this name
    if TYPE_CHECKING:

        @property
        def value(self) -> Any:
            """The released estimate."""

    @abstractmethod
    def interval(self, level: Exact = 0.95) -> Any:
        """Return the interval (low, high), each end of the value's shape, that contains the
        value without noise with this probability.

        None where what was released allows no interval. Raises TypeError or ValueError for a
        level outside (0, 1).
        """

    def to_dict(self) -> dict[str, Any]:
        """Return the class's name as "result", and every field, in plain JSON types, for
        ``result_from``.

        Fractions, integers beyond 2^53 and numbers that are not finite are texts.
        """
        return {"result": type(self).__name__} | {
            f.name: _plain(getattr(self, f.name)) for f in _fields(self)
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and self._text() == other._text()

    def __hash__(self) -> int:
        return hash(self._text())

    def __repr__(self) -> str:
        said = (f"{name}={shown(getattr(self, name))}" for name in self._described())
        return f"{type(self).__name__}({', '.join(said)})"

    def _described(self) -> list[str]:
        """List the names of the attributes that ``repr`` shows."""
        return [f.name for f in _fields(self) if f.repr]

    def _text(self) -> str:
        return json.dumps(self.to_dict(), sort_keys=True)


def result_from(given: Mapping[str, Any]) -> Any:
    """Return the result (or ``Abstained``) that ``to_dict`` wrote as this mapping: an equal one
    of the same class.

    Raises TypeError for what is no mapping, ValueError for an unknown class and for fields that
    are missing, unknown or not of their type.
    """
    if not isinstance(given, abc.Mapping):
        raise TypeError(f"{given!r:.60} is not a mapping; give what to_dict() gave.")
    kind = _KINDS.get(str(given.get("result")))
    if kind is None:
        raise ValueError(
            f"result = {given.get('result')!r:.60} is not known; it is one of "
            f"{', '.join(sorted(_KINDS))}."
        )
    hints = get_type_hints(kind)
    names = {f.name for f in _fields(kind)}
    wrong = names ^ (set(given) - {"result"})
    if wrong:
        raise ValueError(
            f"{kind.__name__} has the fields {', '.join(sorted(names))}; missing or unknown here: "
            f"{', '.join(sorted(map(str, wrong)))}."
        )
    return kind(**{name: _read(hints[name], given[name], name) for name in names})


# --- how far noise goes ---------------------------------------------------------------------------


def tail_of(level: Exact, parts: int = 1) -> float:
    """Return the probability with which each of ``parts`` intervals may fail, so that all hold
    together at this level.

    A probability below 1e-300 is read as that: noise is never drawn that far out. Raises TypeError
    or ValueError for a level outside (0, 1).
    """
    return max(to_float((1 - holding(as_written(level, "level"), "level")) / parts), 1e-300)


def deviations(law: NoiseLaw, tail: float) -> float:
    """Return how many standard deviations noise on a fine grid exceeds, on either side, with
    this probability.
    """
    return (
        -math.log(tail) / math.sqrt(2)
        if law == "laplace"
        else -float(scipy.special.ndtri(tail / 2))
    )


def deviations_of_sum(law: NoiseLaw, tail: float) -> float:
    """Return ``deviations`` for a weighted sum of independent noises, in standard deviations of
    that sum.

    A sum of several Laplace noises is nearly normal, but one of them alone is not, so the
    larger of both laws' deviations is returned.
    """
    return max(deviations("gaussian", tail), deviations(law, tail))


def whole_deviation(law: NoiseLaw, standard_deviation: float, tail: float) -> float:
    """Return the least t, an integer or infinite, with P(|noise| > t) <= tail for integer noise
    of this deviation.

    For Laplace noise P = 2 q^(t + 1) / (1 + q), q = e^(-1 / scale). For Gaussian noise the
    square of the deviation contains 1/12 of rounding, which errs on the safe side.
    """
    if not 0 < standard_deviation < math.inf:
        return standard_deviation
    if law == "laplace":
        rate = 1 / laplace_scale(standard_deviation)
        far = math.log(2 / (tail * (1 + math.exp(-rate)))) / rate - 1
    else:
        far = deviations(law, tail) * standard_deviation - 0.5
    return max(0, math.ceil(far * (1 + 1e-12)))


def laplace_scale(standard_deviation: float) -> float:
    """Return the scale of discrete Laplace noise of this standard deviation, which is 1 /
    (sqrt(2) sinh(1 / (2 scale))).
    """
    if not standard_deviation:
        return 0.0
    return 0.5 / math.asinh(1 / (math.sqrt(2) * standard_deviation))


def laplace_tail(distance: float, one: float, other: float) -> float:
    """Return P(|X + Y| > distance) for independent Laplace noises of these scales; nearly equal
    scales count as equal.
    """
    large, small = max(one, other), min(one, other)
    if not large:
        return float(distance <= 0)
    decay, ratio = math.exp(-distance / large), small / large
    if ratio > 1 - 1e-5:
        return decay * (1 + distance / (2 * large))
    less = ratio**2 * math.exp(-distance / small) if small else 0.0
    return (decay - less) / (1 - ratio**2)


def around(value: int, reach: float) -> tuple[float, float]:
    """Return (value - reach, value + reach), as integers unless the reach is infinite."""
    return (value - reach, value + reach) if reach < math.inf else (-math.inf, math.inf)


def binomial_ends(low: float, high: float, n: float, tail: float) -> tuple[float, float]:
    """Bound the probability behind a share between low and high of n or more draws (Clopper and
    Pearson).

    The bounds widen as n falls, so a lower bound on the number of draws suffices.
    """
    few, many = low * n, high * n
    below = scipy.special.betaincinv(few, n - few + 1, tail / 2) if few > 0 else 0.0
    above = scipy.special.betaincinv(many + 1, n - many, 1 - tail / 2) if 0 < n > many else 1.0
    return float(below), float(above)


# --- plain types, and back ------------------------------------------------------------------------


def _fields(kind: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind)


def _plain(value: Any) -> Any:
    """Return ``value`` in JSON's types."""
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, abc.Mapping):
        return {str(_plain(key)): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(entry) for entry in value]
    if isinstance(value, (int, np.integer)):
        return int(value) if abs(int(value)) <= _WIDEST else str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    return value if value is None or isinstance(value, str) else str(value)


def _read(kind: Any, value: Any, name: str) -> Any:
    """Read a value of ``_plain`` by the type of its field, or by the first type that fits of
    several. Raises ValueError.
    """
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    for one in kinds:
        with suppress(TypeError, ValueError, OverflowError, ZeroDivisionError):
            return _read_one(one, value, name)
    raise ValueError(f"{name} = {value!r:.60} is not what this field holds ({kind}).")


def _read_one(kind: Any, value: Any, name: str) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is abc.Mapping and isinstance(value, abc.Mapping):
        return {_read(parts[0], k, name): _read(parts[1], v, name) for k, v in value.items()}
    if origin is tuple and isinstance(value, list):
        return tuple(_read(parts[0], entry, name) for entry in value)
    if origin is np.ndarray and isinstance(value, list):
        return np.array(_nested(value, name), np.float64)
    if value in parts or (kind is NoneType and value is None):  # one of a Literal's texts
        return value
    if kind is float and type(value) is int:
        return float(value)
    if kind in (int, float, Fraction, str) and type(value) in (kind, str):
        return kind(value)
    raise TypeError


def _nested(value: Any, name: str) -> Any:
    if isinstance(value, list):
        return [_nested(entry, name) for entry in value]
    return _read(float, value, name)


def shown(value: Any) -> str:
    """Format a value for ``repr``: at most a few entries, of six digits."""
    if isinstance(value, (np.ndarray, list)):
        first = value[:_SHOWN]  # of a matrix these are lists
        listed = first.tolist() if isinstance(first, np.ndarray) else first
        return _listed("[]", map(shown, listed), len(value))
    if isinstance(value, abc.Mapping):
        pairs = (f"{shown(k)}: {shown(value[k])}" for k in list(value)[:_SHOWN])
        return _listed("{}", pairs, len(value))
    if isinstance(value, tuple):
        return _listed("()", map(shown, value[:_SHOWN]), len(value))
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def _listed(ends: str, first: Iterable[str], number: int) -> str:
    more = f", ... {number} in all" if number > _SHOWN else ""
    return f"{ends[0]}{', '.join(first)}{more}{ends[1]}"
