"""Runs of pytest within tests, where the plugin is found as an installed one is."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder in which pytest finds the plugin by its entry point, as where dpverify is installed."""
    info = pytester.mkdir("site") / "of_a_test-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: of-a-test\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[pytest11]\ndpverify = _dpverify_pytest\n")
    pytester.syspathinsert(info.parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (info.parent, ROOT))))  # of workers
    return pytester


def run(inner: pytest.Pytester, *options: str) -> tuple[pytest.RunResult, list[dict[str, Any]]]:
    """A run, and the lines of its report."""
    result = inner.runpytest_inprocess("--dp-report=report.jsonl", "--junitxml=junit.xml", *options)
    return result, lines_of(inner)


def lines_of(inner: pytest.Pytester) -> list[dict[str, Any]]:
    """The lines of the last report."""
    text = (inner.path / "report.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]
