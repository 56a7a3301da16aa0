"""docs/how_to/pytest.md: every block of code is a test file that runs, and the failure that it shows is what is printed."""

from __future__ import annotations

import importlib.util
import re

import pytest

from tests.inner_runs import ROOT, inner

__all__ = ["inner"]  # a fixture
pytest_plugins = "pytester"
PAGE = (ROOT / "docs" / "how_to" / "pytest.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```python\n# (\S+\.py)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))


def test_every_block_of_code_is_a_file() -> None:
    assert PAGE.count("```python") == len(FILES)
    assert [*FILES] == ["test_ages.py", "test_salaries.py", "test_opendp.py", "test_model.py"]


def test_the_page_does_what_it_says(inner: pytest.Pytester) -> None:
    """False alarms: the functions are seeded; OpenDP's is refuted with probability 1e-6 at most."""
    outcomes = {"passed": 6, "failed": 1}
    files = dict(FILES)
    if importlib.util.find_spec("opendp") is None:  # of the extra ``peers``
        del files["test_opendp.py"]
        outcomes["passed"] -= 1
    for name, text in files.items():
        (inner.path / name).write_text(text, encoding="utf-8")
    result = inner.runpytest_inprocess()
    result.assert_outcomes(**outcomes)
    (shown,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert len(shown.splitlines()) == 6
    for line in shown.splitlines():
        told = re.escape(line).replace(r"\.\.\.", ".+")
        assert re.search(rf"^E +(\S+: )?{told}$", result.stdout.str(), re.MULTILINE), line
