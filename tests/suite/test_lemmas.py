"""Obligations that held for the code at hand: digests of sources, the file, what a reader of a
claim is told."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from dpverify import ledger
from dpverify.cli import main
from dpverify.suite import lemmas
from dpverify.suite.dependencies import Sources
from dpverify.suite.lemmas import Build, Checked, differences
from dpverify.suite.runner import prove_units
from dpverify.suite.trees import load

ROOT = Path(__file__).parents[2]
SUITE = load()
OURS = Build(ROOT)
COUNT, OWN = "theory/queries.py:obligation_count", "my_count.py:obligation_loss"


def _run(foreign: Path, *words: str) -> int:
    return main([*words, "--suite", str(foreign)])


def _update(foreign: Path, *names: str) -> int:
    return _run(foreign, "prove", "--update", *names, "--workers", "1")


def _append(file: Path, text: str) -> None:
    file.write_text(file.read_text(encoding="utf-8") + text, encoding="utf-8")


def _all_recorded(build: Build) -> dict[str, Checked]:
    return {name: Checked(digest, 7) for name, digest in build.digests.items()}


# --- what is listed ------------------------------------------------------------------------------


def test_sources_show_every_obligation_that_prove_runs() -> None:
    units = [unit.name for unit in prove_units(SUITE, []) if unit.kind == "obligation"]
    assert sorted(map(lemmas.name_of, units)) == sorted(OURS.obligations)
    assert all(map(OURS.has, OURS.obligations))
    absent = ("theory/queries.py:obligation_absent", "absent.py:obligation_count", "", ":")
    assert not any(map(OURS.has, absent))
    assert len(units) > 150


def test_every_lemma_is_stated_in_a_module_of_the_core() -> None:
    lemmas.check_readable(OURS, SUITE, OURS.obligations)
    assert OURS.stating(COUNT) == {"dpverify.grid.queries"}
    assert OURS.stating("theory/filters.py:obligation_kept_mean") == {"dpverify.grid.retained"}
    assert OURS.stating("theory/vectors.py:obligation_masked_sum") == {
        "dpverify.grid.vector_queries"
    }
    assert OURS.stating("noisy_count.py:obligation_loss") == set()


# --- staleness ------------------------------------------------------------------------------------


def test_a_change_of_the_spec_or_of_what_it_imports_makes_it_stale(foreign: Path) -> None:
    recorded = _all_recorded(Build(foreign))
    assert differences(recorded, Build(foreign)) == {}
    _append(foreign / "spec" / "my_count.py", "\n# another comment\n")
    assert differences(recorded, Build(foreign)) == {
        name: "STALE" for name in recorded if name.startswith("my_count.py:")
    }
    _append(foreign / "spec" / "theory" / "queries.py", "\n")
    assert differences(recorded, Build(foreign))[COUNT] == "STALE"


def test_a_change_elsewhere_does_not(foreign: Path) -> None:
    recorded = _all_recorded(Build(foreign))
    (foreign / "spec" / "theory" / "of_others.py").write_text("# nobody imports it\n", "utf-8")
    _append(foreign / "audits" / "my_count.py", "\n# an attack\n")
    _append(foreign / "mechanisms" / "my_count.py", "\n# states no lemma\n")
    differing = differences(recorded, Build(foreign))
    assert COUNT not in differing
    assert OWN not in differing
    _append(foreign / "spec" / "theory" / "profiles.py", "\n# nothing that the queries import\n")
    assert COUNT not in differences(recorded, Build(foreign))


def test_a_change_of_what_states_the_lemma_makes_it_stale(foreign: Path) -> None:
    """A copy of this package, changed where the count's sensitivity is stated, and in what that
    imports."""
    ours = ROOT.resolve()
    package = foreign / "dpverify"
    shutil.copytree(ours / "dpverify", package, ignore=shutil.ignore_patterns("__pycache__"))

    def digest(where: str) -> str:
        copied, path = Sources(ours, ours, package), where.partition(":")[0].removesuffix(".py")
        module = f"spec.{path.replace('/', '.')}"
        return copied.digest(copied.closure({module, *copied.stating(where)}))

    vectors = "theory/vectors.py:obligation_vector_sum"
    before = {name: digest(name) for name in (COUNT, vectors, "noisy_count.py:obligation_loss")}
    assert before[COUNT] == OURS.digest(COUNT)  # where files lie makes no difference
    _append(package / "randomness" / "samplers.py", "\n# a sampler\n")
    assert {name: digest(name) for name in before} == before
    _append(package / "grid" / "vector_queries.py", "\n# a lemma's number\n")
    changed = {name for name in before if digest(name) != before[name]}
    assert changed == {vectors}
    _append(package / "privacy" / "adjacency.py", "\n# what neighbors are\n")
    assert all(digest(name) != before[name] for name in before)


def test_ends_of_lines_make_no_difference(foreign: Path) -> None:
    before = Build(foreign).digests
    for file in (foreign / "spec").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        file.write_text(text, encoding="utf-8", newline="\r\n")
    assert Build(foreign).digests == before


# --- the commands ---------------------------------------------------------------------------------


def test_update_runs_what_is_stale_and_check_says_what_is(
    foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(foreign, "prove", "--check") == 1
    assert f"MISSING  {COUNT}: it was not checked" in capsys.readouterr().out
    assert _update(foreign, "my_count") == 0
    assert "5 obligations were run, 0 needed no run" in capsys.readouterr().out
    recorded = lemmas.read(foreign / "lemmas.toml")
    assert recorded[COUNT] == Checked(Build(foreign).digest(COUNT), 17424)
    assert _update(foreign, "my_count") == 0
    assert "0 obligations were run, 5 needed no run" in capsys.readouterr().out
    _append(foreign / "spec" / "my_count.py", "\n# changed\n")
    assert _run(foreign, "prove", "--check") == 1
    assert f"STALE    {OWN}: the code that it depends on was changed" in capsys.readouterr().out
    assert _update(foreign, "my_count") == 0
    assert "4 obligations were run" in capsys.readouterr().out
    gone = {**recorded, "my_count.py:obligation_that_was": Checked("0", 1)}
    lemmas.write(foreign / "lemmas.toml", {**_all_recorded(Build(foreign)), **gone})
    assert _run(foreign, "prove", "--check") == 1
    assert "STRAY    my_count.py:obligation_that_was" in capsys.readouterr().out
    lemmas.write(foreign / "lemmas.toml", _all_recorded(Build(foreign)))
    assert _run(foreign, "prove", "--check") == 0
    assert "obligations are checked for this build, by" in capsys.readouterr().out


def test_a_false_obligation_is_not_written_and_loses_its_entry(foreign: Path) -> None:
    file = foreign / "spec" / "theory" / "queries.py"
    lemmas.write(foreign / "lemmas.toml", _all_recorded(Build(foreign)))
    text = file.read_text(encoding="utf-8")
    changed = text.replace("0 if within is None and adjacency is Adjacency.REPLACE else 1", "0")
    assert changed != text
    file.write_text(changed, encoding="utf-8")
    assert _update(foreign, "theory/queries") == 1
    recorded = lemmas.read(foreign / "lemmas.toml")
    assert COUNT not in recorded
    assert "theory/queries.py:obligation_answers" in recorded
    assert differences(recorded, Build(foreign))[COUNT] == "MISSING"


def test_update_drops_obligations_that_no_longer_exist(foreign: Path) -> None:
    gone = {"my_count.py:obligation_that_was": Checked("0", 1)}
    lemmas.write(foreign / "lemmas.toml", {**_all_recorded(Build(foreign)), **gone})
    assert _update(foreign) == 0  # nothing to run
    assert lemmas.read(foreign / "lemmas.toml") == _all_recorded(Build(foreign))


def test_explain_says_what_was_checked(foreign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "my_count:add-remove:all"
    assert _run(foreign, "explain", name) == 0
    shown = f"spec/{COUNT}, not checked for this build: run dpverify prove --update\n"
    assert shown in capsys.readouterr().out
    lemmas.write(foreign / "lemmas.toml", {COUNT: Checked(Build(foreign).digest(COUNT), 17424)})
    assert _run(foreign, "explain", name) == 0
    assert f"spec/{COUNT}, checked for this build (17,424 cases)\n" in capsys.readouterr().out
    lemmas.write(foreign / "lemmas.toml", {COUNT: Checked("0", 17424)})
    assert _run(foreign, "explain", name) == 0
    assert shown in capsys.readouterr().out


def test_claims_and_the_ledger_do_not_depend_on_it(foreign: Path) -> None:
    before = ledger.promised(load(foreign), {}, {})
    text = str(load(foreign).configurations["my_count:add-remove:all"].mechanism.claim)
    (foreign / "lemmas.toml").write_text("nothing that can be read", encoding="utf-8")
    assert ledger.promised(load(foreign), {}, {}) == before
    assert str(load(foreign).configurations["my_count:add-remove:all"].mechanism.claim) == text


# --- refusals -------------------------------------------------------------------------------------


def test_refusals_say_what_to_do(foreign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(foreign, "prove", "--update", "--digits", "80") == 2
    assert "--digits 80 with --update" in capsys.readouterr().err
    assert _run(foreign, "prove", "--check", "my_count") == 2
    assert "--check is of all obligations: leave my_count out." in capsys.readouterr().err
    for text in (
        "x = 1",
        '"a.py:obligation_a" = { digest = "0" }',
        "=",
        '"a" = {digest="0", cases=0}',
    ):
        (foreign / "lemmas.toml").write_text(text, encoding="utf-8")
        assert _run(foreign, "prove", "--check") == 3
        advice = f"delete it and run `dpverify prove --update --suite {foreign}`"
        assert advice in capsys.readouterr().err


def test_an_obligation_that_sources_do_not_show_is_refused(
    foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _append(foreign / "spec" / "my_count.py", "\nobligation_more = lambda: 3\n")
    assert _update(foreign, "my_count") == 3
    assert "my_count.py:obligation_more is not defined by a def" in capsys.readouterr().err


def test_a_lemma_whose_name_no_string_has_is_refused(
    foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Build, "stating", lambda build, obligation: set())
    with pytest.raises(ValueError, match=re.escape(f"a lemma names spec/{COUNT}, and no module")):
        lemmas.check_readable(Build(foreign), load(foreign), [])


def test_the_check_loads_no_suite(foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpverify.cli.load", None)
    assert _run(foreign, "prove", "--check") == 1


def test_the_file_is_what_was_written(tmp_path: Path) -> None:
    entries = {"b.py:obligation_b": Checked("1f", 2), "a.py:obligation_a": Checked("2e", 12345)}
    lemmas.write(tmp_path / "lemmas.toml", entries)
    assert lemmas.read(tmp_path / "lemmas.toml") == entries
    lines = (tmp_path / "lemmas.toml").read_text(encoding="utf-8").splitlines()
    assert lines[-2:] == [
        '"a.py:obligation_a" = { cases = 12345, digest = "2e" }',
        '"b.py:obligation_b" = { cases = 2, digest = "1f" }',
    ]
    assert lemmas.read(tmp_path / "none.toml") == {}
