"""Have Coq check the theorems of this folder: `python -m tests.proofs.coq`.

Compiles every file outside of the checkout, looks for what is not proved, compares the axioms under
each theorem with ``AXIOMS``, and has Coq's independent checker read the compiled files again. Says
in one line that there is no Coq where there is none, and exits 0.

Coq takes a second to load its libraries, as long as most files take to compile. So the files are
compiled as modules of two larger ones, ``GROUPS``. Only the two files to be believed are compiled
by themselves, as they stand.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.proofs.coq import examples
from tests.proofs.coq.ties import TIES

HERE = Path(__file__).parent
FILES = (
    *(
        "Definitions",
        "Mechanisms",
        "Sums",
        "Transfer",
        "Products",
        "Events",
        "Rules",
        "Hypotheses",
        "Maps",
    ),
    *("Filters", "FriendlyLift", "BasicFilter", "AboveThreshold", "Noise", "Domination"),
    *("Gaussian", "Adaptive", "Premises", "Twins", "MoreTwins"),
    *("CouplingTwins", "NoiseTwins", "RealSums", "LiftTwins", "ThresholdTwins"),
    *("Labels", "Chained", "Histograms", "GaussianParts", "LaterTwins", "DegreeLift"),
    *("GaussianHistograms", "HistogramTwins", "DegreeExample", "Releases", "ReleaseTwins"),
    *("Examples", "NoiseExamples", "EventExamples", "BlockExamples", "GaussianExamples"),
    *("HistogramExamples", "RealExamples"),
)
BELIEVED = ("Definitions", "Mechanisms")
"""The files whose definitions are to be believed: tied statements are written in their terms
alone."""
_MATHCOMP = "all_ssreflect ssralg ssrnum ssrint order"
_IMPORTED = re.compile(r"^Require Import ([\w ]+)\.", re.MULTILINE)
_LIBRARIES = "From mathcomp Require Import all_ssreflect ssralg ssrnum"
_OF_THE_REALS = {
    "boolp.propositional_extensionality",
    "boolp.functional_extensionality_dep",
    "boolp.constructive_indefinite_description",
}
"""The axioms of mathcomp-analysis, on which its real numbers and its exponential function stand."""
AXIOMS = dict.fromkeys(
    (
        *("friendly_lift", "friendly_lift_twin", "friendly_lift_chances_twin"),
        *("friendly_lift_distance_twin", "above_threshold_twin", "above_threshold_shift_twin"),
        *("above_threshold_one_way_twin", "friendly_lift_example", "above_threshold_example"),
        "above_threshold_one_way_example",
    ),
    _OF_THE_REALS,
)
"""Axioms that a theorem may rest on; a theorem that is not listed rests on none."""
_THEOREM = re.compile(r"^(?:Theorem|Corollary) (\w+)", re.MULTILINE)
_UNPROVED = re.compile(
    r"\b(Admitted|admit|Admit|give_up|Axioms?|Parameters?|Conjectures?|bypass_check"
    r"|Unset \w+ Checking)\b"
)


def theorems() -> list[tuple[str, str]]:
    """List (file, name) of every theorem and corollary, in order."""
    return [(file, name) for file in FILES for name in _THEOREM.findall(_source(file))]


def unproved() -> list[str]:
    """List what a file takes for granted: words that leave a proof out or add an axiom."""
    return [f"{file}.v: {word}" for file in FILES for word in taken_for_granted(_source(file))]


def taken_for_granted(source: str) -> list[str]:
    """List the words of a source, outside of comments, that leave a proof out or switch off a
    check."""
    return _UNPROVED.findall(re.sub(r"\(\*.*?\*\)", "", source, flags=re.DOTALL))


def _source(file: str) -> str:
    return (HERE / f"{file}.v").read_text()


@cache
def _on_reals(file: str) -> bool:
    """Return whether a file, or one that it imports, needs the library of real numbers."""
    source = _source(file)
    imported = " ".join(_IMPORTED.findall(source)).split()
    return "mathcomp.analysis" in source or any(map(_on_reals, imported))


GROUPS = {
    "Fields": [file for file in FILES if file not in BELIEVED and not _on_reals(file)],
    "Reals": [file for file in FILES if _on_reals(file)],
}
"""Files that are compiled together. Tactics search longer where the real numbers are loaded, so
what can do without them is compiled without them."""


def grouped(group: str) -> str:
    """Return the source of a group: each file as a module.

    The libraries that all files import are imported once. Each module imports what else its file
    does, so that a statement means the same. A file keeps its number of lines.
    """
    lines = [f"{_LIBRARIES}. Require {' '.join(BELIEVED)}."]
    if group == "Reals":
        lines[0] += " Require Import Fields."
    for file in GROUPS[group]:
        source = _IMPORTED.sub(
            r"Import \1.", _source(file).replace(_LIBRARIES, "From mathcomp Require Import")
        )
        lines.append(f"Module {file}. {source} End {file}.")
    return "\n".join(lines) + "\n"


def in_its_file(message: str) -> str:
    """Name the file and its line where Coq names a line of a group."""
    place = re.search(r'File "./(\w+).v", line (\d+)', message)
    if place is None or place[1] not in GROUPS:
        return message
    left = int(place[2]) - 1
    for file in GROUPS[place[1]]:
        lines = _source(file).count("\n") + 1
        if left <= lines:
            return f"{HERE / file}.v, line {left}:\n{message}"
        left -= lines
    return message


def _run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{in_its_file(done.stdout + done.stderr)}")
    return done.stdout


def _compile(folder: Path, file: str, source: str) -> str:
    """Compile a source under a name, and return what Coq prints."""
    (folder / f"{file}.v").write_text(source)
    return _run(folder, "coqc", "-w", "none", "-R", ".", "", f"{file}.v")


def _axioms(folder: Path) -> dict[str, set[str]]:
    """Ask Coq what each theorem rests on: in one question about all that may rest on the same
    axioms, or on none, since together they rest on no less than each alone.

    Of a tied theorem, and of its example, it is the tie that is asked about. Where the answer is
    not these axioms, ask one by one, so that the theorem is named.
    """
    terms = {name: f"{file}.{name}" for file, name in theorems()}
    terms |= {tie.name: f"Ties.tie_{tie.name}" for tie in TIES}
    terms |= {f"{tie.name}_example": f"Ties.met_{tie.name}" for tie in TIES}
    alike: dict[frozenset[str], list[str]] = {}
    for name in terms:
        alike.setdefault(frozenset(AXIOMS.get(name, ())), []).append(name)
    together = ["".join(f"let _ := @{terms[n]} in " for n in names) for names in alike.values()]
    known = dict[str, set[str]]()
    answers = _ask(folder, [f"{lets}tt" for lets in together])
    for (axioms, names), of_all in zip(alike.items(), answers, strict=True):
        each = [of_all] * len(names)
        if of_all != axioms:
            each = _ask(folder, [f"@{terms[name]}" for name in names])
        known.update(zip(names, each, strict=True))
    return known


def _ask(folder: Path, terms: list[str]) -> list[set[str]]:
    """Ask Coq what each of these terms rests on."""
    lines = [f"Require {' '.join(BELIEVED)}. Require Import {' '.join(GROUPS)}. Require Ties."]
    lines += [f"Definition asked_{i} := {term}." for i, term in enumerate(terms)]
    lines += [f"Print Assumptions asked_{i}." for i in range(len(terms))]
    text = _compile(folder, "Ask", "\n".join(lines) + "\n")
    parts = re.split(r"(?=^Axioms:|^Closed under the global context)", text, flags=re.MULTILINE)[1:]
    if len(parts) != len(terms):
        sys.exit(f"Coq answered {len(parts)} times about {len(terms)} terms:\n{text}")
    return [rests_on(part) for part in parts]


def rests_on(answer: str) -> set[str]:
    """Return what Coq says that a theorem rests on: axioms, and what was taken with a check of
    Coq's switched off."""
    _, *lines = answer.strip().splitlines()
    return {line.partition(" :")[0].strip() for line in lines if not line[:1].isspace()}


