"""Runs of pytest within tests, where the plugin is found as an installed one is."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

# a run within a test forgets what it loads, and these load only once
import numpy.fft  # noqa: F401
import pytest
import sklearn.ensemble  # noqa: F401

ROOT = Path(__file__).parents[1]
FAST = """
    import pytest
    from dpverify import Adjacency, ApproxDP, PureDP
    from dpverify.audit import Box, OutputNorm, added
    from dpverify.testing import assert_calibrated, assert_sensitivity

    DOMAIN = Box(low=0, high=1)
    SEARCH = dict(norm=OutputNorm.L1, bound=1, adjacency=Adjacency.ADD_REMOVE, domain=DOMAIN)

    def test_calibrated():
        assert_calibrated(5, ApproxDP(1, "1e-5"), 1)

    def test_too_little_noise():
        assert_calibrated(1, ApproxDP("0.5", "1e-5"), 1)

    @pytest.fixture(scope="module")
    def searched():
        return assert_sensitivity(len, calls=100, **SEARCH)

    @pytest.mark.xdist_group("g")  # whose name xdist adds to the node id
    def test_of_a_fixture(searched):
        assert searched.is_consistent

    def test_several(tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert_sensitivity(len, calls=100, **SEARCH)
        assert_sensitivity(lambda x: 2.0 * len(x), calls=100, **SEARCH)

    def test_raising(audited):
        audited(lambda data: 1 / 0, claim=PureDP(1), pairs=[added("one", [0.0], 1.0)], trials=300)
"""


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Return a folder in which pytest finds the plugin by its entry point, as where dpverify is
    installed."""
    info = pytester.mkdir("site") / "of_a_test-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: of-a-test\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[pytest11]\ndpverify = _dpverify_pytest\n")
    pytester.syspathinsert(info.parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (info.parent, ROOT))))  # of workers
    return pytester


def run(inner: pytest.Pytester, *options: str) -> tuple[pytest.RunResult, list[dict[str, Any]]]:
    """Return a run, and the lines of its report."""
    result = inner.runpytest_inprocess("--dp-report=report.jsonl", "--junitxml=junit.xml", *options)
    return result, lines_of(inner)


def lines_of(inner: pytest.Pytester) -> list[dict[str, Any]]:
    """Return the lines of the last report."""
    text = (inner.path / "report.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def units_of(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the audits of a report by name, without what differs from run to run."""
    units = [line for line in lines if line["event"] == "unit-finished"]
    return {unit["name"]: {**unit, "seconds": None} for unit in units}
