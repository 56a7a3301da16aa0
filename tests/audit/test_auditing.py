"""Verdicts, refusals, and outputs of every kind."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
import pytest

from dpverify import (
    Adjacency,
    ApproxDP,
    BoundedMean,
    NoisyCount,
    PureDP,
    RandomizedResponse,
    conjecture,
)
from dpverify.audit import NeighboringPair, Verdict, added, audit, counting, replaced
from dpverify.privacy import Domain

PAIR = added("one enters", [0.0, 0.0], 1.0)


def _laplace_sum(scale: float, seed: int = 0) -> Callable[[Any], float]:
    """Rounded to a grid: float noise itself betrays what it is added to, in its last bits."""
    rng = np.random.default_rng(seed)

    def noisy_sum(data: Any) -> float:
        return round(float(sum(data) + rng.laplace(scale=scale)), 3)

    return noisy_sum


def test_without_planted_faults_silence_is_powerless() -> None:
    result = audit(_laplace_sum(1.0), claim=PureDP(1), pairs=[PAIR], trials=5000, seed=0)
    assert result.verdict is Verdict.POWERLESS
    assert result.faults == ()


def test_a_caught_fault_makes_silence_count() -> None:
    half = _laplace_sum(0.5, seed=1)
    result = audit(
        _laplace_sum(1.0), claim=PureDP(1), pairs=[PAIR], faults=[half], trials=20_000, seed=0
    )
    assert result.verdict is Verdict.CONSISTENT
    assert 0.8 < result.epsilon <= 1.0


def test_a_missed_fault_makes_it_powerless() -> None:
    barely = _laplace_sum(0.99, seed=1)
    result = audit(
        _laplace_sum(1.0), claim=PureDP(1), pairs=[PAIR], faults=[barely], trials=5000, seed=0
    )
    assert result.verdict is Verdict.POWERLESS
    assert [fault.caught for fault in result.faults] == [False]
    assert "missed: noisy_sum" in str(result)


def test_half_the_noise_is_violated() -> None:
    result = audit(_laplace_sum(0.5), claim=PureDP(1), pairs=[PAIR], trials=20_000, seed=0)
    assert result.verdict is Verdict.VIOLATED
    assert 1.6 < result.epsilon <= 2.0


def _none_or_label(data: Any) -> Any:
    return None if len(data) == 2 else "somebody"


def _raises_on_three(data: Any) -> float:
    if len(data) == 3:
        raise KeyError("three")
    return 0.0


def _nan_on_three(data: Any) -> float:
    return float("nan") if len(data) == 3 else 0.0


def _list_of_its_length(data: Any) -> list[float]:
    return [0.0] * len(data)


def _matrix(data: Any) -> Any:
    return np.full((2, len(data)), 7)


def _tuple_of_strings(data: Any) -> tuple[str, int]:
    return ("n", len(data))


LEAKS = [
    _none_or_label,
    _raises_on_three,
    _nan_on_three,
    _list_of_its_length,
    _matrix,
    _tuple_of_strings,
]


@pytest.mark.parametrize("leak", LEAKS)
def test_every_kind_of_output_is_an_outcome(leak: Callable[[Any], Any]) -> None:
    result = audit(leak, claim=PureDP(5), pairs=[PAIR], trials=5000, seed=0)
    assert result.verdict is Verdict.VIOLATED
    assert result.epsilon > 5


def _nan_by_place(data: Any) -> Any:
    return [float("nan"), 0.0] if len(data) == 3 else [0.0, float("nan")]


def _sign_of_zero(data: Any) -> float:
    return -0.0 if len(data) == 3 else 0.0


def _beyond_floats(data: Any) -> int:
    return 2**60 + len(data)


def _astronomic(data: Any) -> int:
    return int(10 ** (400 + len(data)))


def _complex_or_decimal(data: Any) -> Any:
    return 1j if len(data) == 3 else Decimal(len(data))


def _rational(data: Any) -> Fraction:
    return Fraction(len(data), 3)


_CALLS = count()


def _width_of_its_own(data: Any) -> Any:
    return [float(len(data))] * (1 + next(_CALLS) % 3)


SUBTLE = [
    _nan_by_place, _sign_of_zero, _beyond_floats, _astronomic, _complex_or_decimal, _rational,
    _width_of_its_own,
]  # fmt: skip


@pytest.mark.parametrize("leak", SUBTLE)
def test_what_encodes_alike_is_told_apart(leak: Callable[[Any], Any]) -> None:
    result = audit(leak, claim=PureDP(3), pairs=[PAIR], trials=3000, seed=0)
    assert result.verdict is Verdict.VIOLATED


def test_a_function_that_only_fails_was_not_audited() -> None:
    def wrong_signature(data: Any, epsilon: float) -> float:
        return epsilon

    with pytest.raises(
        ValueError, match=r"raised TypeError: nothing was audited.*'epsilon'\. Call"
    ):
        audit(wrong_signature, claim=PureDP(1), pairs=[PAIR], trials=200, seed=0)


def test_a_call_that_does_not_fit_is_told_how_to_write_it() -> None:
    example = r"Write audit\(function, pairs=\[added\(name, data, record\)\], claim=PureDP\(1\)\)"
    with pytest.raises(TypeError, match=f"missing a required argument: 'pairs'. {example}"):
        audit(len)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=rf"argument 'trails'; the parameters are .*{example}"):
        audit(len, pairs=[PAIR], trails=5)  # type: ignore[call-arg]
    assert next(iter(inspect.signature(audit).parameters)) == "subject"


def test_a_function_that_fails_on_arrays_is_told_how_to_keep_frames() -> None:
    pair = added("one", np.array([[1.0]]), [2.0])
    with pytest.raises(
        ValueError, match=r"left=frame, right=other, adjacency=\.\.\.\) keeps frames"
    ):
        audit(lambda data: data.loc[0], claim=PureDP(1), pairs=[pair], trials=200, seed=0)


def test_a_guarantee_of_our_mechanism_is_read_under_its_own_adjacency() -> None:
    """Nothing is drawn: pairs of another adjacency say nothing of what the mechanism promises."""
    ours = BoundedMean.for_budget(PureDP(1), adjacency=Adjacency.REPLACE, lower=0, upper=1)
    pair = added("one", [0.0, 1.0], 1.0)
    for claim in (None, PureDP(1)):
        with pytest.raises(ValueError, match="under replace, but the pair 'one' is add-remove"):
            audit(ours, claim=claim, pairs=[pair])


def test_records_that_are_nan_are_no_change_of_the_input() -> None:
    pair = added("a NaN enters", [0.0], float("nan"))
    result = audit(lambda data: len(data), claim=PureDP(1), pairs=[pair], trials=200, seed=0)
    assert result.verdict is Verdict.VIOLATED


def test_a_rare_event_is_found() -> None:
    # Probability .008 on one side and 0 on the other; everything else is the same.
    rng = np.random.default_rng(0)

    def rarely_honest(data: Any) -> float:
        return float(len(data) == 3 and rng.random() < 0.008)

    result = audit(rarely_honest, claim=PureDP(1), pairs=[PAIR], trials=40_000, seed=0)
    assert result.verdict is Verdict.VIOLATED
    (line,) = [line for line in str(result).splitlines() if "at every epsilon" in line]
    assert line.split()[:2] == ["delta", ">="]
    assert 0.004 < float(line.split()[2]) < 0.008
    assert result.strongest.other_hits == 0


def test_vectorized_functions() -> None:
    rng = np.random.default_rng(0)

    def noisy_sums(data: Any, size: int) -> Any:
        return sum(data) + rng.laplace(scale=0.5, size=size)

    result = audit(
        noisy_sums, claim=PureDP(1), pairs=[PAIR], trials=10_000, seed=0, vectorized=True
    )
    assert result.verdict is Verdict.VIOLATED
    with pytest.raises(ValueError, match=r"returned 3 outputs when asked for \d+"):
        audit(
            lambda data, size: [1, 2, 3],
            claim=PureDP(1), pairs=[PAIR], trials=100, seed=0, vectorized=True,
        )  # fmt: skip


def test_a_function_that_alters_its_input_is_refused() -> None:
    def sorts(data: Any) -> int:
        data.append(1.0)
        return len(data)

    with pytest.raises(ValueError, match="changed the dataset"):
        audit(sorts, claim=PureDP(1), pairs=[PAIR], trials=100, seed=0)
    assert list(PAIR.left) == [1.0, 0.0, 0.0]  # the caller's own data are as they were


def test_the_same_seed_gives_the_same_result() -> None:
    mechanism = NoisyCount.for_budget(PureDP(1), adjacency=Adjacency.ADD_REMOVE)
    first, again, other = (
        audit(mechanism, pairs=[PAIR], trials=2000, seed=seed) for seed in (5, 5, 6)
    )
    assert first == again
    assert first.certificates != other.certificates
    fresh = audit(mechanism, pairs=[PAIR], trials=2000)
    assert fresh == audit(mechanism, pairs=[PAIR], trials=2000, seed=fresh.seed)


def test_false_alarms_at_a_tight_truth() -> None:
    """A true, tight claim is called VIOLATED at most at its stated rate.

    30 audits at alpha = .05; more than 6 alarms have probability below .001 if the rate is .05
    (the 99.9% binomial limit). The seeds are fixed, so this cannot flake.
    """
    mechanism = RandomizedResponse.for_budget(PureDP(1), adjacency=Adjacency.REPLACE, categories=2)
    pairs = [replaced("yes to no", [1], 0), replaced("no to yes", [0], 1)]
    alarms = sum(
        audit(mechanism, pairs=pairs, faults=[], trials=200, alpha=0.05, seed=seed).verdict
        is Verdict.VIOLATED
        for seed in range(30)
    )
    assert alarms <= 6


def test_the_curve_has_points_that_hold_together() -> None:
    mechanism = NoisyCount.for_budget(PureDP(1), adjacency=Adjacency.ADD_REMOVE)
    result = audit(mechanism, pairs=[PAIR], faults=[], trials=50_000, seed=0, curve=6)
    assert 2 < len(result.certificates) <= 8
    assert sum(certificate.alpha for certificate in result.certificates) <= result.alpha * (
        1 + 1e-9
    )
    for certificate in result.certificates:
        first, second = certificate.errors
        # epsilon = 1 allows no point below max(1 - e x, (1 - x) / e); 50,000 draws are off by .02
        assert second >= max(1 - math.e * first, (1 - first) / math.e) - 0.02
    assert result.delta_at(0.5) <= float(PureDP(1).delta_at(0.5).upper)
    assert 0.9 < result.mu < 1.4
    assert 0.2 < result.rho <= 0.5


def test_a_function_that_is_called_singly_has_a_curve() -> None:
    """A coin decides the side of each call, so the sides have unequal numbers; every output is
    the same event."""
    result = audit(lambda data: 1, claim=PureDP(1), pairs=[PAIR], trials=1000, seed=0, curve=6)
    assert result.verdict is Verdict.POWERLESS
    assert len(result.certificates) > 2
    assert result.epsilon == 0


def test_wide_outputs_are_drawn_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first 10,000 show how wide outputs are; then 1000 at a time are as many numbers as one
    chunk may have."""
    monkeypatch.setattr(counting, "_CHUNK", 50 * 1000)
    monkeypatch.setattr(counting, "_BATCHES", 1)
    asked = list[int]()

    def wide(data: Any, size: int) -> Any:
        asked.append(size)
        return np.full((size, 50), float(len(data)))

    result = audit(wide, claim=PureDP(1), pairs=[PAIR], trials=40_000, seed=0, vectorized=True)
    assert result.verdict is Verdict.VIOLATED
    assert sum(asked) == result.draws
    assert max(asked) == 10_000
    assert asked.count(1000) > 20