def printed_ties() -> str:
    """Print the file in which Coq compares each tie's statement with the theorem's, or the
    example's.

    Of all files only those to be believed are imported, so what another one calls by a name, or
    by a notation, has no say in what the ties mean. The groups have nothing but their files in
    them, as modules.
    """
    lines = [f"From mathcomp Require Import {_MATHCOMP}."]
    lines += ["From mathcomp.analysis Require Import reals sequences."]
    lines += [f"Require Import {' '.join(GROUPS)}.", f"Require Import {' '.join(BELIEVED)}."]
    lines += ["Import GRing.Theory Num.Theory Order.Theory.", "Local Open Scope ring_scope."]
    lines += [tie.definition() for tie in TIES]
    where = {name: file for file, name in theorems()}
    lines += [examples.definition(tie, where[f"{tie.name}_example"]) for tie in TIES]
    return "\n".join(lines) + "\n"


_PROBE = "From mathcomp.analysis Require Import reals.\nFrom mathcomp Require Import ring zify.\n"


def _has_coq() -> bool:
    """Return whether there are Coq and the libraries that the theorems stand on."""
    if shutil.which("coqc") is None or shutil.which("coqchk") is None:
        return False
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "Probe.v").write_text(_PROBE)
        done = subprocess.run(["coqc", "-w", "none", "Probe.v"], cwd=name, capture_output=True)
    return done.returncode == 0


def main() -> None:
    """Check everything; exit 1 at the first thing that does not hold."""
    if not _has_coq():
        print(
            "no Coq here, or not its libraries mathcomp-analysis and algebra-tactics: the theorems "
            "of tests/proofs/coq were not checked"
        )
        return
    if unproved():
        sys.exit("\n".join(unproved()))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in BELIEVED:
            _compile(folder, file, _source(file))
        for group in GROUPS:
            _compile(folder, group, grouped(group))
        _compile(folder, "Ties", printed_ties())
        assumptions = _axioms(folder)
        for theorem, axioms in assumptions.items():
            if not axioms <= AXIOMS.get(theorem, set()):
                sys.exit(f"{theorem} rests on {sorted(axioms)}, not on what AXIOMS has")
        compiled = [word for file in (*BELIEVED, *GROUPS) for word in ("-norec", file)]
        _run(folder, "coqchk", "-silent", "-R", ".", "", *compiled)
    print(
        f"{len(assumptions)} theorems checked by Coq, {len(AXIOMS)} of them on axioms that are "
        f"listed; {len(TIES)} tied to rules, "
        "each with an example"
    )


if __name__ == "__main__":
    main()
