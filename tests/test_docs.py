"""Every block of code of the documentation runs, its commands exist, its links lead somewhere,
and nothing is left out."""

from __future__ import annotations

import doctest
import importlib
import re
import tomllib
from pathlib import Path

import pytest

import dpverify
from dpverify.audit import Verdict
from dpverify.cli import _parser
from dpverify.suite.trees import load
from tests import large_data, pages

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {
    path: path.read_text(encoding="utf-8")
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
}
DOCTESTED = [path.relative_to(ROOT).as_posix() for path, text in PAGES.items() if ">>>" in text]
ELSEWHERE = {
    "docs/how_to/pytest.md": "tests/test_docs_pytest.py",
    "docs/tutorials/auditing.md": "tests/test_docs_pytest.py",
    "docs/tutorials/new_mechanism.md": "tests/suite/test_tutorials.py",
    "docs/how_to/regression.md": "tests/suite/test_regression_page.py",
}
"""Tests that run the blocks of pages whose blocks are files or sessions of a console."""
UNFINISHED = {"docs/how_to/regression.md"}  # one block is a part of a file that `init` writes
LARGEST_FIGURE = 150_000
LONGEST_README = 125
PUBLIC = ("dpverify", "dpverify.audit", "dpverify.audit.structure", "dpverify.families",
          "dpverify.sklearn", "dpverify.testing", "dpverify.strategies")  # fmt: skip


def _together(folder: str) -> str:
    return "".join(text for path, text in PAGES.items() if path.parent == DOCS / folder)


@pytest.mark.parametrize("page", DOCTESTED)
def test_the_page_does_what_it_says(page: str) -> None:
    results = doctest.testfile(str(ROOT / page), module_relative=False)
    assert results.attempted == len(re.findall(r"^ *>>> ", PAGES[ROOT / page], re.MULTILINE))
    assert results.failed == 0


def test_every_block_of_code_is_run() -> None:
    assert len(DOCTESTED) >= 14
    for path, text in PAGES.items():
        page = path.relative_to(ROOT).as_posix()
        for block in pages.blocks(text, "python"):
            assert block.startswith((">>> ", "# ")) or page in UNFINISHED, f"{page}:\n{block}"
        if pages.files(text) or pages.blocks(text, "console"):
            name = page.removeprefix("docs/")
            runner = (ROOT / ELSEWHERE[page]).read_text(encoding="utf-8")
            assert name in runner or name.rpartition("/")[2] in runner


def test_every_command_of_dpverify_is_understood() -> None:
    command_count = 0
    for path, text in PAGES.items():
        for block in pages.blocks(text, "sh"):
            for line in re.findall(r"^dpverify ([^#\n]+)", block, re.MULTILINE):
                assert _parser().parse_known_args(line.split())[1] == [], f"{path.name}: {line}"
                command_count += 1
    assert command_count >= 12


def test_the_page_about_large_data_has_the_table_of_all_plans() -> None:
    page = DOCS / "how_to" / "large_data.md"
    assert large_data.updated(PAGES[page]) == PAGES[page]


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= LONGEST_README


def test_the_two_commands_are_where_ci_looks_for_them() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for name in ("audit", "test"):
        assert re.search(rf"<!-- command: {name} -->\n```sh\n.+\n```", README)
        assert f"readme_command {name}" in ci


def test_every_verdict_is_explained() -> None:
    for verdict in Verdict:
        for page in (README, PAGES[DOCS / "explanation" / "verdicts.md"]):
            assert f"| {verdict} |" in page


def test_every_mechanism_can_be_chosen() -> None:
    page = PAGES[DOCS / "how_to" / "choose.md"]
    for entry in load().entries.values():
        assert f"`{entry.mechanism.__name__}`" in page


def test_every_public_name_is_in_the_reference() -> None:
    listed = re.findall(r"^::: ([\w.]+)$", _together("reference"), re.MULTILINE)
    assert len(listed) == len(set(listed))
    for module in PUBLIC:
        for name in importlib.import_module(module).__all__:
            is_module = hasattr(getattr(importlib.import_module(module), name), "__path__")
            assert is_module or f"{module}.{name}" in listed, f"{module}.{name}"
    for name in listed:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


def test_every_command_is_in_the_reference() -> None:
    page = PAGES[DOCS / "reference" / "commands.md"]
    (choices,) = (a.choices for a in _parser()._actions if isinstance(a.choices, dict))
    for name in choices:
        assert f"| `dpverify {name}" in page


def test_every_page_is_on_the_site() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    named = re.findall(r"[\w/]+\.md", navigation)
    assert len(named) == len(set(named))
    for path in DOCS.glob("**/*.md"):
        assert path.relative_to(DOCS).as_posix() in named


def test_the_version_is_the_same_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {dpverify.__version__}\n" in citation
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert ROOT / project["tool"]["hatch"]["version"]["path"] == Path(str(dpverify.__file__))


def test_every_floor_has_a_page_that_names_its_files() -> None:
    """The pages of floors and ARCHITECTURE.md together, which has the table of floors."""
    architecture = PAGES[ROOT / "ARCHITECTURE.md"]
    named = architecture + _together("floors")
    for folder in sorted((ROOT / "dpverify").iterdir()):
        if folder.is_dir() and (folder / "__init__.py").exists():
            assert f"{folder.name}/" in architecture, folder.name
            for file in folder.glob("[!_]*.py"):
                if folder.name != "mechanisms":
                    assert re.search(rf"\b{file.stem}\b", named), file


def test_links_within_the_project_lead_somewhere() -> None:
    link_count = 0
    for path, text in PAGES.items():
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (path.parent / target).exists(), f"{path.name}: {target}"
            link_count += 1
    assert link_count >= 10


def test_links_to_elsewhere_have_the_form_of_one() -> None:
    """Fetch nothing: a form can be checked without a network."""
    links = [link for text in PAGES.values() for link in re.findall(r"\]\((\w+:[^)]*)\)", text)]
    assert len(links) >= 2
    for link in links:
        assert re.fullmatch(r"https://[\w-]+(\.[\w-]+)+(/[\w./#-]*)?", link), link


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
