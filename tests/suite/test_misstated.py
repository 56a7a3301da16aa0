"""Lemmas against their obligations: what is shown is accepted, and what is more than that is
refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpverify.cli import main
from dpverify.privacy import Adjacency, Domain, Friendly, Norm, Seen
from dpverify.privacy.adjacency import Groups
from dpverify.privacy.derivation import RULES_KEY, AnyDerivation, Sensitivity
from dpverify.privacy.hypotheses import Absent, Compared, Passed, Quantity, Relation, Side
from dpverify.privacy.statements import shown_by, why_not_shown
from dpverify.suite.misstated import misstated, why_not
from dpverify.suite.trees import load

from . import lemmas

ROOT = Path(__file__).parents[2]
SUITE = load()
LEMMAS = {f"{n} {made.conclusion.query.kind}": made for n, made in enumerate(lemmas.lemmas())}
FREE = {"Agreement": {"predicate", "shift"}, "SoftAgreement": {"predicate", "shift"}}
FREE["KeptCount"] = {"predicate", "shift"}
FREE["Count"] = {"within"}
FREE["BinCounts"] = {"axes"}
FREE["PairRungs"] = {"predicate"}
"""Parameters on which what is shown does not depend."""
REPLACED = {"Answers", "QuartileBins", "SmoothMedians", "SoftAgreement", "SoftMean"}
every_lemma = pytest.mark.parametrize("lemma", LEMMAS.values(), ids=LEMMAS)


def refused(lemma: AnyDerivation, **changes: Any) -> str | None:
    """Why a lemma that says something else is not shown by the same obligation."""
    said: Any = replace(lemma.conclusion, key=RULES_KEY, **changes)
    premises = [premise.conclusion for premise in lemma.premises]
    return why_not_shown(said, SUITE.obligation(lemma.obligation), premises)


def of(kind: str, near: object = None, **parameters: Any) -> Any:
    """Return the first lemma of this kind, adjacency and parameters."""
    for lemma in LEMMAS.values():
        said: Any = lemma.conclusion
        alike = said.query.kind == kind and near in (None, said.adjacency)
        if alike and {*parameters.items()} <= {*said.query.parameters}:
            return lemma
    raise LookupError(kind)


# --- what is shown ------------------------------------------------------------------------------


def test_every_lemma_of_every_shipped_configuration_is_shown() -> None:
    named = {
        node.obligation
        for configuration in SUITE.configurations.values()
        for node in configuration.mechanism.derivation.nodes()
        if node.obligation
    }
    assert len(named) >= 30
    assert [reason for key in SUITE.configurations for reason in misstated(SUITE, key)] == []
    assert named < {lemma.obligation for lemma in LEMMAS.values()}


@every_lemma
def test_every_lemma_of_every_query_is_shown(lemma: AnyDerivation) -> None:
    assert why_not(lemma, SUITE.obligation(lemma.obligation)) is None


# --- and what is more than that -------------------------------------------------------------------


@every_lemma
def test_a_lesser_number_is_refused(lemma: AnyDerivation) -> None:
    said: Any = lemma.conclusion
    if said.norm not in (Norm.SMOOTH, Norm.KEEP):
        assert "is shown" in str(refused(lemma, value=said.value - 1))
    assert "is shown" in str(refused(lemma, value=said.value - Fraction(1, 10**9)))
    assert refused(lemma, value=said.value + 1) is None


@every_lemma
def test_another_norm_kind_or_adjacency_is_refused(lemma: AnyDerivation) -> None:
    said: Any = lemma.conclusion
    shown = [s for s in shown_by(SUITE.obligation(lemma.obligation)) if s.kind == said.query.kind]
    for norm in {*Norm} - {norm for one in shown for norm in one.norms}:
        assert "distance, which is not" in str(refused(lemma, norm=norm))
    other = Quantity(said.query.words, "Nothing", said.query.parameters)
    assert "it is about 'Nothing'" in str(refused(lemma, query=other))
    friends = isinstance(said.adjacency, Friendly)
    wrong = (*Adjacency,) if friends else (lemmas.FRIENDS,)
    for near in (*wrong, Groups(Adjacency.REPLACE, 2)):
        assert "nothing is shown under" in str(refused(lemma, adjacency=near))
    if said.query.kind in REPLACED:
        assert "nothing is shown under" in str(refused(lemma, adjacency=Adjacency.ADD_REMOVE))


@every_lemma
def test_a_missing_parameter_or_hypothesis_is_refused(lemma: AnyDerivation) -> None:
    said: Any = lemma.conclusion
    for name, _ in said.query.parameters:
        reason = refused(lemma, query=said.query.without(name))
        free = name in FREE.get(said.query.kind, set())
        assert reason is None if free else f"no parameter '{name}'" in str(reason)
    for one in said.hypotheses:
        assert "does not assume" in str(refused(lemma, hypotheses=said.hypotheses - {one}))


@pytest.mark.parametrize(
    ("kind", "near"),
    [("Stacked", None), ("WithCount", None), ("OneUnit", None), ("OfImages", None)],
)
def test_numbers_that_no_premise_says_are_refused(kind: str, near: object) -> None:
    lemma = of(kind, near)
    shown = SUITE.obligation(lemma.obligation)
    premises = [premise.conclusion for premise in lemma.premises]
    larger = [replace(p, value=p.value + 1, key=RULES_KEY) for p in premises]
    others = [replace(p, norm=Norm.L_INFINITY, key=RULES_KEY) for p in premises]
    for false in ([], larger, others):
        assert "premise" in str(why_not_shown(lemma.conclusion, shown, false))


def test_only_counts_move_one_way_and_only_under_add_remove() -> None:
    sums = of("Stacked", Adjacency.ADD_REMOVE, counts=False)
    counts = of("Stacked", Adjacency.REPLACE, counts=True)
    for lemma in (sums, counts):
        assert "nothing is shown" in str(refused(lemma, norm=Norm.ONE_WAY))
    words = sums.conclusion.query
    said = Quantity.of(words.words, "Stacked", moved=words["moved"], counts=True)
    assert "needs" in str(refused(sums, norm=Norm.ONE_WAY, query=said))


def _hypotheses(lemma: AnyDerivation, **changes: Any) -> Any:
    """Return the lemma's hypotheses, with another one in place of the comparison."""
    said: Any = lemma.conclusion
    return frozenset(
        replace(one, **changes) if isinstance(one, Compared) else one for one in said.hypotheses
    )


