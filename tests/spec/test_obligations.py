"""Obligations: ``prove`` runs every one, and every one fails here for a false twin or a planted
fault."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import mpmath as mp
import pytest

import spec
from dpverify.privacy import Adjacency
from dpverify.suite import lemmas
from dpverify.suite.judges import SHARED_LOOPS
from dpverify.suite.runner import prove_units
from dpverify.suite.trees import load
from spec import bounded_mean, noisy_count, randomized_response
from spec.theory import lower_bounds, queries
from spec.theory.laws import DiscreteLaplaceLaw, KaryResponseLaw
from spec.theory.obligations import ObligationFailed, datasets, neighbors, require

from .more_twins import ELSEWHERE, FAULTS, TWINS
from .refined_twins import scaled

Obligation = Callable[..., int]


def _every_obligation() -> dict[str, Obligation]:
    obligations: dict[str, Obligation] = {}
    for module_info in pkgutil.walk_packages(spec.__path__, "spec."):
        module = importlib.import_module(module_info.name)
        for name, item in vars(module).items():
            if name.startswith("obligation_") and item.__module__ == module.__name__:
                obligations[f"{module.__name__.removeprefix('spec.')}:{name}"] = item
    return obligations


_OBLIGATIONS = _every_obligation()


def test_the_search_finds_the_obligations_there_are() -> None:
    expected = {
        "noisy_count:obligation_loss",
        "bounded_mean:obligation_loss",
        "randomized_response:obligation_loss",
        "theory.queries:obligation_count",
        "theory.queries:obligation_clamped_sum",
        "theory.queries:obligation_answers",
    }
    assert expected <= set(_OBLIGATIONS)


def test_prove_runs_all_of_them_and_every_refinement() -> None:
    """Once, and not here: CI runs it, and this fails if it collects fewer than there are."""
    suite = load()
    units = prove_units(suite, [])
    proved = {unit.name for unit in units if unit.kind == "obligation"}
    assert proved == {name.replace("theory.", "theory/") for name in _OBLIGATIONS}
    refined = {unit.name for unit in units if unit.kind == "refinement"}
    assert refined == {SHARED_LOOPS, *suite.entries}
    assert all(entry.small for entry in suite.entries.values())


def test_each_looked_at_something_when_it_held() -> None:
    """Read the record; that the record is of this code is what `prove --check` says, in CI."""
    recorded = lemmas.read(lemmas.path_of(load().root))
    units = {name.replace("theory.", "theory/") for name in _OBLIGATIONS}
    assert recorded.keys() == set(map(lemmas.name_of, units))
    assert all(checked.cases >= 3 for checked in recorded.values())


# --- false twins of the statement ---------------------------------------------------------------

_LOSSES: dict[str, Any] = {
    "half": Fraction(1, 2),
    "double": Fraction(2),
    "a hair less": 1 - Fraction(1, 10**9),
    "a hair more": 1 + Fraction(1, 10**9),
}
_TWINS: dict[str, dict[str, Any]] = {
    "noisy_count:obligation_loss": _LOSSES,
    "noisy_count:obligation_gaussian": _LOSSES,
    "bounded_mean:obligation_loss": _LOSSES,
    "bounded_sum:obligation_loss": _LOSSES,
    "randomized_response:obligation_loss": _LOSSES,
    "theory.queries:obligation_count": {
        "nothing": lambda within, adjacency: 0,
        "always one": lambda within, adjacency: 1,
        "two": lambda within, adjacency: 2 * queries.count_sensitivity(within, adjacency),
        "adjacencies swapped": lambda within, adjacency: queries.count_sensitivity(
            within, _other(adjacency)
        ),
    },
    "theory.queries:obligation_clamped_sum": {
        "half": lambda *where: queries.clamped_sum_sensitivity(*where) // 2,
        "double": lambda *where: 2 * queries.clamped_sum_sensitivity(*where),
        "adjacencies swapped": lambda low, high, center, adjacency: queries.clamped_sum_sensitivity(
            low, high, center, _other(adjacency)
        ),
        "about zero": lambda low, high, center, adjacency: queries.clamped_sum_sensitivity(
            low, high, 0, adjacency
        ),
        "the upper side only": lambda low, high, center, adjacency: (
            high - low if adjacency is Adjacency.REPLACE else high - center
        ),
    },
    "theory.queries:obligation_answers": {"none": 0, "two": 2},
    **TWINS,
}


def _other(adjacency: Adjacency) -> Adjacency:
    replace, add = Adjacency.REPLACE, Adjacency.ADD_REMOVE
    return add if adjacency is replace else replace


# What honest parts of an obligation compute is the same for all of its twins. Parts of its module.
_SHARED: dict[str, tuple[str, ...]] = {
    "theory.groups:obligation_group_buckets": ("_largest_changes",),
    "theory.levels:obligation_level_counts": ("_largest_move",),
    "theory.scale_ladder:obligation_pair_rungs": ("_largest_square",),
    "theory.vectors:obligation_one_unit": ("obligation_vector_sum", "obligation_masked_sum"),
    "histogram_gaussian:obligation_fullest": ("masses", "bin_masses"),
    "theory.soft_weights:obligation_target": ("_worst",),
    "theory.preconditioning:obligation_sandwich": ("_sandwiched", "_divided"),
    "basic_filter:obligation_lift": ("_distinct", "_mirrored", "_lonely"),
    "degree_weights:obligation_reach": ("agreements", "larger", "small"),
    "degree_weights:obligation_agreement": ("agreements", "larger", "small"),
    "soft_core:obligation_agreement": ("agreements", "larger", "small"),
    "smooth_median:obligation_profile": ("_neighboring", "_worst"),
    "coordinatewise_mean:obligation_reach": ("_needed", "least_for_reach"),
    "gaussian_covariance:obligation_kappa": ("at_least", "least_for_kappa"),
    "theory.discrete_laws:obligation_kolmogorov": ("kolmogorov_error", "least_kolmogorov"),
    "theory.discrete_laws:obligation_variation": ("_response_error", "least_variation"),
    "theory.fingerprinting:obligation_isotropic": ("_largest_delta",),
    "theory.above_threshold:obligation_stacked": ("_mixed_together",),
    "theory.rescaled_errors:obligation_theorem": ("error_bound",),
    "theory.truncated_normals:obligation_whitened": ("masked_spectrum",),
    "theory.vectors:obligation_masked_sum": ("_largest_masked_move",),
    "basic_filter:obligation_growth": ("_distinct",),
    "stability_histogram:obligation_gaussian_delta": ("_pairs",),
    "theory.clipped_moments:obligation_off_diagonal": ("clipped", "clipped_spectrum"),
    "truncation:obligation_coupling": ("uncoupled",),
    "theory.rare_events:obligation_bad_events": ("_bad",),
    "theory.hidden_directions:obligation_no_second_moment": ("least_error",),
    "theory.hidden_directions:obligation_no_second_moment_where_drawn_in": ("least_error",),
    "theory.hidden_directions:obligation_signal": ("_added",),
    "theory.chi_square:obligation_top_mass": ("_integral", "_bisected"),
    "theory.uniform_convergence:obligation_gradients": ("_sums",),
    "theory.gaussian_families:obligation_error": ("clipped_of", "least_of"),
    "theory.clipped_moments:obligation_clipped_spectrum": ("_by_directions",),
    "theory.clipped_moments:obligation_masked_spectrum": ("_by_directions",),
}


def _fixed(value: Any) -> Any:
    """Return an argument as a key: lists as tuples, mappings as tuples of their items."""
    if isinstance(value, dict):
        return tuple((key, _fixed(item)) for key, item in value.items())
    return tuple(map(_fixed, value)) if isinstance(value, list) else value


@cache
def _remembered(right: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same function, which computes what it is asked once for all tests."""
    answers: dict[Any, Any] = {}

    def once(*given: Any) -> Any:
        key = (mp.mp.prec, *map(_fixed, given))
        if key not in answers:
            answer = right(*given)
            answers[key] = tuple(answer) if isinstance(answer, Iterator) else answer
        return answers[key]

    return once


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        pytest.param(name, twin, marks=pytest.mark.of_spec(name))
        for name, twins in _TWINS.items()
        for twin in twins
    ],
)
def test_a_false_statement_fails_its_obligation(
    name: str, twin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module(f"spec.{name.partition(':')[0]}")
    for part in _SHARED.get(name, ()):
        monkeypatch.setattr(module, part, _remembered(getattr(module, part)))
    with pytest.raises(ObligationFailed):
        _OBLIGATIONS[name](_TWINS[name][twin])


# --- faults planted in what an obligation without a statement looks at --------------------------

Plant = Callable[[pytest.MonkeyPatch], None]


def _one_sided_tail(patch: pytest.MonkeyPatch) -> None:
    def tail(self: DiscreteLaplaceLaw, distance: int, e: Any) -> Any:
        return self.at_most(self.center - distance, e)

    patch.setattr(DiscreteLaplaceLaw, "tail", tail)


def _shifted_distribution_function(patch: pytest.MonkeyPatch) -> None:
    right = DiscreteLaplaceLaw.at_most
    patch.setattr(DiscreteLaplaceLaw, "at_most", lambda self, x, e: right(self, x + 1, e))
    # The tail is left right, so that only the distribution function can be what is caught.
    patch.setattr(
        DiscreteLaplaceLaw,
        "tail",
        lambda self, distance, e: 2 * right(self, self.center - distance, e),
    )


def _unnormalized_response(patch: pytest.MonkeyPatch) -> None:
    right = KaryResponseLaw.probability
    patch.setattr(
        KaryResponseLaw,
        "probability",
        lambda self, outcome, e: right(self, outcome, e) * (1 + e(1 / self.scale)),
    )


_FAULTS: dict[str, list[Plant]] = {
    "noisy_count:obligation_mass": [_one_sided_tail, _shifted_distribution_function],
    "randomized_response:obligation_mass": [_unnormalized_response],
    "noisy_count:obligation_lower_bound_is_below_error": [
        scaled(lower_bounds, "two_point", 8),
        scaled(lower_bounds, "two_point", Fraction(1, 8)),
    ],
    "bounded_mean:obligation_lower_bound_is_below_error": [
        scaled(lower_bounds, "two_point", 13),
        scaled(lower_bounds, "two_point", Fraction(1, 13)),
        scaled(bounded_mean, "expected_error", Fraction(1, 13)),
    ],
    "randomized_response:obligation_lower_bound_is_below_error": [
        scaled(lower_bounds, "local_two_point", 16),
        scaled(lower_bounds, "local_two_point", Fraction(1, 16)),
        scaled(randomized_response, "expected_error", 16),
    ],
    **FAULTS,
}


@pytest.mark.parametrize(
    ("name", "plant"),
    [
        pytest.param(name, plant, marks=pytest.mark.of_spec(name))
        for name, plants in _FAULTS.items()
        for plant in plants
    ],
)
def test_a_planted_fault_fails_the_obligation(
    name: str, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(ObligationFailed):
        _OBLIGATIONS[name]()


def test_every_obligation_is_seen_to_fail() -> None:
    assert set(_TWINS) | set(_FAULTS) | ELSEWHERE == set(_OBLIGATIONS)
    text = (Path(__file__).parent / "test_joint.py").read_text(encoding="utf-8")
    for name in ELSEWHERE:
        assert f".{name.partition(':')[2]}(" in text


def test_every_obligation_that_takes_its_statement_has_twins() -> None:
    takes = {n for n, o in _OBLIGATIONS.items() if "claimed" in inspect.signature(o).parameters}
    assert takes - ELSEWHERE == set(_TWINS)


# --- faults planted in the laws that the losses are read off ------------------------------------


def _louder(module: Any) -> Plant:
    """Halve the noise in the law, under the old claim."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = module.law
        patch.setattr(
            module,
            "law",
            lambda parameters, records: right(
                {**parameters, "noise_multiplier": parameters["noise_multiplier"] / 2}, records
            ),
        )

    return plant


def _whole_budget_twice(patch: pytest.MonkeyPatch) -> None:
    def scales(parameters: Any) -> dict[str, Fraction]:
        moves = bounded_mean.sensitivities(parameters)
        return {
            stage: parameters["noise_multiplier"] * moved for stage, moved in moves.items() if moved
        }

    patch.setattr(bounded_mean, "scales", scales)


@pytest.mark.parametrize(
    ("module", "plant"),
    [
        (noisy_count, _louder(noisy_count)),
        (randomized_response, _louder(randomized_response)),
        (bounded_mean, _louder(bounded_mean)),
        (bounded_mean, _whole_budget_twice),
    ],
)
def test_too_little_noise_fails_the_loss(
    module: Any, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(ObligationFailed, match="the largest loss is"):
        module.obligation_loss()


# --- the tools ----------------------------------------------------------------------------------


def test_requirements_are_checked_under_optimization_too() -> None:
    require(True, "never shown")
    with pytest.raises(ObligationFailed, match="this case"):
        require(False, "this case")
    program = "from spec.theory.obligations import require; require(False, 'seen')"
    root = Path(spec.__path__[0]).parent
    ended = subprocess.run(
        [sys.executable, "-O", "-c", program], cwd=root, capture_output=True, text=True
    )
    assert ended.returncode == 1
    assert "ObligationFailed: seen" in ended.stderr


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_neighbors_tried_are_all_there_are(adjacency: Adjacency) -> None:
    every = list(datasets((0, 1, 2), 3))
    assert len(every) == len(set(every)) == 1 + 3 + 9 + 27
    # Two empty datasets are equal, hence neighbors under replace; there is nothing to replace.
    expected = {
        (a, b) for a, b in product(every, repeat=2) if (a or b) and adjacency.are_neighbors(a, b)
    }
    assert expected == set(neighbors((0, 1, 2), 3, adjacency))


def test_rounding_to_cells_is_to_the_nearest_ties_to_even_then_clamped() -> None:
    halves = [Fraction(i, 2) for i in range(-7, 8)]
    expected = [-3, -3, -2, -2, -2, -1, 0, 0, 0, 1, 2, 2, 2, 3, 3]
    assert expected == [queries.to_cells(x, -3, 3, Fraction(1)) for x in halves]
    assert queries.to_cells(Fraction(1, 3), 0, 9, Fraction(1, 4)) == 1
    assert queries.to_cells(Fraction(1e308), 0, 9, Fraction(1, 4)) == 9
    for cell in (Fraction(1), Fraction(1, 4), Fraction(6), Fraction(5, 7)):
        for record in (Fraction(n, m) for n in range(-60, 61) for m in (1, 2, 3, 4, 14)):
            assert round(record / cell) == queries.nearest(record, cell)
