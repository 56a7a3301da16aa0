"""The theorem behind truncated estimation, as it is stated, on 40 draws: |estimate - truth| <=
(|Tbar - E T| + |Z|) / lambda.

Tbar is the mean of the limited statistics of the records themselves, E T that under the true
parameter, Z what noise (of the sum and of the number) adds to it, and lambda the least slope of the
limited mean over a convex set that holds the truth and the estimate. It holds for every draw: there
is no chance in it, and a draw beyond it is an error. What floats leave (the solver's tolerance,
quadrature) is below 1e-8 of either side.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import Adjacency, FamilyEstimate, GaussianMean, SeededBits, TruncatedMle
from dpverify import VectorMeanEstimate as Estimate
from dpverify.estimation.clipped_response import moment
from dpverify.estimation.column_grids import GRAIN
from dpverify.estimation.stepped import CELLS, STATISTICS
from dpverify.families import (
    ContinuousBernoulli,
    Family,
    LogNormal,
    Normal,
    Pareto,
    Poisson,
    Weibull,
)
from dpverify.grid import ingest
from dpverify.grid.vectors import clip_to_ball, inside_ball
from dpverify.mechanisms.truncated_mle import frame_of
from dpverify.plans import UNIT

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
DRAWS, SLACK = 40, 1 + 1e-8

WORLDS: list[tuple[Family, float, float, float, str, Adjacency]] = [
    (Normal(3.0), 5.0, 11.0, 7.7, "clip", ADD),
    (Weibull(1.0), 20.0, 36.0, 27.0, "mask", REPLACE),
    (Poisson(), 4.0, 6.0, 5.0, "clip", REPLACE),
    (LogNormal(0.7), 9.0, 12.0, 10.5, "mask", ADD),
    (ContinuousBernoulli(), 0.6, 0.9, 0.8, "mask", REPLACE),
    (Pareto(1000.0), 1.5, 4.0, 2.5, "clip", ADD),
]


def _least_slope(mechanism: TruncatedMle, frame: Any) -> float:
    """Return the least slope of the limited mean over the public range of the parameter."""
    family = mechanism.family
    low, high = (family.natural(float(p)) for p in (mechanism.lowest, mechanism.highest))
    thetas = [low + (high - low) * k / 16 for k in range(17)]
    return min(float(frame.law(family, theta, mechanism.outside).slope) for theta in thetas)


def _limited_mean(mechanism: TruncatedMle, data: Any, frame: tuple[int, int]) -> float:
    """Return the records' limited mean, from 0 to 1 in the interval: cells by comparison with
    the edges."""
    edges = np.asarray(mechanism.edges_of(*frame))
    if mechanism.outside == "mask":
        data, edges = data[(data >= edges[0]) & (data < edges[-1])], edges[1:-1]
    return float(np.searchsorted(edges, data, side="right").mean()) / CELLS


def _family_draw(
    mechanism: TruncatedMle, truth: float, seed: int
) -> tuple[float, float, float, float]:
    """Return the error; that of the mean of the records; the noise's part; the least slope."""
    theta = mechanism.family.natural(truth)
    data = mechanism.family.sample(theta, 800, np.random.default_rng(seed))
    transcript = mechanism.law(data).sample(SeededBits(seed), 1)[0]
    estimate = mechanism.estimate(transcript)
    assert isinstance(estimate, FamilyEstimate)
    middle, octave = mechanism._frame(transcript)[0].tolist()
    frame = frame_of(mechanism, mechanism.theta_of(middle), octave)
    own = _limited_mean(mechanism, data, (middle, octave))
    last = [float(v) * float(mechanism.scale()) / UNIT for v in transcript.numbers(STATISTICS)]
    inside = last[1] / mechanism.count_weight() if mechanism.count_weight() else estimate.count
    released = (1 + last[0] / inside / CELLS) / 2
    wanted = (frame.law(mechanism.family, theta, mechanism.outside).mean - frame.low) / frame.length
    return (
        abs(estimate.natural - theta),
        abs(own - wanted) * frame.length,
        abs(released - own) * frame.length,
        _least_slope(mechanism, frame),
    )


