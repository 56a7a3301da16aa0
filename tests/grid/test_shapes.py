"""Public matrices and radii: maps and their inverses, what is refused, and tails that are no too
short.

The one statistical test states its false-alarm probability; everything else is arithmetic.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpverify.audit.instances import Gaussians
from dpverify.audit.sensitivity.norms import Mahalanobis
from dpverify.estimation.friendly_means import isotropic_worst, mapped_spectrum
from dpverify.estimation.known_covariance import covariance_matrix
from dpverify.grid.shapes import Shape, shape_of, spectrum, symmetrized, tail_radius
from dpverify.privacy.numbers import Floats

RADIUS = Fraction(3, 2)


def symmetric(values: list[float], seed: int) -> Floats:
    """Return a symmetric matrix with about these eigenvalues."""
    d = len(values)
    turn, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))
    made = (turn * np.array(values)) @ turn.T
    return np.asarray((made + made.T) / 2)


def least_eigenvalue(matrix: Floats) -> Any:
    """Return the least eigenvalue of these very floats, at 60 digits."""
    with mp.workdps(60):
        return min(mp.eigsy(mp.matrix(matrix.tolist()), eigvals_only=True))


# --- M^(-1/4) -------------------------------------------------------------------------------------

DIAGONALS = [[1.0], [4.0, 1e-6, 9.0], [1e-300, 1e-280], [5e200, 1e190, 7e199]]
VALUES = [[2.0, 3.0], [1.0, 1e-6, 100.0], [1e-9, 3e-9, 1e-8, 2e-9], [1e150, 3e152]]


@pytest.mark.parametrize("diagonal", DIAGONALS)
def test_scales_are_the_fourth_roots_of_a_diagonal(diagonal: list[float]) -> None:
    given_back, shape = shape_of(diagonal)
    assert given_back == tuple(diagonal)
    assert shape.columns == len(diagonal)
    assert shape.rows is None
    for scale, value in zip(shape.scales, diagonal, strict=True):
        assert abs(Fraction(scale) ** 4 * Fraction(value) - 1) < Fraction(1, 2**49)


@pytest.mark.parametrize("values", VALUES)
def test_rows_are_the_inverse_fourth_root_of_a_matrix(values: list[float]) -> None:
    matrix = symmetric(values, len(values))
    given_back, shape = shape_of(matrix)
    assert given_back == tuple(map(tuple, matrix.tolist()))
    assert (shape.columns, shape.scales) == (len(values), ())
    root = np.array(shape.rows)
    assert np.array_equal(root, root.T) or np.allclose(root, root.T, rtol=1e-12)
    product = root @ root @ matrix @ root @ root
    spread = max(values) / min(values)
    assert np.abs(product - np.eye(len(values))).max() < 1e-13 * spread


@pytest.mark.parametrize("matrix", [*DIAGONALS, *(symmetric(v, 3) for v in VALUES)], ids=str)
def test_back_inverts_images(matrix: Any) -> None:
    _, shape = shape_of(matrix)
    near = shape.nearness(RADIUS)
    turn = np.diag(shape.scales) if shape.rows is None else np.array(shape.rows)
    mapped = np.random.default_rng(8).uniform(-90, 90, (50, shape.columns))
    records = np.linalg.solve(turn, mapped.T).T
    back = shape.back(near.images(records).astype(np.float64), near)
    cell = 2.0**near.exponent if shape.rows is None else 2.0**-20
    again = (back - records) @ turn.T  # in units of the map, where the radius is 3/2
    assert np.abs(again).max() <= max(cell, 2.0**-20) * (2 + shape.columns)
    assert np.abs(mapped).max() > 80


def test_friends_are_near_after_the_map_whatever_the_matrix_is_called() -> None:
    """Compare friends under the map as a diagonal and as a matrix: the same friends but within
    rounding."""
    rng = np.random.default_rng(4)
    records = rng.normal(size=(80, 2)) * [9.0, 0.5]
    wide, full = shape_of([81.0, 0.25])[1], shape_of([[81.0, 0.0], [0.0, 0.25]])[1]
    counts = []
    for shape in (wide, full):
        near = shape.nearness(RADIUS)
        counts.append(near.degrees(near.images(records)))
    scaled = records * np.array([81.0, 0.25]) ** -0.25
    distances = np.linalg.norm(scaled[:, None] - scaled, axis=2)
    assert np.abs(distances - 1.5).min() > 1e-4  # no pair is at the boundary
    expected = (distances <= 1.5).sum(axis=1)
    assert counts[0].tolist() == counts[1].tolist() == expected.tolist()
    assert 1 < expected.max() < 80


def test_a_shape_and_its_grid_are_values() -> None:
    one, two = (shape_of([[2.0, 1.0], [1.0, 2.0]])[1] for _ in range(2))
    assert one == two
    assert one.nearness(RADIUS) is two.nearness(RADIUS)
    assert one.nearness(RADIUS) != one.nearness(2 * RADIUS)


# --- singular matrices: data in a plane that has a public point ----------------------------------

FLAT = np.array([[2.0, 1.0, 0.0], [1.0, 1.0, -1.0], [0.0, -1.0, 2.0]])
"""Matrix of rank 2: (1, -2, -1) is mapped to zero."""


def test_a_point_of_the_plane_comes_back_and_nothing_outside_is_seen() -> None:
    normal = np.array([1.0, -2.0, -1.0]) / math.sqrt(6)
    origin = np.array([5.0, 7.0, 9.0])
    _, shape = shape_of(FLAT, origin)
    near = shape.nearness(RADIUS)
    assert shape.rank == 2
    moved = np.random.default_rng(6).normal(size=(40, 3)) * 30
    plane = origin + moved - np.outer(moved @ normal, normal)
    images = near.images(plane)
    back = shape.place(images.astype(np.float64), near)
    assert np.abs(back - plane).max() < 2.0**-16
    # noise outside the range does not come back, and a record's height above the plane is not seen
    noisy = images + np.outer(np.linspace(0, 2**30, 40), normal)
    assert np.abs(shape.place(noisy, near) - back).max() < 2.0**-8
    assert np.abs(near.images(plane + 3 * normal) - images).max() <= 2


@pytest.mark.parametrize("d", [2, 40, 300])
def test_float_covariances_of_any_rank_are_seen_to_be_singular(d: int) -> None:
    part = np.random.default_rng(d).normal(size=(d, (d + 1) // 2))
    matrix = part @ part.T
    _, shape = shape_of((matrix + matrix.T) / 2, np.zeros(d))
    assert shape.rank == (d + 1) // 2


@pytest.mark.parametrize(
    ("matrix", "origin", "message"),
    [
        (FLAT, [0.0, 0.0], "origin has 2 numbers for 3 columns"),
        (FLAT, [0.0, 0.0, math.nan], "not finite"),
        (np.eye(2), [0.0, 0.0], "this one is not, leave it out"),
        ([1.0, 2.0], [0.0, 0.0], "this diagonal is positive, leave it out"),
        (np.zeros((2, 2)), [0.0, 0.0], "all zero"),
        ([[1.0, 2.0], [2.0, 1.0]], [0.0, 0.0], "none may be negative"),
        ([[1.0, 0.0], [0.0, 1e-10]], [0.0, 0.0], "are not each positive or zero"),
    ],
)
def test_an_origin_is_for_singular_matrices(matrix: Any, origin: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        shape_of(matrix, origin)


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matrix", "kind", "message"),
    [
        ("abc", TypeError, "give numbers"),
        ([[1.0, 2.0], [3.0]], TypeError, "give numbers"),
        ([], ValueError, "needs d >= 1 positive numbers"),
        ([[]], ValueError, "matrix of shape (1, 0)"),
        (2.0, ValueError, "matrix of shape ()"),
        (np.ones((2, 2, 2)), ValueError, "matrix of shape (2, 2, 2)"),
        ([[1.0, 0.0]], ValueError, "matrix of shape (1, 2)"),
        ([1.0, 0.0], ValueError, "needs d >= 1 positive numbers"),
        ([1.0, -1.0], ValueError, "needs d >= 1 positive numbers"),
        ([1.0, math.nan], ValueError, "not finite"),
        ([[math.inf]], ValueError, "not finite"),
        ([1.0, 1e25], ValueError, "too far for one grid"),
        (
            [[1.0, 0.5], [0.4, 1.0]],
            ValueError,
            "not symmetric: two entries across the diagonal are 0.1 apart",
        ),
        ([[1.0, 2.0], [2.0, 1.0]], ValueError, "its least eigenvalue is -1"),
        ([[1.0, 1.0], [1.0, 1.0]], ValueError, "not positive definite, or not by enough"),
        ([[0.0]], ValueError, "not positive definite"),
    ],
)
def test_what_is_no_public_shape_is_refused(
    matrix: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        shape_of(matrix)


def nearly_singular() -> Iterator[Floats]:
    """Least eigenvalues on both sides of zero, as small as rounding makes them, and larger ones."""
    rng = np.random.default_rng(21)
    for k in range(240):
        d = 2 + k % 5
        part = rng.normal(size=(d, d - 1))
        made = part @ part.T + rng.choice([0.0, 1e-17, 1e-16, 1e-15, 1e-14, 1e-13]) * np.eye(d)
        yield np.asarray((made + made.T) / 2)


def is_accepted(matrix: Floats) -> bool:
    try:
        shape_of(matrix)
    except ValueError:
        return False
    return True


def has_cholesky(matrix: Floats) -> bool:
    """The same without the margin for rounding."""
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def test_only_positive_definite_matrices_are_accepted() -> None:
    cases = [(matrix, least_eigenvalue(matrix)) for matrix in nearly_singular()]
    accepted = [least for matrix, least in cases if is_accepted(matrix)]
    assert min(accepted) > 0
    assert len(accepted) > 30
    # planted: without the margin some that are not positive definite pass
    assert min(least for matrix, least in cases if has_cholesky(matrix)) <= 0


# --- radii ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rare", [0.5, 1e-3, 1e-9])
@pytest.mark.parametrize("d", [1, 2, 10, 1000])
def test_a_round_gaussian_s_radius_is_chernoff_s_bound_on_chi_square(d: int, rare: float) -> None:
    radius = tail_radius(np.full(d, 7.0), rare)
    z = radius**2 / 7 / d
    assert stats.chi2.sf(radius**2 / 7, d) <= rare
    # P(chi^2 > z d) <= (z e^(1 - z))^(d / 2) is what Chernoff gives; here with equality
    assert d / 2 * (math.log(z) + 1 - z) == pytest.approx(math.log(rare), rel=1e-6)


@pytest.mark.parametrize("values", [[9.0, 1.0, 0.1], [1.0] * 8 + [16.0], [1e-9, 1e-12]], ids=str)
@pytest.mark.parametrize("rare", [0.1, 0.01])
def test_a_gaussian_rarely_leaves_its_radius(values: list[float], rare: float) -> None:
    """False alarm below 1e-9: a binomial of at most this probability beyond its 1e-9 quantile."""
    draws = np.random.default_rng(31).normal(size=(100_000, len(values))) * np.sqrt(values)
    limit = stats.binom.isf(1e-9, len(draws), rare)
    lengths = np.linalg.norm(draws, axis=1)
    radius = tail_radius(np.array(values), rare)
    assert np.count_nonzero(lengths > radius) <= limit
    assert np.count_nonzero(lengths > radius * 0.5) > limit  # planted: half of it is seen


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=12), st.sampled_from([0.3, 1e-4]))
def test_no_spectrum_of_this_trace_and_largest_value_has_a_longer_radius(
    values: list[float], rare: float
) -> None:
    variances = np.array(values)
    largest = float(variances.max())
    worst = isotropic_worst(len(values), float(variances.sum()), largest)
    assert worst.sum() == pytest.approx(variances.sum())
    assert worst.max() <= largest
    assert worst.min() >= -1e-12
    assert tail_radius(variances, rare) <= tail_radius(worst, rare) * (1 + 1e-9)


@pytest.mark.parametrize("rare", [0.5, 1e-3, 1e-300])
def test_a_search_that_ends_early_ends_where_all_its_steps_lead(
    rare: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    variances = [np.random.default_rng(seed).exponential(size=30) ** 3 for seed in range(20)]
    radii = [tail_radius(one, rare) for one in variances]
    monkeypatch.setattr("dpverify.grid.shapes._STEPS", 1000)
    assert [tail_radius(one, rare) for one in variances] == radii


def test_equal_eigenvalues_would_be_too_short() -> None:
    """Planted: the same trace, spread evenly."""
    assert tail_radius(np.full(10, 0.2), 1e-3) < 0.9 * tail_radius(isotropic_worst(10, 2, 1), 1e-3)


@pytest.mark.parametrize(
    ("columns", "trace", "largest"), [(3, 1.0, 2.0), (3, 4.0, 1.0), (2, 0.0, 0.0), (2, -1.0, -2.0)]
)
def test_a_trace_that_no_covariance_has_is_refused(
    columns: int, trace: float, largest: float
) -> None:
    with pytest.raises(ValueError, match="belong to no covariance"):
        isotropic_worst(columns, trace, largest)


@pytest.mark.parametrize("columns", [1, 3, 10, 49])
def test_as_many_as_there_can_be_are_the_largest(columns: int) -> None:
    for largest in (0.1, 1.0, 1 / 3, 7.0):
        worst = isotropic_worst(columns, columns * largest, largest)
        assert worst == pytest.approx(np.full(columns, largest))


def test_a_covariance_mapped_by_itself_has_the_square_roots() -> None:
    values = [0.25, 4.0, 9.0]
    roots = pytest.approx([0.5, 2.0, 3.0])
    turned = symmetric(values, 5)
    assert sorted(mapped_spectrum(values, values)) == roots
    assert sorted(mapped_spectrum(turned, turned)) == roots
    assert sorted(mapped_spectrum(values, np.diag(values))) == roots
    assert sorted(mapped_spectrum([1.0] * 3, turned)) == pytest.approx(values)
    assert sorted(spectrum(turned)) == pytest.approx(values)
    assert isinstance(shape_of(turned)[1], Shape)


def test_asymmetry_by_rounding_is_taken_away_everywhere() -> None:
    """A product of single precision, of which no entry is just its mirror image's; and nothing
    larger."""
    rng = np.random.default_rng(5)
    factor = rng.normal(size=(4, 4)) * np.array([1.0, 1e3, 1e-3, 1.0])
    exact = factor.T @ factor
    exact = (exact + exact.T) / 2
    size = np.sqrt(np.outer(exact.diagonal(), exact.diagonal()))
    off = np.triu(size * rng.uniform(0.5, 1, size=(4, 4)), 1)
    rounded, more = exact + off * 2.0**-21, exact + off * 2.0**-19
    expected = rounded / 2 + rounded.T / 2
    assert not np.array_equal(rounded, rounded.T)
    assert np.array(shape_of(rounded)[0]).tolist() == expected.tolist()
    assert np.array(covariance_matrix(rounded, "covariance")).tolist() == expected.tolist()
    assert np.asarray(Gaussians(n=3, covariance=rounded).covariance).tolist() == expected.tolist()
    assert spectrum(rounded).tolist() == np.linalg.eigvalsh(expected).tolist()
    halves = [[Fraction(a) / 2 + Fraction(b) / 2 for a, b in zip(x, y, strict=True)]
              for x, y in zip(rounded.tolist(), rounded.T.tolist(), strict=True)]  # fmt: skip
    assert [list(row) for row in np.asarray(Mahalanobis(rounded).covariance)] == halves
    for taken in (shape_of, spectrum, Mahalanobis, lambda m: covariance_matrix(m, "covariance"),
                  lambda m: Gaussians(n=3, covariance=m)):  # fmt: skip
        with pytest.raises(ValueError, match="not symmetric"):
            taken(more)


def test_a_symmetric_matrix_is_kept_to_the_last_bit() -> None:
    matrix = np.array([[1e308, 5e-324], [5e-324, 1e308]])
    assert symmetrized(matrix, "matrix") is matrix
    with pytest.raises(ValueError, match="not symmetric"):
        symmetrized(np.array([[1e308, 1e308], [-1e308, 1e308]]), "matrix")
    with pytest.raises(ValueError, match="not symmetric"):
        symmetrized(np.array([[0.0, 5e-324], [0.0, 0.0]]), "matrix")
