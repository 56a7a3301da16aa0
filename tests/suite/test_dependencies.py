"""Dependencies of a spec, read from sources: imports are followed, names in strings are read."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from dpverify.suite import dependencies
from dpverify.suite.dependencies import Sources, imports_at_the_top
from dpverify.suite.trees import load

ROOT = Path(__file__).parents[2]


def test_what_an_obligation_depends_on_is_its_closure() -> None:
    sources = Sources(ROOT, ROOT)
    assert sources.closure({"spec.theory.packing"}) == {
        "spec.theory.packing",
        "spec.theory.caches",
        "spec.theory.chi_square",
        "spec.theory.laws",
        "spec.theory.obligations",
        "dpverify.privacy.adjacency",
        "dpverify.privacy.calls",
        "dpverify.privacy.numbers",
        "dpverify.privacy.sealed",
        "dpverify.privacy.sources",
    }
    assert "spec.theory.laws" in sources.closure({"spec.noisy_count"})


def test_all_modules_that_a_spec_loads_by_name_are_in_its_closure() -> None:
    """Against the interpreter: every module whose object a spec's namespace holds."""
    sources, suite = Sources(ROOT, ROOT), load()
    private = type(suite.entries["noisy_count"].spec)
    for entry in suite.entries.values():
        base = entry.spec.__name__.removesuffix(f".spec.{entry.name}") + "."
        held = {
            getattr(item, "__name__" if isinstance(item, private) else "__module__", None)
            for item in vars(entry.spec).values()
        }
        named = {str(name).removeprefix(base) for name in held}
        ours = {name for name in named if name.startswith(("spec.", "dpverify."))}
        assert ours <= sources.closure({f"spec.{entry.name}"}), entry.name
        assert len(ours) > 3


@pytest.mark.parametrize(
    ("line", "gained"),
    [
        ("import dpverify.privacy.balls as b", {"dpverify.privacy.balls"}),
        ("from dpverify.privacy.rules import noise", {"dpverify.privacy.rules.noise"}),
        ("from dpverify.privacy.rules import discrete_laplace", {"dpverify.privacy.rules.noise"}),
        ("from dpverify.privacy import textbook", {"dpverify.privacy.textbook"}),
        (
            "from dpverify.privacy import *",
            {"dpverify.privacy", "dpverify.privacy.numerics.fourier"},
        ),
        ("import dpverify.privacy.balls", {"dpverify", "dpverify.mechanisms.clipped_mean"}),
        ("def f():\n    from .theory import profiles", {"spec.theory.profiles"}),
        ("if 1:\n    from . import theory", {"spec.theory"}),
        ("from spec.theory.profiles import profile", {"spec.theory.profiles"}),
    ],
)
def test_imports_are_followed(foreign: Path, line: str, gained: set[str]) -> None:
    file = foreign / "spec" / "new.py"
    file.write_text(f"{line}\n", encoding="utf-8")
    assert gained <= Sources(foreign, ROOT).closure({"spec.new"})


