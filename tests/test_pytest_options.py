"""Options of the pytest plugin, and its report, in runs of pytest within these tests."""

from __future__ import annotations

import pytest

from tests.inner_runs import FAST, inner, run, units_of

__all__ = ["inner"]  # a fixture
pytest_plugins = "pytester"


def test_seeds_of_tests(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        FAST.partition("    def test_calibrated")[0]
        + """
    def test_given():
        assert assert_sensitivity(len, calls=100, seed=5, **SEARCH).seed == 5
    """
    )
    inner.runpytest_inprocess().assert_outcomes(passed=1)
    _, lines = run(inner, "--dp-seed=9")
    assert {unit["data"]["seed"] for unit in units_of(lines).values()} == {9}


def test_quick_runs_say_so(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        FAST.partition("    def test_calibrated")[0]
        + """
    def test_draws(audited):
        with pytest.raises(AssertionError, match="INVALID"):
            audited(lambda data: 1 / 0, claim=PureDP(1), pairs=[added("one", [0.0], 1.0)])
    """
    )
    result, lines = run(inner, "--dp-quick")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["dpverify: *; fewer draws, by --dp-quick; written to *"])
    assert all(unit["replay"].endswith(" --dp-quick") for unit in units_of(lines).values())


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--dp-seed=-1", "*argument --dp-seed: '-1' is no seed; give a whole number, at least 0"),
        ("--dp-report=.", "*--dp-report * is a folder; give the path of a file.*"),
        ("--dp-report=no/where", "*--dp-report * lies in no folder that exists; *"),
    ],
)
def test_wrong_options_end_before_any_test(option: str, said: str, inner: pytest.Pytester) -> None:
    inner.makepyfile("def test(): pass")
    result = inner.runpytest_inprocess(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])


def test_a_report_that_cannot_be_written(inner: pytest.Pytester) -> None:
    inner.makepyfile("def test(): pass")
    result = inner.runpytest_inprocess("--dp-report=/dev/full")
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    result.stdout.fnmatch_lines(
        ["dpverify: nothing was audited; --dp-report could not be written: *"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_report_of_nothing(inner: pytest.Pytester) -> None:
    inner.makepyfile("def test(): pass")
    result, lines = run(inner)
    assert result.ret == 0
    assert [line["event"] for line in lines] == ["run-started", "run-finished"]
    assert lines[-1]["exit_code"] == 5


def test_collecting_overwrites_no_report(inner: pytest.Pytester) -> None:
    inner.makepyfile("def test(): pass")
    kept = inner.path / "kept.jsonl"
    kept.write_text("kept", encoding="utf-8")
    result = inner.runpytest_inprocess("--collect-only", f"--dp-report={kept}")
    assert result.ret == 0
    assert kept.read_text(encoding="utf-8") == "kept"
    result.stdout.no_fnmatch_line("dpverify: *")


def test_a_run_that_is_stopped_is_reported(inner: pytest.Pytester) -> None:
    """Report it with the audits of the test in which it was stopped."""
    name = "def test_of_a_fixture"
    stop = f"def test_stopped(searched):\n        pytest.exit('enough')\n\n    {name}"
    inner.makepyfile(FAST.replace(name, stop))
    result, lines = run(inner)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    names = [name.partition("::")[2] for name in units_of(lines)]
    assert names == ["test_calibrated", "test_stopped", "test_too_little_noise"]
    assert lines[-1]["interrupted"] is True
    assert lines[-1]["exit_code"] == 130
