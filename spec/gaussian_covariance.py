"""Spec of ``gaussian_covariance``: rounds, a search for the scale, a mean, clipped second moments,
a count.

spec/theory/covariance_readings.py computes the parameters of each stage from the transcript.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from . import sign_covariance
from .theory import (
    clipped_errors,
    covariance_tracing,
    normal_fits,
    outer_products,
    shrinking,
    sign_readings,
    vectors,
)
from .theory.caches import cache
from .theory.covariance_packing import RATIO, records_for_ratio
from .theory.covariance_readings import (
    RADIUS,
    Parameters,
    Prefix,
    Reading,
    adds,
    at_least,
    bound,
    has_rounds,
    has_signs,
    left,
    mean_bound,
    moments_noise,
    others,
    rare_length,
    round_noise,
    round_outside,
    shape,
    share_of,
    side_noise,
    step_share,
    steps,
    weight,
)
from .theory.gaussian_laws import UNIT, RoundedGaussianLaw, one_unit
from .theory.laws import IntegerLaw, Outcome, PointLaw, TranscriptLaw, real
from .theory.obligations import Departure, neighbors, require
from .theory.queries import of_each
from .theory.sign_readings import cells
from .theory.signs import Row
from .theory.whitening import (
    octave,
    reach,
)

Record = Fraction | tuple[Fraction, ...]

FINE = mp.mpf(9) / 10
_DIAGONAL, _OFF_DIAGONAL = outer_products.DIAGONAL, outer_products.OFF_DIAGONAL
DEPARTURES = (
    Departure(
        "BDKU20, multivariate covariance",
        "rounds of signs in place of clipped second moments, and a search for the scale",
        "they need no bound on the eigenvalues or their ratio",
    ),
    Departure(
        "BDKU20, the last round",
        "clipped where the predicted error is least, and calibrated at the normal law",
        "clipping hardly any record needs a ball of which the noise is twice as large",
    ),
    Departure(
        "KLSU19, covariance",
        "records beyond the ball are clipped by default; left out with outside='mask'",
        "clipped records keep a part of their weight: less noise for the same error",
    ),
)
_STAGES = Source("OURS", "covariance after private signs", note="exact Gaussian DP")
_GAUSSIAN = Source("DRS22", "composition of GDP", note="adaptive")


# --- the law ------------------------------------------------------------------------------------


def rows_of(parameters: Parameters, records: Sequence[Record]) -> list[tuple[Fraction, ...]]:
    """Return the records in cells."""
    units = cells(parameters)

    def in_cells(record: Record) -> tuple[Fraction, ...]:
        row = record if isinstance(record, tuple) else (record,)
        return tuple(x / c for x, c in zip(row, units, strict=True))

    return of_each(in_cells, records)


def public_map(parameters: Parameters, row: Row, moved: Sequence[int]) -> vectors.Map:
    """Return the map of a row, its center moved, within the grid."""
    d = len(parameters["center"])
    near = zip(parameters["center"], cells(parameters), moved, strict=True)
    center = tuple(min(max(round(Fraction(c) / u) + m, -(1 << 40)), 1 << 40) for c, u, m in near)
    matrix = tuple(row[i * d : (i + 1) * d] for i in range(d))
    return vectors.Map(center, RADIUS, Fraction(1), matrix)


Stage = tuple[str, Callable[[Reading], IntegerLaw]]


def _stages(parameters: Parameters, records: Sequence[Record]) -> list[Stage]:
    """Return the stages: rounds that are not of signs, the search, the mean, the moments, the
    count, the certificate.
    """
    p, rows = parameters, rows_of(parameters, records)
    d, how = len(p["center"]), p["outside"]

    @cache
    def sides(row: Row, moved: tuple[int, ...], far: int, share: Fraction) -> IntegerLaw:
        value = outer_products.length_sides(rows, public_map(p, row, moved), far)
        return RoundedGaussianLaw(one_unit(value, side_noise(p, share)), UNIT)

    @cache
    def second(row: Row, moved: tuple[int, ...], far: int, share: Fraction) -> IntegerLaw:
        where = public_map(p, row, moved)
        value = outer_products.second_moments(rows, where, how, weight(p), reach=far)
        return RoundedGaussianLaw(
            one_unit(value, moments_noise(p, share) * _DIAGONAL * RADIUS**2), UNIT
        )

    def step(k: int) -> Stage:
        return f"length {k + 1}", lambda r: sides(*r.row(), r.threshold(k), step_share(p))

    def mean(r: Reading) -> IntegerLaw:
        sphere, share = r.measured(), share_of(p, "mean_share")
        far = reach(sphere.long, mp.sqrt(mean_bound(p, sphere.octave)))
        where = public_map(p, sphere.row, sphere.moved)
        value = outer_products.first_moments(rows, where, "clip", reach=far)
        return RoundedGaussianLaw(one_unit(value, side_noise(p, share) * RADIUS), UNIT)

    def moments(r: Reading) -> IntegerLaw:
        sphere = r.sphere
        far = reach(sphere.long, mp.sqrt(bound(p, sphere.octave)))
        return second(sphere.row, sphere.moved, far, left(p))

    def beyond(r: Reading) -> IntegerLaw:
        sphere = r.fit
        far = reach(sphere.long, normal_fits.length_within(d, FINE))
        return sides(sphere.row, sphere.moved, far, share_of(p, "check_share"))

    def certificate(r: Reading) -> IntegerLaw:
        sphere = r.fit
        far = reach(sphere.long, rare_length(p, sphere.octave))
        return second(sphere.row, sphere.moved, far, share_of(p, "certify"))

    @cache
    def weighed(row: Row, far: int) -> IntegerLaw:
        where = public_map(p, row, (0,) * d)
        value = outer_products.second_moments(rows, where, round_outside(p), 0, reach=far)
        return RoundedGaussianLaw(one_unit(value, round_noise(p) * _DIAGONAL * RADIUS**2), UNIT)

    def a_round(t: int) -> Stage:
        return f"round {t + 1}", lambda r: weighed(*r.of_round(t))

    stages = [a_round(t) for t in range(others(p))]
    stages += [step(k) for k in range(steps(p))]
    stages += [("mean", mean)] if share_of(p, "mean_share") else []
    stages += [("moments", moments), ("beyond", beyond)]
    return [*stages, ("certificate", certificate)] if share_of(p, "certify") else stages


def _first(parameters: Parameters, records: Sequence[Record]) -> list[Any]:
    """Return the first stages: rounds of signs; or the number, noisy if it is private."""
    p = parameters
    if has_signs(p):
        own = sign_covariance.law(shape(p), records)
        return [(f"shape/{name}", stage) for name, stage in own.stages]
    n = len(records)
    if not adds(p):
        return [("count", lambda prefix: PointLaw((n,)))]
    noisy = RoundedGaussianLaw(one_unit((n,), side_noise(p, step_share(p))), UNIT)
    return [("count", lambda prefix: noisy)]


def _widths(parameters: Parameters) -> list[int]:
    """Return the widths of all stages but the last."""
    p, d = parameters, len(parameters["center"])
    k = sign_readings.size(shape(p)) if has_signs(p) else d
    rounds = [k * (k + 1) // 2] * (p["rounds"] if has_rounds(p) else 0)
    first = ([1] if not adds(p) or not has_signs(p) else []) + rounds
    moments = d * (d + 1) // 2 + bool(weight(p))
    own = [*first, *([1] * steps(p)), *([d] if share_of(p, "mean_share") else []), moments]
    return [*own, 1] if share_of(p, "certify") else own


@states(_STAGES, _GAUSSIAN)
def law(parameters: Parameters, records: Sequence[Record]) -> TranscriptLaw:
    """Return the law of each stage after the map that the transcript so far leads to."""
    return _law(parameters, records, partial(Reading, parameters))


def _law(
    parameters: Parameters,
    records: Sequence[Record],
    read: Callable[[Prefix, int | None], Reading],
) -> TranscriptLaw:
    """Return the law; what follows from a prefix is the same for all datasets of a size, which may
    share it.
    """
    n = len(records) if not adds(parameters) else None
    rest = [
        (name, lambda prefix, stage=stage: stage(read(prefix, n)))
        for name, stage in _stages(parameters, records)
    ]
    widths = _widths(parameters)
    example: list[Outcome] = [(0,) * width for width in widths]
    if n is not None:
        example[0] = (n,)
    return TranscriptLaw((*_first(parameters, records), *rest), tuple(example))


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the squared sensitivity of each stage, in one unit: the same for every map."""
    p, d = parameters, len(parameters["center"])
    stated: dict[str, int] = {}
    if has_signs(p):
        own = sign_covariance.sensitivities(shape(p))
        stated = {f"shape/{name}": value for name, value in own.items()}
    one = outer_products.sides_squared(p["adjacency"])

    def sides(share: Fraction) -> int:
        return vectors.one_unit_sensitivity(one, side_noise(p, share), 1, int(UNIT))

    if not has_signs(p):
        stated["count"] = sides(step_share(p)) if adds(p) else 0
    for t in range(others(p)):
        scale = round_noise(p) * _DIAGONAL * RADIUS**2
        moved = outer_products.moved_squared(RADIUS, 0, round_outside(p), p["adjacency"])
        entries = d * (d + 1) // 2
        stated[f"round {t + 1}"] = vectors.one_unit_sensitivity(moved, scale, entries, int(UNIT))
    stated |= {f"length {k + 1}": sides(step_share(p)) for k in range(steps(p))}
    if share_of(p, "mean_share"):
        scale = side_noise(p, share_of(p, "mean_share")) * RADIUS
        moved = outer_products.first_squared(RADIUS, p["adjacency"])
        stated["mean"] = vectors.one_unit_sensitivity(moved, scale, d, int(UNIT))
    moved = outer_products.moved_squared(RADIUS, weight(p), p["outside"], p["adjacency"])
    width = d * (d + 1) // 2 + bool(weight(p))

    def moments(share: Fraction) -> int:
        scale = moments_noise(p, share) * _DIAGONAL * RADIUS**2
        return vectors.one_unit_sensitivity(moved, scale, width, int(UNIT))

    stated |= {"moments": moments(left(p)), "beyond": sides(share_of(p, "check_share"))}
    return stated | (
        {"certificate": moments(share_of(p, "certify"))} if share_of(p, "certify") else {}
    )


