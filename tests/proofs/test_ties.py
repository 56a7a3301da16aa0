"""Hypotheses of the theorems that Coq has checked: the rules check them, and their numbers
agree."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from dpverify import privacy

from .coq import examples
from .coq.__main__ import (
    AXIOMS,
    FILES,
    GROUPS,
    HERE,
    grouped,
    in_its_file,
    printed_ties,
    rests_on,
    taken_for_granted,
    theorems,
    unproved,
)
from .coq.tie import Tie
from .coq.ties import TIES

HYPOTHESES = [
    (tie.theorem, one)
    for tie in TIES
    for one in (*tie.hypotheses, *tie.given)
    if one.refused is not None
]
TWINS = {
    "parallel_by_labels_add_remove": "parallel_by_labels_twin",
    "chained_by_labels_add_remove": "parallel_by_labels_twin",
}
"""The twins that have another name than the theorem's."""
WITHOUT_A_TWIN = {
    "assume": "its premise is its only condition",
    "of_each_record_add_remove": "its premise is its only condition",
    "of_each_record_replace": "its premise is its only condition",
    "of_kept_records_add_remove": "beside its premise it asks what every epsilon and law satisfies",
}
"""Theorems that are tied to a rule, and of which no condition can be dropped; and why."""
BELIEVED = {"Definitions": 150, "Mechanisms": 300}
"""The files whose definitions are to be believed, and how long each may be."""
_BINDERS = re.compile(r"\(([\w' ]+) :[^=]")
KERNEL = Path(privacy.__file__).parent
EXAMPLES = [(tie.theorem, example) for tie in TIES for example in tie.examples()]


def test_nothing_is_left_out_of_the_proofs() -> None:
    assert unproved() == []


@pytest.mark.parametrize(
    ("source", "granted"),
    [
        ("Lemma x : p.\nProof. Admitted.", ["Admitted"]),
        ("Lemma x : p. (* (* *) Proof. by admit.", ["admit"]),
        ("Axioms (x : p) (y : q).", ["Axioms"]),
        ("Unset Guard Checking.\nFixpoint f n := f n.", ["Unset Guard Checking"]),
        ("#[bypass_check(universes)] Definition x := y.", ["bypass_check"]),
        ("(* No Axiom is left. *) Lemma admitted : p.", []),
    ],
)
def test_what_is_taken_for_granted_is_found(source: str, granted: list[str]) -> None:
    assert taken_for_granted(source) == granted


def test_ties_are_written_in_terms_of_the_files_to_be_believed() -> None:
    """A notation of another file would let a weaker theorem be tied in the same words."""
    imported = re.findall(r"^(?:Require )?Import (.*)\.$", printed_ties(), re.MULTILINE)
    assert imported == [
        " ".join(GROUPS),
        " ".join(BELIEVED),
        "GRing.Theory Num.Theory Order.Theory",
    ]
    named = re.findall(r" := @(\w+)\.\w+\.$", printed_ties(), re.MULTILINE)
    assert len(named) == 2 * len(TIES)
    assert {*named} <= {*FILES}


def test_every_file_of_proofs_is_compiled() -> None:
    assert Counter(path.stem for path in HERE.glob("*.v")) == Counter(FILES)
    assert Counter([*BELIEVED, *(file for files in GROUPS.values() for file in files)]) == Counter(
        FILES
    )


@pytest.mark.parametrize("group", GROUPS)
def test_an_error_in_a_group_is_named_by_its_file(group: str) -> None:
    lines = grouped(group).splitlines()
    for file in GROUPS[group]:
        source = (HERE / f"{file}.v").read_text(encoding="utf-8").splitlines()
        line = source.index("Proof.")
        place = lines.index(f"Module {file}. {source[0]}") + line
        assert lines[place] == source[line]
        named = in_its_file(f'File "./{group}.v", line {place + 1}, characters 0-6:')
        assert named.startswith(f"{HERE / file}.v, line {line + 1}:\n")


def test_no_two_theorems_have_one_name() -> None:
    assert max(Counter(name for _, name in theorems()).values()) == 1
    assert {name for _, name in theorems()} >= AXIOMS.keys()


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ("Closed under the global context\n", set()),
        ("Axioms:\nboolp.x\n  : forall P : Prop,\n    P\nB.y : nat\n", {"boolp.x", "B.y"}),
        ("Axioms:\nB.f is assumed to be guarded.\n", {"B.f is assumed to be guarded."}),
    ],
)
def test_whatever_a_theorem_rests_on_is_read(answer: str, named: set[str]) -> None:
    assert rests_on(answer) == named


