"""The checker of witnesses accepts what is true, and stands alone."""

from __future__ import annotations

import ast
import copy
import json
import math
import subprocess
import sys
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import norm

from dpverify import ApproxDP, GaussianDP, PureDP, ZeroConcentratedDP
from dpverify.audit import NeighboringPair
from dpverify.audit.certificates import Point
from dpverify.audit.confidence_regions import Counted, confidence_region
from dpverify.privacy import ApproximateGaussianDP, Guarantee, PerfectPrivacy
from spec.theory import check_witness
from spec.theory.check_witness import check, mp, on_claim, score
from tests.spec.witness_files import (
    ADDED,
    AGAUSSIAN,
    CHANGED,
    COUNTS_AT,
    MOVED,
    PROFILE,
    SHIFTED,
    forged,
    made_of,
    sealed,
    witness_of_bets,
    witness_of_counts,
)

FILE = Path(check_witness.__file__)


@pytest.fixture
def joint() -> dict[str, Any]:
    return copy.deepcopy(witness_of_counts())


@pytest.fixture
def bets() -> dict[str, Any]:
    return copy.deepcopy(witness_of_bets())


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


def test_what_could_not_be_checked_shows_in_the_exit_status(
    joint: dict[str, Any], tmp_path: Path
) -> None:
    """Exit with a status for a guarantee or an adjacency that no checker knows, and of records
    that are left out."""
    for path, value, status in (
        (("claim", "guarantee"), "pure(5)x", 2),
        (("claim", "adjacency"), "whatever", 2),
        (("pairs", 0, "data"), None, 2),
        (("subject",), "another", 0),
    ):
        file = tmp_path / "witness.json"
        file.write_text(json.dumps(forged(joint, path, value)))
        command = [sys.executable, "-W", "error", "-I", str(FILE), str(file)]
        assert subprocess.run(command, capture_output=True, check=False).returncode == status


def test_a_point_of_another_claim_is_taken_from_the_witness_and_this_is_said() -> None:
    said = check(made_of(PROFILE, ADDED))
    assert said[1].startswith("TAKEN FROM THE WITNESS: the point ")
    assert said[1].endswith(f" of {PROFILE}")


def test_another_adjacency_is_said_not_to_be_checked(joint: dict[str, Any]) -> None:
    messages = check(sealed({**joint, "claim": {**joint["claim"], "adjacency": "?"}}))
    assert messages[0].startswith("NOT CHECKED: whether ")


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


def _shows(counts: Counted, share: float, point: Point, alpha: float = 1e-6) -> bool:
    proof = {
        "counts": [counts.hits, counts.draws, counts.other_hits, counts.other_draws],
        "share": share,
        "alpha": alpha,
        "certified": [],
    }
    run = {"trials": 2_000_000, "draws": 4_000_000}
    witness = {"points": [point], "events": [("pair", "left over right", "event")], "run": run}
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
    (Counted(50_000, 80_000, 3, 80_000), 63.984375, 0.0),
    (Counted(50_000, 80_000, 1, 80_000), 64, 0.0),
]


@pytest.mark.parametrize(("counts", "share", "delta"), COUNTS)
def test_it_shows_what_the_region_shows_and_little_more(
    counts: Counted, share: float, delta: float
) -> None:
    epsilon = confidence_region(counts, share, 1e-6).epsilon_at(delta)
    assert _shows(counts, share, (epsilon, delta))
    estimate = math.log(counts.hits / counts.draws) - math.log(
        max(1, counts.other_hits) / counts.other_draws
    )
    assert not _shows(counts, share, (epsilon + 0.02 * abs(estimate - epsilon), delta))


@pytest.mark.parametrize(
    ("draws", "share"),
    [*product([100, 2_000_000], [1, 32, 63, 64]), *product([600, 16_750, 83_750], [1, 64])],
)
def test_the_plainest_leaks_are_shown_to_the_last_digit(draws: int, share: float) -> None:
    """Always against never, and nearly so: all that the auditor certifies, without a margin."""
    for hits, other in [(draws, 0), (draws - 1, 0), (draws, 1), (draws // 2, 0)]:
        counts = Counted(hits, draws, other, draws)
        epsilon = confidence_region(counts, share, 8e-7).epsilon_at(0.0)
        if epsilon > 0:
            assert _shows(counts, share, (epsilon, 0.0), 8e-7)
            assert not _shows(counts, share, (epsilon * 1.05, 0.0), 8e-7)


# It stands alone.


def test_the_command_line(joint: dict[str, Any], tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "error", "-I", str(FILE), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(joint))
    bad.write_text(json.dumps(forged(joint, (*COUNTS_AT, 0), 7000)))
    verified, refused = run(str(good)), run(str(bad))
    assert (verified.returncode, verified.stderr) == (0, "")
    assert "8000/16000 against 1500/16000 refutes it at level 7.5e-07" in verified.stdout
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "ValueError: the counts do not refute" in refused.stderr
    assert run().returncode == 1


def test_it_is_short_and_imports_nothing_of_ours() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 230
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
