"""Random filters in a plan: their exact law against a mixture written by hand."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

from dpverify.plans import (
    Law,
)
from dpverify.plans import law as law_module
from dpverify.randomness import SeededBits
from tests.plans.filtered import (
    ADD,
    CHANCES,
    DATA,
    DOMAIN,
    by_hand,
    enumerated,
    plan,
)


@pytest.mark.parametrize("shift", [-2, -1, 0, 1, 2])
def test_the_law_is_the_mixture_over_what_may_be_kept(shift: int) -> None:
    """Compare also with a shift below 0: the number is positive where nothing is kept: gates
    stop that all the same."""
    masses = enumerated(Law(plan(shift), DATA, ADD, DOMAIN))
    assert masses == by_hand(shift)
    assert (masses == by_hand(shift, needs_some=False)) is (shift > 0)  # planted


@pytest.mark.parametrize("n", [0, 1])
def test_nobody_and_one_record(n: int) -> None:
    masses = enumerated(Law(plan(-1), DATA[:n], ADD, DOMAIN))
    stopped = {outcome for outcome in masses if outcome[1]}  # type: ignore[index]
    assert sum((masses[outcome] for outcome in stopped), Fraction(0)) == (1 if n == 0 else 0)


def test_a_batch_is_drawn_some_at_a_time_with_its_own_core_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Law of a batch against the exact one. False alarm below 1e-9: the greatest gap of a
    distribution function over 4000 draws exceeds 0.055 with probability 2
    exp(-2 * 4000 * 0.055^2) = 6e-11; applied to the released number's law, and to the means'
    given the number 2, of 400 draws or more, 0.17."""
    exact = Law(plan(0), DATA, ADD, DOMAIN)
    masses: dict[int, Fraction] = defaultdict(Fraction)
    shares = [Fraction(1)]
    for chance in CHANCES:
        shares = [
            (shares[k] if k < len(shares) else 0) * (1 - chance)
            + (shares[k - 1] if k else 0) * chance
            for k in range(len(shares) + 1)
        ]
    normal = _rounded(3.0)
    for kept, share in enumerate(shares):
        for z, mass in normal.items():
            masses[kept + z] += share * Fraction(mass)
    monkeypatch.setattr(law_module, "_MOST_COINS", 35)  # seven draws at a time
    batch = exact.sample(SeededBits(1, 2), 4000)
    numbers = batch.values["kept"][:, 0]
    total = Fraction(0)
    for value in range(-12, 18):
        total += masses.get(value, Fraction(0))
        assert abs(float(total) - np.mean(numbers <= value)) < 0.055
    assert list(batch.values) == ["kept", "mean"]
    assert np.array_equal(batch.stopped_by >= 0, batch.reached == 1)
    assert (numbers[batch.reached == 2] >= 1).all()


def _rounded(sigma: float) -> dict[int, float]:
    from scipy.stats import norm

    return {
        z: float(norm.cdf((z + 0.5) / sigma) - norm.cdf((z - 0.5) / sigma)) for z in range(-30, 31)
    }


def test_transcripts_of_stopped_draws_hold_what_was_released_before() -> None:
    batch = Law(plan(2), DATA, ADD, DOMAIN).sample(SeededBits(3), 200)
    stopped = batch.stopped_by >= 0
    assert 0 < np.count_nonzero(stopped) < 200  # for this seed
    for i in range(200):
        shown = batch[i]
        assert set(shown.released) == ({"kept"} if stopped[i] else {"kept", "mean"})
        assert shown.stopped == ("too few" if stopped[i] else None)
