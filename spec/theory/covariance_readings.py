"""Readings from the transcript of a covariance so far: number of records, map, scale, center and
fit.

A mechanism's parameters are those of ``gaussian_covariance``, whose stages these are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency

from . import coordinates, normal_fits, preconditioning, shrinking, sign_readings
from .gaussian_laws import UNIT
from .laws import Outcome, real
from .outer_products import DIAGONAL, OFF_DIAGONAL
from .sign_readings import cells
from .signs import START_BITS, Row, start
from .whitening import about_location, count_of, octave, place, solved, stepped, whole_cells

Parameters = Mapping[str, Any]
Prefix = tuple[Outcome, ...]

RADIUS = 1 << 17
FAILS = mp.mpf(1) / 100


@dataclass(frozen=True)
class Sphere:
    """Map with its moved center, the length of a deviation in image cells, and the quarter octave
    of the number of records.
    """

    row: Row
    moved: tuple[int, ...]
    long: Any
    octave: int


# --- public numbers -----------------------------------------------------------------------------


def adds(parameters: Parameters) -> bool:
    """Return whether the number of records is private."""
    return parameters["adjacency"] is Adjacency.ADD_REMOVE


def has_rounds(parameters: Parameters) -> bool:
    """Return whether there are rounds of whitening."""
    return parameters["rounds"] > 0 and len(parameters["center"]) > 1


def has_signs(parameters: Parameters) -> bool:
    """Return whether these are rounds of signs."""
    return has_rounds(parameters) and parameters["method"] == "sign"


def others(parameters: Parameters) -> int:
    """Return the number of rounds that are not of signs."""
    only = has_rounds(parameters) and not has_signs(parameters)
    return int(parameters["rounds"]) if only else 0


def share_of(parameters: Parameters, name: str) -> Fraction:
    """Return a share of mu^2 that is given by its parameter's name, 0 for none."""
    return Fraction(parameters[name] or 0)


def left(parameters: Parameters) -> Fraction:
    """Return the share of mu^2 that remains for the moments."""
    used = [share_of(parameters, f"{name}_share") for name in ("check", "scale", "mean")]
    rounds = share_of(parameters, "rounds_share") if has_rounds(parameters) else Fraction(0)
    return 1 - sum(used) - share_of(parameters, "certify") - rounds


def steps(parameters: Parameters) -> int:
    """Return the number of steps of the search for the scale; 0 where, without rounds, the largest
    deviation is public.
    """
    searched = has_rounds(parameters) or parameters["largest"] is None
    return int(parameters["scale_steps"]) if searched else 0


def step_share(parameters: Parameters) -> Fraction:
    """Return the share of mu^2 of one step, and of the number where nothing else gives one."""
    number = steps(parameters) + (adds(parameters) and not has_signs(parameters))
    return share_of(parameters, "scale_share") / max(number, 1)


def weight(parameters: Parameters) -> int:
    """Return the weight of the number beside the moments."""
    if adds(parameters):
        return RADIUS**2 // 8
    return RADIUS**2 if parameters["outside"] == "mask" else 0


def _noise(parameters: Parameters, moves: Fraction, share: Fraction) -> Fraction:
    return Fraction(parameters["noise_multiplier"]) * shrinking.root_up(moves / share)


def moments_noise(parameters: Parameters, share: Fraction) -> Fraction:
    """Return the noise of a diagonal entry, in records that fill the ball."""
    moves = 1 + Fraction(weight(parameters), RADIUS**2) ** 2 if adds(parameters) else Fraction(2)
    return _noise(parameters, moves, share)


def side_noise(parameters: Parameters, share: Fraction) -> Fraction:
    """Return the noise of a count of one side minus the other, in records; or of a mean, in
    records at the ball's end.
    """
    return _noise(parameters, Fraction(1 if adds(parameters) else 4), share)


def round_share(parameters: Parameters) -> Fraction:
    """Return the share of mu^2 for a round that is not of signs."""
    return share_of(parameters, "rounds_share") / Fraction(parameters["rounds"])


def round_noise(parameters: Parameters) -> Fraction:
    """Return the noise of a diagonal entry in a round that is not of signs, in records that fill
    the ball; the number is not released with it.
    """
    return _noise(parameters, Fraction(1 if adds(parameters) else 2), round_share(parameters))


def round_outside(parameters: Parameters) -> str:
    """Return the treatment of long images in a round that is not of signs."""
    return "clip" if parameters["method"] == "spectral" else "mask"


