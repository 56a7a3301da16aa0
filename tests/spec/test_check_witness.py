"""The checker of witnesses: it accepts what is true, refuses what is forged, and stands alone."""

from __future__ import annotations

import ast
import copy
import hashlib
import json
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from dpverify import ApproxDP, GaussianDP, PureDP, ZeroConcentratedDP
from dpverify.audit import AuditResult, NeighboringPair, Verdict, added, audit, replaced
from dpverify.audit.certificates import Aim, Point, certify
from dpverify.audit.evidence import witness_of
from dpverify.audit.neighbors.pairs import QueryMoves
from dpverify.audit.regions import Counted, region
from dpverify.privacy import ApproximateGaussianDP, Guarantee, PerfectPrivacy, Profile
from spec.theory import check_witness
from spec.theory.check_witness import check, mp, on_claim, score

FILE = Path(check_witness.__file__)
ADDED = added("one enters", [0.0, 0.0], 1.0)
CHANGED = replaced("one changes", [0.0, 0.0, 5.0], 1.0, at=1)
MOVED = NeighboringPair(
    name="one moves",
    left=[3.0, 0.25, -1.0],
    right=[3.0, 0.75, -1.0],
    adjacency=QueryMoves("1/2", 1),
)
SHIFTED = NeighboringPair(
    name="all move", left=[3, 0, float("inf")], right=[2.5, 1, float("inf")], adjacency=QueryMoves()
)
AGAUSSIAN = ApproximateGaussianDP("0.8", "1e-7", "1e-5")
PROFILE = Profile([(PureDP("0.1"), 2), (GaussianDP("0.5"), 1)], 0, 0)


def counted(guarantee: Guarantee, pair: NeighboringPair, point: Point = (1.0, 0.0)) -> AuditResult:
    """8000 against 1500 hits of 16000, an epsilon of 1.58 or so at delta = 0, as a result."""
    counts = Counted(8000, 16_000, 1500, 16_000)
    where = (pair.name, "left over right", "number 0 >= 1")
    found = certify(where, counts, Aim(point, 40), 7.5e-7, guarantee)
    assert found.refuted
    adjacency: Any = pair.adjacency
    return AuditResult(
        Verdict.VIOLATED, guarantee, adjacency, (found,), (), 1e-6, 20_000, 7, 40_000
    )


def made_of(
    guarantee: Guarantee, pair: NeighboringPair, point: Point = (1.0, 0.0)
) -> dict[str, Any]:
    """As read from a file."""
    result = counted(guarantee, pair, point)
    made: dict[str, Any] = json.loads(json.dumps(witness_of(result, subject="s", pairs=[pair])))
    return made


