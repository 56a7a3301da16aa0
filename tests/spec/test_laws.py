"""Laws: closed forms against sums over every outcome, at 40 digits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp
import pytest

from spec.theory.laws import (
    DiscreteLaplaceLaw,
    KaryResponseLaw,
    Outcome,
    least_tail,
    real,
    real_exponential,
)

_DIGITS = 40
_NEAR = mp.mpf(10) ** -35
_SCALES = [Fraction(text) for text in ("1/5", "1", "3/2", "7")]
Masses = Mapping[Any, Any]


@pytest.fixture(autouse=True)
def _forty_digits() -> Iterator[None]:
    with mp.workdps(_DIGITS):
        yield


def _normalized(weights: dict[Any, Any]) -> dict[Any, Any]:
    total = mp.fsum(weights.values())
    return {outcome: weight / total for outcome, weight in weights.items()}


def _laplace(center: int, scale: Fraction) -> dict[int, Any]:
    """Weights e^(-|x - center| / scale) wherever they matter at 45 digits, normalized by
    summing."""
    reach = int(105 * scale) + 20
    w = mp.exp(-1 / real(scale))
    return _normalized({x: w ** abs(x - center) for x in range(center - reach, center + reach + 1)})


def _response(answers: Outcome, categories: int, scale: Fraction) -> dict[Outcome, Any]:
    w = mp.exp(-1 / real(scale))
    outputs = product(range(categories), repeat=len(answers))
    return _normalized(
        {y: w ** sum(a != b for a, b in zip(y, answers, strict=True)) for y in outputs}
    )


def _hockey_stick(p: Masses, q: Masses, epsilon: Fraction) -> Any:
    factor = mp.exp(real(epsilon))
    return mp.fsum(max(mp.mpf(0), p[o] - factor * q[o]) for o in p if o in q)


def _close(actual: Any, expected: Any) -> bool:
    return bool(abs(actual - expected) <= _NEAR)


# --- discrete Laplace ---------------------------------------------------------------------------


@pytest.mark.parametrize("scale", _SCALES)
@pytest.mark.parametrize("center", [0, -3, 11])
def test_laplace_masses_and_distribution_function(center: int, scale: Fraction) -> None:
    law, masses = DiscreteLaplaceLaw(center, scale), _laplace(center, scale)
    below = mp.mpf(0)
    for x, mass in masses.items():
        below += mass
        assert _close(law.probability((x,), real_exponential), mass)
        assert _close(law.at_most(x, real_exponential), below)


@pytest.mark.parametrize("scale", _SCALES)
def test_laplace_tails_complete_the_mass(scale: Fraction) -> None:
    law, masses = DiscreteLaplaceLaw(-2, scale), _laplace(-2, scale)
    for distance in range(1, 30):
        beyond = mp.fsum(mass for x, mass in masses.items() if abs(x + 2) >= distance)
        assert _close(law.tail(distance, real_exponential), beyond)
        inside = mp.fsum(
            law.probability((x,), real_exponential) for x in range(-1 - distance, distance - 2)
        )
        assert _close(inside + law.tail(distance, real_exponential), 1)


@pytest.mark.parametrize("root", [Fraction(1, 2), Fraction(3, 7)])
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(2), Fraction(3, 2)])
def test_laplace_masses_are_exact_for_a_rational_stand_in(root: Fraction, scale: Fraction) -> None:
    def formal(exponent: Fraction) -> Fraction:
        power = exponent * scale.numerator  # scale.numerator / scale is a whole number
        assert power.denominator == 1
        return root**power.numerator

    law = DiscreteLaplaceLaw(4, scale)
    inside = sum(law.probability((x,), formal) for x in range(4 - 9, 4 + 10))
    assert inside + law.tail(10, formal) == 1
    assert law.at_most(4 - 10, formal) * 2 == law.tail(10, formal)


_CENTERS = [(0, 0), (0, 1), (1, 0), (0, 5), (5, 0), (-4, 3)]
_EPSILONS = [Fraction(text) for text in ("0", "1/100", "1/7", "1/2", "1", "2", "10/3", "7", "40")]


@pytest.mark.parametrize("centers", _CENTERS, ids=str)
@pytest.mark.parametrize("scale", _SCALES)
def test_laplace_profiles_and_losses(centers: tuple[int, int], scale: Fraction) -> None:
    p, q = (DiscreteLaplaceLaw(center, scale) for center in centers)
    loss = p.largest_loss(q)
    assert loss is not None
    masses = _laplace(centers[0], scale), _laplace(centers[1], scale)
    seen = max(mp.log(mass / masses[1][x]) for x, mass in masses[0].items() if x in masses[1])
    assert abs(seen - real(loss)) < mp.mpf(10) ** -30
    for epsilon in [*_EPSILONS, loss, loss * Fraction(99, 100), loss + 1]:
        expected = _hockey_stick(masses[0], masses[1], epsilon)
        assert abs(p.profile(q, epsilon) - expected) < mp.mpf(10) ** -30, epsilon
    assert p.profile(q, loss) == 0
    assert p.profile(q, loss + 1) == 0


def test_the_profile_jumps_where_the_threshold_falls_on_an_integer() -> None:
    # (c + c' - epsilon scale) / 2 is the integer 1 at epsilon = 1: x = 1 has loss exactly epsilon.
    p, q = DiscreteLaplaceLaw(0, Fraction(2)), DiscreteLaplaceLaw(4, Fraction(2))
    for epsilon in (Fraction(1), Fraction(0)):
        expected = _hockey_stick(_laplace(0, Fraction(2)), _laplace(4, Fraction(2)), epsilon)
        assert _close(p.profile(q, epsilon), expected)


@pytest.mark.parametrize("method", ["profile", "largest_loss"])
def test_laws_of_different_scale_are_not_compared(method: str) -> None:
    p, q = DiscreteLaplaceLaw(0, Fraction(1)), DiscreteLaplaceLaw(0, Fraction(2))
    arguments = (q, Fraction(1)) if method == "profile" else (q,)
    with pytest.raises(ValueError, match="the noise scale must be the same on neighbors"):
        getattr(p, method)(*arguments)


# --- the least tail -----------------------------------------------------------------------------

Search = Callable[[DiscreteLaplaceLaw, Fraction], int]


def _is_least(search: Search) -> bool:
    """Summed tails: at most beta at t, and above beta one before, unless t is 1."""
    for scale in _SCALES:
        noise, masses = DiscreteLaplaceLaw(3, scale), _laplace(3, scale)
        for beta in map(Fraction, ("0.99", "0.5", "0.1", "1/3", "1e-3", "1e-9")):
            t = search(noise, beta)
            beyond = [mp.fsum(m for x, m in masses.items() if abs(x - 3) >= d) for d in (t, t - 1)]
            if t < 1 or beyond[0] > real(beta) or (t > 1 and beyond[1] <= real(beta)):
                return False
    return True


def test_the_least_tail_is_least() -> None:
    assert _is_least(least_tail)


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_tail_that_is_off_by_one_is_caught(shift: int) -> None:
    assert not _is_least(lambda noise, beta: least_tail(noise, beta) + shift)


def test_the_least_tail_turns_exactly_where_the_tail_does() -> None:
    hair = Fraction(1, 10**30)
    for scale in _SCALES:
        noise = DiscreteLaplaceLaw(0, scale)
        for t in (1, 2, 3, 8, 33):
            tail = noise.tail(t, real_exponential)
            at = Fraction(*map(int, mp.libmp.to_rational(tail._mpf_)))
            assert least_tail(noise, at * (1 + hair)) == t
            assert least_tail(noise, at * (1 - hair)) == t + 1


# --- randomized response ------------------------------------------------------------------------

_RESPONSES = [
    ((0,), (0,), 2),
    ((0,), (1,), 2),
    ((0, 1, 1), (1, 1, 0), 2),
    ((0, 1), (2, 1), 3),
    ((0, 1, 2), (1, 2, 0), 3),
    ((3,), (0,), 5),
    ((), (), 3),
]


@pytest.mark.parametrize(("answers", "others", "categories"), _RESPONSES)
@pytest.mark.parametrize("scale", _SCALES[1:])
def test_response_masses_profiles_and_losses(
    answers: Outcome, others: Outcome, categories: int, scale: Fraction
) -> None:
    p, q = (KaryResponseLaw(truth, categories, scale) for truth in (answers, others))
    masses = _response(answers, categories, scale), _response(others, categories, scale)
    for outcome, mass in masses[0].items():
        assert _close(p.probability(outcome, real_exponential), mass)
    loss = p.largest_loss(q)
    assert loss is not None
    seen = max(mp.log(mass / masses[1][outcome]) for outcome, mass in masses[0].items())
    assert _close(seen, real(loss))
    for epsilon in [*_EPSILONS, loss, loss / 2, loss + 1]:
        expected = _hockey_stick(masses[0], masses[1], epsilon)
        assert _close(p.profile(q, epsilon), expected), epsilon
    assert p.profile(q, loss + 1) == 0


def test_response_masses_are_exact_for_a_rational_stand_in() -> None:
    law = KaryResponseLaw((1, 0), 3, Fraction(3, 2))

    def formal(exponent: Fraction) -> Fraction:
        assert exponent == Fraction(2, 3)
        return Fraction(1, 3)

    every = list(product(range(3), repeat=2))
    assert sum(law.probability(outcome, formal) for outcome in every) == 1
    assert law.probability((1, 0), formal) == Fraction(9, 25)
    assert law.probability((2, 0), formal) == Fraction(3, 25)
    assert law.probability((2, 2), formal) == Fraction(1, 25)


@pytest.mark.parametrize("outcome", [(), (0,), (0, 1, 2)])
def test_an_output_of_another_length_is_impossible(outcome: Outcome) -> None:
    assert KaryResponseLaw((0, 1), 3, Fraction(1)).probability(outcome, real_exponential) == 0


@pytest.mark.parametrize("outcome", [(3, 0), (0, -1), (7, 7)])
def test_a_report_that_is_no_category_is_impossible(outcome: Outcome) -> None:
    # Were it possible, shipped code that says k where it should say 0 would meet its spec: the
    # refinement asks for the mass of what the code puts out, and of nothing else.
    assert KaryResponseLaw((0, 1), 3, Fraction(1)).probability(outcome, real_exponential) == 0


def test_responses_of_different_length_are_not_compared() -> None:
    p, q = KaryResponseLaw((0,), 2, Fraction(1)), KaryResponseLaw((0, 1), 2, Fraction(1))
    with pytest.raises(ValueError, match="zip"):
        p.largest_loss(q)
