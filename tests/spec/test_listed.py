"""docs/obligations.md is what the tests of obligations say today, and leaves none without a reason to fail."""

from __future__ import annotations

import pytest

from . import listed
from . import test_obligations as tests


def test_the_page_is_current() -> None:
    written = listed.PAGE.read_text(encoding="utf-8")
    assert written == listed.page(), "run `python -m tests.spec.listed --update`"


@pytest.mark.parametrize("name", tests._OBLIGATIONS)
def test_each_obligation_has_something_that_makes_it_fail(name: str) -> None:
    reasons = listed.fails_for(name)
    assert reasons
    assert all(not reason.endswith(": ") for reason in reasons)
