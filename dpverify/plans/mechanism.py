"""Shape of every mechanism: public parameters and a plan; everything else is implemented here,
once.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import wraps
from numbers import Real
from typing import Annotated, Any, Generic, ParamSpec, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from dpverify.grid import Transcripts, ingest
from dpverify.grid.views import Progress
from dpverify.plans.calibrating import least_multiplier
from dpverify.plans.chunks import Chunks, Data, chunks_in
from dpverify.plans.law import Law
from dpverify.plans.parameters import (
    Rational,
    check_names,
    converted,
    naming,
    positive,
    probability,
)
from dpverify.plans.plan import Part, Plan, derive, elements_of, stages_of
from dpverify.plans.stages import Gate, Stage
from dpverify.plans.streaming import Job, laws, streaming
from dpverify.plans.walking import gates_of
from dpverify.privacy import (
    Adjacency,
    ApproxDP,
    Derivation,
    Domain,
    GaussianDP,
    Guarantee,
    PrivacyClaim,
    PureDP,
    Status,
    rules,
)
from dpverify.privacy.adjacency import Nonfinite
from dpverify.privacy.calibration import Unreachable, least_integer
from dpverify.privacy.calls import fitting
from dpverify.privacy.numbers import Exact, brief, settle, to_float, whole
from dpverify.randomness import Bits, SystemBits
from dpverify.randomness.bits import require_bits

Estimate = TypeVar("Estimate", covariant=True)
AnyMechanism = TypeVar("AnyMechanism", bound="Mechanism[Any]")
Parameters = ParamSpec("Parameters")


@dataclass(frozen=True, slots=True)
class Abstained:
    """Release that says only that there is no estimate, and for which public reason."""

    reason: str

    def to_dict(self) -> dict[str, str]:
        """Return the outcome in plain JSON types, for ``result_from``."""
        return {"result": "Abstained", "reason": self.reason}

    def __str__(self) -> str:
        return f"abstained: {self.reason}"


def _of_records(expected_error: Callable[..., float]) -> Callable[..., float]:
    """Make a method that checks its number of records, n, and calls ``expected_error``."""

    @wraps(expected_error)
    def checked(self: Any, n: int, **assumed: Any) -> float:
        if whole(n, "n") < 0:
            raise ValueError(f"n = {n}; give a number of records, at least 0.")
        return expected_error(self, n, **assumed)

    return checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism(ABC, Generic[Estimate]):
    """A differentially private estimator: frozen public parameters and a ``plan``.

    adjacency: which datasets are neighbors; part of the claim, no default.
    noise_multiplier: multiplies every noise scale; ``for_budget`` finds the least that suffices,
    and without it 0 is refused.
    budget: the guarantee to claim, if it is not simply what the stages compose to.
    nonfinite: what a NaN or infinite record is, see ``Domain``.

    ``plan`` is called once, when the mechanism is made. Its answer is ``fixed_plan``: this very
    plan runs, and ``derivation`` is about it (print that to see why the claim holds).
    """

    adjacency: Adjacency
    noise_multiplier: Annotated[Rational, positive(" is not positive; use for_budget(...).")] = (
        Fraction(0)
    )
    budget: Guarantee | None = None
    nonfinite: Nonfinite = "refuse"
    fixed_plan: Plan = field(init=False, repr=False, compare=False)
    derivation: Derivation[PrivacyClaim] = field(init=False, repr=False, compare=False)

    def __init_subclass__(cls, **options: Any) -> None:
        """Let every mechanism's ``expected_error`` refuse what is no number of records, and its
        constructor show what it needs.
        """
        super(Mechanism, cls).__init_subclass__(**options)
        own = cls.__dict__.get("expected_error")
        if own is not None and not hasattr(own, "__wrapped__"):
            cls.expected_error = _of_records(own)  # type: ignore[method-assign]
        made = cls.__dict__.get("__init__")  # what ``dataclass`` made, where the class has slots
        if made is not None and not hasattr(made, "__wrapped__"):
            fits = fitting(cls.__name__, _by_budget)(made)
            cls.__init__ = naming(fits)  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        if not isinstance(self.adjacency, Adjacency):
            raise TypeError(f"adjacency = {self.adjacency!r}; {_ADJACENCIES}")
        settle(self, **converted(self))
        if self.budget is not None and not isinstance(self.budget, Guarantee):
            raise TypeError(_NOT_A_BUDGET.format(self.budget))
        self.check_parameters()
        domain = Domain(self.columns(), self.nonfinite, self.replacement())
        settle(self, fixed_plan=self.plan())
        shown = derive(self.fixed_plan, self.adjacency, domain)
        if not _is_about(shown.conclusion, self.adjacency, domain):
            raise ValueError(
                f"The plan's claim is another one than was asked: {shown.conclusion}. A query "
                f"states its sensitivity under the adjacency, {self.adjacency}, and for the domain "
                "that it is given."
            )
        if shown.conclusion.hypotheses:
            raise ValueError(
                f"The claim of this plan is open: {shown.conclusion}. Give the plan an Unless that "
                "pays for the failure of each of these, or a gate that sees to it."
            )
        shown = rules.post_process(shown, "the estimate is a function of the transcript")
        if self.budget is not None:  # a mechanism whose claim does not follow is never built
            shown = rules.convert(shown, self.budget)
        settle(self, derivation=shown)

    @abstractmethod
    def plan(self) -> Plan:
        """Return what the mechanism does, as data: stages and gates, from public parameters
        only.
        """

    @abstractmethod
    def estimate(self, transcript: Transcripts) -> Estimate | Abstained:
        """Compute the result that a single transcript stands for: post-processing, no data."""

    def check_parameters(self) -> None:
        """Refuse bad public parameters: say what was given, why it is refused, and what to
        write.
        """

    def columns(self) -> int:
        """Return how many numbers a record has."""
        return 1

    def replacement(self) -> float | tuple[float, ...]:
        """Return the record that a non-finite one counts as under nonfinite="replace": a number
        for all columns, by default 0, or one for each.
        """
        return 0.0

    def fewest_records(self) -> int:
        """Return, under replace, where the number of records is public, the fewest that make
        sense; else 0.
        """
        return 0

    @classmethod
    @fitting("for_budget", lambda _: _AN_EXAMPLE)
    def for_budget(
        cls: Callable[Parameters, AnyMechanism],
        budget: Guarantee,
        /,
        *positional: Parameters.args,
        **parameters: Parameters.kwargs,
    ) -> AnyMechanism:
        """Make the mechanism with the least noise whose claim is ``budget``, on the safe side.

        Takes the class's parameters by name, except noise_multiplier and budget, which are
        computed. Raises TypeError or ValueError, as the class does, and ValueError when no
        amount of noise meets the budget.
        """
        given = {"noise_multiplier", "budget"} & parameters.keys()
        if positional or given:
            what = f"{', '.join(sorted(given))} is" if given else "a second positional argument is"
            raise TypeError(
                f"{what} no parameter of for_budget: it takes a budget, finds the noise "
                "multiplier, and is given all else by name."
            )
        if "adjacency" not in parameters:
            raise TypeError(_NO_ADJACENCY)
        return cast(type[AnyMechanism], cls).calibrated_for(
            budget,
            **parameters,  # type: ignore[arg-type]
        )

    @classmethod
    def calibrated_for(cls, budget: Guarantee, *, adjacency: Adjacency, **parameters: Any) -> Self:
        """Do what ``for_budget`` does, for a class of which no more is known: no type checker
        sees its parameters.

        A class that chooses some of its parameters for the budget extends this method.
        """
        if not isinstance(budget, Guarantee):
            raise TypeError(_NOT_A_BUDGET.format(budget))
        check_names(cls, parameters)
        base = cls(adjacency=adjacency, noise_multiplier=Fraction(1), **parameters)

        pure = isinstance(budget, PureDP) or (isinstance(budget, ApproxDP) and not budget.delta)
        if pure and isinstance(base.claim.guarantee, GaussianDP):
            other = "noise='laplace', or " if "noise" in base.parameters else ""
            raise ValueError(
                f"budget = {brief(str(budget))}: no amount of Gaussian noise is pure DP; give "
                f"{other}an ApproxDP budget with a delta above 0, or a ZeroConcentratedDP one."
            )

        rare = base.parameters.get("delta")
        too_likely = rare is not None and rare >= getattr(budget, "delta", 0)

        def made(multiplier: Fraction) -> Guarantee:
            if multiplier == 1:
                return base.claim.guarantee
            if multiplier > _FAR and too_likely:  # to search on would take minutes
                raise Unreachable("no noise makes what delta allows less likely")
            return dataclasses.replace(base, noise_multiplier=multiplier).claim.guarantee

        try:
            least = least_multiplier(made, budget)
        except Unreachable:
            own = base.claim.guarantee
            enough, more = ("any", "") if own.implies(budget) else ("no", _still(made))
            smaller = "a smaller delta or " if "delta" in base.parameters else ""
            raise ValueError(
                f"There is no least noise for {brief(str(budget))}: {enough} noise multiplier from "
                f"2^-8192 to 2^8192 meets it. At multiplier 1 the stages have {brief(str(own))}"
                f"{more}. Give {smaller}another budget."
            ) from None
        return dataclasses.replace(base, noise_multiplier=least, budget=budget)

    def expected_error(self, n: int) -> float:
        """Return the root mean square of the noise's part in the value's error, from public
        numbers, before any release.

        The result is for n records that suit the mechanism; each class says which these are.
        For a vector it is the root mean square of the Euclidean length. It is in the value's
        unit where the class names no other, and infinite where the mechanism would abstain.
        Raises ValueError where nothing can be said without the data.
        """
        raise ValueError(
            f"What noise does to the estimate of {type(self).__name__} depends on the data; no "
            "error can be told before."
        )

    def records_for(self, error: float, **assumed: Any) -> int:
        """Return a number n of records with ``expected_error(n, **assumed)`` at most ``error``,
        where n - 1 are too few.

        It is the least such n where the error falls with n, but not always where the error has
        steps (balls chosen for quarter octaves of n). Raises ValueError as ``expected_error``
        does, and where 2^60 records do not suffice.
        """
        if isinstance(error, bool) or not isinstance(error, Real) or not error > 0:
            raise ValueError(f"error = {error!r}; give the largest error to accept, above 0.")

        def enough(n: int) -> bool:
            return self.expected_error(n, **assumed) <= error

        try:
            return least_integer(enough, above=-1, first=0, most=_MOST_RECORDS)
        except Unreachable:
            least = self.expected_error(_MOST_RECORDS, **assumed)
            raise ValueError(
                f"error = {error}: with 2^60 records {least:.3g} is expected. Give a larger "
                "error, or a larger budget, which is less noise."
            ) from None

    def part(self, name: str) -> Part:
        """Return this mechanism as a part of another's plan: what it claims there is derived
        for the other's domain.

        ``estimate(transcript.within(name))`` is its estimate. For a share s of the other's
        mu^2, give this mechanism the other's noise_multiplier over sqrt(s).
        """
        return Part(name, self.fixed_plan)

    @property
    def domain(self) -> Domain:
        """Records that the claim covers."""
        return cast(Domain, self.claim.domain)

    @property
    def claim(self) -> PrivacyClaim:
        """Claim: the guarantee, its adjacency, its domain and its status."""
        return self.derivation.conclusion

    @property
    def composed(self) -> Guarantee:
        """Guarantee that the stages prove together, before it is converted to the budget."""
        shown = self.derivation if self.budget is None else self.derivation.premises[0]
        return cast(PrivacyClaim, shown.conclusion).guarantee

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters by name."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.init}

    def law(self, data: Data) -> Law:
        """Return the distribution of the transcript on ``data``, which is as secret as the
        data.

        data: records in memory, or what is read chunk by chunk: ``Chunks``, an iterator of
        arrays, a memory map, a Dask collection, an open Parquet file. Raises TypeError, before
        anything is read, where a plan does not add up over chunks, ValueError for noise that is
        not drawn, and SourceFailed.
        """
        chunks = chunks_in(data)
        if chunks is None and isinstance(data, np.memmap):
            chunks = Chunks(data) if streaming(self.fixed_plan).refusal is None else None
        if chunks is not None:
            (law,) = laws_on([(self, chunks)])
            return law
        self.require_drawable()
        records = ingest(cast(ArrayLike, data), self.domain)
        if self.adjacency is Adjacency.REPLACE:
            self._refuse_too_few(len(records))
        return Law(self.fixed_plan, records, self.adjacency, self.domain)

    def require_drawable(self) -> None:
        """Refuse noise of a scale that is not drawn, by public parameters alone. Raises
        ValueError.
        """
        for stage in stages_of(self.fixed_plan):
            if why := stage.noise.undrawable():
                raise ValueError(f"noise_multiplier = {to_float(self.noise_multiplier):.3g}: {why}")

    def release(
        self,
        data: Data | Law,
        bits: Bits | None = None,
        *,
        accept_status: str = "",
        progress: Progress | None = None,
    ) -> Estimate | Abstained:
        """Make one private release: a draw of size 1 from ``law(data)``, by fresh system bits.

        data: as for ``law``; or this mechanism's law, as ``laws_on`` makes it.
        progress: called with (done, total) where counting friends takes long; for the data's owner.

        ``accept_status`` is needed for a claim that is not proved, and repeats its status.
        """
        if not isinstance(accept_status, str) or not (progress is None or callable(progress)):
            raise TypeError(
                f"accept_status = {accept_status!r}, progress = {progress!r}; give a text and a "
                "function of (done, total), or leave them out."
            )
        status = self.claim.status
        accepted, _, where = accept_status.partition(":")
        if status is not Status.PROVED and (accepted != str(status) or not where.strip()):
            raise ValueError(
                f"The claim of this mechanism is {status}, not proved. To release all the same, "
                f"write accept_status='{status}: <where that is recorded>'."
            )
        source = SystemBits() if bits is None else bits
        require_bits(source)
        law = data if isinstance(data, Law) else self.law(data)
        if law.plan is not self.fixed_plan:
            raise TypeError("This is the law of another mechanism; give one that laws_on made.")
        law.progress = progress
        return self.estimate(law.sample(source, 1))

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return the least n such that every dataset of n or more records abstains with
        probability at most ``beta``.

        The bound is a union bound over the gates, each of which compares a noisy count with a
        public number.
        """
        allowed = probability(beta, "beta")
        gates = gates_of(self.fixed_plan, filtered=False)
        needed = [self._gate_minimum(gate, allowed / len(gates)) for gate in gates]
        if self.adjacency is Adjacency.REPLACE:
            needed.append(self.fewest_records())
        return max(needed, default=0)

    def _gate_minimum(self, gate: Gate, beta: Fraction) -> int:
        fixed = elements_of(self.fixed_plan, filtered=False, fixed=True)
        stages = [s for s in fixed if isinstance(s, Stage) and s.name == gate.stage]
        if not stages:
            raise ValueError(
                f"The gate reads {gate.stage!r}, whose noise is chosen from the transcript, or "
                "which is of some of the records: no number of records can be promised before."
            )
        noise = stages[0].noise
        # n records are stopped when noise <= -(n - at_least + 1)
        return least_integer(
            lambda n: noise.falls_short(n - gate.at_least + 1, beta), above=-1, first=1
        )

    def _refuse_too_few(self, n: int) -> None:
        least = self.fewest_records()
        if n < least:
            enough = self.minimum_n()
            more = f" (and rarely abstains with {enough} that suit it)" if enough > least else ""
            records = "1 record" if n == 1 else f"{n} records"
            raise ValueError(
                f"The data have {records}; this mechanism needs at least {least}{more}. "
                "(Under replace the number of records is public, so this refusal reveals nothing.)"
            )

    def _stage(self, name: str) -> Stage:
        return next(stage for stage in stages_of(self.fixed_plan) if stage.name == name)


