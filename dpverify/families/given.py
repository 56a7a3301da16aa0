"""Families as users give them: kept as they are, or refused with an explanation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

Kind = TypeVar("Kind")


def frozen_family(kind: type[Kind], example: str) -> Callable[[Any, str], Kind]:
    """Make a converter to instances of ``kind`` that are equal only if they are the same.

    Such instances are frozen dataclasses of hashable fields. What is kept of a family's numbers
    is kept by equality; numbers elsewhere, or in a list, could be another family's.
    """

    def convert(value: Any, name: str) -> Kind:
        if not isinstance(value, kind):
            raise TypeError(
                f"{name} = {value!r}; give a dpverify.families.{kind.__name__}, for example "
                f"{example}, or an instance of your own class."
            )
        fields = {one.name for one in dataclasses.fields(value)}  # type: ignore[arg-type]
        try:
            plain = {*vars(value)} <= fields and hash(value) is not None
        except TypeError:
            plain = False
        if not plain:
            raise TypeError(
                f"{name}: a {type(value).__name__} that is not all in hashable fields of a "
                "frozen dataclass; families that are equal have to be the same, so write "
                "@dataclass(frozen=True) and its numbers as fields."
            )
        return value

    return convert
