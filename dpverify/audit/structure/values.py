"""Attacks on released values: which floats a mechanism can reach betrays what noise was added to.

Both look at two datasets and certify a lower bound of epsilon, whatever the mechanism is: what they
assume about it only chooses the event.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpverify.audit.independence import InvalidRun
from dpverify.audit.outputs.laws import Draws
from dpverify.audit.structure.calls import Called, Sides, called, certify
from dpverify.audit.structure.reachable import FORMULAS, Formula, reachable
from dpverify.audit.structure.result import Finding, check_draws
from dpverify.privacy import Guarantee, PureDP
from dpverify.privacy.numbers import Floats

DEFAULT_CLAIM = PureDP(1)
_OF_ZERO = 2000.0  # zero has no lowest set bit: it is a multiple of every power of two
_MOST_FORMULAS = 4
_MOST_OFFSETS = 2


def membership(
    release: Callable[..., Any],
    left: Any,
    right: Any,
    *,
    centers: tuple[ArrayLike, ArrayLike],
    scale: float,
    claim: Guarantee = DEFAULT_CLAIM,
    draws: int = 4000,
    alpha: float = 1e-6,
    vectorized: bool = False,
    seed: int = 0,
    formulas: Mapping[str, Formula] = FORMULAS,
) -> Finding:
    """Test whether an output is one that float Laplace noise can reach from one center and not
    from the other.

    release(data) returns a number or an array of them; vectorized: release(data, size), that
    many. The side of each call (of each batch) is a coin, from ``seed``; what drifts with the
    calls shows nothing, and noise that calls share is a problem that the finding names.
    left, right: the two datasets. centers: the query's values on them, known to the attacker.
    scale: of the noise, in the units of the output. formulas: at most 4 float formulas to look for.
    Errors: ValueError for too few draws, a bad alpha or scale, unfit centers, too many formulas.
    Source: Mironov, "On significance of the least significant bits for differential privacy", 2012.
    """
    check_draws(draws, alpha)
    if not (np.isfinite(scale) and scale > 0):
        raise ValueError(f"scale = {scale} is not positive.")
    if not 1 <= len(formulas) <= _MOST_FORMULAS:
        raise ValueError(f"{len(formulas)} formulas; give 1 to {_MOST_FORMULAS} of them.")
    made = called(release, left, right, draws, vectorized=vectorized, seed=seed)
    scored = [_explained(batch, centers, scale, formulas) for batch in made.sides]
    names = tuple(
        f"the one center that explains it by {name} (left 1, right -1)" for name in formulas
    )
    shares = [np.mean(scored[0] > 0, axis=0), np.mean(scored[1] < 0, axis=0)]
    best = int(np.argmax(shares[0] + shares[1]))
    seen = _seen(list(formulas)[best], shares[0][best], shares[1][best])
    call = (
        f"membership(release, {reprlib.repr(left)}, {reprlib.repr(right)}, centers={centers}, "
        f"scale={scale}, draws={draws}, alpha={alpha:g}, "
        f"{seed=}){_example(made.sides[0], scored[0][:, best])}"
    )
    return _concluded("membership", _sides(names, made, scored), claim, alpha, seen, call)


def lowest_set_bit(
    release: Callable[..., Any],
    left: Any,
    right: Any,
    *,
    claim: Guarantee = DEFAULT_CLAIM,
    offsets: tuple[float, ...] = (),
    draws: int = 40_000,
    alpha: float = 1e-6,
    vectorized: bool = False,
    seed: int = 0,
) -> Finding:
    """Test whether the exponent of the outputs' lowest set bit shows which number noise was
    added to.

    A float sum has no bits finer than both terms have: noise added to 1 none below 2^-53. The
    threshold is learned on half of the draws.
    release, left, right, vectorized, seed: as for ``membership``; arrays count by their lowest bit.
    offsets: up to 2 numbers to subtract before looking, such as a known center.
    Errors: ValueError for too few draws, a bad alpha, too many offsets.
    Source: Haney, Desfontaines, Hartman, Shrestha, Hay, "Precision-based attacks and interval
    refining", 2022.
    """
    check_draws(draws, alpha)
    if len(offsets) > _MOST_OFFSETS:
        raise ValueError(f"{len(offsets)} offsets; give at most {_MOST_OFFSETS}.")
    made = called(release, left, right, draws, vectorized=vectorized, seed=seed)
    names = (
        "the lowest set bit's exponent",
        "the number of significant bits",
        *(f"the lowest set bit's exponent after subtracting {offset!r}" for offset in offsets),
    )
    scored = [_bits(batch.numbers, offsets) for batch in made.sides]
    lowest = [np.min(s[:, 0], initial=_OF_ZERO) for s in scored]
    seen = (
        f"the lowest set bit seen is 2^{lowest[0]:.0f} on the left, 2^{lowest[1]:.0f} on the right"
    )
    call = (
        f"lowest_set_bit(release, {reprlib.repr(left)}, {reprlib.repr(right)}, "
        f"offsets={offsets}, draws={draws}, alpha={alpha:g}, {seed=})"
    )
    return _concluded("lowest_set_bit", _sides(names, made, scored), claim, alpha, seen, call)


def lowest_bit_exponent(values: Floats) -> Floats:
    """Return e with x an odd multiple of 2^e, for each finite float64 x; 2000 for zero."""
    mantissas, exponents = np.frexp(values)
    integers = np.ldexp(mantissas, 53).astype(np.int64)
    lowest = (integers & -integers).astype(np.float64)
    powers = exponents - 53.0 + np.frexp(lowest)[1] - 1.0
    return np.where(values == 0, _OF_ZERO, powers)


def _bits(numbers: Floats, offsets: tuple[float, ...]) -> Floats:
    """Return the least exponents over each output's numbers, shape (size, 2 + len(offsets))."""
    if not numbers.shape[1]:
        return np.zeros((len(numbers), 2 + len(offsets)))
    lowest = lowest_bit_exponent(numbers)
    significant = np.where(numbers == 0, 0.0, np.frexp(numbers)[1] - lowest)
    columns = [lowest, significant]
    columns += [lowest_bit_exponent(numbers - offset) for offset in offsets]
    return np.stack([column.min(axis=1) for column in columns], axis=1)