def laws_on(asked: Sequence[tuple[Mechanism[Any], Chunks]]) -> list[Law]:
    """Return the laws of several mechanisms on chunks, by one pass over all that come from one
    source.

    Raises TypeError and, for noise that is not drawn, ValueError before anything is read;
    SourceFailed; ValueError under replace for too few records.
    """
    for one, _ in asked:
        one.require_drawable()
    jobs = [
        (Job(one.fixed_plan, chunks, one.adjacency, one.domain), type(one).__name__)
        for one, chunks in asked
    ]
    chunk_laws = laws(jobs)
    for (one, _), law in zip(asked, chunk_laws, strict=True):
        if one.adjacency is Adjacency.REPLACE:
            one._refuse_too_few(law.records)
    return chunk_laws


def _still(made: Callable[[Fraction], Guarantee]) -> str:
    """Describe what much more noise leaves, where no noise is enough; nothing where there is no
    such noise.
    """
    try:
        far = made(Fraction(_FAR))
    except ValueError:
        return ""
    return (
        f", and at 2^100 still {brief(str(far))}: values are rounded to the noise's unit, which "
        "costs that much whatever the noise is. Give a larger budget"
        if isinstance(far, GaussianDP) and far.mu_squared * _FAR > 1
        else f", and at 2^100 {brief(str(far))}"
    )


