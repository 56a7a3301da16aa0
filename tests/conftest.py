"""A floor on the number of collected tests, and one hypothesis profile and one thread for everybody."""

from __future__ import annotations

import os

import pytest
import threadpoolctl
from hypothesis import settings

FEWEST_TESTS = 7200
"""Raise it as tests are added: a folder that silently stops being collected must be noticed."""

settings.register_profile("dpverify", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("dpverify")

threadpoolctl.threadpool_limits(1)  # small matrices on a loaded machine: twenty times faster


@pytest.fixture(autouse=True, scope="session")
def _no_times_of_other_runs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What is remembered of units is remembered elsewhere, also by processes that tests start."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fail a full run that collects fewer tests than there are known to be."""
    whole = session.config.args in (["tests"], []) and not session.config.option.keyword
    if whole and not session.config.option.markexpr and len(session.items) < FEWEST_TESTS:
        raise pytest.UsageError(
            f"{len(session.items)} tests were collected, fewer than the {FEWEST_TESTS} known"
        )
