"""Comparison of lemmas with the statements that their obligations declare."""

from __future__ import annotations

from collections.abc import Iterator

from dpverify.privacy.derivation import AnyDerivation
from dpverify.privacy.statements import why_not_shown
from dpverify.suite.trees import Suite


def misstated(suite: Suite, obligation: str) -> Iterator[str]:
    """Yield, for each lemma of the suite's configurations that names this obligation
    ("path.py:function") and says something that the obligation does not show, where that is and
    how they differ.
    """
    shown = suite.obligation(obligation)
    for key, configuration in suite.configurations.items():
        for lemma in configuration.mechanism.derivation.nodes():
            if lemma.obligation == obligation:
                reason = why_not(lemma, shown)
                if reason is not None:
                    yield f"{key}: {lemma.conclusion}: {reason}"


def why_not(lemma: AnyDerivation, obligation: object) -> str | None:
    """Return None if the obligation shows what the lemma says; otherwise why not."""
    premises = [premise.conclusion for premise in lemma.premises]
    return why_not_shown(lemma.conclusion, obligation, premises)