def sealed(witness: dict[str, Any]) -> dict[str, Any]:
    """With a new checksum, as a forger would."""
    text = json.dumps({**witness, "sha256": ""}, sort_keys=True)
    return {**witness, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def refusal(witness: dict[str, Any]) -> str:
    """Why it is refused; fails if it is not."""
    with pytest.raises((ValueError, KeyError, IndexError, TypeError)) as caught:
        check(witness)
    return str(caught.value)


@pytest.fixture(scope="module")
def joint() -> dict[str, Any]:
    return made_of(ApproxDP(1, "1e-5"), ADDED, (1.0, 1e-5))


@pytest.fixture(scope="module")
def bets() -> dict[str, Any]:
    # Noise of half the scale in multiples of 2^-20: refuted but with a chance below 1e-9.
    rng = np.random.default_rng(5)

    def noisy_sum(data: Any, size: int) -> Any:
        return np.round((sum(data) + rng.normal(scale=0.5, size=size)) * 2**20)

    result = audit(
        noisy_sum,
        claim=GaussianDP(1),
        pairs=[ADDED],
        trials=5000,
        seed=3,
        vectorized=True,
        sequential=True,
    )
    made: dict[str, Any] = json.loads(json.dumps(witness_of(result, subject="s", pairs=[ADDED])))
    return made


# What is true is accepted.


@pytest.mark.parametrize("pair", [ADDED, CHANGED, MOVED, SHIFTED], ids=lambda pair: pair.name)
def test_every_adjacency(pair: NeighboringPair) -> None:
    assert check(made_of(PureDP(1), pair))[0] == f"pair {pair.name!r}: {pair.adjacency} neighbors"


CLAIMS: list[Guarantee] = [
    PerfectPrivacy(),
    PureDP(1),
    PureDP("1/3"),
    ApproxDP("0.3", "1e-6"),
    ZeroConcentratedDP("0.2"),
    GaussianDP("0.7"),
    GaussianDP.of_square("0.7"),
    GaussianDP(Fraction(3, 7)),
    ApproximateGaussianDP("0.8", "1e-6", 0),
    AGAUSSIAN,
]


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_every_claim(claim: Guarantee) -> None:
    said = check(made_of(claim, ADDED))
    assert said[1].endswith(f"lies on {claim}")


def test_a_point_of_another_claim_is_taken_from_the_witness_and_this_is_said() -> None:
    said = check(made_of(PROFILE, ADDED))
    assert said[1].endswith(f"of {PROFILE} is TAKEN FROM THE WITNESS")


def test_another_adjacency_is_said_not_to_be_checked(joint: dict[str, Any]) -> None:
    assert (
        "NOT CHECKED" in check(sealed({**joint, "claim": {**joint["claim"], "adjacency": "?"}}))[0]
    )


def test_bets(bets: dict[str, Any]) -> None:
    assert any(line.startswith("bets won") for line in check(bets))


# Its numbers are right: against the kernel, exact fractions, and the region of the auditor.


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_profiles_are_those_of_the_kernel(claim: Guarantee) -> None:
    for epsilon in (0.0, 0.2, 0.3, 1.0, 1.7, 4.0):
        delta = claim.delta_at(Fraction(epsilon)).upper
        above = math.nextafter(float(delta), 1) if float(delta) < delta else float(delta)
        assert "lies on" in on_claim(str(claim), epsilon, above)
        if delta > 0:
            with pytest.raises(ValueError, match="not promised"):
                on_claim(str(claim), epsilon, float(delta) * (1 - 1e-9))


def test_scores_are_lower_ends_of_exact_ones() -> None:
    for draws, hits, p in [(1, 1, 0.3), (5, 1, 0.9), (40, 30, 0.5), (40, 10, 0.5), (300, 4, 0.001)]:
        q = Fraction(p)
        tail = sum(
            math.comb(draws, k) * q**k * (1 - q) ** (draws - k) for k in range(hits, draws + 1)
        )
        exact = float(norm.isf(float(tail))) if tail < 0.5 else float(norm.ppf(float(1 - tail)))
        assert exact - 2e-9 < score(hits, draws, mp.mpf(p)) <= exact + 1e-13
    assert score(0, 10, mp.mpf("0.5")) == score(3, 10, mp.mpf(1)) == -check_witness.FAR


def _shows(counts: Counted, share: int, point: Point, alpha: float = 1e-6) -> bool:
    proof = {
        "counts": [counts.hits, counts.draws, counts.other_hits, counts.other_draws],
        "share": share,
        "alpha": alpha,
        "certified": [],
    }
    witness = {"points": [point], "run": {"trials": 2_000_000, "draws": 4_000_000}}
    try:
        check_witness.joint(witness, proof)
    except ValueError:
        return False
    return True


COUNTS = [
    (Counted(5000, 10_000, 3000, 10_000), 24, 0.0),
    (Counted(60, 10_000, 0, 10_000), 20, 0.0),
    (Counted(10_000, 10_000, 8000, 9000), 32, 0.0),
    (Counted(9990, 10_000, 200, 9000), 60, 1e-3),
    (Counted(10_000, 20_000, 9200, 20_000), 32, 1e-3),
    (Counted(2000, 2_000_000, 1000, 2_000_000), 40, 1e-5),
]


@pytest.mark.parametrize(("counts", "share", "delta"), COUNTS)
def test_it_shows_what_the_region_shows_and_little_more(
    counts: Counted, share: int, delta: float
) -> None:
    epsilon = region(counts, share, 1e-6).epsilon_at(delta)
    assert _shows(counts, share, (epsilon, delta))
    estimate = math.log(counts.hits / counts.draws) - math.log(
        max(1, counts.other_hits) / counts.other_draws
    )
    assert not _shows(counts, share, (epsilon + 0.02 * abs(estimate - epsilon), delta))


@pytest.mark.parametrize("draws", [100, 600, 16_750, 83_750, 2_000_000])
@pytest.mark.parametrize("share", [1, 32, 63])
def test_the_plainest_leaks_are_shown_to_the_last_digit(draws: int, share: int) -> None:
    """Always against never, and nearly so: all that the auditor certifies, without a margin."""
    for hits, other in [(draws, 0), (draws - 1, 0), (draws, 1), (draws // 2, 0)]:
        counts = Counted(hits, draws, other, draws)
        epsilon = region(counts, share, 8e-7).epsilon_at(0.0)
        if epsilon > 0:
            assert _shows(counts, share, (epsilon, 0.0), 8e-7)
            assert not _shows(counts, share, (epsilon * 1.05, 0.0), 8e-7)


# What is forged is refused, although the checksum fits.


def test_a_change_without_a_new_checksum_is_refused(joint: dict[str, Any]) -> None:
    assert check(joint)
    assert refusal({**joint, "subject": "another"}) == "checksum differs"


def _forged(witness: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    made = copy.deepcopy(witness)
    place = made
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value(place[path[-1]]) if callable(value) else value
    return sealed(made)


IMPOSSIBLE = [
    *("perfect(5)", "pure", "pure(1, 0)", "pure(-1)", "approx(1)", "approx(1, -1)", "approx(1, 1)"),
    *("zcdp(-1)", "gaussian(-1)", "agaussian(1, 0)", "agaussian(1, 0, -0.5)"),
]
COUNTS_AT, POINT, CERTIFIED = ("certificate", "counts"), ("points", 0), ("certificate", "certified")
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
    (("certificate", "share"), 64, "share"),
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
    forged = _forged(joint, path, value)
    if value == "approx(1)(":  # unreadable, so nothing can be said about it, which is said
        assert "TAKEN FROM THE WITNESS" in check(forged)[1]
    else:
        assert why in refusal(forged)


FORGED_BETS: list[tuple[tuple[Any, ...], Any, str]] = [
    (("bets",), [], "too little"),
    (("bets",), lambda bets: bets[:-1], "too little"),
    (("bets", -1, 2), 0.9, "lose everything"),
    (("bets", -1, 2), -0.1, "lose everything"),
    (("bets", -1, 2), lambda stake: stake / 4, "too little"),
    (("bets", -1, 3), -1, "counts: "),
    (("bets", -1, 4), 0, "too little"),
    (("bets", -1, 4), 12.5, "counts: "),
    (("bets", -1, 5), 60, "too little"),
    (("bets", -1, 6), 5000, "counts: "),
    (("bets", -1, 0), 99, "range"),
    (("bets", -1, 1), 99, "range"),
    (("certificate", "omitted"), -8.0, "too little"),
    (("certificate", "level"), 1e-9, "too little"),
    (("certificate", "level"), 1e-5, "too little"),
    (("certificate", "level"), 0.0, "too little"),
    (("certificate", "alpha"), 1e-5, "alpha"),
    (("certificate", "alpha"), 1e-7, "too little"),
    (("points", 0, 1), 0.9, "lose everything"),
    (("points", 0, 1), 0.0, "not promised"),
    (("claim", "guarantee"), "gaussian(1.1)", "not promised"),
    (("claim", "adjacency"), "replace", "no replace neighbors"),
]


@pytest.mark.parametrize(("path", "value", "why"), FORGED_BETS)
def test_a_forged_history_of_bets_is_refused(
    bets: dict[str, Any], path: tuple[Any, ...], value: Any, why: str
) -> None:
    assert why in refusal(_forged(bets, path, value))


def test_a_claim_that_cannot_be_read_has_no_impossible_point() -> None:
    for epsilon, delta in [(-0.1, 0.5), (1.0, -0.5), (1.0, 1.0)]:
        with pytest.raises(ValueError, match="no claim has a point"):
            on_claim("another", epsilon, delta)
    with pytest.raises(ValueError, match="not promised"):
        on_claim("pure(sqrt(0.25))", 0.25, 0.0)


def test_answers_that_move_by_nothing_do_not_move() -> None:
    relation = "all answers move by at most 0"
    assert check_witness.neighbors("same", [[0.0], [0.0]], relation).endswith("neighbors")
    with pytest.raises(ValueError, match="no all answers move by at most 0 neighbors"):
        check_witness.neighbors("moved", [[0.0], [1000.0]], relation)


def test_a_win_that_was_left_out_does_not_count(bets: dict[str, Any]) -> None:
    forged = _forged(bets, ("certificate", "omitted"), 100.0)
    assert "too little" in refusal(_forged(forged, ("bets",), []))


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
    forged = _forged(made_of(PureDP(1), pair), ("pairs", 0, "data", 1), right)
    assert refusal(forged)


def test_what_no_checker_of_a_file_can_know(joint: dict[str, Any]) -> None:
    """What other counts would show, what follows, another share, the run; hence the replay line."""
    for path, value in [
        ((*COUNTS_AT, 0), 9000),
        ((*COUNTS_AT, 2), 1000),
        (("certificate", "share"), 50),
        (("claim", "guarantee"), "approx(0.9, 1e-6)"),
        (("run", "seed"), 8),
        (("subject",), "another"),
    ]:
        assert check(_forged(joint, path, value))


# It stands alone.


def test_the_command_line(joint: dict[str, Any], tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "error", "-I", str(FILE), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(joint))
    bad.write_text(json.dumps(_forged(joint, (*COUNTS_AT, 0), 7000)))
    verified, refused = run(str(good)), run(str(bad))
    assert (verified.returncode, verified.stderr) == (0, "")
    assert "8000/16000 against 1500/16000 refutes it at level 7.5e-07" in verified.stdout
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "ValueError: the counts do not refute" in refused.stderr
    assert run().returncode == 1


def test_it_is_short_and_imports_nothing_of_ours() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    roots: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            roots |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            roots.add(str(node.module).partition(".")[0])
    assert "mpmath" in roots
    assert roots - {"mpmath"} <= sys.stdlib_module_names


def test_the_precision_of_others_is_left_alone() -> None:
    import mpmath

    before = mpmath.mp.prec
    on_claim("gaussian(1)", 1.0, 0.5)
    assert (mpmath.mp.prec, mp.prec) == (before, 160)
