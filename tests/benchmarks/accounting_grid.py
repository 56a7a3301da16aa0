"""Calibration, delta and epsilon on a grid from everyday to absurd budgets: ours against others'.

36 epsilons from 1e-6 to 100 times 30 deltas from 1e-3 to 1e-300, floats that are taken exactly.
On each point: the noise that the budget needs, and delta and epsilon of the noise that the judge
found, rounded to a float. Judge: spec/theory/profiles.py at mpmath's precision, raised where a
report is close.

unsafe: claims more privacy than is true: less noise than the budget needs, a smaller delta or
epsilon. > 1e-12: unsafe by more than that, relative; the other unsafe ones are roundings of the
last digits. false: unsafe, and disproved by Gaussian noise (differs from unsafe in zCDP rows
only, see below). failed: an exception, nan or infinity. 0: the number zero, which is false on
every point of this grid; counted here, not under unsafe. safe gap, unsafe error: the worst ones,
relative to the judge's number, for noise in terms of sigma or 1 / sqrt(2 rho), which the lines
of worst inputs print as mu^2 or rho; 'given' there: the sigma, or rho, of which delta and
epsilon are asked. ms: a call, over the points.

Conventions. All: one value of sensitivity 1. dp-accounting: continuous Gaussian, add or remove;
its get_sigma_gaussian and get_epsilon_gaussian are exact up to a search tolerance of 1e-12
ABSOLUTE; it has no public function for delta, so its private _get_log_delta is exponentiated.
Its RDP and PLD accountants are at their defaults and promise upper bounds; PLD drops tails of
e^-50. opendp knows its (integer) Gaussian as rho-zCDP only: the gap in Gaussian rows is the
price of that conversion, no error. Rows with fewer points are slow: a regular subsample. zCDP
rows are judged by CKS20, Proposition 12; a number below that formula may still follow from
another theorem, so 'false' counts those that even Gaussian noise of mu^2 = 2 rho, which is
rho-zCDP, does not have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import mpmath as mp
import numpy as np

from dpverify.privacy.guarantees import ApproxDP, GaussianDP, ZeroConcentratedDP, calibrate
from spec.theory.profiles import gaussian_profile, zcdp_profile
from tests.benchmarks.timing import Score, header, number, peer, quiet, speed, table, timed

EPSILONS, DELTAS = np.logspace(-6, 2, 36).tolist(), np.logspace(-3, -300, 30).tolist()
GRID = [(epsilon, delta) for epsilon in EPSILONS for delta in DELTAS]
DIGITS = 30  # what a truth is known to, at least; where a report is as close as that, more
Number = float | Fraction


@dataclass(frozen=True)
class Judge:
    """The truth about a family: its profile, where the parameter is 1 / (factor sigma^2)."""

    name: str
    factor: int
    profile: Callable[..., Any]
    family: Callable[[Fraction], GaussianDP | ZeroConcentratedDP]


@dataclass(frozen=True)
class Point:
    """A budget, the parameter that just meets it, and that as a float (sigma or rho) with its
    truth."""

    epsilon: float
    delta: float
    best: Any
    given: float
    parameter: Fraction
    delta_there: Any
    epsilon_there: Any


@dataclass(frozen=True)
class Tool:
    """One way to do one task ("noise", "delta", "epsilon"); noise is reported as the parameter."""

    label: str
    task: str
    call: Callable[[Point], Number]
    stride: int = 1


def true_gaussian(parameter: Fraction, epsilon: Fraction, digits: int = DIGITS) -> Any:
    """Compute the profile of Gaussian noise; two precisions must agree to that many digits."""
    precision, rough = digits + 20, mp.mpf(-1)
    while precision < 8000:
        with mp.workdps(precision):
            value = gaussian_profile(parameter, epsilon)
            if value > 0 and abs(value - rough) < mp.mpf(10) ** -digits * value:
                return value
        precision, rough = 2 * precision, value
    raise ArithmeticError("no precision was enough")


def true_zcdp(parameter: Fraction, epsilon: Fraction, digits: int = DIGITS) -> Any:
    """Compute the profile that conversion proves; a minimum, so its value is far more precise
    than its place."""
    with mp.workdps(digits + 30):
        return zcdp_profile(parameter, epsilon)


GAUSSIAN = Judge("Gaussian", 1, true_gaussian, GaussianDP.of_square)
ZCDP = Judge("zCDP", 2, true_zcdp, ZeroConcentratedDP)


def solve(profile: Callable[[Fraction], Any], start: Fraction, goal: float) -> Any:
    """Find x with profile(x) = goal, by secants in logarithms until it is met to 1e-27."""
    target = mp.log(mp.mpf(goal))

    def miss(x: Any) -> Any:
        mantissa, exponent = map(int, x.man_exp)
        return mp.log(profile(mantissa * Fraction(2) ** exponent)) - target

    x, before = number(start), number(start) * (1 + mp.mpf(10) ** -10)
    off, off_before = miss(x), miss(before)
    for _ in range(20):
        if abs(off) < mp.mpf(10) ** -27:
            return x
        slope = (off - off_before) / mp.log(x / before)
        x, before, off_before = x * mp.exp(-off / slope), x, off
        off = miss(x)
    raise ArithmeticError("the judge found no solution")


def points(judge: Judge) -> list[Point]:
    """Build the grid with its truth; our calibration is only the starting point of the search."""
    grid = []
    for epsilon, delta in GRID:
        e, d = Fraction(epsilon), Fraction(delta)
        near = calibrate(judge.family, ApproxDP(e, d)).concentrated * 2 / judge.factor
        best = solve(partial(judge.profile, epsilon=e), near, delta)
        given = float(1 / mp.sqrt(best)) if judge is GAUSSIAN else float(best)
        parameter = 1 / Fraction(given) ** 2 if judge is GAUSSIAN else Fraction(given)
        truths = judge.profile(parameter, e), solve(partial(judge.profile, parameter), e, delta)
        grid.append(Point(epsilon, delta, best, given, parameter, *truths))
    return grid


def surplus_of(tool: Tool, judge: Judge, point: Point, reported: Fraction) -> Any:
    """Return how far a report is on the safe side, relative; its sign is beyond doubt."""
    if tool.task == "noise":
        surplus = mp.sqrt(point.best / number(reported)) - 1
    elif tool.task == "epsilon":
        surplus = number(reported) / point.epsilon_there - 1
    else:
        surplus, digits = number(reported) / point.delta_there - 1, DIGITS
        while abs(surplus) < mp.mpf(10) ** (3 - digits):
            digits *= 2
            with mp.workdps(digits + 10):
                truth = judge.profile(point.parameter, Fraction(point.epsilon), digits)
                surplus = number(reported) / truth - 1
    if not surplus or (tool.task != "delta" and abs(surplus) < mp.mpf(10) ** -22):
        raise ArithmeticError(f"{tool} is too close to the truth at {point}")
    return surplus


def mark(score: Score, tool: Tool, judge: Judge, point: Point, reported: Number) -> None:
    """Enter one report."""
    if reported in (0, math.inf) or reported != reported:
        score.zero += reported == 0
        score.failed += reported != 0
        return
    surplus = surplus_of(tool, judge, point, Fraction(reported))
    if surplus > 0:
        score.gap = max(score.gap, surplus)
        return
    mu_squared = Fraction(reported) if tool.task == "noise" else point.parameter
    mu_squared *= judge.factor
    epsilon = Fraction(reported if tool.task == "epsilon" else point.epsilon)
    claimed = number(Fraction(reported)) if tool.task == "delta" else mp.mpf(point.delta)
    false = true_gaussian(mu_squared, epsilon) > claimed
    score.unsafe_by(
        -surplus, bool(false), (point.epsilon, point.delta, point.given, float(reported))
    )


def ours(judge: Judge) -> Iterator[Tool]:
    """List this library's tools: the safe ends."""
    made = judge.family

    def noise(p: Point) -> Fraction:
        return calibrate(made, ApproxDP(p.epsilon, p.delta)).concentrated * 2 / judge.factor

    yield Tool("ours, calibrate", "noise", noise)
    yield Tool("ours, delta_at", "delta", lambda p: made(p.parameter).delta_at(p.epsilon).upper)
    yield Tool("ours, epsilon_at", "epsilon", lambda p: made(p.parameter).epsilon_at(p.delta).upper)