def _explained(
    batch: Draws,
    centers: tuple[ArrayLike, ArrayLike],
    scale: float,
    formulas: Mapping[str, Formula],
) -> Floats:
    """Return 1 where only the left center explains an output, -1 for the right, else 0; shape
    (size, formulas).
    """
    columns = []
    for formula in formulas.values():
        left, right = (_reached(formula, batch.numbers, center, scale) for center in centers)
        columns.append(left.astype(np.float64) - right)
    return np.stack(columns, axis=1)


def _reached(
    formula: Formula, numbers: Floats, center: ArrayLike, scale: float
) -> NDArray[np.bool_]:
    if not numbers.shape[1]:
        return np.zeros(len(numbers), dtype=np.bool_)
    array = np.asarray(center, dtype=np.float64)
    if array.ndim and array.shape != numbers.shape[1:]:
        raise ValueError(
            f"a center of shape {array.shape} does not fit outputs of width {numbers.shape[1]}."
        )
    around = np.broadcast_to(array, numbers.shape)
    hits = reachable(formula, numbers.ravel(), around.ravel(), scale)
    return np.asarray(hits.reshape(numbers.shape).all(axis=1), dtype=np.bool_)


def _seen(formula: str, left: float, right: float) -> str:
    return (
        f"by {formula}, {left:.1%} of single outputs on the left and {right:.1%} on the right are "
        "reachable from their own center only"
    )


def _example(batch: Draws, explained: Floats) -> str:
    rows = np.flatnonzero(explained > 0)
    if not len(rows):
        return ""
    return f"; such an output on the left: {float(batch.numbers[rows[0], 0]).hex()}"


def _sides(names: tuple[str, ...], made: Called, scored: list[Floats]) -> Sides:
    """Return the outputs with their features."""
    left, right = (Draws(side.labels, one) for side, one in zip(made.sides, scored, strict=True))
    return Sides(names, left, right, made)


def _concluded(
    attack: str, sides: Sides, claim: Guarantee, alpha: float, seen: str, reproduce: str
) -> Finding:
    """Return a finding, ``detected`` if a certificate refutes the claim; ``seen`` is what else to
    say.
    """
    problem = sides.called.problem
    try:
        certificates = certify(sides, claim, alpha)
    except InvalidRun as error:
        problem = "; ".join(filter(None, (problem, str(error))))
        return Finding(attack, False, "nothing was certified", alpha, reproduce, None, problem)
    best = max(certificates, key=lambda one: one.epsilon - one.claimed)
    apart = any(certificate.refuted for certificate in certificates)
    text = (
        f"the outputs {'tell' if apart else 'do not tell'} the inputs apart beyond {claim}; {seen}"
    )
    return Finding(attack, apart, text, alpha, reproduce, best, problem)