# --- error --------------------------------------------------------------------------------------


def _parts(parameters: Parameters, n: int, share: Any) -> Any:
    """Return the predicted squared error of the estimate, with ``share`` of the noise's part, and
    of sampling.
    """
    p, d = parameters, len(parameters["center"])
    square = bound(p, octave(Fraction(n)))
    scale = share * real(moments_noise(p, left(p))) * square / n
    of_count = scale * RADIUS**2 / (weight(p) * square) if weight(p) else mp.mpf(0)
    return clipped_errors.expected_error(d, n, square, scale, of_count, p["outside"])


@states(_STAGES)
def expected_error(parameters: Parameters, n: int) -> Any:
    """Return the root mean squared Frobenius norm of (estimate - covariance) where that is the
    identity, of normal records, to first order: noise and sampling of the moments, after
    rounds, scale and center that are right.
    """
    return _parts(parameters, n, mp.mpf(1))


@states(_STAGES)
def noise_error(parameters: Parameters, n: int) -> Any:
    """Return the noise's part of the expected error."""
    return mp.sqrt(_parts(parameters, n, mp.mpf(1)) ** 2 - _parts(parameters, n, mp.mpf(0)) ** 2)


@states(_STAGES, Source("BDKU20", "tail of a squared normal length", note="shrinking.clip_radius"))
def error_bound(parameters: Parameters, n: int, beta: Fraction) -> Any:
    """Return a bound on the Frobenius norm of the noise in the moments over n records, in squared
    radii, as for ``sign_covariance``; it fails with probability at most beta.
    """
    d = len(parameters["center"])
    width = d * (d + 1) // 2
    s = real(moments_noise(parameters, left(parameters)))
    length = mp.sqrt(mp.mpf(57122) / 57121) * shrinking.clip_radius(0, width, beta)
    return s / n * (length + mp.sqrt(width) / real(UNIT))


