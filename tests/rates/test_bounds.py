"""The specs' bounds beside what is measured: of the same thing, and a bound that is off is
refuted."""

from __future__ import annotations

import pytest

from dpverify.privacy.sources import sources_of
from dpverify.rates import Finding, Population, compare, measure, row_of
from dpverify.suite import rating
from dpverify.suite.judges import seed_of
from dpverify.suite.trees import load

_OF_THE_LAW = ("tracing", "van Trees", "local two-point")
"""Words of the sources of bounds on the error about a number of the records' law."""
_LOWER, _UPPER = "lower_bound", "error_bound"


def test_a_bound_about_a_law_is_compared_with_errors_about_it() -> None:
    """The error about the records' own mean has no sampling in it, and may be below such a
    bound."""
    seen = set()
    for key, (entry, claim) in load().rates.items():
        if claim.lower is None:
            continue
        sources = sources_of(getattr(entry.spec, claim.lower.function))
        assert sources, key
        if any(word in f"{s.item} {s.note}" for s in sources for word in _OF_THE_LAW):
            assert isinstance(claim.target, Population), key
            seen.add(entry.name)
    assert {"refined_mean", "robust_mean", "rescaled_mean", "winsorized_mean"} < seen
    assert {"coordinatewise_mean", "variance_aware_mean", "iterative_mean"} < seen


@pytest.mark.parametrize(
    ("key", "function", "factor", "repeats"),
    [
        ("bounded_mean:error-against-n", _LOWER, 38, 1000),
        ("coordinatewise_mean:population-error", _LOWER, 23, 100),
        ("variance_aware_mean:population-error", _LOWER, 20, 200),
        ("winsorized_mean:population-error", _LOWER, 31, 100),
        ("refined_mean:privacy-for-free", _LOWER, 43, 400),
        ("robust_mean:privacy-for-free", _LOWER, 66, 200),
        ("bounded_mean:tail", _UPPER, 0.5, 2000),
        ("clipped_mean:tail", _UPPER, 0.8, 400),
        ("rescaled_mean:tail", _UPPER, 0.75, 200),
        ("smooth_median:tail", "largest_error", 0.5, 2000),
    ],
)
def test_a_bound_that_is_off_is_refuted_and_the_right_one_is_not(
    key: str, function: str, factor: float, repeats: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong lower bound is twice what is measured, and a wrong upper one 13% to half below it.

    Intervals have a level of 1e-9 or less. Of 100 and 200 lengths of vectors they reach 8 to 20%
    (of 95% quantiles 5%), of 400 that vary more, or 1000 Laplace errors, half, of 2000 tails a
    quarter: seen but for 1e-9.
    """
    suite = load()
    entry, claim = suite.rates[key]
    point = measure(
        claim, 0, repeats=repeats, alpha=rating._alpha(suite, claim), seed=seed_of(key, 3)
    )
    right = getattr(entry.spec, function)

    def refuted() -> list[str]:
        row = row_of(
            claim, point, lambda curve, at: rating._predicted(entry, claim, 0, curve, at.facts)
        )
        return [c.what for c in compare(claim, row) if c.finding is Finding.REFUTED]

    assert not refuted()
    monkeypatch.setattr(entry.spec, function, lambda *given: factor * right(*given))
    (what,) = refuted()
    assert function in what