@pytest.mark.parametrize(
    ("init", "gained", "left"),
    [
        ("from .a import x", {"spec.p.a"}, {"spec.p", "spec.p.x"}),
        ("from .a import y as x", {"spec.p.a"}, {"spec.p", "spec.p.x"}),
        ("from . import x", {"spec.p.x"}, {"spec.p"}),
        ("", {"spec.p.x"}, {"spec.p", "spec.p.a"}),
        ("def x():\n    from . import a", {"spec.p", "spec.p.a"}, {"spec.p.x"}),
        ("from .a import x\nx = 3", {"spec.p", "spec.p.a"}, {"spec.p.x"}),
        ("from .a import x\nfrom .b import x", {"spec.p", "spec.p.a", "spec.p.b"}, set[str]()),
    ],
)
def test_a_name_is_followed_through_a_package_that_only_passes_it_on(
    foreign: Path, init: str, gained: set[str], left: set[str]
) -> None:
    package = foreign / "spec" / "p"
    package.mkdir()
    for name, text in {"__init__": init, "a": "", "b": "", "x": ""}.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    (foreign / "spec" / "new.py").write_text("from .p import x", encoding="utf-8")
    modules = Sources(foreign, ROOT).closure({"spec.new"})
    assert gained <= modules
    assert not left & modules


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('"theory/a.py:obligation_x"', ["theory/a.py:obligation_x"]),
        ('P = "theory/a.py"\nf"{P}:obligation_x"', ["theory/a.py:obligation_x"]),
        ('P = "theory/a.py"\nf"{P}:obligation_{n}"', ["theory/a.py:obligation_x"]),
        ('f"{P}:obligation_x"', ["theory/a.py:obligation_x", "b.py:obligation_x"]),
        ('g("obligation_x")', ["theory/a.py:obligation_x", "b.py:obligation_x"]),
        ('P = "b.py"\nf"{P}:obligation_x"', ["b.py:obligation_x"]),
        ('g("b.py:obligation_" "x")', ["b.py:obligation_x"]),
        (r'g("b.py:obligation_\x78")', ["b.py:obligation_x"]),
        ('g("b.py:obligation_xy")', []),
        ('"obligation_y"', []),
        ("obligation_x = 1", []),
    ],
)
def test_names_in_strings_are_read(foreign: Path, text: str, names: list[str]) -> None:
    (foreign / "mechanisms" / "stated.py").write_text(f"{text}\n", encoding="utf-8")
    sources = Sources(foreign, ROOT)
    asked = ["theory/a.py:obligation_x", "b.py:obligation_x"]
    assert [name for name in asked if "mechanisms.stated" in sources.stating(name)] == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('g("b.py:obligation_x", 1)', ["b.py:obligation_x"]),
        ('g(\n    a="obligation_x",\n)', ["theory/a.py:obligation_x", "b.py:obligation_x"]),
        ('P = "b.py"\ng(f"{P}:obligation_x")', ["b.py:obligation_x"]),
        ('P = "b.py"\nP = "theory/a.py"\ng(f"{P}:obligation_x")', ["theory/a.py:obligation_x"]),
        (
            'P = "b." "py"\ng(f"{P}:obligation_x")',
            ["b.py:obligation_x"],
        ),
        ('g("b.py:obligation_x", "b.py:obligation_y")', ["b.py:obligation_x"]),
        ('g("b.py:obligation_x" "y", 1)', []),
        ('g("c" "b.py:obligation_x", 1)', []),
        ('g(r"b.py:obligation_x", 1)', ["b.py:obligation_x"]),
        ('"""\ng("b.py:obligation_x", 1)\n"""', []),
        ('a = 1  # g("b.py:obligation_x", 1)', []),
    ],
)
def test_names_in_arguments_are_read(foreign: Path, text: str, names: list[str]) -> None:
    test_names_in_strings_are_read(foreign, text, names)


@pytest.mark.parametrize("folder", ["dpverify/privacy", "dpverify/suite", "spec/theory"])
def test_imports_read_line_by_line_are_those_of_the_tree(folder: str) -> None:
    files = (Path(__file__).parents[2] / folder).rglob("*.py")
    texts = [file.read_text(encoding="utf-8") for file in files]
    read = [(text, _plainly(text)) for text in texts if _plainly(text) is not None]
    assert len(read) > 0.8 * len(texts)
    for text, plain in read:
        assert plain == _by_tree(text)


_ODD = {
    "after a statement": "x = 1; import one",
    "after a colon": "if x: from one import two",
    "over a backslash": "from one import \\\n    two",
    "in a string": '"""\nimport one\n"""',
    "in another string": "x = '''\nimport one\n'''",
    "before a statement": "import one; x = 1",
    "a comment with a bracket": "from one import (  # some)\n    two,\n)",
    "for type checkers": "if TYPE_CHECKING:\n    import one",
}


@pytest.mark.parametrize("text", _ODD.values(), ids=_ODD)
def test_odd_imports_are_left_to_the_tree(text: str) -> None:
    assert _plainly(text) is None
    assert _by_tree(text) is not None  # it is Python


def test_imports_after_a_form_feed_are_seen() -> None:
    text = "\x0cfrom one import two\n"
    assert _by_tree(text)
    assert _plainly(text) in (None, _by_tree(text))


def _plainly(text: str) -> list[str] | None:
    plain = dependencies._plain_imports(text)
    return None if plain is None else list(map(ast.dump, plain))


def _by_tree(text: str) -> list[str]:
    return list(map(ast.dump, dependencies._imports_in(ast.parse(text))))


def test_what_is_for_type_checkers_alone_is_no_dependency() -> None:
    text = b"if TYPE_CHECKING:\n    import one\nelse:\n    import two\nimport three\n"
    names = [alias.name for node in imports_at_the_top(text) for alias in node.names]
    assert names == ["two", "three"]


@pytest.mark.parametrize(
    ("lines", "alone"),
    [
        ("import dpverify\nprint(dpverify.__file__, dpverify.__version__)", True),
        ("import dpverify\nprint(dpverify.__file__, dpverify.PureDP)", False),
        ("import dpverify\nprint(dpverify.__path__, vars(dpverify))", False),
        ("import dpverify as dp\nprint(dp.PureDP)", False),
        ("import dpverify", False),
    ],
)
def test_who_asks_for_a_version_or_a_place_alone_is_known(
    foreign: Path, lines: str, alone: bool
) -> None:
    (foreign / "spec" / "new.py").write_text(f"{lines}\n", encoding="utf-8")
    assert Sources(foreign, ROOT).asks_for_its_place("spec.new", "dpverify") is alone