@states(covariance_tracing.BOUND)
def lower_bound(parameters: Parameters, n: int) -> Any:
    """Return a lower bound on the root mean squared error at some covariance of every estimate of
    this privacy; without privacy, at the identity.
    """
    d, mu = len(parameters["center"]), 1 / real(Fraction(parameters["noise_multiplier"]))
    private = covariance_tracing.least_error(d, n + adds(parameters), mu)
    return max(private, covariance_tracing.sampling_error(d, n))


# --- obligations --------------------------------------------------------------------------------

_UNIVERSE = tuple(
    (Fraction(x), Fraction(y)) for x, y in ((0, 0), (1, 0), (0, -2), (-1, 0), (-(10**30), 10**30))
)


def _parameters(adjacency: Adjacency, **changes: Any) -> dict[str, Any]:
    return {
        "adjacency": adjacency,
        "noise_multiplier": Fraction(3, 2),
        "center": (0.0, 0.0),
        "cell": Fraction(1, 64),
        "scale": None,
        "rounds": 0,
        "method": "sign",
        "kappa": None,
        "largest": None,
        "outside": "clip",
        "rounds_share": Fraction(1, 4),
        "scale_share": Fraction(3, 100),
        "check_share": Fraction(1, 50),
        "mean_share": None,
        "certify": None,
        "scale_steps": 1,
        "at_least": 1,
        "precision": 4,
        **changes,
    }


