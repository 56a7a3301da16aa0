"""Forging by accident: what a claim rests on is made once, by the rules, and by this build."""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import pickle
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import dpverify
from dpverify.privacy import (
    Adjacency,
    ApproxDP,
    ApproximateGaussianDP,
    BoundedRange,
    Derivation,
    DiscreteLaplaceShift,
    GaussianDP,
    Guarantee,
    Lifted,
    Norm,
    PrivacyClaim,
    Profile,
    PureDP,
    Sensitivity,
    SmoothLaplace,
    Source,
    Status,
    TableDomain,
    ZeroConcentratedDP,
    rules,
)
from dpverify.privacy.build import build
from dpverify.privacy.derivation import EventBound

from .makers import COLUMN, NEAR, conjectured, lemma, proved
from .noise_laws import OVERFLOW, assuming, event

_ADD, _REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE


# --- forging by accident --------------------------------------------------------------------------

GUARANTEES: list[Guarantee] = [
    PureDP(1),
    ApproxDP(1, "1e-6"),
    ZeroConcentratedDP(1),
    GaussianDP(1),
    ApproximateGaussianDP(1, "1e-6"),
    BoundedRange(1),
    DiscreteLaplaceShift(2, 1),
    SmoothLaplace("1/2", "10/9"),
    Profile([PureDP(1), GaussianDP(1)]),
    Lifted(GaussianDP(1), Fraction(2)),
    ZeroConcentratedDP(1).for_group(2),
    GaussianDP(1).for_group(2),
    ApproximateGaussianDP(1, "0.1").for_group(2),
]


def test_every_guarantee_is_tried() -> None:
    def below(cls: type) -> set[type]:
        classes: list[type] = type.__subclasses__(cls)
        return {cls, *(deeper for one in classes for deeper in below(one))}

    kernel = {one for one in below(Guarantee) if one.__module__.startswith("dpverify.")}
    made = {one.__name__ for one in kernel if "__init__" in one.__dict__}
    tried = {type(one).__name__ for one in GUARANTEES}
    assert made - tried <= {"PerfectPrivacy", "Guarantee"}  # these have no numbers to change


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_a_second_init_changes_no_guarantee(guarantee: Guarantee) -> None:
    before, claim = str(guarantee), conjectured(guarantee)
    shown = str(claim)
    again: Any = guarantee
    for given in ((), ("1/1000",), ("1/1000", "1/1000")):
        with pytest.raises(TypeError):
            again.__init__(*given)
    with pytest.raises(TypeError, match="is made already"):
        again.__init__(PureDP("1e-9"), "1e-9")
    if hasattr(again, "__setstate__"):
        with pytest.raises(TypeError, match="is made already"):
            again.__setstate__([Fraction(1, 1000)] * 3)
    assert pickle.loads(pickle.dumps(guarantee)) == guarantee
    assert (str(guarantee), str(claim)) == (before, shown)


@pytest.mark.parametrize(
    "made",
    [proved(), proved().conclusion, lemma().conclusion, event("0.1").conclusion, COLUMN,
     NEAR, OVERFLOW, lemma().conclusion.query],
    ids=lambda made: type(made).__name__,
)  # fmt: skip
def test_a_second_init_changes_nothing_that_a_claim_rests_on(made: Any) -> None:
    before = repr(made)
    values = [getattr(made, field.name) for field in dataclasses.fields(made)]
    changed = [None] * len(values)
    for given in (values, changed):
        with pytest.raises(TypeError, match="is made already"):
            made.__init__(*given)
        with pytest.raises(TypeError, match=r"is made already|by nothing else"):
            made.__setstate__(list(given))
    assert repr(made) == before
    assert pickle.loads(pickle.dumps(made)) == made


def test_claims_are_copied_and_pickled_within_a_build() -> None:
    for made in (proved(), lemma(), proved(1, delta="1e-6").conclusion, event("0.1")):
        for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made), copy.copy(made)):
            assert again == made
            assert str(again) == str(made)
    rules.compose(pickle.loads(pickle.dumps(proved())), proved())


def test_a_claim_of_another_build_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = pickle.dumps(proved())
    monkeypatch.setattr("dpverify.privacy.derivation.build", lambda: "another")
    with pytest.raises(ValueError, match="was made by another build of dpverify"):
        pickle.loads(kept)