def parameter_of(sigma: float, judge: Judge) -> Number:
    """Return 1 / (factor sigma^2), exactly; a report that is no noise stays as it is."""
    noise = math.isfinite(sigma) and sigma > 0
    return 1 / (judge.factor * Fraction(sigma) ** 2) if noise else sigma


def dp_accounting(judge: Judge) -> Iterator[Tool]:
    """List Google's tools: its closed forms, its Renyi and its privacy loss accountant."""
    dpa = peer("dp-accounting", "dp_accounting")
    if dpa is None:
        return

    def rdp(p: Point) -> Any:
        event = (dpa.GaussianDpEvent if judge is GAUSSIAN else dpa.ZCDpEvent)(p.given)
        return dpa.rdp.RdpAccountant().compose(event)

    yield Tool("dp-accounting RDP", "delta", lambda p: float(rdp(p).get_delta(p.epsilon)))
    yield Tool("dp-accounting RDP", "epsilon", lambda p: float(rdp(p).get_epsilon(p.delta)))
    if judge is ZCDP:
        return
    forms, pld = dpa.gaussian_mechanism, dpa.pld.privacy_loss_distribution

    def noise(p: Point) -> Number:
        return parameter_of(float(forms.get_sigma_gaussian(p.epsilon, p.delta)), judge)

    def delta(p: Point) -> float:
        return math.exp(forms._get_log_delta(p.given, p.epsilon))

    def epsilon(p: Point) -> float:
        return float(forms.get_epsilon_gaussian(p.given, p.delta))

    def losses(p: Point) -> float:
        return float(pld.from_gaussian_mechanism(p.given).get_delta_for_epsilon(p.epsilon))

    def accountant(p: Point) -> float:
        event = dpa.GaussianDpEvent(p.given)
        return float(dpa.pld.PLDAccountant().compose(event).get_epsilon(p.delta))

    yield Tool("dp-accounting get_sigma_gaussian", "noise", noise)
    yield Tool("dp-accounting _get_log_delta", "delta", delta)
    yield Tool("dp-accounting get_epsilon_gaussian", "epsilon", epsilon)
    yield Tool("dp-accounting PLD", "delta", losses, stride=23)
    yield Tool("dp-accounting PLDAccountant", "epsilon", accountant, stride=23)


