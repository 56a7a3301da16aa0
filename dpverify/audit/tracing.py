"""``audit_tracing``: a test of whether an estimate of a mean, a covariance or a product knows
which records it was made of.

Tracing attacks: Dwork, Smith, Steinke, Ullman, Vadhan, "Robust traceability from trace
amounts", FOCS 2015; for covariances Portella and Harvey, "Lower bounds for private estimation
of Gaussian covariance matrices", 2024. What is certified of them, and how, is in traces.py.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpverify.audit.auditing import DEFAULT_ALPHA
from dpverify.audit.certificates import tested_points
from dpverify.audit.instances import Instance
from dpverify.audit.traces import Trace
from dpverify.audit.verdicts import MEANING, Asked, Verdict
from dpverify.estimation.shapes import Concentrated
from dpverify.plans import Abstained, Mechanism
from dpverify.privacy import Adjacency, Derivation, Guarantee, PrivacyClaim
from dpverify.privacy.numbers import Floats, whole
from dpverify.randomness import SeededBits

DEFAULT_RUNS = 200
FEWEST_RUNS = 20


@dataclass(frozen=True, slots=True)
class TracingResult(Asked):
    """Result of tracing. ``alpha``: the probability that ``epsilon`` is above the truth.

    epsilon: a lower bound on any epsilon that the subject has at ``delta``; 0 where nothing is
    shown.
    claimed: the claim's epsilon there. score: what was bet on last.
    estimate: asinh(mean score / mean |score| without the record), NOT a bound: it has sampling
    error, and delta is not taken off.
    fault: what the same attack certifies against the estimate without noise, the planted fault.
    abstained: in how many runs there was no estimate.
    """

    verdict: Verdict
    guarantee: Guarantee
    adjacency: Adjacency
    epsilon: float
    delta: float
    claimed: float
    score: str
    estimate: float
    fault: float
    alpha: float
    runs: int
    abstained: int
    seed: int
    instance: Instance

    @property
    def is_consistent(self) -> bool:
        """True if the verdict is CONSISTENT."""
        return self.verdict is Verdict.CONSISTENT

    @property
    def replay(self) -> str:
        """The call that runs the tracing again; a function must bring the same randomness."""
        return (
            f"audit_tracing(subject, claim=parse_guarantee({str(self.guarantee)!r}), "
            f"adjacency=Adjacency.{self.adjacency.name}, instance={self.instance!r}, "
            f"runs={self.runs}, alpha={self.alpha:g}, seed={self.seed})"
        )

    def __str__(self) -> str:
        return "\n".join(
            [
                f"{self.verdict}: {MEANING[self.verdict]}.",
                f"claim      {self.guarantee} under {self.adjacency}",
                f"certified  epsilon >= {self.epsilon:.4g} at delta {self.delta:.4g} (claimed: "
                f"{self.claimed:.4g}), with probability {1 - self.alpha:.7g}, by {self.score}",
                f"estimate   epsilon of about {self.estimate:.3g} in the scores (not a bound)",
                f"fault      the estimate without noise: epsilon >= {self.fault:.4g}",
                f"seed       {self.seed}, {self.runs} runs, {self.abstained} without an estimate",
            ]
        )


def audit_tracing(
    subject: Mechanism[Any] | Callable[[Floats], Any],
    *,
    instance: Instance,
    claim: PrivacyClaim | Derivation[PrivacyClaim] | Guarantee | None = None,
    adjacency: Adjacency | None = None,
    runs: int = DEFAULT_RUNS,
    alpha: float = DEFAULT_ALPHA,
    seed: int | None = None,
) -> TracingResult:
    """Trace records in estimates of their mean, covariance or probabilities, and bet against
    the claim on every run.

    subject: one of our mechanisms whose estimate has a ``value``, or a function of an array of
    shape (n, d), with randomness of its own, that returns such an estimate or an array. None,
    an abstention and a matrix with ``Concentrated`` directions are no estimate; what has a NaN
    or an infinity is none either.
    instance: ``Gaussians`` for means, of shape (d,); ``Covariances`` for covariances, of shape
    (d, d); ``Bits`` for probabilities of bits, of shape (d,).
    claim, adjacency: a mechanism's own by default; a Guarantee comes with an adjacency. What is
    certified holds under both adjacencies.
    runs: calls of the subject. Valid whatever their number: one wealth is bet at stakes, and on
    scores, that are chosen from the runs before (Ville 1939).
    alpha: the probability that a sound subject is called VIOLATED, or any bound is above the
    truth. Errors: TypeError or ValueError for a missing claim or adjacency, too few runs, a bad
    alpha or seed, before anything is drawn; ValueError for an estimate of another shape.
    """
    guarantee, relation = _claim_of(subject, claim, adjacency)
    if not isinstance(instance, Instance):
        raise TypeError(
            f"instance = {instance!r}; write Gaussians(n=..., covariance=...), "
            "Covariances(n=..., columns=...) or Bits(n=..., columns=...)."
        )
    if whole(runs, "runs") < FEWEST_RUNS:
        raise ValueError(f"runs = {runs}; at least {FEWEST_RUNS} are needed to say a thing.")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha = {alpha} is outside (0, 1); give a probability, say 1e-6.")
    chosen = secrets.randbelow(2**32) if seed is None else whole(seed, "seed")
    if chosen < 0:
        raise ValueError(f"seed = {seed}; give a whole number of at least 0, or None.")
    points = sorted(set(tested_points(guarantee)))
    traced = Trace(), Trace()
    for trace, scores, distance in _runs(subject, instance, runs, chosen, traced):
        trace.add(scores, distance)
    own, fault = (trace.bet(points, alpha) for trace in traced)
    caught = fault.epsilon >= fault.claimed
    silent = Verdict.CONSISTENT if caught else Verdict.POWERLESS
    return TracingResult(
        verdict=Verdict.VIOLATED if own.epsilon >= own.claimed else silent,
        guarantee=guarantee,
        adjacency=relation,
        epsilon=max(0.0, own.epsilon),
        delta=own.delta,
        claimed=own.claimed,
        score=str(own.score),
        estimate=traced[0].estimate,
        fault=max(0.0, fault.epsilon),
        alpha=alpha,
        runs=runs,
        abstained=traced[0].without,
        seed=chosen,
        instance=instance,
    )


def _runs(
    subject: Any, instance: Instance, runs: int, seed: int, traced: tuple[Trace, Trace]
) -> Iterator[tuple[Trace, Floats | None, float]]:
    """Yield (whose, scores, distance) of every run: the subject's, and on the same records
    those of the estimate without noise.
    """
    for run in range(runs):
        rng = np.random.default_rng((seed, run))
        drawn = instance.drawn(rng)
        bare = instance.plain(drawn.records)
        made = _estimate(subject, drawn.records, instance.shape, (seed, run))
        for trace, value in zip(traced, (made, bare), strict=True):
            off = None if value is None else value - drawn.truth
            distance = 0.0 if off is None else float(np.linalg.norm(off))
            scores = None if off is None else np.zeros(instance.n)
            if off is not None and distance > 0:
                scores = instance.scores(off, drawn, rng)
            yield trace, scores, distance


def _estimate(
    subject: Any, records: Floats, shape: tuple[int, ...], address: tuple[int, int]
) -> Floats | None:
    """Return an estimate of this shape; None where there is no estimate, or none that is finite."""
    if isinstance(subject, Mechanism):
        drawn = subject.law(records).sample(SeededBits(*address), 1)
        made = subject.estimate(drawn[0])
    else:
        made = subject(records)  # the records are not read after this
    if made is None or isinstance(made, Abstained | Concentrated):
        return None
    value = np.asarray(getattr(made, "value", made), dtype=np.float64)
    if value.shape != shape:
        raise ValueError(
            f"The estimate has shape {value.shape}; this instance needs one of shape {shape}, "
            f"from records of shape {records.shape}."
        )
    return value if np.isfinite(value).all() else None


def _claim_of(subject: Any, claim: Any, adjacency: Adjacency | None) -> tuple[Guarantee, Adjacency]:
    """Return the guarantee and the adjacency; TypeError or ValueError where they are missing."""
    if not isinstance(subject, Mechanism) and (isinstance(subject, type) or not callable(subject)):
        raise TypeError(
            f"{subject!r} is neither a mechanism nor a function of an array of records."
        )
    if claim is None and isinstance(subject, Mechanism):
        claim = subject.claim
    if isinstance(claim, Derivation):
        claim = claim.conclusion
    if isinstance(claim, PrivacyClaim):
        claim, stated = claim.guarantee, claim.adjacency
        if adjacency is not None and adjacency != stated:
            raise ValueError(f"adjacency = {adjacency}, but the claim is under {stated}.")
        adjacency = stated if isinstance(stated, Adjacency) else None
    if not isinstance(claim, Guarantee):
        raise TypeError(f"claim = {claim!r}; say what is claimed, for example claim=PureDP(1).")
    if not isinstance(adjacency, Adjacency):
        raise ValueError(
            f"adjacency = {adjacency}; write Adjacency.ADD_REMOVE or Adjacency.REPLACE."
        )
    return claim, adjacency