@pytest.mark.parametrize(
    ("kind", "near"),
    [
        ("WeightedMean", Adjacency.ADD_REMOVE),
        ("WeightedMean", Adjacency.REPLACE),
        ("SoftMean", Adjacency.REPLACE),
        ("KeptMean", lemmas.FRIENDS),
        ("KeptMean", lemmas.EXCHANGED),
        ("Scores", Adjacency.ADD_REMOVE),
        ("Scores", Adjacency.REPLACE),
    ],
)
def test_a_weaker_comparison_is_refused(kind: str, near: object) -> None:
    lemma = of(kind, near)
    (one,) = (h for h in lemma.conclusion.hypotheses if isinstance(h, Compared))
    below = one.relation is Relation.AT_MOST
    weaker: list[dict[str, Any]] = [
        {"slack": one.slack - 1 if below else one.slack + 1},
        {"side": Side.SMALLER if one.side is Side.LARGER else Side.LARGER},
        {"relation": Relation.AT_LEAST if below else Relation.AT_MOST},
        {"quantity": Quantity(one.quantity.words, "Another", one.quantity.parameters)},
    ]
    for name, value in one.quantity.parameters:
        other = {**dict(one.quantity.parameters), name: not value}
        weaker.append({"quantity": Quantity.of("others", one.quantity.kind, **other)})
        weaker.append({"quantity": one.quantity.without(name)})
    if one.value is None:
        weaker += [{"stage": "another"}, {"value": 3}]
    elif kind == "Scores":
        weaker += [{"value": one.value + 1}, {"value": None}]
    else:
        weaker += [{"value": 0}, {"value": None}]
    for changes in weaker:
        reason = refused(lemma, hypotheses=_hypotheses(lemma, **changes))
        assert "does not assume" in str(reason), changes
    stronger = {"slack": one.slack + 1 if below else one.slack - 1}
    assert refused(lemma, hypotheses=_hypotheses(lemma, **stronger)) is None


