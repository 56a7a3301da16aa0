"""Signs of elliptical vectors, and the maps that make them even: the effect of an iteration on
released matrices.

y has a law that is symmetric under the rotations of its whitened coordinates, and the scatter
diag(lambda); u = y / |y|. phi(lambda) are the eigenvalues of E u u^T, of sum 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .caches import lru_cache
from .laws import real
from .obligations import require
from .outer_products import DIAGONAL, OFF_DIAGONAL

Row = tuple[int, ...]
DIGITS = 25
START_BITS, LEAST_BITS, MOST_BITS, STEP_BITS = 16, 8, 40, 26
_SIGNS = Source("T87", "signs of an elliptical law", note="phi, in closed form for 2 and 3 numbers")


def sphere_spectrum(spectrum: Sequence[Any]) -> list[Any]:
    """Return phi(lambda), of sum 1.

    Let y = diag(lambda)^(1/2) g, g normal: u has the same law. 1 / |y|^2 = int_0^oo
    exp(-t |y|^2) dt, so E y_i^2 / |y|^2 = int E y_i^2 exp(-t |y|^2) dt = int lambda_i /
    (1 + 2 lambda_i t) prod_j (1 + 2 lambda_j t)^(-1/2) dt. For two numbers phi_i is
    sqrt(lambda_i) / (sqrt(lambda_1) + sqrt(lambda_2)). For three it is Carlson's R_D at a_j =
    1 / (2 lambda_j); the three add up to 3 / sqrt(a_1 a_2 a_3), which gives the largest.
    """
    if len(spectrum) == 2:
        parts = [mp.sqrt(one) for one in spectrum]
    elif len(spectrum) == 3:
        ends = [1 / (2 * one) for one in spectrum]
        parts = [mp.mpf(0)] * 3
        largest = max(range(3), key=lambda i: spectrum[i])
        for i in {*range(3)} - {largest}:
            parts[i] = mp.elliprd(*(ends[:i] + ends[i + 1 :]), ends[i])
        parts[largest] = 3 / mp.sqrt(mp.fprod(ends)) - mp.fsum(parts)
    else:
        parts = [sphere_part(spectrum, i) for i in range(len(spectrum))]
    total = mp.fsum(parts)
    return [one / total for one in parts]


def sphere_part(spectrum: Sequence[Any], i: int) -> Any:
    """Return the integral for coordinate i, over the logarithm of t."""

    def term(u: Any) -> Any:
        t = mp.exp(u)
        own = spectrum[i] * t / (1 + 2 * spectrum[i] * t)
        return own / mp.sqrt(mp.fprod(1 + 2 * one * t for one in spectrum))

    middle = -mp.log(mp.fsum(spectrum))
    return mp.quad(term, [middle - 60, middle - 20, middle, middle + 20, middle + 60])


def spectrum_of(shares: Sequence[Any]) -> list[Any]:
    """Return the lambda, of largest 1, with phi(lambda) = shares over their sum.

    Each step multiplies lambda by exp(H ln(shares / phi)). H begins as 1.2 times the identity and
    is corrected by Broyden's rule, so that it takes the last step's change of phi into account.
    """
    total = mp.fsum(shares)
    wanted = [one / total for one in shares]
    spectrum, step, before = list(wanted), mp.matrix(len(wanted), 1), mp.matrix(len(wanted), 1)
    inverse = mp.mpf("1.2") * mp.eye(len(wanted))
    for _ in range(200):
        phi = sphere_spectrum(spectrum)
        missing = mp.matrix([mp.log(w / p) for w, p in zip(wanted, phi, strict=True)])
        if mp.norm(missing, mp.inf) < mp.mpf(10) ** (8 - DIGITS):
            break
        change = inverse * (before - missing)
        if (scale := (step.T * change)[0]) != 0:
            inverse += (step - change) * (step.T * inverse) / scale
        step, before = inverse * missing, missing
        spectrum = [one * mp.exp(by) for one, by in zip(spectrum, step, strict=True)]
    return [one / max(spectrum) for one in spectrum]


def measured(value: Sequence[int], precision: int, d: int) -> Row | None:
    """Return a released value over its trace, in 2^-precision, to the nearest integers; None
    unless the trace is positive.
    """
    trace = sum(value[:d])
    if trace <= 0:
        return None
    one = 1 << precision
    entries = [Fraction(v * one, trace) for v in value[:d]]
    entries += [
        Fraction(v * one * DIAGONAL, trace * OFF_DIAGONAL) for v in value[d : d * (d + 1) // 2]
    ]
    return tuple(min(max(round(entry), -one), one) for entry in entries)


def symmetric(row: Sequence[Any], d: int) -> Any:
    """Return the symmetric matrix with this diagonal and upper triangle, row by row."""
    matrix, k = mp.zeros(d), d
    for i in range(d):
        matrix[i, i] = mp.mpf(row[i])
        for j in range(i + 1, d):
            matrix[i, j] = matrix[j, i] = mp.mpf(row[k])
            k += 1
    return matrix


def start(d: int) -> Row:
    """Return the map of the first round, 2^16 times the identity."""
    return tuple(int(i == j) << START_BITS for i in range(d) for j in range(d))


@lru_cache(maxsize=4096)
def next_map(public: Row, row: Row, precision: int, floor: Any) -> Row:
    """Return round(2^26 S) C over a power of two, S = V diag(least lambda / lambda)^(1/2) V^T for
    the measured matrix.

    The power leaves the least singular value between .7 and 1.4 times 2^16, unless an entry
    would have more than 40 bits; and below .7 times 2^8 the map is C again.
    """
    with mp.workdps(DIGITS):
        d = math.isqrt(len(public))
        matrix = symmetric(row, d)
        values, vectors = mp.eigsy(matrix / 2**precision)
        least_share = max(floor, mp.mpf(10) ** -12)
        spectrum = spectrum_of([max(value, least_share) for value in values])
        roots = [mp.sqrt(min(spectrum) / one) for one in spectrum]
        whole = [
            [
                int(
                    mp.nint(
                        2**STEP_BITS
                        * mp.fsum(vectors[i, k] * roots[k] * vectors[j, k] for k in range(d))
                    )
                )
                for j in range(d)
            ]
            for i in range(d)
        ]
        product = [
            sum(whole[i][k] * public[k * d + j] for k in range(d))
            for i in range(d)
            for j in range(d)
        ]
        least = min(mp.svd_r(mp.matrix(d, d) + _square(product, d), compute_uv=False))
        room = int(mp.floor(mp.log(least / mp.mpf("0.7"), 2))) if least > 0 else -MOST_BITS
        bits = max(max(map(abs, product)).bit_length() - MOST_BITS, room - START_BITS)
        if room - bits < LEAST_BITS:
            return public
        return tuple(round(v * Fraction(2) ** -bits) for v in product)


def _square(numbers: Sequence[int], d: int) -> Any:
    return mp.matrix([[mp.mpf(numbers[i * d + j]) for j in range(d)] for i in range(d)])


# --- obligations --------------------------------------------------------------------------------

_SPECTRA = ((1, 1), (1, 4), (1, 10**6), (1, 1, 1), (1, 2, 5), (1, 1, 1000), (1, 10**4, 10**8))


@states(_SIGNS)
def obligation_sphere_spectrum(claimed: Callable[..., list[Any]] = sphere_spectrum) -> int:
    """Check that the closed forms are the integral, to 12 digits; that equal numbers have equal
    parts, and more of one gives more of its part; and that lambda_i / (sum + 2 lambda_i) <=
    phi_i (Jensen, for the size-biased law).
    """
    cases = 0
    with mp.workdps(DIGITS):
        for numbers in _SPECTRA:
            spectrum = [mp.mpf(n) for n in numbers]
            shares = claimed(spectrum)
            parts = [sphere_part(spectrum, i) for i in range(len(spectrum))]
            require(abs(mp.fsum(parts) - 1) < 1e-12, f"{numbers}: parts of sum {mp.fsum(parts)}")
            for one, part, own in zip(shares, parts, spectrum, strict=True):
                require(abs(one / part - 1) < 1e-12, f"{numbers}: {one}, not {part}")
                require(one >= own / (mp.fsum(spectrum) + 2 * own) * (1 - 1e-12), f"{numbers}")
                cases += 1
        equal = claimed([mp.mpf(3)] * 5)
        require(all(abs(5 * one - 1) < 1e-12 for one in equal), f"five equal numbers: {equal}")
    return cases + 1


@states(Source("OURS", "the map after which measured signs would be even"))
def obligation_spectrum_of(claimed: Callable[..., list[Any]] = spectrum_of) -> int:
    """Check that phi of the result is what was asked for, to 12 digits, for even and very uneven
    shares.
    """
    cases = 0
    with mp.workdps(DIGITS):
        for numbers in (*_SPECTRA, (1, 30, 10**5), (7, 7, 1)):
            wanted = [mp.mpf(n) / sum(numbers) for n in numbers]
            shares = sphere_spectrum(claimed(wanted))
            for one, part in zip(shares, wanted, strict=True):
                require(abs(one / part - 1) < 1e-12, f"{numbers}: {one}, not {part}")
                cases += 1
    return cases


@states(Source("OURS", "the map after which measured signs would be even"))
def obligation_next_map(claimed: Callable[[Row, Row, int, Any], Row] = next_map) -> int:
    """Check that signs of scatter diag(1, k), seen through the map they lead to, are even to
    2^-14; and that a rotation of what is measured rotates the map with it, so that nothing
    depends on the choice of eigenvectors.
    """
    cases = 0
    with mp.workdps(DIGITS):
        for k in (1, 4, 100, 10**4):
            for cosine, sine in ((1, 0), (mp.mpf(3) / 5, mp.mpf(4) / 5)):
                turn = mp.matrix([[cosine, -sine], [sine, cosine]])
                shares = sphere_spectrum([mp.mpf(1), mp.mpf(k)])
                seen = turn * mp.diag(shares) * turn.T * 2**40
                row = tuple(int(mp.nint(v)) for v in (seen[0, 0], seen[1, 1], seen[0, 1]))
                made = _square(claimed(start(2), row, 40, mp.mpf(10) ** -9), 2)
                after = made * turn * mp.diag([1, k]) * turn.T * made.T
                after = after / (after[0, 0] + after[1, 1])
                off = max(abs(after[0, 0] - 0.5), abs(after[0, 1]))
                require(off < real(Fraction(1, 2**14)), f"k = {k}, {cosine}: {after}")
                least = min(mp.svd_r(made, compute_uv=False)) / 2**START_BITS
                require(0.69 < least < 1.42, f"k = {k}: a least singular value of {least}")
                cases += 1
    return cases