def shape(parameters: Parameters) -> dict[str, Any]:
    """Return the parameters of rounds of signs."""
    names = ("adjacency", "center", "cell", "scale", "rounds", "at_least", "precision")
    factor = shrinking.root_up(1 / share_of(parameters, "rounds_share"))
    own = {name: parameters[name] for name in names}
    return {
        **own,
        "shares": None,
        "noise_multiplier": Fraction(parameters["noise_multiplier"]) * factor,
    }


def at_least(parameters: Parameters) -> int:
    """Return the least number of records: that of the rounds; without rounds, that of the moments
    and the search.
    """
    if has_signs(parameters):
        return int(sign_readings.at_least(shape(parameters)))
    if parameters["at_least"] is not None:
        return int(parameters["at_least"])
    d, (moves, sides) = len(parameters["center"]), (1, 1) if adds(parameters) else (2, 4)
    share = left(parameters)
    if has_rounds(parameters):
        share = min(share, round_share(parameters))
    square = max(8 * moves * d**3 / share, 9 * sides / step_share(parameters))
    least = math.ceil(Fraction(parameters["noise_multiplier"]) * shrinking.root_up(square))
    return min(least, 1 << 60)


def _mu(parameters: Parameters, share: Fraction) -> Any:
    noise = real(_noise(parameters, Fraction(1), share))
    return 1 / min(max(noise, mp.mpf(10) ** -100), mp.mpf(10) ** 100)


def bound(parameters: Parameters, k: int) -> Any:
    """Return the squared length at which moments are clipped, in deviations."""
    mask = parameters["outside"] == "mask"
    moves, own = (1, mp.mpf(1) / 8) if adds(parameters) else (2, mp.mpf(int(mask)))
    d, mu = len(parameters["center"]), _mu(parameters, left(parameters))
    return normal_fits.best_bound(d, count_of(k), mu, moves, parameters["outside"], own)


def mean_bound(parameters: Parameters, k: int) -> Any:
    """Return the squared length at which the mean is clipped, in deviations."""
    d, mu = len(parameters["center"]), _mu(parameters, share_of(parameters, "mean_share"))
    return normal_fits.best_mean_bound(d, count_of(k), mu, 1 if adds(parameters) else 2)


def least_eigenvalue(parameters: Parameters, k: int) -> Any:
    """Return the number below which an eigenvalue of the moments counts as noise: a quarter of the
    noise's norm, s sqrt(2 d).
    """
    noise = real(moments_noise(parameters, left(parameters)))
    return noise * mp.sqrt(2 * len(parameters["center"])) / (4 * count_of(k))


def rare_length(parameters: Parameters, k: int) -> Any:
    """Return a length that some normal record exceeds with probability at most FAILS / 2, by
    Laurent and Massart.
    """
    d, level = len(parameters["center"]), mp.log(2 * count_of(k) / FAILS)
    return mp.sqrt(d + 2 * mp.sqrt(d * level) + 2 * level)