def test_exceptions_that_carry_data_are_seen() -> None:
    """Both sides always fail, with another text each: that is an outcome, and it tells."""

    def fails(data: Any) -> Any:
        raise ValueError(f"{len(data)} records are too few")

    result = audit(fails, claim=PureDP(1), pairs=[PAIR], trials=1000, seed=0)
    assert result.verdict is Verdict.VIOLATED


REPLACED = replaced("r", [0.0], 1.0)
BAD_CALLS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"claim": None}, TypeError, "say what is claimed"),
    ({"claim": "pure(1)"}, TypeError, "say what is claimed"),
    ({"pairs": []}, ValueError, "no pairs"),
    ({"pairs": [([0], [0, 1])]}, TypeError, "carries its adjacency"),
    ({"pairs": [PAIR, REPLACED]}, ValueError, "one adjacency at a time"),
    ({"trials": 10}, ValueError, "at least 100"),
    ({"trials": 100, "claim": PureDP(3), "alpha": 1e-9}, ValueError, "give at least"),
    ({"claim": PureDP(200)}, ValueError, "No number of draws refutes"),
    ({"seconds": 5.0}, ValueError, "sequential=True with it"),
    ({"curve": 1.5}, TypeError, "give an integer"),
    ({"curve": -1}, ValueError, "curve = -1"),
    ({"trials": 1e4}, TypeError, "give an integer"),
    ({"pairs": PAIR}, TypeError, r"write pairs=\[pair\]"),
    ({"alpha": 0.0}, ValueError, "outside"),
    ({"alpha": 1.0}, ValueError, "outside"),
    ({"alpha": float("nan")}, ValueError, "outside"),
    ({"alpha": "1e-6"}, TypeError, "write a number, as alpha=1e-6"),
    ({"alpha": None}, TypeError, "write a number, as alpha=1e-6"),
    ({"seed": 1.5}, TypeError, "seed = 1.5 is a float; give an integer"),
    ({"seed": "a"}, TypeError, "give an integer"),
    ({"seed": -1}, ValueError, "seed = -1; give a whole number of at least 0"),
    ({"seconds": "5", "sequential": True}, TypeError, "write a number, as seconds="),
    ({"seconds": float("nan"), "sequential": True}, ValueError, "give a time above 0"),
    ({"seconds": -1, "sequential": True}, ValueError, "give a time above 0"),
    ({"faults": abs}, TypeError, r"write faults=\[fault\]"),
    ({"pairs": None}, TypeError, r"pairs = None; write pairs=\["),
    ({"pairs": [PAIR, PAIR]}, ValueError, "Two pairs are named 'one enters'"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD_CALLS)
