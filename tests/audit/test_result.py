"""Uses of a result: to require it, print it, keep it; and the faults that give silence a
meaning."""

from __future__ import annotations

import doctest
import json
import pickle
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpverify import ApproxDP, GaussianDP, NoisyCount, PureDP
from dpverify.audit import (
    AuditResult,
    NeighboringPair,
    NotConsistent,
    OutOfReachWarning,
    QueryMoves,
    Verdict,
    added,
    audit,
    moved,
    scaled,
    scaled_faults,
    structure,
    witness_of,
    write_witness,
)
from dpverify.audit.reach import beyond_draws
from dpverify.privacy import Adjacency, Guarantee, Profile
from spec.theory.check_witness import check

ONE = PureDP(1)
PAIR = added("a one enters", [0.0, 1.0, 0.0], 1.0)


def noisy(seed: int = 0) -> Callable[..., Any]:
    """Return a sum under rounded Laplace noise, many at a time, whose scale is an argument."""
    rng = np.random.default_rng(seed)

    def noisy_sum(data: Any, size: int, scale: float = 1.0) -> Any:
        return np.round((sum(data) + rng.laplace(scale=scale, size=size)) * 2**10)

    return noisy_sum


def audited(function: Callable[..., Any], claim: Guarantee = ONE, **more: Any) -> AuditResult:
    """Draws enough to see half the noise (0.57 against 0.13 of them beyond 1) but for a chance
    below 1e-12."""
    return audit(
        function,
        claim=claim,
        pairs=[PAIR],
        **{"trials": 5000, "seed": 0, "vectorized": True, **more},
    )


@cache
def violated() -> AuditResult:
    return audited(scaled_faults(noisy())[1])


@cache
def consistent() -> AuditResult:
    return audited(noisy(), faults=scaled_faults(noisy(1), factors=[0.3]))


@cache
def unplanted() -> AuditResult:
    return audited(noisy())


@cache
def missed() -> AuditResult:
    return audited(noisy(), faults=scaled_faults(noisy(1), factors=[0.3, 0.97]))


def results() -> dict[str, AuditResult]:
    return {"VIOLATED": violated(), "CONSISTENT": consistent(), "POWERLESS": unplanted()}


Made = Callable[[], AuditResult]


def test_the_verdicts_are_what_they_should_be() -> None:
    for verdict, result in results().items():
        assert str(result.verdict) == verdict
    assert missed().verdict is Verdict.POWERLESS


@pytest.mark.parametrize("made", [violated, unplanted, missed])
def test_what_is_not_consistent_raises_with_the_whole_report(made: Made) -> None:
    result = made()
    with pytest.raises(AssertionError) as caught:
        result.require_consistent()
    assert isinstance(caught.value, NotConsistent)
    assert str(caught.value) == str(result)
    assert caught.value.result is result
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (NotConsistent, str(result))


def test_what_is_consistent_passes() -> None:
    consistent().require_consistent()
    assert consistent().is_consistent
    assert not violated().is_consistent


def test_no_result_is_a_truth_value() -> None:
    finding = structure.membership(
        lambda total: total + 0.5, 0.0, 1.0, centers=(0.0, 1.0), scale=1.0, draws=200
    )
    for result in (*results().values(), finding):
        with pytest.raises(TypeError, match=r"Write result.require_consistent\(\)"):
            assert result  # the very line that used to pass


def test_a_finding_is_required_like_an_audit() -> None:
    rng = np.random.default_rng(0)
    finding = structure.membership(
        lambda total: total + rng.laplace(scale=1.0), 0.0, 1.0, centers=(0.0, 1.0), scale=1.0
    )  # the last bits of a naive float tell the center
    with pytest.raises(NotConsistent, match="FOUND by"):
        finding.require_consistent()