def test_a_build_is_the_digest_of_the_trusted_core(tmp_path: Path) -> None:
    core = Path(dpverify.__file__).parent
    shutil.copytree(core, tmp_path / "dpverify", ignore=shutil.ignore_patterns("__pycache__"))
    module = tmp_path / "dpverify" / "privacy" / "build.py"

    def digest() -> str:
        spec = importlib.util.spec_from_file_location("other_build", module)
        assert spec is not None
        assert spec.loader is not None
        other_build = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(other_build)
        return str(other_build.build())

    assert digest() == build()
    (tmp_path / "dpverify" / "report" / "terminal.py").write_text("changed = True")
    assert digest() == build()
    changed = tmp_path / "dpverify" / "grid" / "queries.py"
    changed.write_text(changed.read_text() + "\n")
    assert digest() != build()


@pytest.mark.parametrize(
    "made", [Sensitivity, EventBound, PrivacyClaim, Derivation], ids=lambda made: made.__name__
)
def test_what_the_rules_make_has_no_subclasses(made: type) -> None:
    with pytest.raises(TypeError, match="would look like what the rules have made"):
        type("Mine", (made,), {})


@dataclasses.dataclass(frozen=True)
class LookAlike:
    """Everything that a derivation has, but nobody derived it."""

    conclusion: Any
    rule: str = "lemma"
    premises: tuple[Any, ...] = ()
    source: Source = dataclasses.field(default_factory=lambda: Source("OURS", "x"))
    status: Status = Status.PROVED
    obligation: str = ""


@dataclasses.dataclass(frozen=True)
class ClaimAlike:
    guarantee: Any = dataclasses.field(default_factory=lambda: PureDP("1e-9"))
    adjacency: Any = _ADD
    domain: Any = COLUMN
    status: Status = Status.PROVED
    hypotheses: frozenset[Any] = frozenset()


LIFTABLE = conjectured(PureDP(1), adjacency=NEAR)
TABLE = TableDomain("people", (("age", "a number"),))
FORGED: dict[str, Any] = {
    "compose": lambda d: rules.compose(d, proved()),
    "compose one": lambda d: rules.compose(d),
    "advanced": lambda d: rules.advanced_compose([d, proved()], slack="1e-6"),
    "parallel": lambda d: rules.parallel([d, d], by="value"),
    "convert": lambda d: rules.convert(d, PureDP(2)),
    "post-process": lambda d: rules.post_process(d, "rounding"),
    "group": lambda d: rules.group_privacy(d, 2),
    "adjacency": lambda d: rules.change_adjacency(d, _REPLACE),
    "each record": lambda d: rules.of_each_record(d, domain=TABLE, by="a function"),
    "kept records": lambda d: rules.of_kept_records(
        d, domain=TABLE, adjacency=_REPLACE, by="a function"
    ),
    "assume": lambda d: rules.assume(d, OVERFLOW),
    "refuted": lambda d: rules.refuted(d, "a pair"),
}


@pytest.mark.parametrize("name", FORGED)
def test_look_alikes_of_claims_are_refused(name: str) -> None:
    rule = FORGED[name]
    rule(conjectured())
    real = conjectured().conclusion
    for forged in (LookAlike(real), LookAlike(ClaimAlike())):
        with pytest.raises(TypeError, match=r"is not (a|the) derivation"):
            rule(forged)


def fake(made: Any) -> Any:
    return LookAlike(made.conclusion)


def test_look_alikes_of_premises_are_refused() -> None:
    stable = lemma(2, norm=Norm.KEEP)
    refused: list[Callable[[], Any]] = [
        lambda: rules.public_value(fake(lemma(0))),
        lambda: rules.discrete_laplace(fake(lemma()), 1),
        lambda: rules.rounded_gaussian(fake(lemma()), 1),
        lambda: rules.friendly_lift(LIFTABLE, fake(stable)),
        lambda: rules.friendly_lift(fake(LIFTABLE), stable),
        lambda: rules.add_delta_event(assuming(PureDP(1)), fake(event("0.1"))),
    ]
    for rule in refused:
        with pytest.raises(TypeError, match=r"is not (a|the) derivation"):
            rule()
