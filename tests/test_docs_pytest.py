"""Pages about pytest: blocks of code that name a file are test files that run, and failures are
as they are shown."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator

import pytest

from tests import pages
from tests.inner_runs import inner

__all__ = ["inner"]  # a fixture
pytest_plugins = "pytester"
PAGES = {
    "how_to/pytest.md": (
        ["test_ages.py", "test_salaries.py", "test_opendp.py", "test_model.py"],
        {"passed": 6, "failed": 1},
        6,
    ),
    "tutorials/auditing.md": (
        ["test_total.py", "test_bold.py", "test_silent.py", "test_opendp_count.py"],
        {"passed": 2, "failed": 2},
        3,
    ),
}
"""Files of each page, how their tests end, and the number of lines of failures shown."""


@pytest.fixture(scope="module", autouse=True)
def _loaded_once() -> Iterator[None]:
    """Load OpenDP before a test remembers which modules there are, and forgets all others at its
    end.

    Loaded anew by the next test, it would leave objects behind that fail when they are collected.
    """
    peer = "opendp.prelude"
    loaded = importlib.import_module(peer) if importlib.util.find_spec("opendp") else None
    yield
    assert sys.modules.get(peer) is loaded


@pytest.mark.parametrize("page", PAGES)
def test_the_page_does_what_it_says(inner: pytest.Pytester, page: str) -> None:
    """False alarms: the functions are seeded; OpenDP's is refuted with probability 1e-6 at most."""
    text = (pages.DOCS / page).read_text(encoding="utf-8")
    names, outcomes, lines = PAGES[page]
    files = pages.files(text)
    assert text.count("```python") == len(files)
    assert [*files] == names
    expected = dict(outcomes)
    if importlib.util.find_spec("opendp") is None:  # of the extra ``peers``
        files = {name: body for name, body in files.items() if "opendp" not in name}
        expected["passed"] -= 1
    for name, body in files.items():
        (inner.path / name).write_text(body, encoding="utf-8")
    inner.syspathinsert(inner.path)
    result = inner.runpytest_inprocess()
    result.assert_outcomes(**expected)
    shown = [line for block in pages.blocks(text, "text") for line in block.splitlines()]
    assert len(shown) == lines
    for line in shown:
        told = re.escape(line).replace(r"\.\.\.", ".+")
        assert re.search(rf"^E +(\S+: )?{told}$", result.stdout.str(), re.MULTILINE), line
