"""The commands ``list``, ``explain``, ``papers`` and ``claims``.

They show what there is, and what it rests on. What is only read is not built: ``list`` shows
the ledger, ``explain`` loads the mechanisms that it is asked for.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import groupby
from textwrap import wrap

from rich.console import Console

from dpverify import ledger
from dpverify.audit.audit_targets import FIRST_STAGE, FRIENDLY_CORE, WHOLE, audit_targets
from dpverify.audit.configuration import Configuration
from dpverify.cli.shared import Command, Commands, add_command, check_names
from dpverify.cli.tables import print_table
from dpverify.privacy import PAPERS, Derivation, PrivacyClaim, render, textbook
from dpverify.privacy.numbers import brief
from dpverify.suite import black_boxes, lemmas, refutations
from dpverify.suite.black_boxes import ASSERTED
from dpverify.suite.entries import SuiteError
from dpverify.suite.events import EXIT_HELD, EXIT_REFUTED
from dpverify.suite.judges import TRACED, audited_keys, traced_keys
from dpverify.suite.papers import Statement, numbered_items, proof_at
from dpverify.suite.refutations import DIGEST, OPEN, attack
from dpverify.suite.runner import names_of, names_of_boxes, selectable, selects
from dpverify.suite.trees import Suite


def add(commands: Commands[argparse.ArgumentParser], papers: Command) -> None:
    """Declare ``explain``, ``papers`` and ``claims``."""
    explained = add_command(
        commands, "explain", explain, "why a claim holds: the derivation tree, with sources",
        example="dpverify explain bounded_mean:add-remove:height",
    )  # fmt: skip
    explained.add_argument("names", nargs="+", metavar="NAME", help="mechanism or configuration")
    explained.add_argument("--exact", action="store_true", help="long fractions in full, too")
    add_command(commands, "papers", papers, "from each item of the sources to its file and status")
    promised = add_command(
        commands, "claims", claims, "the code against the ledger claims.toml",
        example="dpverify claims --check", besides=_differences(),
    )  # fmt: skip
    mode = promised.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="exit 1 on any difference (default)")
    mode.add_argument("--update", action="store_true", help="write the ledger; review the diff")


def _differences() -> str:
    """List the names of differences from the ledger, for the help."""
    kinds = (
        "\n".join(wrap(f"  {kind:<13}{meaning}", 79, subsequent_indent=" " * 15))
        for kind, meaning in ledger.KINDS.items()
    )
    return "\n".join(("\ndifferences, each of which is exit code 1:", *kinds))


def add_list(commands: Commands[argparse.ArgumentParser]) -> None:
    """Declare ``list``."""
    add_command(
        commands,
        "list",
        list_everything,
        "configurations and false claims, as the ledger has them: claim, status, source",
    )


def list_everything(options: argparse.Namespace, suite: Suite, console: Console) -> int:
    """Print a table of configurations and exhibits.

    Where the ledger has no entry, it is as the code has it.
    """
    recorded = ledger.read(ledger.path_of(suite))
    rows = [("configuration", "claim", "status", "source")]
    for name in (*suite.entries, *suite.boxes):
        own = {key: entry for key, entry in recorded.items() if _name(key) == name}
        rows += [_row(key, entry) for key, entry in (own or ledger.claims_of(suite, name)).items()]
    for key, name in ((f"exhibits/{name}", name) for name in suite.exhibits):
        rows.append(_row(key, recorded.get(key) or refutations.facts(name, suite.exhibits[name])))
    print_table(rows)
    parts = _PARTS if options.suite is None else _parts(suite)  # ours has all, and loads slowly
    if parts:
        print(
            "\nWhere a part is audited by itself, or the whole by tracing, `audit` and `explain` "
            f"take these\nnames, too: {', '.join(f'CONFIGURATION{part}' for part in parts)}."
        )
    return EXIT_HELD


_PARTS = (FIRST_STAGE, FRIENDLY_CORE, TRACED)
"""Endings of the names of parts."""


def _parts(suite: Suite) -> tuple[str, ...]:
    """Return the endings of parts that the suite has; all where a file of it cannot be loaded."""
    try:
        names = [*audited_keys(suite), *traced_keys(suite)]
    except SuiteError:  # the table is of the ledger, and needs no file
        return _PARTS
    return tuple(part for part in _PARTS if any(name.endswith(part) for name in names))


def _row(key: str, entry: ledger.Entry) -> tuple[str, str, str, str]:
    """Return the row of an entry that may have been written by hand.

    `claims --check` says what is missing there.
    """
    claim, status, source = (str(entry.get(k, "?")) for k in ("guarantee", "status", "source"))
    if status != ASSERTED:  # the keys of papers are enough
        source = ", ".join(dict.fromkeys(re.split(r"[ ,]", one)[0] for one in source.split("; ")))
    return key, brief(claim), status, source


def _name(key: str) -> str:
    return key.partition(":")[0]


def _check_explained(names: Sequence[str], suite: Suite) -> None:
    """Raise UsageError for a name that is not known; everything is loaded only to say what is
    near it.
    """
    for name in names:
        kind, _, exhibit = name.partition("/")
        if kind == "exhibits":
            known = exhibit in suite.exhibits
        elif _name(name) in suite.boxes:
            known = name in names_of_boxes(suite, _name(name))
        else:
            known = _name(name) in suite.entries and name in names_of(suite.entries[_name(name)])
        if not known:
            check_names([name], selectable(suite))


def explain(options: argparse.Namespace, suite: Suite, console: Console) -> int:
    """Print the derivation trees of configurations, and why exhibits are false."""
    _check_explained(options.names, suite)
    build, checked = lemmas.Build(suite.root), lemmas.read(lemmas.path_of(suite.root))
    asked = [name for name in suite.entries if name in {_name(name) for name in options.names}]
    keyed = (pair for name in asked for pair in suite.entries[name].keyed.items())
    shown = (one for key, made in keyed for one in _explained(options.names, key, made))
    for key, derivation in shown:
        delta = derivation.conclusion.guarantee.delta_floor or textbook.DELTA
        tree = derivation.tree(partial(textbook.numbers, delta=delta))
        print(f"{key}\n\n{tree if options.exact else brief(tree)}\n")
        _print_costs(derivation, delta, exact=options.exact)
        print("lemmas it rests on, beside the rules, the samplers and the grid:")
        for lemma in derivation.lemmas:
            stated = str(lemma.conclusion)
            stated = stated if options.exact else brief(stated)
            known = build.status(checked, lemma.obligation)
            print(f"  {stated}: spec/{lemma.obligation}, {known}")
        for departure in suite.entries[_name(key)].departures:
            print(f"departs from {departure.source}: {departure.what}\n  because {departure.why}")
        print()
    for file in (name for name in suite.boxes if name in {_name(name) for name in options.names}):
        for key, box in suite.boxed(file).items():
            if selects(options.names, key):
                print(f"{black_boxes.explained(key, box)}\n")
    for name in options.names:
        if name.startswith("exhibits/"):
            exhibit = suite.exhibits[name.removeprefix("exhibits/")]
            print(f"{name}\n\n{exhibit.claim}\n\nfalse, because {exhibit.why}\n")
    return EXIT_HELD


def _explained(
    names: Sequence[str], key: str, configuration: Configuration
) -> Iterator[tuple[str, Derivation[PrivacyClaim]]]:
    """Yield what these names select of a configuration, with its derivation: the whole, and the
    parts that are attacked by themselves where they are asked for by name.
    """
    if selects(names, key) or f"{key}{TRACED}" in names:
        yield key, configuration.mechanism.derivation
    parts = (
        audit_targets(configuration) if any(name.startswith(f"{key}:") for name in names) else {}
    )
    for part, target in parts.items():
        if part != WHOLE and f"{key}{part}" in names:
            yield f"{key}{part}", target.mechanism.derivation


def _print_costs(derivation: Derivation[PrivacyClaim], delta: Fraction, *, exact: bool) -> None:
    stages = textbook.stages_of(derivation)
    at = render(delta) if exact else brief(render(delta))
    print(f"{len(stages)} stage{'s' * (len(stages) != 1)}, together, at delta {at}:")
    for cost in textbook.costs(derivation, delta):
        shown = "does not apply" if cost.epsilon is None else f"{float(cost.epsilon):.6g}"
        print(f"  epsilon <= {shown:<14}  {cost.accounting}")
    print()


def show_papers(stated: Sequence[Statement], missing: Sequence[str]) -> int:
    """Print every item of every paper with its places; then the places that say no source."""
    for key, group in groupby(stated, key=lambda item: item.paper):
        paper = PAPERS[key]
        print(f"{key}  {paper.authors}: {paper.title}. {paper.where}.")
        for item in group:
            note = f" ({item.note})" if item.note else ""
            print(f"  {item.item}: {item.status.value}{note}")
            for place in item.places:
                proof = proof_at(place, item.paper, item.item)
                print(f"      {place}{proof and f' ({proof})'}")
        _print_unstated(key)
        print()
    for place in missing:
        print(f"{place} says no source")
    return EXIT_REFUTED if missing else EXIT_HELD


def _print_unstated(paper: str) -> None:
    """Print the paper's numbered items that have no statement of their own, and where to look
    instead.
    """
    for item in numbered_items():
        if item.paper == paper and (item.stated_as or item.why):
            where = f"see {item.stated_as}" if item.stated_as else f"not stated: {item.why}"
            print(f"  {item.item}: {where}")


def claims(options: argparse.Namespace, suite: Suite, console: Console) -> int:
    """Compare the code with the ledger, and the ledger with its witnesses.

    With ``--update``, attack false claims and write both.
    """
    path, refuted = ledger.path_of(suite), attack(suite) if options.update else {}
    recorded = ledger.read(path)
    current = ledger.promised(suite, refuted, recorded)
    differences = ledger.compare(recorded, current)
    if not options.update:
        differences += ledger.unshown(suite, recorded)
    for difference in differences:
        mark = "breaking: " if difference.breaking else ""
        print(f"{difference.kind:<12} {difference.key}  {mark}{difference.detail}")
    if options.update:
        ledger.write(path, ledger.with_witnesses(suite, current, refuted))
        print(f"wrote {len(current)} entries to {path}; review the diff")
        return EXIT_HELD
    if differences:
        many = "1 difference" if len(differences) == 1 else f"{len(differences)} differences"
        own = "" if options.suite is None else f" --suite {shlex.quote(str(options.suite))}"
        print(f"{many} from {path}; if meant, run `dpverify claims --update{own}` and have the "
              "diff reviewed")  # fmt: skip
        return EXIT_REFUTED
    print(f"{len(current)} entries agree with {path}")
    _print_witnesses(recorded)
    return EXIT_HELD


def _print_witnesses(recorded: Mapping[str, ledger.Entry]) -> None:
    """Print how many witnesses were checked, and which parts of them the checker cannot check."""
    witnessed = {key: entry.get(OPEN, []) for key, entry in recorded.items() if DIGEST in entry}
    in_part = {key: left for key, left in witnessed.items() if left}
    if not witnessed:
        return
    print(
        f"{len(witnessed)} witnesses of refuted claims accepted by the checker, {len(in_part)} "
        "in part"
    )
    for key, left in in_part.items():
        print(f"  {key}: {'; '.join(left)}; its digests are those of the exhibit's pair")
