"""Dependencies of the files of a suite, read from sources alone: nothing is imported or run.

A module depends on every module that it imports, wherever in it, and on what these depend on. A
name that a package merely passes on from another module is followed to that module, so that
``from dpverify.privacy import Adjacency`` reaches adjacency and not the whole kernel; a name
that cannot be followed so reaches the whole package. What a package's ``__init__`` does besides
counts only where the package itself is imported.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path

import dpverify
from dpverify.suite.named_obligations import BEGINNING, names_in

TRUSTED = (
    "privacy",
    "randomness",
    "grid",
    "plans",
    "transformations",
    "estimation",
    "families",
    "mechanisms",
    "tables",
)
"""Folders of the trusted core."""
_PACKAGE = Path(dpverify.__file__).resolve().parent
_THEORY = ("spec", "theory")
_OF_A_SUITE = ("spec", "mechanisms", "audits", "tests")
_PLACES = ("__file__", "__path__", "__version__")


@dataclass(frozen=True)
class Sources:
    """Sources of this package and of the suite in ``root``, by dotted name: "spec.theory.laws".

    ours: the root whose theory is used for a suite without a folder spec/theory/.
    """

    root: Path
    ours: Path
    package: Path = _PACKAGE
    _files: dict[str, Path | None] = field(default_factory=dict)
    _used: dict[str, frozenset[str]] = field(default_factory=dict)
    _texts: dict[str, str] = field(default_factory=dict)
    _hashes: dict[str, str] = field(default_factory=dict)

    def file(self, module: str) -> Path | None:
        """Return the file of a module's source; None if the module is neither of the suite nor
        of this package.
        """
        if module not in self._files:
            self._files[module] = self._find(module)
        return self._files[module]

    def _find(self, module: str) -> Path | None:
        parts = module.split(".")
        if parts[0] == "dpverify":
            base, parts = self.package, parts[1:]
        elif parts[0] in _OF_A_SUITE:
            borrowed = tuple(parts[:2]) == _THEORY and not (self.root / "spec" / "theory").is_dir()
            base = self.ours if borrowed else self.root
        else:
            return None
        for file in (base.joinpath(*parts, "__init__.py"), base.joinpath(*parts[:-1], _py(parts))):
            if file.is_file():
                return file
        return None

    def functions(self, module: str) -> tuple[str, ...]:
        """List the functions defined at the top of a module that is there, in their order."""
        return _functions(self.text(module))

    def defines(self, module: str, function: str) -> bool:
        """Return whether a module that is there defines a function at its top."""
        text = self.text(module)
        plain = [*re.finditer(rf"^def {function}\(", text, re.M)]
        if len(plain) == 1 and "'''" not in text and not text.count('"""', 0, plain[0].start()) % 2:
            return True
        return function in self.functions(module)

    def text(self, module: str) -> str:
        """Return the text of a module that is there, each line ended by a newline alone."""
        if module not in self._texts:
            file = self.file(module)
            if file is None:
                raise ValueError(f"there is no source of {module}")
            self._texts[module] = file.read_text(encoding="utf-8")
        return self._texts[module]

    def closure(self, modules: set[str]) -> set[str]:
        """Return these modules and everything that they depend on."""
        closure, waiting = set(modules), list(modules)
        while waiting:
            new = self.uses(waiting.pop()) - closure
            closure |= new
            waiting += new
        return closure

    def digest(self, modules: set[str]) -> str:
        """Hash these modules: the digest is the same for the same names and texts, wherever
        their files lie.
        """
        lines = [f"{module} {self._hash(module)}" for module in sorted(modules)]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def _hash(self, module: str) -> str:
        if module not in self._hashes:
            self._hashes[module] = hashlib.sha256(self.text(module).encode()).hexdigest()
        return self._hashes[module]

    def stating(self, obligation: str) -> set[str]:
        """Return the modules that state a lemma under this obligation: of the trusted core, and
        the suite's mechanisms.

        A module states one if one of its strings is the obligation's name, with or without the
        path before it. What a format string inserts is known if it is a constant of the module,
        and could be anything if not.
        """
        return {
            module
            for module, beginnings in self._naming.items()
            if any(beginning in obligation for beginning in beginnings)
            and any(pattern.fullmatch(obligation) for pattern in names_in(self.text(module)))
        }

    @cached_property
    def _naming(self) -> dict[str, frozenset[str]]:
        """Beginnings of the names of obligations in each module's text, for the modules that
        have any.

        A string goes on after its beginning at most by a format, an escape or another string. So
        a module none of whose beginnings is in a name does not have that name, and is not parsed.
        """
        named = {
            module: frozenset(BEGINNING.findall(self.text(module))) for module in self._stated()
        }
        return {module: beginnings for module, beginnings in named.items() if beginnings}

    def _stated(self) -> Iterator[str]:
        """Yield the modules in which lemmas may be stated."""
        folders = [(self.package, "dpverify.", folder) for folder in TRUSTED]
        for base, prefix, folder in (*folders, (self.root, "", "mechanisms")):
            for file in sorted((base / folder).rglob("*.py")):
                parts = file.relative_to(base).with_suffix("").parts
                yield prefix + ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def uses(self, module: str) -> frozenset[str]:
        """Return the modules that a module imports, at its top or in a function."""
        if module not in self._used:
            modules = set[str]()
            for node in _imports(self.text(module)):
                if isinstance(node, ast.Import):
                    for alias in node.names:
                        modules |= self._loaded(alias)
                else:
                    base = self._absolute(module, node)
                    modules |= {self._defining(base, alias.name) for alias in node.names}
            self._used[module] = frozenset(one for one in modules if self.file(one) is not None)
        return self._used[module]

    def asks_for_its_place(self, module: str, package: str) -> bool:
        """Return whether a module uses a package that it imports for its version and place
        alone.
        """
        return _places_alone(self.text(module), package)

    def _loaded(self, alias: ast.alias) -> set[str]:
        """Return the modules that ``import a.b.c`` loads: each package on the way, too, unless
        it has a name of its own.
        """
        parts = alias.name.split(".")
        if alias.asname is not None:
            return {alias.name}
        return {".".join(parts[: i + 1]) for i in range(len(parts))}

    def _absolute(self, module: str, node: ast.ImportFrom) -> str:
        """Return the whole name of the module that an import is from."""
        if not node.level:
            return node.module or ""
        parts = module.split(".")
        file = self.file(module)
        up = node.level - (file is not None and file.name == "__init__.py")
        return ".".join([*parts[: len(parts) - up], *(node.module or "").split(".")]).rstrip(".")

    def _defining(self, base: str, name: str) -> str:
        """Return the module that defines a name imported from ``base``, or ``base`` where that
        is not plain.
        """
        file, below = self.file(base), f"{base}.{name}"
        if file is not None and file.name == "__init__.py":
            text = self.text(base)
            passed = {
                (self._absolute(base, node), alias.name)
                for node in _passed_on(text)
                for alias in node.names
                if (alias.asname or alias.name) == name
            } - {(base, name)}
            if len(passed) > 1 or name in _bound(text):
                return base
            if passed:
                return self._defining(*passed.pop())
        return below if self.file(below) is not None else base