def test_the_repr_is_one_line_with_all_that_matters() -> None:
    for result in (*results().values(), missed()):
        shown = repr(result)
        assert "\n" not in shown
        assert len(shown) < 300
        for part in (str(result.verdict), "noisy_sum", "pure(1)", "add-remove", "'a one enters'",
                     f"{result.epsilon:.4g}", "alpha 1e-06", "seed 0"):  # fmt: skip
            assert part in shown
    assert "faults 1/2" in repr(missed())


def test_powerless_says_why() -> None:
    assert "no fault was planted, so this says little; plant one, for example faults=" in str(
        unplanted()
    )
    assert "scaled_faults(function)" in unplanted().meaning
    assert "a planted fault was missed: noisy_sum, scale x 0.97" in missed().meaning
    assert "no fault was planted" not in str(missed())
    assert "0.3" not in missed().meaning


@pytest.mark.parametrize("made", [violated, consistent, unplanted, missed])
def test_a_result_is_plain_json_and_loads_back(made: Made) -> None:
    result = made()
    text = json.dumps(result.to_dict(), allow_nan=False)
    assert json.loads(text) == result.to_dict()
    loaded = AuditResult.from_dict(json.loads(text))
    assert loaded == result
    assert str(loaded) == str(result)
    (pair,) = result.to_dict()["pairs"]
    assert pair["data"] == [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]


def test_bets_profiles_and_query_moves_load_back() -> None:
    pair = moved("up", [0.0], [0.5], QueryMoves("1/2", 1))
    claim = Profile([GaussianDP("0.3"), (PureDP("0.1"), 2)], "1e-3")
    result = audit(
        noisy(), claim=claim, pairs=[pair], trials=400, seed=0, vectorized=True, sequential=True
    )
    loaded = AuditResult.from_dict(json.loads(json.dumps(result.to_dict(), allow_nan=False)))
    assert loaded == result
    assert loaded.adjacency == QueryMoves("1/2", 1)


def test_what_is_no_result_is_refused() -> None:
    others: list[Any] = [{"result": "Estimate"}, [], {}]
    for given in others:
        with pytest.raises(ValueError, match="give what to_dict"):
            AuditResult.from_dict(given)
    whole = violated().to_dict()
    for name in whole.keys() & {"verdict", "guarantee", "faults", "bets", "draws", "certificates"}:
        with pytest.raises(ValueError, match=f"give what to_dict.*{name}"):
            AuditResult.from_dict({key: one for key, one in whole.items() if key != name})
    with pytest.raises(ValueError, match="no certificates"):
        AuditResult.from_dict({**whole, "certificates": []})

    class Mine:
        def why_not_neighbors(self, left: Any, right: Any) -> None:
            return None

        def __str__(self) -> str:
            return "mine"

    pair = NeighboringPair(name="mine", left=[0.0], right=[1.0], adjacency=Mine())
    result = audit(noisy(), claim=PureDP(1), pairs=[pair], trials=400, seed=0, vectorized=True)
    with pytest.raises(ValueError, match="'mine' are of a relation that only the program"):
        AuditResult.from_dict(result.to_dict())


def test_a_result_carries_what_its_witness_needs(tmp_path: Path) -> None:
    made = json.loads(write_witness(violated(), tmp_path / "w.json").read_text(encoding="ascii"))
    check(made)
    assert made["subject"] == "noisy_sum, scale x 0.5"
    assert violated().pairs == (PAIR,)
    loaded = AuditResult.from_dict(violated().to_dict())
    with pytest.raises(ValueError, match="loaded from plain data has no pairs"):
        witness_of(loaded)


def test_results_of_arrays_are_compared() -> None:
    """Datasets of arrays have no one truth value; results that hold them must be comparable all
    the same."""

    def run() -> AuditResult:
        count = NoisyCount.for_budget(PureDP(1), adjacency=Adjacency.ADD_REMOVE)
        pair = added("one more", np.zeros((3, 1)), [1.0])
        return audit(count, pairs=[pair], faults=(), trials=400, seed=0)

    assert run() == run()
    assert hash(run()) == hash(run())


