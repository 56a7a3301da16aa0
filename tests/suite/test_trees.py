"""Discovery: three files of one name, in any folder; what is missing is named."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dpverify.cli import main
from dpverify.suite import judges, lemmas
from dpverify.suite.entries import SuiteError
from dpverify.suite.events import Judgment, Outcome
from dpverify.suite.judges import Options
from dpverify.suite.lemmas import Checked
from dpverify.suite.papers import missing_items, statements, unsourced
from dpverify.suite.pieces import shapes_of
from dpverify.suite.runner import prove_units
from dpverify.suite.trees import Suite, load

ROOT = Path(__file__).parents[2]


def test_our_own_trees_fit_together() -> None:
    suite = load()
    assert sorted(suite.entries) == [
        "bernoulli_mean",
        "bounded_mean",
        "bounded_sum",
        "clipped_mean",
        "coordinatewise_mean",
        "gaussian",
        "gaussian_covariance",
        "gaussian_mean",
        "histogram",
        "histogram_gaussian",
        "interquartile_range",
        "iterative_mean",
        "kth_largest_variance",
        "large_variances",
        "location_scale",
        "moment_matrix",
        "noisy_count",
        "number_of_reports",
        "partitioned_product",
        "private_quantile",
        "private_quantiles",
        "product_distribution",
        "randomized_response",
        "refined_mean",
        "rescaled_mean",
        "robust_mean",
        "scale_family",
        "sign_covariance",
        "smooth_median",
        "sparse_vector",
        "stability_histogram",
        "sum_of_variances",
        "truncated_mle",
        "univariate_gaussian",
        "unknown_covariance_mean",
        "variance_aware_mean",
        "winsorized_mean",
    ]
    assert list(suite.exhibits) == [
        "clean_mean",
        "clean_mean_of_gaussians",
        "clean_mean_published",
        "count_silent_when_empty",
        "displayed_constants",
        "filtered_mean",
        "filtered_mean_published",
        "gaussian_noise_is_pure",
        "radius_by_rows",
        "winsorized_half_range",
        "winsorized_half_scale",
    ]
    assert unsourced(suite) == []


def test_a_foreign_suite_works_whole(
    foreign: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is proved of our own files is taken as proved: ``prove`` is run on these by CI."""
    monkeypatch.chdir(foreign)
    proved, right = list[str](), judges._JUDGES["obligation"]

    def of_theirs(suite: Suite, name: str, options: Options) -> Judgment:
        proved.append(name)
        if name.startswith("my_count:"):
            return right(suite, name, options)
        return Judgment(Outcome.HELD, "HOLDS", "1 case", data={"cases": 1})

    monkeypatch.setitem(judges._JUDGES, "obligation", of_theirs)
    suite = ["--suite", str(foreign)]
    assert main(["audit", "--trials", "20000", "--seed", "1", "--workers", "1", *suite]) == 0
    assert main(["prove", "--workers", "1", *suite]) == 0
    assert {"my_count:obligation_loss", "theory/queries:obligation_count"} <= {*proved}
    assert {name.partition(":")[0] for name in proved} == {"my_count", "theory/queries"}
    assert main(["claims", *suite]) == 1  # no ledger yet
    assert main(["claims", "--update", *suite]) == 0
    assert main(["claims", "--check", *suite]) == 0
    assert main(["explain", "my_count", *suite]) == 0
    assert "my_count:add-remove:all" in capsys.readouterr().out
    assert (foreign / "claims.toml").exists()


