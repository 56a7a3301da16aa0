"""Examples: the hypotheses of each tied theorem can be met at once, by mechanisms that tell
something.

``x_example`` has the hypotheses of theorem x, as its tie prints them, of things that exist; so a
hypothesis that is changed has to be met again, and nothing is proved from a contradiction. It says
one thing more, ``TOLD``: the conclusion would be false with smaller numbers, so the hypotheses are
not met only by mechanisms that tell nothing.
"""

from __future__ import annotations

from .tie import Tie

_NOTHING = "~ private near 1 0 {}".format
_BY_ADDING = "~ private (@add_remove X) 1 0 {}".format
_BY_REPLACING = "~ private (@replace X) 1 0 {}".format
_BOTH = "(fun D => joint (M D) (fun x => K x D))"
_MAPPED = "(fun D => M (map f D))"
_KEPT = "(fun D => M (pmap f D))"
_NOT_GAUSSIAN = "~ forall D E, near D E -> {}"
_IN_TURN = "(exists l earlier earlier' D x, M l earlier D x != M l earlier' D x) /\\ "
TOLD = {
    "convert": _NOTHING("M"),
    "post_process": _NOTHING("N"),
    "compose": f"~ private near t d {_BOTH}",
    "group_privacy": "~ private (steps near k) 1 0 M",
    "change_adjacency": _BY_REPLACING("M"),
    "parallel_by_value": _BY_ADDING("(by_value labels M f)"),
    "parallel_by_index": _BY_REPLACING("(by_index labels M g)"),
    "of_each_record_add_remove": _BY_ADDING(_MAPPED),
    "of_each_record_replace": _BY_REPLACING(_MAPPED),
    "of_kept_records_add_remove": _BY_ADDING(_KEPT),
    "of_kept_records_replace": _BY_REPLACING(_KEPT),
    "coupled_map": _NOTHING("N"),
    "discrete_laplace_mechanism": _NOTHING("(fun D => noisy p (query D))"),
    "exponential_mechanism": "~ bounded_range near 1 M",
    "bounded_range_pure": _NOTHING("M"),
    "convert_to_less": "~ private near t' d M",
    "randomized_response": _NOTHING(
        "(fun D => product [seq response t options a | a <- answers D])"
    ),
    "add_delta_event": "~ under H near t d M",
    "assume": "~ under (h :: H) near 1 0 M",
    "compose_under": f"~ private near (t * t') (d + d') {_BOTH}",
    "passed_gate": "~ under H near 1 0 M",
    "add_total_variation_event": "~ under H near t d M",
    "for_each_release": f"~ private near (t * t') (d + d') {_BOTH}",
    "limits_filter": "~ private near 2%:R d (answers asked)",
    "public_value": "exists D E, query D <> query E",
    "released_event": "~ rarely_fails (compared at_most smaller slack query) H near 0 "
    "(fun D y => p (y - (query D - shift)))",
    "kept_by_noise": "above (threshold - score + 1) < "
    "mass (where_good (passed threshold) (noisy p vs)) s",
    "parallel_by_labels_add_remove": _BY_ADDING("N"),
    "parallel_by_labels_replace": _BY_REPLACING("N"),
    "chained_by_value": _IN_TURN
    + _BY_ADDING("(fun D => chain M labels [::] (fun l => [seq x <- D | f x == l]))"),
    "chained_by_index": _IN_TURN
    + _BY_REPLACING("(fun D => chain M labels [::] (fun l => block_at g l D))"),
    "chained_by_labels_add_remove": _IN_TURN + _BY_ADDING("N"),
    "chained_by_labels_replace": _IN_TURN + _BY_REPLACING("N"),
    "compose_dominated": "~ dominated (joint P K) (joint Q L) A B",
    "approximate_gdp_profile": "~ close t d P Q",
    "compose_gdp": _NOT_GAUSSIAN.format(
        "gdp gaussian 0 (joint (M D) (fun x => K x D)) (joint (M E) (fun x => K x E))"
    ),
    "privacy_filter": "~ approximate_gdp gaussian 0 e (left_law steps) (right_law steps)",
    "noisy_degree_lift": _NOT_GAUSSIAN.format(
        "approximate_gdp gaussian most e (on_kept keep M D) (on_kept keep M E)"
    ),
    "gaussian_stability_histogram": _NOT_GAUSSIAN.format(
        "approximate_gdp gaussian 0 0 (released keys cell count D) (released keys cell count E)"
    ),
    "stability_histogram": "~ private near (t ^+ moved) 0 (released keys cell count)",
    "alone_once": "alone none keys cell count D E < 1",
    "propose_test_release": "~ private near (t ^+ size tested) 0 "
    "(fun D => product [seq cell (value i D) (far i D) | i <- tested])",
    "basic_filter_add_remove": "~ stable (@add_remove X) (share_friends friends) 1 "
    "(basic_coins R friends)",
    "basic_filter_replace": "~ stable (@replace X) (share_friends friends) 2%:R "
    "(basic_coins R friends)",
    "friendly_lift": "~ private near (sequences.expR e) d M /\\ "
    + _NOTHING("(fun D => filtered (coins D) M)"),
    "above_threshold": _NOTHING("M"),
    "above_threshold_one_way": _NOTHING("M"),
}
"""Statement of each tied theorem's example beside the hypotheses."""


_REALS = ("friendly_lift", "above_threshold", "above_threshold_one_way")
"""Theorems whose examples are over every model of the real numbers: they need an exponential
function or infinite sums. All others have theirs over the rational numbers."""


def statement(tie: Tie) -> str:
    """Print that all hypotheses of a theorem can be met, and what is told."""
    of_first = "".join(f"({one.term}) /\\ " for one in tie.hypotheses)
    of_second = "".join(f"({one.term}) /\\ " for one in tie.given)
    rest = f"exists {tie.then}, {of_second}" if tie.then else of_second
    field, binders = tie.variables.split(") ", 1)
    numbers = "forall (R : realType), exists" if tie.name in _REALS else f"exists {field})"
    return f"{numbers} {binders}, {of_first}{rest}{TOLD[tie.name]}"


def definition(tie: Tie, file: str) -> str:
    """Print what Coq must accept: this file's example at the statement that is printed here."""
    return f"Definition met_{tie.name} : {statement(tie)} := @{file}.{tie.name}_example."
