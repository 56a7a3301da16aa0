"""Bounds where no event promises much: for a sound mechanism, a small epsilon and few draws."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from audits.classical.noisy_max import RNM_1
from dpverify.audit import audit
from dpverify.audit.certificates import Aim
from dpverify.audit.confidence_regions import Counted
from dpverify.audit.outputs.draws import Draws
from dpverify.audit.outputs.encoding import encode
from dpverify.audit.studies import Before, Place, Shot, Study, places_of, speaks_against
from dpverify.audit.witnesses.choosing import Witness, ranked
from dpverify.audit.witnesses.directions import evident_steps
from dpverify.audit.witnesses.features import Candidate, number
from dpverify.audit.witnesses.learned import Effort, candidates
from dpverify.audit.witnesses.promises import Task, above_claimed
from tests.audit.learning import advantage


def test_an_event_that_may_show_something_comes_before_one_that_never_does() -> None:
    """Rank events of 20,000 draws a side: all of both; 19.5% against 18%, 4 standard errors
    apart; 0.1% against 0.08%, less than 1."""
    task = Task([(0.1, 0.0)], 1e-6, 75_000)
    hits, others = np.array([20_000, 3900, 20]), np.array([20_000, 3600, 16])
    (promised,) = above_claimed(hits, 20_000, others, 20_000, task)
    assert int(np.argmax(promised)) == 1
    assert promised[1] < -0.1  # a bound above 0 is not promised: it would take 5 standard errors
    assert promised[0] < promised[1]


def test_a_common_event_comes_before_rare_ones_that_differ_by_chance() -> None:
    """Rank events of 16,666 draws a side: .36% against .20%, as some of hundreds of rare events
    are by chance, 3 standard errors apart, and 52.8% against 51%, 3.3 standard errors. Before,
    the rare ones came first, by a bound far above the claim."""
    task = Task([(0.1, 0.0)], 0.045, 77_000)
    hits, others = np.array([60, 45, 8800]), np.array([33, 20, 8500])
    (promised,) = above_claimed(hits, 16_666, others, 16_666, task)
    assert int(np.argmax(promised)) == 2
    assert max(promised[:2]) < promised[2] - 0.001


def test_of_events_that_promise_nothing_the_one_that_is_expected_to_show_more_comes_first() -> None:
    """Rank 58.4% against 56.9%, which is expected to show .006, and 6.3% against 5.5%, .029.
    Before, they were as good as each other, and the commoner came first."""
    task = Task([(0.1, 0.0)], 0.045, 77_000)
    (promised,) = above_claimed(np.array([9733, 1046]), 16_666, np.array([9476, 923]), 16_666, task)
    assert promised[1] > promised[0] > -0.1
    assert promised[1] < -0.0995  # neither promises a bound


def _shares(*numbers: int, size: int = 40_000) -> Draws:
    """Draws of numbers that are 1 so many times, in a column each, and else 0."""
    return encode(np.stack([np.arange(size) < n for n in numbers], axis=1).astype(np.float64))


def test_a_look_for_what_may_refute_keeps_the_largest_bound() -> None:
    """Choose what is most suspicious, 420 against 300 of 40,000, and second 21,400 against 20,000,
    which show a bound of .04; not 410 against 300, which may refute as well."""
    pool = [
        Candidate(f"number {j} >= {{threshold}}", number(j), True, fitted=False) for j in range(3)
    ]
    sides = [_shares(420, 410, 21_400)], [_shares(300, 300, 20_000)]
    task = Task([(0.1, 0.0)], 0.045, 77_000, refute=True)
    options, _ = ranked(*sides, pool, task, None, 2)
    assert [str(one) for one in options.witnesses] == ["number 0 >= 1", "number 2 >= 1"]


def test_an_event_that_may_refute_and_shows_the_largest_bound_comes_first_and_last() -> None:
    """21,400 against 19,300 of 40,000 may refute most, and shows most; 2300 against 2050 may refute
    as well, and is not the last one, whose place a suspicious event leaves."""
    pool = [Candidate(f"number {j}", number(j), True, fitted=False) for j in range(2)]
    sides = [_shares(21_400, 2300)], [_shares(19_300, 2050)]
    task = Task([(0.1, 0.0)], 0.045, 77_000, refute=True)
    options, _ = ranked(*sides, pool, task, None, 2)
    assert [one.candidate.description for one in options.witnesses] == [
        "number 0", "number 1", "number 0",
    ]  # fmt: skip
    options, _ = ranked(*sides, pool[:1], task, None, 2)
    assert [one.candidate.description for one in options.witnesses] == ["number 0"]


LOOKED = {
    "alike": (Place(0.8, True), Place(0.2, True)),
    "suspicious": (Place(0.5, False), Place(0.5, True)),
    "unsettled": (Place(0.9, True), Place(0.1, False)),
    "unsettled, against": (Place(0.9, True), Place(0.1, True)),
    "settled": (Place(1.0, True),),
    "single calls": None,  # no draw of a look certifies
}


FOR_REFUTATIONS = "alike", "suspicious", "single calls"
AIM = Aim((0.1, 0.0), 32.0)


def study_of(look: str, events: list[str], root: float | None, weight: float = 0.1) -> Study:
    """Return a study after a look, of these events of one direction, the last of which shows most;
    and of a suspicious one at so many standard errors."""
    known = {
        name: Witness(Candidate(name, number(0), True), 1, float(at), AIM, root or 0.0)
        for at, name in enumerate(("suspect", "refuting", "bound", "other"))
    }
    first, *besides = [known[name] for name in events]
    nothing, counted, places = cast(Any, None), Counted(30, 100, 20, 100), LOOKED[look]
    counts = cast(Any, SimpleNamespace(counted=lambda *_: counted))
    hopes, both = ((0.0, 0.0, 0.0),) * 2, (known["bound"],) * 2
    begun = look in FOR_REFUTATIONS
    before = places and Before(begun, hopes, (places,) * 2, both, 100, (weight,) * 2, counts)
    return Study(
        0, nothing, (first, first), (tuple(besides),) * 2, ((), ()), 1000, nothing,
        suspects=(None if root is None else known["suspect"], None), before=before or None,
    )  # fmt: skip


def names_of(shots: list[Shot]) -> list[str]:
    """Name the events, with a star where the draws of the look count."""
    return [f"{shot.witness}{'*' * (shot.earlier is not None)}" for shot in shots]


@pytest.mark.parametrize(
    ("root", "look", "names", "parts"),
    [
        (3.0, "alike", ["suspect*", "bound*"], [0.8, 0.2]),
        (2.0, "alike", ["refuting*", "bound*"], [0.8, 0.2]),
        (3.0, "suspicious", ["suspect", "bound*"], [0.5, 0.5]),
        (2.0, "suspicious", ["refuting", "bound*"], [0.5, 0.5]),
        (3.0, "unsettled", ["bound*", "suspect"], [0.9, 0.1]),
        (3.0, "unsettled, against", ["bound*", "suspect*"], [0.9, 0.1]),
        (3.0, "settled", ["bound*"], [1.0]),
        (3.0, "single calls", ["suspect", "bound"], [0.5, 0.5]),
        (3.5, "single calls", ["suspect", "bound"], [0.8, 0.2]),
        (2.0, "single calls", ["refuting", "bound", "suspect"], [0.792, 0.198, 0.01]),
    ],
)
def test_a_suspicious_event_takes_the_place_of_what_may_refute(
    root: float, look: str, names: list[str], parts: list[float]
) -> None:
    """Certify the event of the largest bound beside it, with the rest of alpha; a star: the draws
    of the look count."""
    events = ["refuting", "bound"] if look in FOR_REFUTATIONS else ["bound"]
    shots = study_of(look, events, root).shots(0, 0.05)
    assert names_of(shots) == names
    assert [shot.alpha / 0.05 for shot in shots] == pytest.approx(parts)


@pytest.mark.parametrize(
    ("look", "events", "expected"),
    [
        ("suspicious", ["bound", "other", "bound"], ["other", "bound*"]),
        ("suspicious", ["bound"], ["bound", "bound*"]),
        ("alike", ["bound", "other", "bound"], ["bound*", "other*"]),
        ("alike", ["bound"], ["bound*"]),
        ("unsettled", ["bound"], ["bound*"]),
    ],
)
def test_the_event_of_the_largest_bound_has_the_place_that_counts_the_look(
    look: str, events: list[str], expected: list[str]
) -> None:
    """Put another event into the other place where this one may also refute most; one without
    another has both, or leaves a part of alpha."""
    assert names_of(study_of(look, events, None).shots(0, 0.05)) == expected


@pytest.mark.parametrize("look", ["suspicious", "alike", "unsettled"])
def test_where_no_draw_of_a_look_counts_one_event_has_all_of_alpha(look: str) -> None:
    """Two events keep their places; one event in two places would be the same test twice."""
    (shot,) = study_of(look, ["bound"], None, weight=0.0).shots(0, 0.05)
    assert (str(shot.witness), shot.alpha, shot.earlier) == ("bound", 0.05, None)
    two = study_of(look, ["refuting", "bound"], None, weight=0.0).shots(0, 0.05)
    shares = [place.share for place in LOOKED[look] or ()]
    assert [shot.alpha / 0.05 for shot in two] == pytest.approx(shares)


def test_an_event_speaks_against_a_claim_by_what_was_seen() -> None:
    """460 of 40,000 draws against 400 are .7 standard errors above the claim .1, 500 are 2; the
    median of numbers whose odds are small speaks for the claim."""
    event = Witness(Candidate("number 0", number(0), True, fitted=False), 1, 1.0, AIM, 0.0)
    for hits, others, speaks in ((460, 400, False), (500, 400, True), (20_600, 20_000, False)):
        draws = [_shares(hits), _shares(others)]
        assert speaks_against(event, draws, 0, (0.1, 0.0)) is speaks
        assert not speaks_against(event, draws, 1, (0.1, 0.0))


@pytest.mark.parametrize(
    ("suspicious", "uncertain", "against", "look"),
    [
        (True, True, True, "alike"), (True, True, False, "suspicious"),
        (False, True, False, "unsettled"), (False, True, True, "unsettled, against"),
        (False, False, True, "settled"),
    ],
)  # fmt: skip
def test_places_follow_from_what_was_seen_before(
    suspicious: bool, uncertain: bool, against: bool, look: str
) -> None:
    assert places_of(suspicious, uncertain, against) == LOOKED[look]


def test_a_noisy_max_shows_a_part_of_its_epsilon_at_a_small_alpha() -> None:
    """Certify a part of the true .1; before, the event that always happens was certified in two
    of three runs. A bound above the truth has probability 1e-6 at most."""
    for seed in range(3):
        result = audit(
            RNM_1.subject(seed), claim=RNM_1.claim, pairs=RNM_1.pairs[:1], trials=100_000,
            alpha=1e-6, seed=seed, vectorized=True,
        )  # fmt: skip
        assert 0.005 < result.epsilon <= 0.1


def _sums(rng: np.random.Generator, side: int, size: int) -> Any:
    """Running sums of ten numbers with Laplace noise, the fifth of which is larger on the left."""
    noise = np.rint(rng.laplace(size=(size, 10)) * 1024) / 1024
    noise[:, 4] += 0.15 * (side == 0)
    return np.cumsum(noise, axis=1)


def test_the_step_of_a_running_sum_is_told_from_the_noise_of_the_others() -> None:
    """Learn the step by an advantage (the largest difference of two frequencies) of about .066
    at best; whitened means have .05. Of 100,000 fresh draws a side one is wrong by .006 with
    probability below 1e-3."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        own, other, fresh, other_fresh = (
            encode(_sums(rng, side, size)) for size in (4000, 100_000) for side in (0, 1)
        )
        pool = candidates(own, other, law_known=False, difference=None, seed=0, effort=Effort.QUICK)
        told = {
            one.description.partition(" >=")[0]: advantage(one.score(fresh), one.score(other_fresh))
            for one in pool
            if one.description.startswith("projection")
        }
        best = told.pop("projection on the evident steps")
        assert best > 0.06
        assert best > max(told.values()) + 0.006


def test_steps_that_do_not_differ_are_no_candidate() -> None:
    rng = np.random.default_rng(0)
    sides = [encode(rng.normal(size=(2000, 10))) for _ in (0, 1)]
    assert evident_steps(sides[0].numbers, sides[0].numbers) is None
    own, other = (np.full((5, 3), value) for value in (np.inf, -np.inf))
    score = evident_steps(own, other)
    assert score is None or np.isfinite(score(encode(own))).all()
