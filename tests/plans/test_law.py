"""The law of a plan: sampling, likelihood and the spec say the same."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dpverify import Adjacency, BoundedMean, NoisyCount, RandomizedResponse, SeededBits
from dpverify.grid import NOTHING, Transcripts, View, ingest
from dpverify.plans import Law, stages_of
from dpverify.privacy import Domain
from dpverify.randomness import Bits, enumerate_law
from spec import bounded_mean as bounded_mean_spec
from spec import noisy_count as noisy_count_spec
from spec import randomized_response as randomized_response_spec
from spec.theory.laws import TranscriptLaw, real_exponential
from tests.plans.helpers import Released, TwoAnswers, batch_of, released
from tests.randomness.helpers import formal_exponential

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
MEAN = BoundedMean(
    adjacency=ADD,
    noise_multiplier=Fraction(1),
    lower=-1.0,
    upper=1.0,
    count_share=Fraction(1, 2),
    cell=Fraction(1),
)
MEAN_DATA = [0.6, -3.0]
COUNT = NoisyCount(adjacency=ADD, noise_multiplier=Fraction(3, 2), within=(0.0, 1.0))
RESPONSE = RandomizedResponse(adjacency=REPLACE, noise_multiplier=Fraction(2, 3), categories=3)
Case = tuple[Law, TranscriptLaw, tuple[str, ...], list[Released], list[int]]


def exact(data: list[float]) -> list[Fraction]:
    return [Fraction(x) for x in data]


def mean_case() -> Case:
    window: list[Released] = [((c,),) for c in range(-70, 1)]
    gates = [0] * len(window)
    window += [((c,), (s,)) for c in range(1, 71) for s in range(-70, 71)]
    gates += [-1] * (len(window) - len(gates))
    specified = bounded_mean_spec.law(MEAN.parameters, exact(MEAN_DATA))
    return MEAN.law(MEAN_DATA), specified, ("count", "sum"), window, gates


def count_case() -> Case:
    window: list[Released] = [((x,),) for x in range(-60, 61)]
    data = [0.5, 1.0, 7.0]
    specified = noisy_count_spec.law(COUNT.parameters, exact(data))
    return COUNT.law(data), specified, ("count",), window, [-1] * len(window)


def response_case() -> Case:
    window: list[Released] = [(answers,) for answers in product(range(3), repeat=3)]
    data = [0.0, 2.0, 1.0]
    specified = randomized_response_spec.law(RESPONSE.parameters, exact(data))
    return RESPONSE.law(data), specified, ("answers",), window, [-1] * len(window)


CASES = pytest.mark.parametrize("make", [mean_case, count_case, response_case])


@CASES
def test_likelihoods_are_the_specified_masses_and_sum_to_one(make: Callable[[], Case]) -> None:
    law, specified, names, window, gates = make()
    likelihoods = law.log_likelihood(batch_of(names, window, gates))
    assert abs(np.exp(likelihoods).sum() - 1) < 1e-9  # the window leaves out less than 1e-13
    with mp.workdps(50):
        for transcript, likelihood in list(zip(window, likelihoods.tolist(), strict=True))[::17]:
            mass = specified.probability(transcript, real_exponential)
            assert abs(mp.log(mass) - likelihood) < 1e-11 * (1 - likelihood)


@CASES
def test_likelihoods_do_not_depend_on_the_batch(make: Callable[[], Case]) -> None:
    law, _, names, window, gates = make()
    whole = batch_of(names, window, gates)
    likelihoods = law.log_likelihood(whole)
    order = np.arange(len(window))[::-1]
    assert law.log_likelihood(whole.select(order)).tolist() == likelihoods[::-1].tolist()
    for i in range(0, len(window), 101):
        alone = law.log_likelihood(whole.select(np.array([i])))
        assert alone.tolist() == [likelihoods[i]]


@CASES
def test_draws_follow_the_likelihoods(make: Callable[[], Case]) -> None:
    """Chi-square with false alarm 1e-6 for each case, over the cells that expect 20 draws."""
    law, _, names, window, gates = make()
    draws = 40_000
    expected = draws * np.exp(law.log_likelihood(batch_of(names, window, gates)))
    batch = law.sample(SeededBits(31), draws)
    position = {transcript: i for i, transcript in enumerate(window)}
    counts = np.zeros(len(window) + 1)
    for i in range(draws):
        counts[position.get(released(batch[i]), len(window))] += 1

    def statistic(expected: np.ndarray) -> float:
        large = expected >= 20
        rest = draws - expected[large].sum()
        cells = ((counts[:-1][large] - expected[large]) ** 2 / expected[large]).sum()
        return float(cells + (draws - counts[:-1][large].sum() - rest) ** 2 / max(rest, 20.0))

    threshold = stats.chi2.isf(1e-6, int((expected >= 20).sum()))
    assert statistic(expected) < threshold
    # Planted: the same data one cell further away. The test has to notice.
    assert statistic(np.roll(expected, 1)) > threshold


def enumerated(law: Law, size: int, max_choices: int) -> dict[object, Fraction]:
    """Return the joint law of all rows of a batch, exponentials formal."""

    def run(bits: Bits) -> tuple[tuple[Released, str | None], ...]:
        batch = law.sample(bits, size)
        return tuple((released(batch[i]), batch[i].stopped) for i in range(size))

    enumeration = enumerate_law(
        run, max_choices=max_choices, exponential=formal_exponential(Fraction(1, 3), 1)
    )
    assert enumeration.undecided == 0
    return dict(enumeration.masses)


def test_rows_are_independent_and_do_not_depend_on_the_batch() -> None:
    law = TwoAnswers(adjacency=REPLACE, noise_multiplier=Fraction(1)).law([1.0])
    p, q = Fraction(3, 4), Fraction(1, 4)
    one = {
        (((0,),), "said no"): q,
        (((1,), (0,)), None): p * q,
        (((1,), (1,)), None): p * p,
    }
    assert enumerated(law, 1, 4) == {(row,): mass for row, mass in one.items()}
    pairs = {(a, b): one[a] * one[b] for a in one for b in one}
    assert enumerated(law, 2, 8) == pairs


def test_a_batch_where_every_row_stops_has_no_later_values() -> None:
    law = TwoAnswers(adjacency=REPLACE, noise_multiplier=Fraction(1, 10**6)).law([0.0])
    batch = law.sample(SeededBits(32), 5)  # P(a report of 1) < exp(-10^6)
    assert list(batch.values) == ["first"]
    assert [batch[i].stopped for i in range(5)] == ["said no"] * 5
    assert batch.reached.tolist() == [1] * 5
    likelihoods = law.log_likelihood(batch)
    assert np.abs(likelihoods).max() == 0.0


def test_an_empty_batch_is_a_batch() -> None:
    law = TwoAnswers(adjacency=REPLACE, noise_multiplier=Fraction(1)).law([1.0])
    batch = law.sample(SeededBits(1), 0)
    assert len(batch) == 0
    assert law.log_likelihood(batch).shape == (0,)


def test_sampling_the_bounded_mean_gives_the_specified_law() -> None:
    """Two stages and a gate, every coin outcome, fraction for fraction."""
    law, e = MEAN.law(MEAN_DATA), formal_exponential(Fraction(1, 3), 2)
    enumeration = enumerate_law(
        lambda bits: released(law.sample(bits, 1)[0]), max_choices=20, exponential=e
    )
    specified = bounded_mean_spec.law(MEAN.parameters, exact(MEAN_DATA))
    equal = Fraction(0)
    for transcript, mass in enumeration.masses.items():
        true = specified.probability(transcript, e)  # type: ignore[arg-type]
        assert mass <= true <= mass + enumeration.undecided
        equal += mass if mass == true else 0
    assert equal >= Fraction(99, 100)


IMPOSSIBLE: dict[str, tuple[Released, int]] = {
    "stopped although it passed": (((3,),), 0),
    "went on although it failed": (((0,), (1,)), -1),
    "broke off after the count": (((3,),), -1),
    "broke off before the count": ((), -1),
    "went on although it was stopped": (((3,), (1,)), 0),
    "was rightly stopped and went on": (((0,), (1,)), 0),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_transcripts_have_no_likelihood(name: str) -> None:
    transcript, gate = IMPOSSIBLE[name]
    possible: Released = ((3,), (1,))
    law = MEAN.law(MEAN_DATA)
    batch = batch_of(("count", "sum"), [transcript, possible], [gate, -1])
    likelihoods = law.log_likelihood(batch).tolist()
    assert likelihoods[0] == -np.inf
    assert np.isfinite(likelihoods[1])


def test_another_value_than_a_public_one_is_impossible() -> None:
    public = BoundedMean(adjacency=REPLACE, noise_multiplier=Fraction(1), lower=0.0, upper=1.0)
    batch = batch_of(("count", "sum"), [((2,), (5,)), ((3,), (5,))], [-1, -1])
    likelihoods = public.law([0.0, 1.0]).log_likelihood(batch)
    assert np.isfinite(likelihoods).tolist() == [True, False]


@pytest.mark.parametrize("category", [-1, 3, 7])
def test_a_category_that_there_is_not_is_impossible(category: int) -> None:
    batch = batch_of(("answers",), [((0, 1, category),), ((0, 1, 2),)], [-1, -1])
    likelihoods = RESPONSE.law([0.0, 2.0, 1.0]).log_likelihood(batch)
    assert np.isfinite(likelihoods).tolist() == [False, True]


@CASES
def test_printing_a_law_shows_no_data(make: Callable[[], Case]) -> None:
    law = make()[0]
    shown = {repr(law), str(law), f"{law}", f"{[law]}"[1:-1]}
    assert len(shown) == 1
    assert set(filter(str.isdigit, shown.pop())) <= {"1", "2"}  # the number of stages


def test_laws_of_unlike_data_print_alike() -> None:
    assert repr(MEAN.law([])) == repr(MEAN.law([0.5] * 1000)) == repr(MEAN.law([1e308]))


def test_a_query_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[int] = []
    query = stages_of(COUNT.fixed_plan)[0].query
    original = type(query).evaluate

    def counted(self: object, view: View, before: Transcripts = NOTHING) -> object:
        evaluated.append(len(view))
        return original(query, view, before)

    monkeypatch.setattr(type(query), "evaluate", counted)
    law = COUNT.law([0.5, 2.0])
    assert evaluated == []
    law.sample(SeededBits(1), 10)
    law.log_likelihood(law.sample(SeededBits(2), 10))
    assert evaluated == [2]


def test_changing_the_data_afterwards_changes_nothing() -> None:
    data = np.array([0.5, 0.5, 2.0])
    law = COUNT.law(data)
    data[:] = 2.0
    assert law.center(stages_of(COUNT.fixed_plan)[0].query).tolist() == [2]
    assert ingest(data, Domain(columns=1))[:, 0].tolist() == [2.0] * 3


def test_closed_laws_are_those_of_a_single_stage() -> None:
    assert COUNT.law([]).closed
    assert RESPONSE.law([1.0]).closed
    assert not MEAN.law([]).closed
