"""The ledger: every kind of difference is seen, and named for what it is."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dpverify import ledger
from dpverify.privacy import point_of
from dpverify.suite.refutations import DIGEST, FOUND, OPEN, attack
from dpverify.suite.trees import load

SUITE = load()
RECORDED = ledger.read(ledger.path_of(SUITE))
KEY = "bounded_mean:add-remove:height"
EXHIBIT = "exhibits/count_silent_when_empty"


@cache
def current() -> dict[str, ledger.Entry]:
    """Return what the code promises: every configuration is built, so not while collecting."""
    return ledger.promised(SUITE, {}, RECORDED)


def _kinds(**changes: Any) -> list[str]:
    """Return what is reported when the ledger had these values instead."""
    recorded = {**current(), KEY: {**current()[KEY], **changes}}
    return [difference.kind for difference in ledger.compare(recorded, current())]


def test_the_shipped_ledger_agrees_with_the_code() -> None:
    assert ledger.compare(RECORDED, current()) == []
    assert ledger.unshown(SUITE, RECORDED) == []
    assert len(RECORDED) == len(current()) > 0


def test_what_an_attack_finds_is_what_is_recorded() -> None:
    """Compare: without an attack, an exhibit's bound and pair are the recorded ones; nothing
    else is."""
    name = EXHIBIT.removeprefix("exhibits/")
    only = replace(SUITE, entries={}, boxes={}, exhibits={name: SUITE.exhibits[name]})
    attacked = ledger.promised(only, attack(only), {})[EXHIBIT]
    assert attacked == current()[EXHIBIT]
    assert attacked == {k: v for k, v in RECORDED[EXHIBIT].items() if k not in (DIGEST, OPEN)}
    unknown = ledger.promised(only, {}, {})[EXHIBIT]
    assert unknown == {k: v for k, v in attacked.items() if k not in FOUND}
    forged = {EXHIBIT: dict.fromkeys(RECORDED[EXHIBIT], "something else")}
    differing = ledger.compare(forged, ledger.promised(only, {}, forged))
    assert {one.kind for one in differing} >= {"STATUS", "WHY", "SOURCE", "WITNESS"}
    for word in FOUND:
        other = {EXHIBIT: {**RECORDED[EXHIBIT], word: "something else"}}
        assert ledger.compare(other, ledger.promised(only, {}, other)) == []
        assert EXHIBIT in [one.key for one in ledger.unshown(only, other)]


def test_an_exhibit_that_is_not_refuted_is_never_recorded_as_refuted() -> None:
    name = EXHIBIT.removeprefix("exhibits/")
    weak = replace(SUITE.exhibits[name], pairs=SUITE.exhibits[name].pairs[1:], quick_trials=2000)
    only = replace(SUITE, entries={}, exhibits={name: weak})
    entry = ledger.promised(only, attack(only), RECORDED)[EXHIBIT]
    assert entry["status"] == "not refuted"
    assert "witness" not in entry
    (difference,) = ledger.compare({EXHIBIT: entry}, ledger.promised(only, {}, {EXHIBIT: entry}))[
        :1
    ]
    assert difference.key == EXHIBIT


CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"guarantee": "pure(0.9)"}, ["LOOSENED"]),
    ({"guarantee": "pure(1.1)"}, ["TIGHTENED"]),
    ({"guarantee": "approx(1, 1e-9)"}, ["TIGHTENED"]),
    ({"guarantee": "approx(0.5, 1e-9)"}, ["INCOMPARABLE"]),
    ({"guarantee": "zcdp(0.5)"}, ["TIGHTENED"]),
    ({"guarantee": "zcdp(0.4)"}, ["INCOMPARABLE"]),
    ({"guarantee": "range(2)"}, ["TIGHTENED"]),
    ({"guarantee": "range(1)"}, ["LOOSENED"]),
    ({"guarantee": "gaussian(2)"}, ["TIGHTENED"]),
    ({"guarantee": "profile(2 * pure(0.5))"}, ["LOOSENED"]),
    ({"guarantee": "none at all"}, ["INCOMPARABLE"]),
    ({"noise_multiplier": "0.98"}, ["NOISIER"]),
    ({"noise_multiplier": "0.999"}, ["NOISE"]),
    ({"noise_multiplier": "1.5"}, ["NOISE"]),
    ({"noise_multiplier": "a lot"}, ["NOISE"]),
    ({"status": "conjectured"}, ["STATUS"]),
    ({"lemmas": []}, ["LEMMAS"]),
    ({"parameters": {}}, ["PARAMETERS"]),
    ({"adjacency": "replace"}, ["ADJACENCY"]),
    ({"domain": "integers"}, ["DOMAIN"]),
    ({"source": "hearsay"}, ["SOURCE"]),
    ({"extra": 1}, ["EXTRA"]),
    ({"guarantee": "pure(0.9)", "status": "refuted"}, ["LOOSENED", "STATUS"]),
]


@pytest.mark.parametrize(("changes", "kinds"), CASES)
def test_differences_are_named(changes: dict[str, Any], kinds: list[str]) -> None:
    assert _kinds(**changes) == kinds


def test_new_and_dropped_entries() -> None:
    without = {key: entry for key, entry in current().items() if key != KEY}
    (new,) = ledger.compare(without, current())
    (dropped,) = ledger.compare(current(), without)
    assert (new.kind, new.breaking) == ("NEW", False)
    assert (dropped.kind, dropped.breaking) == ("DROPPED", True)


def test_breaking_is_what_weakens_a_promise() -> None:
    recorded = {**current(), KEY: {**current()[KEY], "guarantee": "pure(0.9)", "source": "x"}}
    breaking = {d.kind: d.breaking for d in ledger.compare(recorded, current())}
    assert breaking == {"LOOSENED": True, "SOURCE": False}
    for changes, expected in (
        ({"status": "conjectured"}, False),  # recorded as conjectured, proved now
        ({"status": "a rumor"}, True),
        ({"domain": "integers"}, True),
        ({"guarantee": "pure(1.1)"}, False),
    ):
        recorded = {**current(), KEY: {**current()[KEY], **changes}}
        assert [d.breaking for d in ledger.compare(recorded, current())] == [expected]


def test_an_exhibit_that_falls_less_deeply_is_breaking() -> None:
    for bound, expected in (("9.9", True), ("0.1", False)):
        recorded = {**current(), EXHIBIT: {**current()[EXHIBIT], "certified_epsilon": bound}}
        (difference,) = ledger.compare(recorded, current())
        assert (difference.kind, difference.breaking) == ("CERTIFIED_EPSILON", expected)


def test_every_exhibit_is_recorded_as_refuted_beyond_what_it_claims() -> None:
    entries = {key: current()[f"exhibits/{key}"] for key in SUITE.exhibits}
    for name, exhibit in SUITE.exhibits.items():
        claimed, _ = point_of(exhibit.claim.conclusion.guarantee)
        assert entries[name]["status"] == "refuted"
        assert entries[name]["refuted_on"] in [pair.name for pair in exhibit.pairs]
        assert float(entries[name]["certified_epsilon"]) > claimed
    assert len(entries) >= 6


def test_an_exhibit_is_recorded_as_refuted_with_its_pair_and_bound() -> None:
    entry = current()[EXHIBIT]
    assert entry["status"] == "refuted"
    assert entry["refuted_on"] == "nobody against somebody"
    assert float(entry["certified_epsilon"]) > 5


def test_round_trip_through_the_file(tmp_path: Path) -> None:
    path = tmp_path / "claims.toml"
    assert ledger.read(path) == {}
    ledger.write(path, current())
    assert ledger.read(path) == current()
    path.write_text("not = toml = at all", encoding="utf-8")
    with pytest.raises(ValueError, match="is not a ledger"):
        ledger.read(path)
    path.write_text('"x" = 3', encoding="utf-8")
    with pytest.raises(ValueError, match="x is not a table"):
        ledger.read(path)
