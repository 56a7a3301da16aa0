"""Witnesses: what they hold, and that they stay small."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpverify import Adjacency, GaussianDP, PureDP
from dpverify.audit import AuditResult, NeighboringPair, Verdict, added, audit
from dpverify.audit.betting import Bet, Tally
from dpverify.audit.certificates import Aim, Earlier, certify
from dpverify.audit.confidence_regions import Counted
from dpverify.audit.evidence import LARGEST, witness_of, write_witness
from dpverify.audit.neighbors.pairs import QueryMoves
from dpverify.audit.odds import log_odds_at_least
from dpverify.privacy import Guarantee
from dpverify.privacy.adjacency import Dataset
from spec.theory.check_witness import check, conditional

PAIR = added("one enters", [0.0, 0.0], 1.0)


class _Trusted:
    """Add-remove neighbors by our word: to look at ten million numbers takes 20 s."""

    def why_not_neighbors(self, left: Dataset, right: Dataset) -> str | None:
        return None

    def __str__(self) -> str:
        return "add-remove"


def refuted(name: str, claim: Guarantee | None = None, event: str = "number 0 >= 1") -> AuditResult:
    """Return a result with counts that refute pure(1), under add-remove."""
    guarantee = PureDP(1) if claim is None else claim
    certificate = certify(
        (name, "left over right", event),
        Counted(8000, 16_000, 1500, 16_000),
        Aim((1.0, 0.0), 32),
        7.5e-7,
        guarantee,
    )
    assert certificate.refuted
    return AuditResult(
        Verdict.VIOLATED,
        guarantee,
        Adjacency.ADD_REMOVE,
        (certificate,),
        (),
        1e-6,
        20_000,
        7,
        40_000,
    )


def witness(
    result: AuditResult, *, pairs: Sequence[NeighboringPair], subject: str = "s", replay: str = ""
) -> dict[str, Any]:
    """Return the witness of a result of an audit of these pairs."""
    return witness_of(replace(result, pairs=tuple(pairs)), subject=subject, replay=replay)


def half_the_noise(seed: int) -> Callable[[Any, int], Any]:
    """Return the sum with Laplace noise of scale 0.5: 2-DP, in whole numbers of 2^-20."""
    rng = np.random.default_rng(seed)

    def noisy_sum(data: Any, size: int) -> Any:
        return np.round((sum(data) + rng.laplace(scale=0.5, size=size)) * 2**20)

    return noisy_sum


def small(made: dict[str, Any]) -> int:
    """The size; that it is one allowed, and that nothing but JSON is in it."""
    text = json.dumps(made, separators=(",", ":"), allow_nan=False)
    assert json.loads(text) == made
    assert len(text) < LARGEST == 10_000
    return len(text)


def unpacked(data: Any) -> Any:
    """[left, right]."""
    return json.loads(zlib.decompress(base64.b64decode(data))) if isinstance(data, str) else data


@pytest.mark.parametrize("sequential", [False, True])
def test_a_witness_of_an_audit_is_verified(sequential: bool, tmp_path: Path) -> None:
    # Power: 0.53 against 0.13 in thousands of draws; both refute but with a chance below 1e-9.
    result = audit(
        half_the_noise(1),
        claim=PureDP(1),
        pairs=[PAIR],
        trials=5000,
        seed=0,
        vectorized=True,
        sequential=sequential,
    )
    path = write_witness(result, tmp_path / "w.json", replay="python half.py --seed 0")
    made = json.loads(path.read_text(encoding="ascii"))
    assert small(made) == path.stat().st_size
    said = check(made)
    assert said[0] == "pair 'one enters': add-remove neighbors"
    assert said[1] == "the point (1.0, 0.0) lies on pure(1)"
    assert said[-1].endswith("replay: python half.py --seed 0")
    assert made["subject"] == "noisy_sum"
    assert made["run"]["seed"] == 0
    assert made["run"]["trials"] == 5000
    assert set(made["run"]["versions"]) == {"python", "numpy", "scipy", "dpverify"}
    assert made["certificate"]["method"] == ("betting" if sequential else "joint")
    assert ("bets" in made) == sequential


def test_a_verdict_without_a_violation_has_no_witness() -> None:
    silent = replace(refuted("one enters"), verdict=Verdict.POWERLESS)
    with pytest.raises(ValueError, match=r"POWERLESS; only a VIOLATED claim has a witness"):
        witness(silent, subject="s", pairs=[PAIR])


def test_pairs_must_be_those_of_the_audit() -> None:
    with pytest.raises(ValueError, match=r"'elsewhere', which is not among the result's pairs"):
        witness(refuted("elsewhere"), subject="s", pairs=[PAIR])
    with pytest.raises(ValueError, match="the same name"):
        witness(refuted("one enters"), subject="s", pairs=[PAIR, PAIR])


def test_a_long_command_is_refused_and_not_cut() -> None:
    with pytest.raises(ValueError, match="replay has 2002 bytes"):
        witness(refuted("one enters"), subject="s", pairs=[PAIR], replay="x" * 2000)


def test_the_point_is_the_one_with_the_largest_excess() -> None:
    result = refuted("one enters", GaussianDP("0.7"))
    (epsilon, delta), *others = witness(result, subject="s", pairs=[PAIR])["points"]
    assert not others
    assert delta >= GaussianDP("0.7").delta_at(Fraction(epsilon)).lower
    region = result.strongest.region
    assert region is not None
    everywhere = [i / 100 for i in range(200)]
    profile = [float(GaussianDP("0.7").delta_at(Fraction(e)).upper) for e in everywhere]
    best = max(region.excess(e, d) for e, d in zip(everywhere, profile, strict=True))
    assert region.excess(epsilon, delta) > 0.95 * best


@pytest.mark.parametrize("epsilon", ["0.3", "0.7", "1/3", "1.1", "0.1"])
def test_the_point_is_on_the_claim_although_floats_are_not(epsilon: str) -> None:
    made = witness(refuted("one enters", PureDP(epsilon)), subject="s", pairs=[PAIR])
    ((at, delta),) = made["points"]
    assert Fraction(at) >= PureDP(epsilon).epsilon
    assert (abs(Fraction(at) - PureDP(epsilon).epsilon) < 1e-15, delta) == (True, 0.0)


def test_records_of_every_kind_come_back_exactly() -> None:
    base = [
        float("nan"),
        -0.0,
        5e-324,
        0.1,
        float("-inf"),
        True,
        None,
        "nan",
        2**70,
        Fraction(1, 3),
    ]
    rows = [
        *base,
        Decimal("0.2"),
        (1, [2.5]),
        1 + 2j,
        {"a": 1},
        "\ud800",
        np.float32(0.1),
        10**5000,
    ]
    pair = added("odd", rows, "new")
    made = witness(refuted("odd"), subject="s", pairs=[pair])
    small(made)
    (written,) = made["pairs"]
    left, right = unpacked(written["data"])
    assert left == [{"text": "new"}, *right]
    assert right[:5] == ["nan", 0.0, 5e-324, 0.1, "-inf"]
    assert str(right[1]) == "-0.0"
    assert right[5:10] == [True, None, {"text": "nan"}, 2**70, "1/3"]
    assert right[10:12] == ["1/5", [1, [2.5]]]
    assert right[12:15] == [{"repr": "(1+2j)"}, {"repr": "{'a': 1}"}, {"text": "\ud800"}]
    assert right[15] == float(np.float32(0.1))
    assert right[16] == {"repr": f"{10**5000:#x}/0x1"}
    assert written["kinds"] == ["list of 18", "list of 17"]
    check(made)


@pytest.mark.parametrize("half", [Fraction(1, 2), Decimal("0.5")])
def test_a_fraction_that_is_a_float_is_written_as_that_float(half: Any) -> None:
    pair = NeighboringPair(
        name="half", left=[half, 0.0], right=[0.5, 1.0], adjacency=Adjacency.REPLACE
    )
    result = replace(refuted("half"), adjacency=Adjacency.REPLACE)
    made = witness(result, subject="s", pairs=[pair])
    assert unpacked(made["pairs"][0]["data"]) == [[0.5, 0.0], [0.5, 1.0]]
    assert check(made)[0] == "pair 'half': replace neighbors"


@pytest.mark.parametrize("trials", [1000, 20_000])
def test_a_mechanism_without_noise_has_a_witness(trials: int) -> None:
    """Find a witness without chance: n of n against 0 of n."""
    result = audit(sum, claim=PureDP(1), pairs=[PAIR], trials=trials, seed=0)
    made = witness(result, subject="sum", pairs=[PAIR])
    check(made)
    ((epsilon, _),) = made["certificate"]["certified"]
    assert 0 < result.epsilon - epsilon < 2e-7


def test_long_data_are_compressed() -> None:
    rows = np.zeros((10_000, 1))
    rows[3] = 1
    pair = NeighboringPair(
        name="long", left=rows, right=np.delete(rows, 3, 0), adjacency=Adjacency.ADD_REMOVE
    )
    made = witness(refuted("long"), subject="s", pairs=[pair])
    assert small(made) < 2000
    (written,) = made["pairs"]
    left, right = unpacked(written["data"])
    assert (left, right) == (rows.tolist(), pair.right.tolist())  # type: ignore[union-attr]
    assert written["kinds"][0] == "float64 array of shape (10000, 1)"
    assert check(made)[0] == "pair 'long': add-remove neighbors"


@pytest.mark.parametrize("listed", [False, True])
def test_huge_data_leave_digests_and_the_records_that_differ(listed: bool) -> None:
    # An array of 1000 rows of 1000 numbers; as a list of rows, of 200.
    rows: Any = np.random.default_rng(0).normal(size=(200 if listed else 1000, 1000))
    short: Any = np.delete(rows, 6, 0)
    if listed:
        rows, short = list(rows), list(short)
    pair = NeighboringPair(name="huge", left=short, right=rows, adjacency=_Trusted())
    made = witness(refuted("huge"), subject="s", pairs=[pair])
    small(made)
    (written,) = made["pairs"]
    assert written["data"] is None
    assert len(set(written["digests"])) == 2
    ((at, left, (record,)),) = written["differing"]
    assert (at, left) == (6, [])
    assert record["start"].startswith(f"[{float(rows[6][0])!r},")
    assert "NOT CHECKED: whether 'huge' are add-remove neighbors" in check(made)[0]
    same = NeighboringPair(name="huge", left=short, right=short, adjacency=_Trusted())
    (other,) = witness(refuted("huge"), subject="s", pairs=[same])["pairs"]
    assert other["digests"] == [written["digests"][0]] * 2
    assert other["differing"] == []


def test_moved_answers_that_are_too_many_show_the_first() -> None:
    answers = list(np.random.default_rng(0).normal(size=3000))
    pair = NeighboringPair(
        name="all", left=answers, right=[x + 0.5 for x in answers], adjacency=QueryMoves()
    )
    (written,) = witness(refuted("all"), subject="s", pairs=[pair])["pairs"]
    assert written["data"] is None
    assert [at for at, *_ in written["differing"]] == [0, 1, 2]
    assert written["differing"][0][1:] == [[answers[0]], [answers[0] + 0.5]]


def test_no_length_of_any_text_makes_it_large() -> None:
    long = "\N{PILE OF POO}" * 5000
    many = [Fraction(1, 10**3000 + i) for i in range(3)]
    pair = replace(PAIR, name=long, left=[*many, *PAIR.left], right=[*many, *PAIR.right])
    result = refuted(long, PureDP(1 - Fraction(1, 3**2000)), event=long)
    made = witness(result, subject=long, pairs=[pair], replay="\N{PILE OF POO}" * 120)
    small(made)
    assert made["pairs"][0]["name"] == made["events"][0][0]
    check(made)


def _history(count: int, pairs: int) -> AuditResult:
    """Return a sequential result of so many bets on so many pairs, the largest of which decide."""
    bets = [
        Bet(
            f"pair {i % pairs} {'x' * 300}",
            "right over left",
            f"event {i} {'y' * 300}",
            1.0,
            0.0,
            0.1 + i / 10**6,
            Tally(1, 60, 6, 10) if i % 10 == 0 else Tally(1, 4, 1, 60),
        )
        for i in range(count)
    ]
    betting = replace(refuted("last").strongest, method="betting", alpha=1e-6)
    return replace(refuted("last"), certificates=(betting,), bets=tuple(bets))


def test_bets_stop_where_the_bar_was_reached() -> None:
    result = _history(1000, 1)
    pair = replace(PAIR, name=result.bets[0].pair)
    made = witness(result, subject="s", pairs=[pair])
    small(made)
    growth = np.cumsum([bet.log_growth for bet in result.bets])
    assert growth.max() >= np.log(1e6)
    needed = int(np.argmax(growth >= np.log(1e6))) + 1
    assert 10 < needed < 100
    kept = [bet.stake for bet in result.bets[:needed]]
    stakes = [stake for _, _, stake, *_ in made["bets"]]
    assert set(stakes) <= set(kept)
    assert stakes == sorted(stakes)
    assert made["certificate"]["omitted"] <= 0
    assert (len(stakes) < needed) == (made["certificate"]["omitted"] < 0)
    assert "bets won" in check(made)[-2]


def test_a_bet_left_out_is_counted_as_a_loss_at_most() -> None:
    result = _history(100, 30)
    names = dict.fromkeys(bet.pair for bet in result.bets)
    made = witness(result, subject="s", pairs=[replace(PAIR, name=name) for name in names])
    small(made)
    assert made["certificate"]["omitted"] < 0
    shown = sum(bet.log_growth for bet in result.bets if bet.stake in {b[2] for b in made["bets"]})
    assert (
        shown + made["certificate"]["omitted"] <= sum(bet.log_growth for bet in result.bets) + 1e-9
    )


def test_bets_that_are_too_many_to_be_shown_are_refused() -> None:
    result = _history(3000, 40)
    even = tuple(replace(bet, tally=Tally(0, 1, 0, 60)) for bet in result.bets)
    pairs = [replace(PAIR, name=name) for name in dict.fromkeys(bet.pair for bet in even)]
    with pytest.raises(ValueError, match=r"spread over \d+ bets, too many for a witness"):
        witness(replace(result, bets=even), subject="s", pairs=pairs)


def with_an_earlier_event() -> AuditResult:
    """Return a result that neither event would show alone."""
    earlier = Earlier("number 0 >= 0", 2060, 5000, 630, 5000, 32, 0.2)
    counted = Counted(6570, 16_000, 2150, 16_000)
    where, aim = ("one enters", "left over right", "number 0 >= 1"), Aim((1.0, 0.0), 32)
    alone = certify(where, counted, aim, 7.5e-7, PureDP(1))
    certificate = certify(where, counted, aim, 7.5e-7, PureDP(1), earlier)
    assert (alone.refuted, certificate.refuted) == (False, True)
    return replace(refuted("one enters"), certificates=(certificate,), draws=42_000, trials=21_000)


def test_a_witness_of_two_events_is_verified_and_loads_back() -> None:
    result = with_an_earlier_event()
    made = witness(result, subject="s", pairs=[PAIR])
    small(made)
    assert any("refutes it" in line for line in check(made))
    assert made["certificate"]["earlier"]["counts"] == [2060, 5000, 630, 5000]
    assert AuditResult.from_dict(json.loads(json.dumps(result.to_dict()))) == result
    assert "before it: number 0 >= 0; 2060/5000 against 630/5000" in str(result)


def test_an_earlier_event_that_tells_nothing_is_no_part_of_the_proof() -> None:
    """Exact: its score of -2 stands for all lower ones, and the other event reaches the rest."""
    earlier = Earlier("number 0 >= 9", 0, 3000, 0, 3000, 32, 0.05)
    counted, where = Counted(8000, 16_000, 1500, 16_000), ("one enters", "left over right", "e")
    certificate = certify(where, counted, Aim((1.0, 0.0), 32), 7.5e-7, PureDP(1), earlier)
    result = replace(
        refuted("one enters"), certificates=(certificate,), draws=42_000, trials=21_000
    )
    made = witness(result, subject="s", pairs=[PAIR])
    assert made["certificate"]["earlier"]["scores"][0] == -2
    assert any("refutes it" in line for line in check(made))


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("counts", [1900, 5000, 630, 5000]),
        ("counts", [2060, 50_000, 630, 5000]),
        ("counts", [2060, 5001, 630, 5000]),  # one more than was left of the trials
        ("weight", 0.02),
        ("weight", 1.0),
        ("share", 1),
        ("scores", [0.0, 0.0]),
        ("scores", [3.0, 3.5]),
        ("scores", [-4.0, 7.5]),
        ("scores", [-2.0, 6.3]),
    ],
)
def test_a_forged_earlier_event_is_refused(entry: str, value: Any) -> None:
    """Exact: fewer hits, more draws than there were, other weights, scores that do not add up."""
    made = witness(with_an_earlier_event(), subject="s", pairs=[PAIR])
    made["certificate"]["earlier"][entry] = value
    text = json.dumps({**made, "sha256": ""}, sort_keys=True, allow_nan=False)
    made["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    with pytest.raises(ValueError, match=r"refute|draws|weight|scores"):
        check(made)


def of_a_rare_event(*, earlier: bool = False) -> AuditResult:
    """Return a result of the test of odds, alone or after an earlier event."""
    first = Earlier("number 0 >= 4", 90, 16_000, 9, 16_000, 0, 0.1) if earlier else None
    where, aim = ("one enters", "left over right", "number 0 >= 5"), Aim((1.0, 0.0), 0)
    certificate = certify(where, Counted(340, 60_000, 40, 60_000), aim, 7.5e-7, PureDP(1), first)
    assert certificate.refuted
    return replace(
        refuted("one enters"), certificates=(certificate,), draws=2 * 10**5, trials=10**5
    )


@pytest.mark.parametrize("earlier", [False, True])
def test_a_witness_of_a_ratio_of_odds_is_verified_and_loads_back(earlier: bool) -> None:
    result = of_a_rare_event(earlier=earlier)
    made = witness(result, subject="s", pairs=[PAIR])
    small(made)
    assert made["certificate"]["odds"] > 2.7
    assert ("odds" in made["certificate"].get("earlier", {})) == earlier
    assert any("refutes it" in line for line in check(made))
    assert AuditResult.from_dict(json.loads(json.dumps(result.to_dict()))) == result


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("counts", [320, 60_000, 40, 60_000]),  # the odds are those of more hits
        ("odds", 2.6),  # below the claim
        ("odds", 6.0),  # more than the counts show
        ("share", 64),
        ("certified", [[1.5, 0.0]]),
    ],
)
def test_a_forged_ratio_of_odds_is_refused(entry: str, value: Any) -> None:
    """Exact: fewer hits, odds that say too little or that were not shown, another share."""
    made = witness(of_a_rare_event(), subject="s", pairs=[PAIR])
    made["certificate"][entry] = value
    text = json.dumps({**made, "sha256": ""}, sort_keys=True, allow_nan=False)
    made["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    with pytest.raises(ValueError, match=r"refute|odds"):
        check(made)


def test_the_checker_takes_no_score_that_counts_do_not_have() -> None:
    """Exact: counts that lean the other way by far have a score far below any that is asked, and
    honest ends of low scores are accepted."""
    assert conditional(2, 60_000, 3000, 60_000, 1e9) < -100
    for score in (-6.0, -5.0, -4.0, -2.0, 0.0, 3.0):
        odds = math.exp(log_odds_at_least(200, 60_000, 40, 60_000, score))
        assert conditional(200, 60_000, 40, 60_000, odds) >= score
        assert conditional(200, 60_000, 40, 60_000, odds * (1 + 1e-5)) < score
