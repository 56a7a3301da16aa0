"""Neighboring relations as plain data, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpverify.audit.neighbors.pairs import Neighboring, QueryMoves, Steps
from dpverify.privacy import Adjacency, render
from dpverify.privacy.numbers import exact


def adjacency_as_json(adjacency: Neighboring) -> dict[str, Any]:
    """Return the relation by its kind; a user's own relation by its text alone."""
    if isinstance(adjacency, QueryMoves):
        by = render(exact(adjacency.by, "by"))
        return {"kind": "query moves", "by": by, "at_once": adjacency.at_once}
    if isinstance(adjacency, Steps):
        return {"kind": "steps", "is": str(adjacency.base), "number": adjacency.number}
    kind = "records" if isinstance(adjacency, Adjacency) else "other"
    return {"kind": kind, "is": str(adjacency)}


def adjacency_from(given: Mapping[str, Any]) -> Neighboring:
    """Read the relation that ``adjacency_as_json`` wrote; ValueError for a user's own relation."""
    if given["kind"] == "query moves":
        return QueryMoves(given["by"], given["at_once"])
    if given["kind"] == "steps":
        return Steps(Adjacency(given["is"]), given["number"])
    if given["kind"] == "records":
        return Adjacency(given["is"])
    raise ValueError(
        f"The neighbors {given['is']!r} are of a relation that only the program that wrote this "
        "knows; load it as plain data."
    )


__all__ = ["adjacency_as_json", "adjacency_from"]