def test_a_gate_must_ask_for_as_much_of_the_same_stage() -> None:
    lemma = of("WeightedMean", Adjacency.REPLACE)
    rest = {one for one in lemma.conclusion.hypotheses if not isinstance(one, Passed)}
    for gate, refuses in ((Passed("agreement", 0), True), (Passed("rows", 1), True)):
        assert bool(refused(lemma, hypotheses=frozenset({*rest, gate}))) is refuses
    assert refused(lemma, hypotheses=frozenset({*rest, Passed("agreement", 2)})) is None


def test_a_number_of_rows_may_be_bounded_by_the_domain() -> None:
    lemma = of("Scores", Adjacency.ADD_REMOVE, inside=False)
    for most, refuses in ((100, False), (99, False), (101, True), (None, True)):
        near = Domain(columns=1, most_rows=most)
        assert bool(refused(lemma, hypotheses=frozenset(), domain=near)) is refuses


def test_an_event_of_another_kind_is_none_that_is_assumed() -> None:
    lemma = of("Scores", Adjacency.REPLACE, inside=True)
    rest = {one for one in lemma.conclusion.hypotheses if not isinstance(one, Absent)}
    for seen in (Seen.OUTPUT, Seen.COINS):
        (one,) = {*lemma.conclusion.hypotheses} - rest
        said = frozenset({*rest, replace(one, seen=seen)})
        assert "AssumedAbsent" in str(refused(lemma, hypotheses=said))


@pytest.mark.parametrize("share", [(3, 5), (1, 1), (0, 2), (-1, 2)])
@pytest.mark.parametrize("kind", ["Scores", "FewFriends"])
def test_nothing_is_shown_of_scores_for_more_than_half(kind: str, share: tuple[int, int]) -> None:
    lemma = of(kind, Adjacency.ADD_REMOVE)
    parameters = {**dict(lemma.conclusion.query.parameters), "p": share[0], "q": share[1]}
    said = Quantity.of("scores", kind, **parameters)
    assert "nothing is shown" in str(refused(lemma, query=said, value=Fraction(10**9)))


def test_nothing_is_shown_of_a_core_from_half_on() -> None:
    for kind in ("SoftAgreement", "SoftMean"):
        lemma = of(kind)
        for full in (Fraction(1, 2), Fraction(11, 10)):
            parameters = {**dict(lemma.conclusion.query.parameters), "full": full}
            said = Quantity.of("a core", kind, **parameters)
            assert "nothing is shown" in str(refused(lemma, query=said, value=Fraction(10**40)))


def test_a_mean_in_units_of_a_lesser_reach_is_refused() -> None:
    replaced = of("WeightedMean", Adjacency.REPLACE)
    of_a_removal = of("WeightedMean", Adjacency.ADD_REMOVE).conclusion.query
    for lemma in (replaced, of("SoftMean")):
        parameters = dict(lemma.conclusion.query.parameters)
        reach = parameters["reach"] - Fraction(1, 1000)
        said = Quantity.of("a mean", lemma.conclusion.query.kind, **{**parameters, "reach": reach})
        assert "nothing is shown" in str(refused(lemma, query=said))
    assert "nothing is shown" in str(refused(replaced, query=of_a_removal))


# --- which friends are kept -----------------------------------------------------------------------

_P, _OTHER = lemmas.FRIENDS.predicate, "distance at most 1"


