"""The second look of an attack: taken where the first promises nothing, on draws that are never
tested."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpverify.audit import replaced, scouting
from dpverify.audit.attack import FixedAttack
from dpverify.audit.outputs.laws import encode
from dpverify.audit.scouting import study_sizes
from dpverify.audit.subjects import target_of
from dpverify.audit.witnesses.choosing import choose
from dpverify.audit.witnesses.features import Candidate, number
from dpverify.audit.witnesses.promises import Task
from dpverify.privacy import PureDP

TRIALS = 6000
PAIR = replaced("one moves", [0.0], 1.0)


def response(odds: float, seed: int, sizes: list[int]) -> Any:
    """Randomized response with these odds; ``sizes`` gets the size of every call."""
    rng = np.random.default_rng(seed)

    def function(data: Any, size: int) -> Any:
        sizes.append(size)
        lies = rng.random(size) < 1 / (1 + odds)
        return np.where(lies, 1.0 - data[0], data[0])

    return function


def peaks(seed: int) -> Any:
    """Ten values; of the last four two are a little likelier, which two the record says."""
    rng = np.random.default_rng(seed)

    def function(data: Any, size: int) -> Any:
        moved = np.array([0.004, 0.004, -0.004, -0.004]) * (1 if data[0] else -1)
        return rng.choice(np.arange(10.0), size, p=np.append([0.1] * 6, 0.1 + moved))

    return function


def certified(odds: float, seed: int, sizes: list[int], alpha: float) -> tuple[bool, int]:
    """Return whether epsilon = 1 was refuted, and with how many draws a side."""
    fixed = FixedAttack(PureDP(1), [PAIR], TRIALS, alpha, seed)
    target = target_of(response(odds, seed, sizes), True)
    study = fixed.study(target, 0, 0)
    certificates = fixed.certify(0, study, fixed.shots([study])[0])
    return any(one.refuted for one in certificates), study.draws


def test_only_a_doubtful_first_look_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact: every draw is of one use, and all but fewer than 64 are used. Odds 9 are far above e,
    odds 3.1 look suspicious with this seed, and with odds e there is nothing that more draws could
    teach of a single number."""
    monkeypatch.setattr(scouting, "_ENOUGH", TRIALS)
    learning, choosing = study_sizes(TRIALS, law_known=False)
    for odds, looks in ((9.0, 1), (3.1, 2), (math.e, 1)):
        sizes: list[int] = []
        refuted, draws = certified(odds, 0, sizes, 1e-6)
        assert refuted == (odds > math.e)
        assert draws == TRIALS - learning - looks * choosing
        assert 0 <= 2 * TRIALS - sum(sizes) < 64


