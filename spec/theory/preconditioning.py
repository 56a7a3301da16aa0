"""Whitening by noisy second moments in rounds: theorems and maps of CoinPress and the recursive
preconditioner.

Units: before a round the covariance S of the images satisfies l I <= S <= I, so that
kappa = 1 / l; the second moments of n images are H, (1 - eta) S <= H <= (1 + eta) S; Z = H + N
is released, |N| <= nu (the spectral norm). All this holds with high probability and for normal
records; privacy rests on none of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from . import whitening
from .gaussian_laws import UNIT
from .laws import Outcome, real
from .obligations import require
from .outer_products import DIAGONAL, OFF_DIAGONAL
from .signs import Row, start, symmetric
from .whitening import stepped as stepped

DIGITS = 25
LONGER, RARELY, ALLOWANCE = Fraction(1), Fraction(1, 20), Fraction(1, 10)
THRESHOLD, DIVISOR = Fraction(1, 2), 2
_SPECTRAL = Source("BDKU20", "MVC: rounds of U^(-1/2)", note="in the order U^(-1/2) A")
_RECURSIVE = Source(
    "KLSU19", "WeakPPC", note="constants derived here; I <= A S A holds only up to 1 - tau"
)


# --- theorems -----------------------------------------------------------------------------------


@states(_SPECTRAL, Source("OURS", "certificate of a round of U^(-1/2)"))
def certified(least: Any, eta: Any, nu: Any) -> Any:
    """Return l' = l / ((1 + eta) l + eta + 2 nu), for which l' I <= U^(-1/2) S U^(-1/2) <= I
    whenever l I <= S <= I, with U = Z + (eta + nu) I.

    Proof. H >= S - eta S >= S - eta I, hence U >= S - eta I - nu I + (eta + nu) I = S: the
    upper bound. And U <= (1 + eta) S + (eta + 2 nu) I <= ((1 + eta) + (eta + 2 nu) / l) S: the
    lower one, with equality for S = l I, H = (1 + eta) S and N = nu I. Also U >= H + eta
    I >= eta I. So eigenvalues of U that are below l, or below eta, may be raised to that: on
    these events there are none. QED

    l' > l below the fixed point (1 - eta - 2 nu) / (1 + eta), and l' is at least that from
    there on.
    """
    return least / ((1 + eta) * least + eta + 2 * nu)


@states(_SPECTRAL)
def smallest(kappa: Any, eta: Any, nu: Any) -> Any:
    """Return a number that no l of the recursion from 1 / kappa is below: the lesser of 1 / kappa
    and the fixed point.
    """
    fixed = (1 - eta - 2 * nu) / (1 + eta)
    return min(1 / kappa, max(fixed, 0 * fixed))


@states(_RECURSIVE, Source("OURS", "sandwich of a round that divides large directions"))
def sandwich(kappa: Any, eta: Any, nu: Any, theta: Any, divisor: Any) -> tuple[Any, Any] | None:
    """Return factors (low, high) with low l I <= A S A <= high I for A = P / K + Q, where
    I / kappa = l I <= S <= I.

    P is the projection on the eigenvectors of Z with eigenvalues from theta on, Q = I - P, K =
    ``divisor``. With large = (theta - nu) kappa > K^2 and eta < 1:
        tau = (K^2 - 1) (nu kappa)^2 / ((large - K^2) (large - 1)),
        low = (1 - eta) (1 - tau) / (1 + eta),
        high = (max((1 + eta) / K^2, theta + nu) + nu / K) / (1 - eta).
    None where large is not above K^2.

    Proof. P commutes with Z, so P H Q = -P N Q, of norm at most nu. Upper: S <= H / (1 - eta),
    and A H A has the blocks P H P / K^2 <= (1 + eta) / K^2, Q H Q = Q Z Q - Q N Q <= theta +
    nu, and P H Q / K of norm at most nu / K; a matrix of two diagonal blocks is at most the
    larger of them plus the norm of the block beside them. Lower, in units of l: G =
    H / ((1 - eta) l) >= I for H >= (1 - eta) S. G_PP >= p = large / (1 - eta) >= large, for P H
    P >= theta - nu; B = P G Q has a norm of at most b = nu kappa / (1 - eta). It remains to
    show G >= (1 - t) (K^2 P + Q) = (1 - t) A^(-2) at t = tau, for then S >= H / (1 + eta) >= l
    (1 - eta) (1 - t) / (1 + eta) A^(-2). By Schur complements G >= I says G_QQ - I >= B^T
    (G_PP - I)^(-1) B, and the claim follows from t >= B^T ((G_PP - (1 - t) K^2)^(-1) -
    (G_PP - I)^(-1)) B. For a number x >= p that difference is at most (K^2 - 1) / ((x - K^2)
    (x - 1)), which falls in x; so t >= b^2 (K^2 - 1) / ((p - K^2) (p - 1)) suffices. Multiplied
    by (1 - eta)^2 above and below, that is (K^2 - 1) (nu kappa)^2 over (large - K^2 (1 - eta))
    (large - (1 - eta)), at most tau. QED
    """
    square, large = divisor**2, (theta - nu) * kappa
    if large <= square:
        return None
    tau = (square - 1) * (nu * kappa) ** 2 / ((large - square) * (large - 1))
    high = (max((1 + eta) / square, theta + nu) + nu / divisor) / (1 - eta)
    return (1 - eta) * (1 - tau) / (1 + eta), high


@states(
    _SPECTRAL,
    Source("OURS", "singular values of normal matrices", note="Gordon; Davidson and Szarek"),
)
def slack(d: int, n: Any, noise: Any) -> tuple[Any, Any]:
    """Return (eta, nu) for n records and symmetric noise whose deviation on the diagonal is worth
    ``noise`` records that fill the ball.

    White records have second moments within (1 -+ e)^2, e = (sqrt(d) + sqrt(2 ln(2 / b))) /
    sqrt(n), except with probability b; eta = 2 e + e^2. A symmetric normal matrix with
    deviation s on its diagonal and s / sqrt(2) beside it has a spectral norm above s (sqrt(2 d)
    + sqrt(2 ln(2 / b))) with probability at most b: its largest eigenvalue is at most s
    sqrt(2 d) on average (Slepian), and is an s-Lipschitz function of independent standard
    normal numbers; so is minus the smallest. (What is released has 169 / 239 in place of
    1 / sqrt(2), which is 9e-6 more.)
    """
    level = mp.sqrt(2 * mp.log(2 / real(RARELY)))
    root = (mp.sqrt(d) + level) / mp.sqrt(n)
    one = real(noise) / n * reach(d, n) ** 2
    return 2 * root + root**2, one * (mp.sqrt(2 * d) + level)


def reach(d: int, n: Any) -> Any:
    """Return a length that at most ``LONGER`` of n white records exceed on average; proved at
    joint.normal_length.
    """
    level = mp.log(n / real(LONGER))
    return mp.sqrt(d + 2 * mp.sqrt(d * level) + 2 * level)


# --- maps ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Public:
    """Public values that the maps of all rounds depend on, beside the released outcomes.

    count: the released number of records, or a lower bound on it. noise: the deviation of a
    diagonal entry, in records that fill the ball. long: the largest deviation of the records as
    images of the first map, in cells.
    """

    d: int
    count: Fraction
    noise: Fraction
    kappa: Fraction
    long: Fraction
    precision: int

    @property
    def number(self) -> Any:
        """Count of records, rounded down to a quarter octave."""
        return whitening.count_of(whitening.octave(self.count))

    @property
    def slack(self) -> tuple[Any, Any]:
        """Allowed parts of eta and nu, in proportion ``ALLOWANCE``."""
        eta, nu = slack(self.d, self.number, self.noise)
        return real(ALLOWANCE) * eta, real(ALLOWANCE) * nu


State = tuple[Row, Any]
"""A map, row by row, and the largest deviation as its image, in cells."""


def reach_in_cells(public: Public, state: State) -> int:
    """Return the length up to which images count, the last number of a row."""
    with mp.workdps(DIGITS):
        return whitening.reach(state[1], reach(public.d, public.number))


def seen(outcome: Outcome, public: Public) -> Row:
    """Return the released moments over the count, in 2^-precision squared radii, clamped to
    [-4, 4] and rounded to integers.
    """
    d, one = public.d, 1 << public.precision
    filled = public.count * UNIT / public.noise
    entries = [Fraction(v * one) / filled for v in outcome[:d]]
    beside = Fraction(DIAGONAL, OFF_DIAGONAL)
    entries += [v * one * beside / filled for v in outcome[d : d * (d + 1) // 2]]
    return tuple(min(max(round(entry), -4 * one), 4 * one) for entry in entries)


@states(_SPECTRAL)
def spectral_map_after(outcomes: Sequence[Outcome], public: Public) -> State:
    """Return the map after so many rounds of U^(-1/2)."""
    with mp.workdps(DIGITS):
        state: State = (start(public.d), real(public.long))
        for outcome in outcomes:
            state = after_spectral(state, outcome, public)
        return state


@states(_RECURSIVE)
def recursive_map_after(outcomes: Sequence[Outcome], public: Public) -> State:
    """Return the map after so many rounds that divide large directions; it stays once the ratio of
    eigenvalues is small.
    """
    with mp.workdps(DIGITS):
        state: State = (start(public.d), real(public.long))
        kappa: Any = real(public.kappa)
        for outcome in outcomes:
            factors = shortened(kappa, *public.slack)
            if factors is None:
                break
            state = after_recursive(state, outcome, public, factors[0])
            kappa = factors[1]
        return state


def after_spectral(state: State, outcome: Outcome, public: Public) -> State:
    """Return the map after one more round, C <- U^(-1/2) C, or C unchanged where eta + nu >= 1.

    Eigenvalues of U are raised to eta and to ``smallest`` at least.
    """
    eta, nu = public.slack
    if eta + nu >= 1:
        return state
    least = max(eta, smallest(real(public.kappa), eta, nu))
    return _moved(state, outcome, public, lambda one: 1 / mp.sqrt(max(one + eta + nu, least)))


def after_recursive(state: State, outcome: Outcome, public: Public, high: Any) -> State:
    """Return the map after one more round, C <- (P / K + Q) C; the largest variance is multiplied
    by ``high``.
    """
    row, long = _moved(
        state,
        outcome,
        public,
        lambda one: mp.mpf(1) / DIVISOR if one >= real(THRESHOLD) else mp.mpf(1),
        one=mp.mpf(1),
    )
    return row, long * mp.sqrt(high)


def shortened(kappa: Any, eta: Any, nu: Any) -> tuple[Any, Any] | None:
    """Return (factor of the largest variance, ratio of eigenvalues afterwards), or None unless
    both fall.
    """
    bounds = sandwich(kappa, eta, nu, real(THRESHOLD), DIVISOR) if eta < 1 else None
    if bounds is None or bounds[0] <= 0 or bounds[1] >= 1:
        return None
    after = kappa * bounds[1] / bounds[0]
    return (bounds[1], after) if after < kappa else None


def _moved(
    state: State, outcome: Outcome, public: Public, by: Callable[[Any], Any], one: Any = None
) -> State:
    """Return the map times f(Z), divided by the largest of its factors or by ``one``, with the
    largest deviation that results.
    """
    d, (row, long) = public.d, state
    square = reach(d, public.number) ** 2
    released = symmetric(seen(outcome, public), d) * square / 2**public.precision
    values, vectors = mp.eigsy(released)
    factors = [by(value) for value in values]
    most = max(factors) if one is None else one
    step = vectors * mp.diag([factor / most for factor in factors]) * vectors.T
    made, bits = stepped(step, row, d)
    return made, long * mp.mpf(2) ** bits / most


# --- obligations --------------------------------------------------------------------------------

Symmetric = tuple[Any, Any, Any]
"""A symmetric matrix of two columns: its diagonal, and what is beside it."""
_TURNS: tuple[tuple[Any, Any], ...] = (
    (1, 0),
    (Fraction(3, 5), Fraction(4, 5)),
    (Fraction(5, 13), Fraction(12, 13)),
    (Fraction(20, 29), Fraction(-21, 29)),
)


def _mirror(turn: tuple[Any, Any]) -> Symmetric:
    """Return a reflection: a symmetric matrix with the eigenvalues 1 and -1."""
    cosine, sine = turn
    return cosine, -cosine, sine


def _sum(*terms: tuple[Any, Symmetric]) -> Symmetric:
    """Return a linear combination of symmetric 2 x 2 matrices."""
    own = [sum(c * matrix[k] for c, matrix in terms) for k in range(3)]
    return own[0], own[1], own[2]


def _least(matrix: Symmetric) -> Any:
    """Return the smallest eigenvalue."""
    a, b, c = matrix
    return (a + b - mp.hypot(a - b, 2 * c)) / 2


def _nonnegative(matrix: Symmetric) -> bool:
    """Return whether no eigenvalue of the matrix is below 0; exact for rational entries."""
    a, b, c = matrix
    return bool(a >= 0 and b >= 0 and a * b >= c * c)


_ONE: Symmetric = (1, 1, 0)
_OFF = tuple(
    (Fraction(eta), Fraction(nu))
    for eta, nu in ((0, 0), (0, "1/10"), ("1/5", 0), ("1/10", "1/20"), ("1/3", "1/4"))
)
_SIGNED = (*_TURNS, *((-c, -s) for c, s in _TURNS))


@states(_SPECTRAL, Source("OURS", "certificate of a round of U^(-1/2)"))
def obligation_certificate(claimed: Callable[..., Any] = certified) -> int:
    """Check in two columns, exactly, that U >= S >= l' U and U >= max(l, eta) I, with equality for
    some l'.

    Here S = diag(l, v), sampling moves second moments by eta along any axes, and noise by nu
    along any axes. Also l' is never below ``smallest``.
    """
    cases = 0
    for root, other in (
        (1, 1),
        (Fraction(1, 2), 1),
        (Fraction(1, 10), 1),
        (Fraction(1, 10), Fraction(1, 3)),
    ):
        least, attained = Fraction(root) ** 2, False
        covariance: Symmetric = (least, Fraction(other) ** 2, 0)
        for (eta, nu), sampled, noise in product(_OFF, (None, *_SIGNED), (None, *_SIGNED)):
            factor = claimed(least, eta, nu)
            off = _ONE if sampled is None else _mirror(sampled)
            moved = (root * root * off[0], other * other * off[1], root * other * off[2])
            jitter = _ONE if noise is None else _mirror(noise)
            own = _sum((1, covariance), (eta, moved), (nu, jitter), (eta + nu, _ONE))
            case = f"S = {covariance}, eta = {eta}, nu = {nu}, {sampled}, {noise}"
            require(_nonnegative(_sum((1, own), (-1, covariance))), f"{case}: U is below S")
            require(
                _nonnegative(_sum((1, covariance), (-factor, own))), f"{case}: S below {factor} U"
            )
            require(_nonnegative(_sum((1, own), (-max(least, eta), _ONE))), f"{case}: U = {own}")
            attained |= covariance[0] == factor * own[0]
            cases += 1
        require(attained, f"l = {least}: never attained")
    for (eta, nu), kappa in product(_OFF, (1, 2, 50, 10**4)):
        least, low = Fraction(1, kappa), smallest(Fraction(kappa), eta, nu)
        for _ in range(6):
            require(
                least >= low, f"eta = {eta}, nu = {nu}, kappa = {kappa}: {least} is below {low}"
            )
            least, cases = claimed(least, eta, nu), cases + 1
    return cases


_ROUNDED = mp.mpf("1e-12")


Given = tuple[int, Fraction, Fraction, Fraction, int]
"""kappa, eta, nu, the threshold and the divisor."""


def _given(divisor: int, thresholds: Sequence[Fraction]) -> Iterator[Given]:
    """Yield what the factors of the sandwich are computed from."""
    off = (("0", "1/50"), ("0", "1/10"), ("1/10", "1/10"), ("1/4", "0"), ("1/5", "1/5"))
    for kappa, (eta, nu), theta in product((20, 100, 10**4), off, thresholds):
        yield kappa, Fraction(eta), Fraction(nu), theta, divisor


def _sandwiched(given: Given) -> Iterator[tuple[Symmetric, Symmetric]]:
    """Yield covariances diag(1 / kappa, v) and second moments with noise, about and above the
    threshold.
    """
    kappa, eta, nu, theta, _ = given
    near = (theta - nu, theta, theta + nu, Fraction(1))
    turned = [(mp.cos(mp.pi * k / 4), mp.sin(mp.pi * k / 4)) for k in range(8)]
    for value, sampled, turn in product(near, (None, *_TURNS[:3]), turned):
        low, high = real(Fraction(1, kappa)), real(value)
        off = _ONE if sampled is None else _mirror((real(sampled[0]), real(sampled[1])))
        moved = (low * off[0], high * off[1], mp.sqrt(low * high) * off[2])
        covariance: Symmetric = (low, high, mp.mpf(0))
        yield covariance, _sum((1, covariance), (real(eta), moved), (real(nu), _mirror(turn)))


def _divided(covariance: Symmetric, released: Symmetric, theta: Any, divisor: int) -> Symmetric:
    """Return A S A for A = P / K + Q."""
    (a, b, c), (p, q, r) = covariance, released
    spread = mp.hypot(p - q, 2 * r)
    cosine, sine = ((p - q) / spread, 2 * r / spread) if spread else (mp.mpf(1), mp.mpf(0))
    middle = (p + q) / 2
    one, two = (
        mp.mpf(1) / divisor if middle + s * spread / 2 >= theta else mp.mpf(1) for s in (1, -1)
    )
    even, odd = (one + two) / 2, (one - two) / 2
    x, y, z = even + odd * cosine, even - odd * cosine, odd * sine
    first, second = (x * a + z * c, x * c + z * b), (z * a + y * c, z * c + y * b)
    return (
        first[0] * x + first[1] * z,
        second[0] * z + second[1] * y,
        first[0] * z + first[1] * y,
    )


@states(_RECURSIVE, Source("OURS", "sandwich of a round that divides large directions"))
def obligation_sandwich(claimed: Callable[..., Any] = sandwich) -> int:
    """Check in two columns, to 12 digits, that low / kappa I <= A S A <= high I; for every K some
    upper end is nearly attained.

    Noise is along eight axes, sampling along four, and variances are about the threshold.
    """
    cases, half = 0, Fraction(1, 2)
    with mp.workdps(20):
        for divisor, thresholds in ((4, (half,)), (2, (half, half / 2))):
            nearest = mp.mpf(0)
            for given in _given(divisor, thresholds):
                bounds = claimed(*given)
                if bounds is None:
                    continue
                low, high = real(bounds[0]) / given[0], real(bounds[1])
                for covariance, released in _sandwiched(given):
                    own = _divided(covariance, released, real(given[3]), divisor)
                    least = _least(own)
                    most = own[0] + own[1] - least
                    case = f"kappa, eta, nu, theta, K = {given}, S = {covariance}, Z = {released}"
                    require(least >= low * (1 - _ROUNDED), f"{case}: {least} is below {low}")
                    require(most <= high * (1 + _ROUNDED), f"{case}: {most} is above {high}")
                    nearest = max(nearest, most / high)
                    cases += 1
            require(nearest > mp.mpf("0.95"), f"K = {divisor}: the upper end is far: {nearest}")
    return cases


def _outcome(covariance: Any, state: State, public: Public, noise: int = 0) -> Outcome:
    """Return the outcome of a round, without sampling and clipping, for records with this
    covariance, in cells.

    noise: 0 for none; 1 or -1 for a reflection of norm nu, along one of two axes.
    """
    d, (row, long) = public.d, state
    matrix = mp.matrix(d, d)
    for i, j in product(range(d), repeat=2):
        matrix[i, j] = mp.mpf(row[i * d + j])
    own = matrix * covariance * matrix.T / long**2
    if noise:
        axis = mp.matrix([mp.mpf(noise) ** k for k in range(d)])
        own += public.slack[1] * (mp.eye(d) - 2 * axis * axis.T / d)
    own = own / reach(d, public.number) ** 2
    filled = real(public.count * UNIT / public.noise)
    diagonal = [int(mp.nint(own[i, i] * filled)) for i in range(d)]
    ratio = mp.mpf(OFF_DIAGONAL) / DIAGONAL
    beside = [int(mp.nint(own[i, j] * filled * ratio)) for i in range(d) for j in range(i + 1, d)]
    return tuple(diagonal + beside)


def _image(covariance: Any, state: State, d: int) -> tuple[Any, Any]:
    """Return the smallest and the largest eigenvalue of the images' covariance, in squares of the
    largest deviation.
    """
    matrix = mp.matrix(d, d)
    for i, j in product(range(d), repeat=2):
        matrix[i, j] = mp.mpf(state[0][i * d + j])
    values = mp.eigsy(matrix * covariance * matrix.T / state[1] ** 2, eigvals_only=True)
    return min(values), max(values)


def _turned(d: int, values: Sequence[Any]) -> Any:
    """Return a covariance with these eigenvalues, along axes that no two coordinates span."""
    axes = mp.qr(
        mp.matrix([[mp.mpf(1 + (3 * i + i * j) % 7) for j in range(d)] for i in range(d)])
    )[0]
    return axes * mp.diag(list(values)) * axes.T


_FINE = mp.mpf(2) ** -12


def _worlds() -> Iterator[tuple[Any, Public]]:
    """Yield covariances, and the public values about their records."""
    for d, kappa, n in ((2, 10**6, 10**6), (2, 100, 4000), (3, 10**4, 10**5)):
        values = [2**20 * mp.mpf(kappa) ** (mp.mpf(i) / (d - 1)) for i in range(d)]
        long = 2**26 * Fraction(math.isqrt(kappa))
        yield _turned(d, values), Public(d, Fraction(n), Fraction(8), Fraction(kappa), long, 40)


@states(_SPECTRAL)
def obligation_spectral_map(claimed: Callable[..., State] = spectral_map_after) -> int:
    """Check that each round takes an eigenvalue v of the images' covariance to v / (v + eta + nu),
    to 2^-12 for the smallest and the largest, where released moments are exact.

    With noise of norm nu, along other axes in each round, it stays within the certificate
    without sampling.
    """
    cases = 0
    with mp.workdps(DIGITS):
        for (covariance, public), noisy in product(_worlds(), (False, True)):
            outcomes: list[Outcome] = []
            eta, nu = public.slack
            least, most = 1 / real(public.kappa), mp.mpf(1)
            for t in range(5):
                state = claimed(outcomes, public)
                low, high = _image(covariance, state, public.d)
                case = f"{public}, {noisy}, after {t}: {low}, {high}; not {least}, {most}"
                require(low > least * (1 - _FINE) and high < most * (1 + _FINE), case)
                require(noisy or (low < least * (1 + _FINE) and high > most * (1 - _FINE)), case)
                outcomes.append(_outcome(covariance, state, public, (-1) ** t if noisy else 0))
                least = least / (least + eta + (2 if noisy else 1) * nu)
                most = most if noisy else most / (most + eta + nu)
                cases += 1
    return cases


@states(_RECURSIVE)
def obligation_recursive_map(claimed: Callable[..., State] = recursive_map_after) -> int:
    """Check that after every round the images' covariance is at most 1, to 2^-12, and at least the
    sandwich's lower end, and that in the end the ratio of eigenvalues is below 40.

    Released moments are exact, or have noise of norm nu.
    """
    cases = 0
    with mp.workdps(DIGITS):
        for (covariance, public), noise in product(_worlds(), (0, 1)):
            outcomes: list[Outcome] = []
            ratio: Any = real(public.kappa)
            for t in range(24):
                state = claimed(outcomes, public)
                low, high = _image(covariance, state, public.d)
                case = f"{public}, {noise}, after {t}: {low}, {high}, {ratio}"
                require(high < 1 + _FINE and low > (1 - _FINE) / ratio, case)
                outcomes.append(_outcome(covariance, state, public, noise * (-1) ** t))
                step = shortened(ratio, *public.slack)
                ratio, cases = ratio if step is None else step[1], cases + 1
            require(high / low < 40, f"{public}, {noise}: a ratio of {high / low} is left")
    return cases