@pytest.mark.parametrize(
    ("kind", "near", "too_much", "fine"),
    [
        (
            "KeepProbabilities",
            Adjacency.REPLACE,
            [Friendly(_P, 100), Friendly(_P, 5, exchange=True)],
            [Friendly(_P), Friendly(_OTHER), Friendly(_P, exchange=True)],
        ),
        (
            "Scores",
            Adjacency.ADD_REMOVE,
            [Friendly(_P, 38), Friendly(_P, 0), Friendly(_P, 38, exchange=True)],
            [Friendly(_P, 39), Friendly(_P, 40), Friendly(_P), Friendly(_P, exchange=True)],
        ),
        ("Scores", Adjacency.REPLACE, [Friendly(_P), Friendly(_P, 39)], [lemmas.EXCHANGED]),
        ("FewFriends", Adjacency.ADD_REMOVE, [Friendly(_P, 39)], [Friendly(_P)]),
        ("FewFriends", Adjacency.REPLACE, [Friendly(_P)], [lemmas.EXCHANGED]),
        ("Count", Adjacency.REPLACE, [Friendly(_P), lemmas.EXCHANGED], []),
    ],
)
def test_other_friends_than_those_that_are_kept_are_refused(
    kind: str, near: Adjacency, too_much: list[Friendly], fine: list[Friendly]
) -> None:
    lemma = of(kind, near)
    for kept in too_much:
        assert "are kept" in str(refused(lemma, keeps=kept)), kept
    for kept in fine:
        assert refused(lemma, keeps=kept) is None, kept


def test_scores_of_a_record_outside_say_nothing_of_what_is_kept() -> None:
    lemma = of("Scores", Adjacency.ADD_REMOVE, inside=False)
    assert "are kept" in str(refused(lemma, keeps=Friendly(_P)))


def test_a_mean_of_records_that_are_friends_by_another_predicate_is_refused() -> None:
    lemma = of("KeptMean", lemmas.FRIENDS)
    for near in (Friendly(_OTHER), Friendly(_P, exchange=True)):
        assert "nothing is shown" in str(refused(lemma, adjacency=near))
    assert refused(lemma, adjacency=Friendly(_P, 2)) is None


# --- what prove says of it ------------------------------------------------------------------------


def test_an_obligation_that_declares_nothing_shows_nothing() -> None:
    reason = why_not(of("Count"), lambda: 1)
    assert reason == "the obligation declares no statement: write @shows(...)"


@pytest.fixture
def counted(tmp_path: Path) -> Path:
    """Return a suite with a count of its own, and the theory that it rests on."""
    for tree in ("mechanisms", "spec", "audits"):
        (tmp_path / tree).mkdir()
        source = (ROOT / "dpverify" if tree == "mechanisms" else ROOT) / tree / "noisy_count.py"
        text = source.read_text(encoding="utf-8").replace("NoisyCount", "OurCount")
        own = (
            "from dpverify import Adjacency, GaussianDP, PureDP\n\nfrom "
            "..mechanisms.our_count import OurCount"
        )
        text = text.replace("from dpverify import Adjacency, GaussianDP, OurCount, PureDP", own)
        (tmp_path / tree / "our_count.py").write_text(text, encoding="utf-8")
    (tmp_path / "spec" / "theory").mkdir()
    for stem in (
        "__init__",
        "caches",
        "gaussian_laws",
        "laws",
        "lower_bounds",
        "obligations",
        "profiles",
        "queries",
    ):
        shutil.copy(ROOT / "spec" / "theory" / f"{stem}.py", tmp_path / "spec" / "theory")
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "status", "said"),
    [
        ("", "", 0, "HOLDS"),
        ('    "Count",\n', '    "ClampedSum",\n', 3, "it is about 'Count'"),
        (
            '    "Count",\n    Norm.L1,',
            '    "Count",\n    Norm.HAMMING,',
            3,
            "it is in L1 distance",
        ),
        ('@shows(\n    "Count"', '@(lambda *a, **k: lambda f: f)(\n    "Count"', 3, "write @shows"),
    ],
    ids=["as it is", "another kind", "another norm", "none"],
)
def test_a_lemma_whose_obligation_shows_something_else_makes_the_run_invalid(
    counted: Path,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    status: int,
    said: str,
) -> None:
    file = counted / "spec" / "theory" / "queries.py"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    assert main(["prove", "our_count", "--suite", str(counted), "--workers", "1"]) == status
    shown = " ".join(capsys.readouterr().out.split())
    assert said in shown
    assert ("a lemma says something else" in shown) is (status == 3)


def test_sensitivities_alone_are_declared() -> None:
    lemma: Any = of("Count")
    assert isinstance(lemma.conclusion, Sensitivity)
    assert "only sensitivities" in str(why_not_shown("a claim", SUITE.obligation(lemma.obligation)))