def test_bad_calls_are_refused(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments = {"claim": PureDP(1), "pairs": [PAIR], "trials": 1000, **change}
    with pytest.raises(error, match=message):
        audit(_never_called, **arguments)


def _never_called(data: Any) -> float:
    raise AssertionError("drawn before the refusal")


def test_a_claim_of_another_adjacency_is_refused() -> None:
    claim = conjecture(PureDP(1), adjacency=Adjacency.REPLACE, domain=Domain(columns=1))
    with pytest.raises(ValueError, match="The claim is under replace"):
        audit(_never_called, claim=claim, pairs=[PAIR])


def test_what_is_not_a_function_is_refused() -> None:
    with pytest.raises(TypeError, match="neither a mechanism nor a function"):
        audit("mean", claim=PureDP(1), pairs=[PAIR], trials=1000)  # type: ignore[arg-type]


def test_a_class_is_not_a_mechanism() -> None:
    with pytest.raises(TypeError, match=r"write NoisyCount\.for_budget\(\.\.\.\)"):
        audit(NoisyCount, claim=PureDP(1), pairs=[PAIR], trials=1000)


def test_a_reused_output_buffer_is_no_violation() -> None:
    """False-alarm probability 1e-6; without copies every draw is the last one of its batch."""
    noisy, out = _laplace_sum(1.0), np.zeros(1)

    def fills(data: Any) -> Any:
        out[0] = noisy(data)
        return out

    result = audit(fills, claim=PureDP(1), pairs=[PAIR], trials=2000, seed=0)
    assert result.verdict is Verdict.POWERLESS


def test_pairs_that_are_not_neighbors_are_refused_by_record() -> None:
    with pytest.raises(ValueError, match="records 0 and 2 both differ"):
        NeighboringPair(name="p", left=[1, 2, 3], right=[0, 2, 4], adjacency=Adjacency.REPLACE)
    with pytest.raises(ValueError, match="after record 1 is deleted"):
        NeighboringPair(name="p", left=[1, 2, 3], right=[1, 4], adjacency=Adjacency.ADD_REMOVE)
    with pytest.raises(TypeError, match=r"write Adjacency\.ADD_REMOVE"):
        NeighboringPair(name="p", left=[1], right=[], adjacency="add-remove")  # type: ignore[arg-type]


def test_delta_is_part_of_what_is_tested() -> None:
    rng = np.random.default_rng(0)

    def leaks_sometimes(data: Any) -> float:
        return float(len(data)) if rng.random() < 0.1 else -1.0

    for delta, verdict in (("0.2", Verdict.POWERLESS), ("0.05", Verdict.VIOLATED)):
        claim = ApproxDP(1, delta)
        result = audit(leaks_sometimes, claim=claim, pairs=[PAIR], trials=20_000, seed=0)
        assert result.verdict is verdict