def _py(parts: list[str]) -> str:
    return f"{parts[-1]}.py" if parts else ""


# What a text says is worked out once in a process, however many suites have a file of that text.


@lru_cache(maxsize=8)
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def _functions(text: str) -> tuple[str, ...]:
    return tuple(node.name for node in _tree(text).body if isinstance(node, ast.FunctionDef))


@cache
def _imports(text: str) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Return all imports, at the top or in a function."""
    plain = _plain_imports(text)
    return tuple(_imports_in(_tree(text))) if plain is None else plain


_LINE = re.compile(
    r"^[ \t\f]*((?:from\b[ \t]*[\w.]+[ \t]+)?import\b[^\n(#;]*(?:\([^)]*\))?)[ \t]*(.*)", re.M
)
_ODD = re.compile(
    r"TYPE_CHECKING|\'\'\'|[:;][ \t]*(?:from\b[^\n]*)?import\b|^[ \t]*(?:from|import)\b.*\\$", re.M
)


def _plain_imports(text: str) -> tuple[ast.Import | ast.ImportFrom, ...] | None:
    """Return all imports, where nothing but their own lines has to be parsed, a sixth of the work.

    None where some might be in strings, for type checkers alone, or not at the beginning of a line.
    """
    if _ODD.search(text):
        return None
    statements = list[ast.stmt]()
    for line in _LINE.finditer(text):
        is_in_a_string = text.count('"""', 0, line.start()) % 2
        if is_in_a_string or line[2].rstrip()[:1] not in ("", "#"):
            return None
        plain = _plain_import(line[1])
        try:
            statements += [plain] if plain else ast.parse(line[1]).body
        except SyntaxError:
            return None
    return tuple(node for node in statements if isinstance(node, (ast.Import, ast.ImportFrom)))