@pytest.mark.parametrize("world", WORLDS, ids=[type(one[0]).__name__ for one in WORLDS])
def test_a_family_s_parameter_is_as_near_as_its_mean_over_the_least_slope(world: Any) -> None:
    """Some draw comes within half of the bound; without the noise, or with four times the slope, it
    would be broken."""
    family, lowest, highest, truth, outside, adjacency = world
    mechanism = TruncatedMle(
        adjacency=adjacency, noise_multiplier=Fraction(4), family=family, lowest=lowest,
        highest=highest, outside=outside, at_least=1,
    )  # fmt: skip
    draws = np.array([_family_draw(mechanism, truth, seed) for seed in range(DRAWS)])
    error, sampling, noise, slope = draws.T
    assert (slope > 0).all()
    assert (error * slope <= (sampling + noise) * SLACK).all()
    assert (error * slope > 0.5 * (sampling + noise)).any()
    assert (error * slope > sampling * SLACK).any()
    assert (error * 4 * slope > (sampling + noise) * SLACK).any()


MEANS = [(1, "clip", ADD), (4, "clip", REPLACE), (6, "mask", ADD)]


def _mean_draw(
    mechanism: GaussianMean, truth: Any, seed: int
) -> tuple[float, float, float, float, float]:
    """Return the error; that of the mean of limited records; the noise's part; the least slope
    on a ball that holds both; that of all."""
    d, outside = mechanism.columns(), mechanism.outside
    data = np.random.default_rng(seed).normal(truth, 1.0, (900, d))
    transcript = mechanism.law(data).sample(SeededBits(seed), 1)[0]
    estimate = mechanism.estimate(transcript)
    assert isinstance(estimate, Estimate)
    stretch, radius = mechanism.ball(mechanism.before_sum().row(transcript))
    rows = np.concatenate([*stretch.images(ingest(data, mechanism.domain))])
    kept = clip_to_ball(rows, radius * GRAIN)
    if outside == "mask":
        kept = rows[inside_ball(rows, radius * GRAIN)]
    unit = mechanism._deviation()  # of the image: from here on in deviations
    own = kept.mean(axis=0) / unit
    cells = np.ldexp(1.0, list(stretch.exponents))
    offset = np.array(truth) - np.array(stretch.center) * cells
    other = estimate.value - np.array(stretch.center) * cells
    name = "sum and count" if mechanism.joint() else "sum"
    scale = float(radius * mechanism.sum_scale()) / UNIT
    last = np.array([float(v) for v in transcript.numbers(name)]) * scale
    count = last[-1] / (radius * mechanism.weight()) if mechanism.joint() else len(data)
    released = last[:d] / count / unit
    ball = radius * GRAIN / unit
    wanted = offset * moment(d, ball, float(np.linalg.norm(offset)), outside).ratio
    farther = max(float(np.linalg.norm(one)) for one in (offset, other))
    return (
        float(np.linalg.norm(other - offset)),
        float(np.linalg.norm(own - wanted)),
        float(np.linalg.norm(released - own)),
        moment(d, ball, farther, outside).slope,
        moment(d, ball, 0.0, outside).slope,
    )


@pytest.mark.parametrize(("d", "outside", "adjacency"), MEANS)
def test_a_normal_mean_is_as_near_as_its_limited_mean_over_the_least_slope(
    d: int, outside: Any, adjacency: Adjacency
) -> None:
    """The set is the ball about the released center that holds both; slopes fall with the distance
    from it, so the least one is at its surface. Without the noise, or with a slope a quarter
    larger, the bound would be broken."""
    mechanism = GaussianMean(
        adjacency=adjacency, noise_multiplier=Fraction(4), center=(0.0,) * d, deviations=(1.0,) * d,
        outside=outside, reach=16, at_least=1,
    )  # fmt: skip
    truth = [3.0 + 0.1 * j for j in range(d)]
    draws = np.array([_mean_draw(mechanism, truth, seed) for seed in range(DRAWS)])
    error, sampling, noise, slope, largest = draws.T
    assert (slope > 0).all()
    assert (slope <= largest).all()
    assert (error * slope <= (sampling + noise) * SLACK).all()
    assert (error * slope > 0.9 * (sampling + noise)).any()
    assert (error * slope > sampling * SLACK).any()
    assert (error * 1.25 * slope > (sampling + noise) * SLACK).any()