# --- planted faults by an argument ---------------------------------------------------------


def test_faults_are_the_function_with_less_noise() -> None:
    def f(data: Any, size: int = 1, *, sigma: float = 4.0) -> Any:
        return data, size, sigma

    one, other = scaled_faults(f, by="sigma")
    assert (one.__name__, other.__name__) == ("f, sigma x 0.7", "f, sigma x 0.5")
    assert one("data") == ("data", 1, 4.0 * 0.7)
    assert other("data", 7) == ("data", 7, 2.0)
    (none,) = scaled_faults(f, by="sigma", scale=3.0, factors=[0])
    assert none("data") == ("data", 1, 0.0)


def test_a_scale_of_zero_plants_no_fault() -> None:
    def f(data: Any, scale: float = 0) -> Any: ...

    with pytest.raises(ValueError, match="scale = 0: 0 times a factor is 0 again"):
        scaled_faults(f)


def test_a_verdict_is_its_name_and_no_truth_value() -> None:
    assert violated().verdict == "VIOLATED"
    with pytest.raises(TypeError, match="ask the result for is_consistent"):
        assert violated().verdict


def _no_default(data: Any, scale: float) -> Any: ...


BAD_FAULTS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"function": 3}, TypeError, "no function"),
    ({"by": "sigma"}, TypeError, "no argument 'sigma'"),
    ({"function": _no_default}, TypeError, "no default"),
    ({"scale": "1"}, TypeError, "no number"),
    ({"factors": [1.0]}, ValueError, "from 0 to below 1"),
    ({"factors": [-0.5]}, ValueError, "from 0 to below 1"),
    ({"factors": []}, ValueError, "empty"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD_FAULTS)
def test_bad_faults_are_refused(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        scaled_faults(**{"function": noisy(), **change})


# --- claims beyond any number of draws ------------------------------------------------------


def test_a_claim_beyond_draws_is_said_to_be_one_before_any_draw() -> None:
    def never(data: Any, size: int) -> Any:
        raise KeyboardInterrupt

    claim = ApproxDP(1, "1e-30")
    said = r"1e-30 is out of reach.*audit_calibration\("
    with pytest.warns(OutOfReachWarning, match=said), pytest.raises(KeyboardInterrupt):
        audited(never, claim)


def test_it_is_in_the_report_too() -> None:
    with pytest.warns(OutOfReachWarning):
        result = audited(noisy(), ApproxDP(1, "1e-30"))
    assert "remark     delta = 1e-30 is out of reach" in str(result)
    assert AuditResult.from_dict(result.to_dict()) == result


def test_our_mechanisms_raise_no_warning() -> None:
    count = NoisyCount.for_budget(PureDP(1), adjacency=Adjacency.ADD_REMOVE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        audit(count, claim=ApproxDP(1, "1e-30"), pairs=[added("one", [0.0], 1.0)], faults=(),
              trials=400, seed=0)  # fmt: skip


@pytest.mark.parametrize(
    ("claim", "out"),
    [
        (ApproxDP(1, "1e-6"), False),
        (ApproxDP(1, "1.4e-8"), False),  # ln(10^6) / 1e9 = 1.38e-8
        (ApproxDP(1, "1.3e-8"), True),
        (ApproxDP(1, "1e-999"), True),
        (PureDP(1), False),
        (GaussianDP(1), False),
    ],
)
def test_which_claims_are_beyond_draws(claim: Guarantee, out: bool) -> None:
    assert (beyond_draws(claim, 1e-6) is not None) == out


def test_a_claim_that_hides_nothing_is_sent_elsewhere() -> None:
    with pytest.raises(
        ValueError, match=r"No number of draws refutes pure\(60\).*audit_calibration"
    ):
        audited(noisy(), PureDP(60))


def test_the_example_of_scaled_faults_is_true() -> None:
    assert doctest.testmod(scaled).attempted == 2
    assert doctest.testmod(scaled).failed == 0