def test_all_that_tied_statements_name_is_in_the_two_files_to_be_believed() -> None:
    elsewhere = {name for file in FILES[len(BELIEVED) :] for name in _defined(file)}
    for tie in TIES:
        bound = {name for names in _BINDERS.findall(tie.term()) for name in names.split()}
        named = set(re.findall(r"\w+", tie.term()))
        assert not (named - bound) & elsewhere, tie.theorem


def test_the_files_to_be_believed_stand_alone_and_are_short() -> None:
    assert FILES[: len(BELIEVED)] == (*BELIEVED,)
    for file, lines in BELIEVED.items():
        source = (HERE / f"{file}.v").read_text(encoding="utf-8")
        assert source.count("\n") <= lines
        assert set(re.findall(r"^Require Import (.*)\.$", source, re.MULTILINE)) <= {"Definitions"}
        assert not re.search(r"^(Theorem|Lemma|Corollary|Axiom)", source, re.MULTILINE)


def _defined(file: str) -> list[str]:
    source = (HERE / f"{file}.v").read_text(encoding="utf-8")
    return re.findall(r"^(?:Definition|Fixpoint|Inductive) (\w+)", source, re.MULTILINE)


def test_every_twin_denies_something() -> None:
    for file, name in theorems():
        if name.endswith("_twin"):
            source = (HERE / f"{file}.v").read_text(encoding="utf-8")
            assert f"Theorem {name} : ~ forall " in source


def test_each_tie_is_to_a_theorem_of_its_own() -> None:
    known = {f"{file}.{name}" for file, name in theorems()}
    assert {tie.theorem for tie in TIES} <= known
    assert max(Counter(tie.theorem for tie in TIES).values()) == 1


def test_each_tied_theorem_is_false_without_one_of_its_conditions() -> None:
    proved = {name for _, name in theorems()}
    tied = {tie.name for tie in TIES}
    without = {name for name in tied if TWINS.get(name, f"{name}_twin") not in proved}
    assert without == {*WITHOUT_A_TWIN}


def test_all_that_a_tied_theorem_asks_is_met_by_an_example() -> None:
    proved = {name for _, name in theorems() if name.endswith("_example")}
    assert {tie.name for tie in TIES} == examples.TOLD.keys()
    assert {f"{name}_example" for name in examples.TOLD} == proved


def test_an_example_meets_every_hypothesis_and_tells_something() -> None:
    for tie in TIES:
        printed = examples.statement(tie)
        met = [f"({one.term}) /\\ " for one in (*tie.hypotheses, *tie.given)]
        assert all(one in printed for one in met)
        assert printed.endswith(examples.TOLD[tie.name])


def test_the_page_on_proofs_names_every_twin_and_example() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "proofs.md").read_text(
        encoding="utf-8"
    )
    named = set(re.findall(r"`(\w+_(?:twin|example))`", page))
    assert named == {name for _, name in theorems() if name.endswith(("_twin", "_example"))}


def test_the_page_on_proofs_has_the_sizes_as_they_are() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "proofs.md").read_text(
        encoding="utf-8"
    )
    lines = sum((HERE / f"{file}.v").read_text(encoding="utf-8").count("\n") for file in FILES)
    proved = [name for _, name in theorems()]
    kinds = [sum(name.endswith(kind) for name in proved) for kind in ("_example", "_twin")]
    others = len(proved) - len(TIES) - sum(kinds)
    of_all = f"{len(proved)} theorems in {len(FILES)} files of {round(lines, -2):,} lines"
    numbers = re.findall(r"\d+", page.partition(of_all)[2])[:4]
    assert numbers == [str(one) for one in (len(TIES), *kinds, others)]


@pytest.mark.parametrize(("theorem", "hypothesis"), HYPOTHESES, ids=lambda v: getattr(v, "term", v))
def test_the_rule_refuses_what_the_theorem_does_not_cover(theorem: str, hypothesis: object) -> None:
    with pytest.raises((ValueError, TypeError)) as refusal:
        hypothesis.refused()  # type: ignore[attr-defined]
    assert KERNEL in Path(refusal.traceback[-1].path).parents, "no rule refused this: a wrong call"


@pytest.mark.parametrize(
    ("theorem", "example"), EXAMPLES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_the_rule_claims_no_more_than_the_theorem(theorem: str, example: object) -> None:
    concluded, proved = example.concluded, example.proved  # type: ignore[attr-defined]
    assert proved.implies(concluded), f"{theorem}: {concluded} does not follow from {proved}"


@pytest.mark.parametrize("tie", TIES, ids=lambda tie: tie.theorem)
def test_every_hypothesis_says_why_it_holds(tie: Tie) -> None:
    assert tie.hypotheses
    assert all(one.why for one in (*tie.hypotheses, *tie.given))
