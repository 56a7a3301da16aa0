"""Lemmas held against the statements that their obligations declare."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from dpverify.privacy.derivation import AnyDerivation
from dpverify.privacy.statements import why_not_shown
from dpverify.suite.trees import Suite


def misstated(suite: Suite, obligation: str) -> Iterator[str]:
    """For each lemma of the suite's configurations that names this obligation ("path.py:function") and
    says something that it does not show: where, and how they differ."""
    shown = suite.obligation(obligation)
    for key, lemma in _lemmas(suite).get(obligation, ()):
        reason = why_not_shown(lemma.conclusion, shown)
        if reason is not None:
            yield f"{key}: {lemma.conclusion}: {reason}"


@lru_cache(maxsize=8)
def _lemmas(suite: Suite) -> dict[str, list[tuple[str, AnyDerivation]]]:
    found: dict[str, list[tuple[str, AnyDerivation]]] = {}
    for key, configuration in suite.configurations.items():
        for lemma in configuration.mechanism.derivation.lemmas:
            found.setdefault(lemma.obligation, []).append((key, lemma))
    return found
