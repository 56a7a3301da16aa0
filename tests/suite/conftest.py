"""A suite of somebody else's, for tests of what finds, proves and records it."""

from __future__ import annotations

import multiprocessing
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dpverify.suite import judges, trees
from dpverify.suite.engines import processes

ROOT = Path(__file__).parents[2]
_THEORY = (
    "__init__",
    "caches",
    "gaussian_laws",
    "laws",
    "lower_bounds",
    "obligations",
    "profiles",
    "queries",
)
"""Theory that the count rests on: all of ours takes a minute, and is proved in tests/spec."""
_IMPORTS = (
    "from dpverify import Adjacency, GaussianDP, PureDP\n\nfrom ..mechanisms.my_count "
    "import MyCount"
)


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Return a suite of somebody else's: the count, copied under another name."""
    for tree in ("mechanisms", "spec", "audits"):
        (tmp_path / tree).mkdir()
        source = (ROOT / "dpverify" if tree == "mechanisms" else ROOT) / tree / "noisy_count.py"
        text = source.read_text(encoding="utf-8").replace("NoisyCount", "MyCount")
        text = text.replace("from dpverify import Adjacency, GaussianDP, MyCount, PureDP", _IMPORTS)
        (tmp_path / tree / "my_count.py").write_text(text, encoding="utf-8")
    (tmp_path / "spec" / "theory").mkdir()
    for stem in _THEORY:
        shutil.copy(ROOT / "spec" / "theory" / f"{stem}.py", tmp_path / "spec" / "theory")
    return tmp_path


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers fork from a server that has loaded what they need, once in all tests; a run that
    is started from a shell has workers that load it themselves (``test_cli``, ``test_rating``).
    """
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["dpverify.suite.rating", "dpverify.suite.runner"])
    monkeypatch.setattr(processes, "_START", "forkserver")


@pytest.fixture
def forget(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Forgets every suite but ours that this process has loaded, for tests whose files change.

    No bytecode is written: of two texts of one length, written within a second, it would be
    taken for both.
    """
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def forgotten() -> None:
        judges.loaded_suite.cache_clear()
        ours = trees._private_package(trees.find_root())
        loaded = [name for name in sys.modules if name.startswith("_dpverify_suite_")]
        for name in loaded:
            if name.partition(".")[0] != ours:
                del sys.modules[name]

    forgotten()
    yield forgotten
    forgotten()