_WORLDS: tuple[dict[str, Any], ...] = (
    {},
    {"largest": 1.0, "outside": "mask"},
    {"rounds": 1, "scale": Fraction(1), "mean_share": Fraction(1, 5)},
    {"certify": Fraction(1, 10)},
    {"rounds": 1, "method": "spectral", "kappa": 4.0, "largest": 2.0},
    {"rounds": 2, "method": "recursive", "kappa": 40.0, "largest": 2.0},
)


def _prefix(parameters: Parameters, n: int, turned: int) -> Prefix:
    """Return the outcomes that n even records would release, or none at all, on either side of
    thresholds.
    """
    p, d = parameters, len(parameters["center"])
    outcomes: list[Outcome] = []
    for name, width in zip(sensitivities(p), [*_widths(p), 1], strict=True):
        if name.endswith("count"):
            one = side_noise(p, step_share(p)) if adds(p) else UNIT
            outcomes.append((round(n * UNIT / one),))
        elif width == 1:
            outcomes.append((turned * 3 * int(UNIT),))
        elif name == "mean":
            outcomes.append((turned * int(UNIT), 0))
        else:
            k, one = d, moments_noise(p, left(p))
            if name.startswith("shape"):
                k = sign_readings.size(shape(p))
                one = sign_readings.deviation(shape(p), int(name.split()[-1]) - 1)
            elif name.startswith("round"):
                one = round_noise(p)
            each = int(n * UNIT / (5 * k * one))
            rest = [0] * (k * (k - 1) // 2)
            counted = width - k * (k + 1) // 2
            outcomes.append(
                (*[each] * k, *rest, *[int(n * weight(p) / RADIUS**2 / one * UNIT)] * counted)
            )
    return tuple(outcomes)


@states(_STAGES, _GAUSSIAN)
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check that the squares of the exact mu of all stages sum to at most
    (claimed / multiplier)^2, on all neighbors of at most 2 records after two transcripts.

    That is up to the grid's 2^-16. The sum is also at most the code's sensitivities in one
    unit. Without rounds, for some clipped pair it is within a tenth of the bound (no pair moves
    all stages most at once).
    """
    cases = 0
    for adjacency, changes in product(Adjacency, _WORLDS):
        parameters = _parameters(adjacency, **changes)
        stated = sum(sensitivities(parameters).values()) / UNIT**2
        square, reached = (claimed / parameters["noise_multiplier"]) ** 2, Fraction(0)
        for turned in (-1, 1):
            prefix = _prefix(parameters, 2, turned)
            largest, count = _largest_square(parameters, prefix)
            case = f"{parameters} after {prefix}: mu^2 = {float(largest)}, stated {float(stated)}"
            require(largest <= stated <= square * (1 + Fraction(1, 2**16)), case)
            reached, cases = max(reached, largest), cases + count
        if parameters["rounds"] == 0 and parameters["outside"] == "clip":
            require(reached * Fraction(10, 9) >= square, f"{parameters}: only {float(reached)}")
    return cases


def _largest_square(parameters: Parameters, prefix: Prefix) -> tuple[Fraction, int]:
    """Return the largest sum of the stages' squared mu over all neighbors after a prefix, and the
    number of pairs.
    """
    public = not adds(parameters)
    known: dict[Any, list[Any]] = {}
    read = cache(partial(Reading, parameters))
    largest, count = Fraction(0), 0
    for pair in neighbors(_UNIVERSE, 2, parameters["adjacency"]):
        if public and len(pair[0]) != 2:
            continue
        for records in pair:
            if records not in known:
                stages = _law(parameters, records, read).stages[public:]
                known[records] = [
                    stage(prefix[: t + public]) for t, (_, stage) in enumerate(stages)
                ]
        ours, theirs = (known[records] for records in pair)
        both = zip(ours, theirs, strict=True)
        largest = max(largest, sum((a.mu_squared(b) for a, b in both), Fraction(0)))
        count += 1
    return largest, count


@states(_STAGES)
def obligation_lower_bound_is_below_error(within: Fraction = Fraction(3, 2)) -> int:
    """Check that the expected error is above the lower bound and at most 3/2 times it where n is
    large.
    """
    cases = 0
    for adjacency, (d, n) in product(Adjacency, ((2, 4000), (10, 40_000), (50, 10**6))):
        parameters = _parameters(adjacency, center=(0.0,) * d, rounds=8)
        least, error = lower_bound(parameters, n), expected_error(parameters, n)
        require(least <= error <= real(within) * least, f"{parameters}, {n}: {least}, {error}")
        cases += 1
    return cases


@states(RATIO)
def least_for_kappa(parameters: Parameters, beta: Fraction) -> int:
    """Compute the number of records that any estimate of this privacy needs to be within
    1/4 (relative) of every covariance between I and kappa I, except with probability beta:
    about d sqrt(ln kappa) / (2 mu), by packing.
    """
    d, mu = len(parameters["center"]), 1 / real(Fraction(parameters["noise_multiplier"]))
    alpha, adjacency = mp.mpf(1) / 4, parameters["adjacency"]
    return records_for_ratio(d, mp.mpf(parameters["kappa"]), alpha, beta, adjacency, mu=mu)


@states(RATIO, Source("BDKU20", "whitening in rounds", note="their records against the packing's"))
def obligation_kappa(claimed: Callable[[Parameters, Fraction], int] = least_for_kappa) -> int:
    """Check that the least number for recursive rounds, two for each factor of 3 in kappa, is
    above what any estimate needs, and within 40 sqrt(d) times of it: both grow as
    sqrt(ln kappa), and that of the rounds with d^(3/2), not d.
    """
    cases = 0
    for adjacency, d, factors in product(Adjacency, (2, 16), (3, 10)):
        parameters = _parameters(
            adjacency,
            center=(0.0,) * d,
            method="recursive",
            rounds=2 * factors,
            kappa=float(3**factors),
            largest=1.0,
            at_least=None,
            noise_multiplier=Fraction(10),
        )
        least, taken = claimed(parameters, Fraction(1, 100)), at_least(parameters)
        case = f"{adjacency}, d = {d}, kappa = 3^{factors}: {least}, {taken}"
        require(least <= taken <= 40 * mp.sqrt(d) * least, case)
        cases += 1
    return cases
