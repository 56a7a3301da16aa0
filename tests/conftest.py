"""A floor on the number of collected tests, and one hypothesis profile and one thread for
everybody."""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Generator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import threadpoolctl
from hypothesis import settings

from dpverify.suite.changed import Changed

ROOT = Path(__file__).parents[1]

FEWEST_TESTS = 12_000
"""Raise it as tests are added: a folder that silently stops being collected must be noticed."""

settings.register_profile("dpverify", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("dpverify")

# Hypothesis would read the source of every local module that is imported, 2.5 seconds in each
# process, and draw other examples in a process that has imported others.
with suppress(ImportError, AttributeError):  # other versions of Hypothesis
    _providers: Any = importlib.import_module("hypothesis.internal.conjecture.providers")
    _providers._get_local_constants = _providers.Constants

threadpoolctl.threadpool_limits(1)  # small matrices on a loaded machine: twenty times faster

# Workers, and processes that tests start, would otherwise compile the whole package again each.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--changed``, as that of ``dpverify audit`` and ``prove``."""
    parser.addoption(
        "--changed", action="store_true",
        help="only test files that depend, by imports, on files that differ from the last commit",
    )  # fmt: skip


_CHANGED = pytest.StashKey[Changed]()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore, with --changed, test files that nothing changed for; None leaves a file to others."""
    if not config.option.changed or not collection_path.match("test_*.py"):
        return None
    changed = config.stash.setdefault(_CHANGED, Changed(ROOT))
    module = ".".join(collection_path.relative_to(ROOT).with_suffix("").parts)
    return None if changed.affects(module) else True


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks of tests about one obligation, and of those about one module of the
    package."""
    config.addinivalue_line("markers", "of_spec(name): about an obligation, 'theory.queries:...'")
    config.addinivalue_line("markers", "of_module(name): about 'dpverify.mechanisms...' alone")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep, with --changed where specs alone changed, of the tests about one obligation those
    affected.

    Likewise, where the package alone did, of the tests about one of its modules.
    """
    changed = config.stash.get(_CHANGED, None)
    if changed is None or changed.everything:
        return
    tops = {module.partition(".")[0] for module in changed.modules}
    if tops not in ({"spec"}, {"dpverify"}):
        return

    @cache
    def affected(module: str) -> bool:
        return changed.affects(module)

    def concerned(item: pytest.Item) -> bool:
        if tops == {"dpverify"}:
            mark = item.get_closest_marker("of_module")
            return mark is None or affected(mark.args[0])
        mark = item.get_closest_marker("of_spec")
        return mark is None or affected("spec." + mark.args[0].partition(":")[0])

    others = [item for item in items if not concerned(item)]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if concerned(item)]


@pytest.fixture(autouse=True, scope="session")
def _no_times_of_other_runs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep remembered times of units elsewhere, also for processes that tests start."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each process of ``-n`` a half of what another has left as soon as it has nothing to do.

    By default tests are handed out in chunks, of which a last one of slow tests lets all but one
    process wait.
    """
    if config.getoption("dist") != "load":  # asked for otherwise
        return None
    from xdist.scheduler import WorkStealingScheduling  # a run without processes needs no xdist

    return WorkStealingScheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Look for no garbage while tests are collected: hardly any of a million objects is, and the
    search took a sixth.

    Afterwards these objects are left out of every search, and searches are rare: they took a
    twentieth of the tests' time.
    """
    gc.disable()
    _import_backwards(session)
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)
        gc.enable()


def _import_backwards(session: pytest.Session) -> None:
    """Import the files of a whole run from the last one on, in every other process of ``-n``.

    On a clean checkout, each process would rewrite the assertions of all files. So each rewrites
    half of them, and finds the other half written.
    """
    worker = getattr(session.config, "workerinput", {"workerid": "gw0"})["workerid"]
    if int(worker.removeprefix("gw")) % 2 == 0 or session.config.args not in (["tests"], []):
        return
    if session.config.option.changed:
        return
    for path in sorted((ROOT / "tests").rglob("test_*.py"), reverse=True):
        with suppress(Exception, pytest.skip.Exception):  # the collection tells of these
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fail a full run that collects fewer tests than there are known to be."""
    whole = session.config.args in (["tests"], []) and not session.config.option.keyword
    whole = whole and not session.config.option.changed
    if whole and not session.config.option.markexpr and len(session.items) < FEWEST_TESTS:
        raise pytest.UsageError(
            f"{len(session.items)} tests were collected, fewer than the {FEWEST_TESTS} known"
        )
