"""The checker of witnesses refuses what is forged, although the checksum fits."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dpverify import PureDP
from dpverify.audit import NeighboringPair
from spec.theory import check_witness
from spec.theory.check_witness import check, on_claim
from tests.spec.witness_files import (
    CHANGED,
    COUNTS_AT,
    MOVED,
    SHIFTED,
    forged,
    made_of,
    refusal,
    witness_of_bets,
    witness_of_counts,
)


@pytest.fixture
def joint() -> dict[str, Any]:
    return copy.deepcopy(witness_of_counts())


@pytest.fixture
def bets() -> dict[str, Any]:
    return copy.deepcopy(witness_of_bets())


def test_a_change_without_a_new_checksum_is_refused(joint: dict[str, Any]) -> None:
    assert check(joint)
    assert refusal({**joint, "subject": "another"}) == "checksum differs"


IMPOSSIBLE = [
    *("perfect(5)", "pure", "pure(1, 0)", "pure(-1)", "approx(1)", "approx(1, -1)", "approx(1, 1)"),
    *("zcdp(-1)", "gaussian(-1)", "agaussian(1, 0)", "agaussian(1, 0, -0.5)"),
]
POINT, CERTIFIED = ("points", 0), ("certificate", "certified")
FORGERIES: list[tuple[tuple[Any, ...], Any, str]] = [
    (("schema", "version"), 2, "unknown schema"),
    ((*COUNTS_AT, 0), 7850, "do not refute"),
    ((*COUNTS_AT, 0), 16_001, "impossible"),
    ((*COUNTS_AT, 0), -1, "impossible"),
    ((*COUNTS_AT, 0), 8000.0, "impossible"),
    ((*COUNTS_AT, 0), True, "impossible"),
    ((*COUNTS_AT, 1), 16_400, "do not refute"),
    ((*COUNTS_AT, 1), 25_000, "share or draws"),
    ((*COUNTS_AT, 2), 1540, "do not refute"),
    ((*COUNTS_AT, 3), 15_500, "do not refute"),
    ((*COUNTS_AT, 3), 1499, "impossible"),
    (("certificate", "share"), 4, "do not refute"),
    (("certificate", "share"), 0, "share"),
    (("certificate", "share"), 64, "do not refute"),
    (("certificate", "share"), 65, "share"),
    (("certificate", "share"), -1, "share"),
    (("certificate", "alpha"), 1e-7, "do not refute"),
    (("certificate", "alpha"), 2e-6, "alpha"),
    (("certificate", "alpha"), 0.0, "alpha"),
    (("certificate", "method"), "box", "box"),
    ((*CERTIFIED, 0, 0), lambda epsilon: epsilon * 1.02, "do not refute"),
    ((*CERTIFIED, 0, 1), 0.02, "do not refute"),
    ((*POINT, 0), 0.99, "not promised"),
    ((*POINT, 0), 1.6, "do not refute"),
    ((*POINT, 0), -0.1, "no claim has a point"),
    ((*POINT, 1), 0.9e-5, "not promised"),
    ((*POINT, 1), 0.25, "do not refute"),
    (("points",), [], "no pair, direction or point"),
    (("events",), [], "no pair, direction or point"),
    (("events", 0, 0), "another pair", "no pair, direction or point"),
    (("events", 0, 1), "left over left", "no pair, direction or point"),
    (("claim", "guarantee"), "approx(1.1, 1e-5)", "not promised"),
    (("claim", "guarantee"), "approx(1, 1.1e-5)", "not promised"),
    (("claim", "guarantee"), "gaussian(1.5)", "not promised"),
    (("claim", "guarantee"), "zcdp(1)", "not promised"),
    (("claim", "guarantee"), "approx(1)(", "lies"),
    (("claim", "adjacency"), "replace", "no replace neighbors"),
    (("claim", "adjacency"), "all answers move by at most 1", "neighbors"),
    (("pairs", 0, "data", 0), [0.0, 0.0], "no add-remove neighbors"),
    (("pairs", 0, "data", 0), [1.0, 0.0, 0.5], "no add-remove neighbors"),
    (("pairs", 0, "data", 0), [1.0, 2.0, 0.0, 0.0], "no add-remove neighbors"),
    (("pairs",), [], "no pair, direction or point"),
    (("run", "alpha"), 1e-7, "alpha"),
    (("run", "alpha"), 1.5, "alpha"),
    (("run", "trials"), 15_999, "share or draws"),
    (("run", "draws"), 31_999, "share or draws"),
    ((*POINT, 1), -0.5, "no claim has a point"),
    ((*POINT, 1), 1.0, "no claim has a point"),
    *((("claim", "guarantee"), claim, "is no claim") for claim in IMPOSSIBLE),
]


@pytest.mark.parametrize(("path", "value", "why"), FORGERIES)
def test_a_forged_witness_of_counts_is_refused(
    joint: dict[str, Any], path: tuple[Any, ...], value: Any, why: str
) -> None:
    made = forged(joint, path, value)
    if value == "approx(1)(":  # unreadable, so nothing can be said about it, which is said
        assert "TAKEN FROM THE WITNESS" in check(made)[1]
    else:
        assert why in refusal(made)


FORGED_BETS: list[tuple[tuple[Any, ...], Any, str]] = [
    (("bets",), [], "too little"),
    (("bets",), lambda bets: bets[:-1], "too little"),
    (("bets", -1, 2), 0.9, "lose everything"),
    (("bets", -1, 2), -0.1, "lose everything"),
    (("bets", -1, 2), lambda stake: stake / 1000, "too little"),
    (("bets", -1, 3), -1, "counts: "),
    (("bets", -1, 4), 0, "too little"),
    (("bets", -1, 4), 12.5, "counts: "),
    (("bets", -1, 5), 60, "too little"),
    (("bets", -1, 6), 5000, "counts: "),
    (("bets", -1, 0), 99, "range"),
    (("bets", -1, 1), 99, "range"),
    (("certificate", "omitted"), -8.0, "too little"),
    (("certificate", "certified"), [[99.0, 0.0]], "show no bound"),
    (("certificate", "certified"), [[0.5, 0.0]], "show no bound"),
    (("certificate", "level"), 1e-9, "too little"),
    (("certificate", "level"), 1e-5, "too little"),
    (("certificate", "level"), 0.0, "too little"),
    (("certificate", "alpha"), 1e-5, "alpha"),
    (("certificate", "alpha"), 1e-7, "too little"),
    (("points", 0, 1), 0.9, "too little"),
    (("points", 0, 1), 0.0, "not promised"),
    (("claim", "guarantee"), "gaussian(1.1)", "not promised"),
    (("claim", "adjacency"), "replace", "no replace neighbors"),
]


@pytest.mark.parametrize(("path", "value", "why"), FORGED_BETS)
def test_a_forged_history_of_bets_is_refused(
    bets: dict[str, Any], path: tuple[Any, ...], value: Any, why: str
) -> None:
    assert why in refusal(forged(bets, path, value))


def test_a_claim_that_cannot_be_read_has_no_impossible_point() -> None:
    for epsilon, delta in [(-0.1, 0.5), (1.0, -0.5), (1.0, 1.0)]:
        with pytest.raises(ValueError, match="no claim has a point"):
            on_claim("another", epsilon, delta)
    with pytest.raises(ValueError, match="not promised"):
        on_claim("pure(sqrt(0.25))", 0.25, 0.0)


def test_answers_that_move_by_nothing_do_not_move() -> None:
    relation = "all answers move by at most 0"
    with pytest.raises(ValueError, match="no all answers move by at most 0 neighbors"):
        check_witness.neighbors("same", [[0.0], [0.0]], relation)
    with pytest.raises(ValueError, match="no all answers move by at most 0 neighbors"):
        check_witness.neighbors("moved", [[0.0], [1000.0]], relation)


def test_a_win_that_was_left_out_does_not_count(bets: dict[str, Any]) -> None:
    made = forged(bets, ("certificate", "omitted"), 100.0)
    assert "too little" in refusal(forged(made, ("bets",), []))


@pytest.mark.parametrize(
    ("pair", "right"),
    [
        (CHANGED, [0.0, 1.0, 5.5]),
        (CHANGED, [0.0, 1.0]),
        (MOVED, [3.0, 0.76, -1.0]),
        (MOVED, [3.25, 0.75, -1.0]),
        (MOVED, [3.0, 0.75]),
        (SHIFTED, [1.5, 1, "inf"]),
        (SHIFTED, [2.5, 1, "nan"]),
        (SHIFTED, [2.5, 1, 1e308]),
    ],
)
def test_no_neighbors_are_refused(pair: NeighboringPair, right: list[Any]) -> None:
    made = forged(made_of(PureDP(1), pair), ("pairs", 0, "data", 1), right)
    assert refusal(made)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("data", [[[1.0], [1.0]], {"": 0, "x": 1}, ["ab", "a"], ["ab", "ac"]])
def test_what_is_no_pair_of_two_lists_is_refused(relation: str, data: Any) -> None:
    """Equal datasets, too: nothing tells them apart."""
    with pytest.raises((ValueError, KeyError)):
        check_witness.neighbors("pair", data, relation)


def test_large_alphas_show_nothing(joint: dict[str, Any], bets: dict[str, Any]) -> None:
    """Show nothing: at nine tenths one pair of draws would win enough."""
    for made in (joint, bets):
        assert "alpha exceeds" in refusal(forged(made, ("run", "alpha"), 0.9))
        assert check(forged(made, ("run", "alpha"), 0.05))


def test_counts_are_of_one_event(joint: dict[str, Any]) -> None:
    (event,) = joint["events"]
    other = [event[0], "right over left", event[2]]
    assert refusal(forged(joint, ("events",), [event, other]))


def test_words_of_a_witness_do_not_say_what_was_checked(joint: dict[str, Any]) -> None:
    made = forged(joint, ("run", "replay"), "NOT CHECKED, TAKEN FROM THE WITNESS")
    assert not any(line.startswith(("NOT CHECKED", "TAKEN FROM")) for line in check(made))


def test_what_no_checker_of_a_file_can_know(joint: dict[str, Any]) -> None:
    """List what no checker can know: what other counts would show, what follows, another share,
    the run; hence the replay line."""
    for path, value in [
        ((*COUNTS_AT, 0), 9000),
        ((*COUNTS_AT, 2), 1000),
        (("certificate", "share"), 50),
        (("claim", "guarantee"), "approx(0.9, 1e-6)"),
        (("run", "seed"), 8),
        (("subject",), "another"),
    ]:
        assert check(forged(joint, path, value))
