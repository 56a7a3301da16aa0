"""One working precision for every enclosure of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpverify.privacy.balls import working_precision

BITS = 200


@pytest.fixture(autouse=True)
def _precise() -> Iterator[None]:
    with working_precision(BITS):
        yield