def _is_about(claim: PrivacyClaim, adjacency: Adjacency, domain: Domain) -> bool:
    """Return whether a claim is about this adjacency and domain, with its replacement, which equal
    domains need not share.
    """
    covered = claim.domain
    if claim.adjacency is not adjacency or not isinstance(covered, Domain):
        return False
    return (covered, covered.replacement) == (domain, domain.replacement)


def _by_budget(constructed: str) -> str:
    """Rewrite an example of a constructor's call as one of ``for_budget``."""
    name, _, parameters = constructed.partition("(")
    return f"{name}.for_budget(ApproxDP(1, '1e-6'), {parameters}"


_FAR = 1 << 100  # beside this multiplier only rounding is left of a claim
_MOST_RECORDS = 1 << 60
_ADJACENCIES = (
    "write Adjacency.ADD_REMOVE (the number of rows is private) or Adjacency.REPLACE "
    "(it is public)."
)
_NO_ADJACENCY = f"adjacency is missing, and has no default; {_ADJACENCIES}"
_AN_EXAMPLE = "BoundedMean.for_budget(PureDP(1), adjacency=Adjacency.REPLACE, lower=0, upper=1)"
_NOT_A_BUDGET = "{!r} is not a guarantee; write PureDP(1) or ApproxDP(1, '1e-6')."
