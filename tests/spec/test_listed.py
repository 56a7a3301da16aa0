"""docs/explanation/obligations.md is what the tests of obligations say today, and leaves none
without a reason to fail."""

from __future__ import annotations

from . import listed
from . import test_obligations as tests


def test_the_page_is_current() -> None:
    written = listed.PAGE.read_text(encoding="utf-8")
    assert written == listed.page(), "run `python -m tests.spec.listed --update`"


def test_each_obligation_has_something_that_makes_it_fail() -> None:
    for name in tests._OBLIGATIONS:
        reasons = listed.fails_for(name)
        assert reasons, name
        assert all(not reason.endswith(": ") for reason in reasons), name
