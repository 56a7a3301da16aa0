"""Converters of public parameters: a given value becomes the value that a mechanism keeps, or
is refused in words.

A parameter annotated ``Annotated[kind, convert]`` is kept as ``convert(value, name)``, with
several converters one after the other; with ``Annotated[...] | None`` None is kept as it is. A
converter raises TypeError or ValueError, and says what was given, why it is refused and what to
do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from fractions import Fraction
from functools import cache, wraps
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from dpverify.grid.cells import power_of_two
from dpverify.privacy.numbers import as_written, exact, whole

Rational = Fraction | Any
"""Rational number as a mechanism keeps it. It may be given in any form that ``exact`` reads,
say '1/3'. No annotation of a dataclass can tell the given form from the kept one, so type
checkers accept everything, and the converter refuses.
"""
CHOSEN: Any = ...
"""Default of a parameter that ``for_budget`` chooses by itself; only type checkers see it."""
Converter = Callable[[Any, str], Any]
"""Function of what was given and the parameter's name, which returns what is kept."""


def whole_from(least: int, refusal: str = "", *, most: int | None = None) -> Converter:
    """Make a converter to integers from ``least``, and to ``most`` where there is one.

    refusal: the text of the message after "name = value"; by default it says which integers are
    allowed.
    """
    allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
    why = refusal or f"; give an integer {allowed}."

    def convert(value: Any, name: str) -> int:
        number = whole(value, name)
        if number < least or (most is not None and number > most):
            raise ValueError(f"{name} = {number}{why}")
        return number

    return convert


def rational(
    holds: Callable[[Fraction], bool],
    refusal: str,
    *,
    as_given: bool = False,
    read: Callable[[Any, str], Fraction] = exact,
) -> Converter:
    """Make a converter to rationals for which ``holds``; ``as_given`` it keeps what was given
    and only checks it.

    refusal: the text of the message after "name = value". read: the function that reads a
    number, ``as_written`` for levels and shares.
    """

    def convert(value: Any, name: str) -> Any:
        number = read(value, name)
        if not holds(number):
            raise ValueError(f"{name} = {value}{refusal}")
        return value if as_given else number

    return convert


def positive(
    refusal: str = " is not positive; give one above 0.", *, as_given: bool = False
) -> Converter:
    """Make a converter to rationals above 0; see ``rational``."""
    return rational(lambda value: value > 0, refusal, as_given=as_given)


def flag(value: Any, name: str) -> bool:
    """Keep True or False. Raises TypeError for anything else."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} = {value!r}; give True or False.")
    return value


def one_of(*choices: str) -> Converter:
    """Make a converter that refuses all but these texts."""
    listed = f"{', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"

    def convert(value: Any, name: str) -> Any:
        if not isinstance(value, str) or value not in choices:
            raise ValueError(f"{name} = {value!r}; write {listed}.")
        return value

    return convert


def _between_0_and_1(value: Fraction) -> bool:
    return 0 < value < 1


probability = rational(_between_0_and_1, " is outside (0, 1); give a probability, say '1e-3'.")
"""Probability that is allowed, as a rational."""
holding = rational(
    _between_0_and_1,
    " is outside (0, 1); give the probability with which the interval is to hold, 0.95 for 95%.",
)
"""Probability with which an interval holds, as a rational."""
Share = Annotated[
    Rational, rational(_between_0_and_1, " is outside (0, 1); try '1/4'.", read=as_written)
]
"""Part of a budget; a float counts as the decimal that it prints as."""
Delta = Annotated[Rational, rational(_between_0_and_1, " is outside (0, 1); try '1e-6'.")]
"""Probability of a rare event."""
AtLeast = Annotated[int, whole_from(1, "; a mean needs at least 1 record.")]
"""Number of records below which a mean abstains."""
MOST_LEAST = 1 << 60
"""Largest such number: a float, and above any count."""
FewestReleased = Annotated[int, whole_from(1, most=MOST_LEAST)] | None
"""Such a number; None for one that follows from the noise."""
Cell = Annotated[Rational, lambda value, name: power_of_two(value)]
"""Step of a grid, a power of two."""


def check_names(kind: Any, given: Mapping[str, Any]) -> None:
    """Refuse parameters that a mechanism's class lacks, and name those that it needs and that are
    not given. Raises TypeError.
    """
    refuse_unknown(kind, given)
    missing = _missing(kind, given)
    if missing:
        raise TypeError(
            f"{kind.__name__} needs {' and '.join(missing)}, which cannot be read from the data; "
            "give public values by name."
        )


def refuse_unknown(kind: Any, given: Mapping[str, Any]) -> None:
    """Refuse parameters that a mechanism's class lacks, and name the one that may be meant. Raises
    TypeError.
    """
    names = [field.name for field in dataclasses.fields(kind) if field.init]
    unknown = [name for name in given if name not in names]
    if not unknown:
        return
    own = [name for name in names if name not in _OF_ALL]
    missing = _missing(kind, given)
    near = get_close_matches(unknown[0], [name for name in names if name not in given], n=1)
    meant = near or (missing if len(missing) == len(unknown) == 1 else [])
    raise TypeError(
        f"{kind.__name__} has no parameter {unknown[0]!r}"
        f"{f'; did you mean {meant[0]}? Its' if meant else '; its'} own parameters are "
        f"{', '.join(own)}."
    )


def naming(constructor: Callable[..., None]) -> Callable[..., None]:
    """Make a constructor that names an unknown parameter before what is missing."""

    @wraps(constructor)
    def checked(self: Any, *given: Any, **named: Any) -> None:
        try:
            constructor(self, *given, **named)
        except TypeError as error:  # of the call, or from inside of the constructor
            refusal = error
        else:
            return
        refuse_unknown(type(self), named)
        raise refusal

    return checked


def _missing(kind: Any, given: Mapping[str, Any]) -> list[str]:
    """List the parameters of its own that a class needs and that are not given."""
    return [
        field.name
        for field in dataclasses.fields(kind)
        if field.init and field.default is dataclasses.MISSING
        if field.name not in _OF_ALL and field.name not in given
    ]


_OF_ALL = ("adjacency", "noise_multiplier", "budget")


def converted(mechanism: Any) -> dict[str, Any]:
    """Convert the parameters whose annotations name converters; return the values to keep, by
    name.

    Raises TypeError or ValueError where a converter does, and NameError for an annotation that
    cannot be read.
    """
    parameters: dict[str, Any] = {}
    kind: Any = type(mechanism)
    for name, convert, optional in _converters(kind):
        value = parameters.get(name, getattr(mechanism, name))
        if value is not None or not optional:
            parameters[name] = convert(value, name)
    return parameters


@cache
def _converters(kind: Any) -> tuple[tuple[str, Converter, bool], ...]:
    """Return the converters of a class's parameters, in order, each with whether None is kept
    as it is.
    """
    converters = []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        parts = (hint,) if get_origin(hint) is Annotated else get_args(hint)
        converters += [
            (name, convert, type(None) in parts)
            for part in parts
            if get_origin(part) is Annotated
            for convert in part.__metadata__
            if callable(convert)
        ]
    return tuple(converters)
