"""The registry of tests that enumerate whole mechanisms, by rule, and the false twins that they
catch.

A rule without an entry makes the suite fail, so that the table of the trusted base can say of every
rule that it was enumerated.
"""

from __future__ import annotations

from typing import NamedTuple

LEAVES = frozenset({"conjecture", "event_lemma", "refuted", "sensitivity_lemma"})
"""What makes statements and concludes nothing: there is no mechanism to enumerate."""


class Enumeration(NamedTuple):
    """The module of this package, the test of the rule, and those of its false twins."""

    module: str
    test: str
    twins: tuple[str, ...]


def _of(module: str, rule: str, *twins: str) -> Enumeration:
    return Enumeration(module, f"test_{rule}", tuple(f"test_{rule}_twin{twin}" for twin in twins))


ENUMERATED: dict[str, Enumeration] = {
    "above_threshold": _of("test_above_threshold", "above_threshold", "_two_ways"),
    "adaptive_compose": _of(
        "test_composition", "adaptive_compose", "_careless_branch", "_range_after_a_coin"
    ),
    "add_delta_event": _of("test_events", "add_delta_event", "_hidden_in_the_coins"),
    "add_total_variation_event": _of(
        "test_events", "add_total_variation_event", "_half_of_the_nodes"
    ),
    "assume": _of("test_released", "assume", "_forgotten"),
    "advanced_compose": _of("test_composition", "advanced_compose", "_delta_and_slack"),
    "change_adjacency": _of(
        "test_transfer", "change_adjacency", "_one_step", "_event_of_each_pair"
    ),
    "compose": _of("test_composition", "compose", "_same_noise"),
    "convert": _of("test_transfer", "convert", "s"),
    "coupled_map": _of("test_coupling", "coupled_map", "s", "_range"),
    "discrete_gaussian": _of("test_noise", "discrete_gaussian", "_norm"),
    "discrete_laplace": _of("test_noise", "discrete_laplace", "_norm"),
    "exponential_mechanism": _of("test_noise", "exponential_mechanism", "_norm"),
    "for_each_release": _of("test_released", "for_each_release", "_larger_number"),
    "friendly_lift": _of(
        "test_friendly_lift", "friendly_lift", "_few_strangers", "_sets_that_are_not_friendly"
    ),
    "gaussian_stability_histogram": _of("test_events", "gaussian_stability_histogram", "s"),
    "group_privacy": _of(
        "test_transfer", "group_privacy", "_one_step", "_deltas_add_up", "_event_of_each_pair"
    ),
    "kept_by_noise": _of("test_filters", "kept_by_noise", "_low_threshold"),
    "noisy_degree_lift": _of(
        "test_filters", "noisy_degree_lift", "_few_strangers", "_low_threshold", "_terms",
        "_margin_forgotten",
    ),
    "of_each_record": _of("test_records", "of_each_record", "s"),
    "of_kept_records": _of(
        "test_records", "of_kept_records", "_public_number", "_one_step", "_looks_at_others"
    ),
    "parallel": _of("test_parallel", "parallel", "s"),
    "passed_gate": _of("test_released", "passed_gate", "_no_gate"),
    "post_process": _of("test_transfer", "post_process", "_reads_the_data"),
    "privacy_filter": _of(
        "test_adaptive", "privacy_filter", "_one_epsilon", "_limit_after_an_answer",
        "_what_was_spent",
    ),
    "propose_test_release": _of(
        "test_stable_values", "propose_test_release", "_no_noise", "_no_delta", "_steps_in_value"
    ),
    "public_value": _of("test_noise", "public_value", "_range"),
    "randomized_response": _of("test_noise", "randomized_response", "_two_answers"),
    "released_event": _of("test_released", "released_event", "_small_shift"),
    "rounded_gaussian": _of("test_noise", "rounded_gaussian", "_norm"),
    "smooth_laplace": _of("test_noise", "smooth_laplace", "_local"),
    "stability_histogram": _of("test_events", "stability_histogram", "s"),
}  # fmt: skip