_FROM = re.compile(r"from (\.*)([\w.]*) import (?:(\w[\w, ]*)|\(([\w,\s]*)\))", re.ASCII)


def _plain_import(line: str) -> ast.ImportFrom | None:
    """Return what is parsed from ``from a import b, c as d``; None for other statements.

    A parser takes most of the time of looking through imports.
    """
    one = _FROM.fullmatch(line)
    if one is None:
        return None
    dots, module, *names = one.groups()
    parts = [name.split() for name in (names[0] or names[1]).strip().removesuffix(",").split(",")]
    if any(len(part) != 1 and (len(part) != 3 or part[1] != "as") for part in parts):
        return None
    aliases = [ast.alias(part[0], part[2] if part[1:] else None) for part in parts]
    return ast.ImportFrom(module or None, aliases, len(dots))


def _imports_in(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in _statements(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node


def imports_at_the_top(text: bytes) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Return all imports but those in functions; none for text that is not Python."""
    try:
        statements = _statements(ast.parse(text), ast.FunctionDef, ast.AsyncFunctionDef)
        return tuple(node for node in statements if isinstance(node, (ast.Import, ast.ImportFrom)))
    except (SyntaxError, ValueError):
        return ()


@cache
def _passed_on(text: str) -> tuple[ast.ImportFrom, ...]:
    """Return the imports at the top by which a package passes names on."""
    return tuple(node for node in _tree(text).body if isinstance(node, ast.ImportFrom))


def _statements(node: ast.AST, *closed: type[ast.stmt]) -> Iterator[ast.AST]:
    """Yield all statements in a node that can run, but for those in statements that are closed.

    Expressions, which hold most of a tree and no import, are not entered.
    """
    for child in _running(node):
        if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield child
            if not isinstance(child, closed):
                yield from _statements(child, *closed)


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children of a node, except those that only type checkers see."""
    if isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING":
        yield from node.orelse
    else:
        yield from ast.iter_child_nodes(node)


@cache
def _places_alone(text: str, name: str) -> bool:
    """Return whether a name is used, and only for attributes such as ``dpverify.__file__``."""
    used, placed = 0, 0
    for node in ast.walk(_tree(text)):
        used += isinstance(node, ast.Name) and node.id == name
        if isinstance(node, ast.Attribute) and node.attr in _PLACES:
            placed += isinstance(node.value, ast.Name) and node.value.id == name
    return 0 < used == placed


@cache
def _bound(text: str) -> frozenset[str]:
    """Return the names that a module gets otherwise than by ``from ... import``."""
    names = set[str]()
    for node in ast.walk(_tree(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Import):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return frozenset(names)
