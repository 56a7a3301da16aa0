"""The trusted base of the claims, for ARCHITECTURE.md: lines of code by file, and the evidence
behind each rule.

    python -m tests.trusted_base            the two tables
    python -m tests.trusted_base --update   write them into ARCHITECTURE.md, between the marks, and
                                            into theorems.toml

A line of code carries code: comments, blank lines and strings that stand alone (docstrings) are
left out. A rule without an entry, and an entry that names a test, an obligation or a rule that
is not there, is an error.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import tomli_w

from dpverify.privacy import rules, sources_of
from dpverify.suite.dependencies import TRUSTED

from .privacy.enumeration.registry import ENUMERATED
from .proofs.coq.ties import TIES
from .proofs.test_lemmas import LEMMAS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
PROVED = ROOT / "dpverify" / "suite" / "theorems.toml"
FIRST = "<!-- written by `python -m tests.trusted_base --update` -->"
LAST = "<!-- the trusted base ends here -->"
FLOORS = {
    "privacy": 0,
    "randomness": 1,
    "grid": 1,
    "plans": 2,
    "transformations": 3,
    "estimation": 4,
    "families": 4,
    "mechanisms": 5,
    "tables": 5,
}
KERNEL = "dpverify/privacy"
ENUMERATION = "tests/privacy/enumeration"
"""Where the enumerations are: tests there see to it that each of the registry exists, runs and
has twins."""
LEAVES = {
    "conjecture": "nothing: its status is conjectured",
    "event_lemma": "the obligation that it names, run by `prove`",
    "refuted": "nothing: its status is refuted",
    "sensitivity_lemma": "the obligation that it names, run by `prove`",
}
"""The rules that prove nothing themselves."""


@cache
def code_lines(text: str) -> int:
    """Count the lines of a Python source that carry code."""
    alone = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    marks = (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT)
    no_code = (*marks, tokenize.COMMENT, tokenize.ENCODING, tokenize.ENDMARKER)
    carrying = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in no_code
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(carrying - alone)


def files_of(folder: str, *, below: bool) -> dict[str, int]:
    """Return the code lines of each file in a folder of the repository, those of folders below
    it too where asked."""
    base = ROOT / folder
    files = base.rglob("*.py") if below else base.glob("*.py")
    return {
        file.relative_to(base).as_posix(): code_lines(file.read_text(encoding="utf-8"))
        for file in sorted(files)
    }


def table_of_files() -> Iterator[str]:
    """Yield a row a folder, the kernel's files one by one; each floor, and all of them,
    together."""
    yield "| floor | folder | files | code lines | of each file |"
    yield "|---|---|---|---|---|"
    total: list[int] = []
    for floor in sorted({FLOORS[name] for name in TRUSTED}):
        together: list[int] = []
        for folder, below in _folders(floor):
            files = files_of(folder, below=below)
            together += files.values()
            each = "" if below else ", ".join(f"`{n[:-3]}` {k}" for n, k in files.items())
            yield (
                f"| {floor} | `{folder}/` | {len(files)} | {sum(files.values()):,} | "
                f"{each or '-'} |"
            )
        total += together
        yield f"| {floor} | *this floor* | {len(together)} | {sum(together):,} | - |"
    yield f"| - | **all floors** | {len(total)} | {sum(total):,} | - |"


def _folders(floor: int) -> Iterator[tuple[str, bool]]:
    """Yield the folders of a floor, and whether a row has what is below each, too."""
    for name in TRUSTED:
        if FLOORS[name] == floor and name == "privacy":
            below = [path.parent.name for path in sorted((ROOT / KERNEL).glob("*/__init__.py"))]
            yield from ((folder, False) for folder in (KERNEL, *(f"{KERNEL}/{b}" for b in below)))
        elif FLOORS[name] == floor:
            yield f"dpverify/{name}", True


def table_of_rules() -> Iterator[str]:
    """Yield a row a rule: what enumerates it, its arithmetic by z3, theorems tied to it, and who
    says so in prose."""
    yield "| rule | enumerated by | proved by z3 | by Coq | in prose |"
    yield "|---|---|---|---|---|"
    for name in sorted(rules.__all__):
        behind = f"`{enumerated(name)}`" if name in ENUMERATED else LEAVES[name]
        papers = dict.fromkeys(source.paper for source in sources_of(getattr(rules, name)))
        said = ", ".join("ours" if paper == "OURS" else paper for paper in papers) or "docstring"
        by_z3 = "; ".join(arithmetic(name)) or "-"
        by_coq = ", ".join(theorems(name)) or "-"
        yield f"| `{name}` | {behind} | {by_z3} | {by_coq} | {said} |"


def enumerated(rule: str) -> str:
    """Return the test that runs whole mechanisms through a rule, of the registry; empty for
    none."""
    entry = ENUMERATED.get(rule)
    return "" if entry is None else f"{ENUMERATION}/{entry.module}.py:{entry.test}"


def theorems(rule: str) -> list[str]:
    """List the theorems of tests/proofs/coq that are tied to a rule."""
    tied = getattr(rules, rule)
    return [f"`{tie.theorem.split('.')[1]}`" for tie in TIES if tie.rule is tied]


def arithmetic(rule: str) -> list[str]:
    """Return the lemmas proved by z3 about a rule, or about a function of its module that it
    calls."""
    module = getattr(rules, rule).__module__.replace(".", "/") + ".py"
    functions = _functions(ROOT / module)
    reached, waiting = {rule}, [rule]
    while waiting:
        names = {
            node.id for node in ast.walk(functions[waiting.pop()]) if isinstance(node, ast.Name)
        }
        new = (names & functions.keys()) - reached
        reached |= new
        waiting += new
    where = {f"{module}:{function}" for function in reached}
    return [lemma.name for lemma in LEMMAS if lemma.where in where]


def _functions(file: Path) -> dict[str, ast.FunctionDef]:
    """Return the functions at the top of a file, by name."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def gaps() -> list[str]:
    """List what is wrong with the entries, in words."""
    faults = [
        f"{name}: nothing is said to stand behind this rule; enter a test in the registry of "
        f"enumerations"
        for name in rules.__all__
        if not enumerated(name) and name not in LEAVES
    ]
    strays = {*ENUMERATED, *LEAVES} - {*rules.__all__}
    return faults + [f"{name} has an entry and is no rule" for name in sorted(strays)]


def written() -> str:
    """Everything between the marks."""
    if wrong := gaps():
        raise ValueError("; ".join(wrong))
    return "\n".join(["", *table_of_files(), "", *table_of_rules(), ""])


def table_of_theorems() -> str:
    """Write the theorems that are tied to each rule, which `dpverify papers` shows, as TOML."""
    head = (
        "# Theorems that Coq has checked, by rule; written by `python -m tests.trusted_base "
        "--update`.\n"
    )
    tied = {name: [one.strip("`") for one in theorems(name)] for name in sorted(rules.__all__)}
    return head + tomli_w.dumps({name: proofs for name, proofs in tied.items() if proofs})


def updated(page: str) -> str:
    """Return the page with both tables as they are now."""
    if page.count(FIRST) != 1 or page.count(LAST) != 1:
        raise ValueError(f"{PAGE.name} needs {FIRST!r} and {LAST!r}, each once, around the tables")
    before, _, rest = page.partition(FIRST)
    return f"{before}{FIRST}\n{written()}\n{LAST}{rest.partition(LAST)[2]}"


if __name__ == "__main__":
    if "--update" in sys.argv[1:]:
        PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        PROVED.write_text(table_of_theorems(), encoding="utf-8")
    else:
        print(written())
