"""The pytest plugin of dpverify: seeds, options and reports for audits that tests make.

A package of its own, since pytest loads a plugin in every session and importing any module of
``dpverify`` loads all of its core. Nothing of dpverify is imported here before a test audits.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
from collections.abc import Callable, Generator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dpverify.testing import Finding

_NODE = pytest.StashKey[str]()
_AUDITED = pytest.StashKey["AuditedTest"]()
_REPORTER = "dpverify-reporter"
_running: list[AuditedTest] = []
"""The tests in progress, the innermost last: a test of a plugin runs pytest within pytest."""


class AuditedTest:
    """Test in progress; it owns the audits that are made while it or its fixtures run.

    name: the test's node id, which fixes the seed unless ``--dp-seed`` does.
    quick: whether ``--dp-quick`` was given.
    """

    def __init__(self, item: pytest.Item) -> None:
        self.name = item.stash.get(_NODE, item.nodeid)
        self.quick = bool(item.config.option.dp_quick)
        self._item = item
        self._audits = 0
        self._finished: list[dict[str, Any]] = []

    def seed(self, given: int | None) -> int:
        """Return the seed of an audit: of ``--dp-seed``, else as given, else a hash of the node id.

        The node id is that of a run from pytest's root folder, the same in every worker process.
        """
        asked: int | None = self._item.config.option.dp_seed
        if asked is not None:
            return asked
        if given is not None:
            return given
        return int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:4], "big")

    def replay(self, seed: int | None) -> str:
        """Return the command that runs this test again, with this seed where a seed matters."""
        config = self._item.config
        file, colons, inside = self.name.partition("::")
        path = os.path.relpath(config.rootpath / file, config.invocation_params.dir)
        seeded = "" if seed is None else f" --dp-seed {seed}"
        return f"pytest {shlex.quote(path + colons + inside)}{seeded}{' --dp-quick' * self.quick}"

    def record(self, finding: Finding) -> None:
        """Keep what an audit found, for the report and for the properties of the test in JUnit
        XML.
        """
        from dpverify.pytest_plugin import event_of

        self._audits += 1
        number = "" if self._audits == 1 else f"#{self._audits}"
        self._finished.append(event_of(finding, self.name + number))
        said = {"verdict": finding.verdict, **finding.facts}
        for name, text in said.items():
            self._item.user_properties.append((f"dpverify.{name}{number}", text))

    def take_events(self) -> list[dict[str, Any]]:
        """Return the audits that were recorded since the last call, as events in plain data."""
        taken, self._finished = self._finished, []
        return taken


def current_test() -> AuditedTest | None:
    """Return the test in progress, or None outside of tests."""
    return _running[-1] if _running else None


@pytest.fixture(scope="session")
def audited() -> Callable[..., Any]:
    """Audit a function's privacy claim in a test: ``dpverify.testing.assert_private``, as a
    fixture.
    """
    from dpverify.testing import assert_private

    return assert_private


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no seed; give a whole number, at least 0")
    return int(text)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the plugin's command-line options."""
    group = parser.getgroup("dpverify", "privacy audits (dpverify)")
    group.addoption(
        "--dp-seed", type=_seed, metavar="N",
        help="seed of every audit, a whole number of at least 0 (default: by the name of its test)",
    )  # fmt: skip
    group.addoption(
        "--dp-quick", action="store_true",
        help="fewer draws in every audit, which misses more; the summary says so",
    )  # fmt: skip
    group.addoption(
        "--dp-report", type=Path, metavar="FILE",
        help="write all audits of the run as JSON lines, as `dpverify audit --jsonl` does",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Collect the audits of all tests, in the process that reports them: no worker of xdist."""
    if hasattr(config, "workerinput"):
        return
    path: Path | None = config.option.dp_report
    if path is not None:
        path = config.invocation_params.dir / path  # tests may change the working folder
        if path.is_dir() or not path.parent.is_dir():
            wrong = "is a folder" if path.is_dir() else "lies in no folder that exists"
            raise pytest.UsageError(f"--dp-report {path} {wrong}; give the path of a file.")
    config.pluginmanager.register(_Reporter(config, path), _REPORTER)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Remember the node id before others add to it, as xdist adds a group's name."""
    item.stash[_NODE] = item.nodeid


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let audits find the test that they are made in."""
    test = item.stash[_AUDITED] = AuditedTest(item)
    _running.append(test)
    try:
        return (yield)
    finally:
        _running.pop()
        reporter = item.config.pluginmanager.get_plugin(_REPORTER)
        if reporter is not None:
            reporter.events += test.take_events()  # a test that was stopped has no report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Send the audits of a test along with pytest's report on it: xdist takes them to its
    controller.
    """
    report = yield
    test = item.stash.get(_AUDITED, None)
    events = test.take_events() if test is not None else []
    if events:
        vars(report)["dpverify"] = events
    return report


class _Reporter:
    """Reporter that collects every audit of a run and prints them at its end."""

    def __init__(self, config: pytest.Config, path: Path | None) -> None:
        self._config = config
        self._path = path
        self._start = perf_counter()
        self.events: list[dict[str, Any]] = []
        self._written = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the audits out of a report, wherever its test ran."""
        self.events += getattr(report, "dpverify", [])

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the report, also after Ctrl-C and where nothing was audited; not where no test
        is run.
        """
        if self._path is None or self._config.option.collectonly:
            return
        from dpverify.pytest_plugin import write_report

        interrupted = exitstatus == pytest.ExitCode.INTERRUPTED
        seconds, seed = perf_counter() - self._start, self._config.option.dp_seed or 0
        root = str(self._config.rootpath)
        try:
            write_report(self._path, self.events, root, seed, seconds, interrupted=interrupted)
            self._written = f"; written to {self._path}"
        except OSError as error:
            self._written = f"; --dp-report could not be written: {error}"
            if exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.INTERNAL_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print a line about the audits, if there were any or a report of them was asked for."""
        if not self.events:
            if self._written:
                terminalreporter.write_line(f"dpverify: nothing was audited{self._written}")
            return
        verdicts = [event["verdict"] for event in self.events]
        counts = ", ".join(f"{verdicts.count(one)} {one}" for one in sorted({*verdicts}))
        alpha = sum(event["data"].get("alpha", 0.0) for event in self.events)
        quick = "; fewer draws, by --dp-quick" if self._config.option.dp_quick else ""
        terminalreporter.write_line(
            f"dpverify: {counts}; false-alarm probability {alpha:.2g} in all{quick}{self._written}"
        )
