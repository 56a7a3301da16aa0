"""The rules: the only makers of claims.

Each rule checks its side conditions, computes its numbers on the safe side, and returns a
``Derivation``. spec/theory/rules.py states each rule again as a plain function, and the tests hold
the two against each other and against brute force.
"""

from dpverify.privacy.rules.above_threshold import above_threshold
from dpverify.privacy.rules.adaptive import privacy_filter
from dpverify.privacy.rules.composition import (
    adaptive_compose,
    advanced_compose,
    compose,
    parallel,
)
from dpverify.privacy.rules.events import (
    add_delta_event,
    add_total_variation_event,
    assume,
    for_each_release,
    passed_gate,
    released_event,
)
from dpverify.privacy.rules.filters import friendly_lift, kept_by_noise, noisy_degree_lift
from dpverify.privacy.rules.histograms import (
    gaussian_stability_histogram,
    propose_test_release,
    stability_histogram,
)
from dpverify.privacy.rules.lemmas import conjecture, event_lemma, refuted, sensitivity_lemma
from dpverify.privacy.rules.noise import (
    discrete_gaussian,
    discrete_laplace,
    exponential_mechanism,
    public_value,
    randomized_response,
    rounded_gaussian,
    smooth_laplace,
)
from dpverify.privacy.rules.records import of_each_record, of_kept_records
from dpverify.privacy.rules.transfer import (
    change_adjacency,
    convert,
    coupled_map,
    group_privacy,
    post_process,
)

__all__ = [
    "above_threshold",
    "adaptive_compose",
    "add_delta_event",
    "add_total_variation_event",
    "advanced_compose",
    "assume",
    "change_adjacency",
    "compose",
    "conjecture",
    "convert",
    "coupled_map",
    "discrete_gaussian",
    "discrete_laplace",
    "event_lemma",
    "exponential_mechanism",
    "for_each_release",
    "friendly_lift",
    "gaussian_stability_histogram",
    "group_privacy",
    "kept_by_noise",
    "noisy_degree_lift",
    "of_each_record",
    "of_kept_records",
    "parallel",
    "passed_gate",
    "post_process",
    "privacy_filter",
    "propose_test_release",
    "public_value",
    "randomized_response",
    "refuted",
    "released_event",
    "rounded_gaussian",
    "sensitivity_lemma",
    "smooth_laplace",
    "stability_histogram",
]