def test_a_suite_without_theory_has_ours_and_proves_its_own(
    foreign: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Use of ours the lemmas that it rests on: taken from lemmas.toml where that has them for
    this code, and else run."""
    shutil.rmtree(foreign / "spec" / "theory")
    suite, run = load(foreign), list[str]()
    assert suite.theory.keys() == load(ROOT).theory.keys()
    borrowed = [u.name for u in prove_units(suite, []) if not u.name.startswith("my_count")]
    assert borrowed == ["theory/queries:obligation_count"]

    def count() -> int:
        run.append("obligation_count")
        return 12

    shown = suite.theory["queries"].obligation_count
    count.__dict__.update(vars(shown))  # what it declares to show
    monkeypatch.setattr(suite.theory["queries"], "obligation_count", count)
    prove = ["prove", "--suite", str(foreign), "--workers", "1"]
    monkeypatch.setattr("dpverify.suite.lemmas.shipped", lambda name: Checked("0", 17))
    assert main(prove) == 0
    assert "17 cases, checked for this build of dpverify" in capsys.readouterr().out
    assert run == []
    monkeypatch.setattr("dpverify.suite.lemmas.shipped", lambda name: None)
    assert main(prove) == 0
    assert "HOLDS  12 cases  " in capsys.readouterr().out
    assert run == ["obligation_count"]
    assert main([*prove, "theory/queries"]) == 2
    assert main([*prove, "samplers"]) == 2


def test_a_lemma_that_says_more_than_ours_shows_is_seen(
    foreign: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taking an obligation from lemmas.toml does not take a lemma's word for what it shows."""
    shutil.rmtree(foreign / "spec" / "theory")
    monkeypatch.setattr("dpverify.suite.lemmas.shipped", lambda name: Checked("0", 17))
    monkeypatch.setattr(judges, "misstated", lambda suite, key: iter(["a half is not shown"]))
    assert main(["prove", "my_count", "--suite", str(foreign), "--workers", "1"]) == 3
    assert "a lemma says something else: a half is not shown" in capsys.readouterr().out


def test_what_is_taken_from_our_lemmas_is_of_this_code(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "theory/queries.py:obligation_count"
    build = lemmas.Build(ROOT)
    for recorded, expected in (
        ({name: Checked(build.digest(name), 7)}, Checked(build.digest(name), 7)),
        ({name: Checked("of another code", 7)}, None),
        ({}, None),
    ):
        monkeypatch.setattr(lemmas, "_ours", lambda recorded=recorded: (build, recorded))
        assert lemmas.shipped(name) == expected
    assert lemmas.shipped("theory/queries.py:obligation_that_was") is None


def test_a_file_that_exits_is_named(foreign: Path) -> None:
    (foreign / "audits" / "my_count.py").write_text("import sys\nsys.exit(0)\n", encoding="utf-8")
    with pytest.raises(SuiteError, match=r"audits/my_count\.py: SystemExit"):
        list(load(foreign).entries.values())


def test_one_exported_thing_need_not_be_in_a_tuple(foreign: Path) -> None:
    file = foreign / "audits" / "my_count.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(text + "\nSMALL = SMALL[0]\n", encoding="utf-8")
    assert len(load(foreign).entries["my_count"].small) == 1


def test_a_file_is_loaded_when_it_is_asked_for(
    foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another mechanism may be broken; what needs every one of them names it, and so does a
    wrong name."""
    for tree in ("mechanisms", "spec", "audits"):
        shutil.copy(foreign / tree / "my_count.py", foreign / tree / "my_sum.py")
    entries = load(foreign).entries
    assert "my_sum" in entries  # not loaded for it
    assert "my_cuont" not in entries
    suite = ["--suite", str(foreign)]
    assert main(["explain", "my_count:add-remove:all", *suite]) == 0
    capsys.readouterr()
    for command in (["list"], ["explain", "my_cuont"], ["audit", "my_count"], ["claims"]):
        assert main([*command, *suite]) == 3
        assert "my_sum.py: there is no mechanism class named MySum" in capsys.readouterr().err
    assert main(["explain", "my_sum", *suite]) == 3


def test_the_list_is_of_the_ledger_or_else_of_the_code(
    foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = ["--suite", str(foreign)]
    assert main(["list", *suite]) == 0
    printed = capsys.readouterr().out
    assert "my_count:add-remove:all" in printed
    assert "CONFIGURATION:" not in printed  # it has no parts that are audited by themselves
    (foreign / "claims.toml").write_text('["my_count:replace:mine"]\nstatus = "said"\n')
    assert main(["list", *suite]) == 0
    assert re.search(r"my_count:replace:mine +\? +said +\?", capsys.readouterr().out)
    assert main(["claims", "--check", *suite]) == 1


@pytest.mark.parametrize("tree", ["mechanisms", "spec", "audits"])
def test_a_missing_file_is_named(foreign: Path, tree: str) -> None:
    (foreign / tree / "my_count.py").unlink()
    with pytest.raises(SuiteError, match=re.escape(f"my_count has no {tree}/my_count.py")):
        load(foreign)


DEFECTS = [
    ("mechanisms", "class MyCount", "class YourCount", "no mechanism class named MyCount"),
    ("spec", "def law(", "def lawn(", "there is no function law; write"),
    ("spec", "obligation_", "observation_", "there is no function obligation_*; write"),
    ("audits", "CONFIGURATIONS =", "CONFIGURATION =", "there is no CONFIGURATIONS; write"),
    ("audits", "SMALL =", "LARGE =", "there is no SMALL; write"),
    ("audits", 'name="all"', 'name="within"', "have the same name"),
    ("spec", "def sensitivities(", "def sensitivity(", "there is no function sensitivities"),
    ("spec", "def law(parameters: Parameters, ", "def law(", "law is law(records"),
    ("spec", "claimed: Fraction = Fraction(1)", "claimed: Fraction", "called without arguments"),
    ("mechanisms", "def estimate(", "def estimated(", "MyCount has no estimate; write"),
    ("audits", 'name="all",', 'name="all", faults=(max,),', "'all': the fault max"),
    ("audits", "SMALL = (", "SMALL = (1,", "SMALL is (1, SmallInstance("),
    ("audits", "CONFIGURATIONS = (", "BLACK_BOXES = CONFIGURATIONS = (", "a file of their own"),
    ("audits", "import Configuration", "import Confabulation", "audits/my_count.py: ImportError:"),
]


@pytest.mark.parametrize(("tree", "old", "new", "message"), DEFECTS)
def test_a_defect_is_named(foreign: Path, tree: str, old: str, new: str, message: str) -> None:
    file = foreign / tree / "my_count.py"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    if tree == "mechanisms":  # the audit imports the class by its name
        audits = foreign / "audits" / "my_count.py"
        audits.write_text(audits.read_text(encoding="utf-8").replace("MyCount", "YourCount"))
    with pytest.raises(SuiteError, match=re.escape(message)):
        list(load(foreign).entries.values())


def test_everything_that_is_missing_is_named_at_once_with_its_signature(foreign: Path) -> None:
    (foreign / "spec" / "my_count.py").write_text("law = 3\n", encoding="utf-8")
    text = "from dpverify import Adjacency\n\nCONFIGURATIONS = [Adjacency.REPLACE]\n"
    (foreign / "audits" / "my_count.py").write_text(text, encoding="utf-8")
    with pytest.raises(SuiteError) as raised:
        list(load(foreign).entries.values())
    law, sensitivities, obligation = shapes_of("spec", "my_count")
    configurations, small = shapes_of("audits", "my_count")
    assert str(raised.value).splitlines() == [
        "my_count: 5 pieces are missing or wrong",
        "  spec/my_count.py: law is 3; write",
        f"      {law}",
        "  spec/my_count.py: there is no function sensitivities; write",
        f"      {sensitivities}",
        "  spec/my_count.py: there is no function obligation_*; write",
        f"      {obligation}",
        "  audits/my_count.py: CONFIGURATIONS is [<Adjacency.REPLACE: 'replace'>], "
        "and must be one or more "
        "Configuration; write",
        f"      {configurations}",
        "  audits/my_count.py: there is no SMALL; write",
        f"      {small}",
    ]


def test_every_file_that_is_missing_is_named_at_once(foreign: Path) -> None:
    for tree, name in (("mechanisms", "my_sum"), ("spec", "my_mean")):
        (foreign / tree / f"{name}.py").write_text("", encoding="utf-8")
    with pytest.raises(SuiteError) as raised:
        load(foreign)
    assert re.findall(r"(\w+) has no (\S+); write", str(raised.value)) == [
        ("my_mean", "mechanisms/my_mean.py"),
        ("my_mean", "audits/my_mean.py"),
        ("my_sum", "spec/my_sum.py"),
        ("my_sum", "audits/my_sum.py"),
    ]


def test_a_lemma_without_its_obligation_makes_the_run_invalid(
    foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = foreign / "spec" / "theory" / "queries.py"
    text = file.read_text(encoding="utf-8").replace("def obligation_count(", "def count_check(")
    file.write_text(text, encoding="utf-8")
    assert main(["prove", "my_count", "--suite", str(foreign), "--workers", "1"]) == 3
    assert "there is no such obligation" in capsys.readouterr().out


def test_a_false_obligation_is_red(foreign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = foreign / "spec" / "theory" / "queries.py"
    text = file.read_text(encoding="utf-8")
    changed = text.replace("0 if within is None and adjacency is Adjacency.REPLACE else 1", "0")
    assert changed != text
    file.write_text(changed, encoding="utf-8")
    assert main(["prove", "my_count", "--suite", str(foreign), "--workers", "1"]) == 1
    assert "FALSE" in capsys.readouterr().out


def test_every_statement_of_a_paper_has_places_that_exist() -> None:
    claims = statements(load())
    assert {s.status.value for s in claims} >= {"holds", "refuted", "holds with changed constants"}
    for statement in claims:
        for place in statement.places:
            path, _, name = place.partition(":")
            text = (ROOT / path).read_text(encoding="utf-8")
            assert not name or re.search(rf"^(def|class) {name}\b", text, re.MULTILINE), place


def test_every_numbered_item_of_the_implemented_papers_is_stated_or_explained() -> None:
    """One that lost its statement, one that no paper has, and one that points nowhere are named."""
    claims = statements(load())
    assert missing_items(claims) == []
    without = [s for s in claims if (s.paper, s.item.split(",")[0]) != ("ZZ25", "Theorem B.10")]
    named = [text.split(" is stated")[0] for text in missing_items(without)]
    assert named == [
        f"ZZ25, {item}" for item in ("Condition 3.3", "Lemma B.8", "Algorithm B.2", "Theorem B.10")
    ]
    invented = replace(claims[0], paper="ZZ25", item="Theorem 3.10, of nobody")
    assert missing_items([*claims, invented]) == [
        "ZZ25, Theorem 3.10, of nobody: the paper has no Theorem 3.10"
    ]