def test_a_second_look_makes_no_false_alarms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audit at alpha = .1 and a tight claim: 9 or more of 25 have probability below 5e-4
    (binomial)."""
    monkeypatch.setattr(scouting, "_ENOUGH", TRIALS)
    alarms = sum(certified(math.e, seed, [], 0.1)[0] for seed in range(1, 26))
    assert alarms <= 8


def test_after_a_second_look_different_events_share_the_false_alarm_probability() -> None:
    """Exact: one event a direction where the first look settles it; after a second one two of
    different scores, and alpha in all is not exceeded."""
    for function, most in ((response(9.0, 0, []), 1), (peaks(0), 2)):
        fixed = FixedAttack(PureDP("1/20"), [PAIR], 60_000, 0.05, 3)
        study = fixed.study(target_of(function, True), 0, 0)
        (shots,) = fixed.shots([study])
        several = [[shot for shot in shots if shot.side == side] for side in (0, 1)]
        assert max(map(len, several)) == most
        assert all(
            len({str(s.witness).partition(" >= ")[0] for s in one}) == len(one) for one in several
        )
        assert sum(shot.alpha for shot in shots) == pytest.approx(0.05, rel=1e-12)
        main = max(shots, key=lambda shot: shot.alpha)
        assert main.witness is study.witnesses[main.side]
        assert len(fixed.certify(0, study, shots)) == len(shots)


def test_what_did_not_learn_is_judged_on_the_draws_that_taught() -> None:
    """Exact: the choosing draws show nothing, the others all; only an unfitted score may use
    them."""
    nothing, ones, zeros = encode([0.5] * 400), encode([1.0] * 400), encode([0.0] * 400)
    task = Task([(1.0, 0.0)], 0.05, 400)
    promises = []
    for fitted in (True, False):
        candidate = Candidate("number 0 >= {threshold}", number(0), True, fitted=fitted)
        best, _ = choose([nothing], [nothing], [candidate], task, (ones, zeros))
        promises.append(best.promise)
    assert promises[1] > promises[0] + 0.5


def redrawn(odds: float, after: int, seed: int) -> Any:
    """Randomized response whose draws depend on ``seed`` only after so many outputs."""
    rngs, done = [np.random.default_rng(0), np.random.default_rng([1, seed])], [0]

    def function(data: Any, size: int) -> Any:
        rng = rngs[done[0] >= after]
        done[0] += size
        return np.where(rng.random(size) < 1 / (1 + odds), 1.0 - data[0], data[0])

    return function


def test_what_divides_alpha_is_fixed_before_a_second_look_draws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exact: whatever the look draws, the levels, the shares and the events that its draws certify
    are the same, but not their counts; and those are of all its draws."""
    monkeypatch.setattr(scouting, "_ENOUGH", TRIALS)
    learning, choosing = study_sizes(TRIALS, law_known=False)
    fixed, counts, divided = FixedAttack(PureDP(1), [PAIR], TRIALS, 1e-6, 0), set(), set()
    for seed in range(4):
        function = redrawn(3.1, 2 * (learning + choosing), seed)
        study = fixed.study(target_of(function, True), 0, 0)
        assert study.before is not None
        (shots,) = fixed.shots([study])
        seen = [one for one in map(study.before.seen, (0, 1)) if one is not None]
        assert len(seen) == 2
        divided.add(
            (
                study.before.hopes,
                study.before.places,
                tuple((shot.side, shot.alpha) for shot in shots),
                tuple((one.event, one.share, one.weight) for one in seen),
            )
        )
        counts.add(tuple((one.hits, one.other_hits) for one in seen))
        assert {(one.draws, one.other_draws) for one in seen} == {(choosing, choosing)}
        places = [place for side in (0, 1) for place in study.before.places[side]]
        assert [shot.earlier for shot in shots] == [
            seen[shot.side] if place.counted else None
            for shot, place in zip(shots, places, strict=True)
        ]
        certificates = fixed.certify(0, study, shots)
        assert all(
            one.earlier is shot.earlier for one, shot in zip(certificates, shots, strict=True)
        )
        other = fixed.redrawn(1, study)
        assert other.before is not None
        redone = other.before.seen(0)
        assert redone is not None
        assert redone.draws == choosing
        assert redone != seen[0]
        assert replace(other, before=None) == replace(study, before=None)
    assert len(divided) == 1
    assert len(counts) == 4


def test_no_pair_draws_first_after_a_second_look_at_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exact: second looks begin after the first draws on all pairs, so a function with memory
    cannot let what one look showed decide how alpha is divided."""
    monkeypatch.setattr(scouting, "_ENOUGH", TRIALS)
    learning, choosing = study_sizes(TRIALS, law_known=False)
    rng, pairs, drawn = np.random.default_rng(0), [PAIR, replaced("two", [0.0, 5.0], 1.0)], []

    def function(data: Any, size: int) -> Any:
        drawn.extend([len(data)] * size)
        return np.where(rng.random(size) < 1 / 4.1, 1.0 - data[0], data[0])

    fixed = FixedAttack(PureDP(1), pairs, TRIALS, 1e-6, 0)
    studies = fixed.studies(target_of(function, True), 0)
    first, look = 2 * (learning + choosing), 2 * choosing
    assert drawn[: 2 * first] == [1] * first + [2] * first
    assert drawn[2 * first :] in ([1] * look + [2] * look, [1] * look, [2] * look)
    assert [study.index for study in studies] == [0, 1]


def test_guesses_at_single_calls_have_no_earlier_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact: a second look at them takes draws that certify nothing."""
    monkeypatch.setattr(scouting, "_ENOUGH", TRIALS)
    rng = np.random.default_rng(0)

    def function(data: Any) -> Any:
        return abs(data[0] - float(rng.random() < 1 / 4.1))

    fixed = FixedAttack(PureDP(1), [PAIR], TRIALS, 1e-6, 0)
    study = fixed.study(target_of(function, False), 0, 0)
    assert (study.before, study.guess is None) == (None, False)