def opendp(judge: Judge) -> Iterator[Tool]:
    """List OpenDP's tools: zCDP and its conversion."""
    odp = peer("opendp", "opendp.prelude")
    if odp is None:
        return
    odp.enable_features("contrib", "honest-but-curious")
    space = odp.atom_domain(T=int), odp.absolute_distance(T=float)

    def converted(sigma: float) -> Any:
        return odp.c.make_zCDP_to_approxDP(odp.m.make_gaussian(*space, scale=sigma))

    def profile(p: Point) -> Any:
        if judge is GAUSSIAN:
            return converted(p.given).map(1.0)
        measure = odp.zero_concentrated_divergence()
        made = odp.m.make_user_measurement(*space, measure, lambda x: x, lambda _: p.given, TO=int)
        return odp.c.make_zCDP_to_approxDP(made).map(1.0)

    def fixed(delta: float, sigma: float) -> Any:
        return odp.c.make_fix_delta(converted(sigma), delta)

    def noise(p: Point) -> Number:
        make, budget = partial(fixed, p.delta), (p.epsilon, p.delta)
        return parameter_of(odp.binary_search_param(make, 1.0, budget, T=float), judge)

    yield Tool("opendp binary_search_param", "noise", noise, stride=9)
    yield Tool("opendp profile.delta", "delta", lambda p: float(profile(p).delta(p.epsilon)))
    yield Tool("opendp profile.epsilon", "epsilon", lambda p: float(profile(p).epsilon(p.delta)))


def attempt(tool: Tool, score: Score, point: Point) -> Number:
    """Return the tool's report; for an exception nan, and a line the first time."""
    try:
        return tool.call(point)
    except Exception as error:
        if not score.failed:
            print(f"  {tool.label}: {type(error).__name__} at {point.epsilon, point.delta}")
        return math.nan


def run(tool: Tool, judge: Judge, grid: list[Point]) -> Score:
    """Judge every point of the tool's subsample."""
    score = Score(f"{tool.task}: {tool.label}")
    for point in grid[:: tool.stride]:
        reported, seconds = timed(partial(attempt, tool, score), point)
        score.seconds.append(seconds)
        mark(score, tool, judge, point, reported)
    return score


def main() -> None:
    """Print both families for all tools, then our speed."""
    mp.mp.dps = DIGITS + 20
    quiet()
    header("Accounting on a grid", "python -m tests.benchmarks.accounting_grid")
    print(f"\n{__doc__}")
    columns = "tool,points,failed,0,unsafe,> 1e-12,false,safe gap,unsafe error,ms med,ms max"
    for judge in (GAUSSIAN, ZCDP):
        grid, tools = points(judge), [*ours(judge), *dp_accounting(judge), *opendp(judge)]
        tools.sort(key=lambda tool: ("noise", "delta", "epsilon").index(tool.task))
        scores = [run(tool, judge, grid) for tool in tools]
        print(f"\n{judge.name}")
        table(columns.split(","), [score.row() for score in scores])
        print("\n".join(score.worst for score in scores if score.worst))
    speed(GRID)


if __name__ == "__main__":
    main()
