"""Peers of the auditor on outputs of two datasets: jax-privacy and DP-Sniper's method.

jax-privacy is the package itself; it is given the exact log-likelihood ratio of each output.
DP-Sniper's method is written here from its paper (Bichsel, Steffen, Bogunovic, Vechev,
"DP-Sniper: Black-Box Discovery of Differential Privacy Violations using Classifiers", S&P 2021),
not its package.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dpverify.privacy.numbers import Floats

DEFAULT = "Clopper-Pearson"
"""The method of jax-privacy that its documentation shows."""
LEAST = 0.01
"""The least probability of an event that DP-Sniper looks for, as in its paper."""
TRAINING, THRESHOLD = 0.05, 0.05
"""Of its draws; in the paper, of 222 million draws a side, 10.7 million train and as many find
the threshold."""
_NO_DELTA = (
    1e-300  # where a method asks for a positive one: so much changes no figure that is shown
)
_LARGEST = 1e3  # of a log-likelihood ratio: an infinite one is no score


def canary_bounds(
    auditing: Any, left: Floats, right: Floats, alpha: float, delta: float, seed: int
) -> dict[str, float]:
    """Return lower bounds on epsilon by every jax-privacy method that assumes nothing of the
    mechanism.

    left, right: scores of the outputs on either side, higher where left is likelier.
    "one run" takes the better direction to be known; "Clopper-Pearson" bounds both at no cost.
    """
    left, right = (np.clip(scores, -_LARGEST, _LARGEST) for scores in (left, right))
    split = auditing.Split(0.5, seed)
    both = auditing.CanaryScoreAuditor(left, right)
    bounds = {
        DEFAULT: both.epsilon_clopper_pearson(alpha, delta, one_sided=False),
        f"{DEFAULT}, split": both.epsilon_clopper_pearson(
            alpha, delta, one_sided=False, threshold_strategy=split
        ),
    }
    for name, one in {"left": both, "right": auditing.CanaryScoreAuditor(-right, -left)}.items():
        for how, strategy in {"": auditing.Bonferroni(), ", split": split}.items():
            bounds[f"one run, {name}{how}"] = one.epsilon_one_run(
                alpha, max(delta, _NO_DELTA), threshold_strategy=strategy
            )
    return {name: float(bound) for name, bound in bounds.items()}


@dataclass(frozen=True)
class Sniper:
    """DP-Sniper's method: an event learned by logistic regression, with Clopper-Pearson bounds.

    flags: values that stand for no number; each becomes columns of its own, as in the paper.
    """

    flags: Sequence[float] = ()

    def bound(self, left: Floats, right: Floats, alpha: float, delta: float, seed: int) -> float:
        """Return a lower bound on epsilon at ``delta`` from outputs of either side.

        Both have shape (draws, columns). The method is for pure privacy; delta is subtracted
        from the probability that is bounded from below.
        """
        rng = np.random.default_rng(seed)
        sides = [self._features(side)[rng.permutation(len(side))] for side in (left, right)]
        size = min(map(len, sides))
        train, threshold_end = int(size * TRAINING), int(size * (TRAINING + THRESHOLD))
        learned = _learned([side[:train] for side in sides])
        scores = [learned(side[train:]) for side in sides]
        chosen, final = (
            [one[cut] for one in scores]
            for cut in (slice(threshold_end - train), slice(threshold_end - train, None))
        )
        events = [_event(sign, chosen[1 - side]) for side, sign in ((0, 1), (1, -1))]
        shown = [
            _log_ratio(
                events[side].share(chosen[side]), events[side].share(chosen[1 - side]), delta
            )
            for side in (0, 1)
        ]
        side = int(np.argmax(shown))
        counts = [
            math.floor(events[side].share(one) * len(one)) for one in (final[side], final[1 - side])
        ]
        low = beta.ppf(alpha / 2, counts[0], len(final[side]) - counts[0] + 1) if counts[0] else 0.0
        drawn = len(final[1 - side])
        high = (
            beta.ppf(1 - alpha / 2, counts[1] + 1, drawn - counts[1]) if counts[1] < drawn else 1.0
        )
        return max(0.0, _log_ratio(float(low), float(high), delta))

    def _features(self, outputs: Floats) -> Floats:
        columns = [np.where(np.isin(outputs, self.flags), 0.0, outputs)]
        columns += [(outputs == value).astype(np.float64) for value in self.flags]
        return np.concatenate(columns, axis=1)


@dataclass(frozen=True)
class _Event:
    """The event {sign * score > threshold}, with probability ``tie`` for scores equal to it."""

    sign: int
    threshold: float
    tie: float

    def share(self, scores: Floats) -> float:
        """Return the share of these scores in the event."""
        signed = self.sign * scores
        return float(np.mean((signed > self.threshold) + self.tie * (signed == self.threshold)))


def _event(sign: int, other: Floats) -> _Event:
    """Find the event of the largest scores that has probability LEAST on the other side."""
    signed = np.sort(sign * other)[::-1]
    target = LEAST * len(signed)
    threshold = float(signed[min(math.floor(target), len(signed) - 1)])
    above, equal = np.count_nonzero(signed > threshold), np.count_nonzero(signed == threshold)
    return _Event(sign, threshold, (target - above) / equal)


def _learned(sides: Sequence[Floats]) -> Any:
    """Learn a map from outputs to the log-odds of left, by logistic regression."""
    outputs = np.concatenate(sides)
    labels = np.repeat([1, 0], [len(side) for side in sides])
    fitted = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(outputs, labels)
    return fitted.decision_function


def _log_ratio(low: float, high: float, delta: float) -> float:
    """Return log((low - delta) / high)."""
    if low <= delta:
        return -math.inf
    return math.log((low - delta) / high) if high > 0 else math.inf
