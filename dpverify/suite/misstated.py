"""Comparison of lemmas with the statements that their obligations declare."""

from __future__ import annotations

from collections.abc import Iterator

from dpverify.privacy.derivation import AnyDerivation
from dpverify.privacy.statements import why_not_shown
from dpverify.suite.trees import Suite


def misstated(suite: Suite, key: str) -> Iterator[str]:
    """Yield, for each lemma of a configuration's claim that says something that its obligation
    does not show, how they differ.
    """
    for lemma in suite.configuration(key).mechanism.derivation.nodes():
        if lemma.obligation:
            reason = why_not(lemma, suite.obligation(lemma.obligation))
            if reason is not None:
                yield f"{lemma.conclusion}: {reason}"


def why_not(lemma: AnyDerivation, obligation: object) -> str | None:
    """Return None if the obligation shows what the lemma says; otherwise why not."""
    premises = [premise.conclusion for premise in lemma.premises]
    return why_not_shown(lemma.conclusion, obligation, premises)
