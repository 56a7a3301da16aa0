"""Black boxes in a suite: judged as mechanisms are, recorded as asserted, and refused where pieces
are missing."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpverify import ledger
from dpverify.cli import _parser, main
from dpverify.suite import black_boxes, changed, judges
from dpverify.suite.entries import SuiteError
from dpverify.suite.judges import Options, Unit, code_behind, rests_on
from dpverify.suite.runner import audit_units
from dpverify.suite.trees import load

_BOXES = """
import numpy as np

from dpverify import ApproxDP, PureDP
from dpverify.audit import BlackBox, added, scaled_faults

def total(data, size, rng, scale=1.0):
    return np.round(float(sum(data)) + rng.laplace(scale=scale, size=size), 2)

def honest(data, size, rng):
    return total(data, size, rng)

BLACK_BOXES = BlackBox(
    name="sum", function=total, claim=PureDP(1), pairs=(added("a one", [0.0], 1.0),),
    faults=scaled_faults(total, factors=[0.5]), vectorized=True, seeded=True, quick_trials=6000,
)
"""
KEY = "totals:add-remove:sum"
_QUICK = ("--quick", "--seed", "1", "--workers", "1")


def _changed(old: str, new: str) -> str:
    assert old in _BOXES
    return _BOXES.replace(old, new)


@pytest.fixture
def suite(tmp_path: Path, forget: Callable[[], None]) -> Path:
    """Return a suite that is one file, which tests change; of that nothing is left to other
    tests."""
    (tmp_path / "audits").mkdir()
    _write(tmp_path, _BOXES)
    return tmp_path


def _write(suite: Path, text: str, name: str = "totals") -> None:
    """Write a file of a suite, and forget the one that was loaded."""
    (suite / "audits" / f"{name}.py").write_text(text, encoding="utf-8")
    judges.loaded_suite.cache_clear()
    for module in [module for module in sys.modules if module.endswith(f".audits.{name}")]:
        del sys.modules[module]


def _main(suite: Path, *words: str) -> int:
    return main([*words, "--suite", str(suite)])


def _units(file: Path) -> dict[str, dict[str, Any]]:
    events = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {event["name"]: event for event in events if event["event"] == "unit-finished"}


# --- verdicts and exit codes ---------------------------------------------------------------------


def test_a_sound_one_is_consistent_and_its_claim_is_said_to_be_asserted(
    suite: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "out.jsonl"
    assert _main(suite, "audit", *_QUICK, "--jsonl", str(file)) == 0
    printed = capsys.readouterr().out
    assert f"{KEY}  CONSISTENT  claim pure(1)" in printed
    assert "1/1 planted faults caught; the claim is asserted, nothing derives it" in printed
    data = _units(file)[KEY]["data"]
    assert data["trials"] == 6000
    assert [fault["name"] for fault in data["faults"]] == ["total, scale x 0.5"]
    assert data["alpha"] == 1e-6


def test_one_that_leaks_is_violated_with_a_witness(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(suite, _changed("scale=1.0):", "scale=0.5):"))
    assert _main(suite, "audit", "totals", *_QUICK, "--evidence", str(tmp_path / "found")) == 1
    printed = capsys.readouterr().out
    assert f"{KEY}  VIOLATED" in printed
    assert f"replay: dpverify audit {KEY} --seed 1 --quick --suite {suite}" in printed
    assert [file.name for file in (tmp_path / "found").iterdir()] == [
        f"{KEY.replace(':', '-')}.json"
    ]


def test_one_whose_fault_is_missed_is_powerless(
    suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(suite, _changed("faults=scaled_faults(total, factors=[0.5])", "faults=(honest,)"))
    assert _main(suite, "audit", *_QUICK) == 4
    assert "missed fault: honest" in capsys.readouterr().out


def test_one_that_shares_its_noise_is_invalid(suite: Path) -> None:
    _write(suite, _changed("size=size)", "size=1).repeat(size)"))
    assert _main(suite, "audit", *_QUICK) == 3


def test_a_claim_beyond_all_draws_and_hidden_bits_are_said(
    suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = _changed("np.round(float(sum(data)) + rng.laplace(scale=scale, size=size), 2)",
                    "float(sum(data)) + rng.laplace(scale=scale, size=size)")  # fmt: skip
    text = text.replace("PureDP(1)", "ApproxDP(1, '1e-15')").replace(
        "seeded=True", "seeded=True, rounded=0.01"
    )
    _write(suite, text)
    assert _main(suite, "audit", *_QUICK) == 0
    printed = capsys.readouterr().out
    assert "out of reach" in printed
    assert "floats were rounded to multiples of 0.01" in printed


# --- seeds, replays, runs that go on --------------------------------------------------------------


def test_a_seeded_one_is_replayed_bit_for_bit(suite: Path, tmp_path: Path) -> None:
    """Whatever ran before it: what it draws hangs on the run's seed and its name alone."""
    first, again = tmp_path / "1", tmp_path / "2"
    leaking = _changed("scale=1.0):", "scale=0.5):")
    _write(suite, leaking)
    _write(suite, leaking.replace('name="sum"', 'name="another"'), "earlier")
    assert _main(suite, "audit", *_QUICK, "--jsonl", str(first)) == 1
    assert [*_units(first)] == ["earlier:add-remove:another", KEY]
    replay = [*shlex.split(_units(first)[KEY]["replay"]), "--workers", "1"]
    assert main([*replay[1:], "--jsonl", str(again)]) == 1
    assert _units(again)[KEY]["data"] == _units(first)[KEY]["data"]
    other = ["--seed", "2" if replay[replay.index("--seed") + 1] == "1" else "1"]
    assert main([*replay[1:], *other, "--jsonl", str(again)]) == 1
    assert _units(again)[KEY]["data"]["strongest"] != _units(first)[KEY]["data"]["strongest"]


