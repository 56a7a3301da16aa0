"""Discovery: three files of one name, in any folder; what is missing is named."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dpverify.cli import main
from dpverify.suite import judges
from dpverify.suite.events import Judgment, Outcome
from dpverify.suite.judges import Options
from dpverify.suite.papers import missing_items, statements, unsourced
from dpverify.suite.runner import prove_units
from dpverify.suite.trees import Suite, SuiteError, load

ROOT = Path(__file__).parents[2]


def test_our_own_trees_fit_together() -> None:
    suite = load()
    assert sorted(suite.entries) == [
        "bernoulli_mean",
        "bounded_mean",
        "clipped_mean",
        "coordinatewise_mean",
        "gaussian",
        "gaussian_covariance",
        "gaussian_mean",
        "histogram_gaussian",
        "iterative_mean",
        "kth_largest_variance",
        "large_variances",
        "location_scale",
        "noisy_count",
        "number_of_reports",
        "partitioned_product",
        "private_quantile",
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
    assert main(["audit", "--quick", "--seed", "1", "--workers", "1", *suite]) == 0
    assert main(["prove", "--workers", "1", *suite]) == 0
    assert {"my_count:obligation_loss", "theory/queries:obligation_count"} <= {*proved}
    assert {"truncation", "degree_weights"} <= {name.partition(":")[0] for name in proved}
    assert main(["claims", *suite]) == 1  # no ledger yet
    assert main(["claims", "--update", *suite]) == 0
    assert main(["claims", "--check", *suite]) == 0
    assert main(["explain", "my_count", *suite]) == 0
    assert "my_count:add-remove:all" in capsys.readouterr().out
    assert (foreign / "claims.toml").exists()


def test_a_suite_without_theory_has_ours(foreign: Path) -> None:
    """It is proved with them, and all of ours are among its units."""
    shutil.rmtree(foreign / "spec" / "theory")
    suite = load(foreign)
    assert suite.theory.keys() == load(ROOT).theory.keys()
    theory = [u for u in prove_units(load(ROOT), []) if u.name.startswith("theory/")]
    assert {*theory} <= {*prove_units(suite, [])}
    assert len(theory) > 80
    names = ["my_count", "theory/queries"]
    assert main(["prove", *names, "--suite", str(foreign), "--workers", "1"]) == 0


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
    """Another mechanism may be broken; what needs every one of them names it, and so does a wrong name."""
    for tree in ("mechanisms", "spec", "audits"):
        shutil.copy(foreign / tree / "my_count.py", foreign / tree / "my_sum.py")
    suite = ["--suite", str(foreign)]
    assert main(["explain", "my_count:add-remove:all", *suite]) == 0
    capsys.readouterr()
    for command in (["list"], ["explain", "my_cuont"], ["audit", "my_count"], ["claims"]):
        assert main([*command, *suite]) == 3
        assert "my_sum.py has no mechanism class named MySum" in capsys.readouterr().err
    assert main(["explain", "my_sum", *suite]) == 3


def test_the_list_is_of_the_ledger_or_else_of_the_code(
    foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = ["--suite", str(foreign)]
    assert main(["list", *suite]) == 0
    assert "my_count:add-remove:all" in capsys.readouterr().out
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
    ("spec", "def law(", "def lawn(", "needs a function law"),
    ("spec", "obligation_", "observation_", "at least one obligation"),
    ("audits", "CONFIGURATIONS =", "CONFIGURATION =", "needs CONFIGURATIONS"),
    ("audits", "SMALL =", "LARGE =", "needs SMALL"),
    ("audits", 'name="all"', 'name="within"', "have the same name"),
    ("audits", "import Configuration", "import Confabulation", "audits/my_count.py: ImportError"),
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
    found = statements(load())
    assert {s.status.value for s in found} >= {"holds", "refuted", "holds with changed constants"}
    for statement in found:
        for place in statement.places:
            path, _, name = place.partition(":")
            text = (ROOT / path).read_text(encoding="utf-8")
            assert not name or re.search(rf"^(def|class) {name}\b", text, re.MULTILINE), place


def test_every_numbered_item_of_the_implemented_papers_is_stated_or_explained() -> None:
    """One that lost its statement, one that no paper has, and one that points nowhere are named."""
    found = statements(load())
    assert missing_items(found) == []
    without = [s for s in found if (s.paper, s.item.split(",")[0]) != ("ZZ25", "Theorem B.10")]
    named = [text.split(" is stated")[0] for text in missing_items(without)]
    assert named == [
        f"ZZ25, {item}" for item in ("Condition 3.3", "Lemma B.8", "Algorithm B.2", "Theorem B.10")
    ]
    invented = replace(found[0], paper="ZZ25", item="Theorem 3.10, of nobody")
    assert missing_items([*found, invented]) == [
        "ZZ25, Theorem 3.10, of nobody: the paper has no Theorem 3.10"
    ]
