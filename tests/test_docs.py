"""The README's code runs and prints what it says; its commands are the ones CI runs."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from dpverify.audit import Verdict
from dpverify.cli import main
from dpverify.suite.trees import load
from tests import large_data

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {
    path: path.read_text(encoding="utf-8")
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
}
LARGEST_FIGURE = 150_000
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_the_readme_does_what_it_says() -> None:
    results = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert results.attempted >= 20
    assert results.failed == 0


def test_the_page_about_families_does_what_it_says() -> None:
    results = doctest.testfile(str(ROOT / "docs" / "how_to" / "families.md"), module_relative=False)
    assert results.attempted >= 10
    assert results.failed == 0


def test_the_page_about_rates_does_what_it_says() -> None:
    results = doctest.testfile(str(ROOT / "docs" / "measured" / "rates.md"), module_relative=False)
    assert results.attempted >= 8
    assert results.failed == 0


def test_the_page_about_large_data_does_what_it_says_and_has_the_table_of_all_plans() -> None:
    page = ROOT / "docs" / "how_to" / "large_data.md"
    results = doctest.testfile(str(page), module_relative=False)
    assert results.attempted >= 10
    assert results.failed == 0
    assert large_data.updated(PAGES[page]) == PAGES[page]


def test_the_page_about_tables_does_what_it_says() -> None:
    results = doctest.testfile(str(ROOT / "docs" / "how_to" / "tables.md"), module_relative=False)
    assert results.attempted >= 8
    assert results.failed == 0


def test_the_page_about_sessions_does_what_it_says() -> None:
    results = doctest.testfile(str(ROOT / "docs" / "how_to" / "session.md"), module_relative=False)
    assert results.attempted >= 15
    assert results.failed == 0


def test_the_page_about_scikit_learn_does_what_it_says() -> None:
    results = doctest.testfile(str(ROOT / "docs" / "how_to" / "sklearn.md"), module_relative=False)
    assert results.attempted >= 9
    assert results.failed == 0


def test_the_two_commands_are_where_ci_looks_for_them() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for name in ("audit", "test"):
        assert re.search(rf"<!-- command: {name} -->\n```sh\n.+\n```", README)
        assert f"readme_command {name}" in ci


def test_every_verdict_is_explained() -> None:
    for verdict in Verdict:
        assert f"| {verdict} |" in README


def test_every_mechanism_is_in_the_readme() -> None:
    for entry in load().entries.values():
        assert f"`{entry.mechanism.__name__}`" in README


def test_the_readme_commands_exist(capsys: object) -> None:
    for name in re.findall(r"^dpverify (?:audit|prove|explain) (\S+)", README, re.MULTILINE):
        if name.startswith("bounded_mean"):
            assert main(["explain", name]) == 0


def test_the_architecture_names_every_floor_and_file() -> None:
    for folder in sorted((ROOT / "dpverify").iterdir()):
        if folder.is_dir() and (folder / "__init__.py").exists():
            assert f"{folder.name}/" in ARCHITECTURE, folder.name
            for file in folder.glob("[!_]*.py"):
                if folder.name != "mechanisms":
                    assert file.stem in ARCHITECTURE, file


def test_links_within_the_project_lead_somewhere() -> None:
    found = 0
    for path, text in PAGES.items():
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (path.parent / target).exists(), f"{path.name}: {target}"
            found += 1
    assert found >= 10


def test_benchmarks_that_pages_run_exist() -> None:
    named = {
        name for text in PAGES.values() for name in re.findall(r"python -m (tests\.[\w.]+)", text)
    }
    assert len(named) >= 3
    for name in named:
        path = ROOT / name.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), name


def test_figures_are_small_and_shown() -> None:
    shown = "".join(text for path, text in PAGES.items() if "docs" in path.parts)
    figures = list((ROOT / "docs" / "figures").iterdir())
    assert len(figures) >= 3
    for path in figures:
        assert f"figures/{path.name})" in shown, path.name
        assert path.stat().st_size < LARGEST_FIGURE, path.name
