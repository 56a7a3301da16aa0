"""Public parameters of a covariance that do not go together, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpverify.grid.vectors import OUTER_BOX
from dpverify.privacy.numbers import approximately


def contradictions(given: Any) -> Iterator[tuple[bool, str]]:
    """Yield for each contradiction between a mechanism's parameters whether they have it, with
    the message.
    """
    yield from _of_method(given)
    yield (
        given.largest is not None and given.has_signs,
        f"largest = {given.largest} with rounds of signs, which need no scale; leave one of them "
        "out.",
    )
    yield (
        given.largest is not None and not 1 <= given.long() <= OUTER_BOX,
        f"largest = {given.largest}: {approximately(given.long())} cells; give one of 1 to 2^40 "
        "cells, beyond which records are clamped.",
    )
    yield (
        given.scale is not None and not given.has_rounds,
        "scale: without rounds of signs (rounds = 0, or one column) no center is found. Leave "
        "out scale and give a public center.",
    )
    yield (
        given.scale is not None and given.certify is not None,
        "certify: the certificate is for a public center; leave out scale, or certify.",
    )
    yield (
        given.mean_share is not None and given.scale is None,
        "mean_share: the mean is released where it is unknown; give a scale, or leave it out.",
    )


def _of_method(given: Any) -> Iterator[tuple[bool, str]]:
    """Yield what the method needs, and what it has no use for."""
    method, bounded = given.method, given.method != "sign"
    yield (
        bounded and (given.kappa is None or given.largest is None),
        f"method = {method!r} needs public bounds: give kappa, on the largest eigenvalue over the "
        "smallest, and largest, on the deviation in any direction. method = 'sign' needs neither.",
    )
    yield (
        not bounded and given.kappa is not None,
        f"kappa = {given.kappa}, which method = 'sign' has no use for; leave it out, or write "
        "method = 'spectral' or 'recursive'.",
    )
    yield (
        bounded and (given.rounds == 0 or len(given.center) == 1),
        f"method = {method!r} whitens two columns or more in one round or more; for "
        f"{len(given.center)} columns and rounds = {given.rounds} leave method out.",
    )
    yield (
        bounded and isinstance(given.cell, tuple),
        f"method = {method!r} takes one cell for all columns: kappa and largest are about all "
        "directions. Give one cell, or method = 'sign'.",
    )
    yield (
        bounded and given.scale is not None,
        f"scale: method = {method!r} finds no center. Give a public center and no scale, or "
        "method = 'sign'.",
    )