def test_a_run_goes_on_unless_code_changed_wherever_it_is(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function is imported from a project of somebody's own, which is neither installed nor in
    the suite."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "their_scales.py").write_text("SCALE = 1.0\n", encoding="utf-8")
    source = "from their_scales import SCALE\ndef mean_of(data):\n    return sum(data) * SCALE\n"
    (project / "their_sums.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(str(project))
    _write(suite, _changed("import numpy as np", "import numpy as np, their_sums"))
    (unit,) = audit_units(load(suite), [])
    before, asked_of_workers = rests_on(load(suite), unit.name), code_behind(load(suite))
    assert rests_on(load(suite), unit.name) == before
    assert code_behind(load(suite)) == asked_of_workers
    (project / "their_sums.py").write_text(source + "# changed\n", encoding="utf-8")
    assert rests_on(load(suite), unit.name) != before
    assert code_behind(load(suite)) != asked_of_workers  # nor are runs of both merged
    (project / "their_sums.py").write_text(source, encoding="utf-8")
    assert rests_on(load(suite), unit.name) == before
    (project / "their_scales.py").write_text("SCALE = 2.0\n", encoding="utf-8")
    assert (
        rests_on(load(suite), unit.name) != before
    )  # a number, which does not say where it is from
    (project / "their_scales.py").write_text("SCALE = 1.0\n", encoding="utf-8")
    (project / "their_sums.py").write_text(source + "# changed\n", encoding="utf-8")

    out = tmp_path / "out.jsonl"
    assert _main(suite, "audit", *_QUICK, "--jsonl", str(out)) == 0
    asked = list[str]()
    monkeypatch.setattr(black_boxes, "judge", lambda *a, **k: asked.append("judged"))
    assert _main(suite, "audit", *_QUICK, "--resume", str(out)) == 0
    assert asked == []
    (project / "their_sums.py").write_text(source, encoding="utf-8")
    assert _main(suite, "audit", *_QUICK, "--resume", str(out)) == 3  # judged again, by a stub
    assert asked == ["judged"]


def test_imports_of_all_kinds_are_followed(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "their_package"
    (package / "inner").mkdir(parents=True)
    files = {
        "__init__.py": "from .core import base\n",
        "core.py": "from functools import lru_cache\nfrom .inner import deep\n"
        "@lru_cache\ndef base(n):\n    return n * deep.FACTOR\n",
        "inner/__init__.py": "",
        "inner/deep.py": "try:\n    import their_package.limits as _\nfinally:\n    FACTOR = 1\n",
        "limits.py": "LIMIT = 1\n",
    }
    for name, text in files.items():
        (package / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    _write(
        suite, _changed("import numpy as np", "import numpy as np\nfrom their_package import base")
    )
    (unit,) = audit_units(load(suite), [])
    before = rests_on(load(suite), unit.name)
    for name, text in files.items():
        (package / name).write_text(text + "# changed\n", encoding="utf-8")
        assert rests_on(load(suite), unit.name) != before, name
        (package / name).write_text(text, encoding="utf-8")
    assert rests_on(load(suite), unit.name) == before


def test_without_quick_it_gets_five_times_the_draws(suite: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    assert _main(suite, "audit", "--seed", "1", "--workers", "1", "--jsonl", str(file)) == 0
    assert _units(file)[KEY]["data"]["trials"] == 30_000


# --- what is said of them -------------------------------------------------------------------------


def test_the_ledger_records_what_is_asserted(
    suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main(suite, "claims", "--check") == 1
    assert f"NEW          {KEY}  promises pure(1)" in capsys.readouterr().out
    assert _main(suite, "claims", "--update") == 0
    assert _main(suite, "claims", "--check") == 0
    entry = ledger.read(suite / "claims.toml")[KEY]
    assert entry == {
        "guarantee": "pure(1)",
        "adjacency": "add-remove",
        "function": "total",
        "pairs": ["a one"],
        "faults": ["total, scale x 0.5"],
        "status": "asserted",
        "source": "the author of the function",
    }
    capsys.readouterr()
    for old, new, said in (
        ("PureDP(1)", "PureDP(2)", "LOOSENED .* breaking: pure"),
        ("PureDP(1)", "PureDP('0.5')", "TIGHTENED"),
        ("factors=[0.5]", "factors=[0.1]", "FAULTS .* breaking: "),
        ('name="sum"', 'name="another"', "DROPPED .* breaking: "),
        ("seeded=True", "seeded=True, rounded=0.5", "ROUNDED .* breaking: "),
    ):
        _write(suite, _changed(old, new))
        assert _main(suite, "claims", "--check") == 1
        assert re.search(rf"^{said}", capsys.readouterr().out, re.MULTILINE), said


def test_proved_is_more_than_asserted_and_asserted_more_than_refuted() -> None:
    def breaks(old: str, new: str) -> bool:
        recorded, current = ({"x": {"guarantee": "pure(1)", "status": s}} for s in (old, new))
        (difference,) = ledger.compare(recorded, current)
        return difference.breaking

    assert breaks("proved", "asserted")
    assert breaks("asserted", "refuted")
    assert not breaks("asserted", "proved")
    assert not breaks("refuted", "asserted")


def test_list_explain_and_prove_say_that_nothing_derives_it(
    suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for named in (False, True):  # from the code, and from the ledger
        assert _main(suite, "list") == 0
        assert re.search(
            rf"{KEY} +pure\(1\) +asserted +the author of the function", capsys.readouterr().out
        )
        assert named or _main(suite, "claims", "--update") == 0
        capsys.readouterr()
    for name in ("totals", "totals:add-remove", KEY):
        assert _main(suite, "explain", name) == 0
        printed = capsys.readouterr().out
        assert "pure(1) under add-remove [asserted]" in printed
        assert "nothing here derives it" in printed
    assert _main(suite, "prove", "totals") == 2
    assert (
        "totals is a black box: its claim is asserted, and there is nothing to prove"
        in capsys.readouterr().err
    )
    assert _main(suite, "prove") == 5
    assert _main(suite, "audit", "--power", "--quick") == 5
    assert _main(suite, "audit", "totles") == 2
    assert "did you mean totals" in capsys.readouterr().err


def test_they_stand_beside_mechanisms(foreign: Path) -> None:
    _write(foreign, _BOXES)
    suite = load(foreign)
    assert [*suite.entries] == ["my_count"]
    assert [unit.name for unit in audit_units(suite, [])][-1] == KEY
    assert [unit.name for unit in audit_units(suite, ["totals"])] == [KEY]


def test_what_has_no_name_is_named_by_its_class(suite: Path) -> None:
    """The name of an object tells where it lies in memory, which no ledger can record."""
    weak = (
        "class Weak:\n    def __call__(self, data, size, rng):\n        return data\n\ndef honest"
    )
    _write(
        suite,
        _changed("def honest", weak).replace("scaled_faults(total, factors=[0.5])", "(Weak(),)"),
    )
    assert black_boxes.entry_of(load(suite).black_boxes[KEY])["faults"] == ["Weak"]


def test_replays_of_names_with_spaces_are_quoted(suite: Path) -> None:
    name = f"{KEY} of all"
    replay = Options(suite=suite, seed=3).replay(Unit("audit", name))
    words = shlex.split(replay)
    assert words[:5] == ["dpverify", "audit", name, "--seed", "3"]
    assert _parser().parse_known_args(words[1:])[0].names == [name]


def test_changed_leaves_no_black_box_out(foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep all black boxes: what they rest on is anywhere; a mechanism that nothing changed
    under is left out."""
    _write(foreign, _BOXES)
    monkeypatch.setattr(changed, "_changed_in", lambda folder: {Path("tests/of_theirs.py")})
    units = audit_units(load(foreign), [])
    assert len(units) > 1
    assert [unit.name for unit in changed.Changed(foreign).affected(units)] == [KEY]


# --- what is missing ------------------------------------------------------------------------------

DEFECTS = [
    ("BLACK_BOXES =", "OTHERS =", "exports neither black boxes nor"),
    ("BLACK_BOXES =", "CONFIGURATIONS =",
     "it is a mechanism's, and there are no mechanisms/totals.py"),
    ("BLACK_BOXES = BlackBox(", "BLACK_BOXES = dict(", "must be one or more BlackBox; write"),
    ("vectorized=True, ", "",
     "function=total(data, size, rng, scale=1.0) is not called as f(dataset, rng)"),
    ("claim=PureDP(1)", "claim=1", "claim=1 is no guarantee; write claim=PureDP(1)"),
    ('pairs=(added("a one", [0.0], 1.0),)', "pairs=([0.0], [1.0])",
     "write one or more neighboring pairs"),
    ("faults=scaled_faults(total, factors=[0.5])", "faults=()", "write faults=(broken_f,)"),
    ("scaled_faults(total, factors=[0.5])", "[lambda a, b, c: 1, lambda a, b, c: 2]",
     "2 faults are named '<lambda>'"),
    ("scaled_faults(total, factors=[0.5])", "[lambda a: 1]",
     "is not called as f(dataset, size, rng)"),
    ('name="sum"', 'name="a:b"', "is no name; write a text without a colon"),
    ("import numpy", "import nunpy",
     "audits/totals.py: ModuleNotFoundError: No module named 'nunpy'"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), DEFECTS)
def test_a_piece_that_is_missing_or_wrong_is_named(
    suite: Path, old: str, new: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(suite, _changed(old, new))
    assert _main(suite, "audit", "--quick") == 3
    assert message in capsys.readouterr().err


def test_all_that_is_wrong_is_named_at_once(suite: Path) -> None:
    text = _changed("claim=PureDP(1)", "claim=1").replace("seeded=True, ", "")
    _write(suite, text + "BLACK_BOXES = (BLACK_BOXES, BLACK_BOXES)\n")
    with pytest.raises(SuiteError, match=r"totals: 4 pieces are missing or wrong"):
        load(suite).boxed("totals")
    _write(suite, _BOXES + "BLACK_BOXES = (BLACK_BOXES, BLACK_BOXES)\n")
    with pytest.raises(SuiteError, match="two black boxes under one adjacency have the same name"):
        load(suite).boxed("totals")


def test_a_mechanism_without_its_spec_is_no_black_box(foreign: Path) -> None:
    (foreign / "spec" / "my_count.py").unlink()
    with pytest.raises(SuiteError, match=re.escape("my_count has no spec/my_count.py")):
        load(foreign)


def test_all_files_that_are_broken_are_told_of_at_once(
    suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(suite, "BLACK_BOXES = 3\n", "wrong")
    _write(suite, "NOTHING = 1\n", "empty")
    assert _main(suite, "audit", *_QUICK) == 3
    told = capsys.readouterr().err
    assert "wrong: " in told
    assert "empty: " in told
    assert "totals: " not in told
