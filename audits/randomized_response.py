"""Attacks on ``randomized_response``."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dpverify import Adjacency, FrequencyEstimate, PureDP, RandomizedResponse
from dpverify.audit import Configuration, SmallInstance, replaced
from dpverify.rates import (
    Curve,
    Empirical,
    Exponent,
    Instance,
    Population,
    RateClaim,
    RateFault,
)

_REPLACE = Adjacency.REPLACE

CONFIGURATIONS = (
    Configuration(
        name="yes-no",
        mechanism=RandomizedResponse.for_budget(PureDP(1), adjacency=_REPLACE, categories=2),
        pairs=(
            replaced("one of three changes", [0, 0, 1], 1),
            replaced("the only answer", [1], 0),
            replaced("beyond the categories", [0, 1], 1e308),
        ),
    ),
    Configuration(
        name="five-categories",
        mechanism=RandomizedResponse.for_budget(PureDP(2), adjacency=_REPLACE, categories=5),
        pairs=(
            replaced("from the first to the last", [0, 1, 2], 4),
            replaced("to the nearest", [3, 3], 2.4),
        ),
    ),
)

SMALL = (
    SmallInstance(
        name="two answers of two",
        mechanism=RandomizedResponse(
            adjacency=_REPLACE, noise_multiplier=Fraction(1), categories=2
        ),
        data=(0.0, 9.0),
    ),
    SmallInstance(
        name="two answers of three",
        mechanism=RandomizedResponse(
            adjacency=_REPLACE, noise_multiplier=Fraction(2, 5), categories=3
        ),
        data=(1.5, 2.5),
    ),
)


def _response(setting: Mapping[str, Any]) -> RandomizedResponse:
    return RandomizedResponse(
        adjacency=_REPLACE,
        noise_multiplier=1 / Fraction(setting["epsilon"]),
        categories=setting["categories"],
    )


def _reported(mechanism: RandomizedResponse, transcript: Any) -> Any:
    estimate = mechanism.estimate(transcript)
    assert isinstance(estimate, FrequencyEstimate)
    counts, n = Counter(estimate.answers), len(estimate.answers)
    shares = tuple(counts[j] / n for j in range(mechanism.categories))
    return dataclasses.replace(estimate, frequencies=shares)


_SHARE = 0.2


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    """Claim the error of the share of category 1, for records in categories 0 and 1."""
    own: dict[str, Any] = {
        "target": Empirical(lambda mechanism, data: float(data.mean())),
        "curve": Curve(function="expected_error", arguments=("parameters", "n", "share")),
        "facts": lambda setting, data, truth: {"share": truth},
        "repeats": 3000,
    }
    return RateClaim(
        name=name,
        mechanism=_response,
        variable=variable,
        values=values,
        instance=Instance(kind="bernoulli", parameters={"share": _SHARE}),
        error=lambda estimate, truth: abs(estimate.frequencies[1] - truth),
        faults=(
            RateFault(
                name="takes the reported shares for the true ones",
                estimate=_reported,
                grows=variable == "n",  # beside errors that fall
            ),
        ),
        **own | claimed,
    )


RATES = (
    _rate(
        "error-against-n",
        "n",
        (20, 60, 200, 600),
        setting={"epsilon": 1, "categories": 2},
        target=Population(lambda mechanism, setting: _SHARE),
        facts=lambda setting, data, truth: {
            "share": truth,
            "sampling": math.sqrt(truth * (1 - truth) / setting["n"]),
        },
        curve=Curve(
            function="expected_error", arguments=("parameters", "n", "share"), beside="sampling"
        ),
        lower=Curve(function="lower_bound", arguments=("epsilon", "n")),
        exponent=Exponent(value=-0.5, tolerance=0.05),
        shows_last=True,  # the faulty noise no longer fits the estimate: a constant bias
        repeats=2800,
        source="KBR16, Section 3; the local price of privacy is a factor, not a rate",
    ),
    _rate(
        "error-against-epsilon",
        "epsilon",
        tuple(map(Fraction, ("1/8", "1/4", "1/2", "2"))),
        setting={"n": 300, "categories": 2},
        shows_last=True,
        exponent=Exponent(value=-1, tolerance=0.1, end=0.5),
        source="KBR16, Section 3",
    ),
    _rate(
        "error-against-categories",
        "categories",
        (2, 4, 8, 16),
        setting={"n": 1000, "epsilon": 1},
        source="KBR16, Section 3",
    ),
)