# --- what follows from what was released --------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """Transcript prefix with its parameters, read stage by stage."""

    parameters: Parameters
    prefix: Prefix
    n: int | None

    def first(self) -> int:
        """Return the number of outcomes that the number and the rounds take."""
        return (self.parameters["rounds"] if has_rounds(self.parameters) else 0) + self._counts()

    def _counts(self) -> bool:
        return self.n is not None or not has_signs(self.parameters)

    def count(self) -> Fraction:
        """Return the first released number of records; ``at_least`` if it is below."""
        p = self.parameters
        if self.n is not None:
            number = Fraction(self.n)
        elif has_signs(p):
            number = sign_readings.counted(shape(p), self.prefix[0], None)
        else:
            number = self.prefix[0][0] * side_noise(p, step_share(p)) / UNIT
            number = min(max(number, -Fraction(10**18)), Fraction(10**18))
        return max(number, Fraction(at_least(p)))

    def row(self) -> tuple[Row, tuple[int, ...]]:
        """Return the map after the rounds, about the center that they found."""
        p, d = self.parameters, len(self.parameters["center"])
        if not has_rounds(p):
            return start(d), (0,) * d
        outcomes = self.prefix[self._counts() : self.first()]
        if not has_signs(p):
            return self.rounded(outcomes)[0], (0,) * d
        public = sign_readings.map_after(shape(p), outcomes, self.n)
        if p["scale"] is None:
            return public, (0,) * d
        return about_location(public, d, sign_readings.constant(shape(p)))

    def rounded(self, outcomes: Sequence[Outcome]) -> preconditioning.State:
        """Return the map after so many rounds that are not of signs, and the largest deviation as
        its image.
        """
        p = self.parameters
        after = {
            "spectral": preconditioning.spectral_map_after,
            "recursive": preconditioning.recursive_map_after,
        }
        return after[p["method"]](outcomes, self.public())

    def public(self) -> preconditioning.Public:
        """Return the public values that their maps depend on beside the released outcomes."""
        p = self.parameters
        return preconditioning.Public(
            d=len(p["center"]),
            count=self.count(),
            noise=round_noise(p),
            kappa=Fraction(p["kappa"]),
            long=Fraction(p["largest"]) / min(cells(p)) * 2**START_BITS,
            precision=p["precision"],
        )

    def of_round(self, t: int) -> tuple[Row, int]:
        """Return the map of a round that is not of signs, numbered from 0, and the length up to
        which images count.
        """
        public = self.public()
        state = self.rounded(self.prefix[1 : 1 + t])
        return state[0], preconditioning.reach_in_cells(public, state)

    def threshold(self, step: int) -> int:
        """Return the threshold of a step of the search."""
        values = [outcome[0] for outcome in self.prefix[self.first() : self.first() + step]]
        return place(coordinates.middle(values))

    def measured(self) -> Sphere:
        """Return the sphere after the search, or with the public length."""
        p = self.parameters
        if steps(p):
            median = normal_fits.length_within(len(p["center"]), mp.mpf("0.5"))
            long = self.threshold(steps(p)) / median
        else:
            long = real(Fraction(p["largest"]) / min(cells(p))) * 2**START_BITS
        row, moved = self.row()
        return Sphere(row, moved, long, octave(self.count()))

    @cached_property
    def sphere(self) -> Sphere:
        """Return the sphere after the mean, if there is one: its center moved by whole cells."""
        p, sphere = self.parameters, self.measured()
        if not share_of(p, "mean_share"):
            return sphere
        d, square = len(p["center"]), mean_bound(p, sphere.octave)
        outcome = self.prefix[self.first() + steps(p)]
        one = side_noise(p, share_of(p, "mean_share")) / UNIT
        rough = [_quotient(v * one, self.count(), p["precision"]) for v in outcome]
        length = mp.sqrt(square) / normal_fits.mean_response(d, square)
        images = [sphere.long * length * v / 2 ** p["precision"] for v in rough]
        by = solved(sphere.row, d, images)
        moved = whole_cells([b + m for b, m in zip(by, sphere.moved, strict=True)])
        return replace(sphere, moved=moved)

    def moments(self) -> tuple[Outcome, tuple[int, ...]]:
        """Return the released moments, and the same over the number of records in 2^-precision
        squared radii.
        """
        p, d = self.parameters, len(self.parameters["center"])
        outcome = self.prefix[self.first() + steps(p) + bool(share_of(p, "mean_share"))]
        one, width = moments_noise(p, left(p)) / UNIT, d * (d + 1) // 2
        number = self.count() if not weight(p) else outcome[width] * one * RADIUS**2 / weight(p)
        number = max(number, Fraction(at_least(p), 2))
        ratios = [Fraction(1)] * d + [Fraction(DIAGONAL, OFF_DIAGONAL)] * (width - d)
        seen = tuple(
            _quotient(v * one * r, number, p["precision"])
            for v, r in zip(outcome[:width], ratios, strict=True)
        )
        return outcome, seen

    @cached_property
    def fit(self) -> Sphere:
        """Return the map that makes the fit a sphere."""
        p, sphere, d = self.parameters, self.sphere, len(self.parameters["center"])
        floor = least_eigenvalue(p, sphere.octave)
        radius = mp.sqrt(bound(p, sphere.octave))
        law = normal_fits.fitted(self.moments()[1], d, p["precision"], floor, p["outside"])
        if law is None:
            return replace(sphere, long=sphere.long * radius / mp.sqrt(d))
        variances, turns = law
        least = min(variances)
        roots = mp.diag([mp.sqrt(least / v) for v in variances])
        row, bits = stepped(turns * roots * turns.T, sphere.row, d)
        long = mp.sqrt(least) * mp.mpf(2) ** bits * sphere.long * radius
        return replace(sphere, row=row, long=long)


def _quotient(value: Fraction, number: Fraction, precision: int) -> int:
    """Return the quotient to the nearest multiple of 2^-precision, clamped to [-4, 4]."""
    return round(min(max(value / number, Fraction(-4)), Fraction(4)) * (1 << precision))
