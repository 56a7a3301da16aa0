"""Functions of a size: outputs that share a draw, tables, and subjects that end the process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpverify.audit import InvalidRun, Verdict, added, audit
from dpverify.audit.independence import require_even_batches
from dpverify.privacy import GaussianDP, PureDP

PAIR = added("one enters", [0.0, 1.0], 1.0)
Function = Callable[..., Any]


def _audited(function: Function | None, trials: int = 8000, **more: Any) -> Any:
    given: dict[str, Any] = {"vectorized": True, "seed": 1, "alpha": 1e-6, **more}
    return audit(function, claim=PureDP(1), pairs=[PAIR], trials=trials, **given)


def _broadcast(seed: int) -> Function:
    """Return one release, shown again and again."""
    rng = np.random.default_rng(seed)
    return lambda data, size: np.full(size, np.round(rng.laplace() * 64) / 64 + len(data))


def _one_threshold(seed: int) -> Function:
    """Return one noisy threshold for the whole batch, fresh noise on each answer."""
    rng = np.random.default_rng(seed)

    def function(data: Any, size: int) -> Any:
        return rng.laplace(size=size) + len(data) >= 2.5 + rng.laplace()

    return function


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_one_release_shown_again_and_again_is_refused(seed: int, sequential: bool) -> None:
    """Such outputs were called VIOLATED in 6 of 20 audits."""
    with pytest.raises(ValueError, match="must be independent"):
        _audited(_broadcast(seed), sequential=sequential)


def test_batches_that_share_a_threshold_are_no_evidence() -> None:
    """Fixed seeds: some runs are invalid, none refutes."""
    invalid = 0
    for seed in range(8):
        try:
            assert _audited(_one_threshold(seed)).verdict is Verdict.POWERLESS
        except InvalidRun as error:
            invalid += "not independent" in str(error)
    assert invalid


def test_a_constant_is_no_shared_draw() -> None:
    assert _audited(lambda data, size: np.zeros(size)).verdict is Verdict.POWERLESS
    assert _audited(lambda data, size: [len(data)] * size).verdict is Verdict.VIOLATED


def test_independent_batches_pass() -> None:
    """False alarms have probability 1e-12 each."""
    rng = np.random.default_rng(2)
    sizes = np.full(16, 500)
    for share in (0.001, 0.02, 0.5, 0.99):
        for _ in range(200):
            require_even_batches(rng.binomial(sizes, share), sizes, "event")
    with pytest.raises(InvalidRun, match="0 times in one batch and 500 times in another"):
        require_even_batches(np.array([500, 0] * 8), sizes, "event")


class Table:
    """A table like a data frame: rows of numbers, and iteration over the names of its columns."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Any:
        return iter(["a", "b"])


class Frame(Table):
    def to_numpy(self) -> Any:
        return self.rows


def _rows(data: Any, size: int) -> Any:
    rng = np.random.default_rng()
    return rng.normal(size=(size, 2)) + np.array([50.0 * (len(data) > 2), 0.0])


def test_tables_are_read_by_rows() -> None:
    assert _audited(lambda data, size: Frame(_rows(data, size))).verdict is Verdict.VIOLATED
    with pytest.raises(ValueError, match=r"Table of length .* with 2 entries"):
        _audited(lambda data, size: Table(_rows(data, size)))


def test_a_number_alone_is_no_batch() -> None:
    with pytest.raises(ValueError, match="not 500 outputs"):
        _audited(lambda data, size: np.array(1.0), trials=2500)


def test_sys_exit_is_an_outcome() -> None:
    def function(data: Any) -> int:
        return sys.exit(0) if len(data) == 3 else 1

    assert _audited(function, 2000, vectorized=False).verdict is Verdict.VIOLATED

    def stopped(data: Any) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _audited(stopped, 2000, vectorized=False)


class Odd(int):
    def __int__(self) -> int:
        raise ValueError("no")


def test_numbers_with_conversions_of_their_own() -> None:
    result = _audited(None, 2000, vectorized=False, fresh=lambda: lambda data: Odd(len(data)))
    assert result.verdict is Verdict.VIOLATED


def test_an_alpha_beyond_the_floats_is_refused() -> None:
    with pytest.raises(ValueError, match="alpha = 1e-320 is below"):
        _audited(_rows, alpha=1e-320)


def test_braces_are_shown_as_they_are() -> None:
    result = _audited(lambda data: "{a}" if len(data) > 2 else "{b}", 2000, vectorized=False)
    assert "{a}" in str(result) or "{b}" in str(result)
    assert "{{" not in str(result)


def test_what_is_said_refutes_the_claim() -> None:
    """Check that where the bound at the strongest certificate does not exceed the claim, another
    point or the bets do."""
    rng = np.random.default_rng(3)

    def function(data: Any, size: int) -> Any:
        return np.rint((0.9 * rng.normal(size=size) + len(data)) * 2**16) / 2**16

    elsewhere = 0
    for seed in range(2):
        result = audit(
            function, claim=GaussianDP(1), pairs=[PAIR], trials=60_000, seed=seed, alpha=0.05,
            vectorized=True, sequential=seed % 2 == 0,
        )  # fmt: skip
        if result.verdict is Verdict.VIOLATED:
            below = result.epsilon <= result.strongest.claimed
            assert ("\nrefuted    " in str(result)) is below
            elsewhere += below
    assert elsewhere
