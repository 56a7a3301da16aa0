"""Choices among scores of which no event tells much: by the trend of odds along all ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from dpverify.audit.outputs.draws import Draws
from dpverify.audit.outputs.encoding import encode
from dpverify.audit.witnesses.choosing import ranked
from dpverify.audit.witnesses.features import Candidate, number
from dpverify.audit.witnesses.judging import Scored, Scores
from dpverify.audit.witnesses.promises import Task
from dpverify.audit.witnesses.trends import Trend, clearest
from dpverify.privacy.numbers import Floats

TASK = Task([(0.1, 0.0)], 0.045, 77_000)


def pool(width: int) -> list[Candidate]:
    """List the numbers themselves as scores."""
    names = [f"number {j} >= {{threshold}}" for j in range(width)]
    return [Candidate(name, number(j), True, fitted=False) for j, name in enumerate(names)]


def trend_of(left: list[float] | Floats, right: list[float] | Floats) -> tuple[Trend, Scores]:
    """Return the trend of one number, and its scores."""
    sides = [encode(np.asarray(one, dtype=np.float64)) for one in (left, right)]
    scores = Scores([[Scored.of(one)] for one in sides], [[], []])
    trend = clearest(scores, pool(1))
    assert trend is not None
    return trend, scores


def test_the_number_that_differs_is_found_and_no_rare_event_is_taken() -> None:
    """Choose of twelve normal numbers the one that is larger by .035, which is 3.5 standard errors
    of 20,000 draws a side.

    Seeds are fixed, so the result is: 13 of 20 are right (7 before); the clearest of independent
    trends would be right with probability .91, and some single events look better."""
    candidates, right, shares = pool(12), 0, []
    for seed in range(50, 70):
        rng = np.random.default_rng(seed)
        sides = [rng.normal(size=(20_000, 12)) for _ in (0, 1)]
        sides[0][:, 7] += 0.035
        own, other = map(encode, sides)
        (event, *_), _ = (one.witnesses for one in ranked([own], [other], candidates, TASK))
        if event.candidate is candidates[7]:
            right += 1
            shares.append(float(event.happens_in(other, {}).mean()))
    assert right >= 11
    assert np.median(shares) > 0.1


def tilted(tilt: float, size: int = 20_000) -> Floats:
    """Return the quantiles of the density 1 + tilt s for s in (-.5, .5)."""
    u = (np.arange(size) + 0.5) / size
    return np.asarray((np.sqrt(1 + 2 * tilt * (u - 0.5 + tilt / 8)) - 1) / tilt)


def test_a_rare_event_that_is_plainly_there_is_taken() -> None:
    """Exact: 40 of 20,000 draws that only the left makes, beside a faint trend of a number."""
    secret = np.where(np.arange(20_000) < 40, 1.0, 0.0)
    own = encode(np.stack([tilted(0.05), secret], axis=1))
    other = encode(np.stack([tilted(-0.05), 0 * secret], axis=1))
    ours, _ = ranked([own], [other], pool(2), TASK)
    assert str(ours.witnesses[0]) == "number 1 >= 1"


def test_a_rare_event_that_may_show_much_stays() -> None:
    """Exact: 12 of 20,000 draws against 1 are 3.4 standard errors apart. They are expected to show
    more than a trend where the claim allows it, and nothing where it is .1."""
    secrets = [np.where(np.arange(20_000) < k, 1.0, 0.0) for k in (12, 1)]
    own, other = (
        encode(np.stack([tilted(tilt), secret], axis=1))
        for tilt, secret in zip((0.06, -0.06), secrets, strict=True)
    )
    large = replace(TASK, points=[(4.0, 0.0)])
    chosen = [str(ranked([own], [other], pool(2), task)[0].witnesses[0]) for task in (large, TASK)]
    assert chosen[0] == "number 1 >= 1"
    assert chosen[1].startswith("number 0 >= ")


def test_a_trend_is_the_statistic_of_mann_and_whitney() -> None:
    """Without ties, scipy's normal approximation without continuity has this variance but for
    (n + 1) / n."""
    rng = np.random.default_rng(3)
    left, right = rng.normal(size=300) + 0.2, rng.normal(size=200)
    trend, _ = trend_of(left, right)
    u, n, m = scipy.stats.mannwhitneyu(left, right).statistic, 300, 200
    standard = (u - n * m / 2) / np.sqrt(n * m * (n + m + 1) / 12)
    assert trend.errors == pytest.approx(standard, rel=5e-3)


def test_the_slope_is_that_of_odds_which_rise_evenly() -> None:
    """Quantiles of densities 1 + .1 s and 1 - .1 s on (-.5, .5), 20,000 of each: the slope is .1
    less the 1.5 standard errors that chance adds, and the best event of a tenth of the draws
    promises less than one of two fifths."""
    left, right = tilted(0.1), tilted(-0.1)
    trend, scores = trend_of(left, right)
    assert trend.errors == pytest.approx(0.1 * np.sqrt(20_000 / 6), rel=0.01)
    assert trend.slope == pytest.approx(0.1 * (1 - (1.5 / trend.errors) ** 2), rel=0.01)
    best = trend.event(scores, 0, TASK)
    assert best is not None
    event, above = best
    assert 0.1 < float(np.mean(left >= event.threshold)) < 0.5
    assert -0.1 < event.promise <= above


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([0.0] * 50, [0.0] * 40),
        ([1.0], [0.0]),
        ([1.0, 2.0, 3.0] * 5, [0.0] * 15),
        ([np.inf, 1.0] * 20, [-np.inf, 1.0] * 20),
        ([1e308, -1e308] * 20, [5e-324] * 3),
    ],
)
def test_few_equal_or_infinite_scores_make_no_nonsense(
    left: list[float], right: list[float]
) -> None:
    """Promise numbers, of events that are there, for pure claims and for one with a delta."""
    trend, scores = trend_of(left, right)
    assert 0 <= trend.errors < np.inf
    assert abs(trend.slope) <= 2
    for task in (TASK, Task([(1.0, 1e-5)], 1e-6, 1000), Task([(0.0, 0.0)], 0.05, 10, divides=True)):
        for side in (0, 1):
            best = trend.event(scores, side, task)
            if not trend.slope:
                assert best is None
                continue
            assert best is not None
            event, above = best
            assert not np.isnan(above)
            assert event.promise <= max(above, -task.points[0][0]) + 1e-12


def test_what_has_no_trend_takes_no_place() -> None:
    """Exact: two sides that are the same have the event that they had without trends."""
    draws = encode(np.stack([tilted(0.05), np.arange(20_000) % 3], axis=1).astype(np.float64))
    scores = Scores([[Scored.of(draws)], [Scored.of(draws)]], [[], []])
    trend = clearest(scores, pool(2))
    assert trend is not None
    assert (trend.slope, trend.event(scores, 0, TASK)) == (0.0, None)


def test_without_plain_scores_there_is_no_trend() -> None:
    draws: Draws = encode(np.zeros(10))
    scores = Scores([[Scored.of(draws)], [Scored.of(draws)]], [[], []])
    assert clearest(scores, [Candidate("learned", number(0), True)]) is None
